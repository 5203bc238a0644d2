"""An earlier corpus ten times larger than memory: the same answer, within the buffers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_dedup_memory import FIXED_BYTES, peak_growth

from curate.dedup.earlier import RowsOf, SortedKeys, best_matches, open_pairs, write_keys, write_pairs
from curate.dedup.stored import stored_schema
from curate.phases.earlier import pairs_of

NUM_BYTES = 112


def counted(folder: Path) -> int:
    return int(pq.read_metadata(folder / "earlier.parquet").num_rows)


def joined(folder: Path, output: Path, memory_bytes: int) -> list[Path]:
    """Index the earlier corpus, sort the keys of the other, join them: partition 0 has all keys."""
    opened, names = [], []
    for name in ("earlier", "ours"):
        place = output / f"{name}-{memory_bytes}"
        place.mkdir()
        write_keys(
            [folder / f"{name}.parquet"], 0, counted(folder), place, memory_bytes=memory_bytes, scratch=str(place)
        )
        opened.append(SortedKeys.open(place, counted(folder)))
        names += [place / "keys.u64", place / "docs.bin"]
    pairs = output / f"pairs-{memory_bytes}"
    write_pairs(opened[1], opened[:1], [0], pairs, memory_bytes=memory_bytes, scratch=str(output))
    return [*names, pairs]


def compared(folder: Path, output: Path, memory_bytes: int) -> list[Path]:
    documents = counted(folder)
    best, scores = np.zeros(documents, np.uint64), np.zeros(documents, np.int64)
    ours, earlier = (RowsOf([folder / f"{name}.parquet"], [0, documents]) for name in ("ours", "earlier"))
    pairs = pairs_of([output / f"pairs-{memory_bytes}"], 0, documents, memory_bytes, output)
    best_matches(pairs, ours, earlier, NUM_BYTES, best, scores)
    path = output / f"best-{memory_bytes}"
    np.stack([best, scores.astype(np.uint64)]).tofile(path)
    return [path]


def both(folder: Path, output: Path, memory_bytes: int) -> list[Path]:
    return [*joined(folder, output, memory_bytes), *compared(folder, output, memory_bytes)]


def write(folder: Path, documents: int) -> int:
    """Write two corpora that share bands; return the bytes of the keys of one."""
    draw = np.random.default_rng(4)
    keys = draw.integers(0, 1 << 60, (documents, 14), np.uint64)
    keys[draw.random(documents) < 0.002, 5] = 9  # a band of many
    signatures = draw.integers(0, 256, (documents, NUM_BYTES), np.uint8)
    for name in ("earlier", "ours"):
        values = np.arange(1, documents + 1) if name == "earlier" else draw.integers(1, 9 * documents, documents)
        others = np.where(draw.random(documents) < 0.1, values + (name == "ours"), values)  # half a hash is no match
        hashes = [f"{value:016x}{other:016x}" for value, other in zip(values.tolist(), others.tolist(), strict=True)]
        if name == "ours":
            order = draw.permutation(documents)
            shared = draw.random((documents, 14)) < 0.03
            keys = np.where(shared, keys[order], draw.integers(0, 1 << 60, keys.shape, np.uint64))
            near = draw.random(signatures.shape) < 0.8
            signatures = np.where(near, signatures[order], draw.integers(0, 256, signatures.shape, np.uint8))
        offsets = np.arange(documents + 1, dtype=np.int32)
        columns = {
            "id": [f"{number:032x}" for number in range(documents)],
            "source": ["web"] * documents,
            "url": pa.nulls(documents, pa.large_string()),
            "exact_hash": hashes,
            "bands": pa.ListArray.from_arrays(pa.array(offsets * 14), pa.array(keys.reshape(-1))),
            "signature": pa.Array.from_buffers(
                pa.binary(), documents, [None, pa.py_buffer(offsets * NUM_BYTES), pa.py_buffer(signatures.tobytes())]
            ),
        }
        pq.write_table(pa.table(columns, stored_schema()), folder / f"{name}.parquet", row_group_size=1000)
    return documents * 15 * 16


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="private memory is read from /proc, which is Linux")
def test_ten_times_the_memory(tmp_path: Path) -> None:
    folder, small, roomy = tmp_path / "data", tmp_path / "small", tmp_path / "roomy"
    for path in (folder, small, roomy):
        path.mkdir()
    memory_bytes = write(folder, 60_000) // 10
    write(small, 500)
    growth = peak_growth("both", small, folder, memory_bytes, module="test_earlier_memory")
    print(growth, memory_bytes)
    assert growth < memory_bytes + FIXED_BYTES
    for path in both(folder, roomy, 1 << 30):
        tight = folder / path.relative_to(roomy).as_posix().replace(str(1 << 30), str(memory_bytes))
        assert tight.read_bytes() == path.read_bytes()
    assert len(open_pairs(roomy / f"pairs-{1 << 30}")) > 20_000
