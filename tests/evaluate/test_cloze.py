"""Benchmark items as prompts and choices: one row for each kind of mapping, and the real files counted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from curate.benchmarks.fields import Fields
from curate.benchmarks.items import BenchmarkFiles, read_benchmark
from curate.benchmarks.mappings import FOR_TASKS, NAMES
from curate.evaluate.cloze import FORMATS, UNFIT, Cloze, clozes

DATA = Path(os.environ.get("CURATE_DATA", Path(__file__).parents[2] / "../shared/data")) / "06_benchmarks"


def made(
    folder: Path, rows: list[dict[str, Any]], name: str, fields: Fields | None = None
) -> tuple[list[Cloze], dict[str, int]]:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    found, without = clozes(read_benchmark(BenchmarkFiles((str(path),), name=name, fields=fields, also=FOR_TASKS)))
    return found, dict(without)


HAY = {"question": "What do cows eat?", "choices": {"text": ["hay", "iron", "sand"], "label": ["A", "B", "C"]}}
ENEM: dict[str, Any] = dict.fromkeys(
    ("original_question", "alternatives", "number", "subject", "exam", "answer", "associated_images"), ""
)
ENEM |= dict.fromkeys(("has_associated_images", "alternatives_type", "DS", "TU", "IU", "MR", "ML", "BK", "CE"), "")

# name of the file, row, prompts, choices, gold, metric, chance. The wording of the first five is lm-evaluation-harness's.
CASES: list[tuple[str, dict[str, Any], list[str], list[str], int, str, float]] = [
    ("arc_easy", HAY | {"id": "1", "answerKey": "B"},
     ["Question: What do cows eat?\nAnswer:"], [" hay", " iron", " sand"], 1, "accuracy_bytes", 1 / 3),
    ("piqa", {"goal": "Boil an egg.", "sol1": "Use water.", "sol2": "Use  ice.", "label": 0},
     ["Question: Boil an egg.\nAnswer:"], [" Use water.", " Use ice."], 0, "accuracy_bytes", 0.5),
    ("piqa", {"query": "Question: Boil an egg.\n", "choices": ["Use water.", "Use ice."], "gold": 1},
     ["Question: Boil an egg.\nAnswer:"], [" Use water.", " Use ice."], 1, "accuracy_bytes", 0.5),
    ("openbook_qa", {"query": "The sun is", "choices": ["a star", "a moon"], "gold": 0},
     ["The sun is"], [" a star", " a moon"], 0, "accuracy_bytes", 0.5),
    ("boolq", {"passage": "Ice is cold.", "question": "is ice cold", "answer": True},
     ["Ice is cold.\nQuestion: is ice cold\nAnswer:"], [" no", " yes"], 1, "accuracy", 0.5),
    ("sciq", {"question": "Q?", "support": "", "correct_answer": "x", "distractor1": "a", "distractor2": "b", "distractor3": "c"},
     ["Question: Q?\nAnswer:"], [" x", " a", " b", " c"], 0, "accuracy_bytes", 0.25),
    ("lambada_openai", {"context": "He saw the\n\"dog", "continuation": "run"},
     ["He saw the\n\"dog"], [" run"], 0, "exact", 0.0),
    ("lambada", {"text": "He saw the dog run"}, ["He saw the dog"], [" run"], 0, "exact", 0.0),
    ("hellaswag", {"query": "He", "choices": ["ran", "sat"], "gold": 1}, ["He"], [" ran", " sat"], 1, "accuracy_bytes", 0.5),
    # What follows is scored, and what differs stands before it: in the form of llm-foundry and in that of the hub.
    ("winogrande", {"context_options": ["Ann fed Bob so Ann", "Ann fed Bob so Bob"], "continuation": "was full.", "gold": 1},
     ["Ann fed Bob so Ann", "Ann fed Bob so Bob"], [" was full."] * 2, 1, "accuracy", 0.5),
    ("winogrande", {"sentence": "Ann fed Bob so _ was full.", "option1": "Ann", "option2": "Bob", "answer": "2"},
     ["Ann fed Bob so Ann", "Ann fed Bob so Bob"], [" was full."] * 2, 1, "accuracy", 0.5),
    ("enem", ENEM | {"id": "1", "context": "Leia o\ntexto.", "question": "Quem\nfala?", "options": ["o\nrei", "a avó"], "label": "b"},
     ["Leia o texto.\nPergunta: Quem fala?\nResposta:"], [" o rei", " a avó"], 1, "accuracy_bytes", 0.5),
    ("oab_exams",
     {"id": "1", "exam": "e", "area": "a", "question": "Há lei.\n\nAssinale", "answer": "C",
      "choices": {"A": "sim", "B": "não", "C": "não sei"}},
     ["Pergunta: Há lei.\n\nAssinale\nResposta:"], [" sim", " não", " não sei"], 2, "accuracy_bytes", 1 / 3),
    # The demo corpus: an id beside the columns of llm-foundry, and a passage.
    ("reading", {"id": "r1", "passage": "Ice is cold.", "query": "What is cold?", "choices": ["ice", "fire"], "gold": 0},
     ["Ice is cold.\nQuestion: What is cold?\nAnswer:"], [" ice", " fire"], 0, "accuracy_bytes", 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("name", "row", "prompts", "choices", "gold", "metric", "chance"), CASES)
def test_an_item_as_text(
    tmp_path: Path,
    name: str,
    row: dict[str, Any],
    prompts: list[str],
    choices: list[str],
    gold: int,
    metric: str,
    chance: float,
) -> None:
    [one], without = made(tmp_path, [row], name)
    assert (list(one.prompts), list(one.choices), one.gold) == (prompts, choices, gold)
    assert (one.metric, one.chance, without) == (metric, pytest.approx(chance), {})


def test_a_mapping_of_the_recipe_makes_questions(tmp_path: Path) -> None:
    fields = Fields.model_validate({"question": "q", "choices": "c", "answer": {"pick": "a"}, "context": "t?"})
    rows = [
        {"q": "Q: One?", "c": ["x", "y"], "a": "y"},
        {"q": "In text: two?", "t": "In text:", "c": ["x", "z"], "a": 0},
    ]
    first, second = made(tmp_path, rows, "own", fields)[0]
    assert (first.prompts, first.gold) == (("Question: One?\nAnswer:",), 1)
    assert second.prompts == ("Question: In text: two?\nAnswer:",)  # the question says the context already


def test_what_makes_no_task_is_counted(tmp_path: Path) -> None:
    rows = [
        {"query": "Q?", "choices": ["x"], "gold": 0},
        {"query": "", "choices": ["x", "y"], "gold": 0},
        {"query": "Q?", "choices": ["x", "y"], "gold": None},
        {"query": "Q?", "choices": ["x", "y"], "gold": 0},
    ]
    found, without = made(tmp_path, rows, "arc_easy")
    assert (len(found), without) == (1, {"no choices": 1, "no question": 1, "no gold answer": 1})
    rows = [
        {"sentence": text, "option1": "A", "option2": "B", "answer": "1"} for text in ("a _ b _", "none", "ends in _")
    ]
    assert made(tmp_path, rows, "winogrande")[1] == {"no single blank": 2, "nothing behind the blank": 1}
    assert made(tmp_path, [{"text": "Alone"}], "lambada")[1] == {"no last word": 1}
    table = dict.fromkeys(("Type", "Category", "Source"), "") | {"Question": "Q?", "Best Answer": "a"}
    table |= {"Correct Answers": "a; b", "Incorrect Answers": "c; d"}
    assert made(tmp_path, [table], "truthfulqa") == ([], {"several of its choices are right": 1})


def test_the_commonest_answer_is_the_blind_guess_among_the_same_choices(tmp_path: Path) -> None:
    def rows(*answers: bool) -> list[dict[str, Any]]:
        return [{"passage": "p", "question": f"q{number}", "answer": one} for number, one in enumerate(answers)]

    assert {one.chance for one in made(tmp_path, rows(True, True, True, False), "boolq")[0]} == {0.75}
    assert {one.chance for one in made(tmp_path, rows(True, True), "boolq")[0]} == {0.5}  # a chance of 1 has no centre
    both = [{"query": "a", "choices": ["x", "y"], "gold": 1}, {"query": "b", "choices": ["x", "z"], "gold": 1}]
    assert {one.chance for one in made(tmp_path, both, "arc_easy")[0]} == {0.5}


def test_formats_are_of_mappings() -> None:
    known = {*NAMES, *(name for form in FOR_TASKS for name in form.names)}
    assert set(FORMATS) | set(UNFIT) <= known


# Counted from the files alone: lines; of ENEM those with options (3 of 179 have none); 2033 of 3270 answers of BoolQ are yes.
REAL = {"arc_easy": (2376, 0.25), "arc_challenge": (1172, 0.25), "piqa": (1838, 0.5), "openbook_qa": (500, 0.25),
        "lambada_openai": (5153, 0.0), "enem_2022_pt": (176, 0.2), "oab_exams_pt": (1159, 0.25), "winogrande": (1267, 0.5),
        "boolq": (3270, 2033 / 3270)}  # fmt: skip


@pytest.mark.skipif(not DATA.is_dir(), reason="$CURATE_DATA is absent")
@pytest.mark.parametrize("name", REAL)
def test_real_files(name: str) -> None:
    benchmark = read_benchmark(BenchmarkFiles((str(DATA / f"{name}.jsonl.gz"),), name=name, also=FOR_TASKS))
    found, without = clozes(benchmark)
    items, chance = REAL[name]
    assert len(found) == items
    assert sorted({one.chance for one in found}) == pytest.approx([chance])
    assert dict(without) == ({"no choices": 3} if name == "enem_2022_pt" else {})
    assert all(choice.startswith(" ") and choice.strip() for one in found for choice in one.choices)
    assert not any(prompt.endswith((" ", "\n")) for one in found for prompt in one.prompts)
