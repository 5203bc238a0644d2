"""`micro_batch: probe`: the number of sequences of one forward pass that trains fastest here, found by trying.

Sums over a batch are cut by the micro-batch, so what the probe finds may change the last digits of a loss. It stands in
resolved.json and in every checkpoint, and a run goes on with what it began with; but another run of the same config may find
another. Write the number into the config for runs that must be the same bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from train.checkpoint import Checkpoint
from train.config import ConfigError, TrainError
from train.distributed import Ranks, Replica
from train.job import Job, fix_arithmetic

REPEATS = 3  # timed passes of a size, after one that warms up; the best counts
GAIN = 1.03  # a size must be so much faster than all smaller ones to count as growth


def probed(job: Job, saved: Checkpoint | None, ranks: Ranks, like: Callable[[], Replica]) -> tuple[Job, dict[str, Any]]:
    """Return the job with its micro-batch, and what was measured: that of `saved`, or one found with a model that `like` makes.

    Raises:
        ConfigError: If there are several processes.
        TrainError: If the GPU's memory does not hold one sequence.
    """
    if ranks.size > 1:
        raise ConfigError(
            f"{job.config.path}: overrides.micro_batch: probe works in one process. Start one without torchrun, and set the "
            "number that its resolved.json names."
        )
    if saved is not None:
        size = saved.state["micro_batch"]
        return replace(job, micro_batch=size), {"micro_batch": size}
    fix_arithmetic(job.settings.threads, job.device)
    size, speeds = fastest(like(), job)
    return replace(job, micro_batch=size), {"micro_batch": size, "tokens_per_second": speeds}


def fastest(replica: Replica, job: Job) -> tuple[int, dict[int, float]]:
    """Return the fastest micro-batch, and the tokens per second of each size that was tried: 1, 2, 4, ... sequences.

    It stops where the batch or the GPU's memory ends, or after two sizes without growth: past that, only memory grows.
    """
    inputs, targets = (torch.from_numpy(one).to(job.device) for one in job.data.train.batch(0))  # (S, T)
    moments = [torch.empty_like(one) for one in replica.decoder.parameters() for _ in range(2)]  # the optimizer's share
    speeds: dict[int, float] = {}
    size, without_growth = 1, 0
    while size <= len(inputs) and without_growth < 2:
        try:
            speed = size * inputs.shape[1] / seconds(replica, job, inputs[:size], targets[:size])
        except torch.OutOfMemoryError:
            break
        without_growth = 0 if speed > GAIN * max(speeds.values(), default=0.0) else without_growth + 1
        speeds[size] = speed
        size *= 2
    del moments
    replica.decoder.zero_grad()
    if job.device.type == "cuda":
        torch.cuda.empty_cache()
    if not speeds:
        raise TrainError(
            f"{job.config.path}: the memory of {job.device} does not hold one sequence of {inputs.shape[1]} tokens. Choose a "
            "smaller preset or context."
        )
    return max(speeds, key=lambda tried: speeds[tried]), speeds


def seconds(replica: Replica, job: Job, inputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Return how long one forward and backward pass takes, the best of several."""
    found = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        with torch.autocast(job.device.type, dtype=torch.bfloat16, enabled=job.precision == "bfloat16"):
            objective, _ = replica.loss(inputs, targets)
        (objective / targets.numel()).backward()  # type: ignore[no-untyped-call]
        if job.device.type == "cuda":
            torch.cuda.synchronize(job.device)
        found.append(time.perf_counter() - start)
    return min(found[1:])
