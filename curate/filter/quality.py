"""Learned quality scores and their bounds.

Models of `curate classifier train` say in their card how they are read. Any other fastText classifier works by naming its
label: DCLM's `openhermes_reddit_eli5_vs_rw_v2_bigram_200k_train.bin` with `label: hq, min_score: 0.018112` is DCLM-baseline's
filter (Li et al. 2024, arXiv:2406.11794; `baselines_configs/fasttext_filter.yaml`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, model_validator

from curate.errors import InputError
from curate.filter.bounds import AtLeastScore, Filter, KeepTop
from curate.filter.classifier import Reading, digest_of, load_classifier, model_files, reading_of, scores_of
from curate.stage import Rule

if TYPE_CHECKING:
    import pyarrow as pa

    from curate.filter.classifier import Floats

_COLUMN = re.compile(r"[a-z][a-z0-9_]*\Z")


def _column(value: Any) -> Any:
    if isinstance(value, str) and not _COLUMN.match(value):
        raise ValueError(f"{value!r} is no column name; write lower-case letters, digits and '_', such as edu_score")
    return value


class Quality(Filter):
    """A classifier's score of a document.

    Attributes:
        model: A folder that `curate classifier train` wrote, or a fastText model file.
        column: Name of the measure; several classifiers stand side by side under different names.
        label: The label whose probability is the score, for a model without a card.
        text: Form of the text that the model reads, for a model without a card: `line` (DCLM's, the usual one) or `folded`.
        min_score: Least score that stays: a number, a map by label, or a quantile; off: measured only.
        keep_top: Share of the documents that stays, those with the highest scores among all that the earlier blocks
            keep. A number, or a map by label; documents whose score equals the lowest kept one stay too.
    """

    version: ClassVar[int] = 1
    decides: ClassVar[tuple[str, ...]] = ("min_score", "keep_top", "by")

    model: str
    column: Annotated[str, BeforeValidator(_column)] = "quality_score"
    label: str | None = None
    text: Literal["line", "folded"] | None = None
    min_score: AtLeastScore = None
    keep_top: KeepTop = None

    @property
    def adds(self) -> Mapping[str, str]:  # type: ignore[override]
        """The score's column."""
        return {self.column: "float64"}

    @model_validator(mode="after")
    def _one_bound(self) -> Quality:
        if self.min_score is not None and self.keep_top is not None:
            raise ValueError("min_score and keep_top both bound the score; leave one of them out")
        return self

    def model_digest(self) -> str:
        """Return the digest of model and card."""
        return digest_of(self.model)

    def file_problem(self) -> str:
        """Return what is wrong between the model's card and the settings."""
        try:
            self.reading()
        except InputError as error:
            return str(error)
        return ""

    def prepare(self) -> None:
        """Load the model and compile what reads it."""
        self._scores([])

    def reading(self) -> Reading:
        """Return how the model is read: as its card says, or as the settings do.

        Raises:
            InputError: If neither says which label is the good one, or both do.
        """
        known = reading_of(self.model)
        file = str(model_files(self.model)[0])
        if known is None:
            if self.label is None:
                problem = "there is no card beside it that says which label's probability is the score."
                raise InputError(file, problem, "Say `label: hq` in the quality block, or whatever the label is.")
            return Reading(self.text or "line", {self.label: 1.0})
        if self.label is not None or self.text is not None:
            problem = "its card says how it is read, and so does the recipe."
            raise InputError(file, problem, "Leave `label` and `text` out of the block.")
        if not known.score:
            problem = "it tells labels apart, and none of them is a number."
            raise InputError(
                file, problem, "Use it as a `topic` block, or train one with positive and negative, or score."
            )
        return known

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the score: the label's probability, or the expected number; 0 for a text without a word."""
        import pyarrow as pa

        return pa.record_batch({self.column: pa.array(self._scores(batch["text"].to_pylist()), pa.float64())})

    def _scores(self, texts: Sequence[str | None]) -> Floats:
        reading = self.reading()
        classifier = load_classifier(self.model, reading.text, self.model_digest())
        if missing := [label for label in reading.score if label not in classifier.labels]:
            problem = f"it has no label {missing[0]!r}; it has {', '.join(classifier.labels[:20])}."
            raise InputError(str(model_files(self.model)[0]), problem, "Correct `label` of the quality block.")
        lines = classifier.lines(texts)
        return scores_of(classifier.probabilities(lines), classifier.labels, reading.score)

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return `min_score` or `keep_top`, if one of them is set."""
        if self.min_score is not None:
            return (self.rule(f"{block}.min_score", self.column, self.min_score, None),)
        if self.keep_top is not None:
            return (self.rule(f"{block}.keep_top", self.column, self.keep_top, None),)
        return ()
