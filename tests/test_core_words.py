import random
import subprocess
import sys
import unicodedata

import pyarrow as pa
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from curate.dedup.signing import split_mix
from curate.words import (
    KIND_LETTER,
    KIND_PUNCTUATION,
    KIND_SENTENCE_END,
    KIND_SYMBOLS,
    KIND_WORD,
    PRIME,
    TRANSIENT,
    folded_words,
    hash_word,
    prepare_words,
    split_words,
    text_arrays,
    token_arrays,
    token_type,
    with_words,
)


@pytest.fixture(scope="module", autouse=True)
def _compiled_before() -> None:  # hypothesis limits the time of each example
    prepare_words(TRANSIENT)


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


def test_hash_word_is_a_chain_of_split_mix():
    assert hash_word("\0") == 0xE220A8397B1DCDAF  # the first value of SplitMix64 from seed 0, as published with it
    known = {word: hash_word(word) for word in ("abcdefgh", "abcdefghi", "é")}
    assert known == {word: chain(word.encode()) for word in known}


def chain(data: bytes) -> int:
    """The definition in words of SplitMix64: the state before the increment is what makes its next value."""
    value = 0x9E3779B97F4A7C15
    for place in range(0, len(data), 8):
        number = sum(byte << 8 * offset for offset, byte in enumerate(data[place : place + 8]))
        [value] = split_mix((number ^ value) - 0x9E3779B97F4A7C15, 1)
    return value


def test_words_that_differ_hash_differently():
    draw = random.Random(4)
    words = {"".join(draw.choices("etaoin", k=draw.randrange(1, 25))) for _ in range(20_000)}
    words |= {f"{stem}{number}" for stem in ("a", "page-", "http://example.org/item/") for number in range(10_000)}
    assert len({hash_word(word) for word in words}) == len(words)
    # The bits are independent of the word and of each other: halves and low bytes collide as often as by chance.
    for bits in (0xFFFFFFFF, 0xFFFFFFFF << 32):
        halves = len(words) - len({hash_word(word) & bits for word in words})
        expected = len(words) ** 2 / 2**33
        assert abs(halves - expected) < 5 * expected**0.5 + 1


@pytest.mark.parametrize("size", [4, 7, 8, 9, 16, 17])
def test_each_bit_of_a_word_changes_half_the_bits_of_its_hash(size):
    draw = random.Random(size)
    flips = []
    for _ in range(200):
        data = bytes(draw.randrange(97, 123) for _ in range(size))
        place, bit = draw.randrange(size), draw.randrange(3)
        other = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
        flips.append(hash_word(data.decode()) ^ hash_word(other.decode()))
    share = [sum(flip >> bit & 1 for flip in flips) / 200 for bit in range(64)]
    assert 0.35 < min(share) < max(share) < 0.65  # four standard errors


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


def strings(batch: pa.RecordBatch, column: str) -> list[list[str]]:
    """Return the tokens of each row of a column of `token_type` as strings."""
    rows = zip(batch["text"].to_pylist(), batch[column].to_pylist(), strict=True)
    return [
        [(text or "").encode()[one["start"] : one["start"] + one["size"]].decode() for one in tokens]
        for text, tokens in rows
    ]


TEXTS = ["Don't (stop)...", None, "", "é\t運河。x_1 x-1!", " \n", "f(x): 10km."]


def test_tokens_are_split_words():
    batch = with_words(pa.record_batch({"text": pa.array(TEXTS, pa.large_string())}), ("tokens", "words"))
    assert strings(batch, "tokens") == batch["words"].to_pylist() == [split_words(text or "") for text in TEXTS]
    assert batch.schema.field("tokens").type == token_type()


def test_english_tokens_are_those_of_spacy():
    batch = with_words(pa.record_batch({"text": pa.array(TEXTS, pa.large_string())}), ("english_tokens",))
    assert strings(batch, "english_tokens") == [
        ["Do", "n't", "(", "stop", ")", "..."],
        [],
        [],
        ["é", "運河。x_1", "x-1", "!"],
        [],
        ["f(x", "):", "10", "km", "."],
    ]
    assert batch.schema.field("english_tokens").type == token_type()


@pytest.mark.parametrize("column", ["tokens", "english_tokens"])
def test_a_key_is_a_polynomial_of_the_bytes(column):
    batch = with_words(pa.record_batch({"text": pa.array(["ab é a"], pa.large_string())}), (column,))
    first, accented, second = batch[column].to_pylist()[0]
    assert second["key"] == ord("a") + 1
    assert first["key"] == ((ord("a") + 1) * PRIME + ord("b") + 1) % 2**64
    assert accented["key"] == (0xC4 * PRIME + 0xAA) % 2**64
    assert (accented["start"], accented["size"], accented["chars"]) == (3, 2, 1)


@pytest.mark.parametrize("column", ["tokens", "english_tokens"])
@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("lock", KIND_LETTER | KIND_WORD),
        ("42", KIND_WORD),
        ("don", KIND_LETTER | KIND_WORD),
        (".", KIND_SYMBOLS | KIND_PUNCTUATION | KIND_SENTENCE_END),
        ("...", KIND_SYMBOLS | KIND_PUNCTUATION),
        (",", KIND_SYMBOLS | KIND_PUNCTUATION),
        ("$", KIND_SYMBOLS),  # in datatrove's set; its category is Sc
        ("†", KIND_PUNCTUATION),  # category Po; not in the set
        ("→", 0),
        ("。", KIND_SYMBOLS | KIND_PUNCTUATION | KIND_SENTENCE_END),
        ("½", KIND_WORD),  # category No
        ("ª", KIND_LETTER | KIND_WORD),
        ("_", KIND_SYMBOLS | KIND_PUNCTUATION),
        ("\x07", KIND_SYMBOLS),
        ("é.é", KIND_LETTER | KIND_WORD),
    ],
)
def test_kinds(column, token, kind):
    batch = with_words(pa.record_batch({"text": pa.array([token], pa.large_string())}), (column,))
    assert [one["kind"] for one in batch[column].to_pylist()[0]] == [kind]


@given(st.lists(st.text() | st.none(), min_size=1))
def test_tokens_of_any_texts(texts):
    batch = with_words(pa.record_batch({"text": pa.array(texts, pa.large_string())}), ("tokens",))
    for text, tokens in zip(texts, batch["tokens"].to_pylist(), strict=True):
        words = split_words(text or "")
        assert [one["chars"] for one in tokens] == [len(word) for word in words]
        assert [one["size"] for one in tokens] == [len(word.encode()) for word in words]
        assert [bool(one["kind"] & KIND_LETTER) for one in tokens] == [any(map(str.isalpha, word)) for word in words]
        categories = [[unicodedata.category(sign)[0] for sign in word] for word in words]
        assert [bool(one["kind"] & KIND_PUNCTUATION) for one in tokens] == [set(kinds) == {"P"} for kinds in categories]
        assert [bool(one["kind"] & KIND_WORD) for one in tokens] == [
            bool({"L", "N"} & set(kinds)) for kinds in categories
        ]
    assert strings(batch, "tokens") == [split_words(text or "") for text in texts]


def test_arrays_of_a_slice_need_no_copy():
    batch = with_words(pa.record_batch({"text": pa.array(TEXTS, pa.large_string())}), ("tokens",)).slice(3, 2)
    texts, tokens = text_arrays(batch["text"]), token_arrays(batch["tokens"])
    assert [bytes(texts.data[i:j]).decode() for i, j in zip(texts.starts, texts.ends, strict=True)] == TEXTS[3:5]
    first, last = tokens.offsets[0], tokens.offsets[1]
    assert tokens.size[first:last].tolist() == [2, 3, 3, 3, 3, 3, 1]
    assert tokens.offsets.tolist() == [5, 12, 12]


def test_a_text_of_only_tokens_grows_the_room():
    batch = pa.record_batch({"text": pa.array(["a", ".," * 5000, "b"], pa.large_string())})
    made = with_words(batch, ("tokens", "english_tokens"))
    for column in ("tokens", "english_tokens"):
        assert strings(made, column) == [["a"], [".", ","] * 5000, ["b"]]
