"""Names, attributes, comments and raw text as the tokeniser of the HTML standard reads them.

Source: the HTML standard, section 13.2.5 (tokenization)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from curate.extract.auto import characters as ch
from curate.extract.auto import tags as t
from curate.extract.auto.kernel import inlined_kernel, kernel
from curate.extract.auto.state import Bytes

_SLOT_SHIFT = np.uint64(64 - t.SLOT_BITS)
_SLOT_KEYS, _SLOT_KINDS, _SLOT_TAGS = t.SLOT_KEYS, t.SLOT_KINDS, t.SLOT_TAGS
KEY_ID, KEY_CLASS, KEY_ROLE, KEY_ITEMPROP, KEY_STYLE, KEY_HIDDEN, KEY_ARIA_HIDDEN = t.name_keys(
    "id class role itemprop style hidden aria-hidden"
)
KEY_HREF, KEY_TYPE, KEY_ALT, KEY_ALTTEXT, KEY_START, KEY_VALUE, KEY_DISPLAY = t.name_keys(
    "href type alt alttext start value display"
)
KEY_SCRIPT, _KEY_MATH, KEY_IMG, KEY_SVG, KEY_SELECT, _KEY_RT, KEY_ANNOTATION, _KEY_INPUT = t.name_keys(
    "script math img svg select rt annotation input"
)
KEY_FOREIGN, KEY_RUBY, KEY_RB, KEY_RTC, KEY_SPAN, KEY_CODE, KEY_SUP, KEY_HTML, KEY_XMLNS, KEY_ROWSPAN, KEY_COLSPAN = (
    t.name_keys("foreignobject ruby rb rtc span code sup html xmlns rowspan colspan")
)
KEY_MFRAC, KEY_MSUP, KEY_MSQRT, KEY_MI, KEY_MN = t.name_keys("mfrac msup msqrt mi mn")
# First words of class attributes, as written.
CLASS_MATHJAX, CLASS_MATHJAX_PART, CLASS_MJX = t.prefix_keys("MathJax MathJax_Preview mjx-chtml")
CLASS_TEX, CLASS_LATEX, CLASS_MATH, CLASS_WIKI_MATH = t.prefix_keys("tex latex math mwe-math-f")
FUNCTIONS = t.prefix_keys("sin cos tan cot log")
CLASS_LINE_NUMBERS = t.prefix_keys("lineno linenos linenumber linenodiv lnum rouge-gutter line-number gutter")
_PLUS = 43
_MAX_POWER = 64  # bytes that are looked at in a sup, tags in it counted
NUMBERS_ANYWHERE = 5  # of them; the others stand on the code itself too, and count on a cell only
_memchr: Any = types.ExternalFunction("memchr", types.uintp(types.uintp, types.intc, types.uintp))


@inlined_kernel
def find(d: Bytes, i: int, n: int, byte: int) -> int:
    """Return the place of the next `byte` in d[i:n], or n."""
    if i >= n:
        return n
    base = d.ctypes.data
    found = _memchr(base + np.uint64(i), byte, np.uint64(n - i))
    return n if found == 0 else int(np.int64(found - base))


@inlined_kernel
def lower(c: int) -> int:
    """Return the small letter of an ASCII capital."""
    return c | 32 if 65 <= c <= 90 else c


@inlined_kernel
def is_letter(c: int) -> bool:
    """Say whether a byte is an ASCII letter."""
    return 97 <= (c | 32) <= 122


@inlined_kernel
def read_name(d: Bytes, i: int) -> tuple[int, int]:
    """Return the key of the name at i and the place behind it."""
    key = 0
    j = i
    while True:
        c = int(d[j])
        if c <= ch.SPACE or c == ch.SLASH or c == ch.GREATER:
            return key, j
        key = (key << 8) | lower(c) if j - i < 8 else key * 31 + lower(c)
        j += 1


@kernel
def _ends_name(c: int) -> bool:
    return c <= ch.SPACE or c == ch.SLASH or c == ch.GREATER


@kernel
def _matches(d: Bytes, i: int, name: int, name_end: int) -> bool:
    """Say whether the name at d[name:name_end] stands at i as a whole, in any case."""
    for k in range(name_end - name):
        if lower(d[i + k]) != lower(d[name + k]):
            return False
    return _ends_name(d[i + name_end - name])


@kernel
def find_end_tag(d: Bytes, i: int, n: int, name: int, name_end: int) -> int:
    """Return the place of the next end tag with the name at d[name:name_end], or n."""
    while True:
        i = find(d, i, n, ch.LESS)
        if i >= n or (d[i + 1] == ch.SLASH and _matches(d, i + 2, name, name_end)):
            return i
        i += 1


@kernel
def find_script_end(d: Bytes, i: int, n: int, name: int, name_end: int) -> int:
    """Return the place of the end tag of a script: one inside `<!-- <script>` ... `-->` ends no script."""
    escaped = inner = False
    while i < n:
        if not escaped:
            i = find(d, i, n, ch.LESS)
            if i >= n:
                return n
        if d[i] == ch.LESS:
            if d[i + 1] == ch.SLASH and _matches(d, i + 2, name, name_end):
                if not inner:
                    return i
                inner = False
            elif escaped and _matches(d, i + 1, name, name_end):
                inner = True
            elif not escaped and d[i + 1] == ch.BANG and d[i + 2] == ch.DASH and d[i + 3] == ch.DASH:
                escaped = True
                i += 1  # its own dashes may end it: <!-->
        elif d[i] == ch.GREATER and d[i - 1] == ch.DASH and d[i - 2] == ch.DASH:
            escaped = inner = False
        i += 1
    return n


@kernel
def skip_declaration(d: Bytes, i: int, n: int) -> int:
    """Return the place behind the comment, doctype or bogus comment at i, a `<!`."""
    if d[i + 2] != ch.DASH or d[i + 3] != ch.DASH:
        return min(find(d, i, n, ch.GREATER) + 1, n)
    if d[i + 4] == ch.GREATER:
        return i + 5
    if d[i + 4] == ch.DASH and d[i + 5] == ch.GREATER:
        return i + 6
    i += 4
    while True:
        i = find(d, i, n, ch.GREATER)
        if i >= n:
            return n
        if d[i - 1] == ch.DASH and d[i - 2] == ch.DASH:
            return i + 1
        if d[i - 1] == ch.BANG and d[i - 2] == ch.DASH and d[i - 3] == ch.DASH:
            return i + 1
        i += 1


@inlined_kernel
def skip_attribute(d: Bytes, i: int, n: int) -> tuple[int, int, int, int]:
    """Read the attribute at i. Return the key of its name, start and end of its value, the place behind it."""
    key = 0
    j = i
    while j < n:
        c = int(d[j])
        if c <= ch.SPACE or c == ch.SLASH or c == ch.GREATER or (c == ch.EQUALS and j > i):
            break
        key = (key << 8) | lower(c) if j - i < 8 else key * 31 + lower(c)
        j += 1
    while j < n and d[j] <= ch.SPACE:
        j += 1
    if j >= n or d[j] != ch.EQUALS:
        return key, j, j, j
    j += 1
    while j < n and d[j] <= ch.SPACE:
        j += 1
    quote = d[j]
    if quote == ch.QUOTE or quote == ch.APOSTROPHE:
        end = find(d, j + 1, n, quote)
        return key, j + 1, end, min(end + 1, n)
    start = j
    while j < n and d[j] > ch.SPACE and d[j] != ch.GREATER:
        j += 1
    return key, start, j, j


@inlined_kernel
def skip_attributes(d: Bytes, i: int, n: int) -> int:
    """Return the place of the `>` that ends the tag, or n."""
    while i < n and d[i] != ch.GREATER:
        if d[i] <= ch.SPACE or d[i] == ch.SLASH:
            i += 1
        else:
            i = skip_attribute(d, i, n)[3]
    return i


@kernel
def hides(d: Bytes, i: int, end: int) -> bool:
    """Say whether the style at d[i:end] has `display: none` or `visibility: hidden`."""
    while i < end:
        c = d[i] | 32
        # d-isplay, v-isibility: the length, the last letters and the value are enough
        size = 7 if c == 100 else 10 if c == 118 else 0
        if size and i + size < end and d[i + size - 1] | 32 == 121 and d[i + 1] | 32 == 105 and d[i + 2] | 32 == 115:
            j = i + size
            while j < end and d[j] <= ch.SPACE:
                j += 1
            if j < end and d[j] == 58:
                j += 1
                while j < end and d[j] <= ch.SPACE:
                    j += 1
                if size == 7 and j + 3 < end and d[j] | 32 == 110 and d[j + 1] | 32 == 111 and d[j + 2] | 32 == 110:
                    return True
                if size == 10 and j + 5 < end and d[j] | 32 == 104 and d[j + 1] | 32 == 105 and d[j + 5] | 32 == 110:
                    return True
            i += size
        i += 1
    return False


@kernel
def is_line(d: Bytes, i: int, end: int) -> bool:
    """Say whether a class in d[i:end] ends in the word `line`: code-line, but neither inline nor line-number."""
    for j in range(i, end - 3):
        if (
            d[j] | 32 == 108
            and d[j + 1] == 105
            and d[j + 2] == 110
            and d[j + 3] == 101
            and (j == i or not is_letter(int(d[j - 1])) or (d[j] == 76 and d[j - 1] >= 97))
            and (j + 4 == end or d[j + 4] <= ch.SPACE)
        ):
            return True
    return False


@kernel
def is_block_style(d: Bytes, i: int, end: int) -> bool:
    """Say whether the style at d[i:end] has `display: block`."""
    for j in range(i, end - 12):
        if (
            d[j] | 32 == 100
            and d[j + 3] | 32 == 112
            and d[j + 6] | 32 == 121
            and (j == i or not is_letter(int(d[j - 1])))
        ):
            k = j + 7
            while k < end and (d[k] <= ch.SPACE or d[k] == 58):
                k += 1
            if k + 5 <= end and d[k] | 32 == 98 and d[k + 1] | 32 == 108 and d[k + 4] | 32 == 107:
                return bool(d[j + 1] | 32 == 105 and d[j - 1] != ch.DASH)
    return False


@kernel
def read_power(d: Bytes, i: int, n: int) -> tuple[int, bool, bool]:
    """Read the content of the sup at i as an exponent, through tags other than links and other sups.

    Returns:
        Its length without white space, 0 if it can be none; whether a sign is the first of it; whether it is a sum or
        the like, that wants brackets.
    """
    size = digits = last = 0
    signed = compound = False
    end = min(i + _MAX_POWER, n)
    while i < end:
        c = int(d[i])
        if c == ch.LESS:
            if d[i + 1] == ch.SLASH and d[i + 2] | 32 == 115 and d[i + 3] | 32 == 117 and d[i + 4] | 32 == 112:
                is_mark = size == 1 and (last == 97 or last == 101 or last == 111 or last == 114)  # a e o r: ordinals
                ends_in_sign = not (48 <= last <= 57 or is_letter(last))
                if ends_in_sign or is_mark or size > 5 or (digits == 0 and not signed and size > 1 and not compound):
                    return 0, False, False
                return size, signed, compound
            first = i + 1 + int(d[i + 1] == ch.SLASH)
            is_sup = d[first] | 32 == 115 and d[first + 1] | 32 == 117
            if is_sup or not is_letter(int(d[first])) or (d[first] | 32 == 97 and _ends_name(int(d[first + 1]))):
                return 0, False, False
            i = find(d, i, end, ch.GREATER) + 1
            continue
        if c == 0xE2 and (
            (d[i + 1] == 0x88 and d[i + 2] == 0x92) or (d[i + 1] == 0x80 and d[i + 2] == 0x93)
        ):  # minus, en dash
            i, c = i + 2, ch.DASH
        elif c == ch.AMPERSAND and d[i + 1] | 32 == 109 and d[i + 2] == 105 and d[i + 6] == 59:  # &minus;
            i, c = i + 6, ch.DASH
        i += 1
        if c <= ch.SPACE:
            continue
        if c == ch.DASH or c == _PLUS:
            signed |= size == 0
            compound |= size > 0
        elif c == ch.SLASH:
            compound = True
        elif 48 <= c <= 57:
            digits += 1
        elif not is_letter(c):
            return 0, False, False
        size += 1
        last = c
    return 0, False, False


@kernel
def holds_two_names(d: Bytes, i: int, n: int) -> bool:
    """Say whether the MathML at i begins with two names or numbers: as parts of a fraction they need no brackets."""
    for part in range(2):
        while i < n and d[i] <= ch.SPACE:
            i += 1
        if d[i] != ch.LESS:
            return False
        key, j = read_name(d, i + 1)
        if key != KEY_MI and key != KEY_MN:
            return False
        if part == 0:
            i = find(d, j, min(j + _MAX_POWER, n), ch.LESS)  # its own end
            i = find(d, i, min(i + _MAX_POWER, n), ch.GREATER) + 1
    return True


@kernel
def read_number(d: Bytes, i: int, end: int) -> int:
    """Return the number at d[i:end], at most six digits of it, or -1."""
    while i < end and d[i] <= ch.SPACE:
        i += 1
    number = -1
    for k in range(i, min(end, i + 6)):
        if not 48 <= d[k] <= 57:
            break
        number = max(number, 0) * 10 + int(d[k]) - 48
    return number


@inlined_kernel
def look_up(key: int) -> tuple[int, int]:
    """Return kind and number of the tag whose name has this key."""
    slot = np.int64((np.uint64(key) * ch.GOLDEN) >> _SLOT_SHIFT)
    while _SLOT_KEYS[slot] != 0:
        if _SLOT_KEYS[slot] == key:
            return int(_SLOT_KINDS[slot]), int(_SLOT_TAGS[slot])
        slot = (slot + 1) & (len(_SLOT_KEYS) - 1)
    return t.KIND_INLINE, t.OTHER


@kernel
def find_annotation(d: Bytes, i: int, n: int) -> tuple[int, int]:
    """Return start and end of the first TeX annotation in the MathML at d[i:n]; both 0 if there is none."""
    while True:
        i = find(d, i, n, ch.LESS)
        if i >= n:
            return 0, 0
        key, j = read_name(d, i + 1)
        if key == KEY_ANNOTATION and j - i == 11:  # not annotation-xml
            end = skip_attributes(d, j, n)
            for k in range(j, end - 3):
                if d[k] | 32 == 116 and d[k + 1] | 32 == 101 and d[k + 2] | 32 == 120 and d[k + 3] < 97:  # tex"
                    return end + 1, find(d, end + 1, n, ch.LESS)
        i = j
