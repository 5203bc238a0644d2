"""Records as datatrove and Dolma write them; the bytes below are what datatrove 0.10.1 and Dolma 1.2.1 wrote."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import documents, read_rows, rules

from curate.read.jsonl import Jsonl
from curate.read.parquet import Parquet

# JsonlWriter(..., compression="gzip"), decompressed.
DATATROVE = (
    b'{"text":"The first text.\\nWith two lines.","id":"<urn:uuid:1>","metadata":{"url":"https://a.test/1",'
    b'"date":"2024-01-02T03:04:05Z","dump":"CC-MAIN-2024-10","language":"en","language_score":0.9,"file_path":"s3://x"}}\n'
    b'{"text":"O segundo.","id":"x/2","metadata":{"url":"https://a.test/2","language":"pt","language_score":0.8,"token_count":7}}\n'
    b'{"text":"No metadata.","id":"x/3"}\n'
)
# msgspec.json.encode(InputSpecWithMetadata(...)), as the toolkit's writers do.
DOLMA = (
    b'{"id":"d1","text":"One.","source":"common-crawl","created":"2023-05-01T00:00:00.000Z","added":"2023-06-01T00:00:00.000Z",'
    b'"version":null,"metadata":{"warc_url":"https://a.test/1","lang":"en","nlines":3}}\n'
    b'{"id":"d2","text":"Two.","source":"wiki","created":"","added":"","version":"v0","metadata":{"url":"https://b.test/"}}\n'
    b'{"id":"d3","text":"Three.","source":"c4","created":"","added":"","version":null,"metadata":null}\n'
)
FACTS = ("source_id", "url", "language")


def seen(rows):
    return [(*(row[name] for name in (*FACTS, "text")), json.loads(row["metadata"] or "{}")) for row in rows]


def test_datatrove_jsonl():
    rows = read_rows(Jsonl(layout="datatrove"), gzip.compress(DATATROVE), "00000.jsonl.gz")
    rest = {"date": "2024-01-02T03:04:05Z", "dump": "CC-MAIN-2024-10", "language_score": 0.9, "file_path": "s3://x"}
    assert seen(rows) == [
        ("<urn:uuid:1>", "https://a.test/1", "en", "The first text.\nWith two lines.", rest),
        ("x/2", "https://a.test/2", "pt", "O segundo.", {"language_score": 0.8, "token_count": 7}),
        ("x/3", None, None, "No metadata.", {}),
    ]


def test_datatrove_parquet():
    """The writer makes `metadata` a struct, in which what a document lacks is null."""
    table = pa.Table.from_pylist([json.loads(line) for line in DATATROVE.splitlines()])
    assert pa.types.is_struct(table.schema.field("metadata").type)
    file = io.BytesIO()
    pq.write_table(table, file)
    rows = read_rows(Parquet(layout="datatrove"), file.getvalue(), "000_00000.parquet")
    assert seen(rows) == seen(read_rows(Jsonl(layout="datatrove"), DATATROVE))
    some = read_rows(Parquet(layout="datatrove", metadata=("dump",)), file.getvalue())
    assert [json.loads(row["metadata"] or "{}") for row in some] == [{"dump": "CC-MAIN-2024-10"}, {}, {}]
    assert [row["url"] for row in some] == ["https://a.test/1", "https://a.test/2", None]


def test_dolma_documents():
    rows = read_rows(Jsonl(layout="dolma"), DOLMA)
    assert seen(rows) == [
        (
            "d1",
            "https://a.test/1",
            "en",
            "One.",
            {"source": "common-crawl", "added": "2023-06-01T00:00:00.000Z", "version": None, "nlines": 3}
            | {"date": "2023-05-01T00:00:00.000Z"},
        ),
        ("d2", "https://b.test/", None, "Two.", {"source": "wiki", "created": "", "added": "", "version": "v0"}),
        ("d3", None, None, "Three.", {"source": "c4", "created": "", "added": "", "version": None}),
    ]


def test_an_attribute_file_is_told_from_documents():
    line = b'{"id":"d1","attributes":{"x__len__doc":[[0,4,4.0]]},"source":"wiki"}\n'  # OutputSpec of the toolkit
    [row] = read_rows(Jsonl(layout="dolma"), line)
    assert row["rule"] == "read.no_text"
    assert "the record has id, attributes, source" in row["detail"]


def test_a_member_whose_name_is_taken_is_kept_below():
    [row] = read_rows(Jsonl(layout="datatrove"), b'{"text":"T.","id":"1","metadata":{"text":"raw","id":"w","k":1}}')
    assert (row["text"], row["source_id"]) == ("T.", "1")
    assert json.loads(row["metadata"]) == {"metadata": {"text": "raw", "id": "w"}, "k": 1}


@pytest.mark.parametrize("metadata", [b"3", b'"s"', b"[1]"])
def test_metadata_that_is_no_object_stays(metadata):
    [row] = read_rows(Jsonl(layout="datatrove"), b'{"text":"T.","metadata":' + metadata + b"}")
    assert json.loads(row["metadata"]) == {"metadata": json.loads(metadata)}


# RedPajama's layout: everything but the text under `meta`.
NESTED = b'{"text":"T.","meta":{"url":"https://a.test/","source":"cc","doc":{"id":7}}}\n{"text":"U.","meta":{}}\n{"text":"V."}\n'


def test_fields_named_by_a_path():
    reader = Jsonl(url="meta.url", id="meta.doc.id")
    assert seen(read_rows(reader, NESTED)) == [
        ("7", "https://a.test/", None, "T.", {"meta": {"source": "cc", "doc": {}}}),
        (None, None, None, "U.", {"meta": {}}),
        (None, None, None, "V.", {}),
    ]


def test_a_field_whose_own_name_has_dots_comes_first():
    [row] = read_rows(Jsonl(url="meta.url"), b'{"text":"T.","meta.url":"a","meta":{"url":"b"}}')
    assert row["url"] == "a"


def test_paths_into_structs():
    table = pa.Table.from_pylist([json.loads(line) for line in NESTED.splitlines()])
    file = io.BytesIO()
    pq.write_table(table, file)
    rows = read_rows(Parquet(url="meta.url", id="meta.doc.id", metadata=()), file.getvalue())
    assert [(row["source_id"], row["url"], row["text"]) for row in rows] == [
        ("7", "https://a.test/", "T."),
        (None, None, "U."),
        (None, None, "V."),
    ]
    deep = pa.table({"doc": [{"body": "Deep."}, {"body": None}, None]})
    file = io.BytesIO()
    pq.write_table(deep, file)
    rows = read_rows(Parquet(text="doc.body"), file.getvalue())
    assert [row["text"] for row in documents(rows)] == ["Deep."]
    assert rules(rows) == {"read.no_text": 2}
    assert rules(read_rows(Parquet(text="doc.other"), file.getvalue())) == {"read.no_text": 3}
