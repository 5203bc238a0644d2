"""The kernels of the filters against plain Python, on texts made to be awkward and on real ones."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import plain_filters
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curate.filter import fineweb_kernel
from curate.filter.c4 import C4Lines
from curate.filter.fineweb import FineWeb
from curate.filter.gopher.quality import GopherQuality
from curate.filter.gopher.repetition import GopherRepetition
from curate.text.characters import SENTENCE_ENDS
from curate.text.sentences import count_sentences, sentence_tables
from curate.text.words import split_sentences
from curate.words import with_words

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")

# Pieces that meet in the places where splitters, line ends and repeats differ.
PIECES = [
    "a",
    "b",
    "ab",
    "ab ",
    "c ",
    " ",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\u2029",
    "\u2028",
    "\x0b",
    "\x1c",
    "\x1f",
    "\x85",
]
PIECES += [
    "\u00a0",
    "\u3000",
    "\t",
    ". ",
    "é",
    "\n \n",
    "\n\u2029",
    "lorem ",
    ".",
    "...",
    "…",
    "运",
    "नी",
    "\u200b",
    "😀",
]
awkward = st.lists(st.sampled_from(PIECES), max_size=120).map("".join) | st.text(max_size=60)


def measured(step, texts):
    """Return the rows of a step, and the words it was given."""
    batch = with_words(pa.record_batch({"text": pa.array(texts, pa.large_string())}), (*step.reads, "words"))
    return step.apply(batch).to_pylist(), batch["words"].to_pylist()


@pytest.mark.parametrize("variant", ["curate", "datatrove"])
@settings(max_examples=400, deadline=None)
@given(texts=st.lists(awkward, max_size=4))
@example(
    texts=[
        "a b c d e" + " " + "ab c d e f " * 2,
        "ab c d e f a bc d e f",
        "a" * 5000 + " b c d e " + "a" * 5000 + " b c d e",
    ]
)
def test_repetition(variant, texts):
    rows, words = measured(GopherRepetition(variant=variant, words="fast"), texts)
    assert rows == [plain_filters.repetition(text, found, variant) for text, found in zip(texts, words, strict=True)]


SIGNS = [
    "#",
    "-",
    "•",
    "– ",
    "*",
    "...",
    ". . .",
    ".\u00a0.",
    "…",
    "⋯",
    "。。。",
    "”",
    ")",
    '"',
    "the",
    "to",
    "of ",
    "que ",
    "de ",
    "3",
]
signs = st.lists(st.sampled_from(PIECES + SIGNS * 2), max_size=80).map("".join)


@pytest.mark.parametrize("variant", ["curate", "datatrove"])
@settings(max_examples=400, deadline=None)
@given(texts=st.lists(awkward | signs, max_size=4))
@example(
    texts=[
        "a " + "." * 3 + '"' * 13,
        "a " + "." * 3 + '"' * 14,
        "a. . .",
        "a ." + " ." * 2 + ")" * 11,
        "• ",
        " ",
        "-",
        "\n\n-",
    ]
)
def test_quality(variant, texts):
    step = GopherQuality(variant=variant, words="fast")
    rows, words = measured(step, texts)
    lists = (step.bullets, step.stop_words)
    assert rows == [
        plain_filters.quality(text, found, variant, *lists) for text, found in zip(texts, words, strict=True)
    ]


# Marks that end a line for both, for datatrove alone (U+061E, U+2E53) and for Unicode alone; and what ends none.
MARKS = [".", "?", "。", "؟", "।", "\u061e", "\u2e53", "\ufe12", "…", '"', ". ", ".\r", "\U00011f43", "!"]
DATATROVE_MARKS = tuple(SENTENCE_ENDS | set(fineweb_kernel._MORE_ENDS))


@pytest.mark.parametrize("variant", ["curate", "datatrove"])
@settings(max_examples=400, deadline=None)
@given(texts=st.lists(awkward | st.lists(st.sampled_from(PIECES + MARKS * 2), max_size=80).map("".join), max_size=4))
def test_fineweb(variant, texts):
    rows, words = measured(FineWeb(variant=variant, words="fast", short_line_length=3), texts)
    expected = [
        plain_filters.fineweb(text, found, variant, 3, DATATROVE_MARKS)
        for text, found in zip(texts, words, strict=True)
    ]
    assert rows == expected


LINES = [
    "Three words here. ",
    "[1]",
    "[२]",
    "[edit]",
    "[citation needed]",
    "[",
    "]",
    "[]",
    "java",
    "script ",
    "JavaScript ",
]
LINES += [
    "Use ",
    "coo\u212aies",
    "cookies",
    " of ",
    "Lorem ",
    "ipsum",
    "Ipsum. ",
    "terms",
    "Privacy Policy",
    "\u0130",
    "{",
]
LINES += [
    "'",
    "”",
    "。",
    "Mr. ",
    "No. 5",
    "船闸",
    "ก็",
    "\u0345",
    "\ufeff",
    "x" * 8,
    "é" * 5,
    "  ",
    ".\t",
    "?!",
    '."',
    "...",
]
LINES += ["\n"] * 2
lines = st.lists(st.sampled_from(LINES * 2 + PIECES), max_size=60).map("".join)
switches = st.fixed_dictionaries(
    {
        name: st.booleans()
        for name in ("terminal_punctuation", "citations", "javascript", "policy", "lorem_ipsum", "curly_bracket")
    }
    | {"min_words_per_line": st.sampled_from([None, 1, 3]), "max_word_length": st.sampled_from([None, 7])}
)


@pytest.mark.parametrize("variant", ["paper", "tfds", "datatrove"])
@settings(max_examples=500, deadline=None)
@given(texts=st.lists(awkward | lines, max_size=4), switched=switches)
@example(texts=[" [1] Hello there you.  [2]\nA b c."], switched={"terminal_punctuation": False})
def test_c4(variant, texts, switched):
    step = C4Lines(variant=variant, words="fast", **switched)
    rows, _ = measured(step, texts)
    assert rows == [plain_filters.c4(text, step) for text in texts]


ABBREVIATIONS = [
    ".",
    ". ",
    "! ",
    "?",
    "…",
    "。",
    "A",
    "J",
    "Mr",
    "mr",
    "e.g",
    "1",
    "3",
    " ",
    '"',
    ")",
    "(",
    "¿",
    "*",
    "No",
    "pág",
    "PÁG",
]
ABBREVIATIONS += ["word", "é", "\u00a0", "\x1f", "\u212a", "fig", "．", "」", "'", "z.b", "ª", "Ⅰ", "²", "ǅ", "a" * 13]


@settings(max_examples=1500, deadline=None)
@given(
    line=st.lists(st.sampled_from(ABBREVIATIONS), max_size=16).map("".join)
    | st.text(st.characters(exclude_characters="\n\r\u2029"), max_size=30)
)
def test_sentences(line):
    line = "".join(line.splitlines())
    data = np.frombuffer(line.encode("utf-8", "ignore"), np.uint8)
    assert count_sentences(data, 0, len(data), sentence_tables()) == len(split_sentences(data.tobytes().decode()))


STEPS = [GopherQuality, GopherRepetition, FineWeb, C4Lines]


def plain(step, text, words):
    if isinstance(step, GopherQuality):
        return plain_filters.quality(text, words, step.variant, step.bullets, step.stop_words)
    if isinstance(step, GopherRepetition):
        return plain_filters.repetition(text, words, step.variant)
    if isinstance(step, FineWeb):
        return plain_filters.fineweb(text, words, step.variant, step.short_line_length, DATATROVE_MARKS)
    return plain_filters.c4(text, step)


@pytest.fixture(scope="module")
def real_texts():
    """Return main texts of web pages in many languages, mojibake before and after its repair, and a whole book."""
    if not DATA.is_dir():
        pytest.skip(f"the real inputs are absent: set CURATE_DATA to their folder; {DATA} is none")
    paths = [*sorted((DATA / "02_gold").glob("*/gold.jsonl")), DATA / "07_unicode" / "ftfy_cases.jsonl"]
    rows = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").split("\n") if line]
    texts = [row["text"] for row in rows if row.get("text")][::2]
    texts += [row[name] for row in rows for name in ("original", "fixed") if name in row]
    with gzip.open(DATA / "10_small_corpus" / "books.jsonl.gz", "rt", encoding="utf-8") as file:
        return [*texts, json.loads(next(file))["text"]]


@pytest.mark.parametrize("kind", STEPS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("variant", ["own", "datatrove"])
def test_real_texts(kind, variant, real_texts):
    step = kind(variant=variant, words="fast") if variant == "datatrove" else kind()
    rows, words = measured(step, real_texts)
    assert len(real_texts) > 300
    assert all(row == plain(step, *given) for row, given in zip(rows, zip(real_texts, words, strict=True), strict=True))


@pytest.mark.parametrize("kind", STEPS, ids=lambda kind: kind.__name__)
def test_a_book_of_megabytes(kind, real_texts):
    book = "\n".join([real_texts[-1]] * (2_000_000 // len(real_texts[-1]) + 1))
    step = kind(variant="datatrove", words="fast")
    rows, words = measured(step, [book])
    assert len(book) > 2_000_000
    assert rows == [plain(step, book, words[0])]


@pytest.mark.parametrize("words", ["fast", "english"])
def test_nulls_and_slices_are_measured_as_they_stand(words):
    texts = ["The lock opened.[1] The barge left.", None, "", "• one two three...\n" * 3, None]
    batch = with_words(pa.record_batch({"text": pa.array(texts, pa.large_string())}), ("tokens", "english_tokens"))
    for kind in STEPS:
        step = kind(variant="datatrove", words=words)
        rows = step.apply(batch).to_pylist()
        assert rows[1] == rows[2] == rows[4]
        assert [row for start in range(5) for row in step.apply(batch.slice(start, 1)).to_pylist()] == rows
