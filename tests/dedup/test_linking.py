"""Pairs of documents: what counts as similar, how the work is divided, and what is bounded."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dedup_flow import Document, run, shingles
from pydantic import ValidationError
from test_clusters import member, planted

from curate.dedup.clusters import write_shingles
from curate.dedup.linking import SKETCH, may_be_similar, similarity_at_least, sketch
from curate.dedup.members import Members
from curate.dedup.settings import Dedup, Exact, Keep, MinHash, Validation

SURE = {"bands": 112, "rows": 1}  # finds any pair worth finding: results do not hang on chance


@pytest.mark.parametrize("contained", [False, True])
def test_similarity_is_that_of_sets(contained):
    generator = np.random.default_rng(5)
    for _ in range(300):
        sizes = generator.integers(0, 12, 2)
        a, b = (np.unique(generator.integers(0, 14, size).astype(np.uint64)) for size in sizes)
        common, whole = len({*a.tolist()} & {*b.tolist()}), len({*a.tolist()} | {*b.tolist()})
        divisor = min(len(a), len(b)) if contained else whole
        values = np.concatenate([a, b])
        for threshold in (0.1, 0.5, 0.7, 1.0):
            found = similarity_at_least(values, 0, len(a), len(a), len(values), threshold, contained)
            expected = common / divisor if divisor else 0.0
            assert found == (expected if expected >= threshold else -1.0)


@pytest.mark.parametrize("contained", [False, True])
def test_sketches_rule_out_only_what_is_not_similar(contained):
    generator = np.random.default_rng(6)
    ruled_out = 0
    for size, most in ((3, 6), (60, 80), (400, 300), (3000, 1000)):
        for _ in range(25):
            alike = generator.integers(0, 2**64, size, np.uint64)
            sets = [
                np.unique(np.concatenate([alike, generator.integers(0, 2**64, generator.integers(0, most), np.uint64)]))
                for _ in range(2)
            ]
            values, offsets = np.concatenate(sets), np.cumsum([0, *map(len, sets)])
            sketches = np.zeros(2 * SKETCH, np.uint64)
            sketch(values, offsets, 0, 2, sketches)
            for row in range(2):
                odd = np.bincount((sets[row] % np.uint64(64 * SKETCH)).astype(np.int64), minlength=64 * SKETCH) % 2
                bits = np.unpackbits(sketches[row * SKETCH : (row + 1) * SKETCH].view(np.uint8), bitorder="little")
                # The lowest six bits of a hash lead to a bit of a number, the next ones to the number.
                assert (bits == odd).all()
            sizes = [len(one) for one in sets]
            for threshold in (0.3, 0.7, 0.9):
                possible = may_be_similar(sketches, 0, 1, *sizes, threshold, contained)
                similar = similarity_at_least(values, *offsets[:2], *offsets[1:], threshold, contained) >= 0
                assert possible or not similar
                ruled_out += not possible
    assert ruled_out > 50


# 8 shingles; the second text has 7 of them among its 27: contained at 7 / 8, J = 7 / 28.
SHORT = " ".join(f"w{i}" for i in range(12))
LONG = " ".join([*(f"w{i}" for i in range(11)), *(f"x{i}" for i in range(20))])


def test_containment_on_both_sides_of_the_threshold(tmp_path):
    assert (len(shingles(SHORT)), len(shingles(LONG)), len(shingles(SHORT) & shingles(LONG))) == (8, 27, 7)
    documents = [Document("short", SHORT), Document("long", LONG), Document("other", SHORT.replace("w", "y"))]
    for measure, verify, kept in (
        ("containment", 7 / 8, ["long", "other"]),
        ("containment", float(np.nextafter(7 / 8, 1)), ["short", "long", "other"]),
        ("jaccard", 7 / 28, ["long", "other"]),
        ("jaccard", float(np.nextafter(7 / 28, 1)), ["short", "long", "other"]),
    ):
        settings = Dedup(minhash=MinHash(verify=verify, measure=measure, **SURE))
        outcome = run(documents, tmp_path / f"{measure}{verify}", settings)
        assert outcome.kept == kept
        if len(kept) == 2:
            assert outcome.rows["short"]["similarity"] == verify
            (row,) = [one for one in outcome.duplicates if one["kept_id"]]
            assert (row["similarity"], row["verified"]) == (verify, True)


def test_what_is_contained_parts_validation_too(tmp_path):
    generator = np.random.default_rng(3)
    documents = []
    for number in range(60):
        words = [f"{number}-{word}" for word in generator.integers(0, 10**6, 60)]
        documents += [Document(f"{number}.a", " ".join(words)), Document(f"{number}.b", " ".join(words[:40]))]
    # 36 shingles of 56: contained, and J = 0.64.
    settings = Dedup(exact=Exact(), minhash=MinHash(measure="containment", verify=0.9, **SURE))
    assert len(run(documents, tmp_path / "removed", settings).removed) == 60
    outcome = run(documents, tmp_path / "parted", settings.model_copy(update={"minhash": None}), Validation(tokens=1))
    assert outcome.removed == {}  # the clustering of a recipe without minhash is that of the defaults, J at 0.7


def test_containment_without_verification_is_refused():
    with pytest.raises(ValidationError, match="no pair is measured"):
        MinHash(measure="containment", verify=False)


DIVISIONS = {"alone": lambda component: component, "three": lambda component: component % 5 % 3}


@pytest.mark.parametrize("division", DIVISIONS)
def test_any_division_of_the_components_gives_the_same(tmp_path, division):
    documents = planted(70, 9, ("web", "books"))
    documents = [
        Document(one.name, one.text, one.source, kept=i % 6 != 0, url=f"https://a.test/{i % 90}")
        for i, one in enumerate(documents)
    ]
    settings = Dedup(exact=Exact(by=("text", "url")), minhash=MinHash(), keep=Keep(then=("shortest", "id")))
    wants = Validation(tokens=200, min_documents=4)
    whole = run(documents, tmp_path / "whole", settings, wants, per_shard=50)
    parts = run(documents, tmp_path / "parts", settings, wants, per_shard=50, partition_of=DIVISIONS[division])
    assert {name: content for name, content in parts.files.items() if "components" not in name} == {
        name: content for name, content in whole.files.items() if "components" not in name
    }
    assert parts.summary == whole.summary
    assert whole.summary["removed"]["dedup.url"] > 10
    file = pq.ParquetFile(tmp_path / "parts" / "shingles-0.parquet")
    groups = [file.metadata.row_group(i).column(0).statistics for i in range(file.num_row_groups)]
    assert all(one.min == one.max for one in groups)
    assert [one.min for one in groups] == sorted({one.min for one in groups})
    assert len(groups) > 1


def test_a_partition_reads_its_own_rows_in_document_order(tmp_path):
    rows = [(3, 1), (4, 0), (7, 1), (9, 0)]
    batches = []
    for doc, partition in rows:
        batch = member(doc)
        batches.append(batch.set_column(3, "partition", pa.array([partition], pa.int32())))
    path = str(tmp_path / "shingles.parquet")
    assert write_shingles(batches, path, settings=Dedup(), scratch=str(tmp_path)) == [0, 1]
    table = pq.read_table(path)
    assert table.select(["partition", "doc"]).to_pylist() == [
        {"partition": partition, "doc": doc} for partition, doc in ((0, 4), (0, 9), (1, 3), (1, 7))
    ]
    for partition, docs in ((0, [4, 9]), (1, [3, 7]), (2, [])):
        folder = tmp_path / str(partition)
        folder.mkdir()
        assert Members([path], partition, Dedup(), 1 << 20, str(folder)).docs.tolist() == docs


def strangers(folder, sets, most):
    """Return the clustering of documents that share all bands, with these shingle sets."""
    batches = []
    for doc, words in enumerate(sets):
        batch = member(doc, bands=range(14))
        batches.append(batch.set_column(batch.schema.get_field_index("word_hashes"), "word_hashes",
            pa.array([words], pa.large_list(pa.uint64()))))  # fmt: skip
    path = str(folder / "shingles.parquet")
    settings = Dedup(minhash=MinHash(ngram=1), keep=Keep(then="first"))
    write_shingles(batches, path, settings=settings, scratch=str(folder))
    (folder / "columns").mkdir()
    return Members([path], 0, settings, 1 << 20, str(folder / "columns"), most_listed=most).cluster()


def test_of_a_band_that_many_share_the_first_representatives_are_looked_at(tmp_path):
    sets = [[10, 11], [20, 21], [30, 31], [40, 41], [10, 11], [30, 31]]
    (tmp_path / "all").mkdir()
    (tmp_path / "two").mkdir()
    found = strangers(tmp_path / "all", sets, 1000)
    assert found.representatives.tolist() == [0, 1, 2, 3, 0, 2]
    assert (found.num_compared, found.num_unsure, found.num_uncompared) == (0 + 1 + 2 + 3 + 1 + 3, 0, 0)
    found = strangers(tmp_path / "two", sets, 2)
    # The third and fourth are listed nowhere: the last, like the third, is not compared with it. It and the fourth say so.
    assert found.representatives.tolist() == [0, 1, 2, 3, 0, 5]
    assert (found.num_compared, found.num_unsure, found.num_uncompared) == (0 + 1 + 2 + 2 + 1 + 2, 2, 14 * 1 + 14 * 2)


def test_chains_never_merge_strangers(tmp_path):
    """Each document is like its neighbours alone: J of neighbours 92 / 108, of the next but one 84 / 116 = 0.72."""
    words = [f"w{i}" for i in range(404)]
    documents = [Document(str(k), " ".join(words[8 * k : 8 * k + 104])) for k in range(30)]
    for verify, step in ((0.8, 2), (0.7, 3)):
        settings = Dedup(minhash=MinHash(verify=verify, **SURE), keep=Keep(then="first"))
        outcome = run(documents, tmp_path / str(verify), settings)
        assert len(outcome.components) == 30
        assert {row["component"] for row in outcome.components} == {0}
        assert outcome.kept == [str(k) for k in range(0, 30, step)]
        for name, row in outcome.rows.items():
            if row["removed"]:
                assert row["kept_doc"] == int(name) // step * step
                assert row["similarity"] >= verify


def test_what_was_chosen_stays_when_it_is_chosen_from_again(tmp_path):
    documents = planted(60, 12, ("web", "books"))
    documents = [
        Document(one.name, one.text, one.source, url=f"https://a.test/{i % 70}") for i, one in enumerate(documents)
    ]
    for number, by in enumerate([("text",), ("text", "url"), ("url",)]):
        for measure in ("jaccard", "containment"):
            settings = Dedup(exact=Exact(by=by), minhash=MinHash(measure=measure))
            first = run(documents, tmp_path / f"{number}{measure}1", settings)
            left = [one for one in documents if one.name in first.kept]
            assert len(left) < len(documents) - 20
            assert run(left, tmp_path / f"{number}{measure}2", settings).removed == {}


def test_the_order_of_documents_decides_only_ties(tmp_path):
    documents = planted(40, 13)
    settings = Dedup(keep=Keep(then=("longest", "id")))
    expected = set(run(documents, tmp_path / "0", settings).kept)
    for number, order in enumerate(itertools.islice(itertools.permutations(range(5)), 1, 4)):
        parts = [documents[i::5] for i in order]
        assert set(run([one for part in parts for one in part], tmp_path / f"{number + 1}", settings).kept) == expected
