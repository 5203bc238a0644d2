"""Scores on tasks by seed: centred on chance, with intervals, and whether they can be told from a blind guess."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from curate.report.run import RunFolder

CONFIDENCE = 0.95
_Z = 1.959963984540054  # of a normal distribution, for 0.95


def tasks(run: RunFolder, seeds: Iterable[str]) -> dict[str, Any] | None:
    """Return the tasks' scores after the last step; None if none were measured.

    Returns:
        `tasks`: for each what it is made of, what was passed over, `looked_for`: whether its items were looked for in the
        training data (None: not known), and `seeds`: score, `centred` with its interval (Wilson
        1927), `p` of the one-sided binomial test against chance, `told` where that is below 0.05, bits per byte of the gold
        answer. `means`: of `centred` over all tasks and over each group's, by seed, with the interval that the items give.
    """
    found: dict[str, dict[str, Any]] = {}
    means: dict[str, dict[str, Any]] = {}
    made = run.manifest.get("tasks") or {}
    for seed in seeds:
        summary = run.json(f"train/{seed}/summary.json")
        if not summary.get("tasks"):
            continue
        for name, one in summary["tasks"].items():
            about = {key: one[key] for key in ("version", "metric", "items", "chance", "cut")}
            entry = found.setdefault(name, about | _made(made.get(name) or {}) | {"seeds": {}})
            entry["seeds"][seed] = judged(one)
        groups = {"all tasks": summary["tasks_mean"], **(summary.get("tasks_groups") or {})}
        for group, mean in groups.items():
            means.setdefault(group, {})[seed] = mean | _normal(mean["centred"], mean["standard_error"])
    return {"confidence": CONFIDENCE, "tasks": found, "means": means} if found else None


def _made(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "mapping": entry.get("mapping"),
        "passed_over": dict(entry.get("passed_over") or {}),
        "looked_for": entry.get("looked_for"),
    }


def judged(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task's score with its interval and its test against chance.

    Choices that tie share the credit, so the number of right items may be no whole one; the test takes the whole part.
    """
    from scipy.stats import binom

    items, chance, score = task["items"], task["chance"], task["score"]
    right = math.floor(score * items + 1e-6)
    p = float(binom.sf(right - 1, items, chance)) if right else 1.0
    low, high = (_centred(end, chance) for end in wilson(score, items))
    return {
        "score": score,
        "centred": task["centred"],
        "low": low,
        "high": high,
        "p": p,
        "told": p < 1 - CONFIDENCE,
        "bits_per_byte": task["bits_per_byte"],
    }


def wilson(share: float, number: int) -> tuple[float, float]:
    """Return the 95% interval of a share of `number` items (Wilson 1927)."""
    middle = (share + _Z**2 / (2 * number)) / (1 + _Z**2 / number)
    half = _Z / (1 + _Z**2 / number) * math.sqrt(share * (1 - share) / number + _Z**2 / (4 * number**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def _centred(score: float, chance: float) -> float:
    return (score - chance) / (1 - chance)


def _normal(value: float, error: float | None) -> dict[str, float | None]:
    half = None if error is None else _Z * error
    return {
        "low": None if half is None else value - half,
        "high": None if half is None else value + half,
    }
