"""Equal documents, by hash of the normalised text.

Normal form: Unicode NFC, every run of white space (as `str.split` knows it) one space, none at either end. Case and
punctuation count. So copies that differ in line wraps, indentation, trailing blanks or composed accents are equal, and
nothing else is.
"""

from __future__ import annotations

import unicodedata

import xxhash

from curate.text.addresses import page_key


def normal_form(text: str) -> str:
    """Return the text by which exact copies are equal."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def exact_hash(text: str | None) -> str:
    """Return the stable 128-bit hash (xxh3_128 of UTF-8) of the normal form, as 32 hex digits; null counts as empty."""
    return xxhash.xxh3_128_hexdigest(normal_form(text or "").encode("utf-8", "surrogatepass"))


def url_hash(url: str | None) -> str | None:
    """Return the hash by which documents of one address are equal (32 hex digits), or None for a text that is no address."""
    page = page_key(url) if url else None
    return page if page is None else xxhash.xxh3_128_hexdigest(page.encode("utf-8", "surrogatepass"))


EMPTY = exact_hash("")  # texts of white space alone: copies of nothing, never a cluster
