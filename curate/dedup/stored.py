"""Stored signatures: the columns of their files, and what the manifest beside them says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from curate.dedup.minhash import Signatures

SCHEME = "curate.minhash"


def stored_schema() -> pa.Schema:
    """Return the columns of a file of stored signatures: one row a document of the curated corpus, in its order."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("url", pa.large_string()),
            pa.field("exact_hash", pa.string(), nullable=False),  # 32 hex digits, of the text before cuts
            pa.field("bands", pa.list_(pa.uint64()), nullable=False),  # none if the document has no words
            pa.field("signature", pa.binary()),  # a byte for each permutation; null if the document has no words
        ]
    )


def num_permutations(stage: Signatures) -> int:
    """Return the values of a signature."""
    return stage.bands * stage.rows if stage.permutations is None else stage.permutations


def signature_settings(stage: Signatures) -> dict[str, Any]:
    """Return what two signatures must have in common to be compared: settings by name, and the version of the code."""
    shaping = [name for name in type(stage).model_fields if name not in ("by", "stored")]
    values = {name: getattr(stage, name) for name in shaping}
    return values | {"permutations": num_permutations(stage), "version": stage.version}


def words_version() -> dict[str, str]:
    """Return the versions of what is known of characters: they shape words, of rare scripts at most."""
    import importlib.metadata
    import unicodedata

    return {"unicode": unicodedata.unidata_version, "regex": importlib.metadata.version("regex")}


def stored_manifest(stage: Signatures, files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the content of manifest.json beside stored signatures.

    Args:
        stage: By which they were made.
        files: Of each: path (below the folder), documents, bytes, sha256; in document order.
    """
    return {
        "scheme": SCHEME,
        **signature_settings(stage),
        "words": words_version(),
        "documents": sum(file["documents"] for file in files),
        "files": list(files),
    }


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of stored signatures, as the manifest beside it lists it."""

    path: str
    documents: int
    bytes: int
    sha256: str


def read_manifest(data: bytes) -> tuple[dict[str, Any], tuple[StoredFile, ...]]:
    """Return what `stored_manifest` wrote: all of it, and its files.

    Raises:
        ValueError: If it is none; the message says why.
    """
    try:
        value = json.loads(data)
    except ValueError as error:
        raise ValueError(f"is not valid JSON ({error})") from None
    if not isinstance(value, dict) or value.get("scheme") != SCHEME:
        raise ValueError("is not of stored signatures")
    try:
        names = StoredFile.__dataclass_fields__
        files = tuple(StoredFile(**{name: file[name] for name in names}) for file in value["files"])
        if sum(file.documents for file in files) != value["documents"]:
            raise ValueError("contradicts itself: its files have not as many documents as it says")
    except (KeyError, TypeError) as error:
        raise ValueError(f"is not of stored signatures: {type(error).__name__} {error}") from None
    return value, files
