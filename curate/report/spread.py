"""How measured values spread, and where the bounds of the rules cut."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from curate.report.rules import rules_of
from curate.report.run import RunFolder, count_rows, read_names, read_table

if TYPE_CHECKING:
    import polars as pl

    from curate.recipe import Recipe

NUM_BINS = 48
MAX_LABELS = 8
MAX_ROWS = 1_000_000  # of a source; beyond that every n-th row is read, so that memory stays bounded
_NOT_MEASURED = ("id", "failure", "failure_message")
_QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)


def spreads(run: RunFolder, recipe: Recipe | None, source: str, fired: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return one entry for each measured number or label column of a source, in the recipe's order.

    Args:
        run: The run folder.
        recipe: Its recipe, or None: then no bounds are known.
        source: Name of the source.
        fired: Documents by rule on which it fired.
    """
    import polars as pl

    rules = rules_of(recipe, source)
    entries: list[dict[str, Any]] = []
    for block in run.blocks(source):
        shards = run.shards("measurements", source, block)
        every = max(1, math.ceil(sum(map(count_rows, shards)) / MAX_ROWS))
        for column in read_names(shards[0]) if shards else ():
            if column in _NOT_MEASURED:
                continue
            values = pl.concat([read_table(path, (column,)).gather_every(every) for path in shards])[column]
            bounds = [
                {
                    "rule": rule.name,
                    "at_least": rule.at_least if isinstance(rule.at_least, int | float) else None,
                    "at_most": rule.at_most if isinstance(rule.at_most, int | float) else None,
                    "fired": fired.get(rule.name, 0),
                }
                for rule in rules.get(block, ())
                if rule.column == column and rule.expression is None
            ]
            if (described := _describe(values)) is not None:
                entries.append({"block": block, "column": column, "every": every, **described, "bounds": bounds})
    return entries


def _describe(values: pl.Series) -> dict[str, Any] | None:
    import polars as pl

    if values.dtype == pl.String or values.dtype == pl.Boolean:
        counts = values.cast(pl.String).fill_null("none").value_counts().rows()
        ordered = sorted(counts, key=lambda item: (-item[1], item[0]))
        shown = [[label, count] for label, count in ordered[:MAX_LABELS]]
        return {"kind": "label", "rows": len(values), "labels": shown, "more": max(0, len(ordered) - MAX_LABELS)}
    if not values.dtype.is_numeric():
        return None
    numbers = values.cast(pl.Float64).drop_nulls()
    numbers = numbers.filter(numbers.is_finite())
    if numbers.is_empty():
        return None
    quantiles = [float(numbers.quantile(share, "nearest") or 0.0) for share in _QUANTILES]
    return {
        "kind": "number",
        "rows": len(numbers),
        "lowest": numbers.min(),
        "highest": numbers.max(),
        "quantiles": dict(zip(("1%", "25%", "50%", "75%", "99%"), quantiles, strict=True)),
        "histogram": histogram(numbers.to_list(), quantiles[0], quantiles[-1]),
    }


def histogram(values: Sequence[float], low: float, high: float) -> dict[str, Any]:
    """Return counts in equal bins from `low` to `high`; what lies outside is counted in the first and last bin."""
    counts = [0] * (NUM_BINS if high > low else 1)
    for value in values:
        place = int((value - low) / (high - low) * NUM_BINS) if high > low else 0
        counts[min(max(place, 0), len(counts) - 1)] += 1
    return {"low": low, "high": high, "counts": counts}
