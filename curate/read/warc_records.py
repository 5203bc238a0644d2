"""WARC, WET and ARC records one at a time, in every form and past every damage.

A record is given out only when its end has been seen where its length says it is, and, in a compressed file, when its
member was found undamaged. Behind damage, reading goes on at the next member or at the next line that starts a record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from curate.read.compression import Chunk, read_chunks, refusal
from curate.read.digest import mismatch
from curate.read.http import parse_headers, parse_media_type, parse_response, payload_forms
from curate.text.decoding import decode

WARC_VERSION = rb"WARC/\d{1,2}\.\d{1,2}[ \t]*\r*\n"
# URL, IP address, date, [type, [status, checksum, location, offset, file,]] length: ARC 1 has 5 fields, ARC 2 has 10.
ARC_LINE = (
    rb"[a-z][a-z0-9+.-]*:[^\r\n]* (?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-f:]*:[0-9a-f:.]*) [0-9]{8,20} [^\r\n]*\r?\n"
)
RECORD_START = re.compile(rb"(?:^|(?<=\n))(?:" + WARC_VERSION + rb"|" + ARC_LINE + rb")")
WARC_START = re.compile(WARC_VERSION)
ARC_START = re.compile(ARC_LINE)
VERSION_CUT = re.compile(rb"W|WA|WAR|WARC|WARC/[0-9.]*[ \t\r]*")
BLANK_LINE = re.compile(rb"\n\r*\n")
RECORD_TYPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
LENGTH = re.compile(r"[0-9]{1,18}")
ARC_DATE = re.compile(r"[0-9]{8,20}")
MAX_HEADER_BYTES = 1 << 20
MAX_LINE_BYTES = 64 << 10  # two reads of the file overlap by so much when the next record is looked for
LOOKAHEAD_BYTES = 4 << 10  # seen behind a record before it is given out
PADDING = b"\r\n"
OPT_OUT_HEADERS = {"x-robots-tag": "x_robots_tag", "tdm-reservation": "tdm_reservation"}  # kept for the gates
DOCUMENT_TYPES = ("response", "resource", "conversion")


def read_record(head: bytes, block: bytes, manner: Manner) -> dict[str, Any] | None:
    """Return the RAW columns of a record that is whole, or None if its header does not give the length of its block."""
    header = _warc_header(head)
    return _values(header, block, manner) if header.length == len(block) else None


def parse_header(data: bytes) -> Header | None:
    """Return the WARC header that `data` begins with, or None if there is none or it goes on behind."""
    return _warc_header(data) if WARC_START.match(data) and BLANK_LINE.search(data) else None


def starts_record(data: bytes) -> bool:
    """Whether plain bytes begin a WARC or ARC record."""
    return RECORD_START.match(data.lstrip(PADDING)) is not None


@dataclass(frozen=True, slots=True)
class Manner:
    """How a file is read.

    Attributes:
        name: Path shown in messages.
        max_bytes: Largest block of a record.
        verify_digests: Whether to look if payloads have the digests that their records state.
    """

    name: str
    max_bytes: int
    verify_digests: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A row to be: where the record starts, and its RAW columns."""

    offset: int
    part: int
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Header:
    """A record's header.

    Attributes:
        kind: WARC-Type in lower case; `filedesc` or `response` for ARC.
        size: Bytes of the header, with the blank line.
        length: Bytes of the block, or None if the header does not say.
        fields: Header fields by lower-case name, ARC's under the names of WARC.
        problem: Why the record cannot be delimited.
    """

    kind: str
    size: int
    length: int | None
    fields: dict[str, str]
    problem: str = ""


class _Stream:
    """Plain bytes with a look ahead, in runs that no damage interrupts, and the member that each byte came from."""

    def __init__(self, file: IO[bytes], offset: int, data: bytes) -> None:
        self.kind, self._chunks = read_chunks(file, starts_record, offset, data)
        self._buffer = bytearray()
        self._start = 0  # of the unread bytes in the buffer
        self.position = offset  # of the next unread byte among all plain bytes
        self._members: list[tuple[int, int]] = []  # (position, file offset) where members begin, ascending
        self.damage: Chunk | None = None  # ends the present run
        self._at_end = False
        self._place = (-1, 0)

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer only if the run ends before."""
        while len(self._buffer) - self._start < size and self._fill():
            pass
        return bytes(memoryview(self._buffer)[self._start : self._start + size])

    def skip(self, size: int) -> None:
        """Pass over bytes that have been peeked at."""
        self._start += size
        self.position += size
        if self._start > len(self._buffer) // 2:
            del self._buffer[: self._start]
            self._start = 0
        while len(self._members) > 1 and self._members[1][0] <= self.position:
            del self._members[0]

    def skip_block(self, size: int) -> int:
        """Pass over a block too large to look at whole; stop where a member starts a record. Return bytes passed."""
        passed = 0
        while passed < size and (len(self._buffer) > self._start or self._fill()):
            self.skip(0)  # into the member that begins here, if one does
            if passed and self._members[0][0] == self.position and starts_record(self.peek(LOOKAHEAD_BYTES)):
                break
            step = min(size - passed, len(self._buffer) - self._start)
            begins = min((start for start, _ in self._members if start > self.position), default=None)
            if begins is not None:
                step = min(step, begins - self.position)
            self.skip(step)
            passed += step
        return passed

    def skip_padding(self) -> bool:
        """Pass over line ends between records. Return whether the run goes on."""
        while data := self.peek(LOOKAHEAD_BYTES):
            padding = len(data) - len(data.lstrip(PADDING))
            self.skip(padding)
            if padding < len(data):
                return True
        return False

    def skip_to_record(self) -> int:
        """Pass over at least one byte, until a record starts or the run ends. Return how many."""
        begin = self.position
        window = 2 * MAX_LINE_BYTES
        while data := self.peek(window):
            starts = [match.start()] if (match := RECORD_START.search(data, 1)) else []
            for position, _ in self._members:  # the lines before a member need not have ended
                place = position - self.position
                if 0 < place < len(data) and RECORD_START.match(data[place : place + MAX_LINE_BYTES]):
                    starts.append(place)
            if starts:
                self.skip(min(starts))
                break
            self.skip(MAX_LINE_BYTES if len(data) == window else len(data))
        return self.position - begin

    def boundary(self) -> int | None:
        """Return where in the file the next byte is stored, if a reader may begin there."""
        if self.kind == "plain":
            return self.position
        return self._members[0][1] if self._members and self._members[0][0] == self.position else None

    def place(self, offset: int | None = None) -> tuple[int, int]:
        """Return (offset, part) for a row about what is here, or about the member at `offset`. Call it once a row."""
        if self.kind == "plain":
            return self.position, 0
        if offset is None:
            offset = self._members[0][1]
        self._place = (offset, self._place[1] + 1 if self._place[0] == offset else 0)
        return self._place

    def next_run(self) -> bool:
        """Go on behind damage. Return whether there was any."""
        if self.damage is None:
            return False
        self.damage = None
        self.position += len(self._buffer) - self._start
        self._buffer.clear()
        self._start = 0
        self._members.clear()
        return True

    def _fill(self) -> bool:
        if self.damage is not None or self._at_end:
            return False
        chunk = next(self._chunks, None)
        if chunk is None:
            self._at_end = True
            return False
        if chunk.problem:
            self.damage = chunk
            return False
        if not self._members or self._members[-1][1] != chunk.member:
            self._members.append((self.position + len(self._buffer) - self._start, chunk.member))
        self._buffer += chunk.data
        return True


class RecordReader:
    """Finds the records of one file.

    Attributes:
        left: After `records`, where another reader is to go on; None at the end of the file.
    """

    def __init__(self, file: IO[bytes], manner: Manner, *, offset: int, data: bytes, leave: int | None) -> None:
        """Begin at a record or member.

        Args:
            file: Stands behind `data`.
            manner: How to read.
            offset: Where in the file the record or member begins.
            data: The bytes from there on that have been read.
            leave: Leave off before the first record that starts a member here or later; None: go on to the end.
        """
        self._size = _size_of(file)
        self._stream = _Stream(file, offset, data)
        self._manner = manner
        self._name = manner.name
        self._max_bytes = manner.max_bytes
        self._is_start = offset == 0
        self._leave = leave
        self.left: int | None = None

    def records(self) -> Iterator[Record]:
        """Yield every record, and a row for each damage that no record's row tells of."""
        stream = self._stream
        if self._is_start and (why := refusal(stream.peek(16))):
            yield self._bad((0, 0), "read.undecodable", why)
            return
        while True:
            told = False
            while stream.skip_padding():
                if self._leave is not None and (here := stream.boundary()) is not None and here >= self._leave:
                    self.left = here
                    return
                record = self._next()
                told = stream.damage is not None and stream.damage.problem in record.values.get("detail", "")
                yield record
            if stream.damage is not None and not told:
                yield self._bad(stream.place(stream.damage.member), *_of_damage(stream.damage))
            if not stream.next_run():
                return

    def _next(self) -> Record:
        """Take the record that starts here, or pass over what is none."""
        stream = self._stream
        data = self._peek_header()
        place = stream.place()
        if WARC_START.match(data):
            header = _warc_header(data)
        elif ARC_START.match(data):
            header = _arc_header(data)
        else:
            cut = VERSION_CUT.fullmatch(data) is not None
            return self._give_up(place, "no record starts here, where a WARC or ARC header was expected", ends=cut)
        if header.length is None:
            return self._give_up(place, header.problem, header, ends=not header.size)
        if header.length > self._max_bytes:
            return self._too_large(place, header, header.length)
        need = header.size + header.length
        data = stream.peek(need + LOOKAHEAD_BYTES)
        if len(data) < need:
            claim = f"the record claims {header.length} bytes and has {len(data) - header.size}"
            return self._give_up(place, claim, header, ends=True)
        behind = data[need:]
        damage = stream.damage if len(behind) < LOOKAHEAD_BYTES else None  # further on it may have been seen, or not
        if damage is not None and damage.member == place[0] and not RECORD_START.search(behind):
            stream.skip(len(data))
            return self._bad(place, *_of_damage(damage), header)
        if not _is_end(behind):
            claim = f"the length of {header.length} bytes is wrong: no record ends there"
            return self._give_up(place, claim, header)
        stream.skip(need)
        return Record(*place, _values(header, data[header.size : need], self._manner))

    def _peek_header(self) -> bytes:
        size = 8 << 10
        while True:
            data = self._stream.peek(size)
            if len(data) < size or size >= MAX_HEADER_BYTES or BLANK_LINE.search(data) or not WARC_START.match(data):
                return data
            size *= 4

    def _give_up(self, place: tuple[int, int], why: str, header: Header | None = None, ends: bool = False) -> Record:
        """Make the row of a record that cannot be taken, and go on where the next one starts.

        Args:
            place: Offset and part of the row.
            why: What is wrong.
            header: The record's header, if it has one.
            ends: Whether the record reaches to the end of the run: it is cut, unless its length lies.
        """
        stream = self._stream
        passed = stream.skip_to_record()
        goes_on = bool(stream.peek(1))
        if not goes_on and stream.damage is not None:
            rule, damage = _of_damage(stream.damage)
            return self._bad(
                place, rule, f"{why}; {damage}" if ends else f"{why}, {passed} bytes passed over; {damage}", header
            )
        if ends and not goes_on:
            return self._bad(place, "read.truncated", f"{why}: the file is truncated. Fetch it again", header)
        then = "reading goes on at the next record" if goes_on else "no record follows"
        return self._bad(place, "read.bad_record", f"{why}; {passed} bytes passed over, {then}", header)

    def _too_large(self, place: tuple[int, int], header: Header, length: int) -> Record:
        stream = self._stream
        limit = f"a record of {length} bytes exceeds the limit of {self._max_bytes} (max_bytes)"
        end = stream.position + header.size + length
        if stream.kind == "plain" and self._size is not None and end > self._size:
            return self._give_up(place, f"{limit} and the end of the file by {end - self._size}", header, ends=True)
        stream.skip(header.size)
        passed = stream.skip_block(length)
        ends = passed < length and not stream.peek(1)
        if ends and stream.damage is not None:
            return self._bad(place, "read.too_large", f"{limit}; {stream.damage.problem}", header)
        if ends:
            return self._bad(place, "read.truncated", f"{limit} and the file ends after {passed} of them", header)
        return self._bad(place, "read.too_large", f"{limit}. Raise max_bytes to read it", header)

    def _bad(self, place: tuple[int, int], rule: str, why: str, header: Header | None = None) -> Record:
        where = f"{self._name}, byte {place[0]}" + (f", record {place[1] + 1} of the member" if place[1] else "")
        values: dict[str, Any] = {"rule": rule, "detail": f"{where}: {why}"}
        return Record(*place, values if header is None else _common(header) | values)


def _values(header: Header, block: bytes, manner: Manner) -> dict[str, Any]:
    """Return the RAW columns of a record whose block is whole."""
    values = _common(header)
    fields = header.fields
    media_type, charset = parse_media_type(fields.get("content-type", ""))
    if header.kind not in DOCUMENT_TYPES:
        return values | {"rule": f"skipped.{header.kind}", "detail": f"a {header.kind} record holds no document"}
    notes: dict[str, Any] = {}
    if header.kind == "conversion":
        decoded = decode(block, (charset,) if charset else ())
        values |= {"text": decoded.text, "media_type": media_type}
        if not decoded.exact:
            notes["decoded"] = decoded.note
    elif header.kind == "resource" or not block.startswith(b"HTTP/"):
        if media_type == "application/http":
            media_type, charset = fields.get("warc-identified-payload-type"), None
        values |= {"content": block, "media_type": media_type, "charset": charset}
    else:
        response = parse_response(block, manner.max_bytes)
        media_type, charset = parse_media_type(response.headers.get("content-type", ""))
        media_type = media_type or fields.get("warc-identified-payload-type")
        values |= {"status": response.status, "media_type": media_type, "charset": charset}
        language = response.headers.get("content-language", "")
        values["language"] = language.lower() if language and "," not in language else None
        notes = dict(response.notes)
        notes |= {key: response.headers[field] for field, key in OPT_OUT_HEADERS.items() if field in response.headers}
        if response.problem:
            values["rule"] = "read.too_large" if response.too_large else "read.undecodable"
            values["detail"] = f"{manner.name}, {values['url']}: {response.problem}"
        else:
            values["content"] = response.body
    if manner.verify_digests and (wrong := _wrong_digest(header, block, manner.max_bytes)):
        notes["digest_mismatch"] = wrong
    if notes:
        values["metadata"] = _to_json(json.loads(values["metadata"]) | notes)
    return values


def _wrong_digest(header: Header, block: bytes, max_bytes: int) -> str:
    """Return which digest the payload, or else the block, has if the record states another; else an empty string."""
    if declared := header.fields.get("warc-payload-digest"):
        is_http = header.kind == "response" and block.startswith(b"HTTP/")
        return mismatch(declared, payload_forms(block, max_bytes) if is_http else (block,))
    return mismatch(header.fields.get("warc-block-digest", ""), (block,))


def _common(header: Header) -> dict[str, Any]:
    """Return the columns that every record of a known header has."""
    fields = header.fields
    record_id = fields.get("warc-record-id", "").strip("<> ") or None
    metadata = {
        "date": fields.get("warc-date"),
        "digest": fields.get("warc-payload-digest") or fields.get("warc-block-digest"),
        "record_id": record_id,
        "languages": fields.get("warc-identified-content-language"),
        "truncated": fields.get("warc-truncated"),
        "segment": fields.get("warc-segment-number"),
    }
    url = fields.get("warc-target-uri", "").strip("<> ") or None
    known = {key: value for key, value in metadata.items() if value}
    return {"source_id": record_id, "url": url, "metadata": _to_json(known)}


def _to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _of_damage(damage: Chunk) -> tuple[str, str]:
    return ("read.truncated" if damage.at_end else "read.bad_record"), damage.problem


def _warc_header(data: bytes) -> Header:
    match = BLANK_LINE.search(data)
    if match is None:
        return Header("", 0, None, {}, f"a record header without an end within {len(data)} bytes")
    fields = parse_headers(data[data.index(b"\n") + 1 : match.start() + 1])
    kind = fields.get("warc-type", "").lower()
    length = fields.get("content-length", "")
    problem = ""
    if not RECORD_TYPE.fullmatch(kind):
        problem = f"the header has no usable WARC-Type ('{kind[:40]}')"
    elif not LENGTH.fullmatch(length):
        problem = f"the header has no usable Content-Length ('{length[:40]}')"
    return Header(kind, match.end(), None if problem else int(length), fields, problem)


def _arc_header(data: bytes) -> Header:
    end = data.index(b"\n") + 1
    parts = data[:end].decode("utf-8", "replace").strip().split(" ")
    # A URL may hold spaces: fields are counted from the end, where ARC 1 has 4 behind the URL and ARC 2 has 9.
    dates = [place for place in range(2, len(parts)) if ARC_DATE.fullmatch(parts[place])]
    if not dates:
        return Header("response", end, None, {}, "an ARC header without a date")
    date = parts[dates[0]]
    url = " ".join(parts[: dates[0] - 1])
    fields = {"warc-target-uri": url, "content-type": parts[dates[0] + 1] if dates[0] + 2 < len(parts) else ""}
    if len(date) >= 14:
        iso = f"{date[:4]}-{date[4:6]}-{date[6:8]}T{date[8:10]}:{date[10:12]}:{date[12:14]}Z"
        fields["warc-date"] = iso
    kind = "filedesc" if url.startswith("filedesc:") else "response"
    if not LENGTH.fullmatch(parts[-1]):
        return Header(kind, end, None, fields, f"the ARC header has no usable length ('{parts[-1][:40]}')")
    return Header(kind, end, int(parts[-1]), fields)


def _is_end(behind: bytes) -> bool:
    """Whether a record ends before `behind`: two line ends, the file's end, or the next record."""
    rest = behind.lstrip(PADDING)
    return not rest or behind.startswith((b"\r\n\r\n", b"\n\n")) or RECORD_START.match(rest) is not None


def _size_of(file: IO[bytes]) -> int | None:
    """Return the size of a seekable file."""
    if not file.seekable():
        return None
    place = file.tell()
    size = file.seek(0, 2)
    file.seek(place)
    return size
