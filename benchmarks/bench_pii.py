"""Personal data, secrets and listed words in real texts: finds, pages that lists of words remove, CPU time beside datatrove.

    python benchmarks/bench_pii.py --peer PYTHON > benchmarks/results/pii.md

PYTHON is that of an environment with datatrove, which runs as a process of its own; it gets its word list from
`$CURATE_DATA/08_wordlists`. Texts: 02_gold texts, 03_raw_html pages as they are, 04_books in pieces of 4,000 characters, 05_code. Writes
Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
PIECE = 4000  # characters of a book
REPEATS = 3


# ---- texts


def gold() -> Iterator[dict[str, Any]]:
    for path in sorted((DATA / "02_gold").glob("*/gold.jsonl")):
        with path.open(encoding="utf-8") as file:
            yield from (page for page in map(json.loads, file) if page.get("text"))


def texts(name: str) -> list[str]:
    if name == "gold pages":
        return [page["text"] for page in gold()]
    if name == "HTML":
        from fastwarc.warc import ArchiveIterator

        with (DATA / "03_raw_html" / "raw.warc.gz").open("rb") as file:
            return [record.reader.read().decode("utf-8", "replace") for record in ArchiveIterator(file)]
    path = DATA / ("04_books/books.jsonl.gz" if name == "books" else "05_code/code.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = [json.loads(line)["text"] for line in file]
    if name == "code":
        return found
    return [text[start : start + PIECE] for text in found for start in range(0, len(text), PIECE)]


SETS = ("books", "gold pages", "code", "HTML")


# ---- datatrove, in its own environment


def peer(folder: Path) -> None:
    """Print the CPU seconds of datatrove's two steps over the texts in `folder`, by set."""
    import datatrove.pipeline.filters.c4_filters as c4
    from datatrove.data import Document
    from datatrove.pipeline.formatters import PIIFormatter

    lists = json.loads((DATA / "08_wordlists" / "ldnoobw.json").read_text(encoding="utf-8"))
    (folder / "en").write_text("\n".join(lists["en"]), encoding="utf-8")
    c4.cached_asset_path_or_download = lambda *_, **__: str(folder / "en")
    steps = {"pii": PIIFormatter().format, "bad_words": c4.C4BadWordsFilter().filter}
    seconds = {}
    for name in SETS:
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for step, run in steps.items():
            inputs = found if step == "pii" else [Document(text=text, id="") for text in found]
            run(inputs[0])
            start = time.process_time()
            for one in inputs:
                run(one)
            seconds[f"{step} {name}"] = time.process_time() - start
    print(json.dumps(seconds))


def peer_seconds(python: str | None) -> dict[str, float]:
    if python is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        for name in SETS:
            (Path(folder) / f"{name}.json").write_text(json.dumps(texts(name)), encoding="utf-8")
        command = [python, __file__, "--as-peer", folder]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env=os.environ | {"CURATE_DATA": str(DATA)}
        )
        result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return result


# ---- ours


def batch_of(found: list[str]) -> Any:
    import pyarrow as pa

    columns = {"text": pa.array(found, pa.large_string()), "language": pa.array(["en"] * len(found))}
    return pa.record_batch(columns | {"id": pa.array([""] * len(found))})


def cpu_seconds(run: Callable[[], Any]) -> float:
    run()
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def report(python: str | None) -> None:
    from curate.filter.toxic import BadWords
    from curate.rewrite.pii import Pii

    regions = ("US", "GB", "BR", "PT", "DE", "FR", "ES", "NL")
    numbers = {"phones": True, "phone_regions": regions, "national_ids": "all", "ibans": True, "payment_cards": True}
    steps = {
        "pii: {}": Pii(),
        "pii, every number": Pii(**numbers),
        "pii, every number and secrets": Pii(**numbers, secrets=True),
        "bad_words: {}": BadWords(),
    }
    theirs = peer_seconds(python)
    print("# Personal data, secrets and listed words\n")
    print(f"{platform.platform()}, Python {platform.python_version()}; CPU time, best of {REPEATS}; datatrove once.\n")
    finds, speeds, digest = [], [], hashlib.sha256()
    for name in SETS:
        found = texts(name)
        batch = batch_of(found)
        for text in found:
            digest.update(text.encode("utf-8", "surrogatepass"))
        size = sum(len(text.encode("utf-8", "surrogatepass")) for text in found) / 1e6
        counts = steps["pii, every number and secrets"].apply(batch)
        finds.append([name, f"{size:.1f}", *(str(sum(counts[column].to_pylist())) for column in Pii.adds)])
        rates = [
            f"{size / cpu_seconds(lambda step=step, batch=batch: step.apply(batch)):.0f}" for step in steps.values()
        ]
        others = [f"{size / theirs[f'{step} {name}']:.1f}" if theirs else "-" for step in ("pii", "bad_words")]
        speeds.append([name, *rates, *others])
    print(f"Texts: sha256 of all {digest.hexdigest()[:16]}. National telephone form of {', '.join(regions)}.\n")
    table(["found in", "MB", *(column.removeprefix("num_") for column in Pii.adds)], finds)
    print("\nMegabytes a second of CPU time:\n")
    table(["texts", *steps, "datatrove PIIFormatter", "datatrove C4BadWordsFilter"], speeds)
    print("\n## Verified pages that a list of words removes\n")
    bad_words()


def bad_words() -> None:
    import pyarrow as pa

    from curate.filter.toxic import BadWords

    pages = list(gold())
    languages = [page["lang"] if len(page.get("lang") or "") == 2 else "en" for page in pages]
    columns = {"text": pa.array([page["text"] for page in pages], pa.large_string()), "language": pa.array(languages)}
    rows = BadWords().apply(pa.record_batch(columns | {"id": pa.array([""] * len(pages))})).to_pylist()
    total: Counter[str] = Counter()
    any_word: Counter[str] = Counter()
    share: Counter[str] = Counter()
    for page, language, row in zip(pages, languages, rows, strict=True):
        for kind in (f"{page.get('page_type') or 'article'}, {language}", "all"):
            total[kind] += 1
            any_word[kind] += row["num_bad_words"] > 0
            share[kind] += row["bad_word_char_fraction"] > 0.01
    shown = [kind for kind, count in total.most_common() if count >= 20]
    print("C4's rule is at least one listed word; ours more than 1% of the characters. Kinds with 20 pages or more.\n")
    found = [
        [kind, str(total[kind]), *(f"{100 * part[kind] / total[kind]:.1f}%" for part in (any_word, share))]
        for kind in shown
    ]
    table(["pages", "number", "C4's rule", "ours"], found)


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", help="Python of an environment with datatrove")
    parser.add_argument("--as-peer", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if arguments.as_peer is not None:
        peer(arguments.as_peer)
    else:
        report(arguments.peer)
