"""A run: the phases in order over worker processes, their results in one folder, the account balanced."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curate import __version__
from curate.cache import Cache, write_bytes, write_json
from curate.errors import CurateError, FolderInUseError, Problem, RecipeError, UsageError
from curate.implied import warnings_of
from curate.inputs import expand_variables, is_remote, list_inputs
from curate.loading import load
from curate.plan import PHASES
from curate.progress import Progress, make_progress
from curate.recipe import Recipe, SourceRecipe, TokenSourceRecipe
from curate.tasks.benchmarks import check_benchmarks, count_task_items
from curate.tasks.earlier import read_corpora
from curate.tasks.semantic import check_semantic

DEFAULT_MEMORY = 1 << 30

# For the estimates of `check`. Disk: cache and run folder over input bytes, as seen with compressed text. Speeds: what a
# CPU core and an H100 at 40% of its bfloat16 peak do.
_DISK_FACTOR = 3
_PARAMETERS = {"demo-1m": 1.2e6, "15m": 15e6, "30m": 30e6, "60m": 60e6, "150m": 150e6, "400m": 400e6, "1b": 1e9}
_FLOPS_PER_SECOND = {"one CPU core": 4e10, "one H100": 4e14}

MIN_MEMORY = 1 << 16  # less than one buffer of the smallest kind

# The files of a run folder that a run writes, and may therefore remove when a later one does not write them again.
_FOLDERS = (
    "extracted",
    "sizes",
    "measurements",
    "decisions",
    "edits",
    "repeated",
    "documents",
    "signatures",
    "tokenizer",
    "tokens",
)
_OURS = re.compile(
    r"(extracted|sizes|decisions|edits|repeated|documents|signatures)/[^/]+/\d{5}\.parquet"
    r"|signatures/manifest\.json"
    r"|measurements/[^/]+/[^/]+/\d{5}\.parquet"
    r"|tokens/[^/]+(/[^/]+)?/((train|validation)-\d{5}\.(bin|idx|docs\.parquet)|manifest\.json)"
    r"|tokenizer/(tokenizer\.model|tokenizer\.json|card\.json)"
    r"|(duplicates|semantic|earlier|contamination|canaries|tasks|quarantine)\.parquet|mixture\.json|truth\.jsonl|report\.(html|json)"
)
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")
_RESOLVED = "# The resolved recipe:"  # how recipe.yaml of a run folder begins
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?")
_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
}


def parse_size(text: str | int) -> int:
    """Return a size such as 500M, 2G or 1GiB in bytes.

    Raises:
        UsageError: If it is none, or too small to work with.
    """
    match = _SIZE.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    size = text if isinstance(text, int) else int(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
    if size < MIN_MEMORY:
        raise UsageError(f"--memory {text}: write a size of at least {MIN_MEMORY >> 10}KiB, such as 500M, 2G or 1GiB.")
    return size


def default_cache() -> Path:
    """Return the cache folder: $XDG_CACHE_HOME/curate, or ~/.cache/curate."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "curate"


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a finished run left.

    Attributes:
        output: The run folder.
        manifest: Content of manifest.json.
        exit_code: 0, or what the command should return (85: a trainer saved and wants to be started again).
    """

    output: Path
    manifest: Mapping[str, Any]
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do.

    Attributes:
        recipe: The checked recipe.
        phases: The phases that have work.
        sources: Source name to files and bytes; None where they are remote or made on first use, so not looked at.
        disk_bytes: Estimate of what run folder and cache will take.
        train: Estimate of the training runs in words, or None without `train`.
        warnings: Rules that decide nothing, or leave nothing.
        tasks: Number of items of each local benchmark that the models are measured on.
    """

    recipe: Recipe
    phases: tuple[str, ...]
    sources: Mapping[str, tuple[int, int] | None]
    disk_bytes: int
    train: str | None
    warnings: tuple[str, ...] = ()
    tasks: Mapping[str, int] = field(default_factory=dict)


def check(recipe: Recipe | str | Path, *, sets: Iterable[str] = (), allow_code: bool = False) -> Plan:
    """Validate a recipe and say what a run would do. Touches nothing.

    Raises:
        RecipeError: If it cannot work, or a local path matches no file.
    """
    recipe = _loaded(recipe, sets, allow_code)
    from curate.sources import nothing_to_read

    problems = []
    sources: dict[str, tuple[int, int] | None] = {}
    every: tuple[SourceRecipe | TokenSourceRecipe, ...] = (*recipe.sources, *recipe.token_sources)
    for source in every:
        paths = [expand_variables(path) for path in source.paths]
        if any(is_remote(path) for path in paths):
            sources[source.name] = None
            continue
        try:
            files = list_inputs(paths, recipe.base, None)
            if problem := nothing_to_read(source.reader, [file.path for file in files]):
                key = f"sources.{source.name}.read.paths"
                problems.append(Problem(key, problem, None, recipe.places.get(key, "")))
            read = [file.bytes for file in files if not source.reader.passes_over(file.path)]
            sources[source.name] = (len(read), sum(read))
        except CurateError as error:
            key = f"sources.{source.name}.read.paths"
            problems.append(Problem(key, str(error), None, recipe.places.get(key, "")))
    for key, path in _other_inputs(recipe):
        try:
            expanded = expand_variables(path)
            if not is_remote(expanded):
                list_inputs([expanded], recipe.base, None)
        except (CurateError, ValueError) as error:
            problems.append(Problem(key, str(error), None, recipe.places.get(key, "")))
    from curate.training import NO_TORCH, check_trainer, has_torch

    for look in (check_benchmarks, lambda recipe: read_corpora(recipe, None), check_trainer):
        try:
            look(recipe)
        except RecipeError as error:
            problems += error.problems
    tasks: Mapping[str, int] = {}
    if not problems:
        try:
            tasks = count_task_items(recipe)
        except RecipeError as error:
            problems += error.problems
    if problems:
        raise RecipeError(tuple(problems))
    size = sum(found[1] for found in sources.values() if found is not None)
    warnings = tuple(warnings_of(recipe))
    if recipe.train is not None and not has_torch():
        warnings += (NO_TORCH,)
    return Plan(recipe, _phases_of(recipe), sources, _DISK_FACTOR * size, _training(recipe), warnings, tasks)


def _other_inputs(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield key and path of what a recipe reads besides its sources: removal lists, models and embeddings of dedup."""
    semantic = recipe.dedup.semantic if recipe.dedup is not None else None
    if semantic is not None:
        yield from (("dedup.semantic.embeddings", path) for path in semantic.embeddings)
        if semantic.model is not None:
            yield "dedup.semantic.model", semantic.model
    for source in recipe.sources:
        for name in ("ids", "urls"):
            listed = getattr(source.gate.remove, name)
            for path in listed.files if listed is not None else ():
                yield f"sources.{source.name}.gate.remove.{name}", path


def _training(recipe: Recipe) -> str | None:
    """Estimate the training runs by 6 N D (Kaplan et al. 2020, section 2.1): N parameters, D tokens."""
    if recipe.train is None or recipe.mixture is None:
        return None
    tokens = recipe.mixture.tokens
    count = tokens if isinstance(tokens, int) else getattr(tokens, "up_to", None)
    runs = f"{len(recipe.train.seeds)} runs of {recipe.train.preset}"
    if count is None:
        return f"{runs}; tokens as the caps allow"
    flops = 6 * _PARAMETERS[recipe.train.preset] * count
    hours = "; ".join(f"{name} {flops / speed / 3600:.2g} h" for name, speed in _FLOPS_PER_SECOND.items())
    return f"{runs}, {count:,} tokens and about {flops:.1e} FLOPs each; one run takes about: {hours}"


def describe(plan: Plan) -> str:
    """Return what `curate check` prints: the plan, the estimate, the resolved recipe."""
    lines = [f"{plan.recipe.name}: this recipe can run. Phases: {', '.join(plan.phases)}."]
    for name, found in plan.sources.items():
        blocks = [block.name for source in plan.recipe.sources if source.name == name for block in source.steps]
        steps = ", ".join(blocks) or "none"
        size = "not looked at" if found is None else f"{found[0]:,} files, {found[1]:,} bytes"
        lines.append(f"  source {name:<12} {size}; steps: {steps}")
    unknown = " plus what is remote or made on first use" if None in plan.sources.values() else ""
    lines.append(f"  disk            about {plan.disk_bytes:,} bytes for cache and run folder{unknown}")
    if plan.train is not None:
        lines.append(f"  training        {plan.train}")
    if plan.tasks:
        counts = ", ".join(f"{name} {count:,}" for name, count in plan.tasks.items())
        lines.append(f"  tasks           {sum(plan.tasks.values()):,} items: {counts}")
    lines += [f"  warning         {text}" for text in plan.warnings]
    return "\n".join([*lines, "", plan.recipe.as_yaml()])


def cache_usage(cache: str | Path | None) -> str:
    """Return where the store is, how many results it holds and how large they are."""
    root = Path(cache) if cache is not None else default_cache()
    entries = list((root / "entries").glob("??/*/entry.json"))
    size = sum(path.stat().st_size for entry in entries for path in entry.parent.iterdir())
    return f"{root}: {len(entries):,} results, {size:,} bytes (run folders link to the same files)."


def _phases_of(recipe: Recipe) -> tuple[str, ...]:
    skipped = set()
    if not any((recipe.dedup, recipe.validation, recipe.decontaminate)):
        skipped |= {"cluster", "choose"}
    if recipe.decontaminate is None:
        skipped.add("decontaminate")
    if recipe.tokenizer is None:
        skipped |= {"encode", "arrange"}
    if recipe.mixture is None:
        skipped.add("mix")
    if recipe.train is None:
        skipped.add("train")
    return tuple(phase for phase in PHASES if phase not in skipped)


def run(
    recipe: Recipe | str | Path,
    *,
    output: str | Path | None = None,
    cache: str | Path | None = None,
    sets: Iterable[str] = (),
    workers: int | None = None,
    memory: int | str = DEFAULT_MEMORY,
    until: str = PHASES[-1],
    limit: int | None = None,
    sample: float | None = None,
    strict: bool = False,
    allow_code: bool = False,
    train: bool = True,
    quiet: bool = False,
) -> RunResult:
    """Run a recipe.

    Args:
        recipe: A recipe, or the path of one.
        output: The run folder; default runs/<recipe name>.
        cache: Where results are kept by content; default $XDG_CACHE_HOME/curate.
        sets: Overrides such as `dedup.minhash.verify=0.8`, if a path is given.
        workers: Worker processes; default the number of cores.
        memory: Bytes for the buffers of a whole-corpus phase, or a size such as 2G; never changes the result.
        until: Last phase to run, inclusive.
        limit: Documents to read at most from each source.
        sample: Share of documents to read, drawn by (seed, id).
        strict: Fail if a document had to be quarantined.
        allow_code: Whether the recipe may name Python code in its folder.
        train: Whether to launch the training runs.
        quiet: Show warnings only.

    Returns:
        The run folder and its manifest.

    Raises:
        CurateError: With file, row, stage and remedy; `exit_code` says which kind.
    """
    from curate.curation import Curation
    from curate.execute.local import LocalExecutor
    from curate.manifest import Account
    from curate.sources import with_local_models
    from curate.training import Training

    command = _command(recipe, output, sets, until, limit, sample, train=train)
    recipe = _loaded(recipe, sets, allow_code)
    size = parse_size(memory)
    _check_options(until, limit, sample, workers)
    folder = Path(output) if output is not None else Path("runs") / recipe.name
    store = Cache(Path(cache) if cache is not None else default_cache())
    _check_output(folder, store, output)
    progress = make_progress(quiet=quiet)
    with locked(folder):
        _claim(folder)
        store.prepare()
        try:
            warnings = check(recipe).warnings
            for text in warnings:
                progress.note(f"  warning: {text}")
            recipe, models = with_local_models(recipe, store)
            _preflight(recipe, store, folder, train=train)
            _begin(folder, recipe, progress)
            account = Account(recipe.names())
            account.facts |= {"limit": limit, "sample": sample} | ({"models": models} if models else {})
            account.warnings.extend(warnings)
            count = workers or _cores()
            executor = LocalExecutor(store, workers=count, memory=size, modules=recipe.modules)
            with executor:
                curation = Curation(recipe, folder, store, executor, account, progress, limit=limit, sample=sample)
                training = Training(curation, workers=count, train=train)
                _phases(until, curation, training, account, progress)
            facts = {"workers": count, "memory": size, "command": command, "folder": str(Path.cwd())}
            manifest = _finish(curation, account, facts)
            if until == "report":
                curation.files |= {Path("report.html"), Path("report.json")}
            removed = _sweep(folder, curation.files)
            if removed:
                progress.note(
                    f"  note: {removed} files of an earlier run were removed from {folder}; this run does not write them."
                )
            if until == "report":
                from curate.report.collect import write_report

                with _timed(account, "report", progress):
                    write_report(folder)
                write_json(folder / "timings.json", account.timings(facts))
        finally:
            progress.close()
            store.close()
    if strict and not manifest["reproducible"]:
        raise CurateError(
            f"{manifest['quarantined']} documents were quarantined (quarantine.parquet names them) and --strict was given."
        )
    return RunResult(folder, manifest, training.exit_code)


def _loaded(recipe: Recipe | str | Path, sets: Iterable[str], allow_code: bool) -> Recipe:
    """Return the recipe, read from a file if a path is given."""
    sets = (sets,) if isinstance(sets, str) else tuple(sets)
    if not isinstance(recipe, Recipe):
        return load(recipe, sets=sets, allow_code=allow_code)
    if sets:
        raise UsageError("sets: a recipe that is loaded already takes none; give them to load(), or give a path.")
    return recipe


def _command(
    recipe: Recipe | str | Path,
    output: str | Path | None,
    sets: Iterable[str],
    until: str,
    limit: int | None,
    sample: float | None,
    *,
    train: bool,
) -> list[str] | None:
    """Return the command line that does the same, or None for a recipe that was built in memory."""
    if isinstance(recipe, Recipe):
        return None
    options = {
        "--output": output,
        "--limit": limit,
        "--sample": sample,
        "--until": None if until == PHASES[-1] else until,
    }
    words = ["curate", "run", str(recipe)]
    words += [word for name, value in options.items() if value is not None for word in (name, str(value))]
    words += [word for value in ((sets,) if isinstance(sets, str) else sets) for word in ("--set", value)]
    return words + ([] if train else ["--no-train"])


def _check_output(folder: Path, store: Cache, output: str | Path | None) -> None:
    if output is not None and not str(output).strip():
        raise UsageError("--output: is empty. Name a folder.")
    if folder.resolve() == store.root.resolve():
        raise UsageError(f"--output {folder}: is the cache folder. Name another.")


def _claim(folder: Path) -> None:
    """Refuse a folder that holds something else than a run: nothing of the user's is ever overwritten.

    Only under the lock: what another run has begun to write would look like that.

    Raises:
        UsageError: With what is in the way.
    """
    begun = (".lock", ".recipe.yaml.")  # a run that was killed in its first write left no more
    present = sorted(path.name for path in folder.iterdir() if not path.name.startswith(begun))
    if not present:
        return
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if (folder / "recipe.yaml").read_text().startswith(_RESOLVED):
            return
    shown = ", ".join(present[:5]) + (", ..." if len(present) > 5 else "")
    raise UsageError(
        f"--output {folder}: holds something else than a run ({shown}). Name a new or empty folder, or that of a run."
    )


def _cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_options(until: str, limit: int | None, sample: float | None, workers: int | None) -> None:
    if until not in PHASES:
        raise UsageError(f"--until {until}: no such phase. Phases: {', '.join(PHASES)}.")
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: must be at least 1.")
    if sample is not None and not 0 < sample <= 1:
        raise UsageError(f"--sample {sample}: must be above 0 and at most 1.")
    if workers is not None and workers < 1:
        raise UsageError(f"--workers {workers}: must be at least 1.")


def _begin(folder: Path, recipe: Recipe, progress: Progress) -> None:
    """Write recipe.yaml; say what differs if the folder held another recipe's run."""
    text = recipe.as_yaml()
    path = folder / "recipe.yaml"
    try:
        before = path.read_text()
    except OSError:
        before = None
    if before is not None and before != text:
        import difflib

        changed = [
            line
            for line in difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm="", n=0)
            if line[:1] in "+-"
        ]
        shown = "\n".join(f"    {line}" for line in changed[2:22])
        progress.note(f"{folder} holds the run of another recipe; it is replaced. What differs:\n{shown}")
    (folder / "manifest.json").unlink(missing_ok=True)  # until the end, the folder is no finished run
    write_bytes(path, text.encode())


def _preflight(recipe: Recipe, store: Cache, folder: Path, *, train: bool) -> None:
    """Refuse before any work what would fail after hours of it: a tokenizer without its end mark, token files of another, ..."""
    read_corpora(recipe, store, (folder, store.root / "entries"))
    check_semantic(recipe, store)
    settings = recipe.tokenizer
    if settings is not None and settings.load is not None:
        from curate.tokenizer_inputs import find_tokenizer
        from curate.tokens.tokenizer import load_tokenizer

        found = find_tokenizer(recipe, store)
        tokenizer = load_tokenizer(found.path, eos=found.settings.eos, bos=found.settings.bos)
        if recipe.token_sources:
            from curate.sources import check_token_files

            check_token_files(recipe, store, tokenizer.sha256, tokenizer.vocab_size)
    if train and recipe.train is not None:
        from curate.training import NO_TORCH, check_trainer, has_torch

        check_trainer(recipe)
        if not has_torch():
            raise CurateError(NO_TORCH)


def _phases(until: str, curation: Any, training: Any, account: Any, progress: Progress) -> None:
    for phase in PHASES[: PHASES.index(until) + 1]:
        if phase == "report":
            continue  # written last, when the manifest is there
        with _timed(account, phase, progress) as report:
            owner = curation if hasattr(curation, phase) else training
            report.append(getattr(owner, phase)())
        account.check()


@contextlib.contextmanager
def _timed(account: Any, phase: str, progress: Progress) -> Iterator[list[str]]:
    started = time.perf_counter()
    detail: list[str] = []
    yield detail
    record = account.phase(phase)
    record.seconds = time.perf_counter() - started
    progress.done(phase, record.seconds, detail[0] if detail else "")


def _finish(curation: Any, account: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    recipe = curation.recipe
    account.check()
    manifest: dict[str, Any] = account.manifest(
        recipe=recipe.name, seed=recipe.seed, inputs=curation.inputs, version=__version__
    )
    write_json(curation.output / "timings.json", account.timings(facts))
    write_json(curation.output / "manifest.json", manifest)
    return manifest


def _sweep(folder: Path, files: set[Path]) -> int:
    """Remove what an earlier run wrote into the folder and this one did not; return how many files.

    Only files with a run's own names go; links to folders are not followed; folders go when they are empty.
    """
    removed = 0
    for place, folders, names in _walk_up(folder):
        for name in names:
            path = Path(place, name)
            relative = path.relative_to(folder)
            if _TEMPORARY.fullmatch(name):
                path.unlink()
            elif relative not in files and _OURS.fullmatch(relative.as_posix()):
                path.unlink()
                removed += 1
        for name in folders:
            if place != str(folder) or name in _FOLDERS:
                with contextlib.suppress(OSError):  # not empty, or a link
                    Path(place, name).rmdir()
    return removed


def _walk_up(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the folders that a run writes, innermost first, and at last the run folder itself."""
    for name in _FOLDERS:
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            yield from os.walk(folder / name, topdown=False, followlinks=False)
    yield str(folder), list(_FOLDERS), [path.name for path in folder.iterdir() if path.is_file()]


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Hold the run folder: one process at a time. The lock of a dead process is free.

    Raises:
        FolderInUseError: If another process works there.
        CurateError: If the folder cannot be written.
    """
    path = output / ".lock"
    try:
        output.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise CurateError(
            f"{output}: the run folder cannot be written: {error.strerror}. Choose another --output."
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = os.fstat(handle).st_ino == path.stat().st_ino
        except (BlockingIOError, FileNotFoundError):
            ours = False
        if not ours:
            holder = os.pread(handle, 100, 0).decode(errors="replace").strip() or "another process"
            raise FolderInUseError(str(output), holder)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}".encode(), 0)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)
