"""Signatures of the curated corpus, for later runs: one task a shard, behind collect."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.dedup.stored import stored_schema
from curate.ledger import balance, same_rows
from curate.pipeline import ParquetFile, read_batches, rows_written
from curate.plan import TaskContext

_SIGNED = ["exact_hash", "bands", "signature"]


def store_signatures(context: TaskContext, key: str, source: str, collected: str, signatures: str) -> None:
    """Write signatures.parquet (`stored_schema`): the signatures of a shard's kept documents, in their order.

    They are those by which the run itself finds copies: of the last revision, before later phases cut anything out.

    Args:
        context: Of the task.
        key: Result key.
        source: Name of the source.
        collected: Result key of collect.
        signatures: Result key of the signatures.
    """
    kept = pq.read_table(context.entry(collected).path("documents.parquet"), columns=["id", "url"]).combine_chunks()
    names = kept["id"].combine_chunks()
    done = 0
    with context.writing(key) as output:
        path = output.path("signatures.parquet")
        with ParquetFile(path, stored_schema()) as file:
            for batch in read_batches(context.entry(signatures).path("measurements.parquet"), ["id", *_SIGNED]):
                rows = batch.filter(pc.is_in(batch["id"], value_set=names))
                if not rows.num_rows:
                    continue
                urls = kept["url"].slice(done, rows.num_rows).combine_chunks()
                same_rows(source, "collect", "", names.slice(done, rows.num_rows).to_pylist(), rows["id"].to_pylist())
                done += rows.num_rows
                where = pa.array([source] * rows.num_rows, pa.string())
                arrays = [rows["id"], where, urls, *(rows[name] for name in _SIGNED)]
                file.write(pa.RecordBatch.from_arrays(arrays, schema=stored_schema()))
        balance(source, "collect", "signatures", kept.num_rows, {"written": rows_written(path)})
        output.counts["documents"] = kept.num_rows
