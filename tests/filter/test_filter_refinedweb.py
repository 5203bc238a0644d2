import gzip
import json
import sys
from pathlib import Path

import pytest

from curate.filter.refinedweb import RefinedWebLines

REFERENCE = Path(__file__).parent / "reference"
sys.path.insert(0, str(REFERENCE))
from record_refinedweb import DATA, FILES, PLANTED, digest, real  # noqa: E402

DCLM = RefinedWebLines(variant="dclm")
FILLER = "quiet words of prose go on and on here\n" * 50


def recorded():
    with gzip.open(REFERENCE / "refinedweb_lines.json.gz", "rt") as file:
        return json.load(file)


# -- recorded texts and decisions --------------------------------------------------------------------------------------


def test_planted_texts_as_recorded(apply, fired):
    answers = recorded()["planted"]
    assert len(answers) == len(PLANTED) > 50
    for text, (after, stays), row in zip(PLANTED, answers, apply(DCLM, *PLANTED), strict=True):
        assert row["text"] == (after or ""), text
        assert (not fired(DCLM, row)) == stays, text


def test_real_texts_as_recorded(apply, fired):
    if not (DATA / FILES[0]).is_file():
        pytest.skip(f"real pages {DATA / FILES[0]} are absent: set CURATE_DATA to the folder that holds {FILES[0]}")
    answers = recorded()["real"]
    documents = list(real(DATA))
    assert [(*place, digest(text)) for *place, text in documents] == [tuple(answer[:4]) for answer in answers]
    rows = apply(DCLM, *(text for *_, text in documents))
    wrong = [
        tuple(answer[:3])
        for answer, row in zip(answers, rows, strict=True)
        if (digest(row["text"]), not fired(DCLM, row)) != (answer[4] or digest(""), answer[5])
    ]
    assert wrong == []
    assert len(answers) >= 900
    assert 150 < sum(answer[5] for answer in answers) < 900
    ours = RefinedWebLines()
    mine = [not fired(ours, row) for row in apply(ours, *(text for *_, text in documents))]
    assert sum(one != answer[5] for one, answer in zip(mine, answers, strict=True)) >= 20  # variants are worth a name


# -- values worked out by hand -----------------------------------------------------------------------------------------


def lines_left(apply, step, line):
    """Return what is left of a line that stands among ordinary ones."""
    (row,) = apply(step, f"the first line stays\n{line}\nthe last line stays")
    return row["text"].split("\n")[1:-1]


@pytest.mark.parametrize(
    ("line", "curate", "dclm"),
    [
        ("ABcd efgh", "stays", "stays"),
        ("ABCD efgh", "stays", "stays"),  # 4 of 8 letters; 4 of 9 characters
        ("ABCDE fgh", "cut", "cut"),  # 5 of 8; 5 of 9
        ("A B C D e f", "cut", "stays"),  # 4 of 6; 4 of 11
        ("AB\u00c9\u00c8 cdfg", "stays", "stays"),
        ("AB\u00c9\u00c8\u00c0 cdf", "cut", "cut"),
        ("12345", "cut", "cut"),
        ("12 345", "cut", "stays"),
        ("12.5 kg", "stays", "stays"),
        ("\u0663\u0664", "cut", "cut"),  # Arabic digits
        ("3 likes", "cut", "cut"),
        ("3.5K Views!", "cut", "cut"),
        ("1 like", "cut", "stays"),
        ("12 curtidas", "cut", "stays"),
        ("12 people like it", "stays", "stays"),
        ("likes 3", "stays", "stays"),
        ("word", "cut", "cut"),
        ("two words", "stays", "stays"),
        ("", "stays", "stays"),
        ("\u7b2c\u4e8c\u884c\u6587\u5b57", "stays", "cut"),  # five characters without a space
    ],
)
def test_lines_that_go(apply, line, curate, dclm):
    for step, wanted in ((RefinedWebLines(), curate), (DCLM, dclm)):
        assert lines_left(apply, step, line) == ([] if wanted == "cut" else [line])


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("you have 3 items in cart now", "you have 3 now"),
        ("You have Items In Cart", "You have"),
        ("one two three four five six seven items in cart", "one two three four five six seven"),  # ten words
        ("1 two three four five six seven eight items in cart", "1 two three four five six seven eight items in cart"),
        ("the story goes on Read more...", "the story goes on"),
        ("Read more... is a phrase", "Read more... is a phrase"),
        ("Sign-in to see all", "to see all"),
        ("please Sign-in here", "please Sign-in here"),
    ],
)
def test_phrases_in_short_lines(apply, line, left):
    for step in (RefinedWebLines(), DCLM):
        assert lines_left(apply, step, line) == [left]


def test_phrases_that_the_variants_read_differently(apply):
    assert lines_left(apply, RefinedWebLines(), "the story Read more\u2026") == ["the story"]
    assert lines_left(apply, DCLM, "the story Read more\u2026") == ["the story Read more\u2026"]
    assert lines_left(apply, RefinedWebLines(), "the story Read more >>") == ["the story Read more >>"]
    assert lines_left(apply, DCLM, "the story Read more >>") == ["the story"]
    assert lines_left(apply, DCLM, "items in cart") == []


def test_counts_name_the_reason(apply):
    text = FILLER + "SHOUTED LINE\n123\n3 likes\nword\nsee 3 items in cart"
    for step in (RefinedWebLines(), DCLM):
        (row,) = apply(step, text)
        found = [row[name] for name in list(step.adds)[:5]]
        assert found == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("step", [RefinedWebLines(), DCLM], ids=["curate", "dclm"])
@pytest.mark.parametrize(("words", "goes"), [(39, True), (38, False), (37, False)])
def test_five_percent_of_the_words(apply, fired, step, words, goes):
    # 38 words stay and 2 go: 2/40 = 0.05 stays; 37 and 2: 2/39 = 0.0513 goes
    kept = 76 - words
    (row,) = apply(step, "SHOUTED LINE\n" + " ".join(["word"] * kept))
    assert row["removed_word_fraction"] == pytest.approx(2 / (kept + 2), rel=1e-12)
    assert fired(step, row) == (["block.removed_word_fraction"] if goes else [])


def test_a_changed_line_counts_whole_in_the_paper_and_by_its_words_in_dclm(apply):
    text = "we keep 3 items in cart\n" + "four more words here\n" * 4  # 6 + 16 words
    assert apply(RefinedWebLines(), text)[0]["removed_word_fraction"] == pytest.approx(6 / 22)
    assert apply(DCLM, text)[0]["removed_word_fraction"] == pytest.approx(3 / 22)


@pytest.mark.parametrize("step", [RefinedWebLines(), DCLM], ids=["curate", "dclm"])
def test_nothing_left_is_its_own_reason(apply, fired, step):
    for text in ("", " \n ", "WORD\nWORD"):
        (row,) = apply(step, text)
        assert (row["text"], row["removed_word_fraction"]) == ("", 1.0)
        assert fired(step, row) == ["block.empty", "block.removed_word_fraction"]


def test_prose_is_left_alone(apply, fired):
    step = RefinedWebLines()
    (row,) = apply(step, FILLER.strip() + "\n\nA title in Words\n")
    assert row["text"] == FILLER.strip() + "\n\nA title in Words"
    assert fired(step, row) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variant": "paper"}, "there is no variant 'paper' of refinedweb_lines; there are: curate, dclm"),
        ({"max_removed_word_fraction": 1}, "can never remove anything"),
        ({"max_uppercase_fraction": 1.0}, "less than 1"),
    ],
)
def test_what_cannot_work_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        RefinedWebLines(**settings)
