"""Bits per byte of gold answers after their prompts: by item, by group, and the difference of two groups."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curate.tokens.answers import Answer
from train.scoring import Row, Scored

CONFIDENCE = 0.95  # of the interval of a difference


def answer_nats(answers: Sequence[Answer], score: Callable[[Sequence[Row]], Sequence[Scored]]) -> list[float]:
    """Return the code length in nats of each answer."""
    rows = [Row(one.prompt, one.answer, f"item {one.item} of {one.benchmark}") for one in answers]
    return [one.nats for one in score(rows)]


def bits_per_byte(answers: Sequence[Answer], nats: Sequence[float]) -> list[float]:
    """Return the bits per UTF-8 byte of each answer."""
    return [value / math.log(2) / one.num_bytes for one, value in zip(answers, nats, strict=True)]


def records(answers: Sequence[Answer], nats: Sequence[float]) -> list[dict[str, Any]]:
    """Return one JSON object for each answer."""
    return [
        {
            "benchmark": one.benchmark,
            "item": one.item,
            "group": one.group,
            "tokens": one.answer.size,
            "bytes": one.num_bytes,
            "nats": value,
            "bits_per_byte": bits,
        }
        for one, value, bits in zip(answers, nats, bits_per_byte(answers, nats), strict=True)
    ]


def by_group(answers: Sequence[Answer], bits: Sequence[float]) -> dict[str, dict[str, float]]:
    """Return for each group, in the order of the file, the number of items and their mean bits per byte."""
    groups: dict[str, list[float]] = {}
    for one, value in zip(answers, bits, strict=True):
        groups.setdefault(one.group, []).append(value)
    return {
        group: {"items": len(values), "bits_per_byte": statistics.fmean(values)} for group, values in groups.items()
    }


def summary(answers: Sequence[Answer], bits: Sequence[float]) -> dict[str, Any]:
    """Return the groups, and where there are two the first one's mean less the second's, overall and by benchmark."""
    found: dict[str, Any] = {"groups": by_group(answers, bits)}
    if len(found["groups"]) == 2:
        found["difference"] = _difference(answers, bits, tuple(found["groups"]))
        found["benchmarks"] = {}
        for benchmark in dict.fromkeys(one.benchmark for one in answers):
            rows = [(one, value) for one, value in zip(answers, bits, strict=True) if one.benchmark == benchmark]
            if len({one.group for one, _ in rows}) == 2:
                parts = [one for one, _ in rows], [value for _, value in rows]
                found["benchmarks"][benchmark] = _difference(*parts, tuple(found["groups"]))
    return found


def _difference(answers: Sequence[Answer], bits: Sequence[float], groups: Sequence[str]) -> dict[str, Any]:
    values = [[value for one, value in zip(answers, bits, strict=True) if one.group == group] for group in groups]
    return {"of": list(groups), "items": [len(some) for some in values], **difference(*values)}


def difference(first: Sequence[float], second: Sequence[float]) -> Mapping[str, Any]:
    """Return the difference of two means and its interval by Welch's t (1947), which takes no equal variances.

    Items are the sample: the interval says what other items drawn from the same benchmarks would have given. It is None
    where a group has a single item.
    """
    value = statistics.fmean(first) - statistics.fmean(second)
    low = high = None
    if min(len(first), len(second)) > 1:
        from scipy.stats import t

        parts = [statistics.variance(some) / len(some) for some in (first, second)]
        error = math.sqrt(sum(parts))
        half = 0.0
        if error:
            freedom = sum(parts) ** 2 / sum(
                part**2 / (len(some) - 1) for part, some in zip(parts, (first, second), strict=True)
            )
            half = float(t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
        low, high = value - half, value + half
    return {"bits_per_byte": value, "low": low, "high": high, "confidence": CONFIDENCE}
