"""The scaling ladder: sizes trained at one multiple of tokens to parameters, and the power law through their losses.

    L(x) = E + A x^-alpha        x: training FLOPs

Tokens grow with the parameters (Hoffmann et al. 2022, arXiv:2203.15556: near 20 a parameter). The law is fitted as in its
appendix D.2: Huber loss of the residuals in log L, from many starts. Fewer than four sizes do not identify three numbers:
E is then 0 and the law a line in log-log.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from curate.tokens.order import Plan
from train import checkpoint, metrics, model
from train.config import PRESETS, ConfigError, Settings, TrainError, check_overrides, ladder, read_keys
from train.data import open_data
from train.stopping import DONE, INTERRUPTED, SAVED, check_writable

HUBER = 1e-3  # Hoffmann et al. 2022, appendix D.2
_BASE = "15m"  # the preset that the config of a shape names; its overrides say every number that differs
_SHAPE = ("layers", "dim", "heads", "kv_heads", "context", "micro_batch")
FEWEST_STEPS = 50  # below that a loss tells of the warm-up and little else
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Size:
    """One rung.

    Attributes:
        name: A preset's, or layers x width of a shape.
        preset, overrides: What the config of its runs says.
        settings: What they come to.
    """

    name: str
    preset: str
    overrides: Mapping[str, Any]
    settings: Settings


@dataclass(frozen=True, slots=True)
class LadderConfig:
    """A ladder's config file, read; paths as a run's config has them."""

    path: Path
    sizes: tuple[Size, ...]
    multiple: float
    count: Literal["all", "trunk"]
    seeds: tuple[int, ...]
    tokens: Path
    mixture: Path
    output: Path

    def parameters(self, settings: Settings, vocab_size: int) -> int:
        """Return the parameters that `multiple` counts."""
        return settings.trunk_parameters if self.count == "trunk" else settings.parameters(vocab_size)


@dataclass(frozen=True, slots=True)
class Law:
    """A fitted power law and how sure it is.

    Attributes:
        irreducible, scale, exponent: E, A, alpha of L = E + A (x / unit)^-alpha.
        unit: Geometric mean of x, so that A is the part above E in the middle of the ladder.
        free_irreducible: Whether E was fitted; else it is 0.
        sigma: Standard deviation of the residuals in log L, or None if no point is left over to tell.
        draws: E, A, alpha, sigma of each bootstrap draw, shape (B, 4); none without sigma.
    """

    irreducible: float
    scale: float
    exponent: float
    unit: float
    free_irreducible: bool
    sigma: float | None
    draws: Array

    def at(self, x: float) -> float:
        """Return the loss at x."""
        return self.irreducible + self.scale * float((x / self.unit) ** -self.exponent)

    def interval(self, column: int) -> tuple[float, float] | None:
        """Return the 95 % interval of E (0), A (1) or alpha (2)."""
        return None if self.sigma is None else _middle(self.draws[:, column])

    def prediction(self, x: float) -> tuple[float, float] | None:
        """Return the interval that holds the loss of one new run at x with 95 %: the law's doubt and a run's own noise."""
        if self.sigma is None:
            return None
        low, scale, exponent, sigma = self.draws.T
        noise = np.random.default_rng(1).normal(size=len(low)) * sigma
        return _middle((low + scale * (x / self.unit) ** -exponent) * np.exp(noise))


def fit(x: Sequence[float], losses: Sequence[float], *, draws: int = 400, seed: int = 0) -> Law:
    """Fit a power law and bootstrap it.

    The bootstrap is parametric: losses are drawn anew around the law with normal noise in log L and fitted again. The noise's
    own standard deviation comes from the residuals and is as uncertain as their few degrees of freedom make it (for the line
    in log-log the interval is Student's).

    Args:
        x: Of each run; runs of one size with several seeds have one x.
        losses: Of each run.
        draws: Bootstrap draws.
        seed: Of them.
    """
    points, logs = np.asarray(x, float), np.log(np.asarray(losses, float))
    sizes = len(np.unique(points))
    if sizes < 2:
        raise TrainError("a power law needs two sizes or more.")
    unit = float(np.exp(np.log(points).mean()))
    distance = np.log(points / unit)
    free = sizes >= 4
    starts = [(e, a) for e in (0.1, 0.5, 0.9) for a in (0.05, 0.2, 0.5)]
    if free:
        level = float(np.exp(logs.min()))
        tries = [_curve(distance, logs, (np.log(level * e), np.log(level * (1 - e) + 1e-9), a)) for e, a in starts]
        best, _ = min(tries, key=lambda one: one[1])
    else:
        best = _lines(distance, logs[None])[0]
    parameters = np.array(best)
    predicted = _log_law(parameters, distance)
    freedom = len(points) - (3 if free else 2)
    law = Law(*_plain(parameters, free), unit, free, None, np.empty((0, 4)))
    if freedom < 1:
        return law
    sigma = float(np.sqrt(((logs - predicted) ** 2).sum() / freedom))
    random = np.random.default_rng(seed)
    sigmas = sigma * np.sqrt(freedom / random.chisquare(freedom, draws))
    drawn = predicted + random.normal(size=(draws, len(points))) * sigmas[:, None]  # (B, P)
    start = tuple(parameters)
    again = np.array([_curve(distance, row, start)[0] for row in drawn]) if free else _lines(distance, drawn)
    table = np.array([(*_plain(row, free), s) for row, s in zip(again, sigmas, strict=True)])
    return dataclasses.replace(law, sigma=sigma, draws=table)


def _curve(distance: Array, logs: Array, start: tuple[float, ...]) -> tuple[Array, float]:
    """Return log E, log A, alpha of the Huber fit from one start, and its cost."""
    found = least_squares(
        lambda p: _log_law(p, distance) - logs, start, loss="huber", f_scale=HUBER, max_nfev=200,
        bounds=([-12.0, -12.0, -1.0], [6.0, 6.0, 4.0]),
    )  # fmt: skip
    return found.x, float(found.cost)


def _lines(distance: Array, logs: Array) -> Array:
    """Return -inf, log A, alpha of the least-squares line of each row of logs, shape (B, P)."""
    centred = distance - distance.mean()
    slope = logs @ centred / (centred @ centred)
    return np.stack((np.full(len(logs), -np.inf), logs.mean(1) - slope * distance.mean(), -slope), axis=1)


def _log_law(parameters: Array, distance: Array) -> Array:
    return np.asarray(np.logaddexp(parameters[0], parameters[1] - parameters[2] * distance))


def _plain(parameters: Array, free: bool) -> tuple[float, float, float]:
    return float(np.exp(parameters[0])) if free else 0.0, float(np.exp(parameters[1])), float(parameters[2])


def _middle(values: Array) -> tuple[float, float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def load(path: Path) -> LadderConfig:
    """Read a ladder's config file.

    Raises:
        ConfigError: All problems at once.
    """
    kinds = {
        "sizes": list[str | dict],  # type: ignore[type-arg]
        "multiple": float, "count": Literal["all", "trunk"], "seeds": list[int], "tokens": str,
        "mixture": str, "output": str, "overrides": dict,
    }  # fmt: skip
    raw, problems = read_keys(path, kinds, optional=("multiple", "count", "seeds", "output", "overrides"))
    overrides = raw.get("overrides", {})
    sizes: list[Size] = []
    if not problems:
        problems += check_overrides(overrides)
        if "max_tokens" in overrides:
            problems.append("overrides.max_tokens: follows from `multiple`. Leave it out.")
        if raw.get("multiple", 20) <= 0:
            problems.append(f"multiple: must be greater than 0, is {raw['multiple']}.")
        for one in raw["sizes"]:
            try:
                sizes.append(_size(one, overrides))
            except (ConfigError, TypeError, ValueError) as error:
                problems.append(f"sizes: {json.dumps(one)}: {error}")
        names = [one.name for one in sizes]
        if len(raw["sizes"]) < 2:
            problems.append(f"sizes: must be two or more, are {len(raw['sizes'])}.")
        problems += [
            f"sizes: {name} is there {n} times; they must differ." for name, n in Counter(names).items() if n > 1
        ]
    if problems:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    folder = path.parent
    return LadderConfig(
        path=path,
        sizes=tuple(sizes),
        multiple=raw.get("multiple", 20),
        count=raw.get("count", "all"),
        seeds=tuple(dict.fromkeys(raw.get("seeds", [0]))),
        tokens=folder / raw["tokens"],
        mixture=folder / raw["mixture"],
        output=folder / raw.get("output", "."),
    )


def _size(given: str | Mapping[str, int], overrides: Mapping[str, Any]) -> Size:
    if isinstance(given, str):
        if given not in PRESETS:
            raise ConfigError(f"unknown preset. Known: {', '.join(PRESETS)}.")
        return Size(given, given, overrides, dataclasses.replace(PRESETS[given], **overrides))
    missing, unknown = [key for key in _SHAPE[:3] if key not in given], sorted({*given} - {*_SHAPE})
    if missing or unknown:
        wrong = [f"is without {', '.join(missing)}"] * bool(missing) + [f"may not have {', '.join(unknown)}"] * bool(
            unknown
        )
        raise ConfigError(
            f"{'; '.join(wrong)}. A shape has {', '.join(_SHAPE[:3])}; it may have {', '.join(_SHAPE[3:])}. Another setting "
            "stands in `overrides`, for all sizes."
        )
    wrong = [f"{key} must be a whole number of at least 1, is {json.dumps(value)}" for key, value in given.items()
             if type(value) is not int or value < 1]  # fmt: skip
    if wrong:
        raise ConfigError(f"{'; '.join(wrong)}.")
    shape, base = dataclasses.asdict(ladder(**given)), dataclasses.asdict(PRESETS[_BASE])
    changed = {key: value for key, value in shape.items() if value != base[key]} | dict(overrides)
    name = f"{given['layers']}x{given['dim']}"
    return Size(name, _BASE, changed, dataclasses.replace(PRESETS[_BASE], **changed))


def run(config: LadderConfig, *, jobs: int = 1, predict: str | None = None) -> int:
    """Train what is not trained yet, write ladder.json, print the table; return the exit code."""
    check_writable(config.output)
    plan = Plan.load(config.mixture)
    first = open_data(config.tokens, config.mixture, dataclasses.replace(config.sizes[0].settings, max_tokens=None))
    vocab_size = model.padded_vocab_size(first.vocab_size)
    there = plan.num_slots * plan.window
    budgets = {one.name: round(config.multiple * config.parameters(one.settings, vocab_size)) for one in config.sizes}
    short = [f"{name} needs {tokens:,}" for name, tokens in budgets.items() if tokens > there]
    if short:
        raise TrainError(
            f"{config.mixture}: has {there:,} tokens; at {config.multiple:g} tokens a parameter ({config.count}) {', '.join(short)}. "
            "Raise mixture.tokens, lower `multiple`, or leave out sizes."
        )
    steps: dict[str, int] = {}
    for one in config.sizes:
        limited = dataclasses.replace(one.settings, max_tokens=budgets[one.name])
        try:
            steps[one.name] = open_data(config.tokens, config.mixture, limited).train.num_steps
        except TrainError as error:
            raise TrainError(f"{config.path}: size {one.name}, {budgets[one.name]:,} tokens: {error}") from error
    if warning := _too_short(steps):
        metrics.say(warning)  # before hours of training
    folders = [_prepare(config, one, seed, budgets[one.name]) for seed in config.seeds for one in config.sizes]
    code = _train([one for one in folders if not (one / "summary.json").exists()], jobs)
    if code != DONE:
        return code
    result = _collect(config, vocab_size, predict)
    checkpoint.write_json(config.output / "ladder.json", result)
    print(table(result))
    return DONE


def _prepare(config: LadderConfig, size: Size, seed: int, max_tokens: int) -> Path:
    """Write the config of one run; return its folder."""
    folder = config.output / size.name / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "preset": size.preset, "seed": seed, "output": ".",
        "tokens": os.path.relpath(config.tokens, folder), "mixture": os.path.relpath(config.mixture, folder),
        "overrides": {**size.overrides, "max_tokens": max_tokens},
    }  # fmt: skip
    path = folder / "config.json"
    if (folder / "summary.json").exists() and json.loads(path.read_text(encoding="utf-8")) != content:
        raise ConfigError(f"{folder}: is complete with another config.json. Choose another output, or empty this one.")
    checkpoint.write_json(path, content)
    return folder


def _train(folders: Sequence[Path], jobs: int) -> int:
    """Train in processes, `jobs` at a time; a signal is handed on, and nothing more is started."""
    waiting, running, stop = list(folders), dict[Path, subprocess.Popen[bytes]](), 0

    def receive(number: int, frame: FrameType | None) -> None:
        nonlocal stop
        del frame
        stop = INTERRUPTED if number == signal.SIGINT else SAVED
        for process in running.values():
            process.send_signal(number)

    before = {number: signal.signal(number, receive) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)}
    failed: tuple[Path, int] | None = None
    try:
        while running or (waiting and not stop):
            while waiting and not stop and len(running) < jobs:
                folder = waiting.pop(0)
                metrics.say(f"{folder}: {len(folders) - len(waiting)} of {len(folders)}")
                running[folder] = subprocess.Popen(
                    [sys.executable, "-m", "train", "run", str(folder / "config.json")],
                    env=os.environ | {"TRAIN_PARENT": str(os.getpid())}, start_new_session=True,
                )  # fmt: skip
            time.sleep(0.1)
            for folder, process in tuple(running.items()):
                if process.poll() is None:
                    continue
                del running[folder]
                if process.returncode in (SAVED, INTERRUPTED):
                    stop = stop or process.returncode
                elif process.returncode:
                    failed = failed or (folder, process.returncode)
                    stop = SAVED
                    for other in running.values():
                        other.terminate()  # saves
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if failed:
        raise TrainError(
            f"{failed[0]}: the trainer ended with {failed[1]}; what it said stands above. Start again to go on."
        )
    return stop or DONE


def _collect(config: LadderConfig, vocab_size: int, predict: str | None) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    for one, seed in itertools.product(config.sizes, config.seeds):
        summary = json.loads((config.output / one.name / str(seed) / "summary.json").read_text(encoding="utf-8"))
        counted = config.parameters(one.settings, vocab_size)
        scores = summary["validation"]
        runs.append(
            {
                "size": one.name, "seed": seed, "parameters": one.settings.parameters(vocab_size),
                "trunk_parameters": one.settings.trunk_parameters, "tokens": summary["tokens"],
                "steps": summary["steps"],
                "flops": model.flops_per_token(one.settings, vocab_size) * summary["tokens"],
                "flops_6nd": 6 * counted * summary["tokens"],
                "loss": float(np.mean([score["loss"] for score in scores.values()])) if scores else summary["last_loss"],
                "bits_per_byte": float(np.mean([score["bits_per_byte"] for score in scores.values()])) if scores else None,
                "sources": {name: score["bits_per_byte"] for name, score in scores.items()},
            }
        )  # fmt: skip
    law = fit([one["flops"] for one in runs], [one["loss"] for one in runs])
    alpha = law.interval(2)
    result: dict[str, Any] = {
        "multiple": config.multiple,
        "count": config.count,
        "runs": runs,
        "fit": {
            "form": "E + A (C/C0)^-alpha" if law.free_irreducible else "A (C/C0)^-alpha, E = 0",
            "of": "mean validation loss, nats per token" if runs[0]["sources"] else "last training loss",
            "C0": law.unit, "E": law.irreducible, "A": law.scale, "alpha": law.exponent, "sigma": law.sigma,
            "interval": {"E": law.interval(0) if law.free_irreducible else None, "A": law.interval(1), "alpha": alpha},
            "bootstrap": f"parametric, {len(law.draws)} draws" if law.sigma is not None else None,
            "can_tell": alpha is not None and alpha[0] > 0,
        },
    }  # fmt: skip
    if predict is not None:
        target = PRESETS[predict]
        tokens = round(config.multiple * config.parameters(target, vocab_size))
        flops = model.flops_per_token(target, vocab_size) * tokens
        value, interval = law.at(flops), law.prediction(flops)
        wide = interval is None or interval[1] - interval[0] > 0.2 * value  # wider than a tenth to either side
        result["prediction"] = {
            "size": predict, "tokens": tokens, "flops": flops, "loss": value, "interval": interval,
            "beyond": flops / max(one["flops"] for one in runs), "can_tell": not wide and result["fit"]["can_tell"],
        }  # fmt: skip
    return result


def table(result: Mapping[str, Any]) -> str:
    """Return ladder.json as a table and two sentences."""
    lines = [
        f"{'size':<10} {'seed':>4} {'parameters':>13} {'tokens':>14} {'FLOPs':>9} {'6ND':>9} {'loss':>8} {'bits/byte':>9}"
    ]
    for one in result["runs"]:
        bits = "" if one["bits_per_byte"] is None else f"{one['bits_per_byte']:.4f}"
        lines.append(
            f"{one['size']:<10} {one['seed']:>4} {one['parameters']:>13,} {one['tokens']:>14,} {one['flops']:>9.2e} "
            f"{one['flops_6nd']:>9.2e} {one['loss']:>8.4f} {bits:>9}  "
            + ", ".join(f"{name} {value:.4f}" for name, value in one["sources"].items())
        )
    law = result["fit"]
    lines.append(
        f"loss = {law['form']}: E {law['E']:.4g}{_between(law['interval']['E'])}, A {law['A']:.4g}{_between(law['interval']['A'])}, "
        f"alpha {law['alpha']:.4g}{_between(law['interval']['alpha'])}, C0 {law['C0']:.3e} FLOPs"
    )
    if warning := _too_short({one["size"]: one["steps"] for one in result["runs"]}):
        lines.append(warning)
    if not law["can_tell"]:
        lines.append(
            "cannot tell: the interval of alpha is unknown or holds 0. More sizes, further apart, or more seeds."
        )
    if law["E"] == 0:
        lines.append("E is fixed at 0: fewer than four sizes do not tell it; a far prediction is then too low.")
    if "prediction" in result:
        one = result["prediction"]
        verdict = "" if one["can_tell"] else "cannot tell: "
        lines.append(
            f"{one['size']}, {one['tokens']:,} tokens, {one['flops']:.2e} FLOPs ({one['beyond']:,.1f} times the largest run): "
            f"{verdict}loss {one['loss']:.4f}{_between(one['interval'])}"
        )
    return "\n".join(lines)


def _too_short(steps: Mapping[str, int]) -> str:
    """Return a warning that names the sizes of few steps, or nothing."""
    few = [f"{name} ({count:,} step{'s' * (count != 1)})" for name, count in steps.items() if count < FEWEST_STEPS]
    remedy = "raise `multiple`, or lower `batch_tokens` in `overrides`"
    return f"too short to mean anything: {', '.join(few)}, fewer than {FEWEST_STEPS} steps; {remedy}." if few else ""


def _between(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f" (95 %: {interval[0]:.4g} to {interval[1]:.4g})"
