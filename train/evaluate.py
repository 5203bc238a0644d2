"""Loss, perplexity and bits per byte on fixed validation sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from train.config import TrainError
from train.data import ValidationData
from train.model import IGNORED, summed_nats


@dataclass(frozen=True, slots=True)
class Score:
    """Result on one validation set.

    Attributes:
        loss: Nats per token, EOS included.
        perplexity: e^loss.
        bits_per_byte: Bits per UTF-8 byte of the documents; comparable between tokenizers.
    """

    loss: float
    perplexity: float
    bits_per_byte: float

    def __str__(self) -> str:
        return f"{self.loss:.4f} ({self.bits_per_byte:.4f} bits/byte)"


def score(*, nats: float, num_tokens: int, num_bytes: int) -> Score:
    """Return the three figures from a code length.

    Bits per byte (Gao et al. 2020, arXiv:2101.00027) are all nats, those of the EOS targets included, over ln 2 and over the
    UTF-8 bytes of the documents; an EOS has no byte of its own, so telling where a document ends counts as its cost.

    Args:
        nats: Code length of all targets.
        num_tokens: Targets, EOS included.
        num_bytes: UTF-8 bytes of the documents.

    Raises:
        ValueError: If there is no token or no byte.
        TrainError: If the code length is not finite, or its perplexity exceeds what a float holds.
    """
    if num_tokens < 1 or num_bytes < 1:
        raise ValueError(f"a validation set needs tokens and bytes, has {num_tokens} and {num_bytes}")
    loss = nats / num_tokens
    if not math.isfinite(loss) or loss > 700.0:  # e^709.8 is the largest float64
        raise TrainError(f"the validation loss is {loss}: the model has diverged. Lower `lr` or raise `warmup_tokens`.")
    return Score(loss, math.exp(loss), nats / math.log(2) / num_bytes)


@torch.no_grad()
def evaluate(
    hidden_of: Callable[[Tensor], Tensor],
    head_weight: Tensor,
    data: ValidationData,
    *,
    batch_size: int,
    whole_batches: bool,
    autocast: torch.autocast,
) -> Score:
    """Score a model on every token of a validation set.

    Args:
        hidden_of: Tokens (B, T) to hidden states (B, T, C).
        head_weight: The output matrix, shape (V, C).
        data: The validation set.
        batch_size: Sequences of one pass.
        whole_batches: Whether all passes have one shape (a compiled model would be compiled again for another).
        autocast: The precision of the run.
    """
    nats = 0.0
    for inputs, targets in data.batches(batch_size, ignored=IGNORED, whole=whole_batches):
        device = head_weight.device
        with autocast:
            hidden = hidden_of(torch.from_numpy(inputs).to(device))
            nats += summed_nats(hidden, head_weight, torch.from_numpy(targets).to(device)).item()
    return score(nats=nats, num_tokens=data.source.num_tokens, num_bytes=int(data.source.document_bytes.sum()))
