"""The real documents on which other implementations' decisions were recorded, found again by file, row and digest.

No text is kept here: a document is a file of `$CURATE_DATA`, a row, and how its text follows from it.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CURATE_DATA") or HERE.parents[3] / "shared" / "data")

# file, number of rows taken, one of so many, how the text follows from the row
SETS = (
    ("02_gold/wcxb/gold.jsonl", 240, 1, "text"),
    ("02_gold/wcxb/gold.jsonl", 80, 3, "page"),
    ("02_gold/scrapinghub/gold.jsonl", 26, 4, "text"),
    ("02_gold/template_docs/gold.jsonl", 78, 1, "text"),
    ("02_gold/template_docs_ptbr/gold.jsonl", 30, 1, "text"),
    ("02_gold/daniel/gold.jsonl", 26, 5, "text"),
    ("02_gold/zh_handcrafted/gold.jsonl", 12, 3, "text"),
    ("04_books/books.jsonl.gz", 53, 1, "chunk"),
    ("05_code/code.jsonl.gz", 60, 60, "text"),
)
# Programs on which DCLM's quality rules and Dolma's decide apart: on prose they hardly ever do (6 of the 605 documents).
APART = ("05_code/code.jsonl.gz", "text")
APART_ROWS = (184, 210, 222, 236, 312, 318, 468, 608, 1848, 1850, 1930, 1976, 2018, 2042, 2148, 2302, 2312, 2332, 2360)
APART_ROWS += (
    2366,
    2398,
    2400,
    2418,
    2448,
    2470,
    2486,
    2544,
    2782,
    2804,
    2826,
    2838,
    2898,
    2970,
    3012,
    3048,
    3124,
    3190,
)
APART_ROWS += (3368, 3396, 3468, 3522, 3528, 3570, 3574, 3576, 3584)
MOST_CHARS = 60_000  # of a text: the recorded implementations are slow
_CHUNK = (20_000, 32_000)
_NO_TEXT = re.compile(r"(?is)<(script|style|noscript|template)\b.*?</\1\s*>|<!--.*?-->")
_TAG = re.compile(r"(?s)<[^>]*>")
_SPACE_AT_ENDS = re.compile(r"[^\S\n]*\n\s*")


class Document(NamedTuple):
    """Where a text is, and the first half of its sha256."""

    file: str
    row: int
    how: str
    digest: str


def digest(text: str) -> str:
    """Return the first 32 hex digits of the sha256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file."""
    stored = path.read_bytes()
    yield from map(json.loads, (gzip.decompress(stored) if path.suffix == ".gz" else stored).splitlines())


def text_of(data: Path, row: dict[str, Any], how: str) -> str:
    """Return a row's text: as it stands, a piece of it, or what its page shows, navigation and all."""
    if how == "page":
        source = gzip.decompress((data / "02_gold" / row["html"]).read_bytes()).decode("utf-8", "replace")
        shown = html.unescape(_TAG.sub("\n", _NO_TEXT.sub("\n", source)))
        return _SPACE_AT_ENDS.sub("\n", shown).strip()[:MOST_CHARS]
    text = row["text"]
    return text[slice(*_CHUNK)] if how == "chunk" else text[:MOST_CHARS]


def choose(data: Path) -> Iterator[tuple[Document, str]]:
    """Yield the documents of `SETS` that have at least 20 characters, with their texts."""
    for file, most, every, how in SETS:
        taken = 0
        for number, row in enumerate(rows(data / file)):
            if number % every or taken == most:
                continue
            text = text_of(data, row, how)
            if len(text) >= 20:
                taken += 1
                yield Document(file, number, how, digest(text)), text


def choose_apart(data: Path) -> Iterator[tuple[Document, str]]:
    """Yield the documents of `APART_ROWS`, with their texts."""
    file, how = APART
    for number, row in enumerate(rows(data / file)):
        if number in APART_ROWS:
            text = text_of(data, row, how)
            yield Document(file, number, how, digest(text)), text


def recorded(name: str) -> dict[str, Any]:
    """Return a recording: `documents`, or that of an implementation."""
    return json.loads(gzip.decompress((HERE / f"{name}.json.gz").read_bytes()))


def replayed(data: Path, which: str = "documents") -> list[tuple[Document, str]]:
    """Return the recorded documents with their texts.

    Args:
        data: The real inputs.
        which: The list: "documents", or "apart".

    Raises:
        ValueError: If a text is not the one that was recorded.
        OSError: If a file is not there.
    """
    listed = [Document(*entry) for entry in recorded(which)]
    wanted = {(document.file, document.row): document for document in listed}
    found: list[tuple[Document, str]] = []
    for file in dict.fromkeys(document.file for document in listed):
        numbers = {row for name, row in wanted if name == file}
        kept = {number: row for number, row in enumerate(rows(data / file)) if number in numbers}
        for document in listed:
            if document.file == file:
                text = text_of(data, kept[document.row], document.how)
                if digest(text) != document.digest:
                    raise ValueError(f"{file}, row {document.row}: not the text that was recorded; use the same data")
                found.append((document, text))
    order = {document: number for number, document in enumerate(listed)}
    return sorted(found, key=lambda pair: order[pair[0]])
