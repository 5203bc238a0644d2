"""Exports read back by the libraries whose formats they are, and how fast they are written beside those libraries' writers.

    python benchmarks/bench_exports.py --peer PYTHON [--run RUN] > benchmarks/results/exports.md

PYTHON has datasets, datatrove, megatron-core, ai2-olmo-core and dolma (`export_readers.py`, `export_writers.py`). RUN is a
finished run of `recipes/web_code_books.yaml`; without it the recipe is run. Every format is exported and read by its
library in a process of its own; documents, ids or texts, and lengths must be those of the run. Then the same documents are
written by curate and by the library, each in a fresh process with one thread, in turns. Writes Markdown.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.export.documents import document_tasks, name_hub
from curate.export.layouts import Layout, Megatron, Nanotron, Npy
from curate.export.selection import Selection
from curate.export.tokens import shard_tasks
from curate.export.write import export
from curate.pipeline import ParquetFile
from curate.runner import run
from curate.tokens.order import Plan
from curate.tokens.shard import ShardWriter, TokenSource, write_manifest

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
LAYOUTS: dict[str, Layout] = {"megatron": Megatron(), "npy": Npy(), "nanotron": Nanotron()}
TIMES = 5
TOKENS = 48_000_000  # of the shard whose writing is measured


def peer(python: str, script: str, *arguments: object) -> dict[str, Any]:
    """Run a script with the peers' Python and return what it printed."""
    done = subprocess.run(
        [python, str(HERE / script), *map(str, arguments)],
        env=os.environ | ONE_THREAD | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{script} {' '.join(map(str, arguments))}:\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def digests(documents: list[np.ndarray]) -> dict[str, Any]:
    """Return what export_readers.py prints of documents."""
    digest = hashlib.sha256()
    for ids in documents:
        digest.update(ids.astype("<i8").tobytes())
    lengths = np.array([len(ids) for ids in documents], "<i8")
    return {
        "documents": len(documents),
        "tokens": int(lengths.sum()),
        "ids": digest.hexdigest(),
        "lengths": hashlib.sha256(lengths.tobytes()).hexdigest(),
    }


def expected(folder: Path, name: str, order: str) -> dict[str, Any]:
    """Return what the run holds, read from its own files."""
    found: dict[str, Any] = {}
    if order == "mixture":
        plan = Plan.load(folder / "mixture.json")
        streams = {name: TokenSource.open(folder / "tokens" / name) for name in plan.names}
        slots = [plan.slot(slot) for slot in range(plan.num_slots)]
        return {"train/mixture": digests([streams[one].tokens(*plan.token_span(window)) for one, window in slots])}
    for source in sorted(path.name for path in (folder / "documents").iterdir()):
        for split in ("train", "validation"):
            if name in LAYOUTS:
                opened = TokenSource.open(folder / "tokens" / source, split)
                ids = opened.tokens(0, opened.num_tokens)
                found[f"{split}/{source}"] = digests(np.split(ids, opened.document_ends[:-1]))
                continue
            texts = [
                row["text"].encode()
                for path in sorted((folder / "documents" / source).glob("*.parquet"))
                for row in pq.read_table(path, columns=["text", "split"]).to_pylist()
                if row["split"] == split
            ]
            digest = hashlib.sha256()
            for text in texts:
                digest.update(len(text).to_bytes(8, "little") + text)
            found[f"{split}/{source}"] = {"documents": len(texts), "texts": digest.hexdigest()}
    return found


def read_back(python: str, folder: Path, scratch: Path) -> list[str]:
    """Return the table of what each library read; exit if it is not what the run holds."""
    rows = []
    window = Plan.load(folder / "mixture.json").window + 1
    for name, order in [(name, "arranged") for name in (*LAYOUTS, "parquet", "hf")] + [
        (name, "mixture") for name in LAYOUTS
    ]:
        output = scratch / f"{name}-{order}"
        export(folder, name, output=output, order=order, quiet=True)
        answer = peer(python, "export_readers.py", name, output, *([window] if order == "mixture" else []))
        wanted = expected(folder, name, order)
        if answer["read"] != wanted:
            sys.exit(f"{name}, {order}: {answer['library']} reads {answer['read']}, the run holds {wanted}")
        counts = [sum(one.get(what, 0) for one in wanted.values()) for what in ("documents", "tokens")]
        of_ids = f"{counts[1]:,}" if counts[1] else ""
        rows.append(
            f"| {name} | {order} | {answer['library']} {answer['version']} | {len(wanted)} | {counts[0]:,} | {of_ids} | yes |"
        )
    return rows


def large_run(folder: Path, scratch: Path) -> Path:
    """Return a copy of a run whose source `web` holds its documents over and over, tokens and texts."""
    target = scratch / "large"
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("extracted", "measurements", "train"))
    source = TokenSource.open(folder / "tokens/web", "train")
    documents, sizes = list(source.documents()), source.document_bytes.tolist()
    shutil.rmtree(target / "tokens/web")
    facts = {"dtype": source.dtype, "vocab_size": source.vocab_size, "eos_id": source.eos_id}
    with ShardWriter(target / "tokens/web", "train", **facts) as writer:
        for _ in range(TOKENS // source.num_tokens):
            for (document, ids), size in zip(documents, sizes, strict=True):
                writer.add(document, size, ids)
    write_manifest(target / "tokens/web", **facts, tokenizer_sha256=source.tokenizer_sha256, shards=writer.close())
    table = pa.concat_tables(pq.read_table(path) for path in sorted((folder / "documents/web").glob("*.parquet")))
    table = table.filter(pa.compute.equal(table["split"], "train")).combine_chunks()
    for path in (target / "documents/web").glob("*.parquet"):
        path.unlink()
    with ParquetFile(target / "documents/web/00000.parquet", table.schema) as file:
        for _ in range(100):
            for batch in table.to_batches():
                file.write(batch)
    return target


def write_ours(name: str, large: Path, output: Path) -> None:
    """Write the large source by our tasks and print CPU seconds, as export_writers.py does."""
    selection = Selection.of(large, ("web",), "train")
    before, wall = sum(os.times()[:2]), time.perf_counter()
    tasks = shard_tasks(selection, LAYOUTS[name]) if name in LAYOUTS else document_tasks(selection, name_hub)
    for task in tasks:
        (output / task.name).parent.mkdir(parents=True, exist_ok=True)
        task.write(output)
    print(json.dumps({"cpu": sum(os.times()[:2]) - before, "wall": time.perf_counter() - wall}))


def speed(python: str, large: Path, scratch: Path) -> list[str]:
    """Return the table of speeds."""
    rows = []
    libraries = {"megatron": "megatron-core", "npy": "dolma", "nanotron": "datatrove", "hf": "datasets"}
    for name, library in libraries.items():
        source = large / ("documents/web/00000.parquet" if name == "hf" else "tokens/web/train-00000")
        size = (source if name == "hf" else source.with_suffix(".bin")).stat().st_size
        if name == "hf":
            size = sum(
                pa.compute.binary_length(batch["text"]).sum().as_py() for batch in pq.ParquetFile(source).iter_batches()
            )
        seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(TIMES):
            for who in seconds:
                output = Path(tempfile.mkdtemp(dir=scratch))
                if who == "ours":
                    answer = peer(sys.executable, "bench_exports.py", "--write", name, large, output)
                else:
                    answer = peer(python, "export_writers.py", name, source, output)
                seconds[who].append(answer["cpu"])
                shutil.rmtree(output)
        ours, theirs = (statistics.median(seconds[who]) for who in ("ours", "theirs"))
        ratios = [b / a for a, b in zip(seconds["ours"], seconds["theirs"], strict=True)]
        rows.append(
            f"| {name} | {size / 1e6:,.0f} MB of {'text' if name == 'hf' else 'ids'} | {ours:.2f} | {size / ours / 1e6:,.0f} | "
            f"{library} | {theirs:.2f} | {size / theirs / 1e6:,.0f} | **{theirs / ours:.1f}** ({min(ratios):.1f} to {max(ratios):.1f}) |"
        )
    return rows


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with the libraries")
    parser.add_argument("--run", type=Path, help="a finished run of recipes/web_code_books.yaml")
    parser.add_argument("--write", nargs=3, metavar=("FORMAT", "RUN", "OUTPUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        write_ours(arguments.write[0], Path(arguments.write[1]), Path(arguments.write[2]))
        return
    if not arguments.peer:
        parser.error("--peer is needed")
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        folder = arguments.run
        if folder is None:
            folder = run(
                ROOT / "recipes/web_code_books.yaml",
                output=scratch / "run",
                cache=scratch / "cache",
                train=False,
                quiet=True,
            ).output
        digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
        rows = read_back(arguments.peer, folder, scratch)
        speeds = speed(arguments.peer, large_run(folder, scratch), scratch)
        write_page(rows, speeds, digest)


def write_page(rows: list[str], speeds: list[str], digest: str) -> None:
    """Print the page."""
    here = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "pyarrow", "polars"))
    print(
        f"""# Exports

`python benchmarks/bench_exports.py --peer PYTHON`: a run of `recipes/web_code_books.yaml` (sha256 of its manifest
`{digest[:16]}`) exported in every format and read back by the library whose format it is, in a process without curate.

| format | order | read by | files of | documents | ids | equal to the run |
| --- | --- | --- | ---: | ---: | ---: | --- |
{chr(10).join(rows)}

"Equal": for each split and source the number of documents, their lengths in order, and the sha256 of all ids (of all texts
where there are no ids) are those of the run's own files. `hf`: `load_dataset(folder)` reads all sources, and each source
by its name. Of `mixture` a document is a window of training. dolma writes the `.npy` that OLMo-core reads.

## Speed

CPU seconds, one thread, medians of {TIMES} fresh processes each that take turns; imports are not counted. The library writes
documents that are in memory; curate reads the shard, holds it against its manifest, writes, reads the file back for its
sha256, and compares the counts of what is written. The speed counts ids at their stored width, or text.

| format | input | curate s | MB/s | library | s | MB/s | times its speed |
| --- | --- | ---: | ---: | --- | ---: | ---: | ---: |
{chr(10).join(speeds)}

Python {platform.python_version()}, {here}; {platform.machine()}, {os.cpu_count()} cores."""
    )


if __name__ == "__main__":
    main()
