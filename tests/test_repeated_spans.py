"""Runs that cut or flag repeated spans: what is cut by hand, what is recorded, lines before spans, the same bytes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import machine
import pyarrow.parquet as pq
import pytest
from machine import run, work

import curate
from curate.errors import RecipeError
from curate.phases.edits import cut_spans
from curate.report.trace import trace
from curate.words import split_words

SHARED, OTHER, THIRD = machine.prose(7, 4), machine.prose(8, 4), machine.prose(9, 4)


def own(number: int) -> str:
    """Return a text with a first and a last word that no other has, so that no span grows beyond what is shared."""
    return f"begin{number} {machine.prose(100 + number, 5)} end{number}"


def write(folder: Path, sources: dict[str, list[str]], dedup: str) -> Path:
    """Write the texts of sources and a recipe; the ids of the input are <source>0, <source>1, ..."""
    recipe = "name: spans\nsources:\n"
    for source, texts in sources.items():
        rows = [{"id": f"{source}{number}", "text": text} for number, text in enumerate(texts)]
        machine.write_jsonl(folder / "in" / f"{source}.jsonl", rows)
        recipe += f'  {source}:\n    read: {{kind: jsonl, paths: "in/{source}.jsonl"}}\n'
    (folder / "recipe.yaml").write_text(f"{recipe}dedup: {dedup}\n")
    return folder / "recipe.yaml"


def table(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [
        row for path in sorted((folder / "run" / kind).rglob("*.parquet")) for row in pq.read_table(path).to_pylist()
    ]


def texts(folder: Path) -> dict[str, str]:
    """Return what was kept, by the id of the input."""
    names = {row["id"]: row["source_id"] for row in table(folder, "extracted")}
    return {names[row["id"]]: row["text"] for row in table(folder, "documents")}


WORDS = split_words(SHARED)
WEB = [
    f"{own(0)}\n\n{SHARED}\n{own(1)}\n",  # w0: SHARED stands first here
    f"{own(2)}\n\n{SHARED}\n{own(3)}\n",
    f"{own(4)} {' '.join(WORDS[3:52])} {own(5)}",  # w2: 49 tokens
    f"{own(6)} {' '.join(WORDS[3:53])} {own(7)}",  # w3: 50, on other lines
    f"{own(8)}\n{OTHER}\n",  # w4 and w5: a text and its copy
    f"{own(8)}\n{OTHER}\n",
    f"{SHARED}\n\n{THIRD}",  # w6: nothing of its own
    f"{own(9)}\n{THIRD.upper()}\n",  # w7: case counts
    f"{own(10)}\n({SHARED}) {own(11)}",  # w8
    f"{own(12)} {own(13)} {own(14)}\n{OTHER}",  # w9: too long for the filter, so that OTHER is in one text only
]
BOOKS = [f"{own(20)}\n{THIRD}"]  # b0, of the source that is kept first


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cut")
    recipe = write(folder, {"w": WEB, "b": BOOKS}, "{spans: {}, keep: {order: [b]}}")
    step = "\n    steps: [{gopher_quality: {max_words: 300}}]"
    recipe.write_text(recipe.read_text().replace('w.jsonl"}', f'w.jsonl"}}{step}'))
    run(recipe, folder)
    return folder


def test_what_is_cut_by_hand(cut: Path) -> None:
    assert len(WORDS) > 60
    found = texts(cut)
    assert found == {
        "w0": WEB[0],
        "w1": f"{own(2)}\n\n{own(3)}\n",
        "w2": WEB[2],
        "w3": f"{own(6)} {own(7)}",
        "w4": WEB[4],
        "w5": WEB[5],
        "w7": WEB[7],
        "w8": f"{own(10)}\n( ) {own(11)}",  # what stands on both sides is not glued
        "b0": BOOKS[0],
    }
    manifest = json.loads((cut / "run" / "manifest.json").read_text())
    assert manifest["ledger"]["w"]["removed"] == {
        "filter": {"gopher_quality.num_words": 1},
        "dedup": {"dedup.spans_empty": 1},
    }
    [row] = [row for row in table(cut, "decisions") if row["stage"] == "dedup"]
    assert (row["stage"], row["rule"], row["value"], row["threshold"]) == ("dedup", "dedup.spans_empty", 1.0, "< 1")


def test_what_is_recorded(cut: Path) -> None:
    extracted = {row["id"]: row for row in table(cut, "extracted")}
    names = {row["id"]: row["source_id"] for row in extracted.values()}
    found = []
    for row in table(cut, "repeated_spans"):
        text = extracted[row["id"]]["text"].encode()[row["start"] : row["end"]].decode()
        found.append((names[row["id"]], split_words(text), row["documents"], names[row["first_id"]], row["first"]))
    third = split_words(THIRD)
    # Windows of SHARED that w3 has, too, are in five documents, the others in four.
    parts = [(WORDS[:52], 4), (WORDS[3:53], 5), (WORDS[4:], 4)]
    assert ("b0", third, 2, "b0", True) in found
    of_shared = [one for one in found if one[3] == "w0"]
    for name in ("w0", "w1", "w6", "w8"):
        assert [one for one in of_shared if one[0] == name] == [
            (name, words, count, "w0", name == "w0") for words, count in parts
        ]
    assert [one for one in of_shared if one[0] == "w3"] == [("w3", WORDS[3:53], 5, "w0", False)]
    assert [one for one in found if one[0] == "w6" and one[3] == "b0"] == [("w6", third, 2, "b0", False)]
    assert len(found) == 4 * 3 + 1 + 2
    manifest = json.loads((cut / "run" / "manifest.json").read_text())
    facts = manifest["repeated_spans"]
    assert {name: facts[name] for name in ("action", "min_tokens", "looked_at", "repeated", "documents", "spans")} == {
        "action": "cut",
        "min_tokens": 50,
        "looked_at": 10,
        "repeated": 6,  # w0, w1, w3, w6, w8, b0
        "documents": 3,  # w1, w3, w8: w6 is removed
        "spans": 3,
    }
    assert facts["tokens"] == 2 * len(WORDS) + 50
    assert (
        facts["bytes"]
        == manifest["ledger"]["w"]["bytes"]["cut"]
        == sum(row["end"] - row["start"] for row in table(cut, "edits"))
    )
    assert [(one["documents"], one["tokens"]) for one in facts["most"]] == [(5, 50), (2, len(third))]
    assert split_words(facts["most"][0]["text"])[:30] == WORDS[3:33]
    life = trace(cut / "run", "w1")
    assert {edit["rule"] for edit in life.edits} == {"dedup.spans"}
    assert cut_spans(WEB[1], life.edits) == texts(cut)["w1"]


def again(cut: Path, folder: Path, *sets: str) -> Any:
    return run(cut / "recipe.yaml", folder, cache=cut / "cache", sets=[f"dedup.spans.{one}" for one in sets])


def test_flagged_spans_stay(cut: Path, tmp_path: Path) -> None:
    result = again(cut, tmp_path, "action=flag")
    assert texts(tmp_path) == {f"w{n}": text for n, text in enumerate(WEB[:9])} | {"b0": BOOKS[0]}
    assert table(tmp_path, "edits") == []
    assert table(tmp_path, "repeated_spans") == table(cut, "repeated_spans")
    facts = result.manifest["repeated_spans"]
    assert (facts["action"], facts["repeated"], facts["documents"], facts["bytes"]) == ("flag", 6, 0, 0)
    assert work(tmp_path)["cluster"] == (2, work(cut)["cluster"][0] - 2)  # of each shard the last task


def test_other_settings(cut: Path, tmp_path: Path) -> None:
    """Of WORDS[3:53], which five documents hold, no copy stays; a document of which more than a bound would go is removed."""
    size = sum(map(len, WORDS[3:53]))
    shares = {f"w{n}": size / sum(map(len, split_words(WEB[n]))) for n in (0, 1, 3, 6, 8)}
    bound = sorted(shares.values())[2]
    again(cut, tmp_path, "keep_first=false", "min_documents=5", "sources=[w]", f"max_share={bound!r}")
    found = texts(tmp_path)
    assert found["b0"] == BOOKS[0]
    gone = [name for name, share in shares.items() if share > bound]
    assert len(gone) == 2
    assert set(found) == {"b0", *(f"w{n}" for n in range(9))} - set(gone)
    left = {"w3": f"{own(6)} {own(7)}"}
    for name, before, behind in (
        ("w0", own(0), own(1)),
        ("w1", own(2), own(3)),
        ("w8", f"{own(10)} (", f") {own(11)}"),
    ):
        left[name] = f"{before} {' '.join([*WORDS[:3], *WORDS[53:]])} {behind}"
    for name in shares.keys() - set(gone):
        assert split_words(found[name]) == split_words(left[name])
    rows = [row for row in table(tmp_path, "decisions") if row["stage"] == "dedup"]
    assert {(row["rule"], row["threshold"]) for row in rows} == {("dedup.spans_share", f"<= {bound:g}")}
    assert sorted(row["value"] for row in rows) == sorted(shares[name] for name in gone)


def test_lines_go_first(tmp_path: Path) -> None:
    """What lines cut is no part of a span: of two halves around a menu a span is made, and the edits do not meet."""
    menu = "Home | News | Contact"
    half = len(WORDS) // 2
    parts = " ".join(WORDS[:half]), " ".join(WORDS[half:])
    pages = [f"{own(n)} {parts[0]}\n{menu}\n{parts[1]} {own(50 + n)}" for n in range(3)]
    recipe = write(tmp_path, {"w": [*pages, menu]}, "{lines: {within: source, min_share: 0.5}, spans: {}}")
    result = run(recipe, tmp_path)
    found = texts(tmp_path)
    assert found == {
        "w0": f"{own(0)} {parts[0]}\n{parts[1]} {own(50)}",
        "w1": f"{own(1)} {own(51)}",
        "w2": f"{own(2)} {own(52)}",
    }
    rows = table(tmp_path, "edits")
    for _, edits in itertools.groupby(rows, key=lambda row: row["id"]):
        assert all(one["end"] <= other["start"] for one, other in itertools.pairwise(edits))
    assert {row["rule"] for row in rows} == {"dedup.lines", "dedup.spans"}
    assert sum(row["end"] - row["start"] for row in rows) == result.manifest["ledger"]["w"]["bytes"]["cut"]
    spans = sum(row["end"] - row["start"] for row in rows if row["rule"] == "dedup.spans")
    assert spans == result.manifest["repeated_spans"]["bytes"]


def test_wrong_settings_are_refused_where_they_stand(tmp_path: Path) -> None:
    for dedup, message in (
        ("{spans: {sources: [x]}}", r"recipe.yaml:5: dedup.spans.sources: names 'x', which is no source of texts"),
        ("{spans: {min_tokens: 3}}", r"recipe.yaml:5: dedup.spans.min_tokens: must be at least 4; got 3"),
        ("{spans: {action: flag, max_share: 0.5}}", r"recipe.yaml:5: dedup.spans.*max_share removes documents"),
        ("{spans: {tokens: 50}}", r"recipe.yaml:5: dedup.spans.tokens: unknown key; did you mean 'min_tokens'"),
    ):
        with pytest.raises(RecipeError, match=message):
            curate.load(write(tmp_path, {"w": [own(1)]}, dedup))


def test_memory_workers_and_batches_change_nothing(cut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import curate.pipeline

    monkeypatch.setattr(curate.pipeline, "BATCH_ROWS", 3)
    run(cut / "recipe.yaml", tmp_path, workers=1, memory=1 << 16)
    assert machine.contents(tmp_path / "run") == machine.contents(cut / "run")
