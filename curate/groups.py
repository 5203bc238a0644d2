"""Groups of a source's documents, by labels or by numbers, that the mixture draws as sources of their own.

A source is divided along one or several axes: columns such as the language, the quality bucket, the topic, or the size of
the duplicate cluster. Each axis has named groups of labels; a document is in one group of each axis, and the groups that
it is in, together, are its cell. A cell is a stream of tokens of its own: `<source>/<group>`, or `<source>/<group>+<group>`.

How much of a cell is drawn follows from weights of groups, from a rule over the cells (`curate.mix.rules`), or from factors:
FineWeb-2 repeats documents by the size of their duplicate cluster ("rehydration", Penedo et al. 2025, arXiv:2506.20920), as
what stands in many places is rather good and what stands in very many is spam.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import inf, prod
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from curate.mix.rules import PROPORTIONAL, Rule, exact
from curate.stage import Settings

REST = "rest"  # the group of all labels that no group names
OTHERS = "*"  # in factors: all labels that no other factor names
CLUSTER_SIZE = "cluster_size"  # columns of the curated documents; every other column is one that a step measures
LANGUAGE = "language"
MOST_CELLS = 256  # of one source: each is a folder of token shards, and costs a pass over the source's documents
_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})?")
_NUMBER = re.compile(r"0|[1-9]\d{0,17}")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
_BETWEEN = "+"  # stands in no group's name
_REMEMBERED = (
    1 << 16
)  # values of a column whose group is looked up once; a column may have as many as there are documents
_ENDLESS = 10**18  # above every number of a column that can be met


def parse_weight(value: object) -> float:
    """Return a weight that a recipe states.

    Raises:
        ValueError: If it is no number of at least 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise ValueError(f"the weight is {value!r}; it must be a number of at least 0")
    return float(value)


def _factor(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise ValueError(f"the factor is {value!r}; it must be a number of at least 0 (0 leaves the group out)")
    return float(value)


def _label(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise ValueError(f"{value!r} is no label; write labels, numbers, or a range such as 10-17 or 100-")


def _labels(value: object) -> object:
    """Return the labels that a recipe means: one or several, where `10-17` and `100-` are ranges of whole numbers."""
    found: list[str] = []
    for one in value if isinstance(value, tuple | list) else (value,):
        found.append(_label(one))
        if (ends := _ends(found[-1])) is not None and ends[0] > ends[1]:
            raise ValueError(f"{one!r} is no range; write the lower number first")
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
        if isinstance(times, bool) or not isinstance(times, int | float) or not 0 <= times < inf:
            raise ValueError(f"repeat: {bound} is {times!r}; it must be a number of at least 0 (0 leaves the step out)")
        found[int(bound)] = float(times)
    if not any(found.values()):
        raise ValueError("repeat is 0 in all steps; at least one must be above 0")
    return dict(sorted(found.items()))


def _columns(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, tuple | list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"by is {value!r}; write a column, or a list of columns: [language, quality_bucket]")
    return tuple(value)


def _by_name(value: object) -> object:
    """Return groups by name: a list of labels means a group for each."""
    if isinstance(value, tuple | list):
        names = [_label(one) for one in value]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"{', '.join(sorted(twice))} is named twice")
        return {name: {} for name in names}
    if isinstance(value, Mapping):
        return {_label(name): {} if one is None else one for name, one in value.items()}
    return value


Weight = Annotated[float, BeforeValidator(parse_weight)]
Labels = Annotated[tuple[str, ...], BeforeValidator(_labels), Field(min_length=1)]


class Group(Settings):
    """Some labels of a source.

    Attributes:
        weight: Share of the tokens.
        of: The labels, numbers or ranges of them (`15-19`, `100-`); by default the label that the group is named after.
    """

    weight: Weight | None = None
    of: Labels | None = None


Groups = Annotated[dict[str, Group], BeforeValidator(_by_name), Field(min_length=1)]


def _one_or_axis(value: object) -> str:
    if isinstance(value, Mapping) and value and not {"weight", "of"}.intersection(value):
        return "<axis>" if all(isinstance(one, Mapping | Group) or one is None for one in value.values()) else "<group>"
    return "<axis>" if isinstance(value, tuple | list) else "<group>"


GroupOrAxis = Annotated[
    Annotated[Group, Tag("<group>")] | Annotated[Groups, Tag("<axis>")], Discriminator(_one_or_axis)
]


@dataclass(frozen=True, slots=True)
class Axis:
    """A column and the groups of its labels.

    Attributes:
        by: The column.
        labels: Group to labels; `rest`, last, has none and takes all labels that no other names, and no label.
    """

    by: str
    labels: Mapping[str, tuple[str, ...]]

    def words(self, group: str) -> tuple[str, ...]:
        """Return the labels of a group that are no numbers."""
        return tuple(label for label in self.labels[group] if _ends(label) is None)


@dataclass(frozen=True, slots=True)
class Division:
    """The axes of a source: first those that `ByLabel` names, then those of factors."""

    axes: tuple[Axis, ...]

    def num_cells(self) -> int:
        """Return how many cells there are."""
        return prod(len(axis.labels) for axis in self.axes)

    def cells(self) -> dict[str, tuple[str, ...]]:
        """Return the cells by name, each with its group on every axis, in the order of their numbers."""
        return {_BETWEEN.join(groups): groups for groups in product(*(axis.labels for axis in self.axes))}


class ByLabel(Settings):
    """How the mixture divides a source by labels or numbers: languages, quality buckets, topics, sizes of clusters.

    Attributes:
        by: Column or columns: labels or whole numbers that a step of the source measures; or `language`; or `cluster_size`: how
            many documents of all sources are copies of one another, the one that stays and those that are removed.
        groups: Name to labels and weight, or a list of labels; with several columns, that for each of them. Documents of
            all other labels, and without one, are the group `rest`: drawn only if it is named. With several columns,
            the weight of a cell is the product of its groups' weights.
        weight: Share of the tokens of the whole source, where groups have no weights of their own.
        weights: With `weight` and `groups`: the rule by which cells share it; default proportional to what they have.
        repeat: With `weight`, in place of groups: a table of steps, the least number to repetitions, such as {1: 1, 2: 3, 5: 5,
            100: 8, 1000: 1}: documents from 2 to 4 are repeated three times as often as those of 1. Each step is a group,
            named after its numbers (`1`, `2-4`, `1000-`), of a share in proportion to repetitions times its tokens; 0 leaves
            it out, as are documents below the first step and without a number.
    """

    by: Annotated[tuple[str, ...], BeforeValidator(_columns), Field(min_length=1)]
    groups: Annotated[dict[str, GroupOrAxis], BeforeValidator(_by_name), Field(min_length=1)] | None = None
    weight: Weight | None = None
    weights: Rule | None = None
    repeat: Annotated[dict[int, float], BeforeValidator(_table)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> ByLabel:
        if len(set(self.by)) < len(self.by):
            raise ValueError(f"by names a column twice: {', '.join(self.by)}")
        if (self.groups is None) == (self.repeat is None):
            raise ValueError("give either `groups`, or `weight` and `repeat`")
        if self.repeat is None:
            return self
        if self.weight is None:
            raise ValueError("`weight` and `repeat` belong together; with `groups`, each group may have its weight")
        if len(self.by) > 1:
            raise ValueError("repeat is a table over one column; for further ones write mixture.multiply")
        if self.weights is not None:
            raise ValueError("`repeat` shares in proportion already; leave `weights` out")
        if self.by == (CLUSTER_SIZE,) and next(iter(self.repeat)) != 1:
            raise ValueError(
                f"repeat begins at {next(iter(self.repeat))}; begin at 1: documents without a copy (1: 0 leaves them out)"
            )
        return self

    @model_validator(mode="after")
    def _groups_fit(self) -> ByLabel:
        if self.groups is None:
            return self
        if len(self.by) > 1 and (
            set(self.groups) != set(self.by) or any(isinstance(x, Group) for x in self.groups.values())
        ):
            example = ", ".join(f"{column}: [...]" for column in self.by)
            raise ValueError(f"with several columns, groups has the groups of each: {{{example}}}")
        if len(self.by) == 1 and (odd := [name for name, one in self.groups.items() if not isinstance(one, Group)]):
            raise ValueError(f"groups.{odd[0]} holds groups, and `by` names one column only: {self.by[0]}")
        weighted = [one.weight is not None for groups in self._by_column().values() for one in groups.values()]
        if self.weight is not None and any(weighted):
            raise ValueError(
                "`weight` is for the whole source, and its groups have weights, too; leave one of them out"
            )
        if self.weight is None and not all(weighted):
            raise ValueError(
                "a group has no weight: give each one, or `weight` to the whole source, which they share by the rule `weights`"
            )
        if self.weight is None and self.weights is not None:
            raise ValueError("groups have weights, so there is nothing to share by a rule; leave `weights` out")
        for groups in self._by_column().values():
            _check_disjoint({name: group.of for name, group in groups.items()})
        return self

    def _by_column(self) -> dict[str, dict[str, Group]]:
        if self.groups is None:
            return {}
        if len(self.by) == 1:
            return {self.by[0]: {name: one for name, one in self.groups.items() if isinstance(one, Group)}}
        return {column: one for column in self.by if isinstance(one := self.groups[column], dict)}

    def axes(self) -> tuple[Axis, ...]:
        """Return the axes, in the order of `by`."""
        if self.repeat is not None:
            bounds = [*self.repeat, _ENDLESS + 1]
            names = [_range(low, high - 1) for low, high in pairwise(bounds)]
            rest: dict[str, tuple[str, ...]] = {} if self.by[0] == CLUSTER_SIZE else {REST: ()}
            return (Axis(self.by[0], {name: (name,) for name in names} | rest),)
        return tuple(
            Axis(column, {name: group.of or (name,) for name, group in groups.items() if name != REST} | {REST: ()})
            for column, groups in self._by_column().items()
        )

    def rule(self) -> Any:
        """Return the rule by which cells share the source's weight, or None where they have weights of their own."""
        return None if self.weight is None else self.weights or PROPORTIONAL

    def stated(self) -> tuple[dict[str, Fraction], ...]:
        """Return, for each axis, what the recipe says of its groups: weights, repetitions, or 1 for those that it names."""
        if self.repeat is not None:
            (axis,) = self.axes()
            times = [*self.repeat.values(), 0.0]  # of `rest`, where there is one
            return ({name: exact(one) for name, one in zip(axis.labels, times, strict=False)},)
        return tuple(
            {
                name: exact(1.0 if (weight := groups[name].weight) is None else weight)
                if name in groups
                else Fraction(0)
                for name in axis.labels
            }
            for axis, groups in zip(self.axes(), self._by_column().values(), strict=True)
        )

    def listed(self) -> tuple[tuple[str, ...], ...]:
        """Return, for each axis, the groups that the recipe lists: all but a `rest` that nothing is said of."""
        if self.repeat is not None:
            return tuple(tuple(name for name in axis.labels if name != REST) for axis in self.axes())
        return tuple(tuple(groups) for groups in self._by_column().values())

    def total(self) -> Fraction:
        """Return the weight of all cells together."""
        if self.weight is not None:
            return exact(self.weight)
        return prod((sum(weights.values(), Fraction(0)) for weights in self.stated()), start=Fraction(1))


class Multiplier(Settings):
    """How often a group is repeated, relative to the others.

    Attributes:
        factor: 2 repeats it twice as often as a group of factor 1; 0 leaves it out.
        of: The labels, numbers or ranges of them; by default the label that the group is named after.
    """

    factor: Annotated[float, BeforeValidator(_factor)]
    of: Labels | None = None


def _factors(value: object) -> object:
    if not isinstance(value, Mapping) or not value:
        raise ValueError("factors is a mapping from labels to factors, such as {pt: 2, '*': 1}")
    return {
        _label(name): one if isinstance(one, Mapping | Multiplier) else {"factor": one} for name, one in value.items()
    }


class Multiply(Settings):
    """Factors along one axis: how often documents are repeated by their label.

    Attributes:
        by: The column: as of `ByLabel`.
        factors: Label, number or range to factor. `*` is for all others, 1 if it is left out. A name that is no label has its
            labels beside the factor: `best: {of: 18-19, factor: 3}`. Where a source is divided by this column already, the
            names are those of its groups.
        sources: Those that it applies to; default all.
    """

    by: str
    factors: Annotated[dict[str, Multiplier], BeforeValidator(_factors)]
    sources: Annotated[tuple[str, ...], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Multiply:
        if OTHERS in self.factors and REST in self.factors:
            raise ValueError("'*' and 'rest' are the same here; give one of them")
        if any(self.factors[name].of is not None for name in (OTHERS, REST) if name in self.factors):
            raise ValueError("'*' is for all labels that no other factor names; leave `of` out")
        _check_disjoint({name: one.of for name, one in self.factors.items() if name != OTHERS})
        if not any(one.factor for one in self.factors.values()) and {OTHERS, REST} & {*self.factors}:
            raise ValueError("factors are 0 for all labels; at least one must be above 0")
        return self

    def applies(self, source: str) -> bool:
        """Return whether a source is meant."""
        return self.sources is None or source in self.sources

    def axis(self) -> Axis:
        """Return the axis that the factors make of a source which is not divided by this column yet."""
        named = {name: one.of or (name,) for name, one in self.factors.items() if name not in (OTHERS, REST)}
        whole = self.by == CLUSTER_SIZE and _covers(named.values(), 1)
        return Axis(self.by, named if whole else named | {REST: ()})

    def of_groups(self, axis: Axis) -> dict[str, Fraction]:
        """Return the factor of each group of an axis.

        Raises:
            ValueError: If a factor names no group of it.
        """
        others = self.factors.get(OTHERS) or self.factors.get(REST)
        for name, one in self.factors.items():
            if name not in (OTHERS, REST) and name not in axis.labels:
                raise ValueError(f"'{name}' is no group by {axis.by}; its groups: {', '.join(axis.labels)}")
            if one.of is not None and axis.labels.get(name) != one.of:
                raise ValueError(f"the group '{name}' by {axis.by} has its labels already; leave `of` out")
        return {
            name: exact((self.factors.get(name) or others or Multiplier(factor=1.0)).factor) for name in axis.labels
        }


def _covers(labels: Any, first: int) -> bool:
    """Return whether ranges leave out no whole number from `first` on."""
    ranges = sorted(ends for some in labels for label in some if (ends := _ends(label)) is not None)
    reached = first - 1
    for low, high in ranges:
        if low > reached + 1:
            return False
        reached = max(reached, high)
    return reached >= _ENDLESS


def _check_disjoint(groups: Mapping[str, tuple[str, ...] | None]) -> None:
    """Refuse names that are no folder's, and labels that stand in two groups."""
    for name, of in groups.items():
        if not _GROUP.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of a group: letters, digits, '_', '-' and '.' (it becomes a folder); "
                "name the group and give its labels in `of`"
            )
        if name == REST and of is not None:
            raise ValueError("rest is the group of all labels that no group names; leave `of` out")
    named = [label for name, of in groups.items() if name != REST for label in of or (name,)]
    words = [label for label in named if _ends(label) is None]
    twice = {label for label in words if words.count(label) > 1}
    ranges = sorted(ends for label in named if (ends := _ends(label)) is not None)
    for (_, high), (low, other) in pairwise(ranges):
        if low <= high:
            twice.add(_range(low, min(high, other)))
    if twice:
        raise ValueError(f"{', '.join(sorted(twice))} stands in two groups")


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
            if len(known) >= _REMEMBERED:
                known.clear()
            known[key] = find(value)
        return known[key]

    return found
