"""The learning rate: a pure function of the step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal


def learning_rate(
    step: int,
    *,
    num_steps: int,
    warmup_steps: int,
    peak: float,
    schedule: Literal["wsd", "wsd-s", "cosine"],
    min_ratio: float,
    decay_fraction: float,
    decay_ends: Sequence[int],
) -> float:
    """Return the learning rate of update `step`, counted from 0.

    Linear warm-up from peak / warmup_steps to peak; then either a cosine from peak to min_ratio * peak (Loshchilov and
    Hutter 2017, arXiv:1608.03983), or the peak, and before each of `decay_ends` a fall by 1 - sqrt(x) (Haegele et al. 2024,
    arXiv:2405.18392), after which it is the peak again (WSD-S, Wen et al. 2024, arXiv:2410.05192; `wsd` has one end, the
    run's). A fall takes `decay_fraction` of the steps since the last end, as in OLMo-core's WSDS. x runs from 0 at the first
    update of the fall and would be 1 one update after the last: the last update still learns.

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
    end = next(end for end in decay_ends if step < end)
    begin = max((end for end in decay_ends if end <= step), default=0)
    decay_steps = min(round((end - begin) * decay_fraction), end - max(begin, warmup_steps))
    first = end - decay_steps
    if step < first:
        return peak
    return low + (peak - low) * (1 - math.sqrt((step - first) / decay_steps))


def decay_ends(points: Sequence[float] | None, *, batch_tokens: int, num_steps: int) -> tuple[int, ...]:
    """Return the steps after which the learning rate has fallen, the last one being the run's last.

    Args:
        points: Where it falls before the end: shares of the run (up to 1) or tokens; rounded to whole steps.
        batch_tokens: Of one step.
        num_steps: Of the run.

    Raises:
        ValueError: If a point lies behind the run's end, or less than one step behind another, or behind the start.
    """
    ends = [round(point * num_steps if point <= 1 else point / batch_tokens) for point in points or ()]
    for point, end in zip(points or (), ends, strict=True):
        if not 1 <= end <= num_steps:
            raise ValueError(
                f"{point:,} is step {end} of a run of {num_steps} steps ({num_steps * batch_tokens:,} tokens)"
            )
    if len(set(ends)) < len(ends):
        raise ValueError(f"two of them fall on one step of {batch_tokens:,} tokens: steps {', '.join(map(str, ends))}")
    return (*(end for end in ends if end < num_steps), num_steps)


def warmup_steps(*, warmup_tokens: int, batch_tokens: int, num_steps: int) -> int:
    """Return the steps of the warm-up: `warmup_tokens` rounded up to whole steps, at most a tenth of the run."""
    return min(math.ceil(warmup_tokens / batch_tokens), num_steps // 10)
