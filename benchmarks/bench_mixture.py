"""A mixture of ten trillion tokens: CPU seconds to plan it, and to find any slot of its order of training.

    python benchmarks/bench_mixture.py > benchmarks/results/mixture.md

Sizes of streams are drawn with a fixed seed, from a few windows to trillions of tokens (log-uniform), so that some streams
are empty, some at their cap and some far below it. Every plan is checked: it adds up to the budget, window for window and
stage for stage, no cap is exceeded, and nobody who is asked for less than his cap gives less than he is asked for. There is
no peer: none of the toolkits that we know plans a mixture by a token budget and epochs.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import time
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import numpy as np

from curate.mix.plan import plan_mixture
from curate.mix.settings import Mixture
from curate.tokens.order import Plan

REPEATS = 5
WINDOW = 4096
BUDGET = 10**13
BUCKETS = {"best": {"of": "18-19", "factor": 3}, "good": {"of": "10-17", "factor": 1}, "*": 0.25}
ANNEAL = {"multiply": ({"by": "quality_bucket", "factors": {"best": 1, "*": 0}},)}


def languages(count: int) -> dict[str, Any]:
    """Return factors for so many languages."""
    return {f"l{number:02}": 1 + number % 3 for number in range(count)}


def cases() -> dict[str, tuple[int, dict[str, Any]]]:
    """Return name to number of sources and settings."""
    draw = random.Random(2)
    names = [f"s{number:03}" for number in range(300)]
    by_bucket = {"by": "quality_bucket", "factors": BUCKETS}
    axes = ({"by": "language", "factors": languages(15)}, by_bucket)
    return {
        "3 sources, weights": (3, {"weights": {"s000": 0.6, "s001": 0.25, "s002": 0.15}}),
        "300 sources, weights": (300, {"weights": {name: round(draw.random(), 4) for name in names}}),
        "300 sources, temperature 3.3": (300, {"weights": {"temperature": 3.3}}),
        "300 sources, UniMax": (300, {"weights": "unimax"}),
        "20 sources of 16 languages x 3 buckets, UniMax, an anneal on the best buckets": (
            20,
            {"weights": "unimax", "multiply": axes, "stages": ({"until_tokens": "8T"}, ANNEAL)},
        ),
        "the same, 4 stages, one by temperature": (
            20,
            {
                "weights": "unimax",
                "multiply": axes,
                "stages": (
                    {"until_tokens": "1T"},
                    {"until_tokens": "4T", "weights": {"temperature": 2}},
                    {"until_tokens": "9T", "weights": {"s000": 1, **{f"s{n:03}": 0.5 for n in range(1, 20)}}},
                    ANNEAL,
                ),
            },
        ),
    }


def available(mixture: Mixture, sources: int) -> dict[str, int]:
    """Return tokens of every stream; together about five times the budget."""
    draw = random.Random(1)
    streams = mixture.streams([f"s{number:03}" for number in range(sources)])
    sizes = {name: 10 ** draw.uniform(3, 13) if draw.random() > 0.05 else 0.0 for name in streams}
    scale = 5 * BUDGET / sum(sizes.values())
    return {name: int(size * scale) for name, size in sizes.items()}


def check(plan: dict[str, Any], mixture: Mixture) -> None:
    """Refuse a plan that does not add up."""
    drawn = dict.fromkeys(plan["sources"], 0)
    start = 0
    for stage in plan["stages"]:
        counts = {name: one["windows_drawn"] for name, one in stage["sources"].items()}
        assert sum(counts.values()) == stage["num_slots"] == stage["until_tokens"] // WINDOW - start
        start += stage["num_slots"]
        drawn = {name: drawn[name] + count for name, count in counts.items()}
    assert start == plan["num_slots"] == BUDGET // WINDOW
    for name, one in plan["sources"].items():
        assert one["windows_drawn"] == drawn[name]
        cap = mixture.cap(name)
        assert cap is not None
        assert drawn[name] <= floor(Fraction(repr(cap)) * one["windows_available"])
        if len(plan["stages"]) == 1 and not one["cap_hit"] and one["windows_available"]:
            assert one["windows_drawn"] >= floor(one["tokens_asked"] / WINDOW) - 1


def main() -> None:
    """Measure, check and write."""
    rows = []
    for name, (sources, written) in cases().items():
        mixture = Mixture(**written, tokens=BUDGET, max_epochs=40)
        tokens = available(mixture, sources)
        planning, ordering = [], []
        for _ in range(REPEATS):
            start = time.process_time()
            content = plan_mixture(mixture, tokens, window=WINDOW, seed=1)
            planning.append(time.process_time() - start)
            start = time.process_time()
            plan = Plan.load(content)
            ends = np.arange(plan.num_slots - 4, plan.num_slots)
            plan.slots(np.concatenate([np.arange(4), ends]))
            ordering.append(time.process_time() - start)
        check(content, mixture)
        warnings, size = len(content["warnings"]), len(json.dumps(content)) / 1e3
        median, most = statistics.median(planning), max(planning)
        rows.append(
            f"| {name} | {len(tokens):,} | {len(content['stages'])} | {median:.3f} ({most:.3f}) "
            f"| {statistics.median(ordering):.3f} ({max(ordering):.3f}) | {warnings} | {size:,.0f} |"
        )
    print(
        "# Mixtures of ten trillion tokens\n\n`python benchmarks/bench_mixture.py`: CPU seconds, median of "
        f"{REPEATS} in one process (the slowest in brackets).\n\n"
        f"{BUDGET:,} tokens are {BUDGET // WINDOW:,} windows of {WINDOW:,}; sizes of streams are log-uniform over ten orders of "
        "magnitude (seed 1), 5% of them empty; 40 epochs at most. Each plan adds up to the window, in every stage, and no cap is "
        "exceeded: checked in the same run. Order: the plan is read, and its first and last four slots are found.\n\n"
        "| mixture | streams | stages | plan, CPU s | order, CPU s | warnings | mixture.json, KB |\n"
        "| --- | --- | --- | --- | --- | --- | --- |"
    )
    print("\n".join(rows))
    print(f"\nPython {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores, {processor()}.")


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
