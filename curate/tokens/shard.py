"""The token shard format: its writer and its reader.

A source's folder holds, for each split ("train", "validation") and shard number:

- `<split>-00000.bin`: token ids, raw little-endian uint16 (vocabulary up to 65,536) or uint32. Each document is
  ended by the EOS id, which occurs nowhere else; a document without text is its EOS alone.
- `<split>-00000.idx`: one uint64, little-endian, per document: where it ends in the `.bin`, in tokens, EOS included.
- `<split>-00000.docs.parquet`: `id` and `bytes` (UTF-8, of the text that was encoded) of each document, in that order.
  Of documents for validation it holds `domain` and `language` too, null where not known: what a score is divided by.
- `manifest.json`, written last: a folder without it is no source.

The byte layout of `.bin` and `.idx` is that of datatrove's `.ds` and `.ds.index`; OLMo-core reads a `.bin` as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curate.errors import InputError

TokenDtype = Literal["uint16", "uint32"]

MANIFEST = "manifest.json"
DOCUMENTS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),  # UTF-8 bytes of the text that was encoded
    ]
)
LABELS = pa.schema([pa.field("domain", pa.string()), pa.field("language", pa.string())])
LABELLED_SPLITS = ("validation",)  # a train split has too many documents, and nobody asks
DEFAULT_SHARD_TOKENS = 1 << 28  # 512 MiB of uint16
_ROWS_PER_GROUP = 4096  # fixed, so that no buffer size shows in the bytes of .docs.parquet
_LARGEST_UINT16_VOCABULARY = 65_536  # ids 0 to 65,535
_CHUNK = 1 << 20  # tokens read at once when verifying


def dtype_for(vocab_size: int) -> TokenDtype:
    """Return the narrowest dtype of the format that holds every id below `vocab_size`."""
    if not 1 <= vocab_size <= 1 << 32:
        raise ValueError(f"vocab_size is {vocab_size}; it must be from 1 to 4,294,967,296")
    return "uint16" if vocab_size <= _LARGEST_UINT16_VOCABULARY else "uint32"


def stored_dtype(dtype: str) -> np.dtype[Any]:
    """Return the little-endian numpy dtype of a `.bin` file, whatever the machine's own byte order."""
    if dtype not in ("uint16", "uint32"):
        raise ValueError(f"dtype is {dtype!r}; token shards are uint16 or uint32")
    return np.dtype(dtype).newbyteorder("<")


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """One shard, as the manifest lists it.

    Attributes:
        name: File name without ending, such as `train-00000`.
        split: `train` or `validation`.
        tokens: Token ids in the `.bin`, one EOS per document included.
        documents: Documents in it.
        bytes: UTF-8 bytes of their texts.
        sha256: Of the `.bin` file.
    """

    name: str
    split: str
    tokens: int
    documents: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Labels:
    """What is known of a document for validation; fields as in `LABELS`."""

    domain: str | None = None
    language: str | None = None


NO_LABELS = Labels()


class _OpenShard:
    """The three files of the shard being written, under temporary names."""

    def __init__(self, folder: Path, name: str, *, labelled: bool) -> None:
        self.paths = [folder / (name + ending) for ending in (".bin", ".idx", ".docs.parquet")]
        self.temporary = [path.with_name(f"{path.name}.tmp") for path in self.paths]
        self.name = name
        self.digest = hashlib.sha256()
        self.num_tokens = self.num_documents = self.num_bytes = 0
        self._ids: list[str] = []
        self._bytes: list[int] = []
        self._labels: list[Labels] = []
        self._schema = pa.schema([*DOCUMENTS, *LABELS]) if labelled else DOCUMENTS
        self._bin, self._idx, self._docs = (path.open("wb") for path in self.temporary)
        self._parquet = pq.ParquetWriter(self._docs, self._schema, compression="zstd")

    def add(self, document_id: str, num_bytes: int, data: bytes, num_tokens: int, labels: Labels) -> None:
        self._bin.write(data)
        self.digest.update(data)
        self.num_tokens += num_tokens
        self.num_documents += 1
        self.num_bytes += num_bytes
        self._idx.write(self.num_tokens.to_bytes(8, "little"))
        self._ids.append(document_id)
        self._bytes.append(num_bytes)
        self._labels.append(labels)
        if len(self._ids) == _ROWS_PER_GROUP:
            self._write_documents()

    def _write_documents(self) -> None:
        columns = {"id": self._ids, "bytes": self._bytes} | {
            name: [getattr(labels, name) for labels in self._labels] for name in self._schema.names[len(DOCUMENTS) :]
        }
        self._parquet.write_table(pa.table(columns, schema=self._schema), row_group_size=_ROWS_PER_GROUP)
        self._ids, self._bytes, self._labels = [], [], []

    def finish(self, split: str) -> ShardInfo:
        if self._ids or not self.num_documents:
            self._write_documents()
        self._parquet.close()
        for file in (self._bin, self._idx, self._docs):
            _sync(file)
            file.close()
        for temporary, path in zip(self.temporary, self.paths, strict=True):
            temporary.replace(path)
        sha256 = self.digest.hexdigest()
        return ShardInfo(self.name, split, self.num_tokens, self.num_documents, self.num_bytes, sha256)

    def abandon(self) -> None:
        self._parquet.close()
        for file, temporary in zip((self._bin, self._idx, self._docs), self.temporary, strict=True):
            file.close()
            temporary.unlink(missing_ok=True)


class ShardWriter:
    """Writes one split of one source, document by document, in the order given.

    Files appear whole or not at all: they are written under `*.tmp`, fsynced and renamed. A split without documents
    gives one shard with zero rows. As a context manager it closes itself, or removes what is unfinished if the block
    raises.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        split: str,
        *,
        dtype: TokenDtype,
        eos_id: int,
        vocab_size: int,
        shard_tokens: int = DEFAULT_SHARD_TOKENS,
    ) -> None:
        """Make the folder; files follow with the first document.

        Args:
            folder: The source's folder.
            split: `train` or `validation`; the first part of each file name.
            dtype: Stored width of an id.
            eos_id: Appended to every document.
            vocab_size: Ids are below it.
            shard_tokens: A new shard begins where a document would not fit; one document is never divided.

        Raises:
            ValueError: If the vocabulary does not fit the dtype, or the EOS id not the vocabulary.
        """
        self._stored = stored_dtype(dtype)
        if dtype == "uint16" and dtype_for(vocab_size) != "uint16":
            raise ValueError(f"a vocabulary of {vocab_size:,} does not fit uint16 (at most 65,536 ids); use uint32")
        if not 0 <= eos_id < vocab_size:
            raise ValueError(f"eos_id {eos_id} is outside the vocabulary of {vocab_size:,}")
        if shard_tokens < 1:
            raise ValueError(f"shard_tokens is {shard_tokens}; it must be at least 1")
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.split = split
        self._eos_id = eos_id
        self._vocab_size = vocab_size
        self._shard_tokens = shard_tokens
        self._done: list[ShardInfo] = []
        self._shard: _OpenShard | None = None
        self._closed = False

    def add(
        self,
        document_id: str,
        num_bytes: int,
        tokens: npt.NDArray[np.integer[Any]],
        labels: Labels = NO_LABELS,
    ) -> None:
        """Append one document and its EOS.

        Args:
            document_id: Written to `.docs.parquet`.
            num_bytes: UTF-8 bytes of the text that was encoded.
            tokens: Its ids without EOS, shape (T,); T may be 0.
            labels: Written to `.docs.parquet` if the split is one of `LABELLED_SPLITS`.

        Raises:
            ValueError: If an id is outside the vocabulary or is the EOS id; the document and the id are named.
        """
        if self._closed:
            raise ValueError(
                f"the writer of {self.folder / self.split} is closed; document {document_id} came too late"
            )
        tokens = np.asarray(tokens)
        if tokens.size:
            self._check(document_id, tokens)
        run = np.empty(tokens.size + 1, self._stored)
        run[:-1] = tokens
        run[-1] = self._eos_id
        if self._shard is not None and self._shard.num_tokens + run.size > self._shard_tokens:
            self._finish_shard()
        shard = self._shard or self._open_shard()
        shard.add(document_id, num_bytes, run.tobytes(), run.size, labels)

    def close(self) -> tuple[ShardInfo, ...]:
        """Finish the last shard (an empty one if nothing was added) and return all of them, in order."""
        if not self._closed:
            if self._shard is None and not self._done:
                self._open_shard()
            if self._shard is not None:
                self._finish_shard()
            sync_folder(self.folder)
            self._closed = True
        return tuple(self._done)

    def abandon(self) -> None:
        """Remove the temporary files of the shard being written; finished shards stay."""
        if self._shard is not None:
            self._shard.abandon()
            self._shard = None
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del error, trace
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _check(self, document_id: str, tokens: npt.NDArray[np.integer[Any]]) -> None:
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise ValueError(
                f"document {document_id}: tokens are {tokens.dtype} of shape {tokens.shape}; "
                "they must be integers of shape (T,)"
            )
        lowest, highest = int(tokens.min()), int(tokens.max())
        if lowest < 0 or highest >= self._vocab_size:
            bad = lowest if lowest < 0 else highest
            raise ValueError(
                f"document {document_id}: token id {bad} is outside the vocabulary of {self._vocab_size:,}"
            )
        at = np.flatnonzero(tokens == self._eos_id)
        if at.size:
            raise ValueError(
                f"document {document_id}: the EOS id {self._eos_id} stands inside it at token {int(at[0])}; "
                "it may only end a document"
            )

    def _open_shard(self) -> _OpenShard:
        name = f"{self.split}-{len(self._done):05d}"
        self._shard = _OpenShard(self.folder, name, labelled=self.split in LABELLED_SPLITS)
        return self._shard

    def _finish_shard(self) -> None:
        assert self._shard is not None
        self._done.append(self._shard.finish(self.split))
        self._shard = None


def write_manifest(
    folder: str | os.PathLike[str],
    *,
    dtype: TokenDtype,
    vocab_size: int,
    eos_id: int,
    tokenizer_sha256: str,
    shards: Sequence[ShardInfo],
) -> Path:
    """Write `manifest.json` whole or not at all, after all the shards that it lists; return its path.

    Raises:
        InputError: If a shard's file is not there with the size that its token count demands.
    """
    folder = Path(folder)
    width = stored_dtype(dtype).itemsize
    for shard in shards:
        _check_size(folder / f"{shard.name}.bin", shard.tokens * width)
    content = {
        "dtype": dtype,
        "vocab_size": vocab_size,
        "eos_id": eos_id,
        "tokenizer_sha256": tokenizer_sha256,
        "shards": [asdict(shard) for shard in shards],
    }
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{MANIFEST}.tmp"
    with temporary.open("wb") as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())
        _sync(file)
    temporary.replace(folder / MANIFEST)
    sync_folder(folder)
    return folder / MANIFEST


class TokenSource:
    """One split of one source: the concatenation of its shards, memory-mapped.

    Pickles as its path, so that worker processes map the files themselves.

    Attributes:
        folder, split: What was opened.
        dtype: `uint16` or `uint32`, as stored.
        vocab_size, eos_id: Of the tokenizer.
        tokenizer_sha256: Of the tokenizer's model file.
        shards: As the manifest lists them.
        num_tokens, num_documents, num_bytes: Over all shards; tokens include one EOS per document.
    """

    def __init__(self, folder: str | os.PathLike[str], split: str) -> None:
        self.folder = Path(folder)
        self.split = split
        manifest, self.shards = _read_manifest(self.folder, split)
        self.dtype: TokenDtype = manifest["dtype"]
        self.vocab_size: int = manifest["vocab_size"]
        self.eos_id: int = manifest["eos_id"]
        self.tokenizer_sha256: str = manifest["tokenizer_sha256"]
        self.num_tokens = sum(shard.tokens for shard in self.shards)
        self.num_documents = sum(shard.documents for shard in self.shards)
        self.num_bytes = sum(shard.bytes for shard in self.shards)
        stored = stored_dtype(self.dtype)
        self._maps: list[npt.NDArray[np.unsignedinteger[Any]]] = []
        for shard in self.shards:
            path = self._path(shard, ".bin")
            _check_size(path, shard.tokens * stored.itemsize)
            _check_size(self._path(shard, ".idx"), shard.documents * 8)
            # An empty file cannot be mapped.
            self._maps.append(np.memmap(path, stored, "r") if shard.tokens else np.empty(0, stored))
        self._starts = np.cumsum([0, *(shard.tokens for shard in self.shards)], dtype=np.int64)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], split: str = "train") -> Self:
        """Open a split by its manifest.

        Raises:
            InputError: If the manifest or a file is absent, damaged, or not of the size that the manifest tells.
        """
        return cls(folder, split)

    def __reduce__(self) -> tuple[type[TokenSource], tuple[Path, str]]:
        return type(self), (self.folder, self.split)

    @property
    def bytes_per_token(self) -> float:
        """UTF-8 bytes of text per token, EOS not counted: what each token of this source carries; 0 without tokens."""
        num_tokens = self.num_tokens - self.num_documents
        return self.num_bytes / num_tokens if num_tokens else 0.0

    def tokens(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the ids from token `start` up to `stop`, counted over all shards; shape (stop - start,).

        Raises:
            IndexError: If the range is not inside 0 to num_tokens.
        """
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(
                f"{self.folder}, {self.split}: tokens {start} to {stop} are outside 0 to {self.num_tokens}"
            )
        out = np.empty(stop - start, np.int64)
        shard = int(np.searchsorted(self._starts, start, side="right")) - 1
        filled = 0
        while filled < out.size:
            offset = start + filled - int(self._starts[shard])
            part = self._maps[shard][offset : offset + out.size - filled]
            out[filled : filled + part.size] = part
            filled += part.size
            shard += 1
        return out

    @cached_property
    def document_ends(self) -> npt.NDArray[np.int64]:
        """End of each document in tokens over all shards, EOS included; shape (num_documents,)."""
        parts = [
            np.fromfile(self._path(shard, ".idx"), "<u8").astype(np.int64) + start
            for shard, start in zip(self.shards, self._starts[:-1], strict=True)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    @cached_property
    def document_ids(self) -> list[str]:
        """Id of each document."""
        ids: list[str] = self._documents["id"].to_pylist()
        return ids

    @cached_property
    def document_bytes(self) -> npt.NDArray[np.int64]:
        """UTF-8 bytes of each document's text; shape (num_documents,)."""
        lengths: npt.NDArray[np.int64] = self._documents["bytes"].to_numpy()
        return lengths

    @cached_property
    def document_labels(self) -> list[Labels]:
        """Labels of each document; none in a split that has none, or in a folder of an earlier version."""
        tables = [self._read_documents(shard, LABELS) for shard in self.shards]
        return [Labels(**row) for table in tables for row in table.to_pylist()]

    @cached_property
    def _documents(self) -> pa.Table:
        tables = [self._read_documents(shard) for shard in self.shards]
        return pa.concat_tables(tables) if tables else DOCUMENTS.empty_table()

    def documents(self) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
        """Yield the id and the token ids, without EOS, of each document in order."""
        start = 0
        for document_id, end in zip(self.document_ids, self.document_ends.tolist(), strict=True):
            yield document_id, self.tokens(start, end - 1)
            start = end

    def document_at(self, token: int) -> int:
        """Return the index of the document that token `token` belongs to."""
        if not 0 <= token < self.num_tokens:
            raise IndexError(f"{self.folder}, {self.split}: token {token} is outside 0 to {self.num_tokens}")
        return int(np.searchsorted(self.document_ends, token, side="right"))

    def verify(self) -> None:
        """Read every shard once and compare it with the manifest, a megabyte at a time.

        Raises:
            InputError: At the first shard that holds an id outside the vocabulary, whose EOS ids are not exactly its
                document ends, whose sha256 differs, or whose documents do not add up; the shard and the id are named.
        """
        for shard, mapped in zip(self.shards, self._maps, strict=True):
            path = self._path(shard, ".bin")
            ends = np.fromfile(self._path(shard, ".idx"), "<u8").astype(np.int64)
            seen = 0
            digest = hashlib.sha256()
            for first in range(0, shard.tokens, _CHUNK):
                chunk = mapped[first : first + _CHUNK]
                digest.update(chunk.tobytes())
                highest = int(chunk.max())
                if highest >= self.vocab_size:
                    at = first + int(chunk.argmax())
                    problem = f"token id {highest} at token {at} is outside the vocabulary of {self.vocab_size:,}."
                    raise InputError(str(path), problem, _REWRITE)
                found = np.flatnonzero(chunk == self.eos_id) + (first + 1)
                if not np.array_equal(found, ends[seen : seen + found.size]):
                    known = set(ends[seen : seen + found.size].tolist())
                    at = next((int(end) for end in found.tolist() if end not in known), int(found[-1])) - 1
                    problem = f"the EOS id {self.eos_id} at token {at} is not the end of a document in the .idx."
                    raise InputError(str(path), problem, _REWRITE)
                seen += found.size
            if ends.size and int(ends[-1]) != shard.tokens:
                problem = f"{shard.tokens - int(ends[-1])} tokens follow the end of its last document."
                raise InputError(str(path), problem, _REWRITE)
            if seen != shard.documents:
                problem = f"it has {seen} EOS ids ({self.eos_id}) where the manifest lists {shard.documents} documents."
                raise InputError(str(path), problem, _REWRITE)
            if digest.hexdigest() != shard.sha256:
                problem = f"its sha256 is {digest.hexdigest()}, the manifest says {shard.sha256}."
                raise InputError(str(path), problem, _REWRITE)
            num_bytes = int(self._read_documents(shard)["bytes"].to_numpy().sum())
            if num_bytes != shard.bytes:
                problem = f"its documents have {num_bytes} bytes, the manifest says {shard.bytes}."
                raise InputError(str(self._path(shard, ".docs.parquet")), problem, _REWRITE)

    def _path(self, shard: ShardInfo, ending: str) -> Path:
        return self.folder / (shard.name + ending)

    def _read_documents(self, shard: ShardInfo, schema: pa.Schema = DOCUMENTS) -> pa.Table:
        """Return the columns of a schema; those that may be null are where the file has none."""
        path = self._path(shard, ".docs.parquet")
        try:
            table = pq.read_table(path, schema=schema)
        except (OSError, pa.ArrowException) as error:
            raise InputError(str(path), f"cannot be read ({error}).", _REWRITE) from error
        if table.num_rows != shard.documents:
            problem = f"it lists {table.num_rows} documents, the manifest says {shard.documents}."
            raise InputError(str(path), problem, _REWRITE)
        return table


_REWRITE = "Delete the folder and run the recipe again, or restore the file from where it was written."


def _read_manifest(folder: Path, split: str) -> tuple[dict[str, Any], tuple[ShardInfo, ...]]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        remedy = "The manifest is written last: finish the run that writes this folder."
        raise InputError(str(path), "there is no manifest.", remedy) from error
    except ValueError as error:
        raise InputError(str(path), f"is not JSON ({error}).", _REWRITE) from error
    try:
        dtype_names = {field.name for field in fields(ShardInfo)}
        shards = tuple(
            ShardInfo(**{name: shard[name] for name in dtype_names})
            for shard in manifest["shards"]
            if shard["split"] == split
        )
        stored_dtype(manifest["dtype"])
        for name in ("vocab_size", "eos_id", "tokenizer_sha256"):
            manifest[name]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(str(path), f"is not the manifest of a token source ({error}).", _REWRITE) from error
    return manifest, shards


def _check_size(path: Path, expected: int) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise InputError(str(path), "the file is missing.", _REWRITE) from error
    if size != expected:
        raise InputError(str(path), f"it has {size} bytes where the manifest demands {expected}.", _REWRITE)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable, where the system can fsync a folder."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
