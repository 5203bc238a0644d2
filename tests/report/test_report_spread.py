from pathlib import Path

import pytest

from curate.report.rules import resolved_recipe
from curate.report.run import RunFolder
from curate.report.spread import NUM_BINS, histogram, spreads


def test_histogram_puts_edges_where_they_belong() -> None:
    found = histogram([0.0, 0.5, 1.0, -3.0, 9.0], 0.0, 1.0)
    assert len(found["counts"]) == NUM_BINS
    assert found["counts"][0] == 2  # 0 and what lies below
    assert found["counts"][NUM_BINS // 2] == 1
    assert found["counts"][-1] == 2  # 1 and what lies above
    assert histogram([2.0, 2.0], 2.0, 2.0) == {"low": 2.0, "high": 2.0, "counts": [2]}


def test_columns_with_their_bounds(run_folder: Path) -> None:
    run = RunFolder.open(run_folder)
    entries = {
        entry["column"]: entry for entry in spreads(run, resolved_recipe(run), "web", {"gopher_quality.num_words": 6})
    }
    assert list(entries) == ["language", "language_score", "num_words", "mean_word_length", "duplicate_line_share"]
    words = entries["num_words"]
    assert words["bounds"] == [{"rule": "gopher_quality.num_words", "at_least": 50.0, "at_most": 100000.0, "fired": 6}]
    assert words["lowest"] == 20
    assert sum(words["histogram"]["counts"]) == words["rows"] == 66  # 75 read, 9 without a text
    assert words["quantiles"]["50%"] == pytest.approx(20 + 3 * 16, abs=3)  # two shards of 33: 20, 23, ... 116
    assert sum(count for _, count in entries["language"]["labels"]) == 66


def test_without_a_recipe_there_are_no_bounds(run_copy: Path) -> None:
    (run_copy / "recipe.yaml").unlink()
    run = RunFolder.open(run_copy)
    assert resolved_recipe(run) is None
    entries = spreads(run, None, "web", {})
    assert len(entries) == 5
    assert not any(entry["bounds"] for entry in entries)
