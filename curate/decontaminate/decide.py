"""From matched n-grams to removals and cuts: which documents hold which benchmark items."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from curate.decontaminate.index import Index, list_column, marks_of, merged
from curate.decontaminate.normal import normal_spans
from curate.decontaminate.normal_hashes import normal_hashes
from curate.decontaminate.runs import Places, find_places, is_match, matches_of
from curate.decontaminate.settings import Decontaminate
from curate.document import CONTAMINATION, EDITS, REMOVED, ROWS_PER_GROUP
from curate.words import text_arrays

COMMON = pa.schema(
    [
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("clusters", pa.int32(), nullable=False),  # distinct duplicate clusters, counted up to max_clusters + 1
        pa.field("documents", pa.int64(), nullable=False),  # documents, all of them
    ]
)
RULE = "decontaminate.ngram"
_PAIR_BYTES = 64  # of a buffered (n-gram, cluster) pair: both numbers, and the copies that sorting them makes
_FEWEST_PAIRS = 1 << 12  # a smaller buffer would spend its time in calls


def count_common(
    batches: Iterable[pa.RecordBatch],
    index: Index,
    settings: Decontaminate,
    output: str,
    *,
    memory_bytes: int = 1 << 28,
) -> int:
    """Write the n-grams that are common text: those in more than `max_clusters` distinct duplicate clusters.

    Memory is bounded by the index (at most `max_clusters` + 1 clusters are kept for an n-gram) and one buffer of
    pairs, whatever the number of documents.

    Args:
        batches: Columns `cluster` (int64: number of the cluster, or one of its own for a document that is alone) and
            `matches`, of all documents in any order.
        index: The index that made `matches`.
        settings: `max_clusters` is used.
        output: Path of the file (Parquet, schema COMMON, sorted by hash).
        memory_bytes: About what the buffer of pairs may hold; changes nothing else.

    Returns:
        How many n-grams are common.
    """
    enough = settings.max_clusters + 1
    documents = np.zeros(len(index.hashes), np.int64)
    is_common = np.zeros(len(index.hashes), np.bool_)
    numbers, clusters = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    buffered, most = 0, max(_FEWEST_PAIRS, memory_bytes // _PAIR_BYTES)

    def bring_together() -> None:
        number, cluster = np.concatenate(numbers), np.concatenate(clusters)
        order = np.lexsort((cluster, number))
        number, cluster = number[order], cluster[order]
        new = np.ones(len(number), np.bool_)
        new[1:] = (number[1:] != number[:-1]) | (cluster[1:] != cluster[:-1])
        number, cluster = number[new], cluster[new]
        is_common[np.bincount(number, minlength=len(is_common)) >= enough] = True
        keep = ~is_common[number]
        numbers[:], clusters[:] = [number[keep]], [cluster[keep]]

    for batch in batches:
        matches, offsets = list_column(batch["matches"])
        number = index.numbers(matches)
        documents += np.bincount(number, minlength=len(documents))
        cluster = np.repeat(batch["cluster"].to_numpy(), np.diff(offsets))
        undecided = ~is_common[number]
        numbers.append(number[undecided])
        clusters.append(cluster[undecided])
        buffered += int(undecided.sum())
        if buffered >= most:
            bring_together()
            buffered = 0
    bring_together()
    common = np.flatnonzero(is_common)
    table = pa.table([index.hashes[common], np.full(len(common), enough, np.int32), documents[common]], schema=COMMON)
    pq.write_table(table, output, row_group_size=ROWS_PER_GROUP, compression="zstd")
    return len(common)


class Common:
    """Common n-grams of an index, and what is left of each text without them.

    Attributes:
        is_common: For each hash of the index, shape (H,).
        documents: Documents that hold it; 0 if it is not common, shape (H,).
        marks: What the texts' words count for.
        content: Words of each text that count for the score, shape (T,).
    """

    def __init__(self, table: pa.Table, index: Index) -> None:
        number = index.numbers(table["hash"].to_numpy())
        self.is_common = np.zeros(len(index.hashes), np.bool_)
        self.is_common[number] = True
        self.documents = np.zeros(len(index.hashes), np.int64)
        self.documents[number] = table["documents"].to_numpy()
        self.marks = marks_of(index, self.is_common)
        self.content = self.marks.content_of(index)

    @classmethod
    def load(cls, path: str, index: Index) -> Common:
        """Read what `count_common` wrote for this index."""
        return cls(pq.read_table(path), index)

    @classmethod
    def none(cls, index: Index) -> Common:
        """No n-gram is common."""
        return cls(COMMON.empty_table(), index)


class Decisions(NamedTuple):
    """What `decide` gives: tables with the schemas of `curate.document`, rows in the order of the documents."""

    removed: pa.Table  # REMOVED
    contamination: pa.Table  # CONTAMINATION
    edits: pa.Table  # EDITS


@dataclass(frozen=True, slots=True)
class _Found:
    """An item found in a document.

    Attributes:
        text: Number of the text of the item with the highest score; of several the one that covers most of the document,
            so that both sides show the same words; of these the first.
        overlap: That score.
        words: Distinct words of that text that the document holds in one neighbourhood, common ones left out.
        item_runs: Stretches of that text's words that the document holds anywhere, start and end, shape (runs, 2).
        runs: Stretches of the document's words that hold any text of the item, shape (runs, 2).
    """

    text: int
    overlap: float
    words: int
    item_runs: NDArray[np.int64]
    runs: NDArray[np.int64]


def decide(batches: Iterable[pa.RecordBatch], index: Index, common: Common, settings: Decontaminate) -> Decisions:
    """Decide on documents with matches.

    Args:
        batches: Columns `id`, `text`, `matches`; documents without matches may be left out. A column `cuts`
            (large_list of int64) may say what earlier phases cut: start, end, start, end, ... in UTF-8 bytes.
        index: The index that made `matches`.
        common: Common n-grams of the whole corpus.
        settings: `threshold`, `action` and `margin` are used.

    Returns:
        One contamination row for each document and item with overlap >= threshold; for `drop` one removal for each
        such document; for `cut` its spans to cut, or a removal if no word would stay.

    Raises:
        ValueError: `matches` belong to another index or another revision of the text.
    """
    removed: list[dict[str, Any]] = []
    contamination: list[dict[str, Any]] = []
    edits: list[dict[str, Any]] = []
    names = list(zip(index.texts["benchmark"].to_pylist(), index.texts["item"].to_pylist(), strict=True))
    item_of = _item_numbers(names)
    for batch in batches:
        index.numbers(list_column(batch["matches"])[0])  # refuses those of another index
        words, offsets = normal_hashes(*text_arrays(batch["text"]))
        _same_matches(batch, matches_of(words, offsets, index))
        for row, found in _found(words, offsets, index, common, item_of, settings.threshold):
            key, text = batch["id"][row].as_py(), batch["text"][row].as_py()
            spans = normal_spans(text)
            contamination += [{"id": key, **_row(item, index, text, spans)} for item in found]
            if settings.action == "flag":
                continue
            before = batch["cuts"][row].as_py() if "cuts" in batch.schema.names else []
            runs = np.concatenate([item.runs for item in found])
            if settings.action == "cut" and (cut := _cuts(runs, spans, len(text.encode()), settings.margin, before)):
                edits += [{"id": key, "start": a, "end": b, "phase": "decontaminate", "rule": RULE} for a, b in cut]
                continue
            best = max(found, key=lambda item: item.overlap)  # the first of the best, in index order
            removed.append(
                {"id": key, "stage": "decontaminate", "rule": RULE, "value": best.overlap, "also_fired": []}
                | {"value_label": "/".join(names[best.text]), "threshold": f"< {settings.threshold:g}"}
            )
    return Decisions(
        pa.Table.from_pylist(removed, REMOVED),
        pa.Table.from_pylist(contamination, CONTAMINATION),
        pa.Table.from_pylist(edits, EDITS),
    )


def _same_matches(batch: pa.RecordBatch, again: pa.LargeListArray) -> None:
    for key, before, now in zip(batch["id"].to_pylist(), batch["matches"], again, strict=True):
        if before.is_valid and before != now:
            raise ValueError(f"document {key}: its text does not hold the n-grams of column 'matches': measure again.")


def _item_numbers(names: list[tuple[str, str]]) -> NDArray[np.int64]:
    """Return the number of each text's item, in the order of the index."""
    numbers: dict[tuple[str, str], int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _found(
    words: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    index: Index,
    common: Common,
    item_of: NDArray[np.int64],
    threshold: float,
) -> Iterator[tuple[int, list[_Found]]]:
    """Yield (row, items at or above the threshold in index order) for the rows that have any."""
    places = find_places(words, offsets, index, common.marks, ~common.is_common)
    overlap = places.content / np.maximum(common.content[places.text], 1)
    numbers = np.flatnonzero(is_match(places, index) & (overlap >= threshold))
    if not len(numbers):
        return
    row, item = places.row[numbers], item_of[places.text[numbers]]
    order = np.lexsort((places.text[numbers], -overlap[numbers], item, row))  # the best of an item first
    numbers, row, item = numbers[order], row[order], item[order]
    heads = np.flatnonzero(np.append(True, (row[1:] != row[:-1]) | (item[1:] != item[:-1])))
    found: list[_Found] = []
    for first, end in itertools.pairwise([*heads.tolist(), len(row)]):
        best, shown = _shown(numbers[first:end], overlap, places)
        start, _, size = _runs_of(numbers[first:end], places).T
        start = start - offsets[row[first]]
        found.append(
            _Found(
                text=int(places.text[best]),
                overlap=float(overlap[best]),
                words=int(places.evidence[best]),
                item_runs=_union(shown[:, 1], shown[:, 1] + shown[:, 2]),
                runs=_union(start, start + size),
            )
        )
        if end == len(row) or row[end] != row[first]:
            yield int(row[first]), found
            found = []


def _runs_of(numbers: NDArray[np.int64], places: Places) -> NDArray[np.int64]:
    """Return the runs of these places (see `Places.runs`)."""
    return np.concatenate([places.runs[places.bounds[place] : places.bounds[place + 1]] for place in numbers])


def _shown(numbers: NDArray[np.int64], overlap: NDArray[np.float64], places: Places) -> tuple[int, NDArray[np.int64]]:
    """Return which place decides on an item, and the runs of all places of that place's text.

    Args:
        numbers: Places of the item in one document, the highest score first, then the first text.
        overlap: Score of each place, shape (P,).
        places: All places.
    """
    top = numbers[overlap[numbers] == overlap[numbers[0]]]
    best, most, runs = int(top[0]), -1, places.runs[:0]
    for text in dict.fromkeys(places.text[top].tolist()):
        own = _runs_of(numbers[places.text[numbers] == text], places)
        covered = int(np.diff(_union(own[:, 0], own[:, 0] + own[:, 2])).sum())
        if covered > most:
            best, most, runs = int(top[places.text[top] == text][0]), covered, own
    return best, runs


def _row(item: _Found, index: Index, text: str, spans: NDArray[np.int64]) -> dict[str, Any]:
    """Return an item's row of CONTAMINATION but for the document's id."""
    benchmark, name, field, looked_for = (
        index.texts[column][item.text].as_py() for column in ("benchmark", "item", "field", "text")
    )
    bytes_of = np.stack([spans[item.runs[:, 0], 0], spans[item.runs[:, 1] - 1, 1]], axis=1)
    longest = int(np.argmax(item.runs[:, 1] - item.runs[:, 0]))  # the first of the longest
    start, end = bytes_of[longest].tolist()
    item_spans = normal_spans(looked_for)
    return {
        "benchmark": benchmark,
        "item": name,
        "overlap": item.overlap,
        "start": start,
        "end": end,
        "span": text.encode()[start:end].decode(),
        "field": field,
        "words": item.words,
        "spans": [{"start": a, "end": b} for a, b in bytes_of.tolist()],
        "item_text": looked_for,
        "item_spans": [
            {"start": int(item_spans[a, 0]), "end": int(item_spans[b - 1, 1])} for a, b in item.item_runs.tolist()
        ],
    }


def _union(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.argsort(starts, kind="stable")
    return merged(starts[order], ends[order])


def _cuts(
    runs: NDArray[np.int64], spans: NDArray[np.int64], num_bytes: int, margin: int, before: list[int]
) -> list[tuple[int, int]]:
    """Return byte spans to cut: the runs with their margin, up to the next word; none if no word would stay.

    `before` holds starts and ends, in turn, of what is cut in any case.
    """
    num_words = len(spans)
    wide = _union(np.maximum(runs[:, 0] - margin, 0), np.minimum(runs[:, 1] + margin, num_words))
    stays = np.ones(num_words, np.bool_)
    for first, end in wide.tolist():
        stays[first:end] = False
    for start, stop in zip(before[::2], before[1::2], strict=True):
        stays &= (spans[:, 1] <= start) | (spans[:, 0] >= stop)
    if not stays.any():
        return []
    return [
        (0 if first == 0 else int(spans[first, 0]), num_bytes if end == num_words else int(spans[end, 0]))
        for first, end in wide.tolist()
    ]
