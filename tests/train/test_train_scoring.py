from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from train import scoring
from train.config import PRESETS, TrainError
from train.loss import IGNORED
from train.model import Decoder
from train.scoring import Row, Scored

SETTINGS = dataclasses.replace(PRESETS["demo-1m"], layers=1, dim=16, heads=2, kv_heads=1, ffn_dim=24, context=8)
EOS = 2


def row(prompt, continuation, name="item 1 of quiz"):
    return Row(np.array(prompt, np.int64), np.array(continuation, np.int64), name)


GIVEN = (
    row([5, 6], [7]),
    row([], [9]),
    row([12, 13, 14, 15, 16, 17, 18, 19, 20], [21, 22]),
    row([8], [9, 10]),
)


def test_rows_by_hand():
    no = IGNORED
    found = list(scoring.batches(GIVEN, batch_size=2, context=4, eos_id=2, whole=False))
    assert [places for places, _, _ in found] == [[2, 0], [3, 1]]  # the longest first; ties as they were given
    assert found[0][1].tolist() == [[18, 19, 20, 21], [2, 5, 6, 2]]  # of a long prompt the end
    assert found[0][2].tolist() == [[no, no, 21, 22], [no, no, 7, no]]
    assert found[1][1].tolist() == [[2, 8, 9], [2, 2, 2]]
    assert found[1][2].tolist() == [[no, 9, 10], [9, no, no]]


def test_a_compiled_model_sees_few_shapes():
    rows = [row(range(3, 3 + size), [5]) for size in (1, 40, 127, 128, 200, 300)]  # 2, 41, 128, 129, 201, 301 tokens
    found = scoring.batches(rows, batch_size=2, context=300, eos_id=2, whole=True)
    assert [inputs.shape for _, inputs, _ in found] == [(2, 300), (2, 256), (4, 128)]
    [(places, inputs, targets)] = scoring.batches(rows[:1], batch_size=3, context=8, eos_id=2, whole=True)
    assert (places, inputs.tolist()[0], inputs.shape) == ([0], [2, 3, 2, 2, 2, 2, 2, 2], (3, 8))
    assert (targets != IGNORED).sum() == 1


def score(decoder, rows, *, batch_size=2, context=8, whole=False):
    return scoring.score(
        decoder, decoder.head_weight, rows, batch_size=batch_size, context=context, eos_id=EOS, whole_batches=whole,
        autocast=torch.autocast("cpu", enabled=False),
    )  # fmt: skip


class Bigram(torch.nn.Module):
    """A model whose logits are a table: of token i, row i. Five tokens."""

    def __init__(self, table):
        super().__init__()
        self.table = torch.tensor(table, dtype=torch.float32)
        self.head_weight = torch.eye(len(table))

    def forward(self, tokens):
        return self.table[tokens]


def test_nats_and_greedy_by_hand():
    # Logits ln of the shares: after 2 (EOS) comes 3 with 1/2; after 3 comes 4 with 3/4; after 4 comes 0 with 4/10.
    shares = [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 4, 1], [1, 1, 1, 1, 12], [4, 1, 3, 1, 1]]
    decoder = Bigram([[math.log(one) for one in line] for line in shares])
    found = score(decoder, [row([], [3, 4]), row([3], [4, 2]), row([4], [0]), row([4, 4, 4, 4, 3], [4])], context=5)
    assert [one.nats for one in found] == pytest.approx(
        [math.log(2 * 4 / 3), math.log(4 / 3 * 10 / 3), math.log(10 / 4), math.log(4 / 3)], rel=1e-6
    )
    assert [one.greedy for one in found] == [True, False, True, True]
    assert [one.cut for one in found] == [False, False, False, True]


@pytest.mark.parametrize(("batch_size", "whole"), [(1, False), (2, True), (4, False)])
def test_rows_do_not_see_one_another(batch_size, whole):
    decoder = Decoder(SETTINGS, 64)
    decoder.initialize(1)
    found = score(decoder, GIVEN, batch_size=batch_size, whole=whole)
    for one, got in zip(GIVEN, found, strict=True):
        ids = torch.tensor([EOS, *one.prompt, *one.continuation])[-9:]
        with torch.no_grad():
            shares = torch.log_softmax(decoder.logits(ids[None, :-1])[0].double(), -1)  # (T, V)
        places = range(len(ids) - 1 - len(one.continuation), len(ids) - 1)
        wanted = -sum(shares[place, ids[place + 1]].item() for place in places)
        assert got.nats == pytest.approx(wanted, rel=1e-5)
        assert got.greedy == all(shares[place].argmax() == ids[place + 1] for place in places)
        assert isinstance(got, Scored)


def test_many_targets_go_through_the_head_in_parts(monkeypatch):
    decoder = Decoder(SETTINGS, 64)
    decoder.initialize(1)
    whole = score(decoder, GIVEN, batch_size=4)
    monkeypatch.setattr(scoring, "CHUNK", 2)
    parts = score(decoder, GIVEN, batch_size=4)
    assert [one.nats for one in parts] == pytest.approx([one.nats for one in whole], rel=1e-6)


def test_a_diverged_model_is_named():
    decoder = Decoder(SETTINGS, 64)
    torch.nn.init.constant_(decoder.embedding.weight, math.nan)
    with pytest.raises(TrainError, match=r"the loss of item 1 of quiz is nan: the model has diverged"):
        score(decoder, GIVEN)
