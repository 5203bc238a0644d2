"""Gates: rules on what a record states about itself, applied before extraction costs anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from curate.stage import Stage

if TYPE_CHECKING:
    import pyarrow as pa

HTML_TYPES = ("text/html", "application/xhtml+xml")


class Gate(Stage):
    """Which records are worth extracting. A record that does not state a property passes its gate.

    Attributes:
        status: HTTP status codes that pass, or off.
        media_types: Media types of undecoded payloads that pass (lower case, without parameters), or off.
        languages: Declared languages that pass (`pt` lets `pt-BR` through), or None for all.
        max_bytes: Largest payload or text, in bytes.
    """

    status: tuple[int, ...] | Literal["off"] = (200,)
    media_types: tuple[str, ...] | Literal["off"] = HTML_TYPES
    languages: tuple[str, ...] | None = None
    max_bytes: Annotated[int, Field(ge=1)] = 16 << 20

    def check(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Any, str] | None]:
        """Yield for each row of a RAW batch the gate that stops it, or None.

        Yields:
            Rule name, measured value and bound in words.
        """
        rows = zip(
            batch["status"].to_pylist(),
            batch["media_type"].to_pylist(),
            batch["language"].to_pylist(),
            _lengths(batch["content"]),
            _lengths(batch["text"]),
            strict=True,
        )
        for status, media_type, language, payload, text in rows:
            if self.status != "off" and status is not None and status not in self.status:
                yield "gate.status", status, "in " + ", ".join(map(str, self.status))
            elif (
                payload is not None and self.media_types != "off" and media_type and media_type not in self.media_types
            ):
                yield "gate.media_type", media_type, "in " + ", ".join(self.media_types)
            elif self.languages is not None and language and not _covers(self.languages, language):
                yield "gate.language", language, "in " + ", ".join(self.languages)
            elif payload == 0:
                yield "gate.empty_body", 0, ">= 1"
            elif (payload or text or 0) > self.max_bytes:
                yield "gate.max_bytes", payload or text, f"<= {self.max_bytes}"
            else:
                yield None


def _lengths(column: pa.Array) -> list[int | None]:
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths: list[int | None] = pc.binary_length(column.cast(pa.large_binary())).to_pylist()
    return lengths


def _covers(languages: tuple[str, ...], declared: str) -> bool:
    """Return whether a declared tag such as pt-BR is one of the languages, or a variety of one (RFC 4647, basic filtering)."""
    tag = declared.lower().replace("_", "-")
    return any(tag == language.lower() or tag.startswith(language.lower() + "-") for language in languages)
