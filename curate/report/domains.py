"""Validation by domain and language: bits per byte of each seed, and how far other documents would have moved them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from curate.report.run import RunFolder, read_table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CONFIDENCE = 0.95
_OTHER, _NOT_STATED = "other", "not stated"  # as the trainer calls them
_COLUMNS = ("source", "id", "domain", "language", "bytes", "nats")


@dataclass(frozen=True, slots=True)
class _Documents:
    """Validation documents of a source.

    Attributes:
        labels: Of each document, by `domain` and by `language`.
        num_bytes: Shape (documents,).
        bits: Code length of each document by seed, shape (seeds, documents).
    """

    labels: Mapping[str, list[str | None]]
    num_bytes: npt.NDArray[np.int64]
    bits: npt.NDArray[np.float64]


def domains(run: RunFolder) -> dict[str, Any] | None:
    """Return a table of each source by domain and by language; None if no seed recorded its validation documents.

    Each row has documents, bytes, bits per byte by seed, their mean, and the mean's interval over documents. What is a domain
    of its own the trainer decided; summary.json holds it.
    """
    summaries = {}
    for seed in run.seeds():
        summary = run.json(f"train/{seed}/summary.json")
        if summary.get("domains") and (run.path / "train" / seed / "validation.parquet").is_file():
            summaries[seed] = summary
    if not summaries:
        return None
    documents = _read(run, list(summaries))
    sources = {}
    places = {source: place for place, source in enumerate(run.sources)}  # a stream `web/en` is of source `web`
    known = next(iter(summaries.values()))["domains"]
    for source in sorted(known, key=lambda name: places.get(name.partition("/")[0], len(places))):
        tables, found = known[source], documents[source]
        sources[source] = {
            "macro": {seed: summary["domains"][source]["macro_bits_per_byte"] for seed, summary in summaries.items()},
            "total": _row(found, [True] * len(found.num_bytes), list(summaries)),
        }
        for by in ("domain", "language"):
            names = [name if name in tables[f"by_{by}"] else _OTHER for name in _named(found.labels[by])]
            sources[source][f"by_{by}"] = {
                label: _row(found, [name == label for name in names], list(summaries)) for label in tables[f"by_{by}"]
            }
    macro = {seed: summary["macro_bits_per_byte"] for seed, summary in summaries.items()}
    return {"confidence": CONFIDENCE, "seeds": list(summaries), "macro": macro, "sources": sources}


def _named(labels: list[str | None]) -> list[str]:
    return [label or _NOT_STATED for label in labels]


def _read(run: RunFolder, seeds: list[str]) -> dict[str, _Documents]:
    """Return the documents of each source; all seeds are validated on the same ones, in one order."""
    import numpy as np
    import polars as pl

    tables = [read_table(run.path / "train" / seed / "validation.parquet", _COLUMNS) for seed in seeds]
    found = {}
    for source in tables[0]["source"].unique(maintain_order=True).to_list():
        parts = [table.filter(pl.col("source") == source) for table in tables]
        first = parts[0]
        found[source] = _Documents(
            {by: first[by].to_list() for by in ("domain", "language")},
            first["bytes"].to_numpy(),
            np.stack([part["nats"].to_numpy() for part in parts]) / math.log(2),
        )
    return found


def _row(found: _Documents, ours: list[bool], seeds: list[str]) -> dict[str, Any]:
    import numpy as np

    rows = np.flatnonzero(ours)
    sizes, bits = found.num_bytes[rows], found.bits[:, rows]
    by_seed = bits.sum(axis=1) / sizes.sum()
    low, high = interval(bits.mean(axis=0), sizes)
    return {
        "documents": len(rows),
        "bytes": int(sizes.sum()),
        "bits_per_byte": dict(zip(seeds, by_seed.tolist(), strict=True)),
        "mean": float(by_seed.mean()),
        "low": low,
        "high": high,
    }


def interval(bits: npt.NDArray[np.float64], num_bytes: npt.NDArray[np.int64]) -> tuple[float | None, float | None]:
    """Return the interval of sum(bits) / sum(num_bytes) over documents; None and None for fewer than two.

    A ratio of sums, whose variance is that of what each document has above the ratio's share (Cochran 1977, Sampling
    Techniques, section 6.4); Student's t for few documents. It says what other documents of the same kind would have given.
    """
    import numpy as np
    from scipy.stats import t

    count = len(bits)
    if count < 2:
        return None, None
    ratio = bits.sum() / num_bytes.sum()
    above = bits - ratio * num_bytes
    error = math.sqrt(count / (count - 1) * float(np.square(above).sum())) / float(num_bytes.sum())
    half = float(t.ppf((1 + CONFIDENCE) / 2, count - 1)) * error
    return float(ratio) - half, float(ratio) + half
