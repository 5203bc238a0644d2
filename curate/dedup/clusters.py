"""From signatures to clusters of copies: components by shared bands, then pairs by exact comparison.

A component holds all documents that may be copies of one another, and strangers that a chain of pairs ties to them. A
cluster is a representative and the documents that resemble it: no chains.

All functions read and write local Parquet files. `memory_bytes` bounds their buffers and changes nothing else; what is
larger lies in a folder that they make below `scratch` and remove.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from curate.dedup.settings import Dedup

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from curate.dedup.spill import Sorter

_ROWS_PER_GROUP = 10_000  # of tables of numbers; fixed, so that memory never shows in the bytes
_GROUP_ROWS, _GROUP_SHINGLES = 1000, 1 << 16  # a row group of shingles ends at either, 512 KiB of them
_SIGNATURE_BYTES = 256  # of a row of a signature file in memory, besides its bands


def find_components(
    signatures: Sequence[str], output: str, *, settings: Dedup, memory_bytes: int, scratch: str
) -> None:
    """Write the connected components of "shares its text or a band", of two documents or more.

    Args:
        signatures: Parquet files with `exact_hash` and `bands` (`minhash.Signatures`), in document order: a document's
            number `doc` is its row over all of them.
        output: Parquet file: doc, component (its smallest doc), exact (the smallest doc with the same text); int64,
            ascending doc.
        settings: `clustering` of the recipe's; the signatures were made with these.
        memory_bytes: About what buffers may hold.
        scratch: An existing folder.

    Texts of white space alone are copies of nothing.
    """
    import numpy as np
    import pyarrow.parquet as pq

    from curate.dedup import kernels
    from curate.dedup.exact import EMPTY
    from curate.dedup.spill import Sorter, zeros_on_disk

    size = 0
    for path in signatures:
        with pq.ParquetFile(path) as file:
            size += file.metadata.num_rows
    with tempfile.TemporaryDirectory(prefix="components-", dir=scratch) as folder:
        first = zeros_on_disk(folder, "first", np.int64, size)
        parent = zeros_on_disk(folder, "parent", np.int64, size)
        for start in range(0, size, _ROWS_PER_GROUP):
            first[start : start + _ROWS_PER_GROUP] = np.arange(start, min(start + _ROWS_PER_GROUP, size))
            parent[start : start + _ROWS_PER_GROUP] = first[start : start + _ROWS_PER_GROUP]

        rows = max(1, memory_bytes // 8 // _SIGNATURE_BYTES)
        sorter = Sorter(3, memory_bytes // 4 * 3, folder, "exact")
        start = 0
        for batch in _batches(signatures, ["exact_hash"], rows):
            hashes = batch["exact_hash"].to_pylist()
            docs = np.arange(start, start + len(hashes))
            start += len(hashes)
            copies = np.array([value != EMPTY for value in hashes], bool)
            halves = np.frombuffer(bytes.fromhex("".join(hashes)), ">u8").reshape(-1, 2).astype(np.uint64)
            sorter.append(halves[copies, 0], halves[copies, 1], docs[copies])
        _point_to_first(sorter, first)

        if settings.minhash is not None:
            num_bands = settings.minhash.bands
            rows = max(1, memory_bytes // 8 // (_SIGNATURE_BYTES + 32 * num_bands))
            sorter = Sorter(2, memory_bytes // 4 * 3, folder, "bands")
            start = 0
            for batch in _batches(signatures, ["bands"], rows):
                _append_bands(batch["bands"], first, start, num_bands, sorter)
                start += batch.num_rows
            state = np.zeros(3, np.uint64)
            for records in sorter.sorted():
                keys, docs = np.ascontiguousarray(records[:, 0]), records[:, 1].astype(np.int64)
                kernels.union_equal_keys(parent, keys, docs, state)

        shared = zeros_on_disk(folder, "shared", np.uint8, size)
        kernels.flatten(parent, first, shared)
        _write_components(output, parent, first, shared)


def _batches(paths: Sequence[str], columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    for path in paths:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield from file.iter_batches(rows, columns=columns, use_threads=False)


def _point_to_first(sorter: Sorter, first: npt.NDArray[np.int64]) -> None:
    """Write to `first` the smallest document of each group of equal hashes, from records (high, low, document)."""
    import numpy as np

    last: npt.NDArray[np.uint64] | None = None  # (high, low, first document) of the group that the last batch ended in
    for records in sorter.sorted():
        new = np.ones(len(records), bool)
        new[1:] = (records[1:, :2] != records[:-1, :2]).any(1)
        new[:1] = last is None or (records[:1, :2] != last[:2]).any()
        place = np.maximum.accumulate(np.where(new, np.arange(len(records)), -1))
        heads = records[place, 2]
        if last is not None:
            heads[place < 0] = last[2]
        first[records[:, 2].astype(np.int64)] = heads
        if len(records):
            last = np.append(records[-1, :2], heads[-1])


def _append_bands(bands: pa.Array, first: npt.NDArray[np.int64], start: int, num_bands: int, sorter: Sorter) -> None:
    import numpy as np

    from curate.dedup.minhash import list_parts

    keys, offsets = list_parts(bands)
    counts = np.diff(offsets)
    if not np.isin(counts, (0, num_bands)).all():
        raise ValueError(
            f"document {start + int(np.argmax(counts))} has {counts.max()} bands, the settings {num_bands}; "
            "measure again with these settings"
        )
    docs = np.arange(start, start + len(counts))
    # Exact copies share every band with their first: they are joined without sorting theirs.
    of_first = np.repeat(first[start : start + len(counts)] == docs, counts)
    sorter.append(keys[offsets[0] : offsets[-1]][of_first], np.repeat(docs, counts)[of_first])


def _write_components(
    output: str, parent: npt.NDArray[np.int64], first: npt.NDArray[np.int64], shared: npt.NDArray[np.uint8]
) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("doc", "component", "exact")])
    with pq.ParquetWriter(output, schema, compression="zstd") as file:
        pending: list[pa.RecordBatch] = []
        for start in range(0, len(parent), _ROWS_PER_GROUP):
            roots = parent[start : start + _ROWS_PER_GROUP]
            found = np.flatnonzero(shared[roots])
            columns = (found + start, roots[found], first[start : start + _ROWS_PER_GROUP][found])
            pending.append(pa.record_batch([pa.array(column, pa.int64()) for column in columns], schema=schema))
            if sum(map(len, pending)) >= _ROWS_PER_GROUP:
                table = pa.Table.from_batches(pending).combine_chunks()
                file.write_table(table.slice(0, _ROWS_PER_GROUP), row_group_size=_ROWS_PER_GROUP)
                pending = table.slice(_ROWS_PER_GROUP).to_batches()
        if sum(map(len, pending)):
            file.write_table(pa.Table.from_batches(pending).combine_chunks(), row_group_size=_ROWS_PER_GROUP)


def write_shingles(batches: Iterable[pa.RecordBatch], output: str, *, settings: Dedup) -> None:
    """Write what `link_clusters` and `choose` need of the members of components in one document shard.

    Args:
        batches: Members in ascending doc order; columns doc, component, exact (as `find_components` wrote them), id
            (32 hex digits), source_rank (`Keep.ranks`), num_bytes, bands (as `Signatures` made them), word_hashes
            (large_list of uint64, `curate.words`).
        output: Parquet file of schema `members.SHINGLES`. Its bytes do not depend on how rows are batched.
        settings: Those of `find_components`.

    Only the first of exact copies carries bands and shingles; it carries shingles only if pairs are verified.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from curate.dedup.members import SHINGLES, empty_lists_where
    from curate.dedup.minhash import shingle_sets

    minhash = settings.minhash
    plain = ("bands.list.element", "shingles.list.element")  # hashes do not compress
    compression = {field.name: "zstd" for field in SHINGLES} | dict.fromkeys(plain, "none")
    nothing = np.empty(0, np.uint64)
    with pq.ParquetWriter(output, SHINGLES, compression=compression, use_dictionary=False) as file:
        pending: list[pa.RecordBatch] = []
        num_rows = num_shingles = 0
        for batch in batches:
            copies = np.asarray(batch["doc"]) != np.asarray(batch["exact"])
            bands = batch["bands"].cast(pa.list_(pa.uint64()))
            bands = empty_lists_where(bands, pa.array(copies | (minhash is None)))
            compare = ~copies & (minhash is not None and minhash.verify is not False)
            start = 0
            sets: list[npt.NDArray[np.uint64]] = []
            for row in range(batch.num_rows):
                hashes = batch["word_hashes"].slice(row, 1)
                sets.append(shingle_sets(hashes, minhash.ngram)[0] if minhash and compare[row] else nothing)
                num_rows += 1
                num_shingles += len(sets[-1])
                full = num_rows >= _GROUP_ROWS or num_shingles >= _GROUP_SHINGLES
                if full or row == batch.num_rows - 1:
                    pending.append(_shingle_rows(batch, bands, sets, start, row + 1))
                    start, sets = row + 1, []
                if full:
                    file.write_table(pa.Table.from_batches(pending).combine_chunks(), row_group_size=num_rows)
                    pending, num_rows, num_shingles = [], 0, 0
        if pending:
            file.write_table(pa.Table.from_batches(pending).combine_chunks(), row_group_size=num_rows)


def _shingle_rows(
    batch: pa.RecordBatch, bands: pa.Array, sets: list[npt.NDArray[np.uint64]], start: int, stop: int
) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    from curate.dedup.members import SHINGLES

    ends = np.concatenate([[0], np.cumsum([len(values) for values in sets])]).astype(np.int64)
    shingles = pa.LargeListArray.from_arrays(pa.array(ends), pa.array(np.concatenate(sets)))
    given = {name: batch[name].slice(start, stop - start) for name in SHINGLES.names if name in batch.schema.names}
    given |= {"bands": bands.slice(start, stop - start), "shingles": shingles}
    return pa.record_batch([given[field.name].cast(field.type) for field in SHINGLES], schema=SHINGLES)


def link_clusters(
    shingle_files: Sequence[str], output: str, *, settings: Dedup, memory_bytes: int, scratch: str
) -> None:
    """Write the clusters of two documents or more among all documents, kept or not.

    Documents are gone through by priority (source_rank, then size if `keep.then` says longest, then doc). Each is
    compared with the earlier representatives that share a band with it, in the same order, and joins the first whose
    exact Jaccard similarity over shingles is at least `verify` (any, if verify is false); else it becomes a
    representative. Exact copies join with their first by priority.

    Args:
        shingle_files: One file of `write_shingles` for each document shard, in document order.
        output: Parquet file, ascending doc: doc, id, cluster (smallest doc in it), cluster_size, representative (doc),
            similarity to the representative (1 if equal), verified (false: estimated from shared bands).
        settings: Those of `write_shingles`.
        memory_bytes: About what buffers may hold.
        scratch: An existing folder.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from curate.dedup.members import Members

    schema = pa.schema(
        [
            pa.field("doc", pa.int64(), nullable=False),
            pa.field("id", pa.string(), nullable=False),
            pa.field("cluster", pa.int64(), nullable=False),
            pa.field("cluster_size", pa.int32(), nullable=False),
            pa.field("representative", pa.int64(), nullable=False),
            pa.field("similarity", pa.float64(), nullable=False),
            pa.field("verified", pa.bool_(), nullable=False),
        ]
    )
    compared = settings.minhash is None or settings.minhash.verify is not False
    with tempfile.TemporaryDirectory(prefix="link-", dir=scratch) as folder:
        members = Members(shingle_files, settings, memory_bytes, folder)
        clustering = members.cluster()
        with pq.ParquetWriter(output, schema, compression="zstd") as file:
            for start in range(0, members.size, _ROWS_PER_GROUP):
                part = slice(start, start + _ROWS_PER_GROUP)
                rows = start + np.flatnonzero(clustering.sizes[part] > 1)
                representatives = clustering.representatives[rows]
                equal = members.heads[representatives] == members.heads[rows]
                columns = [
                    pa.array(members.docs[rows]),
                    pa.array([members.id(row) for row in rows], pa.string()),
                    pa.array(members.docs[clustering.firsts[rows]]),
                    pa.array(clustering.sizes[rows].astype(np.int32)),
                    pa.array(members.docs[representatives]),
                    pa.array(clustering.similarities[rows]),
                    pa.array(equal | compared),
                ]
                file.write_batch(pa.record_batch(columns, schema=schema))
