"""Copies and leaks as the report shows them: duplicate clusters, pairs side by side, benchmark items found in documents."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from curate.report.display import excerpt
from curate.report.run import RunFolder
from curate.report.samples import draw, find_texts

if TYPE_CHECKING:
    import polars as pl

NUM_PAIRS = {"near": 4, "exact": 1}
NUM_CLUSTERS = 8
ITEMS_PER_BENCHMARK = 4
PAIR_CHARACTERS = 1200
CONTEXT_BYTES = 240  # shown on either side of a matched span
MAX_SPAN_CHARACTERS = 600
MAX_PHRASES = 6  # of ignored phrases and untested items; manifest.json has more
_WORDS = re.compile(r"(\s*)(\S+|\Z)")


def duplicates(run: RunFolder, seed: int) -> dict[str, Any] | None:
    """Return the clusters' sizes, the largest clusters and sampled pairs; None without duplicates.parquet."""
    import polars as pl

    frame = run.table("duplicates.parquet")
    if frame is None:
        return None
    members = frame.filter(pl.col("cluster_size") > 1)
    clusters = members.group_by("cluster").agg(pl.col("cluster_size").max(), pl.len().alias("members"))
    sizes = clusters.group_by("cluster_size").len().sort("cluster_size")
    largest = clusters.sort("cluster_size", "cluster", descending=[True, False]).head(NUM_CLUSTERS)
    copies = members.filter(pl.col("kept_id").is_not_null() & (pl.col("kept_id") != pl.col("id")))
    pairs = [
        *_drawn(copies.filter(pl.col("similarity") < 1), seed, NUM_PAIRS["near"]),
        *_drawn(copies.filter(pl.col("similarity") >= 1), seed, NUM_PAIRS["exact"]),
    ]
    wanted = {*largest["cluster"], *(row[name] for row in pairs for name in ("id", "kept_id"))}
    texts = find_texts(run, "extracted", ((source, id) for source in run.sources for id in sorted(wanted)))
    return {
        "clusters": clusters.height,
        "documents": members.height,
        "copies": copies.height,
        "verified": int(copies["verified"].sum()) if "verified" in copies.columns else None,
        "sizes": [{"size": size, "clusters": count} for size, count in sizes.iter_rows()],
        "similarities": _similarities(copies),
        "largest": [_cluster(row, members, texts) for row in largest.iter_rows(named=True)],
        "pairs": [_pair(row, texts) for row in pairs],
    }


def _drawn(frame: pl.DataFrame, seed: int, count: int) -> list[dict[str, Any]]:
    places = sorted((draw(id, seed), id, index) for index, id in enumerate(frame["id"]))
    return [frame.row(index, named=True) for _, _, index in places[:count]]


def _similarities(copies: pl.DataFrame) -> list[dict[str, Any]]:
    """Return how many copies have which similarity to the kept document: twentieths below 1, and 1 itself."""
    counts: dict[float, int] = {}
    for value in copies["similarity"].drop_nulls():
        edge = 1.0 if value >= 1 else int(value * 20) / 20
        counts[edge] = counts.get(edge, 0) + 1
    return [{"at_least": edge, "copies": counts[edge]} for edge in sorted(counts)]


def _cluster(row: Mapping[str, Any], members: pl.DataFrame, texts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    import polars as pl

    inside = members.filter(pl.col("cluster") == row["cluster"])
    kept = sorted({id for id in inside["kept_id"] if id is not None})
    first = texts.get(row["cluster"])
    return {
        "cluster": row["cluster"],
        "size": row["cluster_size"],
        "kept_ids": kept[:3],
        "lowest_similarity": inside["similarity"].min(),
        "excerpt": excerpt(" ".join(first["text"][:400].split()), 140) if first else None,
        "url": first.get("url") if first else None,
        "path": first.get("path") if first else None,
    }


def _pair(row: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    sides = [texts.get(row[name]) for name in ("kept_id", "id")]
    whole = [side["text"] if side else "" for side in sides]
    start = _first_difference(*whole) if all(whole) else 0
    kept_runs, removed_runs = differences(*(text[start : start + PAIR_CHARACTERS] for text in whole))
    return {
        "similarity": row["similarity"],
        "verified": row.get("verified"),
        "cluster_size": row["cluster_size"],
        "equal_before": start,
        "kept": {"id": row["kept_id"], "runs": kept_runs, **_origin(sides[0])},
        "removed": {"id": row["id"], "runs": removed_runs, **_origin(sides[1])},
    }


def _first_difference(left: str, right: str) -> int:
    """Return where to begin to show two texts: a little before they differ, or at the start."""
    same = next((place for place, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), None)
    if same is None or same < PAIR_CHARACTERS // 2:
        return 0
    line = left.rfind("\n", 0, same - 100)
    return line + 1 if line > same - PAIR_CHARACTERS // 2 else same - PAIR_CHARACTERS // 4


def _origin(row: Mapping[str, Any] | None) -> dict[str, Any]:
    if row is None:
        return {"source": None, "url": None, "path": None, "characters": None}
    return {"source": row["source"], "url": row["url"], "path": row["path"], "characters": len(row["text"])}


def differences(left: str, right: str) -> tuple[list[list[Any]], list[list[Any]]]:
    """Return both texts as runs `[differs, text]`, compared word by word; white space never differs."""
    words = [_WORDS.findall(text) for text in (left, right)]  # (space before, word)
    matcher = difflib.SequenceMatcher(
        None, [word for _, word in words[0]], [word for _, word in words[1]], autojunk=False
    )
    runs: tuple[list[list[Any]], list[list[Any]]] = ([], [])
    for tag, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        for side, start, end in ((0, left_start, left_end), (1, right_start, right_end)):
            for index, (space, word) in enumerate(words[side][start:end]):
                differs = tag != "equal" and word != ""
                _extend(runs[side], differs and index > 0, space)
                _extend(runs[side], differs, word)
    return runs


def _extend(runs: list[list[Any]], differs: bool, text: str) -> None:
    if not text:
        return
    if runs and runs[-1][0] == differs:
        runs[-1][1] += text
    else:
        runs.append([differs, text])


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
