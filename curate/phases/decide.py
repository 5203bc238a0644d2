"""Decide: bounds applied to stored numbers. Every rule that fires is recorded; the first in recipe order is the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.document import REMOVED
from curate.ledger import balance, same_rows
from curate.pipeline import Fired, ParquetFile, evaluate, removal, rows_written, sizes_by_rule
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
    extracted = context.entry(extracted_key).path("extracted.parquet")
    ids = pq.read_table(extracted, columns=["id"])["id"].to_pylist()
    columns: dict[str, pa.ChunkedArray] = {}
    fired: list[list[tuple[Fired | None, str, Any]]] = [[] for _ in ids]  # of each document, in recipe order
    for block in blocks:
        own: dict[str, pa.ChunkedArray] = {}
        if block.key is not None:
            table = pq.read_table(context.entry(block.key).path("measurements.parquet"))
            same_rows(source, block.name, "", ids, table["id"].to_pylist())
            own = {name: table[name] for name in table.column_names if name not in _BOOKKEEPING}
            _failures(block.name, table, fired)
        columns |= own  # a later block of the same measure is what `where` sees
        for rule in block.rules:
            result = evaluate(rule, columns | own, len(ids))
            for row in np.flatnonzero(result.mask).tolist():
                fired[row].append((result, rule.name, result.values[row]))
    reasons: dict[str, str] = {}
    with context.writing(key) as output:
        path = output.path("removed.parquet")
        with ParquetFile(path, REMOVED) as file:
            for start in range(0, len(ids), 1000):
                rows = []
                for row in range(start, min(start + 1000, len(ids))):
                    if fired[row]:
                        record = _record(ids[row], fired[row], columns, row)
                        reasons[ids[row]] = f"{record['stage']}/{record['rule']}"
                        rows.append(record)
                file.write_rows(rows)
        balance(source, "decide", "documents", len(reasons), {"removed": rows_written(path)})
        sizes = sizes_by_rule(context.entry(extracted_key).path("sizes.parquet"), reasons)
        output.counts |= {"removed": dict(sorted(Counter(reasons.values()).items())), "bytes": sizes}


def _failures(block: str, table: pa.Table, fired: list[list[tuple[Fired | None, str, Any]]]) -> None:
    kinds = table["failure"]
    if kinds.null_count == len(kinds):
        return
    messages = table["failure_message"].to_pylist()
    for row, kind in enumerate(kinds.to_pylist()):
        if kind == "error":
            fired[row].append((None, f"{block}.error", messages[row]))
        elif kind is not None:
            fired[row].append((None, f"quarantine.{block}", messages[row]))


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
