"""YAML 1.2 with line numbers; the `config` fault cases that lie in the YAML itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from curate.yamlfile import Tree, dump, merge, override, parse


def test_values_of_the_core_schema() -> None:
    text = "a: no\nb: 1e-4\nc: 1_000\nd: 0x10\ne: .5\nf: ~\ng: true\nh: [on, 'no', \"1\"]\ni: 012\n"
    assert parse(text, "r").value == {
        "a": "no", "b": 0.0001, "c": "1_000", "d": 16, "e": 0.5, "f": None, "g": True, "h": ("on", "no", "1"), "i": 12,
    }  # fmt: skip


def test_norway() -> None:  # config-003
    tree = parse("languages: [en, no, fr]\nweights:\n  en: 0.6\n  no: 0.4\n", "r")
    assert tree.value == {"languages": ("en", "no", "fr"), "weights": {"en": 0.6, "no": 0.4}}


def test_scientific_notation() -> None:  # config-004
    assert parse("train:\n  lr: 1e-4\n  steps: 1_000\n", "r").value == {"train": {"lr": 0.0001, "steps": "1_000"}}


def test_duplicate_key() -> None:  # config-002
    (problem,) = parse("filters:\n  min_words: 50\n  max_words: 100000\n  min_words: 5\n", "r.yaml").problems
    assert str(problem) == (
        "r.yaml:4: filters.min_words: the key 'min_words' stands here twice (first in line 2): a duplicate key. Keep one."
    )


def test_a_duplicate_key_is_told_once() -> None:
    (problem,) = parse("a: 1\nb: 2\na: 3\na: 4\n", "r").problems
    assert str(problem) == "r:3: a: the key 'a' stands here 3 times (first in line 1): a duplicate key. Keep one."
    (problem,) = parse("x: &x {a: 1, a: 2}\ny: *x\nz: [*x, *x]\n", "r").problems  # an alias repeats no problem
    assert problem.line == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("sources: &a {s: {read: *a}}\n", 1),
        ("a: 1\nb: &b\n  - 2\n  - c:\n    - *b\n", 5),
        ("a: &a [1]\nb: &a\n  c: *a\n", 3),  # the anchor set anew is meant
    ],
)
def test_an_alias_inside_itself_is_refused(text: str, line: int) -> None:
    (problem,) = parse(text, "r").problems
    assert "stands inside what it repeats" in problem.message
    assert (problem.file, problem.line) == ("r", line)


def test_an_anchor_may_be_set_anew() -> None:
    tree = parse("a: &x [1]\nb: *x\nc: &x [2, 3]\nd: [*x]\n", "r")
    assert (tree.value, tree.problems) == ({"a": (1,), "b": (1,), "c": (2, 3), "d": ((2, 3),)}, [])


DEEPEST = 64


@pytest.mark.parametrize(
    "nested",
    [
        lambda depth: "[" * depth + "]" * depth,
        lambda depth: "{a: " * depth + "1" + "}" * depth,
        lambda depth: "- " * depth + "x",
        lambda depth: "\n".join("  " * level + "a:" for level in range(depth)) + " 1",
    ],
)
def test_depth_is_bounded(nested: Callable[[int], str]) -> None:
    assert parse(nested(DEEPEST), "r").problems == []
    for depth in (DEEPEST + 1, 3000):
        (problem,) = parse(nested(depth), "r").problems
        assert "nested more than 64 levels" in problem.message
        assert (problem.file, problem.line is not None) == ("r", True)


def test_an_unclosed_heap_of_brackets_is_refused() -> None:
    (problem,) = parse("a: 1\nb: " + "[" * 3000, "r").problems
    assert (problem.line, "nested" in problem.message) == (2, True)


def test_depth_by_way_of_aliases_is_bounded() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 1200))]
    tree = parse("\n".join(lines), "r")
    assert "nested more than 64 levels deep, aliases written out" in tree.problems[0].message
    assert len(tree.problems) == 1
    assert parse("\n".join(lines[:60]), "r").problems == []


def test_a_path_of_set_is_bounded() -> None:
    (problem,) = overridden("a: 1\n", ".".join("a" * 3000) + "=1").problems
    assert "nested more than 64 levels" in problem.message


def test_a_problem_in_the_value_of_set_names_the_whole_key() -> None:
    (problem,) = overridden("a: 1\n", "dedup={exact: {}, exact: {}}").problems
    assert problem.key == "dedup.exact"


@pytest.mark.parametrize("text", ['x: 1\na: "b\\ud800"\n', 'x: 1\na: "b\\0"\n', 'x: 1\n"b\\0": a\n', "x: 1\na: b\0\n"])
def test_characters_that_no_path_can_hold(text: str) -> None:
    (problem,) = parse(text, "r").problems
    assert (problem.line, "the character U+" in problem.message) == (2, True)


def test_a_number_of_thousands_of_digits() -> None:
    assert parse(f"a: {'9' * 5000}\nb: {'9' * 100}\n", "r").value == {"a": float("inf"), "b": 10**100 - 1}


def test_tag_that_asks_for_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # config-005
    monkeypatch.chdir(tmp_path)
    tree = parse("name: !!python/object/apply:os.mkdir [curate_tag_ran]\n", "r")
    assert "refused" in tree.problems[0].message
    assert not (tmp_path / "curate_tag_ran").exists()


@pytest.mark.parametrize("value", ["!!python/name:os.mkdir x", "!!binary eA==", "!mine x", "!!set {a}"])
def test_other_tags_are_refused(value: str) -> None:
    (problem,) = parse(f"a: {value}\n", "r").problems
    assert "is refused" in problem.message


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    tree = parse("\n".join(lines), "r")
    assert "multiply" in tree.problems[0].message


def test_syntax_error_names_the_line() -> None:
    (problem,) = parse("a: [1\nb: 2\n", "r").problems
    assert problem.line == 2


def test_merge_states_only_what_differs() -> None:
    base = parse("a: {x: 1, y: 2}\nb: [1, 2]\nc: 3\n", "base")
    variant = parse("a: {y: 5}\nb: [9]\nc: ~\n", "variant")
    merged = merge(base, variant)
    assert merged.value == {"a": {"x": 1, "y": 5}, "b": (9,)}
    assert merged.place(("a", "x")) == ("base", 1)
    assert merged.place(("a", "y")) == ("variant", 1)


def overridden(text: str, *assignments: str) -> Tree:
    tree = parse(text, "r")
    for assignment in assignments:
        override(tree, assignment)
    return tree


def test_set_reaches_blocks_by_name() -> None:
    text = "sources: {web: {steps: [language, gopher_quality: {min_words: 3}]}}\n"
    tree = overridden(
        text, "sources.web.steps.gopher_quality.min_words=9", "sources.web.steps.language.keep=[no]", "seed=4"
    )
    steps = ({"language": {"keep": ("no",)}}, {"gopher_quality": {"min_words": 9}})
    assert tree.value == {"sources": {"web": {"steps": steps}}, "seed": 4}
    assert tree.place(("seed",)) == ("--set seed=4", None)


def test_set_to_null_removes() -> None:
    assert overridden("a: {b: 1, c: 2}\n", "a.b=~").value == {"a": {"c": 2}}


@pytest.mark.parametrize(("assignment", "message"), [("novalue", "KEY=VALUE"), ("a.q=1", "no entry 'q', only x")])
def test_set_that_cannot_work(assignment: str, message: str) -> None:
    assert message in str(overridden("a: [x: 1]\n", assignment).problems[0])


def test_dump_reads_back() -> None:
    value = {"a": "no", "b": "1e-4", "c": 1e-4, "d": ["x", None, True], "e": "true", "f": {"g": "a: b"}, "h": "1_0"}
    expected = value | {"d": ("x", None, True)}
    assert parse(dump(value), "r").value == expected
