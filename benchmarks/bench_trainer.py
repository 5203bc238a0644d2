"""The trainer beside nanoGPT on the CPU: whole processes, the same tokens, one model shape, one thread.

    git clone https://github.com/karpathy/nanoGPT
    python benchmarks/bench_trainer.py --nanogpt nanoGPT > benchmarks/results/trainer.md

Each contestant is a process that trains as its users run it: nanoGPT's train.py with compile=False, as on a machine without a
GPU, and `python -m train run`. They take turns step by step: one computes, the others are stopped, so that whatever else the
machine does meets all of them alike. Wall time of a step is from its start to its log line; CPU time is what the system
counted for the process meanwhile. The first steps are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import pickle
import platform
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import truediv
from pathlib import Path

import numpy as np
import torch

from curate.tokens.order import BLOCK_SLOTS, num_windows
from curate.tokens.shard import ShardWriter, write_manifest
from train.__main__ import environment

ROOT = Path(__file__).parents[1]
LAYERS, DIM, HEADS, CONTEXT, VOCAB, BATCH = 6, 256, 4, 256, 8192, 4
FFN = 688  # three matrices of 688 rows for two of 1,024: 0.8 % more than nanoGPT's
SETTLING = 2  # steps left out
TICK = os.sysconf("SC_CLK_TCK")
OVERRIDES = {
    "layers": LAYERS, "dim": DIM, "heads": HEADS, "kv_heads": HEADS, "ffn_dim": FFN, "context": CONTEXT, "tied": True,
    "qk_norm": False, "batch_windows": BATCH, "micro_batch": BATCH, "eval_batch": BATCH, "log_every": 1, "threads": 1,
    "device": "cpu",
}  # fmt: skip
# Our process with another's model in it: what is left is the loop, the loss, the optimizer and the environment.
TRANSPLANT = """
import sys
import torch
from train import model
from train.__main__ import main
sys.path.insert(0, sys.argv[1])
from model import GPT, GPTConfig

class Transplant(torch.nn.Module):
    def __init__(self, settings, vocab_size, *, eos_id=None):
        super().__init__()
        gpt = GPT(GPTConfig(settings.context, vocab_size, settings.layers, settings.heads, settings.dim, 0.0, False))
        self.parts, self.blocks, self.embedding = gpt.transformer, gpt.transformer.h, gpt.transformer.wte
        self.head_weight = self.embedding.weight
    def initialize(self, seed):
        pass
    def forward(self, tokens):
        x = self.embedding(tokens) + self.parts.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.parts.ln_f(x)
    def state_dict(self, *args, **kwargs):
        return {name: one for name, one in self.named_parameters()}

model.Decoder = Transplant
sys.exit(main(["run", sys.argv[2]]))
"""
PLAIN = (
    "import sys\nfrom train import kernels\nfrom train.__main__ import main\nkernels.apply_here = lambda *_: False\n"
)
PLAIN += "sys.exit(main(['run', sys.argv[1]]))\n"


@dataclass
class Contestant:
    """A process that trains, one step at a time."""

    process: subprocess.Popen[str]
    line: re.Pattern[str]  # of its log, after each step
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @classmethod
    def start(cls, command: Sequence[str], line: str, folder: Path, extra: Mapping[str, str]) -> Contestant:
        """Start it and let it run to the end of its first step."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "OMP_", "MKL_"))}
        process = subprocess.Popen(
            command, cwd=folder, env=kept | dict(extra), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        one = cls(process, re.compile(line))
        one.step()
        one.wall.clear()
        one.cpu.clear()
        return one

    def step(self) -> None:
        """Let it do a step, and note what it took."""
        before, start = self._cpu_seconds(), time.perf_counter()
        self.process.send_signal(signal.SIGCONT)
        assert self.process.stdout is not None
        said = ""
        for said in self.process.stdout:
            if self.line.search(said):
                break
        else:
            raise SystemExit(f"a contestant ended: {said}")
        self.wall.append(time.perf_counter() - start)
        self.process.send_signal(signal.SIGSTOP)
        self.cpu.append(self._cpu_seconds() - before)

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK


def make_data(folder: Path, steps: int) -> str:
    """Write token shards, mixture and nanoGPT's files of the same tokens; return the digest of the tokens."""
    random = np.random.default_rng(0)
    source, shards = folder / "tokens" / "random", []
    for split, documents in (("train", 1 + steps * BATCH * CONTEXT // 800), ("validation", 2)):
        with ShardWriter(source, split, dtype="uint16", eos_id=0, vocab_size=VOCAB) as writer:
            for number in range(documents):
                writer.add(f"{split}-{number}", 3200, random.integers(1, VOCAB, 800))
            shards += writer.close()
    write_manifest(source, dtype="uint16", vocab_size=VOCAB, eos_id=0, tokenizer_sha256="0" * 64, shards=shards)
    drawn = steps * BATCH
    available = num_windows(shards[0].tokens, CONTEXT)
    sources = {"random": {"windows_available": available, "windows_drawn": drawn}}
    mixture = {"window": CONTEXT, "seed": 0, "block": BLOCK_SLOTS, "num_slots": drawn, "sources": sources}
    (folder / "mixture.json").write_text(json.dumps(mixture))
    peer = folder / "nano" / "data" / "bench"
    peer.mkdir(parents=True)
    train, validation = (source / f"{shard.name}.bin" for shard in shards)
    shutil.copy(train, peer / "train.bin")
    shutil.copy(validation, peer / "val.bin")
    (peer / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": VOCAB}))
    return hashlib.sha256(train.read_bytes()).hexdigest()[:16]


def ours(folder: Path, name: str, start: Sequence[str], steps: int) -> Contestant:
    """Start our process, as `start` says."""
    config = folder / "train" / name / "config.json"
    config.parent.mkdir(parents=True)
    overrides = OVERRIDES | {"eval_every": 10 * steps, "save_every": 10 * steps}
    content = {"preset": "demo-1m", "seed": 0, "tokens": "../../tokens", "mixture": "../../mixture.json"}
    config.write_text(json.dumps(content | {"overrides": overrides}))
    extra = environment(1) | {"PYTHONPATH": str(ROOT)}
    return Contestant.start([sys.executable, *start, str(config)], r"loss .* eta ", config.parent, extra)


def nanogpt(folder: Path, name: str, path: Path, extra: Mapping[str, str], steps: int) -> Contestant:
    """Start nanoGPT's train.py."""
    place = folder / name
    shutil.copytree(folder / "nano", place)
    for file in ("train.py", "model.py", "configurator.py"):
        shutil.copy(path / file, place / file)
    options = {
        "dataset": "bench", "device": "cpu", "compile": False, "dtype": "float32", "eval_iters": 1, "eval_interval": 10 * steps,
        "log_interval": 1, "max_iters": 10 * steps, "lr_decay_iters": steps, "gradient_accumulation_steps": 1,
        "batch_size": BATCH, "block_size": CONTEXT, "n_layer": LAYERS, "n_head": HEADS, "n_embd": DIM, "dropout": 0.0,
    }  # fmt: skip
    command = [
        sys.executable,
        "-u",
        "-W",
        "ignore",
        "train.py",
        *(f"--{key}={value}" for key, value in options.items()),
    ]
    return Contestant.start(command, "^iter ", place, {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} | dict(extra))


def loss_of(name: str) -> None:
    """Print CPU seconds and added memory of one way to compute head and loss, with gradients."""
    from torch.nn import functional

    from train.loss import summed_nats

    torch.set_num_threads(1)
    rows, generator = 4096, torch.Generator().manual_seed(0)
    hidden = torch.randn(1, rows, DIM, generator=generator).requires_grad_()
    weight = (0.02 * torch.randn(VOCAB, DIM, generator=generator)).requires_grad_()
    targets = torch.randint(0, VOCAB, (1, rows), generator=generator)

    def compute() -> float:
        if name == "ours":
            nats = summed_nats(hidden, weight, targets)
        elif name == "torch":
            options = torch.nn.LinearCrossEntropyOptions()
            nats = functional.linear_cross_entropy(hidden[0], weight, targets[0], reduction="sum", options=options)
        else:
            nats = functional.cross_entropy(hidden[0] @ weight.t(), targets[0], reduction="sum")
        nats.backward()
        hidden.grad = weight.grad = None
        return nats.item()

    exact = 0.0  # by parts: what it takes must not hide what is measured
    for part in range(0, rows, 256):
        logits = hidden[0, part : part + 256].detach().double() @ weight.detach().double().t()
        exact += functional.cross_entropy(logits, targets[0, part : part + 256], reduction="sum").item()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(4):
        start = time.process_time()
        nats = compute()
        seconds.append(time.process_time() - start)
    added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kilobytes
    print(json.dumps({"seconds": min(seconds), "added": added / 1024, "error": abs(nats - exact) / exact}))


def trunk() -> None:
    """Print CPU seconds of a forward and backward pass through the blocks, with `train/kernels.py` and without, in turns."""
    from train import kernels
    from train.config import PRESETS
    from train.model import Decoder

    torch.set_num_threads(1)
    shape = {
        name: value for name, value in OVERRIDES.items() if name not in ("batch_windows", "micro_batch", "eval_batch")
    }
    decoder = Decoder(dataclasses.replace(PRESETS["demo-1m"], **shape), VOCAB)
    decoder.initialize(0)
    tokens = torch.randint(0, VOCAB, (BATCH, CONTEXT), generator=torch.Generator().manual_seed(0))
    here, seconds = kernels.apply_here, {True: [], False: []}
    for _ in range(16):
        for used in (True, False):
            kernels.apply_here = here if used else lambda *_: False
            start = time.process_time()
            hidden = decoder(tokens)
            hidden.backward(torch.ones_like(hidden))
            seconds[used].append(time.process_time() - start)
            decoder.zero_grad()
    print(json.dumps({"with": min(seconds[True]), "without": min(seconds[False])}))


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="The trainer beside nanoGPT on the CPU")
    parser.add_argument("--nanogpt", type=Path, metavar="PATH", help="a checkout of karpathy/nanoGPT")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--loss-of", choices=["ours", "torch", "plain"], help=argparse.SUPPRESS)
    parser.add_argument("--trunk", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loss_of:
        loss_of(options.loss_of)
        return
    if options.trunk:
        trunk()
        return
    if options.nanogpt is None:
        parser.error("--nanogpt is missing")
    peer = options.nanogpt.resolve()
    memory = {name: value for name, value in environment(1).items() if name.startswith("MALLOC_")}
    contestants: dict[str, Contestant] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        digest = make_data(folder, options.steps + SETTLING)
        try:
            contestants["nanoGPT's train.py"] = nanogpt(folder, "as-is", peer, {}, options.steps)
            contestants["ours"] = ours(folder, "ours", ["-m", "train", "run"], options.steps)
            contestants["nanoGPT's train.py, our malloc settings"] = nanogpt(
                folder, "malloc", peer, memory, options.steps
            )
            contestants["ours with nanoGPT's model"] = ours(
                folder, "transplant", ["-c", TRANSPLANT, str(peer)], options.steps
            )
            contestants["ours without `train/kernels.py`"] = ours(folder, "plain", ["-c", PLAIN], options.steps)
            for _ in range(options.steps - 1):
                for one in contestants.values():
                    one.step()
        finally:
            for one in contestants.values():
                one.process.kill()
                one.process.wait()
    print(table(contestants, digest, peer))


def table(contestants: Mapping[str, Contestant], digest: str, peer: Path) -> str:
    """Return the results as Markdown."""
    tokens, first = BATCH * CONTEXT, contestants["nanoGPT's train.py"]
    steps = len(first.wall) - SETTLING
    lines = [
        "# The trainer beside nanoGPT", "",
        "`python benchmarks/bench_trainer.py --nanogpt PATH`: whole processes, one thread, fp32, without torch.compile, in turns "
        f"step by step ({steps} rounds; the first {SETTLING + 1} steps are left out). {LAYERS} layers, width {DIM}, {HEADS} heads, "
        f"context {CONTEXT}, batch {BATCH}, vocabulary {VOCAB:,}, tied: nanoGPT 6.88M parameters (LayerNorm, GELU, learned "
        f"positions), ours 6.84M (RMSNorm, SwiGLU of {FFN}, RoPE). A ratio is nanoGPT's time to the row's in the same round: its "
        "median, in brackets the middle half.", "",
        "| process | tokens/s, best | tokens/s, median | tokens/CPU second, median | ratio, wall | ratio, CPU |",
        "| --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, one in contestants.items():
        wall, cpu = one.wall[SETTLING:], one.cpu[SETTLING:]
        ratios = [
            "{1:.2f} ({0:.2f}-{2:.2f})".format(*statistics.quantiles(map(truediv, theirs, mine), n=4))
            for theirs, mine in ((first.wall[SETTLING:], wall), (first.cpu[SETTLING:], cpu))
        ]
        lines.append(
            f"| {name} | {tokens / min(wall):,.0f} | {tokens / statistics.median(wall):,.0f} "
            f"| {tokens / statistics.median(cpu):,.0f} | {' | '.join(ratios)} |"
        )
    lines.append("")
    lines += ["## Head and loss", "", "4,096 rows, with gradients; error of the sum beside float64.", "",
              "| way | CPU s, best of 4 | memory added, MB | relative error |", "| --- | --- | --- | --- |"]  # fmt: skip
    names = {"ours": "`summed_nats`, chunks of 1,024 rows", "torch": "`F.linear_cross_entropy`, chunked as it chooses",
             "plain": "logits of all rows, `F.cross_entropy`"}  # fmt: skip
    for key, name in names.items():
        found = told("--loss-of", key)
        lines.append(f"| {name} | {found['seconds']:.3f} | {found['added']:,.0f} | {found['error']:.1e} |")
    found = told("--trunk")
    lines += ["", "## Norm, rotation and SwiGLU", "",
              "CPU seconds of a pass through the blocks, forward and backward, the least of 16 in turns: "
              f"{found['with']:.3f} with `train/kernels.py`, {found['without']:.3f} with torch's operations."]  # fmt: skip
    lines += ["", "## One H100-class GPU", "", "| preset | context | target MFU | MFU |", "| --- | --- | --- | --- |",
              "| 150m | 2,048 | 35% | not measured |", "| 400m | 2,048 | 40% | not measured |", ""]  # fmt: skip
    commit = subprocess.run(["git", "-C", peer, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    model = hashlib.sha256((peer / "train.py").read_bytes() + (peer / "model.py").read_bytes()).hexdigest()[:16]
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    processor = re.search(r"model name\s*: (.*)", info)
    lines.append(
        f"Tokens sha256 {digest}; nanoGPT {commit.stdout.strip()[:7] or 'without git'}, its files {model}; torch {torch.__version__}, "
        f"Python {platform.python_version()}; {os.cpu_count()} cores of {processor[1] if processor else platform.machine()}, busy "
        f"with other work (load {os.getloadavg()[1]:.0f})."
    )
    return "\n".join(lines)


def told(*arguments: str) -> dict[str, float]:
    """Return what this script prints in a process of its own, in the trainer's environment."""
    extra = environment(1) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, env=os.environ | extra, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
