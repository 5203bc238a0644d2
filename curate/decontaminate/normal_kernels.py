"""Kernels of `curate.decontaminate.normal_hashes`: words of the normal form found and hashed.

An ASCII word with nothing behind it that could join it to the next is hashed where it stands, eight bytes at a time. All
else goes character by character, by a table that says what `normal.normal_signs` makes of each character alone; so do a
few ASCII words (don't, 1,000). Where characters may work upon each other (Unicode composes or orders them), where one
stands for several words, and where a word is longer than the room, the stretch is left to the plain function.
"""

from __future__ import annotations

import numpy as np

from curate.compiled import compiled
from curate.decontaminate.normal_states import (
    ADDS,
    ALONE,
    EMPTY,
    ENDS,
    GONE,
    HYPHEN,
    NEWLINE,
    PART,
    RETURN,
    SEPARATES,
    SEVERAL,
    SOFT,
    SPACE,
    SPLITS,
)
from curate.text.bits import borrowed, mix, trailing_zeros
from curate.text.characters import Bytes, Int64s, Uint64s, decode
from curate.text.folding_kernels import (
    CODE,
    LONGEST,
    START,
    Found,
    Scratch,
    Uint32s,
    classify,
    encode,
    hash_bytes,
    none_set,
)

# An entry of the table: the code point made, above it what it is, above that four bits.
CLASS_SHIFT = 21
# Bits: Unicode may compose something onto it; compose it onto something; it is, or ends with, a mark that has an order.
FIRST, SECOND, LEADS, TRAILS = (1 << bit for bit in range(25, 29))

_0, _ONE, _6, _7, _8, _63, _BYTE = (np.uint64(number) for number in (0, 1, 6, 7, 8, 63, 255))
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_MOST = LONGEST - 8  # bytes of a word before the last sign


@compiled
def normal_rows(
    parts: Uint64s,
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    actions: Bytes,
    table: Uint32s,
    room: Scratch,
    found: Found,
) -> None:
    """Hash the words of all rows, and mark rows with hyphens at line breaks.

    Args:
        parts: `data` as numbers of eight bytes, one beginning at each byte but for the last seven.
        data: UTF-8 of all rows.
        starts: Where each row begins.
        ends: Where it ends.
        actions: Of `normal_states.transitions`.
        table: Of `normal_hashes.sign_table`.
        room: Scratch for the longest row.
        found: What is written; its runs count from the first byte of `data`.
    """
    parts, data, actions, table = borrowed(parts), borrowed(data), borrowed(actions), borrowed(table)
    folded, is_space, is_word = borrowed(room.folded), borrowed(room.is_space), borrowed(room.is_word)
    is_high, tail, tail_parts = borrowed(room.is_high), borrowed(room.tail), borrowed(room.tail_parts)
    word, word_parts = borrowed(room.word), borrowed(room.word_parts)
    room = Scratch(folded, is_space, is_word, is_high, tail, tail_parts, word, word_parts)
    found = Found(borrowed(found.hashes), borrowed(found.runs), found.num_hashes, found.num_runs)
    num_hashes = num_runs = 0
    for row in range(len(starts)):
        start, size = starts[row], ends[row] - starts[row]
        blocks = size >> 6
        classify(parts, np.uint64(start), 0, blocks, folded, is_space, is_word, is_high)
        for place in range(64):  # what lies behind the row is another's, or nobody's: here it is white space
            tail[place] = data[start + 64 * blocks + place] if 64 * blocks + place < size else 32
        classify(tail_parts, np.uint64(0), blocks, 1, folded, is_space, is_word, is_high)
        num_hashes, num_runs = _hash_row(data, start, size, actions, table, room, found, num_hashes, num_runs)
        found.num_hashes[row + 1] = num_hashes
        found.num_runs[row + 1] = num_runs


@compiled
def _hash_row(
    data: Bytes,
    start: int,
    size: int,
    actions: Bytes,
    table: Uint32s,
    room: Scratch,
    found: Found,
    num_hashes: int,
    num_runs: int,
) -> tuple[int, int]:
    """Hash the words of a row that is classified; return the number of hashes and of runs left over."""
    # Arrays by themselves: one of a tuple costs as much as the word. Unsigned places: numba lets signed ones count from the end.
    folded, is_word, is_high, hashes = room.folded, room.is_word, room.is_high, found.hashes
    blocks = (size >> 6) + 1
    has_high = False
    for block in range(blocks):
        has_high = has_high or is_high[block] != _0
    before = _0  # whether the byte before is of a word
    is_inside = False
    first = done = _0  # of the stretch at hand; up to where all is hashed
    for block in range(blocks):
        word = is_word[block] | is_high[block]
        edges = word ^ (
            word << _ONE | before
        )  # bytes at which a stretch of letters, digits and other than ASCII begins or ends
        before = word >> _63
        while edges != _0:
            place = (np.uint64(block) << _6) + np.uint64(trailing_zeros(edges))
            edges &= edges - _ONE
            is_inside = not is_inside
            if is_inside:
                first = place
                continue
            if first < done:
                continue
            if (has_high and not none_set(is_high, int(first), int(place))) or _may_join(folded[place]):
                end, num_hashes, num_runs = _hash_signs(
                    data, start + int(first), start + size, actions, table, room, found, num_hashes, num_runs
                )
                done = np.uint64(end - start)
                continue
            more = place - first - _ONE  # bytes but for one
            value = START
            while more >= _8:
                value = mix(value ^ folded[first])
                first += _8
                more -= _8
            hashes[num_hashes] = mix(value ^ (folded[first] & _ALL >> ((_7 - more) << np.uint64(3))))
            num_hashes += 1
    return num_hashes, num_runs


def _joiners() -> Bytes:
    """Return of each byte which joints it may be, in the lower half, and in the upper half which ones it may stand behind.

    Joints: an apostrophe, before a letter or digit; a separator of digits; a hyphen, before white space. What is no ASCII may
    be all of that.
    """
    roles = np.zeros(256, np.uint8)
    for bit, signs, following in (
        (1, b"'`", b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
        (2, b",_", b"0123456789"),
        (4, b"-", b" \t\n\r"),
    ):
        roles[list(signs)] |= bit
        roles[list(following)] |= bit << 4
    roles[128:] = 0x70
    return roles


_JOINERS = _joiners()


@compiled
def _may_join(signs: np.uint64) -> bool:
    """Return whether what stands behind an ASCII word, its first two bytes, may join it to more. No branch: it is asked of each word."""
    return bool(_JOINERS[signs & _BYTE] & (_JOINERS[signs >> _8 & _BYTE] >> np.uint8(4)) != 0)


@compiled
def _is_word(byte: int) -> bool:
    """Return whether a byte is a letter, a digit, or no ASCII."""
    small = byte | 0x20
    return byte >= 128 or (small >= 97 and small < 123) or (byte >= 48 and byte < 58)


@compiled
def _hash_signs(
    data: Bytes,
    first: int,
    stop: int,
    actions: Bytes,
    table: Uint32s,
    room: Scratch,
    found: Found,
    num_hashes: int,
    num_runs: int,
) -> tuple[int, int, int]:
    """Hash the words of the stretch at `first`, and of those that are joined to it.

    Returns:
        The end of the last of these stretches, the number of hashes and of runs left over.
    """
    word, parts, hashes, runs = room.word, room.word_parts, found.hashes, found.runs
    i = unit = first  # where the last word began with nothing before it
    unit_count = num_hashes
    state = size = split = 0  # of the word in the making; its bytes; those before what may be a separator of groups
    after_first = after_mark = False
    while True:
        if state == EMPTY and (i == stop or (i > first and not (_is_word(data[i]) and _is_word(data[i - 1])))):
            return i, num_hashes, num_runs
        code, step = decode(data, i, stop) if i < stop else (0, 0)  # a sign that parts
        entry = int(np.int64(table[code]))
        kind = entry >> CLASS_SHIFT & 15
        if kind == SOFT and _is_line_end(data, i + step, stop):
            kind, entry = HYPHEN, HYPHEN << CLASS_SHIFT
        if kind in (GONE, SOFT):
            i += step
            continue
        works = (entry & SECOND != 0 and after_first) or (entry & LEADS != 0 and after_mark)
        if kind == ALONE or (size > 0 and (works or size >= _MOST)):
            if size == 0:
                unit, unit_count = i, num_hashes
            i = _end_of_unit(data, i, stop, table)
            num_hashes = unit_count
            runs[num_runs, 0], runs[num_runs, 1], runs[num_runs, 2] = num_hashes, unit, i
            num_runs += 1
            state = size = split = 0
            after_first = after_mark = False
            continue
        after_first, after_mark = entry & FIRST != 0, entry & TRAILS != 0
        place = entry & CODE
        count = int(np.int64(table[place])) if kind == SEVERAL else 1
        for number in range(count):
            sign = int(np.int64(table[place + 1 + number])) if kind == SEVERAL else entry
            action = int(actions[state << 4 | sign >> CLASS_SHIFT & 15])
            state = action & 15
            if action & SPLITS != 0:
                hashes[num_hashes] = hash_bytes(parts, 0, split)
                num_hashes += 1
                size -= split
                for byte in range(size):
                    word[byte] = word[split + byte]
            if action & ENDS != 0:
                hashes[num_hashes] = hash_bytes(parts, 0, size)
                num_hashes += 1
                size = 0
            if action & ADDS != 0:
                if size == 0 and (action & ENDS == 0 or entry & (SECOND | LEADS) == 0):
                    unit, unit_count = i, num_hashes
                size = encode(word, size, sign & CODE)
            elif action & SEPARATES != 0:
                split = size
        i += step


@compiled
def _is_line_end(data: Bytes, i: int, stop: int) -> bool:
    """Return whether nothing but blanks stands before a line break."""
    while i < stop and (data[i] == 32 or data[i] == 9):
        i += 1
    return bool(i < stop and (data[i] == 10 or data[i] == 13))


@compiled
def _end_of_unit(data: Bytes, i: int, stop: int, table: Uint32s) -> int:
    """Return where a stretch ends that nothing can join to the next: at white space or another sign that parts."""
    is_hyphen = False
    while i < stop:
        code, step = decode(data, i, stop)
        kind = int(np.int64(table[code])) >> CLASS_SHIFT & 15
        is_space = kind in (SPACE, NEWLINE, RETURN)
        if kind == PART or (is_space and not is_hyphen):
            break
        if kind in (HYPHEN, SOFT):
            is_hyphen = True
        elif kind != GONE and not is_space:
            is_hyphen = False
        i += step
    return i
