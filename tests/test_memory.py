"""Memory is bounded by what the user allows and by batches, never by the size of the corpus or of a file in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import machine
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import curate

MIB = 1 << 20
DATA = Path(os.environ.get("CURATE_DATA", machine.ROOT.parent / "shared" / "data"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"real inputs are not at {DATA}: set CURATE_DATA")
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="private memory is read from /proc, which is Linux"
)

# -- whole-corpus phases: ten times more corpus than memory --

DOCUMENTS = 2500  # in a file: more than two row groups
FILES = 6
MEMORY = MIB // 2
# What --memory does not bound and the corpus does not raise. A pass over the corpus has some tens of bytes a document in
# compact arrays and small change of the allocators; a task over one shard a row group of texts or shingles, once in rows
# and once compressed.
BYTES_PER_DOCUMENT = 64
PASS_SLACK, SHARD_SLACK = 4 * MIB, 10 * MIB  # a pass over texts keeps the buffers of one batch of word hashes
ATTEMPTS = 4
# For workers: what is freed goes back to the system at once, or what allocators keep for later would count, ten megabytes
# more or less of it.
AT_ONCE = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": str(MIB // 4),
    "MALLOC_TRIM_THRESHOLD_": str(MIB // 4),
}
PASSES = {
    "cluster hashes",
    "cluster same",
    "cluster bands",
    "cluster near",
    "cluster components",
    "cluster partition",
    "cluster clusters",
    "decontaminate common",
    "decontaminate summary",
    "choose partition",
    "choose kept",
    "encode tokenizer",
    "arrange all",
}
SHARD_TASKS = {"cluster shingles", "choose state", "decontaminate shard", "collect shard", "encode shard"}

RECIPE = """\
name: ten_times
seed: 3
sources:
  one:
    read: {kind: jsonl, paths: "in/one-*.jsonl"}
    steps: [{gopher_quality: {min_words: 20}}, {pii: {at: collect}}]
  two:
    read: {kind: jsonl, paths: "in/two-*.jsonl"}
dedup: {exact: {}, minhash: {verify: 0.7}, keep: {order: [two, one], then: longest}}
decontaminate: {benchmarks: ["in/benchmark.jsonl"], action: cut, max_clusters: 1000}
tokenizer: {train: {kind: sentencepiece, vocab_size: 400, sample_bytes: 100k}}
validation: {tokens: 2k, min_documents: 3}
mixture: {weights: {one: 2, two: 1}, tokens: {up_to: 1M}, max_epochs: 1, window: 64}
"""


def document(number: int) -> str:
    """Return a short text; of three documents one is a copy of another far away, exact in one case of ten."""
    if number % 3 == 1:
        original = number * 7919 % (number + 1) // 3 * 3  # any that is no copy itself, mostly in another file
        return machine.prose(original, 4) + ("" if number % 10 == 1 else f" Version {number}.")
    leak = machine.prose(0, 3).replace("\n", " ") if number % 50 == 2 else ""
    return machine.prose(number, 4) + leak


def project(folder: Path, files: int) -> Path:
    for number in range(files):
        rows = [
            {"id": f"d{one}", "text": document(one) if one % 40 != 5 else "Short."}
            for one in range(number * DOCUMENTS, (number + 1) * DOCUMENTS)
        ]
        machine.write_jsonl(folder / "in" / f"{'two' if number % 3 == 1 else 'one'}-{number:02d}.jsonl", rows)
    machine.write_jsonl(folder / "in" / "benchmark.jsonl", [{"question": machine.prose(0, 3).replace("\n", " ")}])
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder / "recipe.yaml"


class InThisProcess:
    """Runs tasks here, so that the memory they take can be watched; note which task reached the peak."""

    def __init__(self, store: Any, memory: int) -> None:
        self.store = store
        self.memory = memory
        self.peaks: dict[str, int] = {}

    def run(self, tasks: Iterable[Any], done: Any) -> None:
        from curate.execute.local import TaskDone
        from curate.plan import TaskContext

        for task in tasks:
            with Watch() as watch:
                task.function(
                    TaskContext(self.store, self.memory, frozenset(task.missing(self.store))), *task.arguments
                )
            first = task.shard.partition(" ")[0] or "all"
            name = f"{task.phase} {'shard' if first.isdigit() else first}"
            self.peaks[name] = max(self.peaks.get(name, 0), watch.peak)
            done(TaskDone(task, 0.0, 0))


class Watch:
    """The peak of this process's private memory, sampled; file-backed maps are page cache and do not count."""

    def __enter__(self) -> Watch:
        import threading

        self.peak = private_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def _sample(self) -> None:
        while not self._stop.wait(0.002):
            self.peak = max(self.peak, private_bytes())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def private_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon"))


def whole_corpus_phases(folder: Path, output: Path, memory: int) -> dict[str, int]:
    """Run all phases up to mix over a folder whose cache has them up to decide; return the peak of each kind of task."""
    from curate.cache import Cache
    from curate.curation import Curation
    from curate.loading import load
    from curate.manifest import Account
    from curate.plan import PHASES
    from curate.progress import make_progress
    from curate.training import Training

    recipe = load(folder / "recipe.yaml")
    output.mkdir(exist_ok=True)
    store = Cache(folder / "cache")
    store.prepare()
    executor: Any = InThisProcess(store, memory)
    account = Account(source.name for source in recipe.sources)
    curation = Curation(recipe, output, store, executor, account, make_progress(quiet=True), limit=None, sample=None)
    training = Training(curation, workers=1, train=False)
    for phase in PHASES[: PHASES.index("mix") + 1]:
        owner = curation if hasattr(curation, phase) else training
        getattr(owner, phase)()
        account.check()
    store.close()
    return executor.peaks


def main() -> None:
    """Warm up on a small corpus, then print by how much the large one makes each kind of task grow."""
    small, large, memory = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    whole_corpus_phases(small, small / "inside", memory)
    before = private_bytes()
    peaks = whole_corpus_phases(large, large / "inside", memory)
    print(json.dumps({name: peak - before for name, peak in peaks.items()}))


def run(folder: Path, name: str, **options: Any) -> curate.RunResult:
    return curate.run(
        folder / "recipe.yaml", output=folder / name, cache=folder / f"cache-{name}", workers=2, quiet=True, **options
    )


@pytest.fixture(scope="module")
def ten_times(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return folders with a small and a large corpus, both measured and decided; in two caches, one for each use."""
    folders = (tmp_path_factory.mktemp("small"), tmp_path_factory.mktemp("large"))
    for folder, files in zip(folders, (2, FILES), strict=True):
        project(folder, files)
        run(folder, "roomy", until="decide", memory=MEMORY)
    return folders


def measured_growth(small: Path, large: Path) -> dict[str, int]:
    """Return by how much each kind of task makes a fresh process grow, from caches as they were after decide."""
    for folder in (small, large):
        for name in ("cache", "inside"):
            shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(folder / "cache-roomy", folder / "cache")
    result = subprocess.run(
        [sys.executable, __file__, str(small), str(large), str(MEMORY)],
        capture_output=True,
        text=True,
        check=False,
        cwd=machine.ROOT,
        # What allocators keep of the task before is not the next one's.
        env=os.environ | AT_ONCE | {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    growth: dict[str, int] = json.loads(result.stdout)
    return growth


def too_large(growth: dict[str, int]) -> dict[str, int]:
    """Return the tasks that grow beyond what they are allowed."""
    allowed = MEMORY + BYTES_PER_DOCUMENT * FILES * DOCUMENTS
    slack = {task: PASS_SLACK if task in PASSES else SHARD_SLACK for task in growth}
    return {task: size for task, size in growth.items() if size > allowed + slack[task]}


@needs_proc
def test_whole_corpus_phases_keep_to_the_memory(ten_times: tuple[Path, Path]) -> None:
    small, large = ten_times
    growth = measured_growth(small, large)
    for _ in range(
        ATTEMPTS - 1
    ):  # what else the machine does only ever adds: the least of several is nearest the truth
        if not too_large(growth):
            break
        again = measured_growth(small, large)
        growth = {task: min(size, again[task]) for task, size in growth.items()}
    print(growth)
    assert set(growth) == PASSES | SHARD_TASKS
    assert too_large(growth) == {}

    # Memory never shows in the result: the same bytes with all the memory there is.
    roomy = run(large, "roomy", until="mix", memory=1 << 30)
    ledger = roomy.manifest["ledger"]
    assert sum(one["bytes"]["read"] for one in ledger.values()) > 10 * MEMORY
    assert sum(one["read"] for one in ledger.values()) == FILES * DOCUMENTS
    # There was work for every phase: near copies, exact copies, documents that hold the benchmark item.
    assert roomy.manifest["dedup"]["removed"]["dedup.minhash"] > FILES * DOCUMENTS // 10
    assert roomy.manifest["dedup"]["removed"]["dedup.exact"] > FILES * DOCUMENTS // 100
    assert pq.read_metadata(large / "roomy" / "contamination.parquet").num_rows > FILES * DOCUMENTS // 100
    expected = machine.contents(large / "roomy")
    for name in ("manifest.json", "recipe.yaml"):  # written by the command itself
        del expected[name]
    assert machine.contents(large / "inside") == expected


# -- one large file: once, and eight times over --


def peak_of_workers(folder: Path, sources: str, until: str) -> tuple[int, int]:
    """Return the peak of a run's only worker, and the bytes of text that it extracted."""
    (folder / "recipe.yaml").write_text(f"name: peak\nsources:\n{sources}")
    arguments: dict[str, Any] = {"output": folder / "run", "cache": folder / "cache", "until": until, "quiet": True}
    with mock.patch.dict(os.environ, AT_ONCE):
        result = curate.run(folder / "recipe.yaml", workers=1, memory=MIB, **arguments)
    timings = json.loads((folder / "run" / "timings.json").read_text())
    peak = max(phase["peak_rss_bytes"] for phase in timings["phases"].values())
    return peak, sum(one["bytes"]["read"] for one in result.manifest["ledger"].values())


def growth(
    tmp_path: Path, write: Any, sources: str, until: str, most: int, times: tuple[int, int] = (1, 8)
) -> tuple[int, int]:
    """Return by how much peak and text grow when `write(folder, n)` makes inputs n times as large.

    Measured again while it is over `most`, up to ATTEMPTS times, the least of them counting: other load only adds.
    """
    least = None
    for attempt in range(ATTEMPTS):
        found = []
        for number in times:
            folder = tmp_path / f"times-{number}-{attempt}"
            folder.mkdir()
            write(folder, number)
            found.append(peak_of_workers(folder, sources, until))
        peak, text = (after - before for before, after in zip(*found, strict=True))
        print(f"{text:,} bytes more text, {peak:,} bytes more memory")
        least = peak if least is None else min(least, peak)
        if least < most:
            break
    return least, text


def repeated(path: Path, target: Path, times: int) -> None:
    """Write a file of gzip members several times over, which is a file of the same kind."""
    with target.open("wb") as file:
        for _ in range(times):
            file.write(path.read_bytes())


def test_rows_of_one_file_do_not_pile_up(tmp_path: Path) -> None:
    """JSON Lines, and Parquet of a single row group: every document kept, through all phases that write documents."""

    def write(folder: Path, times: int) -> None:
        rows = [{"id": str(number), "text": machine.prose(number, 30)} for number in range(1500)] * times
        machine.write_jsonl(folder / "in.jsonl", rows)
        table = pa.table({"id": [row["id"] for row in rows], "text": [row["text"] for row in rows]})
        pq.write_table(table, folder / "in.parquet", row_group_size=len(rows), use_dictionary=False)
        assert pq.read_metadata(folder / "in.parquet").num_row_groups == 1

    lines = "  lines: {read: {kind: jsonl, paths: in.jsonl}}\n"
    table = "  table: {read: {kind: parquet, paths: in.parquet}}\n"
    peak, text = growth(tmp_path, write, lines + table, until="collect", most=24 * MIB)
    assert text > 50 * MIB
    assert peak < 24 * MIB


@needs_data
def test_pages_of_one_archive_do_not_pile_up(tmp_path: Path) -> None:
    def write(folder: Path, times: int) -> None:
        repeated(DATA / "10_small_corpus" / "web.warc.gz", folder / "in.warc.gz", times)

    web = "  web: {read: {kind: warc, paths: in.warc.gz}, extract: {kind: resiliparse}}\n"
    # From six times on: 17 MB fill two batches and more.
    peak, text = growth(tmp_path, write, web, until="collect", most=12 * MIB, times=(6, 24))
    assert text > 15 * MIB  # out of 51 MB of HTML
    assert peak < 12 * MIB


@needs_data
@pytest.mark.slow
def test_a_large_archive_once_and_eight_times_over(tmp_path: Path) -> None:
    """All steps of a web source over 24,000 real pages: about ten minutes."""

    def write(folder: Path, times: int) -> None:
        repeated(DATA / "03_raw_html" / "raw.warc.gz", folder / "in.warc.gz", times)

    web = """\
  web:
    read: {kind: warc, paths: in.warc.gz}
    extract: {kind: resiliparse}
    repair: {kind: ftfy}
    steps:
      - language: {keep: [en]}
      - gopher_quality: {}
      - gopher_repetition: {}
      - c4_lines: {}
      - fineweb: {}
      - pii: {at: collect}
dedup: {exact: {}, minhash: {}}
"""
    peak, text = growth(tmp_path, write, web, until="collect", most=48 * MIB)
    assert text > 60 * MIB
    assert peak < 48 * MIB


@needs_data
@pytest.mark.slow
def test_many_books_in_one_file(tmp_path: Path) -> None:
    """Documents of up to a megabyte: batches and row groups are bounded by bytes, not by rows."""

    def write(folder: Path, times: int) -> None:
        repeated(DATA / "04_books" / "books.jsonl.gz", folder / "in.jsonl.gz", times)

    books = """\
  books:
    read: {kind: jsonl, paths: in.jsonl.gz}
    steps: [{gopher_quality: {max_words: off}}]
"""
    peak, text = growth(tmp_path, write, books, until="collect", most=80 * MIB)
    assert text > 100 * MIB
    assert peak < 80 * MIB


if __name__ == "__main__":
    main()
