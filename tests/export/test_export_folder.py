"""An export is there whole or not at all; killed and run again it has the same bytes; wrong wishes are refused before work."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import machine
import pytest
from exported import contents

from curate.errors import FolderInUseError, InputError, UsageError
from curate.export import folder as export_folder
from curate.export.folder import Task, Unfinished
from curate.export.write import export

POINTS = ("before_write", "after_write", "after_fsync", "after_entry", "before_rename")


class Killed(BaseException):
    """No clean-up of ours catches it."""


def kill_at(point: str, number: int) -> Callable[[str], None]:
    """Return a `reached` that dies at the n-th time of a point."""
    left = [number]

    def reached(found: str) -> None:
        if found == point:
            left[0] -= 1
            if left[0] == 0:
                raise Killed

    return reached


@pytest.fixture(scope="module")
def whole(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole") / "x"
    export(run_folder, "npy", output=folder, quiet=True)
    return contents(folder)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point_and_run_again(
    run_folder: Path, tmp_path: Path, whole: dict[str, bytes], point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 1 if point == "before_rename" else 6
    monkeypatch.setattr(export_folder, "reached", kill_at(point, number))
    with pytest.raises(Killed):
        export(run_folder, "npy", output=tmp_path / "x", quiet=True)
    assert not (tmp_path / "x").exists()
    unfinished = tmp_path / "x.unfinished"
    if point == "after_write":
        for path in unfinished.rglob("*.npy"):
            if path.name not in (unfinished / ".journal.jsonl").read_text():
                path.write_bytes(path.read_bytes()[:7])  # what a power cut leaves of a file that was not synced
        with (unfinished / ".journal.jsonl").open("a") as journal:
            journal.write('{"task": "train/web/000')
    monkeypatch.undo()
    again = export(run_folder, "npy", output=tmp_path / "x", quiet=True)
    assert again.resumed == {"after_entry": 6, "before_rename": 0}.get(point, 5)
    assert contents(tmp_path / "x") == whole
    assert not unfinished.exists()


def test_killed_for_real(run_folder: Path, tmp_path: Path, whole: dict[str, bytes]) -> None:
    program = (
        "import os, signal, sys\n"
        "from curate.export import folder\n"
        "from curate.export.write import export\n"
        "times = []\n"
        "def reached(point):\n"
        "    times.append(point)\n"
        "    if times.count('after_write') == 5: os.kill(os.getpid(), signal.SIGKILL)\n"
        "folder.reached = reached\n"
        "export(sys.argv[1], 'npy', output=sys.argv[2], quiet=True)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(machine.ROOT)}
    arguments = [sys.executable, "-c", program, str(run_folder), str(tmp_path / "x")]
    killed = subprocess.run(arguments, env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert export(run_folder, "npy", output=tmp_path / "x", quiet=True).resumed == 4
    assert contents(tmp_path / "x") == whole


def test_another_export_begins_anew(
    run_folder: Path, tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_folder, "reached", kill_at("after_entry", 9))
    with pytest.raises(Killed):
        export(run_folder, "nanotron", output=tmp_path / "x", quiet=True)
    monkeypatch.undo()
    assert export(run_folder, "npy", output=tmp_path / "x", quiet=True).resumed == 0
    assert contents(tmp_path / "x") == whole


def test_two_exports_into_one_folder(tmp_path: Path) -> None:
    def open_it() -> None:
        with Unfinished.opened(tmp_path / "x", "key"):
            pass

    with Unfinished.opened(tmp_path / "x", "key"), pytest.raises(FolderInUseError, match="in use by another export"):
        open_it()
    open_it()


def test_what_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    task = Task("a", ("a",), lambda folder: {"size": (folder / "a").write_bytes(b"1")})
    with Unfinished.opened(tmp_path / "x", "key") as folder:
        folder.perform(task)
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "theirs").touch()
        with pytest.raises(UsageError, match=r"is not empty \(theirs\)"):
            folder.finish([task])
    (tmp_path / "x" / "theirs").unlink()
    with Unfinished.opened(tmp_path / "x", "key") as folder:
        folder.perform(task)
        folder.finish([task])
    assert contents(tmp_path / "x") == {"a": b"1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "csv"}, "no such format. Formats: megatron, npy, nanotron, parquet, hf"),
        ({"sources": ["wbe"]}, "the run has no such source. It has: web, books, more"),
        ({"split": "test"}, "must be train or validation"),
        ({"order": "random"}, "must be arranged or mixture"),
        ({"format": "hf", "order": "mixture"}, "has documents"),
        ({"order": "mixture", "split": "validation"}, "no validation documents"),
        ({"order": "mixture", "sources": ["web"]}, "leave --source out"),
        ({"output": "s3://bucket/x"}, "written to local folders"),
        ({"output": ""}, "name a folder"),
    ],
)
def test_what_cannot_be_is_refused(run_folder: Path, tmp_path: Path, arguments: dict, message: str) -> None:
    options = {"format": "npy", "output": tmp_path / "x", "quiet": True} | arguments
    with pytest.raises(UsageError, match=re.escape(message)):
        export(run_folder, **options)
    assert list(tmp_path.iterdir()) == []


def test_no_such_run_and_unfinished_runs(run_copy: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        export(tmp_path / "nowhere", "hf", output=tmp_path / "x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="not a run folder"):
        export(tmp_path / "empty", "hf", output=tmp_path / "x")
    (run_copy / "manifest.json").rename(tmp_path / "manifest.json")
    with pytest.raises(UsageError, match=r"not finished: it has no manifest.json.* Run its recipe again"):
        export(run_copy, "hf", output=tmp_path / "x")
    (tmp_path / "manifest.json").rename(run_copy / "manifest.json")
    end_before(run_copy, "collect", "documents", "tokens", "mixture.json")
    with pytest.raises(UsageError, match=r"ended before its documents were collected. Run its recipe without --until"):
        export(run_copy, "hf", output=tmp_path / "x")


def end_before(run: Path, phase: str, *written: str) -> None:
    """Make of a finished run what `--until` leaves: no later phase in the manifest, and not what they write."""
    manifest = json.loads((run / "manifest.json").read_text())
    names = list(manifest["stages"])
    kept = {name: manifest["stages"][name] for name in names[: names.index(phase)]}
    (run / "manifest.json").write_text(json.dumps(manifest | {"stages": kept}))
    for name in written:
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()


def test_a_run_without_tokens_or_mixture(run_copy: Path, tmp_path: Path) -> None:
    """What was not reached is to be run on; what the recipe does not ask for is to be added; what was lost is named."""
    recipe = (run_copy / "recipe.yaml").read_text()
    (run_copy / "mixture.json").unlink()
    with pytest.raises(InputError, match=r"mixture.json: is absent. Run the recipe again"):
        export(run_copy, "npy", output=tmp_path / "x", order="mixture")
    end_before(run_copy, "mix")
    with pytest.raises(UsageError, match=r"ended before the phase mix.* Run its recipe on, without --until"):
        export(run_copy, "npy", output=tmp_path / "x", order="mixture")
    (run_copy / "recipe.yaml").write_text(re.sub(r"(?ms)^mixture:\n.*?(?=^\w|\Z)", "", recipe))
    with pytest.raises(UsageError, match=r"no mixture.json. Add `mixture`"):
        export(run_copy, "npy", output=tmp_path / "x", order="mixture")
    end_before(run_copy, "arrange", "tokens")
    for name in ("megatron", "npy", "nanotron"):
        with pytest.raises(UsageError, match=r"ended before the phase arrange.* Run its recipe on, .* parquet or hf"):
            export(run_copy, name, output=tmp_path / "x")
    (run_copy / "recipe.yaml").write_text(re.sub(r"(?ms)^(mixture|tokenizer):\n.*?(?=^\w|\Z)", "", recipe))
    manifest = json.loads((run_copy / "manifest.json").read_text())
    (run_copy / "manifest.json").write_text(json.dumps({k: v for k, v in manifest.items() if k != "tokenizer"}))
    with pytest.raises(UsageError, match=r"no tokens.* Add `tokenizer` to the recipe .* --format parquet or hf"):
        export(run_copy, "megatron", output=tmp_path / "x")
    assert export(run_copy, "parquet", output=tmp_path / "x", quiet=True).documents == 109


def test_nothing_to_export(run_folder: Path, tmp_path: Path) -> None:
    for name in ("npy", "hf"):
        with pytest.raises(
            UsageError, match="there is no document in the splits validation of more; nothing was written"
        ):
            export(run_folder, name, output=tmp_path / "x", sources=["more"], split="validation")
    assert list(tmp_path.iterdir()) == []


def test_output_that_holds_something(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"is not empty \(mine.txt\). Remove it, or name another folder"):
        export(run_folder, "npy", output=tmp_path / "full")
    with pytest.raises(UsageError, match="is a file"):
        export(run_folder, "npy", output=tmp_path / "full" / "mine.txt")
    (tmp_path / "x.unfinished").mkdir()
    (tmp_path / "x.unfinished" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"x.unfinished: is not the beginning of an export"):
        export(run_folder, "npy", output=tmp_path / "x")
    assert (tmp_path / "x.unfinished" / "mine.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert export(run_folder, "npy", output=tmp_path / "empty", quiet=True).output == tmp_path / "empty"


def test_the_command(run_folder: Path, tmp_path: Path) -> None:
    done = machine.command("export", run_folder, "--format", "parquet", "--source", "more", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 documents in exports/run-parquet; read exports/run-parquet/CARD.md first." in done.stdout
    assert (tmp_path / "exports/run-parquet/train/more/00000.parquet").is_file()
    again = machine.command("export", run_folder, "--format", "parquet", cwd=tmp_path)
    assert again.returncode == 2
    assert again.stderr.startswith("curate: --output exports/run-parquet: is not empty")
