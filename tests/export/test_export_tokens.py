"""Token files of other trainers, read back by readers written here from each format's specification."""

import csv
import gzip
import shutil
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from exported import contents, ids_of, listed, rewrite_tokens

from curate.errors import CurateError, InputError
from curate.export.layouts import Layout, Megatron, Nanotron, Npy, Row
from curate.export.write import export
from curate.tokens.order import Plan

STREAMS = [(stream, split) for stream in ("web", "books") for split in ("train", "validation")] + [("more", "train")]

# What the libraries themselves wrote for the documents [7, 8, 9, 2], [2] and [300, 2] (megatron-core 0.16.1's
# IndexedDatasetBuilder with uint16 and int32, datatrove 0.10.1's TokenizedFile).
ENDS = np.array([4, 5, 7])
IDX_UINT16 = bytes.fromhex(
    "4d4d49444944580000010000000000000008030000000000000004000000000000000400000001000000020000000000000000000000"
    "08000000000000000a000000000000000000000000000000010000000000000002000000000000000300000000000000"
)
IDX_INT32 = bytes.fromhex(
    "4d4d49444944580000010000000000000004030000000000000004000000000000000400000001000000020000000000000000000000"
    "100000000000000014000000000000000000000000000000010000000000000002000000000000000300000000000000"
)
METADATA = b"tokenizer|2\n7\n7.00 T"


def read_megatron(stem: Path) -> tuple[np.ndarray, list[np.ndarray]]:
    """Read `.bin` and `.idx` by the layout of megatron/core/datasets/indexed_dataset.py; return ids and documents."""
    index = stem.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0"
    version, code, num_sequences, num_documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    dtype = {8: np.dtype("<u2"), 4: np.dtype("<i4")}[code]
    lengths = np.frombuffer(index, "<i4", num_sequences, 34)
    pointers = np.frombuffer(index, "<i8", num_sequences, 34 + 4 * num_sequences)
    documents = np.frombuffer(index, "<i8", num_documents, 34 + 12 * num_sequences)
    assert len(index) == 34 + 12 * num_sequences + 8 * num_documents
    assert documents[0] == 0
    assert documents[-1] == num_sequences
    data = stem.with_suffix(".bin").read_bytes()
    sequences = [np.frombuffer(data, dtype, int(n), int(at)) for n, at in zip(lengths, pointers, strict=True)]
    whole = [np.concatenate(sequences[a:b]) for a, b in pairwise(documents)]
    return np.frombuffer(data, dtype).astype(np.int64), whole


@pytest.mark.parametrize(("dtype", "shard_tokens"), [("uint16", 1 << 28), ("uint16", 3000), ("uint32", 3000)])
def test_every_layout_holds_the_run_token_for_token(
    run_copy: Path, tmp_path: Path, dtype: str, shard_tokens: int
) -> None:
    if shard_tokens != 1 << 28 or dtype != "uint16":
        for stream in ("web", "books", "more"):
            rewrite_tokens(run_copy, stream, dtype=dtype, shard_tokens=shard_tokens)
    made = {
        name: export(run_copy, name, output=tmp_path / name, quiet=True) for name in ("megatron", "npy", "nanotron")
    }
    stored = np.dtype("<u2" if dtype == "uint16" else "<u4")
    total = 0
    for stream, split in STREAMS:
        ids, ends = ids_of(run_copy, stream, split)
        total += ids.size
        documents = np.split(ids, ends[:-1])
        files = sorted((tmp_path / "npy" / split / stream).glob("*.npy"))
        assert (len(files) > 1) == (shard_tokens == 3000 and ids.size > 3000)
        found: dict[str, list[np.ndarray]] = {"megatron": [], "npy": [], "nanotron": []}
        for path in files:
            name = f"{split}/{stream}/{path.stem}"
            _, whole = read_megatron(tmp_path / "megatron" / name)
            found["megatron"] += whole
            raw = np.memmap(path, stored, "r")
            with gzip.open(path.with_suffix(".csv.gz"), "rt", newline="") as file:
                rows = list(csv.reader(file))
            found["npy"] += [np.asarray(raw[int(start) : int(end)]) for start, end, *_ in rows]
            assert int(rows[-1][1]) == raw.size
            data = np.fromfile(tmp_path / "nanotron" / f"{name}.ds", stored)
            found["nanotron"] += np.split(
                data, np.fromfile(tmp_path / "nanotron" / f"{name}.ds.index", "<u8").astype(int)
            )[:-1]
            kind, count, _ = (tmp_path / "nanotron" / f"{name}.ds.metadata").read_text().split("\n")
            assert (kind, int(count)) == (f"tokenizer|{stored.itemsize}", data.size)
        for name, whole in found.items():
            assert len(whole) == len(documents), name
            assert all(np.array_equal(a, b) for a, b in zip(whole, documents, strict=True)), name
    assert {one.tokens for one in made.values()} == {total}


def test_the_side_file_of_npy_names_documents(run_folder: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    export(run_folder, "npy", output=tmp_path / "x", quiet=True)
    with gzip.open(tmp_path / "x/train/web/00000.csv.gz", "rt", newline="") as file:
        rows = list(csv.reader(file))
    known = pq.read_table(run_folder / "tokens/web/train-00000.docs.parquet")["id"].to_pylist()
    assert [row[2:] for row in rows] == [
        [known[n], "tokens/web/train-00000.docs.parquet", str(n + 1)] for n in range(len(known))
    ]


@pytest.mark.parametrize(
    ("layout", "dtype", "expected"),
    [
        (Megatron(), "uint16", {".idx": IDX_UINT16}),
        (Megatron(), "uint32", {".idx": IDX_INT32}),
        (Nanotron(), "uint16", {".ds.index": struct.pack("<3Q", 4, 5, 7), ".ds.metadata": METADATA}),
    ],
)
def test_the_bytes_are_those_of_the_libraries(
    tmp_path: Path, layout: Layout, dtype: str, expected: dict[str, bytes]
) -> None:
    layout.write_beside(tmp_path / "a", dtype, ENDS, ())
    assert {ending: (tmp_path / f"a{ending}").read_bytes() for ending in layout.beside} == expected
    assert layout.count(tmp_path / "a", dtype) == (7, 3)


def test_side_file_of_dolma(tmp_path: Path) -> None:
    """What dolma 1.2.1's MemmapWriter wrote: comma, quotes where needed, CR LF."""
    rows = [Row(f"id{number}", "a,b.jsonl", number + 1) for number in range(3)]
    Npy().write_beside(tmp_path / "a", "uint16", ENDS, rows)
    packed = (tmp_path / "a.csv.gz").read_bytes()
    assert gzip.decompress(packed) == (b'0,4,id0,"a,b.jsonl",1\r\n4,5,id1,"a,b.jsonl",2\r\n5,7,id2,"a,b.jsonl",3\r\n')
    assert packed[4:8] == bytes(4)  # no time: the same bytes tomorrow
    with pytest.raises(ValueError, match="shorter"):
        Npy().write_beside(tmp_path / "b", "uint16", ENDS, rows[:2])


def test_what_int32_cannot_hold(tmp_path: Path) -> None:
    Megatron().check(1 << 31, np.array([(1 << 31) - 1]))
    with pytest.raises(CurateError, match="vocabulary of 2,147,483,649"):
        Megatron().check((1 << 31) + 1, np.array([1]))
    with pytest.raises(CurateError, match=r"document of 2,147,483,648 tokens .* --format npy or nanotron"):
        Megatron().check(400, np.array([5, 5 + (1 << 31)]))


def test_the_order_of_training(run_folder: Path, tmp_path: Path) -> None:
    """Each slot's inputs and last target, slot after slot, as `Plan.slot` and the streams say."""
    plan = Plan.load(run_folder / "mixture.json")
    expected = []
    for slot in range(plan.num_slots):
        stream, window = plan.slot(slot)
        ids, _ = ids_of(run_folder, stream, "train")
        expected.append(ids[window * 32 : window * 32 + 33])
    for name in ("npy", "nanotron", "megatron"):
        made = export(run_folder, name, output=tmp_path / name, order="mixture", quiet=True)
        assert (made.documents, made.tokens) == (plan.num_slots, 33 * plan.num_slots)
    rows = np.fromfile(tmp_path / "npy/train/mixture/00000.npy", "<u2").reshape(-1, 33)
    assert np.array_equal(rows, np.array(expected))
    assert np.array_equal(np.fromfile(tmp_path / "nanotron/train/mixture/00000.ds", "<u2"), rows.ravel())
    _, whole = read_megatron(tmp_path / "megatron/train/mixture/00000")
    assert np.array_equal(np.array(whole), rows)
    with gzip.open(tmp_path / "npy/train/mixture/00000.csv.gz", "rt") as file:
        stream, window = plan.slot(1)
        assert file.read().splitlines()[1] == f"33,66,slot 1,tokens/{stream},{window + 1}"
    assert "33 ids each: 32 inputs" in (tmp_path / "npy/CARD.md").read_text()


def test_the_order_of_training_in_several_files(run_folder: Path, tmp_path: Path) -> None:
    from curate.export.selection import Selection
    from curate.export.tokens import window_tasks

    plan = Plan.load(run_folder / "mixture.json")
    (tmp_path / "train/mixture").mkdir(parents=True)
    tasks = window_tasks(Selection.of(run_folder, (), "train"), plan, Nanotron(), file_tokens=50 * 33 + 1)
    assert len(tasks) == -(-plan.num_slots // 50)
    for task in tasks:
        task.write(tmp_path)
    export(run_folder, "nanotron", output=tmp_path / "whole", order="mixture", quiet=True)
    parts = b"".join(path.read_bytes() for path in sorted((tmp_path / "train/mixture").glob("*.ds")))
    assert parts == (tmp_path / "whole/train/mixture/00000.ds").read_bytes()


def test_weights_of_megatron_are_those_of_the_mixture(run_copy: Path, tmp_path: Path) -> None:
    import json

    rewrite_tokens(run_copy, "web", dtype="uint16", shard_tokens=3000)
    export(run_copy, "megatron", output=tmp_path / "x", quiet=True)
    blend = json.loads((tmp_path / "x/blend.json").read_text())
    mixture = json.loads((run_copy / "mixture.json").read_text())["sources"]
    weights: dict[str, float] = {}
    for weight, prefix in zip(blend["train"][::2], blend["train"][1::2], strict=True):
        assert (tmp_path / "x" / f"{prefix}.idx").is_file()
        stream = prefix.split("/")[1]
        weights[stream] = weights.get(stream, 0) + float(weight)
    assert weights == pytest.approx(
        {name: one["weight_realised"] for name, one in mixture.items() if one["weight_asked"]}, abs=1e-6
    )
    assert set(weights) == {"web", "books"}  # `more` is not in the mixture
    assert blend["test"] is None
    files = [path for path in listed(tmp_path / "x") if path.endswith(".bin")]
    assert len(files) > len(blend["train"]) // 2  # all the same, `more` is exported


@pytest.mark.parametrize("name", ["megatron", "npy", "nanotron"])
def test_damage_is_named(run_copy: Path, tmp_path: Path, name: str) -> None:
    path = run_copy / "tokens/web/train-00000.bin"
    content = bytearray(path.read_bytes())
    content[10:12] = b"\x55\x01"  # another id, no EOS
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"train-00000\.bin: is damaged: its sha256 .* Run the recipe again"):
        export(run_copy, name, output=tmp_path / "x", quiet=True)
    assert not (tmp_path / "x").exists()
    with pytest.raises(InputError, match=r"train-00000\.bin: .*sha256"):
        export(run_copy, name, output=tmp_path / "x", order="mixture", quiet=True)


def test_a_damaged_index_is_named(run_copy: Path, tmp_path: Path) -> None:
    path = run_copy / "tokens/web/train-00000.idx"
    ends = np.fromfile(path, "<u8")
    ends[3] += 1
    path.write_bytes(ends.tobytes())
    with pytest.raises(InputError, match=r"train-00000\.idx: its ends are not where the EOS ids"):
        export(run_copy, "megatron", output=tmp_path / "x", quiet=True)
    path.write_bytes(ends.tobytes()[:-8])
    with pytest.raises(InputError, match=r"train-00000\.idx: it has \d+ bytes"):
        export(run_copy, "megatron", output=tmp_path / "x", quiet=True)


def test_export_json_lists_what_is_there(run_folder: Path, tmp_path: Path) -> None:
    import hashlib

    export(run_folder, "nanotron", output=tmp_path / "x", sources=("web",), split="train", quiet=True)
    files = contents(tmp_path / "x")
    entries = listed(tmp_path / "x")
    assert set(entries) == set(files) - {"export.json"}
    for name, entry in entries.items():
        assert (entry["bytes"], entry["sha256"]) == (len(files[name]), hashlib.sha256(files[name]).hexdigest())
    ids, ends = ids_of(run_folder, "web", "train")
    assert entries["train/web/00000.ds"]["tokens"] == ids.size
    assert entries["train/web/00000.ds"]["documents"] == ends.size
    assert [name for name in files if name.endswith(".ds")] == ["train/web/00000.ds"]
    assert files["tokenizer/tokenizer.model"] == (run_folder / "tokenizer/tokenizer.model").read_bytes()


def test_absent_ids_are_named(run_copy: Path, tmp_path: Path) -> None:
    shutil.rmtree(run_copy / "tokens/books")
    for options in ({}, {"sources": ["books"]}, {"split": "validation"}, {"order": "mixture"}):
        with pytest.raises(
            InputError, match=r"tokens/books: has no file of ids, manifest.json says 20 documents. Run the"
        ):
            export(run_copy, "megatron", output=tmp_path / "x", quiet=True, **options)
    assert not (tmp_path / "x").exists()
