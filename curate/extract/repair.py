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

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("ftfy",)

    def repair(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return columns `text` (large_string) and `repairs` (map: `curate.text.unicode.REPAIRS` to count), same rows.

        Both are null where `text` is null. Texts that are right stay in their Arrow buffer and are never Python
        strings.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from curate.text.scan import scan_texts
        from curate.text.unicode import repair

        texts = batch.column("text").cast(pa.large_string())
        _, ends, data = texts.buffers()
        repairs: list[dict[str, int] | None] = [{} if valid else None for valid in texts.is_valid().to_pylist()]
        if data is not None and ends is not None and len(texts):
            offsets = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
            suspect = scan_texts(np.frombuffer(data, np.uint8), offsets) != 0
            changed = []
            for row in np.flatnonzero(suspect).tolist():
                text = texts[row].as_py()
                new, repairs[row] = (None, None) if text is None else repair(text)
                changed.append(new)
            if changed:
                texts = pc.replace_with_mask(texts, pa.array(suspect), pa.array(changed, pa.large_string()))
        counts = [None if made is None else list(made.items()) for made in repairs]
        return pa.RecordBatch.from_arrays(
            [texts, pa.array(counts, pa.map_(pa.string(), pa.int64()))], names=["text", "repairs"]
        )
