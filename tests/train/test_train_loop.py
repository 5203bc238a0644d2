from __future__ import annotations

import json
import shutil

import pyarrow.parquet as pq
import pytest
import torch
from token_folder import documents, write_mixture, write_source

from train import checkpoint, loop, metrics, stopping
from train.config import ConfigError, TrainError, load
from train.data import TrainingData

RECORDS = ("metrics.jsonl", "summary.json", "validation.parquet")


def train(config):
    return loop.run(load(config))


def files(config):
    return {name: (config.parent / name).read_bytes() for name in RECORDS}


def weights(config, step):
    return checkpoint.load(config.parent / "checkpoints" / f"step_{step:08d}").tensors


def same(first, second):
    return all(torch.equal(first[group][name], second[group][name]) for group in first for name in first[group])


def test_a_run_writes_what_the_contract_says(make_folder):
    config = make_folder(steps=25).config("a")
    given = config.read_bytes()
    assert train(config) == 0
    assert config.read_bytes() == given
    training, validation = metrics.read(config.parent / "metrics.jsonl")
    assert [line["step"] for line in training] == list(range(1, 26))
    assert [line["tokens"] for line in training] == [32 * step for step in range(1, 26)]
    assert [line["step"] for line in validation] == [0, 10, 20, 25]
    assert all(set(line["validation"]) == {"books", "web"} and "loss" not in line for line in validation)
    summary = json.loads((config.parent / "summary.json").read_text())
    assert summary["completed"] is True
    assert (summary["steps"], summary["tokens"], summary["preset"], summary["seed"]) == (25, 800, "demo-1m", 0)
    # Vocabulary 60, padded to 64; tied. q 256, k and v 128 each, out 256; three of 16 x 32; norms 2 x 16 and 16.
    assert summary["parameters"] == 64 * 16 + 768 + 1536 + 48
    assert (summary["first_loss"], summary["last_loss"]) == (training[0]["loss"], training[-1]["loss"])
    assert summary["validation"] == validation[-1]["validation"]
    assert summary["macro_bits_per_byte"] == validation[-1]["macro_bits_per_byte"]
    assert [set(line["domains"]) for line in validation] == [{"books", "web"}] * 4
    records = pq.read_table(config.parent / "validation.parquet").group_by("source")
    for one in records.aggregate([(name, "sum") for name in ("tokens", "bytes", "nats")]).to_pylist():
        assert (one["tokens_sum"], one["bytes_sum"]) == (4 * 26, 4 * 75)
        loss = summary["validation"][one["source"]]["loss"]
        assert one["nats_sum"] / one["tokens_sum"] == pytest.approx(loss, rel=1e-12)
    assert (summary["precision"], summary["device"], summary["compile"]) == ("float32", "cpu", False)
    assert sum(source["windows"] for source in summary["sources"].values()) == 100
    resolved = json.loads((config.parent / "resolved.json").read_text())["identity"]
    assert (resolved["steps"], resolved["warmup_steps"], resolved["padded_vocab_size"]) == (25, 2, 64)
    assert (resolved["vocab_size"], resolved["eos_id"], resolved["tokenizer_sha256"]) == (60, 2, "0" * 64)
    assert resolved["batch_tokens"] == 32  # 4 windows of 8: what a step reads, not what was asked for
    assert sorted(path.name for path in (config.parent / "checkpoints").iterdir()) == ["step_00000020", "step_00000025"]


def test_document_mask_and_z_loss_reach_the_model(make_folder):
    # Documents of 30 tokens in windows of 8: some rows of a run hold two. z-loss changes the second loss, not the first.
    folder = make_folder(steps=3)
    runs = {}
    for name, changes in {"plain": {}, "masked": {"document_mask": True}, "z": {"z_loss": 0.1}}.items():
        config = folder.config(name, **changes)
        assert train(config) == 0
        runs[name] = metrics.read(config.parent / "metrics.jsonl")
    losses = {name: [line["loss"] for line in training] for name, (training, _) in runs.items()}
    assert losses["masked"] != losses["plain"]
    assert losses["z"][0] == losses["plain"][0]
    assert losses["z"][1] != losses["plain"][1]
    before = {name: validation[0]["validation"]["books"] for name, (_, validation) in runs.items()}
    assert before["z"] == before["plain"]
    assert before["masked"]["loss"] == pytest.approx(before["plain"]["loss"], abs=1e-6)  # documents are scored alone


def test_two_runs_give_the_same_bytes(make_folder):
    folder = make_folder(steps=12)
    first, second, other = folder.config("a"), folder.config("b"), folder.config("c", seed=1)
    for config in (first, second, other):
        assert train(config) == 0
    assert files(first) == files(second)
    assert files(first)["metrics.jsonl"] != files(other)["metrics.jsonl"]


def test_a_tiny_model_overfits(make_folder):
    config = make_folder(steps=300).config("a", lr=0.02, log_every=50, eval_every=300)
    assert train(config) == 0
    training, validation = metrics.read(config.parent / "metrics.jsonl")
    assert training[0]["loss"] == pytest.approx(4.16, abs=0.05)  # ln 64: knows nothing
    # A target follows from the one before with probability 0.9: about 1 nat is left, where a unigram model keeps 4.
    assert training[-1]["loss"] < 1.8
    assert validation[-1]["validation"]["web"]["loss"] < validation[0]["validation"]["web"]["loss"] - 1.5


def test_a_finished_run_is_left_as_it_is(make_folder, capsys):
    config = make_folder(steps=12).config("a")
    assert train(config) == 0
    before = {path: path.stat().st_mtime_ns for path in config.parent.rglob("*")}
    assert train(config) == 0
    assert {path: path.stat().st_mtime_ns for path in config.parent.rglob("*")} == before
    assert "complete; nothing to do" in capsys.readouterr().err


def test_where_the_rate_has_fallen_the_run_is_evaluated_and_saved_for_good(make_folder, monkeypatch):
    folder = make_folder(steps=20)
    rates, forgot = [], []
    monkeypatch.setattr(loop.Optimizer, "set_learning_rate", lambda updates, rate: rates.append(rate))
    monkeypatch.setattr(loop.Guard, "restart", lambda guard: forgot.append(len(rates)))
    options = {
        "schedule": "wsd-s",
        "decay_points": [0.25, 0.5],
        "decay_fraction": 0.4,
        "keep_last": 1,
        "eval_every": 100,
    }
    config = folder.config("a", save_every=7, **options)
    assert train(config) == 0
    saved = sorted(path.name for path in (config.parent / "checkpoints").iterdir())
    assert saved == ["step_00000005", "step_00000010", "step_00000020"]
    training, validation = metrics.read(config.parent / "metrics.jsonl")
    assert [line["step"] for line in validation] == [0, 5, 10, 20]
    # Warm-up of 2 steps, then 0.01; falls of 2, 2 and 4 steps end with updates 5, 10 and 20.
    low = 0.01 * (1 - 0.5**0.5)
    assert [line["lr"] for line in training[3:11]] == pytest.approx([0.01, low, *[0.01] * 4, low, 0.01])
    assert training[-1]["lr"] == pytest.approx(0.01 * (1 - 0.75**0.5))
    assert forgot == [6, 11]  # in the first step at the full rate again: a loss that rises then is no explosion
    short = folder.config("short", **options | {"decay_points": [0.251, 0.26]})
    with pytest.raises(ConfigError, match=r"decay_points: two of them fall on one step of 32 tokens: steps 5, 5"):
        train(short)


@pytest.mark.parametrize("micro_batch", [1, 3])
def test_accumulation_changes_nothing_but_rounding(make_folder, micro_batch):
    folder = make_folder(steps=12)
    whole, parts = folder.config("whole", micro_batch=4), folder.config("parts", micro_batch=micro_batch)
    assert train(whole) == train(parts) == 0
    for one, other in zip(*(metrics.read(c.parent / "metrics.jsonl")[0] for c in (whole, parts)), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-5)


def test_windows_longer_than_the_context_are_split(make_folder):
    folder = make_folder(steps=6, window=32)
    config = folder.config("a", batch_windows=2, micro_batch=3)
    assert train(config) == 0
    assert json.loads((config.parent / "summary.json").read_text())["tokens"] == 12 * 2 * 32


def test_a_time_limit_saves_and_asks_to_be_started_again(make_folder):
    folder = make_folder(steps=15)
    straight, limited = folder.config("straight", log_every=4), folder.config("limited", log_every=4, max_minutes=0)
    assert train(straight) == 0
    codes = [train(limited) for _ in range(15)]
    assert codes == [85] * 14 + [0]  # one step each; the mean loss since the last line survives
    assert files(straight) == files(limited)
    assert same(weights(straight, 15), weights(limited, 15))


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_stop_between_records_and_evaluations_leaves_no_trace(make_folder, optimizer):
    folder = make_folder(steps=23)
    options = {"log_every": 5, "eval_every": 7, "save_every": 6, "optimizer": optimizer}
    straight, stopped = folder.config("straight", **options), folder.config("stopped", **options)
    assert train(straight) == 0
    for _ in range(3):  # two steps, of which the second is lost with its checkpoint
        config = folder.config("stopped", max_minutes=0, **options)
        assert train(config) == train(config) == 85
        newest = max((config.parent / "checkpoints").glob("step_????????"))
        (newest / "model.safetensors").write_bytes(b"")
    folder.config("stopped", **options)
    assert train(stopped) == 0
    assert files(straight) == files(stopped)
    assert same(weights(straight, 23), weights(stopped, 23))


def test_a_damaged_newest_checkpoint_is_named_and_the_run_goes_on_from_the_one_before(make_folder, capsys):
    # train-004
    folder = make_folder(steps=40)
    straight, config = folder.config("straight"), folder.config("damaged", keep_last=3)
    assert train(straight) == 0
    stop_at(config, 30)
    damaged = config.parent / "checkpoints" / "step_00000030" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    capsys.readouterr()
    assert train(config) == 0
    said = capsys.readouterr().err
    assert "step_00000030/model.safetensors" in said
    assert "resuming from step_00000020" in said
    assert files(straight)["metrics.jsonl"] == files(config)["metrics.jsonl"]


def stop_at(config, step):
    """Train until `step` is done, then stop as if killed."""

    class KilledError(Exception):
        pass

    real = loop._save

    def save_and_die(job, state, *rest):
        real(job, state, *rest)
        if state.step >= step:
            raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_save", save_and_die)
        with pytest.raises(KilledError):
            train(config)


def test_weights_that_are_not_finite_are_never_saved(make_folder, monkeypatch):
    config = make_folder(steps=20).config("a")
    real = loop.Optimizer.set_learning_rate
    monkeypatch.setattr(loop.Optimizer, "set_learning_rate", lambda updates, rate: real(updates, float("inf")))
    with pytest.raises(TrainError, match=r"not finite|is nan|diverged"):
        train(config)
    assert checkpoint.load_newest(config.parent / "checkpoints", warn=pytest.fail) is None


def test_changed_data_is_refused_with_the_shards(make_folder):
    folder = make_folder(steps=12)
    config = folder.config("a", max_minutes=0)
    assert train(config) == 85
    train_part = documents(1, 40, 30)
    train_part[3] = train_part[3][::-1].copy()
    write_source(folder.root / "tokens" / "web", train_part, documents(11, 4, 25))
    with pytest.raises(TrainError, match=r"has changed since: tokens/web/train-00000\.bin\."):
        train(config)
    shutil.rmtree(config.parent / "checkpoints")
    assert train(config) == 85  # without a checkpoint there is nothing to contradict


def test_a_changed_mixture_is_refused(make_folder):
    folder = make_folder(steps=12)
    config = folder.config("a")
    assert train(config) == 0
    content = json.loads((folder.root / "mixture.json").read_text())
    content["seed"] += 1
    (folder.root / "mixture.json").write_text(json.dumps(content))
    with pytest.raises(TrainError, match=r"has changed since: mixture\.json\."):
        train(config)


def test_changed_settings_are_refused_with_both_values(make_folder):
    folder = make_folder(steps=12)
    assert train(folder.config("a", max_minutes=0)) == 85
    with pytest.raises(ConfigError, match=r"lr was 0\.01, is 0\.02; seed was 0, is 1"):
        train(folder.config("a", lr=0.02, seed=1))
    assert train(folder.config("a", max_minutes=None, save_every=5, keep_last=1, micro_batch=2)) == 0


def test_an_id_outside_of_the_vocabulary_stops_the_run_before_the_first_step(make_folder):
    # train-007, through the run
    folder = make_folder(steps=12)
    shard = folder.root / "tokens" / "web" / "train-00000.bin"
    data = bytearray(shard.read_bytes())
    data[20:22] = (512).to_bytes(2, "little")
    shard.write_bytes(data)
    config = folder.config("a")
    with pytest.raises(Exception, match=r"train-00000\.bin.*512"):
        train(config)
    assert not (config.parent / "metrics.jsonl").exists()


def test_a_validation_split_shorter_than_a_window_is_skipped_and_said(make_folder, capsys):
    # train-008
    folder = make_folder(steps=12)
    for seed, name in enumerate(("books", "web")):
        write_source(folder.root / "tokens" / name, documents(seed, 40, 30), documents(9, 1, 5))
    config = folder.config("a", eval_every=5)
    assert train(config) == 0
    assert "the validation split has 6 tokens, less than one window of 8" in capsys.readouterr().err
    summary = json.loads((config.parent / "summary.json").read_text())
    assert summary["validation"] == {}
    assert set(summary["validation_skipped"]) == {"books", "web"}


def test_two_trainers_in_one_folder_are_refused(make_folder):
    config = make_folder(steps=12).config("a")
    with stopping.locked(config.parent, config), pytest.raises(TrainError, match="another trainer works here"):
        train(config)
    assert train(config) == 0


def test_cuda_is_refused_where_there_is_none(make_folder):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: nothing to refuse")
    with pytest.raises(TrainError, match="torch finds no GPU"):
        train(make_folder(steps=12).config("a", device="cuda"))


def test_three_epochs_after_a_stop_at_nine_tenths(make_folder, monkeypatch):
    # train-002, through the run: 100 windows, batch 10, stop at step 9, 30 steps.
    folder = make_folder(steps=30)
    shutil.rmtree(folder.root / "tokens")
    write_source(folder.root / "tokens" / "web", documents(1, 1, 800), documents(2, 4, 25))
    write_mixture(folder.root / "mixture.json", 8, {"web": (100, 300)})
    config = folder.config("a", batch_windows=10, save_every=9)
    seen = []
    real = TrainingData.batch
    monkeypatch.setattr(
        TrainingData, "batch", lambda data, step: seen.append((step, data.slots(step))) or real(data, step)
    )
    stop_at(config, 9)
    assert train(config) == 0
    assert [step for step, _ in seen] == list(range(30))
    for epoch in range(3):
        windows = [window for _, slots in seen[10 * epoch : 10 * epoch + 10] for _, window in slots]
        assert sorted(windows) == list(range(100))
    assert json.loads((config.parent / "summary.json").read_text())["sources"] == {
        "web": {"windows": 300, "epochs": 3.0}
    }


def test_bfloat16_trains_on_the_cpu(make_folder):
    config = make_folder(steps=60).config("a", precision="bfloat16", qk_norm=True, tied=False, eval_every=60)
    assert train(config) == 0
    summary = json.loads((config.parent / "summary.json").read_text())
    assert summary["precision"] == "bfloat16"
    assert summary["last_loss"] < summary["first_loss"] - 0.5
    assert weights(config, 60)["model"]["head.weight"].dtype == torch.float32


@pytest.mark.slow  # 20 seconds of C++ compilation, two minutes on a busy machine
def test_a_compiled_model_trains_as_the_plain_one(make_folder):
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("torch.compile on the CPU needs a C++ compiler: install g++")
    folder = make_folder(steps=8)
    plain, compiled = folder.config("plain"), folder.config("compiled", compile="on")
    assert train(plain) == train(compiled) == 0
    for one, other in zip(*(metrics.read(c.parent / "metrics.jsonl")[0] for c in (plain, compiled)), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-4)
    assert json.loads((compiled.parent / "summary.json").read_text())["compile"] is True
