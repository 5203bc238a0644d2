"""Benchmark files: which fields are looked for, which never, and what is refused."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from curate.benchmarks.items import read_items
from curate.decontaminate.index import build_index
from curate.decontaminate.settings import Decontaminate
from curate.errors import InputError


def write_items(folder: Path, items: Iterable[Any]) -> str:
    path = folder / "bench.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return str(path)


def fields(path: str) -> list[tuple[str, list[str], list[str]]]:
    """Return of each item its id, the fields that are looked for, and those that are looked for only behind a question."""
    return [
        (
            item.id,
            [part.field for part in item.of("question", "context")],
            [part.field for part in item.of("choice", "answer")],
        )
        for item in read_items(path)
    ]


def test_roles_of_fields(tmp_path: Path) -> None:
    items = [
        {"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "A"},
        {"task_id": "T/1", "prompt": "p", "canonical_solution": "s", "test": "t", "entry_point": "f"},
        {"id": 7, "context": "c", "qas": [{"question": "q", "id": "x", "answers": [{"text": "a", "answer_start": 1}]}]},
        {
            "Question": "q",
            "Best Answer": "a",
            "Correct Answers": "b",
            "Category": "c",
            "A": "a",
            "opb": "b",
            "sol1": "c",
        },
        {"t": "one", "h": "two", "number": 3, "gold": "x", "nothing": None, "empty": " "},
    ]
    assert fields(write_items(tmp_path, items)) == [
        ("1", ["question"], ["choices.text.0", "choices.text.1"]),
        ("T/1", ["prompt", "test"], ["canonical_solution"]),
        ("7", ["context", "qas.0.question"], ["qas.0.answers.0.text"]),
        ("4", ["Question"], ["Best Answer", "Correct Answers", "A", "opb", "sol1"]),
        ("5", ["t", "h"], []),
    ]


def test_contexts_and_choices_are_told_from_questions_and_answers(tmp_path: Path) -> None:
    items = [
        {
            "story": {"title": "no text", "passage": "c1", "questions": [{"input_text": "q1", "answer": "a1"}]},
            "options": [{"text": "o1", "answer": "o2"}],
            "A": "o3",
            "Correct Answers": {"passage": "a2"},
        }
    ]
    [item] = read_items(write_items(tmp_path, items))
    assert [(part.role, part.field, part.text) for part in item.parts] == [
        ("context", "story.passage", "c1"),
        ("question", "story.questions.0.input_text", "q1"),
        ("answer", "story.questions.0.answer", "a1"),
        ("choice", "options.0.text", "o1"),
        ("choice", "options.0.answer", "o2"),
        ("choice", "A", "o3"),
        ("answer", "Correct Answers.passage", "a2"),
    ]


def test_any_name_with_the_word_answer_is_one(tmp_path: Path) -> None:
    items = [{"q": "x", "answer_key": "B", "my-answers": ["b"], "modelAnswer": "y", "answerable": "so"}]
    [(_, questions, answers)] = fields(write_items(tmp_path, items))
    assert (questions, answers) == (["q", "answerable"], ["my-answers.0", "modelAnswer"])


def test_double_ids_are_told_apart_by_line(tmp_path: Path) -> None:
    path = write_items(tmp_path, [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}])
    assert [item.id for item in read_items(path)] == ["a", "a (line 2)"]


@pytest.mark.parametrize(("count", "stripped"), [(9, False), (10, True)])
def test_labels_of_the_form_go_if_many_items_have_them(tmp_path: Path, count: int, stripped: bool) -> None:
    items = [{"query": f"Question: what is {number}\nAnswer:"} for number in range(count)] + [{"query": "Why: so"}]
    texts = [item.parts[0].text for item in read_items(write_items(tmp_path, items))]
    assert texts[0] == ("what is 0" if stripped else "Question: what is 0\nAnswer:")
    assert texts[-1] == "Why: so"


def test_compressed_and_parquet_benchmarks_read_the_same(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + b'{"id": "a", "text": "x"}\r\n\n{"id": "b", "text": "y"}'  # a mark, an empty line, no end
    (tmp_path / "plain.jsonl").write_bytes(data)
    (tmp_path / "gz.jsonl").write_bytes(gzip.compress(data[:20]) + gzip.compress(data[20:]))  # two members, any name
    two_frames = zstandard.compress(data[:20]) + zstandard.compress(data[20:])
    (tmp_path / "zst.jsonl.zst").write_bytes(two_frames)
    pq.write_table(pa.table({"id": ["a", "b"], "text": ["x", "y"]}), tmp_path / "rows.parquet")
    plain = read_items(str(tmp_path / "plain.jsonl"))
    assert [(item.id, item.line) for item in plain] == [("a", 1), ("b", 3)]
    assert read_items(str(tmp_path / "gz.jsonl")) == plain
    assert read_items(str(tmp_path / "zst.jsonl.zst")) == plain
    assert [item.parts for item in read_items(str(tmp_path / "rows.parquet"))] == [item.parts for item in plain]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"text": "x"}\n{"text": \n', "line 2 is no JSON"),
        (b'{"text": "x"}\n["x"]\n', "line 2 is no JSON object but list"),
        (b'{"text": "\xff"}\n', "line 1 is no JSON"),
        (b"\n\n", "holds no benchmark item"),
        (b"[" * 100_000, "line 1 is no JSON"),
        (gzip.compress(b'{"text": "x"}\n' * 9)[:-9], "cannot be decompressed"),
        (zstandard.compress(b'{"text": "x"}\n' * 9)[:-3], "cannot be decompressed"),
        (b"PAR1 and then nothing", "row 1 cannot be read"),
    ],
)
def test_broken_benchmarks_name_file_line_and_remedy(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(data)
    with pytest.raises(InputError, match=re.escape(problem)) as caught:
        build_index(
            [("broken", str(path))], Decontaminate(benchmarks=("bench.jsonl",)), str(tmp_path / "index.parquet")
        )
    assert caught.value.file == str(path)
    assert caught.value.remedy


def test_benchmark_names_must_differ(tmp_path: Path) -> None:
    path = write_items(tmp_path, [{"text": "x"}])
    with pytest.raises(ValueError, match="names must differ"):
        build_index(
            [("a", path), ("a", path)], Decontaminate(benchmarks=("bench.jsonl",)), str(tmp_path / "index.parquet")
        )
