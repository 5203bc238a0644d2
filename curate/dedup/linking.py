"""Compiled kernels that compare documents and say which one stands for which: integers on flat arrays.

No fast-math, no parallel loops; arrays may lie on disk (memory maps). Constants that meet unsigned values are unsigned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Uint64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

SKETCH = 16  # numbers of 64 bits: sets of a thousand elements are still told apart
_ONE, _TWO, _FOUR, _SIX, _TOP = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(6), np.uint64(56)
_BIT, _WORD = np.uint64(63), np.uint64(SKETCH - 1)
_PAIRS, _QUADS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_OCTETS, _SUM = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


@compiled
def fill_buckets(
    keys: Uint64s,
    slots: Int64s,
    bands: int,
    state: Int64s,
    last_key: Uint64s,
    bucket_of: Int64s,
    starts: Int64s,
    entries: Int64s,
) -> None:
    """Collect the keys that occur twice or more into buckets; a slot is row * bands + band.

    Args:
        keys: One batch of a stream sorted by (key, slot).
        slots: Of the same batch.
        bands: Slots of a row.
        state: (buckets, entries, last slot or -1, whether its key has a bucket), changed in place.
        last_key: Key of the last slot, one element.
        bucket_of: By slot: bucket + 1, or 0 if the key occurs once.
        starts: By bucket: its first entry.
        entries: Rows, bucket after bucket, ascending within each.
    """
    for i in range(len(keys)):
        if state[2] >= 0 and keys[i] == last_key[0]:
            if state[3] == 0:
                starts[state[0]] = state[1]
                state[0] += 1
                state[3] = 1
                entries[state[1]] = state[2] // bands
                bucket_of[state[2]] = state[0]
                state[1] += 1
            entries[state[1]] = slots[i] // bands
            bucket_of[slots[i]] = state[0]
            state[1] += 1
        else:
            state[3] = 0
        state[2] = slots[i]
        last_key[0] = keys[i]


@compiled
def similarity_at_least(
    values: Uint64s, a: int, a_end: int, b: int, b_end: int, threshold: float, contained: bool
) -> float:
    """Return the similarity of two sorted runs without repeats, or -1 if it is below `threshold`.

    |A ∩ B| / |A ∪ B|, or with `contained` |A ∩ B| / min(|A|, |B|) (Broder 1997). It stops as soon as the elements that
    may still be common are too few.
    """
    total = (a_end - a) + (b_end - b)
    smaller = min(a_end - a, b_end - b)
    common = 0
    left = smaller  # elements that may be common
    if smaller == 0 or left / (smaller if contained else total - left) < threshold:
        return -1.0
    while a < a_end and b < b_end:
        if values[a] == values[b]:
            common += 1
            a += 1
            b += 1
        else:
            if values[a] < values[b]:
                a += 1
            else:
                b += 1
            best = common + min(a_end - a, b_end - b)
            if best < left:
                left = best
                if left / (smaller if contained else total - left) < threshold:
                    return -1.0
    similarity = common / (smaller if contained else total - common)
    return similarity if similarity >= threshold else -1.0


@compiled
def sketch(shingles: Uint64s, offsets: Int64s, first: int, stop: int, sketches: Uint64s) -> None:
    """Write for each row the parity, 0 or 1, of its shingles whose hashes lead to each of 64 * SKETCH bits."""
    for row in range(first, stop):
        for i in range(offsets[row], offsets[row + 1]):
            word = row * SKETCH + np.int64((shingles[i] >> _SIX) & _WORD)
            sketches[word] ^= _ONE << (shingles[i] & _BIT)


@compiled
def _num_ones(value: np.uint64) -> np.uint64:
    value = value - ((value >> _ONE) & _PAIRS)
    value = (value & _QUADS) + ((value >> _TWO) & _QUADS)
    return (((value + (value >> _FOUR)) & _OCTETS) * _SUM) >> _TOP


@compiled
def may_be_similar(
    sketches: Uint64s, a: int, b: int, a_size: int, b_size: int, threshold: float, contained: bool
) -> bool:
    """Return whether the sketches leave room for a similarity of at least `threshold`; if not, there is none.

    Elements in one of two sets alone turn a bit each, so there are at least as many as bits that differ (the bitmap filter of
    Sandes, Teodoro and Melo 2020, Bitmap filter: speeding up exact set similarity joins, with parities).
    """
    differ = np.uint64(0)
    for k in range(SKETCH):
        differ += _num_ones(sketches[a * SKETCH + k] ^ sketches[b * SKETCH + k])
    common = (a_size + b_size - np.int64(differ)) // 2
    whole = min(a_size, b_size) if contained else a_size + b_size - common
    return bool(whole > 0 and common / whole >= threshold)


@compiled
def _compare(
    shingles: Uint64s, offsets: Int64s, sketches: Uint64s, a: int, b: int, threshold: float, contained: bool
) -> float:
    a_start, a_end, b_start, b_end = offsets[a], offsets[a + 1], offsets[b], offsets[b + 1]
    if not may_be_similar(sketches, a, b, a_end - a_start, b_end - b_start, threshold, contained):
        return -1.0
    return similarity_at_least(shingles, a_start, a_end, b_start, b_end, threshold, contained)


@compiled
def assign(
    order: Int64s,
    heads: Int64s,
    bands: int,
    bucket_of: Int64s,
    starts: Int64s,
    offsets: Int64s,
    shingles: Uint64s,
    sketches: Uint64s,
    threshold: float,
    contained: bool,
    estimates: Floats,
    most: int,
    inserted: Int64s,
    num_inserted: Int64s,
    leaders: Int64s,
    unit_representatives: Int64s,
    unit_similarities: Floats,
    representatives: Int64s,
    similarities: Floats,
    counts: Int64s,
    groups: Int64s,
    stands: Bytes,
    holders: Int64s,
    reasons: Bytes,
) -> None:
    """Go through rows by priority; join each to the first earlier representative it resembles, or make it one.

    Rows with the same head are exact copies: a unit, decided once for its leader, the first row by priority. With `groups`
    a row that shares one with a row that stays is joined to that one and to nothing else, before its text is looked at.

    Args:
        order: Rows by priority, shape (rows,).
        heads: By row: the row that holds its unit's bands and shingles.
        bands: Band keys of a row.
        bucket_of: As `fill_buckets` left it.
        starts: As `fill_buckets` left it.
        offsets: By row: where its shingles start; one more than rows.
        shingles: Hashes, ascending within a row, no repeats.
        sketches: Of the shingles, as `sketch` made them.
        threshold: Smallest similarity of a pair; 0: a shared band decides.
        contained: Whether the similarity is the containment, not Jaccard's.
        estimates: Similarity by number of shared bands, shape (bands + 1,), for threshold 0.
        most: Representatives that a bucket lists; the first ones by priority. Those behind them are found through the other
            bands that they share, or not at all: without a bound, strangers that share a band are compared each with each.
        inserted: Scratch, as long as the entries: positions in `order` of the listed representatives of each bucket.
        num_inserted: Scratch of zeros, by bucket: its representatives, listed or not.
        leaders: By head: its leader + 1; zeros on entry.
        unit_representatives: Scratch by head.
        unit_similarities: Scratch by head.
        representatives: The answer by row: the representative's row, its own if it is one.
        similarities: The answer by row: similarity of its unit's leader to the representative.
        counts: Pairs compared, documents that became representatives though a bucket of theirs had more than it lists, and
            the pairs that were not compared for it, those of several buckets counted as often; added to.
        groups: By kind (address, payload) and row: the group, which is one of its rows; -1 for none. Shape (kinds, rows).
        stands: By row: when a row stays and may stand for others of its groups: if it is its own representative (2), if it
            leads its unit (1), whatever its text (0), or never (3).
        holders: Scratch of zeros, shape of groups: by group the row that stays, + 1.
        reasons: By row: 1 + the kind by whose group the row was joined; zeros on entry.
    """
    cursors = np.zeros(max(bands, 1), np.int64)
    ends = np.zeros(max(bands, 1), np.int64)
    nowhere = len(order)
    for position in range(len(order)):
        row = order[position]
        head = heads[row]
        for kind in range(len(groups)):
            if (
                reasons[row] == 0
                and stands[row] != 3
                and groups[kind, row] >= 0
                and holders[kind, groups[kind, row]] > 0
            ):
                reasons[row] = kind + 1
                representatives[row] = holders[kind, groups[kind, row]] - 1
        if reasons[row] > 0:
            continue
        if leaders[head] == 0:
            leaders[head] = row + 1
            num_lists = 0
            unlisted = 0
            for band in range(bands):
                bucket = bucket_of[head * bands + band] - 1
                if bucket >= 0 and num_inserted[bucket] > 0:
                    cursors[num_lists] = starts[bucket]
                    ends[num_lists] = starts[bucket] + min(num_inserted[bucket], most)
                    num_lists += 1
                    unlisted += max(num_inserted[bucket] - most, 0)
            found = np.int64(-1)
            similarity = 1.0
            while found < 0:  # the lists ascend: merge them, so that candidates come by priority, each once
                candidate = nowhere
                for k in range(num_lists):
                    if cursors[k] < ends[k]:
                        candidate = min(candidate, inserted[cursors[k]])
                if candidate == nowhere:
                    break
                shared = 0
                for k in range(num_lists):
                    if cursors[k] < ends[k] and inserted[cursors[k]] == candidate:
                        shared += 1
                        cursors[k] += 1
                other = heads[order[candidate]]
                counts[0] += 1
                if threshold > 0.0:
                    similarity = _compare(shingles, offsets, sketches, head, other, threshold, contained)
                else:
                    similarity = estimates[shared]
                if similarity >= threshold:
                    found = order[candidate]
            if found < 0:
                found = row
                similarity = 1.0
                if unlisted > 0:
                    counts[1] += 1
                    counts[2] += unlisted
                for band in range(bands):
                    bucket = bucket_of[head * bands + band] - 1
                    if bucket >= 0:
                        if num_inserted[bucket] < most:
                            inserted[starts[bucket] + num_inserted[bucket]] = position
                        num_inserted[bucket] += 1
            unit_representatives[head] = found
            unit_similarities[head] = similarity
        representatives[row] = unit_representatives[head]
        similarities[row] = unit_similarities[head]
        how = stands[row]
        if how == 0 or (how == 1 and leaders[head] == row + 1) or (how == 2 and representatives[row] == row):
            for kind in range(len(groups)):
                if groups[kind, row] >= 0:
                    holders[kind, groups[kind, row]] = row + 1


@compiled
def near_copies(
    targets: Int64s,
    heads: Int64s,
    bands: int,
    bucket_of: Int64s,
    starts: Int64s,
    entries: Int64s,
    offsets: Int64s,
    shingles: Uint64s,
    sketches: Uint64s,
    threshold: float,
    contained: bool,
    estimates: Floats,
    stamps: Int64s,
    nearest: Int64s,
    similarities: Floats,
) -> None:
    """Find for each unit the most similar of the target rows (the first of equals).

    Args:
        targets: Rows, ascending.
        heads: As for `assign`.
        bands: As for `assign`.
        bucket_of: As for `assign`.
        starts: As for `assign`.
        entries: As `fill_buckets` left them.
        offsets: As for `assign`.
        shingles: As for `assign`.
        sketches: As for `assign`.
        threshold: As for `assign`.
        contained: As for `assign`.
        estimates: As for `assign`.
        stamps: Scratch of zeros, by row.
        nearest: The answer by head: row + 1 of the target, 0 if there is none; zeros on entry.
        similarities: The answer by head: similarity to that target; zeros on entry.
    """
    for number in range(len(targets)):
        head = heads[targets[number]]
        if similarities[head] < 1.0 or nearest[head] == 0:
            nearest[head] = targets[number] + 1
            similarities[head] = 1.0
        for band in range(bands):
            bucket = bucket_of[head * bands + band] - 1
            if bucket < 0:
                continue
            for entry in range(starts[bucket], starts[bucket + 1]):
                other = entries[entry]
                if other == head or stamps[other] == number + 1:
                    continue
                stamps[other] = number + 1
                if threshold > 0.0:
                    similarity = _compare(shingles, offsets, sketches, head, other, threshold, contained)
                else:
                    shared = 0
                    for k in range(bands):
                        if (
                            bucket_of[head * bands + k] > 0
                            and bucket_of[head * bands + k] == bucket_of[other * bands + k]
                        ):
                            shared += 1
                    similarity = estimates[shared]
                if similarity >= threshold and similarity > similarities[other]:
                    nearest[other] = targets[number] + 1
                    similarities[other] = similarity


@compiled
def group_equal(records: Uint64s, last: Uint64s, state: Int64s, groups: Int64s) -> None:
    """Write by row the first row of those with an equal key.

    Args:
        records: One batch of a stream sorted by (high, low, row), shape (records, 3).
        last: (high, low, first row) of the group at hand, changed in place.
        state: 1 if a record came before, changed in place.
        groups: The answer.
    """
    for i in range(len(records)):
        if state[0] == 0 or records[i, 0] != last[0] or records[i, 1] != last[1]:
            state[0] = 1
            last[0] = records[i, 0]
            last[1] = records[i, 1]
            last[2] = records[i, 2]
        groups[np.int64(records[i, 2])] = np.int64(last[2])


@compiled
def count_clusters(representatives: Int64s, firsts: Int64s, sizes: Int64s) -> None:
    """Write by representative: the first row of its cluster + 1, and the number of rows; zeros on entry."""
    for row in range(len(representatives)):
        representative = representatives[row]
        if sizes[representative] == 0:
            firsts[representative] = row + 1
        sizes[representative] += 1


@compiled
def draw(num_bytes: Int64s, state: Int64s, want_bytes: int, want_documents: int, cap: int, taken: Bytes) -> bool:
    """Take documents in order until both wants are met, passing over those that would exceed the cap.

    Args:
        num_bytes: Sizes of one batch of documents in the order of drawing.
        state: (bytes taken, documents taken), changed in place.
        want_bytes: Bytes wanted.
        want_documents: Documents wanted.
        cap: Bytes never exceeded.
        taken: Set to 1 for each document taken.

    Returns:
        Whether both wants are met.
    """
    for i in range(len(num_bytes)):
        if state[0] >= want_bytes and state[1] >= want_documents:
            return True
        if state[0] + num_bytes[i] <= cap:
            taken[i] = 1
            state[0] += num_bytes[i]
            state[1] += 1
    return bool(state[0] >= want_bytes and state[1] >= want_documents)
