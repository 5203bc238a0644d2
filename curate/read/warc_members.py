"""Records of undamaged files in the usual form: many at a time, straight to Arrow columns.

This is the quick way through the files that crawlers write: gzip members of one record each, or plain records. A member
is taken only if it is whole and holds exactly one record, a plain record only if it ends where it should. Whatever is
in another form is left to `curate.read.warc_records`, which understands everything, and which would have given the same
rows for what is taken here.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from curate.read.compression import FEED_BYTES
from curate.read.warc_columns import HEAD_BYTES, RECORD_END, Records
from curate.read.warc_records import Manner

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Int64s = npt.NDArray[np.int64]

# A member as writers make it. One with another header is not found, and then the sizes do not add up.
MEMBER = re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04]", re.DOTALL)
LEAST_MEMBER_BYTES = 18
MAX_STORED_BYTES = 8 << 20  # of a member
CONTENT_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)")


class Quick(ABC):
    """Takes records of a file, as long as nothing is unusual about them."""

    def __init__(self, file: IO[bytes], stop: int | None, manner: Manner) -> None:
        """Prepare to read.

        Args:
            file: The stored bytes.
            stop: Records that begin here or later are not wanted.
            manner: How to read.
        """
        self._file = file
        self._stop = stop
        self._manner = manner
        # Used again for each batch: to touch fresh memory costs more than what is done in it.
        self._stored = _room(b"", 2 * FEED_BYTES)
        self._base = 0  # of the stored bytes in the file
        self._place = 0  # of the next record in the stored bytes
        self._end = 0  # of what has been read, in the stored bytes

    def begin(self, offset: int, data: bytes) -> None:
        """Begin at the record or member at byte `offset`; `data` has been read from there on, and the file stands behind it."""
        self._base, self._place, self._end = offset, 0, 0
        self._append(data)

    @property
    def offset(self) -> int:
        """Where the next record begins in the file."""
        return self._base + self._place

    @property
    def unread(self) -> bytes:
        """The bytes from the next record on that have been read."""
        return bytes(self._stored[self._place : self._end])

    @property
    def finished(self) -> bool:
        """Whether no further record is wanted."""
        if self._stop is not None and self.offset >= self._stop:
            return True
        return self._place == self._end and not self._more()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield RAW batches, until a record is unusual or none is wanted; `offset` then says where."""
        records = Records(self._manner)
        while self._fill(records):
            yield from records.batches()
            if records.count < len(records.offsets):
                self._place = records.offsets[records.count] - self._base
                return
            records.clear()

    def _fill(self, records: Records) -> bool:
        """Take the next records, as many as make a batch. Return whether there is one."""
        rest = self.unread
        self._stored[: len(rest)] = rest
        self._base, self._place, self._end = self.offset, 0, len(rest)
        while not records.full and not self.finished:
            offset = self.offset
            plain = self._take()
            if plain is None:
                break
            records.add(offset, plain)
        return bool(records.offsets)

    @abstractmethod
    def _take(self) -> bytes | memoryview | None:
        """Return the next record with the line ends behind it, and pass over it; None if it is unusual."""

    def _more(self) -> bool:
        data = self._file.read(FEED_BYTES)
        self._append(data)
        return bool(data)

    def _append(self, data: bytes) -> None:
        if self._end + len(data) > len(self._stored):
            self._stored = _room(self._stored[: self._end], self._end + len(data))
        self._stored[self._end : self._end + len(data)] = data
        self._end += len(data)


class Members(Quick):
    """Gzip members that hold one record each."""

    def _take(self) -> bytes | None:
        """Return the plain bytes of the next member if it is whole and ends where the one behind it begins."""
        from isal import igzip_lib, isal_zlib

        start = self._place
        searched = start + LEAST_MEMBER_BYTES
        while (match := MEMBER.search(self._stored, searched, self._end)) is None:
            searched = max(searched, self._end - 8)  # a header may lie across two reads
            if self._end - start > MAX_STORED_BYTES or not self._more():
                break
        end = match.start() if match else self._end
        data = self._stored
        size = int.from_bytes(data[end - 4 : end], "little")
        if end - start < LEAST_MEMBER_BYTES or size > self._manner.max_bytes + HEAD_BYTES:
            return None
        decoder = isal_zlib.decompressobj(31)
        try:
            plain: bytes = decoder.decompress(data[start:end], size + 1)
        except igzip_lib.IsalError:  # type: ignore[misc]  # the stub takes the class for an instance
            return None
        if not decoder.eof or decoder.unused_data or len(plain) != size:
            return None
        self._place = end
        return plain


class PlainRecords(Quick):
    """Records of a file without compression."""

    def _take(self) -> memoryview | None:
        """Return the next record if two line ends stand where it says that it ends."""
        start = self._place
        while (length := _length(bytes(self._stored[start : min(start + HEAD_BYTES, self._end)]))) is None:
            if self._end - start >= HEAD_BYTES or not self._more():
                return None
        size, block = length
        if block > self._manner.max_bytes:
            return None
        while self._end - start < size:
            if not self._more():
                return None
        self._place = start + size
        return self._stored[start : start + size]


def _length(head: bytes) -> tuple[int, int] | None:
    """Return the bytes of a plain record with the line ends behind it, and those of its block; None if not said."""
    end = head.find(RECORD_END)
    found = CONTENT_LENGTH.findall(head, 0, end + 2) if end > 0 else []
    return (end + int(found[0]) + 2 * len(RECORD_END), int(found[0])) if len(found) == 1 else None


def _room(data: bytes | memoryview, size: int) -> memoryview:
    """Return memory that begins with `data` and has room for `size` more bytes."""
    view = memoryview(bytearray(len(data) + size))
    view[: len(data)] = data
    return view
