"""Bounds that are shares of the documents, resolved for every source before its documents are decided."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from curate.cache import Entry
from curate.plan import Task

if TYPE_CHECKING:
    from curate.manifest import Account
    from curate.phases.decide import Judged
    from curate.recipe import SourceRecipe


class ShardOfRun(Protocol):
    """What is used of `curate.curation.Shard`."""

    source: SourceRecipe
    extracted: str
    judged: tuple[Judged, ...]


class Run(Protocol):
    """What is used of `curate.curation.Curation`."""

    account: Account

    @property
    def shards(self) -> Sequence[ShardOfRun]:
        """Return the shards of all sources."""

    def perform(self, phase: str, tasks: Sequence[Task]) -> None:
        """Run those tasks of a phase that have no result yet."""

    def entry(self, key: str) -> Entry:
        """Return a result that must be there."""

    def key(self, phase: str, **parts: Any) -> str:
        """Return a result key of a phase."""


def resolve_bounds(run: Run) -> None:
    """Replace the shares in the rules of all shards by numbers, and put them into the manifest as `resolved_bounds`.

    Blocks come one after another, as each counts the documents that the blocks before it keep; sources side by side.
    """
    from curate.phases.resolve import ShardJudged, resolve_block, with_numbers

    sources: dict[str, list[ShardOfRun]] = {}
    for shard in run.shards:
        sources.setdefault(shard.source.name, []).append(shard)
    waiting = {
        name: [index for index, block in enumerate(shards[0].judged) if any(rule.shares for rule in block.rules)]
        for name, shards in sources.items()
    }
    facts: dict[str, dict[str, object]] = {}
    while any(waiting.values()):
        tasks = {}
        for name, shards in sources.items():
            if waiting[name]:
                index = waiting[name][0]
                parts = [ShardJudged(shard.extracted, shard.judged[: index + 1]) for shard in shards]
                key = run.key("decide", resolve=[dataclasses.astuple(one) for one in parts])
                label = f"bounds of {shards[0].judged[index].name}"
                tasks[name] = Task("decide", name, label, (key,), resolve_block, (key, name, parts))
        run.perform("decide", list(tasks.values()))
        for name, task in tasks.items():
            found = json.loads(run.entry(task.keys[0]).path("bounds.json").read_text())
            index = waiting[name].pop(0)
            for shard in sources[name]:
                block = shard.judged[index]
                rules = tuple(with_numbers(rule, found[rule.name]) if rule.shares else rule for rule in block.rules)
                judged = list(shard.judged)
                judged[index] = dataclasses.replace(block, rules=rules)
                shard.judged = tuple(judged)
            facts.setdefault(name, {}).update(_shown(found))
    if facts:
        run.account.facts["resolved_bounds"] = facts


def _shown(found: dict[str, dict[str, dict[str, object]]]) -> dict[str, object]:
    """Return rule to what was resolved: by end, and by label where the bound is a map."""
    return {
        rule: {end: groups.get("", groups) for end, groups in ends.items() if groups} for rule, ends in found.items()
    }
