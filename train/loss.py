"""Head and cross-entropy, in chunks of rows, with z-loss.

Newer versions of torch have the like (`linear_cross_entropy`). Ours stays because torch's sums in float32, knows no z-loss, and
takes longer on a CPU (`benchmarks/results/trainer.md`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

IGNORED = -100  # a target that is not counted


def summed_nats(hidden: Tensor, weight: Tensor, targets: Tensor, *, chunk: int = 1024) -> Tensor:
    """Return the code length of the targets in nats: the summed cross-entropy, a float64 scalar.

    Args:
        hidden: What the decoder gives, shape (B, T, C).
        weight: The output matrix, shape (V, C).
        targets: Shape (B, T); `IGNORED` is not counted.
        chunk: Rows whose logits are held at once; bounds memory at chunk * V floats.
    """
    return summed_loss(hidden, weight, targets, chunk=chunk)[0]


def summed_loss(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    num_ids: int | None = None,
    z_loss: float = 0.0,
    compiled: bool = False,
    chunk: int = 1024,
) -> tuple[Tensor, Tensor]:
    """Return what training minimises, and the nats in it; float64 scalars, the second without gradient.

    z-loss is coefficient * log^2 Z, Z being the sum of a row's exponentiated logits: it keeps logits from drifting, which
    cross-entropy alone does not see (Chowdhery et al. 2022, arXiv:2204.02311, section 5).

    Args:
        hidden: What the decoder gives, shape (B, T, C).
        weight: The output matrix, shape (V, C).
        targets: Shape (B, T); `IGNORED` is not counted.
        num_ids: Rows of the matrix that are tokens; the others, which fill it up, have no probability. None: all.
        z_loss: The coefficient.
        compiled: Whether torch.compile makes one kernel of a chunk's softmax.
        chunk: Rows whose logits are held at once; bounds memory at chunk * V floats.
    """
    result: tuple[Tensor, Tensor] = _SummedLoss.apply(  # type: ignore[no-untyped-call]
        hidden.flatten(0, 1), weight, targets.flatten(), num_ids or len(weight), z_loss, compiled, chunk
    )
    return result


class _SummedLoss(torch.autograd.Function):
    """Logits of the whole batch never lie in memory at once: a chunk's gradient is made while its logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        num_ids: int,
        z_loss: float,
        compiled: bool,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        needs_grad = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        nats = torch.zeros((), dtype=torch.float64, device=hidden.device)
        squares = torch.zeros_like(nats)
        grad_hidden = torch.empty_like(hidden) if needs_grad else None
        grad_weight = torch.zeros_like(weight) if needs_grad else None
        rows_loss = _compiled_rows_loss() if compiled else _rows_loss
        with torch.autocast(device, enabled=False):
            matrix = weight.to(dtype)
            for start in range(0, hidden.shape[0], chunk):
                rows = hidden[start : start + chunk].to(dtype)  # (R, C)
                logits = rows @ matrix.t()  # (R, V)
                logits[:, num_ids:] = -math.inf
                row_nats, row_squares, grad = rows_loss(logits, targets[start : start + chunk], z_loss, needs_grad)
                nats += row_nats
                squares += row_squares
                if grad_hidden is not None and grad_weight is not None:
                    grad = grad.to(dtype)
                    grad_hidden[start : start + chunk] = grad @ matrix
                    if grad_weight.dtype == dtype:
                        grad_weight.addmm_(grad.t(), rows)
                    else:
                        grad_weight += grad.t() @ rows
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.mark_non_differentiable(nats)
        return nats + z_loss * squares, nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None, None, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad, grad_weight * grad, None, None, None, None, None


def _rows_loss(logits: Tensor, targets: Tensor, z_loss: float, needs_grad: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return summed nats and summed log^2 Z of rows of logits, shape (R, V), and the gradient by the logits if it is needed.

    The logits are overwritten.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    counted = (targets != IGNORED)[:, None]  # (R, 1)
    columns = targets[:, None].masked_fill(~counted, 0)
    picked = logits.gather(1, columns)
    top = logits.amax(1, keepdim=True)
    exponentials = logits.sub_(top).exp_()
    total = exponentials.sum(1, keepdim=True)
    log_z = total.log() + top  # (R, 1)
    nats = (log_z - picked).masked_fill(~counted, 0.0).sum(dtype=torch.float64)
    squares = log_z.masked_fill(~counted, 0.0).double().square().sum()
    if not needs_grad:
        return nats, squares, logits
    # d nats / d logits = softmax - one-hot; d log^2 Z / d logits = 2 log Z softmax
    grad = exponentials.mul_((1 + 2 * z_loss * log_z) * counted / total)
    if torch.compiler.is_compiling():  # a comparison joins the kernel, a scatter would be one of its own
        return nats, squares, grad - ((torch.arange(grad.shape[1], device=grad.device) == columns) & counted).to(grad)
    return nats, squares, grad.scatter_add_(1, columns, -counted.to(grad))


@functools.cache
def _compiled_rows_loss() -> Callable[[Tensor, Tensor, float, bool], tuple[Tensor, Tensor, Tensor]]:
    return torch.compile(_rows_loss, dynamic=False)
