"""Recall agrees with 1 - (1 - s^r)^b and precision is 1: real prose with planted edits, against brute force.

A quick part of benchmarks/bench_recall.py (benchmarks/results/recall.md has the figures): its edits and its truth, tuples of
words without a hash of ours. Real prose that is there everywhere: the topics of Python's own reference.
"""

import importlib
import itertools
import json
import pydoc_data.topics
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dedup_flow import DATA, with_hashes

import curate
from curate.dedup.minhash import Signatures

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
try:
    planted = importlib.import_module("recall_pairs")
finally:
    sys.path.pop(0)

EDGES = np.linspace(0.5, 1.0, 6).tolist()
SEEDS = range(100, 130)  # fixed beforehand: a failure is no bad luck of a day
SURE = 1e-6  # of a correct family, about one bin in a million fails


def chance(similarity, bands, rows):
    return 1 - (1 - np.asarray(similarity) ** rows) ** bands


def tail(found, chances):
    """Return the two-sided probability of `found` successes or stranger, of trials with these chances (exact)."""
    probability = np.ones(1)
    for p in chances:
        probability = np.convolve(probability, (1 - p, p))
    return min(1.0, 2 * min(probability[: found + 1].sum(), probability[found:].sum()))


def surprise(found, similarity, bands, rows):
    """Return the smallest probability over the bins of similarity, and all pairs together.

    Args:
        found: Whether each pair was found, shape (seeds, pairs).
        similarity: Exact similarity of each pair.
        bands, rows: Of the signatures.
    """
    chances, smallest = chance(similarity, bands, rows), 1.0
    for low, high in (*itertools.pairwise(EDGES), (0, 1.01)):
        inside = (similarity >= low) & (similarity < high)
        if inside.any():
            smallest = min(smallest, tail(int(found[:, inside].sum()), np.repeat(chances[inside], len(found))))
    return smallest


@pytest.fixture(scope="module")
def corpus():
    """Return documents, pairs, and the pairs' exact similarity and containment."""
    pieces = [
        planted.Text(piece, "en", "reference")
        for name, topic in sorted(pydoc_data.topics.topics.items())
        for piece in planted.passages(topic, name, 60, 140)
        if len(planted.folded_words(piece)) >= 50
    ]
    pieces = planted.unlike(pieces, 0.1)
    bases, donors = pieces[::2], pieces[1::2]
    documents, pairs = planted.plant(bases[:240], donors, 0.45)
    truth = planted.all_pairs(documents)
    assert planted.check_sample(documents, truth, 200, 3) > 150
    base, edited = (np.array([getattr(pair, side) for pair in pairs]) for side in ("base", "edited"))
    return documents, pairs, truth, *truth.of(base, edited)


def shared_bands(signed, bands):
    keys = signed["bands"].values.to_numpy().reshape(-1, bands)
    return (keys[0::2] == keys[1::2]).any(1)


@pytest.mark.parametrize(("bands", "rows"), [(14, 8), (9, 13), (25, 5)])
def test_pairs_share_a_band_as_often_as_the_formula_says(corpus, bands, rows):
    documents, pairs, _, similarity, _ = corpus
    assert np.histogram(similarity, EDGES)[0].min() >= 20  # pairs in each bin
    batch = with_hashes(documents)
    found = np.array(
        [shared_bands(Signatures(bands=bands, rows=rows, seed=seed).apply(batch), bands) for seed in SEEDS]
    )
    assert found.shape == (len(SEEDS), len(pairs))
    assert surprise(found, similarity, bands, rows) > SURE
    for edit in planted.EDITS:
        of_edit = np.array([pair.edit == edit for pair in pairs])
        assert surprise(found[:, of_edit], similarity[of_edit], bands, rows) > SURE


def broken(values, how, rows):
    """Return signatures as faulty code makes them."""
    if how == "one function a band":
        return values[:, np.arange(values.shape[1]) // rows * rows]
    if how == "neighbouring bands are one":
        return values[:, np.arange(values.shape[1]) // (2 * rows) * (2 * rows) + np.arange(values.shape[1]) % rows]
    if how == "four bits of each value":
        return values & 15
    assert how == "right"
    return values


@pytest.mark.parametrize(
    "how", ["right", "one function a band", "neighbouring bands are one", "four bits of each value", "half of the text"]
)
def test_a_bad_family_is_seen(corpus, how):
    """The measure of the test above, on families that are wrong on purpose."""
    from curate.dedup.minhash import signatures

    documents, _, _, similarity, _ = corpus
    if how == "half of the text":
        documents, how = [text[: len(text) // 2] for text in documents], "right"
        wrong = True
    else:
        wrong = how != "right"
    words = with_hashes(documents)["word_hashes"]
    found = []
    for seed in SEEDS:
        values, _ = signatures(words, ngram=5, num_permutations=112, seed=seed)
        equal = broken(values, how, 8)[0::2] == broken(values, how, 8)[1::2]
        found.append(equal.reshape(len(equal), 14, 8).all(2).any(1))
    probability = surprise(np.array(found), similarity, 14, 8)
    assert (probability < SURE) if wrong else (probability > SURE)


def removed_by(folder, documents, minhash):
    """Return (removed, kept, similarity) of a whole run over the documents, by their numbers."""
    folder.mkdir()
    lines = [json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(documents)]
    (folder / "a.jsonl").write_text("".join(lines))
    recipe = folder / "r.yaml"
    recipe.write_text(
        "name: r\nsources:\n  own:\n    read: {kind: jsonl, paths: a.jsonl}\n"
        f"dedup:\n  exact: {{}}\n  minhash: {json.dumps(minhash)}\n"
    )
    curate.run(recipe, output=folder / "run", cache=folder / "cache", workers=1, until="collect", quiet=True)
    extracted = pq.read_table(folder / "run" / "extracted").to_pylist()
    number = {row["id"]: int(row["source_id"]) for row in extracted}
    rows = [row for row in pq.read_table(folder / "run" / "decisions").to_pylist() if not row["kept"]]
    assert {row["rule"] for row in rows} == {"dedup.minhash"}
    return [(number[row["id"]], number[row["kept_id"]], row["similarity"]) for row in rows]


def test_a_run_removes_what_the_formula_says_and_nothing_below_the_threshold(corpus, tmp_path):
    documents, pairs, truth, similarity, _ = corpus
    verify = 0.7
    rows = removed_by(tmp_path / "project", documents, {"verify": verify, "seed": 1})
    removed, kept = np.array([row[:2] for row in rows]).T
    assert not set(removed) & set(kept)
    assert (truth.of(removed, kept)[0] >= verify).all()
    assert truth.of(removed, kept)[0].tolist() == [row[2] for row in rows]
    partners = set(zip(removed.tolist(), kept.tolist(), strict=True))
    found = np.array([(pair.base, pair.edited) in partners or (pair.edited, pair.base) in partners for pair in pairs])
    assert not found[similarity < verify].any()
    must = similarity >= verify
    assert must.sum() > 100
    assert surprise(found[None, must], similarity[must], 14, 8) > SURE


def test_texts_without_spaces_are_found_alike(tmp_path):
    folder = DATA / "02_gold"
    if not folder.exists():
        pytest.skip(f"real pages are absent: no folder {folder}; set CURATE_DATA to the data folder")
    chinese = [one for one in planted.gold_texts(DATA) if one.language == "zh" and len(one.text) > 200]
    pieces = [
        planted.Text(piece, "zh", "gold")
        for place, one in enumerate(chinese)
        for piece in planted.passages(one.text, str(place), 100, 300)
        if len(planted.folded_words(piece)) >= 90
    ]
    pieces = planted.unlike(pieces, 0.1)
    documents, pairs = planted.plant(pieces[0:200:2], pieces[1:200:2], 0.5)
    truth = planted.all_pairs(documents)
    similarity, _ = truth.of(np.array([pair.base for pair in pairs]), np.array([pair.edited for pair in pairs]))
    batch = with_hashes(documents)
    found = np.array([shared_bands(Signatures(seed=seed).apply(batch), 14) for seed in SEEDS])
    assert surprise(found, similarity, 14, 8) > SURE
    assert found.sum() > 1000
