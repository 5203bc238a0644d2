"""Gopher quality rules (Rae et al. 2021, arXiv:2112.11446, appendix A.1).

Where implementations differ, the numbers and formulas are those of datatrove (`gopher_quality_filter.py`), the ones
behind FineWeb. All bounds are inclusive: a document at the bound stays.

Where we differ from datatrove on purpose:

- Words come from `curate.words.split_words`, not from spaCy: "don't" is one word; punctuation is words of its own there
  and here.
- Blank lines are never lines, so spacing a text out dilutes no fraction.
- More bullets and ellipses are known (see `BULLETS`, `ELLIPSIS_LINE`): a list under another sign is still a list.
- Stop words are known for more languages than English, so that a list of another language than the text's removes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, field_validator

from curate.filter.bounds import AtLeastNumber, AtLeastShare, AtMostNumber, AtMostShare, Filter
from curate.stage import Rule
from curate.text.words import split_lines
from curate.words import word_codes

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

# The paper says "bullet point"; datatrove counts • and -. The others are the signs that stand for them in real lists.
BULLETS = (
    "•",
    "-",
    "‣",
    "▪",
    "●",
    "◦",
    "*",
    "–",
    "·",
    "➤",
    "■",
    "□",
    "○",
    "◆",
    "►",
    "▶",
    "—",
    "✓",
    "✔",
    "➢",
    "⁃",
    "・",
)

# datatrove: three stops or U+2026. Ours besides: spaced stops, the centred, vertical and ideographic forms. A run counts once.
ELLIPSIS_LINE = re.compile(r"(?:\.[ \u00a0]?\.[ \u00a0]?\.|…|⋯|︙|。。。)[\"'”’»)\]]*\Z")

# en: the paper's eight. The others are ours: common words that say nothing about the topic and are rare in English.
STOP_WORDS: Mapping[str, tuple[str, ...]] = {
    "en": ("the", "be", "to", "of", "and", "that", "have", "with"),
    "pt": ("de", "que", "não", "uma", "para", "com", "os", "dos", "mais", "pelo", "são", "ao"),
    "es": ("de", "que", "el", "los", "una", "para", "con", "por", "las", "del", "más", "como"),
    "fr": ("de", "le", "les", "des", "une", "que", "est", "pour", "dans", "qui", "avec", "sur"),
    "de": ("der", "und", "das", "nicht", "mit", "ist", "ein", "den", "zu", "auf", "für", "sich"),
    "it": ("di", "che", "il", "della", "una", "per", "con", "non", "sono", "gli", "del", "nel"),
    "nl": ("het", "een", "van", "niet", "zijn", "voor", "met", "dat", "ook", "naar", "wordt", "uit"),
}


def _tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): tuple(words) if isinstance(words, list) else words for key, words in value.items()}
    if isinstance(value, list | tuple):
        return {"*": tuple(value)}
    return value


class GopherQuality(Filter):
    """Gopher's document-level rules. Each threshold is a number, a map by language, or off.

    Attributes:
        min_words, max_words: Words with a letter or digit.
        min_mean_word_length, max_mean_word_length: Characters per such word. In scripts without spaces a word is one
            character: bound them by language there.
        max_hash_ratio, max_ellipsis_ratio: `#` signs, and ellipses (`...` or `…`), per word (punctuation included).
        max_bullet_line_fraction: Lines that begin with a sign of `bullets`.
        max_ellipsis_line_fraction: Lines that end in an ellipsis of any form.
        min_alpha_word_fraction: Words (punctuation included, as datatrove counts) with at least one letter. The strictest of
            the rules: with 0.8 it removes a fifth of pages whose main text people verified, plays and dialogue first.
        min_letter_fraction: Letters, with the marks that belong to them, among the characters that are no white space.
            Not one of Gopher's: off unless set.
        min_stop_words: Distinct stop words. The language with the most counts, so that no label is needed.
        stop_words: Word lists by language, or one list. Compared as written, as datatrove does.
        bullets: Signs that begin a line of a list.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("regex",)
    reads: ClassVar[tuple[str, ...]] = ("words",)
    adds: ClassVar[Mapping[str, str]] = {
        "num_words": "int64",
        "mean_word_length": "float64",
        "hash_ratio": "float64",
        "ellipsis_ratio": "float64",
        "bullet_line_fraction": "float64",
        "ellipsis_line_fraction": "float64",
        "alpha_word_fraction": "float64",
        "letter_fraction": "float64",
        "num_stop_words": "int64",
    }
    ranges: ClassVar[Mapping[str, tuple[str, str]]] = {
        "num_words": ("min_words", "max_words"),
        "mean_word_length": ("min_mean_word_length", "max_mean_word_length"),
    }
    decides: ClassVar[tuple[str, ...]] = (
        "min_words",
        "max_words",
        "min_mean_word_length",
        "max_mean_word_length",
        "max_hash_ratio",
        "max_ellipsis_ratio",
        "max_bullet_line_fraction",
        "max_ellipsis_line_fraction",
        "min_alpha_word_fraction",
        "min_letter_fraction",
        "min_stop_words",
        "by",
    )

    min_words: AtLeastNumber = 50.0
    max_words: AtMostNumber = 100_000.0
    min_mean_word_length: AtLeastNumber = 3.0
    max_mean_word_length: AtMostNumber = 10.0
    max_hash_ratio: AtMostNumber = 0.1
    max_ellipsis_ratio: AtMostNumber = 0.1
    max_bullet_line_fraction: AtMostShare = 0.9
    max_ellipsis_line_fraction: AtMostShare = 0.3
    min_alpha_word_fraction: AtLeastShare = 0.8
    min_letter_fraction: AtLeastShare = None
    min_stop_words: AtLeastNumber = 2.0
    stop_words: Annotated[Mapping[str, tuple[str, ...]], BeforeValidator(_tuples)] = STOP_WORDS
    bullets: Annotated[
        tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
    ] = BULLETS

    @field_validator("stop_words")
    @classmethod
    def _some_stop_words(cls, lists: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        if not lists or not all(lists.values()):
            raise ValueError("stop_words has an empty list; name words, or write min_stop_words: off")
        return lists

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; all of them 0 for a text without a word."""
        import numpy as np
        import pyarrow as pa

        words = word_codes(batch["words"])
        kinds = np.array([_kind(word) for word in words.vocabulary], np.int64).reshape(-1, 4)
        tokens = words.ends - words.starts
        num_words = words.per_row(kinds[:, 0])
        texts = [text or "" for text in batch["text"].to_pylist()]
        lines = [_list_lines(text, self.bullets) for text in texts]
        num_lines, num_bullets, num_ellipses = np.array(lines, np.int64).reshape(-1, 3).T
        hashes = np.array([text.count("#") for text in texts], np.int64)
        ellipses = np.array([text.count("...") + text.count("…") for text in texts], np.int64)
        visible = words.per_row(np.array([len(word) for word in words.vocabulary], np.int64))
        columns = {
            "num_words": num_words,
            "mean_word_length": ratio(words.per_row(kinds[:, 1]), num_words),
            "hash_ratio": ratio(hashes, tokens),
            "ellipsis_ratio": ratio(ellipses, tokens),
            "bullet_line_fraction": ratio(num_bullets, num_lines),
            "ellipsis_line_fraction": ratio(num_ellipses, num_lines),
            "alpha_word_fraction": ratio(words.per_row(kinds[:, 2]), tokens),
            "letter_fraction": ratio(words.per_row(kinds[:, 3]), visible),
            "num_stop_words": self._stop_words_found(words.codes, words.vocabulary, words.ends),
        }
        return pa.record_batch({name: pa.array(column) for name, column in columns.items()})

    def _stop_words_found(
        self, codes: NDArray[np.int64], vocabulary: list[str], ends: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        import numpy as np

        code_of = {word: code for code, word in enumerate(vocabulary)}
        rows = np.searchsorted(ends, np.arange(len(codes)), side="right")
        most = np.zeros(len(ends), np.int64)
        for listed in self.stop_words.values():
            is_stop = np.zeros(len(vocabulary) + 1, np.bool_)
            is_stop[[code_of[word] for word in listed if word in code_of]] = True
            here = is_stop[codes]
            distinct = np.unique(rows[here] * len(vocabulary) + codes[here]) // max(len(vocabulary), 1)
            most = np.maximum(most, np.bincount(distinct, minlength=len(ends)))
        return most.astype(np.int64)

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return one rule for each measure, in the order in which datatrove tests them."""
        bounds = (
            ("num_words", self.min_words, self.max_words),
            ("mean_word_length", self.min_mean_word_length, self.max_mean_word_length),
            ("hash_ratio", None, self.max_hash_ratio),
            ("ellipsis_ratio", None, self.max_ellipsis_ratio),
            ("bullet_line_fraction", None, self.max_bullet_line_fraction),
            ("ellipsis_line_fraction", None, self.max_ellipsis_line_fraction),
            ("alpha_word_fraction", self.min_alpha_word_fraction, None),
            ("letter_fraction", self.min_letter_fraction, None),
            ("num_stop_words", self.min_stop_words, None),
        )
        set_bounds = (bound for bound in bounds if bound[1] is not None or bound[2] is not None)
        return tuple(self.rule(f"{block}.{column}", column, least, most) for column, least, most in set_bounds)


def _kind(word: str) -> tuple[int, int, int, int]:
    """Return of a word: whether it is no symbol, its length if so, whether it has a letter, its letters with their marks."""
    import unicodedata

    if word.isascii():
        if word.isalpha():
            return 1, len(word), 1, len(word)
        letters = sum(map(str.isalpha, word))
        digits = any(map(str.isdigit, word))
        is_word = letters > 0 or digits
        return int(is_word), len(word) if is_word else 0, int(letters > 0), letters
    classes = [unicodedata.category(sign)[0] for sign in word]
    letters, marks = classes.count("L"), classes.count("M")
    is_word = letters + classes.count("N") > 0  # a mark alone is none: emoji carry variation selectors
    return int(is_word), len(word) if is_word else 0, int(letters > 0), letters + marks if letters else 0


def _list_lines(text: str, bullets: tuple[str, ...]) -> tuple[int, int, int]:
    """Return the number of lines, of those that begin with a bullet, and of those that end in an ellipsis."""
    lines = split_lines(text)
    begin = sum(line.lstrip().startswith(bullets) for line in lines)
    end = sum(ELLIPSIS_LINE.search(line, max(0, len(line) - 16)) is not None for line in lines)
    return len(lines), begin, end


def ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return part / whole, 0 where there is nothing to divide by."""
    import numpy as np

    result: NDArray[np.float64] = part / np.maximum(whole, 1)
    return result
