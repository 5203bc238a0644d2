"""Inference of supervised fastText models over Arrow buffers, compiled: the labels and probabilities of the library.

What fastText does for a line is done here for each text of a column, in the same order and precision: a token's word and
character n-grams (bag of subwords, arXiv:1607.04606, section 3.2), word n-grams by hash, the mean of their vectors, and
hierarchical softmax, softmax or independent logistic losses over the labels. Quantised matrices (arXiv:1612.03651) are
written out once; sums then differ from the library's in the last bits of float32, as it multiplies by a length in the sum.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from curate.errors import InputError
from curate.text.fasttext_file import (
    CODES,
    HIERARCHICAL_SOFTMAX,
    Matrix,
    ModelFile,
    Quantiser,
    read_model_file,
)
from curate.text.fasttext_kernels import (
    NO_LABEL,
    Weights,
    fill_slots,
    hide_all,
    mean_of_words,
    predict_best,
    score_all,
)

if TYPE_CHECKING:
    import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Uint64s = npt.NDArray[np.uint64]
Float32s = npt.NDArray[np.float32]

_UNSEEN_COUNT = 10**15  # fastText's count of a tree's node before it has one
_LINE = 64  # bytes of a cache line


@dataclass(frozen=True, slots=True)
class FastTextModel:
    """A model that is ready to predict.

    Attributes:
        path: Its file.
        is_classifier: Whether it was trained with labels; else it holds word vectors and embeds only.
        labels: As the file has them ("__label__en"), by number.
        weights: All else.
    """

    path: str
    is_classifier: bool
    labels: tuple[str, ...]
    weights: Weights


# -- what callers use --------------------------------------------------------------------------------------------------

__all__ = [
    "NO_LABEL",
    "FastTextModel",
    "embed",
    "load_model",
    "predict",
    "predict_spans",
    "score",
    "score_spans",
    "text_spans",
]


@lru_cache(maxsize=4)
def load_model(path: str, digest: str, *, only_classifier: bool = True) -> FastTextModel:
    """Read a fastText model, once per process.

    Plain matrices stay in the file's pages, which worker processes share; quantised ones are written out (4 bytes times
    rows times columns).

    Args:
        path: A local file, supervised: hierarchical softmax, softmax, negative sampling or one-vs-all; quantised or not.
        digest: sha256 of the file, so that another file of that name is read anew.
        only_classifier: Whether a model of word vectors is refused: it can embed and cannot predict.

    Raises:
        InputError: If it cannot be read, is damaged, or is no supervised fastText model where one is wanted.
    """
    del digest
    file = read_model_file(path, only_classifier=only_classifier)
    with Path(path).open("rb") as opened:
        data: Bytes = np.frombuffer(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    pool = b"".join(file.words) + b"".join(label.encode() for label in file.labels)
    sizes = [len(word) for word in file.words] + [len(label.encode()) for label in file.labels]
    word_bytes: Bytes = np.frombuffer(pool, np.uint8)
    word_starts: Int64s = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64)
    slots = 1 << max(4, (2 * len(sizes)).bit_length())
    slot_hashes, slot_words = np.zeros(slots, np.uint32), np.full(slots, -1, np.int32)
    fill_slots(word_bytes, word_starts, slot_hashes, slot_words)
    inputs = _matrix(file.inputs, data)
    live, ranks = np.zeros(0, np.uint64), np.zeros(0, np.int32)
    if file.num_kept >= 0:
        inputs, live, ranks = _in_order_of_buckets(file, data, inputs)
    left, right = (_NO_TREE, _NO_TREE)
    if file.is_classifier and file.loss == HIERARCHICAL_SOFTMAX:
        left, right = _tree(file.label_counts)
    weights = Weights(
        inputs=inputs,
        outputs=_matrix(file.outputs, data),
        slot_hashes=slot_hashes,
        slot_words=slot_words,
        word_starts=word_starts,
        word_bytes=word_bytes,
        live=live,
        ranks=ranks,
        left=left,
        right=right,
        end_word=file.words.index(b"</s>") if b"</s>" in file.words else -1,
        num_words=len(file.words),
        buckets=file.buckets,
        min_chars=file.min_chars,
        max_chars=file.max_chars,
        word_ngrams=file.word_ngrams,
        loss=file.loss,
    )
    return FastTextModel(path, file.is_classifier, file.labels, weights)


def predict(model: FastTextModel, texts: pa.Array) -> tuple[Int32s, Float32s]:
    """Return the best label of each text and its probability, as fastText's `predict(text, k=1)` does.

    A text is one line: line ends count as spaces, and the mark of a line's end stands behind it. Null is empty.

    Args:
        model: Of `load_model`.
        texts: An Arrow array of strings.

    Returns:
        Numbers of labels, or NO_LABEL where the model knows nothing of the text, shape (texts,); and the probabilities,
        0 there, shape (texts,).
    """
    data, starts, ends = text_spans(texts)
    return predict_spans(model, data, starts, ends)


def predict_spans(model: FastTextModel, data: Bytes, starts: Int64s, ends: Int64s) -> tuple[Int32s, Float32s]:
    """Return label and probability of each span of bytes, as `predict` does of texts.

    Args:
        model: Of `load_model`.
        data: UTF-8 bytes.
        starts: First byte of each span, shape (spans,).
        ends: The one behind its last, shape (spans,).
    """
    labels = np.empty(len(starts), np.int32)
    probabilities = np.empty(len(starts), np.float32)
    predict_best(data, starts, ends, model.weights, labels, probabilities)
    return labels, probabilities


def score_spans(model: FastTextModel, data: Bytes, starts: Int64s, ends: Int64s) -> Float32s:
    """Return the probability of every label for each span, shape (spans, labels); 0 where the model knows nothing.

    Args:
        model: Of `load_model`.
        data: UTF-8 bytes.
        starts: First byte of each span, shape (spans,).
        ends: The one behind its last, shape (spans,).
    """
    scores = np.zeros((len(starts), len(model.labels)), np.float32)
    score_all(data, starts, ends, model.weights, scores)
    return scores


def score(model: FastTextModel, texts: pa.Array) -> Float32s:
    """Return the probability of every label for each text, shape (texts, labels); 0 where the model knows nothing."""
    return score_spans(model, *text_spans(texts))


def embed(model: FastTextModel, texts: pa.Array) -> Float32s:
    """Return the vector of each text as fastText's `get_sentence_vector` gives it, shape (texts, dim); 0 where nothing is known.

    Of a classifier the mean vector that it predicts from; of word vectors the mean of the words' vectors at length 1, each
    the mean of its own vector and those of its character n-grams. Line ends count as spaces, null is empty.

    Args:
        model: Of `load_model` with only_classifier=False.
        texts: An Arrow array of strings.
    """
    data, starts, ends = text_spans(texts)
    vectors = np.zeros((len(starts), model.weights.inputs.shape[1]), np.float32)
    if model.is_classifier:
        hide_all(data, starts, ends, model.weights, vectors)
    else:
        mean_of_words(data, starts, ends, model.weights, vectors)
    return vectors


def text_spans(texts: pa.Array) -> tuple[Bytes, Int64s, Int64s]:
    """Return the bytes under an Arrow array of strings, without a copy, and where each text starts and ends; null is empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = texts.cast(pa.large_string())
    if texts.null_count:
        texts = pc.fill_null(texts, "")
    _, places, data = texts.buffers()
    if places is None or not len(texts):
        return np.zeros(1, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    offsets = np.frombuffer(places, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    taken: Bytes = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return taken, offsets[:-1], offsets[1:]


# -- loading -----------------------------------------------------------------------------------------------------------

_NO_TREE = np.zeros(0, np.int32)


def _floats(data: Bytes, offset: int, count: int) -> Float32s:
    """Return float32 numbers of the file where they lie. They need not be aligned: loads of any place are fine here."""
    return np.frombuffer(data, np.float32, count, offset)


def _matrix(matrix: Matrix, data: Bytes) -> Float32s:
    """Return a matrix of the file, shape (rows, columns); read-only either way, so that the kernels have one type."""
    rows, columns = matrix.rows, matrix.columns
    if matrix.quantiser is None:
        return _floats(data, matrix.offset, rows * columns).reshape(rows, columns)
    found = _aligned(rows, columns)
    quantiser = matrix.quantiser
    codes = data[matrix.offset : matrix.offset + rows * quantiser.parts].reshape(rows, quantiser.parts)
    for part in range(quantiser.parts):
        centroids = _centroids(quantiser, part, data)
        start = part * quantiser.part_dim
        found[:, start : start + centroids.shape[1]] = centroids[codes[:, part]]
    if matrix.norms is not None:
        lengths = _centroids(matrix.norms, 0, data)[:, 0]
        found *= lengths[data[matrix.norm_codes : matrix.norm_codes + rows]][:, None]
    found.flags.writeable = False
    return found


def _centroids(quantiser: Quantiser, part: int, data: Bytes) -> Float32s:
    """Return the centroids of a part, shape (CODES, numbers of the part)."""
    width = quantiser.last_dim if part == quantiser.parts - 1 else quantiser.part_dim
    offset = quantiser.centroids + 4 * part * CODES * quantiser.part_dim
    return _floats(data, offset, CODES * width).reshape(CODES, width)


def _in_order_of_buckets(file: ModelFile, data: Bytes, inputs: Float32s) -> tuple[Float32s, Uint64s, Int32s]:
    """Return the input matrix of a pruned model with its buckets in order, and `live` and `ranks` of Weights."""
    pairs = np.frombuffer(data, np.int32, 2 * file.num_kept, file.kept_buckets).reshape(-1, 2)
    for column, most in zip(pairs.T, (file.buckets, file.num_kept), strict=True):
        if file.num_kept and not (column.min() >= 0 and column.max() < most):
            raise InputError(
                file.path, "the model keeps a bucket that it does not have: it is damaged.", "Fetch it again."
            )
    rows = np.full(file.buckets, -1, np.int64)
    rows[pairs[:, 0]] = pairs[:, 1]
    live = np.append(rows >= 0, np.zeros(-len(rows) % 64, np.bool_))
    ordered = _aligned(len(file.words) + int(live.sum()), inputs.shape[1])
    ordered[: len(file.words)] = inputs[: len(file.words)]
    ordered[len(file.words) :] = inputs[len(file.words) + rows[rows >= 0]]
    ordered.flags.writeable = False
    before = np.concatenate(([0], np.cumsum(live.reshape(-1, 64).sum(axis=1))))[:-1]
    return ordered, np.packbits(live, bitorder="little").view(np.uint64), before.astype(np.int32)


def _aligned(rows: int, columns: int) -> Float32s:
    """Return an empty matrix at a cache line's start: 16 columns of a row are one line then, not parts of two."""
    room = np.empty(4 * rows * columns + _LINE, np.uint8)
    start = -room.ctypes.data % _LINE
    return room[start : start + 4 * rows * columns].view(np.float32).reshape(rows, columns)


def _tree(counts: tuple[int, ...]) -> tuple[Int32s, Int32s]:
    """Return left and right child of each node of the tree over labels that come in falling frequency.

    A Huffman tree by two queues, leaves from the rarest and inner nodes in the order of their making, as fastText builds
    it: of equal counts the inner node goes first.
    """
    leaves = len(counts)
    nodes = 2 * leaves - 1
    left, right = np.full(nodes, -1, np.int32), np.full(nodes, -1, np.int32)
    total = [*counts, *[_UNSEEN_COUNT] * (leaves - 1)]
    leaf, inner = leaves - 1, leaves
    for node in range(leaves, nodes):
        children = []
        for _ in range(2):
            if leaf >= 0 and total[leaf] < total[inner]:
                children.append(leaf)
                leaf -= 1
            else:
                children.append(inner)
                inner += 1
        left[node], right[node] = children
        total[node] = total[children[0]] + total[children[1]]
    return left, right
