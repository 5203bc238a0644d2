"""Bytes of a page to blocks of text: one pass, no tree, no limit on depth, time linear in the bytes.

    scanner = Scanner(stop_table(words))     # one a process: it keeps its working memory
    page = scanner(html)                     # a decoded page
    page.blocks[:, tags.BLOCK_WORDS]         # columns: curate.extract.auto.tags
    page.block_text(3)

Markup is read as the HTML standard's tokeniser reads it. No tree is built: there is a stack of the open block-level
elements, with the implied end tags that matter for text (p, li, dt, dd, headings, rows, cells). Character references are
decoded here, so that every count and hash is of what a reader sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from curate.extract.auto import blocks as bl
from curate.extract.auto import characters as ch
from curate.extract.auto import markup
from curate.extract.auto import state as st
from curate.extract.auto import tags as t
from curate.extract.auto.kernel import cached_kernel, inlined_kernel, kernel, source_stamp
from curate.extract.auto.state import Bytes, Flags, Int64s, Uint16s

_RAW_SLOTS = 23  # the keys of the raw elements leave a different remainder each


@kernel
def _is_custom(d: Bytes, name: int, end: int, b: st.Buffers) -> bool:
    """Say whether the name is that of a custom element that stands as a block: not in a paragraph or heading."""
    dash = False
    for i in range(name, end):
        dash |= d[i] == ch.DASH
    if not dash or (d[name] | 32 == 109 and d[name + 1] | 32 == 106 and d[name + 2] | 32 == 120):  # mjx-: MathJax
        return False
    o = b.open
    inside = o[t.P] if o[t.P] > max(bl.innermost(b, t.TABLE, t.TD, t.TH), o[t.BUTTON], o[t.CAPTION]) else -1
    for heading in range(t.H1, t.H6 + 1):
        inside = max(inside, o[heading])
    return bool(inside <= o[t.CUSTOM])


@kernel
def _put_gap(b: st.Buffers) -> None:
    """Part the words before and behind something that is no text."""
    if b.state[st.MUTE] == st.UNMUTED and b.elements[b.state[st.CURRENT], t.ELEMENT_PRE] == 0:
        b.state[st.OUT] = bl.put_blank(ch.SPACE, 0, b.state[st.OUT], False, b)


@kernel
def _closes_itself(d: Bytes, tag_end: int, name_end: int) -> bool:
    """Say whether the tag that ends at tag_end ends in a slash that is not the end of an unquoted value."""
    before = d[tag_end - 2]
    return bool(
        d[tag_end - 1] == ch.SLASH
        and (tag_end - 1 == name_end or before <= ch.SPACE or before == ch.QUOTE or before == ch.APOSTROPHE)
    )


@kernel
def _read_raw(d: Bytes, i: int, name_end: int, n: int, kind: int, tag: int, key: int, b: st.Buffers) -> int:
    """Read the element at i whose content is no markup: skip it, or show it, or take the TeX out of it."""
    s = b.state
    first = s[st.NUM_CLASSES]
    tag_end = bl.read_attributes(d, name_end, n, first, b)
    start = min(tag_end + 1, n)
    self_closed = _closes_itself(d, tag_end, name_end)
    unclosed = 1 << (key % _RAW_SLOTS)
    if self_closed and (s[st.IS_XML] | s[st.IS_XHTML] or s[st.UNCLOSED] & unclosed):
        s[st.NUM_CLASSES] = first
        return start
    if key == markup.KEY_SCRIPT:
        end = markup.find_script_end(d, start, n, i + 1, name_end)
    else:
        end = markup.find_end_tag(d, start, n, i + 1, name_end)
    s[st.WORK] += end - start
    if self_closed and end >= n:  # the standard takes the rest of the page for its content; that helps nobody
        s[st.UNCLOSED] |= unclosed
        s[st.NUM_CLASSES] = first
        return start
    behind = min(markup.skip_attributes(d, end + 2 + name_end - i - 1, n) + 1, n)
    second_title = tag == t.TITLE and s[st.TITLE_SEEN]
    s[st.TITLE_SEEN] |= int(tag == t.TITLE)
    if s[st.MUTE] != st.UNMUTED or kind != t.KIND_RAW_SHOWN or second_title:
        s[st.NUM_CLASSES] = first
        a = s[st.ATTR_TYPE]
        is_math = d[a] | 32 == 109 and d[a + 1] | 32 == 97 and d[a + 4] == ch.SLASH and d[a + 5] | 32 == 116
        if (
            key == markup.KEY_SCRIPT
            and s[st.MUTE] == st.UNMUTED
            and s[st.ATTR_TYPE_END] - a >= 8
            and is_math
            and d[a + 7] | 32 == 120
        ):
            display = s[st.ATTR_TYPE_END] - a > 8 and d[s[st.ATTR_TYPE_END] - 1] | 32 == 121  # math/tex; mode=display
            bl.put_tex(d, start, end, st.AS_IS, display, b)
        return behind
    bl.end_block(b)
    level = s[st.LEVEL]
    bl.push(tag, first, b)
    bl.read_text(d, start, end, st.AS_TEXT if tag == t.TITLE else st.AS_IS, b)
    bl.end_block(b)
    bl.pop_to(level, b)
    return behind


@kernel
def _read_math(d: Bytes, i: int, name_end: int, n: int, b: st.Buffers) -> int:
    """Read the start of MathML at i: the whole of it, if it says what it is in TeX; else only the tag."""
    s = b.state
    tag_end = bl.read_attributes(d, name_end, n, -1, b)
    start = min(tag_end + 1, n)
    alt, alt_end, display = s[st.ATTR_ALT], s[st.ATTR_ALT_END], s[st.ATTR_DISPLAY] == 1
    if d[tag_end - 1] == ch.SLASH or i < s[st.MATH_SEEN]:
        return start
    end = markup.find_end_tag(d, start, n, i + 1, name_end)
    s[st.MATH_SEEN] = end
    s[st.WORK] += 2 * (end - start)
    tex, tex_end = markup.find_annotation(d, start, end)
    if tex == 0 and alt_end > alt:
        tex, tex_end = alt, alt_end
    if end >= n or tex == 0:
        return start
    if s[st.MUTE] == st.UNMUTED or s[st.MUTE] == st.MUTE_INLINE:  # often hidden in favour of a picture of it
        bl.put_tex(d, tex, tex_end, st.AS_TEXT, display, b)
    return min(markup.skip_attributes(d, end + 6, n) + 1, n)


@kernel
def _put_image(d: Bytes, b: st.Buffers) -> None:
    """Append the alternative text of an image of a formula; part the words around any other."""
    s = b.state
    start, end, css = s[st.ATTR_ALT], s[st.ATTR_ALT_END], s[st.ATTR_CLASS]
    is_tex = (
        css == markup.CLASS_TEX
        or css == markup.CLASS_LATEX
        or css == markup.CLASS_MATH
        or css == markup.CLASS_WIKI_MATH
    )
    if not is_tex:
        command = brace = False
        for i in range(start, min(end, start + 1000)):
            command |= d[i] == ch.BACKSLASH and markup.is_letter(int(d[i + 1]))
            brace |= d[i] == ch.BRACE or d[i] == ch.CARET or d[i] == ch.UNDERSCORE
        is_tex = command and brace
    if is_tex and end > start:
        if s[st.MUTE] == st.UNMUTED:
            bl.put_tex(d, start, end, st.AS_TEXT, False, b)
    else:
        _put_gap(b)


@inlined_kernel
def _start_block_tag(d: Bytes, name: int, name_end: int, n: int, tag: int, b: st.Buffers) -> int:
    """Open the block-level element whose start tag has its name at d[name:name_end]; return the place behind the tag."""
    s = b.state
    first = s[st.NUM_CLASSES]
    h = ch.BASIS
    if tag == t.CUSTOM:
        for i in range(name, name_end):
            h = (h ^ np.uint64(markup.lower(int(d[i])))) * ch.PRIME
        b.classes[first] = np.uint16((h >> ch.FORTY) & bl.BUCKETS)
        s[st.NUM_CLASSES] += 1
    i = min(bl.read_attributes(d, name_end, n, first, b) + 1, n)
    if tag == t.CUSTOM:
        s[st.ATTR_HASH] ^= np.int64(h)
    bl.end_block(b)
    if tag == t.BODY:
        s[st.ATTR_FLAGS] = 0  # pages hide it until their scripts run
        if b.open[t.BODY] >= 0:
            return i
    if s[st.MUTE] == st.MUTE_RUBY:
        s[st.MUTE] = st.UNMUTED
    bl.close_implied(tag, b)
    bl.push(tag, first, b)
    if s[st.MUTE] == st.UNMUTED and s[st.ATTR_CLASS] != 0:
        css = s[st.ATTR_CLASS]
        numbers = False
        for k in range(len(markup.CLASS_LINE_NUMBERS)):
            numbers |= css == markup.CLASS_LINE_NUMBERS[k] and (k < markup.NUMBERS_ANYWHERE or tag == t.TD)
        if numbers or (
            tag != t.CUSTOM
            and (css == markup.CLASS_MATHJAX or css == markup.CLASS_MATHJAX_PART or css == markup.CLASS_MJX)
        ):
            bl.mute(st.MUTE_BLOCK, 0, s[st.LEVEL], b)
    return i


@kernel
def _same_link(d: Bytes, b: st.Buffers) -> bool:
    """Say whether the link that begins leads where the last one led."""
    s = b.state
    start, last = s[st.ATTR_HREF], s[st.LINK_HREF]
    size = s[st.ATTR_HREF_END] - start
    if size != s[st.LINK_HREF_END] - last:
        return False
    for k in range(size):  # noqa: SIM110  compiled: no generators
        if d[start + k] != d[last + k]:
            return False
    return True


@inlined_kernel
def _start_inline_tag(d: Bytes, name: int, name_end: int, n: int, kind: int, key: int, b: st.Buffers) -> int:
    """Heed the start tag of an inline element; return the place behind it."""
    s = b.state
    end = name_end if d[name_end] == ch.GREATER else n
    if end == n:
        end = bl.read_attributes(d, name_end, n, -1, b)
    else:
        s[st.ATTR_FLAGS :] = 0
    if key == markup.KEY_HTML and s[st.ATTR_XHTML]:
        s[st.IS_XHTML] = 1
    if s[st.MUTE] != st.UNMUTED:
        return min(end + 1, n)
    css = s[st.ATTR_CLASS]
    mathjax = css == markup.CLASS_MATHJAX or css == markup.CLASS_MATHJAX_PART or css == markup.CLASS_MJX
    numbers = False
    if css != 0 and b.elements[s[st.CURRENT], t.ELEMENT_PRE] != 0:
        for k in range(len(markup.CLASS_LINE_NUMBERS)):
            numbers |= css == markup.CLASS_LINE_NUMBERS[k]
    if s[st.ATTR_FLAGS] & t.FLAG_HIDDEN:
        bl.mute(st.MUTE_INLINE, key, s[st.LEVEL], b)
        s[st.HIDDEN_AT] = s[st.OUT] if s[st.CHARS] > 0 else -1
    elif numbers or (mathjax and d[name + 3] != ch.DASH):  # but not mjx-container
        bl.mute(st.MUTE_DROPPED, key, s[st.LEVEL], b)
    elif b.elements[s[st.CURRENT], t.ELEMENT_PRE] != 0:
        follows = key == markup.KEY_CODE and name > 7 and d[name - 7] == ch.SLASH and d[name - 8] == ch.LESS
        bl.start_line(key, follows and d[name - 6] | 32 == 99 and s[st.CODE] == 0, b)
    if key == markup.KEY_SUP and s[st.MUTE] == st.UNMUTED:
        end = bl.start_power(d, min(end + 1, n), n, b) - 1
    elif key == markup.KEY_MSQRT and s[st.MUTE] == st.UNMUTED:
        bl.put_sign(0x221A, b)
    elif key == markup.KEY_MFRAC or key == markup.KEY_MSUP:
        sign = ch.SLASH if key == markup.KEY_MFRAC else ch.CARET
        s[st.MATH_SIGN] = sign if markup.holds_two_names(d, min(end + 1, n), n) else 0
    s[st.TAGS] += 1
    if kind == t.KIND_LINK:
        if s[st.LINK_END] == s[st.OUT] and s[st.ATTR_HREF] > 0 and not _same_link(d, b):
            _put_gap(b)  # two links side by side are no word
        s[st.LINK] = int(s[st.ATTR_HREF] > 0)
        s[st.LINKS] += s[st.LINK]
        s[st.LINK_HREF], s[st.LINK_HREF_END] = s[st.ATTR_HREF], s[st.ATTR_HREF_END]
    elif kind == t.KIND_CODE:
        s[st.CODE] += 1
    return min(end + 1, n)


@kernel
def _start_muted_tag(kind: int, key: int, b: st.Buffers) -> bool:
    """Heed a start tag where text is left out; say whether that is all there is to do."""
    s = b.state
    if key == s[st.MUTE_KEY]:
        if key == markup.KEY_SELECT or kind == t.KIND_LINK:  # these do not nest
            s[st.MUTE] = st.UNMUTED
            return False
        s[st.MUTE_COUNT] += 1
        return True
    if s[st.MUTE] == st.MUTE_TEMPLATE:
        return kind != t.KIND_RAW and kind != t.KIND_RAW_SHOWN
    if s[st.MUTE] == st.MUTE_DROPPED and s[st.MUTE_KEY] == markup.KEY_SVG:
        s[st.FOREIGN] += int(key == markup.KEY_FOREIGN)
        if kind != t.KIND_BLOCK or s[st.FOREIGN] > 0:
            return True
        s[st.MUTE] = st.UNMUTED  # a block-level element ends an svg that was left open
        return False
    if s[st.MUTE] == st.MUTE_RUBY:
        if key == markup.KEY_RB or key == markup.KEY_RTC:
            s[st.MUTE] = st.UNMUTED
        return kind == t.KIND_RUBY
    return False


@inlined_kernel
def _start_tag(d: Bytes, i: int, n: int, b: st.Buffers) -> int:
    """Heed the start tag at i; return the place behind it, or behind the element if its content is no markup."""
    s = b.state
    key, name_end = markup.read_name(d, i + 1)
    kind, tag = markup.look_up(key)
    if s[st.MUTE] != st.UNMUTED and _start_muted_tag(kind, key, b):
        return min(markup.skip_attributes(d, name_end, n) + 1, n)
    if kind == t.KIND_INLINE and name_end - i > 3 and _is_custom(d, i + 1, name_end, b):
        kind, tag = t.KIND_BLOCK, t.CUSTOM
    if kind == t.KIND_BLOCK:
        return _start_block_tag(d, i + 1, name_end, n, tag, b)
    if kind == t.KIND_INLINE or kind == t.KIND_LINK or kind == t.KIND_CODE:
        return _start_inline_tag(d, i + 1, name_end, n, kind, key, b)
    if kind == t.KIND_RAW or kind == t.KIND_RAW_SHOWN:
        return _read_raw(d, i, name_end, n, kind, tag, key, b)
    if kind == t.KIND_MATH:
        return _read_math(d, i, name_end, n, b)
    end = bl.read_attributes(d, name_end, n, -1, b)
    if kind == t.KIND_RULE:
        bl.end_block(b)
    elif kind == t.KIND_BREAK:
        if s[st.MUTE] == st.UNMUTED:
            bl.put_break(b)
    elif kind == t.KIND_GAP:
        if key == markup.KEY_IMG:
            _put_image(d, b)
        else:
            _put_gap(b)
    elif s[st.MUTE] == st.UNMUTED and kind != t.KIND_VOID:
        if kind == t.KIND_RUBY:
            bl.mute(st.MUTE_RUBY, key, s[st.LEVEL], b)
        elif d[end - 1] != ch.SLASH or not (key == markup.KEY_SVG or s[st.IS_XML] | s[st.IS_XHTML]):
            if key != markup.KEY_ANNOTATION:
                _put_gap(b)
            why = st.MUTE_TEMPLATE if kind == t.KIND_TEMPLATE else st.MUTE_DROPPED
            bl.mute(why, key, 0 if why == st.MUTE_TEMPLATE else s[st.LEVEL], b)
    return min(end + 1, n)


@kernel
def _end_muted_tag(kind: int, key: int, b: st.Buffers) -> bool:
    """Heed an end tag where text is left out; say whether that is all there is to do."""
    s = b.state
    if key == s[st.MUTE_KEY]:
        s[st.MUTE_COUNT] -= 1
        if s[st.MUTE_COUNT] <= 0:
            s[st.MUTE] = st.UNMUTED
        return kind != t.KIND_CODE
    if s[st.MUTE] == st.MUTE_TEMPLATE:
        return True
    if s[st.MUTE] == st.MUTE_DROPPED and s[st.MUTE_KEY] == markup.KEY_SVG:
        s[st.FOREIGN] -= int(key == markup.KEY_FOREIGN and s[st.FOREIGN] > 0)
        return kind != t.KIND_BLOCK or s[st.FOREIGN] > 0
    if s[st.MUTE] == st.MUTE_RUBY and (key == markup.KEY_RUBY or kind == t.KIND_RUBY):
        s[st.MUTE] = st.UNMUTED
        return True
    return False


@inlined_kernel
def _end_tag(d: Bytes, i: int, n: int, b: st.Buffers) -> int:
    """Heed the end tag at i; return the place behind it."""
    s, o = b.state, b.open
    key, name_end = markup.read_name(d, i + 2)
    behind = name_end + 1 if d[name_end] == ch.GREATER else min(markup.skip_attributes(d, name_end, n) + 1, n)
    kind, tag = markup.look_up(key)
    if s[st.MUTE] != st.UNMUTED and _end_muted_tag(kind, key, b):
        return behind
    if s[st.LINE_DEPTH] > 0:
        bl.end_line(key, b)
    if key == markup.KEY_SUP:
        bl.end_power(b)
    elif s[st.MATH_SIGN] != 0 and (key == markup.KEY_MI or key == markup.KEY_MN):
        bl.put_sign(s[st.MATH_SIGN], b)
        s[st.MATH_SIGN] = 0
        while behind < n and d[behind] <= ch.SPACE:
            behind += 1
    if kind == t.KIND_LINK:
        s[st.LINK] = 0
        s[st.LINK_END] = s[st.OUT] if s[st.CHARS] > 0 else -1
    elif kind == t.KIND_CODE:
        s[st.CODE] = max(s[st.CODE] - 1, 0)
    elif kind == t.KIND_BREAK and s[st.MUTE] == st.UNMUTED:
        bl.put_break(b)
    elif kind == t.KIND_INLINE and name_end - i > 4 and o[t.CUSTOM] >= 0 and _is_custom(d, i + 2, name_end, b):
        kind, tag = t.KIND_BLOCK, t.CUSTOM
    if kind != t.KIND_BLOCK:
        return behind
    bl.end_block(b)
    place = o[tag]
    if t.H1 <= tag <= t.H6:  # any heading ends any
        for heading in range(t.H1, t.H6 + 1):
            place = max(place, o[heading])
    wall = bl.innermost(b, t.TABLE, t.TD, t.TH)
    if tag == t.TABLE:
        wall = -1
    elif tag == t.TR or tag == t.TBODY or tag == t.THEAD or tag == t.TFOOT:
        wall = o[t.TABLE]
    if place >= 0 and place >= wall and tag != t.BODY:
        bl.pop_to(place, b)
    return behind


@kernel
def _sum_up(b: st.Buffers) -> None:
    """Write the totals of all elements, children before their parents."""
    s, elements = b.state, b.elements
    for k in range(s[st.NUM_BLOCKS]):
        block = b.blocks[k]
        element = elements[block[t.BLOCK_ELEMENT]]
        element[t.ELEMENT_WORDS] += block[t.BLOCK_WORDS]
        element[t.ELEMENT_LINK_CHARS] += block[t.BLOCK_LINK_CHARS]
        element[t.ELEMENT_CHARS] += block[t.BLOCK_CHARS]
        element[t.ELEMENT_COMMAS] += block[t.BLOCK_COMMAS]
        element[t.ELEMENT_BLOCKS] += 1
        if block[t.BLOCK_LINK_CHARS] * 2 < block[t.BLOCK_CHARS] and block[t.BLOCK_WORDS] >= 10:
            element[t.ELEMENT_PROSE_WORDS] += block[t.BLOCK_WORDS]
    for e in range(s[st.NUM_ELEMENTS] - 1, 0, -1):
        parent, element = elements[elements[e, t.ELEMENT_PARENT]], elements[e]
        for column in range(t.ELEMENT_WORDS, t.ELEMENT_CLASS_HASH):
            parent[column] += element[column]


@kernel
def _start(d: Bytes, b: st.Buffers) -> None:
    s = b.state
    s[:] = 0
    s[st.IS_XML] = int(d[0] == ch.LESS and d[1] == 63 and d[2] | 32 == 120)
    b.open[:] = -1
    b.elements[0] = 0
    b.elements[0, t.ELEMENT_PARENT] = -1
    s[st.NUM_ELEMENTS] = 1
    bl.start_block(b)


@kernel
def _read_declaration(d: Bytes, i: int, n: int, b: st.Buffers) -> int:
    """Heed the `<` at i, which begins no tag; return the place behind what it begins."""
    s = b.state
    c = int(d[i + 1])
    if c == ch.BANG and s[st.IS_XML] and d[i + 2] == ch.BRACKET and d[i + 8] == ch.BRACKET:  # <![CDATA[
        end = i + 9
        while end < n and not (d[end] == 93 and d[end + 1] == 93 and d[end + 2] == ch.GREATER):
            end += 1
        if s[st.MUTE] == st.UNMUTED:
            bl.read_text(d, i + 9, end, st.AS_IS, b)
        return min(end + 3, n)
    if c == ch.BANG:
        return min(markup.skip_declaration(d, i, n), n)
    if c == 63 or (c == ch.SLASH and i + 2 < n):  # a question mark
        return min(markup.find(d, i, n, ch.GREATER) + 1, n)
    if s[st.MUTE] == st.UNMUTED:
        return bl.read_text(d, i, i + 1, st.AS_IS, b)
    return i + 1


def _compile_scan(stamp: int) -> Callable[[Bytes, int, st.Buffers], None]:
    def scan(d: Bytes, n: int, b: st.Buffers) -> None:
        """Read the page d[:n]; d has PADDING zero bytes more."""
        s = b.state
        _start(d, b)
        s[st.STAMP] = stamp
        i = 0
        while i < n:
            if d[i] == ch.LESS:
                if markup.is_letter(d[i + 1]):
                    i = _start_tag(d, i, n, b)
                elif d[i + 1] == ch.SLASH and markup.is_letter(d[i + 2]):
                    i = _end_tag(d, i, n, b)
                else:
                    i = _read_declaration(d, i, n, b)
            elif s[st.MUTE] != st.UNMUTED:
                i = markup.find(d, i, n, ch.LESS)
            elif d[i] <= ch.SPACE and b.elements[s[st.CURRENT], t.ELEMENT_PRE] == 0:
                while i < n and d[i] <= ch.SPACE:
                    i += 1
                if s[st.CHARS] > 0:
                    s[st.OUT] = bl.put_blank(ch.SPACE, 0, s[st.OUT], False, b)
            else:
                i = bl.read_text(d, i, n, st.AS_MARKUP, b)
        bl.end_block(b)
        _sum_up(b)

    return cached_kernel(scan)


_scan = _compile_scan(source_stamp())


def word_hash(word: str) -> int:
    """Return the bucket of a word in Page.words and in the stop table: of its letters and digits, in small letters."""
    h = 0
    for character in word.lower():
        kind = ch.classify(ord(character))
        if kind in (ch.LETTER, ch.UPPER, ch.DIGIT, ch.DENSE, ch.DENSER):
            h = ((h ^ ord(character)) * int(ch.PRIME)) % (1 << 64)
    return (h * int(ch.GOLDEN)) % (1 << 64) >> 48


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
        source: The page as it was scanned, UTF-8.
        work: Bytes looked at beyond the first time, plus elements closed; at most three times the bytes of the page.
            (Once more for each kind of raw element that closes itself and has no end tag.)
    """

    elements: Int64s
    blocks: Int64s
    class_words: Uint16s
    words: Uint16s
    text: bytes
    source: bytes
    work: int

    def block_text(self, block: int) -> str:
        """Return the text of a block."""
        start, end = self.blocks[block, t.BLOCK_TEXT_START], self.blocks[block, t.BLOCK_TEXT_END]
        return self.text[start:end].decode("utf-8", "replace")


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
        self._page = np.zeros(0, np.uint8)
        self._buffers: st.Buffers | None = None

    def _room(self, num_bytes: int, num_tags: int) -> tuple[Bytes, st.Buffers]:
        """Return arrays for a page of so many bytes and `<`, and room for the page itself."""
        buffers, page = self._buffers, self._page
        if buffers is None or num_bytes > self._num_bytes or num_tags > self._num_tags:
            num_bytes, num_tags = max(num_bytes * 5 // 4, 1 << 18), max(num_tags * 5 // 4, 1 << 13)
            page = np.empty(num_bytes + ch.PADDING, np.uint8)
            buffers = st.Buffers(
                state=np.zeros(st.NUM_STATES, np.int64),
                # Two references are longer decoded (6 bytes for 5); TeX gets dollars, at most 4 for a tag.
                out=np.empty(num_bytes * 6 // 5 + 5 * num_tags + 64, np.uint8),
                elements=np.empty((num_tags + 2, t.NUM_ELEMENT_COLUMNS), np.int64),
                blocks=np.empty((num_tags + 2, t.NUM_BLOCK_COLUMNS), np.int64),
                classes=np.empty(num_bytes // 2 + 64, np.uint16),
                words=np.empty(num_bytes // 2 + num_tags + 64, np.uint16),
                stops=self._stops,
                stack=np.empty(num_tags + 2, np.int64),
                before=np.empty(num_tags + 2, np.int64),
                open=np.empty(t.NUM_TAGS, np.int64),
            )
            if num_bytes <= self._KEPT_BYTES:
                self._page, self._buffers, self._num_bytes, self._num_tags = page, buffers, num_bytes, num_tags
        return page, buffers

    def __call__(self, html: str | bytes) -> Page:
        """Return the blocks and elements of a page: decoded, or UTF-8 (which saves a tenth of the time)."""
        raw = html.encode("utf-8", "replace") if isinstance(html, str) else html
        raw = raw.removeprefix(b"\xef\xbb\xbf")
        size, source = len(raw), np.frombuffer(raw, np.uint8)
        d, b = self._room(size, int(np.count_nonzero(source == ch.LESS)))
        d[:size] = source
        d[size : size + ch.PADDING] = 0
        _scan(d, size, b)
        s = b.state
        return Page(
            elements=b.elements[: s[st.NUM_ELEMENTS]].copy(),
            blocks=b.blocks[: s[st.NUM_BLOCKS]].copy(),
            class_words=b.classes[: s[st.NUM_CLASSES]].copy(),
            words=b.words[: s[st.NUM_WORDS]].copy(),
            text=b.out[: s[st.OUT]].tobytes(),
            source=raw,
            work=int(s[st.WORK]),
        )
