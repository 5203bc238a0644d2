"""Runs with `order: input`: documents and windows in the order of the input files, of texts and of token files."""

from pathlib import Path

import numpy as np
import pytest
from machine import prose, run, write_jsonl

from curate.tokens.order import Plan
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.shard import TokenSource

RECIPE = """\
name: ordered
seed: 3
sources:
  docs:
    read: {kind: jsonl, paths: ["second/*.jsonl", "first/*.jsonl"]}
  given:
    read: {kind: tokens, paths: given}
tokenizer: {load: tok.model}
validation: {tokens: 100, min_documents: 2}
mixture:
  weights: {docs: 1, given: 3}
  window: 16
  tokens: 1280
  order: input
  stages: [{until_tokens: 640}, {weights: {docs: 1, given: 1}}]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    texts = [prose(number, 1) for number in range(40)]
    (tmp_path / "tok.model").write_bytes(
        train_tokenizer(texts, TokenizerSettings(train=SentencePiece(vocab_size=320))).model
    )
    for place, (name, first) in enumerate((("second/b", 0), ("second/a", 10), ("first/z", 20), ("first/y", 30))):
        rows = [{"id": f"{place}{number}", "text": texts[first + number]} for number in range(10)]
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    (tmp_path / "given").mkdir()
    for name, ids in (("9.bin", (9, 8)), ("10.bin", (7,))):
        np.array([[one] * 20 + [2] for one in ids], "<u2").tofile(tmp_path / "given" / name)
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


def stream(folder: Path, source: str, split: str = "train") -> TokenSource:
    return TokenSource.open(folder / "tokens" / source, split)


def test_documents_and_windows_come_as_they_stand(recipe: Path, tmp_path: Path) -> None:  # case mix-006
    run(recipe, tmp_path, until="mix")
    here = tmp_path / "run"
    plan = Plan.load(here / "mixture.json")
    assert (plan.order, len(plan.stages), plan.num_slots) == ("input", 2, 80)

    # Of texts: by pattern, then by name, then by place in the file; documents for validation are left out.
    import pyarrow.parquet as pq

    rows = [
        row
        for path in sorted((here / "documents" / "docs").glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]
    assert [row["path"] for row in rows] == sorted(
        (row["path"] for row in rows), key=["a.jsonl", "b.jsonl", "y.jsonl", "z.jsonl"].index
    )
    assert len({row["path"] for row in rows}) == 4
    docs = stream(here, "docs")
    assert list(docs.document_ids) == [row["id"] for row in rows if row["split"] == "train"]
    assert 30 <= len(docs.document_ids) < 40

    # Of token files: by name ("10" before "9"), then by place.
    given = stream(here, "given")
    assert given.tokens(0, given.num_tokens).tolist() == [*[7] * 20, 2, *[9] * 20, 2, *[8] * 20, 2]

    # 63 tokens hold three windows of 16 and one behind them. Stage 1: 40 slots, 10 and 30; stage 2: 20 and 20.
    assert plan.stages == ((10, 30), (20, 20))
    shown = [plan.slot(g) for g in range(80)]
    assert [window for name, window in shown if name == "given"] == [k % 3 for k in range(50)]
    available = plan.sources[0].windows_available
    assert [window for name, window in shown if name == "docs"] == [k % available for k in range(30)]
    assert [name for name, _ in shown[:8]] == ["given", "docs", "given", "given"] * 2
    assert [name for name, _ in shown[40:44]] == ["docs", "given"] * 2

    # Shuffled, the same documents for validation stand in the same order; those for training do not.
    run(recipe, tmp_path, until="mix", output=tmp_path / "shuffled", sets=("mixture.order=shuffled",))
    other = stream(tmp_path / "shuffled", "docs")
    assert list(other.document_ids) != list(docs.document_ids)
    assert sorted(other.document_ids) == sorted(docs.document_ids)
    held = stream(here, "docs", "validation")
    same = stream(tmp_path / "shuffled", "docs", "validation")
    assert list(held.document_ids) == list(same.document_ids)
    assert len(held.document_ids) == 4  # a tenth of 40 alike
