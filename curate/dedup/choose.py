"""Which copies leave training, which documents are set aside for validation, and which leave training because of these."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from curate.dedup.copies import Copies, read_documents
from curate.dedup.resolving import EXACT, NEAR, RULES, SEMANTIC, VALIDATION
from curate.dedup.settings import Dedup, Validation, clustering

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_BYTES_PER_TOKEN = 4  # no tokenizer exists yet
_LARGEST_SHARE = 10  # validation takes at most one part in ten of a source's kept bytes
_ROWS = 10_000  # per batch and row group


def choose(
    shards: Sequence[str],
    components: str,
    resolved: Sequence[str],
    shingle_files: Mapping[int, Sequence[str]],
    semantic: str | None = None,
    *,
    decisions: str,
    duplicates: str,
    dedup: Dedup | None,
    validation: Validation | None,
    seed: int,
    memory_bytes: int,
    scratch: str,
) -> dict[str, Any]:
    """Draw the validation documents, part training from their copies, and write what became of all members of components.

    (a) What `resolving.resolve_partition` found: copies that go, and the clusters; then documents that go because another one
    says nearly the same.
    (b) For each source, documents in the order of hash(seed, id) until both wants of `validation` are met. One that
    would take the share of validation above a tenth of the source's kept bytes is passed over; what is then missing is
    the shortfall.
    (c) Kept documents of any source that are copies of a validation document (equal, or a pair by the settings of
    `clustering(dedup)`) are removed, unless drawn themselves. The share of (b) holds after this. Only partitions that
    hold drawn documents are looked at.
    (d) What stands for a removed document stays: where it went itself by a later step, what stands for it takes its
    place. The similarity is then null, unless the two texts before are equal.

    Args:
        shards: For each document shard, in document order, a Parquet file: doc (int64, ascending), id (32 hex digits),
            source, kept (bool: no earlier phase removed it), num_bytes (int64: UTF-8 bytes of the final text).
        components: components.parquet.
        resolved: What `resolving.resolve_partition` wrote, of all partitions.
        shingle_files: By partition, as for `clusters.link_partition`.
        semantic: Records of `curate.dedup.semantic_files.GONE` numbers, in document order, or None.
        decisions: Parquet file to write, ascending doc, one row for each document that is in a cluster of two or more,
            drawn, or removed here: doc, id, removed, stage (dedup, validation), rule, kept_doc, kept_id, similarity,
            split (train, validation), cluster_size (int32). `removed` is about this phase alone. `similarity` is null where
            an address or a payload is equal.
        duplicates: Parquet file to write, schema `document.DUPLICATES`, ascending doc: every document in a cluster of
            two or more, or removed here, whatever phase removed it. `kept_id` of one that an earlier phase removed is its
            cluster's representative, if that stays. Of one that goes by `semantic` the similarity is null: it is not of texts.
        dedup: The recipe's section, or None.
        validation: The recipe's section, or None: nothing is drawn.
        seed: Of the draw.
        memory_bytes: About what buffers may hold; changes nothing else.
        scratch: An existing folder.

    Returns:
        JSON values: `clusters`, `cluster_sizes` (size range to clusters), `removed` (rule to documents), `validation`
        (source to documents, bytes, shortfall: null or missing tokens and documents).

    Raises:
        ValueError: If files are not in document order, or do not fit one another.
    """
    import numpy as np

    from curate.dedup.spill import zeros_on_disk

    settings = clustering(dedup)
    with tempfile.TemporaryDirectory(prefix="choose-", dir=scratch) as folder:
        copies = Copies(components, shards, resolved, semantic, memory_bytes, folder)
        drawn = zeros_on_disk(folder, "drawn", np.uint8, copies.num_docs)
        summary: dict[str, Any] = {}
        if validation is not None:
            draw = _Draw(copies, shards, validation, seed, memory_bytes, folder)
            near, near_similarities = draw.settle(drawn, _Partitions(shingle_files, settings, memory_bytes, scratch))
            summary["validation"] = draw.summary()
            _part_from(copies, drawn, near, near_similarities)
        _redirect(copies)
        compared = settings.minhash is not None and settings.minhash.verify is not False
        answer = _Answer(copies, drawn, compared)
        removed = answer.write(shards, decisions, duplicates)
        asked = {f"dedup.{name}" for name in ("url", "payload") if dedup and dedup.exact and name in dedup.exact.by}
        if semantic is not None:
            asked.add("dedup.semantic")
        seldom = ("dedup.url", "dedup.payload", "dedup.semantic")
        shown = {rule: n for rule, n in removed.items() if rule not in seldom or rule in asked}
        return {**answer.clusters(), "removed": shown, **summary}


class _Partitions:
    """The partitions of the shingle files, opened when drawn documents lie in them."""

    def __init__(
        self, shingle_files: Mapping[int, Sequence[str]], settings: Dedup, memory_bytes: int, scratch: str
    ) -> None:
        self._files = shingle_files
        self._settings = settings
        self._memory_bytes = memory_bytes
        self._scratch = scratch

    def near_copies(
        self,
        copies: Copies,
        targets: npt.NDArray[np.int64],
        near: npt.NDArray[np.int64],
        similarities: npt.NDArray[np.float64],
    ) -> None:
        """Write for each row of the targets' partitions the most similar target that it is a copy of, and the similarity.

        Args:
            copies: The members.
            targets: Rows, ascending.
            near: Changed where there is one.
            similarities: Changed likewise.
        """
        import numpy as np

        from curate.dedup.members import Members

        targets = targets[copies.partitions[targets] >= 0]  # of the others there are no copies
        partitions = copies.partitions[targets]
        for partition in np.unique(partitions).tolist():
            with tempfile.TemporaryDirectory(prefix="near-", dir=self._scratch) as folder:
                members = Members(self._files[partition], partition, self._settings, self._memory_bytes, folder)
                wanted = np.searchsorted(members.docs, copies.docs[targets[partitions == partition]])
                found, alike = members.near_copies(wanted)
                for start in range(0, members.size, _ROWS):
                    part = slice(start, start + _ROWS)
                    rows = np.searchsorted(copies.docs, members.docs[part])
                    there = found[part] >= 0
                    near[rows[there]] = np.searchsorted(copies.docs, members.docs[found[part][there]])
                    similarities[rows[there]] = alike[part][there]


def _part_from(
    copies: Copies,
    drawn: npt.NDArray[np.uint8],
    near: npt.NDArray[np.int64],
    near_similarities: npt.NDArray[np.float64],
) -> None:
    """Remove the copies of validation documents.

    A document already removed as a copy of one that now goes goes for the same reason.
    """
    import numpy as np

    for part in copies.parts():
        goes = copies_of_drawn(copies, drawn, near, part)
        codes = copies.codes[part]
        # An equal document that was removed in favour of the drawn one itself keeps that reason.
        by_text = (codes == EXACT) | (codes == NEAR)
        goes &= (codes == 0) | (by_text & (drawn[copies.docs[copies.targets[part]]] == 0))
        copies.codes[part] = np.where(goes, VALIDATION, codes)
        copies.targets[part] = np.where(goes, near[part], copies.targets[part])
        copies.similarities[part] = np.where(goes, near_similarities[part], copies.similarities[part])


def copies_of_drawn(
    copies: Copies, drawn: npt.NDArray[np.uint8], near: npt.NDArray[np.int64], part: slice
) -> npt.NDArray[np.bool_]:
    """Return for some rows whether a kept document is a copy of a drawn one and not drawn itself."""
    import numpy as np

    return np.asarray((copies.kept[part] == 1) & (near[part] >= 0) & (drawn[copies.docs[part]] == 0), bool)


def _redirect(copies: Copies) -> None:
    """Follow the documents that stand for others until one stays.

    Each step of removal names a document that the step itself leaves, so the paths end.
    """
    import numpy as np

    for part in copies.parts():
        while True:
            targets = copies.targets[part]
            gone = (copies.codes[part] > 0) & (copies.codes[targets] > 0)
            if not gone.any():
                break
            equal = (copies.exact[part] == copies.exact[targets]) & ~np.isnan(copies.similarities[part])
            equal &= copies.codes[targets] != SEMANTIC  # of vectors, not of texts
            alike = np.where(equal, copies.similarities[targets], np.nan)
            copies.similarities[part] = np.where(gone, alike, copies.similarities[part])
            copies.targets[part] = np.where(gone, copies.targets[targets], targets)


class _Draw:
    """The draw of validation documents, by source."""

    def __init__(
        self,
        copies: Copies,
        shards: Sequence[str],
        validation: Validation,
        seed: int,
        memory_bytes: int,
        folder: str,
    ) -> None:
        import numpy as np
        import pyarrow as pa

        from curate.dedup.spill import DiskColumn, Sorter
        from curate.text.hashing import choice_hash

        self._copies = copies
        self._validation = validation
        self._folder = folder
        self._kept_bytes = np.zeros(len(copies.names), np.int64)
        sorter = Sorter(4, memory_bytes // 4 * 3, folder, "draw")  # source, hash, doc, bytes
        for _, batch in read_documents(shards):
            rows, places = copies.rows_of(batch)
            stays = batch["kept"].to_numpy(zero_copy_only=False).copy()
            stays[places] &= copies.codes[rows] == 0
            sources = copies.source_numbers(batch)[stays].astype(np.int64)
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
        self._taken = np.zeros((len(copies.names), 2), np.int64)  # bytes, documents

    def settle(
        self, drawn: npt.NDArray[np.uint8], partitions: _Partitions
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Draw, and draw again with a lower cap for sources that lose so many copies that the share is exceeded.

        Args:
            drawn: Set to 1 by doc.
            partitions: Where copies are looked for.

        Returns:
            For each member, the drawn row that it is a copy of (-1: none), and their similarity.
        """
        import numpy as np

        from curate.dedup.spill import zeros_on_disk

        copies = self._copies
        caps = self._kept_bytes // _LARGEST_SHARE
        near = zeros_on_disk(self._folder, "near", np.int64, copies.size)
        similarities = zeros_on_disk(self._folder, "near_similarities", np.float64, copies.size)
        while True:
            self._take(caps, drawn)
            near[:] = -1
            found = [part.start + np.flatnonzero(drawn[copies.docs[part]]) for part in copies.parts()]
            if found:
                partitions.near_copies(copies, np.concatenate(found), near, similarities)
            left = self._kept_bytes.copy()
            for part in copies.parts():
                goes = copies_of_drawn(copies, drawn, near, part) & (copies.codes[part] == 0)
                np.subtract.at(left, copies.sources[part][goes], copies.num_bytes[part][goes])
            over = self._taken[:, 0] * _LARGEST_SHARE > left
            if not over.any():
                return near, similarities
            caps[over] = np.minimum(self._taken[over, 0] - 1, left[over] // _LARGEST_SHARE)

    def _take(self, caps: npt.NDArray[np.int64], drawn: npt.NDArray[np.uint8]) -> None:
        import numpy as np

        from curate.dedup import linking

        drawn[:] = 0
        self._taken[:] = 0
        bounds = np.searchsorted(self._sources, np.arange(len(caps) + 1))
        want_bytes = self._validation.tokens * _BYTES_PER_TOKEN
        for source, (first, last) in enumerate(itertools.pairwise(bounds)):
            for start in range(first, last, _ROWS):
                stop = min(start + _ROWS, last)
                taken = np.zeros(stop - start, np.uint8)
                done = linking.draw(
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
        for name, (num_bytes, documents) in zip(self._copies.names, self._taken.tolist(), strict=True):
            missing = {
                "tokens": max(0, -(-(wants.tokens * _BYTES_PER_TOKEN - num_bytes) // _BYTES_PER_TOKEN)),
                "documents": max(0, wants.min_documents - documents),
            }
            shortfall = missing if any(missing.values()) else None
            sources[name] = {"documents": documents, "bytes": num_bytes, "shortfall": shortfall}
        return sources


class _Answer:
    """Everything decided, ready to be written in document order."""

    def __init__(self, copies: Copies, drawn: npt.NDArray[np.uint8], compared: bool) -> None:
        self._copies = copies
        self._drawn = drawn
        self._compared = compared  # pairs that are not equal were compared exactly, not estimated

    def write(self, shards: Sequence[str], decisions: str, duplicates: str) -> dict[str, int]:
        """Write both files; return the number of documents removed by each rule."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        from curate.dedup.clusters import RowGroups
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
        copies = self._copies
        removed = np.zeros(len(RULES), np.int64)
        with (
            pq.ParquetWriter(decisions, schema, compression="zstd") as decision_file,
            pq.ParquetWriter(duplicates, DUPLICATES, compression="zstd") as duplicate_file,
        ):
            decided, copied = RowGroups(decision_file, _ROWS), RowGroups(duplicate_file, _ROWS)
            for _, batch in read_documents(shards):
                rows, places = copies.rows_of(batch)
                found = (copies.sizes[rows] > 1) | (copies.codes[rows] > 0)
                rows, places = rows[found], places[found]
                removed += np.bincount(copies.codes[rows], minlength=len(RULES))
                decided.add(self._decisions(batch, rows, places, schema))
                of_texts = (copies.sizes[rows] > 1) | (copies.codes[rows] != SEMANTIC)
                copied.add(self._duplicates(rows[of_texts], DUPLICATES))
            decided.finish()
            copied.finish()
        return {rule: int(count) for rule, count in zip(RULES[1:], removed[1:], strict=True)}

    def _decisions(
        self, batch: pa.RecordBatch, rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64], schema: pa.Schema
    ) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        copies = self._copies
        row_at = np.full(batch.num_rows, -1, np.int64)
        row_at[places] = rows
        docs = batch["doc"].to_numpy()
        wanted = np.flatnonzero((row_at >= 0) | (self._drawn[docs] == 1))
        rows = row_at[wanted]
        member = rows >= 0
        codes = np.zeros(len(rows), np.uint8)
        codes[member] = copies.codes[rows[member]]
        kept_docs = np.zeros(len(rows), np.int64)
        kept_docs[member] = copies.docs[copies.targets[rows[member]]]
        similarities = np.zeros(len(rows))
        similarities[member] = copies.similarities[rows[member]]
        sizes = np.ones(len(rows), np.int32)
        sizes[member] = copies.sizes[rows[member]]
        stays = codes == 0
        rules = [RULES[code] or None for code in codes]
        return pa.record_batch(
            [
                pa.array(docs[wanted]),
                batch["id"].take(pa.array(wanted)).cast(pa.string()),
                pa.array(~stays),
                pa.array([rule and rule.partition(".")[0] for rule in rules], pa.string()),
                pa.array(rules, pa.string()),
                pa.array(kept_docs, mask=stays),
                self._ids_where(~stays, copies.targets[rows[~stays]]),
                pa.array(similarities, mask=stays | np.isnan(similarities)),
                pa.array(np.where(self._drawn[docs[wanted]] == 1, "validation", "train"), pa.string()),
                pa.array(sizes),
            ],
            schema=schema,
        )

    def _ids_where(self, there: npt.NDArray[np.bool_], rows: npt.NDArray[np.int64]) -> pa.Array:
        """Return ids of rows at the places that are true, and null at the others."""
        import numpy as np
        import pyarrow as pa

        from curate.dedup.members import hex_digits

        found = np.full(len(there), None, object)
        found[there] = hex_digits(self._copies.ids[rows])
        return pa.array(found, pa.string())

    def _duplicates(self, rows: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        from curate.dedup.members import hex_digits

        copies = self._copies
        gone = copies.codes[rows] > 0
        representatives = copies.representatives[rows]
        # A document that an earlier phase removed points at its representative, if that stays.
        stands = (copies.kept[representatives] == 1) & (copies.codes[representatives] == 0)
        points = gone | ((copies.kept[rows] == 0) & stands)
        targets = np.where(gone, copies.targets[rows], representatives)
        similarities = np.where(gone, copies.similarities[rows], copies.representative_similarities[rows])
        unknown = np.isnan(similarities) | (copies.codes[rows] == SEMANTIC)
        equal = copies.exact[targets] == copies.exact[rows]
        return pa.record_batch(
            [
                pa.array(hex_digits(copies.ids[rows]), pa.string()),
                pa.array(hex_digits(copies.ids[copies.firsts[rows]]), pa.string()),
                pa.array(copies.sizes[rows]),
                self._ids_where(points, targets[points]),
                pa.array(similarities, mask=~points | unknown),
                pa.array((equal | self._compared) & ~unknown),
            ],
            schema=schema,
        )

    def clusters(self) -> dict[str, Any]:
        """Return the number of clusters of two documents or more, and by size range (doubling) how many there are."""
        import numpy as np

        sizes = np.zeros(64, np.int64)
        for part in self._copies.parts():
            rows = np.arange(part.start, part.stop)
            firsts = self._copies.sizes[part][self._copies.firsts[part] == rows]
            sizes += np.bincount(np.ceil(np.log2(firsts)).astype(np.int64), minlength=64)
        ranges = {}
        for power in range(1, 64):
            if sizes[power]:
                low, high = 2 ** (power - 1) + 1, 2**power
                ranges[f"{low}-{high}" if low < high else str(high)] = int(sizes[power])
        return {"clusters": int(sizes[1:].sum()), "cluster_sizes": ranges}
