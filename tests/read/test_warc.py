import gzip
import io
import json
import pickle
import re
import zlib
from collections import Counter

import brotli
import lz4.frame
import pytest
import zstandard
from reading import documents, growth, inputs_of, load_cases, read_rows, real_data, rules

from curate.read.warc import Warc

CASES = load_cases("warc")


def read_case(case_id):
    [(name, data)] = inputs_of(CASES[case_id])
    return read_rows(Warc(), data, name)


def record(url, block=b"", kind="response", fields="", length=None):
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n{fields}"
    head += f"Content-Length: {len(block) if length is None else length}\r\n\r\n"
    return head.encode() + block + b"\r\n\r\n"


def http(body, fields="", status="200 OK"):
    return f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\n{fields}\r\n".encode() + body


def urls(rows):
    return [row["url"] for row in documents(rows)]


def body_of(fields, body, **settings):
    [row] = read_rows(Warc(**settings), record("u", http(body, fields)))
    return row


# The fault cases.


def test_a_cut_member_is_not_passed_on_as_if_whole():  # warc-001
    rows = read_case("warc-001")
    assert urls(rows) == ["http://lock.example/1"]
    assert rules(rows) == {"read.truncated": 1}
    assert "cut.warc.gz, byte " in rows[1]["detail"]
    assert "unexpected end of file" in rows[1]["detail"]


def test_reading_goes_on_behind_a_broken_member():  # warc-002
    rows = read_case("warc-002")
    assert urls(rows) == ["http://lock.example/1", "http://lock.example/3"]
    assert rules(rows) == {"read.bad_record": 1}
    assert [row["offset"] for row in rows] == sorted(row["offset"] for row in rows)


def test_a_brotli_body_is_decoded():  # warc-003
    [row] = documents(read_case("warc-003"))
    assert b"Barges carried grain" in row["content"]


def test_chunked_bodies_and_bodies_that_only_claim_it():  # warc-004
    found = documents(read_case("warc-004"))
    assert len(found) == 2
    assert b"Barges carried grain" in found[0]["content"]
    assert b"Second page: barges" in found[1]["content"]
    for row in found:
        assert re.search(rb"(?m)^[0-9a-f]{2,5}\r?$", row["content"]) is None
        assert row["content"].rstrip().endswith(b"</html>")


def test_a_record_without_a_length_does_not_swallow_the_next():  # warc-005
    rows = read_case("warc-005")
    assert rules(rows) == {"read.bad_record": 1}
    assert "no usable Content-Length ('')" in rows[0]["detail"]
    assert len(documents(rows)) == 1
    assert b"WARC/1.0" not in documents(rows)[0]["content"]
    assert b"WARC-Type" not in documents(rows)[0]["content"]


def test_records_without_payload():  # warc-006: empty content is removed downstream as extract.empty
    rows = read_case("warc-006")
    assert [row["url"] for row in documents(rows) if row["content"]] == ["http://lock.example/ok"]
    assert rules(rows) == {"skipped.revisit": 1}
    assert [row["content"] for row in documents(rows)].count(b"") == 2


def test_status_and_media_type_are_handed_on():  # warc-007: the gates decide
    found = {row["url"]: (row["status"], row["media_type"]) for row in documents(read_case("warc-007"))}
    assert len(found) == 5
    assert [url for url, seen in found.items() if seen == (200, "text/html")] == ["http://lock.example/ok"]
    assert sorted(seen for seen in found.values() if seen != (200, "text/html")) == [
        (200, "application/json"),
        (200, "image/png"),
        (200, "text/plain"),
        (404, "text/html"),
    ]


def test_one_member_over_all_records():  # warc-008
    rows = read_case("warc-008")
    assert urls(rows) == [f"http://lock.example/{number}" for number in (1, 2, 3)]
    assert [(row["offset"], row["part"]) for row in rows] == [(0, 0), (0, 1), (0, 2)]


def test_a_resource_record_is_a_document():  # warc-009
    [row] = documents(read_case("warc-009"))
    assert row["url"] == "http://lock.example/res"
    assert b"Barges carried grain" in row["content"]
    assert row["content"].lstrip().startswith(b"<")


def test_a_false_content_encoding_costs_no_byte():  # warc-010
    [row] = documents(read_case("warc-010"))
    assert row["content"].startswith(b"<html><body>")
    assert b"Barges carried grain" in row["content"]
    assert json.loads(row["metadata"])["content_encoding"] == "gzip declared, not applied"


# Offsets, lengths, damage.

THREE = [record(f"u{number}", http(b"<p>page %d" % number * 50)) for number in range(3)]


def test_offsets_are_those_of_records_or_members():
    rows = read_rows(Warc(), b"".join(THREE))
    assert [row["offset"] for row in rows] == [0, len(THREE[0]), len(THREE[0]) + len(THREE[1])]
    for pack in (gzip.compress, zstandard.ZstdCompressor().compress, lz4.frame.compress):
        members = [pack(each) for each in THREE]
        packed = read_rows(Warc(), b"".join(members))
        assert [row["offset"] for row in packed] == [0, len(members[0]), len(members[0]) + len(members[1])]
        assert [row["content"] for row in packed] == [row["content"] for row in rows]


@pytest.mark.parametrize("size", [1, 10, 100, 1000])
def test_members_need_not_end_with_records(size):
    data = b"".join(THREE)
    packed = b"".join(gzip.compress(data[start : start + size]) for start in range(0, len(data), size))
    assert urls(read_rows(Warc(), packed)) == ["u0", "u1", "u2"]


def test_a_zstd_dictionary_frame_is_used():
    pages = [
        record(f"u{n}", http(b"<html><title>Barge %d</title><p>Grain and timber</p></html>" % n)) for n in range(200)
    ]
    trained = zstandard.train_dictionary(2048, pages)
    compressor = zstandard.ZstdCompressor(dict_data=trained)
    for stored in (trained.as_bytes(), zstandard.compress(trained.as_bytes())):
        head = b"\x5d\x2a\x4d\x18" + len(stored).to_bytes(4, "little") + stored
        rows = read_rows(Warc(), head + b"".join(map(compressor.compress, pages)))
        assert urls(rows) == [f"u{n}" for n in range(200)]
        assert rows[0]["offset"] == len(head)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress, lz4.frame.compress])
def test_every_cut_gives_the_whole_records_before_it_and_one_mark(pack):
    members = [pack(each) for each in THREE]
    data = b"".join(members)
    start = len(members[0]) + len(members[1])
    for size in range(start + 9, len(data) - (4 if pack is bytes else 0)):
        rows = read_rows(Warc(), data[:size])
        assert urls(rows) == ["u0", "u1"], size
        assert rules(rows) == {"read.truncated": 1}
        assert rows[-1]["offset"] == start


def test_every_flipped_byte_of_a_gzip_member_costs_that_record_alone():
    members = [gzip.compress(each, mtime=0) for each in THREE]
    for place in range(len(members[1])):
        if place in (4, 5, 6, 7, 8, 9):
            continue  # time stamp, flags and system of the member: they change nothing
        broken = bytearray(members[1])
        broken[place] ^= 0x55
        rows = read_rows(Warc(), members[0] + bytes(broken) + members[2])
        assert urls(rows) == ["u0", "u2"], place
        assert set(rules(rows)) == {"read.bad_record"}, place


def test_a_gzip_payload_inside_a_broken_member_is_not_taken_for_a_member():
    inner = gzip.compress(b"WARC-like payload " + bytes(range(256)) * 9, mtime=0)
    stored = zlib.compressobj(0, zlib.DEFLATED, 31)  # level 0: the payload lies in the member as it is
    middle = bytearray(stored.compress(record("u1", http(inner))) + stored.flush())
    middle[-5] ^= 1  # checksum
    rows = read_rows(Warc(), gzip.compress(THREE[0]) + bytes(middle) + gzip.compress(THREE[2]))
    assert urls(rows) == ["u0", "u2"]
    assert rules(rows) == {"read.bad_record": 1}


@pytest.mark.parametrize("wrong", [-20, -1, 1, 20, 700])
def test_a_wrong_length_costs_one_record(wrong):
    # -1 and 1 to 4 bytes are beside the line ends behind a record; only where a record starts can end one.
    block = http(b"<p>page" * 20)
    data = THREE[0] + record("wrong", block, length=len(block) + wrong) + THREE[2] + THREE[1]
    for pack in (bytes, gzip.compress):
        rows = read_rows(Warc(), pack(data))
        assert urls(rows) == (["u0", "wrong", "u2", "u1"] if wrong == 1 else ["u0", "u2", "u1"])
        assert rules(rows) == ({} if wrong == 1 else {"read.bad_record": 1})


def test_a_length_beyond_the_member_costs_one_record():
    wrong = record("wrong", b"half", length=100)[:-4]
    rows = read_rows(Warc(), gzip.compress(THREE[0]) + gzip.compress(wrong) + gzip.compress(THREE[2]))
    assert urls(rows) == ["u0", "u2"]
    assert rules(rows) == {"read.bad_record": 1}


def test_a_record_may_hold_a_warc_file():
    inner = b"".join(THREE)
    rows = read_rows(Warc(), record("outer", inner, "resource", "Content-Type: application/warc\r\n") + THREE[0])
    assert urls(rows) == ["outer", "u0"]
    assert rows[0]["content"] == inner


def test_garbage_between_records_is_one_bad_record():
    rows = read_rows(Warc(), THREE[0] + b"garbage\r\nmore of it" * 5000 + b"\r\n" + THREE[1])
    assert urls(rows) == ["u0", "u1"]
    assert rules(rows) == {"read.bad_record": 1}
    assert rows[1]["offset"] == len(THREE[0])
    assert "no record starts here" in rows[1]["detail"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_record_over_the_limit_is_passed_over(pack):
    big = record("big", bytes(3_000_000))
    limit = Warc(max_bytes=2_999_999)
    rows = read_rows(limit, pack(THREE[0]) + pack(big) + pack(THREE[2]))
    assert urls(rows) == ["u0", "u2"]
    assert rules(rows) == {"read.too_large": 1}
    assert "3000000 bytes exceeds the limit of 2999999 (max_bytes)" in rows[1]["detail"]
    assert urls(read_rows(Warc(max_bytes=3_000_000), pack(big))) == ["big"]


def test_a_length_beyond_all_bounds_does_not_hide_the_records_behind_it():
    lie = record("lie", b"short", length=10**15)
    for data in (THREE[0] + lie + THREE[2], gzip.compress(THREE[0]) + gzip.compress(lie) + gzip.compress(THREE[2])):
        rows = read_rows(Warc(), data)
        assert urls(rows) == ["u0", "u2"]
        assert len(rows) == 3


def test_line_ends_and_folded_fields_of_other_tools():
    data = record("<http://a.example/x y>", http(b"b"), fields="X: 1\r\n  2\r\nno field\r\n").replace(b"\r\n", b"\n")
    length = len(http(b"b").replace(b"\r\n", b"\n"))
    data = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % length, data)
    assert urls(read_rows(Warc(), data)) == ["http://a.example/x y"]


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("WARC-Type: response\r\nContent-Length: -5\r\n", "no usable Content-Length ('-5')"),
        ("WARC-Type: response\r\nContent-Length: x\r\n", "no usable Content-Length ('x')"),
        ("Content-Length: 0\r\n", "no usable WARC-Type ('')"),
    ],
)
def test_headers_that_cannot_be_used(header, why):
    rows = read_rows(Warc(), f"WARC/1.1\r\n{header}\r\n\r\n\r\n".encode() + THREE[0])
    assert why in rows[0]["detail"]
    assert urls(rows) == ["u0"]


# Kinds of records.


def test_records_that_hold_no_document_are_named():
    kinds = ("warcinfo", "request", "metadata", "revisit", "continuation", "x-own")
    rows = read_rows(Warc(), b"".join(record("u", b"x", kind) for kind in kinds))
    assert rules(rows) == {f"skipped.{kind}": 1 for kind in kinds}


def test_wet_records_give_text():
    fields = "Content-Type: text/plain\r\nWARC-Identified-Content-Language: por,eng\r\n"
    [row] = read_rows(Warc(), record("u", "Ação às 9 horas.\n".encode(), "conversion", fields))
    assert (row["text"], row["content"], row["media_type"]) == ("Ação às 9 horas.\n", None, "text/plain")
    assert json.loads(row["metadata"]) == {"languages": "por,eng"}


def test_metadata_and_columns_of_a_response():
    fields = "WARC-Date: 2024-05-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Payload-Digest: sha1:X\r\n"
    fields += "WARC-Block-Digest: sha1:Y\r\nWARC-Truncated: length\r\n"
    block = b'HTTP/1.1 203\r\ncontent-type: Text/HTML; Charset="ISO-8859-1"; x=y\r\nContent-Language: pt-BR\r\n\r\nbody'
    [row] = read_rows(Warc(), record("http://a/", block, fields=fields))
    assert (row["status"], row["media_type"], row["charset"], row["language"]) == (
        203,
        "text/html",
        "iso-8859-1",
        "pt-br",
    )
    assert (row["source_id"], row["content"]) == ("urn:uuid:1", b"body")
    expected = {"date": "2024-05-01T00:00:00Z", "digest": "sha1:X", "record_id": "urn:uuid:1", "truncated": "length"}
    assert json.loads(row["metadata"]) == expected


def test_arc_records():
    head = b"filedesc://x.arc 0.0.0.0 20080430204825 text/plain 5\n1 0 x\n\n"
    block = http(b"<p>one")
    one = b"http://a.example/b c 1.2.3.4 20080430204826 text/html %d\n%s\n" % (len(block), block)
    two = b"http://a.example/2 1.2.3.4 20080430204827 text/html 200 - - 9 x.arc %d\n%s\n" % (len(block), block)
    rows = read_rows(Warc(), head + one + two)
    assert rules(rows) == {"skipped.filedesc": 1}
    assert urls(rows) == ["http://a.example/b c", "http://a.example/2"]
    assert json.loads(rows[1]["metadata"]) == {"date": "2008-04-30T20:48:26Z"}
    assert rows[2]["content"] == b"<p>one"


# HTTP bodies.

PAGE = b"<!doctype html><p>" + b"Barges carried grain. " * 100


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(PAGE)),
        ("x-gzip", gzip.compress(PAGE[:99]) + gzip.compress(PAGE[99:])),
        ("deflate", zlib.compress(PAGE)),
        ("deflate", zlib.compress(PAGE, wbits=-15)),
        ("br", brotli.compress(PAGE)),
        ("zstd", zstandard.compress(PAGE)),
        ("br, gzip", gzip.compress(brotli.compress(PAGE))),
        ("identity", PAGE),
        ("gzip", PAGE),
        ("deflate", PAGE),
        ("br", PAGE),
        ("zstd", PAGE),
        ("compress", PAGE),
        ("utf-8", PAGE),
    ],
)
def test_content_codings(coding, body):
    assert body_of(f"Content-Encoding: {coding}\r\n", body)["content"] == PAGE


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "compress"])
def test_compressed_bytes_never_pass_as_content(coding):
    row = body_of(f"Content-Encoding: {coding}\r\n", b"\x00\x01\x02\xfe" * 100)
    assert (row["rule"], row["content"]) == ("read.undecodable", None)
    assert coding in row["detail"]


@pytest.mark.parametrize("coding", ["gzip", "br"])
def test_a_cut_body_gives_its_start_and_says_so(coding):
    noise = b"<p>" + bytes(33 + (7 * n * n + n // 3) % 90 for n in range(200_000))
    packed = gzip.compress(noise) if coding == "gzip" else brotli.compress(noise, quality=5)
    row = body_of(f"Content-Encoding: {coding}\r\n", packed[: len(packed) * 3 // 4])
    assert noise.startswith(row["content"])
    assert row["content"]
    assert "incomplete" in json.loads(row["metadata"])["truncated"]


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, brotli.compress, zstandard.compress])
def test_a_body_that_expands_beyond_the_limit_is_refused(pack):
    coding = {gzip.compress: "gzip", zlib.compress: "deflate", brotli.compress: "br", zstandard.compress: "zstd"}[pack]
    row = body_of(f"Content-Encoding: {coding}\r\n", pack(bytes(100_000)), max_bytes=99_999)
    assert row["rule"] == "read.too_large"
    assert "limit of 99999 bytes (max_bytes)" in row["detail"]
    assert body_of(f"Content-Encoding: {coding}\r\n", pack(bytes(100_000)), max_bytes=100_000)["content"] == bytes(
        100_000
    )


def chunked(*chunks):
    return b"".join(b"%x;name=value\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)


CHUNKED = "Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("body", "expected", "note"),
    [
        (chunked(PAGE[:10], PAGE[10:]) + b"0\r\n\r\n", PAGE, None),
        (chunked(PAGE) + b"0\r\nTrailer: x\r\n\r\n", PAGE, None),
        (chunked(PAGE), PAGE, "chunked, without the last chunk"),
        (chunked(PAGE)[:-100], PAGE[:-98], "chunked, without the last chunk"),
        (PAGE, PAGE, None),
        (b"12 barges\n", b"12 barges\n", None),
        (b"5\r\nhello!\r\n", b"5\r\nhello!\r\n", None),
        (b"", b"", None),
    ],
)
def test_chunked_coding(body, expected, note):
    row = body_of(CHUNKED, body)
    assert row["content"] == expected
    assert (json.loads(row["metadata"]).get("transfer_encoding") if row["metadata"] else None) == note


def test_both_codings_and_an_undeclared_one():
    packed = gzip.compress(PAGE)
    body = chunked(packed[:20], packed[20:]) + b"0\r\n\r\n"
    assert body_of(CHUNKED + "Content-Encoding: gzip\r\n", body)["content"] == PAGE
    assert body_of("Transfer-Encoding: gzip, chunked\r\n", body)["content"] == PAGE
    assert body_of("", packed)["content"] == PAGE


def test_a_block_without_a_status_line_is_a_body():
    [row] = read_rows(Warc(), record("u", PAGE, fields="Content-Type: application/http\r\n"))
    assert (row["content"], row["status"]) == (PAGE, None)


def test_headers_only_and_nothing_at_all():
    [row] = read_rows(Warc(), record("u", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"))
    assert (row["content"], row["status"], row["media_type"]) == (b"", 200, "text/html")
    [row] = read_rows(Warc(), record("u", b""))
    assert (row["content"], row["status"]) == (b"", None)


def test_settings_pickle():
    assert pickle.loads(pickle.dumps(Warc(max_bytes=5))) == Warc(max_bytes=5)


# Real archives.

# Files with damage or wrong lengths, or without WARC records: documents and rules, worked out from a listing of each
# file's record headers, the lengths they claim and the bytes to the next header.
AWKWARD = {
    "aut/badexample.arc.gz": (1, {"read.bad_record": 2, "read.truncated": 1}),  # lengths count CRLF, lines end in LF
    "chatnoir-resiliparse/clipped.warc.gz": (0, {"read.truncated": 1}),
    "chatnoir-resiliparse/warcfile.warc.lz4": (16, {}),  # the lz4 form of warcfile.warc
    "ipwb/broken.warc": (1, {"read.bad_record": 1}),  # claims 7 bytes, 339 follow
    "webarchive/invalid-warcrecord-3.warc": (
        3,
        {"read.bad_record": 2, "read.truncated": 1},
    ),  # 782 claimed: 682, 882, 686
    "webarchive/invalid-warcrecord-1.warc": (0, {"read.bad_record": 2}),  # two without a length
    "warcio.js/example-bad-length.warc": (0, {"read.bad_record": 1}),  # 974 claimed, 975 follow
    "warcio/example-trunc.warc": (0, {"read.bad_record": 1}),  # 973 claimed, 975 follow
    "warcio/bad.arc": (1, {"read.bad_record": 3}),  # lengths of -1, -1, abc and a good record of one byte
    "warcio/example.arc": (1, {}),
    "cc_net/sample.warc.txt": (0, {"read.bad_record": 4}),  # lengths count characters and CRLF
    "pywb/invalid_example_1.wacz": (0, {"read.undecodable": 1}),
    "pywb/missing-status-text.warc": (1, {}),  # lines end in CR CR LF
    "webarchive-commons/IAH-20080430204825-00000-blackbook-truncated.arc": (8, {}),
    "webarchive-discovery/IAH-20080430204825-00000-blackbook-truncated.arc.gz": (8, {}),
}


def record_types(data):
    """Count WARC-Type fields in all gzip members: a scan that shares nothing with the reader."""
    plain = b""
    while data.startswith(b"\x1f\x8b"):
        decoder = zlib.decompressobj(31)
        plain += decoder.decompress(data)
        data = decoder.unused_data
    return Counter(kind.decode().lower() for kind in re.findall(rb"(?mi)^WARC-Type:[ \t]*([\w-]+)", plain or data))


def test_real_archives():
    folder = real_data("01_warc")
    index = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]
    assert len(index) == 57
    for entry in index:
        name = entry["file"]
        data = (folder / name).read_bytes()
        rows = read_rows(Warc(), data, name)
        found = (len(documents(rows)), {rule: n for rule, n in rules(rows).items() if rule.startswith("read.")})
        kinds = record_types(data)
        expected = sum(kinds[kind] for kind in ("response", "resource", "conversion"))
        assert found == AWKWARD.get(name, (expected, {})), name
        if name not in AWKWARD:
            skipped = {
                f"skipped.{kind}": n for kind, n in kinds.items() if kind not in ("response", "resource", "conversion")
            }
            assert rules(rows) == skipped, name


def test_real_bodies():
    folder = real_data("01_warc")

    def pages(name):
        return documents(read_rows(Warc(), (folder / name).read_bytes(), name))

    plain, packed, lz4_packed = (pages(f"chatnoir-resiliparse/warcfile.warc{ending}") for ending in ("", ".gz", ".lz4"))
    assert (
        [row["content"] for row in plain]
        == [row["content"] for row in packed]
        == [row["content"] for row in lz4_packed]
    )
    for coding in ("brotli.warc", "gzip.warc", "none.warc.gz"):
        assert b"<html" in pages(f"webarchive-discovery/transfer_compression_{coding}")[0]["content"].lower()
    chunked_body, trailers = (pages(f"ipwb/baconIpsum_chunked{ending}.warc")[0] for ending in ("", "_httpTrailors"))
    assert chunked_body["content"] == trailers["content"]
    assert b"bacon" in chunked_body["content"].lower()
    assert re.search(rb"(?m)^[0-9a-f]{2,5}\r$", chunked_body["content"]) is None
    [iana] = pages("warcio/example-iana.org-chunked.warc")
    assert iana["content"].rstrip().endswith(b"</html>")


def test_raw_html_is_read_as_fastwarc_reads_it():
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    path = real_data("03_raw_html") / "raw.warc.gz"
    with path.open("rb") as file, path.open("rb") as again:
        reference = ArchiveIterator(again, record_types=WarcRecordType.response)
        count = 0
        for batch in Warc().read(file, path.name):
            for row in batch.to_pylist():
                if row["rule"] is None:
                    theirs = next(reference)
                    assert (row["url"], row["offset"]) == (theirs.headers["WARC-Target-URI"], theirs.stream_pos)
                    assert row["content"] == theirs.reader.read()
                    count += 1
    assert count == 2992  # the folder's README


def test_memory_does_not_grow_with_the_file(tmp_path):
    data = (real_data("03_raw_html") / "raw.warc.gz").read_bytes()
    paths = [tmp_path / f"{times}.warc.gz" for times in (1, 8)]
    for path, times in zip(paths, (1, 8), strict=True):
        path.write_bytes(data * times)
    script = """
from reading import peak
from curate.read.warc import Warc
count = sum(batch.num_rows for batch in Warc().read(open(sys.argv[1], "rb"), "raw"))
print(count, peak())
"""
    bound = 7 * 65_129_886 // 10  # a tenth of the HTML that the larger file holds more
    grown, counts = growth(script, *paths, bound)
    assert counts == ["2993", str(8 * 2993)]
    assert grown < bound


def test_a_stream_that_cannot_seek_is_read():
    class Stream(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *_):
            raise OSError("no seek")

    data = b"".join(map(gzip.compress, THREE))
    assert urls(read_rows(Warc(), Stream(data))) == ["u0", "u1", "u2"]
