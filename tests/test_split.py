"""Large files in parts: every record once, in order, the same in every column; and only what a part holds is read."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import machine
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from curate.cache import Cache
from curate.document import RAW
from curate.inputs import InputFile, Part, fixed_shards, parts_of
from curate.phases.parts import PART_BYTES, divide
from curate.plan import Task, TaskContext
from curate.read import jsonl
from curate.read.compression import compression_of, refusal
from curate.read.files import Files
from curate.read.jsonl import Jsonl
from curate.read.parquet import Parquet
from curate.stage import START, Cut, Source, even_cuts

NAME = "in/a.file"


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def in_parts(reader: Source, data: bytes, cuts: Sequence[Cut]) -> list[list[dict[str, Any]]]:
    """Return the rows of each part, read from files that stand at a random place."""
    ends = (START, *cuts, None)
    found = []
    for start, stop in itertools.pairwise(ends):
        assert start is not None
        file = io.BytesIO(data)
        file.seek(len(data) // 2)
        found.append(rows(reader.read_part(file, NAME, start, stop)))
    return found


def check(reader: Source, data: bytes, cuts: Sequence[Cut]) -> int:
    """Hold parts against the contract; return how many rows there are."""
    parts = in_parts(reader, data, cuts)
    whole = rows(reader.read(io.BytesIO(data), NAME))
    assert list(itertools.chain.from_iterable(parts)) == whole
    ends = [0, *(cut.offset for cut in cuts), 1 << 62]
    for part, start, stop in zip(parts, ends[:-1], ends[1:], strict=True):
        assert all(start <= row["offset"] < stop for row in part)
    return len(whole)


# -- JSON Lines --


def test_a_line_belongs_to_the_part_where_its_first_byte_lies() -> None:
    data = b'{"text":"a"}\n{"text":"b"}\n\n{"text":"c"}'  # lines begin at 0, 13, 26 (blank) and 27; 39 bytes
    for place, first in ((1, "a"), (12, "a"), (13, "a"), (14, "ab"), (26, "ab"), (27, "ab"), (28, "abc"), (38, "abc")):
        parts = in_parts(Jsonl(), data, [Cut(place, place)])
        assert ["".join(row["text"] for row in part) for part in parts] == [first, "abc".removeprefix(first)]


LINES = st.lists(
    st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=30).map(lambda text: json.dumps({"text": text}).encode()),
        st.text("añ語\u2028😀", max_size=9).map(lambda text: json.dumps({"text": text}, ensure_ascii=False).encode()),
        st.sampled_from(
            [
                b"",
                b"  ",
                b'{"text": "cut',
                b'{"text": 3}',
                b"[1]",
                b'\xef\xbb\xbf{"text":"bom"}',
                b'{"text":"\xff\xe9"}',
            ]
        ),
        st.binary(max_size=12).filter(lambda data: b"\n" not in data),
        st.just(b'{"text":"' + b"long " * 40 + b'"}'),
    ),
    max_size=12,
)


@st.composite
def files_of_lines(draw: st.DrawFn) -> bytes:
    ends = draw(st.sampled_from([b"\n", b"\r\n"]))
    data = b"".join(line + ends for line in draw(LINES))
    return data if draw(st.booleans()) else data.rstrip(b"\r\n")


@settings(max_examples=200, deadline=None)
@given(files_of_lines(), st.data())
def test_any_cut_of_plain_lines(data: bytes, more: st.DataObject) -> None:
    assume(compression_of(data) == "plain" and not refusal(data))  # by its first bytes: such a file is never cut so
    places = more.draw(st.lists(st.integers(1, max(1, len(data))), unique=True, max_size=6).map(sorted))
    numbered = more.draw(st.sampled_from([0, 25, 1 << 20]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "NUMBERED_BYTES", numbered)
        check(Jsonl(max_bytes=100), data, [Cut(place, place) for place in places])


def test_lines_are_numbered_alike_in_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b'{"text":"a"}\nbad\n' * 20  # 17 bytes a pair
    monkeypatch.setattr(jsonl, "NUMBERED_BYTES", 170)
    parts = in_parts(Jsonl(), data, [Cut(place, place) for place in (40, 80, 200)])
    where = [row["detail"].split(": ")[0] for part in parts for row in part if row["rule"]]
    assert where[:3] == [f"{NAME}, line 2", f"{NAME}, line 4", f"{NAME}, line 6"]
    assert where[9:12] == [f"{NAME}, line 20", f"{NAME}, byte 183", f"{NAME}, byte 200"]  # the tenth begins at 166


class Recording(io.BytesIO):
    """A file that keeps the place of the first and of the last byte that was read."""

    first = 1 << 62
    last = 0

    def read(self, size: int | None = -1) -> bytes:
        place = self.tell()
        data = super().read(size)
        if data:
            self.first, self.last = min(self.first, place), max(self.last, place + len(data))
        return data


def test_only_the_part_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "NUMBERED_BYTES", 0)
    monkeypatch.setattr(jsonl, "CHUNK_BYTES", 1000)
    line = json.dumps({"text": "x" * 80}).encode() + b"\n"
    plain = line * 1000
    cuts = Jsonl().cuts(io.BytesIO(plain), NAME, 20_000)
    assert cuts == tuple(Cut(place, place) for place in (20_000, 40_000, 60_000, 80_000))
    file = Recording(plain)
    assert rows(Jsonl().read_part(file, NAME, cuts[1], cuts[2]))
    assert (file.first, file.last) == (39_999, 60_999)

    members = b"".join(gzip.compress(os.urandom(30_000).hex().encode() + b"\n") for _ in range(20))
    cuts = Jsonl().cuts(io.BytesIO(members), NAME, 200_000)
    assert len(cuts) == 3 - (len(members) % 200_000 < 100_000) + (len(members) > 800_000)
    file = Recording(members)
    assert rows(Jsonl().read_part(file, NAME, cuts[0], cuts[1]))
    assert file.first == cuts[0].byte
    assert file.last < cuts[1].byte + 200_000


def members_of(data: bytes, places: Sequence[int], kind: str) -> bytes:
    pieces = [data[start:stop] for start, stop in zip([0, *places], [*places, len(data)], strict=True)]
    pack = gzip.compress if kind == "gzip" else zstandard.ZstdCompressor(write_checksum=True).compress
    return b"".join(pack(piece) for piece in pieces)


@settings(max_examples=150, deadline=None)
@given(
    files_of_lines(),
    st.sampled_from(["gzip", "zstd"]),
    st.integers(1, 200),
    st.sampled_from([0, 25, 1 << 20]),
    st.data(),
)
def test_any_cut_of_compressed_lines(data: bytes, kind: str, every: int, numbered: int, more: st.DataObject) -> None:
    """Members end anywhere, also inside a line, inside a character, or without a byte."""
    places = more.draw(st.lists(st.integers(0, len(data)), max_size=8).map(sorted))
    stored = members_of(data, places, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "NUMBERED_BYTES", numbered)
        cuts = Jsonl().cuts(io.BytesIO(stored), NAME, every)
        assert sorted(set(cuts)) == list(cuts)
        check(Jsonl(max_bytes=100), stored, cuts)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_members_are_cut_and_damaged_files_are_not(kind: str) -> None:
    lines = [json.dumps({"text": os.urandom(50).hex()}).encode() + b"\n" for _ in range(40)]
    data = b"".join(lines)
    stored = members_of(data, [len(lines[0]) * number + 7 for number in range(1, 40)], kind)
    cuts = Jsonl().cuts(io.BytesIO(stored), NAME, 500)
    assert len(cuts) > 3
    assert check(Jsonl(), stored, cuts) == 40
    assert Jsonl().cuts(io.BytesIO(stored[:-3]), NAME, 500) == ()
    broken = bytearray(stored)
    broken[len(stored) // 2] ^= 0xFF
    assert Jsonl().cuts(io.BytesIO(broken), NAME, 500) == ()
    one = members_of(data, [], kind)
    assert Jsonl().cuts(io.BytesIO(one), NAME, 100) == ()


def test_files_of_another_kind_are_not_cut() -> None:
    for data in (b"PK\x03\x04" + b"x\n" * 5000, "{}\n".encode("utf-16") * 5000, b"BZh9" + b"x\n" * 5000):
        assert Jsonl().cuts(io.BytesIO(data), NAME, 100) == ()
        members = members_of(data, range(50, len(data), 50), "gzip")
        assert Jsonl().cuts(io.BytesIO(members), NAME, 1000) == ()
    assert Parquet().cuts(io.BytesIO(b"PAR1" + b"x" * 5000), NAME, 100) == ()
    assert Files().cuts(io.BytesIO(b"x" * 5000), NAME, 100) == ()


# -- Parquet --


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=30)), max_size=60),
    st.integers(1, 20),
    st.integers(1, 2000),
    st.booleans(),
)
def test_any_row_groups(texts: list[str | None], per_group: int, every: int, with_dictionary: bool) -> None:
    columns = {
        "text": pa.array(texts, pa.large_string()),
        "nothing": pa.nulls(len(texts)),
        "late": pa.array([None] * (len(texts) // 2) + [1] * (len(texts) - len(texts) // 2), pa.int32()),
    }
    data = parquet(pa.table(columns), row_group_size=per_group, use_dictionary=with_dictionary)
    cuts = Parquet().cuts(io.BytesIO(data), NAME, every)
    assert all(cut.offset % per_group == 0 for cut in cuts)
    assert check(Parquet(), data, cuts) == len(texts)


def test_row_groups_are_gathered_to_parts() -> None:
    texts = [os.urandom(500).hex() for _ in range(100)]  # 1,000 bytes each
    data = parquet(pa.table({"text": texts}), row_group_size=10, compression="none", use_dictionary=False)
    cuts = Parquet().cuts(io.BytesIO(data), NAME, 25_000)  # groups of 10 kB: three make a part
    assert [cut.offset for cut in cuts] == [30, 60]  # the last group would stand alone: it joins the third part
    assert [len(part) for part in in_parts(Parquet(), data, cuts)] == [30, 30, 40]
    one = parquet(pa.table({"text": texts}), row_group_size=1000, compression="none")
    assert Parquet().cuts(io.BytesIO(one), NAME, 25_000) == ()


def test_drifting_schemas_of_one_column(tmp_path: Path) -> None:
    """A column that is null throughout one row group, and a text column stored as a dictionary in others."""
    table = pa.table(
        {"text": ["a", "b"] * 20 + [f"long {number}" for number in range(40)], "id": [None] * 40 + [1] * 40}
    )
    data = parquet(table, row_group_size=8)
    cuts = Parquet().cuts(io.BytesIO(data), NAME, 1)
    assert len(cuts) > 5
    assert check(Parquet(), data, cuts) == 80


def test_a_damaged_row_group_costs_the_same_rows_in_parts() -> None:
    texts = [os.urandom(100).hex() for _ in range(60)]
    data = bytearray(
        parquet(pa.table({"text": texts}), row_group_size=10, compression="none", write_page_checksum=True)
    )
    place = data.find(texts[25].encode())
    data[place : place + 50] = b"\0" * 50
    cuts = Parquet().cuts(io.BytesIO(data), NAME, 4000)  # groups of 2.5 kB: two make a part
    assert [cut.offset for cut in cuts] == [20, 40]
    check(Parquet(), bytes(data), cuts)
    bad = [row["offset"] for row in rows(Parquet().read(io.BytesIO(data), NAME)) if row["rule"] == "read.bad_record"]
    assert bad == list(range(20, 30))


# -- the plan --


def test_even_cuts_depend_on_the_size_alone() -> None:
    def places(size: int) -> list[int]:
        return [cut.byte for cut in even_cuts(size, 100)]

    assert places(0) == places(100) == places(150) == []
    assert places(151) == places(250) == [100]
    assert places(251) == [100, 200]
    assert all(cut.byte == cut.offset for cut in even_cuts(1000, 100))


def plan(folder: Path, reader: Source, files: list[InputFile], every: int | None) -> list[Part]:
    """Return the parts as a run would plan them, its tasks run in this process."""
    cache = Cache(folder / "cache")
    cache.prepare()

    def perform(tasks: Sequence[Task]) -> None:
        for task in tasks:
            if missing := task.missing(cache):
                task.function(TaskContext(cache, 1 << 20, frozenset(missing)), *task.arguments)

    [parts] = divide([("own", reader, files)], cache, perform, every)
    return parts


def test_parts_and_shards_keep_the_canonical_order(tmp_path: Path) -> None:
    files = []
    for name, lines in (("a", 10), ("b", 100), ("c", 3), ("d", 60)):
        path = tmp_path / name
        path.write_bytes(b'{"text":"abcdefghi"}\n' * lines)  # 21 bytes a line: 210, 2100, 63, 1260
        files.append(InputFile(str(path), None, name, path.stat().st_size, name * 64))
    parts = plan(tmp_path, Jsonl(), files, 600)
    places = [(part.file.path, part.start.byte, part.stop and part.stop.byte, part.bytes) for part in parts]
    assert places == [
        ("a", 0, None, 210),
        ("b", 0, 600, 600),
        ("b", 600, 1200, 600),
        ("b", 1200, None, 900),  # 2,100 = three parts and a half: a half does not stand alone
        ("c", 0, None, 63),
        ("d", 0, 600, 600),
        ("d", 600, None, 660),
    ]
    assert sum(part.bytes for part in parts) == sum(file.bytes for file in files)
    assert fixed_shards(tuple(part.bytes for part in parts), 600, 9) == ((0,), (1,), (2,), (3,), (4,), (5,), (6,))
    assert plan(tmp_path, Jsonl(), files, None) == [Part(file) for file in files]
    assert plan(tmp_path, Files(), files, 600) == [Part(file) for file in files]
    assert len({json.dumps(part.identity()) for part in parts}) == len(parts)
    assert Part(files[0]).identity() == [None, "a", "a" * 64]
    assert parts_of(files[0], ()) == [Part(files[0])]


# -- whole runs --


def warc_member(number: int) -> bytes:
    """Return a response record as a gzip member; some of the last hundred are damaged in the middle."""
    page = "".join(f"<p>{line}</p>" for line in machine.prose(9000 + number).split("\n"))
    http = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html><body><article>{page}</article></body></html>"
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://site.test/{number}\r\nContent-Length: {len(http)}\r\n\r\n"
    member = bytearray(gzip.compress(f"{head}{http}\r\n\r\n".encode()))
    if number > 200 and number % 25 == 0:
        member[len(member) // 2] ^= 0xFF
    return bytes(member)


def recipe(folder: Path) -> Path:
    """Write a recipe over one large file of each kind and small ones beside them."""
    path = machine.project(folder, files=3, documents=40)
    documents = [{"id": f"x{number}", "text": machine.prose(5000 + number)} for number in range(300)]
    documents[200]["text"] = documents[30]["text"]  # a copy in another part
    lines = [json.dumps(document).encode() + b"\n" for document in documents]
    lines[100:100] = [b'{"id": "broken", "text": "unterminated\n', b"\r\n"]
    (folder / "in" / "one" / "part-01a.jsonl").write_bytes(b"".join(lines))
    packed = b"".join(gzip.compress(b"".join(lines[start : start + 9])) for start in range(0, len(lines), 9))
    (folder / "in" / "two" / "z.jsonl").write_bytes(packed)
    table = pa.table(
        {"id": [f"p{row}" for row in range(300)], "text": [machine.prose(7000 + row) for row in range(300)]}
    )
    pq.write_table(table, folder / "in" / "three.parquet", row_group_size=20)
    (folder / "in" / "web.warc.gz").write_bytes(b"".join(map(warc_member, range(300))))
    more = "  three:\n    read: {kind: parquet, paths: in/three.parquet}\n"
    more += "  web:\n    read: {kind: warc, paths: in/web.warc.gz}\n    extract: {kind: resiliparse}\n"
    text = path.read_text().replace("dedup:\n", f"{more}dedup:\n", 1)
    path.write_text(text.replace("weights: {one: 2, two: 1}", "weights: {one: 2, two: 1, three: 1, web: 1}"))
    return path


def table_of(run: Path, kind: str, source: str) -> pa.Table:
    files = sorted((run / kind / source).glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files])


EVERY = 15_000


def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curate.phases.parts.PART_BYTES", EVERY)
    monkeypatch.setattr("curate.curation.SHARD_BYTES", EVERY)  # else neighbouring parts share a shard


@pytest.fixture(scope="module")
def unsplit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a recipe and the folder of a run in which no file is large."""
    folder = tmp_path_factory.mktemp("unsplit")
    path = recipe(folder)
    machine.run(path, folder)
    return path, folder / "run"


def test_split_and_unsplit_runs_agree(
    unsplit: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = unsplit
    in_small_parts(monkeypatch)
    machine.run(path, tmp_path)
    split = tmp_path / "run"
    for source, most in (("one", 15), ("two", 4), ("three", 4), ("web", 4)):
        assert len(list((split / "extracted" / source).glob("*"))) >= most
        assert len(list((whole / "extracted" / source).glob("*"))) <= 2
        for kind in ("extracted", "decisions", "documents"):
            assert table_of(split, kind, source).equals(table_of(whole, kind, source)), (source, kind)
    for name in ("duplicates.parquet", "contamination.parquet", "mixture.json", "tokenizer/tokenizer.model"):
        assert (split / name).read_bytes() == (whole / name).read_bytes(), name
    ledgers = [json.loads((run / "manifest.json").read_text())["ledger"] for run in (split, whole)]
    assert ledgers[0] == ledgers[1]
    assert ledgers[0]["three"]["read"] == 300
    assert (ledgers[0]["web"]["read"], ledgers[0]["web"]["removed"]["read"]) == (300, {"read.bad_record": 3})
    for file in sorted(whole.glob("tokens/*/*.bin")):
        assert (split / file.relative_to(whole)).read_bytes() == file.read_bytes(), file.name


def test_a_limit_counts_documents_of_a_source(
    unsplit: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = unsplit
    in_small_parts(monkeypatch)
    result = machine.run(path, tmp_path, limit=130, until="extract")
    assert {name: one["read"] for name, one in result.manifest["ledger"].items()} == dict.fromkeys(
        ("one", "two", "three", "web"), 130
    )
    limited = table_of(tmp_path / "run", "extracted", "three")
    assert limited.equals(table_of(whole, "extracted", "three").slice(0, 130))


DRIVER = f"""
import sys
import curate.curation
import curate.phases.parts
curate.phases.parts.PART_BYTES = curate.curation.SHARD_BYTES = {EVERY}
from curate.cli import main
main()
"""


def command(folder: Path, path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `curate run --until extract` with small parts in a process of its own."""
    where = ("--output", folder / "run", "--cache", folder / "cache", "--workers", 2, "--until", "extract")
    return subprocess.run(
        [sys.executable, "-c", DRIVER, "run", str(path), *map(str, where)],
        env=os.environ | {"PYTHONPATH": str(machine.ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_killed_inside_a_file_and_run_again(unsplit: tuple[Path, Path], tmp_path: Path) -> None:
    """What was finished of a file stays: the second run reads the other parts alone."""
    path, whole = unsplit
    environment = {
        "PYTHONPATH": os.pathsep.join((str(machine.ROOT / "tests" / "crash"), str(machine.ROOT))),
        "CURATE_TEST_KILL": f"after_entry:12:{tmp_path / 'count'}",
    }
    killed = command(tmp_path, path, environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    finished = len(list((tmp_path / "cache" / "entries").glob("*/*/entry.json")))
    assert 12 <= finished <= 13  # the other worker may have been at its entry
    again = command(tmp_path, path, {})
    assert again.returncode == 0, again.stderr
    timings = json.loads((tmp_path / "run" / "timings.json").read_text())["phases"]["extract"]
    assert timings["tasks_reused"] == finished
    assert timings["tasks_run"] > 20
    for source in ("one", "two", "three", "web"):
        assert table_of(tmp_path / "run", "extracted", source).equals(table_of(whole, "extracted", source))


def test_the_size_of_a_part_is_no_smaller_than_what_is_numbered() -> None:
    """Else each part would read the file from its start, to count the lines before it."""
    assert PART_BYTES >= jsonl.NUMBERED_BYTES
    assert RAW.field("offset").type == pa.int64()
