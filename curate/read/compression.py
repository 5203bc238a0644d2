"""Stored bytes to plain bytes: gzip, zstd, lz4 or nothing, told by content, member after member, past damage.

A compressed file is a row of members (gzip's word; frames in zstd and lz4) that can be read one without another. That
is what makes damage survivable: behind a broken member the next one is looked for and reading goes on there. Memory
is bounded by the size of a chunk, whatever a member expands to.

Formats: RFC 1952 (gzip), RFC 8878 (zstd), lz4_Frame_format.md 1.6 (lz4), and IIPC's "WARC/1.1 zstd" draft for the
dictionary frame at the start of a .warc.zst.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol

CHUNK_BYTES = 1 << 20  # most plain bytes in one chunk (zstd: see ZSTD_FEED_BYTES)
FEED_BYTES = 64 << 10  # compressed bytes read at a time
ZSTD_FEED_BYTES = 4 << 10  # its decoder has no output limit; 4 KiB hold at most 1,024 blocks of 128 KiB: 128 MiB
PROBE_BYTES = 64 << 10  # plain bytes that must come out of a candidate before it counts as a member
MAX_DICTIONARY_BYTES = 16 << 20
ZSTD_DICTIONARY = b"\x5d\x2a\x4d\x18"

MAGIC = {"gzip": b"\x1f\x8b\x08", "zstd": b"\x28\xb5\x2f\xfd", "lz4": b"\x04\x22\x4d\x18"}
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)  # metadata frames of zstd and lz4
REFUSED = {
    b"PK\x03\x04": "a zip archive (WACZ, EPUB, XLSX)",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "a 7-zip archive",
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the plain bytes, or a report of damage.

    Attributes:
        data: Plain bytes; empty in a report.
        member: Byte offset in the stored file of the member that they come from; 0 in a plain file.
        problem: What is wrong, where, and what to do: the bytes that this member gave so far are all that it gives.
        at_end: Nothing follows the damage: the file is cut.
    """

    data: bytes
    member: int
    problem: str = ""
    at_end: bool = False


class Decoder(Protocol):
    """Decodes one member."""

    eof: bool
    unused: bytes

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` decodes to, in pieces of bounded size; set `eof` and `unused` at the member's end."""
        ...


class _Gzip:
    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)
        self.eof = False
        self.unused = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            out = self._decoder.decompress(data, CHUNK_BYTES)
            self.eof = self._decoder.eof
            self.unused = self._decoder.unused_data
            if out:
                yield out
            data = self._decoder.unconsumed_tail
            if self.eof or not (data or len(out) == CHUNK_BYTES):
                return


class _Zstd:
    def __init__(self, dictionary: bytes = b"") -> None:
        import zstandard

        trained = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        self._decoder = zstandard.ZstdDecompressor(dict_data=trained).decompressobj()
        self.eof = False
        self.unused = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), ZSTD_FEED_BYTES):
            out = self._decoder.decompress(data[start : start + ZSTD_FEED_BYTES])
            self.eof = self._decoder.eof
            if self.eof:
                self.unused = self._decoder.unused_data + data[start + ZSTD_FEED_BYTES :]
            for piece in range(0, len(out), CHUNK_BYTES):
                yield out[piece : piece + CHUNK_BYTES]
            if self.eof:
                return


class _Lz4:
    def __init__(self) -> None:
        import lz4.frame  # type: ignore[import-untyped, unused-ignore]

        self._decoder: Any = lz4.frame.LZ4FrameDecompressor()
        self.eof = False
        self.unused = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            out = self._decoder.decompress(data, CHUNK_BYTES)
            self.eof = self._decoder.eof
            self.unused = self._decoder.unused_data or b""
            if out:
                yield out
            if self.eof or self._decoder.needs_input:
                return
            data = b""


def compression_of(head: bytes) -> str:
    """Return gzip, zstd, lz4 or plain for the first bytes of a file."""
    for kind, magic in MAGIC.items():
        if head.startswith(magic):
            return kind
    if SKIPPABLE.match(head):
        return "zstd"
    return "plain"


def refusal(head: bytes) -> str:
    """Return why a file that begins with `head` cannot be read as records, or an empty string."""
    for magic, what in REFUSED.items():
        if head.startswith(magic):
            return f"this is {what}, which is not read; unpack it, or pack its content as gzip, zstd or lz4"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "this is UTF-16; convert the file to UTF-8 (iconv -f UTF-16 -t UTF-8)"
    return ""


class _Compressed:
    """The members of one file."""

    def __init__(self, file: IO[bytes], kind: str, starts: Callable[[bytes], bool] | None) -> None:
        self._file = file
        self._kind = kind
        self._starts = starts
        self._dictionary = b""
        self._seekable = file.seekable()

    def _decoder(self) -> Decoder:
        if self._kind == "gzip":
            return _Gzip()
        return _Zstd(self._dictionary) if self._kind == "zstd" else _Lz4()

    def chunks(self, data: bytes, offset: int = 0) -> Iterator[Chunk]:
        """Yield the chunks of the file from `offset` on, of which `data` has been read."""
        while data or (data := self._file.read(FEED_BYTES)):
            # Members are fed in pieces counted from their start: how much of a damaged one comes out depends on it, and
            # must not depend on where in the file reading began.
            while len(data) < FEED_BYTES and (more := self._file.read(FEED_BYTES - len(data))):
                data += more
            if self._kind != "gzip" and SKIPPABLE.match(data):
                offset, data = self._skip_frame(offset, data)
                continue
            if not data.startswith(MAGIC[self._kind]):
                stripped = data.lstrip(b"\0")
                if not stripped or stripped.startswith(MAGIC[self._kind]):  # tapes and tar pad with zeros
                    offset, data = offset + len(data) - len(stripped), stripped
                    continue
            decoder = self._decoder()
            member, error = offset, ""
            try:
                while True:
                    for out in decoder.feed(data):
                        yield Chunk(out, member)
                    if decoder.eof:
                        break
                    offset += len(data)
                    data = self._file.read(FEED_BYTES)
                    if not data:
                        break
            except Exception as exception:  # zlib.error, ZstdError, RuntimeError: each library has its own
                if isinstance(exception, OSError | MemoryError):
                    raise
                error = str(exception)
            if decoder.eof and not error:
                offset += len(data) - len(decoder.unused)
                data = decoder.unused
                continue
            at_end = not error
            found, offset, data = self._next_member(member, at_end)
            yield Chunk(b"", member, self._describe(member, error, found, offset), at_end and not found)
            if not found:
                return

    def _describe(self, member: int, error: str, found: bool, offset: int) -> str:
        what = f"the {self._kind} member at byte {member} "
        what += f"is damaged ({error})" if error else "is incomplete: unexpected end of file, the file is truncated"
        then = f"reading goes on at byte {offset}" if found else "nothing behind it can be read"
        return f"{what}; {then}. Fetch or write the file again"

    def _skip_frame(self, offset: int, data: bytes) -> tuple[int, bytes]:
        """Skip a metadata frame; keep the dictionary if it is one. Return the place behind it and the bytes there."""
        size = 8 + int.from_bytes(data[4:8], "little")
        is_dictionary = self._kind == "zstd" and data.startswith(ZSTD_DICTIONARY) and size <= MAX_DICTIONARY_BYTES
        frame = data[:size] if is_dictionary else b""
        rest = data[size:]
        left = size - (len(data) - len(rest))
        while left > 0 and (data := self._file.read(FEED_BYTES)):
            if is_dictionary:
                frame += data[:left]
            rest = data[left:]
            left -= len(data) - len(rest)
        if is_dictionary:
            import zstandard

            self._dictionary = frame[8:]
            if self._dictionary.startswith(MAGIC["zstd"]):
                self._dictionary = zstandard.ZstdDecompressor().decompress(
                    self._dictionary, max_output_size=MAX_DICTIONARY_BYTES
                )
        return offset + size, rest

    def _next_member(self, member: int, at_end: bool) -> tuple[bool, int, bytes]:
        """Look for the first member behind the damaged one at `member`.

        A broken member may have swallowed the start of the next before the error showed, so the search begins right
        behind its own magic. After a cut, only a caller that knows how records start can tell a member that inflate
        ran over from a gzip file inside the payload.

        Returns:
            Whether there is one, its offset, and the file's bytes from there.
        """
        if not self._seekable or (at_end and self._starts is None):
            return False, 0, b""
        magic = MAGIC[self._kind]
        offset = member + 1
        self._file.seek(offset)
        data = self._file.read(FEED_BYTES)
        while len(data) >= len(magic):
            place = data.find(magic)
            while place >= 0:
                self._file.seek(offset + place)
                candidate = self._file.read(FEED_BYTES)
                if self._is_member(candidate):
                    return True, offset + place, candidate
                place = data.find(magic, place + 1)
            offset += len(data) - len(magic) + 1  # a magic may lie across two reads
            self._file.seek(offset)
            data = self._file.read(FEED_BYTES)
        return False, 0, b""

    def _is_member(self, data: bytes) -> bool:
        decoder, head = self._decoder(), b""
        try:
            for out in decoder.feed(data):
                head += out
                if len(head) >= PROBE_BYTES:
                    break
        except Exception as exception:
            if isinstance(exception, MemoryError):
                raise
            return False
        return bool(head) and (self._starts is None or self._starts(head))


def read_chunks(
    file: IO[bytes], starts: Callable[[bytes], bool] | None = None, at: int = 0, head: bytes | None = None
) -> tuple[str, Iterator[Chunk]]:
    """Return the compression of a file and its plain bytes.

    Args:
        file: The stored bytes, at their start. Members behind a damaged one are found only if it is seekable.
        starts: Tells whether plain bytes begin a record. It keeps the search behind damage from taking a compressed
            payload inside the damaged member for a member.
        at: Byte to start at instead, where a member begins that needs no dictionary; the file must be seekable.
        head: The bytes from there on that have been read already: the file stands behind them.
    """
    if head is None:
        if at:
            file.seek(at)
        head = file.read(FEED_BYTES)
    kind = compression_of(head)
    if kind != "plain":
        return kind, _Compressed(file, "lz4" if _is_lz4(head) else kind, starts).chunks(head, at)

    def plain() -> Iterator[Chunk]:
        data: bytes = head
        while data:
            yield Chunk(data, 0)
            data = file.read(CHUNK_BYTES)

    return kind, plain()


def _is_lz4(head: bytes) -> bool:
    """Whether the first frame that is no metadata frame is lz4's (both formats share the metadata frames)."""
    while SKIPPABLE.match(head):
        head = head[8 + int.from_bytes(head[4:8], "little") :]
    return head.startswith(MAGIC["lz4"])
