"""The normal form of words: each rule by hand, where words stand, and the kernel against the plain function."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.decontaminate.normal import normal_spans, normal_words
from curate.decontaminate.normal_hashes import normal_hashes
from curate.words import hash_word, text_arrays

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
AWKWARD = (
    "aB1,'-\n ßſİŉ’`\"._0123456789\x00\t\r\u00ad\u200b\u200d\u2028\u3000\ufeff你好のไทำ。、é\u0301\u0323ς½²🙂"
    "\u0640\u064e\u00a0\u2009‐¬ㄱ각\u1100\u1161\u11a8ﬃ㍿ﷺΑ\u0345⒈ŀ١٢™"
)


def hashes(texts: list[str | None]) -> list[list[int]]:
    found, offsets = normal_hashes(*text_arrays(pa.array(texts, pa.large_string())))
    return [found[a:b].tolist() for a, b in itertools.pairwise(offsets)]


def plain(texts: list[str | None]) -> list[list[int]]:
    return [[hash_word(word) for word in normal_words(text or "")] for text in texts]


@pytest.fixture(scope="module", autouse=True)
def _compiled_before() -> None:  # hypothesis limits the time of each example
    hashes(["a"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The (quick) FOX: jumps — over\tthe\n\nlazy-dog's tail!", "the quick fox jumps over the lazy dogs tail"),
        ("don't don’t don`t donʼt dont 'quoted' rock'n'roll", "dont dont dont dont dont quoted rocknroll"),
        ("exam-\nple exam- \r\n  ple exam\u00ad\nple exam¬\nple exam\u2010\nple", "example " * 5),
        ("exam-\n\nple 2020-\n2021 (a)-\nb so\u00adft", "exam ple 2020 2021 a b soft"),
        ("1,000 1\u00a0000 1\u202f000 1_000 1000 1,234,567 ١٬٠٠٠", "1000 1000 1000 1000 1000 1234567 1000"),
        ("3.5 35 3,5 1,23,456 1234,567 1,2345 1,000km", "3 5 35 3 5 1 23456 1234 567 1 2345 1000km"),
        ("١٢٣ १२३ １２３ 123", "123 123 123 123"),
        ("½ 1½ 1 1/2 x² ①", "1 2 1 1 2 1 1 2 x2 1"),
        ("ﬁne Ａpple ß ẞ ΣΑΣ ςας É E\u0301", "fine apple ss ss σασ σασ é é"),
        ("İSTANBUL istanbul ISPARTA ısparta", "istanbul istanbul isparta isparta"),
        ("كتــاب كِتَاب كتاب שָׁלוֹם שלום", "كتاب كتاب كتاب שלום שלום"),
        ("Word™ ❤️ 1️⃣ zero\u200bwidth \ufeffmark", "word 1 zerowidth mark"),
        ("def my_name(x): return x==3", "def my name x return x 3"),
        ("你好，世界2 のか\u3099 が ｶﾞ", "你 好 世 界 2 の が が ガ"),
        ("สวัสดี", "ส วั ส ดี"),
        ("한국어 \u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165", "한국어 한국어"),
        ("$\\frac{a}{b}$ **bold** [link](http://x.org/y?z=1)", "frac a b bold link http x org y z 1"),
        ("\u0301 - _ ' , \u00a0", ""),
    ],
)
def test_rules_by_hand(text: str, words: str) -> None:
    assert normal_words(text) == words.split()
    assert hashes([text]) == plain([text])


@given(st.text(st.sampled_from(AWKWARD)) | st.text())
def test_forms_and_case_make_no_difference(text: str) -> None:
    words = normal_words(text)
    for form in ("NFC", "NFD", "NFKC"):
        # Compatibility forms lose which spaces keep digits together, and what becomes a fraction.
        if form != "NFKC" or not any(unicodedata.normalize("NFKC", sign) != sign for sign in text):
            assert normal_words(unicodedata.normalize(form, text)) == words
    assert all(word and word == word.casefold() for word in words if word.isascii())


@given(st.lists(st.text(st.sampled_from(AWKWARD), max_size=40) | st.text() | st.none(), max_size=4))
def test_hashes_are_those_of_normal_words(texts: list[str | None]) -> None:
    assert hashes(texts) == plain(texts)


def test_each_character_beside_others() -> None:
    draw = random.Random(6)
    codes = [
        *range(0x3400),
        *range(0xA000, 0xABFF),
        *range(0xF900, 0x10000),
        *range(0x10000, 0x1FC00, 5),
        *range(0xE0000, 0xE0200),
    ]
    signs = [chr(code) for code in codes[::3]]
    texts = [f"{s} x{s}Y{draw.choice(signs)} 中{s} {s}{s}3 é{s} 1{s}000 a{s}\nb \u0301{s} e\u0323{s}" for s in signs]
    assert hashes(texts) == plain(texts)


def test_rows_begin_and_end_anywhere_in_a_block() -> None:
    draw = random.Random(2)
    texts: list[str | None] = ["".join(draw.choices("ab1 C.,'-’é\n", k=size)) for size in range(1, 200)]
    assert hashes(texts) == plain(texts)
    assert hashes([None, "", "x" * 300 + "é" * 100 + " don't" + "'t" * 200]) == plain(
        ["", "", "x" * 300 + "é" * 100 + " don't" + "'t" * 200]
    )


def test_real_texts() -> None:
    for name in ("09_langid/sentences", "09_langid/udhr"):
        path = DATA / f"{name}.jsonl.gz"
        if not path.exists():
            pytest.skip(f"real inputs are absent: no file {path}; set CURATE_DATA")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            texts: list[str | None] = [json.loads(line)["text"] for line in lines][::6]
        assert hashes(texts) == plain(texts)


def spans_of(text: str) -> list[str]:
    data = text.encode()
    return [data[a:b].decode() for a, b in normal_spans(text).tolist()]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("«Ünï» — the 你好。\n\u00adEnd\u00ad-of ", ["«Ünï»", "the", "你", "好。", "\u00adEnd\u00ad-", "of"]),
        ("an exam-\nple, 1,000 “ﬁne” ½.", ["an", "exam-\nple,", "1,000", "“ﬁne”", "½", "½."]),
        ("a(b)c e\u0301! \u1100\u1161 ㍿", ["a(", "b)", "c", "e\u0301!", "\u1100\u1161", "㍿", "㍿", "㍿", "㍿"]),
        ("-- don't", ["don't"]),
        ("İx Ｆｕｌｌ", ["İx", "Ｆｕｌｌ"]),
        (" . ", []),
    ],
)
def test_spans_by_hand(text: str, spans: list[str]) -> None:
    assert spans_of(text) == spans


@given(st.text(st.sampled_from(AWKWARD)))
def test_spans_hold_their_words(text: str) -> None:
    words, spans, data = normal_words(text), normal_spans(text), text.encode()
    assert len(words) == len(spans)
    assert (spans[:, 0] < spans[:, 1]).all()
    assert (spans[1:] >= spans[:-1]).all()
    for word, (start, end) in zip(words, spans.tolist(), strict=True):
        piece = data[start:end].decode()  # fails inside a character
        assert piece.strip() == piece or piece.isspace()
        assert word in "".join(normal_words(piece))
