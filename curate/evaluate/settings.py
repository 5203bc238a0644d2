"""What a recipe can say of the tasks that its models are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from curate.benchmarks.sources import BenchmarkSource
from curate.stage import Stage

Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Evaluate(Stage):
    """Measure the trained models on items of benchmarks: each choice is scored as what follows a prompt (see `cloze.py`).

    `version` is the version of the wording, which every result carries: scores of two versions are not to be compared.

    Attributes:
        tasks: Paths of benchmarks, or mappings with a path and what their rows hold (see `BenchmarkSource`).
        items: At most so many items of each task, drawn by hash; by default all.
        groups: Names of tasks by group: the mean of the scores of each group is told as well.
    """

    version: ClassVar[int] = 1

    tasks: Annotated[tuple[str | BenchmarkSource, ...], Field(min_length=1)]
    items: Annotated[int, Field(ge=1)] | None = None
    groups: Mapping[str, Names] = {}

    @property
    def sources(self) -> tuple[BenchmarkSource, ...]:
        """Return the benchmarks, those given by a path alone as well."""
        return tuple(BenchmarkSource(path=one) if isinstance(one, str) else one for one in self.tasks)

    @model_validator(mode="after")
    def _names(self) -> Evaluate:
        names = [one.name for one in self.sources if one.name is not None]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ValueError(f"two tasks are named '{twice[0]}': name them apart, or give one pattern for both")
        return self
