"""What is looked for of a benchmark: the texts of its items and their n-grams, without what says nothing."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curate.decontaminate.items import Item
from curate.decontaminate.ngrams import ngram_hashes
from curate.decontaminate.settings import Decontaminate
from curate.words import folded_words, hash_word

_JOINTS = (" ", " A: ", " Answer: ")  # what stands between a question and its answer; "(A)", "a." read alike
_LETTERS = "ABCDEFGHIJ"  # before choices
_WORDS_PER_GRAM = 8  # words of a text for each word of its n-grams: one sentence of it holds an n-gram
_TELLING = 3  # distinct telling words of an n-gram
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
    memo: dict[str, tuple[int, bool]] = {}

    def make(item: str, name: str, text: str) -> Text:
        words = folded_words(text)
        for word in words:
            if word not in memo:
                tells = any(map(str.isalpha, word)) and not (len(word) == 1 and word.isascii())
                memo[word] = hash_word(word), tells
        hashes = np.array([memo[word][0] for word in words], np.uint64)
        return Text(item, name, text, hashes, np.array([memo[word][1] for word in words], np.bool_), len(words))

    texts: list[Text] = []
    for item in items:
        questions = [make(item.id, part.field, part.text) for part in item.of("question", "context")]
        tested = [text for text in questions if len(text.words) >= settings.min_words]
        if settings.answers == "together":
            short = [text for text in questions if 0 < len(text.words) < 2 * settings.min_words]
            tested += [joined for text in short for joined in _joined(item, text, make, settings)]
        if not tested:
            tested = [_whole(item, questions, make, settings)]
        for text in tested:
            if text.status == "tested":
                _cut(text, settings)
        texts += tested
    return texts


def _joined(item: Item, question: Text, make: Callable[[str, str, str], Text], settings: Decontaminate) -> list[Text]:
    """Return a question with each answer behind it, and with all choices in their order, as far as that is long enough."""
    choices = item.of("choice")
    texts = [
        make(item.id, f"{question.field}+{part.field}", f"{question.text}{joint}{part.text}")
        for part in item.of("choice", "answer")
        for joint in _JOINTS
    ]
    if 1 < len(choices) <= len(_LETTERS):
        lines = [question.text, *(f"{letter}) {part.text}" for letter, part in zip(_LETTERS, choices, strict=False))]
        texts.append(make(item.id, "+".join([question.field, *(part.field for part in choices)]), "\n".join(lines)))
    for text in texts:
        text.question = len(question.words)
    return [text for text in texts if len(text.words) >= settings.min_words]


def _whole(item: Item, questions: list[Text], make: Callable[[str, str, str], Text], settings: Decontaminate) -> Text:
    """Return the question fields of an item, none long enough by itself, as one text; tested if that is long enough."""
    text = make(item.id, "+".join(text.field for text in questions), " ".join(text.text for text in questions))
    if len(text.words) < settings.min_words:
        text.status = "short" if questions else "no_text"
    return text


def _cut(text: Text, settings: Decontaminate) -> None:
    """Fill in the text's distinct n-grams that say something; n grows with the text from `min_ngram` to `ngram`.

    Tables, counters and test data ("1, 2, 3, ...", "a, b, c, ...") stand in code and text everywhere: an n-gram counts
    if it has three distinct words (all, if it has but two) that have a letter and are no single one of ASCII.
    """
    n = max(min(settings.ngram, settings.min_ngram), min(settings.ngram, len(text.words) // _WORDS_PER_GRAM))
    text.n = n = min(n, len(text.words))
    grams = ngram_hashes(text.words, n)
    # Words that do not tell are put together as one, which then is not counted.
    in_order = np.sort(np.where(text.tells, text.words, 0)[np.arange(len(grams))[:, None] + np.arange(n)], axis=1)
    num_distinct = (in_order[:, :1] != 0).sum(axis=1) + (in_order[:, 1:] != in_order[:, :-1]).sum(axis=1)
    says = np.flatnonzero(num_distinct >= min(_TELLING, n))
    _, first = np.unique(grams[says], return_index=True)
    text.starts = says[np.sort(first)]
    text.grams = grams[text.starts]
    if not len(says):
        text.status, text.n = "numbers", 0


def drop_template(texts: list[Text], num_items: int, settings: Decontaminate) -> NDArray[np.uint64]:
    """Take the template n-grams of one benchmark out of its texts; return what makes them, sorted.

    Template is told by n-grams of the shortest length in use (`settings.shortest`), whatever the text's own n is: one
    in many items is template, and so is a longer one of which each is.

    A text that several items share whole (a passage with many questions) counts once, so that it stays content,
    unless more than half of a benchmark of at least `max_items` items carry it (an instruction in a field of its own).
    """
    copies = Counter(text.words.tobytes() for text in texts)
    limit = min(settings.max_items, max(2, num_items // 2))
    short = [ngram_hashes(text.words, settings.shortest) if text.status == "tested" else _NONE for text in texts]
    seen: set[bytes] = set()
    number: dict[str, int] = {}  # of an item
    grams: list[NDArray[np.uint64]] = [_NONE]
    owners: list[NDArray[np.int64]] = []
    carried = []
    for text, own in zip(texts, short, strict=True):
        key = text.words.tobytes()
        owner = number.setdefault(text.item, len(number))
        if key not in seen:
            seen.add(key)
            grams.append(own)
            owners.append(np.full(len(own), owner, np.int64))
            if copies[key] > num_items / 2 and num_items >= settings.max_items:
                carried.append(own)
    gram, by = np.concatenate(grams), np.concatenate(owners)
    order = np.lexsort((by, gram))
    gram, by = gram[order], by[order]
    new = np.ones(len(gram), np.bool_)
    new[1:] = (gram[1:] != gram[:-1]) | (by[1:] != by[:-1])  # an item counts once
    values, counts = np.unique(gram[new], return_counts=True)
    template = np.unique(np.concatenate([values[counts > limit], *carried]))
    for text, own in zip(texts, short, strict=True):
        if text.status == "tested":
            content = np.concatenate([[0], np.cumsum(~np.isin(own, template))])
            keep = content[text.starts + text.n - settings.shortest + 1] > content[text.starts]
            if not keep.any():
                text.status, text.n = "template", 0
            text.grams, text.starts = text.grams[keep], text.starts[keep]
    return template
