"""The n-grams of an index as tables that documents are looked up in: one pass for the long ones, one for all that are shorter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from curate.decontaminate.find_kernels import Table, fill_filter, find_long, find_short, places_of
from curate.decontaminate.ngrams import BASE

_FILTER_BITS = (
    16  # for each hash: of those that are not held, one in 70 gets through, and most of the filter stays in cache
)
_ROOM = 1 << 14  # hits that are written before they are taken away
Found = tuple[NDArray[np.int64], NDArray[np.int64]]


def table_of(hashes: NDArray[np.uint64]) -> Table:
    """Return the table of sorted distinct hashes."""
    bits = max(1, len(hashes).bit_length() - 1)
    leading = hashes >> np.uint64(64 - bits)
    buckets = np.zeros((1 << bits) + 1, np.uint32)
    np.cumsum(np.bincount(leading.astype(np.int64), minlength=1 << bits), out=buckets[1:])
    filter_bits = max(1, (_FILTER_BITS * len(hashes) // 64).bit_length())
    filter_shift = np.uint64(64 - filter_bits)
    filled = np.zeros(1 << filter_bits, np.uint64)
    fill_filter(hashes, filter_shift, filled)
    return Table(hashes, buckets, filled, np.uint64(64 - bits), filter_shift)


def places_in(table: Table, values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return where each value stands in the table's hashes, -1 where it does not."""
    places = np.empty(len(values), np.int64)
    places_of(np.ascontiguousarray(values, np.uint64), table.hashes, table.buckets, table.shift, places)
    return places


class Lookup:
    """Finds n-grams in documents.

    A hash stands for its n-gram: two of a million n-grams and a trillion of words share one with a chance of 5 in 100.

    Args:
        hashes: Of all n-grams, sorted and distinct.
        is_long: Whether each has `ngram` words, shape (H,).
        ngram: Words of the longest n-grams.
        shortest: Words of the shortest.
        prefixes: For each shorter n-gram the hash of its first `shortest` words, in any order, with repetitions.
        lengths: Words of that n-gram, of the same shape.
    """

    def __init__(
        self,
        hashes: NDArray[np.uint64],
        is_long: NDArray[np.bool_],
        ngram: int,
        shortest: int,
        prefixes: NDArray[np.uint64],
        lengths: NDArray[np.int64],
    ) -> None:
        self._ngram, self._shortest = ngram, shortest
        self.table = table_of(
            hashes
        )  # its own filter is not asked: the long ones have theirs, the others their prefixes
        long = table_of(hashes[is_long])
        self._long = self.table._replace(filter=long.filter, filter_shift=long.filter_shift)
        self._has_long = bool(is_long.any())
        held, which = np.unique(prefixes, return_inverse=True)
        self._prefixes = table_of(held)
        self._lengths = np.zeros(len(held), np.uint64)
        np.bitwise_or.at(self._lengths, which, np.uint64(1) << (lengths - 1).astype(np.uint64))

    @property
    def nbytes(self) -> int:
        """Return the bytes of all tables, the hashes of the index included."""
        table, first = self.table, self._prefixes
        arrays = (
            table.hashes,
            table.buckets,
            self._long.filter,
            first.hashes,
            first.buckets,
            first.filter,
            self._lengths,
        )
        return sum(array.nbytes for array in arrays)

    def find(self, words: NDArray[np.uint64], offsets: NDArray[np.int64]) -> Found:
        """Find n-grams in documents.

        Args:
            words: Word hashes of all documents, one after another.
            offsets: Where each document's words start, and the end of the last; shape (documents + 1,).

        Returns:
            First word and place of the hash of each n-gram found, sorted by word, then place.
        """
        words, offsets = np.ascontiguousarray(words, np.uint64), np.ascontiguousarray(offsets, np.int64)
        n = self._shortest
        long = short = _none()
        if self._has_long:
            lead = _lead(self._ngram)
            long = _collected(
                lambda row, start, hits: find_long(words, offsets, row, start, self._ngram, lead, self._long, hits),
                len(offsets) - 1,
            )
        if len(self._lengths):
            first = _lead(n)
            short = _collected(
                lambda row, start, hits: find_short(
                    words, offsets, row, start, n, first, self.table, self._prefixes, self._lengths, hits
                ),
                len(offsets) - 1,
            )
        place, number = np.concatenate([long[0], short[0]]), np.concatenate([long[1], short[1]])
        order = np.lexsort((number, place))
        return place[order], number[order]


def _none() -> Found:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def _lead(n: int) -> np.uint64:
    return np.uint64(pow(BASE, n - 1, 1 << 64))


def _collected(find: Callable[[int, int, NDArray[np.int64]], tuple[int, int, int]], rows: int) -> Found:
    """Return all hits of a kernel that stops where its room is full."""
    hits = np.empty((_ROOM, 2), np.int64)
    parts: list[NDArray[np.int64]] = []
    row = start = 0
    while row < rows:
        row, start, count = find(row, start, hits)
        parts.append(hits[:count].copy())
    if not parts:
        return _none()
    place, number = np.concatenate(parts).T
    return place, number
