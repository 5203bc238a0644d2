"""Documents as Parquet and as a Hugging Face dataset: every row once, the columns kept, files of bounded size."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exported import contents, listed
from ruamel.yaml import YAML

from curate.errors import InputError
from curate.export.documents import document_tasks, name_hub, name_parquet
from curate.export.huggingface import head
from curate.export.selection import Selection
from curate.export.write import export
from curate.pipeline import ParquetFile


def rows_of(run: Path, source: str, split: str) -> pa.Table:
    table = pa.concat_tables(pq.read_table(path) for path in sorted((run / "documents" / source).glob("*.parquet")))
    return table.filter(pa.compute.equal(table["split"], split))


def front_matter(card: Path) -> dict:
    begin, content, _ = card.read_text("utf-8").split("---\n", 2)
    assert begin == ""
    return YAML(typ="safe", pure=True).load(content)


@pytest.mark.parametrize("name", ["parquet", "hf"])
def test_every_document_once_in_the_order_of_the_run(run_folder: Path, tmp_path: Path, name: str) -> None:
    made = export(run_folder, name, output=tmp_path / "x", quiet=True)
    total = 0
    for source in ("web", "books", "more"):
        for split in ("train", "validation"):
            expected = rows_of(run_folder, source, split)
            pattern = f"{split}/{source}/*.parquet" if name == "parquet" else f"data/{source}/{split}-*.parquet"
            files = sorted((tmp_path / "x").glob(pattern))
            assert bool(files) == bool(expected.num_rows)  # `more` has no validation document, and no file of it
            if files:
                found = pa.concat_tables(pq.read_table(path) for path in files)
                assert found.equals(expected)
                assert found.schema.equals(pq.read_schema(run_folder / "documents" / source / "00000.parquet"))
            total += expected.num_rows
    assert made.documents == total == 88 + 20 + 1  # of 90, 20 and 1: a copy and a short one less
    assert sum(one.get("documents", 0) for one in listed(tmp_path / "x").values()) == total


def test_shards_are_bounded_and_hold_each_row_group_once(run_copy: Path, tmp_path: Path) -> None:
    """Row groups of 7 rows; shards end with the group that fills them, their number is in their names."""
    path = run_copy / "documents/web/00000.parquet"
    table = pq.read_table(path)
    path.chmod(0o644)
    with ParquetFile(path, table.schema, rows_per_group=7) as file:
        for batch in table.to_batches():
            file.write(batch)
    selection = Selection.of(run_copy, ("web",), None)
    tasks = document_tasks(selection, name_hub, file_bytes=4000)
    train = [task for task in tasks if "/train-" in task.name]
    assert len(train) > 3
    assert [task.name for task in train] == [
        f"data/web/train-{number:05d}-of-{len(train):05d}.parquet" for number in range(len(train))
    ]
    (tmp_path / "data/web").mkdir(parents=True)
    facts = [task.write(tmp_path) for task in tasks]
    found = pa.concat_tables(pq.read_table(tmp_path / task.name) for task in train)
    assert found.equals(rows_of(run_copy, "web", "train"))
    assert sum(one["documents"] for one in facts) == rows_of(run_copy, "web", "train").num_rows + (
        rows_of(run_copy, "web", "validation").num_rows
    )
    assert all(one["bytes"] < 4000 + 7 * 500 for one in facts)
    assert len(document_tasks(selection, name_parquet)) == 2  # by default one file holds them all


def test_front_matter_names_files_columns_counts_languages_licences(run_folder: Path, tmp_path: Path) -> None:
    export(run_folder, "hf", output=tmp_path / "x", quiet=True)
    head = front_matter(tmp_path / "x/README.md")
    assert head["pretty_name"] == "exported"
    assert head["language"] == ["en"]
    # MIT, Apache-2.0 and CC-BY-4.0 (stated for `web` where a document says nothing), a free text, books without any
    assert head["license"] == ["apache-2.0", "cc-by-4.0", "mit", "other", "unknown"]
    assert head["size_categories"] == ["n<1K"]
    configs = {one["config_name"]: one for one in head["configs"]}
    assert list(configs) == ["default", "web", "books", "more"]
    assert [name for name, one in configs.items() if one.get("default")] == ["default"]
    assert configs["more"]["data_files"] == [{"split": "train", "path": ["data/more/train-*.parquet"]}]
    counts = {
        one["config_name"]: {split["name"]: split["num_examples"] for split in one["splits"]}
        for one in head["dataset_info"]
    }
    for name in ("web", "books", "more"):
        for split in counts[name]:
            assert counts[name][split] == rows_of(run_folder, name, split).num_rows
    for split in ("train", "validation"):
        assert counts["default"][split] == sum(one.get(split, 0) for key, one in counts.items() if key != "default")
    features = {one["name"]: one["dtype"] for one in head["dataset_info"][0]["features"]}
    assert features["text"] == "large_string"
    assert features["cluster_size"] == "int32"
    sizes = {one["config_name"]: one["download_size"] for one in head["dataset_info"]}
    assert sizes["more"] == (tmp_path / "x/data/more/train-00000-of-00001.parquet").stat().st_size
    for one in configs.values():
        for entry in one["data_files"]:
            for pattern in entry["path"]:
                assert list((tmp_path / "x").glob(pattern)), pattern


def test_norwegian_is_no_boolean(run_copy: Path, tmp_path: Path) -> None:
    """The Hub reads YAML 1.1, where a bare `no` is false; and a source may be called as the default would be."""
    from dataclasses import replace

    from curate.export.facts import Facts

    selection = Selection.of(run_copy, (), None)
    survey = {"languages": {"no": [5, 9], "en-GB": [1, 1]}, "licences": {"GPL-3.0-only": [6, 10]}}
    written = {
        f"data/default/train-{n}.parquet": {
            "source": "default",
            "split": "train",
            "documents": 999 + n,
            "memory": 7,
            "file_bytes": 5,
        }
        for n in range(2)
    }
    facts = Facts(
        replace(selection, sources=("default",)), "hf", "arranged", {"recipe": "x: y"}, {"default": survey}, written, ""
    )
    text = head(facts, pa.schema([("id", pa.string())]))
    assert 'language:\n  - "no"\n' in text
    assert 'license: "gpl-3.0"\n' in text
    assert 'pretty_name: "x: y"\n' in text
    assert '"1K<n<10K"' in text
    assert '- config_name: "all"\n    default: true\n' in text


def test_a_changed_document_file_is_named(run_copy: Path, tmp_path: Path) -> None:
    path = run_copy / "documents/web/00000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    with pytest.raises(InputError, match=r"documents/web: holds \d+ documents, manifest.json says \d+"):
        export(run_copy, "hf", output=tmp_path / "x", quiet=True)
    texts = pa.array([text + "x" for text in table["text"].to_pylist()], pa.large_string())
    longer = table.set_column(4, table.schema.field("text"), texts)
    pq.write_table(longer, path)
    with pytest.raises(InputError, match=r"documents/web: holds [\d,]+ bytes of text"):
        export(run_copy, "parquet", output=tmp_path / "x", quiet=True)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"00000.parquet: cannot be read as Parquet"):
        export(run_copy, "parquet", output=tmp_path / "x", quiet=True)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["hf", "parquet", "npy"])
def test_absent_documents_are_named(run_copy: Path, tmp_path: Path, name: str) -> None:
    """A run copied in part: the ledger knows of 88, 20 and 1 documents."""
    shutil.rmtree(run_copy / "documents/books")
    expected = r"documents/books: has no file of documents, manifest.json says 20 documents. Run the recipe again"
    for sources in ([], ["books"], ["more", "books"]):
        with pytest.raises(InputError, match=expected):
            export(run_copy, name, output=tmp_path / "x", sources=sources, quiet=True)
    (run_copy / "documents/books").mkdir()
    for split in ("train", "validation"):
        with pytest.raises(InputError, match=expected):
            export(run_copy, name, output=tmp_path / "x", split=split, quiet=True)
    assert export(run_copy, name, output=tmp_path / "y", sources=["more"], quiet=True).documents == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("split", [None, "train", "validation"])
def test_an_absent_shard_is_named(run_copy: Path, tmp_path: Path, split: str | None) -> None:
    """Two shards of a source, one of them with a single split; whichever is away, each split is refused."""
    folder = run_copy / "documents/books"
    table = pq.read_table(folder / "00000.parquet")
    parts = {
        f"0000{number}.parquet": table.filter(pa.compute.equal(table["split"], of))
        for number, of in enumerate(("train", "validation"))
    }
    assert all(part.num_rows for part in parts.values())
    shutil.copyfile(run_copy / "decisions/books/00000.parquet", run_copy / "decisions/books/00001.parquet")
    for name, part in parts.items():
        pq.write_table(part, folder / name)
    chosen = [
        part.num_rows for part, of in zip(parts.values(), ("train", "validation"), strict=True) if split in (None, of)
    ]
    made = export(run_copy, "hf", output=tmp_path / "whole", sources=["books"], split=split, quiet=True)
    assert made.documents == sum(chosen)
    for name, part in parts.items():
        (folder / name).unlink()
        left = 20 - part.num_rows
        message = rf"documents/books: holds {left} documents, manifest.json says 20. Absent: {name}. Run the recipe"
        for kind in ("hf", "parquet"):
            with pytest.raises(InputError, match=message):
                export(run_copy, kind, output=tmp_path / "x", split=split, quiet=True)
        (folder / name).touch()  # cut off to nothing
        with pytest.raises(InputError, match=message):
            export(run_copy, "hf", output=tmp_path / "x", split=split, quiet=True)
        pq.write_table(part, folder / name)
    assert not (tmp_path / "x").exists()


def test_an_export_is_the_same_from_a_copy_of_the_run(run_folder: Path, run_copy: Path, tmp_path: Path) -> None:
    export(run_folder, "hf", output=tmp_path / "a", quiet=True)
    (run_copy / "report.json").unlink()  # made again from the other files
    (run_copy / "timings.json").unlink()
    export(run_copy, "hf", output=tmp_path / "b", quiet=True)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert json.loads((tmp_path / "a/export.json").read_text())["format"] == "hf"
