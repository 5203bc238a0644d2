"""Decontamination by whole runs: drop, cut and flag, and the same bytes after a kill and with any number of workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import machine
import pyarrow.parquet as pq
import pytest

QUESTION = (
    "A toll clerk receives nine copper coins for each loaded barge and four for each empty one; if thirty barges pass "
    "in a day and the clerk collects two hundred and ten coins, how many of the barges were loaded?"
)  # 40 words
NOTICE = "Permission to copy this register is granted to any member of the lodge provided that this notice stays in it."
BENCHMARK = [
    {"id": "toll", "question": QUESTION, "answer": "eighteen"},
    {"id": "notice", "question": NOTICE},
    {
        "id": "clean",
        "question": "Which of the seven lighthouses on the western shore was built before the great storm?",
    },
    {"id": "short", "question": "How many?", "answer": "four"},
]
RECIPE = """\
name: leaks
sources:
  a:
    read: {kind: jsonl, paths: "a/*.jsonl"}
dedup: {exact: {}, minhash: {verify: 0.7}}
decontaminate: {benchmarks: [exam.jsonl], max_clusters: 3, margin: 2}
"""
HALF = " ".join(QUESTION.split()[:20])


def documents() -> dict[str, str]:
    """Return texts by name; those of prose alone are clean."""
    prose = {f"clean{number}": machine.prose(number, 6) for number in range(24)}
    leaks = {
        "leak": f"{machine.prose(100, 3)}\n\n> {QUESTION.upper()}\n\n{machine.prose(101, 3)}",
        "half": f"{machine.prose(102, 3)} {HALF} {machine.prose(103, 3)}",
        "nothing else": QUESTION,
        "answer": f"{machine.prose(104, 3)} eighteen {machine.prose(105, 3)}",
    }
    notices = {f"notice{number}": f"{machine.prose(200 + number, 6)}\n{NOTICE}" for number in range(4)}
    return prose | leaks | notices


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaks")
    rows = [{"id": name, "text": text} for name, text in documents().items()]
    for number in range(4):
        machine.write_jsonl(folder / "a" / f"{number}.jsonl", rows[number::4])
    machine.write_jsonl(folder / "exam.jsonl", BENCHMARK)
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder / "recipe.yaml"


class Run:
    """A finished run, with documents by their names."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        names = pq.read_table(folder / "extracted", columns=["id", "source_id"]).to_pylist()
        name_of = {row["id"]: row["source_id"] for row in names}
        self.facts = manifest["decontamination"]
        self.ledger = manifest["ledger"]["a"]
        self.texts = {name_of[row["id"]]: row["text"] for row in pq.read_table(folder / "documents").to_pylist()}
        self.found = {
            (name_of[row["id"]], row["item"]): row
            for row in pq.read_table(folder / "contamination.parquet").to_pylist()
        }


@pytest.fixture(scope="module")
def runs(recipe: Path) -> dict[str, Run]:
    """Run the recipe with each action, one behind the other with one cache."""
    made: dict[str, Run] = {}
    for action in ("drop", "cut", "flag"):
        folder = recipe.parent / action
        result = machine.run(recipe, recipe.parent, output=folder, sets=[f"decontaminate.action={action}"])
        made[action] = Run(folder, result.manifest)
    return made


LEAKS = {"leak", "half", "nothing else"}


def test_what_is_found_does_not_depend_on_the_action(runs: dict[str, Run]) -> None:
    for run in runs.values():
        assert {name: row["overlap"] for (name, _), row in run.found.items()} == {
            "leak": 1.0,
            "half": 0.5,
            "nothing else": 1.0,
        }
        exam = run.facts["benchmarks"]["exam"]
        assert (exam["items"], exam["items_tested"], exam["items_found"], exam["documents"]) == (4, 3, 1, 3)
        assert exam["untested"] == [
            {"item": "short", "reason": "fewer than 8 words, also with an answer", "text": "How many?"}
        ]
        assert run.facts["common_items"] == ["exam/notice"]  # in four clusters of documents
        [worst] = run.facts["worst"]
        assert (worst["item"], worst["documents"], worst["item_text"]) == ("toll", 3, QUESTION)


def test_drop_removes_the_documents(runs: dict[str, Run]) -> None:
    run = runs["drop"]
    assert set(run.texts) == set(documents()) - LEAKS
    assert run.ledger["removed"]["decontaminate"] == {"decontaminate.ngram": 3}


def test_cut_takes_the_spans_and_removes_what_is_nothing_else(runs: dict[str, Run]) -> None:
    run = runs["cut"]
    assert set(run.texts) == set(documents()) - {"nothing else"}
    assert run.ledger["removed"]["decontaminate"] == {"decontaminate.ngram": 1}
    for name, before, behind in (("leak", 100, 101), ("half", 102, 103)):
        left = run.texts[name].split()
        first, last = machine.prose(before, 3).split(), machine.prose(behind, 3).split()
        assert left == first[:-2] + last[2:]  # two words of margin on each side
    for name in ("clean1", "answer", "notice2"):
        assert run.texts[name] == documents()[name]


def test_flag_only_reports(runs: dict[str, Run]) -> None:
    run = runs["flag"]
    assert run.texts == documents()
    assert "decontaminate" not in run.ledger["removed"]


def test_killed_between_shards_and_on_any_number_of_workers_the_bytes_are_the_same(
    recipe: Path, runs: dict[str, Run], tmp_path: Path
) -> None:
    del runs  # the first of them is what is compared with
    expected = machine.contents(recipe.parent / "drop")
    cache = tmp_path / "cache"
    machine.run(recipe, tmp_path, until="cluster")  # what is killed then is decontamination
    where = ("--output", tmp_path / "run", "--cache", cache, "--workers", 3)
    environment = {
        "PYTHONPATH": os.pathsep.join((str(machine.ROOT / "tests" / "crash"), str(machine.ROOT))),
        "CURATE_TEST_KILL": f"after_rename:2:{tmp_path / 'count'}",
    }
    killed = machine.command("run", recipe, *where, environment=environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = machine.command("run", recipe, *where)
    assert again.returncode == 0, again.stderr
    assert machine.contents(tmp_path / "run") == expected
