"""From components to clusters of copies: pairs compared exactly.

A component holds all documents that may be copies of one another, and strangers that a chain of pairs ties to them. A
cluster is a representative and the documents that resemble it: no chains. Components are spread over partitions, which are
compared one by one, each from its own row groups of the shingle files; what they say comes together in document order.

All functions read and write local Parquet files. `memory_bytes` bounds their buffers and changes nothing else; what is
larger lies in a folder that they make below `scratch` and remove.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from curate.dedup.settings import Dedup

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from curate.dedup.spill import DiskColumn

_ROWS_PER_GROUP = 10_000  # of tables of numbers; fixed, so that memory never shows in the bytes
_GROUP_ROWS, _GROUP_SHINGLES = 1000, 1 << 16  # a row group of shingles ends at either, 512 KiB of them


def write_shingles(batches: Iterable[pa.RecordBatch], output: str, *, settings: Dedup, scratch: str) -> list[int]:
    """Write what `link_partition` and `choose` need of the members of components in one document shard.

    Args:
        batches: Members in ascending doc order; columns doc, component, exact, partition (as `components.find_components`
            wrote them), id (32 hex digits), source_rank (`Keep.ranks`), num_bytes, preferences
            (`keeping.stored_preferences`), url_hash, payload_hash, bands (as `Signatures` made them), word_hashes
            (large_list of uint64, `curate.words`).
        output: Parquet file of schema `members.SHINGLES`: rows by (partition, doc), each row group with rows of one
            partition. Its bytes do not depend on how rows are batched.
        settings: Those of `components.find_components`.
        scratch: An existing folder.

    Only the first of exact copies carries bands and shingles; it carries shingles only if pairs are verified.

    Returns:
        The partitions that have rows in the file, ascending.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from curate.dedup.members import SHINGLES
    from curate.dedup.spill import DiskColumn

    plain = ("bands.list.element", "shingles.list.element")  # hashes do not compress
    compression = {field.name: "zstd" for field in SHINGLES} | dict.fromkeys(plain, "none")
    with tempfile.TemporaryDirectory(prefix="shingles-", dir=scratch) as folder:
        column = DiskColumn(folder, "shingles", np.uint64)
        rows = [SHINGLES.remove(len(SHINGLES) - 1).empty_table()]
        ends = [np.zeros(1, np.int64)]
        for batch in batches:
            rows.append(pa.Table.from_batches([_facts(batch, settings)]))
            ends.append(_append_shingles(batch, settings, column))
        table, offsets, hashes = pa.concat_tables(rows).combine_chunks(), np.concatenate(ends), column.finish()
        partitions = table["partition"].to_numpy()
        order = np.argsort(partitions, kind="stable")
        with pq.ParquetWriter(output, SHINGLES, compression=compression, use_dictionary=False) as file:
            for start, stop in _row_groups(partitions[order], np.diff(offsets)[order]):
                chosen = order[start:stop]
                sets = [hashes[offsets[row] : offsets[row + 1]] for row in chosen]
                bounds = np.cumsum([0, *map(len, sets)])
                lists = pa.LargeListArray.from_arrays(pa.array(bounds, pa.int64()), pa.array(np.concatenate(sets)))
                group = table.take(pa.array(chosen)).append_column(SHINGLES.field("shingles"), lists)
                file.write_table(group.combine_chunks(), row_group_size=len(chosen))
    return [int(partition) for partition in np.unique(partitions)]


def _facts(batch: pa.RecordBatch, settings: Dedup) -> pa.RecordBatch:
    """Return all columns of SHINGLES but the last."""
    import numpy as np
    import pyarrow as pa

    from curate.dedup.members import SHINGLES, empty_lists_where

    copies = np.asarray(batch["doc"]) != np.asarray(batch["exact"])
    bands = batch["bands"].cast(pa.list_(pa.uint64()))
    given = {field.name: batch[field.name] for field in SHINGLES if field.name not in ("bands", "shingles")}
    given["bands"] = empty_lists_where(bands, pa.array(copies | (settings.minhash is None)))
    return pa.record_batch(
        [given[field.name].cast(field.type) for field in SHINGLES if field.name != "shingles"],
        schema=SHINGLES.remove(len(SHINGLES) - 1),
    )


def _append_shingles(batch: pa.RecordBatch, settings: Dedup, column: DiskColumn) -> npt.NDArray[np.int64]:
    """Append the shingle sets of a batch to the column; return where each ends."""
    import numpy as np

    from curate.dedup.minhash import shingle_sets

    minhash = settings.minhash
    compare = np.asarray(batch["doc"]) == np.asarray(batch["exact"])
    ends = np.empty(batch.num_rows, np.int64)
    for row in range(batch.num_rows):
        if minhash is not None and minhash.verify is not False and compare[row]:
            column.append(shingle_sets(batch["word_hashes"].slice(row, 1), minhash.ngram)[0])
        ends[row] = column.size
    return ends


def _row_groups(partitions: npt.NDArray[Any], num_shingles: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield start and stop of the row groups of rows in order of their partitions."""
    import numpy as np

    bounds = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
    for first, last in itertools.pairwise(bounds):
        start, total = first, 0
        for row in range(first, last):
            total += int(num_shingles[row])
            if row + 1 - start == _GROUP_ROWS or total >= _GROUP_SHINGLES:
                yield start, row + 1
                start, total = row + 1, 0
        if start < last:
            yield start, last


def clusters_schema() -> pa.Schema:
    """Return the columns of clusters.parquet, ascending doc.

    cluster: smallest doc in it. representative: a doc. similarity: to the representative, 1 if equal. verified: false where
    it was estimated from shared bands.
    """
    import pyarrow as pa

    kinds = {
        "doc": pa.int64(),
        "id": pa.string(),
        "cluster": pa.int64(),
        "cluster_size": pa.int32(),
        "representative": pa.int64(),
        "similarity": pa.float64(),
        "verified": pa.bool_(),
    }
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


def link_partition(
    shingle_files: Sequence[str], partition: int, output: str, *, settings: Dedup, memory_bytes: int, scratch: str
) -> dict[str, int]:
    """Write the clusters of two documents or more among all documents of one partition, kept or not.

    Documents are gone through by priority (source_rank, then the preferences of `keep.then`, then doc). Each is
    compared with the earlier representatives that share a band with it, in the same order, and joins the first whose
    similarity over shingles, exact, is at least `verify` (any, if verify is false); else it becomes a representative. Exact
    copies join with their first by priority. Of a band that very many share only the first representatives are looked at
    (`members.MOST_LISTED`).

    Args:
        shingle_files: Files of `write_shingles` of the document shards that have rows of the partition, in document order.
        partition: Its number.
        output: Parquet file of `clusters_schema`.
        settings: Those of `write_shingles`.
        memory_bytes: About what buffers may hold.
        scratch: An existing folder.

    Returns:
        `compared`: pairs. `unsure`, `uncompared`: see `members.Clustering`.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from curate.dedup.members import Members

    compared = settings.minhash is None or settings.minhash.verify is not False
    with tempfile.TemporaryDirectory(prefix="link-", dir=scratch) as folder:
        members = Members(shingle_files, partition, settings, memory_bytes, folder)
        clustering = members.cluster()
        with pq.ParquetWriter(output, clusters_schema(), compression="zstd") as file:
            for start in range(0, members.size, _ROWS_PER_GROUP):
                part = slice(start, start + _ROWS_PER_GROUP)
                rows = start + np.flatnonzero(clustering.sizes[part] > 1)
                representatives = clustering.representatives[rows]
                equal = members.heads[representatives] == members.heads[rows]
                columns = [
                    pa.array(members.docs[rows]),
                    pa.array(members.ids(rows), pa.string()),
                    pa.array(members.docs[clustering.firsts[rows]]),
                    pa.array(clustering.sizes[rows].astype(np.int32)),
                    pa.array(members.docs[representatives]),
                    pa.array(clustering.similarities[rows]),
                    pa.array(equal | compared),
                ]
                file.write_batch(pa.record_batch(columns, schema=clusters_schema()))
        return clustering.counts()


def merge_clusters(linked: Sequence[str], output: str, *, memory_bytes: int, scratch: str) -> None:
    """Write the clusters of all partitions as one file, ascending doc.

    Args:
        linked: What `link_partition` wrote, in any order.
        output: Parquet file of `clusters_schema`.
        memory_bytes: About what buffers may hold.
        scratch: An existing folder.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from curate.dedup.members import hex_digits, raw_bytes
    from curate.dedup.spill import DiskColumn, Sorter

    numbers = [field for field in clusters_schema() if field.name != "id"]
    with tempfile.TemporaryDirectory(prefix="merge-", dir=scratch) as folder:
        columns = {field.name: DiskColumn(folder, field.name, field.type.to_pandas_dtype()) for field in numbers}
        ids = DiskColumn(folder, "id", np.uint8)
        sorter = Sorter(2, memory_bytes // 4 * 3, folder, "docs")
        for path in linked:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                for batch in file.iter_batches(_ROWS_PER_GROUP, use_threads=False):
                    place = columns["doc"].size
                    sorter.append(batch["doc"].to_numpy(), np.arange(place, place + batch.num_rows))
                    ids.append(raw_bytes(batch["id"], path))
                    for name, column in columns.items():
                        column.append(batch[name].to_numpy(zero_copy_only=False))
        found = {name: column.finish() for name, column in columns.items()}
        raw = ids.finish().reshape(-1, 16)
        with pq.ParquetWriter(output, clusters_schema(), compression="zstd") as writer:
            groups = RowGroups(writer, _ROWS_PER_GROUP)
            for records in sorter.sorted():
                places = records[:, 1].astype(np.int64)
                for start in range(0, len(places), _ROWS_PER_GROUP):
                    some = places[start : start + _ROWS_PER_GROUP]
                    arrays = [
                        pa.array(hex_digits(raw[some]), pa.string()) if field.name == "id" else found[field.name][some]
                        for field in clusters_schema()
                    ]
                    groups.add(pa.record_batch(arrays, schema=clusters_schema()))
            groups.finish()


class RowGroups:
    """Writes rows in groups of a fixed number, however they come."""

    def __init__(self, file: Any, rows: int) -> None:
        self._file = file
        self._rows = rows
        self._pending: list[pa.RecordBatch] = []
        self._num_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; write the groups that are complete."""
        self._pending.append(batch)
        self._num_rows += batch.num_rows
        while self._num_rows >= self._rows:
            self._write(self._rows)

    def finish(self) -> None:
        """Write the last, shorter group."""
        if self._num_rows:
            self._write(self._num_rows)

    def _write(self, num_rows: int) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._pending).combine_chunks()
        self._file.write_table(table.slice(0, num_rows), row_group_size=num_rows)
        self._pending = table.slice(num_rows).to_batches()
        self._num_rows -= num_rows
