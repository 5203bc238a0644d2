"""Write the documents of a token shard, or of a Parquet file, with the library whose format it is; print CPU seconds.

    PYTHON benchmarks/export_writers.py FORMAT INPUT OUTPUT

INPUT is a shard without its ending (ids in `.bin`, ends in `.idx`) or a Parquet file; OUTPUT is a folder. PYTHON has the
libraries of `export_readers.py`, and dolma for npy. What is read is in memory before the clock starts; imports do not count.
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np


def documents_of(stem):
    ids, ends = np.fromfile(stem + ".bin", "<u2"), np.fromfile(stem + ".idx", "<u8").astype(np.int64)
    return np.split(ids, ends[:-1])


def write_megatron(stem, folder):
    """An array for each document, as Megatron's tools/preprocess_data.py does."""
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    documents = documents_of(stem)
    yield
    builder = IndexedDatasetBuilder(f"{folder}/a.bin", dtype=np.uint16)
    for ids in documents:
        builder.add_document(ids, [len(ids)])
    builder.finalize(f"{folder}/a.idx")


def write_nanotron(stem, folder):
    """Bytes for each document, as datatrove's DocumentTokenizerMerger copies them."""
    from datatrove.pipeline.tokens.tokenizer import TokenizedFile

    documents = [ids.tobytes() for ids in documents_of(stem)]
    yield
    file = TokenizedFile(folder, "a.ds", save_final_metadata=True, tokenizer_name_or_path="tokenizer", token_size=2)
    for data in documents:
        file.write_bytes(data)
    file.close()


def write_npy(stem, folder):
    """A list of ids for each document, as dolma's tokenizer hands them over."""
    from dolma.tokenizer.data_types import TokenizerOutput
    from dolma.tokenizer.memmap_writer import MemmapWriter

    documents = [ids.tolist() for ids in documents_of(stem)]
    most = sum(map(len, documents)) + 1
    yield
    with MemmapWriter(f"{folder}/a", dtype=np.dtype("uint16"), max_tokens=most) as writer:
        for number, ids in enumerate(documents):
            output = TokenizerOutput.from_tokens(id=f"{number:032x}", src="a.jsonl.gz", loc=number + 1, tokens=ids)
            assert writer.write(output)


def write_hf(path, folder):
    """Dataset.to_parquet of rows that are in the library's own cache."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    rows = Dataset.from_parquet(path, cache_dir=f"{folder}/cache")
    yield
    rows.to_parquet(f"{folder}/a.parquet")


WRITERS = {"megatron": write_megatron, "nanotron": write_nanotron, "npy": write_npy, "hf": write_hf}


def main():
    warnings.simplefilter("ignore")
    name, source, folder = sys.argv[1:]
    work = WRITERS[name](source, folder)
    next(work)
    before, wall = sum(os.times()[:2]), time.perf_counter()
    next(work, None)
    spent = sum(os.times()[:2]) - before
    sizes = {path.name: path.stat().st_size for path in Path(folder).iterdir() if path.is_file()}
    print(json.dumps({"cpu": spent, "wall": time.perf_counter() - wall, "sizes": sizes}))


if __name__ == "__main__":
    main()
