"""The one training loop."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from train import answers, checkpoint, metrics, model
from train.config import ConfigError, RunConfig, TrainError
from train.evaluate import evaluate
from train.job import Job, read_json, refuse_change, settle, summary
from train.optimizer import Optimizer
from train.stopping import DONE, StopRequest, locked


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
    with locked(config.output):
        job = settle(config)
        ended, resolved = config.output / "summary.json", config.output / "resolved.json"
        if ended.exists():
            refuse_change(read_json(resolved), job, resolved)
            metrics.say(f"{config.output}: this run is complete; nothing to do.")
            return DONE
        saved = checkpoint.load_newest(config.output / "checkpoints", warn=metrics.say)
        if saved is not None:
            refuse_change(saved.state, job, saved.path)
        job.data.verify()
        checkpoint.write_json(resolved, job.record() | {"torch": torch.__version__})
        for name, reason in job.data.skipped.items():
            metrics.say(f"source '{name}': {reason}.")
        stop = StopRequest(job.settings.max_minutes)
        with stop.listening():
            code = train(job, saved, stop)
        if code == DONE:
            checkpoint.write_json(ended, summary(job))
        return code


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
    updates = Optimizer(decoder, settings)
    state = State()
    if saved is not None:
        state = _restore(saved, decoder, updates)
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
            updates.set_learning_rate(rate)
            inputs, targets = (torch.from_numpy(part).to(device) for part in data.train.batch(state.step))  # (S, T)
            nats = torch.zeros((), dtype=torch.float64, device=device)
            for part in range(0, len(inputs), settings.micro_batch):
                with autocast:
                    hidden = hidden_of(inputs[part : part + settings.micro_batch])
                    loss = model.summed_nats(hidden, decoder.head_weight, targets[part : part + settings.micro_batch])
                (loss / targets.numel()).backward()  # type: ignore[no-untyped-call]
                nats += loss.detach()
            norm = torch.nn.utils.clip_grad_norm_(decoder.parameters(), settings.clip)
            updates.step()
            updates.zero_grad()
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
                _save(job, state, decoder, updates, log)
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


def _save(job: Job, state: State, decoder: model.Decoder, updates: Optimizer, log: metrics.RunLog) -> None:
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
        tensors={"model": decoder.state_dict(), "optimizer": updates.state_tensors()},
        state=progress | job.record(),
        keep_last=job.settings.keep_last,
    )


def _restore(saved: checkpoint.Checkpoint, decoder: model.Decoder, updates: Optimizer) -> State:
    decoder.load_state_dict(saved.tensors["model"])
    updates.restore_state(saved.tensors["optimizer"])
    device = decoder.embedding.weight.device
    recent = [
        (torch.tensor(loss, dtype=torch.float64, device=device), torch.tensor(norm, device=device))
        for loss, norm in saved.state["recent"]
    ]
    return State(saved.step, Counter(saved.state["draws"]), recent)
