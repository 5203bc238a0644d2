"""WARC, WET and ARC records to document batches.

Every record met becomes a row: a document, a record of a type that holds no document (`skipped.<type>`), or a record
that cannot be used (`read.*`). A record is given out only when its end has been seen where its length says it is, and,
in a compressed file, when its member was found undamaged. Behind damage, reading goes on at the next member or at the
next line that starts a record.

Formats: WARC 1.0 and 1.1 (ISO 28500), 0.17 and 0.18 by the same rules; ARC 1 and 2 (Internet Archive, 1996).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, ClassVar

from pydantic import Field

from curate.read.compression import FEED_BYTES, MAGIC, compression_of, refusal
from curate.read.rows import MAX_RECORD_BYTES, Rows
from curate.read.warc_cuts import is_row_of_members, member_before, plain_cuts
from curate.read.warc_members import Members, PlainRecords, Quick
from curate.read.warc_records import Manner, RecordReader
from curate.stage import Cut, Source, even_cuts

if TYPE_CHECKING:
    import pyarrow as pa

MAX_STINT_BYTES = 64 << 20


class Warc(Source):
    """WARC, WET and ARC files, plain or as gzip, zstd or lz4, one record a member or all in one.

    Attributes:
        max_bytes: Largest record block, and largest body after content decoding; above it the record is removed as
            `read.too_large`, in bounded memory.
        verify_digests: Note in the metadata, as `digest_mismatch`, which digest a payload has where its record states
            another. It takes about as long as reading.

    Of a `response` the HTTP body becomes `content`, of a `resource` the whole block; a `conversion` (WET) gives
    `text`. Status and media type are handed on, not filtered. Offsets are those of the compressed member, with the
    record's number inside it as `part`; in a plain file those of the record. Gzip files of one record a member, and plain
    ones, can be read in parts.
    Rules: read.bad_record, read.truncated, read.too_large, read.undecodable, skipped.<record type>.
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = (
        "brotli",
        "charset-normalizer",
        "isal",
        "lz4",
        "resiliparse",
        "zstandard",
    )

    max_bytes: int = Field(default=MAX_RECORD_BYTES, ge=1)
    verify_digests: bool = False

    def read(self, file: IO[bytes], name: str) -> Iterator[pa.RecordBatch]:
        """Yield the file's records as RAW batches."""
        return self._batches(file, name, 0, None)

    def cuts(self, file: IO[bytes], name: str, every: int) -> tuple[Cut, ...]:
        """Return the multiples of `every` in a gzip file of one record a member; in a plain file, records behind them.

        Other files stay whole: one gzip stream, zstd, lz4. A plain file is gone through from header to header.
        """
        file.seek(0)
        head = file.read(FEED_BYTES)
        if head.startswith(MAGIC["gzip"]):
            return even_cuts(file.seek(0, 2), every) if is_row_of_members(file) else ()
        if compression_of(head) != "plain" or refusal(head):
            return ()
        last = file.seek(0, 2) - every // 2
        return tuple(Cut(place, place) for place in plain_cuts(file, name, every, self.max_bytes) if place < last)

    def read_part(self, file: IO[bytes], name: str, start: Cut, stop: Cut | None) -> Iterator[pa.RecordBatch]:
        """Yield the records that begin in [start.offset, stop.offset)."""
        begin = start.byte
        file.seek(0)
        if file.read(len(MAGIC["gzip"])) == MAGIC["gzip"]:
            begin = member_before(file, start.byte)
        file.seek(begin)
        for batch in self._batches(file, name, begin, None if stop is None else stop.offset):
            before = int(batch["offset"].to_numpy().searchsorted(start.offset))
            if before < batch.num_rows:
                yield batch.slice(before)

    def _batches(self, file: IO[bytes], name: str, offset: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the records from the one at `offset` on, as far as they begin before `stop`.

        Two readers take turns: one that knows usual records only, and, from one that is not, one that knows everything,
        until it stands at the start of a later record or member. With each turn in which the first finds nothing, the
        second keeps going for longer.
        """
        manner = Manner(name, self.max_bytes, self.verify_digests)
        quick: Quick | None = None
        stint = 1
        while True:
            data = file.read(FEED_BYTES)
            if quick is None:
                kind = compression_of(data)
                quick = Members(file, stop, manner) if kind == "gzip" else PlainRecords(file, stop, manner)
            leave = None
            if kind in ("gzip", "plain"):
                quick.begin(offset, data)
                for batch in quick.batches():
                    stint = 1
                    yield batch
                if quick.finished:
                    return
                offset, data = quick.offset, quick.unread
                if file.seekable():
                    data, leave = data[:FEED_BYTES], offset + stint
                    file.seek(offset + len(data))
            records = RecordReader(file, manner, offset=offset, data=data, leave=leave)
            yield from _collected(records, stop)
            if records.left is None or (stop is not None and records.left >= stop):
                return
            offset = records.left
            file.seek(offset)
            stint = min(max(stint * 2, FEED_BYTES), MAX_STINT_BYTES)


def _collected(reader: RecordReader, stop: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the records that begin before `stop`."""
    rows = Rows()
    for record in reader.records():
        if stop is not None and record.offset >= stop:
            break
        rows.add(record.offset, part=record.part, **record.values)
        if rows.full:
            yield rows.flush()
    if len(rows):
        yield rows.flush()
