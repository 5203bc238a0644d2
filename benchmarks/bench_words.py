"""The splitters into words beside what they reproduce: CPU time on one core, tokens compared one by one.

    python benchmarks/bench_words.py [--peer PYTHON] [--rounds 5] [--megabytes 6] > benchmarks/results/words.md

PYTHON is that of an environment with spaCy 3.8. Texts of `$CURATE_DATA`: gold texts of pages (02_gold), books
(04_books), source code (05_code) and the declarations of 500 languages (09_langid), of each the first megabytes.
`tokens` is compared with the expression of `curate.words.split_words`, `english_tokens` with spaCy's English tokenizer,
`word_hashes` with `folded_words` and `hash_word`. The run fails if one token differs. Writes Markdown.

No splitter remembers anything between batches, so nothing has to warm up; that the first half of a corpus, the second
half, and all of it again go equally fast is shown all the same.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numba
import pyarrow as pa

from curate.pipeline import BATCH_ROWS
from curate.words import folded_words, hash_word, prepare_words, split_words, with_words

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
COLUMNS = ("tokens", "english_tokens", "word_hashes")
SPACY = """
import json, sys, time
import spacy
split = spacy.blank("en").tokenizer
texts = json.load(open(sys.argv[1], encoding="utf-8"))
split("The barge left.")
start = time.process_time()
tokens = [[token.text for token in split(text)] for text in texts]
spent = time.process_time() - start
json.dump([spacy.__version__, spent, [[token for token in row if token.strip()] for row in tokens]], sys.stdout)
"""


def corpora(megabytes: float) -> Iterator[tuple[str, list[str]]]:
    """Yield name and texts of each corpus, up to so many bytes."""
    yield "web pages", limited(gold(), megabytes)
    for name, pattern in (
        ("books", "04_books/books"),
        ("source code", "05_code/code"),
        ("500 languages", "09_langid/udhr"),
    ):
        yield name, limited(rows(DATA / f"{pattern}.jsonl.gz"), megabytes)


def gold() -> Iterator[str]:
    for path in sorted((DATA / "02_gold").glob("*/gold.jsonl")):
        with path.open(encoding="utf-8") as lines:
            yield from (json.loads(line).get("text") or "" for line in lines)


def rows(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from (json.loads(line)["text"] for line in lines)


def limited(texts: Iterator[str], megabytes: float) -> list[str]:
    chosen, size = [], 0
    for text in texts:
        chosen.append(text)
        size += len(text.encode())
        if size >= megabytes * 1e6:
            break
    return chosen


def batches(texts: Sequence[str]) -> list[pa.RecordBatch]:
    return pa.table({"text": pa.array(texts, pa.large_string())}).to_batches(BATCH_ROWS)


def splitter_rate(texts: Sequence[str], column: str) -> float:
    """Return of how many megabytes of text a CPU second `with_words` makes a column; `prepare_words` comes before."""
    given = batches(texts)
    start = time.process_time()
    for batch in given:
        with_words(batch, (column,))
    return sum(len(text.encode()) for text in texts) / 1e6 / (time.process_time() - start)


def strings(texts: Sequence[str], column: str) -> list[list[str]]:
    """Return the tokens of a column of `token_type` as strings."""
    found = []
    for batch in batches(texts):
        made = with_words(batch, (column,))
        for text, tokens in zip(made["text"].to_pylist(), made[column].to_pylist(), strict=True):
            data = text.encode()
            found.append([data[one["start"] : one["start"] + one["size"]].decode() for one in tokens])
    return found


def plain(texts: Sequence[str], column: str) -> tuple[float, list[list[str]] | list[list[int]]]:
    """Return the rate of the simple form of a column, and what it gives."""
    start = time.process_time()
    if column == "tokens":
        made: list[list[str]] | list[list[int]] = [split_words(text) for text in texts]
    else:
        made = [[hash_word(word) for word in folded_words(text)] for text in texts]
    return sum(len(text.encode()) for text in texts) / 1e6 / (time.process_time() - start), made


def by_spacy(python: str, texts: Sequence[str], folder: Path) -> tuple[str, float, list[list[str]]]:
    """Return spaCy's version, its rate and its tokens, those of white space taken out."""
    path = folder / "texts.json"
    path.write_text(json.dumps(texts), encoding="utf-8")
    done = subprocess.run([python, "-c", SPACY, str(path)], check=True, capture_output=True, text=True)
    version, seconds, tokens = json.loads(done.stdout)
    return version, sum(len(text.encode()) for text in texts) / 1e6 / seconds, tokens


def left_over(texts: Sequence[str]) -> float:
    """Return the share of runs without white space whose folded words the kernel leaves to Python."""
    runs = [run for text in texts for run in text.split()]
    several = {sign for sign in set("".join(runs)) if len(sign.casefold()) > 1}
    return sum(len(run.encode()) > 128 or not several.isdisjoint(run) for run in runs) / max(1, len(runs))


def processor() -> str:
    """Return the name of the processor, where Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", help="Python of an environment with spaCy")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=6)
    args = parser.parse_args()
    start = time.process_time()
    prepare_words(COLUMNS)
    prepared = time.process_time() - start
    peer = "not asked"
    table = [
        "| text | MB | column | first half, MB/s | second half | all again | reference | times | tokens that differ |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    shares = []
    digest = hashlib.sha256()
    for name, texts in corpora(args.megabytes):
        size = sum(len(text.encode()) for text in texts) / 1e6
        digest.update("\0".join(texts).encode())
        half = len(texts) // 2
        shares.append(f"{name} {100 * left_over(texts):.2f} %")
        for column in COLUMNS:
            rates = [
                [splitter_rate(part, column) for part in (texts[:half], texts[half:], texts)]
                for _ in range(args.rounds)
            ]
            first, second, again = (statistics.median(rate) for rate in zip(*rates, strict=True))
            if column == "english_tokens":
                if args.peer is None:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    peer, reference, expected = by_spacy(args.peer, texts, Path(folder))
                found = strings(texts, column)
            elif column == "tokens":
                (reference, expected), found = plain(texts, column), strings(texts, column)
            else:
                reference, expected = plain(texts, column)
                made = [row for batch in batches(texts) for row in with_words(batch, (column,))[column].to_pylist()]
                found = made
            if found != expected:
                sys.exit(f"{name}: {column} differs from what it reproduces")
            count = sum(map(len, found))
            table.append(
                f"| {name} | {size:.1f} | {column} | {first:.1f} | {second:.1f} | {again:.1f} | {reference:.2f}"
                f" | {again / reference:.0f} | 0 of {count:,} |"
            )
    print("# Splitters into words\n")
    print(
        f"Input sha256 {digest.hexdigest()[:16]}; Python {platform.python_version()}, numba {numba.__version__},"
        f" spaCy {peer};"
        f" one core, {processor()}, load at the end {os.getloadavg()[0]:.1f}."
    )
    print(f"Median of {args.rounds} rounds. Loading tables and compiled code took {prepared:.1f} CPU seconds.\n")
    print("\n".join(table))
    print(
        "\nRuns that the kernel of `word_hashes` leaves to Python, at most: "
        + ", ".join(shares)
        + ". The other two leave none."
    )


if __name__ == "__main__":
    main()
