"""Ten times more data than memory: the same answer, within the buffers."""

import os
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dedup_flow import write_kept

from curate.dedup.choose import choose
from curate.dedup.clusters import link_partition, write_shingles
from curate.dedup.components import components_schema, find_components
from curate.dedup.members import list_rows
from curate.dedup.resolving import resolve_partition
from curate.dedup.settings import Dedup, MinHash, Validation

# Buffers that do not shrink with `memory_bytes`: a batch of ids, a Parquet page, a row group of shingles.
FIXED_BYTES = 8 << 20

CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import {module} as work
task, small, folder, memory = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
getattr(work, task)(small, small, memory)  # compiles, and fills the caches of libraries
print("ready", flush=True)
sys.stdin.readline()
getattr(work, task)(folder, folder, memory)
print("done", flush=True)
sys.stdin.readline()
"""


def scratch(folder: Path) -> str:
    (folder / "scratch").mkdir(exist_ok=True)
    return str(folder / "scratch")


def components(folder: Path, output: Path, memory_bytes: int) -> list[Path]:
    path = output / f"components-{memory_bytes}.parquet"
    files = sorted(map(str, folder.glob("signatures-*")))
    find_components(files, str(path), settings=Dedup(), memory_bytes=memory_bytes, scratch=scratch(output))
    return [path]


def link(folder: Path, output: Path, memory_bytes: int) -> list[Path]:
    path = output / f"links-{memory_bytes}.parquet"
    files = sorted(map(str, folder.glob("shingles-*")))
    link_partition(files, 0, str(path), settings=Dedup(), memory_bytes=memory_bytes, scratch=scratch(output))
    return [path]


def resolved(folder: Path, output: Path, memory_bytes: int) -> list[Path]:
    path = output / f"resolved-{memory_bytes}.parquet"
    files, kept = (sorted(map(str, folder.glob(f"{name}-?.parquet"))) for name in ("shingles", "kept"))
    options = {"dedup": Dedup(), "memory_bytes": memory_bytes, "scratch": scratch(output)}
    resolve_partition(files, kept, 0, str(path), **options)
    return [path]


def chosen(folder: Path, output: Path, memory_bytes: int) -> list[Path]:
    paths = [output / f"{name}-{memory_bytes}.parquet" for name in ("decisions", "duplicates")]
    choose(
        sorted(map(str, folder.glob("documents-?.parquet"))),
        str(folder / "members.parquet"),
        list(map(str, output.glob(f"resolved-{memory_bytes}.parquet"))),
        {0: sorted(map(str, folder.glob("shingles-?.parquet")))},
        decisions=str(paths[0]),
        duplicates=str(paths[1]),
        dedup=Dedup(),
        validation=Validation(tokens=20_000),
        seed=1,
        memory_bytes=memory_bytes,
        scratch=scratch(output),
    )
    return paths


def write_signatures(folder: Path, num_docs: int, num_files: int) -> int:
    """Write signatures of which a third share bands or the text with another; return their bytes in memory."""
    generator = np.random.default_rng(2)
    size = num_docs // num_files
    for number in range(num_files):
        keys = generator.integers(0, 2**64, (size, 14), np.uint64)
        other = generator.integers(0, size, size)
        shares = (generator.random((size, 14)) < 0.5) & (generator.random(size) < 0.3)[:, None]
        keys = np.where(shares, keys[other], keys)
        keys[generator.random(size) < 0.02, 3] = 7  # one bucket with more documents than a buffer holds
        hashes = [f"{value:032x}" for value in generator.integers(1, 20 * size, size)]
        table = pa.table(
            {
                "exact_hash": hashes,
                "bands": pa.ListArray.from_arrays(
                    pa.array(np.arange(size + 1, dtype=np.int32) * 14), pa.array(keys.reshape(-1))
                ),
                "num_shingles": np.full(size, 500),
                "num_bytes": np.full(size, 3000),
            }
        )
        pq.write_table(table, folder / f"signatures-{number}.parquet", row_group_size=1000)
    return num_docs * (32 + 14 * 8 + 8)


def write_members(folder: Path, num_docs: int, num_files: int) -> int:
    """Write shingle and document files of one single component; return their bytes in memory."""
    generator = np.random.default_rng(3)
    size, words = num_docs // num_files, 1200
    originals = generator.integers(0, 2**64, (50, words), np.uint64)
    for number in range(num_files):
        docs = np.arange(number * size, (number + 1) * size)
        lists = originals[generator.integers(0, len(originals), size)]
        for row in lists:  # an edit makes a document more or less like its original
            start = generator.integers(0, words // 2)
            row[start : start + generator.integers(1, words // 4)] = generator.integers(0, 2**63)
        bands = generator.integers(0, 2 * num_docs, (size, 14), np.uint64)
        bands[:, 0] = lists[:, 0] >> np.uint64(61)  # eight great buckets
        batch = pa.record_batch(
            {
                "doc": docs,
                "component": np.zeros(size, np.int64),
                "partition": np.zeros(size, np.int32),
                "exact": docs,
                "id": [f"{doc:032x}" for doc in docs],
                "source_rank": np.zeros(size, np.int32),
                "num_bytes": generator.integers(1000, 5000, size),
                "preferences": list_rows(np.empty((size, 0), np.uint64)),
                "url_hash": pa.nulls(size, pa.string()),
                "payload_hash": pa.nulls(size, pa.string()),
                "bands": list_rows(bands),
                "word_hashes": pa.LargeListArray.from_arrays(
                    pa.array(np.arange(size + 1) * words), pa.array(lists.reshape(-1))
                ),
            }
        )
        path = str(folder / f"shingles-{number}.parquet")
        write_shingles([batch], path, settings=Dedup(minhash=MinHash()), scratch=str(folder))
        write_kept(str(folder / f"kept-{number}.parquet"), [(0, doc, True) for doc in docs.tolist()])
        table = pa.table(
            {
                "doc": docs,
                "id": batch["id"],
                "source": ["web"] * size,
                "kept": [True] * size,
                "num_bytes": batch["num_bytes"],
            }
        )
        pq.write_table(table, folder / f"documents-{number}.parquet", row_group_size=1000)
    docs = np.arange(size * num_files)
    columns = [docs, np.zeros(len(docs), np.int64), docs, np.zeros(len(docs), np.int32)]
    pq.write_table(pa.table(columns, schema=components_schema()), folder / "members.parquet", row_group_size=1000)
    return num_docs * words * 8


def anonymous_bytes(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon"))


def peak_growth(task: str, small: Path, folder: Path, memory_bytes: int, *, module: str = "test_dedup_memory") -> int:
    """Return by how much the private memory of a process that has done the small task grows during the large one."""
    arguments = [
        sys.executable,
        "-c",
        CHILD.format(tests=str(Path(__file__).parent), module=module),
        task,
        str(small),
        str(folder),
        str(memory_bytes),
    ]
    # Arrow's own allocator keeps what is freed, and would count as buffers.
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        before = peak = anonymous_bytes(child.pid)
        child.stdin.write("\n")
        child.stdin.flush()
        while not select.select([child.stdout], [], [], 0.002)[0]:
            peak = max(peak, anonymous_bytes(child.pid))
        assert child.stdout.readline() == "done\n"
        child.stdin.write("\n")
        child.stdin.flush()
    return peak - before


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="private memory is read from /proc, which is Linux")
@pytest.mark.parametrize(
    ("tasks", "write", "num_docs"),
    [((components,), write_signatures, 250_000), ((link, resolved, chosen), write_members, 6_000)],
)
def test_ten_times_the_memory(tmp_path, tasks, write, num_docs):
    folder, small, roomy = tmp_path / "data", tmp_path / "small", tmp_path / "roomy"
    for path in (folder, small, roomy):
        path.mkdir()
    memory_bytes = write(folder, num_docs, 4) // 10
    write(small, 400, 4)
    for task in tasks:
        growth = peak_growth(task.__name__, small, folder, memory_bytes)
        print(task.__name__, growth, memory_bytes)
        assert growth < memory_bytes + FIXED_BYTES
        expected = task(folder, roomy, 1 << 30)
        assert pq.read_metadata(expected[0]).num_rows > num_docs // 20
        for path in expected:
            tight = folder / path.name.replace(str(1 << 30), str(memory_bytes))
            assert tight.read_bytes() == path.read_bytes()
