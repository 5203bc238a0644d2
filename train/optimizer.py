"""AdamW, and which parameters decay."""

from __future__ import annotations

import torch
from torch import nn

from train.config import Settings


def build(model: nn.Module, settings: Settings) -> torch.optim.AdamW:
    """Return AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) over two groups of parameters.

    Matrices decay. Norm gains do not, nor do embedding and head (OLMo-core's ladder): decay would shrink rows of rare
    tokens, which seldom get a gradient to hold against it.
    """
    decayed, plain = split(model)
    groups = [
        {"params": list(decayed.values()), "weight_decay": settings.weight_decay},
        {"params": list(plain.values()), "weight_decay": 0.0},
    ]
    # One fused kernel per step: 4 ms against 19 to 25 ms for 7M parameters on one CPU thread.
    return torch.optim.AdamW(
        groups, lr=settings.lr, betas=(settings.beta1, settings.beta2), eps=settings.adam_eps, fused=True
    )


def split(model: nn.Module) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Return the parameters that decay and those that do not, by name."""
    decayed: dict[str, nn.Parameter] = {}
    plain: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        outer = name.startswith(("embedding.", "head."))
        (plain if outer or parameter.dim() < 2 else decayed)[name] = parameter
    return decayed, plain


def state_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return the optimizer's tensors, named `<parameter>.<state>`; the inverse of `restore_state`."""
    return {
        f"{name}.{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def restore_state(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    """Put back what `state_tensors` gave.

    Raises:
        KeyError: If a parameter has no state in `tensors`.
    """
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {
            key: tensors[f"{name}.{key}"].to(parameter.device) for key in ("step", "exp_avg", "exp_avg_sq")
        }


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all groups."""
    for group in optimizer.param_groups:
        group["lr"] = rate
