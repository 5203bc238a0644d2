"""Benchmark items found in documents: counts, and both texts with what they share marked."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from curate.document import CONTAMINATION
from curate.report.collect import write_report
from curate.report.contamination import contamination, leak_lines, marked
from curate.report.inspect import inspect, inspect_lines
from curate.report.run import RunFolder


def test_marks_count_bytes_not_characters() -> None:
    text = "é" * 5 + "leak" + "ü" * 5 + "more" + "."
    assert marked(text, [(10, 14), (24, 28)]) == [
        [False, "é" * 5],
        [True, "leak"],
        [False, "ü" * 5],
        [True, "more"],
        [False, "."],
    ]


def test_long_stretches_are_left_out_between_whole_characters() -> None:
    text = "y" + "é" * 300 + "leak" + "é" * 300 + "more" + "é" * 121
    # 240 bytes are 120 characters; 241 bytes before the first span would begin inside one
    assert marked(text, [(601, 605), (1205, 1209)]) == [
        [False, " […] " + "é" * 120],
        [True, "leak"],
        [False, "é" * 120 + " […] " + "é" * 120],
        [True, "more"],
        [False, "é" * 120 + " […] "],
    ]
    assert marked("z" + "é" * 200 + "leak", [(401, 405)])[0] == [False, " […] " + "é" * 120]
    assert marked("x" * 1000, [(0, 1000)]) == [[True, "x" * 300], [False, " […] "], [True, "x" * 300]]
    assert marked("nothing", []) == [[False, "nothing"]]


def test_contamination_of_a_run(run_folder: Path) -> None:
    found = contamination(RunFolder.open(run_folder))
    assert found is not None
    assert found["documents"] == 3
    mbpp, piqa = found["benchmarks"].values()
    assert (mbpp["items"], mbpp["tested"], mbpp["found"], mbpp["whole"], mbpp["documents"]) == (60, 59, 3, 0, 3)
    assert (mbpp["share"], mbpp["highest_overlap"], mbpp["num_untested"]) == (0.05, 0.875, 1)
    assert mbpp["reasons"] == [{"reason": "fewer than 8 words", "items": 1}]
    assert mbpp["left_out"] == {"the item's id": ["task_id"], "a label by its name": ["a", "b"]}
    assert (mbpp["mapping"], mbpp["mapping_by"], mbpp["fields"]["code"]) == ("mbpp", "recognised", {"answer": 60})
    assert (piqa["items"], piqa["found"], piqa["highest_overlap"]) == (100, 0, None)
    assert (piqa["mapping"], piqa["fields"], piqa["left_out"]) == (None, {}, {})  # a run of before
    assert len(found["worst"]) == 3
    for row in found["worst"]:
        (before, shared, *_), (label, same) = row["here"]["runs"], row["there"]["runs"]
        assert (before[0], len(before[1])) == (False, 10)
        assert label == [False, "Write <b>this</b>: "]
        assert shared == same
        assert (same[0], len(same[1])) == (True, 50)
        assert row["url"].startswith("https://example.org/web/")


def test_what_a_rewrite_has_moved_is_shown_by_its_longest_span(run_copy: Path) -> None:
    path = run_copy / "manifest.json"
    manifest = json.loads(path.read_text())
    for number, row in enumerate(manifest["decontamination"]["worst"]):
        row["spans"] = [{"start": 0, "end": 4}, {"start": row["start"] + 7, "end": row["end"] + 7}]
        row["start"], row["end"] = row["start"] + 7, row["end"] + 7
        if number == 0:
            row["span"] = "what no document holds"
    path.write_text(json.dumps(manifest))
    found = contamination(RunFolder.open(run_copy))
    assert found is not None
    first, *others = [row["here"]["runs"] for row in found["worst"]]
    assert first == [[True, "what no document holds"]]
    for runs in others:
        assert [is_match for is_match, _ in runs] == [False, True, False]
        assert len(runs[0][1]) == 10


def test_without_and_with_an_empty_table(run_copy: Path) -> None:
    path = run_copy / "contamination.parquet"
    manifest = json.loads((run_copy / "manifest.json").read_text())
    manifest["decontamination"]["worst"] = []
    (run_copy / "manifest.json").write_text(json.dumps(manifest))
    path.unlink()
    assert contamination(RunFolder.open(run_copy)) is None
    pq.write_table(CONTAMINATION.empty_table(), path)
    none = contamination(RunFolder.open(run_copy))
    assert none is not None
    assert (none["documents"], none["worst"]) == (0, [])
    assert [row["found"] for row in none["benchmarks"].values()] == [0, 0]
    write_report(run_copy)
    assert "No text of a benchmark was found in any document." in (run_copy / "report.html").read_text()
    # A run without `decontaminate` leaves the same empty file.
    del manifest["decontamination"]
    (run_copy / "manifest.json").write_text(json.dumps(manifest))
    assert contamination(RunFolder.open(run_copy)) is None
    write_report(run_copy)
    page = (run_copy / "report.html").read_text()
    assert "This run has not looked for benchmark items" in page
    assert "No text of a benchmark was found" not in page


def test_a_terminal_is_shown_item_score_and_spans(run_folder: Path) -> None:
    row = pq.read_table(run_folder / "contamination.parquet").to_pylist()[0]
    row |= {"spans": [{"start": 10, "end": 60}, {"start": 90, "end": 1200}], "span": "a\x1b[31m b"}
    first, item, here = leak_lines(row, "")
    assert first == (f"<i>mbpp</i>, item {row['item']}: overlap 0.875, 9 words of prompt, bytes 10 to 60, 90 to 1,200")
    assert item.startswith("  item │ Write <b>this</b>: ")
    assert "\x1b" not in here


def test_inspect_shows_the_items_of_removed_documents(run_folder: Path) -> None:
    rows = list(inspect(run_folder, stage="decontaminate", sample=2))
    assert [len(row.contamination) for row in rows] == [1, 1]
    lines = list(inspect_lines(rows))
    assert sum(line.startswith("   holds <i>mbpp</i>, item task-") for line in lines) == 2
    assert sum(line.startswith("     item │ Write <b>this</b>: ") for line in lines) == 2
    assert not any(row.contamination for row in inspect(run_folder, stage="kept", sample=5))
