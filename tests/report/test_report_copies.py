from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curate.document import CONTAMINATION, DUPLICATES
from curate.report.copies import contamination, context, edits, quarantine
from curate.report.duplicates import differences, duplicates
from curate.report.rules import resolved_recipe
from curate.report.run import RunFolder


def test_differences_mark_words() -> None:
    left, right = differences("the old cat", "the new cat")
    assert left == [[False, "the "], [True, "old"], [False, " cat"]]
    assert right == [[False, "the "], [True, "new"], [False, " cat"]]
    assert differences("same", "same") == ([[False, "same"]], [[False, "same"]])
    assert differences("", "added") == ([], [[True, "added"]])
    assert differences("two old words", "two") == ([[False, "two "], [True, "old words"]], [[False, "two"]])


def test_white_space_is_no_difference_and_is_kept() -> None:
    assert differences("a\n    b \n", " a b") == ([[False, "a\n    b \n"]], [[False, " a b"]])


def test_context_counts_bytes_not_characters() -> None:
    text = "é" * 5 + "leak" + "ü" * 5
    assert context(text, 10, 14, "leak") == ("é" * 5, "ü" * 5)


def test_context_finds_a_span_that_a_rewrite_has_moved() -> None:
    assert context("a line that was cut\nthe leak is here", 4, 8, "leak") == ("a line that was cut\nthe ", " is here")
    assert context("nothing like it", 0, 4, "leak") == ("", "")
    assert context("abc", 5, 5, "") == ("", "")


def test_context_never_cuts_a_character_in_two() -> None:
    text = "é" * 300 + "leak" + "é" * 300
    assert context("x" + text, 601, 605, "leak") == ("é" * 120, "é" * 120)
    before, after = context("x" + "é" * 119 + "yleak" + "z" + "é" * 300, 240, 244, "leak")
    assert before == "x" + "é" * 119 + "y"
    assert after == "z" + "é" * 119  # 1 + 238 bytes; the 240th is half a character


def test_duplicates_of_a_run(run_folder: Path) -> None:
    # web: 4 exact copies of one document, 5 near copies of another; code: 2 exact; books: 1 near
    found = duplicates(RunFolder.open(run_folder), 17, resolved_recipe(RunFolder.open(run_folder)))
    assert found is not None
    assert found["clusters"] == 4
    assert found["documents"] == 5 + 6 + 3 + 2
    assert found["copies"] == 12
    assert found["sizes"] == [{"size": size, "clusters": 1} for size in (2, 3, 5, 6)]
    assert found["similarities"] == [{"at_least": 0.8, "copies": 6}, {"at_least": 1.0, "copies": 6}]
    assert [row["size"] for row in found["largest"]] == [6, 5, 3, 2]
    assert [pair["similarity"] for pair in found["pairs"]] == [0.8125] * 4 + [1.0]
    near = found["pairs"][0]
    assert any(differs and "<em>pattern</em>" in text for differs, text in near["removed"]["runs"])
    assert not any(differs for differs, _ in found["pairs"][-1]["kept"]["runs"])


def test_contamination_of_a_run(run_folder: Path) -> None:
    found = contamination(RunFolder.open(run_folder))
    assert found is not None
    assert found["documents"] == 3
    mbpp, piqa = found["benchmarks"].values()
    assert (mbpp["items"], mbpp["tested"], mbpp["found"], mbpp["whole"], mbpp["documents"]) == (60, 59, 3, 0, 3)
    assert (mbpp["share"], mbpp["highest_overlap"], mbpp["num_untested"]) == (0.05, 0.875, 1)
    assert (piqa["items"], piqa["found"], piqa["highest_overlap"]) == (100, 0, None)
    for row in found["worst"]:
        assert len(row["before"]) == 10
        assert len(row["span"]) == 50
        assert row["url"].startswith("https://example.org/web/")


def test_edits_are_summed(run_folder: Path) -> None:
    row = {
        "source": "web",
        "phase": "decontaminate",
        "rule": "decontaminate.overlap",
        "spans": 3,
        "documents": 3,
        "bytes": 120,
    }
    assert edits(RunFolder.open(run_folder)) == [row]


def test_absent_and_empty_tables(run_copy: Path) -> None:
    run = RunFolder.open(run_copy)
    assert quarantine(run) == []
    for name in ("duplicates.parquet", "contamination.parquet", "quarantine.parquet"):
        (run_copy / name).unlink()
    assert duplicates(run, 1, None) is None
    assert contamination(run) is None
    assert quarantine(run) == []
    pq.write_table(DUPLICATES.empty_table(), run_copy / "duplicates.parquet")
    pq.write_table(CONTAMINATION.empty_table(), run_copy / "contamination.parquet")
    empty = duplicates(run, 1, None)
    assert empty is not None
    assert (empty["clusters"], empty["pairs"], empty["sizes"]) == (0, [], [])
    none = contamination(run)
    assert none is not None
    assert (none["documents"], none["worst"]) == (0, [])
    assert [row["found"] for row in none["benchmarks"].values()] == [0, 0]


def test_a_late_difference_is_shown(run_copy: Path) -> None:
    path = run_copy / "extracted" / "books"
    found = duplicates(RunFolder.open(run_copy), 17, None)
    assert found is not None
    assert all(pair["equal_before"] == 0 for pair in found["pairs"])
    for file in path.glob("*.parquet"):
        table = pq.read_table(file)
        texts = ["same line\n" * 500 + text for text in table["text"].to_pylist()]
        pq.write_table(
            table.set_column(table.schema.get_field_index("text"), "text", [pa.array(texts, pa.large_string())]), file
        )
    found = duplicates(RunFolder.open(run_copy), 17, None)
    assert found is not None
    (late,) = [pair for pair in found["pairs"] if pair["equal_before"]]
    assert 4000 < late["equal_before"] < 5000
    assert any(differs for differs, _ in late["removed"]["runs"])
