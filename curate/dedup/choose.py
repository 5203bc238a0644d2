"""Which copies leave training, which documents are set aside for validation, and which leave training because of these."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
        copies = _Copies(components, shards, resolved, semantic, memory_bytes, folder)
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


def _read(shards: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
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
                    yield path, batch


class _Copies:
    """What is known of the members of components, by row; rows ascend as documents do.

    Documents of other components that go by `semantic`, or stand for those, are rows, too.

    Attributes:
        docs, exact, partitions: As in components.parquet; partition -1 and exact of its own for a document of no component.
        kept, sources, num_bytes, ids: As the document shards say; sources are numbers, ids 16 bytes each.
        codes: Why a document goes, by RULES.
        targets: Row that stays instead; its own if it stays.
        similarities: To the target; NaN where another thing than the text is equal.
        firsts, sizes, representatives, representative_similarities: Of the document's cluster.
        names: Of sources, in document order.
        num_docs: Documents of all shards.
    """

    def __init__(
        self,
        components: str,
        shards: Sequence[str],
        resolved: Sequence[str],
        semantic: str | None,
        memory_bytes: int,
        folder: str,
    ) -> None:
        import numpy as np

        from curate.dedup.spill import DiskColumn, zeros_on_disk

        kinds = {"doc": np.int64, "exact": np.int64, "partition": np.int32}
        columns = {name: DiskColumn(folder, name, kind) for name, kind in kinds.items()}
        for members in _members(components, semantic, memory_bytes, folder):
            for column, values in zip(columns.values(), members, strict=True):
                column.append(values)
        self.docs, self.exact, self.partitions = (column.finish() for column in columns.values())
        self.size = len(self.docs)

        def made(name: str, kind: npt.DTypeLike, width: int = 1) -> npt.NDArray[Any]:
            return zeros_on_disk(folder, f"all-{name}", kind, self.size * width)

        self.kept, self.codes = made("kept", np.uint8), made("codes", np.uint8)
        self.sources, self.sizes = made("sources", np.int32), made("sizes", np.int32)
        self.num_bytes, self.ids = made("num_bytes", np.int64), made("ids", np.uint8, 16).reshape(-1, 16)
        self.targets, self.firsts = made("targets", np.int64), made("firsts", np.int64)
        self.representatives, self.similarities = made("representatives", np.int64), made("similarities", np.float64)
        self.representative_similarities = made("representative_similarities", np.float64)
        for part in self.parts():
            rows = np.arange(part.start, part.stop)
            self.targets[part] = self.firsts[part] = self.representatives[part] = rows
            self.sizes[part] = self.similarities[part] = self.representative_similarities[part] = 1
        self.names: list[str] = []
        self.num_docs = 0
        self._read_shards(shards)
        self._read_resolved(resolved)
        if semantic is not None:
            self._read_semantic(semantic)

    def parts(self) -> Iterator[slice]:
        """Yield all rows, some at a time."""
        for start in range(0, self.size, _ROWS):
            yield slice(start, min(start + _ROWS, self.size))

    def _read_shards(self, shards: Sequence[str]) -> None:
        from curate.dedup.members import raw_bytes

        num_found = 0
        for path, batch in _read(shards):
            self.num_docs = int(batch["doc"][-1].as_py()) + 1
            rows, places = self.rows_of(batch)
            num_found += len(rows)
            self.kept[rows] = batch["kept"].to_numpy(zero_copy_only=False)[places]
            self.sources[rows] = self.source_numbers(batch)[places]
            self.num_bytes[rows] = batch["num_bytes"].to_numpy()[places]
            self.ids[rows] = raw_bytes(batch["id"].take(places), path).reshape(-1, 16)
        if num_found != self.size:
            raise ValueError(f"{self.size - num_found} members of components are in none of the document shards")

    def _read_resolved(self, resolved: Sequence[str]) -> None:
        import numpy as np
        import pyarrow.parquet as pq

        for path in resolved:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                for batch in file.iter_batches(_ROWS, use_threads=False):
                    rows = np.searchsorted(self.docs, batch["doc"].to_numpy())
                    for name, column in (
                        ("target", self.targets),
                        ("cluster", self.firsts),
                        ("representative", self.representatives),
                    ):
                        column[rows] = np.searchsorted(self.docs, batch[name].to_numpy())
                    for name, values in (
                        ("code", self.codes),
                        ("similarity", self.similarities),
                        ("cluster_size", self.sizes),
                        ("representative_similarity", self.representative_similarities),
                    ):
                        values[rows] = batch[name].to_numpy(zero_copy_only=False)  # null is NaN

    def _read_semantic(self, semantic: str) -> None:
        import numpy as np

        for records in _semantic_records(semantic):
            rows, kept = (np.searchsorted(self.docs, records[:, place].astype(np.int64)) for place in (0, 1))
            if (self.codes[rows] > 0).any() or (self.codes[kept] > 0).any():
                raise ValueError(f"{semantic}: names documents that go as copies of texts")
            self.codes[rows], self.targets[rows] = SEMANTIC, kept
            self.similarities[rows] = np.ascontiguousarray(records[:, 2]).view(np.float64)

    def rows_of(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the rows of the members that are in a batch of documents, and their places in it."""
        import numpy as np

        docs = batch["doc"].to_numpy()
        start, stop = np.searchsorted(self.docs, [docs[0], docs[-1] + 1])
        rows = np.arange(start, stop)
        places = np.searchsorted(docs, self.docs[start:stop])
        there = docs[places] == self.docs[start:stop]
        return rows[there], places[there]

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


def _members(
    components: str, semantic: str | None, memory_bytes: int, folder: str
) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Yield doc, exact and partition of all members of components, and of those that `semantic` is about, ascending doc."""
    import numpy as np
    import pyarrow.parquet as pq

    from curate.dedup.spill import Sorter

    names = ["doc", "exact", "partition"]
    with pq.ParquetFile(components, pre_buffer=False) as file:
        batches = file.iter_batches(_ROWS, columns=names, use_threads=False)
        if semantic is None:
            yield from (tuple(batch[name].to_numpy() for name in names) for batch in batches)
            return
        sorter = Sorter(4, memory_bytes // 2, folder, "members")  # doc, whether it is no member, exact, partition
        for batch in batches:
            docs, exact, partitions = (batch[name].to_numpy() for name in names)
            sorter.append(docs, np.zeros(len(docs), np.uint64), exact, partitions)
    for records in _semantic_records(semantic):
        for docs in (records[:, 0], records[:, 1]):
            sorter.append(docs, np.ones(len(docs), np.uint64), docs, np.zeros(len(docs), np.uint64))
    last = -1
    for records in sorter.sorted():
        docs = records[:, 0].astype(np.int64)
        first = np.diff(docs, prepend=last) > 0
        last = int(docs[-1])
        partitions = np.where(records[:, 1] == 0, records[:, 3].astype(np.int64), -1)
        yield docs[first], records[first, 2].astype(np.int64), partitions[first].astype(np.int32)


def _semantic_records(path: str) -> Iterator[npt.NDArray[np.uint64]]:
    from pathlib import Path

    import numpy as np

    from curate.dedup.semantic_files import GONE, mapped

    records = mapped(Path(path), np.uint64, GONE)
    for start in range(0, len(records), _ROWS):
        yield records[start : start + _ROWS]


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
        copies: _Copies,
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
    copies: _Copies,
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
    copies: _Copies, drawn: npt.NDArray[np.uint8], near: npt.NDArray[np.int64], part: slice
) -> npt.NDArray[np.bool_]:
    """Return for some rows whether a kept document is a copy of a drawn one and not drawn itself."""
    import numpy as np

    return np.asarray((copies.kept[part] == 1) & (near[part] >= 0) & (drawn[copies.docs[part]] == 0), bool)


def _redirect(copies: _Copies) -> None:
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
        copies: _Copies,
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
        for _, batch in _read(shards):
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

    def __init__(self, copies: _Copies, drawn: npt.NDArray[np.uint8], compared: bool) -> None:
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
            for _, batch in _read(shards):
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
