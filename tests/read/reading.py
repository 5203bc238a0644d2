"""What the tests of the readers share: fault cases, real data, and rows as dictionaries."""

import base64
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "corpus"
PATH = (
    "import sys\nsys.path.insert(0, 'tests/read')\n"  # first lines of a script that measures memory in its own process
)


def load_cases(stage):
    """Return the fault cases of a stage by id."""
    cases = map(json.loads, (CORPUS / f"{stage}.jsonl").read_text(encoding="ascii").splitlines())
    return {case["id"]: case for case in cases}


def inputs_of(case):
    """Return (name, bytes) of each input file of a case."""
    given = case["input"]
    if given["form"] == "bytes":
        return [(given["filename"], base64.b64decode(given["base64"]))]
    if given["form"] == "build":
        data = b"".join((part.get("lit") or part["rep"] * part["times"]).encode() for part in given["parts"])
        return [(given["filename"], gzip.compress(data, 9, mtime=0) if given["gzip"] else data)]
    paths = given.get("paths") or [given["path"]]
    return [(Path(path).name, (CORPUS / path).read_bytes()) for path in paths]


def read_rows(source, data, name="input"):
    """Return all rows of an input, batches checked against the contract of readers."""
    from curate.document import RAW

    rows = []
    for batch in source.read(io.BytesIO(data) if isinstance(data, bytes) else data, name):
        assert batch.schema.equals(RAW)
        assert 0 < batch.num_rows <= 256
        rows += batch.to_pylist()
    places = [(row["offset"], row["part"]) for row in rows]
    assert len(set(places)) == len(places), "an id would be given twice"
    for row in rows:
        assert (row["rule"] is None) == (row["detail"] is None)
        assert row["rule"] is not None or (row["content"] is None) != (row["text"] is None)
        assert row["metadata"] is None or isinstance(json.loads(row["metadata"]), dict)
    return rows


def documents(rows):
    return [row for row in rows if row["rule"] is None]


def rules(rows):
    """Return how often each rule fired."""
    counts = {}
    for row in rows:
        if row["rule"] is not None:
            counts[row["rule"]] = counts.get(row["rule"], 0) + 1
    return counts


def real_data(name):
    """Return a folder of real inputs, or skip the test, saying what is missing."""
    folder = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data") / name
    if not folder.is_dir():
        pytest.skip(f"REAL DATA MISSING: {folder} is not there; set CURATE_DATA to the folder that holds {name}")
    return folder


def peak():
    """Return this process's peak memory in KiB. (`ru_maxrss` will not do: a child starts with its parent's.)"""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("PEAK MEMORY NOT MEASURED: there is no /proc here")
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def growth(script, small, large, bound, attempts=3):
    """Return by how many bytes the peak memory of a script grows from one input file to another, and what it printed.

    Args:
        script: Python source; reads the file `sys.argv[1]` and prints one line that ends in ` {peak()}`.
        small, large: The two input files.
        bound: Bytes. What else a machine does only ever adds, so the least of up to `attempts` measurements counts,
            and none is made once one is below the bound.
        attempts: Most measurements.
    """
    least = None
    for _ in range(attempts):
        printed, peaks = [], []
        for path in (small, large):
            run = subprocess.run(
                [sys.executable, "-c", PATH + script, str(path)],
                cwd=ROOT,
                check=True,
                capture_output=True,
                text=True,
                env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},  # others keep freed memory for later
            )
            told, _, peak_kib = run.stdout.strip().rpartition(" ")
            printed.append(told)
            peaks.append(int(peak_kib) << 10)
        grown = peaks[1] - peaks[0]
        least = grown if least is None else min(least, grown)
        if least < bound:
            break
    return least, printed
