"""MinHash signatures beside other libraries': CPU time from text to bands on one core, and how well they estimate Jaccard.

    python benchmarks/bench_signatures.py --peers PYTHON --datatrove PYTHON [--rounds 5] > benchmarks/results/signatures.md

PEERS is an environment with gaoya, rensa and datasketch, DATATROVE one with datatrove and spaCy. All make 112 values of
word 5-grams. Documents: passages of the English books and the English gold texts of `$CURATE_DATA`, and of each one copy
in which up to a tenth of the words are others of the same text. Slow contestants take the first documents only; rates are
compared.

Each measurement is a process of its own; the contestants take turns. CPU time is user and system time of all threads, of
the middle one of three passes over the documents; it begins when libraries are loaded, machine code is compiled and a
first text has gone through. Each error is against the exact Jaccard similarity of the contestant's own shingles. Writes
Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
VALUES, BANDS, ROWS, NGRAM = 112, 14, 8, 5
PASSAGE = 3000  # characters
PASSES = 3  # of a process over its documents: the first one also pays for fresh memory
TARGETS = {"gaoya": 8, "rensa": 20, "datatrove": 300}

# Contestant, environment, documents taken, what is timed.
CONTESTANTS = {
    "curate": ("own", None, "folded words, shingles, signature, bands"),
    "curate, datasketch": ("own", 2000, "`variant: datasketch`: the same values as datasketch"),
    "curate, all columns": ("own", None, "the same and the exact hash: all that `dedup` stores"),
    "gaoya": ("peers", None, "MinHashStringIndex: its own tokenizer, insertion into the index included"),
    "rensa RMinHash": ("peers", 4000, "a document at a time; lower, split, join in Python"),
    "rensa CMinHash": ("peers", 4000, "the same"),
    "rensa bulk": ("peers", 4000, "digests_from_token_sets; lower, split, join in Python"),
    "datasketch": ("peers", 2000, "update_batch; lower, split, join in Python"),
    "datatrove": ("datatrove", 300, "MinhashDedupSignature: get_shingles, get_signature"),
}


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of the middle one of several passes over all documents, and what the last one gave."""
    seconds = []
    for _ in range(PASSES):
        before = cpu_seconds()
        found = work()
        seconds.append(cpu_seconds() - before)
    return statistics.median(seconds), found


# ---- the contestants, each in a process of its own: seconds, and of pairs (estimate, exact similarity)


def python_shingles(text: str) -> list[str]:
    words = text.lower().split()
    return [" ".join(words[i : i + NGRAM]) for i in range(max(1, len(words) - NGRAM + 1))]


def ours(name: str, texts: list[str]) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    from curate.dedup.minhash import Signatures, datasketch_signatures, shingle_sets, signatures
    from curate.dedup.signing import band_keys
    from curate.pipeline import BATCH_ROWS
    from curate.words import with_words

    settings = {"ngram": NGRAM, "num_permutations": VALUES, "seed": 1}

    def sign(batch: pa.RecordBatch) -> Any:
        if name == "curate, datasketch":
            values, _ = datasketch_signatures(batch["text"], **settings)
        else:
            batch = with_words(batch, ("word_hashes",))
            if name == "curate, all columns":
                return Signatures().apply(batch)
            values, _ = signatures(batch["word_hashes"], **settings)
        keys = np.empty((len(values), BANDS), np.uint64)
        band_keys(values, ROWS, keys)
        return values

    batches = pa.table({"text": pa.array(texts, pa.large_string())}).to_batches(BATCH_ROWS)
    sign(batches[0].slice(0, 2))
    seconds, found = timed(lambda: [sign(batch) for batch in batches])
    pairs = []
    if name != "curate, all columns":
        values = np.concatenate(found)
        sets = [
            set(one.tolist())
            for batch in batches
            for one in shingle_sets(with_words(batch, ("word_hashes",))["word_hashes"], NGRAM)
        ]
        pairs = compared(sets, lambda a, b: float(np.mean(values[a] == values[b])))
    return {"seconds": seconds, "pairs": pairs}


def peer(name: str, texts: list[str]) -> dict[str, Any]:
    sign = {"gaoya": gaoya, "datasketch": datasketch_each, "rensa bulk": rensa_bulk}.get(name, rensa_each)
    sign(name, texts[:2])
    seconds, found = timed(lambda: sign(name, texts))
    if found is None:  # the index does not give its signatures away
        return {"seconds": seconds, "pairs": []}
    sets = [set(python_shingles(text)) for text in texts]
    return {
        "seconds": seconds,
        "pairs": compared(sets, lambda a, b: sum(map(int.__eq__, found[a], found[b])) / VALUES),
    }


def gaoya(_: str, texts: list[str]) -> None:
    from gaoya.minhash import MinHashStringIndex

    index = MinHashStringIndex(
        hash_size=32,
        jaccard_threshold=0.7,
        num_bands=BANDS,
        band_size=ROWS,
        num_hashes=VALUES,
        analyzer="word",
        lowercase=True,
        ngram_range=(NGRAM, NGRAM),
    )
    for number, text in enumerate(texts):
        index.insert_document(number, text)


def datasketch_each(_: str, texts: list[str]) -> list[list[int]]:
    import datasketch

    found = []
    for text in texts:
        sketch = datasketch.MinHash(num_perm=VALUES, seed=1)
        sketch.update_batch([shingle.encode() for shingle in set(python_shingles(text))])
        found.append([int(value) for value in sketch.hashvalues])
    return found


def rensa_each(name: str, texts: list[str]) -> list[list[int]]:
    import rensa

    kind = rensa.RMinHash if name == "rensa RMinHash" else rensa.CMinHash
    found = []
    for text in texts:
        sketch = kind(num_perm=VALUES, seed=42)
        sketch.update(python_shingles(text))
        found.append(sketch.digest())
    return found


def rensa_bulk(_: str, texts: list[str]) -> list[list[int]]:
    import rensa

    found: list[list[int]] = rensa.RMinHash.digests_from_token_sets(
        [python_shingles(text) for text in texts], num_perm=VALUES, seed=42
    )
    return found


def datatrove(_: str, texts: list[str]) -> dict[str, Any]:
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig

    with tempfile.TemporaryDirectory() as folder:
        stage = MinhashDedupSignature(
            folder, config=MinhashConfig(n_grams=NGRAM, num_buckets=BANDS, hashes_per_bucket=ROWS)
        )
        stage.get_signature(stage.get_shingles(texts[0]))
        shingles = [stage.get_shingles(text) for text in texts]
        seconds, found = timed(lambda: [stage.get_signature(stage.get_shingles(text)) for text in texts])
    flat = [[int(value) for band in one for value in band] for one in found]
    sets = [set(one.reshape(-1).tolist()) for one in shingles]
    return {"seconds": seconds, "pairs": compared(sets, lambda a, b: sum(map(int.__eq__, flat[a], flat[b])) / VALUES)}


def compared(sets: list[set[Any]], estimate: Callable[[int, int], float]) -> list[tuple[float, float]]:
    """Return (estimate, exact similarity) of each text and its copy."""
    return [
        (estimate(a, a + 1), len(sets[a] & sets[a + 1]) / len(sets[a] | sets[a + 1]))
        for a in range(0, len(sets) - 1, 2)
        if sets[a] | sets[a + 1]
    ]


# ---- documents


def documents() -> list[str]:
    """Return passages and their copies in turn, in an order that the text decides."""
    passages = {hashlib.sha256(text.encode()).hexdigest(): text for text in english()}
    found = []
    for key in sorted(passages):
        draw = random.Random(key)
        words = passages[key].split(" ")
        rate = draw.choice((0.0, 0.005, 0.01, 0.02, 0.05, 0.1))
        copy = [draw.choice(words) if draw.random() < rate else word for word in words]
        found += [passages[key], " ".join(copy)]
    return found


def english() -> Iterator[str]:
    whole = []
    with gzip.open(DATA / "04_books" / "books.jsonl.gz", "rt", encoding="utf-8") as lines:
        whole += [json.loads(line)["text"] for line in lines]
    for path in sorted((DATA / "02_gold").glob("*/gold.jsonl")):
        with path.open(encoding="utf-8") as lines:
            whole += [json.loads(line)["text"] or "" for line in lines]
    for text in whole:
        if len(text) < 500 or len(text.encode()) > 1.02 * len(text) or text.count(" the ") < len(text) / 500:
            continue
        passage = ""
        for line in text.splitlines(keepends=True):
            passage += line
            if len(passage) > PASSAGE:
                yield passage
                passage = ""
        if len(passage) > 200:
            yield passage


# ---- the table


def run(python: str, name: str, path: str) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [python, __file__, "--one", name, "--texts", path, "--out", out.name]
        subprocess.run(command, env=os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)}, check=True, stdout=sys.stderr)
        return json.loads(Path(out.name).read_bytes())  # type: ignore[no-any-return]


def one(name: str, path: str, out: str) -> None:
    texts = json.loads(Path(path).read_text(encoding="utf-8"))[: CONTESTANTS[name][1]]
    measure = {"own": ours, "peers": peer, "datatrove": datatrove}[CONTESTANTS[name][0]]
    found = measure(name, texts)
    found["megabytes"] = sum(len(text.encode()) for text in texts) / 1e6
    found["documents"] = len(texts)
    libraries = {"gaoya": "gaoya", "rensa bulk": "rensa", "datasketch": "datasketch", "datatrove": "datatrove"}
    libraries["curate"] = "numba"
    found["version"] = f"{libraries[name]} {importlib.metadata.version(libraries[name])}" if name in libraries else ""
    Path(out).write_text(json.dumps(found))


def write(texts: list[str], rounds: list[dict[str, Any]]) -> None:
    rates = {name: [each[name]["megabytes"] / each[name]["seconds"] for each in rounds] for name in CONTESTANTS}
    digest = hashlib.sha256("".join(texts).encode()).hexdigest()[:16]
    print("# Signatures\n")
    print(
        "`python benchmarks/bench_signatures.py --peers PYTHON --datatrove PYTHON`: from text to MinHash signatures of"
    )
    print(f"{VALUES} values over word {NGRAM}-grams. One core, CPU seconds (user and system, all threads), medians of")
    print(f"{len(rounds)} processes each that take turns.\n")
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    print(f"{len(texts)} English documents, {megabytes:.1f} MB, half of them edited copies; sha256 `{digest}`.\n")
    print("| | documents | MB/s | us/document | curate is faster by | mean error | what is timed |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, (_, _, what) in CONTESTANTS.items():
        first = rounds[0][name]
        rate = statistics.median(rates[name])
        ratios = [ours / its for ours, its in zip(rates["curate"], rates[name], strict=True)]
        ratio = "" if name == "curate" else f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
        error = f"{statistics.mean(abs(a - b) for a, b in first['pairs']):.4f}" if first["pairs"] else ""
        each = first["megabytes"] / rate / first["documents"] * 1e6
        print(f"| {name} | {first['documents']} | {rate:.3g} | {each:.3g} | {ratio} | {error} | {what} |")
    print(
        "\nMean error: mean absolute difference of the share of equal values from the exact Jaccard similarity, of each document and"
    )
    exact = [exact for _, exact in rounds[0]["curate"]["pairs"]]
    theory = statistics.mean((2 * s * (1 - s) / VALUES / 3.141592653589793) ** 0.5 for s in exact)
    print(
        f"its copy; by theory {theory:.4f} for independent functions at our pairs' similarities (normal approximation).\n"
    )
    for library, target in TARGETS.items():
        best = min(
            statistics.median([ours / its for ours, its in zip(rates["curate"], rates[name], strict=True)])
            for name in CONTESTANTS
            if name.startswith(library)
        )
        print(
            f"- {library}: {best:.1f} times, where at least {target} were wished: {'met' if best >= target else '**missed**'}."
        )
    versions = ", ".join(each["version"] for each in rounds[0].values() if each["version"])
    print(f"\nVersions: Python {platform.python_version()}, {versions}.")
    load = os.getloadavg()[1]
    print(f"Machine: {cpu_model()}, {os.cpu_count()} cores, {platform.system()}; load at the end {load:.1f}.")


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers")
    parser.add_argument("--datatrove")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", choices=CONTESTANTS)
    parser.add_argument("--texts")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    if arguments.one:
        one(arguments.one, arguments.texts, arguments.out)
        return
    pythons = {"own": sys.executable, "peers": arguments.peers, "datatrove": arguments.datatrove}
    texts = documents()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(texts), encoding="utf-8")
        rounds = [
            {name: run(pythons[place], name, str(path)) for name, (place, _, _) in CONTESTANTS.items()}
            for _ in range(arguments.rounds)
        ]
    write(texts, rounds)


if __name__ == "__main__":
    main()
