"""Earlier corpora by their stored signatures: the estimate, the join, the best match; each beside a naive one."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curate.dedup.earlier import (
    FEWEST_EACH,
    MOST_PAIRS,
    PARTITIONS,
    RowsOf,
    SortedKeys,
    best_matches,
    estimate,
    exact_keys,
    open_pairs,
    partition_keys,
    signature_rows,
    standard_error,
    write_keys,
    write_pairs,
)
from curate.dedup.earlier_kernels import join_keys
from curate.dedup.exact import EMPTY, exact_hash
from curate.dedup.minhash import Signatures
from curate.dedup.stored import read_manifest, signature_settings, stored_manifest, stored_schema


def test_estimate_by_hand() -> None:
    # Li and Koenig 2010: equal bytes p = s + (1 - s) / 256, so 56 of 112 are (1/2 - 1/256) / (255/256) = 127/255.
    assert estimate(np.array([112, 56, 0]), 112).tolist() == [1.0, round(127 / 255, 6), 0.0]
    assert estimate(np.array([1]), 256).tolist() == [0.0]  # what chance gives
    assert standard_error(1.0, 112) == 0.0
    # p = .8 + .2/256 = .80078125; sqrt(p (1 - p) / 112) = .037742; times 256/255
    assert standard_error(0.8, 112) == pytest.approx(0.03789, abs=1e-5)


@pytest.mark.parametrize("similarity", [0.5, 0.8, 0.95])
def test_estimate_of_random_signatures(similarity: float) -> None:
    """Values agree with the probability of the similarity; those that do not are independent."""
    draw = np.random.default_rng(7)
    left = draw.integers(0, 1 << 32, (20_000, 112), np.uint32)
    agree = draw.random(left.shape) < similarity
    right = np.where(agree, left, draw.integers(0, 1 << 32, left.shape, np.uint32))
    found = estimate((left.astype(np.uint8) == right.astype(np.uint8)).sum(1), 112)
    error = standard_error(similarity, 112)
    assert found.mean() == pytest.approx(similarity, abs=4 * error / 20_000**0.5)
    assert found.std() == pytest.approx(error, rel=0.03)


# ---- keys and pairs


def naive_pairs(
    ours: list[tuple[int, int]], others: list[list[tuple[int, int]]], firsts: list[int], most: int, fewest: int
) -> tuple[set[tuple[int, int]], int, int]:
    """Return pairs, crowded keys and pairs left out; records are (key, document)."""
    pairs, crowded, left_out = set(), 0, 0
    mine = defaultdict(list)
    for key, doc in sorted(ours):
        mine[key].append(doc)
    for records, first in zip(others, firsts, strict=True):
        theirs = defaultdict(list)
        for key, doc in sorted(records):
            theirs[key].append(doc)
        for key in mine.keys() & theirs.keys():
            allowed = theirs[key][: max(fewest, most // len(mine[key]))]
            if len(allowed) < len(theirs[key]):
                crowded += 1
                left_out += (len(theirs[key]) - len(allowed)) * len(mine[key])
            pairs |= {(a, first + b) for a in mine[key] for b in allowed}
    return pairs, crowded, left_out


@pytest.mark.parametrize(("room", "most", "fewest"), [(1, 12, 2), (3, 6, 1), (7, 1 << 20, 16), (1000, 20, 3)])
def test_join_beside_a_naive_one(room: int, most: int, fewest: int) -> None:
    draw = np.random.default_rng(room)
    ours = sorted(zip(draw.integers(0, 30, 120).tolist(), draw.permutation(120).tolist(), strict=True))
    others = sorted(zip(draw.integers(5, 40, 200).tolist(), draw.permutation(200).tolist(), strict=True))
    keys, docs, other_keys, other_docs = (
        np.array([record[place] for record in records], kind)
        for records in (ours, others)
        for place, kind in ((0, np.uint64), (1, np.uint32))
    )
    state, out, found = np.zeros(6, np.int64), np.empty((room, 2), np.uint64), []
    limits = np.array([most, fewest])
    while True:
        count = join_keys(keys, docs, other_keys, other_docs, np.uint64(1000), limits, state, out)
        found += [tuple(pair) for pair in out[:count].tolist()]
        if count < room:
            break
    pairs, crowded, left_out = naive_pairs(ours, [others], [1000], most, fewest)
    assert len(found) == len(set(found))
    assert (set(found), state[4], state[5]) == (pairs, crowded, left_out)


def signed(rows: list[tuple[str, list[int], bytes | None]], path: Path, group: int = 1000) -> Path:
    """Write stored signatures: (text, bands, signature) of each document; ids are hashes of file and row."""
    schema = stored_schema()
    names = [exact_hash(f"{path.name} {number}") for number in range(len(rows))]
    columns = {
        "id": names,
        "source": ["web"] * len(rows),
        "url": [None if number % 3 else f"https://a.test/{number}" for number in range(len(rows))],
        "exact_hash": [exact_hash(text) for text, _, _ in rows],
        "bands": [bands for _, bands, _ in rows],
        "signature": [signature for _, _, signature in rows],
    }
    pq.write_table(pa.table(columns, schema), path, row_group_size=group)
    return path


def test_keys_of_documents() -> None:
    bands = [[1, 2**63], [], None, [5, 2**64 - 1], []]
    hashes = [exact_hash("a"), exact_hash("-- --"), None, EMPTY, EMPTY]
    batch = pa.record_batch({"exact_hash": pa.array(hashes), "bands": pa.array(bands, pa.list_(pa.uint64()))})
    found = []
    for number in range(PARTITIONS):
        keys, rows = partition_keys(batch, number)
        assert (keys >> np.uint64(60) == number).all()
        found += zip(keys.tolist(), rows.tolist(), strict=True)
    wanted = [(1, 0), (2**63, 0), (5, 3), (2**64 - 1, 3)]  # EMPTY is no key, nor what could not be signed
    wanted += [(int(exact_hash("a")[:16], 16), 0), (int(exact_hash("-- --")[:16], 16), 1)]
    assert sorted(found) == sorted(wanted)
    sliced = [partition_keys(batch.slice(3), number)[0].tolist() for number in range(PARTITIONS)]
    assert sorted(itertools.chain(*sliced)) == [5, 2**64 - 1]


def test_exact_keys_and_signatures_are_checked() -> None:
    text = exact_hash("x")
    for hashes in (
        pa.array([EMPTY, text]),
        pa.array(["", EMPTY, text]).slice(1),
        pa.array([EMPTY, text], pa.large_string()),
    ):
        assert exact_keys(hashes)[1].tolist() == [int(text[:16], 16), int(text[16:], 16)]
    with pytest.raises(ValueError, match="32 hex digits"):
        exact_keys(pa.array([text[:30]]))
    column = pa.array([b"zz", None, b"ab", None, b"cd"], pa.binary())
    assert signature_rows(column.slice(1), 2).tolist() == [[0, 0], [97, 98], [0, 0], [99, 100]]
    assert signature_rows(column.slice(0, 0), 2).shape == (0, 2)
    with pytest.raises(ValueError, match="has 3 bytes, not 2"):
        signature_rows(pa.array([b"ab", b"abc"]), 2)


def random_documents(draw: np.random.Generator, number: int) -> list[tuple[str, list[int], bytes | None]]:
    """Return documents with few different texts, bands and bytes, so that many share one, and some without words."""
    rows = []
    for _ in range(number):
        if draw.random() < 0.1:
            rows.append((str(draw.choice(["", "--", "..."])), [], None))
            continue
        bands = [(int(value) << 58) + band for band, value in enumerate(draw.integers(0, 40, 3))]
        rows.append((f"text {draw.integers(0, 60)}", bands, draw.integers(0, 3, 6, np.uint8).tobytes()))
    return rows


@pytest.mark.parametrize(("memory", "group"), [(1 << 16, 5), (1 << 26, 1000)])
def test_best_matches_beside_naive_ones(tmp_path: Path, memory: int, group: int) -> None:
    draw = np.random.default_rng(3)
    corpora = [random_documents(draw, size) for size in (90, 0, 40)]  # one earlier corpus is empty
    ours = [random_documents(draw, size) for size in (30, 50)]
    files = [signed(rows, tmp_path / f"earlier-{number}", group) for number, rows in enumerate(corpora)]
    own = [signed(rows, tmp_path / f"ours-{number}", group) for number, rows in enumerate(ours)]
    firsts, places = [0, 90, 90, 130], [0, 30, 80]
    pairs = set()
    for partition in range(PARTITIONS):
        opened = []
        for name, paths, size in (
            ("ours", own, 80),
            *((path.name, [path], len(rows)) for path, rows in zip(files, corpora, strict=True)),
        ):
            folder = tmp_path / f"keys-{name}-{partition}"
            folder.mkdir()
            write_keys(paths, partition, size, folder, memory_bytes=memory, scratch=str(folder))
            opened.append(SortedKeys.open(folder, size))
        path = tmp_path / f"pairs-{partition}"
        counts = write_pairs(opened[0], opened[1:], firsts[:-1], path, memory_bytes=memory, scratch=str(tmp_path))
        found = [tuple(pair) for pair in open_pairs(path).tolist()]
        assert (counts["pairs"], found) == (len(set(found)), sorted(set(found)))
        pairs |= set(found)
    mine, others = list(itertools.chain(*ours)), list(itertools.chain(*corpora))
    naive = {
        (a, b)
        for a, one in enumerate(mine)
        for b, other in enumerate(others)
        if set(one[1]) & set(other[1]) or (one[0] and one[0] == other[0])
    }
    assert pairs == naive
    assert len(naive) > 500
    best, scores = np.zeros(80, np.uint64), np.zeros(80, np.int64)
    step = 16 if memory == 1 << 16 else 10_000
    records = np.array(sorted(pairs), np.uint64)
    parts = [records[start : start + step] for start in range(0, len(records), step)]
    best_matches(parts, RowsOf(own, places), RowsOf(files, firsts), 6, best, scores)
    for a, one in enumerate(mine):
        candidates = [b for x, b in naive if x == a]
        if not candidates:
            assert scores[a] == 0
            continue
        wanted = max((_score(one, others[b]), -b) for b in candidates)
        assert (scores[a], best[a]) == (wanted[0], -wanted[1])
    assert {0, 8} < set(scores.tolist())


def _score(one: tuple[str, list[int], bytes | None], other: tuple[str, list[int], bytes | None]) -> int:
    if one[0] == other[0]:
        return 8
    return 1 + sum(a == b for a, b in zip(one[2] or bytes(6), other[2] or bytes(6), strict=True))


def test_a_crowded_key_gives_its_first_pairs(tmp_path: Path) -> None:
    """1,000 of ours and 2,000 earlier documents share one band: 2,000,000 pairs, of which a key gives 2^20."""
    ours = SortedKeys(np.full(1000, 9, np.uint64), np.arange(1000, dtype=np.uint32))
    earlier = SortedKeys(np.full(2000, 9, np.uint64), np.arange(2000, dtype=np.uint32))
    path = tmp_path / "pairs"
    counts = write_pairs(ours, [earlier], [0], path, memory_bytes=1 << 24, scratch=str(tmp_path))
    each = MOST_PAIRS // 1000
    assert each > FEWEST_EACH
    assert counts == {"pairs": 1000 * each, "crowded": 1, "left_out": 1000 * (2000 - each)}
    found = open_pairs(path)
    assert np.array_equal(found[:, 0], np.repeat(np.arange(1000), each))
    assert np.array_equal(found[:each, 1], np.arange(each))


def test_rows_that_are_not_those_listed_are_refused(tmp_path: Path) -> None:
    path = signed([("a", [1], b"x" * 6)] * 4, tmp_path / "one")
    with pytest.raises(ValueError, match=r"one has 4 rows, not those it is listed with"):
        list(RowsOf([path], [0, 5]).read(np.array([2], np.uint64), ("id",)))
    with pytest.raises(ValueError, match="4 rows where 5 are stated"):
        write_keys([path], 0, 5, tmp_path, memory_bytes=1 << 20, scratch=str(tmp_path))


# ---- what a folder says of itself


def test_manifest() -> None:
    stage = Signatures(ngram=3, bands=4, rows=2, seed=9, stored=True)
    files = [{"path": "web/00000.parquet", "documents": 3, "bytes": 10, "sha256": "ab"}]
    value = stored_manifest(stage, files)
    assert {name: value[name] for name in ("scheme", "ngram", "bands", "rows", "seed", "permutations", "documents")} == {
        "scheme": "curate.minhash", "ngram": 3, "bands": 4, "rows": 2, "seed": 9, "permutations": 8, "documents": 3,
    }  # fmt: skip
    assert value["version"] == Signatures.version
    assert stored_manifest(Signatures(bands=3, rows=4, permutations=16), [])["permutations"] == 16
    stated, [listed] = read_manifest(json.dumps(value).encode())
    assert (stated, listed.path, listed.documents) == (value, "web/00000.parquet", 3)
    assert {"by", "stored"}.isdisjoint(signature_settings(stage))  # neither shapes a signature
    for data, problem in (
        (b"{", "not valid JSON"),
        (b"[]", "not of stored signatures"),
        (b'{"recipe": "x"}', "not of stored signatures"),
        (json.dumps(value | {"documents": 4}).encode(), "contradicts itself"),
        (json.dumps(value | {"files": [{"path": "x"}]}).encode(), "KeyError 'documents'"),
    ):
        with pytest.raises(ValueError, match=problem):
            read_manifest(data)
