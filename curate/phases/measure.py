"""Measure: the ordered steps of a source over the text. One result a shard and block: numbers only, no text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from curate.ledger import balance, same_rows
from curate.pipeline import (
    Call,
    Failure,
    ParquetFile,
    add_words,
    added_schema,
    apply_step,
    guarded,
    read_batches,
    replace_text,
    rows_written,
    text_bytes,
)
from curate.plan import TaskContext
from curate.stage import Stage, Step
from curate.words import prepare_words


@dataclass(frozen=True, slots=True)
class Block:
    """A step of a source at its place in the list.

    Attributes:
        name: Name in the recipe, such as `gopher_quality` or `fineweb-2`.
        step: The settings.
        stage_key: Key of the step by itself.
        key: Result key of the block for the shard at hand.
    """

    name: str
    step: Step
    stage_key: str
    key: str


@dataclass(frozen=True, slots=True)
class LastMeasure:
    """A measure of the last text revision that serves a whole-corpus phase.

    Attributes:
        name: dedup or decontaminate.
        stage: Its settings.
        stage_key: Key of the stage.
        key: Result key for the shard at hand.
        schema: Columns that it gives.
        prepare: Called in the worker with (context, stage, argument); returns the function over a batch.
        argument: For `prepare`.
        reads: Transient columns of `curate.words` that the batch has beside `text`.
    """

    name: str
    stage: Stage
    stage_key: str
    key: str
    schema: pa.Schema
    prepare: Callable[[TaskContext, Stage, Any], Callable[[pa.RecordBatch], pa.RecordBatch]]
    argument: Any = None
    reads: tuple[str, ...] = ()


def measure_shard(
    context: TaskContext, source: str, extracted_key: str, blocks: Sequence[Block], last: Sequence[LastMeasure]
) -> None:
    """Write the missing results of a shard: measurements.parquet for each block and each last measure."""
    extracted = context.entry(extracted_key)
    path = extracted.path("extracted.parquet")
    first = {block.key: block for block in reversed(blocks)}  # blocks that measure the same share one result
    wanted = [block for block in blocks if block.key in context.missing and first[block.key] is block]
    wanted_last = [
        (measure, measure.prepare(context, measure.stage, measure.argument))
        for measure in last
        if measure.key in context.missing
    ]
    until = (
        len(blocks)
        if wanted_last
        else max((index + 1 for index, block in enumerate(blocks) if block in wanted), default=0)
    )
    with contextlib.ExitStack() as stack:
        files: dict[str, ParquetFile] = {}
        names = {block.key: block.name for block in blocks} | {measure.key: measure.name for measure in last}
        for block in wanted:
            output = stack.enter_context(context.writing(block.key))
            files[block.key] = stack.enter_context(
                ParquetFile(output.path("measurements.parquet"), block_schema(block.step))
            )
        for measure, _ in wanted_last:
            output = stack.enter_context(context.writing(measure.key))
            schema = pa.schema([pa.field("id", pa.string(), nullable=False), *measure.schema])
            files[measure.key] = stack.enter_context(ParquetFile(output.path("measurements.parquet"), schema))
        rows = 0
        running = [block for block in blocks[:until] if block in wanted or block.step.rewrites]
        read = {name for block in running for name in block.step.reads}
        read_last = sorted({name for measure, _ in wanted_last for name in measure.reads})
        prepare_words(read.union(read_last))
        for block in running:
            block.step.prepare()
        for batch in read_batches(path):
            ids = batch["id"]
            rows += batch.num_rows
            for block in running:
                batch = add_words(batch, block.step.reads)  # once a revision, whoever reads them
                result, text, failures = apply_step(block.step, block.name, source, block.stage_key, batch, context)
                if block.step.rewrites:
                    batch = replace_text(batch, text)
                if block in wanted:
                    files[block.key].write(_row_batch(block.step, ids, result, text, failures))
            batch = add_words(batch, read_last)
            for measure, function in wanted_last:
                call = Call(source, measure.name, measure.stage_key, function, measure.schema)
                result, _ = guarded(call, batch, ids.to_pylist(), context)
                arrays = [ids, *result.columns]
                files[measure.key].write(pa.RecordBatch.from_arrays(arrays, names=["id", *measure.schema.names]))
        for key, file in files.items():
            file.finish()
            balance(source, names[key], "documents", rows, {"measured": rows_written(file.path)})
        balance(source, "measure", "documents", extracted.counts["extracted"], {"measured": rows})


def block_schema(step: Step) -> pa.Schema:
    """Return the columns of a block's measurement file."""
    fields = [pa.field("id", pa.string(), nullable=False), *added_schema(step)]
    if step.rewrites:
        fields.append(pa.field("text_bytes", pa.int64()))  # UTF-8 bytes of the revision that the step made
    return pa.schema([*fields, pa.field("failure", pa.string()), pa.field("failure_message", pa.large_string())])


def _row_batch(
    step: Step, ids: pa.Array, result: pa.RecordBatch, text: pa.Array, failures: dict[int, Failure]
) -> pa.RecordBatch:
    arrays = [ids, *result.columns]
    if step.rewrites:
        arrays.append(pa.array(text_bytes(text)))
    failed = [failures.get(row) for row in range(len(ids))]
    arrays.append(pa.array([one.stage if one else None for one in failed], pa.string()))
    arrays.append(pa.array([one.message if one else None for one in failed], pa.large_string()))
    return pa.RecordBatch.from_arrays(arrays, schema=block_schema(step))


def last_revision(context: TaskContext, source: str, blocks: Sequence[Block], batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return an EXTRACTED batch with the last text revision, the rewrites applied again.

    Args:
        context: Of the task.
        source: Name of the source.
        blocks: The steps of the source; only rewrites run.
        batch: Some documents of the source, revision 0.
    """
    before = batch["id"].to_pylist()
    for block in blocks:
        if block.step.rewrites:
            _, text, _ = apply_step(block.step, block.name, source, block.stage_key, batch, context)
            batch = replace_text(batch, text)
    same_rows(source, "measure", "", before, batch["id"].to_pylist())
    return batch
