"""Arrow values as JSON can hold them, of any type: what a reader puts into a document's metadata.

Dates and times never pass through Python's datetime, which knows neither nanoseconds nor years beyond 1 to 9999, and
whose answer for a time zone depends on the machine's time zone database. All are written in ISO 8601:

- Dates and times: `2024-05-01T12:00:00`, with six or nine digits of a second if it is not whole. A time with a zone is
  written in UTC, as `+00:00`; years outside 0 to 9999 carry a sign.
- Durations: seconds, `PT90S`, `-PT0.000000001S`.
- Decimals: text, with all their digits. Bytes: UTF-8 if they are, else base64. NaN and infinity: null.
- Maps: an object if all keys are strings and distinct, else an array of pairs.
"""

from __future__ import annotations

import base64
import datetime
import math
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_UNIX_EPOCH = 719_162  # days from 0001-01-01 to 1970-01-01 (proleptic Gregorian, as Arrow counts)
_CYCLE = 146_097  # days in 400 years, after which the calendar repeats
_DAY = 86_400


class Unreadable:
    """Stands for a value that no rule here covers."""


UNREADABLE = Unreadable()


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values themselves: of a dictionary's entries, of an extension type's storage."""
    import pyarrow as pa

    while isinstance(kind, pa.DictionaryType | pa.BaseExtensionType):
        kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind.storage_type
    return kind


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds strings or bytes."""
    import pyarrow as pa

    types = pa.types
    strings = (types.is_string, types.is_large_string, types.is_string_view)
    binaries = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(is_kind(stored_type(kind)) for is_kind in (*strings, *binaries))


def to_values(column: pa.Array) -> list[Any]:
    """Return a column's values as JSON values, but for bytes and strings that are not UTF-8: both come as bytes.

    A value that cannot be converted, which no type of a Parquet file is known for, comes as `UNREADABLE`.
    """
    try:
        return _values(column)
    except Exception:  # whatever pyarrow raises for a type of its future: it costs this value alone
        return [_value(column.slice(row, 1)) for row in range(len(column))]


def _value(cell: pa.Array) -> Any:
    try:
        return _values(cell)[0]
    except Exception:
        return None if cell.null_count else UNREADABLE


def plain(value: Any) -> Any:
    """Return a value of `to_values` as JSON can hold it: bytes as UTF-8 or base64, what is no number as null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return base64.b64encode(value).decode("ascii")
    if isinstance(value, Unreadable) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


def _values(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    kind = column.type
    types = pa.types
    if isinstance(column, pa.ExtensionArray):
        values = _values(column.storage)
        if kind.extension_name == "arrow.uuid":
            return [None if value is None else str(uuid.UUID(bytes=value)) for value in values]
        return values
    if types.is_dictionary(kind):
        return _values(column.dictionary_decode())
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _strings(column)
    if types.is_float16(kind):
        return list(column.cast(pa.float64()).to_pylist())
    if types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        return _times(column)
    if types.is_decimal(kind):
        return [None if value is None else str(value) for value in column.to_pylist()]
    if types.is_struct(kind):
        names = [field.name for field in kind]
        rows = zip(*map(_values, column.flatten()), strict=True) if names else [()] * len(column)
        filled = column.is_valid().to_pylist()
        return [dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, filled, strict=True)]
    if types.is_map(kind):
        items = _lists(column, list(zip(_values(column.keys), _values(column.items), strict=True)))
        return [None if pairs is None else _mapping(pairs) for pairs in items]
    if types.is_list(kind) or types.is_large_list(kind):
        first = column.offsets[0].as_py()
        return _lists(column, _values(column.values.slice(first, column.offsets[-1].as_py() - first)), first)
    if types.is_fixed_size_list(kind):
        flat, rows = iter(_values(column.flatten())), column.is_valid().to_pylist()  # a null row has no values there
        return [[next(flat) for _ in range(kind.list_size)] if there else None for there in rows]
    if (types.is_primitive(kind) and not types.is_interval(kind)) or types.is_null(kind) or is_text(kind):
        return list(column.to_pylist())
    raise TypeError(f"no JSON form of {kind}")


def _strings(column: pa.Array) -> list[Any]:
    """Return strings, and bytes for those that are not UTF-8: nothing checks a file's strings when it is written."""
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        pass
    if pa.types.is_string_view(column.type):
        raw = column.view(pa.binary_view())
    else:
        raw = column.view(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
    return [_string(value) for value in raw.to_pylist()]


def _string(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _lists(column: pa.Array, values: Sequence[Any], first: int = 0) -> list[list[Any] | None]:
    """Return the rows of a list column, whose first value is at offset `first` of its child."""
    offsets, filled = column.offsets.to_pylist(), column.is_valid().to_pylist()
    return [
        list(values[offsets[row] - first : offsets[row + 1] - first]) if there else None
        for row, there in enumerate(filled)
    ]


def _mapping(pairs: Sequence[tuple[Any, Any]]) -> Any:
    keys = [key for key, _ in pairs]
    if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
        return dict(pairs)
    return [list(pair) for pair in pairs]


def _times(column: pa.Array) -> list[str | None]:
    import pyarrow as pa

    kind = column.type
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    counts = column.view(width).to_pylist()
    if pa.types.is_date32(kind):
        return [None if days is None else _date(days) for days in counts]
    if pa.types.is_date64(kind):
        return [None if count is None else _date(count // (1000 * _DAY)) for count in counts]
    per_second = _PER_SECOND[kind.unit]
    if pa.types.is_timestamp(kind):
        zone = "+00:00" if kind.tz is not None else ""
        return [None if count is None else _timestamp(count, per_second) + zone for count in counts]
    tell = _clock if pa.types.is_time(kind) else _duration
    return [None if count is None else tell(count, per_second) for count in counts]


def _date(days: int) -> str:
    """Return the day that is `days` after 1970-01-01."""
    cycles, rest = divmod(days + _UNIX_EPOCH, _CYCLE)
    day = datetime.date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    return f"{year:04d}-{day:%m-%d}" if 0 <= year <= 9999 else f"{year:+05d}-{day:%m-%d}"


def _timestamp(count: int, per_second: int) -> str:
    days, rest = divmod(count, _DAY * per_second)
    return f"{_date(days)}T{_clock(rest, per_second)}"


def _clock(count: int, per_second: int) -> str:
    sign = "-" if count < 0 else ""  # outside a day only if the file says so
    seconds, rest = divmod(abs(count), per_second)
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_fraction(rest, per_second)}"


def _duration(count: int, per_second: int) -> str:
    seconds, rest = divmod(abs(count), per_second)
    return f"{'-' if count < 0 else ''}PT{seconds}{_fraction(rest, per_second)}S"


def _fraction(rest: int, per_second: int) -> str:
    """Return the part of a second: the same text whatever the unit of the column."""
    if not rest:
        return ""
    nanoseconds = rest * (1_000_000_000 // per_second)
    return f".{nanoseconds:09d}" if nanoseconds % 1000 else f".{nanoseconds // 1000:06d}"
