"""Documents as Parquet shards: each split and source by itself, the run's columns, files of bounded size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.errors import CurateError, InputError
from curate.export.folder import Task
from curate.export.selection import AGAIN, Selection
from curate.pipeline import ParquetFile, rows_written
from curate.report.run import damage_named

FILE_BYTES = 256 << 20  # before compression; a file ends with the row group that fills it


@dataclass(frozen=True, slots=True)
class Group:
    """A row group of a run's file, and how many of its rows are of the split."""

    path: Path
    number: int
    rows: int
    bytes: int  # of these rows, before compression, by their share of the group


def name_parquet(source: str, split: str, number: int, count: int) -> str:
    """Return the path of a shard of `--format parquet`."""
    del count
    return f"{split}/{source}/{number:05d}.parquet"


def name_hub(source: str, split: str, number: int, count: int) -> str:
    """Return the path of a shard in a Hugging Face dataset."""
    return f"data/{source}/{split}-{number:05d}-of-{count:05d}.parquet"


def document_tasks(
    selection: Selection, name: Callable[[str, str, int, int], str], file_bytes: int = FILE_BYTES
) -> list[Task]:
    """Return a task for each shard; a split of a source without documents has none.

    Which documents a shard holds follows from the run's files alone: whole row groups, in their order.

    Args:
        selection: What is exported.
        name: Path of a shard from source, split, number and number of shards.
        file_bytes: Bytes of a shard before compression.

    Raises:
        InputError: If a file cannot be read, or has other columns than the first.
    """
    tasks = []
    for source in selection.with_documents:
        groups = list(_groups(selection, source))
        for split in selection.splits:
            parts = _parts([found[split] for found in groups if split in found], file_bytes)
            for number, part in enumerate(parts):
                tasks.append(_task(selection, source, split, part, name(source, split, number, len(parts))))
    return tasks


def schema_of(selection: Selection) -> pa.Schema:
    """Return the columns of the run's documents."""
    path = selection.documents(selection.with_documents[0])[0]
    with damage_named(path):
        return pq.read_schema(path).remove_metadata()


def _groups(selection: Selection, source: str) -> Iterator[dict[str, Group]]:
    """Yield the row groups of a source, each by split; only the column `split` is read."""
    schema = schema_of(selection)
    for path in selection.documents(source):
        with damage_named(path), pq.ParquetFile(path) as file:
            if not file.schema_arrow.remove_metadata().equals(schema):
                raise InputError(str(path), "has other columns than the run's first documents.", AGAIN)
            for number in range(file.num_row_groups):
                facts = file.metadata.row_group(number)
                counts = pc.value_counts(file.read_row_group(number, columns=["split"])["split"])
                yield {
                    one["values"]: Group(
                        path, number, one["counts"], facts.total_byte_size * one["counts"] // facts.num_rows
                    )
                    for one in counts.to_pylist()
                }


def _parts(groups: list[Group], file_bytes: int) -> list[list[Group]]:
    parts: list[list[Group]] = []
    filled = file_bytes
    for group in groups:
        if filled >= file_bytes:
            parts.append([])
            filled = 0
        parts[-1].append(group)
        filled += group.bytes
    return parts


def _task(selection: Selection, source: str, split: str, part: list[Group], name: str) -> Task:
    def write(folder: Path) -> Mapping[str, Any]:
        rows = size = memory = 0
        with ParquetFile(folder / name, schema_of(selection)) as file:
            for batch in _batches(part, split):
                lengths = pc.binary_length(pc.cast(batch["text"], pa.large_binary())).to_numpy(zero_copy_only=False)
                rows += batch.num_rows
                size += int(np.sum(lengths, dtype=np.int64))
                memory += batch.nbytes
                file.write(batch)
        written, expected = rows_written(folder / name), sum(group.rows for group in part)
        if not written == rows == expected:
            raise CurateError(f"{folder / name}: {written:,} of {expected:,} documents were written.")
        return {"split": split, "source": source, "documents": rows, "bytes": size, "memory": memory}

    return Task(name, (name,), write)


def _batches(part: list[Group], split: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one split, no more than a row group in memory.

    A file is opened once: its footer tells of all row groups, and would be read again for each of them.
    """
    for path, groups in itertools.groupby(part, lambda group: group.path):
        with damage_named(path), pq.ParquetFile(path, pre_buffer=False) as file:
            for group in groups:
                whole = file.metadata.row_group(group.number).num_rows == group.rows
                for batch in file.iter_batches(row_groups=[group.number], use_threads=False):
                    chosen = batch if whole else batch.filter(pc.equal(batch["split"], split))
                    if chosen.num_rows:
                        yield chosen
