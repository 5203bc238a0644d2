import gzip
import json
import sys
from pathlib import Path

import pytest

from curate.filter.madlad import CURSED, CURSED_PATTERNS, Madlad

REFERENCE = Path(__file__).parent / "reference"
sys.path.insert(0, str(REFERENCE))
from record_madlad import MANY, PLAIN, PLANTED, TWELVE  # noqa: E402
from record_refinedweb import DATA, FILES, digest, real  # noqa: E402

DOLMA_3 = Madlad(variant="dolma3")
COUNTS = ("num_madlad_sentences", "num_list_case_sentences", "num_cursed_sentences")


def recorded():
    with gzip.open(REFERENCE / "madlad.json.gz", "rt") as file:
        return json.load(file)


# -- recorded decisions ------------------------------------------------------------------------------------------------


def test_planted_texts_as_recorded(apply, fired):
    answers = recorded()["planted"]
    assert len(answers) == len(PLANTED)
    for text, answer, row in zip(PLANTED, answers, apply(DOLMA_3, *PLANTED), strict=True):
        assert [*(row[name] for name in COUNTS), not fired(DOLMA_3, row)] == answer, text


def test_real_texts_as_recorded(apply, fired):
    if not (DATA / FILES[0]).is_file():
        pytest.skip(f"real pages {DATA / FILES[0]} are absent: set CURATE_DATA to the folder that holds {FILES[0]}")
    answers = recorded()["real"]
    documents = list(real(DATA))
    assert [[*place, digest(text)] for *place, text in documents] == [answer[:4] for answer in answers]
    texts = [text for *_, text in documents]
    found = [[*(row[name] for name in COUNTS), not fired(DOLMA_3, row)] for row in apply(DOLMA_3, *texts)]
    assert found == [answer[4:] for answer in answers]
    assert len(answers) >= 900
    assert 200 < sum(answer[-1] for answer in answers) < 800
    ours = Madlad()
    mine = [not fired(ours, row) for row in apply(ours, *texts)]
    assert sum(one != answer[-1] for one, answer in zip(mine, answers, strict=True)) >= 5


# -- values worked out by hand -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sentences", "goes"), [(0, True), (4, True), (5, False), (6, False)])
def test_at_least_five_sentences(apply, fired, sentences, goes):
    for step in (Madlad(), DOLMA_3):
        (row,) = apply(step, PLAIN * sentences)
        assert row["num_madlad_sentences"] == sentences
        assert fired(step, row) == (["block.min_sentences"] if goes else [])


@pytest.mark.parametrize(
    ("plain", "fraction", "paper", "dolma_3"),
    [(3, 1 / 4, True, True), (4, 1 / 5, False, True), (5, 1 / 6, False, False)],
)
def test_a_fifth_of_the_sentences(apply, fired, plain, fraction, paper, dolma_3):
    text = PLAIN * plain + MANY
    for step, goes in ((Madlad(min_sentences="off"), paper), (Madlad(variant="dolma3", min_sentences="off"), dolma_3)):
        (row,) = apply(step, text)
        assert row["questionable_sentence_fraction"] == fraction
        assert fired(step, row) == (["block.questionable"] if goes else [])


@pytest.mark.parametrize(
    ("sentence", "is_list"),
    [
        (MANY, True),  # seven of twelve
        (TWELVE, False),  # six of twelve
        (MANY.replace(" ll", ""), False),  # seven of eleven
        ("AA BB, CC-DD EE; FF GG h i j k l m", True),  # seven of thirteen
        ("It's Don't Can't Won't Isn't Aren't Didn't a b c d e", True),  # words with an apostrophe are one
        ("1 2 3 4 5 6 7 A B C D E", False),  # digits are no capitals
    ],
)
def test_list_case(apply, sentence, is_list):
    for step in (Madlad(), DOLMA_3):
        assert apply(step, sentence)[0]["num_list_case_sentences"] == is_list


@pytest.mark.parametrize(
    ("sentence", "paper", "dolma_3"),
    [
        ("share it on Facebook", 1, 1),
        ("share it on facebook", 0, 0),
        ("download the song", 1, 1),
        ("a b c d e f g h i j", 1, 1),
        ("no spaced letters in here", 0, 0),
        ("last one |", 1, 0),  # an expression, read as one or to the letter
        ("last one nr.", 1, 0),
        ("as in Vol.4", 1, 0),
        ("as in Vol\\.4", 0, 1),
        ("about sex and the city", 1, 1),
        ("about sexes", 0, 0),
    ],
)
def test_cursed_strings(apply, sentence, paper, dolma_3):
    assert apply(Madlad(), sentence)[0]["num_cursed_sentences"] == paper
    assert apply(DOLMA_3, sentence)[0]["num_cursed_sentences"] == dolma_3


def test_a_sentence_counts_once(apply):
    (row,) = apply(Madlad(), PLAIN + MANY + " Facebook")
    assert (row["num_list_case_sentences"], row["num_cursed_sentences"]) == (1, 1)
    assert row["questionable_sentence_fraction"] == 1 / 2


def test_there_are_28_strings_and_4_patterns():
    assert (len(set(CURSED)), len(CURSED_PATTERNS)) == (28, 4)


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="there is no variant 'dolma' of madlad; there are: curate, dolma3"):
        Madlad(variant="dolma")
    with pytest.raises(ValueError, match="can never remove anything"):
        Madlad(max_questionable_fraction=1.0)
