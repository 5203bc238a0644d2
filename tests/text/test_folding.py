import random

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from curate.words import folded_words, hash_word, prepare_words, with_words


@pytest.fixture(scope="module", autouse=True)
def _compiled_before() -> None:  # hypothesis limits the time of each example
    prepare_words(("word_hashes",))


def hashes(texts: list[str | None]) -> list[list[int]]:
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
    return with_words(batch, ("word_hashes",))["word_hashes"].to_pylist()


def test_hashes_are_xxh3_for_words_of_any_length():
    draw = random.Random(1)
    words = ["".join(draw.choices("abcxyz0189", k=size)) for size in range(1, 300) for _ in range(4)]
    assert hashes([" ".join(words)]) == [[xxhash.xxh3_64_intdigest(word.encode()) for word in words]]


@given(st.lists(st.text() | st.none(), max_size=5))
def test_hashes_are_those_of_folded_words(texts):
    assert hashes(texts) == [[hash_word(word) for word in folded_words(text or "")] for text in texts]


@given(
    st.text(
        st.sampled_from(
            "aZ09.-_'’‘\u00adßİﬁé\u0301\u0345中のเ\u0e37ก\u200d\u200c·😀 \n\t\x1c\x85\u00a0\u200b\ufeff\x00"
        ),
        max_size=60,
    )
)
def test_hashes_of_awkward_texts(text):
    assert hashes([text, None, text]) == [[hash_word(word) for word in folded_words(one)] for one in (text, "", text)]


def test_code_points_alone_and_within_a_word():
    codes = (*range(0x3000), *range(0x3000, 0x40000, 7), *range(0xE0000, 0xE1000, 7), 0xF0000)
    signs = [chr(code) for code in codes if not 0xD800 <= code < 0xE000]
    texts = [f"{sign} x{sign}Y {sign}中{sign} {sign}{sign}3" for sign in signs]
    assert hashes(texts) == [[hash_word(word) for word in folded_words(text)] for text in texts]


def test_rows_keep_their_words_where_some_are_no_ascii():
    texts = ["a é b", "é", None, "", "b c", "中文 a", '"... a -- b."']
    expected = [["a", "é", "b"], ["é"], [], [], ["b", "c"], ["中", "文", "a"], ["a", "b"]]
    assert hashes(texts) == [[hash_word(word) for word in words] for words in expected]
    assert hashes(texts[2:3]) == [[]]
