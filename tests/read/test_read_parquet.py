import datetime
import decimal
import io
import json
import pickle
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import PATH, ROOT, documents, inputs_of, load_cases, read_rows, rules

from curate.read.parquet import Parquet
from curate.read.values import UNREADABLE, to_values

CASES = load_cases("parquet")


def read_case(case_id):
    return [row for name, data in inputs_of(CASES[case_id]) for row in read_rows(Parquet(), data, name)]


def parquet(table, **options):
    sink = io.BytesIO()
    pq.write_table(pa.table(table), sink, **options)
    return sink.getvalue()


def test_a_null_column_has_no_text():  # parquet-001
    rows = read_case("parquet-001")
    assert [row["source_id"] for row in documents(rows)] == ["c", "d"]
    assert rules(rows) == {"read.no_text": 2}
    assert rows[0]["detail"] == "part-0-null.parquet, row 0: column 'text' is null"


def test_a_file_without_rows():  # parquet-002
    rows = read_case("parquet-002")
    assert [row["source_id"] for row in rows] == ["c", "d"]
    assert not rules(rows)


def test_the_physical_type_does_not_matter():  # parquet-003
    rows = read_case("parquet-003")
    texts = [row["text"] for row in documents(rows)]
    assert len(texts) == len(rows) == 5
    assert {"alpha", "beta", "café"} <= {word for text in texts for word in text.split()} | set(texts)
    assert not any("b'" in text or "\\x" in text for text in texts)
    noted = [row for row in rows if "decoded" in (row["metadata"] or "")]
    assert len(noted) == 1  # the value that is not UTF-8, counted


def test_a_struct_that_drifts_is_metadata():  # parquet-004
    rows = read_case("parquet-004")
    assert [row["source_id"] for row in documents(rows)] == ["a", "b", "c"]
    metadata = [json.loads(row["metadata"]) if row["metadata"] else {} for row in rows]
    keys = [set(next(iter(each.values()))) if each else set() for each in metadata]
    assert sorted(map(len, keys)) == [0, 2, 3]  # absent, present, present with one more field


def test_keys_that_come_and_go_survive_one_row_batches():  # parquet-005: written row by row, one file a row
    docs = CASES["parquet-005"]["input"]["docs"]
    rows = [row for doc in docs for row in read_rows(Parquet(), parquet({k: [v] for k, v in doc.items()}))]
    assert [row["source_id"] for row in rows] == ["a", "b", "c", "d"]
    assert [row["metadata"] for row in rows] == [None, '{"license":"cc0"}', None, '{"license":"by","extra":{"k":1}}']


@pytest.mark.slow
def test_strings_over_2_gib_in_one_row_group(tmp_path):  # parquet-006
    path = tmp_path / "big.parquet"
    schema = pa.schema([("text", pa.large_string())])
    text = ("barge " * 174_763)[: 1 << 20]
    with pq.ParquetWriter(path, schema, compression="snappy", use_dictionary=False) as writer:
        texts = pa.array([text + str(row) for row in range(2300)], pa.large_string())
        writer.write_table(pa.table([texts], schema=schema), row_group_size=2300)
    del texts
    script = f"""
from reading import peak
from curate.read.parquet import Parquet
from curate.read.values import UNREADABLE, to_values
lengths = []
for batch in Parquet().read(open({str(path)!r}, "rb"), "big"):
    lengths += [len(text) for text in batch.column("text").to_pylist()]
print(len(lengths), sum(lengths), peak())
"""
    run = subprocess.run([sys.executable, "-c", PATH + script], cwd=ROOT, check=True, capture_output=True)
    count, characters, memory = map(int, run.stdout.split())
    assert count == 2300
    # One digit for rows 0-9, two for 10-99, three for 100-999, four for 1000-2299.
    assert characters == 2300 * (1 << 20) + 10 + 2 * 90 + 3 * 900 + 4 * 1300
    assert memory < 2_500_000  # KiB; the writer puts 1,024 values, 1 GiB, in a page, and a page is decoded whole


def test_offsets_are_row_numbers_over_row_groups():
    rows = read_rows(Parquet(), parquet({"text": [str(n) for n in range(1000)]}, row_group_size=7))
    assert [(row["offset"], row["text"]) for row in rows] == [(n, str(n)) for n in range(1000)]


def test_columns_and_metadata():
    table = {
        "body": ["x"],
        "key": [7],
        "when": [datetime.datetime(2024, 5, 1, 12)],
        "price": [decimal.Decimal("1.50")],
        "raw": [b"\xff\x00"],
        "nan": [float("nan")],
        "tags": [["a", None]],
        "nothing": pa.nulls(1, pa.string()),
    }
    [row] = read_rows(Parquet(text="body", id="key"), parquet(table))
    assert (row["text"], row["source_id"]) == ("x", "7")
    metadata = json.loads(row["metadata"])
    assert metadata == {"when": "2024-05-01T12:00:00", "price": "1.50", "raw": "/wA=", "nan": None, "tags": ["a", None]}
    [row] = read_rows(Parquet(text="body", metadata=("tags",)), parquet(table))
    assert json.loads(row["metadata"]) == {"tags": ["a", None]}


SECOND = 1_000_000_000
DAY = 86_400


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 0], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001", "1970-01-01T00:00:00"]),
        (pa.array([-1, 1500], pa.timestamp("ms")), ["1969-12-31T23:59:59.999000", "1970-01-01T00:00:01.500000"]),
        # 2024-02-29 is day 19,782: 54 years of 365 days, 13 leap days (1972 to 2020), 31 + 28 days of 2024.
        (
            pa.array([19_782 * DAY, -1], pa.timestamp("s", tz="+02:00")),
            ["2024-02-29T00:00:00+00:00", "1969-12-31T23:59:59+00:00"],
        ),
        # Day 2,932,896 is 9999-12-31, the last that datetime knows; -719,162 is 0001-01-01, its first.
        (pa.array([2_932_896, 2_932_897], pa.int32()).view(pa.date32()), ["9999-12-31", "+10000-01-01"]),
        (pa.array([-719_162, -719_163], pa.int32()).view(pa.date32()), ["0001-01-01", "0000-12-31"]),
        (pa.array([-719_163 - 366, None], pa.int32()).view(pa.date32()), ["-0001-12-31", None]),
        (pa.array([2_932_897 * DAY, None], pa.timestamp("s")), ["+10000-01-01T00:00:00", None]),
        (pa.array([3_723 * SECOND + 5, 5000], pa.time64("ns")), ["01:02:03.000000005", "00:00:00.000005"]),
        (pa.array([3_723_000, None], pa.time32("ms")), ["01:02:03", None]),
        (pa.array([90 * SECOND, -1], pa.duration("ns")), ["PT90S", "-PT0.000000001S"]),
        (pa.array([decimal.Decimal("1.50"), None], pa.decimal128(38, 2)), ["1.50", None]),
        (pa.array([decimal.Decimal("9" * 60), None], pa.decimal256(70, 0)), ["9" * 60, None]),
        (pa.array([b"ok", b"\xff\x00"], pa.binary(2)), ["ok", "/wA="]),
        (pa.array([b"ok", b"\xff\x00"], pa.large_binary()), ["ok", "/wA="]),
        (pa.array([0.5, float("inf")], pa.float32()), [0.5, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([2**64 - 1, 0], pa.uint64()), [2**64 - 1, 0]),
        (
            pa.array([[("k", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
            [{"k": 1}, [["a", 1], ["a", 2]]],
        ),
        (pa.array([[(7, None)], []], pa.map_(pa.int64(), pa.timestamp("ns"))), [[[7, None]], {}]),
        (
            pa.array(
                [{"at": [1], "b": {"d": 2}}, None],
                pa.struct([("at", pa.list_(pa.timestamp("ns"))), ("b", pa.struct([("d", pa.duration("ns"))]))]),
            ),
            [{"at": ["1970-01-01T00:00:00.000000001"], "b": {"d": "PT0.000000002S"}}, None],
        ),
        (pa.array([[1, 2], None], pa.list_(pa.time64("ns"), 2)), [["00:00:00.000000001", "00:00:00.000000002"], None]),
        (pa.array([[], None], pa.large_list(pa.date32())), [[], None]),
        (pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
        (pa.array([[b"caf\xe9"], [b"a"]], pa.list_(pa.binary())).view(pa.list_(pa.string())), [["Y2Fm6Q=="], ["a"]]),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), None], pa.binary(16))),
            ["00000000-0000-0000-0000-000000000000", None],
        ),
    ],
    ids=lambda value: str(value.type)[:40] if isinstance(value, pa.Array) else "",
)
def test_metadata_of_any_type(column, expected):
    rows = read_rows(Parquet(), parquet({"text": ["one", "two"], "odd": column}))
    assert [row["text"] for row in documents(rows)] == ["one", "two"]
    assert [json.loads(row["metadata"] or "{}").get("odd") for row in rows] == expected


def test_values_of_a_slice_are_its_own():
    lists = pa.array([[0], [1, 2], None, [3]], pa.list_(pa.duration("s")))
    maps = pa.array([[("a", 0)], [("b", 1)], None, [("c", 2)]], pa.map_(pa.string(), pa.int64()))
    structs = pa.array([{"n": 0}, {"n": 1}, None, {"n": 2}])
    fixed = pa.array([[0], [1], None, [2]], pa.list_(pa.int64(), 1))
    assert to_values(lists.slice(1)) == [["PT1S", "PT2S"], None, ["PT3S"]]
    assert to_values(maps.slice(1)) == [{"b": 1}, None, {"c": 2}]
    assert to_values(structs.slice(1)) == [{"n": 1}, None, {"n": 2}]
    assert to_values(fixed.slice(1)) == [[1], None, [2]]


def test_a_type_without_a_json_form_costs_its_value_alone():
    # Parquet has no such type; a later pyarrow may.
    column = pa.array([(1, 2, 3), None], pa.month_day_nano_interval())
    assert to_values(column) == [UNREADABLE, None]
    row = Parquet()._values({"text": "x", "odd": UNREADABLE, "n": 1}, "f", ["text", "odd", "n"], True)
    assert json.loads(row["metadata"]) == {"odd": None, "n": 1, "unreadable": ["odd"]}


def test_dates_of_old_writers_after_2262_stay():
    when = pa.array([253_402_214_400], pa.timestamp("s"))  # 9999-12-31: 2,932,896 days of 86,400 seconds
    data = parquet({"text": ["x"], "when": when.cast(pa.timestamp("us"))}, use_deprecated_int96_timestamps=True)
    [row] = read_rows(Parquet(), data)
    assert json.loads(row["metadata"]) == {"when": "9999-12-31T00:00:00"}


def test_a_column_of_times_is_no_text():
    rows = read_rows(Parquet(), parquet({"text": pa.array([1, None], pa.timestamp("ns"))}))
    assert [row["detail"] for row in rows] == [
        "input, row 0: column 'text' holds no string",
        "input, row 1: column 'text' is null",
    ]


def test_html_columns():
    table = {"page": ["<p>é"], "text": ["unused"]}
    [row] = read_rows(Parquet(html="page"), parquet(table))
    assert (row["content"], row["text"], row["charset"], row["metadata"]) == ("<p>é".encode(), None, "utf-8", None)
    [row] = read_rows(Parquet(html="page"), parquet({"page": ["<p>é".encode("latin-1")]}))
    assert (row["content"], row["charset"]) == (b"<p>\xe9", None)


def test_strings_that_are_not_utf8():
    bad = pa.array([b"caf\xe9 na Rua", "ação".encode()], pa.binary()).view(pa.string())
    rows = read_rows(Parquet(), parquet({"text": bad, "id": ["a", "b"]}))
    assert [row["text"] for row in rows] == ["café na Rua", "ação"]
    assert json.loads(rows[0]["metadata"])["decoded"]["encoding"] == "cp1252"
    assert rows[1]["metadata"] is None


def test_a_missing_column_is_named_with_those_that_are_there():
    [row] = read_rows(Parquet(), parquet({"content": ["x"], "id": ["a"]}))
    assert (row["rule"], row["source_id"]) == ("read.no_text", "a")
    assert "no column 'text'; the file has content, id" in row["detail"]


def test_the_limit_is_kept_on_both_sides():
    data = parquet({"text": ["12345"]})
    assert len(documents(read_rows(Parquet(max_bytes=5), data))) == 1
    assert rules(read_rows(Parquet(max_bytes=4), data)) == {"read.too_large": 1}
    accents = parquet({"text": ["ééé"]})  # six bytes
    assert rules(read_rows(Parquet(max_bytes=5), accents)) == {"read.too_large": 1}


def test_files_that_are_cut_or_no_parquet():
    data = parquet({"text": ["some words"] * 100})
    [row] = read_rows(Parquet(), data[: len(data) // 2], "x.parquet")
    assert row["rule"] == "read.truncated"
    assert row["detail"].startswith("x.parquet: it has no index at its end: the file is truncated")
    [row] = read_rows(Parquet(), b'{"text": "no"}')
    assert row["rule"] == "read.undecodable"
    assert rules(read_rows(Parquet(), b"")) == {"read.undecodable": 1}


def test_a_broken_row_group_costs_its_rows():
    texts = [f"{n} " + "barge lock weir toll " * 20 for n in range(300)]
    data = bytearray(
        parquet({"text": texts}, row_group_size=100, compression="zstd", use_dictionary=False, write_page_checksum=True)
    )
    middle = pq.ParquetFile(io.BytesIO(bytes(data))).metadata.row_group(1).column(0)
    end = middle.data_page_offset + middle.total_compressed_size  # its header, with two long texts, comes first
    data[end - 40 : end - 20] = bytes(20)
    rows = read_rows(Parquet(), bytes(data))
    assert rules(rows) == {"read.bad_record": 100}
    assert [row["offset"] for row in rows] == list(range(300))
    assert [row["offset"] for row in documents(rows)] == [*range(100), *range(200, 300)]


def test_settings_pickle():
    assert pickle.loads(pickle.dumps(Parquet(id="key"))) == Parquet(id="key")
