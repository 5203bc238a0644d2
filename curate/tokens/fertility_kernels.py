"""The kernel of fertility: characters and words of texts, in one pass over their bytes."""

from __future__ import annotations

import numpy as np

from curate.compiled import compiled
from curate.text.characters import CLASS_SHIFT, SPACE, UNSPACED, UNSPACED_MARK, Bytes, Int64s, decode


@compiled
def count_rows(data: Bytes, bounds: Int64s, table: Bytes) -> tuple[Int64s, Int64s]:
    """Return the characters and the words of each row, both of shape (rows,).

    A word is a run without white space; in a script without spaces each character is one, its marks are part of it.

    Args:
        data: UTF-8 of the rows one after another.
        bounds: Where each row begins, and the end; shape (rows + 1,).
        table: See `curate.text.characters.fast_table`.
    """
    rows = bounds.size - 1
    characters, words = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for row in range(rows):
        place, stop = bounds[row], bounds[row + 1]
        inside = False  # a run of a script with spaces
        while place < stop:
            code, size = decode(data, place, stop)
            kind = int(table[code]) >> CLASS_SHIFT
            if kind == SPACE:
                inside = False
            elif kind == UNSPACED:
                inside = False
                words[row] += 1
            elif kind != UNSPACED_MARK and not inside:
                inside = True
                words[row] += 1
            characters[row] += 1
            place += size
    return characters, words
