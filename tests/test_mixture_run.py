"""A run whose mixture has two axes and two stages: every document in its cell, stages drawn as planned and trained on."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import machine
import pyarrow.parquet as pq
import pytest

from curate.mixture_plan import plan, plan_lines
from curate.report.collect import build_report
from curate.report.page import render
from curate.tokens.order import Plan
from curate.tokens.shard import TokenSource

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
WINDOW = 64
TRAIN = """train:
  preset: demo-1m
  seeds: [0]
  overrides: {layers: 1, dim: 32, heads: 2, kv_heads: 1, ffn_dim: 64, context: 64, batch_windows: 4, log_every: 1, lr: 0.02}
"""


def project(folder: Path, train: str = "") -> Path:
    """Write a recipe over pages in three stated languages, divided by language and quality bucket."""
    for source, first in (("web", 0), ("books", 5000)):
        rows = [
            {
                "id": f"{source}-{row}",
                "text": machine.prose(first + row, 3 + row % 9),
                **({"language": ("en", "pt", "sw", None)[row % 4]} if source == "web" else {}),
            }
            for row in range(160)
        ]
        machine.write_jsonl(folder / "in" / source / "0.jsonl", rows[:70])
        machine.write_jsonl(folder / "in" / source / "1.jsonl", rows[70:])
    path = folder / "recipe.yaml"
    path.write_text(
        f"""name: cells
seed: 4
sources:
  web:
    read: {{kind: jsonl, paths: in/web/*.jsonl, language: language}}
    steps:
      - gopher_quality: {{min_words: 30, min_stop_words: off}}
      - quality_buckets: {{scores: num_words}}
  books: {{read: {{kind: jsonl, paths: in/books/*.jsonl}}}}
tokenizer: {{train: {{kind: sentencepiece, vocab_size: 400}}}}
mixture:
  weights: {{web: 3, books: 1}}
  multiply:
    - {{by: language, factors: {{pt: 2, sw: 0, '*': 1}}, sources: [web]}}
    - {{by: quality_bucket, factors: {{best: {{of: 15-19, factor: 2}}}}, sources: [web]}}
  stages:
    - until_tokens: 5120
    - multiply: [{{by: quality_bucket, factors: {{best: 1, '*': 0}}}}]
  tokens: 7680
  window: {WINDOW}
{train}"""
    )
    return path


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def cells_in(run: Path) -> dict[str, str]:
    """Return the cell of each document of the web, worked out from what the run folder says of it."""
    buckets = {row["id"]: row["quality_bucket"] for row in rows_of(run / "measurements" / "web" / "quality_buckets")}
    found = {}
    for row in rows_of(run / "documents" / "web"):
        language = row["language"] if row["language"] in ("pt", "sw") else "rest"
        found[row["id"]] = f"{language}+{'best' if buckets[row['id']] >= 15 else 'rest'}"
    return found


@needs_torch
def test_two_axes_and_two_stages_from_documents_to_training(tmp_path):
    recipe = project(tmp_path, TRAIN)
    machine.run(recipe, tmp_path)
    run = tmp_path / "run"
    cells = cells_in(run)
    assert len(set(cells.values())) == 6
    streams: dict[str, list[str]] = {}
    for cell in sorted(set(cells.values())):
        place = run / "tokens" / "web" / cell
        streams[cell] = [
            row["id"] for path in sorted(place.glob("*.docs.parquet")) for row in pq.read_table(path).to_pylist()
        ]
        assert all(cells[id] == cell for id in streams[cell])
    assert sorted(id for ids in streams.values() for id in ids) == sorted(cells)
    mixture = json.loads((run / "mixture.json").read_text())
    loaded = Plan.load(mixture)
    sources = mixture["sources"]
    for name, entry in sources.items():
        tokens = TokenSource.open(run / "tokens" / name, "train").num_tokens
        assert (entry["tokens_available"], entry["windows_available"]) == (tokens, max(0, (tokens - 1) // WINDOW))
    _check_shares(sources, mixture["stages"])
    # What slots show is what the stages say.
    for number, (start, stop) in enumerate(((0, 80), (80, 120))):
        shown = Counter(loaded.slot(slot)[0] for slot in range(start, stop))
        assert shown == {
            name: one["windows_drawn"]
            for name, one in mixture["stages"][number]["sources"].items()
            if one["windows_drawn"]
        }
    steps = [
        row
        for row in map(json.loads, (run / "train" / "0" / "metrics.jsonl").read_text().splitlines())
        if "loss" in row
    ]
    assert len(steps) == 120 // 4
    _check_told(recipe, run, mixture)


def _check_shares(sources: dict[str, Any], stages: list[dict[str, Any]]) -> None:
    """Compare both stages with shares worked out from the windows that there are."""
    factors = {"pt+best": 4, "pt+rest": 2, "rest+best": 2, "rest+rest": 1, "sw+best": 0, "sw+rest": 0}
    windows = {cell: sources[f"web/{cell}"]["windows_available"] for cell in factors}
    for stage, slots, factor in (
        (stages[0], 80, factors),
        (stages[1], 40, {**dict.fromkeys(factors, 0), "pt+best": 2, "rest+best": 1}),
    ):
        parts = {cell: windows[cell] * factor[cell] for cell in factor}
        assert stage["num_slots"] == slots
        for cell, part in parts.items():
            asked = 0.75 * slots * part / sum(parts.values())
            entry = stage["sources"][f"web/{cell}"]
            assert entry["weight_normalised"] == pytest.approx(asked / slots)
            assert abs(entry["windows_drawn"] - asked) < 1
        assert abs(stage["sources"]["books"]["windows_drawn"] - slots / 4) < 1
    assert sources["web/pt+best"]["cell"] == {"language": "pt", "quality_bucket": "best"}
    assert sources["web/pt+best"]["repeat"] == 4


def _check_told(recipe: Path, run: Path, mixture: dict[str, Any]) -> None:
    """The command and the report tell the same as mixture.json."""
    again = plan(recipe, run=run)
    assert {name: value for name, value in again.items() if name not in ("recipe", "available")} == mixture
    told = "\n".join(plan_lines(again))
    assert all(cell in told for cell in ("pt+best", "sw+rest", "Stage 2"))
    report = build_report(run)
    assert report["mixture"] == mixture
    page = render(report)
    assert "Stages of training" in page
    assert 'aria-label="Mixture by quality_bucket"' in page
    # A division that the run does not have is counted document by document.
    other = plan(
        recipe,
        run=run,
        sets=["mixture.multiply=[{by: language, factors: {en: 2}, sources: [web]}]", "mixture.stages=[]"],
    )
    tokens = {name: one["tokens_available"] for name, one in other["sources"].items()}
    assert set(tokens) == {"books", "web/en", "web/rest"}
    languages = {row["id"]: row["language"] for row in rows_of(run / "documents" / "web")}
    counted = dict.fromkeys(tokens, 0)
    for cell in ("pt+best", "pt+rest", "rest+best", "rest+rest", "sw+best", "sw+rest"):
        source = TokenSource.open(run / "tokens" / "web" / cell, "train")
        ids = [
            row["id"]
            for shard in source.shards
            for row in pq.read_table(run / "tokens" / "web" / cell / f"{shard.name}.docs.parquet").to_pylist()
        ]
        for id, (start, stop) in zip(
            ids, zip([0, *source.document_ends[:-1]], source.document_ends, strict=True), strict=True
        ):
            counted["web/en" if languages[id] == "en" else "web/rest"] += int(stop - start)
    assert {name: tokens[name] for name in ("web/en", "web/rest")} == {
        name: counted[name] for name in ("web/en", "web/rest")
    }


@pytest.mark.slow  # tests/test_mixture_groups.py has two axes on one and two workers, too
def test_cells_are_the_same_whatever_the_workers(tmp_path):
    path = project(tmp_path)
    machine.run(path, tmp_path, until="mix")
    other = {"output": tmp_path / "other", "cache": tmp_path / "cache-2"}
    machine.run(path, tmp_path, until="mix", workers=3, memory="300K", **other)
    assert machine.contents(tmp_path / "run") == machine.contents(tmp_path / "other")
    # Another division leaves no folder of the old one behind.
    path.write_text(path.read_text().replace("factors: {pt: 2, sw: 0, '*': 1}", "factors: {en: 2}"))
    machine.run(path, tmp_path, until="mix")
    assert {folder.name for folder in (tmp_path / "run" / "tokens" / "web").iterdir()} == {
        "en+best",
        "en+rest",
        "rest+best",
        "rest+rest",
    }
