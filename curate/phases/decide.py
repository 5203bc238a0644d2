"""Decide: bounds applied to stored numbers. Every rule that fires is recorded; the first in recipe order is the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from curate.document import REMOVED
from curate.ledger import balance, same_rows
from curate.pipeline import (
    Fired,
    ParquetFile,
    RemovalCounts,
    RowsBeside,
    evaluate,
    read_batches,
    removal,
    rows_written,
)
from curate.plan import TaskContext
from curate.stage import Rule

_BOOKKEEPING = ("id", "failure", "failure_message", "text_bytes")


@dataclass(frozen=True, slots=True)
class Judged:
    """A block as decide sees it.

    Attributes:
        name: Name in the recipe.
        key: Result key of its measurements for the shard, or None if it measures nothing (`where`).
        rules: Its rules, in order.
    """

    name: str
    key: str | None
    rules: tuple[Rule, ...]


def decide_shard(context: TaskContext, key: str, source: str, extracted_key: str, blocks: Sequence[Judged]) -> None:
    """Write removed.parquet (REMOVED): one row for each document of the shard that a rule removes, in file order."""
    extracted = context.entry(extracted_key)
    measured = {
        block.name: RowsBeside(context.entry(block.key).path("measurements.parquet"))
        for block in blocks
        if block.key is not None
    }
    counts = RemovalCounts()
    seen = 0
    with context.writing(key) as output:
        path = output.path("removed.parquet")
        with ParquetFile(path, REMOVED) as file:
            for batch in read_batches(extracted.path("sizes.parquet")):
                ids, sizes = batch["id"].to_pylist(), batch["bytes"].to_pylist()
                seen += len(ids)
                tables = {name: rows.take(len(ids)) for name, rows in measured.items()}
                for name, table in tables.items():
                    same_rows(source, name, "", ids, table["id"].to_pylist())
                removed = _judge(ids, blocks, tables)
                for row, record in removed.items():
                    counts.add(record["stage"], record["rule"], sizes[row])
                file.write_rows(list(removed.values()))
        balance(source, "decide", "documents", extracted.counts["extracted"], {"judged": seen})
        balance(source, "decide", "documents", counts.total(), {"removed": rows_written(path)})
        output.counts |= counts.as_json()


def _judge(ids: Sequence[str], blocks: Sequence[Judged], tables: Mapping[str, pa.Table]) -> dict[int, dict[str, Any]]:
    """Return row -> removal of those documents of a batch that a rule removes, in order."""
    columns: dict[str, pa.ChunkedArray] = {}
    fired: dict[int, list[tuple[Fired | None, str, Any]]] = {}  # of each row, in recipe order
    for block in blocks:
        if block.name in tables:
            table = tables[block.name]
            # A later block of the same measure is what `where` sees.
            columns |= {name: table[name] for name in table.column_names if name not in _BOOKKEEPING}
            _failures(block.name, table, fired)
        for rule in block.rules:
            result = evaluate(rule, columns, len(ids))
            for row in np.flatnonzero(result.mask).tolist():
                fired.setdefault(row, []).append((result, rule.name, result.value(row)))
    return {row: _record(ids[row], fired[row], columns, row) for row in sorted(fired)}


def _failures(block: str, table: pa.Table, fired: dict[int, list[tuple[Fired | None, str, Any]]]) -> None:
    kinds = table["failure"]
    if kinds.null_count == len(kinds):
        return
    messages = table["failure_message"].to_pylist()
    for row, kind in enumerate(kinds.to_pylist()):
        if kind is not None:
            rule = f"{block}.error" if kind == "error" else f"quarantine.{block}"
            fired.setdefault(row, []).append((None, rule, messages[row]))


def _record(
    document: str, fired: list[tuple[Fired | None, str, Any]], columns: dict[str, pa.ChunkedArray], row: int
) -> dict[str, Any]:
    result, name, value = fired[0]
    stage = "quarantine" if name.startswith("quarantine.") else "filter"
    threshold = None
    if result is not None:
        label = columns[result.rule.by][row].as_py() if result.rule.by is not None else None
        threshold = result.rule.threshold(label)
    return removal(document, stage, name, value=value, threshold=threshold, also_fired=[one[1] for one in fired[1:]])
