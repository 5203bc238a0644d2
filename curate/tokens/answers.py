"""Prompts and gold answers as token ids: a Parquet file that the trainer measures itself on."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curate.errors import InputError

ANSWERS = pa.schema(
    [
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("item", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),  # answers of one group are averaged
        pa.field("prompt", pa.list_(pa.int32()), nullable=False),  # begin mark included if the tokenizer sets one
        pa.field("answer", pa.list_(pa.int32()), nullable=False),  # without marks
        pa.field("bytes", pa.int64(), nullable=False),  # UTF-8 bytes of the answer
    ]
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One gold answer; fields as in `ANSWERS`."""

    benchmark: str
    item: str
    group: str
    prompt: npt.NDArray[np.int64]
    answer: npt.NDArray[np.int64]
    num_bytes: int


def read_answers(path: str | os.PathLike[str], vocab_size: int) -> tuple[Answer, ...]:
    """Return the answers of a file, in order; columns that `ANSWERS` does not have are passed over.

    Raises:
        InputError: If it cannot be read, or a row has no answer, no byte, or an id outside the vocabulary.
    """
    remedy = "Run the recipe up to its mix phase again."
    try:
        rows = pq.read_table(path, columns=ANSWERS.names).cast(ANSWERS).to_pylist()
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(str(path), f"is no file of gold answers ({error}).", remedy) from error
    answers = []
    for number, row in enumerate(rows, 1):
        prompt, answer = (np.array(row[name], np.int64) for name in ("prompt", "answer"))
        if not answer.size or row["bytes"] < 1:
            raise InputError(str(path), f"row {number} has no answer.", remedy)
        check_ids(path, number, (prompt, answer), vocab_size, remedy)
        answers.append(Answer(row["benchmark"], row["item"], row["group"], prompt, answer, row["bytes"]))
    return tuple(answers)


def check_ids(
    path: str | os.PathLike[str],
    number: int,
    runs: Iterable[npt.NDArray[np.int64]],
    vocab_size: int,
    remedy: str,
) -> None:
    """Refuse ids of row `number` that are outside the vocabulary.

    Raises:
        InputError: Names the first of them.
    """
    for ids in runs:
        if (outside := (ids < 0) | (ids >= vocab_size)).any():
            problem = f"row {number}: id {ids[outside][0]} is outside the vocabulary of {vocab_size:,}."
            raise InputError(str(path), problem, remedy)
