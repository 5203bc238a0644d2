from pathlib import Path

import pytest

from curate.errors import UsageError
from curate.report.inspect import inspect, inspect_lines


def test_samples_of_everything(run_folder: Path) -> None:
    rows = list(inspect(run_folder, sample=99))
    assert len(rows) == 99
    assert sum(row.kept for row in rows) == 52
    assert len({row.id for row in rows}) == 99


def test_a_smaller_sample_is_part_of_a_larger_one(run_folder: Path) -> None:
    assert list(inspect(run_folder, sample=5)) == list(inspect(run_folder, sample=20))[:5]
    assert list(inspect(run_folder, sample=20, seed=1)) != list(inspect(run_folder, sample=20))


def test_removed_by_a_rule(run_folder: Path) -> None:
    rows = list(inspect(run_folder, source="web", rule="gopher_quality.num_words", sample=50))
    assert len(rows) == 6
    for row in rows:
        assert (row.stage, row.value, row.threshold) == ("filter", 23.0, "50 to 100000")
        assert row.text is not None
        assert row.text.startswith("</script>")


def test_kept_documents_show_the_curated_text(run_folder: Path) -> None:
    rows = list(inspect(run_folder, source="code", stage="kept", sample=50))
    assert len(rows) == 12
    assert all(row.kept and row.split in ("train", "validation") and row.text for row in rows)


def test_a_document_without_text(run_folder: Path) -> None:
    (row, *_) = inspect(run_folder, stage="gate", sample=1)
    assert row.text is None
    assert row.url is not None
    assert any("no text was extracted" in line for line in inspect_lines([row]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "wep"}, r"--source wep: .* Did you mean web\? It has: web, code, books\."),
        ({"stage": "filtre"}, r"--stage filtre: .* Did you mean filter\?"),
        ({"rule": "gopher_quality.num_word"}, r"Did you mean gopher_quality\.num_words\?"),
        ({"source": "books", "rule": "language.keep"}, r"It has: dedup\.minhash\."),
        ({"stage": "kept", "rule": "language.keep"}, "a kept document has no rule"),
        ({"sample": 0}, "at least 1"),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(
    run_folder: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        inspect(run_folder, **options)  # type: ignore[arg-type]
    assert error.value.exit_code == 2


def test_nothing_decided(run_copy: Path) -> None:
    for path in run_copy.glob("decisions/*/*"):
        path.unlink()
    with pytest.raises(UsageError, match="nothing has been decided"):
        inspect(run_copy)


def test_lines_are_safe_for_a_terminal(run_folder: Path) -> None:
    text = "\n".join(inspect_lines(inspect(run_folder, sample=99)))
    assert not any(acting in text for acting in "\x1b\x07\x9b\u202e\u2066\u2028")
    assert "<U+001B>[2J" in text
    assert "removed by gopher_quality.num_words (filter): 23, bound 50 to 100000" in text
    assert "also fired: where.expression, gopher_quality.mean_word_length" in text
    assert text.endswith("99 documents shown.")


def test_long_texts_are_cut_and_counted(run_folder: Path) -> None:
    (row, *_) = inspect(run_folder, stage="kept", sample=1)
    assert row.text is not None
    lines = list(inspect_lines([row], characters=10))
    assert f"   … and {len(row.text) - 10:,} more characters" in lines
    assert list(inspect_lines([])) == ["No document fits."]


def test_a_copy_names_the_kept_one(run_folder: Path) -> None:
    (row,) = inspect(run_folder, source="books", rule="dedup.minhash")  # one near copy of the first but one book
    text = "\n".join(inspect_lines([row]))
    assert (row.similarity, row.verified, row.cluster_size, row.kept_source) == (0.8125, True, 2, "books")
    assert f"kept copy {row.kept_id}: similarity 0.8125, verified on the texts, cluster of 2\n   from books" in text
    (row, *_) = inspect(run_folder, source="web", rule="dedup.exact", sample=1)
    assert row.kept_url is not None
    text = "\n".join(inspect_lines([row]))
    assert f"kept copy {row.kept_id}: the texts are equal, cluster of 5\n   from web, {row.kept_url}" in text
