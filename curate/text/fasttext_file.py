"""What a fastText model file says of itself, read without NumPy: settings, words, labels, and where its matrices lie.

The format is that of fastText 0.9 (versions 11 and 12 of the file; Joulin et al. 2016, arXiv:1607.01759; quantised files:
arXiv:1612.03651): settings, dictionary, input matrix, output matrix, all little-endian, one behind the other.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from curate.errors import InputError

HIERARCHICAL_SOFTMAX, NEGATIVE_SAMPLING, SOFTMAX, ONE_VS_ALL = 1, 2, 3, 4  # of `ModelFile.loss`
LABEL_PREFIX = "__label__"  # a token that begins with it is no text
CODES = 256  # centroids of a sub-quantiser, one for each value of a byte

_MAGIC = 793712314
_CBOW, _SKIP_GRAM, _SUPERVISED = 1, 2, 3
_WORD = 0  # type of an entry of the dictionary; 1: label
_REMEDY = "Name a supervised fastText model (.bin or .ftz), or fetch it again if it was cut short."
_REMEDY_OF_VECTORS = (
    "Name a fastText model (.bin or .ftz; word vectors or a classifier), or fetch it again if it was cut short."
)


@dataclass(frozen=True, slots=True)
class Quantiser:
    """A product quantiser: a vector as the numbers of a centroid for each of its parts.

    Attributes:
        dim: Length of a vector.
        parts: Number of parts.
        part_dim, last_dim: Length of a part, and of the last one.
        centroids: Byte offset of the centroids, float32, CODES of each part.
    """

    dim: int
    parts: int
    part_dim: int
    last_dim: int
    centroids: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix of the file, plain or quantised.

    Attributes:
        rows, columns: Its shape.
        offset: Byte offset of its float32 numbers, or of its codes (uint8, shape (rows, parts)).
        quantiser: How the codes are read; None: not quantised.
        norm_codes: Byte offset of one code a row for the vectors' lengths, where these were quantised by themselves.
        norms: How they are read.
    """

    rows: int
    columns: int
    offset: int
    quantiser: Quantiser | None = None
    norm_codes: int = 0
    norms: Quantiser | None = None


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A fastText model file but for the numbers of its matrices.

    Attributes:
        is_classifier: Whether it was trained with labels; else it holds word vectors (CBOW or skip-gram).
        loss: HIERARCHICAL_SOFTMAX, NEGATIVE_SAMPLING, SOFTMAX or ONE_VS_ALL.
        min_chars, max_chars: Lengths of character n-grams; max_chars 0: none are used.
        word_ngrams: Longest word n-gram; 1: words alone.
        buckets: Number of hash buckets of n-grams.
        words: UTF-8 of each word, in the order of the input matrix's rows.
        labels: Each label, in the order of the output matrix's rows, as the file has it ("__label__en").
        label_counts: Training examples of each label: they are the tree of hierarchical softmax.
        kept_buckets: Byte offset of the pairs (bucket, row behind the words; int32) of a pruned model.
        num_kept: Number of these pairs; -1: not pruned, every bucket has its row.
        inputs, outputs: The matrices, of as many columns.
    """

    path: str
    is_classifier: bool
    loss: int
    min_chars: int
    max_chars: int
    word_ngrams: int
    buckets: int
    words: tuple[bytes, ...]
    labels: tuple[str, ...]
    label_counts: tuple[int, ...]
    kept_buckets: int
    num_kept: int
    inputs: Matrix
    outputs: Matrix


class _DamagedError(ValueError):
    """What is wrong with a model file."""


class _Reader:
    """Takes little-endian values from a file, one behind the other."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.place = 0

    def take(self, form: str) -> tuple[int, ...]:
        """Return the values of a `struct` format."""
        start = self.skip(struct.calcsize("<" + form))
        return struct.unpack_from("<" + form, self.data, start)

    def skip(self, size: int) -> int:
        """Pass over so many bytes; return where they begin."""
        start = self.place
        if size < 0 or start + size > len(self.data):
            raise _DamagedError(f"it ends at byte {len(self.data):,}, inside what it says that it holds")
        self.place = start + size
        return start


def read_model_file(path: str, *, only_classifier: bool = True) -> ModelFile:
    """Read all of a fastText model file but its matrices, and hold their sizes against the dictionary's.

    Args:
        path: A local file.
        only_classifier: Whether a model of word vectors is refused.

    Raises:
        InputError: If it cannot be read, is damaged, or is no supervised fastText model where one is wanted.
    """
    remedy = _REMEDY if only_classifier else _REMEDY_OF_VECTORS
    try:
        with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _model_file(path, _Reader(data), only_classifier)
    except OSError as error:
        raise InputError(path, f"the model cannot be read: {error.strerror}.", "Correct `model:`.") from error
    except UnicodeDecodeError as error:
        raise InputError(path, "this fastText model has labels that are no UTF-8.", remedy) from error
    except ValueError as error:  # damaged, or empty, which mmap refuses
        what = str(error) if isinstance(error, _DamagedError) else "it is empty"
        raise InputError(path, f"this is no fastText model that can be used: {what}.", _REMEDY) from error


def _model_file(path: str, reader: _Reader, only_classifier: bool) -> ModelFile:
    if len(reader.data) < 8 or reader.take("i") != (_MAGIC,):
        raise _DamagedError("it does not begin as one does")
    (version,) = reader.take("i")
    if version not in (11, 12):
        raise _DamagedError(f"its format has version {version}; 11 and 12 are known")
    dim, _, _, _, _, word_ngrams, loss, kind, buckets, min_chars, max_chars, _ = reader.take("12i")
    reader.skip(8)  # sampling threshold of training
    if kind not in (_CBOW, _SKIP_GRAM, _SUPERVISED):
        raise _DamagedError(f"kind {kind} of model is unknown")
    is_classifier = kind == _SUPERVISED
    if only_classifier and not is_classifier:
        raise _DamagedError("it holds word vectors and no classifier")
    if loss not in (HIERARCHICAL_SOFTMAX, NEGATIVE_SAMPLING, SOFTMAX, ONE_VS_ALL):
        raise _DamagedError(f"loss {loss} is unknown")
    if version == 11 and is_classifier:  # these had no character n-grams in that version, whatever they state
        max_chars = 0
    words, labels, counts = [], [], []
    size, num_words, num_labels, _, num_kept = reader.take("iiiqq")
    for _ in range(size):
        end = reader.data.find(b"\0", reader.place)
        name = reader.data[reader.place : max(end, reader.place)]
        reader.skip(len(name) + 1)
        count, entry = reader.take("qb")
        if entry == _WORD:
            words.append(name)
        else:
            labels.append(name.decode())
            counts.append(count)
    if (len(words), len(labels)) != (num_words, num_labels) or (is_classifier and not labels):
        raise _DamagedError(
            f"its dictionary has {len(words):,} words and {len(labels):,} labels, where it states others"
        )
    if (word_ngrams > 1 or max_chars > 0) and buckets <= 0:
        raise _DamagedError(f"it has n-grams in {buckets} buckets")
    kept = reader.skip(8 * num_kept) if num_kept > 0 else 0
    (quantised,) = reader.take("?")
    inputs = _quantised(reader) if quantised else _plain(reader)
    if num_kept >= 0 and not quantised:
        raise _DamagedError("it is pruned and not quantised, as files of an old version were")
    (outputs_quantised,) = reader.take("?")
    outputs = _quantised(reader) if quantised and outputs_quantised else _plain(reader)
    rows = num_words + (num_kept if num_kept >= 0 else buckets)
    predicted = (num_labels, "labels") if is_classifier else (num_words, "words")
    if (inputs.rows, inputs.columns) != (rows, dim) or (outputs.rows, outputs.columns) != (predicted[0], dim):
        raise _DamagedError(
            f"its matrices have other sizes than its {rows:,} rows, {predicted[0]:,} {predicted[1]} and {dim} columns"
        )
    return ModelFile(
        path=path,
        is_classifier=is_classifier,
        loss=loss,
        min_chars=min_chars,
        max_chars=max_chars,
        word_ngrams=word_ngrams,
        buckets=buckets,
        words=tuple(words),
        labels=tuple(labels),
        label_counts=tuple(counts),
        kept_buckets=kept,
        num_kept=num_kept,
        inputs=inputs,
        outputs=outputs,
    )


def _plain(reader: _Reader) -> Matrix:
    rows, columns = reader.take("qq")
    if rows < 0 or columns < 0:
        raise _DamagedError("a matrix has a negative size")
    return Matrix(rows, columns, reader.skip(4 * rows * columns))


def _quantised(reader: _Reader) -> Matrix:
    (with_norms,) = reader.take("?")
    rows, columns = reader.take("qq")
    (num_codes,) = reader.take("i")
    codes = reader.skip(num_codes)
    quantiser = _quantiser(reader)
    if num_codes != rows * quantiser.parts or columns != quantiser.dim:
        raise _DamagedError("a quantised matrix has codes of another number than its rows need")
    if not with_norms:
        return Matrix(rows, columns, codes, quantiser)
    norm_codes = reader.skip(rows)
    return Matrix(rows, columns, codes, quantiser, norm_codes, _quantiser(reader))


def _quantiser(reader: _Reader) -> Quantiser:
    dim, parts, part_dim, last_dim = reader.take("iiii")
    if dim < 1 or parts < 1 or part_dim < 1 or (parts - 1) * part_dim + last_dim != dim:
        raise _DamagedError(f"a quantiser cuts {dim} numbers into {parts} parts of {part_dim} and {last_dim}")
    return Quantiser(dim, parts, part_dim, last_dim, reader.skip(4 * dim * CODES))
