"""How many draws of each source precede a block of training slots: rounded shares that never take a draw back."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

TABLE_DRAWS = 1 << 15  # draws of small sources up to which they are scheduled one by one: 0.1 s


class BlockCounts:
    """How many draws of each source precede slot n, for block boundaries n.

    With d draws of a source among N slots, its quota at n is q = d n / N. The counts are whole, never fall, add up to n,
    and each is q rounded down or up, so that no source is ever a full draw from its share.

    Sources with at least one draw per block on average are easy: rounding down at one boundary is never less than
    rounding up at the one before, so any choice of who is rounded up will do, and the largest remainders are (Hamilton's
    method). Smaller sources need care, as largest remainders take draws back (the Alabama paradox). Together they get
    floor(their quota); a draw of a small source must come after its quota exceeds the draws before it and not after
    its quota reaches the next whole number, which is a unit job with a release and a deadline; serving the earliest
    deadline first meets every deadline whenever that is possible (Jackson 1955), and here it is, since the quotas are a
    fractional schedule (the argument of Pfair scheduling: Baruah et al. 1996). Only where two or more sources are that
    small is there a table, one entry for each of their draws.

    No table is made for more than `TABLE_DRAWS` draws of small sources (see `_Halves`); their counts are then less than
    two draws from their share.
    """

    def __init__(self, draws: Sequence[int], block: int, offset: int = 0) -> None:
        """Take the draws of each source.

        Args:
            draws: By source.
            block: Slots per block.
            offset: Slots of the first block that precede slot 0; boundaries are at block - offset, 2 block - offset, ...
        """
        self._draws = tuple(draws)
        self._slots = sum(draws)
        self._block = block
        self._offset = offset
        small = [index for index, d in enumerate(draws) if 0 < d * block < self._slots]
        self._large = [index for index, d in enumerate(draws) if d * block >= self._slots > 0]
        self._small_draws = sum(draws[index] for index in small)
        self._small: _Schedule | _Halves = (
            _Schedule(self._schedule(small))
            if self._small_draws <= TABLE_DRAWS
            else _Halves({index: draws[index] for index in small})
        )

    def before(self, n: int) -> tuple[int, ...]:
        """Return the counts at slot n, a block boundary or the end."""
        counts = [0] * len(self._draws)
        if n == 0:
            return tuple(counts)
        left = n
        if self._small_draws:
            small = self._small_draws * n // self._slots
            left -= small
            self._small.share(small, counts)
        remainders = []
        for index in self._large:
            counts[index], remainder = divmod(self._draws[index] * n, self._slots)
            left -= counts[index]
            remainders.append((-remainder, index))
        for _, index in sorted(remainders)[:left]:
            counts[index] += 1
        return tuple(counts)

    def _schedule(self, small: list[int]) -> dict[int, Ints]:
        """Return, for each small source, the positions of its draws among all draws of small sources."""
        taken: dict[int, list[int]] = {index: [] for index in small}
        waiting = [(0, index) for index in small]  # (block of release, source): each source's next draw
        heapq.heapify(waiting)
        ready: list[tuple[int, int]] = []  # (block of deadline, source)
        for position in range(self._small_draws):
            # The block at whose end the small sources' common quota reaches position + 1.
            now = self._block_reaching(self._small_draws, position + 1)
            while waiting and waiting[0][0] <= now:
                _, index = heapq.heappop(waiting)
                heapq.heappush(ready, (self._block_reaching(self._draws[index], len(taken[index]) + 1), index))
            deadline, index = heapq.heappop(ready)
            assert deadline >= now, "a small source is late: the quotas are no schedule"
            taken[index].append(position)
            if len(taken[index]) < self._draws[index]:
                heapq.heappush(waiting, (self._block_exceeding(self._draws[index], len(taken[index])), index))
        return {index: np.array(positions, np.int64) for index, positions in taken.items()}

    def _block_reaching(self, draws: int, count: int) -> int:
        """Return the first block at whose end the quota is at least `count`."""
        return -(-(-(-count * self._slots // draws) + self._offset) // self._block) - 1

    def _block_exceeding(self, draws: int, count: int) -> int:
        """Return the first block at whose end the quota is more than `count`."""
        return (count * self._slots // draws + self._offset) // self._block


class _Schedule:
    """Whose each draw of the small sources is, by a table."""

    def __init__(self, positions: dict[int, Ints]) -> None:
        self._positions = positions

    def share(self, count: int, counts: list[int]) -> None:
        """Write how many of the first `count` draws of small sources are whose."""
        for index, positions in self._positions.items():
            counts[index] = int(np.searchsorted(positions, count))


class _Halves:
    """Whose the first draws of the small sources are, without a table: a binary tree of groups of sources.

    A group of two halves with a and b draws gives the left half round(c a / (a + b)) of its first c draws and the right
    half the rest; both grow by 0 or 1 when c grows by 1, so none falls. A half is at most 1/2 further from its share than
    its share of what the group is off; the tree is Huffman's (the two smallest groups are joined first), in which a
    group above the lowest is at most 2/3 of the group above it, as its other half is no smaller than either of its own
    halves. So a source is off by less than (1 + (1 + 2/3 + 4/9 + ...)) / 2 = 2 draws.
    """

    def __init__(self, draws: dict[int, int]) -> None:
        heap = [(count, number, index) for number, (index, count) in enumerate(draws.items())]
        heapq.heapify(heap)
        # (group, left half, draws of the left half, right half, draws of the group); groups are numbered -1, -2, ...
        self._groups: list[tuple[int, int, int, int, int]] = []
        while len(heap) > 1:
            left, _, a = heapq.heappop(heap)
            right, _, b = heapq.heappop(heap)
            group = -1 - len(self._groups)
            self._groups.append((group, a, left, b, left + right))
            heapq.heappush(heap, (left + right, len(draws) - group, group))
        self._root = heap[0][2]

    def share(self, count: int, counts: list[int]) -> None:
        """Write how many of the first `count` draws of small sources are whose."""
        given = {self._root: count}
        for group, left, draws, right, total in reversed(self._groups):
            whole = given[group]
            given[left] = (2 * whole * draws + total) // (2 * total)
            given[right] = whole - given[left]
        for index, number in given.items():
            if index >= 0:
                counts[index] = number
