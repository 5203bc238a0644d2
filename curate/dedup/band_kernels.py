"""Compiled kernels of finding equal keys: records split by key, runs of numbers packed into bytes, buckets, union-find.

The rules of `curate.dedup.kernels` hold here too: no fast-math, no parallel loops, signed and unsigned never mixed.

A key is one or two unsigned words (64 or 128 bits). Numbers are packed as LEB128: seven bits a byte, lowest first, the
high bit set on all bytes but the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Uint64s = npt.NDArray[np.uint64]
Uint32s = npt.NDArray[np.uint32]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Parents = npt.NDArray[Any]  # uint32 below 2^32 documents, else int64

_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S1, _S6, _S20, _S27, _S30, _S31 = (np.uint64(bits) for bits in (1, 6, 20, 27, 30, 31))
_ROWS = 128  # of 14 bands: 14 KiB, less than the first cache
_ONE, _LOW_6, _ALL = np.uint64(1), np.uint64(63), np.uint64(63)


_DIGITS = np.full(256, 255, np.uint8)  # value of a hexadecimal digit by its ASCII code
_DIGITS[48:58] = np.arange(10)
_DIGITS[65:71] = _DIGITS[97:103] = np.arange(10, 16)


@compiled
def parse_hex(digits: Bytes, out: Uint64s) -> bool:
    """Read 32 hexadecimal digits a row into two words, shape (rows, 2); return whether all were such digits."""
    wrong = np.uint8(0)
    for row in range(len(out)):
        for word in range(2):
            value = np.uint64(0)
            for place in range(16):
                digit = _DIGITS[digits[row * 32 + word * 16 + place]]
                wrong |= digit
                value = (value << np.uint64(4)) | np.uint64(digit)
            out[row, word] = value
    return bool(wrong < 16)


@compiled
def _part(key: np.uint64, skipped: int, bits: int) -> np.int64:
    """Return the number that `bits` of the key make, behind its first `skipped` bits."""
    return np.int64(((key << np.uint64(skipped)) >> _S1) >> (_ALL - np.uint64(bits)))


@compiled
def _mix(value: np.uint64) -> np.uint64:
    z = (value ^ (value >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@compiled
def _spread(keys: Uint64s, row: int, kind: int) -> np.uint64:
    """Return the key's first word, spread evenly.

    The mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection, and the other word is mixed in: keys stay
    equal or different. So whatever makes keys, partitions by leading bits are of one size but for the size of buckets.
    """
    z = keys[row, kind, 0]
    for word in range(1, keys.shape[2]):
        z ^= _mix(keys[row, kind, word])
    return _mix(z)


@compiled
def count_slices(keys: Uint64s, rows: Int64s, bits: int, kind: int, num_kinds: int, counts: Int64s) -> None:
    """Count the records of each slice.

    Args:
        keys: Shape (rows, kinds, words).
        rows: Those that count.
        bits: Leading bits that make the partition.
        kind: Of the first column.
        num_kinds: Slices of a partition, one a kind; slice = partition * num_kinds + kind.
        counts: By slice, added to.
    """
    for row in rows:
        for column in range(keys.shape[1]):
            counts[_part(_spread(keys, row, column), 0, bits) * num_kinds + kind + column] += 1


@compiled
def scatter(
    keys: Uint64s,
    rows: Int64s,
    docs: Uint32s,
    bits: int,
    kind: int,
    num_kinds: int,
    cursors: Int64s,
    out_keys: Uint64s,
    out_docs: Uint32s,
) -> None:
    """Write each record behind those of its slice, its first word spread.

    Args:
        keys: As for `count_slices`.
        rows: As for `count_slices`.
        docs: Of the same rows: the documents' numbers.
        bits: As for `count_slices`.
        kind: As for `count_slices`.
        num_kinds: As for `count_slices`.
        cursors: By slice: where its next record goes; moved on.
        out_keys: Shape (records, words).
        out_docs: Of the same records.
    """
    for start in range(0, len(rows), _ROWS):  # few rows, column by column: few places are written to in turns
        for column in range(keys.shape[1]):
            for i in range(start, min(start + _ROWS, len(rows))):
                row = rows[i]
                key = _spread(keys, row, column)
                one = _part(key, 0, bits) * num_kinds + kind + column
                at = cursors[one]
                cursors[one] = at + 1
                out_keys[at, 0] = key
                for word in range(1, keys.shape[2]):
                    out_keys[at, word] = keys[row, column, word]
                out_docs[at] = docs[i]


@compiled
def pack_ascending(docs: Uint32s, last: np.int64, out: Bytes) -> int:
    """Pack the distance of each document from the one before it, of the first from `last`; return the bytes written."""
    at = 0
    for i in range(len(docs)):
        gap = np.int64(docs[i]) - last
        last = np.int64(docs[i])
        while gap >= 128:
            out[at] = np.uint8((gap & 127) | 128)
            gap >>= 7
            at += 1
        out[at] = np.uint8(gap)
        at += 1
    return at


@compiled
def mark(keys: Uint64s, skipped: int, bits: int, part: int, seen: Uint64s, again: Uint64s) -> None:
    """Note in two bitmaps which keys were met, and which of them perhaps again.

    Args:
        keys: Shape (records, words).
        skipped: Leading bits that all keys share.
        bits: Bits behind those that tell parts apart.
        part: Only keys of this part are looked at.
        seen: Bits met, a power of two of words.
        again: Bits met twice or more, of the same size: the bit of every key that occurs twice, and of some that do not.
    """
    mask = np.uint64(len(seen) * 64 - 1)
    for i in range(len(keys)):
        key = keys[i, 0]
        if bits and _part(key, skipped, bits) != part:
            continue
        place = key & mask
        word = place >> _S6
        bit = _ONE << (place & _LOW_6)
        again[word] |= seen[word] & bit
        seen[word] |= bit


@compiled
def pick(
    keys: Uint64s,
    gaps: Bytes,
    base: int,
    skipped: int,
    bits: int,
    part: int,
    again: Uint64s,
    state: Int64s,
    out_keys: Uint64s,
    out_docs: Int64s,
    count: int,
) -> int:
    """Collect the records of one slice whose bit is marked in `again`, until the output is full.

    Args:
        keys: Of the slice, shape (records, words).
        gaps: What `pack_ascending` wrote of its documents, with last = -1.
        base: Added to every document.
        skipped: As in `mark`.
        bits: As in `mark`.
        part: As in `mark`.
        again: As `mark` left it.
        state: Where to go on: record, byte of `gaps`, last document; changed in place; (0, 0, -1) at the start.
        out_keys: Shape (at least count, words).
        out_docs: As long as `out_keys`.
        count: Records there are already.

    Returns:
        Records there are now; state[0] tells whether the slice is done.
    """
    mask = np.uint64(len(again) * 64 - 1)
    i, at, doc = state[0], state[1], state[2]
    while i < len(keys) and count < len(out_docs):
        gap = np.int64(gaps[at])
        at += 1
        if gap >= 128:
            gap &= 127
            shift = 7
            while True:
                byte = np.int64(gaps[at])
                at += 1
                gap |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
        doc += gap
        key = keys[i, 0]
        place = key & mask
        if (again[place >> _S6] >> (place & _LOW_6)) & _ONE and (bits == 0 or _part(key, skipped, bits) == part):
            for word in range(keys.shape[1]):
                out_keys[count, word] = keys[i, word]
            out_docs[count] = base + doc
            count += 1
        i += 1
    state[0], state[1], state[2] = i, at, doc
    return count


@compiled
def first_of_keys(
    keys: Uint64s, docs: Int64s, count: int, table: Int32s, num_old: int, edge_docs: Int64s, edge_firsts: Int64s
) -> tuple[int, int]:
    """Keep the first record of each key; the others become edges to it.

    Args:
        keys: Shape (at least count, words); those kept move to the front.
        docs: Of the same records, ascending from `num_old` on.
        count: Records.
        table: Scratch of zeros, a power of two, larger than `count`: open addressing, record + 1.
        num_old: Records at the front that an earlier call kept.
        edge_docs: As long as `docs`: the documents of records that are not kept.
        edge_firsts: Of the same: the documents of the records kept in their stead.

    Returns:
        (records kept, edges).
    """
    mask = np.uint64(len(table) - 1)
    kept = 0
    edges = 0
    for i in range(count):
        slot = (keys[i, 0] >> _S20) & mask
        first = np.int64(-1)
        while table[slot] != 0:
            other = np.int64(table[slot]) - 1
            same = True
            for word in range(keys.shape[1]):
                if keys[other, word] != keys[i, word]:
                    same = False
            if same:
                first = other
                break
            slot = (slot + _ONE) & mask
        if first < 0:
            table[slot] = np.int32(kept + 1)
            for word in range(keys.shape[1]):
                keys[kept, word] = keys[i, word]
            docs[kept] = docs[i]
            kept += 1
        elif i >= num_old:
            edge_docs[edges] = docs[i]
            edge_firsts[edges] = docs[first]
            edges += 1
    return kept, edges


@compiled
def pack_edges(docs: Uint64s, firsts: Uint64s, state: Int64s, out: Bytes) -> tuple[int, int]:
    """Pack edges in order: distance of the document from the last one, then of its first from it; repeats are left out.

    Args:
        docs: Ascending.
        firsts: Of the same edges, smaller than the documents and ascending among equal ones.
        state: (last document, its first), changed in place; (the number before the smallest document, -1) at the start.
        out: At least 20 bytes an edge.

    Returns:
        (bytes, edges written).
    """
    at = 0
    written = 0
    for i in range(len(docs)):
        doc, first = np.int64(docs[i]), np.int64(firsts[i])
        if doc == state[0] and first == state[1]:
            continue
        for number in (doc - state[0], doc - first):
            left = number
            while left >= 128:
                out[at] = np.uint8((left & 127) | 128)
                left >>= 7
                at += 1
            out[at] = np.uint8(left)
            at += 1
        state[0], state[1] = doc, first
        written += 1
    return at, written


@compiled
def unpack_edges(packed: Bytes, state: Int64s, out_docs: Int64s, out_firsts: Int64s) -> int:
    """Unpack what `pack_edges` wrote until the output is full or nothing is left.

    Args:
        packed: The bytes.
        state: (byte to go on at, last document), changed in place; (0, as given to `pack_edges`) at the start.
        out_docs: Documents.
        out_firsts: Their firsts, as many.

    Returns:
        Edges unpacked.
    """
    at, doc = state[0], state[1]
    count = 0
    while at < len(packed) and count < len(out_docs):
        first = np.int64(0)
        for place in range(2):
            number = np.int64(0)
            shift = 0
            while True:
                byte = np.int64(packed[at])
                at += 1
                number |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            if place == 0:
                doc += number
            else:
                first = doc - number
        out_docs[count] = doc
        out_firsts[count] = first
        count += 1
    state[0], state[1] = at, doc
    return count


@compiled
def _find(parents: Parents, item: np.int64) -> np.int64:
    above = np.int64(parents[item])
    while above != item:
        next_above = np.int64(parents[above])
        parents[item] = next_above  # path halving
        item = next_above
        above = np.int64(parents[item])
    return item


@compiled
def union(parents: Parents, docs: Int64s, firsts: Int64s) -> None:
    """Join the documents of each edge; the smaller root wins, so that a root is its set's smallest document."""
    for i in range(len(docs)):
        a = _find(parents, docs[i])
        b = _find(parents, firsts[i])
        if a < b:
            parents[b] = a
        elif b < a:
            parents[a] = b


@compiled
def flatten(parents: Parents, shared: Bytes) -> None:
    """Point every document at its root; mark roots that have company."""
    for doc in range(len(parents)):
        above = np.int64(parents[doc])
        if above != doc:  # what is above is smaller, so it is flat already
            root = np.int64(parents[above])
            parents[doc] = root
            shared[root] = 1


@compiled
def add_sizes(roots: Parents, exacts: Parents, num_bytes: Int64s, row_bytes: int, sizes: Int64s) -> None:
    """Add to the size of each component what a batch of documents has: each text once, and their rows.

    Args:
        roots: By document of the batch.
        exacts: By document of the batch: 1 + first with the same text, or 0 if it is itself.
        num_bytes: Of each text.
        row_bytes: Of a row, whatever its text.
        sizes: By root.
    """
    for i in range(len(roots)):
        size = row_bytes
        if exacts[i] == 0:
            size += num_bytes[i]
        sizes[np.int64(roots[i])] += size


@compiled
def fill_partitions(shared: Bytes, sizes: Int64s, most: int, state: Int64s) -> None:
    """Replace the size of each component by its partition: components in order, a new one once `most` bytes are reached.

    Args:
        shared: By document: 1 for roots of components.
        sizes: By document, changed in place.
        most: Bytes at which a partition is full.
        state: (partition at hand, its bytes), changed in place.
    """
    for doc in range(len(shared)):
        if shared[doc]:
            if state[1] >= most:
                state[0] += 1
                state[1] = 0
            state[1] += sizes[doc]
            sizes[doc] = state[0]
