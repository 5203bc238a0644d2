"""Rank: a source's scores to buckets of equal size, exactly, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curate.filter.buckets import QualityBuckets
from curate.ledger import balance
from curate.phases.measure import block_schema
from curate.phases.resolve import Floats, Selection, ShardJudged, kept_before
from curate.pipeline import ParquetFile
from curate.plan import TaskContext


def find_edges(
    context: TaskContext, key: str, source: str, shards: Sequence[ShardJudged], step: QualityBuckets
) -> None:
    """Write edges.json: for each score the number of documents and the least score of each bucket but the first.

    Args:
        context: Of the task.
        key: Of the result.
        source: Name of the source.
        shards: Its shards, with the blocks up to and with that of the buckets.
        step: The settings.
    """
    with context.writing(key) as output, context.scratch() as folder:
        ranked = Selection(context.memory, folder, "ranks")
        for name in step.scores:
            ranked.add(name, np.zeros(0))
        for shard in shards:
            for _, columns, keep in kept_before(context, source, _unmeasured(shard)):
                for name in step.scores:
                    values = _numbers(columns[name])
                    ranked.add(name, values[keep & ~np.isnan(values)])
        edges = {name: np.full(step.buckets - 1, np.inf) for name in step.scores}
        below = dict.fromkeys(step.scores, 0)
        for name, values, counts in ranked.distinct():
            before = below[name] + np.cumsum(counts) - counts
            below[name] += int(counts.sum())
            # Bucket k begins with the first score below which k / buckets of the documents lie, in whole documents.
            wanted = -(-np.arange(1, step.buckets) * ranked.counts[name] // step.buckets)
            places = np.searchsorted(before, wanted, side="left")
            found = (places < len(values)) & np.isinf(edges[name])
            edges[name][found] = values[places[found]]
        shown = {
            name: {
                "documents": ranked.counts[name],
                "edges": [None if np.isinf(edge) else edge for edge in edges[name].tolist()],
            }
            for name in step.scores
        }
        output.path("edges.json").write_text(json.dumps(shown) + "\n")


def _unmeasured(shard: ShardJudged) -> ShardJudged:
    return replace(shard, blocks=(*shard.blocks[:-1], replace(shard.blocks[-1], key=None)))


def _numbers(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)  # null becomes NaN


def buckets_of(columns: Mapping[str, pa.ChunkedArray], edges: Mapping[str, Sequence[float | None]]) -> pa.Array:
    """Return the bucket of each document, the highest of its scores'; null without a score.

    Args:
        columns: Scores by name.
        edges: Least score of each bucket but the first; None where no score reaches it.
    """
    best: npt.NDArray[np.int64] | None = None
    for name, bounds in edges.items():
        values = _numbers(columns[name])
        numbers = np.array([np.inf if bound is None else bound for bound in bounds])
        found = np.searchsorted(numbers, values, side="right").astype(np.int64)
        found[np.isnan(values)] = -1
        best = found if best is None else np.maximum(best, found)
    assert best is not None, "settings demand a score"
    return pa.array(best, pa.int64(), mask=best < 0)


def rank_shard(
    context: TaskContext, key: str, source: str, shard: ShardJudged, step: QualityBuckets, edges_key: str
) -> None:
    """Write measurements.parquet: the bucket of each document of a shard, also of those that are removed."""
    edges = json.loads(context.entry(edges_key).path("edges.json").read_text())
    bounds = {name: edges[name]["edges"] for name in step.scores}
    schema = block_schema(step)
    rows = 0
    with context.writing(key) as output:
        with ParquetFile(output.path("measurements.parquet"), schema) as file:
            for ids, columns, _ in kept_before(context, source, _unmeasured(shard)):
                rows += len(ids)
                none = [pa.nulls(len(ids), schema.field(name).type) for name in ("failure", "failure_message")]
                file.write(pa.RecordBatch.from_arrays([ids, buckets_of(columns, bounds), *none], schema=schema))
        balance(source, "rank", "documents", context.entry(shard.extracted).counts["extracted"], {"ranked": rows})
