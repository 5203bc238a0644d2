"""Components of documents that may be copies of one another: the tasks of `curate.dedup.components` over results by key.

Five kinds of tasks of the phase cluster: `hashes` and `bands` (a group of shards), `same` and `near` (a partition of the
keys), and `components`, which joins what these found.
"""

from __future__ import annotations

from collections.abc import Sequence

from curate.dedup.components import (
    COPIES,
    NEAR,
    SAME,
    Layout,
    join_bands,
    join_hashes,
    write_bands,
    write_components,
    write_hashes,
)
from curate.plan import TaskContext


def _signature_files(context: TaskContext, keys: Sequence[str]) -> list[str]:
    return [str(context.entry(key).path("measurements.parquet")) for key in keys]


def hashes(context: TaskContext, key: str, signatures: Sequence[str], by: Sequence[str], bits: int) -> None:
    """Write the records of equal texts, and what else is asked for, of a group (see `write_hashes`).

    Args:
        context: Of the task.
        key: Of the result.
        signatures: Result keys of the signatures of its shards.
        by: Of `hashes_of`.
        bits: Of the layout.
    """
    with context.writing(key) as output, context.scratch() as folder:
        output.counts["records"] = write_hashes(
            _signature_files(context, signatures),
            output.folder,
            by=by,
            bits=bits,
            memory_bytes=context.memory,
            scratch=str(folder),
        )


def same(
    context: TaskContext, key: str, hashed: Sequence[str], layout: Layout, partition: int, by: Sequence[str]
) -> None:
    """Write the edges of one partition of hashes (see `join_hashes`); `counts` say where the groups begin."""
    with context.writing(key) as output, context.scratch() as folder:
        written = join_hashes(
            [context.entry(one).folder for one in hashed],
            output.folder,
            layout=layout,
            partition=partition,
            by=by,
            memory_bytes=context.memory,
            scratch=str(folder),
        )
        output.counts["edges"] = {name: one.edges for name, one in written.items()}
        output.counts["starts"] = list(written[COPIES].starts)
        output.counts["digests"] = list(written[COPIES].digests)


def bands(
    context: TaskContext,
    key: str,
    signatures: Sequence[str],
    found: Sequence[str],
    layout: Layout,
    group: int,
    num_bands: int,
) -> None:
    """Write the records of the bands of a group (see `write_bands`).

    Args:
        context: Of the task.
        key: Of the result.
        signatures: Result keys of the signatures of its shards.
        found: Result keys of `same`, of all partitions.
        layout: Of the corpus.
        group: Its number.
        num_bands: Of the settings.
    """
    entries = [context.entry(one) for one in found]
    with context.writing(key) as output, context.scratch() as folder:
        output.counts["records"] = write_bands(
            _signature_files(context, signatures),
            output.folder,
            group=group,
            layout=layout,
            copies=[(entry.path(COPIES), entry.counts["starts"]) for entry in entries],
            num_bands=num_bands,
            memory_bytes=context.memory,
            scratch=str(folder),
        )


def near(context: TaskContext, key: str, banded: Sequence[str], layout: Layout, partition: int, num_bands: int) -> None:
    """Write the edges of one partition of bands (see `join_bands`)."""
    with context.writing(key) as output, context.scratch() as folder:
        written = join_bands(
            [context.entry(one).folder for one in banded],
            output.folder,
            layout=layout,
            partition=partition,
            num_bands=num_bands,
            memory_bytes=context.memory,
            scratch=str(folder),
        )
        output.counts["edges"] = written.edges


def components(
    context: TaskContext,
    key: str,
    found: Sequence[str],
    banded: Sequence[str],
    signatures: Sequence[str],
    layout: Layout,
) -> None:
    """Write components.parquet (see `write_components`).

    Args:
        context: Of the task.
        key: Of the result.
        found: Result keys of `same`, of all partitions.
        banded: Result keys of `near`, of all partitions.
        signatures: Result keys of the signatures of all shards.
        layout: Of the corpus.
    """
    equal = [context.entry(one) for one in found]
    others = [entry.path(SAME) for entry in equal] + [context.entry(one).path(NEAR) for one in banded]
    with context.writing(key) as output, context.scratch() as folder:
        output.counts["members"] = write_components(
            [(entry.path(COPIES), entry.counts["starts"]) for entry in equal],
            others,
            _signature_files(context, signatures),
            str(output.path("components.parquet")),
            layout=layout,
            scratch=str(folder),
        )
