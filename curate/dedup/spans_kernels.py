"""Compiled kernels of repeated spans: minimizers of a stream of tokens, hashes of its windows, equal keys, coverage.

No fast-math, no parallel loops. Arrays may lie on disk (memory maps). Mixing signed and unsigned 64-bit integers would
make numba compute in floating point, so every constant that meets an unsigned value is unsigned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Uint64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]
Tokens = npt.NDArray[Any]  # of any unsigned integers: kernels are compiled for each width

_ZERO, _ONE, _MOST = np.uint64(0), np.uint64(1), np.uint64((1 << 64) - 1)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S29, _S30, _S31, _S32, _S61 = (np.uint64(bits) for bits in (27, 29, 30, 31, 32, 61))
_LOW_29, _LOW_32 = np.uint64((1 << 29) - 1), np.uint64((1 << 32) - 1)
_PRIME = np.uint64((1 << 61) - 1)  # a Mersenne prime: what is above 61 bits folds back by a shift
_EIGHT = np.uint64(8)  # 2^64 modulo the prime
_ROLL = np.uint64(0x9FB21C651E98DF25)  # odd; of the k-grams that anchors are chosen by
# Bases of the two polynomials and what tells their tokens apart: fixed random numbers below the prime.
_BASE_1, _BASE_2 = np.uint64(0x0B4F5A6C93E1D287), np.uint64(0x13D8F02B7A6C1E95)
_OTHER = np.uint64(0xD6E8FEB86659FD93)


@compiled
def _mix(value: np.uint64) -> np.uint64:
    """Return the 64-bit finaliser of SplitMix64: a bijection all of whose bits depend on all."""
    z = (value ^ (value >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@compiled
def _reduced(value: np.uint64) -> np.uint64:
    value = (value & _PRIME) + (value >> _S61)
    return value - _PRIME if value >= _PRIME else value


@compiled
def multiply(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return a * b modulo 2^61 - 1 of two numbers below it, in 64-bit arithmetic (as in long multiplication)."""
    a_high, a_low, b_high, b_low = a >> _S32, a & _LOW_32, b >> _S32, b & _LOW_32
    middle = a_high * b_low + a_low * b_high  # below 2^62
    low = a_low * b_low
    total = _EIGHT * a_high * b_high + (middle >> _S29) + ((middle & _LOW_29) << _S32) + (low & _PRIME) + (low >> _S61)
    return _reduced(total)  # of less than 2^63


@compiled
def _power(base: np.uint64, exponent: int) -> np.uint64:
    result = _ONE
    while exponent:
        if exponent & 1:
            result = multiply(result, base)
        base = multiply(base, base)
        exponent >>= 1
    return result


@compiled
def find_anchors(
    tokens: Tokens, starts: Int64s, stops: Int64s, window: int, gram: int, keys: Uint64s, places: Int64s, ends: Int64s
) -> int:
    """Find the anchor of each window of tokens: the smallest hash of the grams in it (a minimizer).

    Windows with the same tokens have the same anchor, wherever they are. Neighbouring windows with one anchor are one
    entry: of random tokens, 2 in (window - gram + 2) windows begin one. Schleimer, Wilkerson, Aiken 2003, Winnowing. The
    minimum slides by that of each block's rest and that of the next block's beginning (van Herk 1992; Gil and Werman
    1993), so that no token costs more than another. A gram's hash is a polynomial modulo 2^64 of its tokens, finalised:
    two grams that agree in it make windows be compared that need not be, no more.

    Args:
        tokens: Of all documents.
        starts: First token of each document, shape (documents,); windows do not leave theirs.
        stops: The token behind its last one.
        window: Tokens in a window.
        gram: Tokens in a gram, 1 to `window`.
        keys: Takes the anchors, finalised once more, so that their leading bits are uniform.
        places: Takes the first token of the first window of each entry.
        ends: Takes the first token of the window behind its last one.

    Returns:
        How many entries there are: at most one a window.
    """
    size = window - gram + 1  # grams in a window
    block = np.empty(size, np.uint64)
    rest = np.empty(size + 1, np.uint64)  # least gram of the block before, from each place on
    out_factor = _ONE
    for _ in range(gram):
        out_factor *= _ROLL
    count = 0
    for document in range(len(starts)):
        start = starts[document]
        num_grams = stops[document] - start - gram + 1
        if num_grams < size:
            continue
        rolled = _ZERO
        for i in range(start, start + gram - 1):
            rolled = rolled * _ROLL + np.uint64(tokens[i]) + _ONE
        rest[:] = _MOST
        last = _ZERO
        opened = False
        out = _ZERO
        for first in range(0, num_grams, size):
            least = _MOST
            here = min(size, num_grams - first)
            for j in range(here):
                place = start + first + j
                rolled = rolled * _ROLL + (np.uint64(tokens[place + gram - 1]) + _ONE) - out * out_factor
                out = np.uint64(tokens[place]) + _ONE
                value = _mix(rolled)
                block[j] = value
                least = min(least, value)
                anchor = min(least, rest[j + 1])
                begin = first + j - size + 1
                if begin >= 0 and (not opened or anchor != last):
                    if opened:
                        ends[count - 1] = start + begin
                    keys[count] = _mix(anchor)
                    places[count] = start + begin
                    count += 1
                    opened = True
                    last = anchor
            if here == size:
                least = _MOST
                for j in range(size - 1, -1, -1):
                    least = min(least, block[j])
                    rest[j] = least
        ends[count - 1] = start + num_grams - size + 1
    return count


@compiled
def hash_windows(
    tokens: Tokens, begins: Int64s, ends: Int64s, window: int, highs: Uint64s, lows: Uint64s, places: Int64s
) -> None:
    """Write 122 bits for each window of the given runs: two polynomials modulo 2^61 - 1 (Karp and Rabin 1987).

    Two windows that differ agree in both with a probability of (window / 2^61)^2 at most.

    Args:
        tokens: As for `find_anchors`.
        begins: First window of each run, by its first token; ascending, shape (runs,).
        ends: The window behind its last one.
        window: Tokens in a window.
        highs: Takes the first polynomial, finalised so that its leading bits are uniform; shape (windows of all runs,).
        lows: Takes the second.
        places: Takes the first token of each window.
    """
    out_1, out_2 = _power(_BASE_1, window - 1), _power(_BASE_2, window - 1)
    done = 0
    at = np.int64(-1)  # the window that `one` and `two` stand for
    one = two = _ZERO
    for run in range(len(begins)):
        begin = begins[run]
        if at < 0 or begin < at or begin - at >= window:  # anew is cheaper than to roll
            one = two = _ZERO
            for i in range(begin, begin + window):
                token = np.uint64(tokens[i])
                one = _reduced(multiply(one, _BASE_1) + _reduced(_mix(token)))
                two = _reduced(multiply(two, _BASE_2) + _reduced(_mix(token ^ _OTHER)))
            at = begin
        for place in range(at, ends[run]):
            if place > at:
                old, new = np.uint64(tokens[place - 1]), np.uint64(tokens[place + window - 1])
                one = _reduced(one + _PRIME - multiply(_reduced(_mix(old)), out_1))
                two = _reduced(two + _PRIME - multiply(_reduced(_mix(old ^ _OTHER)), out_2))
                one = _reduced(multiply(one, _BASE_1) + _reduced(_mix(new)))
                two = _reduced(multiply(two, _BASE_2) + _reduced(_mix(new ^ _OTHER)))
            if place >= begin:
                highs[done] = _mix(one)
                lows[done] = two
                places[done] = place
                done += 1
        at = ends[run] - 1


@compiled
def group_keys(records: Uint64s, values: Uint64s, firsts: Uint64s) -> None:
    """Write for each record how many clusters hold its key, and where it stands first.

    Args:
        records: Sorted: the numbers of the key, cluster, locus; shape (records, numbers). May lie on disk, as the others.
        values: Takes twice the clusters, plus one if the first record of the key, by locus, is of the record's own cluster.
        firsts: Takes the least locus of the key.
    """
    width = records.shape[1]
    cluster, locus = width - 2, width - 1
    start = 0
    while start < len(records):
        clusters = _ONE
        first = start
        end = start + 1
        while end < len(records):
            same = True
            for place in range(cluster):
                if records[end, place] != records[start, place]:
                    same = False
            if not same:
                break
            if records[end, cluster] != records[end - 1, cluster]:
                clusters += _ONE
            if records[end, locus] < records[first, locus]:
                first = end
            end += 1
        for i in range(start, end):
            own = _ONE if records[i, cluster] == records[first, cluster] else _ZERO
            values[i] = clusters + clusters + own
            firsts[i] = records[first, locus]
        start = end


@compiled
def cover(places: Int64s, owners: Int64s, window: int, starts: Int64s, stops: Int64s, documents: Int64s) -> int:
    """Write the runs of tokens that windows cover; return how many there are.

    Args:
        places: First token of each window, ascending.
        owners: Document of each window.
        window: Tokens in a window.
        starts: Takes the first token of each run, shape (at least windows,).
        stops: Takes the token behind its last one.
        documents: Takes its document.
    """
    count = 0
    for i in range(len(places)):
        if count and places[i] <= stops[count - 1] and owners[i] == documents[count - 1]:
            stops[count - 1] = places[i] + window
        else:
            starts[count] = places[i]
            stops[count] = places[i] + window
            documents[count] = owners[i]
            count += 1
    return count
