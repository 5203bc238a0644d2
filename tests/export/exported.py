"""One real run for all tests of exports: three sources, two of them with metadata of all kinds, tokens and a mixture."""

import json
import shutil
from pathlib import Path
from typing import Any

import machine
import numpy as np
import numpy.typing as npt

from curate.tokens.shard import ShardWriter, TokenDtype, TokenSource, write_manifest

HOSTILE = "<script>alert(1)</script> | `x` [a](javascript:b) *b* # c\n---\n| d |"
RECIPE = """\
name: exported
seed: 3
sources:
  web:
    read: {kind: jsonl, paths: "in/web/*.jsonl"}
    licence: CC-BY-4.0
    steps:
      - gopher_quality: {min_words: 8, min_stop_words: off}
      - pii: {at: collect}
  books:
    read: {kind: jsonl, paths: "in/books.jsonl"}
  more:
    read: {kind: jsonl, paths: "in/more.jsonl"}
dedup: {exact: {}}
tokenizer: {train: {kind: sentencepiece, vocab_size: 400}}
validation: {tokens: 300, min_documents: 2}
mixture: {weights: {web: 2, books: 1}, tokens: 4k, max_epochs: 4, window: 32}
"""
LICENCES = ("MIT", None, HOSTILE, "Apache-2.0")
DATES = ("2019-05-02T01:02:03Z", "Mon, 06 Jul 2015 10:00:00 GMT", "2020", None, "yesterday")


def write_inputs(folder: Path) -> Path:
    """Write the recipe and its inputs; return the recipe's path."""
    web = [
        {"id": f"w{seed}", "url": f"https://example.org/{seed}", "text": machine.prose(seed, 3), "language": "en"}
        for seed in range(90)
    ]
    web[1]["text"] = web[2]["text"]
    web[3]["text"] = "Too short."
    web[4]["text"] += " Write to someone@example.org for it."
    for number, row in enumerate(web):
        row["date"] = DATES[number % len(DATES)]
        row["license"] = LICENCES[number % len(LICENCES)]
    machine.write_jsonl(folder / "in" / "web" / "a.jsonl", web[:50])
    machine.write_jsonl(folder / "in" / "web" / "b.jsonl", web[50:])
    books = [
        {"id": f"b{seed}", "text": f"Capítulo {seed} — 日本語 😀\n" + machine.prose(500 + seed, 12)}
        for seed in range(20)
    ]
    machine.write_jsonl(folder / "in" / "books.jsonl", books)
    machine.write_jsonl(folder / "in" / "more.jsonl", [{"id": "m", "text": "One document alone, nothing else here."}])
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE)
    return recipe


def listed(output: Path) -> dict[str, dict[str, Any]]:
    """Return what export.json says of each file."""
    return {one["path"]: one for one in json.loads((output / "export.json").read_text())["files"]}


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def ids_of(run: Path, stream: str, split: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return a stream's ids and the ends of its documents, read as the format of the run's shards says."""
    folder = run / "tokens" / stream
    manifest = json.loads((folder / "manifest.json").read_text())
    ids: list[npt.NDArray[np.int64]] = []
    ends: list[npt.NDArray[np.int64]] = []
    before = 0
    for shard in manifest["shards"]:
        if shard["split"] == split:
            ids.append(
                np.fromfile(folder / f"{shard['name']}.bin", "<u2" if manifest["dtype"] == "uint16" else "<u4").astype(
                    np.int64
                )
            )
            ends.append(np.fromfile(folder / f"{shard['name']}.idx", "<u8").astype(np.int64) + before)
            before += ids[-1].size
    return np.concatenate(ids), np.concatenate(ends)


def rewrite_tokens(run: Path, stream: str, *, dtype: TokenDtype, shard_tokens: int) -> None:
    """Write a stream's shards again: the same documents, other width, smaller shards."""
    folder = run / "tokens" / stream
    shards = []
    opened = {split: TokenSource.open(folder, split) for split in ("train", "validation")}
    documents = {
        split: list(zip(source.documents(), source.document_bytes.tolist(), strict=True))
        for split, source in opened.items()
    }
    some = opened["train"]
    eos, digest = some.eos_id, some.tokenizer_sha256
    vocab_size = some.vocab_size if dtype == "uint16" else 70_000
    shutil.rmtree(folder)
    for split, rows in documents.items():
        with ShardWriter(
            folder, split, dtype=dtype, eos_id=eos, vocab_size=vocab_size, shard_tokens=shard_tokens
        ) as writer:
            for (document, ids), size in rows:
                writer.add(document, size, ids)
        shards += writer.close()
    write_manifest(folder, dtype=dtype, vocab_size=vocab_size, eos_id=eos, tokenizer_sha256=digest, shards=shards)
