"""Which documents go because another one says nearly the same (SemDeDup, Abbas et al. 2023, arXiv:2303.09540).

Within a group, documents are gone through in order of priority: one goes if it is at least `similarity` alike to one that
stays. So whoever goes has a pair with a document of higher priority that stays; no chain of pairs takes a stranger along,
and of n documents that are all alike n comparisons are made and no list of pairs is written, however large n is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from curate.dedup.semantic_kernels import best_matches, settle
from curate.dedup.semantic_vectors import Int8s, Int64s, dot_products, squared_lengths
from curate.dedup.spill import zeros_on_disk

_FEWEST, _MOST = 32, 2048  # documents compared with others at once


@dataclass(frozen=True, slots=True)
class Chosen:
    """Some of those that go in one group.

    Attributes:
        rows: Of those that go, shape (gone,).
        kept: For each of them the row of the document that stands for it: of those that stay and have a higher priority the
            most similar one, of equals the first.
        similarities: Cosine of the angle between both vectors.
    """

    rows: Int64s
    kept: Int64s
    similarities: npt.NDArray[np.float64]


def choose_semantic(
    vectors: Int8s, order: Int64s, similarity: float, *, memory_bytes: int, scratch: str
) -> Iterator[Chosen]:
    """Yield those that go in one group, in order of priority.

    Args:
        vectors: Of all rows, shape (rows, dimensions); may lie on disk. None of those in `order` is zero.
        order: The rows of the group, highest priority first; may lie on disk.
        similarity: Smallest cosine of a pair.
        memory_bytes: About what buffers may hold; changes nothing else.
        scratch: An existing folder.
    """
    dimensions = vectors.shape[1]
    size = _block(dimensions, memory_bytes)
    with TemporaryDirectory(prefix="semantic-", dir=scratch) as folder:
        kept = zeros_on_disk(folder, "kept", np.int8, order.size * dimensions).reshape(order.size, dimensions)
        rows_kept = zeros_on_disk(folder, "rows", np.int64, order.size)
        count = 0  # of those that stay so far
        for start in range(0, order.size, size):
            rows = order[start : start + size]
            block = np.ascontiguousarray(vectors[rows])
            squares = squared_lengths(block)
            best, at = np.zeros(len(rows)), np.full(len(rows), -1, np.int64)
            for first in range(0, count, size):
                others = kept[first : min(first + size, count)]
                dots = dot_products(block, others)
                best_matches(dots, squares, squared_lengths(others), similarity, first, best, at)
            stays = np.zeros(len(rows), np.bool_)
            may_stay = np.flatnonzero(best < similarity)
            dots = dot_products(block, block[may_stay])
            found = settle(dots, may_stay, squares, similarity, count, best, at, stays)
            kept[count : count + found] = block[stays]
            rows_kept[count : count + found] = rows[stays]
            count += found
            if found < len(rows):
                yield Chosen(rows[~stays], rows_kept[at[~stays]], best[~stays])


def _block(dimensions: int, memory_bytes: int) -> int:
    """Return how many documents are compared at once: two blocks in int8, int32 and float32, and their products."""
    # solves 8 size**2 + 26 dimensions size = memory_bytes
    half = 13 * dimensions / 8
    return max(_FEWEST, min(_MOST, int(math.sqrt(half * half + memory_bytes / 8) - half)))
