"""Compiled kernels of deduplication: integer arithmetic on flat arrays, the same bits on every platform.

No fast-math, no parallel loops. Arrays may lie on disk (memory maps). Mixing signed and unsigned 64-bit integers would
make numba compute in floating point, so every constant that meets an unsigned value is unsigned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Uint64s = npt.NDArray[np.uint64]
Uint32s = npt.NDArray[np.uint32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S15, _S27, _S30, _S31, _S32 = np.uint32(15), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_LENGTH = np.uint64(_GAMMA)
_LOW = np.uint64(0xFFFFFFFF)


def split_mix(seed: int, count: int) -> list[int]:
    """Return the first `count` values of the SplitMix64 generator (Steele, Lea, Flood 2014, OOPSLA)."""
    values = []
    for step in range(1, count + 1):
        z = (seed + step * _GAMMA) & _MASK
        z = ((z ^ (z >> 30)) * int(_MIX_1)) & _MASK
        z = ((z ^ (z >> 27)) * int(_MIX_2)) & _MASK
        values.append(z ^ (z >> 31))
    return values


@compiled
def _mix(value: np.uint64) -> np.uint64:
    """Return the 64-bit finaliser of SplitMix64: a bijection all of whose bits depend on all."""
    z = (value ^ (value >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@compiled
def hash_shingles(words: Uint64s, start: int, stop: int, multipliers: Uint64s, out: Uint64s) -> int:
    """Write the hashes of the shingles of words[start:stop] to `out`; return how many.

    Multilinear hash of the word hashes and the number of words (Lemire and Kaser 2014, Strongly universal string
    hashing is fast), finalised: mix(num * gamma + sum(multipliers[j] * words[i + j])) mod 2^64. Fewer words than
    multipliers make one shingle; none make none.
    """
    num_words = stop - start
    if num_words == 0:
        return 0
    size = min(num_words, len(multipliers))
    count = num_words - size + 1
    length = np.uint64(size) * _LENGTH
    for i in range(count):
        total = length
        for j in range(size):
            total += multipliers[j] * words[start + i + j]
        out[i] = _mix(total)
    return count


@compiled
def sign(
    words: Uint64s,
    offsets: Int64s,
    multipliers: Uint64s,
    factors: Uint32s,
    masks: Uint32s,
    out: Uint32s,
    counts: Int64s,
) -> None:
    """Write the MinHash signature of each document, shape (documents, permutations), and its number of shingles.

    A shingle hash is two 32-bit halves (x, y); function p orders shingles by v ^ (v >> 15), v = x * factors[p] +
    (y ^ masks[p]) mod 2^32. Simple functions are enough because the halves are already uniform: Mitzenmacher and
    Vadhan 2008, Why simple hash functions work.
    """
    longest = 0
    for document in range(len(offsets) - 1):
        longest = max(longest, offsets[document + 1] - offsets[document])
    hashes = np.empty(longest, np.uint64)
    xs = np.empty(longest, np.uint32)
    ys = np.empty(longest, np.uint32)
    for document in range(len(offsets) - 1):
        count = hash_shingles(words, offsets[document], offsets[document + 1], multipliers, hashes)
        counts[document] = count
        for i in range(count):
            xs[i] = np.uint32(hashes[i] & _LOW)
            ys[i] = np.uint32(hashes[i] >> _S32)
        for p in range(len(factors)):
            factor = factors[p]
            mask = masks[p]
            lowest = np.uint32(0xFFFFFFFF)
            for i in range(count):
                v = np.uint32(np.uint32(xs[i] * factor) + np.uint32(ys[i] ^ mask))
                v = np.uint32(v ^ np.uint32(v >> _S15))
                lowest = min(lowest, v)
            out[document, p] = lowest


@compiled
def band_keys(signatures: Uint32s, rows: int, out: Uint64s) -> None:
    """Write one 64-bit key for each band, shape (documents, bands): a chain of mixes that begins with the band's number."""
    for document in range(len(signatures)):
        for band in range(out.shape[1]):
            key = np.uint64(band + 1)
            for row in range(rows):
                key = _mix(key ^ np.uint64(signatures[document, band * rows + row]))
            out[document, band] = key


@compiled
def _find(parent: Int64s, item: np.int64) -> np.int64:
    while parent[item] != item:
        parent[item] = parent[parent[item]]  # path halving
        item = parent[item]
    return item


@compiled
def union_equal_keys(parent: Int64s, keys: Uint64s, documents: Int64s, state: Uint64s) -> None:
    """Join neighbouring documents with equal keys; the smaller root wins, so that a root is its set's smallest document.

    Args:
        parent: The union-find forest, changed in place.
        keys: One batch of a stream sorted by (key, document).
        documents: Of the same batch.
        state: (1 if a batch came before, its last key, its last document), changed in place.
    """
    for i in range(len(keys)):
        if state[0] == np.uint64(1) and state[1] == keys[i]:
            a = _find(parent, np.int64(state[2]))
            b = _find(parent, documents[i])
            if a < b:
                parent[b] = a
            elif b < a:
                parent[a] = b
        state[0] = np.uint64(1)
        state[1] = keys[i]
        state[2] = np.uint64(documents[i])


@compiled
def flatten(parent: Int64s, first: Int64s, shared: Bytes) -> None:
    """Point every document at its root, exact copies through their first; mark roots that have company."""
    for document in range(len(parent)):
        # Roots and first copies are smaller than what points at them, so they are flat already.
        above = first[document] if first[document] != document else parent[document]
        if above != document:
            parent[document] = parent[above]
            shared[parent[document]] = 1


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
def jaccard_at_least(values: Uint64s, a: int, a_end: int, b: int, b_end: int, threshold: float) -> float:
    """Return |A ∩ B| / |A ∪ B| of two sorted runs without repeats, or -1 if it is below `threshold`."""
    total = (a_end - a) + (b_end - b)
    common = 0
    left = min(a_end - a, b_end - b)  # elements that may still be common
    if total == 0 or left / (total - left) < threshold:
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
                if left / (total - left) < threshold:
                    return -1.0
    similarity = common / (total - common)
    return similarity if similarity >= threshold else -1.0


@compiled
def assign(
    order: Int64s,
    heads: Int64s,
    bands: int,
    bucket_of: Int64s,
    starts: Int64s,
    offsets: Int64s,
    shingles: Uint64s,
    threshold: float,
    estimates: Floats,
    inserted: Int64s,
    num_inserted: Int64s,
    leaders: Int64s,
    unit_representatives: Int64s,
    unit_similarities: Floats,
    representatives: Int64s,
    similarities: Floats,
) -> int:
    """Go through rows by priority; join each to the first earlier representative it resembles, or make it one.

    Rows with the same head are exact copies: a unit, decided once for its leader, the first row by priority.

    Args:
        order: Rows by priority, shape (rows,).
        heads: By row: the row that holds its unit's bands and shingles.
        bands: Band keys of a row.
        bucket_of: As `fill_buckets` left it.
        starts: As `fill_buckets` left it.
        offsets: By row: where its shingles start; one more than rows.
        shingles: Hashes, ascending within a row, no repeats.
        threshold: Smallest exact Jaccard similarity of a pair; 0: a shared band decides.
        estimates: Similarity by number of shared bands, shape (bands + 1,), for threshold 0.
        inserted: Scratch, as long as the entries: positions in `order` of the representatives of each bucket.
        num_inserted: Scratch of zeros, by bucket.
        leaders: By head: its leader + 1; zeros on entry.
        unit_representatives: Scratch by head.
        unit_similarities: Scratch by head.
        representatives: The answer by row: the representative's row, its own if it is one.
        similarities: The answer by row: similarity of its unit's leader to the representative.

    Returns:
        The number of pairs compared.
    """
    num_compared = 0
    cursors = np.zeros(max(bands, 1), np.int64)
    ends = np.zeros(max(bands, 1), np.int64)
    nowhere = len(order)
    for position in range(len(order)):
        row = order[position]
        head = heads[row]
        if leaders[head] == 0:
            leaders[head] = row + 1
            num_lists = 0
            for band in range(bands):
                bucket = bucket_of[head * bands + band] - 1
                if bucket >= 0 and num_inserted[bucket] > 0:
                    cursors[num_lists] = starts[bucket]
                    ends[num_lists] = starts[bucket] + num_inserted[bucket]
                    num_lists += 1
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
                num_compared += 1
                if threshold > 0.0:
                    similarity = jaccard_at_least(
                        shingles, offsets[head], offsets[head + 1], offsets[other], offsets[other + 1], threshold
                    )
                else:
                    similarity = estimates[shared]
                if similarity >= threshold:
                    found = order[candidate]
            if found < 0:
                found = row
                similarity = 1.0
                for band in range(bands):
                    bucket = bucket_of[head * bands + band] - 1
                    if bucket >= 0:
                        inserted[starts[bucket] + num_inserted[bucket]] = position
                        num_inserted[bucket] += 1
            unit_representatives[head] = found
            unit_similarities[head] = similarity
        representatives[row] = unit_representatives[head]
        similarities[row] = unit_similarities[head]
    return num_compared


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
    threshold: float,
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
        threshold: As for `assign`.
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
                    similarity = jaccard_at_least(
                        shingles, offsets[head], offsets[head + 1], offsets[other], offsets[other + 1], threshold
                    )
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


@compiled
def count_key_clusters(records: Uint64s, state: Uint64s, out: Uint64s) -> int:
    """Count the distinct clusters of each key in a stream of records sorted by (key, cluster, place).

    Args:
        records: One batch of the stream: key, cluster, place; shape (records, 3).
        state: (1 if a batch came before, key at hand, its clusters so far, cluster of its lowest place, that place, its
            last cluster), changed in place; at the end of the stream it holds the last key.
        out: (key, clusters, cluster of the lowest place) of each key that is complete, shape (at least records, 3).

    Returns:
        How many keys are complete.
    """
    done = 0
    one = np.uint64(1)
    for i in range(len(records)):
        key, cluster, place = records[i, 0], records[i, 1], records[i, 2]
        if state[0] == one and state[1] == key:
            if state[5] != cluster:
                state[2] += one
                state[5] = cluster
            if place < state[4]:
                state[4] = place
                state[3] = cluster
        else:
            if state[0] == one:
                out[done, 0] = state[1]
                out[done, 1] = state[2]
                out[done, 2] = state[3]
                done += 1
            state[0] = one
            state[1] = key
            state[2] = one
            state[3] = cluster
            state[4] = place
            state[5] = cluster
    return done
