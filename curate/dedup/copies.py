"""What is known of the documents that may be copies when some of them are chosen, in columns on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from curate.dedup.resolving import SEMANTIC

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_ROWS = 10_000  # per batch


def read_documents(shards: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (path, rows) of document shards, in document order.

    Raises:
        ValueError: If they are in another order.
    """
    import pyarrow.parquet as pq

    last = -1
    for path in shards:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_ROWS, use_threads=False):
                docs = batch["doc"].to_numpy()
                if (docs[1:] <= docs[:-1]).any() or (len(docs) and docs[0] <= last):
                    raise ValueError(f"{path}: documents do not ascend; pass document shards in document order")
                last = int(docs[-1]) if len(docs) else last
                if len(docs):
                    yield path, batch


class Copies:
    """What is known of the members of components, by row; rows ascend as documents do.

    Documents of other components that go by `semantic`, or stand for those, are rows, too.

    Attributes:
        docs, exact, partitions: As in components.parquet; partition -1 and exact of its own for a document of no component.
        kept, sources, num_bytes, ids: As the document shards say; sources are numbers, ids 16 bytes each.
        codes: Why a document goes, by RULES.
        targets: Row that stays instead; its own if it stays.
        similarities: To the target; NaN where another thing than the text is equal.
        firsts, sizes, representatives, representative_similarities: Of the document's cluster.
        names: Of sources, in document order.
        num_docs: Documents of all shards.
    """

    def __init__(
        self,
        components: str,
        shards: Sequence[str],
        resolved: Sequence[str],
        semantic: str | None,
        memory_bytes: int,
        folder: str,
    ) -> None:
        import numpy as np

        from curate.dedup.spill import DiskColumn, zeros_on_disk

        kinds = {"doc": np.int64, "exact": np.int64, "partition": np.int32}
        columns = {name: DiskColumn(folder, name, kind) for name, kind in kinds.items()}
        for members in _members(components, semantic, memory_bytes, folder):
            for column, values in zip(columns.values(), members, strict=True):
                column.append(values)
        self.docs, self.exact, self.partitions = (column.finish() for column in columns.values())
        self.size = len(self.docs)

        def made(name: str, kind: npt.DTypeLike, width: int = 1) -> npt.NDArray[Any]:
            return zeros_on_disk(folder, f"all-{name}", kind, self.size * width)

        self.kept, self.codes = made("kept", np.uint8), made("codes", np.uint8)
        self.sources, self.sizes = made("sources", np.int32), made("sizes", np.int32)
        self.num_bytes, self.ids = made("num_bytes", np.int64), made("ids", np.uint8, 16).reshape(-1, 16)
        self.targets, self.firsts = made("targets", np.int64), made("firsts", np.int64)
        self.representatives, self.similarities = made("representatives", np.int64), made("similarities", np.float64)
        self.representative_similarities = made("representative_similarities", np.float64)
        for part in self.parts():
            rows = np.arange(part.start, part.stop)
            self.targets[part] = self.firsts[part] = self.representatives[part] = rows
            self.sizes[part] = self.similarities[part] = self.representative_similarities[part] = 1
        self.names: list[str] = []
        self.num_docs = 0
        self._read_shards(shards)
        self._read_resolved(resolved)
        if semantic is not None:
            self._read_semantic(semantic)

    def parts(self) -> Iterator[slice]:
        """Yield all rows, some at a time."""
        for start in range(0, self.size, _ROWS):
            yield slice(start, min(start + _ROWS, self.size))

    def _read_shards(self, shards: Sequence[str]) -> None:
        from curate.dedup.members import raw_bytes

        num_found = 0
        for path, batch in read_documents(shards):
            self.num_docs = int(batch["doc"][-1].as_py()) + 1
            rows, places = self.rows_of(batch)
            num_found += len(rows)
            self.kept[rows] = batch["kept"].to_numpy(zero_copy_only=False)[places]
            self.sources[rows] = self.source_numbers(batch)[places]
            self.num_bytes[rows] = batch["num_bytes"].to_numpy()[places]
            self.ids[rows] = raw_bytes(batch["id"].take(places), path).reshape(-1, 16)
        if num_found != self.size:
            raise ValueError(f"{self.size - num_found} members of components are in none of the document shards")

    def _read_resolved(self, resolved: Sequence[str]) -> None:
        import numpy as np
        import pyarrow.parquet as pq

        for path in resolved:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                for batch in file.iter_batches(_ROWS, use_threads=False):
                    rows = np.searchsorted(self.docs, batch["doc"].to_numpy())
                    for name, column in (
                        ("target", self.targets),
                        ("cluster", self.firsts),
                        ("representative", self.representatives),
                    ):
                        column[rows] = np.searchsorted(self.docs, batch[name].to_numpy())
                    for name, values in (
                        ("code", self.codes),
                        ("similarity", self.similarities),
                        ("cluster_size", self.sizes),
                        ("representative_similarity", self.representative_similarities),
                    ):
                        values[rows] = batch[name].to_numpy(zero_copy_only=False)  # null is NaN

    def _read_semantic(self, semantic: str) -> None:
        import numpy as np

        for records in _semantic_records(semantic):
            rows, kept = (np.searchsorted(self.docs, records[:, place].astype(np.int64)) for place in (0, 1))
            if (self.codes[rows] > 0).any() or (self.codes[kept] > 0).any():
                raise ValueError(f"{semantic}: names documents that go as copies of texts")
            self.codes[rows], self.targets[rows] = SEMANTIC, kept
            self.similarities[rows] = np.ascontiguousarray(records[:, 2]).view(np.float64)

    def rows_of(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the rows of the members that are in a batch of documents, and their places in it."""
        import numpy as np

        docs = batch["doc"].to_numpy()
        start, stop = np.searchsorted(self.docs, [docs[0], docs[-1] + 1])
        rows = np.arange(start, stop)
        places = np.searchsorted(docs, self.docs[start:stop])
        there = docs[places] == self.docs[start:stop]
        return rows[there], places[there]

    def source_numbers(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Return the number of each document's source, new names numbered as they come."""
        import numpy as np

        encoded = batch["source"].dictionary_encode()
        for name in encoded.dictionary.to_pylist():
            if name not in self.names:
                self.names.append(name)
        numbers = np.array([self.names.index(name) for name in encoded.dictionary.to_pylist()], np.int32)
        of_rows: npt.NDArray[np.int32] = numbers[encoded.indices.to_numpy()]
        return of_rows


def _members(
    components: str, semantic: str | None, memory_bytes: int, folder: str
) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Yield doc, exact and partition of all members of components, and of those that `semantic` is about, ascending doc."""
    import numpy as np
    import pyarrow.parquet as pq

    from curate.dedup.spill import Sorter

    names = ["doc", "exact", "partition"]
    with pq.ParquetFile(components, pre_buffer=False) as file:
        batches = file.iter_batches(_ROWS, columns=names, use_threads=False)
        if semantic is None:
            yield from (tuple(batch[name].to_numpy() for name in names) for batch in batches)
            return
        sorter = Sorter(4, memory_bytes // 2, folder, "members")  # doc, whether it is no member, exact, partition
        for batch in batches:
            docs, exact, partitions = (batch[name].to_numpy() for name in names)
            sorter.append(docs, np.zeros(len(docs), np.uint64), exact, partitions)
    for records in _semantic_records(semantic):
        for docs in (records[:, 0], records[:, 1]):
            sorter.append(docs, np.ones(len(docs), np.uint64), docs, np.zeros(len(docs), np.uint64))
    last = -1
    for records in sorter.sorted():
        docs = records[:, 0].astype(np.int64)
        first = np.diff(docs, prepend=last) > 0
        last = int(docs[-1])
        partitions = np.where(records[:, 1] == 0, records[:, 3].astype(np.int64), -1)
        yield docs[first], records[first, 2].astype(np.int64), partitions[first].astype(np.int32)


def _semantic_records(path: str) -> Iterator[npt.NDArray[np.uint64]]:
    from pathlib import Path

    import numpy as np

    from curate.dedup.semantic_files import GONE, mapped

    records = mapped(Path(path), np.uint64, GONE)
    for start in range(0, len(records), _ROWS):
        yield records[start : start + _ROWS]
