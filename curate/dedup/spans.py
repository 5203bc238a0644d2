"""Repeated spans: which windows of tokens several documents share, out of core and in linear time, without a suffix array.

The spans that a suffix array gives for a shortest length L are the tokens covered by windows of L tokens that stand
elsewhere, too. So windows are compared, by two external joins over hashes:

1. Each window has an anchor (`spans_kernels.find_anchors`): of all windows of a run about 1 in L / 4 brings a new one.
   Anchors are spilled, sorted and counted: an anchor in too few documents means windows in too few documents.
2. Windows whose anchor is in enough documents are hashed (122 bits), spilled, sorted and counted.

Records are partitioned by the leading bits of their hash; a partition is sorted within the memory that there is, and its
answers go back to the shards by their place, so that nothing is looked up at random. Documents are counted as clusters:
copies of one text count once. Tokens are compared by what stands for them: 64-bit hashes of words, or a tokenizer's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from curate.stage import Stage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Uint64s = npt.NDArray[np.uint64]
    Int64s = npt.NDArray[np.int64]

PARTITIONS = 16  # of the hashes, by their first bits: tasks that can run at the same time
ANCHOR, WINDOW = 3, 4  # numbers in a record: the hash (one or two), cluster of the document, place of the window
_SHIFT = 60  # from a hash to its partition
_RANK = 48  # bits of a locus below the source's rank: the token's number over the corpus
_READ = 1 << 16  # records read at once, at most
_ANSWERS = ("places.u64", "values.u64", "firsts.u64")
_DOCUMENTS = ("documents.u64", "names.u64")


def tokens_schema() -> pa.Schema:
    """Return the columns that `SpanTokens.apply` gives."""
    import pyarrow as pa

    return pa.schema(
        [
            ("keys", pa.large_list(pa.uint64())),  # hash of the token (`curate.words.token_type`)
            ("starts", pa.large_list(pa.int32())),  # UTF-8 bytes
            ("sizes", pa.large_list(pa.int32())),
        ]
    )


class SpanTokens(Stage):
    """The tokens of each document (`curate.words.split_words`), hashed. No setting shapes them."""

    version: ClassVar[int] = 1

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `tokens_schema`, one list a document, for `text` or `tokens`: same rows, same order."""
        import pyarrow as pa

        from curate.words import with_words

        if "tokens" not in batch.schema.names:
            batch = with_words(batch, ("tokens",))
        lists, schema = batch["tokens"], tokens_schema()
        offsets, values = lists.offsets, lists.values
        arrays = [
            pa.LargeListArray.from_arrays(offsets, values.field(name)).cast(field.type)
            for name, field in zip(("key", "start", "size"), schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Stream(NamedTuple):
    """Some documents of a shard, behind those that came before.

    Attributes:
        tokens: Unsigned numbers of one width, shape (tokens,).
        starts, stops: First token of each document, and the one behind its last, shape (documents,).
        clusters: Number of each document's cluster of copies, shape (documents,).
        names: What each document is called, shape (documents, 2): the halves of its id.
    """

    tokens: npt.NDArray[Any]
    starts: Int64s
    stops: Int64s
    clusters: Uint64s
    names: Uint64s


class Spilled(NamedTuple):
    """The records of one shard.

    Attributes:
        path: The file: raw little-endian uint64, partition by partition, in each in the order of the text.
        width: Numbers in a record.
        bounds: Records before each partition, and all records.
        tokens: Tokens of the shard; the places of its windows lie below.
        rank: Priority of its source, 0 first.
    """

    path: Path
    width: int
    bounds: Sequence[int]
    tokens: int
    rank: int

    def read(self, partition: int, memory_bytes: int) -> Iterator[Uint64s]:
        """Yield the records of a partition in batches of shape (records, width)."""
        import numpy as np

        most = max(1, min(_READ, memory_bytes // (8 * self.width)))
        with self.path.open("rb") as file:
            file.seek(self.bounds[partition] * 8 * self.width)
            left = self.bounds[partition + 1] - self.bounds[partition]
            while left:
                records = np.fromfile(file, "<u8", min(left, most) * self.width).reshape(-1, self.width)
                left -= len(records)
                yield records.astype(np.uint64, copy=False)


# -- spilling ----------------------------------------------------------------------------------------------------------


def spill_anchors(streams: Iterable[Stream], path: Path, *, window: int, scratch: str) -> tuple[list[int], int]:
    """Write the anchors of a shard, and beside them where its documents begin and what they are called.

    Args:
        streams: The documents.
        path: The file.
        window: Tokens in a window.
        scratch: Folder for what is spilled.

    Returns:
        Bounds and tokens, as `Spilled` has them.
    """
    import numpy as np

    from curate.dedup.spill import DiskColumn

    writer = _Partitions(ANCHOR, scratch)
    documents = [DiskColumn(str(path.parent), name, "<u8") for name in _DOCUMENTS]
    base = 0
    for stream in streams:
        keys, places, _ = _anchors(stream, window)
        writer.append(keys, stream.clusters[_owners(stream, places)], (places + base).astype(np.uint64))
        documents[0].append((stream.starts + base).astype(np.uint64))
        documents[1].append(stream.names.reshape(-1))
        base += len(stream.tokens)
    for column in documents:
        column.close()
    return writer.finish(path), base


def spill_windows(
    streams: Iterable[Stream], answers: Answers, path: Path, *, window: int, scratch: str
) -> tuple[list[int], int]:
    """Write the windows of a shard whose anchors were found in enough documents; see `spill_anchors`."""
    import numpy as np

    from curate.dedup.spans_kernels import hash_windows

    writer = _Partitions(WINDOW, scratch)
    base = 0
    for stream in streams:
        _, places, ends = _anchors(stream, window)
        found = answers.about(base, base + len(stream.tokens))[0] - base
        if len(found):
            rows = np.searchsorted(places, found)
            assert (places[rows] == found).all()
            begins, ends = found, ends[rows]
            size = int((ends - begins).sum())
            highs, lows, at = np.empty(size, np.uint64), np.empty(size, np.uint64), np.empty(size, np.int64)
            hash_windows(stream.tokens, begins, ends, window, highs, lows, at)
            writer.append(highs, lows, stream.clusters[_owners(stream, at)], (at + base).astype(np.uint64))
        base += len(stream.tokens)
    return writer.finish(path), base


def _anchors(stream: Stream, window: int) -> tuple[Uint64s, Int64s, Int64s]:
    """Return the anchors of a stream (see `find_anchors`): keys, first windows, and the windows behind the last ones."""
    import numpy as np

    from curate.dedup.spans_kernels import find_anchors

    room = int(np.maximum(stream.stops - stream.starts - window + 1, 0).sum())
    keys, places, ends = np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64)
    # Grams of half a window: longer ones are rarer by chance, shorter ones leave more of the window to choose from.
    count = find_anchors(stream.tokens, stream.starts, stream.stops, window, (window + 1) // 2, keys, places, ends)
    return keys[:count], places[:count], ends[:count]


def _owners(stream: Stream, places: Int64s) -> Int64s:
    """Return the row of the document of each window."""
    import numpy as np

    # Of documents without tokens, which begin where the next one does, the last is meant.
    return np.searchsorted(stream.starts, places, "right") - 1


class _Partitions:
    """Writes records to a file, partition by partition; they lie in another, batch by batch, until all are there."""

    def __init__(self, width: int, scratch: str) -> None:
        self._width = width
        self._path = Path(scratch, "spilled.u64")
        self._file = self._path.open("xb")
        self._batches: list[list[int]] = []  # of each the records before each partition, and all

    def append(self, *columns: Uint64s) -> None:
        """Add records, one array for each number; the first decides the partition."""
        import numpy as np

        partitions = (columns[0] >> np.uint64(_SHIFT)).astype(np.uint8)
        order = np.argsort(partitions, kind="stable")
        np.stack(columns, axis=1)[order].astype("<u8", copy=False).tofile(self._file)
        self._batches.append([0, *np.cumsum(np.bincount(partitions, minlength=PARTITIONS)).tolist()])

    def finish(self, path: Path) -> list[int]:
        """Write the file; return the records before each partition, and all."""
        import numpy as np

        self._file.close()
        starts = np.cumsum([0, *(bounds[-1] for bounds in self._batches)]).tolist()
        counts, row = [0] * PARTITIONS, 8 * self._width
        with self._path.open("rb") as spilled, path.open("xb") as file:
            for partition in range(PARTITIONS):
                for start, bounds in zip(starts, self._batches, strict=False):
                    spilled.seek((start + bounds[partition]) * row)
                    part = bounds[partition + 1] - bounds[partition]
                    file.write(spilled.read(part * row))
                    counts[partition] += part
        self._path.unlink()
        return [0, *np.cumsum(counts).tolist()]


# -- joining -----------------------------------------------------------------------------------------------------------


def answer(
    shards: Sequence[Spilled], partition: int, folder: Path, *, min_documents: int, memory_bytes: int, scratch: str
) -> list[int]:
    """Write which records of a partition have a hash that enough clusters of documents share; `Answers` reads them.

    Args:
        shards: The records of all shards, in the order of the corpus.
        partition: Its number.
        folder: Takes the answers, shard by shard in the order of the text: place, twice the clusters plus one if it
            stands first in the record's own cluster, and the locus where it stands first.
        min_documents: Fewest clusters.
        memory_bytes: About what the buffers may hold.
        scratch: Folder for what is spilled, of this call alone.

    Returns:
        Answers before each shard, and all.
    """
    import numpy as np

    from curate.dedup.spans_kernels import group_keys
    from curate.dedup.spill import DiskColumn, Sorter, zeros_on_disk

    width = shards[0].width
    bases = _bases(shards)
    sorter = Sorter(width, memory_bytes * 3 // 4, scratch, "equal")
    for shard, base in zip(shards, bases.tolist(), strict=False):
        for records in shard.read(partition, memory_bytes // 8):
            *numbers, places = records.T
            sorter.append(*numbers, places + np.uint64((shard.rank << _RANK) + base))
    column = DiskColumn(scratch, "sorted", np.uint64)
    for batch in sorter.sorted():
        column.append(batch.reshape(-1))
    records = column.finish().reshape(-1, width)
    values = zeros_on_disk(scratch, "values", np.uint64, len(records))
    firsts = zeros_on_disk(scratch, "firsts", np.uint64, len(records))
    group_keys(records, values, firsts)
    sorter = Sorter(len(_ANSWERS), memory_bytes * 3 // 4, scratch, "answers")
    for start in range(0, len(records), _READ):
        part = slice(start, start + _READ)
        enough = values[part] >> np.uint64(1) >= min_documents
        sorter.append(_token(records[part, -1][enough]).astype(np.uint64), values[part][enough], firsts[part][enough])
    columns = [DiskColumn(str(folder), name, "<u8") for name in _ANSWERS]
    counts = np.zeros(len(shards), np.int64)
    for batch in sorter.sorted():
        places = batch[:, 0].astype(np.int64)
        owners = np.searchsorted(bases, places, "right") - 1
        counts += np.bincount(owners, minlength=len(shards))
        columns[0].append((places - bases[owners]).astype(np.uint64))
        columns[1].append(batch[:, 1])
        columns[2].append(batch[:, 2])
    for column in columns:
        column.close()
    return [0, *np.cumsum(counts).tolist()]


def _bases(shards: Sequence[Spilled]) -> Int64s:
    """Return the number of each shard's first token over the corpus, and at last that of all tokens."""
    import numpy as np

    return np.cumsum([0, *(shard.tokens for shard in shards)])


def _token(loci: Uint64s) -> Int64s:
    import numpy as np

    return (loci & np.uint64((1 << _RANK) - 1)).astype(np.int64)


class Answers:
    """What `answer` wrote about one shard, mapped into memory."""

    def __init__(self, partitions: Sequence[tuple[Path, Sequence[int]]], shard: int) -> None:
        """Open folders and bounds of all partitions, for the shard of this number."""
        self._parts = [
            [_mapped(folder / name)[bounds[shard] : bounds[shard + 1]] for name in _ANSWERS]
            for folder, bounds in partitions
        ]

    def about(self, start: int, stop: int) -> tuple[Int64s, Uint64s, Uint64s]:
        """Return places, values and loci (see `answer`) of the windows that begin at tokens [start, stop), in order."""
        import numpy as np

        found: list[list[Uint64s]] = []
        for part in self._parts:
            cut = slice(*np.searchsorted(part[0], np.array([start, stop], np.uint64)))
            found.append([column[cut] for column in part])
        places, values, firsts = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = np.argsort(places)
        return places[order].astype(np.int64), values[order], firsts[order]


class Documents:
    """Where the documents of all shards begin, as `spill_anchors` wrote it; a file is mapped when it is asked."""

    def __init__(self, shards: Sequence[Spilled]) -> None:
        """Look at what was written beside the anchors of the shards, which are all shards in order."""
        import numpy as np

        self._bases = _bases(shards)
        self._folders = [shard.path.parent for shard in shards]
        sizes = [(folder / _DOCUMENTS[0]).stat().st_size // 8 for folder in self._folders]
        self._firsts = np.cumsum([0, *sizes])

    def find(self, loci: Uint64s) -> Int64s:
        """Return the number of the document, over all shards, in which each locus lies."""
        import numpy as np

        distinct, where = np.unique(loci, return_inverse=True)
        tokens = _token(distinct)
        shards = np.searchsorted(self._bases, tokens, "right") - 1
        numbers = np.empty(len(tokens), np.int64)
        for shard in np.unique(shards).tolist():
            mine = shards == shard
            local = (tokens[mine] - self._bases[shard]).astype(np.uint64)
            starts = _mapped(self._folders[shard] / _DOCUMENTS[0])
            numbers[mine] = self._firsts[shard] + np.searchsorted(starts, local, "right") - 1
        return numbers[where]

    def names(self, numbers: Int64s) -> Uint64s:
        """Return what documents are called, shape (documents, 2)."""
        import numpy as np

        shards = np.searchsorted(self._firsts, numbers, "right") - 1
        found = np.empty((len(numbers), 2), np.uint64)
        for shard in np.unique(shards).tolist():
            mine = shards == shard
            names = _mapped(self._folders[shard] / _DOCUMENTS[1]).reshape(-1, 2)
            found[mine] = names[numbers[mine] - self._firsts[shard]]
        return found


def _mapped(path: Path) -> Uint64s:
    import numpy as np

    if not path.stat().st_size:
        return np.zeros(0, np.uint64)  # an empty file cannot be mapped
    return np.memmap(path, np.dtype("<u8"), "r").view(np.ndarray)


# -- what is repeated --------------------------------------------------------------------------------------------------


class Spans(NamedTuple):
    """Repeated spans of some documents, by document and start. Spans may overlap: each has documents of its own.

    Attributes:
        owners: Row of the document, shape (spans,), as all.
        starts, stops: First token, and the one behind the last, in the tokens of the stream.
        documents: Documents that share each window of the span; copies of one text count once.
        firsts: Number of the document (`Documents`) in which it stands first.
        loci: Where its first window stands there.
        own: Whether that document, or a copy of it, is this one.
    """

    owners: Int64s
    starts: Int64s
    stops: Int64s
    documents: Int64s
    firsts: Int64s
    loci: Uint64s
    own: npt.NDArray[np.bool_]


class Runs(NamedTuple):
    """Runs of tokens to cut, by document and start; they do not touch. Attributes as of `Spans`."""

    owners: Int64s
    starts: Int64s
    stops: Int64s


def repeated_spans(
    stream: Stream, base: int, answers: Answers, documents: Documents, *, window: int, keep_first: bool
) -> tuple[Spans, Runs]:
    """Return the repeated spans of some documents and what is to be cut of them.

    With `keep_first` every token that is cut keeps a copy: it was cut as part of a window that stands in a document of
    higher priority; that copy stays, or was cut as part of another window, which has one higher yet.

    Args:
        stream: The documents.
        base: Tokens of the shard before them.
        answers: About the windows of the shard.
        documents: Of all shards.
        window: Tokens in a window.
        keep_first: Whether a window stays in the document in which it stands first, and in copies of that document.
    """
    import numpy as np

    from curate.dedup.spans_kernels import cover

    places, values, loci = answers.about(base, base + len(stream.tokens))
    places -= base
    owners = _owners(stream, places)
    counts, own = (values >> np.uint64(1)).astype(np.int64), (values & np.uint64(1)).astype(np.bool_)
    firsts = documents.find(loci)
    same = np.zeros(len(places), np.bool_)  # as the window before, which begins one token earlier
    same[1:] = np.diff(places) == 1
    for column in (owners, counts, firsts, own):
        same[1:] &= column[1:] == column[:-1]
    begins = np.flatnonzero(~same)
    lasts = np.append(begins[1:], len(places))[: len(begins)] - 1
    spans = Spans(
        owners[begins],
        places[begins],
        places[lasts] + window,
        counts[begins],
        firsts[begins],
        loci[begins],
        own[begins],
    )
    cut = ~own if keep_first else np.ones(len(own), np.bool_)
    columns = [np.empty(int(cut.sum()), np.int64) for _ in range(3)]
    count = cover(places[cut], owners[cut], window, *columns)
    starts, stops, rows = (column[:count] for column in columns)
    return spans, Runs(rows, starts, stops)


def token_cuts(starts: Sequence[int], stops: Sequence[int], runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the bytes to cut so that runs of tokens go, and of the white space around each the longer part stays.

    Where there is none around it, a piece of that inside stays (the longest, the first of these): words are never glued. Of
    scripts without spaces there is none inside, either.

    Args:
        starts: Bytes at which the document's tokens begin.
        stops: Bytes at which they end.
        runs: First token, and the one behind the last, of what goes; in order, they do not touch, and something stays.
    """
    cuts: list[tuple[int, int]] = []
    for a, b in runs:
        if a == 0:
            cuts.append((0, starts[b]))
            continue
        if b == len(starts):
            cuts.append((stops[a - 1], stops[b - 1]))  # the text ends as it did, with a line feed or without
            continue
        before, behind = starts[a] - stops[a - 1], starts[b] - stops[b - 1]
        if before == behind == 0:
            inner, size = max(
                ((i, starts[i + 1] - stops[i]) for i in range(a, b - 1)), key=lambda gap: gap[1], default=(a, 0)
            )
            cuts += [(starts[a], stops[inner]), (starts[inner + 1], stops[b - 1])] if size else [(starts[a], starts[b])]
        elif before >= behind:
            cuts.append((starts[a], starts[b]))
        else:
            cuts.append((stops[a - 1], stops[b - 1]))
    return cuts
