"""The library itself is the reference: small models of every kind are trained by it, and both sides label the same texts."""

import ctypes
import random
import shutil
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from curate.errors import InputError
from curate.text.fasttext_file import HIERARCHICAL_SOFTMAX, read_model_file
from curate.text.fasttext_model import NO_LABEL, embed, load_model, predict, predict_spans, score

WORDS = {
    "en": "the lock keeper wrote toll in a green book and barge left town before noon with coal for mill".split(),
    "pt": "o barco saiu da cidade antes do meio-dia com carvão para a fábrica e não voltou à noite às águas".split(),
    "ru": "баржа вышла из города до полудня с углём для завода и не вернулась ночью".split(),
    "zh": "船 在 中午 之前 离开 城市 带着 煤 去 工厂 没有 回来".split(),
}
AWKWARD = (
    "",
    " \n\t ",
    "\n",
    "no\nline\r\nend",
    "a\x0bb\x0cc\x00d e",
    "barge </s> the green book",
    "</s>",
    "</s> </s>",
    "__label__en barge __label__unseen_label",
    "__label__ __label",
    "x" * 5000,
    "águas" * 400,
    "😀 🚀🚀 e\u0301 \u200b",
    "< > <barge> <b",
    "the",
    "a",
    "\u00a0the\u2003barge\u3000left",
    "zzzz qqqq",
)


def sentences(seed: int, count: int) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    weights = {"en": 8, "pt": 4, "ru": 2, "zh": 1}
    labels = chance.choices(list(weights), list(weights.values()), k=count)
    return [(label, " ".join(chance.choices(WORDS[label], k=chance.randint(1, 12)))) for label in labels]


SENTENCES = sentences(0, 900)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a function that trains a model and returns its path."""
    import fasttext

    # fastText 0.9.3 trains on memory that it never set: NaN, most of the time. M_PERTURB makes what malloc gives zeros.
    ctypes.CDLL(None).mallopt(-6, 255)
    folder = tmp_path_factory.mktemp("models")
    made: dict[str, str] = {}

    def train(quantise=None, labels=4, **settings) -> str:
        name = repr((quantise, labels, sorted(settings.items())))
        if name not in made:
            data = folder / f"{labels}.txt"
            lines = [(label if labels == 4 else str(row % labels), text) for row, (label, text) in enumerate(SENTENCES)]
            data.write_text("".join(f"__label__{label} {text}\n" for label, text in lines), encoding="utf-8")
            base = {"dim": 10, "epoch": 5, "lr": 0.5, "thread": 1, "verbose": 0, "bucket": 5000}
            model = fasttext.train_supervised(str(data), **(base | settings))
            if quantise is not None:
                model.quantize(input=str(data), thread=1, verbose=False, **quantise)
            made[name] = str(folder / f"{len(made)}.bin")
            model.save_model(made[name])
        return made[name]

    return train


def library(path: str):
    """Return a function from text to all labels with their probabilities, best first, by fastText itself."""
    import fasttext

    model = fasttext.load_model(path)
    return lambda text, k=1: model.f.predict(text.replace("\n", " ") + "\n", k, 0.0, "strict")


KINDS = {
    "hierarchical softmax, subwords": {"loss": "hs", "minn": 2, "maxn": 4},
    "softmax, words alone": {"loss": "softmax"},
    "softmax, word bigrams": {"loss": "softmax", "wordNgrams": 2},
    "softmax, trigrams and subwords": {"loss": "softmax", "wordNgrams": 3, "minn": 3, "maxn": 6},
    "single characters": {"loss": "softmax", "minn": 1, "maxn": 1},
    "negative sampling": {"loss": "ns", "minn": 2, "maxn": 3},
    "one vs all": {"loss": "ova", "wordNgrams": 2},
    "quantised": {"loss": "hs", "minn": 2, "maxn": 4, "quantise": {}},
    "quantised, norms apart": {"loss": "softmax", "minn": 2, "maxn": 4, "quantise": {"qnorm": True}},
    "pruned": {"loss": "hs", "minn": 2, "maxn": 4, "quantise": {"cutoff": 300, "qnorm": True}},
    "pruned, word bigrams": {"loss": "softmax", "wordNgrams": 2, "quantise": {"cutoff": 256, "dsub": 4}},
    "300 labels, quantised": {
        "loss": "hs",
        "minn": 2,
        "maxn": 3,
        "labels": 300,
        "quantise": {"qnorm": True, "qout": True},
    },
}
TOLERANCE = 3e-6  # of a probability: quantised vectors are multiplied by their length before the sum, not in it


@pytest.mark.parametrize("kind", KINDS)
def test_same_labels_and_probabilities_as_the_library(trained, kind):
    path = trained(**KINDS[kind])
    texts = [*AWKWARD, *(text for _, text in sentences(1, 300)), "o barco the barge баржа 船 " * 50]
    model = load_model(path, kind)
    labels, probabilities = predict(model, pa.array(texts))
    ask = library(path)
    worst = 0.0
    for text, label, probability in zip(texts, labels.tolist(), probabilities.tolist(), strict=True):
        found = ask(text)
        if not found:
            assert (label, probability) == (NO_LABEL, 0.0), text
            continue
        assert model.labels[label] == found[0][1], text
        worst = max(worst, abs(probability - found[0][0]))
    assert worst <= TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_all_labels(trained, kind):
    path = trained(**KINDS[kind])
    texts = [text for _, text in sentences(2, 50)]
    model = load_model(path, kind)
    scores = score(model, pa.array(texts))
    labels, probabilities = predict(model, pa.array(texts))
    assert scores.shape == (50, KINDS[kind].get("labels", 4))
    np.testing.assert_array_equal(scores.max(axis=1), probabilities)
    np.testing.assert_array_equal(scores[np.arange(50), labels], probabilities)
    ask = library(path)
    for text, row in zip(texts, scores, strict=True):
        theirs = {label: probability for probability, label in ask(text, 300)}
        for label, probability in zip(model.labels, row.tolist(), strict=True):
            if label in theirs:  # those below 1e-5 it leaves out
                assert probability == pytest.approx(theirs[label], abs=TOLERANCE)


def test_nulls_slices_and_spans(trained):
    model = load_model(trained(loss="hs", minn=2, maxn=4), "")
    texts = pa.array(["the barge", None, "o barco saiu", "баржа"], pa.large_string())
    labels, probabilities = predict(model, texts)
    assert [model.labels[label][-2:] for label in labels[[0, 2, 3]]] == ["en", "pt", "ru"]
    alone = predict(model, pa.array([""]))
    assert (labels[1], probabilities[1]) == (alone[0][0], alone[1][0])
    for kind in (pa.string(), pa.large_string()):
        part = predict(model, texts.cast(kind).slice(2, 1))
        assert (part[0][0], part[1][0]) == (labels[2], probabilities[2])
    assert len(predict(model, texts.slice(0, 0))[0]) == 0
    data = np.frombuffer(b"the barge\n\no barco saiu", np.uint8)
    spans = predict_spans(model, data, np.array([0, 11]), np.array([9, 23]))
    np.testing.assert_array_equal(spans[0], labels[[0, 2]])
    np.testing.assert_array_equal(spans[1], probabilities[[0, 2]])


def test_the_tree_of_hierarchical_softmax():
    from curate.text.fasttext_model import _tree

    left, right = _tree((8, 4, 2, 1))  # Huffman: 1 with 2, that with 4, that with 8
    assert left.tolist() == [-1, -1, -1, -1, 3, 4, 5]
    assert right.tolist() == [-1, -1, -1, -1, 2, 1, 0]


def test_what_a_file_says_of_itself(trained):
    file = read_model_file(trained(loss="hs", minn=2, maxn=4))
    assert set(file.labels) == {"__label__en", "__label__pt", "__label__ru", "__label__zh"}
    assert file.label_counts == tuple(sorted(file.label_counts, reverse=True))
    assert sum(file.label_counts) == len(SENTENCES)
    assert (file.loss, file.min_chars, file.max_chars, file.buckets, file.num_kept) == (
        HIERARCHICAL_SOFTMAX,
        2,
        4,
        5000,
        -1,
    )
    assert "углём".encode() in file.words
    pruned = read_model_file(trained(**KINDS["pruned"]))
    assert len(pruned.words) + pruned.num_kept == 300


def test_a_file_cut_short_is_refused_wherever_it_ends(trained, tmp_path):
    whole = Path(trained(**KINDS["pruned"])).read_bytes()
    cut = tmp_path / "cut.ftz"
    for size in sorted({*range(0, len(whole), 997), *range(120), len(whole) - 1}):
        cut.write_bytes(whole[:size])
        with pytest.raises(
            InputError, match=r"cut\.ftz: this is no fastText model that can be used: .*Name a supervised"
        ):
            load_model(str(cut), f"{size} bytes")


@pytest.mark.parametrize(
    ("offset", "form", "value", "message"),
    [
        (0, "i", 1, "does not begin as one does"),
        (4, "i", 13, "version 13; 11 and 12 are known"),
        (8 + 4 * 6, "i", 5, "loss 5 is unknown"),
        (8 + 4 * 7, "i", 1, "word vectors and no classifier"),
        (8 + 4 * 8, "i", 0, "n-grams in 0 buckets"),
        (8, "i", 11, "matrices have other sizes"),
        (64 + 4, "i", 3, "dictionary has .* words and 4 labels, where it states others"),
    ],
)
def test_damaged_numbers_are_refused(trained, tmp_path, offset, form, value, message):
    path = tmp_path / "damaged.bin"
    shutil.copy(trained(loss="hs", minn=2, maxn=4), path)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(struct.pack("<" + form, value))
    with pytest.raises(InputError, match=message):
        read_model_file(str(path))


def test_word_vectors_are_no_classifier(tmp_path):
    import fasttext

    data = tmp_path / "text.txt"
    data.write_text("the barge left the town\n" * 20)
    fasttext.train_unsupervised(str(data), dim=4, minCount=1, bucket=100, thread=1, verbose=0).save_model(
        str(tmp_path / "vectors.bin")
    )
    with pytest.raises(InputError, match="word vectors and no classifier"):
        load_model(str(tmp_path / "vectors.bin"), "")
    with pytest.raises(InputError, match=r"absent\.bin: the model cannot be read: No such file"):
        load_model(str(tmp_path / "absent.bin"), "")


def test_pruned_buckets_must_be_buckets(trained, tmp_path):
    path = tmp_path / "pruned.ftz"
    shutil.copy(trained(**KINDS["pruned"]), path)
    file = read_model_file(str(path))
    for place, value in ((file.kept_buckets, 5000), (file.kept_buckets + 4, file.num_kept)):
        before = path.read_bytes()
        with path.open("r+b") as opened:
            opened.seek(place)
            opened.write(struct.pack("<i", value))
        with pytest.raises(InputError, match="keeps a bucket that it does not have"):
            load_model(str(path), f"{place}")
        path.write_bytes(before)


def test_a_text_gives_the_same_beside_any_other(trained):
    model = load_model(trained(**KINDS["softmax, trigrams and subwords"]), "")
    texts = [text for _, text in sentences(3, 40)]
    together = predict(model, pa.array(texts))
    for row, text in enumerate(texts):
        label, probability = predict(model, pa.array([text]))
        assert (label[0], probability[0]) == (together[0][row], together[1][row])


VECTORS = {
    "skip-gram, subwords": {"model": "skipgram"},
    "skip-gram, words alone": {"model": "skipgram", "minn": 0, "maxn": 0},
    "CBOW, short subwords": {"model": "cbow", "minn": 1, "maxn": 3},
    "classifier": {"minn": 2, "maxn": 4, "wordNgrams": 2},
    "classifier, pruned": {"minn": 2, "maxn": 4, "quantise": {"cutoff": 300, "qnorm": True}},
}


@pytest.mark.parametrize("kind", VECTORS)
def test_embeddings_are_those_of_the_library(trained, tmp_path, kind):
    import fasttext

    settings = VECTORS[kind]
    if "model" in settings:
        (tmp_path / "text.txt").write_text("".join(text + "\n" for _, text in SENTENCES), encoding="utf-8")
        base = {"dim": 10, "epoch": 5, "minCount": 2, "thread": 1, "verbose": 0, "bucket": 5000}
        path = str(tmp_path / "vectors.bin")
        fasttext.train_unsupervised(str(tmp_path / "text.txt"), **(base | settings)).save_model(path)
    else:
        path = trained(**settings)
    texts = [text for _, text in SENTENCES[:200]] + [text for text in AWKWARD if "\0" not in text] + [None]
    reference = fasttext.load_model(path)
    want = np.array([reference.get_sentence_vector((text or "").replace("\n", " ")) for text in texts])
    got = embed(load_model(path, kind, only_classifier=False), pa.array(texts, pa.large_string()))
    assert got.shape == (len(texts), 10)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-7 * np.abs(want).max() if "pruned" not in kind else 3e-6)
    assert np.abs(want[:200]).max(axis=1).min() > 0
    assert [bool(row.any()) for row in got] == [bool(row.any()) for row in want]  # what is unknown has no direction
    # more words than are remembered at once, in one call and text by text
    many = pa.array([" ".join(f"w{number + 50 * row}" for number in range(50)) for row in range(400)])
    model = load_model(path, kind, only_classifier=False)
    alone = np.concatenate([embed(model, many.slice(row, 1)) for row in range(0, 400, 7)])
    assert np.array_equal(embed(model, many)[::7], alone)
