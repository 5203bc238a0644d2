"""What the benchmarks of a recipe are: files found, those of a dataset brought together, each benchmark named."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from curate.benchmarks.items import refuse_first
from curate.errors import InputError, Problem, RecipeError
from curate.inputs import expand_variables, is_remote, list_inputs
from curate.phases.benchmark_files import BenchmarkInputs
from curate.read.huggingface import HuggingFace, split_of
from curate.refusal import nearest
from curate.sources import demo_path

if TYPE_CHECKING:
    from curate.benchmarks.sources import BenchmarkSource
    from curate.cache import Cache
    from curate.inputs import InputFile
    from curate.recipe import Recipe

_ABOUT = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")  # what a saved dataset holds
_SHARD = re.compile(r"-\d{5}-of-\d{5}\b")
_TRAINING = re.compile(r"(?:\A|_)train\Z")  # `auxiliary_train` too


DECONTAMINATE, EVALUATE = "decontaminate.benchmarks", "evaluate.tasks"  # where a recipe lists benchmarks


def _sources(recipe: Recipe, section: str) -> tuple[BenchmarkSource, ...]:
    settings = recipe.evaluate if section == EVALUATE else recipe.decontaminate
    return settings.sources if settings is not None else ()


def benchmark_inputs(recipe: Recipe, cache: Cache | None, section: str = DECONTAMINATE) -> list[BenchmarkInputs]:
    """Return the benchmarks that a recipe lists in a section, in order, each file in one of them.

    Args:
        recipe: The recipe.
        section: `DECONTAMINATE` or `EVALUATE`.
        cache: For digests, and for `demo://`; None leaves out what is on other machines or made on first use.

    Raises:
        RecipeError: A path that matches nothing, or nothing new, or a split or configuration that is not there: file and
            line of the recipe are named.
    """
    found: list[BenchmarkInputs] = []
    taken: set[str] = set()
    for number, source in enumerate(_sources(recipe, section)):
        path = expand_variables(source.path)
        if cache is None and is_remote(path):
            continue
        try:
            path = path if cache is None else demo_path(path, cache)
            files, passed_over, is_dataset = _files(source, path, recipe.base, cache)
            new = [file for file in files if _place(file) not in taken]
            if not new:
                remedy = "Take this one out: its items would count twice."
                raise InputError(source.path, "every file of it is read as a benchmark before it.", remedy)
        except InputError as error:
            raise _refused(recipe, section, number, str(error)) from error
        taken |= {_place(file) for file in new}
        together = source.name is not None or is_dataset
        name = source.name or (_dataset_name(path) if is_dataset else "")
        groups = [new] if together else [[file] for file in new]
        mapping = source.mapping or ""
        found += [BenchmarkInputs(number, name, tuple(group), mapping, source.fields, passed_over) for group in groups]
    names = _names(found)
    for number, name in enumerate(names):
        if name in names[:number]:
            message = f"another benchmark is called '{name}' as well. Give this one a `name`."
            raise _refused(recipe, section, found[number].entry, message)
    return [replace(one, name=name) for one, name in zip(found, names, strict=True)]


def check_benchmarks(recipe: Recipe) -> None:
    """Refuse before any work local benchmarks that are not there, or whose first row does not fit their mapping.

    Raises:
        RecipeError: File and line of the recipe; file, row, field of the benchmark; remedy.
    """
    for section in (DECONTAMINATE, EVALUATE):
        for benchmark in benchmark_inputs(recipe, None, section):
            try:
                refuse_first(benchmark.local(_local(benchmark)))
            except InputError as error:
                raise _refused(recipe, section, benchmark.entry, str(error)) from error


def check_groups(recipe: Recipe, names: Sequence[str]) -> None:
    """Refuse groups of tasks that name what is none of them.

    Raises:
        RecipeError: The group, the nearest name, and all names.
    """
    for group, members in recipe.evaluate.groups.items() if recipe.evaluate is not None else ():
        for member in members:
            if member not in names:
                message = f"'{member}' is no task{nearest(member, names)} Tasks: {', '.join(names)}."
                key = f"evaluate.groups.{group}"
                raise RecipeError((Problem(key, message, None, recipe.places.get(key, "")),))


def count_task_items(recipe: Recipe) -> dict[str, int]:
    """Return how many items each local benchmark of `evaluate.tasks` gives: all of its files are read.

    Raises:
        RecipeError: If one gives none, or a group names none of them; file and line of the recipe.
    """
    benchmarks = benchmark_inputs(recipe, None, EVALUATE)
    if not benchmarks:
        return {}
    from curate.benchmarks.items import read_benchmark
    from curate.benchmarks.mappings import FOR_TASKS
    from curate.evaluate.cloze import clozes, no_task

    if not any(is_remote(expand_variables(source.path)) for source in _sources(recipe, EVALUATE)):
        check_groups(recipe, [benchmark.name for benchmark in benchmarks])
    counts = {}
    for benchmark in benchmarks:
        try:
            read = read_benchmark(benchmark.local(_local(benchmark), FOR_TASKS))
            found, without = clozes(read)
        except InputError as error:
            raise _refused(recipe, EVALUATE, benchmark.entry, str(error)) from error
        if not found:
            message = f"{benchmark.name}: {' '.join(no_task(read, without))}"
            raise _refused(recipe, EVALUATE, benchmark.entry, message)
        most = recipe.evaluate.items if recipe.evaluate is not None else None
        counts[benchmark.name] = min(len(found), most or len(found))
    return counts


def _local(benchmark: BenchmarkInputs) -> list[Path]:
    return [Path(file.url.removeprefix("file://")) for file in benchmark.files]


def _refused(recipe: Recipe, section: str, entry: int, message: str) -> RecipeError:
    key = f"{section}.{entry}"
    return RecipeError((Problem(key, message, None, recipe.places.get(key, "")),))


def _place(file: InputFile) -> str:
    return file.url if is_remote(file.url) else str(Path(file.url.removeprefix("file://")).resolve())


def _files(
    source: BenchmarkSource, path: str, base: Path, cache: Cache | None
) -> tuple[list[InputFile], dict[str, int], bool]:
    """Return the files that a path means and that are read, the others counted by reason, and whether they are one dataset.

    Raises:
        InputError: If there are none.
    """
    files = list_inputs([path], base, cache)
    if not _is_folder(path, base, files):
        if source.split is None and source.config is None:
            return files, {}, False
        is_dataset = False
    else:
        names = [file.path for file in files]
        is_dataset = path.startswith("hf://") or any(
            name.split("/")[-1] in _ABOUT or _SHARD.search(name) is not None for name in names
        )
    everything = HuggingFace(split="all", config=source.config)
    splits = list(dict.fromkeys(split_of(file.path) for file in files if not everything.passes_over(file.path)))
    wanted = source.split or (_tested(splits) if is_dataset else "all")
    reader = HuggingFace(split=wanted, config=source.config)
    read = [file for file in files if not reader.passes_over(file.path)]
    reasons = Counter(reason for file in files if (reason := reader.passes_over(file.path)))
    if not read:
        why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
        asked = (wanted,) if isinstance(wanted, str) else wanted
        meant = nearest(asked[0], splits) if source.split is not None and splits else "."
        known = f" Splits: {', '.join(splits)}." if splits else ""
        if not known and path.startswith("hf://datasets/"):
            owner = "/".join(path.split("/")[3:5]).partition("@")[0]
            known = f" Public datasets have a copy in Parquet: hf://datasets/{owner}@~parquet."
        raise InputError(source.path, f"no file of it is read ({why}){meant}", f"Name what is there.{known}")
    return read, dict(sorted(reasons.items())), is_dataset


def _is_folder(path: str, base: Path, files: Sequence[InputFile]) -> bool:
    """Return whether a path names a folder, and no file or pattern."""
    if not is_remote(path):
        local = base / Path(path.removeprefix("file://")).expanduser()
        return local.is_dir()
    pattern = any(sign in path for sign in "*[")
    return not pattern and not (len(files) == 1 and path.rstrip("/").endswith("/" + files[0].path))


def _tested(splits: Sequence[str]) -> str | tuple[str, ...]:
    """Return the splits that models are tested on: all but those for training, or all if there are no others."""
    return tuple(split for split in splits if not _TRAINING.search(split)) or "all"


def _dataset_name(path: str) -> str:
    """Return the name of a dataset: on the hub what stands behind its owner, else the folder's."""
    parts = path.rstrip("/").split("/")
    if path.startswith("hf://datasets/"):
        parts = parts[3:5]
    return parts[-1].partition("@")[0]


def _names(found: Sequence[BenchmarkInputs]) -> list[str]:
    """Return a name for each benchmark, the shortest that tells it apart: base name, relative path, or address."""
    short = [one.name or Path(one.files[0].path).name.partition(".")[0] for one in found]
    paths = [one.files[0].path for one in found]
    names = []
    for name, one in zip(short, found, strict=True):
        file = one.files[0]
        unique = short.count(name) == 1 or bool(one.name)
        names.append(name if unique else file.path if paths.count(file.path) == 1 else file.url)
    return names
