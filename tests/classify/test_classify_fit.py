"""The fitted model is fastText's: its library reads the file and agrees; the bytes are the same wherever they are made."""

from __future__ import annotations

import hashlib
import math
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from curate.classify.fit import END, Examples, Model, Vocabulary, fit, tokens_of, word_hash, write_model
from curate.classify.settings import FastText

ROOT = Path(__file__).resolve().parents[2]
GOOD = "the lock keeper wrote the toll in a green book and the barge left the town before noon".split()
BAD = "buy now cheap best price free shipping click here for the great offer of the day".split()


def texts(count: int, seed: int = 0) -> list[tuple[int, str]]:
    chance = random.Random(seed)
    return [(row % 2, " ".join(chance.choices((BAD, GOOD)[row % 2], k=chance.randint(4, 12)))) for row in range(count)]


def fitted(rows: list[tuple[int, str]], settings: FastText, seed: int = 3) -> tuple[Model, Vocabulary, Examples]:
    tokens = [tokens_of(text) for _, text in rows]
    vocabulary = Vocabulary.of(Counter(word for one in tokens for word in one), settings.min_count)
    numbers = [[vocabulary.words[word] for word in one] for one in tokens]
    examples = Examples(
        np.concatenate(numbers).astype(np.int32),
        np.cumsum([len(one) for one in numbers]),
        np.array([label for label, _ in rows], np.int32),
    )
    return fit(examples, vocabulary, 2, settings, seed), vocabulary, examples


def write(path: Path, rows: list[tuple[int, str]], settings: FastText, seed: int = 3) -> Path:
    model, vocabulary, _ = fitted(rows, settings, seed)
    write_model(path, model, vocabulary, [("bad", len(rows) // 2), ("good", len(rows) // 2)], settings)
    return path


def test_word_hash_is_fnv_1a_over_signed_bytes():
    # The FNV reference vectors (Noll): "" and "a", 32 bits; above 127 fastText extends the sign: 0xC3 acts as 0xFFFFFFC3.
    assert word_hash("") == 0x811C9DC5
    assert word_hash("a") == 0xE40C292C
    assert word_hash("foobar") == 0xBF9CF968
    one = ((0x811C9DC5 ^ 0xFFFFFFC3) * 16777619) % 2**32
    assert word_hash("é") == ((one ^ 0xFFFFFFA9) * 16777619) % 2**32


def test_tokens_end_with_the_mark_and_hold_no_label():
    assert tokens_of("a  b\tc") == ["a", "b", "c", END]
    assert tokens_of("__label__x a") == ["a", END]
    assert tokens_of("a </s> b") == ["a", END]  # what stands behind the mark is never read in use, either
    assert tokens_of("") == [END]


def test_vocabulary_is_ordered_by_count_then_word():
    vocabulary = Vocabulary.of(Counter({"b": 2, "a": 2, "c": 3, "d": 1}), min_count=2)
    assert list(vocabulary.words) == ["c", "a", "b", "d"]
    assert vocabulary.counts.tolist() == [3, 2, 2, 1]
    assert vocabulary.num_words == 3


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_the_library_reads_the_file_and_gives_the_models_probabilities(tmp_path, ngrams):
    import fasttext

    settings = FastText(word_ngrams=ngrams, dim=8, bucket=100, min_count=2, lr=0.5)
    rows = texts(200)
    model, vocabulary, _ = fitted(rows, settings)
    path = write(tmp_path / "model.bin", rows, settings)
    library = fasttext.load_model(str(path))
    assert library.get_labels() == ["__label__bad", "__label__good"]
    assert library.get_words() == list(vocabulary.words)[: vocabulary.num_words]
    for _, text in [*rows[:20], (0, "unseen words only"), (0, "the é barge")]:
        hashes = [word_hash(word) for word in tokens_of(text)]
        known = [
            vocabulary.words[word]
            for word in tokens_of(text)
            if vocabulary.words.get(word, 10**9) < vocabulary.num_words
        ]
        signed = [value - 2**32 if value >= 2**31 else value for value in hashes]
        buckets = []
        for place in range(len(signed)):
            value = signed[place] % 2**64
            for other in signed[place + 1 : place + ngrams]:
                value = (value * 116049371 + other) % 2**64
                buckets.append(vocabulary.num_words + value % 100)
        hidden = model.vectors[[*known, *buckets]].astype(np.float64).mean(axis=0)
        powers = np.exp(model.outputs.astype(np.float64) @ hidden)
        found = {label: share for share, label in library.f.predict(text + "\n", 2, 0.0, "strict")}
        for label, share in zip(("bad", "good"), powers / powers.sum(), strict=True):
            assert found[f"__label__{label}"] == pytest.approx(share + 1e-5, abs=2e-5)


def test_it_learns_what_can_be_learned(tmp_path):
    model, _, _ = fitted(texts(400), FastText(dim=8, bucket=100, lr=0.5))
    assert model.loss < 0.05
    same = [(row % 2, "the same words on both sides") for row in range(400)]
    assert fitted(same, FastText(dim=8, bucket=100))[0].loss == pytest.approx(math.log(2), abs=0.01)  # a coin's


def test_one_step_by_hand():
    """One example, one word and the mark, two classes, dim 2: the gradient of the cross entropy, on paper.

    Outputs start at 0, so both probabilities are 1/2. The rate of the only step is lr * (1 - 0) = 1. The class's output moves
    by +1/2 hidden, the other's by -1/2 hidden, and the vectors not at all: their gradient is made of outputs before the step.
    """
    settings = FastText(word_ngrams=1, dim=2, lr=1.0, epochs=1, min_count=1)
    rows = [(1, "barge")]
    tokens = tokens_of("barge")
    vocabulary = Vocabulary.of(Counter(tokens), 1)
    examples = Examples(
        np.array([vocabulary.words[word] for word in tokens], np.int32), np.array([2]), np.array([1], np.int32)
    )
    model = fit(examples, vocabulary, 2, settings, seed=3)
    hidden = model.vectors.mean(axis=0)
    assert model.vectors.shape == (2, 2)
    assert np.abs(model.vectors).max() <= 0.5  # 1 / dim
    np.testing.assert_allclose(model.outputs, [-hidden / 2, hidden / 2], rtol=1e-6)
    assert model.loss == pytest.approx(math.log(2))
    assert rows


def test_start_values_depend_on_the_seed_and_fill_every_row():
    settings = FastText(dim=16, bucket=1000, epochs=1, lr=1e-6)
    one, *_ = fitted(texts(20), settings, seed=1)
    other, *_ = fitted(texts(20), settings, seed=2)
    assert not np.array_equal(one.vectors, other.vectors)
    assert (np.abs(one.vectors).max(axis=1) > 0).all()  # the library leaves nine tenths of them to chance
    assert float(np.abs(one.vectors).max()) <= 1 / 16 + 1e-6
    assert float(one.vectors.mean()) == pytest.approx(0, abs=0.002)
    assert float(one.vectors.std()) == pytest.approx(1 / 16 / math.sqrt(3), rel=0.02)  # of a uniform distribution


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_classify_fit import FastText, texts, write
ballast = [bytearray(1000 + 7 * number) for number in range(int(sys.argv[3]))]
del ballast[::2]
write(Path(sys.argv[2]), texts(300), FastText(dim=16, bucket=500))
"""


def test_the_same_bytes_in_other_processes_and_on_other_memory(tmp_path):
    digests = set()
    for number, settings in enumerate(
        ({}, {"MALLOC_PERTURB_": "173"}, {"PYTHONHASHSEED": "7", "MALLOC_ARENA_MAX": "1"})
    ):
        path = tmp_path / f"{number}.bin"
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(Path(__file__).parent), str(path), str(3000 * number)],
            env=os.environ | {"PYTHONPATH": str(ROOT)} | settings,
            check=True,
            timeout=300,
        )
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1
