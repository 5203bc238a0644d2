from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from train.muon import COEFFICIENTS, Muon, orthogonalize


def polynomial(x):
    """Five rounds of 3.4445 x - 4.7750 x^3 + 2.0315 x^5 (Jordan et al. 2024), on numbers."""
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5
    return x


def through_singular_values(matrix):
    """What the iteration comes to, in float64: singular values, relative to their root sum of squares, through the polynomial."""
    left, values, right = np.linalg.svd(np.asarray(matrix, dtype=np.float64), full_matrices=False)
    return (left * polynomial(values / np.sqrt((values**2).sum()))) @ right


def matrix(seed, rows, columns, *, smallest=None):
    """Normal numbers, or with singular values from `smallest` to 1."""
    random = np.random.default_rng(seed)
    plain = random.normal(size=(rows, columns))
    if smallest is None:
        return plain
    left, values, right = np.linalg.svd(plain, full_matrices=False)
    return (left * np.geomspace(smallest, 1, len(values))) @ right


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (16, 16), (16, 44), (33, 34)])
@pytest.mark.parametrize("smallest", [None, 1e-3])
def test_the_iteration_is_the_polynomial_of_the_singular_values(rows, columns, smallest):
    given = [matrix(seed, rows, columns, smallest=smallest) for seed in range(3)]
    found = orthogonalize(torch.tensor(np.stack(given), dtype=torch.float32))
    for one, result in zip(given, found, strict=True):
        assert np.abs(result.numpy() - through_singular_values(one)).max() < 1e-5


def test_singular_values_come_near_one():
    # Jordan et al.: within 0.3 of 1. Of what it does to values below 0.005 nothing is promised.
    x = np.linspace(0.005, 1, 100_001)
    assert 0.68 < polynomial(x).min() < polynomial(x).max() < 1.16
    given = matrix(0, 24, 60, smallest=0.1)
    left, _, right = np.linalg.svd(given, full_matrices=False)
    found = orthogonalize(torch.tensor(given)[None])[0].numpy()
    inner = left.T @ found @ right.T
    assert np.abs(inner - np.diag(np.diag(inner))).max() < 1e-12  # the singular vectors are those of the polar factor
    assert 0.68 < np.diag(inner).min() < np.diag(inner).max() < 1.16


def test_a_matrix_of_zeros_stays_so():
    assert not orthogonalize(torch.zeros(2, 3, 4)).any()


def test_the_coefficients_are_those_of_torch():
    assert torch.optim.Muon([torch.nn.Parameter(torch.zeros(2, 2))]).defaults["ns_coefficients"] == COEFFICIENTS


def trained(shape, rows, *, steps=4, lr=0.02, momentum=0.95, weight_decay=0.1):
    """The weights after some steps of ours, and the start and the gradients."""
    start = matrix(7, *shape) * 0.1
    gradients = [matrix(10 + step, *shape) for step in range(steps)]
    parameter = torch.nn.Parameter(torch.tensor(start, dtype=torch.float32))
    muon = Muon({parameter: rows}, lr=lr, momentum=momentum, weight_decay=weight_decay)
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient, dtype=torch.float32)
        muon.step()
    return parameter.detach().numpy(), start, gradients


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((12, 12), (12,)), ((30, 12), (30,)), ((12, 30), (12,)), ((24, 12), (12, 6, 6)), ((44, 12), (22, 22))],
)
@pytest.mark.parametrize("momentum", [0.95, 0.0])
def test_steps_are_those_of_a_float64_loop(shape, rows, momentum):
    found, weights, gradients = trained(shape, rows, momentum=momentum)
    mean = np.zeros(shape)
    for gradient in gradients:
        mean = momentum * mean + (1 - momentum) * gradient
        ahead = momentum * mean + (1 - momentum) * gradient
        weights = weights * (1 - 0.02 * 0.1)
        ends = [0, *itertools.accumulate(rows)]
        for first, last in itertools.pairwise(ends):
            longer = max(last - first, shape[1])
            weights[first:last] -= 0.02 * 0.2 * longer**0.5 * through_singular_values(ahead[first:last])
    assert np.abs(found - weights).max() < 1e-6


@pytest.mark.parametrize("shape", [(16, 16), (40, 16), (16, 40)])
def test_steps_are_those_of_torch_within_its_bfloat16(shape):
    found, start, gradients = trained(shape, (shape[0],))
    parameter = torch.nn.Parameter(torch.tensor(start, dtype=torch.float32))
    theirs = torch.optim.Muon([parameter], lr=0.02, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient, dtype=torch.float32)
        theirs.step()
    moved = np.sqrt(((found - start) ** 2).mean())
    assert np.sqrt(((found - parameter.detach().numpy()) ** 2).mean()) < 0.03 * moved


def test_an_update_is_as_large_as_one_of_adamw():
    # Moonshot: a root mean square of 0.2 times the learning rate, whatever the shape. The polynomial's values are 0.68 to 1.16.
    for shape in ((32, 32), (96, 32), (32, 96)):
        found, start, _ = trained(shape, (shape[0],), steps=1, weight_decay=0.0)
        assert np.sqrt(((found - start) ** 2).mean()) == pytest.approx(0.02 * 0.2, rel=0.35)


def test_sharded_parameters_take_the_same_steps():
    distributed = torch.distributed
    if not distributed.is_available():
        pytest.skip("this torch has no distributed package")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        expected, start, gradients = trained((24, 12), (12, 6, 6))
        parameter = torch.nn.Parameter(distribute_tensor(torch.tensor(start, dtype=torch.float32), mesh, [Shard(0)]))
        muon = Muon({parameter: (12, 6, 6)}, lr=0.02, momentum=0.95, weight_decay=0.1)
        for gradient in gradients:
            parameter.grad = distribute_tensor(torch.tensor(gradient, dtype=torch.float32), mesh, [Shard(0)])
            muon.step(skip=torch.tensor(0.0))
        assert np.array_equal(parameter.full_tensor().detach().numpy(), expected)
    finally:
        distributed.destroy_process_group()
