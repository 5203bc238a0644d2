from pathlib import Path

import pyarrow.parquet as pq

from curate.document import DUPLICATES
from curate.report.copies import edits, quarantine
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
    for name in ("duplicates.parquet", "quarantine.parquet"):
        (run_copy / name).unlink()
    assert duplicates(run, 1, None) is None
    assert quarantine(run) == []
    pq.write_table(DUPLICATES.empty_table(), run_copy / "duplicates.parquet")
    empty = duplicates(run, 1, None)
    assert empty is not None
    assert (empty["clusters"], empty["pairs"], empty["sizes"]) == (0, [], [])
