"""What was cut out of documents, and documents that killed a worker, as the report shows them."""

from __future__ import annotations

from typing import Any

from curate.report.run import RunFolder


def edits(run: RunFolder) -> list[dict[str, Any]]:
    """Return spans cut out of kept documents, by source, phase and rule."""
    import polars as pl

    rows: list[dict[str, Any]] = []
    for source in run.sources:
        frames = [frame for _, frame in run.scan("edits", source) if frame.height]
        if not frames:
            continue
        grouped = (
            pl.concat(frames)
            .group_by("phase", "rule")
            .agg(
                pl.len().alias("spans"),
                pl.col("id").n_unique().alias("documents"),
                (pl.col("end") - pl.col("start")).sum().alias("bytes"),
            )
            .sort("phase", "rule")
        )
        rows += [{"source": source, **row} for row in grouped.iter_rows(named=True)]
    return rows


def quarantine(run: RunFolder) -> list[dict[str, Any]]:
    """Return the documents that killed a worker."""
    frame = run.table("quarantine.parquet")
    return [] if frame is None else [dict(row) for row in frame.sort("id", "stage").iter_rows(named=True)]
