from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import ttest_ind
from token_folder import EOS

from curate.errors import InputError
from curate.tokens.answers import ANSWERS, Answer, read_answers
from train import answers, loop, metrics, scoring
from train.config import PRESETS, TrainError, load
from train.model import Decoder

SETTINGS = dataclasses.replace(PRESETS["demo-1m"], layers=1, dim=16, heads=2, kv_heads=1, ffn_dim=24, context=8)


def gold(prompt, answer, *, num_bytes=3, item="1", group="leaked", benchmark="quiz"):
    return Answer(benchmark, item, group, np.array(prompt, np.int64), np.array(answer, np.int64), num_bytes)


GIVEN = (
    gold([5, 6], [7]),
    gold([], [9, 10, 11], item="2", group="clean"),
    gold([12, 13, 14, 15, 16, 17, 18, 19, 20], [21, 22], item="3"),
)


def model(seed=1):
    decoder = Decoder(SETTINGS, 64)
    decoder.initialize(seed)
    return decoder


def nats_of(decoder, given, batch_size=4, whole=False):
    def score(rows):
        return scoring.score(
            decoder, decoder.head_weight, rows, batch_size=batch_size, context=8, eos_id=EOS, whole_batches=whole,
            autocast=torch.autocast("cpu", enabled=False),
        )  # fmt: skip

    return answers.answer_nats(given, score)


def test_a_uniform_model_needs_six_bits_for_each_of_64_tokens():
    decoder = model()
    torch.nn.init.zeros_(decoder.embedding.weight)  # tied: all logits are 0
    bits = answers.bits_per_byte(GIVEN, nats_of(decoder, GIVEN))
    assert bits == pytest.approx([6 * 1 / 3, 6 * 3 / 3, 6 * 2 / 3])


@pytest.mark.parametrize(("batch_size", "whole"), [(1, False), (2, True), (4, True), (4, False)])
def test_each_answer_is_scored_token_by_token(batch_size, whole):
    decoder = model()
    found = nats_of(decoder, GIVEN, batch_size, whole)
    for one, value in zip(GIVEN, found, strict=True):
        seen, expected = [EOS, *one.prompt.tolist()], 0.0
        room = 8 + 1 - one.answer.size
        seen = seen[-room:]
        for target in one.answer.tolist():
            with torch.no_grad():
                expected -= torch.log_softmax(decoder.logits(torch.tensor([seen]))[0, -1], -1)[target].item()
            seen.append(target)
        assert value == pytest.approx(expected, rel=1e-5)


def test_a_diverged_model_is_named():
    decoder = model()
    torch.nn.init.constant_(decoder.embedding.weight, math.inf)
    with pytest.raises(TrainError, match=r"the loss of item \d of quiz is nan"):
        nats_of(decoder, GIVEN)


def test_the_difference_is_welchs():
    # Means 2 and 5; variances 1 and 20/3 over 3 and 4 items: standard error sqrt(1/3 + 5/3) = sqrt 2.
    found = answers.difference([1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0])
    assert found["bits_per_byte"] == -3
    expected = ttest_ind([1, 2, 3], [2, 4, 6, 8], equal_var=False).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    # 4 / ((1/3)^2 / 2 + (5/3)^2 / 3) = 4.075 degrees of freedom, whose 97.5% point lies between those of 4 and 5
    assert 2.571 * math.sqrt(2) < found["high"] + 3 < 2.776 * math.sqrt(2)
    alone = answers.difference([1.0], [2.0, 3.0])
    assert (alone["bits_per_byte"], alone["low"], alone["high"]) == (-1.5, None, None)
    assert answers.difference([1.0, 1.0], [2.0, 2.0])["high"] == -1


def test_a_summary_by_group_and_benchmark():
    given = [
        gold([], [5], item=str(number), group=group, benchmark=benchmark)
        for number, (group, benchmark) in enumerate(
            [("leaked", "a"), ("leaked", "a"), ("clean", "a"), ("clean", "b"), ("leaked", "b")]
        )
    ]
    found = answers.summary(given, [1.0, 2.0, 3.0, 5.0, 3.0])
    assert found["groups"] == {"leaked": {"items": 3, "bits_per_byte": 2}, "clean": {"items": 2, "bits_per_byte": 4}}
    assert (found["difference"]["of"], found["difference"]["bits_per_byte"]) == (["leaked", "clean"], -2)
    assert {name: one["bits_per_byte"] for name, one in found["benchmarks"].items()} == {"a": -1.5, "b": -2}
    assert set(answers.summary(given[:2], [1.0, 2.0])) == {"groups"}


def write(path, given):
    rows = [
        {"benchmark": one.benchmark, "item": one.item, "group": one.group, "prompt": one.prompt.tolist(),
         "answer": one.answer.tolist(), "bytes": one.num_bytes}
        for one in given
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, ANSWERS), path)


def test_answers_are_read_back(tmp_path):
    write(tmp_path / "answers.parquet", GIVEN)
    found = read_answers(tmp_path / "answers.parquet", 60)
    for one, other in zip(found, GIVEN, strict=True):
        assert (one.benchmark, one.item, one.group, one.num_bytes) == (other.benchmark, other.item, other.group, 3)
        assert one.prompt.tolist() == other.prompt.tolist()
        assert one.answer.tolist() == other.answer.tolist()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (gold([5], []), "row 2 has no answer"),
        (gold([5], [6], num_bytes=0), "row 2 has no answer"),
        (gold([60], [6]), "row 2: id 60 is outside the vocabulary of 60"),
        (gold([5], [-1]), "row 2: id -1 is outside"),
    ],
)
def test_damaged_answers_are_named(tmp_path, row, message):
    write(tmp_path / "answers.parquet", [GIVEN[0], row])
    with pytest.raises(InputError, match=message):
        read_answers(tmp_path / "answers.parquet", 60)


def test_what_holds_no_answers_is_refused(tmp_path):
    with pytest.raises(InputError, match="is no file of gold answers"):
        read_answers(tmp_path / "none.parquet", 60)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="is no file of gold answers"):
        read_answers(tmp_path / "a.parquet", 60)


def test_a_run_measures_them_with_the_validation_sets(make_folder):
    folder = make_folder(steps=3)
    write(folder.root / "answers.parquet", GIVEN)
    plain, config, stopped = (folder.config(name, eval_every=2) for name in ("plain", "a", "b"))
    for path in (config, stopped):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"answers": "../../answers.parquet"}))
    assert loop.run(load(plain)) == loop.run(load(config)) == 0
    lines = [json.loads(line) for line in (config.parent / "metrics.jsonl").read_text().splitlines()]
    measured = [line for line in lines if "answers" in line]
    assert [line["step"] for line in measured] == [0, 2, 3]
    assert all(set(line) == {"step", "answers"} for line in measured)
    # Everything else is as it is without them.
    assert [line for line in lines if "answers" not in line] == [
        json.loads(line) for line in (plain.parent / "metrics.jsonl").read_text().splitlines()
    ]
    assert metrics.read(config.parent / "metrics.jsonl") == metrics.read(plain.parent / "metrics.jsonl")
    summary = json.loads((config.parent / "summary.json").read_text())
    assert summary["answers"]["groups"] == measured[-1]["answers"]
    records = json.loads((config.parent / "answers.json").read_text())
    assert [record["item"] for record in records] == ["1", "2", "3"]
    means = [(records[0]["bits_per_byte"] + records[2]["bits_per_byte"]) / 2, records[1]["bits_per_byte"]]
    assert [one["bits_per_byte"] for one in measured[-1]["answers"].values()] == pytest.approx(means)
    assert summary["answers"]["difference"]["bits_per_byte"] == pytest.approx(means[0] - means[1])
    # A run that is stopped and goes on says the same.
    changed = json.loads(stopped.read_text())
    stopped.write_text(json.dumps(changed | {"overrides": changed["overrides"] | {"max_minutes": 0}}))
    while loop.run(load(stopped)):
        pass
    for name in ("metrics.jsonl", "answers.json"):
        assert (stopped.parent / name).read_bytes() == (config.parent / name).read_bytes()
    # Other answers are other data.
    write(folder.root / "answers.parquet", GIVEN[:2])
    with pytest.raises(TrainError, match=r"the data has changed since: answers\.parquet"):
        loop.run(load(config))


def test_an_answer_that_does_not_fit_the_context_is_refused(make_folder):
    folder = make_folder(steps=2)
    write(folder.root / "answers.parquet", [gold([5], list(range(10, 19)))])
    path = folder.config("a")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"answers": "../../answers.parquet"}))
    with pytest.raises(TrainError, match="the answer of item 1 of quiz has 9 tokens, the context 8"):
        loop.run(load(path))
