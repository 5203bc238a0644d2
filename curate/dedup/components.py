"""Connected components of documents that may be copies of one another: the steps that tasks take, and all of them at once.

Two rounds over the same partitions: equal hashes first (`write_hashes`, `join_hashes`), then the bands of the documents
that are no exact copy of an earlier one (`write_bands`, `join_bands`); last the edges of all partitions go through one
union-find over numbers on disk (`write_components`). Each step reads and writes local files; `memory_bytes` bounds its
buffers and changes nothing else.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.dedup.bands import (
    Records,
    Written,
    band_keys,
    equal_keys,
    groups_of,
    hash_keys,
    partition_bits,
    read_edges,
    signature_batches,
    write_edges,
    write_records,
)
from curate.dedup.settings import Dedup

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

PARTITION_BYTES = 64 << 20  # of the texts of a partition's components: what one task of `link` compares
COPIES, SAME, NEAR = (
    "copies.bin",
    "same.bin",
    "near.bin",
)  # edges: equal texts; equal addresses or payloads; equal bands
_ROW_BYTES = 256  # of a member, besides its text
_ROWS_PER_GROUP = 10_000  # of components.parquet; fixed, so that memory never shows in the bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """How the documents of a corpus are spread over tasks; depends on their numbers alone.

    Attributes:
        groups: Shards of each group.
        bases: First document of each group, and at the end the number of documents.
        bits: Leading bits of a key that tell its partition.
    """

    groups: tuple[range, ...]
    bases: tuple[int, ...]
    bits: int

    @classmethod
    def of(cls, documents: Sequence[int]) -> Layout:
        """Return the layout of shards with these numbers of documents."""
        groups = groups_of(documents)
        sizes = [sum(documents[shard] for shard in group) for group in groups]
        return cls(tuple(groups), (0, *itertools.accumulate(sizes)), partition_bits(sum(documents)))

    @property
    def partitions(self) -> range:
        """The numbers of the partitions."""
        return range(1 << self.bits)

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return self.bases[-1]


def hashes_of(settings: Dedup) -> tuple[str, ...]:
    """Return what is equal in components, text first: it stands for the others where texts are equal."""
    by = settings.exact.by if settings.exact is not None else ()
    return ("text", *sorted(set(by) - {"text"}))


def write_hashes(
    paths: Sequence[str], folder: Path, *, by: Sequence[str], bits: int, memory_bytes: int, scratch: str
) -> int:
    """Write the records of hashes of one group; return their number.

    Args:
        paths: Signature files of the group (`minhash.signature_schema`), in document order.
        folder: See `bands.write_records`.
        by: Of `hashes_of`.
        bits: Of the layout.
        memory_bytes: About what the buffers may hold.
        scratch: Folder for what is spilled.
    """
    batches = hash_keys(paths, by, memory_bytes // 8)
    return write_records(batches, folder, bits=bits, kinds=len(by), words=2, memory_bytes=memory_bytes, scratch=scratch)


def join_hashes(
    folders: Sequence[Path],
    output: Path,
    *,
    layout: Layout,
    partition: int,
    by: Sequence[str],
    memory_bytes: int,
    scratch: str,
) -> dict[str, Written]:
    """Write the edges of one partition of hashes: COPIES, of equal texts, and SAME, of all else; both to the first.

    Args:
        folders: What `write_hashes` wrote, of all groups.
        output: Folder of the two files.
        layout: Of the corpus.
        partition: Number of the partition.
        by: As given to `write_hashes`.
        memory_bytes: About what the buffers may hold.
        scratch: Folder for what is spilled.
    """
    files = [
        Records(folder, base=base, bits=layout.bits, kinds=len(by), words=2)
        for folder, base in zip(folders, layout.bases, strict=False)
    ]
    return {
        name: _join(files, output / name, kinds, bases, layout.bits, partition, 2, memory_bytes, scratch)
        for name, kinds, bases in ((COPIES, range(1), layout.bases[:-1]), (SAME, range(1, len(by)), (0,)))
    }


def _join(
    files: Sequence[Records],
    path: Path,
    kinds: range,
    bases: Sequence[int],
    bits: int,
    partition: int,
    words: int,
    memory_bytes: int,
    scratch: str,
) -> Written:
    from curate.dedup.spill import Sorter

    sorter = Sorter(2, memory_bytes // 2, scratch, path.stem)
    for kind in kinds:
        for docs, firsts in equal_keys(files, partition, kind, bits=bits, words=words, memory_bytes=memory_bytes // 2):
            sorter.append(docs, firsts)
    return write_edges(sorter.sorted(), path, bases)


def copies_of(layout: Layout, group: int, copies: Sequence[tuple[Path, Sequence[int]]]) -> npt.NDArray[np.bool_]:
    """Return for each document of a group whether it has the text of an earlier one; `copies` as for `write_bands`."""
    import numpy as np

    base, end = layout.bases[group : group + 2]
    is_copy = np.zeros(end - base, np.bool_)
    for path, starts in copies:
        for docs, _ in read_edges(path, base, starts[group], starts[group + 1]):
            is_copy[docs - base] = True
    return is_copy


def write_bands(
    paths: Sequence[str],
    folder: Path,
    *,
    group: int,
    layout: Layout,
    copies: Sequence[tuple[Path, Sequence[int]]],
    num_bands: int,
    memory_bytes: int,
    scratch: str,
) -> int:
    """Write the records of the bands of one group; return their number.

    Args:
        paths: As for `write_hashes`.
        folder: As for `write_hashes`.
        group: Number of the group.
        layout: Of the corpus.
        copies: COPIES of all partitions, each with `Written.starts`.
        num_bands: Of the settings.
        memory_bytes: About what the buffers may hold.
        scratch: Folder for what is spilled.
    """
    is_copy = copies_of(layout, group, copies)
    batches = band_keys(paths, is_copy, layout.bases[group], num_bands, memory_bytes // 8)
    return write_records(
        batches, folder, bits=layout.bits, kinds=num_bands, words=1, memory_bytes=memory_bytes, scratch=scratch
    )


def join_bands(
    folders: Sequence[Path],
    output: Path,
    *,
    layout: Layout,
    partition: int,
    num_bands: int,
    memory_bytes: int,
    scratch: str,
) -> Written:
    """Write the edges of one partition of bands, NEAR; arguments as for `join_hashes` and `write_bands`."""
    files = [
        Records(folder, base=base, bits=layout.bits, kinds=num_bands, words=1)
        for folder, base in zip(folders, layout.bases, strict=False)
    ]
    return _join(files, output / NEAR, range(num_bands), (0,), layout.bits, partition, 1, memory_bytes, scratch)


def components_schema() -> pa.Schema:
    """Return the columns of components.parquet.

    doc: number over the corpus, ascending. component: smallest doc in it. exact: smallest doc with the same text.
    partition: number of the part of all components that `link` compares at once; whole components, in their order.
    """
    import pyarrow as pa

    fields = [pa.field(name, pa.int64(), nullable=False) for name in ("doc", "component", "exact")]
    return pa.schema([*fields, pa.field("partition", pa.int32(), nullable=False)])


def write_components(
    copies: Sequence[tuple[Path, Sequence[int]]],
    others: Sequence[Path],
    signatures: Sequence[str],
    output: str,
    *,
    layout: Layout,
    scratch: str,
) -> int:
    """Write the components of two documents or more, from the edges of all partitions; return the number of members.

    Args:
        copies: COPIES of all partitions, each with `Written.starts`.
        others: SAME and NEAR of all partitions.
        signatures: All signature files in document order, of which num_bytes is read.
        output: Parquet file of `components_schema`.
        layout: Of the corpus.
        scratch: Folder for arrays as long as the corpus, on disk: 12 bytes a document, and 8 where components begin (24
            from 2^32 documents on).

    Partitions of the output: a component goes to the partition of the one before it, unless that has PARTITION_BYTES
    already: bytes of each text once, and a little for each document.
    """
    import numpy as np

    from curate.dedup import band_kernels
    from curate.dedup.spill import zeros_on_disk

    size = layout.num_docs
    number = np.uint32 if size < 1 << 32 else np.int64
    with tempfile.TemporaryDirectory(prefix="union-", dir=scratch) as folder:
        parents = zeros_on_disk(folder, "parents", number, size)
        exacts = zeros_on_disk(folder, "exacts", number, size)  # 1 + first with the same text, 0: itself
        shared = zeros_on_disk(folder, "shared", np.uint8, size)
        sizes = zeros_on_disk(folder, "sizes", np.int64, size)
        for start in range(0, size, _ROWS_PER_GROUP):
            parents[start : start + _ROWS_PER_GROUP] = np.arange(start, min(start + _ROWS_PER_GROUP, size))
        for path, starts in copies:
            for base, begin, end in zip(layout.bases, starts, starts[1:], strict=False):
                for docs, firsts in read_edges(path, base, begin, end):
                    exacts[docs] = firsts + 1
                    band_kernels.union(parents, docs, firsts)
        for path in others:
            for docs, firsts in read_edges(path, 0):
                band_kernels.union(parents, docs, firsts)
        band_kernels.flatten(parents, shared)
        start = 0
        for _, batch in signature_batches(signatures, ["num_bytes"], _ROWS_PER_GROUP):
            part = slice(start, start + batch.num_rows)
            num_bytes = batch["num_bytes"].to_numpy()
            band_kernels.add_sizes(parents[part], exacts[part], num_bytes, _ROW_BYTES, sizes)
            start += batch.num_rows
        band_kernels.fill_partitions(shared, sizes, PARTITION_BYTES, np.zeros(2, np.int64))
        return _write(output, parents, exacts, shared, sizes)


def _write(
    output: str,
    parents: npt.NDArray[Any],
    exacts: npt.NDArray[Any],
    shared: npt.NDArray[np.uint8],
    partitions: npt.NDArray[np.int64],
) -> int:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = components_schema()
    members = 0
    # A dictionary of numbers that ascend would be as long as they are.
    ascending = dict.fromkeys(("doc", "component", "exact"), "DELTA_BINARY_PACKED")
    with pq.ParquetWriter(
        output, schema, compression="zstd", use_dictionary=["partition"], column_encoding=ascending
    ) as file:
        pending: list[pa.RecordBatch] = []
        rows = 0
        for start in range(0, len(parents), _ROWS_PER_GROUP):
            roots = parents[start : start + _ROWS_PER_GROUP].astype(np.int64)
            found = np.flatnonzero(shared[roots])
            docs, roots = found + start, roots[found]
            exact = exacts[start : start + _ROWS_PER_GROUP][found].astype(np.int64) - 1
            columns = [docs, roots, np.where(exact < 0, docs, exact), partitions[roots].astype(np.int32)]
            pending.append(pa.record_batch([pa.array(column) for column in columns], schema=schema))
            rows += len(found)
            members += len(found)
            if rows >= _ROWS_PER_GROUP:
                table = pa.Table.from_batches(pending).combine_chunks()
                file.write_table(table.slice(0, _ROWS_PER_GROUP), row_group_size=_ROWS_PER_GROUP)
                pending = table.slice(_ROWS_PER_GROUP).to_batches()
                rows -= _ROWS_PER_GROUP
        if rows:
            file.write_table(pa.Table.from_batches(pending).combine_chunks(), row_group_size=_ROWS_PER_GROUP)
    return members


def find_components(
    signatures: Sequence[str], output: str, *, settings: Dedup, memory_bytes: int, scratch: str
) -> None:
    """Take all steps, one after the other: the connected components of "shares its text, a band, or what else is asked for".

    Args:
        signatures: Parquet files of `minhash.signature_schema`, in document order: a document's number `doc` is its row
            over all of them.
        output: Parquet file of `components_schema`.
        settings: `clustering` of the recipe's; the signatures were made with these.
        memory_bytes: About what buffers may hold.
        scratch: An existing folder.

    Texts of white space alone are copies of nothing.
    """
    import pyarrow.parquet as pq

    layout = Layout.of([pq.read_metadata(path).num_rows for path in signatures])
    by = hashes_of(settings)
    files = [[signatures[shard] for shard in group] for group in layout.groups]
    with tempfile.TemporaryDirectory(prefix="components-", dir=scratch) as folder:

        def made(step: str, number: int) -> Path:
            path = Path(folder, f"{step}-{number}")
            path.mkdir()
            return path

        def spill(step: str, number: int) -> str:
            return str(made(f"{step}-spill", number))

        hashes = []
        for group, paths in enumerate(files):
            hashes.append(made("hashes", group))
            write_hashes(
                paths,
                hashes[-1],
                by=by,
                bits=layout.bits,
                memory_bytes=memory_bytes,
                scratch=spill("hashes", group),
            )
        copies, others = [], []
        for partition in layout.partitions:
            place = made("same", partition)
            written = join_hashes(
                hashes,
                place,
                layout=layout,
                partition=partition,
                by=by,
                memory_bytes=memory_bytes,
                scratch=spill("same", partition),
            )
            copies.append((place / COPIES, written[COPIES].starts))
            others.append(place / SAME)
        if settings.minhash is not None:
            bands = []
            for group, paths in enumerate(files):
                bands.append(made("bands", group))
                write_bands(
                    paths,
                    bands[-1],
                    group=group,
                    layout=layout,
                    copies=copies,
                    num_bands=settings.minhash.bands,
                    memory_bytes=memory_bytes,
                    scratch=spill("bands", group),
                )
            for partition in layout.partitions:
                place = made("near", partition)
                others.append(place / NEAR)
                join_bands(
                    bands,
                    place,
                    layout=layout,
                    partition=partition,
                    num_bands=settings.minhash.bands,
                    memory_bytes=memory_bytes,
                    scratch=spill("near", partition),
                )
        write_components(copies, others, signatures, output, layout=layout, scratch=folder)
