"""`curate inspect`: read samples of what was kept or removed, and why."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.errors import UsageError
from curate.report.contamination import leak_lines
from curate.report.display import number, one_line, plain
from curate.report.duplicates import likeness
from curate.report.run import RunFolder, read_rows
from curate.report.samples import Pick, decisions, draw, find_shard_texts, find_texts

if TYPE_CHECKING:
    import polars as pl

KEPT = "kept"
SHOWN_CHARACTERS = 1500
MAX_ITEMS = 3  # benchmark items shown of a document; all are counted


@dataclass(frozen=True, slots=True)
class InspectRow:
    """One document and what became of it.

    Attributes:
        id, source, url, path, offset: Which document it is.
        kept: Whether it is in the corpus.
        stage, rule, value, threshold, also_fired: Why it is not; empty if it is. `value` is a number or a label.
        kept_id, similarity: The copy that stands for a duplicate.
        verified, cluster_size: Whether the texts were compared, and documents in its cluster; None if it is in none.
        kept_source, kept_url: Where that copy is from; None if it is not of this run, or has no address.
        contamination: Rows of contamination.parquet: the benchmark items that it holds, those with the highest score first.
        split: train or validation, if kept.
        text: The curated text of a kept document, else the extracted one; None if there is none.
    """

    id: str
    source: str
    url: str | None
    path: str | None
    offset: int | None
    kept: bool
    stage: str | None
    rule: str | None
    value: float | str | None
    threshold: str | None
    also_fired: tuple[str, ...]
    kept_id: str | None
    similarity: float | None
    verified: bool | None
    cluster_size: int | None
    kept_source: str | None
    kept_url: str | None
    contamination: tuple[Mapping[str, Any], ...]
    split: str | None
    text: str | None


def inspect(
    run: Path,
    *,
    source: str | None = None,
    stage: str | None = None,
    rule: str | None = None,
    sample: int = 10,
    seed: int = 0,
) -> Iterator[InspectRow]:
    """Yield up to `sample` documents, drawn by hash of (seed, id), so that a smaller sample is part of a larger one.

    Args:
        run: The run folder.
        source: Only documents of this source.
        stage: Only documents that this stage removed; `kept` for those that were kept.
        rule: Only documents for which this rule was the reason.
        sample: How many.
        seed: Another seed draws others.

    Raises:
        UsageError: If there is no such run, source, stage or rule; the message lists what there is.
    """
    if sample < 1:
        raise UsageError(f"--sample {sample}: must be at least 1.")
    folder = RunFolder.open(run)
    sources = [source] if source is not None else list(folder.sources)
    if source is not None:
        _known("--source", source, folder.sources)
    if not any(folder.shards("decisions", name) for name in folder.sources):
        raise UsageError(f"{run}: nothing has been decided in this run. Run the recipe at least until phase 'decide'.")
    if stage is not None or rule is not None:
        reasons = _reasons(folder, sources)
        if stage is not None:
            _known("--stage", stage, (KEPT, *dict.fromkeys(one for one, _ in reasons)))
        if stage == KEPT and rule is not None:
            raise UsageError(f"--stage {KEPT} --rule {rule}: a kept document has no rule that removed it.")
        if rule is not None:
            _known("--rule", rule, tuple(dict.fromkeys(name for one, name in reasons if stage in (None, one))))
    picks = _draw(folder, sources, stage, rule, sample, seed)
    kept = find_shard_texts(folder, "documents", [pick for pick in picks if pick.row["kept"]])
    texts = find_shard_texts(folder, "extracted", [pick for pick in picks if pick.id not in kept])
    copies = [pick.row["kept_id"] for pick in picks if pick.row["kept_id"]]
    wanted = ((source, id) for source in folder.sources for id in copies)
    places = find_texts(folder, "extracted", wanted, ("source", "url")) if copies else {}
    path = folder.path / "duplicates.parquet"
    there = path.is_file() and path.stat().st_size > 0
    clusters = read_rows(path, [pick.id for pick in picks], ("verified", "cluster_size")) if there else {}
    leaks = _leaks(folder, [pick.id for pick in picks])
    return (_row(pick, kept.get(pick.id), texts.get(pick.id), clusters, places, leaks) for pick in picks)


def _leaks(folder: RunFolder, ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of contamination.parquet of these documents."""
    import polars as pl

    frame = folder.table("contamination.parquet")
    leaks: dict[str, list[dict[str, Any]]] = {}
    if frame is not None:
        rows = frame.filter(pl.col("id").is_in(list(ids)))
        for row in rows.sort("overlap", "benchmark", "item", descending=[True, False, False]).iter_rows(named=True):
            leaks.setdefault(row["id"], []).append(row)
    return leaks


def inspect_lines(rows: Iterable[InspectRow], characters: int = SHOWN_CHARACTERS) -> Iterator[str]:
    """Yield lines for a terminal; what a terminal would act upon is spelled out.

    Args:
        rows: From `inspect`.
        characters: Of each text; what follows is counted.
    """
    shown = 0
    for row in rows:
        shown += 1
        yield f"── {one_line(row.source)} · {_fate(row)}"
        yield f"   id {row.id}" + (f" · {one_line(row.url)}" if row.url else "")
        if row.path is not None:
            yield f"   from {one_line(row.path)}" + (f" at {number(row.offset)}" if row.offset is not None else "")
        if row.kept_id:
            earlier = (row.rule or "").startswith("dedup.earlier")
            what = "an earlier corpus holds it as" if earlier else "kept copy"
            size = f", cluster of {number(row.cluster_size)}" if row.cluster_size is not None and not earlier else ""
            yield f"   {what} {row.kept_id}: {likeness(row.rule, row.similarity, row.verified)}{size}"
            if row.kept_source is not None:
                yield f"   from {one_line(row.kept_source)}" + (f", {one_line(row.kept_url)}" if row.kept_url else "")
        if row.also_fired:
            yield "   also fired: " + ", ".join(one_line(name) for name in row.also_fired)
        for leak in row.contamination[:MAX_ITEMS]:
            yield from leak_lines(leak, "   ", "holds ")
        if len(row.contamination) > MAX_ITEMS:
            yield f"   and {number(len(row.contamination) - MAX_ITEMS)} more benchmark items"
        yield from _text_lines(row.text, characters)
        yield ""
    yield f"{shown} document{'' if shown == 1 else 's'} shown." if shown else "No document fits."


def _fate(row: InspectRow) -> str:
    if row.kept:
        return "kept" + (f" ({row.split})" if row.split else "")
    value = "" if row.value is None else f": {one_line(row.value) if isinstance(row.value, str) else number(row.value)}"
    bound = f", bound {one_line(row.threshold)}" if row.threshold else ""
    return f"removed by {one_line(row.rule or '?')} ({one_line(row.stage or '?')}){value}{bound}"


def _text_lines(text: str | None, characters: int) -> Iterator[str]:
    if text is None:
        yield "   (no text was extracted)"
        return
    for line in plain(text[:characters]).split("\n"):
        yield f"   │ {line}".rstrip()
    if len(text) > characters:
        yield f"   … and {number(len(text) - characters)} more characters"


def _draw(
    folder: RunFolder, sources: Sequence[str], stage: str | None, rule: str | None, sample: int, seed: int
) -> list[Pick]:
    drawn: list[tuple[tuple[int, str], Pick]] = []
    for source in sources:
        for shard, frame in decisions(folder, source):
            fitting = _fitting(frame, stage, rule)
            places = heapq.nsmallest(sample, ((draw(id, seed), id, index) for index, id in enumerate(fitting["id"])))
            drawn += [((place, id), Pick(source, shard, fitting.row(index, named=True))) for place, id, index in places]
        drawn = heapq.nsmallest(sample, drawn, key=lambda item: item[0])
    return [pick for _, pick in drawn]


def _fitting(frame: pl.DataFrame, stage: str | None, rule: str | None) -> pl.DataFrame:
    import polars as pl

    if stage == KEPT:
        return frame.filter(pl.col("kept"))
    if stage is not None:
        frame = frame.filter(~pl.col("kept") & (pl.col("stage") == stage))
    if rule is not None:
        frame = frame.filter(~pl.col("kept") & (pl.col("rule") == rule))
    return frame


def _reasons(folder: RunFolder, sources: Sequence[str]) -> list[tuple[str, str]]:
    """Return the (stage, rule) pairs that removed something from these sources."""
    import polars as pl

    found: set[tuple[str, str]] = set()
    for source in sources:
        for _, frame in decisions(folder, source):
            found.update(frame.filter(~pl.col("kept")).select("stage", "rule").unique().iter_rows())
    return sorted((stage or "", rule or "") for stage, rule in found)


def _known(option: str, name: str, names: Sequence[str]) -> None:
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {plain(near[0])}?" if near else ""
    there = ", ".join(plain(one) for one in names) or "none"
    raise UsageError(f"{option} {plain(name)}: this run has no such thing.{hint} It has: {there}.")


def _row(
    pick: Pick,
    curated: dict[str, Any] | None,
    extracted: dict[str, Any] | None,
    clusters: Mapping[str, Mapping[str, Any]],
    places: Mapping[str, Mapping[str, Any]],
    leaks: Mapping[str, Sequence[Mapping[str, Any]]],
) -> InspectRow:
    row = pick.row
    cluster = clusters.get(pick.id, {})
    copy = places.get(row["kept_id"] or "", {})
    text = curated or extracted or {}
    label = row.get("value_label")
    return InspectRow(
        id=pick.id,
        source=pick.source,
        url=row.get("url") or text.get("url"),
        path=row.get("path") or text.get("path"),
        offset=row["offset"] if row.get("offset") is not None else text.get("offset"),
        kept=bool(row["kept"]),
        stage=row["stage"],
        rule=row["rule"],
        value=label if label is not None else row["value"],
        threshold=row["threshold"],
        also_fired=tuple(row["also_fired"] or ()),
        kept_id=row["kept_id"],
        similarity=row["similarity"],
        verified=cluster.get("verified"),
        cluster_size=cluster.get("cluster_size"),
        kept_source=copy.get("source"),
        kept_url=copy.get("url"),
        contamination=tuple(leaks.get(pick.id, ())),
        split=curated["split"] if curated else None,
        text=text.get("text"),
    )
