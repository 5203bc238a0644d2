"""FineWeb's own quality rules (Penedo et al. 2024, arXiv:2406.17557, section 3.5; datatrove `fineweb_quality_filter.py`).

The numbers are those of datatrove's code; for duplicate lines the paper's text says 0.1 where the code has 0.01. All bounds
are inclusive.

`datatrove` decides as datatrove 0.10.1 does: lines end at line feeds alone and keep the white space at their ends, its list
of marks ends a line, words are spaCy's, a text without a line is removed first. In `curate` every line end counts, white
space at the end of a line does not, and words come from `curate.words.split_words`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from curate.filter.bounds import AtLeastShare, AtMostNumber, AtMostShare, Switch
from curate.filter.fineweb2 import BoundsByLanguage
from curate.filter.published import ENGLISH
from curate.stage import Rule

if TYPE_CHECKING:
    import pyarrow as pa


class FineWeb(BoundsByLanguage):
    """FineWeb's rules on lines. Each threshold is a number, a map by language, or off.

    Attributes:
        variant: Whose lines and words: `curate` or `datatrove` (see above).
        min_terminal_line_fraction: Lines that end in a terminal mark of any script (Unicode property Sentence_Terminal;
            datatrove: its list).
        max_short_line_fraction: Lines of at most `short_line_length` characters.
        max_repeated_line_char_fraction: Characters in lines that occurred before, among those that are no line ends.
        max_newlines_per_word: Line ends per word (punctuation included).
        short_line_length: Characters.
        empty: Remove a text without a line (datatrove: on).
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("regex",)
    adds: ClassVar[Mapping[str, str]] = {
        "num_lines": "int64",
        "terminal_line_fraction": "float64",
        "short_line_fraction": "float64",
        "repeated_line_char_fraction": "float64",
        "newlines_per_word": "float64",
    }
    decides: ClassVar[tuple[str, ...]] = (
        "empty",
        "min_terminal_line_fraction",
        "max_short_line_fraction",
        "max_repeated_line_char_fraction",
        "max_newlines_per_word",
        "by",
        "bounds",
    )

    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"curate": {}, "datatrove": {**ENGLISH, "empty": True}}

    variant: Literal["curate", "datatrove"] = "curate"
    min_terminal_line_fraction: AtLeastShare = 0.12
    max_short_line_fraction: AtMostShare = 0.67
    max_repeated_line_char_fraction: AtMostShare = 0.01
    max_newlines_per_word: AtMostNumber = 0.3
    short_line_length: int = Field(default=30, ge=1)
    empty: Switch = False

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; all of them 0 for a text without a line."""
        import numpy as np

        from curate.filter import fineweb_kernel as kernel

        values = np.empty((batch.num_rows, len(self.adds)), np.float64)
        variant = kernel.DATATROVE if self.variant == "datatrove" else kernel.CURATE
        offsets = self.tokens(batch).offsets
        ends = kernel.ends_of_lines(variant)
        kernel.measure(self.texts(batch), offsets, variant, self.short_line_length, ends, values)
        return self.columns(values)

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return one rule for each column, in the order in which datatrove tests them."""
        bounds = (
            ("terminal_line_fraction", self.min_terminal_line_fraction, None),
            ("short_line_fraction", None, self.max_short_line_fraction),
            ("repeated_line_char_fraction", None, self.max_repeated_line_char_fraction),
            ("newlines_per_word", None, self.max_newlines_per_word),
        )
        set_bounds = (bound for bound in bounds if bound[1] is not None or bound[2] is not None)
        empty = (Rule(f"{block}.empty", "num_lines", at_least=1.0),) if self.empty else ()
        return empty + tuple(self.rule(f"{block}.{column}", column, least, most) for column, least, most in set_bounds)
