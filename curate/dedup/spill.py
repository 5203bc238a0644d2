"""Arrays larger than memory: columns on disk, and an external merge sort.

Everything lives in a scratch folder that the caller makes and removes. Memory maps are page cache, not buffers: the
operating system takes them back when it needs the room.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_FAN_IN = 64  # runs merged at once: bounds open files and keeps each run's block of a useful size
_MIN_RECORDS = 1024  # a smaller buffer would spend its time in calls

Records = npt.NDArray[np.uint64]  # (records, width)


def zeros_on_disk(folder: str, name: str, dtype: npt.DTypeLike, size: int) -> npt.NDArray[Any]:
    """Return a one-dimensional array of zeros that lies in a new (sparse) file of the folder."""
    if size == 0:
        return np.zeros(0, dtype)  # an empty file cannot be mapped
    return np.memmap(Path(folder, name), dtype, "w+", shape=(size,)).view(np.ndarray)


class DiskColumn:
    """A column that is appended to and, once complete, read as one array."""

    def __init__(self, folder: str, name: str, dtype: npt.DTypeLike) -> None:
        self._path = Path(folder, name)
        self._dtype = np.dtype(dtype)
        self._file = self._path.open("xb")
        self.size = 0

    def append(self, values: npt.NDArray[Any]) -> None:
        """Write the values behind those that are there."""
        np.ascontiguousarray(values, self._dtype).tofile(self._file)
        self.size += len(values)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def finish(self) -> npt.NDArray[Any]:
        """Close the file and return its values, shape (size,), mapped and writable in place."""
        self.close()
        if self.size == 0:
            return np.zeros(0, self._dtype)
        return np.memmap(self._path, self._dtype, "r+", shape=(self.size,)).view(np.ndarray)


class Sorter:
    """Sorts records of a few unsigned 64-bit numbers, first number first, within a bounded buffer.

    Runs are sorted in memory and written to the scratch folder; `sorted` merges them. Records that compare equal are
    the same record, so the answer does not depend on the size of the buffer.
    """

    def __init__(self, width: int, memory_bytes: int, folder: str, name: str) -> None:
        """Make an empty sorter.

        Args:
            width: Numbers in a record.
            memory_bytes: About what the sorter may hold at any time.
            folder: The scratch folder.
            name: Prefix of this sorter's files there.
        """
        self._width = width
        # A sort needs the records, an index, a copy of a column and room to merge: about three times the records.
        self._capacity = max(_MIN_RECORDS, memory_bytes // 3 // (8 * width))
        self._memory_bytes = memory_bytes
        self._buffer = np.empty((0, width), np.uint64)
        self._used = 0
        self._folder = folder
        self._name = name
        self._runs: list[Path] = []
        self._num_files = 0

    def append(self, *columns: npt.NDArray[Any]) -> None:
        """Add records, one array of numbers from 0 to 2^64 - 1 for each place in the record."""
        done = 0
        while done < len(columns[0]):
            if self._used == len(self._buffer):
                self._make_room()
            step = min(len(columns[0]) - done, len(self._buffer) - self._used)
            for place, column in enumerate(columns):
                self._buffer[self._used : self._used + step, place] = column[done : done + step]
            self._used += step
            done += step

    def _make_room(self) -> None:
        if len(self._buffer) < self._capacity:
            grown = np.empty((min(self._capacity, max(_MIN_RECORDS, 2 * len(self._buffer))), self._width), np.uint64)
            grown[: self._used] = self._buffer[: self._used]
            self._buffer = grown
        else:
            self._runs.append(self._write(self._drain()))

    def _drain(self) -> Iterator[Records]:
        records = self._buffer[: self._used]
        index = _sorting_index(records)
        step = max(_MIN_RECORDS, self._capacity // 4)
        for start in range(0, len(index), step):
            yield records[index[start : start + step]]
        self._used = 0

    def _write(self, batches: Iterator[Records]) -> Path:
        path = Path(self._folder, f"{self._name}.run-{self._num_files}")
        self._num_files += 1
        with path.open("xb") as file:
            for batch in batches:
                batch.tofile(file)
        return path

    def sorted(self) -> Iterator[Records]:
        """Yield all records in order, in batches of shape (records, width); call once, after the last `append`."""
        if not self._runs:
            yield from self._drain()
            self._buffer = self._buffer[:0].copy()
            return
        if self._used:
            self._runs.append(self._write(self._drain()))
        self._buffer = self._buffer[:0].copy()
        while len(self._runs) > _FAN_IN:
            head, self._runs = self._runs[:_FAN_IN], self._runs[_FAN_IN:]
            self._runs.append(self._write(self._merge(head)))
        yield from self._merge(self._runs)

    def _merge(self, paths: list[Path]) -> Iterator[Records]:
        block = max(_MIN_RECORDS // 4, self._memory_bytes // 5 // (8 * self._width) // len(paths))
        files = [path.open("rb") for path in paths]
        try:
            blocks = [self._buffer for _ in paths]
            done = [False] * len(paths)
            while True:
                for k, file in enumerate(files):
                    if not done[k]:
                        wanted = block - len(blocks[k])
                        more = np.fromfile(file, np.uint64, wanted * self._width).reshape(-1, self._width)
                        done[k] = len(more) < wanted
                        blocks[k] = np.concatenate([blocks[k], more])
                # Every record up to the smallest last one of the unfinished runs is in memory: they can go out.
                bounds = [tuple(blocks[k][-1].tolist()) for k in range(len(paths)) if not done[k]]
                cuts = [_place_behind(b, min(bounds)) if bounds else len(b) for b in blocks]
                ready = np.concatenate([b[:cut] for b, cut in zip(blocks, cuts, strict=True)])
                blocks = [b[cut:] for b, cut in zip(blocks, cuts, strict=True)]
                if len(ready):
                    yield ready[_sorting_index(ready)]
                if not bounds:
                    return
        finally:
            for file, path in zip(files, paths, strict=True):
                file.close()
                path.unlink()


def _sorting_index(records: Records) -> npt.NDArray[np.int64]:
    if records.shape[1] == 2 and len(records) and int(records.max()) < 1 << 32:
        return np.argsort((records[:, 0] << np.uint64(32)) | records[:, 1])  # once, with vector instructions
    return np.lexsort(tuple(records[:, place] for place in reversed(range(records.shape[1]))))


def _place_behind(records: Records, bound: tuple[int, ...]) -> int:
    """Return the number of records, which ascend, up to and with the bound."""
    first = np.uint64(bound[0])
    start, stop = (int(np.searchsorted(records[:, 0], first, side)) for side in ("left", "right"))
    return bisect.bisect_right(range(stop), bound, lo=start, key=lambda row: tuple(records[row].tolist()))
