"""One pass over UTF-8 that finds where personal data can stand: what is not near such a place is never looked at.

Plain prose has no `@`, no four numbers with dots between and few long numbers. The pass tells for each text which searches it
needs, and where its long codes are: runs of digits and capital letters with at most `_WIDEST` separators in between, with seven
digits or more (a telephone number), nine signs with six digits among them (a British National Insurance number), or fourteen
signs with two digits among them (IBANs and the CNPJ with letters have few digits). Compiled; every test here is necessary for the
searches that follow, none is sufficient.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

HAS_AT, HAS_IPV4, HAS_IPV6, HAS_CODE, HAS_TOKEN, HAS_ASSIGNED, HAS_BARE = 1, 2, 4, 8, 16, 32, 64  # of a text

_DIGIT, _UPPER, _LOWER, _SEPARATOR, _COLON, _AT, _JOINER = 1, 2, 4, 8, 16, 32, 64
_WIDEST = 3  # bytes between the parts of one code: `) ` and U+00A0, which has two
_FEWEST_DIGITS = 7
_FEWEST_SIGNS = 14  # where fewer than _FEWEST_DIGITS of them are digits
_NINO_SIGNS, _NINO_DIGITS = 9, 6
_ASSIGNING = 6  # bytes before a quotation mark in which `=`, `:` or `>` stands if what it opens is assigned to a name
_TOKEN_SIGNS = 20  # letters and digits, whatever `_` and `-` stand between: the shortest token is that of AWS, and may have no digit


def _classes() -> Bytes:
    table = np.zeros(256, np.uint8)
    for byte in range(256):
        sign = chr(byte)
        if "0" <= sign <= "9":
            table[byte] = _DIGIT
        elif "A" <= sign <= "Z":
            table[byte] = _UPPER
        elif "a" <= sign <= "z":
            table[byte] = _LOWER
        elif sign in " .-/()+\t" or byte in (0xC2, 0xA0):  # U+00A0 is C2 A0
            table[byte] = _SEPARATOR
        elif sign == ":":
            table[byte] = _COLON
        elif sign == "@":
            table[byte] = _AT
        if sign in "_-":
            table[byte] |= _JOINER
    return table


_CLASSES = _classes()


def flags_of(data: Bytes, offsets: Int64s, secrets: bool) -> Bytes:
    """Return the HAS bits of each text, shape (texts,).

    Args:
        data: The bytes of all texts.
        offsets: Where each begins and the last one ends, shape (texts + 1,).
        secrets: Whether HAS_TOKEN, HAS_ASSIGNED and HAS_BARE are asked for.
    """
    out = np.zeros(len(offsets) - 1, np.uint8)
    _flag_all(data, offsets, out, _CLASSES, secrets)
    return out


def codes_of(data: Bytes) -> Int64s:
    """Return the long codes of one text, shape (codes, 2): first byte and end."""
    room = 64
    while True:
        spans = np.empty((room, 2), np.int64)
        _, count = _scan(data, 0, len(data), spans, _CLASSES)
        if count <= room:
            return spans[:count]
        room = count


@compiled
def _flag_all(data: Bytes, offsets: Int64s, out: Bytes, classes: Bytes, secrets: bool) -> None:
    none = np.empty((0, 2), np.int64)
    for row in range(len(out)):
        flags, _ = _scan(data, offsets[row], offsets[row + 1], none, classes)
        if secrets:
            flags |= _of_secrets(data, offsets[row], offsets[row + 1], classes)
        out[row] = flags


@compiled
def _is_hex(byte: np.uint8) -> bool:
    return bool(48 <= byte <= 57 or 65 <= byte <= 70 or 97 <= byte <= 102)


@compiled
def _is_code(signs: int, digits: int) -> bool:
    return bool(
        digits >= _FEWEST_DIGITS
        or (signs >= _NINO_SIGNS and digits >= _NINO_DIGITS)
        or (signs >= _FEWEST_SIGNS and digits >= 2)
    )


@compiled
def _scan(data: Bytes, start: int, stop: int, spans: Int64s, classes: Bytes) -> tuple[int, int]:
    """Return the HAS bits of data[start:stop] and how many codes it has; write as many as there is room for."""
    flags = count = 0
    first, last = start, start - _WIDEST - 2  # of the code that is being read
    signs = digits = dots = colons = 0
    last_colon = start - 9
    for i in range(start, stop):
        kind = classes[data[i]]
        if kind & (_DIGIT | _UPPER | _COLON | _AT) == 0:
            continue
        if kind & _AT:
            flags |= HAS_AT
        elif kind & _COLON:
            colons = colons + 1 if i - last_colon <= 5 else 1
            if colons >= 7:
                flags |= HAS_IPV6
            if i - last_colon == 1:
                before = data[i - 2] if i - 2 >= start else np.uint8(0)
                behind = data[i + 1] if i + 1 < stop else np.uint8(0)
                if _is_hex(before) or _is_hex(behind):
                    flags |= HAS_IPV6
            last_colon = i
        else:
            gap = i - last - 1
            joined = gap <= _WIDEST
            if joined and gap > 0:
                for j in range(last + 1, i):
                    if classes[data[j]] & _SEPARATOR == 0:
                        joined = False
                        break
            if not joined:
                if _is_code(signs, digits):
                    if count < len(spans):
                        spans[count, 0], spans[count, 1] = first, last + 1
                    count += 1
                first, signs, digits, dots = i, 0, 0, 0
            signs += 1
            if kind & _DIGIT:
                if gap == 1 and joined and data[i - 1] == 46:
                    dots += 1
                    if dots >= 3:
                        flags |= HAS_IPV4
                elif gap != 0:
                    dots = 0
                digits += 1
            else:
                dots = 0
            last = i
    if _is_code(signs, digits):
        if count < len(spans):
            spans[count, 0], spans[count, 1] = first, last + 1
        count += 1
    return (flags | HAS_CODE if count else flags), count


@compiled
def _assigns_bare(data: Bytes, start: int, stop: int, classes: Bytes) -> bool:
    """Whether an unquoted run as long as a token begins at `start` or up to four blanks behind it."""
    i = start
    while i < min(stop, start + 4) and (data[i] == 0x20 or data[i] == 0x09):
        i += 1
    if i + _TOKEN_SIGNS > stop:
        return False
    for j in range(i, i + _TOKEN_SIGNS):
        if classes[data[j]] & (_LOWER | _UPPER | _DIGIT | _JOINER) == 0 and data[j] != 0x2B and data[j] != 0x2F:
            return False
    return True


@compiled
def _of_secrets(data: Bytes, start: int, stop: int, classes: Bytes) -> int:
    flags = signs = 0
    for i in range(start, stop):
        byte = data[i]
        if (byte == 0x3D or byte == 0x3A) and flags & HAS_BARE == 0 and _assigns_bare(data, i + 1, stop, classes):
            flags |= HAS_BARE
        if classes[byte] & (_LOWER | _UPPER | _DIGIT):
            signs += 1
            if signs == _TOKEN_SIGNS:
                flags |= HAS_TOKEN
            continue
        if classes[byte] & _JOINER:
            continue
        signs = 0
        if (byte == 0x22 or byte == 0x27) and flags & HAS_ASSIGNED == 0:
            for j in range(i - 1, max(start, i - _ASSIGNING) - 1, -1):
                if data[j] == 0x3D or data[j] == 0x3A or data[j] == 0x3E:
                    flags |= HAS_ASSIGNED
                    break
                if data[j] != 0x20 and data[j] != 0x09 and j != i - 1:  # the byte before may be a prefix, as in b"..."
                    break
    return flags
