"""Plain WARC records in the usual form to Arrow columns, many at a time.

Where a record ends must be known. Those in another form go through `curate.read.warc_records`, one by one, which would
have given the same rows for all others, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from curate.read.digest import mismatch
from curate.read.http import parse_media_type
from curate.read.rows import MAX_ROWS, Rows
from curate.read.warc_records import Manner, read_record

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Int64s = npt.NDArray[np.int64]

GROUP_BYTES = 8 << 20  # of a batch
HEAD_BYTES = 8 << 10  # of a record; a longer header is not read here
RECORD_END = b"\r\n\r\n"
HEADER_END = b"\r\n\r\n"
METADATA = ("date", "digest", "record_id", "languages", "truncated", "segment")


class Records:
    """Records that make the next batches.

    A body is copied once, to where the column `content` will have it.

    Attributes:
        offsets: Where each begins in the file.
        count: After `batches`, how many of them, from the first, were used; the one behind these does not end where it
            should.
    """

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self.clear()

    def clear(self) -> None:
        """Forget all records."""
        self.offsets: list[int] = []
        self.count = 0
        self._size = 0
        self._heads: list[bytes] = []  # headers; those of HTTP with them
        self._sizes: list[int] = []  # of the records
        self._splits: list[int] = []  # size of the headers where the body went to the contents, else 0
        self._places: list[int] = []  # of the bodies in the contents
        self._kept: dict[int, bytes | memoryview] = {}  # records whose body did not
        self._buffer: pa.Buffer | None = None
        self._contents = memoryview(bytearray())
        self._end = 0  # of the contents

    @property
    def full(self) -> bool:
        """Whether the batch should be made before another record is added."""
        return len(self.offsets) >= MAX_ROWS or self._size >= GROUP_BYTES

    def add(self, offset: int, plain: bytes | memoryview) -> None:
        """Add the record at byte `offset`, with the two line ends behind it."""
        row = len(self.offsets)
        data = plain if isinstance(plain, bytes) else bytes(plain[:HEAD_BYTES])
        block = data.find(HEADER_END) + len(HEADER_END)
        body = data.find(HEADER_END, block) + len(HEADER_END) if data.startswith(b"HTTP/", block) else 0
        end = len(plain) - len(RECORD_END)
        if len(HEADER_END) < body <= end:
            size = end - body
            if self._end + size > len(self._contents):
                self._allocate(size)
            self._contents[self._end : self._end + size] = memoryview(plain)[body:end]
            self._heads.append(data[: body + 2])  # the first bytes of the body may tell that it is compressed
        else:
            body = size = 0
            self._kept[row] = plain
            self._heads.append(data[:block])
        self.offsets.append(offset)
        self._sizes.append(len(plain) if data[-4:] == RECORD_END or plain[-4:] == RECORD_END else 0)
        self._splits.append(body)
        self._places.append(self._end)
        self._end += size
        self._size += len(plain)

    def _allocate(self, size: int) -> None:
        import pyarrow as pa

        buffer = pa.allocate_buffer(self._end + size + 2 * GROUP_BYTES)
        contents = memoryview(buffer).cast("B")
        contents[: self._end] = self._contents[: self._end]
        self._buffer, self._contents = buffer, contents

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the records, as RAW batches of bounded size, up to one whose end is not sure."""
        import numpy as np

        from curate.read import warc_kernels as kernels

        self._parse()
        start = size = 0
        others: dict[int, dict[str, Any]] = {}
        for row in np.flatnonzero(self._forms[: self.count] == kernels.UNUSUAL).tolist():
            values = self._read_one(row)
            if values is None:
                self.count = row
                break
            others[row] = values
            size += len(values.get("content") or values.get("text") or "")
            if size >= GROUP_BYTES:  # what compressed bodies expand to is not bounded by the records
                yield self._batch(start, row + 1, others)
                start, size, others = row + 1, 0, {}
        if start < self.count:
            yield self._batch(start, self.count, others)

    def _parse(self) -> None:
        import numpy as np

        from curate.read import warc_kernels as kernels

        num = len(self.offsets)
        starts = np.zeros(num + 1, np.int64)
        np.cumsum(np.fromiter(map(len, self._heads), np.int64, num), out=starts[1:])
        self._data = np.frombuffer(b"".join(self._heads), np.uint8)
        self._starts = starts
        self._spans = np.zeros((num, len(kernels.FIELDS), 2), np.int64)
        self._forms, self._kinds, self._status, self._blocks = np.zeros((4, num), np.int64)
        kernels.parse_records(
            self._data,
            starts,
            np.array(self._sizes),
            np.array(self._splits),
            self._manner.max_bytes,
            self._spans,
            self._forms,
            self._kinds,
            self._status,
            self._blocks,
        )
        if self._manner.verify_digests:
            self._verify_digests()
        unsure = np.flatnonzero(self._forms == kernels.UNSURE)
        self.count = int(unsure[0]) if len(unsure) else num

    def _verify_digests(self) -> None:
        """Make responses unusual whose body has not the digest that is stated."""
        import numpy as np

        from curate.read import warc_kernels as kernels

        for row in np.flatnonzero(self._forms == kernels.RESPONSE).tolist():
            payload, block = self._spans[row, kernels.PAYLOAD_DIGEST], self._spans[row, kernels.BLOCK_DIGEST]
            declared = self._data[payload[0] : payload[1]].tobytes().decode("ascii")
            if mismatch(declared, [self._body(row)]) or (not declared and block[0] < block[1]):
                self._forms[row] = kernels.UNUSUAL

    def _body(self, row: int) -> memoryview:
        place = self._places[row]
        return self._contents[place : place + self._sizes[row] - self._splits[row] - len(RECORD_END)]

    def _read_one(self, row: int) -> dict[str, Any] | None:
        """Return the columns of a record in another form; None if it does not end where it should."""
        block = int(self._blocks[row])
        if row in self._kept:
            data = bytes(self._kept[row])
            return read_record(data[:block], data[block : -len(RECORD_END)], self._manner)
        head = self._heads[row][: self._splits[row]]
        return read_record(head[:block], head[block:] + self._body(row), self._manner)

    def _batch(self, start: int, stop: int, others: dict[int, dict[str, Any]]) -> pa.RecordBatch:
        """Return the rows [start, stop) as one batch, those of `others` with the columns given there."""
        import numpy as np
        import pyarrow as pa

        places = np.arange(start, stop)
        if not others:
            return self._usual(places)
        rows = Rows()
        for row, values in others.items():
            rows.add(self.offsets[row], **values)
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
        spans = self._spans[places]
        is_document = self._forms[places] == kernels.RESPONSE
        has_payload = spans[:, kernels.PAYLOAD_DIGEST, 0] < spans[:, kernels.PAYLOAD_DIGEST, 1]
        spans[~has_payload, kernels.PAYLOAD_DIGEST] = spans[~has_payload, kernels.BLOCK_DIGEST]
        types = self._strings(spans, kernels.HTTP_TYPE).dictionary_encode()
        declared = [parse_media_type(value) for value in types.dictionary.to_pylist()]
        media_types = _chosen([media_type for media_type, _ in declared], types.indices)
        if len(payload_types := self._strings(spans, kernels.PAYLOAD_TYPE)) > payload_types.null_count:
            media_types = pc.coalesce(media_types, payload_types)
        languages = self._strings(spans, kernels.HTTP_LANGUAGE).dictionary_encode()
        single = [value.lower() if "," not in value else None for value in languages.dictionary.to_pylist()]
        kinds = pa.array(self._kinds[places])
        columns = {
            "offset": pa.array(np.array(self.offsets)[places]),
            "part": pa.array(np.zeros(num, np.int32)),
            "source_id": self._strings(spans, kernels.RECORD_ID),
            "url": self._strings(spans, kernels.URL),
            "content": self._content(places, is_document),
            "text": pa.nulls(num, pa.large_string()),
            "media_type": media_types,
            "charset": _chosen([charset for _, charset in declared], types.indices),
            "status": pa.array(self._status[places].astype(np.int32), mask=~is_document),
            "language": _chosen(single, languages.indices),
            "metadata": self._metadata(spans),
            "rule": _chosen([None, *(f"skipped.{kind}" for kind in kernels.KINDS[1:])], kinds),
            "detail": _chosen([None, *(f"a {kind} record holds no document" for kind in kernels.KINDS[1:])], kinds),
        }
        if is_document.all():
            columns["rule"] = columns["detail"] = columns["text"]
        return pa.RecordBatch.from_arrays([columns[name] for name in RAW.names], schema=RAW)

    def _strings(self, spans: Int64s, field: int) -> pa.Array:
        """Return a field's values as strings, null where it is absent or empty."""
        import numpy as np
        import pyarrow as pa

        from curate.read import warc_kernels as kernels

        starts, ends = np.ascontiguousarray(spans[:, field, 0]), np.ascontiguousarray(spans[:, field, 1])
        sizes = ends - starts
        if not sizes.any():
            return pa.nulls(len(sizes), pa.large_string())
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        kernels.gather(self._data, starts, ends, out)
        return _from_buffers(pa.large_string(), offsets, out, sizes > 0)

    def _content(self, places: Int64s, is_document: npt.NDArray[np.bool_]) -> pa.Array:
        """Return the bodies of documents, null for other records."""
        import numpy as np
        import pyarrow as pa

        starts = np.array(self._places)[places]
        ends = starts + np.where(is_document, (np.array(self._sizes) - self._splits)[places] - len(RECORD_END), 0)
        data, offsets = self._buffer, np.append(starts, ends[-1])
        if data is None or (starts[1:] != ends[:-1]).any():  # bodies of other rows lie between them
            spans = zip(starts.tolist(), ends.tolist(), strict=True)
            data = b"".join([self._contents[start:end] for start, end in spans])
            np.cumsum(ends - starts, out=offsets[1:])
            offsets[0] = 0
        return _from_buffers(pa.large_binary(), offsets, data, is_document)

    def _metadata(self, spans: Int64s) -> pa.Array:
        """Return the metadata columns: one JSON object a row."""
        import numpy as np
        import pyarrow as pa

        from curate.read import warc_kernels as kernels

        fields, keys, key_sizes = _metadata_fields()
        values = spans[:, fields, 1] - spans[:, fields, 0]
        offsets = np.zeros(len(spans) + 1, np.int64)
        out = np.empty(int(values.sum() + len(spans) * (2 + (6 + key_sizes).sum())), np.uint8)
        kernels.write_objects(self._data, spans, fields, keys, key_sizes, offsets, out)
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


def _chosen(values: list[str | None], indices: pa.Array) -> pa.Array:
    """Return the value that each index means, null where it is null."""
    import pyarrow as pa

    if not any(values):
        return pa.nulls(len(indices), pa.large_string())
    return pa.array(values, pa.large_string()).take(indices)


def _from_buffers(kind: pa.DataType, offsets: Int64s, data: Any, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """Return an array of strings or bytes that lie one behind another in `data`."""
    import numpy as np
    import pyarrow as pa

    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(offsets) - 1, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])
