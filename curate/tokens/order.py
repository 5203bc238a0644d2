"""The order of training: which window of which source stands in slot g. Pure functions, nothing is stored.

Training reads slots 0, 1, 2, ...; a slot holds one window of C + 1 consecutive tokens of one source's arranged stream
(C inputs, and the same shifted by one as targets). The map from slot to window has two independent halves:

1. Slot to (source, k): the slot shows draw k of the source. Slots come in blocks of 1024. How many draws of a source
   precede each block is a rounding of its share that is off by less than one draw at every block boundary (see
   `BlockCounts`); inside a block, the slots are put in an order keyed by (seed, block), the sources take contiguous
   ranges of it in order of their names, and a source's draws are numbered along it. Two recipes that differ in weights
   only thus keep most slots on the same source. Numbering along the keyed order, not by slot, spreads the windows of a
   long document over the block: in slot order a batch is one book after another, and small models then stall at the
   level of word frequencies (validation loss 6.3 instead of 5.4 nats on the same 369,000 tokens).
2. (source, k) to window: in the first epoch draw k is window k; in epoch e it is a permutation of the windows keyed by
   (seed, source, e). No weight enters, so draw k of a source is the same window in every recipe.

The run may have stages with shares of their own: each is a run of slots with exact counts, a source's draws go on from
stage to stage, and a block that two stages share is cut in two. With `order: input` nothing is drawn: the sources of a
block alternate evenly, their draws are numbered by slot, and every epoch shows the windows in order.

A batch therefore depends on (seed, step) and nothing else: any step can be computed alone, on any number of machines.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from curate.errors import InputError
from curate.tokens.block_counts import BlockCounts

BLOCK_SLOTS = 1024
_FEISTEL_ROUNDS = 8  # Luby and Rackoff (1988) need 4; small domains (a handful of windows) mix better with more
_CACHED_PARTS = 8  # a batch touches one or two

Order = Literal["shuffled", "input"]
Ints = npt.NDArray[np.int64]


def num_windows(num_tokens: int, window: int) -> int:
    """Return how many whole windows of `window` tokens a stream has; each also needs the token after it, as last target."""
    if window < 1:
        raise ValueError(f"window is {window}; it must be at least 1 token")
    return max(0, (num_tokens - 1) // window)


@dataclass(frozen=True, slots=True)
class SourceDraws:
    """What the mixture takes from one source.

    Attributes:
        name: Of the source.
        windows_available: Whole windows in its training stream.
        windows_drawn: Slots that show this source; more than available means further epochs.
    """

    name: str
    windows_available: int
    windows_drawn: int

    def __post_init__(self) -> None:
        if self.windows_available < 0 or self.windows_drawn < 0:
            raise ValueError(f"source '{self.name}': {self.windows_drawn} draws from {self.windows_available} windows")
        if self.windows_drawn and not self.windows_available:
            raise ValueError(f"source '{self.name}': {self.windows_drawn} draws, but it has no window")


@dataclass(frozen=True)
class Plan:
    """The order of training of one mixture.

    Attributes:
        window: Tokens per window, C.
        seed: Of the mixture; another seed gives another order of slots and of later epochs.
        sources: In order of their names.
        block: Slots per block.
        stages: Draws of each source in each stage, in the order of training; none given: one stage.
        order: "shuffled", or "input": as the inputs stand, in every epoch, whatever the seed.
    """

    window: int
    seed: int
    sources: tuple[SourceDraws, ...]
    block: int = BLOCK_SLOTS
    stages: tuple[tuple[int, ...], ...] = ()
    order: Order = "shuffled"

    def __post_init__(self) -> None:
        if self.window < 1 or self.block < 1:
            raise ValueError(f"window is {self.window} and block {self.block}; both must be at least 1")
        names = [source.name for source in self.sources]
        if names != sorted(set(names)):
            raise ValueError(f"sources must be distinct and in order of their names, got {', '.join(names)}")
        if self.order not in get_args(Order):
            raise ValueError(f"order must be one of {', '.join(get_args(Order))}, is {self.order!r}")
        totals = tuple(source.windows_drawn for source in self.sources)
        object.__setattr__(self, "stages", tuple(map(tuple, self.stages)) or (totals,))
        if any(len(stage) != len(names) or min(stage, default=0) < 0 for stage in self.stages):
            raise ValueError(f"each stage must have a number of draws for each of {len(names)} sources")
        for name, total, parts in zip(names, totals, zip(*self.stages, strict=True), strict=True):
            if sum(parts) != total:
                raise ValueError(f"source '{name}': {total} draws, its stages have {sum(parts)}")

    @classmethod
    def load(cls, mixture: str | os.PathLike[str] | Mapping[str, Any]) -> Self:
        """Read the plan from `mixture.json`, a path or its parsed content.

        Raises:
            InputError: If it is not there, or no mixture.
        """
        place = "mixture.json" if isinstance(mixture, Mapping) else str(mixture)
        remedy = "Run the recipe up to its mix phase again."
        try:
            content = mixture if isinstance(mixture, Mapping) else json.loads(Path(mixture).read_bytes())
            entries = sorted(content["sources"].items())
            sources = tuple(
                SourceDraws(name, int(entry["windows_available"]), int(entry["windows_drawn"]))
                for name, entry in entries
            )
            order = content.get("order", "shuffled")
            stages = tuple(
                _stage(number, stage, order, entries) for number, stage in enumerate(content.get("stages", ()))
            )
            plan = cls(int(content["window"]), int(content["seed"]), sources, int(content["block"]), stages, order)
            stated = int(content["num_slots"])
        except OSError as error:
            raise InputError(place, f"cannot be read ({error.strerror}).", remedy) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(place, f"is no mixture ({error!r}).", remedy) from error
        if stated != plan.num_slots:
            raise InputError(place, f"num_slots is {stated}, its sources draw {plan.num_slots}.", remedy)
        return plan

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the sources; the arrays of `slots` index into it."""
        return tuple(source.name for source in self.sources)

    @cached_property
    def num_slots(self) -> int:
        """Slots of the whole training run."""
        return self.stage_starts[-1]

    @cached_property
    def num_blocks(self) -> int:
        """Blocks of the whole run; the last may be shorter."""
        return -(-self.num_slots // self.block)

    @cached_property
    def stage_starts(self) -> tuple[int, ...]:
        """First slot of each stage, and behind the last one the end of the run."""
        return tuple(accumulate(map(sum, self.stages), initial=0))

    def stage_of(self, g: int) -> int:
        """Return the stage of a slot, counted from 0.

        Raises:
            IndexError: If g is not in 0 to num_slots - 1.
        """
        if not 0 <= g < self.num_slots:
            raise IndexError(f"slot {g} is outside the plan's {self.num_slots} slots")
        return bisect_right(self.stage_starts, g) - 1

    def slot(self, g: int) -> tuple[str, int]:
        """Return the source and the window that training slot `g` shows.

        Raises:
            IndexError: If g is not in 0 to num_slots - 1.
        """
        source, window = self.slots(np.array([g], np.int64))
        return self.names[int(source[0])], int(window[0])

    def slots(self, g: npt.ArrayLike) -> tuple[Ints, Ints]:
        """Return the sources and windows of many slots.

        Args:
            g: Slots, shape (N,), in any order.

        Returns:
            Index into `names`, shape (N,), and window, shape (N,).

        Raises:
            IndexError: If a slot is not in 0 to num_slots - 1.
        """
        sources, draws = self.draws(g)
        windows = np.empty_like(draws)
        for index, at in _runs_of(sources):
            windows[at] = self._windows_of_draws(self.sources[index], draws[at])
        return sources, windows

    def draws(self, g: npt.ArrayLike) -> tuple[Ints, Ints]:
        """Return the sources (index into `names`) and draws k of many slots; arguments and errors as for `slots`."""
        slots = np.asarray(g, np.int64)
        if slots.size and not (slots.min() >= 0 and slots.max() < self.num_slots):
            outside = slots[(slots < 0) | (slots >= self.num_slots)]
            raise IndexError(f"slot {int(outside[0])} is outside the plan's {self.num_slots} slots")
        sources, draws = np.empty_like(slots), np.empty_like(slots)
        stages = np.searchsorted(self.stage_starts, slots, side="right") - 1
        # Where a part ends, a block does, or a stage, or both: the sum of their numbers tells parts apart.
        for _, at in _runs_of(slots // self.block + stages):
            part = self._part(int(slots[at[0]]) // self.block, int(stages[at[0]]))
            within = slots[at] - part.start
            sources[at], draws[at] = part.sources[within], part.draws[within]
        return sources, draws

    def draw(self, source: str, k: int) -> int:
        """Return the window that draw `k` of a source shows; the same in every recipe with this seed and this source.

        Raises:
            KeyError: If the plan has no such source.
            IndexError: If the source has no window, or k is negative.
        """
        entry = self.sources[self._index(source)]
        if k < 0 or not entry.windows_available:
            raise IndexError(f"source '{source}' has {entry.windows_available} windows; there is no draw {k}")
        return int(self._windows_of_draws(entry, np.array([k], np.int64))[0])

    def counts_before(self, block: int) -> tuple[int, ...]:
        """Return how many draws of each source precede block `block` (0 to num_blocks), in order of `names`."""
        slot = min(block * self.block, self.num_slots)
        return self._counts_at(max(0, bisect_right(self.stage_starts[:-1], slot) - 1), slot)

    def slot_of_draw(self, source: str, k: int) -> int:
        """Return the slot that shows draw `k` of a source.

        Raises:
            KeyError: If the plan has no such source.
            IndexError: If the source is not drawn that often.
        """
        index = self._index(source)
        drawn = self.sources[index].windows_drawn
        if not 0 <= k < drawn:
            raise IndexError(f"source '{source}' is drawn {drawn} times; there is no draw {k}")
        stage = bisect_right(self._draws_before, k, key=lambda before: before[index]) - 1
        start, stop = self.stage_starts[stage : stage + 2]
        blocks = range(start // self.block, -(-stop // self.block))
        at = bisect_right(blocks, k, key=lambda b: self._counts_at(stage, max(start, b * self.block))[index]) - 1
        part = self._part(blocks[at], stage)
        return part.start + int(np.flatnonzero((part.sources == index) & (part.draws == k))[0])

    def slots_of_window(self, source: str, window: int) -> list[int]:
        """Return every slot that shows this window of a source, first epoch first: the inverse of `slot`.

        Raises:
            KeyError: If the plan has no such source.
            IndexError: If the source has no such window.
        """
        entry = self.sources[self._index(source)]
        available = entry.windows_available
        if not 0 <= window < available:
            raise IndexError(f"source '{source}' has {available} windows; there is no window {window}")
        epochs = -(-entry.windows_drawn // available)
        draws = (epoch * available + self._draw_in_epoch(entry, epoch, window) for epoch in range(epochs))
        return [self.slot_of_draw(source, k) for k in draws if k < entry.windows_drawn]

    def token_span(self, window: int) -> tuple[int, int]:
        """Return the tokens [start, stop) of a window in its source's stream: C inputs and, after them, the last target."""
        return window * self.window, (window + 1) * self.window + 1

    def windows_of_tokens(self, source: str, start: int, stop: int) -> range:
        """Return the windows that show tokens [start, stop) of a source as inputs; what follows the last window is in none."""
        available = self.sources[self._index(source)].windows_available
        if start >= stop:
            return range(0)
        return range(min(start // self.window, available), min((stop - 1) // self.window + 1, available))

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise KeyError(f"the mixture has no source '{name}'; it has {', '.join(self.names)}")
        return self.names.index(name)

    def _windows_of_draws(self, source: SourceDraws, k: Ints) -> Ints:
        epochs, windows = np.divmod(k, source.windows_available)
        if self.order == "shuffled":
            for epoch, at in _runs_of(epochs):
                if epoch:  # the first epoch reads the arranged stream in order
                    windows[at] = self._permutation(source, epoch).forward(windows[at])
        return windows

    def _draw_in_epoch(self, source: SourceDraws, epoch: int, window: int) -> int:
        return window if epoch == 0 or self.order == "input" else self._permutation(source, epoch).inverse(window)

    def _permutation(self, source: SourceDraws, epoch: int) -> _Permutation:
        return _Permutation(_key("epoch", self.seed, source.name, epoch), source.windows_available)

    @cached_property
    def _draws_before(self) -> tuple[tuple[int, ...], ...]:
        """Draws of each source before each stage."""
        before = [tuple(0 for _ in self.sources)]
        for stage in self.stages[:-1]:
            before.append(tuple(map(sum, zip(before[-1], stage, strict=True))))
        return tuple(before)

    @cached_property
    def _counts(self) -> dict[int, BlockCounts]:
        return {}

    def _counts_at(self, stage: int, slot: int) -> tuple[int, ...]:
        """Return how many draws of each source precede a slot of a stage, or its end: a block boundary, or one of stages."""
        start = self.stage_starts[stage]
        if stage not in self._counts:
            self._counts[stage] = BlockCounts(self.stages[stage], self.block, start % self.block)
        within = self._counts[stage].before(slot - start)
        return tuple(map(sum, zip(self._draws_before[stage], within, strict=True)))

    @cached_property
    def _parts(self) -> dict[tuple[int, int], _Part]:
        return {}

    def _part(self, block: int, stage: int) -> _Part:
        """Return the slots of a block that lie in a stage."""
        known = self._parts.get((block, stage))
        if known is not None:
            return known
        start = max(block * self.block, self.stage_starts[stage])
        stop = min((block + 1) * self.block, self.stage_starts[stage + 1])
        before, after = self._counts_at(stage, start), self._counts_at(stage, stop)
        counts = np.array(after, np.int64) - np.array(before, np.int64)
        if self.order == "input":
            order = _evenly(counts)
            rank = np.arange(stop - start)
        else:
            within = np.arange(start - block * self.block, stop - block * self.block, dtype=np.uint64)
            order = np.argsort(_mix(within, _key("block", self.seed, block)), kind="stable")
            rank = np.empty(stop - start, np.int64)
            rank[order] = np.arange(stop - start)
        sources = np.empty(stop - start, np.int64)
        sources[order] = np.repeat(np.arange(len(self.sources), dtype=np.int64), counts)
        draws = np.empty(stop - start, np.int64)
        for index, slots in _runs_of(sources):
            first, last = before[index], after[index]
            epoch = self.sources[index].windows_available
            while first < last:  # an epoch ends before the next begins, also inside a block
                end = min(last, (first // epoch + 1) * epoch)
                part, slots = slots[: end - first], slots[end - first :]
                draws[part[np.argsort(rank[part])]] = np.arange(first, end, dtype=np.int64)
                first = end
        while len(self._parts) >= _CACHED_PARTS:
            self._parts.pop(next(iter(self._parts)))
        self._parts[block, stage] = _Part(start, sources, draws)
        return self._parts[block, stage]

    def __getstate__(self) -> dict[str, Any]:
        # The cached tables are made again where the plan arrives.
        return {name: getattr(self, name) for name in ("window", "seed", "sources", "block", "stages", "order")}


@dataclass(frozen=True, slots=True)
class _Part:
    """The slots of a block that lie in one stage: source and draw of each, from slot `start` on."""

    start: int
    sources: Ints
    draws: Ints


def _stage(
    number: int, stage: Mapping[str, Any], order: str, entries: Sequence[tuple[str, Mapping[str, Any]]]
) -> tuple[int, ...]:
    """Return the draws of each source in one entry of the mixture's `stages`."""
    if stage.get("order", order) != order:
        raise ValueError(f"stage {number + 1}: its order is {stage['order']}, that of the mixture is {order}")
    if strange := sorted({*stage["sources"]} - {name for name, _ in entries}):
        raise ValueError(f"stage {number + 1} draws from {strange[0]!r}, which is no source of the mixture")
    draws = tuple(int(stage["sources"].get(name, {"windows_drawn": 0})["windows_drawn"]) for name, _ in entries)
    if sum(draws) != int(stage["num_slots"]):
        raise ValueError(f"stage {number + 1}: num_slots is {stage['num_slots']}, its sources draw {sum(draws)}")
    return draws


def _runs_of(values: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each distinct value and where it stands, in order."""
    if not values.size:
        return
    first = int(values[0])
    if (values == first).all():  # one slot, or the slots of one block: the common case
        yield first, np.arange(values.size)
        return
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    cuts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), values.size]
    for start, stop in pairwise(cuts):
        yield int(ordered[start]), order[start:stop]


def _evenly(counts: Ints) -> Ints:
    """Return for each draw, those of the first source first, the slot that spreads every source evenly.

    Draw j of c stands where (j + 1/2) / c of the slots have passed, ties in order of the sources. The quotients of equal
    fractions are equal, and those of others differ by more than a rounding: both terms are below twice the block.
    """
    each = np.repeat(counts, counts)
    j = np.arange(each.size) - np.repeat(np.cumsum(counts) - counts, counts)
    slots = np.empty(each.size, np.int64)
    slots[np.argsort((2 * j + 1) / (2 * each), kind="stable")] = np.arange(each.size)
    return slots


class _Permutation:
    """A keyed permutation of 0 to size - 1 without a table: a Feistel network on the next power of four, walked in cycles.

    A value that leaves the range is encrypted again until it is back (Black and Rogaway 2002, "cycle walking"); as the
    network is a permutation of at most 4 x size values, that takes fewer than four steps on average.
    """

    def __init__(self, key: int, size: int) -> None:
        self._size = size
        self._half = np.uint64(max(1, -(-(size - 1).bit_length() // 2)))
        self._mask = np.uint64((1 << int(self._half)) - 1)
        self._keys = [_key("round", key, number) for number in range(_FEISTEL_ROUNDS)]

    def forward(self, values: Ints) -> Ints:
        """Return the image of each value, same shape."""
        return self._walk(values, self._keys, inverse=False)

    def inverse(self, value: int) -> int:
        """Return the value whose image is `value`."""
        return int(self._walk(np.array([value], np.int64), self._keys[::-1], inverse=True)[0])

    def _walk(self, values: Ints, keys: list[int], *, inverse: bool) -> Ints:
        out = self._encrypt(values.astype(np.uint64), keys, inverse=inverse)
        outside = np.flatnonzero(out >= self._size)
        while outside.size:
            out[outside] = self._encrypt(out[outside], keys, inverse=inverse)
            outside = outside[out[outside] >= self._size]
        return out.astype(np.int64)

    def _encrypt(self, values: npt.NDArray[np.uint64], keys: list[int], *, inverse: bool) -> npt.NDArray[np.uint64]:
        left, right = values >> self._half, values & self._mask
        for key in keys:
            if inverse:
                left, right = right ^ (_mix(left, key) & self._mask), left
            else:
                left, right = right, left ^ (_mix(right, key) & self._mask)
        return (left << self._half) | right


def _key(*parts: object) -> int:
    """Return a 64-bit key for a purpose and its numbers: the same on every machine and in every version."""
    data = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, person=b"curate.order").digest(), "little")


def _mix(values: npt.NDArray[np.uint64], key: int) -> npt.NDArray[np.uint64]:
    """Return a keyed 64-bit hash of each value: splitmix64 (Steele, Lea and Flood 2014) started at the key."""
    z = values * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)  # wraps modulo 2**64, as it should
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
