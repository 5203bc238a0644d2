"""Compiled kernels of deduplication: integer arithmetic on flat arrays, the same bits on every platform.

No fast-math, no parallel loops. Arrays may lie on disk (memory maps). Mixing signed and unsigned 64-bit integers would
make numba compute in floating point, so every constant that meets an unsigned value is unsigned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Uint64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]


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
