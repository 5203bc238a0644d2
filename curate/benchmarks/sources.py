"""What a recipe can say of one benchmark: where it lies and which fields of its rows hold what."""

from __future__ import annotations

import difflib
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from curate.benchmarks.fields import Fields
from curate.benchmarks.mappings import NAMES
from curate.stage import Settings


class BenchmarkSource(Settings):
    """A benchmark with settings of its own; a path alone is one without.

    Attributes:
        path: A file, a pattern, a folder, or the same behind an fsspec URL: JSON Lines (plain, gzip, zstd), one JSON array,
            Parquet, or Arrow. A dataset on the hub (`hf://datasets/owner/name`, with the extra `huggingface`) or one that
            `save_to_disk` wrote is one benchmark; of any other folder or pattern each file is one.
        name: What reports call it; then all its files are one benchmark. By default the name of file or dataset.
        mapping: Name of a shipped mapping; `general` is the rule for files without one. By default a file whose columns
            are those of a shipped mapping has it.
        fields: A mapping of its own.
        split: Of a dataset: `all`, or names of splits. By default every split but `train`, unless there is no other.
        config: Of a dataset: folder in which the files of a configuration lie; without it every folder's are read.
    """

    path: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)] | None = None
    mapping: str | None = None
    fields: Fields | None = None
    split: str | Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    config: str | None = None

    @field_validator("mapping")
    @classmethod
    def _ships(cls, mapping: str | None) -> str | None:
        if mapping is not None and mapping not in NAMES:
            near = difflib.get_close_matches(mapping, NAMES, n=1, cutoff=0.5)
            raise ValueError(
                f"no mapping '{mapping}' ships; did you mean '{near[0]}'?"
                if near
                else f"no mapping '{mapping}' ships: write `fields`, or one of {', '.join(NAMES)}"
            )
        return mapping

    @model_validator(mode="after")
    def _one_mapping(self) -> BenchmarkSource:
        if self.mapping is not None and self.fields is not None:
            raise ValueError("has both `mapping` and `fields`: keep one of them")
        return self
