"""Compiled kernels of comparison by vectors."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Dots = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Doubles = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_LOOSE = 1.0 - 1e-5  # of a bound in float32 that no pair on the true bound falls below


@compiled
def best_matches(
    dots: Dots, squares: Int64s, others: Int64s, similarity: float, first: int, best: Doubles, at: Int64s
) -> None:
    """Raise `best` of each row to its greatest similarity to one of the others, and set `at` to the first that has it.

    Args:
        dots: Dot products of whole numbers, exact, shape (rows, others).
        squares: Squared length of each row, more than 0.
        others: Squared length of each other, more than 0.
        similarity: Smallest one that counts.
        first: Number of the first of the others.
        best: Greatest similarity so far, shape (rows,); less than `similarity`: none.
        at: The number of who has it, shape (rows,).
    """
    lengths = np.sqrt(others.astype(np.float64)).astype(np.float32)
    for row in range(len(dots)):
        bound = np.float32(similarity * math.sqrt(squares[row]) * _LOOSE)
        for other in range(dots.shape[1]):
            if dots[row, other] < bound * lengths[other]:
                continue
            # both whole numbers are below 2**53 in float64, so a vector is exactly 1 alike to itself
            found = np.float64(dots[row, other]) / math.sqrt(np.float64(squares[row]) * np.float64(others[other]))
            if found >= similarity and found > best[row]:
                best[row] = found
                at[row] = first + other


@compiled
def settle(
    dots: Dots,
    open_rows: Int64s,
    squares: Int64s,
    similarity: float,
    first: int,
    best: Doubles,
    at: Int64s,
    stays: Bools,
) -> int:
    """Settle rows that stand in order of priority: one stays that is alike to none of higher priority that stays.

    Args:
        dots: Dot products of rows and open rows: whole numbers, exact, shape (rows, open rows).
        open_rows: Rows that are alike to none of those before all rows: they alone may stay; ascending.
        squares: Squared length of each row, more than 0.
        similarity: Smallest one of a pair.
        first: Number that the first row gets that stays.
        best: Greatest similarity to those that stand before all rows and stay, shape (rows,); raised here.
        at: The number of who has it, shape (rows,); set here.
        stays: Set here, shape (rows,).

    Returns:
        How many stay.
    """
    count = seen = 0
    kept = np.empty(len(open_rows), np.int64)
    for row in range(len(dots)):
        for number in range(count):
            other = kept[number]
            square = np.float64(squares[open_rows[other]])
            found = np.float64(dots[row, other]) / math.sqrt(np.float64(squares[row]) * square)
            if found >= similarity and found > best[row]:
                best[row] = found
                at[row] = first + number
        stays[row] = best[row] < similarity
        if stays[row]:
            kept[count] = seen
            count += 1
        if seen < len(open_rows) and open_rows[seen] == row:
            seen += 1
    return count
