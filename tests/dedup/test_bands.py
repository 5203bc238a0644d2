"""Components by bands, hashes, addresses and payloads against a naive search, for every way to cut the work; packing by hand."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.dedup import bands, components
from curate.dedup.bands import Keys, Records, equal_keys, group_size, partition_bits, read_edges, write_edges
from curate.dedup.components import Layout, find_components
from curate.dedup.exact import EMPTY
from curate.dedup.settings import Dedup, Exact, MinHash

BANDS = 3
ALL = Dedup(exact=Exact(by=("text", "url", "payload")), minhash=MinHash(bands=BANDS, rows=1))

Row = tuple[int | None, tuple[int, ...], int | None, int | None]  # text (None: white space), bands, address, payload


def digits(value: int | None) -> str | None:
    return None if value is None else f"{value:032x}"


def write(folder: Path, rows: list[Row], cuts: list[int], num_bytes: int = 100) -> list[str]:
    """Write signature files that end before the rows named in `cuts`."""
    paths = []
    for number, (start, stop) in enumerate(itertools.pairwise([0, *cuts, len(rows)])):
        part = rows[start:stop]
        columns = {
            "exact_hash": pa.array([EMPTY if row[0] is None else digits(row[0]) for row in part], pa.string()),
            "bands": pa.array([list(row[1]) for row in part], pa.list_(pa.uint64())),
            "num_bytes": pa.array([num_bytes] * len(part), pa.int64()),
            "url_hash": pa.array([digits(row[2]) for row in part], pa.string()),
            "payload_hash": pa.array([digits(row[3]) for row in part], pa.string()),
        }
        paths.append(str(folder / f"signatures-{number}.parquet"))
        pq.write_table(pa.table(columns), paths[-1])
    return paths


def found(folder: Path, paths: list[str], memory: int = 1 << 24, dedup: Dedup = ALL) -> tuple[list[Any], bytes]:
    (folder / "scratch").mkdir(exist_ok=True)
    output = folder / "components.parquet"
    find_components(paths, str(output), settings=dedup, memory_bytes=memory, scratch=str(folder / "scratch"))
    assert list((folder / "scratch").iterdir()) == []
    return pq.read_table(output).to_pylist(), output.read_bytes()


def naive(rows: list[Row]) -> list[dict[str, int]]:
    """Relabel until nothing changes, from pairs that share something."""
    things = [
        {("text", text)} - {("text", None)}
        | {("url", url), ("payload", payload)} - {("url", None), ("payload", None)}
        | {(str(band), key) for band, key in enumerate(keys)}
        for text, keys, url, payload in rows
    ]
    label = list(range(len(rows)))
    for b in range(len(rows)):
        for a in range(b):
            if things[a] & things[b] and label[a] != label[b]:
                low, high = sorted((label[a], label[b]))
                label = [low if one == high else one for one in label]
    exact = [doc if row[0] is None else [one[0] for one in rows].index(row[0]) for doc, row in enumerate(rows)]
    return [
        {"doc": doc, "component": one, "exact": exact[doc], "partition": 0}
        for doc, one in enumerate(label)
        if label.count(one) > 1
    ]


@st.composite
def corpora(draw: st.DrawFn) -> list[Row]:
    """Return few or many documents whose keys are often equal; equal texts have equal bands."""
    spread = draw(st.sampled_from([2, 12, 200]))
    count = draw(st.integers(0, 60))
    seed = draw(st.integers(0, 2**32))
    generator = np.random.default_rng(seed)
    odd = [0, 2**64 - 1, 1 << 63]  # keys at the ends
    of_text: dict[int | None, tuple[int, ...]] = {}
    rows: list[Row] = []
    for _ in range(count):
        text = None if generator.random() < 0.1 else int(generator.integers(spread * 4))
        keys = tuple(
            odd[generator.integers(3)] if generator.random() < 0.05 else int(key)
            for key in generator.integers(0, spread, BANDS)
        )
        own = () if text is None or generator.random() < 0.1 else keys
        address, payload = (
            int(one) if generator.random() < 0.2 else None for one in generator.integers(0, spread * 4, 2)
        )
        rows.append((text, of_text.setdefault(text, own), address, payload))
    return rows


@settings(max_examples=25, deadline=None)
@given(rows=corpora(), data=st.data())
def test_components_are_those_of_the_naive_search(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    paths = write(folder, rows, cuts)
    expected = naive(rows)
    whole, as_bytes = found(folder, paths)
    assert whole == expected
    with pytest.MonkeyPatch.context() as patch:  # other partitions, groups and buffers: the same bytes
        patch.setattr(bands, "_FEW", data.draw(st.sampled_from([1, 4])))
        patch.setattr(bands, "_UNIT", data.draw(st.sampled_from([8, 64])))
        patch.setattr(bands, "_FEWEST", data.draw(st.sampled_from([1, 5])))
        memory = data.draw(st.sampled_from([1, 1000, 1 << 20]))
        assert found(folder, paths, memory)[1] == as_bytes


def test_a_band_is_compared_with_the_same_band_alone(tmp_path: Path) -> None:
    rows: list[Row] = [(1, (7, 8, 9), None, None), (2, (8, 9, 7), None, None), (3, (1, 8, 2), None, None)]
    assert found(tmp_path, write(tmp_path, rows, []))[0] == [
        {"doc": 0, "component": 0, "exact": 0, "partition": 0},
        {"doc": 2, "component": 0, "exact": 2, "partition": 0},
    ]


def test_hashes_are_compared_in_all_their_bits(tmp_path: Path) -> None:
    low, high = 5, 5 << 64
    rows: list[Row] = [
        (low, (), None, None),
        (high, (), None, None),
        (high | 1, (), None, None),
        (high, (), None, None),
    ]
    assert [row["doc"] for row in found(tmp_path, write(tmp_path, rows, []))[0]] == [1, 3]


def test_addresses_and_payloads_join_only_where_asked_for(tmp_path: Path) -> None:
    rows: list[Row] = [(1, (1, 1, 1), 5, None), (2, (2, 2, 2), 5, 6), (3, (3, 3, 3), None, 6), (None, (), 6, 5)]
    paths = write(tmp_path, rows, [2])
    assert [row["doc"] for row in found(tmp_path, paths)[0]] == [0, 1, 2]  # an address is no payload
    only = {by: Dedup(exact=Exact(by=(by,)), minhash=MinHash(bands=BANDS, rows=1)) for by in ("url", "payload", "text")}
    docs = {by: [row["doc"] for row in found(tmp_path, paths, dedup=one)[0]] for by, one in only.items()}
    assert docs == {"url": [0, 1], "payload": [1, 2], "text": []}


def test_files_without_addresses_are_read(tmp_path: Path) -> None:
    paths = write(tmp_path, [(1, (1, 1, 1), 3, 3), (1, (1, 1, 1), 4, 4)], [])
    pq.write_table(pq.read_table(paths[0]).drop_columns(["url_hash", "payload_hash"]), paths[0])
    assert [row["doc"] for row in found(tmp_path, paths)[0]] == [0, 1]


def test_exact_copies_write_no_bands(tmp_path: Path) -> None:
    rows: list[Row] = [(doc % 4, (doc % 4, 1, doc % 4), None, None) for doc in range(20)]
    paths = write(tmp_path, rows, [7])
    layout = Layout.of([7, 13])
    copies = [np.array([False] * 4 + [True] * 3 + [True] * 13)]
    kept = sum(len(part.docs) for batch in bands.band_keys(paths, copies[0], 0, BANDS, 1 << 20) for part in batch)
    assert kept == 4
    assert layout.groups == (range(2),)
    assert found(tmp_path, paths)[0] == naive(rows)


def test_components_fill_partitions_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A text counts once, 1000 bytes, a document 256. Components (0, 5, 6): 3 texts; (1, 7): copies, 1 text; (2, 3); (4, 8).
    keys = {0: 0, 5: 0, 6: 0, 2: 2, 3: 2, 4: 4, 8: 4}
    rows: list[Row] = [(doc, (keys.get(doc, 50 + doc), 100 + doc, 200 + doc), None, None) for doc in range(9)]
    rows[7] = rows[1]
    paths = write(tmp_path, rows, [4], num_bytes=1000)

    def partitions() -> dict[int, int]:
        return {row["component"]: row["partition"] for row in found(tmp_path, paths)[0]}

    assert partitions() == {0: 0, 1: 0, 2: 0, 4: 0}
    monkeypatch.setattr(components, "PARTITION_BYTES", 3 * 1256)  # full with the first component
    assert partitions() == {0: 0, 1: 1, 2: 1, 4: 2}
    monkeypatch.setattr(components, "PARTITION_BYTES", 3 * 1256 + 1)
    assert partitions() == {0: 0, 1: 0, 2: 1, 4: 2 - 1}
    monkeypatch.setattr(components, "PARTITION_BYTES", 1)
    assert partitions() == {0: 0, 1: 1, 2: 2, 4: 3}


# ---- how the work is cut


def test_partitions_and_groups_grow_with_the_root_of_the_documents() -> None:
    assert [partition_bits(count) for count in (0, 1, 1 << 17, (1 << 17) + 1, 1 << 20, 10**8, 10**11)] == [
        *(0, 0, 0),
        2,  # 8 * sqrt(1 / 8) = 2.8
        3,
        7,  # 8 * sqrt(95.4) = 78
        12,  # 8 * sqrt(95,367) = 2,470
    ]
    assert [group_size(count) for count in (0, 1 << 20, 10**8, 10**11)] == [1 << 17, 1 << 17, 1 << 20, 1 << 25]


def test_groups_hold_neighbours_until_they_are_full() -> None:
    full = 1 << 17
    assert bands.groups_of([]) == []
    assert bands.groups_of([1]) == [range(1)]
    assert bands.groups_of([full, 1, full - 1, 1, 3 * full, 0]) == [
        range(1),
        range(1, 3),
        *(range(one, one + 1) for one in (3, 4, 5)),
    ]
    layout = Layout.of([full, 1, full - 1, 5])
    assert layout.bases == (0, full, 2 * full, 2 * full + 5)


# ---- records and edges


def keys_of(docs: np.ndarray, keys: np.ndarray) -> list[Keys]:
    """Return one kind of 64-bit keys."""
    table = keys.astype(np.uint64).reshape(-1, 1, 1)
    table.setflags(write=False)
    return [Keys(0, docs.astype(np.uint32), np.arange(len(docs)), table)]


def records(folder: Path, docs: list[int], keys: list[int], memory: int, bits: int = 1) -> tuple[int, bytes, bytes]:
    """Write one kind of 64-bit keys, in batches of three."""
    batches = [keys_of(np.array(docs[at : at + 3]), np.array(keys[at : at + 3])) for at in range(0, len(docs), 3)]
    folder.mkdir()
    (folder / "scratch").mkdir()
    where = {"memory_bytes": memory, "scratch": str(folder / "scratch")}
    count = bands.write_records(batches, folder, bits=bits, kinds=1, words=1, **where)
    return count, (folder / bands.RECORDS).read_bytes(), (folder / bands.BOUNDS).read_bytes()


def test_records_take_nine_bytes_and_no_memory_shows(tmp_path: Path) -> None:
    docs, keys = list(range(0, 3000, 3)), list(range(1000))
    whole = records(tmp_path / "whole", docs, keys, 1 << 20)
    assert whole[0] == 1000
    assert 9000 <= len(whole[1]) < 9000 + 16  # the parts are padded to eight bytes
    assert records(tmp_path / "parts", docs, keys, 1) == whole
    empty = records(tmp_path / "empty", [], [], 1)
    assert (empty[0], empty[1]) == (0, b"")


def test_a_bucket_of_any_size_gives_an_edge_a_document(tmp_path: Path) -> None:
    """100,000 members: 99,999 edges, all to the first, whatever the buffer holds."""
    count = 100_000
    generator = np.random.default_rng(5)
    own = generator.integers(0, 2**64, 2 * count, np.uint64)
    keys = np.where(np.arange(2 * count) % 2 == 0, np.uint64(7), own)
    files = []
    for number, start in enumerate(range(0, 2 * count, count)):
        folder = tmp_path / str(number)
        folder.mkdir()
        batch = keys_of(np.arange(count), keys[start : start + count])
        bands.write_records([batch], folder, bits=0, kinds=1, words=1, memory_bytes=1 << 24, scratch=str(folder))
        files.append(Records(folder, base=start, bits=0, kinds=1, words=1))
    for memory in (1, 1 << 18, 1 << 30):
        parts = list(equal_keys(files, 0, 0, bits=0, words=1, memory_bytes=memory))
        docs = np.concatenate([part[0] for part in parts])
        assert np.unique(np.concatenate([part[1] for part in parts])).tolist() == [0]
        assert np.array_equal(np.sort(docs), np.arange(2, 2 * count, 2))


def test_edges_are_packed_as_their_distances(tmp_path: Path) -> None:
    """By hand: 5 - (-1) = 6, 5 - 2 = 3; then 133 - 5 = 128 is 0x80 0x01, 133 - 132 = 1; then the base counts, not 133."""
    edges = np.array([[5, 2], [133, 132], [133, 132], [300, 100]], np.uint64)
    written = write_edges([edges[:3], edges[3:]], tmp_path / "edges", [0, 200, 400])
    packed = bytes([6, 3, 0x80, 1, 1, 300 - 199, 0x80 | (200 - 128), 1])
    assert (tmp_path / "edges").read_bytes() == packed
    assert (written.edges, written.starts) == (3, (0, 5, 8, 8))
    assert len(set(written.digests)) == 3
    read = [
        [
            pair
            for docs, firsts in read_edges(tmp_path / "edges", base, start, stop)
            for pair in zip(docs.tolist(), firsts.tolist(), strict=True)
        ]
        for base, start, stop in ((0, 0, 5), (200, 5, 8), (400, 8, 8))
    ]
    assert read == [[(5, 2), (133, 132)], [(300, 100)], []]


def test_edges_of_far_documents_come_back(tmp_path: Path) -> None:
    far = [(1 << 40, 0), (1 << 40, 1), ((1 << 40) + 1, 1 << 40), (1 << 62, 3)]
    write_edges([np.array(far, np.uint64)], tmp_path / "edges", [0])
    assert [
        pair for docs, firsts in read_edges(tmp_path / "edges", 0) for pair in zip(docs, firsts, strict=True)
    ] == far


# ---- what is refused


def test_signatures_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    paths = write(tmp_path, [(1, (1, 2), None, None)], [])
    with pytest.raises(
        ValueError, match=r"signatures-0\.parquet: document 0 has 2 bands, the settings 3; measure again"
    ):
        found(tmp_path, paths)
    table = pq.read_table(paths[0])
    for wrong in ("z" * 32, "0" * 31):
        pq.write_table(table.set_column(0, "exact_hash", pa.array([wrong])), paths[0])
        with pytest.raises(ValueError, match=r"signatures-0\.parquet: a hash is not 32 hexadecimal digits"):
            found(tmp_path, paths)
