"""FineWeb's own quality rules (Penedo et al. 2024, arXiv:2406.17557, section 3.5; datatrove `fineweb_quality_filter.py`).

The numbers are those of datatrove's code; for duplicate lines the paper's text says 0.1 where the code has 0.01. All bounds
are inclusive. Words come from `curate.words.split_words`, not from spaCy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import regex
from pydantic import Field

from curate.filter.bounds import AtLeastShare, AtMostNumber, AtMostShare, Filter
from curate.stage import Rule
from curate.text.words import count_repeats, split_lines

if TYPE_CHECKING:
    import pyarrow as pa

_TERMINAL = regex.compile(r"\p{Sentence_Terminal}\Z")


class FineWeb(Filter):
    """FineWeb's rules on lines. Each threshold is a number, a map by language, or off.

    Attributes:
        min_terminal_line_fraction: Lines that end in a terminal mark of any script (Unicode property Sentence_Terminal).
        max_short_line_fraction: Lines of at most `short_line_length` characters.
        max_repeated_line_char_fraction: Characters in lines that occurred before, among those that are no line ends.
        max_newlines_per_word: Line ends per word (punctuation included).
        short_line_length: Characters.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("regex",)
    reads: ClassVar[tuple[str, ...]] = ("words",)
    adds: ClassVar[Mapping[str, str]] = {
        "terminal_line_fraction": "float64",
        "short_line_fraction": "float64",
        "repeated_line_char_fraction": "float64",
        "newlines_per_word": "float64",
    }
    decides: ClassVar[tuple[str, ...]] = (
        "min_terminal_line_fraction",
        "max_short_line_fraction",
        "max_repeated_line_char_fraction",
        "max_newlines_per_word",
        "by",
    )

    min_terminal_line_fraction: AtLeastShare = 0.12
    max_short_line_fraction: AtMostShare = 0.67
    max_repeated_line_char_fraction: AtMostShare = 0.01
    max_newlines_per_word: AtMostNumber = 0.3
    short_line_length: int = Field(default=30, ge=1)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; all of them 0 for a text without a line."""
        import pyarrow as pa
        import pyarrow.compute as pc

        num_words = pc.fill_null(pc.list_value_length(batch["words"]), 0).to_pylist()
        rows = [self._row(text or "", count) for text, count in zip(batch["text"].to_pylist(), num_words, strict=True)]
        return pa.record_batch({name: pa.array([row[name] for row in rows], pa.float64()) for name in self.adds})

    def _row(self, text: str, num_words: int) -> dict[str, float]:
        lines = split_lines(text)
        newlines = text.count("\n")
        total, _, again_chars = count_repeats(lines)
        return {
            "terminal_line_fraction": sum(_TERMINAL.search(line, len(line) - 1) is not None for line in lines)
            / max(total, 1),
            "short_line_fraction": sum(len(line) <= self.short_line_length for line in lines) / max(total, 1),
            "repeated_line_char_fraction": again_chars / max(len(text) - newlines, 1),
            "newlines_per_word": newlines / max(num_words, 1) if total else 0.0,
        }

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return one rule for each column, in the order in which datatrove tests them."""
        bounds = (
            ("terminal_line_fraction", self.min_terminal_line_fraction, None),
            ("short_line_fraction", None, self.max_short_line_fraction),
            ("repeated_line_char_fraction", None, self.max_repeated_line_char_fraction),
            ("newlines_per_word", None, self.max_newlines_per_word),
        )
        set_bounds = (bound for bound in bounds if bound[1] is not None or bound[2] is not None)
        return tuple(self.rule(f"{block}.{column}", column, least, most) for column, least, most in set_bounds)
