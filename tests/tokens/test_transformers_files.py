"""Sentencepiece models as transformers opens them: the same ids for every text, proven on awkward ones and on real ones."""

import gzip
import io
import json
import os
import random
from functools import cache
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curate.tokens.encoding.model_file import read_model
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.tokenizer import load_tokenizer
from curate.tokens.transformers_files import (
    TransformersError,
    last_join,
    tokenizer_definition,
    write_transformers_tokenizer,
)

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
FILES = (DATA / "04_books" / "books.jsonl.gz", DATA / "05_code" / "code.jsonl.gz")
needs_data = pytest.mark.skipif(
    not all(file.is_file() for file in FILES), reason=f"real inputs are absent under {DATA}; set CURATE_DATA"
)
TEXTS = [
    "The lock keeper wrote the toll of the barge in the book, and the barge left the town.\n\nIn 1873 it was 12 pence.",
    "def f(x):\n    if x:\n        return  1\n    for y in range(10):\n\tprint(x + y)\n# --------\n",
    "A comporta do canal abriu às nove; a barcaça seguiu para a vila. <s> </s> <0x41>",
] * 4
# Runs, periods and spaces: where it matters which of several joins comes first.
ALPHABETS = ("ab", "aab ", "ab  \n", "a-= ", "abc\t\n 1", "é\u2581 a<0x41>", "日本語 の<", "<0xAF41></s><unk>")
AWKWARD = [
    *("a" * size for size in range(1, 20)),
    "ab" * 30 + "a",
    " " * 50 + "a" + "\n" * 9 + "\t" * 5,
    "</s><s><unk><|endoftext|>",
    "<0x41><0x0A>\0",
    "\u2581\u2581a \u2581\u2585\ufeff",
    "",
]


def train(texts, model, **options):
    training = SentencePiece(model=model, **({"vocab_size": 400} | options))
    return load_tokenizer(train_tokenizer(texts, TokenizerSettings(train=training)).model)


def opened(tokenizer):
    """The library's tokenizer of the export; marks in a text are text, as with `split_special_tokens=True`."""
    theirs = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_definition(read_model(tokenizer.model))))
    theirs.encode_special_tokens = True
    return theirs


def assert_same(tokenizer, theirs, texts):
    for text in texts:
        ids = tokenizer.encode(text).tolist()
        assert theirs.encode(text).ids == ids
        assert theirs.decode(ids, skip_special_tokens=False) == text


@cache
def pair(model):
    tokenizer = train(TEXTS, model)
    return tokenizer, opened(tokenizer)


@pytest.mark.parametrize("model", ["bpe", "unigram"])
@settings(deadline=None, max_examples=200)
@given(text=st.text() | st.text("ab -=\n\t\u2581<0x41>/s"))
@example("".join(AWKWARD))
def test_every_text_has_the_same_ids(model, text):
    assert_same(*pair(model), [text])


@pytest.mark.parametrize("model", ["bpe", "unigram"])
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_joins_of_runs_and_periods_are_the_same(model, alphabet):
    random_of = random.Random(alphabet)

    def text(letters, size):
        return "".join(random_of.choices(letters, k=random_of.randrange(size)))

    texts = [text(alphabet, 300) for _ in range(12)] + ["aaaaaa abab ----  " * 3]
    tokenizer = train(texts, model, vocab_size=random_of.randrange(330, 600))
    others = [text(alphabet + random_of.choice(ALPHABETS), 200) for _ in range(60)]
    assert_same(tokenizer, opened(tokenizer), others + AWKWARD)


def test_the_last_join_is_that_of_the_piece_alone():
    # By hand: "bc" is joined first, then "a" with it; in "aaaa" the left pair, the right pair, then both.
    scores = {"bc": -1.0, "ab": -2.0, "abc": -3.0, "aa": -4.0, "aaaa": -5.0, "aab": -6.0}
    assert last_join("abc", scores) == ("a", "bc")
    assert last_join("aaaa", scores) == ("aa", "aa")
    assert last_join("aab", scores) == ("a", "ab")  # "ab" comes before "aa"
    assert last_join("bc", scores) == ("b", "c")
    assert last_join("aaa", scores) is None  # "aa" and "a" have no piece together
    assert last_join("a", scores) is None


@needs_data
@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_real_texts_have_the_same_ids(model):
    texts = [text[:3000] for text in real_texts(FILES, every=11)]
    tokenizer = train(texts[::3], model, vocab_size=2000, sample_bytes="150k")
    assert len(texts) > 300
    assert_same(tokenizer, opened(tokenizer), texts)


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_whole_books_and_files_have_the_same_ids(model):
    texts = list(real_texts(FILES))
    assert max(map(len, texts)) > 500_000  # longer than what sentencepiece can add up
    tokenizer = train([text[:20_000] for text in texts], model, vocab_size=8000, sample_bytes="3M")
    assert_same(tokenizer, opened(tokenizer), texts)


def real_texts(files, every=1):
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file):
                if number % every == 0:
                    yield json.loads(line)["text"]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_transformers_opens_it_with_the_same_ids(tmp_path, model):
    transformers = pytest.importorskip("transformers", reason="TRANSFORMERS NOT TESTED: it is not installed")
    tokenizer = train(TEXTS, model)
    write_transformers_tokenizer(tokenizer, tmp_path)
    texts = [*TEXTS, *AWKWARD]
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, split_special_tokens=True)
    assert (theirs.eos_token, theirs.eos_token_id, len(theirs)) == ("</s>", tokenizer.eos_id, tokenizer.vocab_size)
    for text in texts:
        ids = tokenizer.encode(text).tolist()
        assert theirs(text)["input_ids"] == ids
        assert theirs.decode(ids) == text
    plain = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert plain("a</s>")["input_ids"][-1] == tokenizer.eos_id  # as users of transformers expect


def test_the_files_name_the_marks(tmp_path):
    trained = train_tokenizer(TEXTS, TokenizerSettings(train=SentencePiece(vocab_size=400), eos="<|endoftext|>"))
    tokenizer = load_tokenizer(trained.model, bos=True)
    names = write_transformers_tokenizer(tokenizer, tmp_path / "hf")
    assert sorted(path.name for path in (tmp_path / "hf").iterdir()) == sorted(names)
    config = json.loads((tmp_path / "hf" / "tokenizer_config.json").read_text())
    assert (config["eos_token"], config["bos_token"], config["unk_token"]) == ("<|endoftext|>", "<s>", "<unk>")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "hf" / "tokenizer.json"))
    ids = tokenizer.encode("the lock").tolist()
    assert theirs.encode("the lock").ids == [1, *ids]  # documents begin with the mark, so prompts do
    assert theirs.encode("the lock", add_special_tokens=False).ids == ids
    # Our own reader takes it back, and the files beside it tell which mark ends a document.
    back = load_tokenizer(tmp_path / "hf", eos=config["eos_token"], bos=True)
    assert (back.eos_id, back.bos_id, back.lossless) == (2, 1, True)
    assert [back.encode(text).tolist() for text in TEXTS] == [tokenizer.encode(text).tolist() for text in TEXTS]
    assert back.token_bytes().tolist() == tokenizer.token_bytes().tolist()


def test_a_tokenizer_json_is_handed_on_as_it_is(tmp_path):
    write_transformers_tokenizer(train(TEXTS, "bpe"), tmp_path / "first")
    content = (tmp_path / "first" / "tokenizer.json").read_bytes()
    write_transformers_tokenizer(load_tokenizer(content, eos="</s>"), tmp_path / "second")
    assert (tmp_path / "second" / "tokenizer.json").read_bytes() == content
    assert json.loads((tmp_path / "second" / "special_tokens_map.json").read_text()) == {"eos_token": "</s>"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "changes a text before it encodes it"),
        ({"normalization_rule_name": "identity"}, "changes a text before"),
        ({"normalization_rule_name": "identity", "add_dummy_prefix": False}, "changes a text before"),  # spaces
        (
            {"normalization_rule_name": "identity", "add_dummy_prefix": False, "remove_extra_whitespaces": False},
            "no byte fallback",
        ),
    ],
)
def test_what_cannot_be_said_is_refused(tmp_path, options, message):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=120, model_type="bpe", minloglevel=2, **options
    )
    with pytest.raises(TransformersError, match=message):
        write_transformers_tokenizer(load_tokenizer(model.getvalue()), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_unigram_models_sums_are_exact():
    tokenizer = train(TEXTS, "unigram")
    model = read_model(tokenizer.model)
    assert all(score * 16 == int(score * 16) for score in model.scores)
    # A word's ids do not depend on how much stands before it: here ten times what sums are exact for.
    word = tokenizer.encode(" barge").tolist()
    assert tokenizer.encode("the barge " * 300_000 + "the barge").tolist()[-len(word) :] == word


def test_a_unigram_model_of_other_scores_is_refused(tmp_path):
    model = io.BytesIO()
    options = {"normalization_rule_name": "identity", "add_dummy_prefix": False, "remove_extra_whitespaces": False}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=model,
        vocab_size=350,
        hard_vocab_limit=False,
        minloglevel=2,
        byte_fallback=True,
        **options,
    )
    with pytest.raises(TransformersError, match="sums of its scores are not exact"):
        write_transformers_tokenizer(load_tokenizer(model.getvalue()), tmp_path)
