"""Repeated spans: found in the documents that are still kept, cut out of each as edits, or flagged. No text is read again.

Kinds of tasks of the phase cluster, behind repeated lines: `anchors` and `windows` spill what a shard holds, `join` counts a
partition of either, `cut` makes a shard's edits and removals (`curate.dedup.spans` says how it works).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from curate.decontaminate.index import list_column
from curate.dedup import spans as finding
from curate.dedup.kinds import Spans
from curate.document import EDITS, REMOVED, REPEATED_SPANS
from curate.ledger import same_rows
from curate.phases.cluster import ShardOfCorpus, cluster_numbers
from curate.phases.edits import EditsAbout, remaining
from curate.phases.lines import last_texts
from curate.pipeline import ParquetFile, RemovalCounts, Removals, RowsBeside, read_batches, removal
from curate.plan import TaskContext
from curate.stage import Stage
from curate.words import prepare_words

RULE = "dedup.spans"
SHOWN = 20  # most repeated spans of a shard, and of the corpus
_LONGEST = 200  # characters shown of a span
_WIDTHS = {"anchors": finding.ANCHOR, "windows": finding.WINDOW}


@dataclass(frozen=True, slots=True)
class _Looked:
    """What is looked at of one batch: documents that are still kept, without the tokens that are cut already.

    Attributes:
        ids: Of all documents of the batch.
        rows: Rows of those that are looked at, shape (documents,).
        stream: Their tokens.
        starts: Byte at which each token begins, shape (tokens,).
        stops: Byte at which it ends.
        edits: What is cut already, by id.
    """

    ids: list[str]
    rows: np.ndarray
    stream: finding.Stream
    starts: np.ndarray
    stops: np.ndarray
    edits: Mapping[str, Sequence[Mapping[str, Any]]]


def prepare_tokens(context: TaskContext, stage: Stage, argument: Any) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that hashes the tokens of a batch (see `LastMeasure`)."""
    assert isinstance(stage, finding.SpanTokens)
    del context, argument
    prepare_words(("tokens",))
    return stage.apply


def _looked(context: TaskContext, shard: ShardOfCorpus, clusters_key: str | None) -> Iterator[_Looked]:
    """Yield what is looked at of each batch of a shard: the same batches, whichever task asks."""
    extracted = context.entry(shard.extracted)
    names = tuple(finding.tokens_schema().names)
    measured = RowsBeside(context.entry(shard.tokens).path("measurements.parquet"), ["id", *names])
    removals = Removals(context.entry(one).path("removed.parquet") for one in shard.decided)
    cut = EditsAbout(context.entry(one).path("edits.parquet") for one in shard.edits)
    clusters = cluster_numbers(context, clusters_key, shard.first, extracted.counts["extracted"]).astype(np.uint64)
    first = 0
    for batch in read_batches(extracted.path("extracted.parquet"), ["id"]):
        ids = batch["id"].to_pylist()
        table = measured.take(len(ids)).combine_chunks()
        same_rows(shard.source, RULE, "", ids, table["id"].to_pylist())
        removed, edits = removals.about(ids), cut.about(ids)
        rows = np.array([row for row, name in enumerate(ids) if name not in removed], np.int64)
        columns = [list_column(table[name].chunk(0).take(pa.array(rows))) for name in names]
        (keys, offsets), (starts, _), (sizes, _) = columns
        starts = starts.astype(np.int64)
        stops = starts + sizes
        names_of_rows = b"".join(bytes.fromhex(ids[row]) for row in rows.tolist())
        stays = _stays([ids[row] for row in rows.tolist()], offsets, starts, stops, edits)
        if stays is not None:
            offsets = np.concatenate([[0], np.cumsum(stays)])[offsets]
            keys, starts, stops = keys[stays], starts[stays], stops[stays]
        stream = finding.Stream(
            np.array(keys, np.uint64),
            offsets[:-1].astype(np.int64),
            offsets[1:].astype(np.int64),
            clusters[first + rows],
            np.frombuffer(names_of_rows, ">u8").astype(np.uint64).reshape(-1, 2),
        )
        yield _Looked(ids, rows, stream, starts, stops, edits)
        first += len(ids)
    removals.finish()
    cut.finish()


def _stays(
    ids: Sequence[str],
    offsets: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    edits: Mapping[str, Sequence[Mapping[str, Any]]],
) -> np.ndarray | None:
    """Return which tokens no edit touches, or None if there are no edits: what is left closes up."""
    if not edits:
        return None
    stays = np.ones(len(starts), np.bool_)
    for row, name in enumerate(ids):
        own = slice(*offsets[row : row + 2].tolist())
        for edit in edits.get(name, ()):
            low = np.searchsorted(stops[own], edit["start"], "right")
            stays[own][low : np.searchsorted(starts[own], edit["end"])] = False
    return stays


def anchors(context: TaskContext, key: str, settings: Spans, shard: ShardOfCorpus, clusters_key: str | None) -> None:
    """Write anchors.u64 of a shard, and where its documents begin (see `spill_anchors`)."""
    with context.writing(key) as output, context.scratch() as folder:
        bounds, tokens = finding.spill_anchors(
            (looked.stream for looked in _looked(context, shard, clusters_key)),
            output.path("anchors.u64"),
            window=settings.min_tokens,
            scratch=str(folder),
        )
        output.counts |= {"bounds": bounds, "tokens": tokens}


def windows(
    context: TaskContext,
    key: str,
    settings: Spans,
    shard: ShardOfCorpus,
    clusters_key: str | None,
    joined: Sequence[str],
    number: int,
) -> None:
    """Write windows.u64 of a shard: those whose anchors are in enough documents.

    Args:
        context: Of the task.
        key: Of the result.
        settings: The recipe's.
        shard: The shard.
        clusters_key: Result key of the clusters of copies.
        joined: Result keys of the partitions of anchors.
        number: Of the shard among those that are looked at.
    """
    with context.writing(key) as output, context.scratch() as folder:
        bounds, tokens = finding.spill_windows(
            (looked.stream for looked in _looked(context, shard, clusters_key)),
            _answers(context, joined, number),
            output.path("windows.u64"),
            window=settings.min_tokens,
            scratch=str(folder),
        )
        output.counts |= {"bounds": bounds, "tokens": tokens}


def join(
    context: TaskContext,
    key: str,
    settings: Spans,
    kind: str,
    spilled: Sequence[str],
    ranks: Sequence[int],
    partition: int,
) -> None:
    """Write which records of a partition are in enough documents (see `answer`); `kind` is anchors or windows."""
    with context.writing(key) as output, context.scratch() as folder:
        output.counts["bounds"] = finding.answer(
            _spilled(context, kind, spilled, ranks),
            partition,
            output.folder,
            min_documents=settings.min_documents,
            memory_bytes=context.memory,
            scratch=str(folder),
        )


def _spilled(context: TaskContext, kind: str, keys: Iterable[str], ranks: Iterable[int]) -> list[finding.Spilled]:
    found = []
    for one, rank in zip(keys, ranks, strict=True):
        entry = context.entry(one)
        path, width = entry.path(f"{kind}.u64"), _WIDTHS[kind]
        found.append(finding.Spilled(path, width, entry.counts["bounds"], entry.counts["tokens"], rank))
    return found


def _answers(context: TaskContext, joined: Sequence[str], number: int) -> finding.Answers:
    assert len(joined) == finding.PARTITIONS
    entries = [context.entry(one) for one in joined]
    return finding.Answers([(entry.folder, entry.counts["bounds"]) for entry in entries], number)


def cut(
    context: TaskContext,
    key: str,
    settings: Spans,
    shard: ShardOfCorpus,
    clusters_key: str | None,
    spilled: Sequence[str],
    ranks: Sequence[int],
    joined: Sequence[str],
    number: int,
) -> None:
    """Write edits.parquet, removed.parquet and spans.parquet (REPEATED_SPANS) of one shard.

    Its counts: `removed` and `bytes` as of every phase that removes; `cut`: documents looked at, those with a repeated
    span, and documents, spans, tokens and bytes cut; `most`: the spans in most documents, with their text.

    Args:
        context: Of the task.
        key: Of the result.
        settings: The recipe's.
        shard: The shard.
        clusters_key: Result key of the clusters of copies.
        spilled: Result keys of the anchors of all shards that are looked at.
        ranks: Priority of each.
        joined: Result keys of the partitions of windows.
        number: Of the shard among those that are looked at.
    """
    answers = _answers(context, joined, number)
    documents = finding.Documents(_spilled(context, "anchors", spilled, ranks))
    removals, most = RemovalCounts(), _Most(settings.min_tokens)
    counts = dict.fromkeys(("looked_at", "repeated", "documents", "spans", "tokens", "bytes"), 0)
    sizes = RowsBeside(context.entry(shard.extracted).path("sizes.parquet"), ["bytes"])
    base = 0
    with context.writing(key) as output:
        with (
            ParquetFile(output.path("edits.parquet"), EDITS) as edits,
            ParquetFile(output.path("removed.parquet"), REMOVED) as removed,
            ParquetFile(output.path("spans.parquet"), REPEATED_SPANS) as repeated,
        ):
            for looked in _looked(context, shard, clusters_key):
                of_text = sizes.take(len(looked.ids))["bytes"].to_pylist()
                spans, runs = finding.repeated_spans(
                    looked.stream,
                    base,
                    answers,
                    documents,
                    window=settings.min_tokens,
                    keep_first=settings.keep_first,
                )
                base += len(looked.stream.tokens)
                counts["looked_at"] += len(looked.rows)
                counts["repeated"] += len(np.unique(spans.owners))
                rows = _rows(looked, spans, documents)
                repeated.write_rows(rows)
                most.see(spans, rows)
                gone, cuts = _judge(settings, looked, runs, counts) if settings.action == "cut" else ([], [])
                for row, record in gone:
                    removals.add(record["stage"], record["rule"], of_text[row])
                removed.write_rows([record for _, record in gone])
                edits.write_rows(cuts)
        output.counts |= {**removals.as_json(), "cut": counts, "most": most.told(context, shard)}


def _rows(looked: _Looked, spans: finding.Spans, documents: finding.Documents) -> list[dict[str, Any]]:
    """Return the rows of REPEATED_SPANS."""
    distinct, where = np.unique(spans.firsts, return_inverse=True)
    names = [f"{high:016x}{low:016x}" for high, low in documents.names(distinct).tolist()]
    columns = (
        [looked.ids[row] for row in looked.rows[spans.owners].tolist()],
        looked.starts[spans.starts].tolist(),
        looked.stops[spans.stops - 1].tolist(),
        spans.documents.tolist(),
        [names[one] for one in where.tolist()],
        spans.own.tolist(),
    )
    return [dict(zip(REPEATED_SPANS.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _judge(
    settings: Spans, looked: _Looked, runs: finding.Runs, counts: dict[str, int]
) -> tuple[list[tuple[int, dict[str, Any]]], list[dict[str, Any]]]:
    """Return (row, removal) of the documents that go, and the rows of EDITS of the others; add to counts."""
    gone: list[tuple[int, dict[str, Any]]] = []
    edits: list[dict[str, Any]] = []
    owners, at = np.unique(runs.owners, return_index=True)
    ends = np.append(at, len(runs.owners))[1:]
    for owner, low, high in zip(owners.tolist(), at.tolist(), ends.tolist(), strict=True):
        first, behind = int(looked.stream.starts[owner]), int(looked.stream.stops[owner])
        begin, end = looked.starts[first:behind], looked.stops[first:behind]
        own = [
            (a - first, b - first)
            for a, b in zip(runs.starts[low:high].tolist(), runs.stops[low:high].tolist(), strict=True)
        ]
        lost = sum(int((end[a:b] - begin[a:b]).sum()) for a, b in own)
        share = lost / int((end - begin).sum())
        row = int(looked.rows[owner])
        name = looked.ids[row]
        removed = _removal(settings, name, own == [(0, len(begin))], share)
        if removed is not None:
            gone.append((row, removed))
            continue
        taken = [(edit["start"], edit["end"]) for edit in looked.edits.get(name, ())]
        cuts = finding.token_cuts(begin.tolist(), end.tolist(), own)
        left = [part for span in cuts for part in remaining(span, taken)]
        counts["documents"] += 1
        counts["spans"] += len(own)
        counts["tokens"] += sum(b - a for a, b in own)
        counts["bytes"] += sum(b - a for a, b in left)
        edits += [{"id": name, "start": a, "end": b, "phase": "cluster", "rule": RULE} for a, b in left]
    return gone, edits


def _removal(settings: Spans, document: str, nothing_stays: bool, share: float) -> dict[str, Any] | None:
    too_much = settings.max_share is not None and share > settings.max_share
    if nothing_stays:
        also = (f"{RULE}_share",) if too_much else ()
        return removal(document, "dedup", f"{RULE}_empty", value=share, threshold="< 1", also_fired=also)
    if too_much:
        return removal(document, "dedup", f"{RULE}_share", value=share, threshold=f"<= {settings.max_share:g}")
    return None


def most_repeated(found: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the spans in most documents, the longest of these first: none that overlaps another where it stands first.

    Args:
        found: Spans with `documents`, `tokens`, and `locus`: where the span stands first, in tokens of the corpus.
    """
    chosen: list[Mapping[str, Any]] = []
    for one in sorted(found, key=lambda span: (-span["documents"], -span["tokens"], span["locus"])):
        start, stop = one["locus"], one["locus"] + one["tokens"]
        if all(stop <= other["locus"] or other["locus"] + other["tokens"] <= start for other in chosen):
            chosen.append(one)
            if len(chosen) == SHOWN:
                break
    return chosen


class _Most:
    """The repeated spans of a shard that stand in most documents, each with one place where it stands."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._found: list[Mapping[str, Any]] = []

    def see(self, spans: finding.Spans, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take in the spans of a batch; of equal ones the first place is kept."""
        lengths = spans.stops - spans.starts
        # One span of each beginning, the best; lexsort is stable, so that the first place comes first.
        order = np.lexsort((-lengths, -spans.documents))
        _, first = np.unique(spans.loci[order], return_index=True)
        seen = [
            {
                "documents": int(spans.documents[at]),
                "tokens": int(lengths[at]),
                "locus": int(spans.loci[at]),
                **{name: rows[at][name] for name in ("id", "start", "end", "first_id")},
            }
            for at in order[np.sort(first)].tolist()
        ]
        self._found = most_repeated([*self._found, *seen])

    def told(self, context: TaskContext, shard: ShardOfCorpus) -> list[dict[str, Any]]:
        """Return them with text and address, those in most documents first."""
        texts = last_texts(context, shard, {one["id"] for one in self._found})
        told = []
        for one in self._found:
            data, url = texts[one["id"]]
            text = " ".join(data[one["start"] : one["end"]].decode().split())
            told.append({**one, "text": text[:_LONGEST], "url": url})
        return told
