"""`curate what-if`: other bounds over a finished run, against numbers worked out by hand and against real runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import machine
import pytest

from curate.errors import InputError, RecipeError, UsageError
from curate.runner import run
from curate.what_if import what_if, what_if_lines

DATA = Path(os.environ.get("CURATE_DATA") or machine.ROOT.parent / "shared" / "data")
GOPHER_OFF = (
    "mean_word_length: off, max_hash_ratio: off, max_ellipsis_ratio: off, max_bullet_line_fraction: off, "
    "max_ellipsis_line_fraction: off, min_alpha_word_fraction: off"
)
RECIPE = f"""\
name: words
sources:
  a:
    read: {{kind: jsonl, paths: a.jsonl}}
    steps:
      - gopher_quality: {{min_words: 3, max_words: 5, min_stop_words: off, {GOPHER_OFF}}}
      - where: "num_words <> 4"
  b:
    read: {{kind: jsonl, paths: b.jsonl}}
    steps: [{{fineweb: {{min_terminal_line_fraction: 0.5, max_short_line_fraction: off}}}}]
"""


def words(count: int, first: int = 0) -> str:
    """Return so many words of four letters: 5 * count - 1 bytes."""
    return " ".join(
        f"w{chr(97 + (first + place) // 26 % 26)}{chr(97 + (first + place) % 26)}x" for place in range(count)
    )


def finished(folder: Path, recipe: str, **sources: list[str]) -> Path:
    for name, texts in sources.items():
        machine.write_jsonl(
            folder / f"{name}.jsonl", [{"id": f"{name}{n}", "text": text} for n, text in enumerate(texts)]
        )
    (folder / "recipe.yaml").write_text(recipe)
    run(folder / "recipe.yaml", output=folder / "run", cache=folder / "cache", workers=1, quiet=True)
    return folder / "run"


@pytest.fixture(scope="module")
def words_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    texts = [words(count, 10 * count) for count in range(1, 7)]
    return finished(folder, RECIPE, a=texts, b=["One line ends here.", "Two lines here\nand no mark"])


def triple(documents: int, size: int, tokens: int) -> dict[str, int]:
    return {"documents": documents, "bytes": size, "tokens": tokens}


def test_gained_and_lost_by_hand(words_run: Path) -> None:
    # Texts of 1 to 6 words: 4, 9, 14, 19, 24, 29 bytes. 3 to 5 words stay, but not 4: those of 14 and 24 bytes.
    # With 2 to 4 words those of 9 and 14 bytes stay. Without a tokenizer a token is 4 bytes.
    sets = ["sources.a.steps.gopher_quality.min_words=2", "sources.a.steps.gopher_quality.max_words=4"]
    result = what_if(words_run, sets=sets)
    a = result["sources"]["a"]
    assert a["extracted"] == triple(6, 99, 25)  # 24.75
    assert a["passed_before"] == triple(2, 38, 10)  # 9.5, to the even neighbour
    assert a["passed_after"] == triple(2, 23, 6)
    assert a["gained"] == triple(1, 9, 2)
    assert a["lost"] == triple(1, 24, 6)
    assert (a["kept_before"], a["kept_after"]) == (a["passed_before"], a["passed_after"])
    num_words, where = a["rules"]
    assert (num_words["rule"], num_words["bound_before"], num_words["bound_after"]) == (
        "gopher_quality.num_words",
        "3 to 5",
        "2 to 4",
    )
    assert (num_words["fired_before"], num_words["fired_after"]) == (3, 3)  # 1, 2, 6; then 1, 5, 6
    assert num_words["removed_before"] == triple(3, 4 + 9 + 29, 10)
    assert num_words["removed_after"] == triple(3, 4 + 24 + 29, 14)
    assert (num_words["gained"], num_words["lost"]) == (triple(1, 9, 2), triple(1, 24, 6))
    assert where["removed_before"] == where["removed_after"] == triple(1, 19, 5)
    b = result["sources"]["b"]
    assert (b["passed_before"], b["gained"]["documents"], b["lost"]["documents"]) == (triple(1, 19, 5), 0, 0)
    assert result["total"]["passed_after"] == triple(3, 42, 11)  # 6 + 5
    gained, lost = a["samples"]
    assert (gained["change"], gained["rule"], len(gained["samples"])) == ("gained", "gopher_quality.num_words", 1)
    assert gained["samples"][0]["begins"] == words(2, 20)
    assert gained["samples"][0]["fired"] == [{"rule": "gopher_quality.num_words", "value": 2, "bound": "3 to 5"}]
    assert lost["samples"][0]["fired"] == [{"rule": "gopher_quality.num_words", "value": 5, "bound": "2 to 4"}]
    assert (result["needs_text"], result["not_recomputed"]) == ([], [])


def test_a_document_may_go_for_another_reason(words_run: Path) -> None:
    a = what_if(words_run, sets=["sources.a.steps.gopher_quality.max_words=3"])["sources"]["a"]
    # 5 words are lost; 4 words went by `where` and now go by the bound before it.
    assert (a["lost"], a["gained"]["documents"], a["other_reason"]) == (triple(1, 24, 6), 0, 1)


def test_an_expression_can_be_another(words_run: Path) -> None:
    a = what_if(words_run, sets=['sources.a.steps.where="num_words <= 4"'])["sources"]["a"]
    assert (a["gained"], a["lost"]) == (triple(1, 19, 5), triple(1, 24, 6))


def test_a_bound_can_be_a_share_of_the_documents(words_run: Path) -> None:
    # Half of six documents: those of 4, 5 and 6 words; `where` takes the one of 4.
    sets = ["sources.a.steps.gopher_quality.min_words={keep: 0.5}", "sources.a.steps.gopher_quality.max_words=off"]
    a = what_if(words_run, sets=sets)["sources"]["a"]
    assert (a["passed_after"], a["gained"], a["lost"]) == (triple(2, 53, 13), triple(1, 29, 7), triple(1, 14, 4))
    assert a["rules"][0]["bound_after"] == ">= 4 (keep 0.5)"


def test_what_needs_text_is_named(words_run: Path) -> None:
    sets = ["sources.b.steps.fineweb.short_line_length=20", "sources.a.steps.gopher_quality.min_words=2", "seed=9"]
    result = what_if(words_run, sets=sets)
    assert [(entry["source"], entry["step"]) for entry in result["needs_text"]] == [("b", "fineweb")]
    assert list(result["sources"]) == ["a"]
    assert result["not_recomputed"] == ["seed"]
    lines = "\n".join(what_if_lines(result))
    assert "b: fineweb would measure anew, and that needs text. Run it" in lines
    assert "  Not recomputed: seed. Run it to see what that changes." in lines.splitlines()
    with pytest.raises(UsageError, match=r"a: repair would differ, and that needs text; b: .* Run it"):
        what_if(words_run, sets=["sources.a.repair.kind=ftfy", "sources.b.steps=[pii]"])


def test_ranks_need_a_run_if_other_documents_are_ranked(tmp_path: Path) -> None:
    recipe = f"""\
name: ranks
sources:
  a:
    read: {{kind: jsonl, paths: a.jsonl}}
    steps:
      - gopher_quality: {{min_words: 2, max_words: off, min_stop_words: off, {GOPHER_OFF}}}
      - quality_buckets: {{scores: num_words, buckets: 4, min_bucket: 1}}
"""
    folder = finished(tmp_path, recipe, a=[words(count, 10 * count) for count in range(1, 6)])
    # Of 2, 3, 4 and 5 words each fills a bucket: 1 and more keeps all but that of 2 words, 3 only that of 5.
    a = what_if(folder, sets=["sources.a.steps.quality_buckets.min_bucket=3"])["sources"]["a"]
    assert (a["passed_before"]["documents"], a["passed_after"]["documents"]) == (3, 1)
    with pytest.raises(UsageError, match="quality_buckets ranks the documents that the rules before it keep"):
        what_if(folder, sets=["sources.a.steps.gopher_quality.min_words=1"])


def test_code_and_models_are_found_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import pyarrow as pa\n"
        "from curate.stage import Rule, Step\n"
        "class Size(Step):\n"
        "    decides = ('most',)\n"
        "    adds = {'num_chars': 'int64'}\n"
        "    most: float = 20.0\n"
        "    def apply(self, batch):\n"
        "        return pa.record_batch({'num_chars': pa.array([len(t or '') for t in batch['text'].to_pylist()], pa.int64())})\n"
        "    def rules(self, block):\n"
        "        return (Rule(f'{block}.most', 'num_chars', at_most=self.most),)\n"
    )
    machine.write_jsonl(tmp_path / "a.jsonl", [{"text": words(count, 10 * count)} for count in (3, 4, 5)])
    path = tmp_path / "recipe.yaml"
    path.write_text("sources: {a: {read: {kind: jsonl, paths: a.jsonl}, steps: [{'mine:Size': {}}]}}\n")
    run(path, output=tmp_path / "run", cache=tmp_path / "cache", workers=1, quiet=True, allow_code=True)
    change = ["sources.a.steps.mine:Size.most=14.0"]
    a = what_if(tmp_path / "run", sets=change, allow_code=True)["sources"]["a"]
    assert (a["passed_before"]["documents"], a["lost"]) == (2, triple(1, 19, 5))  # 14, 19, 24 bytes
    with pytest.raises(RecipeError, match="--allow-code"):
        what_if(tmp_path / "run", sets=change)


def test_it_wants_something_to_ask(words_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="say what would be different"):
        what_if(words_run, sets=[])
    with pytest.raises(UsageError, match="no such folder"):
        what_if(tmp_path / "none", sets=["a=b"])
    with pytest.raises(RecipeError, match="min_wrods"):
        what_if(words_run, sets=["sources.a.steps.gopher_quality.min_wrods=2"])


def test_nothing_is_written_and_no_text_is_needed(words_run: Path) -> None:
    def seen() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(words_run.rglob("*"))}

    before = seen()
    texts = words_run / "extracted"
    moved = texts.rename(words_run.parent / "moved")
    try:
        (texts / "a").mkdir(parents=True)
        (texts / "b").mkdir()
        (texts / "a" / "00000.parquet").write_bytes(b"not read")
        (texts / "b" / "00000.parquet").write_bytes(b"not read")
        result = what_if(words_run, sets=["sources.a.steps.gopher_quality.min_words=2"], sample=0)
        assert result["sources"]["a"]["gained"]["documents"] == 1
    finally:
        for path in texts.rglob("*.parquet"):
            path.unlink()
        (texts / "a").rmdir()
        (texts / "b").rmdir()
        texts.rmdir()
        moved.rename(texts)
    assert seen().keys() == before.keys()
    what_if(words_run, sets=["sources.a.steps.gopher_quality.min_words=2"])
    assert {name: one for name, one in seen().items() if name.endswith("parquet")} == {
        name: one for name, one in before.items() if name.endswith("parquet")
    }


def test_decisions_of_other_code_are_not_taken(words_run: Path, tmp_path: Path) -> None:
    import shutil

    import pyarrow as pa
    import pyarrow.parquet as pq

    copy = shutil.copytree(words_run, tmp_path / "run")
    path = copy / "decisions" / "a" / "00000.parquet"
    table = pq.read_table(path)
    rules = ["gopher_quality.num_words" if rule is None else rule for rule in table["rule"].to_pylist()]
    place = table.schema.get_field_index("rule")
    path.unlink()
    pq.write_table(table.set_column(place, table.schema.field("rule"), pa.array(rules)), path)
    with pytest.raises(InputError, match="2 decisions do not follow from the measurements"):
        what_if(copy, sets=["sources.a.steps.gopher_quality.min_words=2"])
    (copy / "sizes" / "a" / "00000.parquet").unlink()
    with pytest.raises(InputError, match="is not complete"):
        what_if(copy, sets=["sources.a.steps.gopher_quality.min_words=2"])


def test_copies_of_an_address_are_settled_as_a_run_settles_them(tmp_path: Path) -> None:
    rows = [
        {"id": "long", "text": words(60, 100), "url": "http://a.test/1"},  # stays for its address
        {"id": "short", "text": words(40, 200), "url": "http://a.test/1"},
        {"id": "less", "text": words(30, 300), "url": "http://a.test/1"},
        {"id": "alone", "text": words(50, 400), "url": "http://a.test/2"},
    ]
    machine.write_jsonl(tmp_path / "a.jsonl", rows)
    (tmp_path / "recipe.yaml").write_text(f"""\
name: copies
sources:
  a:
    read: {{kind: jsonl, paths: a.jsonl}}
    steps: [gopher_quality: {{min_words: 1, max_words: 60, min_stop_words: off, {GOPHER_OFF}}}]
dedup: {{exact: {{by: [url]}}, keep: {{then: longest}}}}
""")
    run(tmp_path / "recipe.yaml", output=tmp_path / "run", cache=tmp_path / "cache", workers=1, quiet=True)
    for most, kept in ((60, 2), (59, 2), (45, 1), (39, 1), (29, 0)):
        bound = f"sources.a.steps.gopher_quality.max_words={most}"
        a = what_if(tmp_path / "run", sets=[bound])["sources"]["a"]
        assert (a["kept_before"]["documents"], a["kept_after"]["documents"]) == (2, kept), most
        assert a["copies_kept_instead"]["documents"] == (1 if most in (59, 45, 39) else 0), most


def test_copies_are_settled_as_a_run_settles_them(tmp_path: Path) -> None:
    near, leak = words(60, 300), words(30, 600)
    texts = [
        near,  # kept, the longest of its cluster
        near.rpartition(" ")[0],  # a copy of it
        words(70, 100), words(70, 100),  # equal, both too long
        words(40, 500),  # stays
        leak + " " + words(40, 400),  # too long, and holds a benchmark item
    ]  # fmt: skip
    machine.write_jsonl(tmp_path / "benchmark.jsonl", [{"question": leak}])
    recipe = f"""\
name: copies
sources:
  a:
    read: {{kind: jsonl, paths: a.jsonl}}
    steps: [gopher_quality: {{min_words: 1, max_words: 60, min_stop_words: off, {GOPHER_OFF}}}]
dedup: {{exact: {{}}, minhash: {{verify: 0.7}}, keep: {{then: longest}}}}
decontaminate: {{benchmarks: [benchmark.jsonl]}}
"""
    folder = finished(tmp_path, recipe, a=texts)
    less, more = (f"sources.a.steps.gopher_quality.max_words={number}" for number in (59, 80))
    a = what_if(folder, sets=[less])["sources"]["a"]
    assert [a[name]["documents"] for name in ("kept_before", "lost", "copies_kept_instead", "kept_after")] == [
        2,
        1,
        1,
        2,
    ]
    b = what_if(folder, sets=[more])["sources"]["a"]
    assert [b[name]["documents"] for name in ("gained", "contaminated", "copies", "kept_after")] == [3, 1, 1, 3]
    for bound, estimate in ((less, a), (more, b)):
        real = run(
            tmp_path / "recipe.yaml",
            sets=[bound],
            output=tmp_path / "real",
            cache=tmp_path / "cache",
            workers=1,
            quiet=True,
        )
        ledger = real.manifest["ledger"]["a"]
        assert estimate["kept_after"]["documents"] == ledger["kept"]
        assert estimate["kept_after"]["bytes"] == ledger["bytes"]["kept"]


def removed_by_filter(manifest: Any, source: str) -> dict[str, int]:
    return dict(manifest["ledger"][source]["removed"].get("filter", {}))


@pytest.mark.skipif(not DATA.is_dir(), reason=f"REAL DATA MISSING: {DATA} is not there; set CURATE_DATA")
def test_real_pages_are_decided_as_a_run_decides_them(tmp_path: Path) -> None:
    recipe = f"""\
name: gold
sources:
  pages:
    read: {{kind: jsonl, language: lang, paths: ["{DATA}/02_gold/*/gold.jsonl"]}}
    steps:
      - language: {{keep: [en, pt, zh], min_score: 0.65}}
      - gopher_quality: {{min_words: {{en: 60, "*": 40}}}}
      - gopher_repetition: {{}}
      - c4_lines: {{}}
      - fineweb: {{}}
      - where: "num_words >= 45 AND terminal_line_fraction > 0.2"
"""
    (tmp_path / "recipe.yaml").write_text(recipe)
    options: dict[str, Any] = {"cache": tmp_path / "cache", "workers": 2, "quiet": True}
    run(tmp_path / "recipe.yaml", output=tmp_path / "run", **options)
    sets = [
        "sources.pages.steps.language.keep=[en, pt, de]",
        "sources.pages.steps.gopher_quality.min_words={en: 30, de: 90, '*': 50}",
        "sources.pages.steps.gopher_quality.min_stop_words=off",
        "sources.pages.steps.gopher_quality.min_alpha_word_fraction=0.83",
        "sources.pages.steps.gopher_repetition.max_duplicate_line_fraction=0.2",
        "sources.pages.steps.gopher_repetition.max_repeated_10gram_char_fraction=0.3",
        "sources.pages.steps.c4_lines.min_sentences=2",
        "sources.pages.steps.fineweb.max_newlines_per_word={en: {keep: 0.8}, '*': 0.2}",
        "sources.pages.steps.fineweb.max_short_line_fraction=0.4",
        "sources.pages.steps.where=num_words >= 30",
    ]
    answer = what_if(tmp_path / "run", sets=sets)["sources"]["pages"]
    real = run(tmp_path / "recipe.yaml", sets=sets, output=tmp_path / "real", **options).manifest
    removed = {
        rule["rule"]: rule["removed_after"]["documents"]
        for rule in answer["rules"]
        if rule["removed_after"]["documents"]
    }
    assert removed == removed_by_filter(real, "pages")
    assert answer["kept_after"]["documents"] == real["ledger"]["pages"]["kept"]
    assert answer["passed_after"]["bytes"] == (
        real["ledger"]["pages"]["bytes"]["kept"] + real["ledger"]["pages"]["bytes"]["cut"]
    )
    assert min(answer["gained"]["documents"], answer["lost"]["documents"], len(removed)) > 5  # something was asked
    before = run(tmp_path / "recipe.yaml", output=tmp_path / "run", **options).manifest["ledger"]["pages"]
    balance = answer["gained"]["documents"] - answer["lost"]["documents"]
    assert real["ledger"]["pages"]["kept"] - before["kept"] == balance


def test_the_command(words_run: Path, tmp_path: Path) -> None:
    change = "sources.a.steps.gopher_quality.min_words=2"
    shown = machine.command(
        "what-if", words_run, "--set", change, "--output", tmp_path / "answer.json", "--sample", "1"
    )
    assert shown.returncode == 0, shown.stderr
    assert "gained            1 documents, 9 B, ~2 tokens" in shown.stdout
    assert "3 to 5 -> 2 to 5" in shown.stdout
    assert json.loads((tmp_path / "answer.json").read_text())["sources"]["a"]["gained"]["documents"] == 1
    refused = machine.command("what-if", words_run)
    assert (refused.returncode, "say what would be different" in refused.stderr) == (2, True)
