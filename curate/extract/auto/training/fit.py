"""Pages with labels to a model: word tables, kind model, and two stages of boosted trees.

What a stage is trained on must look like what it will meet. So scores of words, the kind of a page and the probabilities
that the second stage reads always come from folds other than the page's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from curate.extract.auto.columns import NUM_FEATURES
from curate.extract.auto.context import NUM_BOTH, with_context
from curate.extract.auto.features import BlockFeatures, Floats, Tables, block_features
from curate.extract.auto.model import TABLE_STEP, Model
from curate.extract.auto.page import KINDS, KindModel, Marks, kind_bag, page_facts, read_marks
from curate.extract.auto.scan import Page, Scanner
from curate.extract.auto.tags import (
    BLOCK_ELEMENT,
    BLOCK_FIRST_WORD,
    ELEMENT_CLASS_END,
    ELEMENT_CLASS_START,
    ELEMENT_PARENT,
    ELEMENT_TAG,
    NUM_CLASS_BUCKETS,
    NUM_WORD_BUCKETS,
    TITLE,
)
from curate.extract.auto.training.align import label_blocks, tokens
from curate.extract.auto.training.gold import GoldPage, snippet_hits
from curate.extract.auto.training.kinds import fit_kinds
from curate.extract.auto.trees import Trees

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEADING_WORDS = 16  # of a block, that scores of words are learned from
KIND_WEIGHT = {"wcxb": 1.0, "labelled": 1.0, "scrapinghub": 0.5}  # kinds in the other sets are guesses
OTHER_KIND_WEIGHT = 0.2
WORD_POWER = 0.75  # a block weighs its words to this power
GOLD_SHARE = 0.8  # a page's mistakes are counted against its main text (1) or against all of it (0)


@dataclass(frozen=True, slots=True)
class Setup:
    """How the trees are grown.

    Attributes:
        trees: Of the first and the second stage.
        leaves, depth: Most of a tree.
        rates: What a tree of each stage adds, as a share of what it found.
        seed: Of the draws of rows and features.
    """

    trees: tuple[int, int] = (150, 160)
    leaves: int = 24
    depth: int = 6
    rates: tuple[float, float] = (0.1, 0.075)
    seed: int = 7

    def parameters(self, stage: int) -> dict[str, Any]:
        """Return those of a stage as LightGBM names them. One thread, so that the same data give the same trees."""
        return {
            "objective": "binary",
            "learning_rate": self.rates[stage],
            "num_leaves": self.leaves,
            "max_depth": self.depth,
            "min_data_in_leaf": 60,
            "min_sum_hessian_in_leaf": 1e-4,
            "extra_trees": True,  # a split is tried at one random threshold: 680 pages are few, and trees of them vary
            "feature_fraction": 0.3,
            "bagging_fraction": 0.7,
            "bagging_freq": 1,
            "lambda_l2": 10.0,
            "max_bin": 127,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "seed": self.seed,
            "verbose": -1,
        }


@dataclass(slots=True)
class Sample:
    """A page ready for training.

    Attributes:
        gold: The page as it was loaded.
        page: Scanned.
        marks: What it says of itself.
        bag: Buckets for the model of its kind.
        labels: Share of each block that is main text, shape (blocks,).
        known: Blocks whose label is known.
        weights: What a mistake in a block costs, shape (blocks,).
    """

    gold: GoldPage
    page: Page
    marks: Marks
    bag: Int64s
    labels: Floats
    known: Bools
    weights: Floats

    @property
    def fold(self) -> int:
        """The fold that the page is tested in."""
        return self.gold.fold


def sample_of(gold: GoldPage, scanner: Scanner, weight: float, kept: Sequence[int] | None = None) -> Sample:
    """Return a page scanned and labelled.

    Args:
        gold: The page.
        scanner: Of the model's stop words.
        weight: Of its set.
        kept: Blocks that are main text, where that was said block by block; else the gold's text or snippets tell.
    """
    page = scanner(gold.html)
    marks = read_marks(page.source, gold.url)
    number = len(page.blocks)
    texts = [page.block_text(block) for block in range(number)]
    title: Bools = page.elements[page.blocks[:, BLOCK_ELEMENT], ELEMENT_TAG] == TITLE
    known: Bools = np.ones(number, np.bool_)
    labels: Floats
    if kept is not None:
        labels = np.zeros(number, np.float32)
        labels[list(kept)] = 1
    elif gold.text:
        labels = label_blocks(texts, gold.text, title.tolist())
    else:
        labels, known = _from_snippets(texts, gold)
    known &= ~title
    num_words = np.array([len(tokens(text)) for text in texts])
    costs = (num_words + 1.0) ** WORD_POWER * known
    total = max(costs.sum(), 1e-9)
    main = max((costs * (labels >= 0.5)).sum(), 0.02 * total)
    weights = costs / (total ** (1 - GOLD_SHARE) * main**GOLD_SHARE) * weight
    return Sample(gold, page, marks, kind_bag(page, marks), labels, known, weights.astype(np.float32))


def _from_snippets(texts: Sequence[str], gold: GoldPage) -> tuple[Floats, Bools]:
    """Return labels of the blocks that hold a wanted snippet, or little more than an unwanted one; the rest is not known."""
    labels: Floats = np.zeros(len(texts), np.float32)
    known: Bools = np.zeros(len(texts), np.bool_)
    wanted = [text for text in gold.wanted if len(text) > 10]
    unwanted = [text for text in gold.unwanted if len(text) > 5]
    for block, text in enumerate(texts):
        if any(snippet_hits(text, wanted)):
            labels[block], known[block] = 1, True
        elif any(
            hit and len(text) < 3 * len(snippet)
            for snippet, hit in zip(unwanted, snippet_hits(text, unwanted), strict=True)
        ):
            known[block] = True
    return labels, known


# ---- scores of words


class WordCounts:
    """How often main text stands under each class word, and begins with each word: by fold, so that folds can be left out.

    A site has one vote on a word (a site with many pages a little more): else one template decides what a word means.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        by_site: dict[tuple[int, str], list[Sample]] = {}
        for sample in samples:
            by_site.setdefault((sample.fold, sample.gold.site), []).append(sample)
        self._folds: dict[int, list[npt.NDArray[np.float64]]] = {}
        sizes = (NUM_CLASS_BUCKETS, NUM_CLASS_BUCKETS, NUM_WORD_BUCKETS, NUM_WORD_BUCKETS)
        for (fold, _), pages in by_site.items():
            sums = self._folds.setdefault(fold, [np.zeros(size) for size in sizes])
            counts = [np.zeros(size) for size in sizes]
            for sample in pages:
                _count_words(sample, counts)
            for kind in (0, 2):
                seen = counts[kind + 1] > 0
                sums[kind][seen] += counts[kind][seen] / counts[kind + 1][seen] * len(pages) ** 0.5
                sums[kind + 1][seen] += len(pages) ** 0.5

    def tables(self, without: Iterable[int] = ()) -> Tables:
        """Return smoothed log-odds from all folds but some, in steps of TABLE_STEP, between -3 and 3."""
        left_out = set(without)
        sums = [sum(counts[kind] for fold, counts in self._folds.items() if fold not in left_out) for kind in range(4)]
        return Tables(_log_odds(sums[0], sums[1], 2.0), _log_odds(sums[2], sums[3], 3.0))


def _log_odds(main: Any, seen: Any, prior: float) -> Floats:
    if not seen.any():
        return np.zeros(len(seen), np.float32)
    mean = np.clip(main.sum() / seen.sum(), 0.001, 0.999)
    odds = np.log((main + prior * mean) / (seen - main + prior * (1 - mean))) - np.log(mean / (1 - mean))
    odds[seen < 1.5] = 0
    scores: Floats = (np.rint(np.clip(odds, -3, 3) / TABLE_STEP) * TABLE_STEP).astype(np.float32)
    return scores


def _count_words(sample: Sample, counts: Sequence[npt.NDArray[np.float64]]) -> None:
    page = sample.page
    around: dict[int, Int64s] = {}
    num_words = np.diff(np.append(page.blocks[:, BLOCK_FIRST_WORD], len(page.words)))
    class_main, class_seen = np.zeros(NUM_CLASS_BUCKETS), np.zeros(NUM_CLASS_BUCKETS)
    for block in np.flatnonzero(sample.known):
        element = int(page.blocks[block, BLOCK_ELEMENT])
        if element not in around:
            around[element] = _path_words(page, element)
        weight = num_words[block] ** WORD_POWER
        class_seen[around[element]] += weight
        class_main[around[element]] += weight * sample.labels[block]
        start = page.blocks[block, BLOCK_FIRST_WORD]
        words = np.unique(page.words[start : start + min(num_words[block], LEADING_WORDS)])
        counts[2][words] += sample.labels[block]
        counts[3][words] += 1
    seen = class_seen > 0
    counts[0][seen] += class_main[seen] / class_seen[seen]
    counts[1][seen] += 1


def _path_words(page: Page, element: int) -> Int64s:
    """Return the class words of an element and of all around it, each once."""
    found = []
    while element > 0:
        row = page.elements[element]
        found.append(page.class_words[row[ELEMENT_CLASS_START] : row[ELEMENT_CLASS_END]])
        element = int(row[ELEMENT_PARENT])
    return np.unique(np.concatenate(found)).astype(np.int64) if found else np.zeros(0, np.int64)


# ---- stages


def train(samples: Sequence[Sample], stop_words: Bools, setup: Setup, without: Iterable[int] = ()) -> Model:
    """Return a model trained on all samples but those of some folds."""
    left_out = set(without)
    used = [sample for sample in samples if sample.fold not in left_out and sample.weights.any()]
    folds = sorted({sample.fold for sample in used})
    counts = WordCounts(used)
    facts: dict[str, Floats] = {}
    for fold in folds:
        kinds = _fit_kinds([sample for sample in used if sample.fold != fold])
        facts |= {s.gold.id: page_facts(s.page, s.marks, kinds) for s in used if s.fold == fold}

    first_seen: dict[str, Floats] = {}
    for fold in folds:
        rest = [sample for sample in used if sample.fold != fold]
        tables = {other: counts.tables((fold, other)) for other in folds if other != fold}
        stage = _grow(rest, [_features(s, facts, tables[s.fold]).values for s in rest], setup, 0)
        own = counts.tables((fold,))
        for sample in used:
            if sample.fold == fold:
                first_seen[sample.gold.id] = stage.predict(_features(sample, facts, own).values)
    tables = {fold: counts.tables((fold,)) for fold in folds}
    features = [_features(sample, facts, tables[sample.fold]) for sample in used]
    first = _grow(used, [one.values for one in features], setup, 0)
    both = [
        with_context(sample.page, one, first_seen[sample.gold.id]) for sample, one in zip(used, features, strict=True)
    ]
    second = _grow(used, both, setup, 1)
    return Model(stop_words, counts.tables(), _fit_kinds(used), first, second)


def _features(sample: Sample, facts: dict[str, Floats], tables: Tables) -> BlockFeatures:
    return block_features(sample.page, facts[sample.gold.id], tables)


def _fit_kinds(samples: Sequence[Sample]) -> KindModel:
    told = [sample for sample in samples if sample.gold.kind in KINDS]
    weights = [KIND_WEIGHT.get(sample.gold.set, OTHER_KIND_WEIGHT) for sample in told]
    return fit_kinds([sample.bag for sample in told], [sample.gold.kind for sample in told], weights)


def _grow(samples: Sequence[Sample], rows: Sequence[Floats], setup: Setup, stage: int) -> Trees:
    import lightgbm

    weights = np.concatenate([sample.weights for sample in samples])
    used = weights > 0
    labels = np.concatenate([sample.labels >= 0.5 for sample in samples])[used].astype(np.float32)
    weights = weights[used] * (used.sum() / weights.sum())
    data = lightgbm.Dataset(np.vstack(rows)[used], labels, weight=weights)
    return flatten(lightgbm.train(setup.parameters(stage), data, setup.trees[stage]), (NUM_FEATURES, NUM_BOTH)[stage])


def _not_above(values: npt.NDArray[np.float64]) -> Floats:
    """Return the largest float32 at or below each value: a float32 compares with both alike."""
    rounded: Floats = values.astype(np.float32)
    return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def flatten(booster: Any, num_features: int) -> Trees:
    """Return a LightGBM booster as plain arrays; siblings stand side by side."""
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    value: list[float] = []
    roots: list[int] = []
    depths: list[int] = []

    def reserve(number: int) -> int:
        start = len(feature)
        for place in range(start, start + number):
            feature.append(0)
            threshold.append(np.inf)
            left.append(place)
            value.append(0.0)
        return start

    def fill(place: int, node: dict[str, Any]) -> int:
        if "split_index" not in node:
            value[place] = node["leaf_value"]
            return 0
        assert node["decision_type"] == "<="
        children = reserve(2)
        feature[place], threshold[place], left[place] = node["split_feature"], node["threshold"], children
        return 1 + max(fill(children, node["left_child"]), fill(children + 1, node["right_child"]))

    for tree in booster.dump_model()["tree_info"]:
        root = reserve(1)
        roots.append(root)
        depths.append(fill(root, tree["tree_structure"]))
    trees = Trees(
        np.array(feature, np.uint8),
        _not_above(np.array(threshold)),
        np.array(left, np.int32),
        np.array(value, np.float32),
        np.array(roots, np.int32),
        np.array(depths, np.uint8),
    )
    trees.check(num_features)
    return trees
