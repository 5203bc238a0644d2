"""Tables that compiled encoders look words and pairs up in, made once for a vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from curate.text.bits import eight_bytes
from curate.text.characters import Uint64s
from curate.tokens.encoding.merge_kernels import NONE, put_pairs, put_words

_PADDING = bytes(16)  # words are read eight bytes at a time


class Words(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """A table of byte strings; see `merge_kernels.find_word`.

    Attributes:
        slots: Shape (4 * slots,).
        shift: 64 less the binary logarithm of the slots.
        known: The words one after another, as numbers of eight bytes.
    """

    slots: Uint64s
    shift: np.uint64
    known: Uint64s


class Pairs(NamedTuple):
    """A table of pairs of symbols; see `merge_kernels.find_pair`.

    Attributes:
        slots: Shape (2 * slots,).
        shift: 64 less the binary logarithm of the slots.
    """

    slots: Uint64s
    shift: np.uint64


def make_words(ids: Mapping[bytes, int]) -> Words:
    """Return the table of some byte strings, none of them empty, and their ids."""
    sizes = np.array([len(word) for word in ids], np.int64)
    starts = np.cumsum(sizes) - sizes
    known = eight_bytes(np.frombuffer(b"".join(ids) + _PADDING, np.uint8).copy())
    bits = _slot_bits(len(ids))
    slots, shift = np.zeros(4 << bits, np.uint64), np.uint64(64 - bits)
    put_words(known, starts, sizes, np.array(list(ids.values()), np.int64), slots, shift)
    return Words(slots, shift, known)


def make_pairs(merges: Mapping[tuple[int, int], tuple[int, int]]) -> Pairs:
    """Return the table of some pairs of symbols: left and right to rank and merged, each below 2**32."""
    bits = _slot_bits(len(merges))
    slots, shift = np.full(2 << bits, NONE, np.uint64), np.uint64(64 - bits)
    pairs = np.array(list(merges), np.uint64).reshape(-1, 2)
    answers = np.array(list(merges.values()), np.uint64).reshape(-1, 2)
    lefts, rights = (np.ascontiguousarray(pairs[:, side]) for side in (0, 1))
    put_pairs(lefts, rights, answers[:, 0] << np.uint64(32) | answers[:, 1], slots, shift)
    return Pairs(slots, shift)


def _slot_bits(count: int) -> int:
    """Return the binary logarithm of the slots for so many entries: at least half of them stay empty."""
    return max(4, (2 * count).bit_length())
