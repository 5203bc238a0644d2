"""Runs of tuning from a trained checkpoint: what they write, that they resume to the bit, what they refuse, what they learn."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shutil
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from byte_tokenizer import END, write_tokenizer
from token_folder import TINY, write_mixture, write_source

from curate.tokens.answers import ANSWERS
from curate.tokens.order import num_windows
from curate.tokens.tokenizer import load_tokenizer
from train import checkpoint, config, loop, metrics
from train.__main__ import main
from train.config import ConfigError, TrainError, settings_of
from train.model import Decoder
from train.trained import open_trained
from train.tuning import dpo
from train.tuning import loop as tuning_loop
from train.tuning.config import DpoSettings, SftSettings, TuningConfig
from train.tuning.examples import read_examples

CONTEXT = 32
KINDS = {"sft": SftSettings, "dpo": DpoSettings}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run folder of `curate` with a model that has read a little; texts are bytes."""
    root = tmp_path_factory.mktemp("trained")
    tokenizer = load_tokenizer(write_tokenizer(root / "tokenizer"), eos="<|end|>")
    texts = [np.frombuffer(f"the {word} is {word}. ".encode() * 4, np.uint8).astype(np.int64) for word in "abcdefgh"]
    write_source(
        root / "tokens" / "books", texts * 2, texts[:4], vocab_size=tokenizer.vocab_size, eos_id=END,
        tokenizer=tokenizer.sha256,
    )  # fmt: skip
    windows = num_windows(sum(text.size + 1 for text in texts) * 2, CONTEXT)
    write_mixture(root / "mixture.json", CONTEXT, {"books": (windows, 24)})
    path = root / "train" / "0" / "config.json"
    path.parent.mkdir(parents=True)
    content = {"preset": "demo-1m", "seed": 0, "tokens": "../../tokens", "mixture": "../../mixture.json"}
    path.write_text(json.dumps(content | {"overrides": {**TINY, "context": CONTEXT}}))
    assert loop.run(config.load(path)) == 0
    return root


ROWS = {
    "sft": [{"prompt": f"{n}", "response": "abcdefgh"[n % 8] * (1 + n % 5)} for n in range(20)],
    "dpo": [{"prompt": f"{n}", "chosen": "yes" * (1 + n % 3), "rejected": "no"} for n in range(20)],
}


@pytest.fixture
def make(tmp_path, trained):
    """Return a function that writes data and a config in a folder of its own and returns the config's path."""

    def make_config(kind, name="a", *, rows=None, start=None, changes=None, **overrides):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        rows = ROWS[kind] if rows is None else rows
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        content = {
            "checkpoint": str(start or trained / "train" / "0"), "tokenizer": str(trained / "tokenizer"),
            "data": ["rows.jsonl"], "validation": 0.2, "seed": 0,
            "overrides": {"lr": 0.01, "batch_examples": 4, "micro_batch": 3, "eval_batch": 3, "log_every": 1,
                          "eval_every": 5, "save_every": 4, "device": "cpu"} | overrides,
        }  # fmt: skip
        path = folder / "config.json"
        path.write_text(json.dumps({k: v for k, v in (content | (changes or {})).items() if v is not None}))
        return path

    return make_config


def tune(path, kind):
    return tuning_loop.run(TuningConfig.load(path, KINDS[kind]))


def lines(path):
    return metrics.read(path.parent / "metrics.jsonl")


def written(path):
    """The files that two runs must have alike, but for what names the data."""
    newest = max((path.parent / "checkpoints").glob("step_*"))
    files = [path.parent / "metrics.jsonl", path.parent / "summary.json", *sorted(newest.glob("*.safetensors"))]
    return {file.name: file.read_bytes() for file in files}


def test_a_supervised_run_writes_what_the_contract_says(make, trained):
    path = make("sft")
    assert tune(path, "sft") == 0
    summary = json.loads((path.parent / "summary.json").read_text())
    count, held_out = summary["examples"], summary["held_out"]
    assert count + held_out == 20
    assert held_out > 0
    steps = 2 * -(-count // 4)
    training, validation = lines(path)
    assert [line["step"] for line in training] == list(range(1, steps + 1))
    assert [line["step"] for line in validation] == [0, 5, steps]
    assert set(training[0]) == {"step", "tokens", "loss", "lr", "grad_norm", "response_tokens"}
    assert set(validation[0]["validation"]["held_out"]) == {"loss", "perplexity", "bits_per_byte"}
    # Two epochs: every response twice, with its space and its end.
    assert (
        training[-1]["response_tokens"]
        == summary["response_tokens"]
        < 2 * sum(len(row["response"]) + 2 for row in ROWS["sft"])
    )
    assert (summary["steps"], summary["epochs"], summary["tuning"], summary["preset"]) == (steps, 2, "sft", "demo-1m")
    assert summary["start_step"] == 6
    assert summary["validation_before"] == validation[0]["validation"]
    assert summary["validation"] == validation[-1]["validation"]
    assert training[-1]["loss"] < training[0]["loss"] - 0.5
    assert training[0]["lr"] == 0.01  # the warm-up is one step
    # What is saved has the shape of what it came from, and says so as a pretrained checkpoint does.
    newest = checkpoint.find(path.parent, warn=pytest.fail)
    before = checkpoint.find(trained / "train" / "0", warn=pytest.fail)
    identity, identity_before = newest.state["identity"], before.state["identity"]
    shape = ("layers", "dim", "heads", "kv_heads", "ffn_dim", "context", "tied", "qk_norm", "rope_base", "norm_eps")
    more = ("vocab_size", "padded_vocab_size", "eos_id", "tokenizer_sha256", "preset")
    assert {name: identity[name] for name in shape + more} == {name: identity_before[name] for name in shape + more}
    Decoder(settings_of(identity), identity["padded_vocab_size"]).load_state_dict(newest.tensors["model"])
    assert json.loads((path.parent / "resolved.json").read_text())["identity"] == identity
    assert len((path.parent / "timings.jsonl").read_text().splitlines()) == steps


def test_a_run_of_preferences_begins_at_ln_2_and_learns_to_prefer(make):
    path = make("dpo", steps=20, beta=0.5)
    assert tune(path, "dpo") == 0
    training, validation = lines(path)
    nothing = {"loss": math.log(2), "accuracy": 0.5, "margin": 0.0, "chosen_reward": 0.0, "rejected_reward": 0.0}
    assert validation[0]["validation"]["held_out"] == nothing  # to the bit: policy and reference are one
    assert {name: training[0][name] for name in nothing} == nothing
    held_out = validation[-1]["validation"]["held_out"]
    assert held_out["accuracy"] == training[-1]["accuracy"] == 1.0
    assert held_out["loss"] < 0.5
    assert held_out["margin"] == pytest.approx(held_out["chosen_reward"] - held_out["rejected_reward"])
    assert held_out["margin"] > 0.5
    summary = json.loads((path.parent / "summary.json").read_text())
    assert summary["validation"] == {"held_out": held_out}
    reference = pq.read_table(path.parent / "reference.parquet")
    assert sorted(reference["row"].to_pylist()) == list(range(1, 21))
    assert tune(make("dpo", "short", steps=1), "dpo") == 0  # one batch of four; the rest is not looked at
    assert pq.read_table(path.parent.parent / "short" / "reference.parquet").num_rows == 4 + summary["held_out"]


@pytest.mark.parametrize("kind", ["sft", "dpo"])
def test_a_run_that_was_stopped_after_every_step_gives_the_same_bytes(make, kind, monkeypatch):
    straight = make(kind, "straight", steps=7, log_every=3)
    stopped = make(kind, "stopped", steps=7, log_every=3, max_minutes=0)
    assert tune(straight, kind) == 0
    codes = [tune(stopped, kind)]
    monkeypatch.setattr(dpo, "reference_log_probs", pytest.fail)  # stored by the first start
    codes += [tune(stopped, kind) for _ in range(6)]
    assert codes == [85] * 6 + [0]
    assert written(straight) == written(stopped)


def test_a_signal_saves_and_asks_to_be_started_again(make, monkeypatch):
    straight, stopped = make("sft", "straight", steps=5), make("sft", "stopped", steps=5)
    assert tune(straight, "sft") == 0
    real, calls = tuning_loop.Sft.of_part, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:  # the second step's first part of two
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(tuning_loop.Sft, "of_part", interrupted)
        assert tune(stopped, "sft") == 85
    assert [path.name for path in (stopped.parent / "checkpoints").iterdir()] == ["step_00000002"]
    assert tune(stopped, "sft") == 0
    assert written(straight) == written(stopped)


def test_whatever_the_start_was_trained_with_tuning_is_adamw_on_its_own_schedule(make, trained, tmp_path):
    start = checkpoint.find(trained / "train" / "0", warn=pytest.fail)
    identity = start.state["identity"] | {"optimizer": "muon", "schedule": "wsd-s", "decay_points": [0.5], "lr": 9.0}
    identity |= {"document_mask": True, "z_loss": 0.1, "max_tokens": 999, "skip_sigma": 1e-9}
    state = {name: value for name, value in start.state.items() if name != "step"} | {"identity": identity}
    checkpoint.save(tmp_path / "muon" / "checkpoints", 6, tensors=start.tensors, state=state, keep_last=1)
    paths = [make("sft", "plain", steps=3), make("sft", "other", start=tmp_path / "muon", steps=3)]
    assert [tune(path, "sft") for path in paths] == [0, 0]
    assert written(paths[0]) == written(paths[1])
    resolved = [json.loads((path.parent / "resolved.json").read_text())["identity"] for path in paths]
    assert resolved[0] == resolved[1]


def test_a_lost_reference_and_a_damaged_checkpoint_leave_no_trace(make, capsys):
    straight, stopped = make("dpo", "straight", steps=6), make("dpo", "stopped", steps=6, max_minutes=0)
    assert tune(straight, "dpo") == 0
    assert [tune(stopped, "dpo") for _ in range(3)] == [85] * 3
    (stopped.parent / "reference.parquet").unlink()
    (stopped.parent / "checkpoints" / "step_00000003" / "model.safetensors").write_bytes(b"")
    make("dpo", "stopped", steps=6)
    assert tune(stopped, "dpo") == 0
    assert "resuming from step_00000002" in capsys.readouterr().err
    assert written(straight) == written(stopped)


def test_the_reference_of_another_start_is_not_taken(make, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dpo.Dpo, "of_part", killed)
        with pytest.raises(KeyboardInterrupt):
            tune(make("dpo", steps=2), "dpo")
    path = make("dpo", changes={"seed": 5}, steps=2)  # other pairs, and no checkpoint that would refuse them
    assert tune(path, "dpo") == 0
    assert lines(path)[0][0]["loss"] == math.log(2)


def test_micro_batches_change_nothing_but_rounding(make):
    for kind in KINDS:
        whole, split = make(kind, f"{kind}-whole", micro_batch=4), make(kind, f"{kind}-split", micro_batch=1)
        assert tune(whole, kind) == tune(split, kind) == 0
        for one, other in zip(lines(whole)[0], lines(split)[0], strict=True):
            assert one["loss"] == pytest.approx(other["loss"], abs=1e-4)


@pytest.mark.parametrize("kind", ["sft", "dpo"])
def test_bfloat16_is_near(make, kind):
    exact, rounded = make(kind, "exact", steps=2), make(kind, "rounded", steps=2, precision="bfloat16")
    assert tune(exact, kind) == tune(rounded, kind) == 0
    for one, other in zip(lines(exact)[0], lines(rounded)[0], strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=0.03)
    assert lines(exact)[0] != lines(rounded)[0]
    assert (lines(rounded)[0][0]["loss"] == math.log(2)) == (kind == "dpo")


def test_preferences_start_from_what_was_tuned_and_gold_answers_are_measured(make, tmp_path):
    rows = [
        {
            "benchmark": "quiz",
            "item": str(n),
            "group": "all",
            "prompt": list(b"User: 1"),
            "answer": list(b" yes"),
            "bytes": 4,
        }
        for n in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(rows, ANSWERS), tmp_path / "gold.parquet")
    first = make("sft", "first", steps=4)
    assert tune(first, "sft") == 0
    path = make("dpo", "second", start=first.parent, changes={"answers": "../gold.parquet"}, steps=4)
    assert tune(path, "dpo") == 0
    summary = json.loads((path.parent / "summary.json").read_text())
    assert summary["start_step"] == 4
    assert summary["answers"]["groups"]["all"]["items"] == 3
    found = [json.loads(line) for line in (path.parent / "metrics.jsonl").read_text().splitlines()]
    measured = [line for line in found if "answers" in line]
    assert [line["step"] for line in measured] == [0, 4]
    assert measured[-1]["answers"]["all"]["bits_per_byte"] < measured[0]["answers"]["all"]["bits_per_byte"]


def test_a_finished_run_is_left_and_changes_are_refused(make, trained, tmp_path, capsys):
    path = make("sft", steps=2)
    assert tune(path, "sft") == 0
    before = {file: file.stat().st_mtime_ns for file in path.parent.rglob("*")}
    assert tune(path, "sft") == 0
    assert "complete; nothing to do" in capsys.readouterr().err
    assert {file: file.stat().st_mtime_ns for file in path.parent.rglob("*")} == before
    make("sft", steps=2, lr=0.02)
    with pytest.raises(ConfigError, match=r"lr was 0\.01, is 0\.02.*Only keep_last, max_minutes"):
        tune(path, "sft")
    make("sft", steps=2, rows=[*ROWS["sft"], {"prompt": "new", "response": "row"}])
    with pytest.raises(TrainError, match=r"the data has changed since: rows\.jsonl"):
        tune(path, "sft")
    other = tmp_path / "other"
    shutil.copytree(trained / "train" / "0", other)
    start = checkpoint.find(other, warn=pytest.fail)
    tensors = {"model": start.tensors["model"] | {"norm.weight": torch.zeros(16)}}
    state = {name: value for name, value in start.state.items() if name != "step"}
    checkpoint.save(other / "checkpoints", 7, tensors=tensors, state=state, keep_last=9)
    make("sft", steps=2, start=other)
    with pytest.raises(TrainError, match="the data has changed since: start"):
        tune(path, "sft")


def test_a_validation_file_is_apart_from_the_share(make, tmp_path):
    (tmp_path / "held.jsonl").write_text(json.dumps({"prompt": "q", "response": "r"}))
    path = make("sft", changes={"validation": "../held.jsonl"}, steps=2)
    assert tune(path, "sft") == 0
    summary = json.loads((path.parent / "summary.json").read_text())
    assert (summary["examples"], summary["held_out"]) == (20, 1)
    none = make("sft", "none", changes={"validation": None}, steps=2)
    assert tune(none, "sft") == 0
    assert lines(none)[1] == []
    with pytest.raises(TrainError, match=r"a share of 0\.5 leaves 0 examples to learn from and 3|and 0 to measure"):
        tune(make("sft", "one", rows=[{"prompt": "p", "response": "r"}] * 3, changes={"validation": 0.5}), "sft")


def test_files_of_one_name_are_told_apart(make, tmp_path):
    other = [{"prompt": "q", "chosen": "no", "rejected": "yes" * 5}]
    (tmp_path / "rows.jsonl").write_text(json.dumps(other[0]))
    path = make("dpo", changes={"validation": "../rows.jsonl"}, steps=1)
    assert tune(path, "dpo") == 0
    assert lines(path)[1][0]["validation"]["held_out"]["loss"] == lines(path)[0][0]["loss"] == math.log(2)


def test_skipped_rows_are_written_down(make, capsys):
    rows = [*ROWS["sft"], {"prompt": "p", "response": ""}, {"prompt": "p" * 40, "response": "r"}]
    path = make("sft", rows=rows, steps=2)
    assert tune(path, "sft") == 0
    assert json.loads((path.parent / "skipped.json").read_text()) == [
        {"file": "rows.jsonl", "row": 21, "reason": "a response is empty"}
    ]
    summary = json.loads((path.parent / "summary.json").read_text())
    assert summary["skipped"] == {"a response is empty": 1}
    assert summary["prompts_cut"] == 1
    said = capsys.readouterr().err
    assert "1 rows are skipped: skipped.json says which and why" in said
    assert "1 prompts are too long for the context of 32" in said


def test_a_loss_that_is_not_finite_ends_the_run(make):
    path = make("sft", steps=4)
    real, calls = tuning_loop.Sft.of_part, []

    def broken(*arguments):
        calls.append(1)
        return real(*arguments) * (math.nan if len(calls) > 4 else 1.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning_loop.Sft, "of_part", broken)
        with pytest.raises(
            TrainError, match=r"step 3: the loss is nan.*Nothing had been saved yet\. Lower `lr` \(0\.01\)"
        ):
            tune(path, "sft")
        calls.clear()
        saving = make("sft", "saving", steps=4, save_every=2)
        with pytest.raises(
            TrainError, match=r"saving/checkpoints/step_00000002 is from before\. .* name another `output`"
        ):
            tune(saving, "sft")


def test_the_output_of_another_kind_of_run_is_left_alone(make, trained, tmp_path, capsys):
    pretrained = shutil.copytree(trained / "train" / "0", tmp_path / "pretrained")
    tuned = make("sft", "tuned", steps=2)
    assert tune(tuned, "sft") == 0
    pretraining = tmp_path / "p.json"
    data = {"tokens": str(trained / "tokens"), "mixture": str(trained / "mixture.json"), "output": "tuned"}
    overrides = {**TINY, "context": CONTEXT}
    pretraining.write_text(json.dumps({"preset": "demo-1m", "seed": 0, "overrides": overrides} | data))
    for kind, path, output, there in (
        ("sft", make("sft", "b", changes={"output": "../pretrained"}), pretrained, "pretraining"),
        ("dpo", make("dpo", "c", changes={"output": "../tuned"}), tuned.parent, "sft"),
        ("run", pretraining, tuned.parent, "sft"),
    ):
        for gone in (None, "summary.json", "checkpoints"):  # without both: stopped before its first checkpoint
            if gone:
                (output / gone).rename(tmp_path / f"{kind}-{gone}")
            before = {file: file.stat().st_mtime_ns for file in output.rglob("*")}
            code, said = problem(capsys, kind, str(path))
            assert code == 2
            assert (
                f"holds a run of {there}, and this is one of {'pretraining' if kind == 'run' else kind}. Name another"
                in said
            )
            assert {file: file.stat().st_mtime_ns for file in output.rglob("*")} == before
        for gone in ("summary.json", "checkpoints"):
            (tmp_path / f"{kind}-{gone}").rename(output / gone)


def test_sampling_finds_the_tokenizer_that_tuning_was_told(make, trained, tmp_path, capsys):
    first = make("sft", "first", steps=1)  # names the tokenizer; none is above it
    assert tune(first, "sft") == 0
    second = make("dpo", "second", start=first.parent, changes={"tokenizer": None}, steps=1)
    assert tune(second, "dpo") == 0
    for path in (first, second):
        assert main(["sample", str(path.parent), "--prompt", "User: 1", "--tokens", "2"]) == 0
        assert capsys.readouterr().out.startswith("User: 1")
        state = checkpoint.find(path.parent, warn=pytest.fail).state
        assert str(trained) not in json.dumps(state)  # where it lies is no part of what it is
    assert json.loads((second.parent / "resolved.json").read_text())["tokenizer"] == os.path.relpath(
        trained / "tokenizer", second.parent
    )


def problem(capsys, *arguments):
    code = main(arguments)
    return code, capsys.readouterr().err


def test_a_config_that_cannot_work_is_refused_with_all_its_problems(make, trained, capsys):
    path = make(
        "sft", changes={"chekpoint": "x", "seed": -1, "data": [], "validation": 1.5}, beta=0.1, epoch=3, lr="fast"
    )
    code, said = problem(capsys, "sft", str(path))
    assert code == 2
    for part in (
        "chekpoint: unknown key. Nearest known: checkpoint.",
        "seed: must be between 0",
        "data: must name at least one file.",
        "validation: a share must be greater than 0 and below 1, is 1.5.",
        "overrides.beta: unknown key.",  # of dpo alone
        "overrides.epoch: unknown key. Nearest known: epochs.",
        'overrides.lr: must be a number, is "fast".',
    ):
        assert part in said
    path = make("sft", changes={"data": "rows.jsonl", "validation": True, "checkpoint": None})
    code, said = problem(capsys, "sft", str(path))
    assert code == 2
    assert "checkpoint: is missing." in said
    assert 'data: must be a list, each item a string, is "rows.jsonl".' in said
    assert "validation: must be a string or a number, is true." in said


def test_what_a_config_names_must_be_there(make, trained, tmp_path, capsys):
    absent = {
        "data": ["rows.jsonl", "gone.jsonl"],
        "validation": "held.jsonl",
        "tokenizer": "absent",
        "tasks": "t.parquet",
    }
    for start in (tmp_path / "nowhere", trained):  # the second holds the folder of a run, and is none
        path = make("sft", start=start, changes=absent)
        code, said = problem(capsys, "sft", str(path))
        assert code == 2
        for part in ("data: {}/gone.jsonl is no file.", "validation: {}/held.jsonl is", "tokenizer: {}/absent is not there.",
                     "tasks: {}/t.parquet is"):  # fmt: skip
            assert part.format(path.parent) in said
        assert f"checkpoint: {start} holds no checkpoint. Name the folder of a run" in said
        assert "/rows.jsonl" not in said
        assert sorted(one.name for one in path.parent.iterdir()) == ["config.json", "rows.jsonl"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"beta": 0}, "overrides.beta: must be greater than 0, is 0."),
        ({"label_smoothing": 0.5}, "overrides.label_smoothing: must be at least 0 and below 0.5, is 0.5."),
        ({"epochs": 0}, "overrides.epochs: must be at least 1, is 0."),
        ({"steps": 0}, "overrides.steps: must be at least 1, is 0."),
        ({"warmup_fraction": 1.1}, "overrides.warmup_fraction: must be between 0 and 1, is 1.1."),
        ({"template": "chatml"}, 'overrides.template: must be one of chat, none, is "chatml".'),
        ({"lr": 0}, "overrides.lr: must be greater than 0, is 0."),
        ({"weight_decay": -1}, "overrides.weight_decay: must be at least 0, is -1."),
        ({"beta1": 1}, "overrides.beta1: must be at least 0 and below 1, is 1."),
        ({"max_minutes": -1}, "overrides.max_minutes: must be at least 0, is -1."),
    ],
)
def test_settings_out_of_range_are_refused(make, capsys, overrides, message):
    code, said = problem(capsys, "dpo", str(make("dpo", **overrides)))
    assert (code, message in said) == (2, True)


def test_what_does_not_fit_together_is_refused(make, trained, tmp_path, monkeypatch, capsys):
    other = write_tokenizer(tmp_path / "other")
    other.write_text(other.read_text().replace("<|end|>", "<|over|>"))
    code, said = problem(capsys, "sft", str(make("sft", changes={"tokenizer": str(other)})))
    assert (code, "is not the tokenizer of" in said) == (1, True)
    code, said = problem(capsys, "dpo", str(make("dpo", rows=ROWS["sft"])))
    assert (code, "row 1: has no chosen and no rejected" in said) == (1, True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, said = problem(capsys, "sft", str(make("sft")))
    assert (code, "tuning runs in one process" in said) == (2, True)


def test_the_tokenizer_is_found_above_the_checkpoint(make, trained):
    starts = (trained / "train" / "0", trained / "train" / "0" / "checkpoints" / "step_00000006")
    paths = [make("sft", f"{n}", start=start, changes={"tokenizer": None}, steps=1) for n, start in enumerate(starts)]
    assert [tune(path, "sft") for path in paths] == [0, 0]
    assert written(paths[0]) == written(paths[1])


@pytest.mark.parametrize("system", ["", "Be brief."])
def test_the_help_of_sample_writes_a_prompt_as_tuning_does(trained, tmp_path, capsys, system):
    with pytest.raises(SystemExit):
        main(["sample", "--help"])
    said = capsys.readouterr().out
    prompt = re.search(r"--prompt \$'(User: What is 2 \+ 2\?.*)'", said)[1].replace("\\n", "\n")
    if system:
        prompt = re.search(r"\$'(System: Be brief\..*)User: \.\.\.'", said)[1].replace("\\n", "\n") + prompt
    turns = [("system", system)] * bool(system) + [("user", "What is 2 + 2?"), ("assistant", "4")]
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"messages": [{"role": role, "content": text} for role, text in turns]})
    )
    start = open_trained(trained / "train" / "0", None, warn=pytest.fail)
    found = read_examples({"a": tmp_path / "a.jsonl"}, start.tokenizer, pairs=False, template="chat", context=99, seed=0,
                          max_skipped=0)  # fmt: skip
    response = start.tokenizer.encode(" 4").tolist()
    asked = [*start.start_ids, *start.tokenizer.encode(prompt).tolist()]  # as `sample` does
    assert found.examples[0].rows[0].tokens.tolist() == [*asked, *response, END]


def test_help_shows_every_setting_and_needs_no_torch(capsys):
    for kind, rate in (("sft", "0.001"), ("dpo", "1e-06")):
        with pytest.raises(SystemExit) as caught:
            main([kind, "--help"])
        assert caught.value.code == 0
        said = capsys.readouterr().out
        entries = [line for line in said.splitlines() if re.match(r"  \w+ \[", line)]
        explained = {name for line in entries for name in re.findall(r"(\w+) \[", line.partition(": ")[0])}
        assert explained == {one.name for one in dataclasses.fields(KINDS[kind])}
        assert all(len(line.partition("]: ")[2]) > 10 for line in entries)  # a meaning
        for part in (
            f"lr [{rate}]: Peak",
            'template ["chat"]: ',
            "`none` puts",
            "max_skipped [0.1]: ",
            "batch_examples [32]: ",
        ):
            assert part in said
        assert ("beta [0.1]: " in said) == (kind == "dpo")
        assert max(map(len, said.splitlines())) <= 128
