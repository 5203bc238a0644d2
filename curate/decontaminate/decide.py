"""From matched n-grams to removals, cuts and a report: which documents hold which benchmark items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from curate.decontaminate.index import Index, list_column, merged, phrases_at
from curate.decontaminate.ngrams import word_spans
from curate.decontaminate.settings import Decontaminate
from curate.document import CONTAMINATION, EDITS, REMOVED, ROWS_PER_GROUP

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
_SHOWN = 20


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
        remaining: Distinct n-grams of each text that are not common, shape (T,).
    """

    def __init__(self, table: pa.Table, index: Index) -> None:
        number = index.numbers(table["hash"].to_numpy())
        self.is_common = np.zeros(len(index.hashes), np.bool_)
        self.is_common[number] = True
        self.documents = np.zeros(len(index.hashes), np.int64)
        self.documents[number] = table["documents"].to_numpy()
        owned = np.repeat(~self.is_common, np.diff(index.bounds))
        self.remaining = np.bincount(index.owners[owned], minlength=index.texts.num_rows)

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
    """An item found in a document: its text numbers that reached the threshold, and the best of them."""

    texts: NDArray[np.int64]
    overlap: float


def decide(batches: Iterable[pa.RecordBatch], index: Index, common: Common, settings: Decontaminate) -> Decisions:
    """Decide on documents with matches.

    Args:
        batches: Columns `id`, `text`, `matches`, `word_hashes`; documents without matches may be left out. A column `cuts`
            (large_list of int64) may say what earlier phases cut: start, end, start, end, ... in UTF-8 bytes.
        index: The index that made `matches`.
        common: Common n-grams of the whole corpus.
        settings: `threshold`, `action` and `margin` are used.

    Returns:
        One contamination row for each document and item with overlap >= threshold; for `drop` one removal for each
        such document; for `cut` its spans to cut, or a removal if no word would stay.

    Raises:
        ValueError: `matches` or `word_hashes` belong to another index or another revision of the text.
    """
    removed: list[dict[str, Any]] = []
    contamination: list[dict[str, Any]] = []
    edits: list[dict[str, Any]] = []
    names = list(zip(index.texts["benchmark"].to_pylist(), index.texts["item"].to_pylist(), strict=True))
    item_of = _item_numbers(names)
    for batch in batches:
        words, offsets = list_column(batch["word_hashes"])
        for row, found in _found(batch, index, common, item_of, settings.threshold):
            key = batch["id"][row].as_py()
            text = batch["text"][row].as_py()
            spans, data = word_spans(text), text.encode()
            hashes = words[offsets[row] : offsets[row + 1]]
            if len(spans) != len(hashes):
                raise ValueError(f"document {key}: {len(spans)} words, but {len(hashes)} word hashes: measure again.")
            place, number = index.find(hashes, np.array([0, len(hashes)]))
            cuts: list[NDArray[np.int64]] = []
            for item in found:
                runs = _runs(index, common, item.texts, place, number)
                cuts.append(runs)
                first, end = runs[np.argmax(runs[:, 1] - runs[:, 0])]  # the first of the longest
                start, stop = int(spans[first, 0]), int(spans[end - 1, 1])
                benchmark, name = names[item.texts[0]]
                contamination.append(
                    {"id": key, "benchmark": benchmark, "item": name, "overlap": item.overlap}
                    | {"start": start, "end": stop, "span": data[start:stop].decode()}
                )
            if settings.action == "flag":
                continue
            before = batch["cuts"][row].as_py() if "cuts" in batch.schema.names else []
            if settings.action == "cut" and (
                cut := _cuts(np.concatenate(cuts), spans, len(data), settings.margin, before)
            ):
                edits += [{"id": key, "start": a, "end": b, "phase": "decontaminate", "rule": RULE} for a, b in cut]
                continue
            best = max(found, key=lambda item: item.overlap)  # the first of the best, in index order
            removed.append(
                {"id": key, "stage": "decontaminate", "rule": RULE, "value": best.overlap, "also_fired": []}
                | {"value_label": "/".join(names[best.texts[0]]), "threshold": f"< {settings.threshold:g}"}
            )
    return Decisions(
        pa.Table.from_pylist(removed, REMOVED),
        pa.Table.from_pylist(contamination, CONTAMINATION),
        pa.Table.from_pylist(edits, EDITS),
    )


def _item_numbers(names: list[tuple[str, str]]) -> NDArray[np.int64]:
    """Return the number of each text's item, in the order of the index."""
    numbers: dict[tuple[str, str], int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _found(
    batch: pa.RecordBatch, index: Index, common: Common, item_of: NDArray[np.int64], threshold: float
) -> Iterable[tuple[int, list[_Found]]]:
    """Yield (row, items at or above the threshold in index order) for the rows that have any."""
    matches, offsets = list_column(batch["matches"])
    number = index.numbers(matches)
    rows = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
    content = ~common.is_common[number]
    number, rows = number[content], rows[content]
    sizes = index.bounds[number + 1] - index.bounds[number]
    inner = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    texts = index.owners[np.repeat(index.bounds[number], sizes) + inner]
    pairs, counts = np.unique(np.repeat(rows, sizes) * index.texts.num_rows + texts, return_counts=True)
    row, text = np.divmod(pairs, max(1, index.texts.num_rows))
    overlap = counts / common.remaining[text]
    reached = overlap >= threshold
    row, text, overlap = row[reached], text[reached], overlap[reached]
    for at in np.unique(row).tolist():
        mine = row == at
        found: list[_Found] = []
        for item in np.unique(item_of[text[mine]]).tolist():
            of_item = mine & (item_of[text] == item)
            found.append(_Found(text[of_item], float(overlap[of_item].max())))
        yield at, found


def _runs(
    index: Index, common: Common, texts: NDArray[np.int64], place: NDArray[np.int64], number: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the stretches of words (start, end) that the texts' n-grams cover in a document."""
    owned = np.zeros(len(index.hashes), np.bool_)
    for text in texts.tolist():
        owned[index.grams_of(text)] = True
    hit = owned[number] & ~common.is_common[number]
    return _union(place[hit], place[hit] + index.lengths[number[hit]])


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


def summarise(
    built: Mapping[str, Any], contamination: Iterable[pa.RecordBatch], index: Index, common: Common
) -> dict[str, Any]:
    """Return what the report shows of decontamination.

    Args:
        built: What `build_index` returned.
        contamination: All rows, those of one document together.
        index: The index.
        common: The common n-grams.

    Returns:
        JSON-able: `benchmarks` (what `built` says of each, with `items_found`, `share` of all items, `documents`, and
        `matches`: item to number of documents), `worst` (items in most documents, with the longest matched span),
        `common_ngrams`, `common_phrases` (ignored as common text: text, documents, items) and `common_items` (items
        that are common text throughout, so that nothing can be said about them).
    """
    matches: dict[tuple[str, str], dict[str, Any]] = {}
    documents: dict[str, int] = {}
    latest: dict[str, str] = {}
    for batch in contamination:
        for row in batch.to_pylist():
            name = row["benchmark"]
            if latest.get(name) != row["id"]:
                latest[name] = row["id"]
                documents[name] = documents.get(name, 0) + 1
            item = matches.setdefault((name, row["item"]), {"documents": 0, "overlap": 0.0, "span": ""})
            item["documents"] += 1
            if (row["overlap"], len(row["span"])) > (item["overlap"], len(item["span"])):
                item |= {"overlap": row["overlap"], "span": row["span"], "id": row["id"]}
    benchmarks: dict[str, Any] = {}
    for name, about in built["benchmarks"].items():
        found = {item: match["documents"] for (benchmark, item), match in matches.items() if benchmark == name}
        benchmarks[name] = {
            **about,
            "items_found": len(found),
            "share": len(found) / about["items"],
            "documents": documents.get(name, 0),
            "matches": found,
        }
    worst = sorted(matches.items(), key=lambda pair: (-pair[1]["documents"], -pair[1]["overlap"], pair[0]))
    return {
        "benchmarks": benchmarks,
        "worst": [{"benchmark": name, "item": item, **about} for (name, item), about in worst[:_SHOWN]],
        "common_ngrams": int(common.is_common.sum()),
        "common_phrases": _common_phrases(index, common),
        "common_items": _common_items(index, common),
    }


def _common_phrases(index: Index, common: Common) -> list[dict[str, Any]]:
    """Return the stretches of benchmark text that were ignored as common, those in most documents first."""
    phrases: dict[str, dict[str, Any]] = {}
    owned = np.repeat(common.is_common, np.diff(index.bounds))
    for number in np.unique(index.owners[owned]).tolist():
        grams = index.grams_of(number)
        is_common = common.is_common[grams]
        about = index.texts.slice(number, 1).to_pylist()[0]
        starts = np.array(about["starts"], np.int64)[is_common]
        for phrase in phrases_at(about["text"], starts, about["n"]):
            entry = phrases.setdefault(phrase, {"text": phrase, "documents": 0, "items": []})
            entry["documents"] = max(entry["documents"], int(common.documents[grams].max()))
            entry["items"].append(f"{about['benchmark']}/{about['item']}")
    ranked = sorted(phrases.values(), key=lambda entry: (-entry["documents"], entry["text"]))
    return [{**entry, "items": entry["items"][:_SHOWN]} for entry in ranked[:_SHOWN]]


def _common_items(index: Index, common: Common) -> list[str]:
    """Return the tested items of which every text is common throughout."""
    tested: dict[str, bool] = {}
    columns = (index.texts[name].to_pylist() for name in ("benchmark", "item", "status"))
    for (benchmark, item, status), remaining in zip(zip(*columns, strict=True), common.remaining.tolist(), strict=True):
        if status == "tested":
            name = f"{benchmark}/{item}"
            tested[name] = tested.get(name, False) or remaining > 0
    return [name for name, is_left in tested.items() if not is_left]
