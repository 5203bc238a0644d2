"""Rules that decide nothing, as the recipe alone shows."""

from __future__ import annotations

import json
from pathlib import Path

import machine
import pytest

from curate.implied import warnings_of
from curate.loading import load
from curate.runner import check, describe, run


def warned(tmp_path: Path, *steps: str) -> list[str]:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "sources:\n  a:\n    read: {kind: jsonl, paths: a.jsonl}\n    steps:\n"
        + "".join(f"      - {step}\n" for step in steps)
    )
    return warnings_of(load(path))


QUALITY = "gopher_quality: {min_words: 50, max_words: 1000}"


@pytest.mark.parametrize(
    "steps",
    [
        (QUALITY, "gopher_quality: {min_words: 51, max_words: 999}"),
        (QUALITY, 'where: "num_words >= 51"'),
        (QUALITY, 'where: "num_words > 50"'),  # 50 stays before
        (QUALITY, 'where: "num_words >= 10 OR hash_ratio > 5"'),  # more than comparisons joined by AND
        (QUALITY, 'where: "num_words BETWEEN 10 AND 90"'),
        (QUALITY, "c4_lines: {}", 'where: "num_words >= 50"'),  # measured again behind the edit
        ("language: {keep: [en, pt]}", "gopher_quality: {min_words: {en: 50, pt: 40}}"),
        ("language: {}", "gopher_quality: {min_words: {en: 50, de: 40}}"),
        ("language: {keep: [en, pt]}", "where: \"language = 'en'\""),
        ("pii: {at: collect}", "pii: {at: collect}"),
    ],
)  # fmt: skip
def test_rules_that_decide_something_are_left_alone(tmp_path: Path, steps: tuple[str, ...]) -> None:
    found = [text for text in warned(tmp_path, *steps) if "num_words" in text or "where" in text or "language" in text]
    assert found == []


WORDS = "gopher_quality.num_words"
LOOSER = "gopher_quality: {min_words: 50, max_words: 2000}"
LARGER = "gopher_quality: {min_words: 2000, max_words: off}"
MAP = "gopher_quality: {min_words: {en: 50, de: 40, fr: 30, '*': 20}}"


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ((QUALITY, LOOSER), f"gopher_quality-2.num_words (50 to 2000) can never decide: what it removes, {WORDS} has removed."),
        ((QUALITY, "where: num_words >= 50"), f'"num_words >= 50" can never decide: {WORDS} has removed all others'),
        ((QUALITY, "where: num_words > 49 AND num_words < 1001"), "can never decide"),
        ((QUALITY, "where: num_words >= 60", "where: num_words >= 55"), "never decide: where.expression has removed"),
        ((QUALITY, "where: hash_ratio >= 0"), '"hash_ratio >= 0" can never decide: hash_ratio never has another value'),
        ((QUALITY, "where: alpha_word_fraction <= 1.0"), "alpha_word_fraction never has another value"),
        ((QUALITY, "where: alpha_word_fraction > 1"), "leaves no document: alpha_word_fraction never has such a value"),
        ((QUALITY, "where: num_words < 50"), f'"num_words < 50" leaves no document: {WORDS} keeps other values'),
        ((QUALITY, LARGER), f"-2.num_words (>= 2000) leaves no document: it removes all that {WORDS} keeps."),
        (("language: {keep: [en, pt]}", MAP), f"{WORDS} has a bound for de, fr, and language.keep keeps only en, pt."),
        (("language: {keep: [en]}", "where: \"language IN ('en', 'pt')\""), "can never decide: language.keep has removed"),
        (("language: {keep: [en]}", "where: \"language = 'pt'\""), "leaves no document: language.keep keeps other values"),
        (("language: {}", MAP, "where: num_words >= 20"), f"can never decide: {WORDS} has removed"),
        (("c4_lines: {min_sentences: 5}", "where: num_sentences >= 3"), "can never decide: c4_lines.min_sentences has removed"),
    ],
)  # fmt: skip
def test_rules_that_decide_nothing_are_named(tmp_path: Path, steps: tuple[str, ...], text: str) -> None:
    found = warned(tmp_path, *steps)
    assert any(text in one for one in found), found


def test_a_map_is_compared_label_by_label(tmp_path: Path) -> None:
    first = "gopher_quality: {min_words: {en: 50, '*': 40}, max_words: off}"
    looser = "gopher_quality: {min_words: {en: 45, '*': 40}, max_words: off}"
    tighter = "gopher_quality: {min_words: {en: 45, pt: 41, '*': 40}, max_words: off}"

    def about_words(second: str) -> bool:
        return any("-2.num_words" in text for text in warned(tmp_path, "language: {}", first, second))

    assert about_words(looser)
    assert not about_words(tighter)


def test_check_and_run_say_it(tmp_path: Path) -> None:
    machine.write_jsonl(tmp_path / "a.jsonl", [{"text": machine.prose(1)}])
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "sources: {a: {read: {kind: jsonl, paths: a.jsonl}, steps: [{gopher_quality: {}}, {where: num_words > 10}]}}\n"
    )
    text = 'a: where.expression "num_words > 10" can never decide: gopher_quality.num_words has removed'
    plan = check(path)
    assert plan.warnings[0].startswith(text)
    assert f"  warning         {text}" in describe(plan)
    result = run(path, output=tmp_path / "run", cache=tmp_path / "cache", workers=1, quiet=True)
    assert any(one.startswith(text) for one in result.manifest["warnings"])
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert any(one.startswith(text) for one in report["warnings"])


@pytest.mark.parametrize("recipe", sorted((machine.ROOT / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_our_own_recipes_have_no_such_rule(recipe: Path) -> None:
    assert warnings_of(load(recipe)) == []
