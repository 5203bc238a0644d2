"""Gold text to labels of blocks: what share of a block's words is main text."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from curate.extract.auto.features import Floats
from curate.extract.auto.kernel import cached_array_kernel

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff"
_TOKEN = re.compile(f"[{_UNSPACED}]|[^\\W{_UNSPACED}]+")
_MOST_CELLS = 1_500_000_000  # of an alignment's table, bytes; the gold's end is cut beyond
_PLAUSIBLE = 0.3  # share of a block's word 3-grams in the gold, below which it is not aligned
_SCORE_RUN, _SCORE_START = 2.0, 0.7  # a match that continues a run, one that starts it: runs beat scattered words
_MOVED_WORDS, _MOVED_SHARE = 5, 0.8  # blocks of at least so many words, so much of them still unused in the gold

Uint8s = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]


def tokens(text: str) -> list[str]:
    """Return the words of a text in lower case; one Han or Kana character is a word."""
    return _TOKEN.findall(text.lower())


def label_blocks(texts: Sequence[str], gold: str, left_out: Sequence[bool]) -> Floats:
    """Return the share of each block's words that the gold text holds: shape (blocks,).

    Blocks with fewer than 30% of their word 3-grams in the gold are out. The others are aligned with it in order; then
    blocks that stand elsewhere in the gold are added while its words last.

    Args:
        texts: Of the blocks.
        gold: Main text of the page.
        left_out: Blocks that are never main text, such as the title element.
    """
    blocks = [tokens(text) for text in texts]
    wanted = tokens(gold)
    labels: Floats = np.zeros(len(blocks), np.float32)
    candidates = [place for place in _plausible(blocks, wanted) if not left_out[place]]
    if not candidates:
        return labels
    numbers: dict[str, int] = {}
    gold_numbers = np.array([numbers.setdefault(word, len(numbers)) for word in wanted], np.int32)
    page_numbers = np.array([numbers.get(word, -1) for place in candidates for word in blocks[place]], np.int32)
    owners = np.array([place for place in candidates for _ in blocks[place]], np.int64)
    hits: Uint8s = np.zeros(len(page_numbers), np.uint8)
    _align(page_numbers, gold_numbers[: _MOST_CELLS // len(page_numbers)], hits)
    matched = np.bincount(owners, hits, len(blocks))
    labels[:] = matched / np.maximum([len(block) for block in blocks], 1)
    left = Counter(gold_numbers.tolist())
    left.subtract(page_numbers[hits == 1].tolist())
    for place in candidates:
        if labels[place] < 0.5 and len(blocks[place]) >= _MOVED_WORDS:
            own = Counter(numbers.get(word, -1) for word in blocks[place])
            unused = sum(min(count, max(left[number], 0)) for number, count in own.items())
            if unused >= _MOVED_SHARE * len(blocks[place]):
                labels[place] = 1
                left.subtract(own)
    return labels


def _plausible(blocks: Sequence[Sequence[str]], wanted: Sequence[str]) -> list[int]:
    """Return the blocks with enough of their 3-grams in the gold; 2-grams and words of blocks that have no more."""
    known = (
        set(wanted),
        set(itertools.pairwise(wanted)),
        set(zip(wanted, wanted[1:], wanted[2:], strict=False)),
    )
    found = []
    for place, block in enumerate(blocks):
        if len(block) >= 3:
            grams = list(zip(block, block[1:], block[2:], strict=False))
            share = sum(gram in known[2] for gram in grams) / len(grams)
        elif len(block) == 2:
            share = float((block[0], block[1]) in known[1])
        else:
            share = float(bool(block) and block[0] in known[0])
        if share >= _PLAUSIBLE:
            found.append(place)
    return found


@cached_array_kernel
def _align(page: Int32s, gold: Int32s, hits: Uint8s) -> None:
    """Mark the page's words on the best-scoring common subsequence with the gold.

    Two states a cell: in a run of matches, or in a gap, which costs nothing. One byte a cell says how it was reached: bits
    1-2 how a run reached it (1: continued, 2: started), bits 4-8 whence a gap did (1: row above, 2: column before, 3: a run).
    """
    rows, columns = len(page), len(gold)
    moves = np.zeros((rows + 1, columns + 1), np.uint8)
    never = np.float32(-1e9)
    gap, run = np.zeros(columns + 1, np.float32), np.full(columns + 1, never)
    next_gap, next_run = np.zeros(columns + 1, np.float32), np.full(columns + 1, never)
    for row in range(1, rows + 1):
        next_gap[0], next_run[0] = 0, never
        for column in range(1, columns + 1):
            move = 0
            next_run[column] = never
            if page[row - 1] == gold[column - 1]:
                continued, started = run[column - 1] + _SCORE_RUN, gap[column - 1] + _SCORE_START
                next_run[column] = max(continued, started)
                move = 1 if continued >= started else 2
            best, whence = gap[column], 1
            if next_gap[column - 1] > best:
                best, whence = next_gap[column - 1], 2
            if next_run[column] > best:
                best, whence = next_run[column], 3
            next_gap[column] = best
            moves[row, column] = move | whence << 2
        gap, next_gap = next_gap, gap
        run, next_run = next_run, run
    row, column, in_run = rows, columns, False
    while row > 0 and column > 0:
        move = moves[row, column]
        if in_run:
            hits[row - 1] = 1
            in_run = (move & 3) == 1
            row, column = row - 1, column - 1
        elif move >> 2 == 1:
            row -= 1
        elif move >> 2 == 2:
            column -= 1
        else:
            in_run = True
