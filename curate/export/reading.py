"""What a card tells of the files: their layout, and how each trainer opens them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from curate.export.markdown import fenced
from curate.report.display import number

_FILES = {
    "megatron": "`<split>/<source>/<number>.bin` and `.idx`: Megatron-LM's indexed dataset, a sequence and document each.",
    "npy": "`<split>/<source>/<number>.npy`: raw little-endian ids without a header, as OLMo-core maps them (not `numpy.load`); "
    "`.csv.gz` beside it has a line for each document: start, end, id, file of the run that lists it, row there.",
    "nanotron": "`<split>/<source>/<number>.ds`: raw little-endian ids, as datatrove writes and nanotron reads them; "
    "`.ds.index` beside it has the end of each document in ids (uint64), `.ds.metadata` tokenizer, width and number of ids.",
    "parquet": "`<split>/<source>/<number>.parquet`: a row for each document, with the columns of the run.",
    "hf": "`data/<source>/<split>-<number>-of-<count>.parquet`: a row for each document.",
}
_COLUMNS = """\
`id` (32 hex digits, the same in every run over the same input), `source`, `url`, `path` of the input file, `text`, `language`,
`metadata` (a JSON object, as the input has it, with what the recipe adds), `split`, `cluster_size` (copies of the document that
were found, itself included)."""
_BESIDE = (
    "`export.json` lists every file with bytes and sha256; `recipe.yaml` and `manifest.json` are those of the run."
)


def reading(format_name: str, order: str, ids: Mapping[str, Any]) -> list[str]:
    """Return the lines on the files of an export.

    Args:
        format_name: One of the formats.
        order: `arranged` or `mixture`.
        ids: dtype, vocab_size, eos_id and, of `mixture`, the inputs of a window; empty where there are no ids.
    """
    lines = [_FILES[format_name], ""]
    if not ids:
        lines += [f"Columns: {_COLUMNS}", ""]
    else:
        lines += [f"Ids are {ids['dtype']}, below {number(ids['vocab_size'])}; {ids['eos_id']} ends a document.", ""]
        if order == "mixture":
            lines += [*_windows(format_name, ids["window"]), ""]
        else:
            where = "by a hash of seed and id, unless the recipe says otherwise"
            lines += [f"Each document stands once, where the run has it: {where}.", ""]
    lines += [_BESIDE, ""]
    return lines + fenced(_snippet(format_name, order, ids), "python")


def _windows(format_name: str, window: int) -> list[str]:
    length = window + 1
    lines = [
        f"The files hold the windows of training in its order, {number(length)} ids each: {number(window)} inputs and, behind "
        f"them, the last target. So `ids.reshape(-1, {length})` gives a row for each slot, inputs `row[:-1]`, targets `row[1:]`.",
        "A window may begin and end inside of a document.",
    ]
    how = {
        "megatron": "Megatron shuffles what it reads: its GPTDataset keeps the windows whole (with "
        f"`add_extra_token_to_sequence=False` and `sequence_length={length}`), not their order.",
        "npy": f"OLMo-core keeps windows and order with `sequence_length={length}` and a data loader with `shuffle=False`.",
        "nanotron": f"datatrove's dataset keeps windows and order with `seq_len={window}`: it reads one id more.",
    }
    return [*lines, how[format_name]]


def _snippet(name: str, order: str, ids: Mapping[str, Any]) -> str:
    length = ids["window"] + 1 if order == "mixture" else 2048
    stem = "train/mixture/00000" if order == "mixture" else "train/<source>/00000"
    if name == "megatron":
        return (
            "from megatron.core.datasets.indexed_dataset import IndexedDataset\n"
            f'documents = IndexedDataset("{stem}")  # documents[0]: ids of the first'
        )
    if name == "npy":
        eos = ids["eos_id"]
        tokenizer = f"vocab_size={ids['vocab_size']}, eos_token_id={eos}, pad_token_id={eos}"
        return (
            "from glob import glob\n"
            "from olmo_core.data import NumpyDatasetDType, NumpyFSLDatasetConfig, TokenizerConfig\n"
            f"tokenizer = TokenizerConfig({tokenizer})\n"
            'paths = sorted(glob("train/**/*.npy", recursive=True))\n'
            f"config = NumpyFSLDatasetConfig(paths=paths, dtype=NumpyDatasetDType.{ids['dtype']}, sequence_length={length},\n"
            '                               tokenizer=tokenizer, work_dir="/tmp/work")\n'
            "dataset = config.build()\n"
            "dataset.prepare()"
        )
    if name == "nanotron":
        size = {"uint16": 2, "uint32": 4}[ids["dtype"]]
        return (
            "from datatrove.utils.dataset import DatatroveFolderDataset\n"
            f'dataset = DatatroveFolderDataset("train", seq_len={length - 1}, filename_pattern="**/*.ds", token_size={size})'
        )
    if name == "parquet":
        return 'import polars\ndocuments = polars.scan_parquet("train/**/*.parquet")'
    return (
        "from datasets import load_dataset\n"
        'everything = load_dataset("path/of/this/folder", split="train")\n'
        'one = load_dataset("path/of/this/folder", "<source>", split="train", streaming=True)'
    )


def drawn_shares(mixture: Mapping[str, Any]) -> dict[str, float]:
    """Return each stream's share of all tokens that a mixture draws, what is planted on top included: they add up to 1."""
    drawn = {name: int(one.get("tokens_drawn") or 0) for name, one in (mixture.get("sources") or {}).items()}
    total = sum(drawn.values())
    return {name: tokens / total if total else 0.0 for name, tokens in drawn.items()}


def blend(written: Mapping[str, Mapping[str, Any]], mixture: Mapping[str, Any]) -> dict[str, Any]:
    """Return Megatron's `--per-split-data-args-path`: for each split, weights and prefixes in turns.

    A stream's weight is its share of the mixture (of the tokens where there is no mixture, and of the validation tokens),
    divided over its files by their tokens.
    """
    splits: dict[str, Any] = {}
    shares = drawn_shares(mixture)
    for split, name in (("train", "train"), ("validation", "valid")):
        files = {path: one for path, one in written.items() if one["split"] == split}
        totals: dict[str, int] = {}
        for one in files.values():
            totals[one["source"]] = totals.get(one["source"], 0) + one["tokens"]
        words: list[str] = []
        for path, one in files.items():
            weight = one["tokens"] / sum(totals.values())
            if split == "train" and shares:  # a source that the mixture does not name is not drawn
                weight = shares.get(one["source"], 0) * one["tokens"] / totals[one["source"]]
            if weight:
                words += [f"{weight:.9g}", path.removesuffix(".bin")]
        splits[name] = words or None
    return splits | {"test": None}
