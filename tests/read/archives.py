"""WARC files for tests: records in usual and unusual forms, packed in usual and unusual ways, and damage to them."""

import gzip
import io
import random

from curate.document import RAW
from curate.read.compression import FEED_BYTES
from curate.read.warc import Warc
from curate.read.warc_records import Manner, RecordReader
from curate.stage import START

STATUS = ("HTTP/1.1 200 OK", "HTTP/1.1 404", "HTTP/2 200", "http/1.1 200 OK", "HTTP/1.1  200 OK", "HTTP/1.1 20 OK")
TYPES = ("text/html", "Text/HTML; charset=UTF-8", 'text/html; x=y; charset="iso-8859-1"', "")
HTTP_FIELDS = (
    "Content-Encoding: gzip\r\n",
    "Transfer-Encoding: chunked\r\n",
    "X-Robots-Tag: noai\r\n",
    "TDM-Reservation: 1\r\n",
    "Content-Language: pt-BR\r\n",
    "content-type : text/plain;charset=x\r\n",
    "Folded: a\r\n b\r\n",
    "Server: caf\xe9\r\n",
    "no colon\r\n",
)
FIELDS = (
    "WARC-Record-ID: <urn:uuid:1>\r\n",
    "WARC-Payload-Digest: sha1:X\r\n",
    "WARC-Block-Digest: sha1:Y\r\nWARC-Truncated: length\r\n",
    'WARC-Truncated: a"b\\\r\n',
    "WARC-Identified-Payload-Type: text/x\r\nWARC-Segment-Number: 1\r\n",
    "WARC-Identified-Payload-Type:\r\n",
    "WARC-Identified-Content-Language: por\r\n",
    "X: \xe9\r\n",
    "Folded: 1\r\n 2\r\n",
    "no colon\r\n",
    "WARC-Type: response\r\n",
    " : x\r\n",
)
OTHER_KINDS = ("request", "metadata", "revisit", "warcinfo", "Request", "x-own")


def record(url, block=b"", kind="response", fields="", length=None, end=b"\r\n\r\n"):
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2024-05-01T00:00:00Z\r\n{fields}"
    head += f"Content-Length: {len(block) if length is None else length}\r\n\r\n"
    return head.encode() + block + end


def http(draw, body):
    """Return a response, in one of three the usual one."""
    if draw.random() < 0.3:
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    line_end = draw.choice(["\r\n"] * 8 + ["\n", "\r\r\n"])
    fields = draw.choice(HTTP_FIELDS) if draw.random() < 0.6 else ""
    head = f"{draw.choice(STATUS)}\r\nContent-Type: {draw.choice(TYPES)}\r\n{fields}\r\n"
    return head.replace("\r\n", line_end).encode("latin-1") + body


def any_record(draw, number, most_bytes):
    """Return a record: one in ten without a right length or without an end, one in twenty none at all."""
    size = draw.randint(0, most_bytes)
    inner = record("inner", b"HTTP/1.1 200 OK\r\n\r\nzz")
    body = draw.choice(
        [
            draw.randbytes(size),
            b"<p>" + b"barge lock " * (size // 11),
            gzip.compress(bytes(size)),
            inner * draw.randint(1, 5),
            gzip.compress(inner) * draw.randint(1, 20),  # a WARC file in a WARC file
        ]
    )
    fields = draw.choice(FIELDS) if draw.random() < 0.7 else ""
    url = draw.choice([f"http://a/{number}", f"<http://a/{number}>", "http://\xe9/", ""])
    kind = draw.random()
    if kind < 0.6:
        return record(url, http(draw, body), fields=fields)
    if kind < 0.7:
        return record(url, body, "resource", fields)
    if kind < 0.75:
        return record(url, body, "conversion", fields)
    if kind < 0.85:
        return record(url, body, draw.choice(OTHER_KINDS), fields)
    if kind < 0.9:
        return record(url, http(draw, body), fields=fields, length=draw.choice([0, 5, 10**6, 10**12, size]))
    if kind < 0.95:
        return record(url, http(draw, body), fields=fields, end=draw.choice([b"", b"\r\n", b"\n\n", b"\r\n\r\n\r\n"]))
    return draw.randbytes(20)


def pack(draw, data):
    """Return a record as a gzip member, stored or deflated; now and then as two, or with something behind it."""
    kind, level = draw.random(), draw.choice([0, 6, 6, 6])
    if kind > 0.97:
        half = len(data) // 2
        return gzip.compress(data[:half], level) + gzip.compress(data[half:], level)
    if kind > 0.95:
        return gzip.compress(data, level) + draw.choice([bytes(20), b"junk", gzip.compress(b"")])
    return gzip.compress(data, level)


def any_archive(seed, num_records, most_bytes, packed):
    draw = random.Random(seed)
    records = [any_record(draw, number, most_bytes) for number in range(num_records)]
    return b"".join(pack(draw, each) for each in records) if packed else b"".join(records)


def damaged(data, seed, times, first=0):
    """Return data with bits flipped, bytes lost, foreign bytes, or its end lost, behind `first`."""
    draw = random.Random(seed)
    out = bytearray(data)
    for _ in range(times):
        if len(out) <= first:
            break
        place, kind = draw.randrange(first, len(out)), draw.random()
        if kind < 0.6:
            out[place] ^= 1 << draw.randrange(8)
        elif kind < 0.8:
            del out[place : place + draw.randint(1, 50)]
        elif kind < 0.9:
            out[place:place] = draw.randbytes(5)
        else:
            del out[place:]
    return bytes(out)


def rows_of(batches):
    return [row for batch in batches for row in batch.to_pylist()]


def one_by_one(data, name="x", **settings):
    """Return the rows of a file as the reader of single records gives them, from the start to the end."""
    source = Warc(**settings)
    file = io.BytesIO(data)
    head = file.read(FEED_BYTES)
    manner = Manner(name, source.max_bytes, source.verify_digests)
    found = RecordReader(file, manner, offset=0, data=head, leave=None).records()
    empty = dict.fromkeys(RAW.names)
    return [empty | {"offset": each.offset, "part": each.part} | each.values for each in found]


def in_parts(data, every, name="x", **settings):
    """Return the rows of all parts of a file, one part after another, and how many parts there are."""
    source = Warc(**settings)
    file = io.BytesIO(data)
    cuts = source.cuts(file, name, every)
    assert list(cuts) == sorted(set(cuts))
    rows = []
    for start, stop in zip((START, *cuts), (*cuts, None), strict=True):
        part = rows_of(source.read_part(file, name, start, stop))
        assert all(start.offset <= row["offset"] and (stop is None or row["offset"] < stop.offset) for row in part)
        rows += part
    return rows, len(cuts) + 1
