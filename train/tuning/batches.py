"""Examples to batches. A batch is a pure function of (examples, seed, step); a row is one sequence, filled up behind its end.

Every epoch has an order of its own and shows every example once; its last batch may be smaller. Which examples share a
batch does not depend on their lengths. Within a batch they are sorted by length, so that the micro-batches cut from it
are filled up little. Attention is causal and what fills up is no target: no example sees another, or the filling.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from train.data import IntArray
from train.tuning.examples import Example, Row


@dataclass(frozen=True, slots=True)
class Batches:
    """Examples in the order of training.

    Attributes:
        examples: All of them.
        size: Examples of a batch.
        seed: Of the order.
    """

    examples: Sequence[Example]
    size: int
    seed: int
    _orders: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def steps_per_epoch(self) -> int:
        """Return the batches of an epoch."""
        return -(-len(self.examples) // self.size)

    def at(self, step: int) -> list[Example]:
        """Return batch `step`, counted from 0, sorted by length."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        drawn = self._order(epoch)[batch * self.size : (batch + 1) * self.size]
        return sorted((self.examples[index] for index in drawn), key=lambda example: example.num_inputs)

    def _order(self, epoch: int) -> list[int]:
        if epoch not in self._orders:
            self._orders.clear()  # one epoch is all that is needed at a time
            keys = [self._key(epoch, index) for index in range(len(self.examples))]
            self._orders[epoch] = sorted(range(len(keys)), key=keys.__getitem__)
        return self._orders[epoch]

    def _key(self, epoch: int, index: int) -> bytes:
        data = f"{self.seed} {epoch} {index}".encode()
        return hashlib.blake2b(data, digest_size=16, person=b"train.batches").digest()


def parts(batch: Sequence[Example], size: int) -> Iterator[Sequence[Example]]:
    """Yield micro-batches of at most `size` examples."""
    for start in range(0, len(batch), size):
        yield batch[start : start + size]


def fill_up(rows: Sequence[Row], *, filling: int, ignored: int) -> tuple[IntArray, IntArray]:
    """Return inputs and targets, each of shape (rows, inputs of the longest).

    Args:
        rows: Sequences of different lengths.
        filling: Input behind the end of a row.
        ignored: Target that is not counted: all that is no response.
    """
    shape = len(rows), max(row.num_inputs for row in rows)
    inputs, targets = np.full(shape, filling, np.int64), np.full(shape, ignored, np.int64)
    for number, row in enumerate(rows):
        inputs[number, : row.num_inputs] = row.tokens[:-1]
        targets[number, : row.num_inputs][row.is_target] = row.tokens[1:][row.is_target]
    return inputs, targets
