import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from curate.errors import InputError, UsageError
from curate.report.collect import build_report, write_report
from curate.report.inspect import inspect
from curate.report.run import RunFolder, count_rows, read_names, read_rows, read_table
from curate.report.trace import trace


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="not a run folder"):
        RunFolder.open(tmp_path)


def test_sources_stand_in_the_recipe_s_order(run_folder: Path) -> None:
    assert RunFolder.open(run_folder).sources == ("web", "code", "books")


def test_sources_are_found_without_recipe_and_manifest(run_copy: Path) -> None:
    (run_copy / "recipe.yaml").unlink()
    (run_copy / "manifest.json").unlink()
    assert RunFolder.open(run_copy).sources == ("books", "code", "web")


def test_steps_are_named_as_the_recipe_names_them(tmp_path: Path) -> None:
    recipe = "sources: {web: {steps: [c4: {}, c4: {}, {c4: {name: last}}, {where: 'a > 1'}, {'mine:Step': {}}]}}"
    (tmp_path / "recipe.yaml").write_text(recipe.replace("c4: {},", "{c4: {}},"))
    assert RunFolder.open(tmp_path).steps("web") == ("c4", "c4-2", "last", "where", "Step")
    assert RunFolder.open(tmp_path).steps("other") == ()


def test_blocks_stand_in_the_order_of_steps(run_folder: Path) -> None:
    assert RunFolder.open(run_folder).blocks("web") == ("language", "gopher_quality", "gopher_repetition")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    run = RunFolder.open(tmp_path)
    with pytest.raises(InputError, match=r"manifest\.json: not valid JSON"):
        _ = run.manifest
    (tmp_path / "recipe.yaml").write_text("a: [")
    with pytest.raises(InputError, match=r"recipe\.yaml: not valid YAML"):
        _ = run.recipe
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    for read in (lambda path: read_table(path), lambda path: read_rows(path, ["a"]), read_names, count_rows):
        with pytest.raises(InputError, match=r"bad\.parquet: cannot be read as Parquet"):
            read(tmp_path / "bad.parquet")


def test_json_lines_forgive_a_torn_last_line_only(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("")
    run = RunFolder.open(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n\n{"step": 2}\n{"st')
    assert run.json_lines("metrics.jsonl") == [{"step": 1}, {"step": 2}]
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"st\n{"step": 2}\n')
    with pytest.raises(InputError, match="line 2"):
        run.json_lines("metrics.jsonl")
    assert run.json_lines("nothing.jsonl") == []
    assert run.manifest == {}


def test_seeds_are_in_number_order(tmp_path: Path) -> None:
    for name in ("10", "9", "extra"):
        (tmp_path / "train" / name).mkdir(parents=True)
    (tmp_path / "recipe.yaml").touch()
    assert RunFolder.open(tmp_path).seeds() == ("9", "10", "extra")


def test_a_damaged_shard_is_named_while_scanning(run_copy: Path) -> None:
    path = run_copy / "decisions" / "web" / "00001.parquet"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"00001\.parquet: cannot be read as Parquet"):
        list(RunFolder.open(run_copy).scan("decisions", "web"))


def test_scanning_in_parts_gives_every_row_once(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder.open(run_folder)
    whole = [id for _, frame in run.scan("decisions", "web", columns=("id", "nothing")) for id in frame["id"]]
    monkeypatch.setattr("curate.report.run.SCAN_ROWS", 7)
    parts = [frame for _, frame in run.scan("decisions", "web", columns=("id", "nothing"))]
    assert max(frame.height for frame in parts) <= 7
    assert [id for frame in parts for id in frame["id"]] == whole
    assert len(set(whole)) == 75


@pytest.mark.parametrize("name", ["saída [1]", "runs {a,b}", "what? *", "[!x]"])
def test_a_folder_s_name_is_no_pattern(run_folder: Path, docs: list[Any], tmp_path: Path, name: str) -> None:
    run = Path(shutil.copytree(run_folder, tmp_path / name / "[run] *"))
    write_report(run)
    assert json.loads((run / "report.json").read_text()) == build_report(run_folder)
    rows = list(inspect(run, source="web", rule="dedup.exact", sample=9))
    assert len(rows) == 4
    assert all(row.text for row in rows)
    assert trace(run, docs[0].id).text == trace(run_folder, docs[0].id).text
