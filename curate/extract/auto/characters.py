"""Characters: what each is to the counts, references to them, and their UTF-8."""

from __future__ import annotations

import html.entities

import numpy as np
import numpy.typing as npt

from curate.extract.auto.kernel import kernel
from curate.extract.auto.state import Bytes

PADDING = 16  # zero bytes behind the page, so that looking a few bytes ahead needs no check
PRIME = np.uint64(0x100000001B3)
BASIS = np.uint64(0xCBF29CE484222325)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ONE, FORTY, TOP_16 = np.uint64(1), np.uint64(40), np.uint64(48)
TAB, NEWLINE, RETURN, SPACE, QUOTE, _HASH, DOLLAR, AMPERSAND = 9, 10, 13, 32, 34, 35, 36, 38
APOSTROPHE, DASH, SLASH, _SEMICOLON, LESS, EQUALS, GREATER, BANG = 39, 45, 47, 59, 60, 61, 62, 33
BRACKET, BACKSLASH, CARET, UNDERSCORE, BRACE, CLOSING_BRACE = 91, 92, 94, 95, 123, 125
# What a character is to the counts. Those up to DIGIT are letters of a word, those up to CLOSING need no second look.
(
    LETTER, UPPER, DIGIT, SIGN, COMMA, MARK, COLON, CLOSING, BLANK, REFERENCE, MARKUP, MULTIBYTE,
    HAN, DENSE, DENSER, FULL_MARK, INVISIBLE, SYLLABLE_MARK, WIDE_BLANK,
) = range(19)  # fmt: skip
# What a kind leaves as the last mark of the block: 1 ends a sentence, 2 is a colon, 3 a sentence end already counted.
MARKS = np.zeros(19, np.uint8)
MARKS[[MARK, COLON, FULL_MARK]] = 1, 2, 3


def _ascii_classes() -> Bytes:
    classes = np.full(256, SIGN, np.uint8)
    classes[:33] = BLANK
    classes[0x80:] = MULTIBYTE
    for characters, kind in (
        ("abcdefghijklmnopqrstuvwxyz", LETTER),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", UPPER),
        ("0123456789", DIGIT),
        (".!?", MARK),
        ("\"')]", CLOSING),
        (",", COMMA),
        (":", COLON),
        ("&", REFERENCE),
        ("<", MARKUP),
    ):
        for character in characters:
            classes[ord(character)] = kind
    return classes


CLASSES = _ascii_classes()


def _entity_table() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Return hashes and code points (two, the second 0 if there is one) of the names of HTML 5, open-addressed."""
    size = 4096
    keys, values = np.zeros(size, np.uint64), np.zeros((size, 2), np.int32)
    for name, characters in html.entities.html5.items():
        key = int(BASIS)
        for byte in name.encode("ascii"):
            key = ((key ^ byte) * int(PRIME)) % (1 << 64)
        slot = key >> 52
        while keys[slot]:
            slot = (slot + 1) % size
        keys[slot] = key
        values[slot, : len(characters)] = [ord(character) for character in characters]
    return keys, values


_ENTITY_KEYS, _ENTITY_VALUES = _entity_table()
_ENTITY_SHIFT, _ENTITY_MASK = np.uint64(52), 4095
# Numbers 128 to 159 mean windows-1252; 0 where that has none.
_WINDOWS_1252 = np.array([ord((bytes([n]).decode("cp1252", "ignore") or "\0")[0]) for n in range(128, 160)], np.int64)


@kernel
def _read_number_reference(d: Bytes, i: int, end: int) -> tuple[int, int, int]:
    """Read the reference `&#` at i: the place behind it, its code point (0: none), 0. As html.unescape does."""
    base = 10
    j = i + 2
    if d[j] | 32 == 120:
        base = 16
        j += 1
    start = j
    number = 0
    while j < end:
        c = int(d[j])
        if 48 <= c <= 57:
            c -= 48
        elif base == 16 and 97 <= (c | 32) <= 102:
            c = (c | 32) - 87
        else:
            break
        number = min(number * base + c, 0x110000)
        j += 1
    if j == start:
        return i + 1, AMPERSAND, 0
    if j < end and d[j] == _SEMICOLON:
        j += 1
    if number == 0 or number >= 0x110000 or 0xD800 <= number <= 0xDFFF:
        return j, 0xFFFD, 0
    if 128 <= number <= 159:
        return j, _WINDOWS_1252[number - 128], 0
    invalid = number < 32 and not 9 <= number <= 13
    if invalid or number == 11 or number == 127 or number & 0xFFFE == 0xFFFE or 0xFDD0 <= number <= 0xFDEF:
        return j, 0, 0
    return j, number, 0


@kernel
def read_reference(d: Bytes, i: int, end: int) -> tuple[int, int, int]:
    """Read the character reference at i, an `&`: the place behind it and its code points; itself if it is none."""
    if d[i + 1] == _HASH:
        return _read_number_reference(d, i, end)
    key = BASIS
    best = -1
    best_end = i
    j = i + 1
    while j < min(end, i + 33):
        c = int(d[j])
        is_name = 97 <= (c | 32) <= 122 or 48 <= c <= 57
        if not is_name and c != _SEMICOLON:
            break
        key = (key ^ np.uint64(c)) * PRIME
        j += 1
        if not is_name or 3 <= j - i <= 7:  # the longest name that needs no semicolon has six letters
            slot = int(np.int64(key >> _ENTITY_SHIFT))
            while _ENTITY_KEYS[slot] != 0:
                if _ENTITY_KEYS[slot] == key:
                    best, best_end = slot, j
                    break
                slot = (slot + 1) & _ENTITY_MASK
        if not is_name:
            break
    if best < 0:
        return i + 1, AMPERSAND, 0
    return best_end, int(_ENTITY_VALUES[best, 0]), int(_ENTITY_VALUES[best, 1])


@kernel
def _classify_low(cp: int) -> int:
    """Return the class of a code point from U+0080 to U+1FFF."""
    if cp < 0xC0:
        if cp == 0xA0 or cp == 0x85:  # no-break space becomes a space, and next line
            return BLANK
        if cp == 0xAD:
            return INVISIBLE
        return CLOSING if cp == 0xBB else LETTER if cp == 0xAA or cp == 0xB5 or cp == 0xBA else SIGN
    if cp < 0x530:
        upper = cp <= 0xDE or 0x391 <= cp <= 0x3A9 or 0x400 <= cp <= 0x42F
        return SIGN if cp == 0xD7 or cp == 0xF7 else UPPER if upper else LETTER
    if cp == 0x60C:
        return COMMA
    if cp == 0x589 or cp == 0x61F or cp == 0x6D4 or cp == 0x964 or cp == 0x965 or cp == 0x1362 or cp == 0x17D4:
        return MARK
    if cp == 0x104B:
        return FULL_MARK
    if 0xE01 <= cp <= 0xEFF:
        return DENSE
    if 0xF00 <= cp <= 0xFFF:
        return SYLLABLE_MARK if cp == 0xF0B else LETTER
    if 0x1000 <= cp <= 0x109F or 0x1780 <= cp <= 0x17FF:
        return DENSER
    return INVISIBLE if cp == 0x61C or cp == 0x180E else LETTER


@kernel
def classify(cp: int) -> int:
    """Return what a code point is to the counts."""
    if cp < 128:
        return int(CLASSES[cp])
    if cp < 0x2000:
        return _classify_low(cp)
    if 0x3400 <= cp <= 0x9FFF or 0x3040 <= cp <= 0x30FF or 0x20000 <= cp <= 0x3FFFF or 0xF900 <= cp <= 0xFAFF:
        return HAN
    if cp < 0x2070:
        if cp == 0x2028 or cp == 0x2029:
            return BLANK
        if cp <= 0x200A or cp == 0x202F or cp == 0x205F:
            return WIDE_BLANK
        if cp == 0x200B:
            return SYLLABLE_MARK
        if cp <= 0x200F or 0x202A <= cp <= 0x202E or cp >= 0x2060:
            return INVISIBLE
        return MARK if cp == 0x2026 else CLOSING if cp == 0x2019 or cp == 0x201D else SIGN
    if 0x3000 <= cp <= 0x303F:
        if cp == 0x3000:
            return WIDE_BLANK
        if cp == 0x3001:
            return COMMA
        return FULL_MARK if cp == 0x3002 else CLOSING if cp == 0x300D or cp == 0x300F else HAN if cp == 0x3005 else SIGN
    if 0xFF00 <= cp <= 0xFFEF:
        if cp == 0xFF0C:
            return COMMA
        if cp == 0xFF01 or cp == 0xFF1F or cp == 0xFF0E or cp == 0xFF61:
            return FULL_MARK
        return LETTER if 0xFF10 <= cp <= 0xFF19 or 0xFF21 <= cp <= 0xFF5A or cp >= 0xFF66 else SIGN
    if cp == 0xFEFF or 0xFE00 <= cp <= 0xFE0F:
        return INVISIBLE
    return SIGN if cp <= 0x2BFF or 0x1F000 <= cp <= 0x1FAFF or 0xFE10 <= cp <= 0xFE6F else LETTER


@kernel
def fold(cp: int) -> int:
    """Return the small letter of a Latin-1, Greek or Cyrillic capital."""
    return cp + 80 if 0x400 <= cp <= 0x40F else cp + 32


@kernel
def write(out: Bytes, o: int, cp: int) -> int:
    """Write a code point as UTF-8; return the place behind it."""
    if cp < 0x80:
        out[o] = cp
        return o + 1
    if cp < 0x800:
        out[o] = 0xC0 | (cp >> 6)
        out[o + 1] = 0x80 | (cp & 63)
        return o + 2
    if cp < 0x10000:
        out[o] = 0xE0 | (cp >> 12)
        out[o + 1] = 0x80 | ((cp >> 6) & 63)
        out[o + 2] = 0x80 | (cp & 63)
        return o + 3
    out[o] = 0xF0 | (cp >> 18)
    out[o + 1] = 0x80 | ((cp >> 12) & 63)
    out[o + 2] = 0x80 | ((cp >> 6) & 63)
    out[o + 3] = 0x80 | (cp & 63)
    return o + 4


@kernel
def decode(d: Bytes, i: int) -> tuple[int, int]:
    """Return the place behind the character of several bytes at i, and its code point."""
    c = int(d[i])
    if c < 0xE0:
        return i + 2, ((c & 31) << 6) | (int(d[i + 1]) & 63)
    cp = (int(d[i + 1]) & 63) << 6 | (int(d[i + 2]) & 63)
    if c < 0xF0:
        return i + 3, (c & 15) << 12 | cp
    return i + 4, (c & 7) << 18 | cp << 6 | (int(d[i + 3]) & 63)
