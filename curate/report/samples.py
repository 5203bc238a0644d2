"""Which documents a person is shown: the same ones for the same run, whatever order the shards were written in.

A document's place in the draw is a hash of (seed, id), so a sample of ten holds the sample of five.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.report.run import RunFolder, read_rows
from curate.text.hashing import choice_hash


@dataclass(frozen=True, slots=True)
class Pick:
    """One decision that was drawn: its source, the name of its shard, and the row of DECISION."""

    source: str
    shard: str
    row: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Id of the document."""
        return str(self.row["id"])


def draw(id: str, seed: int) -> int:
    """Return the place of a document in the draw with this seed: 64 bits."""
    return choice_hash(seed, id, "report.sample")


def lowest(rows: Iterable[tuple[tuple[int, str], Pick]], count: int) -> list[Pick]:
    """Return the `count` rows that come first in the draw, in its order."""
    return [pick for _, pick in heapq.nsmallest(count, rows, key=lambda item: item[0])]


def decisions(run: RunFolder, source: str) -> Iterator[tuple[str, Any]]:
    """Yield (shard name, frame of DECISION rows) for a source; `stage` and `rule` are null for kept documents."""
    for path, frame in run.scan("decisions", source):
        yield path.name, frame


def find_texts(
    run: RunFolder, kind: str, wanted: Iterable[tuple[str, str]], columns: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return rows of `kind` (extracted or documents) by id.

    Args:
        run: The run folder.
        kind: Name of the table.
        wanted: (source, id) pairs.
        columns: Columns to read; all by default.
    """
    by_source: dict[str, set[str]] = {}
    for source, id in wanted:
        by_source.setdefault(source, set()).add(id)
    found: dict[str, dict[str, Any]] = {}
    for source, ids in sorted(by_source.items()):
        missing = set(ids)
        for path in run.shards(kind, source):
            if not missing:
                break
            rows = read_rows(path, sorted(missing), columns)
            found.update(rows)
            missing -= rows.keys()
    return found


def find_shard_texts(
    run: RunFolder, kind: str, picks: Iterable[Pick], columns: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return rows of `kind` by id, looked for in the shard of the same name as the decision's."""
    by_path: dict[Path, list[str]] = {}
    for pick in picks:
        by_path.setdefault(run.path / kind / pick.source / pick.shard, []).append(pick.id)
    found: dict[str, dict[str, Any]] = {}
    for path, ids in sorted(by_path.items()):
        if path.is_file() and path.stat().st_size:
            found.update(read_rows(path, sorted(set(ids)), columns))
    return found
