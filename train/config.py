"""What a training run is told: the config file, the presets, and every setting with its range.

Nothing here imports torch, so that `python -m train --help` starts at once and the thread settings can be put into the
environment before torch reads it.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import json
import math
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal


class TrainError(Exception):
    """Something that the user can act on: what is wrong, and the remedy. `exit_code` is what the command returns."""

    exit_code = 1


class ConfigError(TrainError):
    """A config file or a command line that cannot work."""

    exit_code = 2


class RangeError(ValueError):
    """Settings that cannot be: all problems, each `name: what is wrong`."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return " ".join(self.problems)


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a setting may be; null and words are for its type to refuse."""

    wanted: str
    holds: Callable[[float], bool]

    def problem(self, name: str, value: object) -> str | None:
        """Return what is wrong with a value of the right type, or None."""
        fits = not isinstance(value, int | float) or self.holds(value)
        return None if fits else f"{name}: must be {self.wanted}, is {value}."


COUNT = Range("at least 1", lambda value: value >= 1)
POSITIVE = Range("greater than 0", lambda value: value > 0)
NOT_NEGATIVE = Range("at least 0", lambda value: value >= 0)
SHARE = Range("between 0 and 1", lambda value: 0 <= value <= 1)
BELOW_ONE = Range("at least 0 and below 1", lambda value: 0 <= value < 1)
THREADS = Range("between 1 and 1024 (OpenMP crashes where it cannot start them all)", lambda value: 1 <= value <= 1024)
SKIP_WINDOW = Range("between 4 and 1,000,000 (the guard keeps them all)", lambda value: 4 <= value <= 1_000_000)


def refuse_out_of_range(settings: Any) -> None:
    """Refuse settings of which any is out of its range, with all that are.

    Raises:
        RangeError: If one is.
    """
    ranges: Mapping[str, Range] = settings.ranges
    found = (one.problem(name, getattr(settings, name)) for name, one in ranges.items())
    if problems := [problem for problem in found if problem is not None]:
        raise RangeError(problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """A preset with its overrides. Every field may stand in `overrides` of a config file.

    Attributes:
        layers, dim, heads, kv_heads, ffn_dim: Shape of the decoder. `kv_heads` divides `heads` (grouped-query attention).
        context: Tokens of one sequence.
        rope_base: Wavelength base of the rotary embedding.
        norm_eps: Added to the mean square in RMSNorm.
        tied: Whether the output head shares the embedding's matrix.
        qk_norm: Whether queries and keys are normalised per head before the rotation.
        lr: Peak learning rate.
        min_lr_ratio: Learning rate at the end of the schedule, as a share of the peak.
        schedule: `wsd` (constant, then 1 - sqrt decay), `wsd-s` (wsd with more decays on the way, after each of which it goes on
            at the full rate) or `cosine`.
        decay_fraction: Share of the steps that a decay takes; of `wsd-s`: of those since the last decay.
        decay_points: Where the decays of `wsd-s` end besides the run's end, rising: shares of the run (up to 1), or tokens. There
            the run is evaluated and saved, and the checkpoint stays.
        warmup_tokens: Tokens of the linear warm-up; never more than a tenth of the run.
        weight_decay: Decoupled (times the learning rate), at least 0; on the matrices of the trunk alone.
        optimizer: `adamw`, or `muon`: Muon for the matrices of the trunk and AdamW for the rest, with one learning rate.
        beta1, beta2, adam_eps: AdamW's constants; the first two at least 0 and below 1.
        momentum: Muon's constant, at least 0 and below 1: the weight of the gradients so far against the new one.
        clip: Largest L2 norm of the gradient, over all parameters; a longer one is shortened to it.
        z_loss: Coefficient of the mean log^2 Z (Chowdhery et al. 2022, arXiv:2204.02311, section 5; 1e-4 there); the
            reported loss is without it.
        document_mask: Whether a token attends to its own document only.
        max_tokens: Train on the first so many tokens of the mixture, rounded down to whole batches; null: on all of it. The
            schedule ends there.
        batch_tokens: Target tokens of one step. The batch is the nearest whole number of windows, at least one.
        batch_windows: Windows of one step; null: from `batch_tokens` and the mixture's window.
        micro_batch: Sequences of one forward pass; `probe`: as many as train fastest, found at the start. Changes memory and
            speed; the result only by rounding.
        eval_batch: Sequences of one forward pass in evaluation, if they are as long as the context; shorter ones are more.
        log_every, eval_every, save_every: In steps. The last step is always logged, evaluated and saved.
        tasks_every: In steps: how often tasks are measured; null: after the last step alone.
        keep_last: Newest checkpoints kept.
        keep_every: Every so many steps a checkpoint is saved and kept for good; null: none is.
        skip_sigma: A step whose loss or gradient norm lies more than so many standard deviations above the mean of the last
            `skip_window` steps is left out; null: only steps that are not finite are.
        skip_window: In steps.
        max_skips: So many skipped steps within `skip_window` make the run go back to the last checkpoint before them, and go on
            behind them.
        max_rollbacks: The run fails after so many.
        loggers: Dashboards that get every line of metrics.jsonl and timings.jsonl too; each needs the extra of its name.
        max_minutes: Save and exit with code 85 after so many minutes; null: no limit.
        threads: CPU threads. From the preset, never from the machine: sums depend on it.
        device: `auto` takes CUDA if there is a GPU.
        precision: `auto` is bfloat16 on CUDA (autocast; weights stay float32) and float32 on the CPU.
        compile: Whether torch.compile is used; `auto` on CUDA only.
        parallel: With several processes (torchrun): `ddp` keeps the whole model on each, `fsdp` a part of it; `auto` is ddp
            unless weights, gradients and moments would take more than 0.4 of a GPU's memory.
    """

    layers: int
    dim: int
    heads: int
    kv_heads: int
    ffn_dim: int
    context: int
    lr: float
    warmup_tokens: int
    batch_tokens: int
    rope_base: float = 10_000.0  # Su et al. 2021, arXiv:2104.09864
    norm_eps: float = 1e-5
    tied: bool = False
    qk_norm: bool = True
    min_lr_ratio: float = 0.0
    schedule: Literal["wsd", "wsd-s", "cosine"] = "wsd"
    decay_fraction: float = 0.2  # Haegele et al. 2024, arXiv:2405.18392: 20 % with 1 - sqrt equals a tuned cosine
    decay_points: list[float] | None = None
    weight_decay: float = 0.1  # OLMo-core model ladder
    optimizer: Literal["adamw", "muon"] = "adamw"
    beta1: float = 0.9
    beta2: float = 0.99
    adam_eps: float = 1e-8
    momentum: float = 0.95  # Jordan et al. 2024, Muon
    clip: float = 1.0
    z_loss: float = 0.0
    document_mask: bool = False
    max_tokens: int | None = None
    batch_windows: int | None = None
    micro_batch: int | Literal["probe"] = 16
    eval_batch: int = 16
    log_every: int = 10
    eval_every: int = 500
    save_every: int = 500
    tasks_every: int | None = None
    keep_last: int = 2
    keep_every: int | None = None
    skip_sigma: float | None = 6.0  # OLMo-core's SkipStepOptimizer: six sigma over 128 steps
    skip_window: int = 128
    max_skips: int = 10
    max_rollbacks: int = 3
    loggers: list[Literal["tensorboard", "wandb", "trackio"]] = dataclasses.field(default_factory=list)
    max_minutes: float | None = None
    threads: int = 4
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: Literal["auto", "on", "off"] = "auto"
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"

    ranges: ClassVar[Mapping[str, Range]] = types.MappingProxyType(
        {
            **dict.fromkeys(
                ("layers", "dim", "heads", "kv_heads", "ffn_dim", "context", "batch_tokens", "eval_batch"), COUNT
            ),
            **dict.fromkeys(("log_every", "eval_every", "save_every", "keep_last", "max_skips", "micro_batch"), COUNT),
            **dict.fromkeys(("max_tokens", "batch_windows", "tasks_every", "keep_every"), COUNT),
            **dict.fromkeys(("lr", "rope_base", "norm_eps", "adam_eps", "clip", "skip_sigma"), POSITIVE),
            **dict.fromkeys(("weight_decay", "warmup_tokens", "max_rollbacks", "z_loss", "max_minutes"), NOT_NEGATIVE),
            **dict.fromkeys(("min_lr_ratio", "decay_fraction"), SHARE),
            **dict.fromkeys(("beta1", "beta2", "momentum"), BELOW_ONE),
            "threads": THREADS,
            "skip_window": SKIP_WINDOW,
        }
    )

    def __post_init__(self) -> None:
        refuse_out_of_range(self)
        points, on = self.decay_points, self.schedule == "wsd-s"
        rising = all(first < second for first, second in itertools.pairwise([0, *(points or [])]))
        alike = len({point <= 1 for point in points or []}) < 2
        relations = [
            ("decay_points", bool(points) == on, "a list of points" if on else "null unless schedule is wsd-s"),
            ("decay_points", rising, "greater than 0 and rising"),
            ("decay_points", alike, "all shares of the run (up to 1) or all tokens"),
            ("heads", self.dim % self.heads == 0, f"a divisor of dim = {self.dim}"),
            ("heads", self.head_dim % 2 == 0, "such that dim / heads is even (rotary embedding)"),
            ("kv_heads", self.heads % self.kv_heads == 0, f"a divisor of heads = {self.heads}"),
        ]
        if problems := [
            f"{name}: must be {wanted}, is {getattr(self, name)}." for name, holds, wanted in relations if not holds
        ]:
            raise RangeError(problems)

    @property
    def head_dim(self) -> int:
        """Return the width of one attention head."""
        return self.dim // self.heads

    @property
    def trunk_parameters(self) -> int:
        """Return the number of parameters without embedding and head: the size that presets are named after."""
        attention = self.dim * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        norms = 2 * self.dim + (2 * self.head_dim if self.qk_norm else 0)
        return self.layers * (attention + 3 * self.dim * self.ffn_dim + norms) + self.dim

    def parameters(self, vocab_size: int) -> int:
        """Return the number of parameters with an embedding (and head) of `vocab_size` rows."""
        return self.trunk_parameters + vocab_size * self.dim * (1 if self.tied else 2)


# Settings that a run may change between two starts: they say how it runs, not what it computes (micro_batch, parallel:
# but for the rounding of sums).
FREE_SETTINGS = frozenset(
    {"max_minutes", "save_every", "keep_last", "keep_every", "max_skips", "micro_batch", "parallel", "loggers"}
)


def settings_of(identity: Mapping[str, Any]) -> Settings:
    """Return the settings that a checkpoint was made with, from the identity in its state; free ones are the defaults."""
    return Settings(**{one.name: identity[one.name] for one in dataclasses.fields(Settings) if one.name in identity})


def ladder(
    *, layers: int, dim: int, heads: int, kv_heads: int | None = None, micro_batch: int = 16, context: int = 2048
) -> Settings:
    """Return settings for a decoder of this shape: every other number follows from the size N of the trunk.

    Peak learning rate 0.0047 (N / 108M)^(-1/3) / 2, batch 2048 * 160 (N / 108M)^(2/3) tokens (rounded to whole micro
    batches), warm-up N tokens, weight decay 0.1, beta2 0.99 below 524,288 tokens per batch, else 0.95: the model ladder
    of OLMo-core (`wsds_chinchilla_run_configurator.py`). The MLP is 8/3 of the width (Shazeer 2020, arXiv:2002.05202),
    rounded up to a multiple of 128.
    """
    ffn_dim = math.ceil(8 * dim / 3 / 128) * 128
    shape = Settings(
        layers=layers, dim=dim, heads=heads, kv_heads=kv_heads or heads, ffn_dim=ffn_dim, context=context,
        lr=1.0, warmup_tokens=0, batch_tokens=context, micro_batch=micro_batch,
    )  # fmt: skip
    size = shape.trunk_parameters
    ratio = size / 108e6
    tokens_per_pass = micro_batch * context
    batch_tokens = max(1, round(2048 * 160 * ratio ** (2 / 3) / tokens_per_pass)) * tokens_per_pass
    return dataclasses.replace(
        shape,
        lr=0.0047 * ratio ** (-1 / 3) / 2,
        batch_tokens=batch_tokens,
        warmup_tokens=size,
        beta2=0.99 if batch_tokens < 524_288 else 0.95,
    )


# Named after the parameters of the trunk (demo-1m: of the whole model with the demo's vocabulary of 4,096).
PRESETS: Mapping[str, Settings] = types.MappingProxyType(
    {
        # A demonstration, not evidence: a million tokens in about two and a half minutes on one CPU thread. The ladder's
        # formulas do not reach this far down: with their batch of 10,000 tokens a million are gone after 97 steps. Batch
        # and rate were chosen by validation loss on books and code (1024 tokens: 0.4 nats below 4096; 2e-3 below 4e-3, 8e-3).
        "demo-1m": Settings(
            layers=4, dim=128, heads=4, kv_heads=2, ffn_dim=352, context=128, tied=True, qk_norm=False,
            lr=2e-3, warmup_tokens=50_000, batch_tokens=1024, micro_batch=8, eval_batch=8,
            log_every=10, eval_every=200, save_every=200, threads=1,
        ),
        "15m": ladder(layers=8, dim=384, heads=6, micro_batch=48),
        "30m": ladder(layers=10, dim=512, heads=8, micro_batch=32),
        "60m": ladder(layers=12, dim=640, heads=10),
        "150m": ladder(layers=16, dim=896, heads=14),
        "400m": ladder(layers=20, dim=1280, heads=20),
        "1b": ladder(layers=22, dim=2048, heads=16, kv_heads=4),
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """A config file, read: which preset, which seed, which data, where to write.

    Attributes:
        path: The config file.
        preset: Name in `PRESETS`.
        seed: Seeds the initial weights. Order and mixture have their own seeds, which the mixture file carries.
        tokens: Folder with one folder of token shards per source.
        mixture: The mixture file: which window of which source is trained on when.
        output: Folder that the run writes to.
        answers: A file of gold answers to measure (`curate.tokens.answers`), or None.
        tasks: A file of items of tasks to measure (`curate.tokens.tasks`), or None.
        overrides: Settings that differ from the preset.
        settings: The preset with its overrides.
    """

    path: Path
    preset: str
    seed: int
    tokens: Path
    mixture: Path
    output: Path
    answers: Path | None
    overrides: Mapping[str, Any]
    settings: Settings
    tasks: Path | None = None


def load(path: str | Path) -> RunConfig:
    """Read a config file (JSON). Its paths are relative to its own folder.

    Raises:
        ConfigError: If the file cannot be read, holds an unknown key, or a value of wrong type or out of range; all
            problems at once.
    """
    path = Path(path)
    kinds = {
        "preset": str,
        "seed": int,
        "tokens": str,
        "mixture": str,
        "output": str,
        "answers": str,
        "tasks": str,
        "overrides": dict,
    }
    raw, problems = read_keys(path, kinds, optional=("seed", "output", "answers", "tasks", "overrides"))
    preset = raw.get("preset")
    if isinstance(preset, str) and preset not in PRESETS:
        problems.append(_unknown(preset, PRESETS, what="preset"))
    overrides = raw.get("overrides", {})
    if isinstance(overrides, dict):
        problems += check_overrides(overrides)
    if not problems:
        try:
            settings = dataclasses.replace(PRESETS[raw["preset"]], **overrides)
        except RangeError as error:
            problems += [f"overrides.{problem}" for problem in error.problems]
    if problems:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    folder = path.parent
    return RunConfig(
        path=path,
        preset=raw["preset"],
        seed=raw.get("seed", 0),
        tokens=folder / raw["tokens"],
        mixture=folder / raw["mixture"],
        output=folder / raw.get("output", "."),
        answers=folder / raw["answers"] if "answers" in raw else None,
        tasks=folder / raw["tasks"] if "tasks" in raw else None,
        overrides=types.MappingProxyType(overrides),
        settings=settings,
    )


def read_keys(path: Path, kinds: Mapping[str, Any], *, optional: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the object in a config file, and what is wrong with its keys: unknown, missing, of wrong type, a seed out of range.

    Args:
        path: The file.
        kinds: Type of each key, as an annotation says it.
        optional: Keys that may be left out.

    Raises:
        ConfigError: If the file cannot be read, or holds no JSON object.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}). Give the config.json of a run.") from error
    except ValueError as error:
        raise ConfigError(f"{path}: is not JSON ({error}).") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: must be a JSON object, is a {type(raw).__name__}.")
    problems = [_unknown(key, kinds) for key in raw if key not in kinds]
    for key, kind in kinds.items():
        if key not in raw:
            if key not in optional:
                problems.append(f"{key}: is missing.")
        elif not _fits(raw[key], kind):
            problems.append(f"{key}: must be {_describe(kind)}, is {json.dumps(raw[key])}.")
    seed = raw.get("seed")
    if type(seed) is int and not 0 <= seed < 2**63:
        problems.append(f"seed: must be between 0 and 2^63 - 1, is {seed}.")
    return raw, problems


def check_overrides(overrides: Mapping[str, Any], settings: Any = Settings) -> list[str]:
    """Return what is wrong with names, types and ranges of `overrides` of `settings`; an empty list if nothing is."""
    types_of = typing.get_type_hints(settings)
    hints = {field.name: types_of[field.name] for field in dataclasses.fields(settings)}
    ranges: Mapping[str, Range] = settings.ranges
    problems = []
    for key, value in overrides.items():
        if key not in hints:
            problems.append(_unknown(key, hints, prefix="overrides."))
        elif not _fits(value, hints[key]):
            wanted = f"must be {_describe(hints[key])}, is {json.dumps(value)}."
            problems.append(f"overrides.{key}: {wanted}{_written_out(value, hints[key])}")
        elif key in ranges and (problem := ranges[key].problem(key, value)) is not None:
            problems.append(f"overrides.{problem}")
    return problems


def _written_out(value: object, hint: Any) -> str:
    """Return the number to write instead of a size such as `60k`, which recipes take for their own keys."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgbt]?)", value.lower()) if isinstance(value, str) else None
    if match is None:
        return ""
    number = float(match[1]) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}[match[2]]
    return next((f" Write {one}." for one in (round(number), number) if one == number and _fits(one, hint)), "")


def _fits(value: object, hint: Any) -> bool:
    if typing.get_origin(hint) is Literal:
        return isinstance(value, str) and value in typing.get_args(hint)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(item, *typing.get_args(hint)) for item in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return type(value) is hint


def _describe(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(typing.get_args(hint))
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return " or ".join(_describe(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is list:
        return f"a list, each item {_describe(*typing.get_args(hint))}"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", type(None): "null",
             dict: "an object"}  # fmt: skip
    return names[hint]


def _unknown(key: str, known: Mapping[str, Any], *, what: str = "key", prefix: str = "") -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"Nearest known: {near[0]}." if near else f"Known: {', '.join(known)}."
    return f"{prefix}{key}: unknown {what}. {hint}"
