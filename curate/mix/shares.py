"""Shares to whole windows: what each stream gives where caps and windows bound it, and others make up for it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import floor


def share(
    budget: int,
    asked: Mapping[str, Fraction],
    weights: Mapping[str, Fraction],
    fresh: Mapping[str, int],
    rooms: Mapping[str, int | None],
) -> dict[str, Fraction]:
    """Return each stream's windows before rounding: `asked`, with what is short shared out; they add up to the budget.

    What is short goes to the others in proportion to weight: first as far as it makes nobody repeat, then without regard to
    repeats, never over a room.

    Args:
        budget: Windows in all.
        asked: Windows that each weight asks for.
        weights: Of the streams.
        fresh: Windows of each stream that were never shown.
        rooms: Windows that each stream that may be drawn can give; None: any number. Together at least the budget.
    """
    mild = {name: max(asked[name], Fraction(fresh[name])) for name in rooms}  # a shortfall makes nobody repeat yet
    limits = {name: mild[name] if room is None else min(mild[name], Fraction(room)) for name, room in rooms.items()}
    shares = fill(Fraction(budget), weights, limits)
    left = budget - sum(shares.values(), Fraction(0))
    if left:
        further = {name: None if room is None else room - shares[name] for name, room in rooms.items()}
        shares = {name: shares[name] + more for name, more in fill(left, weights, further).items()}
    return shares


def fill(
    amount: Fraction, weights: Mapping[str, Fraction], limits: Mapping[str, Fraction | None]
) -> dict[str, Fraction]:
    """Share `amount` in proportion to weight, nobody over its limit; less than `amount` if all limits are reached.

    As water fills vessels: those that are full first, by limit over weight, are taken out of it one after another.
    """
    levels = sorted((limit / weights[name], name) for name, limit in limits.items() if limit is not None)
    weight = sum((weights[name] for name in limits), Fraction(0))
    given: dict[str, Fraction] = {}
    for level, name in levels:
        if amount < level * weight:
            break
        given[name] = level * weights[name]
        amount -= given[name]
        weight -= weights[name]
    return {name: given[name] if name in given else amount * weights[name] / weight for name in limits}


def round_to_windows(budget: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    """Round shares to whole windows that add up to the budget, by largest remainders; ties go to the first name.

    A share that is whole, as every cap is, stays.
    """
    whole = {name: floor(share) for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (whole[name] - shares[name], name))
    for name in by_remainder[: budget - sum(whole.values())]:
        whole[name] += 1
    return whole
