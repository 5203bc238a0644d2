"""Readers beside the libraries that read the same files: CPU time of a file to batches, one core.

    python benchmarks/bench_readers.py [--rounds 7] [--warcio PYTHON] > benchmarks/results/readers.md

Inputs: `$CURATE_DATA` (03_raw_html, 05_code), and what is made of them: the WARC file without compression, the JSON lines
plain and as zstd, the same records as Parquet. Each measurement is a process of its own; the contestants take turns, and
who begins changes from round to round. A process reads the file five times: cold is the first time, with whatever is loaded
then, steady the mean of the others. CPU time is user and system time of all threads. Writes Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}

READINGS = 5

Count = tuple[int, int]  # documents, and bytes of their content

# ---- contestants: a path to (documents, bytes); imports stand inside, as each runs alone


def curate_warc(path: str) -> Count:
    from curate.read.warc import Warc

    return _counted(Warc(), path, "content")


def curate_warc_digests(path: str) -> Count:
    from curate.read.warc import Warc

    return _counted(Warc(verify_digests=True), path, "content")


def curate_jsonl(path: str) -> Count:
    from curate.read.jsonl import Jsonl

    return _counted(Jsonl(), path, "text")


def curate_parquet(path: str) -> Count:
    from curate.read.parquet import Parquet

    return _counted(Parquet(), path, "text")


def _counted(source: object, path: str, column: str) -> Count:
    import pyarrow.compute as pc

    rows = size = 0
    with open(path, "rb") as file:  # noqa: PTH123 (as the others do)
        for batch in source.read(file, path):  # type: ignore[attr-defined]
            rows += batch.num_rows - batch[column].null_count
            size += pc.sum(pc.binary_length(batch[column])).as_py() or 0
    return rows, size


def fastwarc(path: str) -> Count:
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    rows = size = 0
    with open(path, "rb") as file:  # noqa: PTH123
        for record in ArchiveIterator(file, record_types=WarcRecordType.response, parse_http=True):
            size += len(record.reader.read())
            rows += 1
    return rows, size


def warcio(path: str) -> Count:
    from warcio.archiveiterator import ArchiveIterator

    rows = size = 0
    with open(path, "rb") as file:  # noqa: PTH123
        for record in ArchiveIterator(file):
            if record.rec_type == "response":
                size += len(record.content_stream().read())
                rows += 1
    return rows, size


def polars_jsonl(path: str) -> Count:
    import polars as pl

    frame = pl.read_ndjson(path)
    return frame.height, frame["text"].str.len_bytes().sum()


def pyarrow_jsonl(path: str) -> Count:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json

    with pa.input_stream(path, compression="detect") as stream:
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=16 << 20)
        table = pyarrow.json.read_json(stream, read_options=options)
    return table.num_rows, pc.sum(pc.binary_length(table["text"])).as_py()


def polars_parquet(path: str) -> Count:
    import polars as pl

    frame = pl.read_parquet(path)
    return frame.height, frame["text"].str.len_bytes().sum()


def pyarrow_parquet(path: str) -> Count:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    rows = size = 0
    for batch in pq.ParquetFile(path).iter_batches(batch_size=256, use_threads=False):
        rows += batch.num_rows
        size += pc.sum(pc.binary_length(batch["text"])).as_py()
    return rows, size


CONTESTANTS: dict[str, Callable[[str], Count]] = {
    function.__name__: function
    for function in (
        curate_warc,
        curate_warc_digests,
        curate_jsonl,
        curate_parquet,
        fastwarc,
        warcio,
        polars_jsonl,
        pyarrow_jsonl,
        polars_parquet,
        pyarrow_parquet,
    )
}


def measure(name: str, path: str) -> None:
    """Print documents, bytes, and CPU seconds of the first reading and of the mean of the others, as one JSON object."""
    seconds = []
    for _ in range(READINGS):
        before = _cpu_seconds()
        rows, size = CONTESTANTS[name](path)
        seconds.append(_cpu_seconds() - before)
    print(json.dumps({"rows": rows, "bytes": size, "cold": seconds[0], "steady": statistics.mean(seconds[1:])}))


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# ---- inputs


def make_inputs(folder: Path) -> dict[str, Path]:
    import polars as pl
    import zstandard

    raw = DATA / "03_raw_html" / "raw.warc.gz"
    packed_lines = DATA / "05_code" / "code.jsonl.gz"
    lines = gzip.decompress(packed_lines.read_bytes())
    inputs = {
        "WARC, gzip": raw,
        "WARC, plain": folder / "raw.warc",
        "JSON lines, gzip": packed_lines,
        "JSON lines, plain": folder / "code.jsonl",
        "JSON lines, zstd": folder / "code.jsonl.zst",
        "Parquet, zstd": folder / "code.parquet",
    }
    inputs["WARC, plain"].write_bytes(gzip.decompress(raw.read_bytes()))
    inputs["JSON lines, plain"].write_bytes(lines)
    inputs["JSON lines, zstd"].write_bytes(zstandard.compress(lines))
    pl.read_ndjson(lines).write_parquet(inputs["Parquet, zstd"], compression="zstd", row_group_size=1000)
    return inputs


RACES = {
    "WARC, gzip": ("curate_warc", "fastwarc", "warcio", "curate_warc_digests"),
    "WARC, plain": ("curate_warc", "fastwarc", "warcio"),
    "JSON lines, gzip": ("curate_jsonl", "polars_jsonl", "pyarrow_jsonl"),
    "JSON lines, plain": ("curate_jsonl", "polars_jsonl", "pyarrow_jsonl"),
    "JSON lines, zstd": ("curate_jsonl", "polars_jsonl", "pyarrow_jsonl"),
    "Parquet, zstd": ("curate_parquet", "polars_parquet", "pyarrow_parquet"),
}


def race(names: list[str], path: Path, rounds: int, pythons: dict[str, str]) -> dict[str, list[dict[str, float]]]:
    """Return the measurements of each contestant, by round."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)}
    for turn in range(rounds):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            python = pythons.get(name, sys.executable)
            command = [python, __file__, "--one", name, str(path)]
            run = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            found[name].append(json.loads(run.stdout))
    return found


# ---- the table


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the readers")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warcio", help="Python of an environment with warcio")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "PATH"))
    options = parser.parse_args()
    if options.one:
        measure(*options.one)
        return
    print("# Readers\n")
    print("`python benchmarks/bench_readers.py`: a file to record batches, everything included, beside libraries that")
    print("read the same file. CPU seconds (user and system, all threads, one thread each), median of", options.rounds)
    print(
        "processes that take turns. Each reads the file five times: cold is the first time, loading of libraries included,"
    )
    print(
        "the others are averaged. Ratios are those of the medians, in brackets the least and the largest of any round;"
    )
    print(
        f"below 1 we are faster. MB/s are of the content. Load at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n"
    )
    print("| input | reader | documents | MB | CPU s | MB/s | ours / it | CPU s cold |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        inputs = make_inputs(Path(name))
        digests = {kind: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for kind, path in inputs.items()}
        for kind, path in inputs.items():
            names = [each for each in RACES[kind] if each != "warcio" or options.warcio]
            found = race(names, path, options.rounds, {"warcio": options.warcio})
            for each in names:
                print(row(kind, each, found[each], found[names[0]]), flush=True)
    print(
        "\nInputs (first 16 digits of their sha256):", ", ".join(f"{kind} `{d}`" for kind, d in digests.items()) + "."
    )
    packages = ("isal", "numba", "numpy", "pyarrow", "polars", "zstandard", "fastwarc")
    versions = [f"{package} {importlib.metadata.version(package)}" for package in packages]
    if options.warcio:
        code = "import importlib.metadata as m; print(m.version('warcio'))"
        run = subprocess.run([options.warcio, "-c", code], check=True, capture_output=True, text=True)
        versions.append(f"warcio {run.stdout.strip()}")
    print(f"\nVersions: Python {platform.python_version()}, {', '.join(versions)}.")
    print(f"Machine: {processor()}, {os.cpu_count()} cores, {platform.system()}.")


def row(kind: str, name: str, found: list[dict[str, float]], ours: list[dict[str, float]]) -> str:
    steady = statistics.median(each["steady"] for each in found)
    cold = statistics.median(each["cold"] for each in found)
    megabytes = found[0]["bytes"] / 1e6
    ratios = [mine["steady"] / its["steady"] for mine, its in zip(ours, found, strict=True)]
    ratio = statistics.median(each["steady"] for each in ours) / steady
    told = "" if found is ours else f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    label = name.replace("curate_warc_digests", "curate, digests verified").split("_")[0]
    return (
        f"| {kind} | {label} | {found[0]['rows']:.0f} | {megabytes:.1f} | {steady:.3f} | {megabytes / steady:.0f} "
        f"| {told} | {cold:.3f} |"
    )


def processor() -> str:
    """Return the name that the system gives its processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
