"""Stages over batches: contract checks, bad rows found one by one, files with fixed row groups, rules applied.

Only this file removes rows, and whoever it removes is recorded with rule, value and bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.document import REMOVED, ROWS_PER_GROUP
from curate.errors import CurateError, StageError
from curate.ledger import balance
from curate.plan import TaskContext
from curate.stage import Bound, Rule, Share, Step, bound_for, null_divisions
from curate.words import TRANSIENT, with_words

BATCH_ROWS = 256
BATCH_BYTES = 8 << 20  # text of one batch; keeps memory flat when documents are long
GROUP_BYTES = 8 << 20  # text of one row group of a file, the row that fills it included

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
        except (CurateError, MemoryError, ImportError):
            raise  # no fault of a row: a model or a package that is missing, say
        except (Exception, SystemExit):
            parts = []  # found out row by row below
        else:
            parts, good = [_checked(call, result, len(rows))], rows
    if rows and not parts:
        for row in rows:
            try:
                with context.guard.watch(call.block, call.key, [ids[row]]):
                    result = call.function(batch.slice(row, 1))
            except (CurateError, MemoryError, ImportError):
                raise
            except (Exception, SystemExit) as error:
                failures[row] = Failure("error", f"{type(error).__name__}: {error}")
            else:
                parts.append(_checked(call, result, 1))
                good.append(row)
    return _spread(parts, good, batch.num_rows, call.schema), failures


def _checked(call: Call, result: Any, rows: int) -> pa.RecordBatch:
    if not isinstance(result, pa.RecordBatch):
        problem = f"returned {type(result).__name__}, not a pyarrow.RecordBatch."
        raise StageError(call.source, call.block, "", problem, "Return the declared columns of the rows given.")
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

    Words that the step reads are split here unless the batch brings them.

    Returns:
        The measured columns; the text after the step (the old text where it failed or does not rewrite); the failures.
    """
    fields = list(added_schema(step))
    if step.rewrites:
        fields.insert(0, pa.field("text", pa.large_string()))
    schema = pa.schema(fields)

    def function(rows: pa.RecordBatch) -> pa.RecordBatch:
        return step.apply(add_words(rows, step.reads))

    batch = batch.drop_columns([name for name in TRANSIENT if name in batch.schema.names and name not in step.reads])

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


def add_words(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the batch with those columns of TRANSIENT that are asked for and not there yet; other names are ignored."""
    missing = [name for name in columns if name in TRANSIENT and name not in batch.schema.names]
    return with_words(batch, missing) if missing else batch


def replace_text(batch: pa.RecordBatch, text: pa.Array) -> pa.RecordBatch:
    """Return the batch with another text revision, without the words of the old one."""
    batch = batch.drop_columns([name for name in TRANSIENT if name in batch.schema.names])
    return batch.set_column(batch.schema.get_field_index("text"), batch.schema.field("text"), text)


# -- rules -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fired:
    """The result of one rule over a table."""

    rule: Rule
    mask: np.ndarray  # (rows,) bool: the document would go
    values: pa.ChunkedArray  # measured value of each row; "a=1, b=2" if an expression looks at several columns

    def value(self, row: int) -> Any:
        """Return what was measured for one row."""
        return self.values[row].as_py()


def evaluate(rule: Rule, columns: Mapping[str, pa.ChunkedArray], rows: int) -> Fired:
    """Apply a rule to measured columns. A value that was not measured (null) fires nothing.

    Args:
        rule: The rule; its columns must be in `columns`.
        columns: Name to measured values.
        rows: Number of documents.
    """
    if rule.expression is not None:
        return _evaluate_expression(rule, columns, rows)
    values = columns[rule.column]
    if rule.one_of is not None:
        allowed = pc.is_in(values, value_set=pa.array(rule.one_of, values.type))
        return Fired(rule, _mask(pc.and_(pc.is_valid(values), pc.invert(allowed))), values)
    numbers = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), np.float64)  # null becomes NaN
    labels = columns[rule.by] if rule.by is not None else None
    low = _bounds(rule.at_least, labels, rows, -np.inf)
    high = _bounds(rule.at_most, labels, rows, np.inf)
    return Fired(rule, (numbers < low) | (numbers > high), values)  # NaN compares false: nothing fires


def _bounds(bound: Bound, labels: pa.ChunkedArray | None, rows: int, off: float) -> np.ndarray:
    """Return the number that a bound means for each document, `off` where there is none."""
    if labels is None or not isinstance(bound, Mapping):
        return np.full(rows, _number(bound_for(bound, None), off))
    encoded = labels.combine_chunks().dictionary_encode()
    found = [bound_for(bound, label) for label in (*encoded.dictionary.to_pylist(), None)]
    numbers = np.array([_number(number, off) for number in found], np.float64)
    places: np.ndarray = pc.fill_null(encoded.indices, len(found) - 1).to_numpy()
    return np.asarray(numbers[places])


def _number(bound: float | Share | None, off: float) -> float:
    assert not isinstance(bound, Share), "shares are resolved before rules are applied"
    return off if bound is None else bound


def _evaluate_expression(rule: Rule, columns: Mapping[str, pa.ChunkedArray], rows: int) -> Fired:
    import polars as pl

    assert rule.expression is not None
    expression = pl.sql_expr(null_divisions(rule.expression))
    names = sorted(expression.meta.root_names())
    frame = pl.DataFrame({name: pl.from_arrow(columns[name]) for name in names})
    keep = frame.select(expression.cast(pl.Boolean).alias("keep"))["keep"] if names else pl.Series([True] * rows)
    mask = ~keep.fill_null(value=False).to_numpy().astype(bool)
    if len(names) == 1:
        return Fired(rule, mask, columns[names[0]])
    shown = [pl.format(f"{name}={{}}", pl.col(name).cast(pl.String).fill_null("null")) for name in names]
    labels = frame.select(pl.concat_str(shown, separator=", ").alias("labels"))["labels"]
    return Fired(rule, mask, pa.chunked_array([labels.to_arrow()]))


def _mask(values: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(values.to_numpy(), bool)


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


_HASHES = "bands"  # a column of hashes: nothing there repeats or compresses, and trying takes most of the time


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Return the arguments of a writer: zstd and dictionaries for all columns but hashes."""
    if _HASHES not in schema.names:
        return {"compression": "zstd", "compression_level": 3}
    others = [name for name in schema.names if name != _HASHES]
    return {
        "compression": {f"{_HASHES}.list.element": "none", **dict.fromkeys(others, "zstd")},
        "compression_level": dict.fromkeys(others, 3),
        "use_dictionary": others,
    }


class ParquetFile:
    """Writes rows of one schema; where row groups end depends on the rows alone, not on how they come in batches.

    A group ends after a fixed number of rows, or earlier with the row that fills GROUP_BYTES of `text`: a thousand books
    would be no bounded amount of memory. Used as a context manager; compare what was written with the file itself
    (`rows_written`).
    """

    def __init__(self, path: Path, schema: pa.Schema, *, rows_per_group: int = ROWS_PER_GROUP) -> None:
        self.path = path
        self._schema = schema
        self._group = rows_per_group
        self._has_text = "text" in schema.names
        self._pending: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0  # pending
        self._writer = pq.ParquetWriter(path, schema, version="2.6", write_page_index=False, **_encodings(schema))

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self._writer.close()

    def finish(self) -> None:
        """Write what is pending and close the file; a second call does nothing."""
        self._flush()
        self._writer.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch; columns must be those of the schema, in order."""
        if not batch.schema.equals(self._schema):
            batch = batch.cast(self._schema)
        sizes = text_bytes(batch["text"]) if self._has_text else np.zeros(batch.num_rows, np.int64)
        start = 0
        while start < batch.num_rows:
            filled = self._bytes + np.cumsum(sizes[start : start + self._group - self._rows])
            taken = min(int(np.searchsorted(filled, GROUP_BYTES)) + 1, len(filled))
            self._pending.append(batch.slice(start, taken))
            self._rows += taken
            self._bytes = int(filled[taken - 1])
            start += taken
            if self._rows == self._group or self._bytes >= GROUP_BYTES:
                self._flush()

    def write_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows given as mappings."""
        if rows:
            self.write(pa.RecordBatch.from_pylist(list(rows), schema=self._schema))

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(
                self._pending, self._schema
            ).combine_chunks()  # chunks would show in the pages
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._pending, self._rows, self._bytes = [], 0, 0


def rows_written(path: Path) -> int:
    """Return the number of rows that a Parquet file really has."""
    return int(pq.read_metadata(path).num_rows)


def read_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield a Parquet file in batches of at most BATCH_ROWS rows and, where there is text, about BATCH_BYTES bytes."""
    for batch in _read(path, columns, BATCH_ROWS):
        yield from split_by_bytes(batch)


def _read(path: Path, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield a Parquet file in batches; no more than one row group is in memory."""
    names = list(columns) if columns is not None else None
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False):
                if batch.num_rows:
                    yield batch


def split_by_bytes(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halve a batch until each part is about BATCH_BYTES or one row."""
    if batch.num_rows > 1 and batch.nbytes > BATCH_BYTES:
        middle = batch.num_rows // 2
        yield from split_by_bytes(batch.slice(0, middle))
        yield from split_by_bytes(batch.slice(middle))
    else:
        yield batch


class RowsBeside:
    """A file with a row for each document of a shard, in their order, read while the documents go by."""

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        self._schema = pa.schema([field for field in pq.read_schema(path) if columns is None or field.name in columns])
        self._batches = _read(path, self._schema.names, ROWS_PER_GROUP)
        self._waiting: pa.RecordBatch | None = None

    def take(self, rows: int) -> pa.Table:
        """Return the next rows; fewer at the end of the file. The caller compares ids."""
        parts: list[pa.RecordBatch] = []
        while rows:
            batch = self._waiting if self._waiting is not None else next(self._batches, None)
            if batch is None:
                break
            parts.append(batch.slice(0, rows))
            rows -= parts[-1].num_rows
            rest = batch.slice(parts[-1].num_rows)
            self._waiting = rest if rest.num_rows else None
        return pa.Table.from_batches(parts, self._schema)


class RowsAbout:
    """A file with rows about some of a shard's documents, in their order, read while the documents go by."""

    def __init__(self, path: Path, schema: pa.Schema | None = None) -> None:
        self._path = path
        self._rows = self._read(path, schema)
        self._next = next(self._rows, None)

    @staticmethod
    def _read(path: Path, schema: pa.Schema | None) -> Iterator[dict[str, Any]]:
        for batch in _read(path, None, BATCH_ROWS):
            yield from (batch.cast(schema) if schema is not None else batch).to_pylist()

    def about(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows about the next documents of the shard."""
        names = frozenset(ids)
        found = []
        while self._next is not None and self._next["id"] in names:
            found.append(self._next)
            self._next = next(self._rows, None)
        return found

    def finish(self) -> None:
        """Raise ValueError unless every row was about one of the documents."""
        if self._next is not None:
            raise ValueError(
                f"{self._path}: document {self._next['id']} is not in the shard, or not at its place in it"
            )


class Removals:
    """What several phases removed from one shard; the first phase that names a document is the reason."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._files = [RowsAbout(path, REMOVED) for path in paths]

    def about(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return id -> removal for the next documents of the shard; later phases' rules are added to `also_fired`."""
        found: dict[str, dict[str, Any]] = {}
        for file in self._files:
            for row in file.about(ids):
                first = found.setdefault(row["id"], row)
                if first is not row:
                    first["also_fired"] = [*first["also_fired"], row["rule"], *row["also_fired"]]
        return found

    def finish(self) -> None:
        """Raise ValueError unless every removed document was met."""
        for file in self._files:
            file.finish()


class RemovalCounts:
    """Documents and bytes removed from a shard, by "<stage>/<rule>"."""

    def __init__(self) -> None:
        self._documents: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def add(self, stage: str, rule: str, size: int) -> None:
        """Count one document of `size` UTF-8 bytes of revision 0."""
        self._documents[f"{stage}/{rule}"] += 1
        self._bytes[f"{stage}/{rule}"] += size

    def as_json(self) -> dict[str, dict[str, int]]:
        """Return `removed` and `bytes`, as a result's counts hold them."""
        return {"removed": dict(sorted(self._documents.items())), "bytes": dict(sorted(self._bytes.items()))}

    def total(self) -> int:
        """Return the number of documents."""
        return self._documents.total()


SIZES = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("bytes", pa.int64(), nullable=False)])


def text_bytes(text: pa.Array) -> np.ndarray:
    """Return the UTF-8 bytes of each text, int64; 0 for null."""
    lengths = pc.fill_null(pc.binary_length(text.cast(pa.large_binary())), 0)
    return np.asarray(lengths.cast(pa.int64()).to_numpy(zero_copy_only=False))
