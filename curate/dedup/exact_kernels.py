"""The kernel of exact hashes: runs of white space made one space, and the quick check for NFC on the way."""

from __future__ import annotations

import unicodedata

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled, kept_table
from curate.text.characters import ASSIGNED, NUM_CODE_POINTS, decode

Bytes = npt.NDArray[np.uint8]

Uint64s = npt.NDArray[np.uint64]

# Added to seven bits, these set the eighth from a byte on: 9 and 14, 28 and 33 (white space).
_9, _14, _28, _33 = (np.uint64(0x0101010101010101 * (128 - byte)) for byte in (9, 14, 28, 33))
_HIGH, _LOW7, _SPACES = (np.uint64(0x0101010101010101 * byte) for byte in (0x80, 0x7F, 0x20))
_0, _7, _8, _63, _BYTE = (np.uint64(number) for number in (0, 7, 8, 63, 0xFF))

SPACE, DOUBTFUL = 255, 254  # no combining class: these end at 240


@kept_table
def normal_classes() -> Bytes:
    """Return for each code point its canonical combining class, or SPACE, or DOUBTFUL; shape (0x110000,).

    SPACE: white space as `str.split` knows it. DOUBTFUL: the text must be normalised to know whether it changes, as the
    character alone does, or as it composes with one before it (Unicode Standard Annex 15, section 9, NFC_Quick_Check No or
    Maybe; a composition that is excluded counts, too).
    """
    table = np.zeros(NUM_CODE_POINTS, np.uint8)
    for codes in ASSIGNED:
        for code in codes:
            sign = chr(code)
            table[code] = unicodedata.combining(sign)
            if not unicodedata.is_normalized("NFC", sign):
                table[code] = DOUBTFUL
            elif sign.isspace():
                table[code] = SPACE
    for codes in ASSIGNED:
        for code in codes:
            parts = unicodedata.decomposition(chr(code)).split()
            if len(parts) == 2 and not parts[0].startswith("<"):
                table[int(parts[1], 16)] = DOUBTFUL
    table[0x1161:0x1176] = DOUBTFUL  # vowels and final consonants of Hangul: composed by arithmetic, not by table
    table[0x11A8:0x11C3] = DOUBTFUL
    return table


@compiled
def fold_spaces(
    data: Bytes, parts: Uint64s, start: int, end: int, classes: Bytes, out: Bytes, out_parts: Uint64s
) -> int:
    """Write a text with each run of white space as one space, none at either end.

    Args:
        data: UTF-8.
        parts: The same by `eight_bytes`.
        start: Where the text begins.
        end: Where it ends.
        classes: `normal_classes`.
        out: At least sixteen bytes more than the text has.
        out_parts: The same by `eight_bytes`.

    Returns:
        How many bytes were written, or -1 if the quick check does not tell that the text is in NFC.
    """
    size = 0
    gap = 1  # 1 if the last byte written is a space, or none is written yet
    before = 0  # combining class of the character before
    i = start
    while i < end:
        byte = data[i]
        if i + 8 <= end and byte < 0x80:  # eight at once, if they are ASCII and no two of them are white space together
            value = parts[i]
            low = value & _LOW7
            spaces = (((low + _9) ^ (low + _14)) | ((low + _28) ^ (low + _33))) & _HIGH
            if (value & _HIGH) | (spaces & (spaces << _8 | np.uint64(gap) << _7)) == _0:
                masks = (spaces >> _7) * _BYTE
                out_parts[size] = (value & ~masks) | (_SPACES & masks)
                size += 8
                gap = 1 if spaces >> _63 != _0 else 0
                before = 0
                i += 8
                continue
        if byte < 0x80:
            is_space = int(9 <= byte <= 13) | int(28 <= byte <= 32)
            out[size] = 32 if is_space else byte
            size += 1 - (is_space & gap)
            gap = is_space
            before = 0
            i += 1
            continue
        code, step = decode(data, i, end)
        kind = int(classes[code])
        if kind == SPACE:
            out[size] = 32
            size += 1 - gap
            gap = 1
            before = 0
        elif kind == DOUBTFUL or before > kind > 0:
            return -1
        else:
            for offset in range(step):
                out[size + offset] = data[i + offset]
            size += step
            gap = 0
            before = kind
        i += step
    return size - gap if size > 0 else 0
