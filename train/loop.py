"""The one training loop."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from train import answers, checkpoint, evaluate, guard, loggers, metrics, model, probe, scoring, tasks
from train.config import FREE_SETTINGS, RunConfig, TrainError
from train.distributed import Kind, Ranks, Replica, joined, kind
from train.guard import Guard
from train.job import Job, fix_arithmetic, read_json, refuse_change, refuse_other_kind, sent, settle, summary, told
from train.optimizer import Optimizer
from train.stopping import DONE, StopRequest, locked


@dataclass(slots=True)
class State:
    """What changes from step to step, besides weights and optimizer. The rest is a function of the step.

    Attributes:
        step: Batches done.
        draws: Windows drawn of each source.
        recent: What the guard noted of each step since the last record.
        first_loss: That of the first record: of a model that knows nothing.
        skipped: Steps without an update, counted from 1.
        jumped: First and last step of each stretch whose updates a rollback took back.
    """

    step: int = 0
    draws: Counter[str] = field(default_factory=Counter)
    recent: list[Tensor] = field(default_factory=list)
    first_loss: float | None = None
    skipped: list[int] = field(default_factory=list)
    jumped: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Learner:
    """What learns: the weights, their optimizer, the guard over both."""

    replica: Replica
    optimizer: Optimizer
    guard: Guard

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return what a checkpoint keeps; with FSDP weights and moments are parts."""
        return {
            "model": self.replica.decoder.state_dict(),
            "optimizer": self.optimizer.state_tensors(),
            "guard": self.guard.tensors(),
        }

    def restore(self, tensors: Mapping[str, dict[str, Tensor]]) -> None:
        """Put back what `tensors` gave, made whole."""
        self.replica.load(tensors["model"])
        self.optimizer.restore_state(tensors["optimizer"])
        self.guard.restore(tensors["guard"])


def run(config: RunConfig) -> int:
    """Train as the config says, from the newest checkpoint if there is one; return the exit code.

    Raises:
        TrainError: If the run cannot start or must stop; checkpoints written before stay as they are.
        curate.errors.InputError: If token shards or the mixture are missing or damaged.
    """
    refuse_other_kind(config.output, None, config.path)
    with joined(config) as (ranks, config), locked(config.output, config.path):
        job = settle(config)
        refuse = functools.partial(refuse_change, job_record=job.record(), config=config.path, free=FREE_SETTINGS)
        ended, resolved = config.output / "summary.json", config.output / "resolved.json"
        if ranks.told(ended.exists()):
            if ranks.first:
                refuse(read_json(resolved), place=resolved)
            metrics.say(f"{config.output}: this run is complete; nothing to do.")
            return DONE
        saved = checkpoint.resume(config.output / "checkpoints", ranks, warn=metrics.say)
        if saved is not None:
            refuse(saved.state, place=saved.path)
        if ranks.first:
            job.data.verify()
        parameters = job.settings.parameters(job.vocab_size)
        spread = kind(job.settings.parallel, ranks, parameters=parameters, device=job.device)
        machine: dict[str, Any] = {"torch": torch.__version__, "ranks": ranks.size, "parallel": spread}
        if job.settings.micro_batch == "probe":
            like = functools.partial(_replica, job, "single")
            job, machine["probe"] = probe.probed(job, saved, ranks, like)
        checkpoint.write_json(resolved, job.record() | machine)
        for name, reason in job.data.skipped.items():
            metrics.say(f"source '{name}': {reason}.")
        metrics.say(job.announcement())
        stop = StopRequest(job.settings.max_minutes)
        with stop.listening():
            code = train(job, saved, stop, ranks, spread)
        if code == DONE and ranks.first:
            result = summary(job)
            checkpoint.write_json(ended, result)
            metrics.say(told(result, ended))
        return code


def train(job: Job, saved: checkpoint.Checkpoint | None, stop: StopRequest, ranks: Ranks, spread: Kind) -> int:
    """Train from `saved`, or from the start, to the end or until `stop`; return the exit code."""
    settings, device, data = job.settings, job.device, job.data
    fix_arithmetic(settings.threads, device)
    replica = _replica(job, spread)
    decoder, updates = replica.decoder, Optimizer(replica.decoder, settings)
    learner = Learner(replica, updates, _guard(job))
    state = State()
    if saved is not None:
        state = _restore(saved, learner)
        metrics.say(f"resuming from {saved.path.name} of {job.num_steps} steps")
    autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=job.precision == "bfloat16")
    opened = loggers.Start(job.config.output, job.identity(), state.step)
    log = metrics.RunLog(
        job.config.output,
        num_steps=job.num_steps,
        eval_every=settings.eval_every,
        save_every=settings.save_every,
        metrics_bytes=0 if saved is None else saved.state["metrics_bytes"],
        flops_per_token=model.flops_per_token(settings, job.vocab_size),
        device=device,
        num_devices=ranks.size,
        dashboards=loggers.open_all(settings.loggers, opened) if ranks.first else (),
    )

    def score(rows: Sequence[scoring.Row]) -> list[scoring.Scored]:
        return scoring.score(
            replica.objective, decoder.head_weight, rows, batch_size=settings.eval_batch, context=settings.context,
            eos_id=data.eos_id, whole_batches=job.compiled, autocast=autocast, ranks=ranks,
        )  # fmt: skip

    @log.clock.timed("evaluation")
    @replica.evaluating()
    def validate() -> None:
        found = {name: evaluate.document_nats(part, score) for name, part in data.validation.items()}
        if found:
            scores = {name: evaluate.source_score(data.validation[name].source, nats) for name, nats in found.items()}
            log.validation(step=state.step, scores=scores, further=evaluate.line(data.validation, found))
            if state.step == job.num_steps:
                evaluate.write(job.config.output / "validation.parquet", data.validation, found)
        if data.answers:
            nats = answers.answer_nats(data.answers, score)
            bits = answers.bits_per_byte(data.answers, nats)
            log.answers(step=state.step, groups=answers.by_group(data.answers, bits))
            if state.step == job.num_steps:
                checkpoint.write_json(job.config.output / "answers.json", answers.records(data.answers, nats))

    @log.clock.timed("tasks")
    @replica.evaluating()
    def measure_tasks() -> None:
        outcomes = tasks.measure(data.tasks, score)
        log.tasks(step=state.step, scores=tasks.scores(data.tasks, outcomes))
        if state.step == job.num_steps:
            tasks.write(job.config.output / "task_items.parquet", data.tasks, outcomes)

    store = checkpoint.Store(job.config.output / "checkpoints", ranks, beside=device.type == "cuda", warn=metrics.say)
    with contextlib.closing(log), contextlib.closing(store):
        if state.step == 0:
            validate()
        while state.step < job.num_steps:
            log.clock.start()
            rate = job.rate(state.step)
            updates.set_learning_rate(rate)
            with log.clock.timed("data"):
                batch = data.train.batch(state.step)  # (S, T)
                num_targets = batch[1].size
                inputs, targets = (sent(part, device) for part in ranks.rows(*map(torch.from_numpy, batch)))
            nats = torch.zeros((), dtype=torch.float64, device=device)
            for start in range(0, len(inputs), job.micro_batch):
                end = start + job.micro_batch
                with replica.accumulating(last=end >= len(inputs)):
                    with autocast:
                        objective, part_nats = replica.loss(inputs[start:end], targets[start:end])
                    (objective / num_targets).backward()  # type: ignore[no-untyped-call]
                nats += part_nats
            norm = replica.clip(settings.clip)
            if data.train.begins_stage(state.step) or state.step in job.decay_ends:
                learner.guard.restart()  # other data, or the full rate again: losses may rise
            skip, noted = learner.guard.refuses(ranks.sum(nats) / num_targets, norm)
            updates.step(skip)
            updates.zero_grad()
            state.draws.update(source for source, _ in data.train.slots(state.step))
            state.step += 1
            state.recent.append(noted)
            last = state.step == job.num_steps
            decayed = state.step in job.decay_ends  # the last step is one of them
            code = None if last else ranks.agreed(stop.code)
            save = decayed or code is not None or job.saves(state.step)
            due = state.step == 1 or state.step % settings.log_every == 0 or last
            # Waits for a GPU, so that the clock is right.
            seen = guard.read(state.recent, state.step - len(state.recent) + 1) if due or save else []
            log.clock.stop(num_targets)
            rolled_back = False
            if due:
                loss = _record(job, state, log, seen, rate)
                rolled_back = _roll_back(job, state, learner, log, store)
                if not rolled_back:
                    guard.refuse_divergence(job.config.path, step=state.step, loss=loss, first_loss=state.first_loss)
            if state.step % settings.eval_every == 0 or decayed:
                validate()
            if data.tasks and (decayed or (settings.tasks_every and state.step % settings.tasks_every == 0)):
                measure_tasks()
            if rolled_back or decayed or (save and not seen[-1].skipped):  # within a burst nothing new is worth keeping
                with log.clock.timed("saving"):
                    _save(job, state, learner, log, store)
            if code is not None:
                metrics.say(f"stopped after step {state.step} of {job.num_steps}; start again to go on")
                return code
    return DONE


def drawn(job: Job) -> model.Decoder:
    """Return the weights as the seed draws them."""
    eos_id = job.data.eos_id if job.settings.document_mask else None
    decoder = model.Decoder(job.settings, job.vocab_size, num_ids=job.data.vocab_size, eos_id=eos_id)
    decoder.initialize(job.config.seed)
    return decoder.to(job.device)


def _replica(job: Job, spread: Kind) -> Replica:
    return Replica(drawn(job), spread, compiled=job.compiled, z_loss=job.settings.z_loss)


def _guard(job: Job) -> Guard:
    # In the order of the input, neighbouring batches are of one kind and the next may be of another: no step stands for the next.
    sigma = None if job.data.train.plan.order == "input" else job.settings.skip_sigma
    return Guard(job.settings, job.device, sigma=sigma)


def _record(job: Job, state: State, log: metrics.RunLog, seen: Sequence[guard.Seen], rate: float) -> float | None:
    """Write the log line of the steps since the last one, and one for each that was skipped; return the loss, if one was not."""
    skipped = [one for one in seen if one.skipped]
    for one in skipped:
        log.skipped(step=one.step, fault=guard.line(one, job.data.train))
    state.skipped += [one.step for one in skipped]
    state.recent.clear()
    applied = [one for one in seen if not one.skipped]
    if not applied:
        return None
    loss = fmean(one.loss for one in applied)
    tokens = state.step * job.data.train.batch_tokens
    log.training(step=state.step, tokens=tokens, loss=loss, lr=rate, grad_norm=applied[-1].norm)
    if state.first_loss is None:
        state.first_loss = loss
    return loss


def _roll_back(job: Job, state: State, learner: Learner, log: metrics.RunLog, store: checkpoint.Store) -> bool:
    """Go back to the last checkpoint before a burst of skipped steps, if there is one; return whether.

    Weights, optimizer and guard are those of then; data and learning rate go on behind the newest step, so that what was drawn
    since is jumped over.

    Raises:
        TrainError: If the run was rolled back too often, or no step is left.
    """
    recent = _recently_skipped(job, state)
    ended = state.step == job.num_steps
    if len(recent) < job.settings.max_skips and not (ended and _lost_at_the_end(state) >= job.settings.max_skips):
        return False
    found = f"{len(recent)} of the steps {recent[0]} to {state.step} had to be skipped"
    if ended or len(state.jumped) == job.settings.max_rollbacks:
        tried = "and no step is left" if ended else f"after {len(state.jumped)} rollbacks"
        raise TrainError(
            f"step {state.step}: {found}, {tried}. Training stopped; the last checkpoint is from before. Lower `lr`, raise "
            "`warmup_tokens`, or look at the documents that metrics.jsonl names."
        )
    saved = store.newest(before=recent[0])
    if saved is None:
        moments = learner.optimizer.state_tensors()
        fresh = {
            "model": drawn(job).state_dict(),
            "optimizer": {name: torch.zeros(value.shape, dtype=value.dtype) for name, value in moments.items()},
            "guard": _guard(job).tensors(),
        }
    learner.restore(fresh if saved is None else saved.tensors)
    learner.guard.restart()  # were it the data that changed for good, the old window would refuse it for ever
    good = 0 if saved is None else saved.step
    state.jumped.append((good + 1, state.step))
    log.rolled_back(step=state.step, to=good, why=found)
    return True


def _recently_skipped(job: Job, state: State) -> list[int]:
    """Return the steps that were skipped in the guard's window and behind the last rollback."""
    since = max(state.step - job.settings.skip_window, state.jumped[-1][1] if state.jumped else 0)
    noted = guard.read(state.recent, state.step - len(state.recent) + 1) if state.recent else []
    return [step for step in (*state.skipped, *(one.step for one in noted if one.skipped)) if step > since]


def _lost_at_the_end(state: State) -> int:
    """Return how many of the newest steps in a row have no update that lasted."""
    lost = {*state.skipped, *(step for first, last in state.jumped for step in range(first, last + 1))}
    step = state.step
    while step in lost:
        step -= 1
    return state.step - step


def _save(job: Job, state: State, learner: Learner, log: metrics.RunLog, store: checkpoint.Store) -> None:
    progress = {
        "metrics_bytes": log.sync(),
        "draws": dict(sorted(state.draws.items())),
        "epochs": job.data.train.epochs(state.draws),
        "recent": [noted.tolist() for noted in state.recent],
        "first_loss": state.first_loss,
        "skipped": list(state.skipped),
        "jumped": list(state.jumped),
        "micro_batch": job.micro_batch,
    }
    store.save(
        state.step,
        learner.tensors(),
        state=progress | job.record(),
        keep_last=job.settings.keep_last,
        keep=job.decay_ends,
        keep_every=job.settings.keep_every,
        keep_before=min(_recently_skipped(job, state), default=None),
    )


def _restore(saved: checkpoint.Checkpoint, learner: Learner) -> State:
    learner.restore(saved.tensors)
    for named in saved.tensors.values():  # 12 bytes a parameter of the host's memory, on every rank
        named.clear()
    device = learner.replica.decoder.embedding.weight.device
    recent = [torch.tensor(noted, dtype=torch.float64, device=device) for noted in saved.state["recent"]]
    draws, jumped = Counter(saved.state["draws"]), [(first, last) for first, last in saved.state["jumped"]]
    return State(saved.step, draws, recent, saved.state["first_loss"], list(saved.state["skipped"]), jumped)
