"""Items of tasks as token ids, for the trainer to measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from curate.benchmarks.mappings import FOR_TASKS
from curate.errors import InputError
from curate.evaluate.cloze import TOO_LONG, Cloze, clozes, no_task
from curate.evaluate.settings import Evaluate
from curate.phases.benchmark_files import BenchmarkInputs
from curate.phases.tokens import open_tokenizer
from curate.plan import TaskContext
from curate.text.hashing import choice_hash
from curate.tokens.settings import TokenizerSettings
from curate.tokens.tasks import TASKS
from curate.tokens.tokenizer import Tokenizer


def write_items(
    context: TaskContext,
    key: str,
    settings: Evaluate,
    benchmarks: Sequence[BenchmarkInputs],
    tokenizer_key: str,
    tokenizer_settings: TokenizerSettings,
    context_tokens: int,
    seed: int,
) -> None:
    """Write tasks.parquet (TASKS): the items of every benchmark, or so many of each as the settings say.

    Args:
        context: Of the task.
        key: Result key.
        settings: The recipe's `evaluate`.
        benchmarks: Of the recipe's `evaluate.tasks`.
        tokenizer_key: Of the tokenizer.
        tokenizer_settings: The recipe's `tokenizer`.
        context_tokens: Of the trainer: an item with a choice that is longer is left out.
        seed: Of the recipe.

    Raises:
        InputError: If a benchmark cannot be read, or holds no item that makes a task.
    """
    tokenizer = open_tokenizer(context, tokenizer_key, tokenizer_settings)
    rows: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    with context.scratch() as scratch:
        for number, inputs in enumerate(benchmarks):
            benchmark = inputs.read(scratch / str(number), also=FOR_TASKS)
            found, without = clozes(benchmark)
            about = {
                "version": settings.version,
                "mapping": benchmark.facts["mapping"],
                "files": {file.path: file.digest for file in inputs.files},
                "passed_over": dict(sorted(without.items())),
            }
            groups = [group for group, tasks in settings.groups.items() if inputs.name in tasks]
            head = {"task": inputs.name, "version": settings.version, "groups": groups}
            usable, merged = [], 0
            for one in found:
                ids, joined = encoded(tokenizer, one)
                merged += joined
                if max(map(len, ids["choices"])) > context_tokens:
                    about["passed_over"][TOO_LONG] = about["passed_over"].get(TOO_LONG, 0) + 1
                    continue
                sizes = [len(text.removeprefix(" ").encode()) for text in one.choices]
                said = {"metric": one.metric, "item": one.item, "bytes": sizes, "gold": one.gold, "chance": one.chance}
                usable.append(head | said | ids)
            if not usable:
                raise InputError(inputs.files[0].path, *no_task(benchmark, about["passed_over"]))
            chosen = drawn(usable, settings.items, inputs.name, seed)
            rows += chosen
            about |= {"items": len(chosen), "items_usable": len(usable), "seams_merged": merged}
            facts[inputs.name] = about
    with context.writing(key) as output:
        pq.write_table(pa.Table.from_pylist(rows, TASKS), output.path("tasks.parquet"), compression="zstd")
        output.counts |= {"tasks": facts}


def encoded(tokenizer: Tokenizer, item: Cloze) -> tuple[dict[str, list[list[int]]], bool]:
    """Return `prompts` and `choices` of an item as ids, and whether a token would reach over a seam between them.

    Prompt and choice are encoded as one text, and divided where the prompt's own ids end. Where the tokenizer joins the end
    of a prompt and the beginning of a choice to one token, what all the choices' texts share goes before: the ids are then
    still those of the whole text, and the end of the prompt counts with each choice alike.
    """
    begin = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    several = len(item.prompts) > 1
    each = item.prompts if several else item.prompts * len(item.choices)
    texts = [prompt + choice for prompt, choice in zip(each, item.choices, strict=True)]
    ids = [run.tolist() for run in tokenizer.encode_batch([*each, *texts])]
    alone, whole = ids[: len(each)], ids[len(each) :]
    common = [_common(prompt, text) for prompt, text in zip(alone, whole, strict=True)]
    merged = any(length < len(prompt) for length, prompt in zip(common, alone, strict=True))
    ends = common if several else [min(common)] * len(whole)
    ends = [min(end, len(text) - 1) for end, text in zip(ends, whole, strict=True)]  # a choice has a token
    prompts = [begin + text[:end] for end, text in zip(ends, whole, strict=True)]
    choices = [text[end:] for end, text in zip(ends, whole, strict=True)]
    return {"prompts": prompts if several else prompts[:1], "choices": choices}, merged


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many ids two runs begin with alike."""
    return next((place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(first))


def drawn(rows: list[dict[str, Any]], most: int | None, task: str, seed: int) -> list[dict[str, Any]]:
    """Return the rows of at most so many items, drawn by hash(seed, task, item), in the order of the file."""
    if most is None or len(rows) <= most:
        return rows
    order = sorted((choice_hash(seed, f"{task}\0{row['item']}", "task"), place) for place, row in enumerate(rows))
    return [rows[place] for place in sorted(place for _, place in order[:most])]
