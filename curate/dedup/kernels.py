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
