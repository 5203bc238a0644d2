"""Steps of training that were skipped or taken back, and the documents that they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from curate.report.run import RunFolder
from curate.report.samples import find_texts

MAX_STEPS = 40  # shown of one run; all are counted
MAX_DOCUMENTS = 12  # named of one step
EXCERPT = 160  # characters


def faults(run: RunFolder) -> dict[str, Any] | None:
    """Return what went wrong in training: skipped steps with their documents, rollbacks; None if nothing did."""
    skipped: dict[tuple[str, int], Mapping[str, Any]] = {}
    rollbacks: dict[tuple[str, int], Mapping[str, Any]] = {}
    for seed in run.seeds():
        for line in run.json_lines(f"train/{seed}/metrics.jsonl"):
            for kind, found in (("skipped", skipped), ("rolled_back", rollbacks)):
                if isinstance(line.get(kind), Mapping):
                    found[seed, int(line["step"])] = line[kind]
    if not skipped and not rollbacks:
        return None
    shown = dict(list(skipped.items())[:MAX_STEPS])
    read = {key: _documents(fault) for key, fault in shown.items()}
    wanted = {(source, id) for places in read.values() for id, source in list(places.items())[:MAX_DOCUMENTS]}
    texts = find_texts(run, "documents", sorted(wanted), ("id", "url", "path", "text"))
    return {
        "skipped": len(skipped),
        "rollbacks": [{"seed": seed, "step": step, **line} for (seed, step), line in rollbacks.items()],
        "steps": [
            {
                "seed": seed,
                "step": step,
                **{name: value for name, value in fault.items() if name != "windows"},
                "documents": [
                    _document(id, source, texts.get(id)) for id, source in list(places.items())[:MAX_DOCUMENTS]
                ],
                "documents_read": len(places),
            }
            for ((seed, step), fault), places in zip(shown.items(), read.values(), strict=True)
        ],
    }


def _documents(fault: Mapping[str, Any]) -> dict[str, str]:
    """Return the source of each document that a step read, in its order; a stream such as `web/en` is of source `web`."""
    return {
        id: str(window["source"]).partition("/")[0]
        for window in fault.get("windows", ())
        for id in window.get("documents", ())
    }


def _document(id: str, source: str, row: Mapping[str, Any] | None) -> dict[str, Any]:
    row = row or {}
    text = " ".join(str(row.get("text") or "")[: 4 * EXCERPT].split())
    return {"id": id, "source": source, "place": row.get("url") or row.get("path"), "text": text[:EXCERPT]}
