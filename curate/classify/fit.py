"""Fitting a fastText classifier: vocabulary, stochastic gradient descent in one thread, the model file.

The model and its file are fastText's (Joulin et al. 2016, arXiv:1607.01759): its library reads the file and gives the
same probabilities. The fitting is ours because the library's is not reproducible: with one thread, release 0.9.3 gives
start values to a tenth of the vectors and leaves the rest to whatever the memory held, so that the same data gave two
models with and without MALLOC_PERTURB_. Here every start value is a hash of (seed, place), sums run in one fixed order, and
the order of the examples is the caller's.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from curate.classify.settings import FastText
from curate.compiled import compiled
from curate.text.oneline import words_of

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

END = "</s>"  # fastText's word for the end of a line: part of every example, in training and in use
LABEL = "__label__"  # a word that begins so would be taken for a label
_MAGIC, _FILE_VERSION = 793712314, 12
_SOFTMAX, _SUPERVISED = 3, 3
_UPDATE_RATE = 100  # of fastText's thread; stored in the file, of no effect here
_SAMPLING = 1e-4  # likewise
_WORD, _LABEL = 0, 1


def tokens_of(line: str) -> list[str]:
    """Return what fastText reads in a line: its words up to an end mark, none that looks like a label, and the end mark."""
    words = words_of(line)
    if END in words:
        del words[words.index(END) :]
    return [*(word for word in words if not word.startswith(LABEL)), END]


def word_hash(word: str) -> int:
    """Return fastText's 32-bit hash of a word: FNV-1a over its UTF-8 bytes, each read as a signed number."""
    value = 2166136261
    for byte in word.encode("utf-8", "surrogatepass"):
        value = (value ^ (byte | 0xFFFFFF00 if byte > 127 else byte)) * 16777619 & 0xFFFFFFFF
    return value


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All distinct words of the examples, the most frequent first, ties in order of the word.

    Attributes:
        words: Word to its number.
        counts: How often each occurs, shape (distinct,).
        num_words: The first so many have a vector; the others only stand in n-grams.
        hashes: Of each word, shape (distinct,), uint32.
    """

    words: Mapping[str, int]
    counts: npt.NDArray[np.int64]
    num_words: int
    hashes: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, counts: Counter[str], min_count: int) -> Vocabulary:
        """Number the words of a count."""
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        numbers = np.array([counts[word] for word in ordered], np.int64)
        return cls(
            {word: number for number, word in enumerate(ordered)},
            numbers,
            int((numbers >= min_count).sum()),
            np.array([word_hash(word) for word in ordered], np.uint32),
        )


@dataclass(frozen=True, slots=True)
class Examples:
    """The training examples in the order in which they are seen.

    Attributes:
        tokens: Numbers of their words, one example after another, shape (tokens,).
        ends: Where each ends, shape (examples,).
        labels: Number of the class of each, shape (examples,).
    """

    tokens: Ints
    ends: npt.NDArray[np.int64]
    labels: Ints


@dataclass(frozen=True, slots=True)
class Model:
    """A fitted model.

    Attributes:
        vectors: Of words, then of buckets, shape (num_words + bucket, dim).
        outputs: Of classes, shape (classes, dim).
        loss: Mean cross entropy in nats of the last epoch's examples, each before its step.
    """

    vectors: Floats
    outputs: Floats
    loss: float


def fit(examples: Examples, vocabulary: Vocabulary, num_classes: int, settings: FastText, seed: int) -> Model:
    """Fit by stochastic gradient descent, one example at a time.

    The learning rate falls linearly over the words seen, as fastText's does.

    Args:
        examples: In the order in which every epoch sees them.
        vocabulary: Of their words.
        num_classes: Classes; labels are numbers below.
        settings: See `FastText`.
        seed: Of the start values, uniform in [-1/dim, 1/dim].
    """
    bucket = settings.bucket if settings.word_ngrams > 1 else 0
    vectors = np.empty((vocabulary.num_words + bucket, settings.dim), np.float32)
    _start(vectors.reshape(-1), np.uint64(seed % 2**64), 1.0 / settings.dim)
    outputs = np.zeros((num_classes, settings.dim), np.float32)
    loss = _descend(
        examples.tokens,
        examples.ends,
        examples.labels,
        vocabulary.hashes,
        vocabulary.num_words,
        vectors,
        outputs,
        settings.lr,
        settings.epochs,
        settings.word_ngrams,
        bucket,
    )
    return Model(vectors, outputs, float(loss))


@compiled
def _start(values: Floats, seed: np.uint64, bound: float) -> None:
    """Fill with uniform numbers: splitmix64 (Steele, Lea and Flood 2014) of the place, started at the seed."""
    for place in range(values.size):
        z = seed + np.uint64(place + 1) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        values[place] = np.float32(bound * (2.0 * (float(z >> np.uint64(11)) / 9007199254740992.0) - 1.0))


@compiled
def _features(
    tokens: Any, start: int, stop: int, hashes: Any, num_words: int, ngrams: int, bucket: int, out: Any
) -> int:
    """Write the rows of an example: its words, then its hashed n-grams (dictionary.cc, addWordNgrams); return how many."""
    count = 0
    for place in range(start, stop):
        if tokens[place] < num_words:
            out[count] = tokens[place]
            count += 1
    if ngrams > 1:
        for place in range(start, stop):
            # Hashes are kept as signed 32-bit numbers there: they are extended by their sign.
            value = np.uint64(np.int64(np.int32(hashes[tokens[place]])))
            for other in range(place + 1, min(stop, place + ngrams)):
                value = value * np.uint64(116049371) + np.uint64(np.int64(np.int32(hashes[tokens[other]])))
                out[count] = num_words + np.int64(value % np.uint64(bucket))
                count += 1
    return count


@compiled
def _descend(
    tokens: Any,
    ends: Any,
    labels: Any,
    hashes: Any,
    num_words: int,
    vectors: Any,
    outputs: Any,
    rate: float,
    epochs: int,
    ngrams: int,
    bucket: int,
) -> float:
    dim, classes = vectors.shape[1], outputs.shape[0]
    longest = 0
    start = 0
    for example in range(ends.size):
        longest = max(longest, ends[example] - start)
        start = ends[example]
    rows = np.empty(longest * ngrams, np.int64)
    hidden, gradient = np.empty(dim, np.float32), np.empty(dim, np.float32)
    shares = np.empty(classes, np.float64)
    total = float(epochs) * tokens.size
    seen = 0.0
    loss = 0.0
    for _ in range(epochs):
        start = 0
        loss = 0.0
        for example in range(ends.size):
            stop = ends[example]
            count = _features(tokens, start, stop, hashes, num_words, ngrams, bucket, rows)
            step = rate * (1.0 - seen / total)
            seen += stop - start
            start = stop
            if count == 0:
                continue
            hidden[:] = 0
            for row in range(count):
                at = rows[row]
                for place in range(dim):
                    hidden[place] += vectors[at, place]
            hidden *= np.float32(1.0 / count)
            highest = -np.inf
            for label in range(classes):
                value = 0.0
                for place in range(dim):
                    value += float(outputs[label, place]) * float(hidden[place])
                shares[label] = value
                highest = max(highest, value)
            whole = 0.0
            for label in range(classes):
                shares[label] = np.exp(shares[label] - highest)
                whole += shares[label]
            loss -= np.log(shares[labels[example]] / whole)
            gradient[:] = 0
            for label in range(classes):
                share = shares[label] / whole
                pull = np.float32(step * ((1.0 if label == labels[example] else 0.0) - share))
                for place in range(dim):
                    gradient[place] += pull * outputs[label, place]
                    outputs[label, place] += pull * hidden[place]
            gradient *= np.float32(1.0 / count)
            for row in range(count):
                at = rows[row]
                for place in range(dim):
                    vectors[at, place] += gradient[place]
    return float(loss / max(1, ends.size))


def write_model(
    path: Path, model: Model, vocabulary: Vocabulary, labels: Sequence[tuple[str, int]], settings: FastText
) -> None:
    """Write a fastText model file.

    Args:
        path: The file.
        model: The fitted model.
        vocabulary: Its words.
        labels: Name and number of examples of each class, in order of their numbers.
        settings: As fitted.
    """
    bucket = settings.bucket if settings.word_ngrams > 1 else 0
    words = list(vocabulary.words)[: vocabulary.num_words]
    head = struct.pack(
        "<2i12id",
        _MAGIC,
        _FILE_VERSION,
        settings.dim,
        5,  # ws, neg: of the unsupervised models
        settings.epochs,
        settings.min_count,
        5,
        settings.word_ngrams,
        _SOFTMAX,
        _SUPERVISED,
        bucket,
        0,  # minn, maxn: no n-grams of characters
        0,
        _UPDATE_RATE,
        _SAMPLING,
    )
    num_tokens = int(vocabulary.counts.sum()) + sum(count for _, count in labels)
    sizes = struct.pack("<3i2q", len(words) + len(labels), len(words), len(labels), num_tokens, -1)
    with path.open("wb") as file:
        file.write(head + sizes)
        file.writelines(_entries(zip(words, vocabulary.counts.tolist(), strict=False), _WORD))
        file.writelines(_entries(((LABEL + name, count) for name, count in labels), _LABEL))
        for matrix in (model.vectors, model.outputs):
            file.write(struct.pack("<?2q", False, *matrix.shape))  # not quantised
            matrix.astype("<f4", copy=False).tofile(file)


def _entries(entries: Iterable[tuple[str, int]], kind: int) -> Iterable[bytes]:
    for word, count in entries:
        yield word.encode("utf-8", "surrogatepass") + b"\0" + struct.pack("<qb", count, kind)
