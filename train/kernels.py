"""Norm, rotation and SwiGLU for the CPU without torch.compile: the same values, fewer passes over memory.

Torch makes each of them of many small operations there, keeps what lies between them, and walks it again in the backward
pass. Written out, a pass through the blocks takes 4 to 11 % less CPU time (`benchmarks/results/trainer.md`). Values of norm
and rotation are torch's bit for bit, the rest but for rounding. Everywhere else the plain forms in `train.model` compute.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional


def apply_here(*tensors: Tensor) -> bool:
    """Return whether these kernels are the better ones: float32 on the CPU, not compiled, not autocast."""
    return (
        not torch.compiler.is_compiling()
        and all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)
        and not torch.is_autocast_enabled("cpu")
    )


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return x / sqrt(mean(x^2) + eps) * weight, mean and weight along the last axis."""
    result: Tensor = _RMSNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return result


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Return what `train.model.rotate` does."""
    result: Tensor = _Rotation.apply(x, cosine, sine)  # type: ignore[no-untyped-call]
    return result


def swiglu(x: Tensor, weight: Tensor) -> Tensor:
    """Return silu(x gate^T) * (x up^T), `gate` and `up` being the halves of `weight`, shape (2 F, C)."""
    result: Tensor = _SwiGLU.apply(x, weight)  # type: ignore[no-untyped-call]
    return result


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)  # (..., 1)
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, scale = ctx.saved_tensors
        shape = [x.shape[-1]]
        # Layer norm's kernel, told that the mean is 0, takes the gradient's mean out besides: that is put back.
        grad_x, grad_weight, _ = torch.ops.aten.native_layer_norm_backward(
            grad, x, shape, torch.zeros_like(scale), scale, weight, None, [True, True, False]
        )
        return grad_x.add_((grad @ weight)[..., None] * scale / x.shape[-1]), grad_weight, None


class _Rotation(torch.autograd.Function):
    """The gradient is the rotation back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _rotated(x, cosine, sine)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cosine, sine = ctx.saved_tensors
        return _rotated(grad, cosine, -sine), None, None


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    # Results are laid out as the shape says, whatever the layout of `x`: so the inner loops run along all tokens of a head.
    result, product = x.new_empty(x.shape), x.new_empty((*x.shape[:-1], x.shape[-1] // 2))
    (first, second), (new_first, new_second) = x.chunk(2, dim=-1), result.chunk(2, dim=-1)
    torch.mul(first, cosine, out=new_first).sub_(torch.mul(second, sine, out=product))
    torch.mul(second, cosine, out=new_second).add_(torch.mul(first, sine, out=product))
    return result


class _SwiGLU(torch.autograd.Function):
    """Two products instead of one, so that each result lies in one piece: torch's silu takes 2.5 times as long on rows with gaps."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])  # (N, C)
        gate_weight, up_weight = weight.chunk(2)
        gate, up = rows @ gate_weight.t(), rows @ up_weight.t()  # (N, F)
        gated = functional.silu(gate)
        ctx.save_for_backward(rows, weight, gate, up, gated)
        return (gated * up).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        rows, weight, gate, up, gated = ctx.saved_tensors
        gate_weight, up_weight = weight.chunk(2)
        shape = grad.shape[:-1]
        grad = grad.reshape(rows.shape[0], -1)
        grad_up = grad * gated
        grad_gate = torch.ops.aten.silu_backward(grad * up, gate)
        grad_weight = torch.empty_like(weight)
        for half, part in zip(grad_weight.chunk(2), (grad_gate, grad_up), strict=True):
            torch.mm(part.t(), rows, out=half)
        return (grad_gate @ gate_weight).addmm_(grad_up, up_weight).view(*shape, -1), grad_weight
