from __future__ import annotations

import dataclasses

import pytest
import torch

from train import optimizer
from train.config import PRESETS
from train.model import Decoder

SETTINGS = dataclasses.replace(
    PRESETS["demo-1m"], layers=1, dim=16, heads=2, kv_heads=1, ffn_dim=24, context=8, qk_norm=True, tied=False
)


def model_and_optimizer():
    model = Decoder(SETTINGS, 64)
    model.initialize(0)
    return model, optimizer.build(model, SETTINGS)


def step(model, adamw):
    adamw.zero_grad()
    model.logits(torch.arange(16).view(2, 8)).square().mean().backward()
    adamw.step()


def test_matrices_of_the_trunk_decay_and_nothing_else():
    model, adamw = model_and_optimizer()
    decayed, plain = optimizer.split(model)
    assert set(decayed) == {
        f"blocks.0.{name}.weight" for name in ("attention.qkv", "attention.out", "mlp.gate_up", "mlp.down")
    }
    assert set(plain) == {"embedding.weight", "head.weight", "norm.weight"} | {
        f"blocks.0.{name}.weight"
        for name in ("attention_norm", "mlp_norm", "attention.query_norm", "attention.key_norm")
    }
    assert [group["weight_decay"] for group in adamw.param_groups] == [SETTINGS.weight_decay, 0.0]


def test_the_first_step_by_hand():
    model, adamw = model_and_optimizer()
    optimizer.set_learning_rate(adamw, 0.01)
    weights = {"blocks.0.mlp.down.weight": 0.1, "embedding.weight": 0.0}
    before = {name: model.get_parameter(name).detach().clone() for name in weights}
    step(model, adamw)
    for name, decay in weights.items():
        gradient = model.get_parameter(name).grad
        # Bias-corrected moments of the first step are g and g^2: the update is the gradient's sign.
        expected = before[name] * (1 - 0.01 * decay) - 0.01 * gradient / (gradient.abs() + SETTINGS.adam_eps)
        assert torch.allclose(model.get_parameter(name), expected, atol=1e-7)


def test_the_state_comes_back_to_the_last_bit():
    model, adamw = model_and_optimizer()
    step(model, adamw)
    state = {name: value.clone() for name, value in optimizer.state_tensors(model, adamw).items()}
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    assert set(state) == {f"{name}.{key}" for name in weights for key in ("step", "exp_avg", "exp_avg_sq")}
    step(model, adamw)
    other, other_adamw = model_and_optimizer()
    other.load_state_dict(weights)
    optimizer.restore_state(other, other_adamw, state)
    step(other, other_adamw)
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])


def test_a_missing_state_is_refused():
    model, adamw = model_and_optimizer()
    with pytest.raises(KeyError, match="embedding"):
        optimizer.restore_state(model, adamw, {})
