"""Which of the documents that are still kept go as copies, partition by partition of the components."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from curate.dedup.settings import Dedup, clustering

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from curate.dedup.members import Clustering, Members

# Why a document goes, by code. 0: it is not removed as a copy.
RULES = ("", "dedup.exact", "dedup.minhash", "dedup.url", "dedup.payload", "validation.near_copy", "dedup.semantic")
EXACT, NEAR, URL, PAYLOAD, VALIDATION, SEMANTIC = range(1, 7)

_ROWS = 10_000  # per batch and row group


def kept_schema() -> pa.Schema:
    """Return the columns of what says which members are still kept: by (partition, doc), row groups of one partition."""
    import pyarrow as pa

    kinds = {"partition": pa.int32(), "doc": pa.int64(), "kept": pa.bool_()}
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


def resolved_schema() -> pa.Schema:
    """Return the columns of what was decided on a partition's members, ascending doc.

    code: place in RULES. target: doc that stays instead, its own if it stays. similarity: to the target; null where another
    thing than the text is equal. cluster: smallest doc. cluster_size. representative: a doc. representative_similarity: to it.
    """
    import pyarrow as pa

    kinds = {
        "doc": pa.int64(),
        "code": pa.uint8(),
        "target": pa.int64(),
        "similarity": pa.float64(),
        "cluster": pa.int64(),
        "cluster_size": pa.int32(),
        "representative": pa.int64(),
        "representative_similarity": pa.float64(),
    }
    return pa.schema([pa.field(name, kind, nullable=name == "similarity") for name, kind in kinds.items()])


def resolve_partition(
    shingle_files: Sequence[str],
    kept_files: Sequence[str],
    partition: int,
    output: str,
    *,
    dedup: Dedup | None,
    memory_bytes: int,
    scratch: str,
) -> dict[str, int]:
    """Resolve the copies among the kept documents of one partition.

    (a) Kept documents are gone through by priority: one whose address, or else payload, is that of a document that stays
    goes, where the recipe asks for it; what stays is known by then, as texts are compared, too.
    (b) `link_partition` again, what is left first: of these, a document that joins another one of higher priority goes,
    so every removed document has a verified pair with one that stays. With exact copies only (`dedup.minhash` absent),
    all but the first of equal documents go. Without `dedup` none does.

    Args:
        shingle_files: As for `clusters.link_partition`, written with `clustering(dedup)`.
        kept_files: Files of `kept_schema`, one beside each.
        partition: Its number.
        output: Parquet file of `resolved_schema`, with the members of clusters of two or more and those that go.
        dedup: The recipe's section, or None.
        memory_bytes: About what buffers may hold.
        scratch: An existing folder.

    Returns:
        Counts as of `clusters.link_partition`.

    Raises:
        ValueError: If the files do not fit one another.
    """
    import numpy as np
    import pyarrow.parquet as pq

    from curate.dedup.members import Members
    from curate.dedup.spill import zeros_on_disk

    settings = clustering(dedup)
    with tempfile.TemporaryDirectory(prefix="resolve-", dir=scratch) as folder:
        members = Members(shingle_files, partition, settings, memory_bytes, folder)
        kept = _read_kept(kept_files, partition, members, folder)
        codes = zeros_on_disk(folder, "codes", np.uint8, members.size)
        targets = zeros_on_disk(folder, "targets", np.int64, members.size)
        similarities = zeros_on_disk(folder, "chosen_similarities", np.float64, members.size)
        for start in range(0, members.size, _ROWS):
            targets[start : start + _ROWS] = np.arange(start, min(start + _ROWS, members.size))
        if dedup is not None and dedup.exact is not None:
            codes_of = {"url": URL, "payload": PAYLOAD}
            by = [name for name in codes_of if name in dedup.exact.by]
            if by:
                equal = "text" in dedup.exact.by
                near = 2 if dedup.minhash is not None else int(equal)
                reasons = members.drop_equal(kept, by, near, int(equal), targets)
                of_reason = np.array([0, *(codes_of[name] for name in by)], np.uint8)
                for start in range(0, members.size, _ROWS):
                    part = slice(start, start + _ROWS)
                    codes[part] = of_reason[reasons[part]]
                    similarities[part] = np.where(reasons[part] > 0, np.nan, similarities[part])
        clusters = members.cluster(kept)
        _resolve(dedup, members, kept, clusters, codes, targets, similarities)
        with pq.ParquetWriter(output, resolved_schema(), compression="zstd") as file:
            for start in range(0, members.size, _ROWS):
                part = slice(start, start + _ROWS)
                rows = start + np.flatnonzero((clusters.sizes[part] > 1) | (codes[part] > 0))
                file.write_batch(_rows(members, clusters, rows, codes, targets, similarities))
        return clusters.counts()


def _read_kept(files: Sequence[str], partition: int, members: Members, folder: str) -> npt.NDArray[np.uint8]:
    import numpy as np

    from curate.dedup.members import partition_batches
    from curate.dedup.spill import zeros_on_disk

    kept = zeros_on_disk(folder, "kept", np.uint8, members.size)
    done = 0
    for path, batch in partition_batches(files, partition):
        docs = batch["doc"].to_numpy()
        if (members.docs[done : done + len(docs)] != docs).any():
            raise ValueError(f"{path}: tells of other documents than the shingle files")
        kept[done : done + len(docs)] = batch["kept"].to_numpy(zero_copy_only=False)
        done += len(docs)
    if done != members.size:
        raise ValueError(f"{members.size - done} documents of the shingle files are in none of the files of kept ones")
    return kept


def _resolve(
    dedup: Dedup | None,
    members: Members,
    kept: npt.NDArray[np.uint8],
    clusters: Clustering,
    codes: npt.NDArray[np.uint8],
    targets: npt.NDArray[np.int64],
    similarities: npt.NDArray[np.float64],
) -> None:
    """Write for each kept row why it goes as a copy of a text, the row that stays instead, and their similarity."""
    import numpy as np

    exact = dedup is not None and dedup.exact is not None and "text" in dedup.exact.by
    if dedup is None or (not exact and dedup.minhash is None):
        return
    equal_code = EXACT if exact else NEAR
    for start in range(0, members.size, _ROWS):
        part = slice(start, start + _ROWS)
        rows = np.arange(start, start + len(kept[part]))
        if dedup.minhash is not None:
            target, similarity = clusters.representatives[part], clusters.similarities[part]
        else:
            target, similarity = clusters.leaders[part], np.ones(len(rows))
        goes = (kept[part] == 1) & (target != rows)
        if not exact:
            goes &= members.has_words(rows)  # without words there is nothing to be near
        equal = members.heads[target] == members.heads[part]
        codes[part] = np.where(goes, np.where(equal, equal_code, NEAR), codes[part])
        targets[part] = np.where(goes, target, targets[part])
        similarities[part] = np.where(goes, similarity, similarities[part])


def _rows(
    members: Members,
    clusters: Clustering,
    rows: npt.NDArray[np.int64],
    codes: npt.NDArray[np.uint8],
    targets: npt.NDArray[np.int64],
    similarities: npt.NDArray[np.float64],
) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    representatives = clusters.representatives[rows]
    return pa.record_batch(
        [
            pa.array(members.docs[rows]),
            pa.array(codes[rows]),
            pa.array(members.docs[targets[rows]]),
            pa.array(similarities[rows], mask=np.isnan(similarities[rows])),
            pa.array(members.docs[clusters.firsts[rows]]),
            pa.array(clusters.sizes[rows].astype(np.int32)),
            pa.array(members.docs[representatives]),
            pa.array(clusters.similarities[rows]),
        ],
        schema=resolved_schema(),
    )
