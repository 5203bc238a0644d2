"""A small corpus through all steps of deduplication, in shards, batches and buffers of any size."""

import hashlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.dedup.choose import choose
from curate.dedup.clusters import link_partition, merge_clusters, write_shingles
from curate.dedup.components import find_components
from curate.dedup.keeping import stored_preferences
from curate.dedup.members import list_rows
from curate.dedup.minhash import Signatures
from curate.dedup.resolving import kept_schema, resolve_partition
from curate.dedup.settings import Dedup, Validation, clustering
from curate.words import folded_words, with_words

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
CASES = DATA.parent / "cases"


@dataclass(frozen=True)
class Document:
    name: str
    text: str
    source: str = "web"
    kept: bool = True
    metadata: str | None = None
    score: float | None = None  # as a step `score` would measure it
    url: str | None = None
    payload: str | None = None  # 32 hex digits

    @property
    def id(self) -> str:
        return hashlib.md5(self.name.encode(), usedforsecurity=False).hexdigest()


@dataclass
class Outcome:
    documents: list[Document]
    components: list[dict[str, Any]]
    links: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    duplicates: list[dict[str, Any]]
    summary: dict[str, Any]
    files: dict[str, bytes] = field(repr=False)

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        return {self.documents[row["doc"]].name: row for row in self.decisions}

    @cached_property
    def removed(self) -> dict[str, str]:
        return {name: row["rule"] for name, row in self.rows.items() if row["removed"]}

    @property
    def kept(self) -> list[str]:
        return [one.name for one in self.documents if one.kept and one.name not in self.removed]

    @property
    def drawn(self) -> list[str]:
        return [name for name, row in self.rows.items() if row["split"] == "validation"]

    @cached_property
    def _names(self) -> dict[str, str]:
        return {one.id: one.name for one in self.documents}

    def name(self, id_: str | None) -> str | None:
        return self._names[id_] if id_ else None


def to_sign(documents: list[Document]) -> pa.RecordBatch:
    batch = with_hashes([one.text for one in documents])
    batch = batch.append_column("url", pa.array([one.url for one in documents], pa.large_string()))
    return batch.append_column("payload", pa.array([one.payload for one in documents], pa.string()))


def with_hashes(texts: list[str]) -> pa.RecordBatch:
    return with_words(pa.record_batch({"text": pa.array(texts, pa.large_string())}), ("word_hashes",))


def shingles(text: str, ngram: int = 5) -> set[tuple[str, ...]]:
    words = folded_words(text)
    if not words:
        return set()
    return {tuple(words[i : i + ngram]) for i in range(max(1, len(words) - ngram + 1))}


def jaccard(a: str, b: str, ngram: int = 5) -> float:
    first, second = shingles(a, ngram), shingles(b, ngram)
    return len(first & second) / len(first | second) if first | second else 0.0


def run(
    documents: list[Document],
    folder: Path,
    dedup: Dedup | None = None,
    validation: Validation | None = None,
    *,
    seed: int = 17,
    per_shard: int = 1000,
    per_batch: int = 1000,
    memory_bytes: int = 1 << 26,
    sources: list[str] | None = None,
    partition_of: Callable[[int], int] | None = None,
) -> Outcome:
    """Run it all; `partition_of` a component gives another division of the work than that of the corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / "scratch"
    scratch.mkdir()
    settings = clustering(dedup)
    ranks = settings.keep.ranks(sources or list(dict.fromkeys(one.source for one in documents)))
    shards = [documents[i : i + per_shard] for i in range(0, len(documents), per_shard)]
    stage = Signatures.of(settings)
    signature_files, shingle_files, document_files = [], [], []  # paths
    for number, shard in enumerate(shards):
        path = folder / f"signatures-{number}.parquet"
        batches = [stage.apply(to_sign(shard[i : i + per_batch])) for i in range(0, len(shard), per_batch)]
        pq.write_table(pa.Table.from_batches(batches), path, row_group_size=1000)
        signature_files.append(str(path))
    components = folder / "components.parquet"
    find_components(
        signature_files, str(components), settings=settings, memory_bytes=memory_bytes, scratch=str(scratch)
    )
    table = pq.read_table(components)
    if partition_of is not None:
        partitions = pa.array([partition_of(one) for one in table["component"].to_pylist()], pa.int32())
        table = table.set_column(3, table.schema.field(3), partitions)
    members = {row["doc"]: row for row in table.to_pylist()}
    divided = folder / "divided.parquet"
    pq.write_table(table, divided)
    start = 0
    kept_files: list[str] = []
    by_partition: dict[int, list[int]] = {}
    for number, shard in enumerate(shards):
        signatures = pq.read_table(signature_files[number]).to_pylist()
        rows = [i for i in range(len(shard)) if start + i in members]
        shingle_files.append(str(folder / f"shingles-{number}.parquet"))
        partitions = write_shingles(
            (
                _member_batch(shard, signatures, rows[i : i + per_batch], start, members, settings, ranks)
                for i in range(0, len(rows), per_batch)
            ),
            shingle_files[-1],
            settings=settings,
            scratch=str(scratch),
        )
        for partition in partitions:
            by_partition.setdefault(partition, []).append(number)
        kept_files.append(str(folder / f"kept-{number}.parquet"))
        write_kept(kept_files[-1], [(members[start + i]["partition"], start + i, shard[i].kept) for i in rows])
        document_files.append(str(folder / f"documents-{number}.parquet"))
        _write_documents(document_files[-1], shard, start)
        start += len(shard)
    links, decisions, duplicates = (folder / f"{name}.parquet" for name in ("links", "decisions", "duplicates"))
    buffers: dict[str, Any] = {"memory_bytes": memory_bytes, "scratch": str(scratch)}
    linked, resolved, counts = [], [], Counter[str](compared=0, unsure=0, uncompared=0)
    for partition in sorted(by_partition):
        files = [shingle_files[number] for number in by_partition[partition]]
        kept = [kept_files[number] for number in by_partition[partition]]
        linked.append(str(folder / f"linked-{partition}.parquet"))
        link_partition(files, partition, linked[-1], settings=settings, **buffers)
        resolved.append(str(folder / f"resolved-{partition}.parquet"))
        counts.update(resolve_partition(files, kept, partition, resolved[-1], dedup=dedup, **buffers))
    merge_clusters(linked, str(links), **buffers)
    summary = choose(
        document_files,
        str(divided),
        resolved,
        {one: [shingle_files[number] for number in numbers] for one, numbers in by_partition.items()},
        decisions=str(decisions),
        duplicates=str(duplicates),
        dedup=dedup,
        validation=validation,
        seed=seed,
        **buffers,
    )
    summary["compared"] = counts["compared"]
    assert list(scratch.iterdir()) == []
    summary = json.loads(json.dumps(summary))  # JSON values only
    files = {path.name: path.read_bytes() for path in (components, links, decisions, duplicates)}
    return Outcome(
        documents,
        *(pq.read_table(path).to_pylist() for path in (components, links, decisions, duplicates)),
        summary,
        files,
    )


def write_kept(path: str, rows: list[tuple[int, int, bool]]) -> None:
    """Write (partition, doc, kept) as `resolve_partition` reads them."""
    with pq.ParquetWriter(path, kept_schema()) as file:
        for _, group in itertools.groupby(sorted(rows), key=lambda row: row[0]):
            columns = zip(*group, strict=True)
            file.write_table(pa.table(list(map(list, columns)), schema=kept_schema()))


def _write_documents(path: str, shard: list[Document], start: int) -> None:
    pq.write_table(
        pa.table(
            {
                "doc": np.arange(start, start + len(shard)),
                "id": [one.id for one in shard],
                "source": [one.source for one in shard],
                "kept": [one.kept for one in shard],
                "num_bytes": [len(one.text.encode()) for one in shard],
            }
        ),
        path,
    )


def _member_batch(
    shard: list[Document],
    signatures: list[dict[str, Any]],
    rows: list[int],
    start: int,
    members: dict[int, dict[str, int]],
    settings: Dedup,
    ranks: dict[str, int],
) -> pa.RecordBatch:
    metadata = pa.array([shard[i].metadata for i in rows], pa.large_string())
    scores = {"score": pa.array([shard[i].score for i in rows], pa.float64())}
    return pa.record_batch(
        {
            "doc": pa.array([start + i for i in rows], pa.int64()),
            "component": pa.array([members[start + i]["component"] for i in rows], pa.int64()),
            "exact": pa.array([members[start + i]["exact"] for i in rows], pa.int64()),
            "partition": pa.array([members[start + i]["partition"] for i in rows], pa.int32()),
            "id": pa.array([shard[i].id for i in rows]),
            "source_rank": pa.array([ranks[shard[i].source] for i in rows], pa.int32()),
            "num_bytes": pa.array([signatures[i]["num_bytes"] for i in rows], pa.int64()),
            "preferences": list_rows(stored_preferences(settings.keep, metadata, scores, len(rows))),
            "url_hash": pa.array([signatures[i]["url_hash"] for i in rows], pa.string()),
            "payload_hash": pa.array([signatures[i]["payload_hash"] for i in rows], pa.string()),
            "bands": pa.array([signatures[i]["bands"] for i in rows], pa.list_(pa.uint64())),
            "word_hashes": with_hashes([shard[i].text for i in rows])["word_hashes"],
        }
    )
