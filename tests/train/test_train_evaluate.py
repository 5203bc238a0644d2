from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from token_folder import EOS, documents, write_source

from curate.tokens.shard import TokenSource
from train.config import PRESETS, TrainError
from train.data import ValidationData
from train.evaluate import evaluate, score
from train.model import Decoder


def test_bits_per_byte_by_hand():
    # 6 targets at 2 bits each over 4 bytes: 12 bits / 4 bytes.
    result = score(nats=12 * math.log(2), num_tokens=6, num_bytes=4)
    assert result.bits_per_byte == pytest.approx(3.0)
    assert result.loss == pytest.approx(2 * math.log(2))
    assert result.perplexity == pytest.approx(4.0)


@pytest.mark.parametrize(("tokens", "size"), [(0, 5), (5, 0)])
def test_no_token_or_no_byte_has_no_score(tokens, size):
    with pytest.raises(ValueError, match="needs tokens and bytes"):
        score(nats=1.0, num_tokens=tokens, num_bytes=size)


@pytest.mark.parametrize("nats", [math.nan, math.inf, 701.0])
def test_a_diverged_model_has_no_score(nats):
    with pytest.raises(TrainError, match="diverged"):
        score(nats=nats, num_tokens=1, num_bytes=1)
    assert score(nats=700.0, num_tokens=1, num_bytes=1).perplexity < math.inf


def model_and_data(tmp_path):
    settings = dataclasses.replace(PRESETS["demo-1m"], layers=1, dim=16, heads=2, kv_heads=1, ffn_dim=24, context=8)
    model = Decoder(settings, 64)
    model.initialize(1)
    write_source(tmp_path / "web", [np.array([5])], documents(0, 3, 13))
    return model, ValidationData(TokenSource.open(tmp_path / "web", "validation"), 8)


def run(model, data, batch_size, whole=False):
    autocast = torch.autocast("cpu", enabled=False)
    return evaluate(model, model.head_weight, data, batch_size=batch_size, whole_batches=whole, autocast=autocast)


def test_the_score_is_that_of_each_token_by_itself(tmp_path):
    model, data = model_and_data(tmp_path)
    stream = data.source.tokens(0, data.source.num_tokens).tolist()
    assert len(stream) == 42  # three documents of 13 tokens and their EOS: five windows of 8 and one of 2
    nats = 0.0
    for place, target in enumerate(stream):
        start = place // 8 * 8
        context = ([EOS, *stream])[start : place + 1]
        with torch.no_grad():
            nats -= torch.log_softmax(model.logits(torch.tensor([context]))[0, -1], -1)[target].item()
    result = run(model, data, 4)
    assert result.loss == pytest.approx(nats / 42, rel=1e-5)
    assert result.bits_per_byte == pytest.approx(nats / math.log(2) / (3 * 3 * 13), rel=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 5, 6, 50])
@pytest.mark.parametrize("whole", [True, False])
def test_the_score_does_not_depend_on_the_batch_size(tmp_path, batch_size, whole):
    model, data = model_and_data(tmp_path)
    assert run(model, data, batch_size, whole).loss == pytest.approx(run(model, data, 3).loss, rel=1e-6)
