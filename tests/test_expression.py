"""The expressions of `where`: which columns they read, and which can be no rule."""

from __future__ import annotations

import pytest

from curate.expression import expression_columns, expression_problem

COLUMNS = {"num_words": "float64", "count": "int64", "good": "bool", "lang": "string", "hashes": "list<uint64>"}


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("num_words >= 50 AND NOT (lang = 'en' OR \"odd name\" IS NULL) AND abs(x) < 1e5", {"num_words", "lang", "odd name", "x"}),
        ("length(text) > 10", {"text"}),
        ("date > 3 OR timestamp > 3 OR date < 1", {"date", "timestamp"}),
        ("CAST(num_words AS text) = '3' AND num_words::float > 2", {"num_words"}),
        ("text::int > 3", {"text"}),
        ("lang = 'text' -- date", {"lang"}),
        ("CASE WHEN a THEN b ELSE c END", {"a", "b", "c"}),
        ("\"a\"\"b\" > 2", {'a"b'}),
        ("1 = 0", set()),
        ("num_words >", set()),
    ],
)  # fmt: skip
def test_columns(expression: str, columns: set[str]) -> None:
    found = expression_columns(expression)
    assert set(found) == columns
    assert len(found) == len(columns)


@pytest.mark.parametrize(
    "expression",
    [
        "num_words >= 50", "num_words >= 50 AND lang IN ('en', 'pt')", "good", "NOT good", "lang IS NULL",
        "num_words BETWEEN 1 AND 7.5", "CAST(num_words AS text) = '7.0'", "count::float > 2", "lang LIKE 'e%'",
        "lang = 'current_date'", "abs(num_words - count) < 3",
    ],
)  # fmt: skip
def test_a_rule(expression: str) -> None:
    assert expression_problem(expression, COLUMNS) is None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1=0", "reads no column"), ("false", "reads no column"), ("NULL", "reads no column"), ("true", "reads no column"),
        ("count(*) > 2", "reads no column"), ("'en' = 'en'", "reads no column"),
        ("num_words > 'abc'", "cannot compare string with numeric type (f64)."), ("num_words > lang", "cannot compare"),
        ("num_words", "gives Float64; it must be true or false"), ("lang", "gives String"), ("hashes", "gives List(UInt64)"),
        ("num_words > AVG(num_words)", "several documents"), ("SUM(num_words) > 3", "several documents"),
        ("num_words >", "not an expression"), ("num_words = 2 AND (1", "not an expression"), ("", "not an expression"),
        ("current_date > date '2020-01-01' AND good", "reads the clock (current_date)"),
        ("CURRENT_TIMESTAMP IS NOT NULL AND good", "reads the clock (current_timestamp)"),
    ],
)  # fmt: skip
def test_no_rule(expression: str, message: str) -> None:
    problem = expression_problem(expression, COLUMNS)
    assert problem is not None
    assert message in problem
    assert "\n" not in problem
    assert problem.endswith(".")
    assert not problem.endswith("..")


def test_every_type_that_a_step_measures_can_be_tried() -> None:
    from curate.stage import MEASURED_TYPES

    for kind in MEASURED_TYPES:
        assert expression_problem("x IS NOT NULL", {"x": kind}) is None
