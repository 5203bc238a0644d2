"""Lines and their spans by hand; counting against a dictionary of sets, with ten times more records than memory."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from test_dedup_memory import FIXED_BYTES, peak_growth

from curate.dedup.kinds import Lines
from curate.dedup.lines import (
    PARTITIONS,
    LineHashes,
    RepeatedLines,
    count_documents,
    document_records,
    line_cuts,
    read_records,
    units_of,
    units_schema,
    write_records,
)
from curate.dedup.settings import Dedup, Exact, MinHash, clustering
from curate.dedup.spill import Sorter


def spans(text: str, unit: str = "line") -> list[tuple[int, int, int]]:
    return [one[1:] for one in units_of(text, unit)]


def hashes(text: str, unit: str = "line") -> list[int]:
    return [one.hash for one in units_of(text, unit)]


# ---- settings


def test_lines_alone_remove_no_copies() -> None:
    alone = Dedup(lines=Lines())
    assert alone.exact is None
    assert alone.minhash is None
    assert alone.copies is None
    both = Dedup(lines=Lines(), exact=Exact())
    assert both.copies == Dedup(exact=Exact())
    assert clustering(both) == Dedup(exact=Exact(), minhash=MinHash())  # of what lines say, clusters know nothing


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_documents": 1}, "greater than or equal to 2"),
        ({"min_share": 1.1}, "less than or equal to 1"),
        ({"min_words": -1}, "greater than or equal to 0"),
        ({"max_share": 1.0}, "less than 1"),
        ({"max_share": 0.0}, "greater than 0"),
        ({"within": "host"}, "'site', 'source' or 'corpus'"),
        ({"unit": "word"}, "'line' or 'paragraph'"),
        ({"within": "corpus", "folders": 1}, "folders name sites"),
    ],
)
def test_settings_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Lines(**changes)


def test_a_bound_may_be_off() -> None:
    assert Lines(max_share="off") == Lines()


# ---- lines and paragraphs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t\n", []),
        ("one", [(0, 3, 1)]),
        ("one two\nthree\n", [(0, 7, 2), (8, 13, 1)]),
        ("one \r\n\r\ntwo\r\n", [(0, 3, 1), (8, 11, 1)]),  # CRLF is white space at the end of a line
        ("  one\n\n\n    two  ", [(0, 5, 1), (8, 15, 1)]),  # indentation belongs to the line
        ("é\nü b", [(0, 2, 1), (3, 7, 2)]),  # bytes, not characters
        ("a\x0bb\u2028c\x85d", [(0, 10, 4)]),  # nothing else ends a line; all of these part words
        ("行行\n好", [(0, 6, 1), (7, 10, 1)]),
    ],
)
def test_lines_by_hand(text: str, expected: list[tuple[int, int, int]]) -> None:
    assert spans(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\ntwo\n\nthree\n", [(0, 7, 2), (9, 14, 1)]),
        ("\n\none\r\ntwo three\r\n \r\nfour", [(2, 16, 3), (21, 25, 1)]),
    ],
)
def test_paragraphs_by_hand(text: str, expected: list[tuple[int, int, int]]) -> None:
    assert spans(text, "paragraph") == expected


def test_a_paragraph_is_equal_however_it_is_wrapped() -> None:
    assert hashes("one two\nthree", "paragraph") == hashes("One\r\ntwo   three\n\n", "paragraph")


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ("Read more", "  read\t MORE \r", True),
        ("Read more", "Read\u00a0more", True),
        ("Straße", "STRASSE", True),
        ("caf\u00e9", "cafe\u0301", True),  # NFC
        ("ΟΔΟΣ", "οδος", True),  # a final sigma folds as any other
        ("Page 1", "Page 2", False),  # digits count
        ("Read more", "Read more.", False),
        ("ab", "a b", False),
    ],
)
def test_what_is_one_line(one: str, other: str, are_equal: bool) -> None:
    assert (hashes(one) == hashes(other)) == are_equal


def test_the_hash_is_that_of_the_folded_line() -> None:
    assert hashes("  Read  More\r\n") == [xxhash.xxh3_64_intdigest(b"read more")]


def test_a_batch_gives_lists() -> None:
    stage = LineHashes()
    batch = pa.record_batch({"text": pa.array(["one\ntwo", None, ""], pa.large_string())})
    result = stage.apply(batch)
    assert result.schema == units_schema()
    assert result["starts"].to_pylist() == [[0, 4], [], []]
    assert stage.apply(batch.slice(0, 0)).num_rows == 0


# ---- cutting


def without(text: str, *lines: str) -> str:
    units = list(units_of(text))
    data = text.encode()
    repeated = [data[one.start : one.stop].decode().strip() in lines for one in units]
    for start, end in reversed(line_cuts([one.start for one in units], [one.stop for one in units], repeated)):
        data = data[:start] + data[end:]
    return data.decode()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\nX\nb\n", "a\nb\n"),
        ("X\na\nb", "a\nb"),
        ("\n X\n\n  a\n", "  a\n"),
        ("a\nb\nX", "a\nb"),
        ("a\nb\nX\n", "a\nb\n"),
        ("a\n\nX", "a"),
        ("a\n\nX\n\nb", "a\n\nb"),  # not four line feeds
        ("a\n\nX\nb", "a\n\nb"),  # the paragraph's end stays
        ("a\nX\n\nb", "a\n\nb"),
        ("a\nX\nX\n\nX\nb", "a\nb"),
        ("X\na\nX\nb\nX\n", "a\nb\n"),
        ("a\r\nX\r\nb\r\n", "a\r\nb\r\n"),
        ("ä\nX\n  ö", "ä\n  ö"),
    ],
)
def test_cuts_leave_one_piece_of_white_space(text: str, left: str) -> None:
    assert without(text, "X") == left


@given(st.lists(st.sampled_from(["X", "Y", "a", "é b", "", "  ", "\t"]), min_size=1, max_size=12), st.booleans())
def test_what_is_not_repeated_stays_in_order(lines: list[str], with_end: bool) -> None:
    text = "\n".join(["a", *lines]) + ("\n" if with_end else "")
    left = without(text, "X", "Y")
    assert [line.strip() for line in left.split("\n") if line.strip()] == [
        line.strip() for line in text.split("\n") if line.strip() and line.strip() not in ("X", "Y")
    ]


# ---- counting


def spilled(folder: Path, shards: list[list[tuple[int, int, int]]], memory: int) -> list[tuple[Path, list[int]]]:
    """Write records (key, cluster, place) of shards as the product does; return files and bounds."""
    files = []
    for number, records in enumerate(shards):
        sorter = Sorter(3, memory, str(folder), f"shard-{number}")
        table = np.array(records, np.uint64).reshape(-1, 3)
        sorter.append(*table.T)
        path = folder / f"lines-{number}.u64"
        files.append((path, write_records(sorter.sorted(), path)))
    return files


def table_of(folder: Path, files: list[tuple[Path, list[int]]], least: int, memory: int) -> tuple[RepeatedLines, int]:
    folders, total = [], 0
    for partition in range(PARTITIONS):
        folders.append(folder / f"table-{partition:02d}")
        folders[-1].mkdir(parents=True)
        total += count_documents(
            files, partition, folders[-1], min_documents=least, memory_bytes=memory, scratch=str(folder)
        )
    return RepeatedLines(folders), total


@pytest.mark.parametrize(("memory", "per_shard"), [(1 << 26, 10_000), (1 << 12, 700)])
def test_counts_are_those_of_a_dictionary_of_sets(tmp_path: Path, memory: int, per_shard: int) -> None:
    luck = random.Random(3)
    keys = [luck.randrange(2**64) for _ in range(2000)] + [0, 2**64 - 1, 2**63]
    records = []
    for _ in range(10_000):
        place = luck.randrange(3000)
        records.append((keys[int(luck.random() ** 3 * len(keys))], place // 2 * 2 if place % 3 else place, place))
    places: dict[int, dict[int, int]] = defaultdict(dict)
    for key, cluster, place in records:
        places[key][place] = cluster
    files = spilled(tmp_path, [records[i : i + per_shard] for i in range(0, len(records), per_shard)], memory)
    written = sum(path.stat().st_size for path, _ in files) // 24
    assert written <= len(records)
    table, total = table_of(tmp_path / "table", files, 3, memory)
    expected = {key: len(set(found.values())) for key, found in places.items()}
    assert total == sum(count >= 3 for count in expected.values()) > 100
    documents, firsts = table.find(np.array([*keys, 12345], np.uint64))
    for key, count, first in zip(keys, documents.tolist(), firsts.tolist(), strict=False):
        assert count == (expected.get(key, 0) if expected.get(key, 0) >= 3 else 0)
        if count:
            assert first == places[key][min(places[key])]
    assert documents[-1] == 0


def test_a_line_counts_once_a_document(tmp_path: Path) -> None:
    twice = document_records(
        np.array([7, 7, 9, 7], np.uint64),
        np.array([3, 1]),
        np.array([0, 0], np.uint64),
        np.array([0, 1], np.uint64),
        np.array([0, 1], np.uint64),
    )
    files = spilled(tmp_path, [list(zip(*(column.tolist() for column in twice), strict=True))], 1 << 20)
    records = np.concatenate(list(read_records(*files[0], 0, 1 << 20)))
    assert records.tolist() == [[7, 0, 0], [7, 1, 1], [9, 0, 0]]  # the documents' own records lie in another partition
    assert files[0][1][-1] == 5


# ---- ten times the memory


def counted(folder: Path, output: Path, memory_bytes: int) -> list[Path]:
    """Count the one partition that `write_corpus` filled."""
    place = output / f"counted-{memory_bytes}"
    place.mkdir(exist_ok=True)
    for path in place.iterdir():
        path.unlink()
    files = [(path, [0] + [path.stat().st_size // 24] * PARTITIONS) for path in sorted(folder.glob("records-*.u64"))]
    scratch = output / "scratch"
    scratch.mkdir(exist_ok=True)
    count_documents(files, 0, place, min_documents=3, memory_bytes=memory_bytes, scratch=str(scratch))
    return sorted(place.iterdir())


def write_corpus(folder: Path, num_records: int, num_files: int) -> int:
    """Write records of one partition, some keys in very many documents; return their bytes."""
    generator = np.random.default_rng(5)
    size = num_records // num_files
    for number in range(num_files):
        keys = (generator.random(size) ** 4 * 2**59).astype(np.uint64) >> np.uint64(40) << np.uint64(40)
        place = generator.integers(number * size, (number + 1) * size, size, np.uint64)
        records = np.stack([keys, place // np.uint64(2), place], axis=1)
        order = np.lexsort(records.T[::-1])
        records[order].tofile(folder / f"records-{number}.u64")
    return num_records * 24


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="private memory is read from /proc, which is Linux")
def test_ten_times_the_memory(tmp_path: Path) -> None:
    folder, small, roomy = tmp_path / "data", tmp_path / "small", tmp_path / "roomy"
    for path in (folder, small, roomy):
        path.mkdir()
    memory = write_corpus(folder, 3_000_000, 4) // 10
    write_corpus(small, 4000, 4)
    growth = peak_growth("counted", small, folder, memory, module="test_lines")
    print("growth", growth, "memory", memory)
    assert growth < memory + FIXED_BYTES
    expected = counted(folder, roomy, 1 << 30)
    assert expected[0].stat().st_size // 8 > 10_000
    for path in expected:
        assert (folder / f"counted-{memory}" / path.name).read_bytes() == path.read_bytes()
