"""Texts as fastText classifiers see them: one line of words with spaces between.

A classifier answers for the form of text that it was trained on, so the form has a name, is stored with the model, and is
applied by the same function where the model is trained and where it is used.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping

import regex

# Digits, not numbers: 2019 and 1984 become one word, 7 and 12 stay apart.
_DIGIT = regex.compile(r"\p{Nd}")
_MARK = regex.compile(r"([\p{P}\p{S}])")  # combining marks are neither: vowel signs stay with their consonants
_BLANK = " \n\r\t\v\f\0"  # what ends a word for fastText (dictionary.cc, readWord)
_TO_SPACE = str.maketrans(dict.fromkeys(_BLANK, " "))


def one_line(text: str) -> str:
    """Return the text's lines joined by spaces, nothing else changed: what DCLM, datatrove and dolma hand to fastText."""
    return " ".join(text.strip().splitlines())


def folded_line(text: str) -> str:
    """Return the text in NFC and lower case, punctuation and symbols as words of their own, each digit as 0."""
    text = _DIGIT.sub("0", unicodedata.normalize("NFC", text).lower())
    return " ".join(_MARK.sub(r" \1 ", text).split())


FORMS: Mapping[str, Callable[[str], str]] = {"folded": folded_line, "line": one_line}


def words_of(line: str) -> list[str]:
    """Return the words that fastText finds in a line, without the mark that it puts at the line's end."""
    return [word for word in line.translate(_TO_SPACE).split(" ") if word]
