"""The table of site furniture and the weights of `main_text_score`: what was learned, and how it becomes arrays.

`model.json` is made by `benchmarks/fit_junk.py` from pages whose main text people verified; it says from which.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curate.filter.junk import kernels
from curate.filter.junk.kernels import COUNTS, count_texts
from curate.filter.junk.phrases import MACHINE_MADE, MAX_PHRASE, NOT_FOUND
from curate.filter.junk.tables import classes, hash_table, lower, phrase_key, word_key, words_of

FILE = Path(__file__).with_name("model.json")

# What the score looks at, in this order.
FEATURES = (
    "log_words",
    "log_prose_words",
    "prose_fraction",
    "short_line_fraction",
    "short_word_fraction",
    "stop_word_fraction",
    "ended_line_fraction",
    "log_words_per_line",
    "repeated_char_fraction",
    "chrome_line_fraction",
    "log_chrome_phrases",
    "chrome_char_fraction",
    "chrome_phrases_per_20_words",
    "top_words_fraction",
)


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words and phrases, in lower case.

    Attributes:
        stop_words: Function words of many languages.
        chrome_phrases: Short lines of site furniture ("about us").
    """

    stop_words: tuple[str, ...]
    chrome_phrases: tuple[str, ...]


Table = tuple[NDArray[np.uint64], NDArray[np.int32]]


class Counter:
    """Counts of texts with one lexicon."""

    def __init__(self, lexicon: Lexicon) -> None:
        words: dict[int, int] = {}
        phrases: dict[int, int] = {}
        for word in lexicon.stop_words:
            codes = words_of(word)
            if len(codes) == 1:  # an apostrophe makes two of one
                words[word_key(codes[0])] = kernels.STOP
        told = ((NOT_FOUND, kernels.MISSING), (MACHINE_MADE, kernels.MACHINE))
        for listed, bit in (*told, (lexicon.chrome_phrases, kernels.CHROME)):
            for phrase in listed:
                key, length = phrase_key(phrase)
                if not 0 < length <= MAX_PHRASE:
                    raise ValueError(f"{phrase!r} has {length} words; a phrase has 1 to {MAX_PHRASE}")
                phrases[key] = phrases.get(key, length << kernels.LENGTH_SHIFT) | bit
                if bit != kernels.CHROME:  # those are whole lines, and looked up as such
                    first = word_key(words_of(phrase)[0])
                    words[first] = words.get(first, 0) | kernels.FIRST
        self._words, self._phrases = hash_table(words), hash_table(phrases)

    def __call__(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Mapping[str, NDArray[np.int64]]:
        """Return the columns of COUNTS for texts given as UTF-8 bytes and offsets."""
        data, offsets = kernels.arrays(data, offsets)
        counted = count_texts(data, offsets, classes(), lower(), self._words, self._phrases)
        return {name: counted[:, place] for place, name in enumerate(COUNTS)}


def features(counts: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return what the score looks at, shape (texts, len(FEATURES))."""

    def share(part: str, whole: str) -> NDArray[np.float64]:
        result: NDArray[np.float64] = counts[part] / np.maximum(counts[whole], 1)
        return result

    columns = (
        np.log1p(counts["words"]),
        np.log1p(counts["prose_words"]),
        share("prose_words", "words"),
        share("short_lines", "lines"),
        share("short_words", "words"),
        share("stop_words", "words"),
        share("ended_lines", "lines"),
        np.log1p(share("words", "lines")),
        share("repeated_chars", "chars"),
        share("chrome_lines", "lines"),
        np.log1p(counts["chrome_phrases"]),
        share("chrome_chars", "chars"),
        np.minimum(20 * counts["chrome_phrases"] / np.maximum(counts["words"], 20), 4.0),
        np.minimum(share("top_words", "words"), 0.4),
    )
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)


@dataclass(frozen=True, slots=True)
class Scorer:
    """A logistic function of standardised features.

    Attributes:
        mean, scale: Of each feature, shape (len(FEATURES),).
        weights: Shape (len(FEATURES),).
        bias: Its value at the mean.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    weights: NDArray[np.float64]
    bias: float

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the score of each row of features, 0 to 1."""
        total = np.full(len(values), self.bias)
        for place in range(len(FEATURES)):  # summed in one order: the bits may not depend on the number of rows
            total += (values[:, place] - self.mean[place]) / self.scale[place] * self.weights[place]
        score: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(total, -30, 30)))
        return score


def fit(values: NDArray[np.float64], good: NDArray[np.bool_], weights: NDArray[np.float64], ridge: float) -> Scorer:
    """Return the logistic regression of `good` on features (Newton's method, the bias unpenalised).

    Args:
        values: Shape (texts, len(FEATURES)).
        good: Whether each text is main text.
        weights: Of each text; they are scaled to a mean of 1.
        ridge: Penalty on the squared weights of standardised features.
    """
    weights = weights / weights.mean()
    mean = np.average(values, axis=0, weights=weights)
    scale = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights)) + 1e-9
    design = np.concatenate([np.ones((len(values), 1)), (values - mean) / scale], axis=1)
    penalty = np.diag([0.0] + [ridge] * values.shape[1])
    beta = np.zeros(design.shape[1])
    for _ in range(60):
        chance = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        slope = design.T @ (weights * (good - chance)) - penalty @ beta
        curve = (design * (weights * chance * (1 - chance))[:, None]).T @ design + penalty
        step = np.linalg.solve(curve, slope)
        beta += step
        if np.abs(step).max() < 1e-9:
            break
    return Scorer(mean, scale, beta[1:], float(beta[0]))


def to_json(lexicon: Lexicon, scorer: Scorer, card: Mapping[str, Any]) -> str:
    """Return the model file; numbers are rounded to six digits, so that another machine's last bit changes nothing."""

    def numbers(array: NDArray[np.float64]) -> dict[str, float]:
        return {name: float(f"{value:.6g}") for name, value in zip(FEATURES, array, strict=True)}

    held = {
        "card": card,
        "bias": float(f"{scorer.bias:.6g}"),
        "weights": numbers(scorer.weights),
        "mean": numbers(scorer.mean),
        "scale": numbers(scorer.scale),
        "stop_words": " ".join(lexicon.stop_words),
        "chrome_phrases": list(lexicon.chrome_phrases),
    }
    return json.dumps(held, ensure_ascii=False, indent=1) + "\n"


@functools.cache
def shipped() -> tuple[Counter, Scorer]:
    """Load the model that comes with the package, once per process."""
    held = json.loads(FILE.read_text(encoding="utf-8"))

    def array(name: str) -> NDArray[np.float64]:
        return np.array([held[name][feature] for feature in FEATURES], np.float64)

    lexicon = Lexicon(tuple(held["stop_words"].split()), tuple(held["chrome_phrases"]))
    return Counter(lexicon), Scorer(array("mean"), array("scale"), array("weights"), held["bias"])


@functools.cache
def shipped_digest() -> str:
    """Return the sha256 of the model file."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()


def text_buffers(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return UTF-8 bytes and offsets of texts, as `Counter` takes them."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in encoded], dtype=np.int64)))
    return np.frombuffer(b"".join(encoded), np.uint8), offsets.astype(np.int64)
