"""Benchmark items as cloze tasks: a prompt, and choices that may follow it.

    Question: <question>          <context>                     <context> <question>          <text without its last word>
    Answer: <choice>              Pergunta: <question>           <choice>                      <last word>
                                  Resposta: <choice>

The wording is that of lm-evaluation-harness, where it has the task (ARC, PIQA, SciQ, BoolQ, OpenBookQA, HellaSwag, LAMBADA,
WinoGrande), without examples before the question. The space between prompt and choice belongs to the choice. Letters of
choices are never shown: models of the sizes that are trained here learn no letters (Gu et al. 2024, arXiv:2406.08446).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from curate.benchmarks.items import Benchmark, Item
from curate.benchmarks.mappings import GENERAL
from curate.tokens.tasks import BY_BYTES, BY_SUM, EXACT

_WRAP = re.compile(r"(?<!\n)[ \t]*\n[ \t]*(?!\s)")  # one line feed: of a page, not of a text
_LABELS = ("Question:", "Pergunta:", "Q:")  # in front of a question: the prompt has its own


@dataclass(frozen=True, slots=True)
class Format:
    """How the items of a task are written.

    Attributes:
        kind: `question`: a question under a heading; `goes_on`: the choice goes on in the text; `last_word`: the last word of
            a text is left to tell; `blank`: what follows the blank is scored, with each choice in the blank.
        metric: What the task's score is made of. Choices of several words are compared per byte, for the longer of two is
            less likely whatever it says; those of one word, and one text after two others, as they are.
        heading, reply: Around the question.
        wrapped: Whether texts are broken into the lines of a page.
    """

    kind: Literal["question", "goes_on", "last_word", "blank"] = "question"
    metric: str = BY_BYTES
    heading: str = "Question:"
    reply: str = "Answer:"
    wrapped: bool = False


_PORTUGUESE = Format(heading="Pergunta:", reply="Resposta:", wrapped=True)
_GOES_ON = Format("goes_on")
_LAST_WORD = Format("last_word", EXACT)
# By name of the mapping that reads them; every other is a question in English.
FORMATS = {
    "boolq": Format(metric=BY_SUM),
    "boolq_query": Format(metric=BY_SUM),
    "boolq_passages": Format(metric=BY_SUM),
    "boolq_super_glue": Format(metric=BY_SUM),
    "copa": Format("goes_on", BY_SUM),
    "hellaswag": _GOES_ON,
    "openbook_qa": _GOES_ON,
    "openbookqa": _GOES_ON,
    "lambada": _LAST_WORD,
    "lambada_openai": _LAST_WORD,
    "lambada_continuation": _LAST_WORD,
    "winogrande": Format("blank", BY_SUM),
    "winogrande_contexts": Format("blank", BY_SUM),
    "enem": _PORTUGUESE,
    "oab_exams": _PORTUGUESE,
}
_SEVERAL = "several of its choices are right"
UNFIT = dict.fromkeys(("truthfulqa", "truthful_qa_mc", "truthful_qa", "truthfulqa_table"), _SEVERAL)


TOO_LONG = "longer than the context"
_NO_CHOICES = "no choices"
_NEEDS = (
    "A task needs a question, two or more choices and which of them is gold. If its rows have them, give it `fields`, such as "
    "{question: question, choices: options, answer: {pick: answer}}, or the `mapping` of a benchmark of the same form, such as "
    "arc_easy, piqa, hellaswag, winogrande or lambada (its last word is left to tell)."
)


@dataclass(frozen=True, slots=True)
class Cloze:
    """One item as text.

    Attributes:
        item: Its id.
        metric: One of `curate.tokens.tasks.METRICS`.
        prompts: One for all choices, or one for each.
        choices: What follows, each with the space before it; one if the metric is exact.
        gold: Place of the gold answer among them.
        chance: Of a right answer by the best blind guess.
    """

    item: str
    metric: str
    prompts: tuple[str, ...]
    choices: tuple[str, ...]
    gold: int
    chance: float


def clozes(benchmark: Benchmark) -> tuple[list[Cloze], Counter[str]]:
    """Return the items of a benchmark that make a task, in order, and the number of the others by reason."""
    name = benchmark.facts["mapping"].partition(",")[0]
    found, without = [], Counter[str]()
    for item in benchmark.items:
        one = UNFIT[name] if name in UNFIT else cloze(item, FORMATS.get(name, Format()))
        if isinstance(one, str):
            without[one] += 1
        else:
            found.append(one)
    return _with_chance(found), without


def no_task(benchmark: Benchmark, without: Mapping[str, int]) -> tuple[str, str]:
    """Return why no item of a benchmark makes a task, and what can be done.

    Args:
        benchmark: As it was read.
        without: Number of its items by reason.
    """
    name = benchmark.facts["mapping"].partition(",")[0]
    why = f"no item of it makes a task ({', '.join(f'{count:,} {reason}' for reason, count in without.items())})."
    out = "Take it out of evaluate.tasks"
    if TOO_LONG in without:
        return why, f"{out}, or train with a longer context."
    if name in UNFIT or (set(without) == {_NO_CHOICES} and name not in (GENERAL, "fields")):
        return why, f"{out}: by its mapping {name} {UNFIT.get(name, 'it has no choices')}, so it cannot be a task."
    return why, f"{out}, or say what its rows hold. {_NEEDS}"


def cloze(item: Item, form: Format) -> Cloze | str:
    """Return an item as text, or why it is none."""
    asked = [part.text.strip() for part in item.of("question")]
    context = next((part.text.strip() for part in item.of("context")), "")
    if not asked:
        return "no question"
    question = asked[0]
    if form.kind == "last_word":
        return _last_word(item, question)
    choices = [(part.field, " ".join(part.text.split())) for part in item.of("choice")]
    if len(choices) < 2:
        return _NO_CHOICES
    answers = [part.field for part in item.of("answer")]
    gold = next((number for number, (field, _) in enumerate(choices) if field in answers), None)
    if gold is None:
        return "no gold answer"
    texts = [text for _, text in choices]
    if form.kind == "blank":
        return _blank(item, question, texts, gold)
    prompt = _prompt(question, context, form)
    return Cloze(item.id, form.metric, (prompt,), tuple(f" {text}" for text in texts), gold, 1 / len(texts))


def _prompt(question: str, context: str, form: Format) -> str:
    if form.wrapped:
        question, context = (_WRAP.sub(" ", text) for text in (question, context))
    if " ".join(context.split()) in " ".join(question.split()):  # said once is enough
        context = ""
    if form.kind == "goes_on":
        return f"{context} {question}".strip()
    for label in _LABELS:
        question = question.removeprefix(label).lstrip()
    lines = [context] if context else []
    return "\n".join([*lines, f"{form.heading} {question}", form.reply])


def _last_word(item: Item, text: str) -> Cloze | str:
    word = next((part.text.strip() for part in item.of("answer")), "")
    if not word:
        text, _, word = text.rpartition(" ")
    if not text.strip() or not word.strip():
        return "no last word"
    return Cloze(item.id, EXACT, (text.rstrip(),), (f" {word}",), 0, 0.0)


def _blank(item: Item, question: str, texts: Sequence[str], gold: int) -> Cloze | str:
    """Score what follows the blank: it is the same for all choices, and what differs stands before it."""
    if not item.of("choice")[0].field.startswith("context_options"):
        before, blank, after = question.partition("_")
        if not blank or "_" in after:
            return "no single blank"
        contexts = [f"{before}{text}" for text in texts]
    else:
        contexts, after = list(texts), question
    if not after.strip():
        return "nothing behind the blank"
    return Cloze(item.id, BY_SUM, tuple(contexts), (f" {after.strip()}",) * len(texts), gold, 1 / len(texts))


def _with_chance(found: list[Cloze]) -> list[Cloze]:
    """Let the commonest answer be the blind guess where every item offers the same choices, such as yes and no."""
    offered = {one.choices for one in found}
    if len(offered) != 1 or len(found[0].prompts) > 1 or len(found[0].choices) < 2:
        return found
    commonest = Counter(one.gold for one in found).most_common(1)[0][1] / len(found)
    return [replace(one, chance=max(one.chance, commonest)) for one in found] if commonest < 1 else found
