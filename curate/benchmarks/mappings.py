"""The mappings that ship: where the usual benchmarks keep question, context, choices and gold answer.

Each accounts for every column of its benchmark: it has a role, or is left out for a stated reason. So a file with just these
columns is recognised, whatever its name, and nothing of it is left out unseen. Several benchmarks share a form; the file's name
then only decides which of them the report calls it by, and between two readings of the same columns.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curate.benchmarks.fields import Fields

GENERAL = "general"  # in place of a mapping's name: the rule for files without one

_TOPIC = "what the item is about, in a word or two"
_LABEL = "a label, not text of the item"
_GOLD = "tells which answer is gold, in another form"
_ORIGIN = "where the item comes from"
_NUMBER = "an id or a number"
_SAID = "the same text, with or without what stands elsewhere"
_EXPLAINED = "explains the gold answer"
_WORK = "how the item was made and checked"
_TESTING = "how answers are tested"


@dataclass(frozen=True, slots=True)
class Shipped:
    """One mapping.

    Attributes:
        names: Of the benchmarks that have this form; the first is the form's own.
        source: Where its columns are stated.
        values: The settings of its `Fields`.
        left_out: Reason to the columns that are not looked for; `?` behind one that rows may lack.
    """

    names: tuple[str, ...]
    source: str
    values: Mapping[str, Any]
    left_out: Mapping[str, tuple[str, ...]]

    @property
    def fields(self) -> Fields:
        """Return where its texts are."""
        return _fields(self.names[0])

    def columns(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the columns that every row has, and those that it may have besides."""
        paths = [path for _, path in self.fields.uses() if not path.startswith("=")]
        paths += [column for columns in self.left_out.values() for column in columns]
        roots = [(path.removesuffix("?").split(".")[0], path.endswith("?")) for path in paths]
        return (
            frozenset(root for root, optional in roots if not optional),
            frozenset(root for root, optional in roots if optional),
        )

    def reason(self, column: str) -> str | None:
        """Return why a column is left out, or None for one with a role."""
        return next(
            (why for why, columns in self.left_out.items() if column in {name.removesuffix("?") for name in columns}),
            None,
        )


def _form(names: str, source: str, *, out: Mapping[str, tuple[str, ...]] | None = None, **values: Any) -> Shipped:
    return Shipped(tuple(names.split()), source, values, out or {})


_FOUNDRY = "mosaicml/llm-foundry, scripts/eval/local_data"
_HUB = "feature lists of huggingface/datasets, datasets/"
_GPQA_REVISIONS = tuple(
    f"{revision} {name}"
    for revision in ("Pre-Revision", "Extra Revised")
    for name in ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3", "Explanation")
)
_GPQA_EXPERT: tuple[str, ...] = (
    "Feedback",
    "Validator Revision Suggestion",
    "Is First Validation",
    "Post hoc agreement",
)
_GPQA_EXPERT += (
    "Sufficient Expertise?",
    "Understand the question?",
    "Question Difficulty",
    "Validator Answered Correctly",
)
_GPQA_EXPERT += (
    "Self-reported time (minutes)",
    "Probability Correct",
    "Manual Correctness Adjustment",
    "Expert Validator",
)
_GPQA_OTHERS: tuple[str, ...] = (
    "Feedback",
    "Validator Answered Correctly",
    "Explanation",
    "Self-reported time (minutes)",
)
_GPQA_OTHERS += ("Websites visited", "Probability Correct", "Manual Correctness Adjustment", "Non-Expert Validator")

# Of two forms with the same columns the first is taken, unless the file's name has that of the second.
SHIPPED: tuple[Shipped, ...] = (
    # -- one question, one answer
    _form(
        "question_answer gsm8k nq_open natural_questions",
        "openai/grade-school-math; " + _HUB + "nq_open",
        question="question",
        answer="answer",
    ),
    _form(
        "mgsm",
        "juletxara/mgsm on the hub",
        question="question",
        answer=("answer", "answer_number"),
        out={_EXPLAINED: ("equation_solution",)},
    ),
    _form("math competition_math hendrycks_math", _HUB + "competition_math", question="problem", answer="solution",
          out={_TOPIC: ("level", "type")}),
    _form(
        "math_500",
        "HuggingFaceH4/MATH-500 on the hub",
        question="problem",
        answer=("solution", "answer"),
        id="unique_id",
        out={_TOPIC: ("subject", "level")},
    ),
    _form("simpleqa", "basicv8vc/SimpleQA on the hub", question="problem", answer="answer", out={_ORIGIN: ("metadata",)}),
    _form(
        "trivia_qa triviaqa",
        _HUB + "trivia_qa",
        question="question",
        answer=("answer.value", "answer.aliases"),
        id="question_id",
        out={
            _ORIGIN: ("question_source",),
            "pages found for the question, which are no part of the benchmark": ("entity_pages", "search_results"),
        },
    ),
    _form("input_target bbh big_bench_hard", "lukaemon/bbh on the hub", question="input", answer="target"),
    _form(
        "bbh_original bbh big_bench_hard",
        "suzgunm/BIG-Bench-Hard, one JSON file for each task",
        each="examples",
        question="examples.input",
        answer="examples.target",
        out={"the notice that marks benchmark files, the same for all": ("canary",)},
    ),
    # -- choices
    _form("query_choices arc_easy arc_challenge openbook_qa piqa hellaswag copa commonsense_qa siqa agieval", _FOUNDRY,
          question="query", choices="choices", answer={"pick": "gold"}),
    _form("boolq_query boolq", _FOUNDRY, choices="choices", answer={"pick": "gold"},
          context={"between": "query", "after": "Passage: ", "before": "\nQuestion: "},
          question={"between": "query", "after": "\nQuestion: "}),
    _form("winogrande_options winogrande", _FOUNDRY,
          question="context_options", answer="continuation", out={_GOLD: ("gold",)}),
    _form("mmlu hendrycks_test", _HUB + "hendrycks_test; cais/mmlu on the hub",
          question="question", choices="choices", answer={"pick": "answer"}, out={_TOPIC: ("subject?",)}),
    _form("mmlu_pro", "TIGER-Lab/MMLU-Pro on the hub; TIGER-AI-Lab/MMLU-Pro, evaluate_from_api.py",
          question="question", choices="options", answer={"pick": "answer_index"}, id="question_id",
          out={_GOLD: ("answer",), _EXPLAINED: ("cot_content",), _TOPIC: ("category",), _ORIGIN: ("src",)}),
    _form("mmmlu", "openai/MMMLU on the hub", question="Question", choices=("A", "B", "C", "D"),
          answer={"pick": "Answer"}, out={_TOPIC: ("Subject",), _NUMBER: ("Unnamed: 0?",)}),
    _form("hellaswag", _HUB + "hellaswag", question="ctx", choices="endings", answer={"pick": "label?"},
          out={_SAID: ("ctx_a", "ctx_b"), _NUMBER: ("ind", "source_id"), _LABEL: ("split", "split_type"),
               _TOPIC: ("activity_label",)}),
    _form("arc ai2_arc arc_easy arc_challenge", _HUB + "ai2_arc", question="question", choices="choices.text", id="id",
          answer={"pick": "answerKey", "by": "choices.label"}),
    _form("arc_original arc arc_easy arc_challenge openbookqa openbook_qa commonsense_qa",
          "original releases: id, question {stem, choices}, answerKey, as " + _HUB + "openbookqa reads them", id="id",
          question="question.stem", choices="question.choices.text",
          answer={"pick": "answerKey?", "by": "question.choices.label"}),
    _form("openbookqa openbook_qa", _HUB + "openbookqa", question="question_stem", choices="choices.text", id="id",
          answer={"pick": "answerKey", "by": "choices.label"}),
    _form("commonsense_qa", _HUB + "commonsense_qa", question="question", choices="choices.text", id="id",
          answer={"pick": "answerKey", "by": "choices.label"}, out={_TOPIC: ("question_concept",)}),
    _form("piqa", _HUB + "piqa", question="goal", choices=("sol1", "sol2"), answer={"pick": "label?"}),
    _form("winogrande", _HUB + "winogrande", choices=("option1", "option2"), answer={"pick": "answer?", "first": 1}, id="qID?",
          question={"fill": "sentence", "of": ("option1", "option2")}),
    _form("social_i_qa siqa", _HUB + "social_i_qa", context="context", question="question",
          choices=("answerA", "answerB", "answerC"), answer={"pick": "label?", "first": 1}),
    _form("copa", _HUB + "super_glue (copa)", context="premise", choices=("choice1", "choice2"),
          answer={"pick": "label?"}, id="idx", out={"cause or effect, which is asked for": ("question",)}),
    _form("sciq", _HUB + "sciq", question="question", context="support", answer="correct_answer",
          choices=("correct_answer", "distractor1", "distractor2", "distractor3")),
    _form("truthful_qa_mc truthfulqa", _HUB + "truthful_qa (multiple_choice)", question="question",
          choices=("mc1_targets.choices", "mc2_targets.choices"),
          answer={"where": "mc1_targets.labels", "of": "mc1_targets.choices"}),
    _form("truthful_qa truthfulqa", _HUB + "truthful_qa (generation)", question="question", answer="best_answer",
          choices=("correct_answers", "incorrect_answers"), out={_TOPIC: ("type", "category"), _ORIGIN: ("source",)}),
    _form("truthfulqa_table truthfulqa", "sylinrl/TruthfulQA, TruthfulQA.csv", question="Question",
          answer="Best Answer", choices=({"split": "Correct Answers"}, {"split": "Incorrect Answers"}),
          out={_TOPIC: ("Type", "Category"), _ORIGIN: ("Source",)}),
    _form("agieval", "ruixiangcui/AGIEval, data/v1", context="passage", question="question", choices="options",
          answer=({"pick": "label"}, "answer?"), out={_EXPLAINED: ("other?", "explanation?")}),
    _form("gpqa", "Idavidrein/gpqa on the hub (columns as listed for its copies there)",
          question=("Question", "Pre-Revision Question", "Extra Revised Question"), answer="Correct Answer",
          choices=("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"), id="Record ID",
          out={_SAID: _GPQA_REVISIONS, _EXPLAINED: ("Explanation",), _TOPIC: ("Subdomain", "High-level domain"),
               "the notice that marks benchmark files, the same for all": ("Canary String",),
               _WORK: ("Self-reported question-writing time (minutes)", "Revision Comments (from Question Writer)",
                       "Writer's Difficulty Estimate", "Non-Expert Validator Accuracy", "Question Writer",
                       "Majority Non-Expert Vals Incorrect", "Expert Validator Accuracy",
                       "Expert Validator Disagreement Category",
                       *(f"{name}_EV_{number}" for number in (1, 2) for name in _GPQA_EXPERT),
                       *(f"{name}_NEV_{number}" for number in (1, 2, 3) for name in _GPQA_OTHERS))}),
    _form("medmcqa", "openlifescienceai/medmcqa on the hub", question="question", id="id",
          choices=("opa", "opb", "opc", "opd"), answer={"pick": "cop"},
          out={_EXPLAINED: ("exp",), _TOPIC: ("subject_name", "topic_name"), _LABEL: ("choice_type",)}),
    _form("enem", "piresramon/gpt-4-enem, data/enem", context="context", question=("question", "original_question"),
          choices="options", answer={"pick": "label"}, id="id",
          out={_SAID: ("alternatives",), _NUMBER: ("number",), _TOPIC: ("subject", "exam"), _GOLD: ("answer",),
               _LABEL: ("associated_images", "has_associated_images", "alternatives_type",
                        "DS", "TU", "IU", "MR", "ML", "BK", "CE")}),
    _form("oab_exams", "legal-nlp/oab-exams", question="question", choices="choices", answer={"pick": "answer"},
          id="id", out={_TOPIC: ("exam", "area")}),
    # -- a passage and questions about it
    _form("boolq_passages boolq", _HUB + "boolq", context="passage", question="question", choices=("=no", "=yes"),
          answer={"pick": "answer"}, out={_TOPIC: ("title?",)}),
    _form("boolq_super_glue boolq", _HUB + "super_glue (boolq)", context="passage", question="question",
          choices=("=no", "=yes"), answer={"pick": "label?"}, id="idx"),
    _form("squad squad_v2 xquad tydiqa faquad", _HUB + "squad, squad_v2, xquad, tydiqa (secondary_task)",
          context="context", question="question", answer="answers.text", id="id", out={_TOPIC: ("title?",)}),
    _form("squad_original squad squad_v2 xquad tydiqa_goldp", "nested JSON files as in " + _HUB + "xquad",
          each="data.paragraphs.qas", context="data.paragraphs.context", question="data.paragraphs.qas.question",
          answer="data.paragraphs.qas.answers.text", id="data.paragraphs.qas.id", out={_LABEL: ("version?",)}),
    _form("drop", _HUB + "drop", context="passage", question="question", answer="answers_spans.spans", id="query_id",
          out={_NUMBER: ("section_id",)}),
    _form("drop_original drop", "allennlp's drop_dataset_dev.json: an object of passages", each="*.qa_pairs",
          context="*.passage", question="*.qa_pairs.question", id="*.qa_pairs.query_id",
          answer=("*.qa_pairs.answer.spans", "*.qa_pairs.answer.number")),
    _form("race", _HUB + "race", context="article", question="question", choices="options",
          answer={"pick": "answer"}, id="example_id"),
    # -- the text goes on
    _form("lambada_continuation lambada lambada_openai", _FOUNDRY, question="context", answer="continuation"),
    _form("text lambada lambada_openai", _HUB + "lambada; EleutherAI/lambada_openai on the hub", question="text",
          out={_TOPIC: ("domain?",)}),
    # -- sentence pairs
    _form("xnli nli", _HUB + "xnli", question=("premise", "hypothesis"), out={_LABEL: ("label",)}),
    _form("assin", "nathanshartmann/portuguese_word_embeddings, assin-test-gold", question=("t", "h"), id="id",
          out={_LABEL: ("entailment", "similarity")}),
    # -- programs and instructions
    _form("humaneval openai_humaneval human_eval", "openai/human-eval", question=("prompt", "test"),
          answer="canonical_solution", id="task_id", out={_LABEL: ("entry_point",)}),
    _form("humaneval_tests humaneval processed_human_eval_js", _FOUNDRY,
          question=("prompt", "test", "test_inputs", "test_outputs"),
          answer="canonical_solution", id="task_id",
          out={_LABEL: ("entry_point", "language")}),
    _form("mbpp", _HUB + "mbpp (full)", question=("text", "test_list", "test_setup_code", "challenge_test_list"),
          answer="code", id="task_id"),
    _form("mbpp_sanitized mbpp sanitized_mbpp", _HUB + "mbpp (sanitized)",
          question=("prompt", "test_list", "test_imports"), answer="code", id="task_id", out={_ORIGIN: ("source_file",)}),
    _form("ifeval", "google/IFEval on the hub", question="prompt", id="key",
          out={_TESTING: ("instruction_id_list", "kwargs")}),
)  # fmt: skip

# Recognised only where tasks are made of the items, which need the gold answer: the texts that decontamination looks for are
# found without.
FOR_TASKS: tuple[Shipped, ...] = (
    _form("winogrande_contexts winogrande", _FOUNDRY,
          question="continuation", choices="context_options", answer={"pick": "gold"}),
    _form("passage_choices", "the demo corpus, curate/read/demo.py",
          context="passage?", question="query", choices="choices", answer={"pick": "gold"}, id="id"),
)  # fmt: skip

_FORMS = {form.names[0]: form for form in (*SHIPPED, *FOR_TASKS)}
NAMES = (GENERAL, *sorted({name for form in SHIPPED for name in form.names}))


@functools.cache
def _fields(name: str) -> Fields:
    return Fields.model_validate(dict(_FORMS[name].values))


@functools.cache
def _columns(name: str) -> tuple[frozenset[str], frozenset[str]]:
    return _FORMS[name].columns()


def recognised(columns: Collection[str], title: str, also: Sequence[Shipped] = ()) -> Shipped | None:
    """Return the mapping that accounts for exactly these columns, if there is one.

    Args:
        columns: Of a row.
        title: Name of the benchmark or its file, which decides between forms with the same columns.
        also: Forms that come before those of `SHIPPED`.
    """
    fitting = []
    for form in (*also, *SHIPPED):
        required, optional = _columns(form.names[0])
        if required <= set(columns) <= required | optional:
            fitting.append(form)
    return max(fitting, key=lambda form: len(_letters(_name_in(form, title))), default=None)


def chosen(name: str, columns: Collection[str], also: Sequence[Shipped] = ()) -> Shipped:
    """Return which form of a benchmark rows with these columns have: one that knows them all, else the nearest.

    Args:
        name: One of `NAMES` but `GENERAL`.
        columns: Of a row; others than the form's own do not matter.
        also: Forms that come before those of `SHIPPED`.
    """

    def strangeness(form: Shipped) -> tuple[int, int]:
        required, optional = _columns(form.names[0])
        return len(required - set(columns)), len(set(columns) - required - optional)

    return min((form for form in (*also, *SHIPPED) if name in form.names), key=strangeness)


def called(form: Shipped, title: str) -> str:
    """Return what a mapping is called for a benchmark of this title: its longest name that is in it, else the form's own."""
    return _name_in(form, title) or form.names[0]


def _name_in(form: Shipped, title: str) -> str:
    """Return the longest name of the mapping that is in the title, or an empty text."""
    letters = _letters(title)
    names = (name for name in form.names if _letters(name) in letters)
    return max(names, key=lambda name: len(_letters(name)), default="")


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())
