"""How a filter block's settings say a bound: a number, a share of the documents, a map by a label column, or `off`.

A bound is checked when the recipe is read: one that can never fire is refused, because `off` says the same and means it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, model_validator

from curate.stage import Bound, Rule, Share, Step


def is_off(value: object) -> bool:
    """Whether a recipe's value switches something off: `off` (a string in YAML 1.2), `null` or `false`."""
    return value is None or value is False or (isinstance(value, str) and value.strip().lower() == "off")


@dataclass(frozen=True, slots=True)
class Limit:
    """The values that a bound may take, and what it means beyond them.

    Attributes:
        low, high: The ends of the measured value's range.
        low_fires, high_fires: Whether a bound at that end can still remove something.
    """

    low: float
    high: float
    low_fires: bool
    high_fires: bool

    def __call__(self, value: Any) -> Bound:
        """Return the bound that a recipe's value means.

        Raises:
            ValueError: If it is no number, map or `off`, out of range, or can never fire.
        """
        if is_off(value):
            return None
        if isinstance(value, Share):
            return value
        if isinstance(value, Mapping) and value and set(value) <= {"keep", "quantile"}:
            return share_of(**value)
        if isinstance(value, Mapping):
            if not value:
                raise ValueError(
                    'an empty map bounds nothing; write labels with numbers, such as {en: 3, "*": 2}, or off'
                )
            numbers = {str(label): self(number) for label, number in value.items() if not is_off(number)}
            return {label: number for label, number in numbers.items() if isinstance(number, float | Share)} or None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(
                f"{value!r} is no bound; write a number, {{quantile: 0.9}}, {{keep: 0.1}}, a map from label to one of these, or off"
            )
        number = float(value)
        if not math.isfinite(number) or number < self.low or number > self.high:
            raise ValueError(f"{value!r} is out of range: {self.range()}; write off for no bound")
        if (number == self.low and not self.low_fires) or (number == self.high and not self.high_fires):
            raise ValueError(f"a bound of {value!r} can never remove anything; write off if that is meant")
        return number

    def range(self) -> str:
        """Return the allowed numbers in words."""
        if math.isinf(self.low):
            return "any number"
        return f"{self.low:g} or more" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"


def share_of(*, keep: Any = None, quantile: Any = None) -> Share:
    """Return the share that a recipe's value means.

    Raises:
        ValueError: If it is no number between 0 and 1: at the ends the bound would remove all, or nothing.
    """
    if keep is not None and quantile is not None:
        raise ValueError("keep and quantile both say the share; leave one of them out")
    name, number = ("keep", keep) if quantile is None else ("quantile", quantile)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < 1:
        raise ValueError(f"{name} is {number!r}; it must lie between 0 and 1, both excluded; write off for no bound")
    return Share(**{name: float(number)})


def _keep_top(value: Any) -> Bound:
    if is_off(value):
        return None
    if isinstance(value, Share):
        return value
    if isinstance(value, Mapping) and set(value) != {"keep"}:
        shares = {str(label): _keep_top(share) for label, share in value.items()}
        if not shares:
            raise ValueError(
                'an empty map keeps nothing; write labels with shares, such as {en: 0.1, "*": 0.3}, or off'
            )
        return {label: share for label, share in shares.items() if isinstance(share, Share)} or None
    return share_of(keep=value["keep"] if isinstance(value, Mapping) else value)


AtLeastShare = Annotated[Bound, PlainValidator(Limit(0.0, 1.0, low_fires=False, high_fires=True))]
AtMostShare = Annotated[Bound, PlainValidator(Limit(0.0, 1.0, low_fires=True, high_fires=False))]
AtLeastNumber = Annotated[Bound, PlainValidator(Limit(0.0, math.inf, low_fires=False, high_fires=False))]
AtLeastScore = Annotated[Bound, PlainValidator(Limit(-math.inf, math.inf, low_fires=False, high_fires=False))]
KeepTop = Annotated[Bound, PlainValidator(_keep_top)]
AtMostNumber = Annotated[Bound, PlainValidator(Limit(0.0, math.inf, low_fires=True, high_fires=False))]


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() == "on":
        return True
    if is_off(value):
        return False
    raise ValueError(f"{value!r} is no switch; write on or off")


Switch = Annotated[bool, PlainValidator(_switch)]


class Filter(Step):
    """A filter block: a measure and its rules.

    Attributes:
        ranges: Each rule with two bounds, and the two settings that are its ends; `<rule>: off` switches both off.
        by: The label column from which a bound given as a map takes its number.
    """

    ranges: ClassVar[Mapping[str, tuple[str, str]]] = {}

    by: str = "language"

    @model_validator(mode="before")
    @classmethod
    def _ranges_off(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        values = dict(values)
        for rule, (low, high) in cls.ranges.items():
            if rule in values and is_off(values[rule]):
                if low in values or high in values:
                    raise ValueError(
                        f"{rule} is off and {low if low in values else high} is set; leave one of them out"
                    )
                del values[rule]
                values[low] = values[high] = None
        return values

    @model_validator(mode="after")
    def _ranges_ordered(self) -> Filter:
        for low, high in self.ranges.values():
            least, most = getattr(self, low), getattr(self, high)
            if isinstance(least, float) and isinstance(most, float) and least > most:
                raise ValueError(f"{low} {least:g} is above {high} {most:g}: no document could be kept")
        return self

    def rule(self, name: str, column: str, least: Bound, most: Bound) -> Rule:
        """Return the rule that a column lies between two bounds; maps take their number by the label column."""
        mapped = isinstance(least, Mapping) or isinstance(most, Mapping)
        return Rule(name, column, at_least=least, at_most=most, by=self.by if mapped else None)
