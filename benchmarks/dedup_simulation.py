"""Documents whose clusters are known: sizes by a law, members spread over the corpus, keys computed from the number alone.

Nothing is stored but where each cluster begins, so that a shard of any corpus can be made again when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

BANDS = 14
SHARED_OF_1024 = 307  # of the bands of a member of a star, besides one that all its members share
COPIES_OF = 5  # one in so many of the odd members of a star has the text of the member before it

_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_ONE, _LOW_10 = np.uint64(1), np.uint64(1023)
_TURN = np.uint64(0xD6E8FEB86659FD93)

Uint32s = npt.NDArray[np.uint32]
Uint64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]


@numba.njit(cache=True)
def mix(value):
    z = (value ^ (value >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@numba.njit(cache=True)
def mixed(a, b, c):
    return mix(mix(mix(np.uint64(a) + _GAMMA) + np.uint64(b) * _GAMMA) + np.uint64(c) * _GAMMA)


@numba.njit(cache=True)
def place_of(doc, size, bits):
    """Return the place of a document among all, ordered by cluster: a bijection, by walking a permutation of 2^bits."""
    mask = (_ONE << np.uint64(bits)) - _ONE
    half = np.uint64(bits // 2)
    x = np.uint64(doc)
    while True:
        for _ in range(3):
            x = (x * _TURN + _GAMMA) & mask
            x ^= x >> half
        if x < np.uint64(size):
            return np.int64(x)


@numba.njit(cache=True)
def text_of(start, rank):
    """Return the rank of the member whose text this member has: its own, or in stars sometimes that before it."""
    if mixed(start, 0, 1) & _ONE and rank % 2 == 1 and mixed(start, rank, 2) % np.uint64(COPIES_OF) == np.uint64(0):
        return rank - 1
    return rank


@numba.njit(cache=True)
def make_texts(first, size, bits, starts, out):
    for row in range(len(out)):
        place = place_of(first + row, size, bits)
        start = np.int64(starts[place])
        text = text_of(start, place - start)
        out[row, 0] = mixed(start, text, 3)
        out[row, 1] = mixed(start, text, 4)


@numba.njit(cache=True)
def make_bands(first, size, bits, starts, copies, docs, out):
    """Write the band keys of the documents that are no copies; return how many these are.

    All members of a star share one band with its centre, and each of the others with probability 0.3. The members of a
    chain (every second cluster) share one band with the member before and one with the member behind them.
    """
    count = 0
    for row in range(len(copies)):
        if copies[row]:
            continue
        place = place_of(first + row, size, bits)
        start = np.int64(starts[place])
        text = text_of(start, place - start)
        docs[count] = row
        always = start % BANDS
        star = (mixed(start, 0, 1) & _ONE) == _ONE
        for band in range(BANDS):
            key = mixed(start, text, 16 + band)
            if star:
                if band == always or (key >> _S32) & _LOW_10 < np.uint64(SHARED_OF_1024):
                    key = mixed(start, band, 5)
            elif band == always:
                key = mixed(start, text // 2, 6)
            elif band == (always + 1) % BANDS:
                key = mixed(start, (text + 1) // 2, 7)
            out[count, band] = key
        count += 1
    return count


@numba.njit(cache=True)
def fill_starts(sizes, filled, starts):
    """Write for each place where its cluster begins; return the places filled and the clusters begun."""
    for number in range(len(sizes)):
        stop = min(len(starts), filled + sizes[number])
        for place in range(filled, stop):
            starts[place] = filled
        filled = stop
        if filled == len(starts):
            return filled, number + 1
    return filled, len(sizes)


@numba.njit(cache=True)
def check(stop, size, bits, starts, first_docs, first_texts, state, docs, components, exacts):
    """Go on through the documents up to `stop` and compare; return the errors in these rows.

    Args:
        stop: First document not looked at.
        size, bits, starts: Of the simulation.
        first_docs: By cluster's start: 1 + its first document; zeros at the start.
        first_texts: By place of a text's first member: 1 + its first document; zeros at the start.
        state: (next document, members seen), changed in place.
        docs, components, exacts: Rows of components.parquet with documents before `stop`.
    """
    errors = 0
    row = 0
    for doc in range(state[0], stop):
        place = place_of(doc, size, bits)
        start = np.int64(starts[place])
        text = start + text_of(start, place - start)
        if first_docs[start] == 0:
            first_docs[start] = doc + 1
        if first_texts[text] == 0:
            first_texts[text] = doc + 1
        alone = place == start and (place + 1 == size or np.int64(starts[place + 1]) == place + 1)
        if row < len(docs) and docs[row] == doc:
            if (
                alone
                or components[row] != np.int64(first_docs[start]) - 1
                or exacts[row] != np.int64(first_texts[text]) - 1
            ):
                errors += 1
            row += 1
            state[1] += 1
        elif not alone:
            errors += 1
    state[0] = stop
    return errors + len(docs) - row


class Simulation:
    """A corpus of so many documents.

    Attributes:
        sizes: Documents of each shard.
        num_clusters: Those of one document too.
        largest: Documents of the largest cluster.
        in_clusters: Documents in clusters of two or more.
    """

    def __init__(self, documents: int, folder: Path, *, exponent: float, largest: int, seed: int, shard: int) -> None:
        self._documents = documents
        self._bits = max(2, int(documents - 1).bit_length())
        self._starts: Uint32s = np.memmap(folder / "starts", np.uint32, "w+", shape=(documents,)).view(np.ndarray)
        self.sizes = [min(shard, documents - start) for start in range(0, documents, shard)]
        law = np.cumsum(np.arange(1, largest + 1, dtype=np.float64) ** -exponent)
        law /= law[-1]
        generator = np.random.default_rng(seed)
        filled = self.num_clusters = self.largest = self.in_clusters = 0
        while filled < documents:
            sizes = np.searchsorted(law, generator.random(1 << 18), "right") + 1
            before = filled
            filled, count = fill_starts(sizes, filled, self._starts)
            used = sizes[:count].copy()
            used[-1] -= max(0, before + int(used.sum()) - documents)
            self.num_clusters += count
            self.largest = max(self.largest, int(used.max()))
            self.in_clusters += int(used[used > 1].sum())

    def texts(self, first: int, count: int) -> Iterator[tuple[int, Uint64s]]:
        """Yield (first row, hashes of texts) of some documents."""
        for start in range(first, first + count, 1 << 16):
            out = np.empty((min(1 << 16, first + count - start), 2), np.uint64)
            make_texts(start, self._documents, self._bits, self._starts, out)
            yield start - first, out

    def bands(self, first: int, copies: npt.NDArray[np.bool_]) -> Iterator[tuple[Uint32s, Uint64s]]:
        """Yield (rows, band keys) of those documents that are no copies."""
        for start in range(0, len(copies), 1 << 15):
            part = copies[start : start + (1 << 15)]
            docs, out = np.empty(len(part), np.uint32), np.empty((len(part), BANDS), np.uint64)
            count = make_bands(first + start, self._documents, self._bits, self._starts, part, docs, out)
            yield docs[:count] + np.uint32(start), out[:count]

    def errors(self, path: Path, folder: Path) -> dict[str, Any]:
        """Compare components.parquet with what is true; return the errors, of all documents, and members found."""
        import pyarrow.parquet as pq

        first_docs, first_texts = (
            np.memmap(folder / name, np.uint32, "w+", shape=(self._documents,)).view(np.ndarray)
            for name in ("first_docs", "first_texts")
        )
        state = np.zeros(2, np.int64)
        errors = 0
        given = (self._documents, self._bits, self._starts, first_docs, first_texts, state)
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(1 << 16, columns=["doc", "component", "exact"], use_threads=False):
                columns = [batch[name].to_numpy() for name in ("doc", "component", "exact")]
                errors += check(int(columns[0][-1]) + 1, *given, *columns)
        nothing = np.zeros(0, np.int64)
        nothing.setflags(write=False)
        errors += check(self._documents, *given, nothing, nothing, nothing)
        return {"errors": errors, "members": int(state[1])}
