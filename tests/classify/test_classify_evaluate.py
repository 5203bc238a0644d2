"""Curves and thresholds on a handful of scores, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from curate.classify.evaluate import Judgement, area_under_curve, average_precision, confusion, threshold_for

SCORES = np.array([0.9, 0.8, 0.7, 0.7, 0.3, 0.1])
GOOD = np.array([True, False, True, False, False, True])


@pytest.mark.parametrize(
    ("keep", "threshold"),
    [
        (0.1, 10.0),  # one of ten
        (0.11, 9.0),  # rounded up to a whole document
        (0.2, 9.0),
        (0.3, 8.0),  # 0.3 * 10 is 3.0000000000000004 in binary; three tenths are three
        (0.001, 10.0),  # never none
        (1.0, 1.0),
    ],
)
def test_threshold_for_a_keep_rate(keep, threshold):
    assert threshold_for(np.arange(1.0, 11.0)[::-1], keep) == threshold


def test_area_under_the_curve_counts_ties_half():
    # Pairs (good, other): .9 above all three; .7 below .8, ties .7, above .3: 1.5; .1 above none. 4.5 of 9.
    assert area_under_curve(SCORES, GOOD) == pytest.approx(0.5)
    assert area_under_curve(np.array([3.0, 2.0, 1.0]), np.array([True, False, False])) == 1.0
    assert area_under_curve(np.ones(4), np.array([True, False, True, False])) == 0.5


def test_average_precision_takes_ties_together():
    # Down the ranks: .9 (1 of 1 good), .8, then both .7 at once (2 of 4), .3, .1 (3 of 6): (1 + 1/2 + 1/2) / 3.
    assert average_precision(SCORES, GOOD) == pytest.approx(2 / 3)


def test_a_bound_keeps_what_equals_it():
    row = Judgement(SCORES, GOOD, ~GOOD).at(0.7)
    assert row == {
        "threshold": 0.7,
        "pool_kept": pytest.approx(2 / 3),
        "precision": 0.5,
        "recall": pytest.approx(2 / 3),
    }
    assert Judgement(SCORES, GOOD, ~GOOD).at(2.0)["precision"] is None


def test_keep_rates_are_of_the_pool():
    rows = Judgement(SCORES, GOOD, ~GOOD).keep_rates((1 / 2, 1 / 3, 1 / 2))
    assert [row["keep"] for row in rows] == [1 / 3, 1 / 2]
    assert [row["threshold"] for row in rows] == [0.8, 0.7]  # one of three, and two of three
    assert rows[1]["pool_kept"] == pytest.approx(2 / 3)


def test_the_curve_has_every_distinct_score_or_two_hundred():
    curve = Judgement(SCORES, GOOD, ~GOOD).curve()
    assert [row["threshold"] for row in curve] == [0.1, 0.3, 0.7, 0.8, 0.9]
    assert curve[0]["recall"] == 1.0
    many = np.linspace(0, 1, 5000)
    assert len(Judgement(many, many > 0.5, many <= 0.5).curve()) == 200


def test_confusion_by_hand():
    found = confusion(np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 1]), ("a", "b"))
    assert found["accuracy"] == 0.8
    assert found["labels"]["a"] == {"documents": 2, "precision": 1.0, "recall": 0.5, "found_as": {"a": 1, "b": 1}}
    assert found["labels"]["b"]["precision"] == 0.75
    none = confusion(np.array([0, 0]), np.array([1, 1]), ("a", "b"))["labels"]
    assert none["a"]["precision"] is None
    assert none["b"]["recall"] is None
