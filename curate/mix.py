"""What each source gives to training: weights, token budget and caps to whole windows.

The unit is the token: with weights one half each, a source of long documents and one of short documents give the same
number of tokens. Training reads windows of C tokens, so every share is rounded to whole windows, by largest remainders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from curate.errors import StageError
from curate.groups import ByLabel, exact, parse_weight
from curate.stage import Settings
from curate.text.quantities import parse_count


def _epochs(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError(f"max_epochs is {value!r}; it must be a number above 0")
    return float(value)


def _weight_or_groups(value: object) -> object:
    return value if isinstance(value, Mapping | ByLabel) else parse_weight(value)


Epochs = Annotated[float, BeforeValidator(_epochs)]
TokenCount = Annotated[int, BeforeValidator(parse_count)]  # a count such as 1M: for every setting that counts tokens


_NOTICEABLE = Fraction(1, 100)  # of the mixture: a source that takes over more than this from others is warned about


class UpTo(Settings):
    """A budget that gives way: `tokens: {up_to: 1M}` takes less if the caps allow no more."""

    up_to: TokenCount


def _budget(value: object) -> object:
    return value if value == "up_to" or isinstance(value, Mapping | UpTo) else parse_count(value)


class Mixture(Settings):
    """The recipe's `mixture`.

    Attributes:
        weights: Share of the tokens by source, any positive sum; they are normalised, and the report states both. A source
            that is not named, or has weight 0, is never drawn. In place of a number, `ByLabel` divides a source: each group
            of labels, or of numbers, is a stream of its own, named `<source>/<group>`.
        tokens: The budget, such as 1M. `up_to` takes all that the caps allow, `{up_to: 1M}` at most that and less where
            the caps allow no more; a plain number that the caps do not allow stops the run.
        max_epochs: How often a source may be shown, for all sources or by source (`<source>/<group>` for a group, `*` for all
            others); a source without a cap repeats as often as its share needs, with a warning.
        window: Tokens per window; default the context of the training preset, else 2048.
    """

    weights: dict[str, Annotated[float | ByLabel, BeforeValidator(_weight_or_groups)]] = Field(min_length=1)
    tokens: Annotated[int | Literal["up_to"] | UpTo, BeforeValidator(_budget)]
    max_epochs: Epochs | dict[str, Epochs] | None = None
    window: int | None = Field(default=None, ge=1)

    @field_validator("weights")
    @classmethod
    def _some_weight(cls, weights: dict[str, float | ByLabel]) -> dict[str, float | ByLabel]:
        if not any(one.total() if isinstance(one, ByLabel) else one for one in weights.values()):
            names = ", ".join(f"{name}: 0" for name in weights)
            raise ValueError(f"all weights are 0 ({names}); at least one must be above 0")
        return weights

    @model_validator(mode="after")
    def _bounded(self) -> Mixture:
        if self.tokens == "up_to":
            uncapped = [name for name, weight in self.streams().items() if weight and self.cap(name) is None]
            if uncapped:
                raise ValueError(
                    f"tokens: up_to takes all that max_epochs allows, but there is no max_epochs for {', '.join(uncapped)}; "
                    "set it, or write tokens: {up_to: 1M}"
                )
        return self

    def cap(self, source: str) -> float | None:
        """Return the epochs that a source, or a group of one, may be shown, or None for any number."""
        if not isinstance(self.max_epochs, dict):
            return self.max_epochs
        for name in (source, source.partition("/")[0], "*"):
            if name in self.max_epochs:
                return self.max_epochs[name]
        return None

    def streams(self, windows: Mapping[str, int] | None = None) -> dict[str, Fraction]:
        """Return the weight of each stream, as exact as written: of a source, or of `<source>/<group>`.

        Args:
            windows: Windows of tokens in each stream; of use to `ByLabel.repeat` alone (see `ByLabel.weights`).
        """
        found: dict[str, Fraction] = {}
        for name, one in self.weights.items():
            if isinstance(one, ByLabel):
                inside = {group: (windows or {}).get(f"{name}/{group}", 0) for group in one.labels()}
                found |= {f"{name}/{group}": weight for group, weight in one.weights(inside).items()}
            else:
                found[name] = exact(one)
        return found

    def repeats(self) -> dict[str, float]:
        """Return how often documents are repeated, for each `<source>/<group>` of a table (see `ByLabel.repeat`)."""
        return {
            f"{name}/{group}": times
            for name, one in self.weights.items()
            if isinstance(one, ByLabel)
            for group, times in one.repeats().items()
        }

    def by_source(self) -> dict[str, float]:
        """Return the weight of each source, its groups together."""
        return {name: one.total() if isinstance(one, ByLabel) else one for name, one in self.weights.items()}


def plan_mixture(settings: Mixture, available_tokens: Mapping[str, int], *, window: int, seed: int) -> dict[str, Any]:
    """Return the content of `mixture.json`, which `curate.tokens.order.Plan.load` reads.

    1. Each source is asked for its weight's share of the budget. Where a table repeats documents, its groups are asked for
       shares of their source's in proportion to repetitions times windows, so that their epochs are as the table's numbers.
    2. A source gives at most its cap, and nothing if it has no whole window. What is short goes to the others in
       proportion to weight: first as far as it makes nobody repeat, then without regard to repeats, never over a cap.
    3. Shares are rounded to whole windows by largest remainders; ties go to the first name.

    Args:
        settings: The recipe's `mixture`.
        available_tokens: Tokens in the training split of each source, EOS included.
        window: Tokens per window, C.
        seed: Of the order of training.

    Returns:
        JSON values. `tokens` and `num_slots` are what is drawn in total, `tokens_asked` is the budget as the recipe has it,
        `shortfall_tokens` what capped and empty sources could not give of their shares and others gave instead. `cap_hit`:
        the source gives all that its cap allows, be it its own share or what it takes over from others.

    Raises:
        StageError: If the caps do not allow the budget (the largest feasible one is named), or no source has a window.
        KeyError: If a weighted source is missing from `available_tokens`.
    """
    # Imported here: a recipe is checked without numpy and pyarrow.
    from curate.tokens.order import BLOCK_SLOTS, num_windows

    names = sorted({*available_tokens, *settings.streams()})
    windows = {name: num_windows(available_tokens[name], window) for name in names}
    streams, repeats = settings.streams(windows), settings.repeats()
    weights = {name: streams.get(name, Fraction(0)) for name in names}
    drawable = [name for name, weight in weights.items() if weight and windows[name]]
    if not drawable:
        empty = ", ".join(name for name, weight in weights.items() if weight)
        problem = f"no source has a whole window of {window:,} tokens and the token behind it."
        remedy = "Loosen the filters, add inputs, or set a smaller mixture.window."
        raise StageError(empty, "mix", "", problem, remedy)
    caps = {name: _cap(settings.cap(name), windows[name]) for name in drawable}
    budget = _budget_in_windows(settings, caps, weights, window)

    total_weight = sum(weights.values())
    asked = {name: budget * weight / total_weight for name, weight in weights.items()}
    shares = _share(budget, asked, weights, windows, caps)
    drawn = dict.fromkeys(weights, 0) | _round(budget, shares)
    capped = [name for name, cap in caps.items() if cap is not None and drawn[name] == cap < asked[name]]
    gone = [name for name in weights if weights[name] and not windows[name]]
    noticeable = max(budget * _NOTICEABLE, Fraction(1))  # one window is rounding
    taking_over = [name for name in drawable if drawn[name] - asked[name] > noticeable]
    shortfall = sum(asked[name] - drawn[name] for name in (*capped, *gone))
    report = {
        name: {
            "weight_asked": float(weights[name]),
            "weight_normalised": float(weights[name] / total_weight),
            "tokens_available": available_tokens[name],
            "windows_available": windows[name],
            "tokens_drawn": drawn[name] * window,
            "windows_drawn": drawn[name],
            "epochs": drawn[name] / windows[name] if windows[name] else 0.0,
            "weight_realised": drawn[name] / budget,
            "cap_hit": caps.get(name) == drawn[name],
            **({"repeat": repeats[name]} if name in repeats else {}),
        }
        for name in weights
    }
    return {
        "unit": "token",
        "window": window,
        "seed": seed,
        "block": BLOCK_SLOTS,
        "tokens_asked": {"up_to": settings.tokens.up_to} if isinstance(settings.tokens, UpTo) else settings.tokens,
        "tokens": budget * window,
        "num_slots": budget,
        "shortfall_tokens": round(shortfall * window),
        "warnings": _warnings(settings, report, capped, gone, taking_over, window),
        "sources": report,
    }


def _cap(epochs: float | None, windows: int) -> int | None:
    return None if epochs is None else floor(exact(epochs) * windows)


def _budget_in_windows(
    settings: Mixture, caps: Mapping[str, int | None], weights: Mapping[str, Fraction], window: int
) -> int:
    limits = [cap for cap in caps.values() if cap is not None]
    feasible = sum(limits) if len(limits) == len(caps) else None
    if isinstance(settings.tokens, int):
        budget = settings.tokens // window
    elif isinstance(settings.tokens, UpTo):
        budget = settings.tokens.up_to // window
        budget = budget if feasible is None else min(budget, feasible)
    else:
        assert feasible is not None, "settings demand a cap for every weighted source"
        budget = feasible
    names = ", ".join(caps)
    if feasible is not None and budget > feasible:
        balanced = min(
            floor(cap * sum(weights.values()) / weights[name]) for name, cap in caps.items() if cap is not None
        )
        problem = (
            f"the budget of {settings.tokens:,} tokens needs {budget:,} windows, but max_epochs allows {feasible:,}. "
            f"The largest feasible budget is {feasible * window:,} tokens; with every weight as asked, {balanced * window:,}."
        )
        remedy = f"Set mixture.tokens to {feasible * window}, write tokens: {{up_to: {settings.tokens}}}, or raise max_epochs."
        raise StageError(names, "mix", "", problem, remedy)
    if budget < 1:
        problem = f"the budget is less than one window of {window:,} tokens."
        raise StageError(
            names, "mix", "", problem, "Raise mixture.tokens or max_epochs, or set a smaller mixture.window."
        )
    return budget


def _share(
    budget: int,
    asked: Mapping[str, Fraction],
    weights: Mapping[str, Fraction],
    windows: Mapping[str, int],
    caps: Mapping[str, int | None],
) -> dict[str, Fraction]:
    """Return each source's windows before rounding: `asked`, with what is short shared out; they add up to the budget."""
    fresh = {name: max(asked[name], Fraction(windows[name])) for name in caps}  # a shortfall makes nobody repeat yet
    limits: dict[str, Fraction | None] = {
        name: fresh[name] if cap is None else min(fresh[name], Fraction(cap)) for name, cap in caps.items()
    }
    shares = _fill(Fraction(budget), weights, limits)
    left = budget - sum(shares.values(), Fraction(0))
    if left:
        room = {name: None if cap is None else cap - shares[name] for name, cap in caps.items()}
        shares = {name: shares[name] + more for name, more in _fill(left, weights, room).items()}
    return shares


def _fill(
    amount: Fraction, weights: Mapping[str, Fraction], limits: Mapping[str, Fraction | None]
) -> dict[str, Fraction]:
    """Share `amount` in proportion to weight, nobody over its limit; less than `amount` if all limits are reached."""
    given: dict[str, Fraction] = dict.fromkeys(limits, Fraction(0))
    open_names = list(limits)
    while open_names:
        unit = amount / sum(weights[name] for name in open_names)
        full = [name for name in open_names if (limit := limits[name]) is not None and limit <= unit * weights[name]]
        if not full:
            return given | {name: unit * weights[name] for name in open_names}
        for name in full:
            limit = limits[name]
            assert limit is not None
            given[name] = limit
            amount -= limit
        open_names = [name for name in open_names if name not in full]
    return given


def _round(budget: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    """Round shares to whole windows that add up to the budget, by largest remainders; a cap, being whole, stays."""
    whole = {name: floor(share) for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (whole[name] - shares[name], name))
    for name in by_remainder[: budget - sum(whole.values())]:
        whole[name] += 1
    return whole


def _warnings(
    settings: Mixture,
    report: Mapping[str, Mapping[str, Any]],
    capped: Sequence[str],
    gone: Sequence[str],
    taking_over: Sequence[str],
    window: int,
) -> list[str]:
    warnings = []
    for name, entry in report.items():
        realised = f"{entry['weight_realised']:.4g} of the mixture where {entry['weight_normalised']:.4g} was asked"
        if name in gone:
            what = "is empty" if not entry["tokens_available"] else f"has no whole window of {window:,} tokens"
            warnings.append(
                f"Source '{name}' {what}; its share of {entry['weight_normalised']:.4g} goes to the others."
            )
        elif name in capped:
            warnings.append(
                f"Source '{name}' stops at its cap of {settings.cap(name):g} epochs: {entry['tokens_drawn']:,} tokens, "
                f"{realised}."
            )
        elif entry["weight_asked"] and not entry["windows_drawn"]:
            warnings.append(f"Source '{name}' gives nothing: its share is less than one window of {window:,} tokens.")
        elif entry.get("repeat") and entry["tokens_available"] and not entry["windows_available"]:
            what = f"{entry['tokens_available']:,} tokens are no whole window of {window:,}"
            warnings.append(f"Group '{name}' is never drawn: its {what}.")
        elif name not in settings.streams():
            warnings.append(f"Source '{name}' has no weight and is never drawn.")
        if name in taking_over:
            end = f", and is at its cap of {settings.cap(name):g} epochs" if entry["cap_hit"] else ""
            warnings.append(f"Source '{name}' gives {realised}, as others fall short{end}.")
        if settings.cap(name) is None and entry["epochs"] > 1:
            warnings.append(
                f"Source '{name}' is repeated: {entry['epochs']:.4g} epochs of {entry['tokens_available']:,} tokens. "
                "Set mixture.max_epochs to bound it."
            )
    return warnings
