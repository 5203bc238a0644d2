"""Records whose fields lie deeper: what datatrove and Dolma write, and fields named by a path such as `meta.url`.

- `flat`: a record's fields are what they are called.
- `datatrove` (JsonlWriter, ParquetWriter): `text`, `id` and an object `metadata` with `url`, `date`, `language`, ...
- `dolma` (the Dolma toolkit's documents): besides, `source`, `added`, `created`. `metadata.warc_url`, `metadata.lang` and
  `created` serve where there is no `url`, `language` and `date`.

In both the members of `metadata` become fields of the record; one whose name is taken stays below `metadata`. Null members
and an empty list `media` are left out. Dolma's attribute files hold no text: name the documents alone in `paths`. An
object `attributes` inside the documents stays in the metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

Layout = Literal["flat", "datatrove", "dolma"]

_DOLMA_NAMES = {"url": ("warc_url",), "language": ("lang",), "date": ("created",)}  # ours, and what serves for it


def arranged(record: dict[str, Any], layout: Layout, wanted: Iterable[str | None]) -> dict[str, Any]:
    """Return a record with the wanted fields at its top. May change the record given.

    Args:
        record: Names to JSON values.
        layout: See above.
        wanted: Names of fields; one with dots that is no field itself is a path, and what it leads to moves up.
    """
    if layout != "flat":
        record = _unfolded(record)
    if layout == "dolma":
        for name, others in _DOLMA_NAMES.items():
            for other in others:
                if record.get(name) in (None, "") and record.get(other) not in (None, ""):
                    record[name] = record.pop(other)
    for path in wanted:
        if path is not None and "." in path and path not in record:
            _lift(record, path)
    return record


def column_of(field: str, columns: Iterable[str]) -> str:
    """Return the column in which a field lies: of its own name, else the first part of a path."""
    return field if field in columns else field.partition(".")[0]


def _unfolded(record: dict[str, Any]) -> dict[str, Any]:
    inner = record.get("metadata")
    if isinstance(inner, dict):
        del record["metadata"]
        members = {name: value for name, value in inner.items() if value is not None}
        taken = {name: value for name, value in members.items() if name in record and record[name] is not None}
        record |= {name: value for name, value in members.items() if name not in taken}
        if taken:
            record["metadata"] = taken
    for name, empty in (("media", []), ("metadata", None)):
        if name in record and record[name] == empty:
            del record[name]
    return record


def _lift(record: dict[str, Any], path: str) -> None:
    *above, name = path.split(".")
    inside: Any = record
    for part in above:
        inside = inside.get(part) if isinstance(inside, dict) else None
    if isinstance(inside, dict) and name in inside:
        record[path] = inside.pop(name)
