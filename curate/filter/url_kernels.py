"""Hashes of the lines of long lists and of the forms that are looked up in them. Only functions import this file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curate.compiled import compiled

_Bytes = NDArray[np.uint8]
_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)  # the end of MurmurHash3
_HOST = np.zeros(256, np.bool_)  # bytes of a host in lower case
_HOST[np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789-_.", np.uint8)] = True


def hash_lines(data: bytes, prefix: bytes, without_www: bool) -> tuple[NDArray[np.uint64], list[bytes]]:
    """Return the hashes of the lines that are plain hosts, and the other lines.

    Args:
        data: Lines of a file.
        prefix: Bytes that a hash begins with.
        without_www: Whether a leading `www.` does not count.
    """
    array = np.frombuffer(data, np.uint8)
    hashes, others = _hash_lines(array, np.frombuffer(prefix, np.uint8), without_www, _HOST)
    return hashes, [data[start:end] for start, end in others.tolist()]


def hash_texts(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Return the hash of each text."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return _hash_spans(np.frombuffer(b"".join(encoded), np.uint8), ends)


@compiled
def _extended(h: np.uint64, data: _Bytes, start: int, end: int) -> np.uint64:
    for place in range(start, end):
        h = (h ^ np.uint64(data[place])) * _PRIME
    return h


@compiled
def _finished(h: np.uint64) -> np.uint64:
    h = (h ^ (h >> np.uint64(33))) * _MIX_1
    h = (h ^ (h >> np.uint64(33))) * _MIX_2
    return h ^ (h >> np.uint64(33))


@compiled
def _hash_spans(data: _Bytes, ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    hashes = np.empty(len(ends) - 1, np.uint64)
    for row in range(len(hashes)):
        hashes[row] = _finished(_extended(_OFFSET, data, ends[row], ends[row + 1]))
    return hashes


@compiled
def _hash_lines(
    data: _Bytes, prefix: _Bytes, without_www: bool, is_host: NDArray[np.bool_]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    num_lines = 1
    for byte in data:
        num_lines += byte == 10
    hashes = np.empty(num_lines, np.uint64)
    others = np.empty((num_lines, 2), np.int64)
    num_hosts = num_others = start = 0
    seed = _extended(_OFFSET, prefix, 0, len(prefix))
    while start < len(data):
        end = start
        dots = 0
        plain = True
        while end < len(data) and data[end] != 10:
            plain &= is_host[data[end]] or data[end] == 13
            dots += data[end] == 46
            end += 1
        line_end = end
        if line_end > start and data[line_end - 1] == 13:
            line_end -= 1
        if plain and dots and data[start] != 46 and data[line_end - 1] != 46:
            first = start
            if (
                without_www
                and dots > 1
                and data[start] == 119
                and data[start + 1] == 119
                and data[start + 2] == 119
                and data[start + 3] == 46
            ):
                first += 4
            hashes[num_hosts] = _finished(_extended(seed, data, first, line_end))
            num_hosts += 1
        elif line_end > start:
            others[num_others, 0], others[num_others, 1] = start, line_end
            num_others += 1
        start = end + 1
    return hashes[:num_hosts], others[:num_others]
