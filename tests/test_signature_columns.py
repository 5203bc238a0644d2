"""The columns by which documents of one address or one payload are equal, and stored signatures."""

import machine
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from curate.dedup.exact import url_hash
from curate.dedup.minhash import Signatures, signatures
from curate.dedup.settings import Against, Dedup, Exact, MinHash, clustering
from curate.words import with_words

TEXTS = ["The gate is shut, they say, and the toll was paid twice.", "--", "The gate"]


def with_hashes(texts):
    return with_words(pa.record_batch({"text": pa.array(texts, pa.large_string())}), ("word_hashes",))


def batch_of(urls, payloads):
    batch = with_hashes(TEXTS)
    return batch.append_column("url", pa.array(urls, pa.large_string())).append_column(
        "payload", pa.array(payloads, pa.string())
    )


def test_addresses_and_payloads_are_given_only_if_asked_for():
    batch = batch_of(["https://www.a.org/x/#top", None, "unknown"], ["ab" * 16, None, "cd" * 16])
    page = xxhash.xxh3_128_hexdigest(b"a.org/x")
    for by, urls, payloads in (
        (("text",), [None] * 3, [None] * 3),
        (("text", "url"), [page, None, None], [None] * 3),
        (("url", "payload"), [page, None, None], ["ab" * 16, None, "cd" * 16]),
    ):
        found = Signatures.of(Dedup(exact=Exact(by=by))).apply(batch)
        assert (found["url_hash"].to_pylist(), found["payload_hash"].to_pylist()) == (urls, payloads)
        assert found["exact_hash"].to_pylist() == Signatures(bands=0).apply(batch)["exact_hash"].to_pylist()
    nothing = Signatures.of(Dedup(exact=Exact())).apply(with_hashes(TEXTS))  # needs neither column
    assert nothing["url_hash"].null_count == nothing["payload_hash"].null_count == 3


def test_url_hash():
    assert url_hash("http://a.org/") == url_hash("https://www.a.org") == xxhash.xxh3_128_hexdigest(b"a.org")
    assert url_hash(None) is url_hash("") is url_hash("n/a") is None


def test_the_order_of_by_signs_nothing_again():
    one, other = (Signatures.of(Dedup(exact=Exact(by=by))) for by in (("url", "text"), ("text", "url")))
    assert one == other


def test_stored_signatures_are_the_low_bytes():
    batch = with_hashes(TEXTS)
    minhash = MinHash(bands=3, rows=4, seed=9)
    assert Signatures.of(Dedup(minhash=minhash)).apply(batch)["signature"].null_count == 3
    found = Signatures.of(Dedup(minhash=minhash), stored=True).apply(batch)["signature"]
    found.validate(full=True)
    values, _ = signatures(batch["word_hashes"], ngram=5, num_permutations=12, seed=9)
    assert found.to_pylist() == [bytes(int(one) % 256 for one in values[row]) if row != 1 else None for row in range(3)]


def test_stored_signatures_estimate_the_similarity():
    # Two sets of 400 hashes that share 300: a similarity of 300/500. Bytes agree with probability s + (1 - s)/256.
    generator = np.random.default_rng(2)
    values = generator.integers(0, 2**64, (200, 500), np.uint64)
    lists = np.stack([values[:, :400], values[:, 100:]], 1).reshape(400, 400)
    column = pa.LargeListArray.from_arrays(np.arange(401) * 400, lists.reshape(-1))
    batch = pa.record_batch({"text": pa.array(["-"] * 400, pa.large_string()), "word_hashes": column})
    found = Signatures(ngram=1, bands=14, rows=8, stored=True).apply(batch)["signature"].to_pylist()
    share = np.mean(
        [
            np.mean(np.frombuffer(a, np.uint8) == np.frombuffer(b, np.uint8))
            for a, b in zip(found[::2], found[1::2], strict=True)
        ]
    )
    expected = 0.6 + 0.4 / 256
    assert share == pytest.approx(expected, abs=4 * (expected * (1 - expected) / (200 * 112)) ** 0.5)


@pytest.mark.parametrize(
    ("dedup", "stored"),
    [(Dedup(), False), (Dedup(signatures=True, exact=Exact()), True), (Dedup(against=Against(runs=("a",))), True)],
)
def test_signatures_are_stored_where_they_are_needed(dedup, stored):
    assert dedup.stores_signatures is stored
    assert clustering(dedup).minhash is not None


BODY = b"<html><body><article><p>%s</p></article></body></html>"


def record(url, body):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    fields = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2024-01-01T00:00:00Z\r\n"
    fields += "WARC-Record-ID: <urn:uuid:12345678-1234-1234-1234-123456789abc>\r\nContent-Type: application/http; msgtype=response\r\n"
    return f"{fields}Content-Length: {len(head) + len(body)}\r\n\r\n".encode() + head + body + b"\r\n\r\n"


def test_extract_keeps_the_digest_of_the_payload(tmp_path):
    body = BODY % machine.prose(1).encode()
    other = BODY % machine.prose(1).encode().replace(b"\n", b"\n ")  # the same text, other bytes
    pages = [
        ("http://a.org/1", body),
        ("http://a.org/2", b"<p></p>"),
        ("http://b.org/", body),
        ("http://a.org/4", other),
    ]
    (tmp_path / "in.warc").write_bytes(b"".join(record(*page) for page in pages))
    machine.write_jsonl(tmp_path / "in.jsonl", [{"id": "a", "text": machine.prose(2)}])
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "name: r\nsources:\n  web:\n    read: {kind: warc, paths: in.warc}\n    extract: {kind: resiliparse}\n"
        "  own:\n    read: {kind: jsonl, paths: in.jsonl}\n"
        "dedup: {exact: {by: [text, url, payload]}, signatures: true}\n"
    )
    machine.run(recipe, tmp_path)
    found = pq.read_table(tmp_path / "run" / "extracted" / "web", columns=["url", "payload"]).to_pylist()
    expected = [{"url": url, "payload": xxhash.xxh3_128_hexdigest(page)} for url, page in pages if page != b"<p></p>"]
    assert found == expected
    own = pq.read_table(tmp_path / "run" / "extracted" / "own", columns=["payload"])
    assert own["payload"].to_pylist() == [None]
    [signed] = [
        table
        for path in tmp_path.rglob("measurements.parquet")
        if "url_hash" in (table := pq.read_table(path)).column_names and table.num_rows == 3
    ]
    assert signed["payload_hash"].to_pylist() == [one["payload"] for one in expected]
    assert signed["url_hash"].to_pylist() == [url_hash(one["url"]) for one in expected]
    assert {len(one) for one in signed["signature"].to_pylist()} == {112}
