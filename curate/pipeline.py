"""Stages over batches: contract checks, bad rows found one by one, files with fixed row groups, rules applied.

Only this file removes rows, and whoever it removes is recorded with rule, value and bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.document import REMOVED, ROWS_PER_GROUP
from curate.errors import StageError
from curate.ledger import balance
from curate.plan import TaskContext
from curate.stage import Rule, Step, bound_for
from curate.words import with_words

BATCH_ROWS = 256
BATCH_BYTES = 8 << 20  # text of one batch; keeps memory flat when documents are long

TYPES: Mapping[str, pa.DataType] = {
    "float64": pa.float64(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "list<uint64>": pa.large_list(pa.uint64()),
}


def added_schema(step: Step) -> pa.Schema:
    """Return the Arrow schema of the columns that a step measures."""
    return pa.schema([(name, TYPES[kind]) for name, kind in step.adds.items()])


# -- bad rows ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that a stage could not handle."""

    stage: str  # "error" if it raised, "quarantine" if it killed its worker
    message: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a stage, and how it is named where it fails.

    Attributes:
        source: Name of the source.
        block: Recipe block, such as `gopher_quality`; errors become `<block>.error`.
        key: Key of the stage, under which quarantined documents are remembered.
        function: Batch in, batch of the same rows out.
        schema: Columns that must come out.
    """

    source: str
    block: str
    key: str
    function: Callable[[pa.RecordBatch], pa.RecordBatch]
    schema: pa.Schema


def guarded(
    call: Call, batch: pa.RecordBatch, ids: Sequence[str], context: TaskContext
) -> tuple[pa.RecordBatch, dict[int, Failure]]:
    """Run a stage over a batch; a row on which it raises, or which kills workers, becomes a failure with null results.

    Returns:
        The columns of `call.schema`, one row for each row of `batch`; and row number -> failure.

    Raises:
        StageError: If the stage breaks its contract (columns or types).
        LedgerError: If it returns more or fewer rows than it got.
    """
    known = context.cache.quarantined(call.key)
    failures = (
        {row: Failure("quarantine", known[name]) for row, name in enumerate(ids) if name in known} if known else {}
    )
    rows = [row for row in range(batch.num_rows) if row not in failures]
    parts: list[pa.RecordBatch] = []
    good: list[int] = []
    if rows and not context.guard.careful:
        chosen = batch.take(pa.array(rows)) if failures else batch
        try:
            with context.guard.watch(call.block, call.key, [ids[row] for row in rows]):
                result = call.function(chosen)
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
        else:
            parts, good = [_checked(call, result, len(rows))], rows
    if rows and not parts:
        for row in rows:
            try:
                with context.guard.watch(call.block, call.key, [ids[row]]):
                    result = call.function(batch.slice(row, 1))
            except Exception as error:
                failures[row] = Failure("error", f"{type(error).__name__}: {error}")
            else:
                parts.append(_checked(call, result, 1))
                good.append(row)
    return _spread(parts, good, batch.num_rows, call.schema), failures


def _checked(call: Call, result: pa.RecordBatch, rows: int) -> pa.RecordBatch:
    balance(call.source, call.block, "rows", rows, {"returned": result.num_rows})
    if result.schema.names != call.schema.names or result.schema.types != call.schema.types:
        missing = [field.name for field in call.schema if field.name not in result.schema.names]
        detail = f"columns {missing} are missing" if missing else f"returned {result.schema.to_string()!r}"
        raise StageError(
            call.source,
            call.block,
            "",
            f"{detail}; declared is {call.schema.to_string()!r}.",
            "Return exactly the declared columns.",
        )
    return pa.RecordBatch.from_arrays(result.columns, schema=call.schema)


def _spread(parts: list[pa.RecordBatch], good: list[int], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    if len(good) == rows and len(parts) == 1:
        return parts[0]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    table = pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(part.columns, schema=nullable) for part in parts], nullable
    )
    place = np.full(rows, -1, np.int64)
    place[good] = np.arange(len(good))
    taken = table.combine_chunks().take(pa.array(place, mask=place < 0))
    batches = taken.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=nullable)


# -- steps -------------------------------------------------------------------------------------------------------------


def apply_step(
    step: Step, block: str, source: str, key: str, batch: pa.RecordBatch, context: TaskContext
) -> tuple[pa.RecordBatch, pa.Array, dict[int, Failure]]:
    """Apply one step of a source to a batch that has `id`, `text` and the extracted columns.

    Returns:
        The measured columns; the text after the step (the old text where it failed or does not rewrite); the failures.
    """
    fields = list(added_schema(step))
    if step.rewrites:
        fields.insert(0, pa.field("text", pa.large_string()))
    schema = pa.schema(fields)

    def function(rows: pa.RecordBatch) -> pa.RecordBatch:
        return step.apply(with_words(rows, step.reads))

    result, failures = guarded(Call(source, block, key, function, schema), batch, batch["id"].to_pylist(), context)
    text = batch["text"]
    if step.rewrites:
        text = (
            result["text"]
            if not failures
            else pa.array(
                [
                    old.as_py() if row in failures else new.as_py()
                    for row, (old, new) in enumerate(zip(text, result["text"], strict=True))
                ],
                pa.large_string(),
            )
        )
        result = result.drop_columns(["text"])
    return result, text, failures


def replace_text(batch: pa.RecordBatch, text: pa.Array) -> pa.RecordBatch:
    """Return the batch with another text revision."""
    return batch.set_column(batch.schema.get_field_index("text"), batch.schema.field("text"), text)


# -- rules -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fired:
    """The result of one rule over a table."""

    rule: Rule
    mask: np.ndarray  # (rows,) bool: the document would go
    values: list[Any]  # measured value of each row


def evaluate(rule: Rule, columns: Mapping[str, pa.ChunkedArray], rows: int) -> Fired:
    """Apply a rule to measured columns. A value that was not measured (null) fires nothing.

    Args:
        rule: The rule; its columns must be in `columns`.
        columns: Name to measured values.
        rows: Number of documents.
    """
    if rule.expression is not None:
        return _evaluate_expression(rule, columns, rows)
    values = columns[rule.column].to_pylist()
    if rule.one_of is not None:
        allowed = frozenset(rule.one_of)
        return Fired(rule, np.array([value is not None and value not in allowed for value in values], bool), values)
    numbers = np.array([np.nan if value is None else float(value) for value in values], np.float64)
    labels = columns[rule.by].to_pylist() if rule.by is not None else None
    low = _bounds(rule.at_least, labels, rows, -np.inf)
    high = _bounds(rule.at_most, labels, rows, np.inf)
    return Fired(rule, (numbers < low) | (numbers > high), values)  # NaN compares false: nothing fires


def _bounds(bound: Any, labels: list[Any] | None, rows: int, off: float) -> np.ndarray:
    if labels is None or bound is None or isinstance(bound, int | float):
        number = bound_for(bound, None)
        return np.full(rows, off if number is None else number)
    found = (bound_for(bound, label) for label in labels)
    return np.array([off if number is None else number for number in found], np.float64)


def _evaluate_expression(rule: Rule, columns: Mapping[str, pa.ChunkedArray], rows: int) -> Fired:
    import polars as pl

    assert rule.expression is not None
    expression = pl.sql_expr(rule.expression)
    names = sorted(expression.meta.root_names())
    frame = pl.DataFrame({name: pl.from_arrow(columns[name]) for name in names})
    keep = frame.select(expression.cast(pl.Boolean).alias("keep"))["keep"] if names else pl.Series([True] * rows)
    mask = ~keep.fill_null(value=False).to_numpy().astype(bool)
    values = columns[names[0]].to_pylist() if len(names) == 1 else [None] * rows
    return Fired(rule, mask, values)


def removal(
    document: str,
    stage: str,
    rule: str,
    *,
    value: Any = None,
    threshold: str | None = None,
    also_fired: Sequence[str] = (),
    kept_id: str | None = None,
    similarity: float | None = None,
) -> dict[str, Any]:
    """Return one row of the REMOVED schema; `value` may be a number, a truth value or a label."""
    number = float(value) if isinstance(value, int | float) else None
    return {
        "id": document,
        "stage": stage,
        "rule": rule,
        "value": number if number is None or number == number else None,
        "value_label": value if isinstance(value, str) else None,
        "threshold": threshold,
        "also_fired": list(also_fired),
        "kept_id": kept_id,
        "similarity": similarity,
    }


# -- files -------------------------------------------------------------------------------------------------------------


class ParquetFile:
    """Writes rows of one schema with row groups of a fixed row count, whatever the sizes of the batches.

    Used as a context manager. `rows` is counted from what was handed over; compare it with the file (`rows_written`).
    """

    def __init__(self, path: Path, schema: pa.Schema, *, rows_per_group: int = ROWS_PER_GROUP) -> None:
        self.path = path
        self._schema = schema
        self._group = rows_per_group
        self._pending: list[pa.RecordBatch] = []
        self._waiting = 0
        self._writer = pq.ParquetWriter(
            path, schema, compression="zstd", compression_level=3, version="2.6", write_page_index=False
        )

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self._writer.close()

    def finish(self) -> None:
        """Write what is pending and close the file; a second call does nothing."""
        self._flush(everything=True)
        self._writer.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch; columns must be those of the schema, in order."""
        if batch.num_rows:
            self._pending.append(batch.cast(self._schema) if not batch.schema.equals(self._schema) else batch)
            self._waiting += batch.num_rows
            self._flush(everything=False)

    def write_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows given as mappings."""
        if rows:
            self.write(pa.RecordBatch.from_pylist(list(rows), schema=self._schema))

    def _flush(self, *, everything: bool) -> None:
        while self._waiting >= self._group or (everything and self._waiting):
            group: list[pa.RecordBatch] = []
            room = self._group
            while self._pending and room:
                batch = self._pending.pop(0)
                if batch.num_rows > room:
                    self._pending.insert(0, batch.slice(room))
                    batch = batch.slice(0, room)
                group.append(batch)
                room -= batch.num_rows
            table = pa.Table.from_batches(group, self._schema)
            self._writer.write_table(table, row_group_size=self._group)
            self._waiting -= table.num_rows


def rows_written(path: Path) -> int:
    """Return the number of rows that a Parquet file really has."""
    return int(pq.ParquetFile(path).metadata.num_rows)


def read_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield a Parquet file in batches of at most BATCH_ROWS rows and, where there is text, about BATCH_BYTES bytes."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=list(columns) if columns is not None else None):
            yield from split_by_bytes(batch)


def split_by_bytes(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halve a batch until each part is about BATCH_BYTES or one row."""
    if batch.num_rows > 1 and batch.nbytes > BATCH_BYTES:
        middle = batch.num_rows // 2
        yield from split_by_bytes(batch.slice(0, middle))
        yield from split_by_bytes(batch.slice(middle))
    else:
        yield batch


def read_removed(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Return id -> removal over several REMOVED files; the first file that names an id wins, later ones are also_fired."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        for row in pq.read_table(path, schema=REMOVED).to_pylist():
            first = found.setdefault(row["id"], row)
            if first is not row:
                first["also_fired"] = [*first["also_fired"], row["rule"], *row["also_fired"]]
    return found


SIZES = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("bytes", pa.int64(), nullable=False)])


def sizes_by_rule(path: Path, removed: Mapping[str, str]) -> dict[str, int]:
    """Return "<stage>/<rule>" -> UTF-8 bytes of revision 0 removed by it.

    Args:
        path: sizes.parquet of the shard.
        removed: Document id -> "<stage>/<rule>".
    """
    sums: dict[str, int] = {}
    for batch in pq.ParquetFile(path).iter_batches(ROWS_PER_GROUP):
        for name, size in zip(batch["id"].to_pylist(), batch["bytes"].to_pylist(), strict=True):
            if name in removed:
                sums[removed[name]] = sums.get(removed[name], 0) + size
    return dict(sorted(sums.items()))


def text_bytes(text: pa.Array) -> np.ndarray:
    """Return the UTF-8 bytes of each text, int64; 0 for null."""
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.binary_length(text.cast(pa.large_binary())), 0)
    return np.asarray(lengths.cast(pa.int64()).to_numpy(zero_copy_only=False))
