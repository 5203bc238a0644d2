import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from curate.tokens.arrange import EncodedShard, encode_documents
from curate.tokens.fertility import Counts, Fertility, count_texts
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.tokenizer import load_tokenizer


@pytest.mark.parametrize(
    ("text", "characters", "words"),
    [
        ("", 0, 0),
        ("The lock keeper's toll: 12 pence.", 33, 6),
        ("  a\t\u00a0b\u3000c\u2028\n ", 11, 3),  # white space of any kind
        ("日本語のtext です", 11, 7),  # four characters, one run of letters, two kana
        ("ภาษาไทย", 7, 7),
        ("ที่", 3, 1),  # a letter with a vowel and a tone above it
        ("a\u200bb", 3, 1),  # a zero-width space is no white space
        ("\u0085\x0b \x0c", 4, 0),
        ("😀 é e\u0301", 6, 3),
    ],
)
def test_words_and_characters(text, characters, words):
    assert count_texts(pa.array([text]))[:, 0].tolist() == [len(text.encode()), characters, words]


# Below the first script without spaces; the file separators are white space to Python, not to Unicode.
@given(st.lists(st.text(st.characters(max_codepoint=0xDFF, exclude_characters="\x1c\x1d\x1e\x1f"))))
@example(["", "a b", ""])
def test_they_are_pythons_where_scripts_have_spaces(texts):
    counted = count_texts(pa.array(["left out", *texts], pa.string()).slice(1))
    assert counted.tolist() == [
        [len(text.encode()) for text in texts],
        [len(text) for text in texts],
        [len(text.split()) for text in texts],
    ]


@pytest.mark.parametrize("bos", [False, True])
def test_counts_are_those_of_the_documents(tmp_path, bos):
    texts = ["the lock keeper", "", "o cão é \u2603\u2603", "the \u4e2d", "o"]
    languages = ["en", None, "pt", "en", "pt"]
    settings = TokenizerSettings(train=SentencePiece(vocab_size=300))
    tokenizer = load_tokenizer(train_tokenizer(["the lock keeper o "] * 5, settings).model, bos=bos)
    table = pa.table({"id": list("abcde"), "split": ["train"] * 5, "text": texts, "language": languages})
    fertility = Fertility(tokenizer)
    shard = EncodedShard(tmp_path / "tokens", tmp_path / "documents")
    encode_documents(fertility.seen(iter(table.to_batches(max_chunksize=2))), tokenizer, shard)
    runs = [tokenizer.encode(text).tolist() for text in texts]
    sizes = np.array([len(run) + bos for run in runs])
    found = fertility.counts(np.fromfile(shard.tokens, "<u2"), sizes)
    assert list(found) == ["en", "pt", "unknown"]
    # A byte piece is one of the 256 that follow the three marks.
    of_bytes = [sum(3 <= token < 259 for token in run) for run in runs]
    assert of_bytes == [0, 0, 2 + 2 + 3 + 3, 3, 0]  # ã, é and two snowmen; 中: not in what it was trained on
    expected = {
        name: {
            "documents": len(rows),
            "bytes": sum(len(texts[row].encode()) for row in rows),
            "characters": sum(len(texts[row]) for row in rows),
            "words": sum({0: 3, 1: 0, 2: 4, 3: 2, 4: 1}[row] for row in rows),
            "tokens": sum(len(runs[row]) for row in rows),
            "byte_tokens": sum(of_bytes[row] for row in rows),
            "unknown_tokens": 0,
        }
        for name, rows in {"en": [0, 3], "pt": [2, 4], "unknown": [1]}.items()
    }
    assert found == expected


def test_counts_add_up():
    one = Counts(1, 2, 3, 4, 5, 6, 7)
    one.add(Counts(10, 20, 30, 40, 50, 60, 70))
    assert one == Counts(11, 22, 33, 44, 55, 66, 77)
