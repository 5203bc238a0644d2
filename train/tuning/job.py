"""Everything that is settled before the first step of tuning, and what it comes to at the end."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from curate.tokens.answers import Answer
from curate.tokens.tasks import TaskItem
from train import answers, metrics
from train.config import FREE_SETTINGS as PRETRAINING_FREE
from train.config import Settings, TrainError
from train.data import read_gold, read_items
from train.job import choose_device, choose_precision, read_json
from train.schedule import learning_rate
from train.trained import Trained, open_trained
from train.tuning.batches import Batches
from train.tuning.config import FREE_SETTINGS, TuningConfig
from train.tuning.examples import Example, Examples, read_examples

# What pretraining may have and tuning has not. A conversation holds end marks, and is one document for all that.
_NOT_IN_TUNING: dict[str, Any] = {
    "optimizer": "adamw", "decay_points": None, "z_loss": 0.0, "document_mask": False, "max_tokens": None, "skip_sigma": None,
    "warmup_tokens": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that is settled before the first step.

    Attributes:
        config: The config file.
        settings: The start's, with what the config says of how to tune.
        start: The model that tuning starts from.
        batches: Examples in the order of training.
        held_out: Examples to measure the loss on, by length; may be none.
        found: What the files hold: those of `data`, then that of `validation` if it is one.
        answers, tasks: Gold answers and items of tasks to measure.
        digests: sha256 of the start's weights and of each file.
        device, precision: With `auto` resolved.
        num_steps, warmup_steps: Of the run.
    """

    config: TuningConfig
    settings: Settings
    start: Trained
    batches: Batches
    held_out: Sequence[Example]
    found: tuple[Examples, ...]
    answers: tuple[Answer, ...]
    tasks: tuple[TaskItem, ...]
    digests: Mapping[str, str]
    device: torch.device
    precision: str
    num_steps: int
    warmup_steps: int

    @property
    def vocab_size(self) -> int:
        """Return the rows of the embedding."""
        return int(self.start.identity["padded_vocab_size"])

    def identity(self) -> dict[str, Any]:
        """Return what shapes the result besides the data. It holds all that tells a checkpoint's shape, as in pretraining."""
        tuning = self.config.settings
        known = asdict(self.settings) | asdict(tuning)
        settings = {name: known[name] for name in known if name not in FREE_SETTINGS | PRETRAINING_FREE}
        before = self.start.identity
        resolved = {
            "preset": before["preset"],
            "tuning": tuning.name,
            "seed": self.config.seed,
            "validation": self.config.validation if isinstance(self.config.validation, float) else None,
            "device": self.device.type,
            "precision": self.precision,
            "compile": False,
            "steps": self.num_steps,
            "warmup_steps": self.warmup_steps,
            "start_step": self.start.step,
            "vocab_size": before["vocab_size"],
            "padded_vocab_size": before["padded_vocab_size"],
            "eos_id": before["eos_id"],
            "tokenizer_sha256": before["tokenizer_sha256"],
        }
        return settings | resolved

    def record(self) -> dict[str, Any]:
        """Return what a checkpoint says of the job that made it."""
        return {"identity": self.identity(), "data": dict(self.digests)}

    def rate(self, step: int) -> float:
        """Return the learning rate of update `step`, counted from 0."""
        return learning_rate(
            step,
            num_steps=self.num_steps,
            warmup_steps=self.warmup_steps,
            peak=self.settings.lr,
            schedule=self.settings.schedule,
            min_ratio=self.settings.min_lr_ratio,
            decay_fraction=self.settings.decay_fraction,
            decay_ends=(self.num_steps,),
        )


def settle(config: TuningConfig) -> Job:
    """Read start and examples, and resolve every `auto`.

    Raises:
        TrainError: If they do not fit together.
        curate.errors.InputError: If a file cannot be read; names the row.
    """
    tuning = config.settings
    start = open_trained(config.checkpoint, config.tokenizer, warn=metrics.say)
    tokenizer = start.tokenizer
    alike = {one.name for one in dataclasses.fields(tuning)} & {one.name for one in dataclasses.fields(Settings)}
    settings = dataclasses.replace(start.settings, **_NOT_IN_TUNING, **{name: getattr(tuning, name) for name in alike})

    def read(files: Mapping[str, Path]) -> Examples:
        return read_examples(
            files, tokenizer, pairs=tuning.name == "dpo", template=tuning.template, context=settings.context,
            seed=config.seed, max_skipped=tuning.max_skipped,
        )  # fmt: skip

    files = dict(config.data)
    found = [read(files)]
    examples, held_out = found[0].examples, []
    if isinstance(config.validation, Path):
        apart = {f"{config.validation.name} (validation)": config.validation}
        found.append(read(apart))
        held_out = list(found[1].examples)
        files |= apart
    elif config.validation is not None:
        held_out = [example for example in examples if example.draw < config.validation]
        examples = [example for example in examples if example.draw >= config.validation]
        if not examples or not held_out:
            raise TrainError(
                f"{config.path}: a share of {config.validation} leaves {len(examples)} examples to learn from and "
                f"{len(held_out)} to measure. Give more rows or another share; examples with one prompt stay together."
            )
    batches = Batches(examples, tuning.batch_examples, config.seed)
    num_steps = tuning.steps or tuning.epochs * batches.steps_per_epoch
    known = tokenizer.vocab_size, settings.context
    gold = () if config.answers is None else read_gold(config.answers, *known)
    items = () if config.tasks is None else read_items(config.tasks, *known)
    for name, path in (("answers", config.answers), ("tasks", config.tasks)):
        files |= {f"{path.name} ({name})": path} if path else {}
    device = choose_device(config.path, settings.device)
    return Job(
        config=config,
        settings=settings,
        start=start,
        batches=batches,
        held_out=sorted(held_out, key=lambda example: example.num_inputs),
        found=tuple(found),
        answers=gold,
        tasks=items,
        digests={
            "start": _digest(start.path / "model.safetensors"),
            **{name: _digest(path) for name, path in files.items()},
        },
        device=device,
        precision=choose_precision(device, settings.precision),
        num_steps=num_steps,
        warmup_steps=round(tuning.warmup_fraction * num_steps),
    )


def summary(job: Job) -> dict[str, Any]:
    """Return what summary.json says of a run that is complete."""
    output = job.config.output
    training, validation = metrics.read(output / "metrics.jsonl")
    skipped = Counter(one.reason for found in job.found for one in found.skipped)
    last = training[-1]
    return {
        "completed": True,
        "tuning": job.config.settings.name,
        "preset": job.start.identity["preset"],
        "seed": job.config.seed,
        "start_step": job.start.step,
        "parameters": job.settings.parameters(job.vocab_size),
        "steps": job.num_steps,
        "epochs": job.num_steps / job.batches.steps_per_epoch,
        "examples": len(job.batches.examples),
        "held_out": len(job.held_out),
        "skipped": dict(sorted(skipped.items())),
        "prompts_cut": sum(found.prompts_cut for found in job.found),
        "tokens": last["tokens"],
        "response_tokens": last["response_tokens"],
        "first_loss": training[0]["loss"],
        "last_loss": last["loss"],
        "validation_before": validation[0]["validation"] if validation else {},
        "validation": validation[-1]["validation"] if validation else {},
        **({"answers": _answers(job)} if job.answers else {}),
        **(metrics.last_tasks(output / "metrics.jsonl") if job.tasks else {}),
        "device": job.device.type,
        "precision": job.precision,
    }


def _answers(job: Job) -> dict[str, Any]:
    records = read_json(job.config.output / "answers.json")
    return answers.summary(job.answers, [record["bits_per_byte"] for record in records])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
