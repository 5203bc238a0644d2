import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

import curate
from curate.filter import fineweb2
from curate.filter.fineweb import FineWeb
from curate.filter.fineweb2 import NEVER, NO_STOP_WORDS, stop_words
from curate.filter.gopher.quality import GopherQuality
from curate.filter.gopher.repetition import GopherRepetition
from curate.words import split_words

TABLE = json.loads(Path(fineweb2.__file__).with_name("fineweb2.json").read_text(encoding="utf-8"))
DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
ISO = "08_wordlists/stopwords-iso.json"

# From the files configs/*.yml of huggingface/fineweb-2, read by hand:
# dup_line_frac, top 2/3/4, dup 5..10, line_punct_thr, new_line_ratio, min and max word length, alpha words
PUBLISHED = {
    "pt": ((0.287, 0.371, 0.191, 0.163, 0.163, 0.153, 0.141, 0.13, 0.119, 0.108), 0.077, 0.186, 3, 13, 0.814),
    "es": ((0.252, 0.156, 0.14, 0.125, 0.145, 0.136, 0.127, 0.117, 0.108, 0.099), 0.182, 0.138, 3, 14, 0.825),
    "fr": ((0.264, 0.161, 0.149, 0.134, 0.15, 0.141, 0.131, 0.121, 0.111, 0.1), 0.1, 0.185, 2, 11, 0.812),
    "de": ((0.263, 0.169, 0.153, 0.137, 0.141, 0.134, 0.126, 0.117, 0.108, 0.098), None, 0.152, None, 15, 0.774),
    "it": ((0.246, 0.198, 0.156, 0.133, 0.144, 0.136, 0.127, 0.118, 0.109, 0.1), 0.025, 0.2, 3, 21, 0.807),
    "zh": ((0.287, 0.256, 0.201, 0.171, 0.198, 0.182, 0.167, 0.154, 0.14, 0.127), 0.106, 0.178, 1, 5, 0.735),
    "en": ((0.3, 0.2, 0.18, 0.16, 0.15, 0.14, 0.13, 0.12, 0.11, 0.1), 0.12, 0.3, 3, 10, 0.8),  # Gopher and FineWeb
}
REPETITION = (
    "max_duplicate_line_fraction",
    *(f"max_top_{n}gram_char_fraction" for n in range(2, 5)),
    *(f"max_repeated_{n}gram_char_fraction" for n in range(5, 11)),
)


@pytest.mark.parametrize("label", PUBLISHED)
def test_numbers_as_published(label):
    repetition, terminal, newlines, shortest, longest, alpha = PUBLISHED[label]
    step = GopherRepetition(bounds="fineweb2")
    assert tuple(getattr(step, name)[label] for name in REPETITION) == repetition
    lines = FineWeb(bounds="fineweb2")
    assert lines.min_terminal_line_fraction.get(label) == terminal
    assert lines.max_newlines_per_word[label] == newlines
    quality = GopherQuality(bounds="fineweb2")
    assert quality.min_mean_word_length.get(label) == shortest
    assert quality.max_mean_word_length[label] == longest
    assert quality.min_alpha_word_fraction[label] == alpha


def test_what_is_the_same_for_all_languages():
    step = GopherRepetition(bounds="fineweb2")
    assert step.max_duplicate_paragraph_fraction is None
    assert step.max_duplicate_line_char_fraction is None
    assert step.max_duplicate_paragraph_char_fraction is None
    lines = FineWeb(bounds="fineweb2")
    assert (lines.max_short_line_fraction, lines.max_repeated_line_char_fraction) == (None, 0.1)
    quality = GopherQuality(bounds="fineweb2")
    assert (quality.min_words, quality.max_words, quality.max_hash_ratio) == (50, 100_000, 0.1)
    assert (quality.max_bullet_line_fraction, quality.max_ellipsis_line_fraction) == (0.9, 0.3)


def test_the_files_say_what_they_are_made_from():
    assert "huggingface/fineweb-2, commit d0defb24f193bb9a5a11b8b14524a03c4858e1b6" in TABLE["source"]
    assert TABLE["licence"].startswith("Apache-2.0")
    assert len(TABLE["languages"]) == 175
    # labels that are not the first two letters of the file
    named = {label: row[0] for label, row in TABLE["languages"].items()}
    wanted = {
        "als": "gsw_Latn",
        "sq": "als_Latn",
        "no": "nob_Latn",
        "sr": "srp_Cyrl",
        "fa": "fas_Arab",
        "ms": "zsm_Latn",
    }
    assert {label: named[label] for label in wanted} == wanted


def test_bounds_that_can_never_fire_are_left_out():
    column = TABLE["columns"].index("line_punct_thr")
    dead = {label for label, row in TABLE["languages"].items() if row[column] <= 0}
    assert len(dead) == 33
    assert "de" in dead
    kept = FineWeb(bounds="fineweb2").min_terminal_line_fraction
    assert set(kept) == {"en", *TABLE["languages"]} - dead
    assert all(number > NEVER["line_punct_thr"] for number in kept.values())


LINE_ENDS = "one two three four five six seven eight.\n" * 7 + "one two three four five six seven nine\n" * 93


@pytest.mark.parametrize(
    ("label", "goes"), [("pt", True), ("it", False), ("de", False), ("unknown", False), (None, False)]
)
def test_a_document_is_judged_by_its_language(apply, fired, label, goes):
    step = FineWeb(bounds="fineweb2", max_repeated_line_char_fraction="off")
    (row,) = apply(step, LINE_ENDS)
    assert row["terminal_line_fraction"] == 0.07  # Portuguese 0.077, Italian 0.025, German no bound
    assert fired(step, {**row, "language": label}) == (["block.terminal_line_fraction"] if goes else [])


@pytest.mark.parametrize(("value", "goes"), [(0.3709, False), (0.371, False), (0.3711, True)])
def test_both_sides_of_a_bound(fired, value, goes):
    step = GopherRepetition(bounds="fineweb2")
    row = {rule.column: 0.0 for rule in step.rules("block")} | {"top_2gram_char_fraction": value, "language": "pt"}
    assert fired(step, row) == (["block.top_2gram_char_fraction"] if goes else [])
    assert fired(step, {**row, "language": "en"}) == ["block.top_2gram_char_fraction"]  # 0.2


def test_what_the_recipe_says_wins():
    step = GopherQuality(
        bounds="fineweb2", max_mean_word_length=12, min_stop_words="off", stop_words={"pt": ("de", "que")}
    )
    assert (step.max_mean_word_length, step.min_stop_words) == (12, None)
    assert step.stop_words == {"pt": ("de", "que")}
    assert step.min_alpha_word_fraction["pt"] == 0.814
    off = GopherQuality(bounds="fineweb2", mean_word_length="off")
    assert (off.min_mean_word_length, off.max_mean_word_length) == (None, None)
    assert GopherQuality().min_alpha_word_fraction == 0.8
    both = GopherRepetition(variant="datatrove", words="fast", bounds="fineweb2")
    assert both.max_top_2gram_char_fraction["pt"] == 0.371
    with pytest.raises(ValueError, match="'fineweb2'"):
        FineWeb(bounds="fineweb3")


def test_a_new_bound_measures_nothing_anew():
    for kind in (GopherQuality, GopherRepetition, FineWeb):
        assert "bounds" in kind.decides


def test_the_recipe_says_its_scores_and_loads_back(tmp_path):
    recipe = curate.load(Path(curate.__file__).parents[1] / "recipes" / "fineweb2.yaml")
    steps = {block.name: block.step for block in recipe.source("web").steps}
    column = TABLE["columns"].index("language_score")
    asked = {label: TABLE["languages"][label][column] for label in steps["language"].keep if label != "en"}
    assert steps["language"].min_score == {**asked, "en": 0.65}
    (tmp_path / "resolved.yaml").write_text(recipe.as_yaml())
    assert curate.load(tmp_path / "resolved.yaml").source("web").steps == recipe.source("web").steps


# -- stop words --------------------------------------------------------------------------------------------------------


def test_stop_words_for_every_language_of_stopwords_iso():
    if not (DATA / ISO).is_file():
        pytest.skip(f"real input {DATA / ISO} is absent: set CURATE_DATA to the folder that holds {ISO}")
    iso = json.loads((DATA / ISO).read_text(encoding="utf-8"))
    assert len(iso) == 58
    assert set(iso) <= set(stop_words())
    assert all(8 <= len(words) <= 60 for words in stop_words().values())
    assert GopherQuality(stop_words="fineweb2").stop_words == stop_words()


def test_stop_words_are_found_in_texts_of_their_language(real_rows):
    sentences = defaultdict(list)
    for row in real_rows("09_langid/sentences.jsonl.gz"):
        sentences[{"nb": "no"}.get(row["lang"], row["lang"])].append(set(split_words(row["text"])))
    known = {label: set(stop_words()[label]) for label in sentences if label in stop_words()}
    assert len(known) >= 68

    def share(label, size):
        texts = [set().union(*sentences[label][i : i + size]) for i in range(0, len(sentences[label]), size)]
        return sum(len(text & known[label]) >= 2 for text in texts) / len(texts)

    of_ten = {label: share(label, 10) for label in known}
    assert {label for label, found in of_ten.items() if found < 1} == {"ko", "te", "th"} <= set(NO_STOP_WORDS)
    of_five = [share(label, 5) for label in known if label not in NO_STOP_WORDS]
    assert sum(of_five) / len(of_five) > 0.98


def test_no_rule_on_stop_words_that_cannot_be_found(fired):
    step = GopherQuality(bounds="fineweb2")
    row = {rule.column: 60.0 for rule in step.rules("block")} | {"mean_word_length": 4.0, "num_stop_words": 1}
    row |= {"hash_ratio": 0.0, "ellipsis_ratio": 0.0, "bullet_line_fraction": 0.0, "ellipsis_line_fraction": 0.0}
    assert fired(step, {**row, "language": "pt"}) == ["block.num_stop_words"]
    assert fired(step, {**row, "language": "pt", "num_stop_words": 2}) == []
    assert [label for label in NO_STOP_WORDS if "block.num_stop_words" in fired(step, {**row, "language": label})] == []
    assert [word for word in stop_words()["th"] if len(split_words(word)) > 1]  # Thai words are letters to us
