"""A stream that is planted into a mixture on top of its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from curate.errors import StageError


def with_planted(mixture: Mapping[str, Any], stream: str, tokens: int) -> dict[str, Any]:
    """Return a mixture in which every window of a stream is shown once, spread over the stages by their length.

    What the other streams give stays as it is: their windows, shares and order among themselves. `planted` says what was
    added, and `num_slots`, `tokens` and the ends of stages count it.

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
        entry = _entry(part, stage["num_slots"], window)
        stages.append(
            stage
            | {
                "until_tokens": (seen + given) * window,
                "num_slots": stage["num_slots"] + part,
                "sources": stage["sources"] | {stream: entry},
            }
        )
    available = {"tokens_available": tokens, "windows_available": windows, "tokens_repeated": 0, "epochs": 1.0}
    entry = _entry(windows, slots, window) | available | {"cap_hit": False}
    return {
        **mixture,
        "tokens": mixture["tokens"] + windows * window,
        "num_slots": slots + windows,
        "planted": {"stream": stream, "windows": windows, "tokens": windows * window, "before": mixture["tokens"]},
        "sources": dict(sorted((mixture["sources"] | {stream: entry}).items())),
        "stages": stages,
    }


def _entry(windows: int, slots: int, window: int) -> dict[str, Any]:
    return {
        "weight_asked": 0.0,
        "weight_normalised": 0.0,
        "tokens_asked": 0,
        "tokens_drawn": windows * window,
        "windows_drawn": windows,
        "weight_realised": windows / (slots + windows),
    }
