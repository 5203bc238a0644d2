"""Paths into rows and what is made of fields: worked out by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from curate.benchmarks.fields import Derived, FieldError, Fields, elements, leaves, role_texts
from curate.benchmarks.items import Benchmark, BenchmarkFiles, read_benchmark
from curate.errors import InputError

NESTED: dict[str, Any] = {
    "q": {"stem": "S", "choices": [{"text": "a", "label": "A"}, {"text": None, "label": "B"}]},
    "lists": [["x", "y"], ["z"]],
    "by.dot": 5,
    "meta": {"by.dot": "found"},
    "none": None,
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("q.stem", ["S"]),
        ("q.choices.text", ["a", None]),
        ("q.choices.1.label", ["B"]),
        ("lists", ["x", "y", "z"]),
        ("lists.1", ["z"]),
        ("lists.7?", []),
        ("by.dot", [5]),
        ("meta.by.dot", ["found"]),
        ("meta.*", ["found"]),
        ("none", [None]),
        ("none.deeper", []),
        ("missing?", []),
        ("q.missing.deeper?", []),
        ("=a text", ["a text"]),
    ],
)
def test_paths(path: str, values: list[Any]) -> None:
    assert [value for _, value in leaves(NESTED, path, ())] == values


@pytest.mark.parametrize(
    ("path", "problem", "known"),
    [
        ("missing", "there is no 'missing'", ("q", "lists", "by.dot", "meta", "none")),
        ("q.sten", "there is no 'sten' in 'q'", ("stem", "choices")),
        ("q.stem.text", "'q.stem' is a text, and has no 'text'", ()),
        ("lists.2", "'lists' has 2 elements", ()),
    ],
)
def test_paths_that_lead_nowhere(path: str, problem: str, known: tuple[str, ...]) -> None:
    with pytest.raises(FieldError) as caught:
        list(leaves(NESTED, path, ()))
    assert (caught.value.field, caught.value.problem, caught.value.known) == (path, problem, known)


def gold(answer: dict[str, Any], **row: Any) -> list[str]:
    fields = Fields.model_validate({"question": "=q", "choices": "choices", "answer": answer})
    return [text for _, text in role_texts({"choices": ["one", "two", "three"], **row}, fields, "answer")]


@pytest.mark.parametrize(
    ("said", "answers"),
    [
        (0, ["one"]),
        (2.0, ["three"]),
        ("1", ["two"]),
        (True, ["two"]),
        ("c", ["three"]),
        ("(B)", ["two"]),
        ("B.", ["two"]),
        ([0, 2], ["one", "three"]),
        (["A", "B"], ["one", "two"]),
        ("three", ["three"]),
        (" two ", ["two"]),
        (None, []),
        ("", []),
        (-1, []),
        ("-1", []),
        ([], []),
    ],
)
def test_which_choice_is_gold(said: Any, answers: list[str]) -> None:
    assert gold({"pick": "gold"}, gold=said) == answers


@pytest.mark.parametrize("said", [3, "3", "D", "four", -2, 0.5])
def test_a_gold_label_that_names_no_choice_is_an_error(said: Any) -> None:
    with pytest.raises(FieldError, match="names none of the 3 choices"):
        gold({"pick": "gold"}, gold=said)


def test_gold_by_label_by_key_from_one_and_by_marks() -> None:
    assert gold({"pick": "gold", "first": 1}, gold="1") == ["one"]
    assert gold({"pick": "gold", "by": "labels"}, gold="2", labels=["3", "2", "1"]) == ["two"]
    assert gold({"pick": "gold", "by": "labels"}, gold="2", labels=[3, 2, 1]) == ["two"]
    assert gold({"pick": "gold"}, gold="B", choices={"A": "x", "B": "y"}) == ["y"]
    assert gold({"pick": "gold", "of": ("b", "a")}, gold=1, a="first", b="second") == ["first"]
    assert gold({"where": "marks"}, marks=[0, 1, 1]) == ["two", "three"]
    assert gold({"pick": "gold"}, gold=0, choices=None) == []  # no choices were given
    assert gold({"pick": "gold"}, gold=1, choices=["", "two"]) == ["two"]  # a blank choice keeps its place
    for answer, row in (
        ({"where": "marks"}, {"marks": [1]}),
        ({"pick": "gold", "by": "marks"}, {"gold": 1, "marks": [1]}),
    ):
        with pytest.raises(FieldError, match="beside 3 choices"):
            gold(answer, **row)


def texts(question: Any, **row: Any) -> list[str]:
    return [text for _, text in role_texts(row, Fields.model_validate({"question": question}), "question")]


def test_blanks_are_filled_lists_split_headings_cut() -> None:
    filled = {"fill": "s", "of": ("a", "b")}
    assert texts(filled, s="Tom saw Ann as _ came.", a="Tom", b="Ann") == [
        "Tom saw Ann as _ came.",
        "Tom saw Ann as Tom came.",
        "Tom saw Ann as Ann came.",
    ]
    assert texts(filled, s="no blank", a="Tom", b="Ann") == ["no blank"]
    assert texts({"split": "s"}, s="one; two ;; three") == ["one", "two", "three"]
    between = {"between": "s", "after": "P: ", "before": "\nQ: "}
    assert texts(between, s="P: passage\nQ: question") == ["passage"]
    assert texts(between, s="P: a\nQ: of a\nQ: question") == ["a\nQ: of a"]
    assert texts(between, s="neither heading") == ["neither heading"]
    assert texts(("n", "t"), n=12, t=False) == ["12", "false"]
    with pytest.raises(FieldError, match=r"name a field in it \(stem, choices\)"):
        texts("q", q=NESTED["q"])


def test_elements_of_a_nested_list_keep_what_stands_around_them() -> None:
    row = {"data": [{"paragraphs": [{"context": "c1", "qas": [{"q": "q1"}, {"q": "q2"}]}, {"context": "c2", "qas": [{"q": "q3"}]}]},
                    {"paragraphs": [{"context": "c3", "qas": []}, {"context": "c4", "qas": [{"q": "q4"}]}]}]}  # fmt: skip
    fields = Fields(question="data.paragraphs.qas.q", context="data.paragraphs.context", each="data.paragraphs.qas")
    pairs = [
        tuple(text for role in ("question", "context") for _, text in role_texts(row, fields, role, place))
        for place in elements(row, "data.paragraphs.qas")
    ]
    assert pairs == [("q1", "c1"), ("q2", "c1"), ("q3", "c2"), ("q4", "c4")]
    with pytest.raises(FieldError, match="where a list of objects belongs"):
        elements({"qas": ["text"]}, "qas")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "has none of them"),
        ({"pick": "a", "split": "b"}, "has pick and split"),
        ({"pick": "a", "blank": "x"}, "'blank' does not belong to `pick`"),
        ({"fill": "a"}, "`fill` needs `of`"),
        ({"between": "a"}, "needs `after` or `before`"),
        ({"pick": "a..b"}, "no path"),
        ({"pick": "a", "first": 2}, "0 or 1"),
    ],
)
def test_what_is_made_of_fields_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Derived.model_validate(values)


# ---- files


def read(folder: Path, files: dict[str, bytes], **how: Any) -> Benchmark:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return read_benchmark(BenchmarkFiles(tuple(str(folder / name) for name in files), **how))


def lines(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


ROWS = ({"id": "a", "query": "x"}, {"id": "b", "query": "y"})


@pytest.mark.parametrize(
    "data",
    [
        lines(*ROWS),
        json.dumps(ROWS).encode(),
        json.dumps(ROWS, indent=2).encode(),
        json.dumps({"version": "1", "data": ROWS}).encode(),
        json.dumps({"canary": "none", "examples": ROWS}, indent=1).encode(),
    ],
)
def test_json_of_every_layout(tmp_path: Path, data: bytes) -> None:
    items = read(tmp_path, {"a.json": data}).items
    assert [(item.id, item.parts[0].text) for item in items] == [("a", "x"), ("b", "y")]
    mapped = read(tmp_path, {"a.json": data}, fields=Fields(question="query")).items
    assert [item.parts for item in mapped] == [item.parts for item in items]


def test_one_object_that_is_an_item_stays_one(tmp_path: Path) -> None:
    one = {"passage": "p", "questions": [{"question": "q1"}, {"question": "q2"}]}
    assert len(read(tmp_path, {"a.jsonl": lines(one)}).items) == 1


def test_arrow_files_with_an_index_and_as_a_stream(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(list(ROWS))
    plain = read(tmp_path, {"a.jsonl": lines(*ROWS)}).items
    for name, new in (("file.arrow", pa.ipc.new_file), ("stream.arrow", pa.ipc.new_stream)):
        sink = pa.BufferOutputStream()
        with new(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1)
        data = sink.getvalue().to_pybytes()
        assert read(tmp_path, {name: data}).items == plain
        with pytest.raises(InputError, match="cannot be read"):
            read(tmp_path, {name: data[: len(data) * 2 // 3]})


def test_ids_and_files_of_one_benchmark(tmp_path: Path) -> None:
    files = {
        "one.jsonl": lines({"id": "a", "text": "x"}, {"id": "a", "text": "x"}, {"text": "y"}),
        "two.jsonl": lines({"id": "a", "text": "z"}, {"id": "c", "text": "x"}, {"text": "v"}, {"label": 3}),
    }
    read_as_one = read(tmp_path, files)
    assert [item.id for item in read_as_one.items] == [
        "a",
        "a (one.jsonl, line 2)",
        "one.jsonl:3",
        "a (two.jsonl, line 1)",
        "two.jsonl:3",
        "two.jsonl:4",
    ]
    facts = read_as_one.facts
    # In two.jsonl the text x stands again: it was read. A row without text is an item: it is listed as such.
    assert (facts["repeated_ids"], facts["repeated_items"], facts["files"]) == (2, 1, {"one.jsonl": 3, "two.jsonl": 3})
    assert read_as_one.items[-1].parts == ()


@pytest.mark.parametrize(
    ("data", "problem", "remedy"),
    [
        (b"\xff\xfe{\0", "is UTF-16 text", "JSON Lines in UTF-8"),
        (b"PK\x03\x04....", "is a zip archive", "Parquet"),
        (b"question,answer\nwhy,so\n", "line 1 is no JSON", "If this is a table"),
        (b"[1, 2]", "its element 1 is int", "one object for each item"),
        (b'[{"text": "x"},\n', "neither is the whole file", "read in part"),
        (b"[]", "holds no benchmark item", "Take it out"),
        (b"", "holds no benchmark item", "Take it out"),
        (b'"text"\n', "no JSON object but str", "Mend or remove"),
    ],
)
def test_what_is_no_benchmark(tmp_path: Path, data: bytes, problem: str, remedy: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)) as caught:
        read(tmp_path, {"a.json": data})
    assert remedy in caught.value.remedy


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    [item] = read(tmp_path, {"a.jsonl": b'{"text": "half \\ud800 pair"}\n'}).items
    assert item.parts[0].text == "half \ufffd pair"


def test_parquet_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    sink = pa.BufferOutputStream()
    table = pa.table({"text": bad})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(InputError, match="row 1 cannot be read"):
        read(tmp_path, {"a.arrow": sink.getvalue().to_pybytes()})


@pytest.mark.parametrize(
    ("fields", "problem", "remedy"),
    [
        ({"question": "quesion"}, "row 1, field 'quesion': there is no 'quesion'.", "Did you mean 'question'?"),
        ({"question": "question", "context": "passage"}, "row 2, field 'passage'", "write 'passage?' if rows may lack it"),
        ({"question": "question", "answer": {"pick": "gold"}, "choices": "options"}, "row 2, field 'gold': 9 names none",
         "Correct its `fields`"),
        ({"question": "blank"}, "none of its 2 items has a text in blank (question).", "Correct its `fields`"),
    ],
)  # fmt: skip
def test_a_mapping_that_rows_do_not_fit(tmp_path: Path, fields: Any, problem: str, remedy: str) -> None:
    rows = (
        {"question": "q", "passage": "p", "gold": 0, "options": ["a"], "blank": " "},
        {"question": "q", "gold": 9, "options": ["a"], "blank": ""},
    )
    with pytest.raises(InputError, match=re.escape(problem)) as caught:
        read(tmp_path, {"a.jsonl": lines(*rows)}, fields=Fields.model_validate(fields))
    assert caught.value.file.endswith("a.jsonl")
    assert remedy in caught.value.remedy


def test_a_field_that_rows_may_lack(tmp_path: Path) -> None:
    rows = ({"question": "q", "passage": "p"}, {"question": "r"})
    given = read(tmp_path, {"a.jsonl": lines(*rows)}, fields=Fields(question="question", context="passage?"))
    assert [len(item.parts) for item in given.items] == [2, 1]
    assert given.facts["mapping"] == "fields"
    assert given.facts["items_with"] == {"question": 2, "context": 1, "choice": 0, "answer": 0}
