from __future__ import annotations

import contextlib
import json
import resource
import threading

import pytest
import torch

from train import checkpoint
from train.config import TrainError
from train.distributed import Ranks


def save(folder, step, *, keep_last=3, **rest):
    tensors = {"model": {"w": torch.full((50,), float(step))}, "optimizer": {"w.step": torch.tensor(float(step))}}
    return checkpoint.save(folder, step, tensors=tensors, state={"note": f"at {step}"}, keep_last=keep_last, **rest)


def newest(folder):
    said = []
    found = checkpoint.load_newest(folder, warn=said.append)
    return found, said


def test_what_was_saved_comes_back(tmp_path):
    path = save(tmp_path, 7)
    found, said = newest(tmp_path)
    assert (found.path, found.step, found.state["note"], said) == (path, 7, "at 7", [])
    assert torch.equal(found.tensors["model"]["w"], torch.full((50,), 7.0))
    assert found.tensors["optimizer"]["w.step"].shape == ()
    assert sorted(file.name for file in path.iterdir()) == ["model.safetensors", "optimizer.safetensors", "state.json"]


def test_a_folder_without_checkpoints_has_none(tmp_path):
    assert newest(tmp_path / "absent") == (None, [])
    assert newest(tmp_path) == (None, [])


def test_the_newest_are_kept(tmp_path):
    for step in (5, 20, 100):
        save(tmp_path, step, keep_last=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_00000020", "step_00000100"]
    assert newest(tmp_path)[0].step == 100


def test_every_so_many_steps_one_stays_for_good(tmp_path):
    for step in (10, 20, 25, 30, 40, 50):
        save(tmp_path, step, keep_last=1, keep_every=20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_00000020", "step_00000040", "step_00000050"]


@contextlib.contextmanager
def full_disk(largest):
    """Let no file grow beyond so many bytes: the nearest to a full disk that a test may make."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("largest", [100, 300], ids=["model.safetensors", "state.json"])
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, largest):
    sizes = {file.name: file.stat().st_size for file in save(tmp_path, 10).iterdir()}
    assert 100 < sizes["model.safetensors"] < 300 < sizes["state.json"]
    with full_disk(largest), pytest.raises(TrainError, match=r"step_00000020: cannot be written \(.*Free the disk"):
        save(tmp_path, 20)
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000010"]
    assert newest(tmp_path)[0].step == 10
    assert save(tmp_path, 20).is_dir()


def store(folder, *, beside):
    return checkpoint.Store(folder, Ranks(), beside=beside, warn=pytest.fail)


def tensors(value):
    return {"model": {"w": torch.full((50,), value)}, "optimizer": {}}


def test_a_store_that_writes_beside_the_training_is_done_when_it_is_asked(tmp_path, monkeypatch):
    begun, go_on, real = threading.Event(), threading.Event(), checkpoint.save

    def slow(*arguments, **keywords):
        begun.set()
        assert go_on.wait(10)
        return real(*arguments, **keywords)

    monkeypatch.setattr(checkpoint, "save", slow)
    with contextlib.closing(store(tmp_path, beside=True)) as kept:
        kept.save(10, tensors(1.0), state={}, keep_last=2)
        assert begun.wait(10)
        assert not list(tmp_path.iterdir())  # and here the training goes on
        threading.Timer(0.1, go_on.set).start()
        assert kept.newest().step == 10
        kept.save(20, tensors(2.0), state={}, keep_last=2)
    assert newest(tmp_path)[0].step == 20


@pytest.mark.parametrize("beside", [False, True])
def test_what_a_store_cannot_write_is_an_error_at_the_latest_when_it_closes(tmp_path, beside):
    kept = store(tmp_path / "a", beside=beside)
    (tmp_path / "a").write_text("a file where the folder should be")

    def save_and_close():
        kept.save(10, tensors(1.0), state={}, keep_last=2)
        kept.close()

    with pytest.raises(TrainError, match="cannot be written"):
        save_and_close()
    kept.close()


def test_weights_that_are_not_finite_are_refused(tmp_path):
    with pytest.raises(TrainError, match="step 10: w holds values that are not finite"):
        store(tmp_path, beside=False).save(10, tensors(float("inf")), state={}, keep_last=2)
    assert not list(tmp_path.iterdir())


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def edit(file):
    file.write_text(file.read_text().replace("at 30", "at 31"))


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("model.safetensors", cut, "bytes, was written with"),
        ("optimizer.safetensors", cut, "bytes, was written with"),
        ("model.safetensors", flip, "its sha256 is not the"),
        ("model.safetensors", lambda file: file.unlink(), "is missing, was written with"),
        ("state.json", cut, "cannot be read"),
        ("state.json", edit, "does not match its own sha256"),
        ("state.json", lambda file: file.unlink(), "cannot be read"),
        ("state.json", lambda file: file.write_text("[]"), "cannot be read"),
    ],
)
def test_a_damaged_newest_is_named_and_the_one_before_taken(tmp_path, name, damage, message):
    # train-004
    for step in (10, 20, 30):
        save(tmp_path, step)
    damage(tmp_path / "step_00000030" / name)
    found, said = newest(tmp_path)
    assert found.step == 20
    assert len(said) == 1
    assert f"step_00000030/{name}" in said[0]
    assert message in said[0]
    assert (tmp_path / "step_00000030.damaged").is_dir()
    save(tmp_path, 30)  # its place is free again
    assert newest(tmp_path)[0].state["note"] == "at 30"


def test_a_reader_needs_the_weights_alone(tmp_path):
    path = save(tmp_path / "checkpoints", 10)
    cut(path / "optimizer.safetensors")
    assert set(checkpoint.find(tmp_path, warn=pytest.fail).tensors) == {"model"}
    with pytest.raises(checkpoint.DamagedError, match="optimizer"):
        checkpoint.load(path)


def test_a_reader_finds_the_newest_good_one_and_moves_nothing(tmp_path):
    for step in (10, 20):
        save(tmp_path / "checkpoints", step)
    cut(tmp_path / "checkpoints" / "step_00000020" / "model.safetensors")
    before, said = sorted(tmp_path.rglob("*")), []
    assert checkpoint.find(tmp_path, warn=said.append).step == 10
    assert "step_00000020/model.safetensors" in said[0]
    assert checkpoint.find(tmp_path / "checkpoints" / "step_00000010", warn=said.append).step == 10
    with pytest.raises(TrainError, match="step_00000020/model"):
        checkpoint.find(tmp_path / "checkpoints" / "step_00000020", warn=said.append)
    cut(tmp_path / "checkpoints" / "step_00000010" / "model.safetensors")
    with pytest.raises(TrainError, match="all its checkpoints are damaged"):
        checkpoint.find(tmp_path, warn=said.append)
    with pytest.raises(TrainError, match="holds no checkpoint"):
        checkpoint.find(tmp_path / "absent", warn=said.append)
    assert sorted(tmp_path.rglob("*")) == before


def test_only_damaged_checkpoints_are_no_reason_to_start_anew(tmp_path):
    cut(save(tmp_path, 10) / "model.safetensors")
    with pytest.raises(TrainError, match="all 1 checkpoints are damaged"):
        newest(tmp_path)


@pytest.mark.parametrize("leftover", ["step_00000040.tmp", "step_00000005.old"])
def test_leftovers_of_a_killed_save_are_removed(tmp_path, leftover):
    save(tmp_path, 30)
    (tmp_path / leftover).mkdir()
    (tmp_path / leftover / "model.safetensors").write_bytes(b"half")
    assert newest(tmp_path)[0].step == 30
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000030"]


def test_a_step_that_is_saved_already_is_left_alone(tmp_path):
    path = save(tmp_path, 30)
    before = (path / "state.json").stat().st_mtime_ns
    assert save(tmp_path, 30) == path
    assert (path / "state.json").stat().st_mtime_ns == before


def test_equal_states_give_equal_bytes(tmp_path):
    first, second = save(tmp_path / "a", 3), save(tmp_path / "b", 3)
    for file in first.iterdir():
        assert file.read_bytes() == (second / file.name).read_bytes()


def test_tensors_are_not_executable(tmp_path):
    for file in save(tmp_path, 1).iterdir():
        assert file.read_bytes()[:2] != b"\x80\x04"  # the mark of pickle
        assert not file.read_bytes().startswith(b"PK")  # torch.save


def test_json_is_written_whole(tmp_path):
    checkpoint.write_json(tmp_path / "a.json", {"b": 1})
    assert json.loads((tmp_path / "a.json").read_text()) == {"b": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
