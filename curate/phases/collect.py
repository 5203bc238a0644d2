"""Collect: the curated corpus. Rewrites applied again, later phases' cuts and `at: collect` steps applied, all removals merged."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.document import CURATED, DECISION, EDITS, REMOVED
from curate.ledger import SourceLedger, Tally, add, balance, same_rows
from curate.phases.edits import EditsAbout, cut_spans
from curate.phases.measure import Block
from curate.pipeline import (
    ParquetFile,
    Removals,
    RowsAbout,
    RowsBeside,
    apply_step,
    read_batches,
    removal,
    replace_text,
    rows_written,
    text_bytes,
)
from curate.plan import TaskContext
from curate.stated import Stated

_EQUAL = ("dedup.exact", "dedup.url", "dedup.payload")


@dataclass(frozen=True, slots=True)
class Collected:
    """What collect needs of one shard.

    Attributes:
        source: Name of the source.
        extracted: Result key of extract.
        decided: Result keys that hold removed.parquet, in phase order (decide, cluster, decontaminate).
        edits: Result keys that hold edits.parquet, in phase order.
        choice: Result key of choose and the name of the shard's file in it, or None.
        near: The bound that near copies passed, in words.
        alike: The bound that documents passed of which another says nearly the same, in words.
        blocks: Steps up to the last revision.
        finals: Steps marked `at: collect`.
        language: Result key of the last block that measures `language`, or None.
        stated: What the recipe states about the source.
    """

    source: str
    extracted: str
    decided: tuple[str, ...]
    edits: tuple[str, ...]
    choice: tuple[str, str] | None
    near: str
    alike: str
    blocks: tuple[Block, ...]
    finals: tuple[Block, ...]
    language: str | None
    stated: Stated


def collect_shard(context: TaskContext, key: str, settings: Collected) -> None:
    """Write documents.parquet (CURATED), decisions.parquet (DECISION), edits.parquet (EDITS) and the shard's ledger."""
    early = context.entry(settings.extracted)
    ledger = SourceLedger(
        read=early.counts["read"],
        bytes_read=early.counts["bytes_read"],
        bytes_payload=early.counts["payload"],
        skipped=dict(early.counts["skipped"]),
    )
    said = _Said(context, settings)
    measured: Counter[str] = Counter()
    with context.writing(key) as output:
        paths = {name: output.path(f"{name}.parquet") for name in ("documents", "decisions", "edits")}
        with (
            ParquetFile(paths["documents"], CURATED) as documents,
            ParquetFile(paths["decisions"], DECISION) as decisions,
            ParquetFile(paths["edits"], EDITS) as edits,
        ):
            rows = _merged(
                _decide(context, settings, said, ledger, documents, edits, measured),
                _early(context, settings, ledger),
            )
            pending: list[dict[str, Any]] = []
            for row in rows:
                pending.append(row)
                if len(pending) == 1000:
                    decisions.write_rows(pending)
                    pending = []
            decisions.write_rows(pending)
        said.finish()
        kept = rows_written(paths["documents"])
        _check(context, settings, ledger, paths)
        output.counts |= {
            "ledger": ledger.as_json(),
            "documents": kept,
            "measured": dict(sorted(measured.items())),
        }


class _Said:
    """What the phases before say about the documents of a shard, read while the documents go by."""

    def __init__(self, context: TaskContext, settings: Collected) -> None:
        self._removals = Removals(context.entry(one).path("removed.parquet") for one in settings.decided)
        self._cuts = EditsAbout(context.entry(one).path("edits.parquet") for one in settings.edits)
        self._choices = self._languages = None
        if settings.choice is not None:
            key, name = settings.choice
            self._choices = RowsAbout(context.entry(key).path(name))
        if settings.language is not None:
            path = context.entry(settings.language).path("measurements.parquet")
            self._languages = RowsBeside(path, ["id", "language"])
        self._source = settings.source

    def about(self, ids: Sequence[str]) -> _Batch:
        """Return what is said about the next documents."""
        languages: dict[str, str | None] = {}
        if self._languages is not None:
            rows = self._languages.take(len(ids))
            same_rows(self._source, "collect", "", ids, rows["id"].to_pylist())
            languages = dict(zip(ids, rows["language"].to_pylist(), strict=True))
        choices = {row["id"]: row for row in self._choices.about(ids)} if self._choices is not None else {}
        return _Batch(self._removals.about(ids), choices, self._cuts.about(ids), languages)

    def finish(self) -> None:
        """Raise ValueError unless everything that was said was about a document of the shard."""
        self._removals.finish()
        self._cuts.finish()
        if self._choices is not None:
            self._choices.finish()


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is said about one batch, by id.

    Attributes:
        removed: Removals by decide, cluster and decontaminate.
        choices: What choose says; a document without an entry is kept for training, alone.
        cuts: Spans to cut, disjoint.
        languages: Measured languages.
    """

    removed: dict[str, dict[str, Any]]
    choices: Mapping[str, dict[str, Any]]
    cuts: Mapping[str, list[dict[str, Any]]]
    languages: Mapping[str, str | None]


def _decide(
    context: TaskContext,
    settings: Collected,
    said: _Said,
    ledger: SourceLedger,
    documents: ParquetFile,
    edits: ParquetFile,
    measured: Counter[str],
) -> Iterator[dict[str, Any]]:
    """Yield one decision for each extracted document, in file order, and write the kept ones."""
    for batch in read_batches(context.entry(settings.extracted).path("extracted.parquet")):
        ids = batch["id"].to_pylist()
        sizes = text_bytes(batch["text"])
        about = said.about(ids)
        gone, cuts = about.removed, about.cuts
        for name, choice in about.choices.items():
            if choice["removed"]:
                similarity, rule = choice["similarity"], choice["rule"]
                bound = settings.alike if rule == "dedup.semantic" else settings.near
                copied = removal(
                    name,
                    choice["stage"],
                    rule,
                    value=similarity,
                    threshold="not equal" if rule in _EQUAL else bound,
                    kept_id=choice["kept_id"],
                    similarity=similarity,
                )
                if name in gone:
                    gone[name]["also_fired"] = [*gone[name]["also_fired"], copied["rule"]]
                else:
                    gone[name] = copied
        final = _final_text(context, settings, batch, gone, cuts, measured)
        keep = [row for row, name in enumerate(ids) if name not in gone]
        kept = final.take(pa.array(keep, pa.int64()))
        documents.write(_curated(kept, about, settings))
        edits.write_rows([cut for row in keep for cut in cuts.get(ids[row], ())])
        after = text_bytes(kept["text"])
        ledger.kept += len(keep)
        ledger.bytes_kept += int(after.sum())
        ledger.bytes_cut += int(sizes[keep].sum() - after.sum())
        place = zip(batch["url"].to_pylist(), batch["path"].to_pylist(), batch["offset"].to_pylist(), strict=True)
        for row, (name, (url, path, offset)) in enumerate(zip(ids, place, strict=True)):
            record = gone.get(name)
            if record is not None:
                add(ledger.removed, record["stage"], record["rule"], 1)
                add(ledger.bytes_removed, record["stage"], record["rule"], int(sizes[row]))
            yield _decision(name, record, url, path, offset)


def _final_text(
    context: TaskContext,
    settings: Collected,
    batch: pa.RecordBatch,
    gone: dict[str, dict[str, Any]],
    cuts: Mapping[str, list[dict[str, Any]]],
    measured: Counter[str],
) -> pa.RecordBatch:
    """Return the batch with the final text of each kept document; a document that a final step fails on goes."""
    ids = batch["id"].to_pylist()
    alive = [row for row, name in enumerate(ids) if name not in gone]
    some = batch.take(pa.array(alive, pa.int64()))
    for block in settings.blocks:
        if block.step.rewrites:
            some = replace_text(
                some, apply_step(block.step, block.name, settings.source, block.stage_key, some, context)[1]
            )
    names = some["id"].to_pylist()
    if any(name in cuts for name in names):
        texts = [
            cut_spans(text, cuts[name]) if name in cuts else text
            for name, text in zip(names, some["text"].to_pylist(), strict=True)
        ]
        some = replace_text(some, pa.array(texts, pa.large_string()))
    for block in settings.finals:
        result, text, failures = apply_step(block.step, block.name, settings.source, block.stage_key, some, context)
        some = replace_text(some, text)
        for row, failure in failures.items():
            stage = "quarantine" if failure.stage == "quarantine" else "filter"
            rule = f"quarantine.{block.name}" if stage == "quarantine" else f"{block.name}.error"
            gone[names[row]] = removal(names[row], stage, rule, value=failure.message)
        for column in result.schema.names:
            if pa.types.is_integer(result.schema.field(column).type):
                measured[f"{block.name}.{column}"] += sum(value or 0 for value in result[column].to_pylist())
    texts = batch["text"].to_pylist()
    for row, text in zip(alive, some["text"].to_pylist(), strict=True):
        texts[row] = text
    return replace_text(batch, pa.array(texts, pa.large_string()))


def _curated(kept: pa.RecordBatch, about: _Batch, settings: Collected) -> pa.RecordBatch:
    names, declared = kept["id"].to_pylist(), kept["language"].to_pylist()
    languages = [about.languages.get(name) or own for name, own in zip(names, declared, strict=True)]
    choices = [about.choices.get(name) for name in names]
    columns = {
        "language": pa.array(languages, pa.string()),
        "split": pa.array([choice["split"] if choice else "train" for choice in choices], pa.string()),
        "cluster_size": pa.array([choice["cluster_size"] if choice else 1 for choice in choices], pa.int32()),
        "source": pa.array([settings.source] * kept.num_rows, pa.string()),
        "metadata": settings.stated.add(kept["metadata"]),
    }
    arrays = [columns[name] if name in columns else kept[name] for name in CURATED.names]
    return pa.RecordBatch.from_arrays(arrays, schema=CURATED)


def _early(context: TaskContext, settings: Collected, ledger: SourceLedger) -> Iterator[dict[str, Any]]:
    """Yield the decisions of records that never had a text, in file order."""
    path = context.entry(settings.extracted).path("removed.parquet")
    for batch in read_batches(path):
        for row in batch.to_pylist():
            add(ledger.removed, row["stage"], row["rule"], 1)
            add(ledger.bytes_removed, row["stage"], row["rule"], 0)
            yield _decision(row["id"], row, row["url"], row["path"], row["offset"])


def _decision(
    document: str, record: Mapping[str, Any] | None, url: str | None, path: str, offset: int
) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(REMOVED.names)
    chosen = {name: record[name] for name in REMOVED.names} if record is not None else empty | {"also_fired": []}
    return chosen | {"id": document, "kept": record is None, "url": url, "path": path, "offset": offset}


def _merged(one: Iterator[dict[str, Any]], other: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Merge two streams in file order: files of a shard come sorted by path, records by offset."""
    return heapq.merge(one, other, key=lambda row: (row["path"], row["offset"]))


def _check(context: TaskContext, settings: Collected, ledger: SourceLedger, paths: Mapping[str, Any]) -> None:
    """Compare the ledger with the files that were really written."""
    ledger.check(settings.source, "collect")
    table = pq.read_table(paths["decisions"], columns=["kept"])
    kept = int(np.asarray(table["kept"].to_numpy(zero_copy_only=False), bool).sum())
    parts: Tally = {"written": {"kept": rows_written(paths["documents"]), "removed": table.num_rows - kept}}
    balance(settings.source, "collect", "documents", ledger.read, parts["written"])
    balance(settings.source, "collect", "documents", ledger.kept, {"kept": parts["written"]["kept"]})
    size = 0
    for batch in read_batches(paths["documents"], ["text"]):
        size += int(text_bytes(batch["text"]).sum())
    balance(settings.source, "collect", "bytes", ledger.bytes_kept, {"written": size})
    del context


def quarantined(path: Path) -> list[dict[str, Any]]:
    """Return the rows of QUARANTINE that decisions.parquet of a shard tells of."""
    columns = ["id", "rule", "value_label"]
    rows = pq.read_table(path, columns=columns, filters=[("stage", "=", "quarantine")]).to_pylist()
    return [
        {"id": row["id"], "stage": row["rule"].removeprefix("quarantine."), "cause": row["value_label"] or ""}
        for row in rows
    ]
