from __future__ import annotations

import dataclasses

import pytest
import torch

from train.config import PRESETS
from train.model import Decoder
from train.muon import orthogonalize
from train.optimizer import Optimizer, rows_of_maps, split

SETTINGS = dataclasses.replace(
    PRESETS["demo-1m"], layers=1, dim=16, heads=2, kv_heads=1, ffn_dim=24, context=8, qk_norm=True, tied=False
)


MATRICES = {f"blocks.0.{name}.weight" for name in ("attention.qkv", "attention.out", "mlp.gate_up", "mlp.down")}
both = pytest.mark.parametrize("kind", ["adamw", "muon"])


def model_and_optimizer(kind="adamw", **changes):
    settings = dataclasses.replace(SETTINGS, optimizer=kind, **changes)
    model = Decoder(settings, 64)
    model.initialize(0)
    return model, Optimizer(model, settings)


def step(model, updates, *, scale=1.0, skip=None):
    updates.zero_grad()
    (model.logits(torch.arange(16).view(2, 8)).square().mean() * scale).backward()
    updates.step(skip)


def everything(model, updates):
    """Weights and state, copied."""
    tensors = {**dict(model.named_parameters()), **updates.state_tensors()}
    return {name: value.detach().clone() for name, value in tensors.items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_matrices_of_the_trunk_decay_and_nothing_else():
    model, updates = model_and_optimizer()
    decayed, plain = split(model)
    assert set(decayed) == MATRICES
    assert set(plain) == {"embedding.weight", "head.weight", "norm.weight"} | {
        f"blocks.0.{name}.weight"
        for name in ("attention_norm", "mlp_norm", "attention.query_norm", "attention.key_norm")
    }
    assert [group["weight_decay"] for group in updates.groups] == [SETTINGS.weight_decay, 0.0]
    assert [group["weight_decay"] for group in model_and_optimizer("muon")[1].groups] == [SETTINGS.weight_decay, 0.0]


def test_muon_takes_the_matrices_of_the_trunk_and_adamw_the_rest():
    pair, adamw = model_and_optimizer("muon"), model_and_optimizer()
    for model, updates in (pair, adamw):
        updates.set_learning_rate(0.01)
        step(model, updates)
    model, updates = pair
    state = updates.state_tensors()
    assert {name.removesuffix(".momentum") for name in state if name.endswith(".momentum")} == MATRICES
    for name, parameter in model.named_parameters():
        assert (f"{name}.exp_avg" in state) == (name not in MATRICES)
        assert torch.equal(parameter, adamw[0].get_parameter(name)) == (name not in MATRICES)


def test_maps_that_share_a_matrix_are_told_apart():
    # dim 16, 2 heads and 1 key-value head of 8, ffn_dim 24
    model, _ = model_and_optimizer("muon")
    rows = {name.split(".")[-2]: rows_of_maps(name, model.get_parameter(name), SETTINGS) for name in MATRICES}
    assert rows == {"qkv": (16, 8, 8), "out": (16,), "gate_up": (24, 24), "down": (16,)}
    step(*(pair := model_and_optimizer("muon")))
    gradient = pair[0].blocks[0].attention.qkv.weight.grad
    alone = orthogonalize(gradient[16:24][None])[0]  # the keys: 8 x 16
    before, after = model.blocks[0].attention.qkv.weight[16:24], pair[0].blocks[0].attention.qkv.weight[16:24]
    rate, scale = SETTINGS.lr, 0.2 * 4  # the longer side is 16
    assert torch.allclose(after, before * (1 - rate * SETTINGS.weight_decay) - rate * scale * alone, atol=1e-7)


def test_the_first_step_by_hand():
    model, updates = model_and_optimizer()
    updates.set_learning_rate(0.01)
    weights = {"blocks.0.mlp.down.weight": 0.1, "embedding.weight": 0.0}
    before = {name: model.get_parameter(name).detach().clone() for name in weights}
    step(model, updates)
    for name, decay in weights.items():
        gradient = model.get_parameter(name).grad
        # Bias-corrected moments of the first step are g and g^2: the update is the gradient's sign.
        expected = before[name] * (1 - 0.01 * decay) - 0.01 * gradient / (gradient.abs() + SETTINGS.adam_eps)
        assert torch.allclose(model.get_parameter(name), expected, atol=1e-7)


@both
@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 1.0])
@pytest.mark.parametrize("first", [True, False])
def test_a_skipped_step_leaves_every_tensor_to_the_last_bit(kind, scale, first):
    model, updates = model_and_optimizer(kind)
    if not first:
        step(model, updates)
    before = everything(model, updates)
    step(model, updates, scale=scale, skip=torch.tensor(1.0))
    after = everything(model, updates)
    if first:  # moments begin with zeros
        assert all(not value.any() for name, value in after.items() if name not in before)
        after = {name: after[name] for name in before}
    assert same(before, after)


@both
def test_after_a_skipped_step_the_run_goes_on_as_if_it_had_not_been(kind):
    plain, skipping = model_and_optimizer(kind), model_and_optimizer(kind)
    for pair in (plain, skipping):
        step(*pair)
    step(*skipping, scale=float("nan"), skip=torch.tensor(1.0))
    step(*plain)
    step(*skipping, skip=torch.tensor(0.0))
    step(*plain)
    step(*skipping)
    assert same(everything(*plain), everything(*skipping))


@both
def test_the_state_comes_back_to_the_last_bit(kind):
    model, updates = model_and_optimizer(kind)
    step(model, updates)
    state = {name: value.clone() for name, value in updates.state_tensors().items()}
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    keys = {
        name: ("momentum",) if name in MATRICES and kind == "muon" else ("step", "exp_avg", "exp_avg_sq")
        for name in weights
    }
    assert set(state) == {f"{name}.{key}" for name in weights for key in keys[name]}
    step(model, updates)
    other, other_updates = model_and_optimizer(kind)
    other.load_state_dict(weights)
    other_updates.restore_state(state)
    step(other, other_updates)
    assert same(everything(model, updates), everything(other, other_updates))


@both
def test_a_missing_state_is_refused(kind):
    _, updates = model_and_optimizer(kind)
    with pytest.raises(KeyError, match="embedding"):
        updates.restore_state({})
