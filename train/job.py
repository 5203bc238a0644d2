"""Everything that is settled before the first step, and what it comes to at the end."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from train import answers, checkpoint, evaluate, guard, loggers, metrics, model
from train.config import FREE_SETTINGS, PRESETS, ConfigError, RunConfig, Settings, TrainError
from train.data import Data, open_data
from train.distributed import BYTES_PER_PARAMETER
from train.schedule import decay_ends, learning_rate, warmup_steps
from train.stopping import check_output, check_writable


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that is settled before the first step.

    Attributes:
        config: The config file.
        settings: Its settings.
        data: What is read.
        device, precision, compiled: With `auto` resolved.
        num_steps, warmup_steps: Of the run.
        decay_ends: Steps after which the learning rate has fallen; the last is the run's last.
        vocab_size: Padded.
        micro_batch: Sequences of one forward pass; before the probe, a few.
    """

    config: RunConfig
    settings: Settings
    data: Data
    device: torch.device
    precision: str
    compiled: bool
    num_steps: int
    warmup_steps: int
    decay_ends: tuple[int, ...]
    vocab_size: int
    micro_batch: int

    def identity(self) -> dict[str, Any]:
        """Return what shapes the result besides the data: a checkpoint goes on only under the same."""
        settings = {name: value for name, value in asdict(self.settings).items() if name not in FREE_SETTINGS}
        resolved = {
            "preset": self.config.preset,
            "seed": self.config.seed,
            "batch_windows": self.data.train.batch_windows,
            "batch_tokens": self.data.train.batch_tokens,
            "device": self.device.type,
            "precision": self.precision,
            "compile": self.compiled,
            "steps": self.num_steps,
            "warmup_steps": self.warmup_steps,
            "vocab_size": self.data.vocab_size,
            "padded_vocab_size": self.vocab_size,
            "eos_id": self.data.eos_id,
            "tokenizer_sha256": self.data.tokenizer_sha256,
        }
        return settings | resolved

    def record(self) -> dict[str, Any]:
        """Return what a checkpoint says of the job that made it."""
        return {"identity": self.identity(), "data": dict(self.data.digests)}

    def saves(self, step: int) -> bool:
        """Return whether a checkpoint is due after `step` updates."""
        return any(
            every is not None and step % every == 0 for every in (self.settings.save_every, self.settings.keep_every)
        )

    def announcement(self) -> str:
        """Return what will happen, for a reader."""
        settings, train, preset = self.settings, self.data.train, PRESETS[self.config.preset]
        own = any(
            getattr(settings, key) != getattr(preset, key) for key in ("layers", "dim", "heads", "kv_heads", "ffn_dim")
        )
        name = f"{settings.layers}x{settings.dim} (layers x dim, in place of the shape of {self.config.preset})"
        threads = f"{settings.threads} thread{'s' if settings.threads > 1 else ''}"
        return (
            f"model   {name if own else self.config.preset}, seed {self.config.seed}: {settings.parameters(self.vocab_size):,} parameters, "
            f"{settings.trunk_parameters:,} of them in the trunk\n"
            f"data    {self.num_steps:,} steps of {train.batch_tokens:,} tokens, {self.num_steps * train.batch_tokens:,} in all; "
            f"validation: {', '.join(self.data.validation) or 'none'}\n"
            f"device  {self.device.type}, {self.precision}, {threads}, micro-batch {settings.micro_batch}, "
            f"context {settings.context}{', compiled' if self.compiled else ''}"
        )

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
            decay_ends=self.decay_ends,
        )


def settle(config: RunConfig) -> Job:
    """Open the data and resolve every `auto`."""
    settings = config.settings
    loggers.check(settings.loggers)
    data = open_data(config.tokens, config.mixture, settings, answers=config.answers, tasks=config.tasks)
    device = choose_device(config.path, settings.device)
    on_gpu = device.type == "cuda"
    num_steps = data.train.num_steps
    try:
        ends = decay_ends(settings.decay_points, batch_tokens=data.train.batch_tokens, num_steps=num_steps)
    except ValueError as error:
        raise ConfigError(
            f"{config.path}: overrides.decay_points: {error}. Move the points, or train longer."
        ) from error
    vocab_size = model.padded_vocab_size(data.vocab_size)
    _check_memory(config.path, settings.parameters(vocab_size), device)
    return Job(
        config=config,
        settings=settings,
        data=data,
        device=device,
        precision=choose_precision(device, settings.precision),
        compiled=on_gpu if settings.compile == "auto" else settings.compile == "on",
        num_steps=num_steps,
        warmup_steps=warmup_steps(
            warmup_tokens=settings.warmup_tokens, batch_tokens=data.train.batch_tokens, num_steps=num_steps
        ),
        decay_ends=ends,
        vocab_size=vocab_size,
        micro_batch=8 if settings.micro_batch == "probe" else settings.micro_batch,
    )


def checked(config: RunConfig) -> str:
    """Do what a run does before its first step, but for reading all shards; return its announcement.

    Raises:
        TrainError: If the run would be refused.
        curate.errors.InputError: If a file is damaged.
    """
    refuse_other_kind(config.output, None, config.path)
    check_output(config.output, config.path)
    job = settle(config)
    check_writable(config.output)
    resolved = config.output / "resolved.json"
    begun = (config.output / "summary.json").exists() or any(config.output.glob("checkpoints/step_*"))
    if begun and resolved.exists():
        record = read_json(resolved)
        refuse_change(record, job.record(), config=config.path, place=resolved, free=FREE_SETTINGS)
    skipped = [f"source '{name}': {reason}." for name, reason in job.data.skipped.items()]
    return "\n".join([*skipped, job.announcement()])


def _check_memory(config: Path, parameters: int, device: torch.device) -> None:
    """Refuse a model that cannot be: weights, gradients and moments alone take more than there is."""
    if device.type == "cuda":
        ranks = int(os.environ.get("WORLD_SIZE", "1"))  # fsdp gives each a part
        there, where = torch.cuda.get_device_properties(device).total_memory * ranks, "the GPU"
    else:
        there, where = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "this machine"
    needed = parameters * BYTES_PER_PARAMETER
    if needed > there:
        raise ConfigError(
            f"{config}: {parameters:,} parameters need {needed / 1e9:,.1f} GB ({BYTES_PER_PARAMETER} bytes each: weight, gradient, "
            f"two moments), {where} has {there / 1e9:,.1f} GB. Choose a smaller preset, or lower `dim` or `layers`."
        )


def fix_arithmetic(threads: int, device: torch.device) -> None:
    """Make sums come out the same every time: threads as the settings say, and on the CPU no kernel that may vary."""
    torch.set_num_threads(threads)
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor of the host on the device. From pinned memory: else the host would wait there for all steps before."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def choose_device(config: Path, wanted: str) -> torch.device:
    """Return the device that a config's setting means here."""
    cuda = torch.cuda.is_available()
    if wanted == "cuda" and not cuda:
        raise ConfigError(f"{config}: device is cuda, but torch finds no GPU. Set the override device: cpu or auto.")
    return torch.device("cuda" if cuda and wanted != "cpu" else "cpu")


def choose_precision(device: torch.device, wanted: str) -> str:
    """Return the precision that a config's setting means on a device."""
    return ("bfloat16" if device.type == "cuda" else "float32") if wanted == "auto" else wanted


def refuse_other_kind(output: Path, kind: str | None, config: Path) -> None:
    """Refuse to write to the output of another kind of run, before anything is written.

    Args:
        output: The job's output.
        kind: What tuning is called; None for pretraining.
        config: The job's config file.
    """
    place = output / "resolved.json"
    if not place.exists():
        return
    there = read_json(place).get("identity", {}).get("tuning")
    if there != kind:
        raise ConfigError(
            f"{config}: output: {output} holds a run of {there or 'pretraining'}, and this is one of {kind or 'pretraining'}. "
            "Name another output; that one stays as it is."
        )


def refuse_change(
    record: Mapping[str, Any], job_record: Mapping[str, Any], *, config: Path, place: Path, free: Collection[str]
) -> None:
    """Refuse to go on if what shaped the record is not what the job's record says now.

    Args:
        record: What was made before: `identity` and `data`.
        job_record: The same of the job now.
        config: The job's config file.
        place: Where `record` stands.
        free: Names of settings that may change.
    """
    then, now = record["data"], job_record["data"]
    changed = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    if changed:
        raise TrainError(
            f"{place}: the data has changed since: {', '.join(changed)}. Put it back, or empty the output folder to train anew."
        )
    before, after = record["identity"], job_record["identity"]
    differences = [
        f"{key} was {before.get(key)}, is {after.get(key)}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]
    if differences:
        raise ConfigError(
            f"{config}: {place} was made with other settings: {'; '.join(differences)}. Set them back, or choose "
            f"another output. Only {', '.join(sorted(free))} may change on the way."
        )


def summary(job: Job) -> dict[str, Any]:
    """Return what summary.json says of a run that is complete.

    Raises:
        TrainError: If it knows less than at its start.
    """
    output = job.config.output
    training, validation = metrics.read(output / "metrics.jsonl")
    guard.refuse_worse(job.config.path, training, validation)
    saved = checkpoint.load(output / "checkpoints" / f"step_{job.num_steps:08d}")
    draws: dict[str, int] = saved.state["draws"]
    epochs = job.data.train.epochs(draws)
    unused = job.data.train.num_slots - job.num_steps * job.data.train.batch_windows
    return {
        "completed": True,
        "preset": job.config.preset,
        "seed": job.config.seed,
        "parameters": job.settings.parameters(job.vocab_size),
        "steps": job.num_steps,
        "tokens": job.num_steps * job.data.train.batch_tokens,
        "windows_unused": unused,  # at the end: less than one batch
        "skipped_steps": len(saved.state["skipped"]),
        "jumped_steps": sum(last - first + 1 for first, last in saved.state["jumped"]),
        "rollbacks": len(saved.state["jumped"]),
        "first_loss": training[0]["loss"],
        "last_loss": training[-1]["loss"],
        "validation": validation[-1]["validation"] if validation else {},
        "validation_skipped": dict(job.data.skipped),
        **evaluate.summary(output / "validation.parquet", job.data.validation),
        **({"answers": _answers(job)} if job.data.answers else {}),
        **(metrics.last_tasks(output / "metrics.jsonl") if job.data.tasks else {}),
        "sources": {name: {"windows": draws[name], "epochs": epochs[name]} for name in draws},
        "device": job.device.type,
        "precision": job.precision,
        "compile": job.compiled,
    }


def told(summary: Mapping[str, Any], place: Path) -> str:
    """Return what a complete run came to, for a reader."""
    scores = [f"{name} {score['bits_per_byte']:.4f}" for name, score in summary["validation"].items()]
    bits = f"; bits/byte: {', '.join(scores)}" if scores else ""
    return f"done: {summary['steps']:,} steps, {summary['tokens']:,} tokens, loss {summary['last_loss']:.4f}{bits}; {place}"


def _answers(job: Job) -> dict[str, Any]:
    """Return what the last measure of the gold answers says."""
    records = read_json(job.config.output / "answers.json")
    return answers.summary(job.data.answers, [record["bits_per_byte"] for record in records])


def read_json(path: Path) -> Any:
    """Read a JSON file of the run."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrainError(f"{path}: cannot be read ({error}). Empty the output folder to train anew.") from error
