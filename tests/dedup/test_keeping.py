"""Which copy stays: each preference in both directions, with ties, and without what it looks at."""

import itertools
import json
import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from dedup_flow import Document, run
from pydantic import ValidationError

from curate.dedup.keeping import count_undated, ordered_date, ordered_numbers, reversed_order, stored_preferences
from curate.dedup.settings import Dedup, Exact, Highest, Keep, Lowest, MinHash

BASE = " ".join(f"w{i}" for i in range(100))
NONE = 2**64 - 1


def near(number):
    """Return a text in which one word of a hundred is another, as long for every number below ten."""
    return BASE.replace(" w50 ", f" n{number}5 ")


def kept(tmp_path, documents, *then, order=()):
    settings = Dedup(minhash=MinHash(bands=112, rows=1), keep=Keep(then=then, order=order))
    outcome = run(documents, tmp_path / "-".join(map(str, then)).replace("'", "").replace("/", ""), settings)
    (left,) = outcome.kept
    assert all(outcome.name(row["kept_id"]) == left for row in outcome.decisions if row["removed"])
    return left


def test_length(tmp_path):
    documents = [Document("a", near(1)), Document("b", near(2) + " x"), Document("c", near(3) + " y")]
    assert kept(tmp_path, documents, "longest") == "b"
    assert kept(tmp_path, documents, "shortest") == "a"


@pytest.mark.parametrize("then", ["longest", "shortest", "latest", "earliest", Highest(highest="score"), "first"])
def test_ties_go_to_the_first(tmp_path, then):
    documents = [Document(name, near(i), metadata='{"date":"2020"}', score=1.0) for i, name in enumerate("dacb")]
    assert kept(tmp_path, documents, then) == "d"


def test_id(tmp_path):
    documents = sorted((Document(name, near(i)) for i, name in enumerate("abcdef")), key=lambda one: one.id)
    assert kept(tmp_path, documents[::-1], "id") == documents[0].name


def dated(*dates):
    return [
        Document(str(date), near(i), metadata=None if date is None else json.dumps({"date": date}))
        for i, date in enumerate(dates)
    ]


def test_dates(tmp_path):
    documents = dated("2019-05-01", "2024-01-02T03:04:05Z", "2023", "garbage", "1851-10", None)
    assert kept(tmp_path / "1", documents, "latest") == "2024-01-02T03:04:05Z"
    assert kept(tmp_path / "2", documents, "earliest") == "1851-10"
    assert kept(tmp_path / "3", documents[3:4] + documents[5:] + documents[2:3], "latest") == "2023"
    assert kept(tmp_path / "4", documents[3:4] + documents[5:] + documents[2:3], "earliest") == "2023"
    assert kept(tmp_path / "5", [documents[5], documents[3]], "latest") == "None"  # neither has one: the first


def test_numbers(tmp_path):
    scores = [0.5, None, -3.0, math.nan, 0.25]
    documents = [Document(str(score), near(i), score=score) for i, score in enumerate(scores)]
    assert kept(tmp_path / "1", documents, Highest(highest="score")) == "0.5"
    assert kept(tmp_path / "2", documents, Lowest(lowest="score")) == "-3.0"
    missing = [documents[3], documents[1], documents[4]]
    assert kept(tmp_path / "3", missing, Highest(highest="score")) == "0.25"
    assert kept(tmp_path / "4", missing, Lowest(lowest="score")) == "0.25"
    assert kept(tmp_path / "5", missing[:2], Lowest(lowest="score")) == "nan"
    assert kept(tmp_path / "6", missing, Highest(highest="unknown")) == "nan"


def test_the_first_preference_that_differs_decides(tmp_path):
    documents = [
        Document("a", near(1), metadata='{"date":"2020"}', score=1.0),
        Document("b", near(2), metadata='{"date":"2021"}', score=1.0),
        Document("c", near(3) + " longer", metadata='{"date":"2021"}', score=1.0),
        Document("d", near(4) + " longest of all", metadata='{"date":"2022"}', score=0.5),
    ]
    best = Highest(highest="score")
    assert kept(tmp_path / "1", documents, best, "latest", "longest") == "c"
    assert kept(tmp_path / "2", documents, best, "latest", "shortest") == "b"
    assert kept(tmp_path / "3", documents, best, "earliest", "shortest") == "a"
    assert kept(tmp_path / "4", documents, Lowest(lowest="score"), "first") == "d"
    assert kept(tmp_path / "5", documents, "latest", best) == "d"


def test_sources_come_before_preferences_and_equal_copies_follow_their_best(tmp_path):
    documents = [
        Document("w", BASE, "web", score=9.0),
        Document("b1", near(1), "books", score=1.0),
        Document("b2", BASE, "books", score=2.0),
    ]
    assert kept(tmp_path, documents, Highest(highest="score"), order=("books",)) == "b2"
    exact = Dedup(exact=Exact(), keep=Keep(then=Highest(highest="score")))
    assert run(documents, tmp_path / "exact", exact).kept == ["w", "b1"]


FIRST_TO_LAST = [
    "0001-01-01",
    "1066",
    "1851-10",
    "1851-10-02",
    "2023-12-31T23:59:59+00:00",
    "2023-12-31T23:00:00-01:30",  # 00:30 on New Year's Day, UTC
    "2024-01-01T03:00:00+02:00",  # 01:00
    "2024-01-01T01:00:00.000001",
    "2024-02-29T12:00:00.123456789Z",
    "20240301",
    "2024-03-02 10:00",
    "9999-12-31T23:59:59-12:00",
]


def test_dates_ascend():
    numbers = [ordered_date(json.dumps({"date": date})) for date in FIRST_TO_LAST]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) < NONE - 1
    same = ["2024", "2024-01", "2024-01-01", " 2024-01-01 ", "2024-01-01T00:00:00Z", "2024-01-01T01:00+01:00", 2024]
    assert len({ordered_date(json.dumps({"date": date})) for date in same}) == 1


def test_dates_of_headers_and_seconds_since_1970():
    noon = ["2024-01-06T12:00:00Z", "Sat, 06 Jan 2024 12:00:00 GMT", "6 Jan 2024 13:00:00 +0100"]
    noon += [1704542400, "1704542400", 1704542400.0, 1704542400000, "1704542400000"]
    assert len({ordered_date(json.dumps({"date": date})) for date in noon}) == 1
    assert ordered_date('{"date": 20240106}') == ordered_date('{"date": "2024-01-06"}')


def test_documents_without_a_date_are_counted():
    rows = [None, "{}", '{"date": ""}', '{"date": "07/01/2024"}', '{"date": "2024"}', '{"date": "soon"}']
    assert count_undated(pa.array(rows)) == {"documents": 6, "without": 3, "unreadable": 2}


@pytest.mark.parametrize(
    "date",
    ["", "yesterday", "2024-13", "2023-02-29", "24", "-44", "1/2/2024", ["2024"], True, 3.5, 99999, None, "٢٠٢٤"],
)
def test_what_is_no_date_counts_as_none(date):
    assert ordered_date(json.dumps({"date": date})) == NONE
    assert ordered_date('{"other": 1}') == ordered_date(None) == NONE


def test_numbers_ascend_as_their_values():
    tiny, huge = struct.unpack("<d", struct.pack("<q", 1))[0], 1.7976931348623157e308
    floats = [-math.inf, -huge, -1.5, -1.0, -tiny, 0.0, tiny, 1.0, 1.0000000000000002, huge, math.inf]
    numbers = ordered_numbers(pa.array(floats)).tolist()
    assert numbers == sorted(set(numbers))
    assert ordered_numbers(pa.array([0.0, -0.0, None, math.nan])).tolist() == [1 << 63, 1 << 63, NONE, NONE]
    whole = [-(2**63), -1, 0, 2**53, 2**53 + 1, 2**63 - 2]
    numbers = ordered_numbers(pa.array(whole)).tolist()
    assert numbers == sorted(set(numbers))
    assert ordered_numbers(pa.array([5, None])).tolist() == [(1 << 63) + 5, NONE]
    assert max(numbers) < NONE


def test_the_opposite_order_leaves_what_is_missing_last():
    numbers = np.array([NONE, NONE - 1, 7, 0], np.uint64)
    assert reversed_order(numbers).tolist() == [NONE, 1, NONE - 7, NONE - 1]
    for values in itertools.permutations([2.0, None, -1.0]):
        found = ordered_numbers(pa.array(values, pa.float64()))
        assert [values[i] for i in np.argsort(reversed_order(found))] == [2.0, -1.0, None]


def test_what_files_of_documents_carry():
    keep = Keep(then=("longest", "latest", Lowest(lowest="score"), "id"))
    assert keep.stored == ("latest", Lowest(lowest="score"))
    assert (keep.dated, keep.columns) == (True, ("score",))
    metadata = pa.array(['{"date":"2024"}', None])
    found = stored_preferences(keep, metadata, {"score": pa.array([1.0, 2.0])}, 2)
    assert found.shape == (2, 2)
    assert found[1, 0] == NONE
    assert found[0, 1] < found[1, 1]
    assert stored_preferences(Keep(), None, {}, 3).shape == (3, 0)


@pytest.mark.parametrize(
    ("then", "message"),
    [
        (("first", "longest"), "behind 'first'"),
        (("id", "first"), "behind 'id'"),
        (("latest", "latest"), "twice"),
        (({"highest": "a", "lowest": "b"},), "of one measured column"),
    ],
)
def test_preferences_that_decide_nothing_are_refused(then, message):
    with pytest.raises(ValidationError, match=message):
        Keep(then=then)
