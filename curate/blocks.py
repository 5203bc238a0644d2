"""The blocks of a source at their places in the list of steps: what each measures, and on which text revision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from curate.cache import key_of, stage_key
from curate.expression import expression_columns
from curate.filter.buckets import QualityBuckets
from curate.recipe import SourceRecipe

if TYPE_CHECKING:
    from curate.phases.decide import Judged
    from curate.phases.measure import Block
    from curate.stage import Step


@dataclass(frozen=True, slots=True)
class Layout:
    """The steps of a source over one shard.

    Attributes:
        blocks: Those that measure, in order.
        finals: Those that run at collect.
        rankings: Those that rank what others measured; a run gives them keys of its own once the documents are known.
        judged: Blocks as decide sees them, in order.
        revision: Key of the last text revision.
    """

    blocks: tuple[Block, ...]
    finals: tuple[Block, ...]
    rankings: tuple[Block, ...]
    judged: tuple[Judged, ...]
    revision: str


def lay_out(source: SourceRecipe, extracted: str, key: Callable[[str, str], str]) -> Layout:
    """Return the blocks of a source, each with the key of what it measures.

    An expression judges the text at its place: a column that was measured before a later rewrite is measured again
    there, as the block `<where>.<step>`.

    Args:
        source: The source.
        extracted: Key of the shard's text revision 0.
        key: (key of a text revision, key of a step) to the key of what the step measures there.
    """
    from curate.phases.decide import Judged
    from curate.phases.measure import Block

    revision = key_of(extracted=extracted)
    blocks: list[Block] = []
    finals: list[Block] = []
    rankings: list[Block] = []
    judged: list[Judged] = []
    measured: dict[str, tuple[Block, str]] = {}  # column -> its latest block, and the revision that this one saw

    def measure(name: str, step: Step) -> Block:
        own = stage_key(step)
        block = Block(name, step, own, key(revision, own))
        blocks.append(block)
        return block

    for step in source.steps:
        if step.expression is not None:
            owners = {measured[name][0].name: measured[name] for name in expression_columns(step.expression)}
            for owner, seen in owners.values():
                if seen != revision and not owner.step.rewrites and not isinstance(owner.step, QualityBuckets):
                    again = measure(f"{step.name}.{owner.name}", owner.step)
                    judged.append(Judged(again.name, again.key, ()))
                    measured |= dict.fromkeys(owner.step.adds, (again, revision))
            judged.append(Judged(step.name, None, step.rules()))
            continue
        assert step.step is not None
        if step.step.at == "collect":
            own = stage_key(step.step)
            finals.append(Block(step.name, step.step, own, key_of(collect=own)))
            continue
        if isinstance(step.step, QualityBuckets):
            own = stage_key(step.step)
            seen = key_of(scores=[measured[name][0].key for name in step.step.scores])
            block = Block(step.name, step.step, own, key(seen, own))
            rankings.append(block)
            judged.append(Judged(step.name, block.key, step.rules(), step.step))
            measured |= dict.fromkeys(step.step.adds, (block, revision))
            continue
        block = measure(step.name, step.step)
        judged.append(Judged(step.name, block.key, step.rules()))
        if step.step.rewrites:
            revision = key_of(revision=revision, step=block.stage_key)
        measured |= dict.fromkeys(step.step.adds, (block, revision))
    return Layout(tuple(blocks), tuple(finals), tuple(rankings), tuple(judged), revision)
