"""Lists as a recipe gives them: text files, or entries written in the recipe itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import field_validator, model_validator

from curate.stage import Settings


class Listed(Settings):
    """A list. A path alone is short for `files`, a list of values for `entries`.

    Attributes:
        files: Paths, patterns or fsspec URLs of text files, plain or compressed (gzip, zstd, lz4): one entry a line,
            `#` at the start of a line or behind white space begins a comment. Paths start at the recipe's folder.
        entries: Values written in the recipe itself.
    """

    files: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"files": (value,)}
        if isinstance(value, tuple):
            return {"entries": value}
        if isinstance(value, Mapping) and isinstance(value.get("files"), str):
            return {**value, "files": (value["files"],)}
        return value

    @field_validator("entries", mode="before")
    @classmethod
    def _numbers_are_ids(cls, value: Any) -> Any:
        numbers = isinstance(value, tuple)
        return tuple(str(one) if type(one) is int else one for one in value) if numbers else value
