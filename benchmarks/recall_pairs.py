"""Real texts with planted edits, and the exact similarity of all pairs by brute force: the truth of bench_recall.py.

Shingles are here what the design says they are: five consecutive folded words as a tuple. No hash of ours is used.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import regex

from curate.words import folded_words

NGRAM = 5
EDITS = ("words", "cut", "insert", "move", "frame", "mixed")
_SCRIPTS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
# What an edit replaces, cuts or moves: a word, or a character where words are not parted, with the white space behind it.
_UNIT = regex.compile(rf"(?V1)[{_SCRIPTS}]\p{{M}}*\s*|[^\s{_SCRIPTS}]+\s*|\s+")
Words = tuple[str, ...]


@dataclass(frozen=True)
class Text:
    """A text, its language ("?": not declared) and where it is from."""

    text: str
    language: str
    kind: str


@dataclass(frozen=True)
class Pair:
    """Two documents, by number, and what was done to the first to make the second."""

    base: int
    edited: int
    edit: str
    language: str
    kind: str


def shingles(text: str) -> set[Words]:
    words = folded_words(text)
    return {tuple(words[i : i + NGRAM]) for i in range(max(1, len(words) - NGRAM + 1))} if words else set()


def jaccard(a: set[Words], b: set[Words]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0


def number(*parts: object) -> int:
    """Return 64 bits that depend on the parts alone."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big")


def order(count: int, *parts: object) -> list[int]:
    """Return 0 to count - 1 in an order by hash."""
    return np.random.default_rng(number(*parts)).permutation(count).tolist()


def units(text: str) -> list[str]:
    return _UNIT.findall(text)


@dataclass(frozen=True)
class Editor:
    """Edits a text; each edit takes how much to change, in units, and a larger one changes more.

    Attributes:
        text: Units of the text.
        donor: Units of another text, for what is written anew.
        name: Of the draws of places.
    """

    text: Sequence[str]
    donor: Sequence[str]
    name: str

    def words(self, amount: int) -> list[str]:
        """Replace units at places drawn by hash."""
        edited = list(self.text)
        for new, place in enumerate(order(len(edited), self.name, "places")[:amount]):
            space = edited[place][len(edited[place].rstrip()) :]
            edited[place] = self.donor[new % len(self.donor)].rstrip() + space
        return edited

    def cut(self, amount: int) -> list[str]:
        """Cut a block."""
        start = number(self.name, "cut") % (len(self.text) - amount + 1)
        return [*self.text[:start], *self.text[start + amount :]]

    def insert(self, amount: int) -> list[str]:
        """Insert a block of the other text."""
        place = number(self.name, "insert") % (len(self.text) + 1)
        return [*self.text[:place], "\n", *self.donor[:amount], "\n", *self.text[place:]]

    def move(self, amount: int) -> list[str]:
        """Part the text into amount + 1 blocks of equal length and write them in another order."""
        ends = [len(self.text) * block // (amount + 1) for block in range(amount + 2)]
        blocks = [[*self.text[start:stop], "\n"] for start, stop in itertools.pairwise(ends)]
        return [unit for block in order(amount + 1, self.name, "blocks") for unit in blocks[block]]

    def frame(self, amount: int) -> list[str]:
        """Write a header above the text and a footer below it."""
        header = amount // 3
        return [*self.donor[:header], "\n", *self.text, "\n", *self.donor[header:amount]]

    def mixed(self, amount: int) -> list[str]:
        """Replace words, frame, and cut a block."""
        replaced = Editor(self.words(amount // 4), self.donor[amount // 4 :], self.name)
        framed = Editor(replaced.frame(amount), self.donor, self.name)
        return framed.cut(min(amount, len(framed.text)))


def edited_to(text: str, target: float, edit: str, donor: Sequence[str], name: str) -> str:
    """Return the text, edited by about as much as makes its similarity to itself `target`."""
    editor, before = Editor(units(text), donor, name), shingles(text)
    change: Callable[[int], list[str]] = getattr(editor, edit)

    @functools.cache
    def made(amount: int) -> str:
        return "".join(change(amount))

    low, high = 1, max(2, min(len(editor.text) - NGRAM - 1, len(donor)))
    while low < high:
        middle = (low + high) // 2
        if jaccard(before, shingles(made(middle))) <= target:
            high = middle
        else:
            low = middle + 1
    return made(low)


# ---- the texts


def gold_texts(data: Path) -> list[Text]:
    found = []
    for path in sorted((data / "02_gold").glob("*/gold.jsonl")):
        with path.open(encoding="utf-8") as lines:
            found += [Text(row["text"], row.get("lang") or "?", "gold") for row in map(json.loads, lines)]
    return found


def passages(text: str, name: str, shortest: int = 80, longest: int = 1200) -> list[str]:
    """Return the text in pieces of a length by hash, log-uniform between two numbers of units."""
    of_text, start, found = units(text), 0, []
    while start < len(of_text):
        share = number(name, start) / 2**64
        size = round(shortest * (longest / shortest) ** share)
        found.append("".join(of_text[start : start + size]))
        start += size
    return found


def book_texts(data: Path, per_book: int, leave: int = 0) -> list[Text]:
    """Return some passages of each book, after its first `leave` ones."""
    found = []
    with gzip.open(data / "04_books" / "books.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            pieces = passages(row["text"], row["id"])
            found += [Text(piece, row["language"], "book") for piece in pieces[leave : leave + per_book]]
    return found


# ---- the truth


@dataclass(frozen=True)
class Truth:
    """Every pair of documents that shares a shingle.

    Attributes:
        a, b: Numbers of the documents, a < b.
        similarity: |A and B| / |A or B|.
        containment: |A and B| / min(|A|, |B|).
        sizes: Shingles of each document.
    """

    a: npt.NDArray[np.int64]
    b: npt.NDArray[np.int64]
    similarity: npt.NDArray[np.float64]
    containment: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64]

    def of(self, a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return similarity and containment of pairs of documents; 0 where they share nothing."""
        size = len(self.sizes)
        keys = self.a * size + self.b
        wanted = np.minimum(a, b) * size + np.maximum(a, b)
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        there = keys[places] == wanted
        return np.where(there, self.similarity[places], 0.0), np.where(there, self.containment[places], 0.0)


def shingle_numbers(texts: Sequence[str]) -> list[npt.NDArray[np.int64]]:
    """Return each text's shingles, numbered so that equal ones, and only these, have one number."""
    words_of = [folded_words(text) for text in texts]
    assert all(len(words) >= NGRAM for words in words_of)
    numbers: dict[str, int] = {}
    flat = np.array([numbers.setdefault(word, len(numbers)) for words in words_of for word in words], np.int64)
    ends = np.cumsum([0, *map(len, words_of)])
    # Words to pairs of words, to triples: the numbers of the shorter runs and of the words behind them, numbered anew.
    runs = flat
    for behind in range(1, NGRAM):
        joined = runs[:-1] * len(numbers) + flat[behind : behind + len(runs) - 1]
        assert int(runs.max()) < 2**62 // len(numbers)
        runs = np.unique(joined, return_inverse=True)[1].astype(np.int64)
    return [np.unique(runs[start : stop - NGRAM + 1]) for start, stop in itertools.pairwise(ends.tolist())]


def all_pairs(texts: Sequence[str]) -> Truth:
    """Return all pairs that share a shingle: an inverted index, as a product of sparse matrices."""
    from scipy.sparse import csr_matrix

    sets = shingle_numbers(texts)
    sizes = np.array([len(one) for one in sets], np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    holds = csr_matrix((np.ones(ends[-1], np.int32), np.concatenate(sets), ends))
    a_parts, b_parts, shared_parts = [], [], []
    for start in range(0, len(texts), 1000):
        common = (holds[start : start + 1000] @ holds.T).tocoo()
        above = common.col > common.row + start
        rank = np.lexsort((common.col[above], common.row[above]))
        a_parts.append(common.row[above][rank].astype(np.int64) + start)
        b_parts.append(common.col[above][rank].astype(np.int64))
        shared_parts.append(common.data[above][rank].astype(np.int64))
    a, b, shared = (np.concatenate(parts) for parts in (a_parts, b_parts, shared_parts))
    return Truth(a, b, shared / (sizes[a] + sizes[b] - shared), shared / np.minimum(sizes[a], sizes[b]), sizes)


def check_sample(texts: Sequence[str], truth: Truth, count: int, seed: int) -> int:
    """Compare pairs, half of them such that share something, with sets of tuples; return how many."""
    generator = np.random.default_rng(seed)
    among = generator.integers(0, len(truth.a), count // 2)
    a = np.concatenate([truth.a[among], generator.integers(0, len(texts), count // 2)])
    b = np.concatenate([truth.b[among], generator.integers(0, len(texts), count // 2)])
    a, b = a[a != b], b[a != b]
    similarity, containment = truth.of(a, b)
    for one, other, stated, part in zip(a, b, similarity, containment, strict=True):
        left, right = shingles(texts[one]), shingles(texts[other])
        assert stated == jaccard(left, right)
        assert part == len(left & right) / min(len(left), len(right))
    return len(a)


def unlike(texts: Sequence[Text], most: float) -> list[Text]:
    """Return the texts that are no more alike than `most` to one before them."""
    truth = all_pairs([one.text for one in texts])
    dropped = np.zeros(len(texts), bool)
    for place in np.argsort(truth.b * len(texts) + truth.a):
        if truth.similarity[place] > most and not dropped[truth.a[place]]:
            dropped[truth.b[place]] = True
    return [one for one, gone in zip(texts, dropped, strict=True) if not gone]


def plant(bases: Sequence[Text], donors: Sequence[Text], lowest: float) -> tuple[list[str], list[Pair]]:
    """Return documents, each base and behind it an edited copy, and the pairs.

    The wished similarity is uniform from `lowest` to 1, the edit is drawn: both by hash of the place.
    """
    documents, pairs = [], []
    for place, base in enumerate(bases):
        edit = EDITS[number(place, "edit") % len(EDITS)]
        target = lowest + (1 - lowest) * number(place, "target") / 2**64
        donor = units(donors[place % len(donors)].text)
        start = number(place, "donor") % max(1, len(donor) // 4)
        edited = edited_to(base.text, target, edit, donor[start:] + donor[:start], f"{place}")
        pairs.append(Pair(len(documents), len(documents) + 1, edit, base.language, base.kind))
        documents += [base.text, edited]
    return documents, pairs


def wilson(found: int, count: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the 95% interval of a share (Wilson 1927)."""
    if not count:
        return 0.0, 1.0
    share, spread = found / count, z * z / count
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    return centre - half, centre + half
