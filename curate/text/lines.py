"""Lines and blocks of a text as places in its UTF-8, for compiled code: what `curate.text.words` says of strings.

White space and line ends are those of `str.isspace` and `str.splitlines`. Nothing here makes an array: a kernel that
calls these walks through a document's bytes and keeps what it needs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Uint64s = npt.NDArray[np.uint64]

LF, CR, SPACE, NEL_LEAD, WIDE_LEAD = 0x0A, 0x0D, 0x20, 0xC2, 0xE2

# What a byte may begin: 1 a line end of one byte, 2 white space of one byte, 4 a line end or white space of several.
_CLASSES = np.zeros(256, np.uint8)
_CLASSES[[0x0A, 0x0B, 0x0C, 0x0D, 0x1C, 0x1D, 0x1E]] = 1
_CLASSES[[0x0A, 0x0B, 0x0C, 0x0D, 0x1C, 0x1D, 0x1E, 0x09, 0x1F, 0x20]] |= np.uint8(2)
_CLASSES[[0xC2, 0xE1, 0xE2, 0xE3]] = 4

_FNV = np.uint64(0x100000001B3)
_FNV_START = np.uint64(0xCBF29CE484222325)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_32 = np.uint64(32)
_ONE = np.uint64(1)


@compiled
def space_size(data: Bytes, i: int, stop: int) -> int:
    """Return the bytes of the white-space character at `i`, 0 if there is none."""
    byte = data[i]
    kind = _CLASSES[byte]
    if kind == 0:
        return 0
    if kind & 2:
        return 1
    if byte == 0xC2:
        return 2 if i + 1 < stop and (data[i + 1] == 0x85 or data[i + 1] == 0xA0) else 0
    if i + 2 >= stop:
        return 0
    second, third = data[i + 1], data[i + 2]
    if byte == 0xE2:
        if second == 0x80:
            return 3 if third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0
        return 3 if second == 0x81 and third == 0x9F else 0
    if byte == 0xE1:
        return 3 if second == 0x9A and third == 0x80 else 0
    return 3 if second == 0x80 and third == 0x80 else 0


@compiled
def line_end_size(data: Bytes, i: int, stop: int) -> int:
    """Return the bytes of the line end at `i` (`str.splitlines`; CR LF is one), 0 if there is none."""
    byte = data[i]
    if _CLASSES[byte] & 5 == 0:
        return 0
    if byte < 0x80:
        return 2 if byte == CR and i + 1 < stop and data[i + 1] == LF else 1
    if byte == 0xC2:
        return 2 if i + 1 < stop and data[i + 1] == 0x85 else 0
    if byte == 0xE2 and i + 2 < stop and data[i + 1] == 0x80:
        return 3 if data[i + 2] == 0xA8 or data[i + 2] == 0xA9 else 0
    return 0


@compiled
def line_stop(data: Bytes, i: int, stop: int) -> int:
    """Return where the line that goes on at `i` stops: at its line end, or at `stop`."""
    while i < stop:
        if _CLASSES[data[i]] & 5 and line_end_size(data, i, stop):
            return i
        i += 1
    return stop


@compiled
def word_stop(data: Bytes, i: int, stop: int) -> int:
    """Return where the run without white space that goes on at `i` stops."""
    while i < stop and (_CLASSES[data[i]] & 6 == 0 or space_size(data, i, stop) == 0):
        i += 1
    return i


@compiled
def skip_space(data: Bytes, i: int, stop: int) -> int:
    """Return the place behind the white space at `i`."""
    while i < stop:
        size = space_size(data, i, stop)
        if size == 0:
            break
        i += size
    return i


@compiled
def drop_space(data: Bytes, start: int, i: int) -> int:
    """Return the place before the white space that ends at `i`, no further back than `start`."""
    while i > start:
        byte = data[i - 1]
        if byte < 0x80:
            if _CLASSES[byte] & 2 == 0:
                break
            i -= 1
        elif i - 2 >= start and space_size(data, i - 2, i) == 2:
            i -= 2
        elif i - 3 >= start and space_size(data, i - 3, i) == 3:
            i -= 3
        else:
            break
    return i


@compiled
def num_chars(data: Bytes, start: int, stop: int) -> int:
    """Return the code points in data[start:stop]."""
    count = 0
    for i in range(start, stop):
        count += (data[i] & 0xC0) != 0x80
    return count


@compiled
def blocks_apart(data: Bytes, i: int, stop: int) -> int:
    """Return the place behind what keeps two paragraphs apart, if that begins at `i`, else `i`.

    Blank lines (line ends are LF, CR or both; between them white space, but not U+001C to U+001F), or U+2029.
    """
    byte = data[i]
    if byte in (LF, CR):
        ends, place = 0, i
        while place < stop and (data[place] == LF or data[place] == CR):
            place += 2 if data[place] == CR and place + 1 < stop and data[place + 1] == LF else 1
            ends += 1
            while place < stop and data[place] != LF and data[place] != CR:
                size = space_size(data, place, stop)
                if size == 0 or (0x1C <= data[place] <= 0x1F):
                    break
                place += size
        return place if ends >= 2 else i
    if byte == WIDE_LEAD and i + 2 < stop and data[i + 1] == 0x80 and data[i + 2] == 0xA9:
        return i + 3
    return i


@compiled
def mixed(value: np.uint64) -> np.uint64:
    """Return a 64-bit value whose every bit depends on every bit of `value`; one to one."""
    value ^= value >> _32
    value *= _MIX
    value ^= value >> _32
    value *= _MIX
    return value ^ (value >> _32)


@compiled
def span_key(data: Bytes, start: int, stop: int) -> np.uint64:
    """Return a 64-bit hash of data[start:stop], never 0.

    Two different spans share one with a probability of about 2**-64: among a million lines, 3 in 100 million.
    """
    value = _FNV_START
    for i in range(start, stop):
        value = (value ^ np.uint64(data[i])) * _FNV
    value = mixed(value + np.uint64(stop - start))
    return value if value != np.uint64(0) else _ONE


@compiled
def table_size(count: int) -> int:
    """Return the places of a hash table for `count` keys: a power of two, at most half of them taken."""
    size = 64
    while size < 2 * count:
        size *= 2
    return size


@compiled
def place_of(keys: Uint64s, size: int, key: np.uint64) -> int:
    """Return the place in keys[:size] that holds `key`, or the free one (0) where it belongs; `key` is mixed, not 0."""
    mask = size - 1
    place = np.int64(key >> np.uint64(20)) & mask
    while keys[place] != np.uint64(0) and keys[place] != key:
        place = (place + 1) & mask
    return int(place)


@compiled
def possible_line_ends(data: Bytes, start: int, stop: int) -> int:
    """Return no fewer than there are line ends in data[start:stop]."""
    count = 0
    for i in range(start, stop):
        byte = data[i]
        count += (byte <= 0x1E and byte >= 0x0A) or byte == 0x85 or byte == 0xA8 or byte == 0xA9
    return count


@compiled
def was_there(data: Bytes, start: int, stop: int, table: Uint64s, size: int) -> bool:
    """Return whether table[:size] holds a span that is equal to data[start:stop]; from now on it does."""
    key = span_key(data, start, stop)
    place = place_of(table, size, key)
    if table[place] == key:
        return True
    table[place] = key
    return False
