"""Muon: momentum whose every matrix is made nearly orthogonal before it is taken off the weights (Jordan et al. 2024).

https://kellerjordan.github.io/posts/muon/ gives momentum, iteration and coefficients. The scale of the update is Moonshot's
(Liu et al. 2025, arXiv:2502.16982): with it, learning rate and weight decay of AdamW serve for Muon too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from train.distributed import part, whole

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steep at 0: five rounds bring what was between 0.005 and 1 to 0.68 to 1.16
ROUNDS = 5
SMALLEST_NORM = 1e-7
ADAMW_RMS = 0.2  # root mean square of AdamW's updates, found by Moonshot


def orthogonalize(stack: Tensor) -> Tensor:
    """Return matrices with the singular vectors of those in `stack` and singular values near 1, by Newton-Schulz.

    x -> a x + b x^3 + c x^5, written for matrices, acts on the singular values alone and needs nothing but products. They are
    done in the type of `stack`.

    Args:
        stack: Shape (N, R, C) with R <= C: what is squared is the shorter side.
    """
    a, b, c = COEFFICIENTS
    x: Tensor = stack / stack.norm(dim=(-2, -1), keepdim=True).clamp(min=SMALLEST_NORM)  # no singular value is above 1
    for _ in range(ROUNDS):
        square = x @ x.mT  # (N, R, R)
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay, over matrices.

    Parameters may be sharded (DTensor): every rank orthogonalises whole matrices and keeps its part.
    """

    def __init__(
        self, maps: Mapping[nn.Parameter, Sequence[int]], *, lr: float, momentum: float, weight_decay: float
    ) -> None:
        """Take the parameters to update.

        Args:
            maps: Each parameter with the rows of the linear maps that it holds one below the other. Every map is
                orthogonalised for itself: as one matrix queries, keys and values would share their singular values, which is
                an accident of how they are stored, and does worse (Jordan et al.).
            lr: Of the size that AdamW wants.
            momentum: Weight of the mean of earlier gradients against the new one.
            weight_decay: Times `lr`: the share of the weights taken off at each step.
        """
        super().__init__(list(maps), {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._rows = {parameter: list(rows) for parameter, rows in maps.items()}

    @torch.no_grad()
    def step(self, closure: Any = None, *, skip: Tensor | None = None) -> None:  # type: ignore[override]
        """Update the matrices from their gradients; where `skip` is 1 nothing changes, whatever the gradients hold."""
        assert closure is None, "no closures here"
        for group in self.param_groups:
            directions = {one: self._direction(one, group["momentum"], skip) for one in group["params"]}
            for parameter, update in self._updates(directions).items():
                weights = _part_here(parameter)
                kept = weights * (1 - group["lr"] * group["weight_decay"])
                _replace(weights, kept.sub_(_part_here(part(update, parameter)), alpha=group["lr"]), skip)

    def _direction(self, parameter: nn.Parameter, momentum: float, skip: Tensor | None) -> Tensor:
        """Take the gradient into the momentum; return what to orthogonalise, whole."""
        gradient = parameter.grad
        assert gradient is not None, "every matrix of the trunk has a gradient"
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        moved = state["momentum"].lerp(gradient, 1 - momentum)
        direction = gradient.lerp(moved, momentum)  # Nesterov: as if one step ahead
        _replace(_part_here(state["momentum"]), _part_here(moved), skip)
        return whole(direction)

    def _updates(self, directions: Mapping[nn.Parameter, Tensor]) -> dict[nn.Parameter, Tensor]:
        """Return what a learning rate of 1 would take off; maps of one shape go through in one stack."""
        updates = {parameter: torch.empty_like(direction) for parameter, direction in directions.items()}
        stacks: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
        for parameter, direction in directions.items():
            rows = self._rows[parameter]
            for pair in zip(torch.split(direction, rows), torch.split(updates[parameter], rows), strict=True):
                tall = pair[0].shape[0] > pair[0].shape[1]
                source, target = (one.mT for one in pair) if tall else pair
                stacks.setdefault(source.shape, []).append((source, target))
        for shape, pairs in stacks.items():
            stack = torch.stack([source for source, _ in pairs])
            # On a GPU in bfloat16, which Jordan et al. found enough; a CPU is slower in it.
            flat = orthogonalize(stack.bfloat16() if stack.is_cuda else stack)
            # Singular values of 1 mean a root mean square of 1 / sqrt(longer side).
            for (_, target), update in zip(pairs, flat * (ADAMW_RMS * math.sqrt(max(shape))), strict=True):
                target.copy_(update)
        return updates


def _replace(target: Tensor, value: Tensor, skip: Tensor | None) -> None:
    # A choice, not a product: 0 * NaN is NaN.
    target.copy_(value if skip is None else torch.where(skip == 1, target, value))


def _part_here(tensor: Any) -> Tensor:
    """Return this rank's part; what is written to it is written to the tensor."""
    result: Tensor = (
        tensor.to_local() if hasattr(tensor, "full_tensor") else tensor
    )  # a DTensor, without importing it (1 s)
    return result
