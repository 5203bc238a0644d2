"""A tokenizer of bytes in the tokenizers library's format, and a run that was trained on its ids: what export and sampling read."""

from __future__ import annotations

import hashlib
import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import torch
from token_folder import CONTEXT, EOS, Folder, documents, write_mixture, write_source

from curate.tokens.order import num_windows
from curate.tokens.tokenizer import Tokenizer, load_tokenizer
from train import loop, model
from train.config import load

MARK = "<|end|>"
TOKENIZER_VOCAB = 260  # 256 bytes, the mark, 3 joined pieces; padded to 320
LETTERS = (
    string.ascii_letters + string.digits[:8]
)  # 60 more pieces, a space and one of these: 320, which needs no padding


def byte_alphabet() -> list[str]:
    """The characters that byte-level vocabularies write bytes 0 to 255 as (GPT-2's encoder.py)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(hidden)) for byte in range(256)]


def write_tokenizer(folder: Path, *, letters: str = "") -> Tokenizer:
    """Write tokenizer.json: byte b has the id b or, behind the mark, b + 1; then `th`, `the`, ` the`, and a space with letters."""
    alphabet = byte_alphabet()
    merges = [["t", "h"], ["th", "e"], ["Ġ", "the"], *(["Ġ", letter] for letter in letters)]
    joined = {first + second: 257 + number for number, (first, second) in enumerate(merges)}
    vocabulary = {char: byte + (byte >= EOS) for byte, char in enumerate(alphabet)} | {MARK: EOS} | joined
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    content = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [{"id": EOS, "content": MARK, **plain}],
        "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": vocabulary, "merges": merges,
        },
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content))
    tokenizer = load_tokenizer(path)
    card = {"eos": tokenizer.eos, "bos": None, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (folder / "card.json").write_text(json.dumps(card))
    return tokenizer


def trained_run(
    root: Path, *, steps: int = 2, spread: float | None = None, text: str = "", letters: str = "", **overrides: Any
) -> Path:
    """Train for some steps on random ids, or on a text over and over; return the run's folder, `root`/train/0.

    Args:
        root: Gets tokens, tokenizer, mixture and the run.
        steps: Of 4 windows.
        spread: If given, all weights begin with this deviation: logits of usual initial ones hardly differ.
        text: What documents say.
        letters: As for `write_tokenizer`.
        overrides: Of the run's settings.
    """
    tokenizer = write_tokenizer(root / "tokenizer", letters=letters)
    train = [tokenizer.encode(text).astype(np.int64)] * 40 if text else documents(0, 40, 30)
    keywords = {"vocab_size": tokenizer.vocab_size, "tokenizer": tokenizer.sha256}
    write_source(root / "tokens" / "web", train, documents(1, 4, 25), **keywords)
    window = overrides.get("context", CONTEXT)
    write_mixture(
        root / "mixture.json", window, {"web": (num_windows(sum(len(d) + 1 for d in train), window), 4 * steps)}
    )
    config = Folder(root).config("0", **overrides)
    began = model.Decoder.initialize
    if spread is not None:
        model.Decoder.initialize = lambda decoder, seed: spread_out(decoder, spread, seed)  # type: ignore[method-assign]
    try:
        assert loop.run(load(config)) == 0
    finally:
        model.Decoder.initialize = began  # type: ignore[method-assign]
    return config.parent


def spread_out(decoder: Any, spread: float, seed: int) -> None:
    """Draw every weight, gains of norms included, from a normal distribution."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in decoder.parameters():
            mean = 1.0 if parameter.dim() < 2 else 0.0
            parameter.copy_(torch.empty(parameter.shape).normal_(mean, spread, generator=generator))
