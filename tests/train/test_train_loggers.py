from __future__ import annotations

import json
import re
import sqlite3
import sys

import pytest

from train import loggers, metrics
from train.config import FREE_SETTINGS, TrainError, load
from train.job import settle
from train.loop import run


def installed(name):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install 'curate[{name}]'")


def config(make_folder, *names, steps=12):
    return load(make_folder(steps=steps).config("a", loggers=list(names), eval_every=5, log_every=3, save_every=6))


def lines(folder):
    """Every number of metrics.jsonl, as a dashboard is sent it: name -> [(step, value)]."""
    found = {}
    for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        prefix = "" if "validation" in line else "training/"
        for name, value in loggers.numbers(line, prefix).items():
            found.setdefault(name, []).append((line["step"], pytest.approx(value, rel=1e-6)))  # float32 in tensorboard
    return found


class Kept:
    def __init__(self, start=None):
        self.lines, self.closed = [], False

    def log(self, step, values):
        if self.closed or step == 6:
            raise ConnectionError("gone")
        self.lines.append((step, dict(values)))

    def close(self):
        self.closed = True


def test_numbers_of_a_line_by_hand():
    line = {"step": 3, "loss": 2.5, "mfu": None, "name": "x", "done": True, "validation": {"web": {"loss": 1}}}
    assert loggers.numbers(line, "t/") == {"t/loss": 2.5, "t/validation/web/loss": 1}


def test_a_dashboard_gets_every_line_until_it_fails(make_folder, monkeypatch, capsys):
    kept = Kept()
    monkeypatch.setitem(loggers._KINDS, "trackio", lambda start: kept)
    monkeypatch.setattr(loggers, "check", lambda names: None)
    settings = config(make_folder, "trackio", "trackio")
    assert run(settings) == 0
    expected = lines(settings.output)
    assert [step for step, _ in kept.lines] == [0, 1, 1, 3, 3, 5]
    for step, values in kept.lines:
        for name, value in values.items():
            assert name.startswith("timings/") or (step, value) in expected[name]
    assert {"training/loss", "training/lr", "validation/web/bits_per_byte"} <= {n for _, v in kept.lines for n in v}
    assert "timings/tokens_per_second" in kept.lines[2][1]
    told = [line for line in capsys.readouterr().err.splitlines() if "gone" in line]
    assert told == [
        "Kept: ConnectionError: gone. Left out from here on; metrics.jsonl has all."
    ]  # once, and the run goes on


def test_a_missing_package_is_an_error_that_names_the_extra(make_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # what an import of it finds
    with pytest.raises(TrainError, match=re.escape("pip install 'curate[wandb]'")):
        settle(config(make_folder, "wandb"))


def test_one_that_does_not_start_is_an_error_and_closes_the_others(tmp_path, monkeypatch):
    kept = Kept()
    monkeypatch.setitem(loggers._KINDS, "wandb", lambda start: kept)
    monkeypatch.setitem(loggers._KINDS, "trackio", lambda start: 1 / 0)
    with pytest.raises(TrainError, match="trackio does not start"):
        loggers.open_all(["wandb", "trackio"], loggers.Start(tmp_path, {}, 0))
    assert kept.closed


def test_loggers_may_change_on_the_way_and_are_named_once():
    assert "loggers" in FREE_SETTINGS
    hint = load.__globals__["typing"].get_type_hints(load.__globals__["Settings"])["loggers"]
    assert load.__globals__["typing"].get_args(hint.__args__[0]) == tuple(loggers._KINDS)


def test_only_known_loggers_are_taken(make_folder):
    with pytest.raises(
        TrainError, match=r"overrides\.loggers: must be a list, each item one of tensorboard, wandb, trackio"
    ):
        config(make_folder, "mlflow")


def stopped_and_resumed(settings, monkeypatch):
    """Run until the checkpoint of step 6 and beyond, fail at step 9, and run to the end."""
    real = metrics.RunLog.training

    def failing(log, *, step, **line):
        real(log, step=step, **line)
        if step == 9:
            raise TrainError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(metrics.RunLog, "training", failing)
        with pytest.raises(TrainError, match="stopped"):
            run(settings)
    assert run(settings) == 0


def test_tensorboard_has_the_numbers_of_the_log_also_after_a_resume(make_folder, monkeypatch):
    installed("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = config(make_folder, "tensorboard")
    stopped_and_resumed(settings, monkeypatch)
    read = EventAccumulator(str(settings.output / "tensorboard")).Reload()
    expected = lines(settings.output)
    assert expected["training/loss"][0][0] == 1
    for name, values in expected.items():
        assert [(event.step, event.value) for event in read.Scalars(name)] == values
    assert [event.step for event in read.Scalars("timings/tokens_per_second")] == [1, 3, 6, 9, 12]


@pytest.mark.filterwarnings("default")  # of another library
def test_wandb_offline_goes_on_in_the_same_run(make_folder, monkeypatch):
    installed("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    settings = config(make_folder, "wandb")
    stopped_and_resumed(settings, monkeypatch)
    files = sorted((settings.output / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2
    assert {file.stem for file in files} == {"run-" + (settings.output / "wandb" / "run_id").read_text()}
    told = b"".join(file.read_bytes() for file in files)
    training, _ = metrics.read(settings.output / "metrics.jsonl")
    assert all(json.dumps(line["loss"]).encode() in told for line in training)
    assert b"validation/web/bits_per_byte" in told


@pytest.mark.filterwarnings("default")
def test_trackio_goes_on_in_the_same_run(make_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # read when it is imported
    installed("trackio")
    from trackio import Api

    settings = config(make_folder, "trackio")
    stopped_and_resumed(settings, monkeypatch)
    [found] = Api().runs(loggers.PROJECT)
    assert found.name.endswith("run/train/a")
    with sqlite3.connect(tmp_path / "trackio" / "curate.db") as database:
        rows = [(step, json.loads(text)) for step, text in database.execute("SELECT step, metrics FROM metrics")]
    losses = [(step, row["training/loss"]) for step, row in rows if "training/loss" in row]
    training, _ = metrics.read(settings.output / "metrics.jsonl")
    assert sorted(losses) == sorted(
        (line["step"], line["loss"]) for line in (*training, training[3])
    )  # 9 was sent twice
