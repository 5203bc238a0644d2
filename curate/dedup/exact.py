"""Equal documents, by hash of the normalised text.

Normal form: Unicode NFC, every run of white space (as `str.split` knows it) one space, none at either end. Case and
punctuation count. So copies that differ in line wraps, indentation, trailing blanks or composed accents are equal, and
nothing else is.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import xxhash

from curate.text.addresses import page_key

if TYPE_CHECKING:
    import pyarrow as pa


def normal_form(text: str) -> str:
    """Return the text by which exact copies are equal."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def exact_hash(text: str | None) -> str:
    """Return the stable 128-bit hash (xxh3_128 of UTF-8) of the normal form, as 32 hex digits; null counts as empty."""
    return xxhash.xxh3_128_hexdigest(normal_form(text or "").encode("utf-8", "surrogatepass"))


def exact_hashes(texts: pa.Array) -> pa.Array:
    """Return `exact_hash` of each text (large_string), string; no Python object is made of one that is in NFC by the quick check."""
    import numpy as np
    import pyarrow as pa

    from curate.dedup.exact_kernels import fold_spaces, normal_classes
    from curate.text.bits import eight_bytes
    from curate.words import text_arrays

    data, starts, ends = text_arrays(texts)
    room = bytearray(int((ends - starts).max(initial=0)) + 16)
    folded, classes = np.frombuffer(room, np.uint8), normal_classes()
    parts, folded_parts = eight_bytes(data), eight_bytes(folded)
    hashes, view = [], memoryview(room)
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        size = fold_spaces(data, parts, start, end, classes, folded, folded_parts)
        hashes.append(xxhash.xxh3_128_hexdigest(view[:size]) if size >= 0 else exact_hash(texts[row].as_py()))
    return pa.array(hashes, pa.string())


def url_hash(url: str | None) -> str | None:
    """Return the hash by which documents of one address are equal (32 hex digits), or None for a text that is no address."""
    page = page_key(url) if url else None
    return page if page is None else xxhash.xxh3_128_hexdigest(page.encode("utf-8", "surrogatepass"))


EMPTY = exact_hash("")  # texts of white space alone: copies of nothing, never a cluster
