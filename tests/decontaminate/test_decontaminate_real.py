"""Leaks of real benchmarks, planted in real books; real text without any."""

from __future__ import annotations

import gzip
import json
import os
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decontaminate_flow import batches_of, settings

from curate.benchmarks.items import read_items
from curate.decontaminate.decide import Common, decide
from curate.decontaminate.index import Index, build_index
from curate.decontaminate.ngrams import BLOCK
from curate.decontaminate.normal import normal_words

DATA = Path(os.environ.get("CURATE_DATA", Path(__file__).parents[2] / "../shared/data"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"real inputs are absent: no folder {DATA}; set CURATE_DATA")


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def with_choices(question: str) -> Callable[[dict[str, Any]], str]:
    """As a page would show it: the question without the benchmark's label, then the right choice."""
    return lambda item: re.sub(r"^(Question|Passage):\s*", "", item[question]) + "\n" + item["choices"][item["gold"]]


LEAKS: dict[str, Callable[[dict[str, Any]], str]] = {  # how an item of each set would stand on a page
    "arc_challenge": with_choices("query"),
    "arc_easy": with_choices("query"),
    "assin_ptbr_test": lambda item: f"{item['t']} {item['h']}",
    "boolq": with_choices("query"),
    "enem_2022_pt": lambda item: f"{item['original_question']} {item['question']} {' '.join(item['alternatives'])}",
    "faquad_dev_pt": lambda item: f"{item['context']} {item['question']}",
    "gsm8k_test": lambda item: f"{item['question']}\n{item['answer']}",
    "humaneval": lambda item: item["prompt"] + item["canonical_solution"],
    "lambada_openai": lambda item: f"{item['context']} {item['continuation']}",
    "mbpp": lambda item: f"{item['text']}\n{item['code']}",
    "oab_exams_pt": lambda item: "\n".join(
        [item["question"], *(f"{key}) {text}" for key, text in item["choices"].items())]
    ),
    "openbook_qa": with_choices("query"),
    "piqa": with_choices("query"),
    "processed_human_eval_js": lambda item: item["prompt"] + item["canonical_solution"],
    "truthfulqa": lambda item: f"{item['Question']} {item['Best Answer']}",
    "winogrande": lambda item: f"{item['context_options'][item['gold']]} {item['continuation']}",
}


def new_marks(text: str) -> str:
    text = re.sub(r"(?<=\w)[,;:](?=\s)", " -- ", text)
    text = re.sub(r"(?<=\w)[.!?](?=\s|$)", " …", text)
    return "«" + text.replace("'", "’").replace('"', "“") + "»"


CHANGES: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: textwrap.fill(text, 50, initial_indent=" > ", break_long_words=False, break_on_hyphens=False),
    str.upper,
    new_marks,
]


SMALL = ("enem_2022_pt", "faquad_dev_pt", "gsm8k_test", "humaneval", "mbpp", "openbook_qa", "truthfulqa")


@pytest.fixture(scope="module", params=[SMALL, pytest.param(tuple(LEAKS), marks=pytest.mark.slow)], ids=["some", "all"])
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Index, dict[str, Any]]:
    files = [(name, str(DATA / "06_benchmarks" / f"{name}.jsonl.gz")) for name in request.param]
    output = str(tmp_path_factory.mktemp("real") / "index.parquet")
    built = build_index(files, settings(), output)
    return Index.load(output), built


@needs_data
def test_planted_leaks_are_found(real: tuple[Index, dict[str, Any]]) -> None:
    index, built = real
    paragraphs = [
        part.strip()
        for book in read_jsonl(DATA / "04_books" / "books.jsonl.gz")[:20]
        for part in book["text"][:100_000].split("\n\n")
        if 200 < len(part) < 800
    ]
    docs: list[tuple[str, str]] = []
    planted: list[tuple[str, str, int]] = []
    long_enough: list[bool] = []
    for name, render in ((name, LEAKS[name]) for name in built["benchmarks"]):
        items = read_items(str(DATA / "06_benchmarks" / f"{name}.jsonl.gz"))
        for number, (item, record) in enumerate(
            zip(items, read_jsonl(DATA / "06_benchmarks" / f"{name}.jsonl.gz"), strict=True)
        ):
            if number % max(1, len(items) // 160):  # about 160 of each set
                continue
            change = len(planted) % len(CHANGES)
            around = [paragraphs[at * len(planted) % len(paragraphs)] for at in (1, 7)]
            docs.append((str(len(planted)), f"{around[0]}\n\n{CHANGES[change](render(record))}\n\n{around[1]}"))
            long_enough.append(len(normal_words(render(record))) >= 8)
            planted.append((name, item.id, change))
    decisions = decide(batches_of(docs, index), index, Common.none(index), settings())
    hits = {(row["id"], row["benchmark"], row["item"]) for row in decisions.contamination.to_pylist()}
    found = [(str(number), name, item) in hits for number, (name, item, _) in enumerate(planted)]
    print(f"planted {len(planted)}, long enough {sum(long_enough)}, found {sum(found)}")
    assert len(planted) >= 60 * len(built["benchmarks"])
    assert np.mean(found) >= 0.97  # of all, also those of fewer than eight words

    def share(wanted: Callable[[str, int], bool]) -> float:
        rows = zip(planted, found, long_enough, strict=True)
        return float(np.mean([ok for (name, _, change), ok, tested in rows if tested and wanted(name, change)]))

    for number in range(len(CHANGES)):
        assert share(lambda name, change: change == number) >= 0.97, number  # noqa: B023
    for own in built["benchmarks"]:
        assert share(lambda name, change: name == own) >= 0.97, own  # noqa: B023


@needs_data
@pytest.mark.parametrize("joint", ["\n", ", "])
def test_choices_as_plain_lines_are_found_and_both_sides_correspond(
    real: tuple[Index, dict[str, Any]], joint: str
) -> None:
    index, built = real
    for name in ("openbook_qa", "arc_easy"):
        if name not in built["benchmarks"]:
            continue
        path = DATA / "06_benchmarks" / f"{name}.jsonl.gz"
        planted = {}
        for item, row in zip(read_items(str(path)), read_jsonl(path), strict=True):
            text = re.sub(r"^Question:\s*", "", row["query"]) + "\n" + joint.join(row["choices"])
            if len(normal_words(text)) >= 8:
                planted[item.id] = f"We went on to the old house.\n\n{text}\n\nSo then it was told by all who came."
        decisions = decide(batches_of(list(planted.items()), index), index, Common.none(index), settings())
        own = [
            row for row in decisions.contamination.to_pylist() if (row["benchmark"], row["item"]) == (name, row["id"])
        ]
        assert len(own) >= 0.97 * len(planted)
        for row in own:  # a phrase may stand more often in the document than in the item
            there = [planted[row["id"]].encode()[span["start"] : span["end"]] for span in row["spans"]]
            here = [row["item_text"].encode()[span["start"] : span["end"]] for span in row["item_spans"]]
            words = [set(normal_words(" ".join(part.decode() for part in parts))) for parts in (there, here)]
            assert words[0] == words[1], row


@needs_data
def test_clean_text_is_left_alone(real: tuple[Index, dict[str, Any]]) -> None:
    index, _ = real
    from fastwarc.warc import ArchiveIterator, WarcRecordType
    from resiliparse.extract.html2text import extract_plain_text

    texts = [
        row["text"]
        for name in ("04_books/books", "05_code/code", "10_small_corpus/books", "10_small_corpus/code")
        for row in read_jsonl(DATA / f"{name}.jsonl.gz")
    ]
    with (DATA / "10_small_corpus" / "web.warc.gz").open("rb") as file:
        pages = ArchiveIterator(file, record_types=WarcRecordType.response)
        texts += [extract_plain_text(page.reader.read().decode("utf-8", "replace")) for page in pages]
    docs = [(str(number), text) for number, text in enumerate(texts)]
    batches = batches_of(docs, index, 500)
    decisions = decide(batches, index, Common.none(index), settings())
    held = sum(int((np.array(batch["matches"].value_lengths()) > 0).sum()) for batch in batches)
    print(f"{len(docs)} clean documents: {held} hold an n-gram, {decisions.removed.num_rows} removed")
    assert len(docs) == 53 + 3601 + 9 + 373 + 210
    # "The quick brown fox jumps over the lazy dog" is all that mbpp/186 (and 607) tests; a file has it for the same reason.
    assert decisions.removed["value_label"].to_pylist() == ["mbpp/186"]
    assert held <= 12  # eight equal words of an item stand in fewer than three documents in a thousand


@needs_data
def test_every_item_of_real_sets_is_tested_or_listed(real: tuple[Index, dict[str, Any]]) -> None:
    _, built = real
    total = untested = 0
    for name, about in built["benchmarks"].items():
        assert about["items"] == len(read_jsonl(DATA / "06_benchmarks" / f"{name}.jsonl.gz"))
        assert about["items"] == about["items_tested"] + len(about["untested"])
        total, untested = total + about["items"], untested + len(about["untested"])
    assert untested / total < 0.02  # short questions with short answers: "dresser", "Predators eat"


@needs_data
def test_batching_and_order_change_nothing(real: tuple[Index, dict[str, Any]]) -> None:
    index, _ = real
    questions = [row["question"] for row in read_jsonl(DATA / "06_benchmarks" / "gsm8k_test.jsonl.gz")[:60]]
    docs = [(f"{number:03}", f"Some words before. {text} And some behind.") for number, text in enumerate(questions)]
    docs += [("long", "a " * (BLOCK - 10) + questions[0] + " b" * 100)]  # an item across two blocks
    chosen = settings(action="cut")
    results = []
    for rows, order in ((1000, 1), (1, 1), (7, -1)):
        decisions = decide(batches_of(docs[::order], index, rows), index, Common.none(index), chosen)
        results.append([table.sort_by([("id", "ascending")]).to_pylist() for table in decisions])
    assert results[0] == results[1] == results[2]
    assert {row["id"] for row in results[0][1]} == {key for key, _ in docs}
