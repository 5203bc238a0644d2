"""Which copy stays, which documents are set aside for validation, and which leave training because of these."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from curate.dedup.settings import Dedup, Validation, clustering

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from curate.dedup.members import Clustering, Members

# Why a document goes, by code. 0: this phase does not remove it.
_RULES = ("", "dedup.exact", "dedup.minhash", "validation.near_copy")
_EXACT, _NEAR, _VALIDATION = 1, 2, 3

_BYTES_PER_TOKEN = 4  # no tokenizer exists yet
_LARGEST_SHARE = 10  # validation takes at most one part in ten of a source's kept bytes
_ROWS = 10_000  # per batch and row group


def choose(
    shards: Sequence[str],
    shingle_files: Sequence[str],
    *,
    decisions: str,
    duplicates: str,
    dedup: Dedup | None,
    validation: Validation | None,
    seed: int,
    memory_bytes: int,
    scratch: str,
) -> dict[str, Any]:
    """Resolve duplicates among kept documents, draw the validation documents, and part training from their copies.

    (a) `clusters.link_clusters` again, kept documents first: of these, a document that joins another one of higher
    priority is removed, so every removed document has a verified pair with one that stays. With exact copies only
    (`dedup.minhash` absent), all but the first of equal documents are removed. Without `dedup` none is.
    (b) For each source, documents in the order of hash(seed, id) until both wants of `validation` are met. One that
    would take the share of validation above a tenth of the source's kept bytes is passed over; what is then missing is
    the shortfall.
    (c) Kept documents of any source that are copies of a validation document (equal, or a pair by the settings of
    `clustering(dedup)`) are removed, unless drawn themselves. The share of (b) holds after this.

    Args:
        shards: For each document shard, in document order, a Parquet file: doc (int64, ascending), id (32 hex digits),
            source, kept (bool: no earlier phase removed it), num_bytes (int64: UTF-8 bytes of the final text).
        shingle_files: As `clusters.write_shingles` wrote them with `clustering(dedup)`.
        decisions: Parquet file to write, ascending doc, one row for each document that is in a cluster of two or more,
            drawn, or removed here: doc, id, removed, stage (dedup, validation), rule, kept_doc, kept_id, similarity,
            split (train, validation), cluster_size (int32). `removed` is about this phase alone.
        duplicates: Parquet file to write, schema `document.DUPLICATES`, ascending doc: every document in a cluster of
            two or more, or removed here, whatever phase removed it. `kept_id` of one that an earlier phase removed is its
            cluster's representative, if that stays.
        dedup: The recipe's section, or None.
        validation: The recipe's section, or None: nothing is drawn.
        seed: Of the draw.
        memory_bytes: About what buffers may hold; changes nothing else.
        scratch: An existing folder.

    Returns:
        JSON values: `clusters`, `cluster_sizes` (size range to clusters), `removed` (rule to documents), `compared`
        (pairs), `validation` (source to documents, bytes, shortfall: null or missing tokens and documents).

    Raises:
        ValueError: If files are not in document order, or do not fit one another.
    """
    import numpy as np

    from curate.dedup.members import Members
    from curate.dedup.spill import zeros_on_disk

    settings = clustering(dedup)
    with tempfile.TemporaryDirectory(prefix="choose-", dir=scratch) as folder:
        members = Members(shingle_files, settings, memory_bytes, folder)
        facts = _Facts(shards, members, folder)
        clusters = members.cluster(facts.kept)
        codes = zeros_on_disk(folder, "codes", np.uint8, members.size)
        targets = zeros_on_disk(folder, "targets", np.int64, members.size)
        similarities = zeros_on_disk(folder, "chosen_similarities", np.float64, members.size)
        _resolve(dedup, members, facts.kept, clusters, codes, targets, similarities)
        drawn = zeros_on_disk(folder, "drawn", np.uint8, facts.num_docs)
        summary: dict[str, Any] = {}
        if validation is not None:
            draw = _Draw(facts, members, codes, validation, seed, memory_bytes, folder)
            near, near_similarities = draw.settle(drawn)
            summary["validation"] = draw.summary()
            _part_from(members, facts.kept, drawn, near, near_similarities, codes, targets, similarities)
        compared = settings.minhash is not None and settings.minhash.verify is not False
        answer = _Answer(members, facts.kept, clusters, codes, targets, similarities, drawn, compared)
        removed = answer.write(shards, decisions, duplicates)
        return {**answer.clusters(), "removed": removed, "compared": clusters.num_compared, **summary}


def _read(shards: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    last = -1
    for path in shards:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_ROWS, use_threads=False):
                docs = batch["doc"].to_numpy()
                if (docs[1:] <= docs[:-1]).any() or (len(docs) and docs[0] <= last):
                    raise ValueError(f"{path}: documents do not ascend; pass document shards in document order")
                last = int(docs[-1]) if len(docs) else last
                if len(docs):
                    yield batch


class _Facts:
    """What the document shards say, by row of `members`."""

    def __init__(self, shards: Sequence[str], members: Members, folder: str) -> None:
        import numpy as np

        from curate.dedup.spill import zeros_on_disk

        self.shards = shards
        self.kept = zeros_on_disk(folder, "kept", np.uint8, members.size)
        self.sources = zeros_on_disk(folder, "sources", np.int32, members.size)
        self.num_bytes = zeros_on_disk(folder, "final_bytes", np.int64, members.size)
        self.names: list[str] = []  # of sources, in document order
        self.num_docs = 0
        num_found = 0
        for batch in _read(shards):
            self.num_docs = int(batch["doc"][-1].as_py()) + 1
            rows, places = rows_of(members, batch)
            num_found += len(rows)
            self.kept[rows] = batch["kept"].to_numpy(zero_copy_only=False)[places]
            self.sources[rows] = self.source_numbers(batch)[places]
            self.num_bytes[rows] = batch["num_bytes"].to_numpy()[places]
        if num_found != members.size:
            raise ValueError(
                f"{members.size - num_found} documents of the shingle files are in none of the document shards"
            )

    def source_numbers(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Return the number of each document's source, new names numbered as they come."""
        import numpy as np

        encoded = batch["source"].dictionary_encode()
        for name in encoded.dictionary.to_pylist():
            if name not in self.names:
                self.names.append(name)
        numbers = np.array([self.names.index(name) for name in encoded.dictionary.to_pylist()], np.int32)
        of_rows: npt.NDArray[np.int32] = numbers[encoded.indices.to_numpy()]
        return of_rows


def rows_of(members: Members, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows of `members` that are in the batch, and their places in it."""
    import numpy as np

    docs = batch["doc"].to_numpy()
    start, stop = np.searchsorted(members.docs, [docs[0], docs[-1] + 1])
    rows = np.arange(start, stop)
    places = np.searchsorted(docs, members.docs[start:stop])
    there = docs[places] == members.docs[start:stop]
    return rows[there], places[there]


def _resolve(
    dedup: Dedup | None,
    members: Members,
    kept: npt.NDArray[np.uint8],
    clusters: Clustering,
    codes: npt.NDArray[np.uint8],
    targets: npt.NDArray[np.int64],
    similarities: npt.NDArray[np.float64],
) -> None:
    """Write for each kept row why the recipe's dedup removes it, the row that stays instead, and their similarity."""
    import numpy as np

    if dedup is None:
        return
    equal_code = _EXACT if dedup.exact is not None else _NEAR
    for start in range(0, members.size, _ROWS):
        part = slice(start, start + _ROWS)
        rows = np.arange(start, start + len(kept[part]))
        if dedup.minhash is not None:
            target, similarity = clusters.representatives[part], clusters.similarities[part]
        else:
            target, similarity = clusters.leaders[part], np.ones(len(rows))
        goes = (kept[part] == 1) & (target != rows)
        if dedup.exact is None:
            goes &= members.has_words(rows)  # without words there is nothing to be near
        equal = members.heads[target] == members.heads[part]
        codes[part] = np.where(goes, np.where(equal, equal_code, _NEAR), 0)
        targets[part] = target
        similarities[part] = similarity


def _part_from(
    members: Members,
    kept: npt.NDArray[np.uint8],
    drawn: npt.NDArray[np.uint8],
    near: npt.NDArray[np.int64],
    near_similarities: npt.NDArray[np.float64],
    codes: npt.NDArray[np.uint8],
    targets: npt.NDArray[np.int64],
    similarities: npt.NDArray[np.float64],
) -> None:
    """Remove the copies of validation documents.

    A document already removed as equal to one that now goes goes for the same reason, so that what stands for a removed
    document always stays.
    """
    import numpy as np

    for start in range(0, members.size, _ROWS):
        part = slice(start, start + _ROWS)
        goes = copies_of_drawn(members, kept, drawn, near, start, start + _ROWS)
        removed = codes[part] > 0
        # An equal document that was removed in favour of the drawn one itself keeps that reason.
        goes &= ~removed | (drawn[members.docs[targets[part]]] == 0)
        codes[part] = np.where(goes, _VALIDATION, codes[part])
        targets[part] = np.where(goes, near[part], targets[part])
        similarities[part] = np.where(goes, near_similarities[part], similarities[part])


def copies_of_drawn(
    members: Members,
    kept: npt.NDArray[np.uint8],
    drawn: npt.NDArray[np.uint8],
    near: npt.NDArray[np.int64],
    start: int,
    stop: int,
) -> npt.NDArray[np.bool_]:
    """Return for rows start to stop whether a kept document is a copy of a drawn one and not drawn itself."""
    import numpy as np

    part = slice(start, stop)
    return np.asarray((kept[part] == 1) & (near[part] >= 0) & (drawn[members.docs[part]] == 0), bool)


class _Draw:
    """The draw of validation documents, by source."""

    def __init__(
        self,
        facts: _Facts,
        members: Members,
        codes: npt.NDArray[np.uint8],
        validation: Validation,
        seed: int,
        memory_bytes: int,
        folder: str,
    ) -> None:
        import numpy as np
        import pyarrow as pa

        from curate.dedup.spill import DiskColumn, Sorter
        from curate.text.hashing import choice_hash

        self._facts, self._members, self._codes = facts, members, codes
        self._validation = validation
        self._folder = folder
        self._kept_bytes = np.zeros(len(facts.names), np.int64)
        sorter = Sorter(4, memory_bytes // 4 * 3, folder, "draw")  # source, hash, doc, bytes
        for batch in _read(facts.shards):
            rows, places = rows_of(members, batch)
            stays = batch["kept"].to_numpy(zero_copy_only=False).copy()
            stays[places] &= codes[rows] == 0
            sources = facts.source_numbers(batch)[stays].astype(np.int64)
            num_bytes = batch["num_bytes"].to_numpy()[stays]
            np.add.at(self._kept_bytes, sources, num_bytes)
            ids = batch["id"].filter(pa.array(stays)).to_pylist()
            hashes = np.array([choice_hash(seed, value, "validation") for value in ids], np.uint64)
            sorter.append(sources, hashes, batch["doc"].to_numpy()[stays], num_bytes)
        columns = {place: DiskColumn(folder, f"draw-{place}", np.int64) for place in (0, 2, 3)}
        for records in sorter.sorted():
            for place, column in columns.items():
                column.append(records[:, place])
        self._sources, self._docs, self._num_bytes = (column.finish() for column in columns.values())
        self._taken = np.zeros((len(facts.names), 2), np.int64)  # bytes, documents

    def settle(self, drawn: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Draw, and draw again with a lower cap for sources that lose so many copies that the share is exceeded.

        Args:
            drawn: Set to 1 by doc.

        Returns:
            For each row of `members`, the drawn row that it is a copy of (-1: none), and their similarity.
        """
        import numpy as np

        caps = self._kept_bytes // _LARGEST_SHARE
        attempt = 0
        while True:
            self._take(caps, drawn)
            members = self._members
            targets = np.flatnonzero(drawn[members.docs])
            near, similarities = members.near_copies(targets, f"near-{attempt}")
            left = self._kept_bytes.copy()
            for start in range(0, members.size, _ROWS):
                part = slice(start, start + _ROWS)
                goes = copies_of_drawn(members, self._facts.kept, drawn, near, start, start + _ROWS)
                goes &= self._codes[part] == 0
                np.subtract.at(left, self._facts.sources[part][goes], self._facts.num_bytes[part][goes])
            over = self._taken[:, 0] * _LARGEST_SHARE > left
            if not over.any():
                return near, similarities
            caps[over] = np.minimum(self._taken[over, 0] - 1, left[over] // _LARGEST_SHARE)
            attempt += 1

    def _take(self, caps: npt.NDArray[np.int64], drawn: npt.NDArray[np.uint8]) -> None:
        import numpy as np

        from curate.dedup import kernels

        drawn[:] = 0
        self._taken[:] = 0
        bounds = np.searchsorted(self._sources, np.arange(len(caps) + 1))
        want_bytes = self._validation.tokens * _BYTES_PER_TOKEN
        for source, (first, last) in enumerate(itertools.pairwise(bounds)):
            for start in range(first, last, _ROWS):
                stop = min(start + _ROWS, last)
                taken = np.zeros(stop - start, np.uint8)
                done = kernels.draw(
                    self._num_bytes[start:stop],
                    self._taken[source],
                    want_bytes,
                    self._validation.min_documents,
                    int(caps[source]),
                    taken,
                )
                drawn[self._docs[start:stop][taken == 1]] = 1
                if done:
                    break

    def summary(self) -> dict[str, Any]:
        """Return by source: documents, bytes, and what is missing of either want."""
        wants = self._validation
        sources = {}
        for name, (num_bytes, documents) in zip(self._facts.names, self._taken.tolist(), strict=True):
            missing = {
                "tokens": max(0, -(-(wants.tokens * _BYTES_PER_TOKEN - num_bytes) // _BYTES_PER_TOKEN)),
                "documents": max(0, wants.min_documents - documents),
            }
            shortfall = missing if any(missing.values()) else None
            sources[name] = {"documents": documents, "bytes": num_bytes, "shortfall": shortfall}
        return sources


class _Answer:
    """Everything decided, ready to be written in document order."""

    def __init__(
        self,
        members: Members,
        kept: npt.NDArray[np.uint8],
        clusters: Clustering,
        codes: npt.NDArray[np.uint8],
        targets: npt.NDArray[np.int64],
        similarities: npt.NDArray[np.float64],
        drawn: npt.NDArray[np.uint8],
        compared: bool,
    ) -> None:
        self._members, self._kept, self._clusters = members, kept, clusters
        self._codes, self._targets, self._similarities = codes, targets, similarities
        self._drawn = drawn
        self._compared = compared  # pairs that are not equal were compared exactly, not estimated

    def write(self, shards: Sequence[str], decisions: str, duplicates: str) -> dict[str, int]:
        """Write both files; return the number of documents removed by each rule."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        from curate.document import DUPLICATES

        schema = pa.schema(
            [
                pa.field("doc", pa.int64(), nullable=False),
                pa.field("id", pa.string(), nullable=False),
                pa.field("removed", pa.bool_(), nullable=False),
                pa.field("stage", pa.string()),
                pa.field("rule", pa.string()),
                pa.field("kept_doc", pa.int64()),
                pa.field("kept_id", pa.string()),
                pa.field("similarity", pa.float64()),
                pa.field("split", pa.string(), nullable=False),
                pa.field("cluster_size", pa.int32(), nullable=False),
            ]
        )
        removed = np.zeros(len(_RULES), np.int64)
        with (
            pq.ParquetWriter(decisions, schema, compression="zstd") as decision_file,
            pq.ParquetWriter(duplicates, DUPLICATES, compression="zstd") as duplicate_file,
        ):
            decided, copied = _Groups(decision_file), _Groups(duplicate_file)
            for batch in _read(shards):
                rows, places = rows_of(self._members, batch)
                found = (self._clusters.sizes[rows] > 1) | (self._codes[rows] > 0)
                rows, places = rows[found], places[found]
                removed += np.bincount(self._codes[rows], minlength=len(_RULES))
                decided.add(self._decisions(batch, rows, places, schema))
                copied.add(self._duplicates(rows, DUPLICATES))
            decided.finish()
            copied.finish()
        return {rule: int(count) for rule, count in zip(_RULES[1:], removed[1:], strict=True)}

    def _decisions(
        self, batch: pa.RecordBatch, rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64], schema: pa.Schema
    ) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        row_at = np.full(batch.num_rows, -1, np.int64)
        row_at[places] = rows
        docs = batch["doc"].to_numpy()
        wanted = np.flatnonzero((row_at >= 0) | (self._drawn[docs] == 1))
        rows = row_at[wanted]
        member = rows >= 0
        codes = np.zeros(len(rows), np.uint8)
        codes[member] = self._codes[rows[member]]
        targets = np.zeros(len(rows), np.int64)
        targets[member] = self._targets[rows[member]]
        similarities = np.zeros(len(rows))
        similarities[member] = self._similarities[rows[member]]
        sizes = np.ones(len(rows), np.int32)
        sizes[member] = self._clusters.sizes[rows[member]]
        stays = codes == 0
        rules = [_RULES[code] or None for code in codes]
        kept_ids = [None if code == 0 else self._members.id(row) for code, row in zip(codes, targets, strict=True)]
        kept_docs = self._members.docs[targets] if member.any() else targets
        return pa.record_batch(
            [
                pa.array(docs[wanted]),
                batch["id"].take(pa.array(wanted)).cast(pa.string()),
                pa.array(~stays),
                pa.array([rule and rule.partition(".")[0] for rule in rules], pa.string()),
                pa.array(rules, pa.string()),
                pa.array(kept_docs, mask=stays),
                pa.array(kept_ids, pa.string()),
                pa.array(similarities, mask=stays),
                pa.array(np.where(self._drawn[docs[wanted]] == 1, "validation", "train"), pa.string()),
                pa.array(sizes),
            ],
            schema=schema,
        )

    def _duplicates(self, rows: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        members, clusters = self._members, self._clusters
        codes = self._codes[rows]
        representatives = clusters.representatives[rows]
        # A document that an earlier phase removed points at its representative, if that stays.
        stands = (self._kept[representatives] == 1) & (self._codes[representatives] == 0)
        points = (codes > 0) | ((self._kept[rows] == 0) & stands)
        targets = np.where(codes > 0, self._targets[rows], representatives)
        similarities = np.where(codes > 0, self._similarities[rows], clusters.similarities[rows])
        equal = members.heads[targets] == members.heads[rows]
        return pa.record_batch(
            [
                pa.array([members.id(row) for row in rows], pa.string()),
                pa.array([members.id(row) for row in clusters.firsts[rows]], pa.string()),
                pa.array(clusters.sizes[rows].astype(np.int32)),
                pa.array(
                    [members.id(row) if to else None for row, to in zip(targets, points, strict=True)], pa.string()
                ),
                pa.array(similarities, mask=~points),
                pa.array(equal | self._compared),
            ],
            schema=schema,
        )

    def clusters(self) -> dict[str, Any]:
        """Return the number of clusters of two documents or more, and by size range (doubling) how many there are."""
        import numpy as np

        sizes = np.zeros(64, np.int64)
        for start in range(0, self._members.size, _ROWS):
            part = slice(start, start + _ROWS)
            rows = np.arange(start, start + len(self._kept[part]))
            firsts = self._clusters.sizes[part][self._clusters.firsts[part] == rows]
            sizes += np.bincount(np.ceil(np.log2(firsts)).astype(np.int64), minlength=64)
        ranges = {}
        for power in range(1, 64):
            if sizes[power]:
                low, high = 2 ** (power - 1) + 1, 2**power
                ranges[f"{low}-{high}" if low < high else str(high)] = int(sizes[power])
        return {"clusters": int(sizes[1:].sum()), "cluster_sizes": ranges}


class _Groups:
    """Writes rows in groups of a fixed number, however they come."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._pending: list[pa.RecordBatch] = []
        self._num_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; write the groups that are complete."""
        self._pending.append(batch)
        self._num_rows += batch.num_rows
        while self._num_rows >= _ROWS:
            self._write(_ROWS)

    def finish(self) -> None:
        """Write the last, shorter group."""
        if self._num_rows:
            self._write(self._num_rows)

    def _write(self, num_rows: int) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._pending).combine_chunks()
        self._file.write_table(table.slice(0, num_rows), row_group_size=num_rows)
        self._pending = table.slice(num_rows).to_batches()
        self._num_rows -= num_rows
