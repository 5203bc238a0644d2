"""Plant canaries: their token runs in the form in which encode leaves those of texts, and what the trainer measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.decontaminate.canaries import STREAM, Canaries, Canary, candidates, drawn, rounds
from curate.errors import StageError
from curate.phases.benchmark_files import BenchmarkInputs
from curate.phases.tokens import open_tokenizer
from curate.pipeline import ParquetFile
from curate.plan import TaskContext
from curate.text.hashing import document_id
from curate.tokens.answers import ANSWERS
from curate.tokens.arrange import ENCODED
from curate.tokens.settings import TokenizerSettings
from curate.tokens.shard import dtype_for, stored_dtype

LEAKED, CLEAN = "leaked", "clean"

# canaries.parquet of a run: what the trainer reads, and for people the texts and the ids in the training stream.
CANARIES = pa.schema(
    [
        *ANSWERS,
        pa.field("prompt_text", pa.large_string(), nullable=False),
        pa.field("answer_text", pa.large_string(), nullable=False),
        pa.field("ids", pa.list_(pa.string()), nullable=False),  # of its copies in tokens/canaries
    ]
)


def plant(
    context: TaskContext,
    key: str,
    settings: Canaries,
    benchmarks: Sequence[BenchmarkInputs],
    tokenizer_key: str,
    tokenizer_settings: TokenizerSettings,
    window: int,
    seed: int,
) -> None:
    """Write tokens.bin and documents.parquet (ENCODED) of the leaked items, and canaries.parquet (CANARIES) of all drawn.

    A document is prompt and answer, encoded each by itself, so that the ids measured are those trained on. An item that is
    longer than a window is not drawn.

    Args:
        context: Of the task.
        key: Result key.
        settings: How many.
        benchmarks: Of the recipe.
        tokenizer_key: Of the tokenizer.
        tokenizer_settings: The recipe's `tokenizer`.
        window: Tokens per window of the mixture.
        seed: Of the recipe.

    Raises:
        InputError: If a benchmark cannot be read.
        StageError: If no benchmark has two items that can be canaries.
    """
    tokenizer = open_tokenizer(context, tokenizer_key, tokenizer_settings)
    begin = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    found: list[tuple[Canary, list[int], list[int]]] = []
    facts: dict[str, Any] = {}
    with context.scratch() as scratch:
        for number, benchmark in enumerate(benchmarks):
            without: Counter[str] = Counter()
            items = benchmark.read(scratch / str(number)).items
            runs: dict[tuple[str, str, str], tuple[list[int], list[int]]] = {}
            for item, prompt, answer in candidates(benchmark.name, items, seed, without):
                asked, told = begin + tokenizer.encode(prompt).tolist(), tokenizer.encode(answer).tolist()
                if not told or len(asked) + len(told) > window:
                    without["longer than a window" if told else "no gold answer"] += 1
                    continue
                runs[item, prompt, answer] = asked, told
                if len(runs) == settings.items:
                    break
            some = drawn(benchmark.name, list(runs))
            found += [(one, *runs[one.item, one.prompt, one.answer]) for one in some]
            facts[benchmark.name] = {
                "leaked": sum(one.leaked for one in some),
                "clean": sum(not one.leaked for one in some),
                "passed_over": dict(sorted(without.items())),
            }
    leaked = [(one, prompt + answer) for one, prompt, answer in found if one.leaked]
    if not leaked:
        reasons = Counter(reason for one in facts.values() for reason in one["passed_over"])
        problem = f"no benchmark has two items that can be canaries ({', '.join(reasons) or 'no item'})."
        raise StageError(STREAM, "encode", "", problem, "Give a benchmark a mapping that names its gold answer.")
    order = rounds([len(run) + 1 for _, run in leaked], settings.copies, window)
    copies: dict[tuple[str, str], list[str]] = {}
    with context.writing(key) as output:
        stored = stored_dtype(dtype_for(tokenizer.vocab_size))
        rows: list[dict[str, Any]] = []
        with output.path("tokens.bin").open("wb") as tokens:
            for copy, place in order:
                one, run = leaked[place]
                name = document_id(STREAM, None, f"{one.benchmark}/{one.item}", copy, 0)
                copies.setdefault((one.benchmark, one.item), []).append(name)
                tokens.write(np.array(run, stored).tobytes())
                size = len((one.prompt + one.answer).encode())
                rows.append({"id": name, "split": "train", "bytes": size, "tokens": len(run)})
        with ParquetFile(output.path("documents.parquet"), ENCODED) as documents:
            documents.write_rows(rows)
        pq.write_table(_table(found, copies), output.path("canaries.parquet"), compression="zstd")
        output.counts |= {
            "documents": len(rows),
            "tokens": sum(row["tokens"] for row in rows),
            "bytes": sum(row["bytes"] for row in rows),
            "benchmarks": facts,
        }


def _table(found: Sequence[tuple[Canary, list[int], list[int]]], copies: dict[tuple[str, str], list[str]]) -> pa.Table:
    """Return the rows of all canaries, the leaked ones first: the first group less the second is what memory gained."""
    rows = [
        {
            "benchmark": one.benchmark,
            "item": one.item,
            "group": LEAKED if one.leaked else CLEAN,
            "prompt": prompt,
            "answer": answer,
            "bytes": len(one.answer.encode()),
            "prompt_text": one.prompt,
            "answer_text": one.answer,
            "ids": copies.get((one.benchmark, one.item), []),
        }
        for one, prompt, answer in sorted(found, key=lambda row: not row[0].leaked)
    ]
    return pa.Table.from_pylist(rows, CANARIES)
