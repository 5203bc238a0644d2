"""The one loop of tuning: any objective, over batches of examples."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from train import answers, checkpoint, metrics, model, scoring, tasks
from train.config import ConfigError, TrainError
from train.job import fix_arithmetic, read_json, refuse_change, refuse_other_kind
from train.optimizer import Optimizer
from train.stopping import DONE, StopRequest, locked
from train.tuning import dpo
from train.tuning.batches import parts
from train.tuning.config import FREE_SETTINGS, DpoSettings, TuningConfig
from train.tuning.job import Job, settle, summary
from train.tuning.objective import Objective, Scorer
from train.tuning.sft import Sft


@dataclass(slots=True)
class State:
    """What changes from step to step, besides weights and optimizer.

    Attributes:
        step: Updates done.
        tokens: Inputs so far, without what fills up rows.
        response_tokens: Targets so far.
        recent: The objective's figures and the gradient norm of each step since the last record, shape (F + 1,).
    """

    step: int = 0
    tokens: int = 0
    response_tokens: int = 0
    recent: list[Tensor] = field(default_factory=list)


def run(config: TuningConfig) -> int:
    """Tune as the config says, from the newest checkpoint of the output if there is one; return the exit code.

    Raises:
        TrainError: If the run cannot start or must stop; checkpoints written before stay as they are.
        curate.errors.InputError: If a file cannot be read.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError("WORLD_SIZE is not 1: tuning runs in one process. Start it without torchrun.")
    refuse_other_kind(config.output, config.settings.name, config.path)
    with locked(config.output, config.path):
        job = settle(config)
        refuse = functools.partial(refuse_change, job_record=job.record(), config=config.path, free=FREE_SETTINGS)
        ended, resolved = config.output / "summary.json", config.output / "resolved.json"
        if ended.exists():
            refuse(read_json(resolved), place=resolved)
            metrics.say(f"{config.output}: this run is complete; nothing to do.")
            return DONE
        saved = checkpoint.load_newest(config.output / "checkpoints", warn=metrics.say)
        if saved is not None:
            refuse(saved.state, place=saved.path)
        where = os.path.relpath(job.start.tokenizer_path.resolve(), config.output.resolve())
        checkpoint.write_json(resolved, job.record() | {"torch": torch.__version__, "tokenizer": where})
        _tell(job)
        stop = StopRequest(job.settings.max_minutes)
        with stop.listening():
            code = tune(job, saved, stop)
        if code == DONE:
            checkpoint.write_json(ended, summary(job))
        return code


def tune(job: Job, saved: checkpoint.Checkpoint | None, stop: StopRequest) -> int:
    """Tune from `saved`, or from the start, to the end or until `stop`; return the exit code."""
    settings, device = job.settings, job.device
    fix_arithmetic(settings.threads, device)
    decoder = model.Decoder(settings, job.vocab_size, num_ids=job.start.vocab_size)
    decoder.load_state_dict(job.start.weights)
    decoder.to(device)
    autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=job.precision == "bfloat16")
    # Not compiled: rows are as long as the longest of their micro-batch, and every length would be compiled anew.
    scorer = Scorer(decoder, decoder.head_weight, job.start.tokenizer.eos_id, autocast)
    objective = _objective(job, scorer)  # while the weights are the start's
    updates = Optimizer(decoder, settings)
    state = State()
    if saved is not None:
        state = _restore(saved, decoder, updates)
        metrics.say(f"resuming from {saved.path.name} of {job.num_steps} steps")
    log = metrics.RunLog(
        job.config.output,
        num_steps=job.num_steps,
        eval_every=settings.eval_every,
        save_every=settings.save_every,
        metrics_bytes=0 if saved is None else saved.state["metrics_bytes"],
        flops_per_token=model.flops_per_token(settings, job.vocab_size),
        device=device,
    )
    with contextlib.closing(log):
        if state.step == 0:
            with log.clock.timed("evaluation"):
                _measure(job, state, objective, scorer, log)
        while state.step < job.num_steps:
            log.clock.start()
            rate = job.rate(state.step)
            updates.set_learning_rate(rate)
            batch = job.batches.at(state.step)
            figures = torch.zeros(len(objective.figures), dtype=torch.float64, device=device)
            for part in parts(batch, job.config.settings.micro_batch):
                of_part = objective.of_part(scorer, part, batch)
                of_part[0].backward()  # type: ignore[no-untyped-call]
                figures += of_part.detach()
            norm = torch.nn.utils.clip_grad_norm_(decoder.parameters(), settings.clip)
            updates.step()
            updates.zero_grad()
            rows = [row for example in batch for row in example.rows]
            tokens = sum(row.num_inputs for row in rows)
            state.step += 1
            state.tokens += tokens
            state.response_tokens += sum(row.num_targets for row in rows)
            state.recent.append(torch.cat((figures, norm.double()[None])))
            last = state.step == job.num_steps
            due = state.step == 1 or state.step % settings.log_every == 0 or last
            means = _means(job, state, objective) if due else {}  # waits for a GPU, so that the clock is right
            log.clock.stop(tokens)
            if due:
                _record(state, log, means, rate)
            if state.step % settings.eval_every == 0 or last:
                with log.clock.timed("evaluation"):
                    _measure(job, state, objective, scorer, log)
            code = None if last else stop.code
            if state.step % settings.save_every == 0 or last or code is not None:
                with log.clock.timed("saving"):
                    _save(job, state, objective, decoder, updates, log)
            if code is not None:
                metrics.say(f"stopped after step {state.step} of {job.num_steps}; start again to go on")
                return code
    return DONE


def _objective(job: Job, scorer: Scorer) -> Objective:
    """Return the loss to minimise. A preference's reference is computed once, from the start, and stored."""
    tuning = job.config.settings
    if not isinstance(tuning, DpoSettings):
        return Sft()
    path = job.config.output / "reference.parquet"
    reference = dpo.read_reference(path, job.record())
    if reference is None:
        seen = range(min(job.batches.steps_per_epoch, job.num_steps))  # the first epoch, or as much of it as is run
        passes = [part for step in seen for part in parts(job.batches.at(step), tuning.micro_batch)]
        passes += parts(job.held_out, job.settings.eval_batch)
        metrics.say(f"reference: log-probabilities of {sum(map(len, passes))} pairs")
        reference = dpo.reference_log_probs(scorer, passes)
        dpo.write_reference(path, reference, job.record())
    return dpo.Dpo(reference, beta=tuning.beta, label_smoothing=tuning.label_smoothing)


def _measure(job: Job, state: State, objective: Objective, scorer: Scorer, log: metrics.RunLog) -> None:
    """Record the objective on what was set aside and the gold answers; before the first and after the last step, tasks too."""
    settings, output, last = job.settings, job.config.output, state.step == job.num_steps

    def score(rows: Sequence[scoring.Row]) -> list[scoring.Scored]:
        return scoring.score(
            scorer.hidden_of, scorer.head_weight, rows, batch_size=settings.eval_batch, context=settings.context,
            eos_id=scorer.filling, whole_batches=False, autocast=scorer.autocast,
        )  # fmt: skip

    if job.held_out:
        held_out = objective.score(scorer, job.held_out, settings.eval_batch)
        log.validation(step=state.step, scores={"held_out": held_out})
    if job.answers:
        nats = answers.answer_nats(job.answers, score)
        bits = answers.bits_per_byte(job.answers, nats)
        log.answers(step=state.step, groups=answers.by_group(job.answers, bits))
        if last:
            checkpoint.write_json(output / "answers.json", answers.records(job.answers, nats))
    if job.tasks and (last or state.step == 0):
        outcomes = tasks.measure(job.tasks, score)
        log.tasks(step=state.step, scores=tasks.scores(job.tasks, outcomes))
        if last:
            tasks.write(output / "task_items.parquet", job.tasks, outcomes)


def _means(job: Job, state: State, objective: Objective) -> dict[str, float]:
    """Return the mean of each figure since the last record, and the newest gradient norm.

    Raises:
        TrainError: If a loss or a gradient is not finite.
    """
    recent = torch.stack(state.recent).cpu()  # (steps, F + 1)
    for number, row in enumerate(recent, state.step - len(recent) + 1):
        if not row.isfinite().all():
            raise TrainError(
                f"step {number}: the loss is {row[0].item()}, the gradient's norm {row[-1].item()}. Tuning stopped. {_remedy(job)}"
            )
    means = recent[:, :-1].mean(dim=0).tolist()
    return dict(zip(objective.figures, means, strict=True)) | {"grad_norm": recent[-1, -1].item()}


def _remedy(job: Job) -> str:
    """Return what to do after a step that is not finite, by what has been saved before it."""
    lower = f"Lower `lr` ({job.settings.lr:g}), or raise `warmup_fraction` ({job.config.settings.warmup_fraction:g})"
    saved = sorted((job.config.output / "checkpoints").glob("step_" + "[0-9]" * 8))
    if not saved:
        return f"Nothing had been saved yet. {lower}, and start again."
    return (
        f"{saved[-1]} is from before. {lower}, and name another `output`: this one goes on with its own settings only."
    )


def _record(state: State, log: metrics.RunLog, means: dict[str, float], rate: float) -> None:
    loss, norm = means.pop("loss"), means.pop("grad_norm")
    log.training(
        step=state.step,
        tokens=state.tokens,
        loss=loss,
        lr=rate,
        grad_norm=norm,
        figures={"response_tokens": state.response_tokens, **means},
    )
    state.recent.clear()


def _save(
    job: Job, state: State, objective: Objective, decoder: model.Decoder, updates: Optimizer, log: metrics.RunLog
) -> None:
    if state.recent:
        _means(job, state, objective)
    bad = [name for name, parameter in decoder.named_parameters() if not parameter.isfinite().all()]
    if bad:
        raise TrainError(
            f"step {state.step}: {bad[0]} holds values that are not finite; this step is not saved. {_remedy(job)}"
        )
    progress: dict[str, Any] = {
        "metrics_bytes": log.sync(),
        "tokens": state.tokens,
        "response_tokens": state.response_tokens,
        "recent": [row.tolist() for row in state.recent],
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
    recent = [torch.tensor(row, dtype=torch.float64, device=device) for row in saved.state["recent"]]
    return State(saved.step, saved.state["tokens"], saved.state["response_tokens"], recent)


def _tell(job: Job) -> None:
    """Say, and write down, which rows are not used."""
    skipped = [asdict(one) for found in job.found for one in found.skipped]
    cut = sum(found.prompts_cut for found in job.found)
    if skipped:
        checkpoint.write_json(job.config.output / "skipped.json", skipped)
        metrics.say(f"{len(skipped)} rows are skipped: skipped.json says which and why")
    if cut:
        metrics.say(f"{cut} prompts are too long for the context of {job.settings.context}; they lose their beginning")
