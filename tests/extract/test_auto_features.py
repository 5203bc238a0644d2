"""Features of blocks, worked out by hand on small pages."""

from __future__ import annotations

import numpy as np
import pytest

from curate.extract.auto.columns import FEATURES, NUM_FEATURES
from curate.extract.auto.context import CONTEXT, NUM_BOTH, with_context
from curate.extract.auto.features import Tables, block_features
from curate.extract.auto.page import (
    KINDS,
    NUM_KIND_BUCKETS,
    NUM_PAGE_FACTS,
    PAGE_FACTS,
    KindModel,
    page_facts,
    read_marks,
)
from curate.extract.auto.scan import Scanner, stop_table
from curate.extract.auto.tags import NUM_CLASS_BUCKETS, NUM_WORD_BUCKETS

PAGE = """<html><head><title>Bread at home</title></head><body>
<nav class=menu><ul><li><a href=/>Start</a><li><a href=/news>News of today</a></ul></nav>
<main class=story><h1>Bread at home</h1>
<p>Mix the flour, the water and the salt, and let it rest for a long time in the bowl.</p>
<p>Then bake it.</p></main>
<footer hidden>Imprint</footer>"""


@pytest.fixture(scope="module")
def scan():
    return Scanner(stop_table(["the", "and", "it", "a", "of", "at"]))


def tables():
    return Tables(np.zeros(NUM_CLASS_BUCKETS, np.float32), np.zeros(NUM_WORD_BUCKETS, np.float32))


def features(scan, html, table=None, facts=None):
    page = scan(html)
    facts = np.zeros(NUM_PAGE_FACTS, np.float32) if facts is None else facts
    found = block_features(page, facts, table or tables())
    rows = [dict(zip(FEATURES, map(float, row), strict=True)) for row in found.values]
    return page, found, {page.block_text(place): row for place, row in enumerate(rows)}


def test_names_are_unique_and_stand_in_one_row():
    assert len(set(FEATURES)) == len(FEATURES) == NUM_FEATURES
    assert len(set(FEATURES + CONTEXT)) == NUM_BOTH


def test_a_block_by_itself(scan):
    _, _, rows = features(scan, PAGE)
    prose = rows["Mix the flour, the water and the salt, and let it rest for a long time in the bowl."]
    assert prose["words"] == 19
    assert prose["stop_words"] == pytest.approx(8 / 19)  # the the and the and it a the
    assert prose["commas"] == pytest.approx(2 / 19)
    assert prose["end_mark"] == 1
    assert prose["link_density"] == 0
    assert prose["heading_level"] == 0
    assert rows["Bread at home"]["heading_level"] == 1  # the later of the two: the h1
    news = rows["News of today"]
    assert (news["link_density"], news["links"], news["words"]) == (1, 1, 3)


def test_where_a_block_stands(scan):
    _, _, rows = features(scan, PAGE)
    prose = next(row for text, row in rows.items() if text.startswith("Mix"))
    assert prose["in_main"] == 1
    assert prose["in_nav"] == prose["in_hidden"] == 0
    assert rows["Start"]["in_nav"] == rows["Start"]["in_list"] == 1
    assert rows["Imprint"]["in_hidden"] == rows["Imprint"]["in_footer"] == 1
    assert prose["heading_distance"] == 0  # right behind the h1
    assert rows["Then bake it."]["heading_distance"] == 1
    assert rows["Then bake it."]["heading_words"] == 19
    assert prose["heading_above"] == 1
    # Blocks in order: title, Start, News, h1, Mix, Then, Imprint.
    assert (prose["index"], prose["blocks_left"], prose["num_blocks"]) == (4, 3, 7)
    # Words without the title's: 1 + 3 + 3 + 19 + 3 + 1 = 30; before Mix the title's three count as well.
    assert prose["page_words"] == 30
    assert prose["words_before"] == pytest.approx((3 + 1 + 3 + 3) / 30)


def test_the_container_with_most_of_the_prose(scan):
    _, _, rows = features(scan, PAGE)
    prose = next(row for text, row in rows.items() if text.startswith("Mix"))
    assert prose["in_best"] == 1
    assert rows["Start"]["in_best"] == 0
    assert prose["page_prose"] == pytest.approx(19 / 30)  # one block of ten words or more


def test_the_title_is_found_again(scan):
    _, _, rows = features(scan, PAGE)
    prose = next(row for text, row in rows.items() if text.startswith("Mix"))
    # All three words of the h1 are the title's: 2 * 3 / (3 + 3) = 1, and .4 for an h1.
    assert prose["title_match"] == pytest.approx(1.4)
    assert prose["title_distance"] == prose["h1_distance"] == 1
    assert rows["Start"]["title_distance"] == -2
    _, _, bare = features(scan, "<body><p>one two three")
    assert bare["one two three"]["title_distance"] == bare["one two three"]["h1_distance"] == -9999


def test_what_is_said_twice(scan):
    text = "one two three four five six"  # three 4-grams
    _, found, _ = features(scan, f"<body><p>{text}</p><div><p>{text} seven</p></div><p>one two</p>")
    column = {
        name: found.values[:, FEATURES.index(name)].tolist() for name in ("seen_before", "seen_after", "same_text")
    }
    assert column["seen_before"] == [0, pytest.approx(3 / 4), -1]
    assert column["seen_after"] == [1, 0, -1]
    assert column["same_text"] == [1, 1, 1]


def test_learned_scores_are_looked_up(scan):
    table = tables()
    main_bucket = scan("<main class=story><p>x").class_words[0]
    menu_bucket = scan("<nav class=menu><p>x").class_words[0]
    table.classes[main_bucket], table.classes[menu_bucket] = 2.0, -1.5
    _, _, rows = features(scan, PAGE, table)
    prose = next(row for text, row in rows.items() if text.startswith("Mix"))
    assert (prose["class_own"], prose["class_near"], prose["class_sum"], prose["class_max"]) == (0, 2, 2, 2)
    assert (rows["Start"]["class_near"], rows["Start"]["class_min"]) == (-1.5, -1.5)
    word = scan("<p>Mix").words[0]
    table.words[word] = 1.0
    _, _, rows = features(scan, PAGE, table)
    prose = next(row for text, row in rows.items() if text.startswith("Mix"))
    assert (prose["text_max"], prose["text_num"]) == (1, 16)
    assert prose["text_mean"] == pytest.approx(1 / 16)


def test_neighbours_and_the_ends_of_a_page(scan):
    _, found, _ = features(scan, "<body><p>one two</p><p>three.</p>")
    first = dict(zip(FEATURES, found.values[0].tolist(), strict=True))
    assert (first["at-1_words"], first["at+1_words"], first["at+1_end_mark"], first["at+2_words"]) == (-1, 1, 1, -1)
    assert first["at+1_same_signature"] == 1


def test_the_second_stage_sees_the_first(scan):
    page, found, _ = features(scan, "<body><h2>one</h2><p>two three</p><p>four</p>")
    both = with_context(page, found, np.array([0.5, 0.8, 0.2], np.float32))
    middle = dict(zip(CONTEXT, both[1, NUM_FEATURES:].tolist(), strict=True))
    assert (middle["p"], middle["p-1"], middle["p+1"], middle["p+2"]) == pytest.approx((0.8, 0.5, 0.2, 0))
    assert middle["p_heading"] == pytest.approx(0.5)
    assert middle["p_signature"] == pytest.approx(0.2)  # the other p
    # Weights are words + 1: 2, 3, 2. Expected: (2 * .5 + 3 * .8 + 2 * .2) / 7.
    assert middle["p_page"] == pytest.approx(3.8 / 7)
    assert middle["p_before"] == pytest.approx(1.0 / 3.8)
    assert middle["p_after"] == pytest.approx(0.4 / 3.8)
    assert middle["p_highest"] == pytest.approx(0.8)
    assert middle["kept_page"] == pytest.approx(3 / 7)


def test_batches_never_matter(scan):
    first = features(scan, PAGE)[1].values
    features(scan, "<p>" + "other words " * 500)
    assert np.array_equal(first, features(scan, PAGE)[1].values)


# ---- the page


def test_what_a_page_says_of_itself():
    html = """<head><meta property="og:type" content="article"><script type="application/ld+json">
    {"@type": "NewsArticle", "author": {"@type" : "Person"}}</script></head><div itemtype="https://schema.org/ItemList">"""
    marks = read_marks(html.encode(), "https://site.test/2024/05/a-long-slug-here.html?x=1")
    facts = dict(zip(PAGE_FACTS[len(KINDS) :], marks.facts, strict=True))
    assert facts["og_type"] == 1
    assert (facts["schema_article"], facts["schema_list"], facts["schema_product"]) == (1, 0, 0)
    microdata = dict(zip(PAGE_FACTS[len(KINDS) :], read_marks(html[-60:].encode(), "").facts, strict=True))
    assert (microdata["schema_article"], microdata["schema_list"]) == (0, 1)  # looked at where there is no JSON-LD
    assert facts["address_segments"] == 3
    assert facts["address_hyphens"] == 3
    assert facts["address_digits"] == 6
    assert facts["address_query"] == 3
    assert facts["address_last"] == len("a-long-slug-here.html")


@pytest.mark.parametrize("url", ["", "https://site.test/", "https://[broken"])
def test_an_address_that_says_nothing_counts_as_unknown(url):
    assert read_marks(b"<p>", url).facts[-5:] == (-1, -1, -1, -1, -1)


def test_the_kind_is_a_softmax_over_a_bag_of_unit_length(scan):
    page = scan("<body><p class=thread>Reply")
    marks = read_marks(b"", "")
    weights = np.zeros((NUM_KIND_BUCKETS, len(KINDS)), np.float32)
    weights[page.class_words[0], KINDS.index("forum")] = 3.0
    model = KindModel(weights, np.zeros(len(KINDS), np.float32))
    # The bag: class word, word of the short block, the mark of a missing og:type: 3 / sqrt(3) for forum, 0 for the rest.
    odds = np.exp(3 / np.sqrt(3))
    facts = page_facts(page, marks, model)
    assert facts[KINDS.index("forum")] == pytest.approx(odds / (odds + 6), abs=1e-5)
    assert facts[: len(KINDS)].sum() == pytest.approx(1, abs=1e-5)
