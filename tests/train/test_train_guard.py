"""Faults of training: which steps are refused, by numbers worked out by hand, and what a run does about them."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from train import checkpoint, guard, loop
from train.__main__ import environment
from train.config import PRESETS, TrainError, load
from train.data import TrainingData, open_data
from train.distributed import Replica

ROOT = Path(__file__).parents[2]
NAN, INF = math.nan, math.inf

# Runs a config whose loss is multiplied at chosen steps; after a chosen step was logged the process kills itself.
FAULTY = """
import json, os, signal, sys
from train import config, data, loop, metrics
from train.distributed import Replica
from train.__main__ import main

factors, last = {int(k): float(v) for k, v in json.loads(sys.argv[2]).items()}, int(sys.argv[3])
now = [0]
real_batch, real_losses, real_record = data.TrainingData.batch, Replica.loss, metrics.RunLog.training
def batch(train, step):
    now[0] = step + 1
    return real_batch(train, step)
def losses(*given, **named):
    return tuple(part * factors.get(now[0], 1.0) for part in real_losses(*given, **named))
def record(log, **line):
    real_record(log, **line)
    if line["step"] == last:
        os.kill(os.getpid(), signal.SIGKILL)
data.TrainingData.batch, Replica.loss, metrics.RunLog.training = batch, losses, record
sys.exit(main(["run", sys.argv[1]]))
"""


def guarded(**overrides):
    settings = _settings(**overrides)
    return guard.Guard(settings, torch.device("cpu"), sigma=settings.skip_sigma)


def _settings(**overrides):
    import dataclasses

    return dataclasses.replace(PRESETS["demo-1m"], **overrides)


def refused(watch, loss, norm=1.0):
    return bool(watch.refuses(torch.tensor(loss, dtype=torch.float64), torch.tensor(norm))[0])


def test_a_step_above_six_sigma_is_refused():
    # Losses 1, 3, 1, 3: mean 2, variance 4 / 3 (three degrees of freedom), sigma 1.154700538: the bound is 8.928203230.
    for above in (False, True):
        watch = guarded(skip_window=8, skip_sigma=6.0)
        assert [refused(watch, loss) for loss in (1.0, 3.0, 1.0, 3.0)] == [False] * 4
        assert refused(watch, 8.92820324 if above else 8.92820322) == above
    watch = guarded(skip_window=8, skip_sigma=None)
    assert not any(refused(watch, loss) for loss in (1.0, 3.0, 1.0, 3.0, 1e9))


def test_nothing_explodes_before_half_a_window_is_known():
    watch = guarded(skip_window=8)
    assert [refused(watch, loss) for loss in (1.0, 1.0, 1.0, 1e6)] == [False] * 4
    watch = guarded(skip_window=8)
    assert [refused(watch, loss) for loss in (1.0, 1.0, 1.0, 1.0, 1e6)] == [False] * 4 + [True]


def test_norms_are_compared_on_a_logarithmic_scale():
    # Norms 1, 4, 1, 4: logarithms 0 and 1.386294, mean 0.693147, variance 1.921812 / 3, sigma 0.800378; with 3 sigma the bound is
    # exp(0.693147 + 2.401133) = 22.0713.
    for above in (False, True):
        watch = guarded(skip_window=8, skip_sigma=3.0)
        assert [refused(watch, 1.0, norm) for norm in (1.0, 4.0, 1.0, 4.0)] == [False] * 4
        assert refused(watch, 1.0, 22.08 if above else 22.06) == above


def test_a_norm_below_twice_the_usual_never_explodes():
    for above in (False, True):  # norms without any spread
        watch = guarded(skip_window=8)
        assert [refused(watch, 1.0, 0.5) for _ in range(4)] == [False] * 4
        assert refused(watch, 1.0, 1.001 if above else 0.999) == above


def test_a_guard_that_starts_again_knows_nothing():
    watch = guarded(skip_window=4)
    assert [refused(watch, loss) for loss in (1.0, 1.0, 5.0)] == [False, False, True]
    watch.restart()
    assert [refused(watch, loss) for loss in (5.0, 5.0, 9.0)] == [False, False, True]


@pytest.mark.parametrize(("loss", "norm"), [(NAN, 1.0), (INF, 1.0), (1.0, NAN), (1.0, INF), (-INF, 1.0)])
def test_what_is_not_finite_is_refused_from_the_first_step(loss, norm):
    watch = guarded()
    assert refused(watch, loss, norm)
    assert not refused(watch, 1.0)


def test_refused_steps_do_not_enter_the_window_and_the_oldest_leave_it():
    watch = guarded(skip_window=4, skip_sigma=6.0)
    for loss in (1.0, 3.0, NAN, 1e9, 1.0, 3.0, 1.0):
        refused(watch, loss)
    # Five steps were applied: 1, 3, 1, 3 and then 1 in the place of the first. Mean and spread are as before.
    assert refused(watch, 8.93)
    assert not refused(watch, 8.92)  # enters, in the place of a 3
    # 1, 8.92, 1, 3: mean 3.48, squared distances 6.1504 + 29.5936 + 6.1504 + 0.2304 = 42.1248; sigma = sqrt(14.0416) = 3.747212;
    # the bound is 25.963274.
    assert not refused(watch, 25.9632)
    watch = guarded(skip_window=4, skip_sigma=6.0)
    for loss in (1.0, 3.0, 1.0, 3.0, 1.0, 8.92):
        refused(watch, loss)
    assert refused(watch, 25.9634)


def test_a_guard_goes_on_where_its_tensors_were_kept():
    watch = guarded(skip_window=8)
    for loss in (1.0, 3.0, 1.0, 3.0):
        refused(watch, loss)
    other = guarded(skip_window=8)
    other.restore(watch.tensors())
    assert refused(other, 8.93)


def test_reasons_and_bounds_are_told():
    watch = guarded(skip_window=4)
    noted = [watch.refuses(torch.tensor(loss), torch.tensor(norm))[1]
             for loss, norm in ((1.0, 1.0), (1.0, 1.0), (2.0, 1.0), (1.0, 2.5), (NAN, 1.0), (1.0, INF))]  # fmt: skip
    seen = guard.read(noted, 7)
    assert [one.step for one in seen] == [7, 8, 9, 10, 11, 12]
    assert [one.skipped for one in seen] == [False, False, True, True, True, True]
    assert [one.reason for one in seen[2:]] == [
        "loss exploded", "gradient exploded", "loss not finite", "gradient not finite",
    ]  # fmt: skip
    assert seen[0].loss_bound == INF
    assert seen[2].loss_bound == 1.0


def faulty(config, factors, last=0):
    return subprocess.run(
        [sys.executable, "-c", FAULTY, str(config), json.dumps(factors), str(last)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, env=os.environ | environment(1), check=False,
    )  # fmt: skip


def lines(config):
    return [json.loads(line) for line in (config.parent / "metrics.jsonl").read_text().splitlines()]


def poison(monkeypatch, factors):
    """Multiply the loss at chosen steps, in this process."""
    now, real_batch, real_losses = [0], TrainingData.batch, Replica.loss

    def batch(train, step):
        now[0] = step + 1
        return real_batch(train, step)

    def losses(*given, **named):
        return tuple(part * factors.get(now[0], 1.0) for part in real_losses(*given, **named))

    monkeypatch.setattr(TrainingData, "batch", batch)
    monkeypatch.setattr(Replica, "loss", losses)


def test_a_bad_step_is_skipped_and_its_documents_are_named(make_folder, monkeypatch):
    folder = make_folder(steps=40)
    config = folder.config("a", log_every=4)
    poison(monkeypatch, {25: NAN})
    assert loop.run(load(config)) == 0
    found = [line for line in lines(config) if "skipped" in line]
    assert [line["step"] for line in found] == [25]
    assert found[0]["skipped"]["reason"] == "loss not finite"
    assert found[0]["skipped"]["loss"] is None
    # The windows of batch 24 and the documents that their 8 tokens and the target behind them belong to, found one by one.
    read = open_data(load(config).tokens, load(config).mixture, load(config).settings).train
    for told, (source, window) in zip(found[0]["skipped"]["windows"], read.slots(24), strict=True):
        ends = read.sources[source].document_ends.tolist()
        touched = [
            name
            for name, start, end in zip(read.sources[source].document_ids, [0, *ends], ends, strict=False)
            if start <= window * 8 + 8 and end > window * 8
        ]
        assert told == {"source": source, "window": window, "documents": touched}
    summary = json.loads((config.parent / "summary.json").read_text())
    assert (summary["skipped_steps"], summary["rollbacks"], summary["jumped_steps"]) == (1, 0, 0)


def test_a_skipped_step_leaves_weights_and_moments_as_they_were(make_folder, monkeypatch):
    config = make_folder(steps=40).config("a", save_every=1, keep_last=40)
    poison(monkeypatch, {25: NAN, 30: 1e6})
    monkeypatch.setattr(guard, "DIVERGED", INF)  # the loss of step 30 is a log line of its own
    assert loop.run(load(config)) == 0
    folder = config.parent / "checkpoints"
    assert not (folder / "step_00000025").exists()  # nothing new to keep
    before, after = (checkpoint.load(folder / f"step_{step:08d}").tensors for step in (24, 26))
    assert int(before["optimizer"]["embedding.weight.step"]) + 1 == int(after["optimizer"]["embedding.weight.step"])
    # An explosion that is finite: only 28 steps are known, fewer than half a window of 128.
    assert (folder / "step_00000030").exists()


@pytest.mark.parametrize(("log_every", "found"), [(20, "16 of the steps 25 to 40"), (4, "4 of the steps 37 to 40")])
def test_a_run_that_does_not_recover_fails_and_keeps_the_last_good_weights(make_folder, monkeypatch, log_every, found):
    # train-005: NaN from step 25 on, checkpoints every 10, 40 steps. With a log line every 4 steps, 12 skipped steps are seen at
    # step 36, and the run goes back to step 20; the four behind it are no better.
    config = make_folder(steps=40).config("a", log_every=log_every, save_every=10)
    with pytest.MonkeyPatch.context() as patch:
        poison(patch, dict.fromkeys(range(25, 41), NAN))
        with pytest.raises(TrainError, match=f"{found} had to be skipped, and no step is left") as caught:
            loop.run(load(config))
    assert caught.value.exit_code == 1
    assert not (config.parent / "summary.json").exists()
    good = checkpoint.load(config.parent / "checkpoints" / "step_00000020").tensors["model"]
    newest = checkpoint.load_newest(config.parent / "checkpoints", warn=pytest.fail)
    assert newest.step == (20 if log_every == 20 else 36)
    assert all(torch.equal(value, good[name]) for name, value in newest.tensors["model"].items())
    assert "NaN" not in (config.parent / "metrics.jsonl").read_text()
    assert loop.run(load(config)) == 0  # without the fault it goes on from there


def test_losses_of_another_stage_are_no_explosion(make_folder, monkeypatch):
    """Both halves of the run are sound; the losses of the second are three times those of the first."""
    folder = make_folder(steps=40)
    mixture = json.loads((folder.root / "mixture.json").read_text())
    poison(monkeypatch, dict.fromkeys(range(2, 21), 1 / 3))  # step 1 is what others are compared with
    settings = {"skip_window": 8, "max_skips": 4, "log_every": 1, "clip": 1e-9}
    config = folder.config("jump", **settings)
    assert loop.run(load(config)) == 0
    skipped = [line["step"] for line in lines(config) if "skipped" in line]
    assert skipped == [21, 22, 23, 24]  # then the run goes back, and the guard learns the new height

    first = {name: {"windows_drawn": count} for name, count in (("books", 20), ("web", 60))}
    mixture["stages"] = [{"num_slots": 80, "sources": first}] * 2
    (folder.root / "mixture.json").write_text(json.dumps(mixture))
    config = folder.config("staged", **settings)
    assert loop.run(load(config)) == 0
    assert not [line for line in lines(config) if "skipped" in line]


def test_a_run_that_is_rolled_back_too_often_fails(make_folder, monkeypatch):
    config = make_folder(steps=40).config("a", max_skips=2, max_rollbacks=1, log_every=1)
    poison(monkeypatch, dict.fromkeys((12, 13, 22, 23), NAN))
    with pytest.raises(TrainError, match=r"step 23: 2 of the steps 22 to 23 had to be skipped, after 1 rollbacks"):
        loop.run(load(config))


def test_a_burst_before_the_first_checkpoint_goes_back_to_the_start(make_folder, monkeypatch):
    config = make_folder(steps=20).config("a", max_skips=2, log_every=1, save_every=15, keep_last=9)
    poison(monkeypatch, dict.fromkeys((3, 4), INF))
    assert loop.run(load(config)) == 0
    saved = checkpoint.load(config.parent / "checkpoints" / "step_00000004")
    fresh = loop.model.Decoder(load(config).settings, 64)
    fresh.initialize(load(config).seed)
    assert all(torch.equal(value, saved.tensors["model"][name]) for name, value in fresh.state_dict().items())
    assert saved.state["jumped"] == [[1, 4]]


def test_a_burst_rolls_back_and_jumps_and_a_kill_changes_nothing(make_folder, monkeypatch):
    folder, factors = make_folder(steps=40), dict.fromkeys(range(23, 29), NAN) | {36: 1e4}
    settings = {"max_skips": 5, "log_every": 2, "save_every": 10, "skip_window": 8}
    whole, killed = (folder.config(name, **settings) for name in ("whole", "killed"))
    with pytest.MonkeyPatch.context() as patch:
        poison(patch, factors)
        assert loop.run(load(whole)) == 0
    found = lines(whole)
    assert [line["step"] for line in found if "skipped" in line] == [23, 24, 25, 26, 27, 28, 36]
    assert [line["skipped"]["reason"] for line in found if "skipped" in line] == ["loss not finite"] * 6 + [
        "loss exploded"
    ]
    assert [line for line in found if "rolled_back" in line] == [
        {"step": 28, "rolled_back": {"to": 20, "first_jumped": 21, "last_jumped": 28}}
    ]
    summary = json.loads((whole.parent / "summary.json").read_text())
    assert (summary["skipped_steps"], summary["rollbacks"], summary["jumped_steps"]) == (7, 1, 8)
    # In processes of their own: killed behind the rollback and its checkpoint, and started again.
    assert faulty(killed, factors, last=30).returncode == -signal.SIGKILL
    again = faulty(killed, factors)
    assert again.returncode == 0, again.stderr
    assert "resuming from step_00000028" in again.stderr
    for name in ("metrics.jsonl", "summary.json"):
        assert (killed.parent / name).read_bytes() == (whole.parent / name).read_bytes()


HOPELESS = {"lr": 1.0, "log_every": 4, "save_every": 3}  # a hundred times the rate that suits these models


def diverges(config):
    """Train until the error comes, started again after every stop; return its words, without the run's own path."""

    def to_the_end():
        while loop.run(load(config)) == 85:
            pass

    with pytest.raises(TrainError) as caught:
        to_the_end()
    assert caught.value.exit_code == 1
    assert not (config.parent / "summary.json").exists()
    return str(caught.value).replace(str(config), "CONFIG")


def test_a_run_that_diverges_is_stopped_at_the_log_line_that_shows_it(make_folder):
    config = make_folder(steps=40).config("a", **HOPELESS)
    said = diverges(config)
    losses = [(line["step"], line["loss"]) for line in lines(config) if "loss" in line]
    (step, loss), first = losses[-1], losses[0][1]
    assert first == pytest.approx(math.log(64), abs=0.1)  # knows nothing
    assert loss > 1.5 * first
    assert all(before <= 1.5 * first for _, before in losses[:-1])
    assert step < 40
    assert f"step {step}: the loss is {loss:.4f}, at step 1 it was {first:.4f}" in said
    assert (
        "Lower `lr` or raise `warmup_tokens`, and train anew; `python -m train lr-range CONFIG` names good rates"
        in said
    )
    saved = checkpoint.load_newest(config.parent / "checkpoints", warn=pytest.fail)
    assert saved.step == 3 * ((step - 1) // 3)  # the last that was due before
    assert diverges(config) == said


def test_a_run_that_diverges_does_so_however_often_it_is_stopped(make_folder):
    folder = make_folder(steps=40)
    straight = folder.config("straight", **HOPELESS)
    stopped = folder.config("stopped", max_minutes=0, **HOPELESS)  # one step each
    assert diverges(straight) == diverges(stopped)
    assert lines(straight) == lines(stopped)


def test_a_sound_run_is_untouched_by_the_search_for_divergence(make_folder, monkeypatch):
    folder = make_folder(steps=12)
    judged, other = folder.config("judged"), folder.config("other")
    assert loop.run(load(judged)) == 0
    for name in ("refuse_divergence", "refuse_worse"):
        monkeypatch.setattr(guard, name, lambda *given, **named: None)
    assert loop.run(load(other)) == 0
    for name in ("metrics.jsonl", "summary.json", "checkpoints/step_00000012/model.safetensors"):
        assert (judged.parent / name).read_bytes() == (other.parent / name).read_bytes()


def test_a_rollback_comes_before_the_end_of_a_run(make_folder, monkeypatch):
    # The line of step 8 shows the loss of step 5 alone, ten times the usual; the three behind it send the run back to the start.
    config = make_folder(steps=12).config("a", log_every=4, max_skips=3)
    poison(monkeypatch, {5: 10.0, 6: NAN, 7: NAN, 8: NAN})
    assert loop.run(load(config)) == 0
    losses = {line["step"]: line["loss"] for line in lines(config) if "loss" in line}
    assert losses[8] > 9 * losses[1]


def test_a_run_that_ends_worse_than_it_began_is_not_complete(make_folder):
    config = make_folder(steps=3).config(
        "a", lr=0.3, log_every=10
    )  # lines at steps 1 and 3: none above 1.5 times the first
    said = diverges(config)
    first, last = (
        sum(score["bits_per_byte"] for score in line["validation"].values()) / 2
        for line in lines(config)
        if "validation" in line
    )
    assert f"step 3: validation ends at {last:.4f} bits/byte, at step 0 it was {first:.4f}" in said
    before = (config.parent / "metrics.jsonl").read_bytes()
    assert diverges(config) == said
    assert (config.parent / "metrics.jsonl").read_bytes() == before  # no step was made again


@pytest.mark.parametrize(
    ("losses", "bits", "worse"),
    [
        ((4.0, 4.2), (), False),  # 1.05 times
        ((4.0, 4.21), (), True),
        ((4.0,), (), False),  # one step: its loss is from before the update
        ((4.0, 4.0), ((4.0, 6.0), (5.0, 5.5)), False),  # means 5 and 5.25
        ((4.0, 4.0), ((4.0, 6.0), (3.0, 7.52)), True),  # 5.26
        ((4.0,), ((4.0, 6.0), (3.0, 7.52)), True),
        ((4.0, 5.9), ((4.0, 6.0), (5.0, 5.0)), False),  # validation decides, not the last batches
        ((4.0, 3.9), ((4.0, 6.0), (9.0, 9.0)), False),  # overfits
    ],
)
def test_what_ends_worse_than_it_began(losses, bits, worse):
    training = [{"step": 10 * number + 1, "loss": loss} for number, loss in enumerate(losses)]
    validation = [
        {"validation": {name: {"bits_per_byte": one} for name, one in zip("ab", both, strict=True)}} for both in bits
    ]
    if worse:
        with pytest.raises(TrainError, match="The run has diverged"):
            guard.refuse_worse(Path("config.json"), training, validation)
    else:
        guard.refuse_worse(Path("config.json"), training, validation)


@pytest.mark.parametrize(("loss", "lost"), [(6.0, False), (6.01, True), (None, False)])
def test_half_as_much_again_as_the_first_loss_is_the_most(loss, lost):
    if lost:
        with pytest.raises(TrainError, match=r"step 20: the loss is 6\.0100, at step 1 it was 4\.0000"):
            guard.refuse_divergence(Path("config.json"), step=20, loss=loss, first_loss=4.0)
    else:
        guard.refuse_divergence(Path("config.json"), step=20, loss=loss, first_loss=4.0)
