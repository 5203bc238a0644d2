"""python -m curate.extract.auto.training: train the block model that `extract: {kind: auto}` uses, and say how good it is."""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from curate.extract.auto.columns import NUM_FEATURES
from curate.extract.auto.context import NUM_CONTEXT
from curate.extract.auto.extractor import Auto
from curate.extract.auto.model import CARD, FILE, Model, feature_digest, open_model, save_model
from curate.extract.auto.scan import Scanner, stop_table
from curate.extract.auto.training.fit import Bools, Sample, Setup, sample_of, train
from curate.extract.auto.training.gold import GOLD_SETS, NUM_FOLDS, load_gold, snippet_hits, word_scores
from curate.extract.auto.training.labelled import LABELLED, LABELS, NEWS, load_labelled

LABELLED_WEIGHTS = {LABELLED: 1.0, NEWS: 0.5}
LIBRARIES = ("lightgbm", "numba", "numpy", "scipy")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m curate.extract.auto.training",
        description="Train the block model of `extract: {kind: auto}` from pages whose main text is known, cross-validate "
        "it by web site, and write it with its card. The same data, settings and libraries give the same bytes. Needs the "
        "extra `extract-train`.",
    )
    parser.add_argument("data", type=Path, help="folder with 02_gold, 03_raw_html and 08_wordlists")
    parser.add_argument(
        "--output", type=Path, default=FILE, help="the model's file; its card stands beside it (%(default)s)"
    )
    parser.add_argument(
        "--no-folds", action="store_true", help="leave the cross-validation out: only train on all pages"
    )
    parser.add_argument("--no-model", action="store_true", help="only cross-validate")
    options = parser.parse_args(arguments)
    setup = Setup()
    stop_words = stop_table(read_stop_words(options.data / "08_wordlists" / "stopwords-iso.json"))
    samples = load_samples(options.data, stop_words)
    print(f"{len(samples)} pages of {len({sample.gold.site for sample in samples})} sites", flush=True)
    scores: dict[str, Any] = {}
    if not options.no_folds:
        scores = evaluate(samples, cross_validate(samples, stop_words, setup))
        print(json.dumps(scores, indent=1))
    if not options.no_model:
        model = train(samples, stop_words, setup)
        digest = save_model(model, options.output)
        open_model(options.output)
        card = make_card(samples, setup, scores, digest)
        options.output.with_suffix(CARD.suffix).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n")
        print(f"{options.output}: {options.output.stat().st_size:,} bytes, sha256 {digest}")
    return 0


def read_stop_words(path: Path) -> list[str]:
    """Return the words of a stop-word list by language, all languages together."""
    lists = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(next(iter(lists.values())), dict):
        lists = next(iter(lists.values()))
    return sorted({word for words in lists.values() for word in words if len(word.encode()) <= 12})


def load_samples(data: Path, stop_words: Bools) -> list[Sample]:
    """Return all pages, scanned and labelled; those of sets that are only measured have no weight."""
    scanner = Scanner(stop_words)
    weights = {gold.name: gold.weight for gold in GOLD_SETS}
    samples = [sample_of(page, scanner, weights[page.set]) for page in load_gold(data / "02_gold")]
    archive = data / "03_raw_html" / "raw.warc.gz"
    labelled = load_labelled(archive, scanner)
    return samples + [sample_of(one.page, scanner, LABELLED_WEIGHTS[one.page.set], one.kept) for one in labelled]


def cross_validate(samples: Sequence[Sample], stop_words: Bools, setup: Setup) -> dict[str, str]:
    """Return the text extracted from each page by a model that saw no page of its site."""
    texts: dict[str, str] = {}
    for fold in range(NUM_FOLDS):
        tested = [sample for sample in samples if sample.fold == fold]
        model = train(samples, stop_words, setup, without=(fold,))
        texts |= {sample.gold.id: extract(model, sample) for sample in tested}
        print(f"fold {fold + 1} of {NUM_FOLDS}: {len(tested)} pages tested", flush=True)
    return texts


def extract(model: Model, sample: Sample) -> str:
    """Return the main text of a page."""
    text, _ = Auto().judged_text(model, sample.page, sample.gold.html, sample.gold.url)
    return text or ""


def evaluate(samples: Sequence[Sample], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return macro word F1, precision and recall of each set, and of each page kind of wcxb; a failure counts 0."""
    by_set: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    snippets: dict[str, tuple[list[bool], list[bool]]] = {}
    for sample in samples:
        page, text = sample.gold, texts[sample.gold.id]
        if page.text:
            scores = word_scores(text, page)
            by_set[page.set].append(scores)
            if page.set == "wcxb":
                by_set[f"wcxb {page.kind}"].append(scores)
        else:
            wanted, unwanted = snippets.setdefault(page.set, ([], []))
            wanted += snippet_hits(text, page.wanted)
            unwanted += snippet_hits(text, page.unwanted)
    result: dict[str, Any] = {
        name: {
            "pages": len(scores),
            "f1": round(fmean(score[2] for score in scores), 4),
            "precision": round(fmean(score[0] for score in scores), 4),
            "recall": round(fmean(score[1] for score in scores), 4),
        }
        for name, scores in by_set.items()
    }
    for name, (wanted, unwanted) in snippets.items():
        result[name] = {"wanted_found": round(fmean(wanted), 4), "unwanted_found": round(fmean(unwanted), 4)}
    return result


def make_card(samples: Sequence[Sample], setup: Setup, scores: Mapping[str, Any], digest: str) -> dict[str, Any]:
    """Return what a reader must know of a model: data with licences and digests, folds, settings, scores, libraries."""
    licences = {gold.name: gold.licence for gold in GOLD_SETS}
    licences |= dict.fromkeys(LABELLED_WEIGHTS, "labels: as this project; pages are not part of it")
    sets = []
    for name in sorted({sample.gold.set for sample in samples}):
        own = [sample for sample in samples if sample.gold.set == name]
        content = hashlib.sha256()
        for sample in sorted(own, key=lambda sample: sample.gold.id):
            content.update(
                hashlib.sha256(sample.gold.content).digest() + hashlib.sha256(sample.gold.text.encode()).digest()
            )
        sets.append(
            {
                "set": name,
                "pages": len(own),
                "sites": len({sample.gold.site for sample in own}),
                "trained_on": any(sample.weights.any() for sample in own),
                "licence": licences[name],
                "sha256": content.hexdigest(),
            }
        )
    return {
        "model": "block model of `extract: {kind: auto}`",
        "sha256": digest,
        "features": {"first": NUM_FEATURES, "second": NUM_FEATURES + NUM_CONTEXT, "digest": feature_digest()},
        "setup": {
            "trees": setup.trees,
            "leaves": setup.leaves,
            "depth": setup.depth,
            "rates": setup.rates,
            "seed": setup.seed,
        },
        "sets": sets,
        "labels_sha256": hashlib.sha256(LABELS.read_bytes()).hexdigest(),
        "folds": f"{NUM_FOLDS}, by registered domain",
        "cross_validation": scores,
        "libraries": {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()},
    }


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    raise SystemExit(main())
