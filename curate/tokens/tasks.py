"""Items of benchmarks as token ids: a Parquet file of prompts and choices that the trainer measures itself on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curate.errors import InputError
from curate.tokens.answers import check_ids

BY_SUM = "accuracy"  # the choice with the largest likelihood
BY_BYTES = "accuracy_bytes"  # the choice with the largest likelihood for each of its bytes
EXACT = "exact"  # every token of the gold answer is the likeliest one
METRICS = (BY_SUM, BY_BYTES, EXACT)

_ids = pa.list_(pa.int32())
TASKS = pa.schema(
    [
        pa.field("task", pa.string(), nullable=False),
        pa.field("version", pa.int32(), nullable=False),  # of the wording
        pa.field("groups", pa.list_(pa.string()), nullable=False),  # of tasks whose scores are averaged as well
        pa.field("metric", pa.string(), nullable=False),  # one of METRICS: what the task's score is made of
        pa.field("item", pa.string(), nullable=False),
        pa.field("prompts", pa.list_(_ids), nullable=False),  # one for all choices, or one for each; begin mark included
        pa.field("choices", pa.list_(_ids), nullable=False),  # what follows the prompt, without marks; one if EXACT
        pa.field("bytes", pa.list_(pa.int64()), nullable=False),  # UTF-8 bytes of each choice, the space before it not counted
        pa.field("gold", pa.int32(), nullable=False),  # place of the gold answer among the choices
        pa.field("chance", pa.float64(), nullable=False),  # of a right answer by a blind guess, in [0, 1)
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskItem:
    """One item; fields as in `TASKS`, but for a prompt beside each choice."""

    task: str
    version: int
    groups: tuple[str, ...]
    metric: str
    item: str
    prompts: tuple[npt.NDArray[np.int64], ...]
    choices: tuple[npt.NDArray[np.int64], ...]
    num_bytes: tuple[int, ...]
    gold: int
    chance: float


def read_tasks(path: str | os.PathLike[str], vocab_size: int) -> tuple[TaskItem, ...]:
    """Return the items of a file, in order; columns that `TASKS` does not have are passed over.

    Raises:
        InputError: If it cannot be read, holds no item, or a row cannot be measured: its number, and what is wrong.
    """
    remedy = "Run the recipe up to its mix phase again."
    try:
        rows = pq.read_table(path, columns=TASKS.names).cast(TASKS).to_pylist()
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(str(path), f"is no file of task items ({error}).", remedy) from error
    if not rows:
        raise InputError(str(path), "holds no task item.", remedy)
    items = []
    for number, row in enumerate(rows, 1):
        if wrong := _wrong(row):
            raise InputError(str(path), f"row {number} {wrong}.", remedy)
        prompts, choices = (tuple(np.array(ids, np.int64) for ids in row[name]) for name in ("prompts", "choices"))
        check_ids(path, number, (*prompts, *choices), vocab_size, remedy)
        prompts = prompts if len(prompts) == len(choices) else prompts * len(choices)
        sizes = tuple(row["bytes"])
        said = (row["task"], row["version"], tuple(row["groups"]), row["metric"], row["item"])
        items.append(TaskItem(*said, prompts, choices, sizes, row["gold"], row["chance"]))
    return tuple(items)


def _wrong(row: dict[str, Any]) -> str:
    """Return why a row cannot be measured, or nothing."""
    number = len(row["choices"])
    if not number or not all(row["choices"]) or len(row["bytes"]) != number or min(row["bytes"]) < 1:
        return "has a choice without tokens or bytes"
    if len(row["prompts"]) not in (1, number):
        return f"has {len(row['prompts'])} prompts and {number} choices"
    if row["metric"] not in METRICS or (row["metric"] == EXACT) != (number == 1):
        return f"has {number} choices and the metric '{row['metric']}'"
    if not 0 <= row["gold"] < number:
        return f"has {number} choices, and the gold one is {row['gold']}"
    return "" if 0 <= row["chance"] < 1 else f"has a chance of {row['chance']}"
