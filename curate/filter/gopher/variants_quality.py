"""Gopher's quality rules as DCLM and Dolma compute them.

They follow the published code to the decision; what was recorded of it on real documents is replayed by
`tests/filter/test_filter_variants.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from statistics import median

from curate.filter.gopher.variants_words import dolma_lines, fasttext_words

_DCLM_SYMBOLS = ("#", "...", ". . .", "…")
_DCLM_ELLIPSES = ("...", ". . .", "…")
_DOLMA_SYMBOLS = ("#", "…")
_DOLMA_DIGITS = 5  # behind the point, of each score that the taggers write

Values = dict[str, float]


def dclm(text: str, bullets: tuple[str, ...], stop_words: Mapping[str, Collection[str]]) -> Values:
    """Return DCLM's values (`baselines/mappers/filters/content_filters.py`, set by `dclm_baseline_refinedweb.yaml`).

    Two kinds of words: those that are counted are `fasttext_words`, all others those of `str.split`. `#` and ellipses of three
    kinds are one measure, and "......" is two of them. Lines are stripped and not empty. Every occurrence of a stop word
    counts, in lower case. A text without a word is removed.
    """
    words = text.split()
    lines = [line for part in text.split("\n") if (line := part.strip())]
    return {
        "num_words": len(fasttext_words(text)),
        "mean_word_length": sum(map(len, words)) / max(len(words), 1),
        "symbol_ratio": sum(map(text.count, _DCLM_SYMBOLS)) / max(len(words), 1),
        "bullet_line_fraction": _share(line.startswith(bullets) for line in lines),
        "ellipsis_line_fraction": _share(line.endswith(_DCLM_ELLIPSES) for line in lines),
        "alpha_word_fraction": _share(map(_has_letter, words)),
        "num_stop_words": _stop_words([word.lower() for word in words], stop_words),
    }


def dolma(
    text: str, bullets: tuple[str, ...], stop_words: Mapping[str, Collection[str]], blank_lines: bool = True
) -> Values:
    """Return Dolma's values (`python/dolma/taggers/gopher.py`, tagger `gopher_v1`, the one that its mixers read).

    All words are those of `str.split`; their length is the median. Words with `#` or `…` in them are one measure; three stops
    are no ellipsis. Lines are the parts between line feeds, blank ones too, and a bullet after a space is none. Every
    occurrence of a stop word counts, as it is written. Scores are rounded to five digits before they are compared.

    Args:
        text: The document.
        bullets: Signs that begin a line of a list.
        stop_words: Lists by language.
        blank_lines: Whether blank lines are lines; without, it is the tagger `gopher_v2`.
    """
    words = text.split()
    lines = dolma_lines(text, blank_lines)
    values: Values = {
        "num_words": len(words),
        "median_word_length": float(median(map(len, words))) if words else 0.0,
        "symbol_ratio": _share(any(sign in word for sign in _DOLMA_SYMBOLS) for word in words),
        "bullet_line_fraction": _share(line.startswith(bullets) for line in lines),
        "ellipsis_line_fraction": _share(line.endswith("…") for line in lines),
        "alpha_word_fraction": _share(map(_has_letter, words)),
        "num_stop_words": _stop_words(words, stop_words),
    }
    return {name: round(value, _DOLMA_DIGITS) for name, value in values.items()}


def _share(answers: Iterable[bool]) -> float:
    found = list(answers)
    return sum(found) / max(len(found), 1)


def _has_letter(word: str) -> bool:
    return word.isalpha() or any(map(str.isalpha, word))


def _stop_words(words: Collection[str], lists: Mapping[str, Collection[str]]) -> int:
    return max(sum(word in listed for word in words) for listed in map(frozenset, lists.values()))


VARIANTS: Mapping[str, Callable[[str, tuple[str, ...], Mapping[str, Collection[str]]], Values]] = {
    "dclm": dclm,
    "dolma": dolma,
    "dolma_v2": partial(dolma, blank_lines=False),
}
