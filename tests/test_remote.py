"""Downloads over a real server that cuts, lies, changes its files and knows no ranges: whole and right, or refused."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import machine
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.cache import Cache
from curate.errors import InputError
from curate.inputs import InputFile, Part, list_inputs, open_part
from curate.phases.parts import divide
from curate.plan import TaskContext
from curate.read import jsonl
from curate.read.jsonl import Jsonl
from curate.read.parquet import Parquet
from curate.remote import BLOCK_BYTES, NotInRanges, RangeReader, download
from curate.stage import Source

SOON = (0.0, 0.0, 0.0)  # waits


@dataclass
class Served:
    """What the server has and does, and what it was asked.

    Attributes:
        data: The file.
        etag: Its ETag, or "".
        ranges: Whether ranges are answered.
        faults: What goes wrong with the next GETs, one each: `cut:N` (N bytes, then the connection ends), a status,
            `moved` (the answer's range begins elsewhere), `chunked`, `chunked:N`, `endless` (no length), `more`.
        headers: Further headers of each answer.
        asked: The Range headers of all GETs, or "".
        sent: Bytes of bodies that were sent.
    """

    data: bytes = b""
    etag: str = '"one"'
    ranges: bool = True
    faults: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    sent: int = 0
    url: str = ""


class _Handler(http.server.BaseHTTPRequestHandler):
    served: Served

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._head(200, len(self.served.data))

    def _head(self, status: int, length: int | None, **headers: str) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if self.served.etag:
            self.send_header("ETag", self.served.etag)
        for name, value in (self.served.headers | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def do_GET(self) -> None:
        served = self.served
        wanted = self.headers.get("Range", "")
        served.asked.append(wanted)
        fault = served.faults.pop(0) if served.faults else ""
        if fault.isdigit():
            self._head(int(fault), 0, Retry_After="0")
            return
        data, size = served.data, len(served.data)
        place = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted)
        if place and served.ranges and self.headers.get("If-Range", served.etag) == served.etag:
            first, last = int(place[1]), int(place[2] or size - 1)
            data = data[first : last + 1]
            shift = 1 if fault == "moved" else 0
            self._head(206, len(data), Content_Range=f"bytes {first + shift}-{last}/{size}")
        elif fault.startswith("chunked"):
            self.protocol_version = "HTTP/1.1"
            self._head(200, None, Transfer_Encoding="chunked")
            pieces = [data[start : start + 100] for start in range(0, size, 100)][: int(fault[8:] or size)]
            data = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            data += b"" if fault[8:] else b"0\r\n\r\n"
        elif fault == "endless":
            self._head(200, None)
        else:
            self._head(200, size + (fault == "more"))
        if fault.startswith("cut:"):
            data = data[: int(fault[4:])]
        served.sent += len(data)
        with contextlib.suppress(ConnectionError):  # the client has what it wants
            self.wfile.write(data)
        self.close_connection = True


@pytest.fixture
def served() -> Iterator[Served]:
    state = Served(data=os.urandom(5000))
    handler = type("Handler", (_Handler,), {"served": state})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        state.url = f"http://127.0.0.1:{running.server_port}/data/a.bin"
        yield state
        running.shutdown()
        thread.join()


def listed(served: Served) -> InputFile:
    [file] = list_inputs([served.url], Path(), None)
    served.asked.clear()
    served.sent = 0
    return file


def fetched(served: Served, folder: Path, file: InputFile | None = None) -> bytes:
    file = file or listed(served)
    assert file.remote is not None
    download(file.remote, folder / "local", SOON)
    return (folder / "local").read_bytes()


def refusal(served: Served, folder: Path, file: InputFile | None = None) -> str:
    with pytest.raises(InputError) as caught:
        fetched(served, folder, file)
    assert str(caught.value).startswith(f"{served.url}: ")
    assert caught.value.remedy
    return caught.value.problem


# -- whole files --


def test_a_cut_download_goes_on_where_it_broke(served: Served, tmp_path: Path) -> None:
    file = listed(served)
    served.faults = ["cut:1200", "cut:0", "cut:300"]
    assert fetched(served, tmp_path, file) == served.data
    assert served.asked == ["", "bytes=1200-", "bytes=1200-", "bytes=1500-"]
    assert served.sent == 5000


def test_a_server_without_ranges_begins_again(served: Served, tmp_path: Path) -> None:
    file = listed(served)
    served.ranges = False
    served.faults = ["cut:1200", "cut:4000"]
    assert fetched(served, tmp_path, file) == served.data
    assert served.sent == 1200 + 4000 + 5000


def test_busy_servers_are_asked_again_and_others_are_not(served: Served, tmp_path: Path) -> None:
    file = listed(served)
    served.faults = ["500", "503", "429"]
    assert fetched(served, tmp_path, file) == served.data
    assert len(served.asked) == 4
    for status, words in (("404", "HTTP status 404"), ("403", "HTTP status 403"), ("400", "HTTP status 400")):
        served.asked.clear()
        served.faults = [status]
        assert words in refusal(served, tmp_path, file)
        assert len(served.asked) == 1


def test_it_gives_up_and_says_what_it_met(served: Served, tmp_path: Path) -> None:
    file = listed(served)
    served.faults = ["cut:10"] * 9
    problem = refusal(served, tmp_path, file)
    assert problem == "cannot be downloaded, after 4 attempts: 40 of 5000 bytes arrived."
    served.faults = ["500"] * 9
    assert "after 4 attempts: HTTP status 500" in refusal(served, tmp_path, file)
    served.faults = []


def test_progress_earns_new_attempts(served: Served, tmp_path: Path) -> None:
    served.data = os.urandom(6 << 20)
    file = listed(served)
    served.faults = ["cut:1200000"] * 4  # four cuts, where three attempts without progress are allowed
    assert fetched(served, tmp_path, file) == served.data
    assert served.sent == 6 << 20


def test_a_server_that_is_gone(served: Served, tmp_path: Path) -> None:
    file = listed(served)
    assert file.remote is not None
    gone = type(file.remote)("http://127.0.0.1:9/a", 5, '"x"', "", "")
    with pytest.raises(InputError, match=r"^http://127.0.0.1:9/a: cannot be downloaded, after 4 attempts: .*refused"):
        download(gone, tmp_path / "local", SOON)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_that_changes_is_never_mixed(served: Served, tmp_path: Path, ranges: bool) -> None:
    file = listed(served)
    served.ranges = ranges
    served.faults = ["cut:1200"]
    old = served.data

    class Swap(list[str]):  # the file is another one from the second GET on
        def pop(self, _: object = 0) -> str:  # type: ignore[override]
            served.data, served.etag = os.urandom(5000), '"two"'
            served.faults = []
            return "cut:1200"

    served.faults = Swap(["cut"])
    assert "it changed since it was listed: its ETag was" in refusal(served, tmp_path, file)
    assert served.data != old
    assert fetched(served, tmp_path) == served.data  # listed anew


def test_the_time_of_the_last_change_is_a_version_too(served: Served, tmp_path: Path) -> None:
    served.etag = ""
    served.headers = {"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT"}
    file = listed(served)
    served.faults = ["cut:1200"]
    assert fetched(served, tmp_path, file) == served.data
    assert served.asked == ["", "bytes=1200-"]
    served.headers = {"Last-Modified": "Tue, 03 Nov 2026 10:00:00 GMT"}
    assert "its last change was Mon" in refusal(served, tmp_path, file)


def test_without_a_version_nothing_is_pieced_together(served: Served, tmp_path: Path) -> None:
    served.etag = ""
    file = listed(served)
    served.faults = ["cut:1200", "cut:4999"]
    assert fetched(served, tmp_path, file) == served.data
    assert served.asked == ["", "", ""]
    assert file.remote is not None
    with pytest.raises(NotInRanges), RangeReader(file.remote, tmp_path / "part", 5000, waits=SOON) as reader:
        reader.read(10)


def test_lengths_are_held_against_the_listing(served: Served, tmp_path: Path) -> None:
    file = listed(served)
    served.data = served.data[:4000]  # under the same ETag
    assert "the server sends 4000 bytes where its listing says 5000" in refusal(served, tmp_path, file)
    served.data += b"x" * 1000
    served.faults = ["more"] * 4
    assert "the server sends 5001 bytes where its listing says 5000" in refusal(served, tmp_path, file)
    served.faults = ["cut:100", "moved", "moved", "moved"]
    assert "the answer says 'bytes 101-4999/5000'" in refusal(served, tmp_path, file)


def test_chunked_answers(served: Served, tmp_path: Path) -> None:
    file = listed(served)
    served.faults = ["chunked:3", "chunked"]
    served.ranges = False
    assert fetched(served, tmp_path, file) == served.data
    served.data += b"more"
    served.faults = ["chunked"] * 4
    assert "5004 of 5000 bytes arrived" in refusal(served, tmp_path, file)


def test_a_length_that_nobody_states(served: Served, tmp_path: Path) -> None:
    file = listed(served)
    assert file.remote is not None
    unknown = InputFile(
        file.url, None, file.path, 0, file.digest, type(file.remote)(file.url, 0, '"one"', "", file.digest)
    )
    served.faults = ["endless"]
    assert "its server states no length" in refusal(served, tmp_path, unknown)
    served.faults = ["chunked:7", "chunked"]
    served.ranges = False
    assert fetched(served, tmp_path, unknown) == served.data


def base64_of(name: str, data: bytes) -> str:
    return base64.b64encode(hashlib.new(name, data).digest()).decode()


@pytest.mark.parametrize(
    ("header", "form", "name"),
    [
        ("Content-MD5", "{}", "md5"),
        ("Digest", "SHA-256={},unixsum=30637", "sha256"),
        ("Repr-Digest", "sha-512=:{}:", "sha512"),
        ("x-goog-hash", "crc32c=AAAAAA==,md5={}", "md5"),
        ("x-amz-checksum-sha256", "{}", "sha256"),
    ],
)
def test_checksums_that_a_server_states(served: Served, tmp_path: Path, header: str, form: str, name: str) -> None:
    served.headers = {header: form.format(base64_of(name, served.data))}
    file = listed(served)
    served.faults = ["cut:1200"]
    assert fetched(served, tmp_path, file) == served.data
    served.data = served.data[:-1] + bytes([served.data[-1] ^ 1])
    found = hashlib.new(name, served.data).hexdigest()
    assert f"its {name} is {found}, its server states " in refusal(served, tmp_path, file)


def test_checksums_of_several_parts_are_no_checksums_of_the_file(served: Served, tmp_path: Path) -> None:
    served.headers = {"x-amz-checksum-sha256": base64_of("sha256", b"other") + "-3", "Content-MD5": "not base64!"}
    assert fetched(served, tmp_path) == served.data


def test_coded_answers_are_kept_as_stored(served: Served, tmp_path: Path) -> None:
    """A .gz file that its server calls a gzip-coded text arrives as it is stored."""
    served.data = gzip.compress(b"x" * 1000)
    served.headers = {"Content-Encoding": "gzip"}
    assert fetched(served, tmp_path) == served.data


def test_other_file_systems(tmp_path: Path) -> None:
    with fsspec.open("memory://bucket/a.bin", "wb") as file:
        file.write(b"0123456789" * 100)
    [found] = list_inputs(["memory://bucket/a.bin"], tmp_path, None)
    assert (found.path, found.bytes) == ("a.bin", 1000)
    assert found.remote is not None
    download(found.remote, tmp_path / "local", SOON)
    assert (tmp_path / "local").read_bytes() == b"0123456789" * 100
    with RangeReader(found.remote, tmp_path / "part", 1000, waits=SOON) as reader:
        reader.seek(-3, io.SEEK_END)
        assert reader.read(9) == b"789"
    with fsspec.open("memory://bucket/a.bin", "wb") as file:
        file.write(b"9876543210" * 100)
    with pytest.raises(InputError, match="it changed since it was listed"):
        download(found.remote, tmp_path / "local", SOON)


# -- ranges --


def test_only_what_is_read_is_fetched_and_once(served: Served, tmp_path: Path) -> None:
    served.data = os.urandom(4 << 20)
    file = listed(served)
    assert file.remote is not None
    with RangeReader(file.remote, tmp_path / "part", 1_000_000, waits=SOON) as reader:
        reader.seek(100_000)
        assert reader.read(10) == served.data[100_000:100_010]
        assert served.asked == [f"bytes={BLOCK_BYTES}-{5 * BLOCK_BYTES - 1}"]
        reader.seek(100_000)
        assert reader.read(900_000) == served.data[100_000:1_000_000]
        sent = served.sent
        assert sent <= 1_000_000 + BLOCK_BYTES
        reader.seek(70_000)
        assert reader.read(500_000) == served.data[70_000:570_000]
        assert served.sent == sent
        served.faults = ["cut:1000", "500", "cut:70000"]
        reader.seek(2_000_000)
        assert reader.read(300_000) == served.data[2_000_000:2_300_000]
        assert reader.seek(0, io.SEEK_END) == 4 << 20
        assert reader.read(1) == b""
        served.etag = '"two"'
        reader.seek(3_000_000)
        with pytest.raises(InputError, match="it changed since it was listed"):
            reader.read(1)


def test_ranges_that_a_server_does_not_give(served: Served, tmp_path: Path) -> None:
    served.data = os.urandom(1 << 20)
    file = listed(served)
    served.ranges = False
    assert file.remote is not None
    with pytest.raises(NotInRanges), RangeReader(file.remote, tmp_path / "part", 9, waits=SOON) as reader:
        reader.read(1)
    served.ranges = True
    with RangeReader(file.remote, tmp_path / "part", 9, most=270_000, waits=SOON) as reader:
        reader.seek(300_000)
        assert reader.read(10) == served.data[300_000:300_010]
        with pytest.raises(NotInRanges):
            reader.read(300_000)


def planned(folder: Path, reader: Source, file: InputFile, every: int) -> list[Part]:
    cache = Cache(folder / "cache")
    cache.prepare()

    def perform(tasks: object) -> None:
        for task in tasks:  # type: ignore[attr-defined]
            task.function(TaskContext(cache, 1 << 20, frozenset(task.keys)), *task.arguments)

    [parts] = divide([("own", reader, [file])], cache, perform, every)
    return parts


def table_bytes(rows: int, per_group: int) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"text": [os.urandom(500).hex() for _ in range(rows)], "other": list(range(rows))})
    pq.write_table(table, sink, row_group_size=per_group, compression="none", use_dictionary=False)
    return sink.getvalue()


def texts(reader: Source, data: bytes) -> list[str]:
    return [row["text"] for batch in reader.read(io.BytesIO(data), "a") for row in batch.to_pylist()]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_each_part_fetches_its_own_bytes(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(jsonl, "NUMBERED_BYTES", 0)
    monkeypatch.setattr(jsonl, "CHUNK_BYTES", 1 << 16)
    reader: Source = Jsonl() if kind == "jsonl" else Parquet()
    lines = b"".join(json.dumps({"text": os.urandom(500).hex()}).encode() + b"\n" for _ in range(4000))
    served.data = lines if kind == "jsonl" else table_bytes(4000, 200)
    file = listed(served)
    parts = planned(tmp_path, reader, file, 1_000_000)
    assert len(parts) == 4
    look = served.sent
    assert look < 600_000
    found = []
    for number, part in enumerate(parts):
        before = served.sent
        served.faults = ["cut:1000", "503"]
        folder = tmp_path / str(number)
        folder.mkdir()
        with open_part(part, folder, waits=SOON) as stream:
            for batch in reader.read_part(stream, "a", part.start, part.stop):
                found += batch["text"].to_pylist()
        assert served.sent - before < part.bytes + 700_000  # blocks, the index or the last line, read ahead
    assert found == texts(reader, served.data)


def test_a_limit_spares_the_rest_of_a_remote_file(served: Served, tmp_path: Path) -> None:
    lines = b"".join(json.dumps({"text": os.urandom(500).hex()}).encode() + b"\n" for _ in range(4000))
    served.data = lines
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"name: r\nsources:\n  own:\n    read: {{kind: jsonl, paths: '{served.url}'}}\n")
    for name, ranges, least, most in (
        ("with", True, 0, 0.5),
        ("without", False, 1, 2),
    ):  # it answers twice, and the first is hung up on
        served.ranges, served.sent = ranges, 0
        folder = tmp_path / name
        machine.run(recipe, folder, until="extract", limit=7)
        [path] = (folder / "run" / "extracted" / "own").glob("*.parquet")
        found = pq.read_table(path)["text"].to_pylist()
        assert found == [json.loads(line)["text"] for line in lines.splitlines()[:7]]
        assert least * len(lines) <= served.sent <= most * len(lines)


def test_what_cannot_be_cut_from_afar_stays_whole(served: Served, tmp_path: Path) -> None:
    served.data = table_bytes(1000, 100)
    file = listed(served)
    served.ranges = False
    assert planned(tmp_path / "1", Parquet(), file, 100_000) == [Part(file)]
    served.ranges = True
    assert len(planned(tmp_path / "2", Parquet(), file, 100_000)) > 5


def test_a_network_fault_is_no_damage(served: Served, tmp_path: Path) -> None:
    """Arrow must not take a download that fails for a row group that cannot be decoded."""
    served.data = table_bytes(2000, 200)
    file = listed(served)
    parts = planned(tmp_path, Parquet(), file, 500_000)
    with open_part(parts[1], tmp_path, waits=SOON) as stream:
        batches = Parquet().read_part(stream, "a", parts[1].start, parts[1].stop)
        next(batches)
        served.faults = ["500"] * 99
        with pytest.raises(InputError, match="HTTP status 500"):
            list(batches)


def test_a_run_over_a_remote_file_in_parts(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curate.phases.parts.PART_BYTES", 700_000)
    monkeypatch.setattr("curate.curation.SHARD_BYTES", 700_000)
    served.data = table_bytes(4000, 200)
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"name: r\nsources:\n  own:\n    read: {{kind: parquet, paths: '{served.url}'}}\n")
    result = machine.run(recipe, tmp_path, until="extract")
    assert result.manifest["ledger"]["own"]["read"] == 4000
    files = sorted((tmp_path / "run" / "extracted" / "own").glob("*.parquet"))
    assert len(files) == 5  # 20 groups of 205 kB: four make a part
    found = pa.concat_tables([pq.read_table(path) for path in files])
    assert found["text"].to_pylist() == texts(Parquet(), served.data)
    assert found["offset"].to_pylist() == list(range(4000))
    assert served.sent < 1.6 * len(served.data)
