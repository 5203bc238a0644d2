"""The tasks and keys by which a run finds components of possible copies: partitions that any worker can take, for `Curation`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from curate.plan import Task

if TYPE_CHECKING:
    from curate.dedup.settings import Dedup
    from curate.phases.cluster import ShardOfCorpus
    from curate.tasks.run import Run


def components_of(run: Run, corpus: Sequence[ShardOfCorpus], settings: Dedup) -> str:
    """Find components of documents that share a text, a band or what else is asked for; return the result's key.

    Args:
        run: The run.
        corpus: Its shards, in document order.
        settings: `clustering` of the recipe's.
    """
    from curate.dedup.components import Layout, hashes_of
    from curate.phases.components import components

    signatures = [shard.signatures for shard in corpus]
    layout = Layout.of([run.entry(shard.extracted).counts["extracted"] for shard in corpus])
    by = hashes_of(settings)
    found = _same(run, signatures, layout, by)
    num_bands = settings.minhash.bands if settings.minhash is not None else 0
    banded = _near(run, signatures, layout, found, num_bands) if num_bands else []
    key = run.key(
        "cluster",
        components=[_digests(run, one) for one in (*found, *banded)],
        signatures=signatures,
    )
    task = Task("cluster", "", "components", (key,), components, (key, found, banded, signatures, layout))
    run.perform("cluster", [task])
    return key


def _same(run: Run, signatures: Sequence[str], layout: Any, by: Sequence[str]) -> list[str]:
    """Find equal hashes; return the result keys by partition."""
    from curate.phases.components import hashes, same

    tasks, records = [], []
    for number, group in enumerate(layout.groups):
        mine = [signatures[shard] for shard in group]
        key = run.key("cluster", hashes=mine, by=by, bits=layout.bits)
        records.append(key)
        tasks.append(Task("cluster", "", f"hashes {number:05d}", (key,), hashes, (key, mine, by, layout.bits)))
    run.perform("cluster", tasks)
    inputs = [_digests(run, key) for key in records]
    tasks, found = [], []
    for partition in layout.partitions:
        key = run.key("cluster", same=inputs, bases=layout.bases, by=by, bits=layout.bits, partition=partition)
        found.append(key)
        arguments = (key, records, layout, partition, by)
        tasks.append(Task("cluster", "", f"same {partition:05d}", (key,), same, arguments))
    run.perform("cluster", tasks)
    return found


def _near(run: Run, signatures: Sequence[str], layout: Any, found: Sequence[str], num_bands: int) -> list[str]:
    """Find equal bands; return the result keys by partition."""
    from curate.phases.components import bands, near

    tasks, records = [], []
    copies = [run.entry(key).counts["digests"] for key in found]
    for number, group in enumerate(layout.groups):
        mine = [signatures[shard] for shard in group]
        own = [digests[number] for digests in copies]
        key = run.key("cluster", bands=mine, copies=own, num_bands=num_bands, bits=layout.bits)
        records.append(key)
        arguments = (key, mine, found, layout, number, num_bands)
        tasks.append(Task("cluster", "", f"bands {number:05d}", (key,), bands, arguments))
    run.perform("cluster", tasks)
    inputs = [_digests(run, key) for key in records]
    tasks, banded = [], []
    for partition in layout.partitions:
        key = run.key(
            "cluster", near=inputs, bases=layout.bases, num_bands=num_bands, bits=layout.bits, partition=partition
        )
        banded.append(key)
        arguments_of = (key, records, layout, partition, num_bands)
        tasks.append(Task("cluster", "", f"near {partition:05d}", (key,), near, arguments_of))
    run.perform("cluster", tasks)
    return banded


def _digests(run: Run, key: str) -> list[str]:
    return [facts["sha256"] for _, facts in sorted(run.entry(key).files.items())]
