"""Codes of languages."""

from __future__ import annotations

import re

import pytest

from curate.filter.language_labels import LID_176
from curate.text.languages import THREE_LETTERS, TWO_LETTERS, is_language_code


def test_the_codes_are_those_of_the_standard() -> None:
    assert len(TWO_LETTERS - {"in", "iw", "ji", "jw", "mo", "bh", "sh"}) == 183  # ISO 639-1 today
    assert all(re.fullmatch("[a-z]{2}", code) for code in TWO_LETTERS)
    assert all(re.fullmatch("[a-z]{3}", code) for code in THREE_LETTERS)
    assert TWO_LETTERS | THREE_LETTERS >= LID_176


@pytest.mark.parametrize("code", ["utf", "xx", "und", "mul", "zxx", "", "e", "EN", "engl"])
def test_what_is_no_language(code: str) -> None:
    assert not is_language_code(code)
