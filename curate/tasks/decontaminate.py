"""The tasks and keys by which a run looks for benchmark items: an index, a measure, and decisions, for `Curation`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from curate.cache import key_of, stage_key
from curate.plan import Task
from curate.tasks.benchmarks import benchmark_inputs

if TYPE_CHECKING:
    from curate.phases.benchmark_files import BenchmarkInputs
    from curate.phases.cluster import ShardOfCorpus
    from curate.phases.measure import LastMeasure
    from curate.tasks.run import Run, ShardOfRun


def benchmark_index(run: Run) -> str | None:
    """Make the index of the recipe's benchmarks; return its result key, or None if the recipe names none."""
    settings = run.recipe.decontaminate
    if settings is None:
        return None
    from curate.phases.decontaminate import index

    benchmarks = benchmark_inputs(run.recipe, run.cache)
    key = run.key("measure", index=[benchmark.identity() for benchmark in benchmarks], stage=stage_key(settings))
    run.perform("measure", [Task("measure", "", "benchmarks", (key,), index, (key, settings, benchmarks))])
    summary = json.loads(run.entry(key).path("summary.json").read_text())
    for text in [*_copies(benchmarks), *_untested(summary)]:
        run.account.warnings.append(text)
        run.progress.note(f"  note: {text}")
    return key


def _copies(benchmarks: Sequence[BenchmarkInputs]) -> Iterator[str]:
    """Yield a warning for each benchmark file of which another file has the same bytes: its items count twice."""
    first: dict[str, str] = {}
    for benchmark in benchmarks:
        for file in benchmark.files:
            other = first.setdefault(file.digest, file.url)
            if other != file.url:
                yield f"decontaminate.benchmarks: {file.url} has the same bytes as {other}: take one of them out."


def _untested(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each benchmark of which not every item can be looked for."""
    for name, about in summary["benchmarks"].items():
        if about["untested"]:
            from curate.decontaminate.index import told_untested

            yield f"decontaminate.benchmarks: {name}: {told_untested(about)}."


def overlaps_measure(run: Run, shard: ShardOfRun, index: str | None) -> LastMeasure | None:
    """Return the measure that finds the index's n-grams in a shard's last revision, if there is an index."""
    settings = run.recipe.decontaminate
    if settings is None or index is None:
        return None
    from curate.phases.decontaminate import MATCHES, prepare_overlaps
    from curate.phases.measure import LastMeasure

    key = run.key("measure", revision=shard.revision, index=index)
    return LastMeasure("decontaminate", settings, key_of(overlaps=index), key, MATCHES, prepare_overlaps, index)


def decontaminate_corpus(
    run: Run, corpus: Sequence[ShardOfCorpus], index: str, clusters: str | None
) -> list[Mapping[str, Any]]:
    """Find common text, then decide on the documents of each shard; the shards get their edits and removals.

    Args:
        run: The run.
        corpus: Its shards, as they are behind the clusters.
        index: Result key of the index.
        clusters: Result key of the clusters of copies.

    Returns:
        For each shard, documents and bytes removed.
    """
    from curate.phases.decontaminate import common, decide_shard, summary

    settings = run.recipe.decontaminate
    assert settings is not None
    matches = [shard.matches for shard in run.shards]
    settings_key = key_of(stage=stage_key(settings), settings=settings)
    clusters_sha = run.entry(clusters).files["clusters.parquet"]["sha256"] if clusters else None
    shared = run.key("decontaminate", matches=matches, clusters=clusters_sha, settings=settings_key)
    arguments: tuple[Any, ...] = (shared, settings, index, matches, corpus, clusters)
    run.perform("decontaminate", [Task("decontaminate", "", "common text", (shared,), common, arguments)])
    shared_sha = run.entry(shared).files["common.parquet"]["sha256"]
    tasks = []
    for shard, member in zip(run.shards, corpus, strict=True):
        key = run.key(
            "decontaminate",
            matches=shard.matches,
            common=shared_sha,
            settings=settings_key,
            decided=shard.decided,
            edits=[run.entry(one).files["edits.parquet"]["sha256"] for one in shard.edits],
        )
        arguments = (key, settings, index, shared, shard.matches, member)
        tasks.append(Task("decontaminate", shard.source.name, shard.name, (key,), decide_shard, arguments))
        shard.decided.append(key)
        shard.edits.append(key)
    run.perform("decontaminate", tasks)
    decided = [shard.decided[-1] for shard in run.shards]
    whole = run.key("decontaminate", decided=decided, common=shared_sha, settings=settings_key)
    arguments = (whole, index, shared, decided)
    run.perform("decontaminate", [Task("decontaminate", "", "summary", (whole,), summary, arguments)])
    run.publish(whole, "contamination.parquet", "contamination.parquet")
    run.account.facts["decontamination"] = json.loads(run.entry(whole).path("summary.json").read_text())
    return [run.entry(key).counts for key in decided]
