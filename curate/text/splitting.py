"""The splitter `fast`: the tokens of `curate.words.split_words`, found in the UTF-8 of a whole batch by one kernel."""

from __future__ import annotations

import numpy as np

from curate.compiled import compiled
from curate.text.characters import (
    CLASS_SHIFT,
    LETTER,
    LETTER_MARK,
    SIGN,
    SPACE,
    UNSPACED_MARK,
    Bytes,
    Int64s,
    TokenBuffers,
    decode,
    enlarged,
    fast_table,
    make_room,
    trimmed,
)
from curate.text.kinds import KIND_LETTER, KIND_PUNCTUATION, KIND_SENTENCE_END, KIND_SYMBOLS, KIND_WORD, PRIME

_PRIME = np.uint64(PRIME)
_ONE = np.uint64(1)
_ANY = np.uint8(KIND_LETTER | KIND_WORD)
_ALL = np.uint8(KIND_SYMBOLS | KIND_PUNCTUATION)
_SINGLE = np.uint8(KIND_SENTENCE_END)
_APOSTROPHE, _COMMA, _HYPHEN, _STOP, _CURLY = 0x27, 0x2C, 0x2D, 0x2E, 0x2019


def fast_tokens(data: Bytes, starts: Int64s, ends: Int64s) -> tuple[TokenBuffers, Int64s]:
    """Return the tokens of all rows one behind the other, and where those of each row begin, shape (rows + 1,).

    Args:
        data: UTF-8 of all rows.
        starts: Where each row's text begins, shape (rows,).
        ends: Where it ends.
    """
    table = fast_table()
    offsets = np.zeros(len(starts) + 1, np.int64)
    buffers = make_room(int((ends - starts).sum()) // 4 + 64)
    row = 0
    while True:
        row = _split_rows(data, starts, ends, row, table, buffers, offsets)
        if row == len(starts):
            break
        buffers = enlarged(buffers, int(offsets[row]), 2 * len(buffers.key) + int(ends[row] - starts[row]))
    return trimmed(buffers, int(offsets[-1])), offsets


@compiled
def _split_rows(
    data: Bytes, starts: Int64s, ends: Int64s, row: int, table: Bytes, out: TokenBuffers, offsets: Int64s
) -> int:
    """Split rows from `row` on; return the row whose tokens had no room, or the number of rows."""
    while row < len(starts):
        count = _split_row(data, starts[row], ends[row], table, out, offsets[row])
        if count < 0:
            return row
        row += 1
        offsets[row] = count
    return row


@compiled
def _split_row(data: Bytes, begin: int, stop: int, table: Bytes, out: TokenBuffers, count: int) -> int:
    """Write the tokens of data[begin:stop] behind the first `count`; return how many there are then, or -1."""
    i = begin
    while i < stop:
        code, step = decode(data, i, stop)
        bits = table[code]
        kind = bits >> CLASS_SHIFT
        if kind == SPACE:
            i += step
            continue
        first, some, every, chars = i, bits, bits, 1
        i += step
        if kind in (LETTER, LETTER_MARK):
            while i < stop:
                code, step = decode(data, i, stop)
                bits = table[code]
                kind = bits >> CLASS_SHIFT
                if kind not in (LETTER, LETTER_MARK):
                    is_joint = code in (_HYPHEN, _STOP, _COMMA, _APOSTROPHE, _CURLY)
                    if not is_joint or i + step >= stop:
                        break
                    behind, _ = decode(data, i + step, stop)
                    kind = table[behind] >> CLASS_SHIFT
                    if kind not in (LETTER, LETTER_MARK):
                        break
                some |= bits
                every &= bits
                chars += 1
                i += step
        elif kind == SIGN:
            while i + step <= stop:
                is_same = True
                for offset in range(step):
                    is_same = is_same and data[i + offset] == data[first + offset]
                if not is_same:
                    break
                chars += 1
                i += step
        else:
            while i < stop:
                code, step = decode(data, i, stop)
                bits = table[code]
                kind = bits >> CLASS_SHIFT
                if kind not in (LETTER_MARK, UNSPACED_MARK):
                    break
                some |= bits
                every &= bits
                chars += 1
                i += step
        if count == len(out.key):
            return -1
        key = np.uint64(0)
        for place in range(first, i):
            key = key * _PRIME + np.uint64(data[place]) + _ONE
        out.key[count] = key
        out.start[count] = first - begin
        out.size[count] = i - first
        out.chars[count] = chars
        out.kind[count] = (some & _ANY) | (every & _ALL) | (every & _SINGLE if chars == 1 else np.uint8(0))
        count += 1
    return count


@compiled
def gather(data: Bytes, starts: Int64s, offsets: Int64s, tokens: TokenBuffers, out: Bytes) -> None:
    """Write the bytes of all tokens one behind the other into `out`, shape (sum of sizes,)."""
    place = 0
    for row in range(len(starts)):
        for token in range(offsets[row], offsets[row + 1]):
            begin = starts[row] + tokens.start[token]
            for i in range(begin, begin + tokens.size[token]):
                out[place] = data[i]
                place += 1
