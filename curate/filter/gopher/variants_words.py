"""How the publishers of Gopher's rules split words and lines, where it is neither ours nor spaCy's."""

from __future__ import annotations

import re
import string
import unicodedata

import regex

# Word boundaries of the Unicode standard (UAX 29, version 16), as a pattern that matches one unit after the other; the
# names are its rules'. U+00B8 became a letter in version 17.
_ANY_LETTER = r"[[\p{WB=ALetter}--\u00b8]\p{WB=Hebrew_Letter}]"
_EXTEND = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]"
_E = rf"{_EXTEND}*+"  # WB4: belongs to what stands before it
_QUOTE = rf"\p{{WB=Single_Quote}}{_E}"
_BETWEEN_LETTERS = rf"[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_E}(?={_ANY_LETTER})"  # WB6, WB7
_BETWEEN_DIGITS = rf"[\p{{WB=MidNum}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_E}(?=\p{{WB=Numeric}})"  # WB11, WB12
_LETTER = rf"[\p{{WB=ALetter}}--\u00b8]{_E}(?:{_BETWEEN_LETTERS})?"  # WB5
_DIGIT = rf"\p{{WB=Numeric}}{_E}(?:{_BETWEEN_DIGITS})?"  # WB8 to WB10
_HEBREW = rf"\p{{WB=Hebrew_Letter}}{_E}"
_LAST_HEBREW = rf"{_HEBREW}{_QUOTE}(?!{_ANY_LETTER})"  # WB7a: a geresh, behind which the word ends
_INNER_HEBREW = (
    rf"(?!{_LAST_HEBREW}){_HEBREW}(?:{_BETWEEN_LETTERS}|\p{{WB=Double_Quote}}{_E}(?=\p{{WB=Hebrew_Letter}}))?"
)
_RUN = rf"(?:(?:{_LETTER}|{_DIGIT}|{_INNER_HEBREW})++(?:{_LAST_HEBREW})?|{_LAST_HEBREW})"
_RUN = rf"(?:{_RUN}|(?:\p{{WB=Katakana}}{_E})++)"  # WB13
_JOINED = rf"(?:\p{{WB=ExtendNumLet}}{_E})++(?:{_RUN})?"  # WB13a, WB13b
_WORD = rf"(?:{_RUN}|{_JOINED})(?:(?=\p{{WB=ExtendNumLet}})(?<!\p{{WB=Single_Quote}}{_EXTEND}*){_JOINED})*+"
_LINE_END = r"\r\n|[\r\n\p{WB=Newline}]"  # WB3 to WB3b
_SPACES = rf"\p{{WB=WSegSpace}}++{_E}"  # WB3d
_FLAG = rf"\p{{RI}}{_E}(?:\p{{RI}}{_E})?"  # WB15, WB16
_AFTER_JOINER = rf"(?:(?<=\u200d)(?=\p{{Extended_Pictographic}})(?:{_WORD}|.{_E}))*+"  # WB3c
_PLAIN = r"[A-Za-z0-9]++(?=[.,]?[ \n])| (?=[A-Za-z0-9])"  # what most units of English are, found sooner
_UNIT = regex.compile(rf"(?sV1){_PLAIN}|{_LINE_END}|(?:{_WORD}|{_SPACES}|{_FLAG}|.{_E}){_AFTER_JOINER}")

_FASTTEXT_SPACE = regex.compile(r"[ \n\r\t\v\f\0]+")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def segmented_units(text: str) -> list[str]:
    """Return the units of `text` between Unicode's word boundaries (UAX 29, version 16, untailored): nothing is left out."""
    units: list[str] = _UNIT.findall(text)
    return units


def segmented_words(text: str) -> list[str]:
    """Return the units of `text` that begin with a letter or number, as DCLM takes them of uniseg."""
    return [unit for unit in segmented_units(text) if unit[0].isalnum()]


def fasttext_words(text: str) -> list[str]:
    """Return what fastText splits at the seven ASCII signs that are space to it, if it begins with a letter or number."""
    return [word for word in _FASTTEXT_SPACE.split(text) if word and word[0].isalnum()]


def normalised_words(text: str) -> list[str]:
    """Return the words of `text` without ASCII punctuation, in lower case, decomposed (NFD), as RedPajama-V2 takes them.

    Hyphenated words become one, "--" none; punctuation beyond ASCII stays.
    """
    return unicodedata.normalize("NFD", text.translate(_NO_PUNCTUATION).lower()).split()


def dolma_lines(text: str, blank: bool) -> list[str]:
    """Return what Dolma takes for lines: parts between line feeds (`gopher_v1`), or between runs of them (`gopher_v2`)."""
    if not text:
        return []
    return text.split("\n") if blank else re.split(r"\n+", text)
