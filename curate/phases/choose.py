"""Choose: which copies of kept documents go, what is set aside for validation, and what goes because of that.

Three kinds of tasks: `state` (a shard's documents that are still kept), `resolve` (a partition of the components) and `choose`
(all of them together).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.dedup import choose as choosing
from curate.dedup.resolving import kept_schema, resolve_partition
from curate.dedup.settings import Dedup, Validation
from curate.ledger import balance
from curate.phases.cluster import ShardOfCorpus
from curate.phases.edits import EditsAbout
from curate.pipeline import ParquetFile, RemovalCounts, Removals, read_batches
from curate.plan import TaskContext

STATE = pa.schema(
    [
        pa.field("doc", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("kept", pa.bool_(), nullable=False),
        pa.field("num_bytes", pa.int64(), nullable=False),
    ]
)


def state(context: TaskContext, key: str, components_key: str, shard: ShardOfCorpus, documents: int) -> None:
    """Write state.parquet (STATE), which documents of a shard are still kept, and kept.parquet, the same of its members."""
    path = context.entry(components_key).path("components.parquet")
    within = [("doc", ">=", shard.first), ("doc", "<", shard.first + documents)]
    members = pq.read_table(path, columns=["partition", "doc"], filters=within)
    with context.writing(key) as output:
        kept = _write_state(context, shard, output.path("state.parquet"))
        balance(shard.source, "choose", "documents", documents, {"seen": len(kept)})
        of_members = pa.array(kept[members["doc"].to_numpy() - shard.first])
        table = members.append_column("kept", of_members).cast(kept_schema()).sort_by("partition")  # stable
        starts = np.flatnonzero(np.diff(table["partition"].to_numpy(), prepend=-1))
        with pq.ParquetWriter(output.path("kept.parquet"), kept_schema(), compression="zstd") as file:
            for start, stop in itertools.pairwise([*starts.tolist(), table.num_rows]):
                file.write_table(table.slice(start, stop - start).combine_chunks(), row_group_size=stop - start)


def _write_state(context: TaskContext, shard: ShardOfCorpus, path: Path) -> np.ndarray:
    """Write the rows of a shard; return for each document whether it is kept."""
    stays: list[bool] = []
    removals = Removals(context.entry(one).path("removed.parquet") for one in shard.decided)
    edits = EditsAbout(context.entry(one).path("edits.parquet") for one in shard.edits)
    doc = shard.first
    signed = context.entry(shard.signatures).path("measurements.parquet")
    with ParquetFile(path, STATE) as file:
        for batch in read_batches(signed, ["id", "num_bytes"]):
            ids = batch["id"].to_pylist()
            removed = removals.about(ids)
            kept = [name not in removed for name in ids]
            stays += kept
            cut = Counter[str]()
            for name, spans in edits.about(ids).items():
                cut[name] = sum(span["end"] - span["start"] for span in spans)
            file.write(
                pa.record_batch(
                    [
                        pa.array(range(doc, doc + len(ids)), pa.int64()),
                        batch["id"],
                        pa.array([shard.source] * len(ids), pa.string()),
                        pa.array(kept, pa.bool_()),
                        pa.array(
                            [size - cut[name] for name, size in zip(ids, batch["num_bytes"].to_pylist(), strict=True)]
                        ),
                    ],
                    schema=STATE,
                )
            )
            doc += len(ids)
    removals.finish()
    edits.finish()
    return np.array(stays, bool)


def resolve(
    context: TaskContext,
    key: str,
    dedup: Dedup | None,
    partition: int,
    shingle_keys: Sequence[str],
    state_keys: Sequence[str],
) -> None:
    """Write resolved.parquet: what becomes of the kept documents of one partition; keys of the shards that have rows of it."""
    with context.writing(key) as output, context.scratch() as scratch:
        output.counts |= resolve_partition(
            _paths(context, shingle_keys, "shingles.parquet"),
            _paths(context, state_keys, "kept.parquet"),
            partition,
            str(output.path("resolved.parquet")),
            dedup=dedup,
            memory_bytes=context.memory,
            scratch=str(scratch),
        )


@dataclass(frozen=True, slots=True)
class Resolved:
    """The keys of what choose puts together.

    Attributes:
        components: Of the components.
        states: Of each shard.
        partitions: Of each partition's members that are compared: number to the keys of the shards with rows of it.
        resolved: Of each partition.
        semantic: Of who goes because another document says nearly the same (gone.u64), or None.
    """

    components: str
    states: tuple[str, ...]
    partitions: tuple[tuple[int, tuple[str, ...]], ...]
    resolved: tuple[str, ...]
    semantic: str | None


def choose(
    context: TaskContext,
    key: str,
    dedup: Dedup | None,
    validation: Validation | None,
    seed: int,
    shards: Sequence[ShardOfCorpus],
    found: Resolved,
) -> None:
    """Write what was chosen, one file a shard, and duplicates.parquet with the kept copies."""
    with context.writing(key) as output, context.scratch() as scratch:
        output.counts |= choosing.choose(
            _paths(context, found.states, "state.parquet"),
            str(context.entry(found.components).path("components.parquet")),
            _paths(context, found.resolved, "resolved.parquet"),
            {number: _paths(context, keys, "shingles.parquet") for number, keys in found.partitions},
            str(context.entry(found.semantic).path("gone.u64")) if found.semantic is not None else None,
            decisions=str(scratch / "choice.parquet"),
            duplicates=str(output.path("duplicates.parquet")),
            dedup=dedup,
            validation=validation,
            seed=seed,
            memory_bytes=context.memory,
            scratch=str(scratch),
        )
        output.counts["shards"] = _split(context, scratch / "choice.parquet", shards, output.folder)


def _paths(context: TaskContext, keys: Sequence[str], name: str) -> list[str]:
    return [str(context.entry(one).path(name)) for one in keys]


def _split(
    context: TaskContext, path: Path, shards: Sequence[ShardOfCorpus], folder: Path
) -> list[dict[str, dict[str, int]]]:
    """Write choice-<shard>.parquet for each shard, so that a change in one leaves the others' results alone.

    Returns:
        For each shard, documents and bytes removed, by "<stage>/<rule>".
    """
    counts = []
    schema = pq.read_schema(path).remove_metadata()
    batches = read_batches(path)
    waiting = next(batches, None)
    for number, shard in enumerate(shards):
        extracted = context.entry(shard.extracted)
        end = shard.first + extracted.counts["extracted"]
        sizes = pq.read_table(extracted.path("sizes.parquet"), columns=["bytes"])["bytes"].to_numpy()
        removed = RemovalCounts()
        with ParquetFile(folder / f"choice-{number:05d}.parquet", schema) as file:
            while waiting is not None:
                stop = int(np.searchsorted(waiting["doc"].to_numpy(), end))
                part = waiting.slice(0, stop)
                file.write(part.replace_schema_metadata(None))
                for row in part.filter(part["removed"]).select(["doc", "stage", "rule"]).to_pylist():
                    removed.add(row["stage"], row["rule"], int(sizes[row["doc"] - shard.first]))
                if stop < waiting.num_rows:
                    waiting = waiting.slice(stop)
                    break
                waiting = next(batches, None)
        counts.append(removed.as_json())
    return counts
