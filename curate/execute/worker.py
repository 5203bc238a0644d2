"""A worker process: takes tasks from a connection, runs them, answers. Started by `curate.execute.local`.

It is started as `python -m curate.execute.worker FD`, not by multiprocessing, so that a user's script or notebook is never
imported a second time. It ends when the connection closes or its parent is gone.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from curate.cache import Cache
from curate.errors import CurateError
from curate.plan import Guard, Task, TaskContext


def _leave_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)  # killed -9, say: an orphan must not go on writing


def _peak_bytes() -> int:
    """Return the peak of this process's resident memory."""
    with contextlib.suppress(OSError, StopIteration):  # Linux counts the parent's memory at the fork into ru_maxrss
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return CurateError(f"{type(error).__name__}: {error}")
    return error


def _join(setup: dict[str, Any]) -> tuple[Cache, Path]:
    """Make ready for the tasks of a run; return its cache and the file that names the document at work."""
    with contextlib.suppress(OSError):  # each run has a peak of its own
        Path("/proc/self/clear_refs").write_text("5")
    sys.path[:] = setup["path"]
    for name, file in setup["modules"].items():
        from curate.plugin import load_module

        load_module(name, Path(file))
    return Cache(Path(setup["cache"]), Path(setup["temporary"])), Path(setup["marker"])


def serve(connection: Connection) -> None:
    """Run tasks until the connection closes.

    A mapping tells what run they belong to, a number how many seconds to wait for the next one.
    """
    while True:
        try:
            message = connection.recv()
            if isinstance(message, float):
                if not connection.poll(message):
                    return
                continue
        except (EOFError, OSError):
            return
        if isinstance(message, dict):
            setup, cache, marker = message, *_join(message)
            continue
        task, missing, careful = message
        started = time.perf_counter()
        answer: tuple[Any, ...]
        try:
            assert isinstance(task, Task)
            guard = Guard(marker, careful=careful, seconds_per_row=setup["seconds_per_row"])
            task.function(TaskContext(cache, setup["memory"], frozenset(missing), guard), *task.arguments)
            answer = ("done", time.perf_counter() - started, _peak_bytes())
        except CurateError as error:
            answer = ("failed", _picklable(error), "")
        except Exception as error:
            import traceback

            answer = ("failed", _picklable(error), traceback.format_exc())
        try:
            connection.send(answer)
        except (BrokenPipeError, OSError):
            return


def main() -> None:
    """Entry point of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_leave_with_parent, args=(int(sys.argv[2]),), daemon=True).start()
    serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
