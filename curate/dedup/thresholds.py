"""Bands and rows for a wished threshold, as datasketch's MinHashLSH chooses them. Nothing heavy is imported here."""

from __future__ import annotations

import math
from functools import lru_cache

_TINY, _EPSILON, _MOST_STEPS = 1e-300, 1e-15, 10_000


@lru_cache(maxsize=64)
def choose_bands(threshold: float, permutations: int) -> tuple[int, int]:
    """Return the bands and rows, of at most `permutations` values, that part pairs at the threshold best.

    Best is the smallest sum of two areas under the curve p(s) = 1 - (1 - s^rows)^bands: that of false positives, p from 0 to
    the threshold, and that of false negatives, 1 - p from there to 1, at equal weights (Zhu et al., datasketch 2.0.0,
    MinHashLSH). Of equal sums the one with fewer bands, then fewer rows.

    Raises:
        ValueError: If the best are fewer than two bands, which compare whole signatures and find no near copies.
    """
    smallest, best = math.inf, (0, 0)
    for bands in range(1, permutations + 1):
        for rows in range(1, permutations // bands + 1):
            # What p leaves from the threshold to 1 is its whole area less the one below: one integral is enough.
            below = threshold - _area(threshold, bands, rows)
            above = _area(1.0, bands, rows) - _area(threshold, bands, rows)
            if below + above < smallest:
                smallest, best = below + above, (bands, rows)
    if best[0] < 2:
        raise ValueError(
            f"threshold {threshold:g} is beyond what {permutations} permutations can tell apart. Give a lower threshold, "
            "between 0 and 1, more permutations, or bands and rows"
        )
    return best


def _area(end: float, bands: int, rows: int) -> float:
    """Return the integral of (1 - s^rows)^bands over s from 0 to `end`: an incomplete beta function, B(end^rows; a, b) / rows."""
    a, b, x = 1.0 / rows, bands + 1.0, end**rows
    whole = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    if x >= 1.0:
        return math.exp(whole) / rows
    front = math.exp(a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(a, b, x) / a / rows
    return (math.exp(whole) - front * _fraction(b, a, 1.0 - x) / b) / rows


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method."""
    c, d = 1.0, 1.0 / (_kept(1.0 - (a + b) * x / (a + 1.0)))
    value = d
    for m in range(1, _MOST_STEPS):
        step = 1.0
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 / _kept(1.0 + term * d)
            c = _kept(1.0 + term / c)
            step = c * d
            value *= step
        if abs(step - 1.0) < _EPSILON:
            break
    return value


def _kept(value: float) -> float:
    """Return a number that may be divided by."""
    return value if abs(value) > _TINY else _TINY
