"""RefinedWeb's corrections of lines (Penedo et al. 2023, arXiv:2306.01116, appendix G.2), a rewrite with one rule.

A line goes if it is mostly upper case, all digits, a counter (`3 likes`) or has one word. In a line of at most ten words a
few phrases go: "items in cart" anywhere, "read more..." at its end, "sign-in" at its start. Then the document goes if that
took more than 5% of its words.

Two variants, because the paper says in words what only DCLM says in code (`baselines/mappers/modifiers.py`, in the order and
with the numbers of `dclm_baseline_refinedweb.yaml`):

- `curate`: the paper's wording. 5% are of the words in lines that were cut or changed. White space counts neither as upper
  case nor as no digit. The three stops are stops, or `…`. Counters are known in six languages, in the singular, too. In scripts
  without spaces a line's words are its characters: it is no line of one word.
- `dclm`: DCLM's decisions and texts exactly. 5% are of the words that are gone; words are what fastText takes for one, if they
  begin with a letter or digit. The three stops of "read more..." are any three characters, so that "Read more >>" goes and
  "Read more…" stays. Lines that are digits and a space are none of digits. A line of Chinese is one word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from curate.filter.bounds import AtMostShare, Filter, Switch
from curate.stage import Rule

if TYPE_CHECKING:
    import pyarrow as pa

_UPPER = bytes(range(ord("A"), ord("Z") + 1))
_MOST_DIGITS = 0.999999

_COUNTED = (
    r"likes?|shares?|comments?|retweets?|reposts?|quotes?|bookmarks?|upvotes?|downvotes?|downloads?|views?|followers?|replies|reply"
    r"|curtidas?|comentários?|compartilhamentos?|visualizações|visualização|seguidores|seguidor|respostas?"  # Portuguese
    r"|me gusta|comentarios?|compartidos?|visitas?|vistas?|respuestas?"  # Spanish
    r"|j[’']aime|commentaires?|partages?|vues?|abonnés?|réponses?"  # French
    r"|kommentare?|aufrufe?|antworten|antwort|abonnenten"  # German
    r"|mi piace|commenti|commento|condivisioni|visualizzazioni|risposte"  # Italian
)
_COUNTER = re.compile(rf"\W*\d[\d.,]*\s?[KMB]?\s+(?:{_COUNTED})\W*", re.IGNORECASE)
_DCLM_COUNTED = "likes|shares|comments|retweets|reposts|quotes|bookmarks|upvotes|downvotes|downloads|views|followers"
_DCLM_COUNTER = re.compile(rf"^\W*\d(?:,|\.|\d)*(?:K|k|M|m|B|b)?\s+(?:{_DCLM_COUNTED})\W*$")

_CART = re.compile(r"\s?items in cart", re.IGNORECASE)
_SIGN_IN = re.compile(r"^sign-in\s?", re.IGNORECASE)
_READ_MORE = re.compile(r"\s?read more(?:\.\.\.|…)$", re.IGNORECASE)
_DCLM_READ_MORE = re.compile(r"\s?read more...$", re.IGNORECASE)


@dataclass(slots=True)
class _Counts:
    """What happened to the lines of one document."""

    num_lines_uppercase: int = 0
    num_lines_digits: int = 0
    num_lines_counter: int = 0
    num_lines_one_word: int = 0
    num_lines_phrase: int = 0
    touched: int = 0  # words in lines that were cut or changed


class RefinedWebLines(Filter):
    """RefinedWeb's corrections of lines. A document without a word counts as gone altogether.

    Attributes:
        variant: `curate` or `dclm`.
        max_removed_word_fraction: Words in lines that were cut or changed (`dclm`: words that are gone), of all.
        max_uppercase_fraction: A line with more capitals among its characters is cut.
        min_words_per_line: A line with fewer words is cut; blank lines stay.
        max_words_for_phrases: Lines with more words keep their phrases.
        empty: Whether a document goes of which nothing is left.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("regex",)
    rewrites: ClassVar[bool] = True
    adds: ClassVar[Mapping[str, str]] = {
        "num_lines_uppercase": "int64",
        "num_lines_digits": "int64",
        "num_lines_counter": "int64",
        "num_lines_one_word": "int64",
        "num_lines_phrase": "int64",
        "num_chars_left": "int64",
        "removed_word_fraction": "float64",
    }
    decides: ClassVar[tuple[str, ...]] = ("max_removed_word_fraction", "empty", "by")

    variant: Literal["curate", "dclm"] = "curate"
    max_removed_word_fraction: AtMostShare = 0.05
    max_uppercase_fraction: float = Field(default=0.5, ge=0, lt=1)
    min_words_per_line: int = Field(default=2, ge=1)
    max_words_for_phrases: int = Field(default=10, ge=0)
    empty: Switch = True

    @field_validator("variant", mode="before")
    @classmethod
    def _known_variant(cls, value: Any) -> Any:
        if value not in ("curate", "dclm"):
            raise ValueError(f"there is no variant {value!r} of refinedweb_lines; there are: curate, dclm")
        return value

    @field_validator("max_uppercase_fraction", mode="before")
    @classmethod
    def _whole_number(cls, value: Any) -> Any:
        return float(value) if type(value) is int else value

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return `text` with the corrected lines, how many lines each reason cut or changed, and what that took."""
        import pyarrow as pa

        edit = self._as_dclm if self.variant == "dclm" else self._as_written
        rows = [edit(text or "") for text in batch["text"].to_pylist()]
        columns = {"text": pa.array([text for text, *_ in rows], pa.large_string())}
        for name in list(self.adds)[:5]:
            columns[name] = pa.array([getattr(counts, name) for _, counts, _ in rows], pa.int64())
        columns["num_chars_left"] = pa.array([len(text) for text, *_ in rows], pa.int64())
        columns["removed_word_fraction"] = pa.array([fraction for *_, fraction in rows], pa.float64())
        return pa.record_batch(columns)

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rules that are on."""
        rules = [Rule(f"{block}.empty", "num_chars_left", at_least=1.0)] if self.empty else []
        if self.max_removed_word_fraction is not None:
            name = f"{block}.removed_word_fraction"
            rules.append(self.rule(name, "removed_word_fraction", None, self.max_removed_word_fraction))
        return tuple(rules)

    def _as_written(self, text: str) -> tuple[str, _Counts, float]:
        counts = _Counts()
        kept: list[str] = []
        all_words = 0
        for line in text.split("\n"):
            words = _num_words(line)
            all_words += words
            kept_line = self._corrected(line, words, counts)
            if kept_line is not line:
                counts.touched += words
            if kept_line is not None:
                kept.append(kept_line)
        return "\n".join(kept).strip(), counts, counts.touched / all_words if all_words else 1.0

    def _corrected(self, line: str, words: int, counts: _Counts) -> str | None:
        """Return the line, as it was or changed, or None if it is cut; counts why."""
        bare = "".join(line.split())
        if not bare:
            return line
        if _num_upper(bare) / len(bare) > self.max_uppercase_fraction:
            counts.num_lines_uppercase += 1
        elif bare.isdigit():
            counts.num_lines_digits += 1
        elif _COUNTER.fullmatch(line):
            counts.num_lines_counter += 1
        elif words < self.min_words_per_line:
            counts.num_lines_one_word += 1
        elif words > self.max_words_for_phrases:
            return line
        else:
            changed = _SIGN_IN.sub("", _READ_MORE.sub("", _CART.sub("", line)))
            if changed == line:
                return line
            counts.num_lines_phrase += 1
            return changed if changed.strip() else None
        return None

    def _as_dclm(self, text: str) -> tuple[str, _Counts, float]:
        from curate.filter.gopher.variants_words import fasttext_words

        counts = _Counts()
        before = len(fasttext_words(text))
        text = _cut(text, counts, "num_lines_uppercase", self._mostly_upper).strip()
        text = _cut(text, counts, "num_lines_digits", _mostly_digits).strip()
        text = _cut(
            text, counts, "num_lines_counter", lambda line: _DCLM_COUNTER.search(line.lower()) is not None
        ).strip()
        text = _cut(text, counts, "num_lines_one_word", lambda line: len(line.split()) < self.min_words_per_line)
        for phrase in (_CART, _DCLM_READ_MORE, _SIGN_IN):
            text = self._without(phrase, text, counts).strip()
        return text, counts, (before - len(fasttext_words(text))) / before if before else 1.0

    def _mostly_upper(self, line: str) -> bool:
        return _num_upper(line) / len(line) > self.max_uppercase_fraction

    def _without(self, phrase: re.Pattern[str], text: str, counts: _Counts) -> str:
        kept = []
        for line in text.split("\n"):
            if len(line.split()) > self.max_words_for_phrases:
                kept.append(line)
                continue
            changed = phrase.sub("", line)
            counts.num_lines_phrase += changed != line
            if not line or (changed and not changed.isspace()):
                kept.append(changed)
        return "\n".join(kept)


def _cut(text: str, counts: _Counts, name: str, goes: Callable[[str], bool]) -> str:
    """Return the text without the lines that go, counted under `name`; empty lines stay."""
    lines = text.split("\n")
    kept = [line for line in lines if not line or not goes(line)]
    setattr(counts, name, len(lines) - len(kept))
    return "\n".join(kept)


def _mostly_digits(line: str) -> bool:
    if len(line) * (1 - _MOST_DIGITS) < 1:
        return line.isdigit()
    return sum(map(str.isdigit, line)) / len(line) > _MOST_DIGITS


def _num_upper(line: str) -> int:
    if line.isascii():
        return len(line) - len(line.encode().translate(None, _UPPER))
    return sum(map(str.isupper, line))


def _num_words(line: str) -> int:
    """Return the runs without white space; in scripts without spaces the characters with their marks."""
    from curate.words import folded_words

    words = len(line.split())
    return words if line.isascii() else max(words, len(folded_words(line)))
