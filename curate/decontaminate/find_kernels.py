"""Kernels of `curate.decontaminate.lookup`: hashes looked up in a sorted table, n-grams of documents by a rolling hash."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.decontaminate.ngrams import BASE, LENGTH_STEP
from curate.text.bits import borrowed, mix
from curate.text.characters import Int64s, Uint64s

Uint32s = npt.NDArray[np.uint32]
_BASE, _LENGTH = np.uint64(BASE), np.uint64(LENGTH_STEP)
_0, _ONE, _6, _63 = (np.uint64(number) for number in (0, 1, 6, 63))


class Table(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """Sorted distinct hashes, found by their leading bits.

    Attributes:
        hashes: Sorted, shape (H,).
        buckets: Of the leading bits, the place of the first hash that has them or more; at last H, shape (2**k + 1,).
        filter: Each hash has two bits of one number set, which its leading bits choose, shape (2**j,).
        shift: 64 - k.
        filter_shift: 64 - j.
    """

    hashes: Uint64s
    buckets: Uint32s
    filter: Uint64s
    shift: np.uint64
    filter_shift: np.uint64


@compiled
def fill_filter(hashes: Uint64s, shift: np.uint64, bits: Uint64s) -> None:
    """Set the bits of all hashes."""
    for value in hashes:
        bits[value >> shift] |= _ONE << (value & _63) | _ONE << (value >> _6 & _63)


@compiled
def place_of(value: np.uint64, hashes: Uint64s, buckets: Uint32s, shift: np.uint64) -> int:
    """Return the place of a hash, -1 if it is not there."""
    bucket = value >> shift
    first, end = np.int64(buckets[bucket]), np.int64(buckets[bucket + _ONE])
    while first < end and hashes[first] < value:
        first += 1
    return int(first) if first < end and hashes[first] == value else -1


@compiled
def places_of(values: Uint64s, hashes: Uint64s, buckets: Uint32s, shift: np.uint64, places: Int64s) -> None:
    """Write the place of each hash, -1 if it is not there."""
    hashes, buckets = borrowed(hashes), borrowed(buckets)
    for number in range(len(values)):
        places[number] = place_of(values[number], hashes, buckets, shift)


@compiled
def find_long(
    words: Uint64s, offsets: Int64s, row: int, start: int, n: int, lead: np.uint64, table: Table, hits: Int64s
) -> tuple[int, int, int]:
    """Find the n-grams of one length in documents, as long as there is room for hits.

    Args:
        words: Word hashes of all documents.
        offsets: Where each document's words start, and the end of the last.
        row: The document to begin with.
        start: The word to begin with, if it is one of that document.
        n: Words of an n-gram.
        lead: The factor of the first word of an n-gram: BASE ** (n - 1).
        table: The hashes.
        hits: What is written: word and place of the hash of each hit, shape (room, 2).

    Returns:
        The row and word to go on with, and the number of hits.
    """
    hashes, buckets, bits = borrowed(table.hashes), borrowed(table.buckets), borrowed(table.filter)
    shift, filter_shift = table.shift, table.filter_shift
    length = np.uint64(n) * _LENGTH
    count = 0
    while row < len(offsets) - 1:
        first, end = max(offsets[row], start), offsets[row + 1]
        value = _0
        for place in range(first, min(first + n - 1, end)):
            value = value * _BASE + words[place]
        for place in range(first, end - n + 1):
            value = value * _BASE + words[place + n - 1]
            gram = mix(value + length)
            value -= lead * words[place]
            held = bits[gram >> filter_shift]
            if held >> (gram & _63) & held >> (gram >> _6 & _63) & _ONE != _0:
                number = place_of(gram, hashes, buckets, shift)
                if number >= 0:
                    if count == len(hits):
                        return row, place, count
                    hits[count, 0] = place
                    hits[count, 1] = number
                    count += 1
        row += 1
    return row, start, count


@compiled
def find_short(
    words: Uint64s,
    offsets: Int64s,
    row: int,
    start: int,
    n: int,
    lead: np.uint64,
    table: Table,
    prefixes: Table,
    lengths: Uint64s,
    hits: Int64s,
) -> tuple[int, int, int]:
    """Find n-grams of several lengths, each of which shows by its first `n` words.

    Args:
        words: As for `find_long`.
        offsets: As for `find_long`.
        row: As for `find_long`.
        start: As for `find_long`.
        n: Words of the shortest.
        lead: BASE ** (n - 1).
        table: The hashes of the n-grams.
        prefixes: The hashes of the first `n` words.
        lengths: Of each of them the lengths of its n-grams, as bits, that of 1 the lowest; shape (len(prefixes.hashes),).
        hits: As for `find_long`; has room for 64 at least: more do not begin at one word.

    Returns:
        As `find_long`.
    """
    hashes, buckets, shift = borrowed(table.hashes), borrowed(table.buckets), table.shift
    held_first, first_buckets, first_shift = borrowed(prefixes.hashes), borrowed(prefixes.buckets), prefixes.shift
    bits, filter_shift = borrowed(prefixes.filter), prefixes.filter_shift
    length = np.uint64(n) * _LENGTH
    count = 0
    while row < len(offsets) - 1:
        first, end = max(offsets[row], start), offsets[row + 1]
        value = _0
        for place in range(first, min(first + n - 1, end)):
            value = value * _BASE + words[place]
        for place in range(first, end - n + 1):
            value = value * _BASE + words[place + n - 1]
            gram = mix(value + length)
            held = bits[gram >> filter_shift]
            if held >> (gram & _63) & held >> (gram >> _6 & _63) & _ONE != _0:
                prefix = place_of(gram, held_first, first_buckets, first_shift)
                if prefix >= 0:
                    if count + 64 > len(hits):
                        return row, place, count
                    count = _longer(words, place, end, n, value, lengths[prefix], hashes, buckets, shift, hits, count)
            value -= lead * words[place]
        row += 1
    return row, start, count


@compiled
def _longer(
    words: Uint64s,
    place: int,
    end: int,
    n: int,
    value: np.uint64,
    lengths: np.uint64,
    hashes: Uint64s,
    buckets: Uint32s,
    shift: np.uint64,
    hits: Int64s,
    count: int,
) -> int:
    """Look up the n-grams of all the lengths that begin at a word with these `n` words; return the number of hits."""
    size = n
    while True:
        if lengths >> np.uint64(size - 1) & _ONE != _0:
            number = place_of(mix(value + np.uint64(size) * _LENGTH), hashes, buckets, shift)
            if number >= 0:
                hits[count, 0] = place
                hits[count, 1] = number
                count += 1
        if lengths >> np.uint64(size - 1) <= _ONE or place + size >= end:
            return count
        value = value * _BASE + words[place + size]
        size += 1
