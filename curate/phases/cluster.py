"""Cluster and choose: which documents are copies of which, which copy stays, and what is set aside for validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.dedup.clusters import link_partition, merge_clusters, write_shingles
from curate.dedup.exact import exact_hashes
from curate.dedup.keeping import count_undated, stored_preferences
from curate.dedup.members import list_rows
from curate.dedup.minhash import Signatures
from curate.dedup.settings import Dedup
from curate.dedup.spill import DiskColumn
from curate.document import DUPLICATES
from curate.ledger import same_rows
from curate.phases.measure import Block, last_revision
from curate.pipeline import (
    ParquetFile,
    RowsBeside,
    apply_step,
    read_batches,
    replace_text,
    text_bytes,
)
from curate.plan import TaskContext
from curate.stage import Stage
from curate.words import with_words

SIGNATURES = pa.schema(
    [
        ("exact_hash", pa.string()),
        ("bands", pa.list_(pa.uint64())),
        ("num_shingles", pa.int64()),
        ("num_bytes", pa.int64()),
        ("url_hash", pa.string()),
        ("payload_hash", pa.string()),
        ("signature", pa.binary()),
    ]
)


_SIGNED = ("num_bytes", "bands", "url_hash", "payload_hash")  # what of these is compared


@dataclass(frozen=True, slots=True)
class ShardOfCorpus:
    """One shard as the whole-corpus phases see it.

    Attributes:
        source: Name of the source.
        rank: Its priority, 0 is kept first.
        first: Number of its first document over the whole corpus.
        extracted: Result key of extract.
        signatures: Result key of the signatures.
        blocks: Steps up to the last revision.
        decided: Result keys with removed.parquet, in phase order.
        edits: Result keys with edits.parquet, in phase order.
        lines: Result key of the hashed lines, or an empty string.
        tokens: Result key of the hashed tokens, or an empty string.
        measures: Columns that say which copy stays, each with the result key of the last step that measures it.
    """

    source: str
    rank: int
    first: int
    extracted: str
    signatures: str
    blocks: tuple[Block, ...]
    decided: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    lines: str = ""
    tokens: str = ""
    measures: tuple[tuple[str, str], ...] = ()


def prepare_signatures(context: TaskContext, stage: Stage, argument: Any) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that signs a batch (see `LastMeasure`); `argument` is the source and its `at: collect` steps.

    Near copies are found on the last revision, equal ones on the text that is written in the end: pages that differ in one
    e-mail address are equal once it is masked, and one of them must not be validation while the other is trained on.
    """
    assert isinstance(stage, Signatures)
    source, finals = argument
    rewrites = [block for block in finals if block.step.rewrites]
    if not rewrites:
        return stage.apply

    def sign(batch: pa.RecordBatch) -> pa.RecordBatch:
        signed = stage.apply(batch)
        final = batch
        for block in rewrites:
            final = replace_text(final, apply_step(block.step, block.name, source, block.stage_key, final, context)[1])
        columns = {"exact_hash": exact_hashes(final["text"]), "num_bytes": pa.array(text_bytes(final["text"]))}
        return pa.RecordBatch.from_arrays(
            [columns.get(name, signed[name]) for name in SIGNATURES.names], schema=SIGNATURES
        )

    return sign


def shingles(
    context: TaskContext, key: str, settings: Dedup, components_key: str, shard: ShardOfCorpus, documents: int
) -> None:
    """Write shingles.parquet: what is compared, for the members of components in one shard.

    Its counts: `partitions` that have rows in it, and if dates decide `dates` (`count_undated`).
    """
    path = context.entry(components_key).path("components.parquet")
    members = pq.read_table(path, filters=[("doc", ">=", shard.first), ("doc", "<", shard.first + documents)])
    dates = Counter[str]()
    with context.writing(key) as output, context.scratch() as scratch:
        output.counts["partitions"] = write_shingles(
            _members(context, settings, shard, members, dates),
            str(output.path("shingles.parquet")),
            settings=settings,
            scratch=str(scratch),
        )
        output.counts["dates"] = dict(dates)


def _members(
    context: TaskContext, settings: Dedup, shard: ShardOfCorpus, members: pa.Table, dates: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the members' rows with their last revision's words, in document order.

    Args:
        context: Of the task.
        settings: The recipe's; `keep` says what is looked at besides the text.
        shard: The shard.
        members: The shard's part of components.parquet, doc ascending.
        dates: Added to, if dates decide.
    """
    if not members.num_rows:
        return
    docs = members["doc"].to_numpy()
    signed = RowsBeside(context.entry(shard.signatures).path("measurements.parquet"), ["id", *_SIGNED])
    measured = {
        column: RowsBeside(context.entry(key).path("measurements.parquet"), ["id", column])
        for column, key in shard.measures
    }
    first = shard.first
    for batch in read_batches(context.entry(shard.extracted).path("extracted.parquet")):
        rows = signed.take(batch.num_rows)
        beside = {column: file.take(batch.num_rows) for column, file in measured.items()}
        for table in (rows, *beside.values()):
            same_rows(shard.source, "cluster", "", batch["id"].to_pylist(), table["id"].to_pylist())
        start, stop = np.searchsorted(docs, [first, first + batch.num_rows]).tolist()
        places = pa.array(docs[start:stop] - first)
        first += batch.num_rows
        if start == stop:
            continue
        last = last_revision(context, shard.source, shard.blocks, batch.take(places))
        facts = rows.take(places).combine_chunks()
        some = members.slice(start, stop - start).combine_chunks()
        numbers = {name: table[name].combine_chunks().take(places) for name, table in beside.items()}
        metadata = last["metadata"] if settings.keep.dated else None
        preferences = stored_preferences(settings.keep, metadata, numbers, last.num_rows)
        if metadata is not None:
            dates.update(count_undated(metadata))
        yield pa.record_batch(
            {
                **{name: some[name].chunk(0) for name in ("doc", "component", "exact", "partition")},
                "id": last["id"],
                "source_rank": pa.array([shard.rank] * last.num_rows, pa.int32()),
                **{name: facts[name].chunk(0) for name in _SIGNED},
                "preferences": list_rows(preferences),
                "word_hashes": with_words(last, ("word_hashes",))["word_hashes"],
            }
        )


def link(context: TaskContext, key: str, settings: Dedup, partition: int, shingle_keys: Sequence[str]) -> None:
    """Write linked.parquet: the verified clusters of one partition; the keys are those of shards that have rows of it."""
    with context.writing(key) as output, context.scratch() as scratch:
        output.counts |= link_partition(
            [str(context.entry(one).path("shingles.parquet")) for one in shingle_keys],
            partition,
            str(output.path("linked.parquet")),
            settings=settings,
            memory_bytes=context.memory,
            scratch=str(scratch),
        )


def clusters(context: TaskContext, key: str, linked: Sequence[str]) -> None:
    """Write clusters.parquet (verified clusters among all documents) and duplicates.parquet before anything is chosen."""
    files = [str(context.entry(one).path("linked.parquet")) for one in linked]
    with context.writing(key) as output, context.scratch() as scratch:
        path = output.path("clusters.parquet")
        merge_clusters(files, str(path), memory_bytes=context.memory, scratch=str(scratch))
        name_of = _names(path, scratch)
        with ParquetFile(output.path("duplicates.parquet"), DUPLICATES) as file:
            for batch in read_batches(path):
                columns = {
                    "cluster": pa.array(name_of(batch["cluster"].to_numpy()), pa.string()),
                    "kept_id": pa.nulls(batch.num_rows, pa.string()),
                }
                arrays = [columns[name] if name in columns else batch[name] for name in DUPLICATES.names]
                file.write(pa.RecordBatch.from_arrays(arrays, schema=DUPLICATES))


def _names(path: Path, scratch: Path) -> Callable[[np.ndarray], list[str]]:
    """Return the function from numbers of documents in clusters.parquet to their ids, which stay on disk."""
    docs, ids = DiskColumn(str(scratch), "named_docs", np.int64), DiskColumn(str(scratch), "named_ids", np.uint8)
    for batch in read_batches(path, ["doc", "id"]):
        docs.append(batch["doc"].to_numpy())
        ids.append(np.frombuffer(bytes.fromhex("".join(batch["id"].to_pylist())), np.uint8))
    numbers, raw = docs.finish(), ids.finish().reshape(-1, 16)

    def name_of(wanted: np.ndarray) -> list[str]:
        return [row.tobytes().hex() for row in raw[np.searchsorted(numbers, wanted)]]

    return name_of


def cluster_numbers(context: TaskContext, key: str | None, first: int, documents: int) -> np.ndarray:
    """Return for each document of a shard the number of its cluster: its own if it is alone; shape (documents,)."""
    numbers = np.arange(first, first + documents)
    if key is not None:
        path = context.entry(key).path("clusters.parquet")
        table = pq.read_table(
            path, columns=["doc", "cluster"], filters=[("doc", ">=", first), ("doc", "<", first + documents)]
        )
        numbers[table["doc"].to_numpy() - first] = table["cluster"].to_numpy()
    return numbers
