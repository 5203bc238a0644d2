"""A stream that is planted into a mixture on top of its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from curate.errors import StageError


def with_planted(mixture: Mapping[str, Any], stream: str, tokens: int) -> dict[str, Any]:
    """Return a mixture in which every window of a stream is shown once, spread over the stages by their length.

    What the other streams give stays as it is: their windows, and their order among themselves. `planted` says what was
    added and its share of all windows; `num_slots`, `tokens`, the ends of stages and every `weight_realised` count it, so that
    shares drawn add up to 1. What was asked (`weight_asked`, `weight_normalised`) is of the budget, without what is planted.

    Args:
        mixture: As `curate.mix.plan.plan_mixture` returns it.
        stream: Name of the planted stream.
        tokens: In its training split, EOS included.

    Raises:
        StageError: If the stream has no whole window.
    """
    from curate.tokens.order import num_windows

    window, slots = mixture["window"], mixture["num_slots"]
    windows = num_windows(tokens, window)
    if not windows:
        problem = f"it has {tokens:,} tokens, less than a window of {window:,} and the token behind it."
        raise StageError(stream, "mix", "", problem, "Plant more, or set a smaller mixture.window.")
    stages, seen, given = [], 0, 0
    for stage in mixture["stages"]:
        seen += stage["num_slots"]
        part = windows * seen // slots - given
        given += part
        length = stage["num_slots"] + part
        stages.append(
            stage
            | {
                "until_tokens": (seen + given) * window,
                "num_slots": length,
                "sources": _of(stage["sources"], length) | {stream: _entry(part, length, window)},
            }
        )
    length = slots + windows
    available = {"tokens_available": tokens, "windows_available": windows, "tokens_repeated": 0, "epochs": 1.0}
    entry = _entry(windows, length, window) | available
    planted = {
        "stream": stream,
        "windows": windows,
        "tokens": windows * window,
        "share": windows / length,
        "before": mixture["tokens"],
    }
    text = (
        f"Stream '{stream}' is planted on top of the budget of {mixture['tokens']:,} tokens: {windows * window:,} tokens more, "
        f"{windows / length:.4g} of all that is drawn. Shares asked, and those in the other notes, are of the budget."
    )
    return {
        **mixture,
        "tokens": length * window,
        "num_slots": length,
        "planted": planted,
        "warnings": [*mixture["warnings"], text],
        "sources": dict(sorted((_of(mixture["sources"], length) | {stream: entry | {"cap_hit": False}}).items())),
        "stages": stages,
        "by_source": dict(sorted((_of(mixture["by_source"], length) | {stream: entry}).items())),
        "by_axis": {column: _of(groups, length) for column, groups in mixture["by_axis"].items()},
    }


def _of(rows: Mapping[str, Any], slots: int) -> dict[str, Any]:
    """Return rows with what they give as a share of so many windows."""
    return {name: row | {"weight_realised": row["windows_drawn"] / slots} for name, row in rows.items()}


def _entry(windows: int, slots: int, window: int) -> dict[str, Any]:
    return {
        "weight_asked": 0.0,
        "weight_normalised": 0.0,
        "tokens_asked": 0,
        "tokens_drawn": windows * window,
        "windows_drawn": windows,
        "weight_realised": windows / slots,
    }
