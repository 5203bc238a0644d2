"""Other people's dashboards: each gets the numbers of metrics.jsonl and timings.jsonl, line by line, under the same names.

They are readers of a run, never a part of it: nothing of theirs changes a result, and one that fails is left out of the
rest of the run. Only the first rank has any. Whoever resumes goes on in the same dashboard. No network is used that was
not asked for: wandb is offline unless WANDB_MODE says otherwise, trackio writes to this machine unless TRACKIO_SPACE_ID
or TRACKIO_SERVER_URL is set.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from train.config import ConfigError, TrainError

PROJECT = "curate"


class Logger(Protocol):
    """What a dashboard is to the run log."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the numbers of one line."""

    def close(self) -> None:
        """Write what is pending."""


@dataclass(frozen=True, slots=True)
class Start:
    """The run that a dashboard is opened for.

    Attributes:
        folder: Its output.
        config: Its settings, resolved.
        step: Updates done; lines of later steps that were sent before are sent again.
    """

    folder: Path
    config: Mapping[str, Any]
    step: int

    @property
    def name(self) -> str:
        """Return the run's name: the last folders of its output, such as `web_code/train/0`."""
        return "/".join(self.folder.resolve().parts[1:][-3:])


class TensorBoard:
    """`tensorboard --logdir OUTPUT/tensorboard`."""

    def __init__(self, start: Start) -> None:
        summary_writer: Any = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        purge = start.step + 1 if start.step else 0  # the lines of the checkpoint's own step stand before it
        self._writer = summary_writer(str(start.folder / "tensorboard"), purge_step=purge)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the numbers of one line."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is pending."""
        self._writer.close()


class Wandb:
    """Below OUTPUT/wandb; `wandb sync` sends it. The project is WANDB_PROJECT, or `curate`."""

    def __init__(self, start: Start) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # else also an offline run calls home
        import wandb

        known = start.folder / "wandb" / "run_id"
        if not (start.step and known.exists()):
            known.parent.mkdir(exist_ok=True)
            known.write_text(uuid.uuid4().hex[:8], encoding="utf-8")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), name=start.name, dir=start.folder, id=known.read_text("utf-8"),
            resume="allow", mode=os.environ.get("WANDB_MODE", "offline"), config=dict(start.config),
            settings=wandb.Settings(console="off", disable_code=True, disable_git=True, quiet=True, x_disable_stats=True),
        )  # fmt: skip

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the numbers of one line; wandb keeps the first of two for a step."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Write what is pending."""
        self._run.finish()


class Trackio:
    """`trackio show --project curate`."""

    def __init__(self, start: Start) -> None:
        import trackio

        self._run = trackio.init(
            PROJECT, name=start.name, config=dict(start.config), resume="allow" if start.step else "never", embed=False,
            auto_log_gpu=False, auto_log_cpu=False,
        )  # fmt: skip

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the numbers of one line."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Write what is pending."""
        self._run.finish()


_KINDS: Mapping[str, type[TensorBoard] | type[Wandb] | type[Trackio]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "trackio": Trackio,
}


def check(names: Sequence[str]) -> None:
    """Refuse names whose package is absent.

    Raises:
        ConfigError: Names the extra.
    """
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    if absent:
        raise ConfigError(
            f"loggers: {', '.join(absent)} cannot be imported. Install it with `pip install 'curate[{','.join(absent)}]'`, or take "
            "it out of `loggers`."
        )


def open_all(names: Sequence[str], start: Start) -> list[Logger]:
    """Open the dashboards.

    Raises:
        TrainError: If one does not start.
    """
    opened: list[Logger] = []
    for name in dict.fromkeys(names):
        try:
            opened.append(_KINDS[name](start))
        except Exception as error:  # whatever a dashboard raises
            for one in opened:
                one.close()
            raise TrainError(
                f"loggers: {name} does not start ({type(error).__name__}: {error}). Take it out of `loggers`, or see its manual."
            ) from error
    return opened


def numbers(line: Mapping[str, Any], prefix: str) -> dict[str, float]:
    """Return the numbers of a line by name, `validation/web/loss`: what is nested is joined, the rest left out."""
    found: dict[str, float] = {}
    for key, value in line.items():
        if isinstance(value, Mapping):
            found |= numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and key != "step":
            found[prefix + key] = value
    return found
