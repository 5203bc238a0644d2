"""FineWeb's line counts over a batch's UTF-8."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text.characters import NUM_CODE_POINTS, SENTENCE_ENDS, decode, members
from curate.text.lines import (
    LF,
    Bytes,
    Uint64s,
    drop_space,
    line_end_size,
    line_stop,
    num_chars,
    possible_line_ends,
    table_size,
    was_there,
)
from curate.words import Texts

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

CURATE, DATATROVE = 0, 1  # whose lines
NUM_COLUMNS = 5

# The signs that end a line for datatrove 0.10.1 (its TERMINAL_PUNCTUATION, Apache-2.0) beside the ends of sentences.
_MORE_ENDS = (
    "\u061d\u061e\u0837\u0839\u083d\u083e\u17d4\u17d5\u17d6\u17d9\u17da\u1b7d\u1b7e\u2e53\u2e54\U00010f55\U00010f56"
    "\U00010f57\U00010f58\U00010f59\U00010f86\U00010f87\U00010f88\U00010f89\U00011944\U00011946\U00011ef7\U00011ef8"
    "\U00011f43\U00011f44\U00016e98"
)


@lru_cache(maxsize=2)
def ends_of_lines(variant: int) -> Flags:
    """Return which code points end a line that is a sentence, shape (0x110000,).

    CURATE: those with the Unicode property Sentence_Terminal.
    """
    if variant == CURATE:
        return members(r"\p{Sentence_Terminal}")
    table = np.zeros(NUM_CODE_POINTS, np.bool_)
    table[[ord(sign) for sign in (*SENTENCE_ENDS, *_MORE_ENDS)]] = True
    return table


@compiled
def measure(texts: Texts, offsets: Int64s, variant: int, short: int, ends_line: Flags, out: Floats) -> None:
    """Write the columns of `FineWeb.adds` of each row into `out`, shape (rows, NUM_COLUMNS).

    Args:
        texts: The texts.
        offsets: Each row's first word, and the one behind all (`curate.words.Tokens`).
        variant: CURATE or DATATROVE.
        short: The most characters of a short line.
        ends_line: `ends_of_lines(variant)`.
        out: Receives the values.
    """
    data = texts.data
    most = 1
    for row in range(len(texts.starts)):
        most = max(most, possible_line_ends(data, texts.starts[row], texts.ends[row]) + 1)
    table = np.empty(table_size(most), np.uint64)
    for row in range(len(texts.starts)):
        start, stop = texts.starts[row], texts.ends[row]
        feeds = 0
        for i in range(start, stop):
            feeds += data[i] == LF
        lines, terminal, shorter, again = _lines(data, start, stop, variant, short, ends_line, table)
        chars = num_chars(data, start, stop)
        words = int(offsets[row + 1] - offsets[row])
        out[row, 0] = lines
        out[row, 1] = terminal / max(lines, 1)
        out[row, 2] = shorter / max(lines, 1)
        out[row, 3] = again / max(chars - feeds, 1)
        out[row, 4] = feeds / max(words, 1) if lines else 0.0


@compiled
def _lines(
    data: Bytes, start: int, stop: int, variant: int, short: int, ends_line: Flags, table: Uint64s
) -> tuple[int, int, int, int]:
    """Return the lines that are not blank, those that end in a mark, those that are short, and the characters repeated."""
    size = table_size(possible_line_ends(data, start, stop) + 1)
    table[:size] = np.uint64(0)
    lines, terminal, shorter, again = 0, 0, 0, 0
    first = start
    while first < stop:
        if variant == CURATE:
            end = line_stop(data, first, stop)
            behind = end + line_end_size(data, end, stop) if end < stop else stop
        else:
            end = first
            while end < stop and data[end] != LF:
                end += 1
            behind = end + 1
        last = drop_space(data, first, end)
        if last > first:
            if variant == DATATROVE:
                last = end
            lines += 1
            i = last - 1
            while data[i] & 0xC0 == 0x80:
                i -= 1
            code, _ = decode(data, i, last)
            terminal += ends_line[code]
            chars = num_chars(data, first, last)
            shorter += chars <= short
            if was_there(data, first, last, table, size):
                again += chars
        first = behind
    return lines, terminal, shorter, again
