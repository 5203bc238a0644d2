"""`curate what-if` over a million documents: seconds from the command to the answer, beside measuring the texts again.

    python benchmarks/bench_what_if.py > benchmarks/results/what_if.md

The run folder is a real run over the gold texts of `$CURATE_DATA/02_gold`, multiplied: its
rows of measurements are drawn with replacement (fixed seed) into a million documents in shards of the size that large
inputs give, with decisions that follow from them; a fifth have a copy. Texts are cut to their first 200 bytes, as only
the samples read them; sizes are those of the whole texts. The command runs in a process of its own, disk cache warm: its
wall time, CPU time and peak memory. Writes Markdown.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from curate.document import DECISION, DUPLICATES, EXTRACTED
from curate.measured import MeasuredSource, layout_of, reasons
from curate.phases.decide import verdicts
from curate.pipeline import SIZES
from curate.recipe import Recipe
from curate.report.run import RunFolder
from curate.runner import load, run

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
RECIPE = """\
name: million
sources:
  pages:
    read: {kind: jsonl, language: lang, paths: ["DATA/02_gold/*/gold.jsonl"]}
    steps:
      - language: {keep: [en, pt, de, zh], min_score: 0.65}
      - gopher_repetition: {}
      - gopher_quality: {}
      - c4_lines: {terminal_punctuation: off}
      - fineweb: {}
      - where: "num_words >= 45 OR terminal_line_fraction > 0.2"
dedup: {}
"""
ASKED = {
    "one bound": ["sources.pages.steps.gopher_quality.min_words=30"],
    "six bounds of three blocks, one by language": [
        "sources.pages.steps.gopher_quality.min_words={en: 30, '*': 60}",
        "sources.pages.steps.gopher_quality.min_alpha_word_fraction=0.7",
        "sources.pages.steps.gopher_repetition.max_duplicate_line_fraction=0.4",
        "sources.pages.steps.gopher_repetition.max_top_2gram_char_fraction=0.3",
        "sources.pages.steps.fineweb.max_short_line_fraction=0.8",
        "sources.pages.steps.language.min_score=0.5",
    ],
}


def multiply(small: Path, large: Path, recipe: Recipe, documents: int, shard_rows: int) -> None:
    """Write the run folder of `documents` documents, rows drawn from those of the run folder `small`."""
    source = recipe.sources[0]
    measured = MeasuredSource(RunFolder(small), source)
    layout = layout_of(source)
    rules = [rule for block in layout.judged for rule in block.rules]
    (part,) = measured.parts(rules, decided=False)
    found = verdicts(layout.judged, part.judged_by(layout.judged, measured.folders), part.rows)
    first = reasons(found, part.rows)
    names = [verdict.rule for verdict in found]
    blocks = {block.name: _whole(small / "measurements" / "pages" / block.name) for block in layout.blocks}
    extracted = _whole(small / "extracted" / "pages")
    texts = pa.array([text.encode()[:200].decode("utf-8", "ignore") for text in extracted["text"].to_pylist()])
    random = np.random.default_rng(17)
    copies: list[str] = []
    for number in range(0, documents, shard_rows):
        rows = random.integers(0, part.rows, min(shard_rows, documents - number))
        ids = pa.array([f"{high:016x}{low:016x}" for high, low in random.integers(0, 1 << 62, (len(rows), 2)).tolist()])
        name = f"{number // shard_rows:05d}.parquet"
        for block, table in blocks.items():
            _write(large / "measurements" / "pages" / block / name, table.take(rows).set_column(0, "id", ids))
        sizes = pa.table({"id": ids, "bytes": part.sizes[rows]}, SIZES)
        _write(large / "sizes" / "pages" / name, sizes)
        taken = extracted.take(rows)
        columns = {"id": ids, "text": texts.take(pa.array(rows)).cast(pa.large_string())}
        arrays = [columns.get(one, taken[one] if one not in columns else None) for one in EXTRACTED.names]
        _write(large / "extracted" / "pages" / name, pa.table(arrays, schema=EXTRACTED))
        _write(large / "decisions" / "pages" / name, _decisions(ids, first[rows], names))
        kept = np.flatnonzero(first[rows] < 0)
        copies += ids.take(pa.array(kept[: 2 * (len(kept) // 10)])).to_pylist()
    pairs = pa.array(copies[::2])
    twice = pa.array(np.repeat(np.arange(len(pairs)), 2))
    columns = {
        "id": pa.array(copies[: 2 * len(pairs)]),
        "cluster": pairs.take(twice),
        "cluster_size": pa.array(np.full(len(twice), 2, np.int32)),
        "kept_id": pa.nulls(len(twice), pa.string()),
        "similarity": pa.nulls(len(twice), pa.float64()),
        "verified": pa.array(np.ones(len(twice), bool)),
    }
    pq.write_table(pa.table(columns, schema=DUPLICATES), large / "duplicates.parquet", compression="zstd")
    for name in ("recipe.yaml", "manifest.json", "timings.json"):
        (large / name).write_bytes((small / name).read_bytes())


def _whole(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("*.parquet"))).combine_chunks()


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", compression_level=3, row_group_size=1000)


def _decisions(ids: pa.Array, first: np.ndarray, names: Sequence[str]) -> pa.Table:
    rules = pa.array([*names, None]).take(pa.array(np.where(first < 0, len(names), first)))
    given = {
        "id": ids,
        "kept": pa.array(first < 0),
        "rule": rules,
        "stage": pa.array(["filter", None]).take(pa.array((first < 0).astype(int))),
        "also_fired": pa.array([[]] * len(ids), pa.list_(pa.string())),
        "path": pa.array(["part"] * len(ids)),
        "offset": pa.array(np.arange(len(ids))),
    }
    arrays = [given[field.name] if field.name in given else pa.nulls(len(ids), field.type) for field in DECISION]
    return pa.table(arrays, schema=DECISION)


def cpu_seconds() -> float:
    """Return the CPU time of this process and its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def asked(folder: Path, sets: Sequence[str]) -> tuple[float, float, float, list[str]]:
    """Run the command; return wall seconds, CPU seconds, peak bytes and what it printed."""
    words = [word for one in sets for word in ("--set", one)]
    command = [sys.executable, "-m", "curate.cli", "what-if", str(folder), *words]
    started = time.perf_counter()
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    lines = child.stdout.read().splitlines()
    _, status, used = os.wait4(child.pid, 0)  # of this child alone
    wall = time.perf_counter() - started
    assert status == 0, lines
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--shard-rows", type=int, default=2500, help="documents of a shard")
    parser.add_argument("--runs", type=int, default=3, help="times each question is asked; the median counts")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = folder / "recipe.yaml"
        path.write_text(RECIPE.replace("DATA", str(DATA)))
        before = cpu_seconds()
        made = run(path, output=folder / "small", cache=folder / "cache", workers=1, quiet=True)
        again = cpu_seconds() - before
        small = made.manifest["ledger"]["pages"]["read"]
        multiply(folder / "small", folder / "large", load(path), chosen.documents, chosen.shard_rows)
        rows = []
        for name, sets in ASKED.items():
            answers = sorted((asked(folder / "large", sets) for _ in range(chosen.runs)), key=lambda answer: answer[0])
            rows.append((name, answers[len(answers) // 2]))
        size = sum(one.stat().st_size for one in (folder / "large").rglob("*.parquet"))
        _report(chosen, rows, size, small, again)


def _report(
    chosen: argparse.Namespace,
    rows: Sequence[tuple[str, tuple[float, float, float, list[str]]]],
    size: int,
    small: int,
    again: float,
) -> None:
    cores = len(os.sched_getaffinity(0))
    print("# what-if over a million documents\n")
    print((__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip() + "\n")
    print(
        f"{chosen.documents:,} documents in {-(-chosen.documents // chosen.shard_rows):,} shards, "
        f"{size / 1e6:,.0f} MB of Parquet; {cores} cores (load average {os.getloadavg()[0]:.0f}), "
        f"{platform.machine()}, Python {platform.python_version()}, "
        f"polars {pl.__version__}, pyarrow {importlib.metadata.version('pyarrow')}.\n"
    )
    print("| question | seconds | CPU seconds | peak memory | CPU time of measuring the texts again |")
    print("| --- | ---: | ---: | ---: | ---: |")
    whole = again / small * chosen.documents / 3600
    for name, (wall, cpu, peak, _) in rows:
        print(f"| {name} | {wall:.1f} | {cpu:.1f} | {peak / 1e6:,.0f} MB | {whole:.1f} hours |")
    print(
        f"\nThe last column is the small run ({small:,} texts, {again:.0f} CPU seconds, start of the worker and its models "
        "included) times the documents: an extrapolation.\n"
    )
    print("What the second question printed:\n\n```")
    print("\n".join(rows[-1][1][3][:30]))
    print("```")


if __name__ == "__main__":
    main()
