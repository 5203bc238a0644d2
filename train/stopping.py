"""When a run ends before its end: signals, the time limit, and a folder that is taken."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from train.config import ConfigError, TrainError

DONE = 0
SAVED = 85  # saved, and wants to be started again
INTERRUPTED = 130

# What may lie in the output of a new run: what a run, a range check or curate write there. Logs (*.log) may too.
_OURS = frozenset(
    {"checkpoints", "resolved.json", "metrics.jsonl", "timings.jsonl", "summary.json", "lr_range.json", "config.json",
     "data.json", "log.txt"}
)  # fmt: skip
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO})  # of a file that was open


class StopRequest:
    """Turns signals and the time limit into a wish to stop at the next step boundary.

    SIGTERM and SIGUSR1 (sent by schedulers) and the time limit mean: save and ask to be started again. Ctrl-C means: save and
    leave; a second one leaves at once.
    """

    def __init__(self, max_minutes: float | None) -> None:
        self._deadline = None if max_minutes is None else time.monotonic() + 60 * max_minutes
        self._code: int | None = None

    @property
    def code(self) -> int | None:
        """Return the exit code that is wanted, or None to go on."""
        if self._code is None and self._deadline is not None and time.monotonic() >= self._deadline:
            return SAVED
        return self._code

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside of the block."""
        wanted = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
        before = {number: signal.signal(number, self._receive) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGINT:
            if self._code == INTERRUPTED:
                raise KeyboardInterrupt
            self._code = INTERRUPTED
        else:
            self._code = SAVED


def check_output(folder: Path, config: Path) -> None:
    """Refuse an output that holds anything else than a training run, or is no folder.

    Args:
        folder: The output; need not be there.
        config: The config file, which may lie in it.

    Raises:
        ConfigError: Names what it holds.
    """
    with _written_to(folder, ConfigError):
        names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if "manifest.json" in names:
        raise ConfigError(
            f"{folder}: holds a manifest.json: it is the folder of a curate run, or of token shards. Set `output` to another, such "
            f"as {folder / 'train' / '0'}."
        )
    here = config.name if config.resolve().parent == folder.resolve() else ""
    foreign = [name for name in names if not name.startswith(".") and not name.endswith(".log")]
    if foreign and not {name.removesuffix(".tmp") for name in foreign} & (_OURS | {here}):
        shown = ", ".join(foreign[:4]) + (", ..." if len(foreign) > 4 else "")
        raise ConfigError(
            f"{folder}: holds no training run, but other files ({shown}). Set `output` to a new or empty folder."
        )


def check_writable(folder: Path) -> None:
    """Refuse an output that cannot be made or written, by a folder that is made in it and removed.

    Raises:
        ConfigError: With the system's reason.
    """
    with _written_to(folder, ConfigError):
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        tempfile.TemporaryDirectory(prefix=".check-", dir=there).cleanup()


@contextlib.contextmanager
def locked(folder: Path, config: Path) -> Iterator[None]:
    """Make and hold the folder: two trainers in one would cut each other's log. The lock goes with the process.

    Args:
        folder: The output of a run.
        config: Its config file.

    Raises:
        ConfigError: If it cannot be made, or holds anything else than a training run.
        TrainError: If another trainer holds it, or it cannot be written while it is held.
    """
    check_output(folder, config)
    with _written_to(folder, ConfigError):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise TrainError(f"{folder}: another trainer works here. Wait for it, or choose another output.") from error
    try:
        with _written_to(folder, TrainError):
            yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _written_to(folder: Path, kind: type[TrainError]) -> Iterator[None]:
    """Say in one line that an output cannot be written, if that is what the system says."""
    try:
        yield
    except OSError as error:
        named = isinstance(error.filename, str | Path) and Path(error.filename).is_relative_to(folder)
        if kind is TrainError and not named and error.errno not in _FULL:
            raise
        place = error.filename if named else folder
        raise kind(
            f"{place}: cannot be written ({error.strerror or error}). Free the disk or its rights, or choose another `output`; what "
            "was written before stays."
        ) from error
