"""Dataset folders as `datasets.save_to_disk` writes them (written here with pyarrow in the same form) and hub layouts."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import documents, read_rows, rules

import curate
from curate.errors import RecipeError
from curate.read.huggingface import HuggingFace, split_of
from curate.read.parquet import Parquet

TABLE = pa.table(
    {
        "id": [1, 2, 3],
        "text": ["One.", "Deux.", None],
        "url": ["https://a.test/1", None, "https://a.test/3"],
        "label": [0, 1, 0],
    }
)


def stream(table, rows=1000, schema=None):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema or table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def arrow_file(table):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


def parquet(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def lines(table):
    return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()


def without_places(rows):
    return [{name: value for name, value in row.items() if name not in ("offset", "detail")} for row in rows]


def test_every_format_gives_the_same_rows():
    expected = read_rows(Parquet(), parquet(TABLE))
    assert [(row["source_id"], row["text"]) for row in expected] == [("1", "One."), ("2", "Deux."), ("3", None)]
    for data in (stream(TABLE), stream(TABLE, 1), arrow_file(TABLE), parquet(TABLE)):
        rows = read_rows(HuggingFace(), data)
        assert without_places(rows) == without_places(expected)
        assert [row["offset"] for row in rows] == [0, 1, 2]
    for data in (lines(TABLE), gzip.compress(lines(TABLE))):
        rows = read_rows(HuggingFace(), data, "train.jsonl")
        assert [(row["source_id"], row["url"], row["text"]) for row in documents(rows)] == [
            ("1", "https://a.test/1", "One."),
            ("2", None, "Deux."),
        ]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_the_type_of_the_column_does_not_matter(kind):
    table = pa.table({"text": pa.array(["One.", "Two.", None]).cast(kind)})
    assert [row["text"] for row in read_rows(HuggingFace(), stream(table))] == ["One.", "Two.", None]


def test_text_that_is_not_utf8_is_decoded():
    raw = pa.array([b"caf\xe9 au lait, d\xe9j\xe0 vu", b"plain"], pa.binary())
    table = pa.table({"text": raw.view(pa.string())})
    rows = read_rows(HuggingFace(), stream(table))
    assert [row["text"] for row in rows] == ["café au lait, déjà vu", "plain"]
    assert "decoded" in json.loads(rows[0]["metadata"])


def test_a_long_batch_goes_out_in_short_ones():
    table = pa.table({"text": ["x" * 100_000] * 300})
    batches = list(HuggingFace().read(io.BytesIO(stream(table)), "data"))
    assert sum(batch.num_rows for batch in batches) == 300
    assert max(batch.nbytes for batch in batches) < 10 << 20


def test_damage_is_told_and_what_came_before_is_kept():
    table = pa.table({"text": [f"Row {row}." for row in range(40)]})
    whole = stream(table, 10)
    assert rules(read_rows(HuggingFace(), whole)) == {}
    assert whole.endswith(b"\xff\xff\xff\xff\0\0\0\0")
    for cut in (whole[:-8], whole[:-1], whole[: len(whole) // 2]):
        rows = read_rows(HuggingFace(), cut)
        found = documents(rows)
        assert found == read_rows(HuggingFace(), whole)[: len(found)]
        assert 10 <= len(found) <= 40
        assert rules(rows) == {"read.truncated": 1}
        assert rows[-1]["offset"] == len(found)


def test_offsets_that_point_outside_end_the_reading_and_not_the_process():
    def offsets(*numbers):
        return b"".join(number.to_bytes(4, "little", signed=True) for number in numbers)

    whole = stream(pa.table({"text": ["One.", "Two."]}))
    assert whole.count(offsets(0, 4, 8)) == 1
    for middle in (1 << 30, -5):
        lying = whole.replace(offsets(0, 4, 8), offsets(0, middle, 8))
        assert rules(read_rows(HuggingFace(), lying)) == {"read.undecodable": 1}


def test_a_damaged_name_of_a_column_is_no_crash():
    table = pa.table({"text": ["One."], "a_name": [1]})
    for data in (stream(table), arrow_file(table), parquet(table)):
        assert b"a_name" in data
        assert rules(read_rows(HuggingFace(), data.replace(b"a_name", b"\xffname"))) == {"read.undecodable": 1}
    assert (
        "its index is damaged" in read_rows(HuggingFace(), parquet(table).replace(b"a_name", b"\xffname"))[0]["detail"]
    )


def test_what_is_no_dataset_file_is_told():
    assert rules(read_rows(HuggingFace(), b"\xff\xff\xff\xffnonsense")) == {"read.undecodable": 1}
    assert rules(read_rows(HuggingFace(), b"nonsense\n")) == {"read.bad_record": 1}


@pytest.mark.parametrize(
    ("path", "split"),
    [
        # Forms that the documentation of `datasets` names.
        ("data/train-00000-of-00003.parquet", "train"),
        ("train.csv", "train"),
        ("test.jsonl", "test"),
        ("data/validation.jsonl", "validation"),
        ("my_dataset_eval/data.parquet", "test"),
        ("dev/part-0.jsonl.gz", "validation"),
        ("train/shard_0.parquet", "train"),
        ("my_train_file_0.jsonl", "train"),
        ("en/partial-train/0001.parquet", "train"),
        ("data/random-00000-of-00001.parquet", "random"),
        ("data/train_sft-00000-of-00001.parquet", "train_sft"),
        ("data/valid-00000-of-00001.parquet", "validation"),
        # save_to_disk
        ("data-00000-of-00001.arrow", "train"),
        ("train/data-00000-of-00002.arrow", "train"),
        ("held_out/data-00000-of-00002.arrow", "held_out"),
        # words that only contain one
        ("training_wheels.jsonl", "train"),
        ("trained.jsonl", "train"),
        ("latest.jsonl", "train"),
        ("developer/contest.jsonl", "train"),
    ],
)
def test_the_split_of_a_file(path, split):
    assert split_of(path) == split


def test_files_that_are_passed_over():
    def why(path, **settings):
        return HuggingFace(**settings).passes_over(path)

    assert why("train/data-00000-of-00001.arrow") == ""
    assert why("train/state.json") == "about the dataset"
    assert why("README.md") == why("data.csv") == "neither Parquet, Arrow nor JSON Lines"
    assert why("test.parquet") == "of split test"
    assert why("test.parquet", split="test") == why("test.parquet", split="all") == ""
    assert why("dev.parquet", split=("train", "validation")) == ""
    assert why("en/train.parquet", config="en") == ""
    assert why("pt/train.parquet", config="en") == "of another config"


def save_to_disk(folder, splits):
    """Write a DatasetDict folder: names, sidecars and stream format are those of datasets 5.2.0."""
    folder.mkdir()
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    for name, table in splits.items():
        (folder / name).mkdir()
        (folder / name / "data-00000-of-00001.arrow").write_bytes(stream(table))
        (folder / name / "dataset_info.json").write_text('{"features": {}}')
        (folder / name / "state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')


RECIPE = "sources:\n  set:\n    read: {kind: huggingface, paths: set}\n"


def test_a_folder_in_a_run(tmp_path):
    save_to_disk(tmp_path / "set", {"train": TABLE, "test": TABLE.slice(0, 1)})
    (tmp_path / "recipe.yaml").write_text(RECIPE)

    def run(*sets):
        options = {"output": tmp_path / "run", "cache": tmp_path / "cache", "quiet": True}
        return curate.run(tmp_path / "recipe.yaml", sets=sets, **options).manifest

    manifest = run()
    assert manifest["ledger"]["set"]["read"] == 3
    assert manifest["ledger"]["set"]["removed"] == {"read": {"read.no_text": 1}}
    assert [file["path"] for file in manifest["inputs"]["set"]["files"]] == ["train/data-00000-of-00001.arrow"]
    assert manifest["inputs"]["set"]["passed_over"] == {"about the dataset": 5, "of split test": 1}
    rows = pq.read_table(tmp_path / "run" / "documents" / "set").to_pylist()
    assert [(row["url"], row["text"], row["metadata"]) for row in rows] == [
        ("https://a.test/1", "One.", '{"label":0}'),
        (None, "Deux.", '{"label":1}'),
    ]
    assert run("sources.set.read.split=all")["ledger"]["set"]["read"] == 4
    for attempt in (run, lambda *sets: curate.check(tmp_path / "recipe.yaml", sets=sets)):
        with pytest.raises(
            RecipeError, match=r"none of them is read: 5 about the dataset, 1 of split test, 1 of split train"
        ):
            attempt("sources.set.read.split=validation")
