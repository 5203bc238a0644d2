"""Parquet rows to document batches: one row group after another, a few rows at a time.

A column's physical type does not matter: string, large_string, dictionary, binary and null columns read alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from curate.read.layouts import Layout, arranged, column_of
from curate.read.rows import MAX_BYTES, MAX_RECORD_BYTES, MAX_ROWS, Rows
from curate.read.values import UNREADABLE, is_text, plain, to_values
from curate.stage import START, Cut, Source
from curate.text.decoding import decode, without_surrogates

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BUFFER_BYTES = 1 << 20  # read at a time from a column chunk, instead of the whole chunk


class Parquet(Source):
    """Parquet files; one row is one document.

    Attributes:
        layout: Where the fields lie: `flat`, `datatrove` or `dolma` (see `curate.read.layouts`).
        text: Name of the column that holds the text.
        html: Name of a column that holds HTML; if given, it becomes `content` for an extractor and `text` is not read.
        id: Name of the column with the input's own id; any scalar becomes a string.
        url: Name of the column with the address.
        language: Name of the column with the declared language. Each of these names may be a path into a column of
            structs, such as `meta.url`.
        metadata: Which other columns go to the metadata: all, or these names. Null values are left out, so that a
            column that only some files have leaves no trace in the others. Values of any Arrow type become JSON as
            `curate.read.values` says; should one have no such form, its column is named under `unreadable`.
        max_bytes: Longest text in bytes; a longer one is removed as `read.too_large`.

    Offsets are row numbers in the file. A text that is not UTF-8 is decoded by `curate.text.decoding`, and the
    metadata says so under `decoded`. A row group that cannot be decoded costs its rows, each removed by name.
    A file is cut between row groups.
    Rules: read.bad_record, read.truncated, read.no_text, read.too_large, read.undecodable.
    """

    version: ClassVar[int] = 4
    libraries: ClassVar[tuple[str, ...]] = ("charset-normalizer", "pyarrow", "resiliparse")

    layout: Layout = "flat"
    text: str = "text"
    html: str | None = None
    id: str = "id"
    url: str = "url"
    language: str = "language"
    metadata: Literal["all"] | tuple[str, ...] = "all"
    max_bytes: int = Field(default=MAX_RECORD_BYTES, ge=1)

    def read(self, file: IO[bytes], name: str) -> Iterator[pa.RecordBatch]:
        """Yield the file's rows as RAW batches. The file must be seekable: Parquet keeps its index at the end."""
        return self.read_part(file, name, START, None)

    def cuts(self, file: IO[bytes], name: str, every: int) -> tuple[Cut, ...]:
        """Return of the row groups the first behind each `every` stored bytes. Only the file's index is read."""
        import pyarrow as pa

        del name
        try:
            metadata = _open(file).metadata
        except (pa.ArrowException, OSError):
            return ()  # reading says what is wrong
        cuts: list[Cut] = []
        row = size = 0
        for group in range(metadata.num_row_groups):
            facts = metadata.row_group(group)
            if row > (cuts[-1].offset if cuts else 0) and size >= every:
                cuts.append(Cut(row, _first_byte(facts)))
                size = 0
            row += facts.num_rows
            size += sum(facts.column(column).total_compressed_size for column in range(facts.num_columns))
        if cuts and (size < every // 2 or cuts[-1].offset == row):
            del cuts[-1]  # a last part too small to stand alone
        places = [0, *(cut.byte for cut in cuts)]
        return tuple(cuts) if places == sorted(set(places)) else ()

    def read_part(self, file: IO[bytes], name: str, start: Cut, stop: Cut | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the row groups between two cuts."""
        rows = Rows()
        for offset, values in self._rows(file, name, start.offset, None if stop is None else stop.offset):
            rows.add(offset, **values)
            if rows.full:
                yield rows.flush()
        if len(rows):
            yield rows.flush()

    def _rows(self, file: IO[bytes], name: str, start: int, stop: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
        import pyarrow as pa

        try:
            parquet = _open(file)
        except (pa.ArrowException, OSError) as error:
            file.seek(0)
            started = file.read(4) == b"PAR1"
            file.seek(max(4, file.seek(0, 2) - 4))
            if file.read(4) == b"PAR1":
                rule, why = "read.undecodable", "its index is damaged"
            elif started:
                rule, why = "read.truncated", "it has no index at its end: the file is truncated"
            else:
                rule, why = "read.undecodable", "this is not a Parquet file"
            yield 0, {"rule": rule, "detail": f"{name}: {why} ({error}). Fetch or write the file again"}
            return
        schema = parquet.schema_arrow
        columns = self._columns(schema.names)
        field = self.text if self.html is None else self.html
        holds_text = [is_text(column.type) for column in schema if column.name == field]  # of one name, the last counts
        if not holds_text:  # a path: each value is looked at
            holds_text = [column_of(field, schema.names) in schema.names]
        first = 0
        for group in range(parquet.num_row_groups):
            if stop is not None and first >= stop:
                return
            num_rows = parquet.metadata.row_group(group).num_rows
            if first < start:
                first += num_rows
                continue
            done = 0
            try:
                for batch in self._batches(parquet, group, columns):
                    for record in records(batch):
                        place = f"{name}, row {first + done}"
                        yield first + done, self._values(record, place, schema.names, holds_text[-1:] == [True])
                        done += 1
            except (pa.ArrowException, OSError) as error:
                detail = f"{name}, row group {group}: cannot be decoded ({error}). Fetch or write the file again"
                for row in range(done, num_rows):
                    yield first + row, {"rule": "read.bad_record", "detail": detail}
            first += num_rows

    def _columns(self, names: list[str]) -> list[str]:
        """Return the columns to read: a column that nothing wants is not decoded."""
        body = self.text if self.html is None else self.html
        named = {column_of(field, names) for field in (body, self.id, self.url, self.language)}
        if self.metadata == "all" or self.layout != "flat":
            return [name for name in names if name in named or name != self.text]
        return [name for name in names if name in named | set(self.metadata)]

    def _batches(self, parquet: pq.ParquetFile, group: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield a row group in batches of so few rows that they fit a batch, judged by the group's mean row."""
        statistics = parquet.metadata.row_group(group)
        if not statistics.num_rows:
            return
        mean = statistics.total_byte_size // statistics.num_rows
        size = max(1, min(MAX_ROWS, MAX_BYTES // max(mean, 1)))
        yield from parquet.iter_batches(batch_size=size, row_groups=[group], columns=columns, use_threads=False)

    def _values(self, record: dict[str, Any], place: str, names: list[str], holds_text: bool) -> dict[str, Any]:
        field = self.text if self.html is None else self.html
        record = arranged(record, self.layout, (field, self.id, self.url, self.language))
        has_field = field in record
        body = record.pop(field, None)
        if unreadable := [name for name, value in record.items() if value is UNREADABLE]:
            record["unreadable"] = unreadable
        values: dict[str, Any] = {}
        for column, key in (("source_id", self.id), ("url", self.url), ("language", self.language)):
            value = plain(record.get(key))
            if isinstance(value, str | int | float):
                values[column] = str(value).lower() if isinstance(value, bool) else str(value)
                del record[key]
        if not isinstance(body, str | bytes) or not holds_text:
            if not has_field:
                why = f"no column '{field}'; the file has {', '.join(names)}"
            else:
                why = f"column '{field}' is null" if body is None else f"column '{field}' holds no string"
            return values | {"rule": "read.no_text", "detail": f"{place}: {why}"}
        size = len(body) if isinstance(body, bytes) or 4 * len(body) <= self.max_bytes else len(body.encode("utf-8"))
        if size > self.max_bytes:
            why = f"a text of {size} bytes exceeds the limit of {self.max_bytes} (max_bytes). Raise max_bytes"
            return values | {"rule": "read.too_large", "detail": f"{place}: {why}"}
        if self.html is not None:
            is_text = isinstance(body, str)
            content = body.encode("utf-8") if isinstance(body, str) else body
            values |= {"content": content, "media_type": "text/html", "charset": "utf-8" if is_text else None}
        elif isinstance(body, bytes):
            try:  # as strict as for a string column: which one this is may differ between row groups
                values["text"] = body.decode("utf-8")
            except UnicodeDecodeError:
                decoded = decode(body)
                values["text"] = decoded.text
                record["decoded"] = decoded.note
        else:
            values["text"] = body
        if self.metadata != "all":
            record = {key: record[key] for key in (*self.metadata, "decoded", "unreadable") if key in record}
        metadata = {key: plain(value) for key, value in record.items() if value is not None}
        if metadata:
            values["metadata"] = json.dumps(without_surrogates(metadata), ensure_ascii=False, separators=(",", ":"))
        return values


def _open(file: IO[bytes]) -> pq.ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(
            pa.PythonFile(file, mode="r"),
            buffer_size=BUFFER_BYTES,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",  # as nanoseconds, dates after 2262 would silently become others
            page_checksum_verification=True,  # where the writer stored checksums; without them damage can pass
        )
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"the name of a column is damaged: {error}") from error


def _first_byte(group: pq.RowGroupMetaData) -> int:
    """Return where a row group's first page stands in the file."""
    places = []
    for number in range(group.num_columns):
        column = group.column(number)
        places.append(column.data_page_offset)
        if column.has_dictionary_page and column.dictionary_page_offset is not None:
            places.append(column.dictionary_page_offset)
    return min(places, default=0)


def records(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch; strings that hold invalid UTF-8 come as bytes."""
    columns = [to_values(column) for column in batch.columns]
    for row in range(batch.num_rows):
        yield {name: column[row] for name, column in zip(batch.schema.names, columns, strict=True)}
