"""Kernels of `sentencepiece_bpe`: texts cut where no piece goes across, each part looked up whole, or merged.

What merges in one part does not depend on another: a cut lies between two characters that no piece has next to each
other, and pairs are taken by score and place, so that a part's pairs are taken in the same order whatever lies between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from curate.compiled import compiled
from curate.text.characters import Bytes, Int64s, Uint64s, decode
from curate.tokens.encoding.merge_kernels import SHORT, Uint32s, find_word, merge_long, merge_short, signed

MARK = 0x2581  # a character of a text that a model would take for a space
LOOSE = 1 << 31  # a symbol that is no piece: its code point and this bit
NUM_JOINS = (1 << 14) + (1 << 18)
_LOOSE, _CODE = np.uint64(LOOSE), np.uint64(LOOSE - 1)


class Tables(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """What the kernel knows of a model; see `tables.Words` and `tables.Pairs` for those of three fields.

    Attributes:
        joins: Whether some piece has two characters next to each other, by `join_place`; shape (NUM_JOINS,). Where
            two pairs have one place, both are held to be: a part is then longer than it need be.
        symbols: Of each code point, the id of its piece, or itself and LOOSE; shape (0x110000,).
        byte_ids: Id of each byte, shape (256,).
        begins_own: Whether a user-defined symbol begins with a byte, shape (256,).
        own_sizes: The sizes in bytes that user-defined symbols have, the largest first.
    """

    joins: Bytes
    symbols: Uint32s
    byte_ids: Uint32s
    begins_own: Bytes
    own_sizes: Int64s
    words: Uint64s
    words_shift: np.uint64
    words_known: Uint64s
    own: Uint64s
    own_shift: np.uint64
    own_known: Uint64s
    pairs: Uint64s
    pairs_shift: np.uint64


@compiled
def join_place(left: int, right: int) -> int:
    """Return where `Tables.joins` speaks of two code points next to each other."""
    if (left | right) < 0x80:
        return left << 7 | right
    mixed = np.uint64(left << 21 | right) * np.uint64(0x9E3779B97F4A7C15)
    return (1 << 14) + signed(mixed >> np.uint64(46))


@compiled
def put_joins(lefts: Int64s, rights: Int64s, joins: Bytes) -> None:
    """Mark pairs of code points."""
    for row in range(len(lefts)):
        joins[join_place(lefts[row], rights[row])] = 1


@compiled
def encode_rows(
    data: Bytes, parts: Uint64s, bounds: Int64s, tables: Tables, ids: Uint32s, offsets: Int64s, has_mark: Bytes
) -> None:
    """Encode all rows.

    Args:
        data: UTF-8 of all rows one after another, and 16 bytes more.
        parts: The same as numbers of eight bytes, one beginning at each byte.
        bounds: Where each row begins, and the end; shape (rows + 1,).
        tables: Of the model.
        ids: What is written, room for one id a byte.
        offsets: Ids up to each row's end, from 0 on; shape (rows + 1,).
        has_mark: What is written: whether U+2581 stands in a row; shape (rows,).
    """
    # Arrays by themselves: each time that one of a tuple is read, its references are counted.
    joins, begins_own, own_sizes = tables.joins, tables.begins_own, tables.own_sizes
    own, own_shift, own_known = tables.own, tables.own_shift, tables.own_known
    words, words_shift, words_known = tables.words, tables.words_shift, tables.words_known
    symbol_of, byte_ids = tables.symbols, tables.byte_ids
    pairs, pairs_shift = tables.pairs, tables.pairs_shift
    symbols, values = np.empty(SHORT + 1, np.uint64), np.empty(SHORT + 1, np.uint64)
    count = 0
    for row in range(len(bounds) - 1):
        place, stop = bounds[row], bounds[row + 1]
        while place < stop:
            if begins_own[data[place]]:
                size, token = _own_symbol(parts, place, stop, own_sizes, own, own_shift, own_known)
                if size > 0:
                    ids[count] = token
                    count += 1
                    place += size
                    continue
            code, size = decode(data, place, stop)
            if code == MARK:
                has_mark[row] = 1
            end = place + size
            while end < stop:
                byte = signed(data[end])
                if byte < 0x80:
                    other, size = byte, 1
                else:
                    other, size = decode(data, end, stop)
                    if other == MARK:
                        break
                if joins[join_place(code, other)] == 0:
                    break
                if begins_own[byte] and _own_symbol(parts, end, stop, own_sizes, own, own_shift, own_known)[0] > 0:
                    break
                code = other
                end += size
            token = find_word(parts, np.uint64(place), np.uint64(end - place), words, words_shift, words_known)
            if token >= 0:
                ids[count] = token
                count += 1
            else:
                size = _read_symbols(data, place, end, symbol_of, symbols)
                if size <= SHORT:
                    size = merge_short(symbols, values, size, pairs, pairs_shift)
                    count = _put_symbols(symbols, size, byte_ids, ids, count)
                else:
                    many = np.empty(end - place, np.uint64)
                    size = _read_symbols(data, place, end, symbol_of, many)
                    size = merge_long(many, size, pairs, pairs_shift)
                    count = _put_symbols(many, size, byte_ids, ids, count)
            place = end
        offsets[row + 1] = count


@compiled
def _own_symbol(
    parts: Uint64s, place: int, stop: int, sizes: Int64s, own: Uint64s, shift: np.uint64, known: Uint64s
) -> tuple[int, int]:
    """Return size and id of the longest user-defined symbol that begins at a place, sizes 0 and 0 if none does."""
    for number in range(len(sizes)):
        size = sizes[number]
        if place + size <= stop:
            token = find_word(parts, np.uint64(place), np.uint64(size), own, shift, known)
            if token >= 0:
                return size, token
    return 0, 0


@compiled
def _read_symbols(data: Bytes, start: int, end: int, symbol_of: Uint32s, symbols: Uint64s) -> int:
    """Write the symbols of a part's characters and return how many they are, more than there is room for if they are."""
    size, place, room = 0, start, len(symbols)
    while place < end and size < room:
        code, width = decode(data, place, end)
        symbols[size] = symbol_of[code]
        size += 1
        place += width
    return size


@compiled
def _put_symbols(symbols: Uint64s, size: int, byte_ids: Uint32s, ids: Uint32s, count: int) -> int:
    """Write the ids of symbols behind the first `count` and return how many there are then."""
    for number in range(size):
        symbol = symbols[number]
        if symbol & _LOOSE:
            count = put_bytes(signed(symbol & _CODE), byte_ids, ids, count)
        else:
            ids[count] = symbol
            count += 1
    return count


@compiled
def put_bytes(code: int, byte_ids: Uint32s, ids: Uint32s, count: int) -> int:
    """Write the ids of a character's bytes in UTF-8."""
    if code < 0x80:
        ids[count] = byte_ids[code]
        return count + 1
    if code < 0x800:
        ids[count] = byte_ids[0xC0 | code >> 6]
    elif code < 0x10000:
        ids[count] = byte_ids[0xE0 | code >> 12]
        count += 1
        ids[count] = byte_ids[0x80 | code >> 6 & 0x3F]
    else:
        ids[count] = byte_ids[0xF0 | code >> 18]
        ids[count + 1] = byte_ids[0x80 | code >> 12 & 0x3F]
        count += 2
        ids[count] = byte_ids[0x80 | code >> 6 & 0x3F]
    ids[count + 1] = byte_ids[0x80 | code & 0x3F]
    return count + 2
