"""Embeddings that others made, in Parquet files, found by the document's id or that of its input; out of core.

Each file becomes a file of int16 vectors and one of 128-bit keys; all keys are sorted into one table, in which documents are
looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from curate.dedup.semantic_vectors import MOST_DIMENSIONS, Int16s, Int64s, stored
from curate.dedup.spill import Sorter
from curate.errors import InputError

Uint64s = npt.NDArray[np.uint64]

GONE = 8  # numbers of a record of who goes: doc, kept doc, bits of the similarity, group, id, kept id (two halves each)
_ROWS = 1 << 12  # of an embedding file, read at once
_ROW_BITS = 40  # of a place: the number of the file above, the row in it below
_ID = re.compile(r"[0-9a-f]{32}")
_REMEDY = "Give `id` (as in documents/) or `source_id` (text), and `embedding` (a list of numbers)."


def key_of_id(value: str) -> int:
    """Return the 128 bits of a document's id."""
    return int(value, 16)


def key_of_source_id(value: str) -> int:
    """Return 128 bits that stand for the id that an input gives."""
    return xxhash.xxh3_128_intdigest(value.encode("utf-8", "surrogatepass"))


def halves(keys: Sequence[int]) -> Uint64s:
    """Return 128-bit keys as two numbers each, the higher half first, shape (keys, 2)."""
    raw = b"".join(key.to_bytes(16, "big") for key in keys)
    return np.frombuffer(raw, ">u8").astype(np.uint64).reshape(-1, 2)


def read_embeddings(path: Path, name: str, folder: Path) -> dict[str, Any]:
    """Write vectors.i16 and keys.u64 of one file, a row for each row that has an embedding; return what it holds.

    Args:
        path: A local Parquet file.
        name: How messages name it.
        folder: Where to write.

    Returns:
        `by`: id or source_id; `rows`; `dimensions`: 0 if there is no embedding; `empty`: rows without one.

    Raises:
        InputError: If it is no such file, or a row has no id, or an embedding of another length, or with numbers that are not finite.
    """
    by = check_columns(path, name)
    dimensions = rows = empty = first = 0
    with (folder / "vectors.i16").open("wb") as vectors, (folder / "keys.u64").open("wb") as keys:
        for batch in _batches(path, by):
            embeddings, there = batch["embedding"], batch["embedding"].is_valid()
            ids = _keys(batch[by], by, name, first)
            lengths = pc.fill_null(pc.list_value_length(embeddings), -1).to_numpy()
            found = lengths[lengths >= 0]
            dimensions = dimensions or (int(found[0]) if len(found) else 0)
            wrong = np.flatnonzero((lengths >= 0) & ((lengths != dimensions) | (lengths == 0)))
            if len(wrong):
                problem = (
                    f"row {first + wrong[0]}: the embedding has {lengths[wrong[0]]} numbers, others have {dimensions}."
                )
                raise InputError(name, problem, "Write embeddings of one model, all of one length.")
            if dimensions > MOST_DIMENSIONS:
                raise InputError(
                    name, f"embeddings have {dimensions:,} numbers; at most {MOST_DIMENSIONS:,} are read.", _REMEDY
                )
            numbers = embeddings.drop_null().flatten()
            matrix = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False).reshape(-1, max(dimensions, 1))
            if not np.isfinite(matrix).all():
                row = first + int(np.flatnonzero(there)[np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0]])
                problem = f"row {row}: the embedding has a number that is missing or not finite."
                raise InputError(
                    name, problem, "Leave the row out, or its embedding null: such a document is left alone."
                )
            stored(matrix).tofile(vectors)
            halves([ids[row] for row in np.flatnonzero(there)]).tofile(keys)
            rows += len(matrix)
            empty += batch.num_rows - len(matrix)
            first += batch.num_rows
    return {"by": by, "rows": rows, "dimensions": dimensions, "empty": empty}


def check_columns(path: Path, name: str) -> str:
    """Return which of id and source_id names the documents of a Parquet file of embeddings.

    Raises:
        InputError: If it is no such file, or lacks a column.
    """
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(name, f"this is no Parquet file that can be read: {error}.", _REMEDY) from error
    by = next((column for column in ("id", "source_id") if column in schema.names), "")
    if not by or "embedding" not in schema.names:
        missing = "embedding" if by else "id, nor source_id"
        raise InputError(name, f"there is no column {missing}; it has {', '.join(schema.names)}.", _REMEDY)
    kind = schema.field("embedding").type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise InputError(name, f"the column embedding is of type {kind}, where it is a list of numbers.", _REMEDY)
    return by


def _batches(path: Path, by: str) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, pre_buffer=False) as file:
        yield from file.iter_batches(_ROWS, columns=[by, "embedding"], use_threads=False)


def _keys(column: pa.Array, by: str, name: str, first: int) -> list[int]:
    values = column.cast(pa.large_string()).to_pylist()
    for row, value in enumerate(values):
        if value is None:
            raise InputError(name, f"row {first + row}: {by} is null.", "Give each row the id of its document.")
        if by == "id" and not _ID.fullmatch(value):
            problem = f"row {first + row}: {value[:60]!r} is no id of a document: 32 of the digits 0 to 9 and a to f."
            raise InputError(name, problem, "Name the column source_id if these are ids of the input.")
    return [key_of_id(value) if by == "id" else key_of_source_id(value) for value in values]


def merge_keys(
    files: Sequence[tuple[str, Path, dict[str, Any]]], folder: Path, memory_bytes: int, scratch: str
) -> dict[str, Any]:
    """Write the sorted table of all keys, high.u64 and rest.u64 (lower half, place); return what the files hold together.

    Args:
        files: Name, folder with keys.u64 and counts of each, as `read_embeddings` made them.
        folder: Where to write.
        memory_bytes: About what buffers may hold.
        scratch: An existing folder.

    Raises:
        InputError: If files differ in the length of embeddings or in what they name, or two rows name one document.
    """
    stated = [(name, facts) for name, _, facts in files if facts["rows"]]
    for name, facts in stated[1:]:
        for what, shown in (("dimensions", "numbers in an embedding"), ("by", "as its key")):
            if facts[what] != stated[0][1][what]:
                problem = f"it has {facts[what]} {shown}, {stated[0][0]} has {stated[0][1][what]}."
                raise InputError(name, problem, "Give embeddings of one model, with one kind of id.")
    sorter = Sorter(3, memory_bytes, scratch, "keys")
    for number, (_, of_file, facts) in enumerate(files):
        keys = mapped(of_file / "keys.u64", np.uint64, 2)
        for start in range(0, facts["rows"], _ROWS):
            part = keys[start : start + _ROWS]
            places = np.arange(start, start + len(part), dtype=np.uint64) | np.uint64(number << _ROW_BITS)
            sorter.append(part[:, 0], part[:, 1], places)
    last = np.zeros((0, 3), np.uint64)
    with (folder / "high.u64").open("wb") as high, (folder / "rest.u64").open("wb") as rest:
        for records in sorter.sorted():
            both = np.concatenate([last, records])
            twice = np.flatnonzero((both[1:, :2] == both[:-1, :2]).all(axis=1))
            if len(twice):
                one, other = (_shown(both[twice[0] + step, 2], files) for step in (0, 1))
                problem = f"two embeddings have the same {stated[0][1]['by']}: {one} and {other}, rows with an embedding counted."
                raise InputError(files[0][0], problem, "Leave one of them out.")
            last = records[-1:]
            np.ascontiguousarray(records[:, 0]).tofile(high)
            np.ascontiguousarray(records[:, 1:]).tofile(rest)
    facts = stated[0][1] if stated else {"by": "id", "dimensions": 0}
    return {"by": facts["by"], "dimensions": facts["dimensions"], "rows": sum(one["rows"] for _, _, one in files)}


def _shown(place: np.uint64, files: Sequence[tuple[str, Path, dict[str, Any]]]) -> str:
    return f"{files[int(place) >> _ROW_BITS][0]}, row {int(place) & ((1 << _ROW_BITS) - 1)}"


def mapped(path: Path, dtype: npt.DTypeLike, width: int) -> npt.NDArray[Any]:
    """Return a file of numbers as a matrix of so many columns, mapped read-only."""
    if not path.stat().st_size:  # an empty file cannot be mapped
        return np.zeros((0, width), dtype)
    return np.memmap(path, dtype, "r").view(np.ndarray).reshape(-1, width)


class Embeddings:
    """All embeddings of the files, looked up by key."""

    def __init__(self, table: Path, folders: Sequence[Path], dimensions: int) -> None:
        self._high = mapped(table / "high.u64", np.uint64, 1)[:, 0]
        self._rest = mapped(table / "rest.u64", np.uint64, 2)
        self._vectors = [mapped(folder / "vectors.i16", np.int16, max(dimensions, 1)) for folder in folders]
        starts = np.cumsum([0] + [len(one) for one in self._vectors])
        self._starts: Int64s = starts[:-1].astype(np.int64)
        self._dimensions = dimensions

    def find(self, keys: Uint64s) -> tuple[Int16s, Int64s]:
        """Return the vector of each key, and the number of its row over all files: -1, and a zero vector, if there is none.

        Args:
            keys: Higher and lower halves, shape (keys, 2).
        """
        vectors = np.zeros((len(keys), self._dimensions), np.int16)
        rows = np.full(len(keys), -1, np.int64)
        at = np.searchsorted(self._high, keys[:, 0])
        places = np.full(len(keys), -1, np.int64)
        waiting = np.arange(len(keys))
        while len(waiting):  # more than once only where two keys agree in 64 bits
            waiting = waiting[at[waiting] < len(self._high)]
            waiting = waiting[self._high[at[waiting]] == keys[waiting, 0]]
            there = self._rest[at[waiting]]
            hit = there[:, 0] == keys[waiting, 1]
            places[waiting[hit]] = there[hit, 1].astype(np.int64)
            waiting = waiting[~hit]
            at[waiting] += 1
        for file in np.unique(places[places >= 0] >> _ROW_BITS).tolist():
            mine = np.flatnonzero((places >= 0) & (places >> _ROW_BITS == file))
            of_file = places[mine] & ((1 << _ROW_BITS) - 1)
            vectors[mine] = self._vectors[file][of_file]
            rows[mine] = self._starts[file] + of_file
        return vectors, rows
