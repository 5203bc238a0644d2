"""The CPU's own kernels beside torch's operations."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn import functional

from train import kernels
from train.config import PRESETS
from train.loss import summed_nats
from train.model import Decoder, rotary_tables


def plain_norm(x, weight):
    return functional.rms_norm(x, weight.shape, weight, 1e-5)


def plain_rotation(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def plain_swiglu(x, weight):
    gate, up = functional.linear(x, weight).chunk(2, dim=-1)
    return functional.silu(gate) * up


def random(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


CASES = {
    "norm": (lambda x, w: kernels.rms_norm(x, w, 1e-5), plain_norm, [random(2, 5, 24, seed=0), random(24, seed=1)]),
    "rotation": (
        lambda x: kernels.rotate(x, *rotary_tables(5, 8, 10_000.0)),
        lambda x: plain_rotation(x, *(table.to(x) for table in rotary_tables(5, 8, 10_000.0))),
        [random(2, 5, 3, 8, seed=2).transpose(1, 2)],  # (B, H, T, D), as it lies in memory after the projection
    ),
    "swiglu": (kernels.swiglu, plain_swiglu, [random(2, 5, 16, seed=3), random(40, 16, seed=4)]),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_torch_and_gradients_those_of_float64(case):
    ours, plain, inputs = CASES[case]
    mine = [one.detach().requires_grad_() for one in inputs]
    exact = [one.detach().double().requires_grad_() for one in inputs]
    value, reference = ours(*mine), plain(*exact)
    if case != "swiglu":  # whose matrix products may be cut another way
        assert torch.equal(value, plain(*mine))
    assert torch.allclose(value.double(), reference, atol=1e-5)
    grad = random(*value.shape, seed=5)
    for got, expected in zip(
        torch.autograd.grad(value, mine, grad), torch.autograd.grad(reference, exact, grad.double()), strict=True
    ):
        assert torch.allclose(got.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("qk_norm", [True, False])
def test_a_model_computes_the_same_without_them(monkeypatch, qk_norm):
    settings = dataclasses.replace(
        PRESETS["demo-1m"], layers=2, dim=16, heads=4, kv_heads=2, ffn_dim=24, context=12, qk_norm=qk_norm
    )
    tokens = torch.randint(0, 64, (3, 12), generator=torch.Generator().manual_seed(1))
    results = []
    for applied in (True, False):
        if not applied:
            monkeypatch.setattr(kernels, "apply_here", lambda *tensors: False)
        model = Decoder(settings, 64)
        model.initialize(0)
        nats = summed_nats(model(tokens), model.head_weight, tokens.roll(-1, 1))
        nats.backward()
        results.append((nats.detach(), *(parameter.grad for parameter in model.parameters())))
    for ours, plain in zip(*results, strict=True):
        assert torch.allclose(ours, plain, rtol=1e-5, atol=1e-6)


def test_where_they_apply():
    assert kernels.apply_here(torch.ones(2))
    assert not kernels.apply_here(torch.ones(2), torch.ones(2, dtype=torch.bfloat16))
    assert not kernels.apply_here(torch.ones(2, device="meta"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not kernels.apply_here(torch.ones(2))
