"""Removal lists: which documents the ids and addresses of a list mean. Compiled, they are sorted 64-bit hashes.

The lines of a list of addresses are those of `curate.text.addresses`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from curate.text.addresses import hash_of, looked_up, shown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint64]  # shape (entries,), ascending


def listed_id(line: str) -> str:
    """Return an id as it is compared: without white space and angle brackets around it (WARC record ids)."""
    return line.strip().strip("<>").strip()


@dataclass(frozen=True, slots=True)
class RemovalLists:
    """The compiled lists of one source.

    Two texts share a hash with probability 2^-64: among ten million entries, one look-up in 1.8 million million is
    answered wrongly.

    Attributes:
        ids: Hashes of listed ids, or None without such a list.
        urls: Hashes of the forms of listed addresses, or None without such a list.
    """

    ids: Hashes | None
    urls: Hashes | None

    def removed_ids(self, ids: Sequence[str], source_ids: Sequence[str | None]) -> list[str | None]:
        """Return for each document the id that is listed, ours or the input's own, or None."""
        forms = [[one, *([listed_id(own)] if own else [])] for one, own in zip(ids, source_ids, strict=True)]
        return _first_listed(self.ids, forms)

    def removed_urls(self, urls: Sequence[str | None]) -> list[str | None]:
        """Return for each document the form that is listed, or None; a document without an address is never listed."""
        forms = [list(looked_up(url)) if url else [] for url in urls]
        return [None if form is None else shown(form) for form in _first_listed(self.urls, forms)]


def _first_listed(hashes: Hashes | None, forms: Sequence[Sequence[str]]) -> list[str | None]:
    import numpy as np

    if hashes is None or not len(hashes):
        return [None] * len(forms)
    wanted = np.fromiter((hash_of(form) for row in forms for form in row), np.uint64)
    places = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
    hits: Iterator[Any] = iter((hashes[places] == wanted).tolist())
    return [next((form for form, hit in [(form, next(hits)) for form in row] if hit), None) for row in forms]
