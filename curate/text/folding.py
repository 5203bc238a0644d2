"""Hashes of the folded words of a whole batch: `curate.words.hash_word` of `curate.words.folded_words`, by one kernel.

A run without white space is left to the functions themselves, each distinct one of a batch once, if a character of it
folds to several, or if a word of it is longer than 128 bytes and not all ASCII. What a run is folded to depends on that run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from curate.text.bits import eight_bytes
from curate.text.characters import ASSIGNED, JOINERS, NUM_CODE_POINTS, SCRIPTS, Bytes, Int64s, Uint64s, members
from curate.text.folding_kernels import (
    ATTACHED,
    CODE,
    GONE,
    LONGEST,
    SEVERAL,
    SPACE,
    UNSPACED,
    WORD,
    Found,
    Scratch,
    Uint32s,
    hash_rows,
)


def folded_hashes(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    fold_sign: Callable[[str], str],
    hash_run: Callable[[str], Sequence[int]],
) -> tuple[Uint64s, Int64s]:
    """Return the hashes of the folded words of all rows, and where those of each row begin, shape (rows + 1,).

    Args:
        data: UTF-8 of all rows.
        starts: Where each row's text begins, shape (rows,).
        ends: Where it ends.
        fold_sign: Returns what a character is folded to: always the same function.
        hash_run: Returns the hashes of the folded words of a run without white space.
    """
    rows = len(starts)
    most = int((ends - starts).sum()) // 2 + rows + 1  # a word is two bytes with what parts it, or three
    counts = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    found = Found(np.empty(most, np.uint64), np.empty((most, 3), np.int64), *counts)
    room = scratch(int((ends - starts).max(initial=0)))
    hash_rows(data, eight_bytes(data), starts, ends, _folding(fold_sign), room, found)
    hashes, runs = found.hashes[: found.num_hashes[-1]], found.runs[: found.num_runs[-1]]
    if len(runs) == 0:
        return hashes, found.num_hashes
    memo: dict[bytes, Sequence[int]] = {}  # of this batch alone: nothing may depend on what was seen before, nor grow
    others: list[int] = []
    sizes = np.empty(len(runs), np.int64)
    for index, (first, end) in enumerate(runs[:, 1:].tolist()):
        run = data[first:end].tobytes()
        values = memo.get(run)
        if values is None:
            values = memo[run] = hash_run(run.decode())
        others += values
        sizes[index] = len(values)
    more = np.concatenate(([0], np.cumsum(sizes)))
    places = np.repeat(runs[:, 0], sizes)
    return np.insert(hashes, places, np.array(others, np.uint64)), found.num_hashes + more[found.num_runs]


@lru_cache(maxsize=1)
def _folding(fold_sign: Callable[[str], str]) -> Uint32s:
    """Return what each code point is folded to, and bits, shape (0x110000,)."""
    table = np.arange(NUM_CODE_POINTS, dtype=np.uint32)
    for codes in ASSIGNED:
        folded = [fold_sign(chr(code)) for code in codes]
        table[codes.start : codes.stop] = [
            ord(sign) if len(sign) == 1 else SEVERAL if sign else GONE for sign in folded
        ]
    several = table & np.uint32(SEVERAL | GONE) != 0
    bits = np.zeros(NUM_CODE_POINTS, np.uint32)
    bits[members(r"[\p{L}\p{N}\p{M}]")] |= np.uint32(WORD)
    bits[members(f"[{SCRIPTS}]")] |= np.uint32(UNSPACED)
    bits[members(rf"[\p{{M}}{JOINERS}]")] |= np.uint32(ATTACHED)
    table |= np.where(several, np.uint32(0), bits[table & np.uint32(CODE)])
    for codes in ASSIGNED:
        is_space = np.array([chr(code).isspace() for code in codes])
        table[codes.start : codes.stop][is_space] |= np.uint32(SPACE)
    return table


def scratch(longest: int) -> Scratch:
    """Return scratch for rows of up to `longest` bytes."""
    blocks = (longest >> 6) + 1
    is_space, is_word, is_high = (np.empty(blocks, np.uint64) for _ in range(3))
    folded, tail, word = np.empty(64 * blocks + 8, np.uint8), np.empty(64, np.uint8), np.empty(LONGEST + 12, np.uint8)
    return Scratch(eight_bytes(folded), is_space, is_word, is_high, tail, eight_bytes(tail), word, eight_bytes(word))
