"""Deduplication by whole runs: the fault cases as recipes, and the same bytes whatever may differ between two runs."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import machine
import pyarrow.parquet as pq
import pytest

DATA = Path(os.environ.get("CURATE_DATA") or machine.ROOT.parent / "shared" / "data")
CASES = DATA.parent / "cases"


def cases() -> dict[str, dict[str, Any]]:
    path = CASES / "cases.jsonl"
    if not path.exists():
        pytest.skip(f"fault cases are absent: no folder {CASES}; set CURATE_DATA to the data folder beside it")
    with path.open(encoding="utf-8") as lines:
        return {entry["id"]: entry for entry in map(json.loads, lines)}


def documents_of(entry: dict[str, Any]) -> list[dict[str, Any]]:
    if entry["input"]["form"] == "docs":
        found: list[dict[str, Any]] = entry["input"]["docs"]
        return found
    with (CASES / entry["input"]["path"]).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Run:
    """A finished run, with documents by the names that the cases give them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text())
        rows = pq.read_table(folder / "extracted", columns=["id", "source_id"]).to_pylist()
        self.names = {row["id"]: row["source_id"] for row in rows}  # a document without text is not among them
        self.rows = {
            (source.name, self.names.get(row["id"], row["id"])): row
            for source in sorted((folder / "decisions").iterdir())
            for row in pq.read_table(source).to_pylist()
        }

    def kept(self, source: str) -> list[str]:
        return [name for (where, name), row in self.rows.items() if where == source and row["kept"]]

    def removed(self, source: str) -> dict[str, str]:
        return {name: row["rule"] for (where, name), row in self.rows.items() if where == source and not row["kept"]}

    def copies(self, source: str) -> int:
        """Return the ledger's count of copies removed."""
        return sum(self.manifest["ledger"][source]["removed"].get("dedup", {}).values())


def run_cases(folder: Path, names: list[str], dedup: str) -> tuple[Run, dict[str, dict[str, Any]]]:
    """Run a recipe with one source a case."""
    known = cases()
    sources = ""
    for name in names:
        machine.write_jsonl(folder / f"{name}.jsonl", documents_of(known[name]))
        sources += f"  {name}:\n    read: {{kind: jsonl, paths: {name}.jsonl}}\n"
    recipe = folder / "recipe.yaml"
    recipe.write_text(f"name: cases\nsources:\n{sources}dedup:\n{dedup}")
    machine.run(recipe, folder, until="collect")
    return Run(folder / "run"), {name: known[name]["expect"] for name in names}


def test_cases_as_a_recipe(tmp_path: Path) -> None:
    """exact-001, -002, -004 and near-002, -003, -005: each `expect` key, of one run with a source a case."""
    names = ["exact-001", "exact-002", "exact-004", "near-002", "near-003", "near-005"]
    run, expect = run_cases(
        tmp_path,
        names,
        "  exact: {}\n  minhash: {verify: 0.8}\n"
        "  lines: {within: corpus, unit: paragraph, min_documents: 2, min_share: 0, sources: [exact-004]}\n"
        "  keep: {then: first}\n",
    )
    for name in ("exact-001", "exact-002", "exact-004", "near-003"):
        assert run.kept(name) == expect[name]["expected_kept_ids"], name
    assert run.copies("exact-001") == expect["exact-001"]["expected_report"]["duplicates"] == 0
    assert run.manifest["ledger"]["exact-001"]["removed"] == {
        "extract": {"extract.empty": expect["exact-001"]["expected_report"]["empty"]}
    }
    assert run.copies("exact-002") == expect["exact-002"]["expected_report"]["duplicates"] == 2
    assert run.removed("exact-002") == {"b": "dedup.exact", "c": "dedup.exact"}
    # One document alone: its first pass over paragraphs does not make its own paragraphs repeated ones.
    assert run.manifest["repeated_lines"]["looked_at"] == 1
    assert run.manifest["repeated_lines"]["lines"] == expect["exact-004"]["expected_metrics"]["paragraphs_removed"]

    assert len(run.kept("near-002")) >= expect["near-002"]["min_kept"]
    texts = {one["id"]: set(zip(*(one["text"].split()[i:] for i in range(5)), strict=False)) for one in chain()}
    for name in run.removed("near-002"):
        row = run.rows["near-002", name]
        kept = run.names[row["kept_id"]]
        assert kept in run.kept("near-002")
        assert row["similarity"] == len(texts[name] & texts[kept]) / len(texts[name] | texts[kept])
        assert row["similarity"] >= expect["near-002"]["every_dropped_has_kept_neighbour"]

    gone = Counter(name[:2] for name in run.removed("near-005"))
    assert gone["hi"] >= expect["near-005"]["expected_min_removed"]["hi"]
    assert gone["lo"] <= expect["near-005"]["expected_max_removed"]["lo"]
    for name in run.removed("near-005"):
        assert run.names[run.rows["near-005", name]["kept_id"]][:-1] == name[:-1]


def chain() -> list[dict[str, Any]]:
    return documents_of(cases()["near-002"])


# -- the same bytes ----------------------------------------------------------------------------------------------------

KINDS = """\
dedup:
  exact: {by: [text, url]}
  minhash: {verify: 0.7}
  lines: {within: corpus, min_documents: 3, min_share: 0.05}
  spans: {min_tokens: 30}
  keep: {order: [books, web], then: [latest, longest]}
  signatures: true
validation: {tokens: 100, min_documents: 2}
"""


def project(folder: Path) -> Path:
    """Write a project with copies of every kind in it, near-002 and near-005 among them; return the recipe."""
    known = cases()
    documents = [*documents_of(known["near-002"]), *documents_of(known["near-005"])]
    lines = [f"The notice number {number} stands on all pages of the guild." for number in range(3)]
    for seed in range(30):
        text = machine.prose(seed)
        documents.append(
            {"id": f"p{seed}", "text": f"{lines[seed % 3]}\n{text}\n{lines[0]}", "date": f"2020-01-{seed + 1:02d}"}
        )
        if seed % 5 == 1:  # another version of a page that no book holds, under the same address
            address = f"https://mill.test/{seed}"
            documents[-1]["url"] = address
            documents.append({"id": f"u{seed}", "text": machine.prose(500 + seed), "url": address + "#top"})
        if seed % 7 == 0:  # pages that quote the same passage
            documents.append({"id": f"q{seed}", "text": machine.prose(700 + seed) + " " + machine.prose(999, 4)})
        if seed % 3 == 0:
            documents.append({"id": f"e{seed}", "text": f"  {lines[0]}\n\n{text} \n{lines[0]}"})
        if seed % 4 == 0:
            documents.append(
                {"id": f"n{seed}", "text": text.replace("seed", "grain") + "\n" + machine.sentence(10**6 + seed)}
            )
    documents.sort(key=lambda one: hashlib.sha256(one["id"].encode()).digest())
    for number in range(4):
        machine.write_jsonl(folder / "in" / "web" / f"part-{number}.jsonl", documents[number::4])
    machine.write_jsonl(
        folder / "in" / "books" / "b.jsonl",
        [{"id": f"b{seed}", "text": machine.prose(seed)} for seed in range(0, 30, 5)],
    )
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        "name: same\nseed: 3\nsources:\n"
        '  web:\n    read: {kind: jsonl, paths: "in/web/*.jsonl"}\n'
        "  books:\n    read: {kind: jsonl, paths: in/books/b.jsonl}\n" + KINDS
    )
    return recipe


def signature_digests(cache: Path) -> list[str]:
    """Return the digests of all files of signatures that a cache holds."""
    found = [
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in cache.rglob("measurements.parquet")
        if "exact_hash" in pq.read_schema(path).names
    ]
    return sorted(found)


def test_hash_seed_workers_and_memory_change_no_byte(tmp_path: Path) -> None:
    """near-004, by the command: kept ids, signatures and every file of the run folder."""
    recipe = project(tmp_path)
    answers = []
    for hash_seed, workers, memory in (("1", 1, "1G"), ("2", 4, "1M")):
        name = f"{hash_seed}-{workers}"
        done = machine.command(
            *("run", recipe, "--output", tmp_path / name, "--cache", tmp_path / f"cache-{name}", "--quiet"),
            *("--workers", workers, "--memory", memory, "--until", "collect"),
            environment={"PYTHONHASHSEED": hash_seed},
        )
        assert done.returncode == 0, done.stderr
        answers.append((machine.contents(tmp_path / name), signature_digests(tmp_path / f"cache-{name}")))
    assert answers[0] == answers[1]
    assert len(answers[0][1]) >= 2
    run = Run(tmp_path / "1-1")
    rules = Counter(rule for source in ("web", "books") for rule in run.removed(source).values())
    assert rules["dedup.exact"] >= 5
    assert rules["dedup.minhash"] >= 40
    assert rules["dedup.url"] >= 4
    assert run.manifest["repeated_spans"]["documents"] >= 3
    assert any(name.startswith("signatures/") for name in answers[0][0])
    assert run.manifest["repeated_lines"]["lines"] >= 30


@pytest.mark.slow
def test_exact_copies_ten_times_with_four_workers(tmp_path: Path) -> None:
    """exact-003 as it stands: p,q and q,p with one worker, p,q with four workers ten times."""
    expect = cases()["exact-003"]["expect"]
    machine.write_jsonl(
        tmp_path / "p.jsonl", [{"id": "a1", "text": "Same text here."}, {"id": "a2", "text": "Other text."}]
    )
    machine.write_jsonl(
        tmp_path / "q.jsonl", [{"id": "b1", "text": "Same text here."}, {"id": "b2", "text": "Third text."}]
    )

    def run(name: str, paths: str, workers: int) -> Path:
        recipe = tmp_path / f"{name}.yaml"
        recipe.write_text(
            f"name: r\nsources:\n  own:\n    read: {{kind: jsonl, paths: {paths}}}\ndedup: {{exact: {{}}}}\n"
        )
        done = machine.command(
            *("run", recipe, "--output", tmp_path / name, "--cache", tmp_path / f"cache-{name}", "--quiet"),
            *("--workers", workers, "--until", "collect"),
        )
        assert done.returncode == 0, done.stderr
        return tmp_path / name

    one, turned = run("pq", "[p.jsonl, q.jsonl]", 1), run("qp", "[q.jsonl, p.jsonl]", 1)
    assert Run(one).kept("own") == ["a1", "a2", "b2"]
    assert Run(turned).kept("own") == ["b1", "b2", "a2"]
    many = [run(f"pq-{number}", "[p.jsonl, q.jsonl]", 4) for number in range(10)]
    assert [len(Run(path).kept("own")) for path in (one, turned, many[0])] == expect["expected_kept_counts"]
    assert expect["identical_across_workers"]
    assert all(machine.contents(path) == machine.contents(one) for path in many)
