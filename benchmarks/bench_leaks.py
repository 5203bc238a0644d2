"""Planted leaks of 16 real benchmark sets, and what is found in text that holds none.

    python benchmarks/bench_leaks.py [--per-set 100] > benchmarks/results/leaks.md

Texts of `$CURATE_DATA`: items of 06_benchmarks, put between paragraphs of 03_raw_html (plain text by resiliparse), 04_books
and 05_code as `planted_leaks.py` says. A leak counts as found if decontamination, with its defaults, names the planted item.
False positives: every distinct paragraph of 13 words or more of 03, 04 and 05 against all sets, and every whole document.

Fails if less than 97% are found in a way that the aim names, if a set or an item is not accounted for, or if a hit in text
without a leak is none of those that were read (`READ`).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import os
import platform
import re
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import planted_leaks
import pyarrow as pa
from planted_leaks import NAMED, RENDERINGS, WAYS, Leak, read_jsonl
from scipy import stats

from curate.benchmarks.items import read_items
from curate.decontaminate.decide import Common, decide
from curate.decontaminate.index import Index, build_index
from curate.decontaminate.normal_hashes import normal_hashes
from curate.decontaminate.runs import overlaps
from curate.decontaminate.settings import Decontaminate
from curate.words import text_arrays

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
LEAST = 0.97
MIN_WORDS = 13  # of a paragraph
ROWS = 500
# Hits in text without a planted leak that were read, and what they are.
_FOX = "the pangram that this item tests with, quoted whole: its words, but no leak of it"
_BEGINNING = "by chance: Octave's manual has “write a function to compute the value of the given function”"
READ: dict[tuple[str, str], str] = {
    ("mbpp", "186"): _FOX,
    ("mbpp", "607"): _FOX,
    ("mbpp", "402"): _BEGINNING,
    ("mbpp", "952"): _BEGINNING,
}


@dataclass(frozen=True)
class Hit:
    """A document or paragraph in which an item was found."""

    source: str
    number: int
    benchmark: str
    item: str
    overlap: float
    words: int
    span: str


# ---- inputs


def real_texts() -> dict[str, list[str]]:
    """Return the texts of 03, 04 and 05."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    pages = []
    with (DATA / "03_raw_html" / "raw.warc.gz").open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response):
            data = record.reader.read()
            pages.append(extract_plain_text(bytes_to_str(data, detect_encoding(data))))
    return {
        "03_raw_html": pages,
        "04_books": [row["text"] for row in read_jsonl(DATA / "04_books" / "books.jsonl.gz")],
        "05_code": [row["text"] for row in read_jsonl(DATA / "05_code" / "code.jsonl.gz")],
    }


def paragraphs_of(texts: Iterable[str]) -> list[str]:
    """Return the distinct paragraphs, parted by empty lines, sorted."""
    return sorted({part.strip() for text in texts for part in re.split(r"\n\s*\n", text)} - {""})


def hosts_of(texts: dict[str, list[str]]) -> list[str]:
    """Return paragraphs to plant leaks between: 4,000 by hash, of 150 to 700 characters."""
    some = [part for of in texts.values() for part in paragraphs_of(of) if 150 <= len(part) <= 700]
    return sorted(some, key=lambda part: hashlib.blake2b(part.encode()).digest())[:4000]


def index_of(settings: Decontaminate, folder: Path) -> tuple[Index, dict[str, Any]]:
    files = [(name, str(DATA / "06_benchmarks" / f"{name}.jsonl.gz")) for name in RENDERINGS]
    path = str(folder / "index.parquet")
    built = build_index(files, settings, path)
    return Index.load(path), built["benchmarks"]


def batches_of(texts: Sequence[str], index: Index) -> Iterator[pa.RecordBatch]:
    """Yield the texts with what decontamination measures, as `curate run` has it."""
    for at in range(0, len(texts), ROWS):
        some = texts[at : at + ROWS]
        ids = pa.array([str(number) for number in range(at, at + len(some))])
        batch = pa.RecordBatch.from_arrays([ids, pa.array(some, pa.large_string())], names=["id", "text"])
        yield batch.append_column("matches", overlaps(batch, index)["matches"])


def num_words(texts: Sequence[str]) -> np.ndarray:
    """Return how many words each text has, as decontamination counts them."""
    lengths = []
    for at in range(0, len(texts), 10_000):
        column = pa.array(texts[at : at + 10_000], pa.large_string())
        lengths.append(np.diff(normal_hashes(*text_arrays(column))[1]))
    return np.concatenate(lengths)


def hits_of(source: str, texts: Sequence[str], index: Index, settings: Decontaminate) -> list[Hit]:
    rows = decide(batches_of(texts, index), index, Common.none(index), settings).contamination.to_pylist()
    names = ("benchmark", "item", "overlap", "words", "span")
    return [Hit(source, int(row["id"]), *(row[name] for name in names)) for row in rows]


# ---- figures


def interval(found: int, total: int) -> str:
    """Return the 95% interval of a share (Clopper and Pearson 1934)."""
    low = stats.beta.ppf(0.025, found, total - found + 1) if found else 0.0
    high = stats.beta.ppf(0.975, found + 1, total - found) if found < total else 1.0
    return f"{low:.1%} to {high:.1%}"


def upper(found: int, total: int) -> float:
    """Return the upper end of the one-sided 95% interval; 3 / total, nearly, if none was found."""
    return float(stats.beta.ppf(0.95, found + 1, total - found))


def share(pairs: Sequence[tuple[Leak, bool]], enough: bool = True) -> tuple[int, int]:
    of = [found for leak, found in pairs if leak.is_long_enough or not enough]
    return sum(of), len(of)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print()


def quoted(text: str, most: int = 160) -> str:
    flat = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return f"`{flat if len(flat) <= most else flat[: most - 1] + '…'}`"


def print_leaks(pairs: Sequence[tuple[Leak, bool]]) -> None:
    rows = []
    for way in WAYS:
        of = [pair for pair in pairs if pair[0].way == way]
        (found, total), (all_found, everything) = share(of), share(of, enough=False)
        name = way if way in NAMED else f"{way} (beyond the aim)"
        shares = (f"**{found / total:.1%}**", interval(found, total), f"{all_found / everything:.1%}")
        rows.append((name, everything, total, found, *shares))
    named = [pair for pair in pairs if pair[0].way in NAMED]
    (found, total), (all_found, everything) = share(named), share(named, enough=False)
    shares = (f"**{found / total:.1%}**", interval(found, total), f"{all_found / everything:.1%}")
    rows.append(("**all seven that the aim names**", everything, total, found, *shares))
    head = ("way", "planted", "long enough", "of these found", "share", "95% interval", "found of all planted")
    table(head, rows)
    print("Share found of those that are long enough, by set (- : none).\n")
    rows = []
    for name in RENDERINGS:
        cells = []
        for way in WAYS:
            found, total = share([pair for pair in pairs if (pair[0].benchmark, pair[0].way) == (name, way)])
            cells.append(f"{found / total:.0%} of {total}" if total else "-")
        rows.append((name, *cells))
    table(("set", *WAYS), rows)
    print("By what was drawn within a way.\n")
    rows = []
    for way in WAYS:
        for variant in sorted({leak.variant for leak, _ in pairs if leak.way == way}):
            found, total = share([pair for pair in pairs if (pair[0].way, pair[0].variant) == (way, variant)])
            rows.append((way, variant, total, f"{found / total:.1%}" if total else "-"))
    table(("way", "variant", "long enough", "found"), rows)
    print("Not found, though long enough: the first of each way and set.\n")
    shown: dict[tuple[str, str], Leak] = {}
    for leak, found in pairs:
        if not found and leak.is_long_enough:
            shown.setdefault((leak.way, leak.benchmark), leak)
    table(("way", "set", "planted"), [(way, name, quoted(leak.planted)) for (way, name), leak in shown.items()])


def print_untested(built: dict[str, Any]) -> None:
    rows = []
    for name, about in built.items():
        reasons = Counter(entry["reason"] for entry in about["untested"])
        told = "; ".join(f"{count} {reason}" for reason, count in reasons.items()) or "-"
        examples = ", ".join(quoted(entry["text"], 40) for entry in about["untested"][:3])
        rows.append((name, about["items"], about["items_tested"], told, examples))
    table(("set", "items", "tested", "not tested", "such as"), rows)
    items, tested = (sum(about[key] for about in built.values()) for key in ("items", "items_tested"))
    print(f"{tested} of {items} items ({tested / items:.2%}) are tested; every other is named in the run's report.\n")


def print_hits(kind: str, totals: dict[str, int], hits: Sequence[Hit]) -> None:
    rows = []
    for source in [*totals, "all"]:
        of = {(hit.source, hit.number) for hit in hits if source in (hit.source, "all")}
        total = totals[source] if source in totals else sum(totals.values())
        rows.append((source, total, len(of), f"{upper(len(of), total):.4%}"))
    table(("source", kind, "with a hit", "upper 95% bound of the share"), rows)


def print_read(hits: Sequence[Hit]) -> None:
    best: dict[tuple[str, str], Hit] = {}
    counts = Counter((hit.benchmark, hit.item) for hit in hits)
    for hit in hits:
        key = (hit.benchmark, hit.item)
        best[key] = max(best.get(key, hit), hit, key=lambda one: (one.overlap, one.words))
    rows = []
    for key, hit in sorted(best.items()):
        what = READ.get(key, "**not read**")
        rows.append(("/".join(key), counts[key], f"{hit.overlap:.2f}", hit.words, what, quoted(hit.span)))
    table(("item", "texts", "highest score", "words", "read: what it is", "longest stretch"), rows)


def sweep(leaks: Sequence[Leak], paragraphs: dict[str, list[str]], names: dict[str, list[str]], folder: Path) -> None:
    """Print what other lengths and thresholds would find, on a fifth of the leaks and of the paragraphs."""
    some = [leak for leak in leaks if leak.way in NAMED and leak.item % 5 == 0 and leak.is_long_enough]
    rows = []
    for changes in ({}, {"min_ngram": 4}, {"min_ngram": 8}, {"answers": "apart"}):
        settings = Decontaminate(benchmarks=("06",), threshold=0.2, **changes)
        index, _ = index_of(settings, folder)
        found = hits_of("", [leak.document for leak in some], index, settings)
        clean = [hit for source, texts in paragraphs.items() for hit in hits_of(source, texts[::5], index, settings)]
        best: dict[int, float] = {}
        for hit in found:
            leak = some[hit.number]
            if (hit.benchmark, hit.item) == (leak.benchmark, names[leak.benchmark][leak.item]):
                best[hit.number] = max(best.get(hit.number, 0.0), hit.overlap)
        shares = []
        for threshold in (0.25, 0.35, 0.4, 0.5):
            false = len({(hit.source, hit.number) for hit in clean if hit.overlap >= threshold})
            shares.append(f"{sum(score >= threshold for score in best.values()) / len(some):.1%}, {false}")
        rows.append((", ".join(f"{key} {value}" for key, value in changes.items()) or "defaults", *shares))
    num_clean = sum(len(texts[::5]) for texts in paragraphs.values())
    print(
        f"Found of {len(some)} leaks in the ways that the aim names, and hits in {num_clean} paragraphs, by threshold.\n"
    )
    table(("settings", "0.25", "0.35", "0.4", "0.5"), rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--per-set", type=int, default=100)
    parser.add_argument("--no-sweep", action="store_true")
    chosen = parser.parse_args()
    settings = Decontaminate(benchmarks=("06",))
    texts = real_texts()
    hosts = hosts_of(texts)
    paragraphs = {source: paragraphs_of(of) for source, of in texts.items()}
    for source, of in paragraphs.items():
        paragraphs[source] = [part for part, length in zip(of, num_words(of), strict=True) if length >= MIN_WORDS]
    leaks = list(planted_leaks.plant(DATA / "06_benchmarks", hosts, chosen.per_set))
    digest = hashlib.sha256("\0".join(leak.document for leak in leaks).encode("utf-8", "surrogatepass")).hexdigest()
    names = {
        name: [item.id for item in read_items(str(DATA / "06_benchmarks" / f"{name}.jsonl.gz"))] for name in RENDERINGS
    }

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        index, built = index_of(settings, folder)
        found = {
            (hit.number, hit.benchmark, hit.item)
            for hit in hits_of("", [leak.document for leak in leaks], index, settings)
        }
        pairs = [
            (leak, (number, leak.benchmark, names[leak.benchmark][leak.item]) in found)
            for number, leak in enumerate(leaks)
        ]
        in_paragraphs = [hit for source, of in paragraphs.items() for hit in hits_of(source, of, index, settings)]
        in_documents = [hit for source, of in texts.items() for hit in hits_of(source, of, index, settings)]

        print("# Planted leaks and false positives\n")
        print(
            "`python benchmarks/bench_leaks.py`: decontamination with its defaults against items of 16 real sets, planted in\n"
            "real text in each way (`planted_leaks.py`), and against every paragraph and document of that text without them.\n"
            f"{len(leaks)} leaks, sha256 `{digest[:16]}`. A leak is found if the planted item is named, which takes a score of\n"
            f"{settings.threshold}. Long enough: {planted_leaks.SHORTEST} words of question and answer stand there together"
            " (`partial`: of the part of the question\nthat was planted; `interleaved`: of the question, as none of its "
            "sentences stands beside an answer).\n"
        )
        print_leaks(pairs)
        print("## Items that are not looked for\n")
        print_untested(built)
        print("## False positives\n")
        print(
            f"Every distinct paragraph (parted by empty lines) of {MIN_WORDS} words or more, without regard to how many clusters\n"
            "hold a phrase. Bound: one-sided, Clopper and Pearson.\n"
        )
        print_hits("paragraphs", {source: len(of) for source, of in paragraphs.items()}, in_paragraphs)
        print_hits("whole documents", {source: len(of) for source, of in texts.items()}, in_documents)
        print_read([*in_paragraphs, *in_documents])
        if not chosen.no_sweep:
            print("## Other settings\n")
            sweep(leaks, paragraphs, names, folder)
    libraries = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "pyarrow", "resiliparse"))
    seconds = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    print(f"Python {platform.python_version()}, {libraries}; {platform.machine()}; {seconds:.0f} CPU seconds.")

    lacking = [way for way in NAMED if (of := share([pair for pair in pairs if pair[0].way == way]))[0] < LEAST * of[1]]
    if lacking:
        sys.exit(f"fewer than {LEAST:.0%} found: {', '.join(lacking)}")
    if any(about["items"] != about["items_tested"] + len(about["untested"]) for about in built.values()):
        sys.exit("an item is neither tested nor named")
    if unread := {(hit.benchmark, hit.item) for hit in [*in_paragraphs, *in_documents]} - READ.keys():
        sys.exit(f"hits that nobody has read: {sorted(unread)}")


if __name__ == "__main__":
    main()
