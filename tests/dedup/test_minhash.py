import pickle

import datasketch
import numpy as np
import pyarrow as pa
import pytest
from dedup_flow import jaccard, shingles, with_hashes

from curate.compiled import compiled
from curate.dedup import signing
from curate.dedup.minhash import (
    Signatures,
    collision_probability,
    estimated_similarity,
    shingle_multipliers,
    shingle_sets,
    signature_schema,
    signatures,
)
from curate.dedup.settings import Dedup, Exact, MinHash
from curate.words import folded_words, hash_word

M64, M32 = 2**64 - 1, 2**32 - 1


@pytest.mark.parametrize(("similarity", "percent"), [(0.70, 56), (0.75, 77), (0.80, 92), (0.85, 98.8)])
def test_collision_probability_of_fineweb(similarity, percent):
    probability = collision_probability(similarity, num_bands=14, rows_per_band=8)
    assert 100 * probability == pytest.approx(percent, abs=0.5 if percent < 98 else 0.05)


def test_collision_probability_ends():
    assert collision_probability(0.0, num_bands=14, rows_per_band=8) == 0.0
    assert collision_probability(1.0, num_bands=14, rows_per_band=8) == 1.0
    assert collision_probability(0.5, num_bands=2, rows_per_band=1) == 0.75  # 1 - (1/2)^2


def test_estimated_similarity_inverts_the_share_of_equal_bands():
    assert estimated_similarity(14, num_bands=14, rows_per_band=8) == 1.0
    assert estimated_similarity(1, num_bands=4, rows_per_band=2) == 0.5  # sqrt(1/4)
    assert estimated_similarity(1, num_bands=14, rows_per_band=8) == pytest.approx(0.719, abs=5e-4)


def test_split_mix_gives_the_published_values():
    # Steele et al.'s generator with seed 1234567, as listed by implementations in many languages.
    assert signing.split_mix(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


# The family as its documentation states it, word for word in Python's integers.


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
    return z ^ (z >> 31)


def plain_shingle_hashes(text, ngram):
    words = [hash_word(word) for word in folded_words(text)]
    multipliers = [int(value) for value in shingle_multipliers(ngram)]
    size = min(ngram, len(words))
    return [
        mix(
            (size * 0x9E3779B97F4A7C15 + sum(m * w for m, w in zip(multipliers, words[i : i + size], strict=False)))
            & M64
        )
        for i in range(len(words) - size + 1 if words else 0)
    ]


def plain_signature(text, ngram, num_permutations, seed):
    hashes = plain_shingle_hashes(text, ngram)
    signature = []
    for parameter in signing.split_mix(seed, num_permutations):
        factor, mask = (parameter >> 32) | 1, parameter & M32
        lowest = min((((h & M32) * factor + ((h >> 32) ^ mask)) & M32 for h in hashes), default=0)
        signature.append(lowest ^ (lowest >> 15))
    return signature


def plain_bands(signature, rows):
    keys = []
    for band in range(len(signature) // rows):
        key = band + 1
        for value in signature[band * rows : (band + 1) * rows]:
            key = mix(key ^ value)
        keys.append(key)
    return keys


TEXTS = [
    "The weir is open; the gate, they say, is shut -- and the toll was paid twice this week!",
    "Gate shut.",
    "",
    "--- !!!",
    "水位上升了 and the gate is shut",
    "one two three four five",
    "word " * 50,
]


@pytest.mark.parametrize("ngram", [1, 5, 13])
def test_kernels_agree_with_the_documented_family(ngram):
    batch = with_hashes(TEXTS)
    found = Signatures(ngram=ngram, bands=3, rows=4, seed=9).apply(batch).to_pylist()
    sets = shingle_sets(batch["word_hashes"], ngram)
    for text, row, hashes in zip(TEXTS, found, sets, strict=True):
        plain = plain_shingle_hashes(text, ngram)
        assert hashes.tolist() == sorted(set(plain))
        assert row["num_shingles"] == len(plain)
        assert len(hashes) == len(shingles(text, ngram))
        assert row["bands"] == (plain_bands(plain_signature(text, ngram, 12, 9), 4) if plain else [])
        assert row["num_bytes"] == len(text.encode())


def test_contract_same_rows_any_batching_empty_batch_pickle():
    stage = pickle.loads(pickle.dumps(Signatures()))
    whole = with_hashes(TEXTS)
    expected = stage.apply(whole)
    assert expected.schema == signature_schema()
    for size in (1, 2, 3):
        parts = [stage.apply(whole.slice(i, size)) for i in range(0, len(TEXTS), size)]
        assert pa.Table.from_batches(parts).to_pylist() == expected.to_pylist()
    empty = stage.apply(with_hashes([]))
    assert (empty.num_rows, empty.schema) == (0, signature_schema())


def test_null_text_counts_as_empty():
    batch = pa.record_batch(
        {"text": pa.array([None, "a"], pa.large_string()), "word_hashes": with_hashes(["", "a"])["word_hashes"]}
    )
    first, second = Signatures().apply(batch).to_pylist()
    assert first == Signatures().apply(with_hashes([""])).to_pylist()[0]
    assert second["num_bytes"] == 1


def test_signatures_depend_on_what_shapes_them_alone():
    assert Signatures.of(Dedup(minhash=MinHash(verify=0.9))) == Signatures.of(
        Dedup(exact=Exact(), minhash=MinHash(verify=False))
    )
    assert Signatures.of(Dedup(exact=Exact())).bands == 0
    assert Signatures.of(Dedup(minhash=MinHash(ngram=3, bands=5, rows=2, seed=4))) == Signatures(
        ngram=3, bands=5, rows=2, seed=4
    )
    none = Signatures(bands=0).apply(with_hashes(TEXTS))
    assert none["bands"].to_pylist() == [[]] * len(TEXTS)


def pairs_at(similarity, count, size, seed):
    """Yield word lists (as hashes of one-word shingles) of pairs whose Jaccard similarity is exactly `similarity`."""
    generator = np.random.default_rng(seed)
    common = round(similarity * size)
    rest = size - common
    assert common / (common + rest) == similarity
    assert rest % 2 == 0
    for _ in range(count):
        values = generator.integers(0, 2**64, size, np.uint64)
        yield values[: common + rest // 2], np.concatenate([values[:common], values[common + rest // 2 :]])


def word_lists(lists):
    ends = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    return pa.LargeListArray.from_arrays(pa.array(ends), pa.array(np.concatenate(lists)))


@pytest.mark.parametrize("similarity", [0.5, 0.7, 0.75, 0.8])
def test_bands_collide_at_the_rate_of_the_formula(similarity):
    num_pairs = 3000
    lists = word_lists([one for pair in pairs_at(similarity, num_pairs, 400, 5) for one in pair])
    values, _ = signatures(lists, ngram=1, num_permutations=112, seed=1)
    equal = (values[0::2] == values[1::2]).reshape(num_pairs, 14, 8)
    expected = collision_probability(similarity, num_bands=14, rows_per_band=8)
    # Four standard errors of a binomial share.
    assert equal.all(2).any(1).mean() == pytest.approx(expected, abs=4 * (expected * (1 - expected) / num_pairs) ** 0.5)
    # The estimate of the similarity: no bias, and the variance s(1 - s)/112 of independent functions.
    estimates = equal.mean((1, 2))
    variance = similarity * (1 - similarity) / 112
    assert estimates.mean() == pytest.approx(similarity, abs=4 * (variance / num_pairs) ** 0.5)
    assert estimates.var() == pytest.approx(variance, rel=0.15)
    keys = np.empty((2 * num_pairs, 14), np.uint64)
    signing.band_keys(values, 8, keys)
    assert np.array_equal(keys[0::2] == keys[1::2], equal.all(2))


def test_estimates_are_as_good_as_those_of_datasketch():
    generator = np.random.default_rng(3)
    vocabulary = np.array([f"word{i}" for i in range(3000)])
    texts = []
    for changed in (0.0, 0.01, 0.03, 0.06, 0.1, 0.2) * 10:
        words = generator.choice(vocabulary, 400)
        edited = np.where(generator.random(400) < changed, generator.choice(vocabulary, 400), words)
        texts += [" ".join(words), " ".join(edited)]
    values, _ = signatures(with_hashes(texts)["word_hashes"], ngram=5, num_permutations=128, seed=1)
    theirs = []
    for text in texts:
        sketch = datasketch.MinHash(num_perm=128, seed=1)
        sketch.update_batch([" ".join(shingle).encode() for shingle in shingles(text)])
        theirs.append(sketch)
    ours_error, their_error = [], []
    for a in range(0, len(texts), 2):
        b = a + 1
        exact = jaccard(texts[a], texts[b])
        ours_error.append(abs((values[a] == values[b]).mean() - exact))
        their_error.append(abs(theirs[a].jaccard(theirs[b]) - exact))
    # sqrt(s(1-s)/128) is at most 0.044; the mean absolute error of such an estimate is below 0.036.
    assert np.mean(ours_error) < 0.036
    assert np.mean(ours_error) < 1.35 * np.mean(their_error)


def test_texts_shorter_than_a_shingle():
    short, same, other, prefix, longer = shingle_sets(
        with_hashes(["Gate shut.", "gate shut", "Shut gate.", "gate", "gate shut now"])["word_hashes"], 5
    )
    assert len(short) == 1
    assert short.tolist() == same.tolist()
    assert len({int(one[0]) for one in (short, other, prefix, longer)}) == 4


def test_kernels_compile_without_a_folder_to_cache_in():
    names: dict[str, object] = {}
    exec("def double(value):\n    return 2 * value", names)  # code of no file: numba finds no place to cache it
    assert compiled(names["double"])(4) == 8
