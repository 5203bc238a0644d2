"""Gopher repetition rules (Rae et al. 2021, arXiv:2112.11446, table A1).

The paper gives thresholds and names, no formulas. All bounds are inclusive: a document at the bound stays.

`datatrove` decides as datatrove 0.10.1 does (`gopher_repetition_filter.py`, behind FineWeb), rule by rule: words of spaCy,
lines between runs of line feeds with empty ones at the ends of the text, repeated 5- to 10-grams equal if they are so
written together, the empty text removed first. `curate` has the same formulas and numbers, and differs on purpose:

- Words come from `curate.words.split_words`: "don't" is one word.
- Blank lines are never lines, so spacing a text out dilutes no fraction and repeats nothing; every line end counts, and
  white space at the end of a line makes no difference.
- Repeated 5- to 10-grams are equal if all their words are equal.

`dclm`, `dolma`, `redpajama` and `curator` decide as those do, each with formulas, words and lines of its own, which
`curate/filter/gopher/variants.py` describes. What their publishers set, and what cannot fire with it:

- `dclm`: the paper's numbers. A text without a line is removed.
- `dolma`: the tagger `gopher_v1`, with the mixers of Dolma 1.5 and 1.6 (`configs/dolma-v1_6/mixing/cc-head.yaml`). They cut
  characters in repeated lines at 0.3, have no rule on paragraphs, and ask for the most frequent n-grams under names that the
  tagger does not write (`..._2gram` for `..._2grams`), so those three rules never fired: here they are off, and can be
  switched on. `gopher_v1` takes blank lines for repeated ones, so text whose paragraphs are apart by blank lines is removed:
  89 of 100 verified main texts of WCXB. `gopher_v2` passes blank lines over; no published mixer reads it, so it has the
  same numbers here, and the rules on the most frequent n-grams: it is `dolma_v2`.
- `redpajama`: signals that were published without bounds; the paper's numbers are compared with them. None on lines and
  paragraphs.
- `curator`: the numbers of its English cascade (`heuristic_filter_english_pipeline.yaml`). A text of fewer than ten words is
  always removed. Of equally frequent n-grams it takes any, so it decides 8 of 605 documents by the hash seed of its process; here
  the first in the text is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator

from curate.filter.bounds import AtMostNumber, AtMostShare, Switch
from curate.filter.fineweb2 import BoundsByLanguage
from curate.filter.published import ENGLISH, OWN
from curate.stage import Rule

if TYPE_CHECKING:
    import pyarrow as pa

_TOP = (2, 3, 4)
_REPEATED = (5, 6, 7, 8, 9, 10)
_MEASURED: Mapping[str, str] = {
    "num_chars": "int64",
    "duplicate_line_fraction": "float64",
    "duplicate_paragraph_fraction": "float64",
    "duplicate_line_char_fraction": "float64",
    "duplicate_paragraph_char_fraction": "float64",
    **{f"top_{n}gram_char_fraction": "float64" for n in _TOP},
    **{f"repeated_{n}gram_char_fraction": "float64" for n in _REPEATED},
}
_OF_PARAGRAPHS = ("duplicate_paragraph_fraction", "duplicate_paragraph_char_fraction")
_OF_LINES = ("duplicate_line_fraction", "duplicate_line_char_fraction")
_NOT_MEASURED: Mapping[str, tuple[str, ...]] = {
    "dolma": _OF_PARAGRAPHS,
    "dolma_v2": _OF_PARAGRAPHS,
    "redpajama": _OF_PARAGRAPHS + _OF_LINES,
}
_DOLMA: Mapping[str, Any] = {
    **OWN,
    **{f"max_{column}": None for column in _OF_PARAGRAPHS},
    "max_duplicate_line_char_fraction": 0.30,
}


class GopherRepetition(BoundsByLanguage):
    """Gopher's repetition rules (table A1). Each threshold is a number, a map by language, or off.

    In `curate` and `datatrove` repeats are counted after the first occurrence, and every character fraction divides by all
    characters of the text. The other variants have formulas of their own: the same columns with other meanings.

    Attributes:
        variant: Whose formulas (see above).
        max_duplicate_line_fraction, max_duplicate_paragraph_fraction: Lines and paragraphs that occurred before.
        max_duplicate_line_char_fraction, max_duplicate_paragraph_char_fraction: Characters in those.
        max_top_2gram_char_fraction ... max_top_4gram_char_fraction: Characters in all occurrences of the most frequent
            n-gram, spaces included; may exceed 1 where it overlaps itself. Of equally frequent ones the first in the text
            counts, and one that occurs once counts too.
        max_repeated_5gram_char_fraction ... max_repeated_10gram_char_fraction: Characters in n-grams that were read
            before, without spaces; a counted n-gram is skipped as a whole.
        empty: Remove the empty text (datatrove: on).
    """

    version: ClassVar[int] = 4
    libraries: ClassVar[tuple[str, ...]] = ("regex",)  # the words of dclm
    decides: ClassVar[tuple[str, ...]] = (
        "empty",
        *(f"max_{name}" for name in _MEASURED if name != "num_chars"),
        "by",
        "bounds",
    )
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "curate": {},
        "datatrove": {**ENGLISH, "empty": True},
        "dclm": OWN,
        "dolma": {**_DOLMA, **{f"max_top_{n}gram_char_fraction": None for n in _TOP}},
        "dolma_v2": _DOLMA,
        "redpajama": {**OWN, **{f"max_{column}": None for column in _OF_PARAGRAPHS + _OF_LINES}},
        "curator": OWN,
    }

    variant: Literal["curate", "datatrove", "dclm", "dolma", "dolma_v2", "redpajama", "curator"] = "curate"
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

    @property
    def adds(self) -> Mapping[str, str]:  # type: ignore[override]  # a variant may lack a measure
        """The columns measured."""
        missing = _NOT_MEASURED.get(self.variant, ())
        return {name: kind for name, kind in _MEASURED.items() if name not in missing}

    @model_validator(mode="after")
    def _measured_alone(self) -> GopherRepetition:
        for column in _NOT_MEASURED.get(self.variant, ()):
            if getattr(self, f"max_{column}") is not None:
                raise ValueError(f"variant {self.variant} measures no {column}; leave max_{column} out")
        return self

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; 0 where a text is too short to repeat anything."""
        import numpy as np

        if self.words == "own":
            from curate.filter.gopher import variants

            return self.columns(variants.measure(batch["text"].to_pylist(), self.variant, tuple(self.adds)))
        from curate.filter.gopher import repetition_kernel as kernel

        values = np.empty((batch.num_rows, len(self.adds)), np.float64)
        variant = kernel.DATATROVE if self.variant == "datatrove" else kernel.CURATE
        kernel.measure(self.texts(batch), self.tokens(batch), variant, values)
        return self.columns(values)

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return one rule for each column, in the order in which datatrove tests them (paragraphs first), or DCLM and Curator."""
        fractions = [name for name in self.adds if name != "num_chars"]
        if self.words != "own":
            fractions.sort(key=lambda name: "paragraph" not in name)
        bounds = [(name, getattr(self, f"max_{name}")) for name in fractions]
        empty = (Rule(f"{block}.empty", "num_chars", at_least=1.0),) if self.empty else ()
        return empty + tuple(
            self.rule(f"{block}.{name}", name, None, bound) for name, bound in bounds if bound is not None
        )
