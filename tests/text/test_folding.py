import gzip
import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.words import folded_words, hash_word, prepare_words, with_words

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture(scope="module", autouse=True)
def _compiled_before() -> None:  # hypothesis limits the time of each example
    prepare_words(("word_hashes",))


def hashes(texts: list[str | None]) -> list[list[int]]:
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
    return with_words(batch, ("word_hashes",))["word_hashes"].to_pylist()


def test_words_of_any_length():
    draw = random.Random(1)
    words = ["".join(draw.choices("abcxyz0189", k=size)) for size in range(1, 300) for _ in range(4)]
    assert hashes([" ".join(words)]) == [[hash_word(word) for word in words]]
    accented = [f"é{word}" for word in words]
    assert hashes([" ".join(accented)]) == [[hash_word(word) for word in accented]]


def test_rows_begin_and_end_anywhere_in_a_block():
    draw = random.Random(2)
    texts = ["".join(draw.choices("ab C.'’é \n", (9, 9, 4, 2, 2, 1, 1, 1, 4, 1), k=size)) for size in range(1, 270)]
    assert hashes(texts) == [[hash_word(word) for word in folded_words(text)] for text in texts]
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())}).slice(100, 50)
    assert with_words(batch, ("word_hashes",))["word_hashes"].to_pylist() == hashes(texts[100:150])


@pytest.mark.parametrize("stop", [63, 64, 65, 127, 128, 129, 200])
def test_runs_across_blocks(stop):
    for start in (0, 1, 62, 63, 64):
        text = " " * start + "-" * 3 + "x" * (stop - start) + "...é" + "y" * 70 + ") " + "Z" * stop
        assert hashes([text]) == [[hash_word(word) for word in folded_words(text)]]


def test_real_texts():
    for name in ("sentences.jsonl.gz", "udhr.jsonl.gz"):
        path = DATA / "09_langid" / name
        if not path.exists():
            pytest.skip(f"real inputs are absent: no file {path}; set CURATE_DATA")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for line in lines]
        assert hashes(texts) == [[hash_word(word) for word in folded_words(text)] for text in texts]


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
