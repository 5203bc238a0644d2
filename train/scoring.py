"""How likely a model finds a text after another: code lengths of continuations after their prompts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from train.config import TrainError
from train.distributed import ALONE, Ranks
from train.loss import IGNORED

IntArray = npt.NDArray[np.int64]
SHORTEST = 128  # tokens of the narrowest batch where shapes must be few
CHUNK = 4096  # targets whose logits are held at once


@dataclass(frozen=True, slots=True)
class Row:
    """What is scored: `continuation` after `prompt`. `name` stands in messages."""

    prompt: IntArray
    continuation: IntArray
    name: str


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model makes of a row.

    Attributes:
        nats: Code length of the continuation.
        greedy: Whether each of its tokens is the likeliest one where it stands.
        cut: Whether the prompt was too long, so that only its end was seen.
    """

    nats: float
    greedy: bool
    cut: bool


def batches(
    rows: Sequence[Row], *, batch_size: int, context: int, eos_id: int, whole: bool
) -> Iterator[tuple[list[int], IntArray, IntArray]]:
    """Yield places of rows, their inputs, and targets: each of shape (B, at most context).

    A prompt follows an EOS, as documents in training do. Of a longer one the end is seen: all that the context has room for
    beside the continuation. Only continuations are targets. Rows of like length stand together, the longest first.

    Args:
        rows: The continuation of none is longer than the context.
        batch_size: Rows of a batch that are as long as the context; of shorter ones there are as many as have its tokens.
        context: Tokens of the longest row.
        eos_id: Before each prompt, and behind the shorter rows of a batch.
        whole: Whether batches have few shapes (a compiled model is compiled again for each): rows without a target fill
            the last one up, and widths are powers of two.
    """
    sizes = [min(context, row.prompt.size + row.continuation.size) for row in rows]
    order = sorted(range(len(rows)), key=lambda place: (-sizes[place], place))
    widths = [min(context, max(SHORTEST, 1 << (size - 1).bit_length())) if whole else size for size in sizes]
    start = 0
    while start < len(order):
        width = widths[order[start]]
        most = batch_size * context // width
        places = order[start : start + most]
        if whole:  # a narrower row waits for a batch of its own width
            places = [place for place in places if widths[place] == width]
        start += len(places)
        shape = (most if whole else len(places), width)
        inputs, targets = np.full(shape, eos_id, np.int64), np.full(shape, IGNORED, np.int64)
        for number, place in enumerate(places):
            row, size = rows[place], sizes[place]
            ids = np.concatenate([[eos_id], row.prompt, row.continuation])[-size - 1 :]
            inputs[number, :size] = ids[:-1]
            targets[number, size - row.continuation.size : size] = row.continuation
        yield places, inputs, targets


@torch.no_grad()
def score(
    hidden_of: Callable[[Tensor], Tensor],
    head_weight: Tensor,
    rows: Sequence[Row],
    *,
    batch_size: int,
    context: int,
    eos_id: int,
    whole_batches: bool,
    autocast: torch.autocast,
    ranks: Ranks = ALONE,
) -> list[Scored]:
    """Return what a model makes of each row.

    Args:
        hidden_of: Tokens (B, T) to hidden states (B, T, C).
        head_weight: The output matrix, shape (V, C).
        rows: What is scored.
        batch_size: As for `batches`.
        context: As for `batches`.
        eos_id: As for `batches`.
        whole_batches: `whole` of `batches`.
        autocast: The precision of the run.
        ranks: They take turns at the batches, which are those of one process; all get all results.

    Raises:
        TrainError: If a code length is not finite.
    """
    mine: dict[int, Scored] = {}
    device = head_weight.device
    turns = batches(rows, batch_size=batch_size, context=context, eos_id=eos_id, whole=whole_batches)
    while turn := list(itertools.islice(turns, ranks.size)):
        # In the last turn some repeat its last batch: with FSDP all must run the model, or none can.
        places, inputs, targets = turn[min(ranks.rank, len(turn) - 1)]
        with autocast:
            hidden = hidden_of(torch.from_numpy(inputs).to(device))  # (B, T, C)
            wanted = torch.from_numpy(targets).to(device)  # (B, T)
            counted = wanted != IGNORED
            nats, likeliest = _token_nats(hidden[counted], head_weight, wanted[counted])  # (N,)
        owners = np.nonzero(targets != IGNORED)[0]  # (N,)
        sums = np.bincount(owners, weights=nats, minlength=len(places))
        misses = np.bincount(owners, weights=~likeliest, minlength=len(places))
        for number, place in enumerate(places):
            cut = rows[place].prompt.size + rows[place].continuation.size > context
            mine[place] = Scored(float(sums[number]), not misses[number], cut)
    found = ranks.merged(mine)
    for place, row in enumerate(rows):
        if not math.isfinite(found[place].nats):
            raise TrainError(f"the loss of {row.name} is {found[place].nats}: the model has diverged. Lower `lr`.")
    return [found[place] for place in range(len(rows))]


def _token_nats(
    hidden: Tensor, head_weight: Tensor, targets: Tensor
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return nats of each target, and whether it is the likeliest token; `hidden` (N, C), `targets` (N,)."""
    nats, likeliest = [], []
    for start in range(0, len(hidden), CHUNK):
        logits = functional.linear(hidden[start : start + CHUNK], head_weight).float()  # (N, V)
        wanted = targets[start : start + CHUNK]
        nats.append(functional.cross_entropy(logits, wanted, reduction="none").double())
        likeliest.append(logits.argmax(dim=-1) == wanted)
    return torch.cat(nats).cpu().numpy(), torch.cat(likeliest).cpu().numpy()
