"""Tasks over worker processes of this machine. A dead worker costs a retry, never the run and never a document in silence.

First death in a task: it is repeated carefully, row by row. Two careful deaths at the same row: that document is
quarantined (remembered in the cache) and the task goes on without it. Deaths that name no row fail the run after
three attempts.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from curate.cache import Cache
from curate.errors import CurateError, StageError
from curate.plan import Task

_ATTEMPTS = 3

# How long a worker waits for the next run of this process, which then saves its imports (2 to 3 CPU seconds each): worth it where
# one process makes many runs. 0: workers end with their run.
spare_seconds = 0.0
_spare: list[_Worker] = []


@dataclass(frozen=True, slots=True)
class TaskDone:
    """What the executor tells about a finished task."""

    task: Task
    seconds: float
    peak_bytes: int


@dataclass(slots=True)
class _Attempts:
    deaths: int = 0
    culprits: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    unnamed: int = 0


class _Worker:
    """One worker process and the connection to it."""

    def __init__(self, setup: Mapping[str, Any], temporary: Path) -> None:
        self.kind = _kind(setup)
        ours, theirs = socket.socketpair()
        environment = dict(os.environ)
        environment.setdefault("OMP_NUM_THREADS", "1")  # one worker, one core: the pool is the parallelism
        environment.setdefault("OPENBLAS_NUM_THREADS", "1")
        environment.setdefault("POLARS_MAX_THREADS", "1")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "curate.execute.worker", str(theirs.fileno()), str(os.getpid())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
        theirs.close()
        self.connection = Connection(ours.detach())
        self.task: Task | None = None
        self.join(setup, temporary)

    @classmethod
    def of(cls, setup: Mapping[str, Any], temporary: Path) -> _Worker:
        """Return a worker for a run: one that waits and would be started the same way, or a new one."""
        kind = _kind(setup)
        for worker in [one for one in _spare if one.kind == kind]:
            _spare.remove(worker)
            try:
                worker.join(setup, temporary)
            except OSError:  # it has waited too long
                worker.stop()
            else:
                return worker
        return cls(setup, temporary)

    def join(self, setup: Mapping[str, Any], temporary: Path) -> None:
        """Take part in a run."""
        self.marker = temporary / f"marker-{uuid.uuid4().hex[:8]}"
        self.marker.write_text("")
        self.connection.send({**setup, "marker": str(self.marker)})

    def leave(self) -> None:
        """End with the run, or wait for another one."""
        if not spare_seconds or self.kind is None:
            self.stop()
            return
        with contextlib.suppress(OSError):
            self.connection.send(spare_seconds)
            self.marker.unlink(missing_ok=True)
            _spare.append(self)

    def start(self, task: Task, missing: tuple[str, ...], *, careful: bool) -> None:
        self.task = task
        self.connection.send((task, missing, careful))

    def stop(self) -> None:
        self.connection.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.marker.unlink(missing_ok=True)


def _kind(setup: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return what a process is given at its start; None if it loads code of the user's, which may be other code next time."""
    if setup["modules"]:
        return None
    limits = tuple(resource.getrlimit(one) for one in (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE))
    return tuple(os.environ.items()), tuple(setup["path"]), Path.cwd(), limits


@atexit.register
def _end_spare() -> None:
    while _spare:
        _spare.pop().stop()


class LocalExecutor:
    """A pool of worker processes, kept for the whole run.

    Args:
        cache: The store of results.
        workers: Number of processes.
        memory: Bytes for the buffers of one whole-corpus task.
        modules: Plug-in modules to load in each worker: name to file.
        seconds_per_row: CPU limit for one document in one stage.
    """

    def __init__(
        self,
        cache: Cache,
        *,
        workers: int,
        memory: int,
        modules: Mapping[str, str] | None = None,
        seconds_per_row: float = 60.0,
    ) -> None:
        self._cache = cache
        self._limit = workers
        self._setup = {
            "path": list(sys.path),
            "modules": dict(modules or {}),
            "cache": str(cache.root),
            "temporary": str(cache.temporary),
            "memory": memory,
            "seconds_per_row": seconds_per_row,
        }
        self._idle: list[_Worker] = []

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers, or let them wait for the next run."""
        while self._idle:
            self._idle.pop().leave()
        while len(_spare) > self._limit:
            _spare.pop(0).stop()

    def run(self, tasks: Sequence[Task], done: Callable[[TaskDone], None]) -> None:
        """Run the tasks in order of the list, as many at once as there are workers; raise the first failure.

        Args:
            tasks: Independent of each other.
            done: Called in this process after each task.
        """
        waiting = deque(tasks)
        attempts: dict[int, _Attempts] = {}
        busy: dict[Connection, _Worker] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self._limit:
                    worker = self._idle.pop() if self._idle else _Worker.of(self._setup, self._cache.temporary)
                    task = waiting.popleft()
                    try:
                        worker.start(task, task.missing(self._cache), careful=id(task) in attempts)
                    except (BrokenPipeError, OSError):  # died while idle: nothing of the task was begun
                        worker.stop()
                        waiting.appendleft(task)
                        continue
                    busy[worker.connection] = worker
                for connection in wait(list(busy)):
                    assert isinstance(connection, Connection)
                    worker = busy.pop(connection)
                    assert worker.task is not None
                    task = worker.task
                    try:
                        answer = connection.recv()
                    except (EOFError, OSError):
                        self._buried(worker, task, attempts.setdefault(id(task), _Attempts()))
                        waiting.appendleft(task)
                        continue
                    worker.task = None
                    self._idle.append(worker)
                    if answer[0] == "failed":
                        self._fail(task, answer[1], answer[2])
                    lacking = task.missing(self._cache)
                    if lacking:
                        raise StageError(
                            task.source, task.phase, task.shard, f"results {lacking} were not written.", "Report it."
                        )
                    done(TaskDone(task, answer[1], answer[2]))
        finally:
            for worker in busy.values():
                worker.stop()

    @staticmethod
    def _fail(task: Task, error: Exception, trace: str) -> None:
        if isinstance(error, CurateError):
            raise error
        if isinstance(error, OSError) and error.errno is not None:
            place = error.filename or task.shard
            raise StageError(
                task.source,
                task.phase,
                str(place),
                f"{error.strerror}.",
                "Free or repair it and run again: what is finished stays.",
            ) from error
        raise StageError(
            task.source,
            task.phase,
            task.shard,
            f"{type(error).__name__}: {error}\n{trace}",
            "This is a fault of the program, not of the data: report it with the recipe.",
        ) from error

    def _buried(self, worker: _Worker, task: Task, attempts: _Attempts) -> None:
        """Account for a dead worker: decide between retry, quarantine and failure."""
        worker.process.wait()
        code = worker.process.returncode
        mark = worker.marker.read_text().split("\t")
        worker.stop()
        attempts.deaths += 1
        cause = "used too much CPU time" if code == -signal.SIGPROF else f"killed its worker (exit {code})"
        if len(mark) == 3:
            stage, stage_key, document = mark
            attempts.culprits[stage, stage_key, document] += 1
            if attempts.culprits[stage, stage_key, document] >= 2:
                self._cache.quarantine(stage_key, document, f"{stage}: {cause}")
                attempts.deaths = 1
            return
        attempts.unnamed += 1
        if attempts.unnamed >= _ATTEMPTS:
            raise StageError(
                task.source,
                task.phase,
                task.shard,
                f"the worker died {attempts.unnamed} times ({cause}) outside of any one document.",
                "Give the machine more memory, or lower --memory or --workers.",
            )
