"""The weight of every stream in a stage of training: weights of sources, divided among their cells by rules and factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

from curate.groups import ByLabel
from curate.mix.rules import exact, weigh
from curate.mix.settings import Mixture, MixtureStage, UpTo

BYTES_PER_TOKEN = 4  # of text, where nothing is encoded yet
Rooms = Mapping[str, int | None]  # windows that each stream may still give; None: any number


@dataclass(frozen=True, slots=True)
class _Cells:
    """The streams of one source in one stage.

    A source's own axes make groups of cells; those have weights as stated, or by a rule. Axes that only factors make divide a
    group's weight in proportion to factor times windows.

    Attributes:
        rule: By which the groups of cells are weighed, or None where they have weights as stated.
        stated: For each group of cells: the product of stated weights, repetitions and factors; 0 is never drawn.
        members: For each group of cells: its streams, and the product of the other axes' factors for each.
        windows: Of every stream.
    """

    rule: Any
    stated: Mapping[str, Fraction]
    members: Mapping[str, Mapping[str, Fraction]]
    windows: Mapping[str, int]

    def sizes(self) -> dict[str, Fraction]:
        """Return what each group of cells that may be drawn has: factors times windows."""
        return {
            name: sum((factor * self.windows[stream] for stream, factor in self.members[name].items()), Fraction(0))
            for name, stated in self.stated.items()
            if stated
        }

    def size(self) -> Fraction:
        """Return what the source has for a rule over sources, repetitions counted."""
        factor = {name: Fraction(1) for name in self.stated} if self.rule is None else self.stated
        return sum((factor[name] * size for name, size in self.sizes().items()), Fraction(0))

    def room(self, group: str, rooms: Rooms) -> Fraction:
        """Return how many windows the epochs still allow a group of cells."""
        found = [rooms[stream] for stream, factor in self.members[group].items() if factor]
        unbounded = [room for room in found if room is None]
        if unbounded:
            raise ValueError(
                f"UniMax spreads what epochs allow, and {', '.join(self.members[group])} has no max_epochs"
            )
        return Fraction(sum(room for room in found if room is not None))

    def whole_room(self, rooms: Rooms) -> Fraction:
        """Return how many windows the epochs still allow the source."""
        return sum((self.room(name, rooms) for name, stated in self.stated.items() if stated), Fraction(0))

    def shares(self, budget: Fraction, rooms: Rooms) -> dict[str, Fraction]:
        """Return each stream's share of the source's weight; they add up to 1 if any stream may be drawn.

        Without a window in all that may be drawn, the shares are as if every cell had the same: so much is missing.
        """
        groups = self.stated
        if self.rule is not None:
            weighed = weigh(self.rule, self.sizes(), budget, lambda name: self.room(name, rooms))
            found = {name: weighed[name] * self.stated[name] for name in weighed}
            groups = found if any(found.values()) else groups
        whole = sum(groups.values(), Fraction(0))
        shares: dict[str, Fraction] = {}
        for name, members in self.members.items():
            parts = {stream: factor * self.windows[stream] for stream, factor in members.items()}
            parts = parts if any(parts.values()) else dict(members)
            total = sum(parts.values(), Fraction(0))
            weight = groups.get(name, Fraction(0))
            shares |= {
                stream: weight * part / (whole * total) if weight and total else Fraction(0)
                for stream, part in parts.items()
            }
        return shares


def stage_weights(
    mixture: Mixture, stage: MixtureStage, windows: Mapping[str, int], rooms: Rooms, budget: int
) -> dict[str, Fraction]:
    """Return the weight of every stream in a stage, exact; those of a source add up to its weight.

    Args:
        mixture: The recipe's `mixture`.
        stage: One of its stages.
        windows: Windows of tokens of every stream.
        rooms: Windows that each stream may still give within its epochs.
        budget: Windows of the stage; of use to UniMax alone.

    Raises:
        ValueError: If factors name no group, or leave nothing of a source, or UniMax weighs what has no number of epochs.
    """
    sources = tuple(dict.fromkeys(name.partition("/")[0] for name in windows))
    cells = {source: _cells(mixture, source, stage, windows) for source in sources}
    weights: Any = mixture.weights if stage.weights is None else stage.weights
    by_stream: dict[str, Fraction] = dict.fromkeys(windows, Fraction(0))
    by_source: dict[str, Fraction] = {}
    if isinstance(weights, Mapping):
        for name, one in weights.items():
            weight = one.total() if isinstance(one, ByLabel) else exact(one)
            if "/" in name:
                by_stream[name] = weight
            else:
                by_source[name] = weight
    else:
        sizes = {source: one.size() for source, one in cells.items()}
        by_source = weigh(weights, sizes, Fraction(budget), lambda source: cells[source].whole_room(rooms))
    whole = sum(by_source.values(), sum(by_stream.values(), Fraction(0)))
    for source, weight in by_source.items():
        if weight:
            shares = cells[source].shares(budget * weight / whole, rooms)
            if not any(shares.values()):
                raise ValueError(f"weights and factors leave nothing of {source} to draw, though it has a weight")
            for stream, share in shares.items():
                by_stream[stream] += weight * share
    return by_stream


def sample_weights(mixture: Mixture, sizes: Mapping[str, int]) -> dict[str, float]:
    """Return the weight of each source in a sample of texts, before there are tokens: all stages together.

    Args:
        mixture: The recipe's `mixture`.
        sizes: Bytes of every source of texts.
    """
    written = mixture.stages or (MixtureStage(),)
    most = mixture.tokens.up_to if isinstance(mixture.tokens, UpTo) else mixture.tokens
    whole_sizes = {name: Fraction(size) for name, size in sizes.items()}
    whole = sum(whole_sizes.values(), Fraction(0))
    end = Fraction(most * BYTES_PER_TOKEN) if isinstance(most, int) else max(whole, *(_end(stage) for stage in written))
    caps = {name: mixture.cap(name) for name in sizes}
    rooms = {name: size if (cap := caps[name]) is None else exact(cap) * size for name, size in whole_sizes.items()}
    found = dict.fromkeys(sizes, Fraction(0))
    start = Fraction(0)
    for number, stage in enumerate(written, 1):
        part = (end if number == len(written) else _end(stage)) - start
        weights: Any = mixture.weights if stage.weights is None else stage.weights
        shares = dict.fromkeys(sizes, Fraction(0))
        if isinstance(weights, Mapping):
            for name, one in weights.items():
                if (source := name.partition("/")[0]) in sizes:
                    shares[source] += one.total() if isinstance(one, ByLabel) else exact(one)
        else:
            shares = weigh(weights, whole_sizes, part, rooms.__getitem__)
        if len(written) == 1:
            return {name: float(share) for name, share in shares.items()}
        total = sum(shares.values(), Fraction(0))
        found = {name: found[name] + (part * share / total if total else 0) for name, share in shares.items()}
        start += part
    return {name: float(share) for name, share in found.items()}


def _end(stage: MixtureStage) -> Fraction:
    return Fraction((stage.until_tokens or 0) * BYTES_PER_TOKEN)


def _cells(mixture: Mixture, source: str, stage: MixtureStage, windows: Mapping[str, int]) -> _Cells:
    one = mixture.by_label(source)
    own = len(one.by) if one is not None else 0
    tables = mixture.factors(source, stage)
    stated = one.stated() if one is not None else ()
    groups: dict[str, Fraction] = {}
    members: dict[str, dict[str, Fraction]] = {}
    for stream, (_, cell) in mixture.streams((source,)).items():
        factors = [table[group] for table, group in zip(tables, cell, strict=True)]
        name = "+".join(cell[:own])
        groups[name] = prod(factors[:own], start=Fraction(1)) * prod(
            (table[group] for table, group in zip(stated, cell, strict=False)), start=Fraction(1)
        )
        members.setdefault(name, {})[stream] = prod(factors[own:], start=Fraction(1))
    return _Cells(one.rule() if one is not None else "proportional", groups, members, windows)
