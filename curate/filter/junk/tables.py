"""Classes and lower case of code points, and the hash tables of words and phrases, as arrays that kernels read."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from curate.compiled import kept_table

OTHER, WORD, UNSPACED, LINE_END, SPACE, SENTENCE_END, INSIDE, CURRENCY = range(8)  # classes of code points
PLANE = 0x10000  # code points that the tables know; those beyond are OTHER, but for ideographs, which are UNSPACED

_SENTENCE_ENDS = ".!?…。！？｡．؟۔।॥"
_MARKS_OF_SCRIPTS = (*range(0x300, 0x2000), *range(0xA000, 0xE000))  # Ethiopic, Khmer, Tibetan, Javanese, ...
_INSIDE = ",;:、，；：،؛"
_CURRENCIES = "$€£¥₹₽₩₺₴₪฿₫"
# Han with its extensions, Kana, Thai, Lao, Myanmar, Khmer: no spaces between words.
_UNSPACED_RANGES = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
)


@kept_table
def classes() -> NDArray[np.uint8]:
    """Return the class of each code point of the first plane, shape (PLANE,)."""
    table = np.zeros(PLANE, np.uint8)
    for code in range(PLANE):
        sign = chr(code)
        if sign in "\n\r\x0b\x0c\x85\u2028\u2029":
            table[code] = LINE_END
        elif sign.isspace():
            table[code] = SPACE
        elif sign in _SENTENCE_ENDS:
            table[code] = SENTENCE_END
        elif sign in _INSIDE:
            table[code] = INSIDE
        elif sign in _CURRENCIES:
            table[code] = CURRENCY
        elif code in _MARKS_OF_SCRIPTS and unicodedata.category(sign) == "Po":
            table[code] = INSIDE  # which of them end a sentence does not matter where lines do not
        elif sign == "©" or unicodedata.category(sign)[0] in "LMN":
            table[code] = WORD
    for first, last in _UNSPACED_RANGES:
        inside = slice(first, last + 1)
        table[inside] = np.where(table[inside] == WORD, UNSPACED, table[inside])
    return table


@kept_table
def lower() -> NDArray[np.int32]:
    """Return the lower case of each code point of the first plane, shape (PLANE,); itself where that is no single one."""
    table = np.arange(PLANE, dtype=np.int32)
    for code in range(PLANE):
        small = chr(code).lower()
        if len(small) == 1:
            table[code] = ord(small)
    return table


def words_of(text: str) -> list[list[int]]:
    """Return the words of a phrase as lists of lower-case code points, cut as the kernel cuts them."""
    kinds, small = classes(), lower()
    words: list[list[int]] = []
    inside = False
    for sign in text:
        code = ord(sign)
        kind = int(kinds[code]) if code < PLANE else UNSPACED if 0x20000 <= code < 0x40000 else OTHER
        if kind == UNSPACED or (kind == WORD and not inside):
            words.append([])
        if kind in (WORD, UNSPACED):
            words[-1].append(int(small[code]) if code < PLANE else code)
        inside = kind == WORD
    return words


SEED, PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
SPREAD = 0x9E3779B97F4A7C15


def word_key(codes: Iterable[int]) -> int:
    """Return the 64-bit key of a word (FNV-1a over its code points); the kernel's twin."""
    key = SEED
    for code in codes:
        key = ((key ^ code) * PRIME) & MASK
    return key


def phrase_key(text: str) -> tuple[int, int]:
    """Return the 64-bit key of a phrase and its number of words; the kernel's twin."""
    key, words = 0, words_of(text)
    for word in words:
        key = ((key ^ word_key(word)) * SPREAD) & MASK
        key ^= key >> 29
    return key, len(words)


def hash_table(values: Mapping[int, int]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return keys and values as an open-addressing table at most a quarter full; key 0 is an empty slot."""
    size = 64
    while size < 4 * len(values):
        size *= 2
    keys, held = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    for key, value in values.items():
        assert key, "0 marks an empty slot"
        slot = (key ^ key >> 32) & (size - 1)
        while keys[slot]:
            slot = (slot + 1) & (size - 1)
        keys[slot], held[slot] = key, value
    return keys, held
