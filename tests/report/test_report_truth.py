"""Planted documents against what a run did with them: every way to be right and to be wrong, on rows written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.document import CURATED, DECISION, EXTRACTED
from curate.errors import InputError, UsageError
from curate.report.truth import TruthRow, compare_truth, expected_words
from curate.text.hashing import document_id

NOTE = "why it is planted"


class Run:
    """Writes a run folder and a truth table, one document at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.truth: list[dict[str, Any]] = []
        self.extracted: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []
        self.documents: list[dict[str, Any]] = []

    def add(
        self,
        url: str,
        expect: dict[str, Any] | None = None,
        *,
        kept: bool | None = True,
        stage: str | None = None,
        rule: str | None = None,
        kept_id: str | None = None,
        text: str = "",
        kind: str = "fault",
    ) -> str:
        offset = 100 * len(self.truth) + len(self.extracted)
        name = document_id("web", None, "a.warc.gz", offset, 0)
        if expect is not None:
            row = {"source": "web", "path": "a.warc.gz", "offset": offset, "url": url}
            self.truth.append(row | {"kind": kind, "expect": expect, "note": NOTE})
        if kept is not None:
            place = {"id": name, "source": "web", "url": url, "path": "a.warc.gz"}
            self.extracted.append(place | {"offset": offset, "text": text})
            decision = {"kept": kept, "stage": stage, "rule": rule, "kept_id": kept_id, "also_fired": []}
            self.decisions.append(place | {"offset": offset} | decision)
            if kept:
                self.documents.append(place | {"text": text, "split": "train", "cluster_size": 1})
        return name

    def compare(self, *, collected: bool = True) -> list[TruthRow]:
        tables = [("extracted", EXTRACTED, self.extracted), ("decisions", DECISION, self.decisions)]
        if collected:
            tables.append(("documents", CURATED, self.documents))
        for kind, schema, rows in tables:
            (self.folder / kind / "web").mkdir(parents=True)
            full = [{name: row.get(name) for name in schema.names} for row in rows]
            pq.write_table(pa.Table.from_pylist(full, schema), self.folder / kind / "web" / "00000.parquet")
        (self.folder / "truth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.truth))
        return compare_truth(self.folder, self.folder / "truth.jsonl")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def found(rows: list[TruthRow]) -> str | None:
    [row] = rows
    assert row.planted == 1
    assert row.as_expected == 1 - len(row.misses)
    return row.misses[0].found if row.misses else None


FILTERED = {"kept": False, "stage": ["extract", "filter"], "rule": ["extract.empty", "fineweb."]}


@pytest.mark.parametrize(
    ("stage", "rule", "expected"),
    [
        ("filter", "fineweb.terminal_line_fraction", None),
        ("extract", "extract.empty", None),
        ("filter", "fineweb_like.rule", "removed in filter by fineweb_like.rule"),
        ("filter", "language.keep", "removed in filter by language.keep"),
        ("dedup", "fineweb.terminal_line_fraction", "removed in dedup by fineweb.terminal_line_fraction"),
    ],
)
def test_a_removal_needs_stage_and_rule(run: Run, stage: str, rule: str, expected: str | None) -> None:
    run.add("u", FILTERED, kept=False, stage=stage, rule=rule)
    assert found(run.compare()) == expected


def test_what_should_go_and_stays_is_a_miss(run: Run) -> None:
    run.add("u", FILTERED)
    assert found(run.compare()) == "kept"


def test_what_should_stay_and_goes_is_a_miss(run: Run) -> None:
    run.add("u", {"kept": True}, kept=False, stage="filter", rule="where.expression")
    assert found(run.compare()) == "removed in filter by where.expression"


def test_what_was_never_read_is_a_miss(run: Run) -> None:
    run.add("u", {"kept": True}, kept=None)
    run.add("other", kept=True)
    assert found(run.compare()) == "not read"


@pytest.mark.parametrize(("kept", "expected"), [(None, None), (True, "counted as a document")])
def test_records_that_are_no_documents(run: Run, kept: bool | None, expected: str | None) -> None:
    run.add("other")
    run.add("u", {"skipped": True}, kept=kept)
    assert found(run.compare()) == expected


COPY = {"kept": False, "stage": ["dedup"], "rule": ["dedup."], "copy_of": "original"}


def test_a_copy_goes_in_favour_of_the_right_document(run: Run) -> None:
    original = run.add("original")
    run.add("u", COPY, kept=False, stage="dedup", rule="dedup.exact", kept_id=original)
    assert found(run.compare()) is None


def test_a_copy_that_goes_in_favour_of_another_is_a_miss(run: Run) -> None:
    run.add("original")
    other = run.add("other")
    run.add("u", COPY, kept=False, stage="dedup", rule="dedup.exact", kept_id=other)
    assert found(run.compare()) == f"removed in dedup by dedup.exact, in favour of {other}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to  us\nat once.", None),  # white space is not compared
        ("Write to us at a@b.example at once.", "kept, without 'us at once', with 'a@b.example'"),
        ("Nothing.", "kept, without 'us at once'"),
    ],
)
def test_the_text_of_what_stays(run: Run, text: str, expected: str | None) -> None:
    run.add("u", {"kept": True, "text_contains": ["us at once"], "text_not_contains": ["a@b.example"]}, text=text)
    assert found(run.compare()) == expected


def test_a_run_that_stopped_before_collect_has_no_text_to_judge(run: Run) -> None:
    run.add("u", {"kept": True}, kind="plain")
    run.add("v", {"kept": True, "text_contains": ["x"]}, kind="text")
    plain, text = run.compare(collected=False)
    assert plain.misses == ()
    assert text.misses[0].found == "kept, its text not written"


def test_kinds_are_counted_in_the_order_of_the_table(run: Run) -> None:
    run.add("a", {"kept": True}, kind="second")
    run.add("b", FILTERED, kind="first")
    run.add("c", {"kept": True}, kind="second")
    rows = run.compare()
    assert [(row.kind, row.planted, row.as_expected) for row in rows] == [("second", 2, 2), ("first", 1, 0)]
    [miss] = rows[1].misses
    assert (miss.document, miss.expected, miss.found, miss.note) == ("b", "removed in extract or filter", "kept", NOTE)


def test_expectations_in_words() -> None:
    assert expected_words({"skipped": True}) == "no document"
    assert expected_words(COPY) == "removed in dedup as a copy of original"
    assert (
        expected_words({"kept": True, "text_contains": ["a"], "text_not_contains": ["b"]})
        == "kept, with 'a', without 'b'"
    )


@pytest.mark.parametrize("line", ["{", "[]", '{"source": "web"}'])
def test_a_damaged_table_is_named_with_its_line(run: Run, line: str) -> None:
    run.add("u", {"kept": True})
    run.compare()
    path = run.folder / "truth.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InputError, match=r"truth\.jsonl, line 2"):
        compare_truth(run.folder, path)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        compare_truth(tmp_path, tmp_path / "truth.jsonl")
