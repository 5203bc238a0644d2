"""Junk: counts worked out by hand, rules at both sides of their bounds, and what the shipped model makes of plain examples."""

import numpy as np
import pytest

from curate.filter.junk.kernels import COUNTS
from curate.filter.junk.model import FEATURES, Counter, Lexicon, fit, shipped, text_buffers
from curate.filter.junk.phrases import MACHINE_MADE, MAX_PHRASE, NOT_FOUND
from curate.filter.junk.step import Junk
from curate.filter.junk.tables import hash_table, phrase_key, word_key, words_of

STOPS = ("the", "of", "and", "in", "is", "a", "to")
SMALL = Lexicon(STOPS, ("about us", "log in"))


def counts(*texts: str) -> list[dict[str, int]]:
    counted = Counter(SMALL)(*text_buffers(texts))
    return [{name: int(counted[name][row]) for name in COUNTS} for row in range(len(texts))]


def one(text: str, *names: str) -> tuple[int, ...]:
    (row,) = counts(text)
    return tuple(row[name] for name in names)


def test_words_and_lines():
    # "The lock is open." has 4 words, 2 of them function words; the blank line is none; "About us" is furniture.
    text = "The lock is open.\n\nAbout us\nABOUT  US\n"
    assert one(text, "words", "lines", "stop_words", "ended_lines") == (8, 3, 2, 1)
    assert one(text, "chrome_lines", "chrome_phrases", "chrome_chars") == (2, 1, 14)
    assert one(text, "repeated_chars", "chars") == (7, 13 + 7 + 7)


def test_characters_of_scripts_without_spaces_are_half_a_word():
    assert one("运河上的驳船运送粮食。", "words", "lines", "ended_lines") == (5, 1, 1)  # ten characters


@pytest.mark.parametrize(
    ("line", "prose"),
    [
        ("The keeper of the lock wrote a letter.", 8),  # 8 words, ended, 4 function words
        ("The keeper of the lock wrote letters", 0),  # 7 words, no mark
        ("Red green blue black white brown, grey pink", 0),  # 8 words with a comma, no function word
        ("The green lock, black gate, brown bridge of", 8),  # 2 of 8 words: a quarter; a comma within
        ("The gate is open today.", 5),  # 5 words, ended, 2 function words
        ("The gate stays open today.", 0),  # 1 function word
        ("The gate is open.", 0),  # 4 words
    ],
)
def test_prose(line, prose):
    assert one(line, "prose_words") == (prose,)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("$5", 1),
        ("€ 1.50", 1),
        ("15 €", 1),
        ("10€ 20€", 2),
        ("US$ 5 or 7 £", 2),
        ("5 apples", 0),
        ("$ per unit 5", 0),
        ("the € in 2002", 0),
        ("5\n€", 0),
    ],
)
def test_prices(text, number):
    assert one(text, "prices") == (number,)


def test_not_found_only_near_the_beginning():
    assert one("Page not found", "not_found") == (2,)  # the phrase, and "not found" in it
    assert one("word " * 79 + "not found", "not_found") == (1,)
    assert one("word " * 80 + "not found", "not_found") == (0,)
    assert one("NOT\n found", "not_found") == (1,)
    assert one("nicht gefunden", "not_found") == (0,)


def test_machine_marks():
    assert one("As an AI language model, I cannot. Lorem ipsum dolor sit.", "machine_marks") == (2,)
    assert one("A model of language.", "machine_marks") == (0,)


def test_templates_need_three_sentences_of_one_skeleton():
    sentence = "The best {} in the town of {} is open to all."  # 12 words, a third of them function words
    two = " ".join(sentence.format(*pair) for pair in (("plumber", "Leeds"), ("dentist", "Porto")))
    three = two + " " + sentence.format("car rental", "Graz")
    assert one(two, "template_words") == (0,)
    assert one(three, "template_words") == (12 + 12 + 13,)  # a slot of two words is a slot
    assert one(three.replace(" of ", " "), "template_words") == (11 + 11 + 12,)  # "town Graz" is one slot


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("cheap pills casino bonus loan deal free credit", 8),
        ("cheap pills casino bonus loan deal free", 0),  # 7 words
        ("cheap pills casino bonus, loan deal free credit", 0),  # a mark
        ("cheap pills casino bonus loan deal free credit.", 0),
        ("cheap pills casino bonus in loan deal free credit", 0),  # a function word
        ("运河上的驳船运送粮食和木材船闸管理员把每一艘船", 0),  # no spaces: nothing is known of its words
    ],
)
def test_word_salad(line, number):
    assert one(line, "salad_words") == (number,)


def test_two_most_frequent_words():
    text = "lamp lamp lamp desk desk the the the the to to 2020 2020 2020 2020"
    assert one(text, "top_words", "top_prose_words") == (5, 0)  # no function word, no number, no prose
    assert one("The lamp is in the lamp and the desk is a desk, a lamp.", "top_prose_words") == (5,)


def test_nothing_is_measured_twice_or_across_rows():
    texts = ["The best lock in the town.", "", "The best lock in the town.", "\n\n", "About us"]
    rows = counts(*texts)
    assert rows[0] == rows[2] == counts(texts[0])[0]
    assert set(rows[1].values()) == set(rows[3].values()) == {0}


def test_long_text():
    assert one("about us\n" * 100_000, "lines", "chrome_lines", "chrome_phrases") == (100_000, 100_000, 1)


def test_phrases_are_short_enough_and_distinct():
    for listed in (NOT_FOUND, MACHINE_MADE):
        keys = [phrase_key(phrase) for phrase in listed]
        assert len(set(keys)) == len(keys)
        assert all(0 < length <= MAX_PHRASE for _, length in keys)
    with pytest.raises(ValueError, match="words; a phrase has 1 to"):
        Counter(Lexicon((), ("...",)))


def test_tables():
    assert words_of("Don't © 你好!") == [[100, 111, 110], [116], [169], [0x4F60], [0x597D]]
    keys, values = hash_table({word_key([97]): 3, word_key([98]): 5})
    assert sorted(values[keys != 0].tolist()) == [3, 5]


def test_fit_separates():
    rows = np.zeros((40, len(FEATURES)))
    good = np.arange(40) < 20
    rows[good, 2] = 1.0
    scorer = fit(rows, good, np.ones(40), 1.0)
    scores = scorer(rows)
    assert scores[good].min() > 0.9
    assert scores[~good].max() < 0.1
    assert scorer.weights[2] > 0
    assert scorer.weights[0] == 0  # a feature that never varies says nothing


# ---- the step

PROSE = (
    "The lock keeper wrote the toll in a green book, and the barge left the town before noon. "
    "When the river rose in the spring, he opened both of the gates and waited on the bridge until the water "
    "had gone down again. His daughter kept the accounts, which she had learned from her uncle in the city. "
    "Nobody in the village knew how much the two of them had saved, and they did not say so to anyone at all.\n"
)
MENU = "Home\nAbout us\nContact us\nLog in\nRegister\nPrivacy policy\nTerms of use\nFollow us\nFacebook\nNewsletter\nSearch\n"


def test_prose_scores_high_and_menus_low(apply, fired):
    prose, menu = apply(Junk(), PROSE, MENU)
    assert prose["main_text_score"] is None  # no furniture in it
    assert menu["chrome_line_fraction"] == 1
    assert menu["main_text_score"] < 0.05
    (mixed,) = apply(Junk(), PROSE * 3 + "\nAbout us")  # one line of two
    assert mixed["main_text_score"] > 0.9
    assert (
        fired(Junk(), {**prose, "main_text_score": 1.0, "words_beside_not_found": 99, "top_words_fraction": 0.1}) == []
    )
    assert menu["num_prose_words"] == 0


def test_nulls_where_there_is_nothing_to_measure(apply):
    empty, short = apply(Junk(), "", "One price: $5.")
    assert empty["words_beside_not_found"] is None
    assert short["prose_words_per_price"] is None
    assert short["top_words_fraction"] is None
    assert empty["main_text_score"] is None


def test_a_text_is_scored_from_one_line_of_furniture_in_28(apply):
    lines = [f"Entry {number}" for number in range(28)]
    assert apply(Junk(), "\n".join([*lines[1:], "About us"]))[0]["main_text_score"] is not None  # 1 of 28: 0.0357
    assert apply(Junk(), "\n".join([*lines, "About us"]))[0]["main_text_score"] is None  # 1 of 29: 0.0345


def test_texts_of_all_languages_stay(apply, fired, real_rows):
    texts: dict[str, list[str]] = {}
    for row in real_rows("09_langid/udhr.jsonl.gz"):
        texts.setdefault(row["code"], []).append(row["text"])
    found = apply(Junk(), *("\n\n".join(one) for one in texts.values()))
    gone = {}
    for code, row in zip(texts, found, strict=True):
        known = {name: value for name, value in row.items() if value is not None}
        rules = [rule for rule in Junk().rules("junk") if rule.column in known]
        fires = [
            rule.name
            for rule in rules
            if (rule.at_least is not None and known[rule.column] < rule.at_least)
            or (rule.at_most is not None and known[rule.column] > rule.at_most)
        ]
        if fires:
            gone[code] = fires
    assert len(texts) == 528
    # Function words of neither are known, nor the marks of the Tai Tham script.
    assert gone == {"guu": ["junk.keyword_stuffing"], "kkh_lana": ["junk.word_salad"]}


@pytest.mark.parametrize(
    ("rule", "column", "inside", "outside"),
    [
        ("site_furniture", "main_text_score", 0.35, 0.3499),
        ("soft_404", "words_beside_not_found", 80, 79),
        ("word_salad", "word_salad_fraction", 0.5, 0.5001),
        ("template_spam", "template_fraction", 0.6, 0.6001),
        ("keyword_stuffing", "top_words_fraction", 0.2, 0.2001),
        ("machine_made", "num_machine_marks", 1, 2),
        ("product_list", "prose_words_per_price", 1.0, 0.99),
        ("num_prose_words", "num_prose_words", 20, 19),
    ],
)
def test_bounds(fired, rule, column, inside, outside):
    step = Junk(min_prose_words_per_price=1.0, min_prose_words=20.0)
    good = {
        "main_text_score": 1.0,
        "words_beside_not_found": 500,
        "template_fraction": 0.0,
        "word_salad_fraction": 0.0,
        "top_words_fraction": 0.05,
        "num_machine_marks": 0,
        "prose_words_per_price": 50.0,
        "num_prose_words": 500,
    }
    assert fired(step, good | {column: inside}) == []
    assert fired(step, good | {column: outside}) == [f"block.{rule}"]


def test_off_by_default():
    names = [rule.name for rule in Junk().rules("junk")]
    assert "junk.product_list" not in names
    assert "junk.num_prose_words" not in names


def test_shipped_model_is_whole():
    counter, scorer = shipped()
    assert len(scorer.weights) == len(FEATURES)
    assert counter(*text_buffers(["Privacy policy"]))["chrome_lines"].tolist() == [1]
