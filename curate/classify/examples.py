"""From curated documents to examples: forms, passages, which are trained on and which are held out.

All choices hash (seed, text), so they depend on neither the order of files nor where a text stands, and equal texts share
one fate: copies within a class count once, a text that two classes hold is an example of neither, and no text that is
trained on, folded, is held out.
"""

from __future__ import annotations

import array
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from curate.classify.fit import Examples, Vocabulary, tokens_of
from curate.classify.settings import Classifier, Scores
from curate.errors import InputError
from curate.pipeline import ParquetFile, read_batches
from curate.text.oneline import FORMS, folded_line, words_of

Hashes = npt.NDArray[np.uint64]

HELD_OUT = pa.schema([("label", pa.string()), ("number", pa.float64()), ("text", pa.large_string())])
_SPLIT, _DRAW = 1, 2  # purposes of hashes


@dataclass(slots=True)
class ClassCounts:
    """What became of the documents of one class.

    Attributes:
        documents: Read.
        empty: Without a word.
        examples: Passages of the others; of a document that is not divided, one.
        repeated: Examples that equal another of the class.
        ambiguous: Distinct examples that another class holds too.
        trained, held_out: Distinct examples that were taken.
    """

    documents: int = 0
    empty: int = 0
    examples: int = 0
    repeated: int = 0
    ambiguous: int = 0
    trained: int = 0
    held_out: int = 0


@dataclass(frozen=True, slots=True)
class Passage:
    """One example before it is chosen."""

    label: str
    number: float | None  # the document's score where examples carry one
    line: str
    hash: int
    held_out: bool


@dataclass(slots=True)
class Corpus:
    """The curated documents of a run as examples.

    Attributes:
        folder: The run folder.
        settings: The recipe's `classifier`.
        sources: Names of the sources, in the recipe's order.
        seed: Of the recipe.
        counts: By class, filled by `passages`.
        unlabelled: Documents without the field that holds label or score.
    """

    folder: Path
    settings: Classifier
    sources: Sequence[str]
    seed: int
    counts: dict[str, ClassCounts] = field(default_factory=dict)
    unlabelled: int = 0

    def passages(self) -> Iterator[Passage]:
        """Yield every passage of every document; the counts are made anew."""
        self.counts, self.unlabelled = {}, 0
        form = FORMS[self.settings.text]
        for label, number, text in self._documents():
            counts = self.counts.setdefault(label, ClassCounts())
            counts.documents += 1
            line = form(text)
            words = words_of(line)
            if not words:
                counts.empty += 1
                continue
            folded = line if self.settings.text == "folded" else folded_line(text)
            held_out = self._hash(folded, _SPLIT) < int(self.settings.held_out * 2**64)
            for passage in _divided(line, words, self.settings.passage_words):
                counts.examples += 1
                yield Passage(label, number, passage, self._hash(passage, _DRAW), held_out)

    def _documents(self) -> Iterator[tuple[str, float | None, str]]:
        """Yield class, score and text of each document that has a class."""
        classes = self.settings.classes()
        for source in self.sources:
            if classes and source not in classes:
                continue
            for path in sorted((self.folder / "documents" / source).glob("*.parquet")):
                for batch in read_batches(path, ["text", "metadata"]):
                    for text, metadata in zip(batch["text"].to_pylist(), batch["metadata"].to_pylist(), strict=True):
                        if classes:
                            yield classes[source], None, text
                            continue
                        value = _looked_up(metadata, self.settings)
                        found = _classed(value, self.settings.score)
                        if found is None:
                            self.unlabelled += 1
                        else:
                            yield *found, text

    def _hash(self, line: str, purpose: int) -> int:
        seed = xxhash.xxh3_64_intdigest(f"{self.seed} {purpose}".encode())
        return xxhash.xxh3_64_intdigest(line.encode("utf-8", "surrogatepass"), seed)


def _divided(line: str, words: Sequence[str], most: int | None) -> Iterator[str]:
    """Yield the line, or its words in passages of even length, none longer than `most` words."""
    if most is None or len(words) <= most:
        yield line
        return
    parts = -(-len(words) // most)
    for part in range(parts):
        yield " ".join(words[part * len(words) // parts : (part + 1) * len(words) // parts])


def _looked_up(metadata: str | None, settings: Classifier) -> Any:
    name = settings.label if settings.label is not None else settings.score.field if settings.score else ""
    value = json.loads(metadata) if metadata else {}
    if isinstance(value, Mapping) and name in value:
        return value[name]
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _classed(value: Any, scores: Scores | None) -> tuple[str, float | None] | None:
    """Return class and score that a field's value means, or None for none."""
    if value is None or value == "":
        return None
    if scores is None:
        return "_".join(str(value).split()), None  # fastText's labels hold no white space
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if not np.isfinite(number):
        return None
    return str(min(max(round(number), scores.low), scores.high)), number


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which examples are taken.

    Attributes:
        labels: Classes in order.
        trained, held_out: By class, the hashes of its examples, ascending.
    """

    labels: tuple[str, ...]
    trained: Mapping[str, Hashes]
    held_out: Mapping[str, Hashes]


def choose(corpus: Corpus) -> Chosen:
    """Read all passages once and choose by hash; fills the corpus's counts.

    Raises:
        InputError: If a class has no example, or one side of it would be empty.
    """
    found: dict[tuple[str, bool], array.array[int]] = {}
    for one in corpus.passages():
        found.setdefault((one.label, one.held_out), array.array("Q")).append(one.hash)
    labels = _labels(corpus)
    trained = {label: _distinct(found.get((label, False))) for label in labels}
    held_out = {label: np.setdiff1d(_distinct(found.get((label, True))), trained[label]) for label in labels}
    for label in labels:
        corpus.counts[label].repeated = corpus.counts[label].examples - len(trained[label]) - len(held_out[label])
    if labels:
        every = [np.union1d(trained[label], held_out[label]) for label in labels]
        values, times = np.unique(np.concatenate(every), return_counts=True)
        shared = values[times > 1]
        for label, hashes in zip(labels, every, strict=True):
            corpus.counts[label].ambiguous = int(np.isin(hashes, shared).sum())
            trained[label] = np.setdiff1d(trained[label], shared)
            held_out[label] = np.setdiff1d(held_out[label], shared)
    settings = corpus.settings
    _refuse_empty(corpus, labels, trained, held_out)
    most = (
        min(settings.max_per_class, *(len(trained[label]) for label in labels))
        if settings.balance
        else settings.max_per_class
    )
    # The held-out side keeps the proportion that the training side has.
    most_held = max(1, round(most * settings.held_out / (1 - settings.held_out))) if settings.balance else None
    for label in labels:
        trained[label], held_out[label] = trained[label][:most], held_out[label][:most_held]
        corpus.counts[label].trained = len(trained[label])
        corpus.counts[label].held_out = len(held_out[label])
    return Chosen(labels, trained, held_out)


def _labels(corpus: Corpus) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(corpus.settings.classes().values()))
    for label in named:
        corpus.counts.setdefault(label, ClassCounts())
    if corpus.settings.score is not None:
        return tuple(sorted(corpus.counts, key=int))
    return named or tuple(sorted(corpus.counts))


def _distinct(hashes: array.array[int] | None) -> Hashes:
    return np.unique(np.frombuffer(hashes, np.uint64)) if hashes else np.zeros(0, np.uint64)


def _refuse_empty(
    corpus: Corpus, labels: Sequence[str], trained: Mapping[str, Hashes], held_out: Mapping[str, Hashes]
) -> None:
    if len(labels) < 2:
        what = f"only the class {labels[0]!r}" if labels else "no class at all"
        unlabelled = f" ({corpus.unlabelled:,} documents lack the field)" if corpus.unlabelled else ""
        problem = f"the documents hold {what}{unlabelled}; a classifier needs two."
        raise InputError(str(corpus.folder), problem, "Check the field's name, and that filters leave both kinds.")
    for label in labels:
        counts = corpus.counts[label]
        for hashes, part in ((trained, "to train on"), (held_out, "to hold out")):
            if not len(hashes[label]):
                problem = (
                    f"class '{label}' has no example {part}: {counts.documents:,} documents, {counts.empty:,} without a word, "
                    f"{counts.examples:,} examples, of them {counts.repeated:,} repeated and {counts.ambiguous:,} in another class too."
                )
                remedy = "Give it more, and different, documents, or set another classifier.held_out."
                raise InputError(str(corpus.folder), problem, remedy)


def gather(corpus: Corpus, chosen: Chosen, scratch: Path, held_out: Path) -> tuple[Examples, Vocabulary]:
    """Read all passages again; write those that are held out, and return those that are trained on, ordered by hash.

    Words lie on disk while they are read, so that memory holds their numbers only.

    Args:
        corpus: As chosen from.
        chosen: What to take.
        scratch: An empty folder.
        held_out: File to write, of schema HELD_OUT, in the order of the hashes.
    """
    wanted = {int(one): (label, False) for label, hashes in chosen.trained.items() for one in hashes}
    wanted |= {int(one): (label, True) for label, hashes in chosen.held_out.items() for one in hashes}
    numbers: dict[str, int] = {}
    counts: list[int] = []
    met: list[tuple[int, int, int, int]] = []  # hash, number of the class, first token, one behind the last
    kept: list[tuple[int, dict[str, Any]]] = []
    size = 0
    label_number = {label: number for number, label in enumerate(chosen.labels)}
    before = corpus.counts
    with (scratch / "tokens").open("wb") as file:
        for one in corpus.passages():
            if one.hash not in wanted or wanted[one.hash][0] != one.label:
                continue
            label, is_held = wanted.pop(one.hash)
            if is_held:
                kept.append((one.hash, {"label": label, "number": one.number, "text": one.line}))
                continue
            tokens = array.array("i")
            for word in tokens_of(one.line):
                number = numbers.setdefault(word, len(counts))
                if number == len(counts):
                    counts.append(0)
                counts[number] += 1
                tokens.append(number)
            tokens.tofile(file)
            met.append((one.hash, label_number[label], size, size + len(tokens)))
            size += len(tokens)
    corpus.counts = before
    with ParquetFile(held_out, HELD_OUT) as rows:
        rows.write_rows([row for _, row in sorted(kept, key=lambda pair: pair[0])])
    vocabulary = Vocabulary.of(Counter(dict(zip(numbers, counts, strict=True))), corpus.settings.fasttext.min_count)
    renumbered = np.empty(len(counts), np.int32)
    for word, number in numbers.items():
        renumbered[number] = vocabulary.words[word]
    return _ordered(scratch / "tokens", sorted(met), renumbered), vocabulary


def _ordered(path: Path, met: Sequence[tuple[int, int, int, int]], renumbered: npt.NDArray[np.int32]) -> Examples:
    stored = np.memmap(path, np.int32, "r")
    tokens = np.memmap(path.with_name("ordered"), np.int32, "w+", shape=stored.shape)
    ends = np.empty(len(met), np.int64)
    place = 0
    for row, (_, _, start, stop) in enumerate(met):
        tokens[place : place + stop - start] = renumbered[stored[start:stop]]
        place += stop - start
        ends[row] = place
    return Examples(tokens, ends, np.array([label for _, label, _, _ in met], np.int32))
