"""All that a card is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from curate.export.selection import Selection, canaries_of


@dataclass(frozen=True)
class Facts:
    """All that a card is made from.

    Attributes:
        selection: The part of the run that was exported.
        format: Name of the format.
        order: `arranged` or `mixture`.
        report: The run's report.json.
        surveys: Counts of documents by source (`curate.export.survey`).
        written: Counts of each written data file, by path.
        recipe_sha256: Of recipe.yaml.
        not_in_transformers: Why transformers cannot open the tokenizer, or "".
    """

    selection: Selection
    format: str
    order: str
    report: Mapping[str, Any]
    surveys: Mapping[str, Mapping[str, Any]]
    written: Mapping[str, Mapping[str, Any]]
    recipe_sha256: str
    not_in_transformers: str = ""

    @property
    def name(self) -> str:
        """Name of the recipe."""
        return str(self.report.get("recipe") or "corpus")

    @property
    def with_canaries(self) -> bool:
        """Whether the files hold the items that the run leaked on purpose: with the order of training, or by name."""
        selection = self.selection
        return canaries_of(selection.run) is not None and (self.order == "mixture" or selection.holds_canaries)

    @cached_property
    def recipe(self) -> Mapping[str, Any]:
        """The resolved recipe as plain values."""
        return self.selection.run.recipe

    def settings(self, source: str) -> Mapping[str, Any]:
        """Return the recipe's block of a source."""
        found = (self.recipe.get("sources") or {}).get(source)
        return found if isinstance(found, Mapping) else {}

    def counts(self, source: str, split: str) -> Counter[str]:
        """Return what was written of a source's split: documents, bytes and, of token files, tokens."""
        found: Counter[str] = Counter()
        for one in self.written.values():
            if one["source"].partition("/")[0] == source and one["split"] == split:
                found.update({name: one[name] for name in ("documents", "bytes", "tokens") if name in one})
        return found

    def labels(self, name: str) -> Counter[str]:
        """Return documents by a label of the surveys, over all sources."""
        found: Counter[str] = Counter()
        for one in self.surveys.values():
            found.update({label: counts[0] for label, counts in one[name].items()})
        return found
