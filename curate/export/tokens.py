"""Token files of other trainers: a run's shards copied id for id, or its windows in the order of training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from curate.cache import sha256_file
from curate.errors import CurateError, InputError
from curate.export.folder import Task
from curate.export.layouts import Ends, Layout, Row
from curate.export.selection import AGAIN, Selection
from curate.report.run import count_rows, damage_named
from curate.tokens.order import Plan
from curate.tokens.shard import DEFAULT_SHARD_TOKENS, ShardInfo, TokenSource, stored_dtype

_CHUNK = 1 << 22  # ids in memory at once
_SLOTS = 1024  # windows in memory at once; a window has a few thousand ids

Ids = npt.NDArray[np.unsignedinteger[Any]]


def shard_tasks(selection: Selection, layout: Layout) -> list[Task]:
    """Return a task for each shard that has documents: `<split>/<stream>/<number>` with the layout's endings.

    Raises:
        InputError: If a shard is absent or not of the size that its manifest tells.
        CurateError: If the layout cannot hold the vocabulary.
    """
    tasks: list[Task] = []
    for split in selection.splits:
        for stream in selection.streams:
            source = selection.tokens(stream, split)
            tasks += [_shard_task(source, stream, shard, layout) for shard in source.shards if shard.documents]
    return tasks


def _shard_task(source: TokenSource, stream: str, shard: ShardInfo, layout: Layout) -> Task:
    stem = f"{shard.split}/{stream}/{shard.name.rpartition('-')[2]}"

    def write(folder: Path) -> Mapping[str, Any]:
        target = folder / stem
        ends = _copy(source, shard, target.with_name(target.name + layout.data), layout)
        rows = _rows(source, stream, shard) if layout.needs_rows else ()
        layout.write_beside(target, source.dtype, ends, rows)
        _compare(target, layout, source.dtype, shard.tokens, shard.documents)
        return {
            "split": shard.split,
            "source": stream,
            "tokens": shard.tokens,
            "documents": shard.documents,
            "bytes": shard.bytes,
        }

    return Task(stem, tuple(stem + ending for ending in (layout.data, *layout.beside)), write)


def _copy(source: TokenSource, shard: ShardInfo, target: Path, layout: Layout) -> Ends:
    """Copy a shard's ids and return the ends of its documents; what is damaged is named.

    The digest is that of the file as written, read back: it is the manifest's, or one of the two files is damaged.
    """
    path = source.folder / f"{shard.name}.bin"
    ends = np.fromfile(source.folder / f"{shard.name}.idx", "<u8").astype(np.int64)
    if int(ends[-1]) != shard.tokens or (np.diff(ends, prepend=0) < 1).any():
        raise InputError(str(path.with_suffix(".idx")), "its ends are not those of the documents in the .bin.", AGAIN)
    layout.check(source.vocab_size, ends)
    stored = stored_dtype(source.dtype)
    seen = first = 0
    with path.open("rb") as read, target.open("wb") as written:
        while data := read.read(_CHUNK * stored.itemsize):
            ids = np.frombuffer(data, stored)
            found = np.flatnonzero(ids == source.eos_id) + (first + 1)
            if not np.array_equal(found, ends[seen : seen + found.size]):
                raise _damage(path, shard)
            written.write(data)
            seen += found.size
            first += ids.size
    if seen != ends.size:
        raise _damage(path, shard)
    if (digest := sha256_file(target)) != shard.sha256:
        if sha256_file(path) == shard.sha256:
            raise CurateError(f"{target}: is not as it was written. Look at the disk, then export again.")
        raise _damage(path, shard, digest)
    return ends


def _damage(path: Path, shard: ShardInfo, digest: str | None = None) -> InputError:
    """Return what is wrong with a shard: its ids, or else the ends of its documents."""
    digest = digest or sha256_file(path)
    if digest != shard.sha256:
        return InputError(str(path), f"is damaged: its sha256 is {digest}, its manifest says {shard.sha256}.", AGAIN)
    return InputError(str(path.with_suffix(".idx")), "its ends are not where the EOS ids of the .bin are.", AGAIN)


def _rows(source: TokenSource, stream: str, shard: ShardInfo) -> Iterator[Row]:
    """Yield which row of which file of the run lists each document of a shard."""
    import pyarrow.parquet as pq

    path = source.folder / f"{shard.name}.docs.parquet"
    if (listed := count_rows(path)) != shard.documents:
        raise InputError(str(path), f"lists {listed:,} documents, its manifest says {shard.documents:,}.", AGAIN)
    place = 0
    with damage_named(path), pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["id"]):
            for document in batch.column(0).to_pylist():
                place += 1
                yield Row(document, f"tokens/{stream}/{path.name}", place)


def _compare(stem: Path, layout: Layout, dtype: str, tokens: int, documents: int) -> None:
    """Raise CurateError unless the files as written hold what was to be written."""
    data = stem.with_name(stem.name + layout.data)
    in_data = data.stat().st_size / np.dtype(dtype).itemsize
    found = layout.count(stem, dtype)
    if in_data != tokens or found != (tokens, documents):
        raise CurateError(
            f"{data}: {in_data:,.0f} ids were written, and {found[0]:,} in {found[1]:,} documents are stated beside them, "
            f"where the run has {tokens:,} in {documents:,}. Look at the disk, then export again."
        )


# -- the order of training --


def verify_tasks(selection: Selection, plan: Plan) -> list[Task]:
    """Return a task for each stream that reads it through and compares it with its manifest; it writes no file.

    A window is a piece of a shard, so a shard's digest cannot be taken while windows are copied.
    """

    def check(name: str) -> Task:
        def write(folder: Path) -> Mapping[str, Any]:
            del folder
            selection.tokens(name, "train").verify()
            return {}

        return Task(f"verify {name}", (), write)

    return [check(source.name) for source in plan.sources if source.windows_drawn]


def window_tasks(
    selection: Selection, plan: Plan, layout: Layout, file_tokens: int = DEFAULT_SHARD_TOKENS
) -> list[Task]:
    """Return the tasks that write the windows of all training slots in order: `train/mixture/<number>`.

    Each slot gives its C inputs and the last target behind them, C + 1 ids: what our trainer sees of it. A slot stands as
    one document, as it may begin and end inside of one.

    Args:
        selection: The run, whole.
        plan: Of its mixture.
        layout: Of the files.
        file_tokens: A file holds as many whole windows as fit, at least one.

    Raises:
        InputError: If a stream's files are absent, or hold fewer windows than the mixture counts on.
    """
    streams = {source.name: selection.tokens(source.name, "train") for source in plan.sources if source.windows_drawn}
    for source in plan.sources:
        if source.windows_drawn:
            _, stop = plan.token_span(source.windows_available - 1)
            if stop > (stream := streams[source.name]).num_tokens:
                problem = f"holds {stream.num_tokens:,} training tokens, mixture.json counts on {stop:,}."
                raise InputError(str(stream.folder), problem, AGAIN)
    dtypes = {stream.dtype for stream in streams.values()}
    if len(dtypes) != 1:
        raise InputError(str(selection.run.path / "tokens"), "streams have ids of different widths.", AGAIN)
    most = max(1, file_tokens // (plan.window + 1))
    return [
        _window_task(number, range(first, min(first + most, plan.num_slots)), plan, streams, layout)
        for number, first in enumerate(range(0, plan.num_slots, most))
    ]


def _window_task(number: int, slots: range, plan: Plan, streams: Mapping[str, TokenSource], layout: Layout) -> Task:
    stem = f"train/mixture/{number:05d}"
    length = plan.window + 1

    def write(folder: Path) -> Mapping[str, Any]:
        target = folder / stem
        some = next(iter(streams.values()))
        ends = np.arange(1, len(slots) + 1, dtype=np.int64) * length
        layout.check(some.vocab_size, ends)
        data = target.with_name(target.name + layout.data)
        digest = hashlib.sha256()
        with data.open("wb") as file:
            for block in _windows(plan, streams, slots):
                digest.update(block.tobytes())
                file.write(block.tobytes())
        layout.write_beside(target, some.dtype, ends, _slot_rows(plan, slots) if layout.needs_rows else ())
        _compare(target, layout, some.dtype, len(slots) * length, len(slots))
        if sha256_file(data) != digest.hexdigest():
            raise CurateError(f"{data}: is not as it was written. Look at the disk, then export again.")
        return {"split": "train", "source": "mixture", "tokens": len(slots) * length, "windows": len(slots)}

    return Task(stem, tuple(stem + ending for ending in (layout.data, *layout.beside)), write)


def _windows(plan: Plan, streams: Mapping[str, TokenSource], slots: range) -> Iterator[Ids]:
    """Yield the ids of slots, some at a time, each of shape (windows, C + 1)."""
    some = max(1, min(_SLOTS, _CHUNK // (plan.window + 1)))
    stored = stored_dtype(next(iter(streams.values())).dtype)
    for first in range(slots.start, slots.stop, some):
        sources, windows = plan.slots(np.arange(first, min(first + some, slots.stop)))
        block = np.empty((sources.size, plan.window + 1), stored)
        for row, (source, window) in enumerate(zip(sources.tolist(), windows.tolist(), strict=True)):
            block[row] = streams[plan.names[source]].tokens(*plan.token_span(window))
        yield block


def _slot_rows(plan: Plan, slots: Iterable[int]) -> Iterator[Row]:
    """Yield which window of which stream each slot shows."""
    for slot in slots:
        name, window = plan.slot(slot)
        yield Row(f"slot {slot}", f"tokens/{name}", window + 1)
