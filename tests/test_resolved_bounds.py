"""Bounds that are shares of the documents: exact at ties, over what earlier blocks keep, the same however it is run."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pyarrow.parquet as pq
import pytest

from curate.errors import RecipeError
from curate.loading import load
from curate.phases.resolve import Selection, select
from curate.stage import Rule, Share

# -- selection ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "least", "documents", "kept"),
    [
        (Share(keep=0.1), True, 100, 10),
        (Share(keep=0.1), True, 101, 11),  # rounded up to a whole document
        (Share(keep=0.1), True, 5, 1),
        (Share(keep=0.3), True, 10, 3),  # in binary 3.0000000000000004 of 10
        (Share(keep=0.1), False, 100, 10),
        (Share(quantile=0.9), True, 100, 10),  # 1 - 0.9 is 0.09999999999999998
        (Share(quantile=0.9), True, 99, 10),  # 89.1 below: 89 of them go
        (Share(quantile=0.9), False, 100, 90),
        (Share(quantile=0.9), False, 99, 90),
        (Share(keep=0.5), True, 0, 0),
    ],
)
def test_how_many_a_share_keeps(share, least, documents, kept):
    assert share.kept(documents, least=least) == kept


def selected(folder: Path, values: list[float], share: Share, *, least: bool, memory: int = 1 << 20, step: int = 1000):
    selection = Selection(memory, folder, f"s{len(list(folder.iterdir()))}")
    for start in range(0, len(values), step):
        selection.add("", np.array(values[start : start + step], np.float64))
    return select(selection, {"": [(share, least)]})[""][0]


def test_the_bound_is_the_last_that_stays_and_ties_stay_with_it(tmp_path):
    values = [5.0, 1.0, 3.0, 3.0, 3.0, 2.0, 4.0, -1.0, 0.0, -0.0]
    one = selected(tmp_path, values, Share(keep=0.3), least=True)  # 5, 4 and a 3: so all three 3s
    assert (one.bound, one.kept, one.documents) == (3.0, 5, 10)
    one = selected(tmp_path, values, Share(keep=0.2), least=True)
    assert (one.bound, one.kept) == (4.0, 2)
    one = selected(tmp_path, values, Share(keep=0.2), least=False)  # -1 and a zero: so both zeros
    assert (one.bound, one.kept) == (0.0, 3)
    one = selected(tmp_path, [7.0] * 10, Share(keep=0.1), least=True)
    assert (one.bound, one.kept) == (7.0, 10)
    one = selected(tmp_path, [], Share(keep=0.1), least=True)
    assert (one.bound, one.kept, one.documents) == (None, 0, 0)


@pytest.mark.parametrize(("memory", "step"), [(1 << 24, 50_000), (1 << 16, 700), (1 << 10, 1)])
def test_selection_agrees_with_sorting_whatever_the_memory(tmp_path, memory, step):
    chance = random.Random(4)
    count = 50_000 if step > 1 else 3000
    values = [
        chance.choice([0.25, -3.0, chance.random(), chance.gauss(0, 1e6), chance.random() * 1e-300])
        for _ in range(count)
    ]
    ordered = sorted(values)
    for keep, least in itertools.product((0.001, 0.37, 0.999), (True, False)):
        one = selected(tmp_path, values, Share(keep=keep), least=least, memory=memory, step=step)
        kept = Share(keep=keep).kept(len(values), least=least)
        assert one.bound == (ordered[-kept] if least else ordered[kept - 1])
        assert one.kept == sum(value >= one.bound if least else value <= one.bound for value in values)
        assert one.kept >= kept


def test_groups_do_not_mix(tmp_path):
    selection = Selection(1 << 16, tmp_path, "groups")
    for start in range(0, 3000, 30):
        selection.add("en", np.arange(start, start + 30, dtype=np.float64))
        selection.add("pt", -np.arange(start, start + 30, dtype=np.float64) / 10)
    found = select(
        selection, {"en": [(Share(keep=0.1), True)], "pt": [(Share(keep=0.5), True), (Share(keep=0.1), False)]}
    )
    assert [one.bound for one in found["en"]] == [2700.0]
    assert [one.bound for one in found["pt"]] == [-149.9, -270.0]


# -- in a run ----------------------------------------------------------------------------------------------------------

STEPS = """[
      {language: {keep: [en], min_score: off}},
      {gopher_quality: {min_words: {keep: 0.5}, max_words: {quantile: 0.9}, min_stop_words: off}},
      {where: "num_words >= 1"}]"""


def project(folder: Path, steps: str = STEPS, *, files: int = 3) -> Path:
    for number in range(files):
        rows = [
            {"id": f"d{number}-{row}", "text": machine.prose(100 * number + row, 1 + (number * 40 + row) % 7)}
            for row in range(40)
        ]
        rows[3]["text"] = (
            "O guardião da eclusa anotou o pedágio em um livro verde antes do meio-dia, como sempre fazia."
        )
        machine.write_jsonl(folder / "in" / f"{number}.jsonl", rows)
    path = folder / "recipe.yaml"
    path.write_text(
        f"name: shares\nsources:\n  one:\n    read: {{kind: jsonl, paths: in/*.jsonl}}\n    steps: {steps}\n"
    )
    return path


def decided(run: Path) -> list[dict[str, Any]]:
    return [
        row for path in sorted((run / "decisions" / "one").glob("*.parquet")) for row in pq.read_table(path).to_pylist()
    ]


def measured(run: Path, block: str) -> list[dict[str, Any]]:
    return [
        row
        for path in sorted((run / "measurements" / "one" / block).glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


def test_bounds_count_what_earlier_blocks_keep(tmp_path):
    result = machine.run(project(tmp_path), tmp_path, until="collect")
    run = tmp_path / "run"
    bounds = result.manifest["resolved_bounds"]["one"]["gopher_quality.num_words"]
    words = {row["id"]: row["num_words"] for row in measured(run, "gopher_quality")}
    languages = {row["id"]: row["language"] for row in measured(run, "language")}
    english = sorted(words[name] for name in words if languages[name] == "en")
    assert 0 < len(english) < len(words)
    assert bounds["at_least"] == {
        "asked": {"keep": 0.5},
        "documents": len(english),
        "bound": english[len(english) - -(-len(english) // 2)],
        "kept": sum(value >= bounds["at_least"]["bound"] for value in english),
    }
    assert bounds["at_most"]["bound"] == english[-(-len(english) * 9 // 10) - 1]
    low, high = bounds["at_least"]["bound"], bounds["at_most"]["bound"]
    rows = decided(run)
    for row in rows:
        fires = [row["rule"], *row["also_fired"]] if not row["kept"] else []
        assert ("gopher_quality.num_words" in fires) == (not low <= words[row["id"]] <= high)
        if row["rule"] == "gopher_quality.num_words":
            assert row["threshold"] == f"{low:g} to {high:g} (keep 0.5, quantile 0.9)"
    assert any(row["rule"] == "gopher_quality.num_words" for row in rows)


def test_the_same_whatever_the_workers_and_the_memory(tmp_path):
    path = project(tmp_path)
    machine.run(path, tmp_path, until="collect", workers=1)
    machine.run(
        path, tmp_path, until="collect", workers=2, memory="300K", output=tmp_path / "other", cache=tmp_path / "cache-2"
    )
    assert machine.contents(tmp_path / "run") == machine.contents(tmp_path / "other")


def test_another_share_decides_anew_from_stored_numbers(tmp_path):
    path = project(tmp_path)
    machine.run(path, tmp_path, until="collect")
    path.write_text(path.read_text().replace("keep: 0.5", "keep: 0.25"))
    machine.run(path, tmp_path, until="collect")
    tasks = json.loads((tmp_path / "run" / "timings.json").read_text())["phases"]
    assert tasks["measure"]["tasks_run"] == 0
    assert tasks["decide"]["tasks_run"] > 0
    machine.run(path, tmp_path, until="collect")
    assert json.loads((tmp_path / "run" / "timings.json").read_text())["phases"]["decide"]["tasks_run"] == 0


def test_an_earlier_bound_moves_a_later_share(tmp_path):
    path = project(tmp_path)
    before = machine.run(path, tmp_path, until="collect").manifest["resolved_bounds"]["one"]
    path.write_text(path.read_text().replace("keep: [en]", "keep: off"))
    after = machine.run(path, tmp_path, until="collect").manifest["resolved_bounds"]["one"]
    rule = "gopher_quality.num_words"
    assert after[rule]["at_least"]["documents"] > before[rule]["at_least"]["documents"]


def test_shares_by_label(tmp_path):
    steps = """[{language: {min_score: off}},
      {gopher_quality: {min_words: {en: {keep: 0.1}, de: {keep: 0.5}, "*": 5}, max_words: off}}]"""
    result = machine.run(project(tmp_path, steps), tmp_path, until="collect")
    bounds = result.manifest["resolved_bounds"]["one"]["gopher_quality.num_words"]["at_least"]
    languages = {row["id"]: row["language"] for row in measured(tmp_path / "run", "language")}
    words = {row["id"]: row["num_words"] for row in measured(tmp_path / "run", "gopher_quality")}
    english = sorted((words[name] for name, label in languages.items() if label == "en"), reverse=True)
    assert bounds["en"]["bound"] == english[-(-len(english) // 10) - 1]
    assert bounds["de"] == {"asked": {"keep": 0.5}, "documents": 0, "bound": None, "kept": 0}
    for row in decided(tmp_path / "run"):
        fires = [row["rule"], *row["also_fired"]] if not row["kept"] else []
        least = bounds["en"]["bound"] if languages[row["id"]] == "en" else 5
        assert ("gopher_quality.num_words" in fires) == (words[row["id"]] < least)


def test_keep_top_is_exact_at_ties(tmp_path):
    """Equal texts have equal scores: where the last that stays has copies, all stay."""
    from curate.classify.train import train_classifier

    good = [{"text": machine.prose(row)} for row in range(60)]
    machine.write_jsonl(tmp_path / "good.jsonl", good)
    bad = [
        {"text": " ".join(machine.VERBS[(row * number) % 12] for number in range(1, 20)) + chr(97 + row % 26) * 3}
        for row in range(60)
    ]
    machine.write_jsonl(tmp_path / "bad.jsonl", bad)
    (tmp_path / "classifier.yaml").write_text(
        "name: c\nsources:\n  good: {read: {kind: jsonl, paths: good.jsonl}}\n  bad: {read: {kind: jsonl, paths: bad.jsonl}}\n"
        "classifier: {positive: good, negative: bad, held_out: 0.3, fasttext: {dim: 8, bucket: 100, lr: 0.5}}\n"
    )
    train_classifier(
        tmp_path / "classifier.yaml", output=tmp_path / "model", cache=tmp_path / "cache", workers=1, quiet=True
    )
    rows = [{"id": f"{row}", "text": machine.prose(1000 + row // 4)} for row in range(40)]  # ten texts, four times each
    machine.write_jsonl(tmp_path / "in" / "0.jsonl", rows)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "name: top\nsources:\n  one:\n    read: {kind: jsonl, paths: in/*.jsonl}\n"
        "    steps: [{quality: {model: model, keep_top: 0.25}}, {quality: {model: model, column: again, min_score: off}}]\n"
    )
    result = machine.run(recipe, tmp_path, until="collect")
    found = result.manifest["resolved_bounds"]["one"]["quality.keep_top"]["at_least"]
    scores = sorted((row["quality_score"] for row in measured(tmp_path / "run", "quality")), reverse=True)
    assert found["bound"] == scores[9]  # ten of forty
    assert found["kept"] == 12  # three texts, with their copies
    rows = decided(tmp_path / "run")
    assert sum(row["kept"] for row in rows) == 12
    gone = next(row for row in rows if not row["kept"])
    assert gone["threshold"] == f">= {found['bound']:.9g} (keep 0.25)"
    assert [row["again"] for row in measured(tmp_path / "run", "quality-2")] == [
        row["quality_score"] for row in measured(tmp_path / "run", "quality")
    ]
    # The recipe that the run wrote asks for the same share again.
    (tmp_path / "again.yaml").write_text((tmp_path / "run" / "recipe.yaml").read_text())
    assert load(tmp_path / "again.yaml") == load(recipe)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("min_words: {keep: 0}", "keep is 0; it must lie between 0 and 1"),
        ("min_words: {keep: 1}", "keep is 1; it must lie between 0 and 1"),
        ("min_words: {quantile: 90}", "quantile is 90"),
        ("min_words: {quantile: high}", "quantile is 'high'"),
        ("min_words: {keep: 0.5, quantile: 0.5}", "keep and quantile both say the share"),
    ],
)
def test_shares_that_cannot_be_are_refused(tmp_path, setting, message):
    with pytest.raises(RecipeError, match=message):
        load(project(tmp_path, f"[{{gopher_quality: {{{setting}}}}}]", files=1))


def test_threshold_in_words():
    assert Rule("b.r", "x", at_least=Share(keep=0.25)).threshold() == ">= (keep 0.25)"
    assert Rule("b.r", "x", at_least=0.123456789012, resolved="keep 0.25").threshold() == ">= 0.123456789 (keep 0.25)"
    assert Rule("b.r", "x", at_least=0.0, at_most=0.0).threshold() == "0 to 0"
    assert Rule("b.r", "x", at_least=0.1).threshold() == ">= 0.1"
    assert not Rule("b.r", "x", at_least={"en": 1.0}, by="language").shares
    assert Rule("b.r", "x", at_least={"en": 1.0, "*": Share(keep=0.5)}, by="language").shares
