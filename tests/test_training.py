"""Tokenizer, token shards, mixture and trainer processes as `curate run` drives them."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import machine
import pytest

import curate
from curate.errors import CurateError, InputError, RecipeError
from curate.runner import describe
from curate.tokens.order import Plan
from curate.tokens.shard import TokenSource
from curate.tokens.tokenizer import load_tokenizer
from curate.tokens.transformers_files import write_transformers_tokenizer

TRAIN = """\
train:
  preset: demo-1m
  seeds: [0, 1]
  overrides:
    {layers: 1, dim: 32, heads: 2, kv_heads: 1, ffn_dim: 64, context: 64, batch_windows: 4, save_every: 5, eval_every: 20, lr: 0.02}
"""


def run(recipe: Path, folder: Path, **options: Any) -> curate.RunResult:
    arguments: dict[str, Any] = {"output": folder / "run", "cache": folder / "cache", "workers": 2, "quiet": True}
    return curate.run(recipe, **(arguments | options))


def project(folder: Path) -> Path:
    recipe = machine.project(folder, files=2, documents=30)
    recipe.write_text(recipe.read_text() + TRAIN)
    return recipe


def lines(folder: Path, seed: int) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (folder / "run" / "train" / str(seed) / "metrics.jsonl").read_text().splitlines()
    ]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    assert run(project(folder), folder).exit_code == 0
    return folder


def test_tokens_are_the_documents(finished: Path) -> None:
    import pyarrow.parquet as pq

    tokenizer = load_tokenizer(finished / "run" / "tokenizer" / "tokenizer.model")
    for source in ("one", "two"):
        rows = pq.read_table(finished / "run" / "documents" / source).to_pylist()
        for split in ("train", "validation"):
            texts = {row["id"]: row["text"] for row in rows if row["split"] == split}
            tokens = TokenSource.open(finished / "run" / "tokens" / source, split)
            tokens.verify()
            assert {name: tokenizer.decode(run) for name, run in tokens.documents()} == texts
            assert texts


def test_the_order_shows_training_documents_alone(finished: Path) -> None:
    plan = Plan.load(finished / "run" / "mixture.json")
    asked = json.loads((finished / "run" / "mixture.json").read_text())["sources"]
    assert sum(entry["windows_drawn"] for entry in asked.values()) == plan.num_slots
    for slot in range(plan.num_slots):
        source, window = plan.slot(slot)
        tokens = TokenSource.open(finished / "run" / "tokens" / source, "train")
        assert (window + 1) * plan.window < tokens.num_tokens
    assert abs(asked["one"]["weight_realised"] - 2 / 3) < 1 / plan.num_slots


def test_each_seed_learns(finished: Path) -> None:
    for seed in (0, 1):
        entries = lines(finished, seed)
        losses = [entry["loss"] for entry in entries if "loss" in entry]
        assert losses[-1] < losses[0] - 0.5
        validations = [entry["validation"] for entry in entries if "validation" in entry]
        assert set(validations[-1]) == {"one", "two"}
        assert set(validations[-1]["one"]) >= {"loss", "perplexity", "bits_per_byte"}
    assert lines(finished, 0) != lines(finished, 1)
    config = (finished / "run" / "train" / "0" / "config.json").read_text()
    assert str(finished) not in config


def test_each_validation_document_is_recorded_with_its_labels(finished: Path) -> None:
    import pyarrow.parquet as pq

    wanted = {
        (source, row["id"], None, row["language"], len(row["text"].encode()))
        for source in ("one", "two")
        for row in pq.read_table(finished / "run" / "documents" / source).to_pylist()
        if row["split"] == "validation"
    }
    assert {row[3] for row in wanted if row[0] == "one"} == {"en"}  # measured by its recipe
    for seed in (0, 1):
        rows = pq.read_table(finished / "run" / "train" / str(seed) / "validation.parquet").to_pylist()
        assert {tuple(row[name] for name in ("source", "id", "domain", "language", "bytes")) for row in rows} == wanted
    found = json.loads((finished / "run" / "report.json").read_text())["domains"]["sources"]
    last = lines(finished, 1)[-1]["validation"]
    assert {name: one["total"]["bits_per_byte"]["1"] for name, one in found.items()} == pytest.approx(
        {name: one["bits_per_byte"] for name, one in last.items()}, rel=1e-12
    )


def test_a_rerun_trains_nothing(finished: Path) -> None:
    before = machine.contents(finished / "run")
    run(finished / "recipe.yaml", finished)
    timings = json.loads((finished / "run" / "timings.json").read_text())
    assert (timings["phases"]["train"]["tasks_run"], timings["phases"]["train"]["tasks_reused"]) == (0, 2)
    assert machine.contents(finished / "run") == before


def test_killed_in_training_and_run_again(finished: Path, tmp_path: Path) -> None:
    """Kill -9 of the whole run while it trains: the trainers end with it, and a rerun gives the same losses to the last bit."""
    import psutil

    where = ("--output", tmp_path / "run", "--cache", finished / "cache", "--workers", 2)
    process = machine.start("run", finished / "recipe.yaml", *where)
    checkpoints = tmp_path / "run" / "train" / "0" / "checkpoints"
    deadline = time.monotonic() + 120
    while (
        time.monotonic() < deadline
        and process.poll() is None
        and not (checkpoints.exists() and any(checkpoints.iterdir()))
    ):
        time.sleep(0.02)
    trainers = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(trainers, timeout=30)
    assert alive == []
    run(finished / "recipe.yaml", tmp_path, cache=finished / "cache")
    for seed in (0, 1):
        assert lines(tmp_path, seed) == lines(finished, seed)


def test_changed_data_begins_anew(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(finished / "recipe.yaml", tmp_path, cache=finished / "cache")
    run(finished / "recipe.yaml", tmp_path, cache=finished / "cache", sets=["mixture.weights.two=4", "train.seeds=[0]"])
    assert "begun anew" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "run" / "train").iterdir()) == ["0"]
    assert lines(tmp_path, 0) != lines(finished, 0)


def test_training_on_other_data_is_not_shown(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(finished / "recipe.yaml", tmp_path, cache=finished / "cache")
    run(finished / "recipe.yaml", tmp_path, cache=finished / "cache", train=False)
    assert (tmp_path / "run" / "train" / "0").exists()  # the same data: still this recipe's
    run(finished / "recipe.yaml", tmp_path, cache=finished / "cache", train=False, sets=["mixture.weights.two=4"])
    assert not (tmp_path / "run" / "train").exists()
    assert "trained on other data" in capsys.readouterr().err


def test_no_train(finished: Path, tmp_path: Path) -> None:
    result = run(finished / "recipe.yaml", tmp_path, cache=finished / "cache", train=False)
    assert not (tmp_path / "run" / "train").exists()
    assert result.manifest["ledger"]["one"]["kept"]


def test_the_time_limit_is_passed_on(finished: Path, tmp_path: Path) -> None:
    where = ("--output", tmp_path / "run", "--cache", finished / "cache")
    limited = machine.command("run", finished / "recipe.yaml", *where, "--set", "train.overrides.max_minutes=0")
    assert limited.returncode == 85, limited.stderr
    again = run(finished / "recipe.yaml", tmp_path, cache=finished / "cache")
    assert again.exit_code == 0


@pytest.mark.parametrize(
    ("override", "message"),
    [("lrr=1", "lrr: unknown key"), ("lr=-1", "greater than 0"), ("dim=x", "whole number")],
)
def test_trainer_settings_are_refused_before_work(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        run(project(tmp_path), tmp_path, sets=[f"train.overrides.{override}"])
    assert not (tmp_path / "run" / "extracted").exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("steps=60", "recipe.yaml:27: train: overrides.steps: unknown key"),
        ("loggers=[trackio]", ": train: loggers: trackio cannot be imported"),
    ],
)
def test_check_refuses_what_the_trainer_refuses(
    tmp_path: Path, override: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = project(tmp_path)
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "sitecustomize.py").write_text("import sys\nsys.modules['trackio'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "shadow"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RecipeError) as caught:
        curate.check(recipe, sets=[f"train.overrides.{override}"])
    assert message in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_check_needs_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = project(tmp_path)
    monkeypatch.setattr("curate.training.has_torch", lambda: False)
    assert "training needs torch" in describe(curate.check(recipe))
    with pytest.raises(RecipeError, match="lrr: unknown key"):
        curate.check(recipe, sets=["train.overrides.lrr=1"])
    with pytest.raises(CurateError, match="training needs torch"):
        run(recipe, tmp_path)


def test_a_seed_that_the_trainer_cannot_take(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="seeds"):
        curate.check(project(tmp_path), sets=["train.seeds=[0, -1]"])


def test_a_loaded_tokenizer(finished: Path, tmp_path: Path) -> None:
    model = finished / "run" / "tokenizer" / "tokenizer.model"
    run(finished / "recipe.yaml", tmp_path, sets=[f"tokenizer={{load: {model}}}", "train=~"], cache=finished / "cache")
    assert (tmp_path / "run" / "tokenizer" / "tokenizer.model").read_bytes() == model.read_bytes()
    for source in ("one", "two"):
        name = f"tokens/{source}/train-00000.bin"
        assert (tmp_path / "run" / name).read_bytes() == (finished / "run" / name).read_bytes()


def test_a_loaded_tokenizer_json(finished: Path, tmp_path: Path) -> None:
    """The trained tokenizer as transformers has it gives the same shards; the file beside it tells the end mark."""
    model = finished / "run" / "tokenizer" / "tokenizer.model"
    write_transformers_tokenizer(load_tokenizer(model), tmp_path / "hf")
    run(
        finished / "recipe.yaml",
        tmp_path,
        sets=[f"tokenizer={{load: {tmp_path / 'hf'}}}", "train=~"],
        cache=finished / "cache",
    )
    output = tmp_path / "run"
    written = (tmp_path / "hf" / "tokenizer.json").read_bytes()
    assert (output / "tokenizer" / "tokenizer.json").read_bytes() == written
    assert not (output / "tokenizer" / "tokenizer.model").exists()
    for source in ("one", "two"):
        name = f"tokens/{source}/train-00000.bin"
        assert (output / name).read_bytes() == (finished / "run" / name).read_bytes()
        manifest = json.loads((output / "tokens" / source / "manifest.json").read_text())
        assert (manifest["eos_id"], manifest["tokenizer_sha256"]) == (2, hashlib.sha256(written).hexdigest())
    card = json.loads((output / "tokenizer" / "card.json").read_text())
    assert (card["format"], card["lossless"]) == ("tokenizer.json", True)


def test_an_end_mark_that_is_not_there(finished: Path, tmp_path: Path) -> None:  # tok-010
    model = finished / "run" / "tokenizer" / "tokenizer.model"
    with pytest.raises(InputError, match=r"<\|endoftext\|>"):
        run(finished / "recipe.yaml", tmp_path, sets=[f'tokenizer={{load: {model}, eos: "<|endoftext|>"}}'])
    assert not (tmp_path / "run" / "extracted").exists()


def test_a_budget_that_the_caps_do_not_allow(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(CurateError, match="largest feasible budget"):
        run(finished / "recipe.yaml", tmp_path, cache=finished / "cache", sets=["mixture.tokens=1B"])
