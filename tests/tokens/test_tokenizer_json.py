"""Tokenizers in the tokenizer.json format: the library's ids, but what stands in a text stays text."""

import hashlib
import json
import pickle
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from curate.errors import InputError
from curate.tokens.arrange import EncodedShard, arrange, encode_documents
from curate.tokens.fertility import bytes_of
from curate.tokens.losses import losses
from curate.tokens.shard import TokenSource, write_manifest
from curate.tokens.tokenizer import load_tokenizer

TEXTS = [
    "The lock keeper wrote the toll of the barge in the book, and the barge left the town. In 1873 it was 12 pence.",
    "def f(x):\n    if x:\n        return  1\n    for y in range(10):\n\tprint(x + y)\n",
    "The file ends with <|endoftext|> in old dumps, not here. Struck out: <s>old toll</s> and <s>old fee</s>.",
] * 4
MARKS = ("<|endoftext|>", "<s>", "</s>")
MARKED = ["The file ends with <|endoftext|> in old dumps, not here.", "<s>old toll</s> and <s>old fee</s>.", "plain"]


def byte_level(vocab_size=420, marks=MARKS):
    """A byte-level BPE, as GPT-2's, with a template that puts marks around a text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(marks),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    if "<s>" in marks:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", marks.index("<s>")), ("</s>", marks.index("</s>"))]
        )
    return made


def unigram():
    """A unigram model with byte fallback, which itself finds its marks and its byte pieces in a text."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = [(piece, 0.0) for piece in pieces]
    vocabulary += [(char, -4.0) for char in sorted({*"".join(TEXTS)} - {" "} | {"\u2581"})]
    vocabulary += [("\u2581the", -2.0), ("\u2581toll", -3.0), ("old", -3.0)]
    made = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", "\u2581")
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    return made


def by_words(model=models.WordLevel):
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "old": 3, "toll": 4, "the": 5, "##s": 6}
    made = Tokenizer(model(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
    return made


def load(made, eos=None, bos=False, **changes):
    content = json.loads(made.to_str()) | changes
    return load_tokenizer(json.dumps(content).encode(), eos=eos, bos=bos)


@pytest.fixture(scope="module", params=[byte_level, unigram])
def tokenizer(request):
    return load(request.param(), eos="</s>")


@settings(deadline=None, max_examples=150)
@given(text=st.text())
@example("def f(x):\n    if x:\n\treturn  1\n\n\n  two  spaces \r\nend")  # case tok-004
@example("\u00bd \u2026 \u2460 \ufb01 \uff21 \ua66e \ue000 \ufdfd \u337f")  # case tok-006
@example("<s></s><unk><|endoftext|><0x41><0x0A>")
@example("\0\x002\0mark\0 \x00261\0mark\0")  # how marks are hidden
@example("")
def test_every_text_comes_back(tokenizer, text):
    ids = tokenizer.encode(text)
    expected = text
    if tokenizer.definition["model"]["type"] == "Unigram":  # the unigram model's sign for a space comes back as one
        assert not tokenizer.lossless
        expected = text.replace("\u2581", " ")
    assert tokenizer.decode(ids) == expected
    assert not {tokenizer.eos_id, *(mark for mark in range(3))} & set(ids.tolist())


def test_ids_are_the_librarys(tokenizer):
    theirs = Tokenizer.from_str(tokenizer.model.decode())
    texts = [text for text in TEXTS if "<" not in text] + ["", "  a ", "é\u00bd"]
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert theirs.encode(text, add_special_tokens=False).ids == ids.tolist()
        assert int(tokenizer.token_bytes()[ids].sum()) == len(text.encode())
    assert tokenizer.encode_batch([]) == []


def test_a_leading_space_is_no_prefix(tokenizer):  # case tok-005
    plain, spaced = tokenizer.encode("the lock"), tokenizer.encode(" the lock")
    assert plain.tolist() != spaced.tolist()
    assert [tokenizer.decode(ids) for ids in (plain, spaced)] == ["the lock", " the lock"]
    assert tokenizer.encode("").size == 0


def shards(folder, tokenizer, texts):
    table = pa.table({"id": [f"{n:032x}" for n in range(len(texts))], "split": ["train"] * len(texts), "text": texts})
    encoded = EncodedShard(folder / "tokens", folder / "documents")
    encode_documents(table.to_batches(), tokenizer, encoded)
    options = {"vocab_size": tokenizer.vocab_size, "eos_id": tokenizer.eos_id}
    infos = arrange([encoded], folder / "out", "train", order_seed=1, memory_bytes=1 << 20, scratch=folder, **options)
    dtype = "uint16" if tokenizer.vocab_size <= 65_536 else "uint32"
    write_manifest(folder / "out", dtype=dtype, tokenizer_sha256=tokenizer.sha256, shards=infos, **options)
    source = TokenSource.open(folder / "out", "train")
    source.verify()
    return source


@pytest.mark.parametrize("eos", ["</s>", "<|endoftext|>"])
def test_marks_in_a_text_are_ordinary_characters(tmp_path, eos):  # case tok-003
    tokenizer = load(byte_level(), eos=eos)
    source = shards(tmp_path, tokenizer, MARKED)
    assert np.count_nonzero(source.tokens(0, source.num_tokens) == tokenizer.eos_id) == 3
    assert {tokenizer.decode(ids) for _, ids in source.documents()} == set(MARKED)


@pytest.mark.parametrize(("bos", "count"), [(True, 3), (False, 0)])
def test_begin_and_end_marks(tmp_path, bos, count):  # case tok-002; the file's own template puts none of them
    tokenizer = load(byte_level(), eos="</s>", bos=bos)
    source = shards(tmp_path, tokenizer, ["one", "two", "three"])
    tokens = source.tokens(0, source.num_tokens)
    assert (np.count_nonzero(tokens == 1), np.count_nonzero(tokens == 2)) == (count, 3)


def test_added_tokens_that_look_like_marks_are_marks_and_others_are_text():
    made = byte_level()
    made.add_tokens(["<|user|>", "<tool_call>", "[INST]", "quillwort", "      "])
    tokenizer = load(made, eos="</s>")
    assert tokenizer.marks == (*MARKS, "<|user|>", "<tool_call>", "[INST]")
    text = "<|user|> asks [INST] of <tool_call> the quillwort      grows"
    ids = tokenizer.encode(text).tolist()
    assert tokenizer.decode(ids) == text
    tokens = {made.token_to_id(name) for name in ("<|user|>", "<tool_call>", "[INST]")}
    assert not tokens & set(ids)
    assert ids.count(made.token_to_id("quillwort")) == ids.count(made.token_to_id("      ")) == 1
    assert int(tokenizer.token_bytes()[ids].sum()) == len(text)


@pytest.mark.parametrize("model", [models.WordLevel, models.WordPiece])
def test_words_that_are_marks_become_unknown(model):
    tokenizer = load(by_words(model), eos="[SEP]")
    assert tokenizer.marks == ("[CLS]", "[SEP]")
    assert tokenizer.encode("old [SEP] [CLS] toll zzz").tolist() == [3, 0, 0, 4, 0]
    assert not tokenizer.lossless


def test_a_merge_that_makes_a_mark_is_not_made():
    # "<s>" can be joined from its characters here: the text would become the mark without any added token.
    vocabulary = {"</s>": 0, "<": 1, "s": 2, ">": 3, "<s": 4, "<s>": 5}
    made = Tokenizer(models.BPE(vocabulary, [("<", "s"), ("<s", ">")]))
    made.add_special_tokens(["</s>", "<s>"])
    tokenizer = load(made, eos="</s>")
    assert tokenizer.encode("<s>").tolist() == [4, 3]


def without(made, *pieces):
    """The file without some pieces: their ids stay unused."""
    content = json.loads(made.to_str())
    for piece in pieces:
        del content["model"]["vocab"][piece]
    return load_tokenizer(json.dumps(content).encode(), eos="</s>")


def test_a_vocabulary_without_one_byte_is_not_lossless():
    # In byte-level vocabularies "&" stands for itself, "\u00e2" for the byte 0xE2 and "\u00ff" for 0xFF, not in UTF-8.
    tokenizer = without(byte_level(), "&", "\u00e2")
    library = Tokenizer.from_str(tokenizer.model.decode())
    assert (tokenizer.lossless, tokenizer.missing_bytes, tokenizer.unused_ids) == (False, (0x26, 0xE2), 2)
    assert tokenizer.vocab_size == library.get_vocab_size() + 2
    assert losses(tokenizer) == ("the byte symbols of '&', 0xE2 are missing, and what needs them is lost",)
    ids = tokenizer.encode("a & b && c")
    assert ids.tolist() == library.encode("a & b && c", add_special_tokens=False).ids
    assert (tokenizer.decode(ids), bytes_of(ids, tokenizer)) == ("a  b  c", 7)
    assert without(byte_level(), "\u00ff").lossless
    full = load(byte_level(), eos="</s>")
    assert (full.lossless, full.missing_bytes, full.unused_ids, losses(full)) == (True, (), 0, ())


def test_a_byte_that_an_added_token_gives_is_not_missing():
    made = byte_level()
    content = json.loads(made.to_str())
    del content["model"]["vocab"]["&"]
    content["added_tokens"].append(content["added_tokens"][0] | {"id": 900, "content": "&", "special": False})
    tokenizer = load_tokenizer(json.dumps(content).encode(), eos="</s>")
    assert (tokenizer.lossless, tokenizer.missing_bytes) == (True, ())
    assert tokenizer.decode(tokenizer.encode("a & b")) == "a & b"


def test_byte_fallback_without_one_byte_is_not_lossless():
    content = json.loads(unigram().to_str())
    place = next(place for place, (piece, _) in enumerate(content["model"]["vocab"]) if piece == "<0xC3>")
    content["model"]["vocab"][place][0] = "quill"
    tokenizer = load_tokenizer(json.dumps(content).encode(), eos="</s>")
    assert (tokenizer.lossless, tokenizer.missing_bytes) == (False, (0xC3,))
    assert tokenizer.decode(tokenizer.encode("\u00e9")) != "\u00e9"


@pytest.mark.parametrize(
    ("normalizer", "lost"),
    [
        (normalizers.NFKC(), "compatibility characters are folded (\ufb01 becomes fi)"),
        (normalizers.Lowercase(), "upper case becomes lower case"),
        (normalizers.Strip(), "a space at the beginning of a text is lost"),
    ],
)
def test_what_a_normalizer_loses_is_told(normalizer, lost):
    made = byte_level()
    made.normalizer = normalizer
    assert lost in losses(load(made, eos="</s>"))


def test_a_prefix_and_unknown_words_are_told():
    made = byte_level()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    assert losses(load(made, eos="</s>")) == ("a space is put before each text",)
    assert losses(load(by_words(), eos="[SEP]")) == ("characters without a piece become the unknown token",)


def test_what_would_change_ids_is_switched_off():
    made = byte_level()
    made.enable_truncation(4)
    made.enable_padding(pad_id=1, pad_token="<s>", length=64)
    content = json.loads(made.to_str())
    content["model"]["dropout"] = 0.5
    tokenizer = load_tokenizer(json.dumps(content).encode(), eos="</s>")
    plain = load(byte_level(), eos="</s>")
    texts = [TEXTS[0], TEXTS[1], "a"]
    for _ in range(3):
        assert [ids.tolist() for ids in tokenizer.encode_batch(texts)] == [
            ids.tolist() for ids in plain.encode_batch(texts)
        ]


def test_a_large_vocabulary_has_wide_ids(tmp_path):  # case tok-001: ids from 65,536 on
    vocabulary = {"[UNK]": 0, "[SEP]": 1} | {f"w{token}": token for token in range(2, 70_000)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["[UNK]", "[SEP]"])
    tokenizer = load(made, eos="[SEP]")
    ids = tokenizer.encode("zzz w65535 w65536 w69999")
    assert (ids.tolist(), ids.dtype, tokenizer.vocab_size) == ([0, 65535, 65536, 69999], np.dtype(np.uint32), 70_000)
    source = shards(tmp_path, tokenizer, ["zzz w65535 w65536 w69999"])
    assert source.tokens(0, source.num_tokens).tolist() == [0, 65535, 65536, 69999, 1]


def test_a_word_of_a_million_letters_is_no_obstacle(tokenizer):  # case tok-008
    started = time.process_time()
    text = "ab" * 500_000
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert time.process_time() - started < 20


def test_an_end_mark_that_is_not_there_is_refused_with_those_that_are():  # case tok-010
    made = byte_level(marks=("</s>",))
    with pytest.raises(InputError, match=r"has no mark '<\|endoftext\|>'; its marks are '</s>'\. Set tokenizer\.eos"):
        load(made, eos="<|endoftext|>")
    with pytest.raises(InputError, match="has no mark 'the'"):  # a piece of text cannot end a document
        load(made, eos="the")
    assert load(made).eos_id == 0  # the only mark
    with pytest.raises(
        InputError, match=r"not tell which mark ends a document; its marks are '<\|endoftext\|>', '<s>'"
    ):
        load(byte_level())
    with pytest.raises(InputError, match="has no mark 'begin'"):
        load(byte_level(), eos="</s>", bos="begin")
    with pytest.raises(InputError, match="not tell which mark begins"):
        load(byte_level(), eos="</s>", bos=True, post_processor=None)
    assert load(byte_level(), eos="</s>", bos="<|endoftext|>", post_processor=None).bos_id == 0
    with pytest.raises(InputError, match="its marks are none"):
        load(byte_level(marks=()))


def test_an_end_mark_that_is_named_as_unknown_token_too():
    # No character is unknown to a byte-level vocabulary; files name the end mark there all the same.
    made = byte_level(marks=("<|endoftext|>",))
    content = json.loads(made.to_str())
    content["model"]["unk_token"] = "<|endoftext|>"
    tokenizer = load_tokenizer(json.dumps(content).encode())
    assert (tokenizer.eos, tokenizer.eos_id, tokenizer.bos) == ("<|endoftext|>", 0, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is no tokenizer.json"),
        (b"{}", "has no `model`"),
        (b'{"model": []}', "has no `model`"),
        (b'{"model": {"type": "Guess"}}', "cannot|can"),
        (b'{"version": "1.0", "model": {"type": "BPE", "vocab": {}}}', "merges"),
        (b"\x89PNG", "no sentencepiece model"),
        (b"", "no sentencepiece model"),
    ],
)
def test_what_is_no_tokenizer_is_refused(tmp_path, content, message):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        load_tokenizer(tmp_path / "tokenizer.json")
    assert error.value.file == str(tmp_path / "tokenizer.json")


def test_a_folder_holds_one_tokenizer(tmp_path):
    with pytest.raises(InputError, match=r"holds neither tokenizer\.model nor tokenizer\.json"):
        load_tokenizer(tmp_path)
    content = byte_level(marks=("</s>",)).to_str()
    (tmp_path / "tokenizer.json").write_text(content)
    assert load_tokenizer(tmp_path).file_name == "tokenizer.json"
    (tmp_path / "tokenizer.model").write_bytes(b"")
    with pytest.raises(InputError, match="holds both"):
        load_tokenizer(tmp_path)


def test_it_pickles_and_refuses_half_a_surrogate_pair(tokenizer):
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.sha256 == tokenizer.sha256 == hashlib.sha256(tokenizer.model).hexdigest()
    assert (copy.eos_id, copy.encode(TEXTS[1]).tolist()) == (tokenizer.eos_id, tokenizer.encode(TEXTS[1]).tolist())
    with pytest.raises(UnicodeEncodeError):
        tokenizer.encode("\ud800")
    first = tokenizer.encode("\u00bd")[:1]  # the first of two bytes
    assert tokenizer.decode([tokenizer.eos_id, *first]) == "\ufffd"
