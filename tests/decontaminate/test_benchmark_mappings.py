"""Shipped mappings: each on real files, or on rows of ours with exactly the columns and types that its source states."""

from __future__ import annotations

import gzip
import json
import os
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.benchmarks.items import Benchmark, BenchmarkFiles, Item, read_benchmark
from curate.benchmarks.mappings import GENERAL, NAMES, SHIPPED, chosen

DATA = Path(os.environ.get("CURATE_DATA", Path(__file__).parents[2] / "../shared/data")) / "06_benchmarks"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"real inputs are absent: no folder {DATA}; set CURATE_DATA")

Q, C, X = (
    "Which lock on the canal has seven gates?",
    "The canal has nine locks, one with seven gates.",
    "the third lock",
)
FOUR = ["the first lock", "the second lock", X, "the last lock"]
LETTERS = ["A", "B", "C", "D"]
_FOR_GPQA = chosen("gpqa", ()).columns()[0]


def row(**values: Any) -> dict[str, Any]:
    return values


# Form, a row as its source states it, and question, context, choices and gold answers by hand.
ROWS: tuple[tuple[str, dict[str, Any], tuple[list[str], list[str], list[str], list[str]]], ...] = (
    ("question_answer", row(question=Q, answer=[X, "lock three"]), ([Q], [], [], [X, "lock three"])),
    ("mgsm", row(question=Q, answer="First.\nThe answer is 3.", answer_number=3, equation_solution="1 + 2 = 3"),
     ([Q], [], [], ["First.\nThe answer is 3.", "3"])),
    ("math", row(problem=Q, level="Level 3", type="Algebra", solution=X), ([Q], [], [], [X])),
    ("math_500", row(problem=Q, solution=f"So {X}.", answer=X, subject="Algebra", level=2, unique_id="test/7.json"),
     ([Q], [], [], [f"So {X}.", X])),
    ("simpleqa", row(metadata="{'topic': 'Canals', 'urls': ['https://example.org/']}", problem=Q, answer=X),
     ([Q], [], [], [X])),
    ("trivia_qa",
     row(question=Q, question_id="tc_2", question_source="http://www.triviacountry.com/",
         entity_pages=row(doc_source=["TagMe"], filename=["Canal.txt"], title=["Canal"], wiki_context=["A canal is dug."]),
         search_results=row(description=["Locks."], filename=["1.txt"], rank=[0], title=["Locks"], url=["http://a.example"],
                            search_context=["Locks are gates."]),
         answer=row(aliases=[X, "lock three"], normalized_aliases=["third lock"], matched_wiki_entity_name="",
                    normalized_matched_wiki_entity_name="", normalized_value="third lock", type="WikipediaEntity", value=X)),
     ([Q], [], [], [X, X, "lock three"])),
    ("input_target", row(input=f"{Q}\nOptions:\n(A) yes\n(B) no", target="(A)"), ([f"{Q}\nOptions:\n(A) yes\n(B) no"], [], [], ["(A)"])),
    ("bbh_original", row(canary="This data must not appear in corpora.", examples=[row(input=Q, target=X)]),
     ([Q], [], [], [X])),
    ("mmlu", row(question=Q, subject="canals", choices=FOUR, answer=2), ([Q], [], FOUR, [X])),
    ("mmlu_pro", row(question_id=70, question=Q, options=[*FOUR, "none"], answer="C", answer_index=2, cot_content="",
                     category="engineering", src="stemez-Canals"), ([Q], [], [*FOUR, "none"], [X])),
    ("mmmlu", {"Unnamed: 0": 0, "Question": Q, **dict(zip(LETTERS, FOUR, strict=True)), "Answer": "C", "Subject": "canals"},
     ([Q], [], FOUR, [X])),
    ("hellaswag", row(ind=24, activity_label="Locking", ctx_a="A boat waits.", ctx_b="the keeper", ctx="A boat waits. The keeper",
                      endings=FOUR, source_id="activitynet~v_1", split="val", split_type="indomain", label="2"),
     (["A boat waits. The keeper"], [], FOUR, [X])),
    ("hellaswag", row(ind=24, activity_label="Locking", ctx_a="A boat waits.", ctx_b="the keeper", ctx="A boat waits. The keeper",
                      endings=FOUR, source_id="activitynet~v_1", split="test", split_type="zeroshot"),
     (["A boat waits. The keeper"], [], FOUR, [])),
    ("winogrande", row(qID="3QX22DUVOOH7N2B6-2", sentence="It is _ late.", option1="too", option2="not"),
     (["It is _ late.", "It is too late.", "It is not late."], [], ["too", "not"], [])),
    ("arc", row(id="Mercury_1", question=Q, choices=row(text=FOUR, label=["1", "2", "3", "4"]), answerKey="3"),
     ([Q], [], FOUR, [X])),
    ("arc_original", row(id="Mercury_1", question=row(stem=Q, choices=[row(text=text, label=letter) for text, letter in
                                                                       zip(FOUR, LETTERS, strict=True)]), answerKey="C"),
     ([Q], [], FOUR, [X])),
    ("openbookqa", row(id="7-980", question_stem=Q, choices=row(text=FOUR, label=LETTERS), answerKey="C"),
     ([Q], [], FOUR, [X])),
    ("commonsense_qa", row(id="1afa", question=Q, question_concept="lock", choices=row(label=LETTERS, text=FOUR),
                           answerKey="C"), ([Q], [], FOUR, [X])),
    ("piqa", row(goal=Q, sol1=FOUR[0], sol2=X, label=1), ([Q], [], [FOUR[0], X], [X])),
    ("winogrande", row(sentence="The barge missed the lock as the _ was late.", option1="barge", option2="lock", answer="1"),
     (["The barge missed the lock as the _ was late.", "The barge missed the lock as the barge was late.",
       "The barge missed the lock as the lock was late."], [], ["barge", "lock"], ["barge"])),
    ("social_i_qa", row(context=C, question=Q, answerA=FOUR[0], answerB=FOUR[1], answerC=X, label="3"),
     ([Q], [C], [*FOUR[:2], X], [X])),
    ("copa", row(premise=C, choice1=FOUR[0], choice2=X, question="effect", idx=4, label=1), ([], [C], [FOUR[0], X], [X])),
    ("sciq", row(question=Q, distractor3=FOUR[3], distractor1=FOUR[0], distractor2=FOUR[1], correct_answer=X, support=C),
     ([Q], [C], [X, *FOUR[:2], FOUR[3]], [X])),
    ("truthful_qa_mc", row(question=Q, mc1_targets=row(choices=[X, *FOUR[:2]], labels=[1, 0, 0]),
                           mc2_targets=row(choices=[X, "lock three", FOUR[0]], labels=[1, 1, 0])),
     ([Q], [], [X, *FOUR[:2], X, "lock three", FOUR[0]], [X])),
    ("truthful_qa", row(type="Adversarial", category="Canals", question=Q, best_answer=X, correct_answers=[X],
                        incorrect_answers=FOUR[:2], source="https://example.org/"), ([Q], [], [X, *FOUR[:2]], [X])),
    ("agieval", row(passage=C, question=Q, options=[f"({letter}){text}" for letter, text in zip(LETTERS, FOUR, strict=True)],
                    label="C", other=row(solution="Count."), explanation=None),
     ([Q], [C], [f"({letter}){text}" for letter, text in zip(LETTERS, FOUR, strict=True)], [f"(C){X}"])),
    ("agieval", row(passage=None, question=Q, options=None, label=None, answer="(3,4]", other=None),
     ([Q], [], [], ["(3,4]"])),
    ("gpqa", {**dict.fromkeys(sorted(_FOR_GPQA), None), "Question": Q, "Pre-Revision Question": "Which lock?",
              "Correct Answer": X, "Incorrect Answer 1": FOUR[0], "Incorrect Answer 2": FOUR[1], "Incorrect Answer 3": FOUR[3],
              "Record ID": "recABC", "Canary String": "Only for testing: do not put it into a corpus."},
     ([Q, "Which lock?"], [], [X, *FOUR[:2], FOUR[3]], [X])),
    ("medmcqa", row(id="e9ad", question=Q, opa=FOUR[0], opb=FOUR[1], opc=X, opd=FOUR[3], cop=2, choice_type="single",
                    exp="Count.", subject_name="Canals", topic_name=None), ([Q], [], FOUR, [X])),
    ("boolq_passages", row(question="is the third lock open", answer=True, passage=C),
     (["is the third lock open"], [C], ["no", "yes"], ["yes"])),
    ("boolq_passages", row(question="is the third lock open", title="Lock", answer=False, passage=C),
     (["is the third lock open"], [C], ["no", "yes"], ["no"])),
    ("boolq_super_glue", row(question="is the third lock open", passage=C, idx=0, label=1),
     (["is the third lock open"], [C], ["no", "yes"], ["yes"])),
    ("squad", row(id="5733", title="Canal", context=C, question=Q, answers=row(text=[X, X], answer_start=[4, 4])),
     ([Q], [C], [], [X, X])),
    ("squad", row(id="5733", context=C, question=Q, answers=row(text=[], answer_start=[])), ([Q], [C], [], [])),
    ("squad_original",
     row(version="1.1", data=[row(title="Canal", paragraphs=[row(context=C, qas=[row(id="q1", question=Q, answers=[
         row(text=X, answer_start=4)])])])]), ([Q], [C], [], [X])),
    ("drop", row(section_id="nfl_1", query_id="f37", passage=C, question=Q, answers_spans=row(spans=[X], types=["span"])),
     ([Q], [C], [], [X])),
    ("drop_original", row(nfl_1=row(passage=C, wiki_url="https://example.org/", qa_pairs=[row(
        question=Q, query_id="f37", answer=row(number="3", date=row(day="", month="", year=""), spans=[]))])),
     ([Q], [C], [], ["3"])),
    ("race", row(example_id="high1.txt", article=C, answer="C", question=Q, options=FOUR), ([Q], [C], FOUR, [X])),
    ("text", row(text=f"{C} It is {X}", domain=None), ([f"{C} It is {X}"], [], [], [])),
    ("xnli", row(premise=C, hypothesis=Q, label=1), ([C, Q], [], [], [])),
    ("mbpp_sanitized", row(source_file="Benchmark Questions.ipynb", task_id=2, prompt=Q, code="def lock(): return 3",
                           test_imports=["import math"], test_list=["assert lock() == 3"]),
     ([Q, "assert lock() == 3", "import math"], [], [], ["def lock(): return 3"])),
    ("ifeval", row(key=1000, prompt=Q, instruction_id_list=["punctuation:no_comma"], kwargs=[row(num_words=None)]),
     ([Q], [], [], [])),
)  # fmt: skip

# Of the real files: form, name in reports, items, then items with question, context and choices, choices and gold answers.
# Counted by hand with a JSON parser: 4 choices each in ARC, OpenBookQA and OAB, 3 of ENEM without any and 7 with no question of
# their own, the answers of TruthfulQA between semicolons, three or four for each question of FaQuAD.
REAL = {
    "arc_challenge": ("query_choices", "arc_challenge", 1172, (1172, 0, 1172), 4688, 1172),
    "arc_easy": ("query_choices", "arc_easy", 2376, (2376, 0, 2376), 9504, 2376),
    "assin_ptbr_test": ("assin", "assin", 2000, (2000, 0, 0), 0, 0),
    "boolq": ("boolq_query", "boolq", 3270, (3270, 3270, 3270), 6540, 3270),
    "enem_2022_pt": ("enem", "enem", 179, (179, 179, 176), 880, 176),
    "faquad_dev_pt": ("squad", "faquad", 63, (63, 63, 0), 0, 54 * 3 + 9 * 4),
    "gsm8k_test": ("question_answer", "gsm8k", 1319, (1319, 0, 0), 0, 1319),
    "humaneval": ("humaneval", "humaneval", 164, (164, 0, 0), 0, 164),
    "lambada_openai": ("lambada_continuation", "lambada_openai", 5153, (5153, 0, 0), 0, 5153),
    "mbpp": ("mbpp", "mbpp", 974, (974, 0, 0), 0, 974),
    "oab_exams_pt": ("oab_exams", "oab_exams", 1159, (1159, 0, 1159), 4636, 1159),
    "openbook_qa": ("query_choices", "openbook_qa", 500, (500, 0, 500), 2000, 500),
    "piqa": ("query_choices", "piqa", 1838, (1838, 0, 1838), 3676, 1838),
    "processed_human_eval_js": ("humaneval_tests", "processed_human_eval_js", 164, (164, 0, 0), 0, 164),
    "truthfulqa": ("truthfulqa_table", "truthfulqa", 817, (817, 0, 817), 2839 + 3370, 817),
    "winogrande": ("winogrande_options", "winogrande", 1267, (1267, 0, 0), 0, 1267),
}


# Of one item, the gold answer as its label says it: item from 0, the answer's beginning.
GOLD = {
    "arc_challenge": (0, "Planetary days will become shorter."),  # gold: 2
    "boolq": (5, "no"),  # gold: 0
    "openbook_qa": (0, "quit eating lunch out"),  # gold: 1
    "enem_2022_pt": (3, "do papel da amizade em diferentes contextos."),  # label: c
    "oab_exams_pt": (
        0,
        "optar, com prudência e discernimento, por um dos mandatos",
    ),  # answer: A, of an object by letters
    "faquad_dev_pt": (0, "requisitos"),
    "truthfulqa": (0, "The watermelon seeds pass through your digestive system"),
    "winogrande": (0, "always got the easier cases."),
}


def texts(item: Item) -> tuple[list[str], ...]:
    return tuple([part.text for part in item.of(role)] for role in ("question", "context", "choice", "answer"))


def read(folder: Path, rows: list[dict[str, Any]], **how: Any) -> Benchmark:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return read_benchmark(BenchmarkFiles((str(path),), **how))


def unseen(general: Benchmark, mapped: Benchmark) -> dict[str, str]:
    """Return fields that the general rule looks for and of which the mapping makes neither a text nor an answer, nor a reason."""
    found = {}
    for one, other in zip(general.items, mapped.items, strict=True):
        looked_for = {" ".join(part.text.split()) for part in other.of("question", "context")}
        for part in one.of("question", "context"):
            text, name = " ".join(part.text.split()), part.field.split(".")[0]
            if name in {part.field.split(".")[0] for part in other.of("answer")}:
                continue
            if text not in looked_for and not any(text in longer for longer in looked_for):
                halves = [half for half in looked_for if half in text]  # "Passage: ... Question: ..." taken apart
                if sum(map(len, halves)) < 0.9 * len(text) - 20 and name not in mapped.facts["left_out"]:
                    found[part.field] = text[:80]
    return found


def test_every_mapping_has_rows_or_a_real_file() -> None:
    assert {form.names[0] for form in SHIPPED} == {name for name, *_ in ROWS} | {form for form, *_ in REAL.values()}
    assert all(form.source for form in SHIPPED)
    assert GENERAL in NAMES


@pytest.mark.parametrize(("form", "one", "expected"), ROWS, ids=[f"{name}-{at}" for at, (name, *_) in enumerate(ROWS)])
def test_rows_as_their_source_states_them(
    tmp_path: Path, form: str, one: dict[str, Any], expected: tuple[list[str], ...]
) -> None:
    asked = read(tmp_path, [one], mapping=form)
    assert [texts(item) for item in asked.items] == [tuple(expected)]
    assert (asked.facts["mapping"], asked.facts["mapping_by"]) == (form, "recipe")
    if form == "drop_original":  # its columns are the names of passages
        return
    told = read(tmp_path, [one], name=form)
    assert (told.items, told.facts["mapping"], told.facts["mapping_by"]) == (asked.items, form, "recognised")
    general = read(tmp_path, [one], mapping=GENERAL)
    if len(general.items) == len(told.items) and form not in ("squad_original",):
        assert unseen(general, told) == {}


@needs_data
@pytest.mark.parametrize("name", sorted(REAL))
def test_real_files_by_counts_made_by_hand(tmp_path: Path, name: str) -> None:
    form, called, items, with_role, choices, answers = REAL[name]
    read = read_benchmark(str(DATA / f"{name}.jsonl.gz"))
    facts = read.facts
    assert (len(read.items), facts["mapping"], facts["mapping_by"], facts["unfit"]) == (items, called, "recognised", {})
    assert tuple(facts["items_with"][role] for role in ("question", "context", "choice")) == with_role
    assert (facts["parts"]["choice"], facts["parts"]["answer"]) == (choices, answers)
    assert (facts["files"], facts["repeated_ids"]) == ({f"{name}.jsonl.gz": items}, 0)
    assert form in {shipped.names[0] for shipped in SHIPPED if called in shipped.names}
    if name in GOLD:
        number, gold = GOLD[name]
        assert read.items[number].of("answer")[0].text.startswith(gold)
    if name == "boolq":  # passage and question of one field are parted
        [question], [passage] = read.items[5].of("question"), read.items[5].of("context")
        assert question.text == "is barq's root beer a pepsi product?"
        assert passage.text.endswith("It was known as Barq's Famous Olde Tyme Root Beer until 2012.")
    with gzip.open(DATA / f"{name}.jsonl.gz", "rb") as file:
        some = list(islice(file, 300))
    (tmp_path / f"{name}.jsonl").write_bytes(b"".join(some))
    general, mapped = (
        read_benchmark(BenchmarkFiles((str(tmp_path / f"{name}.jsonl"),), mapping=how)) for how in (GENERAL, "")
    )
    assert unseen(general, mapped) == {}


def test_a_benchmark_has_several_forms_under_one_name(tmp_path: Path) -> None:
    query = row(query=f"Passage: {C}\nQuestion: is it open?", choices=["no", "yes"], gold=1)
    hub = row(question="is it open?", answer=True, passage=C)
    for one in (query, hub):
        [item] = read(tmp_path, [one], mapping="boolq").items
        assert texts(item) == (["is it open?"], [C], ["no", "yes"], ["yes"])
    # The same columns under another name: nothing of the query is taken apart, and nothing of it is lost.
    [item] = read(tmp_path, [query], name="mine").items
    assert texts(item)[:2] == ([query["query"]], [])


def test_parquet_as_the_hub_stores_it(tmp_path: Path) -> None:
    rows = [one for name, one, _ in ROWS if name == "arc"]
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("question", pa.string()),
            ("choices", pa.struct([("text", pa.list_(pa.string())), ("label", pa.list_(pa.string()))])),
            ("answerKey", pa.string()),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "test-00000-of-00001.parquet")
    read = read_benchmark(str(tmp_path / "test-00000-of-00001.parquet"))
    assert [texts(item) for item in read.items] == [([Q], [], FOUR, [X])]
    assert read.facts["mapping"] == "arc"


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (
            [row(question=Q, answer=X), row(question=Q, answer=X, hints=["Count the gates of every lock."])],
            "not in line 2",
        ),
        ([row(query=Q, choices=FOUR, gold=2), row(query=Q, choices=FOUR, gold=7)], "7 names none of the 4 choices"),
        ([row(question=row(stem=Q, choices=FOUR), answer=X)], "is an object, no text"),
    ],
)
def test_foreign_rows_make_a_recognised_mapping_give_way(tmp_path: Path, rows: list[dict[str, Any]], why: str) -> None:
    given = read(tmp_path, rows)
    assert (given.facts["mapping"], given.facts["mapping_by"]) == (GENERAL, "")
    assert why in given.facts["unfit"]["rows.jsonl"]
    assert given.items == read(tmp_path, rows, mapping=GENERAL).items
    assert all("Which lock" in item.parts[0].text for item in given.items)


def test_a_foreign_column_from_the_start_means_no_mapping(tmp_path: Path) -> None:
    given = read(tmp_path, [row(question=Q, answer=X, aside="The keeper of the lock wrote this himself.")])
    assert (given.facts["mapping"], given.facts["unfit"]) == (GENERAL, {})
    assert [part.field for part in given.items[0].of("question")] == ["question", "aside"]


def test_what_is_not_looked_for_is_said(tmp_path: Path) -> None:
    one = next(one for name, one, _ in ROWS if name == "hellaswag")
    facts = read(tmp_path, [one]).facts
    assert facts["fields"] == {"ctx": {"question": 1}, "endings": {"choice": 4, "answer": 1}}
    assert set(facts["left_out"]) == set(one) - {"ctx", "endings"}
    assert facts["left_out"]["label"] == "tells which answer is gold"
    assert "same text" in facts["left_out"]["ctx_a"]
    general = read(tmp_path, [row(text=Q, label=3, url="https://example.org/", score=0.5, answer=X, empty=" ")]).facts
    assert general["left_out"] == dict.fromkeys(("label", "url", "score"), "a label by its name")
    assert general["fields"] == {"text": {"question": 1}, "answer": {"answer": 1}}
