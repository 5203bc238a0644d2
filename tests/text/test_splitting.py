import gzip
import json
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import regex
from english_chunks import CORPORA, texts_of
from hypothesis import given
from hypothesis import strategies as st

from curate.text.characters import (
    ASSIGNED,
    CLASS_SHIFT,
    LETTER,
    LETTER_MARK,
    NUM_CODE_POINTS,
    SENTENCE_ENDS,
    SIGN,
    SPACE,
    SYMBOLS,
    UNSPACED,
    UNSPACED_MARK,
    fast_table,
    kind_table,
)
from curate.text.kinds import KIND_LETTER, KIND_PUNCTUATION, KIND_SENTENCE_END, KIND_SYMBOLS, KIND_WORD
from curate.text.splitting import fast_tokens
from curate.words import split_words

REAL = Path(os.environ.get("CURATE_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
EVERY = "".join(chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd" for code in range(NUM_CODE_POINTS))


def compiled(texts: list[str]) -> list[list[str]]:
    """Return the tokens that the kernel finds in each text."""
    encoded = [text.encode() for text in texts]
    sizes = np.array([len(text) for text in encoded], np.int64)
    ends = np.cumsum(sizes)
    tokens, offsets = fast_tokens(np.frombuffer(b"".join(encoded) or b"\0", np.uint8), ends - sizes, ends)
    start, size = tokens.start.tolist(), tokens.size.tolist()
    return [
        [text[start[token] : start[token] + size[token]].decode() for token in range(offsets[row], offsets[row + 1])]
        for row, text in enumerate(encoded)
    ]


@pytest.fixture(scope="module", autouse=True)
def _compiled_before() -> None:  # hypothesis limits the time of each example
    compiled(["a"])


def code_points(expression: str) -> set[int]:
    return {match.start() for match in regex.finditer(f"(?V1){expression}", EVERY)}


def test_beyond_what_is_looked_at_no_character_has_a_class():
    beyond = set(range(NUM_CODE_POINTS)).difference(*ASSIGNED)
    assert not beyond & code_points(r"[\p{L}\p{N}\p{M}\p{P}\s]")
    assert {unicodedata.category(chr(code)) for code in beyond} == {"Cn", "Co"}


def test_classes_are_those_of_the_expressions():
    classes = fast_table() >> CLASS_SHIFT
    unspaced = code_points(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]")
    marks = code_points(r"[\p{M}\u200c\u200d\u00ad]")
    letters = code_points(r"[\p{L}\p{N}\p{M}_\u200c\u200d\u00ad]")
    spaces = code_points(r"\s")
    expected = {
        SPACE: spaces,
        LETTER: letters - marks - unspaced,
        LETTER_MARK: marks - unspaced,
        UNSPACED: unspaced - marks,
        UNSPACED_MARK: unspaced & marks,
        SIGN: set(range(NUM_CODE_POINTS)) - spaces - letters - unspaced,
    }
    for number, members in expected.items():
        assert set(np.flatnonzero(classes == number).tolist()) == members


def test_kinds_are_those_of_python():
    table = kind_table()
    for bit, is_such in (
        (KIND_LETTER, str.isalpha),
        (KIND_PUNCTUATION, lambda sign: unicodedata.category(sign)[0] == "P"),
        (KIND_WORD, lambda sign: unicodedata.category(sign)[0] in "LN"),
    ):
        flags = table & bit != 0
        assert flags.tolist() == [is_such(sign) for sign in map(chr, range(NUM_CODE_POINTS))]
    assert set(map(chr, np.flatnonzero(table & KIND_SENTENCE_END))) == SENTENCE_ENDS
    controls = {*map(chr, range(32)), *map(chr, range(127, 160))} - {"\t", "\n"}
    assert set(map(chr, np.flatnonzero(table & KIND_SYMBOLS))) == SYMBOLS | controls


def test_numbers_of_signs():
    assert (len(SENTENCE_ENDS), len(SYMBOLS | {*map(chr, range(32)), *map(chr, range(127, 160))} - {"\t", "\n"})) == (
        128,
        281,
    )  # as many as spaCy 3.8.18 and datatrove 0.10.1 have


@given(st.lists(st.text(), max_size=5))
def test_the_kernel_splits_any_text_like_the_expression(texts):
    assert compiled(texts) == list(map(split_words, texts))


SIGNS = "aé_1٣.,-'’!!…中の\u3099เ\u0e37ກ្\u0301\u200d\u00ad😀\ufe0f \n\u00a0\u2028🇧"


@given(st.text(st.sampled_from(SIGNS)))
def test_the_kernel_splits_awkward_text_like_the_expression(text):
    assert compiled([text]) == [split_words(text)]


def test_every_code_point_beside_a_letter_a_mark_and_itself():
    texts = [f"a{sign}a\u0301{sign}{sign} 中{sign}" for sign in EVERY[: ASSIGNED[0].stop : 7]]
    assert compiled(texts) == list(map(split_words, texts))


def test_bytes_that_are_no_text_stay_inside_the_row():
    data = np.frombuffer(b"\xf0\x9f\xff\xc3\xe2\x80", np.uint8)
    for end in range(1, len(data) + 1):
        tokens, offsets = fast_tokens(data, np.array([0]), np.array([end]))
        assert int((tokens.start + tokens.size)[-1]) == end == int(tokens.size.sum())
        assert offsets.tolist() == [0, len(tokens.key)]


def real_texts() -> Iterator[str]:
    for corpus in CORPORA:
        yield from texts_of(REAL, corpus)
    with gzip.open(REAL / "09_langid" / "udhr.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from (json.loads(line)["text"] for line in lines)
    with (REAL / "07_unicode" / "ftfy_cases.jsonl").open(encoding="utf-8") as lines:
        yield from (json.loads(line)["original"] for line in lines)
    for path in sorted((REAL / "07_unicode" / "encodings").glob("*.gz")):
        yield gzip.decompress(path.read_bytes()).decode("utf-8", "replace")


@pytest.mark.slow
def test_the_kernel_splits_real_texts_like_the_expression():
    if not (REAL / "09_langid").exists():
        pytest.skip("no real data at CURATE_DATA")
    num_tokens = 0
    for text in real_texts():
        words = split_words(text)
        assert compiled([text]) == [words]
        num_tokens += len(words)
    assert num_tokens > 10_000_000
