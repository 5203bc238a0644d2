"""The rules of `curate.text.english.rules` as tables for compiled code."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.text.characters import ASSIGNED, Int32s, kind_table
from curate.text.english.rules import rules
from curate.text.kinds import PRIME

Uint32s = npt.NDArray[np.uint32]

# Bits of `Tables.classes`, above those of the kind. What an expression of `rules` asks of one character.
SPACE, ALPHA, LOWER, UPPER, ICON, BEFORE_STOP, QUOTE = (1 << bit for bit in range(8, 15))
PREFIX, SUFFIX, AFTER_DIGIT, INFIX, HYPHEN, HOST, SCHEME, DECIMAL, NUMBER = (1 << bit for bit in range(15, 24))
SPECIAL = 1 << 24  # not to be looked at: a chunk whose characters lack it, and numbers, is one token or an exception

# Sections of `known`. A name is an exception, or what is taken off behind a digit.
NUM_SLOTS = 1 << 13
SIZES_AT = NUM_SLOTS  # behind the slots: of each first byte, a bit for each size in bytes that an exception has
PAIRS_AT = SIZES_AT + 256  # a bit at the hash of the first two parts of each exception that is taken apart
CHANGED_PAIRS_AT = PAIRS_AT + (1 << 16) // 32  # the same of those whose parts are not their tokens
NAMES_AT = CHANGED_PAIRS_AT + (1 << 16) // 32
MOST_TOKENS, MOST_PARTS = 3, 11
# Fields of a name: where its bytes are in `known`, one a number; its size in bytes; bits; tokens; parts; their sizes.
TEXT, SIZE, BITS, NUM_TOKENS, NUM_PARTS, TOKENS = range(6)
PARTS = TOKENS + MOST_TOKENS
NUM_FIELDS = PARTS + MOST_PARTS
IS_EXCEPTION = 1
LONGEST_NAME = 31  # bytes that have a bit in the section of sizes; the longest exception has 29
MASK_64 = (1 << 64) - 1


class Tables(NamedTuple):
    """The rules as arrays.

    Attributes:
        classes: Bits of each code point, shape (0x110000,).
        known: The names. An open-addressed table of where each one's fields begin, by its key, 0 where there is
            none; then the sections above.
    """

    classes: Uint32s
    known: Int32s


def key_of(data: bytes) -> int:
    """Return the key of a token (see `curate.words.token_type`)."""
    key = 0
    for byte in data:
        key = (key * PRIME + byte + 1) & MASK_64
    return key


def pair_of(first: int, second: int) -> int:
    """Return the number of the bit of two keys in the section of pairs."""
    return ((first * PRIME ^ second) * PRIME & MASK_64) >> 48


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Return the tables; made once a process."""
    given = rules()
    parts = {chunk: tokens for tokens, chunk in given.parts.items() if len(tokens) > 1}  # a single one changes nothing
    behind_digits = [*given.data["units"], *given.data["currency"], "+"]
    assert not given.exceptions.keys() & set(behind_digits)
    names = [*given.exceptions, *dict.fromkeys(behind_digits)]
    encoded = [name.encode() for name in names]
    text_at = NAMES_AT + NUM_FIELDS * len(names)
    known = np.zeros(text_at + sum(map(len, encoded)), np.int32)
    bits = known.view(np.uint32)
    for number, (name, data) in enumerate(zip(names, encoded, strict=True)):
        fields = NAMES_AT + NUM_FIELDS * number
        slot = key_of(data) >> 51
        while known[slot]:
            slot = (slot + 1) % NUM_SLOTS
        known[slot] = fields
        tokens, apart = given.exceptions.get(name, ()), parts.get(name, ())
        known[fields : fields + TOKENS] = (
            text_at, len(data), IS_EXCEPTION * bool(tokens), len(tokens), len(apart),
        )  # fmt: skip
        known[fields + TOKENS : fields + TOKENS + len(tokens)] = [len(token.encode()) for token in tokens]
        known[fields + PARTS : fields + PARTS + len(apart)] = [len(part.encode()) for part in apart]
        known[text_at : text_at + len(data)] = list(data)
        text_at += len(data)
        if tokens:
            bits[SIZES_AT + data[0]] |= np.uint32(1 << len(data))
        if apart:
            pair = pair_of(key_of(apart[0].encode()), key_of(apart[1].encode()))
            for section in (PAIRS_AT, CHANGED_PAIRS_AT)[: 1 + (apart != tokens)]:
                bits[section + pair // 32] |= np.uint32(1 << pair % 32)
    return Tables(_classes(), known)


def _classes() -> Uint32s:
    data = rules().data
    classes = kind_table().astype(np.uint32)

    def mark(bit: int, signs: Iterable[str]) -> None:
        classes[[ord(sign) for sign in signs if len(sign) == 1]] |= np.uint32(bit)

    for name, bit in (
        ("alpha", ALPHA), ("lower", LOWER), ("upper", UPPER), ("icons", ICON | PREFIX | SUFFIX | INFIX),
        ("before_stop", BEFORE_STOP), ("quote_class", QUOTE),
    ):  # fmt: skip
        for first, last in zip(data[name][::2], data[name][1::2], strict=True):
            classes[first : last + 1] |= np.uint32(bit)
    both = [*data["punctuation"], *data["quotes"]]
    mark(PREFIX, [*both, *data["currency"], *"§%=—–+.UCA"])
    mark(SUFFIX, [*both, *"—–.sS"])
    mark(AFTER_DIGIT, {name[-1] for name in (*data["units"], *data["currency"], "+")})
    mark(INFIX, ".…+-*^,:<>=/")
    mark(HYPHEN, data["hyphens"])
    mark(INFIX, data["hyphens"])
    mark(SCHEME, "+-.")
    mark(
        HOST,
        map(
            chr,
            (*range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B), *range(0xA1, 0xD800), *range(0xE000, 0x10000)),
        ),
    )
    mark(NUMBER, "0123456789")
    every = [chr(code) for codes in ASSIGNED for code in codes]
    mark(SPACE, (sign for sign in every if sign.isspace()))
    mark(DECIMAL, (sign for sign in every if sign.isdecimal()))
    mark(SCHEME, (sign for sign in every if sign.isalnum() or sign == "_"))
    letters = frozenset(map(ord, "UCAsS"))  # they matter beside $, ' and ’ alone, which are special themselves
    is_special = classes & np.uint32(PREFIX | SUFFIX | INFIX) != 0
    is_special[list(letters)] = False
    classes[is_special] |= np.uint32(SPECIAL)
    return classes
