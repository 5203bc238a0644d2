"""The tasks and keys by which a run finds repeated spans and cuts them: behind repeated lines, for `Curation`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from curate.cache import key_of, stage_key
from curate.plan import Task

if TYPE_CHECKING:
    from curate.dedup.kinds import Spans
    from curate.phases.cluster import ShardOfCorpus
    from curate.phases.measure import LastMeasure
    from curate.recipe import Recipe
    from curate.tasks.run import Run, ShardOfRun


def _settings(recipe: Recipe) -> Spans | None:
    return recipe.dedup.spans if recipe.dedup is not None else None


def tokens_measure(run: Run, shard: ShardOfRun) -> LastMeasure | None:
    """Return the measure that hashes the tokens of a shard's last revision, if the recipe asks for repeated spans there."""
    settings = _settings(run.recipe)
    if settings is None or not settings.looks_at(shard.source.name):
        return None
    from curate.dedup.spans import SpanTokens, tokens_schema
    from curate.phases.measure import LastMeasure
    from curate.phases.spans import prepare_tokens

    stage = SpanTokens()
    own = stage_key(stage)
    key = run.key("measure", revision=shard.revision, tokens=own)
    return LastMeasure("dedup.spans", stage, own, key, tokens_schema(), prepare_tokens)


def cut_repeated_spans(run: Run, corpus: Sequence[ShardOfCorpus], clusters: str) -> list[Mapping[str, Any]]:
    """Find the spans that kept documents share and cut them, or flag them; the shards get their edits and removals.

    Args:
        run: The run.
        corpus: The shards of the run, as they are behind the repeated lines.
        clusters: Result key of the clusters of copies.

    Returns:
        For each shard, documents and bytes removed: none if the recipe asks for none of this.
    """
    nothing: Mapping[str, Any] = {"removed": {}, "bytes": {}}
    settings = _settings(run.recipe)
    chosen = [(shard, member) for shard, member in zip(run.shards, corpus, strict=True) if member.tokens]
    if settings is None or not chosen:
        return [nothing] * len(run.shards)
    from curate.phases.spans import anchors, cut, windows

    clusters_sha = run.entry(clusters).files["clusters.parquet"]["sha256"]
    inputs = [
        {
            "tokens": member.tokens,
            "extracted": member.extracted,
            "first": member.first,
            "decided": [run.entry(one).files["removed.parquet"]["sha256"] for one in member.decided],
            "edits": [run.entry(one).files["edits.parquet"]["sha256"] for one in member.edits],
            "clusters": clusters_sha,
            "min_tokens": settings.min_tokens,
        }
        for _, member in chosen
    ]

    def perform(label: str, task: Callable[..., None], keys: Sequence[str], *more: Any, numbered: bool) -> None:
        tasks = []
        for number, ((shard, member), key) in enumerate(zip(chosen, keys, strict=True)):
            arguments = (key, settings, member, clusters, *more, *((number,) if numbered else ()))
            tasks.append(Task("cluster", member.source, f"{label} {shard.name}", (key,), task, arguments))
        run.perform("cluster", tasks)

    ranks = [member.rank for _, member in chosen]
    anchored = [run.key("cluster", anchors=one) for one in inputs]
    perform("anchors", anchors, anchored, numbered=False)
    joined = _join(run, settings, "anchors", anchored, ranks)
    answers = _digests(run, joined)
    windowed = [run.key("cluster", windows=one, answers=answers, number=n) for n, one in enumerate(inputs)]
    perform("windows", windows, windowed, joined, numbered=True)
    joined = _join(run, settings, "windows", windowed, ranks)
    # Where documents begin and what they are called is read of all shards, besides the answers.
    own, answers, begins = key_of(settings=settings), _digests(run, joined), _digests(run, anchored)
    keys = [
        run.key("cluster", cut=one, answers=answers, begins=begins, number=n, spans=own) for n, one in enumerate(inputs)
    ]
    perform("spans", cut, keys, anchored, ranks, joined, numbered=True)
    for (shard, _), key in zip(chosen, keys, strict=True):
        shard.decided.append(key)
        shard.edits.append(key)
        run.publish(key, "spans.parquet", f"repeated_spans/{shard.source.name}/{shard.name}.parquet")
    counts = [run.entry(key).counts for key in keys]
    run.account.facts["repeated_spans"] = _facts(counts, settings)
    found = iter(counts)
    return [next(found) if member.tokens else nothing for member in corpus]


def _join(run: Run, settings: Spans, kind: str, spilled: Sequence[str], ranks: Sequence[int]) -> list[str]:
    """Count the records of all shards, partition by partition; return the result keys."""
    from curate.dedup.spans import PARTITIONS
    from curate.phases.spans import join

    records = [(run.entry(key).files[f"{kind}.u64"]["sha256"], run.entry(key).counts["tokens"]) for key in spilled]
    least = settings.min_documents
    tasks = []
    for number in range(PARTITIONS):
        key = run.key("cluster", joined=kind, records=records, ranks=ranks, partition=number, min_documents=least)
        arguments = (key, settings, kind, tuple(spilled), tuple(ranks), number)
        tasks.append(Task("cluster", "", f"join {kind} {number:02d}", (key,), join, arguments))
    run.perform("cluster", tasks)
    return [task.keys[0] for task in tasks]


def _digests(run: Run, keys: Sequence[str]) -> list[Any]:
    """Return what results hold: the digests of their files, and their counts, which say where in the files a shard is."""
    entries = [run.entry(key) for key in keys]
    return [({name: facts["sha256"] for name, facts in one.files.items()}, one.counts) for one in entries]


def _facts(counts: Sequence[Mapping[str, Any]], settings: Spans) -> dict[str, Any]:
    """Return what the manifest says: documents looked at, repeated and cut, spans, tokens and bytes cut, the most repeated."""
    from curate.phases.spans import most_repeated

    sums = {name: sum(shard["cut"][name] for shard in counts) for name in counts[0]["cut"]}
    found = most_repeated([span for shard in counts for span in shard["most"]])
    most = [{name: value for name, value in span.items() if name not in ("locus", "start", "end")} for span in found]
    return {"action": settings.action, "min_tokens": settings.min_tokens, **sums, "most": most}
