"""Groups of documents that look alike: k-means of directions over a sample, in whole numbers.

Spherical k-means (Dhillon and Modha 2001): the nearest centroid is the one of the smallest angle, and a centroid is the
sum of its members' unit vectors. These are rounded to fixed point and added as whole numbers, centroids are rounded like
vectors, and ties go to the lower number: so no sum depends on its order, and groups are the same on every machine.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from curate.dedup.semantic_vectors import UNIT, Int8s, dot_products, quantise, squared_lengths

Int32s = npt.NDArray[np.int32]

ROUNDS = 12  # of Lloyd's algorithm, at most: it ends where no document changes its group
SAMPLE = 64  # documents sampled for each group; FAISS asks for at least 39 and takes at most 256
COMPARED = 10_000  # documents of a group, about, as long as that makes fewer groups than the square root of all
_FEWEST, _MOST = 64, 1 << 16  # rows handled at once


def default_clusters(documents: int) -> int:
    """Return the number of groups for so many documents: about 10,000 of them a group, or the square root of their number.

    Up to 10,000 documents all are compared with all; from 100 million on there are as many groups as documents in one.
    """
    return max(1, min(documents // COMPARED, math.isqrt(documents)))


def fit_centroids(sample: Int8s, clusters: int, memory_bytes: int) -> Int8s:
    """Return the centroids of a sample, shape (at most clusters, dimensions).

    Args:
        sample: Vectors in the order of a random choice, none of them zero: the first distinct ones are the first centroids.
        clusters: Number of groups; fewer come out if the sample has fewer distinct vectors.
        memory_bytes: About what buffers may hold; changes nothing else.
    """
    centroids = _first_distinct(sample, clusters)
    rows = _rows(len(centroids), sample.shape[1], memory_bytes)
    before = np.full(len(sample), -1, np.int32)
    for _ in range(ROUNDS):
        sums = np.zeros(centroids.shape, np.int64)
        moved = False
        for start in range(0, len(sample), rows):
            block = sample[start : start + rows]
            nearest = _nearest(block, centroids)
            moved |= bool((nearest != before[start : start + rows]).any())
            before[start : start + rows] = nearest
            lengths = np.sqrt(squared_lengths(block).astype(np.float64))
            units = np.rint(block * (UNIT / lengths)[:, None]).astype(np.int64)
            order = np.argsort(nearest, kind="stable")
            first = np.flatnonzero(np.diff(nearest[order], prepend=-1))
            sums[nearest[order][first]] += np.add.reduceat(units[order], first, axis=0)
        if not moved:
            break
        made = quantise(sums)
        filled = made.any(axis=1)  # a group that nobody is in, or whose members cancel out, keeps its centroid
        centroids[filled] = made[filled]
    return centroids


def nearest_centroids(vectors: Int8s, centroids: Int8s, memory_bytes: int) -> Int32s:
    """Return the number of each vector's group, int32, shape (rows,)."""
    rows = _rows(len(centroids), vectors.shape[1], memory_bytes)
    parts = [_nearest(vectors[start : start + rows], centroids) for start in range(0, len(vectors), rows)]
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)


def _nearest(vectors: Int8s, centroids: Int8s) -> Int32s:
    # float32 and float64 are rounded alike everywhere; of equal numbers argmax takes the first
    scores = dot_products(vectors, centroids)
    scores *= (1.0 / np.sqrt(squared_lengths(centroids).astype(np.float64))).astype(scores.dtype)
    nearest: Int32s = np.argmax(scores, axis=1).astype(np.int32)
    return nearest


def _rows(centroids: int, dimensions: int, memory_bytes: int) -> int:
    """Return how many vectors are handled at once: their scores, int8, float32 and fixed-point forms are in memory."""
    each = 8 * centroids + 24 * dimensions
    fixed = 20 * centroids * dimensions
    return max(_FEWEST, min(_MOST, (memory_bytes - fixed) // each))


def _first_distinct(sample: Int8s, most: int) -> Int8s:
    found: dict[bytes, None] = {}
    for row in sample:
        found.setdefault(row.tobytes())
        if len(found) == most:
            break
    return np.frombuffer(b"".join(found), np.int8).reshape(len(found), sample.shape[1]).copy()


def sample_threshold(documents: int, clusters: int) -> int:
    """Return the hash below which a document is in the sample: each by itself, so that no order matters."""
    wanted = clusters * SAMPLE
    return 2**64 if wanted >= documents else (wanted << 64) // documents
