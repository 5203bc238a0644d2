"""From signatures to clusters: beside datatrove and polars on a million documents; and many simulated ones in a bounded process.

    python benchmarks/bench_dedup.py table FOLDER --peer PYTHON     a million documents: ours, polars, datatrove
    python benchmarks/bench_dedup.py simulate FOLDER DOCUMENTS      signatures made as they are read, under RLIMIT_DATA
    python benchmarks/bench_dedup.py write FOLDER > benchmarks/results/dedup.md

FOLDER is for scratch files (`simulate` needs 150 bytes a document) and keeps what was measured as JSON; each step can be
made again alone. PYTHON is that of an environment with datatrove, which gets its signatures sorted, as its own first
stage leaves them.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"):
    os.environ[variable] = "1"
if "simulate" in sys.argv:
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # Arrow's own allocator keeps what is freed

import numpy as np  # noqa: E402 (the variables above come first)
import numpy.typing as npt  # noqa: E402

BANDS, ROWS = 14, 8
DOCUMENTS, SHARDS = 1_000_000, 16  # of `table`
MEMORY = 256 << 20  # of the buffers
LIMIT = 2 << 30  # RLIMIT_DATA of `simulate`
EXPONENT, LARGEST = 2.2, 100_000  # of the law of cluster sizes
SEED = 20_261_130


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Watch:
    """Peaks of the private memory and of the data segment, sampled, while a step runs; what the step took."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.excluded = 0.0  # CPU seconds of the generator in the step at hand
        self._peak = {"RssAnon": 0, "VmData": 0}
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                name = line.partition(":")[0]
                if name in self._peak:
                    self._peak[name] = max(self._peak[name], int(line.split()[1]) << 10)
            time.sleep(0.1)

    def step(self, name: str, work: Callable[[], Any], folder: Path) -> Any:
        time.sleep(0.25)
        self._peak = dict.fromkeys(self._peak, 0)
        self.excluded = 0.0
        started, wall = cpu(), time.monotonic()
        answer = work()
        taken = {"step": name, "cpu": cpu() - started - self.excluded, "wall": time.monotonic() - wall}
        time.sleep(0.25)
        self.steps.append(taken | {"made": self.excluded, **self._peak, "disk": size_of(folder)})
        print(json.dumps(self.steps[-1]), file=sys.stderr, flush=True)
        return answer


def size_of(folder: Path) -> int:
    """Return the bytes that the files of a folder take on disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


# ---- all steps of ours


class Signatures:
    """Where keys come from: signature files of a run."""

    def __init__(self, paths: Sequence[Path]) -> None:
        import pyarrow.parquet as pq

        self.sizes = [pq.read_metadata(path).num_rows for path in paths]
        self.paths = [str(path) for path in paths]

    def hashes(self, layout: Any, group: int, folder: Path, scratch: Path) -> None:
        from curate.dedup.components import write_hashes

        paths = [self.paths[shard] for shard in layout.groups[group]]
        write_hashes(paths, folder, by=("text",), bits=layout.bits, memory_bytes=MEMORY, scratch=str(scratch))

    def bands(self, layout: Any, group: int, copies: Any, folder: Path, scratch: Path) -> None:
        from curate.dedup.components import write_bands

        paths = [self.paths[shard] for shard in layout.groups[group]]
        where = {"memory_bytes": MEMORY, "scratch": str(scratch)}
        write_bands(paths, folder, group=group, layout=layout, copies=copies, num_bands=BANDS, **where)


def find(source: Any, folder: Path, watch: Watch) -> Path:
    """Take the steps of `curate.dedup.components`, what is consumed removed; return components.parquet."""
    from curate.dedup.components import COPIES, NEAR, SAME, Layout, join_bands, join_hashes, write_components

    layout = Layout.of(source.sizes)
    groups = range(len(layout.groups))

    def places(name: str, numbers: range) -> list[Path]:
        made = [folder / f"{name}-{number}" for number in numbers]
        for path in made:
            path.mkdir()
        return made

    def each(function: Callable[[int, Path], Any], numbers: range) -> Callable[[], list[Any]]:
        def work() -> list[Any]:
            found = []
            for number in numbers:
                scratch = folder / "scratch"
                scratch.mkdir()
                found.append(function(number, scratch))
                shutil.rmtree(scratch)
            return found

        return work

    hashed, same = places("hashes", groups), places("same", layout.partitions)
    watch.step("hashes", each(lambda one, at: source.hashes(layout, one, hashed[one], at), groups), folder)
    where = {"layout": layout, "memory_bytes": MEMORY}
    found = watch.step(
        "same",
        each(
            lambda one, at: join_hashes(hashed, same[one], partition=one, by=("text",), scratch=str(at), **where),
            layout.partitions,
        ),
        folder,
    )
    for path in hashed:
        shutil.rmtree(path)
    copies = [(path / COPIES, written[COPIES].starts) for path, written in zip(same, found, strict=True)]
    banded, near = places("bands", groups), places("near", layout.partitions)
    watch.step("bands", each(lambda one, at: source.bands(layout, one, copies, banded[one], at), groups), folder)
    watch.step(
        "near",
        each(
            lambda one, at: join_bands(banded, near[one], partition=one, num_bands=BANDS, scratch=str(at), **where),
            layout.partitions,
        ),
        folder,
    )
    for path in banded:
        shutil.rmtree(path)
    others = [path / SAME for path in same] + [path / NEAR for path in near]
    output = folder / "components.parquet"
    watch.step(
        "components",
        each(
            lambda _, at: write_components(copies, others, source.paths, str(output), layout=layout, scratch=str(at)),
            range(1),
        ),
        folder,
    )
    return output


# ---- table: a million documents, as in the notes' table I


def signatures_of() -> npt.NDArray[np.uint32]:
    """Return random signatures; the last 30% copy another's values, each with probability 0.85."""
    generator = np.random.default_rng(0)
    values = generator.integers(0, 1 << 32, (DOCUMENTS, BANDS * ROWS), dtype=np.uint64).astype(np.uint32)
    copies = int(DOCUMENTS * 0.3)
    originals = DOCUMENTS - copies
    of = generator.integers(0, originals, copies)
    same = generator.random((copies, BANDS * ROWS), dtype=np.float32) < 0.85
    values[originals:] = np.where(same, values[of], values[originals:])
    return values


def band_table() -> npt.NDArray[np.uint64]:
    from curate.dedup import signing

    keys = np.empty((DOCUMENTS, BANDS), np.uint64)
    signing.band_keys(signatures_of(), ROWS, keys)
    return keys


def write_signature_files(folder: Path) -> list[Path]:
    """Write the signature files that a run's measure phase would, each text another."""
    import pyarrow as pa

    from curate.dedup.minhash import signature_schema
    from curate.pipeline import ParquetFile

    folder.mkdir()
    keys = band_table()
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), *signature_schema()])
    size = DOCUMENTS // SHARDS
    for shard in range(SHARDS):
        with ParquetFile(folder / f"{shard:02d}.parquet", schema) as file:
            for start in range(shard * size, (shard + 1) * size, 2500):
                docs = range(start, start + 2500)
                hashes = [hashlib.blake2b(str(doc).encode(), digest_size=16).hexdigest() for doc in docs]
                ends = pa.array(np.arange(len(docs) + 1, dtype=np.int32) * BANDS)
                columns = {
                    "id": pa.array([f"{doc:032x}" for doc in docs]),
                    "exact_hash": pa.array(hashes),
                    "bands": pa.ListArray.from_arrays(ends, pa.array(keys[start : start + len(docs)].reshape(-1))),
                    "num_shingles": pa.array(np.full(len(docs), 500)),
                    "num_bytes": pa.array(np.full(len(docs), 3000)),
                }
                arrays = [columns.get(one.name, pa.nulls(len(docs), one.type)) for one in schema]
                file.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return sorted(folder.iterdir())


def ours(folder: Path) -> None:
    import pyarrow.parquet as pq

    paths = sorted((folder / "signatures").iterdir())
    small, real = folder / "small", folder / "real"
    for place in (small, real):
        place.mkdir()
    find(Signatures(paths[:1]), small, Watch())  # compiles, or reads what was compiled
    watch = Watch()
    before = int(
        next(line for line in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in line).split()[1]
    )
    table = pq.read_table(find(Signatures(paths), real, watch))
    removed = table.num_rows - len(np.unique(table["component"].to_numpy()))
    print(json.dumps({"removed": removed, "steps": watch.steps, "before": before << 10}))


def polars_peer() -> None:
    """Buckets by `len().over()`, as in the notes; then the same union-find as ours."""
    import polars as pl

    from curate.dedup import band_kernels

    keys = band_table()
    parents = np.arange(DOCUMENTS, dtype=np.uint32)
    band_kernels.union(parents, np.zeros(1, np.int64), np.zeros(1, np.int64))
    start = cpu()
    for band in range(BANDS):
        frame = pl.DataFrame({"key": keys[:, band], "doc": np.arange(DOCUMENTS)}).lazy()
        frame = frame.filter(pl.len().over("key") > 1).with_columns(first=pl.col("doc").min().over("key"))
        found = frame.select("doc", "first").collect()
        band_kernels.union(parents, found["doc"].to_numpy().copy(), found["first"].to_numpy().copy())
    band_kernels.flatten(parents, np.zeros(DOCUMENTS, np.uint8))
    print(json.dumps({"removed": DOCUMENTS - len(np.unique(parents)), "cpu": cpu() - start}))


def datatrove_files(folder: Path) -> None:
    """Write signatures as datatrove's first stage does: by bucket, sorted, 64-bit values and the document's number."""
    values = signatures_of()
    kind = np.dtype([*((f"f{row}", "<u8") for row in range(ROWS)), ("doc", "<u4")])
    for band in range(BANDS):
        place = folder / "datatrove" / "signatures" / f"bucket_{band:03d}"
        place.mkdir(parents=True)
        records = np.zeros(DOCUMENTS, kind)
        for row in range(ROWS):
            records[f"f{row}"] = values[:, band * ROWS + row]
        records["doc"] = np.arange(DOCUMENTS)
        order = np.lexsort([records[name] for name in reversed(kind.names or ())])
        records[order].tofile(place / "00000.minhash.sig")


def datatrove_peer(folder: Path) -> None:
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster
    from datatrove.pipeline.dedup.minhash import MinhashConfig

    config = MinhashConfig(num_buckets=BANDS, hashes_per_bucket=ROWS)
    start = cpu()
    buckets = MinhashDedupBuckets(str(folder / "signatures"), str(folder / "buckets"), config=config)
    for band in range(BANDS):
        buckets.run(None, band, BANDS)
    between = cpu()
    MinhashDedupCluster(str(folder / "buckets"), str(folder / "removed"), config=config).run(None, 0, 1)
    found = {"buckets": between - start, "cluster": cpu() - between}
    removed = (folder / "removed" / "000000.remove").stat().st_size // 4
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    disk = {name: size_of(folder / name) for name in ("signatures", "buckets")}
    print(json.dumps(found | {"removed": removed, "rss": peak, "disk": disk}))


def table(folder: Path, python: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    for path in write_signature_files(folder / "signatures"):
        digest.update(path.read_bytes())
    datatrove_files(folder)

    def run(*command: str) -> Any:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    me = (sys.executable, __file__)
    result = {
        "input": digest.hexdigest()[:16],
        "ours": [],
        "polars": [],
        "datatrove": [],
        "versions": {name: importlib.metadata.version(name) for name in ("numpy", "numba", "pyarrow", "polars")},
        "machine": f"{platform.platform()}, Python {platform.python_version()}",
    }
    for turn in range(3):
        for name in ("small", "real"):
            shutil.rmtree(folder / name, ignore_errors=True)
        result["ours"].append(run(*me, "ours", str(folder)))
        result["polars"].append(run(*me, "polars", str(folder)))
        if turn == 0:
            result["datatrove"].append(run(python, __file__, "datatrove", str(folder / "datatrove")))
        (folder / "table.json").write_text(json.dumps(result))
    removed = {one["removed"] for name in ("ours", "polars", "datatrove") for one in result[name]}
    assert len(removed) == 1, removed
    for name in ("signatures", "datatrove", "small", "real"):
        shutil.rmtree(folder / name)


# ---- simulate: as many as asked for, in a bounded process


def keys_of(docs: npt.NDArray[Any], keys: npt.NDArray[np.uint64]) -> list[Any]:
    from curate.dedup.bands import Keys

    keys.setflags(write=False)  # as those of files are
    return [Keys(0, docs.astype(np.uint32), np.arange(len(docs)), keys)]


class Simulated:
    """Keys of a simulation, made as they are read; what this costs is not counted as ours."""

    def __init__(self, simulation: Any, folder: Path, watch: Watch) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.sizes = simulation.sizes
        self._simulation = simulation
        self._watch = watch
        path = folder / "num_bytes.parquet"
        with pq.ParquetWriter(path, pa.schema([("num_bytes", pa.int64())])) as file:
            for size in self.sizes:
                file.write_table(pa.table({"num_bytes": np.full(size, 3000)}))
        self.paths = [str(path)]

    def _timed(self, items: Iterator[Any]) -> Iterator[Any]:
        while True:
            start = time.thread_time()
            item = next(items, None)
            self._watch.excluded += time.thread_time() - start
            if item is None:
                return
            yield item

    def hashes(self, layout: Any, group: int, folder: Path, scratch: Path) -> None:
        from curate.dedup.bands import write_records

        first, end = layout.bases[group : group + 2]
        made = self._timed(self._simulation.texts(first, end - first))
        keys = (keys_of(np.arange(row, row + len(one)), one.reshape(-1, 1, 2)) for row, one in made)
        where = {"memory_bytes": MEMORY, "scratch": str(scratch)}
        write_records(keys, folder, bits=layout.bits, kinds=1, words=2, **where)

    def bands(self, layout: Any, group: int, copies: Any, folder: Path, scratch: Path) -> None:
        from curate.dedup.bands import write_records
        from curate.dedup.components import copies_of

        made = self._timed(self._simulation.bands(layout.bases[group], copies_of(layout, group, copies)))
        keys = (keys_of(docs, one.reshape(-1, BANDS, 1)) for docs, one in made)
        where = {"memory_bytes": MEMORY, "scratch": str(scratch)}
        write_records(keys, folder, bits=layout.bits, kinds=BANDS, words=1, **where)


def simulate(folder: Path, documents: int) -> None:
    from dedup_simulation import Simulation

    folder.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    results = []
    for size in (200_000, documents):  # the first compiles, or reads what was compiled
        work = folder / f"documents-{size}"
        work.mkdir()
        started = cpu()
        simulation = Simulation(size, work, exponent=EXPONENT, largest=LARGEST, seed=SEED, shard=1 << 16)
        drawn = cpu() - started
        place = work / "steps"
        place.mkdir()
        watch = Watch()
        output = find(Simulated(simulation, work, watch), place, watch)
        found = simulation.errors(output, work)
        assert found == {"errors": 0, "members": simulation.in_clusters}, found
        facts = {name: getattr(simulation, name) for name in ("num_clusters", "largest", "in_clusters")}
        results.append({"documents": size, **facts, "drawn": drawn, "steps": watch.steps, **found})
        shutil.rmtree(work)
    (folder / f"simulated-{documents}.json").write_text(json.dumps(results[-1]))


# ---- the tables


def middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def write_table(facts: dict[str, Any]) -> None:
    steps = [one["step"] for one in facts["ours"][0]["steps"]]
    seconds = {
        name: middle([next(s["cpu"] for s in one["steps"] if s["step"] == name) for one in facts["ours"]])
        for name in steps
    }
    last = {one["step"]: one for one in facts["ours"][-1]["steps"]}
    before = facts["ours"][-1]["before"]
    theirs = facts["datatrove"][0]
    whole, near = sum(seconds.values()), sum(seconds[name] for name in ("bands", "near", "components"))
    peer = theirs["buckets"] + theirs["cluster"]
    columns = middle([one["cpu"] for one in facts["polars"]])
    removed = facts["ours"][0]["removed"]
    print("## A million documents\n")
    print(
        f"Synthetic signatures, {BANDS} bands of {ROWS} rows: 30% of the documents copy another's 112 values, each with "
        f"probability 0.85. Each method finds {removed:,} documents to remove. Input digest {facts['input']}. One thread "
        f"each, in one run; ours and polars: median of {len(facts['ours'])}.\n"
    )
    print("| method | reads | CPU seconds | ours is |")
    print("| --- | --- | --- | --- |")
    print(f"| ours: bands, near, components | Parquet signatures | {near:.2f} | |")
    print(f"| ours, with the round of equal texts before it | Parquet signatures | {whole:.2f} | |")
    for name, value, reads in (
        ("datatrove: buckets and cluster", peer, "sorted signatures, as its first stage leaves them"),
        ("polars: `len().over(key)` by band, our union-find", columns, "band keys in memory"),
    ):
        print(f"| {name} | {reads} | {value:.2f} | {value / near:.1f} and {value / whole:.1f} times as fast |")
    print(
        f"\ndatatrove: buckets {theirs['buckets']:.1f}, cluster {theirs['cluster']:.1f} seconds; its signatures take "
        f"{theirs['disk']['signatures'] / DOCUMENTS:.0f} bytes a document on disk, its buckets "
        f"{theirs['disk']['buckets'] / DOCUMENTS:.0f}; its process held {theirs['rss'] / 1e6:.0f} MB at most.\n"
    )
    print("| step | CPU seconds | on disk behind it, bytes a document | buffers at most, bytes a document |")
    print("| --- | --- | --- | --- |")
    for name in steps:
        disk, memory = last[name]["disk"] / DOCUMENTS, max(0, last[name]["RssAnon"] - before) / DOCUMENTS
        print(f"| {name} | {seconds[name]:.2f} | {disk:.0f} | {memory:.0f} |")


def write_simulated(facts: dict[str, Any]) -> None:
    size = facts["documents"]
    print(f"\n## {size:,} simulated documents\n")
    print(
        f"Cluster sizes are drawn from a zeta law, P(s) ~ s^-{EXPONENT}, s up to {LARGEST:,}: {facts['num_clusters']:,} "
        f"clusters, the largest of {facts['largest']:,} documents; {facts['in_clusters']:,} documents are in clusters of "
        f"two or more. Members are spread over the corpus by a permutation. Half of the clusters are stars (a band that all "
        f"share, others with probability 0.3; every tenth text is an exact copy), half chains in which a document shares a "
        f"band with its two neighbours only. Every row of components.parquet was compared with the truth: "
        f"{facts['errors']} errors. One process, RLIMIT_DATA {LIMIT >> 30} GiB, --memory {MEMORY >> 20} MiB.\n"
    )
    print("| step | CPU s | wall s | RssAnon, peak MB | VmData, peak MB | disk behind it, GB | bytes a document |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for one in facts["steps"]:
        print(
            f"| {one['step']} | {one['cpu']:.0f} | {one['wall']:.0f} | {one['RssAnon'] / 1e6:.0f} | "
            f"{one['VmData'] / 1e6:.0f} | {one['disk'] / 1e9:.2f} | {one['disk'] / size:.1f} |"
        )
    made = sum(one["made"] for one in facts["steps"])
    total = sum(one["cpu"] for one in facts["steps"])
    print(
        f"\nCPU in all {total:.0f} s, {total / size * 1e6:.2f} microseconds a document, besides {made:.0f} s to make the "
        f"keys. Wall time is that of a machine on which many processes shared two cores."
    )


def write(folder: Path) -> None:
    facts = json.loads((folder / "table.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    print("# From signatures to clusters of copies\n")
    print(f"`bench_dedup.py`, {facts['machine']}, {versions}, datatrove 0.10.1.\n")
    write_table(facts)
    for path in sorted(folder.glob("simulated-*.json"), key=lambda path: int(path.stem.partition("-")[2])):
        write_simulated(json.loads(path.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["table", "simulate", "write", "ours", "polars", "datatrove"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("documents", type=int, nargs="?")
    parser.add_argument("--peer", help="Python of an environment with datatrove")
    given = parser.parse_args()
    if given.step == "table":
        table(given.folder, given.peer)
    elif given.step == "simulate":
        simulate(given.folder, given.documents)
    elif given.step == "write":
        write(given.folder)
    elif given.step == "ours":
        ours(given.folder)
    elif given.step == "polars":
        polars_peer()
    elif given.step == "datatrove":
        datatrove_peer(given.folder)


if __name__ == "__main__":
    main()
