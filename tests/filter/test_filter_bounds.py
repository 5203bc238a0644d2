import re

import pytest
from pydantic import ValidationError

from curate.filter.bounds import Filter, Limit
from curate.filter.c4 import C4Lines
from curate.filter.code import Code
from curate.filter.fineweb import FineWeb
from curate.filter.gopher.quality import GopherQuality
from curate.filter.gopher.repetition import GopherRepetition
from curate.filter.language import Language

# What a bound needs beside it, as by default its column is not measured.
NEEDS = {
    "min_share": {"paragraphs": True},
    "max_second_share": {"paragraphs": True},
    "max_languages": {"paragraphs": True},
    "min_median_word_length": {"variant": "dolma"},
    "max_median_word_length": {"variant": "dolma"},
    "max_symbol_ratio": {"variant": "dclm"},
}
# Bounds of which the measure asks whether they are on: another value is measured anew.
ALSO_MEASURED = {f"{end}_{name}" for end in ("min", "max") for name in ("comment_fraction", "data_chars")}
ALSO_MEASURED |= {"min_visible_fraction", "min_visible_chars"}
FILTERS = (Language, GopherQuality, GopherRepetition, C4Lines, FineWeb, Code)


def bounds(kind: type[Filter]) -> list[str]:
    return [
        name
        for name, field in kind.model_fields.items()
        if any(isinstance(getattr(one, "func", None), Limit) for one in field.metadata)
    ]


@pytest.mark.parametrize("kind", FILTERS)
def test_every_bound_can_be_off_by_itself_and_decides_alone(kind):
    names = bounds(kind)
    assert names
    assert set(names) - ALSO_MEASURED <= set(kind.decides) <= set(kind.model_fields)
    for name in names:
        for off in ("off", None, "OFF"):
            assert getattr(kind(**{name: off}), name) is None
    everything = {
        name: "off"
        for name in (*names, "keep", "generated", "minified", "lorem_ipsum", "curly_bracket", "empty")
        if name in kind.model_fields
    }
    assert kind(**everything).rules("block") == ()


@pytest.mark.parametrize("kind", FILTERS)
def test_a_map_by_language_makes_the_rule_look_there(kind):
    for name in bounds(kind):
        step = kind(**{name: {"pt": 0.5, "*": 0.25}, "by": "label"}, **NEEDS.get(name, {}))
        (rule,) = (rule for rule in step.rules("block") if rule.by is not None)
        assert rule.by == "label"
        assert {"pt": 0.5, "*": 0.25} in (rule.at_least, rule.at_most)


@pytest.mark.parametrize("kind", FILTERS)
def test_rules_are_named_by_block_and_look_at_measured_columns(kind):
    for rule in kind().rules("my-block"):
        assert re.fullmatch(r"my-block\.\w+", rule.name)
        assert rule.column in kind().adds


def test_whole_rule_off():
    step = GopherQuality(mean_word_length="off", num_words="off")
    assert [rule.name for rule in step.rules("g")][:1] == ["g.hash_ratio"]
    with pytest.raises(ValidationError, match="mean_word_length is off and min_mean_word_length is set"):
        GopherQuality(mean_word_length="off", min_mean_word_length=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_words": -1}, "-1 is out of range: 0 or more"),
        ({"min_words": 0}, "can never remove anything"),
        ({"min_words": True}, "True is no switch|True is no bound"),
        ({"min_words": {}}, "an empty map bounds nothing"),
        ({"min_words": {"en": "many"}}, "'many' is no bound"),
        ({"max_bullet_line_fraction": 1.0}, "can never remove anything"),
        ({"max_bullet_line_fraction": 1.5}, "out of range: 0 to 1"),
        ({"min_alpha_word_fraction": float("nan")}, "out of range"),
        ({"min_words": 60, "max_words": 50}, "min_words 60 is above max_words 50"),
        ({"min_word": 50}, "Extra inputs"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ValidationError, match=message):
        GopherQuality(**settings)


def test_switches():
    assert C4Lines(javascript="off").javascript is False
    assert C4Lines(javascript="on").javascript is True
    with pytest.raises(ValidationError, match="'maybe' is no switch"):
        C4Lines(javascript="maybe")


def test_a_label_that_is_off_in_a_map_has_no_bound():
    assert GopherQuality(min_words={"en": 50, "zh": "off"}).min_words == {"en": 50.0}
    assert GopherQuality(min_words={"zh": "off"}).min_words is None
