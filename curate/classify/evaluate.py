"""How well scores tell good documents from the pool: area under the curve, precision and recall, thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

KEEP_RATES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75)
_CURVE_POINTS = 200


def threshold_for(scores: Floats, keep: float) -> float:
    """Return the least score of the best `keep` of the documents, rounded up to a whole document.

    With bound `score >= threshold` at least that share stays; documents that equal the threshold all do.

    Args:
        scores: Shape (documents,), at least one.
        keep: Above 0, at most 1; taken as written (0.1 is one tenth).
    """
    kept = max(1, ceil(Fraction(repr(keep)) * len(scores)))
    return float(np.sort(scores)[len(scores) - kept])


def area_under_curve(scores: Floats, good: Bools) -> float:
    """Return the probability that a good document scores above another one, ties counted half (Mann and Whitney 1947).

    Args:
        scores: Shape (documents,).
        good: Shape (documents,); some must be true and some false.
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2  # rank of a tie, from 1
    positives = int(good.sum())
    ranks = float(middle[place[good]].sum())
    return (ranks - positives * (positives + 1) / 2) / (positives * (len(good) - positives))


def average_precision(scores: Floats, good: Bools) -> float:
    """Return the mean precision over the good documents, ties taken together: the area under the step curve."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # last of each group of ties
    hits = np.cumsum(good[order])[ends]
    gained = np.diff(hits, prepend=0)
    return float((gained * hits / (ends + 1)).sum() / hits[-1])


@dataclass(frozen=True, slots=True)
class Judgement:
    """Scores of held-out documents, and which are good.

    Attributes:
        scores: Shape (documents,).
        good: Shape (documents,).
        pool: Those that stand for what will be filtered: their shares are the keep-rates; shape (documents,).
    """

    scores: Floats
    good: Bools
    pool: Bools

    def at(self, threshold: float) -> dict[str, Any]:
        """Return what a bound `score >= threshold` does."""
        above = self.scores >= threshold
        hits = int((above & self.good).sum())
        return {
            "threshold": threshold,
            "pool_kept": float(above[self.pool].mean()),
            "precision": hits / int(above.sum()) if above.any() else None,
            "recall": hits / int(self.good.sum()),
        }

    def keep_rates(self, rates: Sequence[float]) -> list[dict[str, Any]]:
        """Return the threshold for each share of the pool, ascending, and what it does."""
        pool = self.scores[self.pool]
        return [{"keep": rate, **self.at(threshold_for(pool, rate))} for rate in sorted(set(rates))]

    def curve(self) -> list[dict[str, Any]]:
        """Return precision and recall at up to 200 thresholds: all distinct scores, or ones that divide them evenly."""
        distinct = np.unique(self.scores)
        if len(distinct) > _CURVE_POINTS:
            places = np.linspace(0, len(self.scores) - 1, _CURVE_POINTS).astype(np.int64)
            distinct = np.unique(np.sort(self.scores)[places])
        return [self.at(float(threshold)) for threshold in distinct]

    def as_json(self, rates: Sequence[float]) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return {
            "good": int(self.good.sum()),
            "others": int((~self.good).sum()),
            "pool": int(self.pool.sum()),
            "auc": area_under_curve(self.scores, self.good),
            "average_precision": average_precision(self.scores, self.good),
            "keep_rates": self.keep_rates(rates),
            "curve": self.curve(),
        }


def confusion(expected: npt.NDArray[np.int64], found: npt.NDArray[np.int64], labels: Sequence[str]) -> dict[str, Any]:
    """Return accuracy, precision and recall by label, and the counts.

    Args:
        expected: Number of the true label of each document, shape (documents,).
        found: Number of the model's, shape (documents,).
        labels: Names by number.
    """
    counts = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(counts, (expected, found), 1)
    rights = np.diag(counts)
    return {
        "accuracy": float(rights.sum() / counts.sum()),
        "labels": {
            label: {
                "documents": int(counts[number].sum()),
                "precision": float(rights[number] / counts[:, number].sum()) if counts[:, number].any() else None,
                "recall": float(rights[number] / counts[number].sum()) if counts[number].any() else None,
                "found_as": {
                    labels[other]: int(counts[number, other]) for other in np.flatnonzero(counts[number]).tolist()
                },
            }
            for number, label in enumerate(labels)
        },
    }
