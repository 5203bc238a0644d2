"""What a tuning run is told: the checkpoint to start from, the examples, and every setting with its range; no torch."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from train.config import (
    BELOW_ONE,
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    THREADS,
    ConfigError,
    Range,
    check_overrides,
    read_keys,
    refuse_out_of_range,
)

_HELP = """\
Tunes a trained model on the examples of CONFIG, a JSON file:

  {{"checkpoint": "../../train/0", "data": ["{data}.jsonl"], "validation": 0.05, "seed": 0, "output": ".",
   "overrides": {{"lr": {lr:g}, "epochs": 2}}}}

Paths are relative to CONFIG. `checkpoint` is the folder of a checkpoint, or of a run, whose newest one is taken. `data` are
files of JSON Lines (.gz too), with
  {rows}
in each line. `validation` is such a file, or the share of prompts to set aside. `seed` is 0, and
`tokenizer` that of the run folder, unless given. `answers` and `tasks` are as in `run`; both are measured before the first
step too.

{loss}
`overrides` may hold these settings (in brackets: what they are otherwise):

{settings}

It goes on from the newest checkpoint in the output, bit for bit on the CPU. The output is that of `run`, and its checkpoints
are used like those of `run`; besides, if there is something to say in them:
  {files}
Exit codes as in `run`.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningSettings:
    """What both kinds of tuning can be told in `overrides`; the shape of the model is the checkpoint's.

    Attributes:
        epochs: Times that every example is seen.
        steps: Steps of the run instead of `epochs`; null: from `epochs`.
        batch_examples: Examples of one step; the last batch of an epoch has what is left. A prompt with its chosen and its
            rejected response is one example.
        micro_batch: Examples of one forward pass. Changes memory and speed; the result only by rounding.
        template: How a row becomes text. `chat` writes turns: `User: `, the prompt and an empty line; then `Assistant: `, the
            response and the end mark. `none` puts the response behind the prompt as both stand, then the end mark.
        max_skipped: Largest share of rows, 0 to 1, that may be skipped because nothing can be learned from them: an empty
            response, one that is longer than the context, or chosen and rejected alike. With more the run is refused.
        lr: Peak learning rate.
        schedule: How the rate falls from the peak: `cosine`, or `wsd` (constant, then 1 - sqrt decay).
        warmup_fraction: Share of the steps that the linear warm-up takes.
        min_lr_ratio: Learning rate at the end, as a share of the peak.
        decay_fraction: Share of the steps that the decay of `wsd` takes.
        weight_decay: AdamW's, times the learning rate; on the matrices of the trunk alone.
        beta1, beta2, adam_eps: AdamW's constants.
        clip: Largest L2 norm of the gradient, over all parameters; a longer one is shortened to it.
        eval_batch: Examples of one forward pass in evaluation.
        log_every, eval_every, save_every: In steps: how often losses are logged, the examples set aside are measured, and a
            checkpoint is saved. The last step always is.
        keep_last: Newest checkpoints kept.
        max_minutes: Save and exit with code 85 after so many minutes; null: no limit.
        threads: CPU threads; sums depend on it.
        device: `auto` takes CUDA if there is a GPU; or `cpu`, `cuda`.
        precision: `auto` is bfloat16 on CUDA and float32 on the CPU; or `float32`, `bfloat16`.
    """

    name: ClassVar[str]
    purpose: ClassVar[str]

    epochs: int = 2
    steps: int | None = None
    batch_examples: int = 32
    micro_batch: int = 8
    template: Literal["chat", "none"] = "chat"
    max_skipped: float = 0.1
    lr: float = 1e-3
    schedule: Literal["cosine", "wsd"] = "cosine"
    warmup_fraction: float = 0.1
    min_lr_ratio: float = 0.0
    decay_fraction: float = 0.2
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    adam_eps: float = 1e-8
    clip: float = 1.0
    eval_batch: int = 16
    log_every: int = 10
    eval_every: int = 100
    save_every: int = 100
    keep_last: int = 2
    max_minutes: float | None = None
    threads: int = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"

    ranges: ClassVar[Mapping[str, Range]] = types.MappingProxyType(
        {
            **dict.fromkeys(("epochs", "steps", "batch_examples", "micro_batch", "eval_batch"), COUNT),
            **dict.fromkeys(("log_every", "eval_every", "save_every", "keep_last"), COUNT),
            **dict.fromkeys(("lr", "adam_eps", "clip"), POSITIVE),
            **dict.fromkeys(("max_skipped", "warmup_fraction", "min_lr_ratio", "decay_fraction"), SHARE),
            **dict.fromkeys(("beta1", "beta2"), BELOW_ONE),
            **dict.fromkeys(("weight_decay", "max_minutes"), NOT_NEGATIVE),
            "threads": THREADS,
        }
    )

    def __post_init__(self) -> None:
        refuse_out_of_range(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class SftSettings(TuningSettings):
    """Supervised fine-tuning. Rate, epochs, warm-up and schedule are those of SmolLM2-360M (alignment-handbook)."""

    name: ClassVar[str] = "sft"
    purpose: ClassVar[str] = "tune a trained model on responses"


@dataclass(frozen=True, kw_only=True, slots=True)
class DpoSettings(TuningSettings):
    """Direct preference optimisation. Epochs, rate and warm-up as for SmolLM2-360M (alignment-handbook).

    Attributes:
        beta: Weight of the distance to the reference (Rafailov et al. 2023, arXiv:2305.18290, section 6).
        label_smoothing: Assumed share of pairs whose preference is the wrong way round; 0 is the paper's loss.
    """

    name: ClassVar[str] = "dpo"
    purpose: ClassVar[str] = "tune a trained model on preferences"

    lr: float = 1e-6
    beta: float = 0.1
    label_smoothing: float = 0.0

    ranges: ClassVar[Mapping[str, Range]] = types.MappingProxyType(
        {
            **TuningSettings.ranges,
            "beta": POSITIVE,
            "label_smoothing": Range("at least 0 and below 0.5", lambda value: 0 <= value < 0.5),
        }
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningConfig:
    """A config file, read.

    Attributes:
        path: The config file.
        checkpoint: Where to start: the folder of a checkpoint, or of a run, whose newest good one is taken.
        tokenizer: Its folder or file; None: the one in a folder above the checkpoint.
        data: Files of examples, by what the config calls them.
        validation: A file of examples, the share of `data` to set aside, or None.
        answers, tasks: Files of gold answers and of items of tasks to measure, as in pretraining, or None.
        seed: Of the order of examples, and of which ones are set aside.
        output: Folder that the run writes to.
        overrides: Settings that differ from the defaults.
        settings: The defaults with `overrides`.
    """

    path: Path
    checkpoint: Path
    tokenizer: Path | None
    data: Mapping[str, Path]
    validation: Path | float | None
    answers: Path | None
    tasks: Path | None
    seed: int
    output: Path
    overrides: Mapping[str, Any]
    settings: TuningSettings

    @classmethod
    def load(cls, path: str | Path, kind: type[TuningSettings]) -> Self:
        """Read a config file (JSON). Its paths are relative to its own folder.

        Raises:
            ConfigError: With all that is wrong, at once.
        """
        path = Path(path)
        kinds = {
            "checkpoint": str, "tokenizer": str, "data": list[str], "validation": str | float, "answers": str, "tasks": str,
            "seed": int, "output": str, "overrides": dict,
        }  # fmt: skip
        raw, problems = read_keys(
            path, kinds, optional=("tokenizer", "validation", "answers", "tasks", "seed", "output", "overrides")
        )
        data, validation, overrides = raw.get("data"), raw.get("validation"), raw.get("overrides", {})
        if data == []:
            problems.append("data: must name at least one file.")
        if isinstance(validation, int | float) and not 0 < validation < 1:
            problems.append(f"validation: a share must be greater than 0 and below 1, is {validation}.")
        if isinstance(overrides, dict):
            problems += check_overrides(overrides, kind)
        if not problems:
            problems += _absent(path.parent, raw)
        if problems:
            raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
        folder = path.parent
        return cls(
            path=path,
            checkpoint=folder / raw["checkpoint"],
            tokenizer=folder / raw["tokenizer"] if "tokenizer" in raw else None,
            data=types.MappingProxyType({name: folder / name for name in raw["data"]}),
            validation=folder / validation if isinstance(validation, str) else validation,
            answers=folder / raw["answers"] if "answers" in raw else None,
            tasks=folder / raw["tasks"] if "tasks" in raw else None,
            seed=raw.get("seed", 0),
            output=folder / raw.get("output", "."),
            overrides=types.MappingProxyType(overrides),
            settings=kind(**overrides),
        )


# Settings that may change between two starts of a tuning run: they say how it runs, not what it computes.
FREE_SETTINGS = frozenset({"max_minutes", "save_every", "keep_last", "micro_batch", "max_skipped"})


def describe(kind: type[TuningSettings]) -> str:
    """Return the help text of a command."""
    parts = {
        "sft": {
            "data": "pairs",
            "rows": '{"prompt": ..., "response": ...}, or {"messages": [{"role": ..., "content": ...}, ...]},',
            "loss": "The loss is the mean over the tokens of all responses of a batch, their end marks included.",
            "files": "skipped.json   rows that cannot be trained on",
        },
        "dpo": {
            "data": "preferences",
            "rows": '{"prompt": ..., "chosen": ..., "rejected": ...}',
            "loss": "The loss is -log sigmoid(beta (log(p/r) of chosen - log(p/r) of rejected)); r is the start's p, frozen. The\n"
            "accuracy is the share of pairs whose chosen response has the greater reward, beta log(p/r); a tie counts one half, so\n"
            "that it begins at 0.5.",
            "files": "skipped.json   rows that cannot be trained on      reference.parquet   log r of each pair",
        },
    }[kind.name]
    return _HELP.format(lr=kind().lr, settings=_explained(kind), **parts)


def _explained(kind: type[TuningSettings]) -> str:
    """Return every setting with its default and its meaning, which the docstrings hold."""
    defaults = dataclasses.asdict(kind())
    lines = []
    for one in (TuningSettings, kind):
        _, _, attributes = inspect.cleandoc(one.__doc__ or "").partition("Attributes:\n")
        for entry in re.split(r"\n(?=\w)", textwrap.dedent(attributes)) if attributes else ():
            names, _, meaning = " ".join(entry.split()).partition(": ")
            shown = ", ".join(f"{name} [{json.dumps(defaults[name])}]" for name in names.split(", "))
            lines.append(textwrap.fill(f"{shown}: {meaning}", 120, initial_indent="  ", subsequent_indent="      "))
    return "\n".join(lines)


def _absent(folder: Path, raw: Mapping[str, Any]) -> list[str]:
    """Return which files and folders that a config names are not there."""
    files = [("data", name) for name in raw["data"]]
    files += [(key, raw[key]) for key in ("validation", "answers", "tasks") if isinstance(raw.get(key), str)]
    problems = [f"{key}: {folder / name} is no file." for key, name in files if not (folder / name).is_file()]
    if "tokenizer" in raw and not (folder / raw["tokenizer"]).exists():
        problems.append(f"tokenizer: {folder / raw['tokenizer']} is not there.")
    start = folder / raw["checkpoint"]
    if not ((start / "state.json").is_file() or any(start.glob("checkpoints/step_*/state.json"))):
        problems.append(
            f"checkpoint: {start} holds no checkpoint. Name the folder of a run, such as RUN/train/0, or of one of its checkpoints."
        )
    return problems
