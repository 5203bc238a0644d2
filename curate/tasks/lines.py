"""The tasks and keys by which a run finds repeated lines and cuts them: behind the clusters, for `Curation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from curate.cache import key_of, stage_key
from curate.plan import Task

if TYPE_CHECKING:
    from curate.dedup.kinds import Lines
    from curate.phases.cluster import ShardOfCorpus
    from curate.phases.measure import LastMeasure
    from curate.recipe import Recipe
    from curate.tasks.run import Run, ShardOfRun

_SHOWN = 20  # most repeated lines that the manifest shows


def _settings(recipe: Recipe) -> Lines | None:
    return recipe.dedup.lines if recipe.dedup is not None else None


def lines_measure(run: Run, shard: ShardOfRun) -> LastMeasure | None:
    """Return the measure that hashes the lines of a shard's last revision, if the recipe asks for repeated lines there."""
    settings = _settings(run.recipe)
    if settings is None or not settings.looks_at(shard.source.name):
        return None
    from curate.dedup.lines import LineHashes, units_schema
    from curate.phases.lines import prepare_lines
    from curate.phases.measure import LastMeasure

    stage = LineHashes(unit=settings.unit)
    own = stage_key(stage)
    key = run.key("measure", revision=shard.revision, lines=own)
    return LastMeasure("dedup.lines", stage, own, key, units_schema(), prepare_lines)


def cut_lines(run: Run, corpus: Sequence[ShardOfCorpus], clusters: str) -> list[Mapping[str, Any]]:
    """Count lines over the kept documents and cut those that are repeated; the shards get their edits and removals.

    Args:
        run: The run.
        corpus: The shards of the run, as the whole-corpus phases see them.
        clusters: Result key of the clusters of copies.

    Returns:
        For each shard, documents and bytes removed: none if the recipe asks for none of this.
    """
    nothing: Mapping[str, Any] = {"removed": {}, "bytes": {}}
    settings = _settings(run.recipe)
    if settings is None:
        return [nothing] * len(run.shards)
    from curate.dedup.lines import PARTITIONS
    from curate.phases.lines import count, cut, spill

    clusters_sha = run.entry(clusters).files["clusters.parquet"]["sha256"]
    scope = (settings.within, settings.folders)
    chosen = [(shard, member) for shard, member in zip(run.shards, corpus, strict=True) if member.lines]
    inputs = [
        {
            "lines": member.lines,
            "extracted": member.extracted,
            "scope": (*scope, member.source),
            "place": (member.rank, member.first),
            "decided": [run.entry(one).files["removed.parquet"]["sha256"] for one in member.decided],
            "clusters": clusters_sha,
        }
        for _, member in chosen
    ]
    spilled = [run.key("cluster", spill=one) for one in inputs]
    tasks = [
        Task("cluster", member.source, f"lines {shard.name}", (key,), spill, (key, settings, member, clusters))
        for (shard, member), key in zip(chosen, spilled, strict=True)
    ]
    run.perform("cluster", tasks)
    records = [run.entry(key).files["lines.u64"]["sha256"] for key in spilled]
    counted = [
        run.key("cluster", records=records, partition=number, min_documents=settings.min_documents)
        for number in range(PARTITIONS)
    ]
    tasks = [
        Task("cluster", "", f"count {number:02d}", (key,), count, (key, settings, spilled, number))
        for number, key in enumerate(counted)
    ]
    run.perform("cluster", tasks)
    table = [{name: facts["sha256"] for name, facts in run.entry(key).files.items()} for key in counted]
    tasks = []
    own = key_of(settings=settings)
    for (shard, member), one in zip(chosen, inputs, strict=True):
        key = run.key("cluster", cut=one, table=table, settings=own)
        arguments = (key, settings, member, clusters, counted)
        tasks.append(Task("cluster", member.source, f"cut {shard.name}", (key,), cut, arguments))
        shard.decided.append(key)
        shard.edits.append(key)
    run.perform("cluster", tasks)
    for shard, _ in chosen:
        run.publish(shard.edits[-1], "repeated.parquet", f"repeated/{shard.source.name}/{shard.name}.parquet")
    counts = {key: run.entry(key).counts for task in tasks for key in task.keys}
    run.account.facts["repeated_lines"] = _facts(list(counts.values()))
    return [counts.get(shard.decided[-1], nothing) for shard in run.shards]


def _facts(counts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the manifest says: documents looked at and cut, lines and bytes cut, the lines in most documents."""
    most: dict[str, dict[str, Any]] = {}
    for shard in counts:
        for line in shard["most"]:
            most.setdefault(line["key"], {name: value for name, value in line.items() if name != "key"})
    order = sorted(most, key=lambda key: (-most[key]["documents"], key))[:_SHOWN]
    names = ("looked_at", "documents", "lines", "bytes")
    sums = {name: sum(shard["cut"][name] for shard in counts) for name in names}
    return {**sums, "most": [most[key] for key in order]}
