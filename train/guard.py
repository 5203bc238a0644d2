"""Steps that must not be applied: found on the device, without waiting for it, and judged when the log is due. Runs that diverged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from train.config import Settings, TrainError
from train.data import TrainingData

# A log line's loss against that of step 1, which is that of a model that knows nothing: above this the weights are lost. Tiny
# runs at 30 times the rate that suits them, every step logged, reached 1.41 and still learned; at 50 times 1.8, and did not.
DIVERGED = 1.5
# The end against the start: above what batches and short runs differ by, as nothing is left that could make it good.
WORSE = 1.05


@dataclass(frozen=True, slots=True)
class Seen:
    """What the guard saw of one step.

    Attributes:
        step: Counted from 1.
        loss: Mean nats per token.
        norm: L2 norm of the gradient before clipping.
        loss_bound, norm_bound: What they may be at most; infinite while too few steps are known.
        skipped: Whether the update was left out.
    """

    step: int
    loss: float
    norm: float
    loss_bound: float
    norm_bound: float
    skipped: bool

    @property
    def reason(self) -> str:
        """Return why the step was skipped."""
        if not math.isfinite(self.loss):
            return "loss not finite"
        if not math.isfinite(self.norm):
            return "gradient not finite"
        return "loss exploded" if self.loss > self.loss_bound else "gradient exploded"


class Guard:
    """Compares each step's loss and gradient norm with those of the steps before.

    A step is refused if either is not finite, or stands out from the last `skip_window` applied steps, once half a window is
    known: a loss more than `skip_sigma` standard deviations above their mean (the rule of OLMo-core's `SkipStepOptimizer`); a
    norm as far above it on a logarithmic scale, and at least twice their geometric mean. Norms are skewed: on their own scale,
    six standard deviations refused 3 of 976 sound steps of the demonstration, at 1.2 times the usual norm, and a corpus of many
    kinds would have lost more updates than a plain one. Refused steps do not enter the window.
    """

    def __init__(self, settings: Settings, device: torch.device, *, sigma: float | None) -> None:
        self._sigma = sigma
        self._window = torch.zeros(2, settings.skip_window, dtype=torch.float64, device=device)  # losses; log norms
        self._applied = torch.zeros((), dtype=torch.int64, device=device)

    def restart(self) -> None:
        """Forget the window: what comes next is not comparable with what came before."""
        self._window.zero_()
        self._applied.zero_()

    def refuses(self, loss: Tensor, norm: Tensor) -> tuple[Tensor, Tensor]:
        """Return whether this step's update must be left out, and what the log needs to say about it.

        Args:
            loss: Mean nats per token, a scalar.
            norm: L2 norm of the gradient before clipping, a scalar.

        Returns:
            A bool scalar, and (loss, norm, bound of each, whether refused) as five float64; nothing is waited for.
        """
        loss, norm = loss.detach().double(), norm.detach().double()
        size = self._window.shape[1]
        bounds = torch.full((2,), math.inf, dtype=torch.float64, device=loss.device)
        if self._sigma is not None:
            known = self._applied.clamp(max=size)
            filled = torch.arange(size, device=loss.device) < known
            mean = self._window.sum(dim=1) / known.clamp(min=1)  # places not filled yet are 0
            spread = ((self._window - mean[:, None]) * filled).square().sum(dim=1) / (known - 1).clamp(min=1)
            above = self._sigma * spread.sqrt()
            found = torch.stack((mean[0] + above[0], (mean[1] + above[1].clamp(min=math.log(2))).exp()))
            bounds = torch.where(known >= size // 2, found, bounds)
        values = torch.stack((loss, norm))
        skip = ~(values.isfinite() & (values <= bounds)).all()
        place = (self._applied % size).expand(2, 1)
        scaled = torch.stack((loss, norm.clamp(min=1e-30).log()))[:, None]
        self._window.scatter_(1, place, torch.where(skip, self._window.gather(1, place), scaled))
        self._applied += ~skip
        return skip, torch.cat((values, bounds, skip.double()[None]))

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint keeps; the inverse of `restore`."""
        return {"window": self._window, "applied": self._applied}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` gave."""
        self._window.copy_(tensors["window"])
        self._applied.copy_(tensors["applied"])


def read(noted: Iterable[Tensor], first: int) -> list[Seen]:
    """Return what `Guard.refuses` noted of successive steps, the first of them `first`. Waits for the device."""
    rows = torch.stack(tuple(noted)).cpu().tolist()
    return [
        Seen(first + index, loss, norm, loss_bound, norm_bound, bool(skipped))
        for index, (loss, norm, loss_bound, norm_bound, skipped) in enumerate(rows)
    ]


def line(seen: Seen, data: TrainingData) -> dict[str, Any]:
    """Return the record of a skipped step: why, and which documents it read."""

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "reason": seen.reason,
        "loss": number(seen.loss),
        "loss_bound": number(seen.loss_bound),
        "grad_norm": number(seen.norm),
        "grad_norm_bound": number(seen.norm_bound),
        "windows": list(documents(data, seen.step - 1)),
    }


def documents(data: TrainingData, batch: int) -> Iterator[dict[str, Any]]:
    """Yield source, window, and the ids of the documents in it, for each slot of batch `batch`, counted from 0."""
    length = data.plan.window
    for name, window in data.slots(batch):
        source = data.sources[name]
        first, last = (source.document_at(token) for token in (window * length, (window + 1) * length))
        yield {"source": name, "window": window, "documents": source.document_ids[first : last + 1]}


def refuse_divergence(config: Path, *, step: int, loss: float | None, first_loss: float | None) -> None:
    """Stop a run whose weights are lost, at a log line: each of its steps may look like the one before.

    Args:
        config: The run's config file.
        step: That of the line.
        loss: Of the line; None if all its steps were skipped.
        first_loss: Of the first line, that of step 1.

    Raises:
        TrainError: If the loss is above `DIVERGED` times the first.
    """
    if loss is not None and first_loss is not None and loss > DIVERGED * first_loss:
        raise _diverged(config, f"step {step}: the loss is {loss:.4f}, at step 1 it was {first_loss:.4f}")


def refuse_worse(config: Path, training: Sequence[Mapping[str, Any]], validation: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to call a run complete that knows less at its end than at its start.

    With validation, its bits per byte decide, mean over the sources; but not if the training loss has fallen: what overfits, or
    is scored on what it was not trained on, has learned all the same.

    Args:
        config: The run's config file.
        training: All training lines of its metrics.jsonl.
        validation: All validation lines; the first is that of step 0.

    Raises:
        TrainError: If it ended above `WORSE` times its start.
    """
    step, first_loss, last_loss = training[-1]["step"], training[0]["loss"], training[-1]["loss"]
    if not validation:
        if last_loss > WORSE * first_loss:
            raise _diverged(config, f"step {step}: the last loss is {last_loss:.4f}, at step 1 it was {first_loss:.4f}")
        return
    first, last = (
        fmean(score["bits_per_byte"] for score in line["validation"].values())
        for line in (validation[0], validation[-1])
    )
    if last > WORSE * first and last_loss >= first_loss:
        raise _diverged(config, f"step {step}: validation ends at {last:.4f} bits/byte, at step 0 it was {first:.4f}")


def _diverged(config: Path, found: str) -> TrainError:
    return TrainError(
        f"{found}, of a model that knows nothing. The run has diverged; the last checkpoint stays, but may be no better. Lower "
        f"`lr` or raise `warmup_tokens`, and train anew; `python -m train lr-range {config}` names good rates."
    )
