"""Encoding of whole columns: the ids that a tokenizer's library gives, by compiled code where that is proven equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curate.text.bits import eight_bytes
from curate.text.characters import Bytes, Int64s, Uint64s
from curate.tokens.encoding.byte_level import byte_level_algorithm
from curate.tokens.encoding.merge_kernels import Uint32s
from curate.tokens.encoding.model_file import UNIGRAM, read_model
from curate.tokens.encoding.row_kernels import put_rows
from curate.tokens.encoding.sentencepiece_bpe import bpe_algorithm
from curate.tokens.encoding.sentencepiece_unigram import unigram_algorithm
from curate.tokens.sentencepiece_model import SentencePieceTokenizer
from curate.tokens.shard import dtype_for
from curate.tokens.tokenizer import Tokenizer
from curate.tokens.tokenizer_json import JsonTokenizer

Ids = npt.NDArray[np.unsignedinteger[Any]]

_GROUP_BYTES = 4 << 20  # of text that is encoded at once: four bytes of ids for each
_UNSEEN = "\ue000"  # for private use: no piece of any vocabulary, as good as always
_ROOM = 32  # bytes behind the text that compiled code may read


class Algorithm(Protocol):
    """Compiled encoding of rows.

    Attributes:
        has_prefix: Whether a space is put before each row that is not empty.
    """

    has_prefix: bool

    def encode_rows(
        self, data: Bytes, parts: Uint64s, bounds: Int64s, ids: Uint32s, offsets: Int64s, refused: Bytes
    ) -> None:
        """Encode rows.

        Args:
            data: UTF-8 of the rows one after another, and 32 bytes more.
            parts: The same as numbers of eight bytes, one beginning at each byte.
            bounds: Where each row begins, and the end; shape (rows + 1,).
            ids: What is written, room for one id a byte.
            offsets: Ids up to each row's end, from 0 on, shape (rows + 1,).
            refused: What is written: whether a row is left to the library, shape (rows,).
        """


class Encoder:
    """Gives the ids of texts as the tokenizer's library does, each depending on that text alone.

    One difference is on purpose, as in `SentencePieceTokenizer.encode_batch`: of a lossless sentencepiece model, U+2581 in
    a text becomes its three byte pieces, not the piece for a space as sentencepiece itself has it.
    """

    def __init__(self, tokenizer: Tokenizer, algorithm: Algorithm | None) -> None:
        self._tokenizer = tokenizer
        self._algorithm = algorithm
        self._dtype = np.dtype(dtype_for(tokenizer.vocab_size))

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code encodes; else the library does."""
        return self._algorithm is not None

    def encode(self, column: pa.LargeStringArray) -> tuple[Ids, Int64s]:
        """Return the ids of all texts one after another, and where those of each begin.

        Args:
            column: Texts, none of them null.

        Returns:
            Ids, uint16 or uint32 as the vocabulary demands, without marks; and offsets, shape (rows + 1,).
        """
        if self._algorithm is None:
            return self._joined(self._tokenizer.encode_batch(column.to_pylist()))
        bounds = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
        content = column.buffers()[2]
        data = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
        offsets = np.zeros(len(column) + 1, np.int64)
        parts = []
        for first, last in _groups(bounds):
            ids, ends = self._encode_group(self._algorithm, data, bounds[first : last + 1], column, first)
            parts.append(ids)
            offsets[first + 1 : last + 1] = ends[1:] + offsets[first]
        return np.concatenate([np.empty(0, self._dtype), *parts]), offsets

    def _encode_group(
        self, algorithm: Algorithm, data: Bytes, bounds: Int64s, column: pa.LargeStringArray, first: int
    ) -> tuple[Ids, Int64s]:
        rows = len(bounds) - 1
        room = int(bounds[-1] - bounds[0]) + rows * algorithm.has_prefix
        text = np.zeros(room + _ROOM, np.uint8)
        places, offsets = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
        if algorithm.has_prefix:
            put_rows(data, bounds, text, places)
        else:
            text[:room] = data[bounds[0] : bounds[-1]]
            places = bounds - bounds[0]
        refused = np.zeros(rows, np.uint8)
        ids = np.empty(room + 1, np.uint32)
        algorithm.encode_rows(text, eight_bytes(text), places, ids, offsets, refused)
        if not refused.any():
            return ids[: offsets[-1]].astype(self._dtype), offsets
        left = np.flatnonzero(refused)
        told = self._tokenizer.encode_batch([column[first + int(row)].as_py() for row in left])
        by_row = dict(zip(left.tolist(), told, strict=True))
        return self._joined(
            [by_row[row] if row in by_row else ids[offsets[row] : offsets[row + 1]] for row in range(rows)]
        )

    def _joined(self, runs: Sequence[Ids]) -> tuple[Ids, Int64s]:
        offsets = np.zeros(len(runs) + 1, np.int64)
        np.cumsum([run.size for run in runs], out=offsets[1:])
        return np.concatenate([np.empty(0, self._dtype), *runs]).astype(self._dtype), offsets


def _groups(bounds: Int64s) -> Iterator[tuple[int, int]]:
    """Yield first row and end of groups of at most `_GROUP_BYTES`, or of one row."""
    first, rows = 0, len(bounds) - 1
    while first < rows:
        last = int(np.searchsorted(bounds, bounds[first] + _GROUP_BYTES, "right")) - 1
        last = min(max(last, first + 1), rows)
        yield first, last
        first = last


def encoder_of(tokenizer: Tokenizer) -> Encoder:
    """Return the encoder of a tokenizer: compiled code where its ids are known to be the library's, else the library.

    What is known was found with sentencepiece 0.2.3 and tokenizers 0.23.3. Where another version gives other ids to some
    thousand words of the vocabulary and to texts that versions have differed on, the library encodes.
    """
    encoder = Encoder(tokenizer, _algorithm(tokenizer))
    if encoder.is_compiled and not _agrees(encoder, tokenizer):
        return Encoder(tokenizer, None)
    return encoder


def _algorithm(tokenizer: Tokenizer) -> Algorithm | None:
    if isinstance(tokenizer, JsonTokenizer):
        return byte_level_algorithm(tokenizer.definition)
    if isinstance(tokenizer, SentencePieceTokenizer):
        model = read_model(tokenizer.model)
        algorithm = unigram_algorithm if model.algorithm == UNIGRAM else bpe_algorithm
        return algorithm(model, tokenizer.lossless)
    return None


def _agrees(encoder: Encoder, tokenizer: Tokenizer) -> bool:
    """Return whether both give the same ids to some texts."""
    size = tokenizer.vocab_size
    starts = range(0, size, max(1, size // 60))
    texts = [tokenizer.decode([(start + 7919 * number) % size for number in range(40)]) for start in starts]
    texts += [text[-40:] + "\n" * (run % 16) + "\t" * (run % 11) + " " * run + "x" for run, text in enumerate(texts)]
    texts.append(_UNSEEN * 12_000 + "".join(texts))  # sums of scores far below 0, as in a book
    ids, offsets = encoder.encode(pa.array(texts, pa.large_string()))
    runs = tokenizer.encode_batch(texts)
    return all(np.array_equal(run, ids[offsets[row] : offsets[row + 1]]) for row, run in enumerate(runs))
