"""The topic of a document, as a fastText model tells it: a label to filter by, and an axis of the mixture.

No model ships: which topics there are is the user's choice. `curate classifier train` fits one from documents that carry a
label (`classifier: {label: topic}`); any other supervised fastText model works as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from curate.errors import InputError
from curate.filter.bounds import AtLeastShare, Filter, is_off
from curate.filter.classifier import UNKNOWN, Reading, digest_of, load_classifier, model_files, reading_of
from curate.stage import Rule

if TYPE_CHECKING:
    import pyarrow as pa


def _labels(value: Any) -> Any:
    if is_off(value):
        return None
    return (value,) if isinstance(value, str) else value


class Topic(Filter):
    """The likeliest label of a document and its probability.

    Attributes:
        model: A folder that `curate classifier train` wrote, or a fastText model file.
        column: Name of the label's column; the probability stands in `<column>_score`.
        text: Form of the text that the model reads, for a model without a card: `line` (the usual one) or `folded`.
        keep: Labels that stay; off: all, also "unknown", which a text without a word is.
        min_score: Least probability of the label: a number, a map by topic, a share, or off.
        by: The label column of a map; the topic itself by default.
    """

    version: ClassVar[int] = 1
    decides: ClassVar[tuple[str, ...]] = ("keep", "min_score", "by")

    model: str
    column: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] = "topic"
    text: Literal["line", "folded"] | None = None
    keep: Annotated[tuple[str, ...] | None, BeforeValidator(_labels), Field(min_length=1)] = None
    min_score: AtLeastShare = None
    by: str = "topic"

    @model_validator(mode="before")
    @classmethod
    def _by_itself(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "by" not in values and isinstance(values.get("column"), str):
            return {**values, "by": values["column"]}
        return values

    @property
    def adds(self) -> Mapping[str, str]:  # type: ignore[override]
        """The columns of label and probability."""
        return {self.column: "string", f"{self.column}_score": "float64"}

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

    def reading(self) -> Reading:
        """Return how the model is read: as its card says, or as the settings do.

        Raises:
            InputError: If both say so.
        """
        known = reading_of(self.model)
        if known is not None and self.text is not None:
            problem = "its card says how it is read, and so does the recipe."
            raise InputError(str(model_files(self.model)[0]), problem, "Leave `text` out of the block.")
        return known or Reading(self.text or "line", {})

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return label and probability; ("unknown", 0) for a text without a word."""
        import pyarrow as pa

        classifier = load_classifier(self.model, self.reading().text, self.model_digest())
        lines = classifier.lines(batch["text"].to_pylist())
        found = classifier.probabilities(lines)
        best = found.argmax(axis=1) if len(lines) else []
        labels = [classifier.labels[place] if line else UNKNOWN for place, line in zip(best, lines, strict=True)]
        scores = found.max(axis=1) if len(lines) else []
        return pa.record_batch(
            {self.column: pa.array(labels, pa.string()), f"{self.column}_score": pa.array(scores, pa.float64())}
        )

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return `keep` (label) and `min_score`."""
        rules: list[Rule] = []
        if self.keep is not None:
            rules.append(Rule(f"{block}.keep", self.column, one_of=self.keep))
        if self.min_score is not None:
            rules.append(self.rule(f"{block}.min_score", f"{self.column}_score", self.min_score, None))
        return tuple(rules)
