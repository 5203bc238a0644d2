"""Equal keys among documents, out of core: each group of shards writes its keys split by their leading bits, one task a
partition reads its part of every file and gives the edges of a graph whose components are sets of copies.

Keys are 64 bits (bands) or 128 (hashes of text, address, payload: at 10^11 documents 64 bits would make equal what is
not). What compares with what is a kind: a band's number, or one of these hashes.

A file of records holds for each slice, that is a partition and in it a kind, the keys (little-endian words) and behind
them the documents, packed as distances (`band_kernels.pack_ascending`), so about nine bytes a band. Nothing in it
depends on memory, and neither do the number of partitions or the grouping of shards: both grow with the root of the
number of documents, so that a slice keeps a size that is worth a read.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Uint64s = npt.NDArray[np.uint64]
    Int64s = npt.NDArray[np.int64]

RECORDS, BOUNDS = "records.bin", "bounds.i64"
HASHES = {"text": "exact_hash", "url": "url_hash", "payload": "payload_hash"}  # what is equal -> its column
_FEW = 1 << 17  # documents that one task takes whole
_UNIT = 1 << 20  # documents at which there are eight partitions and eight groups
_ALIGN = 8  # a slice begins at a multiple of this, so that its keys can be mapped
_BLOCK = 1 << 16  # edges handled at once
_FEWEST = 1024  # records: with fewer a task would spend its time in calls
_ROW_BYTES = 200  # of a document in an Arrow batch, besides its keys


def partition_bits(num_docs: int) -> int:
    """Return how many leading bits of a key tell its partition: eight partitions for 2^20 documents, growing with the root."""
    if num_docs <= _FEW:
        return 0
    return math.ceil(math.log2(8 * math.sqrt(num_docs / _UNIT)))


def group_size(num_docs: int) -> int:
    """Return about how many documents make a group: an eighth of 2^20 documents, growing with the root."""
    return _FEW << max(0, math.floor(math.log2(max(1, num_docs) / _UNIT) / 2))


def groups_of(documents: Sequence[int]) -> list[range]:
    """Return the groups of shards, neighbours together until a group is full.

    Args:
        documents: Of each shard.
    """
    most = group_size(sum(documents))
    starts: list[int] = []
    filled = 0
    for shard, count in enumerate(documents):
        if not starts or filled + count > most:
            starts.append(shard)
            filled = 0
        filled += count
    return [range(start, stop) for start, stop in itertools.pairwise([*starts, len(documents)])]


# -- records -----------------------------------------------------------------------------------------------------------


class Keys(NamedTuple):
    """Keys of a batch of documents.

    Attributes:
        kind: Of the first column.
        docs: Numbers within the group, ascending.
        rows: Of the same documents: rows of `keys`.
        keys: Shape (rows, kinds, words).
    """

    kind: int
    docs: npt.NDArray[np.uint32]
    rows: Int64s
    keys: Uint64s

    @property
    def records(self) -> int:
        """The number of records."""
        return len(self.rows) * int(self.keys.shape[1])


class _Chunk(NamedTuple):
    """Records ordered by slice: keys of shape (records, words), documents, and where each slice begins."""

    keys: Uint64s
    docs: npt.NDArray[np.uint32]
    starts: Int64s


def write_records(
    batches: Iterable[Sequence[Keys]],
    folder: Path,
    *,
    bits: int,
    kinds: int,
    words: int,
    memory_bytes: int,
    scratch: str,
) -> int:
    """Write the records of one group of shards; return their number.

    Args:
        batches: Keys by batches of documents, in document order; within a batch, each kind once.
        folder: Where RECORDS and BOUNDS are written: raw bytes, and by slice, with one more at the end, the records and the
            bytes before it (little-endian int64).
        bits: Of `partition_bits`.
        kinds: Number of kinds.
        words: 64-bit words of a key.
        memory_bytes: About what the buffers may hold.
        scratch: Folder for what is spilled.
    """
    import numpy as np

    from curate.dedup.spill import DiskColumn

    most = max(
        1, memory_bytes // 2 // (16 * words + 8)
    )  # records; each lies in memory twice while it is put in its place
    spilled: list[tuple[DiskColumn, DiskColumn, Int64s]] = []
    pending: list[Keys] = []
    for batch in batches:
        if pending and sum(one.records for one in (*pending, *batch)) > most:
            chunk = _sorted_by_slice(pending, bits, kinds, words)
            columns = [DiskColumn(scratch, f"{name}-{len(spilled)}", name) for name in ("u8", "u4")]
            columns[0].append(chunk.keys.reshape(-1))
            columns[1].append(chunk.docs)
            spilled.append((columns[0], columns[1], chunk.starts))
            pending = []
            del chunk
        pending.extend(batch)
    chunks = [_Chunk(keys.finish().reshape(-1, words), docs.finish(), starts) for keys, docs, starts in spilled]
    chunks.append(_sorted_by_slice(pending, bits, kinds, words))
    bounds = np.zeros(((kinds << bits) + 1, 2), np.int64)
    with (folder / RECORDS).open("wb") as file:
        for one in range(kinds << bits):
            size = _write_slice(file, chunks, one)
            bounds[one + 1] = bounds[one] + size
    bounds.astype("<i8").tofile(folder / BOUNDS)
    return int(bounds[-1, 0])


def _sorted_by_slice(parts: Sequence[Keys], bits: int, kinds: int, words: int) -> _Chunk:
    import numpy as np

    from curate.dedup import band_kernels

    counts = np.zeros(kinds << bits, np.int64)
    for part in parts:
        band_kernels.count_slices(part.keys, part.rows, bits, part.kind, kinds, counts)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    keys, docs = np.empty((starts[-1], words), np.uint64), np.empty(starts[-1], np.uint32)
    cursors = starts[:-1].copy()
    for part in parts:
        band_kernels.scatter(part.keys, part.rows, part.docs, bits, part.kind, kinds, cursors, keys, docs)
    return _Chunk(keys, docs, starts)


def _write_slice(file: Any, chunks: Sequence[_Chunk], one: int) -> tuple[int, int]:
    """Write a slice, part by part; return its records and bytes."""
    import numpy as np

    from curate.dedup import band_kernels

    parts = [(chunk, slice(*chunk.starts[one : one + 2].tolist())) for chunk in chunks]
    records = written = 0
    for chunk, part in parts:
        chunk.keys[part].astype("<u8", copy=False).tofile(file)
        records += part.stop - part.start
    last = np.int64(-1)
    for chunk, part in parts:
        docs = chunk.docs[part]
        packed = np.empty(5 * len(docs), np.uint8)
        size = band_kernels.pack_ascending(docs, last, packed)
        packed[:size].tofile(file)
        written += size
        last = np.int64(docs[-1]) if len(docs) else last
    padding = -written % _ALIGN
    file.write(bytes(padding))
    return records, records * 8 * (chunks[0].keys.shape[1]) + written + padding


class Records:
    """A file that `write_records` wrote, mapped: page cache, no buffer."""

    def __init__(self, folder: Path, *, base: int, bits: int, kinds: int, words: int) -> None:
        """Map the file.

        Args:
            folder: As given to `write_records`.
            base: Number of the group's first document over the corpus.
            bits: As given to `write_records`.
            kinds: As given to `write_records`.
            words: As given to `write_records`.
        """
        import numpy as np

        self.base = base
        self._words = words
        self._kinds = kinds
        self._bounds = np.memmap(folder / BOUNDS, np.dtype("<i8"), "r", shape=((kinds << bits) + 1, 2)).view(np.ndarray)
        self._data = mapped(folder / RECORDS)

    def count(self, partition: int, kind: int) -> int:
        """Return the records of a slice."""
        one = partition * self._kinds + kind
        return int(self._bounds[one + 1, 0] - self._bounds[one, 0])

    def slice(self, partition: int, kind: int) -> tuple[Uint64s, npt.NDArray[np.uint8]]:
        """Return the keys of a slice, shape (records, words), and its packed documents."""
        import numpy as np

        one = partition * self._kinds + kind
        start, stop = self._bounds[one : one + 2, 1].tolist()
        middle = start + self.count(partition, kind) * 8 * self._words
        keys = self._data[start:middle].view("<u8").astype(np.uint64, copy=False)
        return keys.reshape(-1, self._words), self._data[middle:stop]


def mapped(path: Path) -> npt.NDArray[np.uint8]:
    """Return the bytes of a file, mapped."""
    import numpy as np

    if path.stat().st_size:
        return np.memmap(path, np.uint8, "r").view(np.ndarray)
    nothing = np.zeros(0, np.uint8)  # an empty file cannot be mapped
    nothing.setflags(write=False)
    return nothing


# -- edges -------------------------------------------------------------------------------------------------------------


def equal_keys(
    files: Sequence[Records], partition: int, kind: int, *, bits: int, words: int, memory_bytes: int
) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the edges of one slice of all files: (document, first document of the corpus with the same key).

    Most keys occur once. Two bitmaps, of keys met and of keys met again, leave those that perhaps occur twice; only these
    get into the table that decides. What would not fit is gone through in parts, by further bits of the key; a bucket of
    any size takes the room of one record.

    Args:
        files: Of all groups, in document order.
        partition: Number of the partition.
        kind: Number of the kind.
        bits: Leading bits that make the partition.
        words: 64-bit words of a key.
        memory_bytes: About what the buffers may hold.
    """
    import numpy as np

    from curate.dedup import band_kernels

    total = sum(file.count(partition, kind) for file in files)
    if total < 2:
        return
    room = max(_FEWEST, memory_bytes // (8 * words + 48))  # records: of key, document, table, edge and bitmaps
    more = max(0, math.ceil(math.log2(total / room)))
    expected = -(-total >> more)
    capacity = min(total, expected + expected // 4 + 64)
    keys, docs = np.empty((capacity, words), np.uint64), np.empty(capacity, np.int64)
    for part in range(1 << more):
        seen = np.zeros(_power(expected // 8), np.uint64)  # 8 to 16 bits a key
        again = np.zeros_like(seen)
        for file in files:
            found, _ = file.slice(partition, kind)
            band_kernels.mark(found, bits, more, part, seen, again)
        del seen
        count = kept = 0
        for file in files:
            found, gaps = file.slice(partition, kind)
            state = np.array([0, 0, -1])
            while True:
                count = band_kernels.pick(found, gaps, file.base, bits, more, part, again, state, keys, docs, count)
                if state[0] == len(found):
                    break
                kept, edges = _collapse(keys, docs, count, kept)
                yield edges
                count = kept
                if kept > len(docs) * 7 // 8:  # keys that defeat the mix: better too much memory than no end
                    keys, docs = np.resize(keys, (2 * len(docs), words)), np.resize(docs, 2 * len(docs))
        _, edges = _collapse(keys, docs, count, kept)
        yield edges


def _collapse(keys: Uint64s, docs: Int64s, count: int, kept: int) -> tuple[int, tuple[Int64s, Int64s]]:
    import numpy as np

    from curate.dedup import band_kernels

    table = np.zeros(_power(2 * count), np.int32)
    edge_docs, edge_firsts = np.empty(count - kept, np.int64), np.empty(count - kept, np.int64)
    kept, edges = band_kernels.first_of_keys(keys, docs, count, table, kept, edge_docs, edge_firsts)
    return kept, (edge_docs[:edges], edge_firsts[:edges])


def _power(least: int) -> int:
    """Return the smallest power of two that is larger than a number."""
    return 1 << max(0, least).bit_length()


@dataclass(frozen=True, slots=True)
class Written:
    """What `write_edges` wrote.

    Attributes:
        edges: Their number.
        starts: By group, with one more at the end: where its bytes begin.
        digests: By group: of its bytes.
    """

    edges: int
    starts: tuple[int, ...]
    digests: tuple[str, ...]


def write_edges(batches: Iterable[Uint64s], path: Path, bases: Sequence[int]) -> Written:
    """Write edges in order, packed, each once.

    Args:
        batches: Edges in order, (document, smaller document), shape (edges, 2).
        path: The file.
        bases: First document of each group; the first is 0.
    """
    import numpy as np

    from curate.dedup import band_kernels

    starts, digests = [0], list[str]()
    edges = size = 0
    digest = hashlib.blake2b(digest_size=16)
    state = np.array([-1, -1])
    ends = np.array(bases[1:], np.uint64)
    with path.open("wb") as file:
        for records in batches:
            for start in range(0, len(records), _BLOCK):
                block = records[start : start + _BLOCK]
                while len(block):
                    group = len(digests)
                    stop = int(np.searchsorted(block[:, 0], ends[group])) if group < len(ends) else len(block)
                    packed = np.empty(20 * stop, np.uint8)
                    docs, firsts = np.ascontiguousarray(block[:stop, 0]), np.ascontiguousarray(block[:stop, 1])
                    count, written = band_kernels.pack_edges(docs, firsts, state, packed)
                    packed[:count].tofile(file)
                    digest.update(packed[:count].data)
                    size += count
                    edges += written
                    block = block[stop:]
                    if len(block):
                        starts.append(size)
                        digests.append(digest.hexdigest())
                        digest = hashlib.blake2b(digest_size=16)
                        state[:] = int(ends[group]) - 1, -1
    while len(digests) < max(1, len(bases)):
        starts.append(size)
        digests.append(digest.hexdigest())
        digest = hashlib.blake2b(digest_size=16)
    return Written(edges, tuple(starts), tuple(digests))


def read_edges(path: Path, base: int, start: int = 0, stop: int | None = None) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield (documents, firsts) of one group, in batches.

    Args:
        path: What `write_edges` wrote.
        base: The group's first document.
        start: Where its bytes begin.
        stop: Where they end; None: with the file.
    """
    import numpy as np

    from curate.dedup import band_kernels

    packed = mapped(path)[start:stop]
    state = np.array([0, base - 1])
    docs, firsts = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    while state[0] < len(packed):
        count = band_kernels.unpack_edges(packed, state, docs, firsts)
        yield docs[:count], firsts[:count]


# -- keys of signatures ------------------------------------------------------------------------------------------------


def signature_batches(paths: Sequence[str], columns: Sequence[str], rows: int) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (path, batch) over signature files, those of the columns that each file has."""
    import pyarrow.parquet as pq

    for path in paths:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            there = [name for name in columns if name in file.schema_arrow.names]
            for batch in file.iter_batches(max(1, rows), columns=there, use_threads=False):
                yield path, batch


def hash_keys(paths: Sequence[str], by: Sequence[str], memory_bytes: int) -> Iterator[list[Keys]]:
    """Yield the 128-bit keys of documents: kind k is by[k], a key of HASHES. Texts of white space alone have none.

    Args:
        paths: Signature files of one group of shards, in document order.
        by: What is equal.
        memory_bytes: About what a batch may take.
    """
    import numpy as np
    import pyarrow as pa

    from curate.dedup.exact import EMPTY

    empty = _hex_keys(pa.array([EMPTY]), "")[0]
    first = 0
    rows = min(_BLOCK, memory_bytes // (_ROW_BYTES * len(by)))
    for path, batch in signature_batches(paths, [HASHES[one] for one in by], rows):
        parts = []
        for kind, one in enumerate(by):
            if HASHES[one] not in batch.schema.names:
                continue
            column = batch[HASHES[one]]
            keys = _hex_keys(column.drop_null(), path)
            docs = first + np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            full = (keys != empty).any(axis=1) if one == "text" else np.ones(len(keys), np.bool_)
            parts.append(Keys(kind, docs[full].astype(np.uint32), np.flatnonzero(full), keys.reshape(-1, 1, 2)))
        yield parts
        first += batch.num_rows


def _hex_keys(column: pa.Array, path: str) -> Uint64s:
    """Return the words of strings of 32 hexadecimal digits, shape (rows, 2)."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from curate.dedup import band_kernels

    text = column.cast(pa.string())
    keys = np.empty((len(text), 2), np.uint64)
    if not len(text):
        return keys
    right = pc.all(pc.equal(pc.binary_length(text), 32)).as_py()
    start = np.frombuffer(text.buffers()[1], np.int32)[text.offset]
    digits = np.frombuffer(text.buffers()[2] or b"", np.uint8)[start : start + 32 * len(text)]
    if not right or not band_kernels.parse_hex(digits, keys):
        raise ValueError(f"{path}: a hash is not 32 hexadecimal digits; measure again")
    keys.setflags(write=False)  # as those are that Arrow holds: the kernels are compiled for one kind of array
    return keys


def band_keys(
    paths: Sequence[str], copies: npt.NDArray[np.bool_], base: int, num_bands: int, memory_bytes: int
) -> Iterator[list[Keys]]:
    """Yield the band keys of documents that are no exact copy of an earlier one; kind is the band's number.

    Args:
        paths: Signature files of one group of shards, in document order.
        copies: Of the group's documents: which are copies.
        base: Number of the group's first document, for messages.
        num_bands: Of each document that has any.
        memory_bytes: About what a batch may take.

    Raises:
        ValueError: If a document has another number of bands.
    """
    import numpy as np

    from curate.dedup.minhash import list_parts

    first = 0
    rows = min(_BLOCK, memory_bytes // (_ROW_BYTES + 40 * num_bands))
    for path, batch in signature_batches(paths, ["bands"], rows):
        keys, offsets = list_parts(batch["bands"])
        counts = np.diff(offsets)
        wrong = (counts != 0) & (counts != num_bands)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{path}: document {base + first + row} has {counts[row]} bands, the settings {num_bands}; "
                "measure again with these settings"
            )
        with_bands = np.flatnonzero(counts)
        table = keys[offsets[0] : offsets[-1]].reshape(-1, num_bands, 1)
        mine = np.flatnonzero(~copies[first + with_bands])
        yield [Keys(0, (first + with_bands[mine]).astype(np.uint32), mine, table)]
        first += batch.num_rows
