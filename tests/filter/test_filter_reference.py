"""Our measures against recorded values of datatrove, on texts of ours, with the words that datatrove's tokenizer gave."""

import json
from pathlib import Path

import plain_filters
import pyarrow as pa
import pytest

from curate.filter.c4 import C4Lines
from curate.filter.fineweb import FineWeb
from curate.filter.gopher.quality import GopherQuality
from curate.filter.gopher.repetition import GopherRepetition

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
}


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
