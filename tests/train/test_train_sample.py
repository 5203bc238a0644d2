"""Sampling: each filter by hand on both sides of its edge, the draw against its distribution, the command on trained models."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import sys

import pytest
import torch
from scipy.stats import chisquare
from trained_run import TOKENIZER_VOCAB, spread_out, trained_run

from train import sample
from train.__main__ import main
from train.config import PRESETS, ConfigError
from train.model import Decoder
from train.sample import Sampling, draw, generate, keep_top_k, keep_top_p, penalized

TINY = dataclasses.replace(
    PRESETS["demo-1m"], layers=2, dim=16, heads=4, kv_heads=2, ffn_dim=24, context=16, qk_norm=True, tied=True
)
VERSE = "the cat, é!"
GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model that knows one text by heart."""
    return trained_run(
        tmp_path_factory.mktemp("verse"), steps=150, text=VERSE, context=16, lr=0.02, log_every=50, eval_every=150,
        save_every=150,
    )  # fmt: skip


def logs(*chances):
    return torch.tensor([chances], dtype=torch.float64).log()


def kept(logits):
    return [place for place, value in enumerate(logits[0].tolist()) if value > -math.inf]


def test_used_tokens_become_less_likely_whatever_the_sign():
    logits = torch.tensor([[2.0, -2.0, 2.0, -2.0, 0.0]])
    used = torch.tensor([[True, True, False, False, True]])
    assert penalized(logits, used, 4.0).tolist() == [[0.5, -8.0, 2.0, -2.0, 0.0]]
    assert torch.equal(penalized(logits, used, 1.0), logits)


@pytest.mark.parametrize(
    ("k", "places"), [(1, [0]), (2, [0, 2, 3]), (3, [0, 2, 3]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3])]
)
def test_top_k_keeps_what_ties_with_the_last(k, places):
    assert kept(keep_top_k(torch.tensor([[3.0, 1.0, 2.0, 2.0]]), k)) == places


@pytest.mark.parametrize(
    ("chances", "p", "places"),
    [
        ((0.2, 0.5, 0.3), 0.49, [1]),
        ((0.2, 0.5, 0.3), 0.51, [1, 2]),
        ((0.2, 0.5, 0.3), 0.79, [1, 2]),
        ((0.2, 0.5, 0.3), 0.81, [0, 1, 2]),
        ((0.25, 0.25, 0.25, 0.25), 0.25, [0]),  # exact in binary: p itself is enough
        ((0.25, 0.25, 0.25, 0.25), 0.25 + 1e-9, [0, 1]),
        ((0.25, 0.25, 0.25, 0.25), 0.75, [0, 1, 2]),
        ((0.25, 0.25, 0.25, 0.25), 1e-9, [0]),  # never none
    ],
)
def test_top_p_keeps_the_smallest_set_with_that_probability(chances, p, places):
    assert kept(keep_top_p(logs(*chances), p)) == places


def test_temperature_comes_before_the_filters():
    unused = torch.zeros(1, 3, dtype=torch.bool)
    # Temperature 1/2 squares 0.5, 0.3, 0.2 to 25, 9, 4 of 38: the first alone has 0.658.
    assert Sampling(temperature=0.5).probabilities(logs(0.5, 0.3, 0.2), unused).tolist()[0] == pytest.approx(
        [25 / 38, 9 / 38, 4 / 38]
    )
    assert Sampling(temperature=0.5, top_p=0.65).probabilities(logs(0.5, 0.3, 0.2), unused).tolist() == [[1, 0, 0]]
    # top-k first leaves 0.5 and 0.3, of which the first has 0.625: more than 0.6. Of all three it has 0.5.
    both = Sampling(top_k=2, top_p=0.6).probabilities(logs(0.5, 0.3, 0.2), unused)
    assert both.tolist() == [[1, 0, 0]]


def test_temperature_zero_takes_the_likeliest_and_minds_the_penalty():
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.9]])
    unused = torch.zeros(1, 4, dtype=torch.bool)
    assert GREEDY.probabilities(logits, unused).tolist() == [[0, 1, 0, 0]]
    used = torch.tensor([[False, True, True, False]])
    assert Sampling(temperature=0, repetition_penalty=1.1).probabilities(logits, used).tolist() == [[0, 0, 0, 1]]


def test_a_draw_is_where_the_sum_passes_the_number():
    chances = torch.tensor([[0.25, 0.0, 0.5, 0.25]], dtype=torch.float64)
    numbers = [0.0, 0.2499, 0.25, 0.7499, 0.75, math.nextafter(1.0, 0.0)]
    drawn = draw(chances.expand(6, 4), torch.tensor(numbers, dtype=torch.float64))
    assert drawn.tolist() == [0, 0, 2, 2, 3, 3]


class Fixed(Decoder):
    """A decoder whose logits are the same everywhere; counts the tokens that it reads."""

    def __init__(self, logits):
        super().__init__(dataclasses.replace(TINY, dim=4, heads=1, kv_heads=1, layers=1), len(logits))
        with torch.no_grad():
            self.embedding.weight.zero_()[:, 0] = torch.tensor(logits)
        self.read = 0

    def forward(self, tokens, seen=None):
        self.read += tokens.shape[1]
        for one in seen:
            one.extend(torch.zeros(len(tokens), 1, tokens.shape[1], 4), torch.zeros(len(tokens), 1, tokens.shape[1], 4))
        return torch.eye(4)[0].expand(*tokens.shape, 4)


def continued(
    decoder, prompt=(), *, seeds=(0,), sampling=GREEDY, max_tokens=20, context=16, vocab_size=None, eos_id=-1
):
    said = []
    rows = generate(
        decoder, [2], list(prompt), sampling=sampling, seeds=seeds, max_tokens=max_tokens, context=context,
        vocab_size=vocab_size or len(decoder.embedding.weight), eos_id=eos_id, warn=said.append,
    )  # fmt: skip
    return rows, said


def test_draws_follow_the_distribution():
    chances = [0.4, 0.3, 0.15, 0.1, 0.05]
    rows, _ = continued(Fixed([math.log(one) for one in chances]), seeds=range(4000), sampling=Sampling(), max_tokens=1)
    counts = torch.bincount(torch.tensor(rows)[:, 0], minlength=5).tolist()
    assert chisquare(counts, [4000 * one for one in chances]).pvalue > 0.01
    other = [0.37, 0.33, 0.15, 0.1, 0.05]  # the test sees 3 % more of one
    assert chisquare(counts, [4000 * one for one in other]).pvalue < 0.001
    rows, _ = continued(Fixed([math.log(one) for one in chances]), seeds=[3], sampling=Sampling(), max_tokens=4000)
    counts = torch.bincount(torch.tensor(rows)[0], minlength=5).tolist()  # along one text as well
    assert chisquare(counts, [4000 * one for one in chances]).pvalue > 0.01


def test_padding_is_never_chosen_though_it_is_likeliest():
    decoder = Fixed([1.0, 2.0, 0.0, 9.0, 9.0])
    assert continued(decoder, vocab_size=3, max_tokens=3)[0] == [[1, 1, 1]]
    rows, _ = continued(decoder, vocab_size=3, seeds=range(50), sampling=Sampling(temperature=100.0), max_tokens=4)
    assert {token for row in rows for token in row} == {0, 1, 2}


def test_a_token_costs_a_token_until_the_context_is_full():
    decoder = Fixed([1.0, 2.0, 3.0])
    _, said = continued(decoder, [0, 1], max_tokens=14)  # with its beginning 3, and 13 more: the last needs no reading
    assert (decoder.read, said) == (16, [])
    decoder = Fixed([1.0, 2.0, 3.0])
    _, said = continued(decoder, [0, 1], max_tokens=15)
    assert decoder.read == 16 + 8
    assert said == ["the context of 16 tokens is full: the text goes on from the last half of it"]


def test_the_prompt_counts_as_used_but_what_stands_before_it_does_not():
    decoder = Fixed([1.0, 0.9, 0.8])
    harsh = Sampling(temperature=0, repetition_penalty=10.0)
    assert continued(decoder, [0], sampling=harsh, max_tokens=2)[0] == [[1, 2]]  # 2 began the document


@pytest.mark.parametrize("length", [3, 15, 16, 40])
def test_what_is_kept_of_earlier_tokens_changes_nothing(length):
    decoder = Decoder(TINY, 64)
    spread_out(decoder, 0.5, 1)
    prompt = torch.randint(0, 64, (length,), generator=torch.Generator().manual_seed(length)).tolist()
    rows, said = continued(decoder, prompt, max_tokens=30)
    text = [2, *prompt]
    window = text[-16:]
    for _ in range(30):
        if len(window) == 17:
            window = window[-8:]
        with torch.no_grad():
            likeliest = decoder.logits(torch.tensor([window]))[0, -1].argmax().item()
        text.append(likeliest)
        window.append(likeliest)
    assert rows == [text[length + 1 :]]
    assert len(set(rows[0])) > 5
    assert len(said) == 1 + (length > 15)


def test_samples_do_not_depend_on_their_company():
    decoder = Decoder(TINY, 64)
    spread_out(decoder, 0.5, 1)
    together, _ = continued(decoder, [5], seeds=[7, 8, 9], sampling=Sampling(), eos_id=11)
    alone = [continued(decoder, [5], seeds=[seed], sampling=Sampling(), eos_id=11)[0][0] for seed in (7, 8, 9)]
    assert together == alone
    assert len({tuple(row) for row in together}) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", -0.1), ("temperature", math.nan), ("top_k", 0), ("top_p", 0.0), ("top_p", 1.01), ("repetition_penalty", 0)],
)  # fmt: skip
def test_ranges(name, value):
    with pytest.raises(ConfigError, match=f"--{name.replace('_', '-')}: must be"):
        Sampling(**{name: value})


def test_the_command_prints_text_and_nothing_else(run, capsys):
    assert main(["sample", str(run), "--prompt", "the c", "--temperature", "0"]) == 0
    printed = capsys.readouterr()
    assert printed.out == VERSE + "\n"
    assert printed.err == ""
    assert main(["sample", str(run / "checkpoints" / "step_00000150"), "--temperature", "0"]) == 0
    assert capsys.readouterr().out == VERSE + "\n"  # from the beginning of a document
    assert main(["sample", str(run), "--num", "2", "--seed", "4", "--top-k", "5", "--tokens", "3"]) == 0
    first = capsys.readouterr()
    assert "-- sample 2 of 2, seed 5, not at its end" in first.err
    assert main(["sample", str(run), "--num", "2", "--seed", "4", "--top-k", "5", "--tokens", "3"]) == 0
    assert capsys.readouterr().out == first.out


def test_a_character_cut_in_two_is_left_out(run, capsys):
    for tokens, text, ids in (("1", "", [0xC4]), ("2", "é", [0xC4, 0xAA])):
        arguments = ["sample", str(run), "--prompt", "the cat, ", "--temperature", "0", "--tokens", tokens, "--json"]
        assert main(arguments) == 0
        [line] = capsys.readouterr().out.splitlines()
        assert json.loads(line) == {"seed": 0, "prompt": "the cat, ", "text": text, "ended": False, "ids": ids}


def test_a_prompt_from_standard_input(run, capsys, monkeypatch):
    def given(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return main(["sample", str(run), "--prompt", "-", "--temperature", "0"])

    assert given("the cat, é\n".encode()) == 0
    assert capsys.readouterr().out == VERSE + "\n"
    assert given(b"caf\xe9") == 2
    assert "--prompt: is not UTF-8" in capsys.readouterr().err
    assert (
        main(["sample", str(run), "--prompt", "caf\udce9"]) == 2
    )  # how Python hands over such a byte of a command line
    assert main(["sample", str(run), "--tokens", "0"]) == 2
    assert "--tokens: must be at least 1, is 0." in capsys.readouterr().err


def test_a_terminal_is_not_told_what_to_do():
    assert sample._shown("a\x1b[2J\tb\né\x9b") == "a\ufffd[2J\tb\né\ufffd"


def test_the_vocabulary_of_the_run_is_padded(run):
    identity = json.loads((run / "resolved.json").read_text())["identity"]
    assert (identity["vocab_size"], identity["padded_vocab_size"]) == (TOKENIZER_VOCAB, 320)
