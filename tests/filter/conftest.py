import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


@pytest.fixture
def real_rows():
    """Return a function that reads a gzipped JSON Lines file of the real inputs, or skips loudly."""

    def rows(name: str) -> list[dict[str, Any]]:
        path = DATA / name
        if not path.is_file():
            pytest.skip(f"real input {path} is absent: set CURATE_DATA to the folder that holds {name}")
        return list(json_lines(path))

    return rows


@pytest.fixture
def apply():
    """Return a function that applies a step to texts and returns its rows."""

    def run(step: Any, *texts: str, **columns: list[Any]) -> list[dict[str, Any]]:
        import pyarrow as pa

        from curate.words import with_words

        batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
        for name in ("path", "metadata"):
            batch = batch.append_column(name, pa.array(columns.get(name, [None] * len(texts)), pa.large_string()))
        return step.apply(with_words(batch, step.reads)).to_pylist()

    return run


@pytest.fixture
def fired():
    """Return a function that names the rules of a step that remove a measured row."""
    from curate.stage import bound_for

    def names(step: Any, row: dict[str, Any], block: str = "block") -> list[str]:
        found = []
        for rule in step.rules(block):
            value = row[rule.column]
            if value is None:
                continue  # what was not measured fires nothing
            label = row.get(rule.by) if rule.by else None
            low, high = bound_for(rule.at_least, label), bound_for(rule.at_most, label)
            gone = rule.one_of is not None and value not in rule.one_of
            if gone or (low is not None and value < low) or (high is not None and value > high):
                found.append(rule.name)
        return found

    return names
