"""The commands as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import machine
import pytest

from curate.errors import UsageError
from curate.runner import parse_size


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    recipe = machine.project(folder, files=2, documents=12)
    result = machine.command("run", recipe, "--output", folder / "run", "--cache", folder / "cache")
    assert result.returncode == 0, result.stderr
    assert "documents read" in result.stdout
    assert "report.html" in result.stdout
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["check", "--help"],
        ["inspect", "--help"],
        ["what-if", "--help"],
        ["audit", "--help"],
        ["export", "--help"],
        ["cache", "--help"],
    ],
)
def test_help_teaches(arguments: list[str]) -> None:
    result = machine.command(*arguments)
    assert result.returncode == 0
    assert "Usage" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "a", "b"], ["ablate", "r.yaml", "--seeds", "3"],
        ["mixture", "optimize"],
        ["cache", "prune"],
    ],
)  # fmt: skip
def test_what_is_not_built_says_so(arguments: list[str]) -> None:
    result = machine.command(*arguments)
    assert result.returncode == 2
    assert "not built yet" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["run", "nowhere.yaml"], ["nonsense"], ["run", "x.yaml", "--wrokers", "2"], ["run", "x.yaml", "--until", "later"],
     ["run", "x.yaml", "--executor", "ray"], ["run", "x.yaml", "--tasks", "1/2"], ["run", "x.yaml", "--memory", "lots"]],
)  # fmt: skip
def test_wrong_command_lines_exit_2(arguments: list[str]) -> None:
    result = machine.command(*arguments)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr


def test_check_touches_nothing(finished: Path, tmp_path: Path) -> None:
    before = sorted(finished.rglob("*"))
    result = machine.command(
        "check", finished / "recipe.yaml", cwd=tmp_path, environment={"XDG_CACHE_HOME": str(tmp_path / "c")}
    )
    assert result.returncode == 0, result.stderr
    assert "this recipe can run" in result.stdout
    assert "min_words: 20.0" in result.stdout  # the resolved recipe
    assert sorted(finished.rglob("*")) == before
    assert list(tmp_path.iterdir()) == []


def test_check_refuses(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("sources: {a: {read: {kind: jsonl, pths: x}}}\n")
    result = machine.command("check", tmp_path / "r.yaml")
    assert result.returncode == 2
    assert "did you mean 'paths'" in result.stderr


def test_inspect_and_trace(finished: Path) -> None:
    shown = machine.command("inspect", finished / "run", "--source", "one", "--rule", "dedup.exact", "--sample", "1")
    assert shown.returncode == 0, shown.stderr
    assert "dedup.exact" in shown.stdout
    removed = next(line.split()[1] for line in shown.stdout.splitlines() if line.strip().startswith("id "))
    traced = machine.command("trace", finished / "run", removed)
    assert traced.returncode == 0, traced.stderr
    assert removed in traced.stdout
    kept = machine.ids(finished / "run", "documents")[0]
    assert "in slot" in machine.command("trace", finished / "run", kept).stdout
    wrong = machine.command("inspect", finished / "run", "--rule", "dedup.exat")
    assert wrong.returncode == 2
    assert "dedup.exact" in wrong.stderr
    assert machine.command("trace", finished / "run", "nothing-like-it").returncode == 2


def test_report_again(finished: Path) -> None:
    before = json.loads((finished / "run" / "report.json").read_text())
    (finished / "run" / "report.json").unlink()
    assert machine.command("report", finished / "run").returncode == 0
    after = json.loads((finished / "run" / "report.json").read_text())
    assert {name: value for name, value in after.items() if name != "timings"} == {
        name: value for name, value in before.items() if name != "timings"
    }


def test_cache_list(finished: Path) -> None:
    assert "results" in machine.command("cache", "list", "--cache", finished / "cache").stdout


def test_quiet(finished: Path) -> None:
    arguments = (
        "run",
        finished / "recipe.yaml",
        "--output",
        finished / "run",
        "--cache",
        finished / "cache",
        "--quiet",
    )
    result = machine.command(*arguments)
    assert result.returncode == 0
    assert result.stdout == ""
    assert "extract" not in result.stderr.replace("extracted", "")


@pytest.mark.parametrize(
    ("text", "size"), [("1G", 10**9), ("512MiB", 512 << 20), ("150k", 150_000), ("65536", 65_536), ("2GB", 2 * 10**9)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "0", "1X"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match="--memory"):
        parse_size(text)
