"""What only all documents of a source show, found before they are decided: ranks, and bounds that are shares of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from curate.cache import stage_key
from curate.plan import Task

if TYPE_CHECKING:
    from curate.phases.decide import Judged
    from curate.phases.resolve import ShardJudged
    from curate.tasks.run import Run, ShardOfRun

    Now = dict[str, tuple[int, list[ShardOfRun]]]  # source -> place of the block at hand, and its shards


def resolve_bounds(run: Run) -> None:
    """Rank what is ranked, and replace the shares in the rules of all shards by numbers.

    Blocks come one after another, as each counts the documents that the blocks before it keep; sources side by side. The
    manifest shows what was found as `rankings` and `resolved_bounds`.
    """
    sources: dict[str, list[ShardOfRun]] = {}
    for shard in run.shards:
        sources.setdefault(shard.source.name, []).append(shard)
    waiting = {
        name: [
            index
            for index, block in enumerate(shards[0].judged)
            if block.ranking is not None or any(rule.shares for rule in block.rules)
        ]
        for name, shards in sources.items()
    }
    while any(waiting.values()):
        now = {name: (indices.pop(0), sources[name]) for name, indices in waiting.items() if indices}
        _rank(run, now)
        _resolve(run, now)


def _parts(index: int, shards: Sequence[ShardOfRun]) -> list[ShardJudged]:
    from curate.phases.resolve import ShardJudged

    return [ShardJudged(shard.extracted, shard.judged[: index + 1]) for shard in shards]


def _rank(run: Run, now: Now) -> None:
    """Rank the blocks at hand that do; their keys are then those of their measurements."""
    from curate.phases.rank import find_edges, rank_shard

    ranked = {name: pair for name, pair in now.items() if pair[1][0].judged[pair[0]].ranking is not None}
    edges = {}
    for name, (index, shards) in ranked.items():
        parts, block = _parts(index, shards), shards[0].judged[index]
        # What the block's own rules say, and a key that only its layout knows, are nothing that the ranks depend on.
        before = [dataclasses.astuple(one)[1][:-1] for one in parts]
        key = run.key("decide", edges=before, extracted=[one.extracted for one in parts], step=stage_key(block.ranking))
        arguments = (key, name, parts, block.ranking)
        edges[name] = Task("decide", name, f"ranks of {block.name}", (key,), find_edges, arguments)
    run.perform("decide", list(edges.values()))
    tasks = []
    for name, (index, shards) in ranked.items():
        found = edges[name].keys[0]
        sha256 = run.entry(found).files["edges.json"]["sha256"]
        for shard, part in zip(shards, _parts(index, shards), strict=True):
            block = shard.judged[index]
            scores = [one.key for one in part.blocks[:-1]]
            step = stage_key(block.ranking)
            key = run.key("decide", ranks=scores, extracted=shard.extracted, edges=sha256, step=step)
            label = f"buckets {shard.name}"
            tasks.append(Task("decide", name, label, (key,), rank_shard, (key, name, part, block.ranking, found)))
            shard.judged = _with(shard.judged, index, dataclasses.replace(block, key=key))
    run.perform("decide", tasks)
    for name, (index, shards) in ranked.items():
        shown = json.loads(run.entry(edges[name].keys[0]).path("edges.json").read_text())
        block = shards[0].judged[index]
        run.account.facts.setdefault("rankings", {}).setdefault(name, {})[block.name] = shown
        for shard in shards:
            measured, place = shard.judged[index].key, f"measurements/{name}/{block.name}/{shard.name}.parquet"
            assert measured is not None, "a block that was ranked has a key"
            run.publish(measured, "measurements.parquet", place)


def _resolve(run: Run, now: Now) -> None:
    """Resolve the shares in the rules of the blocks at hand."""
    from curate.phases.resolve import resolve_block, with_numbers

    tasks = {}
    for name, (index, shards) in now.items():
        block = shards[0].judged[index]
        if any(rule.shares for rule in block.rules):
            parts = _parts(index, shards)
            key = run.key("decide", resolve=[dataclasses.astuple(one) for one in parts])
            tasks[name] = Task("decide", name, f"bounds of {block.name}", (key,), resolve_block, (key, name, parts))
    run.perform("decide", list(tasks.values()))
    for name, task in tasks.items():
        index, shards = now[name]
        found = json.loads(run.entry(task.keys[0]).path("bounds.json").read_text())
        for shard in shards:
            block = shard.judged[index]
            rules = tuple(with_numbers(rule, found[rule.name]) if rule.shares else rule for rule in block.rules)
            shard.judged = _with(shard.judged, index, dataclasses.replace(block, rules=rules))
        run.account.facts.setdefault("resolved_bounds", {}).setdefault(name, {}).update(_shown(found))


def _with(judged: tuple[Judged, ...], index: int, block: Judged) -> tuple[Judged, ...]:
    return (*judged[:index], block, *judged[index + 1 :])


def _shown(found: dict[str, dict[str, dict[str, object]]]) -> dict[str, object]:
    """Return rule to what was resolved: by end, and by label where the bound is a map."""
    return {
        rule: {end: groups.get("", groups) for end, groups in ends.items() if groups} for rule, ends in found.items()
    }
