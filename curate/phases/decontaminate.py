"""Decontaminate: benchmark overlap of each document, with phrases that the whole corpus shares left out of account."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.benchmarks.items import BenchmarkFiles
from curate.decontaminate.decide import Common, count_common, decide
from curate.decontaminate.index import Index, build_index, told_untested
from curate.decontaminate.runs import overlaps
from curate.decontaminate.settings import Decontaminate
from curate.decontaminate.summary import summarise
from curate.document import CONTAMINATION
from curate.errors import InputError
from curate.inputs import fetch
from curate.ledger import same_rows
from curate.phases.benchmark_files import BenchmarkInputs
from curate.phases.cluster import ShardOfCorpus, cluster_numbers
from curate.phases.edits import EditsAbout
from curate.phases.measure import last_revision
from curate.pipeline import BATCH_ROWS, ParquetFile, RemovalCounts, Removals, RowsAbout, RowsBeside, read_batches
from curate.plan import TaskContext
from curate.stage import Stage

MATCHES = pa.schema([("matches", pa.large_list(pa.uint64()))])


def index(context: TaskContext, key: str, settings: Decontaminate, benchmarks: Sequence[BenchmarkInputs]) -> None:
    """Write index.parquet (n-grams of the benchmark items) and summary.json.

    Raises:
        InputError: A benchmark that cannot be read in whole, or of which no item can be looked for.
    """
    with context.writing(key) as output, context.scratch() as scratch:
        addresses: dict[str, str] = {}
        local: list[tuple[str, BenchmarkFiles | str]] = []
        for number, benchmark in enumerate(benchmarks):
            folder = scratch / str(number)
            folder.mkdir()
            paths = []
            for place, file in enumerate(benchmark.files):
                part = folder / str(place)
                part.mkdir()
                paths.append(fetch(file, part))
                addresses[str(paths[-1])] = file.url
            local.append((benchmark.name, benchmark.local(paths)))
        try:
            summary = build_index(local, settings, str(output.path("index.parquet")))
        except InputError as error:  # names the local copy of a remote file
            raise InputError(addresses.get(error.file, error.file), error.problem, error.remedy) from error
        for benchmark in benchmarks:
            about = summary["benchmarks"][benchmark.name]
            if not about["items_tested"]:
                remedy = (
                    "Say in decontaminate.benchmarks which `fields` hold the question (and choices, answer), lower "
                    "min_words, or take this benchmark out."
                )
                raise InputError(benchmark.files[0].url, f"{told_untested(about)}.", remedy)
            about["passed_over"] = dict(benchmark.passed_over)
        output.path("summary.json").write_text(json.dumps(summary, ensure_ascii=False))


def _index(context: TaskContext, key: str) -> Index:
    return _loaded(str(context.entry(key).path("index.parquet")))


@functools.lru_cache(maxsize=1)
def _loaded(path: str) -> Index:
    """Read an index once for all tasks of a worker: it is sorted anew each time. Its path says what is in it."""
    return Index.load(path)


def prepare_overlaps(context: TaskContext, stage: Stage, argument: Any) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that finds benchmark n-grams in a batch (see `LastMeasure`); `argument` is the index's key."""
    del stage
    loaded = _index(context, argument)
    # Compiles the kernels: no row's time is for that.
    overlaps(pa.record_batch({"text": pa.array(["a"], pa.large_string())}), loaded)
    return lambda batch: overlaps(batch, loaded)


def common(
    context: TaskContext,
    key: str,
    settings: Decontaminate,
    index_key: str,
    matches: Sequence[str],
    shards: Sequence[ShardOfCorpus],
    clusters_key: str | None,
) -> None:
    """Write common.parquet: n-grams found in so many distinct clusters that they are no trace of the benchmark."""
    loaded = _index(context, index_key)

    def batches() -> Iterator[pa.RecordBatch]:
        for shard, matches_key in zip(shards, matches, strict=True):
            file = pq.ParquetFile(context.entry(matches_key).path("measurements.parquet"))
            numbers = cluster_numbers(context, clusters_key, shard.first, file.metadata.num_rows)
            start = 0
            for batch in file.iter_batches(BATCH_ROWS, columns=["matches"]):
                part = pa.array(numbers[start : start + batch.num_rows])
                start += batch.num_rows
                yield pa.record_batch({"cluster": part, "matches": batch["matches"]})

    with context.writing(key) as output:
        count_common(batches(), loaded, settings, str(output.path("common.parquet")), memory_bytes=context.memory)


def decide_shard(
    context: TaskContext,
    key: str,
    settings: Decontaminate,
    index_key: str,
    common_key: str,
    matches_key: str,
    shard: ShardOfCorpus,
) -> None:
    """Write removed.parquet, contamination.parquet and edits.parquet of one shard.

    `counts["removed"]` counts documents that no earlier phase removed.
    """
    loaded = _index(context, index_key)
    shared = Common.load(str(context.entry(common_key).path("common.parquet")), loaded)
    extracted = context.entry(shard.extracted)
    matches = RowsBeside(context.entry(matches_key).path("measurements.parquet"), ["id", "matches"])
    edits = EditsAbout(context.entry(one).path("edits.parquet") for one in shard.edits)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in read_batches(extracted.path("extracted.parquet")):
            rows = matches.take(batch.num_rows)
            same_rows(shard.source, "decontaminate", "", batch["id"].to_pylist(), rows["id"].to_pylist())
            cut = edits.about(batch["id"].to_pylist())
            some = pc.greater(pc.fill_null(pc.list_value_length(rows["matches"]), 0), 0).combine_chunks()
            if some.true_count:
                last = last_revision(context, shard.source, shard.blocks, batch.filter(some))
                found = rows["matches"].combine_chunks().filter(some)
                spans = [
                    [place for edit in cut.get(name, ()) for place in (edit["start"], edit["end"])]
                    for name in last["id"].to_pylist()
                ]
                cuts = pa.array(spans, pa.large_list(pa.int64()))
                columns = {"id": last["id"], "text": last["text"], "matches": found, "cuts": cuts}
                yield pa.record_batch(columns)

    decisions = decide(batches(), loaded, shared, settings)
    with context.writing(key) as output:
        for name, table in decisions._asdict().items():
            pq.write_table(table, output.path(f"{name}.parquet"), compression="zstd")
        earlier = Removals(context.entry(one).path("removed.parquet") for one in shard.decided)
        now = RowsAbout(output.path("removed.parquet"))
        counts = RemovalCounts()
        for batch in read_batches(extracted.path("sizes.parquet")):
            sizes = dict(zip(batch["id"].to_pylist(), batch["bytes"].to_pylist(), strict=True))
            gone = earlier.about(list(sizes))
            for row in now.about(list(sizes)):
                if row["id"] not in gone:
                    counts.add(row["stage"], row["rule"], sizes[row["id"]])
        earlier.finish()
        now.finish()
        output.counts |= counts.as_json()


def summary(context: TaskContext, key: str, index_key: str, common_key: str, decided: Sequence[str]) -> None:
    """Write contamination.parquet of the whole corpus and summary.json for the report."""
    loaded = _index(context, index_key)
    shared = Common.load(str(context.entry(common_key).path("common.parquet")), loaded)
    built = json.loads(context.entry(index_key).path("summary.json").read_text())
    with context.writing(key) as output:
        path = output.path("contamination.parquet")
        with ParquetFile(path, CONTAMINATION) as file:
            for one in decided:
                for batch in read_batches(context.entry(one).path("contamination.parquet")):
                    file.write(batch)
        facts = summarise(built, read_batches(path), loaded, shared)
        output.path("summary.json").write_text(json.dumps(facts, ensure_ascii=False))
