"""N-gram overlap with benchmarks: scores worked out by hand, and the fault cases."""

from __future__ import annotations

import functools
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from decontaminate_flow import Run, settings, write_items
from pydantic import ValidationError

from curate.decontaminate import decide as decide_module
from curate.decontaminate.decide import count_common, decide
from curate.decontaminate.index import Index, build_index
from curate.decontaminate.runs import overlaps
from curate.decontaminate.settings import Decontaminate
from curate.document import CONTAMINATION, EDITS, REMOVED

DATA = Path(os.environ.get("CURATE_DATA", Path(__file__).parents[2] / "../shared/data"))
CASES = DATA.parent / "cases" / "cases.jsonl"
needs_cases = pytest.mark.skipif(
    not CASES.is_file(), reason=f"fault cases are absent: no file {CASES}; set CURATE_DATA"
)


# ---- settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"benchmarks": ()}, "at least 1 item"),
        ({"ngram": 1}, "greater than or equal to 2"),
        ({"ngram": 65}, "less than or equal to 64"),
        ({"threshold": 0.0}, "greater than 0"),
        ({"threshold": 1.01}, "less than or equal to 1"),
        ({"max_clusters": 0}, "greater than or equal to 1"),
        ({"margin": -1}, "greater than or equal to 0"),
        ({"action": "remove"}, "'drop', 'cut' or 'flag'"),
        ({"answers": "alone"}, "'together' or 'apart'"),
        ({"min_words": 0}, "greater than or equal to 1"),
        ({"min_ngram": 14}, "more than ngram"),
        ({"n": 13}, "Extra inputs"),
    ],
)
def test_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**changes)


def test_shortest_ngram_is_no_longer_than_any_other_length() -> None:
    assert settings().shortest == 5
    assert settings(ngram=4, min_words=8).shortest == 4
    assert settings(min_words=4).shortest == 4


@pytest.mark.parametrize(("ngram", "words", "n"), [(3, 8, 3), (3, 200, 3), (4, 40, 4), (8, 20, 5), (8, 200, 8)])
def test_ngrams_are_no_longer_than_ngram_says(tmp_path: Path, ngram: int, words: int, n: int) -> None:
    chosen = Decontaminate(benchmarks=("bench.jsonl",), ngram=ngram)  # min_ngram, by default 5, gives way
    assert Decontaminate(**chosen.model_dump()) == chosen  # as the resolved recipe of a run states it
    text = " ".join(f"{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(words))
    run = Run(tmp_path, [{"id": "q", "text": text}], [("d", text)], chosen)
    assert run.index.texts["n"].to_pylist() == [n]
    assert run.overlaps == [("d", "q", 1.0)]


# ---- scores by hand

SIX = [{"id": "six", "text": "one two three four five six"}]  # 3-grams: 123 234 345 456; no fewer than 3 words


@pytest.mark.parametrize(
    ("text", "overlap"),
    [
        ("one two three four five six", 1.0),
        ("zero one two three four", 4 / 6),
        ("one two three; three four five", 5 / 6),  # three twice counts once
        ("one two three one two three", 3 / 6),
        ("four five six, one two three", 1.0),  # their order does not matter
        ("one two three " + "x " * 100 + "four five six", 1.0),  # a place: no more than 100 words between
        ("one two three " + "x " * 101 + "four five six", 3 / 6),  # two places: the first of the best
        ("one two, four five", 0.0),
        ("six five four three two one", 0.0),
        ("", 0.0),
    ],
)
def test_overlap_is_the_share_of_words_in_runs(tmp_path: Path, text: str, overlap: float) -> None:
    run = Run(tmp_path, SIX, [("d", text)], settings(ngram=3, threshold=0.01))
    assert run.overlaps == ([("d", "six", overlap)] if overlap else [])


@pytest.mark.parametrize(("threshold", "removed"), [(0.49, True), (0.5, True), (0.51, False)])
def test_threshold_itself_counts(tmp_path: Path, threshold: float, removed: bool) -> None:
    run = Run(tmp_path, SIX, [("d", "zero one two three")], settings(ngram=3, threshold=threshold))
    assert run.removed == (["d"] if removed else [])


def test_an_ngram_never_reaches_into_the_next_document(tmp_path: Path) -> None:
    docs = [("a", "one two three"), ("b", "four five six"), ("c", ""), ("d", "four five six")]
    run = Run(tmp_path, SIX, docs, settings(ngram=3, threshold=0.25))
    assert run.overlaps == [("a", "six", 0.5), ("b", "six", 0.5), ("d", "six", 0.5)]
    docs = [("a", "one two"), ("b", "three four five"), ("c", "six")]
    assert Run(tmp_path, SIX, docs, settings(ngram=3, threshold=0.01)).overlaps == [("b", "six", 0.5)]


def test_best_text_of_an_item_decides_and_the_best_item_is_the_reason(tmp_path: Path) -> None:
    items = [
        {"id": "x", "context": "one two three four five six seven", "question": "how many apples are there"},
        {"id": "y", "text": "how many apples are there in my basket"},  # eight words, five of them found
        {"id": "z", "text": "how many apples are there"},
    ]
    run = Run(tmp_path, items, [("d", "Well, how many apples are there?")], settings(ngram=3))
    assert run.overlaps == [("d", "x", 1.0), ("d", "y", 5 / 8), ("d", "z", 1.0)]
    [row] = run.decisions.removed.to_pylist()
    assert row == {
        "id": "d",
        "stage": "decontaminate",
        "rule": "decontaminate.ngram",
        "value": 1.0,
        "value_label": "bench/x",  # x and z are level: the first
        "threshold": "< 0.5",
        "also_fired": [],
        "kept_id": None,
        "similarity": None,
    }
    assert run.decisions.removed.schema == REMOVED
    assert run.decisions.contamination.schema == CONTAMINATION
    assert run.decisions.edits.schema == EDITS


def test_span_is_the_longest_match_in_utf8_bytes(tmp_path: Path) -> None:
    text = "één TWO three; «Öne» — one two\n three “four”! Ende"
    run = Run(tmp_path, SIX, [("d", text)], settings(ngram=3, threshold=0.5))
    [row] = run.decisions.contamination.to_pylist()
    start = text.encode().index(b"one two")
    assert (row["start"], row["span"]) == (start, "one two\n three “four”!")
    assert row["end"] == start + len(b"one two\n three ") + 3 + 4 + 3 + 1  # “ and ” have three bytes
    assert text.encode()[row["start"] : row["end"]].decode() == row["span"]


# ---- short items


GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda my ny xi"


@pytest.mark.parametrize(("words", "tested"), [(7, False), (8, True), (12, True), (13, True), (14, True)])
def test_short_items_are_one_ngram_down_to_eight_words(tmp_path: Path, words: int, tested: bool) -> None:
    question = " ".join(GREEK.split()[:words])
    docs = [("whole", f"so {question} indeed"), ("part", " ".join(question.split()[:-1])), ("none", "alpha beta")]
    run = Run(tmp_path, [{"id": "q", "question": question}], docs, settings(threshold=1.0))
    assert run.removed == (["whole"] if tested else [])
    about = run.built["benchmarks"]["bench"]
    assert about["items_tested"] == int(tested)
    assert [entry["item"] for entry in about["untested"]] == ([] if tested else ["q"])
    if not tested:
        assert "fewer than 8 words" in about["untested"][0]["reason"]


def test_a_short_question_is_tested_with_its_answers(tmp_path: Path) -> None:
    items = [
        {
            "id": "q",
            "query": "Why do cats purr",
            "choices": ["they are happy as can be", "no", "to keep their big bones strong and sound for life"],
        }
    ]
    docs = [
        ("joined", "Why do cats purr? They are happy as can be."),
        ("other", "Why do cats purr? To keep their big bones strong and sound for life."),
        ("lettered", "Why do cats purr?\n(A) They are happy as can be.\n(B) No"),
        ("asked", "Q: Why do cats purr? A: They are happy as can be."),
        ("answered", "Why do cats purr?\nAnswer: they are happy as can be"),
        ("question", "Why do cats purr?"),
        ("answer", "They are happy as can be. To keep their big bones strong and sound for life."),
    ]
    run = Run(tmp_path, items, docs, settings())
    assert run.overlaps == [(key, "q", 1.0) for key in ("joined", "other", "lettered", "asked", "answered")]
    assert run.index.texts["field"].to_pylist() == [
        *["query+choices.0"] * 3,
        *["query+choices.2"] * 3,
        *["query+choices.0+choices.1+choices.2"] * 2,
    ]
    # 10, 11 and 11 words, 14, 15 and 15, 24 with the letters and 21 without: n is 5
    assert [len(grams) for grams in run.index.texts["grams"].to_pylist()] == [6, 7, 7, 10, 11, 11, 20, 17]
    apart = Run(tmp_path, items, docs, settings(answers="apart"))
    assert apart.overlaps == []
    assert apart.built["benchmarks"]["bench"]["untested"] == [
        {"item": "q", "reason": "fewer than 8 words", "text": "Why do cats purr"}
    ]


CHOICES = [
    "enable plants to continue flourishing",
    "play an unimportant role in the reproduction process",
    "are useless to plants",
    "are considered unwanted pests",
]  # openbook_qa 9-737; no two of them hold five words between the letters of a list


@pytest.mark.parametrize("joint", ["\n", ", ", "; ", "\n- "])
def test_choices_without_letters_are_found_and_both_sides_show_the_same(tmp_path: Path, joint: str) -> None:
    text = f"From a school book. Pollinators{joint}{joint.join(CHOICES)}\n\nHere a chapter ends."
    run = Run(tmp_path, [{"id": "q", "query": "Pollinators", "choices": CHOICES}], [("d", text)], settings())
    [row] = run.decisions.contamination.to_pylist()
    assert (row["overlap"], row["words"], row["item_text"]) == (1.0, 22, "\n".join(["Pollinators", *CHOICES]))
    assert row["span"] == text[text.index("Pollinators") : text.index("\n\nHere")]
    assert row["item_spans"] == [{"start": 0, "end": len(row["item_text"])}]


@pytest.mark.parametrize(
    ("behind", "shown"),
    [
        ("", ""),
        ("\n(A) a marsh (B) a tundra", "\nA) a marsh\nB) a tundra"),
        ("\na marsh\na tundra", "\na marsh\na tundra"),
    ],
)
def test_of_texts_found_whole_the_one_that_covers_most_is_shown(tmp_path: Path, behind: str, shown: str) -> None:
    question = "There is most likely going to be fog around:"  # nine words: looked for alone as well
    items = [{"id": "q", "query": question, "choices": ["a marsh", "a tundra"]}]
    run = Run(tmp_path, items, [("d", f"He said. {question}{behind}")], settings())
    [row] = run.decisions.contamination.to_pylist()
    assert (row["overlap"], row["item_text"], row["span"]) == (1.0, question + shown, question + behind)
    [item_span] = row["item_spans"]
    assert item_span["end"] - item_span["start"] == len(question + shown)


def test_a_short_question_is_tested_beside_a_long_passage(tmp_path: Path) -> None:
    items = [{"id": "q", "passage": GREEK, "question": "Why do cats purr", "answer": "they are happy as can be"}]
    docs = [("d", "Why do cats purr? They are happy as can be."), ("e", GREEK)]
    assert Run(tmp_path, items, docs, settings()).overlaps == [("d", "q", 1.0), ("e", "q", 1.0)]


def test_short_fields_without_an_answer_are_one_text(tmp_path: Path) -> None:
    items = [{"id": "q", "t": "Why do the cats purr", "h": "because they are happy"}]
    docs = [("d", "Why do the cats purr? Because they are happy."), ("e", "Why do the cats purr?")]
    assert Run(tmp_path, items, docs, settings()).overlaps == [("d", "q", 1.0)]


def test_numbers_and_repetition_are_no_content(tmp_path: Path) -> None:
    items = [
        {"id": "digits", "text": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"},
        {"id": "zeros", "text": "x 0 0 0 0 0 0 0 0 0 0 0 0"},
        {"id": "letters", "text": "a b c d e f g h i j k l m n o p"},
        {"id": "mixed", "text": "one more day 0 0 0 0 0 0 0 0 0 0"},
    ]
    docs = [(str(number), item["text"]) for number, item in enumerate(items)]
    run = Run(tmp_path, items, docs, settings())
    assert run.overlaps == [("3", "mixed", 1.0)]  # one n-gram of five counts, with three distinct words
    assert [entry["item"] for entry in run.built["benchmarks"]["bench"]["untested"]] == ["digits", "zeros", "letters"]


# ---- template and common text


def test_template_is_what_many_items_share(tmp_path: Path) -> None:
    items = [
        {"id": f"i{number}", "text": f"choose the best ending a{number} b{number} c{number} d{number}"}
        for number in range(5)
    ]
    # 3 > min(20, 5 // 2): "choose the best" and "the best ending" are template
    run = Run(
        tmp_path, items, [("t", "choose the best ending"), ("leak", "a3 b3 c3 d3")], settings(ngram=3, threshold=0.5)
    )
    assert run.overlaps == [("leak", "i3", 4 / 6)]  # of: best ending a3 b3 c3 d3
    about = run.built["benchmarks"]["bench"]
    assert about["template_ngrams"] == 2
    assert about["template_phrases"] == [{"text": "choose the best ending", "items": 5}]


@pytest.mark.parametrize(("sharing", "is_template"), [(20, False), (21, True)])
def test_template_limit(tmp_path: Path, sharing: int, is_template: bool) -> None:
    items = [{"text": f"one two three a{number}"} for number in range(sharing)] + [
        {"text": f"x{n} y{n} z{n}"} for n in range(40)
    ]
    run = Run(tmp_path, items, [], settings(ngram=3))
    assert run.built["benchmarks"]["bench"]["template_ngrams"] == int(is_template)


def test_a_passage_of_many_questions_is_content(tmp_path: Path) -> None:
    passage = "the old mill stood empty by the river for years"
    items = [{"id": f"i{n}", "context": passage, "question": f"a{n} b{n} c{n}"} for n in range(30)]
    items += [
        {"id": f"j{n}", "context": f"p{n} q{n} r{n} s{n}"} for n in range(31)
    ]  # 30 of 61 items: not more than half
    run = Run(tmp_path, items, [("d", passage)], settings(ngram=3))
    assert run.built["benchmarks"]["bench"]["template_ngrams"] == 0
    assert len(run.overlaps) == 30


def test_an_instruction_field_of_most_items_is_template(tmp_path: Path) -> None:
    items = [
        {"id": f"i{n}", "instruction": "write the word that is missing", "question": f"a{n} b{n} c{n}"}
        for n in range(30)
    ]
    run = Run(tmp_path, items, [("d", items[0]["instruction"]), ("e", "a7 b7 c7")], settings(ngram=3))
    assert run.removed == ["e"]


@pytest.mark.parametrize(("clusters", "is_common"), [([0, 1], False), ([0, 1, 2], True), ([0, 1, 1, 0, 1, 0], False)])
def test_common_text_is_counted_in_clusters(tmp_path: Path, clusters: list[int], is_common: bool) -> None:
    docs = [(f"d{number}", f"w{number} one two three four five six") for number in range(len(clusters))]
    run = Run(tmp_path, SIX, docs, settings(ngram=3, max_clusters=2), clusters)
    assert len(run.removed) == (0 if is_common else len(docs))
    assert run.report["common_ngrams"] == (4 if is_common else 0)
    assert run.report["common_items"] == (["bench/six"] if is_common else [])
    if is_common:
        assert run.report["common_phrases"] == [
            {"text": "one two three four five six", "documents": 3, "items": ["bench/six"]}
        ]


def test_common_ngrams_leave_both_sides_of_the_fraction(tmp_path: Path) -> None:
    docs = [(f"d{number}", "one two three four") for number in range(3)] + [("leak", "one two three four five")]
    run = Run(tmp_path, SIX, docs, settings(ngram=3, max_clusters=3), [0, 1, 2, 2])
    assert run.overlaps == [("d0", "six", 4 / 6), ("d1", "six", 4 / 6), ("d2", "six", 4 / 6), ("leak", "six", 5 / 6)]
    run = Run(tmp_path, SIX, docs, settings(ngram=3, max_clusters=2), [0, 1, 2, 2])
    assert run.overlaps == [("leak", "six", 3 / 4)]  # 123 234 are common; 345 456 cover four words
    [row] = run.decisions.contamination.to_pylist()
    assert (row["span"], row["words"]) == (
        "one two three four five",
        3,
    )  # the common words beside them belong to the run


def test_counts_are_the_same_for_any_order_and_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(ngram=3, max_clusters=3)
    index_path = str(tmp_path / "index.parquet")
    build_index([("bench", write_items(tmp_path, [*SIX, {"text": "four five six seven eight"}]))], chosen, index_path)
    index = Index.load(index_path)
    random = np.random.default_rng(11)
    rows = [
        (int(random.integers(0, 6)), np.sort(random.choice(index.hashes, random.integers(0, 7), replace=False)))
        for _ in range(60)
    ]
    want = {
        value: len([1 for _, held in rows if value in held])
        for value in index.hashes
        if len({cluster for cluster, held in rows if value in held}) > 3
    }
    outputs = []
    for size, order, buffered in ((60, 1, 1 << 22), (7, -1, 5), (1, 1, 1)):
        monkeypatch.setattr(decide_module, "_FEWEST_PAIRS", buffered)
        some = rows[::order]
        batches = [
            pa.RecordBatch.from_arrays(
                [
                    pa.array([c for c, _ in some[at : at + size]], pa.int64()),
                    pa.array([h.tolist() for _, h in some[at : at + size]], pa.large_list(pa.uint64())),
                ],
                names=["cluster", "matches"],
            )
            for at in range(0, 60, size)
        ]
        path = tmp_path / f"common-{size}.parquet"
        assert count_common(batches, index, chosen, str(path), memory_bytes=0) == len(want)
        outputs.append(path.read_bytes())
        assert pq.read_table(path).to_pylist() == [
            {"hash": value, "clusters": 4, "documents": count} for value, count in sorted(want.items())
        ]
    assert len(set(outputs)) == 1


# ---- actions


def cut(text: bytes, rows: list[dict[str, Any]]) -> bytes:
    for row in reversed(rows):
        text = text[: row["start"]] + text[row["end"] :]
    return text


@pytest.mark.parametrize(
    ("margin", "left"),
    [(0, "Ä b c\n\nd e  f "), (1, "Ä b e  "), (2, "Ä "), (3, None)],
)
def test_cut_takes_the_spans_with_their_margin(tmp_path: Path, margin: int, left: str | None) -> None:
    text = "Ä b c\n\n“One two, three four” d e  f four five six."
    #       words 0 1 2     3   4    5     6    7 8  9  10   11   12; matched: 3 to 7 and 10 to 13
    run = Run(tmp_path, SIX, [("d", text)], settings(ngram=3, action="cut", margin=margin))
    edits = run.decisions.edits.to_pylist()
    if left is None:  # 0 to 10 and 7 to 13: nothing stays
        assert (run.removed, edits) == (["d"], [])
        return
    assert run.removed == []
    assert cut(text.encode(), edits).decode() == left
    assert {(row["phase"], row["rule"]) for row in edits} == {("decontaminate", "decontaminate.ngram")}
    assert [row["end"] for row in edits][-1] == len(text.encode())


def test_cuts_of_several_items_are_merged(tmp_path: Path) -> None:
    items = [*SIX, {"id": "more", "text": "five six seven eight"}]
    text = "start one two three four five six seven eight end"
    run = Run(tmp_path, items, [("d", text)], settings(ngram=3, action="cut", margin=0))
    assert [(row["start"], row["end"]) for row in run.decisions.edits.to_pylist()] == [(6, 46)]
    assert [row["span"] for row in run.decisions.contamination.to_pylist()] == [
        "one two three four five six",
        "five six seven eight",
    ]


def test_a_document_of_nothing_but_the_item_is_removed(tmp_path: Path) -> None:
    run = Run(tmp_path, SIX, [("d", " one two three four five six!! --")], settings(ngram=3, action="cut", margin=0))
    assert run.removed == ["d"]
    assert run.decisions.edits.num_rows == 0


def test_flag_only_reports(tmp_path: Path) -> None:
    run = Run(tmp_path, SIX, [("d", SIX[0]["text"])], settings(ngram=3, action="flag"))
    assert (run.removed, run.decisions.edits.num_rows, run.overlaps) == ([], 0, [("d", "six", 1.0)])


def test_an_item_in_pieces_has_several_spans(tmp_path: Path) -> None:
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda my".split()
    text = f"Some say {' '.join(words[:6])} and so on. Then {' '.join(words[6:]).title()} the end of it."
    run = Run(tmp_path, [{"id": "q", "text": " ".join(words)}], [("d", text)], settings(margin=1, action="cut"))
    [row] = run.decisions.contamination.to_pylist()
    first, second = text.index("alpha"), text.index("Eta")
    assert row["spans"] == [
        {"start": first, "end": text.index(" and")},  # of two equally long ones the first is the span
        {"start": second, "end": text.index(" the end")},
    ]
    assert (row["start"], row["end"], row["span"]) == (first, text.index(" and"), " ".join(words[:6]))
    assert (row["overlap"], row["words"], row["field"]) == (1.0, 12, "text")
    assert row["item_text"] == " ".join(words)
    assert row["item_spans"] == [{"start": 0, "end": len(row["item_text"])}]
    # one word on both sides: say ... and; Then ... the
    assert cut(text.encode(), run.decisions.edits.to_pylist()).decode() == "Some so on. end of it."


def test_a_margin_does_not_reach_into_what_is_far_and_a_text_is_cut_once(tmp_path: Path) -> None:
    more = {"id": "more", "text": "one two three four nine ten"}  # its first four words are the six's
    run = Run(
        tmp_path,
        [*SIX, more],
        [("d", "a b one two three four five six c d")],
        settings(ngram=3, action="cut", margin=1),
    )
    assert [(row["item"], row["overlap"]) for row in run.decisions.contamination.to_pylist()] == [
        ("six", 1.0),
        ("more", 4 / 6),
    ]
    [edit] = run.decisions.edits.to_pylist()
    assert (edit["start"], edit["end"]) == (2, len("a b one two three four five six c "))


@pytest.mark.parametrize(("words", "found"), [(7, False), (8, True)])
def test_eight_words_are_evidence_and_seven_are_chance(tmp_path: Path, words: int, found: bool) -> None:
    item = {"id": "q", "text": " ".join(GREEK.split()[:14])}
    run = Run(tmp_path, [item], [("d", f"so {' '.join(GREEK.split()[:words])} indeed")], settings(threshold=0.1))
    assert run.overlaps == ([("d", "q", 8 / 14)] if found else [])


HAN = "在河流上游的城镇中哪一座曾在洪水之冬被烧毁而后由行会重建成为谷物市场"  # 34 characters


@pytest.mark.parametrize(("first", "end", "found"), [(0, 34, True), (0, 16, True), (0, 15, False), (10, 26, True)])
def test_where_a_word_is_a_character_twice_as_many_are_evidence(
    tmp_path: Path, first: int, end: int, found: bool
) -> None:
    text = f"今天天气很好。{HAN[first:end]}！明天见。"
    run = Run(tmp_path, [{"id": "q", "text": HAN}], [("d", text)], settings())
    assert run.overlaps == ([("d", "q", (end - first) / 34)] if found else [])
    # 34 // 8 is 4, the shortest n-gram 5, and 10 here
    assert run.index.texts["n"].to_pylist() == [10]


def test_a_short_question_in_han_is_tested_with_its_answer(tmp_path: Path) -> None:
    items = [{"id": "q", "question": HAN[:12], "answer": HAN[12:18]}, {"id": "r", "question": HAN[18:33]}]
    docs = [("asked", f"{HAN[:12]}？{HAN[12:18]}。"), ("alone", HAN[:12]), ("other", HAN[18:33])]
    run = Run(tmp_path, items, docs, settings())
    assert run.overlaps == [("asked", "q", 1.0)]  # 18 characters
    [untested] = run.built["benchmarks"]["bench"]["untested"]
    assert (untested["item"], untested["reason"]) == ("r", "fewer than 16 words, also with an answer")


def test_five_hundred_copies_of_a_leak_are_one_cluster(tmp_path: Path) -> None:
    leak = f"Before it. {GREEK}. Behind it."
    docs = [(f"c{number}", leak) for number in range(500)]
    run = Run(tmp_path, [{"id": "q", "text": GREEK}], docs, settings(max_clusters=1), clusters=[7] * 500)
    assert len(run.removed) == 500
    assert run.report["benchmarks"]["bench"]["matches"] == {"q": 500}
    assert [(row["item"], row["documents"]) for row in run.report["worst"]] == [("q", 500)]


def test_a_leak_beside_a_common_phrase_keeps_its_score(tmp_path: Path) -> None:
    notice = "permission to use and copy this text for any purpose is hereby granted"  # 13 words
    item = {"id": "q", "text": f"{notice} {GREEK}"}
    docs = [(f"n{number}", f"{notice} by author a{number}") for number in range(3)] + [
        ("leak", f"see {item['text']} so")
    ]
    run = Run(tmp_path, [item], docs, settings(max_clusters=2))
    # 27 words, n is 5: 9 n-grams of the notice are common, 14 are left and cover the 14 words behind it and 4 before
    assert run.overlaps == [("leak", "q", 1.0)]
    [row] = run.decisions.contamination.to_pylist()
    assert (row["words"], row["span"]) == (18, item["text"])
    assert run.report["common_ngrams"] == 9


def test_a_notice_with_a_few_words_behind_it_is_no_leak(tmp_path: Path) -> None:
    notice = "permission to use and copy this text for any purpose is hereby granted"
    item = {"id": "q", "text": f"{notice} to all of us"}  # 17 words; 4 n-grams of 13 are not common: 8 words count
    docs = [(f"n{number}", f"{notice} by author a{number}") for number in range(3)] + [("more", f"{notice} to all men")]
    run = Run(tmp_path, [item], docs, settings(max_clusters=2, threshold=0.1))
    # two of the four are there, "is hereby granted to all" the last: six words that count, too few, though 6 of 8
    assert run.overlaps == []


# ---- contract


def test_matches_are_compact_and_sorted(tmp_path: Path) -> None:
    run = Run(tmp_path, SIX, [("d", "one two three " * 1000), ("e", "x " * 1000)], settings(ngram=3))
    [batch] = run.batches
    assert batch["matches"].type == pa.large_list(pa.uint64())
    # 123 once, 8 bytes, though it stands there a thousand times; 231 and 312 are not in the index
    assert batch["matches"].value_lengths().to_pylist() == [1, 0]
    assert batch["matches"].values.nbytes == 8
    assert all(row == sorted(set(row)) for row in batch["matches"].to_pylist())


def test_nulls_slices_and_empty_batches(tmp_path: Path) -> None:
    run = Run(tmp_path, SIX, [("d", SIX[0]["text"])], settings(ngram=3))
    text = SIX[0]["text"]
    column = pa.array([text, None, " ".join(text.split()[:3]), ""], pa.large_string())
    batch = pa.RecordBatch.from_arrays([column], names=["text"])
    assert overlaps(batch, run.index)["matches"].value_lengths().to_pylist() == [4, 0, 1, 0]
    assert overlaps(batch.slice(2, 1), run.index)["matches"].value_lengths().to_pylist() == [1]
    assert overlaps(batch.slice(0, 0), run.index).num_rows == 0
    nothing = decide([run.batches[0].slice(0, 0)], run.index, run.common, settings(ngram=3))
    assert [table.num_rows for table in nothing] == [0, 0, 0]


def test_an_index_without_any_ngram_finds_nothing_and_says_so(tmp_path: Path) -> None:
    run = Run(tmp_path, [{"id": "q", "answer": "only an answer"}], [("d", "only an answer")], settings())
    assert run.removed == []
    assert run.report["benchmarks"]["bench"]["items_tested"] == 0
    assert run.report["benchmarks"]["bench"]["untested"] == [
        {"item": "q", "reason": "no text but labels and answers", "text": ""}
    ]


def test_index_survives_a_pickle_and_is_the_same_bytes_again(tmp_path: Path) -> None:
    run = Run(tmp_path, SIX, [("d", SIX[0]["text"])], settings(ngram=3))
    again = pickle.loads(pickle.dumps(run.index))
    assert overlaps(run.batches[0], again).equals(overlaps(run.batches[0], run.index))
    build_index([("bench", str(tmp_path / "bench.jsonl"))], settings(ngram=3), str(tmp_path / "again.parquet"))
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "index.parquet").read_bytes()


def test_columns_of_another_index_or_text_are_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, SIX, [("d", SIX[0]["text"])], settings(ngram=3))
    [batch] = run.batches
    alien = pa.array([[1, 2]], pa.large_list(pa.uint64()))
    with pytest.raises(ValueError, match="measure again"):
        decide(
            [batch.set_column(batch.schema.get_field_index("matches"), "matches", alien)],
            run.index,
            run.common,
            settings(ngram=3),
        )
    other = pa.array(["one two three four five"], pa.large_string())
    with pytest.raises(ValueError, match="document d: its text does not hold the n-grams of column 'matches'"):
        decide([batch.set_column(1, "text", other)], run.index, run.common, settings(ngram=3))


# ---- fault cases


@functools.cache
def cases() -> dict[str, Any]:
    with CASES.open(encoding="utf-8") as lines:
        return {case["id"]: case for case in map(json.loads, lines) if case["stage"] == "decontaminate"}


@needs_cases
@pytest.mark.parametrize("name", ["decon-001", "decon-002", "decon-003", "decon-004", "decon-005", "decon-006"])
@pytest.mark.parametrize("rows", [1, 1000])
def test_case(tmp_path: Path, name: str, rows: int) -> None:
    case = cases()[name]
    docs = [(doc["id"], doc["text"]) for doc in case["input"]["docs"]]
    chosen = settings(**case.get("params", {}))
    run = Run(tmp_path, case["input"]["bench"], docs, chosen, rows=rows)
    expect = case["expect"]
    if "expected_dropped_ids" in expect:
        assert run.removed == expect["expected_dropped_ids"]
    if "expected_kept_ids" in expect:
        assert not set(run.removed) & set(expect["expected_kept_ids"])
    if "max_dropped" in expect:
        assert len(run.removed) <= expect["max_dropped"]
    about = run.report["benchmarks"]["bench"]
    if name == "decon-001":
        assert about["matches"] == expect["expected_report"]["matches"]
    if name == "decon-004":
        [phrase] = run.report["common_phrases"]
        assert phrase["text"].startswith("Permission to copy this register is granted")
        assert phrase["documents"] == 30
    if name == "decon-005":
        assert about["items_tested"] + len(about["untested"]) == 3
    if name == "decon-006":
        assert about["matches"] == {"m3": 1}
        assert about["template_phrases"][0]["text"].startswith("Read the passage and choose the option")


def test_every_case_of_this_stage_is_tested() -> None:
    if not CASES.is_file():
        pytest.skip(f"fault cases are absent: no file {CASES}; set CURATE_DATA")
    assert set(cases()) == {f"decon-00{number}" for number in range(1, 7)}
