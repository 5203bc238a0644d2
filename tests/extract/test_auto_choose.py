"""The cut with the best expected F1, and repeats: sets worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from curate.extract.auto.choose import choose
from curate.extract.auto.columns import COLUMN_SEEN_BEFORE, NUM_FEATURES
from curate.extract.auto.features import Tables, block_features
from curate.extract.auto.page import NUM_PAGE_FACTS
from curate.extract.auto.scan import Scanner, stop_table
from curate.extract.auto.tags import NUM_CLASS_BUCKETS, NUM_WORD_BUCKETS


@pytest.fixture(scope="module")
def scan():
    return Scanner(stop_table(["the", "of"]))


def features_of(page):
    tables = Tables(np.zeros(NUM_CLASS_BUCKETS, np.float32), np.zeros(NUM_WORD_BUCKETS, np.float32))
    return block_features(page, np.zeros(NUM_PAGE_FACTS, np.float32), tables).values


def paragraphs(*texts):
    return "<body>" + "".join(f"<p>{text}</p>" for text in texts)


def chosen(scan, html, probabilities, beta=1.0, hidden_text=False):
    page = scan(html)
    return choose(page, np.array(probabilities, np.float32), features_of(page), beta, hidden_text)


def test_the_set_maximises_expected_f1(scan):
    """Three blocks of one word (weight 1.3) with p .9, .6, .1: sum(p w) = 2.08.

    One block: 2 * 1.17 / (1.3 + 2.08) = .692; two: 2 * 1.95 / (2.6 + 2.08) = .833; three: 2 * 2.08 / (3.9 + 2.08) = .696.
    """
    keep, confidence = chosen(scan, paragraphs("one", "two", "three"), [0.9, 0.6, 0.1])
    assert keep.tolist() == [True, True, False]
    assert confidence == pytest.approx(0.8333, abs=1e-4)


def test_the_cut_is_drawn_towards_a_half(scan):
    """One block of p .4 and long words: alone it is the best set, and .4 ** .7 * .5 ** .3 = .4277 would leave it out.

    The cut never goes above the highest p, so a page with anything at all keeps its best block.
    """
    keep, _ = chosen(scan, paragraphs("one", "two"), [0.4, 0.01])
    assert keep.tolist() == [True, False]
    # With p .95 and .32: sum 1.651; one block 2 * 1.235 / 2.951 = .837, two 2 * 1.651 / 4.251 = .777: cut at .95, drawn
    # to .95 ** .7 * .5 ** .3 = .784. A third block of .8 goes with the first.
    keep, _ = chosen(scan, paragraphs("one", "two"), [0.95, 0.32])
    assert keep.tolist() == [True, False]


def test_beta_prefers_precision_or_recall(scan):
    html, p = paragraphs("one", "two", "three"), [0.9, 0.5, 0.3]
    # sum(p w) = 2.21. F_beta is proportional to hits / (size + beta^2 * 2.21).
    # beta 1: .9/(1+1.7) = .333, 1.4/(2+1.7) = .378, 1.7/(3+1.7) = .362, in units of 1.3: two blocks.
    assert chosen(scan, html, p)[0].tolist() == [True, True, False]
    # beta .5: .9/(1+.425) = .632, 1.4/2.425 = .577: one block.
    assert chosen(scan, html, p, beta=0.5)[0].tolist() == [True, False, False]
    # beta 2: .9/7.8 = .115, 1.4/8.8 = .159, 1.7/9.8 = .173: all three.
    assert chosen(scan, html, p, beta=2.0)[0].tolist() == [True, True, True]


def test_the_title_element_never_stays(scan):
    html = "<title>one two</title><body><p>one two</p>"
    keep, _ = chosen(scan, html, [0.99, 0.7])
    assert keep.tolist() == [False, True]


def test_a_page_without_text_or_hope_gives_nothing(scan):
    page = scan("<body><script>x</script>")
    keep, confidence = choose(page, np.zeros(0, np.float32), np.zeros((0, NUM_FEATURES), np.float32))
    assert (keep.tolist(), confidence) == ([], 0.0)
    keep, confidence = chosen(scan, paragraphs("one", "two"), [0.0, 0.0])
    assert (keep.tolist(), confidence) == ([False, False], 0.0)


LONG = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron"


def test_a_hidden_copy_of_a_kept_block_goes(scan):
    html = (
        f"<body><div class=a><section><p>{LONG}</p></section></div><div class=b><section><p>{LONG}</p></section></div>"
    )
    page = scan(html)
    values = features_of(page)
    assert values[:, COLUMN_SEEN_BEFORE].tolist() == [0.0, 1.0]
    keep, _ = choose(page, np.array([0.9, 0.9], np.float32), values)
    assert keep.tolist() == [True, False]


def test_a_repeat_under_the_same_parent_is_meant(scan):
    html = f"<body><section><p>{LONG}</p><p>{LONG}</p></section>"
    assert chosen(scan, html, [0.9, 0.9])[0].tolist() == [True, True]


def test_a_copy_of_a_block_that_goes_stays(scan):
    html = f"<body><div><section><p>{LONG}</p></section></div><main><section><p>{LONG}</p></section></main>"
    assert chosen(scan, html, [0.05, 0.95])[0].tolist() == [False, True]


def test_short_repeats_stay(scan):
    short = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda"  # eleven words
    html = f"<body><div><section><p>{short}</p></section></div><main><section><p>{short}</p></section></main>"
    assert chosen(scan, html, [0.9, 0.9])[0].tolist() == [True, True]


def test_next_to_nothing_is_not_believed(scan):
    """A line of 5 words with p .9, ten entries of 40 words with p .18, .1 and eight times .01: weights 5.3 and 40.3.

    sum(p w) = 4.77 + 40.3 * .36 = 19.28. By that alone the line would be the best set: 4.77 / (5.3 + 19.28) = .194, with
    the first entry 12.02 / (45.6 + 19.28) = .185. But no less than 100 words are expected: the line 4.77 / 105.3 = .045,
    one entry 12.02 / 145.6 = .083, two 16.05 / 185.9 = .0863, three 16.46 / 226.2 = .073. So the cut is at .1, drawn to
    .1 ** .7 * .5 ** .3 = .162, and the first entry stays.
    """
    entries = [" ".join(f"w{place}x{number}" for number in range(40)) for place in range(10)]
    keep, _ = chosen(scan, paragraphs("one two three four five", *entries), [0.9, 0.18, 0.1] + [0.01] * 8)
    assert keep.tolist() == [True, True] + [False] * 9


@pytest.mark.parametrize("hide", ["hidden", "style='display: none'", "style='visibility:hidden'"])
def test_hidden_text_goes_unless_it_is_most_of_it(scan, hide):
    seen, little = "<p>one two three four", f"<p {hide}>five six seven four"
    assert chosen(scan, "<body>" + seen + little, [0.9, 0.9])[0].tolist() == [True, False]
    assert chosen(scan, "<body>" + seen + little, [0.9, 0.9], hidden_text=True)[0].tolist() == [True, True]
    assert chosen(scan, "<body>" + seen + little + " more", [0.9, 0.9])[0].tolist() == [
        True,
        True,
    ]  # five words of nine
    # A hidden copy before the text itself does not cost it its place.
    copy = f"<body><div {hide}><section><p>{LONG}</p></section></div><main><section><p>{LONG} and this</p></section></main>"
    assert chosen(scan, copy, [0.9, 0.9])[0].tolist() == [False, True]


def test_what_only_screen_readers_skip_is_in_sight(scan):
    assert chosen(scan, "<body><p>one two three<p aria-hidden=true>four", [0.9, 0.9])[0].tolist() == [True, True]
