"""A benchmark of a recipe as the phases get it: its files, and how they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.benchmarks.fields import Fields
from curate.benchmarks.items import Benchmark, BenchmarkFiles, read_benchmark
from curate.benchmarks.mappings import Shipped
from curate.errors import InputError
from curate.inputs import InputFile, fetch
from curate.stage import canonical


@dataclass(frozen=True, slots=True)
class BenchmarkInputs:
    """One benchmark of a recipe.

    Attributes:
        entry: Its place in the recipe's list, from 0; a pattern makes several benchmarks.
        name: What reports call it.
        files: In order.
        mapping: As in `BenchmarkFiles`, and so are `fields`.
        passed_over: Files of a dataset that are not read, counted by reason.
    """

    entry: int
    name: str
    files: tuple[InputFile, ...]
    mapping: str
    fields: Fields | None
    passed_over: Mapping[str, int]

    def identity(self) -> dict[str, Any]:
        """Return what it adds to the key of an index."""
        return {
            "name": self.name,
            "files": [(file.path, file.digest) for file in self.files],
            "mapping": self.mapping,
            "fields": canonical(self.fields),
            "passed_over": dict(self.passed_over),
        }

    def local(self, paths: Iterable[Path], also: tuple[Shipped, ...] = ()) -> BenchmarkFiles:
        """Return it with local copies of its files; `also`: mappings that are recognised besides."""
        titles = tuple(file.path for file in self.files)
        return BenchmarkFiles(tuple(map(str, paths)), titles, self.name, self.mapping, self.fields, also)

    def read(self, folder: Path, also: tuple[Shipped, ...] = ()) -> Benchmark:
        """Fetch its files into a folder, which is made, and read them.

        Raises:
            InputError: If one cannot be read.
        """
        folder.mkdir()
        addresses, paths = {}, []
        for place, file in enumerate(self.files):
            part = folder / str(place)
            part.mkdir()
            paths.append(fetch(file, part))
            addresses[str(paths[-1])] = file.url
        try:
            return read_benchmark(self.local(paths, also))
        except InputError as error:  # names the local copy of a remote file
            raise InputError(addresses.get(error.file, error.file), error.problem, error.remedy) from error
