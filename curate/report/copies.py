"""Benchmark items found in documents, and what was cut out of documents, as the report shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from curate.report.run import RunFolder
from curate.report.samples import find_texts

ITEMS_PER_BENCHMARK = 4
CONTEXT_BYTES = 240  # shown on either side of a matched span
MAX_SPAN_CHARACTERS = 600
MAX_PHRASES = 6  # of ignored phrases and untested items; manifest.json has more


def contamination(run: RunFolder) -> dict[str, Any] | None:
    """Return what was found of each benchmark and the worst items; None without contamination.parquet.

    What was looked for (items, untested ones, phrases that were ignored) is what the manifest says.
    """
    import polars as pl

    frame = run.table("contamination.parquet")
    if frame is None:
        return None
    order = ["overlap", "span_bytes", "id", "item"]
    frame = frame.with_columns((pl.col("end") - pl.col("start")).alias("span_bytes"))
    asked = run.manifest.get("decontamination") or {}
    found: dict[str, dict[str, Any]] = {}
    worst: list[dict[str, Any]] = []
    for (name,), rows in sorted(frame.group_by("benchmark"), key=lambda item: str(item[0])):
        found[str(name)] = {
            "found": rows["item"].n_unique(),
            "whole": rows.filter(pl.col("overlap") >= 1)["item"].n_unique(),
            "documents": rows["id"].n_unique(),
            "highest_overlap": rows["overlap"].max(),
        }
        first = rows.sort(order, descending=[True, True, False, False]).unique(
            "item", keep="first", maintain_order=True
        )
        worst += first.head(ITEMS_PER_BENCHMARK).to_dicts()
    names = dict.fromkeys([*(asked.get("benchmarks") or {}), *found])
    texts = find_texts(run, "extracted", ((source, row["id"]) for source in run.sources for row in worst))
    return {
        "documents": frame["id"].n_unique(),
        "benchmarks": {
            name: _benchmark((asked.get("benchmarks") or {}).get(name) or {}, found.get(name)) for name in names
        },
        "common_ngrams": asked.get("common_ngrams"),
        "common_phrases": list(asked.get("common_phrases") or ())[:MAX_PHRASES],
        "common_items": list(asked.get("common_items") or ())[:MAX_PHRASES],
        "worst": [_leak(row, texts.get(row["id"])) for row in worst],
    }


def _benchmark(asked: Mapping[str, Any], found: Mapping[str, Any] | None) -> dict[str, Any]:
    untested = list(asked.get("untested") or ())
    counts = found or {"found": 0, "whole": 0, "documents": 0, "highest_overlap": None}
    items = asked.get("items")
    return {
        "items": items,
        "tested": asked.get("items_tested"),
        **counts,
        "share": counts["found"] / items if items else None,
        "num_untested": len(untested),
        "untested": untested[:MAX_PHRASES],
        "template_phrases": list(asked.get("template_phrases") or ())[:MAX_PHRASES],
    }


def _leak(row: Mapping[str, Any], extracted: Mapping[str, Any] | None) -> dict[str, Any]:
    before, after = context(extracted["text"], row["start"], row["end"], row["span"]) if extracted else ("", "")
    span = row["span"]
    if len(span) > MAX_SPAN_CHARACTERS:
        span = span[: MAX_SPAN_CHARACTERS // 2] + " […] " + span[-MAX_SPAN_CHARACTERS // 2 :]
    return {
        **{name: row[name] for name in ("id", "benchmark", "item", "overlap", "start", "end")},
        "before": before,
        "span": span,
        "after": after,
        "source": extracted["source"] if extracted else None,
        "url": extracted["url"] if extracted else None,
        "path": extracted["path"] if extracted else None,
    }


def context(text: str, start: int, end: int, span: str) -> tuple[str, str]:
    """Return the text before and after a span.

    The offsets count UTF-8 bytes of the last text revision; `text` is the first. Where a rewrite has moved the span
    it is searched, and where it is not found nothing is shown around it.
    """
    encoded, wanted = text.encode("utf-8", "surrogatepass"), span.encode("utf-8", "surrogatepass")
    if not wanted:
        return "", ""
    if encoded[start:end] != wanted:
        start = encoded.find(wanted)
        if start < 0:
            return "", ""
        end = start + len(wanted)
    before = encoded[max(0, start - CONTEXT_BYTES) : start].decode("utf-8", "ignore")
    after = encoded[end : end + CONTEXT_BYTES].decode("utf-8", "ignore")
    return before, after


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
