"""Semantic copies: pairs found against brute force over all documents, what rounding does, CPU time by step, memory.

    python benchmarks/bench_semantic.py [--peer PYTHON] [--documents 20000] [--rounds 3] > benchmarks/results/semantic.md
    python benchmarks/bench_semantic.py --scale 1000000

Documents are passages of 60 words of the English books of `$CURATE_DATA` (04_books); their vectors come of a skip-gram model
that fastText trains on these passages first (dim 64, 3 epochs, one thread). PYTHON is that of an environment with
scikit-learn and semhash: the same vectors go through k-means with the cosines of each group (as SemDeDup does), and through
semhash's index. `--scale` takes so many made vectors (64 numbers, around a twentieth as many centres) through the tasks of
a run with 64 MiB of buffers, and says what they take. One thread everywhere. The run fails if an embedding differs from
the library's, if who goes differs from brute force in whole numbers, or if a cosine moves by more than the bound says.
Writes Markdown.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gzip
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from semantic_pairs import OTHER, SAME, TRAPS

from curate.dedup.semantic import choose_semantic
from curate.dedup.semantic_groups import default_clusters, fit_centroids, nearest_centroids, sample_threshold
from curate.dedup.semantic_vectors import (
    UNIT,
    compared,
    error_bound,
    squared_lengths,
    stored,
    sum_of_units,
)
from curate.text.fasttext_model import embed, load_model
from curate.text.hashing import choice_hash

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
WORDS = 60
MEMORY = 1 << 28
PEER = """
import json, sys, time
import numpy, semhash, sklearn
from sklearn.cluster import KMeans
vectors = numpy.load(sys.argv[1]); similarity = float(sys.argv[2]); clusters = int(sys.argv[3])
start = time.process_time()
groups = KMeans(clusters, n_init=1, max_iter=12, random_state=0).fit_predict(vectors)
fitted = time.process_time() - start
start = time.process_time()
removed = 0
for group in range(clusters):
    rows = numpy.flatnonzero(groups == group)
    alike = numpy.triu(vectors[rows] @ vectors[rows].T, 1)
    removed += int((alike.max(axis=0, initial=0) >= similarity).sum())
pairs = time.process_time() - start
start = time.process_time()
class Encoder:
    def encode(self, inputs, **more):
        raise NotImplementedError
index = semhash.SemHash.from_embeddings(vectors, [str(row) for row in range(len(vectors))], Encoder())
found = index.self_deduplicate(threshold=similarity)
hashed = time.process_time() - start
json.dump([sklearn.__version__, semhash.__version__ if hasattr(semhash, "__version__") else "", fitted, pairs, removed, hashed,
           len(vectors) - len(found.selected)], sys.stdout)
"""


def passages(count: int) -> list[str]:
    """Return passages of 60 words, one behind the other, of the English books; a passage that comes again counts once."""
    found: dict[str, None] = {}
    with gzip.open(DATA / "04_books" / "books.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            book = json.loads(line)
            if book["language"] == "en":
                words = book["text"].split()
                places = range(0, len(words) - WORDS + 1, WORDS)
                found |= dict.fromkeys(" ".join(words[start : start + WORDS]) for start in places)
            if len(found) >= count:
                break
    return list(found)[:count]


def trained(texts: list[str], folder: Path) -> Any:
    import fasttext

    ctypes.CDLL(None).mallopt(-6, 255)  # fastText 0.9.3 trains on memory that it never set; this makes it zeros
    (folder / "text.txt").write_text("\n".join(texts), encoding="utf-8")
    model = fasttext.train_unsupervised(
        str(folder / "text.txt"), model="skipgram", dim=64, epoch=3, minCount=3, bucket=20_000, thread=1, verbose=0
    )
    model.save_model(str(folder / "vectors.bin"))
    return model


def seconds(function: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Return the median CPU time of a call, and what it gives."""
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        result = function()
        spent.append(time.process_time() - start)
    return statistics.median(spent), result


def gone(vectors: np.ndarray, groups: list[np.ndarray], similarity: float, folder: Path) -> dict[int, int]:
    found = {}
    for rows in groups:
        for part in choose_semantic(vectors, rows, similarity, memory_bytes=MEMORY, scratch=str(folder)):
            found |= dict(zip(part.rows.tolist(), part.kept.tolist(), strict=True))
    return found


def whole_numbers(vectors: np.ndarray, similarity: float) -> dict[int, int]:
    """Go through all documents by number, each beside all that stay, in float64: whole numbers, exact."""
    wide, squares = vectors.astype(np.float64), squared_lengths(vectors).astype(np.float64)
    stay = np.zeros(len(vectors), np.int64)
    count, found = 0, {}
    for row in range(len(vectors)):
        others = stay[:count]
        alike = (wide[others] @ wide[row]) / np.sqrt(squares[others] * squares[row])
        if count and alike.max() >= similarity:
            found[row] = int(others[alike.argmax()])
        else:
            stay[count] = row
            count += 1
    return found


def all_pairs(vectors: np.ndarray, exact: np.ndarray) -> tuple[float, np.ndarray, tuple[float, float], int, float]:
    """Compare all pairs in float64, as they are and rounded.

    Returns:
        A bound that a twentieth of the documents has a neighbour above; the pairs on or above it, as rounded; by how much a
        cosine moves, at most and on average; pairs that rounding moves over the bound; half of the angle bounds' median, degrees.
    """
    count = len(vectors)
    ours = vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    truth = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    angles = error_bound(exact) + 1e-4  # int16 moves a vector, too
    nearest, most, total = np.zeros(count), 0.0, 0.0
    blocks = [slice(start, start + 500) for start in range(0, count, 500)]
    for block in blocks:
        alike, rounded = truth[block] @ truth.T, ours[block] @ ours.T
        moved, both = np.abs(alike - rounded), angles[block, None] + angles[None, :]
        limit = both * np.sqrt(np.maximum(0, 1 - alike**2)) + both**2 / 2 + 1e-7
        assert (moved <= limit).all(), "rounding moves a cosine by more than the bound"
        most, total = max(most, float(moved.max())), total + float(moved.sum())
        alike[np.arange(len(alike)), np.arange(block.start, block.start + len(alike))] = -1
        nearest[block] = alike.max(axis=1)
    similarity = round(float(np.sort(nearest)[-max(1, count // 20)]), 3)
    found, lost = [], 0
    for block in blocks:
        alike, rounded = truth[block] @ truth.T, ours[block] @ ours.T
        later = np.arange(block.start, block.start + len(alike))[:, None] < np.arange(count)
        found.append(np.add(np.argwhere((rounded >= similarity) & later), (block.start, 0)))
        lost += int((((rounded >= similarity) ^ (alike >= similarity)) & later).sum())
    return similarity, np.concatenate(found), (most, total / count**2), lost, float(np.degrees(np.median(angles)))


def cosines(vectors: np.ndarray) -> np.ndarray:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def nearest_neighbours(vectors: np.ndarray) -> np.ndarray:
    """Return the greatest cosine of each vector to another one."""
    unit = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    found = np.zeros(len(unit), np.float32)
    for start in range(0, len(unit), 500):
        alike = unit[start : start + 500] @ unit.T
        alike[np.arange(len(alike)), np.arange(start, start + len(alike))] = -1
        found[start : start + 500] = alike.max(axis=1)
    return found


def pair_table(
    vectors: Callable[[list[str]], np.ndarray], mean: np.ndarray, passages: Mapping[bool, np.ndarray]
) -> list[str]:
    """Return the table of our own pairs: found at bounds, as they are and without the mean; and of passages with a neighbour."""

    def alike(one: str, other: str, subtracted: bool) -> float:
        both = vectors([one, other]).astype(np.float64)
        both /= np.linalg.norm(both, axis=1, keepdims=True)
        return float(cosines(both - mean if subtracted else both)[0, 1])

    lines = [
        "| compared | bound | same meaning found, of 14 | strangers taken, of 14 | passages with a neighbour on or above it |",
        "| --- | --- | --- | --- | --- |",
    ]
    for subtracted, bounds in ((False, (0.9, 0.95, 0.98, 0.99, 0.995)), (True, (0.6, 0.7, 0.8, 0.9, 0.95, 0.98))):
        same = [alike(one, other, subtracted) for one, other in SAME]
        strangers = [alike(one, other, subtracted) for one, other in OTHER]
        how = "without the mean" if subtracted else "as they are"
        lines += [
            f"| {how} | {bound:g} | {sum(x >= bound for x in same)} | {sum(x >= bound for x in strangers)} |"
            f" {(passages[subtracted] >= bound).mean():.1%} |"
            for bound in bounds
        ]
    told = ", ".join(f"{name} {alike(one, other, True):.2f}" for name, one, other in TRAPS)
    return [*lines, "", f"Pairs that differ in what matters, without the mean: {told}."]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=int)
    options = parser.parse_args()
    if options.scale:
        scale(options.scale)
        return
    with tempfile.TemporaryDirectory() as folder:
        report(options, Path(folder))


def scale(documents: int) -> None:
    """Take made vectors through the tasks of a run; print CPU time by task, peak memory and bytes on disk."""
    import resource

    from curate.cache import Cache
    from curate.phases import semantic
    from curate.plan import TaskContext

    each, width = 50_000, 64
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder))
        cache.prepare()
        context = TaskContext(cache, 64 << 20, frozenset())
        middles = np.random.default_rng(0).normal(size=(documents // 20, width)).astype(np.float32)
        parts = []
        for number, start in enumerate(range(0, documents, each)):
            chance = np.random.default_rng(number + 1)
            docs = np.arange(start, min(start + each, documents))
            made = middles[chance.integers(0, len(middles), len(docs))]
            vectors = stored(made + chance.normal(size=made.shape).astype(np.float32) * 0.3)
            with context.writing(f"part-{number}") as output:
                for name, values in (
                    ("docs.i64", docs),
                    ("hashes.u64", chance.integers(0, 2**64, len(docs), np.uint64)),
                    ("ids.u64", np.stack([docs, docs], 1).astype(np.uint64)),
                    ("priorities.u64", chance.integers(0, 1000, len(docs)).astype(np.uint64)),
                    ("vectors.i16", vectors),
                    ("sum.i64", sum_of_units(vectors)),
                ):
                    values.tofile(output.path(name))
                output.counts |= {"looked_at": len(docs), "without": 0, "dimensions": width, "width": 1}
            parts.append(f"part-{number}")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        spent = {}

        def timed(name: str, function: Callable[..., None], *arguments: Any) -> None:
            start = time.process_time()
            function(context, *arguments)
            spent[name] = spent.get(name, 0.0) + time.process_time() - start

        timed("centroids", semantic.centroids, "fit", None, parts, True, "")
        facts = context.entry("fit").counts
        assigned = [f"assigned-{number}" for number in range(len(parts))]
        for part, key in zip(parts, assigned, strict=True):
            timed("assign", semantic.assign, key, part, "fit")
        timed("shares", semantic.shares, "shares", assigned, facts["clusters"])
        judged = []
        for first, last in context.entry("shares").counts["groups"]:
            judged.append(f"judged-{first}")
            timed("judge", semantic.judge, judged[-1], 0.9, parts, assigned, (first, last), width)
        timed("gone", semantic.gone, "gone", judged)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / documents
        removed = context.entry("gone").counts["removed"]
    told = ", ".join(f"{name} {one:.1f}" for name, one in spent.items())
    print(
        f"{documents:,} made vectors of {width} numbers, {facts['clusters']} groups, {len(judged)} tasks of groups, 64 MiB of"
        f" buffers: {removed:,} go; CPU seconds: {told}. Peak of the process {peak:,.0f} MB ({before:,.0f} MB before, pages of"
        f" mapped files included); {size:.0f} bytes a document in the cache."
    )


def report(options: argparse.Namespace, folder: Path) -> None:
    texts = passages(options.documents)
    count = len(texts)
    library = trained(texts, folder)
    path = str(folder / "vectors.bin")
    model = load_model(path, "bench", only_classifier=False)
    column = pa.array(texts, pa.large_string())
    embed(model, column.slice(0, 10))  # compiles
    spent: dict[str, float] = {}
    spent["embed"], floats = seconds(lambda: embed(model, column), options.rounds)
    theirs, reference = seconds(lambda: np.array([library.get_sentence_vector(text) for text in texts]), 1)
    assert np.abs(floats - reference).max() <= 1e-7 * np.abs(reference).max(), "other embeddings than the library's"
    raw = stored(floats)
    mean = sum_of_units(raw) / (UNIT * count)
    spent["round and subtract the mean"], vectors = seconds(lambda: compared(stored(floats), mean), options.rounds)
    exact = floats.astype(np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    exact -= mean
    similarity, pairs, error, lost, angle = all_pairs(vectors, exact)

    order = np.argsort([choice_hash(0, str(row), "semantic") for row in range(count)], kind="stable")
    all_rows = [np.arange(count)]
    everything = whole_numbers(vectors, similarity)
    lines = []
    for clusters in dict.fromkeys((1, default_clusters(count), 20, int(count**0.5))):
        sampled = min(count, clusters * 64)
        sample = vectors[order[:sampled]]
        assert sampled == count or sample_threshold(count, clusters) < 2**64
        fit, centroids = seconds(functools.partial(fit_centroids, sample, clusters, MEMORY), options.rounds)
        assign, nearest_of = seconds(functools.partial(nearest_centroids, vectors, centroids, MEMORY), options.rounds)
        groups = [np.flatnonzero(nearest_of == group) for group in range(len(centroids))] if clusters > 1 else all_rows
        gone(vectors, groups[:1], similarity, folder)
        judge, found = seconds(functools.partial(gone, vectors, groups, similarity, folder), options.rounds)
        if clusters == 1:
            assert found == everything, "who goes differs from brute force"
        inside = float((nearest_of[pairs[:, 0]] == nearest_of[pairs[:, 1]]).mean()) if len(pairs) else 1.0
        times = " | ".join(f"{1000 * one / count * 1000:.1f}" for one in (fit, assign, judge))
        lines.append(f"| {clusters} | {inside:.1%} | {len(found):,} | {times} |")

    peers = []
    if options.peer:
        unit = (exact / np.linalg.norm(exact, axis=1, keepdims=True)).astype(np.float32)
        np.save(folder / "unit.npy", unit)
        clusters = int(count**0.5)
        arguments = [options.peer, "-c", PEER, str(folder / "unit.npy"), str(similarity), str(clusters)]
        said = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
        learn, version, fitted, within, removed, hashed, gone_hashed = said
        version = f" {version}" if version else ""
        peers = [
            f"| scikit-learn {learn}: KMeans of {clusters} groups, 12 rounds | {1e6 * fitted / count:.1f} | |",
            f"| numpy: cosines in each of these groups | {1e6 * within / count:.1f} | {removed:,} |",
            f"| semhash{version}: index and search | {1e6 * hashed / count:.1f} | {gone_hashed:,} |",
        ]
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    print("# Semantic copies\n")
    print(
        f"`python benchmarks/bench_semantic.py`: {count:,} passages of {WORDS} words (sha256 {digest}), skip-gram vectors of 64"
        f" numbers; Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, one thread, CPU time,"
        f" median of {options.rounds}. Peak of this process {peak:,.0f} MB, most of it the brute force over all pairs.\n"
    )
    print("## Pairs found\n")
    print(
        f"Similarity {similarity}: {len(pairs):,} of {count * (count - 1) // 2:,} pairs; {len(everything):,} documents go by brute"
        " force in whole numbers, the same ones as with one group. By default there is one group for 10,000 documents.\n"
    )
    print(
        "| groups | pairs within a group | documents that go | fit | assign | judge |\n| --- | --- | --- | --- | --- | --- |"
    )
    print("\n".join(lines))
    print("\nTimes in milliseconds per 1,000 documents.\n")
    print("## Other steps and tools\n")
    print("| step | ms per 1,000 documents | documents that go |\n| --- | --- | --- |")
    for name, one in spent.items():
        print(f"| {name} | {1e6 * one / count:.1f} | |")
    print(f"| fastText 0.9.3: get_sentence_vector, the same vectors | {1e6 * theirs / count:.1f} | |")
    print("\n".join(peers))
    print("\n## Rounding\n")
    print(
        f"Over all pairs int8 moves the cosine by {error[1]:.5f} on average and {error[0]:.4f} at most, which is within the bound"
        f" (each vector turns by at most {angle:.2f} degrees); {lost:,} pairs lie on the other side of"
        f" {similarity} than in float64, of {len(pairs):,}.\n"
    )
    print("## What a mean of word vectors tells\n")
    print(
        f"14 pairs that we wrote of one meaning in other words, 14 of strangers; the mean of all passages has length"
        f" {np.linalg.norm(mean):.3f} where each vector has 1.\n"
    )
    passages_of = {False: nearest_neighbours(floats.astype(np.float64)), True: nearest_neighbours(exact)}
    print("\n".join(pair_table(lambda some: embed(model, pa.array(some, pa.large_string())), mean, passages_of)))


if __name__ == "__main__":
    if any(os.environ.get(name) != "1" for name in THREADS):  # read when numpy is loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | dict.fromkeys(THREADS, "1"))
    main()
