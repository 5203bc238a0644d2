"""The micro-batch that is found by trying: with speeds and a memory that the tests make up."""

from __future__ import annotations

import json

import pytest
import torch

from train import checkpoint, loop, probe
from train.config import ConfigError, TrainError, load
from train.distributed import Ranks, Replica
from train.job import settle


def pretend(monkeypatch, speeds, *, memory=64):
    """Let a size have the given sequences per second; more sequences than `memory` do not fit."""
    tried = []

    def seconds(replica, job, inputs, targets):
        size = len(inputs)
        tried.append(size)
        if size > memory:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return size / speeds[size]

    monkeypatch.setattr(probe, "seconds", seconds)
    return tried


@pytest.fixture
def job(make_folder):
    return settle(load(make_folder(steps=2, batch=32).config("a", batch_windows=32, micro_batch="probe")))


@pytest.mark.parametrize(
    ("speeds", "memory", "tried", "found"),
    [
        ({1: 10, 2: 19, 4: 36, 8: 60, 16: 80, 32: 90}, 64, [1, 2, 4, 8, 16, 32], 32),  # grows until the batch ends
        ({1: 10, 2: 19, 4: 36, 8: 60, 16: 80}, 16, [1, 2, 4, 8, 16, 32], 16),  # until memory ends
        ({1: 10, 2: 19, 4: 36, 8: 36.5, 16: 36.6}, 64, [1, 2, 4, 8, 16], 16),  # two in a row within 3 %
        ({1: 10, 2: 19, 4: 18, 8: 30, 16: 29, 32: 28}, 64, [1, 2, 4, 8, 16, 32], 8),  # one slow size is no end
    ],
)
def test_sizes_double_until_nothing_is_gained(monkeypatch, job, speeds, memory, tried, found):
    seen = pretend(monkeypatch, speeds, memory=memory)
    replica = Replica(loop.drawn(job), "single", compiled=False)
    size, measured = probe.fastest(replica, job)
    assert (seen, size) == (tried, found)
    assert measured == {one: pytest.approx(8 * speed) for one, speed in speeds.items()}  # 8 tokens a sequence


def test_a_memory_too_small_for_one_sequence(monkeypatch, job):
    pretend(monkeypatch, {}, memory=0)
    with pytest.raises(TrainError, match=r"does not hold one sequence of 8 tokens\. Choose a smaller preset"):
        probe.fastest(Replica(loop.drawn(job), "single", compiled=False), job)


def test_probing_leaves_the_model_alone(job):
    replica = Replica(loop.drawn(job), "single", compiled=False)
    before = {name: one.clone() for name, one in replica.decoder.state_dict().items()}
    size, measured = probe.fastest(replica, job)
    assert size in measured
    assert all(speed > 0 for speed in measured.values())
    assert all(torch.equal(one, before[name]) for name, one in replica.decoder.state_dict().items())
    assert all(one.grad is None for one in replica.decoder.parameters())


def test_a_run_takes_what_is_found_and_keeps_it(make_folder, monkeypatch):
    folder = make_folder(steps=6)
    fixed, probed = folder.config("fixed", micro_batch=2), folder.config("probed", micro_batch="probe", max_minutes=0)
    assert loop.run(load(fixed)) == 0
    pretend(monkeypatch, {1: 10, 2: 20, 4: 15})
    assert loop.run(load(probed)) == 85  # stopped after the first step
    resolved = json.loads((probed.parent / "resolved.json").read_text())
    assert resolved["probe"] == {"micro_batch": 2, "tokens_per_second": {"1": 80.0, "2": 160.0, "4": 120.0}}
    saved = checkpoint.load_newest(probed.parent / "checkpoints", warn=pytest.fail)
    assert saved.state["micro_batch"] == 2
    pretend(monkeypatch, {1: 10, 2: 5, 4: 1})  # is not asked again
    assert loop.run(load(folder.config("probed", micro_batch="probe"))) == 0
    assert (probed.parent / "metrics.jsonl").read_bytes() == (fixed.parent / "metrics.jsonl").read_bytes()


def test_several_processes_do_not_probe(job):
    with pytest.raises(ConfigError, match=r"overrides\.micro_batch: probe works in one process"):
        probe.probed(job, None, Ranks(0, 2), lambda: pytest.fail("nothing is built"))


@pytest.mark.parametrize(("value", "message"), [("most", "must be a whole number or one of probe"), (0, "at least 1")])
def test_what_micro_batch_may_be(make_folder, value, message):
    with pytest.raises(ConfigError, match=f"overrides.micro_batch: must be .*{message}|micro_batch: {message}"):
        load(make_folder(steps=2).config("a", micro_batch=value))
