"""Kernels of `curate.text.folding`: runs without white space found eight bytes at a time, folded, stripped, and hashed.

Of an ASCII run each byte says at once whether it is white space, a letter or digit (ASCII letters and digits are all
there is of that), and what it is folded to; sixty-four such answers are one number. Where a run holds another byte, the
run goes character by character, by the table of `folding`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text.bits import GAMMA, mix, trailing_zeros
from curate.text.characters import Bytes, Int64s, Uint64s, decode

Uint32s = npt.NDArray[np.uint32]
LONGEST = 128  # bytes of a word with other characters than ASCII that is hashed here
# Bits of the table, above those of the folded code point. All but the first are of that.
CODE = (1 << 21) - 1
SPACE, GONE, SEVERAL, WORD, UNSPACED, ATTACHED = (1 << bit for bit in range(21, 27))

START = np.uint64(GAMMA)
_HIGH, _LOW7 = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
# Added to seven bits, these set the eighth from a byte on: 9 and 14, 28 and 33 (white space), 48 and 58, 65 and 91, 97 and 123.
_9, _14, _28, _33, _48, _58, _65, _91, _97, _123 = (
    np.uint64(0x0101010101010101 * (128 - byte)) for byte in (9, 14, 28, 33, 48, 58, 65, 91, 97, 123)
)
_GATHER = np.uint64(0x0102040810204080)  # brings the lowest bits of eight bytes into one
_0, _ONE, _2, _3, _6, _7, _8, _56, _63 = (np.uint64(number) for number in (0, 1, 2, 3, 6, 7, 8, 56, 63))
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class Found(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """What the kernel found.

    Attributes:
        hashes: Of the words of runs that are not left over, in order.
        runs: Of each run left over, the number of hashes before it, its first byte and its end, shape (room, 3).
        num_hashes: Hashes up to the end of each row, from 0 on, shape (rows + 1,).
        num_runs: Runs left over up to the end of each row.
    """

    hashes: Uint64s
    runs: Int64s
    num_hashes: Int64s
    num_runs: Int64s


class Scratch(NamedTuple):
    """Room for the longest row, its size rounded up to whole blocks of 64 bytes, and one block more.

    Attributes:
        folded: The row in small letters. One number of eight bytes begins at each byte: the strides are 1, shape (bytes,).
        is_space: For each 64 bytes, whether each is ASCII white space, the first in the lowest bit; shape (blocks,).
        is_word: The same for letters and digits.
        is_high: The same for bytes that are no ASCII.
        tail: The end of a row, filled up with white space, shape (64,).
        tail_parts: The same as numbers of eight bytes, one beginning at each byte.
        word: Room for a word.
        word_parts: The same room as such numbers.
    """

    folded: Uint64s
    is_space: Uint64s
    is_word: Uint64s
    is_high: Uint64s
    tail: Bytes
    tail_parts: Uint64s
    word: Bytes
    word_parts: Uint64s


@compiled
def hash_rows(
    data: Bytes, parts: Uint64s, starts: Int64s, ends: Int64s, folding: Uint32s, room: Scratch, found: Found
) -> None:
    """Hash the words of all rows.

    Args:
        data: UTF-8 of all rows.
        parts: The same, one number of eight bytes beginning at each byte, but for the last seven.
        starts: Where each row begins.
        ends: Where it ends.
        folding: What each code point is folded to, and bits.
        room: Scratch.
        found: What is written.
    """
    folded, is_space, is_word, is_high = room.folded, room.is_space, room.is_word, room.is_high
    tail, tail_parts = room.tail, room.tail_parts
    num_hashes = num_runs = 0
    for row in range(len(starts)):
        start, size = starts[row], ends[row] - starts[row]
        blocks = size >> 6
        classify(parts, np.uint64(start), 0, blocks, folded, is_space, is_word, is_high)
        for place in range(64):  # what lies behind the row is another's, or nobody's: here it is white space
            tail[place] = data[start + 64 * blocks + place] if 64 * blocks + place < size else 32
        classify(tail_parts, np.uint64(0), blocks, 1, folded, is_space, is_word, is_high)
        num_hashes, num_runs = _hash_row(data, start, blocks + 1, folding, room, found, num_hashes, num_runs)
        found.num_hashes[row + 1] = num_hashes
        found.num_runs[row + 1] = num_runs


@compiled
def classify(
    parts: Uint64s,
    start: np.uint64,
    first: int,
    blocks: int,
    folded: Uint64s,
    is_space: Uint64s,
    is_word: Uint64s,
    is_high: Uint64s,
) -> None:
    """Fold the ASCII letters of whole blocks and say of each byte what it is; see `Scratch`.

    Args:
        parts: Numbers of eight bytes, one at each byte.
        start: Where the bytes to look at begin.
        first: The block of the row that they are.
        blocks: How many blocks.
        folded: What is written, as the next ones.
        is_space: See `Scratch`.
        is_word: See `Scratch`.
        is_high: See `Scratch`.
    """
    write = np.uint64(first) << _6
    for block in range(first, first + blocks):
        space = word = high = np.uint64(0)
        for step in range(8):
            value = parts[start]
            ascii_ = ~value & _HIGH
            low = value & _LOW7
            small = (((low + _65) ^ (low + _91)) & ascii_) >> _2  # 0x20 where there is a capital
            folded[write] = value | small
            low |= small
            spaces = (((low + _9) ^ (low + _14)) | ((low + _28) ^ (low + _33))) & ascii_
            words = (((low + _97) ^ (low + _123)) | ((low + _48) ^ (low + _58))) & ascii_
            shift = np.uint64(8 * step)
            space |= ((spaces >> _7) * _GATHER >> _56) << shift
            word |= ((words >> _7) * _GATHER >> _56) << shift
            high |= (((value & _HIGH) >> _7) * _GATHER >> _56) << shift
            start += _8
            write += _8
        is_space[block] = space
        is_word[block] = word
        is_high[block] = high


@compiled
def _hash_row(
    data: Bytes, start: int, blocks: int, folding: Uint32s, room: Scratch, found: Found, num_hashes: int, num_runs: int
) -> tuple[int, int]:
    """Hash the words of a row that is classified; return the number of hashes and of runs left over."""
    # Arrays by themselves: one of a tuple costs as much as the word. Unsigned places: numba lets signed ones count from the end.
    folded, is_space, is_word, is_high, hashes = room.folded, room.is_space, room.is_word, room.is_high, found.hashes
    has_high = False
    for block in range(blocks):
        has_high = has_high or is_high[block] != _0
    before = _ONE  # whether the byte before is white space
    is_inside = False
    first = _0  # of the run at hand
    for block in range(blocks):
        space = is_space[block]
        edges = space ^ (space << _ONE | before)  # bytes at which white space begins or ends
        before = space >> _63
        while edges != _0:
            place = (np.uint64(block) << _6) + np.uint64(trailing_zeros(edges))
            edges &= edges - _ONE
            is_inside = not is_inside
            if is_inside:
                first = place
                continue
            if has_high and not none_set(is_high, int(first), int(place)):
                begin, end = start + int(first), start + int(place)
                num_hashes, num_runs = _hash_other_run(data, begin, end, folding, room, found, num_hashes, num_runs)
                continue
            last = place - _ONE
            while is_word[last >> _6] >> (last & _63) & _ONE == _0 and last > first:
                last -= _ONE
            while is_word[first >> _6] >> (first & _63) & _ONE == _0 and first < last:
                first += _ONE
            if is_word[last >> _6] >> (last & _63) & _ONE != _0:
                more = last - first  # bytes but for one
                value = START
                while more >= _8:
                    value = mix(value ^ folded[first])
                    first += _8
                    more -= _8
                hashes[num_hashes] = mix(value ^ (folded[first] & _ALL >> ((_7 - more) << _3)))
                num_hashes += 1
    return num_hashes, num_runs


@compiled
def none_set(is_high: Uint64s, first: int, end: int) -> bool:
    """Return whether no bit is set in [first, end), at least one bit."""
    block, last = first >> 6, (end - 1) >> 6
    bits = is_high[block] >> np.uint64(first & 63)
    if block == last:
        return bool(bits << np.uint64(64 - (end - first)) == np.uint64(0))
    for between in range(block + 1, last):
        bits |= is_high[between]
    return bool((bits | is_high[last] << np.uint64(63 - ((end - 1) & 63))) == np.uint64(0))


@compiled
def hash_bytes(parts: Uint64s, place: int, size: int) -> np.uint64:
    """Return `curate.words.hash_word` of the `size` bytes at `place`; at least 1."""
    value = START
    while size > 8:
        value = mix(value ^ parts[place])
        place += 8
        size -= 8
    return np.uint64(mix(value ^ (parts[place] & _ALL >> np.uint64(64 - 8 * size))))


@compiled
def _hash_other_run(
    data: Bytes, i: int, stop: int, folding: Uint32s, room: Scratch, found: Found, num_hashes: int, num_runs: int
) -> tuple[int, int]:
    """Hash the words of a run without ASCII white space; return the number of hashes and of runs left over."""
    while i < stop:
        code, step = decode(data, i, stop)
        if folding[code] & SPACE != 0:
            i += step
            continue
        first = i
        i, count = _hash_signs(data, first, stop, folding, room, found.hashes, num_hashes)
        if count >= 0:
            num_hashes = count
            continue
        found.runs[num_runs, 0] = num_hashes
        found.runs[num_runs, 1] = first
        found.runs[num_runs, 2] = i
        num_runs += 1
    return num_hashes, num_runs


@compiled
def _hash_signs(
    data: Bytes, i: int, stop: int, folding: Uint32s, room: Scratch, hashes: Uint64s, count: int
) -> tuple[int, int]:
    """Write the hashes of the words of the run at `i`; return its end, and how many there are then, -1 if left over."""
    word = room.word
    size = kept = 0  # bytes of the word, and up to its last letter, mark or digit
    is_unspaced = is_left = False  # whether the word began with a character of a script without spaces; is left over
    while i < stop:
        code, step = decode(data, i, stop)
        folded = int(folding[code])
        if folded & SPACE != 0:
            break
        i += step
        if folded & GONE != 0:
            continue
        is_left = is_left or folded & SEVERAL != 0
        begins = folded & UNSPACED != 0 and not (is_unspaced and folded & ATTACHED != 0)
        if begins or (is_unspaced and folded & ATTACHED == 0):
            if kept > 0:
                hashes[count] = hash_bytes(room.word_parts, 0, kept)
                count += 1
            size = kept = 0
            is_unspaced = begins
        if size > 0 or folded & WORD != 0:
            if size >= LONGEST - 3:
                is_left = True
                size = 0
            size = encode(word, size, folded & CODE)
            if folded & WORD != 0:
                kept = size
    if is_left:
        return i, -1
    if kept > 0:
        hashes[count] = hash_bytes(room.word_parts, 0, kept)
        count += 1
    return i, count


@compiled
def encode(word: Bytes, place: int, code: int) -> int:
    """Write a code point as UTF-8; return the place behind it."""
    if code < 0x80:
        word[place] = code
        return place + 1
    if code < 0x800:
        word[place] = 0xC0 | code >> 6
        word[place + 1] = 0x80 | code & 0x3F
        return place + 2
    if code < 0x10000:
        word[place] = 0xE0 | code >> 12
        word[place + 1] = 0x80 | code >> 6 & 0x3F
        word[place + 2] = 0x80 | code & 0x3F
        return place + 3
    word[place] = 0xF0 | code >> 18
    word[place + 1] = 0x80 | code >> 12 & 0x3F
    word[place + 2] = 0x80 | code >> 6 & 0x3F
    word[place + 3] = 0x80 | code & 0x3F
    return place + 4
