"""The variant that agrees with datasketch bit for bit, and bands and rows chosen as datasketch chooses them."""

import gzip
import itertools
import json
import subprocess
import sys

import datasketch
import numpy as np
import pyarrow as pa
import pytest
from datasketch.lsh import _optimal_param
from dedup_flow import DATA, with_hashes
from pydantic import ValidationError

from curate.dedup.minhash import Signatures, datasketch_signatures
from curate.dedup.settings import Dedup, MinHash
from curate.dedup.thresholds import choose_bands
from curate.words import folded_words


def sketch(text, *, ngram=5, num_perm=128, seed=1):
    """Return datasketch's own signature of the shingles as they are defined: words joined by one space, in UTF-8."""
    words = folded_words(text)
    shingles = [words[i : i + ngram] for i in range(max(1, len(words) - ngram + 1))] if words else []
    made = datasketch.MinHash(num_perm=num_perm, seed=seed)
    assert made.scheme == "affine32"
    made.update_batch([" ".join(shingle).encode() for shingle in shingles])
    return made


def real_texts():
    """Return passages of 20 sentences, of each language as it comes."""
    path = DATA / "09_langid" / "udhr.jsonl.gz"
    if not path.exists():
        pytest.skip(f"real inputs are absent: no file {path}; set CURATE_DATA")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    found = []
    for _, group in itertools.groupby(rows, key=lambda row: row["code"]):
        texts = [row["text"] for row in group]
        found += [" ".join(texts[i : i + 20]) for i in range(0, len(texts), 20)]
    return found[:: max(1, len(found) // 400)]


AWKWARD = [
    "",
    "--",
    "Gate shut.",
    "one two three four five",
    "word " * 30,
    "\u6c34\u4f4d\u4e0a\u5347\u4e86 and the gate",
    "Stra\u00dfe don\u2019t",
]


@pytest.mark.parametrize(("ngram", "num_perm", "seed"), [(5, 128, 1), (1, 16, 7), (3, 200, 2**32 - 1)])
def test_values_are_those_of_datasketch(ngram, num_perm, seed):
    column = pa.array([*AWKWARD, None], pa.large_string())
    values, counts = datasketch_signatures(column, ngram=ngram, num_permutations=num_perm, seed=seed)
    theirs = [sketch(text, ngram=ngram, num_perm=num_perm, seed=seed).hashvalues for text in [*AWKWARD, ""]]
    assert values.dtype == theirs[0].dtype == np.uint32
    assert np.array_equal(values, theirs)
    assert counts[:3].tolist() == [0, 0, 1 if ngram > 1 else 2]


def test_real_documents_in_many_languages_and_the_buckets_of_the_index():
    texts = real_texts()
    assert len(texts) >= 300
    edited = [text + " and this is more" for text in texts[::4]]
    texts += edited
    theirs = [sketch(text) for text in texts]
    values, _ = datasketch_signatures(pa.array(texts, pa.large_string()), ngram=5, num_permutations=128, seed=1)
    assert np.array_equal(values, [one.hashvalues for one in theirs])
    # The settings choose what MinHashLSH chooses, and documents meet in a band exactly where its buckets hold both.
    index = datasketch.MinHashLSH(threshold=0.7, num_perm=128)
    minhash = MinHash(threshold=0.7, variant="datasketch")
    assert (minhash.bands, minhash.rows, minhash.num_permutations) == (index.b, index.r, 128)
    for number, one in enumerate(theirs):
        index.insert(number, one)
    bands = Signatures.of(Dedup(minhash=minhash)).apply(with_hashes(texts))["bands"].to_pylist()
    holders = {}
    for number, keys in enumerate(bands):
        assert len(keys) == len(set(keys)) == index.b
        for key in keys:
            holders.setdefault(key, set()).add(number)
    for number, keys in enumerate(bands):
        assert set().union(*(holders[key] for key in keys)) == set(index.query(theirs[number]))
    assert any(len(group) > 1 for group in holders.values())


@pytest.mark.parametrize("permutations", [2, 16, 64, 128, 200])
@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.5, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99])
def test_bands_are_chosen_as_datasketch_chooses_them(threshold, permutations):
    theirs = _optimal_param(threshold, permutations, 0.5, 0.5)
    if theirs[0] >= 2:
        assert choose_bands(threshold, permutations) == theirs
    else:  # MinHashLSH refuses it, in the middle of the work
        with pytest.raises(ValueError, match=r"^threshold"):
            choose_bands(threshold, permutations)


def test_published_example():
    assert choose_bands(0.9, 128) == (5, 25)  # the documentation of MinHashLSH


def test_a_threshold_is_resolved_and_loads_back_equal():
    minhash = MinHash(threshold=0.8)
    assert (minhash.bands, minhash.rows, minhash.permutations) == (9, 13, 128)
    assert MinHash.model_validate(minhash.model_dump()) == minhash
    assert (minhash.verify, MinHash(threshold=0.8, verify=False).verify, MinHash().verify) == (0.8, False, 0.7)
    assert MinHash(bands=5, rows=3).num_permutations == 15


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"threshold": 1.0}, "between 0 and 1"),
        ({"threshold": 0}, "between 0 and 1"),
        ({"threshold": "high"}, "between 0 and 1"),
        ({"threshold": 0.99, "permutations": 8}, "beyond what 8 permutations"),
        ({"threshold": 0.8, "bands": 14}, "9 bands of 13 rows"),
        ({"threshold": 0.8, "permutations": 5000}, "2 to 4096"),
        ({"permutations": 100}, "need 112"),
        ({"variant": "datasketch", "seed": 2**32}, "below 4294967296"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, problem):
    with pytest.raises(ValidationError, match=problem):
        MinHash(**settings)


def test_thresholds_need_no_heavy_library():
    code = "import sys; from curate.dedup.settings import MinHash; MinHash(threshold=0.8); print({'numpy', 'scipy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_more_permutations_than_bands_need_are_stored_whole():
    batch = with_hashes(["The gate is shut and the toll was paid."])
    minhash = MinHash(bands=2, rows=3, permutations=20)
    found = Signatures.of(Dedup(minhash=minhash), stored=True).apply(batch)
    assert len(found["signature"][0].as_py()) == 20
    assert found["bands"].to_pylist() == Signatures(bands=2, rows=3).apply(batch)["bands"].to_pylist()
