"""Gopher's repetition rules as DCLM, Dolma, RedPajama and NeMo Curator compute them: four formulas behind one name.

Each function takes a text and returns the values of `COLUMNS`, or 0 where the implementation has no such measure or none
for this text. They follow the published code to the decision, its defects included; what was recorded of that code on real
documents is replayed by `tests/filter/test_filter_variants.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curate.filter.gopher.variants_words import dolma_lines, normalised_words, segmented_words

Int64s = NDArray[np.int64]

TOP = (2, 3, 4)
REPEATED = (5, 6, 7, 8, 9, 10)
COLUMNS = (
    "duplicate_line_fraction",
    "duplicate_paragraph_fraction",
    "duplicate_line_char_fraction",
    "duplicate_paragraph_char_fraction",
    *(f"top_{n}gram_char_fraction" for n in TOP),
    *(f"repeated_{n}gram_char_fraction" for n in REPEATED),
)

_DOLMA_DIGITS = 5  # behind the point, of each score that the taggers write (`dolma/core/taggers.py`)
_REDPAJAMA_DIGITS = 8  # `core/constants.py`


class Grams(NamedTuple):
    """The n-grams of a text that occur more than once.

    Attributes:
        n: Words of each.
        total: How many n-grams the text has, repeated or not.
        places: First word of each occurrence, ascending, shape (M,).
        groups: Which n-gram that is, 0 to G - 1, shape (M,).
        counts: How often each occurs, shape (G,).
        firsts: First word of the first occurrence of each, shape (G,).
    """

    n: int
    total: int
    places: Int64s
    groups: Int64s
    counts: Int64s
    firsts: Int64s


class Counted(NamedTuple):
    """The words of a text, and its repeated n-grams for n = 2 to 10.

    Attributes:
        words: In order.
        chars: Characters in all words before each word, and in all; shape (N + 1,).
        levels: By n.
    """

    words: Sequence[str]
    chars: Int64s
    levels: Mapping[int, Grams]

    def lengths(self, places: Int64s, n: int) -> Int64s:
        """Return the characters in the n words from each place."""
        found: Int64s = self.chars[places + n] - self.chars[places]
        return found

    def most_frequent(self, n: int) -> tuple[int, int]:
        """Return the first word and the count of the most frequent n-gram; of equally frequent ones the first in the text."""
        grams = self.levels[n]
        if not len(grams.counts):
            return 0, 1
        most = int(grams.counts.max())
        return int(grams.firsts[grams.counts == most].min()), most


def count_words(words: Sequence[str]) -> Counted:
    """Return the repeated n-grams of `words`: sorted and counted, so the time grows with N log N at worst."""
    code_of: dict[str, int] = {}
    codes = np.fromiter((code_of.setdefault(word, len(code_of)) for word in words), np.int64, len(words))
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    chars = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
    return Counted(words, chars, {grams.n: grams for grams in _levels(codes)})


def _levels(codes: Int64s) -> Iterator[Grams]:
    # An n-gram is repeated only if both (n-1)-grams in it are: what occurs once is never looked at again.
    places = np.arange(len(codes))
    ids = codes  # by place: the (n-1)-gram that begins there, if it is repeated
    repeated = np.bincount(codes)[codes] > 1 if len(codes) else np.zeros(0, np.bool_)
    for n in range(2, max(REPEATED) + 1):
        inside = places[: np.searchsorted(places, len(codes) - n, side="right")]
        inside = inside[repeated[inside] & repeated[inside + 1]]
        keys = ids[inside] * np.int64(len(codes) + 1) + codes[inside + n - 1]
        _, first, groups, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        again = counts > 1
        kept = again[groups]
        number = np.cumsum(again) - 1
        places, groups = inside[kept], number[groups[kept]]
        ids = np.zeros(len(codes), np.int64)
        ids[places] = groups
        repeated = np.zeros(len(codes), np.bool_)
        repeated[places] = True
        yield Grams(n, max(len(codes) - n + 1, 0), places, groups, counts[again], inside[first[again]])


def dclm(text: str) -> list[float]:
    """Return DCLM's values (`baselines/mappers/filters/content_filters.py`, `massive_web_repetition_filters`).

    All occurrences of what repeats count, the first too, and a word in several repeated n-grams counts once. Lines and
    paragraphs are stripped and not empty; their characters and those of words are all that is divided by. Words are
    `segmented_words`. Of equally frequent n-grams the longest counts; if none occurs twice the value is 0. A text of one line
    repeats nothing; one without a line is removed (1 here).
    """
    values: list[float] = []
    shares = [_dclm_shares(text, "\n"), _dclm_shares(text, "\n\n")]
    values += [share for share, _ in shares] + [share for _, share in shares]
    counted = count_words(segmented_words(text))
    total = int(counted.chars[-1])
    for n in TOP:
        grams = counted.levels[n]
        if not len(grams.counts):
            values.append(0.0)
            continue
        most = grams.counts.max()
        longest = counted.lengths(grams.firsts[grams.counts == most], n).max()
        values.append(int(longest * most) / total)
    values += [_covered(counted, n) / total if total else 0.0 for n in REPEATED]
    return values


def _dclm_shares(text: str, separator: str) -> tuple[float, float]:
    segments = [segment for part in text.split(separator) if (segment := part.strip())]
    if len(segments) < 2:
        return (0.0, 0.0) if segments else (1.0, 1.0)
    counts = Counter(segments)
    again = sum(count for count in counts.values() if count > 1)
    chars = sum(len(segment) * count for segment, count in counts.items() if count > 1)
    return again / len(segments), chars / sum(map(len, segments))


def _covered(counted: Counted, n: int) -> int:
    """Return the characters of the words that lie in a repeated n-gram."""
    steps = np.zeros(len(counted.words) + 1, np.int64)
    np.add.at(steps, counted.levels[n].places, 1)
    np.add.at(steps, counted.levels[n].places + n, -1)
    inside = np.cumsum(steps[:-1]) > 0
    return int(np.diff(counted.chars)[inside].sum())


def dolma(text: str, blank_lines: bool = True) -> list[float]:
    """Return Dolma's values (`python/dolma/taggers/gopher.py`, tagger `gopher_v1`, the one that its mixers read).

    All occurrences of what repeats count, and a word counts once for each repeated n-gram it lies in. Words are those of
    `str.split`. Lines are the parts between line feeds, blank ones too: where blank lines separate paragraphs they are
    repeated lines. The characters of repeated lines, spaces included, are divided by those of words, and may exceed 1;
    repeated n-grams by the characters of all n-grams. The most frequent n-gram counts if it occurs once, and of equally
    frequent ones the first. Scores are rounded to five digits before they are compared.

    Args:
        text: The document.
        blank_lines: Whether blank lines are lines. Without, it is the tagger `gopher_v2`, whose lines are the parts between
            runs of line feeds: an empty one at either end, and lines of spaces, are still lines.
    """
    counted = count_words(text.split())
    total = int(counted.chars[-1])
    lines = dolma_lines(text, blank_lines)
    counts = Counter(lines)
    again = sum(count for count in counts.values() if count > 1)
    chars = sum(len(line) * count for line, count in counts.items() if count > 1)
    values = [again / max(len(lines), 1), 0.0, chars / max(total, 1), 0.0]
    for n in TOP:
        place, count = counted.most_frequent(n)
        long_enough = len(counted.words) >= n
        values.append(count * int(counted.chars[place + n] - counted.chars[place]) / total if long_enough else 0.0)
    for n in REPEATED:
        grams = counted.levels[n]
        everything = int(counted.lengths(np.arange(grams.total), n).sum())
        values.append(int(counted.lengths(grams.places, n).sum()) / max(everything, 1))
    return [round(value, _DOLMA_DIGITS) for value in values]


def redpajama(text: str) -> list[float]:
    """Return RedPajama-V2's signals (`app/src/core/quality_signals/repetitions.py`); it has none for lines and paragraphs.

    Words are `normalised_words`, and their characters all that is divided by. All occurrences of a repeated n-gram count, a
    word once; the most frequent n-gram counts if it occurs twice, and of equally frequent ones the first. The signals are
    published rounded to eight digits, and without bounds: those of Gopher are compared with them.
    """
    counted = count_words(normalised_words(text))
    total = int(counted.chars[-1])
    values = [0.0] * 4
    for n in TOP:
        place, count = counted.most_frequent(n)
        length = int(counted.chars[place + n] - counted.chars[place]) if count > 1 else 0
        values.append(length * count / total if count > 1 else 0.0)
    values += [_covered(counted, n) / total if total else 0.0 for n in REPEATED]
    return [round(value, _REDPAJAMA_DIGITS) for value in values]


def curator(text: str) -> list[float]:
    """Return NeMo Curator's values (`nemo_curator/stages/text/filters/heuristic/repetition/repetition.py`, version 1.3).

    Its lines, called sentences there, are the parts between line feeds that are not blank, and paragraphs those between two
    line feeds, empty ones too; the share that is left when repeats go is compared with 0.7 and 0.8, here what goes with 0.3
    and 0.2. Words are those of `str.split`. The most frequent n-gram is sought in the text with single spaces between its
    words, inside other words too, so that it is not found where words are apart by more. Repeated n-grams count from the
    second occurrence on, each word once, with the spaces between. All characters of the text are divided by. A text of fewer
    than n words has the value 1, so fewer than ten words are always removed.

    Of equally frequent n-grams Curator takes any, by the hash seed of its process; here the first counts. It stops at a text
    without a line; here that is removed.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    paragraphs = text.split("\n\n")
    values = [*_without_repeats(lines), *_without_repeats(paragraphs)]
    values = [values[0], values[2], values[1], values[3]]
    counted = count_words(text.strip().split())
    words = counted.words
    for n in TOP:
        if len(words) < n:
            values.append(1.0)
            continue
        place, _ = counted.most_frequent(n)
        gram = " ".join(words[place : place + n])
        values.append(text.count(gram) * len(gram) / len(text))
    for n in REPEATED:
        values.append(_curator_repeated(counted, n) / len(text) if len(words) >= n else 1.0)
    return values


def _without_repeats(parts: Sequence[str]) -> tuple[float, float]:
    chars = sum(map(len, parts))
    unique = set(parts)
    fewer = (len(parts) - len(unique)) / len(parts) if parts else 1.0
    return fewer, (chars - sum(map(len, unique))) / chars if chars else 1.0


def _curator_repeated(counted: Counted, n: int) -> int:
    grams = counted.levels[n]
    again = grams.places[grams.places != grams.firsts[grams.groups]]
    known = n - np.diff(again, prepend=-n)  # words of each that the repeat before it has counted
    known = np.clip(known, 0, n)
    chars = counted.chars[again + n] - counted.chars[again + known]
    return int(chars.sum() + np.minimum(n - known, n - 1).sum())


VARIANTS: Mapping[str, Callable[[str], list[float]]] = {
    "dclm": dclm,
    "dolma": dolma,
    "dolma_v2": partial(dolma, blank_lines=False),
    "redpajama": redpajama,
    "curator": curator,
}


def measure(texts: Sequence[str | None], variant: str, columns: Sequence[str]) -> NDArray[np.float64]:
    """Return the values of some of `COLUMNS`, and of "num_chars", for each text; shape (texts, columns).

    Args:
        texts: Documents; none is the empty one.
        variant: One of `VARIANTS`.
        columns: Names, in the order wanted.
    """
    places = [COLUMNS.index(column) if column in COLUMNS else len(COLUMNS) for column in columns]
    rows = [[*VARIANTS[variant](text or ""), len(text or "")] for text in texts]
    return np.array(rows, np.float64).reshape(-1, len(COLUMNS) + 1)[:, places]
