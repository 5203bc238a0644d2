"""Where the paths of a recipe lead: variables expanded, the demo made on first use, files listed with their digests."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from curate.cache import Cache, key_of, sha256_file
from curate.errors import InputError, Problem, RecipeError
from curate.gate import Gate
from curate.inputs import InputFile, expand_variables, is_remote, list_inputs
from curate.plan import Task
from curate.read.token_files import TokenFiles
from curate.recipe import Recipe, SourceRecipe, StepBlock, TokenSourceRecipe
from curate.stage import Source


def resolve_paths(paths: Sequence[str], recipe: Recipe, cache: Cache, key: str) -> list[InputFile]:
    """Return the files that paths of a recipe mean: variables expanded, `demo://` made on first use.

    Raises:
        RecipeError: If a path matches nothing; file and line of the recipe are named.
    """
    expanded = [demo_path(expand_variables(path), cache) for path in paths]
    try:
        return list_inputs(expanded, recipe.base, cache)
    except InputError as error:
        raise RecipeError((Problem(key, str(error), None, recipe.places.get(key, "")),)) from error


def with_local_models(recipe: Recipe, cache: Cache) -> tuple[Recipe, list[dict[str, Any]]]:
    """Return a recipe whose steps name local files where it has addresses of models, and what the manifest says of them.

    A model is fetched once: one whose `sha256` the step states is looked for in the cache by that alone, any other by
    address, size and version, for which its server is asked.

    Raises:
        InputError: If a model cannot be fetched, or has another digest than is stated.
    """
    sources: list[SourceRecipe] = []
    facts: list[dict[str, Any]] = []
    for source in recipe.sources:
        blocks: list[StepBlock] = []
        for block in source.steps:
            step = block.step
            stated = getattr(step, "sha256", None)
            found: dict[str, str] = {}
            for name in step.files if step is not None else ():
                address = getattr(step, name, None)
                if isinstance(address, str) and is_remote(address):
                    path = fetch_model(address, stated, cache)
                    found[name] = str(path)
                    facts.append(
                        {"source": source.name, "block": block.name, "url": address, "sha256": cache.digest(path)}
                    )
            if step is not None and found:
                block = replace(block, step=step.model_copy(update=found), written=block.written or step)
            blocks.append(block)
        sources.append(replace(source, steps=tuple(blocks)))
    return replace(recipe, sources=tuple(sources)), facts


def fetch_model(address: str, stated: str | None, cache: Cache) -> Path:
    """Return the local copy of a remote file, which has the digest that is stated, if one is."""
    from curate.remote import download, list_remote

    folder = cache.root / "models"
    known = folder / (stated or "")
    if stated is not None and known.is_file() and cache.digest(known) == stated:
        return known
    files = list_remote(address)
    if len(files) != 1:
        raise InputError(address, f"{len(files)} files match, where a model is one.", "Name one file.")
    remote = files[0][1]
    target = known if stated is not None else folder / remote.digest
    if stated is None and target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{target.name}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        download(remote, partial)
        found = sha256_file(partial)
        if stated is not None and found != stated:
            remedy = "Correct `sha256:`, or find out why the file is another one."
            raise InputError(address, f"sha256 is {found}, not {stated}, as the recipe states.", remedy)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def refuse_own(files: Sequence[InputFile], key: str, recipe: Recipe, folders: Sequence[Path]) -> None:
    """Refuse inputs that lie in the run folder or among the cache's results: a run must not read what runs write."""
    for own in (folder.resolve() for folder in folders):
        inside = [file.url for file in files if not is_remote(file.url) and own in Path(file.url).resolve().parents]
        if inside:
            message = (
                f"{inside[0]} lies in {own}, which runs write. Choose another --output or --cache, or narrower paths."
            )
            raise RecipeError((Problem(key, message, None, recipe.places.get(key, "")),))


def list_sources(
    recipe: Recipe, cache: Cache, own: Sequence[Path]
) -> tuple[list[tuple[str, Source, list[InputFile]]], dict[str, Any]]:
    """Return name, reader and input files of each source of a recipe, and what the manifest says of them by name.

    Raises:
        RecipeError: If a path matches nothing, a file that lies in one of the folders `own`, which runs write, or only
            files that the reader passes over.
    """
    found = []
    facts: dict[str, Any] = {}
    for source in recipe.sources:
        key = f"sources.{source.name}.read.paths"
        files = resolve_paths(source.paths, recipe, cache, key)
        refuse_own(files, key, recipe, own)
        if problem := nothing_to_read(source.reader, [file.path for file in files]):
            raise RecipeError((Problem(key, problem, None, recipe.places.get(key, "")),))
        read = [file for file in files if not source.reader.passes_over(file.path)]
        reasons = Counter(reason for file in files if (reason := source.reader.passes_over(file.path)))
        around = source.reader.surroundings([(file.url, file.path) for file in read])
        read = [replace(file, around=one) if one else file for file, one in zip(read, around, strict=True)]
        found.append((source.name, source.reader, read))
        facts[source.name] = {"files": [input_facts(file) for file in read]}
        if reasons:
            facts[source.name]["passed_over"] = dict(sorted(reasons.items()))
    return found, facts


def nothing_to_read(reader: Source | TokenFiles, paths: Sequence[str]) -> str:
    """Return why a reader would read none of these files, or an empty string if it would read some."""
    reasons = Counter(reader.passes_over(path) for path in paths)
    if not reasons or "" in reasons:
        return ""
    why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
    return f"{len(paths):,} files match, and none of them is read: {why}."


def demo_path(path: str, cache: Cache) -> str:
    """Return a `demo://` path as a path in the cache; others unchanged."""
    if not path.startswith("demo://"):
        return path
    from curate.read.demo import ensure_demo

    return str(ensure_demo(cache.root) / path.removeprefix("demo://"))


def input_facts(file: InputFile) -> dict[str, Any]:
    """Return what the manifest says of an input file: its sha256, or for a remote one the digest of address, size and etag."""
    return {"path": file.path, "bytes": file.bytes, "etag_digest" if is_remote(file.url) else "sha256": file.digest}


def removal_task(source: SourceRecipe, recipe: Recipe, cache: Cache) -> tuple[Task | None, dict[str, Any]]:
    """Return the task that compiles the removal lists of a source, None without any, and what the manifest says of them.

    Raises:
        RecipeError: If a list's file is not there, or an entry of the recipe is the name of a file.
    """
    from curate.phases.removal import VERSION, ListInputs, compile_lists

    found: dict[str, ListInputs] = {}
    facts: dict[str, Any] = {}
    for name in ("ids", "urls"):
        listed = getattr(source.gate.remove, name)
        if listed is None:
            continue
        key = f"sources.{source.name}.gate.remove.{name}"
        for entry in listed.entries:
            if (recipe.base / entry).is_file():
                message = f"{entry!r} is a file, where a list holds the entries themselves. Write {{files: [{entry}]}}."
                raise RecipeError((Problem(key, message, None, recipe.places.get(key, "")),))
        files = resolve_paths(listed.files, recipe, cache, key) if listed.files else []
        found[name] = ListInputs(tuple(files), listed.entries)
        facts[name] = {"files": [input_facts(file) for file in files], "entries": len(listed.entries)}
    if not found:
        return None, {}
    content = {name: [sorted(file.digest for file in one.files), sorted(one.entries)] for name, one in found.items()}
    key = key_of(phase="extract", removal=(VERSION, Gate.version), lists=content)
    task = Task(
        "extract", source.name, "removal lists", (key,), compile_lists, (key, found.get("ids"), found.get("urls"))
    )
    return task, facts


def list_token_files(
    source: TokenSourceRecipe, recipe: Recipe, cache: Cache, tokenizer_sha256: str
) -> tuple[list[tuple[InputFile, InputFile | None]], dict[str, Any]]:
    """Return the token files of a source, each with its index or None, and what the manifest says of them.

    An index is looked for among the files that match, and beside a local file.

    Raises:
        RecipeError: If a path matches nothing, or nothing that is read.
        InputError: If a manifest of ours beside a file names another tokenizer.
    """
    from curate.read.token_files import index_names

    key = f"sources.{source.name}.read.paths"
    files = resolve_paths(source.paths, recipe, cache, key)
    if problem := nothing_to_read(source.reader, [file.path for file in files]):
        raise RecipeError((Problem(key, problem, None, recipe.places.get(key, "")),))
    matched = {file.url: file for file in files}
    found: list[tuple[InputFile, InputFile | None]] = []
    for file in files:
        if source.reader.passes_over(file.path):
            continue
        index = next((matched[name] for name in index_names(file.url) if name in matched), None)
        if file.remote is None:
            beside = [name for name in index_names(file.url) if Path(name).is_file()]
            index = index or (list_inputs(beside[:1], recipe.base, cache)[0] if beside else None)
            _same_tokenizer(Path(file.url), tokenizer_sha256)
        found.append((file, index))
    shown = [input_facts(file) | ({} if index is None else {"index": input_facts(index)}) for file, index in found]
    return found, {"files": shown, **source.stated.values()}


def check_token_files(recipe: Recipe, cache: Cache, tokenizer_sha256: str, vocab_size: int) -> None:
    """Open the local token files of a recipe, without reading them through.

    Raises:
        RecipeError: If a path matches nothing.
        InputError: If a file contradicts itself, its index or the settings, or is another tokenizer's.
    """
    from curate.read.token_files import open_tokens

    for source in recipe.token_sources:
        for file, index in list_token_files(source, recipe, cache, tokenizer_sha256)[0]:
            if file.remote is None and (index is None or index.remote is None):
                place = None if index is None else Path(index.url)
                open_tokens(Path(file.url), file.path, place, source.reader, vocab_size)


def _same_tokenizer(path: Path, sha256: str) -> None:
    """Refuse token shards of ours that another tokenizer made."""
    try:
        known = json.loads((path.parent / "manifest.json").read_bytes()).get("tokenizer_sha256")
    except (OSError, ValueError, AttributeError):
        return
    if isinstance(known, str) and known != sha256:
        problem = f"the manifest beside it says that another tokenizer made it ({known[:12]}..., not {sha256[:12]}...)."
        raise InputError(str(path), problem, "Load the tokenizer of that run: the folder tokenizer in its folder.")
