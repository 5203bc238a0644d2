"""What `bench_pipeline.py` says of its runs, as Markdown. Imports nothing of ours or theirs: it loads under both Pythons."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

DOCUMENTATION = "example-docs.test"  # the host under which the pages of packages stand, one folder a package
BEFORE, MEASURED = SIDES = "before", "measured"  # names of files (read in this order) and of sources

# FineWeb's order (Penedo et al. 2024; datatrove's examples/fineweb.py) without its URL lists.
BLOCKS = {
    "language": "language: {keep: [en], min_score: 0.65}",
    "gopher_repetition": "gopher_repetition: {}",
    "gopher_quality": "gopher_quality: {}",
    "c4_lines": "c4_lines: {terminal_punctuation: off}",
    "fineweb": "fineweb: {}",
}
KEPT = "kept"
PEER_STAGES = ("read", "extract", *BLOCKS, "repair", "write")
GROUPS = {
    "reading": ("read",),
    "main text": ("extract",),
    "repair": ("repair",),
    "language": ("language",),
    "words, rules of Gopher and FineWeb": ("words", "gopher_repetition", "gopher_quality", "fineweb"),
    "C4's line edits and rules": ("c4_lines",),
}
AIM = 20  # times faster than theirs, steady


def median_stages(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    names = dict.fromkeys(name for run in runs for name in run["stages"])
    return {name: statistics.median(run["stages"].get(name, 0.0) for run in runs) for name in names}


def group_of(name: str) -> str:
    """Return the line of the common table that a stage of either side belongs to."""
    stage = name.partition(":")[0].partition(",")[0]
    return next((group for group, stages in GROUPS.items() if stage in stages), "files and the rest")


def write(inputs: dict[str, Any], found: dict[str, list[dict[str, Any]]], python: str) -> None:
    def each(runs: str, value: str) -> list[float]:
        return [run[value] for run in found[runs]]

    for run in found["peer steady"]:
        run["extract"] = sum(run["stages"].get(stage, 0.0) for stage in ("read", "extract", "repair"))
    pages, stored = inputs["pages"][MEASURED], found["peer stored"][0]
    rows = [
        ("steady", pages, each("steady", "seconds"), each("peer steady", "seconds")),
        ("cold", pages, each("cold", "total"), each("peer cold", "total")),
        ("all pages, cold", sum(inputs["pages"].values()), each("steady", "total"), each("peer steady", "total")),
        ("to repaired text, steady", pages, each("steady", "extract"), each("peer steady", "extract")),
    ]
    reached = [statistics.median(its) / statistics.median(mine) for _, _, mine, its in rows]
    verdict = "reached" if reached[0] >= AIM else "missed"
    print(f"""# WARC to kept text

`python benchmarks/bench_pipeline.py --peer PYTHON`: a recipe (WARC, main text by `auto`, repair, FineWeb's filters, Parquet,
ledger) beside datatrove's FineWeb pipeline, one worker each, on the same records. CPU seconds, user and system, of all
processes; medians of {len(found["steady"])} runs of ours and {len(found["peer steady"])} of theirs, which take turns, in
brackets the least and the largest. Steady: the measured sites, in processes that worked through all other sites before.
Cold: a new process for them alone, its start included, nothing warm but compiled code.

| | pages | ours, CPU s | theirs, CPU s | ours, pages/s | theirs, pages/s | times faster |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |""")
    for row in rows:
        print(ratio_row(*row))
    print(f"""
The aim, {AIM} times in the steady state, is {verdict}: {reached[0]:.1f} for the whole way, {reached[3]:.1f} for the way to
repaired text (of ours the phase `extract` with its Parquet file; of theirs reading, extraction and ftfy, which it does for kept
documents only).
Peak memory of the largest process: {peak(found["steady"])} MB ours, {peak(found["peer steady"])} MB theirs.
Without a payload type in the records theirs asks libmagic, which takes {len(stored["furthest"]):,} of the {pages:,} pages for HTML:
the others are passed over, and the run takes {stored["total"]:.2f} s cold.

## By stage

CPU milliseconds a page of the measured sites, steady, medians. Ours: {len(found["profile"])} runs with the tasks
inside one process; the rest of a phase is what its stages do not account for. Theirs: between the steps, the extractor's own
process counted to it. A step of theirs gets only what the one before it kept; ours measure every document.
""")
    write_stages(found, pages)
    write_decisions(found, pages)
    write_setting(inputs, python)


def peak(runs: Sequence[dict[str, Any]]) -> str:
    return f"{max(run['peak'] for run in runs) / 1e6:.0f}"


def ratio_row(name: str, pages: int, mine: Sequence[float], its: Sequence[float]) -> str:
    one, other = statistics.median(mine), statistics.median(its)
    spreads = [f"{statistics.median(some):.2f} ({min(some):.2f} to {max(some):.2f})" for some in (mine, its)]
    low, high = min(its) / max(mine), max(its) / min(mine)
    return (
        f"| {name} | {pages:,} | {spreads[0]} | {spreads[1]} | {pages / one:,.0f} | {pages / other:,.1f} |"
        f" **{other / one:.1f}** ({low:.1f} to {high:.1f}) |"
    )


def write_stages(found: dict[str, list[dict[str, Any]]], pages: int) -> None:
    mine, its = median_stages(found["profile"]), median_stages(found["peer steady"])
    sums: dict[str, list[float]] = {group: [0.0, 0.0] for group in (*GROUPS, "files and the rest")}
    for column, stages in enumerate((mine, its)):
        for name, seconds in stages.items():
            sums[group_of(name)][column] += 1000 * seconds / pages
    print("| | ours, ms a page | theirs, ms a page | times faster |\n| --- | ---: | ---: | ---: |")
    for group, (one, other) in sums.items():
        print(f"| {group} | {one:.3f} | {other:.3f} | {other / one:.1f} |")
    total = sum(mine.values())
    print("\n| ours | ms a page | share |\n| --- | ---: | ---: |")
    for name, seconds in sorted(mine.items(), key=lambda item: -item[1]):
        print(f"| {name} | {1000 * seconds / pages:.3f} | {seconds / total:.1%} |")
    print(f"| all | {1000 * total / pages:.3f} | |")
    furthest = found["peer steady"][-1]["furthest"].values()
    total = sum(its.values())
    print("\n| theirs | ms a page | share | documents after it |\n| --- | ---: | ---: | ---: |")
    for number, name in enumerate(PEER_STAGES):
        passed = sum(PEER_STAGES.index(stage) >= number for stage in furthest)
        told = f"{passed:,}" if name != "write" else ""
        seconds = its.get(name, 0.0)
        print(f"| {name} | {1000 * seconds / pages:.3f} | {seconds / total:.1%} | {told} |")
    print(f"| all | {1000 * total / pages:.3f} | | |")
    counts = found["peer steady"][-1]["extractor"]
    failed = [f"{name} {counts[name]:.0f}" for name in ("timeout", "broken_process", "clean_error") if name in counts]
    told = ", ".join(failed) or "none"
    print(f"\nPages, of all, on which their extractor gave up: {told} (it has 1 s of wall time for each).")


def write_decisions(found: dict[str, list[dict[str, Any]]], pages: int) -> None:
    mine = found["steady"][-1]["decisions"]
    furthest = found["peer steady"][-1]["furthest"]
    its = {
        url: KEPT if stage == "repair" else PEER_STAGES[PEER_STAGES.index(stage) + 1] for url, stage in furthest.items()
    }
    texts = [{url for url, stage in side.items() if stage in (KEPT, *BLOCKS)} for side in (mine, its)]
    kept = [sum(stage == KEPT for stage in side.values()) for side in (mine, its)]
    both = sorted(texts[0] & texts[1])
    table = Counter((mine[url] == KEPT, its[url] == KEPT) for url in both)
    agreed = sum((mine[url] == KEPT) == (its[url] == KEPT) for url in both) / len(both)
    same = sum(mine[url] == its[url] for url in both) / len(both)
    variants = {json.dumps(run["decisions"], sort_keys=True) for run in found["steady"] + found["cold"]}
    print(f"""
## Decisions

Of {pages:,} measured pages ours gets text from {len(texts[0]):,} and keeps {kept[0]:,}; theirs reads {len(its):,}, gets
text from {len(texts[1]):,} and keeps {kept[1]:,}. For the {len(both):,} with text on both sides, which is not the same text (the
extractors differ):

| | theirs keeps | theirs removes |
| --- | ---: | ---: |
| ours keeps | {table[True, True]:,} | {table[True, False]:,} |
| ours removes | {table[False, True]:,} | {table[False, False]:,} |

The same outcome for {agreed:.1%}, and by the same filter for {same:.1%}. Decisions of ours that differ between
any two runs, steady or cold: {"none" if len(variants) == 1 else "some"}.

| removed first by | ours | theirs |
| --- | ---: | ---: |""")
    for stage in BLOCKS:
        print(f"| {stage} | {sum(mine[url] == stage for url in both):,} | {sum(its[url] == stage for url in both):,} |")


def write_setting(inputs: dict[str, Any], python: str) -> None:
    print("\n## Setting\n")
    for side, said in ((MEASURED, "Measured"), (BEFORE, "Before")):
        pages, sites = inputs["pages"][side], inputs["sites"][side]
        print(
            f"{said}: {pages:,} pages of {sites:,} sites, {inputs['kilobytes'][side] / pages:.1f} KB a record; of {DOCUMENTATION}:"
        )
        print(
            "\n".join(textwrap.wrap(", ".join(inputs["folders"][side]) + ".", 120, break_on_hyphens=False)), end="\n\n"
        )
    digests = ", ".join(f"{name} `{digest}`" for name, digest in inputs["sha256"].items())
    here = ("numba", "numpy", "pyarrow", "isal", "fasttext", "ftfy", "resiliparse", "charset-normalizer")
    there = ("datatrove", "trafilatura", "lxml", "warcio", "spacy", "fasttext-numpy2-wheel", "ftfy", "numpy", "pyarrow")
    print(f"""No site is on both sides and no page comes twice. Ours keeps no table that fills with what it reads; of
theirs, spaCy has one of strings and trafilatura one of repeated segments. Language model on both sides: lid.176.ftz.
Theirs writes no excluded documents; its FineWeb recipe does. URL lists, deduplication and masking are on neither side.

Inputs (first 16 digits of their sha256): {digests}.

Ours: Python {platform.python_version()}, {", ".join(versions_here(here))}.
Theirs: Python {versions_there(python, there)}.
Machine: {processor()}, {os.cpu_count()} cores, {platform.system()}.""")


def versions_here(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield f"{name} {importlib.metadata.version(name)}"


def versions_there(python: str, names: Iterable[str]) -> str:
    code = "import importlib.metadata, platform, sys\nprint(platform.python_version(), end='')\n"
    code += "for name in sys.argv[1:]: print(',', name, importlib.metadata.version(name), end='')"
    return subprocess.run([python, "-c", code, *names], check=True, capture_output=True, text=True).stdout


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
