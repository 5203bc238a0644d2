"""When a run ends before its end: signals, the time limit, and a folder that is taken."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from train.config import TrainError

DONE = 0
SAVED = 85  # saved, and wants to be started again
INTERRUPTED = 130


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


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make and hold the folder: two trainers in one would cut each other's log. The lock goes with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise TrainError(f"{folder}: another trainer works here. Wait for it, or choose another output.") from error
    try:
        yield
    finally:
        os.close(handle)
