"""What the user sees while a run works: bars on a terminal, plain lines otherwise, nothing with --quiet."""

from __future__ import annotations

import sys
import time
from typing import IO, Protocol


class Progress(Protocol):
    """Told what happens; shows it or not."""

    def phase(self, name: str, tasks: int, reused: int) -> None:
        """Begin a phase (or a further wave of it) with so many tasks to run; `reused` are done already."""

    def task(self, label: str) -> None:
        """One task is done."""

    def done(self, name: str, seconds: float, detail: str) -> None:
        """A phase is finished."""

    def note(self, text: str) -> None:
        """Something the user should know."""

    def close(self) -> None:
        """Nothing more comes."""


class Silent:
    """Shows warnings alone."""

    def phase(self, name: str, tasks: int, reused: int) -> None:
        """Show nothing."""

    def task(self, label: str) -> None:
        """Show nothing."""

    def done(self, name: str, seconds: float, detail: str) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show the note."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Do nothing."""


class Lines:
    """One line a phase, and one every ten seconds within it."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._name, self._tasks, self._finished, self._reused = "", 0, 0, 0
        self._last = time.monotonic()

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def phase(self, name: str, tasks: int, reused: int) -> None:
        """Begin a phase."""
        if name != self._name:
            self._name, self._tasks, self._finished, self._reused = name, 0, 0, 0
        self._tasks += tasks
        self._reused += reused

    def task(self, label: str) -> None:
        """Count a task; say so every ten seconds."""
        self._finished += 1
        if time.monotonic() - self._last > 10:
            self._last = time.monotonic()
            self._print(f"{self._name:<14} {self._finished}/{self._tasks} tasks, last: {label}")

    def done(self, name: str, seconds: float, detail: str) -> None:
        """Say what a phase came to."""
        if name != self._name:
            self.phase(name, 0, 0)
        work = f"{self._tasks + self._reused} tasks" + (f", {self._reused} reused" if self._reused else "")
        self._print(f"{name:<14} {seconds:7.1f} s  {work:<24} {detail}".rstrip())
        self._last = time.monotonic()

    def note(self, text: str) -> None:
        """Show the note."""
        self._print(text)

    def close(self) -> None:
        """Do nothing."""


class Bars:
    """A bar for the phase at work; finished phases stay as lines above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._progress = RichProgress(
            TextColumn("{task.description:<14}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[last]}", markup=True),
            console=Console(stderr=True),
            transient=True,
        )
        self._progress.start()
        self._bar: int | None = None
        self._name = ""
        self._work = [0, 0]

    def phase(self, name: str, tasks: int, reused: int) -> None:
        """Begin or extend a bar."""
        if name != self._name:
            self._name, self._work = name, [0, 0]
            if self._bar is not None:
                self._progress.remove_task(self._bar)  # type: ignore[arg-type]
            self._bar = int(self._progress.add_task(name, total=0, last=""))
        self._work[0] += tasks
        self._work[1] += reused
        self._progress.update(self._bar, total=self._work[0])  # type: ignore[arg-type]

    def task(self, label: str) -> None:
        """Advance the bar."""
        from rich.markup import escape

        self._progress.update(self._bar, advance=1, last=escape(label))  # type: ignore[arg-type]

    def done(self, name: str, seconds: float, detail: str) -> None:
        """Leave a line about the phase."""
        if name != self._name:
            self.phase(name, 0, 0)
        reused = f", {self._work[1]} reused" if self._work[1] else ""
        line = f"{name:<14} {seconds:7.1f} s  {sum(self._work)} tasks{reused}  {detail}"
        self._progress.console.print(line, markup=False, highlight=False)

    def note(self, text: str) -> None:
        """Show the note above the bar."""
        self._progress.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()


def make_progress(*, quiet: bool) -> Progress:
    """Return what fits the place: silent, bars on a terminal, or lines."""
    if quiet:
        return Silent()
    return Bars() if sys.stderr.isatty() else Lines(sys.stderr)
