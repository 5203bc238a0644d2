"""Rows of text put one after another for encoding."""

from __future__ import annotations

from curate.compiled import compiled
from curate.text.characters import Bytes, Int64s


@compiled
def put_rows(data: Bytes, bounds: Int64s, out: Bytes, places: Int64s) -> None:
    """Copy rows, a space before each that is not empty.

    Args:
        data: UTF-8 of the rows.
        bounds: Where each row begins, and the end; shape (rows + 1,).
        out: What is written.
        places: Bounds of the rows in `out`, from 0 on.
    """
    place = 0
    for row in range(len(bounds) - 1):
        if bounds[row + 1] > bounds[row]:
            out[place] = 32
            place += 1
        for number in range(bounds[row], bounds[row + 1]):
            out[place] = data[number]
            place += 1
        places[row + 1] = place
