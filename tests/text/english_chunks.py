"""The distinct chunks between white space of the real texts that `record_english.py` asked spaCy about; digests.

Imports nothing of curate: it runs beside spaCy, and beside our own splitter.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

LONGEST = 2000  # characters of a chunk


def texts_of(data: Path, corpus: str) -> Iterator[str]:
    """Yield the texts of a corpus: documents, pages as they are, lines of pages."""
    if corpus == "02_gold":
        for path in sorted((data / corpus).glob("*/gold.jsonl")):
            with path.open(encoding="utf-8") as lines:
                yield from (json.loads(line).get("text") or "" for line in lines)
        for path in sorted((data / corpus).glob("*/html/*.gz")):
            yield gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    elif corpus == "03_raw_html":
        with gzip.open(data / corpus / "raw.warc.gz") as file:
            for line in file:
                yield line.decode("utf-8", "replace")
    else:
        [path] = (data / corpus).glob("[bc]o*.jsonl.gz")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for row in lines:
                yield json.loads(row)["text"]


CORPORA = ("02_gold", "03_raw_html", "04_books", "05_code")


def distinct_chunks(data: Path, corpus: str) -> list[str]:
    """Return the distinct chunks of a corpus, sorted."""
    found: set[str] = set()
    for text in texts_of(data, corpus):
        found.update(text.split())
    return sorted(chunk for chunk in found if len(chunk) <= LONGEST)


def digests(chunks: Iterable[str], split: Callable[[str], Sequence[str]]) -> dict[str, object]:
    """Return the number of chunks and of tokens, and a digest of all tokens of all chunks."""
    digest = hashlib.sha256()
    num_chunks = num_tokens = 0
    for chunk in chunks:
        tokens = split(chunk)
        num_chunks += 1
        num_tokens += len(tokens)
        digest.update("\x1f".join(tokens).encode() + b"\n")
    return {"chunks": num_chunks, "tokens": num_tokens, "sha256": digest.hexdigest()}
