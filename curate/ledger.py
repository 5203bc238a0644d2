"""Documents and bytes: read, kept, removed, cut. The sums must balance for each source, or the run fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from curate.errors import LedgerError

Tally = dict[str, dict[str, int]]  # stage -> rule -> count


def add(tally: Tally, stage: str, rule: str, count: int) -> None:
    """Add `count` to one cell of a tally."""
    rules = tally.setdefault(stage, {})
    rules[rule] = rules.get(rule, 0) + count


def total(tally: Mapping[str, Mapping[str, int]]) -> int:
    """Return the sum over all stages and rules."""
    return sum(sum(rules.values()) for rules in tally.values())


@dataclass(slots=True)
class SourceLedger:
    """The account of one source.

    Bytes are UTF-8 bytes of text revision 0: read = kept + removed + cut, where what rewrites take away (or add, as a
    negative amount) counts as cut. Payload bytes, as stored in the input, stand beside.
    """

    read: int = 0
    kept: int = 0
    removed: Tally = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    bytes_read: int = 0
    bytes_kept: int = 0
    bytes_cut: int = 0
    bytes_payload: int = 0
    bytes_removed: Tally = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the form that manifest.json holds (run folder contract)."""

        def ordered(tally: Tally) -> Tally:
            return {stage: dict(sorted(tally[stage].items())) for stage in sorted(tally)}

        return {
            "read": self.read,
            "kept": self.kept,
            "removed": ordered(self.removed),
            "skipped": dict(sorted(self.skipped.items())),
            "bytes": {
                "read": self.bytes_read,
                "kept": self.bytes_kept,
                "cut": self.bytes_cut,
                "payload": self.bytes_payload,
                "removed": ordered(self.bytes_removed),
            },
        }

    def check(self, source: str, stage: str) -> None:
        """Raise LedgerError unless documents and bytes balance."""
        balance(source, stage, "documents", self.read, {"kept": self.kept, "removed": total(self.removed)})
        parts = {"kept": self.bytes_kept, "removed": total(self.bytes_removed), "cut": self.bytes_cut}
        balance(source, stage, "bytes", self.bytes_read, parts)


def balance(source: str, stage: str, what: str, read: int, parts: Mapping[str, int], place: str = "") -> None:
    """Raise LedgerError unless `read` is the sum of `parts`.

    Args:
        source: Name of the source, for the message.
        stage: Phase whose output is checked, for the message.
        what: documents, rows or bytes.
        read: What came in.
        parts: Name to number of what went out.
        place: File or shard, for the message.
    """
    out = sum(parts.values())
    if read == out:
        return
    difference = abs(read - out)
    verb = "lost" if out < read else "counted twice or invented"
    account = " + ".join(f"{name} {number}" for name, number in parts.items())
    raise LedgerError(
        source,
        stage,
        place,
        f"{difference} {what} {verb}: {read} came in, but {account} = {out}.",
        "This is a fault of the stage, not of the data: nothing was written as finished. Report it with the recipe.",
    )


def same_rows(source: str, stage: str, place: str, came_in: Iterable[str], went_out: Iterable[str]) -> None:
    """Raise LedgerError unless a stage returned exactly the documents that it got, in order."""
    before, after = list(came_in), list(went_out)
    balance(source, stage, "documents", len(before), {"returned": len(after)}, place)
    for position, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            raise LedgerError(
                source,
                stage,
                place,
                f"row {position} is document {other} where {one} was given: rows were reordered.",
                "A stage returns the rows it got, in order.",
            )
