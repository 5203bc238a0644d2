"""Checkpoints: whole or not at all, verified on load, never pickle.

    checkpoints/step_00000120/
      model.safetensors, optimizer.safetensors
      state.json       {"state": {...}, "files": {name: {bytes, sha256}}, "sha256": of the two before}

All is written under `step_00000120.tmp`, fsynced, and renamed. A checkpoint that fails its digests is put aside as
`step_00000120.damaged`, named, and the one before it is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from train.config import TrainError
from train.distributed import Ranks, Tensors, gathered

STATE = "state.json"
_NAME = re.compile(r"step_(\d{8,})")


class DamagedError(TrainError):
    """A checkpoint whose bytes are not those that were written."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(file, problem)
        self.file = file
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that has been read and verified.

    Attributes:
        path: Its folder.
        step: Updates done.
        state: What `save` was given.
        tensors: By file name without ending, then by tensor name; on the CPU.
    """

    path: Path
    step: int
    state: Mapping[str, Any]
    tensors: Mapping[str, dict[str, Tensor]]


def save(
    folder: Path,
    step: int,
    *,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
    keep_last: int,
    keep: Collection[int] = (),
    keep_every: int | None = None,
    keep_before: int | None = None,
) -> Path:
    """Write a checkpoint, remove those that need not stay, and return its folder.

    There stay the newest `keep_last`, the steps `keep`, the multiples of `keep_every`, and the newest before step `keep_before`.
    A checkpoint of this step that is there already is left as it is: it was verified, or written by this run.

    Raises:
        TrainError: If it cannot be written, say on a full disk. Those before stay as they are.
    """
    target = folder / f"step_{step:08d}"
    if not target.exists():
        temporary = target.with_suffix(".tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            _write(temporary, tensors, {"step": step, **state})
            temporary.rename(target)
            sync(folder)
        except (OSError, safetensors.SafetensorError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise TrainError(
                f"{target}: cannot be written ({error}). Free the disk and start again to go on from the checkpoint before."
            ) from error
    listed = _listed(folder)
    kept = {other for other, _ in listed[-keep_last:]} | set(keep)
    if keep_every is not None:
        kept |= {other for other, _ in listed if other % keep_every == 0}
    if keep_before is not None:
        kept |= {max((other for other, _ in listed if other < keep_before), default=step)}
    for _, old in (one for one in listed if one[0] not in kept):
        doomed = old.with_suffix(".old")  # renamed first: a kill in between leaves no half checkpoint
        old.rename(doomed)
        shutil.rmtree(doomed)
    return target


def _write(folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> None:
    files = {}
    for name, group in tensors.items():
        path = folder / f"{name}.safetensors"
        safetensors.torch.save_file({key: value.detach().cpu().contiguous() for key, value in group.items()}, path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": _digest(path)}
        sync(path)
    body = {"state": state, "files": files}
    (folder / STATE).write_text(json.dumps(body | {"sha256": _body_digest(body)}, indent=1), encoding="utf-8")
    sync(folder / STATE)
    sync(folder)


def load_newest(folder: Path, *, warn: Callable[[str], None], before: int | None = None) -> Checkpoint | None:
    """Return the newest undamaged checkpoint, if `before` is given of a step before that, or None if none was ever written.

    Damaged ones are named through `warn` and put aside; leftovers of interrupted saves are removed.

    Raises:
        TrainError: If there are checkpoints and all of them are damaged.
    """
    if not folder.is_dir():
        return None
    for leftover in (*folder.glob("step_*.tmp"), *folder.glob("step_*.old")):
        shutil.rmtree(leftover)
    listed = [(step, path) for step, path in _listed(folder) if before is None or step < before]
    for _, path in reversed(listed):
        try:
            return load(path)
        except DamagedError as error:
            aside = path.with_suffix(".damaged")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            warn(f"{error} Put aside as {aside.name}.")
    if listed:
        raise TrainError(
            f"{folder}: all {len(listed)} checkpoints are damaged. Delete the folder to train from the start, or restore one."
        )
    return None


def resume(folder: Path, ranks: Ranks, *, warn: Callable[[str], None], before: int | None = None) -> Checkpoint | None:
    """Return on all ranks what `load_newest` returns on rank 0."""
    saved = load_newest(folder, warn=warn, before=before) if ranks.first else None
    found = ranks.told(None if saved is None else (saved.path, saved.step, saved.state))
    return None if found is None else Checkpoint(*found, ranks.told_tensors({} if saved is None else saved.tensors))


class Store:
    """The checkpoints of a run: rank 0 writes them, all ranks read them. On a GPU training goes on while the disk is busy."""

    def __init__(self, folder: Path, ranks: Ranks, *, beside: bool, warn: Callable[[str], None]) -> None:
        """Take the folder.

        Args:
            folder: Where they are.
            ranks: All of them call each method.
            beside: Whether `save` returns as soon as the tensors are in the host's memory.
            warn: Is told of damaged ones.
        """
        self._warn = warn
        self._folder = folder
        self._ranks = ranks
        self._pool = ThreadPoolExecutor(1) if beside else None
        self._unfinished: Future[Path] | None = None

    def save(self, step: int, tensors: Tensors, **rest: Any) -> None:
        """Write a checkpoint; the arguments are those of the function `save`, the tensors may be parts.

        Raises:
            TrainError: If a weight is not finite, or this checkpoint or the one before it cannot be written.
        """
        whole = gathered(tensors, self._ranks)
        bad = self._ranks.told([name for name, weight in whole["model"].items() if not weight.isfinite().all()])
        if bad:
            raise TrainError(
                f"step {step}: {bad[0]} holds values that are not finite; this step is not saved. Lower `lr`."
            )
        self.wait()
        if not self._ranks.first:
            return
        if self._pool is None:
            save(self._folder, step, tensors=whole, **rest)
        else:
            self._unfinished = self._pool.submit(save, self._folder, step, tensors=whole, **rest)

    def newest(self, *, before: int | None = None) -> Checkpoint | None:
        """Return what `resume` returns, when all checkpoints are there."""
        self.wait()
        return resume(self._folder, self._ranks, warn=self._warn, before=before)

    def wait(self) -> None:
        """Return when the last checkpoint is there.

        Raises:
            TrainError: If it cannot be written.
        """
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            unfinished.result()

    def close(self) -> None:
        """Wait for the last checkpoint, and save no more."""
        try:
            self.wait()
        finally:
            if self._pool is not None:
                self._pool.shutdown()


def find(folder: Path, *, warn: Callable[[str], None]) -> Checkpoint:
    """Return the checkpoint in a folder, or the newest undamaged one of a run's folder; changes nothing there.

    Only its weights are read and verified, a third of it: a copy may lack the optimizer's state.

    Raises:
        TrainError: If there is none, or all are damaged.
    """
    if (folder / STATE).exists():
        return load(folder, only="model")
    listed = _listed(folder / "checkpoints") if (folder / "checkpoints").is_dir() else []
    for _, path in reversed(listed):
        try:
            return load(path, only="model")
        except DamagedError as error:
            warn(str(error))
    what = "all its checkpoints are damaged" if listed else "holds no checkpoint"
    runs = sorted(path.parent for path in folder.glob("train/*/checkpoints"))
    wanted = f"the folder of a run, such as {runs[0]}" if runs else "the folder of a run, or of one of its checkpoints"
    raise TrainError(f"{folder}: {what}. Name {wanted}.")


def load(path: Path, *, only: str | None = None) -> Checkpoint:
    """Read and verify one checkpoint, or `only` one group of its tensors.

    Raises:
        DamagedError: Names the file, and what it has against what it should have.
    """
    try:
        body = json.loads((path / STATE).read_text(encoding="utf-8"))
        digest = body.pop("sha256")
        files, state, step = body["files"], body["state"], body["state"]["step"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(str(path / STATE), f"cannot be read ({type(error).__name__}: {error}).") from error
    if digest != _body_digest(body):
        raise DamagedError(str(path / STATE), "its content does not match its own sha256.")
    tensors = {}
    for name, wanted in files.items():
        file = path / name
        if only not in (None, file.stem):
            continue
        size = file.stat().st_size if file.exists() else None
        if size != wanted["bytes"]:
            found = "is missing" if size is None else f"has {size} bytes"
            raise DamagedError(str(file), f"{found}, was written with {wanted['bytes']} bytes.")
        if _digest(file) != wanted["sha256"]:
            raise DamagedError(str(file), f"its sha256 is not the {wanted['sha256']} it was written with.")
        tensors[file.stem] = safetensors.torch.load_file(file)
    return Checkpoint(path, step, state, tensors)


def sync(path: Path) -> None:
    """Make a file or folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value: object) -> None:
    """Write a JSON file whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)


def _listed(folder: Path) -> list[tuple[int, Path]]:
    found = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in found if match)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _body_digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
