"""Read an export with the library whose format it is, and print what was read, as JSON.

    PYTHON benchmarks/export_readers.py FORMAT FOLDER [WINDOW]

PYTHON has datasets (hf, parquet), megatron-core (megatron), ai2-olmo-core (npy) or datatrove (nanotron); of curate nothing
is imported. With WINDOW the folder holds windows of training of so many ids.

Token formats: for each split and source the number of documents and ids, and the sha256 of the ids as little-endian int64
and of the lengths of the documents. Documents: for each split and source the rows, and the sha256 of their texts, each
behind its length.
"""

import hashlib
import importlib.metadata
import json
import logging
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

LIBRARIES = {
    "megatron": "megatron-core",
    "npy": "ai2-olmo-core",
    "nanotron": "datatrove",
    "parquet": "datasets",
    "hf": "datasets",
}


def tokens_of(documents):
    """Return counts and digests of documents, arrays of ids."""
    digest, lengths = hashlib.sha256(), []
    for ids in documents:
        lengths.append(len(ids))
        digest.update(np.asarray(ids).astype("<i8").tobytes())
    return {
        "documents": len(lengths),
        "tokens": sum(lengths),
        "ids": digest.hexdigest(),
        "lengths": hashlib.sha256(np.array(lengths, "<i8").tobytes()).hexdigest(),
    }


def texts_of(texts):
    """Return counts and digests of texts."""
    digest, count = hashlib.sha256(), 0
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
        count += 1
    return {"documents": count, "texts": digest.hexdigest()}


def streams(folder, ending):
    """Return (split, source) to its files, without the ending, in order."""
    found = {}
    for path in sorted(Path(folder).rglob(f"*{ending}")):
        split, *source, _ = path.relative_to(folder).parts
        found.setdefault((split, "/".join(source)), []).append(str(path).removesuffix(ending))
    return found


def read_megatron(folder, _):
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    for name, stems in streams(folder, ".bin").items():
        opened = [IndexedDataset(stem) for stem in stems]  # its documents are views that end with it
        assert all(one.document_indices.tolist() == list(range(len(one) + 1)) for one in opened)
        yield name, tokens_of(one[number] for one in opened for number in range(len(one)))


def read_npy(folder, window):
    """Documents by the offsets beside them; and the same ids as training sees them, in rows of one length."""
    from olmo_core.data import NumpyDatasetDType, NumpyFSLDatasetConfig, TokenizerConfig
    from olmo_core.data.utils import iter_document_indices

    width = json.loads(Path(folder, "export.json").read_text())["dtype"]
    dtype = np.dtype(width)
    for name, stems in streams(folder, ".npy").items():
        paths = [stem + ".npy" for stem in stems]
        documents = []
        for path in paths:
            ids = np.memmap(path, dtype, "r")
            documents += [ids[start:end] for start, end in iter_document_indices(path, use_array_if_local=False)]
        length = window or 64
        config = NumpyFSLDatasetConfig(
            paths=paths,
            dtype=NumpyDatasetDType[width],
            sequence_length=length,
            tokenizer=TokenizerConfig(vocab_size=1 << 16, eos_token_id=2, pad_token_id=2),
            work_dir=tempfile.mkdtemp(),
        )
        dataset = config.build()
        dataset.prepare()
        rows = np.concatenate([np.asarray(dataset[row]["input_ids"]) for row in range(len(dataset))] or [[]])
        whole = [np.memmap(path, dtype, "r") for path in paths]
        assert np.array_equal(rows, np.concatenate([ids[: ids.size // length * length] for ids in whole]))
        yield name, tokens_of(documents)


def read_nanotron(folder, window):
    """Rows of one length, one id at a time here so that nothing of a file is left over; ends of documents from the index."""
    from datatrove.utils.dataset import DatatroveFolderDataset

    for name, stems in streams(folder, ".ds").items():
        size = int(Path(stems[0] + ".ds.metadata").read_text().split("\n")[0].split("|")[1])
        base = f"{folder}/{name[0]}/{name[1]}"
        rows = DatatroveFolderDataset(base, seq_len=0, filename_pattern="*.ds", token_size=size)
        ids = np.concatenate([rows[row]["input_ids"].numpy() for row in range(len(rows))])
        longer = DatatroveFolderDataset(
            base, seq_len=(window or 64) - 1, filename_pattern="*.ds", token_size=size, return_positions=not window
        )
        starts = 0
        for row in range(len(longer)):
            if "positions" in (one := longer[row]):
                starts += int((one["positions"][1:] == 0).sum())
        ends, before = [], 0
        for stem in stems:
            found = np.fromfile(stem + ".ds.index", "<u8").astype(np.int64)
            ends.append(found + before)
            before += int(found[-1])
        whole = np.concatenate(ends)
        assert before == len(ids)
        if not window and len(stems) == 1:
            inside = whole[whole < len(longer) * 64]
            assert starts == int((inside % 64 != 0).sum()), "the library finds other beginnings of documents"
        yield name, tokens_of(np.split(ids, whole[:-1]))


def read_hf(folder, _):
    from datasets import get_dataset_config_names, load_dataset

    every, *sources = get_dataset_config_names(folder)
    cache = tempfile.mkdtemp()
    counts = {split: len(rows) for split, rows in load_dataset(folder, cache_dir=cache).items()}
    for source in sources:
        for split, rows in load_dataset(folder, source, cache_dir=cache).items():
            counts[split] -= len(rows)
            yield (split, source), texts_of(rows["text"])
    assert not any(counts.values()), f"configuration {every} has other rows than all sources together: {counts}"


def read_parquet(folder, _):
    from datasets import load_dataset

    for (split, source), stems in streams(folder, ".parquet").items():
        files = [stem + ".parquet" for stem in stems]
        rows = load_dataset("parquet", data_files=files, split="train", cache_dir=tempfile.mkdtemp())
        yield (split, source), texts_of(rows["text"])


READERS = {
    "megatron": read_megatron,
    "npy": read_npy,
    "nanotron": read_nanotron,
    "hf": read_hf,
    "parquet": read_parquet,
}


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    format_name, folder = sys.argv[1:3]
    window = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    found = {"/".join(name): counts for name, counts in READERS[format_name](folder, window)}
    library = LIBRARIES[format_name]
    print(json.dumps({"library": library, "version": importlib.metadata.version(library), "read": found}))


if __name__ == "__main__":
    main()
