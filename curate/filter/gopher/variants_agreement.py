"""How blocks of one kind differ in what they remove: the variants of a published rule, on texts of the user's choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from curate.filter.bounds import Filter
from curate.stage import Share, bound_for
from curate.words import with_words

if TYPE_CHECKING:
    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What each of several blocks removes.

    Attributes:
        names: Of the blocks.
        removed: Whether a block removes a text, shape (blocks, texts).
    """

    names: tuple[str, ...]
    removed: Bools

    def shares(self) -> dict[str, float]:
        """Return the share of the texts that each block removes; 0 of no texts."""
        return {
            name: float(row.mean()) if row.size else 0.0 for name, row in zip(self.names, self.removed, strict=True)
        }

    def matrix(self) -> Floats:
        """Return the agreement of each two blocks, shape (blocks, blocks).

        It is the share of the texts removed by one of the two that both remove; 1 where neither removes any.
        """
        flags = self.removed.astype(np.float64)
        both = flags @ flags.T
        one = flags.sum(1)[:, None] + flags.sum(1)[None, :] - both
        agreed: Floats = np.where(one > 0, both / np.maximum(one, 1.0), 1.0)
        return agreed

    def overall(self) -> tuple[int, int]:
        """Return how many texts all blocks remove, and how many at least one."""
        return int(self.removed.all(0).sum()), int(self.removed.any(0).sum())

    def of(self, texts: Bools) -> Agreement:
        """Return the agreement on some of the texts, shape (texts,)."""
        return Agreement(self.names, self.removed[:, texts])


def agreement(texts: Sequence[str], blocks: Mapping[str, Filter], rows: int = 256) -> Agreement:
    """Return what each block removes of `texts`; bounds by label take those for other labels ("*").

    Args:
        texts: Documents.
        blocks: By a name, such as `{"dclm": GopherRepetition(variant="dclm"), ...}`.
        rows: Texts measured at a time.

    Raises:
        ValueError: If a bound is a share of a corpus: it has no number before the corpus is measured.
    """
    removed = np.zeros((len(blocks), len(texts)), np.bool_)
    for first in range(0, len(texts), rows):
        batch = pa.record_batch({"text": pa.array(texts[first : first + rows], pa.large_string())})
        batch = with_words(batch, {column for block in blocks.values() for column in block.reads})
        for number, block in enumerate(blocks.values()):
            removed[number, first : first + rows] = _fires(block, block.apply(batch))
    return Agreement(tuple(blocks), removed)


def _fires(block: Filter, measured: pa.RecordBatch) -> Bools:
    fired = np.zeros(measured.num_rows, np.bool_)
    for rule in block.rules("block"):
        values = (
            measured[rule.column].cast(pa.float64()).to_numpy(zero_copy_only=False)
        )  # null: NaN, which fires nothing
        low, high = bound_for(rule.at_least, None), bound_for(rule.at_most, None)
        if isinstance(low, Share) or isinstance(high, Share):
            raise ValueError(
                f"the bound of {rule.column} is a share of a corpus; write a number to compare blocks on texts"
            )
        if low is not None:
            fired |= values < low
        if high is not None:
            fired |= values > high
    return fired
