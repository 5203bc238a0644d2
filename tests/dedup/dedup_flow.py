"""A small corpus through all steps of deduplication, in shards, batches and buffers of any size."""

import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curate.dedup.choose import choose
from curate.dedup.clusters import find_components, link_clusters, write_shingles
from curate.dedup.minhash import Signatures
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

    @property
    def id(self) -> str:
    metadata: str | None = None
    score: float | None = None  # as a step `score` would measure it
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
) -> Outcome:
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / "scratch"
    scratch.mkdir()
    settings = clustering(dedup)
    ranks = settings.keep.ranks(sources or list(dict.fromkeys(one.source for one in documents)))
    shards = [documents[i : i + per_shard] for i in range(0, len(documents), per_shard)]
    stage = Signatures.of(settings)
    signature_files, shingle_files, document_files = [], [], []
    for number, shard in enumerate(shards):
        path = folder / f"signatures-{number}.parquet"
        batches = [
            stage.apply(with_hashes([one.text for one in shard[i : i + per_batch]]))
            for i in range(0, len(shard), per_batch)
        ]
        pq.write_table(pa.Table.from_batches(batches), path, row_group_size=1000)
        signature_files.append(str(path))
    components = folder / "components.parquet"
    find_components(
        signature_files, str(components), settings=settings, memory_bytes=memory_bytes, scratch=str(scratch)
    )
    members = {row["doc"]: row for row in pq.read_table(components).to_pylist()}
    start = 0
    for number, shard in enumerate(shards):
        signatures = pq.read_table(signature_files[number]).to_pylist()
        rows = [i for i in range(len(shard)) if start + i in members]
        shingle_file = folder / f"shingles-{number}.parquet"
        write_shingles(
            (
                _member_batch(shard, signatures, rows[i : i + per_batch], start, members, settings, ranks)
                for i in range(0, len(rows), per_batch)
            ),
            str(shingle_file),
            settings=settings,
        )
        shingle_files.append(str(shingle_file))
        document_file = folder / f"documents-{number}.parquet"
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
            document_file,
        )
        document_files.append(str(document_file))
        start += len(shard)
    links, decisions, duplicates = (folder / f"{name}.parquet" for name in ("links", "decisions", "duplicates"))
    link_clusters(shingle_files, str(links), settings=settings, memory_bytes=memory_bytes, scratch=str(scratch))
    summary = choose(
        document_files,
        shingle_files,
        decisions=str(decisions),
        duplicates=str(duplicates),
        dedup=dedup,
        validation=validation,
        seed=seed,
        memory_bytes=memory_bytes,
        scratch=str(scratch),
    )
    assert list(scratch.iterdir()) == []
    summary = json.loads(json.dumps(summary))  # JSON values only
    files = {path.name: path.read_bytes() for path in (components, links, decisions, duplicates)}
    return Outcome(
        documents,
        *(pq.read_table(path).to_pylist() for path in (components, links, decisions, duplicates)),
        summary,
        files,
    )


def _member_batch(
    shard: list[Document],
    signatures: list[dict[str, Any]],
    rows: list[int],
    start: int,
    members: dict[int, dict[str, int]],
    ranks: dict[str, int],
) -> pa.RecordBatch:
    return pa.record_batch(
    settings: Dedup,
        {
            "doc": pa.array([start + i for i in rows], pa.int64()),
    metadata = pa.array([shard[i].metadata for i in rows], pa.large_string())
    scores = {"score": pa.array([shard[i].score for i in rows], pa.float64())}
            "component": pa.array([members[start + i]["component"] for i in rows], pa.int64()),
            "exact": pa.array([members[start + i]["exact"] for i in rows], pa.int64()),
            "id": pa.array([shard[i].id for i in rows]),
            "source_rank": pa.array([ranks[shard[i].source] for i in rows], pa.int32()),
            "num_bytes": pa.array([signatures[i]["num_bytes"] for i in rows], pa.int64()),
            "bands": pa.array([signatures[i]["bands"] for i in rows], pa.list_(pa.uint64())),
            "word_hashes": with_hashes([shard[i].text for i in rows])["word_hashes"],
        }
            "preferences": list_rows(stored_preferences(settings.keep, metadata, scores, len(rows))),
    )
