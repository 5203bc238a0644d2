"""MADLAD-400's questionable sentences, rules 2 and 5 (Kudugunta et al. 2023, arXiv:2309.04662, section 2.2 and its appendix).

A document goes if it has fewer than five sentences, or if too many of them are questionable: of at least twelve words with more
than half beginning upper case (rule 2, list case), or with one of a few strings that stand in boilerplate (rule 5, cursed). These
are the two of the five rules that Dolma 3 takes (allenai/datamap-rs, `all_dressed_config.yaml`).

Sentences end at `.`, `!` or `?` before white space; words are Unicode's (UAX #29). Two variants:

- `curate`: the paper's wording. More than 20% of the sentences must be questionable. Strings with `\\s` or `$` are expressions.
- `dolma3`: its decisions exactly. 20% are enough. All strings but the last four are taken to the letter, so that those with `\\s`,
  `$` or `\\.` match nothing but themselves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import regex
from pydantic import field_validator

from curate.filter.bounds import AtLeastNumber, AtMostShare, Filter
from curate.stage import Rule

if TYPE_CHECKING:
    import pyarrow as pa

CURSED = (
    *(" №", "\ufffd\ufffd\ufffd", r"\|\s*$", r" nr\.$", "aute irure dolor ", " sunt in culpa qui ", "orem ipsum "),
    *(
        " quis nostrud ",
        " adipisicing ",
        " dolore eu ",
        " cupidatat ",
        "autem vel eum",
        "wisi enim ad",
        " sex ",
        " porn ",
    ),
    *("黄色电影", "mp3", "ownload", r"Vol\.", " Ep\\.", "Episode", r" г\.\s*$", r" кг\.\s*$", r" шт\."),
    *("Develop", "Facebook", " crusher ", " xxx "),
)
# Nine groups of three characters, of four, of one, and commas with any two characters between: spaced-out letters.
CURSED_PATTERNS = (
    " ... ... ... ... ... ... ... ... ...",
    " .... .... .... .... .... .... .... .... ....",
    " [^ ] [^ ] [^ ] [^ ] [^ ] [^ ] [^ ] [^ ] [^ ]",
    ", ..,,? ..,,? ..,,? ..,,?",
)
LEAST_WORDS = 12  # of a sentence in list case
MOST_CAPITALS = 0.5

_SENTENCE_END = regex.compile(r"[.!?]+\p{White_Space}+")
_SEEN = regex.compile(r"\P{White_Space}")
_WORD_BOUNDARY = regex.compile(r"\b", regex.V1 | regex.WORD)
_ALPHANUMERIC = regex.compile(r"[\p{Alphabetic}\p{N}]")


class Madlad(Filter):
    """MADLAD-400's rules on questionable sentences.

    Attributes:
        variant: `curate` or `dolma3`.
        min_sentences: Sentences that a document must have.
        max_questionable_fraction: Sentences in list case or with a cursed string; in `dolma3` a document at the bound goes.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("regex",)
    adds: ClassVar[Mapping[str, str]] = {
        "num_madlad_sentences": "int64",
        "num_list_case_sentences": "int64",
        "num_cursed_sentences": "int64",
        "questionable_sentence_fraction": "float64",
    }
    decides: ClassVar[tuple[str, ...]] = ("min_sentences", "max_questionable_fraction", "by")

    variant: Literal["curate", "dolma3"] = "curate"
    min_sentences: AtLeastNumber = 5.0
    max_questionable_fraction: AtMostShare = 0.2

    @field_validator("variant", mode="before")
    @classmethod
    def _known_variant(cls, value: Any) -> Any:
        if value not in ("curate", "dolma3"):
            raise ValueError(f"there is no variant {value!r} of madlad; there are: curate, dolma3")
        return value

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; a text without a sentence has none that is questionable."""
        import pyarrow as pa

        rows = [self._row(text or "") for text in batch["text"].to_pylist()]
        return pa.record_batch({name: pa.array([row[name] for row in rows], kind) for name, kind in self.adds.items()})

    def _row(self, text: str) -> dict[str, float]:
        sentences = [sentence for sentence in _SENTENCE_END.split(text) if _SEEN.search(sentence)]
        cursed = _cursed(self.variant)
        marks = [(_in_list_case(sentence), cursed.search(sentence) is not None) for sentence in sentences]
        questionable = sum(by_case or by_string for by_case, by_string in marks)
        return {
            "num_madlad_sentences": len(sentences),
            "num_list_case_sentences": sum(by_case for by_case, _ in marks),
            "num_cursed_sentences": sum(by_string for _, by_string in marks),
            "questionable_sentence_fraction": questionable / max(len(sentences), 1),
        }

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rules that are on."""
        most = self.max_questionable_fraction
        if self.variant == "dolma3" and isinstance(most, float):
            most = math.nextafter(most, 0.0)  # rules keep their bound, Dolma 3 does not
        names = (
            ("min_sentences", "num_madlad_sentences", self.min_sentences, None),
            ("questionable", "questionable_sentence_fraction", None, most),
        )
        return tuple(
            self.rule(f"{block}.{name}", column, low, high)
            for name, column, low, high in names
            if low is not None or high is not None
        )


@functools.cache
def _cursed(variant: str) -> regex.Pattern[str]:
    is_expression = [variant == "curate" and "\\" in entry for entry in CURSED]
    entries = [
        entry if expression else regex.escape(entry) for entry, expression in zip(CURSED, is_expression, strict=True)
    ]
    return regex.compile("|".join([*entries, *CURSED_PATTERNS]))


def _in_list_case(sentence: str) -> bool:
    words = [word for word in _WORD_BOUNDARY.split(sentence) if _ALPHANUMERIC.search(word)]
    capitals = sum(word[0].isupper() for word in words)
    return len(words) >= LEAST_WORDS and capitals > len(words) * MOST_CAPITALS
