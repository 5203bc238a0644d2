"""Documents with an equal address or payload, and who stands for whom in the end."""

import numpy as np
import pytest
from dedup_flow import Document, jaccard, run

from curate.dedup.settings import Dedup, Exact, Keep, MinHash, Validation

SURE = {"bands": 112, "rows": 1}
VOCABULARY = [f"w{i}" for i in range(4000)]
P, Q = "a" * 32, "b" * 32
URL, PAYLOAD = Exact(by=("url",)), Exact(by=("payload",))


def text(seed, num_words=60):
    return " ".join(np.random.default_rng(seed).choice(VOCABULARY, num_words))


def near(original):
    words = original.split()
    return " ".join([*words[:30], "other", *words[31:], "and", "more"])


def told(outcome):
    """Return name -> (rule, kept copy, similarity) of what was removed."""
    return {
        name: (row["rule"], outcome.name(row["kept_id"]), row["similarity"])
        for name, row in outcome.rows.items()
        if row["removed"]
    }


def test_one_document_stays_of_each_address(tmp_path):
    documents = [
        Document("a", text(1), url="https://www.a.test/page?x=1#top"),
        Document("b", text(2, 90), url="http://www.a.test:80/page?x=1"),
        Document("c", text(3), url="https://www.a.test/page?x=2"),
        Document("d", text(4, 95), url="https://www.a.test/page?x=1", kept=False),
        Document("e", text(5)),
        Document("f", text(6)),
        Document("g", text(1)),
    ]
    outcome = run(documents, tmp_path, Dedup(exact=URL))
    assert told(outcome) == {"a": ("dedup.url", "b", None)}
    assert outcome.kept == ["b", "c", "e", "f", "g"]  # g equals a in its text, which was not asked for
    rows = {outcome.name(row["id"]): row for row in outcome.duplicates}
    assert {name: outcome.name(row["kept_id"]) for name, row in rows.items()} == {"a": "b", "g": None}
    assert (rows["a"]["similarity"], rows["a"]["verified"], rows["a"]["cluster_size"]) == (None, False, 2)
    assert outcome.summary["removed"] == {
        "dedup.exact": 0,
        "dedup.minhash": 0,
        "dedup.url": 1,
        "validation.near_copy": 0,
    }


def test_one_document_stays_of_each_payload(tmp_path):
    documents = [
        Document(name, text(i), payload=one)
        for i, (name, one) in enumerate(zip("abcde", (P, Q, P, None, None), strict=True))
    ]
    outcome = run(documents, tmp_path / "first", Dedup(exact=PAYLOAD, keep=Keep(then="first")))
    assert told(outcome) == {"c": ("dedup.payload", "a", None)}
    ids = run(documents, tmp_path / "id", Dedup(exact=PAYLOAD, keep=Keep(then="id")))
    (left,) = {"a", "c"} & set(ids.kept)
    assert left == min(("a", "c"), key=lambda name: Document(name, "").id)


def test_sources_decide_before_preferences(tmp_path):
    documents = [
        Document("a", text(1, 90), "web", url="http://x.test/"),
        Document("b", text(2), "books", url="http://x.test/"),
    ]
    settings = Dedup(exact=URL, keep=Keep(order=("books",)))
    assert told(run(documents, tmp_path, settings, sources=["web", "books"])) == {"a": ("dedup.url", "b", None)}


def test_only_a_document_that_stays_stands_for_others_of_its_address_or_payload(tmp_path):
    base = text(1)
    documents = [  # the longest first: "near", "exact", "payload", "both", "url"
        Document("url", text(2, 30), url="http://x.test/"),  # the same address as `both`, and nothing else
        Document("both", base.rpartition(" ")[0], url="http://x.test/", payload=P),  # the same payload as `payload`
        Document("payload", base, payload=P),
        Document("exact", base + " "),  # the same text as `payload`, a byte longer
        Document("near", near(base)),  # like all of these but `url`, and longer
        Document("alone", text(3)),
    ]
    by = Exact(by=("text", "url", "payload"))
    outcome = run(documents, tmp_path / "near", Dedup(exact=by, minhash=MinHash(**SURE)))
    # 56 shingles; one word of them changed and two more behind: 51 common of 56 + 58 - 51. `both` lacks the last of these.
    assert told(outcome) == {
        "both": ("dedup.minhash", "near", 50 / 63),
        "payload": ("dedup.minhash", "near", 51 / 63),
        "exact": ("dedup.minhash", "near", 51 / 63),
    }
    assert outcome.kept == [
        "url",
        "near",
        "alone",
    ]  # `both` went for its text: what has its address is no copy of `near`
    without = run(documents[:4], tmp_path / "exact", Dedup(exact=by))
    assert told(without) == {
        "url": ("dedup.url", "both", None),
        "payload": ("dedup.exact", "exact", 1.0),
    }
    assert without.kept == ["both", "exact"]


def test_addresses_before_payloads_before_texts(tmp_path):
    documents = [
        Document("first", text(1), url="http://x.test/", payload=P),
        Document("all", text(1), url="http://x.test/", payload=P),
        Document("payload", text(1), url="http://y.test/", payload=P),
        Document("text", text(1), url="http://z.test/"),
    ]
    settings = Dedup(exact=Exact(by=("text", "url", "payload")), keep=Keep(then="first"))
    assert told(run(documents, tmp_path, settings)) == {
        "all": ("dedup.url", "first", None),
        "payload": ("dedup.payload", "first", None),
        "text": ("dedup.exact", "first", 1.0),
    }


def test_of_the_same_address_only_kept_documents_stand_for_others(tmp_path):
    documents = [Document(name, text(i), url="http://x.test/", kept=name != "a") for i, name in enumerate("abc")]
    settings = Dedup(exact=URL, keep=Keep(then="first"))
    outcome = run(documents, tmp_path, settings)
    assert told(outcome) == {"c": ("dedup.url", "b", None)}
    assert outcome.kept == ["b"]


@pytest.mark.parametrize("seed", range(3))
def test_validation_takes_copies_from_under_others(tmp_path, seed):
    """`old` and `new` share an address; `copy` is like `new`, which goes where `copy` is drawn."""
    documents = []
    for number in range(40):
        new, url = text((seed, number)), f"http://x.test/{number}"
        documents += [
            Document(f"old{number}", text((seed, number, 1), 20), url=url),
            Document(f"new{number}", new, url=url),
            Document(f"copy{number}", near(new)),
        ]
    outcome = run(documents, tmp_path, Dedup(exact=URL), Validation(tokens=1, min_documents=4), seed=seed)
    found = told(outcome)
    drawn = outcome.drawn
    assert drawn
    for number in range(40):
        new, copy = f"new{number}", f"copy{number}"
        parted = [one for one, other in ((new, copy), (copy, new)) if other in drawn and one not in drawn]
        assert found[f"old{number}"] == ("dedup.url", copy if new in parted else new, None)
        assert [name for name in found if name in (new, copy)] == parted
        assert all(found[name][0] == "validation.near_copy" for name in parted)
    assert {one for _, one, _ in found.values()} <= set(outcome.kept)


VARIANTS = {"shards": {"per_shard": 7}, "batches": {"per_batch": 3}, "memory": {"memory_bytes": 1}}


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_depends_on_shards_batches_or_memory(tmp_path, variant):
    generator = np.random.default_rng(8)
    documents = [
        Document(
            str(i),
            text(int(generator.integers(0, 40)), int(generator.integers(20, 30))),
            url=f"http://x.test/{generator.integers(0, 60)}" if i % 4 else None,
            payload=f"{generator.integers(0, 60):032x}" if i % 3 else None,
            kept=i % 5 != 0,
        )
        for i in range(90)
    ]
    settings = Dedup(exact=Exact(by=("payload", "text", "url")), minhash=MinHash())
    wants = Validation(tokens=100, min_documents=2)
    expected = run(documents, tmp_path / "whole", settings, wants)
    outcome = run(documents, tmp_path / "parts", settings, wants, **VARIANTS[variant])
    assert outcome.files == expected.files
    assert outcome.summary == expected.summary
    assert {"dedup.url", "dedup.payload", "dedup.exact"} <= set(outcome.removed.values())


def greedy(documents, settings):
    """Return what goes and for whom, by one plain pass over priorities: `told` without similarities."""
    order = sorted(
        (one for one in documents if one.kept), key=lambda one: (-len(one.text.encode()), documents.index(one))
    )
    stays, gone = [], {}
    alike = [
        ("dedup.url", lambda a, b: a.url is not None and a.url == b.url),
        ("dedup.payload", lambda a, b: a.payload is not None and a.payload == b.payload),
        ("dedup.exact", lambda a, b: a.text == b.text),
    ]
    if settings.minhash is not None:
        # The equal ones first, as they collapse first; then the first by priority that is near enough.
        alike.append(("dedup.minhash", lambda a, b: jaccard(a.text, b.text) >= settings.minhash.verify))
    for one in order:
        for rule, same in alike:
            other = next((other for other in stays if same(one, other)), None)
            if other is not None:
                gone[one.name] = (rule, other.name)
                break
        else:
            stays.append(one)
    return gone


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("minhash", [None, MinHash(**SURE, verify=0.5)])
def test_one_greedy_pass_over_priorities(tmp_path, seed, minhash):
    random = np.random.default_rng(seed)
    texts = [text(i, 40 + i) for i in range(5)]
    texts += [near(one) for one in texts] + [near(near(one)) for one in texts[:3]]
    documents = [
        Document(
            f"d{i}",
            texts[random.integers(len(texts))],
            url=None if random.random() < 0.4 else f"http://x.test/{random.integers(8)}",
            payload=None if random.random() < 0.4 else f"{random.integers(8):032x}",
            kept=bool(random.random() < 0.9),
        )
        for i in range(40)
    ]
    settings = Dedup(exact=Exact(by=("text", "url", "payload")), minhash=minhash)
    outcome = run(documents, tmp_path, settings)
    assert {name: row[:2] for name, row in told(outcome).items()} == greedy(documents, settings)
