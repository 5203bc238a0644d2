"""What a scan writes while it runs: counters in one array, and the arrays that hold the results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Uint16s = npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

# State of a scan: an int64 array, because many functions write to it.
(
    OUT, START, NUM_BLOCKS, NUM_ELEMENTS, NUM_CLASSES, NUM_WORDS, LEVEL, CURRENT, WORK,
    WORD_HASH, WORD_LETTERS, LINK, LINK_END, LINK_HREF, LINK_HREF_END, HIDDEN_AT, TITLE_SEEN, CODE,
    BLOCK_FIRST, WORDS, CHARS, LINK_CHARS, COMMAS, STOPS, UPPERS, DIGITS, LINKS, TEXT_HASH, BREAKS,
    SENTENCES, LONG, TAGS, LAST_MARK, HANS, DENSE_WORDS, LINE_DEPTH, LINE_KEY, LINE_START, LINE_ENDS, POWER, MATH_SIGN,
    MUTE, MUTE_KEY, MUTE_COUNT, MUTE_LEVEL, FOREIGN, MATH_SEEN, TEX_HASH, TEX_END, IS_XML, IS_XHTML, UNCLOSED, STAMP,
    ATTR_FLAGS, ATTR_HASH, ATTR_HREF, ATTR_HREF_END, ATTR_CLASS, ATTR_NUMBER, ATTR_ALT, ATTR_ALT_END, ATTR_TYPE, ATTR_TYPE_END,
    ATTR_DISPLAY, ATTR_LINE, ATTR_XHTML, ATTR_ROWS, ATTR_COLUMNS,
) = range(68)  # fmt: skip
NUM_STATES = 68
# Why text is left out at present.
UNMUTED, MUTE_INLINE, MUTE_DROPPED, MUTE_TEMPLATE, MUTE_RUBY, MUTE_BLOCK = range(6)
AS_MARKUP, AS_TEXT, AS_IS = range(3)  # references and tags; references; neither


class Buffers(NamedTuple):
    """All that a scan writes to."""

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
