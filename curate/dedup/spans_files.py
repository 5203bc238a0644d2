"""Repeated spans of plain token arrays, as token shards hold them: all steps of `curate.dedup.spans` in one process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from curate.dedup.spans import (
    ANCHOR,
    PARTITIONS,
    WINDOW,
    Answers,
    Documents,
    Runs,
    Spans,
    Spilled,
    Stream,
    answer,
    repeated_spans,
    spill_anchors,
    spill_windows,
)

_BATCH = 1 << 21  # tokens read at once, but for a document that has more

Streams = Callable[[], Iterable[Stream]]


class Found(NamedTuple):
    """What is repeated in some documents.

    Attributes:
        shard: Number of their shard.
        base: Tokens of the shard before them.
        stream: The documents.
        spans: Their repeated spans.
        runs: What is to be cut.
    """

    shard: int
    base: int
    stream: Stream
    spans: Spans
    runs: Runs


def find_spans(
    shards: Sequence[Streams],
    *,
    window: int,
    memory_bytes: int,
    scratch: str,
    min_documents: int = 2,
    keep_first: bool = True,
    ranks: Sequence[int] = (),
) -> Iterator[Found]:
    """Yield what is repeated, batch by batch of each shard.

    Args:
        shards: For each shard a function that yields its documents, called three times.
        window: Fewest tokens of a span.
        memory_bytes: About what the buffers of a join may hold; a batch of documents is beside it.
        scratch: Folder for what is spilled; what is written is removed behind the last batch.
        min_documents: Fewest clusters of documents that hold a span.
        keep_first: See `repeated_spans`.
        ranks: Priority of each shard, 0 first; all the same by default: then the order of shards decides.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        root = Path(folder)
        spilled = root / "spilled"
        spilled.mkdir()
        join = partial(_join, root=root, min_documents=min_documents, memory_bytes=memory_bytes)
        anchors = []
        for number, streams in enumerate(shards):
            place = root / f"anchors-{number}"
            place.mkdir()
            path, rank = place / "anchors.u64", ranks[number] if ranks else 0
            bounds, tokens = spill_anchors(streams(), path, window=window, scratch=str(spilled))
            anchors.append(Spilled(path, ANCHOR, bounds, tokens, rank))
        shared = join(anchors, "shared-anchors")
        windows = []
        for number, streams in enumerate(shards):
            path = root / f"windows-{number}.u64"
            bounds, tokens = spill_windows(
                streams(), Answers(shared, number), path, window=window, scratch=str(spilled)
            )
            windows.append(Spilled(path, WINDOW, bounds, tokens, anchors[number].rank))
            anchors[number].path.unlink()
        shared = join(windows, "shared-windows")
        for one in windows:
            one.path.unlink()
        documents = Documents(anchors)
        for number, streams in enumerate(shards):
            answers, base = Answers(shared, number), 0
            for stream in streams():
                found = repeated_spans(stream, base, answers, documents, window=window, keep_first=keep_first)
                yield Found(number, base, stream, *found)
                base += len(stream.tokens)


def _join(
    spilled: Sequence[Spilled], name: str, *, root: Path, min_documents: int, memory_bytes: int
) -> list[tuple[Path, list[int]]]:
    found = []
    for partition in range(PARTITIONS):
        folder = root / f"{name}-{partition}"
        folder.mkdir()
        with tempfile.TemporaryDirectory(dir=root) as scratch:
            bounds = answer(
                spilled, partition, folder, min_documents=min_documents, memory_bytes=memory_bytes, scratch=scratch
            )
        found.append((folder, bounds))
    return found


def token_streams(path: Path, dtype: npt.DTypeLike, ends: npt.NDArray[Any], first: int) -> Iterator[Stream]:
    """Yield the documents of a token shard (`curate.tokens.shard`), without the token that ends each.

    Args:
        path: The `.bin` file: raw little-endian unsigned integers.
        dtype: Of the tokens: uint16 or uint32.
        ends: End of each document in tokens, behind its last token, which is EOS; shape (documents,).
        first: Number of its first document: documents are called by number, and each is a cluster of its own.
    """
    kind = np.dtype(dtype).newbyteorder("<")
    begins = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    ends = ends.astype(np.int64)
    row = 0
    while row < len(ends):
        stop = max(row + 1, int(np.searchsorted(ends, begins[row] + _BATCH, "right")))
        start = int(begins[row])
        tokens = np.fromfile(path, kind, int(ends[stop - 1]) - start, offset=start * kind.itemsize)
        numbers = np.arange(first + row, first + stop, dtype=np.uint64)
        yield Stream(
            tokens.astype(kind.newbyteorder("="), copy=False),
            begins[row:stop] - start,
            ends[row:stop] - 1 - start,
            numbers,
            np.stack([np.zeros_like(numbers), numbers], axis=1),
        )
        row = stop
