"""Partitions of keys as tasks of a run: however they are cut the same duplicates, and what has a result is not done again."""

from __future__ import annotations

import shutil
from pathlib import Path

import machine
import pyarrow.parquet as pq
import pytest

from curate import curation
from curate.dedup import bands


def pages(folder: Path) -> Path:
    """Write four files of ten texts: every third one again in another file, every fourth with a sentence less."""
    texts = [machine.prose(number, 12) for number in range(20)]
    texts += [text if number % 3 else text.replace("\n", " ") for number, text in enumerate(texts[:10])]
    texts += [text.rpartition("\n")[0] for text in texts[:10]]
    for number in range(4):
        rows = [{"text": text, "url": f"https://site.example/{place % 31}"} for place, text in enumerate(texts)]
        machine.write_jsonl(folder / "in" / f"{number}.jsonl", rows[number::4])
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        'name: tasks\nsources:\n  web:\n    read: {kind: jsonl, paths: "in/*.jsonl"}\n'
        "dedup: {exact: {by: [text, url]}, minhash: {}}\n"
    )
    return recipe


def test_tasks_of_any_size_find_the_same_and_are_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = pages(tmp_path)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    machine.run(recipe, whole, until="cluster")
    expected = (whole / "run" / "duplicates.parquet").read_bytes()
    assert pq.read_metadata(whole / "run" / "duplicates.parquet").num_rows > 25

    monkeypatch.setattr(curation, "SHARD_FILES", 1)
    monkeypatch.setattr(bands, "_FEW", 4)
    monkeypatch.setattr(bands, "_UNIT", 32)
    machine.run(recipe, parts, until="cluster")
    assert (parts / "run" / "duplicates.parquet").read_bytes() == expected
    entries = parts / "cache" / "entries"
    made = {name: sorted(entries.glob(f"*/*/{name}")) for name in ("records.bin", "copies.bin", "near.bin")}
    # 40 documents: 8 * sqrt(40 / 32) = 8.9, so 16 partitions; four shards are four groups, of texts and of bands.
    assert {name: len(found) for name, found in made.items()} == {"records.bin": 8, "copies.bin": 16, "near.bin": 16}
    tasks = sum(machine.work(parts)["cluster"])

    shutil.rmtree(made["near.bin"][5].parent)  # as though the run had been killed before this task was done
    machine.run(recipe, parts, until="cluster")
    assert machine.work(parts)["cluster"] == (1, tasks - 1)
    assert (parts / "run" / "duplicates.parquet").read_bytes() == expected
