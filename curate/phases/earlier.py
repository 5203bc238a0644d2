"""Documents that an earlier corpus holds, by its stored signatures: found over all documents, removed where they match.

Tasks of the phase cluster, behind its clusters: `copy_file` (a remote file of signatures), `index` (a partition of an earlier
corpus's keys: made once, whatever is compared with it), `join` (a partition: pairs that share a key), `compare` (a group of
shards: the best match of each document), `remove` (a shard) and `tabulate` (earlier.parquet).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from curate.cache import sha256_file
from curate.dedup.earlier import (
    PARTITIONS,
    RowsOf,
    SortedKeys,
    best_matches,
    estimate,
    open_pairs,
    without_repeats,
    write_keys,
    write_pairs,
)
from curate.dedup.spill import Sorter, zeros_on_disk
from curate.document import EARLIER, REMOVED
from curate.errors import InputError
from curate.inputs import InputFile, fetch
from curate.phases.cluster import ShardOfCorpus
from curate.pipeline import ParquetFile, RemovalCounts, Removals, RowsAbout, read_batches, removal
from curate.plan import TaskContext

RULE = "dedup.earlier"
_PAIR_BYTES = 1024  # of a pair in memory: two signatures, and the rows that they are read with
_NAMED_BYTES = 1024  # of a match in memory: ids and an address

# A match, as EARLIER, but with the number of the earlier corpus in place of its name.
_MATCHES = EARLIER.set(EARLIER.get_field_index("run"), pa.field("run", pa.int32(), nullable=False))


@dataclass(frozen=True, slots=True)
class EarlierFile:
    """A file of stored signatures.

    Attributes:
        file: Where it is.
        sha256: Its digest, as the manifest beside it says.
        documents: Its rows.
        copy: Result key of the local copy of a remote one, else an empty string.
    """

    file: InputFile
    sha256: str
    documents: int
    copy: str


@dataclass(frozen=True, slots=True)
class EarlierCorpus:
    """The stored signatures of an earlier corpus.

    Attributes:
        name: The folder, as the recipe names it.
        digest: sha256 of its manifest, which names the digest of each file.
        files: In document order.
        words: Versions of what is known of characters, when it was made.
    """

    name: str
    digest: str
    files: tuple[EarlierFile, ...]
    words: dict[str, str]

    @property
    def documents(self) -> int:
        """Return the number of its documents."""
        return sum(file.documents for file in self.files)


def check_digest(file: EarlierFile, found: str) -> None:
    """Raise InputError unless a file has the digest that it is listed with."""
    if found != file.sha256:
        problem = (
            f"it is damaged, or was changed: its sha256 is {found}, and manifest.json beside it says {file.sha256}."
        )
        raise InputError(file.file.url, problem, "Copy the folder again, or run its recipe again.")


def copy_file(context: TaskContext, key: str, file: EarlierFile) -> None:
    """Write signatures.parquet, the local copy of a remote file."""
    with context.writing(key) as output:
        path = fetch(file.file, output.folder)
        path.rename(output.path("signatures.parquet"))
        check_digest(file, sha256_file(output.path("signatures.parquet")))


def _paths(context: TaskContext, corpus: EarlierCorpus) -> list[Path]:
    """Return the local files of a corpus, after a look whether they are still those that the run began with."""
    paths = []
    for file in corpus.files:
        path = context.entry(file.copy).path("signatures.parquet") if file.copy else Path(file.file.url)
        if not file.copy:
            check_digest(file, context.cache.digest(path))
        paths.append(path)
    return paths


def index(context: TaskContext, key: str, corpus: EarlierCorpus, partition: int) -> None:
    """Write keys.u64 and docs.bin: one partition of the keys of an earlier corpus (see `write_keys`)."""
    with context.writing(key) as output, context.scratch() as scratch:
        output.counts["keys"] = write_keys(
            _paths(context, corpus),
            partition,
            corpus.documents,
            output.folder,
            memory_bytes=context.memory,
            scratch=str(scratch),
        )


def _numbers(sizes: Sequence[int], first: int = 0) -> list[int]:
    """Return the number of the first document of each part, and at last the number behind all."""
    numbers = [first]
    for size in sizes:
        numbers.append(numbers[-1] + size)
    return numbers


def join(
    context: TaskContext,
    key: str,
    signatures: Sequence[str],
    documents: int,
    corpora: Sequence[EarlierCorpus],
    indexes: Sequence[str],
    partition: int,
) -> None:
    """Write pairs.u64: documents here and there that share a key of one partition (see `write_pairs`).

    Args:
        context: Of the task.
        key: Result key.
        signatures: Result keys of the signatures of all shards.
        documents: All documents of the run.
        corpora: The earlier ones.
        indexes: Result key of this partition of each.
        partition: Its number.
    """
    files = (context.entry(one).path("measurements.parquet") for one in signatures)
    earlier = [SortedKeys.open(context.entry(k).folder, c.documents) for k, c in zip(indexes, corpora, strict=True)]
    with context.writing(key) as output, context.scratch() as scratch:
        write_keys(files, partition, documents, scratch, memory_bytes=context.memory, scratch=str(scratch))
        output.counts |= write_pairs(
            SortedKeys.open(scratch, documents),
            earlier,
            _numbers([corpus.documents for corpus in corpora])[:-1],
            output.path("pairs.u64"),
            memory_bytes=context.memory,
            scratch=str(scratch),
        )


def compare(
    context: TaskContext,
    key: str,
    shards: Sequence[ShardOfCorpus],
    sizes: Sequence[int],
    corpora: Sequence[EarlierCorpus],
    joined: Sequence[str],
    similarity: float,
    num_permutations: int,
) -> None:
    """Write matches-<n>.parquet for the n-th shard of a group: of each document the best match, if it reaches the bound.

    Args:
        context: Of the task.
        key: Result key.
        shards: Consecutive shards.
        sizes: Documents of each.
        corpora: The earlier ones.
        joined: Result keys of all partitions of pairs.
        similarity: Smallest estimate of a match.
        num_permutations: Bytes of a signature.
    """
    assert len(joined) == PARTITIONS
    firsts = _numbers(sizes, shards[0].first)
    ours = RowsOf([context.entry(one.signatures).path("measurements.parquet") for one in shards], firsts)
    earlier = RowsOf(
        [path for corpus in corpora for path in _paths(context, corpus)],
        _numbers([file.documents for corpus in corpora for file in corpus.files]),
    )
    with context.writing(key) as output, context.scratch() as scratch:
        best = zeros_on_disk(str(scratch), "best", np.uint64, firsts[-1] - firsts[0])
        scores = zeros_on_disk(str(scratch), "scores", np.int64, firsts[-1] - firsts[0])
        paths = [context.entry(one).path("pairs.u64") for one in joined]
        output.counts["pairs"] = 0

        def pairs() -> Iterator[np.ndarray]:
            for part in pairs_of(paths, firsts[0], firsts[-1], context.memory, scratch):
                output.counts["pairs"] += len(part)
                yield part

        best_matches(pairs(), ours, earlier, num_permutations, best, scores)
        starts = _numbers([corpus.documents for corpus in corpora])
        step = max(256, context.memory // 2 // _NAMED_BYTES)
        for number, (first, size) in enumerate(zip(firsts, sizes, strict=False)):
            with ParquetFile(output.path(f"matches-{number}.parquet"), _MATCHES) as file:
                mine = scores[first - firsts[0] :][:size]
                values = np.where(
                    mine == num_permutations + 2, 1.0, estimate(np.maximum(mine - 1, 0), num_permutations)
                )
                found = np.flatnonzero((mine > 0) & (values >= similarity))
                for start in range(0, len(found), step):
                    rows = found[start : start + step]
                    others = best[first - firsts[0] + rows]
                    exact = mine[rows] == num_permutations + 2
                    named = _named(ours, earlier, rows.astype(np.uint64) + np.uint64(first), others)
                    runs = np.searchsorted(starts, others.astype(np.int64), "right") - 1
                    named |= {
                        "run": pa.array(runs, pa.int32()),
                        "similarity": pa.array(values[rows]),
                        "exact": pa.array(exact),
                    }
                    file.write(pa.RecordBatch.from_arrays([named[name] for name in _MATCHES.names], schema=_MATCHES))


def pairs_of(paths: Sequence[Path], first: int, end: int, memory: int, scratch: Path) -> Iterator[np.ndarray]:
    """Yield the pairs of the documents first to end, ascending, none twice, in parts that are compared at once."""
    sorter = Sorter(2, memory // 4, str(scratch), "merged")
    for path in paths:
        pairs = open_pairs(path)
        start, stop = _place(pairs, first), _place(pairs, end)
        sorter.append(*pairs[start:stop].T)
    step = max(256, memory // 2 // _PAIR_BYTES)
    waiting = np.zeros((0, 2), np.uint64)
    for records in without_repeats(sorter.sorted()):
        waiting = np.concatenate([waiting, records])
        while len(waiting) >= step:
            yield waiting[:step]
            waiting = waiting[step:]
    if len(waiting):
        yield waiting


def _place(pairs: np.ndarray, doc: int) -> int:
    """Return the first pair of a document, or of one behind it; the pairs are too many to be copied."""
    return bisect.bisect_left(range(len(pairs)), doc, key=lambda row: int(pairs[row, 0]))


def _named(ours: RowsOf, earlier: RowsOf, docs: np.ndarray, others: np.ndarray) -> dict[str, pa.Array]:
    """Return the ids of documents and of their matches, and where the matches came from."""
    own = pa.concat_tables([table for _, table in ours.read(docs, ("id",))])
    wanted, at = np.unique(others, return_inverse=True)
    found = pa.concat_tables([table for _, table in earlier.read(wanted, ("id", "source", "url"))]).take(pa.array(at))
    columns = {f"earlier_{name}": found[name].combine_chunks() for name in ("id", "source", "url")}
    return {"id": own["id"].combine_chunks(), **columns}


def remove(context: TaskContext, key: str, shard: ShardOfCorpus, matches: tuple[str, str], similarity: float) -> None:
    """Write removed.parquet of one shard; its counts are of documents that no earlier phase removed.

    Args:
        context: Of the task.
        key: Result key.
        shard: The shard.
        matches: Result key of `compare`, and the shard's file there.
        similarity: Smallest estimate of a match.
    """
    before = Removals(context.entry(one).path("removed.parquet") for one in shard.decided)
    found = RowsAbout(context.entry(matches[0]).path(matches[1]))
    counts, by_run = RemovalCounts(), dict[str, dict[str, int]]()
    with context.writing(key) as output:
        with ParquetFile(output.path("removed.parquet"), REMOVED) as file:
            for batch in read_batches(context.entry(shard.extracted).path("sizes.parquet")):
                sizes = dict(zip(batch["id"].to_pylist(), batch["bytes"].to_pylist(), strict=True))
                gone = before.about(list(sizes))
                rows = []
                for match in found.about(list(sizes)):
                    rows.append(_removal(match, similarity))
                    if match["id"] not in gone:
                        counts.add("dedup", rows[-1]["rule"], sizes[match["id"]])
                        of_run = by_run.setdefault(str(match["run"]), {"exact": 0, "near": 0})
                        of_run["exact" if match["exact"] else "near"] += 1
                file.write_rows(rows)
        before.finish()
        found.finish()
        output.counts |= {**counts.as_json(), "runs": by_run}


def _removal(match: dict[str, Any], similarity: float) -> dict[str, Any]:
    return removal(
        match["id"],
        "dedup",
        f"{RULE}_exact" if match["exact"] else RULE,
        value=match["similarity"],
        threshold="not equal" if match["exact"] else f"< {similarity:g}, estimated",
        kept_id=match["earlier_id"],
        similarity=match["similarity"],
    )


def tabulate(context: TaskContext, key: str, matches: Sequence[tuple[str, str]], names: Sequence[str]) -> None:
    """Write earlier.parquet (EARLIER): the matches of all shards, with the names of the earlier corpora."""
    with context.writing(key) as output, ParquetFile(output.path("earlier.parquet"), EARLIER) as file:
        for one, name in matches:
            for batch in read_batches(context.entry(one).path(name)):
                runs = pa.array([names[number] for number in batch["run"].to_pylist()], pa.string())
                arrays = [runs if name == "run" else batch[name] for name in EARLIER.names]
                file.write(pa.RecordBatch.from_arrays(arrays, schema=EARLIER))
