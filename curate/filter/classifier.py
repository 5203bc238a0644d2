"""fastText classifiers in use: the model file, what its card says of it, texts to scores and labels."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.errors import InputError
from curate.text.oneline import FORMS, words_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

MODEL, CARD = "model.bin", "card.json"
UNKNOWN = "unknown"  # label of a text without a word
_REMEDY = "Name a folder that `curate classifier train` wrote, or a fastText model file."


@dataclass(frozen=True, slots=True)
class Reading:
    """How a model is read: kept in its card under `reading`.

    Attributes:
        text: Form of the text, one of `curate.text.oneline.FORMS`.
        score: Number of each label; the score of a text is the sum over the labels of number times probability: {"positive": 1}
            is the probability of that label. Empty where labels have no number.
    """

    text: str
    score: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"text": self.text, "score": dict(self.score)}


def model_files(path: str) -> tuple[Path, Path]:
    """Return the model file that a path means (itself, or that of a folder) and the card, which need not be there."""
    named = Path(path)
    folder = named if named.is_dir() else named.parent
    return (named / MODEL if named.is_dir() else named), folder / CARD


def digest_of(path: str) -> str:
    """Return the sha256 of model file and card: another one under the same name is another model.

    Raises:
        InputError: If there is no model file.
    """
    stamps = []
    for number, file in enumerate(model_files(path)):
        try:
            stat = file.stat()
        except OSError as error:
            if number == 0:
                raise InputError(str(file), f"the model cannot be read: {error.strerror}.", _REMEDY) from error
            continue
        stamps.append((str(file), stat.st_size, stat.st_mtime_ns))
    return _digest(tuple(stamps))


@functools.lru_cache(maxsize=16)
def _digest(stamps: tuple[tuple[str, int, int], ...]) -> str:
    import hashlib

    whole = hashlib.sha256()
    for file, _, _ in stamps:
        with Path(file).open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()


def reading_of(path: str) -> Reading | None:
    """Return what the card beside a model says, or None without a card.

    Raises:
        InputError: If there is a card that cannot be understood, or that is another model's.
    """
    model, card = model_files(path)
    if not card.is_file():
        return None
    try:
        content = json.loads(card.read_bytes())
        if content["model"]["file"] != model.name:
            return None  # the card of another model in the folder
        reading = content["reading"]
        score = {str(label): float(number) for label, number in reading["score"].items()}
        if reading["text"] not in FORMS:
            raise ValueError(f"unknown form of text {reading['text']!r}")
        return Reading(reading["text"], score)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"is no card of a classifier ({error!r})."
        raise InputError(
            str(card), problem, "Train it again, or take the card away and say `label` and `text`."
        ) from error


class Classifier:
    """A model that is ready to answer.

    Attributes:
        labels: Its labels, in its own order.
        form: From text to the line that the model reads.
    """

    def __init__(self, path: str, form: str, digest: str) -> None:
        from curate.text.fasttext_model import load_model

        self._model = load_model(str(model_files(path)[0]), digest)
        self.labels = tuple(label.removeprefix("__label__") for label in self._model.labels)
        self.form = FORMS[form]

    def lines(self, texts: Sequence[str | None]) -> list[str]:
        """Return the lines that the model reads; an empty one where there is no word."""
        lines = [self.form(text) if text else "" for text in texts]
        return [line if words_of(line) else "" for line in lines]

    def probabilities(self, lines: Sequence[str]) -> Floats:
        """Return the probability of each label, shape (lines, labels); zeros for an empty line.

        They are fastText's, which adds 0.00001 to each: published thresholds are on that scale. None is above 1.
        """
        import numpy as np
        import pyarrow as pa

        from curate.text.fasttext_model import score

        found = np.minimum(score(self._model, pa.array(lines, pa.large_string())).astype(np.float64), 1.0)
        found[np.array([not line for line in lines], bool)] = 0.0
        return found


@functools.lru_cache(maxsize=4)
def load_classifier(path: str, form: str, digest: str) -> Classifier:
    """Load a model once per process.

    Args:
        path: As for `model_files`.
        form: One of FORMS.
        digest: Of the model and its card.

    Raises:
        InputError: If the file is no fastText model.
    """
    return Classifier(path, form, digest)


def scores_of(probabilities: Floats, labels: Sequence[str], score: Mapping[str, float]) -> Floats:
    """Return the score of each row: the sum over the labels of number times probability, shape (rows,).

    Where several labels have a number, the probabilities are divided by their sum, which rounding leaves off 1.
    """
    import numpy as np

    numbers = np.array([score.get(label, 0.0) for label in labels])
    found: Floats = probabilities @ numbers
    if len(score) > 1:
        whole = probabilities.sum(axis=1)
        found /= np.where(whole > 0, whole, 1.0)
    return found
