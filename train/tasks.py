"""Cloze tasks: which answer the model finds likeliest, centred on chance, and the bits that the gold answer takes.

Of an item every choice is scored as the continuation of its prompt: EOS, prompt, choice, as one row. From the code lengths:

- `accuracy`: the choice with the fewest nats is gold; `accuracy_bytes`: that with the fewest nats per byte. Choices that tie
  share the credit. With a single choice instead `exact`: every token of it is the likeliest one where it stands.
- `bits_per_byte`: of the gold choice, the mean over items; it tells models apart long before accuracy does.
- `score`: the one of these accuracies that the task names; `centred` = (score - chance) / (1 - chance), so that 0 is a blind
  guess and 1 is all right. The mean of `centred` over tasks is a score as CORE is (Li et al. 2024, arXiv:2406.11794, section
  3.5) over the tasks at hand; CORE itself is of 22 tasks, with examples before the question, which there are none of here.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from curate.tokens.tasks import BY_BYTES, BY_SUM, EXACT, TaskItem
from train.scoring import Row, Scored

# One row for each item, in the order of the file: what resampling needs.
OUTCOMES = pa.schema(
    [
        pa.field("task", pa.string(), nullable=False),
        pa.field("item", pa.string(), nullable=False),
        pa.field("nats", pa.list_(pa.float64()), nullable=False),  # of each choice
        pa.field("bytes", pa.list_(pa.int64()), nullable=False),
        pa.field("gold", pa.int32(), nullable=False),
        pa.field("chance", pa.float64(), nullable=False),
        pa.field(BY_SUM, pa.float64()),  # credit, in [0, 1]; null with a single choice
        pa.field(BY_BYTES, pa.float64()),
        pa.field(EXACT, pa.float64()),  # null with several choices
        pa.field("score", pa.float64(), nullable=False),  # the one of the three that the task counts
        pa.field("bits_per_byte", pa.float64(), nullable=False),  # of the gold choice
        pa.field("cut", pa.bool_(), nullable=False),  # whether only the end of its prompt fitted the context
    ]
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model makes of one item; fields as in `OUTCOMES`."""

    nats: tuple[float, ...]
    credits: Mapping[str, float]
    bits_per_byte: float
    cut: bool


def measure(items: Sequence[TaskItem], score: Callable[[Sequence[Row]], Sequence[Scored]]) -> list[Outcome]:
    """Return what the model makes of each item; all choices of all items are scored together."""
    rows = [
        Row(prompt, choice, f"item {one.item} of {one.task}")
        for one in items
        for prompt, choice in zip(one.prompts, one.choices, strict=True)
    ]
    scored = iter(score(rows))
    return [outcome(one, [next(scored) for _ in one.choices]) for one in items]


def outcome(item: TaskItem, choices: Sequence[Scored]) -> Outcome:
    """Return what the scores of an item's choices come to."""
    nats = [one.nats for one in choices]
    by_byte = [value / size for value, size in zip(nats, item.num_bytes, strict=True)]
    if item.metric == EXACT:
        credits = {EXACT: float(choices[item.gold].greedy)}
    else:
        credits = {BY_SUM: _credit(nats, item.gold), BY_BYTES: _credit(by_byte, item.gold)}
    cut = any(one.cut for one in choices)
    return Outcome(tuple(nats), credits, by_byte[item.gold] / math.log(2), cut)


def _credit(costs: Sequence[float], gold: int) -> float:
    cheapest = min(costs)
    return 1 / costs.count(cheapest) if costs[gold] == cheapest else 0.0


def scores(items: Sequence[TaskItem], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return `tasks` with the figures of each, their mean as `tasks_mean`, and `tasks_groups` with that of each group's tasks.

    Standard errors take the items as a sample of those that the task might have had; they say nothing of other seeds.
    """
    found: dict[str, list[tuple[TaskItem, Outcome]]] = {}
    for one, result in zip(items, outcomes, strict=True):
        found.setdefault(one.task, []).append((one, result))
    tasks = {task: _task(pairs) for task, pairs in found.items()}
    members: dict[str, list[str]] = {}
    for task, pairs in found.items():
        for group in pairs[0][0].groups:
            members.setdefault(group, []).append(task)
    means = {group: _mean([tasks[task] for task in named]) for group, named in members.items()}
    return {"tasks": tasks, "tasks_mean": _mean(list(tasks.values())), **({"tasks_groups": means} if means else {})}


def _task(pairs: Sequence[tuple[TaskItem, Outcome]]) -> dict[str, Any]:
    first = pairs[0][0]
    chance = statistics.fmean(one.chance for one, _ in pairs)
    values = [result.credits[first.metric] for _, result in pairs]
    score = statistics.fmean(values)
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {
        "version": first.version,
        "items": len(pairs),
        "cut": sum(result.cut for _, result in pairs),
        **{name: statistics.fmean(result.credits[name] for _, result in pairs) for name in pairs[0][1].credits},
        "bits_per_byte": statistics.fmean(result.bits_per_byte for _, result in pairs),
        "metric": first.metric,
        "chance": chance,
        "score": score,
        "centred": (score - chance) / (1 - chance),
        "standard_error": None if error is None else error / (1 - chance),  # of `centred`
    }


def _mean(tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    errors = [one["standard_error"] for one in tasks]
    known = None if None in errors else math.sqrt(sum(error**2 for error in errors)) / len(errors)
    return {
        "tasks": len(tasks),
        "centred": statistics.fmean(one["centred"] for one in tasks),
        "standard_error": known,
    }


def write(path: Path, items: Sequence[TaskItem], outcomes: Sequence[Outcome]) -> None:
    """Write a row for each item (`OUTCOMES`); the file appears whole or not at all."""
    rows = [
        {
            "task": one.task,
            "item": one.item,
            "nats": list(result.nats),
            "bytes": list(one.num_bytes),
            "gold": one.gold,
            "chance": one.chance,
            **{name: result.credits.get(name) for name in (BY_SUM, BY_BYTES, EXACT)},
            "score": result.credits[one.metric],
            "bits_per_byte": result.bits_per_byte,
            "cut": result.cut,
        }
        for one, result in zip(items, outcomes, strict=True)
    ]
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        pq.write_table(pa.Table.from_pylist(rows, OUTCOMES), file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
