"""Which copy stays: the preferences of `dedup.keep.then` as unsigned numbers, the smallest kept first.

A document that lacks what a preference looks at has the largest number, whichever way the preference goes.
"""

from __future__ import annotations

import datetime
import email.utils
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from curate.dedup.settings import Highest, Keep, Lowest

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_NONE = np.uint64(2**64 - 1)
_LARGEST = np.uint64(2**64 - 2)
_SIGN = np.uint64(1 << 63)
_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?", re.ASCII)
_NUMBER, _DAY = re.compile(r"\d{8,13}(?:\.\d+)?", re.ASCII), re.compile(r"(?:1[5-9]|20|21)\d\d[01]\d[0-3]\d", re.ASCII)
_SECONDS = (
    10**7
)  # since 1970, the fewest taken for such: a number below is a year, and eight digits that are a day are that
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_DAY = datetime.datetime(1, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_AT_FIRST_DAY = 1 << 62  # where dates start: offsets from UTC go a day below it


def stored_preferences(
    keep: Keep, metadata: pa.Array | None, measured: Mapping[str, pa.Array], rows: int
) -> npt.NDArray[np.uint64]:
    """Return the numbers of the preferences that shingle files carry (`Keep.stored`), shape (rows, preferences).

    Args:
        keep: The settings.
        metadata: JSON objects, one a document; looked at if a preference is about dates.
        measured: Column to what a step measured; a column that is absent was not measured for these documents.
        rows: Number of documents.
    """
    columns = []
    for one in keep.stored:
        if isinstance(one, Highest | Lowest):
            values = measured.get(one.column)
            found = np.full(rows, _NONE) if values is None else ordered_numbers(values)
            columns.append(reversed_order(found) if isinstance(one, Highest) else found)
        else:
            assert metadata is not None, "dates stand in the metadata"
            found = np.array([ordered_date(value) for value in metadata.to_pylist()], np.uint64)
            columns.append(reversed_order(found) if one == "latest" else found)
    return np.stack(columns, 1) if columns else np.empty((rows, 0), np.uint64)


def count_undated(metadata: pa.Array) -> dict[str, int]:
    """Return how many documents there are, how many of them have no `date`, and how many one that cannot be read."""
    counts = {"documents": len(metadata), "without": 0, "unreadable": 0}
    for text in metadata.to_pylist():
        if ordered_date(text) == _NONE:
            found = json.loads(text).get("date") if text else None
            counts["without" if found in (None, "") else "unreadable"] += 1
    return counts


def priority_columns(
    keep: Keep,
    ranks: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    ids: npt.NDArray[np.uint64],
    stored: npt.NDArray[np.uint64],
) -> npt.NDArray[np.uint64]:
    """Return numbers that sort documents by priority, first column first, shape (rows, columns); ties go in document order.

    Args:
        keep: The settings.
        ranks: Of the documents' sources (`Keep.ranks`), at least 0, shape (rows,).
        sizes: UTF-8 bytes of their texts, shape (rows,).
        ids: Higher and lower half of each id, shape (rows, 2).
        stored: Of `stored_preferences`, shape (rows, preferences).
    """
    columns = [ranks.astype(np.uint64)]
    for one in keep.then:
        if one == "longest":
            columns.append(~sizes.astype(np.uint64))
        elif one == "shortest":
            columns.append(sizes.astype(np.uint64))
        elif one == "id":
            columns += [ids[:, 0], ids[:, 1]]
        elif one != "first":
            columns.append(stored[:, keep.stored.index(one)])
    return np.stack(columns, 1)


def reversed_order(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return numbers in the opposite order; those that say that something is missing stay the largest."""
    return np.where(numbers == _NONE, numbers, np.minimum(~numbers, _LARGEST))


def ordered_numbers(values: pa.Array) -> npt.NDArray[np.uint64]:
    """Return numbers that ascend as the values do (float64 or int64, exactly), the largest for null and NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pc.is_null(values, nan_is_null=True).to_numpy(zero_copy_only=False)
    filled = pc.fill_null(values, 0)
    if pa.types.is_integer(values.type):
        bits = filled.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64) ^ _SIGN
    else:
        # IEEE 754: as whole numbers the bits of positive floats ascend, those of negative ones descend.
        floats = filled.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # one zero, not two
        bits = floats.view(np.uint64)
        bits = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    return np.where(missing, _NONE, np.minimum(bits, _LARGEST))


def ordered_date(metadata: str | None) -> int:
    """Return a number that ascends with the `date` in a document's metadata, the largest if it has none that can be read.

    Read are ISO 8601 dates and times, a year and a month, a year, the dates of mail and HTTP headers (RFC 5322), and seconds
    since 1970 (from 10,000,000 on, or a thousand times as many: milliseconds). What a date leaves out is taken as its
    beginning: the first of January, midnight, UTC. `07/01/2024` may be two days and is not read.
    """
    date = json.loads(metadata).get("date") if metadata else None
    if isinstance(date, int | float) and not isinstance(date, bool):
        date = f"{date:04.0f}" if abs(date) < _SECONDS and date == int(date) else str(date)
    if not isinstance(date, str):
        return int(_NONE)
    date = date.strip()
    if _NUMBER.fullmatch(date) and not _DAY.fullmatch(date) and _SECONDS <= float(date) < _SECONDS * 10**6:
        seconds = float(date) if float(date) < _SECONDS * 10**4 else float(date) / 1000
        return _AT_FIRST_DAY + (_EPOCH - _FIRST_DAY) // _MICROSECOND + round(seconds * 10**6)
    if month := _MONTH.fullmatch(date):
        date = f"{month[1]}-{month[2] or '01'}-01"
    try:
        time = datetime.datetime.fromisoformat(date)
    except ValueError:
        try:
            time = email.utils.parsedate_to_datetime(date)
        except ValueError:
            return int(_NONE)
    offset = time.utcoffset() or datetime.timedelta()
    return _AT_FIRST_DAY + (time.replace(tzinfo=None) - _FIRST_DAY - offset) // _MICROSECOND
