"""The folder of an export: whole or not at all, and taken up again where a killed one stopped.

Files are written into `<output>.unfinished`; each finished task is a line in a journal there, written after its files are
on disk. At the end the folder gets its name. Run again, the same export goes on behind the last line of the journal; a
journal of another export is begun anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.cache import reached, sha256_file, sync_folder
from curate.errors import CurateError, FolderInUseError, UsageError

ENDING = ".unfinished"
_JOURNAL = ".journal.jsonl"
_LOCK = ".lock"
MANIFEST = "export.json"  # the last task's: what lies in the folder


@dataclass(frozen=True, slots=True)
class Task:
    """Some files of an export that are written together.

    Attributes:
        name: Of the task; distinct in an export.
        files: What it writes, relative to the export's folder.
        write: Called with the folder; writes the files and returns what it counted, JSON values.
    """

    name: str
    files: tuple[str, ...]
    write: Callable[[Path], Mapping[str, Any]]


def local_path(output: str | Path) -> Path:
    """Return the path of an output folder.

    Raises:
        UsageError: If it is an address: a folder on an object store cannot appear whole or not at all.
    """
    if "://" in str(output):
        raise UsageError(f"--output {output}: exports are written to local folders. Name one, then copy it there.")
    return Path(output)


def check_target(target: Path) -> None:
    """Refuse an output that is no new or empty folder.

    Raises:
        UsageError: With the remedy.
    """
    if not target.name:
        raise UsageError(f"--output {target}: name a folder.")
    if target.is_dir():
        present = sorted(path.name for path in target.iterdir())
        if present:
            shown = ", ".join(present[:4]) + (", ..." if len(present) > 4 else "")
            raise UsageError(f"--output {target}: is not empty ({shown}). Remove it, or name another folder.")
    elif target.exists() or target.is_symlink():
        raise UsageError(f"--output {target}: is a file. Name another folder.")


class Unfinished:
    """A folder on its way to be an export.

    Attributes:
        path: Where it is written.
        facts: What the finished tasks counted, by name.
        files: Bytes and sha256 of each file as written, by path.
        resumed: Tasks that an earlier, interrupted call finished.
    """

    def __init__(self, target: Path, key: str) -> None:
        self._target = target
        self._key = key
        self.path = target.with_name(target.name + ENDING)
        self.facts: dict[str, Mapping[str, Any]] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.resumed = 0

    @classmethod
    @contextmanager
    def opened(cls, target: Path, key: str) -> Iterator[Unfinished]:
        """Hold the unfinished folder of `target`, with what an interrupted call of the same export left in it.

        Args:
            target: The folder to be; see `check_target`.
            key: Of all that shapes the export's bytes.

        Raises:
            UsageError: If what stands in its place is not ours.
            FolderInUseError: If another process writes it.
            CurateError: If the folder cannot be written.
        """
        folder = cls(target, key)
        with folder._locked():
            folder._take_up()
            yield folder

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            ours = any((self.path / name).is_file() for name in (_JOURNAL, _LOCK, MANIFEST))
            if self.path.exists() and not ours and any(self.path.iterdir()):
                raise UsageError(
                    f"{self.path}: is not the beginning of an export. Remove it, or name another --output."
                )
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise CurateError(f"{self.path}: cannot be written: {error.strerror}. Choose another --output.") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ours = os.fstat(handle).st_ino == (self.path / _LOCK).stat().st_ino
            except (BlockingIOError, FileNotFoundError):
                ours = False
            if not ours:
                raise FolderInUseError(str(self.path), "another export")
            yield
        finally:
            os.close(handle)

    def _take_up(self) -> None:
        """Read the journal; begin anew if it is of another export, or there is none."""
        journal = self.path / _JOURNAL
        lines = journal.read_bytes().split(b"\n")[:-1] if journal.is_file() else []  # a last line that was cut is none
        entries = [json.loads(line) for line in lines]
        if not entries or entries[0] != {"key": self._key}:
            for path in self.path.iterdir():
                if path.name != _LOCK:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            self._note({"key": self._key})
            return
        with journal.open("r+b") as file:  # cut the rest of a line off, or the next one would be behind it
            file.truncate(journal.read_bytes().rfind(b"\n") + 1)
        for entry in entries[1:]:
            self.facts[entry["task"]] = entry["facts"]
            self.files |= entry["files"]

    def _note(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
        with (self.path / _JOURNAL).open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.path)

    def perform(self, task: Task) -> None:
        """Write a task's files, unless an earlier call did and they are still there."""
        if task.name in self.facts and all(self._is_here(name) for name in task.files):
            self.resumed += 1
            return
        reached("before_write")
        paths = [self.path / name for name in task.files]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        facts = task.write(self.path)
        reached("after_write")
        files = {}
        for name, path in zip(task.files, paths, strict=True):
            with path.open("rb") as file:
                os.fsync(file.fileno())
            files[name] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        for folder in {path.parent for path in paths}:
            sync_folder(folder)
        reached("after_fsync")
        self._note({"task": task.name, "facts": facts, "files": files})
        self.facts[task.name] = facts
        self.files |= files
        reached("after_entry")

    def _is_here(self, name: str) -> bool:
        path = self.path / name
        return name in self.files and path.is_file() and path.stat().st_size == self.files[name]["bytes"]

    def finish(self, tasks: Sequence[Task]) -> None:
        """Remove what no task wrote and give the folder its name."""
        check_target(self._target)  # it was free at the start; nothing is replaced that came since
        marks = {_JOURNAL, _LOCK}
        expected = {name for task in tasks for name in task.files} | marks
        for path in sorted(self.path.rglob("*"), reverse=True):
            if path.is_dir():
                if not any(path.iterdir()):
                    path.rmdir()
            elif str(path.relative_to(self.path)) not in expected:
                path.unlink()
        for name in marks:
            (self.path / name).unlink()
        reached("before_rename")
        try:
            self.path.rename(self._target)
        except OSError as error:
            raise CurateError(
                f"{self._target}: cannot be named: {error.strerror}. The export lies whole in {self.path}."
            ) from error
        sync_folder(self._target.parent)
        reached("after_rename")
