"""Labels, scripts and paragraphs of a batch's texts, by kernels over its Arrow buffer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import regex

from curate.compiled import compiled, kept_table
from curate.filter.language_evidence import CLOSE, MOST_CHARACTERS, Evidence, load_evidence, weigh
from curate.filter.language_labels import SCRIPTS, languages_of, scripts_of
from curate.text.characters import decode
from curate.text.fasttext_model import FastTextModel, load_model, predict_spans, score_spans, text_spans

if TYPE_CHECKING:
    import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NO_LANGUAGE = -1
LEAST_OF_SCRIPT = 0.25  # share of a text's letters that a label's scripts must hold, or it is refused
# Scripts that write no spaces, and Hangul: two of their letters say as much as ten of an alphabet.
UNSPACED = ("Hani", "Hira", "Kana", "Hang", "Thai", "Laoo", "Khmr", "Mymr", "Tibt")
UNSPACED_LETTERS = 5
PARAGRAPH_LETTERS = 60  # lines are joined until they hold so many: fewer say little
UNSURE = 0.8  # labels that are less probable are looked at again
SURE = 0.5  # a paragraph whose label is less probable belongs to no language
PRESENT = 0.05  # share of the letters from which a language counts

_LEAST_PROBABILITY = 1e-6  # of a label that the model all but rules out
_NUM_CODE_POINTS = 0x110000
_LATIN = 1
_OTHER = len(SCRIPTS) + 1  # script of letters that is none of SCRIPTS; 0: no letter
_NUM_SCRIPTS = _OTHER + 1


@dataclass(frozen=True, slots=True)
class Identifier:
    """A model with what its labels mean.

    Attributes:
        model: The model.
        languages: The distinct languages of its labels.
        language_of: Number of the language of each label, shape (labels,).
        scripts: Whether a script is usual for a label, shape (labels, _NUM_SCRIPTS); all of them where it is not known.
        again: For a second look at its labels; None: there is none.
    """

    model: FastTextModel
    languages: tuple[str, ...]
    language_of: Int64s
    scripts: Flags
    again: SecondLook | None


@dataclass(frozen=True, slots=True)
class SecondLook:
    """What a second look at labels needs.

    Attributes:
        evidence: For its own languages.
        labels: The model's label of each of them, shape (languages,).
        may_be: Which of them a text with a label may turn out to be, if it is short, shape (model's labels, languages).
        may_be_long: The same if it is long.
    """

    evidence: Evidence
    labels: Int64s
    may_be: Flags
    may_be_long: Flags


@dataclass(frozen=True, slots=True)
class Shares:
    """How a text's letters are spread over languages, by its paragraphs; shape (texts,) each.

    Attributes:
        own: Share of the letters in paragraphs of the text's own language.
        second: The language of most letters besides, or NO_LANGUAGE.
        second_share: Its share.
        count: Languages that hold at least PRESENT of the letters.
    """

    own: Float64s
    second: Int64s
    second_share: Float64s
    count: Int64s


@lru_cache(maxsize=2)
def load_identifier(path: str, digest: str, *, with_script: bool, second_look: bool) -> Identifier:
    """Load a model once per process.

    Args:
        path: A fastText model file.
        digest: Its sha256.
        with_script: Whether languages of labels such as eng_Latn carry their script.
        second_look: Whether labels that are not sure are looked at again; the model has the languages of lid.176.
    """
    model = load_model(path, digest)
    names = languages_of(model.labels, with_script=with_script)
    languages = tuple(dict.fromkeys(names))
    numbers = {name: number for number, name in enumerate(languages)}
    codes = {code: number + 1 for number, code in enumerate(SCRIPTS)}
    scripts = np.zeros((len(names), _NUM_SCRIPTS), np.bool_)
    for row, label in enumerate(model.labels):
        usual = scripts_of(label)
        scripts[row] = not usual
        scripts[row, [codes[script] for script in usual]] = True
    again = _second_look(names) if second_look else None
    return Identifier(model, languages, np.array([numbers[name] for name in names]), scripts, again)


def _second_look(names: tuple[str, ...]) -> SecondLook:
    evidence = load_evidence()
    labels = np.array([names.index(name) for name in evidence.languages])
    may_be = np.zeros((len(names), len(labels)), np.bool_)
    may_be_long = may_be.copy()
    for number, name in enumerate(names):
        # sh is what Bosnian, Croatian and Serbian have in common; of scripts without spaces n-grams of words say little
        if (name in evidence.languages or name == "sh") and not set(scripts_of(name)) & set(UNSPACED):
            may_be[number] = True
            group = {other for close in CLOSE if name in close for other in close}
            may_be_long[number] = [other in group for other in evidence.languages]
    return SecondLook(evidence, labels, may_be, may_be_long)


def identify(
    identifier: Identifier, data: Bytes, starts: Int64s, ends: Int64s, *, min_letters: int, check_script: bool
) -> tuple[Int64s, Float64s, Int64s]:
    """Return language, its probability and the number of letters of each span of bytes, shape (spans,) each.

    Args:
        identifier: The model.
        data: UTF-8 bytes.
        starts: First byte of each span.
        ends: The one behind its last.
        min_letters: A span with fewer letters has no language; one of UNSPACED counts as UNSPACED_LETTERS.
        check_script: Whether a label is refused whose scripts hold less than LEAST_OF_SCRIPT of the letters. The most
            probable of the others takes its place, with its own probability.

    A label that is less probable than UNSURE is looked at again, if the identifier does that (`curate.filter.language_evidence`).
    """
    counts = count_scripts(data, starts, ends)
    letters = counts.sum(axis=1)
    labels, probabilities = predict_spans(identifier.model, data, starts, ends)
    known = (counts @ _letter_weights() >= max(1, min_letters)) & (labels >= 0)
    scores = probabilities.astype(np.float64)
    least = LEAST_OF_SCRIPT * letters if check_script else np.zeros(len(letters))
    held = (counts * identifier.scripts[labels]).sum(axis=1)
    doubtful = known & (held < least)
    again, long = identifier.again, letters > MOST_CHARACTERS
    if again is not None:
        unsure = np.flatnonzero(known & (scores < UNSURE))
        doubtful[unsure] |= _others(again, labels[unsure], long[unsure]).any(axis=1)
    rows = np.flatnonzero(doubtful)
    if len(rows):
        every = score_spans(identifier.model, data, starts[rows], ends[rows]).astype(np.float64)
        possible = counts[rows] @ identifier.scripts.T.astype(np.int64) >= least[rows, None]
        every[~possible] = -1.0
        labels[rows], scores[rows] = every.argmax(axis=1), every.max(axis=1)
        known[rows] = possible.any(axis=1)
        if again is not None:
            weighed = weigh(again.evidence, data, starts[rows], ends[rows])
            labels[rows], scores[rows] = _looked_at(again, every, labels[rows], scores[rows], long[rows], weighed)
    languages = np.where(known, identifier.language_of[labels], NO_LANGUAGE)
    # sums of float32 give 1.00001
    return languages, np.where(known, np.minimum(scores, 1.0), 0.0), letters


def _others(again: SecondLook, labels: Int32s, long: Flags) -> Flags:
    """Return which of `again.labels` texts may turn out to be, shape (texts, languages)."""
    found: Flags = np.where(long[:, None], again.may_be_long[labels], again.may_be[labels])
    return found


def _looked_at(
    again: SecondLook, every: Float64s, labels: Int32s, scores: Float64s, long: Flags, weighed: Float64s
) -> tuple[Int64s, Float64s]:
    """Return label and score of texts after a second look; those that are sure, or have no other label, stay as they are.

    Args:
        again: What to look with.
        every: The model's probability of each label, -1 of those that are refused, shape (texts, labels).
        labels: The best of each, shape (texts,).
        scores: Its probability, shape (texts,).
        long: Whether a text is long, shape (texts,).
        weighed: Evidence for each of `again.labels`, shape (texts, languages).
    """
    own = every[:, again.labels]
    may_be = _others(again, labels, long) & (own >= 0)
    logarithms = np.where(may_be, np.log(np.maximum(own, _LEAST_PROBABILITY)) + weighed, -np.inf)
    looked = (scores < UNSURE) & may_be.any(axis=1)
    logarithms[~looked] = 0.0
    shares = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    best = shares.argmax(axis=1)
    # of what the model gives to these languages together
    together = np.where(may_be, np.maximum(own, 0.0), 0.0).sum(axis=1)
    found = shares[np.arange(len(best)), best] / shares.sum(axis=1) * np.minimum(together, 1.0)
    return np.where(looked, again.labels[best], labels), np.where(looked, found, scores)


def shares(
    identifier: Identifier,
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    main: tuple[Int64s, Float64s, Int64s],
    *,
    min_letters: int,
    check_script: bool,
) -> Shares:
    """Return how the letters of texts are spread over languages.

    Args:
        identifier: The model.
        data: UTF-8 bytes.
        starts: First byte of each text.
        ends: The one behind its last.
        main: What `identify` says of the whole texts.
        min_letters: As in `identify`.
        check_script: As in `identify`.
    """
    own, main_scores, main_letters = main
    rows, first, last = _paragraphs(data, starts, ends)
    found, scores, letters = own[rows], main_scores[rows], main_letters[rows]
    several = np.flatnonzero(np.bincount(rows, minlength=len(starts))[rows] > 1)  # a single one is the text itself
    found[several], scores[several], letters[several] = identify(
        identifier, data, first[several], last[several], min_letters=min_letters, check_script=check_script
    )
    found = np.where(scores < SURE, NO_LANGUAGE, found)
    held = np.zeros((len(starts), len(identifier.languages) + 1), np.int64)  # the last column: no language
    np.add.at(held, (rows, found), letters)
    spread = held[:, :-1] / np.maximum(held.sum(axis=1), 1)[:, None]
    texts = np.arange(len(starts))
    mine = np.where(own >= 0, spread[texts, own], 0.0)
    others = spread.copy()
    others[texts[own >= 0], own[own >= 0]] = -1.0
    second = others.argmax(axis=1)
    second_share = np.maximum(others[texts, second], 0.0)
    present = (spread >= PRESENT).sum(axis=1)
    return Shares(mine, np.where(second_share > 0, second, NO_LANGUAGE), second_share, present.astype(np.int64))


def count_scripts(data: Bytes, starts: Int64s, ends: Int64s) -> Int64s:
    """Return how many letters of each script a span has, shape (spans, _NUM_SCRIPTS); column 0 is 0."""
    counts = np.zeros((len(starts), _NUM_SCRIPTS), np.int64)
    _count_scripts(data, starts, ends, _letter_scripts(), counts)
    counts[:, 0] = 0
    return counts


def spans_of(texts: pa.Array) -> tuple[Bytes, Int64s, Int64s]:
    """Return the bytes of texts, and where each starts and ends."""
    return text_spans(texts)


def _paragraphs(data: Bytes, starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return text, first byte and end of each paragraph: lines joined until they hold PARAGRAPH_LETTERS letters.

    What is left at a text's end belongs to the paragraph before it, if there is one.
    """
    lines = np.count_nonzero(data == ord("\n")) + len(starts)
    rows, first, last = (np.empty(lines, np.int64) for _ in range(3))
    count = _cut_paragraphs(data, starts, ends, _letter_scripts(), rows, first, last)
    return rows[:count], first[:count], last[:count]


@lru_cache(maxsize=1)
def _letter_weights() -> Int64s:
    """Return for how many letters one of each script counts, shape (_NUM_SCRIPTS,)."""
    return np.array([1, *(UNSPACED_LETTERS if code in UNSPACED else 1 for code in SCRIPTS), 1])


@kept_table
def _letter_scripts() -> Bytes:
    """Return the script of each code point that is a letter, from 1, and 0 of all others, shape (0x110000,)."""
    everything = "".join(chr(code) for code in range(_NUM_CODE_POINTS) if not 0xD800 <= code < 0xE000)
    letters = "".join(regex.findall(r"\p{L}+", everything))
    found = np.zeros(_NUM_CODE_POINTS, np.uint8)
    found[_codes(letters)] = _OTHER
    for number, name in enumerate(SCRIPTS.values(), start=1):
        found[_codes("".join(regex.findall(rf"\p{{Script={name}}}+", letters)))] = number
    return found


def _codes(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


@compiled
def _count_scripts(data: Bytes, starts: Int64s, ends: Int64s, scripts: Bytes, counts: Int64s) -> None:
    for span in range(len(starts)):
        place = starts[span]
        latin = 0
        while place < ends[span]:
            if data[place] < 0x80:
                latin += scripts[data[place]] != 0
                place += 1
                continue
            code, size = decode(data, place, ends[span])
            counts[span, scripts[code]] += 1
            place += size
        counts[span, _LATIN] += latin


@compiled
def _cut_paragraphs(
    data: Bytes, starts: Int64s, ends: Int64s, scripts: Bytes, rows: Int64s, first: Int64s, last: Int64s
) -> int:
    count = 0
    for text in range(len(starts)):
        begin = place = starts[text]
        before, letters = count, 0
        while place < ends[text]:
            code, size = decode(data, place, ends[text])
            place += size
            letters += scripts[code] != 0
            if code == 0x0A and letters >= PARAGRAPH_LETTERS:
                rows[count], first[count], last[count] = text, begin, place
                count += 1
                begin, letters = place, 0
        if letters >= PARAGRAPH_LETTERS or count == before:
            rows[count], first[count], last[count] = text, begin, place
            count += 1
        else:
            last[count - 1] = place
    return count
