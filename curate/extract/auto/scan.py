"""Bytes of a page to blocks of text: one pass, no tree, no limit on depth, time linear in the bytes.

    scanner = Scanner(stop_table)            # one a process: it keeps its working memory
    page = scanner(html)                     # a decoded page
    page.blocks[:, tags.BLOCK_WORDS]         # columns: curate.extract.auto.tags
    page.block_text(3)

Markup is read as the HTML standard's tokeniser reads it (https://html.spec.whatwg.org/multipage/parsing.html). No tree is
built: there is a stack of the open block-level elements, with the implied end tags that matter for text (p, li, dt, dd,
headings, rows, cells). Character references are decoded here, so that every count and hash is of what a reader sees.

All kernels stand in one file because numba's cache of machine code looks at the file of a function and at no other.
"""

from __future__ import annotations

import html.entities
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.core import types

from curate.extract.auto import tags as t

Int64s = npt.NDArray[np.int64]
Uint16s = npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

_F = TypeVar("_F", bound=Callable[..., Any])


def _compiled(function: _F) -> _F:
    try:
        return cast(_F, numba.njit(cache=True)(function))
    except RuntimeError:  # no folder to cache machine code in: compile in each process
        return cast(_F, numba.njit(function))


# ---- what the kernels know

_PADDING = 16  # zero bytes behind the page, so that looking a few bytes ahead needs no check
_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE, _EIGHT, _FORTY, _TOP_16 = np.uint64(1), np.uint64(8), np.uint64(40), np.uint64(48)
_SLOT_SHIFT = np.uint64(64 - t.SLOT_BITS)
_SLOT_KEYS, _SLOT_KINDS, _SLOT_TAGS = t.SLOT_KEYS, t.SLOT_KINDS, t.SLOT_TAGS
_CLOSES_PARAGRAPH = t.CLOSES_PARAGRAPH
_BUCKETS = np.uint64(t.NUM_CLASS_BUCKETS - 1)
_SEED_ROLE, _SEED_ITEMPROP = np.uint64(0x526F6C65), np.uint64(0x4974656D)  # so that words of these differ from classes
_MAX_CLASS_BYTES, _MAX_CLASS_WORDS = 300, 24

_TAB, _NEWLINE, _RETURN, _SPACE, _QUOTE, _HASH, _DOLLAR, _AMPERSAND = 9, 10, 13, 32, 34, 35, 36, 38
_APOSTROPHE, _DASH, _SLASH, _SEMICOLON, _LESS, _EQUALS, _GREATER, _BANG = 39, 45, 47, 59, 60, 61, 62, 33
_BRACKET, _BACKSLASH, _CARET, _UNDERSCORE, _BRACE, _CLOSING_BRACE = 91, 92, 94, 95, 123, 125

# What a character is to the counts.
(
    _LETTER, _UPPER, _DIGIT, _SIGN, _BLANK, _COMMA, _MARK, _COLON, _CLOSING, _REFERENCE, _MARKUP, _MULTIBYTE,
    _HAN, _DENSE, _DENSER, _FULL_MARK, _INVISIBLE, _SYLLABLE_MARK, _WIDE_BLANK,
) = range(19)  # fmt: skip


def _ascii_classes() -> Bytes:
    classes = np.full(256, _SIGN, np.uint8)
    classes[:33] = _BLANK
    classes[0x80:] = _MULTIBYTE
    for characters, kind in (
        ("abcdefghijklmnopqrstuvwxyz", _LETTER),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _UPPER),
        ("0123456789", _DIGIT),
        (".!?", _MARK),
        ("\"')]", _CLOSING),
        (",", _COMMA),
        (":", _COLON),
        ("&", _REFERENCE),
        ("<", _MARKUP),
    ):
        for character in characters:
            classes[ord(character)] = kind
    return classes


_CLASSES = _ascii_classes()


def _entity_table() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Return hashes and code points (two, the second 0 if there is one) of the names of HTML 5, open-addressed."""
    size = 4096
    keys, values = np.zeros(size, np.uint64), np.zeros((size, 2), np.int32)
    for name, characters in html.entities.html5.items():
        key = int(_BASIS)
        for byte in name.encode("ascii"):
            key = ((key ^ byte) * int(_PRIME)) % (1 << 64)
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

_KEY_ID, _KEY_CLASS, _KEY_ROLE, _KEY_ITEMPROP, _KEY_STYLE, _KEY_HIDDEN, _KEY_ARIA_HIDDEN = (
    t.name_key(name) for name in "id class role itemprop style hidden aria-hidden".split()
)
_KEY_HREF, _KEY_TYPE, _KEY_ALT, _KEY_ALTTEXT, _KEY_START, _KEY_VALUE, _KEY_DISPLAY = (
    t.name_key(name) for name in "href type alt alttext start value display".split()
)
_KEY_SCRIPT, _KEY_MATH, _KEY_IMG, _KEY_SVG, _KEY_SELECT, _KEY_RT, _KEY_ANNOTATION, _KEY_INPUT = (
    t.name_key(name) for name in "script math img svg select rt annotation input".split()
)
_KEY_FOREIGN, _KEY_RUBY, _KEY_RB, _KEY_RTC = (t.name_key(name) for name in "foreignobject ruby rb rtc".split())
_KEY_PLAINTEXT = t.name_key("plaintext")
# First words of class attributes, as written.
_CLASS_MATHJAX, _CLASS_MATHJAX_PART, _CLASS_MJX = (t.name_key(name) for name in "MathJax MathJax_Preview mjx-chtml".split())
_CLASS_TEX, _CLASS_LATEX, _CLASS_MATH, _CLASS_WIKI_MATH = (t.name_key(name) for name in "tex latex math mwe-math-f".split())
_CLASS_LINE_NUMBERS = tuple(
    t.name_key(name) for name in "lineno linenos linenumber linenodiv lnum rouge-gutter line-number gutter".split()
)
_NUMBERS_ANYWHERE = 5  # of them; the others stand on the code itself too, and count on a cell only

# State of a scan: an int64 array, because many functions write to it.
(
    _OUT, _START, _NUM_BLOCKS, _NUM_ELEMENTS, _NUM_CLASSES, _NUM_WORDS, _LEVEL, _CURRENT, _WORK,
    _WORD_HASH, _WORD_LETTERS, _LINK, _LINK_END, _CODE,
    _BLOCK_FIRST, _WORDS, _CHARS, _LINK_CHARS, _COMMAS, _STOPS, _UPPERS, _DIGITS, _LINKS, _TEXT_HASH, _BREAKS,
    _SENTENCES, _LONG, _TAGS, _LAST_MARK, _HANS, _DENSE_WORDS,
    _MUTE, _MUTE_KEY, _MUTE_COUNT, _MUTE_LEVEL, _FOREIGN, _MATH_SEEN, _TEX_HASH, _TEX_END,
    _ATTR_FLAGS, _ATTR_HASH, _ATTR_HREF, _ATTR_CLASS, _ATTR_NUMBER, _ATTR_ALT, _ATTR_ALT_END, _ATTR_TYPE, _ATTR_TYPE_END,
    _ATTR_DISPLAY,
) = range(49)  # fmt: skip
_NUM_STATES = 49

# Why text is left out at present.
_UNMUTED, _MUTE_INLINE, _MUTE_DROPPED, _MUTE_TEMPLATE, _MUTE_RUBY, _MUTE_BLOCK = range(6)
_AS_MARKUP, _AS_TEXT, _AS_IS = range(3)  # references and tags; references; neither


class _Buffers(NamedTuple):
    state: Int64s
    out: Bytes
    elements: Int64s
    blocks: Int64s
    classes: Uint16s
    words: Uint16s
    stops: Flags
    stack: Int64s  # rows of the open elements
    before: Int64s  # per place of the stack: the place of the next outer element of the same tag, or -1
    open: Int64s  # per tag: place of its innermost open element, or -1


# ---- lexing

_memchr = types.ExternalFunction("memchr", types.uintp(types.uintp, types.intc, types.uintp))


@_compiled
def _find(d: Bytes, i: int, n: int, byte: int) -> int:
    """Return the place of the next `byte` in d[i:n], or n."""
    if i >= n:
        return n
    base = d.ctypes.data
    found = _memchr(base + np.uint64(i), byte, np.uint64(n - i))
    return n if found == 0 else np.int64(found - base)


@_compiled
def _lower(c: int) -> int:
    return c | 32 if 65 <= c <= 90 else c


@_compiled
def _is_letter(c: int) -> bool:
    return 97 <= (c | 32) <= 122


@_compiled
def _read_name(d: Bytes, i: int) -> tuple[int, int]:
    """Return the key of the name at i and the place behind it."""
    key = 0
    j = i
    while True:
        c = np.int64(d[j])
        if c <= _SPACE or c == _SLASH or c == _GREATER:
            return key, j
        if j - i < 8:
            key = (key << 8) | _lower(c)
        j += 1


@_compiled
def _ends_name(c: int) -> bool:
    return c <= _SPACE or c == _SLASH or c == _GREATER


@_compiled
def _matches(d: Bytes, i: int, name: int, name_end: int) -> bool:
    """Say whether the name at d[name:name_end] stands at i as a whole, in any case."""
    for k in range(name_end - name):
        if _lower(d[i + k]) != _lower(d[name + k]):
            return False
    return _ends_name(d[i + name_end - name])


@_compiled
def _find_end_tag(d: Bytes, i: int, n: int, name: int, name_end: int) -> int:
    """Return the place of the next end tag with the name at d[name:name_end], or n."""
    while True:
        i = _find(d, i, n, _LESS)
        if i >= n or (d[i + 1] == _SLASH and _matches(d, i + 2, name, name_end)):
            return i
        i += 1


@_compiled
def _find_script_end(d: Bytes, i: int, n: int, name: int, name_end: int) -> int:
    """Return the place of the end tag of a script: one inside `<!-- <script>` ... `-->` ends no script."""
    escaped = inner = False
    while i < n:
        if not escaped:
            i = _find(d, i, n, _LESS)
            if i >= n:
                return n
        if d[i] == _LESS:
            if d[i + 1] == _SLASH and _matches(d, i + 2, name, name_end):
                if not inner:
                    return i
                inner = False
            elif escaped and _matches(d, i + 1, name, name_end):
                inner = True
            elif not escaped and d[i + 1] == _BANG and d[i + 2] == _DASH and d[i + 3] == _DASH:
                escaped = True
                i += 1  # its own dashes may end it: <!-->
        elif d[i] == _GREATER and d[i - 1] == _DASH and d[i - 2] == _DASH:
            escaped = inner = False
        i += 1
    return n


@_compiled
def _skip_declaration(d: Bytes, i: int, n: int) -> int:
    """Return the place behind the comment, doctype or bogus comment at i, a `<!`."""
    if d[i + 2] != _DASH or d[i + 3] != _DASH:
        return min(_find(d, i, n, _GREATER) + 1, n)
    if d[i + 4] == _GREATER:
        return i + 5
    if d[i + 4] == _DASH and d[i + 5] == _GREATER:
        return i + 6
    i += 4
    while True:
        i = _find(d, i, n, _GREATER)
        if i >= n:
            return n
        if d[i - 1] == _DASH and d[i - 2] == _DASH:
            return i + 1
        if d[i - 1] == _BANG and d[i - 2] == _DASH and d[i - 3] == _DASH:
            return i + 1
        i += 1


@_compiled
def _skip_attribute(d: Bytes, i: int, n: int) -> tuple[int, int, int, int, int]:
    """Read the attribute at i. Return the key and length of its name, start and end of its value, the place behind it."""
    key = 0
    j = i
    while j < n:
        c = np.int64(d[j])
        if c <= _SPACE or c == _SLASH or c == _GREATER or (c == _EQUALS and j > i):
            break
        if j - i < 8:
            key = (key << 8) | _lower(c)
        j += 1
    length = j - i
    while j < n and d[j] <= _SPACE:
        j += 1
    if j >= n or d[j] != _EQUALS:
        return key, length, j, j, j
    j += 1
    while j < n and d[j] <= _SPACE:
        j += 1
    quote = d[j]
    if quote == _QUOTE or quote == _APOSTROPHE:
        end = _find(d, j + 1, n, quote)
        return key, length, j + 1, end, min(end + 1, n)
    start = j
    while j < n and d[j] > _SPACE and d[j] != _GREATER:
        j += 1
    return key, length, start, j, j


@_compiled
def _skip_attributes(d: Bytes, i: int, n: int) -> int:
    """Return the place of the `>` that ends the tag, or n."""
    while i < n and d[i] != _GREATER:
        if d[i] <= _SPACE or d[i] == _SLASH:
            i += 1
        else:
            i = _skip_attribute(d, i, n)[4]
    return i


@_compiled
def _hash_class_words(d: Bytes, start: int, end: int, seed: np.uint64, in_class: bool, first: int, b: _Buffers) -> None:
    """Add the buckets of the words of an attribute: runs of letters, split before a capital; no word twice in a tag."""
    s = b.state
    end = min(end, start + _MAX_CLASS_BYTES)
    h = seed
    letters = 0
    small = False
    for i in range(start, end + 1):
        c = np.int64(d[i]) if i < end else _SPACE
        lower = c | 32
        is_letter = 97 <= lower <= 122
        if not is_letter or (c < 97 and small):
            if letters >= 2 and s[_NUM_CLASSES] - first < _MAX_CLASS_WORDS:
                bucket = np.uint16((h >> _FORTY) & _BUCKETS)
                known = False
                for k in range(first, s[_NUM_CLASSES]):
                    known |= b.classes[k] == bucket
                if not known:
                    b.classes[s[_NUM_CLASSES]] = bucket
                    s[_NUM_CLASSES] += 1
                    if in_class:
                        s[_ATTR_HASH] ^= np.int64(h * _GOLDEN)
            h = seed
            letters = 0
        if is_letter:
            h = (h ^ np.uint64(lower)) * _PRIME
            letters += 1
        small = is_letter and c >= 97


@_compiled
def _hides(d: Bytes, i: int, end: int) -> bool:
    """Say whether the style at d[i:end] has `display: none` or `visibility: hidden`."""
    while i < end:
        c = d[i] | 32
        # d-isplay, v-isibility: the length, the last letters and the value are enough
        size = 7 if c == 100 else 10 if c == 118 else 0
        if size and i + size < end and d[i + size - 1] | 32 == 121 and d[i + 1] | 32 == 105 and d[i + 2] | 32 == 115:
            j = i + size
            while j < end and d[j] <= _SPACE:
                j += 1
            if j < end and d[j] == 58:
                j += 1
                while j < end and d[j] <= _SPACE:
                    j += 1
                if size == 7 and j + 3 < end and d[j] | 32 == 110 and d[j + 1] | 32 == 111 and d[j + 2] | 32 == 110:
                    return True
                if size == 10 and j + 5 < end and d[j] | 32 == 104 and d[j + 1] | 32 == 105 and d[j + 5] | 32 == 110:
                    return True
            i += size
        i += 1
    return False


@_compiled
def _read_number(d: Bytes, i: int, end: int) -> int:
    """Return the number at d[i:end], at most six digits of it, or -1."""
    while i < end and d[i] <= _SPACE:
        i += 1
    number = -1
    for k in range(i, min(end, i + 6)):
        if not 48 <= d[k] <= 57:
            break
        number = max(number, 0) * 10 + np.int64(d[k]) - 48
    return number


@_compiled
def _read_attributes(d: Bytes, i: int, n: int, first: int, b: _Buffers) -> int:
    """Note what a tag's attributes say; `first` is its first class word, or -1 for a tag that keeps none.

    Returns:
        The place of the `>` that ends the tag, or n.
    """
    s = b.state
    s[_ATTR_FLAGS:] = 0
    s[_ATTR_NUMBER] = -1
    while i < n and d[i] != _GREATER:
        if d[i] <= _SPACE or d[i] == _SLASH:
            i += 1
            continue
        key, length, start, end, i = _skip_attribute(d, i, n)
        if key == _KEY_CLASS:
            for k in range(start, min(start + 8, end)):
                if d[k] <= _SPACE:
                    break
                s[_ATTR_CLASS] = (s[_ATTR_CLASS] << 8) | np.int64(d[k])
            if first >= 0:
                _hash_class_words(d, start, end, _BASIS, True, first, b)
        elif key == _KEY_HREF:
            s[_ATTR_HREF] = 1
        elif key == _KEY_STYLE:
            if _hides(d, start, end):
                s[_ATTR_FLAGS] |= t.FLAG_HIDDEN_STYLE | t.FLAG_HIDDEN
        elif key == _KEY_HIDDEN and length == 6:
            if not (end - start == 11 and d[start] | 32 == 117):  # until-found
                s[_ATTR_FLAGS] |= t.FLAG_HIDDEN_ATTRIBUTE | t.FLAG_HIDDEN
        elif key == _KEY_ARIA_HIDDEN and length == 11:
            if end - start == 4 and d[start] | 32 == 116:  # true
                s[_ATTR_FLAGS] |= t.FLAG_HIDDEN_ARIA | t.FLAG_HIDDEN
        elif key == _KEY_ALT or key == _KEY_ALTTEXT:
            s[_ATTR_ALT], s[_ATTR_ALT_END] = start, end
        elif key == _KEY_TYPE:
            s[_ATTR_TYPE], s[_ATTR_TYPE_END] = start, end
        elif key == _KEY_START or key == _KEY_VALUE:
            s[_ATTR_NUMBER] = _read_number(d, start, end)
        elif key == _KEY_DISPLAY:
            s[_ATTR_DISPLAY] = np.int64(end > start and d[start] | 32 == 98)  # block
        elif first >= 0:
            if key == _KEY_ID:
                _hash_class_words(d, start, end, _BASIS, False, first, b)
            elif key == _KEY_ROLE and length == 4:
                _hash_class_words(d, start, end, _BASIS ^ _SEED_ROLE, False, first, b)
            elif key == _KEY_ITEMPROP:
                _hash_class_words(d, start, end, _BASIS ^ _SEED_ITEMPROP, False, first, b)
    return i


# ---- text


@_compiled
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
        c = np.int64(d[j])
        if 48 <= c <= 57:
            c -= 48
        elif base == 16 and 97 <= (c | 32) <= 102:
            c = (c | 32) - 87
        else:
            break
        number = min(number * base + c, 0x110000)
        j += 1
    if j == start:
        return i + 1, _AMPERSAND, 0
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


@_compiled
def _read_reference(d: Bytes, i: int, end: int) -> tuple[int, int, int]:
    """Read the character reference at i, an `&`: the place behind it and its code points; itself if it is none."""
    if d[i + 1] == _HASH:
        return _read_number_reference(d, i, end)
    key = _BASIS
    best = -1
    best_end = i
    j = i + 1
    while j < min(end, i + 33):
        c = np.int64(d[j])
        is_name = 97 <= (c | 32) <= 122 or 48 <= c <= 57
        if not is_name and c != _SEMICOLON:
            break
        key = (key ^ np.uint64(c)) * _PRIME
        j += 1
        if not is_name or 3 <= j - i <= 7:  # the longest name that needs no semicolon has six letters
            slot = np.int64(key >> _ENTITY_SHIFT)
            while _ENTITY_KEYS[slot] != 0:
                if _ENTITY_KEYS[slot] == key:
                    best, best_end = slot, j
                    break
                slot = (slot + 1) & _ENTITY_MASK
        if not is_name:
            break
    if best < 0:
        return i + 1, _AMPERSAND, 0
    return best_end, np.int64(_ENTITY_VALUES[best, 0]), np.int64(_ENTITY_VALUES[best, 1])


@_compiled
def _classify_low(cp: int) -> int:
    """Return the class of a code point from U+0080 to U+1FFF."""
    if cp < 0xC0:
        if cp == 0xA0 or cp == 0x85:  # no-break space becomes a space, and next line
            return _BLANK
        if cp == 0xAD:
            return _INVISIBLE
        return _CLOSING if cp == 0xBB else _LETTER if cp == 0xAA or cp == 0xB5 or cp == 0xBA else _SIGN
    if cp < 0x530:
        upper = cp <= 0xDE or 0x391 <= cp <= 0x3A9 or 0x400 <= cp <= 0x42F
        return _SIGN if cp == 0xD7 or cp == 0xF7 else _UPPER if upper else _LETTER
    if cp == 0x60C:
        return _COMMA
    if cp == 0x589 or cp == 0x61F or cp == 0x6D4 or cp == 0x964 or cp == 0x965 or cp == 0x1362 or cp == 0x17D4:
        return _MARK
    if cp == 0x104B:
        return _FULL_MARK
    if 0xE01 <= cp <= 0xEFF:
        return _DENSE
    if 0xF00 <= cp <= 0xFFF:
        return _SYLLABLE_MARK if cp == 0xF0B else _LETTER
    if 0x1000 <= cp <= 0x109F or 0x1780 <= cp <= 0x17FF:
        return _DENSER
    return _INVISIBLE if cp == 0x61C or cp == 0x180E else _LETTER


@_compiled
def _classify(cp: int) -> int:
    """Return what a code point is to the counts."""
    if cp < 128:
        return np.int64(_CLASSES[cp])
    if cp < 0x2000:
        return _classify_low(cp)
    if 0x3400 <= cp <= 0x9FFF or 0x3040 <= cp <= 0x30FF or 0x20000 <= cp <= 0x3FFFF or 0xF900 <= cp <= 0xFAFF:
        return _HAN
    if cp < 0x2070:
        if cp == 0x2028 or cp == 0x2029:
            return _BLANK
        if cp <= 0x200A or cp == 0x202F or cp == 0x205F:
            return _WIDE_BLANK
        if cp == 0x200B:
            return _SYLLABLE_MARK
        if cp <= 0x200F or 0x202A <= cp <= 0x202E or cp >= 0x2060:
            return _INVISIBLE
        return _MARK if cp == 0x2026 else _CLOSING if cp == 0x2019 or cp == 0x201D else _SIGN
    if 0x3000 <= cp <= 0x303F:
        if cp == 0x3000:
            return _WIDE_BLANK
        if cp == 0x3001:
            return _COMMA
        return _FULL_MARK if cp == 0x3002 else _CLOSING if cp == 0x300D or cp == 0x300F else _HAN if cp == 0x3005 else _SIGN
    if 0xFF00 <= cp <= 0xFFEF:
        if cp == 0xFF0C:
            return _COMMA
        if cp == 0xFF01 or cp == 0xFF1F or cp == 0xFF0E or cp == 0xFF61:
            return _FULL_MARK
        return _LETTER if 0xFF10 <= cp <= 0xFF19 or 0xFF21 <= cp <= 0xFF5A or cp >= 0xFF66 else _SIGN
    if cp == 0xFEFF or 0xFE00 <= cp <= 0xFE0F:
        return _INVISIBLE
    return _SIGN if cp <= 0x2BFF or 0x1F000 <= cp <= 0x1FAFF or 0xFE10 <= cp <= 0xFE6F else _LETTER


@_compiled
def _fold(cp: int) -> int:
    """Return the small letter of a Latin-1, Greek or Cyrillic capital."""
    return cp + 80 if 0x400 <= cp <= 0x40F else cp + 32


@_compiled
def _write(out: Bytes, o: int, cp: int) -> int:
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


@_compiled
def _decode(d: Bytes, i: int) -> tuple[int, int]:
    """Return the place behind the character of several bytes at i, and its code point."""
    c = np.int64(d[i])
    if c < 0xE0:
        return i + 2, ((c & 31) << 6) | (np.int64(d[i + 1]) & 63)
    cp = (np.int64(d[i + 1]) & 63) << 6 | (np.int64(d[i + 2]) & 63)
    if c < 0xF0:
        return i + 3, (c & 15) << 12 | cp
    return i + 4, (c & 7) << 18 | cp << 6 | (np.int64(d[i + 3]) & 63)


@_compiled
def _end_word(b: _Buffers) -> None:
    """End the running word, if there is one."""
    s = b.state
    if s[_WORD_LETTERS] > 0:
        bucket = (np.uint64(s[_WORD_HASH]) * _GOLDEN) >> _TOP_16
        b.words[s[_NUM_WORDS]] = np.uint16(bucket)
        s[_NUM_WORDS] += 1
        s[_WORDS] += 1
        s[_STOPS] += np.int64(b.stops[np.int64(bucket)])
        s[_LONG] += np.int64(s[_WORD_LETTERS] > 6)
        s[_TEXT_HASH] = np.int64((np.uint64(s[_TEXT_HASH]) ^ bucket) * _PRIME)
        s[_WORD_LETTERS] = 0
    s[_WORD_HASH] = 0


@_compiled
def _put_blank(cp: int, following: int, o: int, pre: bool, b: _Buffers) -> int:
    """Write white space at o: as it is in pre, as one space elsewhere; return the place behind it."""
    s = b.state
    _end_word(b)
    if s[_LAST_MARK] == 1:
        s[_SENTENCES] += 1
        s[_LAST_MARK] = 3
    start = s[_START]
    if pre:
        if cp == _RETURN:
            if following == _NEWLINE:
                return o
            cp = _NEWLINE
        if cp != _NEWLINE and cp != _TAB and cp < 0x2000:
            cp = _SPACE
    elif cp == 0xA0 and s[_CODE] > 0:
        cp = _SPACE
    elif cp < 0x2000:
        cp = _SPACE
        if o == start or b.out[o - 1] <= _SPACE:
            return o
    elif o == start:
        return o
    return _write(b.out, o, cp)


@_compiled
def _read_text(d: Bytes, i: int, end: int, mode: int, b: _Buffers) -> int:
    """Append the text from i to `end` or the next `<` (if `mode` is _AS_MARKUP) to the block; return where it stopped."""
    s, out = b.state, b.out
    o = s[_OUT]
    pre = b.elements[s[_CURRENT], t.ELEMENT_PRE] != 0
    chars, upper, digits, commas, hans, dense = 0, 0, 0, 0, 0, 0
    mark, letters, h = s[_LAST_MARK], s[_WORD_LETTERS], np.uint64(s[_WORD_HASH])
    while i < end:
        c = d[i]
        kind = np.int64(_CLASSES[c])
        if kind == _LETTER:
            out[o] = c
            o += 1
            i += 1
            chars += 1
            letters += 1
            h = (h ^ np.uint64(c)) * _PRIME
            mark = 0
            continue
        cp, second, following = np.int64(c), 0, i + 1
        if kind == _MARKUP:
            if mode == _AS_MARKUP:
                break
            kind = _SIGN
        elif kind == _REFERENCE:
            if mode != _AS_IS:
                following, cp, second = _read_reference(d, i, end)
            kind = _classify(cp) if cp > 0 and cp != _AMPERSAND and cp != _LESS else _SIGN
        elif kind == _MULTIBYTE:
            following, cp = _decode(d, i)
            kind = _classify(cp)
        i = following
        while cp > 0:
            if kind == _BLANK or kind == _WIDE_BLANK:
                s[_LAST_MARK], s[_WORD_LETTERS], s[_WORD_HASH] = mark, letters, np.int64(h)
                o = _put_blank(cp, np.int64(d[i]), o, pre, b)
                mark, letters, h = s[_LAST_MARK], 0, np.uint64(0)
                while not pre and i < end and d[i] <= _SPACE:
                    i += 1
                break
            o = _write(out, o, cp)
            if kind == _INVISIBLE:
                break
            chars += 1
            ends = False
            if kind == _LETTER or kind == _UPPER or kind == _DIGIT or kind >= _HAN:
                mark = 0
            if kind == _UPPER:
                upper += 1
                cp = _fold(cp)
            elif kind == _DIGIT:
                digits += 1
            elif kind == _COMMA:
                commas += 1
                ends = cp > 127
            elif kind == _MARK:
                mark = 1
            elif kind == _COLON:
                mark = 2
            elif kind == _SIGN:
                mark = 0
            elif kind == _FULL_MARK:
                ends = True
                mark = 3
                s[_SENTENCES] += 1
            elif kind == _HAN or kind == _SYLLABLE_MARK:
                ends = True
            if kind <= _DIGIT and kind != _SIGN or kind == _DENSE or kind == _DENSER:
                letters += 1
                h = (h ^ np.uint64(cp)) * _PRIME
                if kind >= _DENSE and letters >= 4 + (kind - _DENSE):
                    ends = True
                    dense += 1
            if ends:
                s[_WORD_LETTERS], s[_WORD_HASH] = letters, np.int64(h)
                _end_word(b)
                letters, h = 0, np.uint64(0)
            if kind == _HAN:
                hans += 1
                bucket = (np.uint64(cp) * _GOLDEN) >> _TOP_16
                b.words[s[_NUM_WORDS]] = np.uint16(bucket)
                s[_NUM_WORDS] += 1
                s[_TEXT_HASH] = np.int64((np.uint64(s[_TEXT_HASH]) ^ bucket) * _PRIME)
            cp, second = second, 0
            kind = _classify(cp) if cp > 0 else 0
    s[_OUT], s[_LAST_MARK], s[_WORD_LETTERS], s[_WORD_HASH] = o, mark, letters, np.int64(h)
    s[_CHARS] += chars
    s[_LINK_CHARS] += chars if s[_LINK] else 0
    s[_UPPERS] += upper
    s[_DIGITS] += digits
    s[_COMMAS] += commas
    s[_HANS] += hans
    s[_DENSE_WORDS] += dense
    return i


@_compiled
def _put_tex(d: Bytes, start: int, end: int, mode: int, display: bool, b: _Buffers) -> None:
    """Append TeX between dollars, without what Wikipedia wraps around it; the same as just before is left out."""
    s, out = b.state, b.out
    while start < end and d[start] <= _SPACE:
        start += 1
    while start < end and d[end - 1] <= _SPACE:
        end -= 1
    # {\displaystyle ...}
    if end - start > 15 and d[start] == _BRACE and d[start + 1] == _BACKSLASH and d[end - 1] == _CLOSING_BRACE:
        if d[start + 2] == 100 and d[start + 8] == 115 and d[start + 13] == 101 and d[start + 14] == _SPACE:
            start, end = start + 15, end - 1
    h = _BASIS
    for i in range(start, end):
        if d[i] > _SPACE:
            h = (h ^ np.uint64(d[i])) * _PRIME
    chars = s[_CHARS]
    if start >= end or (s[_TEX_HASH] == np.int64(h) and s[_TEX_END] == chars and chars > 0):
        return
    bare = d[start] != _DOLLAR and not (d[start] == _BACKSLASH and (d[start + 1] == 40 or d[start + 1] == _BRACKET))
    dollars = (2 if display else 1) if bare else 0
    for _ in range(dollars):
        out[s[_OUT]] = _DOLLAR
        s[_OUT] += 1
    _read_text(d, start, end, mode, b)
    while s[_OUT] > s[_START] and out[s[_OUT] - 1] <= _SPACE:
        s[_OUT] -= 1
    for _ in range(dollars):
        out[s[_OUT]] = _DOLLAR
        s[_OUT] += 1
    s[_CHARS] += 2 * dollars
    s[_TEX_HASH], s[_TEX_END] = np.int64(h), s[_CHARS]


# ---- blocks and elements


@_compiled
def _start_block(b: _Buffers) -> None:
    s = b.state
    s[_BLOCK_FIRST] = s[_NUM_WORDS]
    s[_WORDS : _MUTE] = 0
    s[_START] = s[_OUT]
    s[_LINKS] = s[_LINK]
    s[_WORD_HASH] = s[_WORD_LETTERS] = 0
    s[_TEX_END] = s[_LINK_END] = -1


@_compiled
def _end_block(b: _Buffers) -> None:
    """Write the running block, if it holds text, and start the next."""
    s, out = b.state, b.out
    if s[_CHARS] == 0:
        s[_OUT] = s[_START]
        if s[_TAGS] | s[_BREAKS] | s[_LINKS] | s[_NUM_WORDS] - s[_BLOCK_FIRST]:
            _start_block(b)
        return
    _end_word(b)
    start, end = s[_START], s[_OUT]
    while True:
        if out[end - 1] <= _SPACE:
            end -= 1
        elif end - start > 3 and out[end - 1] == 0x80 and out[end - 2] == 0x80 and out[end - 3] == 0xE3:
            end -= 3  # ideographic space
        else:
            break
    i = start
    while out[i] <= _SPACE:  # in pre alone: whole empty lines go, the indent stays
        if out[i] == _NEWLINE:
            start = i + 1
        i += 1
    row = b.blocks[s[_NUM_BLOCKS]]
    row[t.BLOCK_ELEMENT] = s[_CURRENT]
    row[t.BLOCK_TEXT_START] = start
    row[t.BLOCK_TEXT_END] = end
    row[t.BLOCK_WORDS] = s[_WORDS] + (s[_HANS] + 1) // 2
    row[t.BLOCK_CHARS] = s[_CHARS]
    row[t.BLOCK_LINK_CHARS] = s[_LINK_CHARS]
    row[t.BLOCK_COMMAS] = s[_COMMAS]
    # Without spaces no stop word can be told from the rest: half of the words, as in other languages.
    row[t.BLOCK_STOP_WORDS] = s[_STOPS] + s[_HANS] // 4 + s[_DENSE_WORDS] // 2
    row[t.BLOCK_UPPER] = s[_UPPERS]
    row[t.BLOCK_DIGITS] = s[_DIGITS]
    row[t.BLOCK_LINKS] = s[_LINKS]
    row[t.BLOCK_HASH] = np.int64(np.uint64(s[_TEXT_HASH]) >> _ONE)
    row[t.BLOCK_BREAKS] = s[_BREAKS]
    row[t.BLOCK_FIRST_WORD] = s[_BLOCK_FIRST]
    row[t.BLOCK_END_MARK] = 1 if s[_LAST_MARK] == 3 else s[_LAST_MARK]
    row[t.BLOCK_LONG_WORDS] = s[_LONG]
    row[t.BLOCK_SENTENCES] = s[_SENTENCES]
    row[t.BLOCK_INLINE_TAGS] = s[_TAGS]
    s[_NUM_BLOCKS] += 1
    s[_OUT] = end
    _start_block(b)


@_compiled
def _put_break(b: _Buffers) -> None:
    """Break the line; a second break without text between ends the block, but not in pre."""
    s, out = b.state, b.out
    _end_word(b)
    pre = b.elements[s[_CURRENT], t.ELEMENT_PRE] != 0
    if s[_CHARS] == 0 and not pre:
        return
    while not pre and out[s[_OUT] - 1] == _SPACE:
        s[_OUT] -= 1
    if not pre and out[s[_OUT] - 1] == _NEWLINE:
        _end_block(b)
        return
    out[s[_OUT]] = _NEWLINE
    s[_OUT] += 1
    s[_BREAKS] += 1


@_compiled
def _pop_to(level: int, b: _Buffers) -> None:
    """Close open elements until `level` of them are left."""
    s = b.state
    while s[_LEVEL] > level:
        place = s[_LEVEL] - 1
        b.open[b.elements[b.stack[place], t.ELEMENT_TAG]] = b.before[place]
        s[_LEVEL] = place
        s[_WORK] += 1
    s[_CURRENT] = b.stack[level - 1] if level > 0 else 0
    if s[_MUTE] != _UNMUTED and level < s[_MUTE_LEVEL]:
        s[_MUTE] = _UNMUTED


@_compiled
def _innermost(b: _Buffers, first: int, second: int, third: int) -> int:
    """Return the place of the innermost open element of three tags, or -1."""
    return max(b.open[first], b.open[second], b.open[third])


@_compiled
def _close_implied(tag: int, b: _Buffers) -> None:
    """Close what the start of a block-level element closes."""
    o = b.open
    table = _innermost(b, t.TABLE, t.TD, t.TH)
    wall = max(table, o[t.BUTTON], o[t.CAPTION])
    level = -1
    if _CLOSES_PARAGRAPH[tag] and o[t.P] > wall:
        level = o[t.P]
    if t.H1 <= tag <= t.H6:
        top = b.state[_LEVEL] - 1
        if top >= 0 and t.H1 <= b.elements[b.stack[top], t.ELEMENT_TAG] <= t.H6:
            level = top
    elif tag == t.LI:
        if o[t.LI] > max(_innermost(b, t.UL, t.OL, t.MENU), table):
            level = o[t.LI]
    elif tag == t.DT or tag == t.DD:
        item = max(o[t.DT], o[t.DD])
        if item > max(o[t.DL], table):
            level = item
    elif tag == t.TR or tag == t.TD or tag == t.TH or tag == t.TBODY or tag == t.THEAD or tag == t.TFOOT:
        outer = o[t.TABLE]
        cell = max(o[t.TD], o[t.TH])
        row = o[t.TR]
        part = _innermost(b, t.TBODY, t.THEAD, t.TFOOT)
        if tag != t.TD and tag != t.TH:
            if tag != t.TR and part > outer:
                level = part
            elif row > outer:
                level = row
            elif cell > outer:
                level = cell
        elif cell > max(outer, row):
            level = cell
    if level >= 0:
        _pop_to(level, b)


@_compiled
def _push(tag: int, first: int, b: _Buffers) -> None:
    """Open an element; what the last tag's attributes say is its own."""
    s, elements = b.state, b.elements
    place, parent, e = s[_LEVEL], s[_CURRENT], s[_NUM_ELEMENTS]
    above, row = elements[parent], elements[e]
    for column in range(t.ELEMENT_KIDS, t.ELEMENT_LIST):
        row[column] = 0
    for column in range(t.ELEMENT_LIST, t.NUM_ELEMENT_COLUMNS):
        row[column] = above[column]
    row[t.ELEMENT_PARENT] = parent
    row[t.ELEMENT_TAG] = tag
    row[t.ELEMENT_DEPTH] = place + 1
    row[t.ELEMENT_CLASS_START], row[t.ELEMENT_CLASS_END] = first, s[_NUM_CLASSES]
    muted = t.FLAG_DROPPED if s[_MUTE] != _UNMUTED else 0
    row[t.ELEMENT_FLAGS] = s[_ATTR_FLAGS] | muted | (above[t.ELEMENT_FLAGS] & ~t.FLAG_DROPPED)
    own = np.uint64(s[_ATTR_HASH])
    path = (np.uint64(above[t.ELEMENT_SIGNATURE]) * _PRIME) ^ (np.uint64(tag + 1) * _GOLDEN) ^ own
    row[t.ELEMENT_SIGNATURE] = np.int64(path >> _ONE)
    row[t.ELEMENT_CLASS_HASH] = np.int64(own >> _ONE)
    row[t.ELEMENT_KID] = above[t.ELEMENT_KIDS]
    above[t.ELEMENT_KIDS] += 1
    if tag == t.UL or tag == t.OL or tag == t.MENU or tag == t.DL:
        row[t.ELEMENT_LIST] = e
        row[t.ELEMENT_LIST_DEPTH] += 1
        row[t.ELEMENT_ORDINAL] = max(s[_ATTR_NUMBER], 1) - 1 if s[_ATTR_NUMBER] >= 0 else 0
    elif tag == t.LI or tag == t.DT or tag == t.DD:
        row[t.ELEMENT_ITEM] = e
        counter = elements[above[t.ELEMENT_LIST]]
        counter[t.ELEMENT_ORDINAL] = s[_ATTR_NUMBER] if s[_ATTR_NUMBER] >= 0 else counter[t.ELEMENT_ORDINAL] + 1
        row[t.ELEMENT_ORDINAL] = counter[t.ELEMENT_ORDINAL]
    elif tag == t.TR:
        row[t.ELEMENT_ROW] = e
    elif tag == t.TD or tag == t.TH:
        row[t.ELEMENT_CELL] = e
    elif tag == t.TABLE:
        row[t.ELEMENT_TABLE] = e
        row[t.ELEMENT_ROW] = row[t.ELEMENT_CELL] = 0
    elif tag == t.PRE:
        row[t.ELEMENT_PRE] = e
    elif tag == t.BLOCKQUOTE:
        row[t.ELEMENT_QUOTES] += 1
    elif t.H1 <= tag <= t.H6:
        row[t.ELEMENT_HEADING] = tag - t.H1 + 1
    b.stack[place], b.before[place], b.open[tag] = e, b.open[tag], place
    s[_LEVEL], s[_CURRENT], s[_NUM_ELEMENTS] = place + 1, e, e + 1


# ---- tags


@_compiled
def _look_up(key: int) -> tuple[int, int]:
    """Return kind and number of the tag whose name has this key."""
    slot = np.int64((np.uint64(key) * _GOLDEN) >> _SLOT_SHIFT)
    while _SLOT_KEYS[slot] != 0:
        if _SLOT_KEYS[slot] == key:
            return np.int64(_SLOT_KINDS[slot]), np.int64(_SLOT_TAGS[slot])
        slot = (slot + 1) & (len(_SLOT_KEYS) - 1)
    return t.KIND_INLINE, t.OTHER


@_compiled
def _is_custom(d: Bytes, name: int, end: int, b: _Buffers) -> bool:
    """Say whether the name is that of a custom element that stands as a block: not in a paragraph or heading."""
    dash = False
    for i in range(name, end):
        dash |= d[i] == _DASH
    if not dash or (d[name] | 32 == 109 and d[name + 1] | 32 == 106 and d[name + 2] | 32 == 120):  # mjx-: MathJax
        return False
    o = b.open
    inside = o[t.P] if o[t.P] > max(_innermost(b, t.TABLE, t.TD, t.TH), o[t.BUTTON], o[t.CAPTION]) else -1
    for heading in range(t.H1, t.H6 + 1):
        inside = max(inside, o[heading])
    return inside <= o[t.CUSTOM]


@_compiled
def _mute(why: int, key: int, level: int, b: _Buffers) -> None:
    """Leave text out until the end of the element with this name, or until fewer than `level` elements are open."""
    s = b.state
    s[_MUTE], s[_MUTE_KEY], s[_MUTE_COUNT], s[_MUTE_LEVEL], s[_FOREIGN] = why, key, 1, level, 0


@_compiled
def _put_gap(b: _Buffers) -> None:
    """Part the words before and behind something that is no text."""
    if b.state[_MUTE] == _UNMUTED and b.elements[b.state[_CURRENT], t.ELEMENT_PRE] == 0:
        b.state[_OUT] = _put_blank(_SPACE, 0, b.state[_OUT], False, b)


@_compiled
def _read_raw(d: Bytes, i: int, name_end: int, n: int, kind: int, tag: int, key: int, b: _Buffers) -> int:
    """Read the element at i whose content is no markup: skip it, or show it, or take the TeX out of it."""
    s = b.state
    first = s[_NUM_CLASSES]
    start = min(_read_attributes(d, name_end, n, first, b) + 1, n)
    if key == _KEY_SCRIPT:
        end = _find_script_end(d, start, n, i + 1, name_end)
    else:
        end = _find_end_tag(d, start, n, i + 1, name_end)
    s[_WORK] += end - start
    behind = min(_skip_attributes(d, end + 2 + name_end - i - 1, n) + 1, n)
    if s[_MUTE] != _UNMUTED or kind != t.KIND_RAW_SHOWN:
        s[_NUM_CLASSES] = first
        a = s[_ATTR_TYPE]
        is_math = d[a] | 32 == 109 and d[a + 1] | 32 == 97 and d[a + 4] == _SLASH and d[a + 5] | 32 == 116
        if key == _KEY_SCRIPT and s[_MUTE] == _UNMUTED and s[_ATTR_TYPE_END] - a >= 8 and is_math and d[a + 7] | 32 == 120:
            display = s[_ATTR_TYPE_END] - a > 8 and d[s[_ATTR_TYPE_END] - 1] | 32 == 121  # math/tex; mode=display
            _put_tex(d, start, end, _AS_IS, display, b)
        return behind
    _end_block(b)
    level = s[_LEVEL]
    _push(tag, first, b)
    _read_text(d, start, end, _AS_TEXT if tag == t.TITLE else _AS_IS, b)
    _end_block(b)
    _pop_to(level, b)
    return behind


@_compiled
def _find_annotation(d: Bytes, i: int, n: int) -> tuple[int, int]:
    """Return start and end of the first TeX annotation in the MathML at d[i:n]; both 0 if there is none."""
    while True:
        i = _find(d, i, n, _LESS)
        if i >= n:
            return 0, 0
        key, j = _read_name(d, i + 1)
        if key == _KEY_ANNOTATION and j - i == 11:  # not annotation-xml
            end = _skip_attributes(d, j, n)
            for k in range(j, end - 3):
                if d[k] | 32 == 116 and d[k + 1] | 32 == 101 and d[k + 2] | 32 == 120 and d[k + 3] < 97:  # tex"
                    return end + 1, _find(d, end + 1, n, _LESS)
        i = j


@_compiled
def _read_math(d: Bytes, i: int, name_end: int, n: int, b: _Buffers) -> int:
    """Read the start of MathML at i: the whole of it, if it says what it is in TeX; else only the tag."""
    s = b.state
    tag_end = _read_attributes(d, name_end, n, -1, b)
    start = min(tag_end + 1, n)
    alt, alt_end, display = s[_ATTR_ALT], s[_ATTR_ALT_END], s[_ATTR_DISPLAY] == 1
    if d[tag_end - 1] == _SLASH or i < s[_MATH_SEEN]:
        return start
    end = _find_end_tag(d, start, n, i + 1, name_end)
    s[_MATH_SEEN] = end
    s[_WORK] += 2 * (end - start)
    tex, tex_end = _find_annotation(d, start, end)
    if tex == 0 and alt_end > alt:
        tex, tex_end = alt, alt_end
    if end >= n or tex == 0:
        return start
    if s[_MUTE] == _UNMUTED or s[_MUTE] == _MUTE_INLINE:  # often hidden in favour of a picture of it
        _put_tex(d, tex, tex_end, _AS_TEXT, display, b)
    return min(_skip_attributes(d, end + 6, n) + 1, n)


@_compiled
def _put_image(d: Bytes, b: _Buffers) -> None:
    """Append the alternative text of an image of a formula; part the words around any other."""
    s = b.state
    start, end, css = s[_ATTR_ALT], s[_ATTR_ALT_END], s[_ATTR_CLASS]
    is_tex = css == _CLASS_TEX or css == _CLASS_LATEX or css == _CLASS_MATH or css == _CLASS_WIKI_MATH
    if not is_tex:
        command = brace = False
        for i in range(start, min(end, start + 1000)):
            command |= d[i] == _BACKSLASH and _is_letter(np.int64(d[i + 1]))
            brace |= d[i] == _BRACE or d[i] == _CARET or d[i] == _UNDERSCORE
        is_tex = command and brace
    if is_tex and end > start:
        if s[_MUTE] == _UNMUTED:
            _put_tex(d, start, end, _AS_TEXT, False, b)
    else:
        _put_gap(b)


@_compiled
def _start_block_tag(d: Bytes, name: int, name_end: int, n: int, tag: int, b: _Buffers) -> int:
    """Open the block-level element whose start tag has its name at d[name:name_end]; return the place behind the tag."""
    s = b.state
    first = s[_NUM_CLASSES]
    h = _BASIS
    if tag == t.CUSTOM:
        for i in range(name, name_end):
            h = (h ^ np.uint64(_lower(np.int64(d[i])))) * _PRIME
        b.classes[first] = np.uint16((h >> _FORTY) & _BUCKETS)
        s[_NUM_CLASSES] += 1
    i = min(_read_attributes(d, name_end, n, first, b) + 1, n)
    if tag == t.CUSTOM:
        s[_ATTR_HASH] ^= np.int64(h)
    _end_block(b)
    if tag == t.BODY:
        s[_ATTR_FLAGS] = 0  # pages hide it until their scripts run
        if b.open[t.BODY] >= 0:
            return i
    if s[_MUTE] == _MUTE_RUBY:
        s[_MUTE] = _UNMUTED
    _close_implied(tag, b)
    _push(tag, first, b)
    if s[_MUTE] == _UNMUTED and s[_ATTR_CLASS] != 0:
        css = s[_ATTR_CLASS]
        numbers = False
        for k in range(len(_CLASS_LINE_NUMBERS)):
            numbers |= css == _CLASS_LINE_NUMBERS[k] and (k < _NUMBERS_ANYWHERE or tag == t.TD)
        if numbers or (tag != t.CUSTOM and (css == _CLASS_MATHJAX or css == _CLASS_MATHJAX_PART or css == _CLASS_MJX)):
            _mute(_MUTE_BLOCK, 0, s[_LEVEL], b)
    return i


@_compiled
def _start_inline_tag(d: Bytes, name: int, name_end: int, n: int, kind: int, key: int, b: _Buffers) -> int:
    """Heed the start tag of an inline element; return the place behind it."""
    s = b.state
    end = name_end if d[name_end] == _GREATER else n
    if end == n:
        end = _read_attributes(d, name_end, n, -1, b)
    else:
        s[_ATTR_FLAGS:] = 0
    if s[_MUTE] != _UNMUTED:
        return min(end + 1, n)
    css = s[_ATTR_CLASS]
    mathjax = css == _CLASS_MATHJAX or css == _CLASS_MATHJAX_PART or css == _CLASS_MJX
    numbers = False
    if css != 0 and b.elements[s[_CURRENT], t.ELEMENT_PRE] != 0:
        for k in range(len(_CLASS_LINE_NUMBERS)):
            numbers |= css == _CLASS_LINE_NUMBERS[k]
    if s[_ATTR_FLAGS] & t.FLAG_HIDDEN:
        _mute(_MUTE_INLINE, key, s[_LEVEL], b)
    elif numbers or (mathjax and d[name + 3] != _DASH):  # but not mjx-container
        _mute(_MUTE_DROPPED, key, s[_LEVEL], b)
    s[_TAGS] += 1
    if kind == t.KIND_LINK:
        s[_LINK] = s[_ATTR_HREF]
        s[_LINKS] += s[_ATTR_HREF]
        if s[_LINK_END] == s[_OUT] and s[_LINK]:
            _put_gap(b)  # two links side by side are no word
    elif kind == t.KIND_CODE:
        s[_CODE] += 1
    return min(end + 1, n)


@_compiled
def _start_muted_tag(d: Bytes, name_end: int, n: int, kind: int, tag: int, key: int, b: _Buffers) -> bool:
    """Heed a start tag where text is left out; say whether that is all there is to do."""
    s = b.state
    if key == s[_MUTE_KEY]:
        if key == _KEY_SELECT or kind == t.KIND_LINK:  # these do not nest
            s[_MUTE] = _UNMUTED
            return False
        s[_MUTE_COUNT] += 1
        return True
    if s[_MUTE] == _MUTE_TEMPLATE:
        return kind != t.KIND_RAW and kind != t.KIND_RAW_SHOWN
    if s[_MUTE] == _MUTE_DROPPED and s[_MUTE_KEY] == _KEY_SVG:
        s[_FOREIGN] += np.int64(key == _KEY_FOREIGN)
        if kind != t.KIND_BLOCK or s[_FOREIGN] > 0:
            return True
        s[_MUTE] = _UNMUTED  # a block-level element ends an svg that was left open
        return False
    if s[_MUTE] == _MUTE_RUBY:
        if key == _KEY_RB or key == _KEY_RTC:
            s[_MUTE] = _UNMUTED
        return kind == t.KIND_RUBY
    return False


@_compiled
def _start_tag(d: Bytes, i: int, n: int, b: _Buffers) -> int:
    """Heed the start tag at i; return the place behind it, or behind the element if its content is no markup."""
    s = b.state
    key, name_end = _read_name(d, i + 1)
    kind, tag = _look_up(key)
    if kind == t.KIND_BLOCK:
        if s[_MUTE] != _UNMUTED and _start_muted_tag(d, name_end, n, kind, tag, key, b):
            return min(_skip_attributes(d, name_end, n) + 1, n)
        return _start_block_tag(d, i + 1, name_end, n, tag, b)
    if s[_MUTE] != _UNMUTED and _start_muted_tag(d, name_end, n, kind, tag, key, b):
        return min(_skip_attributes(d, name_end, n) + 1, n)
    if kind == t.KIND_INLINE and name_end - i > 3 and _is_custom(d, i + 1, name_end, b):
        return _start_block_tag(d, i + 1, name_end, n, t.CUSTOM, b)
    if kind == t.KIND_INLINE or kind == t.KIND_LINK or kind == t.KIND_CODE:
        return _start_inline_tag(d, i + 1, name_end, n, kind, key, b)
    if kind == t.KIND_RAW or kind == t.KIND_RAW_SHOWN:
        return _read_raw(d, i, name_end, n, kind, tag, key, b)
    if kind == t.KIND_MATH:
        return _read_math(d, i, name_end, n, b)
    end = _read_attributes(d, name_end, n, -1, b)
    if kind == t.KIND_RULE:
        _end_block(b)
    elif kind == t.KIND_BREAK:
        if s[_MUTE] == _UNMUTED:
            _put_break(b)
    elif kind == t.KIND_GAP:
        if key == _KEY_IMG:
            _put_image(d, b)
        else:
            _put_gap(b)
    elif s[_MUTE] == _UNMUTED and kind != t.KIND_VOID:
        if kind == t.KIND_RUBY:
            _mute(_MUTE_RUBY, key, s[_LEVEL], b)
        elif not (key == _KEY_SVG and d[end - 1] == _SLASH):
            if key != _KEY_ANNOTATION:
                _put_gap(b)
            why = _MUTE_TEMPLATE if kind == t.KIND_TEMPLATE else _MUTE_DROPPED
            _mute(why, key, 0 if why == _MUTE_TEMPLATE else s[_LEVEL], b)
    return min(end + 1, n)


@_compiled
def _end_muted_tag(kind: int, key: int, b: _Buffers) -> bool:
    """Heed an end tag where text is left out; say whether that is all there is to do."""
    s = b.state
    if key == s[_MUTE_KEY]:
        s[_MUTE_COUNT] -= 1
        if s[_MUTE_COUNT] <= 0:
            s[_MUTE] = _UNMUTED
        return kind != t.KIND_CODE
    if s[_MUTE] == _MUTE_TEMPLATE:
        return True
    if s[_MUTE] == _MUTE_DROPPED and s[_MUTE_KEY] == _KEY_SVG:
        s[_FOREIGN] -= np.int64(key == _KEY_FOREIGN and s[_FOREIGN] > 0)
        return kind != t.KIND_BLOCK or s[_FOREIGN] > 0
    if s[_MUTE] == _MUTE_RUBY and (key == _KEY_RUBY or kind == t.KIND_RUBY):
        s[_MUTE] = _UNMUTED
        return True
    return False


@_compiled
def _end_tag(d: Bytes, i: int, n: int, b: _Buffers) -> int:
    """Heed the end tag at i; return the place behind it."""
    s, o = b.state, b.open
    key, name_end = _read_name(d, i + 2)
    behind = name_end + 1 if d[name_end] == _GREATER else min(_skip_attributes(d, name_end, n) + 1, n)
    kind, tag = _look_up(key)
    if s[_MUTE] != _UNMUTED and _end_muted_tag(kind, key, b):
        return behind
    if kind == t.KIND_LINK:
        s[_LINK] = 0
        s[_LINK_END] = s[_OUT] if s[_CHARS] > 0 else -1
    elif kind == t.KIND_CODE:
        s[_CODE] = max(s[_CODE] - 1, 0)
    elif kind == t.KIND_BREAK and s[_MUTE] == _UNMUTED:
        _put_break(b)
    elif kind == t.KIND_INLINE and name_end - i > 4 and o[t.CUSTOM] >= 0 and _is_custom(d, i + 2, name_end, b):
        kind, tag = t.KIND_BLOCK, t.CUSTOM
    if kind != t.KIND_BLOCK:
        return behind
    _end_block(b)
    place = o[tag]
    if t.H1 <= tag <= t.H6:  # any heading ends any
        for heading in range(t.H1, t.H6 + 1):
            place = max(place, o[heading])
    wall = _innermost(b, t.TABLE, t.TD, t.TH)
    if tag == t.TABLE:
        wall = -1
    elif tag == t.TR or tag == t.TBODY or tag == t.THEAD or tag == t.TFOOT:
        wall = o[t.TABLE]
    if place >= 0 and place >= wall and tag != t.BODY:
        _pop_to(place, b)
    return behind


@_compiled
def _scan(d: Bytes, n: int, b: _Buffers) -> None:
    """Read the page d[:n]; d has _PADDING zero bytes more."""
    s = b.state
    s[:] = 0
    b.open[:] = -1
    b.elements[0] = 0
    b.elements[0, t.ELEMENT_PARENT] = -1
    s[_NUM_ELEMENTS] = 1
    _start_block(b)
    is_xml = d[0] == _LESS and d[1] == 63 and d[2] | 32 == 120
    i = 0
    while i < n:
        if d[i] != _LESS:
            if s[_MUTE] != _UNMUTED:
                i = _find(d, i, n, _LESS)
                continue
            if d[i] <= _SPACE and b.elements[s[_CURRENT], t.ELEMENT_PRE] == 0:
                while i < n and d[i] <= _SPACE:
                    i += 1
                if s[_CHARS] > 0:
                    s[_OUT] = _put_blank(_SPACE, 0, s[_OUT], False, b)
                continue
            i = _read_text(d, i, n, _AS_MARKUP, b)
            continue
        c = np.int64(d[i + 1])
        if _is_letter(c):
            i = _start_tag(d, i, n, b)
        elif c == _SLASH and _is_letter(np.int64(d[i + 2])):
            i = _end_tag(d, i, n, b)
        elif c == _BANG and is_xml and d[i + 2] == _BRACKET and d[i + 8] == _BRACKET:  # <![CDATA[
            end = i + 9
            while end < n and not (d[end] == 93 and d[end + 1] == 93 and d[end + 2] == _GREATER):
                end += 1
            if s[_MUTE] == _UNMUTED:
                _read_text(d, min(i + 9, n), end, _AS_IS, b)
            i = min(end + 3, n)
        elif c == _BANG:
            i = min(_skip_declaration(d, i, n), n)
        elif c == 63 or (c == _SLASH and i + 2 < n):
            i = min(_find(d, i, n, _GREATER) + 1, n)
        elif s[_MUTE] == _UNMUTED:
            i = _read_text(d, i, i + 1, _AS_IS, b)
        else:
            i += 1
    _end_block(b)
    _sum_up(b)


@_compiled
def _sum_up(b: _Buffers) -> None:
    """Write the totals of all elements, children before their parents."""
    s, elements, blocks = b.state, b.elements, b.blocks
    for k in range(s[_NUM_BLOCKS]):
        block = blocks[k]
        element = elements[block[t.BLOCK_ELEMENT]]
        element[t.ELEMENT_WORDS] += block[t.BLOCK_WORDS]
        element[t.ELEMENT_LINK_CHARS] += block[t.BLOCK_LINK_CHARS]
        element[t.ELEMENT_CHARS] += block[t.BLOCK_CHARS]
        element[t.ELEMENT_COMMAS] += block[t.BLOCK_COMMAS]
        element[t.ELEMENT_BLOCKS] += 1
        if block[t.BLOCK_LINK_CHARS] * 2 < block[t.BLOCK_CHARS] and block[t.BLOCK_WORDS] >= 10:
            element[t.ELEMENT_PROSE_WORDS] += block[t.BLOCK_WORDS]
    for e in range(s[_NUM_ELEMENTS] - 1, 0, -1):
        parent, element = elements[elements[e, t.ELEMENT_PARENT]], elements[e]
        for column in range(t.ELEMENT_WORDS, t.ELEMENT_CLASS_HASH):
            parent[column] += element[column]


# ---- Python


def word_hash(word: str) -> int:
    """Return the bucket of a word in Page.words and in the stop table: of its letters and digits, in small letters."""
    h = 0
    for character in word.lower():
        kind = _classify(ord(character))
        if kind in (_LETTER, _UPPER, _DIGIT, _DENSE, _DENSER):
            h = ((h ^ ord(character)) * int(_PRIME)) % (1 << 64)
    return (h * int(_GOLDEN)) % (1 << 64) >> 48


def stop_table(words: Iterable[str]) -> Flags:
    """Return the table of stop words that a Scanner takes, shape (NUM_WORD_BUCKETS,)."""
    table = np.zeros(t.NUM_WORD_BUCKETS, np.bool_)
    table[[word_hash(word) for word in words]] = True
    return table


@dataclass(frozen=True, slots=True)
class Page:
    """What a scan found. All arrays are the page's own.

    Attributes:
        elements: Block-level elements, shape (elements, NUM_ELEMENT_COLUMNS); row 0 is the page itself.
        blocks: Blocks of text in page order, shape (blocks, NUM_BLOCK_COLUMNS).
        class_words: Buckets of words of class, id, role, itemprop and of names of custom elements.
        words: Buckets of the words of the text; of Han and Kana, each character.
        text: The text of all blocks, UTF-8, references decoded.
        work: Bytes looked at beyond the first time, plus elements closed; at most three times the bytes of the page.
    """

    elements: Int64s
    blocks: Int64s
    class_words: Uint16s
    words: Uint16s
    text: bytes
    work: int

    def block_text(self, block: int) -> str:
        """Return the text of a block."""
        start, end = self.blocks[block, t.BLOCK_TEXT_START], self.blocks[block, t.BLOCK_TEXT_END]
        return self.text[start:end].decode()


class Scanner:
    """Scans pages, one after the other; what it gives does not depend on what it saw before.

    Args:
        stop_table: Buckets that hold a stop word, shape (NUM_WORD_BUCKETS,); `stop_table()` makes one.
    """

    _KEPT_BYTES = 4 << 20  # room for a larger page is given back

    def __init__(self, stop_table: Flags) -> None:
        if stop_table.shape != (t.NUM_WORD_BUCKETS,) or stop_table.dtype != np.bool_:
            raise ValueError(
                f"stop_table is {stop_table.dtype}{stop_table.shape}, not bool({t.NUM_WORD_BUCKETS},). Use stop_table()"
            )
        self._stops = stop_table
        self._num_bytes = self._num_tags = -1
        self._buffers: _Buffers | None = None

    def _room(self, num_bytes: int, num_tags: int) -> _Buffers:
        buffers = self._buffers
        if buffers is None or num_bytes > self._num_bytes or num_tags > self._num_tags:
            num_bytes, num_tags = max(num_bytes * 5 // 4, 1 << 18), max(num_tags * 5 // 4, 1 << 13)
            buffers = _Buffers(
                state=np.zeros(_NUM_STATES, np.int64),
                # Two references are longer decoded (6 bytes for 5); TeX gets dollars, at most 4 for a tag
                out=np.empty(num_bytes * 6 // 5 + 4 * num_tags + 64, np.uint8),
                elements=np.empty((num_tags + 2, t.NUM_ELEMENT_COLUMNS), np.int64),
                blocks=np.empty((num_tags + 2, t.NUM_BLOCK_COLUMNS), np.int64),
                classes=np.empty(num_bytes // 2 + 64, np.uint16),
                words=np.empty(num_bytes // 2 + 64, np.uint16),
                stops=self._stops,
                stack=np.empty(num_tags + 2, np.int64),
                before=np.empty(num_tags + 2, np.int64),
                open=np.empty(t.NUM_TAGS, np.int64),
            )
            if num_bytes <= self._KEPT_BYTES:
                self._buffers, self._num_bytes, self._num_tags = buffers, num_bytes, num_tags
        return buffers

    def __call__(self, html: str) -> Page:
        """Return the blocks and elements of a decoded page."""
        raw = html.removeprefix("\ufeff").encode("utf-8", "replace")
        b = self._room(len(raw), raw.count(b"<"))
        _scan(np.frombuffer(raw + bytes(_PADDING), np.uint8), len(raw), b)
        s = b.state
        return Page(
            elements=b.elements[: s[_NUM_ELEMENTS]].copy(),
            blocks=b.blocks[: s[_NUM_BLOCKS]].copy(),
            class_words=b.classes[: s[_NUM_CLASSES]].copy(),
            words=b.words[: s[_NUM_WORDS]].copy(),
            text=b.out[: s[_OUT]].tobytes(),
            work=int(s[_WORK]),
        )
