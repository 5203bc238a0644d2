"""Who was removed: kept and removed documents of a source by language, domain, kind, length and date.

Counted shard by shard from decisions, measurements and the columns beside the texts; no text is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from curate.report.run import RunFolder, read_names, read_table

if TYPE_CHECKING:
    import polars as pl

MAX_ROWS = 12  # of one table; the others are summed up
MAX_PERIODS = 24
NOT_STATED = "not stated"
NO_TEXT = "no text"  # records that went before there was one
_KINDS = ("page_type", "kind", "genre", "programming_language", "license", "licence")  # of the metadata
_LENGTHS = (0, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000)  # bytes: where each class begins
_HOST = r"^[A-Za-z][A-Za-z0-9+.\-]*://(?:[^/@?#]*@)?(?:www\.)?([^/:?#]+)"
_MONTH = r"^\s*((?:1[5-9]|20)\d\d(?:-(?:0[1-9]|1[0-2]))?)"


@dataclass(frozen=True, slots=True)
class _Dimension:
    """How documents are divided.

    Attributes:
        name: language, domain, length, date, or the name of a label column or metadata field.
        ordered: Whether rows stand in their own order and not by number of documents.
    """

    name: str
    ordered: bool = False


def slices(run: RunFolder, source: str) -> list[dict[str, Any]]:
    """Return one table for each division of a source's documents that tells more than one thing apart.

    Each row has label, documents read and kept, bytes of extracted text read and kept (None without sizes), documents
    removed by stage, and the rule that removed most.
    """
    import polars as pl

    labels = _label_columns(run, source)
    found: dict[_Dimension, list[pl.DataFrame]] = {}
    for path in run.shards("decisions", source):
        frame = _shard(run, source, path.name, labels)
        for dimension, label in _divisions(frame, labels).items():
            counted = frame.group_by(label.alias("label"), "stage", "rule").agg(
                pl.len().alias("documents"), pl.col("bytes").sum()
            )
            found.setdefault(dimension, []).append(counted)
    has_bytes = bool(run.shards("sizes", source))
    tables = []
    for dimension, parts in found.items():
        whole = pl.concat(parts).group_by("label", "stage", "rule").agg(pl.col("documents", "bytes").sum())
        rows = _rows(_periods(whole) if dimension.name == "date" else whole, dimension, has_bytes=has_bytes)
        if len(rows["rows"]) > 1 and not {row["label"] for row in rows["rows"]} <= {NO_TEXT, NOT_STATED}:
            tables.append({"by": dimension.name, **rows})
    return tables


def _label_columns(run: RunFolder, source: str) -> dict[str, str]:
    """Return label columns that were measured, each with the last block that measured it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found: dict[str, str] = {}
    for block in run.blocks(source):
        for path in run.shards("measurements", source, block)[:1]:
            for field in pq.read_schema(path):
                if field.name not in ("id", "failure", "failure_message") and (
                    pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
                ):
                    found[field.name] = block
    return found


def _shard(run: RunFolder, source: str, name: str, labels: dict[str, str]) -> pl.DataFrame:
    """Return the decisions of a shard with what is known of each document beside them."""
    import polars as pl

    frame = read_table(run.path / "decisions" / source / name, ("id", "stage", "rule", "url"))
    wanted = [
        (run.path / "extracted" / source / name, ("id", "language", "metadata"), {"language": "declared"}),
        (run.path / "sizes" / source / name, ("id", "bytes"), {}),
    ]
    for column, block in labels.items():
        wanted.append(
            (run.path / "measurements" / source / block / name, ("id", column), {column: f"measured {column}"})
        )
    for path, columns, renamed in wanted:
        if path.is_file() and path.stat().st_size and set(columns) <= set(read_names(path)):
            frame = frame.join(read_table(path, columns).rename(renamed), on="id", how="left")
    missing = {"declared": pl.String, "metadata": pl.String, "bytes": pl.Int64}
    return frame.with_columns(
        pl.lit(None, dtype=kind).alias(name) for name, kind in missing.items() if name not in frame.columns
    )


def _divisions(frame: pl.DataFrame, labels: dict[str, str]) -> dict[_Dimension, pl.Expr]:
    """Return the label of each document in each division that the shard knows of."""
    import polars as pl

    no_text = pl.col("stage").is_in(["read", "gate", "extract"])
    metadata = pl.col("metadata").cast(pl.String)

    def stated(label: pl.Expr) -> pl.Expr:
        return pl.when(no_text).then(pl.lit(NO_TEXT)).otherwise(label.fill_null(NOT_STATED))

    language = pl.col("declared").cast(pl.String)
    if "measured language" in frame.columns:
        language = pl.coalesce(pl.col("measured language").cast(pl.String), language)
    found = {_Dimension("language"): stated(language)}
    host = pl.col("url").cast(pl.String).str.extract(_HOST).str.to_lowercase()
    found[_Dimension("domain")] = host.fill_null(NOT_STATED)
    for column in labels:
        if column != "language" and f"measured {column}" in frame.columns:
            found[_Dimension(column)] = stated(pl.col(f"measured {column}").cast(pl.String))
    for key in _KINDS:
        if key not in labels and frame["metadata"].cast(pl.String).str.contains(f'"{key}"', literal=True).any():
            found[_Dimension(key)] = stated(metadata.str.json_path_match(f"$.{key}"))
    if frame["bytes"].null_count() < frame.height:
        found[_Dimension("length", ordered=True)] = stated(_length_classes(pl.col("bytes")))
    if frame["metadata"].cast(pl.String).str.contains('"date"', literal=True).any():
        found[_Dimension("date", ordered=True)] = stated(metadata.str.json_path_match("$.date").str.extract(_MONTH))
    return found


def _length_classes(size: pl.Expr) -> pl.Expr:
    import polars as pl

    label: Any = pl.when(size.is_null()).then(None)
    for place, low in enumerate(_LENGTHS[:-1]):
        label = label.when(size < _LENGTHS[place + 1]).then(pl.lit(f"{low:,} to {_LENGTHS[place + 1]:,} bytes"))
    expression: pl.Expr = label.otherwise(pl.lit(f"{_LENGTHS[-1]:,} bytes and more"))
    return expression


def _periods(whole: pl.DataFrame) -> pl.DataFrame:
    """Return the rows by year if they span more months than a table shows."""
    import polars as pl

    if whole["label"].n_unique() <= MAX_PERIODS:
        return whole
    year = pl.col("label").str.extract(r"^(\d{4})").fill_null(pl.col("label"))
    return whole.group_by(year.alias("label"), "stage", "rule").agg(pl.col("documents", "bytes").sum())


def _rows(whole: pl.DataFrame, dimension: _Dimension, *, has_bytes: bool) -> dict[str, Any]:
    import polars as pl

    order = (
        whole.group_by("label")
        .agg(pl.col("documents").sum())
        .sort("documents", "label", descending=[True, False])["label"]
        .to_list()
    )
    most = MAX_PERIODS if dimension.ordered else MAX_ROWS
    shown, others = order[:most], order[most:]
    if dimension.ordered:
        shown.sort(key=lambda label: _place(label, dimension.name))
    rows = [_row(label, whole.filter(pl.col("label") == label), has_bytes=has_bytes) for label in shown]
    if others:
        name = f"{len(others):,} more"
        rows.append(_row(name, whole.filter(pl.col("label").is_in(others)), has_bytes=has_bytes) | {"other": True})
    return {"labels": len(order), "rows": rows}


def _place(label: str, by: str) -> tuple[bool, int, str]:
    last = label in (NO_TEXT, NOT_STATED)
    number = int(label.split(" ")[0].replace(",", "")) if by == "length" and not last else 0
    return last, number, label


def _row(label: str, rows: pl.DataFrame, *, has_bytes: bool) -> dict[str, Any]:
    import polars as pl

    kept = rows.filter(pl.col("rule").is_null())
    removed = rows.filter(pl.col("rule").is_not_null())
    read = int(rows["documents"].sum())
    stages = removed.group_by("stage").agg(pl.col("documents").sum()).sort("stage")
    rules = removed.group_by("rule").agg(pl.col("documents").sum()).sort("documents", "rule", descending=[True, False])
    top: Sequence[Any] = rules.row(0) if rules.height else (None, 0)
    return {
        "label": label,
        "read": read,
        "kept": int(kept["documents"].sum()),
        "share": int(kept["documents"].sum()) / read,
        "bytes_read": int(rows["bytes"].sum()) if has_bytes else None,
        "bytes_kept": int(kept["bytes"].sum()) if has_bytes else None,
        "stages": dict(stages.iter_rows()),
        "top_rule": top[0],
        "top_documents": top[1],
        "other": False,
    }
