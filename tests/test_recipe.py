"""A recipe is refused before any work: file, line, key, nearest key, all problems at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import curate
from curate.errors import Problem, RecipeError
from curate.recipe import PRESET_CONTEXT
from curate.training import trainer_config

GOOD = """\
name: r
sources:
  web:
    read: {kind: jsonl, paths: a.jsonl}
    steps:
      - gopher_quality: {}
"""


def write(folder: Path, text: str, name: str = "r.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems(folder: Path, text: str, **options: object) -> list[str]:
    path = write(folder, text)
    with pytest.raises(RecipeError) as failure:
        curate.load(path, **options)  # type: ignore[arg-type]
    return [str(problem).replace(f"{folder}/", "") for problem in failure.value.problems]


def test_defaults_are_filled_in_and_load_back(tmp_path: Path) -> None:
    recipe = curate.load(write(tmp_path, GOOD))
    again = curate.load(write(tmp_path, recipe.as_yaml(), "resolved.yaml"))
    assert again == recipe
    assert "min_words: 50.0" in recipe.as_yaml()


def test_off_survives_the_round_trip(tmp_path: Path) -> None:
    text = GOOD.replace("gopher_quality: {}", "gopher_quality: {min_words: off, max_words: 10}")
    recipe = curate.load(write(tmp_path, text))
    step = recipe.sources[0].steps[0].step
    assert (step.min_words, step.max_words) == (None, 10)  # type: ignore[union-attr]
    assert curate.load(write(tmp_path, recipe.as_yaml(), "resolved.yaml")) == recipe


def test_unknown_key_names_line_and_nearest(tmp_path: Path) -> None:  # config-001
    found = problems(tmp_path, GOOD + "dedup:\n  minhash:\n    treshold: 0.7\n")
    assert found[0].startswith("r.yaml:9: dedup.minhash.treshold: unknown key; did you mean 'threshold'?")
    found = problems(tmp_path, GOOD + "decontaminate: {benchmarks: [b.jsonl], treshold: 0.7}\n")
    assert found[0].startswith("r.yaml:7: decontaminate.treshold: unknown key; did you mean 'threshold'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dedup: {exact: 5}", "dedup.exact: must be a mapping of keys (by); got 5."),
        ("dedup: {minhash: [1]}", "dedup.minhash: must be a mapping of keys (ngram, bands, rows, verify, measure, seed, "
         "threshold, permutations, variant); got [1]."),
        ("dedup: {minhash: {ngram: x}}", "dedup.minhash.ngram: must be a whole number; got 'x'."),
        ("dedup: {minhash: {rows: 0}}", "dedup.minhash.rows: must be at least 1; got 0."),
        ("dedup: {keep: {order: web}}", "dedup.keep.order: must be a list, such as [a, b]; got 'web'."),
        ("dedup: {keep: {then: last}}", "dedup.keep.then: must be 'longest', 'shortest', 'latest', 'earliest', 'id' or 'first' "
         "or a mapping of keys (highest) or a mapping of keys (lowest); got 'last'."),
        ("dedup: {keep: {then: []}}", "dedup.keep.then: keep.then names no preference; `first` is the order of documents."),
        ("dedup: {keep: {then: [first, id]}}", "dedup.keep.then: "
         "keep.then has something behind 'first', which leaves nothing to decide."),
        ("dedup: {keep: {then: [id, longest]}}", "dedup.keep.then: "
         "keep.then has something behind 'id', which leaves nothing to decide."),
        ("dedup: {keep: {then: [latest, latest]}}", "dedup.keep.then: keep.then names a preference twice."),
        ("dedup: {keep: {then: {lowest: 3}}}", "dedup.keep.then: "
         "a preference in braces is {highest: column} or {lowest: column}, of one measured column."),
        ("dedup: {strict: 1}",
         "dedup.strict: unknown key; did you mean 'semantic'? "
         "Known keys: exact, minhash, lines, spans, against, semantic, keep, signatures."),
        ("dedup: {minhsh: ~}",
         "dedup.minhsh: unknown key; did you mean 'minhash'? "
         "Known keys: exact, minhash, lines, spans, against, semantic, keep, signatures."),
        ("dedup: {keep: {order: [weeb]}}", "dedup.keep.order: names 'weeb', which is no source; did you mean 'web'?"),
        ("decontaminate: {benchmarks: []}", "decontaminate.benchmarks: must have at least 1 entry; got []."),
        ("decontaminate: {benchmarks: [b, 1]}", "decontaminate.benchmarks.1: must be text or a mapping of keys "
         "(path, name, mapping, fields, split, config); got 1."),
        ("decontaminate: {benchmarks: [b], threshold: 0}", "decontaminate.threshold: must be above 0; got 0."),
        ("tokenizer: {bos: 1}", "tokenizer.bos: must be true or false or text; got 1."),
        ("tokenizer: {train: bpe}", "tokenizer.train: must be a mapping of keys (kind, vocab_size, model, sample_bytes, "
         "character_coverage); got 'bpe'."),
        ("tokenizer: {}\nmixture: {weights: {web: 1}, tokens: {up_tp: 3}}", "mixture.tokens.up_tp: unknown key; did you mean 'up_to'? "
         "Known keys: up_to."),
        ("tokenizer: {}\nmixture: {weights: 5, tokens: 1}", "mixture.weights: must be a mapping of keys; got 5."),
    ],
)  # fmt: skip
def test_messages_name_no_python(tmp_path: Path, text: str, message: str) -> None:
    assert message in [line.partition(": ")[2] for line in problems(tmp_path, GOOD + text + "\n")]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "{a: 1}",
            "int: must be true or false or a whole number or a number or text or a list, such as [a, b]; got {a: 1}.",
        ),
        ("[1, ~]", "int.1: must be true or false or a whole number or a number or text; got nothing."),
    ],
)
def test_values_that_are_no_union_member(tmp_path: Path, value: str, message: str) -> None:
    text = f"tokenizer: {{}}\nmixture: {{weights: {{web: 1}}, tokens: 1k}}\ntrain: {{overrides: {{int: {value}}}}}\n"
    assert problems(tmp_path, GOOD + text) == [f"r.yaml:9: train.overrides.{message}"]


def test_overrides_may_be_lists(tmp_path: Path) -> None:
    text = "tokenizer: {}\nmixture: {weights: {web: 1}, tokens: 1k}\ntrain: {overrides: {decay_points: [0.25, 500]}}\n"
    recipe = curate.load(write(tmp_path, GOOD + text))
    assert recipe.train is not None
    assert json.loads(json.dumps(trainer_config(recipe.train, 0)))["overrides"] == {"decay_points": [0.25, 500]}
    assert curate.load(write(tmp_path, recipe.as_yaml(), "resolved.yaml")) == recipe


def test_copies_are_kept_by_numbers_that_a_step_measures(tmp_path: Path) -> None:
    text = GOOD + "      - language: {}\ndedup:\n  keep:\n    then: [longest, {highest: %s}]\n"
    (found,) = problems(tmp_path, text % "num_wrds")
    assert found.startswith(
        "r.yaml:10: dedup.keep.then: 'num_wrds' is measured by no step of any source; did you mean 'num_words'? "
        "Numbers: num_words, mean_word_length,"
    )
    (found,) = problems(tmp_path, text % "language")
    assert "dedup.keep.then: 'language' holds no numbers; did you mean 'language_score'?" in found
    recipe = curate.load(write(tmp_path, text % "num_words"))
    assert recipe.dedup is not None
    assert recipe.dedup.keep.columns == ("num_words",)
    assert curate.load(write(tmp_path, recipe.as_yaml(), "resolved.yaml")) == recipe


@pytest.mark.parametrize(
    "sources", ["5", "[web]", "web", "~", "{}", "{web: 5}", "{web: {read: 5}}", "{web: {read: ~}}"]
)
def test_sources_of_a_wrong_kind(tmp_path: Path, sources: str) -> None:
    text = f"name: r\nsources: {sources}\ntokenizer: {{}}\nmixture: {{weights: {{web: 1}}, tokens: 1k}}\n"
    assert problems(tmp_path, text)[0].startswith("r.yaml:2: sources")


def test_a_key_beside_an_expression(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, GOOD + "      - where: {expression: num_words > 5, nam: x}\n")
    assert "where.nam: unknown key; did you mean 'name'? Known keys: expression, name." in found


def test_the_text_is_no_column(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, GOOD + '      - where: "length(text) > 10"\n')
    assert "'text' is measured by no step before it" in found
    assert "A rule reads measured columns (measured so far: num_words, " in found


def test_a_variant_may_load_where_its_base_trains(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "tokenizer: {train: {vocab_size: 400}}\n", "base.yaml")
    (found,) = problems(tmp_path, "extends: base.yaml\ntokenizer: {load: t.model}\n")
    assert "set `train: ~`" in found
    recipe = curate.load(write(tmp_path, "extends: base.yaml\ntokenizer: {train: ~, load: t.model}\n"))
    assert recipe.tokenizer is not None
    assert (recipe.tokenizer.train, recipe.tokenizer.load) == (None, "t.model")


def test_all_problems_at_once(tmp_path: Path) -> None:
    text = """\
name: a/b
seed: x
sourcs: {}
sources:
  web:
    read: {kind: warcc, paths: x}
    steps:
      - gopher_qualty: {}
      - gopher_quality: {min_word: 3}
      - where: ""
  code:
    read: {kind: jsonl, path: y, paths: z}
dedup:
  minhash: {verify: 2}
  keep: {order: [weeb]}
mixture: {weights: {web: -1, kode: 2}, tokens: 1M}
train: {preset: 2m, seeds: []}
evaluate: {}
"""
    found = problems(tmp_path, text)
    expected = [
        "r.yaml:3: sourcs: unknown key; did you mean 'sources'", "r.yaml:18: evaluate.tasks:", "r.yaml:1: name:",
        "r.yaml:2: seed:", "r.yaml:6: sources.web.read.kind:", "r.yaml:8: sources.web.steps.0.gopher_qualty: unknown step; did you mean",
        "r.yaml:9: sources.web.steps.1.gopher_quality.min_word: unknown key; did you mean 'min_words'",
        "r.yaml:10: sources.web.steps.2.where:", "r.yaml:12: sources.code.read.path: unknown key; did you mean 'paths'",
        "r.yaml:14: dedup.minhash.verify:", "r.yaml:16: mixture.weights.web: the weight is -1",
        "r.yaml:17: train.preset:", "r.yaml:17: train.seeds:", "r.yaml:16: mixture.weights.kode: 'kode' is no source; did you mean 'code'",
    ]  # fmt: skip
    for start in expected:
        assert any(line.startswith(start) for line in found), (start, found)
    for line in found:
        assert line[-1] in ".?", line
        assert not re.search(r"[.,;:?][.,;:?]", line.replace("...", "")), line


@pytest.mark.parametrize("weight", ["-1", ".nan", "'0.5'", "~", "0"])
def test_bad_weights_name_source_and_value(tmp_path: Path, weight: str) -> None:  # mix-007
    found = problems(tmp_path, GOOD + f"tokenizer: {{}}\nmixture: {{weights: {{web: {weight}}}, tokens: 1k}}\n")
    assert "web" in found[0]
    assert found[0].startswith("r.yaml:8: mixture.weights")


def test_columns_that_nobody_measures(tmp_path: Path) -> None:
    text = GOOD + "      - where: \"num_wods >= 5 AND lower(language) = 'num_x'\"\n"
    found = problems(tmp_path, text)
    assert (
        "r.yaml:7: sources.web.steps.1.where: 'num_wods' is measured by no step before it; did you mean 'num_words'"
        in found[0]
    )
    assert "'language' is measured by no step" in found[1]
    found = problems(tmp_path, GOOD.replace("gopher_quality: {}", "gopher_quality: {min_words: {en: 5}}"))
    assert "needs the column 'language', which no step measures" in found[0]


def test_expression_that_does_not_parse(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD + '      - where: "num_words >="\n')
    assert "not an expression that polars SQL understands" in found[0]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("num_words > AVG(num_words)", "several documents at once"), ("SUM(num_words) > 3", "several documents at once"),
        ("num_words + 1", "must be true or false"), ("lower(num_words) = 'x'", "not an expression"),
    ],
)  # fmt: skip
def test_expression_that_is_no_rule(tmp_path: Path, expression: str, message: str) -> None:
    assert message in problems(tmp_path, GOOD + f'      - where: "{expression}"\n')[0]


def test_rule_that_can_never_fire(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD.replace("gopher_quality: {}", "gopher_quality: {max_bullet_line_fraction: 1.0}"))
    assert "can never remove anything" in found[0]


def test_second_block_of_a_name(tmp_path: Path) -> None:
    text = GOOD + "      - gopher_quality: {min_words: 60}\n      - fineweb: {name: late}\n"
    recipe = curate.load(write(tmp_path, text))
    assert [block.name for block in recipe.sources[0].steps] == ["gopher_quality", "gopher_quality-2", "late"]
    assert recipe.sources[0].steps[1].rules()[0].name.startswith("gopher_quality-2.")
    assert curate.load(write(tmp_path, recipe.as_yaml(), "resolved.yaml")) == recipe
    assert "taken" in problems(tmp_path, GOOD + "      - fineweb: {name: gopher_quality}\n")[0]


def test_extends(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "dedup: {exact: {}}\n", "base.yaml")
    recipe = curate.load(write(tmp_path, "extends: base.yaml\nname: variant\ndedup: ~\nsources: {web: {steps: []}}\n"))
    assert (recipe.name, recipe.dedup, recipe.sources[0].steps) == ("variant", None, ())
    assert recipe.sources[0].paths == ("a.jsonl",)
    assert "does not exist" in problems(tmp_path, "extends: nowhere.yaml\n")[0]
    write(tmp_path, "extends: r.yaml\n", "base.yaml")
    assert "circle" in problems(tmp_path, "extends: base.yaml\n")[0]


def test_a_problem_in_the_base_names_the_base(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "dedup: {exct: {}}\n", "base.yaml")
    assert problems(tmp_path, "extends: base.yaml\nname: variant\n")[0].startswith(
        "base.yaml:7: dedup.exct: unknown key"
    )


def test_set(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    recipe = curate.load(path, sets=["sources.web.steps.gopher_quality.min_words=7", "seed=3"])
    assert (recipe.seed, recipe.sources[0].steps[0].step.min_words) == (3, 7)  # type: ignore[union-attr]
    with pytest.raises(
        RecipeError, match=r"--set sources\.web\.steps\.gopher_quality\.min_wrds=7.*did you mean 'min_words'"
    ):
        curate.load(path, sets=["sources.web.steps.gopher_quality.min_wrds=7"])


def test_places_of_inputs(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "tokenizer: {load: t.model}\n", "base.yaml")
    text = "extends: base.yaml\nsources:\n  code:\n    read:\n      kind: files\n      paths:\n        - b/*\n        - c/*\n"
    recipe = curate.load(write(tmp_path, text), sets=["decontaminate.benchmarks=[q.jsonl]"])
    assert recipe.places == {
        "sources.web.read.paths": f"{tmp_path}/base.yaml:4",
        "sources.code.read.paths": f"{tmp_path}/r.yaml:6",
        "decontaminate.benchmarks": "--set decontaminate.benchmarks=[q.jsonl]",
        "decontaminate.benchmarks.0": "--set decontaminate.benchmarks=[q.jsonl]",
        "tokenizer.load": f"{tmp_path}/base.yaml:7",
    }
    again = curate.load(write(tmp_path, recipe.as_yaml(), "resolved.yaml"))
    assert again == recipe  # places are no part of what a recipe says
    assert curate.load(write(tmp_path, GOOD)).places == {"sources.web.read.paths": f"{tmp_path}/r.yaml:4"}


def test_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    assert "NOT_SET is not set" in problems(tmp_path, GOOD.replace("a.jsonl", '"${NOT_SET}/a.jsonl"'))[0]
    recipe = curate.load(write(tmp_path, GOOD.replace("a.jsonl", '"${NOT_SET:-data}/a.jsonl"')))
    assert recipe.sources[0].paths == ("${NOT_SET:-data}/a.jsonl",)  # keys hold the text as written


def test_html_needs_an_extractor(tmp_path: Path) -> None:
    assert "needs `extract`" in problems(tmp_path, GOOD.replace("kind: jsonl", "kind: warc"))[0]
    web = GOOD.replace("kind: jsonl", "kind: warc")
    wrong = web.replace("    steps", "    extract: {kind: automatic}\n    steps")
    assert "got 'automatic'; did you mean 'auto'?" in problems(tmp_path, wrong)[0]
    recipe = curate.load(write(tmp_path, web.replace("    steps", "    extract: {}\n    steps")))
    assert recipe.sources[0].extractor_kind == "auto"  # the default


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("jsonl", "To extract from HTML, name its field `html: ...` in `read`; else leave"),
        ("parquet", "To extract from HTML, name its field `html: ...` in `read`; else leave"),
        ("huggingface", "To extract from HTML, name its field `html: ...` in `read`; else leave"),
        ("files", "So leave"),
        ("books", "So leave"),
    ],
)
def test_an_extractor_of_texts_is_refused(tmp_path: Path, kind: str, told: str) -> None:
    text = GOOD.replace("kind: jsonl", f"kind: {kind}").replace("    steps", "    extract: {kind: auto}\n    steps")
    (found,) = problems(tmp_path, text)
    assert (
        found == f"r.yaml:5: sources.web.extract: would do nothing: the source is read as text. {told} `extract` out."
    )


def test_fields_of_html_are_extracted_and_null_is_no_extractor(tmp_path: Path) -> None:
    html = GOOD.replace("a.jsonl}", "a.jsonl, html: page}")
    recipe = curate.load(write(tmp_path, html.replace("    steps", "    extract: {}\n    steps")))
    assert recipe.sources[0].extractor_kind == "auto"
    assert "needs `extract`" in problems(tmp_path, html.replace("    steps", "    extract:\n    steps"))[0]
    assert (
        curate.load(write(tmp_path, GOOD.replace("    steps", "    extract:\n    steps"))).sources[0].extractor is None
    )


def test_a_confidence_that_no_extractor_states_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("gopher_quality: {}", "extraction: {min_confidence: 0.5}")
    told = "can never fire: only extract: {kind: auto} says how sure it is of a text. Take the step out."
    assert problems(tmp_path, text) == [f"r.yaml:6: sources.web.steps.0.extraction: {told}"]
    web = text.replace("kind: jsonl", "kind: warc").replace("    steps", "    extract: {kind: KIND}\n    steps")
    assert problems(tmp_path, web.replace("KIND", "trafilatura")) == [
        f"r.yaml:7: sources.web.steps.0.extraction: {told}"
    ]
    assert len(problems(tmp_path, web.replace("KIND", "autom"))) == 1  # what else would hold is not known then
    assert curate.load(write(tmp_path, web.replace("KIND", "auto"))).sources[0].steps[0].kind == "extraction"


def test_sections_that_need_others(tmp_path: Path) -> None:
    assert "needs `tokenizer`" in problems(tmp_path, GOOD + "mixture: {weights: {web: 1}, tokens: 1k}\n")[0]
    assert "needs `mixture`" in problems(tmp_path, GOOD + "train: {}\n")[0]


def test_the_window_fits_the_context(tmp_path: Path) -> None:
    text = GOOD + "tokenizer: {}\nmixture: {weights: {web: 1}, tokens: 1k, window: 100}\ntrain: {preset: demo-1m}\n"
    assert (
        "r.yaml:8: mixture.window: is 100; it must be a multiple of the trainer's context, 128"
        in problems(tmp_path, text)[0]
    )


@pytest.mark.parametrize("text", ["", "- a\n", "just words\n"])
def test_not_a_recipe(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be read"):
        curate.load(tmp_path / "nowhere.yaml")


def test_the_trainer_knows_the_presets() -> None:
    """The table of contexts is written down twice, as curate may not import the trainer."""
    import json

    for preset, context in PRESET_CONTEXT.items():
        shown = subprocess.run(
            [sys.executable, "-m", "train", "presets", preset], capture_output=True, text=True, check=True
        ).stdout
        assert json.loads(shown)["context"] == context


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        (Problem("train", "is wrong."), "train: is wrong."),
        (Problem("", "is wrong."), "is wrong."),
        (Problem("", "is wrong.", 3, "r.yaml"), "r.yaml:3: is wrong."),
        (Problem("train", "is wrong.", None, "--set train=1"), "--set train=1: train: is wrong."),
    ],
)
def test_no_empty_place_is_shown(problem: Problem, shown: str) -> None:
    assert str(problem) == shown
