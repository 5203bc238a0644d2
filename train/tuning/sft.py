"""Supervised fine-tuning: the loss of the responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from train.evaluate import Score, score
from train.loss import summed_nats
from train.tuning.batches import parts
from train.tuning.examples import Example
from train.tuning.objective import Scorer


class Sft:
    """The mean loss of all response tokens of a batch, end marks included.

    The mean is over tokens, not over examples: a long response counts as much as it has tokens, whatever micro-batch it
    stands in.
    """

    figures: ClassVar[tuple[str, ...]] = ("loss",)

    def of_part(self, scorer: Scorer, part: Sequence[Example], batch: Sequence[Example]) -> Tensor:
        """Return the part's share of the batch's loss, shape (1,)."""
        return self._nats(scorer, part)[None] / _num_targets(batch)

    @torch.no_grad()
    def score(self, scorer: Scorer, examples: Sequence[Example], batch_size: int) -> Score:
        """Return loss and perplexity of the response tokens, and their bits per byte."""
        nats = sum(self._nats(scorer, part).item() for part in parts(examples, batch_size))
        num_bytes = sum(row.num_bytes for example in examples for row in example.rows)
        return score(nats=nats, num_tokens=_num_targets(examples), num_bytes=num_bytes)

    def _nats(self, scorer: Scorer, part: Sequence[Example]) -> Tensor:
        hidden, targets, _ = scorer.responses([row for example in part for row in example.rows])
        with scorer.autocast:
            return summed_nats(hidden[None], scorer.head_weight, targets[None])


def _num_targets(examples: Sequence[Example]) -> int:
    return sum(row.num_targets for example in examples for row in example.rows)
