"""Benchmark items as they would stand on a page, changed in the ways in which leaks differ from their source.

Each rendering is written here from the set's own schema, without the fields that `curate.benchmarks.items` finds, so
that a wrong mapping shows as leaks not found. Every choice is drawn by a hash of set, item and way.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import random
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHORTEST = 8  # words: Brown et al. 2020, appendix C, find that below it spurious collisions begin


@dataclass(frozen=True)
class Rendering:
    """An item as a page shows it: the question, and its choices or its answer behind it.

    Attributes:
        question: What is asked.
        behind: Choices with their letters, or the answer.
        choices: All choices as the file has them, in its order; none if it offers none.
    """

    question: str
    behind: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join([self.question, *self.behind])


@dataclass(frozen=True)
class Leak:
    """An item planted in a host.

    Attributes:
        benchmark: The set.
        item: The item's place in the file.
        way: One of `WAYS`.
        variant: What was drawn within it.
        planted: What was put in.
        document: The whole.
        is_long_enough: At least `SHORTEST` words that could be told are in: of a part, of a question whose sentences
            stand apart, else of question and answer.
    """

    benchmark: str
    item: int
    way: str
    variant: str
    planted: str
    document: str
    is_long_enough: bool


def _query(item: dict[str, Any]) -> Rendering:
    question = re.sub(r"^(Question|Passage):\s*", "", item["query"])
    return Rendering(question, (item["choices"][item["gold"]],), tuple(item["choices"]))


def _listed(item: dict[str, Any]) -> Rendering:
    question = re.sub(r"^Question:\s*", "", item["query"])
    return Rendering(
        question.strip(),
        tuple(f"{key}) {one}" for key, one in zip("ABCDE", item["choices"], strict=False)),
        tuple(item["choices"]),
    )


RENDERINGS: dict[str, Callable[[dict[str, Any]], Rendering]] = {
    "arc_challenge": _listed,
    "arc_easy": _listed,
    "assin_ptbr_test": lambda item: Rendering(f"{item['t']} {item['h']}"),
    "boolq": _query,
    "enem_2022_pt": lambda item: Rendering(
        f"{item['original_question']} {item['question']}", tuple(item["alternatives"])
    ),
    "faquad_dev_pt": lambda item: Rendering(item["context"]),
    "gsm8k_test": lambda item: Rendering(item["question"], (item["answer"],)),
    "humaneval": lambda item: Rendering(item["prompt"], (item["canonical_solution"],)),
    "lambada_openai": lambda item: Rendering(f"{item['context']} {item['continuation']}"),
    "mbpp": lambda item: Rendering(item["text"], (item["code"],)),
    "oab_exams_pt": lambda item: Rendering(
        item["question"],
        tuple(f"{key}) {text}" for key, text in item["choices"].items()),
        tuple(item["choices"].values()),
    ),
    "openbook_qa": _query,
    "piqa": lambda item: Rendering(
        re.sub(r"^Question:\s*", "", item["query"]).strip(),
        (item["choices"][item["gold"]],),
        tuple(item["choices"]),
    ),
    "processed_human_eval_js": lambda item: Rendering(item["prompt"], (item["canonical_solution"],)),
    "truthfulqa": lambda item: Rendering(item["Question"], (item["Best Answer"],)),
    "winogrande": lambda item: Rendering(item["context_options"][item["gold"]], (item["continuation"],)),
}


def words_of(text: str) -> list[str]:
    """Return the runs of letters and digits: what a length in words means here."""
    return re.findall(r"[^\W_]+(?:['’][^\W_]+)*", text)


def sentences(text: str) -> list[str]:
    """Return the sentences; one of a single word belongs to the one before it."""
    found: list[str] = []
    for part in re.split(r"(?<=[.!?:;])[\"”’)]*\s+", text.strip()):
        if found and len(words_of(part)) < 2:
            found[-1] += " " + part
        elif part:
            found.append(part)
    return found


def draw(*key: object) -> random.Random:
    """Return random numbers that depend on the key alone."""
    return random.Random(hashlib.blake2b(repr(key).encode(), digest_size=8).digest())


# ---- ways


def _verbatim(item: Rendering, _: random.Random) -> tuple[str, str]:
    return "as it is", item.text


def _rewrapped(item: Rendering, at: random.Random) -> tuple[str, str]:
    variant = at.choice(["narrow", "quoted", "bullets", "hyphenated", "soft hyphens"])
    width = at.choice([32, 48, 66])
    text = item.text
    if variant == "bullets":
        return variant, "\n".join(f"* {line}" for line in sentences(text))
    if variant == "soft hyphens":
        return variant, re.sub(r"([^\W\d_]{4})(?=[^\W\d_]{3})", "\\1\u00ad", text)
    if variant == "hyphenated":  # as a justified page is: a long word at a line's end is parted
        lines = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
        for number in range(len(lines) - 1):
            first, _, rest = lines[number + 1].partition(" ")
            if number % 2 and first.isalpha() and len(first) > 7:
                cut = len(first) // 2
                lines[number], lines[number + 1] = f"{lines[number]} {first[:cut]}-", f"{first[cut:]} {rest}".rstrip()
        return variant, "\n".join(lines)
    lead = {"narrow": "", "quoted": at.choice(["> ", "| ", ">> ", "    # ", "// "])}[variant]
    wrapped = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
    return variant, "\n".join(lead + line for line in wrapped)


def _case(item: Rendering, at: random.Random) -> tuple[str, str]:
    change = at.choice([str.upper, str.title, str.lower, str.swapcase])
    return change.__name__, change(item.text)


_FORMS = str.maketrans(
    {"'": "’", '"': "“", "-": "\u2011", ".": "．", "?": "？", "!": "！", ",": "，", ":": "：", "(": "（", ")": "）"}
)


def _punctuation(item: Rendering, at: random.Random) -> tuple[str, str]:
    variant = at.choice(["dropped", "Unicode forms", "dashes for commas", "added", "Markdown", "entities"])
    text = item.text
    if variant == "dropped":  # within a number or a word nothing can be dropped without another word
        return variant, re.sub(r"(?<!\w)[^\w\s]+|[^\w\s]+(?!\w)", "", text)
    if variant == "Unicode forms":
        return variant, text.translate(_FORMS)
    if variant == "dashes for commas":
        return variant, "«" + re.sub(r"(?<=\w)[.!?](?=\s|$)", " …", re.sub(r"(?<=\w)[,;:](?=\s)", " —", text)) + "»"
    if variant == "entities":
        return variant, html.escape(text).replace("'", "&#39;").replace("—", "&mdash;")
    mark = {"added": lambda word: word + at.choice([",", "...", "!", ";", ")"]), "Markdown": lambda word: f"**{word}**"}
    share = {"added": 0.3, "Markdown": 0.2}[variant]
    return variant, re.sub(r"\S+", lambda run: mark[variant](run[0]) if at.random() < share else run[0], text)


_FULL_WIDTH = str.maketrans({str(digit): chr(0xFF10 + digit) for digit in range(10)})
_ARABIC = str.maketrans({str(digit): chr(0x660 + digit) for digit in range(10)})


def _digits(item: Rendering, at: random.Random) -> tuple[str, str]:
    variant = at.choice(["grouped", "grouped by spaces", "full-width", "Arabic-Indic"])
    text = item.text
    if variant.startswith("grouped"):
        by = "," if variant == "grouped" else at.choice(["\u00a0", "\u202f"])

        def group(run: re.Match[str]) -> str:
            return f"{int(run[0]):,}".replace(",", by)

        return variant, re.sub(r"(?<![\w.,])[1-9]\d{3,8}(?![\w.,]*\d)", group, text)
    return variant, text.translate(_FULL_WIDTH if variant == "full-width" else _ARABIC)


def _other_numbers(item: Rendering, at: random.Random) -> tuple[str, str]:
    def other(run: re.Match[str]) -> str:
        low = 10 ** (len(run[0]) - 1)
        return str(at.choice([number for number in range(low, min(10 * low, low + 900)) if str(number) != run[0]]))

    return "every number another", re.sub(r"\d{1,9}", other, item.text)


def _partial(item: Rendering, at: random.Random) -> tuple[str, str]:
    """Part of the question: an answer alone is no leak."""
    text = item.question
    runs = list(re.finditer(r"\S+", text))
    parts = sentences(text)
    variant = at.choice(["first half", "last half", "middle two thirds", *["one sentence less"] * (len(parts) > 2)])
    if variant == "one sentence less":
        gone = at.randrange(len(parts))
        return variant, " ".join(part for number, part in enumerate(parts) if number != gone)
    count = len(runs)
    first, end = {
        "first half": (0, (count + 1) // 2),
        "last half": (count // 2, count),
        "middle two thirds": (count // 6, count - count // 6),
    }[variant]
    return variant, text[runs[first].start() : runs[end - 1].end()]


def _spelling(item: Rendering, at: random.Random) -> tuple[str, str]:
    runs = re.split(r"(\s+)", item.text)
    places = [number for number, run in enumerate(runs) if len(run) > 3 and run.isalpha()]
    for place in at.sample(places, min(len(places), max(1, round(0.02 * len(words_of(item.text)))))):
        word = runs[place]
        cut = at.randrange(1, len(word) - 1)
        runs[place] = at.choice([word[:cut] + word[cut + 1 :], word[:cut] + word[cut] + word[cut:]])
    return "2% of words, at least one", "".join(runs)


def _plain_choices(item: Rendering, at: random.Random) -> tuple[str, str]:
    """All choices without letters, right and wrong, in the file's order."""
    variant, joint = at.choice([("lines", "\n"), ("commas", ", "), ("dashes", "\n- ")])
    return variant, item.question + ("\n- " if variant == "dashes" else "\n") + joint.join(item.choices)


WAYS: dict[str, Callable[[Rendering, random.Random], tuple[str, str]]] = {
    "verbatim": _verbatim,
    "re-wrapped": _rewrapped,
    "case": _case,
    "punctuation": _punctuation,
    "digits": _digits,
    "partial": _partial,
    "interleaved": _verbatim,  # `plant` parts it: that needs the host
    "spelling": _spelling,
    "other numbers": _other_numbers,
    "choices as plain lines": _plain_choices,
}
NAMED = ("verbatim", "re-wrapped", "case", "punctuation", "digits", "partial", "interleaved")  # those of the aim


def _interleaved(item: Rendering, host: Sequence[str], at: random.Random) -> tuple[str, str]:
    """Sentences of the item, each behind one or two of the host; each choice or answer as well."""
    mine = [*sentences(item.question), *item.behind]
    lines: list[str] = []
    number = at.randrange(max(1, len(host)))
    for one in mine:
        for _ in range(at.choice([1, 1, 2])):
            lines.append(host[number % len(host)])
            number += 1
        lines.append(one)
    return "one or two sentences between", " ".join([*lines, host[number % len(host)]])


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _long_enough(item: Rendering, way: str, planted: str) -> bool:
    whole = {"partial": planted, "choices as plain lines": planted, "interleaved": item.question}
    text = whole.get(way, item.text)
    return len(words_of(text)) >= SHORTEST


def _is_prose(paragraph: str) -> bool:
    lengths = [len(words_of(sentence)) for sentence in sentences(paragraph)]
    return len(lengths) >= 3 and 4 <= max(lengths) <= 60


def plant(folder: Path, paragraphs: Sequence[str], per_set: int, ways: Sequence[str] = tuple(WAYS)) -> Iterator[Leak]:
    """Yield `per_set` items of each set, drawn by hash, planted in real text in each way.

    Args:
        folder: The benchmark files, `<set>.jsonl.gz`.
        paragraphs: Real text: a leak stands between two of them.
        per_set: Items of each set and way; all of a smaller set.
        ways: Of `WAYS`. `digits`, `other numbers` and `choices as plain lines` take items that the change
            touches, as far as there are any.
    """
    prose = [paragraph for paragraph in paragraphs if _is_prose(paragraph)]
    for name, render in RENDERINGS.items():
        records = [render(record) for record in read_jsonl(folder / f"{name}.jsonl.gz")]
        for way in ways:
            order = sorted(range(len(records)), key=lambda number: draw(name, number, way, "order").random())
            if way in ("digits", "other numbers"):
                order = [number for number in order if re.search(r"\d", records[number].text)]
            if way == "choices as plain lines":
                order = [number for number in order if records[number].choices]
            for number in order[:per_set]:
                at = draw(name, number, way)
                before, behind = (paragraphs[at.randrange(len(paragraphs))] for _ in range(2))
                if way == "interleaved":
                    variant, planted = _interleaved(records[number], sentences(at.choice(prose)), at)
                else:
                    variant, planted = WAYS[way](records[number], at)
                document = f"{before}\n\n{planted}\n\n{behind}"
                enough = _long_enough(records[number], way, planted)
                yield Leak(name, number, way, variant, planted, document, enough)
