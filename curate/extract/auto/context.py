"""The second stage sees what the first thought: of a block, its neighbours, its look-alikes, its containers, the page."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from curate.extract.auto.columns import COLUMN_HEADING_LEVEL, NUM_FEATURES, NUM_LEVELS
from curate.extract.auto.features import BlockFeatures, Doubles, Floats, Int64s, slot_of, table_size
from curate.extract.auto.kernel import array_kernel, cached_array_kernel, source_stamp
from curate.extract.auto.scan import Page
from curate.extract.auto.tags import BLOCK_ELEMENT, BLOCK_WORDS, ELEMENT_PARENT, ELEMENT_SIGNATURE

CONTEXT: tuple[str, ...] = (
    "p",
    *(f"p{offset:+d}" for offset in (-1, 1, -2, 2, -3, 3)),
    *(f"p_{direction}_{decay}" for direction in ("forward", "backward") for decay in (5, 8, 95)),
    "p_signature",  # mean over the other blocks of the same path of tags and classes
    "p_twins",  # mean over the blocks in containers of the same path as the nearest container
    *(f"p_container_{level}" for level in range(1, NUM_LEVELS + 1)),  # means over the other blocks in it
    "p_page",
    "kept_page",  # share of the words in blocks with p > 0.5
    "p_highest",
    "p_before",  # share of the page's expected main text before the block
    "p_after",
    "p_heading",  # of the heading above
    "after_first",  # blocks since the first with p > 0.5
    "before_last",
    "unsure_page",
)
NUM_CONTEXT = len(CONTEXT)
NUM_BOTH = NUM_FEATURES + NUM_CONTEXT
_AT_SIGNATURE = CONTEXT.index("p_signature")
_AT_CONTAINER = CONTEXT.index("p_container_1")
_AT_PAGE = CONTEXT.index("p_page")
_AT_FORWARD = CONTEXT.index("p_forward_5")


def with_context(page: Page, features: BlockFeatures, first: Floats) -> Floats:
    """Return both stages' features, given the probabilities of the first: shape (blocks, NUM_BOTH)."""
    both: Floats = np.empty((len(page.blocks), NUM_BOTH), np.float32)
    both[:, :NUM_FEATURES] = features.values
    if len(page.blocks):
        _fill(page.elements, page.blocks, features.levels, first, both)
    return both


def _compile_fill(stamp: int) -> Callable[..., None]:
    def fill(elements: Int64s, blocks: Int64s, levels: Int64s, p: Floats, both: Floats) -> None:
        assert stamp >= 0
        weights = np.empty(len(blocks), np.float64)
        for block in range(len(blocks)):
            weights[block] = blocks[block, BLOCK_WORDS] + 1.0
        _around(p, both)
        _alike(elements, blocks, levels, weights, p, both)
        _containers(elements, blocks, levels, weights, p, both)
        _whole(weights, p, both)

    return cached_array_kernel(fill)


@array_kernel
def _around(p: Floats, both: Floats) -> None:
    number = len(p)
    heading = np.float32(0)
    for block in range(number):
        out = both[block, NUM_FEATURES:]
        out[0] = p[block]
        for distance in range(1, 4):
            out[2 * distance - 1] = p[block - distance] if block >= distance else 0
            out[2 * distance] = p[block + distance] if block + distance < number else 0
        out[_AT_PAGE + 5] = heading
        if both[block, COLUMN_HEADING_LEVEL] > 0:
            heading = p[block]
    for direction in range(2):
        mean_5 = mean_8 = mean_95 = 0.0
        for step in range(number):
            block = number - 1 - step if direction else step
            at = NUM_FEATURES + _AT_FORWARD + 3 * direction
            both[block, at] = mean_5
            both[block, at + 1] = mean_8
            both[block, at + 2] = mean_95
            mean_5 = 0.5 * mean_5 + 0.5 * p[block]
            mean_8 = 0.8 * mean_8 + 0.2 * p[block]
            mean_95 = 0.95 * mean_95 + 0.05 * p[block]


@array_kernel
def _alike(elements: Int64s, blocks: Int64s, levels: Int64s, weights: Doubles, p: Floats, both: Floats) -> None:
    size = table_size(len(blocks))
    paths = np.zeros(size, np.int64)
    twins = np.zeros(size, np.int64)
    path_sums = np.zeros((size, 2), np.float64)
    twin_sums = np.zeros((size, 2), np.float64)
    slots = np.zeros((len(blocks), 2), np.int64)
    for block in range(len(blocks)):
        path = slot_of(paths, elements[blocks[block, BLOCK_ELEMENT], ELEMENT_SIGNATURE])
        twin = slot_of(twins, elements[levels[block, 0], ELEMENT_SIGNATURE])
        slots[block, 0], slots[block, 1] = path, twin
        path_sums[path, 0] += weights[block] * p[block]
        path_sums[path, 1] += weights[block]
        twin_sums[twin, 0] += weights[block] * p[block]
        twin_sums[twin, 1] += weights[block]
    for block in range(len(blocks)):
        out = both[block, NUM_FEATURES + _AT_SIGNATURE :]
        path, twin = path_sums[slots[block, 0]], twin_sums[slots[block, 1]]
        out[0] = (path[0] - weights[block] * p[block]) / max(path[1] - weights[block], 1.0)
        out[1] = twin[0] / twin[1]


@array_kernel
def _containers(elements: Int64s, blocks: Int64s, levels: Int64s, weights: Doubles, p: Floats, both: Floats) -> None:
    sums = np.zeros((len(elements), 2), np.float64)
    for block in range(len(blocks)):
        element = blocks[block, BLOCK_ELEMENT]
        sums[element, 0] += weights[block] * p[block]
        sums[element, 1] += weights[block]
    for element in range(len(elements) - 1, 0, -1):
        parent = elements[element, ELEMENT_PARENT]
        sums[parent, 0] += sums[element, 0]
        sums[parent, 1] += sums[element, 1]
    for block in range(len(blocks)):
        for level in range(NUM_LEVELS):
            around = sums[levels[block, level]]
            rest = max(around[1] - weights[block], 1.0)
            both[block, NUM_FEATURES + _AT_CONTAINER + level] = (around[0] - weights[block] * p[block]) / rest


@array_kernel
def _whole(weights: Doubles, p: Floats, both: Floats) -> None:
    total = expected = kept = unsure = highest = 0.0
    first, last = len(p), -1
    for block in range(len(p)):
        total += weights[block]
        expected += weights[block] * p[block]
        unsure += weights[block] * p[block] * (1 - p[block])
        highest = max(highest, p[block])
        if p[block] > 0.5:
            kept += weights[block]
            first, last = min(first, block), block
    before = 0.0
    for block in range(len(p)):
        out = both[block, NUM_FEATURES + _AT_PAGE :]
        own = weights[block] * p[block]
        out[0] = expected / total
        out[1] = kept / total
        out[2] = highest
        out[3] = before / max(expected, 1.0)
        out[4] = (expected - before - own) / max(expected, 1.0)
        out[6] = block - first
        out[7] = last - block
        out[8] = unsure / total
        before += own


_fill = _compile_fill(source_stamp("kernel", "tags", "page", "columns", "features", "context"))
