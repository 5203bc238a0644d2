"""Tokenizer, encode, arrange: from curated documents to token shards in training order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curate.cache import Entry
from curate.dedup.spill import Sorter
from curate.groups import group_finder
from curate.ledger import balance
from curate.pipeline import ParquetFile, read_batches, rows_written
from curate.plan import TaskContext
from curate.read.languages import is_language
from curate.text.hashing import choice_hash
from curate.tokens.arrange import EncodedShard, arrange, encode_documents
from curate.tokens.fertility import Fertility, bytes_of
from curate.tokens.labels import LABELLED, READS, label
from curate.tokens.losses import losses
from curate.tokens.order import Order
from curate.tokens.sentencepiece_training import NoTextError
from curate.tokens.sentencepiece_training import train_tokenizer as learn
from curate.tokens.settings import TokenizerSettings
from curate.tokens.shard import ShardInfo, dtype_for, stored_dtype, write_manifest
from curate.tokens.tokenizer import TOKENIZER_FILES, Tokenizer
from curate.tokens.tokenizer import load_tokenizer as load

SPLITS = ("train", "validation")
_GROUP_ROWS = 8192
GROUPS = pa.schema([pa.field("group", pa.int32(), nullable=False)])


def train_tokenizer(
    context: TaskContext,
    key: str,
    settings: TokenizerSettings,
    shards: Sequence[tuple[str, str]],
    weights: Mapping[str, float],
    seed: int,
) -> None:
    """Write tokenizer.model and card.json, learned on a sample of the training documents drawn by the mixture.

    Args:
        context: Of the task.
        key: Result key.
        settings: The recipe's `tokenizer`.
        shards: Source and collect result of each shard, in canonical order.
        weights: Share of the sample by source; without any, every source gives what it has.
        seed: Of the draw.

    Raises:
        NoTextError: If no source has a document with text.
    """
    budgets = _budgets(context, settings, shards, weights)
    draws = _draw(context, shards, budgets, seed)
    trained = learn(_texts(context, shards, draws, seed), settings)
    sampled = {source: draws[source].num_bytes if source in draws else 0 for source in budgets}
    with context.writing(key) as output:
        output.path("tokenizer.model").write_bytes(trained.model)
        card = trained.card | {"sample_bytes_by_source": sampled}
        output.path("card.json").write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n")


def _budgets(
    context: TaskContext,
    settings: TokenizerSettings,
    shards: Sequence[tuple[str, str]],
    weights: Mapping[str, float],
) -> dict[str, int]:
    """Return the bytes to sample from each source: by weight, never more than it has."""
    available: dict[str, int] = {}
    for source, collected in shards:
        ledger = context.entry(collected).counts["ledger"]
        available[source] = available.get(source, 0) + ledger["bytes"]["kept"]
    if not any(weights.get(source, 0) for source in available):
        weights = available
    whole = sum(weights.get(source, 0) for source in available)
    limit = min(settings.training.sample_bytes, sum(available.values()))
    if not whole or not limit:
        raise NoTextError
    return {source: min(size, int(limit * weights.get(source, 0) / whole)) for source, size in available.items()}


@dataclass(frozen=True, slots=True)
class _Draw:
    """The documents of one source up to a place in the order of their hashes.

    Attributes:
        last: (hash, id) of the last document.
        last_bytes: What is used of it.
        num_bytes: What is used of all.
    """

    last: tuple[int, str]
    last_bytes: int
    num_bytes: int


def _documents(
    context: TaskContext, shards: Sequence[tuple[str, str]], seed: int
) -> Iterator[tuple[str, tuple[int, str], str]]:
    """Yield source, (hash, id) and text of all training documents."""
    for source, collected in shards:
        path = context.entry(collected).path("documents.parquet")
        for batch in read_batches(path, ["id", "split", "text"]):
            batch = batch.filter(pc.equal(batch["split"], "train"))
            for name, text in zip(batch["id"].to_pylist(), batch["text"].to_pylist(), strict=True):
                yield source, (choice_hash(seed, name, "tokenizer"), name), text


def _draw(
    context: TaskContext, shards: Sequence[tuple[str, str]], budgets: Mapping[str, int], seed: int
) -> dict[str, _Draw]:
    """Return for each source the documents in hash order until its budget is full."""
    draws: dict[str, _Draw] = {}
    with context.scratch() as folder:
        memory = context.memory // max(1, len(budgets))
        sorters = {
            source: Sorter(4, memory, str(folder), f"draw-{number}") for number, source in enumerate(sorted(budgets))
        }
        for source, (value, name), text in _documents(context, shards, seed):
            row = (value, int(name[:16], 16), int(name[16:], 16), len(text.encode()))
            sorters[source].append(*(np.array([number], np.uint64) for number in row))
        for source, sorter in sorters.items():
            used = 0
            for value, high, low, size in _rows(sorter):
                if used >= budgets[source]:
                    break
                part = min(size, budgets[source] - used)
                used += part
                draws[source] = _Draw((value, f"{high:016x}{low:016x}"), part, used)
    return draws


def _rows(sorter: Sorter) -> Iterator[list[int]]:
    for records in sorter.sorted():
        for record in records:
            yield record.tolist()


def _texts(
    context: TaskContext, shards: Sequence[tuple[str, str]], draws: Mapping[str, _Draw], seed: int
) -> Iterator[str]:
    for source, place, text in _documents(context, shards, seed):
        draw = draws.get(source)
        if draw is not None and place < draw.last:
            yield text
        elif draw is not None and place == draw.last:
            yield text.encode()[: draw.last_bytes].decode(errors="ignore")


def load_tokenizer(context: TaskContext, key: str, settings: TokenizerSettings, path: Path) -> None:
    """Write the file, under its name in a run folder, and card.json of a tokenizer that the recipe names."""
    loaded = load(path, eos=settings.eos, bos=settings.bos)
    with context.writing(key) as output:
        output.path(loaded.file_name).write_bytes(loaded.model)
        card = {
            "kind": "loaded",
            "format": loaded.file_name,
            "vocab_size": loaded.vocab_size,
            "eos": loaded.eos,
            "eos_id": loaded.eos_id,
            "bos": loaded.bos,
            "bos_id": loaded.bos_id,
            "sha256": loaded.sha256,
            "lossless": loaded.lossless,
            "losses": list(losses(loaded)),
            "unused_ids": loaded.unused_ids,  # below vocab_size, which is the highest id and 1
        }
        output.path("card.json").write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n")


def open_tokenizer(context: TaskContext, key: str, settings: TokenizerSettings) -> Tokenizer:
    """Return the tokenizer that a result holds."""
    entry = context.entry(key)
    eos = settings.eos if settings.load is not None else settings.trained_eos
    return load(entry.path(tokenizer_file_of(entry)).read_bytes(), eos=eos, bos=settings.bos)


def tokenizer_file_of(entry: Entry) -> str:
    """Return the name of the tokenizer's file in a result."""
    [name] = [name for name in TOKENIZER_FILES if name in entry.files]
    return name


def encode_shard(
    context: TaskContext, key: str, source: str, collected: str, tokenizer_key: str, settings: TokenizerSettings
) -> None:
    """Write the encoded runs of one document shard, tokens.bin and documents.parquet, and labels.parquet (LABELLED)."""
    tokenizer = open_tokenizer(context, tokenizer_key, settings)
    documents = context.entry(collected).path("documents.parquet")
    with context.writing(key) as output:
        shard = EncodedShard(output.path("tokens.bin"), output.path("documents.parquet"))
        fertility = Fertility(tokenizer)
        batches = fertility.seen(read_batches(documents, ["id", "split", "text", "language"]))
        tokens = encode_documents(batches, tokenizer, shard)
        with ParquetFile(output.path("labels.parquet"), LABELLED) as labels:
            for batch in label(read_batches(documents, READS), is_language):
                labels.write(batch)
        written = rows_written(shard.documents)
        balance(source, "encode", "documents", rows_written(documents), {"encoded": written})
        sizes = pq.read_table(shard.documents, columns=["tokens"])["tokens"].to_numpy()
        dtype = stored_dtype(dtype_for(tokenizer.vocab_size))
        runs = np.memmap(shard.tokens, dtype, "r") if tokens else np.zeros(0, dtype)
        counted = fertility.counts(runs, sizes)
        output.counts |= {"tokens": tokens, "documents": written, "fertility": counted}
        if tokenizer.missing_bytes and len(losses(tokenizer)) == 1:  # nothing else changes the length of a text
            there = sum(language["bytes"] for language in counted.values())
            output.counts["bytes_lost"] = there - bytes_of(runs, tokenizer)


def arrange_source(
    context: TaskContext,
    key: str,
    source: str,
    encoded: Sequence[str],
    tokenizer_key: str,
    settings: TokenizerSettings,
    seed: int,
    order: Order = "shuffled",
    groups: Sequence[str] = (),
    group: int = 0,
) -> None:
    """Write the token shards of one source, both splits, and their manifest.json.

    Documents for validation are always shuffled, so that recipes of both orders are measured on the same windows.

    Args:
        context: Of the task.
        key: Result key.
        source: Name of the source, or of the group.
        encoded: Encode results of its shards, in the order of its input.
        tokenizer_key: Of the tokenizer.
        settings: The recipe's `tokenizer`.
        seed: Of the shuffled order.
        order: In which the documents for training stand.
        groups: Results of `assign_groups` for the shards, if the documents of one group are wanted.
        group: Number of that group.
    """
    tokenizer = open_tokenizer(context, tokenizer_key, settings)
    shards = [
        EncodedShard(
            _file(context, one, "tokens.bin"),
            _file(context, one, "documents.parquet"),
            _file(context, groups[number], "groups.parquet") if groups else None,
            group,
            _file(context, one, "labels.parquet") if "labels.parquet" in context.entry(one).files else None,
        )
        for number, one in enumerate(encoded)
    ]
    with context.writing(key) as output, context.scratch() as scratch:
        infos: list[ShardInfo] = []
        for split in SPLITS:
            infos += arrange(
                shards,
                output.folder,
                split,
                vocab_size=tokenizer.vocab_size,
                eos_id=tokenizer.eos_id,
                order_seed=None if order == "input" and split == "train" else seed,
                memory_bytes=context.memory,
                scratch=scratch,
            )
        came_in = sum(context.entry(one).counts["documents"] for one in encoded)
        if groups:
            came_in = sum(context.entry(one).counts["groups"][group] for one in groups)
        balance(source, "arrange", "documents", came_in, {"arranged": sum(info.documents for info in infos)})
        write_manifest(
            output.folder,
            dtype=dtype_for(tokenizer.vocab_size),
            vocab_size=tokenizer.vocab_size,
            eos_id=tokenizer.eos_id,
            tokenizer_sha256=tokenizer.sha256,
            shards=infos,
        )


def assign_groups(
    context: TaskContext,
    key: str,
    source: str,
    encoded: str,
    axes: Sequence[tuple[str, str, str, Sequence[Sequence[str]]]],
) -> None:
    """Write groups.parquet: for each encoded document of a shard the number of the cell that its labels, or numbers, are in.

    Args:
        context: Of the task.
        key: Result key.
        source: Name of the source.
        encoded: Encode result of the shard: the documents that were kept, in file order.
        axes: For each axis the result and its Parquet file with the column: all documents of the shard, or those that were
            kept, in file order; the column; and the labels of each group (see `curate.groups.group_finder`). Cells are
            numbered as `curate.groups.Division.cells` names them.
    """
    counts = [0] * prod(len(labels) for *_, labels in axes)
    kept = _file(context, encoded, "documents.parquet")
    groups = [
        _groups_of(kept, _file(context, result, name), source, column, labels) for result, name, column, labels in axes
    ]
    with context.writing(key) as output:
        with ParquetFile(output.path("groups.parquet"), GROUPS) as file:
            cells = (number_of_cell(one, [len(labels) for *_, labels in axes]) for one in zip(*groups, strict=True))
            while found := list(islice(cells, _GROUP_ROWS)):
                for cell in found:
                    counts[cell] += 1
                file.write(pa.record_batch([pa.array(found, pa.int32())], schema=GROUPS))
        balance(source, "arrange", "documents", context.entry(encoded).counts["documents"], {"grouped": sum(counts)})
        output.counts["groups"] = counts


def number_of_cell(groups: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the number of a cell from its group on each axis: the last axis counts fastest."""
    number = 0
    for group, size in zip(groups, sizes, strict=True):
        number = number * size + group
    return number


def _groups_of(kept: Path, measured: Path, source: str, column: str, labels: Sequence[Sequence[str]]) -> Iterator[int]:
    """Yield the group of each document that was kept; both files have the documents in one order."""
    group_of = group_finder(labels)
    names = (name for batch in read_batches(kept, ["id"]) for name in batch["id"].to_pylist())
    waiting = next(names, None)
    for batch in read_batches(measured, ["id", column]):
        for name, value in zip(batch["id"].to_pylist(), batch[column].to_pylist(), strict=True):
            if name == waiting:
                yield group_of(value)
                waiting = next(names, None)
    assert waiting is None, f"document {waiting} of {source} was kept and not measured"


def _file(context: TaskContext, key: str, name: str) -> Path:
    return context.entry(key).path(name)
