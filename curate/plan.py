"""Phases as lists of tasks. A task makes one or more results; what has an entry is not done again.

A task's function gets a `TaskContext` and its arguments, all picklable. It writes each missing result through
`context.writing(key)` and reads upstream results through `context.entry(key)`.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curate.cache import Cache, Entry, Output

PHASES = (
    "extract",
    "measure",
    "decide",
    "cluster",
    "decontaminate",
    "choose",
    "collect",
    "encode",
    "arrange",
    "mix",
    "train",
    "report",
)


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of work: a shard of a source, or a step over the whole corpus.

    Attributes:
        phase: One of PHASES.
        source: Name of the source, or "" for the whole corpus.
        shard: What the user sees: a shard number, or the name of the step.
        keys: The results that it makes.
        function: A module-level function `f(context, *arguments)`.
        arguments: Picklable arguments.
    """

    phase: str
    source: str
    shard: str
    keys: tuple[str, ...]
    function: Callable[..., None]
    arguments: tuple[Any, ...] = ()

    @property
    def label(self) -> str:
        """Return the task's name for messages."""
        return f"{self.phase} {self.source or 'all sources'} {self.shard}".strip()

    def missing(self, cache: Cache) -> tuple[str, ...]:
        """Return the keys that have no sound result yet."""
        return tuple(key for key in self.keys if cache.entry(key) is None)


class Guard:
    """The last resort against documents that kill a worker: a CPU limit, and a mark that survives death.

    In the first attempt whole batches are watched. After a worker died, the task is repeated carefully: row by row, each row's
    id and stage noted in a small file before the work on it begins, so that the executor can name the culprit.

    Args:
        marker: File that tells the executor what was being worked on, or None in tests that run tasks in process.
        careful: Whether to go row by row.
        seconds_per_row: CPU seconds after which the kernel ends the worker (SIGPROF), counted for this process alone.
    """

    def __init__(self, marker: Path | None = None, *, careful: bool = False, seconds_per_row: float = 60.0) -> None:
        self.careful = careful
        self._marker = marker
        self._limit = seconds_per_row

    @contextlib.contextmanager
    def watch(self, stage: str, stage_key: str, ids: Sequence[str]) -> Iterator[None]:
        """Watch the work on these documents. The limit of a batch is that of one row plus a second a row."""
        if self._marker is None:
            yield
            return
        if self.careful:
            self._marker.write_text("\t".join((stage, stage_key, ids[0] if ids else "")))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # default action: ends the process even inside C code
        signal.setitimer(signal.ITIMER_PROF, self._limit + (len(ids) if not self.careful else 0))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            if self.careful:
                self._marker.write_text("")


@dataclass(slots=True)
class TaskContext:
    """What a task's function may use.

    Attributes:
        cache: The store of results.
        memory: Bytes for the buffers of a whole-corpus step; never changes a result.
        missing: Keys to make; others of the task exist already.
        guard: See `Guard`.
    """

    cache: Cache
    memory: int
    missing: frozenset[str]
    guard: Guard = field(default_factory=Guard)

    def entry(self, key: str) -> Entry:
        """Return an upstream result; its absence is a fault of the plan."""
        entry = self.cache.entry(key)
        assert entry is not None, f"upstream result {key} is missing"
        return entry

    def writing(self, key: str) -> contextlib.AbstractContextManager[Output]:
        """Write one result."""
        return self.cache.writing(key)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a folder for spilled data, removed afterwards."""
        folder = self.cache.temporary / f"scratch-{uuid.uuid4().hex[:8]}"
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
