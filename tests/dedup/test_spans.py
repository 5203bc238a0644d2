"""Repeated spans against a suffix array and against sets of windows; overlaps, borders, copies, memory, cuts by hand."""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from test_dedup_memory import FIXED_BYTES, peak_growth

from curate.dedup.kinds import Spans
from curate.dedup.spans import PARTITIONS, WINDOW, SpanTokens, Spilled, Stream, answer, token_cuts, tokens_schema
from curate.dedup.spans_files import find_spans, token_streams
from curate.dedup.spans_kernels import find_anchors, hash_windows, multiply
from curate.words import split_words

Document = Sequence[int]
Place = tuple[int, int]  # document, token


class Answer(NamedTuple):
    spans: list[tuple[int, int, int, int, int, bool]]  # document, start, stop, documents, first document, own
    runs: list[tuple[int, int, int]]  # document, start, stop

    @property
    def repeated(self) -> set[Place]:
        return {(one[0], token) for one in self.spans for token in range(one[1], one[2])}

    @property
    def cut(self) -> set[Place]:
        return {(document, token) for document, start, stop in self.runs for token in range(start, stop)}


def streams_of(
    documents: Sequence[Document], first: int, clusters: Sequence[int], per_batch: int, kind: str
) -> Callable[[], Iterator[Stream]]:
    def streams() -> Iterator[Stream]:
        for at in range(0, len(documents), per_batch):
            some = documents[at : at + per_batch]
            stops = np.cumsum([len(one) for one in some], dtype=np.int64)
            numbers = np.arange(first + at, first + at + len(some), dtype=np.uint64)
            yield Stream(
                np.array([token for one in some for token in one], kind),
                stops - [len(one) for one in some],
                stops,
                np.array([clusters[number] for number in numbers.tolist()], np.uint64),
                np.stack([numbers, numbers], axis=1),
            )

    return streams


def search(
    folder: Path,
    documents: Sequence[Document],
    window: int,
    *,
    clusters: Sequence[int] = (),
    per_shard: int = 3,
    per_batch: int = 2,
    memory: int = 1 << 20,
    kind: str = "uint64",
    ranks: Sequence[int] = (),
    min_documents: int = 2,
    keep_first: bool = True,
) -> Answer:
    """Return what is repeated, by numbers of documents and of their tokens; `ranks` are of the documents' shards."""
    shards = [
        streams_of(documents[at : at + per_shard], at, clusters or range(len(documents)), per_batch, kind)
        for at in range(0, len(documents), per_shard)
    ]
    answer = Answer([], [])
    for one in find_spans(
        shards,
        window=window,
        memory_bytes=memory,
        scratch=str(folder),
        ranks=ranks,
        min_documents=min_documents,
        keep_first=keep_first,
    ):
        numbers, starts = one.stream.names[:, 1].astype(np.int64), one.stream.starts
        owners = one.spans.owners
        columns = (one.spans.starts - starts[owners], one.spans.stops - starts[owners])
        columns += one.spans.documents, one.spans.firsts, one.spans.own
        answer.spans.extend(zip(numbers[owners].tolist(), *(column.tolist() for column in columns), strict=True))
        owners = one.runs.owners
        columns = (one.runs.starts - starts[owners], one.runs.stops - starts[owners])
        answer.runs.extend(zip(numbers[owners].tolist(), *(column.tolist() for column in columns), strict=True))
    assert list(folder.iterdir()) == []
    return answer


# ---- references


def by_suffix_array(documents: Sequence[Document], window: int, clusters: Sequence[int]) -> set[Place]:
    """Return the tokens that a suffix array with a shortest length gives: neighbours in it whose common prefix is as long.

    A suffix ends with its document. All suffixes with one prefix of `window` tokens stand side by side.
    """
    suffixes = sorted(
        (tuple(document[start:]), number, start)
        for number, document in enumerate(documents)
        for start in range(len(document))
    )
    found: set[Place] = set()
    group: list[Place] = []
    for (one, *place), (other, *_) in pairwise([*suffixes, ((), -1, -1)]):
        group.append((place[0], place[1]))
        common = 0
        while common < min(len(one), len(other)) and one[common] == other[common]:
            common += 1
        if common < window:
            if len({clusters[number] for number, _ in group}) > 1:
                found |= {(number, start + i) for number, start in group for i in range(window)}
            group = []
    return found


class Windows(NamedTuple):
    repeated: set[Place]
    cut: set[Place]
    documents: dict[Place, int]  # of the window that begins there
    firsts: dict[Place, Place]


def by_sets(
    documents: Sequence[Document],
    window: int,
    clusters: Sequence[int],
    order: Sequence[int],
    min_documents: int = 2,
    keep_first: bool = True,
) -> Windows:
    """Return what a dictionary of all windows says; `order` gives each document's priority, ties by number."""
    places: dict[tuple[int, ...], list[Place]] = defaultdict(list)
    for number, document in enumerate(documents):
        for start in range(len(document) - window + 1):
            places[tuple(document[start : start + window])].append((number, start))
    result = Windows(set(), set(), {}, {})
    for found in places.values():
        count = len({clusters[number] for number, _ in found})
        if count < min_documents:
            continue
        first = min(found, key=lambda place: (order[place[0]], place))
        for number, start in found:
            tokens = {(number, start + i) for i in range(window)}
            result.repeated.update(tokens)
            result.documents[number, start] = count
            result.firsts[number, start] = first
            if not (keep_first and clusters[number] == clusters[first[0]]):
                result.cut.update(tokens)
    return result


def agrees(answer: Answer, expected: Windows, window: int) -> None:
    assert answer.repeated == expected.repeated
    assert answer.cut == expected.cut
    counts, firsts = {}, {}
    for number, start, stop, documents, first, _ in answer.spans:
        for token in range(start, stop - window + 1):
            counts[number, token] = documents
            firsts[number, token] = first
    assert counts == expected.documents
    assert firsts == {place: first[0] for place, first in expected.firsts.items()}
    for one, other in pairwise(answer.runs):
        assert one[0] < other[0] or one[2] < other[1]


def corpus(luck: random.Random, size: int) -> list[list[int]]:
    """Return documents of few kinds of tokens, with pieces of one another, runs of one token and periods."""
    documents: list[list[int]] = []
    for _ in range(size):
        document: list[int] = []
        for _ in range(luck.randrange(4)):
            draw = luck.random()
            if draw < 0.4 and any(documents):
                other = luck.choice([one for one in documents if one])
                start = luck.randrange(len(other))
                document += other[start : start + luck.randrange(1, 20)]
            elif draw < 0.6:
                document += [luck.randrange(3)] * luck.randrange(1, 15)
            elif draw < 0.7:
                document += ([1, 2, 3][: luck.randrange(1, 4)] * 10)[: luck.randrange(1, 25)]
            else:
                document += [luck.randrange(luck.choice([3, 50])) for _ in range(luck.randrange(25))]
        documents.append(document)
    return documents


# ---- the same answer


@pytest.mark.parametrize("seed", range(8))
def test_the_answer_is_that_of_a_suffix_array_and_of_sets(tmp_path: Path, seed: int) -> None:
    luck = random.Random(seed)
    documents = corpus(luck, 16)
    clusters = [luck.randrange(number + 1) if luck.random() < 0.3 else number for number in range(16)]
    clusters = [clusters[cluster] for cluster in clusters]
    per_shard = luck.choice([1, 3, 16])
    ranks = [luck.randrange(3) for _ in range(0, 16, per_shard)]
    window = luck.choice([1, 2, 4, 5, 7, 12] if seed % 3 else [2, 4])
    order = [ranks[number // per_shard] for number in range(16)]
    least, first = 2 if seed % 3 else 3, seed % 2 == 0
    expected = by_sets(documents, window, clusters, order, least, first)
    assert expected.repeated
    if least == 2:
        assert expected.repeated == by_suffix_array(documents, window, clusters)
    where = {"clusters": clusters, "per_shard": per_shard, "ranks": ranks}
    agrees(search(tmp_path, documents, window, min_documents=least, keep_first=first, **where), expected, window)


def test_every_token_that_is_cut_keeps_a_copy(tmp_path: Path) -> None:
    """By induction over the order of documents: the copy in the first document stays, or keeps a copy further up itself."""
    luck = random.Random(1)
    cut = 0
    for seed in range(4):
        documents = corpus(random.Random(seed), 14)
        window = luck.choice([3, 5])
        answer = search(tmp_path, documents, window, per_shard=7)
        expected = by_sets(documents, window, range(14), [0] * 14)
        assert answer.cut == expected.cut
        gone = answer.cut
        for number, token in sorted(gone):
            place = number, token
            while place in gone:
                step = next(
                    (place[0], start)
                    for start in range(place[1] - window + 1, place[1] + 1)
                    if (place[0], start) in expected.firsts and expected.firsts[place[0], start][0] < place[0]
                )
                first = expected.firsts[step]
                assert first[0] < place[0]
                copy = first[0], first[1] + place[1] - step[1]
                assert documents[copy[0]][copy[1]] == documents[number][token]
                place = copy
            cut += 1
    assert cut > 100


L = 6
A, B, C = ([100 * letter + i for i in range(40)] for letter in (1, 2, 3))


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([A[:20], B[:5] + A[3 : 3 + L - 1] + B[5:9]], []),  # one token too short
        ([A[:20], B[:5] + A[3 : 3 + L] + B[5:9]], [(1, 5, 5 + L)]),
        ([A[:20], B[:5] + A[3 : 3 + L + 1] + B[5:9]], [(1, 5, 5 + L + 1)]),
        ([A[:20], A[3 : 3 + L] + B[:9]], [(1, 0, L)]),  # at the start
        ([A[:20], B[:9] + A[3 : 3 + L]], [(1, 9, 9 + L)]),  # at the end
        ([A[:L], B[:4] + A[:L]], [(1, 4, 4 + L)]),  # a document as short as a span
        ([A[:L], A[:L]], [(1, 0, L)]),  # and nothing else
        ([A[: L - 1], A[: L - 1]], []),
        ([A[:20], B[:3] + A[2:5], A[5:8] + B[3:6]], []),  # half in each of two documents, side by side
        ([A[:20], B[:5] + A[2:10] + B[5:8] + A[2:10]], [(1, 5, 13), (1, 16, 24)]),
        ([A[:10] + B[:3] + A[:10]], []),  # within one document only
        ([A[:10] + B[:3] + A[:10], C[:3] + A[:8]], [(1, 3, 11)]),
        ([[7] * 30], []),
        ([[7] * 30, B[:3] + [7] * 5 + B[3:6]], []),
        ([[7] * 8, B[:3] + [7] * 30 + B[3:6]], [(1, 3, 33)]),
        ([B[:3] + [7] * 30 + B[3:6], [7] * 8], [(1, 0, 8)]),
        ([A[:12], B[:12], A[:12] + B[:12]], [(2, 0, 24)]),  # cut as one run
        ([A[:12], [], [], B[:2] + A[:12]], [(3, 2, 14)]),  # documents without tokens between
        ([[0] * 9, A[:3] + [0] * 9], [(1, 3, 12)]),  # a token 0 is a token
    ],
)
def test_spans_by_hand(tmp_path: Path, documents: list[list[int]], expected: list[tuple[int, int, int]]) -> None:
    assert search(tmp_path, documents, L, per_shard=2).runs == expected


def test_three_documents_whose_spans_interleave(tmp_path: Path) -> None:
    """Document 0 has A[0:20], 1 has A[10:30] and more, 2 has A[5:25]: what of it lies in 0 and what in 1 only."""
    answer = search(tmp_path, [A[:20], B[:4] + A[10:30], A[5:25] + C[:4]], L)
    assert answer.runs == [(1, 4, 14), (2, 0, 20)]
    assert answer.spans == [
        (0, 5, 15, 2, 0, True),  # with document 2: A[5:15]; every window of A[10:20] is in all three
        (0, 10, 20, 3, 0, True),
        (1, 4, 14, 3, 0, False),  # A[10:20]
        (1, 9, 19, 2, 1, True),  # A[15:25] with document 2 alone
        (2, 0, 10, 2, 0, False),
        (2, 5, 15, 3, 0, False),
        (2, 10, 20, 2, 1, False),
    ]


def test_copies_of_one_text_count_once(tmp_path: Path) -> None:
    documents = [A[:20], A[:20] + B[:3], C[:3] + A[:10]]
    assert search(tmp_path, documents[:2], L, clusters=[0, 0]).spans == []
    answer = search(tmp_path, documents, L, clusters=[0, 0, 2])
    assert answer.runs == [(2, 3, 13)]  # it stays in the first document and in the copy of that
    assert {one[3] for one in answer.spans} == {2}
    assert search(tmp_path, documents, L, clusters=[0, 0, 2], min_documents=3).spans == []


def test_the_first_source_keeps_its_spans(tmp_path: Path) -> None:
    documents = [B[:3] + A[:10], C[:3] + A[:10]]
    assert search(tmp_path, documents, L, per_shard=1, ranks=[1, 0]).runs == [(0, 3, 13)]
    assert search(tmp_path, documents, L, per_shard=1, ranks=[0, 0]).runs == [(1, 3, 13)]
    assert search(tmp_path, documents, L, keep_first=False).runs == [(0, 3, 13), (1, 3, 13)]


def test_shards_batches_memory_and_width_change_nothing(tmp_path: Path) -> None:
    documents = corpus(random.Random(4), 40)
    expected = search(tmp_path, documents, 5, per_shard=40, per_batch=40)
    assert len(expected.runs) > 10
    for per_shard, per_batch, memory, kind in ((4, 1, 1 << 10, "uint16"), (7, 3, 1 << 30, "uint32")):
        assert (
            search(tmp_path, documents, 5, per_shard=per_shard, per_batch=per_batch, memory=memory, kind=kind)
            == expected
        )


def test_token_shards_are_read_without_what_ends_a_document(tmp_path: Path) -> None:
    eos, path = 9999, tmp_path / "train-00000.bin"
    documents = [B[:5] + A[:5], C[:4] + A[:5], A[10:20], C[5:9] + A[10:20]]
    np.array([token for one in documents for token in [*one, eos]], "<u2").tofile(path)
    ends = np.cumsum([len(one) + 1 for one in documents]).astype("<u8")
    folder = tmp_path / "scratch"
    folder.mkdir()
    shards = [lambda: token_streams(path, "uint16", ends, 0)]
    [one] = list(find_spans(shards, window=L, memory_bytes=1 << 20, scratch=str(folder)))
    start = int(ends[2])
    assert [column.tolist() for column in one.runs] == [
        [3],
        [start + 4],
        [start + 14],
    ]  # A[:5] and EOS are no six tokens


# ---- ten times the memory


def joined(folder: Path, output: Path, memory_bytes: int) -> list[Path]:
    """Count the one partition that `write_windows` filled."""
    place = output / f"joined-{memory_bytes}"
    place.mkdir(exist_ok=True)
    for path in place.iterdir():
        path.unlink()
    files = sorted(folder.glob("windows-*.u64"))
    tokens = files[0].stat().st_size // 16
    shards = [Spilled(path, WINDOW, [0] + [path.stat().st_size // 32] * PARTITIONS, tokens, 0) for path in files]
    with tempfile.TemporaryDirectory(dir=output) as scratch:
        answer(shards, 0, place, min_documents=2, memory_bytes=memory_bytes, scratch=scratch)
    return sorted(place.iterdir())


def write_windows(folder: Path, num_records: int, num_files: int) -> int:
    """Write windows of one partition, one of them in a tenth of all places; return their bytes."""
    luck = np.random.default_rng(6)
    size = num_records // num_files
    for number in range(num_files):
        keys = luck.integers(0, num_records // 2, size, np.uint64)
        keys[luck.random(size) < 0.1] = 5
        clusters = np.uint64(number * size) + np.arange(size, dtype=np.uint64) // np.uint64(3)
        records = np.stack(
            [keys, keys * np.uint64(3), clusters, np.arange(size, dtype=np.uint64) * np.uint64(2)], axis=1
        )
        records.tofile(folder / f"windows-{number}.u64")
    return num_records * 32


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="private memory is read from /proc, which is Linux")
def test_ten_times_the_memory(tmp_path: Path) -> None:
    folder, small, roomy = tmp_path / "data", tmp_path / "small", tmp_path / "roomy"
    for path in (folder, small, roomy):
        path.mkdir()
    memory = write_windows(folder, 1_000_000, 4) // 10
    write_windows(small, 4000, 4)
    growth = peak_growth("joined", small, folder, memory, module="test_spans")
    print("growth", growth, "memory", memory)
    assert growth < memory + FIXED_BYTES
    expected = joined(folder, roomy, 1 << 30)
    assert expected[0].stat().st_size // 8 > 500_000
    for path in expected:
        assert (folder / f"joined-{memory}" / path.name).read_bytes() == path.read_bytes()


# ---- kernels


def test_anchors_are_the_least_hash_of_a_windows_grams() -> None:
    """Equal windows have equal anchors; entries meet without gaps; of random tokens 2 in (window - gram + 2) begin one."""
    luck = random.Random(2)
    tokens = np.array([luck.randrange(1000) for _ in range(60_000)], np.uint16)
    for window, gram in ((50, 25), (7, 3), (4, 2), (1, 1)):
        starts, stops = np.array([0, 100, 100, 101]), np.array([100, 100, 101, len(tokens)])
        keys, places, ends = np.empty(60_000, np.uint64), np.empty(60_000, np.int64), np.empty(60_000, np.int64)
        count = find_anchors(tokens, starts, stops, window, gram, keys, places, ends)
        found = {int(start): key for start, key in zip(places[:count], keys[:count], strict=True)}
        covered = [place for a, b in zip(places[:count], ends[:count], strict=True) for place in range(a, b)]
        windows = [p for a, b in zip(starts, stops, strict=True) for p in range(a, b - window + 1)]
        assert covered == windows
        assert len(found) == count
        if window == 50:
            assert count == pytest.approx(2 / (window - gram + 2) * len(windows), rel=0.03)  # Schleimer et al., 4.2


@given(st.integers(0, 2**61 - 2), st.integers(0, 2**61 - 2))
def test_multiplication_modulo_a_mersenne_prime(a: int, b: int) -> None:
    assert int(multiply(np.uint64(a), np.uint64(b))) == a * b % (2**61 - 1)


def test_hashes_of_windows_depend_on_their_tokens_alone() -> None:
    luck = random.Random(3)
    tokens = np.array([luck.randrange(4) for _ in range(3000)], np.uint32)
    begins, ends = np.array([0, 40, 300, 301, 2000]), np.array([20, 70, 301, 900, 2996])
    size = int((ends - begins).sum())
    highs, lows, places = np.empty(size, np.uint64), np.empty(size, np.uint64), np.empty(size, np.int64)
    hash_windows(tokens, begins, ends, 5, highs, lows, places)
    assert places.tolist() == [place for a, b in zip(begins, ends, strict=True) for place in range(a, b)]
    known: dict[tuple[int, ...], tuple[int, int]] = {}
    for place, *key in zip(places.tolist(), highs.tolist(), lows.tolist(), strict=True):
        assert known.setdefault(tuple(tokens[place : place + 5].tolist()), (key[0], key[1])) == (key[0], key[1])
    assert len(set(known.values())) == len({high for high, _ in known.values()}) == len(known) > 800


def test_thue_morse_words_do_not_collide() -> None:
    """Polynomials modulo 2^64 give one hash to a Thue-Morse word of 2^11 letters and its opposite, whatever their base."""
    word = np.array([bin(place).count("1") % 2 for place in range(2048)], np.uint64)
    tokens = np.concatenate([word, np.uint64(1) - word])
    rolled = [0, 0]
    for which in (0, 1):
        for token in tokens[2048 * which :][:2048].tolist():
            rolled[which] = (rolled[which] * 0x9FB21C651E98DF25 + token) % 2**64
    assert rolled[0] == rolled[1]
    highs, lows, places = np.empty(2, np.uint64), np.empty(2, np.uint64), np.empty(2, np.int64)
    hash_windows(tokens, np.array([0, 2048]), np.array([1, 2049]), 2048, highs, lows, places)
    assert highs[0] != highs[1]
    assert lows[0] != lows[1]


# ---- tokens and bytes


def test_tokens_of_a_batch() -> None:
    texts = ["Don't stop: 3.14 行行", None, "", "  a\u00a0b\n"]
    result = SpanTokens().apply(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    assert result.schema == tokens_schema()
    for row, text in zip(result.to_pylist(), texts, strict=True):
        data = (text or "").encode()
        words = [data[a : a + b].decode() for a, b in zip(row["starts"], row["sizes"], strict=True)]
        assert words == split_words(text or "")
        assert len(set(row["keys"])) == len(set(words))
    assert SpanTokens().apply(pa.record_batch({"text": pa.array([], pa.large_string())})).num_rows == 0


def places(text: str) -> tuple[list[int], list[int]]:
    [row] = SpanTokens().apply(pa.record_batch({"text": pa.array([text], pa.large_string())})).to_pylist()
    return row["starts"], [a + b for a, b in zip(row["starts"], row["sizes"], strict=True)]


def without(text: str, runs: list[tuple[int, int]]) -> str:
    data = text.encode()
    for start, end in reversed(token_cuts(*places(text), runs)):
        data = data[:start] + data[end:]
    return data.decode()


@pytest.mark.parametrize(
    ("text", "runs", "left"),
    [
        ("a X Y b", [(1, 3)], "a b"),
        (" X a\n", [(0, 1)], "a\n"),
        ("a X\n", [(1, 2)], "a\n"),
        ("a\n\nX b", [(1, 2)], "a\n\nb"),  # of the white space around the longer part
        ("a X\n\nb", [(1, 2)], "a\n\nb"),
        ("a X. b", [(1, 2)], "a . b"),
        ("a:X b", [(2, 3)], "a: b"),
        ("a, X Y\n Z, b", [(1, 5)], "a\n , b"),
        ("a:X Y\n Z:b", [(1, 6)], "a\n b"),  # none around it: of that inside the longest
        ("a:X Y Z:b", [(1, 6)], "a b"),
        ("(X)", [(1, 2)], "()"),
        ("行行好好", [(1, 3)], "行好"),
        ("é X ü", [(1, 2)], "é ü"),
        ("X a X b X", [(0, 1), (2, 3), (4, 5)], "a b"),
    ],
)
def test_cuts_leave_one_piece_of_white_space(text: str, runs: list[tuple[int, int]], left: str) -> None:
    assert without(text, runs) == left


@given(st.lists(st.sampled_from(["a", "bc", ",", "...", " ", "  ", "\n", "é"]), min_size=3, max_size=30), st.data())
def test_words_are_never_glued(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    words = split_words(text)
    marks = data.draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    if all(marks):
        return
    edges = np.flatnonzero(np.diff([0, *marks, 0])).tolist()
    runs = list(zip(edges[::2], edges[1::2], strict=True))
    left = without(text, runs)
    assert "".join(left.split()) == "".join(word for word, gone in zip(words, marks, strict=True) if not gone)
    starts, stops = places(text)
    if all(any(starts[i] > stops[i - 1] for i in range(max(1, a), min(b + 1, len(words)))) for a, b in runs):
        assert split_words(left) == [word for word, gone in zip(words, marks, strict=True) if not gone]


# ---- settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_tokens": 3}, "greater than or equal to 4"),
        ({"min_tokens": 100_001}, "less than or equal to 100000"),
        ({"min_documents": 1}, "greater than or equal to 2"),
        ({"max_share": 1.0}, "less than 1"),
        ({"max_share": 0.0}, "greater than 0"),
        ({"action": "drop"}, "'cut' or 'flag'"),
        ({"action": "flag", "max_share": 0.5}, "max_share removes documents, and action is flag"),
    ],
)
def test_settings_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Spans(**changes)


def test_defaults() -> None:
    assert Spans(max_share="off") == Spans()
    assert Spans().min_tokens == 50  # Lee et al. 2022, 4.1
