"""C4 line edits and page rules (Raffel et al. 2020, arXiv:1910.10683, section 2.2).

Three sets of numbers go by this name. `paper` is the wording of the paper: at least 5 sentences, at least 3 words a line, `'` also
ends a line. The terminal marks of other scripts and the closing typographic quotes count as the ASCII ones do, and a line of
a script without spaces has as many words as characters. Default: `paper`.

`tfds` cuts the lines that the code which made C4 cuts (`text/c4_utils.py` of TensorFlow Datasets): at least 3 sentences, at
least 5 words a line, ASCII marks. Its sentences are those of NLTK's Punkt model, which is not ours to ship: `curate.text.words`
counts them in both variants, and decides one of 605 real documents otherwise.

`datatrove` decides as datatrove 0.10.1 does (`c4_filters.py`, behind FineWeb), with the paper's numbers: ASCII marks,
sentences of spaCy's sentencizer, and the page judged by what comes first, the phrase or the bracket.

Line checks run in datatrove's order. A phrase that removes the page counts only in lines that came that far. The list of bad
words is not part of this block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from curate.filter.bounds import AtLeastNumber, Switch, is_off
from curate.filter.published import ENGLISH, Published, frozen
from curate.stage import Rule

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_MARKS = (".", "?", "!", '"', "。", "？", "！", "．", "｡", "؟", "۔", "।", "॥", "”", "»", "」", "』")

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"min_sentences": 5.0, "min_words_per_line": 3, "terminal_marks": (*_MARKS, "'", "’")},
    "tfds": {"min_sentences": 3.0, "min_words_per_line": 5, "terminal_marks": (".", "?", "!", '"')},
    "datatrove": {
        **ENGLISH,
        "min_sentences": 5.0,
        "min_words_per_line": 3,
        "terminal_marks": (".", "?", "!", '"', "'"),
        "empty": False,
    },
}

_Count = Annotated[int, Field(ge=1)] | None
_LineCount = Annotated[_Count, BeforeValidator(lambda value: None if is_off(value) else value)]


class C4Lines(Published):
    """C4's line edits (a rewrite) and page rules. Every number and check can be off.

    Attributes:
        variant: `paper`, `tfds` or `datatrove`: the numbers taken for `min_sentences`, `min_words_per_line` and
            `terminal_marks` where the recipe gives none, and how sentences are counted.
        words: Whose sentences `datatrove` counts; the others have their own.
        terminal_punctuation: Cut lines that do not end in a terminal mark, or that end in `...` (FineWeb: off).
        terminal_marks: The marks that end a line.
        min_words_per_line: Cut lines with fewer runs without white space; in `paper` a line of a script without spaces
            counts as its characters.
        max_word_length: Cut lines with a longer run without white space (characters).
        citations: Cut `[1]`, `[edit]`, `[citation needed]` out of lines.
        javascript: Cut lines with the word.
        policy: Cut lines on cookies, privacy and terms of use.
        lorem_ipsum, curly_bracket: Remove pages with the phrase, or with `{`, in a line that reached this check.
        min_sentences: Sentences that must be left.
        empty: Remove pages of which no line is left (datatrove: off, such a page has too few sentences).
    """

    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = ("regex",)
    rewrites: ClassVar[bool] = True
    adds: ClassVar[Mapping[str, str]] = {
        "num_lines_kept": "int64",
        "num_lines_long_word": "int64",
        "num_lines_unterminated": "int64",
        "num_lines_few_words": "int64",
        "num_lines_javascript": "int64",
        "num_lines_policy": "int64",
        "num_lorem_ipsum": "int64",
        "num_curly_brackets": "int64",
        "num_sentences": "int64",
    }
    decides: ClassVar[tuple[str, ...]] = ("min_sentences", "empty", "by")
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = VARIANTS

    variant: Literal["paper", "tfds", "datatrove"] = "paper"
    terminal_punctuation: Switch = True
    terminal_marks: Annotated[
        tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
    ] = Field(default=VARIANTS["paper"]["terminal_marks"], min_length=1)
    min_words_per_line: _LineCount = 3
    max_word_length: _LineCount = 1000
    citations: Switch = True
    javascript: Switch = True
    policy: Switch = True
    lorem_ipsum: Switch = True
    curly_bracket: Switch = True
    min_sentences: AtLeastNumber = 5.0
    empty: Switch = True

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column of words that the step needs."""
        return super().reads if self.variant == "datatrove" else ()

    @model_validator(mode="after")
    def _words_of_datatrove(self) -> C4Lines:
        if self.variant != "datatrove" and self.words != "fast":
            raise ValueError(f"words: {self.words} is for variant: datatrove; {self.variant} has sentences of its own")
        return self

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return `text` with the kept lines, and what was cut, in lines."""
        import numpy as np
        import pyarrow as pa

        from curate.filter import c4_kernel as kernel
        from curate.text.sentences import sentence_tables

        texts = self.texts(batch)
        size = int((texts.ends - texts.starts).sum())
        out, bounds = np.empty(size, np.uint8), np.zeros(batch.num_rows + 1, np.int64)
        counts = np.zeros((batch.num_rows, kernel.NUM_COLUMNS), np.int64)
        anew = np.empty((kernel.num_brackets(texts) if self.variant == "datatrove" else 0, 3), np.int64)
        tokens = self.tokens(batch) if self.variant == "datatrove" else kernel.NO_TOKENS
        _, lines = kernel.edit(
            texts,
            tokens,
            self._edits(),
            kernel.marks_of(self.terminal_marks),
            kernel.decimal_digits(),
            kernel.word_classes(),
            sentence_tables(),
            out,
            bounds,
            counts,
            anew,
        )
        if lines:
            self._count_anew(out, anew[:lines], counts)
        used = kernel.strip_rows(out, bounds)
        text = pa.LargeStringArray.from_buffers(batch.num_rows, pa.py_buffer(bounds), pa.py_buffer(out[:used]))
        return pa.record_batch({"text": text} | dict(zip(self.adds, map(pa.array, counts.T), strict=True)))

    def _edits(self) -> Any:
        from curate.filter import c4_kernel as kernel

        is_datatrove = self.variant == "datatrove"
        return kernel.Edits(
            terminal=self.terminal_punctuation,
            citations=self.citations,
            javascript=self.javascript,
            policy=self.policy,
            min_words=self.min_words_per_line or 0,
            max_word_length=self.max_word_length or 0,
            folded=self.variant == "paper",
            first_only=is_datatrove,
            lorem_ipsum=self.lorem_ipsum,
            curly_bracket=self.curly_bracket,
            sentences=kernel.TOKENS if is_datatrove else kernel.RULES,
        )

    def _count_anew(self, data: NDArray[np.uint8], lines: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Split the lines out of which something was cut, and count their sentences."""
        from curate.filter import c4_kernel as kernel
        from curate.words import Texts, Tokens

        if self.words == "english":
            from curate.text.english.splitting import english_tokens as split
        else:
            from curate.text.splitting import fast_tokens as split
        given = frozen(Texts(data.view(), lines[:, 1].copy(), lines[:, 2].copy()))
        found, offsets = split(*given)
        kernel.count_anew(data, lines, Tokens(*found, offsets), counts)

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the page rules that are on."""
        rules = (
            Rule(f"{block}.lorem_ipsum", "num_lorem_ipsum", at_most=0.0) if self.lorem_ipsum else None,
            Rule(f"{block}.curly_bracket", "num_curly_brackets", at_most=0.0) if self.curly_bracket else None,
            Rule(f"{block}.empty", "num_lines_kept", at_least=1.0) if self.empty else None,
            self.rule(f"{block}.min_sentences", "num_sentences", self.min_sentences, None)
            if self.min_sentences is not None
            else None,
        )
        return tuple(rule for rule in rules if rule is not None)
