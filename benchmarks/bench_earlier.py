"""A corpus against a much larger earlier one by its stored signatures: CPU time, memory, bytes a document, what is found.

    python benchmarks/bench_earlier.py [--earlier 2000000] [--ours 200000] [--memory 64] > benchmarks/results/earlier.md

Signatures are simulated: values of an earlier document are random, those of a planted copy agree with the probability of the
wished similarity, so that all that follows (bands, low bytes, estimates) is the product's own. Files are those of a run
(`stored_schema`), steps those of its tasks, one after the other in a process under RLIMIT_DATA.

Fails if a planted pair that shares a band is not found, if the share of pairs that do disagrees with 1 - (1 - s^r)^b by more
than four standard errors, if an unplanted document is found, or if an estimate is off by more than six standard errors.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # Arrow's own allocator keeps what is freed

import numpy as np
import pyarrow as pa

from curate.dedup.earlier import (
    PARTITIONS,
    RowsOf,
    SortedKeys,
    best_matches,
    estimate,
    standard_error,
    write_keys,
    write_pairs,
)
from curate.dedup.minhash import collision_probability
from curate.dedup.signing import band_keys, split_mix
from curate.dedup.stored import stored_schema
from curate.phases.earlier import pairs_of
from curate.pipeline import ParquetFile

BANDS, ROWS = 14, 8
WIDTH = BANDS * ROWS
SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
BATCH = 50_000
LIMIT = 1 << 30  # RLIMIT_DATA


def values_of(batch: int, seed: int) -> np.ndarray:
    """Return the signatures of one batch of earlier documents, made anew whenever they are asked for."""
    return np.random.default_rng([seed, batch]).integers(0, 1 << 32, (BATCH, WIDTH), np.uint32)


def rows_of(values: np.ndarray, first: int, side: int) -> pa.RecordBatch:
    """Return stored signatures: ids, hashes and addresses by number."""
    count = len(values)
    keys = np.empty((count, BANDS), np.uint64)
    band_keys(values, ROWS, keys)
    offsets = np.arange(count + 1, dtype=np.int32)
    hashes = np.array(split_mix(first * 4 + side, 2 * count), np.uint64).reshape(-1, 2)
    names = [f"{a:016x}{b:016x}" for a, b in hashes.tolist()]
    low = np.ascontiguousarray(values.astype(np.uint8))
    columns = {
        "id": names,
        "source": ["web"] * count,
        "url": [
            f"https://www.site-{number % 9973}.org/texts/{number}/a-title.html"
            for number in range(first, first + count)
        ],
        "exact_hash": names,
        "bands": pa.ListArray.from_arrays(pa.array(offsets * BANDS), pa.array(keys.reshape(-1))),
        "signature": pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets * WIDTH), pa.py_buffer(low)]
        ),
    }
    return pa.RecordBatch.from_pydict(columns, schema=stored_schema())


def write_corpora(folder: Path, earlier: int, ours: int) -> np.ndarray:
    """Write both; return of each of ours the earlier document that it copies (-1: none), and the similarity, shape (2, ours)."""
    with ParquetFile(folder / "earlier.parquet", stored_schema()) as file:
        for batch in range(earlier // BATCH):
            file.write(rows_of(values_of(batch, 1), batch * BATCH, 0))
    draw = np.random.default_rng(2)
    planted = np.full((2, ours), -1.0)
    with ParquetFile(folder / "ours.parquet", stored_schema()) as file:
        for batch in range(ours // BATCH):
            fresh = values_of(batch, 3)
            of = int(draw.integers(0, earlier // BATCH))
            rows = draw.permutation(BATCH)
            similarity = draw.choice(SIMILARITIES, BATCH)
            copies = draw.random(BATCH) < 0.5
            agree = (draw.random(fresh.shape) < similarity[:, None]) & copies[:, None]
            file.write(rows_of(np.where(agree, values_of(of, 1)[rows], fresh), batch * BATCH, 1))
            part = slice(batch * BATCH, (batch + 1) * BATCH)
            planted[0, part] = np.where(copies, of * BATCH + rows, -1)
            planted[1, part] = np.where(copies, similarity, -1)
    return planted


class Watch:
    """CPU seconds of steps, and the peak of private memory while they run."""

    def __init__(self) -> None:
        self.peak = 0
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while True:
            self.peak = max(self.peak, private())
            time.sleep(0.05)


def private() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


def size_of(*paths: Path) -> int:
    return sum(path.stat().st_size for path in paths)


def measure(folder: Path, earlier: int, ours: int, memory: int) -> list[tuple[str, float, int, int]]:
    """Take the steps; return name, CPU seconds, peak of the private memory, bytes written. Leaves best.npy."""
    watch, steps = Watch(), []
    where = {"memory_bytes": memory, "scratch": str(folder)}

    def places(name: str) -> list[Path]:
        made = [folder / f"{name}-{number:02d}" for number in range(PARTITIONS)]
        for path in made:
            path.mkdir()
        return made

    def step(name: str, started: float, written: int) -> None:
        time.sleep(0.1)
        steps.append((name, time.process_time() - started, watch.peak, written))

    indexed, own, joined = places("indexed"), places("own"), folder / "pairs"
    joined.mkdir()
    watch.peak = private()
    started = time.process_time()
    for number, place in enumerate(indexed):
        write_keys([folder / "earlier.parquet"], number, earlier, place, **where)
    files = [path for place in indexed for path in place.iterdir()]
    step("index of the earlier corpus, once", started, size_of(*files))
    watch.peak = private()
    started = time.process_time()
    for number, place in enumerate(own):
        write_keys([folder / "ours.parquet"], number, ours, place, **where)
        both = [SortedKeys.open(indexed[number], earlier)]
        write_pairs(SortedKeys.open(place, ours), both, [0], joined / f"{number:02d}", **where)
        for path in place.iterdir():
            path.unlink()
    step("keys of the other, joined", started, size_of(*joined.iterdir()))
    watch.peak = private()
    started = time.process_time()
    best, scores = np.zeros(ours, np.uint64), np.zeros(ours, np.int64)
    sides = [RowsOf([folder / f"{name}.parquet"], [0, size]) for name, size in (("ours", ours), ("earlier", earlier))]
    best_matches(pairs_of(sorted(joined.iterdir()), 0, ours, memory, folder), sides[0], sides[1], WIDTH, best, scores)
    step("signatures compared", started, 0)
    np.save(folder / "best.npy", np.stack([best.astype(np.int64), scores]))
    return steps


def measured(folder: Path, earlier: int, ours: int, memory: int) -> list[tuple[str, float, int, int]]:
    """Take the steps under the limit, after smaller ones by which kernels are loaded."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    measure(folder / "small", BATCH, BATCH, memory)
    return measure(folder, earlier, ours, memory)


def judge(planted: np.ndarray, found: np.ndarray) -> list[str]:
    """Hold what was found against what was planted; return the rows of a table."""
    best, scores = found
    copies = planted[0] >= 0
    assert not scores[~copies].any(), "a document was found that has no copy"
    right = (scores > 0) & (best == planted[0])
    assert (right | (scores == 0)).all(), "another document than the planted one was found"
    values = estimate(np.maximum(scores - 1, 0), WIDTH)
    lines = []
    for similarity in SIMILARITIES:
        mine = planted[1] == similarity
        count, shared = int(mine.sum()), int((mine & right).sum())
        expected = collision_probability(similarity, num_bands=BANDS, rows_per_band=ROWS)
        error = math.sqrt(max(expected * (1 - expected), 1e-12) / count)
        assert abs(shared / count - expected) < 4 * error + 1e-9, (similarity, shared / count, expected)
        spread = values[mine & right]
        if similarity >= 0.8:  # below, those that share a band are not drawn evenly: their estimates are higher
            assert abs(spread - similarity).max() < 6 * standard_error(similarity, WIDTH) + 1e-6
        lines.append(
            f"| {similarity:g} | {count:,} | {shared / count:.4f} | {expected:.4f} | {spread.mean():.3f} | "
            f"{spread.std():.3f} | {standard_error(similarity, WIDTH):.3f} | {(mine & right & (values >= 0.8)).sum() / count:.4f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="A corpus against an earlier one, simulated.")
    parser.add_argument("--earlier", type=int, default=2_000_000)
    parser.add_argument("--ours", type=int, default=200_000)
    parser.add_argument("--memory", type=int, default=64, help="MiB of the buffers")
    parser.add_argument("--folder", type=Path, help="of a process that takes the steps: the corpora are there")
    chosen = parser.parse_args()
    if chosen.folder is not None:
        print(json.dumps(measured(chosen.folder, chosen.earlier, chosen.ours, chosen.memory << 20)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-earlier-") as name:
        folder = Path(name)
        planted = write_corpora(folder, chosen.earlier, chosen.ours)
        (folder / "small").mkdir()
        write_corpora(folder / "small", BATCH, BATCH)
        command = [sys.executable, __file__, "--folder", folder]
        for option in ("earlier", "ours", "memory"):
            command += [f"--{option}", str(getattr(chosen, option))]
        steps = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        rows = judge(planted, np.load(folder / "best.npy"))
        stored = size_of(folder / "earlier.parquet") / chosen.earlier
    versions = ", ".join(f"{one} {importlib.metadata.version(one)}" for one in ("numpy", "numba", "pyarrow"))
    print("# A corpus against an earlier one, by stored signatures\n")
    print(
        f"{chosen.ours:,} documents against {chosen.earlier:,} earlier ones, {BANDS} bands of {ROWS} rows, simulated signatures "
        f"(`bench_earlier.py`: fixed seeds); buffers of {chosen.memory} MiB, RLIMIT_DATA {LIMIT >> 20} MiB. {os.cpu_count()} cores "
        f"shared with other work, {platform.machine()}, Python {platform.python_version()}, {versions}; one thread.\n"
    )
    print(f"A stored signature takes {stored:.0f} bytes, with id and address.\n")
    print("| step | CPU seconds | a million documents | private memory of the process | bytes a document |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for (step, seconds, grown, written), size in zip(steps, (chosen.earlier, chosen.ours, chosen.ours), strict=True):
        each = f"{written / size:.0f}" if written else ""
        print(f"| {step} | {seconds:.1f} | {seconds / size * 1e6:.1f} s | {grown / (1 << 20):.0f} MiB | {each} |")
    seconds, written = (steps[0][place] / chosen.earlier * 1e8 for place in (1, 3))
    print(
        f"\nBy these figures a hundred million earlier documents take {stored / 10:.1f} GB as stored, {written / 1e9:.0f} GB of index and "
        f"{seconds / 60:.0f} CPU minutes for it, once, in {PARTITIONS} tasks; not run at that size."
    )
    print(
        "\nPlanted copies: of each similarity the share that shares a band, beside 1 - (1 - s^8)^14; mean and deviation of the\n"
        "estimate among these, beside its standard error; the share that reaches the bound of .8.\n"
    )
    print("| similarity | pairs | share a band | formula | estimate | deviation | formula | at .8 or above |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
