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
    assert work(tmp_path)["cluster"][0] == 2  # a partition and the clusters: what is compared is the same
    assert kept(tmp_path) == ["other", "rare"]
    run(write(tmp_path, copies(), "{minhash: {}, keep: {then: latest}}"), tmp_path)
    assert work(tmp_path)["measure"][0] == 0
    assert work(tmp_path)["cluster"][0] == 3
    assert kept(tmp_path) == ["new", "other"]


def test_equal_addresses_and_payloads(tmp_path: Path) -> None:
    page = "<html><body><article>{}</article></body></html>"
    rows = [
        {"id": "a", "html": page.format(f"<p>{machine.prose(1, 8)}</p>"), "url": "https://www.a.test/x#top"},
        {"id": "b", "html": page.format(f"<p>{machine.prose(2, 9)}</p>"), "url": "http://www.a.test:80/x"},
        {"id": "c", "html": page.format(f"<p>{machine.prose(3, 8)}</p>"), "url": "https://c.test/1"},
        {"id": "d", "html": page.format(f"<p>{machine.prose(3, 8)}</p>"), "url": "https://c.test/2"},
        {"id": "e", "html": page.format(f"<p>{machine.prose(4, 8)}</p>")},
    ]
    machine.write_jsonl(tmp_path / "in" / "web.jsonl", rows)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "name: copies\nsources:\n  web:\n"
        "    read: {kind: jsonl, paths: in/web.jsonl, html: html}\n    extract: {kind: trafilatura}\n"
        "dedup: {exact: {by: [text, url, payload]}}\n"
    )
    run(recipe, tmp_path)
    assert kept(tmp_path) == ["b", "c", "e"]
    found = decisions(tmp_path)
    wanted = ("stage", "rule", "threshold", "kept_id", "similarity")
    assert [found["a"][name] for name in wanted] == ["dedup", "dedup.url", "not equal", "b", None]
    assert [found["d"][name] for name in wanted] == ["dedup", "dedup.payload", "not equal", "c", None]
