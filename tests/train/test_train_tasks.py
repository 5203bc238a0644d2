from __future__ import annotations

import json
import math
import statistics

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.errors import InputError
from curate.tokens.tasks import TASKS, TaskItem, read_tasks
from train import loop, metrics, tasks
from train.config import TrainError, load
from train.scoring import Scored


def item(*, task="quiz", metric="accuracy", name="1", prompts=((5,),), choices=((6,), (7,)), num_bytes=None, gold=0,
         chance=0.5, groups=()):  # fmt: skip
    runs = [tuple(np.array(ids, np.int64) for ids in some) for some in (prompts, choices)]
    prompts = runs[0] if len(runs[0]) == len(choices) else runs[0] * len(choices)
    sizes = tuple(num_bytes or (2,) * len(choices))
    return TaskItem(task, 1, tuple(groups), metric, name, prompts, runs[1], sizes, gold, chance)


def scored(*nats, greedy=False, cut=False):
    return [Scored(value, greedy, cut) for value in nats]


def test_an_item_by_hand():
    # 3 nats for 2 bytes and 4 for 8: the first has fewer, the second fewer per byte.
    found = tasks.outcome(item(num_bytes=(2, 8)), scored(3.0, 4.0, cut=True))
    assert found.credits == {"accuracy": 1.0, "accuracy_bytes": 0.0}
    assert (found.bits_per_byte, found.nats, found.cut) == (pytest.approx(3 / math.log(2) / 2), (3.0, 4.0), True)
    assert tasks.outcome(item(num_bytes=(2, 8), gold=1), scored(3.0, 4.0)).credits == {
        "accuracy": 0.0, "accuracy_bytes": 1.0
    }  # fmt: skip
    # Who cannot tell answers apart must not be right because the gold one comes first.
    assert tasks.outcome(item(choices=((6,), (7,), (8,))), scored(2.0, 2.0, 3.0)).credits["accuracy"] == 0.5
    last_word = item(metric="exact", choices=((6, 7),), chance=0.0)
    assert tasks.outcome(last_word, scored(1.0, greedy=True)).credits == {"exact": 1.0}
    assert tasks.outcome(last_word, scored(1.0)).credits == {"exact": 0.0}


def test_scores_are_centred_on_chance():
    first = [item(name=str(number), metric="accuracy_bytes", chance=0.25, groups=("g",)) for number in range(4)]
    second = [item(name=str(number), task="words", metric="exact", choices=((6,),), chance=0.0) for number in range(2)]
    right, wrong = scored(1.0, 2.0), scored(2.0, 1.0)
    results = [tasks.outcome(one, got) for one, got in zip(first, (right, right, right, wrong), strict=True)]
    results += [tasks.outcome(one, scored(4.0, greedy=number == 0)) for number, one in enumerate(second)]
    found = tasks.scores(first + second, results)
    quiz, words = found["tasks"]["quiz"], found["tasks"]["words"]
    assert (quiz["items"], quiz["accuracy"], quiz["accuracy_bytes"], quiz["chance"]) == (4, 0.75, 0.75, 0.25)
    assert quiz["centred"] == pytest.approx((0.75 - 0.25) / 0.75)
    # Sample variance of 1, 1, 1, 0 is 1/4; its root over the root of 4 items is 1/4; centred it is a third.
    assert quiz["standard_error"] == pytest.approx(1 / 3)
    assert quiz["bits_per_byte"] == pytest.approx((1 + 1 + 1 + 2) / 4 / 2 / math.log(2))
    assert (words["score"], words["exact"], words["centred"], "accuracy" in words) == (0.5, 0.5, 0.5, False)
    assert found["tasks_mean"]["centred"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    errors = (1 / 3, math.sqrt(0.5) / math.sqrt(2))
    assert found["tasks_mean"]["standard_error"] == pytest.approx(math.hypot(*errors) / 2)
    assert found["tasks_groups"] == {
        "g": {"tasks": 1, "centred": quiz["centred"], "standard_error": pytest.approx(1 / 3)}
    }
    alone = tasks.scores(first[:1], results[:1])
    assert (alone["tasks"]["quiz"]["standard_error"], alone["tasks_mean"]["standard_error"]) == (None, None)
    assert "tasks_groups" not in tasks.scores(second, results[4:])


def write(path, items):
    rows = [
        {"task": one.task, "version": one.version, "groups": list(one.groups), "metric": one.metric, "item": one.item,
         "prompts": [ids.tolist() for ids in one.prompts], "choices": [ids.tolist() for ids in one.choices],
         "bytes": list(one.num_bytes), "gold": one.gold, "chance": one.chance}
        for one in items
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, TASKS), path)


def test_items_are_read_back(tmp_path):
    given = [item(groups=("a", "b")), item(prompts=((5,), (8, 9)), name="2", gold=1)]
    write(tmp_path / "t.parquet", given)
    found = read_tasks(tmp_path / "t.parquet", 60)
    for one, other in zip(found, given, strict=True):
        assert (one.item, one.groups, one.gold, one.num_bytes) == (other.item, other.groups, other.gold, (2, 2))
        assert [ids.tolist() for ids in one.prompts] == [ids.tolist() for ids in other.prompts]
        assert [ids.tolist() for ids in one.choices] == [ids.tolist() for ids in other.choices]
    table = pq.read_table(tmp_path / "t.parquet").to_pylist()
    pq.write_table(pa.Table.from_pylist([{**table[0], "prompts": [[5]]}], TASKS), tmp_path / "t.parquet")
    assert [ids.tolist() for ids in read_tasks(tmp_path / "t.parquet", 60)[0].prompts] == [[5], [5]]  # one for both


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (item(choices=((6,), ())), "row 2 has a choice without tokens or bytes"),
        (item(num_bytes=(1, 0)), "row 2 has a choice without tokens or bytes"),
        (item(gold=2), "row 2 has 2 choices, and the gold one is 2"),
        (item(metric="exact"), "row 2 has 2 choices and the metric 'exact'"),
        (item(choices=((6,),)), "row 2 has 1 choices and the metric 'accuracy'"),
        (item(chance=1.0), "row 2 has a chance of 1.0"),
        (item(prompts=((60,),)), "row 2: id 60 is outside the vocabulary of 60"),
        (item(choices=((6,), (-1,))), "row 2: id -1 is outside"),
    ],
)
def test_damaged_items_are_named(tmp_path, row, message):
    write(tmp_path / "t.parquet", [item(), row])
    with pytest.raises(InputError, match=message):
        read_tasks(tmp_path / "t.parquet", 60)


def test_what_holds_no_items_is_refused(tmp_path):
    write(tmp_path / "t.parquet", [])
    with pytest.raises(InputError, match="holds no task item"):
        read_tasks(tmp_path / "t.parquet", 60)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="is no file of task items"):
        read_tasks(tmp_path / "t.parquet", 60)


def test_a_run_measures_tasks(make_folder):
    folder = make_folder(steps=3)
    given = [item(name=str(number), prompts=((5, 6 + number),), choices=((7, 8), (9,), (10, 11)), num_bytes=(3, 2, 5),
                  gold=number % 3, chance=1 / 3) for number in range(5)]  # fmt: skip
    given.append(item(task="words", metric="exact", prompts=(tuple(range(10, 30)),), choices=((6, 7),), num_bytes=(4,),
                      chance=0.0))  # fmt: skip
    write(folder.root / "t.parquet", given)
    plain, config, stopped = (folder.config(name, eval_every=2, tasks_every=2) for name in ("plain", "a", "b"))
    for path in (config, stopped):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"tasks": "../../t.parquet"}))
    assert loop.run(load(plain)) == loop.run(load(config)) == 0
    lines = [json.loads(line) for line in (config.parent / "metrics.jsonl").read_text().splitlines()]
    measured = [line for line in lines if "tasks" in line]
    assert [(line["step"], set(line)) for line in measured] == [
        (2, {"step", "tasks", "tasks_mean"}),
        (3, {*measured[0]}),
    ]
    # Everything else is as it is without them.
    assert [line for line in lines if "tasks" not in line] == [
        json.loads(line) for line in (plain.parent / "metrics.jsonl").read_text().splitlines()
    ]
    assert metrics.read(config.parent / "metrics.jsonl") == metrics.read(plain.parent / "metrics.jsonl")
    assert not (plain.parent / "task_items.parquet").exists()
    summary = json.loads((config.parent / "summary.json").read_text())
    assert {"tasks": summary["tasks"], "tasks_mean": summary["tasks_mean"], "step": 3} == measured[-1]
    assert (summary["tasks"]["quiz"]["cut"], summary["tasks"]["words"]["cut"]) == (0, 1)  # 22 tokens in a context of 8
    rows = pq.read_table(config.parent / "task_items.parquet").to_pylist()
    assert [(row["task"], row["item"]) for row in rows] == [(one.task, one.item) for one in given]
    for row in rows[:5]:
        best = min(range(3), key=row["nats"].__getitem__)
        assert row["accuracy"] == row["score"] == (best == row["gold"])
        assert row["bits_per_byte"] == pytest.approx(row["nats"][row["gold"]] / math.log(2) / row["bytes"][row["gold"]])
    assert summary["tasks"]["quiz"]["score"] == statistics.fmean(row["accuracy"] for row in rows[:5])
    # A run that is stopped and goes on says the same.
    changed = json.loads(stopped.read_text())
    stopped.write_text(json.dumps(changed | {"overrides": changed["overrides"] | {"max_minutes": 0}}))
    while loop.run(load(stopped)):
        pass
    for name in ("metrics.jsonl", "task_items.parquet"):
        assert (stopped.parent / name).read_bytes() == (config.parent / name).read_bytes()
    # Other items are other data.
    write(folder.root / "t.parquet", given[:2])
    with pytest.raises(TrainError, match=r"the data has changed since: t\.parquet"):
        loop.run(load(config))


def test_a_choice_that_does_not_fit_the_context_is_refused(make_folder):
    folder = make_folder(steps=2)
    write(folder.root / "t.parquet", [item(choices=((5,), tuple(range(10, 19))))])
    path = folder.config("a")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tasks": "../../t.parquet"}))
    with pytest.raises(TrainError, match="a choice of item 1 of quiz has 9 tokens, the context 8"):
        loop.run(load(path))
