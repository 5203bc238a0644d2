from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from train.loss import IGNORED, _rows_loss, summed_loss, summed_nats


def test_equal_logits_cost_the_log_of_the_vocabulary():
    nats = summed_nats(torch.zeros(2, 3, 4), torch.ones(50, 4), torch.zeros(2, 3, dtype=torch.int64))
    assert nats.item() == pytest.approx(6 * math.log(50))
    assert nats.dtype == torch.float64


@pytest.mark.parametrize("chunk", [1, 4, 7, 100])
def test_chunked_loss_and_gradients_are_those_of_cross_entropy(chunk):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 7, 8, generator=generator, requires_grad=True)
    weight = torch.randn(11, 8, generator=generator, requires_grad=True)
    targets = torch.randint(0, 11, (3, 7), generator=generator)
    targets[0, 2] = targets[2, 6] = IGNORED
    plain = functional.cross_entropy(
        (hidden @ weight.t()).flatten(0, 1), targets.flatten(), reduction="sum", ignore_index=IGNORED
    )
    expected = torch.autograd.grad(plain * 0.25, (hidden, weight))
    nats = summed_nats(hidden, weight, targets, chunk=chunk)
    got = torch.autograd.grad(nats * 0.25, (hidden, weight))
    assert nats.item() == pytest.approx(plain.item(), rel=1e-6)
    assert torch.allclose(got[0], expected[0], atol=1e-6)
    assert torch.allclose(got[1], expected[1], atol=1e-6)


def test_chunked_loss_needs_no_gradient():
    with torch.no_grad():
        assert not summed_nats(
            torch.ones(1, 2, 4), torch.ones(5, 4), torch.zeros(1, 2, dtype=torch.int64)
        ).requires_grad


def random_case(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 7, 8, generator=generator, dtype=dtype, requires_grad=True)
    weight = torch.randn(11, 8, generator=generator, dtype=dtype, requires_grad=True)
    targets = torch.randint(0, 11, (3, 7), generator=generator)
    targets[0, 2] = targets[2, 6] = IGNORED
    return hidden, weight, targets


@pytest.mark.parametrize("z_loss", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [4, 100])
def test_loss_and_gradients_with_z_loss_are_those_of_autograd_in_float64(z_loss, chunk):
    hidden, weight, targets = random_case()
    logits = (hidden @ weight.t()).flatten(0, 1)
    plain = functional.cross_entropy(logits, targets.flatten(), reduction="sum", ignore_index=IGNORED)
    log_z = logits.logsumexp(1)[targets.flatten() != IGNORED]
    objective = plain + z_loss * (log_z**2).sum()
    expected = torch.autograd.grad(objective * 0.25, (hidden, weight))
    got_objective, nats = summed_loss(hidden, weight, targets, z_loss=z_loss, chunk=chunk)
    got = torch.autograd.grad(got_objective * 0.25, (hidden, weight))
    assert got_objective.item() == pytest.approx(objective.item(), rel=1e-13)
    assert nats.item() == pytest.approx(plain.item(), rel=1e-13)  # without z-loss
    assert not nats.requires_grad
    for one, other in zip(got, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-13)


def test_z_loss_by_hand():
    # Two equal logits of 3: Z = 2 e^3, log Z = 3 + ln 2.
    hidden, weight = torch.tensor([[[1.0]]]), torch.tensor([[3.0], [3.0]])
    objective, nats = summed_loss(hidden, weight, torch.tensor([[0]]), z_loss=1e-4)
    assert nats.item() == pytest.approx(math.log(2))
    assert objective.item() == pytest.approx(math.log(2) + 1e-4 * (3 + math.log(2)) ** 2)


def test_logits_beyond_the_range_of_exp():
    hidden, weight = torch.tensor([[[1.0]]], requires_grad=True), torch.tensor([[500.0], [0.0]])
    nats = summed_nats(hidden, weight, torch.tensor([[1]]))
    nats.backward()
    assert nats.item() == 500.0
    assert hidden.grad.item() == 500.0  # softmax (1, 0) less one-hot (0, 1), times the weights


def test_the_compiled_form_is_the_plain_one():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 11, generator=generator)
    targets = torch.tensor([0, 10, IGNORED, 3, 3, IGNORED])
    compiled = torch.compile(_rows_loss, dynamic=False, fullgraph=True, backend="aot_eager")
    plain, graph = (form(logits.clone(), targets, 0.1, True) for form in (_rows_loss, compiled))
    for one, other in zip(plain, graph, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_rows_that_fill_the_vocabulary_up_have_no_probability():
    # Two tokens with equal logits and any number of further rows: ln 2 for each target, and no gradient for what is no token.
    hidden = torch.zeros(1, 3, 4, requires_grad=True)
    weight = torch.randn(8, 4, requires_grad=True)
    targets = torch.tensor([[0, 1, 0]])
    loss, nats = summed_loss(hidden, weight, targets, num_ids=2, z_loss=0.5)
    assert nats.item() == pytest.approx(3 * math.log(2))
    assert loss.item() == pytest.approx(3 * math.log(2) + 0.5 * 3 * math.log(2) ** 2)
    (loss + hidden.sum()).backward()
    hidden = torch.randn(1, 3, 4)
    summed_loss(hidden, weight, targets, num_ids=2)[0].backward()
    assert weight.grad[2:].count_nonzero() == 0
    assert weight.grad[:2].count_nonzero() == 8
