"""Bounds by language, as FineWeb-2 adapted Gopher's and FineWeb's (Penedo et al. 2025, arXiv:2506.20920; `configs/*.yml`).

`bounds: fineweb2` in a block takes the maps from label to number that this file holds for the labels of lid.176, and
what FineWeb-2 sets for all languages: no rule on duplicate paragraphs, on characters in duplicate lines (Gopher's) or on short
lines, and at most 0.1 of the characters in repeated lines. What the recipe says itself wins.

- English is not in FineWeb-2. Its numbers here are those of the paper's rules and of FineWeb.
- A bound that can never fire is left out: 33 languages have a least share of lines with a terminal mark of 0 or -1, German a
  least word length of 0 (`NEVER` says which). A language without a number, and a text of unknown language, pass the rule.
- FineWeb-2 found the numbers with a tokenizer for each language, datatrove's formulas and the labels of GlotLID. With
  `curate.words.split_words` in their place fractions by words are near, not equal, to theirs.
- A document has the stop words of the language that has most of them in it, not of its label. The languages of `NO_STOP_WORDS`
  need none.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from curate.filter.published import Published

_TABLE = Path(__file__).with_name("fineweb2.json")

# Setting -> column of the table.
_MAPS: Mapping[str, Mapping[str, str]] = {
    "GopherRepetition": {
        "max_duplicate_line_fraction": "dup_line_frac",
        **{f"max_top_{n}gram_char_fraction": f"top_{n}" for n in range(2, 5)},
        **{f"max_repeated_{n}gram_char_fraction": f"dup_{n}" for n in range(5, 11)},
    },
    "FineWeb": {
        "min_terminal_line_fraction": "line_punct_thr",
        "max_newlines_per_word": "new_line_ratio",
    },
    "GopherQuality": {
        "min_mean_word_length": "min_avg_word_length",
        "max_mean_word_length": "max_avg_word_length",
        "min_alpha_word_fraction": "max_non_alpha_words_ratio",  # theirs is the least share of words with a letter
    },
}
# What it sets for every language.
_FOR_ALL: Mapping[str, Mapping[str, Any]] = {
    "GopherRepetition": {
        "max_duplicate_paragraph_fraction": None,
        "max_duplicate_line_char_fraction": None,
        "max_duplicate_paragraph_char_fraction": None,
    },
    "FineWeb": {"max_short_line_fraction": None, "max_repeated_line_char_fraction": 0.1},
    "GopherQuality": {},
}
_ENGLISH: Mapping[str, float] = {
    "dup_line_frac": 0.30,
    **{f"top_{n}": number for n, number in zip(range(2, 5), (0.20, 0.18, 0.16), strict=True)},
    **{f"dup_{n}": number for n, number in zip(range(5, 11), (0.15, 0.14, 0.13, 0.12, 0.11, 0.10), strict=True)},
    "line_punct_thr": 0.12,
    "new_line_ratio": 0.3,
    "min_avg_word_length": 3.0,
    "max_avg_word_length": 10.0,
    "max_non_alpha_words_ratio": 0.8,
}
# Where two stop words in a text of a hundred words are no rule: our words of scripts without spaces are single characters, and
# in Korean and Telugu most of these words are endings (found in 3 and 2 of 4 texts of ten sentences; elsewhere in all).
NO_STOP_WORDS = ("bo", "km", "ko", "lo", "my", "te", "th")
_ENGLISH_STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
# Where a number means that nothing is removed: datatrove tests no bound of 0, and no share of lines lies below it.
NEVER: Mapping[str, float] = {"line_punct_thr": 0.0, "min_avg_word_length": 0.0}


class BoundsByLanguage(Published):
    """A published filter whose bounds FineWeb-2 adapted.

    Attributes:
        bounds: `fineweb2`: bounds by language, and its stop words, where the recipe gives none of its own. The stop words alone are
            `stop_words: fineweb2`.
    """

    bounds: Literal["fineweb2"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _bounds_by_language(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        if values.get("stop_words") == "fineweb2":
            values = {**values, "stop_words": stop_words()}
        if values.get("bounds") != "fineweb2":
            return values
        off = {end for rule, ends in cls.ranges.items() if rule in values for end in ends}
        return {**{name: bound for name, bound in bounds_of(cls.__name__).items() if name not in off}, **values}


@functools.cache
def bounds_of(block: str) -> Mapping[str, Any]:
    """Return the settings that `bounds: fineweb2` brings.

    Args:
        block: Name of the filter's class.
    """
    numbers, _ = _table()
    settings: dict[str, Any] = dict(_FOR_ALL[block])
    for setting, column in _MAPS[block].items():
        found = {label: row[column] for label, row in numbers.items()}
        settings[setting] = {
            label: number for label, number in found.items() if column not in NEVER or number > NEVER[column]
        }
    if block == "GopherQuality":
        settings["stop_words"] = stop_words()
        settings["min_stop_words"] = {label: 2.0 for label in numbers if label not in NO_STOP_WORDS}
    return settings


def stop_words() -> Mapping[str, tuple[str, ...]]:
    """Return by label the 8 to 30 words that FineWeb-2 looks for."""
    return _table()[1]


@functools.cache
def _table() -> tuple[Mapping[str, Mapping[str, float]], Mapping[str, tuple[str, ...]]]:
    """Return by label the numbers of each column, and the stop words."""
    table = json.loads(_TABLE.read_text(encoding="utf-8"))
    columns = table["columns"][1:-1]
    numbers: dict[str, Mapping[str, float]] = {"en": _ENGLISH}
    words_of: dict[str, tuple[str, ...]] = {"en": _ENGLISH_STOP_WORDS}
    for label, (_, *values, words) in table["languages"].items():
        numbers[label] = dict(zip(columns, map(float, values), strict=True))
        words_of[label] = tuple(words)
    return numbers, words_of
