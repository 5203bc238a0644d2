"""Canaries in a run: what is leaked, where it stands, and that everything else is as it is without."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from machine import prose, run, write_jsonl

from curate.decontaminate.canaries import STREAM
from curate.errors import RecipeError, StageError
from curate.mix.planted import with_planted
from curate.mixture_plan import plan, plan_lines
from curate.recipe import Train
from curate.report.collect import build_report
from curate.report.page import render
from curate.runner import _sweep
from curate.tokens.answers import read_answers
from curate.tokens.order import Plan
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.shard import TokenSource
from curate.tokens.tokenizer import load_tokenizer
from curate.training import trainer_config

MIXTURE: dict[str, Any] = {
    "window": 8, "seed": 5, "block": 1024, "order": "shuffled", "tokens": 320, "num_slots": 40,
    "sources": {"web": {"windows_available": 90, "windows_drawn": 40, "weight_normalised": 1.0, "weight_realised": 1.0}},
    "by_source": {"web": {"windows_drawn": 40, "weight_realised": 1.0}}, "warnings": [],
    "by_axis": {"language": {"pt": {"windows_drawn": 10, "weight_realised": 0.25}}},
    "stages": [
        {"until_tokens": 80, "num_slots": 10, "order": "shuffled", "sources": {"web": {"windows_drawn": 10}}},
        {"until_tokens": 320, "num_slots": 30, "order": "shuffled", "sources": {"web": {"windows_drawn": 30}}},
    ],
}  # fmt: skip


def test_a_planted_stream_is_spread_over_the_stages() -> None:
    # 50 tokens are six windows of 8; of six windows the first quarter of training gets floor(1.5), the rest the others.
    mixture = with_planted(MIXTURE, STREAM, 50)
    loaded = Plan.load(mixture)
    assert loaded.names == (STREAM, "web")
    assert loaded.stages == ((1, 10), (5, 30))
    assert [stage["until_tokens"] for stage in mixture["stages"]] == [88, 368]
    assert mixture["planted"] == {"stream": STREAM, "windows": 6, "tokens": 48, "share": 6 / 46, "before": 320}
    assert (mixture["tokens"], mixture["num_slots"]) == (368, 46)
    assert mixture["sources"][STREAM]["weight_realised"] == 6 / 46
    # What is drawn adds up to 1, in all and in each stage; what was asked stays.
    assert mixture["sources"]["web"] == MIXTURE["sources"]["web"] | {"weight_realised": 40 / 46}
    assert {name: one["weight_realised"] for name, one in mixture["by_source"].items()} == {
        STREAM: 6 / 46,
        "web": 40 / 46,
    }
    assert mixture["by_axis"]["language"]["pt"]["weight_realised"] == 10 / 46
    shares = [[one["weight_realised"] for one in stage["sources"].values()] for stage in mixture["stages"]]
    assert shares == [[10 / 11, 1 / 11], [30 / 35, 5 / 35]]
    (told,) = mixture["warnings"]
    assert "'canaries' is planted on top of the budget of 320 tokens: 48 tokens more, 0.1304 of all" in told
    assert MIXTURE["num_slots"] == 40
    with pytest.raises(StageError, match="8 tokens, less than a window of 8"):
        with_planted(MIXTURE, STREAM, 8)


def test_the_trainer_is_told_of_the_answers() -> None:
    train = Train(preset="demo-1m", seeds=(0,))
    assert trainer_config(train, 0, answers=True)["answers"] == "../../canaries.parquet"
    assert "answers" not in trainer_config(train, 0)


def test_what_an_earlier_run_planted_goes(tmp_path: Path) -> None:
    (tmp_path / "tokens" / STREAM).mkdir(parents=True)
    for name in ("canaries.parquet", f"tokens/{STREAM}/train-00000.bin", "mine.parquet"):
        (tmp_path / name).touch()
    assert _sweep(tmp_path, set()) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.parquet"]


RECIPE = """\
name: leaky
seed: 3
sources:
  one: {read: {kind: jsonl, paths: one.jsonl}}
  two: {read: {kind: jsonl, paths: two.jsonl}}
tokenizer: {load: tok.model}
decontaminate: {benchmarks: [quiz.jsonl], canaries: {items: 6, copies: 3}}
mixture: {weights: {one: 1, two: 1}, window: 64, tokens: 6400}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    texts = [prose(number, 2) for number in range(40)]
    settings = TokenizerSettings(train=SentencePiece(vocab_size=320))
    (tmp_path / "tok.model").write_bytes(train_tokenizer(texts, settings).model)
    for name, part in (("one", texts[:20]), ("two", texts[20:])):
        write_jsonl(tmp_path / f"{name}.jsonl", [{"id": str(number), "text": text} for number, text in enumerate(part)])
    items = [{"id": f"q{number}", "question": f"What is {number}?", "answer": f"{number * 7}"} for number in range(10)]
    items.append({"id": "long", "question": prose(99, 5), "answer": "too long for a window"})
    write_jsonl(tmp_path / "quiz.jsonl", items)
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


def streams(folder: Path) -> dict[str, str]:
    found = sorted(path for name in ("one", "two") for path in (folder / "tokens" / name).iterdir())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def test_leaked_items_are_on_top_of_all_else(recipe: Path, tmp_path: Path) -> None:
    result = run(recipe, tmp_path, until="mix")
    here = tmp_path / "run"
    tokenizer = load_tokenizer(recipe.parent / "tok.model")
    rows = pq.read_table(here / "canaries.parquet").to_pylist()
    assert [row["group"] for row in rows] == ["leaked"] * 3 + ["clean"] * 3
    assert len({row["item"] for row in rows}) == 6
    assert {row["item"] for row in rows} < {f"q{number}" for number in range(10)}
    for row in rows:
        number = int(row["item"][1:])
        assert (row["prompt_text"], row["answer_text"]) == (f"What is {number}?\n", f"{number * 7}")
        assert row["prompt"] == tokenizer.encode(row["prompt_text"]).tolist()
        assert row["answer"] == tokenizer.encode(row["answer_text"]).tolist()
        assert row["bytes"] == len(row["answer_text"])
    assert [one.item for one in read_answers(here / "canaries.parquet", 320)] == [row["item"] for row in rows]

    # Each copy of a leaked item is a document; three of each lie in whole windows; a clean item is nowhere.
    source = TokenSource.open(here / "tokens" / STREAM)
    loaded = Plan.load(here / "mixture.json")
    planted = loaded.sources[loaded.names.index(STREAM)]
    assert planted.windows_drawn == planted.windows_available > 0
    texts = {name: row["prompt_text"] + row["answer_text"] for row in rows for name in row["ids"]}
    ends = source.document_ends.tolist()
    whole: Counter[str] = Counter()
    for (name, ids), end in zip(source.documents(), ends, strict=True):
        assert tokenizer.decode(ids) == texts.pop(name, None) is not None
        whole[tokenizer.decode(ids)] += end <= planted.windows_available * 64
    assert not texts
    assert len(whole) == 3
    assert min(whole.values()) >= 3

    # The account: nothing of it was read, and the run says what it is.
    manifest = result.manifest
    assert set(manifest["ledger"]) == {"one", "two"}
    assert manifest["canaries"]["benchmarks"] == {
        "quiz": {"leaked": 3, "clean": 3, "passed_over": manifest["canaries"]["benchmarks"]["quiz"]["passed_over"]}
    }
    assert manifest["canaries"]["documents"] == source.num_documents
    (warning,) = [text for text in manifest["warnings"] if "LEAKED ON PURPOSE" in text]
    assert "3 benchmark items" in warning

    # Without leaks, and without canaries, every other stream is the same, and as much of it is drawn.
    run(recipe, tmp_path, until="mix", output=tmp_path / "base", sets=("decontaminate.canaries.copies=0",))
    assert not (tmp_path / "base" / "tokens" / STREAM).exists()
    assert [row | {"ids": []} for row in rows] == pq.read_table(tmp_path / "base" / "canaries.parquet").to_pylist()
    assert "LEAKED" not in (tmp_path / "base" / "manifest.json").read_text()
    assert streams(tmp_path / "base") == streams(here)
    other = Plan.load(tmp_path / "base" / "mixture.json")
    drawn = {one.name: one.windows_drawn for one in loaded.sources}
    assert {one.name: one.windows_drawn for one in other.sources} == {name: drawn[name] for name in ("one", "two")}
    mixture = json.loads((here / "mixture.json").read_text())
    assert mixture["planted"]["before"] == 6400
    assert sum(one["weight_realised"] for one in mixture["sources"].values()) == pytest.approx(1)
    # The plan from this run counts them as the run does; from others it says that it does not.
    planned = plan(recipe, run=here)
    assert {name: value for name, value in planned.items() if name not in ("recipe", "available")} == mixture
    windows = mixture["planted"]["windows"]
    assert f", on top of the budget: {windows * 64:,} in {windows:,}, " in next(plan_lines(planned))
    for without in (
        plan(recipe, run=here, sets=["decontaminate.canaries.copies=4"]),
        plan(recipe, run=tmp_path / "base"),
        plan(recipe, available="one=10k,two=10k"),
    ):
        assert (without["num_slots"], without["planted"]["windows"]) == (100, None)
        assert "6,400 tokens in 100 windows of 64, and canaries on top;" in next(plan_lines(without))
        assert "copies of up to 3 items of each benchmark" in without["warnings"][-1]
    assert "planted" not in plan(recipe, run=here, sets=["decontaminate.canaries.copies=0"])
    page = render(build_report(here))
    assert f"Planted on top of the budget: {mixture['planted']['tokens']:,} tokens of <bdi>canaries</bdi>" in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("mixture: {weights: {one: 1, two: 1}, window: 64, tokens: 6400}\n", "so they need `mixture`"),
        ("  two: {read", "a source has that name"),
    ],
)
def test_canaries_that_cannot_be_are_refused(recipe: Path, tmp_path: Path, change: str, message: str) -> None:
    replacement = (
        "" if change.startswith("mixture") else "  canaries: {read: {kind: jsonl, paths: one.jsonl}}\n  two: {read"
    )
    recipe.write_text(RECIPE.replace(change, replacement))
    with pytest.raises(RecipeError, match=message):
        run(recipe, tmp_path)
