"""Tags and columns that the scanner writes and everything above it reads.

Plain module constants: compiled code takes them in as numbers. (Numba's cache of a kernel looks at the kernel's own file
only; see kernel.source_stamp for what the scanner does about it.)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# ---- block-level tags: a block of text ends where one begins or ends

TAG_NAMES: tuple[str, ...] = tuple(
    (  # noqa: SIM905
        "other p div li ul ol h1 h2 h3 h4 h5 h6 table tbody thead tr td th section article main pre blockquote dl dt dd "
        "body figure figcaption address details summary fieldset nav footer aside form header menu center button label "
        "custom title legend caption hgroup noscript tfoot dialog search"
    ).split()
)
TAG: dict[str, int] = {name: number for number, name in enumerate(TAG_NAMES)}
NUM_TAGS = len(TAG_NAMES)
ALIASES = {"dir": "ul", "xmp": "pre", "listing": "pre", "plaintext": "pre"}


def _numbers(names: str) -> tuple[int, ...]:
    return tuple(TAG[name] for name in names.split())


OTHER, P, DIV, LI, UL, OL = _numbers("other p div li ul ol")
H1, H6, TABLE, TBODY, THEAD, TFOOT = _numbers("h1 h6 table tbody thead tfoot")
TR, TD, TH, PRE, BLOCKQUOTE, DL, DT, DD = _numbers("tr td th pre blockquote dl dt dd")
BODY, FIGCAPTION, MENU, BUTTON, CUSTOM, TITLE, CAPTION = _numbers("body figcaption menu button custom title caption")

# ---- what a tag does to the scan

(
    KIND_INLINE,  # does not end a word
    KIND_BLOCK,  # ends a block and nests
    KIND_LINK,
    KIND_BREAK,  # br
    KIND_RULE,  # hr: ends a block, holds nothing
    KIND_GAP,  # holds nothing and stands between words: img, input
    KIND_VOID,  # holds nothing and takes no room: wbr, meta
    KIND_RAW,  # text that is not markup and not shown: script, style
    KIND_RAW_SHOWN,  # text that is not markup but shown: title, xmp
    KIND_DROPPED,  # markup that is not shown: svg, select
    KIND_TEMPLATE,  # the same, and nothing in it closes anything outside
    KIND_MATH,
    KIND_RUBY,  # rt, rp: readings beside a word
    KIND_CODE,  # white space that was made to stay does so
) = range(14)

_KINDS: dict[int, str] = {
    KIND_LINK: "a",
    KIND_BREAK: "br",
    KIND_RULE: "hr",
    KIND_GAP: "img input image embed",
    KIND_VOID: "wbr meta link base area col param source track bgsound basefont frame keygen",
    KIND_RAW: "script style iframe textarea noembed noframes",
    KIND_RAW_SHOWN: "title xmp",
    KIND_DROPPED: "svg select object canvas video audio datalist annotation annotation-xml",
    KIND_TEMPLATE: "template",
    KIND_MATH: "math",
    KIND_RUBY: "rt rp",
    KIND_CODE: "code kbd samp tt",
}


def prefix_key(name: str) -> int:
    """Return the number that stands for the first eight bytes of a name, the last one lowest."""
    return int.from_bytes(name.encode()[:8], "big")


def name_key(name: str) -> int:
    """Return the number that stands for a tag or attribute name, as markup.read_name makes it."""
    key = prefix_key(name)
    for byte in name.encode()[8:]:
        key = (key * 31 + byte) % (1 << 64)
    return key - (1 << 64) if key >> 63 else key


def prefix_keys(names: str) -> tuple[int, ...]:
    """Return the keys of the first bytes of names parted by spaces."""
    return tuple(map(prefix_key, names.split()))


def name_keys(names: str) -> tuple[int, ...]:
    """Return the keys of names parted by spaces."""
    return tuple(map(name_key, names.split()))


SLOT_BITS = 9
_GOLDEN = 0x9E3779B97F4A7C15


def _slots() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return keys, kinds and tags of an open-addressed table; key 0 is an empty slot."""
    keys = np.zeros(1 << SLOT_BITS, np.int64)
    kinds = np.zeros(1 << SLOT_BITS, np.uint8)
    tags = np.zeros(1 << SLOT_BITS, np.uint8)
    entries = [(name, KIND_BLOCK, TAG[name]) for name in TAG_NAMES if name not in ("other", "custom", "title")]
    entries += [(name, KIND_BLOCK, TAG[tag]) for name, tag in ALIASES.items() if name != "xmp"]
    for kind, names in _KINDS.items():
        entries += [(name, kind, TAG["pre"] if name == "xmp" else TAG.get(name, OTHER)) for name in names.split()]
    for name, kind, tag in entries:
        key = name_key(name)
        slot = ((key % (1 << 64)) * _GOLDEN % (1 << 64)) >> (64 - SLOT_BITS)
        while keys[slot] not in (0, key):
            slot = (slot + 1) % (1 << SLOT_BITS)
        keys[slot], kinds[slot], tags[slot] = key, kind, tag
    return keys, kinds, tags


SLOT_KEYS, SLOT_KINDS, SLOT_TAGS = _slots()

# All block-level tags close an open p but those that stand in running text.
CLOSES_PARAGRAPH: npt.NDArray[np.bool_] = np.array(
    [name not in ("other", "button", "label", "custom", "title", "noscript") for name in TAG_NAMES]
)

# ---- columns of Page.elements: block-level elements in page order; row 0 is the page itself

(
    ELEMENT_PARENT,  # row of the element around it; -1 for the page
    ELEMENT_TAG,  # number in TAG_NAMES
    ELEMENT_DEPTH,  # block-level elements from the page to it, itself counted
    ELEMENT_CLASS_START,  # its words of class, id, role, itemprop: Page.class_words[start:end]
    ELEMENT_CLASS_END,
    ELEMENT_FLAGS,  # FLAG_ bits, its own and those of all around it
    ELEMENT_SIGNATURE,  # hash of tags and class words from the page to it
    ELEMENT_KIDS,  # number of elements directly in it
    ELEMENT_WORDS,  # totals of all blocks in it
    ELEMENT_LINK_CHARS,
    ELEMENT_CHARS,
    ELEMENT_COMMAS,
    ELEMENT_BLOCKS,
    ELEMENT_PROSE_WORDS,  # words in blocks of at least ten words, fewer than half of their characters in links
    ELEMENT_CLASS_HASH,  # of the class words alone
    ELEMENT_KID,  # its place among the kids of its parent, from 0
    ELEMENT_ANCESTORS,  # 0: room for the features
    ELEMENT_LIST,  # nearest ul, ol, menu (itself counted, as in all below); 0: none
    ELEMENT_LIST_DEPTH,  # lists around it
    ELEMENT_ITEM,  # nearest li, dt, dd
    ELEMENT_ORDINAL,  # of an li: its number in the list, `start` and `value` heeded
    ELEMENT_ROW,  # nearest tr
    ELEMENT_CELL,  # nearest td, th
    ELEMENT_TABLE,  # nearest table
    ELEMENT_PRE,  # nearest pre
    ELEMENT_QUOTES,  # blockquotes around it
    ELEMENT_HEADING,  # level 1 to 6 of the heading around it; 0: none
    ELEMENT_ROWS,  # of a cell: its rowspan, if it has one that does not say 1; -1: to the end of its part of the table
    ELEMENT_COLUMNS,  # of a cell: its colspan, if it has one
) = range(29)
NUM_ELEMENT_COLUMNS = 29

FLAG_HIDDEN = 1  # by any of the three below
FLAG_HIDDEN_ATTRIBUTE = 2  # hidden, but not hidden=until-found
FLAG_HIDDEN_STYLE = 4  # display: none, visibility: hidden
FLAG_HIDDEN_ARIA = 8  # aria-hidden=true
FLAG_DROPPED = 16  # inside an element whose text is left out

# ---- columns of Page.blocks, in page order

(
    BLOCK_ELEMENT,  # row of the innermost element around it
    BLOCK_TEXT_START,  # Page.text[start:end], UTF-8
    BLOCK_TEXT_END,
    BLOCK_WORDS,  # runs without white space that hold a letter or digit; two Han or Kana, four Thai letters are a word
    BLOCK_CHARS,  # without white space
    BLOCK_LINK_CHARS,  # of these in links
    BLOCK_COMMAS,
    BLOCK_STOP_WORDS,
    BLOCK_UPPER,
    BLOCK_DIGITS,
    BLOCK_LINKS,
    BLOCK_HASH,  # of its words: case, punctuation and white space do not count
    BLOCK_BREAKS,  # br in it
    BLOCK_FIRST_WORD,  # its words: Page.words[first:first of the next]
    BLOCK_END_MARK,  # 1: ends a sentence, 2: a colon, 0: neither; closing quotes and brackets are looked through
    BLOCK_LONG_WORDS,  # of more than six letters
    BLOCK_SENTENCES,  # ends of sentences, the last one counted only before white space
    BLOCK_INLINE_TAGS,
) = range(18)
NUM_BLOCK_COLUMNS = 18

NUM_CLASS_BUCKETS = 8192
NUM_WORD_BUCKETS = 65_536
