"""Numbers as recipes write them: 20k, 1M, 1.5B."""

from __future__ import annotations

import re
from fractions import Fraction

_COUNT = re.compile(r"(\d+(?:_\d+)*(?:\.\d+)?)\s*([kKmMbBtT]?)")
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def parse_count(value: object) -> int:
    """Return a count written as 1000, 1_000, "20k", "1.5B" or 1e6 (k, M, B, T: powers of a thousand, in either case).

    Raises:
        ValueError: If it is no count, is below 1, or is not whole (such as "1.0005k").
    """
    count: Fraction | None = None
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value and abs(value) != float("inf"):
        count = Fraction(value)
    elif isinstance(value, str) and (match := _COUNT.fullmatch(value.strip())):
        count = Fraction(match[1].replace("_", "")) * _FACTORS[match[2].lower()]
    if count is None or count < 1 or count.denominator != 1:
        raise ValueError(f"{value!r} is no count; write a whole number of at least 1, such as 20000, 20k, 1M or 1.5B")
    return int(count)
