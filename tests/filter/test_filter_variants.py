"""Gopher's rules as DCLM, Dolma, RedPajama and NeMo Curator decide: recordings replayed, values worked out by hand."""

import json
import pickle
import re
import time
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError
from reference.documents import DATA, recorded, replayed

from curate.filter.gopher.quality import GopherQuality
from curate.filter.gopher.repetition import GopherRepetition
from curate.filter.gopher.variants_agreement import agreement
from curate.filter.gopher.variants_words import fasttext_words, normalised_words, segmented_units, segmented_words

OWN = [
    entry["text"]
    for entry in json.loads((Path(__file__).parent / "reference" / "texts.json").read_text(encoding="utf-8"))
]
REPETITION = ("dclm", "dolma", "dolma_v2", "redpajama", "curator")
QUALITY = ("dclm", "dolma", "dolma_v2")
PAPER = {"duplicate_line_fraction": 0.30, "duplicate_paragraph_fraction": 0.30}
PAPER |= {"duplicate_line_char_fraction": 0.20, "duplicate_paragraph_char_fraction": 0.20}
PAPER |= {f"top_{n}gram_char_fraction": bound for n, bound in zip(range(2, 5), (0.20, 0.18, 0.16), strict=True)}
PAPER |= {
    f"repeated_{n}gram_char_fraction": bound
    for n, bound in zip(range(5, 11), (0.15, 0.14, 0.13, 0.12, 0.11, 0.10), strict=True)
}
DOLMA = {
    "word_count": "num_words",
    "symbol_to_word_ratio": "symbol_ratio",
    "fraction_of_words_with_alpha_character": "alpha_word_fraction",
    "required_word_count": "num_stop_words",
    "fraction_of_lines_starting_with_bullet_point": "bullet_line_fraction",
    "fraction_of_lines_ending_with_ellipsis": "ellipsis_line_fraction",
    "fraction_of_duplicate_lines": "duplicate_line_fraction",
    "fraction_of_characters_in_duplicate_lines": "duplicate_line_char_fraction",
    **{f"fraction_of_characters_in_most_common_{n}grams": f"top_{n}gram_char_fraction" for n in range(2, 5)},
    **{f"fraction_of_characters_in_duplicate_{n}grams": f"repeated_{n}gram_char_fraction" for n in range(5, 11)},
}


def our_column(name: str) -> str:
    """Return the column that an implementation's name means."""
    found = re.fullmatch(r"rps_doc_frac_chars_(top|dupe)_(\d+)grams?", name)
    if found:
        return f"{'top' if found[1] == 'top' else 'repeated'}_{found[2]}gram_char_fraction"
    return DOLMA.get(name, {"non_alpha_word_fraction": "alpha_word_fraction"}.get(name, name))


@pytest.fixture(scope="module")
def real():
    """Return the texts of the recorded documents, or skip loudly."""
    if not (DATA / "02_gold").is_dir():
        pytest.skip(f"real inputs are absent: set CURATE_DATA to the folder that holds 02_gold (looked in {DATA})")
    return [text for _, text in replayed(DATA)]


def measured(step, texts):
    assert step.reads == ()  # it splits words itself
    return step.apply(pa.record_batch({"text": pa.array(texts, pa.large_string())})).to_pylist()


def check(fired, step, recording, texts, value_of=lambda name, value: value, any_order=False):
    """Compare values and decisions of a step with a recording; return whether each text is removed."""
    rows = measured(step, texts)
    assert len(rows) == len(recording["values"])
    decisions = []
    for row, values, reason in zip(rows, recording["values"], recording["fired"], strict=True):
        known = {
            our_column(name): value_of(name, value)
            for name, value in zip(recording["columns"], values, strict=True)
            if value is not None and our_column(name) in step.adds
        }
        assert {column: row[column] for column in known} == pytest.approx(known, rel=1e-9, abs=1e-9)
        names = [name.removeprefix("block.") for name in fired(step, row)]
        reasons = [our_column(name) for name in (reason or "").split(",") if name]
        if any_order:
            reasons = [name for name in reasons if name in step.adds]
            assert sorted(names) == sorted(reasons)
        elif reason == "ZeroDivisionError":  # Curator stops here; we remove the text
            assert names
        else:
            assert names[:1] == reasons[:1]
        decisions.append(bool(names))
    return decisions


def part(name, block, which):
    recording = recorded(name)["blocks"][block]
    return {"columns": recording["columns"], **recording[which]}


PARTS = pytest.mark.parametrize("which", ["documents", "apart", "texts"])
LEAST = {"documents": 600, "apart": 46, "texts": 70}


@pytest.fixture
def texts_of(request):
    """Return a function from a part of a recording to its texts."""

    def of(which):
        real = request.getfixturevalue("real") if which != "texts" else []
        texts = {"texts": OWN, "documents": real}.get(which) or [text for _, text in replayed(DATA, which)]
        assert len(texts) >= LEAST[which]
        return texts

    return of


@PARTS
def test_dclm_as_recorded(fired, texts_of, which):
    texts = texts_of(which)
    check(fired, GopherRepetition(variant="dclm"), part("dclm", "gopher_repetition", which), texts)

    def share(name, value):
        return 1.0 - value if name == "non_alpha_word_fraction" else value

    recording = part("dclm", "gopher_quality", which)
    recording["fired"] = [our_column(reason) if reason else None for reason in recording["fired"]]
    check(fired, GopherQuality(variant="dclm"), recording, texts, share)


@PARTS
def test_dolma_as_recorded(fired, texts_of, which):
    # The recorded decisions are those of the published mixer: every rule that fires, the three that never can left out.
    texts = texts_of(which)
    for kind in (GopherRepetition, GopherQuality):
        check(fired, kind(variant="dolma"), part("dolma", "gopher_v1", which), texts, any_order=True)
    off = {f"max_top_{n}gram_char_fraction": "off" for n in range(2, 5)}
    check(fired, GopherRepetition(variant="dolma_v2", **off), part("dolma", "gopher_v2", which), texts, any_order=True)
    check(fired, GopherQuality(variant="dolma_v2"), part("dolma", "gopher_v2", which), texts, any_order=True)


@PARTS
def test_redpajama_as_recorded(fired, texts_of, which):
    # RedPajama published values alone; its decisions are the paper's numbers on the values recorded.
    recording = part("redpajama", "gopher_repetition", which)
    over = [
        [name for name, value in zip(recording["columns"], values, strict=True) if value > PAPER[our_column(name)]]
        for values in recording["values"]
    ]
    recording["fired"] = [",".join(names) or None for names in over]
    check(fired, GopherRepetition(variant="redpajama"), recording, texts_of(which), any_order=True)


@PARTS
def test_curator_as_recorded(fired, texts_of, which):
    def repeated(name, value):  # Curator's score is what is left without repeats
        return 1.0 - value if name.startswith("duplicate") else value

    recording = part("curator", "gopher_repetition", which)
    check(fired, GopherRepetition(variant="curator"), recording, texts_of(which), repeated)


def test_recorded_decisions_differ():
    # What the recordings are worth: on at least 20 documents each variant decides otherwise than another, pair by pair.
    removed = {
        name: [bool(reason) for reason in part(name, "gopher_repetition", "documents")["fired"]]
        for name in ("datatrove", "dclm", "curator")
    }
    values = part("redpajama", "gopher_repetition", "documents")
    bounds = [PAPER[our_column(name)] for name in values["columns"]]
    removed["redpajama"] = [
        any(value > bound for value, bound in zip(row, bounds, strict=True)) for row in values["values"]
    ]
    repetition = [name for name in DOLMA if DOLMA[name] in PAPER]
    for variant, block in (("dolma", "gopher_v1"), ("dolma_v2", "gopher_v2")):
        removed[variant] = [
            any(name in (reasons or "").split(",") for name in repetition)
            for reasons in part("dolma", block, "documents")["fired"]
        ]
    for one, other in combinations(removed, 2):
        apart = sum(a != b for a, b in zip(removed[one], removed[other], strict=True))
        assert apart >= 20, (one, other, apart)


def test_recorded_decisions_on_quality_differ():
    # On prose DCLM and Dolma decide alike; the programs of "apart" are there for this.
    names = {name for name in DOLMA if DOLMA[name] not in PAPER} | {"median_word_length"}
    removed = {
        "dclm": [
            reason for which in ("documents", "apart") for reason in part("dclm", "gopher_quality", which)["fired"]
        ],
        "dolma": [
            names & set((reasons or "").split(","))
            for which in ("documents", "apart")
            for reasons in part("dolma", "gopher_v1", which)["fired"]
        ],
    }
    assert sum(bool(one) != bool(other) for one, other in zip(removed["dclm"], removed["dolma"], strict=True)) >= 20
    datatrove = part("datatrove", "gopher_quality", "documents")["fired"]
    for name in removed:
        assert sum(bool(one) != bool(other) for one, other in zip(removed[name], datatrove, strict=False)) >= 20


# ---- by hand: the formulas apart, on one text


def test_formulas_by_hand():
    # Words: ab cd ab cd ab ef gh, without anything twice but "ab cd" (2), "cd ab" (2), "ab cd ab" (2).
    text = "ab cd ab cd ab ef gh"  # 7 words, 14 characters of words, 20 of text
    row = {name: measured(GopherRepetition(variant=name), [text])[0] for name in REPETITION}
    # Most frequent bigram: ab cd, twice, 4 characters (5 with its space).
    assert row["dclm"]["top_2gram_char_fraction"] == 8 / 14
    assert row["dolma"]["top_2gram_char_fraction"] == 0.57143  # 8 / 14, to five digits
    assert row["redpajama"]["top_2gram_char_fraction"] == 0.57142857  # to eight
    assert row["curator"]["top_2gram_char_fraction"] == 10 / 20
    # Most frequent trigram: ab cd ab, at words 1 and 3: it overlaps itself. Curator finds "ab cd ab" once.
    assert row["dclm"]["top_3gram_char_fraction"] == 12 / 14
    assert row["dolma"]["top_3gram_char_fraction"] == 0.85714
    assert row["curator"]["top_3gram_char_fraction"] == 8 / 20
    # No 4-gram occurs twice: dclm and RedPajama say 0; for Dolma and Curator the first one counts, 8 characters.
    assert row["dclm"]["top_4gram_char_fraction"] == row["redpajama"]["top_4gram_char_fraction"] == 0
    assert row["dolma"]["top_4gram_char_fraction"] == 0.57143
    assert row["curator"]["top_4gram_char_fraction"] == 11 / 20
    # Seven words: no 8-gram. Curator's value for a text that is too short is 1.
    assert [row[name]["repeated_8gram_char_fraction"] for name in REPETITION] == [0, 0, 0, 0, 1]


def test_repeated_ngrams_by_hand():
    # a b c d e f | x | a b c d e f | y: the 5-grams abcde and bcdef occur twice, 5 characters each.
    text = "a b c d e f x a b c d e f y"  # 14 words of one character; 27 characters of text; 10 5-grams
    value = {
        name: measured(GopherRepetition(variant=name), [text])[0]["repeated_5gram_char_fraction"] for name in REPETITION
    }
    assert value["dclm"] == 12 / 14  # a to f twice, each word once
    assert value["redpajama"] == 0.85714286
    assert value["dolma"] == value["dolma_v2"] == 0.4  # 4 of 10 5-grams
    # The second abcde: 5 characters and 4 spaces; then bcdef: f, and a space.
    assert value["curator"] == (5 + 4 + 1 + 1) / 27


def test_lines_by_hand():
    # Lines: "a b", "c", "", "a b", "d", "" (behind the last line feed).
    text = "a b\nc\n\na b\nd\n"
    row = {name: measured(GopherRepetition(variant=name), [text])[0] for name in REPETITION}
    # dclm: 4 lines, of which 2 occur again, 6 of 8 characters; paragraphs "a b\nc" and "a b\nd" differ.
    assert [row["dclm"][name] for name in list(PAPER)[:4]] == [2 / 4, 0, 6 / 8, 0]
    # dolma: 6 lines, "a b" and the blank one twice; 6 characters in them, 6 in words (a b c a b d).
    assert row["dolma"]["duplicate_line_fraction"] == 0.66667
    assert row["dolma"]["duplicate_line_char_fraction"] == 1.0
    # gopher_v2: 5 lines, the last one empty.
    assert row["dolma_v2"]["duplicate_line_fraction"] == 0.4
    # curator: 4 lines, the second "a b" goes: 3 of 8 characters.
    assert [row["curator"][name] for name in list(PAPER)[:4]] == [1 / 4, 0, 3 / 8, 0]
    assert not {"duplicate_line_fraction", "duplicate_paragraph_fraction"} & set(row["redpajama"])
    assert "duplicate_paragraph_fraction" not in row["dolma"]


def test_ties_by_hand():
    # "a b" and "aaaa bbbb" twice each: dclm takes the longer one, the others the first.
    text = "a b x aaaa bbbb y a b z aaaa bbbb w"  # 24 characters of words, 35 of text
    value = {
        name: measured(GopherRepetition(variant=name), [text])[0]["top_2gram_char_fraction"] for name in REPETITION
    }
    assert value["dclm"] == 16 / 24
    assert value["dolma"] == 0.16667
    assert value["redpajama"] == 0.16666667
    assert value["curator"] == 4 * 3 / 35  # "a b" is found inside "aaaa bbbb" too


# ---- both sides of each bound, in texts made for it


def alone(variant, column):
    """Return the block of which one published bound alone is left."""
    step = GopherRepetition(variant=variant)
    others = [name for name in step.adds if name not in ("num_chars", column)]
    return GopherRepetition(variant=variant, **{f"max_{name}": "off" for name in others})


def filler(chars, first=0):
    """Return distinct words of four signs or fewer with so many characters in all."""
    full, rest = divmod(chars, 4)
    words = [f"{first + number:04x}" for number in range(full)]
    return words + (["zyx"[:rest]] if rest else [])


def twice(gram, rest):
    """Return words: an n-gram, something, the n-gram again, the rest."""
    half = len(rest) // 2
    return " ".join([*gram, *rest[:half], *gram, *rest[half:]])


def gram_of(n, chars):
    """Return n distinct words with so many characters in all."""
    sizes = [chars // n + (place < chars % n) for place in range(n)]
    return [chr(ord("g") + place) * size for place, size in enumerate(sizes)]


@pytest.mark.parametrize("variant", ["dclm", "redpajama", "dolma_v2"])
@pytest.mark.parametrize("column", list(PAPER)[4:])
def test_bounds_on_ngrams(fired, variant, column):
    n = int(re.search(r"\d+", column)[0])
    bound = PAPER[column]
    step = alone(variant, column)
    if variant == "dolma_v2" and column.startswith("repeated"):
        # Words of one length; a run of 19 words twice: 2 * (20 - n) repeated n-grams, of 200 and of 199.
        assert 2 * (20 - n) / 200 == bound
        run = [letter * 4 for letter in "ghijklmnopqrstuvwxy"]
        for removed, grams in ((False, 200), (True, 199)):
            (row,) = measured(step, [twice(run, filler(4 * (grams + n - 1 - 38)))])
            assert row[column] == round(2 * (20 - n) / grams, 5)
            assert bool(fired(step, row)) is removed
        return
    # Two occurrences of bound / 2 of 200 characters of words, then of 199.
    gram = gram_of(n, round(bound * 100))
    for removed, total in ((False, 200), (True, 199)):
        (row,) = measured(step, [twice(gram, filler(total - 2 * round(bound * 100)))])
        assert row[column] == pytest.approx(round(bound * 200) / total, abs=5e-6)
        assert bool(fired(step, row)) is removed


@pytest.mark.parametrize("column", list(PAPER)[4:])
def test_bounds_of_curator_on_ngrams(fired, column):
    n = int(re.search(r"\d+", column)[0])
    step = alone("curator", column)
    # Characters of the n-gram without and with its n - 1 spaces, and of the text: 0.20 = 2 * 10 of 100, 0.10 = 19 of 190.
    chars, total = {2: (9, 100), 3: (7, 100), 4: (5, 100), 5: (11, 100), 6: (9, 100), 7: (7, 100)}.get(n, (0, 0))
    chars, total = {8: (8, 125), 9: (14, 200), 10: (10, 190)}.get(n, (chars, total))
    counted = (chars + n - 1) * (2 if column.startswith("top") else 1)
    assert counted / total == PAPER[column]
    for removed, size in ((False, total), (True, total - 1)):
        text = twice(gram_of(n, chars), filler(size))[:size]
        text = text.rstrip() if text[-1] == " " else text
        text += "q" * (size - len(text))
        (row,) = measured(step, [text])
        assert row[column] == counted / size
        assert bool(fired(step, row)) is removed


LINE_TEXTS = {  # kept, removed: by hand for each formula
    # All occurrences: 3 of 10 lines, 4 of 13.
    ("dclm", "duplicate_line_fraction"): (["l"] * 3 + list("abcdefg"), ["l"] * 4 + list("abcdefghi")),
    ("dolma", "duplicate_line_fraction"): (["l"] * 3 + list("abcdefg"), ["l"] * 4 + list("abcdefghi")),
    ("dolma_v2", "duplicate_line_fraction"): (["l"] * 3 + list("abcdefg"), ["l"] * 4 + list("abcdefghi")),
    # After the first: 3 of 10, 4 of 13.
    ("curator", "duplicate_line_fraction"): (["l"] * 4 + list("abcdef"), ["l"] * 5 + list("abcdefgh")),
    # Characters: 4 of 20, 4 of 19.
    ("dclm", "duplicate_line_char_fraction"): (["ll", "ll", "a" * 16], ["ll", "ll", "a" * 15]),
    # 6 with the space, of 20 and 19 in words: 0.3, the mixers' number.
    ("dolma", "duplicate_line_char_fraction"): (["l l", "l l", "a" * 16], ["l l", "l l", "a" * 15]),
    ("dolma_v2", "duplicate_line_char_fraction"): (["l l", "l l", "a" * 16], ["l l", "l l", "a" * 15]),
    # 2 of 10, 2 of 9.
    ("curator", "duplicate_line_char_fraction"): (["ll", "ll", "a" * 6], ["ll", "ll", "a" * 5]),
}


@pytest.mark.parametrize(("variant", "column"), LINE_TEXTS)
def test_bounds_on_lines_and_paragraphs(fired, variant, column):
    kept, removed = LINE_TEXTS[variant, column]
    step = alone(variant, column)
    rows = measured(step, ["\n".join(kept), "\n".join(removed)])
    assert rows[0][column] == {"dolma": 0.3, "dolma_v2": 0.3}.get(variant, PAPER[column])
    assert [bool(fired(step, row)) for row in rows] == [False, True]
    if not variant.startswith("dolma"):
        column = column.replace("line", "paragraph")
        step = alone(variant, column)
        if column.endswith("char_fraction") or variant == "dclm":
            assert [bool(fired(step, row)) for row in measured(step, ["\n\n".join(kept), "\n\n".join(removed)])] == [
                False,
                True,
            ]
        else:
            rows = measured(step, ["\n\n".join(kept), "\n\n".join(removed)])
            assert [row[column] for row in rows] == [3 / 10, 4 / 13]
            assert [bool(fired(step, row)) for row in rows] == [False, True]


def test_rules_that_never_fired_in_dolma():
    columns = {rule.column for rule in GopherRepetition(variant="dolma").rules("block")}
    assert not any(column.startswith("top") for column in columns)
    switched_on = GopherRepetition(variant="dolma", max_top_2gram_char_fraction=0.2)
    assert "top_2gram_char_fraction" in {rule.column for rule in switched_on.rules("block")}


def test_dolma_rounds_before_it_compares(fired):
    # 90,001 of 100,001 lines are bullets: 0.900001 is written as 0.9, which is kept; 9,001 of 10,001 is written as 0.90001.
    step = GopherQuality(
        variant="dolma", min_words="off", max_words="off", min_stop_words="off", min_alpha_word_fraction="off"
    )
    step = step.model_copy(update={"min_median_word_length": None, "max_median_word_length": None})
    rows = measured(step, ["\n".join(["-"] * 90_001 + ["a"] * 10_000), "\n".join(["-"] * 9_001 + ["a"] * 1_000)])
    assert [row["bullet_line_fraction"] for row in rows] == [0.9, 0.90001]
    assert [fired(step, row) for row in rows] == [[], ["block.bullet_line_fraction"]]


def test_texts_without_a_word_or_line(fired):
    # To Dolma " ", "" and " " are three lines, two of them equal.
    for variant, gone in (("dclm", [1, 1, 1]), ("dolma", [0, 1, 0]), ("redpajama", [0, 0, 0]), ("curator", [1, 1, 1])):
        step = GopherRepetition(variant=variant)
        rows = measured(step, ["", " \n\n ", None])
        assert [bool(fired(step, row)) for row in rows] == gone
        assert all(value == value for row in rows for value in row.values())
    for variant in QUALITY:
        step = GopherQuality(variant=variant)
        assert all("block.num_words" in fired(step, row) for row in measured(step, ["", " \n\n ", None]))


def prose(count, length=4, stop=2):
    """Return words of one length, the first of which are stop words of that length."""
    return ["with"] * stop + [f"w{number:x}".ljust(length, "z") for number in range(count - stop)]


QUALITY_TEXTS = [  # column, kept, removed
    ("num_words", " ".join(prose(50)), " ".join(prose(49))),
    ("num_words", "the of " + "word " * 99_998, "the of " + "word " * 99_999),
    ("num_stop_words", " ".join(prose(60)), " ".join(prose(60, stop=1))),
    ("symbol_ratio", " ".join([*prose(54), "a#", "b#", "c#", "d#", "e…", "f…"]), " ".join(prose(53) + ["a#"] * 6)),
    ("alpha_word_fraction", " ".join(prose(80) + ["1"] * 20), " ".join(prose(79) + ["1"] * 20)),
    (
        "bullet_line_fraction",
        "\n".join(["- it is so"] * 18 + ["of the"] * 2),
        "\n".join(["* it is so"] * 19 + ["of the"] * 2),
    ),
    (
        "ellipsis_line_fraction",
        "\n".join(["and so on…"] * 6 + ["to the end"] * 14),
        "\n".join(["and so on…"] * 7 + ["to the end"] * 16),
    ),
]


@pytest.mark.parametrize("variant", ["dclm", "dolma"])
@pytest.mark.parametrize(("column", "kept", "removed"), QUALITY_TEXTS, ids=lambda value: value[:24])
def test_bounds_of_quality(fired, variant, column, kept, removed):
    step = GopherQuality(variant=variant)
    rows = measured(step, [kept, removed])
    names = [[name for name in fired(step, row) if name == f"block.{column}"] for row in rows]
    assert names == [[], [f"block.{column}"]]
    edges = {"num_words": (50, 100_000), "num_stop_words": (2,), "symbol_ratio": (0.1,), "alpha_word_fraction": (0.8,)}
    edges |= {"bullet_line_fraction": (0.9,), "ellipsis_line_fraction": (0.3,)}
    assert rows[0][column] in edges[column]


def test_bounds_of_word_length(fired):
    # dclm: the mean of 60 words, 3.0 and 179 / 60; 10.0 and 601 / 60. dolma: the median, 3 and 2.5; 10 and 10.5.
    dclm, dolma = GopherQuality(variant="dclm"), GopherQuality(variant="dolma")

    def lengths(*sizes):
        return " ".join("x" * size for size in sizes)

    for step, column, cases in (
        (dclm, "mean_word_length", [([3] * 60, 0), ([3] * 59 + [2], 1), ([10] * 60, 0), ([10] * 59 + [11], 1)]),
        (dolma, "median_word_length", [([2] * 29 + [3] * 31, 0), ([2] * 30 + [3] * 30, 1)]),
        (dolma, "median_word_length", [([10] * 31 + [90] * 29, 0), ([10] * 30 + [11] * 30, 1)]),
    ):
        for sizes, times in cases:
            (row,) = measured(step, [lengths(*sizes)])
            assert fired(step, row).count(f"block.{column}") == times


def test_signs_by_hand():
    # "......" is two ellipses to dclm, none to Dolma; a#…# is three symbols to dclm, one word to Dolma; ". . ." is one to dclm.
    text = "so...... and a#…# then . . . ok"  # words: so...... and a#…# then . . . ok
    (dclm,) = measured(GopherQuality(variant="dclm"), [text])
    (dolma,) = measured(GopherQuality(variant="dolma"), [text])
    assert dclm["symbol_ratio"] == (2 + 3 + 1) / 8
    assert dolma["symbol_ratio"] == 1 / 8
    # Counted words begin with a letter or number: so...... and a#…# then ok.
    assert (dclm["num_words"], dolma["num_words"]) == (5, 8)
    # Stop words: any case to dclm, as written to Dolma; each time.
    (dclm,) = measured(GopherQuality(variant="dclm"), ["The the THE be."])
    (dolma,) = measured(GopherQuality(variant="dolma"), ["The the THE be."])
    assert (dclm["num_stop_words"], dolma["num_stop_words"]) == (3, 1)
    # Bullets: ● • * - at the start of a stripped line, and * - at the very start of one.
    lines = "● a\n• b\n* c\n- d\n – e\n  - f"
    (dclm,) = measured(GopherQuality(variant="dclm"), [lines])
    (dolma,) = measured(GopherQuality(variant="dolma"), [lines])
    assert (dclm["bullet_line_fraction"], dolma["bullet_line_fraction"]) == (5 / 6, round(2 / 6, 5))


# ---- words


def test_words_by_hand():
    # UAX 29: table 3's sentence, and its rules for apostrophes, numbers, underscores, Katakana, Hebrew, flags, joined emoji.
    sentence = "The quick (“brown”) fox can’t jump 32.3 feet, right?"
    assert "|".join(segmented_units(sentence)) == (
        "The| |quick| |(|“|brown|”|)| |fox| |can’t| |jump| |32.3| |feet|,| |right|?"
    )
    assert segmented_words("l'eau a.b 1,5 1.5a_b x-y a:b") == ["l'eau", "a.b", "1,5", "1.5a_b", "x", "y", "a:b"]
    assert segmented_words("カタカナです 漢字") == ["カタカナ", "で", "す", "漢", "字"]
    assert segmented_words("צה\"ל ש'") == ['צה"ל', "ש'"]
    assert segmented_units("🇧🇷🇵🇹👩‍👧\r\n") == ["🇧🇷", "🇵🇹", "👩‍👧", "\r\n"]
    assert segmented_words("cafe\u0301 co\u00adop") == ["cafe\u0301", "co\u00adop"]
    assert fasttext_words("one\u00a0two -three\x1cfour\n#5 6") == ["one\u00a0two", "6"]
    assert normalised_words("Well-Known -- É, 3.14 «so»") == ["wellknown", "E\u0301".lower(), "314", "«so»"]


def test_units_leave_nothing_out(real):
    for text in [*OWN, *real[::20]]:
        assert "".join(segmented_units(text)) == text


@pytest.mark.parametrize("variant", REPETITION)
@pytest.mark.parametrize("unit", ["la ", "la la di\n\n"])
def test_five_megabytes_of_one_thing(variant, unit):
    # Each is a second or two; work that grows with the square of the words would be hours.
    text = unit * (5_000_000 // len(unit))
    start = time.process_time()
    (row,) = measured(GopherRepetition(variant=variant), [text])
    assert time.process_time() - start < 90
    assert row["repeated_10gram_char_fraction"] > 0.6


# ---- settings


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (
            GopherRepetition,
            {"variant": "dclm", "words": "fast"},
            "variant dclm cannot have words: fast; leave words out",
        ),
        (GopherQuality, {"words": "own"}, "cannot have words: own; write fast or english"),
        (
            GopherRepetition,
            {"variant": "redpajama", "max_duplicate_line_fraction": 0.3},
            "measures no duplicate_line_fraction",
        ),
        (GopherQuality, {"variant": "dolma", "min_mean_word_length": 3}, "measures no mean_word_length"),
        (
            GopherQuality,
            {"max_symbol_ratio": 0.1},
            "variant curate measures no symbol_ratio; leave max_symbol_ratio out",
        ),
        (GopherQuality, {"variant": "curator"}, "there are: curate, datatrove, dclm, dolma, dolma_v2"),
        (GopherRepetition, {"variant": "gopher"}, "dclm, dolma, dolma_v2, redpajama, curator"),
    ],
)
def test_refused(kind, settings, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        kind(**settings)


# ---- agreement


def test_agreement_by_hand():
    # Two lines of ten equal: dclm counts both, 2/10 and 4 of 12 characters (over 0.2); Curator one, 1/10 and 2 of 12.
    fine = "\n".join(
        f"{word} {word[::-1]}" for word in "opal onyx jade ruby topaz beryl agate pearl amber coral".split()
    )
    repeated = "aa\naa\n" + "\n".join("bcdefghi")
    blocks = {
        name: GopherRepetition(variant=name, **{f"max_{column}": "off" for column in list(PAPER)[4:]})
        for name in ("dclm", "curator")
    }
    found = agreement([fine, repeated, ""], blocks, rows=2)
    assert found.names == ("dclm", "curator")
    assert found.removed.tolist() == [[False, True, True], [False, False, True]]
    assert found.shares() == {"dclm": 2 / 3, "curator": 1 / 3}
    assert found.matrix().tolist() == [[1.0, 0.5], [0.5, 1.0]]
    assert found.overall() == (1, 2)
    assert agreement([], blocks).overall() == (0, 0)
    assert agreement([fine], blocks).matrix().tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    "step",
    [*(GopherRepetition(variant=name) for name in REPETITION), *(GopherQuality(variant=name) for name in QUALITY)],
    ids=lambda step: f"{type(step).__name__}-{step.variant}",
)
def test_any_batching_and_pickle(step):
    # The contract of stages looks at each stage's default variant.
    again = pickle.loads(pickle.dumps(step))
    batch = pa.record_batch({"text": pa.array([*OWN, None], pa.large_string())})
    whole = again.apply(batch)
    assert whole.num_rows == len(OWN) + 1
    assert dict(zip(whole.schema.names, map(str, whole.schema.types), strict=True)) == {
        name: {"float64": "double"}.get(kind, kind) for name, kind in step.adds.items()
    }
    rows = [step.apply(batch.slice(row, 1)) for row in range(batch.num_rows)]
    assert pa.Table.from_batches(rows).combine_chunks().to_batches()[0].equals(whole)
    assert step.apply(batch.slice(0, 0)).num_rows == 0


def test_agreement_needs_numbers():
    shares = GopherRepetition(variant="dclm", max_top_2gram_char_fraction={"quantile": 0.9})
    with pytest.raises(ValueError, match="the bound of top_2gram_char_fraction is a share of a corpus; write a number"):
        agreement(["a b"], {"dclm": shares})
