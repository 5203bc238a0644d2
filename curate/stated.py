"""What a recipe states about a source as a whole: its licence, and whether people or machines wrote it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field

from curate.stage import Stage

if TYPE_CHECKING:
    import pyarrow as pa

Provenance = Literal["human", "synthetic", "mixed", "unknown"]
# Under what names inputs keep the licence of a document (source trees, The Stack, TEI, Hugging Face).
LICENCE_KEYS = (
    "license",
    "licence",
    "licenses",
    "license_url",
    "rights",
    "max_stars_repo_licenses",
    "detected_licenses",
)


class Stated(Stage):
    """Statements that go into the metadata of each curated document, the manifest and the report.

    They are added when the corpus is collected: a new statement reads and measures nothing anew.

    Attributes:
        licence: Of the source's documents, best an SPDX expression; in the metadata as `license`. A document whose own
            licence is known keeps that one.
        provenance: Who wrote the texts; in the metadata as `provenance`. Another value that the input has under this name
            moves to `input_provenance`.
    """

    version: ClassVar[int] = 1

    licence: Annotated[str, Field(min_length=1)] | None = None
    provenance: Provenance | None = None

    def values(self) -> dict[str, str]:
        """Return what is stated."""
        stated = {"licence": self.licence, "provenance": self.provenance}
        return {name: value for name, value in stated.items() if value is not None}

    def add(self, metadata: pa.Array) -> pa.Array:
        """Return a metadata column with the statements in each row; unchanged if there are none."""
        import pyarrow as pa

        if not self.values():
            return metadata
        return pa.array([self._added(value) for value in metadata.to_pylist()], pa.large_string())

    def _added(self, metadata: str | None) -> str:
        known: dict[str, Any] = json.loads(metadata) if metadata else {}
        if self.licence is not None and not any(known.get(key) for key in LICENCE_KEYS):
            known["license"] = self.licence
        if self.provenance is not None:
            own = known.get("provenance")
            if own is not None and own not in get_args(Provenance):
                known["input_provenance"] = own
                own = None
            known["provenance"] = own or self.provenance
        return json.dumps(known, ensure_ascii=False, separators=(",", ":"))
