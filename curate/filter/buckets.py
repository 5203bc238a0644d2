"""Several scores to one quality bucket by rank (Nemotron-CC: Su et al. 2024, arXiv:2412.02595).

Classifiers disagree about which pages are good and put them on different scales. Ranks are comparable: each score's documents
are divided into buckets of equal size, and a document is as good as the classifier that likes it best says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, model_validator

from curate.filter.bounds import AtLeastNumber
from curate.stage import Rule, Step

if TYPE_CHECKING:
    import pyarrow as pa


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class QualityBuckets(Step):
    """The bucket of a document, 0 (worst) to `buckets` - 1, from its rank among the source's documents.

    Ranks count the documents that all earlier blocks keep, those with a score. The bucket of a score is
    floor(buckets * documents that score lower / documents), so equal scores share one; of several scores the highest bucket
    counts. A document that an earlier block removes gets the bucket that its score would have.

    Attributes:
        scores: Columns that earlier steps measured, such as quality_score.
        buckets: How many there are.
        column: Name of the measure.
        min_bucket: Least bucket that stays; off: measured only, for `where` and for the mixture.
    """

    version: ClassVar[int] = 1
    decides: ClassVar[tuple[str, ...]] = ("min_bucket",)

    scores: Annotated[tuple[str, ...], BeforeValidator(_names), Field(min_length=1)]
    buckets: int = Field(default=20, ge=2, le=1000)
    column: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] = "quality_bucket"
    min_bucket: AtLeastNumber = None

    @model_validator(mode="after")
    def _at_its_place(self) -> QualityBuckets:
        if self.at != "here":
            raise ValueError("buckets are made where documents are decided; leave `at` out")
        return self

    @property
    def adds(self) -> Mapping[str, str]:  # type: ignore[override]
        """The bucket's column."""
        return {self.column: "int64"}

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Never called: a rank is no property of one document. `curate.phases.rank` measures it."""
        raise AssertionError(f"buckets are made over all documents of a source, not over {batch.num_rows}")

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return `min_bucket`, if it is set."""
        if self.min_bucket is None:
            return ()
        return (
            Rule(
                f"{block}.min_bucket",
                self.column,
                at_least=self.min_bucket,
                by="language" if isinstance(self.min_bucket, Mapping) else None,
            ),
        )
