import hashlib
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.errors import InputError
from curate.text.hashing import choice_hash
from curate.tokens.arrange import ENCODED, EncodedShard, arrange, encode_documents
from curate.tokens.sentencepiece_training import train_tokenizer
from curate.tokens.settings import SentencePiece, TokenizerSettings
from curate.tokens.shard import TokenSource, write_manifest
from curate.tokens.tokenizer import load_tokenizer

TEXTS = ["one", "two \u00e9", "", "three four five", "</s> six\n\n\tseven", "eight"]
SPLITS = ["train", "train", "train", "validation", "train", "validation"]


@pytest.fixture(scope="module")
def tokenizer():
    settings = TokenizerSettings(train=SentencePiece(vocab_size=300))
    return load_tokenizer(train_tokenizer(TEXTS * 5, settings).model)


def document_id(number):
    return hashlib.md5(str(number).encode()).hexdigest()


def batches(texts, splits, size, *, first=0):
    ids = [document_id(first + number) for number in range(len(texts))]
    table = pa.table({"id": ids, "split": splits, "text": pa.array(texts, pa.large_string())})
    return table.to_batches(max_chunksize=size)


def shard_paths(folder, name="00000"):
    folder.mkdir(exist_ok=True, parents=True)
    return EncodedShard(folder / f"{name}.bin", folder / f"{name}.parquet")


def put(tokenizer, encoded, folder, scratch, split="train", **options):
    options = {"order_seed": 7, "memory_bytes": 1 << 20, "vocab_size": tokenizer.vocab_size} | options
    scratch.mkdir(exist_ok=True)
    shards = arrange(encoded, folder, split, eos_id=tokenizer.eos_id, scratch=scratch, **options)
    assert not list(scratch.iterdir())
    return shards


def test_encoded_files_hold_the_runs_of_all_splits(tmp_path, tokenizer):
    shard = shard_paths(tmp_path)
    total = encode_documents(batches(TEXTS, SPLITS, 2), tokenizer, shard)
    runs = [tokenizer.encode(text).tolist() for text in TEXTS]
    assert np.fromfile(shard.tokens, "<u2").tolist() == [token for run in runs for token in run]
    table = pq.read_table(shard.documents)
    assert table.schema.equals(ENCODED)
    assert table["split"].to_pylist() == SPLITS
    assert table["bytes"].to_pylist() == [3, 6, 0, 15, 16, 5]
    assert table["tokens"].to_pylist() == [len(run) for run in runs]
    assert total == sum(map(len, runs))
    assert {path.name for path in tmp_path.iterdir()} == {"00000.bin", "00000.parquet"}


def test_encoded_bytes_do_not_depend_on_the_batches(tmp_path, tokenizer):
    texts, splits = [f"text {number}" for number in range(9000)], ["train"] * 9000
    digests = set()
    for size in (9000, 4096, 1000, 7):
        shard = shard_paths(tmp_path / str(size))
        encode_documents(batches(texts, splits, size), tokenizer, shard)
        digests.add((shard.tokens.read_bytes(), shard.documents.read_bytes()))
    assert len(digests) == 1


def test_a_shard_without_documents_has_zero_rows(tmp_path, tokenizer):
    shard = shard_paths(tmp_path)
    assert encode_documents(iter([]), tokenizer, shard) == 0
    assert pq.read_table(shard.documents).schema.equals(ENCODED)
    (info,) = put(tokenizer, [shard], tmp_path / "out", tmp_path / "scratch")
    assert (info.tokens, info.documents) == (0, 0)
    (info,) = put(tokenizer, [], tmp_path / "none", tmp_path / "scratch")
    assert info.documents == 0


def test_an_error_while_encoding_leaves_no_file(tmp_path, tokenizer):
    def failing():
        yield from batches(TEXTS, SPLITS, 3)
        raise KeyError("stop")

    with pytest.raises(KeyError):
        encode_documents(failing(), tokenizer, shard_paths(tmp_path))
    assert not list(tmp_path.iterdir())


def test_documents_stand_in_the_order_of_their_hash(tmp_path, tokenizer):
    shard = shard_paths(tmp_path)
    encode_documents(batches(TEXTS, SPLITS, 10), tokenizer, shard)
    folder = tmp_path / "out"
    shards = [
        info for split in ("train", "validation") for info in put(tokenizer, [shard], folder, tmp_path / "s", split)
    ]
    write_manifest(
        folder,
        dtype="uint16",
        vocab_size=tokenizer.vocab_size,
        eos_id=tokenizer.eos_id,
        tokenizer_sha256=tokenizer.sha256,
        shards=shards,
    )
    for split in ("train", "validation"):
        source = TokenSource.open(folder, split)
        source.verify()
        texts = {document_id(number): text for number, text in enumerate(TEXTS) if SPLITS[number] == split}
        expected = sorted(texts, key=lambda name: (choice_hash(7, name, "order"), name))
        found = [(name, tokenizer.decode(ids)) for name, ids in source.documents()]
        assert found == [(name, texts[name]) for name in expected]
        assert source.document_bytes.tolist() == [len(texts[name].encode()) for name in expected]


@pytest.mark.parametrize(("bos", "count"), [(True, 3), (False, 0)])
def test_begin_and_end_marks(tmp_path, tokenizer, bos, count):  # case tok-002
    marked = load_tokenizer(tokenizer.model, bos=bos)
    shard = shard_paths(tmp_path)
    encode_documents(batches(["one", "two", "three"], ["train"] * 3, 2), marked, shard)
    put(marked, [shard], tmp_path / "out", tmp_path / "s")
    tokens = np.fromfile(tmp_path / "out" / "train-00000.bin", "<u2")
    ends = np.fromfile(tmp_path / "out" / "train-00000.idx", "<u8").astype(int)
    assert np.count_nonzero(tokens == 1) == count
    assert np.count_nonzero(tokens == 2) == 3
    assert (tokens[ends - 1] == 2).all()
    if bos:
        assert (tokens[[0, *ends[:-1]]] == 1).all()


def random_shards(folder, num_shards, documents_each, longest, *, vocab_size=300):
    """Encoded files of random runs, as `encode_documents` would leave them; returns them and the bytes of their runs."""
    generator = np.random.default_rng(3)
    shards, size = [], 0
    for number in range(num_shards):
        shard = shard_paths(folder, f"{number:05d}")
        lengths = generator.integers(0, longest, documents_each)
        generator.integers(3, vocab_size, int(lengths.sum()), np.uint16).tofile(shard.tokens)
        size += shard.tokens.stat().st_size
        ids = [document_id(number * documents_each + row) for row in range(documents_each)]
        columns = [ids, ["train"] * documents_each, lengths * 4, lengths]
        pq.write_table(pa.table([pa.array(column) for column in columns], schema=ENCODED), shard.documents)
        shards.append(shard)
    return shards, size


def contents(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_a_corpus_ten_times_the_memory_gives_the_same_bytes_within_it(tmp_path, tokenizer):
    memory = 1 << 20
    encoded, size = random_shards(tmp_path / "in", 5, 1200, 2000)
    assert size > 10 * memory
    put(tokenizer, encoded, tmp_path / "large", tmp_path / "s", memory_bytes=1 << 28, shard_tokens=2_000_000)
    peaks = []
    for attempt in (
        "small",
        "again",
        "once more",
    ):  # another thread, or an import, only ever adds: the least is the truth
        tracemalloc.start()
        put(tokenizer, encoded, tmp_path / attempt, tmp_path / "s", memory_bytes=memory, shard_tokens=2_000_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        if peaks[-1] < memory:
            break
    assert min(peaks) < memory
    assert contents(tmp_path / "large") == contents(tmp_path / "small")
    assert len(list((tmp_path / "small").glob("*.bin"))) >= 3  # about 6 million tokens


def test_a_document_larger_than_the_memory_is_no_obstacle(tmp_path, tokenizer):
    encoded, _ = random_shards(tmp_path / "in", 1, 3, 400_000)
    put(tokenizer, encoded, tmp_path / "large", tmp_path / "s", memory_bytes=1 << 28)
    put(tokenizer, encoded, tmp_path / "small", tmp_path / "s", memory_bytes=1 << 16)
    assert contents(tmp_path / "large") == contents(tmp_path / "small")


def test_the_order_does_not_depend_on_how_documents_are_spread(tmp_path, tokenizer):
    texts = [f"text {number}" * (number % 9) for number in range(300)]
    splits = ["train" if number % 3 else "validation" for number in range(300)]
    one = shard_paths(tmp_path / "one")
    encode_documents(batches(texts, splits, 100), tokenizer, one)
    parts = []
    for number, first in enumerate((200, 0, 100)):
        parts.append(shard_paths(tmp_path / "three", str(number)))
        part = batches(texts[first : first + 100], splits[first : first + 100], 9, first=first)
        encode_documents(part, tokenizer, parts[-1])
    put(tokenizer, [one], tmp_path / "a", tmp_path / "s")
    put(tokenizer, parts, tmp_path / "b", tmp_path / "s", memory_bytes=1 << 16)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_a_kept_document_keeps_its_relative_place(tmp_path, tokenizer):
    texts = [f"text {number}" for number in range(100)]

    def order(numbers, name):
        shard = shard_paths(tmp_path / name)
        table = pa.table(
            {
                "id": [document_id(number) for number in numbers],
                "split": ["train"] * len(numbers),
                "text": [texts[number] for number in numbers],
            }
        )
        encode_documents(table.to_batches(), tokenizer, shard)
        put(tokenizer, [shard], tmp_path / f"{name}-out", tmp_path / "s")
        return pq.read_table(tmp_path / f"{name}-out" / "train-00000.docs.parquet")["id"].to_pylist()

    every = order(list(range(100)), "all")
    even = order(list(range(0, 100, 2)), "even")
    assert even == [name for name in every if name in set(even)]
    assert every != sorted(every)


def test_without_a_seed_documents_stay_as_they_stand(tmp_path, tokenizer):
    texts = [f"text {number}" * (number % 9) for number in range(300)]
    splits = ["train" if number % 3 else "validation" for number in range(300)]
    parts = []
    for number, (first, stop) in enumerate(((0, 150), (150, 151), (151, 300))):
        parts.append(shard_paths(tmp_path / "in", str(number)))
        part = batches(texts[first:stop], splits[first:stop], 9, first=first)
        encode_documents(part, tokenizer, parts[-1])
    groups = tmp_path / "groups.parquet"  # of the last part every second document
    pq.write_table(pa.table({"group": pa.array([number % 2 for number in range(149)], pa.int32())}), groups)
    for memory in (1 << 16, 1 << 28):
        folder = tmp_path / str(memory)
        (info,) = put(tokenizer, parts, folder, tmp_path / "s", order_seed=None, memory_bytes=memory)
        numbers = [number for number in range(300) if number % 3]
        ids = pq.read_table(folder / "train-00000.docs.parquet")["id"].to_pylist()
        assert ids == [document_id(number) for number in numbers]
        tokens = np.fromfile(folder / "train-00000.bin", "<u2").tolist()
        assert tokens == [token for number in numbers for token in [*tokenizer.encode(texts[number]).tolist(), 2]]
        assert info.documents == 200
    grouped = EncodedShard(parts[2].tokens, parts[2].documents, groups, 1)
    put(tokenizer, [grouped], tmp_path / "grouped", tmp_path / "s", order_seed=None)
    ids = pq.read_table(tmp_path / "grouped" / "train-00000.docs.parquet")["id"].to_pylist()
    assert ids == [document_id(151 + row) for row in range(1, 149, 2) if (151 + row) % 3]


def test_another_seed_gives_another_order(tmp_path, tokenizer):
    encoded, _ = random_shards(tmp_path / "in", 1, 50, 10)
    put(tokenizer, encoded, tmp_path / "a", tmp_path / "s", order_seed=1)
    put(tokenizer, encoded, tmp_path / "b", tmp_path / "s", order_seed=2)
    assert contents(tmp_path / "a") != contents(tmp_path / "b")


@pytest.mark.parametrize(("memory", "works"), [(65_535, False), (65_536, True)])
def test_memory_has_a_floor(tmp_path, tokenizer, memory, works):
    if works:
        put(tokenizer, [], tmp_path / "out", tmp_path / "s", memory_bytes=memory)
    else:
        with pytest.raises(ValueError, match="65,536"):
            put(tokenizer, [], tmp_path / "out", tmp_path / "s", memory_bytes=memory)


def test_files_that_disagree_are_refused(tmp_path, tokenizer):
    shard = shard_paths(tmp_path / "in")
    encode_documents(batches(TEXTS, SPLITS, 10), tokenizer, shard)
    data = shard.tokens.read_bytes()
    for damaged in (data[:-2], data + b"\0\0", b""):
        shard.tokens.write_bytes(damaged)
        with pytest.raises(InputError, match="where its documents have"):
            put(tokenizer, [shard], tmp_path / "out", tmp_path / "s")
        assert not list((tmp_path / "s").iterdir())
    shard.tokens.unlink()
    with pytest.raises(InputError, match=r"00000\.bin: cannot be read"):
        put(tokenizer, [shard], tmp_path / "out", tmp_path / "s")
    shard.documents.write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"00000\.parquet: cannot be read"):
        put(tokenizer, [shard], tmp_path / "out", tmp_path / "s")
