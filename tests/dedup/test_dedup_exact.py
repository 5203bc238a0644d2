import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.dedup.exact import EMPTY, exact_hash, exact_hashes, normal_form
from curate.dedup.exact_kernels import fold_spaces, normal_classes
from curate.text.bits import eight_bytes


@pytest.fixture(scope="module", autouse=True)
def _compiled_before() -> None:  # hypothesis limits the time of each example
    exact_hashes(pa.array(["a"], pa.large_string()))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The gate is shut.", "  The gate\r\n\tis  shut. \n"),
        ("caf\u00e9", "cafe\u0301"),  # composed and decomposed
        ("a b", "a\u00a0\u2003b"),  # no-break space, em space
        ("", " \n\t\u3000"),
    ],
)
def test_copies_that_differ_in_white_space_or_composition_are_equal(a, b):
    assert exact_hash(a) == exact_hash(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The gate", "the gate"),
        ("The gate", "The gate."),
        ("ab", "a b"),
        ("\ufb01ne", "fine"),  # a ligature is NFKC's business
        ("a\u200bb", "ab"),  # a zero-width space is no white space
    ],
)
def test_everything_else_counts(a, b):
    assert exact_hash(a) != exact_hash(b)


def test_normal_form():
    assert normal_form(" a \n\n b\tc ") == "a b c"


def test_hash_is_xxh3_128_of_the_normal_form():
    # The published XXH3_128bits of no input with seed 0.
    assert exact_hash("") == exact_hash(None) == EMPTY == "99aa06d3014798d86001c324468d497f"
    assert len(exact_hash("\ud800")) == 32  # a lone surrogate is hashed, not refused


AWKWARD = [
    "",
    None,
    " \n\t ",
    "plain",
    "  two  words\r\n",
    "cafe\u0301 e\u0323\u0302 e\u0302\u0323",  # composed, and marks out of order
    "caf\u00e9",
    "\u1112\u1161\u11ab \ud55c",  # Hangul in parts and whole
    "\u0915\u094d\u0937 \u0958",  # a composition that is excluded
    "a\u00a0\u2003\u3000b\u0085c\u1680d\u2028e\x1cf",
    "\u212b \u2126 \u037e \u2000x",  # singletons: A with ring, ohm, Greek question mark, en quad
    "x \u0301y",  # a mark behind a space
    "\u09c7\u09be \u0b47\u0b57 \U000110a5\U000110ba",  # compositions of two starters
    "\U0001f600 \ufb01 \u200b\ufeff",
    "a\u0315\u0300 a\u0300\u0315",
]


def test_hashes_of_a_column_are_those_of_its_texts():
    column = pa.array(AWKWARD, pa.large_string())
    expected = [exact_hash(text) for text in AWKWARD]
    assert exact_hashes(column).to_pylist() == expected
    assert exact_hashes(column.slice(3, 5)).to_pylist() == expected[3:8]
    assert exact_hashes(column.slice(0, 0)).to_pylist() == []


def test_hashes_of_every_character_alone_and_between_others():
    codes = [*range(0xD800), *range(0xE000, 0x40000, 11), *range(0xE0000, 0xE1000, 31), 0x10FFFF]
    texts = [f"{chr(code)} a{chr(code)}\u0323 \u0301{chr(code)}  " for code in codes]
    texts += [text + chr(code) for code, text in zip(codes, ("\u1100", "\u0061", "\uac00") * len(codes), strict=False)]
    assert exact_hashes(pa.array(texts, pa.large_string())).to_pylist() == [exact_hash(text) for text in texts]


@given(
    st.lists(st.text() | st.text(st.sampled_from("ab \n\u00a0\u0301\u0323\u00e9\u1100\u1161\u11a8\uac00\u09c7\u09be")))
)
def test_hashes_of_any_texts(texts):
    assert exact_hashes(pa.array(texts, pa.large_string())).to_pylist() == [exact_hash(text) for text in texts]


def test_ordinary_prose_needs_no_object():
    def folded(text):
        data, room = np.frombuffer(text.encode(), np.uint8), np.empty(len(text.encode()) + 16, np.uint8)
        size = fold_spaces(data, eight_bytes(data), 0, len(data), normal_classes(), room, eight_bytes(room))
        return bytes(room[:size]).decode() if size >= 0 else None

    text = "Straße, “quoted” — naïve; Đà Nẵng; 中文。"
    assert folded(f" {text}\n\t") == text
    assert folded("e\u0301") is None
