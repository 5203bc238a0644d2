import numpy as np
import pytest

from curate.dedup.spill import DiskColumn, Sorter, zeros_on_disk


@pytest.mark.parametrize("memory_bytes", [1, 1 << 16, 1 << 26])
@pytest.mark.parametrize("keys", ["spread", "few", "one", "ascending"])
def test_sorter_sorts_whatever_the_buffer(tmp_path, memory_bytes, keys):
    generator = np.random.default_rng(1)
    size = 70_000  # with the smallest buffer, 1024 records: 69 runs, more than are merged at once
    values = {
        "spread": generator.integers(0, 2**64, size, np.uint64),
        "few": generator.integers(0, 3, size).astype(np.uint64),
        "one": np.full(size, 2**64 - 1, np.uint64),
        "ascending": np.arange(size, dtype=np.uint64),
    }[keys]
    docs = generator.permutation(size)
    sorter = Sorter(2, memory_bytes, str(tmp_path), "test")
    for start in range(0, size, 777):
        sorter.append(values[start : start + 777], docs[start : start + 777])
    batches = list(sorter.sorted())
    found = np.concatenate(batches)
    order = np.lexsort((docs, values))
    assert np.array_equal(found[:, 0], values[order])
    assert np.array_equal(found[:, 1], docs[order])
    if memory_bytes == 1:
        assert max(map(len, batches)) <= 64 * 1024
    assert list(tmp_path.iterdir()) == []


def test_sorter_without_records(tmp_path):
    assert sum(map(len, Sorter(2, 1 << 20, str(tmp_path), "test").sorted())) == 0


def test_disk_column_gives_back_what_was_appended(tmp_path):
    column = DiskColumn(str(tmp_path), "numbers", np.int64)
    column.append(np.array([1, 2]))
    column.append(np.array([3], np.int32))
    assert column.size == 3
    values = column.finish()
    assert values.tolist() == [1, 2, 3]
    values[0] = 9  # writable in place
    assert DiskColumn(str(tmp_path), "none", np.int64).finish().tolist() == []


def test_zeros_on_disk(tmp_path):
    array = zeros_on_disk(str(tmp_path), "zeros", np.float64, 5)
    assert array.tolist() == [0.0] * 5
    assert type(array) is np.ndarray
    assert zeros_on_disk(str(tmp_path), "empty", np.float64, 0).tolist() == []
