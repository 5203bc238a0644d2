"""A run folder as the report reads it: whatever is there, in a stable order, one shard at a time.

A run may have stopped early (`--until`), or its recipe may have no such section: then a file is absent or has no
rows, and every reader here answers with nothing. A file that is there but damaged is an error that names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.errors import InputError, UsageError

if TYPE_CHECKING:
    import polars as pl

SCAN_ROWS = 50_000
_MARKS = ("manifest.json", "recipe.yaml", "decisions", "extracted", "timings.json", "report.json")


@dataclass(frozen=True)
class RunFolder:
    """The output folder of one run."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Return the run folder at `path`.

        Raises:
            UsageError: If there is no folder, or nothing in it looks like a run.
        """
        if not path.is_dir():
            raise UsageError(f"{path}: no such folder. Name the output folder of a run, such as runs/<recipe name>.")
        if not any((path / mark).exists() for mark in _MARKS):
            raise UsageError(f"{path}: not a run folder: none of {', '.join(_MARKS[:4])} is in it.")
        return cls(path)

    def json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in `name`, empty if the file is absent or empty.

        Raises:
            InputError: If the file holds something else.
        """
        path = self.path / name
        if not path.is_file() or not (content := path.read_bytes()).strip():
            return {}
        try:
            value = json.loads(content)
        except ValueError as error:
            raise InputError(str(path), f"not valid JSON: {error}.", "Run the recipe again to write it anew.") from None
        if not isinstance(value, dict):
            raise InputError(str(path), "holds no JSON object.", "Run the recipe again to write it anew.")
        return value

    def json_lines(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of a JSON Lines file; a last line cut off by a killed writer is left out."""
        path = self.path / name
        if not path.is_file():
            return []
        rows: list[dict[str, Any]] = []
        lines = path.read_bytes().splitlines()
        for index, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                if index == len(lines) - 1:
                    break
                raise InputError(
                    f"{path}, line {index + 1}", f"not valid JSON: {error}.", "Delete the folder and train again."
                ) from None
            if isinstance(row, dict):
                rows.append(row)
        return rows

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """manifest.json."""
        return self.json("manifest.json")

    @cached_property
    def recipe_text(self) -> str:
        """recipe.yaml, the resolved recipe as text."""
        path = self.path / "recipe.yaml"
        return path.read_text("utf-8", "replace") if path.is_file() else ""

    @cached_property
    def recipe(self) -> dict[str, Any]:
        """recipe.yaml as plain values, in file order; empty if absent."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            value = YAML(typ="safe", pure=True).load(self.recipe_text)
        except YAMLError as error:
            raise InputError(
                str(self.path / "recipe.yaml"), f"not valid YAML: {error}.", "Run the recipe again."
            ) from None
        return dict(value) if isinstance(value, Mapping) else {}

    @cached_property
    def base(self) -> Path:
        """Folder where the paths of recipe.yaml start: that of the recipe that was run, else the run folder."""
        timings = self.json("timings.json")
        command, folder = timings.get("command"), timings.get("folder")
        if not isinstance(command, list) or len(command) < 3 or not isinstance(folder, str):
            return self.path
        return Path(folder, str(command[2])).parent

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources, in the recipe's order, then any that only files know of."""
        recipe_sources = self.recipe.get("sources")
        names = list(recipe_sources) if isinstance(recipe_sources, Mapping) else []
        names += list(self.manifest.get("ledger", {}))
        for kind in ("extracted", "decisions", "documents", "tokens"):
            folder = self.path / kind
            names += sorted(child.name for child in folder.iterdir() if child.is_dir()) if folder.is_dir() else []
        return tuple(dict.fromkeys(str(name) for name in names))

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """Names of the token streams: sources, or `<source>/<group>` where the mixture divides one by a label."""
        found: list[str] = []
        for source in self.sources:
            folder = self.path / "tokens" / source
            groups = sorted(path.parent.name for path in folder.glob("*/manifest.json"))
            found += [source] if (folder / "manifest.json").is_file() else [f"{source}/{group}" for group in groups]
        return tuple(found)

    def steps(self, source: str) -> tuple[str, ...]:
        """Return the names of a source's steps in the recipe's order; a second one of a name is `name-2`."""
        sources = self.recipe.get("sources")
        settings = sources.get(source) if isinstance(sources, Mapping) else None
        steps = settings.get("steps") if isinstance(settings, Mapping) else None
        names: dict[str, None] = {}
        for step in steps if isinstance(steps, list) else ():
            kind, inner = next(iter(step.items())) if isinstance(step, Mapping) and step else (step, None)
            plain = str(kind).rpartition(":")[2]  # a user's own step is module:Class
            name = base = str(inner["name"]) if isinstance(inner, Mapping) and inner.get("name") else plain
            count = 1
            while name in names:
                count += 1
                name = f"{base}-{count}"
            names[name] = None
        return tuple(names)

    def blocks(self, source: str) -> tuple[str, ...]:
        """Return the measurement blocks of a source: in the recipe's order where it tells, then by name."""
        folder = self.path / "measurements" / source
        found = {child.name for child in folder.iterdir() if child.is_dir()} if folder.is_dir() else set()
        ordered = self.steps(source)
        return (*(name for name in ordered if name in found), *sorted(found.difference(ordered)))

    def shards(self, kind: str, *parts: str) -> tuple[Path, ...]:
        """Return the Parquet files below `kind/part/...`, by name."""
        folder = self.path.joinpath(kind, *parts)
        return tuple(sorted(path for path in folder.glob("*.parquet") if path.is_file() and path.stat().st_size))

    def scan(self, kind: str, *parts: str, columns: Sequence[str] | None = None) -> Iterator[tuple[Path, pl.DataFrame]]:
        """Yield each shard's rows in order, some at a time; columns that a file lacks are left out.

        Raises:
            InputError: If a file is damaged.
        """
        import polars as pl
        import pyarrow as pa
        import pyarrow.parquet as pq

        for path in self.shards(kind, *parts):
            with damage_named(path), pq.ParquetFile(path) as file:
                names = file.schema_arrow.names
                wanted = names if columns is None else [name for name in columns if name in names]
                for batch in file.iter_batches(SCAN_ROWS, columns=wanted):
                    frame = pl.from_arrow(pa.Table.from_batches([batch]))
                    assert isinstance(frame, pl.DataFrame)
                    yield path, frame

    def table(self, name: str, columns: Sequence[str] | None = None) -> pl.DataFrame | None:
        """Return a Parquet file of the run folder, or None if it is absent or empty."""
        path = self.path / name
        return read_table(path, columns) if path.is_file() and path.stat().st_size else None

    def seeds(self) -> tuple[str, ...]:
        """Return the names of the training runs below train/, numbers in order."""
        folder = self.path / "train"
        names = [child.name for child in folder.iterdir() if child.is_dir()] if folder.is_dir() else []
        return tuple(sorted(names, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name)))


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn what a Parquet library raises inside into an InputError that names the file."""
    import polars as pl
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
        problem = f"cannot be read as Parquet: {str(error).splitlines()[0].rstrip('.')}."
        raise InputError(str(path), problem, "Run the recipe again to write it anew.") from None


def read_names(path: Path) -> list[str]:
    """Return the names of a Parquet file's columns; the path is no pattern, whatever signs are in it.

    Raises:
        InputError: If the file is damaged.
    """
    import pyarrow.parquet as pq

    with damage_named(path):
        return list(pq.read_schema(path).names)


def count_rows(path: Path) -> int:
    """Return the number of a Parquet file's rows.

    Raises:
        InputError: If the file is damaged.
    """
    import pyarrow.parquet as pq

    with damage_named(path):
        return int(pq.read_metadata(path).num_rows)


def read_table(path: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the rows of one Parquet file.

    Raises:
        InputError: If the file is damaged.
    """
    import polars as pl

    known = read_names(path)
    wanted = known if columns is None else [name for name in columns if name in known]
    with damage_named(path):
        return pl.read_parquet(path, columns=wanted, glob=False)


def read_rows(path: Path, ids: Sequence[str], columns: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the rows of one Parquet file with these ids, by id; texts of other rows are not kept in memory.

    Raises:
        InputError: If the file is damaged.
    """
    import polars as pl

    if not ids:
        return {}
    known = read_names(path)
    wanted = [name for name in (columns or known) if name in known]
    with damage_named(path):
        frame = (
            pl.scan_parquet(path, glob=False)
            .filter(pl.col("id").is_in(list(ids)))
            .select("id", *(name for name in wanted if name != "id"))
            .collect()
        )
    return {row["id"]: row for row in frame.iter_rows(named=True)}
