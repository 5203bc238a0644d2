"""Several ranks against one: the processes are forks of this one, so that torch is not loaded again for each."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from train import checkpoint, distributed, loop, metrics
from train.config import ConfigError, load
from train.data import TrainingData
from train.distributed import Ranks, joined, kind
from train.loss import IGNORED


def together(config, size, inside=lambda rank: None):
    """Train as `size` ranks; return how each ended (negative: the signal that killed it) and what rank 0 said.

    Args:
        config: The config file.
        size: Processes to start.
        inside: Called in each with its rank before it trains.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = config.parent / "said.txt"
    children = []
    for rank in range(size):
        child = os.fork()
        if child:
            children.append(child)
            continue
        code = 70
        try:
            os.environ |= {
                "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }  # fmt: skip
            sys.stderr = (said if rank == 0 else Path(os.devnull)).open("w")
            inside(rank)
            code = loop.run(load(config))
        except Exception as error:
            code = getattr(error, "exit_code", 70)
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)  # never back into pytest
    deadline, codes = time.monotonic() + 120, [None] * size
    while None in codes:
        for rank, child in enumerate(children):
            if codes[rank] is None and (ended := os.waitpid(child, os.WNOHANG))[0]:
                codes[rank] = os.waitstatus_to_exitcode(ended[1])
            elif time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
        time.sleep(0.02)
    return codes, said.read_text()


def noting(path, *, signals=None):
    """Return what makes rank 0 note the documents of each batch, and sends (rank, step): signal to a rank in its step."""

    def inside(rank):
        real = TrainingData.batch

        def batch(data, step):
            if (rank, step) in (signals or {}):
                os.kill(os.getpid(), signals[rank, step])
            if rank == 0:
                found = [
                    data.sources[source].document_ids[data.sources[source].document_at(window * data.plan.window)]
                    for source, window in data.slots(step)
                ]
                with path.open("a") as file:
                    file.write(json.dumps([step, found]) + "\n")
            return real(data, step)

        TrainingData.batch = batch

    return inside


def notes(path):
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]


def assert_same_losses(config, other):
    for one, two in zip(*(metrics.read(c.parent / "metrics.jsonl") for c in (config, other)), strict=True):
        assert [line["step"] for line in one] == [line["step"] for line in two]
        for here, there in zip(one, two, strict=True):
            if "loss" in here:
                assert here["loss"] == pytest.approx(there["loss"], abs=1e-6)
                assert here["grad_norm"] == pytest.approx(there["grad_norm"], abs=5e-6)
            else:
                for source, scores in here["validation"].items():
                    assert scores["loss"] == pytest.approx(there["validation"][source]["loss"], abs=1e-6)


# Five sequences a step: two ranks cannot share them evenly. Two layers, an own head, norms of queries and keys.
SHAPE = {"batch_windows": 5, "layers": 2, "tied": False, "qk_norm": True, "eval_every": 4, "save_every": 100}


def test_two_ranks_train_as_one_and_take_turns_with_one(make_folder, tmp_path):
    folder = make_folder(steps=10, batch=5)
    one = folder.config("one", **SHAPE)
    documents = tmp_path / "one.notes"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingData, "batch", TrainingData.batch)
        noting(documents)(0)
        assert loop.run(load(one)) == 0
    assert len(notes(documents)) == 10

    # FSDP, with accumulation; SIGTERM to one of two ranks in the fourth step stops both, one step later.
    seen, parts = tmp_path / "seen.notes", folder.config("parts", **SHAPE, parallel="fsdp", micro_batch=2)
    codes, _ = together(parts, 2, noting(seen, signals={(1, 3): signal.SIGTERM}))
    assert codes == [85, 85]
    resolved = json.loads((parts.parent / "resolved.json").read_text())
    assert (resolved["ranks"], resolved["parallel"]) == (2, "fsdp")
    # One process goes on and leaves after a step, two with DDP finish.
    folder.config("parts", **SHAPE, max_minutes=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingData, "batch", TrainingData.batch)
        noting(seen)(0)
        assert loop.run(load(parts)) == 85
    folder.config("parts", **SHAPE, parallel="ddp", micro_batch=1)
    codes, said = together(parts, 2, noting(seen))
    assert codes == [0, 0]
    assert "resuming from step_00000006" in said
    assert notes(seen) == notes(documents)  # no batch twice, none left out
    assert_same_losses(one, parts)
    first, last = (json.loads((c.parent / "summary.json").read_text()) for c in (one, parts))
    assert set(first) == set(last)
    assert first["sources"] == last["sources"]
    saved = checkpoint.load(parts.parent / "checkpoints" / "step_00000010")
    assert "ranks" not in json.dumps(dict(saved.state))
    for group, tensors in checkpoint.load(one.parent / "checkpoints" / "step_00000010").tensors.items():
        for name, tensor in tensors.items():
            assert saved.tensors[group][name].shape == tensor.shape


@pytest.mark.slow  # two trainings for each; sharded tensors are tested fast in test_train_muon.py
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_muon_on_two_ranks_takes_the_steps_of_one(make_folder, parallel):
    folder = make_folder(steps=10, batch=5)
    one, two = (folder.config(name, **SHAPE, optimizer="muon", parallel=parallel) for name in ("one", "two"))
    codes, said = together(two, 2)
    assert codes == [0, 0], said
    assert loop.run(load(one)) == 0
    assert_same_losses(one, two)


def test_a_rank_that_dies_ends_the_others_and_the_run_goes_on(make_folder):
    folder = make_folder(steps=6)
    straight, config = folder.config("straight"), folder.config("a", save_every=2, keep_last=3)
    assert loop.run(load(straight)) == 0
    codes, said = together(config, 2, noting(config.parent / "notes", signals={(1, 4): signal.SIGKILL}))
    assert codes == [1, -signal.SIGKILL]
    assert "rank 0 of 2: another rank ended, or did not answer within 0:30:00" in said
    newest = config.parent / "checkpoints" / "step_00000004" / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    codes, said = together(config, 2)
    assert codes == [0, 0]
    assert "resuming from step_00000002" in said  # on both: else their collectives would not meet
    assert_same_losses(straight, config)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_batch_is_shared_in_equal_parts(size):
    inputs, targets = torch.arange(20).view(5, 4), torch.arange(1, 21).view(5, 4)
    shares = [Ranks(rank, size).rows(inputs, targets) for rank in range(size)]
    assert {len(rows) for share in shares for rows in share} == {{1: 5, 2: 3, 3: 2, 7: 1}[size]}
    together = [torch.cat(parts) for parts in zip(*shares, strict=True)]
    counted = (together[1] != IGNORED).all(dim=1)
    assert torch.equal(together[0][counted], inputs)
    assert torch.equal(together[1][counted], targets)
    assert (together[1][~counted] == IGNORED).all()


def test_a_model_is_divided_where_it_must_be():
    cpu, few = torch.device("cpu"), 1000
    assert kind("fsdp", Ranks(), parameters=few, device=cpu) == "single"
    assert kind("auto", Ranks(0, 2), parameters=few, device=cpu) == "ddp"
    assert kind("fsdp", Ranks(0, 2), parameters=few, device=cpu) == "fsdp"


@pytest.mark.parametrize(("parameters", "expected"), [(2_000_000_000, "ddp"), (2_000_000_001, "fsdp")])
def test_what_a_gpu_has_room_for(monkeypatch, parameters, expected):
    class Properties:
        total_memory = 80_000_000_000

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    assert kind("auto", Ranks(0, 8), parameters=parameters, device=torch.device("cuda")) == expected  # 16 bytes each


def test_half_of_torchruns_environment_is_refused(make_folder, monkeypatch):
    config = load(make_folder(steps=4).config("a"))
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "1")
    with (
        pytest.raises(ConfigError, match="WORLD_SIZE is 4, but LOCAL_RANK, MASTER_ADDR, MASTER_PORT is not set"),
        joined(config),
    ):
        pass


@pytest.mark.slow
def test_a_rank_that_does_not_answer_is_not_waited_for_for_ever(make_folder, monkeypatch):
    config = make_folder(steps=6).config("a")
    monkeypatch.setattr(distributed, "TIMEOUT", timedelta(seconds=3))

    def sleepy(rank):
        real = TrainingData.batch

        def batch(data, step):
            if (rank, step) == (1, 2):
                time.sleep(15)
            return real(data, step)

        TrainingData.batch = batch

    codes, said = together(config, 2, sleepy)
    assert codes == [1, 1]
    assert "rank 0 of 2: another rank ended, or did not answer within 0:00:03" in said


@pytest.mark.slow
def test_muon_is_the_same_on_two_ranks(make_folder):
    folder = make_folder(steps=12, batch=5)
    options = SHAPE | {"optimizer": "muon", "save_every": 5}
    one = folder.config("one", **options)
    assert loop.run(load(one)) == 0
    for parallel, start in (("fsdp", "ddp"), ("ddp", "fsdp")):
        parts = folder.config(parallel, **options, parallel=start, micro_batch=2)
        codes, _ = together(parts, 2, noting(parts.parent / "notes", signals={(0, 6): signal.SIGKILL}))
        assert codes == [-signal.SIGKILL, 1]
        folder.config(parallel, **options, parallel=parallel)
        codes, said = together(parts, 2)
        assert codes == [0, 0]
        assert "resuming from step_00000005" in said
        assert_same_losses(one, parts)


@pytest.mark.slow
@pytest.mark.parametrize("save_every", [3, 100], ids=["to a checkpoint", "to the start"])
def test_a_rank_whose_loss_is_no_number_rolls_all_back(make_folder, save_every):
    folder = make_folder(steps=12, batch=5)
    options = SHAPE | {"save_every": save_every, "max_skips": 2, "skip_window": 4}
    configs = [folder.config(parallel, **options, parallel=parallel, micro_batch=2) for parallel in ("ddp", "fsdp")]

    def poison(rank):
        steps, real_batch, real_loss = [0], TrainingData.batch, distributed.summed_loss

        def batch(data, step):
            steps.append(step)
            return real_batch(data, step)

        def summed_loss(*arguments, **keywords):
            loss, nats = real_loss(*arguments, **keywords)
            bad = float("nan") if rank == 0 and steps[-1] in (5, 6) else 1.0
            return loss * bad, nats * bad

        TrainingData.batch, distributed.summed_loss = batch, summed_loss

    one = folder.config("one", **options)
    assert together(one, 1, poison)[0] == [0]
    assert "back to the weights of step" in (one.parent / "said.txt").read_text()
    for config in configs:
        codes, _ = together(config, 2, poison)
        assert codes == [0, 0]
        assert_same_losses(one, config)


@pytest.mark.slow
def test_saved_with_four_ranks_resumed_with_two_then_with_eight(make_folder, tmp_path):
    # train-006
    folder = make_folder(steps=10, batch=5)
    one, documents = folder.config("one", **SHAPE), tmp_path / "one.notes"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingData, "batch", TrainingData.batch)
        noting(documents)(0)
        assert loop.run(load(one)) == 0
    for parallel in ("ddp", "fsdp"):
        seen, config = tmp_path / f"{parallel}.notes", folder.config(parallel, **SHAPE, parallel=parallel)
        for size, step in ((4, 2), (2, 5), (8, None)):
            signals = {} if step is None else {(size - 1, step): signal.SIGTERM}
            codes, _ = together(config, size, noting(seen, signals=signals))
            assert codes == [0 if step is None else 85] * size
        assert notes(seen) == notes(documents)  # no sample lost or repeated
        assert_same_losses(one, config)


def torchrun(config):
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", "train", "run", config],
        cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def until(process, beginning):
    for line in process.stderr:
        if line.startswith(beginning):
            return
    pytest.fail(f"no line began with {beginning}")


@pytest.mark.slow
def test_under_torchrun_as_a_user_does_it(make_folder):
    folder = make_folder(steps=4000)
    options = {"save_every": 4000, "eval_every": 4000, "parallel": "fsdp"}
    config = folder.config("a", **options)
    process = torchrun(config)
    until(process, "step    5/4000")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=100)
    assert process.returncode != 0
    assert "start again to go on" in said
    saved = checkpoint.load_newest(config.parent / "checkpoints", warn=pytest.fail)
    assert 5 <= saved.step < 4000

    process = torchrun(config)  # killed, it leaves no rank behind: the folder is free
    until(process, f"step {saved.step + 3:>4}/4000")
    process.kill()
    process.communicate(timeout=100)
    time.sleep(3)
    config = folder.config("a", **options, max_minutes=0)
    process = torchrun(config)
    _, said = process.communicate(timeout=100)
    assert "exitcode  : 85" in said
    assert process.returncode == 1
    assert checkpoint.load_newest(config.parent / "checkpoints", warn=pytest.fail).step > saved.step
