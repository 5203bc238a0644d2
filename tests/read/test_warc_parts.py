"""Whatever way a WARC file is read in, the same rows: many records at a time or one by one, whole or in parts."""

import gzip
import hashlib
import io
import json
import random

import pytest
import zstandard
from archives import any_archive, any_record, damaged, in_parts, one_by_one, record, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import documents, read_rows, real_data, rules

from curate.read import warc_members
from curate.read.warc import Warc
from curate.read.warc_records import Manner
from curate.stage import START

SEEDS = st.integers(0, 1 << 40)


def noise_pages(count, size, seed=0, level=6):
    """Return gzip members of one record each, which do not shrink."""
    draw = random.Random(seed)
    pages = [record(f"p{n}", b"HTTP/1.1 200 OK\r\n\r\n" + draw.randbytes(size)) for n in range(count)]
    return [gzip.compress(page, level) for page in pages]


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(1, 30), st.sampled_from([200, 3000, 40_000]), st.sampled_from([0, 0, 1, 3, 10]))
def test_many_at_a_time_gives_what_one_by_one_gives(seed, num_records, most_bytes, times):
    data = damaged(any_archive(seed, num_records, most_bytes, packed=True), seed, times)
    assert read_rows(Warc(), data, "x") == one_by_one(data)


def test_unusual_forms_are_read_among_usual_ones():
    draw = random.Random(4)
    records = [any_record(draw, number, 500) for number in range(400)]
    rows = read_rows(Warc(), b"".join(map(gzip.compress, records)), "x")
    assert rows == one_by_one(b"".join(map(gzip.compress, records)))
    assert len(documents(rows)) > 200
    assert len(rules(rows)) >= 8


def test_the_quick_way_is_taken_where_it_can_be():
    """A reader that always falls back would pass every other test here."""
    data = b"".join(noise_pages(50, 1000))
    members = warc_members.Members(io.BytesIO(), None, Manner("x", 1 << 20))
    members.begin(0, data)
    rows = rows_of(members.batches())
    assert members.finished
    assert [row["url"] for row in rows] == [f"p{n}" for n in range(50)]


def test_a_copy_behind_a_member_is_not_taken_for_its_end():
    """A second member with the same bytes ends in the same checksum and size; its flag XFL 1 is one nobody writes."""
    page = noise_pages(1, 100)[0]
    other = page[:8] + b"\x01" + page[9:]
    assert [row["url"] for row in read_rows(Warc(), page + other + page)] == ["p0"] * 3
    rows = read_rows(Warc(), page + page[-40:] + page)
    assert [row["url"] for row in documents(rows)] == ["p0"] * 2
    assert rules(rows) == {"read.bad_record": 1}


def test_bodies_that_expand_make_several_batches():
    body = gzip.compress(bytes(3_000_000))
    page = record("u", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + body)
    batches = list(Warc().read(io.BytesIO(gzip.compress(page) * 10), "x"))
    assert sum(batch.num_rows for batch in batches) == 10
    assert len(batches) > 2
    assert max(batch.nbytes for batch in batches) < 12_000_000  # eight MiB and a body


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(1, 25), st.sampled_from([3000, 60_000]), st.sampled_from([0, 1, 5]), st.floats(0.02, 1.2))
def test_parts_of_a_gzip_file(seed, num_records, most_bytes, times, share):
    start = b"".join(noise_pages(10, 9000, seed))
    nested = record("outer", b"".join(noise_pages(30, 3000, seed + 1)), "resource")
    rest = any_archive(seed, num_records, most_bytes, packed=True)
    data = start + gzip.compress(nested, seed % 2) + rest  # level 0: the inner members stand in the file as they are
    data = damaged(data, seed, times, first=len(start))
    rows, num_parts = in_parts(data, max(1, int(share * len(data))))
    assert num_parts > 1 or share > 0.6
    assert rows == one_by_one(data)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 25), st.sampled_from([200, 9000]), st.sampled_from([0, 1, 5]), st.floats(0.02, 1.2))
def test_parts_of_a_plain_file(seed, num_records, most_bytes, times, share):
    data = damaged(any_archive(seed, num_records, most_bytes, packed=False), seed, times)
    rows, _ = in_parts(data, max(1, int(share * len(data))))
    assert rows == one_by_one(data)


@pytest.mark.parametrize("every", [7, 100, 3001])
def test_every_place_of_a_file_may_be_cut(every):
    members = noise_pages(12, 300)
    data = b"".join(members)
    rows, num_parts = in_parts(data, every)
    assert [row["url"] for row in rows] == [f"p{n}" for n in range(12)]
    assert num_parts == len(range(every, len(data) - every // 2, every)) + 1
    plain = gzip.decompress(data)
    rows, num_parts = in_parts(plain, every)
    assert [row["url"] for row in rows] == [f"p{n}" for n in range(12)]
    assert num_parts > 1


@pytest.mark.parametrize("level", [0, 6])
def test_a_cut_inside_a_stored_archive_gives_no_record_of_it(level):
    inner = b"".join(noise_pages(400, 3000))
    outer = gzip.compress(record("outer", inner, "resource"), level)
    data = b"".join(noise_pages(10, 9000)) + outer + b"".join(noise_pages(10, 9000, seed=1))
    assert (inner[:1000] in data) == (level == 0)
    rows, num_parts = in_parts(data, 200_000)
    assert num_parts >= 6
    names = [f"p{n}" for n in range(10)]
    assert [row["url"] for row in rows] == [*names, "outer", *names]


def test_a_cut_inside_a_plain_archive_in_a_record_gives_no_record_of_it():
    pages = gzip.decompress(b"".join(noise_pages(10, 9000)))
    data = pages + record("outer", gzip.decompress(b"".join(noise_pages(400, 3000))), "resource") + pages
    rows, num_parts = in_parts(data, 60_000)
    names = [f"p{n}" for n in range(10)]
    assert [row["url"] for row in rows] == [*names, "outer", *names]
    assert num_parts == 4  # cut behind 60,000 bytes, behind the outer record, and 60,000 bytes further


def test_a_part_reads_little_beyond_itself():
    class Counted(io.BytesIO):
        taken = 0

        def read(self, size=-1):
            data = super().read(size)
            self.taken += len(data)
            return data

    data = b"".join(noise_pages(4000, 3000))
    file = Counted(data)
    cuts = Warc().cuts(file, "x", 2_000_000)
    assert len(cuts) == 5
    file.taken = 0
    rows = rows_of(Warc().read_part(file, "x", cuts[2], cuts[3]))
    assert 2_000_000 / 3200 < len(rows) < 2_000_000 / 3000
    assert file.taken < 2_000_000 + 1_000_000


def test_files_that_cannot_be_cut_stay_whole():
    plain = b"".join(gzip.decompress(page) for page in noise_pages(40, 20_000))
    files = {
        "one gzip stream": gzip.compress(plain),
        "one zstd frame": zstandard.compress(plain),
        "no archive": b"PK\x03\x04" + plain,
        "empty": b"",
    }
    for what, data in files.items():
        assert Warc().cuts(io.BytesIO(data), what, 10_000) == (), what
        assert rows_of(Warc().read_part(io.BytesIO(data), "x", START, None)) == one_by_one(data) or not data


def test_parts_of_real_archives():
    folder = real_data("01_warc")
    index = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]
    parts = 0
    for entry in index:
        data = (folder / entry["file"]).read_bytes()
        whole = read_rows(Warc(), data, "x")
        assert whole == one_by_one(data), entry["file"]
        for every in (len(data) // 7 + 1, len(data) // 2 + 1):
            rows, num_parts = in_parts(data, every)
            assert rows == whole, (entry["file"], every)
            parts += num_parts - 1
    assert parts > 100


def test_parts_of_raw_html():
    data = (real_data("03_raw_html") / "raw.warc.gz").read_bytes()
    rows, num_parts = in_parts(data, 1_234_567)
    assert num_parts == 13
    assert rows == one_by_one(data)


# Digests.

ABC = "a9993e364706816aba3e25717850c26c9cd0d89d"  # FIPS 180, SHA-1 of "abc"
ABC_BASE32 = "VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        (f"sha1:{ABC_BASE32}", False),
        (f"SHA-1:{ABC}", False),
        (f"sha1:{ABC_BASE32[:-1]}A", True),
        ("sha1:2222", True),
        ("md5:900150983cd24fb0d6963f7d28e17f72", False),  # RFC 1321
        ("crc32:352441c2", False),  # nobody can tell
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_digest_that_does_not_match_is_noted(declared, wrong, packed):
    fields = f"WARC-Payload-Digest: {declared}\r\n"
    blocks = {
        "response": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nabc",
        "resource": b"abc",
    }
    for kind, block in blocks.items():
        data = record("u", block, kind, fields)
        data = gzip.compress(data) if packed else data
        [row] = read_rows(Warc(verify_digests=True), data)
        metadata = json.loads(row["metadata"])
        assert metadata["digest"] == declared
        assert metadata.get("digest_mismatch") == (f"{declared[:4].lower()}:{ABC_BASE32}" if wrong else None)
        [row] = read_rows(Warc(), data)
        assert "digest_mismatch" not in json.loads(row["metadata"])


def test_a_digest_may_be_of_the_payload_before_or_after_decoding():
    chunked = b"3\r\nabc\r\n0\r\n\r\n"
    block = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked
    for stated in (ABC, hashlib.sha1(chunked).hexdigest()):
        [row] = read_rows(
            Warc(verify_digests=True), record("u", block, fields=f"WARC-Payload-Digest: sha1:{stated}\r\n")
        )
        assert "digest_mismatch" not in json.loads(row["metadata"])
        assert row["content"] == b"abc"
    fields = f"WARC-Block-Digest: sha1:{ABC}\r\n"
    [row] = read_rows(Warc(verify_digests=True), gzip.compress(record("u", block, fields=fields)))
    assert "digest_mismatch" in json.loads(row["metadata"])


def test_digests_of_real_archives():
    folder = real_data("01_warc")
    # As `warcio check -v` (1.8.1) finds them.
    name = "webarchive/invalid-warcrecorddigests-1.warc"
    rows = read_rows(Warc(verify_digests=True), (folder / name).read_bytes(), name)
    wrong = [row["offset"] for row in documents(rows) if "digest_mismatch" in json.loads(row["metadata"])]
    assert wrong == [1073, 2264, 3455, 4630, 5835, 7024]
    page = (real_data("03_raw_html") / "raw.warc.gz").read_bytes()
    rows = read_rows(Warc(verify_digests=True), page)
    assert sum("digest" in json.loads(row["metadata"]) for row in documents(rows)) == 2992
    assert not any("digest_mismatch" in row["metadata"] for row in rows)
