"""Records of an undamaged gzip file whose every member is one record: many at a time, straight to Arrow columns.

This is the quick way through the files that crawlers write. A member is taken only if it is whole and holds exactly one
record in the usual form. Whatever is in another form is left to `curate.read.warc_records`, which understands
everything, and which would have given the same rows for what is taken here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import IO, TYPE_CHECKING, Any

from curate.read.compression import FEED_BYTES
from curate.read.digest import mismatch
from curate.read.http import parse_media_type
from curate.read.rows import MAX_ROWS, Rows
from curate.read.warc_records import Manner, read_record

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Int64s = npt.NDArray[np.int64]

GROUP_BYTES = 4 << 20  # plain bytes of a batch: twice as much falls out of the processor's cache, half is no faster
MAX_HEADER_BYTES = 64 << 10  # of a record; a longer one is not read here
# A member as writers make it. One with another header is not found, and then the sizes do not add up.
MEMBER = re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04]", re.DOTALL)
LEAST_MEMBER_BYTES = 18
RECORD_END = b"\r\n\r\n"
METADATA = ("date", "digest", "record_id", "languages", "truncated", "segment")


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
        # Both buffers are used again for each batch: to touch fresh memory costs more than what is done in it.
        self._stored = _room(b"", 2 * FEED_BYTES)
        self._plain = _room(b"", GROUP_BYTES)
        self._starts = [0]  # of the records in the plain bytes, and the end
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
        while offsets := self._fill():
            group = _Group(offsets, self._starts, self._plain, self._manner)
            yield from group.batches()
            if group.count < len(offsets):
                self._place = offsets[group.count] - self._base
                return

    def _fill(self) -> list[int]:
        """Inflate the next whole members, as many as make a batch. Return where each begins in the file."""
        from isal import isal_zlib

        offsets: list[int] = []
        self._starts = [0]
        size = 0
        rest = self.unread
        self._stored[: len(rest)] = rest
        self._base, self._place, self._end = self.offset, 0, len(rest)
        while len(offsets) < MAX_ROWS and size < GROUP_BYTES and not self.finished:
            offset = self.offset
            plain = self._take(isal_zlib)
            if plain is None:
                break
            if size + len(plain) > len(self._plain):
                self._plain = _room(self._plain[:size], len(plain) + GROUP_BYTES)
            self._plain[size : size + len(plain)] = plain
            size += len(plain)
            offsets.append(offset)
            self._starts.append(size)
        return offsets

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


class _Group:
    """Records whose headers are read together.

    Attributes:
        count: How many of them, from the first, can be used; of the one behind these it is not sure where it ends.
    """

    def __init__(self, offsets: list[int], starts: list[int], plain: memoryview, manner: Manner) -> None:
        """Read the headers.

        Args:
            offsets: Where each record begins in the file.
            starts: Where each begins in `plain`, and the end.
            plain: The records.
            manner: How to read.
        """
        import numpy as np

        from curate.read import warc_kernels as kernels

        num = len(offsets)
        self._offsets, self._starts, self._view, self._manner = offsets, starts, plain, manner
        self._plain = np.frombuffer(plain, np.uint8)
        self._spans = np.zeros((num, len(kernels.FIELDS), 2), np.int64)
        self._forms, self._kinds, self._status, self._blocks, self._bodies = np.zeros((5, num), np.int64)
        kernels.parse_records(
            self._plain,
            np.array(starts),
            manner.max_bytes,
            self._spans,
            self._forms,
            self._kinds,
            self._status,
            self._blocks,
            self._bodies,
        )
        if manner.verify_digests:
            self._verify_digests()
        unsure = np.flatnonzero(self._forms == kernels.UNSURE)
        self.count = int(unsure[0]) if len(unsure) else num

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the records that can be used, as RAW batches of bounded size."""
        import numpy as np

        from curate.read import warc_kernels as kernels

        start = size = 0
        others: dict[int, dict[str, Any]] = {}
        for row in np.flatnonzero(self._forms[: self.count] == kernels.UNUSUAL).tolist():
            begin, body, end = self._starts[row], int(self._blocks[row]), self._starts[row + 1] - len(RECORD_END)
            values = read_record(self._view[begin:body].tobytes(), self._view[body:end].tobytes(), self._manner)
            if values is None:
                self.count = row
                break
            others[row] = values
            size += len(values.get("content") or values.get("text") or "")
            if size >= GROUP_BYTES:  # what compressed bodies expand to is not bounded by the members
                yield self._batch(start, row + 1, others)
                start, size, others = row + 1, 0, {}
        if start < self.count:
            yield self._batch(start, self.count, others)

    def _verify_digests(self) -> None:
        """Make responses unusual whose body has not the digest that is stated."""
        import numpy as np

        from curate.read import warc_kernels as kernels

        for row in np.flatnonzero(self._forms == kernels.RESPONSE).tolist():
            payload, block = self._spans[row, kernels.PAYLOAD_DIGEST], self._spans[row, kernels.BLOCK_DIGEST]
            declared = self._view[payload[0] : payload[1]].tobytes().decode("ascii")
            body = self._view[self._bodies[row] : self._starts[row + 1] - len(RECORD_END)]
            if mismatch(declared, [body]) or (not declared and block[0] < block[1]):
                self._forms[row] = kernels.UNUSUAL

    def _batch(self, start: int, stop: int, others: dict[int, dict[str, Any]]) -> pa.RecordBatch:
        """Return the rows [start, stop) as one batch, those of `others` with the columns given there."""
        import numpy as np
        import pyarrow as pa

        places = np.arange(start, stop)
        if not others:
            return self._usual(places)
        rows = Rows()
        for row, values in others.items():
            rows.add(self._offsets[row], **values)
        unusual = np.fromiter(others, np.int64, len(others))
        usual = np.setdiff1d(places, unusual)
        if not len(usual):
            return rows.flush()
        order = np.argsort(np.concatenate([usual, unusual]), kind="stable")
        return pa.concat_batches([self._usual(usual), rows.flush()]).take(pa.array(order))

    def _usual(self, places: Int64s) -> pa.RecordBatch:
        """Return rows in the usual form as a batch."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from curate.document import RAW
        from curate.read import warc_kernels as kernels

        num = len(places)
        spans, kinds = self._spans[places], self._kinds[places]
        is_document = self._forms[places] == kernels.RESPONSE
        digest = np.where(
            (spans[:, kernels.PAYLOAD_DIGEST, 0] < spans[:, kernels.PAYLOAD_DIGEST, 1])[:, None],
            spans[:, kernels.PAYLOAD_DIGEST],
            spans[:, kernels.BLOCK_DIGEST],
        )
        spans[:, kernels.PAYLOAD_DIGEST] = digest
        types = self._strings(spans, kernels.HTTP_TYPE).dictionary_encode()
        languages = self._strings(spans, kernels.HTTP_LANGUAGE).dictionary_encode()
        declared = [parse_media_type(value) for value in types.dictionary.to_pylist()]
        media_types = pa.array([media_type for media_type, _ in declared], pa.large_string()).take(types.indices)
        skips = [None, *(f"skipped.{kind}" for kind in kernels.KINDS[1:])]
        details = [None, *(f"a {kind} record holds no document" for kind in kernels.KINDS[1:])]
        kind = pa.array(kinds)
        columns = {
            "offset": pa.array(np.array(self._offsets)[places]),
            "part": pa.array(np.zeros(num, np.int32)),
            "source_id": self._strings(spans, kernels.RECORD_ID),
            "url": self._strings(spans, kernels.URL),
            "content": self._contents(places, is_document),
            "text": pa.nulls(num, pa.large_string()),
            "media_type": pc.coalesce(media_types, self._strings(spans, kernels.PAYLOAD_TYPE)),
            "charset": pa.array([charset for _, charset in declared], pa.large_string()).take(types.indices),
            "status": pa.array(self._status[places].astype(np.int32), mask=~is_document),
            "language": pa.array(
                [value.lower() if value and "," not in value else None for value in languages.dictionary.to_pylist()],
                pa.large_string(),
            ).take(languages.indices),
            "metadata": self._metadata(spans),
            "rule": pa.array(skips, pa.large_string()).take(kind),
            "detail": pa.array(details, pa.large_string()).take(kind),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in RAW.names], schema=RAW)

    def _strings(self, spans: Int64s, field: int) -> pa.Array:
        """Return a field's values as strings, null where it is absent or empty."""
        import numpy as np
        import pyarrow as pa

        from curate.read import warc_kernels as kernels

        starts, ends = np.ascontiguousarray(spans[:, field, 0]), np.ascontiguousarray(spans[:, field, 1])
        sizes = ends - starts
        out = np.empty(int(sizes.sum()), np.uint8)
        kernels.gather(self._plain, starts, ends, out)
        return _from_buffers(pa.large_string(), sizes, out, sizes > 0)

    def _contents(self, places: Int64s, is_document: npt.NDArray[np.bool_]) -> pa.Array:
        """Return the bodies of documents, null for other records."""
        import numpy as np
        import pyarrow as pa

        starts = self._bodies[places]
        ends = np.where(is_document, np.array(self._starts)[places + 1] - len(RECORD_END), starts)
        buffer = pa.allocate_buffer(int((ends - starts).sum()))
        out = memoryview(buffer).cast("B")
        place = 0
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            out[place : place + end - start] = self._view[start:end]
            place += end - start
        return _from_buffers(pa.large_binary(), ends - starts, buffer, is_document)

    def _metadata(self, spans: Int64s) -> pa.Array:
        """Return the metadata columns: one JSON object a row."""
        import numpy as np
        import pyarrow as pa

        from curate.read import warc_kernels as kernels

        fields, keys, key_sizes = _metadata_fields()
        values = spans[:, fields, 1] - spans[:, fields, 0]
        offsets = np.zeros(len(spans) + 1, np.int64)
        out = np.empty(int(values.sum() + len(spans) * (2 + (6 + key_sizes).sum())), np.uint8)
        kernels.write_objects(self._plain, spans, fields, keys, key_sizes, offsets, out)
        return pa.LargeStringArray.from_buffers(len(spans), pa.py_buffer(offsets), pa.py_buffer(out[: offsets[-1]]))


@cache
def _metadata_fields() -> tuple[Int64s, npt.NDArray[np.uint8], Int64s]:
    """Return the fields of the metadata, the bytes of their keys, and the keys' lengths."""
    import numpy as np

    from curate.read import warc_kernels as kernels

    fields = (
        kernels.DATE,
        kernels.PAYLOAD_DIGEST,
        kernels.RECORD_ID,
        kernels.LANGUAGES,
        kernels.TRUNCATED,
        kernels.SEGMENT,
    )
    return np.array(fields), kernels.table(METADATA), np.array([len(key) for key in METADATA])


def _from_buffers(kind: pa.DataType, sizes: Int64s, data: Any, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """Return an array of strings or bytes that lie one behind another in `data`."""
    import numpy as np
    import pyarrow as pa

    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(sizes), [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])
