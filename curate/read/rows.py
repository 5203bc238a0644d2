"""RAW batches of bounded size, built row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS = 256
MAX_BYTES = 8 << 20
MAX_RECORD_BYTES = 64 << 20  # the readers' default `max_bytes`: a longer record is no page, book or source file


class Rows:
    """Collects rows until `full`; `flush` gives them as one RAW batch.

    A batch holds at most `max_rows` rows and, but for its last row, less than `max_bytes` of payload. Where a batch
    ends never shows in a result.
    """

    def __init__(self, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> None:
        from curate.document import RAW

        self._schema = RAW
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._columns: dict[str, list[Any]] = {name: [] for name in RAW.names}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._columns["offset"])

    @property
    def full(self) -> bool:
        """Whether the batch should be flushed before another row."""
        return len(self) >= self._max_rows or self._bytes >= self._max_bytes

    def add(self, offset: int, *, part: int = 0, **values: Any) -> None:
        """Add a row; columns not named are null.

        Args:
            offset: Where the record starts (see `curate.document.RAW`).
            part: Sub-index inside the record.
            **values: Further RAW columns by name. An unknown name raises KeyError: a mistake of ours.
        """
        row = dict.fromkeys(self._columns) | {"offset": offset, "part": part} | values
        for name, value in row.items():
            self._columns[name].append(value)
        self._bytes += sum(len(values.get(name) or "") for name in ("content", "text"))

    def flush(self) -> pa.RecordBatch:
        """Return the collected rows as a RAW batch, and start again."""
        import pyarrow as pa

        arrays = [pa.array(self._columns[field.name], field.type) for field in self._schema]
        self._columns = {name: [] for name in self._columns}
        self._bytes = 0
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
