"""C4 line edits and page rules (Raffel et al. 2020, arXiv:1910.10683, section 2.2).

Two sets of numbers go by this name. `paper` is the wording of the paper, as datatrove has it (`c4_filters.py`): at least 5
sentences, at least 3 words a line, `'` also ends a line. `tfds` is the code that made C4 (`text/c4_utils.py` of TensorFlow
Datasets): at least 3 sentences, at least 5 words a line. Default: `paper`, the set behind FineWeb.

Line checks run in datatrove's order. A phrase that removes the page counts only in lines that came that far. Where we
differ on purpose: sentences are counted by `curate.text.words`, not by spaCy or NLTK, and the terminal marks of other scripts
and the closing typographic quotes count as the ASCII ones do. The list of bad words is not part of this block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from curate.filter.bounds import AtLeastNumber, Filter, Switch, is_off
from curate.stage import Rule
from curate.text.words import split_sentences

if TYPE_CHECKING:
    import pyarrow as pa

_CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
_POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
_ELLIPSIS = "..."
_MARKS = (".", "?", "!", '"', "。", "？", "！", "．", "｡", "؟", "۔", "।", "॥", "”", "»", "」", "』")

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"min_sentences": 5.0, "min_words_per_line": 3, "terminal_marks": (*_MARKS, "'", "’")},
    "tfds": {"min_sentences": 3.0, "min_words_per_line": 5, "terminal_marks": _MARKS},
}

_Count = Annotated[int, Field(ge=1)] | None
_LineCount = Annotated[_Count, BeforeValidator(lambda value: None if is_off(value) else value)]


@dataclass(slots=True)
class _Page:
    """What happened to the lines of one page."""

    text: str = ""
    num_lines_kept: int = 0
    num_lines_long_word: int = 0
    num_lines_unterminated: int = 0
    num_lines_few_words: int = 0
    num_lines_javascript: int = 0
    num_lines_policy: int = 0
    num_lorem_ipsum: int = 0
    num_curly_brackets: int = 0
    num_sentences: int = 0


class C4Lines(Filter):
    """C4's line edits (a rewrite) and page rules. Every number and check can be off.

    Attributes:
        variant: `paper` or `tfds`: the numbers taken for `min_sentences`, `min_words_per_line` and `terminal_marks` where
            the recipe gives none.
        terminal_punctuation: Cut lines that do not end in a terminal mark, or that end in `...` (FineWeb: off).
        terminal_marks: The marks that end a line.
        min_words_per_line: Cut lines with fewer runs without white space; in scripts without spaces a line counts as
            its characters.
        max_word_length: Cut lines with a longer run without white space (characters).
        citations: Cut `[1]`, `[edit]`, `[citation needed]` out of lines.
        javascript: Cut lines with the word.
        policy: Cut lines on cookies, privacy and terms of use.
        lorem_ipsum, curly_bracket: Remove pages with the phrase, or with `{`, in a line that reached this check.
        min_sentences: Sentences that must be left.
        empty: Remove pages of which no line is left.
    """

    version: ClassVar[int] = 1
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
    decides: ClassVar[tuple[str, ...]] = ("lorem_ipsum", "curly_bracket", "min_sentences", "empty", "by")

    variant: Literal["paper", "tfds"] = "paper"
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

    @model_validator(mode="before")
    @classmethod
    def _numbers_of_variant(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        variant = values.get("variant", "paper")
        return {**VARIANTS[variant], **values} if isinstance(variant, str) and variant in VARIANTS else values

    @field_validator("variant", mode="before")
    @classmethod
    def _known_variant(cls, value: Any) -> Any:
        if value not in tuple(VARIANTS):
            raise ValueError(f"there is no variant {value!r} of c4_lines; there are: {', '.join(VARIANTS)}")
        return value

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return `text` with the kept lines, and what was cut, in lines."""
        import pyarrow as pa

        pages = [self._page(text or "") for text in batch["text"].to_pylist()]
        columns = {"text": pa.array([page.text for page in pages], pa.large_string())}
        columns |= {name: pa.array([getattr(page, name) for page in pages], pa.int64()) for name in self.adds}
        return pa.record_batch(columns)

    def _page(self, text: str) -> _Page:
        page = _Page()
        kept: list[str] = []
        for full_line in text.splitlines():
            line = self._kept_line(full_line.strip(), page)
            if line is not None:
                kept.append(line)
                page.num_sentences += len(split_sentences(line))
        page.num_lines_kept = sum(bool(line) for line in kept)
        page.text = "\n".join(kept).strip()
        return page

    def _kept_line(self, line: str, page: _Page) -> str | None:
        """Return the edited line, or None if it is cut; counts on `page` why."""
        words = line.split()
        if self.max_word_length is not None and any(len(word) > self.max_word_length for word in words):
            page.num_lines_long_word += 1
            return None
        if self.citations and "[" in line:
            line = _CITATION.sub("", line)
        if self.terminal_punctuation and (not line.endswith(self.terminal_marks) or line.endswith(_ELLIPSIS)):
            page.num_lines_unterminated += bool(line)
            return None
        if (
            self.min_words_per_line is not None
            and len(words) < self.min_words_per_line
            and _num_words(line) < self.min_words_per_line
        ):
            page.num_lines_few_words += bool(line)
            return None
        lowered = line.lower()
        page.num_lorem_ipsum += lowered.count("lorem ipsum")
        if self.javascript and "javascript" in lowered:
            page.num_lines_javascript += 1
            return None
        page.num_curly_brackets += line.count("{")
        if self.policy and any(phrase in lowered for phrase in _POLICY):
            page.num_lines_policy += 1
            return None
        return line

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


def _num_words(line: str) -> int:
    from curate.words import folded_words

    return 0 if line.isascii() else len(folded_words(line))
