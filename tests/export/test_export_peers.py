"""Exports read back by the libraries whose formats they are, where there is a Python that has them.

CURATE_EXPORT_PEERS names it: a Python with datasets, datatrove, megatron-core and ai2-olmo-core. What they read of the
demo run is in benchmarks/results/exports.md; the readers of the other tests here are written from the specifications.
"""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import machine
import numpy as np
import pyarrow.parquet as pq
import pytest
from exported import ids_of, rewrite_tokens

from curate.export.write import export

PEERS = os.environ.get("CURATE_EXPORT_PEERS", "")
LIBRARIES = {
    "megatron": "megatron.core.datasets.indexed_dataset",
    "npy": "olmo_core.data",
    "nanotron": "datatrove.utils.dataset",
    "parquet": "datasets",
    "hf": "datasets",
}


def read(name: str, folder: Path) -> dict:
    """Return what the format's library reads, or skip loudly."""
    if not PEERS:
        pytest.skip("EXPORTS NOT READ BY THEIR LIBRARIES: CURATE_EXPORT_PEERS names no Python that has them")
    has = subprocess.run([PEERS, "-c", f"import {LIBRARIES[name]}"], capture_output=True, check=False)
    if has.returncode:
        pytest.skip(f"EXPORT NOT READ BY ITS LIBRARY: {PEERS} has no {LIBRARIES[name]}")
    script = machine.ROOT / "benchmarks" / "export_readers.py"
    done = subprocess.run([PEERS, str(script), name, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])["read"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
@pytest.mark.parametrize("name", ["megatron", "npy", "nanotron"])
def test_ids(run_copy: Path, tmp_path: Path, name: str, dtype: str) -> None:
    for stream in ("web", "books", "more"):
        rewrite_tokens(run_copy, stream, dtype=dtype, shard_tokens=3000)
    export(run_copy, name, output=tmp_path / "x", quiet=True)
    found = read(name, tmp_path / "x")
    assert set(found) == {"train/web", "train/books", "train/more", "validation/web", "validation/books"}
    for place, counts in found.items():
        split, stream = place.split("/")
        ids, ends = ids_of(run_copy, stream, split)
        lengths = np.diff(ends, prepend=0)
        assert counts == {
            "documents": ends.size,
            "tokens": ids.size,
            "ids": hashlib.sha256(ids.astype("<i8").tobytes()).hexdigest(),
            "lengths": hashlib.sha256(lengths.astype("<i8").tobytes()).hexdigest(),
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parquet", "hf"])
def test_texts(run_folder: Path, tmp_path: Path, name: str) -> None:
    export(run_folder, name, output=tmp_path / "x", quiet=True)
    found = read(name, tmp_path / "x")
    assert set(found) == {"train/web", "train/books", "train/more", "validation/web", "validation/books"}
    for place, counts in found.items():
        split, source = place.split("/")
        texts = [
            row["text"].encode()
            for path in sorted((run_folder / "documents" / source).glob("*.parquet"))
            for row in pq.read_table(path, columns=["text", "split"]).to_pylist()
            if row["split"] == split
        ]
        data = b"".join(len(text).to_bytes(8, "little") + text for text in texts)
        assert counts == {"documents": len(texts), "texts": hashlib.sha256(data).hexdigest()}
