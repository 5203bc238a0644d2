"""Loss curves of the training seeds: smoothed, thinned, and with the band that the seeds span."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from curate.report.run import RunFolder
from curate.report.tasks import tasks

MAX_POINTS = 240  # of one curve: more than a chart's width can show
SMOOTHING_SHARE = 50  # the window of the moving mean is one fiftieth of the logged steps


def training(run: RunFolder) -> dict[str, Any] | None:
    """Return the curves of all seeds; None if nothing was trained.

    Losses are in nats per token. A smoothed loss is the mean of the last `smoothing` logged steps.
    """
    losses: dict[str, dict[int, tuple[int, float]]] = {}
    validation: dict[str, dict[str, dict[int, Mapping[str, float]]]] = {}
    for seed in run.seeds():
        losses[seed] = {}
        for row in run.json_lines(
            f"train/{seed}/metrics.jsonl"
        ):  # after a resume a step may stand twice: the last holds
            step = int(row.get("step", 0))
            if _finite(row.get("loss")) is not None:
                losses[seed][step] = (int(row.get("tokens", 0)), float(row["loss"]))
            for source, measured in (row.get("validation") or {}).items():
                if isinstance(measured, Mapping):
                    validation.setdefault(source, {}).setdefault(seed, {})[step] = measured
    if not any(losses.values()) and not validation:
        return None
    order = {source: place for place, source in enumerate(run.sources)}
    window = max(1, min((len(rows) for rows in losses.values() if rows), default=1) // SMOOTHING_SHARE)
    smoothed = {seed: smooth(rows, window) for seed, rows in losses.items() if rows}
    return {
        "smoothing": window,
        "model": _model(run.json(f"train/{next(iter(losses))}/summary.json")),
        "seeds": [_seed(seed, losses[seed], smoothed.get(seed, [])) for seed in losses],
        "answers": {
            seed: answers for seed in losses if (answers := run.json(f"train/{seed}/summary.json").get("answers"))
        },
        "tasks": tasks(run, losses),
        "band": thin(band({seed: {int(point[0]): point[2] for point in points} for seed, points in smoothed.items()})),
        "validation": {
            source: _validation(seeds)
            for source, seeds in sorted(validation.items(), key=lambda item: order.get(item[0], len(order)))
        },
    }


def smooth(rows: Mapping[int, tuple[int, float]], window: int) -> list[list[float]]:
    """Return [step, tokens, mean loss of the last `window` logged steps] in step order."""
    steps = sorted(rows)
    points: list[list[float]] = []
    for index, step in enumerate(steps):
        recent = [rows[earlier][1] for earlier in steps[max(0, index + 1 - window) : index + 1]]
        points.append([step, rows[step][0], math.fsum(recent) / len(recent)])
    return points


def thin(points: Sequence[list[float]], most: int = MAX_POINTS) -> list[list[float]]:
    """Return at most `most` of the points, evenly spaced, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(index * (len(points) - 1) / (most - 1))] for index in range(most)]


def band(curves: Mapping[str, Mapping[int, float]]) -> list[list[float]]:
    """Return [step, mean, lowest, highest] at the steps that all curves have; empty for fewer than two curves."""
    if len(curves) < 2:
        return []
    common = set.intersection(*(set(curve) for curve in curves.values()))
    points: list[list[float]] = []
    for step in sorted(common):
        values = [curve[step] for curve in curves.values()]
        points.append([step, math.fsum(values) / len(values), min(values), max(values)])
    return points


def _model(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return what all seeds share, as the first one's summary says it."""
    return {
        name: summary[name] for name in ("preset", "parameters", "device", "precision", "compile") if name in summary
    }


def _seed(seed: str, rows: Mapping[int, tuple[int, float]], points: Sequence[list[float]]) -> dict[str, Any]:
    return {
        "seed": seed,
        "steps": max(rows, default=0),
        "tokens": max((tokens for tokens, _ in rows.values()), default=0),
        "first_loss": points[0][2] if points else None,
        "last_loss": points[-1][2] if points else None,
        "points": thin(points),
    }


def _validation(seeds: Mapping[str, Mapping[int, Mapping[str, float]]]) -> dict[str, Any]:
    curves: dict[str, dict[int, float]] = {}
    for seed, rows in seeds.items():
        values = {step: _finite(row.get("bits_per_byte")) for step, row in rows.items()}
        curves[seed] = {step: value for step, value in sorted(values.items()) if value is not None}
    finals = {
        name: [value for rows in seeds.values() if rows and (value := _finite(rows[max(rows)].get(name))) is not None]
        for name in ("bits_per_byte", "loss", "perplexity")
    }
    return {
        "seeds": [
            {"seed": seed, "points": thin([[step, value] for step, value in curve.items()])}
            for seed, curve in curves.items()
        ],
        "band": thin(band(curves)),
        "final": {
            name: {
                "mean": statistics.fmean(values) if values else None,
                "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
                "seeds": len(values),
            }
            for name, values in finals.items()
        },
    }


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
