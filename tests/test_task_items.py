"""Tasks in a run: which items, as which ids, under which key; what the trainer is told."""

import json
from pathlib import Path
from typing import Any

import pytest
from machine import prose, run, write_jsonl

import curate
from curate.errors import CurateError, RecipeError
from curate.evaluate.cloze import Cloze
from curate.phases.task_items import drawn, encoded
from curate.recipe import Train
from curate.runner import _sweep, check, describe
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.tasks import read_tasks
from curate.tokens.tokenizer import Tokenizer, load_tokenizer
from curate.training import trainer_config

RECIPE = """\
name: judged
seed: 3
sources: {one: {read: {kind: jsonl, paths: one.jsonl}}}
tokenizer: {load: tok.model}
mixture: {weights: {one: 1}, window: 128, tokens: 2560}
train: {preset: demo-1m}
evaluate: {tasks: [arc_easy.jsonl, lambada.jsonl], groups: {reading: [lambada]}}
"""


@pytest.fixture(scope="module")
def model() -> bytes:
    texts = [prose(number, 2) for number in range(40)]
    return train_tokenizer(texts, TokenizerSettings(train=SentencePiece(vocab_size=320))).model


@pytest.fixture
def recipe(tmp_path: Path, model: bytes) -> Path:
    (tmp_path / "tok.model").write_bytes(model)
    write_jsonl(tmp_path / "one.jsonl", [{"id": str(number), "text": prose(number, 2)} for number in range(30)])
    rows = [
        {"query": f"What is {number}?", "choices": ["no", f"it is {number}"], "gold": number % 2} for number in range(8)
    ]
    rows += [
        {"query": "Alone?", "choices": ["x"], "gold": 0},
        {"query": "L?", "choices": ["x", "long " * 200], "gold": 0},
    ]
    write_jsonl(tmp_path / "arc_easy.jsonl", rows)
    write_jsonl(tmp_path / "gsm8k.jsonl", [{"question": "What is one and one?", "answer": "It is #### 2"}])
    write_jsonl(tmp_path / "lambada.jsonl", [{"text": "And so it goes"}, {"text": "Never say never"}])
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


def test_a_run_writes_the_items(recipe: Path, tmp_path: Path) -> None:
    run(recipe, tmp_path, until="mix")
    here = tmp_path / "run"
    tokenizer = load_tokenizer(recipe.parent / "tok.model")
    items = read_tasks(here / "tasks.parquet", 320)
    assert [(one.task, one.item) for one in items] == [
        *(("arc_easy", str(number)) for number in range(1, 9)), ("lambada", "1"), ("lambada", "2")
    ]  # fmt: skip
    second = items[1]
    assert (second.metric, second.gold, second.chance, second.version, second.groups) == (
        "accuracy_bytes",
        1,
        0.5,
        1,
        (),
    )
    assert [tokenizer.decode(ids) for ids in second.prompts] == ["Question: What is 1?\nAnswer:"] * 2
    assert [tokenizer.decode(ids) for ids in second.choices] == [" no", " it is 1"]
    assert second.num_bytes == (2, 7)  # the space is not counted
    for prompt, choice in zip(second.prompts, second.choices, strict=True):
        ids = [*prompt.tolist(), *choice.tolist()]
        assert ids == tokenizer.encode(tokenizer.decode(ids)).tolist()
    assert (items[-1].metric, items[-1].groups, items[-1].chance) == ("exact", ("reading",), 0.0)
    told = json.loads((here / "manifest.json").read_text())["tasks"]
    assert told["arc_easy"]["passed_over"] == {"longer than the context": 1, "no choices": 1}
    assert (told["arc_easy"]["items"], told["lambada"]["items"], told["lambada"]["passed_over"]) == (8, 2, {})
    [digest] = told["arc_easy"]["files"].values()
    assert len(digest) == 64
    [warning] = [text for text in json.loads((here / "manifest.json").read_text())["warnings"] if "tasks: " in text]
    assert warning.startswith("tasks: arc_easy, lambada: not looked for in the training data")
    assert [one["looked_for"] for one in told.values()] == [False, False]

    # Everything else is as it is without, also the keys.
    before = json.loads((here / "manifest.json").read_text())
    plain = tmp_path / "plain.yaml"
    plain.write_text("\n".join(line for line in RECIPE.splitlines() if not line.startswith("evaluate")) + "\n")
    run(plain, tmp_path, until="mix")
    after = json.loads((here / "manifest.json").read_text())
    assert "tasks" not in after
    assert not (here / "tasks.parquet").exists()
    assert before["stages"]["arrange"] == after["stages"]["arrange"]  # made of what encode left


def test_a_limit_draws_by_hash(recipe: Path, tmp_path: Path) -> None:
    looked = "decontaminate={benchmarks: [lambada.jsonl, arc_easy.jsonl], ngram: 2, min_words: 2}"
    run(recipe, tmp_path, until="encode", sets=["evaluate.items=3", looked])
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert not [text for text in manifest["warnings"] if text.startswith("tasks: ")]
    assert [one["looked_for"] for one in manifest["tasks"].values()] == [True, True]
    items = [one.item for one in read_tasks(tmp_path / "run" / "tasks.parquet", 320) if one.task == "arc_easy"]
    assert len(items) == 3
    assert items == sorted(items)
    rows = [{"item": str(number)} for number in range(200)]
    first, more, other = drawn(rows, 20, "t", 1), drawn(rows, 40, "t", 1), drawn(rows, 20, "t", 2)
    assert [row for row in more if row in first] == first  # more items are further ones
    assert first != other
    assert drawn(rows, None, "t", 1) == rows == drawn(rows, 200, "t", 1)


class Joined:
    """A tokenizer of characters, which makes one token of a colon and the space behind it."""

    bos_id = 1

    def encode_batch(self, texts: list[str]) -> list[Any]:
        import numpy as np

        return [np.array([ord(sign) for sign in text.replace(": ", "\x02")], np.uint16) for text in texts]


def test_the_seam_between_prompt_and_choice() -> None:
    tokenizer: Tokenizer = Joined()  # type: ignore[assignment]

    def ids(text: str) -> list[int]:
        return [ord(sign) for sign in text]

    found, merged = encoded(tokenizer, Cloze("1", "accuracy", ("ab",), (" c", " d"), 0, 0.5))
    assert (found, merged) == ({"prompts": [[1, *ids("ab")]], "choices": [ids(" c"), ids(" d")]}, False)
    # Both choices begin where the joined token does: the ids are those of the whole text.
    found, merged = encoded(tokenizer, Cloze("1", "accuracy", ("ab:",), (" c", " dd"), 0, 0.5))
    assert (found, merged) == ({"prompts": [[1, *ids("ab")]], "choices": [ids("\x02c"), ids("\x02dd")]}, True)
    # A prompt for each choice is divided by itself.
    found, merged = encoded(tokenizer, Cloze("1", "accuracy", ("a", "b:"), (" c", " c"), 0, 0.5))
    assert (found, merged) == (
        {"prompts": [[1, *ids("a")], [1, *ids("b")]], "choices": [ids(" c"), ids("\x02c")]},
        True,
    )


def test_check_counts_the_items(recipe: Path) -> None:
    assert "tasks           11 items: arc_easy 9, lambada 2" in describe(check(recipe))
    assert check(recipe, sets=["evaluate.items=5"]).tasks == {"arc_easy": 5, "lambada": 2}


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["evaluate.groups={all: [arc_esy]}"],
         "--set evaluate.groups={all: [arc_esy]}: evaluate.groups.all: 'arc_esy' is no task; did you mean 'arc_easy'"),
        (["evaluate.tasks=[none.jsonl]", "evaluate.groups={}"], "evaluate.tasks.0: none.jsonl"),
        (["evaluate.tasks=[one.jsonl]", "evaluate.groups={}"],
         "evaluate.tasks.0: one: no item of it makes a task (30 no choices). Take it out of evaluate.tasks, or say what its rows hold."),
        (["evaluate.tasks=[one.jsonl]", "evaluate.groups={}"],
         "give it `fields`, such as {question: question, choices: options, answer: {pick: answer}}, or the `mapping` of"),
        (["evaluate.tasks=[gsm8k.jsonl]", "evaluate.groups={}"],
         "(1 no choices). Take it out of evaluate.tasks: by its mapping gsm8k it has no choices, so it cannot be a task."),
    ],
)  # fmt: skip
def test_check_refuses_what_gives_no_items(recipe: Path, sets: list[str], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        check(recipe, sets=sets)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("train", "evaluate: judges models that are trained here, so it needs `train`"),
        ("tokenizer", "evaluate: judges models that are trained here, so it needs `tokenizer`"),
    ],
)
def test_tasks_need_a_model(recipe: Path, left_out: str, message: str) -> None:
    text = "\n".join(line for line in RECIPE.splitlines() if not line.startswith(left_out))
    recipe.write_text(text + "\n")
    with pytest.raises(RecipeError) as caught:
        curate.load(recipe)
    assert message in str(caught.value)


def test_a_task_whose_items_are_all_too_long_stops_the_run(recipe: Path, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "arc_easy.jsonl", [{"query": "L?", "choices": ["x", "long " * 200], "gold": 0}])
    with pytest.raises(
        CurateError,
        match=r"no item of it makes a task \(1 longer than the context\). Take it out of evaluate.tasks, or train with a longer",
    ):
        run(recipe, tmp_path, until="encode")


def test_the_trainer_is_told_of_the_tasks(tmp_path: Path) -> None:
    train = Train(preset="demo-1m", seeds=(0,))
    assert trainer_config(train, 0, tasks=True)["tasks"] == "../../tasks.parquet"
    assert "tasks" not in trainer_config(train, 0)
    (tmp_path / "tasks.parquet").touch()
    assert _sweep(tmp_path, set()) == 1
