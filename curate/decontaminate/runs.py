"""Runs of equal words of documents and benchmark texts: from n-grams found to how much of a text is there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from curate.decontaminate.index import Index, Marks
from curate.decontaminate.normal_hashes import normal_hashes
from curate.words import text_arrays

REACH = (
    100  # words of a document between two runs of one place: two long sentences of another text between two of an item
)
_FAR = 1 << 60
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Places(NamedTuple):
    """Where documents hold something of a text, one row for each document, text and neighbourhood (runs within REACH).

    Attributes:
        row: Number of the document, ascending, shape (P,).
        text: Number of the text in the index, ascending within a document.
        evidence: Distinct words of the text in the runs, common ones left out.
        content: Of these, those that n-grams count, which are neither template nor common.
        question: Distinct words of the text's question in the runs.
        runs: Document word, text word and number of words of each run, grouped by place, shape (R, 3).
        bounds: The runs of place p are `runs[bounds[p] : bounds[p + 1]]`, sorted by the document's word.
        hits: Number of the place of each n-gram that was found, and number of the n-gram, shape (N, 2).
    """

    row: Ints
    text: Ints
    evidence: Ints
    content: Ints
    question: Ints
    runs: Ints
    bounds: Ints
    hits: Ints


def find_places(
    words: NDArray[np.uint64], offsets: Ints, index: Index, marks: Marks, usable: Bools | None = None
) -> Places:
    """Find the texts of which documents hold an n-gram, and how much of each.

    A run is an n-gram and the equal words on both sides of it: so it takes in what is template or common beside it,
    and a word that an n-gram begins again elsewhere in the text.

    Args:
        words: Word hashes of all documents, one after another.
        offsets: Where each document's words start, and the end of the last; shape (documents + 1,).
        index: The index.
        marks: What words count for.
        usable: N-grams that may begin a run, shape (H,); all if None.
    """
    place, number = index.find(words, offsets)
    if usable is not None:
        place, number = place[usable[number]], number[usable[number]]
    sizes = index.bounds[number + 1] - index.bounds[number]
    owner = np.arange(sizes.sum()) + np.repeat(index.bounds[number] - (np.cumsum(sizes) - sizes), sizes)
    text, start = index.owners[owner], index.starts[owner]
    place, number = np.repeat(place, sizes), np.repeat(number, sizes)
    row = np.searchsorted(offsets, place, side="right") - 1

    # N-grams that overlap or touch at one distance between document and text are one run.
    order = np.lexsort((place, place - start, text, row))
    row, text, place, start, number = row[order], text[order], place[order], start[order], number[order]
    end = place + index.lengths[number]
    new = _changes(row, text, place - start)
    new[1:] |= place[1:] > end[:-1]
    run_of_hit = np.cumsum(new) - 1
    heads = np.flatnonzero(new)
    tails = np.append(heads[1:], len(new))[: len(heads)] - 1
    row, text, place, start, end = row[heads], text[heads], place[heads], start[heads], end[tails]
    place, start, end = _extended(words, offsets, index, row, text, place, start, end)

    # Runs within REACH of one another are one place.
    order = np.lexsort((start, place, text, row))
    row, text, place, start, end = row[order], text[order], place[order], start[order], end[order]
    new = _changes(row, text)
    new[1:] |= place[1:] > _reached(end, np.cumsum(new))[:-1] + REACH
    spot = np.cumsum(new) - 1
    heads = np.flatnonzero(new)
    spot_of_run = np.zeros(len(spot), np.int64)
    spot_of_run[order] = spot
    text = text[heads]
    question = index.words_at[text] + index.question[text]
    first, last = index.words_at[text][spot] + start, index.words_at[text][spot] + start + end - place
    first, last, spot = _without_overlap(first, last, spot)

    def total(words_of_run: Ints) -> Ints:
        sums = np.zeros(len(heads), np.int64)
        np.add.at(sums, spot, words_of_run)
        return sums

    evidence = total(marks.evidence[last] - marks.evidence[first])
    content = total(marks.content[last] - marks.content[first])
    asked = total(np.maximum(np.minimum(last, question[spot]) - first, 0))
    runs = np.stack([place, start, end - place], axis=1)
    hits = np.stack([spot_of_run[run_of_hit], number], axis=1)
    return Places(row[heads], text, evidence, content, asked, runs, np.append(heads, len(row)), hits)


def is_match(places: Places, index: Index) -> Bools:
    """Return which places hold enough words to be no chance; the score is not looked at. Shape (P,).

    That is `needs` words of the text, some of them of the question: an answer alone is no leak.
    """
    asked = np.minimum(index.question[places.text], index.shortest)
    enough: Bools = (places.evidence >= index.needs[places.text]) & (places.question >= asked)
    return enough


def overlaps(batch: pa.RecordBatch, index: Index) -> pa.RecordBatch:
    """Return column `matches` (large_list<uint64>): the distinct index n-grams in each document, sorted.

    Those that stand alone are left out: five equal words are no trace of an item (see `is_match`).

    Args:
        batch: Has a column `text`; the answer for a row depends on that row alone.
        index: The loaded index.
    """
    matches = matches_of(*normal_hashes(*text_arrays(batch["text"])), index)
    return pa.RecordBatch.from_arrays([matches], names=["matches"])


def matches_of(words: NDArray[np.uint64], offsets: Ints, index: Index) -> pa.LargeListArray:
    """Return column `matches` of `overlaps` from the hashes of documents' words."""
    places = find_places(words, offsets, index, index.marks)
    spot, number = places.hits[is_match(places, index)[places.hits[:, 0]]].T
    pairs = np.unique(places.row[spot] * max(1, len(index.hashes)) + number)
    rows, number = np.divmod(pairs, max(1, len(index.hashes)))
    ends = np.searchsorted(rows, np.arange(len(offsets)))
    return pa.LargeListArray.from_arrays(pa.array(ends.astype(np.int64)), pa.array(index.hashes[number]))


def _changes(*columns: Ints) -> Bools:
    """Return where a row of sorted columns differs from the one before it."""
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def _extended(
    words: NDArray[np.uint64], offsets: Ints, index: Index, row: Ints, text: Ints, place: Ints, start: Ints, end: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return the runs (place, start, end) as long as words of document and text are equal on both sides."""
    place, start, end = place.copy(), start.copy(), end.copy()
    first, last = offsets[row], offsets[row + 1]
    text_first, text_last = index.words_at[text], index.words_at[text + 1]
    going = np.flatnonzero((place > first) & (start > 0))
    while len(going):
        going = going[words[place[going] - 1] == index.words[text_first[going] + start[going] - 1]]
        place[going] -= 1
        start[going] -= 1
        going = going[(place[going] > first[going]) & (start[going] > 0)]
    behind = text_first + start + end - place  # the text's word behind the run
    going = np.flatnonzero((end < last) & (behind < text_last))
    while len(going):
        going = going[words[end[going]] == index.words[behind[going]]]
        end[going] += 1
        behind[going] += 1
        going = going[(end[going] < last[going]) & (behind[going] < text_last[going])]
    return place, start, end


def _without_overlap(first: Ints, end: Ints, group: Ints) -> tuple[Ints, Ints, Ints]:
    """Return intervals of which those of one group cover the same, each number once; sorted by group and start."""
    order = np.lexsort((first, group))
    first, end, group = first[order], end[order], group[order]
    first[1:] = np.where(
        group[1:] == group[:-1], np.minimum(np.maximum(first[1:], _reached(end, group)[:-1]), end[1:]), first[1:]
    )
    return first, end, group


def _reached(ends: Ints, groups: Ints) -> Ints:
    """Return the highest end so far within each group; groups ascend."""
    if not len(ends):
        return ends
    lift = groups * (_FAR // (int(groups[-1]) + 1))
    reached: Ints = np.maximum.accumulate(ends + lift) - lift
    return reached
