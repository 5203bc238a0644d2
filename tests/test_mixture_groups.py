"""A source divided by a label in the mixture: every document in its group's stream, drawn by the group's weight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import machine
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from curate.errors import RecipeError
from curate.groups import ByLabel, group_finder
from curate.loading import load
from curate.mix.settings import Mixture, MixtureStage
from curate.mix.weights import sample_weights, stage_weights
from curate.report.trace import trace
from curate.tokens.order import Plan
from curate.tokens.shard import TokenSource

GROUPS = """{by: quality_bucket, groups: {high: {of: 15-19, weight: 3}, middle: {of: [5-14], weight: 1}}}"""


def project(folder: Path, groups: str = GROUPS, *, more: str = "") -> Path:
    for source, first in (("web", 0), ("books", 5000)):
        for number in range(3):
            rows = [
                {
                    "id": f"{source}{number}-{row}",
                    "text": machine.prose(first + 100 * number + row, 2 + (number * 40 + row) % 9),
                }
                for row in range(60)
            ]
            machine.write_jsonl(folder / "in" / source / f"{number}.jsonl", rows)
    path = folder / "recipe.yaml"
    path.write_text(
        f"""name: groups
seed: 4
sources:
  web:
    read: {{kind: jsonl, paths: in/web/*.jsonl}}
    steps:
      - language: {{keep: [en], min_score: off}}
      - gopher_quality: {{min_words: 30, min_stop_words: off}}
      - quality_buckets: {{scores: num_words}}
  books:
    read: {{kind: jsonl, paths: in/books/*.jsonl}}
tokenizer: {{train: {{kind: sentencepiece, vocab_size: 400}}}}
validation: {{tokens: 300, min_documents: 3}}
mixture: {{weights: {{web: {groups}, books: 1}}, tokens: 4k, window: 64, max_epochs: {{web: 3, books: 4{more}}}}}
"""
    )
    return path


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


# -- settings ----------------------------------------------------------------------------------------------------------


def weights(mixture: Mixture, windows: dict[str, int], stage: int = 0, budget: int = 100) -> dict[str, Any]:
    """Return the weight of each stream."""
    stages = mixture.stages or (MixtureStage(),)
    return stage_weights(mixture, stages[stage], windows, dict.fromkeys(windows), budget)


def by_label(**groups: Any) -> ByLabel:
    return ByLabel(by="x", groups=groups)


def placed(one: ByLabel, *values: object) -> list[str]:
    (axis,) = one.axes()
    names, group_of = list(axis.labels), group_finder(list(axis.labels.values()))
    return [names[group_of(value)] for value in values]


def test_labels_of_groups():
    one = by_label(high={"of": "17-19", "weight": 2}, low={"of": (1, "3-4", "x"), "weight": 0.5}, news={"weight": 1})
    assert list(one.axes()[0].labels) == ["high", "low", "news", "rest"]
    assert placed(one, 17, 18, 19, "18", 16, 20) == ["high", "high", "high", "high", "rest", "rest"]
    assert placed(one, 1, 2, 3, 4, 5, "x", "news", None, "018") == [
        "low",
        "rest",
        *["low"] * 2,
        "rest",
        "low",
        "news",
        *["rest"] * 2,
    ]
    assert one.stated() == ({"high": 2, "low": 0.5, "news": 1, "rest": 0},)
    assert placed(by_label(yes={"of": True, "weight": 1}), True, False, 1, "true") == ["yes", "rest", "rest", "yes"]
    assert by_label(a={"weight": 1}, rest={"weight": 3}).stated() == ({"a": 1, "rest": 3},)


def test_a_range_without_an_end():
    one = by_label(few={"of": [0, "2-99"], "weight": 1}, many={"of": "100-", "weight": 1})
    assert placed(one, 0, 1, 2, 99, 100, 10**17, "100-", None) == [
        "few",
        "rest",
        "few",
        "few",
        "many",
        "many",
        "many",
        "rest",
    ]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a": {"of": "1-3", "weight": 1}, "b": {"of": "3", "weight": 1}}, "3 stands in two groups"),
        ({"a": {"of": "10-", "weight": 1}, "b": {"of": "5-12", "weight": 1}}, "10-12 stands in two groups"),
        ({"a": {"of": "10-", "weight": 1}, "b": {"of": "20-", "weight": 1}}, "20- stands in two groups"),
        ({"a": {"of": ["x", 7], "weight": 1}, "b": {"of": [7, "x"], "weight": 1}}, "7, x stands in two groups"),
        ({"a": {"of": "9-3", "weight": 1}}, "write the lower number first"),
        ({"a/b": {"weight": 1}}, "is no name of a group"),
        ({"rest": {"of": "1", "weight": 1}}, "leave `of` out"),
        ({"a": {"weight": -1}}, "at least 0"),
        ({"a": {"of": 1.5, "weight": 1}}, "is no label"),
        ({}, "at least 1"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups, message):
    with pytest.raises(ValidationError, match=message):
        by_label(**groups)


def test_streams_weights_and_caps():
    groups = {"by": "x", "groups": {"high": {"weight": 2}, "low": {"weight": 1}}}
    mixture = Mixture(weights={"web": groups, "books": 3}, tokens=1000, max_epochs={"web": 2.0, "web/high": 5.0})
    assert list(mixture.streams(["web", "books"])) == ["web/high", "web/low", "web/rest", "books"]
    assert weights(mixture, {"web/high": 10, "web/low": 90, "web/rest": 50, "books": 1}) == {
        "web/high": 2,
        "web/low": 1,
        "web/rest": 0,
        "books": 3,
    }
    assert sample_weights(mixture, {"web": 100, "books": 1}) == {"web": 3.0, "books": 3.0}
    assert [mixture.cap(name) for name in ("web/high", "web/low", "books")] == [5.0, 2.0, None]
    others = Mixture(weights={"web": groups, "books": 3}, tokens=1000, max_epochs={"web": 2.0, "*": 7.0})
    assert [others.cap(name) for name in ("web/high", "books")] == [2.0, 7.0]
    with pytest.raises(ValidationError, match="all weights are 0"):
        Mixture(weights={"web": {"by": "x", "groups": {"high": {"weight": 0}}}}, tokens=1000)


# -- in a run ----------------------------------------------------------------------------------------------------------


def test_every_document_is_in_its_groups_stream_and_weights_are_realised(tmp_path):
    path = project(tmp_path)
    machine.run(path, tmp_path, until="report")
    run = tmp_path / "run"
    buckets = {row["id"]: row["quality_bucket"] for row in rows_of(run / "measurements" / "web" / "quality_buckets")}
    kept = {row["id"]: row for row in rows_of(run / "documents" / "web")}
    assert len(kept) > 100
    streams = {name: [] for name in ("high", "middle", "rest")}
    for name, ids in streams.items():
        for split in ("train", "validation"):
            source = TokenSource.open(run / "tokens" / "web" / name, split)
            source.verify()
            found = rows = [
                row["id"]
                for shard in source.shards
                for row in pq.read_table(run / "tokens" / "web" / name / f"{shard.name}.docs.parquet").to_pylist()
            ]
            assert all(kept[id]["split"] == split for id in rows)
            ids += found
    assert sorted(id for ids in streams.values() for id in ids) == sorted(kept)
    for name, low, high in (("high", 15, 19), ("middle", 5, 14), ("rest", 0, 4)):
        assert streams[name]
        assert all(low <= buckets[id] <= high for id in streams[name])
    mixture = json.loads((run / "mixture.json").read_text())["sources"]
    assert set(mixture) == {"books", "web/high", "web/middle", "web/rest"}
    assert mixture["web/rest"]["tokens_drawn"] == 0
    assert mixture["web/high"]["weight_normalised"] == 0.6
    realised = (
        mixture["web/high"]["windows_drawn"],
        mixture["web/middle"]["windows_drawn"],
        mixture["books"]["windows_drawn"],
    )
    assert realised == (37, 12, 13)  # 62 windows of 64: 37.2, 12.4 and 12.4, largest remainders, the first name
    report = json.loads((run / "report.json").read_text())
    assert set(report["tokens"]) == {"books", "web/high", "web/middle", "web/rest"}
    place = next(name for name in streams["high"] if kept[name]["split"] == "train")
    told = trace(run, place)
    assert told.tokens is not None
    assert told.tokens.stream == "web/high"
    plan = Plan.load(run / "mixture.json")
    for visit in told.visits:
        assert plan.slot(visit.slot) == ("web/high", visit.window)


def test_another_weighting_touches_no_tokens_and_another_grouping_encodes_nothing(tmp_path):
    path = project(tmp_path)
    machine.run(path, tmp_path, until="mix")
    path.write_text(path.read_text().replace("weight: 3", "weight: 2.5").replace("weight: 1}", "weight: 1.5}"))
    machine.run(path, tmp_path, until="mix")
    tasks = json.loads((tmp_path / "run" / "timings.json").read_text())["phases"]
    assert tasks["arrange"]["tasks_run"] == 0
    path.write_text(path.read_text().replace("15-19", "18-19").replace("[5-14]", "5-17"))
    machine.run(path, tmp_path, until="mix")
    tasks = json.loads((tmp_path / "run" / "timings.json").read_text())["phases"]
    assert tasks["encode"]["tasks_run"] == 0
    assert tasks["arrange"]["tasks_run"] > 0


@pytest.mark.slow
def test_the_streams_are_the_same_whatever_the_workers_and_the_memory(tmp_path):
    path = project(tmp_path)
    axis = "multiply: [{by: language, factors: {en: 2}, sources: [web]}]"  # beside the quality buckets
    path.write_text(path.read_text().replace("mixture: {", f"mixture: {{{axis}, "))
    machine.run(path, tmp_path, until="mix", workers=1)
    machine.run(
        path, tmp_path, until="mix", workers=2, memory="300K", output=tmp_path / "other", cache=tmp_path / "cache-2"
    )
    assert machine.contents(tmp_path / "run") == machine.contents(tmp_path / "other")
    cells = {folder.name for folder in (tmp_path / "run" / "tokens" / "web").iterdir()}
    assert cells == {f"{bucket}+{language}" for bucket in ("high", "middle", "rest") for language in ("en", "rest")}


def test_a_language_is_an_axis_as_well(tmp_path):
    groups = "{by: language, groups: {en: {weight: 1}, rest: {weight: 0.2}}}"
    machine.run(project(tmp_path, groups), tmp_path, until="mix")
    sizes = {
        name: sum(
            shard["documents"]
            for shard in json.loads((tmp_path / "run" / "tokens" / "web" / name / "manifest.json").read_text())[
                "shards"
            ]
        )
        for name in ("en", "rest")
    }
    languages = {row["id"]: row["language"] for row in rows_of(tmp_path / "run" / "measurements" / "web" / "language")}
    kept = [row["id"] for row in rows_of(tmp_path / "run" / "documents" / "web")]
    assert sizes["en"] == sum(languages[id] == "en" for id in kept)
    assert sizes["en"] + sizes["rest"] == len(kept)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("{by: topic, groups: {a: {weight: 1}}}", "'topic' is measured by no step of this source"),
        ("{by: language_score, groups: {a: {weight: 1}}}", "'language_score' is no label"),
        ("{by: quality_bucket, groups: {high: {of: 9-3, weight: 1}}}", "write the lower number first"),
        ("{by: quality_bucket, group: {}}", "group"),
    ],
)
def test_axes_that_cannot_be_are_refused(tmp_path, groups, message):
    with pytest.raises(RecipeError, match=message):
        load(project(tmp_path, groups))
    with pytest.raises(RecipeError, match="'web/higher' is no source"):
        load(project(tmp_path, more=', "web/higher": 2'))
    assert load(project(tmp_path, more=', "web/high": 2')).mixture is not None


def test_the_resolved_recipe_loads_back(tmp_path):
    recipe = load(project(tmp_path))
    (tmp_path / "again.yaml").write_text(recipe.as_yaml())
    assert load(tmp_path / "again.yaml") == recipe
    assert recipe.mixture is not None
    assert list(recipe.mixture.streams(recipe.names())) == ["web/high", "web/middle", "web/rest", "books"]
