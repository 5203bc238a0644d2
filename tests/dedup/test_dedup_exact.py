import pytest

from curate.dedup.exact import EMPTY, exact_hash, normal_form


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The gate is shut.", "  The gate\r\n\tis  shut. \n"),
        ("caf\u00e9", "cafe\u0301"),  # composed and decomposed
        ("a b", "a\u00a0\u2003b"),  # no-break space, em space
        ("", " \n\t\u3000"),
    ],
)
def test_copies_that_differ_in_white_space_or_composition_are_equal(a, b):
    assert exact_hash(a) == exact_hash(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The gate", "the gate"),
        ("The gate", "The gate."),
        ("ab", "a b"),
        ("\ufb01ne", "fine"),  # a ligature is NFKC's business
        ("a\u200bb", "ab"),  # a zero-width space is no white space
    ],
)
def test_everything_else_counts(a, b):
    assert exact_hash(a) != exact_hash(b)


def test_normal_form():
    assert normal_form(" a \n\n b\tc ") == "a b c"


def test_hash_is_xxh3_128_of_the_normal_form():
    # The published XXH3_128bits of no input with seed 0.
    assert exact_hash("") == exact_hash(None) == EMPTY == "99aa06d3014798d86001c324468d497f"
    assert len(exact_hash("\ud800")) == 32  # a lone surrogate is hashed, not refused
