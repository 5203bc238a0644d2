"""Edits of several phases on one document: read together, made disjoint, applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from curate.document import EDITS
from curate.pipeline import RowsAbout

Span = tuple[int, int]


class EditsAbout:
    """What several phases cut out of the documents of one shard, read while the documents go by."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Open files of the schema EDITS, in the order of the phases."""
        self._files = [RowsAbout(path, EDITS) for path in paths]

    def about(self, ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Return id -> disjoint spans, in order, for the next documents; what two phases cut is the earlier one's."""
        found: dict[str, list[dict[str, Any]]] = {}
        several = False
        for number, file in enumerate(self._files):
            for row in file.about(ids):
                several |= number > 0 and row["id"] in found
                found.setdefault(row["id"], []).append(row)
        return {name: disjoint(rows) for name, rows in found.items()} if several else found

    def finish(self) -> None:
        """Raise ValueError unless every edit was about a document of the shard."""
        for file in self._files:
            file.finish()


def disjoint(edits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return edits in the order of the text, without the parts that an earlier one of the sequence cuts already."""
    taken: list[Span] = []
    found: list[dict[str, Any]] = []
    for edit in edits:
        rest = remaining((edit["start"], edit["end"]), taken)
        found += [{**edit, "start": start, "end": end} for start, end in rest]
        taken += rest
    return sorted(found, key=lambda edit: (edit["start"], edit["end"]))


def remaining(span: Span, taken: Iterable[Span]) -> list[Span]:
    """Return what is left of a span without the taken ones, in order."""
    left = []
    position, stop = span
    for start, end in sorted(taken):
        if start > position:
            left.append((position, min(start, stop)))
        position = max(position, end)
        if position >= stop:
            break
    else:
        left.append((position, stop))
    return [(start, end) for start, end in left if start < end]


def cut_spans(text: str, spans: Sequence[Mapping[str, Any]]) -> str:
    """Return the text without the given byte spans (UTF-8 offsets; they may touch or overlap)."""
    data = text.encode()
    kept, position = [], 0
    for span in sorted(spans, key=lambda one: (one["start"], one["end"])):
        kept.append(data[position : max(position, span["start"])])
        position = max(position, span["end"])
    kept.append(data[position:])
    return b"".join(kept).decode()
