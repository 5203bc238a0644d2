"""Whole files of bounded size: unpacked, or the row that says why not."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import IO, Any

from curate.read.compression import read_chunks, refusal

# Binary formats whose first kilobytes can look like text.
BINARY_MAGIC = (b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"\x7fELF", b"wOFF", b"wOF2", b"\xca\xfe\xba\xbe")


@dataclass(frozen=True, slots=True)
class Whole:
    """A file's content.

    Attributes:
        content: Its bytes, unpacked.
        is_packed: Whether it was compressed, so that its name ends in one ending more.
    """

    content: bytes
    is_packed: bool


def read_whole(file: IO[bytes], name: str, max_bytes: int) -> Whole | dict[str, Any]:
    """Return a file's content, or a row that says why it cannot be read: `read.truncated`, `.bad_record`, `.too_large`."""
    kind, chunks = read_chunks(file)
    data = io.BytesIO()
    for chunk in chunks:
        if chunk.problem:
            return bad_row("read.truncated" if chunk.at_end else "read.bad_record", name, chunk.problem)
        data.write(chunk.data)
        if data.tell() > max_bytes:
            limit = f"the file exceeds the limit of {max_bytes} bytes (max_bytes). Raise max_bytes to read it"
            return bad_row("read.too_large", name, limit)
    return Whole(data.getvalue(), kind != "plain")


def is_binary(content: bytes) -> bool:
    """Whether a file is no text: it holds NUL bytes (UTF-16 and UTF-32 with a mark apart) or a binary format's mark."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return len(content) % 2 == 1
    return content.startswith(BINARY_MAGIC) or b"\0" in content or bool(refusal(content))


def binary_row(content: bytes, name: str) -> dict[str, Any]:
    """Return the row of a binary file."""
    why = refusal(content) or "a binary file, text was expected. Exclude it from the paths"
    return bad_row("read.undecodable", name, why)


def bad_row(rule: str, name: str, why: str) -> dict[str, Any]:
    """Return the values of a row that is no document."""
    return {"rule": rule, "detail": f"{name}: {why}"}
