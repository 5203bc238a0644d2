"""The run log: what was learned (metrics.jsonl, reproducible), how fast (timings.jsonl, not), and a line to read."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Peak bfloat16 operations per second of the tensor cores, without sparsity (half of what the sheets print with it), from
# NVIDIA's data sheets of each; the first name found in the device's counts.
PEAK_FLOPS = {
    "GB200": 2500e12, "B200": 2250e12, "H200 NVL": 835e12, "H200": 989e12, "H100 PCIe": 756e12, "H100 NVL": 835e12,
    "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L40": 181e12, "L4": 121e12,
}  # fmt: skip


class RunLog:
    """Writes metrics.jsonl, timings.jsonl and lines for a reader on stderr.

    metrics.jsonl holds nothing that may differ between two runs. When a run resumes, what was written after its
    checkpoint is cut off and comes again.
    """

    def __init__(
        self,
        folder: Path,
        *,
        num_steps: int,
        metrics_bytes: int,
        flops_per_token: int,
        device: torch.device,
        num_devices: int = 1,
    ) -> None:
        """Open the files.

        Args:
            folder: The run's output.
            num_steps: Of the whole run.
            metrics_bytes: Length of metrics.jsonl at the checkpoint that the run resumes from; 0 at the start.
            flops_per_token: For the model FLOPs utilisation.
            device: Where the run computes.
            num_devices: How many of them share the work.
        """
        path = folder / "metrics.jsonl"
        self._metrics = path.open("ab")
        if path.stat().st_size < metrics_bytes:
            say(f"{path}: shorter than at the checkpoint; earlier lines are missing.")
        else:
            os.truncate(path, metrics_bytes)
        self._timings = (folder / "timings.jsonl").open("ab")
        if not metrics_bytes:
            self._timings.truncate(0)
        self._num_steps = num_steps
        self._flops_per_token = flops_per_token
        self._device = device
        peak = peak_flops(device)
        self._peak = None if peak is None else peak * num_devices
        self._seconds = 0.0  # spent in training since the last line
        self._tokens = 0  # trained on since the last line
        self._started: float | None = None

    def start_clock(self) -> None:
        """Begin a stretch of training: evaluation and saving are not counted as its speed."""
        self._started = time.perf_counter()

    def stop_clock(self, tokens: int) -> None:
        """End the stretch, in which `tokens` were trained on."""
        assert self._started is not None, "start_clock comes first"
        self._seconds += time.perf_counter() - self._started
        self._tokens += tokens
        self._started = None

    def training(
        self,
        *,
        step: int,
        tokens: int,
        loss: float,
        lr: float,
        grad_norm: float,
        figures: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Record the mean loss since the last record, further figures of the objective, and the speed."""
        line = {"step": step, "tokens": tokens, "loss": loss, "lr": lr, "grad_norm": grad_norm, **figures}
        _write(self._metrics, line)
        per_second = self._tokens / self._seconds if self._seconds > 0 else 0.0
        flops = per_second * self._flops_per_token
        timing = {
            "step": step,
            "seconds": round(self._seconds, 6),
            "tokens_per_second": round(per_second, 1),
            "memory_bytes": memory_bytes(self._device),
            "flops_per_second": round(flops),
            "mfu": None if self._peak is None else round(flops / self._peak, 4),
        }
        _write(self._timings, timing)
        left = (self._num_steps - step) * (tokens // step) / per_second if per_second else 0.0
        say(
            f"step {step:>{len(str(self._num_steps))}}/{self._num_steps}  loss {loss:.4f}  lr {lr:.2e}  "
            f"{per_second:,.0f} tokens/s  eta {duration(left)}"
        )
        self._seconds, self._tokens = 0.0, 0

    def skipped(self, *, step: int, fault: Mapping[str, Any]) -> None:
        """Record a step without an update: why, and what it read."""
        _write(self._metrics, {"step": step, "skipped": fault})
        ids = list(dict.fromkeys(name for window in fault["windows"] for name in window["documents"]))
        say(
            f"step {step:>{len(str(self._num_steps))}}/{self._num_steps}  skipped: {fault['reason']}; documents {', '.join(ids[:3])}"
            + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        )

    def rolled_back(self, *, step: int, to: int, why: str) -> None:
        """Record that the weights of step `to` took the place of those of `step`."""
        _write(self._metrics, {"step": step, "rolled_back": {"to": to, "first_jumped": to + 1, "last_jumped": step}})
        say(
            f"step {step:>{len(str(self._num_steps))}}/{self._num_steps}  {why}: back to the weights of step {to}, on behind step {step}"
        )

    def validation(
        self,
        *,
        step: int,
        scores: Mapping[str, DataclassInstance],
        further: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Record the scores of all validation sets, each of which can say itself in words, and further keys of the line."""
        validation = {name: asdict(score) for name, score in scores.items()}
        _write(self._metrics, {"step": step, "validation": validation, **further})
        parts = (f"{name} {score}" for name, score in scores.items())
        say(f"step {step:>{len(str(self._num_steps))}}/{self._num_steps}  validation: " + ", ".join(parts))

    def answers(self, *, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
        """Record the mean bits per byte of each group of gold answers."""
        _write(self._metrics, {"step": step, "answers": groups})
        parts = (f"{name} {one['bits_per_byte']:.4f} bits/byte ({one['items']})" for name, one in groups.items())
        say(f"step {step:>{len(str(self._num_steps))}}/{self._num_steps}  gold answers: " + ", ".join(parts))

    def tasks(self, *, step: int, scores: Mapping[str, Any]) -> None:
        """Record the scores of all tasks, and their mean."""
        _write(self._metrics, {"step": step, **scores})
        parts = (
            f"{name} {one['centred']:+.3f} ({one['score']:.1%}, {one['bits_per_byte']:.3f} bits/byte)"
            for name, one in scores["tasks"].items()
        )
        mean = scores["tasks_mean"]["centred"]
        say(
            f"step {step:>{len(str(self._num_steps))}}/{self._num_steps}  tasks, centred on chance: {mean:+.3f}: "
            + ", ".join(parts)
        )

    def sync(self) -> int:
        """Make metrics.jsonl durable and return its length in bytes."""
        os.fsync(self._metrics.fileno())
        return os.fstat(self._metrics.fileno()).st_size

    def close(self) -> None:
        """Close the files."""
        self._metrics.close()
        self._timings.close()


def read(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the training lines and the validation lines of a metrics.jsonl."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if "loss" in line], [line for line in lines if "validation" in line]


def last_tasks(path: Path) -> dict[str, Any]:
    """Return what the last line with scores of tasks says, but for its step."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    last = [line for line in lines if "tasks" in line][-1]
    return {name: value for name, value in last.items() if name != "step"}


def peak_flops(device: torch.device) -> float | None:
    """Return the device's peak bfloat16 operations per second, or None if it is not in our table (a CPU never is)."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((flops for key, flops in PEAK_FLOPS.items() if key in name), None)


def memory_bytes(device: torch.device) -> int:
    """Return the peak memory: of the GPU if the run is there, else of the process (resident)."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux kilobytes


def duration(seconds: float) -> str:
    """Return seconds as people write them: `45s`, `3m20s`, `2h05m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def say(text: str) -> None:
    """Print a line for the reader; of the processes that torchrun starts, the first speaks for all."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr, flush=True)


def _write(file: IO[bytes], line: Mapping[str, Any]) -> None:
    file.write((json.dumps(line, allow_nan=False) + "\n").encode())
    file.flush()
