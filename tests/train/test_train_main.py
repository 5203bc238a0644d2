"""The command line and the death of processes: everything here runs `python -m train` as a user does."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from train import checkpoint, loop, metrics
from train.__main__ import environment, main
from train.config import PRESETS, Settings, load
from train.data import open_data

ROOT = Path(__file__).parents[2]

# Runs a config and kills its own process with SIGKILL after the line of a step was written. Each batch is noted, with the
# documents that its windows begin in.
KILLER = """
import json, os, signal, sys
from pathlib import Path
from train import config, data, loop, metrics

path, last_step, notes = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])

real_record = metrics.RunLog.training
def record(log, **line):
    if line["step"] == last_step + 1:
        os.kill(os.getpid(), signal.SIGKILL)
    real_record(log, **line)
metrics.RunLog.training = record

real_batch = data.TrainingData.batch
def batch(train, step):
    found = []
    for source, window in train.slots(step):
        shard = train.sources[source]
        found.append(shard.document_ids[shard.document_at(window * train.plan.window)])
    with notes.open("a") as file:
        file.write(json.dumps([step, found]) + "\\n")
    return real_batch(train, step)
data.TrainingData.batch = batch
sys.exit(loop.run(config.load(path)))
"""


def killer(config, last_step, notes):
    return subprocess.run(
        [sys.executable, "-c", KILLER, str(config), str(last_step), str(notes)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, env=os.environ | environment(1), check=False,
    )  # fmt: skip


def killed_child(config, place, count):
    """Run a config in a fork of this process, which kills itself; return the signal that ended it."""
    owner, name = {"sync": (checkpoint, "sync"), "rename": (Path, "rename")}[place]
    child = os.fork()
    if child == 0:
        try:
            real, calls = getattr(owner, name), []

            def wrapped(*arguments, **keywords):
                calls.append(1)
                if len(calls) == count:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments, **keywords)

            setattr(owner, name, wrapped)
            loop.run(load(config))
        finally:
            os._exit(1)  # never back into pytest
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else None


def command(*arguments, **keywords):
    return subprocess.Popen(
        [sys.executable, "-m", "train", *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords,
    )  # fmt: skip


def output(*arguments, **keywords):
    process = command(*arguments, **keywords)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def notes_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def documents_of_batches(config):
    data = open_data(load(config).tokens, load(config).mixture, load(config).settings).train
    sources = data.sources
    return [
        [
            step,
            [
                sources[s].document_ids[sources[s].document_at(window * data.plan.window)]
                for s, window in data.slots(step)
            ],
        ]
        for step in range(data.num_steps)
    ]


def same_weights(first, second, step):
    for name in ("model.safetensors", "optimizer.safetensors"):
        parts = (c.parent / "checkpoints" / f"step_{step:08d}" / name for c in (first, second))
        if len({part.read_bytes() for part in parts}) != 1:
            return False
    return True


@pytest.mark.parametrize(
    ("optimizer", "steps", "every", "killed_at"),
    [("muon", 40, 20, 20), ("adamw", 80, 10, 37)],  # the second is train-001: killed after step 37 of 80
)
def test_killed_and_resumed_is_the_uninterrupted_run_to_the_last_bit(
    make_folder, tmp_path, optimizer, steps, every, killed_at
):
    folder = make_folder(steps=steps)
    straight, killed = (
        folder.config(name, optimizer=optimizer, save_every=every, eval_every=7) for name in ("straight", "killed")
    )
    notes = {name: tmp_path / f"{name}.notes" for name in ("killed", "resumed")}
    assert loop.run(load(straight)) == 0  # in this process, the others in their own: no state of a process matters
    assert killer(killed, killed_at, notes["killed"]).returncode == -signal.SIGKILL
    assert metrics.read(killed.parent / "metrics.jsonl")[0][-1]["step"] == killed_at
    result = killer(killed, steps, notes["resumed"])
    assert result.returncode == 0
    last_saved = killed_at // every * every
    assert f"resuming from step_{last_saved:08d}" in result.stderr
    expected = documents_of_batches(straight)
    assert len(expected) == steps
    assert notes_of(notes["killed"]) == expected[: killed_at + 1]
    assert notes_of(notes["resumed"]) == expected[last_saved:]  # no batch twice, none left out
    for name in ("metrics.jsonl", "summary.json"):
        assert (straight.parent / name).read_bytes() == (killed.parent / name).read_bytes()
    assert same_weights(straight, killed, steps)


@pytest.mark.parametrize(
    ("place", "count"),
    # Saving at step 10 syncs, in order: resolved.json and its folder (1, 2), model, optimizer, state (3, 4, 5), the
    # temporary folder (6), then renames it (1), then syncs the folder (7). The second save removes the first: rename 3.
    [("sync", 2), ("sync", 4), ("sync", 6), ("rename", 1), ("sync", 7), ("rename", 3)],
)
def test_a_kill_at_any_point_of_saving_costs_nothing_but_time(make_folder, place, count):
    folder = make_folder(steps=24)
    straight, killed = folder.config("straight", keep_last=1), folder.config("killed", keep_last=1)
    assert loop.run(load(straight)) == 0
    assert killed_child(killed, place, count) == signal.SIGKILL
    assert loop.run(load(killed)) == 0
    for name in ("metrics.jsonl", "summary.json"):
        assert (straight.parent / name).read_bytes() == (killed.parent / name).read_bytes()
    assert same_weights(straight, killed, 24)
    assert [path.name for path in (killed.parent / "checkpoints").iterdir()] == ["step_00000024"]


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, 85), (signal.SIGUSR1, 85), (signal.SIGINT, 130)], ids=["TERM", "USR1", "INT"]
)
def test_a_signal_saves_and_leaves(make_folder, sent, code):
    config = make_folder(steps=4000).config("a", log_every=1, save_every=4000, eval_every=4000)
    process = command("run", config)
    for line in process.stderr:
        if line.startswith("step   10/4000"):
            process.send_signal(sent)
            break
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "start again to go on" in err
    saved = checkpoint.load_newest(config.parent / "checkpoints", warn=pytest.fail)
    assert 10 <= saved.step < 4000


def test_run_by_the_command_line(make_folder):
    config = make_folder(steps=12).config("a")
    code, _, err = output("run", config, env=os.environ | {"OMP_NUM_THREADS": "7"})
    assert code == 0, err
    assert "12 steps of 32 tokens, 384 in all; validation: books, web" in err
    assert "cpu, float32, 1 thread, micro-batch 4, context 8" in err
    assert "step 12/12  loss" in err
    assert re.search(
        r"done: 12 steps, 384 tokens, loss \d\.\d{4}; bits/byte: books \d\.\d{4}, web .*summary\.json$", err, re.M
    )
    assert json.loads((config.parent / "summary.json").read_text())["completed"] is True
    code, _, err = output("run", config)
    assert code == 0
    assert "nothing to do" in err


def test_errors_are_one_line_and_a_code(make_folder, tmp_path, capsys):
    folder = make_folder(steps=12)
    assert main(["run", str(tmp_path / "none.json")]) == 2
    assert "none.json: cannot be read" in capsys.readouterr().err
    assert main(["run", str(folder.config("a", lr=-1))]) == 2
    assert "overrides.lr: must be greater than 0, is -1" in capsys.readouterr().err
    (folder.root / "tokens" / "web" / "manifest.json").unlink()
    assert main(["run", str(folder.config("b"))]) == 1
    assert "manifest" in capsys.readouterr().err


def changed(config, **keys):
    config.write_text(json.dumps(json.loads(config.read_text()) | keys))
    return config


def test_check_says_what_would_be_trained_and_leaves_nothing(make_folder, capsys):
    folder = make_folder(steps=12)
    config = changed(folder.config("a"), output="new/out")
    assert main(["check", str(config)]) == 0
    told = capsys.readouterr().out
    assert "model   1x16 (layers x dim, in place of the shape of demo-1m), seed 0: 3,376 parameters" in told
    assert "12 steps of 32 tokens, 384 in all; validation: books, web" in told
    assert "cpu, float32, 1 thread" in told
    assert told.endswith("this config can run\n")
    assert [path.name for path in config.parent.iterdir()] == ["config.json"]
    assert loop.run(load(config)) == 0
    assert main(["check", str(config)]) == 0  # complete, and the same
    assert main(["check", str(changed(config, seed=1))]) == 2
    assert "seed was 0, is 1" in capsys.readouterr().err


def test_check_may_look_at_the_settings_alone(make_folder, tmp_path, capsys):
    config = changed(make_folder(steps=12).config("a"), tokens="none", mixture="none")
    assert main(["check", "--settings-only", str(config)]) == 0
    assert "were not looked at" in capsys.readouterr().out
    assert main(["check", "--settings-only", str(make_folder(steps=1, name="b").config("a", lr=0))]) == 2


WRONG = {  # keys of the config, overrides, what is told
    "tokens": ({"tokens": "none"}, {}, "none: there is no such folder. Set `tokens`"),
    "mixture": ({"mixture": "none"}, {}, "none: there is no such file. Set `mixture`"),
    "answers": ({"answers": "none"}, {}, "none: there is no such file. Set `answers`"),
    "tasks": ({"tasks": "none"}, {}, "none: there is no such file. Set `tasks`"),
    "context": ({}, {"context": 16}, "window of 8 tokens is not a multiple of the context 16"),
    "batch": ({}, {"batch_windows": 100_000}, "48 windows of 8 tokens do not fill one batch of 100000"),
    "few": ({}, {"max_tokens": 7}, "0 windows of 8 tokens do not fill one batch"),
    "many": ({}, {"max_tokens": 385}, "max_tokens is 385, the mixture has 384"),
    "device": ({}, {"device": "cuda"}, "torch finds no GPU"),
    "logger": ({}, {"loggers": ["wandb"]}, "pip install 'curate[wandb]'"),
    # 10^7 wide: q, k, v, out 3e14, gate, up, down 9.6e8, norms 3e7, embedding (tied) of 64 rows 6.4e8; 16 bytes each
    "memory": ({}, {"dim": 10**7}, "parameters need 4,800,026.1 GB (16 bytes each: weight, gradient, two moments), this machine has"),
    "proc": ({"output": "/proc/foo"}, {}, "/proc/foo: cannot be written (No such file or directory). "),
    "file": ({"output": "../../mixture.json"}, {}, "mixture.json: cannot be written (Not a directory). "),
    "below": ({"output": "../../mixture.json/a"}, {}, "mixture.json/a: cannot be written (Not a directory). "),
    "curate": ({"output": "../../tokens/web"}, {}, "web: holds a manifest.json: it is the folder of a curate run"),
    "foreign": ({"output": "../.."}, {}, "holds no training run, but other files (mixture.json, tokens, train). Set `output`"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_check_and_run_refuse_alike(make_folder, monkeypatch, capsys, case):
    keys, overrides, told = WRONG[case]
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "wandb" else known(name))
    folder = make_folder(steps=12)
    config = changed(folder.config("a", **overrides), **keys)
    before = sorted(folder.root.rglob("*"))
    for command in ("check", "run"):
        assert main([command, str(config)]) == 2
        assert told in (err := capsys.readouterr().err)
        assert len(err.splitlines()) == 1
    assert sorted(folder.root.rglob("*")) == before


@pytest.mark.parametrize("key", ["mixture", "answers", "tasks"])
def test_a_file_that_is_none_of_its_kind_is_damaged(make_folder, capsys, key):
    folder = make_folder(steps=12)
    (folder.root / "other").write_text("window: 8\n")
    config = changed(folder.config("a"), **{key: "../../other"})
    for command in ("check", "run"):
        assert main([command, str(config)]) == 1
        assert f"other: is no {'mixture' if key == 'mixture' else 'file of'}" in capsys.readouterr().err


def test_an_output_may_hold_what_a_run_or_its_starter_left(make_folder):
    folder = make_folder(steps=12)
    config = folder.config("a")
    for number, names in enumerate(
        [["data.json", "log.txt"], ["lr_range.json"], ["resolved.json.tmp"], ["a.log", ".git"]]
    ):
        output = folder.root / str(number)
        output.mkdir()
        for name in names:
            (output / name).touch()
        assert main(["check", str(changed(config, output=str(output)))]) == 0
    (config.parent / "notes").touch()  # a config of any name in its own folder
    assert main(["check", str(changed(config, output=".").rename(config.parent / "mine"))]) == 0


@pytest.mark.parametrize("name", ["resolved.json.tmp", "metrics.jsonl"])
def test_an_output_that_cannot_be_written_is_one_line(make_folder, monkeypatch, capsys, name):
    config = make_folder(steps=12).config("a")
    opened = io.open

    def refused(path, mode="r", *arguments, **keywords):
        if str(path).endswith(name) and mode != "r":
            raise OSError(30, "Read-only file system", str(path))
        return opened(path, mode, *arguments, **keywords)

    monkeypatch.setattr(io, "open", refused)  # what pathlib calls
    assert main(["run", str(config)]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"{config.parent / name}: cannot be written (Read-only file system). Free the disk or its rights" in last


def test_a_disk_that_is_full_while_training_is_one_line(make_folder, monkeypatch, capsys):
    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")  # of an open file: no name

    monkeypatch.setattr(metrics.RunLog, "training", full)
    config = make_folder(steps=12).config("a")
    assert main(["run", str(config)]) == 1
    assert f"{config.parent}: cannot be written (No space left on device)." in capsys.readouterr().err


def test_what_writes_at_its_end_looks_at_its_output_first(make_folder, capsys):
    folder = make_folder(steps=12)
    assert main(["lr-range", str(changed(folder.config("a"), output="/proc/foo"))]) == 2
    assert "/proc/foo: cannot be written" in capsys.readouterr().err


def test_presets_are_listed(capsys):
    assert main(["presets"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in PRESETS)
    assert "738,432" in listed
    assert main(["presets", "15m"]) == 0
    assert json.loads(capsys.readouterr().out)["dim"] == 384


def test_every_setting_is_explained(capsys):
    with pytest.raises(SystemExit) as end:
        main(["presets", "--help"])
    assert end.value.code == 0
    _, _, text = capsys.readouterr().out.partition("may change:")
    starts = [line.partition(":")[0].split(", ") for line in text.splitlines() if line[:1].isalpha()]
    assert {name for names in starts for name in names} >= {one.name for one in dataclasses.fields(Settings)}


def test_help_names_every_command_in_a_line(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    for name in ("run", "check", "presets", "lr-range", "ladder", "sft", "dpo", "sample", "export"):
        assert re.search(rf"^    {name} .*\w", told, re.M)
    assert "python -m train ladder ladder.json --predict 1b" in told


def test_help_teaches_and_loads_nothing_heavy():
    script = (
        "import sys\nfrom train.__main__ import main\ntry:\n    main(['run', '--help'])\nexcept SystemExit as end:\n"
        "    assert end.code == 0\nassert not {'torch', 'numpy', 'pyarrow', 'safetensors'} & set(sys.modules)\n"
    )
    started = time.process_time()
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert time.process_time() - started < 5
    for word in ('"preset": "demo-1m"', "metrics.jsonl", "summary.json", "Exit codes", "85"):
        assert word in result.stdout


def test_the_thread_count_is_the_presets():
    assert environment(1)["OMP_NUM_THREADS"] == "1"
    assert environment(4)["OMP_NUM_THREADS"] == "4"
    assert environment(1)["OMP_WAIT_POLICY"] == "PASSIVE"
    if sys.platform == "linux" and os.confstr("CS_GNU_LIBC_VERSION"):
        assert int(environment(1)["MALLOC_TRIM_THRESHOLD_"]) > 1 << 30
