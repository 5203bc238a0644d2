"""The tokenizer that a recipe loads: its file, here or fetched, and the marks that the files beside it tell."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.cache import Cache
from curate.errors import InputError, Problem, RecipeError
from curate.inputs import expand_variables, is_remote
from curate.recipe import Recipe
from curate.remote import list_remote
from curate.sources import demo_path, fetch_model
from curate.tokens.settings import TokenizerSettings
from curate.tokens.tokenizer import TOKENIZER_FILES, is_json, read_card, tokenizer_file

# Where transformers notes the marks, the first that tells counts: names, and ids as models use them.
_NAMES = ("tokenizer_config.json", "special_tokens_map.json")
_IDS = ("generation_config.json", "config.json")


@dataclass(frozen=True, slots=True)
class LoadedTokenizer:
    """What a recipe's `tokenizer: {load: ...}` comes to.

    Attributes:
        path: The file on this machine.
        digest: Its sha256.
        settings: The recipe's, with the marks that the files beside it name where the recipe names none.
    """

    path: Path
    digest: str
    settings: TokenizerSettings


def find_tokenizer(recipe: Recipe, cache: Cache) -> LoadedTokenizer:
    """Return the tokenizer that a recipe names; a remote one is fetched into the cache, once.

    Raises:
        RecipeError: If there is no such file; line and file of the recipe are named.
        InputError: If it cannot be fetched, or a file beside it cannot be read.
    """
    settings = recipe.tokenizer
    assert settings is not None
    assert settings.load is not None
    place = demo_path(expand_variables(settings.load), cache)
    if is_remote(place):
        place = _remote_file(place)
        path = fetch_model(place, None, cache)
    else:
        path = tokenizer_file((recipe.base / Path(place.removeprefix("file://")).expanduser()).resolve())
        place = str(path)
        if not path.is_file():
            problem = f"{path}: no such file. Check the path; it is relative to the recipe file's folder."
            raise RecipeError((Problem("tokenizer.load", problem, None, recipe.places.get("tokenizer.load", "")),))
    settings = _told(settings, path, place, cache)
    return LoadedTokenizer(path, cache.digest(path), settings)


def _remote_file(place: str) -> str:
    """Return the address of the tokenizer's file, where an address may be that of a folder."""
    if place.endswith((".model", ".json")):
        return place
    folder = place.rstrip("/")
    names = {name.rpartition("/")[2] for name, _ in list_remote(f"{folder}/tokenizer.*")} & set(TOKENIZER_FILES)
    if len(names) != 1:
        one, other = TOKENIZER_FILES
        raise InputError(place, f"holds {'both' if names else 'neither'} {one} and {other}.", "Name the file.")
    return f"{folder}/{names.pop()}"


def _told(settings: TokenizerSettings, path: Path, place: str, cache: Cache) -> TokenizerSettings:
    """Return the settings with the marks that the files beside the tokenizer name."""
    update: dict[str, Any] = {}
    if settings.eos is None:
        update["eos"] = told_mark("eos", path, place, cache)
    if settings.bos is True:
        update["bos"] = told_mark("bos", path, place, cache) or True
    return settings.model_copy(update=update)


def told_mark(key: str, path: Path, place: str, cache: Cache | None = None) -> str | None:
    """Return the name of a mark by the first file beside the tokenizer that tells it: a card of ours, or transformers' files.

    Args:
        key: eos or bos.
        path: Of the tokenizer's file on this machine.
        place: Its path, or its address.
        cache: Where files of an address are kept.
    """
    if isinstance(mark := read_card(path).get(key), str):
        return mark
    with path.open("rb") as file:
        if not is_json(file.read(64)):
            return None  # a sentencepiece model has marks of its own
    for name in _NAMES:
        mark = _beside(place, name, cache).get(f"{key}_token")
        mark = mark.get("content") if isinstance(mark, dict) else mark
        if isinstance(mark, str) and mark:
            return mark
    for name in _IDS:
        token = _beside(place, name, cache).get(f"{key}_token_id")
        if isinstance(token, int):  # several are those at which generation stops, which need not end a document
            added = json.loads(_bytes(place, cache) or b"{}").get("added_tokens") or []
            return next((str(one["content"]) for one in added if one.get("id") == token), None)
    return None


def _beside(place: str, name: str, cache: Cache | None) -> dict[str, Any]:
    file = place[: len(place) - len(re.split(r"[/\\]", place)[-1])] + name
    data = _bytes(file, cache)
    if data is None:
        return {}
    try:
        value = json.loads(data)
    except ValueError as error:
        remedy = "Repair or remove it, or set tokenizer.eos (and tokenizer.bos)."
        raise InputError(file, f"is no JSON ({error}).", remedy) from error
    return value if isinstance(value, dict) else {}


def _bytes(file: str, cache: Cache | None) -> bytes | None:
    """Return the content of a file, or None where there is none."""
    if cache is None or not is_remote(file):
        path = Path(file)
        return path.read_bytes() if path.is_file() else None
    try:
        return fetch_model(file, None, cache).read_bytes()
    except InputError:
        return None  # most repositories have some of these files only
