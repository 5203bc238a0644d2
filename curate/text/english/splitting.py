"""The splitter `english`: the tokens of `curate.text.english.rules`, found in the UTF-8 of a whole batch by one kernel.

Nothing is remembered from one chunk to the next: there is nothing to warm up, and no text is slower for being new.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text.characters import Bytes, Int32s, Int64s, TokenBuffers, decode, enlarged, make_room, trimmed
from curate.text.english.affixes import (
    find_exception,
    infix_size,
    is_address,
    key_between,
    may_be_exception,
    name_of,
    prefix_size,
    suffix_size,
)
from curate.text.english.tables import (
    BITS,
    CHANGED_PAIRS_AT,
    IS_EXCEPTION,
    LONGEST_NAME,
    MOST_PARTS,
    NUM_PARTS,
    NUM_SLOTS,
    NUM_TOKENS,
    NUMBER,
    PAIRS_AT,
    PARTS,
    SIZE,
    SPACE,
    SPECIAL,
    TEXT,
    TOKENS,
    Uint32s,
    tables,
)
from curate.text.kinds import KIND_LETTER, KIND_PUNCTUATION, KIND_SENTENCE_END, KIND_SYMBOLS, KIND_WORD, PRIME

_PRIME, _ONE, _TO_PAIR, _TO_SLOT = np.uint64(PRIME), np.uint64(1), np.uint64(48), np.uint64(51)
_ANY, _ALL, _SINGLE = KIND_LETTER | KIND_WORD, KIND_SYMBOLS | KIND_PUNCTUATION, KIND_SENTENCE_END
_BLANK, _STOP = 0x20, 0x2E
_CUTS, _SUFFIXES = 0, 1  # of a chunk: where its tokens end; where its suffixes begin, the last one first
_SPANS, _TAKEN, _STARTS, _SIZES = range(4)  # of the tokens of chunks that stand side by side

Room = npt.NDArray[np.int32]  # to work in: shape (4, bytes of the longest row + 1)


def english_tokens(data: Bytes, starts: Int64s, ends: Int64s) -> tuple[TokenBuffers, Int64s]:
    """Return the tokens of all rows one behind the other, and where those of each row begin, shape (rows + 1,).

    Args:
        data: UTF-8 of all rows.
        starts: Where each row's text begins, shape (rows,).
        ends: Where it ends.
    """
    classes, known = tables()
    offsets = np.zeros(len(starts) + 1, np.int64)
    sizes = ends - starts
    out, row = make_room(int(sizes.sum()) // 4 + 64), 0
    room = np.empty((4, int(sizes.max(initial=0)) + 1), np.int32)
    while True:
        row = _split_rows(data, starts, ends, row, classes, known, room, out, offsets)
        if row == len(starts):
            return trimmed(out, int(offsets[-1])), offsets
        out = enlarged(out, int(offsets[row]), 2 * len(out.key) + int(sizes[row]))


@compiled
def _split_rows(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    row: int,
    classes: Uint32s,
    known: Int32s,
    room: Room,
    out: TokenBuffers,
    offsets: Int64s,
) -> int:
    """Split rows from `row` on; return the row whose tokens had no room, or the number of rows."""
    while row < len(starts):
        begin, stop = starts[row], ends[row]
        i = chunk_end = begin  # of the chunk before
        count = run = offsets[row]  # first token of the chunks that stand side by side
        is_apart = False  # whether an exception may have been taken apart in the run
        while True:
            i = _skip_space(data, i, stop, classes)
            if i >= stop or i != chunk_end + 1 or data[chunk_end] != _BLANK:
                if is_apart:
                    count = _put_together(data, begin, run, count, classes, known, room, out)
                    if count < 0:
                        return row
                run, is_apart = count, False
            if i >= stop:
                break
            before = count
            chunk_end, count = _split_chunk(data, begin, i, stop, classes, known, room, out, count)
            if count < 0:
                return row
            for token in range(before, count - 1):
                is_apart = is_apart or _may_be_parts(token, CHANGED_PAIRS_AT, known, out)
            i = chunk_end
        row += 1
        offsets[row] = count
    return row


@compiled
def _may_be_parts(token: int, pairs_at: int, known: Int32s, out: TokenBuffers) -> bool:
    """Return False if no exception, of those in a section of pairs, is taken apart into this token and the next ones."""
    pair = np.int64((out.key[token] * _PRIME ^ out.key[token + 1]) * _PRIME >> _TO_PAIR)
    return bool(known[pairs_at + (pair >> 5)] >> (pair & 31) & 1 != 0)


@compiled
def _skip_space(data: Bytes, i: int, stop: int, classes: Uint32s) -> int:
    """Return where the next chunk begins, or `stop`."""
    while i < stop:
        code, step = decode(data, i, stop)
        if classes[code] & SPACE == 0:
            break
        i += step
    return i


@compiled
def _split_chunk(
    data: Bytes,
    begin: int,
    first: int,
    stop: int,
    classes: Uint32s,
    known: Int32s,
    room: Room,
    out: TokenBuffers,
    count: int,
) -> tuple[int, int]:
    """Write the tokens of the chunk at `first`; return its end and how many tokens there are then, -1: no room."""
    i, chars, key = first, 0, np.uint64(0)
    some, every = 0, -1
    while i < stop:
        code, step = decode(data, i, stop)
        bits = int(classes[code])
        if bits & SPACE != 0:
            break
        some |= bits
        every &= bits
        chars += 1
        for place in range(i, i + step):
            key = key * _PRIME + np.uint64(data[place]) + _ONE
        i += step
    if count + chars > len(out.key):
        return i, -1
    num_cuts = 0
    if some & SPECIAL != 0 or (some & NUMBER != 0 and every & NUMBER == 0):
        num_cuts = _cut(data, first, i, some & NUMBER != 0, classes, known, room)
    elif may_be_exception(data, first, i, known):
        fields = name_of(data, first, i, key, known)
        if fields > 0 and known[fields + BITS] & IS_EXCEPTION != 0:
            num_cuts = _cut_exception(0, fields, known, room, 0)
    if num_cuts == 0:
        out.key[count] = key
        out.start[count] = first - begin
        out.size[count] = i - first
        out.chars[count] = chars
        out.kind[count] = _kind(some, every, chars)
        return i, count + 1
    for cut in range(num_cuts):
        end = room[_CUTS, cut] + first
        start = room[_CUTS, cut - 1] + first if cut > 0 else first
        _write(data, begin, start, end, classes, out, count)
        count += 1
    return i, count


@compiled
def _kind(some: int, every: int, chars: int) -> int:
    """Return the kind of a token from the bits that some and all of its characters have."""
    kind = (some & _ANY) | (every & _ALL)
    return kind | (every & _SINGLE) if chars == 1 else kind


@compiled
def _write(data: Bytes, begin: int, first: int, end: int, classes: Uint32s, out: TokenBuffers, count: int) -> None:
    """Write the token data[first:end] behind the first `count`."""
    some, every, chars, i = 0, -1, 0, first
    while i < end:
        code, step = decode(data, i, end)
        bits = int(classes[code])
        some |= bits
        every &= bits
        chars += 1
        i += step
    out.key[count] = key_between(data, first, end)
    out.start[count] = first - begin
    out.size[count] = end - first
    out.chars[count] = chars
    out.kind[count] = _kind(some, every, chars)


@compiled
def _cut(data: Bytes, first: int, end: int, has_number: bool, classes: Uint32s, known: Int32s, room: Room) -> int:
    """Write where the tokens of the chunk data[first:end] end, counted from `first`; return how many there are."""
    origin, chunk_end = first, end
    num_cuts = num_suffixes = fields = 0
    while first < end:
        fields = find_exception(data, first, end, known)
        if fields > 0:
            break
        prefix = prefix_size(data, first, end, classes)
        if prefix > 0:
            fields = find_exception(data, first + prefix, end, known)
            if fields > 0:
                first += prefix
                room[_CUTS, num_cuts] = first - origin
                num_cuts += 1
                break
        suffix = suffix_size(data, first + prefix, end, has_number, classes, known)
        if suffix > 0:
            fields = find_exception(data, first, end - suffix, known)
            if fields > 0:
                end -= suffix
                room[_SUFFIXES, num_suffixes] = end - origin
                num_suffixes += 1
                break
        if prefix + suffix == 0:
            break
        if prefix > 0:
            first += prefix
            room[_CUTS, num_cuts] = first - origin
            num_cuts += 1
        if suffix > 0:
            end -= suffix
            room[_SUFFIXES, num_suffixes] = end - origin
            num_suffixes += 1
    if fields > 0:
        num_cuts = _cut_exception(first - origin, fields, known, room, num_cuts)
    elif first < end:
        num_cuts = _cut_rest(data, origin, first, end, classes, room, num_cuts)
    while num_suffixes > 0:
        num_suffixes -= 1
        room[_CUTS, num_cuts] = room[_SUFFIXES, num_suffixes - 1] if num_suffixes > 0 else chunk_end - origin
        num_cuts += 1
    return num_cuts


@compiled
def _cut_exception(place: int, fields: int, known: Int32s, room: Room, num_cuts: int) -> int:
    """Write where the tokens of an exception end that begins at `place`; return how many there are then."""
    for token in range(known[fields + NUM_TOKENS]):
        place += known[fields + TOKENS + token]
        room[_CUTS, num_cuts] = place
        num_cuts += 1
    return num_cuts


@compiled
def _cut_rest(data: Bytes, origin: int, first: int, end: int, classes: Uint32s, room: Room, num_cuts: int) -> int:
    """Write where the tokens of what is left without affixes end; return how many there are then."""
    has_stop = False
    for place in range(first + 1, end - 1):
        has_stop = has_stop or data[place] == _STOP
    if not has_stop or not is_address(data, first, end, classes):
        start = i = first
        while i < end:
            code, step = decode(data, i, end)
            size = infix_size(data, i, first, end, code, step, classes)
            if size > 0 and i > first:  # at the beginning, it cuts nothing off
                if i > start:
                    room[_CUTS, num_cuts] = i - origin
                    num_cuts += 1
                start = i + size
                room[_CUTS, num_cuts] = start - origin
                num_cuts += 1
            i += max(size, step)
        if start == end:
            return num_cuts
    room[_CUTS, num_cuts] = end - origin
    return num_cuts + 1


# ---- exceptions that were taken apart


@compiled
def _put_together(
    data: Bytes,
    begin: int,
    run: int,
    count: int,
    classes: Uint32s,
    known: Int32s,
    room: Room,
    out: TokenBuffers,
) -> int:
    """Put together what was taken apart among the tokens from `run` on; return how many there are then, -1: no room.

    The longest first, among equals the first; what overlaps one that was looked at before is left as it is.
    """
    last = run  # token that an exception may begin with
    for token in range(run, count):
        is_such = token + 1 < count and _may_be_parts(token, PAIRS_AT, known, out)
        room[_SPANS, token - run], room[_TAKEN, token - run] = -1 if is_such else 0, 0
        last = token if is_such else last
    for num_parts in range(MOST_PARTS, 1, -1):
        for token in range(run, min(last, count - num_parts) + 1):
            if room[_SPANS, token - run] == 0 or _taken_apart(data, begin, token, num_parts, known, out) == 0:
                continue
            if not room[_TAKEN, token - run] and not room[_TAKEN, token - run + num_parts - 1]:
                room[_SPANS, token - run] = num_parts
            for part in range(token, token + num_parts):
                room[_TAKEN, part - run] = 1
    num_tokens = _joined(data, begin, run, count, known, room, out)
    if run + num_tokens > len(out.key):
        return -1
    for token in range(num_tokens):
        first = begin + room[_STARTS, token]
        _write(data, begin, first, first + room[_SIZES, token], classes, out, run + token)
    return run + num_tokens


@compiled
def _joined(data: Bytes, begin: int, run: int, count: int, known: Int32s, room: Room, out: TokenBuffers) -> int:
    """Write starts and sizes of the tokens from `run` on, exceptions put together; return how many there are."""
    num_tokens, token = 0, run
    while token < count:
        num_parts = max(0, room[_SPANS, token - run])
        is_one_chunk = num_parts > 0
        for part in range(token, token + num_parts - 1):
            is_one_chunk = is_one_chunk and out.start[part] + out.size[part] == out.start[part + 1]
        fields = _taken_apart(data, begin, token, num_parts, known, out) if is_one_chunk else 0
        if fields > 0:
            start = out.start[token]
            for index in range(known[fields + NUM_TOKENS]):
                room[_STARTS, num_tokens] = start
                room[_SIZES, num_tokens] = known[fields + TOKENS + index]
                start += known[fields + TOKENS + index]
                num_tokens += 1
            token += num_parts
        else:
            room[_STARTS, num_tokens] = out.start[token]
            room[_SIZES, num_tokens] = out.size[token]
            num_tokens += 1
            token += 1
    return num_tokens


@compiled
def _taken_apart(data: Bytes, begin: int, token: int, num_parts: int, known: Int32s, out: TokenBuffers) -> int:
    """Return where the fields of the exception that the next tokens are the parts of begin in `known`, or 0."""
    key, num_bytes = np.uint64(0), 0
    for part in range(token, token + num_parts):
        num_bytes += out.size[part]
        if num_bytes > LONGEST_NAME:
            return 0
        start = begin + out.start[part]
        for place in range(start, start + out.size[part]):
            key = key * _PRIME + np.uint64(data[place]) + _ONE
    slot = np.int64(key >> _TO_SLOT)
    while known[slot] != 0:
        fields = known[slot]
        is_such = known[fields + NUM_PARTS] == num_parts and known[fields + SIZE] == num_bytes
        if is_such and _are_parts(data, begin, token, fields, known, out):
            return int(fields)
        slot = (slot + 1) & (NUM_SLOTS - 1)
    return 0


@compiled
def _are_parts(data: Bytes, begin: int, token: int, fields: int, known: Int32s, out: TokenBuffers) -> bool:
    """Return whether the next tokens are the parts that an exception is taken apart into."""
    text = known[fields + TEXT]
    for part in range(known[fields + NUM_PARTS]):
        if out.size[token + part] != known[fields + PARTS + part]:
            return False
        start = begin + out.start[token + part]
        for place in range(out.size[token + part]):
            if data[start + place] != known[text + place]:
                return False
        text += out.size[token + part]
    return True
