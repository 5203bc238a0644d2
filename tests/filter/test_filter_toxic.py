"""Listed words. Few of them are written out here: tests read them from the shipped lists by their place, or bring lists of their own."""

import gzip
import json
import os
import re
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError

from curate.errors import InputError
from curate.filter.toxic import _SHIPPED, LANGUAGES, BadWords, _sections
from curate.stage import bound_for

REFERENCE = Path(__file__).parent / "reference"
DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")


def rows(step, *texts, language=None, ids=None):
    languages = language if isinstance(language, list) else [language] * len(texts)
    batch = pa.record_batch(
        {
            "id": pa.array(ids or [f"{place:032x}" for place in range(len(texts))]),
            "text": pa.array(texts, pa.large_string()),
            "language": pa.array(languages, pa.string()),
        }
    )
    return step.apply(batch).to_pylist()


def counts(step, *texts, language=None):
    return [row["num_bad_words"] for row in rows(step, *texts, language=language)]


def own(folder, content, **settings):
    path = folder / "words.txt"
    path.write_text(content, encoding="utf-8")
    return BadWords(lists=(str(path),), **settings)


def test_what_is_shipped():
    sections = _sections((str(_SHIPPED),), ())
    assert tuple(sorted(sections)) == tuple(sorted(LANGUAGES))
    assert (len(sections["en"]), len(sections["pt"]), len(sections["zh"])) == (
        403,
        76,
        318,
    )  # one of zh's 319 stands there twice
    head = _SHIPPED.read_text(encoding="utf-8")[:700]
    assert "Shutterstock" in head
    assert "CC BY 4.0" in head


def test_by_hand(tmp_path):
    step = own(tmp_path, "# ours\nfoo\nbar baz\n")
    # 3 + 7 + 3 characters of 23: "a foo, bar baz and FOO." is 23 long.
    (row,) = rows(step, "a foo, bar baz and FOO.")
    assert row["num_bad_words"] == 3
    assert row["bad_word_char_fraction"] == 13 / 23
    assert rows(step, "")[0] | {"bad_words_draw": 0} == {
        "num_bad_words": 0,
        "bad_word_char_fraction": 0.0,
        "bad_words_draw": 0,
    }


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("foo", 1),
        ("foo foo", 2),  # one blank between both
        ("(foo)", 1),
        ("foo-foo", 2),
        ("food", 0),
        ("afoo", 0),
        ("foo_", 0),
        ("foo1", 0),
        ("éfoo", 0),
        ("fooé", 0),
        ("运foo", 0),  # a letter of any script
        ("“foo”", 1),
        ("bar  baz", 0),  # a phrase is found as it is written
        ("bar\nbaz", 0),
        ("bar baz foo", 2),
        ("foo bar", 1),
        ("big foo bar house", 1),  # of overlapping entries the longest
    ],
)
def test_entries_stand_alone(tmp_path, text, count):
    assert counts(own(tmp_path, "foo\nbar baz\nfoo bar\n"), text) == [count]


def test_marks_belong_to_letters(tmp_path):
    word, longer = "नाव", "नावा"  # a vowel sign goes on
    assert counts(own(tmp_path, word), word, longer, f"{word} {longer}") == [1, 0, 1]
    assert counts(own(tmp_path, word, variant="c4"), word, longer) == [1, 1]  # for `\W` a mark is no part of a word


def test_scripts_without_spaces(tmp_path):
    content = "[zh]\n绿色\n[ja]\nみどり\n[en]\nfoo\n"
    for variant in ("curate", "c4"):
        step = own(tmp_path, content, variant=variant)
        assert counts(step, "一本绿色的本子", "xfoox绿色", language="zh") == [1, 1]
        assert counts(step, "みどりいろ", language="ja") == [1]
        assert counts(step, "xfoox 绿色", language="en") == [0]


def test_case(tmp_path):
    content = "Foo\nbar\nÉcole\n"
    assert counts(own(tmp_path, content), "foo FOO BAR école ÉCOLE") == [5]
    assert counts(own(tmp_path, content, variant="c4"), "foo FOO BAR école ÉCOLE") == [
        1
    ]  # entries with capitals: never


def test_language(tmp_path):
    content = "everywhere\n[en]\nfoo\n[pt]\nbar\n[fil]\nbaz\n"
    step = own(tmp_path, content)
    texts = ("everywhere foo bar baz",) * 6
    assert counts(step, *texts, language=["en", "pt", None, "pt-BR", "tl", "de"]) == [2, 2, 2, 2, 2, 1]
    assert counts(own(tmp_path, content, default_language="pt"), "bar") == [1]
    assert counts(own(tmp_path, content, languages=("en", "pt")), "foo bar baz", language="de") == [2]
    assert counts(BadWords(), "foo", language="xx") == [0]


def test_common_parts_of_words_are_left_out():
    assert "性" in _sections((str(_SHIPPED),), ())["zh"]
    assert counts(BadWords(), "可能性", language="zh") == [0]
    assert counts(BadWords(), "女の子が歩く", language="ja") == [0]


def fired(step, row):
    names = []
    for rule in step.rules("bad_words"):
        assert rule.expression is None
        if row[rule.column] > bound_for(rule.at_most, None):
            names.append(rule.name)
    return names


def test_bounds_on_both_sides(tmp_path):
    c4 = own(tmp_path, "foo", variant="c4")
    assert [fired(c4, row) for row in rows(c4, "fine", "foo")] == [[], ["bad_words.num_bad_words"]]
    two = own(tmp_path, "foo", max_matches=2, max_char_fraction="off")
    assert [fired(two, row) for row in rows(two, "foo foo", "foo foo foo")] == [[], ["bad_words.num_bad_words"]]
    # ours: 3 of 300 characters are a hundredth and stay, 3 of 299 go
    step = own(tmp_path, "foo")
    at, above = "foo " + "x" * 296, "foo " + "x" * 295
    assert [fired(step, row) for row in rows(step, at, above)] == [[], ["bad_words.bad_word_char_fraction"]]


def test_kept_by_draw(tmp_path):
    step = own(tmp_path, "foo", variant="c4", keep_fraction=0.25)
    (rule,) = step.rules("bad_words")
    assert rule.expression == "num_bad_words <= 0 OR bad_words_draw < 0.25"
    ids = [f"{place:032x}" for place in range(4000)]
    draws = [row["bad_words_draw"] for row in rows(step, *["foo"] * 4000, ids=ids)]
    assert all(0 <= draw < 1 for draw in draws)
    assert sum(draw < 0.25 for draw in draws) == pytest.approx(1000, abs=4 * (4000 * 0.25 * 0.75) ** 0.5)
    assert draws == [row["bad_words_draw"] for row in rows(step, *["foo"] * 4000, ids=ids)]
    other = own(tmp_path, "foo", variant="c4", keep_fraction=0.25, seed=1)
    assert draws != [row["bad_words_draw"] for row in rows(other, *["foo"] * 4000, ids=ids)]


def test_the_drawn_rule_decides(tmp_path):
    import polars as pl

    step = own(tmp_path, "foo", variant="c4", keep_fraction=0.5)
    measured = pl.DataFrame(rows(step, *["foo"] * 50, *["fine"] * 50))
    (rule,) = step.rules("bad_words")
    kept = measured.select(pl.sql_expr(rule.expression)).to_series()
    assert kept[50:].all()
    assert kept[:50].to_list() == [draw < 0.5 for draw in measured["bad_words_draw"][:50]]


def test_a_changed_list_is_read_anew(tmp_path):
    step = own(tmp_path, "foo")
    before = step.model_digest()
    assert counts(step, "foo barr") == [1]
    changed = own(tmp_path, "foo\nbarr")
    assert counts(changed, "foo barr") == [2]
    assert changed.model_digest() != before
    with pytest.raises(InputError, match="cannot be read"):
        BadWords(lists=(str(tmp_path / "absent.txt"),)).model_digest()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"languages": ("xx",)}, "no list for xx"),
        ({"default_language": "xx"}, "no list for xx"),
        ({"keep_fraction": 1.0}, "less than 1"),
        ({"keep_fraction": 0.5}, "keep_fraction needs"),
        ({"variant": "c5"}, "curate"),
    ],
)
def test_refused_settings(settings, message):
    with pytest.raises(ValidationError, match=message):
        BadWords(**settings)


@pytest.mark.parametrize("text", ["a" * 10**6, "ass " * 250_000, "\u0301" * 10**6])
def test_takes_linear_time(text):
    start = time.process_time()
    rows(BadWords(), text)
    assert time.process_time() - start < 5


def recorded():
    sys.path.insert(0, str(REFERENCE))
    try:
        from record_bad_words import documents
    finally:
        sys.path.remove(str(REFERENCE))
    if not (DATA / "02_gold").is_dir():
        pytest.skip(f"real inputs are absent: set CURATE_DATA to the folder that holds 02_gold, not {DATA}")
    known = json.loads(gzip.decompress((REFERENCE / "bad_words.json.gz").read_bytes()))["documents"]
    found = {(place["file"], place["row"], place["start"]): (place["sha256"], text) for place, text in documents(DATA)}
    texts = []
    for row in known:
        digest, text = found[row["file"], row["row"], row["start"]]
        assert digest == row["sha256"], f"{row['file']}, row {row['row']}: another text than the one recorded"
        texts.append(text)
    return known, texts


def test_decisions_of_datatrove():
    known, texts = recorded()
    assert len(known) >= 200
    languages = [row["language"] for row in known]
    c4, ours = BadWords(variant="c4"), BadWords()
    decided = [not fired(c4, row) for row in rows(c4, *texts, language=languages)]
    assert decided == [row["kept"] for row in known]
    other = [not fired(ours, row) for row in rows(ours, *texts, language=languages)]
    differing = sum(one != two for one, two in zip(decided, other, strict=True))
    print(f"{len(known)} documents: c4 removes {decided.count(False)}, ours {other.count(False)}, {differing} differ")
    assert differing >= 20


def test_agrees_with_a_regular_expression():
    """The count of the automaton against the plain form of C4's pattern, on real text of eight languages."""
    known, texts = recorded()
    sections = _sections((str(_SHIPPED),), ())
    checked = 0
    for language in ("en", "pt", "de", "fr", "es", "nl", "pl", "ru"):
        listed = sorted(map(str.lower, sections[language]), key=len, reverse=True)
        pattern = re.compile(r"(?<!\w)(?:{})(?!\w)".format("|".join(map(re.escape, listed))))
        chosen = [text for row, text in zip(known, texts, strict=True) if row["language"] == language][:120]
        step = BadWords(languages=(language,))
        for text, count in zip(chosen, counts(step, *chosen), strict=True):
            found = list(pattern.finditer(text.lower()))
            assert count == len(found)
            checked += len(found)
    assert checked > 60


@pytest.mark.parametrize("settings", ["{}", "{variant: c4, max_matches: off}", "{variant: c4, keep_fraction: 0.1}"])
def test_the_resolved_recipe_means_the_same(tmp_path, settings):
    from curate.loading import load

    (tmp_path / "in.jsonl").write_text('{"text": "x"}\n', encoding="utf-8")
    path = tmp_path / "recipe.yaml"
    source = f"read: {{kind: jsonl, paths: in.jsonl}}, steps: [{{bad_words: {settings}}}]"
    path.write_text(f"name: r\nsources:\n  a: {{{source}}}\n", encoding="utf-8")
    recipe = load(path)
    again = tmp_path / "again.yaml"
    again.write_text(recipe.as_yaml(), encoding="utf-8")
    assert load(again).sources[0].steps == recipe.sources[0].steps
