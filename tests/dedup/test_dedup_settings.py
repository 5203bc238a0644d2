import pickle
import subprocess
import sys

import pytest
from pydantic import ValidationError

from curate.dedup.settings import Dedup, Exact, Keep, MinHash, Validation, clustering
from curate.stage import canonical


def test_a_kind_that_is_not_named_is_not_done():
    assert Dedup() == Dedup(exact=Exact(), minhash=MinHash())
    assert Dedup(keep=Keep(then="first")).minhash == MinHash()
    assert Dedup(exact=Exact()).minhash is None
    assert Dedup(minhash=MinHash()).exact is None
    with pytest.raises(ValidationError, match="none of exact, minhash, lines"):
        Dedup(exact=None, minhash=None)


def test_defaults_are_those_of_fineweb():
    defaults = MinHash()
    assert (defaults.ngram, defaults.bands, defaults.rows) == (5, 14, 8)  # Penedo et al. 2024


@pytest.mark.parametrize("value", [0.01, 0.7, 1.0, 1, False])
def test_verify_takes(value):
    assert MinHash(verify=value).verify == value


@pytest.mark.parametrize("value", [0, 0.0, 1.0001, -0.5, True, "0.7", None, float("nan"), float("inf")])
def test_verify_refuses(value):
    with pytest.raises(ValidationError, match="threshold above 0 and at most 1, or false"):
        MinHash(verify=value)


@pytest.mark.parametrize("field", ["ngram", "bands", "rows"])
def test_sizes_are_positive(field):
    assert getattr(MinHash(**{field: 1}), field) == 1
    with pytest.raises(ValidationError):
        MinHash(**{field: 0})


def test_keep_ranks_named_sources_first():
    assert Keep(order=("books", "code")).ranks(["web", "code", "wiki", "books"]) == {
        "books": 0,
        "code": 1,
        "web": 2,
        "wiki": 3,
    }
    assert Keep().ranks(["b", "a"]) == {"b": 0, "a": 1}
    with pytest.raises(ValueError, match="names bokks; the recipe's sources are web, books"):
        Keep(order=("bokks",)).ranks(["web", "books"])
    with pytest.raises(ValidationError, match="twice"):
        Keep(order=("web", "web"))


def test_clustering_fills_in_what_the_recipe_leaves_out():
    keep = Keep(then="first")
    assert clustering(None) == Dedup()
    assert clustering(Dedup(exact=Exact(), keep=keep)) == Dedup(exact=Exact(), minhash=MinHash(), keep=keep)
    assert clustering(Dedup(minhash=MinHash(ngram=3))) == Dedup(exact=Exact(), minhash=MinHash(ngram=3))


def test_validation_reads_counts():
    assert Validation(tokens="20k").tokens == 20_000
    assert Validation(tokens="1.5M").tokens == 1_500_000
    assert Validation(tokens=7).tokens == 7
    for wrong in ("many", "0", 0, -1, "1.0005k", True):
        with pytest.raises(ValidationError):
            Validation(tokens=wrong)
    with pytest.raises(ValidationError):
        Validation(min_documents=0)


def test_settings_survive_pickling_and_have_a_canonical_form():
    settings = Dedup(minhash=MinHash(verify=False), keep=Keep(order=("a",)))
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert canonical(settings)["minhash"]["verify"] is False


def test_settings_import_nothing_heavy():
    code = (
        "import sys, curate.dedup.settings, curate.dedup.minhash, curate.dedup.clusters, curate.dedup.choose\n"
        "print([m for m in ('numpy', 'pyarrow', 'numba', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
