from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.text.ngrams import repeated_chars, repeats, top_chars


def measured(documents, longest):
    """Return per n the characters of top and of repeated n-grams, for documents given as lists of words."""
    vocabulary = sorted({word for words in documents for word in words})
    codes = np.array([vocabulary.index(word) for words in documents for word in words], np.int64)
    rows = np.array([row for row, words in enumerate(documents) for _ in words], np.int64)
    ends = np.cumsum([len(words) for words in documents], dtype=np.int64)
    starts = ends - np.array([len(words) for words in documents], np.int64)
    chars = np.concatenate(([0], np.cumsum([len(word) for words in documents for word in words], dtype=np.int64)))
    return {
        level.n: (top_chars(level, starts, ends, chars).tolist(), repeated_chars(level, ends, chars).tolist())
        for level in repeats(codes, rows, longest)
    }


def plain(words, n):
    """The definition, word by word."""
    grams = [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]
    top = 0
    if grams:
        gram, count = Counter(grams).most_common(1)[0]
        top = len(" ".join(gram)) * count
    seen, again, place = set(), 0, 0
    while place < len(grams):
        if grams[place] in seen:
            again += sum(map(len, grams[place]))
            place += n
        else:
            seen.add(grams[place])
            place += 1
    return top, again


def test_by_hand():
    # a bb a bb a bb c: the 2-gram "a bb" (4 characters) 3 times = 12; "bb a" twice.
    # From the left: "a bb" new, "bb a" new, "a bb" seen (+3, skip to word 5), "a bb" seen (+3): 6.
    result = measured([["a", "bb", "a", "bb", "a", "bb", "c"]], 3)
    assert result[2] == ([12], [6])
    # 3-grams: "a bb a" (6 characters) twice = 12 and "bb a bb" twice, the first in the text counts.
    # From the left: "a bb a", "bb a bb" new, "a bb a" seen at word 3: +4, skip to word 6, nothing is left.
    assert result[3] == ([12], [4])


def test_an_ngram_seen_once_counts_at_the_top_and_documents_stay_apart():
    # Nothing is repeated inside a document, though "x y" is in both: the first 2-gram counts once, 3 characters.
    assert measured([["x", "y", "z"], ["x", "y"], ["x"], []], 2)[2] == ([3, 3, 0, 0], [0, 0, 0, 0])


@given(st.lists(st.lists(st.sampled_from(["a", "b", "cc"]), max_size=30), max_size=4))
def test_equals_the_definition(documents):
    for n, (top, again) in measured(documents, 6).items():
        assert list(zip(top, again, strict=True)) == [plain(words, n) for words in documents]


@pytest.mark.parametrize("documents", [[], [[]], [[], []]])
def test_nothing(documents):
    assert measured(documents, 3) == {n: ([0] * len(documents), [0] * len(documents)) for n in (1, 2, 3)}
