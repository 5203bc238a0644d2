"""The recipe's `mixture`: weights, factors, stages, budget and caps, as a recipe writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from curate.groups import ByLabel, Division, Multiply, Weight, parse_weight
from curate.mix.rules import Epochs, Rule, is_unimax, kind_of_rule, unimax_epochs
from curate.stage import Settings
from curate.text.quantities import parse_count


def _weight_or_groups(value: object) -> object:
    return value if isinstance(value, Mapping | ByLabel) else parse_weight(value)


TokenCount = Annotated[int, BeforeValidator(parse_count)]  # a count such as 1M: for every setting that counts tokens


class UpTo(Settings):
    """A budget that gives way: `tokens: {up_to: 1M}` takes less if the caps allow no more."""

    up_to: TokenCount


def _budget(value: object) -> object:
    return value if value == "up_to" or isinstance(value, Mapping | UpTo) else parse_count(value)


def _rule_or_sources(value: object) -> str:
    return "<rule>" if kind_of_rule(value) is not None else "<by source>"


_BySource = Annotated[
    dict[str, Annotated[float | ByLabel, BeforeValidator(_weight_or_groups)]], Field(min_length=1), Tag("<by source>")
]
_ByStream = Annotated[dict[str, Weight], Field(min_length=1), Tag("<by source>")]
_ByRule = Annotated[Rule, Tag("<rule>")]


def _some_weight(weights: Any) -> None:
    if isinstance(weights, Mapping) and not any(
        one.total() if isinstance(one, ByLabel) else one for one in weights.values()
    ):
        names = ", ".join(f"{name}: 0" for name in weights)
        raise ValueError(f"all weights are 0 ({names}); at least one must be above 0")


class MixtureStage(Settings):
    """A part of training with weights of its own.

    Attributes:
        until_tokens: Where it ends, in tokens from the beginning of training; the last stage ends with the budget.
        weights: As of the mixture, which holds where there are none: by source or by `<source>/<group>`, or a rule. What is
            not named is not drawn. How sources are divided is the same in all stages.
        multiply: Factors, on top of the mixture's by other columns and in place of those by the same one. They name groups that
            the sources are divided into; a source that is not divided by the column stays as it is.
    """

    until_tokens: TokenCount | None = None
    weights: Annotated[_ByStream | _ByRule, Discriminator(_rule_or_sources)] | None = None
    multiply: tuple[Multiply, ...] = ()

    @field_validator("weights")
    @classmethod
    def _weighted(cls, weights: Any) -> Any:
        _some_weight(weights)
        return weights


class Mixture(Settings):
    """The recipe's `mixture`.

    Attributes:
        weights: Share of the tokens by source, any positive sum; they are normalised, and the report states both. A source
            that is not named, or has weight 0, is never drawn. In place of a number, `ByLabel` divides a source: each group
            of labels, or of numbers, is a stream of its own, named `<source>/<group>`. Or a rule over all sources: proportional,
            {temperature: 3.3}, {exponent: 0.3}, unimax, {unimax: {max_epochs: 4}}.
        tokens: The budget, such as 1M. `up_to` takes all that the caps allow, `{up_to: 1M}` at most that and less where
            the caps allow no more; a plain number that the caps do not allow stops the run.
        max_epochs: How often a source may be shown, for all sources or by source (`<source>/<group>` for a group, `*` for all
            others), over all stages; a source without a cap repeats as often as its share needs, with a warning.
        multiply: Factors by language, quality bucket, cluster size, topic: they divide sources into streams, too.
        stages: Parts of training in their order, with weights of their own; without any, there is one.
        order: `shuffled`, or `input`: documents in the order of the input files, in every epoch.
        window: Tokens per window; default the context of the training preset, else 2048.
    """

    weights: Annotated[_BySource | _ByRule, Discriminator(_rule_or_sources)]
    tokens: Annotated[int | Literal["up_to"] | UpTo, BeforeValidator(_budget)]
    max_epochs: Epochs | dict[str, Epochs] | None = None
    multiply: tuple[Multiply, ...] = ()
    stages: tuple[MixtureStage, ...] = ()
    order: Literal["shuffled", "input"] = "shuffled"
    window: int | None = Field(default=None, ge=1)

    @field_validator("weights")
    @classmethod
    def _weighted(cls, weights: Any) -> Any:
        _some_weight(weights)
        return weights

    @model_validator(mode="after")
    def _stages_follow(self) -> Mixture:
        ends = [stage.until_tokens for stage in self.stages]
        for number, end in enumerate(ends, 1):
            if end is None and number < len(ends):
                raise ValueError(
                    f"stage {number} of {len(ends)} has no until_tokens; only the last ends with the budget"
                )
        known = [end for end in ends if end is not None]
        for number, (before, after) in enumerate(pairwise(known), 2):
            if after <= before:
                raise ValueError(
                    f"stage {number} ends at {after:,} tokens, not after stage {number - 1}, which ends at {before:,}; "
                    "until_tokens counts from the beginning of training"
                )
        most = self.tokens.up_to if isinstance(self.tokens, UpTo) else self.tokens
        if known and isinstance(most, int):
            last = ends[-1]
            if last is not None and last != most:
                raise ValueError(
                    f"the last stage ends at {last:,} tokens, the budget is {most:,}; leave until_tokens out there"
                )
            if last is None and known[-1] >= most:
                raise ValueError(
                    f"stage {len(known)} ends at {known[-1]:,} tokens, and the budget is {most:,}: nothing is left for the next"
                )
        if known and most == "up_to" and ends[-1] is not None:
            raise ValueError(
                "the last stage ends with the budget, which max_epochs decides; leave until_tokens out there"
            )
        return self

    @model_validator(mode="after")
    def _bounded(self) -> Mixture:
        if self.tokens == "up_to":
            # What only a rule names is known with the sources, and checked there.
            uncapped = [name for name in self._drawn_last() if self.cap(name) is None]
            if uncapped:
                raise ValueError(
                    f"tokens: up_to takes all that max_epochs allows, but there is no max_epochs for {', '.join(uncapped)}; "
                    "set it, or write tokens: {up_to: 1M}"
                )
        return self

    def _drawn_last(self) -> Iterator[str]:
        """Yield the sources and groups that the last stage surely draws from, as far as weights by name tell."""
        last = self.stages[-1].weights if self.stages else None
        weights: Any = self.weights if last is None else last
        for name, one in weights.items() if isinstance(weights, Mapping) else ():
            if isinstance(one, ByLabel):
                division, stated = Division(one.axes()), one.stated()
                for cell, groups in division.cells().items():
                    if one.total() and all(table[group] for table, group in zip(stated, groups, strict=True)):
                        yield f"{name}/{cell}"
            elif one:
                yield name

    def cap(self, stream: str) -> float | None:
        """Return the epochs that a source, or a group of one, may be shown, or None for any number."""
        source = stream.partition("/")[0]
        if isinstance(self.max_epochs, dict):
            for name in (stream, source, "*"):
                if name in self.max_epochs:
                    return self.max_epochs[name]
        elif self.max_epochs is not None:
            return self.max_epochs
        for rule in self._rules_of(source):
            if (epochs := unimax_epochs(rule)) is not None:
                return epochs
        return None

    def _rules_of(self, source: str) -> Iterator[Any]:
        """Yield the rules that weigh a source or its groups: within it, then over sources, in the order of stages."""
        if isinstance(self.weights, Mapping) and isinstance(one := self.weights.get(source), ByLabel):
            yield one.rule()
        for weights in (self.weights, *(stage.weights for stage in self.stages)):
            if weights is not None and not isinstance(weights, Mapping):
                yield weights

    def needs_epochs(self, source: str) -> bool:
        """Return whether a source is weighed by UniMax, which a number of epochs decides."""
        return any(is_unimax(rule) for rule in self._rules_of(source))

    def by_label(self, source: str) -> ByLabel | None:
        """Return how the weights divide a source, or None."""
        one = self.weights.get(source) if isinstance(self.weights, Mapping) else None
        return one if isinstance(one, ByLabel) else None

    def named(self) -> tuple[str, ...]:
        """Return the sources that weights name, those of stages included."""
        found = [*self.weights] if isinstance(self.weights, Mapping) else []
        for stage in self.stages:
            found += [name.partition("/")[0] for name in stage.weights] if isinstance(stage.weights, Mapping) else []
        return tuple(dict.fromkeys(found))

    def division(self, source: str) -> Division | None:
        """Return the axes of a source, or None if it is one stream."""
        one = self.by_label(source)
        axes = [*one.axes()] if one is not None else []
        columns = {axis.by for axis in axes}
        axes += [many.axis() for many in self.multiply if many.applies(source) and many.by not in columns]
        return Division(tuple(axes)) if axes else None

    def streams(self, sources: Sequence[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the streams of sources: name to the source and the group on each of its axes."""
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        for source in sources:
            division = self.division(source)
            if division is None:
                found[source] = (source, ())
            else:
                found |= {f"{source}/{cell}": (source, groups) for cell, groups in division.cells().items()}
        return found

    def num_cells(self, source: str) -> int:
        """Return how many streams a source is divided into."""
        division = self.division(source)
        return 1 if division is None else division.num_cells()

    def factors(self, source: str, stage: MixtureStage) -> tuple[dict[str, Fraction], ...]:
        """Return the factor of each group on each axis of a source in a stage.

        Raises:
            ValueError: If factors name no group.
        """
        division = self.division(source)
        tables = []
        for axis in division.axes if division is not None else ():
            table = dict.fromkeys(axis.labels, Fraction(1))
            in_stage = [one for one in stage.multiply if one.by == axis.by and one.applies(source)]
            for one in in_stage or [one for one in self.multiply if one.by == axis.by and one.applies(source)]:
                table = one.of_groups(axis)
            tables.append(table)
        return tuple(tables)
