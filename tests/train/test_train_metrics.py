from __future__ import annotations

import json

import pytest
import torch

from train import metrics
from train.evaluate import Score


def open_log(folder, metrics_bytes=0, dashboards=()):
    return metrics.RunLog(
        folder, num_steps=100, eval_every=30, save_every=50, metrics_bytes=metrics_bytes, flops_per_token=1000,
        device=torch.device("cpu"), dashboards=dashboards,
    )  # fmt: skip


def record(log, step):
    log.clock.start()
    log.clock.stop(64)
    log.training(step=step, tokens=64 * step, loss=3.25, lr=0.001, grad_norm=1.5)


def test_lines_are_as_the_contract_says(tmp_path, capsys):
    log = open_log(tmp_path)
    log.validation(step=0, scores={"web": Score(4.0, 54.6, 1.9)})
    record(log, 1)
    log.close()
    validation, training = (json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert validation == {"step": 0, "validation": {"web": {"loss": 4.0, "perplexity": 54.6, "bits_per_byte": 1.9}}}
    assert training == {"step": 1, "tokens": 64, "loss": 3.25, "lr": 0.001, "grad_norm": 1.5}
    assert metrics.read(tmp_path / "metrics.jsonl") == ([training], [validation])
    timing = json.loads((tmp_path / "timings.jsonl").read_text())
    assert timing["step"] == 1
    assert timing["seconds"] >= 0
    assert timing["tokens_per_second"] > 0
    assert timing["memory_bytes"] > 1 << 20  # an interpreter with torch is larger than a megabyte
    assert timing["mfu"] is None  # no peak is known for a CPU
    said = capsys.readouterr().err
    assert "step   0/100  validation: web 4.0000 (1.9000 bits/byte)" in said
    assert "step   1/100  loss 3.2500  lr 1.00e-03" in said
    assert "eta" in said


def test_what_came_after_the_checkpoint_is_cut_off(tmp_path):
    log = open_log(tmp_path)
    record(log, 1)
    kept = log.sync()
    record(log, 2)
    log.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "to')  # torn by a kill
    open_log(tmp_path, kept).close()
    assert [line["step"] for line in metrics.read(tmp_path / "metrics.jsonl")[0]] == [1]
    assert len((tmp_path / "timings.jsonl").read_text().splitlines()) == 2  # time was spent twice, and stays told


def test_a_start_from_nothing_empties_both_files(tmp_path):
    log = open_log(tmp_path)
    record(log, 1)
    log.close()
    open_log(tmp_path).close()
    assert (tmp_path / "metrics.jsonl").read_text() == (tmp_path / "timings.jsonl").read_text() == ""


def test_a_log_that_lost_lines_is_said(tmp_path, capsys):
    open_log(tmp_path, 500).close()
    assert "shorter than at the checkpoint" in capsys.readouterr().err


def test_no_number_that_is_none_reaches_the_log(tmp_path):
    log = open_log(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        log.training(step=1, tokens=1, loss=float("nan"), lr=0.1, grad_norm=1.0)
    log.close()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.4, "59s"), (59.6, "1m00s"), (200, "3m20s"), (3599, "59m59s"), (3600, "1h00m"), (7500, "2h05m")],
)
def test_durations_are_readable(seconds, text):
    assert metrics.duration(seconds) == text


@pytest.fixture
def now(monkeypatch):
    """A clock whose time is set by hand: now[0]."""
    time = [0.0]
    monkeypatch.setattr(metrics.time, "perf_counter", lambda: time[0])
    return time


def test_time_left_counts_the_evaluations_and_saves_to_come(now):
    clock = metrics.Clock(num_steps=100, eval_every=30, save_every=50)

    def spend(what, seconds):
        with clock.timed(what):
            now[0] += seconds

    def steps(count, seconds):
        for _ in range(count):
            clock.start()
            spend("data", seconds / 4)
            now[0] += seconds * 3 / 4
            clock.stop(64)

    spend("evaluation", 7.0)  # before the first step
    steps(1, 20.0)  # compiles
    assert clock.line() == {
        "seconds": 20.0, "tokens_per_second": 3.2, "data_seconds": 5.0, "evaluation_seconds": 7.0, "tasks_seconds": 0.0,
        "saving_seconds": 0.0,
    }  # fmt: skip
    assert clock.left(1) == pytest.approx(99 * 20 + 4 * 7)  # evaluated at 30, 60, 90, 100
    steps(49, 2.0)
    spend("evaluation", 5.0)
    assert clock.line()["tokens_per_second"] == 32
    # the start's slow step weighs nothing; evaluations at 60, 90, 100; no save was seen yet
    assert clock.left(50) == pytest.approx(50 * 2 + 3 * 5)
    spend("saving", 3.0)
    steps(10, 4.0)
    assert clock.line()["saving_seconds"] == 3
    # seconds a step: (0.9 * 98 + 40) / (0.9 * 49 + 10); evaluations at 60, 90, 100; a save at 100
    assert clock.left(60) == pytest.approx(40 * 128.2 / 54.1 + 3 * 5 + 3)
    assert clock.left(100) == pytest.approx(5 + 3)  # the last evaluation and the last save follow the last line


def test_a_cpu_has_no_peak():
    assert metrics.peak_flops(torch.device("cpu")) is None


@pytest.mark.parametrize(
    ("name", "peak"),  # NVIDIA's data sheets, bfloat16 tensor cores without sparsity
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA T4", None),
    ],
)
def test_the_peak_of_a_gpu_is_found_by_its_name(monkeypatch, name, peak):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert metrics.peak_flops(torch.device("cuda")) == peak
