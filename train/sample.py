"""Continuing a prompt: which token comes next is drawn from what the model finds likely."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from train import metrics
from train.config import ConfigError
from train.model import Decoder, KeyValues
from train.trained import open_trained

_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How the next token is chosen: penalty, temperature, then `top_k`, then `top_p` of what is left.

    Attributes:
        temperature: Divides the logits; 0 takes the likeliest token.
        top_k: Only the k likeliest tokens, and those that tie with the last of them; None: all.
        top_p: Only the fewest likeliest tokens that have this probability together (Holtzman et al. 2020, arXiv:1904.09751).
        repetition_penalty: For tokens of the prompt or the text so far (Keskar et al. 2019, arXiv:1909.05858).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        for name, holds, wanted in (
            ("temperature", 0 <= self.temperature < math.inf, "at least 0"),
            ("top-k", self.top_k is None or self.top_k >= 1, "at least 1"),
            ("top-p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("repetition-penalty", 0 < self.repetition_penalty < math.inf, "above 0; 1 is none"),
        ):
            if not holds:
                raise ConfigError(f"--{name}: must be {wanted}, is {getattr(self, name.replace('-', '_'))}.")

    def probabilities(self, logits: Tensor, used: Tensor) -> Tensor:
        """Return the probabilities of the next token, float64, shape (B, V).

        Args:
            logits: Shape (B, V).
            used: Which tokens have been used, shape (B, V).
        """
        logits = penalized(logits.double(), used, self.repetition_penalty)
        if self.temperature == 0:
            return functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()
        logits = logits / self.temperature
        if self.top_k is not None:
            logits = keep_top_k(logits, self.top_k)
        if self.top_p < 1:
            logits = keep_top_p(logits, self.top_p)
        return logits.softmax(-1)


def penalized(logits: Tensor, used: Tensor, penalty: float) -> Tensor:
    """Return logits with those of used tokens divided by the penalty.

    A negative one is multiplied instead, or the penalty would make it likelier: the paper's formula means positive scores.
    """
    return torch.where(used, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Return logits, shape (B, V), with all below the k-th largest at minus infinity; ties with it stay."""
    least = logits.topk(min(k, logits.shape[-1]), dim=-1).values[:, -1:]
    return logits.masked_fill(logits < least, -math.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Return logits, shape (B, V), of the smallest set of tokens with probability p or more; the others at minus infinity.

    Among equals those with the smaller id come first.
    """
    ordered, places = logits.sort(dim=-1, descending=True, stable=True)
    chances = ordered.softmax(-1)
    before = chances.cumsum(-1) - chances  # the probability of all that are likelier
    return logits.masked_fill((before >= p).gather(-1, places.argsort(-1)), -math.inf)


def draw(probabilities: Tensor, numbers: Tensor) -> Tensor:
    """Return ids, shape (B,): where the cumulative probability, shape (B, V), passes uniform numbers in [0, 1), shape (B,)."""
    sums = probabilities.cumsum(-1)
    ids = torch.searchsorted(sums, (numbers * sums[:, -1])[:, None], right=True)[:, 0]
    return ids.clamp(max=probabilities.shape[-1] - 1)


@torch.no_grad()
def generate(
    decoder: Decoder,
    start: Sequence[int],
    prompt: Sequence[int],
    *,
    sampling: Sampling,
    seeds: Sequence[int],
    max_tokens: int,
    context: int,
    vocab_size: int,
    eos_id: int,
    warn: Callable[[str], None],
) -> list[list[int]]:
    """Return the ids that follow a prompt, one list for each seed, up to and with the EOS or `max_tokens` long.

    The samples are computed together, each with random numbers of its own. Where the context is full, a sample goes on from
    the last half of it: so a further token costs the same however long the text is.

    Args:
        decoder: The model, without a document mask: a sample is of one document.
        start: Ids that stand before a document; not counted as used.
        prompt: Ids of the text to continue.
        sampling: How a token is chosen.
        seeds: One for each sample.
        max_tokens: Of a sample.
        context: The longest that the decoder can read.
        vocab_size: Ids that may be chosen.
        eos_id: Ends a sample.
        warn: Takes a line for the reader.
    """
    device = decoder.embedding.weight.device
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    text = torch.tensor([*start, *prompt], device=device).repeat(len(seeds), 1)  # (B, T)
    first = text.shape[1]
    used = torch.zeros(len(seeds), vocab_size, dtype=torch.bool, device=device)
    used[:, list(prompt)] = True
    ended = torch.zeros(len(seeds), dtype=torch.bool, device=device)
    if first > context:
        warn(f"the prompt has {first} tokens with its beginning, the context {context}: only its end is seen")
    seen = [KeyValues() for _ in decoder.blocks]
    fresh, slid = text[:, -context:], False
    for count in range(max_tokens):
        if count and seen[0].length == context:
            if not slid:
                warn(f"the context of {context} tokens is full: the text goes on from the last half of it")
            slid = True
            seen = [KeyValues() for _ in decoder.blocks]
            fresh = text[:, -max(1, context // 2) :]
        hidden = decoder(fresh, seen)[:, -1]  # (B, C)
        logits = functional.linear(hidden, decoder.head_weight[:vocab_size])
        numbers = torch.cat([torch.rand(1, dtype=torch.float64, generator=one) for one in generators])
        fresh = draw(sampling.probabilities(logits, used), numbers.to(device))[:, None]
        used.scatter_(1, fresh, True)
        text = torch.cat((text, fresh), dim=1)
        ended |= fresh[:, 0] == eos_id
        if ended.all():
            break
    rows: list[list[int]] = text[:, first:].tolist()
    return [row[: row.index(eos_id) + 1] if eos_id in row else row for row in rows]


def sample(
    folder: Path,
    *,
    tokenizer: Path | None,
    prompt: str,
    sampling: Sampling,
    seed: int,
    num: int,
    max_tokens: int,
    as_json: bool,
) -> int:
    """Print how a trained model goes on after a prompt; return the exit code.

    Args:
        folder: Of a checkpoint or of a run.
        tokenizer: As for `open_trained`.
        prompt: The beginning of a document; `-` reads it from standard input.
        sampling: How a token is chosen.
        seed: Of the first sample; each further one has the next.
        num: Samples.
        max_tokens: Of a sample.
        as_json: Whether to print a JSON object for each sample instead of its text.

    Raises:
        ConfigError: If an option is out of range.
        TrainError: If the model cannot be read.
    """
    for name, value, least in (("num", num, 1), ("tokens", max_tokens, 1), ("seed", seed, 0)):
        if not least <= value < 1 << 62:
            raise ConfigError(f"--{name}: must be at least {least}, is {value}.")
    try:
        # As a shell does with what a command prints, the line's end is left out.
        text = sys.stdin.buffer.read().decode().removesuffix("\n") if prompt == "-" else prompt
        text.encode()
    except UnicodeError as error:
        raise ConfigError(f"--prompt: is not UTF-8 ({error}).") from error
    trained = open_trained(folder, tokenizer, warn=metrics.say)
    torch.set_num_threads(trained.settings.threads)
    given = trained.tokenizer.encode(text).tolist()
    decoder = trained.decoder().to("cuda" if torch.cuda.is_available() else "cpu")
    seeds = range(seed, seed + num)
    found = generate(
        decoder, trained.start_ids, given, sampling=sampling, seeds=seeds, max_tokens=max_tokens,
        context=trained.settings.context, vocab_size=trained.vocab_size, eos_id=trained.tokenizer.eos_id, warn=metrics.say,
    )  # fmt: skip
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    begins = trained.tokenizer.decode(given)
    for number, (one, ids) in enumerate(zip(seeds, found, strict=True), start=1):
        ended = ids[-1] == trained.tokenizer.eos_id
        continued = trained.tokenizer.decode([*given, *ids]).removeprefix(begins)
        if not ended:
            continued = continued.rstrip(_REPLACEMENT)  # a character whose last bytes would be further tokens
        if as_json:
            record = {"seed": one, "prompt": text, "text": continued, "ended": ended, "ids": ids}
            print(json.dumps(record, ensure_ascii=False))
        else:
            if num > 1:
                metrics.say(f"-- sample {number} of {num}, seed {one}{'' if ended else ', not at its end'}")
            print(_shown(text + continued) if sys.stdout.isatty() else text + continued, flush=True)
    return 0


def _shown(text: str) -> str:
    """Return a text without what a terminal would act upon: a model may write any byte."""
    return "".join(char if char.isprintable() or char in "\n\t" else _REPLACEMENT for char in text)
