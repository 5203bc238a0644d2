"""Finds listed words in UTF-8: a tree of the entries' bytes, walked from every place where a word may begin."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_LAST = 256  # column of a node that tells whether an entry ends there
_WORD = np.array([chr(byte).isalnum() or byte == 0x5F for byte in range(128)] + [False] * 128, np.uint8)
# ASCII capitals are read as small letters; the text of other scripts comes in small letters.
_SMALL = np.array([byte + 32 if 0x41 <= byte <= 0x5A else byte for byte in range(256)], np.uint8)


def tree_of(entries: Iterable[bytes]) -> Int32s:
    """Return the tree, shape (nodes, 257): the next node for each byte (0: none), and 1 in the last column where an entry ends."""
    nodes: list[dict[int, int]] = [{}]
    ends = set()
    for entry in entries:
        node = 0
        for byte in entry:
            if byte not in nodes[node]:
                nodes[node][byte] = len(nodes)
                nodes.append({})
            node = nodes[node][byte]
        ends.add(node)
    tree = np.zeros((len(nodes), _LAST + 1), np.int32)
    for node, following in enumerate(nodes):
        for byte, child in following.items():
            tree[node, byte] = child
        tree[node, _LAST] = node in ends
    return tree


def places(data: bytes, tree: Int32s, stands_alone: bool) -> Int64s:
    """Return first byte and end of each entry in `data`, shape (found, 2), overlapping ones too.

    Args:
        data: UTF-8; what is not ASCII in small letters.
        tree: Of `tree_of`, whose entries are matched with small ASCII letters.
        stands_alone: Whether an ASCII letter, digit or `_` beside an entry makes it part of a longer word. Neighbours of other
            scripts are for the caller to judge.
    """
    room = 16
    while True:
        found = np.empty((room, 2), np.int64)
        count = _find(np.frombuffer(data, np.uint8), tree, stands_alone, found, _WORD, _SMALL)
        if count <= room:
            return found[:count]
        room = count


@compiled
def _find(data: Bytes, tree: Int32s, stands_alone: bool, found: Int64s, word: Bytes, small: Bytes) -> int:
    count = 0
    size = len(data)
    for start in range(size):
        if stands_alone and start > 0 and word[data[start - 1]]:
            continue
        node, position = tree[0, small[data[start]]], start + 1
        while node != 0:
            if tree[node, _LAST] and not (stands_alone and position < size and word[data[position]]):
                if count < len(found):
                    found[count, 0], found[count, 1] = start, position
                count += 1
            if position == size:
                break
            node = tree[node, small[data[position]]]
            position += 1
    return count
