"""Our encoders beside sentencepiece, Hugging Face tokenizers and tiktoken: CPU time on one core, and whether the ids agree.

    python benchmarks/bench_tokenize.py --peer PYTHON [--rounds 5] [--sizes 16384] > benchmarks/results/tokenize.md

PYTHON is that of an environment with sentencepiece, tokenizers, tiktoken, numpy and pyarrow. Texts of `$CURATE_DATA`: main text
of pages (03_raw_html, 01_warc), gold texts (02_gold), books (04, 10), code (05, 10) and sentences in 75 languages (09), none
twice. Their digest decides which half trains the vocabularies; speed is measured on documents of the other half, ids are compared
on all documents of both. The run fails if an id differs.

The byte-level vocabulary is trained by Hugging Face's trainer and written in the way of `transformers`' conversion from
tiktoken, so that tokenizer.json and tiktoken say the same: all splits of a token are merges, whole parts are looked up.

Each measurement is a process of its own; the contestants take turns. CPU time is user and system time of all threads, and
begins when libraries are loaded, machine code is compiled and a first short text has gone through. Writes Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CURATE_DATA") or ROOT.parent / "shared" / "data")
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "ARROW_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
SETS = ("pages", "gold texts", "books", "code", "75 languages")
SAMPLE_BYTES = 15_000_000  # of the training half
SET_BYTES = 2_000_000  # of each set, to measure on
BATCH = 256  # documents in one call
PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WARM_UP = ["The lock opened at dawn, and 1,873 barges left.\n\n\tA comporta do canal\u2026 \u4e00\u4e8c\n"]

# Contestant to its file, and whether it is ours; peers come after what is measured beside them.
OURS = {"curate, sentencepiece BPE": "bpe", "curate, unigram": "unigram", "curate, byte-level BPE": "json"}
PEERS = {"sentencepiece BPE": "bpe", "sentencepiece unigram": "unigram", "Hugging Face tokenizers": "json"}
PEERS |= {"tiktoken": "json"}
CLAIMS = (
    ("curate, sentencepiece BPE", "sentencepiece BPE", 5),
    ("curate, byte-level BPE", "Hugging Face tokenizers", 8),
)
CLAIMS += (("curate, byte-level BPE", "tiktoken", 2), ("curate, unigram", "sentencepiece unigram", 1))


# ---- one contestant


def encode_function(name: str, file: str) -> Callable[[Sequence[str]], list[Sequence[int]]]:
    """Return a peer's function from texts to their ids."""
    if name.startswith("sentencepiece"):
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_file=file)
        return lambda texts: processor.encode(list(texts), num_threads=1)
    if name == "tiktoken":
        import tiktoken

        plain = {token: bytes(map(byte_of().__getitem__, piece)) for piece, token in vocabulary(file).items()}
        end = len(plain)
        encoding = tiktoken.Encoding(
            "bench",
            pat_str=PATTERN,
            mergeable_ranks={piece: token for token, piece in plain.items()},
            special_tokens={"<|endoftext|>": end},
        )
        return lambda texts: [encoding.encode_ordinary(text) for text in texts]
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(file)
    tokenizer.encode_special_tokens = True
    return lambda texts: [found.ids for found in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def contest(name: str, file: str, path: str) -> dict[str, Any]:
    """Encode the documents to measure on; return CPU seconds by set and a digest of the ids of each document."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path, filters=[("measured", "=", True)])
    seconds, digests = {}, []
    if name in OURS:
        from curate.tokens.encoding.encoder import encoder_of
        from curate.tokens.tokenizer import load_tokenizer

        encoder = encoder_of(load_tokenizer(file))
        assert encoder.is_compiled
        encoder.encode(pa.array(WARM_UP, pa.large_string()))
    else:
        encode = encode_function(name, file)
        encode(WARM_UP)
    for kind in SETS:
        batches = table.filter(pa.compute.field("set") == kind)["text"].combine_chunks().cast(pa.large_string())
        parts = [batches.slice(start, BATCH) for start in range(0, len(batches), BATCH)]
        texts = [] if name in OURS else [part.to_pylist() for part in parts]
        before = cpu()
        found = [encoder.encode(part) for part in parts] if name in OURS else [encode(part) for part in texts]
        seconds[kind] = cpu() - before
        for each in found:
            runs = np.split(each[0], each[1][1:-1]) if name in OURS else each
            digests += [hashlib.sha256(np.asarray(run, np.uint32).tobytes()).hexdigest()[:16] for run in runs]
    packages = ("sentencepiece", "tokenizers", "tiktoken") if name not in OURS else ()
    return {
        "seconds": seconds,
        "digests": digests,
        "versions": {package: importlib.metadata.version(package) for package in packages},
    }


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def compare(file: str, path: str) -> dict[str, Any]:
    """Return how many documents of all have other ids than the tokenizer's library gives, and of how many."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from curate.tokens.encoding.encoder import encoder_of
    from curate.tokens.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(file)
    encoder, differ, count, tokens = encoder_of(tokenizer), 0, 0, 0
    for batch in pq.ParquetFile(path).iter_batches(batch_size=BATCH, columns=["text"]):
        ids, offsets = encoder.encode(batch.column(0).cast(pa.large_string()))
        for row, run in enumerate(tokenizer.encode_batch(batch.column(0).to_pylist())):
            differ += not np.array_equal(run, ids[offsets[row] : offsets[row + 1]])
            count, tokens = count + 1, tokens + len(run)
    return {"differ": differ, "documents": count, "tokens": tokens}


# ---- vocabularies


def byte_of() -> dict[str, int]:
    """Return which byte each character of a byte-level vocabulary stands for."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = [byte for byte in range(256) if byte not in printed]
    return {chr(byte): byte for byte in printed} | {chr(256 + place): byte for place, byte in enumerate(other)}


def vocabulary(file: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(Path(file).read_bytes())["model"]["vocab"]
    return found


def train(path: str, folder: str, size: int) -> None:
    """Write `bpe.model`, `unigram.model` and `json.json` of one size, trained on the training half."""
    import pyarrow.parquet as pq

    from curate.tokens.sentencepiece_training import train_tokenizer
    from curate.tokens.settings import SentencePiece, TokenizerSettings

    texts = pq.read_table(path, filters=[("trains", "=", True)])["text"].to_pylist()
    for kind in ("bpe", "unigram"):
        training = SentencePiece(vocab_size=size, model=kind, sample_bytes=SAMPLE_BYTES)
        trained = train_tokenizer(texts, TokenizerSettings(train=training))
        Path(folder, f"{kind}.model").write_bytes(trained.model)
    Path(folder, "json.json").write_text(json.dumps(byte_level(texts, size)))


def byte_level(texts: Sequence[str], size: int) -> dict[str, Any]:
    """Return a tokenizer.json whose ids are ranks: bytes, then tokens in the order in which they were learnt."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    alphabet = byte_of()
    learner.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=size - 1, initial_alphabet=list(alphabet), show_progress=False)
    )
    written: dict[str, Any] = json.loads(learner.to_str())
    learnt = sorted(written["model"]["vocab"], key=written["model"]["vocab"].__getitem__)
    ranks = {piece: rank for rank, piece in enumerate(sorted(alphabet, key=alphabet.__getitem__))}
    for piece in learnt:
        ranks.setdefault(piece, len(ranks))
    merges = []
    for piece in ranks:
        cuts = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        known = [cut for cut in cuts if cut[0] in ranks and cut[1] in ranks]
        merges += sorted(known, key=lambda cut: (ranks[cut[0]], ranks[cut[1]]))
    written["model"] |= {"vocab": ranks, "merges": [list(pair) for pair in merges], "ignore_merges": True}
    end = {"id": len(ranks), "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False}
    written["added_tokens"] = [end | {"normalized": False, "special": True}]
    return written


# ---- texts


def texts() -> Iterator[tuple[str, str]]:
    """Yield set and text of all documents."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from bench_filters import gold, pages

    yield from (("pages", text) for text in pages())
    yield from (("gold texts", text) for text in gold())
    for kind in ("books", "code"):
        folders = ("04_books" if kind == "books" else "05_code", "10_small_corpus")
        for folder in folders:
            with gzip.open(DATA / folder / f"{kind}.jsonl.gz", "rt", encoding="utf-8") as file:
                yield from ((kind, json.loads(line)["text"]) for line in file)
    languages: dict[str, list[str]] = {}
    with gzip.open(DATA / "09_langid" / "sentences.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            languages.setdefault(row["lang"], []).append(row["text"])
    for sentences in languages.values():
        yield from (("75 languages", "\n".join(sentences[start : start + 8])) for start in range(0, len(sentences), 8))


def write_texts(path: Path) -> dict[str, Any]:
    """Write all distinct documents, in the order of their digests; return what there is of each set."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = {hashlib.sha256(text.encode()).hexdigest(): (kind, text) for kind, text in texts() if text}
    rows, trained, used = [], 0, dict.fromkeys(SETS, 0)
    for key in sorted(found):
        kind, text = found[key]
        size = len(text.encode())
        is_training = int(key[-1], 16) % 2 == 0
        trains = is_training and trained < SAMPLE_BYTES
        measured = not is_training and used[kind] < SET_BYTES
        trained += size * trains
        used[kind] += size * measured
        rows.append({"set": kind, "text": text, "trains": trains, "measured": measured})
    pq.write_table(pa.Table.from_pylist(rows), path)
    documents = {kind: sum(row["measured"] and row["set"] == kind for row in rows) for kind in SETS}
    measured = "".join(row["text"] for row in rows if row["measured"])
    return {
        "bytes": used,
        "documents": documents,
        "all": len(rows),
        "all_bytes": sum(len(row["text"].encode()) for row in rows),
        "digest": hashlib.sha256(measured.encode()).hexdigest()[:16],
    }


# ---- the table


def run(python: str, *arguments: str) -> Any:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [python, __file__, *arguments, "--out", out.name]
        subprocess.run(command, env=os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)}, check=True, stdout=sys.stderr)
        return json.loads(Path(out.name).read_bytes() or b"null")


def measure(size: int, path: str, folder: str, peer: str, rounds: int) -> dict[str, Any]:
    """Train the vocabularies of one size, and return the rounds of all contestants and the comparison of all ids."""
    run(sys.executable, "--train", str(size), "--texts", path, "--folder", folder)
    files = {"bpe": f"{folder}/bpe.model", "unigram": f"{folder}/unigram.model", "json": f"{folder}/json.json"}
    names = [*OURS, *PEERS]
    found: dict[str, list[Any]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            python = sys.executable if name in OURS else peer
            found[name].append(run(python, "--contest", name, "--file", files[(OURS | PEERS)[name]], "--texts", path))
        print(f"{size}: round {turn + 1} done", file=sys.stderr, flush=True)
    for mine, its, _ in CLAIMS:
        one, other = found[mine][0]["digests"], found[its][0]["digests"]
        differ = sum(pair[0] != pair[1] for pair in zip(one, other, strict=True))
        assert not differ, f"{mine}: {differ} of {len(one)} documents have other ids than {its} gives them"
    compared = {name: run(sys.executable, "--compare", "--file", file, "--texts", path) for name, file in files.items()}
    for name, each in compared.items():
        assert each["differ"] == 0, f"{name}: {each['differ']} of {each['documents']} documents have other ids"
    return {"rounds": found, "compared": compared}


def write(size: int, result: dict[str, Any], sizes: dict[str, int]) -> None:
    total = sum(sizes.values()) / 1e6
    found = result["rounds"]
    print(f"\n## {size:,} tokens\n")
    print("MB/s of UTF-8, medians; behind them the least and the most of all texts together.\n")
    print(f"| | all | {' | '.join(SETS)} |\n| --- | --- |{' --- |' * len(SETS)}")
    for name, rounds in found.items():
        whole = [sum(each["seconds"].values()) for each in rounds]
        rates = [sizes[kind] / 1e6 / statistics.median(each["seconds"][kind] for each in rounds) for kind in SETS]
        spread = f"{total / statistics.median(whole):.1f} ({total / max(whole):.1f} to {total / min(whole):.1f})"
        print(f"| {name} | {spread} | {' | '.join(f'{rate:.1f}' for rate in rates)} |")
    print(f"\n| | asked | all | {' | '.join(SETS)} |\n| --- | --- | --- |{' --- |' * len(SETS)}")
    for mine, its, asked in CLAIMS:
        whole = ratios(found, mine, its, SETS)
        each = [f"{statistics.median(ratios(found, mine, its, (kind,))):.1f}" for kind in SETS]
        spread = f"**{statistics.median(whole):.1f}** ({min(whole):.1f} to {max(whole):.1f})"
        print(f"| {mine} over {its} | {asked} | {spread} | {' | '.join(each)} |")
    told = "; ".join(f"{name} 0 of {each['documents']}" for name, each in result["compared"].items())
    print(
        f"\nDocuments with other ids than the library's, of all of both halves: {told}. On the documents measured, tiktoken's"
    )
    print("ids are the same, too.")


def ratios(found: dict[str, list[Any]], mine: str, its: str, kinds: Sequence[str]) -> list[float]:
    def seconds(each: Any) -> float:
        return sum(each["seconds"][kind] for kind in kinds)

    return [seconds(other) / seconds(one) for one, other in zip(found[mine], found[its], strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed and ids of the encoders")
    parser.add_argument("--peer", metavar="PYTHON", help="Python of an environment with the peers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16384])
    for mode in ("--contest", "--file", "--texts", "--folder", "--out"):
        parser.add_argument(mode, help=argparse.SUPPRESS)
    parser.add_argument("--train", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--compare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.texts, options.folder, options.train)
        return
    if options.contest or options.compare:
        found = (
            compare(options.file, options.texts)
            if options.compare
            else contest(options.contest, options.file, options.texts)
        )
        Path(options.out).write_text(json.dumps(found))
        return
    if not options.peer:
        parser.error("--peer PYTHON is needed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.parquet"
        told = write_texts(path)
        results = {size: measure(size, str(path), folder, options.peer, options.rounds) for size in options.sizes}
    print("# Encoding\n")
    print(
        "`python benchmarks/bench_tokenize.py --peer PYTHON`: from text to ids, one core, CPU time (user and system, all threads),"
    )
    print(f"medians of {options.rounds} processes each that take turns.\n")
    parts = ", ".join(f"{told['documents'][kind]} {kind} ({told['bytes'][kind] / 1e6:.1f} MB)" for kind in SETS)
    print(
        f"Measured on {parts}, sha256 `{told['digest']}`; the vocabularies are trained on {SAMPLE_BYTES / 1e6:.0f} MB of other"
    )
    print(f"documents. In all there are {told['all']:,}, none twice, {told['all_bytes'] / 1e6:.0f} MB.\n")
    print(
        "Steady state: our encoders remember nothing from one text to the next. The one table of whole words is made from the"
    )
    print(
        "vocabulary, before any text is seen: what its tokens are encoded to. (tokenizers keeps its memo of 10,000 words.)"
    )
    for size, result in results.items():
        write(size, result, told["bytes"])
    peers = results[options.sizes[0]]["rounds"]["tiktoken"][0]["versions"]
    versions = [f"{package} {importlib.metadata.version(package)}" for package in ("numba", "numpy", "pyarrow")]
    versions += [f"{package} {number}" for package, number in peers.items()]
    print(f"\nVersions: Python {platform.python_version()}, {', '.join(versions)}.")
    print(
        f"Machine: {processor()}, {os.cpu_count()} cores, {platform.system()}; load at the end {os.getloadavg()[0]:.1f}."
    )


def processor() -> str:
    """Return the name that the system gives its processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
