"""What tuning minimises: the loss of a batch, and what is measured on examples that were set aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from train.loss import IGNORED
from train.tuning.batches import fill_up
from train.tuning.examples import Example, Row


@dataclass(frozen=True, slots=True)
class Scorer:
    """A model as an objective sees it.

    Attributes:
        hidden_of: Tokens (B, T) to hidden states (B, T, C).
        head_weight: The output matrix, shape (V, C).
        filling: Input behind the end of a row.
        autocast: The precision of the run.
    """

    hidden_of: Callable[[Tensor], Tensor]
    head_weight: Tensor
    filling: int
    autocast: torch.autocast

    def responses(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the targets are predicted from: only they get logits.

        Returns:
            Hidden states, shape (R, C); targets, shape (R,); the row of each, counted from 0, shape (R,).
        """
        inputs, targets = fill_up(rows, filling=self.filling, ignored=IGNORED)
        owners, columns = np.nonzero(targets != IGNORED)
        arrays = inputs, owners * inputs.shape[1] + columns, targets[owners, columns], owners
        device = self.head_weight.device
        tokens, places, wanted, owner = (torch.from_numpy(array).to(device) for array in arrays)
        with self.autocast:
            hidden = self.hidden_of(tokens)  # (B, T, C)
        return hidden.flatten(0, 1).index_select(0, places), wanted, owner


class Objective(Protocol):
    """A loss.

    Attributes:
        figures: Names of what `of_part` gives; the first is the loss.
    """

    figures: ClassVar[tuple[str, ...]]

    def of_part(self, scorer: Scorer, part: Sequence[Example], batch: Sequence[Example]) -> Tensor:
        """Return what a micro-batch adds to the figures of its batch, float64, shape (F,); the first one has a gradient."""

    def score(self, scorer: Scorer, examples: Sequence[Example], batch_size: int) -> Any:
        """Return the figures of examples that were set aside, as a dataclass."""
