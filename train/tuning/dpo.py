"""Direct preference optimisation (Rafailov et al. 2023, arXiv:2305.18290)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor
from torch.nn import functional

from train.tuning.batches import parts
from train.tuning.examples import Example
from train.tuning.objective import Scorer

Reference = Mapping[tuple[str, int], tuple[float, float]]  # by place: log-probabilities of chosen and rejected, in nats

_SCHEMA = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("chosen", pa.float64(), nullable=False),
        pa.field("rejected", pa.float64(), nullable=False),
    ]
)
_MADE_OF = b"made_of"


@dataclass(frozen=True, slots=True)
class Preferences:
    """Figures of pairs that were set aside; means over pairs.

    Attributes:
        loss: In nats.
        accuracy: Share of pairs whose chosen response has the greater reward; a tie counts one half.
        margin: Reward of the chosen response less that of the rejected one.
        chosen_reward, rejected_reward: beta times (log-probability less the reference's).
    """

    loss: float
    accuracy: float
    margin: float
    chosen_reward: float
    rejected_reward: float

    def __str__(self) -> str:
        return f"{self.loss:.4f} (accuracy {self.accuracy:.3f}, margin {self.margin:.4f})"


def preference_loss(margin: Tensor, label_smoothing: float) -> Tensor:
    """Return the loss of each pair, shape as `margin`: equation 7 of the paper.

    With smoothing, the expectation under preferences that are the wrong way round with that probability (conservative
    DPO, Mitchell 2023).

    Args:
        margin: beta ((log pi_w - log ref_w) - (log pi_l - log ref_l)).
        label_smoothing: In [0, 0.5).
    """
    right, wrong = functional.logsigmoid(margin), functional.logsigmoid(-margin)
    return -(1 - label_smoothing) * right - label_smoothing * wrong


class Dpo:
    """The mean over pairs of `preference_loss`, against what the frozen start thought of both responses."""

    figures: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "margin", "chosen_reward", "rejected_reward")

    def __init__(self, reference: Reference, *, beta: float, label_smoothing: float) -> None:
        self._reference = reference
        self._beta = beta
        self._label_smoothing = label_smoothing

    def of_part(self, scorer: Scorer, part: Sequence[Example], batch: Sequence[Example]) -> Tensor:
        """Return the part's share of the figures of its batch, shape (5,)."""
        reference = torch.tensor([self._reference[example.place] for example in part], dtype=torch.float64)  # (B, 2)
        log_probs = pair_log_probs(scorer, part)
        rewards = self._beta * (log_probs - reference.to(log_probs.device))
        chosen, rejected = rewards.unbind(1)
        margin = chosen - rejected
        loss = preference_loss(margin, self._label_smoothing)
        right = (margin.detach().sign() + 1) / 2  # a tie: one half
        figures = (loss, right, margin.detach(), chosen.detach(), rejected.detach())
        return torch.stack([figure.sum() for figure in figures]) / len(batch)

    @torch.no_grad()
    def score(self, scorer: Scorer, examples: Sequence[Example], batch_size: int) -> Preferences:
        """Return the figures of all examples."""
        sums = torch.stack([self.of_part(scorer, part, examples) for part in parts(examples, batch_size)]).sum(0)
        return Preferences(*sums.tolist())


def pair_log_probs(scorer: Scorer, part: Sequence[Example]) -> Tensor:
    """Return the log-probabilities of chosen and rejected responses in nats, float64, shape (B, 2); they have a gradient."""
    rows = [example.rows[side] for side in (0, 1) for example in part]
    hidden, targets, owners = scorer.responses(rows)
    with scorer.autocast:
        logits = functional.linear(hidden, scorer.head_weight).float()  # (R, V)
    nats = functional.cross_entropy(logits, targets, reduction="none").double()
    sums = torch.zeros(len(rows), dtype=torch.float64, device=nats.device).index_add(0, owners, nats)
    return -sums.view(2, len(part)).t()


@torch.no_grad()
def reference_log_probs(
    scorer: Scorer, passes: Sequence[Sequence[Example]]
) -> dict[tuple[str, int], tuple[float, float]]:
    """Return what the start thinks of all pairs.

    Args:
        scorer: The start.
        passes: Micro-batches that hold each example once: the same as in the first epoch, so that the first loss is ln 2
            to the last bit and no rounding of another batch shape stands in the rewards.
    """
    found = {}
    for part in passes:
        for example, values in zip(part, pair_log_probs(scorer, part).tolist(), strict=True):
            found[example.place] = (values[0], values[1])
    return found


def write_reference(path: Path, reference: Reference, made_of: Mapping[str, Any]) -> None:
    """Store the reference with what it was made of, whole or not at all."""
    rows = [(*place, *values) for place, values in reference.items()]
    columns = [pa.array(column, one.type) for column, one in zip(zip(*rows, strict=True), _SCHEMA, strict=True)]
    metadata = {_MADE_OF: json.dumps(made_of, sort_keys=True)}
    temporary = path.with_name(path.name + ".tmp")
    pq.write_table(pa.table(columns, schema=_SCHEMA.with_metadata(metadata)), temporary)
    temporary.replace(path)


def read_reference(path: Path, made_of: Mapping[str, Any]) -> Reference | None:
    """Return a stored reference, or None if there is none that was made of the same."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return None
    if (table.schema.metadata or {}).get(_MADE_OF) != json.dumps(made_of, sort_keys=True).encode():
        return None
    files, rows, chosen, rejected = (table[name].to_pylist() for name in _SCHEMA.names)
    return dict(zip(zip(files, rows, strict=True), zip(chosen, rejected, strict=True), strict=True))
