import time

import pytest

from curate.text.words import count_repeats, split_lines, split_paragraphs, split_sentences


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n \n\t\n", []),
        ("a\n\n\nb\r\nc\rd  \n", ["a", "b", "c", "d"]),
        ("  indented\n\u2003\nnext\u2028last", ["  indented", "next", "last"]),
    ],
)
def test_lines_are_never_blank(text, lines):
    assert split_lines(text) == lines


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("", []),
        ("\n\n\n", []),
        ("a\nb\n\nc", ["a\nb", "c"]),
        ("a\n \t\nb\r\n\r\nc\n\n\n\nd\n", ["a", "b", "c", "d"]),
        ("a\n  b", ["a\n  b"]),
        ("a\r\nb\r\n\r\nc\rd\r\re", ["a\r\nb", "c\rd", "e"]),
    ],
)
def test_paragraphs(text, paragraphs):
    assert split_paragraphs(text) == paragraphs


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("No mark at all", ["No mark at all"]),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Mr. Darcy met Mrs. Bennet at 5.30 p.m. yesterday.", ["Mr. Darcy met Mrs. Bennet at 5.30 p.m. yesterday."]),
        ("J. Austen wrote it. See p. 12 and No. 4.", ["J. Austen wrote it.", "See p. 12 and No. 4."]),
        ("He left no. She stayed.", ["He left no.", "She stayed."]),
        ('"Stop!" he cried. "Why?" She ran.', ['"Stop!" he cried.', '"Why?"', "She ran."]),
        ("Version 3.14 came out... and then nothing. End.", ["Version 3.14 came out... and then nothing.", "End."]),
        ("1. Open the lock. 2. Close it.", ["1. Open the lock.", "2. Close it."]),
        ("水闸每天开放。傍晚关闭！是吗？", ["水闸每天开放。", "傍晚关闭！", "是吗？"]),
        ("नाव चलती है। किसान आते हैं।", ["नाव चलती है।", "किसान आते हैं।"]),
        ("Title\n\nText of it.", ["Title", "Text of it."]),
        ("O Sr. Silva saiu. A Dra. Costa ficou.", ["O Sr. Silva saiu.", "A Dra. Costa ficou."]),
        ("...", ["..."]),
    ],
)
def test_sentences(text, sentences):
    assert split_sentences(text) == sentences


@pytest.mark.parametrize("text", ["A. " * 60_000, "." * 200_000, "a" * 200_000, "e.g. " * 40_000, ". a" * 60_000])
def test_sentences_take_linear_time(text):
    start = time.process_time()
    split_sentences(text)
    assert time.process_time() - start < 5


def test_repeats_are_counted_after_the_first():
    # "ab" three times: two repeats of two characters; "c" once.
    assert count_repeats(["ab", "c", "ab", "ab"]) == (4, 2, 4)
    assert count_repeats([]) == (0, 0, 0)
