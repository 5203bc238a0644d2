"""What a run measured, read again: sizes, numbers and decisions of its documents, and no text.

The rules of a recipe over these numbers (`curate.phases.decide.verdicts`) are what a run with that recipe decides, as
long as its steps measure the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curate.blocks import Layout, lay_out
from curate.cache import key_of
from curate.errors import InputError
from curate.expression import expression_columns
from curate.phases.decide import BOOKKEEPING, Judged, Verdict, measured_columns, verdicts
from curate.phases.resolve import resolve, with_numbers
from curate.recipe import SourceRecipe
from curate.report.run import RunFolder, count_rows, damage_named, read_names
from curate.stage import Rule

PART_ROWS = 250_000  # documents judged at once; bounds memory
_MEMORY = 256 << 20  # bytes of numbers from which a share of the documents is resolved
_BEFORE_TEXT = ("read", "gate", "extract")  # stages whose documents have no text


@dataclass(frozen=True, slots=True)
class Part:
    """Some consecutive shards of a source: one row for each extracted document, in order.

    Attributes:
        shards: Names of the shards' files.
        starts: Row at which each shard begins, and the number of rows.
        ids: Document ids.
        sizes: UTF-8 bytes of text revision 0.
        last_sizes: UTF-8 bytes after the last rewrite.
        tables: Block of the run to what it measured, `failure` and `failure_message`.
        decisions: kept, stage, rule and also_fired; None if the run did not come that far.
    """

    shards: tuple[str, ...]
    starts: tuple[int, ...]
    ids: pl.Series
    sizes: np.ndarray
    last_sizes: np.ndarray
    tables: Mapping[str, pa.Table]
    decisions: pl.DataFrame | None

    @property
    def rows(self) -> int:
        """Return the number of documents."""
        return len(self.ids)

    def judged_by(self, judged: Sequence[Judged], folders: Mapping[str, str]) -> dict[str, pa.Table]:
        """Return the tables of some blocks by their names; `folders` maps a block's key to the run's block."""
        return {block.name: self.tables[folders[block.key]] for block in judged if block.key is not None}

    def place(self, row: int) -> tuple[str, int]:
        """Return the shard of a row, and the row there."""
        shard = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.shards[shard], row - self.starts[shard]


class MeasuredSource:
    """The measurements of one source of a run, laid out as its recipe says."""

    def __init__(self, run: RunFolder, source: SourceRecipe) -> None:
        self.run = run
        self.source = source
        self.layout = layout_of(source)
        self.blocks = (*self.layout.blocks, *self.layout.rankings)  # ranks stay those of the run
        self.folders = {block.key: block.name for block in reversed(self.blocks)}
        rewrites = [block.name for block in self.layout.blocks if block.step.rewrites]
        self._last_rewrite = rewrites[-1] if rewrites else None

    @cached_property
    def shards(self) -> tuple[str, ...]:
        """Names of the shards' files.

        Raises:
            InputError: If the run was made before sizes were part of a run folder, or did not measure.
        """
        names = tuple(path.name for path in self.run.shards("sizes", self.source.name))
        wanted = [block.name for block in self.blocks]
        for folder in [("extracted", self.source.name), *(("measurements", self.source.name, name) for name in wanted)]:
            if tuple(path.name for path in self.run.shards(*folder)) != names:
                place = str(self.run.path.joinpath(*folder))
                raise InputError(place, "is not complete.", "Run the recipe again, at least with --until measure.")
        return names

    def parts(self, rules: Sequence[Rule], *, decided: bool) -> Iterator[Part]:
        """Yield what was measured, some shards at a time.

        Args:
            rules: Columns that these look at are read, and no others.
            decided: Whether to read decisions, too.

        Raises:
            InputError: If a file is damaged or tells of other documents.
        """
        wanted = columns_of(rules)
        pending: list[str] = []
        sizes: list[int] = []
        for name in self.shards:
            pending.append(name)
            sizes.append(count_rows(self._path("sizes", name)))
            if sum(sizes) >= PART_ROWS:
                yield self._part(pending, sizes, wanted, decided=decided)
                pending, sizes = [], []
        if pending:
            yield self._part(pending, sizes, wanted, decided=decided)

    def resolved(self, judged: Sequence[Judged]) -> tuple[Judged, ...]:
        """Return the blocks with numbers in place of bounds that are shares of this source's documents."""
        blocks = list(judged)
        for place, block in enumerate(blocks):
            rules = [rule for rule in block.rules if rule.shares]
            if rules:
                with tempfile.TemporaryDirectory(prefix="curate-") as folder:
                    before = (*blocks[:place], replace(block, rules=()))
                    found = resolve(rules, self._counted(before, rules), _MEMORY, Path(folder))
                numbers = (with_numbers(rule, found[rule.name]) if rule.shares else rule for rule in block.rules)
                blocks[place] = replace(block, rules=tuple(numbers))
        return tuple(blocks)

    def _counted(
        self, before: Sequence[Judged], rules: Sequence[Rule]
    ) -> Iterator[tuple[dict[str, pa.ChunkedArray], np.ndarray]]:
        """Yield the measured columns, and which documents some blocks keep."""
        looked_at = [*(rule for block in before for rule in block.rules), *rules]
        for part in self.parts(looked_at, decided=False):
            tables = part.judged_by(before, self.folders)
            columns: dict[str, pa.ChunkedArray] = {}
            for block in before:
                columns |= measured_columns(tables[block.name]) if block.name in tables else {}
            yield columns, reasons(verdicts(before, tables, part.rows), part.rows) < 0

    def _path(self, kind: str, name: str) -> Path:
        return self.run.path / kind / self.source.name / name

    def _part(self, names: Sequence[str], rows: Sequence[int], wanted: frozenset[str], *, decided: bool) -> Part:
        base = read_all([self._path("sizes", name) for name in names])
        ids = base["id"]
        tables: dict[str, pa.Table] = {}
        last_sizes = base["bytes"].to_numpy()
        for block in self.blocks:
            paths = [self.run.path / "measurements" / self.source.name / block.name / name for name in names]
            extra = ("text_bytes",) if block.name == self._last_rewrite else ()
            columns = [
                name for name in read_names(paths[0]) if name in wanted or name in BOOKKEEPING[:3] or name in extra
            ]
            frame = read_all(paths, columns)
            self._same(ids, frame["id"], paths[0])
            if extra:
                last_sizes = frame["text_bytes"].fill_null(base["bytes"]).to_numpy()
            tables[block.name] = frame.drop("id").to_arrow()
        found = self._decisions(names, ids) if decided else None
        starts = tuple(int(start) for start in np.concatenate([[0], np.cumsum(rows)]))
        return Part(tuple(names), starts, ids, base["bytes"].to_numpy(), last_sizes, tables, found)

    def _decisions(self, names: Sequence[str], ids: pl.Series) -> pl.DataFrame:
        paths = [self._path("decisions", name) for name in names]
        frame = read_all(paths, ["id", "kept", "stage", "rule", "also_fired"])
        frame = frame.filter(~pl.col("stage").is_in(_BEFORE_TEXT).fill_null(value=False))
        if frame.height != len(ids):  # a record that killed its worker before it had a text
            frame = frame.filter(pl.col("id").is_in(ids.implode()))
        self._same(ids, frame["id"], paths[0])
        return frame

    def _same(self, ids: pl.Series, others: pl.Series, path: Path) -> None:
        if len(ids) != len(others) or not (ids == others).all():
            problem = "it, or another shard of this block, tells of other documents than `sizes`."
            raise InputError(str(path), problem, "Run the recipe again.")


def layout_of(source: SourceRecipe) -> Layout:
    """Return the layout of a source with keys that only compare with one another: equal where the same is measured."""
    return lay_out(source, "", lambda revision, step: key_of(revision=revision, step=step))


def columns_of(rules: Sequence[Rule]) -> frozenset[str]:
    """Return the columns that some rules look at."""
    names: set[str] = set()
    for rule in rules:
        names |= {rule.column, rule.by or ""} if rule.expression is None else set(expression_columns(rule.expression))
    return frozenset(names - {""})


def reasons(found: Sequence[Verdict], rows: int) -> np.ndarray:
    """Return the index in `found` of the first verdict that removes each document, -1 for those that stay."""
    first = np.full(rows, -1, np.int32)
    for place in range(len(found) - 1, -1, -1):
        first[found[place].mask] = place
    return first


def read_all(paths: Sequence[Path], columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the rows of Parquet files of one schema, in the order of the files.

    Raises:
        InputError: If one is damaged.
    """
    with damage_named(paths[0].parent):
        return pl.read_parquet(list(paths), columns=list(columns) if columns is not None else None, glob=False)


def beginnings(run: RunFolder, source: str, rows: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return url, path and text of some documents, by shard and row; of each file only their row groups are read.

    Args:
        run: The run folder.
        source: Name of the source.
        rows: Shard to rows in it.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for shard, wanted in rows.items():
        path = run.path / "extracted" / source / shard
        with damage_named(path), pq.ParquetFile(path) as file:
            start = 0
            for group in range(file.num_row_groups):
                stop = start + file.metadata.row_group(group).num_rows
                here = sorted({row - start for row in wanted if start <= row < stop})
                if here:
                    table = file.read_row_group(group, columns=["url", "path", "text"], use_threads=False)
                    for place, row in zip(here, table.take(here).to_pylist(), strict=True):
                        found[shard, start + place] = row
                start = stop
    return found
