"""The losses of tuning, against numbers worked out by hand and against float64."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

from train.config import PRESETS
from train.model import Decoder
from train.tuning.dpo import Dpo, preference_loss, read_reference, reference_log_probs, write_reference
from train.tuning.examples import Example, Row
from train.tuning.objective import Scorer
from train.tuning.sft import Sft

NO_AUTOCAST = torch.autocast("cpu", enabled=False)
LN2, LN3 = math.log(2), math.log(3)


def row(prompt, response, num_bytes=1):
    """A row whose response is all behind the prompt."""
    is_target = np.arange(1, len(prompt) + len(response)) >= len(prompt)
    return Row(np.array([*prompt, *response], np.int64), is_target, num_bytes)


def example(*rows, number=1):
    return Example(("rows.jsonl", number), rows, 0.5)


class Toy(nn.Module):
    """Two tokens. After token 0 the logits are `a`, after token 1 they are `b`, whatever came before."""

    def __init__(self, a, b):
        super().__init__()
        self.table = nn.Parameter(torch.tensor([a, b]))
        self.head = torch.eye(2)

    def forward(self, tokens):
        return self.table[tokens]


def toy(a, b=(0.0, 0.0)):
    model = Toy(a, b)
    return model, Scorer(model, model.head, 0, NO_AUTOCAST)


def test_supervised_loss_by_hand():
    # After 0: probabilities 1/4 and 3/4. After 1: 1/2 and 1/2.
    model, scorer = toy((0.0, LN3))
    first = example(row([0, 0], [1, 1, 0]))  # nats: ln 4/3 after 0, then ln 2 and ln 2 after 1
    second = example(row([1, 0], [0]))  # nats: ln 4 after 0
    batch = [second, first]
    loss = Sft().of_part(scorer, batch, batch)
    assert loss.tolist() == pytest.approx([(math.log(4 / 3) + 2 * LN2 + math.log(4)) / 4])  # 0.7650677
    assert loss.item() == pytest.approx(0.7650677, abs=1e-6)
    # The parts of a batch add up to it: the mean is over its four targets, not over examples or parts.
    by_parts = [Sft().of_part(scorer, [one], batch) for one in batch]
    assert [part.item() for part in by_parts] == pytest.approx([0.3465736, 0.4184941], abs=1e-6)
    sum(by_parts)[0].backward()
    # After 0, per target: probabilities less one-hot. (1/4, 3/4 - 1) and (1/4 - 1, 3/4): their sum is (-1/2, 1/2), over 4.
    # After 1: (1/2, -1/2) for the target 1 and (-1/2, 1/2) for the target 0: nothing. Prompts have no gradient.
    assert model.table.grad.tolist() == [pytest.approx([-0.125, 0.125]), pytest.approx([0.0, 0.0], abs=1e-7)]
    score = Sft().score(scorer, batch, 1)
    assert (score.loss, score.perplexity) == pytest.approx((0.7650677, math.exp(0.7650677)), abs=1e-6)
    assert score.bits_per_byte == pytest.approx(4 * 0.7650677 / LN2 / 2, abs=1e-5)  # two bytes in all


@pytest.mark.parametrize(
    ("beta", "smoothing", "loss", "slope"),
    [
        # margin = beta ln 3. beta = 1: sigmoid(ln 3) = 3/4; loss -ln 3/4; d loss / d margin = 3/4 - 1.
        (1.0, 0.0, 0.2876821, -0.25),
        # beta = 0.1: 3^0.1 = 1.1161232; sigmoid = 1.1161232 / 2.1161232 = 0.5274377; -ln of it; 0.5274377 - 1.
        (0.1, 0.0, 0.6397245, -0.4725623),
        # a tenth of the weight on -ln(1 - 3/4) = 1.3862944: 0.9 * 0.2876821 + 0.1 * 1.3862944; 3/4 - 0.9.
        (1.0, 0.1, 0.3975433, -0.15),
    ],
)
def test_preference_loss_by_hand(beta, smoothing, loss, slope):
    # After 0: probabilities 1/4 and 3/4. Chosen is 1, rejected is 0. The reference has 1/2 for both: the log-ratios are
    # ln 3/2 and ln 1/2, and their difference is ln 3.
    model, scorer = toy((0.0, LN3))
    pair = example(row([1, 0], [1]), row([1, 0], [0]))
    objective = Dpo({pair.place: (-LN2, -LN2)}, beta=beta, label_smoothing=smoothing)
    figures = objective.of_part(scorer, [pair], [pair])
    named = dict(zip(objective.figures, figures.tolist(), strict=True))
    assert named["loss"] == pytest.approx(loss, abs=1e-6)
    assert named["accuracy"] == 1.0
    assert named["margin"] == pytest.approx(beta * LN3)
    assert named["chosen_reward"] == pytest.approx(beta * math.log(1.5))
    assert named["rejected_reward"] == pytest.approx(beta * -LN2)
    figures[0].backward()
    # d (log p_1 - log p_0) / d logits = (-1, 1): the normaliser is in both.
    assert model.table.grad.tolist() == [pytest.approx([-slope * beta, slope * beta], abs=1e-6), [0.0, 0.0]]


def test_a_response_counts_with_all_its_tokens_and_a_batch_with_all_its_pairs():
    # After 0: 1/4 and 3/4. Chosen 0 0 1: ln(1/4 * 1/4 * 3/4); rejected 1: ln 3/4. Reference: the same and ln 1/4.
    _, scorer = toy((0.0, LN3))
    long = example(row([1, 0], [0, 0, 1]), row([1, 0], [1]), number=1)
    even = example(row([1, 0], [1]), row([1, 0], [0]), number=2)
    reference = reference_log_probs(scorer, [[even]])
    assert reference[even.place] == pytest.approx((math.log(3 / 4), math.log(1 / 4)))
    reference[long.place] = (math.log(3 / 64), math.log(1 / 4))
    objective = Dpo(reference, beta=1.0, label_smoothing=0.0)
    batch = [long, even]
    # The first pair's margin is 0 - ln 3: loss -ln 1/4. The second's is 0: loss ln 2, and a tie is half right.
    loss, accuracy, margin, chosen, rejected = objective.of_part(scorer, batch, batch).tolist()
    assert (loss, accuracy, margin) == pytest.approx(((math.log(4) + LN2) / 2, 0.25, -LN3 / 2), abs=1e-6)
    assert (chosen, rejected) == pytest.approx((0.0, LN3 / 2), abs=1e-6)
    assert objective.of_part(scorer, [even], [even])[0].item() == LN2  # to the bit
    by_parts = sum(objective.of_part(scorer, [one], batch) for one in batch)
    assert by_parts.tolist() == pytest.approx([loss, accuracy, margin, chosen, rejected], abs=1e-6)
    assert dataclasses.astuple(objective.score(scorer, batch, 1)) == pytest.approx(
        (loss, 0.25, margin, chosen, rejected)
    )


def test_far_margins_stay_finite():
    margin = torch.tensor([-2000.0, 0.0, 2000.0], dtype=torch.float64, requires_grad=True)
    loss = preference_loss(margin, 0.0)
    assert loss.tolist() == [2000.0, LN2, 0.0]
    loss.sum().backward()
    assert margin.grad.tolist() == [-1.0, -0.5, 0.0]


SETTINGS = dataclasses.replace(PRESETS["demo-1m"], layers=2, dim=16, heads=2, kv_heads=1, ffn_dim=24, context=16)


def decoder(seed=1):
    model = Decoder(SETTINGS, 64)
    model.initialize(seed)
    with torch.no_grad():
        model.embedding.weight.mul_(20)  # far from uniform, so that a wrong target shows
    return model


def examples(count, sides):
    random = np.random.default_rng(5)
    found = []
    for number in range(count):
        prompt = random.integers(0, 60, random.integers(1, 8)).tolist()
        rows = [row(prompt, random.integers(0, 60, random.integers(1, 8)).tolist()) for _ in range(sides)]
        found.append(example(*rows, number=number))
    return found


def float64_log_probs(model, one):
    """Log-probability of a row's response by plain torch: one row, no filling, no chunk, full softmax."""
    logits = model.logits(torch.from_numpy(one.tokens[None, :-1]))[0]
    picked = torch.log_softmax(logits, -1).gather(1, torch.from_numpy(one.tokens[1:, None]))[:, 0]
    return picked[torch.from_numpy(one.is_target)].sum()


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.double() for name, parameter in model.named_parameters()}


def close(model, loss, wanted, wanted_loss):
    assert loss.item() == pytest.approx(wanted_loss.item(), rel=1e-5)
    one, other = gradients(model, loss), gradients(wanted, wanted_loss)
    for name in one:
        assert torch.allclose(one[name], other[name], rtol=1e-3, atol=1e-6), name


def test_supervised_loss_is_the_response_s_part_of_the_loss_of_pretraining():
    model, exact, batch = decoder(), decoder().double(), examples(7, 1)
    scorer = Scorer(model, model.head_weight, 2, NO_AUTOCAST)
    loss = sum(Sft().of_part(scorer, part, batch)[0] for part in (batch[:3], batch[3:]))
    targets = sum(one.rows[0].num_targets for one in batch)
    wanted = -sum(float64_log_probs(exact, one.rows[0]) for one in batch) / targets
    close(model, loss, exact, wanted)


def test_preference_loss_against_float64():
    model, exact, batch = decoder(), decoder().double(), examples(7, 2)
    start, exact_start = decoder(2), decoder(2).double()
    reference = reference_log_probs(Scorer(start, start.head_weight, 2, NO_AUTOCAST), [batch[:4], batch[4:]])
    scorer = Scorer(model, model.head_weight, 2, NO_AUTOCAST)
    objective = Dpo(reference, beta=0.3, label_smoothing=0.2)
    loss = sum(objective.of_part(scorer, part, batch)[0] for part in (batch[:3], batch[3:]))
    margins = []
    for one in batch:
        chosen, rejected = (
            float64_log_probs(exact, side) - float64_log_probs(exact_start, side).detach() for side in one.rows
        )
        margins.append(0.3 * (chosen - rejected))
    chance = torch.sigmoid(torch.stack(margins))
    wanted = -(0.8 * chance.log() + 0.2 * (1 - chance).log()).mean()
    close(model, loss, exact, wanted)
    for one in batch:
        exactly = [float64_log_probs(exact_start, side).item() for side in one.rows]
        assert reference[one.place] == pytest.approx(exactly, rel=1e-5)


def test_a_stored_reference_comes_back_to_the_bit_and_only_for_what_it_was_made_of(tmp_path):
    path = tmp_path / "reference.parquet"
    reference = {("a.jsonl", 1): (-0.1, -1 / 3), ("b.jsonl", 1): (-2e-308, -1e9)}
    made_of = {"data": {"start": "0a", "a.jsonl": "1b"}, "context": 8}
    assert read_reference(path, made_of) is None
    write_reference(path, reference, made_of)
    assert read_reference(path, made_of) == reference
    assert read_reference(path, made_of | {"data": {"start": "0b", "a.jsonl": "1b"}}) is None
    path.write_bytes(path.read_bytes()[:-9])
    assert read_reference(path, made_of) is None
