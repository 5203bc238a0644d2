"""Documents known to be good: gold texts that people verified, books, or any folder that the user names."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.errors import UsageError
from curate.read.jsonl import Jsonl
from curate.read.parquet import Parquet
from curate.stage import Source
from curate.text.decoding import decode

DATA = "CURATE_DATA"

# What is taken below $CURATE_DATA where no folder is named: texts that people made or verified (02_gold's README says of
# each set which those are), documentation cut out of known templates, and books. Left out are sets whose gold is the
# output of an extractor, a prefix or snippets.
STANDARD = {
    "wcxb": "02_gold/wcxb/gold.jsonl",
    "scrapinghub": "02_gold/scrapinghub/gold.jsonl",
    "daniel": "02_gold/daniel/gold.jsonl",
    "zh_handcrafted": "02_gold/zh_handcrafted/gold.jsonl",
    "template_docs": "02_gold/template_docs/gold.jsonl",
    "template_docs_ptbr": "02_gold/template_docs_ptbr/gold.jsonl",
    "books": "04_books/books.jsonl.gz",
}

_KINDS = ("kind", "page_type", "genre", "type")  # fields that say what a document is, the first that is there counts
_LANGUAGES = ("language", "lang")
_TEXT = (".txt", ".md", ".text")
_READERS: Mapping[str, Source] = {".jsonl": Jsonl(), ".ndjson": Jsonl(), ".parquet": Parquet()}
_COMPRESSED = (".gz", ".zst", ".lz4")


@dataclass(frozen=True, slots=True)
class GoodDocument:
    """A document that a filter should keep.

    Attributes:
        id: Its own id, or the file's path.
        collection: The folder it is from.
        kind: What it is: article, documentation, book, ...; the collection where nothing says so.
        language: As stated, or unknown.
    """

    id: str
    text: str
    url: str | None
    collection: str
    kind: str
    language: str


def good_files(folder: Path | None) -> list[tuple[str, Path]]:
    """Return (collection, file) of the documents to read, in order.

    Args:
        folder: JSON Lines, Parquet or text files, plain or compressed, also in subfolders: each of these is a
            collection. None: the standard sets below $CURATE_DATA.

    Raises:
        UsageError: If there is nothing to read.
    """
    if folder is None:
        root = os.environ.get(DATA)
        found = [(collection, Path(root, name)) for collection, name in STANDARD.items()] if root else []
        found = [(collection, path) for collection, path in found if path.is_file()]
        if not found:
            where = (
                f"${DATA} is not set" if not root else f"${DATA} ({root}) has none of {', '.join(STANDARD.values())}"
            )
            raise UsageError(
                f"audit: no known-good documents: {where}. "
                "Name a folder of JSON Lines, Parquet or text files: --good DIR."
            )
        return found
    if not folder.is_dir():
        raise UsageError(f"--good {folder}: no such folder.")
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and kind_of(path))
    if not paths:
        kinds = ", ".join((*_READERS, *_TEXT))
        raise UsageError(f"--good {folder}: no file in it ends in {kinds} (or these with {', '.join(_COMPRESSED)}).")
    return [(_collection(folder, path), path) for path in paths]


def _collection(folder: Path, path: Path) -> str:
    inside = path.relative_to(folder).parts
    return inside[0] if len(inside) > 1 else path.name.partition(".")[0]


def kind_of(path: Path) -> str:
    """Return the ending that tells how a file is read, or nothing for a file that is not."""
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return next((ending for ending in (*_READERS, *_TEXT) if name.endswith(ending)), "")


def good_documents(files: list[tuple[str, Path]], left_out: Counter[str] | None = None) -> Iterator[GoodDocument]:
    """Yield the documents of some files in order; what cannot be read, or has no text, is left out.

    In JSON Lines and Parquet the text is `text`; `id`, `url`, the language (`language` or `lang`) and what it is
    (`kind`, `page_type`, `genre` or `type`) are taken where they are there.

    Args:
        files: Of `good_files`.
        left_out: Counts what is left out, by file and reason in words.
    """
    counted: Counter[str] = Counter() if left_out is None else left_out
    for collection, path in files:
        ending = kind_of(path)
        if ending in _TEXT:
            yield from _text_file(collection, path, counted)
        else:
            yield from _records(collection, path, _READERS[ending], counted)


def _text_file(collection: str, path: Path, left_out: Counter[str]) -> Iterator[GoodDocument]:
    from curate.read.compression import read_chunks

    with path.open("rb") as file:
        text = decode(b"".join(chunk.data for chunk in read_chunks(file)[1])).text
    if not text.strip():
        left_out[f"{path.name}: no text"] += 1
    elif _is_binary(text):
        left_out[f"{path.name}: not a text file"] += 1
    else:
        yield GoodDocument(path.name, text, None, collection, collection, "unknown")


def _is_binary(text: str) -> bool:
    """Whether what was decoded is no text: more than one character in fifty is a control or stands for damage."""
    odd = sum(sign == "\ufffd" or (sign < " " and sign not in "\t\n\r\f") or "\x7f" <= sign < "\xa0" for sign in text)
    return odd * 50 > len(text)


def _records(collection: str, path: Path, reader: Source, left_out: Counter[str]) -> Iterator[GoodDocument]:
    with path.open("rb") as file:
        for batch in reader.read(file, path.name):
            for row in batch.to_pylist():
                if row["rule"] is not None:
                    left_out[f"{path.name}: {row['detail'] or row['rule']}"] += 1
                    continue
                if not (row["text"] or "").strip():
                    left_out[f"{path.name}: empty text"] += 1
                    continue
                about = json.loads(row["metadata"] or "{}")
                yield GoodDocument(
                    id=row["source_id"] or f"{path.name}:{row['offset']}",
                    text=row["text"],
                    url=row["url"] or None,
                    collection=collection,
                    kind=_first(about, _KINDS) or collection,
                    language=row["language"] or _first(about, _LANGUAGES) or "unknown",
                )


def _first(about: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    found = (about.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value.strip(" ?")), None)
