"""From documents to token shards: encode each document shard once, then put a source's documents in training order.

The order is that of a hash of (order seed, document id). It does not depend on which other documents there are, so a
document that two recipes keep stands in the same relative place in both. Or it is that of the inputs (`order: input`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.errors import InputError
from curate.text.hashing import choice_hash
from curate.tokens.encoding.encoder import encoder_of
from curate.tokens.shard import (
    DEFAULT_SHARD_TOKENS,
    LABELLED_SPLITS,
    LABELS,
    NO_LABELS,
    Labels,
    ShardInfo,
    ShardWriter,
    dtype_for,
    stored_dtype,
)
from curate.tokens.tokenizer import Tokenizer

# What is known of each encoded document, in the order of its runs in the token file.
ENCODED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),  # UTF-8 bytes of its text
        pa.field("tokens", pa.int64(), nullable=False),  # length of its run, begin mark included, EOS not
    ]
)
_ROWS_PER_GROUP = 4096
_SMALLEST_MEMORY = 1 << 16
_ROW_OVERHEAD = 256  # bytes that Python needs for a waiting row besides its tokens


@dataclass(frozen=True, slots=True)
class EncodedShard:
    """The encoded form of one document shard, all splits together.

    Attributes:
        tokens: Path of the runs: little-endian ids one after another, without EOS.
        documents: Path of a Parquet file with schema `ENCODED`.
        groups: Path of a Parquet file with a column `group` of int32, one row for each document, or None.
        group: Where there are groups, the one whose documents count; others are passed over.
        labels: Path of a Parquet file with schema `curate.tokens.labels.LABELLED`, or None.
    """

    tokens: Path
    documents: Path
    groups: Path | None = None
    group: int = 0
    labels: Path | None = None


def encode_documents(batches: Iterable[pa.RecordBatch], tokenizer: Tokenizer, shard: EncodedShard) -> int:
    """Encode the documents of one shard; both files appear whole or not at all, the Parquet last.

    Args:
        batches: With columns `id`, `split` and `text`; the result does not depend on how they are divided.
        tokenizer: Gives the ids; if its `bos_id` is set, each run begins with it.
        shard: The files to write.

    Returns:
        Tokens written.
    """
    paths = (shard.tokens, shard.documents)
    temporary = [path.with_name(f"{path.name}.tmp") for path in paths]
    total = 0
    try:
        with temporary[0].open("wb") as tokens, temporary[1].open("wb") as documents:
            with pq.ParquetWriter(documents, ENCODED, compression="zstd") as writer:
                for table in _regrouped(_encoded_rows(batches, tokenizer, tokens)):
                    total += int(table["tokens"].to_numpy().sum())
                    writer.write_table(table, row_group_size=_ROWS_PER_GROUP)
            for file in (tokens, documents):
                file.flush()
                os.fsync(file.fileno())
        for source, target in zip(temporary, paths, strict=True):
            source.replace(target)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)
    return total


def _encoded_rows(batches: Iterable[pa.RecordBatch], tokenizer: Tokenizer, tokens: IO[bytes]) -> Iterator[pa.Table]:
    """Write the runs of each batch to `tokens` and yield its rows."""
    encoder = encoder_of(tokenizer)
    stored = stored_dtype(dtype_for(tokenizer.vocab_size))
    for batch in batches:
        texts = batch.column("text").cast(pa.large_string())
        ids, offsets = encoder.encode(texts)
        sizes = np.diff(offsets)
        if tokenizer.bos_id is not None:
            ids = np.insert(ids, offsets[:-1], tokenizer.bos_id)
            sizes += 1
        tokens.write(ids.astype(stored, copy=False).data)
        columns = [
            batch.column("id").cast(pa.string()),
            batch.column("split").cast(pa.string()),
            pc.binary_length(texts).cast(pa.int64()),
            pa.array(sizes, pa.int64()),
        ]
        yield pa.table(columns, schema=ENCODED)


def _regrouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of the tables in tables of one fixed length, the last one shorter."""
    waiting = ENCODED.empty_table()
    for table in tables:
        waiting = pa.concat_tables([waiting, table])
        while waiting.num_rows >= _ROWS_PER_GROUP:
            yield waiting.slice(0, _ROWS_PER_GROUP)
            waiting = waiting.slice(_ROWS_PER_GROUP)
    yield waiting


def arrange(
    encoded: Sequence[EncodedShard],
    output_folder: str | os.PathLike[str],
    split: str,
    *,
    vocab_size: int,
    eos_id: int,
    order_seed: int | None,
    memory_bytes: int,
    scratch: str | os.PathLike[str],
    shard_tokens: int = DEFAULT_SHARD_TOKENS,
) -> tuple[ShardInfo, ...]:
    """Write the token shards of one split of one source, in the order of hash(order_seed, id), ties by id.

    Out of core: rows are appended to partitions by the leading part of their hash, then each partition is sorted and its
    runs are copied. The result does not depend on `memory_bytes`, nor on how documents are spread over `encoded`. Without
    a seed the documents stay as they stand. Labels of a labelled split are held whole: a validation set is small.

    Args:
        encoded: All encoded shards of the source, in the order of its input.
        output_folder: Folder of the source; `write_manifest` remains to be called when all its splits are there.
        split: Rows of other splits are passed over.
        vocab_size: Of the tokenizer.
        eos_id: Of the tokenizer; appended to each document.
        order_seed: Of the hash; None: the order of `encoded` and of the rows of each, which is that of the input files,
            of the records in a file and of the parts of a record.
        memory_bytes: Bound of the buffers, at least 64 KiB; one document is held whole whatever its size.
        scratch: An existing folder for the partitions, removed before the call returns; as large as the tokens.
        shard_tokens: See `ShardWriter`.

    Returns:
        The shards, at least one (with zero rows if there is no document).

    Raises:
        InputError: If an encoded shard cannot be read, or its two files disagree.
        ValueError: If memory_bytes is below 64 KiB.
    """
    if memory_bytes < _SMALLEST_MEMORY:
        raise ValueError(f"memory_bytes is {memory_bytes:,}; arranging needs at least {_SMALLEST_MEMORY:,}")
    dtype = dtype_for(vocab_size)
    stored = stored_dtype(dtype)
    writer = ShardWriter(
        output_folder, split, dtype=dtype, eos_id=eos_id, vocab_size=vocab_size, shard_tokens=shard_tokens
    )
    labels = _labels(encoded) if split in LABELLED_SPLITS else {}
    with writer, tempfile.TemporaryDirectory(prefix="arrange-", dir=scratch) as folder:
        rows: Iterator[tuple[str, int, bytes]] = (row for shard in encoded for row in _runs(shard, split, stored))
        if order_seed is not None:
            rows = _shuffled(rows, order_seed, _measure(encoded, split, stored.itemsize), Path(folder), memory_bytes)
        for document_id, num_bytes, run in rows:
            writer.add(document_id, num_bytes, np.frombuffer(run, stored), labels.get(document_id, NO_LABELS))
        return writer.close()


def _labels(encoded: Sequence[EncodedShard]) -> dict[str, Labels]:
    """Return the labels of documents by id."""
    found: dict[str, Labels] = {}
    for path in (shard.labels for shard in encoded if shard.labels is not None):
        try:
            rows = pq.read_table(path, columns=["id", *LABELS.names]).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise InputError(str(path), f"cannot be read ({error}).", "Encode the documents again.") from error
        found |= {row.pop("id"): Labels(**row) for row in rows}
    return found


def _shuffled(
    rows: Iterator[tuple[str, int, bytes]], seed: int, size: tuple[int, int], folder: Path, memory_bytes: int
) -> Iterator[tuple[str, int, bytes]]:
    """Yield the rows in the order of hash(seed, id), ties by id; `size` is what `_measure` says of them."""
    footprint, longest_id = size
    record = np.dtype(
        [("key", "<u8"), ("id", f"S{max(1, longest_id)}"), ("bytes", "<i8"), ("offset", "<i8"), ("size", "<i8")]
    )
    partitions = _Partitions(folder, max(1, -(-2 * footprint // memory_bytes)), record, memory_bytes // 4)
    for document_id, num_bytes, run in rows:
        partitions.add(choice_hash(seed, document_id, "order"), document_id, num_bytes, run)
    partitions.flush()
    yield from partitions.sorted_rows()


class _Partitions:
    """Rows by ranges of their key: appended in any order, given back sorted by (key, id)."""

    def __init__(self, folder: Path, count: int, record: np.dtype[Any], buffer_bytes: int) -> None:
        self._folder = folder
        self._count = count
        self._record = record
        self._buffer_bytes = buffer_bytes
        self._sizes = [0] * count  # bytes of the runs appended so far
        self._rows: dict[int, list[tuple[int, bytes, int, int, int]]] = {}
        self._runs: dict[int, list[bytes]] = {}
        self._waiting = 0

    def add(self, key: int, document_id: str, num_bytes: int, run: bytes) -> None:
        number = key * self._count >> 64  # ranges of keys, in order
        row = (key, document_id.encode(), num_bytes, self._sizes[number], len(run))
        self._rows.setdefault(number, []).append(row)
        self._runs.setdefault(number, []).append(run)
        self._sizes[number] += len(run)
        self._waiting += len(run) + _ROW_OVERHEAD
        if self._waiting > self._buffer_bytes:
            self.flush()

    def flush(self) -> None:
        # Files are opened one at a time: there may be more partitions than a process may open files.
        for number, rows in self._rows.items():
            with self._path(number, "rows").open("ab") as file:
                file.write(np.array(rows, self._record).tobytes())
            with self._path(number, "runs").open("ab") as file:
                file.writelines(self._runs[number])
        self._rows, self._runs, self._waiting = {}, {}, 0

    def sorted_rows(self) -> Iterator[tuple[str, int, bytes]]:
        for number in range(self._count):
            if not self._path(number, "rows").exists():
                continue
            rows = np.fromfile(self._path(number, "rows"), self._record)
            rows = rows[np.lexsort((rows["id"], rows["key"]))]
            with self._path(number, "runs").open("rb") as file:
                for row in rows:
                    file.seek(int(row["offset"]))
                    yield bytes(row["id"]).decode(), int(row["bytes"]), file.read(int(row["size"]))
            self._path(number, "rows").unlink()
            self._path(number, "runs").unlink()

    def _path(self, number: int, kind: str) -> Path:
        return self._folder / f"{number:06d}.{kind}"


def _measure(encoded: Sequence[EncodedShard], split: str, width: int) -> tuple[int, int]:
    """Return the bytes that the rows of a split take in the partitions, and the length of the longest id in bytes."""
    footprint = longest = 0
    for shard in encoded:
        for batch in _documents(shard):
            for document_id, row_split, tokens in zip(batch["id"], batch["split"], batch["tokens"], strict=True):
                if row_split == split:
                    footprint += tokens * width + _ROW_OVERHEAD
                    longest = max(longest, len(document_id.encode()))
    return footprint, longest


def _runs(shard: EncodedShard, split: str, stored: np.dtype[Any]) -> Iterator[tuple[str, int, bytes]]:
    """Yield id, bytes of text and run of each row of a split, and compare the token file's size with its rows."""
    remedy = "Delete both files and encode the documents again."
    try:
        file = shard.tokens.open("rb")
    except OSError as error:
        raise InputError(str(shard.tokens), f"cannot be read ({error.strerror}).", remedy) from error
    with file:
        offset = 0
        for batch in _documents(shard):
            columns = (batch["id"], batch["split"], batch["bytes"], batch["tokens"])
            for document_id, row_split, num_bytes, tokens in zip(*columns, strict=True):
                size = tokens * stored.itemsize
                if row_split == split:
                    file.seek(offset)
                    run = file.read(size)
                    if len(run) == size:
                        yield document_id, num_bytes, run
                offset += size
        size = os.fstat(file.fileno()).st_size
        if size != offset:
            raise InputError(str(shard.tokens), f"it has {size} bytes where its documents have {offset}.", remedy)


def _documents(shard: EncodedShard) -> Iterator[dict[str, list[Any]]]:
    try:
        groups = None if shard.groups is None else pq.read_table(shard.groups, columns=["group"])["group"].to_numpy()
        first = 0
        with pq.ParquetFile(shard.documents) as file:
            for batch in file.iter_batches(batch_size=1024):
                rows = batch.cast(ENCODED).to_pydict()
                if groups is not None:
                    ours = (groups[first : first + batch.num_rows] == shard.group).tolist()
                    first += batch.num_rows
                    rows["split"] = [split if our else "" for split, our in zip(rows["split"], ours, strict=True)]
                yield rows
    except (OSError, pa.ArrowException) as error:
        remedy = "Delete both files and encode the documents again."
        raise InputError(str(shard.documents), f"cannot be read ({error}).", remedy) from error
