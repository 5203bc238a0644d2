"""The `repair` section of a source: settings of `curate.text.unicode` for a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from curate.stage import Repair

if TYPE_CHECKING:
    import pyarrow as pa


class Ftfy(Repair):
    """Undo mojibake, drop controls and terminal codes, normalise to NFC, by ftfy with the defaults that rewrite off.

    What correct text is made of stays: CJK punctuation, full-width forms, typographic quotes, ligatures, joiners,
    direction marks, and entities in plain text.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("ftfy",)

    def repair(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return columns `text` (large_string) and `repairs` (list of `curate.text.unicode.REPAIRS`), same rows.

        Both are null where `text` is null.
        """
        import pyarrow as pa

        from curate.text.unicode import repair

        results = [None if text is None else repair(text) for text in batch.column("text").to_pylist()]
        texts = pa.array([None if result is None else result[0] for result in results], pa.large_string())
        repairs = pa.array([None if result is None else list(result[1]) for result in results], pa.list_(pa.string()))
        return pa.RecordBatch.from_arrays([texts, repairs], names=["text", "repairs"])
