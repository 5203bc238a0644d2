import pytest

from curate.text.quantities import parse_count


@pytest.mark.parametrize(
    ("written", "count"),
    [
        (1, 1),
        (1000, 1000),
        (1e6, 1_000_000),
        ("1_000", 1000),
        ("20k", 20_000),
        ("20K", 20_000),
        ("1M", 1_000_000),
        ("1.5B", 1_500_000_000),
        ("2T", 2 * 10**12),
        (" 7 k ", 7000),
        ("0.001k", 1),
        ("1.1M", 1_100_000),
    ],
)
def test_a_count_as_written(written, count):
    assert parse_count(written) == count


@pytest.mark.parametrize(
    "written",
    [0, -5, 1.5, "1.0005k", "0", "", "k", "1e6", "5 Mio", "-1M", "1,000", None, True, float("nan"), float("inf"), [1]],
)
def test_what_is_no_count_is_refused_with_its_value(written):
    with pytest.raises(ValueError, match="no count") as error:
        parse_count(written)
    assert repr(written) in str(error.value)
