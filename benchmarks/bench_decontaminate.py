"""The check of documents against a million 13-grams of benchmarks: CPU time on one core, beside a Python set of joined strings.

    python benchmarks/bench_decontaminate.py [--datatrove PYTHON] [--rounds 5] > benchmarks/results/decontaminate.md

Items: all texts of the sets in `06_benchmarks` of `$CURATE_DATA`, and passages of every second book of `04_books` until a
million distinct 13-grams are reached. Documents: passages of the other books, the code of `05_code`, the pages of `03_raw_html`;
every tenth has an item in its middle. The contestants take turns in one process; each checks all documents and says at
which word an n-gram was found. The run fails if one place differs.

The set is asked in the usual way: a document's words, each 13 of them joined with blanks, looked up. Its words are those of
`normal_words`, so that the same is found. What it would cost with the quickest words there are (`re.findall` over
`text.lower()`) is measured as well: other n-grams, and a lower bound. DATATROVE is an environment with datatrove and spaCy;
its filter's steps take the first documents only. Writes Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import itertools
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
NGRAM = 13
WANTED = 1_000_000  # distinct n-grams of the items
PASSAGE = 4000  # characters of a document, about
MEGABYTES = 15.0  # of documents
TARGET = 20
DATATROVE_DOCUMENTS = 80
Places = list[list[int]]  # of each document, the words at which an n-gram of the items begins


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    before = cpu_seconds()
    found = work()
    return cpu_seconds() - before, found


# ---- texts


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def passages(text: str) -> Iterator[str]:
    passage = ""
    for line in text.splitlines(keepends=True):
        passage += line
        if len(passage) > PASSAGE:
            yield passage
            passage = ""
    if passage.strip():
        yield passage


def benchmark_texts() -> list[str]:
    from curate.benchmarks.items import read_items

    files = sorted((DATA / "06_benchmarks").glob("*.jsonl.gz"))
    return [
        text
        for path in files
        if path.name != "index.jsonl.gz"
        for item in read_items(str(path))
        for text in (part.text for part in item.parts)
    ]


def documents(items: list[str]) -> list[str]:
    from fastwarc.warc import ArchiveIterator, WarcRecordType
    from resiliparse.extract.html2text import extract_plain_text

    books = [row["text"] for row in lines(DATA / "04_books" / "books.jsonl.gz")][1::2]
    code = [row["text"] for row in lines(DATA / "05_code" / "code.jsonl.gz")]
    with (DATA / "03_raw_html" / "raw.warc.gz").open("rb") as file:
        records = ArchiveIterator(file, record_types=WarcRecordType.response)
        web = [extract_plain_text(record.reader.read().decode("utf-8", "replace")) for record in records]
    found: list[str] = []
    for texts in (web, books, code):
        size = 0.0
        for passage in (passage for text in texts for passage in passages(text)):
            size += len(passage.encode()) / 1e6
            if size > MEGABYTES / 3:
                break
            if len(found) % 10 == 0:
                half = passage.rfind("\n", 0, len(passage) // 2) + 1
                passage = f"{passage[:half]}\n{items[len(found) * 7919 % len(items)]}\n{passage[half:]}"
            found.append(passage)
    return found


# ---- contestants


def joined_ngrams(words: list[str]) -> list[str]:
    return [" ".join(words[at : at + NGRAM]) for at in range(len(words) - NGRAM + 1)]


def quick_words(text: str) -> list[str]:
    return re.findall("[a-z0-9]+", text.lower())


def check_set(texts: list[str], held: set[str], words_of: Callable[[str], list[str]]) -> Places:
    return [[at for at, ngram in enumerate(joined_ngrams(words_of(text))) if ngram in held] for text in texts]


def build_set(items: list[str], words_of: Callable[[str], list[str]]) -> set[str]:
    return {ngram for text in items for ngram in joined_ngrams(words_of(text))}


def build_lookup(items: list[str]) -> Any:
    import numpy as np
    import pyarrow as pa

    from curate.decontaminate.lookup import Lookup
    from curate.decontaminate.ngrams import ngram_hashes
    from curate.decontaminate.normal_hashes import normal_hashes
    from curate.words import text_arrays

    words, offsets = normal_hashes(*text_arrays(pa.array(items, pa.large_string())))
    grams = [ngram_hashes(words[a:b], NGRAM) for a, b in itertools.pairwise(offsets)]
    hashes = np.unique(np.concatenate(grams))
    nothing = np.zeros(0, np.uint64)
    return Lookup(hashes, np.ones(len(hashes), np.bool_), NGRAM, NGRAM, nothing, np.zeros(0, np.int64))


def check_batches(batches: list[Any], lookup: Any) -> Any:
    from curate.decontaminate.normal_hashes import normal_hashes
    from curate.words import text_arrays

    found = []
    for batch in batches:
        words, offsets = normal_hashes(*text_arrays(batch["text"]))
        found.append((lookup.find(words, offsets)[0], offsets))
    return found


def places_of(found: Any) -> Places:
    import numpy as np

    places: Places = []
    for place, offsets in found:
        ends = np.searchsorted(place, offsets)
        places += [(place[a:b] - first).tolist() for a, b, first in zip(ends[:-1], ends[1:], offsets[:-1], strict=True)]
    return places


def measured_index(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return the index of the real sets as `decontaminate` builds it, and what it costs."""
    from curate.decontaminate.index import Index, build_index
    from curate.decontaminate.settings import Decontaminate

    files = [(path.name, str(path)) for path in sorted((DATA / "06_benchmarks").glob("*.jsonl.gz"))]
    settings = Decontaminate(benchmarks=("unused",))
    seconds, _ = timed(lambda: build_index(files, settings, str(folder / "index.parquet")))
    load, index = timed(lambda: Index.load(str(folder / "index.parquet")))
    return index, {"build": seconds, "load": load, "bytes": (folder / "index.parquet").stat().st_size}


def datatrove(path: str, out: str) -> None:
    """The steps of NGramsDecontFilter: simplified text, spaCy's words, the hash of each 12 joined, looked up in a set."""
    from datatrove.pipeline.decont.n_grams import NGramsDecontConfig
    from datatrove.utils.hashing import create_hash_func
    from datatrove.utils.text import ngrams, simplify_text
    from datatrove.utils.word_tokenizers import load_word_tokenizer

    given = json.loads(Path(path).read_text(encoding="utf-8"))
    settings = NGramsDecontConfig()
    hashed, tokenizer = create_hash_func(settings.hash_config), load_word_tokenizer("en")

    def hashes(text: str) -> list[int]:
        words = tokenizer.word_tokenize(simplify_text(text, settings.norm_config))
        return [hashed(" ".join(ngram)) for ngram in ngrams(words, settings.n_grams)]

    held = {value for text in given["items"] for value in hashes(text)}
    seconds, found = timed(lambda: [any(value in held for value in hashes(text)) for text in given["documents"]])
    version = importlib.metadata.version("datatrove")
    Path(out).write_text(json.dumps({"seconds": seconds, "found": sum(found), "version": version}))


def run_datatrove(python: str, texts: list[str], items: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "in.json", Path(folder) / "out.json"
        path.write_text(json.dumps({"documents": texts, "items": items}), encoding="utf-8")
        command = [python, __file__, "--one", str(path), "--out", str(out)]
        subprocess.run(command, env=os.environ | ONE_THREAD, check=True, stdout=sys.stderr)
        return json.loads(out.read_bytes())  # type: ignore[no-any-return]


# ---- the table


def measure(rounds: int, python: str | None) -> None:
    import pyarrow as pa

    from curate.decontaminate.normal import normal_words
    from curate.decontaminate.runs import overlaps
    from curate.pipeline import BATCH_ROWS

    items = benchmark_texts()
    own = len({ngram for text in items for ngram in joined_ngrams(normal_words(text))})
    more = [
        passage for row in list(lines(DATA / "04_books" / "books.jsonl.gz"))[::2] for passage in passages(row["text"])
    ]
    held: set[str] = build_set(items, normal_words)
    num_real = len(items)
    for passage in more:
        if len(held) >= WANTED:
            break
        items.append(passage)
        held.update(joined_ngrams(normal_words(passage)))
    texts = documents(items)
    build_of_set, held = timed(lambda: build_set(items, normal_words))
    quick = build_set(items, quick_words)
    build_lookup(items[:10])
    build, lookup = timed(lambda: build_lookup(items))
    assert len(lookup.table.hashes) == len(held), "two n-grams have one hash, or one has two"
    batches = pa.table({"text": pa.array(texts, pa.large_string())}).to_batches(BATCH_ROWS)
    with tempfile.TemporaryDirectory() as folder:
        index, cost = measured_index(Path(folder))
    check_batches(batches[:1], lookup)
    overlaps(batches[0].slice(0, 10), index)
    seconds: dict[str, list[float]] = {name: [] for name in ("curate", "set", "quick", "measure", "datatrove")}
    for _ in range(rounds):
        spent, found = timed(lambda: check_batches(batches, lookup))
        seconds["curate"].append(spent)
        spent, expected = timed(lambda: check_set(texts, held, normal_words))
        seconds["set"].append(spent)
        assert places_of(found) == expected, "the places differ"
        seconds["quick"].append(timed(lambda: check_set(texts, quick, quick_words))[0])
        seconds["measure"].append(timed(lambda: [overlaps(batch, index) for batch in batches])[0])
        if python:
            theirs = run_datatrove(python, texts[:DATATROVE_DOCUMENTS], items[:2000])
            seconds["datatrove"].append(theirs["seconds"])
    write(items, num_real, own, len(held), texts, expected, seconds)
    write_costs(build, build_of_set, index, cost, lookup, theirs["version"] if python else "")


def write(
    items: list[str],
    num_real: int,
    own: int,
    num_ngrams: int,
    texts: list[str],
    expected: Places,
    seconds: dict[str, list[float]],
) -> None:
    """Print what was checked, and how fast."""
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    of_datatrove = sum(len(text.encode()) for text in texts[:DATATROVE_DOCUMENTS]) / 1e6
    ascii_share = sum(len(text.encode()) for text in texts if text.isascii()) / 1e6 / megabytes
    digest = hashlib.sha256("".join([*items, *texts]).encode()).hexdigest()[:16]
    print("# Decontamination\n")
    print(
        "`python benchmarks/bench_decontaminate.py --datatrove PYTHON`: documents against the 13-grams of benchmarks. One core,"
    )
    print(
        f"CPU seconds (user and system), medians of {len(seconds['curate'])} rounds in which the contestants take turns.\n"
    )
    print(
        f"Items: {num_real:,} texts of all sets in `06_benchmarks` ({own:,} distinct {NGRAM}-grams) and {len(items) - num_real:,}"
    )
    print(
        f"passages of every second book of `04_books`: {num_ngrams:,} distinct {NGRAM}-grams."
        f"\nDocuments: {len(texts):,}, {megabytes:.1f} MB,"
    )
    print(
        "a third each of pages of `03_raw_html`, of the other books and of the code of `05_code`, an item in every tenth;"
    )
    print(f"{100 * ascii_share:.0f}% of the bytes in documents that are all ASCII. sha256 `{digest}`.\n")
    with_hits, hits = sum(map(bool, expected)), sum(map(len, expected))
    print(f"Found: {hits:,} places in {with_hits:,} documents, the same by `curate` and the set, place by place.\n")
    print("| | MB/s | curate is faster by | what is timed |")
    print("| --- | --- | --- | --- |")
    rows = {
        "curate": (megabytes, "text of Arrow batches to normal words, rolling hash, filter, table: the places"),
        "set": (megabytes, "Python set of joined strings, the same words (`normal_words`)"),
        "quick": (
            megabytes,
            "the same with the quickest words, `re.findall('[a-z0-9]+', text.lower())`: other n-grams",
        ),
        "datatrove": (
            of_datatrove,
            f"the steps of NGramsDecontFilter (spaCy's words, 12-grams), {DATATROVE_DOCUMENTS} documents, 2000 items",
        ),
        "measure": (megabytes, "what a run does: the real sets' index with n-grams of 5 to 13 words, runs, `matches`"),
    }
    ratios: dict[str, float] = {}
    for name, (size, what) in rows.items():
        if not seconds[name]:
            continue
        rates = [size / spent for spent in seconds[name]]
        each = [(megabytes / a) / rate for a, rate in zip(seconds["curate"], rates, strict=True)]
        ratios[name] = statistics.median(each)
        shown = "" if name == "curate" else f"{ratios[name]:.1f} ({min(each):.1f} to {max(each):.1f})"
        print(f"| {name} | {statistics.median(rates):.3g} | {shown} | {what} |")
    verdict = "met" if ratios["set"] >= TARGET else "**missed**"
    print(f"\n- A set of joined strings: {ratios['set']:.1f} times, where at least {TARGET} were wished: {verdict}.")
    verdict = "met" if ratios["quick"] >= TARGET else "missed"
    print(
        f"- A set with the quickest words there are, which finds something else: {ratios['quick']:.1f} times ({verdict}).\n"
    )


def write_costs(
    build: float, build_of_set: float, index: Any, cost: dict[str, Any], lookup: Any, datatrove_version: str
) -> None:
    """Print what building costs, and memory."""
    import numpy as np

    from curate.decontaminate.lookup import Lookup

    print(f"Building: {build:.1f} s for the tables, {build_of_set:.1f} s for the set. The index of the real sets")
    print(
        f"({len(index.hashes):,} n-grams of {index.shortest} to {index.ngram} words): {cost['build']:.1f} s to build,"
        f" {cost['load']:.1f} s to load, {cost['bytes'] / 1e6:.0f} MB on disk."
    )
    draw = np.random.default_rng(1)
    many = np.unique(draw.integers(0, 1 << 64, 10_000_000, np.uint64))
    nothing = np.zeros(0, np.uint64)
    tables = Lookup(many, np.ones(len(many), np.bool_), NGRAM, NGRAM, nothing, np.zeros(0, np.int64))
    print(
        f"Memory: tables of {lookup.nbytes / 1e6:.0f} MB for {len(lookup.table.hashes):,} n-grams, "
        f"{tables.nbytes / 1e6:.0f} MB for {len(many):,};"
    )
    per = memory_of(index) / max(1, len(index.hashes))
    print(
        f"all arrays of the real sets' index, texts included: {memory_of(index) / 1e6:.0f} MB, {per:.0f} bytes an n-gram.\n"
    )
    print(f"Versions: Python {platform.python_version()}, numba {importlib.metadata.version('numba')}", end="")
    print(f", datatrove {datatrove_version}." if datatrove_version else ".")
    print(
        f"Machine: {cpu_model()}, {os.cpu_count()} cores, {platform.system()}; load at the end {os.getloadavg()[1]:.1f}."
    )


def memory_of(index: Any) -> int:
    import numpy as np

    arrays = [value for value in vars(index).values() if isinstance(value, np.ndarray)]
    return sum(array.nbytes for array in [*arrays, *index.marks]) + index.texts.nbytes + index.lookup.nbytes


def cpu_model() -> str:
    found = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(": ")[2] for line in found if line.startswith("model name")), platform.processor())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datatrove")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    if arguments.one:
        datatrove(arguments.one, arguments.out)
    else:
        measure(arguments.rounds, arguments.datatrove)


if __name__ == "__main__":
    main()
