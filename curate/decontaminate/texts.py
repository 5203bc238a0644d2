"""What is looked for of a benchmark: the texts of its items and their n-grams, without what says nothing."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray

from curate.benchmarks.items import Item
from curate.decontaminate.ngrams import at_positions
from curate.decontaminate.normal import normal_words
from curate.decontaminate.settings import Decontaminate
from curate.text.characters import SCRIPTS
from curate.words import hash_word

_JOINTS = (" ", " A: ", " Answer: ")  # what stands between a question and its answer; "(A)", "a." read alike
_LETTERS = "ABCDEFGHIJ"  # before choices
_WORDS_PER_GRAM = 8  # words of a text for each word of its n-grams: one sentence of it holds an n-gram
_TELLING = 3  # distinct telling words of an n-gram
_UNSPACED = regex.compile(rf"[{SCRIPTS}]")
_NONE = np.zeros(0, np.uint64)


@dataclass(slots=True)
class Text:
    """A text that is looked for.

    Attributes:
        item: The item's id.
        field: Dotted path; "a+b" for a question joined to an answer.
        text: As it stands in the file.
        words: Hash of each word, shape (W,).
        tells: Whether each has a letter and is no single one of ASCII, shape (W,).
        question: Of the words, those of the question; the others are of an answer behind it.
        needs: Words of it that a document must hold at least: `min_words`, or twice that where most words are
            characters of a script without spaces, of which one says less. Its n-grams are no shorter than twice
            `min_ngram`, then.
        n: Words of its n-grams; 0 if it is not looked for.
        status: tested, template, numbers, short, no_text.
        grams: Hashes of its distinct n-grams that say something, in text order, shape (G,).
        starts: First word of each, shape (G,).
    """

    item: str
    field: str
    text: str
    words: NDArray[np.uint64]
    tells: NDArray[np.bool_]
    question: int
    needs: int
    n: int = 0
    status: str = "tested"
    grams: NDArray[np.uint64] = dataclasses.field(default_factory=lambda: np.zeros(0, np.uint64))
    starts: NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))


def texts_of(items: list[Item], settings: Decontaminate) -> list[Text]:
    """Return the texts of the items, in order; at least one for each item, so that none is skipped in silence.

    A question of at least `min_words` words is looked for by itself. One that is shorter than twice that, so that half
    of it would be too short to be told, is looked for with each of its answers and with all of its choices as well,
    unless the settings keep them apart.
    """
    memo: dict[str, tuple[int, bool, bool]] = {}

    def make(item: str, name: str, text: str) -> Text:
        words = normal_words(text)
        for word in words:
            if word not in memo:
                tells = any(map(str.isalpha, word)) and not (len(word) == 1 and word.isascii())
                memo[word] = hash_word(word), tells, not word.isascii() and _UNSPACED.match(word) is not None
        hashes = np.array([memo[word][0] for word in words], np.uint64)
        telling = np.array([memo[word][1] for word in words], np.bool_)
        is_unspaced = 2 * sum(memo[word][2] for word in words) > len(words)
        return Text(item, name, text, hashes, telling, len(words), settings.min_words * (2 if is_unspaced else 1))

    texts: list[Text] = []
    for item in items:
        questions = [make(item.id, part.field, part.text) for part in item.of("question", "context")]
        tested = [text for text in questions if len(text.words) >= text.needs]
        if settings.answers == "together":
            short = [text for text in questions if 0 < len(text.words) < 2 * text.needs]
            tested += [joined for text in short for joined in _joined(item, text, make, settings)]
        texts += tested or [_whole(item, questions, make)]
    _cut([text for text in texts if text.status == "tested"], settings)
    return texts


def _joined(item: Item, question: Text, make: Callable[[str, str, str], Text], settings: Decontaminate) -> list[Text]:
    """Return a question with each answer behind it, and with all choices in their order, as far as that is long enough.

    Choices stand as they are and with letters before them: short ones hold no n-gram that a letter does not part.
    What may stand between makes texts of its own only where question or answer are too short to be found apart.
    """
    choices, texts = item.of("choice"), []
    for part in {part.text: part for part in item.of("answer", "choice")}.values():  # the gold answer is a choice, too
        field = f"{question.field}+{part.field}"
        first = make(item.id, field, f"{question.text}{_JOINTS[0]}{part.text}")
        texts.append(first)
        size = len(question.words)
        if size < question.needs and min(size, len(first.words) - size) < settings.shortest:
            texts += [make(item.id, field, f"{question.text}{joint}{part.text}") for joint in _JOINTS[1:]]
    if 1 < len(choices) <= len(_LETTERS):
        field = "+".join([question.field, *(part.field for part in choices)])
        bare = [part.text for part in choices]
        lettered = [f"{letter}) {text}" for letter, text in zip(_LETTERS, bare, strict=False)]
        texts += [make(item.id, field, "\n".join([question.text, *lines])) for lines in (lettered, bare)]
    for text in texts:
        text.question = len(question.words)
    return [text for text in texts if len(text.words) >= text.needs]


def _whole(item: Item, questions: list[Text], make: Callable[[str, str, str], Text]) -> Text:
    """Return the question fields of an item, none long enough by itself, as one text; tested if that is long enough."""
    text = make(item.id, "+".join(text.field for text in questions), " ".join(text.text for text in questions))
    if len(text.words) < text.needs:
        text.status = "short" if questions else "no_text"
    return text


def _cut(texts: list[Text], settings: Decontaminate) -> None:
    """Fill in the texts' distinct n-grams that say something; n grows with the text from `min_ngram` to `ngram`.

    Tables, counters and test data ("1, 2, 3, ...", "a, b, c, ...") stand in code and text everywhere: an n-gram counts
    if it has three distinct words (all, if it has but two) that have a letter and are no single one of ASCII.
    """
    sizes = np.array([len(text.words) for text in texts], np.int64)
    needs = np.array([text.needs for text in texts], np.int64)
    least = np.minimum(settings.ngram, settings.min_ngram * (needs // settings.min_words))
    lengths = np.minimum(np.clip(sizes // _WORDS_PER_GRAM, least, settings.ngram), sizes)
    words = _joint([text.words for text in texts])
    telling = np.where(_joint([text.tells for text in texts]).astype(np.bool_), words, 0)
    first = np.cumsum(sizes) - sizes
    for n in np.unique(lengths).tolist():
        chosen = np.flatnonzero(lengths == n)
        text, start = _counted(sizes[chosen] - n + 1)
        place = first[chosen][text] + start
        # Words that do not tell are put together as one, which then is not counted.
        in_order = np.sort(telling[place[:, None] + np.arange(n)], axis=1)
        num_distinct = (in_order[:, :1] != 0).sum(axis=1) + (in_order[:, 1:] != in_order[:, :-1]).sum(axis=1)
        says = num_distinct >= min(_TELLING, n)
        text, start, grams = text[says], start[says], at_positions(words, place[says], n)
        order = np.lexsort((start, grams, text))  # the first of each n-gram of a text
        new = np.ones(len(order), np.bool_)
        new[1:] = (np.diff(text[order]) != 0) | (grams[order][1:] != grams[order][:-1])
        kept = np.sort(order[new])
        ends = np.searchsorted(text[kept], np.arange(len(chosen) + 1)).tolist()
        for number, (at, end) in zip(chosen.tolist(), itertools.pairwise(ends), strict=True):
            one = texts[number]
            one.n, one.grams, one.starts = n, grams[kept[at:end]], start[kept[at:end]]
            if at == end:
                one.status, one.n = "numbers", 0


def _joint(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else _NONE


def _counted(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (number of the group, place in it) of each member of groups of these sizes."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    return group, np.arange(len(group)) - (np.cumsum(sizes) - sizes)[group]


class Template(NamedTuple):
    """What the items of a benchmark share.

    Attributes:
        grams: Its n-grams of the shortest length in use, sorted.
        starts: For each text that is looked for and holds some its number, and their first words.
    """

    grams: NDArray[np.uint64]
    starts: dict[int, NDArray[np.int64]]


def drop_template(texts: list[Text], num_items: int, settings: Decontaminate) -> Template:
    """Take the template n-grams of one benchmark out of its texts; return what makes them.

    Template is told by n-grams of the shortest length in use (`settings.shortest`), whatever the text's own n is: one
    in many items is template, and so is a longer one of which each is.

    A text that several items share whole (a passage with many questions) counts once, so that it stays content,
    unless more than half of a benchmark of at least `max_items` items carry it (an instruction in a field of its own).
    """
    m = settings.shortest
    limit = min(settings.max_items, max(2, num_items // 2))
    copies = Counter(text.words.tobytes() for text in texts)
    tested = [number for number, text in enumerate(texts) if text.status == "tested"]
    words = _joint([texts[number].words for number in tested])
    sizes = np.array([len(texts[number].words) for number in tested], np.int64)
    text, start = _counted(sizes - m + 1)
    grams = at_positions(words, (np.cumsum(sizes) - sizes)[text] + start, m)
    items: dict[str, int] = {}
    item = np.array([items.setdefault(texts[number].item, len(items)) for number in tested], np.int64)
    seen: set[bytes] = set()
    is_new, is_carried = np.zeros((2, len(tested)), np.bool_)
    for place, number in enumerate(tested):
        key = texts[number].words.tobytes()
        is_new[place] = key not in seen
        seen.add(key)
        is_carried[place] = copies[key] > num_items / 2 and num_items >= settings.max_items
    counted = is_new[text]
    gram, by = grams[counted], item[text[counted]]
    order = np.lexsort((by, gram))
    gram, by = gram[order], by[order]
    new = np.ones(len(gram), np.bool_)
    new[1:] = (gram[1:] != gram[:-1]) | (by[1:] != by[:-1])  # an item counts once
    values, counts = np.unique(gram[new], return_counts=True)
    template = np.unique(np.concatenate([values[counts > limit], grams[is_carried[text]]]))

    is_template = np.isin(grams, template)
    content = np.concatenate([np.zeros(1, np.int64), np.cumsum(~is_template)])
    first = np.searchsorted(text, np.arange(len(tested) + 1))  # of a text among the short n-grams
    starts: dict[int, NDArray[np.int64]] = {}
    for place in np.unique(text[is_template]).tolist():
        number = tested[place]
        one = texts[number]
        starts[number] = np.flatnonzero(is_template[first[place] : first[place + 1]])
        at = first[place] + one.starts
        keep = content[at + one.n - m + 1] > content[at]
        if not keep.any():
            one.status, one.n = "template", 0
        one.grams, one.starts = one.grams[keep], one.starts[keep]
    return Template(template, starts)
