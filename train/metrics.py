"""The run log: what was learned (metrics.jsonl, reproducible), how fast (timings.jsonl, not), and a line to read."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import torch

from train.loggers import Logger, numbers

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Peak bfloat16 operations per second of the tensor cores, without sparsity (half of what the sheets print with it), from
# NVIDIA's data sheets of each; the first name found in the device's counts.
PEAK_FLOPS = {
    "GB200": 2500e12, "B200": 2250e12, "H200 NVL": 835e12, "H200": 989e12, "H100 PCIe": 756e12, "H100 NVL": 835e12,
    "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L40": 181e12, "L4": 121e12,
}  # fmt: skip


class Clock:
    """Seconds by what they were spent on, and from them the time that is left."""

    def __init__(self, *, num_steps: int, eval_every: int, save_every: int) -> None:
        self._num_steps = num_steps
        self._every = {"evaluation": eval_every, "saving": save_every}
        self._latest: dict[str, float] = {}  # seconds that one evaluation, one save took
        self._since: dict[str, float] = defaultdict(float)  # seconds since the last line
        self._tokens = self._steps = 0  # trained on since the last line
        self._started = time.perf_counter()
        self._lines = 0
        self._pace = (0.0, 0.0)  # seconds and steps, older lines weighing less

    @contextlib.contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Count the block's seconds as `data` (inside of a step), `evaluation`, `tasks` or `saving`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._latest[what] = time.perf_counter() - started
            self._since[what] += self._latest[what]

    def start(self) -> None:
        """Begin a step: evaluation and saving are not counted as its speed."""
        self._started = time.perf_counter()

    def stop(self, tokens: int) -> None:
        """End the step, in which `tokens` were trained on."""
        self._since["training"] += time.perf_counter() - self._started
        self._tokens += tokens
        self._steps += 1

    def line(self) -> dict[str, float]:
        """Return the seconds since the last line and the tokens per second of training, and begin the next line."""
        seconds = self._since["training"]
        older = 0.9 if self._lines > 1 else 0.0  # the first line has what only a start costs: compilation, cold caches
        self._pace = (older * self._pace[0] + seconds, older * self._pace[1] + self._steps)
        speed = self._tokens / seconds if seconds > 0 else 0.0
        spent = {f"{what}_seconds": round(self._since[what], 6) for what in ("data", "evaluation", "tasks", "saving")}
        self._lines += 1
        self._tokens = self._steps = 0
        self._since.clear()
        return {"seconds": round(seconds, 6), "tokens_per_second": round(speed, 1), **spent}

    def left(self, step: int) -> float:
        """Return the seconds from the line of `step` to the end, with the evaluations and saves to come."""
        seconds, steps = self._pace
        total = (self._num_steps - step) * seconds / steps if steps else 0.0
        for what, every in self._every.items():  # those at `step` are still to come, and one is always at the end
            total += self._latest.get(what, 0.0) * ((self._num_steps - 1) // every - (step - 1) // every + 1)
        return total


class RunLog:
    """Writes metrics.jsonl, timings.jsonl and lines for a reader on stderr, and passes the numbers to dashboards.

    Its `clock` is the loop's to start and stop. metrics.jsonl holds nothing that may differ between two runs. When a run
    resumes, what was written after its checkpoint is cut off and comes again.
    """

    def __init__(
        self,
        folder: Path,
        *,
        num_steps: int,
        eval_every: int,
        save_every: int,
        metrics_bytes: int,
        flops_per_token: int,
        device: torch.device,
        num_devices: int = 1,
        dashboards: Sequence[Logger] = (),
    ) -> None:
        """Open the files.

        Args:
            folder: The run's output.
            num_steps: Of the whole run.
            eval_every: Steps, for the time that is left.
            save_every: Steps, for the time that is left.
            metrics_bytes: Length of metrics.jsonl at the checkpoint that the run resumes from; 0 at the start.
            flops_per_token: For the model FLOPs utilisation.
            device: Where the run computes.
            num_devices: How many of them share the work.
            dashboards: Get every line too; closed with the log.
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
        self.clock = Clock(num_steps=num_steps, eval_every=eval_every, save_every=save_every)
        self._num_steps = num_steps
        self._flops_per_token = flops_per_token
        self._device = device
        peak = peak_flops(device)
        self._peak = None if peak is None else peak * num_devices
        self._dashboards = list(dashboards)

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
        self._write(self._metrics, line, "training/")
        spent = self.clock.line()
        flops = spent["tokens_per_second"] * self._flops_per_token
        mfu = None if self._peak is None else round(flops / self._peak, 4)
        memory = memory_bytes(self._device)
        timing = {"step": step, **spent, "memory_bytes": memory, "flops_per_second": round(flops), "mfu": mfu}
        self._write(self._timings, timing, "timings/")
        self._say(
            step,
            f"loss {loss:.4f}  lr {lr:.2e}  {spent['tokens_per_second']:,.0f} tokens/s  "
            f"{'' if mfu is None else f'mfu {mfu:.1%}  '}eta {duration(self.clock.left(step))}",
        )

    def skipped(self, *, step: int, fault: Mapping[str, Any]) -> None:
        """Record a step without an update: why, and what it read."""
        self._write(self._metrics, {"step": step, "skipped": fault})
        ids = list(dict.fromkeys(name for window in fault["windows"] for name in window["documents"]))
        self._say(
            step,
            f"skipped: {fault['reason']}; documents {', '.join(ids[:3])}"
            + (f" and {len(ids) - 3} more" if len(ids) > 3 else ""),
        )

    def rolled_back(self, *, step: int, to: int, why: str) -> None:
        """Record that the weights of step `to` took the place of those of `step`."""
        self._write(
            self._metrics, {"step": step, "rolled_back": {"to": to, "first_jumped": to + 1, "last_jumped": step}}
        )
        self._say(step, f"{why}: back to the weights of step {to}, on behind step {step}")

    def validation(
        self,
        *,
        step: int,
        scores: Mapping[str, DataclassInstance],
        further: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Record the scores of all validation sets, each of which can say itself in words, and further keys of the line."""
        validation = {name: asdict(score) for name, score in scores.items()}
        self._write(self._metrics, {"step": step, "validation": validation, **further})
        parts = (f"{name} {score}" for name, score in scores.items())
        self._say(step, "validation: " + ", ".join(parts))

    def answers(self, *, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
        """Record the mean bits per byte of each group of gold answers."""
        self._write(self._metrics, {"step": step, "answers": groups})
        parts = (f"{name} {one['bits_per_byte']:.4f} bits/byte ({one['items']})" for name, one in groups.items())
        self._say(step, "gold answers: " + ", ".join(parts))

    def tasks(self, *, step: int, scores: Mapping[str, Any]) -> None:
        """Record the scores of all tasks, and their mean."""
        self._write(self._metrics, {"step": step, **scores})
        parts = (
            f"{name} {one['centred']:+.3f} ({one['score']:.1%}, {one['bits_per_byte']:.3f} bits/byte)"
            for name, one in scores["tasks"].items()
        )
        mean = scores["tasks_mean"]["centred"]
        self._say(step, f"tasks, centred on chance: {mean:+.3f}: " + ", ".join(parts))

    def sync(self) -> int:
        """Make metrics.jsonl durable and return its length in bytes."""
        os.fsync(self._metrics.fileno())
        return os.fstat(self._metrics.fileno()).st_size

    def close(self) -> None:
        """Close files and dashboards."""
        self._metrics.close()
        self._timings.close()
        for one in tuple(self._dashboards):
            self._try(one, one.close)

    def _write(self, file: IO[bytes], line: Mapping[str, Any], prefix: str = "") -> None:
        file.write((json.dumps(line, allow_nan=False) + "\n").encode())
        file.flush()
        for one in tuple(self._dashboards):
            self._try(one, one.log, line["step"], numbers(line, prefix))

    def _try(self, dashboard: Logger, call: Callable[..., None], *arguments: Any) -> None:
        """Call a dashboard; one that fails is told once and left out: it must not cost the run."""
        try:
            call(*arguments)
        except Exception as error:
            self._dashboards.remove(dashboard)
            say(
                f"{type(dashboard).__name__}: {type(error).__name__}: {error}. Left out from here on; metrics.jsonl has all."
            )

    def _say(self, step: int, text: str) -> None:
        say(f"step {step:>{len(str(self._num_steps))}}/{self._num_steps}  {text}")


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
