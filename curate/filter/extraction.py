"""How sure an extractor was of a page's main text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from curate.filter.bounds import AtLeastShare, Filter
from curate.stage import Rule

if TYPE_CHECKING:
    import pyarrow as pa


class Extraction(Filter):
    """The word F1 that `extract: {kind: auto}` expects of a page's text, as a column that rules can use.

    Documents of other extractors, and those that were text from the beginning, have none; the rule leaves them alone.

    Attributes:
        min_confidence: Lowest that stays, 0 to 1; by default it is only measured.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("metadata",)
    adds: ClassVar[Mapping[str, str]] = {"extract_confidence": "float64"}
    decides: ClassVar[tuple[str, ...]] = ("min_confidence", "by")

    min_confidence: AtLeastShare = None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the column `extract_confidence`, null where the metadata hold none."""
        import pyarrow as pa

        values = []
        for metadata in batch.column("metadata").to_pylist():
            value = json.loads(metadata).get("extract_confidence") if metadata else None
            values.append(float(value) if isinstance(value, int | float) else None)
        return pa.record_batch({"extract_confidence": pa.array(values, pa.float64())})

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rule on the confidence."""
        if self.min_confidence is None:
            return ()
        return (self.rule(f"{block}.confidence", "extract_confidence", self.min_confidence, None),)
