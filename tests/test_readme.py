"""What the README shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import machine
import pytest

import curate

README = (machine.ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_step_of_ones_own(tmp_path: Path) -> None:
    (code,) = [block for block in blocks("python") if "class Questions" in block]
    (tmp_path / "my_steps.py").write_text(code)
    texts = ["Is it?\nIt is.", "Is it?\nWhy?", "So it is."]
    machine.write_jsonl(tmp_path / "a.jsonl", [{"id": str(number), "text": text} for number, text in enumerate(texts)])
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "name: r\nsources:\n  own:\n    read: {kind: jsonl, paths: a.jsonl}\n    steps: [my_steps:Questions: {most: 0.5}]\n"
    )
    result = curate.run(recipe, output=tmp_path / "run", cache=tmp_path / "cache", allow_code=True, quiet=True)
    assert result.manifest["ledger"]["own"]["removed"] == {"filter": {"Questions.question_share": 1}}


def test_the_recipe_is_one(tmp_path: Path) -> None:
    (text,) = [block for block in blocks("yaml") if block.startswith("name:")]
    (tmp_path / "r.yaml").write_text(text)
    recipe = curate.load(tmp_path / "r.yaml")
    assert [block.name for block in recipe.sources[0].steps] == [
        "language",
        "gopher_quality",
        "c4_lines",
        "where",
        "pii",
    ]


@pytest.mark.parametrize("section", ["decontaminate", "mixture"])
def test_a_section_fits_a_recipe(tmp_path: Path, section: str) -> None:
    (text,) = [block for block in blocks("yaml") if block.startswith(f"{section}:")]
    (tmp_path / "r.yaml").write_text(
        "name: r\ntokenizer: {}\nsources:\n"
        "  web:\n    read: {kind: jsonl, paths: a.jsonl}\n"
        "    steps: [gopher_quality: {}, quality_buckets: {scores: [num_words]}]\n"
        "  code: {read: {kind: jsonl, paths: a.jsonl}}\n" + text
    )
    recipe = curate.load(tmp_path / "r.yaml")
    assert getattr(recipe, section) is not None


def test_the_python_interface() -> None:
    (code,) = [block for block in blocks("python") if "curate.load" in block]
    recipe = curate.load(machine.ROOT / "recipes" / "web_code_books.yaml", sets=re.findall(r'sets=\["(.*?)"\]', code))
    assert recipe.sources[0].steps[1].step.min_words == 80  # type: ignore[union-attr]
    compile(code, "README.md", "exec")


def test_the_commands_are_there() -> None:
    help_text = machine.command("--help").stdout
    for name in re.findall(r"^    curate (\w+)", README, re.MULTILINE):
        assert name in help_text
