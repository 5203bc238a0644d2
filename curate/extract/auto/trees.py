"""Boosted decision trees as plain arrays, and their evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curate.extract.auto.kernel import cached_array_kernel

Floats = npt.NDArray[np.float32]
Int32s = npt.NDArray[np.int32]
Uint8s = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Trees:
    """An ensemble for a binary target; its sum is the log-odds.

    A row goes to the left child of a node if its value is at most the threshold, else to the right one, which stands
    behind the left. A leaf leads to itself: its threshold is infinite.

    Attributes:
        feature: Column that a node looks at, shape (nodes,).
        threshold: Shape (nodes,).
        left: The left child of a node, shape (nodes,).
        value: Log-odds that a leaf adds, 0 for inner nodes: shape (nodes,).
        roots: First node of each tree, shape (trees,).
        depths: Steps from the root to the deepest leaf, shape (trees,).
    """

    feature: Uint8s
    threshold: Floats
    left: Int32s
    value: Floats
    roots: Int32s
    depths: Uint8s

    def predict(self, rows: Floats) -> Floats:
        """Return the probability of each row: shape (rows,)."""
        out: Floats = np.empty(len(rows), np.float32)
        _predict(rows, self.feature, self.threshold, self.left, self.value, self.roots, self.depths, out)
        return out

    def check(self, num_features: int) -> None:
        """Raise ValueError if a row could be led outside of the arrays, or around in them."""
        nodes = len(self.feature)
        if not (len(self.threshold) == len(self.left) == len(self.value) == nodes > 0):
            raise ValueError("arrays of nodes differ in length")
        inner = np.isfinite(self.threshold)
        step = self.left - np.arange(nodes)
        if (self.feature >= num_features).any() or (step[inner] < 1).any() or (step[~inner] != 0).any():
            raise ValueError("a node leads where none should")
        if (self.left[inner] + 1 >= nodes).any() or (self.roots < 0).any() or (self.roots >= nodes).any():
            raise ValueError("a node leads outside of the arrays")
        if len(self.roots) != len(self.depths):
            raise ValueError("roots and depths differ in length")


@cached_array_kernel
def _predict(
    rows: Floats,
    feature: Uint8s,
    threshold: Floats,
    left: Int32s,
    value: Floats,
    roots: Int32s,
    depths: Uint8s,
    out: Floats,
) -> None:
    """Lead every row through every tree without a branch: trees outside, rows inside, `depth` steps each."""
    number = len(rows)
    node = np.empty(number, np.int32)
    total = np.zeros(number, np.float32)
    for tree in range(len(roots)):
        node[:] = roots[tree]
        for _ in range(depths[tree]):
            for row in range(number):
                at = node[row]
                node[row] = left[at] + (rows[row, feature[at]] > threshold[at])
        for row in range(number):
            total[row] += value[node[row]]
    for row in range(number):
        out[row] = 1.0 / (1.0 + math.exp(-total[row]))
