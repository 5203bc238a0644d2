"""Training of the block model: labels, folds, scores by hand, and a small model that learns and comes out the same twice."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from curate.extract.auto.scan import Scanner, stop_table
from curate.extract.auto.training.align import label_blocks, tokens
from curate.extract.auto.training.gold import (
    GOLD_SETS,
    NUM_FOLDS,
    GoldPage,
    fold_of,
    load_gold,
    registered_domain,
    site_of,
    snippet_hits,
    word_scores,
)
from curate.extract.auto.training.labelled import LABELS, blocks_of, ranges_of, words_by_block

STOPS = stop_table(["the", "of", "and", "a", "to"])


@pytest.fixture(scope="module")
def scan():
    return Scanner(STOPS)


def page_of(text="", language="en", **columns):
    given = {"set": "wcxb", "id": "x", "url": "", "kind": "", "content": b"", "html": "", "wanted": (), "unwanted": ()}
    return GoldPage(**(given | {"text": text, "language": language, "site": "x.test"} | columns))


# ---- sites, folds, scores


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.site.test", "site.test"),
        ("a.b.site.test:8080", "site.test"),
        ("news.site.co.xy", "site.co.xy"),
        ("co.xy", "co.xy"),
        ("localhost", "localhost"),
    ],
)
def test_registered_domain(host, domain):
    assert registered_domain(host) == domain


def test_site_of_a_page():
    assert site_of("https://www.site.test/a", "", "id") == "site.test"
    archived = "https://archive.test/web/20200101000000/http://www.old.test/page"
    assert site_of(archived, "", "id") == "old.test"
    assert site_of("", '<link rel=canonical href="https://own.test/x">', "id") == "own.test"
    links = '<a href="http://most.test/1"><a href="http://most.test/2"><a href="http://www.most.test/3"><a href="http://b.test">'
    assert site_of("", links, "id") == "most.test"
    assert site_of("", links.replace("www.most", "c"), "id") == "id"  # twice is not enough


def test_folds_are_even_and_fixed():
    folds = [fold_of(f"site{number}.test") for number in range(2000)]
    assert folds == [fold_of(f"site{number}.test") for number in range(2000)]
    assert set(folds) == set(range(NUM_FOLDS))
    assert min(map(folds.count, range(NUM_FOLDS))) > 330  # of 400


def test_word_scores():
    # Found: a b b c; gold: b c d. Common: b c. P 2/4, R 2/3, F1 4/7.
    assert word_scores("A b, b c", page_of("b c d")) == pytest.approx((0.5, 2 / 3, 4 / 7))
    assert word_scores("", page_of("b")) == word_scores("b", page_of("...")) == (0, 0, 0)
    # By character in Chinese: 5 of the 6 found, all of the gold's 5.
    assert word_scores("今天天气很好", page_of("今天天气好", "zh")) == pytest.approx((5 / 6, 1, 10 / 11))


def test_snippets_ignore_white_space():
    assert snippet_hits("one\n two three", ["one two", "twothree", "four"]) == [True, True, False]


def test_which_sets_are_trained_on():
    assert {gold.name for gold in GOLD_SETS if not gold.weight} == {"daniel", "template_docs", "goose3"}
    assert all(gold.licence for gold in GOLD_SETS)


def test_gold_is_loaded(tmp_path):
    folder = tmp_path / "wcxb"
    folder.mkdir()
    import gzip

    (tmp_path / "wcxb" / "a.html.gz").write_bytes(gzip.compress("<p>caf\u00e9".encode("latin-1")))
    row = {"id": "wcxb/a", "html": "wcxb/a.html.gz", "url": "http://a.test/", "lang": "fr", "page_type": "article"}
    row |= {"text": "caf\u00e9", "with": '["caf\u00e9"]', "without": []}
    (folder / "gold.jsonl").write_text(json.dumps(row) + "\n")
    [page] = load_gold(tmp_path, [gold for gold in GOLD_SETS if gold.name == "wcxb"])
    assert (page.html, page.site, page.wanted, page.unwanted) == ("<p>caf\u00e9", "a.test", ("caf\u00e9",), ())
    with pytest.raises(FileNotFoundError):
        load_gold(tmp_path, GOLD_SETS)


# ---- labels


def label(blocks, gold, left_out=None):
    return label_blocks(blocks, gold, left_out or [False] * len(blocks)).round(2).tolist()


def test_blocks_in_the_gold_are_main_text():
    blocks = ["Home News", "The cat sat on the mat.", "Share this", "It was a red mat."]
    assert label(blocks, "The cat sat on the mat. It was a red mat.") == [0, 1, 0, 1]


def test_a_block_is_partly_main_text():
    # Six words, the last three are not in the gold; three of its four 3-grams... one is: 1/4 < 30%: out. With eight
    # words, five of them gold, three of six 3-grams are: aligned, 5/8.
    assert label(["one two three x y z"], "one two three") == [0]
    assert label(["one two three four five x y z"], "one two three four five") == [pytest.approx(5 / 8, abs=0.006)]


def test_words_used_once_count_once():
    """Two equal blocks and one of them in the gold: the alignment takes one."""
    assert sorted(label(["one two three four", "one two three four"], "one two three four")) == [0, 1]


def test_a_block_that_stands_elsewhere_in_the_gold_is_found():
    blocks = ["six seven eight nine ten", "one two three four five"]
    assert label(blocks, "one two three four five six seven eight nine ten") == [1, 1]


def test_the_title_is_never_main_text():
    assert label(["one two three", "one two three"], "one two three", [True, False]) == [0, 1]


def test_no_gold_and_no_words():
    assert label(["one"], "") == [0]
    assert label(["...", ""], "one") == [0, 0]
    assert label([], "one") == []


def test_tokens_of_scripts_without_spaces():
    assert tokens("Ein Wort 中文字 カナ x1") == ["ein", "wort", "中", "文", "字", "カ", "ナ", "x1"]


# ---- labels by hand


HTML = "<title>t</title><body><p>one two three four five<p>six<ul><li>seven eight<li>nine</ul><p>ten eleven</p>"


def test_ranges_of_words_find_their_blocks_again(scan):
    words = words_by_block(scan(HTML))
    assert words == [
        [],
        ["one", "two", "three", "four", "five"],
        ["six"],
        ["seven", "eight"],
        ["nine"],
        ["ten", "eleven"],
    ]
    ranges = ranges_of(words, [1, 2, 4])
    assert [one[:2] for one in ranges] == [(0, 6), (8, 1)]  # neighbours are one range
    assert blocks_of(words, ranges) == ([1, 2, 4], 0)


def test_ranges_find_their_place_when_words_were_added(scan):
    ranges = ranges_of(words_by_block(scan(HTML)), [1, 2, 4])
    moved = words_by_block(scan(HTML.replace("<body>", "<body><p>zero and more</p>")))
    assert blocks_of(moved, ranges) == ([2, 3, 5], 0)


def test_a_range_whose_words_are_gone_is_counted(scan):
    ranges = ranges_of(words_by_block(scan(HTML)), [1, 4])
    assert blocks_of(words_by_block(scan(HTML.replace("nine", "no"))), ranges) == ([1], 1)


def test_the_labels_that_ship_are_well_formed():
    rows = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    assert len({row["sha256"] for row in rows}) == len(rows) == 299
    for row in rows:
        ends = [start + number for start, number, _ in row["kept"]]
        assert all(len(stamp) == 8 and number > 0 for _, number, stamp in row["kept"])
        assert all(end <= start for end, (start, *_) in zip(ends, row["kept"][1:], strict=False))


# ---- a small model


def site_page(site, number):
    """A page of one of many sites: words and class names differ, menus are links, bodies are prose."""
    draw = np.random.default_rng(site * 100 + number)
    syllables = ["ka", "lo", "mi", "ren", "tas", "vu", "pel", "or", "dis", "en"]

    def words(count):
        return " ".join("".join(draw.choice(syllables, draw.integers(1, 4))) for _ in range(count))

    menu = "".join(f"<li><a href=/{place}>{words(2)}</a>" for place in range(draw.integers(6, 14)))
    body = [words(int(draw.integers(25, 60))) + "." for _ in range(int(draw.integers(3, 9)))]
    tag = ("article", "main", "div")[site % 3]
    html = f"<html><title>{words(4)}</title><body><ul class=menu>{menu}</ul><{tag} class=story>"
    html += "".join(f"<p>{text}</p>" for text in body) + f"</{tag}><footer>{words(5)}</footer>"
    return page_of("\n".join(body), set="wcxb", id=f"{site}/{number}", html=html, site=f"s{site}.test", kind="article")


@pytest.fixture(scope="module")
def small_model():
    pytest.importorskip("lightgbm")
    from curate.extract.auto.training.fit import Setup, sample_of, train

    scanner = Scanner(STOPS)
    samples = [sample_of(site_page(site, number), scanner, 1.0) for site in range(14) for number in range(3)]
    kinds = [
        sample_of(page_of("x", html="<p>x", id=kind, kind=kind, site=f"{kind}.test"), scanner, 0.01)
        for kind in ("forum", "service")
    ]
    setup = Setup(trees=(12, 6))
    return samples + kinds, setup, train(samples + kinds, STOPS, setup)


def test_labels_of_a_sample(small_model):
    sample = small_model[0][0]
    page = sample.page
    kept = [page.block_text(block) for block in np.flatnonzero(sample.labels >= 0.5)]
    assert "\n".join(kept) == sample.gold.text
    assert not sample.known[0]  # the title
    assert sample.weights[~sample.known].sum() == 0


def test_a_small_model_learns(small_model):
    _, _, model = small_model
    scanner = Scanner(model.stop_words)
    for site in (50, 51, 52):  # never seen
        gold = site_page(site, 0)
        page = scanner(gold.html)
        judgement = model.judge(page, "")
        text = "\n".join(page.block_text(block) for block in np.flatnonzero(judgement.keep))
        assert word_scores(text, gold)[2] > 0.9
        assert judgement.confidence > 0.5


def test_the_same_data_give_the_same_model(small_model, tmp_path):
    from curate.extract.auto.model import save_model
    from curate.extract.auto.training.fit import train

    samples, setup, model = small_model
    again = train(samples, STOPS, setup)
    assert save_model(model, tmp_path / "a.npz") == save_model(again, tmp_path / "b.npz")


def test_a_left_out_fold_is_not_seen(small_model):
    from curate.extract.auto.training.fit import WordCounts

    samples, _, _ = small_model
    fold = samples[0].fold
    everything, rest = WordCounts(samples).tables(), WordCounts(samples).tables((fold,))
    without = WordCounts([sample for sample in samples if sample.fold != fold]).tables()
    assert np.array_equal(rest.classes, without.classes)
    assert np.array_equal(rest.words, without.words)
    assert not np.array_equal(everything.classes, rest.classes)


def test_snippets_label_only_what_they_tell(scan):
    pytest.importorskip("lightgbm")
    from curate.extract.auto.training.fit import sample_of

    html = (
        "<body><p>The wanted sentence stands here, in a long paragraph.<p>Share this page now<p>Nobody knows of this."
    )
    gold = page_of("", html=html, wanted=("wanted sentence stands",), unwanted=("Share this page",))
    sample = sample_of(gold, scan, 0.5)
    assert sample.known.tolist() == [True, True, False]
    assert sample.labels.tolist() == [1, 0, 0]


def test_the_command_says_how_it_is_used(capsys):
    pytest.importorskip("lightgbm")
    from curate.extract.auto.training.__main__ import main

    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    assert "cross-validate" in capsys.readouterr().out
    with pytest.raises(FileNotFoundError):
        main([str(Path("nowhere")), "--no-model"])
