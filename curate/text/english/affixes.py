"""What the rules of English take off a chunk, and whether it is an address: compiled, over UTF-8.

Everywhere data[first:end] is the chunk or what is left of it, and nothing outside is looked at; `classes` and `known`
are those of `tables`.
"""

from __future__ import annotations

import numpy as np

from curate.compiled import compiled
from curate.text.characters import Bytes, Int32s, Int64s, decode
from curate.text.english.tables import (
    AFTER_DIGIT,
    ALPHA,
    BEFORE_STOP,
    BITS,
    DECIMAL,
    HOST,
    HYPHEN,
    ICON,
    INFIX,
    IS_EXCEPTION,
    LONGEST_NAME,
    LOWER,
    NUM_SLOTS,
    NUMBER,
    PREFIX,
    QUOTE,
    SCHEME,
    SIZE,
    SIZES_AT,
    SUFFIX,
    TEXT,
    UPPER,
    Uint32s,
)
from curate.text.kinds import PRIME

_PRIME, _ONE, _TO_SLOT = np.uint64(PRIME), np.uint64(1), np.uint64(51)
_PLUS, _COMMA, _HYPHEN, _STOP, _SLASH, _ZERO, _NINE, _COLON, _DOLLAR = (
    0x2B,
    0x2C,
    0x2D,
    0x2E,
    0x2F,
    0x30,
    0x39,
    0x3A,
    0x24,
)
_STAR, _LESS, _EQUALS, _GREATER, _QUESTION, _AT, _CARET, _HASH = 0x2A, 0x3C, 0x3D, 0x3E, 0x3F, 0x40, 0x5E, 0x23
_APOSTROPHE, _CURLY, _ELLIPSIS, _LONG_DASH, _DEGREE, _UNDERSCORE = 0x27, 0x2019, 0x2026, 0x2014, 0xB0, 0x5F
_LONGEST_LABEL, _LONGEST_LAST_LABEL, _LONGEST_OCTET = 64, 63, 3
_OTHER_DIGIT = 10  # a digit that is none of 0 to 9


@compiled
def previous(data: Bytes, i: int, first: int) -> tuple[int, int]:
    """Return the code point before `i` and the bytes it takes; (0, 0) at the beginning."""
    if i <= first:
        return 0, 0
    place = i - 1
    while place > first and i - place < 4 and data[place] & 0xC0 == 0x80:
        place -= 1
    code, step = decode(data, place, i)
    if place + step != i:  # no UTF-8
        return 0xFFFD, 1
    return code, step


@compiled
def class_at(data: Bytes, i: int, end: int, classes: Uint32s) -> int:
    """Return the class bits of the character at `i`; 0 at the end."""
    if i >= end:
        return 0
    code, _ = decode(data, i, end)
    return int(classes[code])


@compiled
def class_before(data: Bytes, i: int, first: int, classes: Uint32s) -> int:
    """Return the class bits of the character before `i`; 0 at the beginning."""
    code, step = previous(data, i, first)
    return int(classes[code]) if step > 0 else 0


@compiled
def name_of(data: Bytes, first: int, end: int, key: np.uint64, known: Int32s) -> int:
    """Return where the fields of the name data[first:end], whose key is given, begin in `known`, or 0."""
    slot = np.int64(key >> _TO_SLOT)
    while known[slot] != 0:
        fields = known[slot]
        if known[fields + SIZE] == end - first:
            text = known[fields + TEXT]
            place = 0
            while place < end - first and known[text + place] == data[first + place]:
                place += 1
            if place == end - first:
                return int(fields)
        slot = (slot + 1) & (NUM_SLOTS - 1)
    return 0


@compiled
def may_be_exception(data: Bytes, first: int, end: int, known: Int32s) -> bool:
    """Return False if no exception begins like data[first:end] and is as long."""
    return 0 < end - first <= LONGEST_NAME and known[SIZES_AT + data[first]] >> (end - first) & 1 != 0


@compiled
def key_between(data: Bytes, first: int, end: int) -> np.uint64:
    """Return the key of data[first:end]."""
    key = np.uint64(0)
    for place in range(first, end):
        key = key * _PRIME + np.uint64(data[place]) + _ONE
    return key


@compiled
def find_exception(data: Bytes, first: int, end: int, known: Int32s) -> int:
    """Return where the fields of the exception that data[first:end] is begin in `known`, or 0."""
    if not may_be_exception(data, first, end, known):
        return 0
    fields = name_of(data, first, end, key_between(data, first, end), known)
    return fields if fields > 0 and known[fields + BITS] & IS_EXCEPTION != 0 else 0


@compiled
def prefix_size(data: Bytes, first: int, end: int, classes: Uint32s) -> int:
    """Return the bytes of the prefix that is taken off, or 0."""
    code, step = decode(data, first, end)
    if classes[code] & PREFIX == 0:
        return 0
    if code == _STOP:
        size = run_of(data, first, end, _STOP)
        return size if size > 1 else 0
    if code == _PLUS:
        return 0 if first + 1 < end and _ZERO <= data[first + 1] <= _NINE else 1
    if code == 0x55:  # US$
        is_such = first + 2 < end and data[first + 1] == 0x53 and data[first + 2] == _DOLLAR
        return 3 if is_such else 0
    if code in (0x41, 0x43):  # A$, C$
        return 2 if first + 1 < end and data[first + 1] == _DOLLAR else 0
    return step


@compiled
def run_of(data: Bytes, first: int, end: int, byte: int) -> int:
    """Return how many bytes from `first` on are `byte`."""
    i = first
    while i < end and data[i] == byte:
        i += 1
    return i - first


@compiled
def suffix_size(data: Bytes, first: int, end: int, has_number: bool, classes: Uint32s, known: Int32s) -> int:
    """Return the bytes of the suffix that is taken off, the longest that there is, or 0.

    Args:
        data: UTF-8.
        first: Where the chunk begins.
        end: Where it ends.
        has_number: False if none of 0 to 9 is in it.
        classes: Of `tables`.
        known: Of `tables`.
    """
    code, step = previous(data, end, first)
    bits = classes[code]
    size = 0
    if bits & SUFFIX != 0:
        if code == _STOP:
            return _stops(data, first, end, classes)
        before, before_step = previous(data, end - step, first)
        if code in (0x73, 0x53):  # 's
            size = 1 + before_step if before in (_APOSTROPHE, _CURLY) else 0
        elif code == _ELLIPSIS and before == _ELLIPSIS:
            size = 2 * step
        else:
            size = step
    if has_number and bits & AFTER_DIGIT != 0:
        size = max(size, _behind_digit(data, first, end, known))
    return size


@compiled
def _stops(data: Bytes, first: int, end: int, classes: Uint32s) -> int:
    """Return the bytes of the full stops that are taken off the end, where one stands."""
    i = end
    while i > first and data[i - 1] == _STOP:
        i -= 1
    if end - i > 1:
        return end - i
    before, step = previous(data, i, first)
    if step == 0:
        return 0
    bits = classes[before]
    if bits & BEFORE_STOP != 0:
        return 1
    if bits & UPPER != 0 and class_before(data, i - step, first, classes) & UPPER != 0:
        return 1
    if before in (0x46, 0x66, 0x43, 0x63, 0x4B, 0x6B):  # °C.
        code, _ = previous(data, i - step, first)
        return 1 if code == _DEGREE else 0
    return 0


@compiled
def _behind_digit(data: Bytes, first: int, end: int, known: Int32s) -> int:
    """Return the bytes behind the last of 0 to 9, if they are a unit, a currency or a plus sign."""
    i = end
    while i > first and end - i <= LONGEST_NAME and not _ZERO <= data[i - 1] <= _NINE:
        i -= 1
    if i in (first, end) or end - i > LONGEST_NAME:
        return 0
    fields = name_of(data, i, end, key_between(data, i, end), known)
    return end - i if fields > 0 and known[fields + BITS] & IS_EXCEPTION == 0 else 0


@compiled
def infix_size(data: Bytes, i: int, first: int, end: int, code: int, step: int, classes: Uint32s) -> int:
    """Return the bytes of the infix at `i`, where the character `code` stands, or 0."""
    bits = classes[code]
    if bits & INFIX == 0:
        return 0
    if bits & ICON != 0 or code == _ELLIPSIS:
        return step
    behind = class_at(data, i + step, end, classes)
    before = class_before(data, i, first, classes)
    if code == _STOP:
        size = run_of(data, i, end, _STOP)
        if size > 1:
            return size
        return 1 if before & (LOWER | QUOTE) != 0 and behind & (UPPER | QUOTE) != 0 else 0
    is_sum = code in (_PLUS, _HYPHEN, _STAR, _CARET) and before & NUMBER != 0
    if is_sum and (behind & NUMBER != 0 or (i + 1 < end and data[i + 1] == _HYPHEN)):
        return 1
    if code == _COMMA:
        return 1 if before & ALPHA != 0 and behind & ALPHA != 0 else 0
    if before & (ALPHA | NUMBER) == 0:
        return 0
    if bits & HYPHEN != 0 or code in (_COLON, _LESS, _GREATER, _EQUALS, _SLASH):
        if behind & ALPHA != 0:
            return step
        if code == _HYPHEN:
            size = run_of(data, i, min(end, i + 3), _HYPHEN)
            if size == 2 and class_at(data, i + 2, end, classes) & ALPHA != 0:
                return 2
            return 3 if size == 3 and class_at(data, i + 3, end, classes) & ALPHA != 0 else 0
        if code == _LONG_DASH and i + 2 * step <= end:
            again, _ = decode(data, i + step, end)
            if again == _LONG_DASH and class_at(data, i + 2 * step, end, classes) & ALPHA != 0:
                return 2 * step
    return 0


# ---- addresses


@compiled
def is_address(data: Bytes, first: int, end: int, classes: Uint32s) -> bool:
    """Return whether data[first:end] is a URL or an e-mail address."""
    if _is_host(data, first, end, classes):
        return True
    i, signs = first, 0
    while i < end:  # behind a scheme
        code, step = decode(data, i, end)
        if classes[code] & SCHEME == 0:
            break
        signs += 1
        i += step
    is_scheme = signs > 1 and i + 2 < end and data[i] == _COLON and data[i + 1] == _SLASH and data[i + 2] == _SLASH
    if is_scheme and _is_host(data, i + 3, end, classes):
        return True
    for place in range(first + 1, end):  # noqa: SIM110 - compiled code has no any()
        if data[place] == _AT and _is_host(data, place + 1, end, classes):  # behind a user
            return True
    return False


@compiled
def _is_host(data: Bytes, first: int, end: int, classes: Uint32s) -> bool:
    """Return whether data[first:end] is a host or an IPv4 address with or without port and path."""
    if class_at(data, first, end, classes) & DECIMAL != 0 and _is_ip(data, first, end, classes):
        return True
    i = first
    while i < end:
        signs, label = 0, i
        while i < end:
            code, step = decode(data, i, end)
            if classes[code] & HOST == 0 and code not in (_HYPHEN, _UNDERSCORE):
                break
            signs += 1
            i += step
        if i >= end or data[i] != _STOP or signs == 0 or signs > _LONGEST_LABEL:
            return False
        if class_at(data, label, end, classes) & class_before(data, i, label, classes) & HOST == 0:
            return False
        i += 1
        signs, last = 0, i
        while last < end:
            code, step = decode(data, last, end)
            if classes[code] & LOWER == 0:
                break
            signs += 1
            last += step
        if 2 <= signs <= _LONGEST_LAST_LABEL and _is_port_and_path(data, last, end, classes):
            return True
    return False


@compiled
def _is_port_and_path(data: Bytes, i: int, end: int, classes: Uint32s) -> bool:
    """Return whether data[i:end] is nothing, a port, a path, or both."""
    if i < end and data[i] == _COLON:
        i += 1
        digits = 0
        while i < end:
            code, step = decode(data, i, end)
            if classes[code] & DECIMAL == 0:
                break
            digits += 1
            i += step
        if digits < 2 or digits > 5:
            return False
    return i >= end or data[i] in (_SLASH, _QUESTION, _HASH)


@compiled
def _is_ip(data: Bytes, first: int, end: int, classes: Uint32s) -> bool:
    """Return whether data[first:end] is an IPv4 address that the rules accept, with or without port and path."""
    i = first
    octets = np.zeros((4, 3), np.int64)  # digits, -1 behind the last
    octets[:] = -1
    for octet in range(4):
        digits = 0
        while i < end:
            code, step = decode(data, i, end)
            if classes[code] & DECIMAL == 0:
                break
            if digits == _LONGEST_OCTET:
                return False
            octets[octet, digits] = code - _ZERO if _ZERO <= code <= _NINE else _OTHER_DIGIT
            digits += 1
            i += step
        if digits == 0:
            return False
        if octet < 3:
            if i >= end or data[i] != _STOP:
                return False
            i += 1
    if not _is_port_and_path(data, i, end, classes):
        return False
    a, b, c = octets[0, 0], octets[0, 1], octets[0, 2]
    first_is_good = 1 <= a <= 9 if c < 0 else a == 1 or (a == 2 and (b in (0, 1) or (b == 2 and 0 <= c <= 3)))
    if not first_is_good or _is_private(octets):
        return False
    for octet in range(1, 4):
        a, b, c = octets[octet, 0], octets[octet, 1], octets[octet, 2]
        if c < 0:
            if octet == 3 and not 1 <= a <= 9:
                return False
        elif not (a == 1 or (a == 2 and (0 <= b <= 4 or (b == 5 and 0 <= c <= (4 if octet == 3 else 5))))):
            return False
    return True


@compiled
def _is_private(octets: Int64s) -> bool:
    a, b, c = octets[0, 0], octets[0, 1], octets[0, 2]
    d, e, f = octets[1, 0], octets[1, 1], octets[1, 2]
    if a != 1:
        return False
    if c < 0:
        return bool(b == 0)  # 10
    if b == 2 and c == 7:  # 127
        return True
    if b == 6 and c == 9:  # 169.254
        return bool(d == 2 and e == 5 and f == 4)
    if b == 9 and c == 2:  # 192.168
        return bool(d == 1 and e == 6 and f == 8)
    if b == 7 and c == 2 and f < 0 and e >= 0:  # 172.16 to 172.31
        return bool((d == 1 and 6 <= e <= 9) or d == 2 or (d == 3 and 0 <= e <= 1))
    return False
