"""Gates: rules on what a record states about itself, applied before extraction costs anything.

Whom others asked to leave out goes first: by a list of ids or addresses (`remove`), by a mark of the page (`opt_out`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from curate.listed import Listed
from curate.optout import Mark, header_marks, page_marks
from curate.stage import Settings, Stage
from curate.text.addresses import listed_address
from curate.text.languages import TWO_LETTERS

if TYPE_CHECKING:
    import pyarrow as pa

    from curate.removal import RemovalLists

HTML_TYPES = ("text/html", "application/xhtml+xml")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+\-]+/[a-z0-9!#$&^_.+\-]+")  # RFC 6838, section 4.2, in lower case
_LANGUAGE_TAG = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*")  # RFC 5646, by its shape


class Remove(Settings):
    """Documents that someone asked to leave out.

    Attributes:
        ids: Ids of documents, ours (32 hex digits) or the input's own, compared as they are.
        urls: Hosts, pages and prefixes, compared in the canonical form of `curate.text.addresses`.

    The content of the lists is part of what the texts of the source depend on: with another list the source is read anew.
    """

    ids: Listed | None = None
    urls: Listed | None = None

    @field_validator("urls")
    @classmethod
    def _addresses(cls, urls: Listed | None) -> Listed | None:
        for entry in urls.entries if urls is not None else ():
            try:
                listed_address(entry)
            except ValueError as error:
                raise ValueError(f"{entry!r}: {error}") from None
        return urls


class Gate(Stage):
    """Which records are worth extracting. A record that does not state a property passes its gate.

    Attributes:
        remove: Lists of ids and addresses to leave out.
        opt_out: Marks that stop a page (`curate.optout`), or off. By default those that speak of training or mining.
        status: HTTP status codes that pass, or off.
        media_types: Media types of undecoded payloads that pass (lower case, without parameters), or off.
        languages: Declared languages that pass (`pt` lets `pt-BR` through), or None for all.
        max_bytes: Largest payload or text, in bytes.

    Rules, in this order: gate.removed_id, gate.removed_url, gate.status, gate.media_type, gate.language, gate.empty_body,
    gate.max_bytes, gate.opt_out.
    """

    version: ClassVar[int] = 3

    remove: Remove = Remove()
    opt_out: tuple[Mark, ...] | Literal["off"] = ("noai", "noml", "tdm")
    status: tuple[int, ...] | Literal["off"] = (200,)
    media_types: tuple[str, ...] | Literal["off"] = HTML_TYPES
    languages: tuple[str, ...] | None = None
    max_bytes: Annotated[int, Field(ge=1)] = 16 << 20

    @field_validator("status")
    @classmethod
    def _codes(cls, status: tuple[int, ...] | str) -> tuple[int, ...] | str:
        for code in status if isinstance(status, tuple) else ():
            if not 100 <= code <= 599:
                raise ValueError(f"{code} is no HTTP status: they are 100 to 599, such as 200")
        return status

    @field_validator("media_types")
    @classmethod
    def _types(cls, types: tuple[str, ...] | str) -> tuple[str, ...] | str:
        for one in types if isinstance(types, tuple) else ():
            if not _MEDIA_TYPE.fullmatch(one):
                raise ValueError(
                    f"{one!r} is no media type: write it in lower case without parameters, such as text/html"
                )
        return types

    @field_validator("languages")
    @classmethod
    def _tags(cls, languages: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for one in languages or ():
            tag = _LANGUAGE_TAG.fullmatch(one)
            if tag is None or (len(tag[1]) == 2 and tag[1].lower() not in TWO_LETTERS):
                raise ValueError(f"{one!r} is no language tag: write codes of ISO 639, such as en, pt-BR or ast")
        return languages

    def without_lists(self) -> Gate:
        """Return the gate without its lists, which count by their content and not by their paths."""
        return self.model_copy(update={"remove": Remove()})

    def check(
        self, batch: pa.RecordBatch, ids: Sequence[str], lists: RemovalLists | None = None
    ) -> Iterator[tuple[str, Any, str] | None]:
        """Yield for each row of a RAW batch the gate that stops it, or None.

        Args:
            batch: Documents.
            ids: Their ids.
            lists: The compiled lists of `remove`, if it names any.

        Yields:
            Rule name, measured value and bound in words.
        """
        listed = self._listed(batch, ids, lists)
        rows = zip(
            batch["status"].to_pylist(),
            batch["media_type"].to_pylist(),
            batch["language"].to_pylist(),
            _lengths(batch["content"]),
            _lengths(batch["text"]),
            strict=True,
        )
        for row, (status, media_type, language, payload, text) in enumerate(rows):
            if listed[row] is not None:
                yield listed[row]
            elif self.status != "off" and status is not None and status not in self.status:
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
                yield self._marked(batch, row)

    def _listed(
        self, batch: pa.RecordBatch, ids: Sequence[str], lists: RemovalLists | None
    ) -> list[tuple[str, Any, str] | None]:
        if lists is None:
            return [None] * batch.num_rows
        by_id = lists.removed_ids(ids, batch["source_id"].to_pylist())
        by_url = lists.removed_urls(batch["url"].to_pylist())
        return [
            ("gate.removed_id", one, "not in remove.ids")
            if one is not None
            else ("gate.removed_url", other, "not in remove.urls")
            if other is not None
            else None
            for one, other in zip(by_id, by_url, strict=True)
        ]

    def _marked(self, batch: pa.RecordBatch, row: int) -> tuple[str, Any, str] | None:
        if self.opt_out == "off":
            return None
        in_headers = header_marks(batch["metadata"][row].as_py())
        for mark, place in chain(in_headers, page_marks(batch["content"][row].as_py(), self.opt_out)):
            if mark in self.opt_out:
                return "gate.opt_out", f"{mark} ({place})", "without " + ", ".join(self.opt_out)
        return None


def _lengths(column: pa.Array) -> list[int | None]:
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths: list[int | None] = pc.binary_length(column.cast(pa.large_binary())).to_pylist()
    return lengths


def _covers(languages: tuple[str, ...], declared: str) -> bool:
    """Return whether a declared tag such as pt-BR is one of the languages, or a variety of one (RFC 4647, basic filtering)."""
    tag = declared.lower().replace("_", "-")
    return any(tag == language.lower() or tag.startswith(language.lower() + "-") for language in languages)
