"""Stages over batches, rules over columns, files with fixed row groups."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.cache import Cache
from curate.document import REMOVED
from curate.errors import LedgerError, StageError
from curate.pipeline import (
    Call,
    ParquetFile,
    Removals,
    RowsAbout,
    RowsBeside,
    apply_step,
    evaluate,
    guarded,
    read_batches,
    removal,
    split_by_bytes,
    text_bytes,
)
from curate.plan import Guard, TaskContext
from curate.stage import Rule, Step, null_divisions


class Lengths(Step):
    """Measures lengths, rewrites to upper case, and cannot stand the text 'bad'."""

    adds: ClassVar[Mapping[str, str]] = {"length": "int64"}
    rewrites: ClassVar[bool] = True

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = batch["text"].to_pylist()
        if "bad" in texts:
            raise ValueError("bad text")
        upper = pa.array([text.upper() for text in texts], pa.large_string())
        return pa.record_batch({"text": upper, "length": pa.array([len(text) for text in texts], pa.int64())})


@pytest.fixture
def context(tmp_path: Path) -> TaskContext:
    cache = Cache(tmp_path / "cache")
    cache.prepare()
    return TaskContext(cache, 1 << 20, frozenset())


def batch_of(*texts: str) -> pa.RecordBatch:
    ids = pa.array([f"id{number}" for number in range(len(texts))])
    return pa.record_batch({"id": ids, "text": pa.array(texts, pa.large_string())})


def test_a_bad_row_is_found_and_the_others_stay(context: TaskContext) -> None:
    result, text, failures = apply_step(Lengths(), "lengths", "web", "key", batch_of("a", "bad", "ccc"), context)
    assert result["length"].to_pylist() == [1, None, 3]
    assert text.to_pylist() == ["A", "bad", "CCC"]  # the old text where the step failed
    assert {row: (failure.stage, failure.message) for row, failure in failures.items()} == {
        1: ("error", "ValueError: bad text")
    }


def test_careful_mode_gives_the_same(context: TaskContext) -> None:
    careful = TaskContext(context.cache, context.memory, frozenset(), Guard(careful=True))
    for texts in (("a", "bad", "ccc"), ("a", "b"), ("bad",)):
        one = apply_step(Lengths(), "lengths", "web", "key", batch_of(*texts), context)
        other = apply_step(Lengths(), "lengths", "web", "key", batch_of(*texts), careful)
        assert one[0].to_pydict() == other[0].to_pydict()
        assert one[1].to_pylist() == other[1].to_pylist()
        assert one[2] == other[2]


def test_all_rows_bad(context: TaskContext) -> None:
    result, text, failures = apply_step(Lengths(), "lengths", "web", "key", batch_of("bad", "bad"), context)
    assert result["length"].to_pylist() == [None, None]
    assert text.to_pylist() == ["bad", "bad"]
    assert len(failures) == 2


def test_quarantined_rows_are_not_shown_to_the_stage(context: TaskContext) -> None:
    context.cache.quarantine("key", "id1", "lengths: killed its worker")
    result, _, failures = apply_step(Lengths(), "lengths", "web", "key", batch_of("a", "x", "ccc"), context)
    assert result["length"].to_pylist() == [1, None, 3]
    assert failures[1].stage == "quarantine"


def call(function: Any) -> Call:
    return Call("web", "block", "key", function, pa.schema([("n", pa.int64())]))


def test_a_lost_row_names_source_and_stage(context: TaskContext) -> None:
    batch = batch_of("a", "b")
    with pytest.raises(LedgerError, match="source 'web', stage 'block': 1 rows lost"):
        guarded(call(lambda rows: pa.record_batch({"n": pa.array([1])})), batch, ["x", "y"], context)
    with pytest.raises(LedgerError, match="counted twice or invented"):
        guarded(call(lambda rows: pa.record_batch({"n": pa.array([1, 2, 3])})), batch, ["x", "y"], context)


def test_wrong_columns_are_refused(context: TaskContext) -> None:
    with pytest.raises(StageError, match=r"columns \['n'\] are missing"):
        guarded(call(lambda rows: pa.record_batch({"m": pa.array([1])})), batch_of("a"), ["x"], context)
    with pytest.raises(StageError, match="declared is"):
        guarded(call(lambda rows: pa.record_batch({"n": pa.array(["1"])})), batch_of("a"), ["x"], context)


# -- rules: below, on and above each bound --


def fired(rule: Rule, **columns: list[Any]) -> list[bool]:
    chunked = {name: pa.chunked_array([pa.array(values)]) for name, values in columns.items()}
    mask: list[bool] = evaluate(rule, chunked, len(next(iter(columns.values())))).mask.tolist()
    return mask


def test_both_ends_are_kept() -> None:
    rule = Rule("b.n", "n", at_least=3, at_most=10)
    assert fired(rule, n=[2.999, 3.0, 10.0, 10.001, None, float("nan")]) == [True, False, False, True, False, False]
    assert rule.threshold() == "3 to 10"


def test_float_bounds_are_as_written() -> None:
    assert fired(Rule("b.x", "x", at_most=0.1), x=[0.1, 0.10000000000000002]) == [False, True]


def test_a_bound_by_language() -> None:
    rule = Rule("b.n", "n", at_least={"en": 50.0, "*": 20.0}, by="language")
    assert fired(rule, n=[49, 50, 19, 20, 5], language=["en", "en", "pt", "pt", None]) == [
        True,
        False,
        True,
        False,
        True,
    ]
    assert (rule.threshold("en"), rule.threshold("pt")) == (">= 50", ">= 20")
    only = Rule("b.n", "n", at_least={"en": 50.0}, by="language")
    assert fired(only, n=[5], language=["pt"]) == [False]


def test_labels() -> None:
    rule = Rule("b.keep", "language", one_of=("en", "pt"))
    assert fired(rule, language=["en", "de", None]) == [False, True, False]
    assert rule.threshold() == "in en, pt"


def test_expressions() -> None:
    rule = Rule("where.expression", expression="n >= 50 AND language = 'en'")
    assert fired(rule, n=[50, 49, None], language=["en", "en", "en"]) == [False, True, True]
    assert fired(Rule("w.e", expression="flag"), flag=[True, False, None]) == [False, True, True]


def test_division_by_zero_is_null_and_goes() -> None:
    rule = Rule("w.e", expression="a / b > 12")
    assert fired(rule, a=[0.0, 26.0, 5.0, 24.0], b=[0.0, 2.0, 0.0, 2.0]) == [True, False, True, True]


@pytest.mark.parametrize(
    ("expression", "safe"),
    [
        ("a / b > 12", "a / NULLIF(b, 0) > 12"), ("a/b/c", "a/NULLIF(b, 0)/NULLIF(c, 0)"), ("a / 3", "a / 3"),
        ("a / (b / c)", "a / NULLIF((b / NULLIF(c, 0)), 0)"), ("x / abs(y) + 1", "x / NULLIF(abs(y), 0) + 1"),
        ("l = 'a/b' AND \"c/d\" > 1", "l = 'a/b' AND \"c/d\" > 1"), ("a /", "a /"),
    ],
)  # fmt: skip
def test_divisors(expression: str, safe: str) -> None:
    assert null_divisions(expression) == safe


def test_what_an_expression_saw() -> None:
    columns = {"n": pa.chunked_array([[1, None]]), "language": pa.chunked_array([["en", "pt"]])}
    result = evaluate(Rule("w.e", expression="n > 5 AND language = 'en'"), columns, 2)
    assert [result.value(row) for row in (0, 1)] == ["language=en, n=1", "language=pt, n=null"]


def test_off_never_fires() -> None:
    assert fired(Rule("b.n", "n"), n=[1e9, -1e9]) == [False, False]


# -- files --


@pytest.mark.parametrize("sizes", [[25], [1] * 25, [7, 0, 11, 7]])
def test_batch_sizes_do_not_show_in_the_bytes(tmp_path: Path, sizes: list[int]) -> None:
    schema = pa.schema([("n", pa.int64())])

    def written(name: str, parts: list[int]) -> bytes:
        with ParquetFile(tmp_path / name, schema, rows_per_group=10) as file:
            start = 0
            for size in parts:
                file.write(pa.record_batch([pa.array(range(start, start + size), pa.int64())], schema=schema))
                start += size
        return (tmp_path / name).read_bytes()

    assert written("a", sizes) == written("b", [10, 10, 5])
    assert [pq.ParquetFile(tmp_path / "a").metadata.row_group(group).num_rows for group in range(3)] == [10, 10, 5]


def test_long_texts_make_short_row_groups(tmp_path: Path) -> None:
    schema = pa.schema([("text", pa.large_string())])
    texts = [letter * (3 << 20) for letter in "abcdefg"]  # 8 MiB are filled by the third, and again by the sixth

    def written(name: str, size: int) -> bytes:
        with ParquetFile(tmp_path / name, schema) as file:
            for start in range(0, len(texts), size):
                file.write(pa.record_batch([pa.array(texts[start : start + size], pa.large_string())], schema=schema))
        return (tmp_path / name).read_bytes()

    assert written("a", 1) == written("b", 2) == written("c", 7)
    metadata = pq.read_metadata(tmp_path / "a")
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [3, 3, 1]
    assert [batch.num_rows for batch in read_batches(tmp_path / "a")] == [1, 2, 1, 2, 1]


def test_rows_go_by_together(tmp_path: Path) -> None:
    ids = [f"d{number:03d}" for number in range(700)]
    pq.write_table(pa.table({"id": ids, "n": range(700)}), tmp_path / "all", row_group_size=300)
    few = [{"id": name, "n": part} for name in ids[::300] for part in range(2)]  # d000, d300, d600: two rows each
    pq.write_table(pa.Table.from_pylist(few), tmp_path / "few", row_group_size=3)
    beside, about = RowsBeside(tmp_path / "all", ["n"]), RowsAbout(tmp_path / "few")
    numbers, found = [], []
    for start in range(0, 700, 128):
        numbers += beside.take(len(ids[start : start + 128]))["n"].to_pylist()
        found += about.about(ids[start : start + 128])
    assert numbers == list(range(700))
    assert found == few
    about.finish()
    assert beside.take(1).num_rows == 0


def test_batches_are_bounded_by_bytes(tmp_path: Path) -> None:
    big = pa.record_batch({"text": pa.array(["x" * (3 << 20)] * 8, pa.large_string())})
    parts = list(split_by_bytes(big))
    assert [part.num_rows for part in parts] == [2, 2, 2, 2]
    pq.write_table(pa.table({"n": range(600)}), tmp_path / "n.parquet")
    assert [batch.num_rows for batch in read_batches(tmp_path / "n.parquet")] == [256, 256, 88]


def test_the_first_phase_is_the_reason(tmp_path: Path) -> None:
    for name, rule in (("one", "a.x"), ("two", "b.y")):
        rows = [removal("d1", "filter", rule, value=1, also_fired=["c.z"] if name == "two" else [])]
        pq.write_table(pa.Table.from_pylist(rows, REMOVED), tmp_path / name)
    removals = Removals([tmp_path / "one", tmp_path / "two"])
    assert removals.about(["d0"]) == {}
    with pytest.raises(ValueError, match="document d1 is not in the shard"):
        removals.finish()
    found = removals.about(["d1", "d2"])
    removals.finish()
    assert (found["d1"]["rule"], found["d1"]["also_fired"]) == ("a.x", ["b.y", "c.z"])


def test_text_bytes() -> None:
    assert text_bytes(pa.array(["é", None, "", "日本"], pa.large_string())).tolist() == [2, 0, 0, 6]
    assert text_bytes(pa.array([b"\xff", None], pa.large_binary())).tolist() == [1, 0]
