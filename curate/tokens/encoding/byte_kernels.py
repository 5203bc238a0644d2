"""Kernel of `byte_level`: texts cut into parts by `split_kernels`, each part looked up whole, or its bytes merged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from curate.compiled import compiled
from curate.text.characters import Bytes, Int64s, Uint64s
from curate.tokens.encoding.merge_kernels import SHORT, Uint32s, find_word, merge_long, merge_short, signed
from curate.tokens.encoding.split_kernels import DIGIT, UNSTABLE, class_at, run_end, split_end


class Tables(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """What the kernel knows of a tokenizer; see `tables.Words` and `tables.Pairs` for those of three and two fields.

    Attributes:
        classes: Of each code point, see `byte_classes`; shape (0x110000,).
        byte_ids: Id of each byte, shape (256,).
        begins_added: Whether a token that the library looks for in a text begins with a byte, shape (256,).
        added_sizes: The sizes in bytes that such tokens have.
        pattern: See `split_kernels.split_end`.
        most_numbers: See there.
        digits: Whether digits are cut off first: 0 no, 1 one by one, 2 in runs.
        is_stable: Whether a text is refused that has characters which a normal form may change.
    """

    classes: Bytes
    byte_ids: Uint32s
    begins_added: Bytes
    added_sizes: Int64s
    pattern: int
    most_numbers: int
    digits: int
    is_stable: bool
    words: Uint64s
    words_shift: np.uint64
    words_known: Uint64s
    added: Uint64s
    added_shift: np.uint64
    added_known: Uint64s
    pairs: Uint64s
    pairs_shift: np.uint64


@compiled
def encode_rows(
    data: Bytes, parts: Uint64s, bounds: Int64s, tables: Tables, ids: Uint32s, offsets: Int64s, refused: Bytes
) -> None:
    """Encode all rows.

    Args:
        data: UTF-8 of all rows one after another, and 16 bytes more.
        parts: The same as numbers of eight bytes, one beginning at each byte.
        bounds: Where each row begins, and the end; shape (rows + 1,).
        tables: Of the tokenizer.
        ids: What is written, room for one id a byte.
        offsets: Ids up to each row's end, from 0 on; shape (rows + 1,).
        refused: What is written: whether a row is left to the library; shape (rows,).
    """
    # Arrays by themselves: each time that one of a tuple is read, its references are counted.
    classes, byte_ids, digits = tables.classes, tables.byte_ids, tables.digits
    words, words_shift, words_known = tables.words, tables.words_shift, tables.words_known
    pairs, pairs_shift, pattern, most_numbers = tables.pairs, tables.pairs_shift, tables.pattern, tables.most_numbers
    symbols, values = np.empty(SHORT + 1, np.uint64), np.empty(SHORT + 1, np.uint64)
    count = 0
    for row in range(len(bounds) - 1):
        place, stop = bounds[row], bounds[row + 1]
        if _is_refused(data, parts, place, stop, tables):
            refused[row] = 1
            place = stop
        while place < stop:
            until = stop
            if digits != 0:
                kind, width = class_at(data, place, stop, classes)
                if kind & DIGIT == 0:
                    until = run_end(data, place + width, stop, classes, DIGIT, 0)
                elif digits == 1:
                    until = place + width
                else:
                    until = run_end(data, place + width, stop, classes, DIGIT, DIGIT)
            while place < until:
                end = split_end(data, place, until, classes, pattern, most_numbers)
                token = find_word(parts, np.uint64(place), np.uint64(end - place), words, words_shift, words_known)
                if token >= 0:
                    ids[count] = token
                    count += 1
                elif end - place <= SHORT:
                    size = _read_bytes(data, place, end, byte_ids, symbols)
                    size = merge_short(symbols, values, size, pairs, pairs_shift)
                    count = _put(symbols, size, ids, count)
                else:
                    many = np.empty(end - place, np.uint64)
                    size = _read_bytes(data, place, end, byte_ids, many)
                    size = merge_long(many, size, pairs, pairs_shift)
                    count = _put(many, size, ids, count)
                place = end
        offsets[row + 1] = count


@compiled
def merge_words(
    data: Bytes, bounds: Int64s, byte_ids: Uint32s, pairs: Uint64s, pairs_shift: np.uint64, merged: Int64s
) -> None:
    """Write for each word the id that its bytes merge to, -1 if they merge to several; shape (words,)."""
    for row in range(len(bounds) - 1):
        start, end = bounds[row], bounds[row + 1]
        symbols = np.empty(end - start, np.uint64)
        size = merge_long(symbols, _read_bytes(data, start, end, byte_ids, symbols), pairs, pairs_shift)
        merged[row] = signed(symbols[0]) if size == 1 else -1


@compiled
def _read_bytes(data: Bytes, start: int, end: int, byte_ids: Uint32s, symbols: Uint64s) -> int:
    for place in range(start, end):
        symbols[place - start] = byte_ids[data[place]]
    return end - start


@compiled
def _put(symbols: Uint64s, size: int, ids: Uint32s, count: int) -> int:
    for number in range(size):
        ids[count + number] = symbols[number]
    return count + size


@compiled
def _is_refused(data: Bytes, parts: Uint64s, place: int, stop: int, tables: Tables) -> bool:
    """Return whether a text has an added token, or a character that a normal form may change where that matters."""
    sizes, begins = tables.added_sizes, tables.begins_added
    added, shift, known, classes = tables.added, tables.added_shift, tables.added_known, tables.classes
    if tables.is_stable:
        start = place
        while start < stop:
            kind, width = class_at(data, start, stop, classes)
            if kind & UNSTABLE:
                return True
            start += width
    if len(sizes) == 0:
        return False
    for start in range(place, stop):
        if begins[data[start]]:
            for number in range(len(sizes)):
                size = sizes[number]
                if start + size > stop:
                    continue
                if find_word(parts, np.uint64(start), np.uint64(size), added, shift, known) >= 0:
                    return True
    return False
