"""How values look to a person: numbers, shares, bytes, and text from the web made safe to look at.

Web text may hold what a reader must not be fooled by: terminal escapes, bidirectional overrides that reorder what
stands beside them, characters that cannot be seen. Each is spelled out (`U+202E`) instead of acted upon.
"""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

# Kept: line feed, tab, and the joiners U+200C and U+200D, which Persian, Indic scripts and emoji need.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls: carriage return, escape, ...
    "\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # bidirectional and invisible
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"  # annotations, lone surrogates, tag characters
)
EXCERPT_CHARACTERS = 700


def plain(text: str) -> str:
    """Return `text` for a terminal: what a terminal would act upon is spelled out as `<U+001B>`."""
    return _UNSAFE.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)


def one_line(text: str, limit: int = 200) -> str:
    """Return `text` for a terminal on one line of at most `limit` characters."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def visible(text: Any) -> Markup:
    """Return `text` as HTML: escaped, with characters that act or hide spelled out in a marked element."""
    escaped = str(escape("" if text is None else str(text)))
    return Markup(_UNSAFE.sub(lambda match: f'<span class="ctl">U+{ord(match.group()):04X}</span>', escaped))


def breakable(text: Any) -> Markup:
    """Return `text` as `visible` does, with room to break a line behind each dot and underscore of a name."""
    pieces = re.split(r"(?<=[._])(?=[^._])", "" if text is None else str(text))
    return Markup("<wbr>").join(visible(piece) for piece in pieces)


def excerpt(text: str, limit: int = EXCERPT_CHARACTERS) -> dict[str, Any]:
    """Return the beginning of `text` and how many characters were left out."""
    if len(text) <= limit:
        return {"text": text, "more": 0}
    return {"text": text[:limit], "more": len(text) - limit}


def number(value: Any) -> str:
    """Return a count with thousands separators; a fraction with four significant digits; `–` for nothing."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return "not a number" if value != value else "infinite"
        if value.is_integer() and abs(value) < 1e15:
            return f"{int(value):,}".replace("-", "−")
        return f"{value:,.4g}".replace("-", "−") if abs(value) < 1e4 else f"{value:,.0f}".replace("-", "−")
    return str(value)


def share(part: float | None, whole: float | None) -> str:
    """Return `part` of `whole` as a percentage; what is not nothing never reads as 0, nor what is not all as 100."""
    if part is None or not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1%"
    if 99.9 < percent < 100:
        return ">99.9%"
    return f"{percent:.1f}%"


def num_bytes(value: float | None) -> str:
    """Return a number of bytes in decimal units with three significant digits."""
    if value is None:
        return "–"
    sign, value = ("−" if value < 0 else ""), abs(value)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5:
            return f"{sign}{value:.3g} {unit}"
        value /= 1000
    return f"{sign}{value:,.3g} PB"


def compact(value: float | None) -> str:
    """Return a count as `12.3k`, `4.56M`, with three significant digits; small counts exactly."""
    if value is None:
        return "–"
    if abs(value) < 10_000:
        return number(value)
    for unit in ("k", "M", "B"):
        value /= 1000
        if abs(value) < 999.5:
            return f"{value:.3g}{unit}"
    return f"{value / 1000:,.3g}T"


def seconds(value: float | None) -> str:
    """Return a duration: `4.2 s`, `3 min 20 s`, `2 h 05 min`."""
    if value is None:
        return "–"
    if value < 60:
        return f"{value:.3g} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
