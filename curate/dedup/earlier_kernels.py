"""Compiled kernels that compare a corpus with earlier ones: keys joined, equal bytes counted.

No fast-math, no parallel loops; arrays may lie on disk. Signed and unsigned 64-bit integers never meet in a sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Uint64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Documents = npt.NDArray[Any]  # unsigned, 32 or 64 bits


@compiled
def join_keys(
    keys: Uint64s,
    docs: Documents,
    other_keys: Uint64s,
    other_docs: Documents,
    first: np.uint64,
    limits: Int64s,
    state: Int64s,
    out: Uint64s,
) -> int:
    """Write pairs of documents that share a key; return how many. Fewer than `out` has room for: these were the last.

    Args:
        keys: Ascending keys of one corpus, shape (keys,).
        docs: The document of each.
        other_keys: Those of the other.
        other_docs: The document of each.
        first: Added to the other's documents.
        limits: Pairs that a key may give, and others for each document that it gives whatever their number.
        state: Zeros at first, shape (6,): where both keys stand, the pair within the key; keys with too many pairs, and
            their pairs that are left out.
        out: Gets the pairs, shape (room, 2).
    """
    a, b, i, j = state[0], state[1], state[2], state[3]
    count = 0
    while a < len(keys) and b < len(other_keys):
        if keys[a] < other_keys[b]:
            a += 1
            continue
        if keys[a] > other_keys[b]:
            b += 1
            continue
        end_a, end_b = a + 1, b + 1
        while end_a < len(keys) and keys[end_a] == keys[a]:
            end_a += 1
        while end_b < len(other_keys) and other_keys[end_b] == other_keys[b]:
            end_b += 1
        allowed = min(end_b - b, max(limits[1], limits[0] // (end_a - a)))
        while i < end_a - a:
            while j < allowed:
                if count == len(out):
                    state[0], state[1], state[2], state[3] = a, b, i, j
                    return count
                out[count, 0] = np.uint64(docs[a + i])
                out[count, 1] = first + np.uint64(other_docs[b + j])
                count += 1
                j += 1
            i += 1
            j = 0
        if allowed < end_b - b:
            state[4] += 1
            state[5] += (end_b - b - allowed) * (end_a - a)
        a, b, i = end_a, end_b, 0
    state[0], state[1], state[2], state[3] = a, b, 0, 0
    return count


@compiled
def score_pairs(
    left: Bytes,
    left_exact: Uint64s,
    left_at: Int64s,
    right: Bytes,
    right_exact: Uint64s,
    right_at: Int64s,
    places: Int64s,
    others: Uint64s,
    best: Uint64s,
    scores: Int64s,
) -> None:
    """Keep for each document the pair with the highest score: equal bytes, or more than all if the exact hashes are equal.

    Args:
        left: Signatures of one side, shape (documents, permutations).
        left_exact: Their exact hashes, shape (documents, 2).
        left_at: Row of each pair in them, shape (pairs,).
        right: Signatures of the other side.
        right_exact: Their exact hashes.
        right_at: Row of each pair in them.
        places: Where each pair's document stands in `best` and `scores`, shape (pairs,).
        others: The other document of each pair; of one document's pairs in ascending order.
        best: Gets the other document of the best pair.
        scores: Gets 1 + equal bytes, or 2 + permutations; 0 where there is none. Scores that are there count.
    """
    width = left.shape[1]
    for pair in range(len(places)):
        x, y = left_at[pair], right_at[pair]
        if left_exact[x, 0] == right_exact[y, 0] and left_exact[x, 1] == right_exact[y, 1]:
            score = width + 2
        else:
            score = 1
            for byte in range(width):
                if left[x, byte] == right[y, byte]:
                    score += 1
        place = places[pair]
        if score > scores[place]:
            scores[place] = score
            best[place] = others[pair]
