"""Gopher repetition rules (Rae et al. 2021, arXiv:2112.11446, table A1).

The paper gives thresholds and names, no formulas. All bounds are inclusive: a document at the bound stays.

`datatrove` decides as datatrove 0.10.1 does (`gopher_repetition_filter.py`, behind FineWeb), rule by rule: words of spaCy,
lines between runs of line feeds with empty ones at the ends of the text, repeated 5- to 10-grams equal if they are so
written together, the empty text removed first. `curate` has the same formulas and numbers, and differs on purpose:

- Words come from `curate.words.split_words`: "don't" is one word.
- Blank lines are never lines, so spacing a text out dilutes no fraction and repeats nothing; every line end counts, and
  white space at the end of a line makes no difference.
- Repeated 5- to 10-grams are equal if all their words are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from curate.filter.bounds import AtMostNumber, AtMostShare, Switch
from curate.filter.fineweb2 import BoundsByLanguage
from curate.filter.published import ENGLISH
from curate.stage import Rule

if TYPE_CHECKING:
    import pyarrow as pa

_TOP = (2, 3, 4)
_REPEATED = (5, 6, 7, 8, 9, 10)


class GopherRepetition(BoundsByLanguage):
    """Gopher's repetition rules (table A1). Each threshold is a number, a map by language, or off.

    Repeats are counted after the first occurrence. Every character fraction divides by all characters of the text.

    Attributes:
        variant: Whose formulas: `curate` or `datatrove` (see above).
        max_duplicate_line_fraction, max_duplicate_paragraph_fraction: Lines and paragraphs that occurred before.
        max_duplicate_line_char_fraction, max_duplicate_paragraph_char_fraction: Characters in those.
        max_top_2gram_char_fraction ... max_top_4gram_char_fraction: Characters in all occurrences of the most frequent
            n-gram, spaces included; may exceed 1 where it overlaps itself. Of equally frequent ones the first in the text
            counts, and one that occurs once counts too.
        max_repeated_5gram_char_fraction ... max_repeated_10gram_char_fraction: Characters in n-grams that were read
            before, without spaces; a counted n-gram is skipped as a whole.
        empty: Remove the empty text (datatrove: on).
    """

    version: ClassVar[int] = 2
    adds: ClassVar[Mapping[str, str]] = {
        "num_chars": "int64",
        "duplicate_line_fraction": "float64",
        "duplicate_paragraph_fraction": "float64",
        "duplicate_line_char_fraction": "float64",
        "duplicate_paragraph_char_fraction": "float64",
        **{f"top_{n}gram_char_fraction": "float64" for n in _TOP},
        **{f"repeated_{n}gram_char_fraction": "float64" for n in _REPEATED},
    }
    decides: ClassVar[tuple[str, ...]] = ("empty", *(f"max_{name}" for name in adds if name != "num_chars"), "by", "bounds")
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"curate": {}, "datatrove": {**ENGLISH, "empty": True}}

    variant: Literal["curate", "datatrove"] = "curate"
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
    empty: Switch = False

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; 0 where a text is too short to repeat anything."""
        import numpy as np

        from curate.filter.gopher import repetition_kernel as kernel

        values = np.empty((batch.num_rows, len(self.adds)), np.float64)
        variant = kernel.DATATROVE if self.variant == "datatrove" else kernel.CURATE
        kernel.measure(self.texts(batch), self.tokens(batch), variant, values)
        return self.columns(values)

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return one rule for each column, in the order in which datatrove tests them (paragraphs first)."""
        fractions = [name for name in self.adds if name != "num_chars"]
        bounds = [
            (name, getattr(self, f"max_{name}")) for name in sorted(fractions, key=lambda name: "paragraph" not in name)
        ]
        empty = (Rule(f"{block}.empty", "num_chars", at_least=1.0),) if self.empty else ()
        return empty + tuple(
            self.rule(f"{block}.{name}", name, None, bound) for name, bound in bounds if bound is not None
        )
