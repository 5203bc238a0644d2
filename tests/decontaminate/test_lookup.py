"""N-grams of all lengths found in documents, against sets of tuples of words."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from curate.decontaminate.lookup import Lookup, places_in, table_of
from curate.decontaminate.ngrams import at_positions, ngram_hashes

Words = NDArray[np.uint64]


def made(grams: list[Words], ngram: int, shortest: int) -> tuple[Lookup, dict[int, int]]:
    """Return the lookup of these n-grams, and the place of each of their hashes."""
    hashes = [int(ngram_hashes(gram, len(gram))[0]) for gram in grams]
    lengths = dict(zip(hashes, map(len, grams), strict=True))
    held = np.array(sorted(lengths), np.uint64)
    short = [gram for gram in grams if len(gram) < ngram]
    prefixes = np.array([at_positions(gram, np.array([0]), shortest)[0] for gram in short], np.uint64)
    is_long = np.array([lengths[value] == ngram for value in held.tolist()], np.bool_)
    sizes = np.array([len(gram) for gram in short], np.int64)
    return Lookup(held, is_long, ngram, shortest, prefixes, sizes), {
        value: at for at, value in enumerate(held.tolist())
    }


@pytest.mark.parametrize(("ngram", "shortest"), [(1, 1), (3, 3), (5, 1), (13, 5), (13, 13), (64, 2), (64, 64)])
def test_finds_what_sets_of_tuples_find(ngram: int, shortest: int) -> None:
    draw = np.random.default_rng(ngram * 100 + shortest)
    vocabulary = draw.integers(0, 1 << 63, 4, np.uint64)
    source = vocabulary[draw.integers(0, 4, 400)]  # few words: prefixes meet, n-grams overlap and repeat
    grams = [
        source[at : at + n].copy()
        for at, n in zip(draw.integers(0, 300, 150), draw.integers(shortest, ngram + 1, 150), strict=True)
    ]
    lookup, place_of = made(grams, ngram, shortest)
    documents = [np.zeros(0, np.uint64), source, source[:5], source[7 : 7 + ngram], source[200:230]]
    documents += [vocabulary[draw.integers(0, 4, size)] for size in (1, ngram - 1, ngram, 900)]
    words, ends = np.concatenate(documents), np.cumsum([0, *map(len, documents)])
    held = {tuple(gram.tolist()): place_of[int(ngram_hashes(gram, len(gram))[0])] for gram in grams}
    want = [
        (int(start) + at, held[gram])
        for start, document in zip(ends, documents, strict=False)
        for at in range(len(document))
        for n in range(shortest, ngram + 1)
        if at + n <= len(document) and (gram := tuple(document[at : at + n].tolist())) in held
    ]
    place, number = lookup.find(words, ends)
    assert list(zip(place.tolist(), number.tolist(), strict=True)) == sorted(want)
    assert len(want) > 10


def test_more_hits_than_there_is_room_for() -> None:
    word = np.array([7], np.uint64)
    lookup, _ = made([np.repeat(word, n) for n in (2, 3, 4)], 4, 2)
    lengths = [1, 50_000, 3, 0, 30_000]
    place, number = lookup.find(np.repeat(word, sum(lengths)), np.cumsum([0, *lengths]))
    want = {n: sum(max(0, size - n + 1) for size in lengths) for n in (2, 3, 4)}
    assert sorted(np.bincount(number).tolist()) == sorted(want.values())
    assert len(np.unique(place * 3 + number)) == len(place) == sum(want.values())


def test_nothing_to_find_or_to_find_in() -> None:
    nothing = np.zeros(0, np.uint64)
    empty = Lookup(nothing, np.zeros(0, np.bool_), 13, 8, nothing, np.zeros(0, np.int64))
    assert [len(side) for side in empty.find(np.arange(100, dtype=np.uint64), np.array([0, 100]))] == [0, 0]
    lookup, _ = made([np.arange(13, dtype=np.uint64)], 13, 8)
    assert [len(side) for side in lookup.find(nothing, np.array([0]))] == [0, 0]
    assert [len(side) for side in lookup.find(nothing, np.array([0, 0, 0]))] == [0, 0]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, 4097])
def test_table_knows_what_it_holds(size: int) -> None:
    draw = np.random.default_rng(size)
    hashes = np.unique(
        np.concatenate(
            [draw.integers(0, 1 << 64, size, np.uint64, endpoint=False), np.arange(size // 3, dtype=np.uint64)]
        )
    )
    table = table_of(hashes)
    edges = np.array([0, 1, (1 << 64) - 1, 1 << 63], np.uint64)
    for values in (hashes, hashes + np.uint64(1), edges):
        want = [hashes.tolist().index(value) if value in set(hashes.tolist()) else -1 for value in values[:50].tolist()]
        assert places_in(table, values[:50]).tolist() == want
    assert places_in(table, hashes).tolist() == list(range(len(hashes)))
    assert table.buckets[-1] == len(hashes)
    assert all(a <= b for a, b in itertools.pairwise(table.buckets.tolist()))
