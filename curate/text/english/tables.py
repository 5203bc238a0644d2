"""The rules of `curate.text.english.rules` as tables for compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.text.characters import ASSIGNED, Bytes, Int32s, Uint64s, kind_table
from curate.text.english.rules import rules
from curate.text.kinds import PRIME

Uint32s = npt.NDArray[np.uint32]

# Bits of `Tables.classes`, above those of the kind. What an expression of `rules` asks of one character.
SPACE, ALPHA, LOWER, UPPER, ICON, BEFORE_STOP, QUOTE = (1 << bit for bit in range(8, 15))
PREFIX, SUFFIX, AFTER_DIGIT, INFIX, HYPHEN, HOST, SCHEME, DECIMAL, NUMBER = (1 << bit for bit in range(15, 24))
SPECIAL = 1 << 24  # not to be looked at: a chunk whose characters lack it, and numbers, is one token or an exception

NUM_SLOTS = 1 << 13
NUM_PAIRS = 1 << 16
MASK_64 = (1 << 64) - 1


class Tables(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """The rules as arrays.

    Attributes:
        classes: Bits of each code point, shape (0x110000,).
        may_be: Whether an exception begins with this byte (row) and has so many bytes (column), shape (256, 32).
        keys: Open-addressed table of the keys of exceptions and of what is taken off behind a digit, shape (NUM_SLOTS,).
        numbers: Their numbers, -1 where there is none.
        text: The bytes of all, one behind the other.
        starts: Where each begins in `text`, and at last where the text ends.
        is_exception: False for what is taken off behind a digit.
        sizes: Bytes of each token of an exception, shape (exceptions, 4); 0 behind the last.
        part_sizes: Bytes of each part that an exception is taken apart into, shape (exceptions, 12); all 0 if it is not.
        is_changed: Whether the parts are others than the tokens.
        pairs: 1 at the hash of the first two parts of an exception that is changed, shape (NUM_PAIRS,).
    """

    classes: Uint32s
    may_be: npt.NDArray[np.bool_]
    keys: Uint64s
    numbers: Int32s
    text: Bytes
    starts: Int32s
    is_exception: npt.NDArray[np.bool_]
    sizes: Int32s
    part_sizes: Int32s
    is_changed: npt.NDArray[np.bool_]
    pairs: Bytes


def key_of(data: bytes) -> int:
    """Return the key of a token (see `curate.words.token_type`)."""
    key = 0
    for byte in data:
        key = (key * PRIME + byte + 1) & MASK_64
    return key


def pair_of(first: int, second: int) -> int:
    """Return the place in `Tables.pairs` of two keys."""
    return ((first * PRIME ^ second) * PRIME & MASK_64) >> 48


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Return the tables; made once a process."""
    given = rules()
    parts = {chunk: tokens for tokens, chunk in given.parts.items()}
    behind_digits = [*given.data["units"], *given.data["currency"], "+"]
    names = list(dict.fromkeys([*given.exceptions, *behind_digits]))
    encoded = [name.encode() for name in names]
    starts = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    keys, numbers = np.zeros(NUM_SLOTS, np.uint64), np.full(NUM_SLOTS, -1, np.int32)
    may_be = np.zeros((256, 32), np.bool_)
    pairs = np.zeros(NUM_PAIRS, np.uint8)
    sizes, part_sizes = np.zeros((len(names), 4), np.int32), np.zeros((len(names), 12), np.int32)
    is_changed = np.zeros(len(names), np.bool_)
    is_exception = np.array([name in given.exceptions for name in names])
    assert not any(name in given.exceptions for name in behind_digits)
    for number, (name, data) in enumerate(zip(names, encoded, strict=True)):
        slot = key_of(data) >> 51
        while numbers[slot] >= 0:
            slot = (slot + 1) % NUM_SLOTS
        keys[slot], numbers[slot] = key_of(data), number
        tokens = given.exceptions.get(name, ())
        _fill(sizes[number], tokens)
        if tokens:
            may_be[data[0], len(data)] = True
        apart = parts.get(name, ())
        if len(apart) > 1:  # a single part changes nothing
            _fill(part_sizes[number], apart)
            is_changed[number] = apart != tokens
            if apart != tokens:
                pairs[pair_of(*(key_of(part.encode()) for part in apart[:2]))] = 1
    text = np.frombuffer(b"".join(encoded), np.uint8)
    return Tables(_classes(), may_be, keys, numbers, text, starts, is_exception, sizes, part_sizes, is_changed, pairs)


def _fill(row: Int32s, tokens: Sequence[str]) -> None:
    row[: len(tokens)] = [len(token.encode()) for token in tokens]


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
