"""Gopher repetition rules (Rae et al. 2021, arXiv:2112.11446, table A1).

The formulas and numbers are those of datatrove (`gopher_repetition_filter.py`), the ones behind FineWeb. All bounds are
inclusive: a document at the bound stays. Words come from `curate.words.split_words`, not from spaCy.

Where we differ from datatrove on purpose:

- Blank lines are never lines, so spacing a text out dilutes no fraction and repeats nothing.
- Repeated 5- to 10-grams are equal if all their words are equal; datatrove compares the words written together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import field_validator

from curate.filter.bounds import AtMostNumber, AtMostShare, Filter
from curate.filter.gopher.quality import ratio
from curate.stage import Rule
from curate.text.words import count_repeats, split_lines, split_paragraphs
from curate.words import word_codes

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_TOP = (2, 3, 4)
_REPEATED = (5, 6, 7, 8, 9, 10)


class GopherRepetition(Filter):
    """Gopher's repetition rules (table A1). Each threshold is a number, a map by language, or off.

    Repeats are counted after the first occurrence. Every character fraction divides by all characters of the text. Lines and paragraphs
    are those of `curate.text.words`: never blank.

    Attributes:
        variant: Whose formulas: `datatrove`.
        max_duplicate_line_fraction, max_duplicate_paragraph_fraction: Lines and paragraphs that occurred before.
        max_duplicate_line_char_fraction, max_duplicate_paragraph_char_fraction: Characters in those.
        max_top_2gram_char_fraction ... max_top_4gram_char_fraction: Characters in all occurrences of the most frequent
            n-gram, spaces included; may exceed 1 where it overlaps itself. An n-gram seen once counts too.
        max_repeated_5gram_char_fraction ... max_repeated_10gram_char_fraction: Characters in n-grams that occurred
            before, without spaces; a counted n-gram is skipped as a whole.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("regex",)
    reads: ClassVar[tuple[str, ...]] = ("words",)
    adds: ClassVar[Mapping[str, str]] = {
        "duplicate_line_fraction": "float64",
        "duplicate_paragraph_fraction": "float64",
        "duplicate_line_char_fraction": "float64",
        "duplicate_paragraph_char_fraction": "float64",
        **{f"top_{n}gram_char_fraction": "float64" for n in _TOP},
        **{f"repeated_{n}gram_char_fraction": "float64" for n in _REPEATED},
    }
    decides: ClassVar[tuple[str, ...]] = (*(f"max_{column}" for column in adds), "by")

    variant: Literal["datatrove"] = "datatrove"
    max_duplicate_line_fraction: AtMostShare = 0.30
    max_duplicate_paragraph_fraction: AtMostShare = 0.30
    max_duplicate_line_char_fraction: AtMostShare = 0.20
    max_duplicate_paragraph_char_fraction: AtMostShare = 0.20
    max_top_2gram_char_fraction: AtMostNumber = 0.20
    max_top_3gram_char_fraction: AtMostNumber = 0.18
    max_top_4gram_char_fraction: AtMostNumber = 0.16
    max_repeated_5gram_char_fraction: AtMostShare = 0.15
    max_repeated_6gram_char_fraction: AtMostShare = 0.14
    max_repeated_7gram_char_fraction: AtMostShare = 0.13
    max_repeated_8gram_char_fraction: AtMostShare = 0.12
    max_repeated_9gram_char_fraction: AtMostShare = 0.11
    max_repeated_10gram_char_fraction: AtMostShare = 0.10

    @field_validator("variant", mode="before")
    @classmethod
    def _known_variant(cls, value: Any) -> Any:
        if value != "datatrove":
            raise ValueError(f"there is no variant {value!r} of gopher_repetition; there is: datatrove")
        return value

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; 0 where a text is too short to repeat anything."""
        import numpy as np
        import pyarrow as pa

        from curate.text.ngrams import repeated_chars, repeats, top_chars

        texts = [text or "" for text in batch["text"].to_pylist()]
        chars = np.array([len(text) for text in texts], np.int64)
        columns: dict[str, NDArray[np.float64]] = {}
        for unit, split in (("line", split_lines), ("paragraph", split_paragraphs)):
            total, again, again_chars = (
                np.array([count_repeats(split(text)) for text in texts], np.int64).reshape(-1, 3).T
            )
            columns[f"duplicate_{unit}_fraction"] = ratio(again, total)
            columns[f"duplicate_{unit}_char_fraction"] = ratio(again_chars, chars)

        words = word_codes(batch["words"])
        lengths = np.array([len(word) for word in words.vocabulary], np.int64)
        char_ends = np.concatenate(([0], np.cumsum(lengths[words.codes], dtype=np.int64)))
        rows = np.searchsorted(words.ends, np.arange(len(words.codes)), side="right")
        for level in repeats(words.codes, rows, max(_REPEATED)):
            if level.n in _TOP:
                found = top_chars(level, words.starts, words.ends, char_ends)
                columns[f"top_{level.n}gram_char_fraction"] = ratio(found, chars)
            elif level.n in _REPEATED:
                columns[f"repeated_{level.n}gram_char_fraction"] = ratio(
                    repeated_chars(level, words.ends, char_ends), chars
                )
        return pa.record_batch({name: pa.array(columns[name], pa.float64()) for name in self.adds})

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return one rule for each column, in the order in which datatrove tests them (paragraphs first)."""
        columns = sorted(self.adds, key=lambda column: "paragraph" not in column)
        bounds = ((column, getattr(self, f"max_{column}")) for column in columns)
        return tuple(
            self.rule(f"{block}.{column}", column, None, bound) for column, bound in bounds if bound is not None
        )
