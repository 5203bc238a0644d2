"""Labels of validation documents: what a validation set is divided by, besides its source.

A document's domain is the first of these that it has: the programming language of a source file, the host of its address,
the first folder of its path. Code from one host is of many languages, prose of one language from many hosts. Collections of
code state the language where those of prose state theirs, as `language` or `lang`: what names one that computers speak is it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from curate.text.addresses import parse_address
from curate.tokens.shard import LABELLED_SPLITS, LABELS

LABELLED = pa.schema([pa.field("id", pa.string(), nullable=False), *LABELS])
READS = ("id", "split", "url", "path", "language", "metadata")
_WWW = re.compile(r"\Awww\d*\.(?=.*\.)")  # not of a host that is no more than that and a top-level domain
_CODE = "programming_language"
_ANY = ("language", "lang")


def domain_of(
    url: str | None, path: str, stated: str | None, metadata: str | None, is_code: Callable[[str], bool]
) -> str | None:
    """Return the domain of a document, or None if nothing tells.

    Args:
        url: Its address.
        path: Of its file, below what the pattern fixes.
        stated: Its language as it was declared.
        metadata: JSON object; `programming_language`, `language` and `lang` are looked at.
        is_code: Whether the name of a language is that of a programming language.
    """
    if metadata and any(f'"{key}"' in metadata for key in (_CODE, *_ANY)):
        fields = json.loads(metadata)
        language = fields.get(_CODE)
        if isinstance(language, str) and language:
            return language
        for key in _ANY:
            if isinstance(fields.get(key), str) and is_code(fields[key]):
                return str(fields[key])
    if stated and is_code(stated):
        return stated
    address = parse_address(url) if url else None
    if address is not None:
        return _WWW.sub("", address.host)
    folder, slash, _ = path.partition("/")
    return folder if slash and folder else None


def label(batches: Iterable[pa.RecordBatch], is_code: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
    """Yield the labels of documents in the splits that have some, in order, with schema `LABELLED`.

    Args:
        batches: With the columns `READS`.
        is_code: Whether the name of a language is that of a programming language.
    """
    for batch in batches:
        some = batch.filter(pc.is_in(batch["split"], pa.array(LABELLED_SPLITS)))
        told = zip(*(some[name].to_pylist() for name in ("url", "path", "language", "metadata")), strict=True)
        domains = [domain_of(url, path, stated, metadata, is_code) for url, path, stated, metadata in told]
        columns = {
            "id": some["id"],
            "domain": pa.array(domains, pa.string()),
            "language": some["language"],
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in LABELLED.names], schema=LABELLED)
