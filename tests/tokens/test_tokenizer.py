import hashlib
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from curate.errors import InputError, StageError
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.shard import ShardWriter, TokenSource, write_manifest
from curate.tokens.tokenizer import load_tokenizer

TEXTS = [
    "The lock keeper wrote the toll of the barge in the book, and the barge left the town.\n\nIn 1873 the toll was 12 pence.",
    "def f(x):\n    if x:\n        return  1\n    for y in range(10):\n\tprint(x + y)\n",
    "A comporta do canal abriu às nove; a barcaça seguiu para a vila. O guarda anotou a portagem no livro.",
] * 4


def train(texts=TEXTS, *, eos=None, bos=False, **options):
    options = {"vocab_size": 400} | options
    return train_tokenizer(texts, TokenizerSettings(train=SentencePiece(**options), eos=eos, bos=bos))


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request):
    return load_tokenizer(train(model=request.param).model)


CODE = "def f(x):\n    if x:\n\treturn  1\n\n\n  two  spaces \r\nend"
RARE = "\u00bd \u2026 \u2460 \ufb01 \uff21 \ua66e \ue000 \ufdfd \u337f"


@settings(deadline=None, max_examples=300)
@given(text=st.text())
@example(CODE)  # case tok-004
@example(RARE)  # case tok-006
@example("")
@example("\0a\0")
@example("\u2581 \u2581\u2581a \u2581")  # how sentencepiece itself writes a space
@example("\u2585 \ufeff\u200b\u00ad\u2028\x85")
@example("<s></s><unk><|endoftext|><0x41>\u2047")
@example(" " * 1000 + "\n" * 1000 + "\t" * 1000)
def test_every_text_comes_back(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not {0, 1, 2} & set(ids.tolist())  # no unknown, begin or end mark
    assert int(tokenizer.token_bytes()[ids].sum()) == len(text.encode())


def test_white_space_of_code_is_whole_pieces(tokenizer):
    assert len(tokenizer.encode("\n")) == len(tokenizer.encode("\t\t")) == len(tokenizer.encode("\n\n\n\n")) == 1


def test_runs_of_spaces_are_learned():
    tokenizer = load_tokenizer(train().model)  # the texts indent by 4 and by 8
    assert len(tokenizer.encode("    ")) == 1


def test_digits_stand_alone(tokenizer):
    assert len(tokenizer.encode("1873")) == 4


def test_a_leading_space_is_no_prefix(tokenizer):  # case tok-005
    plain, spaced = tokenizer.encode("the lock"), tokenizer.encode(" the lock")
    assert plain.tolist() != spaced.tolist()
    assert [tokenizer.decode(ids) for ids in (plain, spaced)] == ["the lock", " the lock"]
    assert tokenizer.encode("").size == 0


def write_shard(folder, tokenizer, texts):
    with ShardWriter(
        folder, "train", dtype="uint16", eos_id=tokenizer.eos_id, vocab_size=tokenizer.vocab_size
    ) as writer:
        for number, ids in enumerate(tokenizer.encode_batch(texts)):
            writer.add(str(number), len(texts[number].encode()), ids)
    write_manifest(
        folder,
        dtype="uint16",
        vocab_size=tokenizer.vocab_size,
        eos_id=tokenizer.eos_id,
        tokenizer_sha256=tokenizer.sha256,
        shards=writer.close(),
    )
    return TokenSource.open(folder, "train")


@pytest.mark.parametrize("eos", ["</s>", "<|endoftext|>"])
def test_marks_in_a_text_are_ordinary_characters(tmp_path, eos):  # case tok-003
    texts = [
        "The file ends with <|endoftext|> in old dumps, not here.",
        "Struck out: <s>old toll</s> and <s>old fee</s>.",
        "plain",
    ]
    # Also trained on such texts: the marks must not become pieces of a text.
    tokenizer = load_tokenizer(train(TEXTS + texts * 50, eos=eos).model, eos=eos)
    source = write_shard(tmp_path, tokenizer, texts)
    assert np.count_nonzero(source.tokens(0, source.num_tokens) == tokenizer.eos_id) == 3
    assert [tokenizer.decode(ids) for _, ids in source.documents()] == texts
    source.verify()


def test_a_long_line_takes_part_in_training():  # case tok-007
    texts = ["quillwort " * 6000, "the lock keeper wrote the toll", "the barge left the town"]
    trained = train(texts)
    assert len(load_tokenizer(trained.model).encode("quillwort")) <= 3
    card = trained.card
    assert (card["training_documents"], card["skipped_documents"], card["skipped_bytes"]) == (3, 0, 0)
    assert card["training_bytes"] == 60_000 + 30 + 23
    # 60,000 characters are cut before the last space in each 4,096: parts of 4,089 (409 words less their last space),
    # then 4,090 each: 14 cuts leave 60,000 - 4,089 - 13 x 4,090 = 2,741.
    assert (card["lines_cut"], card["training_lines"]) == (14, 14 + 3)


def test_a_line_without_a_space_is_cut_too():
    card = train(["x" * 4096, "y" * 4097]).card
    assert (card["lines_cut"], card["training_lines"]) == (1, 3)


def test_a_word_of_a_million_letters_is_no_obstacle(tokenizer):  # case tok-008
    started = time.process_time()
    text = "ab" * 500_000
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert time.process_time() - started < 20


def test_ids_depend_on_the_text_alone(tokenizer):
    texts = [*TEXTS, CODE, RARE, "", "a\u2581b"]
    together = tokenizer.encode_batch(texts)
    assert [ids.tolist() for ids in together] == [tokenizer.encode(text).tolist() for text in texts]
    assert tokenizer.encode_batch([]) == []
    assert {ids.dtype for ids in together} == {np.dtype(np.uint16)}


def test_half_a_surrogate_pair_is_refused(tokenizer):
    with pytest.raises(UnicodeEncodeError):
        tokenizer.encode("\ud800")


def test_ids_that_are_no_text_decode_to_the_replacement_character(tokenizer):
    first = tokenizer.encode("\u00bd")[:1]  # the first of two bytes
    assert tokenizer.decode([1, *first, 2]) == "\ufffd"


def test_a_tokenizer_pickles(tokenizer):
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.sha256 == tokenizer.sha256 == hashlib.sha256(tokenizer.model).hexdigest()
    assert copy.encode(CODE).tolist() == tokenizer.encode(CODE).tolist()


@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_the_same_texts_give_the_same_bytes(tmp_path, model):
    code = (
        "import json, sys; from curate.tokens.sentencepiece_training import *; from curate.tokens.settings import *; "
        "texts, model = json.loads(sys.stdin.read()); "
        "print(train_tokenizer(texts, TokenizerSettings(train=SentencePiece(vocab_size=400, model=model))).card['sha256'])"
    )
    expected = train(model=model).card["sha256"]
    for seed, threads in (("1", "1"), ("2", "2")):
        environment = os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps([TEXTS, model]),
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected


def test_the_card_says_what_it_was_trained_on():
    card = train([*TEXTS, "", "\n\n"]).card
    assert json.loads(json.dumps(card)) == card
    assert (card["vocab_size"], card["vocab_size_asked"], card["eos"], card["eos_id"]) == (400, 400, "</s>", 2)
    assert (card["training_documents"], card["skipped_documents"]) == (12, 2)
    assert card["training_bytes"] == sum(len(text.encode()) for text in TEXTS) + 2
    assert card["settings"]["model"] == "bpe"


@pytest.mark.parametrize(
    ("limit", "documents", "skipped"),
    [
        (27, (3, 0), 0),  # exactly what there is
        (26, (3, 0), 1),  # the third without its last letter
        (18, (2, 0), 0),  # the third is not begun
        (11, (2, 0), 7),  # "é" of the second, two bytes
        (10, (1, 1), 9),  # half of it is nothing
    ],
)
def test_the_sample_ends_at_its_bytes(limit, documents, skipped):
    card = train(["abcdefghi", "é2345678", "abcdefghi"], sample_bytes=limit).card  # 9 bytes each
    assert (card["training_documents"], card["skipped_documents"]) == documents
    assert card["skipped_bytes"] == skipped
    assert card["training_bytes"] == (9 if limit == 10 else limit)


def test_a_small_corpus_gives_the_pieces_it_has():
    card = train(["hello world"], vocab_size=5000).card
    assert card["vocab_size"] < 400
    assert card["vocab_size_asked"] == 5000


@pytest.mark.parametrize("model", ["bpe", "unigram"])
@pytest.mark.parametrize(
    "text", ["日本語の文章です。" * 20, "ภาษาไทย" * 20, "a", "   ", "12345", "a" * 5000, "x = 1\r\n" * 9]
)
def test_a_sample_of_one_kind_loses_nothing_of_others(model, text):
    """Where the sample has no space, no letters, or hardly anything, other texts still come back."""
    tokenizer = load_tokenizer(train([text], model=model, vocab_size=2000, eos="<|end of text|>").model)
    assert tokenizer.lossless
    for other in (text, "a b  c", " 日本 語\n\t1 ", "<|end of text|>"):
        assert tokenizer.decode(tokenizer.encode(other)) == other


def test_training_prints_nothing(capfd: pytest.CaptureFixture[str]):
    """The library tells of every merge if it may: the message that a user must read would be lost in it."""
    train_tokenizer(["the lock keeper wrote the toll"] * 20, TokenizerSettings(train=SentencePiece(vocab_size=400)))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("texts", [[], [""], ["\n\n", "\t"]])
def test_without_text_there_is_no_tokenizer(texts):
    with pytest.raises(StageError, match="no text to train"):
        train(texts)


def test_a_vocabulary_too_small_for_the_characters_names_what_is_needed():
    # 4,096 characters, the space, 256 bytes, 3 marks and 8 pieces of white space, with full coverage; 4,364 is enough
    text = "".join(map(chr, range(0x4E00, 0x5E00)))
    with pytest.raises(StageError) as error:
        train([text], vocab_size=4363, character_coverage=1.0)
    assert "vocab_size to at least 4364" in error.value.remedy
    assert train([text], vocab_size=4364, character_coverage=1.0).card["vocab_size"] == 4364


def test_an_end_mark_that_the_model_lacks_is_refused_with_those_it_has(tmp_path):  # case tok-010
    path = tmp_path / "tokenizer.model"
    path.write_bytes(train().model)
    with pytest.raises(
        InputError, match=r"tokenizer\.model: has no mark '<\|endoftext\|>'; its marks are '<s>', '</s>'"
    ):
        load_tokenizer(path, eos="<|endoftext|>")
    with pytest.raises(InputError, match="has no mark 'the'"):  # a piece of text cannot end a document
        load_tokenizer(path, eos="the")
    assert load_tokenizer(path, eos="<s>").eos_id == 1
    assert load_tokenizer(str(path)).eos_id == 2


def test_a_begin_mark_on_request():
    model = train().model
    assert load_tokenizer(model).bos_id is None
    assert load_tokenizer(model, bos=True).bos_id == 1


def test_a_model_of_other_settings_is_known_as_lossy():
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=90, model_type="bpe", minloglevel=2, bos_id=-1
    )
    tokenizer = load_tokenizer(model.getvalue())
    assert not tokenizer.lossless
    assert tokenizer.decode(tokenizer.encode("the  lock")) == "the lock"
    with pytest.raises(InputError, match=r"no bos mark of its own.*'</s>'.*Remove tokenizer\.bos"):
        load_tokenizer(model.getvalue(), bos=True)


def test_what_is_no_model_is_refused(tmp_path):
    path = tmp_path / "x.model"
    with pytest.raises(InputError, match=r"x\.model: cannot be read"):
        load_tokenizer(path)
    path.write_bytes(b"no model")
    with pytest.raises(InputError, match=r"x\.model: is no sentencepiece model"):
        load_tokenizer(path)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"train": {"vocab_size": 299}}, "300"),
        ({"train": {"kind": "words"}}, "sentencepiece"),
        ({"train": {"sample_bytes": "many"}}, "no count"),
        ({"load": "ranks.tiktoken"}, "sentencepiece model"),
        ({"load": "a.model", "train": {}}, "trained or loaded"),
        ({"eos": ""}, "at least 1"),
        *(
            ({"eos": eos}, "is written <...>")
            for eos in ("the", "a", "\n", "<s>", "<unk>", "<0x41>", "<a\u2581b>", "<>")
        ),
    ],
)
def test_bad_settings_are_refused(written, message):
    with pytest.raises(ValidationError, match=message):
        TokenizerSettings.model_validate(written)


def test_settings_have_defaults():
    assert TokenizerSettings().training == SentencePiece()
    assert TokenizerSettings().trained_eos == "</s>"
    assert TokenizerSettings.model_validate({"train": {"sample_bytes": "5M"}}).training.sample_bytes == 5_000_000


def test_settings_load_without_heavy_libraries():
    heavy = "('numpy', 'pyarrow', 'sentencepiece', 'tokenizers')"
    code = (
        f"import sys, curate.tokens.tokenizer, curate.tokens.settings; print([m for m in {heavy} if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
