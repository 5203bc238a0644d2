"""Repeated word n-grams of many documents at once (Gopher, Rae et al. 2021, table A1; formulas of datatrove).

Words are integers here, equal if and only if the words are equal. An n-gram is the pair of the two (n-1)-grams that it
overlaps, numbered anew at each level: identity is exact, without hashing, and only what was repeated one level below
can be repeated, so that each level looks at fewer places than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Repeats:
    """The n-grams of one length that occur at least twice in their document.

    Attributes:
        n: Words in the n-gram.
        positions: Where they start, ascending, shape (P,); a word's position counts over all documents.
        ids: Which n-gram each one is, shape (P,); equal ids mean equal n-grams of the same document.
        counts: How often each n-gram occurs, indexed by id.
        firsts: Index into `positions` of its first occurrence, indexed by id.
    """

    n: int
    positions: NDArray[np.int64]
    ids: NDArray[np.int64]
    counts: NDArray[np.int64]
    firsts: NDArray[np.int64]


def repeats(words: NDArray[np.int64], documents: NDArray[np.int64], longest: int) -> Iterator[Repeats]:
    """Yield the repeated n-grams for n = 1 to `longest`.

    Args:
        words: The words of all documents one behind the other, as small integers, shape (N,).
        documents: The document of each word, ascending, shape (N,).
        longest: The last n.
    """
    total = len(words)
    level = _grouped(1, np.arange(total), documents * (int(words.max(initial=0)) + 1) + words)
    yield level
    for n in range(2, longest + 1):
        id_at = np.full(total + 1, -1, np.int64)
        id_at[level.positions] = level.ids
        starts = level.positions
        # Both (n-1)-grams are repeated, and no n-gram crosses into the next document.
        starts = starts[(id_at[starts + 1] >= 0) & (starts + n <= total)]
        starts = starts[documents[starts] == documents[starts + n - 1]]
        level = _grouped(n, starts, id_at[starts] * (len(level.counts) + 1) + id_at[starts + 1])
        yield level


def _grouped(n: int, positions: NDArray[np.int64], keys: NDArray[np.int64]) -> Repeats:
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    repeated = counts[inverse] >= 2
    _, firsts, ids, counts = np.unique(keys[repeated], return_index=True, return_inverse=True, return_counts=True)
    return Repeats(n, positions[repeated], ids.astype(np.int64), counts.astype(np.int64), firsts.astype(np.int64))


def top_chars(
    level: Repeats, starts: NDArray[np.int64], ends: NDArray[np.int64], char_ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each document the characters in all occurrences of its most frequent n-gram, shape (D,).

    Words are joined by one space. Of equally frequent n-grams the first in the text counts; if none is repeated, that is
    the document's first n-gram, once. 0 for a document with fewer than n words.

    Args:
        level: The repeated n-grams.
        starts: Each document's first word, shape (D,).
        ends: The word behind each document's last, shape (D,).
        char_ends: Characters in all words before each word, and in all words, shape (N + 1,).
    """
    n = level.n
    result = np.zeros(len(starts), np.int64)
    enough = np.flatnonzero(ends - starts >= n)
    result[enough] = char_ends[starts[enough] + n] - char_ends[starts[enough]] + n - 1
    if len(level.counts):
        where = level.positions[level.firsts]
        document = np.searchsorted(ends, where, side="right")
        order = np.lexsort((where, -level.counts, document))
        document = document[order]
        best = np.flatnonzero(np.r_[True, document[1:] != document[:-1]])
        first, count = where[order[best]], level.counts[order[best]]
        result[document[best]] = (char_ends[first + n] - char_ends[first] + n - 1) * count
    return result


def repeated_chars(level: Repeats, ends: NDArray[np.int64], char_ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each document the characters in its n-grams that were seen before, shape (D,).

    Read from the left: an n-gram seen before is counted (words without spaces between them) and skipped as a whole;
    else the reading goes on with the next word.

    Args:
        level: The repeated n-grams.
        ends: The word behind each document's last, shape (D,).
        char_ends: Characters in all words before each word, and in all words, shape (N + 1,).
    """
    n = level.n
    result = np.zeros(len(ends), np.int64)
    seen: set[int] = set()  # an n-gram counts as seen only where the reading stopped at it
    free = 0
    counted: list[int] = []
    for position, gram in zip(level.positions.tolist(), level.ids.tolist(), strict=True):
        if position < free:
            continue
        if gram in seen:
            counted.append(position)
            free = position + n
        else:
            seen.add(gram)
    first = np.array(counted, np.int64)
    np.add.at(result, np.searchsorted(ends, first, side="right"), char_ends[first + n] - char_ends[first])
    return result
