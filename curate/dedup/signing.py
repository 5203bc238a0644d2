"""Compiled kernels of MinHash signatures: integer arithmetic on flat arrays, the same bits on every platform.

Mixing signed and unsigned 64-bit integers would make numba compute in floating point, so every constant that meets an
unsigned value is unsigned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.text.bits import GAMMA, mix

Uint64s = npt.NDArray[np.uint64]
Uint32s = npt.NDArray[np.uint32]
Int64s = npt.NDArray[np.int64]

_MASK = (1 << 64) - 1
_GAMMA = np.uint64(GAMMA)
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)
_15, _NONE = np.uint32(15), np.uint32(0xFFFFFFFF)


def split_mix(seed: int, count: int) -> list[int]:
    """Return the first `count` values of the SplitMix64 generator (Steele, Lea, Flood 2014, OOPSLA)."""
    values = []
    for step in range(1, count + 1):
        z = (seed + step * GAMMA) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        values.append(z ^ (z >> 31))
    return values


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
    length = np.uint64(size) * _GAMMA
    if size == 5:  # the usual number, unrolled: a third faster
        a, b, c, d, e = multipliers[0], multipliers[1], multipliers[2], multipliers[3], multipliers[4]
        for i in range(count):
            at = start + i
            total = (
                length + a * words[at] + b * words[at + 1] + c * words[at + 2] + d * words[at + 3] + e * words[at + 4]
            )
            out[i] = mix(total)
        return count
    for i in range(count):
        total = length
        for j in range(size):
            total += multipliers[j] * words[start + i + j]
        out[i] = mix(total)
    return count


@compiled
def _order(x: np.uint32, y: np.uint32, factor: np.uint32, mask: np.uint32) -> np.uint32:
    """Return the place of a shingle (x, y) in the order of one function."""
    return np.uint32(np.uint32(x * factor) + np.uint32(y ^ mask))


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

    A shingle hash is two 32-bit halves (x, y); function p orders shingles by v = x * factors[p] + (y ^ masks[p]) mod 2^32,
    and the signature holds v ^ (v >> 15) of the smallest. Simple functions are enough because the halves are already uniform:
    Mitzenmacher and Vadhan 2008, Why simple hash functions work.
    """
    longest = 0
    for document in range(len(offsets) - 1):
        longest = max(longest, offsets[document + 1] - offsets[document])
    hashes = np.empty(longest, np.uint64)
    lowest = np.empty(len(factors), np.uint32)
    for document in range(len(offsets) - 1):
        count = hash_shingles(words, offsets[document], offsets[document + 1], multipliers, hashes)
        counts[document] = count
        lowest[:] = _NONE
        fours = count // 4 * 4
        for i in range(0, fours, 4):  # four shingles for each load and store of a vector of functions: twice as fast
            a, b, c, d = hashes[i], hashes[i + 1], hashes[i + 2], hashes[i + 3]
            ax, bx, cx, dx = np.uint32(a & _LOW), np.uint32(b & _LOW), np.uint32(c & _LOW), np.uint32(d & _LOW)
            ay, by, cy, dy = np.uint32(a >> _32), np.uint32(b >> _32), np.uint32(c >> _32), np.uint32(d >> _32)
            for p in range(len(factors)):
                factor, mask = factors[p], masks[p]
                first = min(_order(ax, ay, factor, mask), _order(bx, by, factor, mask))
                second = min(_order(cx, cy, factor, mask), _order(dx, dy, factor, mask))
                lowest[p] = min(lowest[p], min(first, second))
        for i in range(fours, count):
            x, y = np.uint32(hashes[i] & _LOW), np.uint32(hashes[i] >> _32)
            for p in range(len(factors)):
                lowest[p] = min(lowest[p], _order(x, y, factors[p], masks[p]))
        for p in range(len(factors)):
            out[document, p] = np.uint32(lowest[p] ^ np.uint32(lowest[p] >> _15))


@compiled
def sign_affine(hashes: Uint32s, offsets: Int64s, factors: Uint32s, addends: Uint32s, out: Uint32s) -> None:
    """Write the signatures of documents whose shingle hashes are given: the smallest h * factors[p] + addends[p] mod 2^32.

    Args:
        hashes: All documents' hashes, one behind the other.
        offsets: Where each document's begin; one more than documents.
        factors: Odd, by permutation.
        addends: By permutation.
        out: Shape (documents, permutations).
    """
    for document in range(len(offsets) - 1):
        for p in range(len(factors)):
            lowest = _NONE
            for i in range(offsets[document], offsets[document + 1]):
                lowest = min(lowest, np.uint32(np.uint32(hashes[i] * factors[p]) + addends[p]))
            out[document, p] = lowest


@compiled
def band_keys(signatures: Uint32s, rows: int, out: Uint64s) -> None:
    """Write one 64-bit key for each band, shape (documents, bands): a chain of mixes that begins with the band's number."""
    for document in range(len(signatures)):
        for band in range(out.shape[1]):
            key = np.uint64(band + 1)
            for row in range(rows):
                key = mix(key ^ np.uint64(signatures[document, band * rows + row]))
            out[document, band] = key
