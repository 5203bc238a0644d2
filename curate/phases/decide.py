"""Decide: bounds applied to stored numbers. Every rule that fires is recorded; the first in recipe order is the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curate.document import REMOVED
from curate.filter.buckets import QualityBuckets
from curate.ledger import balance, same_rows
from curate.pipeline import (
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

BOOKKEEPING = ("id", "failure", "failure_message", "text_bytes")


@dataclass(frozen=True, slots=True)
class Judged:
    """A block as decide sees it.

    Attributes:
        name: Name in the recipe.
        key: Result key of its measurements for the shard, or None if it measures nothing (`where`).
        rules: Its rules, in order.
        ranking: What it ranks, if it does; its key is none of a result before that is done.
    """

    name: str
    key: str | None
    rules: tuple[Rule, ...]
    ranking: QualityBuckets | None = None


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
                removed = _removals(ids, verdicts(blocks, tables, len(ids)))
                for row, record in removed.items():
                    counts.add(record["stage"], record["rule"], sizes[row])
                file.write_rows(list(removed.values()))
        balance(source, "decide", "documents", extracted.counts["extracted"], {"judged": seen})
        balance(source, "decide", "documents", counts.total(), {"removed": rows_written(path)})
        output.counts |= counts.as_json()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says of a table of documents.

    Attributes:
        rule: Its name; `<block>.error` and `quarantine.<block>` for documents on which a step failed.
        stage: filter or quarantine.
        mask: The documents that it removes, (rows,) bool.
        values: What it looked at; the message where a step failed.
        bounds: The rule, None where a step failed.
        labels: The labels that select from a map bound, if it has one.
    """

    rule: str
    stage: str
    mask: np.ndarray
    values: pa.ChunkedArray
    bounds: Rule | None = None
    labels: pa.ChunkedArray | None = None

    def threshold(self, row: int) -> str | None:
        """Return the bound for one document, in words."""
        if self.bounds is None:
            return None
        return self.bounds.threshold(self.labels[row].as_py() if self.labels is not None else None)


def verdicts(blocks: Sequence[Judged], tables: Mapping[str, pa.Table], rows: int) -> list[Verdict]:
    """Apply the rules of a source to what was measured, in the order in which they decide.

    Args:
        blocks: The blocks of the source.
        tables: Block name to its measurements; all tables tell of the same documents in the same order.
        rows: Number of documents.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    found: list[Verdict] = []
    for block in blocks:
        if block.name in tables:
            columns |= measured_columns(tables[block.name])  # a later block of the same measure is what `where` sees
            found += _failures(block.name, tables[block.name])
        for rule in block.rules:
            fired = evaluate(rule, columns, rows)
            labels = columns[rule.by] if rule.by is not None else None
            found.append(Verdict(rule.name, "filter", fired.mask, fired.values, rule, labels))
    return found


def measured_columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Return the columns of a measurement file that rules may look at."""
    return {name: table[name] for name in table.column_names if name not in BOOKKEEPING}


def _failures(block: str, table: pa.Table) -> Iterator[Verdict]:
    kinds, messages = table["failure"], table["failure_message"]
    for kind, stage, rule in (
        ("error", "filter", f"{block}.error"),
        ("quarantine", "quarantine", f"quarantine.{block}"),
    ):
        mask = pc.fill_null(pc.equal(kinds, kind), False).to_numpy()
        if mask.any():
            yield Verdict(rule, stage, mask, messages)


def _removals(ids: Sequence[str], found: Sequence[Verdict]) -> dict[int, dict[str, Any]]:
    """Return row -> removal of those documents that a rule removes, in order; the first rule that fires is the reason."""
    fired: dict[int, list[Verdict]] = {}
    for verdict in found:
        for row in np.flatnonzero(verdict.mask).tolist():
            fired.setdefault(row, []).append(verdict)
    return {row: _record(ids[row], row, fired[row]) for row in sorted(fired)}


def _record(document: str, row: int, fired: Sequence[Verdict]) -> dict[str, Any]:
    first = fired[0]
    return removal(
        document,
        first.stage,
        first.rule,
        value=first.values[row].as_py(),
        threshold=first.threshold(row),
        also_fired=[one.rule for one in fired[1:]],
    )
