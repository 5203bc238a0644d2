"""Records of an undamaged gzip file whose every member is one record: many at a time, straight to Arrow columns.

This is the quick way through the files that crawlers write. A member is taken only if it is whole and holds exactly one
record in the usual form. Whatever is in another form is left to `curate.read.warc_records`, which understands
everything, and which would have given the same rows for what is taken here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from curate.read.compression import FEED_BYTES
from curate.read.warc_columns import MAX_HEADER_BYTES, Records
from curate.read.warc_records import Manner

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Int64s = npt.NDArray[np.int64]

# A member as writers make it. One with another header is not found, and then the sizes do not add up.
MEMBER = re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04]", re.DOTALL)
LEAST_MEMBER_BYTES = 18


class Members:
    """The members of a gzip file, as long as nothing is unusual about them."""

    def __init__(self, file: IO[bytes], stop: int | None, manner: Manner) -> None:
        """Prepare to read.

        Args:
            file: The stored bytes.
            stop: Members that begin here or later are not wanted.
            manner: How to read.
        """
        self._file = file
        self._stop = stop
        self._manner = manner
        self._max_bytes = manner.max_bytes
        # Used again for each batch: to touch fresh memory costs more than what is done in it.
        self._stored = _room(b"", 2 * FEED_BYTES)
        self._base = 0  # of the stored bytes in the file
        self._place = 0  # of the next member in the stored bytes
        self._end = 0  # of what has been read, in the stored bytes

    def begin(self, offset: int, data: bytes) -> None:
        """Begin at the member at byte `offset`; `data` has been read from there on, and the file stands behind it."""
        self._base, self._place, self._end = offset, 0, 0
        self._append(data)

    @property
    def offset(self) -> int:
        """Where the next member begins in the file."""
        return self._base + self._place

    @property
    def unread(self) -> bytes:
        """The bytes from the next member on that have been read."""
        return bytes(self._stored[self._place : self._end])

    @property
    def finished(self) -> bool:
        """Whether no further member is wanted."""
        if self._stop is not None and self.offset >= self._stop:
            return True
        return self._place == self._end and not self._more()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield RAW batches, until a member is not plain or none is wanted; `offset` then says where."""
        records = Records(self._manner)
        while self._fill(records):
            yield from records.batches()
            if records.count < len(records.offsets):
                self._place = records.offsets[records.count] - self._base
                return
            records.clear()

    def _fill(self, records: Records) -> bool:
        """Inflate the next whole members, as many as make a batch. Return whether there is one."""
        from isal import isal_zlib

        rest = self.unread
        self._stored[: len(rest)] = rest
        self._base, self._place, self._end = self.offset, 0, len(rest)
        while not records.full and not self.finished:
            offset = self.offset
            plain = self._take(isal_zlib)
            if plain is None:
                break
            records.add(offset, plain)
        return bool(records.offsets)

    def _take(self, isal_zlib: Any) -> bytes | None:
        """Return the plain bytes of the next member if it is whole and ends where the one behind it begins."""
        start = self._place
        searched = start + LEAST_MEMBER_BYTES
        while (match := MEMBER.search(self._stored, searched, self._end)) is None:
            searched = max(searched, self._end - 8)  # a header may lie across two reads
            if self._end - start > self._max_bytes or not self._more():
                break
        end = match.start() if match else self._end
        data = self._stored
        size = int.from_bytes(data[end - 4 : end], "little")
        if end - start < LEAST_MEMBER_BYTES or size > self._max_bytes + MAX_HEADER_BYTES:
            return None
        decoder = isal_zlib.decompressobj(31)
        try:
            plain: bytes = decoder.decompress(data[start:end], size + 1)
        except isal_zlib.error:
            return None
        if not decoder.eof or decoder.unused_data or len(plain) != size:
            return None
        self._place = end
        return plain

    def _more(self) -> bool:
        data = self._file.read(FEED_BYTES)
        self._append(data)
        return bool(data)

    def _append(self, data: bytes) -> None:
        if self._end + len(data) > len(self._stored):
            self._stored = _room(self._stored[: self._end], self._end + len(data))
        self._stored[self._end : self._end + len(data)] = data
        self._end += len(data)


def _room(data: bytes | memoryview, size: int) -> memoryview:
    """Return memory that begins with `data` and has room for `size` more bytes."""
    view = memoryview(bytearray(len(data) + size))
    view[: len(data)] = data
    return view
