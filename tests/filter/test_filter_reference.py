"""Our measures against recorded values of datatrove: its variant on real documents, the others on its words.

`reference/record.py` says how they were recorded. The first part is of texts of ours, with the words that datatrove's tokenizer
gave; the second of real documents, with words of our own English splitting.
"""

import json
from pathlib import Path

import plain_filters
import pyarrow as pa
import pytest
from reference.documents import DATA, digest, recorded, replayed

from curate.filter.c4 import C4Lines
from curate.filter.fineweb import FineWeb
from curate.filter.gopher.quality import GopherQuality
from curate.filter.gopher.repetition import GopherRepetition
from curate.words import with_words

RECORDED = json.loads((Path(__file__).parent / "reference" / "datatrove.json").read_text(encoding="utf-8"))["documents"]

# datatrove's reason -> our column
REASONS = {
    "gopher_short_doc": "num_words",
    "gopher_below_avg_threshold": "mean_word_length",
    "gopher_too_many_hashes": "hash_ratio",
    "gopher_too_many_end_ellipsis": "ellipsis_line_fraction",
    "gopher_below_alpha_threshold": "alpha_word_fraction",
    "dup_line_frac": "duplicate_line_fraction",
    "dup_para_frac": "duplicate_paragraph_fraction",
    "top_2_gram": "top_2gram_char_fraction",
    "top_3_gram": "top_3gram_char_fraction",
    "top_4_gram": "top_4gram_char_fraction",
    "duplicated_5_n_grams": "repeated_5gram_char_fraction",
    "line_punct_ratio": "terminal_line_fraction",
    "short_line_ratio": "short_line_fraction",
    "char_dup_ratio": "repeated_line_char_fraction",
    "lorem_ipsum": "lorem_ipsum",
    "curly_bracket": "curly_bracket",
    "too_few_sentences": "min_sentences",
    "empty": "empty",
    "gopher_above_avg_threshold": "mean_word_length",
    "gopher_too_many_ellipsis": "ellipsis_ratio",
    "gopher_too_many_bullets": "bullet_line_fraction",
    "gopher_enough_stop_words": "num_stop_words",
    "dup_line_char_frac": "duplicate_line_char_fraction",
    "dup_para_char_frac": "duplicate_paragraph_char_fraction",
    **{f"duplicated_{n}_n_grams": f"repeated_{n}gram_char_fraction" for n in range(6, 11)},
    "list_ratio": "newlines_per_word",
}
LEAST = {"documents": 600, "apart": 46, "texts": 70}  # how many were recorded
COLUMNS = {"newline_ratio": "newlines_per_word"}  # recorded under another name


def batch() -> pa.RecordBatch:
    texts = pa.array([document["text"] for document in RECORDED], pa.large_string())
    words = pa.array([document["words"] for document in RECORDED], pa.large_list(pa.large_string()))
    tokens = plain_filters.token_column(texts.to_pylist(), words.to_pylist())
    return pa.record_batch({"text": texts, "words": words, "tokens": tokens, "english_tokens": tokens})


@pytest.mark.parametrize(
    ("block", "step"),
    [("gopher_quality", GopherQuality()), ("gopher_repetition", GopherRepetition()), ("fineweb", FineWeb())],
)
def test_values_and_decisions(fired, block, step):
    for document, row in zip(RECORDED, step.apply(batch()).to_pylist(), strict=True):
        for column, value in document[block].items():
            if column in ("num_words", "mean_word_length") and "•" in document["text"]:
                continue  # a word with a sign that datatrove's list of punctuation lacks
            assert row[column] == pytest.approx(value, rel=1e-12, abs=1e-15), (column, document["text"])
        reason = document["reasons"][block]
        names = [name.removeprefix("block.") for name in fired(step, row)]
        if reason is None and "\n\n" in document["text"] and names == ["ellipsis_line_fraction"]:
            continue  # for datatrove blank lines are lines that end in no ellipsis
        if reason is None and "•" in document["text"] and names == ["num_words"]:
            continue
        assert names[:1] == ([REASONS[reason]] if reason else [])


@pytest.mark.parametrize(("name", "step"), [("default", C4Lines()), ("fineweb", C4Lines(terminal_punctuation="off"))])
def test_c4_text_and_decisions(fired, name, step):
    for document, row in zip(RECORDED, step.apply(batch()).to_pylist(), strict=True):
        recorded = document["c4"][name]
        if "... " in row["text"] and recorded["reason"] == "too_few_sentences":
            continue  # spaCy ends no sentence at three stops
        names = [rule.removeprefix("block.") for rule in fired(step, row) if rule != "block.empty"]
        assert names[:1] == ([REASONS[recorded["reason"]]] if recorded["reason"] else [])
        if recorded["reason"] is None:
            assert row["text"] == recorded["text"]


# ---- real documents, and awkward texts: the variant decides as datatrove does, with its first reason


@pytest.fixture(scope="module")
def texts():
    """Return a function from a part of the recordings to its texts; skips loudly without the real inputs."""
    cached: dict[str, list[str]] = {}

    def of(part: str) -> list[str]:
        if part not in cached and part == "texts":
            own = json.loads((Path(__file__).parent / "reference" / "texts.json").read_text(encoding="utf-8"))
            cached[part] = [entry["text"] for entry in own]
        elif part not in cached:
            if not (DATA / "02_gold").is_dir():
                pytest.skip(f"real inputs are absent: set CURATE_DATA to the folder that holds {DATA.name}")
            cached[part] = [text for _, text in replayed(DATA, part)]
        return cached[part]

    return of


def measured(step, texts: list[str]) -> list[dict]:
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
    return step.apply(with_words(batch, step.reads)).to_pylist()


@pytest.mark.parametrize("part", ["documents", "apart", "texts"])
@pytest.mark.parametrize("kind", [GopherRepetition, GopherQuality, FineWeb], ids=lambda kind: kind.__name__)
def test_datatrove_on_real_documents(texts, fired, kind, part):
    block = {GopherRepetition: "gopher_repetition", GopherQuality: "gopher_quality", FineWeb: "fineweb"}[kind]
    recording = recorded("datatrove")["blocks"][block]
    step = kind(variant="datatrove")
    rows = measured(step, texts(part))
    assert len(rows) == len(recording[part]["fired"]) >= LEAST[part]
    columns = [COLUMNS.get(name, name) for name in recording["columns"]]
    for row, values, reason in zip(rows, recording[part]["values"], recording[part]["fired"], strict=True):
        known = {column: value for column, value in zip(columns, values, strict=True) if value is not None}
        assert {column: row[column] for column in known} == pytest.approx(known, rel=1e-9, abs=1e-9)
        names = [name.removeprefix("block.") for name in fired(step, row)]
        assert names[:1] == ([REASONS[reason]] if reason else [])


@pytest.mark.parametrize("part", ["documents", "apart", "texts"])
@pytest.mark.parametrize("block", ["c4", "c4_of_fineweb"])
def test_datatrove_c4_on_real_documents(texts, fired, block, part):
    recording = recorded("datatrove")["blocks"][block]
    step = C4Lines(variant="datatrove", terminal_punctuation="on" if block == "c4" else "off")
    for row, (sentences, kept), reason in zip(
        measured(step, texts(part)), recording[part]["values"], recording[part]["fired"], strict=True
    ):
        names = [name.removeprefix("block.") for name in fired(step, row)]
        assert names[:1] == ([REASONS[reason]] if reason else [])
        if sentences is not None:
            assert row["num_sentences"] == sentences
        if kept is not None:
            assert digest(row["text"])[:16] == kept


@pytest.mark.parametrize("part", ["documents", "apart", "texts"])
def test_the_code_that_made_c4_on_real_documents(texts, fired, part):
    """Its sentences are Punkt's, ours those of `curate.text.words`: they decide one of 605 documents otherwise."""
    recording = recorded("tfds")["blocks"]["c4"][part]
    step = C4Lines(variant="tfds")
    otherwise = 0
    for row, (_, lines, kept), reason in zip(
        measured(step, texts(part)), recording["values"], recording["fired"], strict=True
    ):
        names = [name.removeprefix("block.") for name in fired(step, row)]
        if kept is not None:
            assert (row["num_lines_kept"], digest(row["text"])[:16]) == (lines, kept)
        if reason in ("loremipsum", "squigglybracket"):
            assert names[0] == {"loremipsum": "lorem_ipsum", "squigglybracket": "curly_bracket"}[reason]
        otherwise += bool(names) != bool(reason)
    assert otherwise <= (1 if part == "documents" else 0)
