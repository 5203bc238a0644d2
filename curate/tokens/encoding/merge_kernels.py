"""Kernels that byte-pair encoders share: a text's part looked up whole in a table of words, and merged pair by pair.

Merging takes the pair of neighbours of the lowest rank, of equal ones the leftmost, until no pair is known (Sennrich et al.
2016). A short part is searched anew for each merge; a long one keeps its pairs in a heap, so that its time is
n log n in its symbols.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text.characters import Int64s, Uint64s

Uint32s = npt.NDArray[np.uint32]
SHORT = 64  # symbols of a part that is merged by search
NONE = np.uint64(0xFFFFFFFFFFFFFFFF)  # no pair
_LOW = np.uint64(0xFFFFFFFF)
_GAMMA, _MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_0, _1, _2, _3, _4, _8, _16, _29, _32, _64 = (np.uint64(number) for number in (0, 1, 2, 3, 4, 8, 16, 29, 32, 64))


@compiled
def signed(number: np.unsignedinteger[Any]) -> int:
    """Return a number as one that may be less than 0: compiled code makes a float of the two kinds together."""
    return np.int64(number)  # type: ignore[return-value]


# ---- words


@compiled
def word_key(parts: Uint64s, start: np.uint64, size: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return the first and the last eight bytes of a word, and its hash.

    With the size, they are all there is of a word of at most 16 bytes; the middle of a longer one goes into the hash.
    """
    if size < _8:
        first = parts[start] << (_64 - (size << _3))
        last = _0
    else:
        first = parts[start]
        last = parts[start + size - _8]
    value = first * _MIX_1 ^ (last * _MIX_2 + size)
    value = (value ^ (value >> _29)) * _GAMMA
    if size > _16:
        place = start + _8
        while place + _8 < start + size:
            value = (value ^ parts[place]) * _GAMMA
            value ^= value >> _32
            place += _8
        value *= _GAMMA
    return first, last, value


@compiled
def find_word(
    parts: Uint64s, start: np.uint64, size: np.uint64, words: Uint64s, shift: np.uint64, known: Uint64s
) -> int:
    """Return the id of a word, -1 where it is none of the table's.

    Args:
        parts: Numbers of eight bytes, one beginning at each byte of the text, for eight bytes more than the word has.
        start: Where the word begins.
        size: Bytes, not 0.
        words: Table: first and last eight bytes, size above the id (32 bits), place in `known`; shape (4 * slots,).
        shift: 64 less the binary logarithm of the slots.
        known: The table's words one after another, as such numbers.
    """
    first, last, value = word_key(parts, start, size)
    mask = (_1 << (_64 - shift)) - _1
    slot = value >> shift
    while True:
        entry = slot << _2
        told = words[entry + _2]
        if told == _0:
            return -1
        if words[entry] == first and words[entry + _1] == last and told >> _32 == size:
            if size <= _16:
                return signed(told & _LOW)
            place, other = start + _8, words[entry + _3] + _8
            while place + _8 < start + size and parts[place] == known[other]:
                place += _8
                other += _8
            if place + _8 >= start + size:
                return signed(told & _LOW)
        slot = (slot + _1) & mask


@compiled
def put_words(known: Uint64s, starts: Int64s, sizes: Int64s, ids: Int64s, words: Uint64s, shift: np.uint64) -> None:
    """Fill a table of words that is empty, no word twice; see `find_word`."""
    mask = (_1 << (_64 - shift)) - _1
    for row in range(len(starts)):
        start, size = np.uint64(starts[row]), np.uint64(sizes[row])
        first, last, value = word_key(known, start, size)
        slot = value >> shift
        while words[(slot << _2) + _2] != _0:
            slot = (slot + _1) & mask
        entry = slot << _2
        words[entry] = first
        words[entry + _1] = last
        words[entry + _2] = size << _32 | np.uint64(ids[row])
        words[entry + _3] = start


# ---- pairs


@compiled
def find_pair(pairs: Uint64s, shift: np.uint64, left: np.uint64, right: np.uint64) -> np.uint64:
    """Return the rank of a pair above the symbol it becomes (32 bits), NONE where it is no pair.

    Args:
        pairs: Table: left symbol above the right one (32 bits), then the answer; shape (2 * slots,).
        shift: 64 less the binary logarithm of the slots.
        left: Symbol, below 2**32.
        right: Symbol, below 2**32.
    """
    key = left << _32 | right
    mask = (_1 << (_64 - shift)) - _1
    slot = ((key ^ (key >> _29)) * _GAMMA) >> shift
    while True:
        entry = slot << _1
        found = pairs[entry]
        if found == key:
            answer: np.uint64 = pairs[entry + _1]
            return answer
        if found == NONE:
            return NONE
        slot = (slot + _1) & mask


@compiled
def put_pairs(lefts: Uint64s, rights: Uint64s, answers: Uint64s, pairs: Uint64s, shift: np.uint64) -> None:
    """Fill a table of pairs that is empty, no pair twice; see `find_pair`."""
    mask = (_1 << (_64 - shift)) - _1
    for row in range(len(lefts)):
        key = lefts[row] << _32 | rights[row]
        slot = ((key ^ (key >> _29)) * _GAMMA) >> shift
        while pairs[slot << _1] != NONE:
            slot = (slot + _1) & mask
        pairs[slot << _1] = key
        pairs[(slot << _1) + _1] = answers[row]


@compiled
def merge_short(symbols: Uint64s, values: Uint64s, count: int, pairs: Uint64s, shift: np.uint64) -> int:
    """Merge up to SHORT symbols in their place and return how many are left.

    Args:
        symbols: The symbols.
        values: Scratch, shape as that of `symbols`.
        count: How many.
        pairs: See `find_pair`.
        shift: See `find_pair`.
    """
    size = np.uint64(count)
    best, at = NONE, _0
    place = _0
    while place + _1 < size:
        value = find_pair(pairs, shift, symbols[place], symbols[place + _1])
        values[place] = value
        if value < best:
            best, at = value, place
        place += _1
    while best != NONE:
        merged = best & _LOW
        symbols[at] = merged
        if at > _0:
            values[at - _1] = find_pair(pairs, shift, symbols[at - _1], merged)
        after = find_pair(pairs, shift, merged, symbols[at + _2]) if at + _2 < size else NONE
        # The pairs behind move up, and the next of the lowest rank is looked for on the way.
        size -= _1
        merge_at, best = at, NONE
        place = _0
        while place < merge_at:
            value = values[place]
            if value < best:
                best, at = value, place
            place += _1
        values[place] = after
        if after < best:
            best, at = after, place
        place += _1
        while place + _1 < size:
            symbols[place] = symbols[place + _1]
            value = values[place + _1]
            values[place] = value
            if value < best:
                best, at = value, place
            place += _1
        if place < size:
            symbols[place] = symbols[place + _1]
    return signed(size)


@compiled
def _push(heap: Uint64s, size: int, key: np.uint64) -> int:
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if heap[above] <= key:
            break
        heap[place] = heap[above]
        place = above
    heap[place] = key
    return size + 1


@compiled
def _pop(heap: Uint64s, size: int) -> int:
    """Take the smallest key away: the caller has read it at the front."""
    size -= 1
    key = heap[size]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= key:
            break
        heap[place] = heap[below]
        place = below
    heap[place] = key
    return size


@compiled
def merge_long(symbols: Uint64s, count: int, pairs: Uint64s, shift: np.uint64) -> int:
    """Merge any number of symbols in their place and return how many are left; see `merge_short`.

    A heap's key is a pair's rank above the place of its left symbol (32 bits). What it says may be out of date: then the
    pair that now begins there has another rank, or none does.
    """
    after = np.arange(1, count + 1)  # the next symbol's place, `count` behind the last
    before = np.arange(-1, count - 1)
    heap = np.empty(3 * count, np.uint64)
    size = 0
    for place in range(count - 1):
        value = find_pair(pairs, shift, symbols[place], symbols[place + 1])
        if value != NONE:
            size = _push(heap, size, (value & ~_LOW) | np.uint64(place))
    while size > 0:
        key = heap[0]
        size = _pop(heap, size)
        place = signed(key & _LOW)
        if symbols[place] == NONE or after[place] == count:
            continue
        gone = after[place]
        value = find_pair(pairs, shift, symbols[place], symbols[gone])
        if value == NONE or value >> _32 != key >> _32:
            continue
        symbols[place] = value & _LOW
        symbols[gone] = NONE
        right, left = after[gone], before[place]
        after[place] = right
        if right < count:
            before[right] = place
            value = find_pair(pairs, shift, symbols[place], symbols[right])
            if value != NONE:
                size = _push(heap, size, (value & ~_LOW) | np.uint64(place))
        if left >= 0:
            value = find_pair(pairs, shift, symbols[left], symbols[place])
            if value != NONE:
                size = _push(heap, size, (value & ~_LOW) | np.uint64(left))
    left_over = 0
    for place in range(count):
        if symbols[place] != NONE:
            symbols[left_over] = symbols[place]
            left_over += 1
    return left_over
