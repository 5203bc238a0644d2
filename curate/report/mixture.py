"""The mixture as the page shows it: rows of sources and their cells, groups by column, and a bar for each stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from markupsafe import Markup

from curate.report.chart import shares


def tables(mixture: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what the page shows of mixture.json, or None without one.

    Returns:
        `sources`: for each its row, and the rows of its cells if it is divided; those that hold nothing, and are asked for
        nothing, are only named. `axes`: rows by group of each column. `stages`: of training, empty if there is one.
        `most`: the largest share in a row, which bars are drawn against. `columns`: which columns there are any values for.
    """
    if not mixture or not mixture.get("sources"):
        return None
    cells: dict[str, list[tuple[str, Any]]] = {}
    for name, entry in mixture["sources"].items():
        source, _, cell = name.partition("/")
        cells.setdefault(source, []).append((cell, entry))
    sources: list[dict[str, Any]] = []
    for source, found in cells.items():
        divided = [one for one in found if one[0]]
        whole = (mixture.get("by_source") or {}).get(source) if divided else found[0][1]
        shown = [(cell, entry) for cell, entry in divided if _has_any(entry)]
        idle = [cell for cell, entry in divided if not _has_any(entry)]
        sources.append(
            {"name": source, "row": whole or _sum(entry for _, entry in found), "cells": shown, "idle": idle}
        )
    rows = [row for one in sources for row in (one["row"], *(entry for _, entry in one["cells"]))]
    written = mixture.get("stages") or []
    return {
        "sources": sources,
        "axes": {name: list(groups.items()) for name, groups in (mixture.get("by_axis") or {}).items()},
        "stages": list(written) if len(written) > 1 else [],
        "most": max(
            (float(row.get(name) or 0) for row in rows for name in ("weight_normalised", "weight_realised")), default=1
        ),
        "columns": {name: any(row.get(name) for row in rows) for name in ("repeat", "tokens_asked", "tokens_repeated")},
    }


def stage_bars(stage: Mapping[str, Any], colour: Any) -> list[tuple[str, Markup]]:
    """Return the bars of what a stage was asked for, and of what it draws.

    Args:
        stage: An entry of `stages` of mixture.json.
        colour: From a source's name to its style.
    """
    bars = []
    for title, column in (("asked", "weight_normalised"), ("drawn", "weight_realised")):
        parts = [
            (name, colour(name.partition("/")[0]), one[column]) for name, one in stage["sources"].items() if one[column]
        ]
        bars.append((title, shares(parts, title)))
    return bars


def streams_of(source: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a source and the streams of its cells, as rows of the table of stages: name and style."""
    return [(source["name"], "whole"), *((f"{source['name']}/{cell}", "cell") for cell, _ in source["cells"])]


def drawn_in(stage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return what a stage draws of a stream, or of a source's streams together."""
    if name in stage["sources"]:
        entry: Mapping[str, Any] = stage["sources"][name]
        return entry
    return _sum(entry for stream, entry in stage["sources"].items() if stream.partition("/")[0] == name)


def _has_any(entry: Mapping[str, Any]) -> bool:
    return any(entry.get(name) for name in ("tokens_available", "tokens_asked", "tokens_drawn", "weight_normalised"))


def _sum(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for entry in entries:
        for name, value in entry.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                whole[name] = whole.get(name, 0) + value
    available = whole.get("windows_available")
    whole["epochs"] = whole.get("windows_drawn", 0) / available if available else 0.0
    return whole
