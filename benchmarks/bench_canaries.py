"""Canaries: what a leak of benchmark items does to the bits per byte of their gold answers.

    python benchmarks/bench_canaries.py [--tokens 300k] [--seeds 1] > benchmarks/results/canaries.md

Trains the demo preset on 04_books of `$CURATE_DATA` with 200 items of ARC easy (06_benchmarks), half of them leaked 0, 4 or
16 times. Items are the sample: of each, the bits per byte with leaks less those of the run without, so that how hard an
answer is cancels. Fails unless leaked answers become easier than clean ones, beyond the interval, and easier with more
copies.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from scipy import stats

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
COPIES = (0, 4, 16)
RECIPE = """\
name: canaries
seed: 17
sources:
  books:
    read: {{kind: jsonl, paths: "{data}/04_books/books.jsonl.gz"}}
tokenizer: {{train: {{kind: sentencepiece, vocab_size: 2048}}}}
validation: {{tokens: 4k, min_documents: 2}}
decontaminate:
  benchmarks: [{{path: "{data}/06_benchmarks/arc_easy.jsonl.gz", name: arc_easy}}]
  canaries: {{items: 200, copies: 4}}
mixture: {{weights: {{books: 1}}, tokens: {tokens}}}
train: {{preset: demo-1m, seeds: [{seeds}]}}
"""


def answers(run: Path, seeds: int) -> dict[str, tuple[str, float]]:
    """Return group and bits per byte of each item, the mean of the seeds."""
    found: dict[str, list[float]] = {}
    groups = {}
    for seed in range(seeds):
        for row in json.loads((run / "train" / str(seed) / "answers.json").read_text()):
            found.setdefault(row["item"], []).append(row["bits_per_byte"])
            groups[row["item"]] = row["group"]
    return {item: (groups[item], statistics.fmean(values)) for item, values in found.items()}


def interval(first: list[float], second: list[float]) -> tuple[float, float, float]:
    """Return the difference of two means with Welch's 95% interval."""
    bounds = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    return statistics.fmean(first) - statistics.fmean(second), bounds.low, bounds.high


def main() -> int:
    """Run all and print the table; return 1 if a leak does not show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default="300k", help="of the mixture, without what is planted")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    measured, planted, validation = {}, {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        recipe = folder / "recipe.yaml"
        seeds = ", ".join(map(str, range(options.seeds)))
        recipe.write_text(RECIPE.format(data=DATA.resolve(), tokens=options.tokens, seeds=seeds))
        for copies in COPIES:
            run = folder / str(copies)
            place = ["--output", str(run), "--cache", str(folder / "cache"), "--workers", "1", "--quiet"]
            change = ["--set", f"decontaminate.canaries.copies={copies}"]
            subprocess.run([sys.executable, "-m", "curate.cli", "run", str(recipe), *place, *change], check=True)
            measured[copies] = answers(run, options.seeds)
            planted[copies] = json.loads((run / "manifest.json").read_text())["canaries"]["tokens"]
            scores = [
                json.loads((run / "train" / str(seed) / "summary.json").read_text()) for seed in range(options.seeds)
            ]
            validation[copies] = statistics.fmean(one["validation"]["books"]["bits_per_byte"] for one in scores)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("# Canaries: bits per byte of gold answers, leaked and clean\n")
    print(
        f"`demo-1m`, {options.tokens} tokens of 04_books, {options.seeds} seed(s), 200 items of ARC easy, half of them leaked; "
        f"Python {platform.python_version()}, torch {torch.__version__}, {spent.ru_utime:,.0f} CPU seconds in all. "
        "95% intervals are over items (Welch)."
    )
    digests = (
        f"{name} {hashlib.sha256((DATA / name).read_bytes()).hexdigest()[:12]}"
        for name in ("04_books/books.jsonl.gz", "06_benchmarks/arc_easy.jsonl.gz")
    )
    print(f"Inputs (sha256): {', '.join(digests)}; {platform.machine()}, one thread.\n")
    print(
        "| copies | planted tokens | books, bits/byte | leaked | clean | leaked less clean | both less those without leaks |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|")
    gains = []
    for copies in COPIES:
        by_group: dict[str, list[float]] = {"leaked": [], "clean": []}
        changes: dict[str, list[float]] = {"leaked": [], "clean": []}
        for item, (group, value) in measured[copies].items():
            by_group[group].append(value)
            changes[group].append(value - measured[0][item][1])
        plain = "{:+.3f} [{:+.3f}, {:+.3f}]".format(*interval(by_group["leaked"], by_group["clean"]))
        paired = "–"
        if copies:
            gain = interval(changes["leaked"], changes["clean"])
            gains.append(gain)
            paired = "{:+.3f} [{:+.3f}, {:+.3f}]".format(*gain)
        means = [statistics.fmean(by_group[group]) for group in ("leaked", "clean")]
        print(
            f"| {copies} | {planted[copies]:,} | {validation[copies]:.3f} | {means[0]:.3f} | {means[1]:.3f} | {plain} | {paired} |"
        )
    shown = all(high < 0 for _, _, high in gains) and gains[-1][0] < gains[0][0]
    print(f"\nLeaked answers are {'' if shown else 'NOT '}easier than clean ones, and the more so with more copies.")
    return 0 if shown else 1


if __name__ == "__main__":
    sys.exit(main())
