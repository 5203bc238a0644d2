"""The variants `datatrove`: values worked out by hand, on both sides of each threshold, and where they part from ours.

Whether whole documents are decided as datatrove decides them is measured by benchmarks/bench_filters.py.
"""

import pytest

from curate.filter.c4 import C4Lines
from curate.filter.fineweb import FineWeb
from curate.filter.gopher.quality import GopherQuality
from curate.filter.gopher.repetition import GopherRepetition

KINDS = (GopherQuality, GopherRepetition, FineWeb, C4Lines)
QUALITY, REPETITION, FINEWEB, C4 = (kind(variant="datatrove") for kind in KINDS)


def words(count, word="word"):
    return " ".join([word] * count)


def twice(phrase, filler):
    return f"{phrase} {'x' * filler} {phrase}"


def test_the_settings_of_the_variant():
    assert [kind(variant="datatrove").reads for kind in KINDS] == [("english_tokens",)] * 4
    assert [kind().reads for kind in KINDS] == [("tokens",)] * 3 + [()]
    assert GopherQuality(variant="datatrove", words="fast").reads == ("tokens",)
    assert QUALITY.stop_words == {"en": ("the", "be", "to", "of", "and", "that", "have", "with")}
    assert QUALITY.bullets == ("•", "-")
    assert C4.terminal_marks == (".", "?", "!", '"', "'")
    assert (C4.min_sentences, C4.min_words_per_line, C4.max_word_length) == (5, 3, 1000)


@pytest.mark.parametrize(
    ("step", "rule", "kept", "removed"),
    [
        (QUALITY, "num_words", words(50), words(49)),
        (QUALITY, "num_words", words(100_000), words(100_001)),
        # spaCy splits "don't" into two.
        (QUALITY, "num_words", words(25, "don't"), words(24, "don't") + " word"),
        # ► is in datatrove's list of punctuation, ☎ is not.
        (QUALITY, "num_words", words(49) + " ☎", words(49) + " ►"),
        (QUALITY, "mean_word_length", "abc def", "ab cde"),
        (QUALITY, "mean_word_length", words(2, "a" * 10), "a" * 10 + " " + "a" * 11),
        # One # in 10 and 9 tokens.
        (QUALITY, "hash_ratio", "# " + words(9), "# " + words(8)),
        (QUALITY, "ellipsis_ratio", words(9) + "...", words(8) + "…"),
        # 9 of 10 lines, all of them; blank lines count: 10 of 20; ‣ is no bullet.
        (QUALITY, "bullet_line_fraction", "• a\n" * 9 + "a", "- a\n" * 10),
        (QUALITY, "bullet_line_fraction", "• a\n\n" * 10, " • a\n" * 10),
        (QUALITY, "bullet_line_fraction", "‣ a\n" * 10, "•\n" * 10),
        # 3 and 4 of 10 lines; blank lines count: 4 of 14.
        (QUALITY, "ellipsis_line_fraction", "a…\n" * 3 + "a\n" * 7, "a... \n" * 4 + "a\n" * 6),
        (QUALITY, "ellipsis_line_fraction", "a…\n\n" * 4 + "a\n" * 6, "a…\n\n" * 4 + "a\n" * 5),
        (QUALITY, "ellipsis_line_fraction", "a. . .\n" * 10, "a ...\n" * 10),
        # 4 of 5 tokens have a letter; 3 of 4.
        (QUALITY, "alpha_word_fraction", "a b c d 5", "a b c 4"),
        (QUALITY, "num_stop_words", "of the", "the the de que"),
        # 3 and 4 of 10 lines occurred before.
        (REPETITION, "duplicate_line_fraction", "a\n" * 4 + "b\nc\nd\ne\nf\ng", "a\n" * 5 + "b\nc\nd\ne\nf"),
        # The ends of the text are lines too, if they are empty: "", a, b, "" has 1 of 4; "", a, "" 1 of 3.
        (REPETITION, "duplicate_line_fraction", "\na\nb\n", "\na\n"),
        (REPETITION, "duplicate_paragraph_fraction", "\n\n".join("aaaabcdefg"), "\n\n".join("aaaaabcdef")),
        # One repeated line of 4 characters in 20; in 19.
        (REPETITION, "duplicate_line_char_fraction", "abcd\nabcd\nefghi\njklm", "abcd\nabcd\nefgh\njklm"),
        (REPETITION, "duplicate_paragraph_char_fraction", "abcd\n\nabcd\n\nefghijkl", "abcd\n\nabcd\n\nefghijk"),
        # Blanks of one character repeated make 1 of 5 characters; of 4.
        (REPETITION, "duplicate_line_char_fraction", " \n \na", " \n \n"),
        # n-grams of 10, 9 and 8 characters with their spaces, twice, in 100 characters; in 99.
        (REPETITION, "top_2gram_char_fraction", twice("abcd efghi", 78), twice("abcd efghi", 77)),
        (REPETITION, "top_3gram_char_fraction", twice("abc de fg", 80), twice("abc de fg", 79)),
        (REPETITION, "top_4gram_char_fraction", twice("a b c de", 82), twice("a b c de", 81)),
        # n words of 15 to 10 letters that occurred before, in 100 characters; in 99.
        (REPETITION, "repeated_5gram_char_fraction", *(twice("aaa bbb ccc ddd eee", fill) for fill in (60, 59))),
        (REPETITION, "repeated_6gram_char_fraction", *(twice("aaa bbb cc dd ee ff", fill) for fill in (60, 59))),
        (REPETITION, "repeated_7gram_char_fraction", *(twice("aa bb cc dd ee ff g", fill) for fill in (60, 59))),
        (REPETITION, "repeated_8gram_char_fraction", *(twice("aa bb cc dd e f g h", fill) for fill in (60, 59))),
        (REPETITION, "repeated_9gram_char_fraction", *(twice("aa bb c d e f g h i", fill) for fill in (60, 59))),
        (REPETITION, "repeated_10gram_char_fraction", *(twice("a b c d e f g h i j", fill) for fill in (60, 59))),
        (REPETITION, "empty", " ", ""),
        # 3 of 25 lines; 2 of 25. White space behind a mark, or a carriage return, and the line ends in none.
        (FINEWEB, "terminal_line_fraction", "\n".join(["a."] * 3 + ["a"] * 22), "\n".join(["a."] * 2 + ["a"] * 23)),
        (FINEWEB, "terminal_line_fraction", "a.\nb.", "a. \nb.\r\n"),
        # 67 and 68 of 100 lines; 30 characters are short, 31 are not, white space included.
        (
            FINEWEB,
            "short_line_fraction",
            "\n".join(["a" * 30] * 67 + ["a" * 30 + " "] * 33),
            "\n".join(["a" * 30] * 68 + ["a" * 31] * 32),
        ),
        # U+2028 ends no line: one of 65 characters, and two of 32; of 30.
        (FINEWEB, "short_line_fraction", "a" * 32 + "\u2028" + "a" * 32, "a" * 30 + "\n" + "a" * 30),
        # One repeated character among 100; among 99.
        (FINEWEB, "repeated_line_char_fraction", "b\nb\n" + "c" * 98, "b\nb\n" + "c" * 97),
        # 3 line ends on 10 words; on 9.
        (FINEWEB, "newlines_per_word", "a b c\nd e f\ng h i\nj", "a b c\nd e f\ng h\ni"),
        (FINEWEB, "empty", "a", "\n \n"),
    ],
)
def test_both_sides_of_each_bound(apply, fired, step, rule, kept, removed):
    on, beyond = apply(step, kept, removed)
    assert f"block.{rule}" not in fired(step, on)
    assert f"block.{rule}" in fired(step, beyond)


def test_rules_stand_in_the_order_of_datatrove():
    names = [rule.name for rule in QUALITY.rules("q")]
    assert names == [
        "q.num_words", "q.mean_word_length", "q.hash_ratio", "q.ellipsis_ratio", "q.bullet_line_fraction",
        "q.ellipsis_line_fraction", "q.alpha_word_fraction", "q.num_stop_words",
    ]  # fmt: skip
    names = [rule.name for rule in REPETITION.rules("r")]
    assert names[:5] == [
        "r.empty", "r.duplicate_paragraph_fraction", "r.duplicate_paragraph_char_fraction", "r.duplicate_line_fraction",
        "r.duplicate_line_char_fraction",
    ]  # fmt: skip
    assert [name[2:] for name in names[5:]] == [
        *(f"top_{n}gram_char_fraction" for n in (2, 3, 4)),
        *(f"repeated_{n}gram_char_fraction" for n in range(5, 11)),
    ]
    assert next(rule.name for rule in FINEWEB.rules("f")) == "f.empty"
    assert [rule.name for rule in C4.rules("c")] == ["c.lorem_ipsum", "c.curly_bracket", "c.min_sentences"]


def test_words_written_together_are_equal(apply):
    # abc|d|ef|gh|ij is read after ab|cd|ef|gh|ij: 10 characters of 31.
    text = "ab cd ef gh ij x abc d ef gh ij"
    assert apply(REPETITION, text)[0]["repeated_5gram_char_fraction"] == 10 / 31
    assert apply(GopherRepetition(), text)[0]["repeated_5gram_char_fraction"] == 0


def test_of_equally_frequent_ngrams_the_first_counts(apply):
    # "a bcd" (5), "bcd e" (5) and "e fghi" (6) are there twice: the first of them counts, 10 of 25 characters.
    for step in (REPETITION, GopherRepetition()):
        (row,) = apply(step, "a bcd e fghi a bcd e fghi")
        assert row["top_2gram_char_fraction"] == 10 / 25


FOUR = "One two three. Four five six! Seven eight nine? Ten is more."


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (FOUR, 4),
        (FOUR + " Over and out.", 5),
        ("He met Mr. Smith of the U.S. army.", 1),  # one token each, stop included
        ("It goes on... and on, so to say.", 1),  # three stops are no sign that ends a sentence
        ("He said (this is it.) Then he left.", 2),  # punctuation behind the stop belongs to it
        ("The lock opened.[1][2] The barge left.[citation needed]", 2),  # as it is without the citations
        ("Two words.\nAnd three words here.", 1),  # the first line is cut
    ],
)
def test_sentences_of_the_sentencizer(apply, text, sentences):
    assert apply(C4, text)[0]["num_sentences"] == sentences


def test_c4_on_both_sides_of_the_least_sentences(apply, fired):
    assert fired(C4, apply(C4, FOUR)[0]) == ["block.min_sentences"]
    assert fired(C4, apply(C4, FOUR + "\nOver and out.")[0]) == []
    assert fired(C4, apply(C4, "")[0]) == ["block.min_sentences"]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("two words.", False),
        ("now three words.", True),
        ("A longest word " + "a" * 999 + ".", True),
        ("A longest word " + "a" * 1000 + ".", False),
        ("He said 'this is it'", True),
        ('He said "this is it"', True),
        ("He said “this is it”", False),
        ("This is no end...", False),
        ("This is no end…", False),
        ("船闸每天清晨开放。", False),
        ("On the use of coo\u212aies here.", False),  # the Kelvin sign is a k in lower case
    ],
)
def test_c4_lines(apply, line, kept):
    assert apply(C4, line)[0]["text"] == (line if kept else "")


def test_a_page_is_judged_by_what_comes_first(apply, fired):
    lines = [FOUR + " Over and out.", "Here is a {bracket} for you.", "Here is Lorem ipsum for you."]
    assert fired(C4, apply(C4, "\n".join(lines))[0]) == ["block.curly_bracket"]
    assert fired(C4, apply(C4, "\n".join(reversed(lines)))[0]) == ["block.lorem_ipsum"]
    assert fired(C4, apply(C4, lines[0] + " A lorem ipsum with {brackets}.")[0]) == ["block.lorem_ipsum"]
    assert fired(C4, apply(C4, lines[0] + "\nIn javascript you write {}.")[0]) == []
    both = "\n".join(lines)
    step = C4Lines(variant="datatrove", curly_bracket="off")
    assert fired(step, apply(step, both)[0]) == ["block.lorem_ipsum"]


def test_words_are_for_the_variant_that_counts_them():
    with pytest.raises(ValueError, match="words: english is for variant: datatrove; paper has sentences of its own"):
        C4Lines(words="english")
