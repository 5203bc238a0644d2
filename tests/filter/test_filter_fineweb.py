import math

import pytest

from curate.filter.fineweb import FineWeb
from curate.text.words import split_paragraphs

STEP = FineWeb()


def test_by_hand(apply):
    # Lines: "Short one." (10), "A line of more than thirty characters" (37), "Short one." again; 2 of 3 end in a mark,
    # 2 of 3 have at most 30 characters. Repeated characters: 10 of 57 (10+37+10). Line ends: 3 (one of them blank). Words
    # with punctuation: 3 + 7 + 3 = 13.
    (row,) = apply(STEP, "Short one.\nA line of more than thirty characters\n\nShort one.")
    assert row == {
        "num_lines": 3,
        "terminal_line_fraction": 2 / 3,
        "short_line_fraction": 2 / 3,
        "repeated_line_char_fraction": 10 / 57,
        "newlines_per_word": 3 / 13,
    }


@pytest.mark.parametrize(
    ("column", "kept", "removed"),
    [  # datatrove fineweb_quality_filter.py; the bound itself is kept
        ("terminal_line_fraction", 0.12, 0.1199),
        ("short_line_fraction", 0.67, 0.6701),
        ("repeated_line_char_fraction", 0.01, 0.0101),
        ("newlines_per_word", 0.3, 0.3001),
    ],
)
def test_published_bounds(fired, column, kept, removed):
    fine = {
        "num_lines": 9,
        "terminal_line_fraction": 1.0,
        "short_line_fraction": 0.0,
        "repeated_line_char_fraction": 0.0,
        "newlines_per_word": 0.0,
    }
    assert fired(STEP, fine | {column: kept}) == []
    assert fired(STEP, fine | {column: removed}) == [f"block.{column}"]


LONG = "this line has more than thirty characters"  # 41


@pytest.mark.parametrize(
    ("rule", "on", "above"),
    [
        # 3 of 25 lines = 0.12; 2 of 25.
        ("terminal_line_fraction", "\n".join(["a."] * 3 + ["a"] * 22), "\n".join(["a."] * 2 + ["a"] * 23)),
        # 67 and 68 of 100 lines; 30 characters are short, 31 are not.
        (
            "short_line_fraction",
            "\n".join(["a" * 30] * 67 + ["a" * 31] * 33),
            "\n".join(["a" * 30] * 68 + ["a" * 31] * 32),
        ),
        # One repeated character among 100; among 99.
        ("repeated_line_char_fraction", "b\nb\n" + "c" * 98, "b\nb\n" + "c" * 97),
        # 3 line ends on 10 words; on 9.
        ("newlines_per_word", "a b c\nd e f\ng h i\nj", "a b c\nd e f\ng h\ni"),
    ],
)
def test_on_both_sides_of_each_bound(apply, fired, rule, on, above):
    assert f"block.{rule}" not in fired(STEP, apply(STEP, on)[0])
    assert f"block.{rule}" in fired(STEP, apply(STEP, above)[0])


def test_marks_of_other_scripts_end_a_line(apply):
    for text in ("船闸开放。", "नाव चलती है।", "هل هذا باب؟", "Is it?!"):
        assert apply(STEP, text)[0]["terminal_line_fraction"] == 1.0
    for text in ("He said 'no'", "and so on…", "this:", "船闸，"):
        assert apply(STEP, text)[0]["terminal_line_fraction"] == 0.0  # datatrove's set has no quotes and no ellipsis


def test_nothing_to_divide_by(apply):  # case filter-001
    for row in apply(STEP, "", "   ", "\n\n\n", "!!! ... ---", "\u200b\u200b", "word"):
        assert all(value is not None and math.isfinite(value) for value in row.values())


def test_the_short_line_length_is_a_setting(apply):
    assert apply(FineWeb(short_line_length=41), LONG)[0]["short_line_fraction"] == 1.0
    assert apply(FineWeb(short_line_length=40), LONG)[0]["short_line_fraction"] == 0.0


def test_books_end_their_lines(apply, fired, real_rows):
    # Paragraphs of a novel, one a line, as an extractor gives them; where a book is one hard-wrapped block there are none.
    books = [book["text"][20_000:60_000] for book in real_rows("04_books/books.jsonl.gz") if book["language"] == "en"]
    blocks = [split_paragraphs(book) for book in books]
    texts = ["\n".join(" ".join(block.split()) for block in found) for found in blocks if len(found) > 40]
    assert len(texts) >= 16
    step = FineWeb(max_newlines_per_word="off")
    kept = sum("block.terminal_line_fraction" not in fired(step, row) for row in apply(step, *texts))
    assert kept == len(texts)
