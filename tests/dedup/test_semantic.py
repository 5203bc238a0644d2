"""Documents that say nearly the same: vectors, groups and choice against brute force in whole numbers; files that are refused."""

import hashlib
import itertools
import math
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from curate.dedup.kinds import Semantic
from curate.dedup.semantic import choose_semantic
from curate.dedup.semantic_files import (
    Embeddings,
    check_columns,
    halves,
    key_of_id,
    key_of_source_id,
    merge_keys,
    read_embeddings,
)
from curate.dedup.semantic_groups import default_clusters, fit_centroids, nearest_centroids, sample_threshold
from curate.dedup.semantic_vectors import (
    MOST_EXACT,
    compared,
    dot_products,
    error_bound,
    quantise,
    squared_lengths,
    stored,
    sum_of_units,
    vector_column,
    vectors_of,
)
from curate.errors import InputError


def clouds(seed: int, centres: int, rows: int, dimensions: int = 48, spread: float = 0.2) -> np.ndarray:
    """Return vectors around a few centres: pairs of all similarities."""
    chance = np.random.default_rng(seed)
    middles = chance.normal(size=(centres, dimensions))
    return middles[chance.integers(0, centres, rows)] + spread * chance.normal(size=(rows, dimensions))


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    """The cosine by Python's whole numbers: dot products and squares have no rounding."""
    pairs = list(zip(one.tolist(), other.tolist(), strict=True))
    dot = sum(a * b for a, b in pairs)
    return dot / math.sqrt(sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs))


# ---- vectors


def test_rounding_by_hand():
    assert quantise(np.array([[1.0, -2.0, 0.5], [0, 0, 0], [3e-9, 0, 0]])).tolist() == [
        [64, -127, 32],
        [0, 0, 0],
        [127, 0, 0],
    ]
    assert stored(np.array([[0.5, -1.0]], np.float32)).tolist() == [[16384, -32767]]  # 16383.5 goes to the even number
    assert squared_lengths(np.array([[3, 4], [-127, 127]], np.int8)).tolist() == [25, 32258]
    # (3, 4) at length 1 is (0.6, 0.8), in fixed point of 2**30
    total = sum_of_units(np.array([[3, 4], [3, 4]], np.int16))
    assert total.tolist() == [2 * round(0.6 * 2**30), 2 * round(0.8 * 2**30)]
    # (0.6, 0.8) without (0.6, 0) is (0, 0.8); without itself nothing is left to compare
    assert compared(np.array([[3, 4]], np.int16), np.array([0.6, 0.0])).tolist() == [[0, 127]]
    assert not compared(np.array([[3, 4]], np.int16), np.array([0.6, 0.8])).any()


@pytest.mark.parametrize("dimensions", [1, 37, MOST_EXACT, MOST_EXACT + 1, 3000])
def test_dot_products_are_exact_at_the_largest_numbers(dimensions):
    chance = np.random.default_rng(dimensions)
    some = chance.integers(-127, 128, (40, dimensions)).astype(np.int8)
    some[0], some[1], some[2] = 127, -127, 127  # the largest sums there are
    wide = some.astype(np.int64)
    assert np.array_equal(dot_products(some, some).astype(np.int64), wide @ wide.T)
    assert dot_products(some, some).dtype == (np.float32 if dimensions <= MOST_EXACT else np.float64)
    # one dimension more would not be: the bound is no wish
    assert MOST_EXACT * 127**2 < 2**24 <= (MOST_EXACT + 1) * 127**2


def test_rounding_turns_a_vector_by_less_than_the_bound():
    vectors = np.random.default_rng(5).normal(size=(300, 64)) ** 3  # a few large numbers, many small
    rounded = quantise(vectors).astype(float)
    dots = np.einsum("ij,ij->i", vectors, rounded)
    angles = np.arccos(np.minimum(1, dots / np.linalg.norm(vectors, axis=1) / np.linalg.norm(rounded, axis=1)))
    assert (angles <= error_bound(vectors)).all()
    assert angles.max() > 0.2 * error_bound(vectors).min()  # and it is a bound near what happens


def test_columns_keep_vectors_and_nulls():
    vectors = np.array([[1, -2, 32767], [0, 0, 0], [-32767, 0, 5]], np.int16)
    column = vector_column(vectors)
    assert column.null_count == 1
    found, there = vectors_of(column)
    assert found.tolist() == [[1, -2, 32767], [-32767, 0, 5]]
    assert there.tolist() == [True, False, True]
    with pytest.raises(ValueError, match="one length"):
        vectors_of(pa.array([b"\0\0", b"\0\0\0\0"], pa.binary()))


# ---- who goes


def brute_force(vectors: np.ndarray, order: list[int], similarity: float) -> dict[int, tuple[int, float]]:
    """Go through documents by priority, each against all that stay; return row to (row that stays, cosine)."""
    stay: list[int] = []
    gone: dict[int, tuple[int, float]] = {}
    for row in order:
        best = max(
            ((cosine(vectors[row], vectors[other]), -place) for place, other in enumerate(stay)), default=(0.0, 0)
        )
        if stay and best[0] >= similarity:
            gone[row] = (stay[-best[1]], best[0])
        else:
            stay.append(row)
    return gone


@pytest.mark.parametrize("similarity", [0.6, 0.9, 0.97, 1.0])
def test_choice_is_that_of_brute_force_for_any_memory(tmp_path, similarity):
    vectors = quantise(clouds(1, 30, 220))
    vectors[40:60] = vectors[20:40]  # equal ones, in groups of two
    vectors[100:104] = vectors[99]
    order = random.Random(3).sample(range(220), 200)
    expected = brute_force(vectors, order, similarity)
    assert expected
    for memory in (1, 60_000, 1 << 28):
        parts = choose_semantic(vectors, np.array(order), similarity, memory_bytes=memory, scratch=str(tmp_path))
        found = {
            row: (kept, alike)
            for part in parts
            for row, kept, alike in zip(part.rows.tolist(), part.kept.tolist(), part.similarities.tolist(), strict=True)
        }
        assert found == expected
    assert not list(tmp_path.iterdir())  # nothing is left behind


def test_below_on_and_above_the_threshold(tmp_path):
    # (3, 4) and (4, 3): the cosine is 24/25
    vectors = np.array([[3, 4], [4, 3]], np.int8)
    exact = 24 / 25
    for similarity, goes in ((math.nextafter(exact, 1), 0), (exact, 1), (math.nextafter(exact, 0), 1)):
        parts = list(choose_semantic(vectors, np.array([1, 0]), similarity, memory_bytes=1, scratch=str(tmp_path)))
        assert sum(len(part.rows) for part in parts) == goes
    assert (parts[0].rows.tolist(), parts[0].kept.tolist(), parts[0].similarities.tolist()) == ([0], [1], [exact])


def test_no_chain_takes_a_stranger_along(tmp_path):
    """20 vectors in the plane, 5 degrees apart: each is like its neighbour; only every second one goes."""
    turns = np.radians(np.arange(20) * 5)
    vectors = quantise(np.stack([np.cos(turns), np.sin(turns)], 1))
    limit = math.cos(math.radians(7))
    parts = list(choose_semantic(vectors, np.arange(20), limit, memory_bytes=1, scratch=str(tmp_path)))
    assert sorted(itertools.chain.from_iterable(part.rows.tolist() for part in parts)) == list(range(1, 20, 2))
    assert {kept - row for part in parts for row, kept in zip(part.rows, part.kept, strict=True)} <= {-1, 1}


def test_a_great_many_equal_vectors_write_no_pairs(tmp_path):
    vectors = np.broadcast_to(np.array([[5, -3, 2, 100]], np.int8), (300_000, 4))
    parts = choose_semantic(vectors, np.arange(300_000), 0.9, memory_bytes=1 << 26, scratch=str(tmp_path))
    gone = 0
    for part in parts:
        gone += len(part.rows)
        assert not part.kept.any()
        assert (part.similarities == 1).all()
    assert gone == 299_999


# ---- groups


def test_centroids_are_those_of_a_plain_k_means():
    """Lloyd's algorithm in Python on the same first centroids: same groups, ties to the lower number."""
    vectors = quantise(clouds(2, 5, 120, dimensions=7, spread=0.5))
    centroids = [vectors[row] for row in range(6)]
    for _ in range(12):
        nearest = []
        for one in vectors:
            scores = [
                np.float32(int(one.astype(int) @ c.astype(int)))
                * np.float32(1 / math.sqrt(int(c.astype(int) @ c.astype(int))))
                for c in centroids
            ]
            nearest.append(scores.index(max(scores)))
        for group in range(6):
            members = [vectors[row].astype(float) for row in range(120) if nearest[row] == group]
            if members:
                total = sum(np.rint(one * (2**30 / math.sqrt(float(one @ one)))) for one in members)
                centroids[group] = np.rint(total / np.abs(total).max() * 127).astype(np.int8)
    found = fit_centroids(vectors, 6, 1 << 20)
    assert np.array_equal(found, np.stack(centroids))
    for memory in (1, 1 << 28):
        assert np.array_equal(fit_centroids(vectors, 6, memory), found)
        assert np.array_equal(nearest_centroids(vectors, found, memory), nearest_centroids(vectors, found, 1 << 20))


def test_groups_of_few_or_equal_vectors():
    one = np.array([[1, 2], [1, 2], [127, 0]], np.int8)
    assert fit_centroids(one, 5, 1).shape == (2, 2)  # two distinct vectors
    assert nearest_centroids(one, fit_centroids(one, 5, 1), 1).tolist() == [0, 0, 1]
    assert nearest_centroids(np.zeros((0, 2), np.int8), one, 1).tolist() == []


def test_numbers_of_groups_and_the_sample():
    assert [default_clusters(n) for n in (0, 9_999, 20_000, 1_000_000, 100_000_000, 400_000_000)] == [
        1,
        1,
        2,
        100,
        10_000,
        20_000,
    ]
    assert sample_threshold(64, 1) == 2**64  # all
    assert sample_threshold(128, 1) == 2**63  # half of them


# ---- embeddings in files

IDS = [hashlib.md5(str(n).encode(), usedforsecurity=False).hexdigest() for n in range(40)]


def write(path: Path, **columns) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def read_all(folder: Path, *files: Path):
    """Read files as a run does; return what finds vectors, and the counts."""
    read = []
    for number, file in enumerate(files):
        target = folder / f"read-{number}"
        target.mkdir()
        read.append((file.name, target, read_embeddings(file, file.name, target)))
    scratch = folder / "scratch"
    scratch.mkdir()
    facts = merge_keys(read, folder, 1, str(scratch))
    return Embeddings(folder, [target for _, target, _ in read], facts["dimensions"]), facts


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float16(), 3), pa.list_(pa.int8())]
)
def test_documents_find_their_embeddings(tmp_path, kind):
    chance = random.Random(1)
    rows = [[float(chance.randint(-100, 100)) for _ in range(3)] for _ in range(40)]
    rows[7] = None
    order = chance.sample(range(40), 40)
    values = pa.array([rows[n] for n in order], pa.list_(pa.float64())).cast(pa.list_(pa.float32()))
    made = (
        pa.array([None if one is None else [np.float16(n) for n in one] for one in values.to_pylist()], kind)
        if kind == pa.list_(pa.float16(), 3)
        else values.cast(kind)
    )
    first = write(tmp_path / "a.parquet", id=[IDS[n] for n in order[:25]], embedding=made.slice(0, 25))
    second = write(tmp_path / "b.parquet", id=[IDS[n] for n in order[25:]], embedding=made.slice(25))
    known, facts = read_all(tmp_path, first, second)
    assert facts == {"by": "id", "dimensions": 3, "rows": 39}
    wanted = [*IDS[:10], "f" * 32]
    vectors, found = known.find(halves([key_of_id(one) for one in wanted]))
    for number in range(10):
        expected = stored(np.array([rows[number] or [0, 0, 0]]))[0]
        assert vectors[number].tolist() == expected.tolist()
        assert (found[number] >= 0) == (number != 7)
    assert found[10] == -1
    assert len(set(found[found >= 0].tolist())) == 9


def test_source_ids_of_any_kind(tmp_path):
    names = ["a", "", "ü/é", "9" * 500]
    known, facts = read_all(
        tmp_path, write(tmp_path / "a.parquet", source_id=names, embedding=[[1.0, n] for n in range(4)])
    )
    vectors, found = known.find(halves([key_of_source_id(one) for one in [*names, "b"]]))
    assert facts["by"] == "source_id"
    assert found.tolist() == [0, 1, 2, 3, -1]
    assert vectors[2].tolist() == [16384, 32767]


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"id": IDS[:2], "embedding": [[1.0, 2.0], [1.0]]},
            r"bad\.parquet: row 1: the embedding has 1 numbers, others have 2",
        ),
        ({"id": IDS[:2], "embedding": [[1.0, 2.0], []]}, r"row 1: the embedding has 0 numbers"),
        ({"id": IDS[:3], "embedding": [[1.0], None, [NAN]]}, r"row 2: .* missing or not finite"),
        ({"id": IDS[:2], "embedding": [[1.0, 1.0], [1.0, INF]]}, r"row 1: .* missing or not finite"),
        ({"id": IDS[:1], "embedding": [[1.0, None]]}, r"row 0: .* missing or not finite"),
        ({"id": ["doc-1"], "embedding": [[1.0]]}, r"row 0: 'doc-1' is no id of a document.*source_id"),
        ({"id": [None], "embedding": [[1.0]]}, "row 0: id is null"),
        ({"name": IDS[:1], "embedding": [[1.0]]}, "no column id, nor source_id; it has name, embedding"),
        ({"id": IDS[:1], "vector": [[1.0]]}, "no column embedding; it has id, vector"),
        ({"id": IDS[:1], "embedding": [1.0]}, "of type double, where it is a list of numbers"),
        ({"id": IDS[:1], "embedding": [["a"]]}, "is a list of numbers"),
        (
            {"id": [IDS[0], IDS[1], IDS[0]], "embedding": [[1.0]] * 3},
            r"same id: bad\.parquet, row 0 and bad\.parquet, row 2",
        ),
    ],
)
def test_embeddings_that_cannot_be_used_are_refused(tmp_path, columns, message):
    with pytest.raises(InputError, match=message):
        read_all(tmp_path, write(tmp_path / "bad.parquet", **columns))


def test_files_that_do_not_fit_one_another(tmp_path):
    first = write(tmp_path / "a.parquet", id=IDS[:1], embedding=[[1.0, 2.0]])
    with pytest.raises(InputError, match=r"b\.parquet: it has 3 numbers in an embedding, a\.parquet has 2"):
        read_all(tmp_path, first, write(tmp_path / "b.parquet", id=IDS[1:2], embedding=[[1.0, 2.0, 3.0]]))
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"c\.parquet: it has source_id as its key, a\.parquet has id"):
        read_all(tmp_path / "other", first, write(tmp_path / "c.parquet", source_id=["x"], embedding=[[1.0, 2.0]]))
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match=r"text\.parquet: this is no Parquet file"):
        check_columns(tmp_path / "text.parquet", "text.parquet")


# ---- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"similarity": 0.9}, "needs one of model"),
        ({"similarity": 0.9, "model": "m.bin", "embeddings": ("e.parquet",)}, "names both model"),
        ({"model": "m.bin"}, "similarity\n  Field required"),
        ({"model": "m.bin", "similarity": 0}, "greater than 0"),
        ({"model": "m.bin", "similarity": 1.1}, "less than or equal to 1"),
        ({"model": "m.bin", "similarity": 0.9, "clusters": 0}, "greater than or equal to 1"),
        ({"embeddings": ("e.parquet",), "similarity": 0.9, "sha256": "0" * 64}, "sha256 is that of `model`"),
        ({"model": "m.bin", "similarity": 0.9, "sha256": "xyz"}, "'xyz' is no sha256"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ValidationError, match=message):
        Semantic(**settings)


def test_the_mean_is_subtracted_of_models_alone():
    assert Semantic(model="m.bin", similarity=0.9).subtracts_mean
    assert not Semantic(embeddings="e.parquet", similarity=0.9).subtracts_mean
    assert Semantic(embeddings=("e.parquet",), similarity=0.9, subtract_mean=True).subtracts_mean
    assert Semantic(embeddings="e.parquet", similarity=0.9).embeddings == ("e.parquet",)
