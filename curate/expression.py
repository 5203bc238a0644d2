"""The SQL expressions of `where`: which columns they read, and whether they can be a rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from curate.stage import null_divisions

_TRIALS: Mapping[str, tuple[Any, ...]] = {
    "float64": (0.5, 7.0, 100.0),
    "int64": (1, 7, 100),
    "bool": (True, False, True),
    "string": ("en", "pt", "x"),
    "list<uint64>": ([1], [7, 100], []),
}
# What SQL lets read the clock, outside strings and quoted names: an answer must be the same tomorrow.
_CLOCK = re.compile(
    r"(?i)\b(current_date|current_timestamp|current_time|localtimestamp|localtime)\b|\b(now|today)\s*\("
)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")


def expression_problem(expression: str, columns: Mapping[str, str]) -> str | None:
    """Return why an expression cannot be a rule, or None: it is tried on three rows together and each alone.

    Args:
        expression: Of `where`.
        columns: Known columns, name to type name as in `Step.adds`; those that the expression reads are among them.
    """
    import polars as pl

    try:
        rule = pl.sql_expr(null_divisions(expression))
    except (Exception, pl.exceptions.PanicException) as error:
        return f"not an expression that polars SQL understands: {_reason(error)}."
    clock = _CLOCK.search(_QUOTED.sub("''", expression))
    if clock is not None:
        return f"reads the clock ({(clock[1] or clock[2]).lower()}); a rule gives the same answer whenever it is asked."
    if not expression_columns(expression):
        return "reads no column, so it says the same of every document; compare a measured column, such as num_words >= 50."
    lists = {name: pl.List(pl.UInt64) for name, kind in columns.items() if kind == "list<uint64>"}
    frame = pl.DataFrame({name: _TRIALS[kind] for name, kind in columns.items()}, schema_overrides=lists)
    try:
        together = frame.select(rule.alias("keep"))
        alone = [frame.slice(row, 1).select(rule.alias("keep"))["keep"].to_list() for row in range(frame.height)]
    except (Exception, pl.exceptions.PanicException) as error:
        return f"not an expression that polars SQL understands: {_reason(error)}."
    if together["keep"].dtype != pl.Boolean:
        return f"gives {together['keep'].dtype}; it must be true or false for each document, such as num_words >= 50."
    if together["keep"].to_list() != [value for values in alone for value in values]:
        return "looks at several documents at once (an aggregate or a window); a rule judges each document by itself."
    return None


def expression_columns(expression: str) -> tuple[str, ...]:
    """Return the columns that a SQL expression reads, as polars understands it; none if it does not parse."""
    import polars as pl

    try:
        return tuple(dict.fromkeys(pl.sql_expr(null_divisions(expression)).meta.root_names()))
    except (Exception, pl.exceptions.PanicException):
        return ()


def _reason(error: BaseException) -> str:
    """Return the first line of what polars says: the rest shows its own plan of the query."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
