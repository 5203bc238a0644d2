"""Signatures of a finished corpus, stored, and how a later corpus is compared with them: no text of the earlier one is read.

Two documents are compared if they share a band or their exact hash. What is known of an earlier document then is one
byte of each of its P MinHash values (b-bit minwise hashing with b = 8: Li and Koenig 2010, b-Bit Minwise Hashing, section
2). Two bytes agree where the values do, and else by chance in one of 256 cases, so a share p of equal bytes estimates

    similarity = (p - 1/256) / (1 - 1/256)

with a standard error of sqrt(p (1 - p) / P) / (1 - 1/256): with P = 112, .038 at a similarity of .8 and .021 at .95. A
true similarity that lies on the bound passes it in half the cases.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Uint64s = npt.NDArray[np.uint64]

PARTITIONS = 16  # of keys, by their first bits: tasks that can run at the same time
_SHIFT = 60  # from a key to its partition
_CHANCE = 1 / 256  # that two random bytes agree

# A key that many documents share (a template, a notice) gives at most this many pairs, but at least so many earlier
# documents for each of ours, the first ones: near copies among the earlier ones stand for one another.
MOST_PAIRS = 1 << 20
FEWEST_EACH = 16

_READ_ROWS = 1 << 12  # of columns of signatures that are gone through


def estimate(equal: npt.NDArray[np.int64], num_permutations: int) -> npt.NDArray[np.float64]:
    """Return the estimated similarity of two documents, 0 to 1, to 6 digits.

    Args:
        equal: Equal bytes of the two signatures, any shape.
        num_permutations: Bytes of a signature.
    """
    import numpy as np

    share = np.asarray(equal, np.float64) / num_permutations
    similarity: npt.NDArray[np.float64] = np.maximum(0.0, (share - _CHANCE) / (1 - _CHANCE))
    return similarity.round(6)


def standard_error(similarity: float, num_permutations: int) -> float:
    """Return the standard error of `estimate` at a true similarity."""
    share = similarity + (1 - similarity) * _CHANCE
    return math.sqrt(share * (1 - share) / num_permutations) / (1 - _CHANCE)


# -- sorted keys -------------------------------------------------------------------------------------------------------


def exact_keys(hashes: pa.Array) -> Uint64s:
    """Return exact hashes (32 hex digits, no nulls) as numbers, shape (documents, 2), the first digits first.

    Raises:
        ValueError: If a hash is none.
    """
    import numpy as np
    import pyarrow as pa

    raw = hashes.cast(pa.large_binary())
    offsets = np.frombuffer(raw.buffers()[1], np.int64)[raw.offset : raw.offset + len(raw) + 1]
    if not len(raw):
        return np.zeros((0, 2), np.uint64)
    if (np.diff(offsets) != 32).any():
        raise ValueError("an exact hash has not 32 hex digits")
    digits = raw.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()
    return np.frombuffer(binascii.unhexlify(digits), ">u8").reshape(-1, 2).astype(np.uint64)


def partition_keys(batch: pa.RecordBatch, partition: int) -> tuple[Uint64s, npt.NDArray[np.int64]]:
    """Return the keys of one partition by which documents are compared, and the row of each.

    A document's keys are those of its bands and the first 64 bits of its exact hash. One without a text has none.

    Args:
        batch: Columns exact_hash and bands, as `Signatures` makes them; null where signing failed.
        partition: Its number, the first four bits of its keys.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from curate.dedup.exact import EMPTY
    from curate.dedup.minhash import list_parts

    hashes = pc.fill_null(batch["exact_hash"], EMPTY)
    with_text = np.asarray(pc.not_equal(hashes, EMPTY).to_numpy(zero_copy_only=False), bool)
    bands = pc.if_else(pc.is_null(batch["bands"]), pa.scalar([], batch["bands"].type), batch["bands"])
    values, offsets = list_parts(bands)
    rows = np.arange(batch.num_rows)
    keys = np.concatenate([values[offsets[0] : offsets[-1]], exact_keys(hashes)[with_text, 0]])
    of = np.concatenate([np.repeat(rows, np.diff(offsets)), rows[with_text]])
    mine = keys >> np.uint64(_SHIFT) == np.uint64(partition)
    return keys[mine], of[mine]


def document_type(documents: int) -> npt.DTypeLike:
    """Return the smallest type that holds the numbers of so many documents: 12 bytes a key up to four thousand million."""
    import numpy as np

    return np.dtype("<u4") if documents <= 1 << 32 else np.dtype("<u8")


def write_keys(
    files: Iterable[Path], partition: int, documents: int, folder: Path, *, memory_bytes: int, scratch: str
) -> int:
    """Write keys.u64 and docs.bin: the keys of one partition, ascending, and the document of each; return how many.

    Args:
        files: Parquet files with exact_hash and bands; a document's number is its row over all of them.
        partition: Its number.
        documents: Rows of all files.
        folder: Where the two go, raw and little-endian; docs.bin is of `document_type`.
        memory_bytes: About what the buffers may hold.
        scratch: Folder for what is spilled.
    """
    import numpy as np

    from curate.dedup.spill import DiskColumn, Sorter

    sorter = Sorter(2, memory_bytes // 4 * 3, scratch, f"keys-{partition}")
    first = 0
    for batch in _columns(files, ["exact_hash", "bands"], memory_bytes):
        keys, rows = partition_keys(batch, partition)
        sorter.append(keys, rows + first)
        first += batch.num_rows
    if first != documents:
        raise ValueError(f"the files have {first} rows where {documents} are stated")
    columns = [
        DiskColumn(str(folder), name, kind)
        for name, kind in (("keys.u64", np.dtype("<u8")), ("docs.bin", document_type(documents)))
    ]
    for records in sorter.sorted():
        for place, column in enumerate(columns):
            column.append(records[:, place])
    for column in columns:
        column.close()
    return columns[0].size


def _columns(files: Iterable[Path], columns: list[str], memory_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of Parquet files; no more than a row group, or a small part of the memory, at a time."""
    import pyarrow.parquet as pq

    rows = max(64, min(_READ_ROWS, memory_bytes // 8 // 1024))
    for path in files:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield from file.iter_batches(rows, columns=columns, use_threads=False)


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """What `write_keys` wrote, mapped into memory: keys ascending, and the document of each."""

    keys: Uint64s
    docs: npt.NDArray[Any]

    @classmethod
    def open(cls, folder: Path, documents: int) -> SortedKeys:
        """Map the two files of a folder."""
        import numpy as np

        return cls(
            _mapped(folder / "keys.u64", np.dtype("<u8")), _mapped(folder / "docs.bin", document_type(documents))
        )


def _mapped(path: Path, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    import numpy as np

    if not path.stat().st_size:
        return np.zeros(0, dtype)  # an empty file cannot be mapped
    return np.memmap(path, dtype, "r").view(np.ndarray)


def write_pairs(
    ours: SortedKeys,
    earlier: Sequence[SortedKeys],
    firsts: Sequence[int],
    path: Path,
    *,
    memory_bytes: int,
    scratch: str,
) -> dict[str, int]:
    """Write the pairs of documents that share a key: (ours, earlier) ascending, none twice; raw little-endian uint64.

    Args:
        ours: Keys of one partition of this corpus.
        earlier: The same partition of each earlier corpus, in their order.
        firsts: Number of the first document of each earlier corpus, over all of them.
        path: The file.
        memory_bytes: About what the buffers may hold.
        scratch: Folder for what is spilled.

    Returns:
        `pairs`; `crowded` keys, of which not all pairs are compared (MOST_PAIRS), and the pairs `left_out` by them.
    """
    import numpy as np

    from curate.dedup.earlier_kernels import join_keys
    from curate.dedup.spill import Sorter

    sorter = Sorter(2, memory_bytes // 4 * 3, scratch, f"pairs-{path.name}")
    found = np.empty((max(64, min(1 << 16, memory_bytes // 8 // 16)), 2), np.uint64)
    crowded = left_out = 0
    for keys, first in zip(earlier, firsts, strict=True):
        state = np.zeros(6, np.int64)
        while True:
            limits = np.array([MOST_PAIRS, FEWEST_EACH], np.int64)
            count = join_keys(ours.keys, ours.docs, keys.keys, keys.docs, np.uint64(first), limits, state, found)
            sorter.append(found[:count, 0], found[:count, 1])
            if count < len(found):
                break
        crowded += int(state[4])
        left_out += int(state[5])
    pairs = 0
    with path.open("xb") as file:
        for records in without_repeats(sorter.sorted()):
            records.astype("<u8", copy=False).tofile(file)
            pairs += len(records)
    return {"pairs": pairs, "crowded": crowded, "left_out": left_out}


def without_repeats(batches: Iterable[Uint64s]) -> Iterator[Uint64s]:
    """Yield sorted records, each once; shape (records, width)."""
    last: Uint64s | None = None
    import numpy as np

    for records in batches:
        if not len(records):
            continue
        new = np.ones(len(records), bool)
        new[1:] = (records[1:] != records[:-1]).any(axis=1)
        new[0] = last is None or bool((records[0] != last).any())
        last = records[-1].copy()
        yield records[new]


def open_pairs(path: Path) -> Uint64s:
    """Return what `write_pairs` wrote, mapped: shape (pairs, 2)."""
    import numpy as np

    pairs: Uint64s = _mapped(path, np.dtype("<u8")).reshape(-1, 2)
    return pairs


# -- comparing ---------------------------------------------------------------------------------------------------------


def signature_rows(column: pa.Array, num_permutations: int) -> npt.NDArray[np.uint8]:
    """Return signatures as numbers, shape (documents, permutations); zeros for a document without one.

    Raises:
        ValueError: If a signature has another length.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    raw = column.cast(pa.large_binary())
    found = np.zeros((len(raw), num_permutations), np.uint8)
    present = np.asarray(pc.is_valid(raw).to_numpy(zero_copy_only=False), bool)
    some = raw.drop_null()
    lengths = np.asarray(pc.binary_length(some).to_numpy(zero_copy_only=False))
    if (lengths != num_permutations).any():
        raise ValueError(f"a signature has {lengths[lengths != num_permutations][0]} bytes, not {num_permutations}")
    if len(some):
        data = np.frombuffer(some.buffers()[2], np.uint8)
        start = int(np.frombuffer(some.buffers()[1], np.int64)[some.offset])
        found[present] = data[start : start + len(some) * num_permutations].reshape(-1, num_permutations)
    return found


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Documents numbered over several Parquet files; row groups without a wanted document are not read.

    Attributes:
        paths: The files.
        firsts: Number of the first document of each, and at last the number behind all.
    """

    paths: Sequence[Path]
    firsts: Sequence[int]

    def read(self, wanted: Uint64s, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """Yield (place in `wanted` of the first, rows) for documents in ascending order, none twice; shape (documents,)."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        bounds = np.asarray(self.firsts, np.uint64)
        ends = np.searchsorted(wanted, bounds)
        for number in np.flatnonzero(np.diff(ends)).tolist():
            with pq.ParquetFile(self.paths[number], pre_buffer=False) as file:
                if file.metadata.num_rows != int(bounds[number + 1] - bounds[number]):
                    raise ValueError(
                        f"{self.paths[number]} has {file.metadata.num_rows} rows, not those it is listed with"
                    )
                first, place = int(bounds[number]), int(ends[number])
                for group in range(file.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    stop = int(np.searchsorted(wanted[: ends[number + 1]], np.uint64(first + rows)))
                    if stop > place:
                        table = file.read_row_group(group, columns=list(columns), use_threads=False)
                        yield place, table.take(pa.array((wanted[place:stop] - np.uint64(first)).astype(np.int64)))
                    first, place = first + rows, stop

    def signatures(self, wanted: Uint64s, num_permutations: int) -> tuple[npt.NDArray[np.uint8], Uint64s]:
        """Return signatures, shape (documents, permutations), and exact hashes, shape (documents, 2), of documents."""
        import numpy as np
        import pyarrow.compute as pc

        from curate.dedup.exact import EMPTY

        found = np.zeros((len(wanted), num_permutations), np.uint8)
        exact = np.zeros((len(wanted), 2), np.uint64)
        for place, table in self.read(wanted, ("signature", "exact_hash")):
            part = slice(place, place + table.num_rows)
            found[part] = signature_rows(table["signature"].combine_chunks(), num_permutations)
            exact[part] = exact_keys(pc.fill_null(table["exact_hash"].combine_chunks(), EMPTY))
        return found, exact


def best_matches(
    pairs: Iterable[Uint64s],
    ours: RowsOf,
    earlier: RowsOf,
    num_permutations: int,
    best: Uint64s,
    scores: npt.NDArray[Any],
) -> None:
    """Find the earlier document that each of ours resembles most.

    Equal exact hashes count more than any estimate; ties go to the first earlier document.

    Args:
        pairs: (ours, earlier), ascending, none twice; in parts that memory has room for.
        ours: This corpus, of which documents from `ours.firsts[0]` on are looked at.
        earlier: The earlier ones, one after the other.
        num_permutations: Bytes of a signature.
        best: Gets the earlier document of each of ours.
        scores: Gets 0 if there is none, 1 + the number of equal bytes, or 2 + num_permutations if the hashes are equal.
    """
    import numpy as np

    from curate.dedup.earlier_kernels import score_pairs

    for part in pairs:
        sides = []
        for side, rows in enumerate((ours, earlier)):
            wanted, at = np.unique(part[:, side], return_inverse=True)
            sides.append((*rows.signatures(wanted, num_permutations), at.astype(np.int64)))
        (left, left_exact, left_at), (right, right_exact, right_at) = sides
        places = (part[:, 0] - np.uint64(ours.firsts[0])).astype(np.int64)
        score_pairs(left, left_exact, left_at, right, right_exact, right_at, places, part[:, 1].copy(), best, scores)
