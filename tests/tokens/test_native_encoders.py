"""Compiled encoders give the library's ids for every text, and what is not known to be so is left to the library."""

import gzip
import io
import json
import os
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import regex
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from curate.text.characters import ASSIGNED
from curate.tokens.encoding import split_kernels
from curate.tokens.encoding.byte_classes import byte_classes
from curate.tokens.encoding.byte_level import PATTERNS
from curate.tokens.encoding.encoder import Encoder, encoder_of
from curate.tokens.encoding.model_file import NORMAL, USER_DEFINED, read_model
from curate.tokens.sentencepiece_model import SentencePieceTokenizer
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.tokenizer import load_tokenizer

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
TEXTS = [
    "The lock keeper wrote the toll of the barge in the book, and the barge left the town.\n\nIn 1873 it was 12 pence.",
    "def f(x):\n    if x:\n        return  1\n    for y in range(10):\n\tprint(x + y)\n----\n======\n",
    "A comporta do canal abriu \u00e0s nove; a barca\u00e7a seguiu para a vila. O guarda anotou a portagem no livro.",
    "Шлюз открыли на рассвете. 中文和日本語。 नमस्ते",
]
# What encoders trip over: marks, halves of characters that combine, white space of all kinds, contractions, cases.
SIGNS = [
    *("\u2581", "\0", "\ue000", "\ud7ff", "\ufffd", "\u0301", "e\u0301", "\U0001f600", "\u200d", "\ufeff", "\u00ad"),
    *(
        " ",
        "  ",
        "    ",
        "\t",
        "\t\t",
        "\n",
        "\n\n\n",
        "\r\n",
        "\r",
        "\u00a0",
        "\u3000",
        "\x85",
        "\u2028",
        "\x0b",
        "\x1c",
    ),
    *("-", "----", "_", "!", "/", "\\", "{}", "'", "''", "'s", "'S", "'\u017f", "'LL", "'Re", "'tis", "don't", "I'M"),
    *(
        "a",
        "the",
        " the",
        "The",
        "aBc",
        "ABc",
        "1",
        "23",
        "1873",
        "\u00bd",
        "\u0661",
        "\u2160",
        "\u01c5",
        "\u02b0",
        "\u0130",
    ),
    *(
        "</s>",
        "<unk>",
        "<0x41>",
        "<|endoftext|>",
        "\u4e2d\u6587",
        "\u0928\u094d",
        "\uac00",
        "\u1100\u1161",
        "\u0428\u043b",
    ),
    *("\U0010ffff", "\U00010000", "\uffff", "\ua66e", "\u2585", "x", "q\u0323"),
]


def trained(kind, **options):
    if kind in ("bpe", "unigram") and not options:
        settings_ = TokenizerSettings(train=SentencePiece(vocab_size=500, model=kind))
        return load_tokenizer(train_tokenizer(TEXTS * 4, settings_).model)
    model = io.BytesIO()
    lines = [line for text in TEXTS * 4 for line in text.split("\n") if line]
    fixed = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "byte_fallback": True}
    fixed |= {"vocab_size": 480, "hard_vocab_limit": False, "num_threads": 1, "minloglevel": 2, "model_type": kind}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **(fixed | options))
    return load_tokenizer(model.getvalue())


OWN = ["\n", "\n\n", "\u2581\u2581", "<turn>", "<turn>>", "\u4e2d\u6587", "the", "their", "def\u2581", "a\u2581b"]


def byte_level(pre_tokenizer=None, *, normalizer=None, added=(), ignore=False, holes=False):
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    learner.train_from_iterator(
        TEXTS * 4, trainers.BpeTrainer(vocab_size=480, initial_alphabet=alphabet, show_progress=False)
    )
    written = json.loads(learner.to_str())
    if pre_tokenizer is not None:
        written["pre_tokenizer"] = pre_tokenizer
    written["normalizer"] = normalizer
    written["model"]["ignore_merges"] = ignore
    if holes:  # tokens that no merges lead to: looked up whole, or never found
        written["model"]["merges"] = [pair for number, pair in enumerate(written["model"]["merges"]) if number % 3]
    first = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True}
    names = [("<|endoftext|>", True), *((name, False) for name in added)]
    size = len(written["model"]["vocab"])
    written["added_tokens"] = [
        first | {"id": size + number, "content": name, "special": special}
        for number, (name, special) in enumerate(names)
    ]
    return load_tokenizer(json.dumps(written).encode(), eos="<|endoftext|>")


def split(pattern):
    parts = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [parts, BYTES | {"use_regex": False}]}


def digits(one_by_one):
    return {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": one_by_one}, BYTES]}


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
GPT2, CL100K, QWEN, O200K = PATTERNS
MAKERS = {
    "bpe": lambda: trained("bpe"),
    "unigram": lambda: trained("unigram"),
    "bpe with symbols of its own": lambda: trained("bpe", user_defined_symbols=OWN, add_dummy_prefix=False),
    "unigram with symbols of its own": lambda: trained("unigram", user_defined_symbols=OWN, add_dummy_prefix=False),
    "bpe with a prefix": lambda: trained("bpe", split_digits=True),  # as Llama 2
    "unigram with a prefix": lambda: trained("unigram", split_digits=True),
    "gpt2": byte_level,
    "gpt2 by Split": lambda: byte_level(split(GPT2)),
    "cl100k, looked up": lambda: byte_level(split(CL100K), ignore=True, holes=True),
    "qwen in NFC": lambda: byte_level(split(QWEN), normalizer={"type": "NFC"}, holes=True),
    "o200k": lambda: byte_level(split(O200K)),
    "digits one by one": lambda: byte_level(digits(True)),
    "digits in runs": lambda: byte_level(digits(False)),
    "added tokens": lambda: byte_level(added=["  ", "don't", "\u4e2d\u6587"]),
}


@pytest.fixture(scope="module", params=MAKERS)
def tokenizer(request):
    return MAKERS[request.param]()


def column(texts):
    return pa.array(texts, pa.large_string())


def differing(tokenizer, texts):
    """Return the texts whose ids are not the library's."""
    encoder = encoder_of(tokenizer)
    assert encoder.is_compiled
    ids, offsets = encoder.encode(column(texts))
    assert ids.dtype == (np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32)
    assert offsets[0] == 0
    assert offsets[-1] == ids.size
    runs = tokenizer.encode_batch(texts)
    return [
        text for row, text in enumerate(texts) if ids[offsets[row] : offsets[row + 1]].tolist() != runs[row].tolist()
    ]


def awkward(count, seed):
    choose = random.Random(seed)
    real = "".join(TEXTS)
    for _ in range(count):
        kind = choose.random()
        if kind < 0.5:
            yield "".join(choose.choice(SIGNS) * choose.choice((1, 1, 1, 2, 3, 9)) for _ in range(choose.randrange(25)))
        elif kind < 0.7:
            yield bytes(choose.randrange(256) for _ in range(choose.randrange(80))).decode(errors="replace")
        elif kind < 0.8:
            yield choose.choice(SIGNS) * choose.randrange(1, 300)
        else:
            first = choose.randrange(len(real))
            yield real[first : first + choose.randrange(60)] + choose.choice(SIGNS) + real[: choose.randrange(40)]


def test_the_ids_of_awkward_texts_are_the_librarys(tokenizer):
    assert differing(tokenizer, [*awkward(600, 1), "", *SIGNS, *TEXTS]) == []


@settings(deadline=None, max_examples=60)
@given(text=st.text())
@example("\u2581 \u2581\u2581a \u2581")
def test_the_ids_of_any_text_are_the_librarys(text):
    for kind in ("bpe", "unigram", "o200k"):
        assert differing(made(kind), [text]) == []


def made(kind, kept={}):  # noqa: B006 - once for all examples
    if kind not in kept:
        kept[kind] = MAKERS[kind]()
    return kept[kind]


def test_long_runs_without_a_cut_are_encoded_in_no_time():  # case tok-008
    texts = [sign * (50_000 // len(sign)) for sign in ("a", "ab", " ", "-", "the", "\u4e2d", "\n", " the", "\u0301")]
    for kind in ("bpe", "unigram", "gpt2", "o200k"):
        assert differing(made(kind), texts) == []


def test_a_unigram_model_counts_anew_where_the_library_does():
    # A character without a piece costs more than any piece: a few thousand of them, and sums are as far below 0 as
    # those of a book. Where the library begins anew, the sums of what follows are rounded in another way.
    tokenizer = made("unigram")
    choose = random.Random(5)
    unknown = min(read_model(tokenizer.model).scores) - 10
    texts = []
    for number in range(40):
        before = "\ue000" * int((1e5 - choose.randrange(10, 3000)) / -unknown)
        after = "".join(choose.choice(("the", "-", "a", "ing", "\n", " ", "\t", "e", "r")) for _ in range(2500))
        texts.append(before + after + before + after[::-1] if number % 2 else before + after)
    assert differing(tokenizer, texts) == []


def test_a_column_is_encoded_alike_whole_sliced_and_in_groups(monkeypatch):
    texts = [*awkward(80, 2), "", "the end"]
    for kind in ("bpe", "unigram with a prefix", "added tokens"):
        tokenizer = made(kind)
        whole, offsets = encoder_of(tokenizer).encode(column(texts))
        part, ends = encoder_of(tokenizer).encode(column(texts).slice(7, 30))
        assert part.tolist() == whole[offsets[7] : offsets[37]].tolist()
        assert ends.tolist() == (offsets[7:38] - offsets[7]).tolist()
        monkeypatch.setattr("curate.tokens.encoding.encoder._GROUP_BYTES", 100)
        again, places = encoder_of(tokenizer).encode(column(texts))
        monkeypatch.undo()
        assert again.tolist() == whole.tolist()
        assert places.tolist() == offsets.tolist()
        none, nowhere = encoder_of(tokenizer).encode(column([]))
        assert none.size == 0
        assert nowhere.tolist() == [0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: trained("bpe", normalization_rule_name="nmt_nfkc"),
        lambda: trained("unigram", remove_extra_whitespaces=True),
        lambda: trained("bpe", byte_fallback=False),
        lambda: trained("unigram", treat_whitespace_as_suffix=True),
        lambda: trained("word"),
        lambda: byte_level(split(r"\w+|\W+")),
        lambda: byte_level(BYTES | {"add_prefix_space": True}),
        lambda: byte_level(normalizer={"type": "Lowercase"}),
    ],
)
def test_what_is_not_known_is_left_to_the_library(make):
    tokenizer = make()
    encoder = encoder_of(tokenizer)
    assert not encoder.is_compiled
    ids, offsets = encoder.encode(column([*TEXTS, ""]))
    assert [ids[first:end].tolist() for first, end in pairwise(offsets)] == [
        tokenizer.encode(text).tolist() for text in (*TEXTS, "")
    ]


def test_a_library_of_another_version_encodes_by_itself():
    class Another(SentencePieceTokenizer):
        """As a library that breaks ties in another way."""

        def encode_batch(self, texts):
            runs = super().encode_batch(texts)
            return [run[::-1] if "\n" * 5 in text else run for text, run in zip(texts, runs, strict=True)]

    tokenizer = Another(made("bpe").model)
    encoder = encoder_of(tokenizer)
    assert not encoder.is_compiled
    text = "a town" + "\n" * 7
    assert encoder.encode(column([text]))[0].tolist() == tokenizer.encode_batch([text])[0].tolist()


def test_rows_with_added_tokens_are_the_librarys_the_others_are_not():
    tokenizer = made("added tokens")
    asked = []

    class Spy:
        vocab_size = tokenizer.vocab_size

        def encode_batch(self, texts):
            asked.extend(texts)
            return tokenizer.encode_batch(texts)

    encoder = Encoder(Spy(), encoder_of(tokenizer)._algorithm)
    encoder.encode(column(["a b", "a  b", "I don't", "<|endoftext|>", "plain"]))
    assert asked == ["a  b", "I don't"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_are_split_where_the_expression_splits_them(pattern):
    """Against the expression itself, in an engine of its own: on characters that all versions of Unicode agree on."""
    kind, numbers = PATTERNS[pattern]
    expression = regex.compile(pattern)
    classes = byte_classes()
    for text in awkward(250, 3):
        data = np.frombuffer(text.encode() + bytes(8), np.uint8).copy()  # read-only is another type, compiled anew
        size, place, ends = len(text.encode()), 0, []
        while place < size:
            place = split_kernels.split_end(data, place, size, classes, kind, numbers)
            ends.append(place)
        if any(sign in text for sign in "\x1c\x1d\x1e\x1f"):
            continue  # white space to `regex`, not to the library
        found = np.cumsum([len(match[0].encode()) for match in expression.finditer(text)])
        assert ends == found.tolist(), repr(text)


def test_classes_are_those_of_the_librarys_expressions():
    codes = [*range(0x3000), *range(0xA000, 0xAC80), *range(0x10400, 0x10500), *range(0x1D400, 0x1D800), 0x10FFFF]
    classes = byte_classes()
    for value, expression in (
        (split_kernels.LETTER, r"\p{L}"),
        (split_kernels.NUMBER, r"\p{N}"),
        (split_kernels.SPACE, r"\s"),
    ):
        found = pre_tokenizers.Split(Regex(expression), "removed", invert=True).pre_tokenize_str(
            "".join(map(chr, codes))
        )
        assert {sign for sign, _ in found} == {chr(code) for code in codes if classes[code] & value}
    assert not classes[max(codes.stop for codes in ASSIGNED) :].any()


def test_a_model_file_is_read_as_the_library_reads_it():
    tokenizer = made("bpe with symbols of its own")
    model = read_model(tokenizer.model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    assert [piece.decode() for piece in model.pieces] == [
        processor.id_to_piece(token) for token in range(len(model.pieces))
    ]
    assert list(model.scores) == [processor.get_score(token) for token in range(len(model.pieces))]
    assert {model.kinds[processor.piece_to_id(piece)] for piece in ("<turn>", "\n")} == {USER_DEFINED}
    assert model.kinds[processor.piece_to_id("a")] == NORMAL
    assert model.byte_fallback
    assert not model.has_prefix
    assert read_model(made("bpe with a prefix").model).has_prefix


@pytest.mark.parametrize("kind", ["bpe", "unigram", "gpt2", "o200k"])
def test_real_texts_have_the_librarys_ids(kind):
    texts = []
    for name, count in (("books", 2), ("code", 150)):
        with gzip.open(DATA / "10_small_corpus" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            texts += [json.loads(line)["text"][:60_000] for line, _ in zip(file, range(count), strict=False)]
    with gzip.open(DATA / "09_langid" / "sentences.jsonl.gz", "rt", encoding="utf-8") as file:
        texts += [json.loads(line)["text"] for line in list(file)[::15]]
    assert len(texts) > 400
    assert differing(made(kind), texts) == []
