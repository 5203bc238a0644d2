"""Repeated spans of a gigabyte of tokens within a memory cap, and beside a suffix array for the same answer.

    python benchmarks/bench_spans.py --peer PYTHON [--tokens 500M] [--part 25M] [--rounds 5] [--cap 512] > benchmarks/results/spans.md

PYTHON is that of an environment with numpy and pydivsufsort. The tokens are made from a seed: uint16, drawn by Zipf's law from a
vocabulary of 50,000, documents of 1,000 tokens on average, and in them spans that are planted at known places: 40 to 400 tokens,
2 to 1,000 copies (the law is 1 / copies^2), no two in one document. What must be found is worked out from those places alone:
the spans, and on both sides what copies share by chance (`expected`). Each contestant is a process of its own. Writes Markdown.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import itertools
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
VOCABULARY, EOS = 50_000, 0
LEAST = 50  # tokens: what is looked for
SHARDS = 16
PER_SPAN = 45_000  # tokens of the corpus for each planted span
MEMORY = 256 << 20  # of the joins: --memory
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


class Planted(NamedTuple):
    """Copies of spans, those of a span side by side: first token of each copy, tokens, number of the span."""

    starts: np.ndarray
    lengths: np.ndarray
    spans: np.ndarray


# ---- input


def make(folder: Path, num_tokens: int, seed: int) -> Planted:
    """Write tokens.bin, ends.npy (behind each document's EOS) and planted.npz."""
    luck = np.random.default_rng(seed)
    sizes = np.maximum(luck.lognormal(6.6, 0.8, int(num_tokens / 900)), 20).astype(np.int64) + 1
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), num_tokens)]
    ends = np.cumsum(sizes)
    shares = 1 / np.arange(1, VOCABULARY)
    table = np.searchsorted(np.cumsum(shares) / shares.sum(), (np.arange(1 << 20) + 0.5) / (1 << 20)) + 1
    tokens = np.lib.format.open_memmap(folder / "tokens.npy", "w+", "<u2", (int(ends[-1]),))
    for start in range(0, len(tokens), 1 << 24):
        part = tokens[start : start + (1 << 24)]
        part[:] = table[luck.integers(0, 1 << 20, len(part), np.int32)]
    tokens[ends - 1] = EOS
    num_spans = max(2, num_tokens // PER_SPAN)
    law = 1.0 / np.arange(2, 1001) ** 2
    copies = luck.choice(np.arange(2, 1001), num_spans, p=law / law.sum())
    lengths = luck.integers(40, 401, num_spans)
    homes = np.flatnonzero(sizes > 402)
    homes = luck.permutation(homes)[: copies.sum()]
    assert len(homes) == copies.sum(), "too few documents"
    of_copy = np.repeat(np.arange(num_spans), copies)
    room = sizes[homes] - 1 - lengths[of_copy]
    starts = ends[homes] - sizes[homes] + (luck.random(len(homes)) * (room + 1)).astype(np.int64)
    for number, size in enumerate(lengths.tolist()):
        words = table[luck.integers(0, 1 << 20, size)]
        for start in starts[slice(*np.searchsorted(of_copy, [number, number + 1]))].tolist():
            tokens[start : start + size] = words
    tokens.flush()
    np.save(folder / "ends.npy", ends)
    return Planted(starts, lengths[of_copy], of_copy)


# ---- what must be found


def expected(folder: Path, planted: Planted) -> tuple[np.ndarray, dict[str, int]]:
    """Return which tokens are repeated in windows of LEAST, shape (tokens,), and what of it is chance.

    Of each pair of copies: the span, what they share before it and behind it, if together that is long enough. Nothing is
    looked for elsewhere: two unrelated windows agree with a probability of (sum of squared shares)^50, below 1e-70.
    """
    tokens, ends = np.load(folder / "tokens.npy", mmap_mode="r"), np.load(folder / "ends.npy")
    found = np.zeros(len(tokens), np.bool_)
    counts = {"by chance longer": 0, "tokens by chance": 0, "short": 0, "short and repeated": 0}
    bounds = np.flatnonzero(np.diff(planted.spans, prepend=-1, append=-1))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        size = int(planted.lengths[low])
        starts = planted.starts[low:high]
        homes = np.searchsorted(ends, starts, "right")
        firsts = np.where(homes > 0, ends[homes - 1], 0)
        before = [tuple(tokens[max(a, s - LEAST) : s][::-1].tolist()) for s, a in zip(starts, firsts, strict=True)]
        behind = [
            tuple(tokens[s + size : min(e - 1, s + size + LEAST)].tolist())
            for s, e in zip(starts, ends[homes], strict=True)
        ]
        if size >= LEAST:
            lefts, rights = _longest_shared(before), _longest_shared(behind)
            for start, left, right in zip(starts.tolist(), lefts, rights, strict=True):
                found[start - left : start + size + right] = True
                counts["by chance longer"] += bool(left or right)
                counts["tokens by chance"] += left + right
            continue
        counts["short"] += len(starts)
        for one in range(len(starts)):
            for other in range(len(starts)):
                left = _common(before[one], before[other]) if one != other else 0
                right = _common(behind[one], behind[other]) if one != other else 0
                if one != other and left + size + right >= LEAST:
                    found[starts[one] - left : starts[one] + size + right] = True
                    counts["short and repeated"] += 1
    return found, counts


def _longest_shared(texts: list[tuple[int, ...]]) -> list[int]:
    """Return for each text the longest prefix that it shares with another: with one of its neighbours in order."""
    order = sorted(range(len(texts)), key=texts.__getitem__)
    longest = [0] * len(texts)
    for one, other in itertools.pairwise(order):
        shared = _common(texts[one], texts[other])
        longest[one], longest[other] = max(longest[one], shared), max(longest[other], shared)
    return longest


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


# ---- contestants: each a process, which writes what it found and prints what it took


def ours(folder: Path, cap: int) -> None:
    """Find spans under a limit of `cap` MB on private memory; write which tokens are repeated, and which are cut."""
    from functools import partial

    from curate.dedup.spans_files import find_spans, token_streams
    from curate.dedup.spans_kernels import find_anchors

    resource.setrlimit(resource.RLIMIT_DATA, (cap << 20, cap << 20))
    path, ends = folder / "tokens.bin", np.load(folder / "ends.npy", mmap_mode="r")
    rows = np.linspace(0, len(ends), SHARDS + 1).astype(int)

    def shard(number: int) -> Any:
        low, high = rows[number], rows[number + 1]
        skipped = int(ends[low - 1]) if low else 0
        part = folder / f"shard-{number}.bin"
        if not part.exists():
            with path.open("rb") as file, part.open("wb") as copy:
                file.seek(2 * skipped)
                copy.write(file.read(2 * (int(ends[high - 1]) - skipped)))
        return token_streams(part, "uint16", ends[low:high] - skipped, int(low))

    for number in range(SHARDS):
        for _ in shard(number):
            break
    with tempfile.TemporaryDirectory() as scratch:  # compiles, or loads what is compiled
        few = partial(token_streams, folder / "shard-0.bin", "uint16", np.array(ends[:20]), 0)
        list(find_spans([few, few], window=LEAST, memory_bytes=MEMORY, scratch=scratch))
    first = next(iter(shard(0)))
    room = len(first.tokens)
    keys, places, behind = np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64)
    start = time.process_time()
    find_anchors(first.tokens, first.starts, first.stops, LEAST, LEAST // 2, keys, places, behind)
    rate = room / (time.process_time() - start)
    del keys, places, behind, first
    scratch_folder = folder / "scratch"
    scratch_folder.mkdir(exist_ok=True)
    num_tokens = int(ends[-1])
    repeated = np.lib.format.open_memmap(folder / "repeated.npy", "w+", np.bool_, (num_tokens,))
    cut = np.lib.format.open_memmap(folder / "cut.npy", "w+", np.bool_, (num_tokens,))
    start = time.process_time()
    shards = [partial(shard, number) for number in range(SHARDS)]
    spans = 0
    for one in find_spans(shards, window=LEAST, memory_bytes=MEMORY, scratch=str(scratch_folder)):
        low = rows[one.shard]
        base = one.base + (int(ends[low - 1]) if low else 0)
        spans += len(one.spans.starts)
        for starts, stops, column in (
            (one.spans.starts, one.spans.stops, repeated),
            (one.runs.starts, one.runs.stops, cut),
        ):
            for a, b in zip(starts.tolist(), stops.tolist(), strict=True):
                column[base + a : base + b] = True
    seconds = time.process_time() - start
    repeated.flush()
    cut.flush()
    print(json.dumps({"cpu": seconds, "rate": rate, "spans": spans, **memory()}))


def suffix_array(folder: Path) -> None:
    """Write which tokens are repeated across documents by a suffix array and its longest common prefixes."""
    import pydivsufsort

    tokens, ends = np.load(folder / "tokens.npy"), np.load(folder / "ends.npy")
    start = time.process_time()
    order = pydivsufsort.divsufsort(tokens)
    sorting = time.process_time() - start
    shared = pydivsufsort.kasai(tokens, order)  # of each suffix and the next
    documents = np.searchsorted(ends, order, "right").astype(np.int32)
    group = np.flatnonzero(np.concatenate([[True], shared[:-1] < LEAST]))  # begins a group that shares LEAST tokens
    several = np.minimum.reduceat(documents, group) != np.maximum.reduceat(documents, group)
    places = order[np.repeat(several, np.diff(group, append=len(order)))]
    inside = places + LEAST < ends[np.searchsorted(ends, places, "right")]  # not over the EOS at ends - 1
    marks = np.zeros(len(tokens) + 1, np.int32)
    np.add.at(marks, places[inside], 1)
    np.add.at(marks, places[inside] + LEAST, -1)
    found = np.cumsum(marks[:-1]) > 0
    seconds = time.process_time() - start
    np.save(folder / "suffixes.npy", found)
    print(json.dumps({"cpu": seconds, "sorting": sorting, **memory()}))


def memory() -> dict[str, int]:
    return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}


# ---- measuring


def run(python: str, name: str, folder: Path, *more: object) -> dict[str, Any]:
    """Run a contestant; return what it printed, its largest private memory, and the largest size of its scratch folder."""
    command = [python, str(Path(__file__).resolve()), "--contestant", name, str(folder), *map(str, more)]
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)}
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    peaks = {"private": 0, "disk": 0}

    def watch() -> None:
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
                private = int(status.split("RssAnon:")[1].split()[0]) << 10
                disk = sum(one.stat().st_size for one in (folder / "scratch").rglob("*") if one.is_file())
            except (OSError, IndexError):
                continue
            finally:
                time.sleep(0.2)
            peaks.update(private=max(peaks["private"], private), disk=max(peaks["disk"], disk))

    watcher = threading.Thread(target=watch)
    watcher.start()
    printed, _ = process.communicate()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{name} failed")
    return {**json.loads(printed), **peaks, "wall": time.monotonic() - start}


def middle(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the run whose CPU time is the median."""
    return sorted(runs, key=lambda one: one["cpu"])[len(runs) // 2]


def corpus(folder: Path, num_tokens: int, seed: int) -> tuple[Planted, str, int]:
    folder.mkdir()
    planted = make(folder, num_tokens, seed)
    tokens = np.load(folder / "tokens.npy", mmap_mode="r")
    digest = hashlib.sha256()
    with (folder / "tokens.bin").open("wb") as file:
        for start in range(0, len(tokens), 1 << 24):
            data = tokens[start : start + (1 << 24)].tobytes()
            digest.update(data)
            file.write(data)
    return planted, digest.hexdigest()[:16], len(tokens)


def check(folder: Path, planted: Planted) -> dict[str, int]:
    """Compare what was found with what must be; return the counts that the table shows."""
    must, counts = expected(folder, planted)
    repeated, cut = np.load(folder / "repeated.npy", mmap_mode="r"), np.load(folder / "cut.npy", mmap_mode="r")
    missed, more = int((must & ~repeated).sum()), int((repeated & ~must).sum())
    assert (missed, more) == (0, 0), (missed, more)
    assert not (cut & ~repeated).any()
    firsts = np.zeros(planted.spans[-1] + 1, np.int64)
    order = np.lexsort((planted.starts, planted.spans))
    firsts[planted.spans[order][::-1]] = planted.starts[order][::-1]
    for start, size, span in zip(*(column.tolist() for column in planted), strict=True):
        if size >= LEAST:
            assert cut[start : start + size].all() == (start != firsts[span]), start
            assert cut[start : start + size].any() == (start != firsts[span]), start
    long = planted.lengths >= LEAST
    counts |= {"copies": int(long.sum()), "distinct": len(np.unique(planted.spans[long]))}
    return counts | {"repeated": int(repeated.sum()), "cut": int(cut.sum())}


def main() -> None:
    parser = argparse.ArgumentParser(description="Repeated spans within a memory cap, beside a suffix array.")
    parser.add_argument("--peer", required=True)
    parser.add_argument("--tokens", default="500M")
    parser.add_argument("--part", default="25M")
    parser.add_argument("--rounds", type=int, default=5, help="over the smaller corpus")
    parser.add_argument("--cap", type=int, default=512, help="MB")
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    sizes = [int(float(text[:-1]) * 10**6) for text in (chosen.tokens, chosen.part)]
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        root = Path(name)
        planted, digest, num_tokens = corpus(root / "whole", sizes[0], 1)
        whole = run(sys.executable, "ours", root / "whole", chosen.cap)
        counts = check(root / "whole", planted)
        planted, small_digest, small_tokens = corpus(root / "part", sizes[1], 2)
        rounds = []
        for _ in range(chosen.rounds):
            one = run(sys.executable, "ours", root / "part", chosen.cap)
            rounds.append((one, run(chosen.peer, "suffixes", root / "part")))
        check(root / "part", planted)
        small, suffixes = (middle(column) for column in zip(*rounds, strict=True))
        ratios = [one["cpu"] / other["cpu"] for one, other in rounds]
        repeated, other = np.load(root / "part" / "repeated.npy"), np.load(root / "part" / "suffixes.npy")
        assert (repeated == other).all()
    version = subprocess.run(
        [chosen.peer, "-c", "import importlib.metadata as m; print(m.version('pydivsufsort'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    report(chosen.cap, num_tokens, whole, counts, digest, small_tokens, small, suffixes, ratios, small_digest, version)


def report(
    cap: int,
    num_tokens: int,
    whole: dict[str, Any],
    counts: dict[str, int],
    digest: str,
    small_tokens: int,
    small: dict[str, Any],
    suffixes: dict[str, Any],
    ratios: Sequence[float],
    small_digest: str,
    version: str,
) -> None:
    """Write the Markdown."""

    def row(name: str, tokens: int, took: dict[str, Any]) -> str:
        peak, disk = f"{took['private'] / 1e6:,.0f}", f"{took['disk'] / 1e6:,.0f}" if took["disk"] else ""
        return f"| {name} | {tokens / 1e6:,.0f} | {took['cpu']:,.1f} | {tokens / took['cpu'] / 1e6:,.1f} | {peak} | {disk} |"

    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numba", "numpy"))
    ratio, low, high = small["cpu"] / suffixes["cpu"], min(ratios), max(ratios)
    memory_ratio = small["private"] / suffixes["private"]
    per_token, sorting = suffixes["private"] / small_tokens, suffixes["sorting"]
    chance, by_chance = counts["by chance longer"], counts["tokens by chance"]
    grown, pairs = per_token * num_tokens / 1e9, counts["short and repeated"]
    copies, distinct, repeated = counts["copies"], counts["distinct"], counts["repeated"]
    print(f"""# Repeated spans

`python benchmarks/bench_spans.py`: repeated spans of at least {LEAST} tokens across documents, of {2 * num_tokens / 1e9:.2f} GB of
uint16 tokens (Zipf's law, vocabulary of {VOCABULARY:,}) with spans planted at known places. Ours ran under RLIMIT_DATA of
{cap:,} MB, with joins of {MEMORY >> 20} MiB; private memory is the largest seen (RssAnon, polled): files that are mapped are
page cache and not in it. Scratch is the largest size of its folder. CPU seconds of one process, one thread, all passes.
The whole was done once.

| what | million tokens | CPU s | million tokens / s | private MB | scratch MB |
| --- | --- | --- | --- | --- | --- |
{row("curate, the whole", num_tokens, whole)}
{row("curate, a smaller corpus", small_tokens, small)}
{row("suffix array and common prefixes (pydivsufsort), the same corpus", small_tokens, suffixes)}

On the smaller corpus ({len(ratios)} rounds in turns, medians) both find the same tokens. Ours takes {ratio:.2f} ({low:.2f} to {high:.2f})
of the suffix array's time (of which {sorting:.1f} s are sorting) and {memory_ratio:.2f} of its memory. That grows with the corpus:
{per_token:.0f} bytes a token, {grown:.0f} GB for the whole.
The kernel that finds anchors, on which ours passes twice over all tokens, does {whole["rate"] / 1e6:,.0f} million tokens a second.

What was found in the whole: all {copies:,} copies of the {distinct:,} planted spans of {LEAST} tokens or more,
{repeated:,} tokens in {whole["spans"]:,} spans (a span ends where other documents share what follows). {chance:,} copies
are longer than planted, by {by_chance:,} tokens together: what stands before or behind them agrees by chance with another
copy's surroundings. Of the {counts["short"]:,} copies of spans of 40 to 49 tokens, {pairs:,} pairs are repeated, as chance made
them {LEAST} long. Nothing else was found and nothing was missed: the tokens are those that the planted places say, every
one. With `keep_first` {counts["cut"]:,} tokens are cut: of each planted span all copies but the first.

Input (first 16 digits of the sha256 of the tokens): the whole `{digest}`, the smaller corpus `{small_digest}`.

Versions: Python {platform.python_version()}, {versions}, pydivsufsort {version}. Machine: {os.cpu_count()} cores,
{platform.system()}. The tool of Lee et al. (deduplicate-text-datasets) is not in the table: its crates could not be had here.
It makes a suffix array of the bytes, on disk, and strikes all copies, also those within one document.""")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--contestant"]:
        name, folder = sys.argv[2], Path(sys.argv[3])
        if name == "ours":
            ours(folder, int(sys.argv[4]))
        else:
            suffix_array(folder)
    else:
        main()
