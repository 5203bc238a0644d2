import hashlib
import json
import pickle

import numpy as np
import pyarrow.parquet as pq
import pytest

from curate.errors import InputError
from curate.tokens.shard import ShardWriter, TokenSource, dtype_for, write_manifest

DOCUMENTS = [("a", 3, [5, 6]), ("b", 0, []), ("c", 9, [7, 8, 9, 9])]


def write(folder, documents, *, split="train", vocab_size=16, eos_id=2, **options):
    dtype = dtype_for(vocab_size)
    with ShardWriter(folder, split, dtype=dtype, eos_id=eos_id, vocab_size=vocab_size, **options) as writer:
        for document_id, num_bytes, tokens in documents:
            writer.add(document_id, num_bytes, np.array(tokens, np.int64))
    shards = writer.close()
    write_manifest(folder, dtype=dtype, vocab_size=vocab_size, eos_id=eos_id, tokenizer_sha256="ab" * 32, shards=shards)
    return shards


@pytest.mark.parametrize(
    ("vocab_size", "dtype"),
    [(1, "uint16"), (65_535, "uint16"), (65_536, "uint16"), (65_537, "uint32"), (1 << 32, "uint32")],
)
def test_dtype_is_the_narrowest_that_holds_every_id(vocab_size, dtype):
    assert dtype_for(vocab_size) == dtype


@pytest.mark.parametrize("vocab_size", [0, (1 << 32) + 1])
def test_impossible_vocabulary_is_refused(vocab_size):
    with pytest.raises(ValueError, match=str(vocab_size)):
        dtype_for(vocab_size)


def test_files_have_the_documented_bytes(tmp_path):
    (shard,) = write(tmp_path, DOCUMENTS)
    # a, EOS, EOS alone for the empty b, c, EOS: little-endian uint16 by hand
    data = bytes([5, 0, 6, 0, 2, 0, 2, 0, 7, 0, 8, 0, 9, 0, 9, 0, 2, 0])
    assert (tmp_path / "train-00000.bin").read_bytes() == data
    ends = b"".join(end.to_bytes(8, "little") for end in (3, 4, 9))
    assert (tmp_path / "train-00000.idx").read_bytes() == ends
    assert pq.read_table(tmp_path / "train-00000.docs.parquet").to_pydict() == {
        "id": ["a", "b", "c"],
        "bytes": [3, 0, 9],
    }
    assert json.loads((tmp_path / "manifest.json").read_text()) == {
        "dtype": "uint16",
        "vocab_size": 16,
        "eos_id": 2,
        "tokenizer_sha256": "ab" * 32,
        "shards": [
            {
                "name": "train-00000",
                "split": "train",
                "tokens": 9,
                "documents": 3,
                "bytes": 12,
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        ],
    }
    assert shard.tokens == 9
    assert not list(tmp_path.glob("*.tmp"))


def test_ids_above_65535_come_back(tmp_path):  # case tok-001
    write(tmp_path, [("x", 1, [0, 65_535, 65_536, 69_999])], vocab_size=70_000, eos_id=1)
    source = TokenSource.open(tmp_path, "train")
    assert source.dtype == "uint32"
    assert source.tokens(0, 5).tolist() == [0, 65_535, 65_536, 69_999, 1]


def test_index_lengths_include_the_end_mark(tmp_path):  # case tok-009
    write(tmp_path, DOCUMENTS)
    source = TokenSource.open(tmp_path, "train")
    ends = source.document_ends.tolist()
    slices = [source.tokens(start, end).tolist() for start, end in zip([0, *ends], ends, strict=False)]
    assert slices == [[5, 6, 2], [2], [7, 8, 9, 9, 2]]
    assert ends[-1] == source.num_tokens
    assert [(name, tokens.tolist()) for name, tokens in source.documents()] == [(n, t) for n, _, t in DOCUMENTS]


def test_shards_are_cut_between_documents_and_read_as_one_stream(tmp_path):
    # c has 5 tokens with its EOS: alone it exceeds 4 and still stays whole; a + b have exactly 4
    shards = write(tmp_path, DOCUMENTS, shard_tokens=4)
    assert [(shard.name, shard.tokens) for shard in shards] == [("train-00000", 4), ("train-00001", 5)]
    assert [shard.tokens for shard in write(tmp_path / "3", DOCUMENTS, shard_tokens=3)] == [3, 1, 5]
    source = TokenSource.open(tmp_path, "train")
    whole = [5, 6, 2, 2, 7, 8, 9, 9, 2]
    for start in range(10):
        for stop in range(start, 10):
            part = source.tokens(start, stop)
            assert part.dtype == np.int64
            assert part.tolist() == whole[start:stop]
    assert source.document_ends.tolist() == [3, 4, 9]
    assert source.document_ids == ["a", "b", "c"]
    assert source.document_bytes.tolist() == [3, 0, 9]
    assert [source.document_at(token) for token in range(9)] == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    assert (source.num_tokens, source.num_documents, source.num_bytes) == (9, 3, 12)
    assert source.bytes_per_token == 2.0  # 12 bytes in 9 tokens, 3 of them EOS
    source.verify()


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 10), (5, 4)])
def test_a_range_outside_the_stream_is_refused(tmp_path, start, stop):
    write(tmp_path, DOCUMENTS)
    with pytest.raises(IndexError, match="outside 0 to 9"):
        TokenSource.open(tmp_path, "train").tokens(start, stop)


def test_a_source_without_documents_has_files_with_zero_rows(tmp_path):
    (shard,) = write(tmp_path, [])
    assert (shard.tokens, shard.documents) == (0, 0)
    assert (tmp_path / "train-00000.bin").read_bytes() == b""
    source = TokenSource.open(tmp_path, "train")
    source.verify()
    assert (source.num_tokens, source.bytes_per_token) == (0, 0.0)
    assert source.tokens(0, 0).tolist() == []
    assert source.document_ends.tolist() == source.document_bytes.tolist() == source.document_ids == []


def test_a_split_that_the_manifest_lacks_is_empty(tmp_path):
    write(tmp_path, DOCUMENTS)
    assert TokenSource.open(tmp_path, "validation").num_documents == 0


def test_a_source_pickles_as_its_path(tmp_path):
    write(tmp_path, [("a", 1, [1] * 10_000)])
    pickled = pickle.dumps(TokenSource.open(tmp_path, "train"))
    assert len(pickled) < 1000
    assert pickle.loads(pickled).num_tokens == 10_001


@pytest.mark.parametrize(
    ("tokens", "message"),
    [([3, 2, 4], "document x: the EOS id 2 stands inside it at token 1"), ([3, 16], "id 16"), ([-1, 3], "id -1")],
)
def test_ids_that_would_damage_the_shard_are_refused(tmp_path, tokens, message):
    writer = ShardWriter(tmp_path, "train", dtype="uint16", eos_id=2, vocab_size=16)
    writer.add("ok", 1, np.array([15]))  # the last id of the vocabulary
    with pytest.raises(ValueError, match=message):
        writer.add("x", 1, np.array(tokens))
    writer.abandon()
    assert not list(tmp_path.iterdir())


def test_tokens_that_are_no_run_of_integers_are_refused(tmp_path):
    writer = ShardWriter(tmp_path, "train", dtype="uint16", eos_id=2, vocab_size=16)
    for tokens in (np.array([1.0]), np.array([[1, 2]])):
        with pytest.raises(ValueError, match="integers of shape"):
            writer.add("x", 1, tokens)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "uint16", "eos_id": 2, "vocab_size": 65_537}, "65,537"),
        ({"dtype": "uint16", "eos_id": 16, "vocab_size": 16}, "eos_id 16"),
        ({"dtype": "int8", "eos_id": 2, "vocab_size": 16}, "int8"),
        ({"dtype": "uint16", "eos_id": 2, "vocab_size": 16, "shard_tokens": 0}, "shard_tokens is 0"),
    ],
)
def test_a_writer_that_cannot_work_is_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        ShardWriter(tmp_path, "train", **options)


def test_an_error_in_the_block_leaves_no_file(tmp_path):
    writer = ShardWriter(tmp_path, "train", dtype="uint16", eos_id=2, vocab_size=16)
    with pytest.raises(ValueError, match="document b"), writer:
        _ = [writer.add(name, 1, np.array([token])) for name, token in (("a", 1), ("b", 2))]
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="closed"):
        writer.add("b", 1, np.array([1]))


def test_no_manifest_no_source(tmp_path):
    writer = ShardWriter(tmp_path, "train", dtype="uint16", eos_id=2, vocab_size=16)
    writer.close()
    with pytest.raises(InputError, match=r"manifest\.json: there is no manifest"):
        TokenSource.open(tmp_path, "train")


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"shards": []}', b'{"shards": [{}]}'])
def test_a_damaged_manifest_is_named(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(InputError, match=r"manifest\.json"):
        TokenSource.open(tmp_path, "train")


@pytest.mark.parametrize("name", ["train-00000.bin", "train-00000.idx"])
def test_a_file_of_the_wrong_size_is_named(tmp_path, name):
    write(tmp_path, DOCUMENTS)
    with (tmp_path / name).open("ab") as file:
        file.write(b"\0\0")
    with pytest.raises(InputError, match=name):
        TokenSource.open(tmp_path, "train")
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=f"{name}: the file is missing"):
        TokenSource.open(tmp_path, "train")


def test_a_manifest_needs_its_shards(tmp_path):
    shards = write(tmp_path, DOCUMENTS)
    with pytest.raises(InputError, match=r"train-00000\.bin"):
        write_manifest(tmp_path / "other", dtype="uint16", vocab_size=16, eos_id=2, tokenizer_sha256="", shards=shards)


@pytest.mark.parametrize(
    ("token", "value", "message"),
    [
        (1, 16, "token id 16 at token 1 is outside"),  # first id beyond the vocabulary
        (1, 2, "EOS id 2 at token 1 is not the end"),  # a forged document end
        (2, 3, "EOS"),  # a lost one
        (1, 7, "sha256"),  # anything else
    ],
)
def test_verify_names_shard_and_id(tmp_path, token, value, message):
    write(tmp_path, DOCUMENTS)
    path = tmp_path / "train-00000.bin"
    data = np.fromfile(path, "<u2")
    data[token] = value
    path.chmod(0o644)
    data.tofile(path)
    with pytest.raises(InputError, match=message) as error:
        TokenSource.open(tmp_path, "train").verify()
    assert error.value.file == str(path)


def test_verify_compares_the_documents(tmp_path):
    write(tmp_path, DOCUMENTS)
    table = pq.read_table(tmp_path / "train-00000.docs.parquet")
    pq.write_table(table.slice(0, 2), tmp_path / "train-00000.docs.parquet")
    with pytest.raises(InputError, match="lists 2 documents"):
        TokenSource.open(tmp_path, "train").verify()


def test_bytes_do_not_depend_on_when_documents_arrive(tmp_path):
    many = [(f"{n:04d}", n, [3 + n % 5] * (n % 7)) for n in range(500)]
    assert write(tmp_path / "1", many, shard_tokens=300) == write(tmp_path / "2", iter(many), shard_tokens=300)
    for path in (tmp_path / "1").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes()
