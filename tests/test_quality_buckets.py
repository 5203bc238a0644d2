"""Scores to rank buckets: by hand, at ties, over several scores, as a rule and beside `where`, the same however it is run."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.errors import RecipeError
from curate.loading import load
from curate.phases.rank import buckets_of
from curate.what_if import what_if

STEPS = """[{language: {keep: [en], min_score: off}},
      {gopher_quality: {min_words: 1, min_stop_words: off}},
      {quality_buckets: {scores: [num_words, mean_word_length], buckets: 4, min_bucket: 1}},
      {where: "quality_bucket <> 2 or num_words > 50"}]"""


def project(folder: Path, steps: str = STEPS) -> Path:
    for number in range(3):
        rows = [
            {"id": f"{number}-{row}", "text": machine.prose(100 * number + row, 1 + (number * 40 + row) % 7)}
            for row in range(40)
        ]
        rows[3]["text"] = (
            "O guardião da eclusa anotou o pedágio em um livro verde antes do meio-dia, como sempre fazia."
        )
        machine.write_jsonl(folder / "in" / f"{number}.jsonl", rows)
    path = folder / "recipe.yaml"
    path.write_text(f"name: b\nsources:\n  one:\n    read: {{kind: jsonl, paths: in/*.jsonl}}\n    steps: {steps}\n")
    return path


def rows_of(run: Path, *folders: str) -> list[dict[str, Any]]:
    return [row for path in sorted(run.joinpath(*folders).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def by_rank(values: list[float], among: list[float], buckets: int) -> list[int]:
    """The definition: floor(buckets * documents that score lower / documents)."""
    return [buckets * sum(other < value for other in among) // len(among) for value in values]


def test_a_bucket_is_the_highest_of_its_scores():
    columns = {
        "a": pa.chunked_array([[0.1, 0.2, 0.3, None, None]], pa.float64()),
        "b": pa.chunked_array([[9, 5, 1, 5, None]], pa.int64()),
    }
    # a: below .2 bucket 0, from .2 on 1, from .3 on 2, none reaches 3; b: from 5 on 1, from 9 on 3 (2 is skipped: a tie)
    found = buckets_of(columns, {"a": [0.2, 0.3, None], "b": [5.0, 9.0, 9.0]})
    assert found.to_pylist() == [3, 1, 2, 1, None]


def test_buckets_in_a_run_follow_the_definition(tmp_path):
    result = machine.run(project(tmp_path), tmp_path, until="collect")
    run = tmp_path / "run"
    numbers = {row["id"]: row for row in rows_of(run, "measurements", "one", "gopher_quality")}
    languages = {row["id"]: row["language"] for row in rows_of(run, "measurements", "one", "language")}
    decisions = {row["id"]: row for row in rows_of(run, "decisions", "one")}
    early = [
        name
        for name, row in decisions.items()
        if not row["kept"] and row["rule"].partition(".")[0] in ("language", "gopher_quality")
    ]
    counted = [name for name in numbers if name not in early]
    assert early
    assert len(counted) > 20
    names = list(numbers)
    expected = dict.fromkeys(names, 0)
    for column in ("num_words", "mean_word_length"):
        found = by_rank([numbers[name][column] for name in names], [numbers[name][column] for name in counted], 4)
        # A document that is not counted may score above all: it is in the last bucket, as its neighbour is.
        expected = {name: max(expected[name], min(bucket, 3)) for name, bucket in zip(names, found, strict=True)}
    measured = {row["id"]: row["quality_bucket"] for row in rows_of(run, "measurements", "one", "quality_buckets")}
    assert measured == expected
    assert list(measured) == names
    assert result.manifest["rankings"]["one"]["quality_buckets"]["num_words"]["documents"] == len(counted)
    for name, row in decisions.items():
        fires = [row["rule"], *row["also_fired"]] if not row["kept"] else []
        assert ("quality_buckets.min_bucket" in fires) == (measured[name] < 1)
        assert ("where.expression" in fires) == (measured[name] == 2 and numbers[name]["num_words"] <= 50)
    assert languages


def test_ties_share_a_bucket_and_twenty_are_filled(tmp_path):
    chance = random.Random(3)
    rows = [{"id": str(row), "text": "word " * chance.randint(1, 400)} for row in range(1000)]
    machine.write_jsonl(tmp_path / "in" / "0.jsonl", rows)
    path = project(
        tmp_path,
        "[{gopher_quality: {min_words: off, max_words: off, "
        "mean_word_length: off, max_hash_ratio: off, min_alpha_word_fraction: off, min_stop_words: off}}, "
        "{quality_buckets: {scores: num_words}}]",
    )
    for number in (1, 2):
        (tmp_path / "in" / f"{number}.jsonl").unlink()
    machine.write_jsonl(tmp_path / "in" / "0.jsonl", rows)
    machine.run(path, tmp_path, until="collect")
    found = rows_of(tmp_path / "run", "measurements", "one", "quality_buckets")
    words = [row["num_words"] for row in rows_of(tmp_path / "run", "measurements", "one", "gopher_quality")]
    assert [row["quality_bucket"] for row in found] == by_rank(words, words, 20)
    sizes = np.bincount([row["quality_bucket"] for row in found], minlength=20)
    assert len(sizes) == 20
    assert sizes.min() >= 40
    assert sizes.max() <= 60


def test_the_same_whatever_the_workers_and_the_memory(tmp_path):
    path = project(tmp_path)
    machine.run(path, tmp_path, until="collect", workers=1)
    machine.run(
        path, tmp_path, until="collect", workers=2, memory="300K", output=tmp_path / "other", cache=tmp_path / "cache-2"
    )
    assert machine.contents(tmp_path / "run") == machine.contents(tmp_path / "other")


def test_a_share_of_buckets_and_what_if(tmp_path):
    path = project(tmp_path, STEPS.replace("min_bucket: 1", "min_bucket: {keep: 0.5}"))
    result = machine.run(path, tmp_path, until="collect")
    bound = result.manifest["resolved_bounds"]["one"]["quality_buckets.min_bucket"]["at_least"]
    assert bound["bound"] in (1.0, 2.0, 3.0)
    answer = what_if(tmp_path / "run", sets=["sources.one.steps.quality_buckets.min_bucket=3"])
    rows = rows_of(tmp_path / "run", "measurements", "one", "quality_buckets")
    found = [rule for rule in answer["sources"]["one"]["rules"] if "min_bucket" in str(rule)]
    assert found
    assert sum(row["quality_bucket"] < 3 for row in rows) > 0


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("[{quality_buckets: {scores: num_words}}]", "'num_words' is measured by no step before it"),
        ("[{language: {}}, {quality_buckets: {scores: [language]}}]", "'language' holds no numbers"),
        ("[{language: {}}, {quality_buckets: {scores: language_scor}}]", "language_score"),
        ("[{language: {}}, {quality_buckets: {scores: language_score, buckets: 1}}]", "buckets"),
        ("[{language: {}}, {quality_buckets: {scores: []}}]", "scores"),
        ("[{language: {}}, {quality_buckets: {scores: language_score, at: collect}}]", "leave `at` out"),
    ],
)
def test_buckets_that_cannot_be_are_refused(tmp_path, steps, message):
    with pytest.raises(RecipeError, match=message):
        load(project(tmp_path, steps))


SHARES = STEPS.replace("min_words: 1", "min_words: {quantile: 0.1}").replace("min_bucket: 1", "min_bucket: {keep: 0.6}")


def test_the_same_however_documents_are_spread_over_shards(tmp_path, monkeypatch):
    path = project(tmp_path, SHARES)
    one = machine.run(path, tmp_path, until="collect")
    monkeypatch.setattr("curate.curation.SHARD_FILES", 1)
    many = machine.run(path, tmp_path, until="collect", output=tmp_path / "many", cache=tmp_path / "cache-2")
    assert len(list((tmp_path / "many" / "decisions" / "one").glob("*.parquet"))) == 3
    assert len(list((tmp_path / "run" / "decisions" / "one").glob("*.parquet"))) == 1
    for fact in ("rankings", "resolved_bounds", "ledger"):
        assert one.manifest[fact] == many.manifest[fact]
    for folder in (("measurements", "one", "quality_buckets"), ("decisions", "one")):
        assert rows_of(tmp_path / "run", *folder) == rows_of(tmp_path / "many", *folder)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """Return a recipe with shares and buckets, and the contents of its run folder after an undisturbed run."""
    folder = tmp_path_factory.mktemp("finished")
    path = project(folder, SHARES)
    machine.run(path, folder, until="collect", workers=1)
    return path, machine.contents(folder / "run")


@pytest.mark.parametrize(
    "number", [4, 6, 8, *(pytest.param(number, marks=pytest.mark.slow) for number in (5, 7))]
)  # behind extract and two measures: bounds, edges, ranks, bounds, decide
def test_killed_while_bounds_are_resolved(tmp_path, finished, number):
    path, expected = finished
    workers = 1 + number % 2
    where = ("--output", tmp_path / "run", "--cache", tmp_path / "cache", "--workers", workers, "--until", "collect")
    environment = {
        "PYTHONPATH": os.pathsep.join((str(machine.ROOT / "tests" / "crash"), str(machine.ROOT))),
        "CURATE_TEST_KILL": f"before_write:{number}:{tmp_path / 'count'}",
    }
    killed = machine.command("run", path, *where, environment=environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = machine.command("run", path, *where)
    assert again.returncode == 0, again.stderr
    assert machine.contents(tmp_path / "run") == expected
