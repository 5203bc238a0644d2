"""Speed of the trainer: tokens per second of a preset, and of reading batches alone.

    python benchmarks/bench_train.py [--preset demo-1m] [--steps 60] [--vocab-size 4096]

Trains on random ids, made from a fixed seed: speed does not depend on what they say. Training runs as users run it, in a
process of its own with the preset's threads. On a busy machine look at tokens per CPU second: what others take is not in it.
Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from curate.tokens.order import BLOCK_SLOTS, num_windows
from curate.tokens.shard import ShardInfo, ShardWriter, dtype_for, write_manifest
from train.config import PRESETS
from train.data import open_data

ROOT = Path(__file__).parents[1]
DOCUMENT_TOKENS = 800  # about the mean of web text


def make_run(folder: Path, preset: str, steps: int, vocab_size: int) -> Path:
    """Write shards, mixture and config for `steps` steps; return the config."""
    settings = PRESETS[preset]
    drawn = steps * max(1, round(settings.batch_tokens / settings.context))
    random = np.random.default_rng(0)
    source = folder / "tokens" / "random"
    dtype = dtype_for(vocab_size)
    shards: list[ShardInfo] = []
    counts: dict[str, int] = {}
    for split, tokens in (("train", drawn * settings.context + 1), ("validation", 4 * settings.context)):
        with ShardWriter(source, split, dtype=dtype, eos_id=0, vocab_size=vocab_size) as writer:
            for number in range(-(-tokens // (DOCUMENT_TOKENS + 1))):
                writer.add(f"{split}-{number}", 4 * DOCUMENT_TOKENS, random.integers(1, vocab_size, DOCUMENT_TOKENS))
            written = writer.close()
        counts[split] = sum(shard.tokens for shard in written)
        shards += written
    write_manifest(source, dtype=dtype, vocab_size=vocab_size, eos_id=0, tokenizer_sha256="0" * 64, shards=shards)
    available = num_windows(counts["train"], settings.context)
    mixture = {
        "window": settings.context,
        "seed": 0,
        "block": BLOCK_SLOTS,
        "num_slots": drawn,
        "sources": {"random": {"windows_available": available, "windows_drawn": drawn}},
    }
    (folder / "mixture.json").write_text(json.dumps(mixture))
    config = folder / "train" / "0" / "config.json"
    config.parent.mkdir(parents=True)
    overrides = {"eval_every": steps, "save_every": steps, "log_every": 5}
    content = {"preset": preset, "seed": 0, "tokens": "../../tokens", "mixture": "../../mixture.json"}
    config.write_text(json.dumps(content | {"overrides": overrides}))
    return config


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the trainer")
    parser.add_argument("--preset", choices=list(PRESETS), default="demo-1m")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--vocab-size", type=int, default=4096)
    options = parser.parse_args()
    settings = PRESETS[options.preset]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = make_run(folder, options.preset, options.steps, options.vocab_size)
        data = open_data(folder / "tokens", folder / "mixture.json", settings).train
        started = time.perf_counter()
        for step in range(data.num_steps):
            data.batch(step)
        loading = time.perf_counter() - started
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-m", "train", "run", str(config)], cwd=ROOT, env=environment, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        timings = [json.loads(line) for line in (config.parent / "timings.jsonl").read_text().splitlines()]
        summary = json.loads((config.parent / "summary.json").read_text())
    speeds = [line["tokens_per_second"] for line in timings[1:]]  # the first includes warming up
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    result = {
        "preset": options.preset,
        "device": summary["device"],
        "threads": settings.threads,
        "parameters": summary["parameters"],
        "tokens": summary["tokens"],
        "tokens_per_second_median": statistics.median(speeds),
        "tokens_per_second_best": max(speeds),
        "tokens_per_cpu_second": round(summary["tokens"] / cpu_seconds, 1),  # start, evaluation and saving included
        "mfu": timings[-1]["mfu"],
        "memory_bytes": max(line["memory_bytes"] for line in timings),
        "loader_tokens_per_second": round(summary["tokens"] / loading),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
