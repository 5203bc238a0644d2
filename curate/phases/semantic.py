"""Documents that say nearly the same: their vectors, groups of these, and who goes in each group (`curate.dedup.semantic`).

Tasks of the phase choose, behind the choice among copies of a text: `taking_part` (a shard's documents that are still
kept), `centroids` (over a sample of all), `assign` (a shard's documents to groups), `shares` (groups to tasks), `judge` (a few
groups) and `gone` (all that go, in document order). Before them, of embeddings in files: `read_file`, `merge` and `join`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curate.cache import Entry
from curate.dedup.keeping import priority_columns, stored_preferences
from curate.dedup.semantic import choose_semantic
from curate.dedup.semantic_files import (
    GONE,
    Embeddings,
    halves,
    key_of_id,
    key_of_source_id,
    mapped,
    merge_keys,
    read_embeddings,
)
from curate.dedup.semantic_groups import default_clusters, fit_centroids, nearest_centroids, sample_threshold
from curate.dedup.semantic_vectors import (
    UNIT,
    Int8s,
    Int64s,
    WordVectors,
    compared,
    sum_of_units,
    vector_column,
    vector_schema,
    vectors_of,
)
from curate.dedup.settings import Keep
from curate.dedup.spill import DiskColumn, Sorter, zeros_on_disk
from curate.document import SEMANTIC
from curate.errors import InputError
from curate.inputs import InputFile, fetch
from curate.ledger import same_rows
from curate.phases.cluster import ShardOfCorpus
from curate.pipeline import ParquetFile, Removals, RowsBeside, read_batches
from curate.plan import TaskContext
from curate.stage import Stage
from curate.text.hashing import choice_hash

Uint64s = npt.NDArray[np.uint64]

PER_TASK = 1 << 18  # documents of the groups of one task, about; a group is never divided
_ROWS = 1 << 12


@dataclass(frozen=True, slots=True)
class Looked:
    """A shard that is looked at.

    Attributes:
        corpus: The shard.
        vectors: Result key of its vectors: measurements.parquet with id and vector.
        copies: Result key of `copies_gone`.
    """

    corpus: ShardOfCorpus
    vectors: str
    copies: str


def prepare_vectors(context: TaskContext, stage: Stage, argument: Any) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that embeds a batch (see `LastMeasure`)."""
    assert isinstance(stage, WordVectors)
    del context, argument
    text = pa.array(["The barge left the town before noon."], pa.large_string())
    stage.apply(pa.record_batch({"text": text}))  # loads and compiles: the limit on a row's time is not for that
    return stage.apply


# -- embeddings in files -----------------------------------------------------------------------------------------------

JOINED = pa.schema(
    [pa.field("id", pa.string(), nullable=False), *vector_schema(), pa.field("row", pa.int64(), nullable=False)]
)


def read_file(context: TaskContext, key: str, file: InputFile) -> None:
    """Write vectors.i16 and keys.u64 of one file of embeddings (see `read_embeddings`)."""
    with context.writing(key) as output, context.scratch() as folder:
        output.counts |= read_embeddings(fetch(file, folder), file.path, output.folder)


def merge(context: TaskContext, key: str, names: Sequence[str], read: Sequence[str]) -> None:
    """Write the sorted keys of all files of embeddings (see `merge_keys`)."""
    entries = [context.entry(one) for one in read]
    files = [(name, entry.folder, dict(entry.counts)) for name, entry in zip(names, entries, strict=True)]
    with context.writing(key) as output, context.scratch() as folder:
        output.counts |= merge_keys(files, output.folder, context.memory, str(folder))


def join(context: TaskContext, key: str, shard: ShardOfCorpus, merged: str, read: Sequence[str]) -> None:
    """Write measurements.parquet of one shard: id, vector (null without one) and its row over all files (-1)."""
    table = context.entry(merged)
    by = table.counts["by"]
    known = Embeddings(table.folder, [context.entry(one).folder for one in read], table.counts["dimensions"])
    with context.writing(key) as output, ParquetFile(output.path("measurements.parquet"), JOINED) as file:
        for batch in read_batches(context.entry(shard.extracted).path("extracted.parquet"), ["id", "source_id"]):
            ids = batch[by].to_pylist()
            there = np.array([one is not None for one in ids], np.bool_)
            named = [one for one in ids if one is not None]
            found = halves([key_of_id(one) if by == "id" else key_of_source_id(one) for one in named])
            vectors = np.zeros((len(ids), max(table.counts["dimensions"], 1)), np.int16)
            rows = np.full(len(ids), -1, np.int64)
            if table.counts["dimensions"]:
                vectors[there], rows[there] = known.find(found)
            columns = [batch["id"], vector_column(vectors), pa.array(rows)]
            file.write(pa.RecordBatch.from_arrays(columns, schema=JOINED))


# -- who takes part ----------------------------------------------------------------------------------------------------


def copies_gone(context: TaskContext, key: str, resolved: Sequence[str], documents: int) -> None:
    """Write gone.u8, one byte for each document of the corpus: 1 if it goes as a copy of a text, an address or a payload.

    Args:
        context: Of the task.
        key: Of the result.
        resolved: Results with resolved.parquet (`curate.dedup.resolving`), one a partition.
        documents: Number of documents of the corpus.
    """
    with context.writing(key) as output:
        marks = zeros_on_disk(str(output.folder), "gone.u8", np.uint8, documents)
        if not documents:
            output.path("gone.u8").touch()
        for one in resolved:
            for batch in read_batches(context.entry(one).path("resolved.parquet"), ["doc", "code"]):
                marks[batch["doc"].to_numpy()[batch["code"].to_numpy() > 0]] = 1
        del marks  # unmapped before the file is renamed


def taking_part(context: TaskContext, key: str, keep: Keep, seed: int, shard: Looked) -> None:
    """Write what is known of a shard's documents that are still kept and have a vector, one file a column.

    docs.i64, hashes.u64 (of the random choice), ids.u64 (two halves), priorities.u64 (smallest first), vectors.i16, sum.i64
    (of vectors at length 1), and with embeddings in files rows.i64. Its counts: `width` of the priorities, `dimensions`,
    `looked_at` and `without` a vector.
    """
    counts = {"looked_at": 0, "without": 0, "dimensions": 0, "width": 0}
    total: Int64s = np.zeros(0, np.int64)
    with context.writing(key) as output:
        columns = {
            name: DiskColumn(str(output.folder), name, dtype)
            for name, dtype in (
                ("docs.i64", np.int64),
                ("hashes.u64", np.uint64),
                ("ids.u64", np.uint64),
                ("priorities.u64", np.uint64),
                ("vectors.i16", np.int16),
                ("rows.i64", np.int64),
            )
        }
        for docs, ids, priorities, kept, batch in _kept(context, keep, shard):
            vectors, there = vectors_of(batch["vector"])
            mine = kept & there
            counts["looked_at"] += int(kept.sum())
            counts["without"] += int((kept & ~there).sum())
            counts["width"] = priorities.shape[1]
            if not mine.any():
                continue
            if counts["dimensions"] not in (0, vectors.shape[1]):
                raise ValueError("vectors of one shard are not of one length")
            counts["dimensions"] = vectors.shape[1]
            of_mine = [ids[row] for row in np.flatnonzero(mine)]
            columns["docs.i64"].append(docs[mine])
            columns["hashes.u64"].append(np.array([choice_hash(seed, one, "semantic") for one in of_mine], np.uint64))
            columns["ids.u64"].append(halves([int(one, 16) for one in of_mine]).reshape(-1))
            columns["priorities.u64"].append(priorities[mine].reshape(-1))
            columns["vectors.i16"].append(vectors[mine[there]].reshape(-1))
            units = sum_of_units(vectors[mine[there]])
            total = total + units if len(total) else units
            if "row" in batch.schema.names:
                columns["rows.i64"].append(batch["row"].to_numpy()[mine])
        for column in columns.values():
            column.close()
        total.tofile(output.path("sum.i64"))
        output.counts |= counts


def _kept(
    context: TaskContext, keep: Keep, shard: Looked
) -> Iterator[tuple[Int64s, list[str], Uint64s, npt.NDArray[np.bool_], pa.RecordBatch]]:
    """Yield (docs, ids, priorities, which are still kept, the rows with their vectors) for each batch of a shard."""
    corpus = shard.corpus
    extracted = context.entry(corpus.extracted).path("extracted.parquet")
    vectors = RowsBeside(context.entry(shard.vectors).path("measurements.parquet"))
    sizes = RowsBeside(context.entry(corpus.signatures).path("measurements.parquet"), ["id", "num_bytes"])
    measured = {
        column: RowsBeside(context.entry(key).path("measurements.parquet"), ["id", column])
        for column, key in corpus.measures
    }
    removals = Removals(context.entry(one).path("removed.parquet") for one in corpus.decided)
    copies = mapped(context.entry(shard.copies).path("gone.u8"), np.uint8, 1)[:, 0]
    first = corpus.first
    for batch in read_batches(extracted, ["id", "metadata"] if keep.dated else ["id"]):
        ids = batch["id"].to_pylist()
        beside = {column: file.take(len(ids)) for column, file in measured.items()}
        of_sizes, of_vectors = sizes.take(len(ids)), vectors.take(len(ids))
        for table in (of_sizes, of_vectors, *beside.values()):
            same_rows(corpus.source, "choose", "", ids, table["id"].to_pylist())
        removed = removals.about(ids)
        numbers = {column: table[column].combine_chunks() for column, table in beside.items()}
        stored = stored_preferences(keep, batch["metadata"] if keep.dated else None, numbers, len(ids))
        priorities = priority_columns(
            keep,
            np.full(len(ids), corpus.rank, np.int64),
            of_sizes["num_bytes"].to_numpy(),
            halves([int(one, 16) for one in ids]),
            stored,
        )
        kept = np.array([one not in removed for one in ids], np.bool_)
        kept &= copies[first : first + len(ids)] == 0
        docs = np.arange(first, first + len(ids))
        first += len(ids)
        yield docs, ids, priorities, kept, of_vectors.combine_chunks().to_batches()[0]
    removals.finish()


# -- groups ------------------------------------------------------------------------------------------------------------


def centroids(
    context: TaskContext,
    key: str,
    clusters: int | None,
    parts: Sequence[str],
    subtract_mean: bool,
    embeddings: str,
) -> None:
    """Write mean.f64 (of all vectors at length 1, or zeros) and centroids.i8.

    Its counts: documents, dimensions, clusters, sampled, mean_length.

    Args:
        context: Of the task.
        key: Of the result.
        clusters: Wanted number of groups, or None for `default_clusters`.
        parts: Results of `taking_part`.
        subtract_mean: Whether vectors are compared without the mean of all.
        embeddings: The files of embeddings, for messages; empty with a model.

    Raises:
        InputError: If one embedding is that of two documents.
    """
    entries = [context.entry(one) for one in parts]
    dimensions = {entry.counts["dimensions"] for entry in entries} - {0}
    assert len(dimensions) <= 1, dimensions
    width = dimensions.pop() if dimensions else 1
    documents = sum(entry.path("docs.i64").stat().st_size // 8 for entry in entries)
    wanted = min(clusters or default_clusters(documents), max(documents, 1))
    total = np.zeros(width, np.int64)
    for entry in entries:
        if entry.counts["dimensions"]:
            total += mapped(entry.path("sum.i64"), np.int64, 1)[:, 0]
    mean = total / (UNIT * max(documents, 1))
    with context.writing(key) as output, context.scratch() as folder:
        if embeddings:
            _no_row_twice(entries, str(folder), embeddings)
        used = mean if subtract_mean else np.zeros(width)
        used.tofile(output.path("mean.f64"))
        sample = _sample(context, entries, sample_threshold(documents, wanted), used, folder)
        made = fit_centroids(sample, wanted, context.memory) if len(sample) else np.zeros((0, width), np.int8)
        made.tofile(output.path("centroids.i8"))
        output.counts |= {"documents": documents, "dimensions": width, "clusters": len(made), "sampled": len(sample)}
        output.counts["mean_length"] = round(float(np.sqrt(sum(number * number for number in mean.tolist()))), 4)


def _sample(context: TaskContext, entries: Sequence[Entry], threshold: int, mean: np.ndarray, folder: Path) -> Int8s:
    """Return the vectors of the documents with a hash below the threshold, in order of hash, on disk."""
    width, count = len(mean), 0
    sorter, found = Sorter(2, context.memory // 2, str(folder), "sample"), DiskColumn(str(folder), "found", np.int8)
    for entry in entries:
        hashes = mapped(entry.path("hashes.u64"), np.uint64, 1)[:, 0]
        vectors = mapped(entry.path("vectors.i16"), np.int16, width)
        for start in range(0, len(hashes), _ROWS):
            part = hashes[start : start + _ROWS]
            mine = np.flatnonzero(part <= np.uint64(threshold - 1))
            turned = compared(vectors[start + mine], mean)
            some = turned.any(axis=1)
            sorter.append(part[mine[some]], np.arange(count, count + int(some.sum())))
            found.append(turned[some].reshape(-1))
            count += int(some.sum())
    in_order = zeros_on_disk(str(folder), "sample", np.int8, count * width).reshape(count, width)
    unordered, done = found.finish().reshape(count, width), 0
    for records in sorter.sorted():
        for start in range(0, len(records), _ROWS):
            rows = records[start : start + _ROWS, 1].astype(np.int64)
            in_order[done : done + len(rows)] = unordered[rows]
            done += len(rows)
    return in_order


def _no_row_twice(entries: Sequence[Entry], folder: str, embeddings: str) -> None:
    last = max((int(mapped(entry.path("rows.i64"), np.int64, 1).max(initial=-1)) for entry in entries), default=-1)
    used = zeros_on_disk(folder, "used", np.uint8, last + 1)
    for entry in entries:
        rows = mapped(entry.path("rows.i64"), np.int64, 1)[:, 0]
        for start in range(0, len(rows), _ROWS):
            part, times = np.unique(rows[start : start + _ROWS], return_counts=True)
            if (used[part] | (times > 1)).any():
                problem = "a row's source_id is that of several documents: they would count as saying the same."
                raise InputError(
                    embeddings, problem, "Name documents by `id`, or name one source in dedup.semantic.sources."
                )
            used[part] = 1


def assign(context: TaskContext, key: str, part: str, fitted: str) -> None:
    """Write a shard's vectors as they are compared (vectors.i8), and its rows by group.

    rows.i32: rows of `taking_part`, group by group; bounds.i64: where groups begin, and the end. A document in the mean
    direction itself is in none: `counts["central"]`.
    """
    entry, fit = context.entry(part), context.entry(fitted)
    mean = mapped(fit.path("mean.f64"), np.float64, 1)[:, 0]
    middles = mapped(fit.path("centroids.i8"), np.int8, len(mean))
    vectors = mapped(entry.path("vectors.i16"), np.int16, len(mean))
    nearest = np.full(len(vectors), len(middles), np.int32)
    with context.writing(key) as output:
        with output.path("vectors.i8").open("wb") as file:
            for start in range(0, len(vectors), _ROWS):
                turned = compared(vectors[start : start + _ROWS], mean)
                turned.tofile(file)
                some = np.flatnonzero(turned.any(axis=1))
                nearest[start + some] = nearest_centroids(turned[some], middles, context.memory) if len(some) else 0
        order = np.argsort(nearest, kind="stable").astype(np.int32)
        bounds = np.searchsorted(nearest[order], np.arange(len(middles) + 1))
        order[: bounds[-1]].tofile(output.path("rows.i32"))
        bounds.astype(np.int64).tofile(output.path("bounds.i64"))
        output.counts["central"] = len(vectors) - int(bounds[-1])


def shares(context: TaskContext, key: str, assigned: Sequence[str], clusters: int) -> None:
    """Put neighbouring groups together for tasks of about PER_TASK documents; `counts["groups"]`: first and behind the last."""
    sizes = np.zeros(clusters, np.int64)
    for one in assigned:
        sizes += np.diff(mapped(context.entry(one).path("bounds.i64"), np.int64, 1)[:, 0])
    groups: list[list[int]] = []
    room = 0
    for number, size in enumerate(sizes.tolist()):
        if not groups or size > room:
            groups.append([number, number])
            room = PER_TASK
        groups[-1][1] = number + 1
        room -= size
    with context.writing(key) as output:
        output.counts["groups"] = groups
        output.counts["largest"] = int(sizes.max(initial=0))


# -- who goes ----------------------------------------------------------------------------------------------------------


def judge(
    context: TaskContext,
    key: str,
    similarity: float,
    parts: Sequence[str],
    assigned: Sequence[str],
    groups: tuple[int, int],
    dimensions: int,
) -> None:
    """Write gone.u64: a record (GONE) for each document that goes in groups from the first to behind the last."""
    first, last = groups
    widths = {context.entry(one).counts["width"] for one in parts} - {0}
    width = widths.pop() if widths else 0
    with context.writing(key) as output, context.scratch() as folder, output.path("gone.u64").open("wb") as file:
        sorter = Sorter(3 + width, context.memory // 2, str(folder), "order")  # group, priorities, doc, place
        vectors, ids = DiskColumn(str(folder), "vectors", np.int8), DiskColumn(str(folder), "ids", np.uint64)
        docs, count = DiskColumn(str(folder), "docs", np.int64), 0
        for part, one in zip(parts, assigned, strict=True):
            entry, of_groups = context.entry(part), context.entry(one)
            bounds = mapped(of_groups.path("bounds.i64"), np.int64, 1)[:, 0]
            rows = mapped(of_groups.path("rows.i32"), np.int32, 1)[:, 0]
            of_docs = mapped(entry.path("docs.i64"), np.int64, 1)[:, 0]
            of_ids = mapped(entry.path("ids.u64"), np.uint64, 2)
            priorities = mapped(entry.path("priorities.u64"), np.uint64, max(width, 1))
            of_vectors = mapped(of_groups.path("vectors.i8"), np.int8, dimensions)
            for start in range(bounds[first], bounds[last], _ROWS):
                places = np.arange(start, min(start + _ROWS, bounds[last]))
                mine = rows[places]
                of_group = np.searchsorted(bounds, places, "right") - 1
                numbers = of_docs[mine]
                sorter.append(of_group, *priorities[mine].T, numbers, np.arange(count, count + len(mine)))
                vectors.append(of_vectors[mine].reshape(-1))
                ids.append(of_ids[mine].reshape(-1))
                docs.append(numbers)
                count += len(mine)
        in_order = zeros_on_disk(str(folder), "in-order", np.int64, count)
        sizes, done = np.zeros(last - first, np.int64), 0
        for records in sorter.sorted():
            in_order[done : done + len(records)] = records[:, -1]
            done += len(records)
            sizes += np.bincount(records[:, 0].astype(np.int64) - first, minlength=last - first)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        all_vectors = vectors.finish().reshape(count, dimensions)
        names, numbers = ids.finish().reshape(count, 2), docs.finish()
        for group in range(first, last):
            order = in_order[ends[group - first] : ends[group - first + 1]]
            half = context.memory // 2
            for chosen in choose_semantic(all_vectors, order, similarity, memory_bytes=half, scratch=str(folder)):
                record = np.empty((len(chosen.rows), GONE), np.uint64)
                record[:, 0], record[:, 1] = numbers[chosen.rows], numbers[chosen.kept]
                record[:, 2], record[:, 3] = chosen.similarities.view(np.uint64), group
                record[:, 4:6], record[:, 6:8] = names[chosen.rows], names[chosen.kept]
                record.tofile(file)


def gone(context: TaskContext, key: str, judged: Sequence[str]) -> None:
    """Write gone.u64 in document order, and semantic.parquet (SEMANTIC). Its counts: removed, stand_for (distinct kept documents)."""
    with context.writing(key) as output, context.scratch() as folder:
        sorter = Sorter(GONE, context.memory // 2, str(folder), "gone")
        kept = Sorter(1, context.memory // 4, str(folder), "kept")
        for one in judged:
            records = mapped(context.entry(one).path("gone.u64"), np.uint64, GONE)
            for start in range(0, len(records), _ROWS):
                part = records[start : start + _ROWS]
                sorter.append(*part.T)
                kept.append(part[:, 1])
        removed = 0
        with (
            output.path("gone.u64").open("wb") as file,
            ParquetFile(output.path("semantic.parquet"), SEMANTIC) as table,
        ):
            for records in sorter.sorted():
                removed += len(records)
                records.tofile(file)
                for start in range(0, len(records), _ROWS):
                    table.write(_rows_of(records[start : start + _ROWS]))
        distinct, last = 0, -1
        for records in kept.sorted():
            values = np.unique(records[:, 0]).astype(np.int64)
            distinct += len(values) - int(len(values) > 0 and values[0] == last)
            last = int(values[-1]) if len(values) else last
        output.counts |= {"removed": removed, "stand_for": distinct}


def _rows_of(records: Uint64s) -> pa.RecordBatch:
    ids, kept = hex_ids(records[:, 4:6]), hex_ids(records[:, 6:8])
    similarities = np.ascontiguousarray(records[:, 2]).view(np.float64)
    columns = [pa.array(ids, pa.string()), pa.array(kept, pa.string()), pa.array(similarities)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(records[:, 3].astype(np.int64))], schema=SEMANTIC)


def hex_ids(numbers: Uint64s) -> list[str]:
    """Return ids of 32 hex digits, given as two halves each."""
    return [f"{high:016x}{low:016x}" for high, low in numbers.tolist()]
