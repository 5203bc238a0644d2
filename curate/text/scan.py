"""One pass over UTF-8 that finds the lines and texts which `curate.text.unicode.repair` has to look at.

Real text needs no repair, nearly always. What the pass passes over is exactly what repair would leave as it is: runs
of ASCII go by in steps of eight bytes, and near anything else the automaton of `curate.text.badness` decides whether
ftfy would see mojibake. Compiled; no fast-math, no parallel loops, the same answer on every platform.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text import badness
from curate.text.badness import CLASS_UNIT, COMPOSES_BACK, COMPOSES_ON, CONTROL, NEVER_NFC, Tables

Bytes = npt.NDArray[np.uint8]
Uint64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

HAS_CONTROL = 1  # of a text: a control character, or a line end that is no line feed
HAS_LINE = 2  # of a text: a line that is suspect
BAD, NOT_NFC = 1, 2  # of a line: ftfy sees mojibake; it may be not in NFC
LONGEST_LINE = 1_000_000  # ftfy cuts longer ones (its max_decode_length): such a line is for it to judge

_HIGH = np.uint64(0x8080808080808080)
_TO_HIGH_ABOVE_ZERO = np.uint64(0x7F7F7F7F7F7F7F7F)  # added to bytes below 0x80: the high bit says that one is not 0
_TO_HIGH_FROM_SPACE = np.uint64(0x6060606060606060)  # that one is 0x20 or more
_TO_HIGH_AT_DEL = np.uint64(0x0101010101010101)  # that one is 0x7F
_LINE_FEEDS = np.uint64(0x0A0A0A0A0A0A0A0A)
_TABS = np.uint64(0x0909090909090909)
_BYTE = np.uint64(8)
_NONE = np.uint64(0)
_REPLACEMENT = np.int64(0xFFFD)


def scan_texts(data: Bytes, offsets: Int64s) -> Bytes:
    """Return HAS_CONTROL and HAS_LINE of each text, shape (texts,): 0 where repair changes nothing.

    Args:
        data: The bytes of all texts.
        offsets: Where each begins and the last one ends, shape (texts + 1,).
    """
    out = np.zeros(len(offsets) - 1, np.uint8)
    _scan_all(data, _words(data), offsets, out, badness.tables())
    return out


def suspect_lines(data: Bytes) -> tuple[int, Int64s]:
    """Return HAS_CONTROL and HAS_LINE of one text, and its suspect lines.

    Returns:
        The bits, and an array of shape (lines, 3): first byte, end (behind the line feed), BAD and NOT_NFC bits.
    """
    words, made, room = _words(data), badness.tables(), 64
    while True:
        lines = np.empty((room, 3), np.int64)
        flags, count = _scan(data, words, 0, len(data), lines, made)
        if count <= room:
            return flags, lines[:count]
        room = count


def _words(data: Bytes) -> Uint64s:
    """Return the same bytes as whole 64-bit words; the rest is left out."""
    whole = data[: len(data) & ~7]
    return (whole if whole.ctypes.data % 8 == 0 else whole.copy()).view(np.uint64)


@compiled
def _scan_all(data: Bytes, words: Uint64s, offsets: Int64s, out: Bytes, made: Tables) -> None:
    nothing = np.empty((0, 3), np.int64)
    for text in range(len(out)):
        out[text], _ = _scan(data, words, offsets[text], offsets[text + 1], nothing, made)


@compiled
def _skip_ascii(data: Bytes, words: Uint64s, i: int, stop: int, line: int) -> tuple[int, int]:
    """Return the first place at or after `i` with a byte outside ASCII or a control character, and where its line begins.

    Tabs are passed over, and line feeds but those of lines that may be too long.
    """
    limit = line + LONGEST_LINE
    while i < stop:
        if i & 7 == 0:
            while i + 8 <= stop:
                word = words[i >> 3]
                if word & _HIGH:
                    break
                feeds = ~((word ^ _LINE_FEEDS) + _TO_HIGH_ABOVE_ZERO) & _HIGH
                tabs = ~((word ^ _TABS) + _TO_HIGH_ABOVE_ZERO) & _HIGH
                controls = ~(word + _TO_HIGH_FROM_SPACE) & _HIGH & ~feeds & ~tabs
                if controls | ((word + _TO_HIGH_AT_DEL) & _HIGH):
                    break
                if feeds:
                    if i + 8 > limit:
                        break
                    line = i  # little-endian: the last byte of the text is the highest of the word
                    while feeds != _NONE:
                        feeds >>= _BYTE
                        line += 1
                    limit = line + LONGEST_LINE
                i += 8
            if i >= stop:
                break
        byte = data[i]
        if byte >= 0x7F or (byte < 0x20 and byte != 0x09):
            if byte != 0x0A or i >= limit:
                break
            line = i + 1
            limit = line + LONGEST_LINE
        i += 1
    return i, line


@compiled
def _decode(data: Bytes, i: int, stop: int) -> tuple[np.int64, int]:
    """Return the code point at `i` and the bytes it takes; U+FFFD for what is no UTF-8, so that nothing is missed."""
    byte = np.int64(data[i])
    if byte < 0x80:
        return byte, 1
    if byte < 0xE0:
        if byte < 0xC0 or i + 2 > stop:
            return _REPLACEMENT, 1
        return (byte & 0x1F) << 6 | (np.int64(data[i + 1]) & 0x3F), 2
    if byte < 0xF0:
        if i + 3 > stop:
            return _REPLACEMENT, 1
        return (byte & 0x0F) << 12 | (np.int64(data[i + 1]) & 0x3F) << 6 | (np.int64(data[i + 2]) & 0x3F), 3
    if i + 4 > stop:
        return _REPLACEMENT, 1
    code = (byte & 0x07) << 18 | (np.int64(data[i + 1]) & 0x3F) << 12
    code |= (np.int64(data[i + 2]) & 0x3F) << 6 | (np.int64(data[i + 3]) & 0x3F)
    return (code, 4) if code < 0x110000 else (_REPLACEMENT, 1)


@compiled
def _scan(
    data: Bytes,
    words: Uint64s,
    start: int,
    stop: int,
    lines: Int64s,
    made: Tables,
) -> tuple[int, int]:
    """Scan data[start:stop]; write as many suspect lines as there is room for; return the text's bits and the count.

    The automaton forgets what was before `memory` ASCII characters: so it need not run behind as many, and begins again
    as many before the next character outside ASCII.
    """
    flags = count = why = 0
    i = line = start
    state = np.int64(made.at_start)
    run = made.memory  # ASCII characters since the last other one
    last_class, composes = (
        np.int64(0),
        False,
    )  # combining class of the last character; whether the last starter composes
    while i < stop:
        if run >= made.memory:
            if why == 0:
                i, line = _skip_ascii(data, words, i, stop, line)
                if i >= stop:
                    break
            if data[i] < 0x80:
                state = np.int64(made.inside)  # nothing that has begun can end in what is skipped
            else:
                back = max(line, i - made.memory)
                run = back - i
                i = back
                state = np.int64(made.at_start if i == line else made.inside)
            last_class, composes = np.int64(0), False
        code, size = _decode(data, i, stop)
        i += size
        run = run + 1 if code < 0x80 else 0
        kind = made.classes[code]
        state = np.int64(made.steps[state + kind])
        properties = made.properties[kind]
        if properties == 0:
            last_class, composes = np.int64(0), False
        else:
            this_class = np.int64(properties) // CLASS_UNIT
            if properties & CONTROL:
                flags |= HAS_CONTROL
            if properties & NEVER_NFC or (properties & COMPOSES_BACK and composes) or 0 < this_class < last_class:
                why |= NOT_NFC
            last_class = this_class
            if this_class == 0:
                composes = properties & COMPOSES_ON != 0
        if code == 0x0D or code == 0x0C:
            flags |= HAS_CONTROL
        if state == made.accept:
            why |= BAD
        if code == 0x0A or i >= stop:
            if i - line > LONGEST_LINE:
                why |= BAD
            if why:
                if count < len(lines):
                    lines[count, 0], lines[count, 1], lines[count, 2] = line, i, why
                count += 1
                flags |= HAS_LINE
            line, why, state, run = i, 0, np.int64(made.at_start), made.memory
    if why or stop - line > LONGEST_LINE:
        why |= BAD if stop - line > LONGEST_LINE else 0
        if count < len(lines):
            lines[count, 0], lines[count, 1], lines[count, 2] = line, stop, why
        count += 1
        flags |= HAS_LINE
    return flags, count
