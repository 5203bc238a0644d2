"""Steps that must not be applied: found on the device, without waiting for it, and judged when the log is due."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from train.config import Settings
from train.data import TrainingData


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
