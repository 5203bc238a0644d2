"""What a card tells of documents: counted once over a source's files, before anything else is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from curate.errors import InputError
from curate.export.folder import Task
from curate.export.selection import AGAIN, SPLITS, Selection, check_rows
from curate.report.run import damage_named
from curate.stated import LICENCE_KEYS

NOT_STATED = "not stated"
UNREADABLE = "another form"
OTHERS = "others"
MAX_LABELS = 2000  # distinct licences or languages that are told apart in one source; rights in free text have no end
_ISO = r"^\s*((?:1[0-9]|20)\d\d(?:-(?:0[1-9]|1[0-2]))?)(?:\D|$)"  # a year, or a year and a month, and what follows
_MAIL = (
    r"^\s*(?:[A-Za-z]{3},\s*)?\d{1,2}\s+[A-Za-z]{3}\s+((?:1[0-9]|20)\d\d)\b"  # RFC 5322: Mon, 06 Jul 2015 10:00:00 GMT
)


def survey_task(selection: Selection, source: str) -> Task:
    """Return the task that counts a source's documents by split, language, licence, provenance and date; it writes no file."""

    def write(folder: Path) -> Mapping[str, Any]:
        del folder
        return survey(selection, source)

    return Task(f"survey {source}", (), write)


def survey(selection: Selection, source: str) -> dict[str, Any]:
    """Return counts over all of a source's documents of the chosen splits.

    Returns:
        `documents` and `bytes` by split; `languages`, `licences`, `provenance`, `dates` (a month or a year): label to
        [documents, bytes].

    Raises:
        InputError: If a file is damaged, or the ledger knows another number of documents or bytes.
    """
    names = ("languages", "licences", "provenance", "dates")
    counts: dict[str, dict[str, Counter[str]]] = {
        name: {"documents": Counter(), "bytes": Counter()} for name in ("splits", *names)
    }
    for path in selection.documents(source):
        for frame in _frames(path):
            _add(counts["splits"], frame, "splits")
            chosen = frame.filter(pl.col("splits").is_in(list(selection.splits)))
            for name in names:
                _add(counts[name], chosen, name)
    splits = counts["splits"]
    if strange := sorted(set(splits["documents"]) - set(SPLITS)):
        place = str(selection.run.path / "documents" / source)
        raise InputError(place, f"has documents of the unknown split '{strange[0]}'.", AGAIN)
    check_rows(selection, source, splits["documents"].total(), splits["bytes"].total())
    return {
        "documents": {split: splits["documents"][split] for split in selection.splits},
        "bytes": {split: splits["bytes"][split] for split in selection.splits},
        **{
            name: {
                label: [counts[name]["documents"][label], counts[name]["bytes"][label]]
                for label in sorted(counts[name]["documents"])
            }
            for name in names
        },
    }


def _frames(path: Path) -> Iterator[pl.DataFrame]:
    """Yield what is counted of a file's documents; no more than a row group of texts is in memory."""
    with damage_named(path), pq.ParquetFile(path, pre_buffer=False) as file:
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, columns=["split", "text", "language", "metadata"], use_threads=False)
            frame = pl.from_arrow(table)
            assert isinstance(frame, pl.DataFrame)
            yield frame.select(*_columns(frame["metadata"].cast(pl.String)))


def _columns(known: pl.Series) -> list[pl.Expr]:
    """Return what is counted; a field that no metadata in `known` has is not looked for row by row, as that takes the time."""
    metadata = pl.col("metadata").cast(pl.String)

    def field(name: str) -> pl.Expr:
        if not known.str.contains(f'"{name}"', literal=True).any():
            return pl.lit(None, pl.String)
        return _text(metadata.str.json_path_match(f"$.{name}"))

    licence = pl.coalesce(*(field(key) for key in LICENCE_KEYS), pl.lit(NOT_STATED))
    date = field("date")
    period = pl.coalesce(date.str.extract(_ISO), date.str.extract(_MAIL))
    return [
        pl.col("split").cast(pl.String).alias("splits"),
        pl.col("text").str.len_bytes().cast(pl.Int64).alias("size"),
        _text(pl.col("language").cast(pl.String)).fill_null(NOT_STATED).alias("languages"),
        licence.alias("licences"),
        field("provenance").fill_null(NOT_STATED).alias("provenance"),
        pl.when(date.is_null()).then(pl.lit(NOT_STATED)).otherwise(period.fill_null(UNREADABLE)).alias("dates"),
    ]


def _text(value: pl.Expr) -> pl.Expr:
    """Return a value without what stands for nothing."""
    bare = value.str.strip_chars()
    return pl.when(bare.is_in(["", "null", "[]"])).then(None).otherwise(bare)


def _add(counts: dict[str, Counter[str]], frame: pl.DataFrame, name: str) -> None:
    """Add the documents and bytes of each label; labels beyond the first MAX_LABELS are one."""
    rows = frame.group_by(name).agg(pl.len().alias("documents"), pl.col("size").sum()).sort(name)
    for label, documents, size in rows.iter_rows():
        known = label in counts["documents"] or len(counts["documents"]) < MAX_LABELS
        key = label if known else OTHERS
        counts["documents"][key] += documents
        counts["bytes"][key] += size
