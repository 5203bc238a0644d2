"""The SQL expressions of `where`: which columns they read, and whether they can be a rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SQL_WORDS = frozenset(
    """
    and or not in is null like ilike rlike regexp between case when then else end cast as true false div interval distinct
    int integer bigint smallint double float real varchar text string boolean date timestamp
    """.split()  # noqa: SIM905 (a list of words reads better so)
)

_TRIALS: Mapping[str, tuple[Any, ...]] = {
    "float64": (0.5, 7.0, 100.0),
    "int64": (1, 7, 100),
    "bool": (True, False, True),
    "string": ("en", "pt", "x"),
}


def expression_problem(expression: str, columns: Mapping[str, str]) -> str | None:
    """Return why an expression cannot be a rule, or None: it is tried on three rows together and each alone.

    Args:
        expression: Of `where`.
        columns: Known columns, name to type name as in `Step.adds`.
    """
    import polars as pl

    frame = pl.DataFrame({name: _TRIALS[kind] for name, kind in columns.items() if kind in _TRIALS})
    try:
        rule = pl.sql_expr(expression)
        together = frame.select(rule.alias("keep")) if frame.width else pl.select(rule.alias("keep"))
        alone = [frame.slice(row, 1).select(rule.alias("keep"))["keep"].to_list() for row in range(frame.height)]
    except Exception as error:
        return f"not an expression that polars SQL understands: {error}."
    if together["keep"].dtype != pl.Boolean:
        return f"gives {together['keep'].dtype}; it must be true or false for each document, such as num_words >= 50."
    if frame.height and together["keep"].to_list() != [value for values in alone for value in values]:
        return "looks at several documents at once (an aggregate or a window); a rule judges each document by itself."
    return None


def expression_columns(expression: str) -> tuple[str, ...]:
    """Return the column names in a SQL expression: identifiers that are no keyword, function or part of a string."""
    bare = re.sub(r"'(?:[^']|'')*'", " ", expression)
    found = dict.fromkeys(re.findall(r'"([^"]+)"', bare))
    for match in re.finditer(r"(?<![\w.])[A-Za-z_]\w*(\s*\()?", re.sub(r'"[^"]*"', " ", bare)):
        if match[1] is None and match[0].lower() not in _SQL_WORDS:
            found[match[0]] = None
    return tuple(found)
