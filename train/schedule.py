"""The learning rate: a pure function of the step."""

from __future__ import annotations

import math
from typing import Literal


def learning_rate(
    step: int,
    *,
    num_steps: int,
    warmup_steps: int,
    peak: float,
    schedule: Literal["wsd", "cosine"],
    min_ratio: float,
    decay_fraction: float,
) -> float:
    """Return the learning rate of update `step`, counted from 0.

    Linear warm-up from peak / warmup_steps to peak; then either a cosine from peak to min_ratio * peak (Loshchilov and
    Hutter 2017, arXiv:1608.03983), or constant and over the last `decay_fraction` of all steps a fall by 1 - sqrt(x)
    (Haegele et al. 2024, arXiv:2405.18392). x runs from 0 at the first update of the fall and would be 1 one update after
    the last: the last update still learns.

    Raises:
        ValueError: If `step` lies outside of the run.
    """
    if not 0 <= step < num_steps:
        raise ValueError(f"step must be in [0, {num_steps}), is {step}")
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    low = peak * min_ratio
    if schedule == "cosine":
        progress = (step - warmup_steps) / (num_steps - warmup_steps)
        return low + (peak - low) * 0.5 * (1 + math.cos(math.pi * progress))
    decay_steps = min(round(num_steps * decay_fraction), num_steps - warmup_steps)
    first = num_steps - decay_steps
    if step < first:
        return peak
    return low + (peak - low) * (1 - math.sqrt((step - first) / decay_steps))


def warmup_steps(*, warmup_tokens: int, batch_tokens: int, num_steps: int) -> int:
    """Return the steps of the warm-up: `warmup_tokens` rounded up to whole steps, at most a tenth of the run."""
    return min(math.ceil(warmup_tokens / batch_tokens), num_steps // 10)
