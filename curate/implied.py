"""Rules that decide nothing, as the recipe alone shows: implied by an earlier rule, or true of any document.

What is surely wrong the loader refuses. These are warnings: such a rule works, but a reader of the recipe would think
that it does something.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import PlainValidator

from curate.filter.bounds import Limit
from curate.recipe import Recipe, SourceRecipe, StepBlock
from curate.stage import Bound, Rule, Step, bound_for, canonical

_OTHERS = "*"
_TABLE = 20  # labels; a longer map is a published table of all languages and not written for one recipe
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_COMPARISON = re.compile(rf'\s*(?:"([^"]+)"|([A-Za-z_]\w*))\s*(>=|<=|>|<|=)\s*({_NUMBER})\s*\Z')
_LABELS = re.compile(r"""(?is)\s*(?:"([^"]+)"|([a-z_]\w*))\s*(?:=\s*('(?:[^']|'')*')|in\s*\(\s*('[^()]*')\s*\))\s*\Z""")
_AND = re.compile(r"(?i)\s+and\s+")
_STRING = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True, slots=True)
class _Kept:
    """The values of a column that a rule keeps.

    Attributes:
        rule: Name of the rule.
        low, high: Ends by label, `*` for all others; both are kept.
        by: The label column, None if the ends are the same for all.
        labels: For label columns: those that stay.
    """

    rule: str
    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    by: str | None = None
    labels: frozenset[str] | None = None

    def ends(self, label: str) -> tuple[float, float]:
        """Return the ends for a label."""
        return (
            self.low.get(label, self.low.get(_OTHERS, -math.inf)),
            self.high.get(label, self.high.get(_OTHERS, math.inf)),
        )

    def keeps_all_of(self, other: _Kept) -> bool:
        """Return whether every value that `other` keeps is kept here, too."""
        if self.labels is not None or other.labels is not None:
            return self.labels is not None and other.labels is not None and other.labels <= self.labels
        if None not in (self.by, other.by) and self.by != other.by:
            return False
        return all(
            self.ends(label)[0] <= other.ends(label)[0] and other.ends(label)[1] <= self.ends(label)[1]
            for label in self._every_label(other)
        )

    def shares_none_with(self, other: _Kept) -> bool:
        """Return whether no value is kept by both."""
        if self.labels is not None or other.labels is not None:
            return self.labels is not None and other.labels is not None and not self.labels & other.labels
        if None not in (self.by, other.by) and self.by != other.by:
            return False
        return all(
            max(self.ends(label)[0], other.ends(label)[0]) > min(self.ends(label)[1], other.ends(label)[1])
            for label in self._every_label(other)
        )

    def _every_label(self, other: _Kept) -> set[str]:
        return {_OTHERS, *self.low, *self.high, *other.low, *other.high}


Place = tuple[int, str]  # of a measure: the text revision that it sees, and its settings


def warnings_of(recipe: Recipe) -> list[str]:
    """Return what a reader should know of rules that decide nothing or leave nothing, one sentence each."""
    return [f"{source.name}: {text}" for source in recipe.sources for text in _Reader(source).warnings()]


class _Reader:
    """Goes through the steps of a source and remembers what each rule keeps."""

    def __init__(self, source: SourceRecipe) -> None:
        self._source = source
        self._revision = 0
        self._owners: dict[str, tuple[Step, Place]] = {}  # column -> the step that measured it last, and where
        self._kept: dict[tuple[str, Place], list[_Kept]] = {}

    def warnings(self) -> Iterator[str]:
        """Yield the warnings in the order of the steps."""
        for block in self._source.steps:
            if block.expression is not None:
                yield from self._expression(block)
                continue
            assert block.step is not None
            if block.step.at == "collect":
                continue
            place = (self._revision, _measure(block.step))
            self._owners |= dict.fromkeys(block.step.adds, (block.step, place))
            for rule in block.rules():
                yield from self._rule(rule)
            self._revision += block.step.rewrites

    def _rule(self, rule: Rule) -> Iterator[str]:
        if rule.by is not None:
            yield from self._unused_labels(rule)
        kept = _of_rule(rule)
        if kept is None or rule.column not in self._owners:
            return
        if rule.by in self._owners:
            kept = replace(kept, by=f"{rule.by} {self._owners[rule.by][1]}")  # labels measured elsewhere are others
        place = (rule.column, self._owners[rule.column][1])
        yield from self._compared(rule.name, rule.threshold if rule.by is None else None, place, kept)

    def _unused_labels(self, rule: Rule) -> Iterator[str]:
        """Yield a warning if a map has numbers for labels that an earlier rule removes."""
        assert rule.by is not None
        if rule.by not in self._owners:
            return
        written = {
            label for bound in (rule.at_least, rule.at_most) if isinstance(bound, Mapping) for label in bound
        } - {_OTHERS}
        for earlier in self._kept.get((rule.by, self._owners[rule.by][1]), ()):
            unused = sorted(written - earlier.labels) if earlier.labels is not None else []
            if unused and len(written) <= _TABLE:
                stays = ", ".join(sorted(earlier.labels or ()))
                yield (
                    f"{rule.name} has a bound for {', '.join(unused)}, and {earlier.rule} keeps only {stays}. "
                    "Take them out, or keep these."
                )

    def _compared(self, name: str, threshold: Any, place: tuple[str, Place], kept: _Kept) -> Iterator[str]:
        """Yield what earlier rules on the same numbers make of this one, and remember it."""
        earlier = self._kept.setdefault(place, [])
        shown = f" ({threshold()})" if threshold is not None else ""
        implied = next((one for one in earlier if kept.keeps_all_of(one)), None)
        against = next((one for one in earlier if kept.shares_none_with(one)), None)
        if implied is not None:
            why = f"what it removes, {implied.rule} has removed"
            yield f"{name}{shown} can never decide: {why}. Take it out, or bound it tighter."
        elif against is not None:
            why = f"it removes all that {against.rule} keeps"
            yield f"{name}{shown} leaves no document: {why}. One of the two is wrong."
        earlier.append(kept)

    def _expression(self, block: StepBlock) -> Iterator[str]:
        assert block.expression is not None
        name = f"{block.name}.expression"
        shown = f'{name} "{block.expression}"'
        found = [_of_comparison(name, part) for part in _AND.split(block.expression)]
        conditions = [one for one in found if one is not None]
        if len(conditions) != len(found) or not all(column in self._owners for column, _ in conditions):
            return  # more than comparisons joined by AND: what it keeps is not known
        states = []
        for column, kept in conditions:
            place = (column, self._seen(column))
            whole = _range_of(self._owners[column][0], column)
            before = [*self._kept.get(place, ()), *([whole] if whole is not None else [])]
            implied = next((one for one in before if kept.keeps_all_of(one)), None)
            against = next((one for one in before if kept.shares_none_with(one)), None)
            states.append((column, implied, against))
            self._kept.setdefault(place, []).append(kept)
        for column, _, against in states:
            if against is not None:
                why = f"{against.rule} keeps other values" if against.rule else f"{column} never has such a value"
                yield f"{shown} leaves no document: {why}."
                return
        if all(implied is not None for _, implied, _ in states):
            reasons = [
                f"{implied.rule} has removed all others that have a value"
                if implied.rule
                else f"{column} never has another value"
                for column, implied, _ in states
                if implied is not None
            ]
            yield f"{shown} can never decide: {'; '.join(dict.fromkeys(reasons))}. Take it out."

    def _seen(self, column: str) -> Place:
        """Return the place whose numbers an expression sees: measured again where the text has changed since."""
        step, place = self._owners[column]
        return place if step.rewrites else (self._revision, place[1])


def _measure(step: Step) -> str:
    """Return what tells measures apart: the class and its settings, but for the bounds."""
    values = {name: canonical(getattr(step, name)) for name in type(step).model_fields if name not in step.decides}
    return json.dumps([type(step).__module__, type(step).__qualname__, values], sort_keys=True)


def _of_rule(rule: Rule) -> _Kept | None:
    """Return what a rule keeps, None if it is not known before the run."""
    if rule.expression is not None:
        return None
    if rule.one_of is not None:
        return _Kept(rule.name, labels=frozenset(rule.one_of))
    low = _numbers(rule.at_least, -math.inf)
    high = _numbers(rule.at_most, math.inf)
    return None if low is None or high is None else _Kept(rule.name, low, high, rule.by)


def _numbers(bound: Bound, off: float) -> dict[str, float] | None:
    """Return a bound by label, None if it is resolved over the documents."""
    labels = [*bound, _OTHERS] if isinstance(bound, Mapping) else [_OTHERS]
    found = {label: bound_for(bound, None if label == _OTHERS else label) for label in labels}
    if not all(number is None or isinstance(number, int | float) for number in found.values()):
        return None
    return {label: float(number) if isinstance(number, int | float) else off for label, number in found.items()}


def _of_comparison(rule: str, text: str) -> tuple[str, _Kept] | None:
    """Return the column of a comparison with a number or labels, and what it keeps; None for anything else."""
    match = _COMPARISON.match(text)
    if match is not None:
        number, sign = float(match[4]), match[3]
        low = {">=": number, ">": math.nextafter(number, math.inf), "=": number}.get(sign, -math.inf)
        high = {"<=": number, "<": math.nextafter(number, -math.inf), "=": number}.get(sign, math.inf)
        return match[1] or match[2], _Kept(rule, {_OTHERS: low}, {_OTHERS: high})
    match = _LABELS.match(text)
    if match is not None:
        labels = frozenset(label.replace("''", "'") for label in _STRING.findall(match[3] or match[4]))
        return match[1] or match[2], _Kept(rule, labels=labels)
    return None


def _range_of(step: Step, column: str) -> _Kept | None:
    """Return the values that a column can have, as the settings that bound it allow; None if they do not tell."""
    for prefix in ("min_", "max_"):
        setting = type(step).model_fields.get(prefix + column)
        for mark in setting.metadata if setting is not None else ():
            if isinstance(mark, PlainValidator) and isinstance(mark.func, Limit):
                return _Kept("", {_OTHERS: mark.func.low}, {_OTHERS: mark.func.high})
    return None
