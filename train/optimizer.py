"""The optimizer of a run: which parameters go to AdamW and which to Muon, and which of them decay."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from train.config import Settings
from train.distributed import part

ADAMW_STATE = ("step", "exp_avg", "exp_avg_sq")
MUON_STATE = ("momentum",)


class Optimizer:
    """AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), or Muon for the trunk's matrices and AdamW for the rest.

    Matrices decay. Norm gains do not, nor do the embedding (as in OLMo-core's ladder) and the head: decay would shrink rows of
    rare tokens, which seldom get a gradient to hold against it.
    """

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        self._model = model
        matrices, rest = split(model)
        groups = [{"params": list(rest.values()), "weight_decay": 0.0}]
        self._muon = None
        self._by_muon: frozenset[str] = frozenset()
        if settings.optimizer == "muon":
            from train.muon import Muon

            maps = {parameter: rows_of_maps(name, parameter, settings) for name, parameter in matrices.items()}
            self._muon = Muon(maps, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay)
            self._by_muon = frozenset(matrices)
        else:
            groups.insert(0, {"params": list(matrices.values()), "weight_decay": settings.weight_decay})
        # One fused kernel per step: 4 ms against 19 to 25 ms for 7M parameters on one CPU thread.
        self._adamw = torch.optim.AdamW(
            groups, lr=settings.lr, betas=(settings.beta1, settings.beta2), eps=settings.adam_eps, fused=True
        )

    @property
    def groups(self) -> list[dict[str, object]]:
        """Return the groups of parameters with their constants."""
        return [*(self._muon.param_groups if self._muon else ()), *self._adamw.param_groups]

    def step(self, skip: Tensor | None = None) -> None:
        """Update the weights from their gradients.

        Args:
            skip: On the device of the weights, of no dimension: where it is 1, weights, moments and counters stay as they are
                to the last bit, whatever the gradients hold; where it is 0 the step is as without it. The host never looks.
        """
        # The way of torch's GradScaler: the fused kernel reads the flag on the device.
        self._adamw.found_inf = None if skip is None else skip.float()  # type: ignore[attr-defined]
        self._adamw.step()
        if self._muon:
            self._muon.step(skip=skip)

    def zero_grad(self) -> None:
        """Drop the gradients."""
        self._model.zero_grad(set_to_none=True)

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of all groups."""
        for group in self.groups:
            group["lr"] = rate

    def state_tensors(self) -> dict[str, Tensor]:
        """Return moments and counters, named `<parameter>.<state>`; the inverse of `restore_state`."""
        return {
            f"{name}.{key}": value
            for name, parameter in self._model.named_parameters()
            for key, value in self._owner(name).state[parameter].items()
        }

    def restore_state(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `state_tensors` gave.

        Raises:
            KeyError: If a parameter has no state in `tensors`.
        """
        for name, parameter in self._model.named_parameters():
            keys = MUON_STATE if name in self._by_muon else ADAMW_STATE
            found = {key: tensors[f"{name}.{key}"] for key in keys}
            self._owner(name).state[parameter] = {
                key: part(value, parameter) if value.dim() else value.to(parameter.device)
                for key, value in found.items()
            }

    def _owner(self, name: str) -> torch.optim.Optimizer:
        return self._muon if self._muon and name in self._by_muon else self._adamw


def split(model: nn.Module) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Return the matrices of the trunk, and all other parameters, by name."""
    matrices: dict[str, nn.Parameter] = {}
    rest: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        outer = name.startswith(("embedding.", "head."))
        (rest if outer or parameter.dim() < 2 else matrices)[name] = parameter
    return matrices, rest


def rows_of_maps(name: str, matrix: Tensor, settings: Settings) -> tuple[int, ...]:
    """Return the rows of the linear maps that a matrix of the decoder holds one below the other."""
    if name.endswith("attention.qkv.weight"):
        return settings.dim, settings.kv_heads * settings.head_dim, settings.kv_heads * settings.head_dim
    if name.endswith("mlp.gate_up.weight"):
        return settings.ffn_dim, settings.ffn_dim
    return (matrix.shape[0],)
