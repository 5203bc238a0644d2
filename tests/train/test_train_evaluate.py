from __future__ import annotations

import dataclasses
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from token_folder import EOS, documents, write_source

from curate.tokens.shard import Labels, TokenSource
from train import evaluate, scoring
from train.config import PRESETS, TrainError
from train.data import ValidationData
from train.evaluate import score
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


class Bigram(torch.nn.Module):
    """A model that gives the next token the bits of a table: of token i, row i; a token without an entry is impossible."""

    def __init__(self, bits, vocab_size):
        super().__init__()
        self.table = torch.full((vocab_size, vocab_size), -1e4)
        for before, line in bits.items():
            for token, one in line.items():
                self.table[before, token] = -one * math.log(2)
        self.head_weight = torch.eye(vocab_size)

    def forward(self, tokens):
        return self.table[tokens]


def nats_of(model, data, *, batch_size=3, whole=False):
    return evaluate.document_nats(
        data,
        lambda rows: scoring.score(
            model, model.head_weight, rows, batch_size=batch_size, context=data.context, eos_id=EOS, whole_batches=whole,
            autocast=torch.autocast("cpu", enabled=False),
        ),
    )  # fmt: skip


def open_validation(folder, parts, context, labels=()):
    write_source(folder, [np.array([5])], parts, labels=labels)
    return ValidationData(TokenSource.open(folder, "validation"), context)


# Shares of each row are powers of 2 and sum to 1: after EOS come 3 (1/2), 4 or the end (1/4 each), and so on.
BITS = {EOS: {3: 1, 4: 2, EOS: 2}, 3: {EOS: 1, 3: 2, 4: 2}, 4: {3: 1, 5: 2, 4: 3, EOS: 3}, 5: {5: 1, EOS: 1}}


@pytest.mark.parametrize(("batch_size", "whole"), [(1, False), (3, True)])
def test_bits_of_documents_by_hand(tmp_path, batch_size, whole):
    parts = [np.array(ids, dtype=int) for ids in ([3, 4], [], [4, 5, 5], [3] * 7)]
    data = open_validation(tmp_path / "web", parts, 4)
    bits = nats_of(Bigram(BITS, 60), data, batch_size=batch_size, whole=whole) / math.log(2)
    # The ends count: 1 + 2 + 3; 2 for nothing but an end; 2 + 2 + 1 + 1; 1 + 6 * 2 + 1 over two windows.
    assert bits == pytest.approx([6, 2, 6, 14], rel=1e-6)
    total = evaluate.source_score(data.source, bits * math.log(2))
    assert total.bits_per_byte == pytest.approx(28 / (3 * 12))
    assert total.loss == pytest.approx(28 * math.log(2) / 16)


def small_model():
    settings = dataclasses.replace(PRESETS["demo-1m"], layers=1, dim=16, heads=2, kv_heads=1, ffn_dim=24, context=8)
    model = Decoder(settings, 64)
    model.initialize(1)
    return model


def test_a_document_is_scored_as_it_is_alone(tmp_path):
    model, parts = small_model(), documents(0, 3, 13)
    data = open_validation(tmp_path / "web", parts, 8)
    wanted = []
    for ids in parts:
        stream = [
            *ids.tolist(),
            EOS,
        ]  # 14 tokens: windows of 8 and 6; the second one has EOS and the last token before it
        contexts = [[EOS, *stream[:place]] for place in range(8)] + [[EOS, *stream[7:place]] for place in range(8, 14)]
        with torch.no_grad():
            last = [torch.log_softmax(model.logits(torch.tensor([some]))[0, -1].double(), -1) for some in contexts]
        wanted.append(-sum(shares[token].item() for shares, token in zip(last, stream, strict=True)))
    assert nats_of(model, data) == pytest.approx(wanted, rel=1e-5)


def test_a_document_does_not_feel_its_neighbours(tmp_path):
    model, parts = small_model(), documents(0, 3, 13)
    together = nats_of(model, open_validation(tmp_path / "one", parts, 8))
    other = nats_of(model, open_validation(tmp_path / "two", [*documents(5, 2, 5), parts[2], parts[0]], 8))
    assert other[[3, 2]] == pytest.approx(together[[0, 2]], rel=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2, 50])
@pytest.mark.parametrize("whole", [True, False])
def test_the_score_does_not_depend_on_the_batch_size(tmp_path, batch_size, whole):
    model, data = small_model(), open_validation(tmp_path / "web", documents(0, 3, 13), 8)
    assert nats_of(model, data, batch_size=batch_size, whole=whole) == pytest.approx(nats_of(model, data), rel=1e-6)


def labelled(tmp_path, name, some):
    """A validation set of documents with 3 bytes and 2 tokens per unit of length; some: domain, language, documents, length."""
    parts = [np.full(length, 5) for _, _, count, length in some for _ in range(count)]
    labels = [Labels(domain, language) for domain, language, count, _ in some for _ in range(count)]
    return open_validation(tmp_path / name, parts, 8, labels)


def test_domains_by_hand(tmp_path):
    data = labelled(
        tmp_path,
        "web",
        [
            ("b.org", "en", 5, 1),
            ("a.org", "pt", 6, 1),
            ("c.org", "pt", 1, 1),
            (None, None, 1, 1),
            ("other", "en", 5, 1),
        ],
    )
    bits = np.array([6.0] * 5 + [3.0] * 6 + [12.0] * 2 + [1.0] * 5)  # of 3 bytes each
    nats = bits * math.log(2)
    found = evaluate.table(data.source, nats, "domain")
    assert list(found) == ["a.org", "b.org", "other"]  # the largest first; `other` last, whoever is called so
    assert found["a.org"] == {
        "documents": 6, "tokens": 12, "bytes": 18,
        "loss": pytest.approx(3 * math.log(2) / 2), "bits_per_byte": pytest.approx(1),
    }  # fmt: skip
    assert (found["b.org"]["documents"], found["b.org"]["bits_per_byte"]) == (5, pytest.approx(2))
    assert (found["other"]["documents"], found["other"]["bits_per_byte"]) == (7, pytest.approx(29 / 21))
    languages = evaluate.table(data.source, nats, "language")
    assert {label: one["documents"] for label, one in languages.items()} == {"en": 10, "pt": 7, "other": 1}
    assert languages["pt"]["bits_per_byte"] == pytest.approx(30 / 21)
    assert evaluate.macro(found) == pytest.approx((1 + 2 + 29 / 21) / 3)


def test_the_macro_average_counts_sources_and_their_domains_the_same(tmp_path):
    web = labelled(tmp_path, "web", [("a.org", None, 5, 1), ("b.org", None, 20, 1)])
    books = labelled(tmp_path, "books", [(None, None, 7, 1)])
    nats = {"web": np.array([3.0] * 5 + [9.0] * 20) * math.log(2), "books": np.full(7, 12.0) * math.log(2)}
    found = evaluate.line({"web": web, "books": books}, nats)
    assert found["domains"]["web"]["b.org"] == {
        "loss": pytest.approx(9 * math.log(2) / 2), "bits_per_byte": pytest.approx(3),
    }  # fmt: skip
    assert list(found["domains"]["books"]) == ["not stated"]
    assert found["macro_bits_per_byte"] == pytest.approx(((1 + 3) / 2 + 4) / 2)


@pytest.mark.parametrize(("count", "macro"), [(4, (1 + 3) / 2), (5, (1 + 3 + 2) / 3)])
def test_what_is_left_counts_in_the_macro_average_if_it_is_as_large_as_a_domain(tmp_path, count, macro):
    data = labelled(tmp_path, "web", [("a.org", None, 5, 1), ("b.org", None, 5, 1), *[(None, None, 1, 1)] * (count - 3),
                                      ("c.org", None, 3, 1)])  # fmt: skip
    nats = np.array([3.0] * 5 + [9.0] * 5 + [6.0] * count) * math.log(2)
    found = evaluate.table(data.source, nats, "domain")
    assert found["other"]["documents"] == count
    assert evaluate.macro(found) == pytest.approx(macro)


@pytest.mark.parametrize(("length", "alone"), [(165, True), (166, False)])
def test_a_domain_needs_a_share_of_the_bytes(tmp_path, length, alone):
    # 75 bytes beside 15 documents of 3 * length: 1% of 75 + 45 * 165 = 7,500.
    data = labelled(tmp_path, "web", [("small.org", None, 5, 5), ("large.org", None, 15, length)])
    assert (list(evaluate.table(data.source, np.ones(20), "domain"))[1] == "small.org") is alone


def test_documents_without_a_byte_are_no_domain(tmp_path):
    data = labelled(tmp_path, "web", [("a.org", None, 5, 1), ("empty.org", None, 6, 0)])
    assert list(evaluate.table(data.source, np.ones(11), "domain")) == ["a.org"]


def test_records_by_hand(tmp_path):
    web = labelled(tmp_path, "web", [("a.org", "en", 1, 2), (None, "pt", 1, 1)])
    books = labelled(tmp_path, "books", [(None, None, 1, 3)])
    validation = {"web": web, "books": books}
    nats = {"web": np.array([1.5, 2.5]), "books": np.array([4.0])}
    for name in ("1", "2"):
        evaluate.write(tmp_path / f"{name}.parquet", validation, nats)
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "2.parquet").read_bytes()
    names = evaluate.RECORDS.names
    assert [tuple(row[name] for name in names) for row in pq.read_table(tmp_path / "1.parquet").to_pylist()] == [
        ("web", "web-validation-0", "a.org", "en", 3, 6, 1.5),
        ("web", "web-validation-1", None, "pt", 2, 3, 2.5),
        ("books", "books-validation-0", None, None, 4, 9, 4.0),
    ]
    found = evaluate.summary(tmp_path / "1.parquet", validation)
    bits = [4 / 9 / math.log(2), 4 / 9 / math.log(2)]  # both sources are one group: web's two documents are too few
    assert found["macro_bits_per_byte"] == pytest.approx(sum(bits) / 2)
    assert found["domains"]["web"]["macro_bits_per_byte"] == pytest.approx(bits[0])
    assert list(found["domains"]["web"]["by_domain"]) == list(found["domains"]["web"]["by_language"]) == ["other"]
    (tmp_path / "1.parquet").write_bytes(b"no")
    with pytest.raises(TrainError, match="cannot be read"):
        evaluate.summary(tmp_path / "1.parquet", validation)
