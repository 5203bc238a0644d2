"""Where the parts of a text end that byte-level encoders merge within: the expressions of published tokenizers, by hand.

Each function gives what the expression matches at a place, first alternative first, greedy, and with the steps back that
an expression takes: a test compares them with the library's expressions on random texts. A class of `byte_classes` is
what the library's own engine says of a code point.
"""

from __future__ import annotations

import numpy as np

from curate.compiled import compiled
from curate.text.characters import Bytes, decode
from curate.tokens.encoding.merge_kernels import signed

LETTER, NUMBER, SPACE, UPPER, LOWER, DIGIT, UNSTABLE = (1 << bit for bit in range(7))
GPT2, CL100K, O200K = range(3)
_ONE = np.uint64(1)
_KNOWN = LETTER | NUMBER | SPACE
_APOSTROPHE, _BLANK, _RETURN, _NEWLINE, _SLASH = 39, 32, 13, 10, 47


@compiled
def class_at(data: Bytes, place: int, stop: int, classes: Bytes) -> tuple[int, int]:
    """Return the class of the character at a place, and its bytes."""
    byte = signed(data[place])
    if byte < 0x80:
        return signed(classes[byte]), 1
    code, width = decode(data, place, stop)
    return signed(classes[code]), width


@compiled
def run_end(data: Bytes, place: int, stop: int, classes: Bytes, mask: int, wanted: int) -> int:
    """Return where the run ends whose classes, of those in the mask, have just the wanted ones (0: none of them)."""
    # Unsigned places: numba lets signed ones count from the end, and asks of each whether it does.
    at, end = np.uint64(place), np.uint64(stop)
    while at < end:
        byte = data[at]
        if byte < 0x80:
            kind = signed(classes[byte]) & mask
            width = _ONE
        else:
            code, size = decode(data, signed(at), stop)
            kind = signed(classes[code]) & mask
            width = np.uint64(size)
        if (wanted == 0 and kind != 0) or (wanted != 0 and kind & wanted == 0):
            break
        at += width
    return signed(at)


@compiled
def split_end(data: Bytes, place: int, stop: int, classes: Bytes, pattern: int, most_numbers: int) -> int:
    """Return where the part ends that begins at a place.

    Args:
        data: UTF-8.
        place: Where the part begins, before `stop`.
        stop: Where the text ends.
        classes: Of each code point, see `byte_classes`.
        pattern: GPT2, CL100K (also of Llama 3 and Qwen) or O200K.
        most_numbers: How many characters of \\p{N} stand together at most; not for GPT2.
    """
    if pattern == GPT2:
        return _gpt2_end(data, place, stop, classes)
    byte = signed(data[place])
    kind, width = class_at(data, place, stop, classes)
    after = place + width
    if pattern == CL100K:
        if byte == _APOSTROPHE:
            end = _contraction_end(data, place, stop, True)
            if end > place:
                return end
        if kind & LETTER:
            return run_end(data, after, stop, classes, LETTER, LETTER)
        if kind & NUMBER == 0 and byte != _RETURN and byte != _NEWLINE and after < stop:
            end = run_end(data, after, stop, classes, LETTER, LETTER)
            if end > after:
                return end
    else:
        end = _word_end(data, place, after, stop, classes, kind, byte)
        if end > place:
            return end
    if kind & NUMBER:
        count = 1
        while count < most_numbers and after < stop:
            kind, width = class_at(data, after, stop, classes)
            if kind & NUMBER == 0:
                break
            after += width
            count += 1
        return after
    first = place + 1 if byte == _BLANK else place
    end = run_end(data, first, stop, classes, _KNOWN, 0)
    if end > first:
        while end < stop and (
            data[end] == _RETURN or data[end] == _NEWLINE or (pattern == O200K and data[end] == _SLASH)
        ):
            end += 1
        return end
    return _white_space_end(data, place, stop, classes, True)


@compiled
def _gpt2_end(data: Bytes, place: int, stop: int, classes: Bytes) -> int:
    byte = signed(data[place])
    if byte == _APOSTROPHE:
        end = _contraction_end(data, place, stop, False)
        if end > place:
            return end
    first = place
    if byte == _BLANK and place + 1 < stop:
        first = place + 1
    kind, width = class_at(data, first, stop, classes)
    kind &= _KNOWN
    if kind == SPACE:
        return _white_space_end(data, place, stop, classes, False)
    return run_end(data, first + width, stop, classes, _KNOWN, kind)


@compiled
def _white_space_end(data: Bytes, place: int, stop: int, classes: Bytes, to_newline: bool) -> int:
    """Return the end of white space: behind its last line break if `to_newline`, else before the last character if more follows."""
    last, end, newline = place, place, place
    while end < stop:
        kind, width = class_at(data, end, stop, classes)
        if kind & SPACE == 0:
            break
        last = end
        end += width
        if data[last] == _RETURN or data[last] == _NEWLINE:
            newline = end
    if to_newline and newline > place:
        return newline
    return last if end < stop and last > place else end


@compiled
def _contraction_end(data: Bytes, place: int, stop: int, any_case: bool) -> int:
    """Return the end of 's, 't, 're, 've, 'm, 'll or 'd at a place; the place itself where there is none."""
    if place + 1 >= stop:
        return place
    first = signed(data[place + 1])
    if any_case and first == 0xC5 and place + 2 < stop and data[place + 2] == 0xBF:
        return place + 3  # U+017F, the long s, is an s without regard to case
    low = first | 0x20 if any_case and first < 0x80 else first
    if low == 115 or low == 116 or low == 109 or low == 100:  # s, t, m, d
        return place + 2
    if place + 2 >= stop:
        return place
    second = signed(data[place + 2])
    if any_case and second < 0x80:
        second |= 0x20
    if ((low == 114 or low == 118) and second == 101) or (low == 108 and second == 108):  # re, ve, ll
        return place + 3
    return place


@compiled
def _word_end(data: Bytes, place: int, after: int, stop: int, classes: Bytes, kind: int, byte: int) -> int:
    """Return the end of a word of O200K at a place, the place itself where there is none.

    Upper and lower are not apart: modifiers, other letters and marks are both. The first alternative wants, behind
    a sign that may be missing, any upper and then at least one lower, if need be the last upper that is also lower; the
    second takes upper alone.
    """
    may_lead = kind & (LETTER | NUMBER) == 0 and byte != _RETURN and byte != _NEWLINE
    end = place
    if may_lead:
        end = _cased_end(data, after, stop, classes)
        if end == after:
            end = place
    if end == place:
        end = _cased_end(data, place, stop, classes)
    if end == place and may_lead:
        end = run_end(data, after, stop, classes, UPPER, UPPER)
        if end == after:
            end = place
    if end == place:
        end = run_end(data, place, stop, classes, UPPER, UPPER)
    if end > place and end < stop and data[end] == _APOSTROPHE:
        return _contraction_end(data, end, stop, True)
    return end


@compiled
def _cased_end(data: Bytes, place: int, stop: int, classes: Bytes) -> int:
    """Return the end of any upper and then at least one lower; the place itself where there is none."""
    both = place  # behind the last upper that is also lower
    end = place
    while end < stop:
        kind, width = class_at(data, end, stop, classes)
        if kind & UPPER == 0:
            break
        end += width
        if kind & LOWER:
            both = end
    behind = run_end(data, end, stop, classes, LOWER, LOWER)
    return behind if behind > end else both
