"""The rows of a benchmark file, told by its content: JSON Lines, one JSON text, Parquet or Arrow, plain or compressed."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from curate.arrow_files import arrow_batches, kind_of, stream_ends
from curate.errors import InputError
from curate.text.decoding import without_surrogates

if TYPE_CHECKING:
    import pyarrow as pa

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_OTHERS = {
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PK\x03\x04": "a zip archive",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x04\x22\x4d\x18": "compressed with lz4",
}
_MEND = "Mend or remove that line: a benchmark that is read in part would let leaks through."
_ELEMENTS = ("data", "examples", "items", "questions", "rows", "instances")  # where one JSON object holds its items
_ABOUT = frozenset({"version", "canary", "name", "description", "license", "licence", "citation", "source", "url"})
_ROWS = 1000


def records(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a file, each with its line or row number, 1-based.

    A JSON array gives its elements. A single JSON object is one row: `each` of a mapping says where its items are.

    Raises:
        InputError: A file that cannot be read in whole: line or row, and remedy.
    """
    with Path(path).open("rb") as file:
        kind, head = kind_of(file), file.read(8)
        file.seek(0)
        if kind == "parquet":
            yield from _numbered(path, _parquet_batches(path))
        elif kind:
            yield from _numbered(path, _arrow_batches(file, kind))
        else:
            for start, what in _OTHERS.items():
                if head.startswith(start):
                    remedy = "Write it as JSON Lines in UTF-8 (plain, gzip, zstd), or as Parquet."
                    raise InputError(path, f"is {what}, which is not read here.", remedy)
            yield from _json_rows(path, file)


def own_items(record: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the items of a file that is one JSON object with a list of them, or None if it is an item itself."""
    rest = [key for key in record if key not in _ABOUT]
    items = record[rest[0]] if len(rest) == 1 and rest[0] in _ELEMENTS else None
    return items if isinstance(items, list) and items and all(isinstance(item, dict) for item in items) else None


def _json_rows(path: str, file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    lines, line = None, 0
    try:
        lines = _decompressed(file)
        while data := lines.readline():
            line += 1
            if line == 1:
                data = data.removeprefix(b"\xef\xbb\xbf")
            if not data.strip():
                continue
            try:
                value = json.loads(data)
            except (ValueError, RecursionError) as error:
                if line > 1 or data.lstrip()[:1] not in (b"[", b"{") or data.rstrip().endswith(b"}"):
                    raise InputError(path, f"line {line} is no JSON ({error}).", _remedy(data)) from error
                yield from _whole(path, data + lines.read(), error)
                return
            if isinstance(value, list) and line == 1:
                yield from _whole(path, data + lines.read())
                return
            if not isinstance(value, dict):
                raise InputError(path, f"line {line} is no JSON object but {type(value).__name__}.", _MEND)
            yield line, without_surrogates(value)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(path, f"line {line + 1} cannot be decompressed ({error}).", "Fetch it again.") from error


def _remedy(data: bytes) -> str:
    """Return what to do about a line that is no JSON, which in a table it cannot be."""
    if data[:1] in (b"{", b"["):
        return _MEND
    return "If this is a table (CSV, TSV) or text, write it as JSON Lines or Parquet; else mend or remove that line."


def _whole(path: str, data: bytes, before: Exception | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of one JSON text: the elements of an array, or an object.

    Args:
        path: The file.
        data: All of it.
        before: What was wrong with its first line alone.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        problem = f"line 1 is no JSON ({before or error}), and neither is the whole file ({error})."
        raise InputError(path, problem, _MEND) from error
    for number, item in enumerate(value if isinstance(value, list) else [value], 1):
        if not isinstance(item, dict):
            problem = f"line 1 is no JSON object but list, and its element {number} is {type(item).__name__}."
            raise InputError(path, problem, "A JSON array must hold one object for each item.")
        yield number, without_surrogates(item)


def _decompressed(file: IO[bytes]) -> IO[bytes] | gzip.GzipFile:
    """Return the plain bytes of `file`, told by its first bytes: names lie."""
    magic = file.read(4)
    file.seek(0)
    if magic.startswith(_GZIP):
        return gzip.GzipFile(fileobj=file)
    if magic == _ZSTD:
        return io.BytesIO(_zstd(file.read()))
    return file


def _zstd(data: bytes) -> bytes:
    """Return the content of zstd frames; a stream reader would take a cut-off frame for a whole one."""
    import zstandard

    parts: list[bytes] = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(data))
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from error
        if not frame.eof:
            raise EOFError("the file ends inside a zstd frame")
        data = frame.unused_data
    return b"".join(parts)


def _numbered(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa

    row = 0
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS):
                for record in batch.slice(start, _ROWS).to_pylist():
                    row += 1
                    yield row, record
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"row {row + 1} cannot be read ({str(error).rstrip('.')})."
        raise InputError(path, problem, "Fetch or write the file again: strings must be UTF-8.") from error


def _parquet_batches(path: str) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as table:
        yield from table.iter_batches(batch_size=_ROWS)


def _arrow_batches(file: IO[bytes], kind: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow file: with an index, or the stream that `datasets.save_to_disk` writes."""
    import pyarrow as pa

    yield from arrow_batches(file, kind)
    if kind == "stream" and not stream_ends(file):
        raise pa.ArrowInvalid("the stream has no end mark: it is truncated")
