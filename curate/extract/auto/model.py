"""The block model: learned tables and trees as plain arrays, and what they say of a page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from curate.extract.auto.choose import Mask, choose
from curate.extract.auto.columns import FEATURES, NUM_FEATURES
from curate.extract.auto.context import CONTEXT, NUM_BOTH, with_context
from curate.extract.auto.features import BlockFeatures, Floats, Tables, block_features
from curate.extract.auto.page import KINDS, NUM_KIND_BUCKETS, KindModel, page_facts, read_marks
from curate.extract.auto.scan import Page
from curate.extract.auto.tags import NUM_CLASS_BUCKETS, NUM_WORD_BUCKETS
from curate.extract.auto.trees import Trees

FILE = Path(__file__).with_name("model.npz")
CARD = Path(__file__).with_name("model.json")
SURE = (
    0.003  # the second stage is not asked about blocks that the first is so sure of: two fifths; the choice is the same
)
TABLE_STEP = 1 / 32  # learned scores of words are multiples of it, and fit into a signed byte

_TREE_ARRAYS = ("feature", "threshold", "left", "value", "roots", "depths")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the model says of a page.

    Attributes:
        keep: Which blocks are main text, shape (blocks,).
        confidence: The F1 that the model expects of that choice, 0 to 1.
        probabilities: Of each block, shape (blocks,).
    """

    keep: Mask
    confidence: float
    probabilities: Floats


@dataclass(frozen=True, slots=True)
class Model:
    """Everything that was learned.

    Attributes:
        stop_words: Which word buckets are stop words of some language, shape (NUM_WORD_BUCKETS,).
        tables: Learned scores of class words and of text words.
        kinds: The model of a page's kind.
        first, second: Trees over FEATURES, and over FEATURES and CONTEXT.
    """

    stop_words: npt.NDArray[np.bool_]
    tables: Tables
    kinds: KindModel
    first: Trees
    second: Trees

    def judge(self, page: Page, url: str, beta: float = 1.0, hidden_text: bool = False) -> Judgement:
        """Say which blocks of a page are its main text.

        Args:
            page: The page, scanned with this model's stop words.
            url: Its address, or "".
            beta: Weight of recall (see `curate.extract.auto.choose.choose`).
            hidden_text: Whether text that the page hides may stay.
        """
        if not len(page.blocks):
            nothing: Floats = np.zeros(0, np.float32)
            return Judgement(np.zeros(0, np.bool_), 0.0, nothing)
        features = self.features(page, url)
        probabilities = self.first.predict(features.values)
        unsure = (probabilities > SURE) & (probabilities < 1 - SURE)
        probabilities[unsure] = self.second.predict(with_context(page, features, probabilities)[unsure])
        keep, confidence = choose(page, probabilities, features.values, beta, hidden_text)
        return Judgement(keep, confidence, probabilities)

    def features(self, page: Page, url: str) -> BlockFeatures:
        """Return the first-stage features of a page."""
        return block_features(page, page_facts(page, read_marks(page.source, url), self.kinds), self.tables)


def save_model(model: Model, path: Path) -> str:
    """Write a model as an archive of plain arrays; return its sha256. The same model gives the same bytes."""
    scale = max(float(np.abs(model.kinds.weights).max()), 1e-9) / 127
    arrays: dict[str, npt.NDArray[Any]] = {
        "stop_words": np.packbits(model.stop_words),
        "class_scores": np.rint(model.tables.classes / TABLE_STEP).astype(np.int8),
        "word_scores": np.rint(model.tables.words / TABLE_STEP).astype(np.int8),
        "kind_weights": np.rint(model.kinds.weights / scale).astype(np.int8),
        "kind_scale": np.array([scale], np.float32),
        "kind_bias": model.kinds.bias,
    }
    for name, trees in (("first", model.first), ("second", model.second)):
        arrays |= {f"{name}_{part}": getattr(trees, part) for part in _TREE_ARRAYS}
    np.savez_compressed(path, allow_pickle=False, **arrays)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def open_model(path: Path) -> Model:
    """Read a model.

    Raises:
        ValueError: If the file is damaged or made for other features; the remedy is named.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        model = _from_arrays(arrays)
    except (OSError, KeyError, ValueError, TypeError, EOFError, BadZipFile) as error:
        raise ValueError(
            f"{path}: this is no model of this version: {error}. Install curate again, or train one: "
            "python -m curate.extract.auto.training --help."
        ) from error
    return model


def _from_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> Model:
    stop_words = np.unpackbits(arrays["stop_words"], count=NUM_WORD_BUCKETS).astype(np.bool_)
    tables = Tables(
        arrays["class_scores"].astype(np.float32) * np.float32(TABLE_STEP),
        arrays["word_scores"].astype(np.float32) * np.float32(TABLE_STEP),
    )
    weights = arrays["kind_weights"].astype(np.float32) * arrays["kind_scale"][0]
    kinds = KindModel(weights, arrays["kind_bias"].astype(np.float32))
    first, second = (Trees(*(arrays[f"{name}_{part}"] for part in _TREE_ARRAYS)) for name in ("first", "second"))
    wanted: dict[str, tuple[int, ...]] = {
        "class_scores": (NUM_CLASS_BUCKETS,),
        "word_scores": (NUM_WORD_BUCKETS,),
        "kind_weights": (NUM_KIND_BUCKETS, len(KINDS)),
        "kind_bias": (len(KINDS),),
    }
    for name, shape in wanted.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has the shape {arrays[name].shape}, not {shape}")
    first.check(NUM_FEATURES)
    second.check(NUM_BOTH)
    return Model(stop_words, tables, kinds, first, second)


@lru_cache(maxsize=1)
def shipped_model() -> Model:
    """Return the model that comes with the package."""
    return open_model(FILE)


@lru_cache(maxsize=1)
def shipped_digest() -> str:
    """Return the sha256 of the model that comes with the package."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()


def feature_digest() -> str:
    """Return a digest of the names and order of all features: a model fits one list only."""
    return hashlib.sha256(json.dumps([FEATURES, CONTEXT]).encode()).hexdigest()[:16]
