"""Groups of a source's documents, by a label or by numbers, that the mixture draws as sources of their own.

Either each group has a weight, or a table says how often documents are repeated: FineWeb-2 repeats documents by the size of
their duplicate cluster ("rehydration", Penedo et al. 2025, arXiv:2506.20920), as what stands in many places is rather good
and what stands in very many is spam.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from curate.stage import Settings

REST = "rest"  # the group of all labels that no group names
CLUSTER_SIZE = "cluster_size"  # the column of the curated documents; every other column is one that a step measures
_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})?")
_NUMBER = re.compile(r"0|[1-9]\d{0,17}")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
_ENDLESS = 10**18  # above every number of a column that can be met


def parse_weight(value: object) -> float:
    """Return a weight that a recipe states.

    Raises:
        ValueError: If it is no number of at least 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"the weight is {value!r}; it must be a number of at least 0")
    return float(value)


def _labels(value: object) -> object:
    """Return the labels that a recipe means: one or several, where `10-17` and `100-` are ranges of whole numbers."""
    found: list[str] = []
    for one in value if isinstance(value, tuple | list) else (value,):
        if isinstance(one, bool):
            found.append("true" if one else "false")
        elif isinstance(one, str | int):
            found.append(str(one))
            if (ends := _ends(found[-1])) is not None and ends[0] > ends[1]:
                raise ValueError(f"{one!r} is no range; write the lower number first")
        else:
            raise ValueError(f"{one!r} is no label; write labels, numbers, or a range such as 10-17 or 100-")
    return tuple(found)


def _ends(label: str) -> tuple[int, int] | None:
    """Return the first and the last number that a label means, or None if it is no number and no range."""
    if _NUMBER.fullmatch(label):
        return int(label), int(label)
    match = _RANGE.fullmatch(label)
    return None if match is None else (int(match[1]), int(match[2]) if match[2] else _ENDLESS)


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-" if high == _ENDLESS else f"{low}-{high}"


def _table(value: object) -> object:
    if not isinstance(value, Mapping) or not value:
        raise ValueError(
            "repeat is a table from the least number of a step to repetitions, such as {1: 1, 2: 3, 100: 1}"
        )
    found: dict[int, float] = {}
    for bound, times in value.items():
        if not _NUMBER.fullmatch(str(bound)):
            raise ValueError(f"repeat has the step {bound!r}; steps begin at whole numbers, such as 1, 2, 100")
        if isinstance(times, bool) or not isinstance(times, int | float) or not 0 <= times < float("inf"):
            raise ValueError(f"repeat: {bound} is {times!r}; it must be a number of at least 0 (0 leaves the step out)")
        found[int(bound)] = float(times)
    if not any(found.values()):
        raise ValueError("repeat is 0 in all steps; at least one must be above 0")
    return dict(sorted(found.items()))


Weight = Annotated[float, BeforeValidator(parse_weight)]


class Group(Settings):
    """Some labels of a source, drawn as a source of their own.

    Attributes:
        weight: Share of the tokens.
        of: The labels, numbers or ranges of them (`15-19`, `100-`); by default the label that the group is named after.
    """

    weight: Weight
    of: Annotated[tuple[str, ...], BeforeValidator(_labels), Field(min_length=1)] | None = None


class ByLabel(Settings):
    """What the mixture draws of a source's documents by a label or a number: quality buckets, topics, sizes of clusters.

    Attributes:
        by: Column that a step of the source measures: labels, or whole numbers; or `cluster_size`: how many documents of
            all sources are copies of one another, the one that stays and those that are removed.
        groups: Name to labels and weight. Documents of all other labels, and without one, are the group `rest`: of weight 0
            unless it is given one.
        weight: In place of groups: share of the tokens of the whole source.
        repeat: With `weight`: a table of steps, the least number to repetitions, such as {1: 1, 2: 3, 5: 5, 100: 8, 1000: 1}:
            documents from 2 to 4 are repeated three times as often as those of 1. Each step is a group, named after its
            numbers (`1`, `2-4`, `1000-`), of a share in proportion to repetitions times its tokens; 0 leaves it out, as are
            documents below the first step and without a number.
    """

    by: str
    groups: Annotated[dict[str, Group], Field(min_length=1)] | None = None
    weight: Weight | None = None
    repeat: Annotated[dict[int, float], BeforeValidator(_table)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> ByLabel:
        if (self.groups is None) == (self.repeat is None):
            raise ValueError("give either `groups`, or `weight` and `repeat`")
        if (self.weight is None) != (self.repeat is None):
            raise ValueError("`weight` and `repeat` belong together; with `groups`, each group has its weight")
        if self.repeat is not None and self.by == CLUSTER_SIZE and next(iter(self.repeat)) != 1:
            raise ValueError(
                f"repeat begins at {next(iter(self.repeat))}; begin at 1: documents without a copy (1: 0 leaves them out)"
            )
        return self

    @model_validator(mode="after")
    def _disjoint(self) -> ByLabel:
        groups = self.groups or {}
        for name, group in groups.items():
            if not _GROUP.fullmatch(name):
                raise ValueError(
                    f"{name!r} is no name of a group: letters, digits, '_', '-' and '.' (it becomes a folder)"
                )
            if name == REST and group.of is not None:
                raise ValueError("rest is the group of all labels that no group names; leave `of` out")
        named = [label for name, group in groups.items() if name != REST for label in group.of or (name,)]
        words = [label for label in named if _ends(label) is None]
        twice = {label for label in words if words.count(label) > 1}
        ranges = sorted(ends for label in named if (ends := _ends(label)) is not None)
        for (_, high), (low, other) in pairwise(ranges):
            if low <= high:
                twice.add(_range(low, min(high, other)))
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))} stands in two groups")
        return self

    def labels(self) -> dict[str, tuple[str, ...]]:
        """Return the labels of each group; `rest`, last, has none, and is missing where no document can be in it."""
        if self.groups is not None:
            found = {name: group.of or (name,) for name, group in self.groups.items() if name != REST}
            return found | {REST: ()}
        assert self.repeat is not None
        bounds = [*self.repeat, _ENDLESS + 1]
        names = [_range(low, high - 1) for low, high in pairwise(bounds)]
        return {name: (name,) for name in names} | ({} if self.by == CLUSTER_SIZE else {REST: ()})

    def repeats(self) -> dict[str, float]:
        """Return how often documents of each group are repeated, or nothing where groups have weights."""
        if self.repeat is None:
            return {}
        return dict(zip(self.labels(), [*self.repeat.values(), 0.0], strict=False))

    def weights(self, windows: Mapping[str, int] | None = None) -> dict[str, Fraction]:
        """Return the weight of each group, as exact as written.

        Args:
            windows: Windows of tokens that each group has, for a table; without, or if no group that is repeated has any,
                as if all had the same.
        """
        if self.groups is not None:
            given = {name: exact(group.weight) for name, group in self.groups.items()}
            return {name: given.get(name, Fraction(0)) for name in self.labels()}
        assert self.weight is not None
        repeats = {name: exact(times) for name, times in self.repeats().items()}
        parts = {name: times * (windows or {}).get(name, 0) for name, times in repeats.items()}
        if not any(parts.values()):
            parts = repeats
        return {name: exact(self.weight) * part / sum(parts.values()) for name, part in parts.items()}

    def total(self) -> float:
        """Return the weight of all groups together."""
        return self.weight if self.weight is not None else sum(group.weight for group in (self.groups or {}).values())


def exact(weight: float) -> Fraction:
    """Return a weight as written (0.6 is six tenths), so that no rounding of binary floats decides about a window."""
    return Fraction(repr(weight))


def group_finder(labels: Sequence[Sequence[str]]) -> Callable[[object], int]:
    """Return a function from a measured value, or None, to the number of its group.

    Args:
        labels: Labels of each group; the group without labels takes all values that no other names.

    Raises:
        ValueError: By the function, for a value without a group.
    """
    words = {label: group for group, some in enumerate(labels) for label in some}
    ranges = [(*ends, group) for group, some in enumerate(labels) for one in some if (ends := _ends(one)) is not None]
    rest = next((group for group, some in enumerate(labels) if not some), None)
    known: dict[object, int] = {}

    def find(value: object) -> int:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        group = rest if value is None else words.get(text, rest)
        if value is not None and _NUMBER.fullmatch(text):
            group = next((group for low, high, group in ranges if low <= int(text) <= high), group)
        if group is None:
            raise ValueError(f"{value!r} is in no group")
        return group

    def found(value: object) -> int:
        if (key := (type(value), value)) not in known:
            known[key] = find(value)
        return known[key]

    return found
