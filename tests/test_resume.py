"""Killed at any moment and run again: the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import machine
import pytest

POINTS = ("before_write", "after_write", "after_fsync", "after_rename", "after_entry")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return a recipe and the contents of its run folder after an undisturbed run with one worker."""
    folder = tmp_path_factory.mktemp("finished")
    recipe = machine.project(folder, files=4, documents=12)
    result = machine.command("run", recipe, "--output", folder / "run", "--cache", folder / "cache", "--workers", 1)
    assert result.returncode == 0, result.stderr
    return recipe, machine.contents(folder / "run")


def leftovers(*folders: Path) -> list[Path]:
    return [
        path for folder in folders for path in folder.rglob("*") if ".tmp" in path.name or path.parent.name == "tmp"
    ]


@pytest.mark.parametrize("number", [pytest.param(1, marks=pytest.mark.slow), 6])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_commit_point(
    tmp_path: Path, finished: tuple[Path, dict[str, str]], point: str, number: int
) -> None:
    recipe, expected = finished
    workers = 1 if number == 1 else 2  # the first commit is one worker's
    where = ("--output", tmp_path / "run", "--cache", tmp_path / "cache", "--workers", workers)
    environment = {
        "PYTHONPATH": os.pathsep.join((str(machine.ROOT / "tests" / "crash"), str(machine.ROOT))),
        "CURATE_TEST_KILL": f"{point}:{number}:{tmp_path / 'count'}",
    }
    killed = machine.command("run", recipe, *where, environment=environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "run" / "manifest.json").exists()
    again = machine.command("run", recipe, *where)
    assert again.returncode == 0, again.stderr
    assert machine.contents(tmp_path / "run") == expected
    assert leftovers(tmp_path / "run", tmp_path / "cache") == []


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path, finished: tuple[Path, dict[str, str]]) -> None:  # pipe-003
    recipe, expected = finished
    moments = random.Random(11)
    arguments = ("run", recipe, "--output", tmp_path / "run", "--cache", tmp_path / "cache", "--workers", 2)
    for _ in range(6):
        process = machine.start(*arguments)
        time.sleep(moments.uniform(0.3, 4.0))
        process.kill()
        process.wait()
    again = machine.command(*arguments)
    assert again.returncode == 0, again.stderr
    assert machine.contents(tmp_path / "run") == expected
    decided = machine.ids(tmp_path / "run", "decisions")
    assert len(decided) == len(set(decided))


def test_interrupt_is_clean(tmp_path: Path, finished: tuple[Path, dict[str, str]]) -> None:
    recipe, expected = finished
    arguments = ("run", recipe, "--output", tmp_path / "run", "--cache", tmp_path / "cache", "--workers", 2)
    process = machine.start(*arguments, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert any("extract" in line for line in process.stderr)  # at work
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=240)  # what hangs; how soon it ends is the machine's load
    assert process.returncode == 130, message
    assert "interrupted" in message
    assert "Traceback" not in message
    assert leftovers(tmp_path / "run", tmp_path / "cache") == []
    again = machine.command(*arguments)
    assert again.returncode == 0, again.stderr
    assert machine.contents(tmp_path / "run") == expected
