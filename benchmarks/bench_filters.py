"""The heuristic filters beside datatrove's: CPU time from text to decisions on one core, and whether the decisions agree.

    python benchmarks/bench_filters.py --peer PYTHON [--rounds 5] [--documents 1600] > benchmarks/results/filters.md

PYTHON is that of an environment with datatrove 0.10.1 and spaCy. Documents: English ones of `$CURATE_DATA`, namely the
main text of the pages in 03_raw_html and 01_warc, the gold texts of 02_gold, and the beginnings of the English books;
a sample by hash, the same for everyone. The run fails if a decision, a reason or a rewritten text differs.

Each measurement is a process of its own; the contestants take turns. CPU time is user and system time of all threads, and
begins when libraries are loaded, machine code is compiled and a first short text has gone through. Writes Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
BOOK_CHARS = 60_000  # of each book

# The order in which datatrove splits a text into words once for three filters; C4 would drive the words out of its cache.
FILTERS = ("gopher_repetition", "gopher_quality", "fineweb", "c4_lines")
WARM_UP = "The lock opened at dawn. The barge left at noon.[1]"

# Our rule, and the side on which the value lies, to datatrove's reason.
REASONS = {
    ("num_words", "low"): "gopher_short_doc",
    ("num_words", "high"): "gopher_long_doc",
    ("mean_word_length", "low"): "gopher_below_avg_threshold",
    ("mean_word_length", "high"): "gopher_above_avg_threshold",
    ("hash_ratio", "high"): "gopher_too_many_hashes",
    ("ellipsis_ratio", "high"): "gopher_too_many_ellipsis",
    ("bullet_line_fraction", "high"): "gopher_too_many_bullets",
    ("ellipsis_line_fraction", "high"): "gopher_too_many_end_ellipsis",
    ("alpha_word_fraction", "low"): "gopher_below_alpha_threshold",
    ("num_stop_words", "low"): "gopher_enough_stop_words",
    ("empty", "low"): "empty",
    ("duplicate_paragraph_fraction", "high"): "dup_para_frac",
    ("duplicate_paragraph_char_fraction", "high"): "dup_para_char_frac",
    ("duplicate_line_fraction", "high"): "dup_line_frac",
    ("duplicate_line_char_fraction", "high"): "dup_line_char_frac",
    **{(f"top_{n}gram_char_fraction", "high"): f"top_{n}_gram" for n in (2, 3, 4)},
    **{(f"repeated_{n}gram_char_fraction", "high"): f"duplicated_{n}_n_grams" for n in range(5, 11)},
    ("terminal_line_fraction", "low"): "line_punct_ratio",
    ("short_line_fraction", "high"): "short_line_ratio",
    ("repeated_line_char_fraction", "high"): "char_dup_ratio",
    ("newlines_per_word", "high"): "list_ratio",
    ("lorem_ipsum", "high"): "lorem_ipsum",
    ("curly_bracket", "high"): "curly_bracket",
    ("min_sentences", "low"): "too_few_sentences",
}


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_lines(path: str) -> list[str]:
    with Path(path).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# ---- the contestants, each in a process of its own


def peer(path: str) -> dict[str, Any]:
    """Decide every document with datatrove's filters, in the environment that has it."""
    from datatrove.data import Document
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
    )

    filters = dict(
        zip(
            FILTERS,
            (GopherRepetitionFilter(), GopherQualityFilter(), FineWebQualityFilter(), C4QualityFilter()),
            strict=True,
        )
    )
    for each in filters.values():
        each.filter(Document(text=WARM_UP, id="0"))
    texts = read_lines(path)
    seconds = dict.fromkeys(FILTERS, 0.0)
    decisions: dict[str, list[str]] = {name: [] for name in FILTERS}
    rewritten = []
    for text in texts:
        for name, each in filters.items():
            before = cpu_seconds()
            document = Document(text=text, id="0")
            kept = each.filter(document)
            seconds[name] += cpu_seconds() - before
            decisions[name].append("" if kept is True else kept[1])
        rewritten.append("" if decisions["c4_lines"][-1] else digest(document.text))
    versions = {name: importlib.metadata.version(name) for name in ("datatrove", "spacy")}
    return {"seconds": seconds, "decisions": decisions, "rewritten": rewritten, "versions": versions}


def ours(path: str, words: str) -> dict[str, Any]:
    """Decide every document twice with our blocks in the variant of datatrove."""
    import pyarrow as pa

    from curate.filter.c4 import C4Lines
    from curate.filter.fineweb import FineWeb
    from curate.filter.gopher.quality import GopherQuality
    from curate.filter.gopher.repetition import GopherRepetition
    from curate.pipeline import BATCH_ROWS
    from curate.words import prepare_words, with_words

    kinds = (GopherRepetition, GopherQuality, FineWeb, C4Lines)
    steps = {name: kind(variant="datatrove", words=words) for name, kind in zip(FILTERS, kinds, strict=True)}
    columns = set().union(*(step.reads for step in steps.values()))
    prepare_words(columns)
    for step in steps.values():
        step.prepare()
        step.apply(with_words(pa.record_batch({"text": pa.array([WARM_UP], pa.large_string())}), columns))
    texts = pa.table({"text": pa.array(read_lines(path), pa.large_string())})
    result: dict[str, Any] = {}
    for turn in ("first", "again"):
        seconds = dict.fromkeys(("words", *FILTERS), 0.0)
        decisions: dict[str, list[str]] = {name: [] for name in FILTERS}
        rewritten: list[str] = []
        batches = []  # bytes and CPU seconds of each batch
        for batch in texts.to_batches(BATCH_ROWS):
            size, done = batch.nbytes, sum(seconds.values())
            before = cpu_seconds()
            batch = with_words(batch, columns)
            seconds["words"] += cpu_seconds() - before
            for name, step in steps.items():
                before = cpu_seconds()
                measured = step.apply(batch)
                reasons = first_reasons(step, measured)
                seconds[name] += cpu_seconds() - before
                decisions[name] += reasons
            rewritten += [
                "" if gone else digest(text) for gone, text in zip(reasons, measured["text"].to_pylist(), strict=True)
            ]
            batches.append((size, sum(seconds.values()) - done))
        result[turn] = {"seconds": seconds, "batches": batches, "decisions": decisions, "rewritten": rewritten}
    return result


def first_reasons(step: Any, measured: Any) -> list[str]:
    """Return for each row datatrove's name of the first rule that removes it, or an empty string."""
    import numpy as np
    import pyarrow as pa

    from curate.pipeline import evaluate

    columns = {
        name: pa.chunked_array([column]) for name, column in zip(measured.schema.names, measured.columns, strict=True)
    }
    reasons = np.full(measured.num_rows, "", object)
    for rule in reversed(step.rules("block")):
        fired = evaluate(rule, columns, measured.num_rows)
        if not fired.mask.any():
            continue
        name = rule.name.removeprefix("block.")
        low = -np.inf if rule.at_least is None else float(rule.at_least)  # type: ignore[arg-type]
        values = columns[rule.column].to_numpy()
        reasons[fired.mask & (values < low)] = REASONS.get((name, "low"), name)
        reasons[fired.mask & (values >= low)] = REASONS.get((name, "high"), name)
    found: list[str] = reasons.tolist()
    return found


# ---- documents


def documents(count: int) -> list[tuple[str, str]]:
    """Return (origin, text) of a sample of the English documents, none twice, in an order that the text decides."""
    import pyarrow as pa

    from curate.filter.language import Language
    from curate.words import with_words

    found: dict[str, tuple[str, str]] = {}
    language = Language(keep=("en",), min_score=0.65)
    for origin, texts in (("pages", pages()), ("gold texts", gold()), ("books", books())):
        kept = [text for text in texts if text]
        for start in range(0, len(kept), 256):
            some = kept[start : start + 256]
            batch = with_words(pa.record_batch({"text": pa.array(some, pa.large_string())}), language.reads)
            measured = language.apply(batch)
            for text, label, score in zip(
                some, measured["language"].to_pylist(), measured["language_score"].to_pylist(), strict=True
            ):
                if label == "en" and score >= 0.65:
                    found[digest(text)] = (origin, text)
    chosen = [found[key] for key in sorted(found)]
    rare = [each for each in chosen if each[0] != "pages"]
    many = [each for each in chosen if each[0] == "pages"]
    sample = rare + many[: max(count - len(rare), 0)]
    return sorted(sample, key=lambda each: digest(each[1]))


def pages() -> Iterator[str]:
    """Yield the main text of the raw pages, and of the pages in the small WARC files."""
    from curate.errors import CurateError
    from curate.extract.auto.extractor import Auto
    from curate.read.warc import Warc

    extractor, reader = Auto(), Warc()
    paths = [DATA / "03_raw_html" / "raw.warc.gz", *sorted((DATA / "01_warc").glob("*/*.warc.gz"))]
    for path in paths:
        with path.open("rb") as file:
            try:
                for batch in reader.read(file, str(path)):
                    yield from (text or "" for text in extractor.extract(batch)["text"].to_pylist())
            except CurateError:
                continue  # some of the small files are damaged on purpose


def gold() -> Iterator[str]:
    for path in sorted((DATA / "02_gold").glob("*/gold.jsonl")):
        with path.open(encoding="utf-8") as file:
            yield from (json.loads(line)["text"] or "" for line in file)


def books() -> Iterator[str]:
    for path in (DATA / "04_books" / "books.jsonl.gz", DATA / "10_small_corpus" / "books.jsonl.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from (json.loads(line)["text"][:BOOK_CHARS] for line in file)


# ---- the table


def run(python: str, *arguments: str) -> Any:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [python, __file__, *arguments, "--out", out.name]
        subprocess.run(command, env=os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)}, check=True, stdout=sys.stderr)
        return json.loads(Path(out.name).read_bytes())


def check(rounds: list[dict[str, Any]]) -> None:
    """Fail where a round differs from the first one, or ours from theirs in a decision, a reason or a rewritten text."""
    theirs = rounds[0]["peer"]
    for each in rounds:
        for found in (each["peer"], each["english"]["first"], each["english"]["again"]):
            for name in FILTERS:
                differ = [
                    row
                    for row, pair in enumerate(zip(theirs["decisions"][name], found["decisions"][name], strict=True))
                    if pair[0] != pair[1]
                ]
                assert not differ, f"{name}: {len(differ)} decisions differ, the first in document {differ[0]}"
            assert found["rewritten"] == theirs["rewritten"], "c4_lines: kept texts differ"


def write(sample: list[tuple[str, str]], rounds: list[dict[str, Any]]) -> None:
    check(rounds)
    sizes = {origin: [len(text.encode()) for kind, text in sample if kind == origin] for origin, _ in sample}
    megabytes = sum(map(sum, sizes.values())) / 1e6
    inputs = hashlib.sha256("".join(text for _, text in sample).encode()).hexdigest()[:16]

    def seconds(found: Any, turn: str | None = None) -> list[float]:
        return [sum((each[found] if turn is None else each[found][turn])["seconds"].values()) for each in rounds]

    peers, steady = seconds("peer"), seconds("english", "first")
    ratio = statistics.median(peers) / statistics.median(steady)
    each_round = [its / mine for its, mine in zip(peers, steady, strict=True)]
    halves = [second_half(each["english"]["first"]["batches"]) for each in rounds]
    print("# Filters\n")
    print(
        "`python benchmarks/bench_filters.py --peer PYTHON`: Gopher quality, Gopher repetition, C4 and FineWeb, from text to"
    )
    print(
        "decisions and reasons, each on the text as it is: datatrove's filters, and our blocks with `variant: datatrove`. One core,"
    )
    print(f"CPU seconds (user and system, all threads), medians of {len(rounds)} processes each that take turns.\n")
    told = ", ".join(f"{len(found)} {origin} ({sum(found) / 1e6:.1f} MB)" for origin, found in sorted(sizes.items()))
    print(f"{len(sample)} English documents, {megabytes:.1f} MB: {told}; sha256 `{inputs}`.")
    print(
        f"**All {len(sample) * len(FILTERS)} decisions and reasons are the same, and so are the texts that C4 keeps.**\n"
    )
    print("| | CPU s | MB/s | documents/s | times datatrove's speed |\n| --- | --- | --- | --- | --- |")
    print(table_row("datatrove", peers, megabytes, len(sample), ""))
    print(
        table_row(
            "curate",
            steady,
            megabytes,
            len(sample),
            f"**{ratio:.0f}** ({min(each_round):.0f} to {max(each_round):.0f})",
        )
    )
    print()
    rates = (
        ("first pass of the process", megabytes / statistics.median(steady)),
        ("second half of the first pass", statistics.median(halves)),
        ("second pass over the same documents", megabytes / statistics.median(seconds("english", "again"))),
    )
    print(
        "Steady state: the English splitter remembers nothing from one document to the next, neither learnt nor shipped. So"
    )
    print(
        "there is no miss rate, and a process is as fast on text that it never saw: "
        + "; ".join(f"{name} {rate:.1f} MB/s" for name, rate in rates)
        + ".\n"
    )
    print("## Where the time goes\n")
    print(
        "Milliseconds per MB of text. datatrove splits the text into words in its first filter and once more, line by line, in C4.\n"
    )
    print("| | datatrove | curate |\n| --- | --- | --- |")
    for name in ("words", *FILTERS):
        its = statistics.median(each["peer"]["seconds"].get(name, 0.0) for each in rounds) / megabytes * 1e3
        mine = statistics.median(each["english"]["first"]["seconds"][name] for each in rounds) / megabytes * 1e3
        print(f"| {name} | {f'{its:.0f}' if name != 'words' else ''} | {mine:.1f} |")
    print("\n## The splitter `fast` beside `english`\n")
    print(
        "The same blocks with `words: fast` (`curate.words.split_words`): documents that another decision or reason meets.\n"
    )
    print(
        "| filter | removed with english | removed with fast | other decision | other reason |\n| --- | --- | --- | --- | --- |"
    )
    for name in FILTERS:
        exact, fast = (rounds[0][words]["first"]["decisions"][name] for words in ("english", "fast"))
        changed = sum(bool(one) != bool(other) for one, other in zip(exact, fast, strict=True))
        reasons = sum(bool(one) and bool(other) and one != other for one, other in zip(exact, fast, strict=True))
        total = len(sample)
        print(
            f"| {name} | {sum(map(bool, exact)) / total:.1%} | {sum(map(bool, fast)) / total:.1%} | {changed / total:.1%} "
            f"| {reasons / total:.1%} |"
        )
    rates = []
    for words in ("english", "fast"):
        alone = statistics.median(each[words]["first"]["seconds"]["words"] for each in rounds)
        whole = statistics.median(seconds(words, "first"))
        rates.append(f"{words} splits {megabytes / alone:.0f} MB/s, with the four blocks {megabytes / whole:.1f} MB/s")
    print("\n" + "; ".join(rates) + ".\n")


def second_half(batches: list[tuple[int, float]]) -> float:
    """Return the MB/s over the batches behind the first half of the bytes."""
    total, size, behind = sum(size for size, _ in batches), 0, []
    for batch in batches:
        if size >= total / 2:
            behind.append(batch)
        size += batch[0]
    return sum(size for size, _ in behind) / 1e6 / sum(seconds for _, seconds in behind)


def table_row(name: str, seconds: list[float], megabytes: float, count: int, ratio: str) -> str:
    median = statistics.median(seconds)
    spread = f"{median:.3g} ({min(seconds):.3g} to {max(seconds):.3g})"
    return f"| {name} | {spread} | {megabytes / median:.3g} | {count / median:.0f} | {ratio} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed and decisions of the heuristic filters")
    parser.add_argument("--peer", metavar="PYTHON", help="Python of an environment with datatrove and spaCy")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--documents", type=int, default=1600)
    for mode in ("--one-peer", "--one-english", "--one-fast", "--out"):
        parser.add_argument(mode, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for mode, path in (("peer", options.one_peer), ("english", options.one_english), ("fast", options.one_fast)):
        if path:
            Path(options.out).write_text(json.dumps(peer(path) if mode == "peer" else ours(path, mode)))
            return
    if not options.peer:
        parser.error("--peer PYTHON is needed")
    sample = documents(options.documents)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.jsonl"
        path.write_text("".join(json.dumps(text) + "\n" for _, text in sample), encoding="utf-8")
        rounds = []
        for turn in range(options.rounds):
            contestants = [
                ("--one-peer", options.peer),
                ("--one-english", sys.executable),
                ("--one-fast", sys.executable),
            ]
            order = contestants[turn % 3 :] + contestants[: turn % 3]
            rounds.append({mode.removeprefix("--one-"): run(python, mode, str(path)) for mode, python in order})
            print(f"round {turn + 1} done", file=sys.stderr, flush=True)
    write(sample, rounds)
    packages = ("numba", "numpy", "pyarrow", "regex")
    versions = [f"{package} {importlib.metadata.version(package)}" for package in packages]
    versions += [f"{name} {version}" for name, version in rounds[0]["peer"]["versions"].items()]
    print(f"Versions: Python {platform.python_version()}, {', '.join(versions)}.")
    print(
        f"Machine: {processor()}, {os.cpu_count()} cores, {platform.system()}; load at the end {os.getloadavg()[0]:.1f}."
    )


def processor() -> str:
    """Return the name that the system gives its processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
