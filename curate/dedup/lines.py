"""Repeated lines: hashed once a document, counted out of core over the corpus, cut where they are repeated.

A line's key joins its hash with that of its scope (the site, the source or the corpus), so one table serves all scopes.
The scope itself is entered for each document as an empty line, which no document has: its count is the number of
documents of the scope.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import xxhash

from curate.stage import Stage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Uint64s = npt.NDArray[np.uint64]

PARTITIONS = 16  # of the keys, by their first bits: tasks that can run at the same time
EMPTY = xxhash.xxh3_64_intdigest(b"")  # stands for the scope
WIDTH = 3  # of a record: key, cluster of the document, place of the document
_SHIFT = 60  # from a key to its partition
_READ = 1 << 16  # records read at once, at most
_RECORD_BYTES = 8 * WIDTH
_FILES = ("keys.u64", "documents.u64", "firsts.u64")


def units_schema() -> pa.Schema:
    """Return the columns that `LineHashes.apply` gives."""
    import pyarrow as pa

    return pa.schema(
        [
            ("hashes", pa.large_list(pa.uint64())),
            ("starts", pa.large_list(pa.int64())),  # of the line, UTF-8 bytes
            ("stops", pa.large_list(pa.int64())),  # behind its last byte that is no white space
            ("num_words", pa.large_list(pa.int64())),
        ]
    )


class Unit(NamedTuple):
    """A line or paragraph that is not empty."""

    hash: int
    start: int  # UTF-8 bytes; the indentation belongs to the line
    stop: int  # without white space (of ASCII) and line end behind it
    num_words: int


class LineHashes(Stage):
    """The lines of each document, hashed. Holds only the setting that shapes these, so that no bound hashes again.

    Attributes:
        unit: As in `Lines`.
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("xxhash",)

    unit: Literal["line", "paragraph"] = "line"

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `units_schema`, one list a document, for the column `text`: same rows, same order."""
        import pyarrow as pa

        columns: list[list[list[int]]] = [[], [], [], []]
        for text in batch["text"].to_pylist():
            units = list(units_of(text or "", self.unit))
            for place, column in enumerate(columns):
                column.append([unit[place] for unit in units])
        schema = units_schema()
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def units_of(text: str, unit: str = "line") -> Iterator[Unit]:
    """Yield the lines of a text that are not empty, or its paragraphs.

    A line ends at a line feed; a carriage return before it is white space, like all that `str.split` parts words at.
    """
    folded = unicodedata.normalize("NFC", text).casefold().split("\n")  # neither makes or unmakes a line feed
    raw = text.encode("utf-8", "surrogatepass").split(b"\n")
    words: list[str] = []
    begin = stop = start = 0
    for line, data in zip(folded, raw, strict=True):
        found = line.split()
        if words and (unit == "line" or not found):
            yield _unit(words, begin, stop)
            words = []
        if found:
            if not words:
                begin = start
            stop = start + len(data.rstrip())
            words += found
        start += len(data) + 1
    if words:
        yield _unit(words, begin, stop)


def _unit(words: Sequence[str], start: int, stop: int) -> Unit:
    data = " ".join(words).encode("utf-8", "surrogatepass")
    return Unit(xxhash.xxh3_64_intdigest(data), start, stop, len(words))


def scope_hash(name: str) -> int:
    """Return the 64 bits that stand for a scope."""
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"))


# -- counting ----------------------------------------------------------------------------------------------------------


def document_records(
    hashes: Uint64s, lengths: npt.NDArray[np.int64], scopes: Uint64s, clusters: Uint64s, places: Uint64s
) -> tuple[Uint64s, Uint64s, Uint64s]:
    """Return keys, clusters and places: one record for each line of each document, and one for its scope.

    Args:
        hashes: Of the lines of all documents, one document after the other.
        lengths: Lines of each document, shape (documents,).
        scopes: Hash of each document's scope, shape (documents,).
        clusters: Number of each document's cluster of copies, shape (documents,).
        places: By which the documents of the corpus are ordered, shape (documents,).
    """
    import numpy as np

    lines = hashes ^ np.repeat(scopes, lengths)
    return (
        np.concatenate([lines, scopes ^ np.uint64(EMPTY)]),
        np.concatenate([np.repeat(clusters, lengths), clusters]),
        np.concatenate([np.repeat(places, lengths), places]),
    )


def write_records(batches: Iterable[Uint64s], path: Path) -> list[int]:
    """Write sorted records without repeats, so that a line counts once a document; return where the partitions begin.

    Args:
        batches: Records in order, shape (records, WIDTH).
        path: The file: raw little-endian uint64.

    Returns:
        Records before each partition, and all records: PARTITIONS + 1 numbers.
    """
    import numpy as np

    counts = np.zeros(PARTITIONS, np.int64)
    last = np.zeros((0, WIDTH), np.uint64)
    with path.open("wb") as file:
        for records in batches:
            before = np.concatenate([last, records[:-1]])
            new = np.ones(len(records), np.bool_)
            new[len(records) - len(before) :] = (records[len(records) - len(before) :] != before).any(axis=1)
            last = records[-1:].copy()
            kept = records[new]
            counts += np.bincount((kept[:, 0] >> np.uint64(_SHIFT)).astype(np.int64), minlength=PARTITIONS)
            kept.astype("<u8", copy=False).tofile(file)
    return [0, *np.cumsum(counts).tolist()]


def read_records(path: Path, bounds: Sequence[int], partition: int, memory_bytes: int) -> Iterator[Uint64s]:
    """Yield the records of one partition that `write_records` wrote, in batches of shape (records, WIDTH)."""
    import numpy as np

    most = max(1, min(_READ, memory_bytes // _RECORD_BYTES))
    with path.open("rb") as file:
        file.seek(bounds[partition] * _RECORD_BYTES)
        left = bounds[partition + 1] - bounds[partition]
        while left:
            records = np.fromfile(file, "<u8", min(left, most) * WIDTH).reshape(-1, WIDTH)
            left -= len(records)
            yield records.astype(np.uint64, copy=False)


def count_documents(
    files: Iterable[tuple[Path, Sequence[int]]],
    partition: int,
    folder: Path,
    *,
    min_documents: int,
    memory_bytes: int,
    scratch: str,
) -> int:
    """Write the keys of one partition that are in at least `min_documents` clusters of documents.

    Args:
        files: What `write_records` wrote and returned, of each shard; their order changes nothing.
        partition: Its number.
        folder: Where `RepeatedLines` finds them: ascending keys, distinct clusters, cluster of the first document.
        min_documents: The bound.
        memory_bytes: About what the buffers may hold.
        scratch: Folder for what is spilled.

    Returns:
        How many keys there are.
    """
    import numpy as np

    from curate.dedup.kernels import count_key_clusters
    from curate.dedup.spill import DiskColumn, Sorter

    sorter = Sorter(WIDTH, memory_bytes * 3 // 4, scratch, f"lines-{partition}")
    for path, bounds in files:
        for records in read_records(path, bounds, partition, memory_bytes // 8):
            sorter.append(*records.T)
    columns = [DiskColumn(str(folder), name, "<u8") for name in _FILES]
    state = np.zeros(6, np.uint64)
    for batch in sorter.sorted():
        for start in range(0, len(batch), _READ):
            records = np.ascontiguousarray(batch[start : start + _READ])
            found = np.empty((len(records), 3), np.uint64)
            found = found[: count_key_clusters(records, state, found)]
            _append(columns, found, min_documents)
    if state[0]:
        _append(columns, state[None, 1:4], min_documents)
    for column in columns:
        column.close()
    return columns[0].size


def _append(columns: Sequence[Any], found: Uint64s, min_documents: int) -> None:
    enough = found[found[:, 1] >= min_documents]
    for place, column in enumerate(columns):
        column.append(enough[:, place])


class RepeatedLines:
    """The table that `count_documents` wrote, mapped into memory: all workers share its pages."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Open the partitions, all of them, in order."""
        assert len(folders) == PARTITIONS
        self._columns = [[_mapped(folder / name) for name in _FILES] for folder in folders]

    def find(self, keys: Uint64s) -> tuple[npt.NDArray[np.int64], Uint64s]:
        """Return for each key the documents that hold it (0: too few to be in the table) and the first one's cluster."""
        import numpy as np

        documents, firsts = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.uint64)
        partitions = (keys >> np.uint64(_SHIFT)).astype(np.int64)
        for partition in np.unique(partitions).tolist():
            known, counts, first = self._columns[partition]
            if not len(known):
                continue
            mine = np.flatnonzero(partitions == partition)
            at = np.minimum(np.searchsorted(known, keys[mine]), len(known) - 1)
            hit = known[at] == keys[mine]
            documents[mine[hit]] = counts[at[hit]].astype(np.int64)
            firsts[mine[hit]] = first[at[hit]]
        return documents, firsts


def _mapped(path: Path) -> Uint64s:
    import numpy as np

    if not path.stat().st_size:
        return np.zeros(0, np.uint64)  # an empty file cannot be mapped
    return np.memmap(path, np.dtype("<u8"), "r").view(np.ndarray)


# -- cutting -----------------------------------------------------------------------------------------------------------


def line_cuts(starts: Sequence[int], stops: Sequence[int], repeated: Sequence[bool]) -> list[tuple[int, int]]:
    """Return the spans to cut so that the repeated lines go, and of the white space around each run the longer part stays.

    Args:
        starts: Of a document's lines (see `Unit`).
        stops: Of the same lines.
        repeated: Which of them go; not all.
    """
    cuts: list[tuple[int, int]] = []
    number, count = 0, len(starts)
    while number < count:
        if not repeated[number]:
            number += 1
            continue
        end = number
        while end < count and repeated[end]:
            end += 1
        if number == 0:
            cuts.append((0, starts[end]))
        elif end == count:
            cuts.append((stops[number - 1], stops[end - 1]))  # the text ends as it did, with a line feed or without
        elif starts[number] - stops[number - 1] >= starts[end] - stops[end - 1]:
            cuts.append((starts[number], starts[end]))
        else:
            cuts.append((stops[number - 1], stops[end - 1]))
        number = end
    return cuts
