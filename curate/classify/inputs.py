"""What a path on the command line is read as, by its ending."""

from __future__ import annotations

from typing import Any

_KINDS = {
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "parquet": "parquet",
    "epub": "books",
    "warc": "warc",
    "wet": "warc",
    "arc": "warc",
}
_COMPRESSED = ("gz", "zst", "bz2", "xz", "lz4", "br")


def source_block(path: str, text: str) -> dict[str, Any]:
    """Return the block of a recipe's source that reads a path: archives through `auto`, unknown endings as text files.

    Args:
        path: Path or pattern.
        text: Field that holds the text, of JSON Lines and Parquet.
    """
    parts = path.lower().rsplit("/", 1)[-1].split(".")
    while len(parts) > 1 and parts[-1] in _COMPRESSED:
        parts.pop()
    read: dict[str, Any] = {"kind": _KINDS.get(parts[-1], "files"), "paths": path}
    if read["kind"] in ("jsonl", "parquet"):
        read["text"] = text
    return {"read": read} | ({"extract": {"kind": "auto"}} if read["kind"] == "warc" else {})
