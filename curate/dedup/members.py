"""Documents that share a band or a text with another, laid out on disk so that they can be compared in any order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.dedup import linking
from curate.dedup.keeping import priority_columns
from curate.dedup.minhash import estimated_similarity, list_parts
from curate.dedup.settings import Dedup
from curate.dedup.spill import DiskColumn, Sorter, zeros_on_disk

SHINGLES = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),  # ascending; a row group has rows of one
        pa.field("doc", pa.int64(), nullable=False),  # ascending within a partition, also from file to file
        pa.field("component", pa.int64(), nullable=False),
        pa.field("exact", pa.int64(), nullable=False),  # smallest doc with the same normalised text
        pa.field("id", pa.string(), nullable=False),
        pa.field("source_rank", pa.int32(), nullable=False),  # 0 is kept first
        pa.field("num_bytes", pa.int64(), nullable=False),
        pa.field("preferences", pa.list_(pa.uint64()), nullable=False),  # `Keep.stored`, the smallest kept first
        pa.field("url_hash", pa.string()),  # 32 hex digits; null if not asked for, or the document has no address
        pa.field("payload_hash", pa.string()),
        pa.field("bands", pa.list_(pa.uint64()), nullable=False),  # empty where doc != exact, as the shingles
        pa.field("shingles", pa.large_list(pa.uint64()), nullable=False),  # ascending, no repeats; empty if unverified
    ]
)

# Representatives that one bucket lists (see `linking.assign`). 100,000 strangers that share a band are then 400 million
# pairs, at 40 ns each where sketches tell them apart, and not five thousand million.
MOST_LISTED = 4000
_BLOCK = 1 << 14  # rows handled at once when columns are gone through


@dataclass(frozen=True, slots=True)
class Clustering:
    """Who stands for whom.

    Attributes:
        representatives: By row: row of the representative, its own if it is one.
        similarities: By row: to the representative; 1 for an exact copy.
        leaders: By row: the first by priority among the exact copies of the row.
        firsts: By row: first row (smallest doc) of its cluster.
        sizes: By row: documents in its cluster.
        num_compared: Pairs compared.
        num_unsure: Documents that stand for themselves though not all that share a band with them were looked at.
        num_uncompared: Pairs that were not compared for it, at most.
    """

    representatives: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float64]
    leaders: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    num_compared: int
    num_unsure: int
    num_uncompared: int

    def counts(self) -> dict[str, int]:
        """Return how many pairs were compared, and what was not."""
        return {"compared": self.num_compared, "unsure": self.num_unsure, "uncompared": self.num_uncompared}


class Members:
    """The rows of one partition of all shingle files; a row is a document's place among them: rows and docs ascend together.

    Attributes:
        docs: By row.
        heads: By row: the row with the smallest doc among its exact copies, which holds their bands and shingles.
    """

    def __init__(
        self,
        files: Sequence[str],
        partition: int,
        settings: Dedup,
        memory_bytes: int,
        folder: str,
        *,
        most_listed: int = MOST_LISTED,
    ) -> None:
        """Read a partition into columns in `folder`, which must be empty and outlive this object.

        Raises:
            ValueError: If the files are not in document order, or not all there.
        """
        minhash = settings.minhash
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._keep = settings.keep
        self._num_bands = minhash.bands if minhash else 0
        self._most_listed = most_listed
        self._contained = minhash is not None and minhash.measure == "containment"
        self._threshold = float(minhash.verify) if minhash else 0.0  # False: 0, a shared band decides
        rows_per_band = minhash.rows if minhash else 1
        self._estimates = np.array(
            [0.0]
            + [
                estimated_similarity(k, num_bands=self._num_bands, rows_per_band=rows_per_band)
                for k in range(1, self._num_bands + 1)
            ]
        )
        self._num_orders = 0
        exact_by = settings.exact.by if settings.exact else ()
        self._equal_by: tuple[str, ...] = tuple(one for one in exact_by if one != "text")
        exact = self._read(files, partition)
        self.heads = zeros_on_disk(folder, "heads", np.int64, self.size)
        for start in range(0, self.size, _BLOCK):
            wanted = exact[start : start + _BLOCK]
            heads = np.searchsorted(self.docs, wanted)
            if (self.docs[np.minimum(heads, self.size - 1)] != wanted).any():
                raise ValueError(
                    "a document's exact copy is in none of the shingle files; pass the files of all document shards"
                )
            self.heads[start : start + _BLOCK] = heads
        self._sketches = zeros_on_disk(folder, "sketches", np.uint64, self.size * linking.SKETCH)
        for start in range(0, self.size, _BLOCK):
            stop = min(start + _BLOCK, self.size)
            linking.sketch(self._shingles, self._ends, start, stop, self._sketches)
        self._fill_buckets()
        self._groups = {name: self._grouped(name) for name in self._equal_by}

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.docs)

    def _read(self, files: Sequence[str], partition: int) -> npt.NDArray[np.int64]:
        with contextlib.ExitStack() as stack:

            def column(name: str, dtype: npt.DTypeLike) -> DiskColumn:
                made = DiskColumn(self._folder, name, dtype)
                stack.callback(made.close)
                return made

            numbers = {name: column(name, np.int64) for name in ("doc", "exact", "source_rank", "num_bytes")}
            ids, has_words = column("id", np.uint8), column("has_words", np.bool_)
            preferences = column("preferences", np.uint64)
            shingles, ends = column("shingles", np.uint64), column("ends", np.int64)
            ends.append(np.zeros(1, np.int64))
            self._sorter = Sorter(2, self._memory_bytes // 4 * 3, self._folder, "bands")
            self._hashes = {
                name: Sorter(3, self._memory_bytes // 8, self._folder, name) for name in self._equal_by
            }  # two halves of the hash, row
            last = -1
            for path, batch in partition_batches(files, partition):
                docs = batch["doc"].to_numpy()
                if docs[0] <= last or (np.diff(docs) <= 0).any():
                    raise ValueError(f"{path}: documents do not ascend; pass shingle files in document order")
                last = int(docs[-1])
                first = numbers["doc"].size
                has_words.append(self._sort_bands(batch["bands"], first, path))
                for name, sorter in self._hashes.items():
                    hashes_of = batch[f"{name}_hash"]
                    found = np.flatnonzero(hashes_of.is_valid())
                    halves = raw_bytes(hashes_of.drop_null(), path).view(">u8").reshape(-1, 2)
                    sorter.append(halves[:, 0], halves[:, 1], first + found)
                for name, values in numbers.items():
                    values.append(batch[name].to_numpy())
                ids.append(raw_bytes(batch["id"], path))
                preferences.append(self._stored(batch["preferences"], path))
                hashes, offsets = list_parts(batch["shingles"])
                shingles.append(hashes[offsets[0] : offsets[-1]])
                ends.append(offsets[1:] - offsets[-1] + shingles.size)
            self.docs = numbers["doc"].finish()
            self._ranks = numbers["source_rank"].finish()
            self._num_bytes = numbers["num_bytes"].finish()
            self._ids, self._has_words = ids.finish(), has_words.finish()
            self._preferences = preferences.finish()
            self._shingles, self._ends = shingles.finish(), ends.finish()
            return numbers["exact"].finish()

    def _stored(self, preferences: pa.Array, path: str) -> npt.NDArray[np.uint64]:
        values, offsets = list_parts(preferences)
        wanted = len(self._keep.stored)
        if (np.diff(offsets) != wanted).any():
            raise ValueError(
                f"{path}: documents were not written with these preferences of keep, {wanted} of them stored"
            )
        return values[offsets[0] : offsets[-1]]

    def _sort_bands(self, bands: pa.Array, first_row: int, path: str) -> npt.NDArray[np.bool_]:
        keys, offsets = list_parts(bands)
        counts = np.diff(offsets)
        if not np.isin(counts, (0, self._num_bands)).all():
            raise ValueError(f"{path}: documents have {counts.max()} bands, the settings {self._num_bands}")
        rows = first_row + np.flatnonzero(counts)
        if len(rows):
            slots = rows[:, None] * self._num_bands + np.arange(self._num_bands)
            self._sorter.append(keys[offsets[0] : offsets[-1]], slots.reshape(-1))
        return counts > 0

    def _fill_buckets(self) -> None:
        num_slots = self.size * self._num_bands
        self._bucket_of = zeros_on_disk(self._folder, "bucket_of", np.int64, num_slots)
        starts = zeros_on_disk(self._folder, "starts", np.int64, num_slots // 2 + 1)
        entries = zeros_on_disk(self._folder, "entries", np.int64, num_slots)
        state = np.array([0, 0, -1, 0], np.int64)
        last_key = np.zeros(1, np.uint64)
        for records in self._sorter.sorted():
            keys, slots = np.ascontiguousarray(records[:, 0]), records[:, 1].astype(np.int64)
            linking.fill_buckets(keys, slots, self._num_bands, state, last_key, self._bucket_of, starts, entries)
        num_buckets, num_entries = int(state[0]), int(state[1])
        starts[num_buckets] = num_entries
        self._starts, self._entries = starts[: num_buckets + 1], entries[:num_entries]
        del self._sorter

    def _grouped(self, name: str) -> npt.NDArray[np.int64]:
        """Return by row the first row with the same hash, or -1 if the document has none."""
        groups = zeros_on_disk(self._folder, f"{name}-groups", np.int64, self.size)
        groups[:] = -1
        last = np.zeros(3, np.uint64)
        state = np.zeros(1, np.int64)
        for records in self._hashes.pop(name).sorted():
            linking.group_equal(records, last, state, groups)
        return groups

    def drop_equal(
        self, stays: npt.NDArray[np.uint8], by: Sequence[str], texts: int, wordless: int, targets: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint8]:
        """Let documents go that share an address or a payload with one that stays, and find which.

        Rows are gone through by priority as in `cluster`: what stands for a document that goes is a document that stays
        when its text, too, has been compared with those before it. So no chain of addresses and texts joins strangers.

        Args:
            stays: By row: 1 if the document is kept; changed to 0 where it goes.
            by: url, payload or both, the first that is shared decides.
            texts: What copies of texts go: 2 near and equal ones, 1 equal ones, 0 none.
            wordless: The same for texts without words: 1 or 0.
            targets: By row: changed to the row that stays where a document goes.

        Returns:
            By row: 0 if it does not go by these, else 1 + the place in `by`.
        """
        groups = zeros_on_disk(self._folder, "groups", np.int64, len(by) * self.size).reshape(len(by), self.size)
        for kind, name in enumerate(by):
            groups[kind] = self._groups[name]
        how = zeros_on_disk(self._folder, "stands", np.uint8, self.size)
        for start in range(0, self.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            rows = np.arange(start, min(start + _BLOCK, self.size))
            of_kept = np.where(self.has_words(rows), np.uint8(texts), np.uint8(wordless))
            how[part] = np.where(stays[part] == 1, of_kept, np.uint8(3))
        reasons = zeros_on_disk(self._folder, "reasons", np.uint8, self.size)
        found = self._assign(stays, groups, how, reasons)[1]
        for start in range(0, self.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            goes = reasons[part] > 0
            targets[part] = np.where(goes, found[part], targets[part])
            stays[part] = np.where(goes, 0, stays[part])
        return reasons

    def ids(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """Return the documents' ids, 32 hex digits each."""
        return hex_digits(self._ids.reshape(-1, 16)[rows])

    def has_words(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return for each row whether the document has bands, of which texts without words have none."""
        return np.asarray(self._has_words[self.heads[rows]])

    def cluster(self, kept: npt.NDArray[np.uint8] | None = None) -> Clustering:
        """Join each document to the first of higher priority that it resembles and that stands for itself.

        Priority is source_rank, then the preferences of `keep`, then document order. Representatives are never joined to
        anything, so no chain of pairs makes a cluster.

        Args:
            kept: By row: 1 if the document is still kept. These come before all others, so that the answer among them
                is what it would be without the others, who then join them or each other.
        """
        nothing = np.zeros((0, self.size), np.int64)
        some = zeros_on_disk(self._folder, f"unasked-{self._num_orders}", np.uint8, self.size)
        leaders, representatives, similarities, counts = self._assign(kept, nothing, some, some)

        def column(name: str, dtype: npt.DTypeLike, size: int) -> npt.NDArray[Any]:
            return zeros_on_disk(self._folder, f"{name}-{self._num_orders}", dtype, size)

        firsts = column("firsts", np.int64, self.size)
        sizes = column("sizes", np.int64, self.size)
        linking.count_clusters(representatives, firsts, sizes)
        by_row = Clustering(
            representatives,
            similarities,
            column("row_leaders", np.int64, self.size),
            column("row_firsts", np.int64, self.size),
            column("row_sizes", np.int64, self.size),
            *counts.tolist(),
        )
        for start in range(0, self.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            of = representatives[part]
            by_row.leaders[part] = leaders[self.heads[part]] - 1
            by_row.firsts[part] = firsts[of] - 1
            by_row.sizes[part] = sizes[of]
            # Whoever leads the exact copies: a representative is equal to each of its own.
            similarities[part] = np.where(self.heads[of] == self.heads[part], 1.0, similarities[part])
        return by_row

    def _assign(
        self,
        kept: npt.NDArray[np.uint8] | None,
        groups: npt.NDArray[np.int64],
        stands: npt.NDArray[np.uint8],
        reasons: npt.NDArray[np.uint8],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return leaders + 1 by head, representatives and similarities by row, and counts, of `linking.assign`."""
        order = self._by_priority(kept)
        number = self._num_orders

        def column(name: str, dtype: npt.DTypeLike, size: int) -> npt.NDArray[Any]:
            return zeros_on_disk(self._folder, f"{name}-{number}", dtype, size)

        leaders = column("leaders", np.int64, self.size)
        representatives = column("representatives", np.int64, self.size)
        similarities = column("similarities", np.float64, self.size)
        counts = np.zeros(3, np.int64)
        linking.assign(
            order,
            self.heads,
            self._num_bands,
            self._bucket_of,
            self._starts,
            self._ends,
            self._shingles,
            self._sketches,
            self._threshold,
            self._contained,
            self._estimates,
            self._most_listed,
            column("inserted", np.int64, len(self._entries)),
            column("num_inserted", np.int64, len(self._starts) - 1),
            leaders,
            column("unit_representatives", np.int64, self.size),
            column("unit_similarities", np.float64, self.size),
            representatives,
            similarities,
            counts,
            groups,
            stands,
            column("holders", np.int64, groups.size).reshape(groups.shape),
            reasons,
        )
        return leaders, representatives, similarities, counts

    def _by_priority(self, kept: npt.NDArray[np.uint8] | None) -> npt.NDArray[np.int64]:
        self._num_orders += 1
        name = f"order-{self._num_orders}"
        order = zeros_on_disk(self._folder, name, np.int64, self.size)
        if self.size == 0:
            return order
        width = len(self._priorities(0, 1, kept))
        sorter = Sorter(width + 1, self._memory_bytes // 4 * 3, self._folder, f"{name}-sorting")
        for start in range(0, self.size, _BLOCK):
            stop = min(start + _BLOCK, self.size)
            sorter.append(*self._priorities(start, stop, kept), np.arange(start, stop))
        done = 0
        for records in sorter.sorted():
            order[done : done + len(records)] = records[:, width]
            done += len(records)
        return order

    def _priorities(self, start: int, stop: int, kept: npt.NDArray[np.uint8] | None) -> list[npt.NDArray[np.uint64]]:
        """Return columns that sort rows by priority, first column first, ties in order of rows."""
        ranks = self._ranks[start:stop]
        if (ranks < 0).any():
            raise ValueError(f"source_rank must be at least 0, got {ranks.min()}")
        ids = self._ids[16 * start : 16 * stop].view(">u8").reshape(-1, 2).astype(np.uint64)
        wanted = len(self._keep.stored)
        stored = self._preferences[start * wanted : stop * wanted].reshape(stop - start, wanted)
        columns = priority_columns(self._keep, ranks, self._num_bytes[start:stop], ids, stored)
        first = [] if kept is None else [(kept[start:stop] == 0).astype(np.uint64)]
        return [*first, *columns.T]

    def near_copies(self, targets: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return by row the most similar of the targets that the document is a copy of, and the similarity; call once.

        Args:
            targets: Rows, ascending.

        Returns:
            Rows of the targets, or -1 where there is none, the smallest of equally similar ones; a target is its own
            copy at 1. Similarities, exact Jaccard or estimated.
        """
        stamps = zeros_on_disk(self._folder, "near-stamps", np.int64, self.size)
        nearest = zeros_on_disk(self._folder, "near-nearest", np.int64, self.size)
        similarities = zeros_on_disk(self._folder, "near-similarities", np.float64, self.size)
        linking.near_copies(
            targets,
            self.heads,
            self._num_bands,
            self._bucket_of,
            self._starts,
            self._entries,
            self._ends,
            self._shingles,
            self._sketches,
            self._threshold,
            self._contained,
            self._estimates,
            stamps,
            nearest,
            similarities,
        )
        rows = zeros_on_disk(self._folder, "near-rows", np.int64, self.size)
        found = zeros_on_disk(self._folder, "near-found", np.float64, self.size)
        for start in range(0, self.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            rows[part] = nearest[self.heads[part]] - 1
            found[part] = similarities[self.heads[part]]
        return rows, found


def partition_batches(files: Sequence[str], partition: int) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (path, rows) of one partition from files whose row groups each hold rows of one `partition`, the first column."""
    for path in files:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for group in range(file.num_row_groups):
                if file.metadata.row_group(group).column(0).statistics.min == partition:
                    for batch in file.read_row_group(group, use_threads=False).to_batches():
                        if batch.num_rows:
                            yield path, batch


def raw_bytes(values: pa.Array, path: str) -> npt.NDArray[np.uint8]:
    """Return strings of 32 hex digits as bytes, 16 each, one after the other."""
    texts = values.to_pylist()
    for one in texts:
        if len(one) != 32:
            raise ValueError(f"{path}: a document id is 32 hex digits, got {one!r}")
    return np.frombuffer(bytes.fromhex("".join(texts)), np.uint8)


def hex_digits(raw: npt.NDArray[np.uint8]) -> list[str]:
    """Return ids, shape (documents, 16), as 32 hex digits each."""
    text = raw.tobytes().hex()
    return [text[start : start + 32] for start in range(0, len(text), 32)]


def list_rows(values: npt.NDArray[np.uint64]) -> pa.ListArray:
    """Return the rows of a matrix as a column of lists."""
    rows, width = values.shape
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * width), pa.array(values.reshape(-1)))


def empty_lists_where(column: pa.Array, drop: pa.Array) -> pa.Array:
    """Return the list column with empty lists where `drop` is true."""
    return pc.if_else(drop, pa.scalar([], column.type), column)
