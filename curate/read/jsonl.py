"""JSON Lines (plain, gzip, zstd, lz4) to document batches.

Only a line feed ends a record. What the format leaves open is settled here, for every line alike:

- Of a key that appears twice the last value wins.
- A byte order mark at the start of a line is dropped; blank lines are no records.
- Half a surrogate pair (`\\ud83d` alone) becomes U+FFFD. NUL and other controls stay: removing them is repair.
- Control characters that JSON wants escaped are accepted inside strings; NaN and Infinity become null.
- Bytes that are not UTF-8 are decoded by `curate.text.decoding`, and the metadata says so under `decoded`.
- Two objects on one line, or a JSON array over many lines, are bad records that say what was expected.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from curate.read.compression import CHUNK_BYTES, ZSTD_DICTIONARY, Chunk, compression_of, read_chunks, refusal
from curate.read.layouts import Layout, arranged
from curate.read.rows import MAX_RECORD_BYTES, Rows
from curate.stage import START, Cut, Source, even_cuts
from curate.text.decoding import decode, without_surrogates

if TYPE_CHECKING:
    import pyarrow as pa

BOM = b"\xef\xbb\xbf"
BLANK = b" \t\r\n\x0b\x0c"
MAX_NAMES = 20  # fields that a message names
NUMBERED_BYTES = 64 << 20  # up to here a message names the line's number, behind that its byte alone: counting to it
#                            would take reading all that comes before, and a range of a file does not
HEAD_BYTES = 64 << 10


class Jsonl(Source):
    """One JSON object a line.

    Attributes:
        layout: Where the fields lie: `flat`, `datatrove` or `dolma` (see `curate.read.layouts`).
        text: Name of the field that holds the text.
        html: Name of a field that holds HTML; if given, it becomes `content` for an extractor and `text` is not read.
        id: Name of the field with the input's own id; any scalar becomes a string.
        url: Name of the field with the address.
        language: Name of the field with the declared language. Each of these names may be a path, such as `meta.url`.
        metadata: Which other fields go to the metadata: all, or these names.
        max_bytes: Longest line in bytes; a longer one is removed as `read.too_large`, in bounded memory.

    Offsets are bytes of the decompressed file; a damaged place counts as one byte, so that offsets stay distinct.
    A line belongs to the part of the file where its first byte lies. A compressed file is cut between its members, if
    it has several and none is damaged.
    Rules: read.bad_record, read.truncated, read.no_text, read.too_large, read.undecodable.
    """

    version: ClassVar[int] = 3
    libraries: ClassVar[tuple[str, ...]] = ("charset-normalizer", "lz4", "resiliparse", "zstandard")

    layout: Layout = "flat"
    text: str = "text"
    html: str | None = None
    id: str = "id"
    url: str = "url"
    language: str = "language"
    metadata: Literal["all"] | tuple[str, ...] = "all"
    max_bytes: int = Field(default=MAX_RECORD_BYTES, ge=1)

    def read(self, file: IO[bytes], name: str) -> Iterator[pa.RecordBatch]:
        """Yield the file's lines as RAW batches."""
        return self._batches(split_lines(file, self.max_bytes), name, START)

    def cuts(self, file: IO[bytes], name: str, every: int) -> tuple[Cut, ...]:
        """Return the multiples of `every` in a plain file; in a compressed one, of its members the first behind each."""
        del name
        file.seek(0)
        head = file.read(HEAD_BYTES)
        if refusal(head):
            return ()
        if compression_of(head) == "plain":
            return even_cuts(file.seek(0, 2), every)
        file.seek(0)
        return member_cuts(file, every)

    def read_part(self, file: IO[bytes], name: str, start: Cut, stop: Cut | None) -> Iterator[pa.RecordBatch]:
        """Yield the lines whose first byte is in [start.offset, stop.offset)."""
        begin = start if start.offset >= NUMBERED_BYTES else START  # the lines before are passed over, and counted
        file.seek(0)
        lines = split_lines(file, self.max_bytes, begin, None if stop is None else stop.offset)
        return self._batches(lines, name, start)

    def _batches(self, lines: Iterator[Line], name: str, start: Cut) -> Iterator[pa.RecordBatch]:
        rows = Rows()
        number = 0
        for line in lines:
            counts = not line.problem or line.rule == "read.too_large"
            number += counts
            if line.offset < start.offset:
                continue
            where = f", line {number if counts else number + 1}" if line.offset < NUMBERED_BYTES else ""
            if line.problem:
                rows.add(line.offset, rule=line.rule, detail=f"{name}{where}, byte {line.offset}: {line.problem}")
            else:
                data = line.data.removeprefix(BOM)
                if data.strip(BLANK):
                    place = name + (where or f", byte {line.offset}")
                    self._add(rows, line.offset, data, line.ended, place)
            if rows.full:
                yield rows.flush()
        if len(rows):
            yield rows.flush()

    def _add(self, rows: Rows, offset: int, data: bytes, ended: bool, place: str) -> None:
        decoded = decode(data)
        try:
            record = _parse(decoded.text)
        except (ValueError, RecursionError) as error:
            rule, detail = _explain(decoded.text, error, ended)
            rows.add(offset, rule=rule, detail=f"{place}: {detail}")
            return
        if not isinstance(record, dict):
            found = f"{place}: found a JSON {_json_type(record)}; one object per line was expected"
            rows.add(offset, rule="read.bad_record", detail=found)
            return
        if not decoded.exact:
            record.setdefault("decoded", decoded.note)
        if "\\u" in decoded.text:
            record = without_surrogates(record)
        self._add_record(rows, offset, record, place)

    def _add_record(self, rows: Rows, offset: int, record: dict[str, Any], place: str) -> None:
        fields = list(record)
        record = arranged(record, self.layout, (self.html or self.text, self.id, self.url, self.language))
        body = record.pop(self.text, None)
        field = self.text
        if self.html is not None:
            field, body = self.html, record.pop(self.html, None)
        values: dict[str, Any] = {}
        for column, key in (("source_id", self.id), ("url", self.url), ("language", self.language)):
            values[column] = as_label(record.get(key))
            if values[column] is not None or record.get(key, 0) is None:
                del record[key]
        if not isinstance(body, str):
            if field in fields or body is not None:
                found = f"field '{field}' holds a JSON {_json_type(body)}"
            else:
                found = f"field '{field}' is missing; the record has {_names(fields)}"
            detail = f"{place}: {found}, a string was expected. Name the right field, or accept the loss"
            rows.add(offset, **values, rule="read.no_text", detail=detail)
            return
        if self.metadata != "all":
            record = {key: record[key] for key in self.metadata if key in record}
        if record:
            values["metadata"] = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        if self.html is None:
            rows.add(offset, **values, text=body)
        else:
            content = body.encode("utf-8")
            rows.add(offset, **values, content=content, media_type="text/html", charset="utf-8")


class Line:
    """A line of a file without its line feed, or a report of what could not be read."""

    __slots__ = ("data", "ended", "offset", "problem", "rule")

    def __init__(self, offset: int, data: bytes = b"", ended: bool = True, rule: str = "", problem: str = "") -> None:
        self.offset = offset
        self.data = data
        self.ended = ended
        self.rule = rule
        self.problem = problem


def split_lines(file: IO[bytes], max_bytes: int, start: Cut = START, stop: int | None = None) -> Iterator[Line]:
    """Yield the lines of a possibly compressed file; memory is bounded by `max_bytes` and a chunk.

    Args:
        file: The stored bytes, at their start; seekable if `start` is another.
        max_bytes: Longest line.
        start: A line that begins before it is left out: START, or a cut as `Jsonl.cuts` gives it, which in a
            compressed file lies one byte behind the start of a member.
        stop: The first line that begins at this byte or later ends the reading.
    """
    position, chunks = _from_first_line(file, start, stop)
    line_start = position
    pending: list[bytes] = []
    size = 0
    first = start == START
    for chunk in chunks:
        if stop is not None and line_start >= stop:
            return
        if chunk.problem:
            rule = "read.truncated" if chunk.at_end else "read.bad_record"
            lost = f"; the line cut there ({size} bytes) is dropped" if size else ""
            yield Line(line_start, rule=rule, problem=chunk.problem + lost)
            position += 1
            pending, size, line_start = [], 0, position
            continue
        data = chunk.data
        if first:
            first = False
            if why := refusal(data):
                yield Line(0, rule="read.undecodable", problem=why)
                return
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            size += end - begin
            if size > max_bytes:
                yield Line(line_start, rule="read.too_large", problem=_too_large(size, max_bytes))
            else:
                pending.append(data[begin:end])
                yield Line(line_start, b"".join(pending))
            begin = end + 1
            pending, size, line_start = [], 0, position + begin
            if stop is not None and line_start >= stop:
                return
        size += len(data) - begin
        if size > max_bytes:
            pending = []
        elif begin < len(data):
            pending.append(data[begin:])
        position += len(data)
    if size > max_bytes:
        yield Line(line_start, rule="read.too_large", problem=_too_large(size, max_bytes))
    elif size:
        yield Line(line_start, b"".join(pending), ended=False)


def _from_first_line(file: IO[bytes], start: Cut, stop: int | None) -> tuple[int, Iterator[Chunk]]:
    """Return the offset of the first line that begins at `start` or behind it, and the plain bytes from there."""
    if start == START:
        return 0, read_chunks(file)[1]
    position = start.offset - 1  # whether a line begins at `start` is told by the byte before
    if start.byte != start.offset:
        _, chunks = read_chunks(file, at=start.byte)
    else:
        file.seek(position)
        chunks = (Chunk(data, 0) for data in iter(lambda: file.read(CHUNK_BYTES), b""))
    for chunk in chunks:
        place = chunk.data.find(b"\n") + 1
        if place:
            return position + place, itertools.chain([Chunk(chunk.data[place:], chunk.member)], chunks)
        position += len(chunk.data)
        if stop is not None and position >= stop:  # one line reaches across all of the part
            break
    return position, iter(())


def member_cuts(file: IO[bytes], every: int) -> tuple[Cut, ...]:
    """Return cuts at the first member of a compressed file behind each multiple of `every` stored bytes.

    It is decompressed for that, to learn where its plain bytes lie, but for a file whose first member is longer than
    `every`. Nothing is returned where a member is damaged: what it gives is found out by reading on, not from behind.

    Returns:
        Cuts whose offset is one more than that of the member's first plain byte, as the lines of a part are those
        behind the first line feed that it holds. The two numbers of a cut differ: that tells it from a plain file's.
    """
    if file.read(len(ZSTD_DICTIONARY)) == ZSTD_DICTIONARY:  # every member needs what stands there
        return ()
    file.seek(0)
    cuts: list[Cut] = []
    position, member = 0, 0
    for chunk in read_chunks(file)[1]:
        if chunk.problem or (not position and refusal(chunk.data)):
            return ()
        if chunk.member != member:
            member = chunk.member
            if member >= (cuts[-1].byte if cuts else 0) // every * every + every and position + 1 != member:
                cuts.append(Cut(position + 1, member))
        position += len(chunk.data)
        if not member and file.tell() > every + HEAD_BYTES:
            return ()
    size = file.seek(0, 2)
    return tuple(cut for cut in cuts if size - cut.byte >= every // 2)


def _too_large(size: int, max_bytes: int) -> str:
    return f"a line of {size} bytes exceeds the limit of {max_bytes} (max_bytes). Raise max_bytes, or split the record"


def _names(fields: list[str]) -> str:
    """Return the first names of a record's fields, cut to what a message can hold."""
    shown = ", ".join(name if len(name) <= 40 else name[:39] + "…" for name in fields[:MAX_NAMES])
    return (shown or "none") + (f" and {len(fields) - MAX_NAMES} more" if len(fields) > MAX_NAMES else "")


def as_label(value: Any) -> str | None:
    """Return a scalar as a string; None for null, objects and arrays."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _parse(text: str) -> Any:
    return json.loads(text, strict=False, parse_constant=lambda _: None)


def _explain(text: str, error: Exception, ended: bool) -> tuple[str, str]:
    """Return the rule and the reason for a line that is not JSON."""
    stripped = text.strip()
    if stripped.startswith("["):
        why = "this looks like a JSON array; one object per line was expected. Convert it: jq -c '.[]'"
    elif isinstance(error, json.JSONDecodeError):
        why = f"not JSON: {error.msg} at character {error.pos}; one object per line was expected"
        cut = error.pos >= len(stripped) or error.msg.startswith("Unterminated")
        if cut and not ended:
            return "read.truncated", f"{why}, and the file ends here: it is truncated. Fetch or write the file again"
    elif isinstance(error, RecursionError):
        why = "JSON nested too deeply to be read"
    else:
        why = f"not JSON: {error}"
    return "read.bad_record", why


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds = {dict: "object", list: "array", str: "string", int: "number", float: "number", type(None): "null"}
    return kinds[type(value)]
