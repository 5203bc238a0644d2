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

from curate.dedup import choose as choosing
from curate.dedup.clusters import find_components, link_clusters, write_shingles
from curate.dedup.minhash import Signatures
from curate.dedup.settings import Dedup, Validation
from curate.document import DUPLICATES
from curate.ledger import balance
from curate.phases.measure import Block, last_revision
from curate.pipeline import BATCH_ROWS, ParquetFile, read_removed, sizes_by_rule
from curate.plan import TaskContext
from curate.stage import Stage
from curate.words import with_words

SIGNATURES = pa.schema(
    [
        ("exact_hash", pa.string()),
        ("bands", pa.list_(pa.uint64())),
        ("num_shingles", pa.int64()),
        ("num_bytes", pa.int64()),
    ]
)


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
    """

    source: str
    rank: int
    first: int
    extracted: str
    signatures: str
    blocks: tuple[Block, ...]
    decided: tuple[str, ...] = ()


def prepare_signatures(context: TaskContext, stage: Stage, argument: Any) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that signs a batch (see `LastMeasure`)."""
    del context, argument
    assert isinstance(stage, Signatures)
    return stage.apply


def components(context: TaskContext, key: str, settings: Dedup, shards: Sequence[ShardOfCorpus]) -> None:
    """Write components.parquet: documents that may be copies of one another."""
    files = [str(context.entry(shard.signatures).path("measurements.parquet")) for shard in shards]
    with context.writing(key) as output, context.scratch() as scratch:
        find_components(
            files,
            str(output.path("components.parquet")),
            settings=settings,
            memory_bytes=context.memory,
            scratch=str(scratch),
        )


def shingles(
    context: TaskContext, key: str, settings: Dedup, components_key: str, shard: ShardOfCorpus, documents: int
) -> None:
    """Write shingles.parquet: what is compared, for the members of components in one shard."""
    path = context.entry(components_key).path("components.parquet")
    table = pq.read_table(path, filters=[("doc", ">=", shard.first), ("doc", "<", shard.first + documents)])
    members = dict(
        zip(
            table["doc"].to_pylist(),
            zip(table["component"].to_pylist(), table["exact"].to_pylist(), strict=True),
            strict=True,
        )
    )
    with context.writing(key) as output:
        write_shingles(_members(context, shard, members), str(output.path("shingles.parquet")), settings=settings)


def _members(
    context: TaskContext, shard: ShardOfCorpus, members: dict[int, tuple[int, int]]
) -> Iterator[pa.RecordBatch]:
    """Yield the members' rows with their last revision's words, in document order."""
    if not members:
        return
    signed = pq.ParquetFile(context.entry(shard.signatures).path("measurements.parquet"))
    bands: dict[str, tuple[int, Any, int]] = {}
    doc = shard.first
    for batch in signed.iter_batches(BATCH_ROWS, columns=["id", "bands", "num_bytes"]):
        for row, name in enumerate(batch["id"].to_pylist()):
            if doc in members:
                bands[name] = (doc, batch["bands"][row].as_py(), batch["num_bytes"][row].as_py())
            doc += 1
    for batch in last_revision(context, shard.source, shard.extracted, shard.blocks, bands.keys()):
        ids = batch["id"].to_pylist()
        facts = [bands[name] for name in ids]
        yield pa.record_batch(
            {
                "doc": pa.array([one[0] for one in facts], pa.int64()),
                "component": pa.array([members[one[0]][0] for one in facts], pa.int64()),
                "exact": pa.array([members[one[0]][1] for one in facts], pa.int64()),
                "id": batch["id"],
                "source_rank": pa.array([shard.rank] * len(ids), pa.int32()),
                "num_bytes": pa.array([one[2] for one in facts], pa.int64()),
                "bands": pa.array([one[1] for one in facts], pa.list_(pa.uint64())),
                "word_hashes": with_words(batch, ("word_hashes",))["word_hashes"],
            }
        )


def clusters(context: TaskContext, key: str, settings: Dedup, shingle_keys: Sequence[str]) -> None:
    """Write clusters.parquet (verified clusters among all documents) and duplicates.parquet before anything is chosen."""
    files = [str(context.entry(one).path("shingles.parquet")) for one in shingle_keys]
    with context.writing(key) as output, context.scratch() as scratch:
        path = output.path("clusters.parquet")
        link_clusters(files, str(path), settings=settings, memory_bytes=context.memory, scratch=str(scratch))
        names = {row["doc"]: row["id"] for row in pq.read_table(path, columns=["doc", "id"]).to_pylist()}
        with ParquetFile(output.path("duplicates.parquet"), DUPLICATES) as file:
            for batch in pq.ParquetFile(path).iter_batches(1000):
                file.write_rows(
                    [
                        {
                            "id": row["id"],
                            "cluster": names[row["cluster"]],
                            "cluster_size": row["cluster_size"],
                            "kept_id": None,
                            "similarity": row["similarity"],
                            "verified": row["verified"],
                        }
                        for row in batch.to_pylist()
                    ]
                )


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


STATE = pa.schema(
    [
        pa.field("doc", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("kept", pa.bool_(), nullable=False),
        pa.field("num_bytes", pa.int64(), nullable=False),
    ]
)


def _write_state(context: TaskContext, shard: ShardOfCorpus, path: Path) -> int:
    """Write which documents of a shard are still kept; return the number of documents."""
    removed = read_removed(context.entry(one).path("removed.parquet") for one in shard.decided)
    doc = shard.first
    with ParquetFile(path, STATE) as file:
        signed = pq.ParquetFile(context.entry(shard.signatures).path("measurements.parquet"))
        for batch in signed.iter_batches(1000, columns=["id", "num_bytes"]):
            ids = batch["id"].to_pylist()
            file.write(
                pa.record_batch(
                    [
                        pa.array(range(doc, doc + len(ids)), pa.int64()),
                        batch["id"],
                        pa.array([shard.source] * len(ids), pa.string()),
                        pa.array([name not in removed for name in ids], pa.bool_()),
                        batch["num_bytes"],
                    ],
                    schema=STATE,
                )
            )
            doc += len(ids)
    return doc - shard.first


def choose(
    context: TaskContext,
    key: str,
    dedup: Dedup | None,
    validation: Validation | None,
    seed: int,
    shards: Sequence[ShardOfCorpus],
    shingle_keys: Sequence[str],
) -> None:
    """Write what was chosen, one file a shard, and duplicates.parquet with the kept copies."""
    with context.writing(key) as output, context.scratch() as scratch:
        states = []
        for number, shard in enumerate(shards):
            path = scratch / f"state-{number:05d}.parquet"
            documents = _write_state(context, shard, path)
            balance(
                shard.source,
                "choose",
                "documents",
                context.entry(shard.extracted).counts["extracted"],
                {"seen": documents},
            )
            states.append(str(path))
        output.counts |= choosing.choose(
            states,
            [str(context.entry(one).path("shingles.parquet")) for one in shingle_keys],
            decisions=str(scratch / "choice.parquet"),
            duplicates=str(output.path("duplicates.parquet")),
            dedup=dedup,
            validation=validation,
            seed=seed,
            memory_bytes=context.memory,
            scratch=str(scratch),
        )
        output.counts["shards"] = _split(context, scratch / "choice.parquet", shards, output.folder)


def _split(context: TaskContext, path: Path, shards: Sequence[ShardOfCorpus], folder: Path) -> list[dict[str, Any]]:
    """Write choice-<shard>.parquet for each shard, so that a change in one leaves the others' results alone.

    Returns:
        For each shard, documents and bytes removed, by "<stage>/<rule>".
    """
    counts = []
    ends = [shard.first for shard in shards[1:]] + [None]
    schema = pq.read_schema(path)
    for number, (shard, end) in enumerate(zip(shards, ends, strict=True)):
        bounds = [("doc", ">=", shard.first)] + ([("doc", "<", end)] if end is not None else [])
        with ParquetFile(folder / f"choice-{number:05d}.parquet", schema.remove_metadata()) as file:
            for batch in pq.read_table(path, filters=bounds).to_batches(1000):
                file.write(batch.replace_schema_metadata(None))
        reasons = {
            row["id"]: f"{row['stage']}/{row['rule']}"
            for row in pq.read_table(
                folder / f"choice-{number:05d}.parquet", columns=["id", "removed", "stage", "rule"]
            ).to_pylist()
            if row["removed"]
        }
        sizes = sizes_by_rule(context.entry(shard.extracted).path("sizes.parquet"), reasons)
        counts.append({"removed": dict(sorted(Counter(reasons.values()).items())), "bytes": sizes})
    return counts
