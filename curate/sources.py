"""Where the paths of a recipe lead: variables expanded, the demo made on first use, files listed with their digests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curate.cache import Cache
from curate.errors import InputError, Problem, RecipeError
from curate.inputs import InputFile, expand_variables, is_remote, list_inputs
from curate.recipe import Recipe


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


def demo_path(path: str, cache: Cache) -> str:
    """Return a `demo://` path as a path in the cache; others unchanged."""
    if not path.startswith("demo://"):
        return path
    from curate.read.demo import ensure_demo

    return str(ensure_demo(cache.root) / path.removeprefix("demo://"))


def input_facts(file: InputFile) -> dict[str, Any]:
    """Return what the manifest says of an input file: its sha256, or for a remote one the digest of address, size and etag."""
    return {"path": file.path, "bytes": file.bytes, "etag_digest" if is_remote(file.url) else "sha256": file.digest}


def benchmark_names(files: Sequence[InputFile]) -> list[str]:
    """Return a name for each benchmark file, the shortest that tells it apart: base name, relative path, or address."""
    short = [Path(file.path).name.partition(".")[0] for file in files]
    paths = [file.path for file in files]
    names = []
    for name, file in zip(short, files, strict=True):
        names.append(name if short.count(name) == 1 else file.path if paths.count(file.path) == 1 else file.url)
    return names
