"""Runs in which copies are found: which one stays, and what the run folder says of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import machine
import pyarrow.parquet as pq
from machine import run, work


def write(folder: Path, rows: list[dict[str, Any]], dedup: str, steps: str = "[]") -> Path:
    machine.write_jsonl(folder / "in" / "web.jsonl", rows)
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        f'name: copies\nsources:\n  web:\n    read: {{kind: jsonl, paths: "in/web.jsonl"}}\n    steps: {steps}\n'
        f"dedup: {dedup}\n"
    )
    return recipe


def decisions(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the decisions by the id of the input, the kept copy by that id, too."""
    names = {
        row["id"]: row["source_id"]
        for row in pq.read_table(folder / "run" / "extracted" / "web", columns=["id", "source_id"]).to_pylist()
    }
    rows = pq.read_table(folder / "run" / "decisions" / "web").to_pylist()
    return {names[row["id"]]: row | {"kept_id": names.get(row["kept_id"])} for row in rows}


def kept(folder: Path) -> list[str]:
    return sorted(name for name, row in decisions(folder).items() if row["kept"])


def copies() -> list[dict[str, Any]]:
    """Return three near copies: `new` is the latest, `long` has the most words, `rare` the fewest stop words."""
    text = machine.prose(1, 8)
    return [
        {"id": "old", "text": text + " The old end.", "date": "1999-03"},
        {"id": "long", "text": text + " The old end is here.", "date": "2001"},
        {"id": "new", "text": text + " The end of it.", "date": "2024-01-02T03:04:05Z"},
        {"id": "rare", "text": text + " End.", "metadata": {}},
        {"id": "other", "text": machine.prose(2, 8), "date": "2024"},
    ]


def test_what_is_kept_follows_the_preferences(tmp_path: Path) -> None:
    steps = "[gopher_quality: {min_words: off, min_stop_words: off}]"
    for then, name in {
        "latest": "new",
        "earliest": "old",
        "longest": "long",
        "{highest: num_words}": "long",
        "[{lowest: num_words}, first]": "rare",
        "first": "old",
    }.items():
        recipe = write(tmp_path, copies(), f"{{minhash: {{}}, keep: {{then: {then}}}}}", steps)
        run(recipe, tmp_path)
        assert kept(tmp_path) == sorted([name, "other"]), then
        assert {row["kept_id"] for row in decisions(tmp_path).values() if not row["kept"]} == {name}


def test_another_preference_compares_again_only_where_it_must(tmp_path: Path) -> None:
    recipe = write(tmp_path, copies(), "{minhash: {}, keep: {then: longest}}")
    run(recipe, tmp_path)
    run(write(tmp_path, copies(), "{minhash: {}, keep: {then: shortest}}"), tmp_path)
    assert work(tmp_path)["measure"][0] == 0
    assert work(tmp_path)["cluster"] == (1, 2)  # the clusters alone: what is compared is the same
    assert kept(tmp_path) == ["other", "rare"]
    run(write(tmp_path, copies(), "{minhash: {}, keep: {then: latest}}"), tmp_path)
    assert work(tmp_path)["measure"][0] == 0
    assert work(tmp_path)["cluster"] == (2, 1)
    assert kept(tmp_path) == ["new", "other"]
