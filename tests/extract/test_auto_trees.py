"""Trees as arrays: by hand, and beside the library that grows them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from curate.extract.auto.trees import Trees

INF = np.inf


def trees(feature, threshold, left, value, roots, depths):
    return Trees(
        np.array(feature, np.uint8),
        np.array(threshold, np.float32),
        np.array(left, np.int32),
        np.array(value, np.float32),
        np.array(roots, np.int32),
        np.array(depths, np.uint8),
    )


def two_trees():
    """x0 <= 0.5 ? -1 : (x1 <= 2 ? 0.5 : 2); and a tree of one leaf that adds 0.25."""
    return trees(
        feature=[0, 0, 1, 0, 0, 0],
        threshold=[0.5, INF, 2.0, INF, INF, INF],
        left=[1, 1, 3, 3, 4, 5],
        value=[0, -1, 0, 0.5, 2, 0.25],
        roots=[0, 5],
        depths=[2, 0],
    )


@pytest.mark.parametrize(
    ("row", "log_odds"),
    [((0.5, 9), -0.75), ((0.50001, 2), 0.75), ((1, 2.0001), 2.25), ((-5, -5), -0.75)],
)
def test_rows_go_left_up_to_the_threshold(row, log_odds):
    found = two_trees().predict(np.array([row], np.float32))
    assert found[0] == pytest.approx(1 / (1 + math.exp(-log_odds)), abs=1e-6)


def test_no_rows_give_no_probabilities():
    assert two_trees().predict(np.zeros((0, 2), np.float32)).tolist() == []


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("feature", [9, 0, 1, 0, 0, 0], "leads where"),
        ("left", [1, 1, 5, 3, 4, 5], "outside"),  # its right child would be node 6
        ("left", [1, 1, 1, 3, 4, 5], "leads where"),  # back up: a row would never arrive
        ("left", [1, 2, 3, 3, 4, 5], "leads where"),  # a leaf that leads on
        ("roots", [0, 6], "outside"),
        ("depths", [2], "differ"),
        ("value", [0.0], "differ"),
    ],
)
def test_damaged_arrays_are_found(field, value, problem):
    good = two_trees()
    good.check(2)
    parts = {name: getattr(good, name) for name in ("feature", "threshold", "left", "value", "roots", "depths")}
    parts[field] = np.array(value, parts[field].dtype)
    with pytest.raises(ValueError, match=problem):
        Trees(**parts).check(2)


def test_a_flattened_booster_says_what_the_booster_says():
    lightgbm = pytest.importorskip("lightgbm")
    from curate.extract.auto.training.fit import flatten

    draw = np.random.default_rng(5)
    rows = np.round(draw.normal(size=(3000, 7)), 1).astype(np.float32)  # many values on thresholds
    target = (rows[:, 0] * rows[:, 1] + rows[:, 2] > 0.1).astype(np.float32)
    parameters = {"objective": "binary", "num_leaves": 15, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train(parameters, lightgbm.Dataset(rows, target), 25)
    found = flatten(booster, 7).predict(rows)
    assert np.abs(found - booster.predict(rows)).max() < 1e-5
