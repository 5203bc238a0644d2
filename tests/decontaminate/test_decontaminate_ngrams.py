"""Hashes of n-grams."""

from __future__ import annotations

import numpy as np

from curate.decontaminate.ngrams import BLOCK, at_positions, ngram_hashes
from curate.words import hash_word


def test_ngram_hashes_are_one_for_each_sequence() -> None:
    words = np.random.default_rng(3).integers(0, 5, 2000).astype(np.uint64)  # few words: many equal n-grams
    for n in (1, 2, 3, 8):
        hashes = ngram_hashes(words, n)
        grams = [tuple(words[at : at + n].tolist()) for at in range(len(words) - n + 1)]
        assert len(hashes) == len(grams)
        assert len(set(zip(hashes.tolist(), grams, strict=True))) == len(set(grams)) == len(set(hashes.tolist()))


def test_order_and_length_of_words_matter() -> None:
    a, b, c = (hash_word(word) for word in "abc")
    seen = [
        ngram_hashes(np.array(words, np.uint64), len(words))[0] for words in ([a, b, c], [c, b, a], [b, a, c], [a, b])
    ]
    assert len(set(seen)) == 4
    zeros = np.zeros(9, np.uint64)
    assert ngram_hashes(zeros, 8)[0] != ngram_hashes(zeros, 9)[0]


def test_hashes_are_the_same_at_every_position_and_across_blocks() -> None:
    words = np.random.default_rng(5).integers(0, 1 << 63, 2 * BLOCK + 100).astype(np.uint64)
    hashes = ngram_hashes(words, 13)
    assert len(hashes) == len(words) - 12
    for at in (0, 1, BLOCK - 13, BLOCK - 1, BLOCK, 2 * BLOCK + 87):
        assert hashes[at] == ngram_hashes(words[at : at + 13], 13)[0]
        assert hashes[at] == at_positions(words, np.array([at]), 13)[0]
