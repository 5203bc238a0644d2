import gzip
import io
import json
import pickle
import subprocess
import sys

import lz4.frame
import pytest
import zstandard
from reading import PATH, ROOT, documents, growth, inputs_of, load_cases, read_rows, real_data, rules

from curate.read.jsonl import Jsonl

CASES = load_cases("read")


def read_case(case_id):
    [(name, data)] = inputs_of(CASES[case_id])
    return read_rows(Jsonl(), data, name)


@pytest.mark.parametrize("case_id", ["read-001", "read-002", "read-003", "read-005"])
def test_documents_of_the_fault_cases(case_id):
    expect = CASES[case_id]["expect"]
    rows = read_case(case_id)
    found = [{"id": row["source_id"], "text": row["text"]} for row in documents(rows)]
    assert found == expect["expected_docs"]
    assert rules(rows).get("read.bad_record", 0) == expect.get("expected_report", {}).get("bad_records", 0)
    for forbidden in expect.get("must_not_contain", []):
        assert all(forbidden not in document["text"] for document in found)


def test_a_bad_line_names_file_line_and_offset():
    bad = read_case("read-001")[1]
    assert bad["rule"] == "read.bad_record"
    assert bad["detail"].startswith("x.jsonl, line 2: not JSON")
    assert "one object per line" in bad["detail"]
    # {"id":"a","text":"Gate shut."} and its line feed are 31 bytes.
    assert bad["offset"] == 31


def test_only_a_line_feed_ends_a_record():  # read-004
    rows = read_case("read-004")
    assert [row["source_id"] for row in rows] == ["a", "b"]
    assert rows[0]["text"] == "one\u2028still one"
    assert rows[1]["text"] == "two\u0085still two"
    assert not rules(rows)


def test_a_cut_gzip_file_gives_its_whole_records_and_one_mark():  # read-006
    rows = read_case("read-006")
    found = documents(rows)
    assert len(found) == 71
    assert [row["source_id"] for row in found[:2]] == ["g000", "g001"]
    assert rules(rows) == {"read.truncated": 1}
    assert rows[-1]["rule"] == "read.truncated"
    assert "truncated.jsonl.gz, line 72" in rows[-1]["detail"]
    assert "unexpected end of file" in rows[-1]["detail"]


def test_of_a_repeated_key_the_last_value_wins():  # read-007
    rows = read_case("read-007")
    assert [(row["source_id"], row["text"]) for row in rows] == [("a", "second version"), ("b", "fine")]


def test_a_key_that_appears_late_is_kept():  # read-008
    rows = read_case("read-008")
    assert len(documents(rows)) == 160
    licences = {row["source_id"]: json.loads(row["metadata"])["license"] for row in rows if row["metadata"]}
    assert len(licences) == 20
    assert licences["r140"] == licences["r159"] == "cc0"


def test_mixed_types():  # read-009
    rows = read_case("read-009")
    assert [(row["source_id"], row["text"]) for row in documents(rows)] == [("1", "one"), ("2", "two"), (None, "six")]
    assert rules(rows) == {"read.no_text": 3}
    details = [row["detail"] for row in rows if row["rule"]]
    assert ["JSON null" in detail or "is missing" in detail or "JSON array" in detail for detail in details] == [
        True
    ] * 3


def test_a_missing_field_is_told_with_those_that_are_there():
    [row] = read_rows(Jsonl(), b'{"id": "a", "body": "x", "lang": "en"}\n')
    assert "field 'text' is missing; the record has id, body, lang, a string was expected" in row["detail"]
    [row] = read_rows(Jsonl(), json.dumps({f"f{n}": n for n in range(23)}).encode())
    assert "f18, f19 and 3 more" in row["detail"]
    [row] = read_rows(Jsonl(), b'{"text": null}')
    assert "field 'text' holds a JSON null" in row["detail"]


def test_a_record_longer_than_any_block():  # read-010
    rows = read_case("read-010")
    assert {row["source_id"]: len(row["text"]) for row in rows} == {"big": 3_000_000, "small": 2}


def test_a_decompression_bomb_costs_one_record_and_bounded_memory():  # read-011
    # The input is built in another process: building it takes the memory that reading must not take.
    builder = "import sys; sys.path.insert(0, 'tests/read'); from reading import *; "
    builder += "sys.stdout.buffer.write(inputs_of(load_cases('read')['read-011'])[0][1])"
    data = subprocess.run([sys.executable, "-c", builder], cwd=ROOT, check=True, capture_output=True).stdout
    assert len(data) < 1 << 20
    script = """
import sys
from reading import peak
from curate.read.jsonl import Jsonl
import pyarrow
before = peak()
rows = [row for batch in Jsonl().read(sys.stdin.buffer, "bomb.jsonl.gz") for row in batch.to_pylist()]
after = peak()
print(rows[0]["rule"], rows[0]["detail"], rows[1]["text"], len(rows), (after - before) // 1024, sep="|")
"""
    run = subprocess.run([sys.executable, "-c", PATH + script], cwd=ROOT, input=data, check=True, capture_output=True)
    rule, detail, after, count, grown = run.stdout.decode().strip().split("|")
    assert (rule, after, count) == ("read.too_large", "after", "2")
    assert "exceeds the limit of 67108864 (max_bytes)" in detail
    assert int(grown) < 256  # MiB: the limit of 64, twice while the line is joined, and the batch


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"id":"h1","text":"one"}{"id":"h2","text":"two"}', "Extra data at character 24; one object per line was"),
        (
            b'[{"id":"h3","text":"three"},\n{"id":"h4","text":"four"}]',
            "looks like a JSON array; one object per line was",
        ),
        (b'"text"\n', "found a JSON string; one object per line was expected"),
    ],
)
def test_files_that_are_not_lines_say_what_was_expected(data, expected):  # read-012
    rows = read_rows(Jsonl(), data)
    assert not documents(rows)
    assert rules(rows)["read.bad_record"] == len(rows)
    assert expected in rows[0]["detail"]


def test_damage_inside_costs_the_line_cut_there_and_reading_goes_on_at_the_next_member():
    def member(first):
        return gzip.compress(b"".join(b'{"id":%d,"text":"t"}\n' % n for n in range(first, first + 100)), mtime=0)

    broken = bytearray(member(100))
    broken[len(broken) // 2] ^= 0xFF
    rows = read_rows(Jsonl(), member(0) + bytes(broken) + member(200), "x.jsonl.gz")
    ids = [int(row["source_id"]) for row in documents(rows)]
    assert ids[:100] == list(range(100))
    assert ids[-100:] == list(range(200, 300))
    bad = [row for row in rows if row["rule"]]
    assert {row["rule"] for row in bad} == {"read.bad_record"}
    offset = len(member(0)) + len(broken)
    assert f"the gzip member at byte {len(member(0))} is damaged" in bad[-1]["detail"]
    assert f"reading goes on at byte {offset}" in bad[-1]["detail"]


def zstd_frames(data):
    # With a checksum and without content sizes, as the zstd tool writes from a pipe.
    compressor = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False)
    half = len(data) // 2
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    return compressor.compress(data[:half]) + skippable + compressor.compress(data[half:])


@pytest.mark.parametrize(
    "pack",
    [
        lambda data: data,
        lambda data: gzip.compress(data[:33]) + gzip.compress(data[33:]) + bytes(512),
        zstd_frames,
        lambda data: lz4.frame.compress(data[:33]) + lz4.frame.compress(data[33:]),
    ],
    ids=["plain", "gzip", "zstd", "lz4"],
)
def test_every_compression_gives_the_same_rows_under_any_name(pack):
    data = b"".join(b'{"id":"%d","text":"%s"}\n' % (number, b"w" * number) for number in range(600))
    assert read_rows(Jsonl(), pack(data), "x.txt") == read_rows(Jsonl(), data, "x.txt")
    assert len(read_rows(Jsonl(), pack(data))) == 600


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress, lz4.frame.compress])
def test_every_cut_is_seen(pack):
    data = b"".join(b'{"id":"%d","text":"some words"}\n' % number for number in range(50))
    packed = pack(data)
    for size in range(4, len(packed)):
        rows = read_rows(Jsonl(), packed[:size])
        assert rules(rows) == {"read.truncated": 1}, size
        assert [row["source_id"] for row in documents(rows)] == [str(n) for n in range(len(rows) - 1)]


def test_a_cut_plain_file_is_truncated_and_a_missing_last_line_feed_is_fine():
    assert rules(read_rows(Jsonl(), b'{"text":"a"}\n{"text":"b')) == {"read.truncated": 1}
    assert not rules(read_rows(Jsonl(), b'{"text":"a"}\n{"text":"b"}'))


def test_the_limit_on_a_line_is_kept_on_both_sides():
    line = b'{"text":"abcd"}'  # 15 bytes
    assert len(documents(read_rows(Jsonl(max_bytes=15), line + b"\n" + line))) == 2
    rows = read_rows(Jsonl(max_bytes=14), line + b"\n" + line)
    assert rules(rows) == {"read.too_large": 2}
    assert [row["offset"] for row in rows] == [0, 16]


def test_offsets_are_those_of_the_plain_bytes():
    data = b'\xef\xbb\xbf{"text":"\xc3\xa9"}\r\n\n{"text":"b"}\n'
    rows = read_rows(Jsonl(), gzip.compress(data))
    assert [(row["offset"], row["text"]) for row in rows] == [(0, "é"), (19, "b")]  # 3 + 13 + 2 + 1


def test_columns_are_taken_by_name_and_the_rest_is_metadata():
    record = {
        "body": "words",
        "key": True,
        "link": "u",
        "lang": "pt",
        "n": 1,
        "nested": {"x": None},
        "nan": float("nan"),
    }
    data = json.dumps(record).encode()
    [row] = read_rows(Jsonl(text="body", id="key", url="link", language="lang"), data)
    assert (row["text"], row["source_id"], row["url"], row["language"]) == ("words", "true", "u", "pt")
    assert json.loads(row["metadata"]) == {"n": 1, "nested": {"x": None}, "nan": None}
    [row] = read_rows(Jsonl(text="body", metadata=("n", "absent")), data)
    assert json.loads(row["metadata"]) == {"n": 1}
    [row] = read_rows(Jsonl(text="body", metadata=()), data)
    assert row["metadata"] is None


def test_html_becomes_content():
    [row] = read_rows(Jsonl(html="page"), '{"page":"<p>é</p>","text":"unused"}'.encode())
    assert (row["content"], row["text"], row["media_type"], row["charset"]) == (
        "<p>é</p>".encode(),
        None,
        "text/html",
        "utf-8",
    )


def test_text_is_unchanged_but_for_surrogates():
    [row] = read_rows(Jsonl(), b'{"text":"a\\r\\nb\\u0000\\ud83d\\ude00 \\udc00 \\ufeff","k\\udfff":["\\ud800"]}')
    assert row["text"] == "a\r\nb\0\U0001f600 � \ufeff"
    assert json.loads(row["metadata"]) == {"k�": ["�"]}


def test_bytes_that_are_not_utf8_are_decoded_and_said_so():
    [row] = read_rows(Jsonl(), '{"text":"Die Brücke über den Fluß"}'.encode("cp1252"))
    assert row["text"] == "Die Brücke über den Fluß"
    assert json.loads(row["metadata"])["decoded"]["encoding"] == "cp1252"
    [row] = read_rows(Jsonl(), '{"text":"Brücke über Flüsse'.encode() + b'\xff"}')
    assert row["text"] == "Brücke über Flüsse�"
    assert json.loads(row["metadata"])["decoded"] == {"encoding": "utf-8", "num_replaced": 1}


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ('{"text":"a"}\n'.encode("utf-16"), "UTF-16"),
        (b"PK\x03\x04zip", "zip"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
    ],
)
def test_what_cannot_be_lines_is_refused_by_name(data, word):
    [row] = read_rows(Jsonl(), data)
    assert row["rule"] == "read.undecodable"
    assert word in row["detail"]


def test_nesting_too_deep_costs_one_record():
    rows = read_rows(Jsonl(), b'{"text":"a","x":' + b"[" * 200_000 + b"\n" + b'{"text":"b"}')
    assert rules(rows) == {"read.bad_record": 1}
    assert [row["text"] for row in documents(rows)] == ["b"]


def test_an_empty_file_has_no_rows():
    assert read_rows(Jsonl(), b"") == []
    assert read_rows(Jsonl(), gzip.compress(b"")) == []


def test_a_stream_that_cannot_seek_is_read():
    class Stream(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *_):
            raise OSError("no seek")

    data = gzip.compress(b'{"text":"a"}\n')
    assert read_rows(Jsonl(), Stream(data)) == read_rows(Jsonl(), data)
    assert rules(read_rows(Jsonl(), Stream(data[:-9]))) == {"read.truncated": 1}


def test_a_wrong_checksum_is_damage():
    data = bytearray(gzip.compress(b'{"text":"a"}\n'))
    data[-6] ^= 1
    rows = read_rows(Jsonl(), bytes(data))
    assert rules(rows) == {"read.bad_record": 1}


def test_settings_pickle():
    source = Jsonl(text="body", metadata=("a",))
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize(
    ("folder", "name", "count"), [("04_books", "books.jsonl.gz", 53), ("05_code", "code.jsonl.gz", 3601)]
)
def test_real_files_are_read_whole(folder, name, count):
    path = real_data(folder) / name
    with gzip.open(path, "rb") as lines:
        expected = [json.loads(line) for line in lines]
    with path.open("rb") as file:
        rows = read_rows(Jsonl(), file, name)
    assert len(rows) == count
    assert [(row["source_id"], row["text"], row["rule"]) for row in rows] == [
        (r["id"], r["text"], None) for r in expected
    ]


def test_memory_does_not_grow_with_the_file(tmp_path):
    line = json.dumps({"text": "barge and lock " * 700}).encode() + b"\n"  # 10 KB
    paths = [tmp_path / f"{times}.jsonl.gz" for times in (1000, 20_000)]
    for path, times in zip(paths, (1000, 20_000), strict=True):
        with gzip.open(path, "wb", 1) as file:
            for _ in range(times):
                file.write(line)
    script = """
from reading import peak
from curate.read.jsonl import Jsonl
count = sum(batch.num_rows for batch in Jsonl().read(open(sys.argv[1], "rb"), "x"))
print(count, peak())
"""
    bound = 19_000 * len(line) // 10  # a tenth of the text that the larger file holds more
    grown, counts = growth(script, *paths, bound)
    assert counts == ["1000", "20000"]
    assert grown < bound
