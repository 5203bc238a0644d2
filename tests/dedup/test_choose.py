import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dedup_flow import Document, jaccard, run, shingles, write_kept

from curate.dedup.choose import choose
from curate.dedup.components import components_schema
from curate.dedup.resolving import resolve_partition
from curate.dedup.settings import Dedup, Exact, Keep, MinHash, Validation
from curate.document import DUPLICATES
from curate.text.hashing import choice_hash

VOCABULARY = [f"w{i}" for i in range(4000)]
SURE = {"bands": 112, "rows": 1}  # finds any pair worth finding: results do not hang on chance


def text(seed, num_words=100):
    return " ".join(np.random.default_rng(seed).choice(VOCABULARY, num_words))


def edited(original, *places):
    words = original.split()
    for place in places:
        words[place] = f"new{place}"
    return " ".join(words)


# One changed word in the middle of 100 changes 5 of 96 shingles: J = 91/101 = 0.90; four far apart: 76/116 = 0.655.
BASE = text(1)
NEAR = edited(BASE, 50)
FAR = edited(BASE, 20, 40, 60, 80)
# A chain: `LEFT` and `RIGHT` are like `BASE` (81/111 = 0.73) and not like each other (66/126 = 0.52).
LEFT, RIGHT = edited(BASE, 10, 20, 30), edited(BASE, 60, 70, 80)


def test_the_worked_similarities():
    assert jaccard(BASE, NEAR) == 91 / 101
    assert jaccard(BASE, FAR) == 76 / 116
    assert jaccard(BASE, LEFT) == jaccard(BASE, RIGHT) == 81 / 111
    assert jaccard(LEFT, RIGHT) == 66 / 126


def test_only_documents_that_are_still_kept_stand_for_others(tmp_path):
    documents = [Document("base", BASE, kept=False), Document("near", NEAR), Document("copy", BASE)]
    outcome = run(documents, tmp_path, Dedup(keep=Keep(then="first")))
    assert outcome.removed == {"copy": "dedup.minhash"}
    row = outcome.rows["copy"]
    assert (outcome.name(row["kept_id"]), row["kept_doc"], row["similarity"], row["stage"]) == (
        "near",
        1,
        91 / 101,
        "dedup",
    )
    assert not outcome.rows["base"]["removed"]  # not by this phase
    assert {outcome.name(d["id"]): outcome.name(d["kept_id"]) for d in outcome.duplicates} == {
        "base": "near",
        "near": None,
        "copy": "near",
    }


def test_losing_the_middle_of_a_chain_separates_its_ends(tmp_path):
    documents = [Document("base", BASE), Document("left", LEFT), Document("right", RIGHT)]
    settings = Dedup(minhash=MinHash(**SURE), keep=Keep(then="first"))
    assert run(documents, tmp_path / "all", settings).removed == {"left": "dedup.minhash", "right": "dedup.minhash"}
    documents[0] = Document("base", BASE, kept=False)
    outcome = run(documents, tmp_path / "ends", settings)
    assert outcome.removed == {}
    # The one that was filtered joins the first of them; the other is alone.
    assert {name: row["cluster_size"] for name, row in outcome.rows.items()} == {"base": 2, "left": 2}


def test_priority_is_source_then_length_then_place(tmp_path):
    longer = BASE + " and more"
    documents = [
        Document("web", longer, "web"),
        Document("code", BASE, "code"),
        Document("books", NEAR, "books"),
        Document("books-2", NEAR, "books"),
    ]

    def kept(name, **keep):
        return run(documents, tmp_path / name, Dedup(keep=Keep(**keep)), sources=["web", "code", "books"]).kept

    assert kept("named", order=("books", "code", "web")) == ["books"]
    assert kept("some", order=("code",)) == ["code"]
    assert kept("recipe") == ["web"]
    same_source = [Document("short", BASE), Document("long", longer), Document("long-2", longer)]
    assert run(same_source, tmp_path / "longest", Dedup()).kept == ["long"]
    assert run(same_source, tmp_path / "first", Dedup(keep=Keep(then="first"))).kept == ["short"]


def test_exact_copies_are_ranked_by_their_best(tmp_path):
    # The copy in the better source leads its equals; what is near joins it.
    documents = [Document("w", BASE, "web"), Document("n", NEAR + " longer", "web"), Document("b", BASE, "books")]
    outcome = run(documents, tmp_path, Dedup(keep=Keep(order=("books",))))
    assert outcome.removed == {"w": "dedup.exact", "n": "dedup.minhash"}
    assert {outcome.name(outcome.rows[name]["kept_id"]) for name in "wn"} == {"b"}
    assert outcome.rows["w"]["similarity"] == 1.0


def test_an_exact_copy_of_a_near_copy_is_near(tmp_path):
    documents = [Document("a", BASE + " one two"), Document("b", BASE), Document("c", BASE)]
    outcome = run(documents, tmp_path, Dedup())
    assert outcome.removed == {"b": "dedup.minhash", "c": "dedup.minhash"}
    assert outcome.rows["b"]["similarity"] == outcome.rows["c"]["similarity"] == 96 / 98


def test_files_that_are_written(tmp_path):
    documents = [Document("a", BASE), Document("b", NEAR), Document("c", BASE, kept=False), Document("d", text(2))]
    outcome = run(documents, tmp_path, Dedup(keep=Keep(then="first")))
    a, b, c = (one.id for one in documents[:3])
    assert pq.read_schema(tmp_path / "duplicates.parquet") == DUPLICATES
    assert outcome.duplicates == [
        {"id": a, "cluster": a, "cluster_size": 3, "kept_id": None, "similarity": None, "verified": True},
        {"id": b, "cluster": a, "cluster_size": 3, "kept_id": a, "similarity": 91 / 101, "verified": True},
        {"id": c, "cluster": a, "cluster_size": 3, "kept_id": a, "similarity": 1.0, "verified": True},
    ]
    plain = {"removed": False, "stage": None, "rule": None, "kept_doc": None, "kept_id": None, "similarity": None}
    assert outcome.decisions == [
        {"doc": 0, "id": a, **plain, "split": "train", "cluster_size": 3},
        {
            "doc": 1,
            "id": b,
            "removed": True,
            "stage": "dedup",
            "rule": "dedup.minhash",
            "kept_doc": 0,
            "kept_id": a,
            "similarity": 91 / 101,
            "split": "train",
            "cluster_size": 3,
        },
        {"doc": 2, "id": c, **plain, "split": "train", "cluster_size": 3},
    ]
    assert outcome.summary == {
        "clusters": 1,
        "cluster_sizes": {"3-4": 1},
        "removed": {"dedup.exact": 0, "dedup.minhash": 1, "validation.near_copy": 0},
        "compared": 1,
    }


def test_cluster_sizes_by_range(tmp_path):
    documents = [Document(f"{n}.{i}", text(n)) for n, size in enumerate([1, 2, 2, 3, 4, 5, 8, 9]) for i in range(size)]
    assert run(documents, tmp_path, Dedup()).summary["cluster_sizes"] == {"2": 2, "3-4": 2, "5-8": 2, "9-16": 1}


# ---- validation


def corpus(sizes, source="web"):
    """Return unrelated documents of so many words each."""
    return [Document(f"{source}{i}", text((len(source), i), size), source) for i, size in enumerate(sizes)]


def by_luck(documents, seed):
    return sorted(documents, key=lambda one: choice_hash(seed, one.id, "validation"))


def num_bytes(documents):
    return sum(len(one.text.encode()) for one in documents)


def test_the_draw_is_the_shortest_run_that_meets_both_wants(tmp_path):
    documents = corpus([100] * 300) + corpus([100] * 200, "books")
    for name, wants in {
        "bytes": Validation(tokens=1000, min_documents=1),
        "documents": Validation(tokens=1, min_documents=12),
    }.items():
        outcome = run(documents, tmp_path / name, None, wants, seed=5)
        for source in ("web", "books"):
            order = by_luck([one for one in documents if one.source == source], 5)
            drawn = [one for one in order if one.name in outcome.drawn]
            assert drawn == order[: len(drawn)]
            assert num_bytes(drawn) >= 4 * wants.tokens
            assert len(drawn) >= wants.min_documents
            assert num_bytes(drawn[:-1]) < 4 * wants.tokens or len(drawn) - 1 < wants.min_documents
            assert outcome.summary["validation"][source] == {
                "documents": len(drawn),
                "bytes": num_bytes(drawn),
                "shortfall": None,
            }
        assert outcome.removed == {}


def test_wants_are_met_exactly_at_the_edge(tmp_path):
    documents = [Document(f"d{i}", f"{i:03} " + "x" * 36) for i in range(100)]  # 40 bytes, 10 tokens each
    for tokens, count in ((30, 3), (31, 4), (29, 3)):
        outcome = run(documents, tmp_path / str(tokens), None, Validation(tokens=tokens, min_documents=1))
        assert len(outcome.drawn) == count


def test_never_more_than_a_tenth(tmp_path):
    documents = [Document(f"d{i}", f"{i:03} " + "x" * 36) for i in range(100)]
    outcome = run(documents, tmp_path / "hundred", None, Validation(tokens=10_000, min_documents=20))
    assert outcome.summary["validation"]["web"] == {
        "documents": 10,
        "bytes": 400,
        "shortfall": {"tokens": 9_900, "documents": 10},
    }
    fewer = run(documents[:99], tmp_path / "fewer", None, Validation(tokens=10_000, min_documents=20))
    assert fewer.summary["validation"]["web"]["documents"] == 9  # 3,960 bytes: ten would be 400


def test_a_document_too_large_for_the_share_is_passed_over(tmp_path):
    documents = [*corpus([20] * 30), Document("novel", text(99, 3000))]
    large = num_bytes(documents[-1:])
    assert large > num_bytes(documents) // 10
    for seed in range(3):
        outcome = run(documents, tmp_path / str(seed), None, Validation(tokens=1, min_documents=3), seed=seed)
        assert "novel" not in outcome.drawn
        assert len(outcome.drawn) == 3


def test_only_kept_documents_are_drawn(tmp_path):
    documents = [Document(f"d{i}", text(i), kept=i % 2 == 0) for i in range(60)]
    documents += [Document(f"copy{i}", text(i)) for i in range(0, 60, 2)]
    outcome = run(documents, tmp_path, Dedup(), Validation(tokens=1, min_documents=3))
    assert len(outcome.drawn) == 3
    assert all(name in outcome.kept and name.startswith("d") for name in outcome.drawn)
    # A copy that was removed for one that is drawn keeps its reason.
    assert set(outcome.removed.values()) == {"dedup.exact"}


def test_another_seed_draws_others(tmp_path):
    documents = corpus([50] * 200)
    wants = Validation(tokens=1, min_documents=10)
    draws = [set(run(documents, tmp_path / str(seed), None, wants, seed=seed).drawn) for seed in (1, 2)]
    assert len(draws[0] & draws[1]) < 6
    # Order, batches and company do not matter.
    again = run(documents[::-1] + corpus([50] * 50, "books"), tmp_path / "again", None, wants, seed=1)
    assert {name for name in again.drawn if name.startswith("web")} == draws[0]


def copied(num_originals, num_copies, sources=("web",), words=100):
    """Return documents with copies at J = 0.9, equal ones among them, the copies in turn in the sources."""
    documents = []
    for i in range(num_originals):
        original = text((7, i), words)
        documents.append(Document(f"{i}", original, sources[0]))
        for k in range(num_copies):
            other = edited(original, words // 2) if k % 2 == 0 else original
            documents.append(Document(f"{i}-{k}", other, sources[(k + 1) % len(sources)]))
    return documents


def test_no_copy_of_a_validation_document_stays_in_training_without_dedup(tmp_path):
    documents = copied(60, 2, ("web", "books"))
    outcome = run(documents, tmp_path, None, Validation(tokens=1, min_documents=4), seed=3)
    assert outcome.removed
    check_parted(outcome, 0.7)
    assert set(outcome.removed.values()) == {"validation.near_copy"}
    assert {row["stage"] for row in outcome.decisions if row["removed"]} == {"validation"}
    sources = {one.source for one in outcome.documents if one.name in outcome.removed}
    assert sources == {"web", "books"}  # also from other sources


def check_parted(outcome, threshold):
    sets = {one.name: shingles(one.text) for one in outcome.documents}
    drawn = outcome.drawn
    train = [name for name in outcome.kept if name not in drawn]

    def similarity(a, b):
        return len(sets[a] & sets[b]) / len(sets[a] | sets[b])

    assert max(similarity(*pair) for pair in itertools.product(train, drawn)) < threshold
    for name, rule in outcome.removed.items():
        other = outcome.name(outcome.rows[name]["kept_id"])
        assert other in outcome.kept
        if rule == "validation.near_copy":
            assert other in drawn
        assert outcome.rows[name]["similarity"] == similarity(name, other) >= threshold
    assert not set(drawn) & set(outcome.removed)


def test_after_near_dedup_there_is_nothing_left_to_part(tmp_path):
    outcome = run(copied(80, 2), tmp_path, Dedup(minhash=MinHash()), Validation(tokens=1, min_documents=6))
    check_parted(outcome, 0.7)
    assert set(outcome.removed.values()) == {"dedup.minhash"}
    assert outcome.summary["removed"]["validation.near_copy"] == 0


def test_shared_bands_decide_about_validation_too_where_nothing_is_verified(tmp_path):
    documents = copied(60, 1)
    outcome = run(documents, tmp_path, Dedup(minhash=MinHash(verify=False)), Validation(tokens=1, min_documents=5))
    assert outcome.summary["removed"]["validation.near_copy"] == 0  # of those that share a band one is left
    assert len(outcome.drawn) == 5
    assert all(row["verified"] is (row["similarity"] in (1.0, None)) for row in outcome.duplicates if row["kept_id"])


def test_after_exact_dedup_near_copies_go_with_their_equals(tmp_path):
    documents = copied(60, 4)  # three texts equal to the original, two equal ones near it
    outcome = run(
        documents, tmp_path, Dedup(exact=Exact(), keep=Keep(then="first")), Validation(tokens=1, min_documents=4)
    )
    check_parted(outcome, 0.7)
    assert set(outcome.removed.values()) == {"dedup.exact", "validation.near_copy"}
    assert outcome.summary["removed"] == {
        "dedup.exact": sum(rule == "dedup.exact" for rule in outcome.removed.values()),
        "dedup.minhash": 0,
        "validation.near_copy": sum(rule == "validation.near_copy" for rule in outcome.removed.values()),
    }
    # One text stays of each original: the drawn one's near texts are gone, the others' two texts stay.
    assert len(outcome.kept) == 2 * 60 - len(outcome.drawn)


def test_the_share_holds_after_copies_have_left(tmp_path):
    # Each document has five copies: at a tenth, half of the source would leave with them.
    documents = copied(50, 5)
    outcome = run(documents, tmp_path, None, Validation(tokens=100_000, min_documents=20))
    check_parted(outcome, 0.7)
    by_name = {one.name: one for one in documents}
    drawn = num_bytes([by_name[name] for name in outcome.drawn])
    kept = num_bytes([by_name[name] for name in outcome.kept])
    assert 0 < drawn <= kept / 10
    assert outcome.summary["validation"]["web"]["bytes"] == drawn
    assert outcome.summary["validation"]["web"]["shortfall"]["documents"] == 20 - len(outcome.drawn)


def test_a_removed_copy_has_a_row_in_duplicates(tmp_path):
    documents = [*copied(60, 1), Document("filtered", text((7, 0)), kept=False)]
    outcome = run(documents, tmp_path, None, Validation(tokens=1, min_documents=5))
    rows = {outcome.name(row["id"]): row for row in outcome.duplicates}
    for name in outcome.removed:
        assert rows[name]["kept_id"] == outcome.rows[name]["kept_id"]
        assert rows[name]["similarity"] == outcome.rows[name]["similarity"]
    assert rows["filtered"]["cluster_size"] == 3
    for name, row in rows.items():
        if row["kept_id"] is not None:
            assert outcome.name(row["kept_id"]) in outcome.kept
            assert name not in outcome.kept


def test_kept_copies_of_other_settings(tmp_path):
    # 0.655 is a pair at 0.6 and none at 0.7, for dedup and for validation alike.
    documents = [*corpus([100] * 40), Document("base", BASE), Document("far", FAR)]
    assert run(documents, tmp_path / "low", Dedup(minhash=MinHash(verify=0.6, **SURE))).removed == {
        "base": "dedup.minhash"
    }
    assert run(documents, tmp_path / "high", Dedup(minhash=MinHash(verify=0.7, **SURE))).removed == {}


VARIANTS = {
    "shards": {"per_shard": 37},
    "memory": {"memory_bytes": 1},
    "all": {"per_shard": 101, "per_batch": 17, "memory_bytes": 5000},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dedup", [None, Dedup(exact=Exact()), Dedup()], ids=["none", "exact", "both"])
def test_nothing_depends_on_shards_batches_or_memory(tmp_path, variant, dedup):
    documents = copied(40, 3, ("web", "books"), words=60)
    documents = [Document(one.name, one.text, one.source, kept=i % 7 != 0) for i, one in enumerate(documents)]
    wants = Validation(tokens=300, min_documents=3)
    expected = run(documents, tmp_path / "whole", dedup, wants)
    outcome = run(documents, tmp_path / "parts", dedup, wants, **VARIANTS[variant])
    assert outcome.files == expected.files
    assert outcome.summary == expected.summary
    assert outcome.drawn


def chosen(folder, shards, components, resolved=()):
    return choose(
        [str(one) for one in shards],
        str(components),
        [str(one) for one in resolved],
        {},
        decisions=str(folder / "decisions.parquet"),
        duplicates=str(folder / "duplicates.parquet"),
        dedup=Dedup(),
        validation=Validation(),
        seed=0,
        memory_bytes=1 << 20,
        scratch=str(folder),
    )


def test_files_that_do_not_fit_are_refused(tmp_path):
    run([Document("a", BASE), Document("b", BASE)], tmp_path / "run", Dedup())
    documents, components = (tmp_path / "run" / name for name in ("documents-0.parquet", "components.parquet"))
    short = tmp_path / "short.parquet"
    pq.write_table(pq.read_table(documents).slice(0, 1), short)
    with pytest.raises(ValueError, match="1 members of components are in none of the document shards"):
        chosen(tmp_path, [short], components)
    with pytest.raises(ValueError, match="do not ascend; pass document shards in document order"):
        chosen(tmp_path, [documents, documents], components)
    shingle_file, kept = str(tmp_path / "run" / "shingles-0.parquet"), str(tmp_path / "kept.parquet")

    def resolved(rows):
        write_kept(kept, rows)
        options = {"dedup": Dedup(), "memory_bytes": 1, "scratch": str(tmp_path)}
        resolve_partition([shingle_file], [kept], 0, str(tmp_path / "resolved.parquet"), **options)

    resolved([(0, 0, True), (0, 1, True)])
    with pytest.raises(ValueError, match="tells of other documents than the shingle files"):
        resolved([(0, 0, True), (0, 2, True)])
    with pytest.raises(ValueError, match="1 documents of the shingle files are in none of the files of kept ones"):
        resolved([(0, 0, True)])


def test_an_empty_corpus(tmp_path):
    empty, components = tmp_path / "documents.parquet", tmp_path / "components.parquet"
    schema = {"doc": pa.int64(), "id": pa.string(), "source": pa.string(), "kept": pa.bool_(), "num_bytes": pa.int64()}
    pq.write_table(pa.schema(list(schema.items())).empty_table(), empty)
    pq.write_table(components_schema().empty_table(), components)
    for shards in ([], [empty]):
        summary = chosen(tmp_path, shards, components)
        assert (summary["clusters"], summary["validation"]) == (0, {})
        assert pq.read_table(tmp_path / "decisions.parquet").num_rows == 0
        assert pq.read_schema(tmp_path / "duplicates.parquet") == DUPLICATES
