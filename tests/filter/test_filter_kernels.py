"""The kernels of the filters against plain Python, on texts made to be awkward and on real ones."""

import plain_filters
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curate.filter.gopher.repetition import GopherRepetition
from curate.words import with_words

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
