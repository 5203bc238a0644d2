"""Content keys, results by key, and what is safe to reuse.

A result is a folder `entries/<two digits>/<key>/` with read-only files and, written last, `entry.json`: a folder without
an entry never happened. The key holds everything that shapes the result (settings, code version, library versions,
model and input digests, upstream keys), so a result under its key is right wherever it came from.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from curate.errors import CurateError, InputError
from curate.stage import Stage, canonical

_CHUNK = 1 << 20


def reached(point: str) -> None:
    """Mark a commit point. Does nothing; the crash tests replace it to kill the process right there.

    Args:
        point: before_write, after_write, after_fsync, after_rename or after_entry.
    """
    del point


def key_of(**parts: Any) -> str:
    """Return the content key of a result: 32 hex digits over the canonical JSON of its parts."""
    text = json.dumps(canonical(parts), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def stage_key(stage: Stage | None) -> str:
    """Return the key of a stage: its settings (not its bounds), code version, libraries' versions and model."""
    if stage is None:
        return "none"
    digest = stage.model_digest()
    left_out = {*stage.decides, *(stage.files if digest else ())}  # a file counts by its content, not by its path
    settings = {name: getattr(stage, name) for name in type(stage).model_fields if name not in left_out}
    return key_of(
        stage=type(stage).__module__ + "." + type(stage).__qualname__,
        settings=settings,
        version=stage.version,
        libraries={name: importlib.metadata.version(name) for name in stage.libraries},
        model=digest,
    )


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, value: Any, *, indent: int | None = 2) -> None:
    """Write a JSON file whole or not at all."""
    write_bytes(
        path,
        (json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", "surrogatepass"),
    )


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: temporary name, fsync, rename."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def stamp_of(path: Path) -> str:
    """Return what changes when a file's content does: size, both times, inode. A restored modification time fools nobody."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a rename survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished result: its files and what was counted while it was made."""

    key: str
    folder: Path
    files: Mapping[str, Mapping[str, Any]]  # name -> bytes, mtime_ns, sha256
    counts: Mapping[str, Any]  # whatever the task states about itself; JSON values

    def path(self, name: str) -> Path:
        """Return the path of one of the result's files."""
        if name not in self.files:
            raise KeyError(f"result {self.key} has no file {name!r}, only {sorted(self.files)}")
        return self.folder / name


@dataclass(slots=True)
class Output:
    """A result being written. Files go to `folder`; `counts` goes into the entry."""

    key: str
    folder: Path
    counts: dict[str, Any] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """Return where to write a file of the result."""
        return self.folder / name


class Cache:
    """Results by key in a local folder."""

    def __init__(self, root: Path, temporary: Path | None = None) -> None:
        self.root = root
        self.temporary = temporary or root / "tmp" / f"{platform.node()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._checked: dict[str, Entry] = {}

    def prepare(self) -> None:
        """Make the folders, or say at once that they cannot be made; sweep away what dead runs left half done."""
        try:
            for name in ("entries", "tmp", "digests", "quarantine", "locks"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            self._sweep()
            self.temporary.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CurateError(
                f"{self.root}: the cache cannot be written: {error.strerror}. Choose another folder with --cache."
            ) from error

    def _sweep(self) -> None:
        for folder in (self.root / "tmp").iterdir():
            node, _, rest = folder.name.rpartition("-")[0].rpartition("-")
            if node != platform.node() or not rest.isdigit():
                continue  # another machine's: its processes cannot be seen from here
            try:
                os.kill(int(rest), 0)
            except ProcessLookupError:
                shutil.rmtree(folder, ignore_errors=True)
            except PermissionError:
                continue

    def close(self) -> None:
        """Remove this run's temporary folder."""
        shutil.rmtree(self.temporary, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """Hold what is done to a result's folder apart from what other runs over the same store do; a dead run holds nothing."""
        handle = os.open(self.root / "locks" / key[:2], os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _folder(self, key: str) -> Path:
        return self.root / "entries" / key[:2] / key

    def entry(self, key: str, *, recheck: bool = False) -> Entry | None:
        """Return the result under `key`, or None if it was never finished or is damaged.

        Size and time of each file are compared with the entry; where they differ, the sha256 decides. A damaged result is
        forgotten, so that its task runs again.
        """
        if not recheck and key in self._checked:
            return self._checked[key]
        folder = self._folder(key)
        try:
            stored = json.loads((folder / "entry.json").read_text())
        except (OSError, ValueError):
            return None
        for name, facts in stored["files"].items():
            if not self._intact(folder / name, facts):
                self.forget(key)
                return None
        entry = Entry(key, folder, stored["files"], stored["counts"])
        self._checked[key] = entry
        return entry

    @staticmethod
    def _intact(path: Path, facts: Mapping[str, Any]) -> bool:
        try:
            status = path.stat()
        except OSError:
            return False
        if status.st_size != facts["bytes"]:
            return False
        return bool(status.st_mtime_ns == facts["mtime_ns"] or sha256_file(path) == facts["sha256"])

    def forget(self, key: str) -> None:
        """Remove a result: its entry first, so that no moment shows a half result as whole."""
        self._checked.pop(key, None)
        folder = self._folder(key)
        with self._locked(key):
            (folder / "entry.json").unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def writing(self, key: str) -> Iterator[Output]:
        """Write the result `key`: on a clean end its files are flushed and renamed, then the entry is written.

        An exception leaves nothing behind but a temporary folder, which is removed.
        """
        temporary = self.temporary / f"{key}-{uuid.uuid4().hex[:8]}"
        temporary.mkdir(parents=True)
        output = Output(key, temporary)
        try:
            reached("before_write")
            yield output
            reached("after_write")
            self._commit(output)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _commit(self, output: Output) -> None:
        files: dict[str, dict[str, Any]] = {}
        for path in sorted(output.folder.iterdir()):
            with path.open("rb+") as file:
                os.fsync(file.fileno())
            path.chmod(0o444)
            status = path.stat()
            files[path.name] = {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256_file(path)}
        sync_folder(output.folder)
        reached("after_fsync")
        folder = self._folder(output.key)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with self._locked(output.key):
            if not (
                folder / "entry.json"
            ).exists():  # else another run did the same work meanwhile: same key, same bytes
                if folder.exists():
                    shutil.rmtree(folder)  # renamed by a run that died before its entry
                output.folder.rename(folder)
                sync_folder(folder.parent)
                reached("after_rename")
                write_json(
                    folder / "entry.json", {"key": output.key, "files": files, "counts": output.counts}, indent=None
                )
        reached("after_entry")

    def digest(self, path: Path) -> str:
        """Return the sha256 of an input file, remembered by size, times and inode.

        Raises:
            InputError: If the file changes while it is read.
        """
        before = stamp_of(path)
        note = self.root / "digests" / xxhash.xxh3_128_hexdigest(os.fsencode(path.resolve()))
        with contextlib.suppress(OSError, ValueError):
            known, _, digest = note.read_text().rpartition(" ")
            if known == before and len(digest) == 64:
                return digest
        digest = sha256_file(path)
        if stamp_of(path) != before:
            raise InputError(str(path), "it changes while it is read.", "Let its writer finish, then run again.")
        write_bytes(note, f"{before} {digest}".encode())
        return digest

    def quarantined(self, stage: str) -> dict[str, str]:
        """Return id -> cause of the documents that killed a worker in the stage with this key."""
        try:
            lines = (self.root / "quarantine" / f"{stage}.jsonl").read_text().splitlines()
        except OSError:
            return {}
        return {record["id"]: record["cause"] for record in map(json.loads, lines)}

    def quarantine(self, stage: str, document: str, cause: str) -> None:
        """Remember a document that killed a worker, for this and every later run."""
        known = self.quarantined(stage) | {document: cause}
        lines = (json.dumps({"id": name, "cause": known[name]}) for name in sorted(known))
        write_bytes(self.root / "quarantine" / f"{stage}.jsonl", "".join(line + "\n" for line in lines).encode())


def link(source: Path, target: Path) -> None:
    """Make `target` the same file as `source`: a hard link, or a copy where linking fails. Whole or not at all.

    Raises:
        CurateError: If the target cannot be written; it is named.
    """
    try:
        if target.samefile(source):
            return
    except OSError:
        pass
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
        temporary.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise CurateError(
            f"{target}: cannot be written: {error.strerror}. Free or repair it and run again: what is finished stays."
        ) from error
