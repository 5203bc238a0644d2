"""What each code point is to the splitters, as tables for compiled code, and UTF-8 read by compiled code.

Two versions of the Unicode data meet here, on purpose. Where a word begins and ends is what the expressions of
`curate.words` say, so classes are read from the `regex` library. Of what kind a token is, Python's own data say, as
they do to the filters that this is compared with (`str.isalpha`, `unicodedata.category`).
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

from curate.compiled import compiled, kept_table
from curate.text.kinds import KIND_LETTER, KIND_PUNCTUATION, KIND_SENTENCE_END, KIND_SYMBOLS, KIND_WORD

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Uint64s = npt.NDArray[np.uint64]

NUM_CODE_POINTS = 0x110000
REPLACEMENT = 0xFFFD

SCRIPTS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"  # no spaces between words
JOINERS = r"\u200c\u200d\u00ad"  # zero-width (non-)joiner, inside Persian and Indic words; soft hyphen

# Classes of `fast_table`, in the bits above those of the kind. Those with a mark or joiner go with what stands before.
CLASS_SHIFT = 5
SPACE, SIGN, LETTER, LETTER_MARK, UNSPACED, UNSPACED_MARK = range(6)

# Signs at which spaCy's sentencizer ends a sentence (spaCy 3.8, MIT licence).
SENTENCE_ENDS = frozenset(
    "!.?\u0589\u061f\u06d4\u0700\u0701\u0702\u07f9\u0964\u0965\u104a\u104b\u1362\u1367\u1368\u166e\u1735\u1736\u1803"
    "\u1809\u1944\u1945\u1aa8\u1aa9\u1aaa\u1aab\u1b5a\u1b5b\u1b5e\u1b5f\u1c3b\u1c3c\u1c7e\u1c7f\u203c\u203d\u2047\u2048"
    "\u2049\u2e2e\u2e3c\u3002\ua4ff\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d\uaa5e\uaa5f"
    "\uaaf0\uaaf1\uabeb\ufe52\ufe56\ufe57\uff01\uff0e\uff1f\uff61\U00010a56\U00010a57\U00011047\U00011048\U000110be"
    "\U000110bf\U000110c0\U000110c1\U00011141\U00011142\U00011143\U000111c5\U000111c6\U000111cd\U000111de\U000111df"
    "\U00011238\U00011239\U0001123b\U0001123c\U000112a9\U0001144b\U0001144c\U000115c2\U000115c3\U000115c9\U000115ca"
    "\U000115cb\U000115cc\U000115cd\U000115ce\U000115cf\U000115d0\U000115d1\U000115d2\U000115d3\U000115d4\U000115d5"
    "\U000115d6\U000115d7\U00011641\U00011642\U0001173c\U0001173d\U0001173e\U00011a42\U00011a43\U00011a9b\U00011a9c"
    "\U00011c41\U00011c42\U00016a6e\U00016a6f\U00016af5\U00016b37\U00016b38\U00016b44\U0001bc9f\U0001da88"
)

# The signs that datatrove 0.10.1 takes for symbols (its PUNCTUATION_SET, Apache-2.0): these, sentence ends, controls.
SYMBOLS = SENTENCE_ENDS | frozenset(
    "\"#$%&'()*+,-/:;<=>@[\\]^_`{|}~\xab\xb4\xbb\u061d\u061e\u0837\u0839\u083d\u083e\u17d4\u17d5\u17d6\u17d9\u17da"
    "\u1b7d\u1b7e\u2013\u2014\u2019\u201c\u201d\u201e\u2026\u2236\u2501\u25ba\u2e53\u2e54\u3001\u3008\u3009\u300a\u300b"
    "\u300c\u300d\u3010\u3011\uff05\uff08\uff09\uff0c\uff11\uff1a\uff1b\uff5e\U00010f55\U00010f56\U00010f57\U00010f58"
    "\U00010f59\U00010f86\U00010f87\U00010f88\U00010f89\U00011944\U00011946\U00011ef7\U00011ef8\U00011f43\U00011f44"
    "\U00016e98"
)
_CONTROLS = ((0, 9), (11, 13), (13, 32), (127, 160))


# Where Unicode has characters: what lies beyond has no category but Co and Cn, in any version (test_characters).
ASSIGNED = (range(0x40000), range(0xE0000, 0xE1000))


def members(expression: str) -> npt.NDArray[np.bool_]:
    """Return which code points a character class of `regex` (version 1) matches, shape (0x110000,).

    Args:
        expression: A class that matches no code point where Unicode has no characters.
    """
    pattern = regex.compile(f"(?V1){expression}+")
    flags = np.zeros(NUM_CODE_POINTS, np.bool_)
    for codes in ASSIGNED:
        for match in pattern.finditer("".join(map(chr, codes))):
            flags[codes.start + match.start() : codes.start + match.end()] = True
    return flags


@kept_table
def kind_table() -> Bytes:
    """Return the bits that a code point gives to a token's kind, shape (0x110000,).

    KIND_LETTER and KIND_WORD hold for a token if one character has them, the others if all have; KIND_SENTENCE_END
    only for a token of one character.
    """
    table = np.zeros(NUM_CODE_POINTS, np.uint8)
    bits = {"L": KIND_LETTER | KIND_WORD, "N": KIND_WORD, "P": KIND_PUNCTUATION}
    for codes in ASSIGNED:
        categories = "".join([unicodedata.category(chr(code))[0] for code in codes]).encode()
        for category, value in bits.items():
            is_such = np.frombuffer(categories, np.uint8) == ord(category)
            table[codes.start : codes.stop][is_such] |= np.uint8(value)
    for signs, value in ((SYMBOLS, KIND_SYMBOLS), (SENTENCE_ENDS, KIND_SENTENCE_END)):
        table[[ord(sign) for sign in signs]] |= np.uint8(value)
    for start, stop in _CONTROLS:
        table[start:stop] |= np.uint8(KIND_SYMBOLS)
    return table


@kept_table
def fast_table() -> Bytes:
    """Return the class of each code point for the splitter `fast`, above the bits of `kind_table`; shape the same."""
    marks = members(rf"[\p{{M}}{JOINERS}]")
    unspaced = members(f"[{SCRIPTS}]")
    classes = np.full(NUM_CODE_POINTS, SIGN, np.uint8)
    classes[members(r"\s")] = SPACE
    classes[members(rf"[\p{{L}}\p{{N}}\p{{M}}_{JOINERS}]")] = LETTER
    classes[marks] = LETTER_MARK
    classes[unspaced] = UNSPACED
    classes[unspaced & marks] = UNSPACED_MARK
    return kind_table() | classes << np.uint8(CLASS_SHIFT)


class TokenBuffers(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """Room for tokens of consecutive rows; the fields of `curate.words.token_type`, each of shape (room,)."""

    key: Uint64s
    start: Int32s
    size: Int32s
    chars: Int32s
    kind: Bytes


def make_room(count: int) -> TokenBuffers:
    """Return empty buffers for `count` tokens."""
    start, size, chars = (np.empty(count, np.int32) for _ in range(3))
    return TokenBuffers(np.empty(count, np.uint64), start, size, chars, np.empty(count, np.uint8))


def enlarged(buffers: TokenBuffers, used: int, count: int) -> TokenBuffers:
    """Return buffers for `count` tokens with the first `used` tokens in them."""
    larger = make_room(count)
    for name in TokenBuffers._fields:
        getattr(larger, name)[:used] = getattr(buffers, name)[:used]
    return larger


def trimmed(buffers: TokenBuffers, used: int) -> TokenBuffers:
    """Return the first `used` tokens, without a copy."""
    key, start, size, chars, kind = buffers
    return TokenBuffers(key[:used], start[:used], size[:used], chars[:used], kind[:used])


@compiled
def decode(data: Bytes, i: int, stop: int) -> tuple[int, int]:
    """Return the code point at `i` and the bytes it takes; U+FFFD and 1 for what is no UTF-8."""
    byte = int(data[i])
    if byte < 0x80:
        return byte, 1
    if byte < 0xE0:
        if byte < 0xC0 or i + 2 > stop:
            return REPLACEMENT, 1
        return (byte & 0x1F) << 6 | (int(data[i + 1]) & 0x3F), 2
    code = (int(data[i + 1]) & 0x3F) << 6 if i + 2 < stop else 0
    if byte < 0xF0:
        if i + 3 > stop:
            return REPLACEMENT, 1
        return (byte & 0x0F) << 12 | code | (int(data[i + 2]) & 0x3F), 3
    if i + 4 > stop:
        return REPLACEMENT, 1
    code = (byte & 0x07) << 18 | code << 6 | (int(data[i + 2]) & 0x3F) << 6 | (int(data[i + 3]) & 0x3F)
    return (code, 4) if code < NUM_CODE_POINTS else (REPLACEMENT, 1)
