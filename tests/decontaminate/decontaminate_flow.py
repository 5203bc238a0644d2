"""One way through the parts of decontamination, as the machine takes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from curate.decontaminate.decide import Common, Decisions, count_common, decide
from curate.decontaminate.index import Index, build_index
from curate.decontaminate.runs import overlaps
from curate.decontaminate.settings import Decontaminate
from curate.decontaminate.summary import summarise


def settings(**changes: Any) -> Decontaminate:
    small = {"min_words": 3, "threshold": 0.5} if changes.get("ngram", 13) < 8 else {}
    return Decontaminate(**{"benchmarks": ("bench.jsonl",), **small, **changes})


def write_items(folder: Path, items: Iterable[Any], name: str = "bench.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return str(path)


def batches_of(docs: Sequence[tuple[str, str]], index: Index, rows: int = 1000) -> list[pa.RecordBatch]:
    batches = []
    for at in range(0, len(docs), rows):
        some = docs[at : at + rows]
        columns = [pa.array([key for key, _ in some]), pa.array([text for _, text in some], pa.large_string())]
        batch = pa.RecordBatch.from_arrays(columns, names=["id", "text"])
        batches.append(batch.append_column("matches", overlaps(batch, index)["matches"]))
    return batches


class Run:
    """Build, match, count, decide, report."""

    def __init__(
        self,
        folder: Path,
        items: Sequence[Any],
        docs: Sequence[tuple[str, str]],
        chosen: Decontaminate,
        clusters: Sequence[int] | None = None,
        rows: int = 1000,
    ) -> None:
        self.built = build_index([("bench", write_items(folder, items))], chosen, str(folder / "index.parquet"))
        json.dumps(self.built)
        self.index = Index.load(str(folder / "index.parquet"))
        self.batches = batches_of(docs, self.index, rows)
        numbers = iter(clusters if clusters is not None else range(len(docs)))
        counted = [
            pa.RecordBatch.from_arrays(
                [pa.array([next(numbers) for _ in range(len(b))], pa.int64()), b["matches"]],
                names=["cluster", "matches"],
            )
            for b in self.batches
        ]
        count_common(counted, self.index, chosen, str(folder / "common.parquet"))
        self.common = Common.load(str(folder / "common.parquet"), self.index)
        self.decisions: Decisions = decide(self.batches, self.index, self.common, chosen)
        self.report = summarise(self.built, self.decisions.contamination.to_batches(), self.index, self.common)
        json.dumps(self.report)

    @property
    def removed(self) -> list[str]:
        return self.decisions.removed["id"].to_pylist()

    @property
    def overlaps(self) -> list[tuple[str, str, float]]:
        rows = self.decisions.contamination.to_pylist()
        return [(row["id"], row["item"], row["overlap"]) for row in rows]
