"""What each source gives to training: weights, token budget and caps to whole windows, stage by stage.

The unit is the token: with weights one half each, a source of long documents and one of short documents give the same
number of tokens. Training reads windows of C tokens, so every share is rounded to whole windows, by largest remainders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

from curate.errors import StageError
from curate.groups import ByLabel
from curate.mix.rules import exact
from curate.mix.settings import Mixture, MixtureStage, UpTo
from curate.mix.shares import round_to_windows, share
from curate.mix.weights import stage_weights

_MOST_ALIKE = 12  # warnings of one kind that are told one by one; of more, so many:
_SHOWN_ALIKE = 3
_NOTICEABLE = Fraction(1, 100)  # of a stage: a source that takes over more than this from others is warned about


def plan_mixture(settings: Mixture, available_tokens: Mapping[str, int], *, window: int, seed: int) -> dict[str, Any]:
    """Return the content of `mixture.json`, which `curate.tokens.order.Plan.load` reads.

    For each stage, in order:
    1. Each stream is asked for its weight's share of the stage's budget (see `curate.mix.weights`).
    2. A stream gives at most what earlier stages left of its cap, and nothing if it has no whole window. What is short goes
       to the others in proportion to weight: first as far as it makes nobody repeat, then without regard to repeats, never
       over a cap.
    3. Shares are rounded to whole windows by largest remainders; ties go to the first name.

    Args:
        settings: The recipe's `mixture`.
        available_tokens: Tokens in the training split of each stream, EOS included: of every source, or of every cell of
            it if the mixture divides it (see `Mixture.streams`).
        window: Tokens per window, C.
        seed: Of the order of training.

    Returns:
        JSON values. `tokens` and `num_slots` are what is drawn in total, `tokens_asked` is the budget as the recipe has it,
        `shortfall_tokens` what capped and empty sources could not give of their shares and others gave instead. `sources` has
        the totals of every stream, `stages` the same stage by stage, `by_source` and `by_axis` sums over the cells of divided
        sources and over the groups of each column. `cap_hit`: the stream gives all that its cap allows, be it its own
        share or what it takes over from others. `repeat`: the product of the mixture's factors.

    Raises:
        StageError: If the caps do not allow the budget (the largest feasible one is named), or no source has a window.
        KeyError: If a weighted source is missing from `available_tokens`.
    """
    # Imported here: a recipe is checked without numpy and pyarrow.
    from curate.tokens.order import BLOCK_SLOTS, num_windows

    sources = sorted({*(name.partition("/")[0] for name in available_tokens), *settings.named()})
    cells = settings.streams(sources)
    names = sorted({*available_tokens, *cells})
    windows = {name: num_windows(available_tokens[name], window) for name in names}
    stages = _plan_stages(settings, windows, window)
    budget = sum(stage.budget for stage in stages)
    totals = _totals(settings, stages, available_tokens, windows, window)
    for name in cells:
        totals[name] |= _place(settings, *cells[name])
    return {
        "unit": "token",
        "window": window,
        "seed": seed,
        "block": BLOCK_SLOTS,
        "order": settings.order,
        "tokens_asked": {"up_to": settings.tokens.up_to} if isinstance(settings.tokens, UpTo) else settings.tokens,
        "tokens": budget * window,
        "num_slots": budget,
        "shortfall_tokens": round(sum(stage.shortfall for stage in stages) * window),
        "warnings": [
            *(
                text
                for stage in stages
                for text in _few(_stage_warnings(settings, stage, available_tokens, window, len(stages)))
            ),
            *_few(_warnings(settings, totals, stages[-1], window)),
            *_few(_forgotten_groups(settings, cells, available_tokens)),
            *_unmet_groups(settings, sources, totals),
        ],
        "sources": totals,
        "stages": [_stage_report(stage, settings.order, window) for stage in stages],
        "by_source": _sums(totals, lambda name, _: [name.partition("/")[0]]),
        "by_axis": _by_axis(totals),
    }


@dataclass(frozen=True, slots=True)
class _Planned:
    """What one stage draws, in windows.

    Attributes:
        number: From 1.
        budget: Windows in all.
        end: Slot after its last one.
        weights: Of every stream.
        asked: What each weight asks for.
        drawn: What each stream gives.
        before: What each stream has given in earlier stages.
        caps: Of the streams that may be drawn: what they may give in the whole of training; None for any number.
        empty: Streams of some weight without a whole window.
    """

    number: int
    budget: int
    end: int
    weights: Mapping[str, Fraction]
    asked: Mapping[str, Fraction]
    drawn: Mapping[str, int]
    before: Mapping[str, int]
    caps: Mapping[str, int | None]
    empty: Sequence[str]

    def at_cap(self, name: str) -> bool:
        """Return whether a stream has given all that its cap allows."""
        cap = self.caps.get(name)
        return cap is not None and self.before[name] + self.drawn[name] == cap

    @property
    def capped(self) -> list[str]:
        """Return the streams that give less than they are asked for, because of their cap."""
        return [name for name in self.caps if self.at_cap(name) and self.drawn[name] < self.asked[name]]

    @property
    def shortfall(self) -> Fraction:
        """Return the windows that capped and empty streams could not give of their shares."""
        return sum((self.asked[name] - self.drawn[name] for name in (*self.capped, *self.empty)), Fraction(0))


def _plan_stages(settings: Mixture, windows: Mapping[str, int], window: int) -> list[_Planned]:
    written = settings.stages or (MixtureStage(),)
    drawn = dict.fromkeys(windows, 0)
    planned: list[_Planned] = []
    for number, stage in enumerate(written, 1):
        start = planned[-1].end if planned else 0
        one = _plan_stage(settings, stage, number, len(written), start, windows, drawn, window)
        planned.append(one)
        drawn = {name: drawn[name] + one.drawn[name] for name in windows}
    return planned


def _plan_stage(
    settings: Mixture,
    stage: MixtureStage,
    number: int,
    of: int,
    start: int,
    windows: Mapping[str, int],
    before: Mapping[str, int],
    window: int,
) -> _Planned:
    caps = {name: _cap(settings.cap(name), windows[name]) for name in windows}
    rooms = {name: None if cap is None else cap - before[name] for name, cap in caps.items()}
    where = f"stage {number} of {of}: " if of > 1 else ""
    weights = _weights(settings, stage, windows, rooms, 1, where)  # who is drawn at all does not depend on the budget
    drawable = [name for name, weight in weights.items() if weight and windows[name]]
    if not drawable:
        wanted = ", ".join(name for name, weight in weights.items() if weight) or ", ".join(windows)
        problem = f"{where}no source has a whole window of {window:,} tokens and the token behind it."
        remedy = "Loosen the filters, add inputs, or set a smaller mixture.window."
        if any(windows.values()) and of > 1:
            problem = (
                f"{where}no source that it names has a whole window of {window:,} tokens that max_epochs still allows."
            )
            remedy = "Raise max_epochs, give other sources a weight, or let earlier stages draw less of them."
        raise StageError(wanted, "mix", "", problem, remedy)
    drawable_caps = {name: caps[name] for name in drawable}
    drawable_rooms = {name: rooms[name] for name in drawable}
    budget = _budget_in_windows(settings, stage, number, of, start, drawable_rooms, weights, window)
    weights = _weights(settings, stage, windows, rooms, budget, where)
    total = sum(weights.values(), Fraction(0))
    asked = {name: budget * weight / total for name, weight in weights.items()}
    fresh = {name: max(0, windows[name] - before[name]) for name in drawable}
    shares = share(budget, asked, weights, fresh, drawable_rooms)
    drawn = dict.fromkeys(weights, 0) | round_to_windows(budget, shares)
    empty = [name for name in weights if weights[name] and not windows[name]]
    return _Planned(number, budget, start + budget, weights, asked, drawn, before, drawable_caps, empty)


def _weights(
    settings: Mixture,
    stage: MixtureStage,
    windows: Mapping[str, int],
    rooms: Mapping[str, int | None],
    budget: int,
    where: str,
) -> dict[str, Fraction]:
    try:
        return stage_weights(settings, stage, windows, rooms, budget)
    except ValueError as error:
        remedy = "Set mixture.max_epochs, or {unimax: {max_epochs: 4}}."
        raise StageError(", ".join(windows), "mix", "", f"{where}{error}.", remedy) from error


def _cap(epochs: float | None, windows: int) -> int | None:
    return None if epochs is None else floor(exact(epochs) * windows)


def _budget_in_windows(
    settings: Mixture,
    stage: MixtureStage,
    number: int,
    of: int,
    start: int,
    rooms: Mapping[str, int | None],
    weights: Mapping[str, Fraction],
    window: int,
) -> int:
    """Return the windows of a stage that begins at slot `start`.

    Raises:
        StageError: If the caps do not allow them.
    """
    limits = [room for room in rooms.values() if room is not None]
    feasible = sum(limits) if len(limits) == len(rooms) else None
    names = ", ".join(rooms)
    where = f"stage {number} of {of}: " if of > 1 else ""
    gives_way, written = False, settings.tokens
    if number < of:
        assert stage.until_tokens is not None, "settings demand an end for every stage but the last"
        budget, tokens = stage.until_tokens // window - start, stage.until_tokens
    elif isinstance(written, UpTo):
        budget, tokens, gives_way = written.up_to // window - start, written.up_to, True
    elif isinstance(written, int):
        budget, tokens = written // window - start, written
    elif feasible is None:
        unbounded = ", ".join(name for name, room in rooms.items() if room is None)
        problem = f"{where}tokens: up_to takes all that max_epochs allows, but there is no max_epochs for {unbounded}."
        raise StageError(unbounded, "mix", "", problem, "Set mixture.max_epochs, or write tokens: {up_to: 1M}.")
    else:
        budget, tokens = feasible, 0
    if feasible is not None and budget > feasible and gives_way:
        budget = feasible
    if feasible is not None and budget > feasible:
        balanced = min(
            floor(room * sum(weights.values()) / weights[name]) for name, room in rooms.items() if room is not None
        )
        most, even = (start + feasible) * window, (start + balanced) * window
        if of == 1:
            problem = (
                f"the budget of {tokens:,} tokens needs {budget:,} windows, but max_epochs allows {feasible:,}. "
                f"The largest feasible budget is {most:,} tokens; with every weight as asked, {even:,}."
            )
        else:
            what = f"The largest feasible {'budget' if number == of else f'end of stage {number}'} is {most:,} tokens"
            problem = (
                f"{where}its tokens {start * window:,} to {tokens:,} need {budget:,} windows, but max_epochs and what earlier "
                f"stages drew leave {feasible:,}. {what}; with every weight as asked, {even:,}."
            )
        key = "mixture.tokens" if number == of else f"mixture.stages.{number - 1}.until_tokens"
        gentle = f", write tokens: {{up_to: {tokens}}}" if number == of else ""
        raise StageError(names, "mix", "", problem, f"Set {key} to {most}{gentle}, or raise max_epochs.")
    if budget < 1:
        problem = f"{where}the budget is less than one window of {window:,} tokens."
        raise StageError(
            names, "mix", "", problem, "Raise mixture.tokens or max_epochs, or set a smaller mixture.window."
        )
    return budget


# -- the report --------------------------------------------------------------------------------------------------------


def _totals(
    settings: Mixture, stages: Sequence[_Planned], available: Mapping[str, int], windows: Mapping[str, int], window: int
) -> dict[str, dict[str, Any]]:
    budget = sum(stage.budget for stage in stages)
    found: dict[str, dict[str, Any]] = {}
    for name in windows:
        asked = sum((stage.asked[name] for stage in stages), Fraction(0))
        drawn = sum(stage.drawn[name] for stage in stages)
        cap = _cap(settings.cap(name), windows[name])
        found[name] = {
            "weight_asked": float(stages[0].weights[name] if len(stages) == 1 else asked / budget),
            "weight_normalised": float(asked / budget),
            "tokens_available": available[name],
            "windows_available": windows[name],
            "tokens_asked": round(asked * window),
            "tokens_drawn": drawn * window,
            "windows_drawn": drawn,
            "tokens_repeated": max(0, drawn - windows[name]) * window,
            "epochs": drawn / windows[name] if windows[name] else 0.0,
            "weight_realised": drawn / budget,
            "cap_hit": any(name in stage.caps for stage in stages) and cap == drawn,
        }
    return found


def _place(settings: Mixture, source: str, groups: Sequence[str]) -> dict[str, Any]:
    """Return what a stream's entry says of its cell: its group by each column, and how often it is repeated."""
    division = settings.division(source)
    if division is None:
        return {}
    one = settings.by_label(source)
    tables = list(settings.factors(source, MixtureStage()))
    if one is not None and one.repeat is not None:
        (times,) = one.stated()
        tables[0] = {group: factor * times[group] for group, factor in tables[0].items()}
    place: dict[str, Any] = {"cell": {axis.by: group for axis, group in zip(division.axes, groups, strict=True)}}
    if (one is not None and one.repeat is not None) or any(
        factor != 1 for table in tables for factor in table.values()
    ):
        product = Fraction(1)
        for table, group in zip(tables, groups, strict=True):
            product *= table[group]
        place["repeat"] = float(product)
    return place


def _stage_report(stage: _Planned, order: str, window: int) -> dict[str, Any]:
    total = sum(stage.weights.values())
    return {
        "until_tokens": stage.end * window,
        "num_slots": stage.budget,
        "order": order,
        "shortfall_tokens": round(stage.shortfall * window),
        "sources": {
            name: {
                "weight_asked": float(weight),
                "weight_normalised": float(weight / total),
                "tokens_asked": round(stage.asked[name] * window),
                "tokens_drawn": stage.drawn[name] * window,
                "windows_drawn": stage.drawn[name],
                "weight_realised": stage.drawn[name] / stage.budget,
            }
            for name, weight in stage.weights.items()
        },
    }


def _sums(totals: Mapping[str, Mapping[str, Any]], names_of: Any) -> dict[str, dict[str, Any]]:
    """Return sums of the streams' numbers by a name that each has: what they have, are asked for and give."""
    found: dict[str, dict[str, Any]] = {}
    added = (
        "tokens_available",
        "windows_available",
        "tokens_asked",
        "tokens_drawn",
        "windows_drawn",
        "tokens_repeated",
    )
    for name, entry in totals.items():
        for key in names_of(name, entry):
            into = found.setdefault(key, dict.fromkeys((*added, "weight_normalised", "weight_realised"), 0))
            for column in into:
                into[column] += entry[column]
    for into in found.values():
        into["epochs"] = into["windows_drawn"] / into["windows_available"] if into["windows_available"] else 0.0
    return found


def _by_axis(totals: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    columns = dict.fromkeys(column for entry in totals.values() for column in entry.get("cell", ()))
    return {
        column: _sums(
            totals, lambda _, entry, column=column: [entry["cell"][column]] if column in entry.get("cell", ()) else []
        )
        for column in columns
    }


# -- warnings ----------------------------------------------------------------------------------------------------------


def _few(found: Sequence[tuple[str, str]]) -> list[str]:
    """Return warnings of (kind, text); of a kind that very many sources or cells give, the first and how many more."""
    counts = Counter(kind for kind, _ in found)
    told: Counter[str] = Counter()
    texts = []
    for kind, text in found:
        told[kind] += 1
        if counts[kind] <= _MOST_ALIKE or told[kind] <= _SHOWN_ALIKE:
            texts.append(text)
        elif told[kind] == _SHOWN_ALIKE + 1:
            texts.append(f"So {kind} {counts[kind] - _SHOWN_ALIKE} more; the numbers of each are in mixture.json.")
    return texts


def _stage_warnings(
    settings: Mixture, stage: _Planned, available: Mapping[str, int], window: int, of: int
) -> list[tuple[str, str]]:
    """Return what a stage asked for and did not get, and who gives more for it: kind and text."""
    before = f"Stage {stage.number}: " if of > 1 else ""
    total = sum(stage.weights.values())
    capped, noticeable = stage.capped, max(stage.budget * _NOTICEABLE, Fraction(1))  # one window is rounding
    what = f"stage {stage.number}" if of > 1 else "the mixture"
    found = []
    for name, weight in stage.weights.items():
        share_asked, drawn = float(weight / total), stage.drawn[name]
        realised = f"{drawn / stage.budget:.4g} of {what} where {share_asked:.4g} was asked"
        said = f"{before}Source '{name}'"
        if name in stage.empty:
            lacks = "is empty" if not available[name] else f"has no whole window of {window:,} tokens"
            found.append(("are empty", f"{said} {lacks}; its share of {share_asked:.4g} goes to the others."))
        elif name in capped:
            stops = f"stops at its cap of {settings.cap(name):g} epochs: {drawn * window:,} tokens"
            if stage.before[name] and not drawn:
                stops = f"gives nothing: earlier stages reached its cap of {settings.cap(name):g} epochs"
            found.append(("stop at their caps", f"{said} {stops}, {realised}."))
        elif weight and not drawn:
            text = f"{said} gives nothing: its share is less than one window of {window:,} tokens."
            found.append(("give nothing", text))
        if name in stage.caps and drawn - stage.asked[name] > noticeable:
            end = f", and is at its cap of {settings.cap(name):g} epochs" if stage.at_cap(name) else ""
            found.append(("give more", f"{said} gives {realised}, as others fall short{end}."))
    return found


def _warnings(
    settings: Mixture, totals: Mapping[str, Mapping[str, Any]], last: _Planned, window: int
) -> list[tuple[str, str]]:
    """Return who is repeated without a bound, and who is never drawn without being told so: kind and text."""
    found: dict[str, tuple[str, str]] = {}  # by text: of a divided source that no weight names, all cells say the same
    named = settings.named()
    for name, entry in totals.items():
        source = name.partition("/")[0]
        lacks = f"has no whole window of {window:,} tokens" if entry["tokens_available"] else "is empty"
        text, kind = "", "are never drawn"
        if entry.get("repeat") and entry["tokens_available"] and not entry["windows_available"]:
            what = f"{entry['tokens_available']:,} tokens are no whole window of {window:,}"
            text = f"Group '{name}' is never drawn: its {what}." if name not in last.empty else ""
        elif isinstance(settings.weights, Mapping) and source not in named:
            text = f"Source '{source}' has no weight and is never drawn."
        elif not isinstance(settings.weights, Mapping) and not entry["windows_available"] and "cell" not in entry:
            text = f"Source '{name}' {lacks} and is never drawn."
        if text:
            found[text] = kind, text
        if settings.cap(name) is None and entry["epochs"] > 1:
            text = (
                f"Source '{name}' is repeated: {entry['epochs']:.4g} epochs of {entry['tokens_available']:,} tokens. "
                "Set mixture.max_epochs to bound it."
            )
            found[text] = "are repeated", text
    return list(found.values())


def _forgotten_groups(
    settings: Mixture,
    cells: Mapping[str, tuple[str, tuple[str, ...]]],
    available: Mapping[str, int],
) -> list[tuple[str, str]]:
    """Return the groups with tokens that no stage draws, though the recipe does not say so: kind and text."""
    named, ones = (
        settings.named(),
        dict.fromkeys(cells, 1),
    )  # whatever there is: what has no window, or no room, has a weight
    written = settings.stages or (MixtureStage(),)
    weighted = {name for stage in written for name, one in stage_weights(settings, stage, ones, ones, 1).items() if one}
    return [
        (
            "have no weight and are never drawn",
            f"Group '{name}' has no weight and is never drawn: {available[name]:,} tokens.",
        )
        for name, (source, groups) in cells.items()
        if groups and available[name] and (source in named or not isinstance(settings.weights, Mapping))
        if name not in weighted and not _says_zero(settings, name, source, groups)
    ]


def _says_zero(settings: Mixture, name: str, source: str, groups: Sequence[str]) -> bool:
    """Return whether a recipe itself gives a group, or its source, a weight, a repetition or a factor of 0."""
    written: list[Any] = [settings.weights, *(stage.weights for stage in settings.stages)]
    for weights in written:
        for one in (name, source) if isinstance(weights, Mapping) else ():
            if one in weights and not (weights[one].total() if isinstance(weights[one], ByLabel) else weights[one]):
                return True
    by_label = settings.by_label(source)
    if by_label is not None:
        listed = by_label.listed()
        tables = by_label.stated()
        if any(
            group in names and not table[group]
            for group, names, table in zip(groups[: len(tables)], listed, tables, strict=True)
        ):
            return True
    return any(
        not table[group]
        for stage in settings.stages or (MixtureStage(),)
        for table, group in zip(settings.factors(source, stage), groups, strict=True)
    )


def _unmet_groups(settings: Mixture, sources: Sequence[str], totals: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the groups of axes that no document of a source is in: a label may be misspelt."""
    warnings = []
    for source in sources:
        division = settings.division(source)
        for axis in division.axes if division is not None else ():
            found = dict.fromkeys(axis.labels, 0)
            for name, entry in totals.items():
                if name.partition("/")[0] == source:
                    found[entry["cell"][axis.by]] += entry["tokens_available"]
            for group in axis.labels:
                labels = axis.words(group)  # that a step of numbers is empty is nothing to wonder at
                if labels and not found[group] and any(found.values()):
                    warnings.append(
                        f"Source '{source}' has no document of {axis.by} {', '.join(labels)} (group '{group}')."
                    )
    return warnings
