from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.read.languages import is_language
from curate.tokens.arrange import ENCODED, EncodedShard, arrange
from curate.tokens.labels import LABELLED, READS, domain_of, label
from curate.tokens.shard import NO_LABELS, Labels, ShardWriter, TokenSource, write_manifest


@pytest.mark.parametrize(
    ("url", "path", "stated", "metadata", "domain"),
    [
        ("https://www.Example.org:8080/a/b?c", "crawl/00.warc.gz", None, None, "example.org"),
        ("http://www2.example.org/", "00.warc.gz", None, "{}", "example.org"),
        ("http://blog.example.org/", "00.warc.gz", None, None, "blog.example.org"),
        ("http://www.com/", "00.warc.gz", None, None, "www.com"),
        ("http://www.münchen.de/", "00.warc.gz", None, None, "xn--mnchen-3ya.de"),  # as the DNS has it
        (None, "novels/emma.txt", None, None, "novels"),
        (None, "novels/austen/emma.txt", None, '{"title": "Emma"}', "novels"),
        (None, "books.jsonl.zst", None, None, None),
        (None, "/books.jsonl", None, None, None),
        ("not an address", "books.jsonl", None, None, None),
        (None, "src/lib/a.py", None, '{"programming_language": "Python"}', "Python"),
        ("https://github.com/a/b", "part.jsonl", None, '{"programming_language": "C++"}', "C++"),
        (None, "src/a", None, '{"programming_language": null}', "src"),
        (None, "src/a", None, '{"programming_language": ["C"]}', "src"),
        (None, "code.jsonl.gz", "Python", '{"repo": "PyPI click"}', "Python"),
        (None, "code.jsonl.gz", "Rust", None, "Rust"),  # its ending is another language's too
        ("https://github.com/a/b", "code.jsonl.gz", "python", "{}", "python"),
        (None, "part/0.parquet", None, '{"lang": "C++"}', "C++"),
        (None, "part/0.parquet", "en", '{"language": "Go"}', "Go"),
        (None, "part/0.parquet", None, '{"language": "pt", "lang": 3}', "part"),
        ("https://lu.example.org/", "0.jsonl", "lua", "{}", "lu.example.org"),  # Luba, not Lua
        ("https://a.example.org/", "0.jsonl", "English", "{}", "a.example.org"),
    ],
)
def test_domains_by_hand(url, path, stated, metadata, domain):
    assert domain_of(url, path, stated, metadata, is_language) == domain


def test_only_documents_for_validation_have_labels():
    rows = [
        {"id": "a", "split": "train", "url": "http://a.org/", "path": "x", "language": "en", "metadata": None},
        {"id": "b", "split": "validation", "url": "http://b.org/", "path": "x", "language": "pt", "metadata": None},
        {"id": "c", "split": "validation", "url": None, "path": "x", "language": None, "metadata": "{}"},
    ]
    types = {"url": pa.large_string(), "metadata": pa.large_string()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in READS])
    found = list(label(pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=2), is_language))
    assert all(batch.schema.equals(LABELLED) for batch in found)
    assert [row for batch in found for row in batch.to_pylist()] == [
        {"id": "b", "domain": "b.org", "language": "pt"},
        {"id": "c", "domain": None, "language": None},
    ]


def encoded(folder, rows, labels):
    """An encoded shard of documents of one token each; rows: id and split."""
    folder.mkdir()
    paths = [folder / name for name in ("tokens", "documents", "labels")]
    np.arange(3, 3 + len(rows), dtype="<u2").tofile(paths[0])
    columns = [{"id": name, "split": split, "bytes": 1, "tokens": 1} for name, split in rows]
    pq.write_table(pa.Table.from_pylist(columns, ENCODED), paths[1])
    if labels is not None:
        pq.write_table(
            pa.Table.from_pylist([dict(zip(LABELLED.names, row, strict=True)) for row in labels], LABELLED), paths[2]
        )
    return EncodedShard(*paths[:2], labels=paths[2] if labels is not None else None)


def test_labels_follow_their_documents_into_the_shards(tmp_path):
    first = encoded(
        tmp_path / "1",
        [("a", "validation"), ("b", "train"), ("c", "validation")],
        [("a", "a.org", "en"), ("c", None, "pt")],
    )
    second = encoded(tmp_path / "2", [("d", "validation"), ("e", "train")], None)  # as of token files
    infos = []
    for split in ("train", "validation"):
        infos += arrange(
            [first, second], tmp_path / "out", split, vocab_size=16, eos_id=2, order_seed=1, memory_bytes=1 << 16,
            scratch=tmp_path,
        )  # fmt: skip
    write_manifest(tmp_path / "out", dtype="uint16", vocab_size=16, eos_id=2, tokenizer_sha256="0" * 64, shards=infos)
    assert pq.read_schema(tmp_path / "out" / "train-00000.docs.parquet").names == ["id", "bytes"]
    names = ["id", "bytes", "domain", "language"]
    assert pq.read_schema(tmp_path / "out" / "validation-00000.docs.parquet").names == names
    source = TokenSource.open(tmp_path / "out", "validation")
    source.verify()
    found = dict(zip(source.document_ids, source.document_labels, strict=True))
    assert found == {"a": Labels("a.org", "en"), "c": Labels(None, "pt"), "d": NO_LABELS}
    assert TokenSource.open(tmp_path / "out", "train").document_labels == [NO_LABELS] * 2


def test_a_folder_of_before_labels_opens(tmp_path):
    with ShardWriter(tmp_path, "validation", dtype="uint16", eos_id=2, vocab_size=16) as writer:
        writer.add("a", 3, np.array([5]), Labels("a.org", "en"))
        infos = writer.close()
    write_manifest(tmp_path, dtype="uint16", vocab_size=16, eos_id=2, tokenizer_sha256="0" * 64, shards=infos)
    path = tmp_path / "validation-00000.docs.parquet"
    pq.write_table(pq.read_table(path).select(["id", "bytes"]), path)
    assert TokenSource.open(tmp_path, "validation").document_labels == [NO_LABELS]
