"""The one training loop."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from train import answers, checkpoint, metrics, model, optimizer
from train.config import FREE_SETTINGS, ConfigError, RunConfig, Settings, TrainError
from train.data import Data, open_data
from train.evaluate import evaluate
from train.schedule import learning_rate, warmup_steps

DONE = 0
SAVED = 85  # saved, and wants to be started again
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that is settled before the first step.

    Attributes:
        config: The config file.
        settings: Its settings.
        data: What is read.
        device, precision, compiled: With `auto` resolved.
        num_steps, warmup_steps: Of the run.
        vocab_size: Padded.
    """

    config: RunConfig
    settings: Settings
    data: Data
    device: torch.device
    precision: str
    compiled: bool
    num_steps: int
    warmup_steps: int
    vocab_size: int

    def identity(self) -> dict[str, Any]:
        """Return what shapes the result besides the data: a checkpoint goes on only under the same."""
        settings = {name: value for name, value in asdict(self.settings).items() if name not in FREE_SETTINGS}
        resolved = {
            "preset": self.config.preset,
            "seed": self.config.seed,
            "batch_windows": self.data.train.batch_windows,
            "device": self.device.type,
            "precision": self.precision,
            "compile": self.compiled,
            "steps": self.num_steps,
            "warmup_steps": self.warmup_steps,
            "vocab_size": self.data.vocab_size,
            "padded_vocab_size": self.vocab_size,
        }
        return settings | resolved

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
        )


@dataclass(slots=True)
class State:
    """What changes from step to step, besides weights and optimizer. The rest is a function of the step.

    Attributes:
        step: Updates done.
        draws: Windows drawn of each source.
        recent: Loss and gradient norm of each step since the last record.
    """

    step: int = 0
    draws: Counter[str] = field(default_factory=Counter)
    recent: list[tuple[Tensor, Tensor]] = field(default_factory=list)


class StopRequest:
    """Turns signals and the time limit into a wish to stop at the next step boundary.

    SIGTERM and SIGUSR1 (sent by schedulers) and the time limit mean: save and ask to be started again. Ctrl-C means: save and
    leave; a second one leaves at once.
    """

    def __init__(self, max_minutes: float | None) -> None:
        self._deadline = None if max_minutes is None else time.monotonic() + 60 * max_minutes
        self._code: int | None = None

    @property
    def code(self) -> int | None:
        """Return the exit code that is wanted, or None to go on."""
        if self._code is None and self._deadline is not None and time.monotonic() >= self._deadline:
            return SAVED
        return self._code

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside of the block."""
        wanted = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
        before = {number: signal.signal(number, self._receive) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGINT:
            if self._code == INTERRUPTED:
                raise KeyboardInterrupt
            self._code = INTERRUPTED
        else:
            self._code = SAVED


def run(config: RunConfig) -> int:
    """Train as the config says, from the newest checkpoint if there is one; return the exit code.

    Raises:
        TrainError: If the run cannot start or must stop; checkpoints written before stay as they are.
        curate.errors.InputError: If token shards or the mixture are missing or damaged.
    """
    world_size = os.environ.get("WORLD_SIZE", "1")
    if world_size != "1":
        raise ConfigError(
            f"WORLD_SIZE is {world_size}: this trainer runs in one process. Start it without torchrun; no checkpoint depends on "
            "the number of processes."
        )
    config.output.mkdir(parents=True, exist_ok=True)
    with _locked(config.output):
        job = settle(config)
        summary, resolved = config.output / "summary.json", config.output / "resolved.json"
        if summary.exists():
            _refuse_change(_read_json(resolved), job, resolved)
            metrics.say(f"{config.output}: this run is complete; nothing to do.")
            return DONE
        saved = checkpoint.load_newest(config.output / "checkpoints", warn=metrics.say)
        if saved is not None:
            _refuse_change(saved.state, job, saved.path)
        job.data.verify()
        checkpoint.write_json(resolved, _record(job) | {"torch": torch.__version__})
        for name, reason in job.data.skipped.items():
            metrics.say(f"source '{name}': {reason}.")
        stop = StopRequest(job.settings.max_minutes)
        with stop.listening():
            code = train(job, saved, stop)
        if code == DONE:
            checkpoint.write_json(summary, _summary(job))
        return code


def settle(config: RunConfig) -> Job:
    """Open the data and resolve every `auto`."""
    settings = config.settings
    data = open_data(config.tokens, config.mixture, settings, config.answers)
    cuda = torch.cuda.is_available()
    if settings.device == "cuda" and not cuda:
        raise TrainError(
            f"{config.path}: device is cuda, but torch finds no GPU. Set the override device: cpu or auto."
        )
    device = torch.device("cuda" if cuda and settings.device != "cpu" else "cpu")
    on_gpu = device.type == "cuda"
    num_steps = data.train.num_steps
    return Job(
        config=config,
        settings=settings,
        data=data,
        device=device,
        precision=("bfloat16" if on_gpu else "float32") if settings.precision == "auto" else settings.precision,
        compiled=on_gpu if settings.compile == "auto" else settings.compile == "on",
        num_steps=num_steps,
        warmup_steps=warmup_steps(
            warmup_tokens=settings.warmup_tokens, batch_tokens=data.train.batch_tokens, num_steps=num_steps
        ),
        vocab_size=model.padded_vocab_size(data.vocab_size),
    )


def train(job: Job, saved: checkpoint.Checkpoint | None, stop: StopRequest) -> int:
    """Train from `saved`, or from the start, to the end or until `stop`; return the exit code."""
    settings, device, data = job.settings, job.device, job.data
    torch.set_num_threads(settings.threads)
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    decoder = model.Decoder(settings, job.vocab_size)
    decoder.initialize(job.config.seed)
    decoder.to(device)
    adamw = optimizer.build(decoder, settings)
    state = State()
    if saved is not None:
        state = _restore(saved, decoder, adamw)
        metrics.say(f"resuming from {saved.path.name} of {job.num_steps} steps")
    hidden_of: Callable[[Tensor], Tensor] = torch.compile(decoder, dynamic=False) if job.compiled else decoder
    autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=job.precision == "bfloat16")
    log = metrics.RunLog(
        job.config.output,
        num_steps=job.num_steps,
        metrics_bytes=0 if saved is None else saved.state["metrics_bytes"],
        flops_per_token=model.flops_per_token(settings, job.vocab_size),
        device=device,
    )

    def validate() -> None:
        scores = {
            name: evaluate(
                hidden_of, decoder.head_weight, part, batch_size=settings.eval_batch, whole_batches=job.compiled,
                autocast=autocast,
            )
            for name, part in data.validation.items()
        }  # fmt: skip
        if scores:
            log.validation(step=state.step, scores=scores)
        if data.answers:
            nats = answers.answer_nats(
                hidden_of, decoder.head_weight, data.answers, batch_size=settings.eval_batch, context=settings.context,
                eos_id=data.eos_id, whole_batches=job.compiled, autocast=autocast,
            )  # fmt: skip
            bits = answers.bits_per_byte(data.answers, nats)
            log.answers(step=state.step, groups=answers.by_group(data.answers, bits))
            if state.step == job.num_steps:
                checkpoint.write_json(job.config.output / "answers.json", answers.records(data.answers, nats))

    with contextlib.closing(log):
        if state.step == 0:
            validate()
        while state.step < job.num_steps:
            log.start_clock()
            rate = job.rate(state.step)
            optimizer.set_learning_rate(adamw, rate)
            inputs, targets = (torch.from_numpy(part).to(device) for part in data.train.batch(state.step))  # (S, T)
            nats = torch.zeros((), dtype=torch.float64, device=device)
            for part in range(0, len(inputs), settings.micro_batch):
                with autocast:
                    hidden = hidden_of(inputs[part : part + settings.micro_batch])
                    loss = model.summed_nats(hidden, decoder.head_weight, targets[part : part + settings.micro_batch])
                (loss / targets.numel()).backward()  # type: ignore[no-untyped-call]
                nats += loss.detach()
            norm = torch.nn.utils.clip_grad_norm_(decoder.parameters(), settings.clip)
            adamw.step()
            adamw.zero_grad(set_to_none=True)
            state.draws.update(source for source, _ in data.train.slots(state.step))
            state.step += 1
            state.recent.append((nats / targets.numel(), norm))
            last = state.step == job.num_steps
            due = state.step == 1 or state.step % settings.log_every == 0 or last
            mean_loss = _mean_finite_loss(state) if due else None  # waits for a GPU, so that the clock is right
            log.stop_clock(targets.numel())
            if mean_loss is not None:
                tokens = state.step * data.train.batch_tokens
                log.training(step=state.step, tokens=tokens, loss=mean_loss, lr=rate, grad_norm=norm.item())
                state.recent.clear()
            if state.step % settings.eval_every == 0 or last:
                validate()
            code = None if last else stop.code
            if state.step % settings.save_every == 0 or last or code is not None:
                _save(job, state, decoder, adamw, log)
            if code is not None:
                metrics.say(f"stopped after step {state.step} of {job.num_steps}; start again to go on")
                return code
    return DONE


def _mean_finite_loss(state: State) -> float:
    """Return the mean loss since the last record, or refuse to go on from one that is not finite."""
    losses = torch.stack([loss for loss, _ in state.recent]).cpu()
    norms = torch.stack([norm for _, norm in state.recent]).cpu()
    for index, (loss, norm) in enumerate(zip(losses.tolist(), norms.tolist(), strict=True)):
        if not (abs(loss) < float("inf") and abs(norm) < float("inf")):
            step = state.step - len(state.recent) + 1 + index
            raise TrainError(
                f"step {step}: the loss is {loss}, the gradient's norm {norm}. Training stopped; the last checkpoint is from "
                "before. Lower `lr`, raise `warmup_tokens`, or look at the documents of this step."
            )
    return losses.mean().item()


def _save(job: Job, state: State, decoder: model.Decoder, adamw: torch.optim.Optimizer, log: metrics.RunLog) -> None:
    if state.recent:
        _mean_finite_loss(state)
    bad = [name for name, parameter in decoder.named_parameters() if not parameter.isfinite().all()]
    if bad:
        raise TrainError(
            f"step {state.step}: {bad[0]} holds values that are not finite; this step is not saved. Lower `lr`."
        )
    progress = {
        "metrics_bytes": log.sync(),
        "draws": dict(sorted(state.draws.items())),
        "epochs": job.data.train.epochs(state.draws),
        "recent": [(loss.item(), norm.item()) for loss, norm in state.recent],
    }
    checkpoint.save(
        job.config.output / "checkpoints",
        state.step,
        tensors={"model": decoder.state_dict(), "optimizer": optimizer.state_tensors(decoder, adamw)},
        state=progress | _record(job),
        keep_last=job.settings.keep_last,
    )


def _restore(saved: checkpoint.Checkpoint, decoder: model.Decoder, adamw: torch.optim.Optimizer) -> State:
    decoder.load_state_dict(saved.tensors["model"])
    optimizer.restore_state(decoder, adamw, saved.tensors["optimizer"])
    device = decoder.embedding.weight.device
    recent = [
        (torch.tensor(loss, dtype=torch.float64, device=device), torch.tensor(norm, device=device))
        for loss, norm in saved.state["recent"]
    ]
    return State(saved.step, Counter(saved.state["draws"]), recent)


def _record(job: Job) -> dict[str, Any]:
    return {"identity": job.identity(), "data": dict(job.data.digests)}


def _refuse_change(record: Mapping[str, Any], job: Job, place: Path) -> None:
    """Refuse to go on if what shaped the record is not what the job says now."""
    then, now = record["data"], job.data.digests
    changed = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    if changed:
        raise TrainError(
            f"{place}: the data has changed since: {', '.join(changed)}. Put it back, or empty the output folder to train anew."
        )
    before, after = record["identity"], job.identity()
    differences = [
        f"{key} was {before.get(key)}, is {after.get(key)}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]
    if differences:
        raise ConfigError(
            f"{job.config.path}: {place} was made with other settings: {'; '.join(differences)}. Set them back, or choose "
            f"another output. Only {', '.join(sorted(FREE_SETTINGS))} may change on the way."
        )


def _summary(job: Job) -> dict[str, Any]:
    output = job.config.output
    training, validation = metrics.read(output / "metrics.jsonl")
    saved = checkpoint.load(output / "checkpoints" / f"step_{job.num_steps:08d}")
    draws: dict[str, int] = saved.state["draws"]
    epochs = job.data.train.epochs(draws)
    unused = job.data.train.plan.num_slots - job.num_steps * job.data.train.batch_windows
    return {
        "completed": True,
        "preset": job.config.preset,
        "seed": job.config.seed,
        "parameters": job.settings.parameters(job.vocab_size),
        "steps": job.num_steps,
        "tokens": job.num_steps * job.data.train.batch_tokens,
        "windows_unused": unused,  # at the end of the mixture: less than one batch
        "first_loss": training[0]["loss"],
        "last_loss": training[-1]["loss"],
        "validation": validation[-1]["validation"] if validation else {},
        "validation_skipped": dict(job.data.skipped),
        **({"answers": _answers(job)} if job.data.answers else {}),
        "sources": {name: {"windows": draws[name], "epochs": epochs[name]} for name in draws},
        "device": job.device.type,
        "precision": job.precision,
        "compile": job.compiled,
    }


def _answers(job: Job) -> dict[str, Any]:
    """Return what the last measure of the gold answers says."""
    records = _read_json(job.config.output / "answers.json")
    return answers.summary(job.data.answers, [record["bits_per_byte"] for record in records])


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrainError(f"{path}: cannot be read ({error}). Empty the output folder to train anew.") from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder: two trainers in one folder would cut each other's log. The lock goes with the process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise TrainError(f"{folder}: another trainer works here. Wait for it, or choose another output.") from error
    try:
        yield
    finally:
        os.close(handle)
