"""`curate audit`: what a recipe would destroy among known-good documents, with numbers worked out by hand."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.audit import audit, audit_lines, keeping
from curate.errors import RecipeError, UsageError
from curate.good import STANDARD, good_documents, good_files

DATA = Path(os.environ.get("CURATE_DATA") or machine.ROOT.parent / "shared" / "data")
OFF = (
    "min_stop_words: off, mean_word_length: off, max_hash_ratio: off, max_ellipsis_ratio: off, "
    "max_bullet_line_fraction: off, max_ellipsis_line_fraction: off, min_alpha_word_fraction: off"
)
RECIPE = f"""\
name: hurt
sources:
  web:
    read: {{kind: warc, paths: "nowhere/*.warc.gz"}}
    extract: {{kind: auto}}
    steps:
      - gopher_quality: {{min_words: 4, max_words: 8, {OFF}}}
      - c4_lines: {{min_sentences: 1, min_words_per_line: 3}}
      - where: "num_words >= 4"
  other:
    read: {{kind: jsonl, paths: "nowhere/*.jsonl"}}
"""
FOUR = "We count the words."
CUT = "We count these words here.\nno mark behind this"  # nine words, five behind C4's line edit


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    (folder / "recipe.yaml").write_text(RECIPE)
    good = folder / "good"
    news = [
        {"id": "n1", "text": FOUR, "lang": "en", "page_type": "article", "url": "https://example.org/1"},
        {"id": "n2", "text": "Two words.", "lang": "en", "page_type": "article"},
        {"id": "n3", "text": "Four words, no mark", "lang": "pt", "page_type": "forum"},
        {"id": "n4", "text": "  ", "lang": "pt", "page_type": "forum"},
    ]
    machine.write_jsonl(good / "news" / "a.jsonl", news)
    (good / "pages").mkdir()
    table = pa.table({"text": [CUT, FOUR], "language": ["en", "en"], "kind": ["manual", "manual"]})
    pq.write_table(table, good / "pages" / "b.parquet")
    (good / "pages" / "plain.txt.gz").write_bytes(gzip.compress(FOUR.encode()))
    (good / "pages" / "notes.pdf").write_bytes(b"not read")
    return folder


def result(project: Path, **options: Any) -> dict[str, Any]:
    options = {"good": project / "good", "cache": project / "cache", "workers": 1, **options}
    return audit(project / "recipe.yaml", **options)


def test_good_documents_are_read_with_what_they_are(project: Path) -> None:
    found = list(good_documents(good_files(project / "good")))
    assert [(one.collection, one.kind, one.language) for one in found] == [
        ("news", "article", "en"),
        ("news", "article", "en"),
        ("news", "forum", "pt"),
        ("pages", "manual", "en"),
        ("pages", "manual", "en"),
        ("pages", "pages", "unknown"),
    ]
    assert [one.id for one in found[:3]] == ["n1", "n2", "n3"]
    assert (found[0].url, found[-1].text, found[-1].id) == ("https://example.org/1", FOUR, "plain.txt.gz")


def test_what_each_rule_destroys_by_hand(project: Path) -> None:
    # num_words: 4, 2, 4, 9, 4, 4; 4 to 8 stay: n2 and the long page go. Behind C4's line edit there are 4, 0, 0, 5, 4, 4:
    # "Two words." has too few words for a line, "Four words, no mark" no end. Nothing is left of n2 and n3.
    answer = result(project)
    assert answer["documents"] == 6
    assert answer["groups"]["kind"] == {"article": 2, "manual": 2, "forum": 1, "pages": 1}
    assert list(answer["sources"]) == ["web"]  # the other source has no steps
    web = answer["sources"]["web"]
    assert (web["documents"], web["removed"], web["removed_by_label"]) == (6, 3, 0)
    rules = {rule["rule"]: rule for rule in web["rules"]}
    counts = {name: (rule["documents"], rule["alone"], rule["reason"]) for name, rule in rules.items()}
    assert counts == {
        "gopher_quality.num_words": (2, 1, 2),
        "c4_lines.lorem_ipsum": (0, 0, 0),
        "c4_lines.curly_bracket": (0, 0, 0),
        "c4_lines.empty": (2, 0, 1),
        "c4_lines.min_sentences": (2, 0, 0),
        "where.expression": (2, 0, 0),  # it sees the text behind the edit
    }
    assert rules["c4_lines.empty"]["groups"]["kind"] == {"article": 1, "forum": 1}
    assert rules["gopher_quality.num_words"]["share"] == pytest.approx(2 / 6)
    kinds = {group["name"]: group for group in web["groups"] if group["by"] == "kind"}
    assert {name: (one["documents"], one["removed"]) for name, one in kinds.items()} == {
        "article": (2, 1),
        "manual": (2, 1),
        "forum": (1, 1),
        "pages": (1, 0),
    }
    languages = {group["name"]: group["share"] for group in web["groups"] if group["by"] == "language"}
    assert languages == {"en": pytest.approx(2 / 4), "pt": 1.0, "unknown": 0.0}
    pair = web["overlap"][0]
    assert (pair["documents"], pair["of_first"], pair["of_second"]) == (2, 1.0, 1.0)
    together = {tuple(pair["rules"]): pair["documents"] for pair in web["overlap"]}
    assert together["gopher_quality.num_words", "c4_lines.empty"] == 1
    keeps = rules["gopher_quality.num_words"]["keeps"]
    assert keeps["all"] == {"at_least": 2.0, "at_most": 9.0}  # of six documents 99% are all six
    assert keeps["kinds"]["manual"] == {"at_least": 4.0, "at_most": 9.0}
    sample = next(one for one in rules["gopher_quality.num_words"]["samples"] if one["kind"] == "manual")
    assert (sample["value"], sample["bound"], sample["also_fired"]) == (9, "4 to 8", [])
    assert sample["begins"].startswith("We count these words here.")


def test_the_terminal_shows_it(project: Path) -> None:
    lines = "\n".join(audit_lines(result(project)))
    assert "web: 3 of 6 would go (50.0%)." in lines
    assert "never fired: c4_lines.lorem_ipsum, c4_lines.curly_bracket" in lines
    assert ">= 2 (of every kind: 2), <= 9 (of every kind: 9)" in lines


def test_another_bound_and_one_source(project: Path) -> None:
    answer = result(project, sets=["sources.web.steps.gopher_quality.max_words=9"], source="web")
    assert answer["sources"]["web"]["removed"] == 2
    with pytest.raises(UsageError, match=r"--source other\. Sources with steps: web"):
        result(project, source="other")


def test_a_label_says_what_is_not_wanted(project: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "sources: {a: {read: {kind: jsonl, paths: x}, steps: [{language: {keep: [en], min_score: off}}, "
        f"{{gopher_quality: {{min_words: 50, {OFF}}}}}]}}}}\n"
    )
    english = (
        "The weather was cold and the people of the town stayed in their houses for the whole of the evening. " * 4
    )
    portuguese = (
        "O tempo estava frio e as pessoas da cidade ficaram nas suas casas durante toda a noite de inverno. " * 2
    )
    machine.write_jsonl(
        tmp_path / "good" / "a.jsonl", [{"text": english}, {"text": portuguese}, {"text": english[:60]}]
    )
    source = audit(recipe, good=tmp_path / "good", cache=tmp_path / "cache", workers=1)["sources"]["a"]
    assert (source["removed"], source["removed_by_label"]) == (2, 1)
    words = next(rule for rule in source["rules"] if rule["rule"] == "gopher_quality.num_words")
    assert (words["documents"], words["share"], words["share_of_wanted"]) == (2, pytest.approx(2 / 3), 0.5)
    assert words["keeps"]["all"]["at_least"] == 13.0  # in sixty characters; the Portuguese text does not count


def test_what_a_corpus_decides_is_not_judged(project: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"sources: {{a: {{read: {{kind: jsonl, paths: x}}, steps: [{{gopher_quality: {{min_words: {{keep: 0.5}}, {OFF}}}}}, "
        "{quality_buckets: {scores: num_words, buckets: 2, min_bucket: 1}}, {where: quality_bucket > 0}, {c4_lines: {}}]}}\n"
    )
    source = audit(recipe, good=project / "good", cache=project / "cache", workers=1)["sources"]["a"]
    ranked = ["gopher_quality.num_words", "quality_buckets.min_bucket", "where.expression"]
    assert source["not_judged"] == ranked
    assert [rule["rule"].partition(".")[0] for rule in source["rules"]] == ["c4_lines"] * 4


def test_code_of_the_recipe_is_run_when_allowed(tmp_path: Path, project: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import pyarrow as pa\n"
        "from curate.stage import Rule, Step\n"
        "class Vowels(Step):\n"
        "    adds = {'num_vowels': 'int64'}\n"
        "    def apply(self, batch):\n"
        "        texts = batch['text'].to_pylist()\n"
        "        return pa.record_batch({'num_vowels': pa.array([sum(c in 'aeiou' for c in t or '') for t in texts], pa.int64())})\n"
        "    def rules(self, block):\n"
        "        return (Rule(f'{block}.some', 'num_vowels', at_least=5.0),)\n"
    )
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("sources: {a: {read: {kind: jsonl, paths: x}, steps: ['mine:Vowels']}}\n")
    options: dict[str, Any] = {"good": project / "good", "cache": tmp_path / "cache", "workers": 1}
    with pytest.raises(RecipeError, match="--allow-code"):
        audit(recipe, **options)
    (rule,) = audit(recipe, allow_code=True, **options)["sources"]["a"]["rules"]
    # "We count the words." has e, o, u, e, o; "Two words." o, o; "Four words, no mark" o, u, o, o, a
    assert (rule["rule"], rule["documents"]) == ("Vowels.some", 1)


@pytest.mark.parametrize("count", [1, 99, 100, 101, 200, 1000])
def test_the_bound_that_keeps_ninety_nine_of_a_hundred(count: int) -> None:
    values = np.random.default_rng(count).permutation(np.arange(1.0, count + 1))
    spared = count // 100
    assert keeping(values, low=True, high=False) == {"at_least": 1.0 + spared, "at_most": None}
    assert keeping(values, low=False, high=True) == {"at_least": None, "at_most": float(count - spared)}
    both = keeping(values, low=True, high=True)
    assert both == {"at_least": 1.0 + count // 200, "at_most": float(count - count // 200)}


def test_a_document_without_a_value_stays_whatever_the_bound() -> None:
    values = np.array([np.nan] * 150 + list(np.arange(50.0)))
    assert keeping(values, low=True, high=False)["at_least"] == 2.0  # of 200 documents two may go: 0 and 1
    assert keeping(np.full(3, np.nan), low=True, high=False)["at_least"] is None
    assert keeping(np.zeros(0), low=True, high=True) == {"at_least": None, "at_most": None}
    assert keeping(np.array([4.0] * 100), low=True, high=False)["at_least"] == 4.0


def test_without_good_documents_it_says_what_to_do(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CURATE_DATA", raising=False)
    with pytest.raises(UsageError, match=r"\$CURATE_DATA is not set. Name a folder"):
        result(project, good=None)
    monkeypatch.setenv("CURATE_DATA", str(tmp_path))
    with pytest.raises(UsageError, match="has none of 02_gold/wcxb"):
        result(project, good=None)
    with pytest.raises(UsageError, match="no such folder"):
        result(project, good=tmp_path / "none")
    with pytest.raises(UsageError, match="no file in it ends in"):
        result(project, good=tmp_path)
    machine.write_jsonl(tmp_path / "b.jsonl", [{"body": "Not here."}])
    with pytest.raises(UsageError, match=r"no document with a text in .*b\.jsonl \(b\.jsonl: "):
        result(project, good=tmp_path)


def test_what_cannot_be_read_is_left_out_and_named(project: Path, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("The lock keeper wrote the toll in a green book.")
    (tmp_path / "noise.txt").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "rows.jsonl").write_text('{"text": "One line of a good page."}\n{"text": "cut\n{"text": " "}\n')
    found = result(project, good=tmp_path)
    assert found["documents"] == 2
    reasons = found["left_out"]
    assert (
        reasons["noise.txt: not a text file"] == reasons["empty.txt: no text"] == reasons["rows.jsonl: empty text"] == 1
    )
    assert sum(reasons.values()) == 4  # the line that is no JSON, in the reader's words
    lines = audit_lines(found)
    assert lines[1] == "Left out: 4 records that could not be read or hold no text."
    assert any("rows.jsonl: " in line for line in lines)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"REAL DATA MISSING: {DATA} is not there; set CURATE_DATA")
def test_the_standard_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATE_DATA", str(DATA))
    files = good_files(None)
    assert [collection for collection, _ in files] == list(STANDARD)
    found = list(good_documents(files))
    counts = {collection: sum(one.collection == collection for one in found) for collection in STANDARD}
    # 02_gold's README; books: 53 texts
    assert counts == {
        "wcxb": 240,
        "scrapinghub": 104,
        "daniel": 130,
        "zh_handcrafted": 35,
        "template_docs": 78,
        "template_docs_ptbr": 30,
        "books": 53,
    }
    kinds = {one.kind for one in found if one.collection == "wcxb"}
    assert kinds == {"article", "forum", "product", "collection", "listing", "documentation", "service"}
    assert sum(one.language == "pt" for one in found if one.collection == "books") == 20


def test_the_command(project: Path) -> None:
    where = ["--good", project / "good", "--cache", project / "cache", "--workers", "1"]
    shown = machine.command("audit", project / "recipe.yaml", *where, "--output", project / "audit.json")
    assert shown.returncode == 0, shown.stderr
    assert "web: 3 of 6 would go (50.0%)." in shown.stdout
    assert json.loads((project / "audit.json").read_text())["sources"]["web"]["removed"] == 3
    assert not (project / "runs").exists()
    refused = machine.command("audit", project / "recipe.yaml", environment={"CURATE_DATA": ""})
    assert (refused.returncode, "--good DIR" in refused.stderr) == (2, True)


def test_the_page_of_the_command(project: Path) -> None:
    where = ["--good", project / "good", "--cache", project / "cache", "--workers", "1"]
    shown = machine.command("audit", project / "recipe.yaml", *where, "--output", project / "audit.html")
    assert shown.returncode == 0, shown.stderr
    page = (project / "audit.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "3 of 6 would go (50.0%)" in page
