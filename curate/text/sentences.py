"""Sentences counted in UTF-8 by compiled code: as many as `curate.text.words.split_sentences` returns."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled, kept_table
from curate.text.characters import ASSIGNED, NUM_CODE_POINTS, decode, members
from curate.text.lines import Bytes, Uint64s, drop_space, mixed, place_of, skip_space, table_size
from curate.text.words import _BEFORE_NAMES, _BEFORE_NUMBERS, _FULL_WIDTH, _LONGEST_ABBREVIATION

# What a code point is, in bits.
MARK, FULL_WIDTH, CLOSES, OPENS, BLANK, LOWER, UPPER, DIGIT, IN_WORD = (1 << bit for bit in range(9))

_STOP = 0x2E
_BASE = np.uint64(0x100000001B3)
_ONE = np.uint64(1)


class SentenceTables(NamedTuple):
    """What the rules know.

    Attributes:
        classes: Bits of each code point, shape (0x110000,).
        upper, lower: Letters outside ASCII that an abbreviation may be written with, and their lower case.
        names, numbers: Hash tables of abbreviations: those that never end a sentence, those that end none before a number.
    """

    classes: npt.NDArray[np.uint16]
    upper: npt.NDArray[np.int64]
    lower: npt.NDArray[np.int64]
    names: Uint64s
    numbers: Uint64s


@kept_table
def _classes() -> npt.NDArray[np.uint16]:
    """Return what each code point is to `count_sentences`, in bits, shape (0x110000,)."""
    classes = np.zeros(NUM_CODE_POINTS, np.uint16)
    for expression, bit in (
        (r"[\p{Sentence_Terminal}…]", MARK),
        (r"[\"'\p{Pe}\p{Pf}\p{Pi}]", CLOSES),
        (r"[\"'\p{Ps}\p{Pi}\p{Pf}¿¡*_]", OPENS),
        (r"\s", BLANK),
        (r"[\p{L}\p{M}\p{N}.]", IN_WORD),
    ):
        classes[members(expression)] |= np.uint16(bit)
    for sign in _FULL_WIDTH:
        classes[ord(sign)] |= np.uint16(FULL_WIDTH)
    for codes in ASSIGNED:
        for code in codes:
            sign = chr(code)
            bits = LOWER * sign.islower() | UPPER * sign.isupper() | DIGIT * sign.isdigit()
            if bits:
                classes[code] |= np.uint16(bits)
    return classes


@lru_cache(maxsize=1)
def sentence_tables() -> SentenceTables:
    """Return the tables of `count_sentences`, made from the expressions and lists of `curate.text.words`."""
    classes = _classes()
    letters = set("".join((*_BEFORE_NAMES, *_BEFORE_NUMBERS)))
    capitals = np.flatnonzero(classes[0x80:] & np.uint16(UPPER)) + 0x80
    folded = [(code, ord(chr(code).lower())) for code in capitals.tolist() if chr(code).lower() in letters]
    upper, lower = np.array(folded, np.int64).reshape(-1, 2).T.copy()
    return SentenceTables(classes, upper, lower, _hashed(_BEFORE_NAMES), _hashed(_BEFORE_NUMBERS))


def _hashed(abbreviations: frozenset[str]) -> Uint64s:
    table = np.zeros(table_size(len(abbreviations)), np.uint64)
    for word in abbreviations:
        value = 0
        for sign in word:
            value = (value * int(_BASE) + ord(sign) + 1) % 2**64
        key = np.uint64(mixed(np.uint64(value)))
        table[place_of(table, len(table), key)] = key
    return table


@compiled
def count_sentences(data: Bytes, start: int, stop: int, tables: SentenceTables) -> int:
    """Return the number of sentences in a line, data[start:stop]; 0 if it is blank."""
    start = skip_space(data, start, stop)
    stop = drop_space(data, start, stop)
    classes = tables.classes
    count, first, i = 0, start, start
    while i < stop:
        code, size = decode(data, i, stop)
        if classes[code] & MARK == 0:
            i += size
            continue
        mark = i
        while i < stop:
            following, size = decode(data, i, stop)
            if classes[following] & MARK == 0:
                break
            code = following
            i += size
        is_stop = i == mark + 1 and code == _STOP
        closed = _behind(data, i, stop, classes, CLOSES)
        behind = _behind(data, closed, stop, classes, BLANK)
        after = _behind(data, behind, stop, classes, OPENS)
        if after >= stop or classes[code] & FULL_WIDTH:
            ends = True
        else:
            following, _ = decode(data, after, stop)
            if behind == closed or classes[following] & LOWER:
                ends = False
            else:
                ends = not is_stop or closed > i or _stop_ends(data, first, mark, classes[following], tables)
        if ends:
            count += 1
            first = closed
        i = behind
    return count + (skip_space(data, first, stop) < stop)


@compiled
def _behind(data: Bytes, i: int, stop: int, classes: npt.NDArray[np.uint16], bit: int) -> int:
    """Return the place behind the characters at `i` that have this bit."""
    while i < stop:
        code, size = decode(data, i, stop)
        if classes[code] & bit == 0:
            break
        i += size
    return i


@compiled
def _stop_ends(data: Bytes, first: int, mark: int, following: int, tables: SentenceTables) -> bool:
    """Whether a single stop ends the sentence that begins at `first`, by the word before it.

    Args:
        data: The text.
        first: Where the sentence begins.
        mark: Where the stop is.
        following: Bits of the character that follows behind white space.
        tables: What is known.
    """
    classes = tables.classes
    begin = mark
    for _ in range(_LONGEST_ABBREVIATION):
        i = begin - 1
        while i > first and data[i] & 0xC0 == 0x80:
            i -= 1
        if i < first:
            break
        code, _size = decode(data, i, mark)
        if classes[code] & IN_WORD == 0:
            break
        begin = i
    if begin == mark:
        return True
    i = begin
    while i < mark and data[i] == _STOP:
        i += 1
    chars, all_digits, is_upper, value = 0, True, False, np.uint64(0)
    while i < mark:
        code, size = decode(data, i, mark)
        all_digits = all_digits and classes[code] & DIGIT != 0
        is_upper = classes[code] & UPPER != 0
        value = value * _BASE + np.uint64(_folded(code, tables)) + _ONE
        chars += 1
        i += size
    if chars == 1 and is_upper:  # an initial
        return False
    if all_digits and chars and skip_space(data, first, begin) >= begin:  # the number of a list item
        return False
    key = mixed(value)
    if tables.names[place_of(tables.names, len(tables.names), key)] == key:
        return False
    return following & DIGIT == 0 or tables.numbers[place_of(tables.numbers, len(tables.numbers), key)] != key


@compiled
def _folded(code: int, tables: SentenceTables) -> int:
    """Return the lower case of a letter, as far as an abbreviation may have it."""
    if code < 0x80:
        return code + 32 if 0x41 <= code <= 0x5A else code
    for index in range(len(tables.upper)):
        if tables.upper[index] == code:
            return int(tables.lower[index])
    return code
