"""The splitter `english`: the tokens of `curate.text.english.rules`, found in the UTF-8 of a whole batch by one kernel.

Nothing is remembered from one chunk to the next: there is nothing to warm up, and no text is slower for being new.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from curate.compiled import compiled
from curate.text.characters import Bytes, Int32s, Int64s, TokenBuffers, decode, enlarged, make_room, trimmed
from curate.text.english.affixes import (
    LONGEST_NAME,
    find_exception,
    infix_size,
    is_address,
    key_between,
    number_of,
    prefix_size,
    suffix_size,
)
from curate.text.english.tables import NUMBER, SPACE, SPECIAL, Tables, tables
from curate.text.kinds import KIND_LETTER, KIND_PUNCTUATION, KIND_SENTENCE_END, KIND_SYMBOLS, KIND_WORD, PRIME

_PRIME, _ONE, _TO_PAIR = np.uint64(PRIME), np.uint64(1), np.uint64(48)
_ANY, _ALL, _SINGLE = KIND_LETTER | KIND_WORD, KIND_SYMBOLS | KIND_PUNCTUATION, KIND_SENTENCE_END
_BLANK, _STOP = 0x20, 0x2E
_MOST_PARTS = 11  # of an exception that is taken apart


class _Scratch(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """Room to work in.

    Attributes:
        suffixes: Where each suffix of the chunk begins, the last one first, shape (bytes of the longest row,).
        spans: Tokens of the exception that begins with a token, 0 if none does, shape of the tokens.
        taken: Whether a token was looked at as a part of one, shape of the tokens.
    """

    suffixes: Int32s
    spans: Bytes
    taken: Bytes


def english_tokens(data: Bytes, starts: Int64s, ends: Int64s) -> tuple[TokenBuffers, Int64s]:
    """Return the tokens of all rows one behind the other, and where those of each row begin, shape (rows + 1,).

    Args:
        data: UTF-8 of all rows.
        starts: Where each row's text begins, shape (rows,).
        ends: Where it ends.
    """
    given = tables()
    offsets = np.zeros(len(starts) + 1, np.int64)
    sizes = ends - starts
    longest = int(sizes.max(initial=0))
    room = int(sizes.sum()) // 4 + 64
    out, row = make_room(room), 0
    suffixes = np.empty(longest + 1, np.int32)
    while True:
        scratch = _Scratch(suffixes, np.empty(room, np.uint8), np.empty(room, np.uint8))
        row = _split_rows(data, starts, ends, row, given, scratch, out, offsets)
        if row == len(starts):
            return trimmed(out, int(offsets[-1])), offsets
        room = 2 * room + int(sizes[row])
        out = enlarged(out, int(offsets[row]), room)


@compiled
def _split_rows(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    row: int,
    tables: Tables,
    scratch: _Scratch,
    out: TokenBuffers,
    offsets: Int64s,
) -> int:
    """Split rows from `row` on; return the row whose tokens had no room, or the number of rows."""
    while row < len(starts):
        count = _split_row(data, starts[row], ends[row], tables, scratch, out, offsets[row])
        if count < 0:
            return row
        row += 1
        offsets[row] = count
    return row


@compiled
def _split_row(
    data: Bytes, begin: int, stop: int, tables: Tables, scratch: _Scratch, out: TokenBuffers, count: int
) -> int:
    """Write the tokens of data[begin:stop] behind the first `count`; return how many there are then, or -1."""
    i = begin
    chunk_end = -1  # of the chunk before
    run = count  # first token of the chunks that stand side by side
    is_apart = False  # whether an exception may have been taken apart in the run
    while i < stop:
        code, step = decode(data, i, stop)
        bits = tables.classes[code]
        if bits & SPACE != 0:
            i += step
            continue
        first, some, every, chars, key = i, bits, bits, 0, np.uint64(0)
        while bits & SPACE == 0:
            some |= bits
            every &= bits
            chars += 1
            for place in range(i, i + step):
                key = key * _PRIME + np.uint64(data[place]) + _ONE
            i += step
            if i >= stop:
                break
            code, step = decode(data, i, stop)
            bits = tables.classes[code]
        if count + chars > len(out.key):
            return -1
        if first != chunk_end + 1 or data[chunk_end] != _BLANK:
            if is_apart:
                count = _put_together(data, begin, run, count, tables, scratch, out)
                if count < 0 or count + chars > len(out.key):
                    return -1
            run, is_apart = count, False
        chunk_end = i
        if some & SPECIAL == 0 and (some & NUMBER == 0 or every & NUMBER != 0):
            number = -1
            if i - first <= LONGEST_NAME and tables.may_be[data[first], i - first]:
                number = number_of(data, first, i, key, tables)
            if number >= 0 and tables.is_exception[number]:
                count = _emit_exception(data, begin, first, number, tables, out, count)
            else:
                out.key[count] = key
                out.start[count] = first - begin
                out.size[count] = i - first
                out.chars[count] = chars
                out.kind[count] = (some & _ANY) | (every & _ALL) | (every & _SINGLE if chars == 1 else 0)
                count += 1
        else:
            before = count
            count = _split_chunk(data, begin, first, i, some & NUMBER != 0, tables, scratch, out, count)
            for token in range(before, count - 1):
                pair = (out.key[token] * _PRIME ^ out.key[token + 1]) * _PRIME >> _TO_PAIR
                is_apart = is_apart or tables.pairs[pair] != 0
    if is_apart:
        count = _put_together(data, begin, run, count, tables, scratch, out)
    return count


@compiled
def _split_chunk(
    data: Bytes,
    begin: int,
    first: int,
    end: int,
    has_number: bool,
    tables: Tables,
    scratch: _Scratch,
    out: TokenBuffers,
    count: int,
) -> int:
    """Write the tokens of the chunk data[first:end]; return how many there are then."""
    num_suffixes, chunk_end = 0, end
    number = -1
    while first < end:
        number = find_exception(data, first, end, tables)
        if number >= 0:
            break
        prefix = prefix_size(data, first, end, tables)
        if prefix > 0:
            number = find_exception(data, first + prefix, end, tables)
            if number >= 0:
                count = _emit(data, begin, first, first + prefix, tables, out, count)
                first += prefix
                break
        suffix = suffix_size(data, first + prefix, end, has_number, tables)
        if suffix > 0:
            number = find_exception(data, first, end - suffix, tables)
            if number >= 0:
                end -= suffix
                scratch.suffixes[num_suffixes] = end - begin
                num_suffixes += 1
                break
        if prefix + suffix == 0:
            break
        if prefix > 0:
            count = _emit(data, begin, first, first + prefix, tables, out, count)
            first += prefix
        if suffix > 0:
            end -= suffix
            scratch.suffixes[num_suffixes] = end - begin
            num_suffixes += 1
    if number >= 0:
        count = _emit_exception(data, begin, first, number, tables, out, count)
    elif first < end:
        count = _split_rest(data, begin, first, end, tables, out, count)
    while num_suffixes > 0:
        num_suffixes -= 1
        start = begin + scratch.suffixes[num_suffixes]
        stop = begin + scratch.suffixes[num_suffixes - 1] if num_suffixes > 0 else chunk_end
        count = _emit(data, begin, start, stop, tables, out, count)
    return count


@compiled
def _split_rest(data: Bytes, begin: int, first: int, end: int, tables: Tables, out: TokenBuffers, count: int) -> int:
    """Write what is left of a chunk without its affixes; return how many tokens there are then."""
    has_stop = False
    for place in range(first + 1, end - 1):
        has_stop = has_stop or data[place] == _STOP
    if has_stop and is_address(data, first, end, tables):
        return _emit(data, begin, first, end, tables, out, count)
    start = i = first
    while i < end:
        code, step = decode(data, i, end)
        size = infix_size(data, i, first, end, code, step, tables)
        if size == 0:
            i += step
            continue
        if i > first:  # nothing stands before it otherwise
            if i > start:
                count = _emit(data, begin, start, i, tables, out, count)
            count = _emit(data, begin, i, i + size, tables, out, count)
            start = i + size
        i += size
    if start < end:
        count = _emit(data, begin, start, end, tables, out, count)
    return count


@compiled
def _emit(data: Bytes, begin: int, first: int, end: int, tables: Tables, out: TokenBuffers, count: int) -> int:
    """Write the token data[first:end]; return how many there are then."""
    some, every, chars, i = 0, _ANY | _ALL | _SINGLE, 0, first
    while i < end:
        code, step = decode(data, i, end)
        bits = tables.classes[code]
        some |= bits
        every &= bits
        chars += 1
        i += step
    out.key[count] = key_between(data, first, end)
    out.start[count] = first - begin
    out.size[count] = end - first
    out.chars[count] = chars
    out.kind[count] = (some & _ANY) | (every & _ALL) | (every & _SINGLE if chars == 1 else 0)
    return count + 1


@compiled
def _emit_exception(
    data: Bytes, begin: int, first: int, number: int, tables: Tables, out: TokenBuffers, count: int
) -> int:
    """Write the tokens of an exception that begins at `first`; return how many there are then."""
    for token in range(tables.sizes.shape[1]):
        size = tables.sizes[number, token]
        if size == 0:
            break
        count = _emit(data, begin, first, first + size, tables, out, count)
        first += size
    return count


# ---- exceptions that were taken apart


@compiled
def _put_together(
    data: Bytes, begin: int, run: int, count: int, tables: Tables, scratch: _Scratch, out: TokenBuffers
) -> int:
    """Put together what was taken apart among the tokens from `run` on; return how many there are then, or -1: no room.

    The longest first, among equals the first; what overlaps one that was looked at before is left as it is.
    """
    spans, taken = scratch.spans, scratch.taken
    spans[run:count] = 0
    taken[run:count] = 0
    more = 0  # tokens that the exceptions have at most beyond their parts
    for size in range(_MOST_PARTS, 1, -1):
        for token in range(run, count - size + 1):
            number = _taken_apart(data, begin, token, size, tables, out)
            if number < 0:
                continue
            if not taken[token] and not taken[token + size - 1]:
                spans[token] = size
                more += max(0, int(np.count_nonzero(tables.sizes[number])) - size)
            taken[token : token + size] = 1
    if count + more > len(out.key):
        return -1
    if more > 0:  # what is still to be read moves out of the way
        for part in range(count - 1, run - 1, -1):
            _copy(out, part, part + more)
    kept, place = run, run + more
    while place < count + more:
        size = int(spans[place - more])
        number = _taken_apart(data, begin, place, size, tables, out) if size > 0 else -1
        is_one_chunk = True
        for part in range(place, place + size - 1):
            is_one_chunk = is_one_chunk and out.start[part] + out.size[part] == out.start[part + 1]
        if number >= 0 and tables.is_changed[number] and is_one_chunk:
            first = begin + out.start[place]
            kept = _emit_exception(data, begin, first, number, tables, out, kept)
            place += size
            continue
        for _ in range(max(size, 1)):
            _copy(out, place, kept)
            kept += 1
            place += 1
    return kept


@compiled
def _copy(out: TokenBuffers, token: int, to: int) -> None:
    out.key[to] = out.key[token]
    out.start[to] = out.start[token]
    out.size[to] = out.size[token]
    out.chars[to] = out.chars[token]
    out.kind[to] = out.kind[token]


@compiled
def _taken_apart(data: Bytes, begin: int, token: int, size: int, tables: Tables, out: TokenBuffers) -> int:
    """Return the number of the exception whose parts the next `size` tokens are, or -1."""
    key, num_bytes = np.uint64(0), 0
    for part in range(token, token + size):
        num_bytes += out.size[part]
        if num_bytes > LONGEST_NAME:
            return -1
        start = begin + out.start[part]
        for place in range(start, start + out.size[part]):
            key = key * _PRIME + np.uint64(data[place]) + _ONE
    slot = np.int64(key >> np.uint64(51))
    while tables.numbers[slot] >= 0:
        number = tables.numbers[slot]
        is_such = tables.keys[slot] == key and tables.is_exception[number]
        if is_such and _are_parts(data, begin, token, size, number, tables, out):
            return int(number)
        slot = (slot + 1) & (len(tables.numbers) - 1)
    return -1


@compiled
def _are_parts(data: Bytes, begin: int, token: int, size: int, number: int, tables: Tables, out: TokenBuffers) -> bool:
    """Return whether the next `size` tokens are the parts that an exception is taken apart into."""
    if size < tables.part_sizes.shape[1] and tables.part_sizes[number, size] != 0:
        return False
    place = tables.starts[number]
    for part in range(size):
        if out.size[token + part] != tables.part_sizes[number, part]:
            return False
        start = begin + out.start[token + part]
        for offset in range(out.size[token + part]):
            if data[start + offset] != tables.text[place + offset]:
                return False
        place += out.size[token + part]
    return bool(place == tables.starts[number + 1])
