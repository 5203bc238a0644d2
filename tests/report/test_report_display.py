import pytest

from curate.report.display import (
    breakable,
    compact,
    excerpt,
    num_bytes,
    number,
    one_line,
    plain,
    seconds,
    share,
    visible,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", "a<U+001B>[2Jb"),  # clear screen
        ("\u202egnp.exe", "<U+202E>gnp.exe"),  # right-to-left override
        ("a\rb", "a<U+000D>b"),
        ("zero\u200bwidth\ufeff", "zero<U+200B>width<U+FEFF>"),
        ("line\nbreak\ttab", "line\nbreak\ttab"),
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),  # Persian needs ZWNJ
        ("\U0001f469\u200d\U0001f52c", "\U0001f469\u200d\U0001f52c"),  # an emoji joined by ZWJ
        ("tag\U000e0041", "tag<U+E0041>"),
        ("\x9b31m", "<U+009B>31m"),  # C1 control sequence introducer
    ],
)
def test_plain_spells_out_what_acts_and_leaves_the_rest(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_visible_escapes_and_marks() -> None:
    assert visible("<b>\u202e&") == '&lt;b&gt;<span class="ctl">U+202E</span>&amp;'
    assert visible(None) == ""
    assert visible(3) == "3"


def test_one_line_joins_and_cuts() -> None:
    assert one_line("a\n\n b\t c") == "a b c"
    assert one_line("x" * 10, 10) == "x" * 10
    assert one_line("x" * 11, 10) == "x" * 9 + "…"


def test_excerpt_counts_what_it_leaves_out() -> None:
    assert excerpt("abcd", 4) == {"text": "abcd", "more": 0}
    assert excerpt("abcde", 4) == {"text": "abcd", "more": 1}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (1234567, "1,234,567"),
        (-2, "−2"),
        (0.123456, "0.1235"),
        (3.0, "3"),
        (True, "yes"),
        (float("nan"), "not a number"),
        (12345.6, "12,346"),
    ],
)
def test_number(value: object, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (1, 2, "50.0%"),
        (0, 5, "0.0%"),
        (5, 5, "100.0%"),
        (1, 1001, "<0.1%"),
        (1, 1000, "0.1%"),
        (1000, 1001, ">99.9%"),
        (999, 1000, "99.9%"),
        (1, 0, "–"),
        (None, 3, "–"),
    ],
)
def test_share_never_rounds_to_nothing_or_all(part: int | None, whole: int, shown: str) -> None:
    assert share(part, whole) == shown


def test_sizes_counts_and_durations() -> None:
    assert [num_bytes(value) for value in (0, 999, 1000, 1_234_567, -1500, None)] == [
        "0 B",
        "999 B",
        "1 kB",
        "1.23 MB",
        "−1.5 kB",
        "–",
    ]
    assert [compact(value) for value in (9999, 10_000, 1_250_000, 2.5e9, 3e12)] == [
        "9,999",
        "10k",
        "1.25M",
        "2.5B",
        "3T",
    ]
    assert [seconds(value) for value in (4.25, 59.9, 60, 200, 7500, None)] == [
        "4.25 s",
        "59.9 s",
        "1 min 00 s",
        "3 min 20 s",
        "2 h 05 min",
        "–",
    ]


def test_names_break_behind_dots_and_underscores() -> None:
    assert breakable("a_b.<c>_") == "a_<wbr>b.<wbr>&lt;c&gt;_"
    assert breakable("a__b\u202e...") == 'a__<wbr>b<span class="ctl">U+202E</span>...'
    assert breakable(None) == ""
