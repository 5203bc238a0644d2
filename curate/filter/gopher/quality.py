"""Gopher quality rules (Rae et al. 2021, arXiv:2112.11446, appendix A.1).

All bounds are inclusive: a document at the bound stays.

`datatrove` decides as datatrove 0.10.1 does (`gopher_quality_filter.py`, behind FineWeb), rule by rule: words of spaCy, a word
being what is not all signs of its list of punctuation, blank lines counted, the bullets • and -, lines that end in `...` or
U+2026, English stop words. `curate` has the same formulas and numbers, and differs on purpose:

- Words come from `curate.words.split_words`, not from spaCy: "don't" is one word; punctuation is words of its own there
  and here. A word to be counted has a letter or digit: emoji and signs that a list of punctuation lacks are none.
- Blank lines are never lines, so spacing a text out dilutes no fraction.
- More bullets (`BULLETS`) and ellipses (spaced stops; the centred, vertical and ideographic forms) are known: a list under
  another sign is still a list.
- Stop words are known for more languages than English, so that a list of another language than the text's removes nothing.

`dclm` and `dolma` decide as those do, with formulas and words of their own, which `curate/filter/gopher/variants_quality.py`
describes, and the paper's numbers:

- `dclm`: `dclm_baseline_refinedweb.yaml`, which counts occurrences of stop words, not different ones.
- `dolma`: the tagger `gopher_v1` with the mixers of Dolma 1.5 and 1.6: the median length of words, occurrences of stop words.
  `gopher_v2`, whose lines are never blank but at the ends of the text, is `dolma_v2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, field_validator, model_validator

from curate.filter.bounds import AtLeastNumber, AtLeastShare, AtMostNumber, AtMostShare
from curate.filter.fineweb2 import BoundsByLanguage
from curate.filter.published import ENGLISH, OWN
from curate.stage import Bound, Rule

if TYPE_CHECKING:
    import pyarrow as pa

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


_MEASURED: Mapping[str, str] = {
    "num_words": "int64",
    "mean_word_length": "float64",
    "median_word_length": "float64",
    "hash_ratio": "float64",
    "ellipsis_ratio": "float64",
    "symbol_ratio": "float64",
    "bullet_line_fraction": "float64",
    "ellipsis_line_fraction": "float64",
    "alpha_word_fraction": "float64",
    "letter_fraction": "float64",
    "num_stop_words": "int64",
}
_NOT_OURS = ("median_word_length", "symbol_ratio")
_NOT_DCLM = ("median_word_length", "hash_ratio", "ellipsis_ratio", "letter_fraction")
_NOT_DOLMA = ("mean_word_length", "hash_ratio", "ellipsis_ratio", "letter_fraction")
_NOT_MEASURED: Mapping[str, tuple[str, ...]] = {
    "curate": _NOT_OURS,
    "datatrove": _NOT_OURS,
    "dclm": _NOT_DCLM,
    "dolma": _NOT_DOLMA,
    "dolma_v2": _NOT_DOLMA,
}
_SYMBOLS: Mapping[str, Any] = {"max_hash_ratio": None, "max_ellipsis_ratio": None, "max_symbol_ratio": 0.1}
_PUBLISHED_WORDS: Mapping[str, Any] = {"stop_words": {"en": STOP_WORDS["en"]}}
_DCLM: Mapping[str, Any] = {**OWN, **_PUBLISHED_WORDS, **_SYMBOLS, "bullets": ("●", "•", "*", "-")}
_DOLMA: Mapping[str, Any] = {
    **OWN,
    **_PUBLISHED_WORDS,
    **_SYMBOLS,
    "bullets": ("*", "-"),
    "min_mean_word_length": None,
    "max_mean_word_length": None,
    "min_median_word_length": 3.0,
    "max_median_word_length": 10.0,
}


def _tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): tuple(words) if isinstance(words, list) else words for key, words in value.items()}
    if isinstance(value, list | tuple):
        return {"*": tuple(value)}
    return value


class GopherQuality(BoundsByLanguage):
    """Gopher's document-level rules. Each threshold is a number, a map by language, or off.

    Attributes:
        variant: Whose words, lines and lists (see above).
        min_words, max_words: Words with a letter or digit (datatrove: not all punctuation).
        min_mean_word_length, max_mean_word_length: Characters per such word. In scripts without spaces a word is one
            character: bound them by language there.
        min_median_word_length, max_median_word_length: Of all words (dolma, in place of the mean).
        max_hash_ratio, max_ellipsis_ratio: `#` signs, and ellipses (`...` or `…`), per word (punctuation included).
        max_symbol_ratio: Both together, per word (dclm), or words with one of them (dolma).
        max_bullet_line_fraction: Lines that begin with a sign of `bullets`.
        max_ellipsis_line_fraction: Lines that end in an ellipsis of any form.
        min_alpha_word_fraction: Words (punctuation included, as datatrove counts) with at least one letter. The strictest of
            the rules: with 0.8 it removes a fifth of pages whose main text people verified, plays and dialogue first.
        min_letter_fraction: Letters, with the marks that belong to them, among the characters that are no white space.
            Not one of Gopher's: off unless set.
        min_stop_words: Distinct stop words (dclm, dolma: their occurrences). The language with the most counts, so that no label is needed.
        stop_words: Word lists by language, or one list. Compared as written, as datatrove does (dclm: in lower case).
        bullets: Signs that begin a line of a list.
    """

    version: ClassVar[int] = 4
    ranges: ClassVar[Mapping[str, tuple[str, str]]] = {
        "num_words": ("min_words", "max_words"),
        "mean_word_length": ("min_mean_word_length", "max_mean_word_length"),
        "median_word_length": ("min_median_word_length", "max_median_word_length"),
    }
    decides: ClassVar[tuple[str, ...]] = (
        "min_words",
        "max_words",
        "min_mean_word_length",
        "max_mean_word_length",
        "min_median_word_length",
        "max_median_word_length",
        "max_hash_ratio",
        "max_ellipsis_ratio",
        "max_symbol_ratio",
        "max_bullet_line_fraction",
        "max_ellipsis_line_fraction",
        "min_alpha_word_fraction",
        "min_letter_fraction",
        "min_stop_words",
        "by",
        "bounds",
    )

    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "curate": {},
        "datatrove": {**ENGLISH, "bullets": ("•", "-"), "stop_words": {"en": STOP_WORDS["en"]}},
        "dclm": _DCLM,
        "dolma": _DOLMA,
        "dolma_v2": _DOLMA,
    }

    variant: Literal["curate", "datatrove", "dclm", "dolma", "dolma_v2"] = "curate"
    min_words: AtLeastNumber = 50.0
    max_words: AtMostNumber = 100_000.0
    min_mean_word_length: AtLeastNumber = 3.0
    max_mean_word_length: AtMostNumber = 10.0
    min_median_word_length: AtLeastNumber = None
    max_median_word_length: AtMostNumber = None
    max_hash_ratio: AtMostNumber = 0.1
    max_ellipsis_ratio: AtMostNumber = 0.1
    max_symbol_ratio: AtMostNumber = None
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

    @property
    def adds(self) -> Mapping[str, str]:  # type: ignore[override]  # each variant has its measures
        """The columns measured."""
        return {name: kind for name, kind in _MEASURED.items() if name not in _NOT_MEASURED[self.variant]}

    @model_validator(mode="after")
    def _measured_alone(self) -> GopherQuality:
        for name, (column, least, most) in self._bounds().items():
            if column in _NOT_MEASURED[self.variant] and (least is not None or most is not None):
                raise ValueError(f"variant {self.variant} measures no {column}; leave {name} out")
        return self

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; all of them 0 for a text without a word."""
        import numpy as np

        if self.words == "own":
            from curate.filter.gopher.variants_quality import VARIANTS

            texts = [text or "" for text in batch["text"].to_pylist()]
            rows = [VARIANTS[self.variant](text, self.bullets, self.stop_words) for text in texts]
            own = [[row[name] for name in self.adds] for row in rows]
            return self.columns(np.array(own, np.float64).reshape(-1, len(self.adds)))
        from curate.filter.gopher import quality_kernel as kernel

        values = np.empty((batch.num_rows, len(self.adds)), np.float64)
        kernel.measure(
            self.texts(batch),
            self.tokens(batch),
            kernel.DATATROVE if self.variant == "datatrove" else kernel.CURATE,
            kernel.bullets_of(self.bullets),
            kernel.stop_words_of(self.stop_words),
            kernel.letter_table(),
            values,
        )
        return self.columns(values)

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return one rule for each measure, in the order in which datatrove tests them."""
        bounds = self._bounds().values()
        set_bounds = (bound for bound in bounds if bound[1] is not None or bound[2] is not None)
        return tuple(self.rule(f"{block}.{column}", column, least, most) for column, least, most in set_bounds)

    def _bounds(self) -> Mapping[str, tuple[str, Bound, Bound]]:
        """Return by setting the column, its least and its most."""
        median = (self.min_median_word_length, self.max_median_word_length)
        return {
            "min_words": ("num_words", self.min_words, self.max_words),
            "min_mean_word_length": ("mean_word_length", self.min_mean_word_length, self.max_mean_word_length),
            "min_median_word_length": ("median_word_length", *median),
            "max_hash_ratio": ("hash_ratio", None, self.max_hash_ratio),
            "max_ellipsis_ratio": ("ellipsis_ratio", None, self.max_ellipsis_ratio),
            "max_symbol_ratio": ("symbol_ratio", None, self.max_symbol_ratio),
            "max_bullet_line_fraction": ("bullet_line_fraction", None, self.max_bullet_line_fraction),
            "max_ellipsis_line_fraction": ("ellipsis_line_fraction", None, self.max_ellipsis_line_fraction),
            "min_alpha_word_fraction": ("alpha_word_fraction", self.min_alpha_word_fraction, None),
            "min_letter_fraction": ("letter_fraction", self.min_letter_fraction, None),
            "min_stop_words": ("num_stop_words", self.min_stop_words, None),
        }
