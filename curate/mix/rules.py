"""Rules that weigh sources, or the groups of one, by how much they have: proportional, temperature, exponent, UniMax.

With n_i tokens in source i, and p_i the share of the budget that it is asked for:

    proportional   p_i ~ n_i
    exponent a     p_i ~ n_i^a            XLM-R (Conneau et al. 2020, arXiv:1911.02116) and mT5 (Xue et al. 2021) take 0.3
    temperature T  p_i ~ n_i^(1/T)        Arivazhagan et al. 2019, arXiv:1907.05019; T = 1 / a, T = 1 is proportional
    unimax         as even as N epochs of each source allow (Chung et al. 2023, arXiv:2304.09151, algorithm 1)

Some papers call the exponent a temperature: below 1 the one sharpens what the other flattens, so that the settings take
temperatures from 1 on and exponents up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Tag

from curate.stage import Settings

PROPORTIONAL = "proportional"
UNIMAX = "unimax"
RULES = "proportional, unimax, {temperature: 3.3}, {exponent: 0.3} or {unimax: {max_epochs: 4}}"
_DIGITS = Decimal("1e-30")  # powers are rounded there: the same on every machine, and far below one window


def parse_epochs(value: object) -> float:
    """Return a number of epochs that a recipe states.

    Raises:
        ValueError: If it is no number above 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"max_epochs is {value!r}; it must be a number above 0")
    return float(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"is {value!r}; it must be a number")
    return float(value)


def _temperature(value: object) -> float:
    number = _number(value)
    if 0 < number < 1:
        raise ValueError(
            f"temperature is {value!r}: shares go as n^(1/temperature), so it must be at least 1; "
            f"for shares that go as n^{value} write {{exponent: {value}}}"
        )
    if number < 1:
        raise ValueError(f"temperature is {value!r}; it must be at least 1 (1 is proportional)")
    return number


def _exponent(value: object) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise ValueError(f"exponent is {value!r}; it must be from 0 (all alike) to 1 (proportional)")
    return number


Epochs = Annotated[float, BeforeValidator(parse_epochs)]


class Temperature(Settings):
    """Shares that go as n^(1/temperature)."""

    temperature: Annotated[float, BeforeValidator(_temperature)]


class Exponent(Settings):
    """Shares that go as n^exponent."""

    exponent: Annotated[float, BeforeValidator(_exponent)]


class UniMaxEpochs(Settings):
    """What UniMax may repeat.

    Attributes:
        max_epochs: N of the paper; by default the mixture's `max_epochs`. It is also the cap where the mixture has none.
    """

    max_epochs: Epochs | None = None


def _epochs_of(value: object) -> object:
    if value is not None and not isinstance(value, Mapping | UniMaxEpochs):
        raise ValueError(f"unimax is {value!r}; write {{unimax: {{max_epochs: 4}}}}, or unimax alone")
    return {} if value is None else value


class UniMax(Settings):
    """Shares as even as the epochs allow."""

    unimax: Annotated[UniMaxEpochs, BeforeValidator(_epochs_of)]


def kind_of_rule(value: object) -> str | None:
    """Return the tag of a rule as a recipe writes it, or None if it is none."""
    if isinstance(value, str):
        return "<name>"
    if isinstance(value, Mapping) and len(value) == 1 and (key := next(iter(value))) in _TAGS:
        return _TAGS[key]
    for kind, tag in ((Temperature, "<temperature>"), (Exponent, "<exponent>"), (UniMax, "<unimax>")):
        if isinstance(value, kind):
            return tag
    return None


_TAGS = {"temperature": "<temperature>", "exponent": "<exponent>", "unimax": "<unimax>"}
RULE_KEYS = tuple(_TAGS)  # a mapping with one of them alone is a rule, and no source


def _name(value: object) -> object:
    if value not in (PROPORTIONAL, UNIMAX):
        raise ValueError(f"{value!r} is no rule; write {RULES}")
    return value


RuleName = Annotated[Literal["proportional", "unimax"], BeforeValidator(_name)]
Rule = Annotated[
    Annotated[RuleName, Tag("<name>")]
    | Annotated[Temperature, Tag("<temperature>")]
    | Annotated[Exponent, Tag("<exponent>")]
    | Annotated[UniMax, Tag("<unimax>")],
    Discriminator(lambda value: kind_of_rule(value) or "<name>"),
]


def is_unimax(rule: object) -> bool:
    """Return whether a rule needs a number of epochs."""
    return rule == UNIMAX or isinstance(rule, UniMax)


def unimax_epochs(rule: object) -> float | None:
    """Return the epochs that a rule itself names."""
    return rule.unimax.max_epochs if isinstance(rule, UniMax) else None


def exact(number: float) -> Fraction:
    """Return a number as written (0.6 is six tenths), so that no rounding of binary floats decides about a window."""
    return Fraction(repr(number))


def weigh(
    rule: object,
    sizes: Mapping[str, Fraction],
    unimax_budget: Fraction,
    rooms: Callable[[str], Fraction],
) -> dict[str, Fraction]:
    """Return weights that a rule gives to sources, or to the groups of one.

    Args:
        rule: One of `Rule`.
        sizes: What each has.
        unimax_budget: What is to be shared, for UniMax.
        rooms: What each may still give within its epochs, for UniMax.
    """
    if is_unimax(rule):
        return unimax(unimax_budget, {name: rooms(name) for name in sizes})
    if isinstance(rule, Temperature):
        return powers(sizes, 1 / exact(rule.temperature))
    if isinstance(rule, Exponent):
        return powers(sizes, exact(rule.exponent))
    assert rule == PROPORTIONAL, rule
    return dict(sizes)


def powers(sizes: Mapping[str, Fraction], exponent: Fraction) -> dict[str, Fraction]:
    """Return each size to a power from 0 to 1, rounded to 30 decimal places; nothing stays nothing."""
    found = dict.fromkeys(sizes, Fraction(0))
    with localcontext(Context(prec=80)):
        power = Decimal(exponent.numerator) / Decimal(exponent.denominator)
        for name, size in sizes.items():
            if size:
                base = Decimal(size.numerator) / Decimal(size.denominator)
                found[name] = Fraction((base**power).quantize(_DIGITS))
    return found


def unimax(budget: Fraction, rooms: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Return what each gives: the budget spread evenly, nobody over its room (Chung et al. 2023, algorithm 1).

    The smallest comes first. It gives an even part of what is left, or all its room if that is less; the others share what
    it leaves. If all rooms together are less than the budget, each gives its room.

    Args:
        budget: C of the paper.
        rooms: c_l x N of the paper: what N epochs of each allow.
    """
    left, given = budget, {}
    order = sorted(rooms, key=lambda name: (rooms[name], name))
    for place, name in enumerate(order):
        given[name] = min(left / (len(order) - place), rooms[name])
        left -= given[name]
    return {name: given[name] for name in rooms}
