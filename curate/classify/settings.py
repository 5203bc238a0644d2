"""The section `classifier` of a recipe: which documents are examples of what, and how the model is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from curate.stage import Settings, Stage
from curate.text.quantities import parse_count

POSITIVE, NEGATIVE = "positive", "negative"


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _off(value: Any) -> Any:
    return None if value == "off" else value


Names = Annotated[tuple[str, ...], BeforeValidator(_names), Field(min_length=1)]
Count = Annotated[int, BeforeValidator(parse_count), Field(ge=1)]


class Scores(Settings):
    """Examples that carry a number, as FineWeb-Edu's carry 0 to 5: each whole number is a class.

    Attributes:
        field: Field of the documents' metadata that holds the number; one between two whole numbers goes to the nearest
            (half: to the even one).
        low, high: The classes; numbers beyond are drawn to the nearest end.
        positive_from: The number from which a document counts as good in the curve (FineWeb-Edu: 3).
    """

    field: str
    low: int = 0
    high: int = 5
    positive_from: float = 3.0

    @model_validator(mode="after")
    def _ordered(self) -> Scores:
        if not self.low < self.positive_from <= self.high or self.high - self.low > 100:
            raise ValueError(
                f"classes {self.low} to {self.high} and positive_from {self.positive_from:g}: the classes must be "
                "at most 101 and ascend, and positive_from must lie above the lowest and at most at the highest"
            )
        return self


class FastText(Stage):
    """How the model is fitted (Joulin et al. 2016, arXiv:1607.01759).

    Attributes:
        word_ngrams: Longest run of words that is a feature; runs of two or more are hashed.
        dim: Size of the vectors.
        lr: Learning rate, falling to 0 over the examples.
        epochs: Times that each example is seen.
        min_count: Words seen less often have no vector (their n-grams do).
        bucket: Vectors that n-grams share. fastText's own default, and DCLM's, is 2M: 800 MB at 100 numbers each.
    """

    version: ClassVar[int] = 1

    word_ngrams: int = Field(default=2, ge=1, le=5)
    dim: int = Field(default=64, ge=2, le=1000)
    lr: float = Field(default=0.1, gt=0, le=5)
    epochs: int = Field(default=5, ge=1, le=1000)
    min_count: int = Field(default=2, ge=1)
    bucket: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=100_000_000)] = 200_000


class Classifier(Settings):
    """The recipe's `classifier`: read by `curate classifier train`; a run passes it over.

    One of three says what is learned:

    - `positive` and `negative`: the score is the probability that a document is of the first kind;
    - `score`: the score is the expected number (the sum over the classes of number times probability);
    - `label`: several labels; the model gives the likeliest and its probability (a topic, say).

    Attributes:
        positive: Sources of good documents.
        negative: Sources of the pool that will be filtered, such as raw web.
        score: See `Scores`; the documents of all sources.
        label: Field of the metadata that holds a document's label; the documents of all sources. One without is left out.
        text: Form of the text that the model sees (`curate.text.oneline`): `folded`, or `line` as DCLM has it.
        passage_words: Longer documents are divided into passages of at most this many words, each an example of its own, so
            that a book is not one example among thousands of pages; off: documents stay whole.
        max_per_class: Examples that are taken of each class at most, drawn by the hash of their text.
        balance: Whether each class gives as many examples as the smallest one.
        held_out: Share of the documents on which the model is judged and never trained.
        keep: Share of the pool for which the summary names the threshold.
        fasttext: See `FastText`.
    """

    positive: Names | None = None
    negative: Names | None = None
    score: Scores | None = None
    label: str | None = None
    text: Literal["folded", "line"] = "folded"
    passage_words: Annotated[Annotated[int, Field(ge=8)] | None, BeforeValidator(_off)] = 500
    max_per_class: Count = 200_000
    balance: bool = True
    held_out: float = Field(default=0.1, gt=0, lt=1)
    keep: float = Field(default=0.1, gt=0, lt=1)
    fasttext: FastText = FastText()

    @model_validator(mode="after")
    def _one_task(self) -> Classifier:
        pair = (self.positive is not None) + (self.negative is not None)
        if pair == 1:
            missing = NEGATIVE if self.positive is not None else POSITIVE
            raise ValueError(f"{missing} is missing: name the sources of both kinds")
        if bool(pair) + (self.score is not None) + (self.label is not None) != 1:
            raise ValueError("say what is learned by one of: positive and negative; score; label")
        if both := set(self.positive or ()) & set(self.negative or ()):
            raise ValueError(f"{', '.join(sorted(both))} is named as positive and as negative")
        return self

    def named(self) -> tuple[str, ...]:
        """Return the sources that are named."""
        return (*(self.positive or ()), *(self.negative or ()))

    def classes(self) -> Mapping[str, str]:
        """Return source to class where sources are classes."""
        return dict.fromkeys(self.positive or (), POSITIVE) | dict.fromkeys(self.negative or (), NEGATIVE)
