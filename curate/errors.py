"""Every error that a user can meet: where, what, and what to do about it.

An exception hands all its fields to `super().__init__`, or unpickling it would break the worker pool.
"""

from __future__ import annotations

from dataclasses import dataclass


class CurateError(Exception):
    """Something that the user can act on. `exit_code` is what the command returns."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a recipe.

    Attributes:
        key: Dotted path of the key, such as `dedup.minhash.bands`.
        message: What is wrong, and what would be right.
        line: 1-based line in the file, or None if the value has no line (a command-line override).
        file: The recipe file, or `--set`; empty for a recipe that was made from values.
    """

    key: str
    message: str
    line: int | None = None
    file: str = ""

    def __str__(self) -> str:
        place = self.file + (f":{self.line}" if self.line is not None else "")
        return ": ".join(part for part in (place, self.key, self.message) if part)


class RecipeError(CurateError):
    """A recipe or a command line that cannot work; all problems at once, before any work."""

    exit_code = 2

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        count = len(self.problems)
        head = f"{count} problem{'s' if count != 1 else ''} in the recipe; nothing was run.\n"
        return head + "\n".join(f"  {problem}" for problem in self.problems)


class UsageError(CurateError):
    """A command line that asks for what cannot be done."""

    exit_code = 2


class InputError(CurateError):
    """An input that cannot be read at all: file, place in it, and remedy."""

    def __init__(self, file: str, problem: str, remedy: str) -> None:
        super().__init__(file, problem, remedy)
        self.file = file
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.file}: {self.problem} {self.remedy}"


class StageError(CurateError):
    """A stage that failed: on which source, at which file and row, and what to do."""

    def __init__(self, source: str, stage: str, place: str, problem: str, remedy: str) -> None:
        super().__init__(source, stage, place, problem, remedy)
        self.source = source
        self.stage = stage
        self.place = place
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        where = f"{self.place}, " if self.place else ""
        return f"{where}source '{self.source}', stage '{self.stage}': {self.problem} {self.remedy}"


class LedgerError(StageError):
    """Documents or bytes do not balance: something was lost or counted twice."""


class FolderInUseError(CurateError):
    """Another process works in the same run folder."""

    def __init__(self, folder: str, holder: str) -> None:
        super().__init__(folder, holder)
        self.folder = folder
        self.holder = holder

    def __str__(self) -> str:
        return f"{self.folder}: in use by {self.holder}. Wait for it, stop it, or choose another --output."
