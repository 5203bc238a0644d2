"""A small source of tokens, a mixture over it, and a config: all that a training run needs, made in a temporary folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curate.tokens.shard import NO_LABELS, Labels, ShardInfo, ShardWriter, write_manifest

VOCAB, EOS, CONTEXT = 60, 2, 8
TINY: Mapping[str, Any] = {
    "layers": 1, "dim": 16, "heads": 2, "kv_heads": 1, "ffn_dim": 32, "context": CONTEXT, "lr": 0.01, "warmup_tokens": 64,
    "batch_windows": 4, "micro_batch": 4, "eval_batch": 4, "log_every": 1, "eval_every": 10, "save_every": 10, "threads": 1,
    "device": "cpu",
}  # fmt: skip


def documents(seed: int, count: int, length: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """Documents with something to learn: mostly the next id follows from the one before."""
    random = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        ids = [int(random.integers(3, VOCAB))]
        for _ in range(length - 1):
            follows = 3 + (ids[-1] * 7 + 1) % (VOCAB - 3)
            ids.append(follows if random.random() < 0.9 else int(random.integers(3, VOCAB)))
        result.append(np.array(ids))
    return result


def write_source(
    folder: Path,
    train: Sequence[np.ndarray[Any, Any]],
    validation: Sequence[np.ndarray[Any, Any]],
    *,
    vocab_size: int = VOCAB,
    eos_id: int = EOS,
    tokenizer: str = "0" * 64,
    labels: Sequence[Labels] = (),
) -> None:
    """Write both splits and the manifest; a document of n tokens has 3 n bytes. `labels` are those for validation."""
    shards: list[ShardInfo] = []
    for split, parts in (("train", train), ("validation", validation)):
        with ShardWriter(folder, split, dtype="uint16", eos_id=eos_id, vocab_size=vocab_size) as writer:
            for number, tokens in enumerate(parts):
                known = labels[number] if labels and split == "validation" else NO_LABELS
                writer.add(f"{folder.name}-{split}-{number}", 3 * len(tokens), tokens, known)
            shards += writer.close()
    write_manifest(
        folder, dtype="uint16", vocab_size=vocab_size, eos_id=eos_id, tokenizer_sha256=tokenizer, shards=shards
    )


def write_mixture(path: Path, window: int, sources: Mapping[str, tuple[int, int]], *, block: int = 1024) -> None:
    """Write mixture.json; sources: windows available and drawn."""
    content = {
        "window": window,
        "seed": 5,
        "block": block,
        "num_slots": sum(drawn for _, drawn in sources.values()),
        "sources": {name: {"windows_available": a, "windows_drawn": d} for name, (a, d) in sources.items()},
    }
    path.write_text(json.dumps(content))


@dataclass(frozen=True)
class Folder:
    """A run folder with two sources, as `curate run` leaves it."""

    root: Path

    def config(self, name: str, *, seed: int = 0, **overrides: Any) -> Path:
        """Write the config of the run `name` and return its path."""
        path = self.root / "train" / name / "config.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "preset": "demo-1m", "seed": seed, "tokens": "../../tokens", "mixture": "../../mixture.json", "output": ".",
            "overrides": {**TINY, **overrides},
        }  # fmt: skip
        path.write_text(json.dumps(content))
        return path
