"""Stable hashes: document ids, and the one way in which a random choice is made.

A random choice hashes (seed, id), never a rank, worker or clock, so the same document meets the same luck on every
machine. `purpose` keeps choices apart that share a seed: being drawn for validation must not tell where in the
training order a document stands.
"""

from __future__ import annotations

import hashlib


def document_id(source: str, pattern: int | None, path: str, offset: int, part: int) -> str:
    """Return the 128-bit id of a document as 32 hex digits.

    Args:
        source: Name of the source in the recipe.
        pattern: Index of the path pattern that found the file, or None if the source has one pattern only.
        path: Path of the file relative to the fixed prefix of its pattern, with forward slashes.
        offset: Where the record starts (see `curate.document.RAW`).
        part: Sub-index inside the record.
    """
    fields = (source, "" if pattern is None else str(pattern), path, str(offset), str(part))
    digest = hashlib.blake2b(digest_size=16, person=b"curate.document")
    for field in fields:
        data = field.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "little") + data)  # lengths: "a"+"bc" is not "ab"+"c"
    return digest.hexdigest()


def choice_hash(seed: int, document: str, purpose: str) -> int:
    """Return 64 uniform bits for a choice about `document` (an id), the same everywhere and for ever."""
    key = seed.to_bytes(16, "little", signed=True)
    return int.from_bytes(
        hashlib.blake2b(document.encode(), digest_size=8, key=key, person=purpose.encode()[:16]).digest(), "little"
    )
