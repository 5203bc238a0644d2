"""Benchmarks of a recipe: what is refused before any work, which files are one benchmark, what each is called."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import curate
from curate.benchmarks.items import read_benchmark
from curate.errors import InputError, RecipeError
from curate.runner import check
from curate.tasks.benchmarks import benchmark_inputs

ROW = {"question": "Which lock has seven gates?", "answer": "the third", "opts": ["the first", "the third"]}


def recipe(folder: Path, benchmarks: Any) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "a.txt").write_text("Nine locks.\n")
    value = {
        "sources": {"a": {"read": {"kind": "files", "paths": "in/*"}}},
        "decontaminate": {"benchmarks": benchmarks, "action": "flag"},
    }
    text = json.dumps(value, indent=1)
    (folder / "r.yaml").write_text(text)
    return folder / "r.yaml"


def write(path: Path, *rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif path.suffix == ".arrow":
        table = pa.Table.from_pylist(list(rows))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("benchmark", "key", "message"),
    [
        ({"path": "q.jsonl", "mapping": "mmul"}, ".mapping", "no mapping 'mmul' ships; did you mean 'mmlu'?"),
        ({"path": "q.jsonl", "mapping": "xyzzy"}, ".mapping", "write `fields`, or one of general, agieval"),
        ({"path": "q.jsonl", "maping": "mmlu"}, ".maping", "unknown key; did you mean 'mapping'?"),
        ({"name": "q"}, ".path", "is missing."),
        ({"path": ""}, ".path", "at least 1 character"),
        ({"path": "q.jsonl", "fields": {"qestion": "a"}}, ".fields.qestion", "did you mean 'question'?"),
        ({"path": "q.jsonl", "fields": {"answer": "a"}}, ".fields", "must name `question` or `context`"),
        ({"path": "q.jsonl", "fields": {"question": "a..b"}}, ".fields.question", "'a..b' is no path of a field"),
        ({"path": "q.jsonl", "fields": {"question": "a", "answer": {"pik": "a"}}}, ".fields.answer.pik", "did you mean 'pick'?"),
        ({"path": "q.jsonl", "mapping": "mmlu", "fields": {"question": "a"}}, "", "both `mapping` and `fields`"),
        ({"path": "nothing.jsonl"}, "", "nothing.jsonl: no file matches"),
        ({"path": "${NOT_SET_AT_ALL}/q.jsonl"}, "", "NOT_SET_AT_ALL is not set"),
        ({"path": "q.jsonl", "split": "tset"}, "", "no file of it is read (1 of split train)"),
        ({"path": "q.jsonl", "mapping": "mmlu"}, "", "row 1, field 'choices': there is no 'choices'"),
        ({"path": "q.jsonl", "fields": {"question": "quesion"}}, "", "field 'quesion': there is no 'quesion'. Did you mean 'question'?"),
        ({"path": "q.parquet", "fields": {"question": "opts.text"}}, "", "'opts.0' is a text, and has no 'text'"),
        ("q.jsonl", "", "every file of it is read as a benchmark before it"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_its_line(tmp_path: Path, benchmark: Any, key: str, message: str) -> None:
    write(tmp_path / "q.jsonl", ROW)
    write(tmp_path / "q.parquet", ROW)
    write(tmp_path / "first.jsonl", ROW)
    first = "q.jsonl" if isinstance(benchmark, str) else "first.jsonl"
    path = recipe(tmp_path, [first, benchmark])
    line = path.read_text().split("\n").index(f'   "{first}",') + 2  # of what stands behind the first benchmark
    with pytest.raises(RecipeError) as caught:
        check(path)
    said = [problem for problem in caught.value.problems if problem.key.startswith("decontaminate.benchmarks.1")]
    assert [problem.key for problem in said] == ["decontaminate.benchmarks.1" + key]
    assert message in said[0].message
    place = str(said[0])
    assert int(place.removeprefix(f"{path}:").partition(":")[0]) >= line, place


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a" / "q.jsonl", ROW)
    write(tmp_path / "b" / "q.jsonl", ROW)
    with pytest.raises(RecipeError, match="two benchmarks are named 'mine'"):
        curate.load(recipe(tmp_path, [{"path": "a/q.jsonl", "name": "mine"}, {"path": "b/q.jsonl", "name": "mine"}]))
    apart = named(tmp_path, [{"path": "a/q.jsonl", "name": "q"}, "b/q.jsonl"])
    assert list(apart) == ["q", str(tmp_path / "b/q.jsonl")]
    for folder in ("a", "b"):
        write(tmp_path / folder / "set" / "test-00000-of-00001.parquet", ROW)
    with pytest.raises(RecipeError, match="another benchmark is called 'set' as well"):
        check(recipe(tmp_path, ["a/set", "b/set"]))


def named(folder: Path, benchmarks: Any) -> dict[str, tuple[list[str], dict[str, int]]]:
    loaded = curate.load(recipe(folder, benchmarks))
    assert curate.load(write_again(folder, loaded.as_yaml())) == loaded
    found = benchmark_inputs(loaded, None)
    return {one.name: ([file.path for file in one.files], dict(one.passed_over)) for one in found}


def write_again(folder: Path, text: str) -> Path:
    (folder / "again.yaml").write_text(text)
    return folder / "again.yaml"


def test_files_and_patterns_are_a_benchmark_each_and_a_name_makes_one(tmp_path: Path) -> None:
    for name in ("x/q.jsonl", "x/r.jsonl.gz", "y/q.jsonl"):
        write(tmp_path / name, ROW)
    assert named(tmp_path, ["x/*", "y/q.jsonl"]) == {
        str(tmp_path / "x/q.jsonl"): (["q.jsonl"], {}),
        "r": (["r.jsonl.gz"], {}),
        str(tmp_path / "y/q.jsonl"): (["q.jsonl"], {}),
    }
    assert named(tmp_path, ["*/q.jsonl"]) == {"x/q.jsonl": (["x/q.jsonl"], {}), "y/q.jsonl": (["y/q.jsonl"], {})}
    assert named(tmp_path, [{"path": "*/q.jsonl", "name": "both"}]) == {"both": (["x/q.jsonl", "y/q.jsonl"], {})}
    # A file that an entry before it holds is not read again.
    assert named(tmp_path, ["x/q.jsonl", {"path": "x/*", "name": "rest"}]) == {
        "q": (["q.jsonl"], {}),
        "rest": (["r.jsonl.gz"], {}),
    }


def test_a_folder_of_benchmarks_and_a_folder_that_is_one(tmp_path: Path) -> None:
    for name in ("many/a.jsonl", "many/b_train.jsonl", "many/README.md"):
        write(tmp_path / name, ROW)
    passed = {"neither Parquet, Arrow nor JSON Lines": 1}
    assert named(tmp_path, ["many"]) == {"a": (["a.jsonl"], passed), "b_train": (["b_train.jsonl"], passed)}
    for name in ("en/test-00000-of-00002.parquet", "en/test-00001-of-00002.parquet", "en/train-00000-of-00001.parquet",
                 "pt/test-00000-of-00001.parquet", "aux/auxiliary_train-00000-of-00001.parquet"):  # fmt: skip
        write(tmp_path / "one" / name, ROW)
    test = ["en/test-00000-of-00002.parquet", "en/test-00001-of-00002.parquet", "pt/test-00000-of-00001.parquet"]
    left = {"of split auxiliary_train": 1, "of split train": 1}
    assert named(tmp_path, ["one"]) == {"one": (test, left)}
    assert named(tmp_path, [{"path": "one", "config": "pt", "split": "all"}]) == {
        "one": (test[2:], {"of another config": 4})
    }
    everything = named(tmp_path, [{"path": "one/", "split": ["test", "train"], "name": "mine"}])
    assert everything["mine"][0] == [*test[:2], "en/train-00000-of-00001.parquet", test[2]]
    with pytest.raises(
        RecipeError, match=r"did you mean 'test'\? Name what is there\. Splits: auxiliary_train, test, train"
    ):
        named(tmp_path, [{"path": "one", "split": "tset"}])


def test_what_save_to_disk_wrote(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    for split in ("train", "test"):
        write(saved / split / "data-00000-of-00001.arrow", ROW)
        (saved / split / "dataset_info.json").write_text("{}")
        (saved / split / "state.json").write_text("{}")
    (saved / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    about = {"about the dataset": 5, "of split train": 1}
    assert named(tmp_path, ["saved"]) == {"saved": (["test/data-00000-of-00001.arrow"], about)}
    only = tmp_path / "saved" / "train"
    [(name, (files, _))] = named(tmp_path, [str(only)]).items()
    assert (name, files) == ("train", ["data-00000-of-00001.arrow"])  # there is no other split: it is the benchmark


def test_a_run_says_how_each_benchmark_was_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "q.jsonl", ROW)
    write(
        tmp_path / "gsm8k.jsonl",
        {"question": f"{ROW['question']} Say why.", "answer": "3"},
        {"question": "Why?", "answer": "3"},
    )
    (tmp_path / "copy.jsonl").write_bytes((tmp_path / "q.jsonl").read_bytes())
    own = {"question": "question", "choices": "opts", "answer": {"pick": "answer"}}
    path = recipe(tmp_path, [{"path": "q.jsonl", "fields": own}, "gsm8k.jsonl", "copy.jsonl"])
    result = curate.run(
        path, output=tmp_path / "run", cache=tmp_path / "cache", quiet=True, until="decontaminate", workers=1
    )
    found = result.manifest["decontamination"]["benchmarks"]
    assert {name: (one["mapping"], one["mapping_by"], one["items"]) for name, one in found.items()} == {
        "q": ("fields", "recipe", 1),
        "gsm8k": ("gsm8k", "recognised", 2),
        "copy": ("general", "", 1),
    }
    warnings = [
        f"decontaminate.benchmarks: {tmp_path}/copy.jsonl has the same bytes as {tmp_path}/q.jsonl: take one of them out.",
        "decontaminate.benchmarks: gsm8k: 1 of 2 items (50.0%) cannot be looked for: "
        "1 fewer than 8 words, also with an answer.",
    ]
    assert result.manifest["warnings"] == warnings
    assert [line for line in capsys.readouterr().err.splitlines() if "note:" in line] == [
        f"  note: {one}" for one in warnings
    ]
    assert found["q"]["parts"] == {"question": 1, "context": 0, "choice": 2, "answer": 1}
    assert found["q"]["left_out"] == {"answer": "tells which answer is gold"}
    assert found["q"]["passed_over"] == {}


def test_a_benchmark_of_which_nothing_can_be_looked_for_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "q.jsonl", ROW)
    write(
        tmp_path / "only.jsonl", {"answer": "the third lock of the seven gates", "id": 3}, {"question": "Why?", "id": 4}
    )
    path = recipe(tmp_path, ["q.jsonl", "only.jsonl"])
    check(path)  # only the whole file shows it
    with pytest.raises(InputError) as caught:
        curate.run(path, output=tmp_path / "run", cache=tmp_path / "cache", quiet=True, until="measure", workers=1)
    assert str(caught.value).startswith(
        f"{tmp_path}/only.jsonl: 2 of 2 items (100.0%) cannot be looked for: 1 no text but labels and answers; "
        "1 fewer than 8 words, also with an answer. Say in decontaminate.benchmarks which `fields` hold the question"
    )


GOOD = json.dumps(ROW).encode() + b"\n"


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("empty.jsonl", b"", "holds no benchmark item"),
        ("blank.jsonl", b"\n \n\n", "holds no benchmark item"),
        ("array.json", b"[]", "holds no benchmark item"),
        ("broken.jsonl", b'{"question": "Which lock\n' + GOOD, "line 1 is no JSON"),
        ("second.jsonl", GOOD + b"{\n", "line 2 is no JSON"),
        ("wide.jsonl", GOOD.decode().encode("utf-16"), "is UTF-16 text, which is not read here"),
        ("table.csv", b"question,answer\nWhich lock,the third\n", "write it as JSON Lines or Parquet"),
        ("text.txt", b"Which lock has seven gates?\n", "write it as JSON Lines or Parquet"),
        ("half.parquet", b"PAR1" + b"\0" * 40 + b"PAR1", "row 1 cannot be read"),
        ("half.jsonl.gz", gzip.compress(GOOD)[:-12], "cannot be decompressed"),
        ("scalars.jsonl", b"1\n2\n", "line 1 is no JSON object but int"),
        ("scalars.json", b'["a", "b"]', "its element 1 is str"),
    ],
)  # fmt: skip
def test_what_a_run_would_refuse_is_refused_by_check(tmp_path: Path, name: str, data: bytes, problem: str) -> None:
    write(tmp_path / "q.jsonl", ROW)
    (tmp_path / name).write_bytes(data)
    path = recipe(tmp_path, ["q.jsonl", name])
    with pytest.raises(RecipeError) as caught:
        check(path)
    [said] = caught.value.problems
    assert said.key == "decontaminate.benchmarks.1"
    with pytest.raises(InputError) as read:
        read_benchmark(str(tmp_path / name))
    assert problem in said.message
    assert said.message == str(read.value)


def test_a_row_that_only_seems_to_have_a_known_form_passes_check(tmp_path: Path) -> None:
    write(
        tmp_path / "gsm8k.jsonl", {"question": {"stem": ROW["question"]}, "answer": "3"}, {"question": 7, "answer": "3"}
    )
    check(recipe(tmp_path, ["gsm8k.jsonl"]))
    assert len(read_benchmark(str(tmp_path / "gsm8k.jsonl")).items) == 2
