"""Repeated lines: counted over the documents that decide keeps, cut out of each as edits. No text is read again.

Three kinds of tasks of the phase cluster, behind its clusters: `spill` (a shard's lines, sorted by key), `count` (a
partition of the keys) and `cut` (a shard's edits and removals).
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from curate.decontaminate.index import list_column
from curate.dedup.kinds import Lines
from curate.dedup.lines import (
    EMPTY,
    PARTITIONS,
    WIDTH,
    LineHashes,
    RepeatedLines,
    count_documents,
    document_records,
    line_cuts,
    scope_hash,
    write_records,
)
from curate.dedup.spill import Sorter
from curate.document import EDITS, REMOVED, REPEATED
from curate.ledger import same_rows
from curate.phases.cluster import ShardOfCorpus, cluster_numbers
from curate.phases.measure import last_revision
from curate.pipeline import ParquetFile, RemovalCounts, Removals, RowsBeside, read_batches, removal
from curate.plan import TaskContext
from curate.stage import Stage
from curate.text.addresses import parse_address

RULE = "dedup.lines"
_WWW = re.compile(r"\Awww\d*\.(?=.*\.)")  # not of a host that is no more than that and a top-level domain
_RANK = 48  # bits of a place below the source's rank: the number of the document
_SHOWN = 20  # most repeated lines of a shard, and of the corpus
_LONGEST = 200  # characters shown of a line


@dataclass(frozen=True, slots=True)
class _Looked:
    """Documents of one batch that are looked at, with their lines one after the other.

    Attributes:
        rows: Their rows in the batch, shape (documents,).
        lengths: Lines of each, shape (documents,).
        scopes, clusters, places: Of each, shape (documents,).
        columns: hashes, starts, stops, num_words of all lines.
    """

    rows: np.ndarray
    lengths: np.ndarray
    scopes: np.ndarray
    clusters: np.ndarray
    places: np.ndarray
    columns: dict[str, np.ndarray]


def scope_of(settings: Lines, source: str, url: str | None) -> str | None:
    """Return the name of what a document's lines are compared within, or None if it is left alone."""
    if settings.within != "site":
        return source if settings.within == "source" else ""
    address = parse_address(url) if url else None
    if address is None:
        return None
    folders = address.path.split("/")[1:-1][: settings.folders]  # the last part is the page
    return "/".join([_WWW.sub("", address.host), *folders])


def _looked(
    context: TaskContext, settings: Lines, shard: ShardOfCorpus, clusters_key: str | None, names: Sequence[str]
) -> Iterator[tuple[list[str], _Looked]]:
    """Yield (ids, what is looked at) for each batch of a shard: documents that are still kept and have a scope."""
    extracted = context.entry(shard.extracted)
    measured = RowsBeside(context.entry(shard.lines).path("measurements.parquet"), ["id", *names])
    removals = Removals(context.entry(one).path("removed.parquet") for one in shard.decided)
    clusters = cluster_numbers(context, clusters_key, shard.first, extracted.counts["extracted"]).astype(np.uint64)
    first = 0
    for batch in read_batches(extracted.path("extracted.parquet"), ["id", "url"]):
        ids = batch["id"].to_pylist()
        table = measured.take(len(ids)).combine_chunks()
        same_rows(shard.source, RULE, "", ids, table["id"].to_pylist())
        removed = removals.about(ids)
        scopes = [
            None if name in removed else scope_of(settings, shard.source, url)
            for name, url in zip(ids, batch["url"].to_pylist(), strict=True)
        ]
        rows = np.array([row for row, scope in enumerate(scopes) if scope is not None], np.int64)
        hashes = np.array([scope_hash(scope) for scope in scopes if scope is not None], np.uint64)
        parts = {name: list_column(table[name].chunk(0).take(pa.array(rows))) for name in names}
        lengths = np.diff(parts[names[0]][1])
        columns = {name: values for name, (values, _) in parts.items()}
        places = (np.uint64(shard.rank) << np.uint64(_RANK)) | (shard.first + first + rows).astype(np.uint64)
        yield ids, _Looked(rows, lengths, hashes, clusters[first + rows], places, columns)
        first += len(ids)
    removals.finish()


def prepare_lines(context: TaskContext, stage: Stage, argument: Any) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that hashes the lines of a batch (see `LastMeasure`)."""
    assert isinstance(stage, LineHashes)
    del context, argument
    return stage.apply


def spill(context: TaskContext, key: str, settings: Lines, shard: ShardOfCorpus, clusters_key: str | None) -> None:
    """Write lines.u64: the shard's records, sorted; `counts["bounds"]` says where the partitions begin."""
    with context.writing(key) as output, context.scratch() as folder:
        sorter = Sorter(WIDTH, context.memory, str(folder), "lines")
        for _, looked in _looked(context, settings, shard, clusters_key, ("hashes",)):
            hashes = looked.columns["hashes"]
            sorter.append(*document_records(hashes, looked.lengths, looked.scopes, looked.clusters, looked.places))
        output.counts["bounds"] = write_records(sorter.sorted(), output.path("lines.u64"))


def count(context: TaskContext, key: str, settings: Lines, spilled: Sequence[str], partition: int) -> None:
    """Write one partition of the table of repeated lines (see `count_documents`)."""
    entries = [context.entry(one) for one in spilled]
    with context.writing(key) as output, context.scratch() as folder:
        output.counts["lines"] = count_documents(
            [(entry.path("lines.u64"), entry.counts["bounds"]) for entry in entries],
            partition,
            output.folder,
            min_documents=settings.min_documents,
            memory_bytes=context.memory,
            scratch=str(folder),
        )


def cut(
    context: TaskContext,
    key: str,
    settings: Lines,
    shard: ShardOfCorpus,
    clusters_key: str | None,
    counted: Sequence[str],
) -> None:
    """Write edits.parquet, removed.parquet and repeated.parquet (REPEATED) of one shard.

    Its counts: `removed` and `bytes` as of every phase that removes; `cut`: documents looked at, and documents, lines and
    bytes cut; `most`: the lines in most documents, with their text.
    """
    assert len(counted) == PARTITIONS
    table = RepeatedLines([context.entry(one).folder for one in counted])
    removals, counts, most = RemovalCounts(), {"looked_at": 0, "documents": 0, "lines": 0, "bytes": 0}, _Most()
    sizes = RowsBeside(context.entry(shard.extracted).path("sizes.parquet"), ["bytes"])
    names = ("hashes", "starts", "stops", "num_words")
    with context.writing(key) as output:
        with (
            ParquetFile(output.path("edits.parquet"), EDITS) as edits,
            ParquetFile(output.path("removed.parquet"), REMOVED) as removed,
            ParquetFile(output.path("repeated.parquet"), REPEATED) as repeated,
        ):
            for ids, looked in _looked(context, settings, shard, clusters_key, names):
                of_text = sizes.take(len(ids))["bytes"].to_pylist()
                counts["looked_at"] += len(looked.rows)
                gone, cuts, rows = _judge(settings, table, ids, looked, counts, most)
                for row, record in gone:
                    removals.add(record["stage"], record["rule"], of_text[row])
                removed.write_rows([record for _, record in gone])
                edits.write_rows(cuts)
                repeated.write_rows(rows)
        output.counts |= {**removals.as_json(), "cut": counts, "most": most.told(context, shard)}


def _judge(
    settings: Lines, table: RepeatedLines, ids: Sequence[str], looked: _Looked, counts: dict[str, int], most: _Most
) -> tuple[list[tuple[int, dict[str, Any]]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return (row, removal) of the documents that go, and the rows of EDITS and REPEATED; add to counts and most."""
    hashes, starts, stops, num_words = looked.columns.values()
    keys = hashes ^ np.repeat(looked.scopes, looked.lengths)
    documents, firsts = table.find(keys)
    of = np.repeat(table.find(looked.scopes ^ np.uint64(EMPTY))[0], looked.lengths)
    hit = (documents >= settings.min_documents) & (num_words >= settings.min_words)
    hit &= documents / np.maximum(of, 1) >= settings.min_share
    if settings.keep_first:
        hit &= firsts != np.repeat(looked.clusters, looked.lengths)
    most.see(keys, documents, of, hit, ids, looked)
    gone: list[tuple[int, dict[str, Any]]] = []
    edits: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    ends = np.cumsum(looked.lengths)
    some = np.unique(np.searchsorted(ends, np.flatnonzero(hit), "right"))
    for number in some.tolist():
        row, end = int(looked.rows[number]), int(ends[number])
        mine = slice(end - int(looked.lengths[number]), end)
        start, stop, is_cut = starts[mine].tolist(), stops[mine].tolist(), hit[mine].tolist()
        found = zip(start, stop, documents[mine].tolist(), of[mine].tolist(), is_cut, strict=True)
        values = [(*line[:4],) for line in found if line[4]]
        rows += [dict(zip(REPEATED.names, (ids[row], *line), strict=True)) for line in values]
        lost = sum(b - a for a, b, *_ in values)
        share = lost / sum(b - a for a, b in zip(start, stop, strict=True))
        removed = _removal(settings, ids[row], all(is_cut), share)
        if removed is not None:
            gone.append((row, removed))
            continue
        counts["documents"] += 1
        counts["lines"] += len(values)
        spans = line_cuts(start, stop, is_cut)
        counts["bytes"] += sum(b - a for a, b in spans)
        edits += [{"id": ids[row], "start": a, "end": b, "phase": "cluster", "rule": RULE} for a, b in spans]
    return gone, edits, rows


def _removal(settings: Lines, document: str, nothing_stays: bool, share: float) -> dict[str, Any] | None:
    too_much = settings.max_share is not None and share > settings.max_share
    if nothing_stays:
        also = (f"{RULE}_share",) if too_much else ()
        return removal(document, "dedup", f"{RULE}_empty", value=share, threshold="< 1", also_fired=also)
    if too_much:
        return removal(document, "dedup", f"{RULE}_share", value=share, threshold=f"<= {settings.max_share:g}")
    return None


class _Most:
    """The repeated lines of a shard that stand in most documents, each with one place where it stands."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[int, int, str, int, int]] = {}  # key: documents, of, id, start, stop

    def see(
        self,
        keys: np.ndarray,
        documents: np.ndarray,
        of: np.ndarray,
        hit: np.ndarray,
        ids: Sequence[str],
        looked: _Looked,
    ) -> None:
        """Take in the repeated lines of a batch; the first place of each is kept."""
        at = np.flatnonzero(hit)
        distinct, first = np.unique(keys[at], return_index=True)
        at = at[first]
        order = np.lexsort((distinct, -documents[at]))[:_SHOWN]
        owner = np.searchsorted(np.cumsum(looked.lengths), at, "right")
        for one in order.tolist():
            place = int(at[one])
            name = ids[int(looked.rows[owner[one]])]
            span = int(looked.columns["starts"][place]), int(looked.columns["stops"][place])
            self._found.setdefault(int(distinct[one]), (int(documents[place]), int(of[place]), name, *span))
        if len(self._found) > _SHOWN:
            best = heapq.nsmallest(_SHOWN, self._found.items(), key=lambda item: (-item[1][0], item[0]))
            self._found = dict(best)

    def told(self, context: TaskContext, shard: ShardOfCorpus) -> list[dict[str, Any]]:
        """Return key, text, documents, of and one document's id and address of each, those in most documents first."""
        texts = last_texts(context, shard, {entry[2] for entry in self._found.values()})
        told = []
        for key, (documents, of, name, start, stop) in sorted(self._found.items(), key=lambda i: (-i[1][0], i[0])):
            data, url = texts[name]
            text = data[start:stop].decode().strip()[:_LONGEST]
            told.append({"key": f"{key:016x}", "text": text, "documents": documents, "of": of, "id": name, "url": url})
        return told


def last_texts(
    context: TaskContext, shard: ShardOfCorpus, wanted: Collection[str]
) -> dict[str, tuple[bytes, str | None]]:
    """Return UTF-8 of the last revision, and address, of some documents of a shard, by id."""
    texts: dict[str, tuple[bytes, str | None]] = {}
    for batch in read_batches(context.entry(shard.extracted).path("extracted.parquet")) if wanted else ():
        rows = [row for row, name in enumerate(batch["id"].to_pylist()) if name in wanted]
        if rows:
            last = last_revision(context, shard.source, shard.blocks, batch.take(pa.array(rows)))
            for name, url, text in zip(*(last[n].to_pylist() for n in ("id", "url", "text")), strict=True):
                texts[name] = (text.encode(), url)
    return texts
