"""What a run says about itself: the account of each phase as it goes, manifest.json and timings.json at its end."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from curate.ledger import SourceLedger, add, total

LIBRARIES = (
    "pyarrow",
    "polars",
    "numpy",
    "ftfy",
    "trafilatura",
    "resiliparse",
    "fasttext",
    "sentencepiece",
    "xxhash",
)


@dataclass(slots=True)
class PhaseRecord:
    """What one phase did.

    Attributes:
        keys: Result keys of all its tasks, in order; their digest is the phase's key.
        sources: Per source, the documents and bytes that came in, stayed and left.
    """

    keys: list[str] = field(default_factory=list)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks_run: int = 0
    tasks_reused: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0


class Account:
    """The account of a run: one ledger a source, moved forward by each phase.

    `ledgers` holds what is known so far: after extract, kept means "still kept".
    """

    def __init__(self, sources: Iterable[str]) -> None:
        self.ledgers = {name: SourceLedger() for name in sources}
        self.phases: dict[str, PhaseRecord] = {}
        self.warnings: list[str] = []
        self.facts: dict[str, Any] = {}  # further sections of manifest.json, by name
        self.started = time.perf_counter()

    def phase(self, name: str) -> PhaseRecord:
        """Return the record of a phase, made on first use."""
        return self.phases.setdefault(name, PhaseRecord())

    def unchanged(self, phase: str) -> None:
        """Record that a phase removed nothing and cut nothing."""
        for name, ledger in self.ledgers.items():
            self.phase(phase).sources[name] = _passage(ledger.kept, ledger.bytes_kept, {}, {}, 0)

    def remove(self, phase: str, source: str, removed: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        """Move documents from kept to removed.

        Args:
            phase: The phase that removed them.
            source: Their source.
            removed: "<stage>/<rule>" to documents.
            sizes: "<stage>/<rule>" to UTF-8 bytes of revision 0.
        """
        ledger = self.ledgers[source]
        came_in, bytes_in = ledger.kept, ledger.bytes_kept
        for name, count in removed.items():
            stage, _, rule = name.partition("/")
            add(ledger.removed, stage, rule, count)
            add(ledger.bytes_removed, stage, rule, sizes.get(name, 0))
            ledger.kept -= count
            ledger.bytes_kept -= sizes.get(name, 0)
        rules = {name.partition("/")[2]: count for name, count in sorted(removed.items())}
        self.phase(phase).sources[source] = _passage(came_in, bytes_in, rules, sizes, 0)

    def add_repairs(self, source: str, made: Mapping[str, int], documents: Mapping[str, int]) -> None:
        """Say in the manifest what was repaired: by source and kind, how often and in how many documents."""
        for kind, number in sorted(made.items()):
            counts = self.facts.setdefault("repairs", {}).setdefault(source, {})
            counts = counts.setdefault(kind, {"documents": 0, "made": 0})
            counts["documents"] += documents[kind]
            counts["made"] += number

    def warn_unreadable(self) -> None:
        """Warn of a source of which nothing could be read: most likely the recipe means another kind or column."""
        for name, ledger in self.ledgers.items():
            lost = ledger.removed.get("read", {})
            if ledger.read and sum(lost.values()) == ledger.read:
                rules = ", ".join(f"{rule} {count:,}" for rule, count in sorted(lost.items()))
                text = f"NOT ONE of {ledger.read:,} records could be read ({rules}). Check `read` of this source."
                self.warnings.insert(0, f"{name}: {text}")

    def settle(self, source: str, final: Mapping[str, Any]) -> None:
        """Take over the ledger that collect made from the written files; its documents must agree with the phases before."""
        before = self.ledgers[source]
        after = SourceLedger(
            read=final["read"],
            kept=final["kept"],
            removed={stage: dict(rules) for stage, rules in final["removed"].items()},
            skipped=dict(final["skipped"]),
            bytes_read=final["bytes"]["read"],
            bytes_kept=final["bytes"]["kept"],
            bytes_cut=final["bytes"]["cut"],
            bytes_payload=final["bytes"]["payload"],
            bytes_removed={stage: dict(rules) for stage, rules in final["bytes"]["removed"].items()},
        )
        after.check(source, "collect")
        late = before.kept - after.kept  # removed by `at: collect` steps that failed on a document
        rules = {
            rule: count - before.removed.get(stage, {}).get(rule, 0)
            for stage, found in after.removed.items()
            for rule, count in found.items()
            if count != before.removed.get(stage, {}).get(rule, 0)
        }
        if late != sum(rules.values()) or late < 0 or any(count < 0 for count in rules.values()):
            from curate.errors import LedgerError

            raise LedgerError(
                source,
                "collect",
                "",
                f"the phases before left {before.kept} documents, the written files hold {after.kept}; difference by rule: {rules}.",
                "Report it with the recipe.",
            )
        self.phase("collect").sources[source] = _passage(
            before.kept, before.bytes_kept, rules, {}, after.bytes_cut, after.bytes_kept
        )
        self.ledgers[source] = after

    def check(self) -> None:
        """Raise LedgerError unless every source balances."""
        for name, ledger in self.ledgers.items():
            ledger.check(name, "manifest")

    def manifest(self, *, recipe: str, seed: int, inputs: Mapping[str, Any], version: str) -> dict[str, Any]:
        """Return manifest.json: nothing in it may differ between two runs of the same recipe over the same inputs."""
        from curate.cache import key_of

        quarantined = sum(total({"q": ledger.removed.get("quarantine", {})}) for ledger in self.ledgers.values())
        return {
            "curate": version,
            "recipe": recipe,
            "seed": seed,
            "python": ".".join(map(str, sys.version_info[:2])),
            "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
            "inputs": inputs,
            "stages": {
                name: {"key": key_of(keys=record.keys), "sources": record.sources}
                for name, record in self.phases.items()
            },
            "ledger": {name: ledger.as_json() for name, ledger in self.ledgers.items()},
            "warnings": self.warnings,
            **self.facts,
            "quarantined": quarantined,
            "reproducible": quarantined == 0,
        }

    def timings(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return timings.json: all that may differ between two runs.

        Args:
            facts: workers, memory, command and folder of the run.
        """
        return {
            "seconds": round(time.perf_counter() - self.started, 3),
            **facts,
            "phases": {
                name: {
                    "seconds": round(record.seconds, 3),
                    "tasks_run": record.tasks_run,
                    "tasks_reused": record.tasks_reused,
                    "peak_rss_bytes": record.peak_bytes,
                }
                for name, record in self.phases.items()
            },
            "environment": {
                "platform": platform.platform(),
                "processor": platform.machine(),
                "cpus": os.cpu_count(),
                "python": platform.python_version(),
            },
        }


def _passage(
    documents: int,
    size: int,
    removed: Mapping[str, int],
    sizes: Mapping[str, int],
    cut: int,
    bytes_kept: int | None = None,
) -> dict[str, Any]:
    return {
        "documents_in": documents,
        "documents_kept": documents - sum(removed.values()),
        "removed": dict(sorted(removed.items())),
        "bytes_in": size,
        "bytes_kept": size - sum(sizes.values()) if bytes_kept is None else bytes_kept,
        "bytes_cut": cut,
    }
