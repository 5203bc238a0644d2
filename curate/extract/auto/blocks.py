"""The running block and the stack of open elements: text goes in, rows of blocks and elements come out."""

from __future__ import annotations

import numpy as np

from curate.extract.auto import characters as ch
from curate.extract.auto import markup
from curate.extract.auto import state as st
from curate.extract.auto import tags as t
from curate.extract.auto.kernel import inlined_kernel, kernel
from curate.extract.auto.state import Bytes

_CLOSES_PARAGRAPH = t.CLOSES_PARAGRAPH
BUCKETS = np.uint64(t.NUM_CLASS_BUCKETS - 1)
_SEED_ROLE, _SEED_ITEMPROP = np.uint64(0x526F6C65), np.uint64(0x4974656D)  # so that words of these differ from classes
_MAX_CLASS_BYTES, _MAX_CLASS_WORDS = 300, 24


@kernel
def _hash_class_words(
    d: Bytes, start: int, end: int, seed: np.uint64, in_class: bool, first: int, b: st.Buffers
) -> None:
    """Add the buckets of the words of an attribute: runs of letters, split before a capital; no word twice in a tag."""
    s = b.state
    end = min(end, start + _MAX_CLASS_BYTES)
    h = seed
    letters = 0
    small = False
    for i in range(start, end + 1):
        c = int(d[i]) if i < end else ch.SPACE
        lower = c | 32
        is_letter = 97 <= lower <= 122
        if not is_letter or (c < 97 and small):
            if letters >= 2 and s[st.NUM_CLASSES] - first < _MAX_CLASS_WORDS:
                bucket = np.uint16((h >> ch.FORTY) & BUCKETS)
                known = False
                for k in range(first, s[st.NUM_CLASSES]):
                    known |= b.classes[k] == bucket
                if not known:
                    b.classes[s[st.NUM_CLASSES]] = bucket
                    s[st.NUM_CLASSES] += 1
                    if in_class:
                        s[st.ATTR_HASH] ^= np.int64(h * ch.GOLDEN)
            h = seed
            letters = 0
        if is_letter:
            h = (h ^ np.uint64(lower)) * ch.PRIME
            letters += 1
        small = is_letter and c >= 97


@inlined_kernel
def read_attributes(d: Bytes, i: int, n: int, first: int, b: st.Buffers) -> int:
    """Note what a tag's attributes say; `first` is its first class word, or -1 for a tag that keeps none.

    Returns:
        The place of the `>` that ends the tag, or n.
    """
    s = b.state
    s[st.ATTR_FLAGS :] = 0
    s[st.ATTR_NUMBER] = -1
    while i < n and d[i] != ch.GREATER:
        if d[i] <= ch.SPACE or d[i] == ch.SLASH:
            i += 1
            continue
        key, start, end, i = markup.skip_attribute(d, i, n)
        if key == markup.KEY_CLASS:
            for k in range(start, min(start + 8, end)):
                if d[k] <= ch.SPACE:
                    break
                s[st.ATTR_CLASS] = (s[st.ATTR_CLASS] << 8) | int(d[k])
            if first < 0 and b.elements[s[st.CURRENT], t.ELEMENT_PRE] != 0 and markup.is_line(d, start, end):
                s[st.ATTR_LINE] |= 1
            if first >= 0:
                _hash_class_words(d, start, end, ch.BASIS, True, first, b)
        elif key == markup.KEY_HREF:
            s[st.ATTR_HREF], s[st.ATTR_HREF_END] = start, end
        elif key == markup.KEY_STYLE:
            if markup.hides(d, start, end):
                s[st.ATTR_FLAGS] |= t.FLAG_HIDDEN_STYLE | t.FLAG_HIDDEN
            elif first < 0 and b.elements[s[st.CURRENT], t.ELEMENT_PRE] != 0 and markup.is_block_style(d, start, end):
                s[st.ATTR_LINE] |= 2
        elif key == markup.KEY_HIDDEN:
            if not (end - start == 11 and d[start] | 32 == 117):  # until-found
                s[st.ATTR_FLAGS] |= t.FLAG_HIDDEN_ATTRIBUTE | t.FLAG_HIDDEN
        elif key == markup.KEY_ARIA_HIDDEN:
            if end - start == 4 and d[start] | 32 == 116:  # true
                s[st.ATTR_FLAGS] |= t.FLAG_HIDDEN_ARIA | t.FLAG_HIDDEN
        elif key == markup.KEY_ALT or key == markup.KEY_ALTTEXT:
            s[st.ATTR_ALT], s[st.ATTR_ALT_END] = start, end
        elif key == markup.KEY_TYPE:
            s[st.ATTR_TYPE], s[st.ATTR_TYPE_END] = start, end
        elif key == markup.KEY_START or key == markup.KEY_VALUE:
            s[st.ATTR_NUMBER] = markup.read_number(d, start, end)
        elif key == markup.KEY_ROWSPAN:
            rows = markup.read_number(d, start, end)
            s[st.ATTR_ROWS] = -1 if rows == 0 else rows if rows > 1 else 0
        elif key == markup.KEY_COLSPAN:
            s[st.ATTR_COLUMNS] = max(markup.read_number(d, start, end), 0)
        elif key == markup.KEY_XMLNS:
            s[st.ATTR_XHTML] = int(end - start == 28 and d[end - 5] | 32 == 120)  # http://www.w3.org/1999/xhtml
        elif key == markup.KEY_DISPLAY:
            s[st.ATTR_DISPLAY] = int(end > start and d[start] | 32 == 98)  # block
        elif first >= 0:
            if key == markup.KEY_ID:
                _hash_class_words(d, start, end, ch.BASIS, False, first, b)
            elif key == markup.KEY_ROLE:
                _hash_class_words(d, start, end, ch.BASIS ^ _SEED_ROLE, False, first, b)
            elif key == markup.KEY_ITEMPROP:
                _hash_class_words(d, start, end, ch.BASIS ^ _SEED_ITEMPROP, False, first, b)
    return i


@inlined_kernel
def _end_word(b: st.Buffers) -> None:
    """End the running word, if there is one."""
    s = b.state
    if s[st.WORD_LETTERS] > 0:
        bucket = (np.uint64(s[st.WORD_HASH]) * ch.GOLDEN) >> ch.TOP_16
        b.words[s[st.NUM_WORDS]] = np.uint16(bucket)
        s[st.NUM_WORDS] += 1
        s[st.WORDS] += 1
        s[st.STOPS] += int(b.stops[np.int64(bucket)])
        s[st.LONG] += int(s[st.WORD_LETTERS] > 6)
        s[st.TEXT_HASH] = np.int64((np.uint64(s[st.TEXT_HASH]) ^ bucket) * ch.PRIME)
        s[st.WORD_LETTERS] = 0
    s[st.WORD_HASH] = 0


@inlined_kernel
def put_blank(cp: int, following: int, o: int, pre: bool, b: st.Buffers) -> int:
    """Write white space at o: as it is in pre, as one space elsewhere; return the place behind it."""
    s = b.state
    _end_word(b)
    if s[st.LAST_MARK] == 1:
        s[st.SENTENCES] += 1
        s[st.LAST_MARK] = 3
    start = s[st.START]
    if pre:
        if cp == ch.RETURN:
            if following == ch.NEWLINE:
                return o
            cp = ch.NEWLINE
        if cp != ch.NEWLINE and cp != ch.TAB and cp < 0x2000:
            cp = ch.SPACE
    elif cp == 0xA0 and s[st.CODE] > 0:
        cp = ch.SPACE
    elif cp < 0x2000:
        cp = ch.SPACE
        if o == start or b.out[o - 1] <= ch.SPACE:
            return o
    elif o == start:
        return o
    return ch.write(b.out, o, cp)


@kernel
def _put_character(cp: int, kind: int, o: int, b: st.Buffers) -> int:
    """Append a character other than white space to the block at o, and count it; return the place behind it."""
    s = b.state
    o = ch.write(b.out, o, cp)
    if kind == ch.INVISIBLE:
        return o
    s[st.CHARS] += 1
    s[st.LINK_CHARS] += s[st.LINK]
    s[st.LAST_MARK] = ch.MARKS[kind] if kind != ch.CLOSING else s[st.LAST_MARK]
    ends = kind == ch.HAN or kind == ch.SYLLABLE_MARK or kind == ch.FULL_MARK or (kind == ch.COMMA and cp > 127)
    if kind <= ch.DIGIT or kind == ch.DENSE or kind == ch.DENSER:
        if kind == ch.UPPER:
            s[st.UPPERS] += 1
            cp = ch.fold(cp)
        s[st.DIGITS] += int(kind == ch.DIGIT)
        s[st.WORD_LETTERS] += 1
        s[st.WORD_HASH] = np.int64((np.uint64(s[st.WORD_HASH]) ^ np.uint64(cp)) * ch.PRIME)
        if kind >= ch.DENSE and s[st.WORD_LETTERS] >= 4 + (kind - ch.DENSE):
            ends = True
            s[st.DENSE_WORDS] += 1
    elif kind == ch.COMMA:
        s[st.COMMAS] += 1
    elif kind == ch.FULL_MARK:
        s[st.SENTENCES] += 1
    if ends:
        _end_word(b)
    if kind == ch.HAN:
        s[st.HANS] += 1
        bucket = (np.uint64(cp) * ch.GOLDEN) >> ch.TOP_16
        b.words[s[st.NUM_WORDS]] = np.uint16(bucket)
        s[st.NUM_WORDS] += 1
        s[st.TEXT_HASH] = np.int64((np.uint64(s[st.TEXT_HASH]) ^ bucket) * ch.PRIME)
    return o


@kernel
def _put(cp: int, following: int, o: int, pre: bool, b: st.Buffers) -> int:
    """Append any character at o; return the place behind it."""
    kind = ch.classify(cp)
    if kind == ch.REFERENCE or kind == ch.MARKUP:
        kind = ch.SIGN
    if kind == ch.BLANK or kind == ch.WIDE_BLANK:
        return put_blank(cp, following, o, pre, b)
    return _put_character(cp, kind, o, b)


@kernel
def read_text(d: Bytes, i: int, end: int, mode: int, b: st.Buffers) -> int:
    """Append the text from i to `end` or the next `<` (if `mode` is AS_MARKUP) to the block; return where it stopped."""
    s, out = b.state, b.out
    o = s[st.OUT]
    pre = b.elements[s[st.CURRENT], t.ELEMENT_PRE] != 0
    if s[st.LINE_ENDS] != 0:
        s[st.LINE_ENDS] = 0
        k = i
        while d[k] == ch.SPACE or d[k] == ch.TAB:
            k += 1
        if d[k] != ch.NEWLINE and d[k] != ch.RETURN:
            o = put_blank(ch.NEWLINE, 0, o, pre, b)
    if s[st.HIDDEN_AT] == o and ch.CLASSES[d[i]] <= ch.DIGIT and ch.CLASSES[out[o - 1]] <= ch.DIGIT:
        o = put_blank(ch.SPACE, 0, o, pre, b)  # something not shown stood between two words
    chars = upper = digits = commas = 0
    mark, letters, h = s[st.LAST_MARK], s[st.WORD_LETTERS], np.uint64(s[st.WORD_HASH])
    while i < end:
        c = int(d[i])
        kind = int(ch.CLASSES[c])
        if kind <= ch.DIGIT:
            out[o] = c
            if kind == ch.UPPER:
                c |= 32
                upper += 1
            digits += int(kind == ch.DIGIT)
            h = (h ^ np.uint64(c)) * ch.PRIME
            letters += 1
            mark = 0
        elif kind <= ch.CLOSING:
            out[o] = c
            commas += int(kind == ch.COMMA)
            mark = int(ch.MARKS[kind]) if kind != ch.CLOSING else mark
        elif kind == ch.MARKUP and mode == st.AS_MARKUP:
            break
        elif kind == ch.BLANK:
            s[st.LAST_MARK], s[st.WORD_LETTERS], s[st.WORD_HASH] = mark, letters, np.int64(h)
            i += 1
            o = put_blank(c, int(d[i]), o, pre, b)
            while not pre and i < end and d[i] <= ch.SPACE:
                i += 1
            mark, letters, h = s[st.LAST_MARK], 0, np.uint64(0)
            continue
        else:
            s[st.LAST_MARK], s[st.WORD_LETTERS], s[st.WORD_HASH] = mark, letters, np.int64(h)
            i += 1
            if kind == ch.MULTIBYTE:
                i, c = ch.decode(d, i - 1)
                o = _put(c, 0, o, pre, b)
            elif kind == ch.REFERENCE and mode != st.AS_IS:
                i, c, second = ch.read_reference(d, i - 1, end)
                o = _put(c, 0, o, pre, b) if c > 0 else o
                o = _put(second, 0, o, pre, b) if second > 0 else o
            else:
                o = _put(c, 0, o, pre, b)
            mark, letters, h = s[st.LAST_MARK], s[st.WORD_LETTERS], np.uint64(s[st.WORD_HASH])
            continue
        o += 1
        i += 1
        chars += 1
    s[st.OUT], s[st.LAST_MARK], s[st.WORD_LETTERS], s[st.WORD_HASH] = o, mark, letters, np.int64(h)
    s[st.CHARS] += chars
    s[st.LINK_CHARS] += chars * s[st.LINK]
    s[st.UPPERS] += upper
    s[st.DIGITS] += digits
    s[st.COMMAS] += commas
    return i


@kernel
def put_tex(d: Bytes, start: int, end: int, mode: int, display: bool, b: st.Buffers) -> None:
    """Append TeX between dollars, without what Wikipedia wraps around it; the same as just before is left out."""
    s, out = b.state, b.out
    while start < end and d[start] <= ch.SPACE:
        start += 1
    while start < end and d[end - 1] <= ch.SPACE:
        end -= 1
    # {\displaystyle ...}
    wrapped = d[start] == ch.BRACE and d[start + 1] == ch.BACKSLASH and d[start + 2] == 100 and d[start + 9] == 115
    if (
        wrapped
        and end - start > 15
        and d[start + 13] == 101
        and d[start + 14] == ch.SPACE
        and d[end - 1] == ch.CLOSING_BRACE
    ):
        start, end = start + 15, end - 1
    h = ch.BASIS
    for i in range(start, end):
        if d[i] > ch.SPACE:
            h = (h ^ np.uint64(d[i])) * ch.PRIME
    chars = s[st.CHARS]
    if start >= end or (s[st.TEX_HASH] == np.int64(h) and s[st.TEX_END] == chars and chars > 0):
        return
    bare = d[start] != ch.DOLLAR and not (
        d[start] == ch.BACKSLASH and (d[start + 1] == 40 or d[start + 1] == ch.BRACKET)
    )
    dollars = (2 if display else 1) if bare else 0
    for _ in range(dollars):
        out[s[st.OUT]] = ch.DOLLAR
        s[st.OUT] += 1
    read_text(d, start, end, mode, b)
    while s[st.OUT] > s[st.START] and out[s[st.OUT] - 1] <= ch.SPACE:
        s[st.OUT] -= 1
    for _ in range(dollars):
        out[s[st.OUT]] = ch.DOLLAR
        s[st.OUT] += 1
    s[st.CHARS] += 2 * dollars
    s[st.TEX_HASH], s[st.TEX_END] = np.int64(h), s[st.CHARS]


@inlined_kernel
def start_block(b: st.Buffers) -> None:
    """Start a block where the text written ends."""
    s = b.state
    s[st.BLOCK_FIRST] = s[st.NUM_WORDS]
    s[st.WORDS : st.MUTE] = 0
    s[st.START] = s[st.OUT]
    s[st.LINKS] = s[st.LINK]
    s[st.WORD_HASH] = s[st.WORD_LETTERS] = 0
    s[st.TEX_END] = s[st.LINK_END] = s[st.HIDDEN_AT] = -1


@inlined_kernel
def end_block(b: st.Buffers) -> None:
    """Write the running block, if it holds text, and start the next."""
    s, out = b.state, b.out
    if s[st.CHARS] == 0:
        s[st.OUT] = s[st.START]
        if s[st.TAGS] | s[st.BREAKS] | s[st.LINKS] | s[st.NUM_WORDS] - s[st.BLOCK_FIRST]:
            start_block(b)
        return
    _end_word(b)
    start, end = s[st.START], s[st.OUT]
    while True:
        if out[end - 1] <= ch.SPACE:
            end -= 1
        elif end - start > 3 and out[end - 1] == 0x80 and out[end - 2] == 0x80 and out[end - 3] == 0xE3:
            end -= 3  # ideographic space
        else:
            break
    i = start
    while out[i] <= ch.SPACE:  # in pre alone: whole empty lines go, the indent stays
        if out[i] == ch.NEWLINE:
            start = i + 1
        i += 1
    row = b.blocks[s[st.NUM_BLOCKS]]
    row[t.BLOCK_ELEMENT] = s[st.CURRENT]
    row[t.BLOCK_TEXT_START] = start
    row[t.BLOCK_TEXT_END] = end
    row[t.BLOCK_WORDS] = s[st.WORDS] + (s[st.HANS] + 1) // 2
    row[t.BLOCK_CHARS] = s[st.CHARS]
    row[t.BLOCK_LINK_CHARS] = s[st.LINK_CHARS]
    row[t.BLOCK_COMMAS] = s[st.COMMAS]
    # Without spaces no stop word can be told from the rest: half of the words, as in other languages.
    row[t.BLOCK_STOP_WORDS] = s[st.STOPS] + s[st.HANS] // 4 + s[st.DENSE_WORDS] // 2
    row[t.BLOCK_UPPER] = s[st.UPPERS]
    row[t.BLOCK_DIGITS] = s[st.DIGITS]
    row[t.BLOCK_LINKS] = s[st.LINKS]
    row[t.BLOCK_HASH] = np.int64(np.uint64(s[st.TEXT_HASH]) >> ch.ONE)
    row[t.BLOCK_BREAKS] = s[st.BREAKS]
    row[t.BLOCK_FIRST_WORD] = s[st.BLOCK_FIRST]
    row[t.BLOCK_END_MARK] = 1 if s[st.LAST_MARK] == 3 else s[st.LAST_MARK]
    row[t.BLOCK_LONG_WORDS] = s[st.LONG]
    row[t.BLOCK_SENTENCES] = s[st.SENTENCES]
    row[t.BLOCK_INLINE_TAGS] = s[st.TAGS]
    s[st.NUM_BLOCKS] += 1
    s[st.OUT] = end
    start_block(b)


@kernel
def put_break(b: st.Buffers) -> None:
    """Break the line; a second break without text between ends the block, but not in pre."""
    s, out = b.state, b.out
    _end_word(b)
    pre = b.elements[s[st.CURRENT], t.ELEMENT_PRE] != 0
    if s[st.CHARS] == 0 and not pre:
        return
    s[st.LINE_ENDS] = 0
    while not pre and out[s[st.OUT] - 1] == ch.SPACE:
        s[st.OUT] -= 1
    if not pre and out[s[st.OUT] - 1] == ch.NEWLINE:
        end_block(b)
        return
    out[s[st.OUT]] = ch.NEWLINE
    s[st.OUT] += 1
    s[st.BREAKS] += 1


@kernel
def start_line(key: int, follows: bool, b: st.Buffers) -> None:
    """Heed the start of an inline element in pre that may be a line of code, or in one; `follows`: a code behind a code."""
    s = b.state
    inner = s[st.ATTR_LINE] != 0 and (s[st.LINE_KEY] == markup.KEY_CODE != key or s[st.ATTR_LINE] & 2)
    if s[st.LINE_DEPTH] > 0 and not inner:
        s[st.LINE_DEPTH] += int(key == s[st.LINE_KEY])
        return
    is_code = key == markup.KEY_CODE
    is_block = s[st.ATTR_LINE] & 2 != 0
    is_line = is_block or (s[st.ATTR_LINE] != 0 and (is_code or key == markup.KEY_SPAN))
    last = int(b.out[s[st.OUT] - 1]) if s[st.OUT] > s[st.START] else ch.NEWLINE
    breaks = (is_block and last != ch.NEWLINE) or (follows and last > ch.SPACE)  # not behind a prompt
    if (s[st.LINE_ENDS] != 0 and is_line) or breaks:
        s[st.LINE_ENDS] = 0
        s[st.OUT] = put_blank(ch.NEWLINE, 0, s[st.OUT], True, b)
    if is_line:
        s[st.LINE_DEPTH], s[st.LINE_KEY], s[st.LINE_START] = 1, key, s[st.OUT]


@kernel
def end_line(key: int, b: st.Buffers) -> None:
    """Heed the end of an inline element: that of a line of code ends the line, if no line feed in it did."""
    s = b.state
    if s[st.LINE_DEPTH] > 0 and key == s[st.LINE_KEY]:
        s[st.LINE_DEPTH] -= 1
        if s[st.LINE_DEPTH] == 0:
            ended = s[st.OUT] > s[st.LINE_START] and b.out[s[st.OUT] - 1] == ch.NEWLINE
            s[st.LINE_ENDS] = int(not ended)


@kernel
def put_sign(cp: int, b: st.Buffers) -> None:
    """Append a sign that stands for markup."""
    b.state[st.OUT] = _put_character(cp, ch.SIGN, b.state[st.OUT], b)


@kernel
def start_power(d: Bytes, i: int, n: int, b: st.Buffers) -> int:
    """Mark a sup whose content, at i, is an exponent: 10^23, m^2, x^(n+1). A number behind a word is a footnote's.

    Returns:
        Where to read on: white space before an exponent is left out.
    """
    s, out = b.state, b.out
    o = s[st.OUT]
    size, signed, compound = markup.read_power(d, i, n)
    if size == 0 or o == s[st.START]:
        return i
    last = int(out[o - 1])
    letters = 0
    while letters < 5 and o - letters > s[st.START] and markup.is_letter(int(out[o - letters - 1])):
        letters += 1
    before = o - letters - 2  # the last character of two bytes
    wide = int(out[before]) if before >= s[st.START] and out[before + 1] >= 128 else 0
    if letters > 0 and 0xC3 <= wide <= 0xC9 and out[before + 1] != 0x97:  # a Latin letter, no multiplication sign
        letters = 5
    greek = letters == 0 and 0xCE <= wide <= 0xCF and (before < s[st.START] + 2 or not 0xCE <= out[before - 2] <= 0xCF)
    function = False
    if letters == 3:
        name = (int(out[o - 3]) << 16) | (int(out[o - 2]) << 8) | last
        for k in range(len(markup.FUNCTIONS)):
            function |= name == markup.FUNCTIONS[k]
    if (
        48 <= last <= 57
        or (letters > 0 and letters <= (4 if signed else 2))
        or greek
        or function
        or last == 41  # closing brackets
        or last == 93
        or last == ch.CLOSING_BRACE
    ):
        put_sign(ch.CARET, b)
        if compound:
            put_sign(40, b)
            s[st.POWER] = 1
        while d[i] <= ch.SPACE and i < n:
            i += 1
    return i


@kernel
def end_power(b: st.Buffers) -> None:
    """Close the brackets around an exponent."""
    if b.state[st.POWER] != 0:
        b.state[st.POWER] = 0
        put_sign(41, b)


@inlined_kernel
def pop_to(level: int, b: st.Buffers) -> None:
    """Close open elements until `level` of them are left."""
    s = b.state
    while s[st.LEVEL] > level:
        place = s[st.LEVEL] - 1
        b.open[b.elements[b.stack[place], t.ELEMENT_TAG]] = b.before[place]
        s[st.LEVEL] = place
        s[st.WORK] += 1
    s[st.CURRENT] = b.stack[level - 1] if level > 0 else 0
    if s[st.MUTE] != st.UNMUTED and level < s[st.MUTE_LEVEL]:
        s[st.MUTE] = st.UNMUTED


@inlined_kernel
def innermost(b: st.Buffers, first: int, second: int, third: int) -> int:
    """Return the place of the innermost open element of three tags, or -1."""
    return int(max(b.open[first], b.open[second], b.open[third]))


@inlined_kernel
def close_implied(tag: int, b: st.Buffers) -> None:
    """Close what the start of a block-level element closes."""
    o = b.open
    table = innermost(b, t.TABLE, t.TD, t.TH)
    wall = max(table, o[t.BUTTON], o[t.CAPTION])
    level = -1
    if _CLOSES_PARAGRAPH[tag] and o[t.P] > wall:
        level = o[t.P]
    if t.H1 <= tag <= t.H6:
        top = b.state[st.LEVEL] - 1
        if top >= 0 and t.H1 <= b.elements[b.stack[top], t.ELEMENT_TAG] <= t.H6:
            level = top
    elif tag == t.LI:
        if o[t.LI] > max(innermost(b, t.UL, t.OL, t.MENU), table):
            level = o[t.LI]
    elif tag == t.DT or tag == t.DD:
        item = max(o[t.DT], o[t.DD])
        if item > max(o[t.DL], table):
            level = item
    elif tag == t.TR or tag == t.TD or tag == t.TH or tag == t.TBODY or tag == t.THEAD or tag == t.TFOOT:
        outer = o[t.TABLE]
        cell = max(o[t.TD], o[t.TH])
        row = o[t.TR]
        part = innermost(b, t.TBODY, t.THEAD, t.TFOOT)
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
        pop_to(level, b)


@inlined_kernel
def push(tag: int, first: int, b: st.Buffers) -> None:
    """Open an element; what the last tag's attributes say is its own."""
    s, elements = b.state, b.elements
    place, parent, e = s[st.LEVEL], s[st.CURRENT], s[st.NUM_ELEMENTS]
    above, row = elements[parent], elements[e]
    for column in range(t.ELEMENT_KIDS, t.ELEMENT_LIST):
        row[column] = 0
    for column in range(t.ELEMENT_LIST, t.ELEMENT_ROWS):
        row[column] = above[column]
    row[t.ELEMENT_ROWS] = row[t.ELEMENT_COLUMNS] = 0
    row[t.ELEMENT_PARENT] = parent
    row[t.ELEMENT_TAG] = tag
    row[t.ELEMENT_DEPTH] = place + 1
    row[t.ELEMENT_CLASS_START], row[t.ELEMENT_CLASS_END] = first, s[st.NUM_CLASSES]
    muted = t.FLAG_DROPPED if s[st.MUTE] != st.UNMUTED else 0
    row[t.ELEMENT_FLAGS] = s[st.ATTR_FLAGS] | muted | (above[t.ELEMENT_FLAGS] & ~t.FLAG_DROPPED)
    own = np.uint64(s[st.ATTR_HASH])
    path = (np.uint64(above[t.ELEMENT_SIGNATURE]) * ch.PRIME) ^ (np.uint64(tag + 1) * ch.GOLDEN) ^ own
    row[t.ELEMENT_SIGNATURE] = np.int64(path >> ch.ONE)
    row[t.ELEMENT_CLASS_HASH] = np.int64(own >> ch.ONE)
    row[t.ELEMENT_KID] = above[t.ELEMENT_KIDS]
    above[t.ELEMENT_KIDS] += 1
    if tag == t.UL or tag == t.OL or tag == t.MENU or tag == t.DL:
        row[t.ELEMENT_LIST] = e
        row[t.ELEMENT_LIST_DEPTH] += 1
        row[t.ELEMENT_ORDINAL] = max(s[st.ATTR_NUMBER], 1) - 1 if s[st.ATTR_NUMBER] >= 0 else 0
    elif tag == t.LI or tag == t.DT or tag == t.DD:
        row[t.ELEMENT_ITEM] = e
        counter = elements[above[t.ELEMENT_LIST]]
        counter[t.ELEMENT_ORDINAL] = s[st.ATTR_NUMBER] if s[st.ATTR_NUMBER] >= 0 else counter[t.ELEMENT_ORDINAL] + 1
        row[t.ELEMENT_ORDINAL] = counter[t.ELEMENT_ORDINAL]
    elif tag == t.TR:
        row[t.ELEMENT_ROW] = e
    elif tag == t.TD or tag == t.TH:
        row[t.ELEMENT_CELL] = e
        row[t.ELEMENT_ROWS], row[t.ELEMENT_COLUMNS] = s[st.ATTR_ROWS], s[st.ATTR_COLUMNS]
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
    s[st.LEVEL], s[st.CURRENT], s[st.NUM_ELEMENTS] = place + 1, e, e + 1


@kernel
def mute(why: int, key: int, level: int, b: st.Buffers) -> None:
    """Leave text out until the end of the element with this name, or until fewer than `level` elements are open."""
    s = b.state
    s[st.MUTE], s[st.MUTE_KEY], s[st.MUTE_COUNT], s[st.MUTE_LEVEL], s[st.FOREIGN] = why, key, 1, level, 0
