"""Inference of supervised fastText models over Arrow buffers, compiled: the labels and probabilities of the library.

What fastText does for a line is done here for each text of a column, in the same order and precision: a token's word and
character n-grams (bag of subwords, arXiv:1607.04606, section 3.2), word n-grams by hash, the mean of their vectors, and
hierarchical softmax, softmax or independent logistic losses over the labels. Quantised matrices (arXiv:1612.03651) are
written out once; sums then differ from the library's in the last bits of float32, as it multiplies by a length in the sum.
"""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from curate.compiled import compiled
from curate.errors import InputError
from curate.text.fasttext_file import (
    CODES,
    HIERARCHICAL_SOFTMAX,
    LABEL_PREFIX,
    SOFTMAX,
    Matrix,
    ModelFile,
    Quantiser,
    read_model_file,
)

if TYPE_CHECKING:
    import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Uint32s = npt.NDArray[np.uint32]
Uint64s = npt.NDArray[np.uint64]
Float32s = npt.NDArray[np.float32]

NO_LABEL = -1  # of a text in which the model knows nothing

_HASH_START = np.uint32(2166136261)  # FNV-1a
_HASH_PRIME = np.uint32(16777619)
_SIGN = np.uint32(0xFFFFFF00)  # fastText hashes signed bytes
_WORD_NGRAM_PRIME = np.uint64(116049371)
_EPSILON = 1e-5  # fastText adds it before each logarithm
_NEVER = np.float32(-1e30)
_UNSEEN_COUNT = 10**15  # fastText's count of a tree's node before it has one
_SPACE = 0x20
_LESS, _GREATER, _SLASH, _SMALL_S = np.uint8(0x3C), np.uint8(0x3E), np.uint8(0x2F), np.uint8(0x73)
_PREFIX = np.frombuffer(LABEL_PREFIX.encode(), np.uint8)
_SIGMOID_STEPS, _SIGMOID_MOST = 512, 8  # fastText's table of the logistic function


class Weights(NamedTuple):  # compiled code takes a named tuple of arrays, not a dataclass
    """A model as the kernels read it.

    Attributes:
        inputs: Vectors of words, then of buckets, shape (rows, dim).
        outputs: Vectors of labels, or of inner nodes of the tree, shape (labels, dim).
        slot_hashes, slot_words: Open addressing: hash of a word, and its number or -1; both of a power of two's length.
            Labels stand behind the words: a token that is a label is no text.
        word_starts, word_bytes: Bytes of each word and label, one behind the other.
        live: One bit for each bucket that has a row, where the model is pruned; else empty.
        bucket_rows: Row behind the words of each bucket, where the model is pruned; else empty.
        left, right: Children of each node of the tree, -1 of a leaf, shape (2 * labels - 1,); else empty.
        num_words, buckets, min_chars, max_chars, word_ngrams, loss: See `ModelFile`.
    """

    inputs: Float32s
    outputs: Float32s
    slot_hashes: Uint32s
    slot_words: Int32s
    word_starts: Int64s
    word_bytes: Bytes
    live: Uint64s
    bucket_rows: Int32s
    left: Int32s
    right: Int32s
    num_words: int
    buckets: int
    min_chars: int
    max_chars: int
    word_ngrams: int
    loss: int


@dataclass(frozen=True, slots=True)
class FastTextModel:
    """A model that is ready to predict.

    Attributes:
        path: Its file.
        labels: As the file has them ("__label__en"), by number.
        weights: All else.
    """

    path: str
    labels: tuple[str, ...]
    weights: Weights


# -- what callers use --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def load_model(path: str, digest: str) -> FastTextModel:
    """Read a fastText classifier, once per process.

    Plain matrices stay in the file's pages, which worker processes share; quantised ones are written out (4 bytes times
    rows times columns).

    Args:
        path: A local file, supervised: hierarchical softmax, softmax, negative sampling or one-vs-all; quantised or not.
        digest: sha256 of the file, so that another file of that name is read anew.

    Raises:
        InputError: If it cannot be read, is damaged, or is no supervised fastText model.
    """
    del digest
    file = read_model_file(path)
    with Path(path).open("rb") as opened:
        data: Bytes = np.frombuffer(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    pool = b"".join(file.words) + b"".join(label.encode() for label in file.labels)
    sizes = [len(word) for word in file.words] + [len(label.encode()) for label in file.labels]
    word_bytes: Bytes = np.frombuffer(pool, np.uint8)
    word_starts: Int64s = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64)
    slots = 1 << max(4, (2 * len(sizes)).bit_length())
    slot_hashes, slot_words = np.zeros(slots, np.uint32), np.full(slots, -1, np.int32)
    _fill_slots(word_bytes, word_starts, slot_hashes, slot_words)
    live, bucket_rows = _kept_buckets(file, data)
    left, right = _tree(file.label_counts) if file.loss == HIERARCHICAL_SOFTMAX else (_NO_TREE, _NO_TREE)
    weights = Weights(
        inputs=_matrix(file.inputs, data),
        outputs=_matrix(file.outputs, data),
        slot_hashes=slot_hashes,
        slot_words=slot_words,
        word_starts=word_starts,
        word_bytes=word_bytes,
        live=live,
        bucket_rows=bucket_rows,
        left=left,
        right=right,
        num_words=len(file.words),
        buckets=file.buckets,
        min_chars=file.min_chars,
        max_chars=file.max_chars,
        word_ngrams=file.word_ngrams,
        loss=file.loss,
    )
    return FastTextModel(path, file.labels, weights)


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
    _predict_best(data, starts, ends, model.weights, labels, probabilities)
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
    _score_all(data, starts, ends, model.weights, scores)
    return scores


def score(model: FastTextModel, texts: pa.Array) -> Float32s:
    """Return the probability of every label for each text, shape (texts, labels); 0 where the model knows nothing."""
    return score_spans(model, *text_spans(texts))


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
    found = np.empty((rows, columns), np.float32)
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


def _kept_buckets(file: ModelFile, data: Bytes) -> tuple[Uint64s, Int32s]:
    """Return `live` and `bucket_rows` of Weights."""
    if file.num_kept < 0:
        return np.zeros(0, np.uint64), np.zeros(0, np.int32)
    pairs = np.frombuffer(data, np.int32, 2 * file.num_kept, file.kept_buckets).reshape(-1, 2)
    for column, most in zip(pairs.T, (file.buckets, file.num_kept), strict=True):
        if file.num_kept and not (column.min() >= 0 and column.max() < most):
            raise InputError(
                file.path, "the model keeps a bucket that it does not have: it is damaged.", "Fetch it again."
            )
    rows = np.full(file.buckets, -1, np.int32)
    rows[pairs[:, 0]] = pairs[:, 1]
    bits = np.packbits(np.append(rows >= 0, np.zeros(-len(rows) % 64, np.bool_)), bitorder="little")
    return bits.view(np.uint64), rows


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


# -- kernels -----------------------------------------------------------------------------------------------------------


@compiled
def _hashed(state: np.uint32, byte: np.uint8) -> np.uint32:
    value = np.uint32(byte)
    if byte >= 0x80:
        value |= _SIGN
    return np.uint32((state ^ value) * _HASH_PRIME)


@compiled
def _fill_slots(word_bytes: Bytes, word_starts: Int64s, slot_hashes: Uint32s, slot_words: Int32s) -> None:
    mask = len(slot_words) - 1
    for word in range(len(word_starts) - 1):
        state = _HASH_START
        for place in range(word_starts[word], word_starts[word + 1]):
            state = _hashed(state, word_bytes[place])
        slot = np.int64(state) & mask
        while slot_words[slot] >= 0:
            slot = (slot + 1) & mask
        slot_hashes[slot] = state
        slot_words[slot] = word


@compiled
def _word_number(
    token: Bytes, size: int, state: np.uint32, slots: tuple[Uint32s, Int32s], words: tuple[Int64s, Bytes]
) -> np.int64:
    """Return the number of the token that stands behind the first byte of `token`, or -1 if it is not in the dictionary."""
    hashes, numbers = slots
    starts, pool = words
    mask = len(numbers) - 1
    slot = np.int64(state) & mask
    while numbers[slot] >= 0:
        word = np.int64(numbers[slot])
        first = starts[word]
        if hashes[slot] == state and starts[word + 1] - first == size:
            index = 0
            while index < size and pool[first + index] == token[index + 1]:
                index += 1
            if index == size:
                return word
        slot = (slot + 1) & mask
    return np.int64(-1)


@compiled
def _bucket_row(bucket: np.uint64, live: Uint64s, rows: Int32s) -> np.int64:
    """Return the row, behind the words, of a bucket; -1 if it was pruned."""
    if not len(rows):
        return np.int64(bucket)
    if (live[bucket >> np.uint64(6)] >> (bucket & np.uint64(63))) & np.uint64(1):
        return np.int64(rows[bucket])
    return np.int64(-1)


@compiled
def _add_characters(
    token: Bytes,
    size: int,
    lengths: tuple[int, int],
    buckets: tuple[int, Uint64s, Int32s],
    vectors: Float32s,
    hidden: Float32s,
) -> int:
    """Add the vectors of the character n-grams of a token that stands between < and >; return how many there were.

    Args:
        token: The token between its marks.
        size: Bytes with the marks.
        lengths: Of the shortest and the longest n-gram, characters.
        buckets: Number of buckets, `live`, `bucket_rows`.
        vectors: Of the buckets.
        hidden: What they are added to.
    """
    shortest, longest = lengths
    number, live, rows = buckets
    modulus = np.uint32(number)
    found = 0
    for first in range(size):
        if token[first] & 0xC0 == 0x80:
            continue
        state = _HASH_START
        place, length = first, 1
        while place < size and length <= longest:
            state = _hashed(state, token[place])
            place += 1
            while place < size and token[place] & 0xC0 == 0x80:
                state = _hashed(state, token[place])
                place += 1
            # the marks < and > alone are no n-grams
            if length >= shortest and not (length == 1 and (first == 0 or place == size)):
                row = _bucket_row(np.uint64(state % modulus), live, rows)
                if row >= 0:
                    found += 1
                    for column in range(len(hidden)):
                        hidden[column] += vectors[row, column]
            length += 1
    return found


@compiled
def _add_word_ngrams(
    hashes: Int32s,
    count: int,
    longest: int,
    buckets: tuple[int, Uint64s, Int32s],
    vectors: Float32s,
    hidden: Float32s,
) -> int:
    """Add the vectors of the n-grams of two and more words; return how many there were."""
    number, live, rows = buckets
    modulus = np.uint64(number)
    found = 0
    for first in range(count):
        state = np.uint64(np.int64(hashes[first]))
        for place in range(first + 1, min(count, first + longest)):
            state = state * _WORD_NGRAM_PRIME + np.uint64(np.int64(hashes[place]))
            row = _bucket_row(state % modulus, live, rows)
            if row >= 0:
                found += 1
                for column in range(len(hidden)):
                    hidden[column] += vectors[row, column]
    return found


@compiled
def _is_prefixed(token: Bytes, size: int) -> bool:
    """Whether the token behind the first byte of `token` is a label by its name."""
    index = 0
    while index < len(_PREFIX) and index < size and token[index + 1] == _PREFIX[index]:
        index += 1
    return index == len(_PREFIX)


@compiled
def _is_white(byte: np.uint8) -> bool:
    return bool(byte <= _SPACE and (byte == _SPACE or 9 <= byte <= 13 or byte == 0))


@compiled
def _hide(data: Bytes, start: int, end: int, weights: Weights, token: Bytes, hashes: Int32s, hidden: Float32s) -> int:
    """Set `hidden` to the mean vector of a span; return the number of vectors in it.

    Args:
        data: UTF-8.
        start: The span's first byte.
        end: The one behind its last.
        weights: The model.
        token: Room for the longest token and two marks.
        hashes: Room for the hash of each token and of the line's end, if the model has word n-grams.
        hidden: Shape (dim,).
    """
    inputs, num_words = weights.inputs, weights.num_words
    slots, words = (weights.slot_hashes, weights.slot_words), (weights.word_starts, weights.word_bytes)
    buckets, vectors = (weights.buckets, weights.live, weights.bucket_rows), inputs[num_words:]
    lengths, ngrams = (weights.min_chars, weights.max_chars), weights.word_ngrams
    hidden[:] = np.float32(0)
    found = 0
    count = 0
    place = start
    token[0] = _LESS
    more = True
    while more:
        while place < end and _is_white(data[place]):
            place += 1
        first = place
        state = _HASH_START
        while place < end and not _is_white(data[place]):
            state = _hashed(state, data[place])
            token[place - first + 1] = data[place]
            place += 1
        size = place - first
        if size == 0:  # the line's end, which is a token
            size = 4
            token[1], token[2], token[3], token[4] = _LESS, _SLASH, _SMALL_S, _GREATER
            for index in range(1, 5):
                state = _hashed(state, token[index])
        # </s> written out ends the line for fastText, too
        more = not (
            size == 4 and token[1] == _LESS and token[2] == _SLASH and token[3] == _SMALL_S and token[4] == _GREATER
        )
        word = _word_number(token, size, state, slots, words)
        if word >= num_words or (word < 0 and token[1] == _PREFIX[0] and _is_prefixed(token, size)):
            continue  # a label
        if word >= 0:
            found += 1
            for column in range(len(hidden)):
                hidden[column] += inputs[word, column]
        if lengths[1] > 0 and more:
            token[size + 1] = _GREATER
            found += _add_characters(token, size + 2, lengths, buckets, vectors, hidden)
        if ngrams > 1:
            hashes[count] = np.int32(state)
            count += 1
    if ngrams > 1:
        found += _add_word_ngrams(hashes, count, ngrams, buckets, vectors, hidden)
    if found:
        scale = np.float32(1.0 / found)
        for column in range(len(hidden)):
            hidden[column] *= scale
    return found


@compiled
def _dot(outputs: Float32s, row: int, hidden: Float32s) -> np.float32:
    total = np.float32(0)
    for column in range(len(hidden)):
        total += outputs[row, column] * hidden[column]
    return total


@compiled
def _log(value: np.float32) -> np.float32:
    return np.float32(math.log(np.float64(value) + _EPSILON))


@compiled
def _walk_tree(weights: Weights, hidden: Float32s, nodes: Int64s, sums: Float32s, scores: Float32s, every: bool) -> int:
    """Return the label of the greatest probability; set scores[0] to its logarithm, or with `every` the scores of all.

    Depth first, left before right; a branch that cannot win is left out unless all are wanted.
    """
    best, label = _NEVER, NO_LABEL
    outputs, left, right = weights.outputs, weights.left, weights.right
    leaves = len(outputs)
    depth = 1
    nodes[0], sums[0] = 2 * leaves - 2, np.float32(0)
    while depth:
        depth -= 1
        node, total = nodes[depth], sums[depth]
        if not every and total < best:
            continue
        if left[node] < 0:
            if every:
                scores[node] = total
            if total >= best:
                best, label = total, node
            continue
        share = np.float32(1.0 / np.float64(np.float32(1) + math.exp(-_dot(outputs, node - leaves, hidden))))
        nodes[depth], sums[depth] = right[node], total + _log(share)
        nodes[depth + 1] = left[node]
        sums[depth + 1] = total + _log(np.float32(1.0 - np.float64(share)))
        depth += 2
    if not every:
        scores[0] = best
    return label


@compiled
def _logistic(value: np.float32) -> np.float32:
    """The logistic function as fastText has it, from a table of steps."""
    if value < -_SIGMOID_MOST:
        return np.float32(0)
    if value > _SIGMOID_MOST:
        return np.float32(1)
    step = np.int64(
        (value + np.float32(_SIGMOID_MOST)) * np.float32(_SIGMOID_STEPS) / np.float32(_SIGMOID_MOST) / np.float32(2)
    )
    at = np.float32(step * 2 * _SIGMOID_MOST) / np.float32(_SIGMOID_STEPS) - np.float32(_SIGMOID_MOST)
    return np.float32(1.0 / (1.0 + np.float64(np.float32(math.exp(-at)))))


@compiled
def _score_flat(weights: Weights, hidden: Float32s, scores: Float32s) -> int:
    """Set `scores` to the logarithm of each label's probability; return the label of the greatest."""
    outputs = weights.outputs
    labels = len(outputs)
    most = _NEVER
    for label in range(labels):
        scores[label] = _dot(outputs, label, hidden)
        most = max(most, scores[label])
    if weights.loss == SOFTMAX:
        total = np.float32(0)
        for label in range(labels):
            scores[label] = np.float32(math.exp(scores[label] - most))
            total += scores[label]
        for label in range(labels):
            scores[label] /= total
    else:
        for label in range(labels):
            scores[label] = _logistic(scores[label])
    best = 0
    for label in range(labels):
        scores[label] = _log(scores[label])
        if scores[label] >= scores[best]:  # of equals the last, as of fastText's heap
            best = label
    return best


@compiled
def _longest(starts: Int64s, ends: Int64s) -> int:
    longest = 0
    for span in range(len(starts)):
        longest = max(longest, ends[span] - starts[span])
    return longest


@compiled
def _predict_best(
    data: Bytes, starts: Int64s, ends: Int64s, weights: Weights, labels: Int32s, probabilities: Float32s
) -> None:
    longest = _longest(starts, ends)
    token = np.empty(longest + 8, np.uint8)
    hashes = np.empty(longest // 2 + 2 if weights.word_ngrams > 1 else 0, np.int32)
    hidden = np.zeros(weights.inputs.shape[1], np.float32)
    scores = np.empty(len(weights.outputs), np.float32)
    nodes, sums = np.empty(len(weights.left) + 2, np.int64), np.empty(len(weights.left) + 2, np.float32)
    for span in range(len(starts)):
        labels[span], probabilities[span] = NO_LABEL, np.float32(0)
        if not _hide(data, starts[span], ends[span], weights, token, hashes, hidden):
            continue
        if weights.loss == HIERARCHICAL_SOFTMAX:
            labels[span] = _walk_tree(weights, hidden, nodes, sums, scores, False)
            probabilities[span] = math.exp(scores[0])
        else:
            labels[span] = _score_flat(weights, hidden, scores)
            probabilities[span] = math.exp(scores[labels[span]])


@compiled
def _score_all(data: Bytes, starts: Int64s, ends: Int64s, weights: Weights, scores: Float32s) -> None:
    longest = _longest(starts, ends)
    token = np.empty(longest + 8, np.uint8)
    hashes = np.empty(longest // 2 + 2 if weights.word_ngrams > 1 else 0, np.int32)
    hidden = np.zeros(weights.inputs.shape[1], np.float32)
    nodes, sums = np.empty(len(weights.left) + 2, np.int64), np.empty(len(weights.left) + 2, np.float32)
    for span in range(len(starts)):
        if not _hide(data, starts[span], ends[span], weights, token, hashes, hidden):
            continue
        if weights.loss == HIERARCHICAL_SOFTMAX:
            _walk_tree(weights, hidden, nodes, sums, scores[span], True)
        else:
            _score_flat(weights, hidden, scores[span])
        for label in range(scores.shape[1]):
            scores[span, label] = math.exp(scores[span, label])
