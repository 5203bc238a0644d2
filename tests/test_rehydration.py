"""Documents repeated by the size of their duplicate cluster: the table by hand, its groups, and a run with planted copies."""

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
from curate.mix.plan import plan_mixture
from curate.mix.settings import Mixture
from curate.mix.weights import sample_weights
from curate.report.trace import trace

# Repetitions by cluster size, as FineWeb-2 publishes its simple table: 1: 1, 2: 2, 3-4: 3, 5-99: 5, 100-999: 8, 1000 on: 1
FINEWEB2 = {1: 1, 2: 2, 3: 3, 5: 5, 100: 8, 1000: 1}
GROUPS = ("1", "2", "3-4", "5-99", "100-999", "1000-")


def web(repeat: dict[Any, Any], **more: Any) -> dict[str, Any]:
    return {"by": "cluster_size", "weight": 1, "repeat": repeat, **more}


def repeats(table: ByLabel) -> dict[str, Any]:
    (stated,) = table.stated()
    return stated


# -- the table ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "times"),
    [(1, 1), (2, 2), (3, 3), (4, 3), (5, 5), (99, 5), (100, 8), (999, 8), (1000, 1), (10**9, 1)],
)
def test_a_size_takes_the_step_of_the_largest_number_not_above_it(size, times):
    table = ByLabel(**web(FINEWEB2))
    assert tuple(table.axes()[0].labels) == GROUPS
    group = GROUPS[group_finder(list(table.axes()[0].labels.values()))(size)]
    assert repeats(table)[group] == times


def test_steps_in_any_order_and_as_the_reader_gives_them():
    assert repeats(ByLabel(**web({"100": 8, "1": 1}))) == {"1-99": 1, "100-": 8}


def test_other_numbers_may_have_documents_outside_the_table():
    table = ByLabel(by="quality_bucket", weight=2, repeat={10: 1, 18: 2.5})
    assert repeats(table) == {"10-17": 1, "18-": 2.5, "rest": 0}
    group_of = group_finder(list(table.axes()[0].labels.values()))
    assert [group_of(value) for value in (9, 10, 17, 18, None)] == [2, 0, 0, 1, 2]


def windows(**counts: int) -> dict[str, int]:
    """Return tokens of streams with so many whole windows of 10, some with a rest that no window holds."""
    return {name: 10 * count + 1 + number % 9 for number, (name, count) in enumerate(counts.items())}


# 100 x 1 + 40 x 2 + 20 x 3 + 12 x 5 + 5 x 8 + 10 x 1 = 350 windows of ten tokens
COUNTS = {"web/1": 100, "web/2": 40, "web/3-4": 20, "web/5-99": 12, "web/100-999": 5, "web/1000-": 10}
SHARES = {"web/1": 100, "web/2": 80, "web/3-4": 60, "web/5-99": 60, "web/100-999": 40, "web/1000-": 10}


@pytest.mark.parametrize(("tokens", "passes"), [(3500, 1), (7000, 2), (35, None)])
def test_the_published_table_by_hand(tokens, passes):
    mixture = plan_mixture(Mixture(weights={"web": web(FINEWEB2)}, tokens=tokens), windows(**COUNTS), window=10, seed=1)
    rows = mixture["sources"]
    assert {name: row["repeat"] for name, row in rows.items()} == dict(zip(COUNTS, (1, 2, 3, 5, 8, 1), strict=True))
    for name, share in SHARES.items():
        assert rows[name]["weight_asked"] == rows[name]["weight_normalised"] == pytest.approx(share / 350)
        if passes is not None:
            assert rows[name]["windows_drawn"] == passes * share
            assert rows[name]["epochs"] == passes * rows[name]["repeat"]
    if (
        passes is None
    ):  # 3 windows: 0.86, 0.69, 0.51, 0.51, 0.34, 0.09: the three largest remainders, the first name of two
        drawn = {name for name, row in rows.items() if row["windows_drawn"]}
        assert drawn == {"web/1", "web/2", "web/3-4"}


def test_beside_another_source_the_table_divides_the_sources_weight_only():
    weights = {"web": web(FINEWEB2, weight=0.7), "books": 0.3}
    available = windows(**COUNTS, books=500)
    mixture = plan_mixture(Mixture(weights=weights, tokens=5000), available, window=10, seed=1)
    drawn = {name: row["windows_drawn"] for name, row in mixture["sources"].items()}
    assert drawn == {**SHARES, "books": 150}
    assert "repeat" not in mixture["sources"]["books"]
    assert sample_weights(Mixture(weights=weights, tokens=5000), {"web": 9, "books": 9}) == {"web": 0.7, "books": 0.3}


def test_zero_leaves_a_step_out_and_its_share_goes_to_the_others():
    available = windows(**{"web/1": 100, "web/2-9": 20, "web/10-": 30})
    table = web({1: 0, 2: 3, 10: 0.5})
    rows = plan_mixture(Mixture(weights={"web": table}, tokens=750), available, window=10, seed=1)["sources"]
    assert {name: row["windows_drawn"] for name, row in rows.items()} == {"web/1": 0, "web/2-9": 60, "web/10-": 15}


def test_caps_hold_as_for_every_group():
    # asked for 100, 80 and 100; the cap of 2 epochs leaves 40 of the last, and 60 go to the others as 100 to 80
    available = windows(**{"web/1": 100, "web/2-4": 40, "web/5-": 20})
    mixture = plan_mixture(
        Mixture(weights={"web": web({1: 1, 2: 2, 5: 5})}, tokens=2800, max_epochs={"web/5-": 2, "web": 9}),
        available,
        window=10,
        seed=1,
    )
    rows = mixture["sources"]
    assert {name: row["windows_drawn"] for name, row in rows.items()} == {"web/1": 133, "web/2-4": 107, "web/5-": 40}
    assert [row["cap_hit"] for row in rows.values()] == [False, False, True]
    assert mixture["shortfall_tokens"] == 600
    assert any("'web/5-' stops at its cap of 2 epochs" in warning for warning in mixture["warnings"])
    with pytest.raises(ValidationError, match="no max_epochs for web/1, web/2-;"):
        Mixture(weights={"web": web({1: 1, 2: 2})}, tokens="up_to")
    exactly = Mixture(
        weights={"web": web({1: 1, 2: 2, 5: 5})}, tokens="up_to", max_epochs={"web/1": 1, "web/2-4": 2, "web/5-": 5}
    )
    rows = plan_mixture(exactly, available, window=10, seed=1)["sources"]
    assert [row["epochs"] for row in rows.values()] == [1, 2, 5]


def test_steps_without_documents_or_without_a_window():
    available = {"web/1": 1001, "web/2": 0, "web/3-": 10}  # 10 tokens: none behind the last one to predict
    mixture = plan_mixture(Mixture(weights={"web": web({1: 1, 2: 2, 3: 9})}, tokens=1000), available, window=10, seed=1)
    assert [row["windows_drawn"] for row in mixture["sources"].values()] == [100, 0, 0]
    assert mixture["warnings"] == ["Group 'web/3-' is never drawn: its 10 tokens are no whole window of 10."]
    assert mixture["shortfall_tokens"] == 0
    mixture = plan_mixture(
        Mixture(weights={"web": web({1: 0, 2: 1, 3: 1}), "books": 1}, tokens=1000),
        available | {"books": 2001},
        window=10,
        seed=1,
    )
    assert mixture["sources"]["books"]["windows_drawn"] == 100
    assert mixture["shortfall_tokens"] == 500  # all of web's


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"by": "cluster_size"}, "give either `groups`, or `weight` and `repeat`"),
        (web({1: 1}, groups={"a": {"weight": 1}}), "give either `groups`, or `weight` and `repeat`"),
        ({"by": "cluster_size", "repeat": {1: 1}}, "belong together"),
        ({"by": "cluster_size", "weight": 1, "groups": {"a": {"weight": 1}}}, "its groups have weights, too"),
        (web({2: 2, 5: 3}), "begin at 1"),
        (web({0: 2, 5: 3}), "begin at 1"),
        (web({}), "repeat is a table"),
        (web({1: 0, 2: 0}), "repeat is 0 in all steps"),
        (web({1: -1}), "must be a number of at least 0"),
        (web({1: True}), "must be a number of at least 0"),
        (web({1: float("inf")}), "must be a number of at least 0"),
        (web({"1-4": 1}), "steps begin at whole numbers"),
        (web({1.5: 1}), "steps begin at whole numbers"),
    ],
)
def test_tables_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        ByLabel(**settings)


# -- in a run ----------------------------------------------------------------------------------------------------------

SIZES = {1: 60, 2: 24, 5: 16}  # cluster size to clusters; each has one document in web, its copies are in books, too


def project(folder: Path, weights: str, *, dedup: str = "exact: {}") -> Path:
    web_rows, book_rows = [], []
    number = 0
    for size, clusters in SIZES.items():
        for _ in range(clusters):
            text = machine.prose(number, 6)
            rows = [{"id": f"{size}-{number}-{copy}", "text": text} for copy in range(size)]
            web_rows += rows[: (size + 1) // 2]
            book_rows += rows[(size + 1) // 2 :]
            number += 1
    machine.write_jsonl(folder / "in" / "web" / "0.jsonl", web_rows[::2])
    machine.write_jsonl(folder / "in" / "web" / "1.jsonl", web_rows[1::2])
    book_rows += [{"id": f"book-{row}", "text": machine.prose(5000 + row, 9)} for row in range(20)]
    machine.write_jsonl(folder / "in" / "books" / "0.jsonl", book_rows)
    path = folder / "recipe.yaml"
    path.write_text(
        f"""name: rehydrated
seed: 4
sources:
  web:
    read: {{kind: jsonl, paths: in/web/*.jsonl}}
    steps: [language: {{keep: [en], min_score: off}}]
  books:
    read: {{kind: jsonl, paths: in/books/*.jsonl}}
dedup: {{{dedup}, keep: {{order: [web, books], then: first}}}}
tokenizer: {{train: {{kind: sentencepiece, vocab_size: 400}}}}
mixture:
  weights:
    web: {weights}
    books: 0.25
  tokens: 20k
  window: 64
"""
    )
    return path


TABLE = "{by: cluster_size, weight: 0.75, repeat: {1: 1, 2: 2, 3: 3, 5: 5}}"
STREAMS = {"web/1": 1, "web/2": 2, "web/3-4": 3, "web/5-": 5}


def ids_of(folder: Path) -> list[str]:
    return [name for path in sorted(folder.glob("*.docs.parquet")) for name in pq.read_table(path)["id"].to_pylist()]


def test_planted_clusters_are_repeated_as_the_table_says(tmp_path):
    path = project(tmp_path, TABLE)
    machine.run(path, tmp_path, until="report")
    run = tmp_path / "run"
    kept = {
        row["id"]: row
        for part in (run / "documents" / "web").glob("*.parquet")
        for row in pq.read_table(part).to_pylist()
    }
    assert len(kept) == sum(SIZES.values())
    source_ids = {
        row["id"]: row["source_id"]
        for part in (run / "extracted" / "web").glob("*.parquet")
        for row in pq.read_table(part, columns=["id", "source_id"]).to_pylist()
    }
    for stream, (size, clusters) in zip(("web/1", "web/2", "web/5-"), SIZES.items(), strict=True):
        found = ids_of(run / "tokens" / stream)
        assert len(found) == clusters
        assert all(source_ids[name].startswith(f"{size}-") for name in found)
        assert all(kept[name]["cluster_size"] == size for name in found)
    assert ids_of(run / "tokens" / "web" / "3-4") == []
    rows = json.loads((run / "mixture.json").read_text())["sources"]
    assert set(rows) == {*STREAMS, "books"}
    there = {name: rows[name]["windows_available"] for name in STREAMS}
    assert min(there["web/1"], there["web/2"], there["web/5-"]) > 20
    whole = sum(times * there[name] for name, times in STREAMS.items())
    budget = 20_000 // 64
    for name, times in STREAMS.items():
        share = budget * 0.75 * times * there[name] / whole
        assert abs(rows[name]["windows_drawn"] - share) < 1
    # of web alone, exactly one pass over the table
    machine.run(path, tmp_path, until="report", sets=(f"mixture.tokens={whole * 64}", "mixture.weights.books=0"))
    rows = json.loads((run / "mixture.json").read_text())["sources"]
    assert {name: rows[name]["epochs"] for name in STREAMS if there[name]} == {"web/1": 1, "web/2": 2, "web/5-": 5}
    for name, times in STREAMS.items():
        for one in ids_of(run / "tokens" / name)[:1]:
            visits = trace(run, one).visits
            assert len(visits) == times * len({visit.window for visit in visits}) > 0
    page = (run / "report.html").read_text()
    assert "×5" in page
    assert ">repeat</th>" in page
    # the same documents in groups that have weights
    groups = "{by: cluster_size, groups: {alone: {of: 1, weight: 0.5}, copied: {of: 2-, weight: 0.25}}}"
    path.write_text(path.read_text().replace(TABLE, groups))
    machine.run(path, tmp_path, until="mix")
    sizes = [len(ids_of(run / "tokens" / "web" / name)) for name in ("alone", "copied", "rest")]
    assert sizes == [60, 40, 0]
    rows = json.loads((run / "mixture.json").read_text())["sources"]
    assert rows["web/alone"]["windows_drawn"] == budget // 2


@pytest.mark.parametrize(
    ("weights", "dedup", "message"),
    [
        (TABLE, "lines: {}", "'cluster_size' counts the copies that dedup removes"),
        ("{by: cluster_sizes, weight: 1, repeat: {1: 1}}", "exact: {}", "did you mean 'cluster_size'"),
        ("{by: language, weight: 1, repeat: {1: 1}}", "exact: {}", "'language' is no whole number"),
        ("{by: cluster_size, weight: 1, repeat: {1: 1, 2: x}}", "exact: {}", "repeat: 2 is 'x'"),
        ("{by: cluster_size, wieght: 1, repeat: {1: 1}}", "exact: {}", "did you mean 'weight'"),
        ("{by: cluster_size, repeat: {1: 1}}", "exact: {}", "belong together"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path, weights, dedup, message):
    path = project(tmp_path, weights, dedup=dedup)
    with pytest.raises(RecipeError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert (problem.file, problem.line) == (str(path), 13)


def test_the_resolved_recipe_loads_back(tmp_path):
    recipe = load(project(tmp_path, TABLE))
    (tmp_path / "again.yaml").write_text(recipe.as_yaml())
    assert load(tmp_path / "again.yaml") == recipe
