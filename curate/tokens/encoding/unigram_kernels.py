"""Kernels of `sentencepiece_unigram`: a trie of pieces in one array, and the best path through a text (Viterbi 1967).

The library (0.2.3) adds up scores from the beginning of a text in 32 bits, so which of two paths wins depends, in the last bit,
on all that stands before. The same sums are made here, in the same order and precision.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text.characters import Bytes, Int64s, Uint64s
from curate.tokens.encoding.bpe_kernels import MARK, put_bytes
from curate.tokens.encoding.merge_kernels import Uint32s, signed

Float32s = npt.NDArray[np.float32]
# A place of the trie: the byte that leads to it, plus 1 (9 bits), the number that a next byte is put into by exclusive or (28
# bits), and the id of the piece that ends here, plus 1.
_LABEL, _BASE = np.uint64(0x1FF), np.uint64(0xFFFFFFF)
_TO_BASE, _TO_ID = np.uint64(9), np.uint64(37)
_0, _1 = np.uint64(0), np.uint64(1)
_ZERO = np.float32(0)
_LOWEST = np.float32(-1e5)  # below it the library counts anew from 0, so that small differences still tell


class Tables(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """What the kernel knows of a model.

    Attributes:
        units: The trie, see `build_trie`.
        scores: Of each id, as they are added up; shape (vocab_size,).
        byte_ids: Id of each byte, shape (256,).
        unknown: Score of a character that is no piece.
    """

    units: Uint64s
    scores: Float32s
    byte_ids: Uint32s
    unknown: np.float32


@compiled
def build_trie(data: Bytes, bounds: Int64s, ids: Int64s) -> Uint64s:
    """Return the trie of some words: a double array (Aoe 1989) whose bases are all different.

    Args:
        data: The words one after another, in the order of their bytes, none of them empty or twice.
        bounds: Where each begins, and the end; shape (words + 1,).
        ids: Of the words.

    Returns:
        Units, shape (units,); the first is the root.
    """
    units = np.zeros(1 << 12, np.uint64)
    is_base = np.zeros(1 << 12, np.uint8)
    free = 1  # no unit below is free
    stack = [(0, len(ids), 0, 0)]  # words from, to; depth; unit
    labels = np.zeros(257, np.int64)
    firsts = np.zeros(257, np.int64)
    while len(stack) > 0:
        first, last, depth, unit = stack.pop()
        while first < last and bounds[first] + depth == bounds[first + 1]:
            units[unit] |= np.uint64(ids[first] + 1) << _TO_ID
            first += 1
        count = 0
        for word in range(first, last):
            label = signed(data[bounds[word] + depth])
            if count == 0 or labels[count - 1] != label:
                labels[count] = label
                firsts[count] = word
                count += 1
        firsts[count] = last
        if count == 0:
            continue
        while units[free] != _0:
            free += 1
            if free + 1024 > len(units):
                units = np.concatenate((units, np.zeros(len(units), np.uint64)))
                is_base = np.concatenate((is_base, np.zeros(len(is_base), np.uint8)))
        place = free
        while True:
            base = place ^ labels[0]
            if (base | 0xFF) >= len(units):
                units = np.concatenate((units, np.zeros(len(units), np.uint64)))
                is_base = np.concatenate((is_base, np.zeros(len(is_base), np.uint8)))
            fits = base > 0 and is_base[base] == 0 and units[place] == _0  # base 0: no words go on
            for number in range(1, count):
                where = base ^ labels[number]
                fits = fits and units[where] == _0 and where > 0
            if fits:
                break
            place += 1
            if place + 1024 > len(units):
                units = np.concatenate((units, np.zeros(len(units), np.uint64)))
                is_base = np.concatenate((is_base, np.zeros(len(is_base), np.uint8)))
        is_base[base] = 1
        units[unit] |= np.uint64(base) << _TO_BASE
        for number in range(count):
            where = base ^ labels[number]
            units[where] = np.uint64(labels[number] + 1)
            stack.append((firsts[number], firsts[number + 1], depth + 1, where))
    return units


@compiled
def encode_rows(data: Bytes, bounds: Int64s, tables: Tables, ids: Uint32s, offsets: Int64s, has_mark: Bytes) -> None:
    """Encode all rows; see `bpe_kernels.encode_rows`. Before and behind U+2581 a text is encoded by itself."""
    longest = 0
    for row in range(len(bounds) - 1):
        longest = max(longest, bounds[row + 1] - bounds[row])
    best, starts = np.empty(longest + 2, np.float32), np.empty(longest + 2, np.int64)
    tokens, ends = np.empty(longest + 2, np.int64), np.empty(longest + 2, np.int64)
    units, scores, byte_ids, unknown = tables.units, tables.scores, tables.byte_ids, tables.unknown
    count = 0
    for row in range(len(bounds) - 1):
        place, stop = bounds[row], bounds[row + 1]
        while place < stop:
            until = _mark_place(data, place, stop)
            count = _encode(
                data, place, until, units, scores, byte_ids, unknown, best, starts, tokens, ends, ids, count
            )  # fmt: skip
            place = until
            if place < stop:
                has_mark[row] = 1
                count = put_bytes(MARK, byte_ids, ids, count)
                place += 3
        offsets[row + 1] = count


@compiled
def _mark_place(data: Bytes, place: int, stop: int) -> int:
    """Return where the next U+2581 begins, the end if there is none."""
    while place + 2 < stop:
        if data[place] == 0xE2 and data[place + 1] == 0x96 and data[place + 2] == 0x81:
            return place
        place += 1
    return stop


@compiled
def _encode(
    data: Bytes,
    first: int,
    stop: int,
    units: Uint64s,
    scores: Float32s,
    byte_ids: Uint32s,
    unknown: np.float32,
    best: Float32s,
    starts: Int64s,
    tokens: Int64s,
    ends: Int64s,
    ids: Uint32s,
    count: int,
) -> int:
    """Write the ids of a text behind the first `count` and return how many there are then.

    Args:
        data: UTF-8.
        first: Where the text begins.
        stop: Where it ends.
        units: See `build_trie`.
        scores: See `Tables`.
        byte_ids: See `Tables`.
        unknown: See `Tables`.
        best: Scratch: score of the best path to each place, counted from where paths last met.
        starts: Scratch: where that path's last piece begins; -1 where none ends.
        tokens: Scratch: its id, -1 for an unknown character.
        ends: Scratch.
        ids: See `bpe_kernels.encode_rows`.
        count: See there.
    """
    root = units[0] >> _TO_BASE & _BASE
    best[0] = _ZERO
    place = reach = 0  # reach: the last place that a piece ends at so far
    while first + place < stop:
        if place == reach:  # no piece goes across: all paths meet here
            count = _put_path(data, first, place, starts, tokens, ends, byte_ids, ids, count)
            best[0] = best[place]
            first += place
            place = reach = 0
        here = best[place]
        if here < _LOWEST:
            for end in range(place + 1, reach + 1):
                if starts[end] != -1:
                    best[end] -= here
            here = _ZERO
        lead = data[first + place]
        width = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        width = min(width, stop - first - place)
        base, at, is_known = root, first + place, False
        while at < stop:
            byte = np.uint64(data[at])
            unit = units[base ^ byte]
            if unit & _LABEL != byte + _1:
                break
            at += 1
            base = unit >> _TO_BASE & _BASE
            if unit >> _TO_ID != _0:
                token = signed(unit >> _TO_ID) - 1
                end = at - first
                while reach < end:
                    reach += 1
                    starts[reach] = -1
                score = scores[token] + here
                if starts[end] == -1 or score > best[end]:
                    best[end] = score
                    starts[end] = place
                    tokens[end] = token
                is_known = is_known or end - place == width
            if base == _0:
                break
        if not is_known:
            end = place + width
            while reach < end:
                reach += 1
                starts[reach] = -1
            score = unknown + here
            if starts[end] == -1 or score > best[end]:
                best[end] = score
                starts[end] = place
                tokens[end] = -1
        place += width
    return _put_path(data, first, place, starts, tokens, ends, byte_ids, ids, count)


@compiled
def _put_path(
    data: Bytes,
    first: int,
    place: int,
    starts: Int64s,
    tokens: Int64s,
    ends: Int64s,
    byte_ids: Uint32s,
    ids: Uint32s,
    count: int,
) -> int:
    """Write the ids of the best path to a place."""
    size = 0
    while place > 0:
        ends[size] = place
        size += 1
        place = starts[place]
    while size > 0:
        size -= 1
        end = ends[size]
        if tokens[end] >= 0:
            ids[count] = tokens[end]
            count += 1
        else:
            for at in range(first + starts[end], first + end):
                ids[count] = byte_ids[data[at]]
                count += 1
    return count
