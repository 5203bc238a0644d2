"""Layouts of token files that other trainers read: what stands in the data file and in those beside it.

All of them keep the ids of a run's shard as they are, each document ended by EOS; they differ in names and index.
"""

from __future__ import annotations

import csv
import gzip
import io
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from curate.errors import CurateError

Ends = npt.NDArray[np.int64]  # of each document, in tokens, shape (documents,)


class Row(NamedTuple):
    """Where a document of a token file is from.

    Attributes:
        id: Of the document.
        source: File of the run that lists it.
        place: Its row there, from 1.
    """

    id: str
    source: str
    place: int


class Layout(Protocol):
    """One way to lay out token files."""

    data: ClassVar[str]  # ending of the file of ids
    beside: ClassVar[tuple[str, ...]]  # endings of the files beside it
    needs_rows: ClassVar[bool]  # whether `write_beside` names documents

    def check(self, vocab_size: int, ends: Ends) -> None:
        """Raise CurateError if the layout cannot hold these documents."""

    def write_beside(self, stem: Path, dtype: str, ends: Ends, rows: Iterable[Row]) -> None:
        """Write the files beside the ids.

        Args:
            stem: Path of the files without their endings.
            dtype: Of the run's shards: uint16 or uint32.
            ends: Of the documents, EOS included.
            rows: One for each document; empty unless `needs_rows`.
        """

    def count(self, stem: Path, dtype: str) -> tuple[int, int]:
        """Return tokens and documents as the files beside the ids state them.

        Raises:
            CurateError: If they are not what this layout writes.
        """


class Megatron:
    """Megatron-LM's indexed dataset: `.bin` and `.idx` (megatron/core/datasets/indexed_dataset.py, version 1).

    The index, little-endian: `MMIDIDX` and two zero bytes; version, uint64; dtype code, uint8; number of sequences and of
    document indices, uint64; lengths of the sequences in tokens, int32; their places in the `.bin` in bytes, int64; document
    indices, int64: in which sequence each document begins, and behind them the number of sequences. A document is a
    sequence here. Ids are uint16 (code 8) or int32 (code 4): there is no uint32, and below 2^31 the bytes are the same.
    """

    data: ClassVar[str] = ".bin"
    beside: ClassVar[tuple[str, ...]] = (".idx",)
    needs_rows: ClassVar[bool] = False
    _MAGIC: ClassVar = b"MMIDIDX\0\0"
    _CODES: ClassVar = {"uint16": 8, "uint32": 4}

    def check(self, vocab_size: int, ends: Ends) -> None:
        """Refuse ids and lengths above what int32 holds."""
        longest = int(np.diff(ends, prepend=0).max(initial=0))
        if vocab_size > 1 << 31:
            raise CurateError(
                f"a vocabulary of {vocab_size:,} does not fit Megatron's int32 ids. Use --format nanotron."
            )
        if longest >= 1 << 31:
            raise CurateError(
                f"a document of {longest:,} tokens does not fit Megatron's int32 lengths. Use --format npy or nanotron."
            )

    def write_beside(self, stem: Path, dtype: str, ends: Ends, rows: Iterable[Row]) -> None:
        """Write the `.idx`."""
        del rows
        lengths = np.diff(ends, prepend=0)
        pointers = (ends - lengths) * np.dtype(dtype).itemsize
        with stem.with_name(stem.name + ".idx").open("wb") as file:
            file.write(self._MAGIC + struct.pack("<QBQQ", 1, self._CODES[dtype], ends.size, ends.size + 1))
            file.write(lengths.astype("<i4").tobytes())
            file.write(pointers.astype("<i8").tobytes())
            file.write(np.arange(ends.size + 1, dtype="<i8").tobytes())

    def count(self, stem: Path, dtype: str) -> tuple[int, int]:
        """Read the `.idx`."""
        content = stem.with_name(stem.name + ".idx").read_bytes()
        version, code, sequences, documents = struct.unpack("<QBQQ", content[9:34])
        whole = 34 + 12 * sequences + 8 * documents == len(content)
        if not (content[:9] == self._MAGIC and version == 1 and code == self._CODES[dtype] and whole):
            raise CurateError(f"{stem}.idx: is no index of Megatron-LM.")
        lengths = np.frombuffer(content, "<i4", sequences, 34)
        return int(lengths.sum(dtype=np.int64)), documents - 1


class Npy:
    """OLMo-core's `.npy`, which is no NumPy file: raw little-endian ids, read as a memory map of the dtype that its reader names.

    Beside it `.csv.gz` as `dolma tokens` writes it: without header, a line for each document: start, end, id, src, loc.
    """

    data: ClassVar[str] = ".npy"
    beside: ClassVar[tuple[str, ...]] = (".csv.gz",)
    needs_rows: ClassVar[bool] = True

    def check(self, vocab_size: int, ends: Ends) -> None:
        """Accept all."""

    def write_beside(self, stem: Path, dtype: str, ends: Ends, rows: Iterable[Row]) -> None:
        """Write the `.csv.gz`."""
        del dtype
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if ends.size else ends
        with (
            stem.with_name(stem.name + ".csv.gz").open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,  # neither name nor time: the same bytes each time
            io.TextIOWrapper(packed, "utf-8", newline="") as text,
        ):
            writer = csv.writer(text, lineterminator="\r\n")
            for start, end, row in zip(starts.tolist(), ends.tolist(), rows, strict=True):
                writer.writerow((start, end, row.id, row.source, row.place))

    def count(self, stem: Path, dtype: str) -> tuple[int, int]:
        """Read the `.csv.gz`."""
        del dtype
        tokens = documents = 0
        with gzip.open(stem.with_name(stem.name + ".csv.gz"), "rt", encoding="utf-8", newline="") as file:
            for start, end, *_ in csv.reader(file):
                if int(start) != tokens:
                    raise CurateError(f"{stem}.csv.gz: document {documents} begins at {start}, not at {tokens}.")
                tokens, documents = int(end), documents + 1
        return tokens, documents


class Nanotron:
    """datatrove's `.ds`, which nanotron reads: raw little-endian ids.

    Beside it `.ds.index`, the end of each document in tokens as uint64, and `.ds.metadata`: `<tokenizer>|<bytes of an id>`,
    the number of tokens, and the same number for people (datatrove/pipeline/tokens/tokenizer.py, `write_final_metadata`).
    """

    data: ClassVar[str] = ".ds"
    beside: ClassVar[tuple[str, ...]] = (".ds.index", ".ds.metadata")
    needs_rows: ClassVar[bool] = False

    _TOKENIZER: ClassVar = "tokenizer"  # the folder beside the splits

    def check(self, vocab_size: int, ends: Ends) -> None:
        """Accept all."""

    def write_beside(self, stem: Path, dtype: str, ends: Ends, rows: Iterable[Row]) -> None:
        """Write `.ds.index` and `.ds.metadata`."""
        del rows
        tokens = int(ends[-1]) if ends.size else 0
        stem.with_name(stem.name + ".ds.index").write_bytes(ends.astype("<u8").tobytes())
        lines = (f"{self._TOKENIZER}|{np.dtype(dtype).itemsize}", str(tokens), _metric(tokens))
        stem.with_name(stem.name + ".ds.metadata").write_text("\n".join(lines), "utf-8")

    def count(self, stem: Path, dtype: str) -> tuple[int, int]:
        """Read both."""
        del dtype
        ends = np.fromfile(stem.with_name(stem.name + ".ds.index"), "<u8")
        stated = int(stem.with_name(stem.name + ".ds.metadata").read_text("utf-8").split("\n")[1])
        tokens = int(ends[-1]) if ends.size else 0
        if stated != tokens:
            raise CurateError(f"{stem}.ds.metadata: states {stated} tokens, the index {tokens}.")
        return tokens, int(ends.size)


def _metric(tokens: int) -> str:
    """Return a number of tokens with three digits and a prefix, as datatrove does: 7.00 T, 2.06 MT."""
    power = min(5, max(0, (len(str(tokens)) - 1) // 3))
    value = tokens / 1000**power
    digits = max(0, 3 - len(str(int(value))))
    return f"{value:.{digits}f} {' kMGTP'[power].strip()}T"
