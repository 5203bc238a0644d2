"""What tuning minimises: the loss of a batch, and what is measured on examples that were set aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

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

    def tensors(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Return inputs and targets on the model's device, each of shape (B, T)."""
        inputs, targets = fill_up(rows, filling=self.filling, ignored=IGNORED)
        device = self.head_weight.device
        return torch.from_numpy(inputs).to(device), torch.from_numpy(targets).to(device)


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
