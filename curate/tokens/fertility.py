"""How many tokens a tokenizer makes of texts, by language: what a word costs, what falls back to bytes, what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curate.text.characters import fast_table
from curate.tokens.fertility_kernels import count_rows

if TYPE_CHECKING:
    from curate.tokens.tokenizer import Tokenizer

_CHUNK_TOKENS = 1 << 20  # looked at together


@dataclass(slots=True)
class Counts:
    """What is counted of some documents.

    Attributes:
        documents: How many.
        bytes: UTF-8 bytes of their texts.
        characters: Code points.
        words: Runs without white space; in a script without spaces (Han, kana, Thai, Lao, Khmer, Burmese, Tibetan) its
            characters.
        tokens: Without the marks around a document.
        byte_tokens: Of them, those that stand for a byte or for a part of a character.
        unknown_tokens: Of them, those that stand for what the tokenizer has no piece for.
    """

    documents: int = 0
    bytes: int = 0
    characters: int = 0
    words: int = 0
    tokens: int = 0
    byte_tokens: int = 0
    unknown_tokens: int = 0

    def add(self, other: Counts) -> None:
        """Add other documents' counts."""
        for field, value in zip(fields(self), astuple(other), strict=True):
            setattr(self, field.name, getattr(self, field.name) + value)


class Fertility:
    """Counts the documents of a shard by language: their texts first, their tokens when these are written."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._languages: list[str | None] = []
        self._texts: list[npt.NDArray[np.int64]] = []  # bytes, characters, words; shape (3, rows)

    def seen(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, with columns `text` and `language`, and count what they hold."""
        for batch in batches:
            self._languages += batch.column("language").to_pylist()
            self._texts.append(count_texts(batch.column("text")))
            yield batch

    def counts(
        self, tokens: npt.NDArray[np.unsignedinteger], sizes: npt.NDArray[np.int64]
    ) -> dict[str, dict[str, int]]:
        """Return the counts by language; "unknown" for documents without one.

        Args:
            tokens: Runs of the documents one after another, begin marks included, end marks not; may be a memory map.
            sizes: Of each run, shape (documents,).
        """
        rows = sizes.size
        assert rows == len(self._languages), "each document has one run"
        texts = np.concatenate([*self._texts, np.zeros((3, 0), np.int64)], axis=1)
        parts = self._tokenizer.byte_ids()
        is_byte = np.zeros(self._tokenizer.vocab_size, np.bool_)
        is_byte[list(parts)] = True
        is_unknown = np.zeros(self._tokenizer.vocab_size, np.bool_)
        if self._tokenizer.unknown_id is not None:
            is_unknown[self._tokenizer.unknown_id] = True
        table = np.zeros((rows, 7), np.int64)
        table[:, 0] = 1
        table[:, 1:4] = texts.T
        table[:, 4] = sizes - (self._tokenizer.bos_id is not None)
        table[:, 5] = _marked(tokens, sizes, is_byte)
        table[:, 6] = _marked(tokens, sizes, is_unknown)
        names, places = np.unique(
            ["unknown" if name is None else name for name in self._languages], return_inverse=True
        )
        sums = np.zeros((names.size, 7), np.int64)
        np.add.at(sums, places, table)
        keys = [field.name for field in fields(Counts)]
        return {str(name): dict(zip(keys, row, strict=True)) for name, row in zip(names, sums.tolist(), strict=True)}


def bytes_of(tokens: npt.NDArray[np.unsignedinteger], tokenizer: Tokenizer) -> int:
    """Return how many bytes some tokens stand for.

    Args:
        tokens: May be a memory map.
        tokenizer: Theirs.
    """
    sizes = tokenizer.token_bytes()
    parts = (tokens[start : start + _CHUNK_TOKENS] for start in range(0, tokens.size, _CHUNK_TOKENS))
    return sum(int(sizes[part].sum()) for part in parts)


def count_texts(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return bytes, characters and words of texts, shape (3, rows)."""
    column = column.cast(pa.large_string())
    bounds = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    data = column.buffers()[2]
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    characters, words = count_rows(content, bounds, fast_table())
    return np.stack([np.diff(bounds), characters, words])


def _marked(
    tokens: npt.NDArray[np.unsignedinteger], sizes: npt.NDArray[np.int64], flags: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return how many tokens of each run have a flag, shape (runs,)."""
    ends = np.cumsum(sizes)
    counts = np.zeros(sizes.size, np.int64)
    if not flags.any():
        return counts
    for start in range(0, tokens.size, _CHUNK_TOKENS):
        places = np.flatnonzero(flags[tokens[start : start + _CHUNK_TOKENS]]) + start
        np.add.at(counts, np.searchsorted(ends, places, side="right"), 1)
    return counts
