"""Resolve: bounds that are shares of the documents become numbers, by an exact selection over a source.

A share counts the documents that all blocks before the rule's own keep, and on which no step failed, that have a value
(and, in a map, the label). What is found depends on those values alone: not on shards, batches, workers or memory.
Documents that equal the bound stay, so that more than the share may stay; how many do is written beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curate.dedup.spill import Sorter
from curate.ledger import same_rows
from curate.phases.decide import Judged, measured_columns, verdicts
from curate.pipeline import RowsBeside
from curate.plan import TaskContext
from curate.stage import Bound, Rule, Share

Floats = npt.NDArray[np.float64]

ALL = ""  # the group of a bound that is no map
OTHERS = "*"
_ROWS = 8192


@dataclass(frozen=True, slots=True)
class ShardJudged:
    """A shard, and the blocks up to and with the one whose bounds are to be resolved."""

    extracted: str
    blocks: tuple[Judged, ...]


def kept_before(
    context: TaskContext, source: str, shard: ShardJudged
) -> Iterator[tuple[pa.Array, dict[str, pa.ChunkedArray], npt.NDArray[np.bool_]]]:
    """Yield ids, measured columns, and which documents the blocks before the last one keep, a part of the shard at a time."""
    measured = {
        block.name: RowsBeside(context.entry(block.key).path("measurements.parquet"))
        for block in shard.blocks
        if block.key is not None
    }
    before = (*shard.blocks[:-1], replace(shard.blocks[-1], rules=()))
    documents = RowsBeside(context.entry(shard.extracted).path("sizes.parquet"), ["id"])
    while (rows := documents.take(_ROWS)).num_rows:
        ids = rows["id"].to_pylist()
        tables = {name: beside.take(len(ids)) for name, beside in measured.items()}
        columns: dict[str, pa.ChunkedArray] = {}
        for block in before:
            if block.name in tables:
                table = tables[block.name]
                same_rows(source, block.name, "", ids, table["id"].to_pylist())
                columns |= measured_columns(table)
        keep = np.ones(len(ids), bool)
        for verdict in verdicts(before, tables, len(ids)):
            keep &= ~verdict.mask
        yield rows["id"].combine_chunks(), columns, keep


class Selection:
    """Numbers by group, from which those of given ranks are selected; more than memory holds lie on disk."""

    def __init__(self, memory_bytes: int, folder: Path, name: str) -> None:
        self._sorter = Sorter(2, memory_bytes, str(folder), name)
        self._groups: dict[str, int] = {}
        self.counts: dict[str, int] = {}

    def add(self, group: str, values: Floats) -> None:
        """Add numbers, none of them NaN."""
        number = self._groups.setdefault(group, len(self._groups))
        self.counts[group] = self.counts.get(group, 0) + len(values)
        bits = (values + 0.0).view(np.uint64)  # -0.0 is 0.0
        negative = bits >> np.uint64(63) == 1
        ordered = np.where(negative, ~bits, bits | np.uint64(1 << 63))
        self._sorter.append(np.full(len(values), number, np.uint64), ordered)

    def distinct(self) -> Iterator[tuple[str, Floats, npt.NDArray[np.int64]]]:
        """Yield, group after group, distinct numbers in ascending order with how often each occurs; call once."""
        names = {number: name for name, number in self._groups.items()}
        held: tuple[int, Floats, npt.NDArray[np.int64]] | None = (
            None  # the last number: the next batch may go on with it
        )
        for records in self._sorter.sorted():
            groups, ordered = records[:, 0], records[:, 1]
            positive = ordered >> np.uint64(63) == 1
            values = np.where(positive, ordered & np.uint64((1 << 63) - 1), ~ordered).view(np.float64)
            for group in np.unique(groups).tolist():
                found, counts = np.unique(values[groups == group], return_counts=True)
                if held is not None and held[0] == group and held[1][0] == found[0]:
                    counts[0] += held[2][0]
                elif held is not None:
                    yield names[held[0]], *held[1:]
                held = group, found[-1:], counts[-1:]
                yield names[group], found[:-1], counts[:-1]
        if held is not None:
            yield names[held[0]], *held[1:]


@dataclass(slots=True)
class Resolved:
    """A bound that was resolved for one group of documents.

    Attributes:
        share: What was asked for.
        least: Whether the bound is a lower one.
        documents: That count, those with a value.
        bound: The number, or None without documents.
        kept: Documents that the bound keeps: at least the share, more where several equal the bound.
    """

    share: Share
    least: bool
    documents: int
    bound: float | None = None
    kept: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        asked = {name: value for name, value in self.share.model_dump().items() if value is not None}
        return {"asked": asked, "documents": self.documents, "bound": self.bound, "kept": self.kept}


def select(selection: Selection, wanted: Mapping[str, Sequence[tuple[Share, bool]]]) -> dict[str, list[Resolved]]:
    """Resolve shares.

    Args:
        selection: All numbers that count.
        wanted: Group to shares, each with whether it is a lower bound.
    """
    found = {
        group: [Resolved(share, least, selection.counts.get(group, 0)) for share, least in shares]
        for group, shares in wanted.items()
    }
    below: dict[str, int] = {}
    for group, values, counts in selection.distinct():
        before = below.get(group, 0) + np.cumsum(counts) - counts
        below[group] = below.get(group, 0) + int(counts.sum())
        for one in found.get(group, ()):
            if one.bound is not None:
                continue
            kept = one.share.kept(one.documents, least=one.least)
            # The number of this rank, counted from 0 in ascending order, is the last that stays.
            rank = one.documents - kept if one.least else kept - 1
            place = int(np.searchsorted(before + counts, rank, side="right"))
            if place < len(values):
                one.bound = float(values[place])
                one.kept = one.documents - int(before[place]) if one.least else int(before[place] + counts[place])
    return found


def resolve_block(context: TaskContext, key: str, source: str, shards: Sequence[ShardJudged]) -> None:
    """Write bounds.json: for each rule of the last block with a share, end and group to what was resolved."""
    rules = [rule for rule in shards[0].blocks[-1].rules if rule.shares]
    with context.writing(key) as output, context.scratch() as folder:
        parts = (part[1:] for shard in shards for part in kept_before(context, source, shard))
        found = resolve(rules, parts, context.memory, folder)
        output.path("bounds.json").write_text(json.dumps(found, sort_keys=True) + "\n")


def resolve(
    rules: Sequence[Rule],
    parts: Iterable[tuple[Mapping[str, pa.ChunkedArray], npt.NDArray[np.bool_]]],
    memory_bytes: int,
    folder: Path,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return for each rule end and group to what was resolved.

    Args:
        rules: Rules of one block with shares.
        parts: Measured columns of the documents, and which of them count, some documents at a time.
        memory_bytes: For the numbers; what is more lies in `folder`.
        folder: For temporary files.
    """
    selections = {
        (rule.name, end): Selection(memory_bytes // (2 * len(rules)), folder, f"{number}-{end}")
        for number, rule in enumerate(rules)
        for end in ("at_least", "at_most")
    }
    for columns, keep in parts:
        for rule in rules:
            for end in ("at_least", "at_most"):
                for group, values in _values(rule, getattr(rule, end), columns, keep):
                    selections[rule.name, end].add(group, values)
    return {
        rule.name: {
            end: {
                group: one[0].as_json()
                for group, one in select(selections[rule.name, end], _wanted(getattr(rule, end), end)).items()
            }
            for end in ("at_least", "at_most")
        }
        for rule in rules
    }


def _wanted(bound: Bound, end: str) -> dict[str, list[tuple[Share, bool]]]:
    groups = bound if isinstance(bound, Mapping) else {ALL: bound}
    return {group: [(one, end == "at_least")] for group, one in groups.items() if isinstance(one, Share)}


def _values(
    rule: Rule, bound: Bound, columns: Mapping[str, pa.ChunkedArray], keep: npt.NDArray[np.bool_]
) -> Iterator[tuple[str, Floats]]:
    """Yield group and numbers of those documents that count for a bound."""
    wanted = _wanted(bound, "")
    if not wanted:
        return
    values = np.asarray(columns[rule.column].cast(pa.float64(), safe=False).to_numpy(), np.float64)
    counted = keep & ~np.isnan(values)  # null becomes NaN
    if not isinstance(bound, Mapping):
        yield ALL, values[counted]
        return
    assert rule.by is not None, "a map has a label column"
    labels = np.array([label if label in bound else OTHERS for label in columns[rule.by].to_pylist()], object)
    for group in wanted:
        yield group, values[counted & (labels == group)]


def with_numbers(rule: Rule, found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Rule:
    """Return a rule with numbers in place of its shares.

    Args:
        rule: The rule.
        found: Its part of bounds.json.
    """

    def number(bound: Any, end: str, group: str) -> Any:
        return found[end][group]["bound"] if isinstance(bound, Share) else bound

    ends: dict[str, Any] = {}
    shares: dict[str, None] = {}
    for end in ("at_least", "at_most"):
        bound = getattr(rule, end)
        if isinstance(bound, Mapping):
            numbers = {group: number(one, end, group) for group, one in bound.items()}
            ends[end] = {group: one for group, one in numbers.items() if one is not None}
            # A label without a document must not fall to the bound of all others.
            ends[end] |= {
                group: -np.inf if end == "at_least" else np.inf for group, one in numbers.items() if one is None
            }
        else:
            ends[end] = number(bound, end, ALL)
        shares |= {str(one): None for one in _each(bound) if isinstance(one, Share)}
    return replace(rule, **ends, resolved=", ".join(shares))


def _each(bound: Bound) -> Sequence[Any]:
    return tuple(bound.values()) if isinstance(bound, Mapping) else (bound,)
