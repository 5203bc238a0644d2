"""`licence:` and `provenance:` of a source: in the documents, the manifest, the resolved recipe, the report."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import curate
from curate.errors import RecipeError
from curate.stated import Stated

RECIPE = """\
sources:
  made:
    read: {kind: jsonl, paths: made.jsonl}
    licence: CC-BY-4.0
    provenance: synthetic
  plain:
    read: {kind: jsonl, paths: plain.jsonl}
"""


def test_a_documents_own_licence_wins() -> None:
    rows = [None, "{}", '{"license":"MIT"}', '{"license":""}', '{"rights":"CC0"}', '{"other":1.5}']
    added = Stated(licence="CC-BY-4.0").add(pa.array(rows, pa.large_string())).to_pylist()
    assert [json.loads(row) for row in added] == [
        {"license": "CC-BY-4.0"},
        {"license": "CC-BY-4.0"},
        {"license": "MIT"},
        {"license": "CC-BY-4.0"},
        {"rights": "CC0"},
        {"other": 1.5, "license": "CC-BY-4.0"},
    ]


def test_provenance_is_one_of_four_words_and_loses_nothing() -> None:
    rows = [None, '{"provenance":"human"}', '{"provenance":"s3://bucket/part-1:17"}']
    added = Stated(provenance="synthetic").add(pa.array(rows, pa.large_string())).to_pylist()
    assert [json.loads(row) for row in added] == [
        {"provenance": "synthetic"},
        {"provenance": "human"},
        {"provenance": "synthetic", "input_provenance": "s3://bucket/part-1:17"},
    ]


def test_nothing_stated_changes_nothing() -> None:
    column = pa.array([None, '{ "a": 1e400 }'], pa.large_string())
    assert Stated().add(column) is column


def test_statements_are_everywhere_and_reading_is_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "made.jsonl").write_text('{"text": "One."}\n{"text": "Two.", "license": "MIT"}\n')
    (tmp_path / "plain.jsonl").write_text('{"text": "Three.", "k": 1}\n')

    def run(*sets: str) -> curate.RunResult:
        path = tmp_path / "recipe.yaml"
        return curate.run(path, output=tmp_path / "run", cache=tmp_path / "cache", sets=sets, quiet=True)

    manifest = run().manifest
    made = pq.read_table(tmp_path / "run" / "documents" / "made")["metadata"].to_pylist()
    assert [json.loads(row) for row in made] == [
        {"license": "CC-BY-4.0", "provenance": "synthetic"},
        {"license": "MIT", "provenance": "synthetic"},
    ]
    assert pq.read_table(tmp_path / "run" / "documents" / "plain")["metadata"].to_pylist() == ['{"k":1}']
    assert (manifest["inputs"]["made"]["licence"], manifest["inputs"]["made"]["provenance"]) == (
        "CC-BY-4.0",
        "synthetic",
    )
    assert "licence" not in manifest["inputs"]["plain"]
    resolved = curate.load(tmp_path / "run" / "recipe.yaml")
    assert resolved.source("made").stated == Stated(licence="CC-BY-4.0", provenance="synthetic")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<td>CC-BY-4.0</td><td>synthetic</td>" in page
    assert "<td>not stated</td><td>not stated</td>" in page
    run("sources.made.licence=CC0-1.0")
    phases = json.loads((tmp_path / "run" / "timings.json").read_text())["phases"]
    assert (phases["extract"]["tasks_run"], phases["collect"]["tasks_run"]) == (0, 1)


@pytest.mark.parametrize(
    ("set_", "told"),
    [
        ("sources.made.provenance=robots", r"provenance: must be 'human', 'synthetic', 'mixed' or 'unknown'"),
        ("sources.made.licence=3", "must be text"),
        ("sources.made.license=MIT", "did you mean 'licence'"),
    ],
)
def test_what_cannot_be_stated_is_refused(tmp_path: Path, set_: str, told: str) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    with pytest.raises(RecipeError, match=told):
        curate.load(tmp_path / "recipe.yaml", sets=[set_])
