"""Where reading may begin inside a WARC file so that it gives the records which reading from the start gives.

The bytes of a record may look like records: a payload can be a WARC file itself, stored as it is. So a place is not
taken because a record seems to begin there.

- In a gzip file, bytes of a payload can only show where deflate stores them uncompressed, in blocks of at most 65,535
  bytes (RFC 1951, 3.2.4), between other bytes. Whole members that follow each other for longer than that are members of
  the file. Only a record divided over several members whose pieces happen to begin like records would be misread; no
  writer makes such files.
- In a plain file nothing tells: it is gone through from its start, from header to header.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import IO

from curate.read.compression import FEED_BYTES, MAGIC
from curate.read.warc_records import LOOKAHEAD_BYTES, PADDING, Manner, RecordReader, parse_header, starts_record

MAX_STORED_BLOCK_BYTES = (1 << 16) - 1
LOOK_BYTES = 4 << 20  # a file whose first members are longer is not cut
FIRST_WINDOW_BYTES = 256 << 10  # looked through before a cut, then four times as much before that, and so on
AHEAD_BYTES = 256 << 10  # read behind a window: members that begin in it end there
PLAIN_BYTES = 256 << 10  # inflated at a time


def is_row_of_members(file: IO[bytes]) -> bool:
    """Whether a gzip file begins with members that begin records."""
    file.seek(0)
    data = file.read(LOOK_BYTES)
    first = _member_end(data, 0)
    return 0 < first < len(data) and _is_chain(data, 0, at_end=len(data) < LOOK_BYTES)


def member_before(file: IO[bytes], place: int) -> int:
    """Return a byte of a gzip file, `place` or before, where reading from the start of the file meets a member."""
    size = file.seek(0, 2)
    window = FIRST_WINDOW_BYTES
    last = place
    while last > 0:
        first = max(0, last - window)
        file.seek(first)
        data = file.read(last - first + AHEAD_BYTES)
        found = data.find(MAGIC["gzip"])
        while 0 <= found <= last - first:
            if _is_chain(data, found, at_end=first + len(data) == size):
                return first + found
            found = data.find(MAGIC["gzip"], found + 1)
        last, window = first, min(4 * window, LOOK_BYTES)
    return 0


def _is_chain(data: bytes, start: int, at_end: bool) -> bool:
    """Whether members that begin like records follow each other from `start` on for longer than a stored block.

    Args:
        data: Bytes of the file.
        start: Where the first begins.
        at_end: Whether the file ends with `data`; then they may end there, too.
    """
    place = start
    while place - start <= MAX_STORED_BLOCK_BYTES:
        if place == len(data):
            return at_end and place > start
        place = _member_end(data, place)
        if place < 0:
            return False
    return True


def _member_end(data: bytes, start: int) -> int:
    """Return where a gzip member ends, or -1 if it is damaged, goes on behind `data`, or does not begin a record."""
    decoder = zlib.decompressobj(wbits=31)
    place, head = start, b""
    try:
        while not decoder.eof:
            stored = decoder.unconsumed_tail
            if not stored:
                stored = data[place : place + FEED_BYTES]
                place += len(stored)
            plain = decoder.decompress(stored, PLAIN_BYTES)
            if len(head) < LOOKAHEAD_BYTES:
                head += plain
                if len(head) >= LOOKAHEAD_BYTES and not starts_record(head):
                    return -1
            if not stored and not plain:
                return -1
    except zlib.error:
        return -1
    return place - len(decoder.unused_data) if starts_record(head) else -1


def plain_cuts(file: IO[bytes], name: str, every: int, max_bytes: int) -> Iterator[int]:
    """Yield the first record of an uncompressed file behind each multiple of `every` bytes."""
    least = every
    for place in _record_starts(file, name, max_bytes):
        if place >= least:
            yield place
            least = (place // every + 1) * every


def _record_starts(file: IO[bytes], name: str, max_bytes: int) -> Iterator[int]:
    """Yield where the records of an uncompressed file begin, as reading from its start finds them."""
    place, data = 0, b""
    while True:
        if not data:
            file.seek(place)
            data = file.read(2 * LOOKAHEAD_BYTES)
        header = parse_header(data)
        if header is not None and header.length is not None and header.length <= max_bytes:
            end = place + header.size + header.length
            file.seek(end)
            data = file.read(2 * LOOKAHEAD_BYTES)
            rest = data.lstrip(PADDING)
            if data.startswith(2 * PADDING) and rest:
                place, data = end + len(data) - len(rest), rest
                yield place
                continue
        file.seek(place)
        reader = RecordReader(file, Manner(name, max_bytes), offset=place, data=file.read(FEED_BYTES), leave=place + 1)
        for _ in reader.records():
            pass
        if reader.left is None:
            return
        place, data = reader.left, b""
        yield place
