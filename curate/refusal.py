"""Where in a recipe a settings class was not satisfied, and what the user may have meant."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from curate.yamlfile import Key

# What other tools call a key of ours.
_ELSEWHERE = {
    "threshold": "verify",
    "similarity": "verify",
    "jaccard": "verify",
    "num_bands": "bands",
    "rows_per_band": "rows",
    "n_gram": "ngram",
    "ngram_size": "ngram",
    "path": "paths",
    "files": "paths",
    "budget": "tokens",
    "learning_rate": "lr",
    "model": "preset",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean '...'` if a known name is near, or what another tool's name is called here, or nothing."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"; did you mean '{near[0]}'"
    elsewhere = difflib.get_close_matches(name, _ELSEWHERE, n=1, cutoff=0.7)
    if elsewhere and _ELSEWHERE[elsewhere[0]] in known:
        return f"; what other tools call '{elsewhere[0]}' is '{_ELSEWHERE[elsewhere[0]]}' here"
    return ""


def fields(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the keys that a settings class knows."""
    return tuple(model.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in typing.get_args(annotation) for model in _models_in(inner)]


def model_at(model: type[BaseModel], location: Key) -> type[BaseModel] | None:
    """Return the settings class at a path inside another one."""
    current = model
    for part in location:
        info = current.model_fields.get(str(part))
        if info is None:
            continue
        inner = _models_in(info.annotation)
        if not inner:
            return None
        current = inner[0]
    return current


def real_location(model: type[BaseModel], location: Key) -> Key:
    """Drop the parts of a pydantic location that name no key of the recipe (members of a union, tuple positions stay)."""
    kept: list[str | int] = []
    current: type[BaseModel] | None = model
    inside_value = False
    for part in location:
        if isinstance(part, int):
            kept.append(part)
        elif current is not None and part in current.model_fields:
            kept.append(part)
            inner = _models_in(current.model_fields[part].annotation)
            current, inside_value = (inner[0], False) if inner else (None, True)
        elif (
            current is not None
            and not inside_value
            and not re.search(r"[\[\]()]|^(str|int|float|bool|literal|function)", part)
        ) or (inside_value and re.match(r"[A-Za-z0-9_.\-*]+\Z", part) and part not in ("str", "int", "float", "bool")):
            kept.append(part)
    return tuple(kept)
