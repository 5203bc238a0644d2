"""What the makers of tasks use of a run: `curate.curation.Curation` and its shards, which import them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from curate.cache import Cache, Entry
    from curate.manifest import Account
    from curate.phases.decide import Judged
    from curate.plan import Task
    from curate.progress import Progress
    from curate.recipe import Recipe, SourceRecipe


class ShardOfRun(Protocol):
    """What is used of `curate.curation.Shard`: the result keys known so far."""

    source: SourceRecipe
    extracted: str
    judged: tuple[Judged, ...]
    revision: str
    signatures: str
    matches: str
    vectors: str
    collected: str
    decided: list[str]
    edits: list[str]

    @property
    def name(self) -> str:
        """Return the shard's file name in the run folder, without ending."""


class Run(Protocol):
    """What is used of `curate.curation.Curation`."""

    recipe: Recipe
    cache: Cache
    account: Account
    progress: Progress

    @property
    def shards(self) -> Sequence[ShardOfRun]:
        """Return the shards of all sources."""

    def perform(self, phase: str, tasks: Sequence[Task]) -> None:
        """Run those tasks of a phase that have no result yet."""

    def entry(self, key: str) -> Entry:
        """Return a result that must be there."""

    def publish(self, key: str, name: str, place: str) -> None:
        """Link a file of a result into the run folder."""

    def write(self, place: str, value: Any) -> None:
        """Write a JSON file of the run folder."""

    def key(self, phase: str, **parts: Any) -> str:
        """Return a result key of a phase."""
