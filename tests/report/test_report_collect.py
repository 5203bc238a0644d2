import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from curate.errors import InputError, UsageError
from curate.report.collect import build_report, write_report
from curate.report.page import render


def test_the_result_in_one_line(run_folder: Path) -> None:
    report = build_report(run_folder)
    result = report["result"]
    assert (result["documents_read"], result["documents_kept"]) == (99, 52)  # 75 + 17 + 7, 34 + 12 + 6
    assert result["tokens"] == sum(entry["tokens"] for entry in report["tokens"].values())
    assert (result["sources"], result["seeds"]) == (3, 3)
    assert report["balanced"] is True
    assert report["documents"]["web"] == {"splits": {"train": 30, "validation": 4}, "languages": {"en": 34}}
    assert report["tokens"]["web"]["documents"] == 34


def test_both_files_are_written_and_agree(run_copy: Path) -> None:
    write_report(run_copy)
    report = json.loads((run_copy / "report.json").read_text())
    assert report == build_report(run_copy)
    assert (run_copy / "report.html").read_text() == render(report)
    assert not list(run_copy.glob(".report*"))
    assert (run_copy / "report.html").stat().st_mode & 0o777 == 0o644


def test_writing_again_gives_the_same_bytes(run_copy: Path) -> None:
    write_report(run_copy)
    first = (run_copy / "report.json").read_bytes(), (run_copy / "report.html").read_bytes()
    write_report(run_copy)
    assert ((run_copy / "report.json").read_bytes(), (run_copy / "report.html").read_bytes()) == first


def test_only_the_timings_differ_between_two_runs(run_folder: Path, run_copy: Path) -> None:
    (run_copy / "timings.json").write_text('{"seconds": 1, "phases": {"extract": {"seconds": 9.5, "tasks_run": 0}}}')
    (run_copy / "train" / "0" / "timings.jsonl").write_text('{"step": 400, "seconds": 2}\n')
    here, there = build_report(run_folder), build_report(run_copy)
    assert here.pop("timings") != there.pop("timings")
    assert here == there


def test_no_path_of_the_run_folder_is_told(run_copy: Path) -> None:
    write_report(run_copy)
    for name in ("report.json", "report.html"):
        assert str(run_copy) not in (run_copy / name).read_text()


PARTS = (
    "recipe.yaml",
    "manifest.json",
    "timings.json",
    "extracted",
    "measurements",
    "decisions",
    "duplicates.parquet",
    "contamination.parquet",
    "edits",
    "quarantine.parquet",
    "documents",
    "tokenizer",
    "tokens",
    "mixture.json",
    "train",
)


def delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def empty(path: Path) -> None:
    for file in path.rglob("*") if path.is_dir() else (path,):
        if file.is_file():
            file.write_bytes(b"")


@pytest.mark.parametrize("harm", [delete, empty])
@pytest.mark.parametrize("part", PARTS)
def test_any_part_may_be_absent_or_empty(run_copy: Path, part: str, harm: Callable[[Path], None]) -> None:
    harm(run_copy / part)
    report = build_report(run_copy)
    json.dumps(report, allow_nan=False)
    page = render(report)
    said = {
        "duplicates.parquet": "has not looked for duplicates",
        "contamination.parquet": "has not looked for benchmark items",
        "measurements": "Nothing was measured",
        "mixture.json": "has no mixture",
        "train": "Nothing was trained",
        "tokens": "Nothing has been tokenised",
        "recipe.yaml": "recipe.yaml is not in the run folder",
        "decisions": "nothing has been decided yet",
        "edits": "No span was cut out",
    }
    assert said.get(part, "") in page


def test_a_run_of_one_file_only(run_copy: Path) -> None:
    for part in PARTS[1:]:
        delete(run_copy / part)
    page = render(build_report(run_copy))
    assert "web_code_books" in page
    assert "Nothing was counted" not in page  # the recipe names sources: their counts are zero, and balance
    assert "0 read, 0 kept" in page


def test_refusals(tmp_path: Path, run_copy: Path) -> None:
    with pytest.raises(UsageError, match="not a run folder"):
        build_report(tmp_path)
    (run_copy / "mixture.json").write_text("{")
    with pytest.raises(InputError, match=r"mixture\.json: not valid JSON"):
        build_report(run_copy)


def test_an_unbalanced_run_says_so(run_copy: Path) -> None:
    manifest = json.loads((run_copy / "manifest.json").read_text())
    manifest["ledger"]["web"]["kept"] += 1
    manifest["reproducible"] = False
    (run_copy / "manifest.json").write_text(json.dumps(manifest))
    report = build_report(run_copy)
    assert report["balanced"] is False
    page = render(report)
    assert "Ledger does not balance" in page
    assert "✗ differs" in page
    assert "Not reproducible" in page
    assert "Every document and byte is accounted for" not in page


def test_a_loss_that_is_no_number_gives_valid_json(run_copy: Path) -> None:
    mixture = json.loads((run_copy / "mixture.json").read_text())
    mixture["sources"]["web"]["epochs"] = float("inf")
    (run_copy / "mixture.json").write_text(json.dumps(mixture))
    write_report(run_copy)
    text = (run_copy / "report.json").read_text()
    assert "Infinity" not in text
    assert json.loads(text)["mixture"]["sources"]["web"]["epochs"] is None


def test_the_command_stays_in_the_timings_and_the_part_in_the_report(run_copy: Path) -> None:
    for name, extra in (
        ("manifest.json", {"limit": 10, "sample": None}),
        ("timings.json", {"command": ["curate", "run"], "folder": "/somewhere"}),
    ):
        path = run_copy / name
        path.write_text(json.dumps(json.loads(path.read_text()) | extra))
    report = build_report(run_copy)
    assert (report["limit"], report["sample"]) == (10, None)
    timings = report.pop("timings")
    assert (timings["command"], timings["folder"]) == (["curate", "run"], "/somewhere")
    assert "/somewhere" not in json.dumps(report)
