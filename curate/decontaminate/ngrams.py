"""Hashes of word n-grams over arrays of word hashes."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16  # positions hashed at a time: the working set stays in the processor's cache

# An odd multiplier has an inverse modulo 2^64, so prefix sums give the hash of any window. It is 3 modulo 8: of all
# odd numbers these and 5 modulo 8 have powers that differ in the lowest possible bits, which keeps swapped words apart.
BASE = 0x9E3779B97F4A7C13
LENGTH_STEP = 0xD1B54A32D192ED03  # odd, without a pattern: the length is part of the hash
_MASK = (1 << 64) - 1


@functools.cache
def _powers() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return powers of `BASE` and of its inverse, enough for one block and the longest n-gram (64 words)."""
    inverse = pow(BASE, -1, 1 << 64)
    up, down = [1], [1]
    for _ in range(BLOCK + 64):
        up.append(up[-1] * BASE & _MASK)
        down.append(down[-1] * inverse & _MASK)
    return np.array(up, np.uint64), np.array(down, np.uint64)


def prefix_sums(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the running sums from which `windows` makes hashes; at most BLOCK + 64 word hashes."""
    sums = np.zeros(len(words) + 1, np.uint64)
    np.cumsum(words * _powers()[1][: len(words)], out=sums[1:])
    return sums


def windows(sums: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Return the hash of the n-gram at each word where one fits, from `prefix_sums` of the words."""
    if len(sums) <= n:
        return np.zeros(0, np.uint64)
    return finish((sums[n:] - sums[:-n]) * _powers()[0][n - 1 : len(sums) - 1], n)


def at_positions(words: NDArray[np.uint64], positions: NDArray[np.int64], n: int) -> NDArray[np.uint64]:
    """Return the hashes of the n-grams that start at `positions`; the same values as `windows`."""
    value = np.zeros(len(positions), np.uint64)
    base = np.uint64(BASE)
    for step in range(n):
        value = value * base + words[positions + step]
    return finish(value, n)


def finish(value: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Mix the polynomial's bits (the finaliser of splitmix64, Steele et al. 2014); the length is part of the hash."""
    value = value + np.uint64(n * LENGTH_STEP & _MASK)
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    return value


def ngram_hashes(words: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Return the hash of each n-gram of one text, in order, of any length."""
    blocks = [windows(prefix_sums(words[at : at + BLOCK + n - 1]), n) for at in range(0, max(1, len(words)), BLOCK)]
    return np.concatenate(blocks)
