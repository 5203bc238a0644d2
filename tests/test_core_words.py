import subprocess
import sys

import pyarrow as pa
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from curate.words import folded_words, hash_word, split_words, with_words, word_codes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t ", []),
        ("Don't stop... 3.14, well-known!", ["Don't", "stop", "...", "3.14", ",", "well-known", "!"]),
        ("(a) [b]--c", ["(", "a", ")", "[", "b", "]", "--", "c"]),
        ("運河の船。", ["運", "河", "の", "船", "。"]),
        ("iPhone手机 2024年", ["iPhone", "手", "机", "2024", "年"]),
        ("नाव नदी पर।", ["नाव", "नदी", "पर", "।"]),
        ("می\u200cروم", ["می\u200cروم"]),  # Persian: the zero-width non-joiner stands inside a word
        ("co\u00adoperate", ["co\u00adoperate"]),
        ("เรือ", ["เ", "รื", "อ"]),  # Thai: one consonant with its vowel sign is one word
        ("!!!???", ["!!!", "???"]),
        ("e\u0301te\u0301", ["e\u0301te\u0301"]),
    ],
)
def test_split_words(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("-- ... !", []),
        ('"The LOCK," he said,\nwas (well-known).', ["the", "lock", "he", "said", "was", "well-known"]),
        ("“The lock”—he", ["the", "lock”—he"]),
        ("don’t", ["don't"]),
        ("co\u00adoperate \ufeffBOM zero\u200bwidth", ["cooperate", "bom", "zerowidth"]),
        ("Straße", ["strasse"]),
        ("船閘 gate閘", ["船", "閘", "gate", "閘"]),
        ("_private_ word\x00", ["private", "word"]),
    ],
)
def test_folded_words(text, words):
    assert folded_words(text) == words


@given(st.text(st.characters(max_codepoint=127)))
def test_folding_does_not_depend_on_other_words_being_ascii(text):
    assert folded_words(text + " é") == [*folded_words(text), "é"]


@given(st.text())
def test_no_word_is_empty_and_split_words_lose_only_white_space(text):
    assert all(folded_words(text))
    assert "".join(split_words(text)) == regex.sub(r"\s+", "", text)


def test_hash_word_is_xxh3_64():
    assert hash_word("") == 0x2D06800538D394C2  # xxHash's own sanity value of XXH3_64bits for no input, seed 0


def test_hashes_do_not_depend_on_the_hash_seed():
    code = "from curate.words import hash_word; print(hash_word('barge'))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    assert seen == {f"{hash_word('barge')}\n"}


def test_with_words_appends_what_is_asked_for():
    batch = pa.record_batch({"text": pa.array(["A b", "", "c c"], pa.large_string())})
    both = with_words(batch, {"words", "word_hashes", "id"})
    assert both["words"].to_pylist() == [["A", "b"], [], ["c", "c"]]
    assert both["word_hashes"].to_pylist() == [[hash_word("a"), hash_word("b")], [], [hash_word("c")] * 2]
    assert both.schema.field("words").type == pa.large_list(pa.large_string())
    assert both.schema.field("word_hashes").type == pa.large_list(pa.uint64())
    assert with_words(batch, ()).equals(batch)
    nothing = with_words(batch.slice(0, 0), ("words", "word_hashes"))
    assert nothing.num_rows == 0
    assert nothing.schema == both.schema


def test_with_words_takes_a_null_text_as_empty():
    batch = pa.record_batch({"text": pa.array([None], pa.large_string())})
    both = with_words(batch, ("words", "word_hashes"))
    assert both["words"].to_pylist() == both["word_hashes"].to_pylist() == [[]]


def test_word_codes_of_a_slice():
    batch = pa.record_batch({"text": pa.array(["x y", "b a b", "", "a"], pa.large_string())})
    codes = word_codes(with_words(batch, ("words",))["words"].slice(1))
    assert [codes.vocabulary[code] for code in codes.codes] == ["b", "a", "b", "a"]
    assert codes.starts.tolist() == [0, 3, 3]
    assert codes.ends.tolist() == [3, 3, 4]
    ones = [1 if word == "b" else 10 for word in codes.vocabulary]
    import numpy as np

    assert codes.per_row(np.array(ones)).tolist() == [12, 0, 10]
