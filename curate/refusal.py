"""Where in a recipe a settings class was not satisfied, and what the user may have meant."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from curate.yamlfile import Key

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# What other tools call a key of ours.
_ELSEWHERE = {
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


_LONGEST_SHOWN = 80
# pydantic's error types, as what a value must be; its own messages name Python's types.
_WANTED = {
    "dict_type": "be a mapping of keys",
    "mapping_type": "be a mapping of keys",
    "tuple_type": "be a list, such as [a, b]",
    "list_type": "be a list, such as [a, b]",
    "set_type": "be a list, such as [a, b]",
    "frozen_set_type": "be a list, such as [a, b]",
    "bool_type": "be true or false",
    "int_type": "be a whole number",
    "int_from_float": "be a whole number",
    "float_type": "be a number",
    "finite_number": "be a finite number",
    "string_type": "be text",
    "literal_error": "be {expected}",
    "greater_than": "be above {gt}",
    "greater_than_equal": "be at least {ge}",
    "less_than": "be below {lt}",
    "less_than_equal": "be at most {le}",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: what was meant, if a known name is near, or a full stop.

    `; did you mean 'paths'?`, `; what other tools call 'n_gram' is 'ngram' here.` or `.`
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"; did you mean '{near[0]}'?"
    elsewhere = difflib.get_close_matches(name, _ELSEWHERE, n=1, cutoff=0.7)
    if elsewhere and _ELSEWHERE[elsewhere[0]] in known:
        return f"; what other tools call '{elsewhere[0]}' is '{_ELSEWHERE[elsewhere[0]]}' here."
    return "."


def unknown_key(name: str, known: Sequence[str]) -> str:
    """Return the message about a key that nobody knows."""
    return f"unknown key{nearest(name, known)} Known keys: {', '.join(known)}."


def wanted_mapping(known: Sequence[str]) -> str:
    """Return what a section must be, to follow `must`."""
    return f"be a mapping of keys ({', '.join(known)})" if known else "be {}, as it has no settings"


def shown(value: Any) -> str:
    """Return a value as messages show it: as YAML writes it, cut where it is long."""
    text = "nothing" if value is None else _flow(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _flow(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return repr(value)


def refusals(
    error: ValidationError, model: type[BaseModel], value: Any, around: Sequence[str]
) -> list[tuple[Key, str]]:
    """Return what a settings class refused: path inside the value, and what would be right.

    Args:
        error: What pydantic says; each member of a union is one error of it.
        model: The settings class.
        value: What it was given.
        around: Keys that stand beside its own.
    """
    found: dict[Key, list[ErrorDetails]] = {}
    for one in error.errors():
        parts = tuple(one["loc"])
        named = one["type"] in ("extra_forbidden", "missing")  # the last part is a key, whatever its name
        location = (*real_location(value, parts[:-1]), parts[-1]) if named else real_location(value, parts)
        found.setdefault(location, []).append(one)
    # A mapping or a list chose its member of the union: only what is wrong in it counts.
    inside = {key[:length] for key in found for length in range(len(key))}
    messages: list[tuple[Key, str]] = []
    for location, errors in found.items():
        if location not in inside or not isinstance(errors[0]["input"], Mapping | tuple):
            messages += [(location, message) for message in _messages(errors, model, location, around)]
    return messages


def _messages(
    errors: Sequence[ErrorDetails], model: type[BaseModel], location: Key, around: Sequence[str]
) -> list[str]:
    first = errors[0]
    if first["type"] == "extra_forbidden":
        known = fields(model_at(model, location[:-1]) or model)
        return [unknown_key(str(location[-1]), (*around, *known) if len(location) == 1 else known)]
    if first["type"] == "missing":
        return ["is missing."]
    own = [one["msg"].removeprefix("Value error, ") for one in errors if one["type"] == "value_error"]
    if own:  # says what may stand here, other members of a union included
        return [message if message.endswith("?") else message.rstrip(".") + "." for message in dict.fromkeys(own)]
    first_wanted, *others = dict.fromkeys(_wanted(one, model, location) for one in errors)
    wanted = " or ".join([first_wanted, *(other.removeprefix("be ") for other in others)])
    hint = " (write it in quotes)" if wanted == "be text" and isinstance(first["input"], bool | int | float) else ""
    return [f"must {wanted}; got {shown(first['input'])}{hint}."]


def _wanted(one: ErrorDetails, model: type[BaseModel], location: Key) -> str:
    """Return what a value must be, to follow `must`."""
    kind, context = one["type"], one.get("ctx", {})
    if kind in ("model_type", "model_attributes_type"):
        named = [inner for inner in _models_at(model, location) if inner.__name__ == context.get("class_name")]
        return wanted_mapping(fields(named[0] if named else model))
    if kind in _WANTED:
        numbers = {name: f"{bound:g}" if isinstance(bound, float) else bound for name, bound in context.items()}
        return _WANTED[kind].format(**numbers)
    if kind in ("too_short", "string_too_short", "too_long", "string_too_long"):
        end, count = ("least", context["min_length"]) if "short" in kind else ("most", context["max_length"])
        what = "character" if kind.startswith("string") else "entry"
        return f"have at {end} {count} {what if count == 1 else {'entry': 'entries'}.get(what, what + 's')}"
    return one["msg"].removeprefix("Input should ").removeprefix("Value should ")


def fields(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the keys that a settings class knows."""
    return tuple(model.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in typing.get_args(annotation) for model in _models_in(inner)]


def model_at(model: type[BaseModel], location: Key) -> type[BaseModel] | None:
    """Return the settings class at a path inside another one, the first where several may stand."""
    return next(iter(_models_at(model, location)), None)


def _models_at(model: type[BaseModel], location: Key) -> list[type[BaseModel]]:
    current = [model]
    for part in location:
        info = current[0].model_fields.get(str(part))
        if info is None:
            continue
        current = _models_in(info.annotation)
        if not current:
            break
    return current


def real_location(value: Any, location: Key) -> Key:
    """Drop the parts of a pydantic location that are no path in the value, such as members of a union."""
    kept: list[str | int] = []
    for part in location:
        in_list = isinstance(value, tuple) and isinstance(part, int) and part < len(value)
        if not in_list and not (isinstance(value, Mapping) and part in value):
            continue
        value = value[part]
        kept.append(part)
    return tuple(kept)
