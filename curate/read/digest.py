"""Digests as WARC headers state them: `sha1:` and base32 mostly, but other algorithms and hexadecimal are met, too."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

ALGORITHMS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")


def mismatch(declared: str, forms: Iterable[bytes | memoryview]) -> str:
    """Return the digest of the first of `forms`, as base32, if that of none is the declared one; else an empty string.

    Args:
        declared: Algorithm and value, `sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ`. Nothing is said against an algorithm that
            is not known.
        forms: What the digest may be of: crawlers differ in whether they take the payload before or after decoding.
    """
    name, _, value = declared.partition(":")
    algorithm = name.strip().lower().replace("-", "")
    value = value.strip()
    if algorithm not in ALGORITHMS or not value:
        return ""
    first = ""
    for form in forms:
        digest = hashlib.new(algorithm, form, usedforsecurity=False).digest()
        base32 = base64.b32encode(digest).decode().rstrip("=")
        if value.rstrip("=").upper() == base32 or value.lower() == digest.hex():
            return ""
        if value == base64.b64encode(digest).decode():
            return ""
        first = first or f"{algorithm}:{base32}"
    return first
