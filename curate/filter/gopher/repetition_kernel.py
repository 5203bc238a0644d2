"""Repeated lines, paragraphs and word n-grams, counted over a batch's UTF-8 and its token stream.

Words are told apart by their 64-bit keys (`curate.words.token_type`), lines, paragraphs and n-grams by 64-bit hashes.
Among a million different ones some two share a hash with a probability of 3 in 100 million; then a repeat too many would
be counted.

Most n-grams occur once. What occurs once is passed over as early as it can be told: an n-gram is repeated only if the two
(n-1)-grams in it are, and words written together are repeated only if their first bytes are. The values are those
of a plain count; `tests/filter/plain_filters.py` is that plain count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text.kinds import PRIME
from curate.text.lines import (
    CR,
    LF,
    WIDE_LEAD,
    Bytes,
    Uint64s,
    blocks_apart,
    drop_space,
    line_end_size,
    line_stop,
    mixed,
    num_chars,
    place_of,
    possible_line_ends,
    skip_space,
    table_size,
    was_there,
)
from curate.words import Texts, Tokens

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CURATE, DATATROVE = 0, 1  # whose lines, paragraphs and equal n-grams
TOP_LONGEST, LONGEST = 4, 10  # words of an n-gram
NUM_COLUMNS = 14

_PRIME = np.uint64(PRIME)
_OTHER = np.uint64(0xD6E8FEB86659FD93)  # no power of PRIME: a pair of words is not the two written together
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_32 = np.uint64(32)
_HEAD = 16  # bytes that words written together must share before they are compared
_NUM_POWERS = 512


class _Scratch(NamedTuple):  # room for the largest document of the batch
    table: Uint64s  # hash table: keys; `counts` and `firsts` lie beside it
    counts: Int32s
    firsts: Int32s  # first position of an n-gram
    places: Int32s  # positions that are still looked at, ascending
    slots: Int32s  # place in the table of each of those
    grams: Int32s  # by position: the first position of the n-gram there, -1 if it occurs once
    seen: Int32s  # by first position of an n-gram: the n at which the reading met it
    chars: Int64s  # characters in all words before each word, and in all
    sizes: Int64s  # bytes, likewise
    prefix: Uint64s  # key of all words before each word written together
    joined: Bytes  # all words written together
    powers: Uint64s  # PRIME ** n


@compiled
def measure(texts: Texts, tokens: Tokens, variant: int, out: Floats) -> None:
    """Write the columns of `GopherRepetition.adds` of each row into `out`, shape (rows, NUM_COLUMNS).

    Args:
        texts: The texts.
        tokens: Their words.
        variant: CURATE or DATATROVE.
        out: Receives the values.
    """
    data, starts, ends, offsets = texts.data, texts.starts, texts.ends, tokens.offsets
    most_words, most_lines, most_bytes = 0, 0, 0
    for row in range(len(starts)):
        most_words = max(most_words, offsets[row + 1] - offsets[row])
        most_lines = max(most_lines, possible_line_ends(data, starts[row], ends[row]) + 1)
        most_bytes = max(most_bytes, ends[row] - starts[row])
    room = table_size(max(most_words, most_lines))
    most_joined = most_bytes if variant == DATATROVE else 0
    powers = np.ones(_NUM_POWERS, np.uint64)
    for n in range(1, _NUM_POWERS):
        powers[n] = powers[n - 1] * _PRIME
    scratch = _Scratch(
        np.empty(room, np.uint64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(most_words + 1, np.int32),
        np.empty(most_words + 1, np.int32),
        np.empty(most_words + 1, np.int32),
        np.empty(most_words + 1, np.int32),
        np.empty(most_words + 1, np.int64),
        np.empty(most_words + 1, np.int64),
        np.empty(most_words + 1, np.uint64),
        np.empty(most_joined, np.uint8),
        powers,
    )
    for row in range(len(starts)):
        start, stop = starts[row], ends[row]
        chars = num_chars(data, start, stop)
        out[row, 0] = chars
        for column in range(1, NUM_COLUMNS):
            out[row, column] = 0.0
        if start == stop:
            continue
        size = table_size(possible_line_ends(data, start, stop) + 1)
        if variant == DATATROVE:
            total, again, again_chars = _split_repeats(data, start, stop, 1, scratch.table, size)
            first, behind = skip_space(data, start, stop), stop
            blocks, blocks_again, block_chars = _split_repeats(
                data, first, drop_space(data, first, behind), 2, scratch.table, size
            )
        else:
            total, again, again_chars = _line_repeats(data, start, stop, scratch.table, size)
            blocks, blocks_again, block_chars = _block_repeats(data, start, stop, scratch.table, size)
        out[row, 1] = again / max(total, 1)
        out[row, 2] = blocks_again / max(blocks, 1)
        out[row, 3] = again_chars / chars
        out[row, 4] = block_chars / chars
        begin, count = offsets[row], offsets[row + 1] - offsets[row]
        scratch.chars[0] = 0
        for t in range(count):
            scratch.chars[t + 1] = scratch.chars[t] + tokens.chars[begin + t]
        _ngram_repeats(tokens.key, begin, count, chars, variant == DATATROVE, scratch, out[row])
        if variant == DATATROVE and count >= 5:
            _join(data, start, tokens, begin, count, scratch)
            _joined_repeats(count, chars, scratch, out[row])


# -- lines and paragraphs ----------------------------------------------------------------------------------------------


@compiled
def _split_repeats(data: Bytes, start: int, stop: int, feeds: int, table: Uint64s, size: int) -> tuple[int, int, int]:
    """Count the pieces between runs of at least `feeds` line feeds, empty ones at the ends included (`re.split`).

    Returns:
        The pieces, those that occurred before, and the characters in the latter.
    """
    table[:size] = _NONE
    total, again, chars = 0, 0, 0
    first = i = start
    while True:
        if i < stop and data[i] != LF:
            i += 1
            continue
        behind = i
        while behind < stop and data[behind] == LF:
            behind += 1
        if i < stop and behind - i < feeds:
            i = behind
            continue
        total += 1
        if was_there(data, first, i, table, size):
            again += 1
            chars += num_chars(data, first, i)
        if i >= stop:
            return total, again, chars
        first = i = behind


@compiled
def _line_repeats(data: Bytes, start: int, stop: int, table: Uint64s, size: int) -> tuple[int, int, int]:
    """Count the lines of `split_lines`; what is returned is that of `count_repeats`."""
    table[:size] = _NONE
    total, again, chars = 0, 0, 0
    i = start
    while i < stop:
        end = line_stop(data, i, stop)
        last = drop_space(data, i, end)
        if last > i:
            total += 1
            if was_there(data, i, last, table, size):
                again += 1
                chars += num_chars(data, i, last)
        i = end + line_end_size(data, end, stop) if end < stop else stop
    return total, again, chars


@compiled
def _block_repeats(data: Bytes, start: int, stop: int, table: Uint64s, size: int) -> tuple[int, int, int]:
    """Count the blocks of `split_paragraphs`; what is returned is that of `count_repeats`."""
    table[:size] = _NONE
    total, again, chars = 0, 0, 0
    first = i = start
    while first < stop:
        behind = i
        if i < stop:
            if data[i] == LF or data[i] == CR or data[i] == WIDE_LEAD:
                behind = blocks_apart(data, i, stop)
            if behind == i:
                i += 1
                continue
        begin = skip_space(data, first, i)
        last = drop_space(data, begin, i)
        if last > begin:
            total += 1
            if was_there(data, begin, last, table, size):
                again += 1
                chars += num_chars(data, begin, last)
        if i >= stop:
            break
        first = i = behind
    return total, again, chars


# -- n-grams -----------------------------------------------------------------------------------------------------------


@compiled
def _ngram_repeats(
    keys: Uint64s, begin: int, count: int, text_chars: int, only_top: bool, scratch: _Scratch, out: Floats
) -> None:
    """Write the shares of the most frequent 2- to 4-gram and, unless `only_top`, of the repeated 5- to 10-grams."""
    if count < 2:
        return
    table, counts, firsts, slots, grams = scratch.table, scratch.counts, scratch.firsts, scratch.slots, scratch.grams
    places = scratch.places
    size = table_size(count)
    table[:size] = _NONE
    for t in range(count - 1):
        key = mixed(keys[begin + t] * _OTHER + keys[begin + t + 1])
        if key == _NONE:
            key = _ONE
        place = place_of(table, size, key)
        if table[place] == key:
            counts[place] += 1
        else:
            table[place], counts[place], firsts[place] = key, 1, t
        places[t], slots[t] = t, place
    grams[:count] = -1
    left, most, where = _keep_repeated(count - 1, scratch)
    out[5] = _top_share(2, most, where, scratch.chars, text_chars)
    scratch.seen[:count] = 0
    for n in range(3, LONGEST + 1):
        if n > count or (only_top and n > TOP_LONGEST):
            break
        size = table_size(left)
        table[:size] = _NONE
        looked_at, before = 0, -1
        for index in range(left):
            t = places[index]
            if grams[t + 1] >= 0:
                pair = np.uint64(grams[t]) << _32 | np.uint64(grams[t + 1])  # the two (n-1)-grams: exact
                key = mixed(pair + _ONE)
                place = place_of(table, size, key)
                if table[place] == key:
                    counts[place] += 1
                else:
                    table[place], counts[place], firsts[place] = key, 1, t
                places[looked_at], slots[looked_at] = t, place
                looked_at += 1
            if before >= 0:
                grams[before] = -1  # one behind: the next position still reads this one's
            before = t
        if before >= 0:
            grams[before] = -1
        left, most, where = _keep_repeated(looked_at, scratch)
        if n <= TOP_LONGEST:
            out[3 + n] = _top_share(n, most, where, scratch.chars, text_chars)
        else:
            out[3 + n] = _read_once(n, left, scratch) / text_chars


@compiled
def _keep_repeated(looked_at: int, scratch: _Scratch) -> tuple[int, int, int]:
    """Keep the places of n-grams that occur twice or more, and note which n-gram each is.

    Returns:
        How many are left; how often the most frequent n-gram occurs, and its first position: of equally frequent ones the
        first in the text, so that it is 1 and 0 where none is repeated.
    """
    left, most, where = 0, 1, 0
    for index in range(looked_at):
        t, place = scratch.places[index], scratch.slots[index]
        times, first = scratch.counts[place], scratch.firsts[place]
        if first == t and times > most:
            most, where = times, t
        if times >= 2:
            scratch.places[left] = t
            scratch.grams[t] = first
            left += 1
    return left, most, where


@compiled
def _top_share(n: int, most: int, where: int, chars: Int64s, text_chars: int) -> float:
    """Return the share of all occurrences of an n-gram, its words with a space between them."""
    share: float = (chars[where + n] - chars[where] + n - 1) * most / text_chars
    return share


@compiled
def _read_once(n: int, left: int, scratch: _Scratch) -> int:
    """Return the characters in n-grams that were read before; a counted n-gram is skipped as a whole."""
    counted, free = 0, 0
    for index in range(left):
        t = scratch.places[index]
        if t < free:
            continue
        gram = scratch.grams[t]
        if scratch.seen[gram] == n:
            counted += scratch.chars[t + n] - scratch.chars[t]
            free = t + n
        else:
            scratch.seen[gram] = n
    return counted


# -- n-grams as datatrove compares them: written together --------------------------------------------------------------


@compiled
def _join(data: Bytes, start: int, tokens: Tokens, begin: int, count: int, scratch: _Scratch) -> None:
    """Write the words together, and find the positions whose next _HEAD bytes occur at another position too."""
    joined, ends, prefix = scratch.joined, scratch.sizes, scratch.prefix
    ends[0], prefix[0] = 0, _NONE
    place = 0
    for t in range(count):
        first = start + tokens.start[begin + t]
        size = int(tokens.size[begin + t])
        for i in range(size):
            joined[place + i] = data[first + i]
        place += size
        ends[t + 1] = place
        prefix[t + 1] = prefix[t] * _power(scratch.powers, size) + tokens.key[begin + t]
    room = table_size(count)
    table, counts, slots = scratch.table, scratch.counts, scratch.slots
    table[:room] = _NONE
    for t in range(count):
        if ends[t] + _HEAD > place:
            slots[t] = -1
            continue
        low, high = _eight(joined, ends[t]), _eight(joined, ends[t] + 8)
        key = mixed(low * _OTHER + high)
        if key == _NONE:
            key = _ONE
        at = place_of(table, room, key)
        if table[at] == key:
            counts[at] += 1
        else:
            table[at], counts[at] = key, 1
        slots[t] = at


@compiled
def _eight(joined: Bytes, i: int) -> np.uint64:
    value = _NONE
    for step in range(8):
        value |= np.uint64(joined[i + step]) << np.uint64(8 * step)
    return value


@compiled
def _power(powers: Uint64s, n: int) -> np.uint64:
    """Return PRIME ** n."""
    result: np.uint64 = powers[n % _NUM_POWERS]
    for _ in range(n // _NUM_POWERS):
        result *= powers[_NUM_POWERS - 1] * _PRIME
    return result


@compiled
def _joined_repeats(count: int, text_chars: int, scratch: _Scratch, out: Floats) -> None:
    """Write the shares of the 5- to 10-grams that were read before, equal if they are so written together."""
    ends, prefix, chars, slots, places = scratch.sizes, scratch.prefix, scratch.chars, scratch.slots, scratch.places
    left = 0
    for t in range(count - 4):
        repeated = slots[t] >= 0 and scratch.counts[slots[t]] >= 2
        scratch.grams[t] = 1 if repeated else 0
        if repeated or ends[t + 5] - ends[t] < _HEAD:
            places[left] = t
            left += 1
    for n in range(5, LONGEST + 1):
        size = table_size(left)
        scratch.table[:size] = _NONE
        counted, free = 0, 0
        for index in range(left):
            t = places[index]
            if t < free:
                continue
            if t + n > count:
                break
            length = ends[t + n] - ends[t]
            if length >= _HEAD and scratch.grams[t] == 0:
                continue
            key = mixed(prefix[t + n] - prefix[t] * _power(scratch.powers, length) + np.uint64(length) * _OTHER)
            if key == _NONE:
                key = _ONE
            place = place_of(scratch.table, size, key)
            if scratch.table[place] == key:
                counted += chars[t + n] - chars[t]
                free = t + n
            else:
                scratch.table[place] = key
        out[3 + n] = counted / text_chars
