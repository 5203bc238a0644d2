import gzip
import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dedup_flow import DATA, Document, jaccard, run, shingles, with_hashes

from curate.dedup.clusters import link_partition, write_shingles
from curate.dedup.components import find_components
from curate.dedup.members import SHINGLES
from curate.dedup.minhash import Signatures, collision_probability
from curate.dedup.settings import Dedup, Exact, Keep, MinHash

VOCABULARY = np.array([f"w{i}" for i in range(5000)])


def planted(num_originals: int, seed: int, sources: tuple[str, ...] = ("web",)) -> list[Document]:
    """Return texts of 60 to 300 words, each with up to three copies in which some words are replaced, cut or added."""
    generator = np.random.default_rng(seed)
    documents = []
    for number in range(num_originals):
        words = list(generator.choice(VOCABULARY, generator.integers(60, 300)))
        for copy in range(generator.integers(1, 5)):
            text = list(words)
            for _ in range(generator.integers(0, 6) if copy else 0):
                place = generator.integers(0, len(text))
                text[place : place + generator.integers(0, 5)] = generator.choice(VOCABULARY, generator.integers(0, 5))
            source = sources[generator.integers(0, len(sources))]
            documents.append(Document(f"{number}.{copy}", " ".join(map(str, text)), source))
    return [documents[i] for i in generator.permutation(len(documents))]


def band_sets(documents, settings):
    batch = Signatures.of(settings).apply(with_hashes([one.text for one in documents]))
    return [set(enumerate(bands)) for bands in batch["bands"].to_pylist()]


def test_components_are_those_of_shared_bands(tmp_path):
    documents = planted(60, 1)
    documents += [Document("copy", documents[0].text), Document("wordless", "!?"), Document("wordless-2", " !? ")]
    outcome = run(documents, tmp_path, Dedup())
    bands = band_sets(documents, Dedup())
    label = list(range(len(documents)))
    for b in range(len(documents)):  # by hand: relabel until nothing changes
        for a in range(b):
            same = documents[a].text.split() == documents[b].text.split()
            if (bands[a] & bands[b] or same) and label[a] != label[b]:
                low, high = sorted((label[a], label[b]))
                label = [low if value == high else value for value in label]
    expected = [
        {
            "doc": doc,
            "component": component,
            "exact": min(d for d, one in enumerate(documents) if one.text.split() == documents[doc].text.split()),
            "partition": 0,
        }
        for doc, component in enumerate(label)
        if label.count(component) > 1
    ]
    assert outcome.components == expected
    assert len(expected) > 60


def test_clusters_are_what_the_procedure_says(tmp_path):
    """The greedy procedure again, with sets of word tuples and no index."""
    documents = planted(80, 2, ("web", "books"))
    settings = Dedup(minhash=MinHash(verify=0.7), keep=Keep(order=("books",)))
    outcome = run(documents, tmp_path, settings, sources=["web", "books"])
    bands = band_sets(documents, settings)
    rank = {"books": 0, "web": 1}
    order = sorted(
        range(len(documents)), key=lambda d: (rank[documents[d].source], -len(documents[d].text.encode()), d)
    )
    joined: dict[int, tuple[int, float]] = {}
    representatives: list[int] = []
    for doc in order:
        for other in representatives:
            similarity = jaccard(documents[doc].text, documents[other].text)
            if bands[doc] & bands[other] and similarity >= 0.7:
                joined[doc] = (other, similarity)
                break
        else:
            representatives.append(doc)
            joined[doc] = (doc, 1.0)
    groups = {one: [doc for doc in joined if joined[doc][0] == one] for one in representatives}
    expected = [
        {
            "doc": doc,
            "id": documents[doc].id,
            "cluster": min(groups[joined[doc][0]]),
            "cluster_size": len(groups[joined[doc][0]]),
            "representative": joined[doc][0],
            "similarity": joined[doc][1],
            "verified": True,
        }
        for doc in range(len(documents))
        if len(groups[joined[doc][0]]) > 1
    ]
    assert outcome.links == expected
    assert len(expected) > 100
    # Nothing was filtered, so what stays is the representatives.
    assert outcome.kept == [documents[doc].name for doc in range(len(documents)) if doc in representatives]


@pytest.mark.parametrize("verify", [0.7, 0.8, 0.9])
def test_recall_agrees_with_the_formula_and_nothing_below_the_threshold_goes(tmp_path, verify):
    generator = np.random.default_rng(7)
    documents, exact = [], []
    for number in range(600):
        words = generator.choice(VOCABULARY, 200).astype(str)
        edited = words.copy()
        places = generator.choice(200, generator.integers(1, 9), replace=False)
        edited[places] = [f"new{number}-{place}" for place in places]
        documents += [Document(f"{number}.a", " ".join(words)), Document(f"{number}.b", " ".join(edited))]
        exact.append(jaccard(documents[-2].text, documents[-1].text))
    outcome = run(documents, tmp_path, Dedup(minhash=MinHash(verify=verify), keep=Keep(then="first")))
    assert all(name.endswith(".b") for name in outcome.removed)
    removed = {int(name.split(".")[0]) for name in outcome.removed}
    assert all(exact[number] >= verify for number in removed)
    for number in removed:
        row = outcome.rows[f"{number}.b"]
        assert (row["kept_id"], row["similarity"]) == (documents[2 * number].id, exact[number])
    chances = [collision_probability(s, num_bands=14, rows_per_band=8) for s in exact if s >= verify]
    deviation = sum(p * (1 - p) for p in chances) ** 0.5
    assert len(removed) == pytest.approx(sum(chances), abs=4 * deviation + 1)
    assert len(chances) > 50


@pytest.mark.parametrize("verify", [0.7, False])
def test_every_removed_document_has_a_verified_pair_with_one_that_stays(tmp_path, verify):
    documents = planted(150, 3, ("web", "code", "books"))
    outcome = run(documents, tmp_path, Dedup(minhash=MinHash(verify=verify), keep=Keep(order=("books", "code", "web"))))
    by_name = {one.name: one for one in documents}
    kept = set(outcome.kept)
    rank = {"books": 0, "code": 1, "web": 2}
    assert len(outcome.removed) > 100
    for name in outcome.removed:
        row, other = outcome.rows[name], by_name[outcome.name(outcome.rows[name]["kept_id"])]
        assert other.name in kept
        assert rank[other.source] <= rank[by_name[name].source]
        if verify:
            assert row["similarity"] == jaccard(by_name[name].text, other.text) >= verify


def test_threshold_is_included(tmp_path):
    # 8 shingles each, 7 common: 7 / 9. 12 words give 8 five-word shingles; a changed last word changes one.
    a = " ".join(f"w{i}" for i in range(12))
    b = " ".join([*(f"w{i}" for i in range(11)), "other"])
    documents = [Document("a", a), Document("b", b)]
    every_row_a_band = {"bands": 112, "rows": 1}
    for verify, kept in ((7 / 9, ["a"]), (np.nextafter(7 / 9, 1), ["a", "b"]), (0.77, ["a"]), (0.78, ["a", "b"])):
        settings = Dedup(minhash=MinHash(verify=float(verify), **every_row_a_band), keep=Keep(then="first"))
        assert run(documents, tmp_path / str(verify), settings).kept == kept


def test_without_verification_similarity_is_an_estimate(tmp_path):
    documents = planted(60, 4)
    settings = Dedup(minhash=MinHash(verify=False))
    outcome = run(documents, tmp_path, settings)
    bands = band_sets(documents, settings)
    assert outcome.links
    for row in outcome.links:
        shared = len(bands[row["doc"]] & bands[row["representative"]])
        same = documents[row["doc"]].text == documents[row["representative"]].text
        assert row["similarity"] == pytest.approx(1.0 if same else (shared / 14) ** (1 / 8), abs=1e-6)
        assert row["verified"] is same
    shingle_file = pq.read_table(tmp_path / "shingles-0.parquet")
    assert shingle_file["shingles"].to_pylist() == [[]] * len(shingle_file)


def test_exact_copies_alone(tmp_path):
    documents = planted(40, 5)
    documents += [
        Document("copy", "  " + documents[3].text.replace(" ", "\n")),
        Document("wordless", "?!"),
        Document("same", "?!"),
    ]
    outcome = run(documents, tmp_path, Dedup(exact=Exact()))
    first: dict[str, str] = {}
    expected = {}
    order = sorted(documents, key=lambda one: -len(one.text.encode()))
    for one in order:
        keeper = first.setdefault(" ".join(one.text.split()), one.name)
        if keeper != one.name:
            expected[one.name] = keeper
    assert {name: outcome.name(outcome.rows[name]["kept_id"]) for name in outcome.removed} == expected
    assert {"same", documents[3].name} <= set(expected)  # `copy` is longer by two blanks
    assert set(outcome.removed.values()) == {"dedup.exact"}


def test_near_copies_alone_leave_texts_without_words(tmp_path):
    documents = [Document("a", "?!"), Document("b", "?!"), Document("c", "gate shut"), Document("d", "gate shut")]
    outcome = run(documents, tmp_path, Dedup(minhash=MinHash()))
    assert outcome.removed == {"d": "dedup.minhash"}
    assert outcome.rows["d"]["similarity"] == 1.0


VARIANTS = {
    "shards": {"per_shard": 37},
    "batches": {"per_batch": 3},
    "memory": {"memory_bytes": 1},
    "all": {"per_shard": 101, "per_batch": 17, "memory_bytes": 5000},
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    documents = planted(120, 6, ("web", "books"))
    return documents, run(documents, tmp_path_factory.mktemp("reference"), Dedup())


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_depends_on_shards_batches_or_memory(tmp_path, reference, variant):
    documents, expected = reference
    outcome = run(documents, tmp_path, Dedup(), **VARIANTS[variant])
    assert outcome.files == expected.files
    assert outcome.summary == expected.summary


def test_shingle_files_do_not_depend_on_batches(tmp_path):
    documents = planted(500, 8)
    whole = run(documents, tmp_path / "whole", Dedup(), per_shard=10_000)
    parts = run(documents, tmp_path / "parts", Dedup(), per_shard=10_000, per_batch=7)
    name = "shingles-0.parquet"
    assert pq.read_metadata(tmp_path / "whole" / name).num_row_groups > 1
    assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    assert whole.files == parts.files


def test_paragraphs_of_real_books(tmp_path):
    path = DATA / "10_small_corpus" / "books.jsonl.gz"
    if not path.exists():
        pytest.skip(f"real books are absent: no file {path}; set CURATE_DATA")
    generator = np.random.default_rng(10)
    documents: list[Document] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for book, line in enumerate(lines):
            text = json.loads(line)["text"]
            paragraphs = [one for one in text.split("\n\n") if len(one.split()) >= 60][:100]
            documents += [Document(f"{book}.{i}", one, f"book{book}") for i, one in enumerate(paragraphs)]
    originals = list(documents)
    for i in generator.choice(len(originals), 240, replace=False):
        one = originals[i]
        words = one.text.split(" ")
        if i % 3 == 0:
            words[len(words) // 2] = "zebra"  # one word of at least sixty: five shingles of 56 or more
        edited = " ".join(words).upper() if i % 3 == 1 else "\t" + " ".join(words)
        documents.append(Document(f"copy-{one.name}", edited, "copies"))
    outcome = run(documents, tmp_path, Dedup(keep=Keep(then="first")), per_shard=200)
    texts = {one.name: one.text for one in documents}
    sets = {name: shingles(text) for name, text in texts.items()}
    planted_copies = [name for name in texts if name.startswith("copy-")]
    # White space: exact copy; case: equal sets; one word of sixty: J >= 51/61 = 0.836, found with p > 0.97 each.
    assert all(name in outcome.removed for name in planted_copies if originals_number(name, originals) % 3)
    assert sum(name in outcome.removed for name in planted_copies) >= 0.97 * len(planted_copies)
    for name, rule in outcome.removed.items():
        other = outcome.name(outcome.rows[name]["kept_id"])
        similarity = len(sets[name] & sets[other]) / len(sets[name] | sets[other])
        assert outcome.rows[name]["similarity"] == similarity >= 0.7
        assert (rule == "dedup.exact") == (texts[name].split() == texts[other].split())
    # Among what stays, pairs that should have gone are as rare as the formula says.
    holders: dict[tuple[str, ...], list[str]] = {}
    for name in outcome.kept:
        for shingle in sets[name]:
            holders.setdefault(shingle, []).append(name)
    pairs = {pair for names in holders.values() for pair in itertools.combinations(names, 2)}
    missed = [(a, b) for a, b in pairs if len(sets[a] & sets[b]) >= 0.85 * len(sets[a] | sets[b])]
    assert len(missed) <= 2


def originals_number(name: str, originals: list[Document]) -> int:
    return [one.name for one in originals].index(name.removeprefix("copy-"))


def member(doc, exact=None, bands=(1,) * 14):
    return pa.record_batch(
        {
            "doc": [doc],
            "component": [0],
            "exact": [doc if exact is None else exact],
            "partition": pa.array([0], pa.int32()),
            "id": [f"{doc:032x}"],
            "source_rank": pa.array([0], pa.int32()),
            "num_bytes": [10],
            "preferences": pa.array([[]], pa.list_(pa.uint64())),
            "url_hash": pa.nulls(1, pa.string()),
            "payload_hash": pa.nulls(1, pa.string()),
            "bands": pa.array([list(bands)], pa.list_(pa.uint64())),
            "word_hashes": pa.array([[1, 2, 3]], pa.large_list(pa.uint64())),
        }
    )


def link(folder, *files):
    settings, paths = Dedup(), []
    for number, batches in enumerate(files):
        paths.append(str(folder / f"{number}.parquet"))
        write_shingles(batches, paths[-1], settings=settings, scratch=str(folder))
    place = str(folder / "links.parquet")
    link_partition(paths, 0, place, settings=settings, memory_bytes=1 << 20, scratch=str(folder))
    return pq.read_table(folder / "links.parquet").to_pylist()


def test_files_that_do_not_fit_are_refused(tmp_path):
    assert [row["cluster"] for row in link(tmp_path, [member(3)], [member(5, 3)])] == [3, 3]
    with pytest.raises(ValueError, match=r"1\.parquet: documents do not ascend; pass shingle files in document order"):
        link(tmp_path, [member(5)], [member(3)])
    with pytest.raises(ValueError, match="pass the files of all document shards"):
        link(tmp_path, [member(5, 3)])
    with pytest.raises(ValueError, match=r"0\.parquet: documents have 3 bands, the settings 14"):
        link(tmp_path, [member(5, bands=(1, 2, 3))])
    signatures = tmp_path / "signatures.parquet"
    pq.write_table(pa.Table.from_batches([Signatures(bands=3).apply(with_hashes(["a", "b"]))]), signatures)
    with pytest.raises(ValueError, match="measure again"):
        find_components([str(signatures)], str(tmp_path / "c"), settings=Dedup(), memory_bytes=1, scratch=str(tmp_path))


def test_ids_must_be_32_hex_digits(tmp_path):
    batch = member(1)
    batch = batch.set_column(batch.schema.get_field_index("id"), "id", pa.array(["short"]))
    with pytest.raises(ValueError, match="32 hex digits, got 'short'"):
        link(tmp_path, [batch])


def test_nothing_in_nothing_out(tmp_path):
    assert link(tmp_path) == []
    assert link(tmp_path, []) == []
    assert pq.read_schema(tmp_path / "0.parquet") == SHINGLES
    find_components([], str(tmp_path / "none"), settings=Dedup(), memory_bytes=1, scratch=str(tmp_path))
    assert pq.read_table(tmp_path / "none").num_rows == 0
