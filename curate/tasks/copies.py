"""The tasks and keys by which a run links copies and chooses among them: a task a shard, a task a partition of components."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from curate.cache import stage_key
from curate.plan import Task
from curate.stage import canonical
from curate.tasks.components import components_of

if TYPE_CHECKING:
    from curate.dedup.settings import Dedup, Validation
    from curate.phases.cluster import ShardOfCorpus
    from curate.tasks.run import Run


@dataclass(frozen=True, slots=True)
class Linked:
    """The result keys of what was found before anything is chosen.

    Attributes:
        components: Of the components.
        shingles: Of each shard.
        partitions: Number of a partition of the components to the places of the shards that have rows of it.
        clusters: Of the clusters.
    """

    components: str
    shingles: tuple[str, ...]
    partitions: dict[int, tuple[int, ...]]
    clusters: str

    def of(self, partition: int, keys: Sequence[str]) -> tuple[str, ...]:
        """Return those of the keys, one a shard, that belong to shards with rows of a partition."""
        return tuple(keys[place] for place in self.partitions[partition])


def link_copies(run: Run, corpus: Sequence[ShardOfCorpus], settings: Dedup) -> Linked:
    """Find the clusters of copies over all documents.

    Args:
        run: The run.
        corpus: Its shards, in document order.
        settings: `clustering` of the recipe's.
    """
    from curate.phases.cluster import clusters, link, shingles

    found = components_of(run, corpus, settings)
    candidates = settings.model_copy(update={"keep": type(settings.keep)()})  # what is compared, whichever copy stays
    components = _digest(run, found, "components.parquet")
    tasks, keys = [], []
    for shard, member in zip(run.shards, corpus, strict=True):
        key = run.key(
            "cluster",
            components=components,
            revision=shard.revision,
            first=member.first,
            rank=member.rank,
            keep=[canonical(one) for one in settings.keep.stored],
            measures=member.measures,
            settings=stage_key(candidates),
        )
        keys.append(key)
        arguments: tuple[Any, ...] = (key, settings, found, member, run.entry(shard.extracted).counts["extracted"])
        tasks.append(Task("cluster", member.source, f"shingles {shard.name}", (key,), shingles, arguments))
    run.perform("cluster", tasks)
    _warn_of_dates(run, keys)
    places: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        for partition in run.entry(key).counts["partitions"]:
            places.setdefault(partition, []).append(place)
    partitions = {number: tuple(places[number]) for number in sorted(places)}
    linked, tasks = [], []
    for partition, shards in partitions.items():
        mine = [keys[place] for place in shards]
        key = run.key("cluster", linked=partition, shingles=mine, settings=stage_key(settings))
        linked.append(key)
        arguments = (key, settings, partition, mine)
        tasks.append(Task("cluster", "", f"partition {partition:05d}", (key,), link, arguments))
    run.perform("cluster", tasks)
    whole = run.key("cluster", clusters=linked)
    run.perform("cluster", [Task("cluster", "", "clusters", (whole,), clusters, (whole, linked))])
    return Linked(found, tuple(keys), partitions, whole)


def _warn_of_dates(run: Run, shingles: Sequence[str]) -> None:
    """Say how many of the documents among which dates decide have none that can be read."""
    dates = Counter[str]()
    for key in shingles:
        dates.update(run.entry(key).counts["dates"])
    if dates["without"] or dates["unreadable"]:
        text = (
            f"dedup.keep.then: of {dates['documents']:,} documents that may be copies {dates['without']:,} have no date in their "
            f"metadata (`date`), {dates['unreadable']:,} one that cannot be read (ISO 8601, RFC 5322 and seconds since 1970 "
            "can); such documents come last."
        )
        run.account.warnings.append(text)


def resolve_copies(
    run: Run, corpus: Sequence[ShardOfCorpus], linked: Linked, dedup: Dedup | None
) -> tuple[list[str], list[str]]:
    """Find which of the documents that are still kept go as copies; return the keys of states, by shard, and of partitions.

    Args:
        run: The run.
        corpus: Its shards, in document order, with all that earlier phases removed and cut.
        linked: Of `link_copies`.
        dedup: The recipe's section as far as it is about copies, or None.
    """
    from curate.phases.choose import resolve, state

    tasks, states = [], []
    for shard, member in zip(run.shards, corpus, strict=True):
        key = run.key(
            "choose",
            decided=[_digest(run, one, "removed.parquet") for one in shard.decided],
            edits=[_digest(run, one, "edits.parquet") for one in shard.edits],
            extracted=shard.extracted,
            signatures=shard.signatures,
            first=member.first,
            components=_digest(run, linked.components, "components.parquet"),
        )
        states.append(key)
        arguments: tuple[Any, ...] = (key, linked.components, member, run.entry(shard.extracted).counts["extracted"])
        tasks.append(Task("choose", member.source, f"state {shard.name}", (key,), state, arguments))
    run.perform("choose", tasks)
    tasks, resolved = [], []
    for partition in linked.partitions:
        files, kept = linked.of(partition, linked.shingles), linked.of(partition, states)
        key = run.key(
            "choose",
            partition=partition,
            shingles=files,
            kept=[_digest(run, one, "kept.parquet") for one in kept],
            dedup=stage_key(dedup),
        )
        resolved.append(key)
        arguments = (key, dedup, partition, files, kept)
        tasks.append(Task("choose", "", f"partition {partition:05d}", (key,), resolve, arguments))
    run.perform("choose", tasks)
    return states, resolved


def choose_copies(
    run: Run,
    corpus: Sequence[ShardOfCorpus],
    linked: Linked,
    found: tuple[Sequence[str], Sequence[str]],
    semantic: str | None,
    dedup: Dedup | None,
    validation: Validation | None,
    seed: int,
) -> tuple[str, dict[str, int]]:
    """Choose kept copies and validation documents; return the result's key, and what was compared for it.

    Args:
        run: The run.
        corpus: Its shards, in document order, with all that earlier phases removed and cut.
        linked: Of `link_copies`.
        found: Of `resolve_copies`.
        semantic: Of `curate.tasks.semantic.find_semantic`.
        dedup: The recipe's section as far as it is about copies, or None.
        validation: The recipe's section, or None.
        seed: The recipe's.
    """
    from curate.phases.choose import Resolved, choose

    states, resolved = found
    whole = run.key(
        "choose",
        states=[_digest(run, one, "state.parquet") for one in states],
        extracted=[shard.extracted for shard in run.shards],
        resolved=[_digest(run, one, "resolved.parquet") for one in resolved],
        semantic=_digest(run, semantic, "gone.u64") if semantic is not None else None,
        shingles=linked.shingles,
        dedup=stage_key(dedup),
        validation=stage_key(validation),
        seed=seed,
    )
    partitions = tuple((number, linked.of(number, linked.shingles)) for number in linked.partitions)
    parts = Resolved(linked.components, tuple(states), partitions, tuple(resolved), semantic)
    arguments = (whole, dedup, validation, seed, corpus, parts)
    run.perform("choose", [Task("choose", "", "kept copies", (whole,), choose, arguments)])
    counts = Counter[str](compared=0, unsure=0, uncompared=0)
    for key in resolved:
        counts.update(run.entry(key).counts)
    return whole, dict(counts)


def _digest(run: Run, key: str, name: str) -> str:
    digest: str = run.entry(key).files[name]["sha256"]
    return digest
