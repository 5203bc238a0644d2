"""`curate mixture plan`, and the weights behind it: every expected number worked out by hand, or from the paper."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import machine
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from curate.errors import RecipeError, StageError, UsageError
from curate.groups import MOST_CELLS, ByLabel, Multiply
from curate.loading import load
from curate.mix.plan import plan_mixture
from curate.mix.rules import powers, unimax
from curate.mix.settings import Mixture
from curate.mix.shares import fill
from curate.mix.weights import sample_weights
from curate.mixture_plan import plan

WINDOW = 10


def tokens(windows: dict[str, int]) -> dict[str, int]:
    """Return tokens that hold so many whole windows, and the token behind the last."""
    return {name: WINDOW * count + 1 if count else 0 for name, count in windows.items()}


def planned(mixture: dict[str, Any], windows: dict[str, int]) -> dict[str, Any]:
    return plan_mixture(Mixture(**mixture), tokens(windows), window=WINDOW, seed=1)


def drawn(result: dict[str, Any], stage: int | None = None) -> dict[str, int]:
    sources = (result if stage is None else result["stages"][stage])["sources"]
    return {name: one["windows_drawn"] for name, one in sources.items()}


# -- rules -------------------------------------------------------------------------------------------------------------


def test_proportional():
    result = planned({"weights": "proportional", "tokens": 1000}, {"a": 100, "b": 60, "c": 40})
    assert drawn(result) == {"a": 50, "b": 30, "c": 20}


# 1, 4, 16 to the power 1/2 are 1, 2, 4, so 100, 200, 400 of 700; in proportion they get 33.3, 133.3, 533.3, and all alike
# 233.3 each: equal remainders, so the window that is left goes to the first name.
@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        ({"temperature": 2}, [100, 200, 400]),
        ({"exponent": 0.5}, [100, 200, 400]),
        ({"temperature": 1}, [34, 133, 533]),
        ({"exponent": 0}, [234, 233, 233]),
    ],
)
def test_temperature_is_one_over_the_exponent(rule, shares):
    result = planned({"weights": rule, "tokens": 7000}, {"a": 1000, "b": 4000, "c": 16000})
    assert list(drawn(result).values()) == shares


def test_the_published_exponent_of_xlm_r():
    # Two languages of 300 and 1 GB with a = 0.3: 300^0.3 = 5.535, so 84.7% and 15.3%.
    found = powers({"en": Fraction(300), "sw": Fraction(1), "none": Fraction(0)}, Fraction(3, 10))
    assert float(found["en"]) == pytest.approx(math.exp(0.3 * math.log(300)), rel=1e-14)
    assert float(found["en"] / (found["en"] + found["sw"])) == pytest.approx(0.84699, abs=1e-5)
    assert found["none"] == 0


def algorithm_1(counts: dict[str, int], budget: Fraction, epochs: int) -> dict[str, Fraction]:
    """UniMax as the paper prints it, line by line (Chung et al. 2023, algorithm 1), before it is normalised."""
    languages = sorted(counts, key=lambda language: counts[language])
    left, given = budget, {}
    for i, language in enumerate(languages):
        per_language = left / (len(languages) - i)
        most = Fraction(counts[language] * epochs)
        given[language] = most if per_language > most else per_language
        left -= given[language]
    return given


def test_unimax_by_hand_and_as_printed():
    # 1,000 windows, 4 epochs of 10, 50, 400 and 5,000: 40 (of 250), 200 (of 320), then 380 each.
    rooms = {"d": 20_000, "a": 40, "c": 1600, "b": 200}
    assert unimax(Fraction(1000), {name: Fraction(room) for name, room in rooms.items()}) == {
        "a": 40,
        "b": 200,
        "c": 380,
        "d": 380,
    }
    result = planned(
        {"weights": {"unimax": {"max_epochs": 4}}, "tokens": 10_000}, {"a": 10, "b": 50, "c": 400, "d": 5000}
    )
    assert drawn(result) == {"a": 40, "b": 200, "c": 380, "d": 380}
    assert [one["cap_hit"] for one in result["sources"].values()] == [True, True, False, False]
    assert result["warnings"] == []
    same = planned({"weights": "unimax", "max_epochs": 4, "tokens": 10_000}, {"a": 10, "b": 50, "c": 400, "d": 5000})
    assert drawn(same) == drawn(result)
    draw = random.Random(3)
    for _ in range(50):
        counts = {f"l{number}": draw.randint(1, 1000) for number in range(draw.randint(1, 9))}
        budget, epochs = Fraction(draw.randint(1, 20_000)), draw.randint(1, 9)
        assert unimax(budget, {name: Fraction(count * epochs) for name, count in counts.items()}) == algorithm_1(
            counts, budget, epochs
        )


def test_unimax_stops_where_all_epochs_are_spent():
    with pytest.raises(
        StageError, match="largest feasible budget is 18,400 tokens"
    ):  # 4 x (10 + 50 + 400) windows of 10
        planned({"weights": {"unimax": {"max_epochs": 4}}, "tokens": 100_000}, {"a": 10, "b": 50, "c": 400})
    result = planned({"weights": {"unimax": {"max_epochs": 4}}, "tokens": "up_to"}, {"a": 10, "b": 50, "c": 400})
    assert drawn(result) == {"a": 40, "b": 200, "c": 1600}


def test_a_rule_within_a_source():
    web = {"by": "language", "weight": 0.6, "groups": ["en", "pt", "sw"], "weights": {"unimax": {"max_epochs": 2}}}
    windows = {"web/en": 900, "web/pt": 300, "web/sw": 10, "web/rest": 50, "books": 500}
    # 60 % of 500: 300 over three languages; sw 20 of 100, then 140 each; `rest` is not named, so not drawn
    result = planned({"weights": {"web": web, "books": 0.4}, "tokens": 5000}, windows)
    assert drawn(result) == {"books": 200, "web/en": 140, "web/pt": 140, "web/rest": 0, "web/sw": 20}
    assert result["by_source"]["web"]["windows_drawn"] == 300
    proportional = planned(
        {"weights": {"web": {**web, "weights": "proportional"}, "books": 0.4}, "tokens": 5000},
        {**windows, "web/sw": 300},
    )
    assert drawn(proportional) == {"books": 200, "web/en": 180, "web/pt": 60, "web/rest": 0, "web/sw": 60}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"temperature": 0.7}, r"n\^\(1/temperature\).*write \{exponent: 0.7\}"),
        ({"temperature": 0}, "at least 1"),
        ({"temperature": "hot"}, "must be a number"),
        ({"exponent": 1.5}, "from 0 .* to 1"),
        ({"exponent": -0.1}, "from 0 .* to 1"),
        ({"unimax": {"max_epochs": 0}}, "above 0"),
        ({"unimax": {"epochs": 4}}, "epochs"),
        ({"unimax": 4}, "unimax is 4; write"),
        ({"web": {"by": 5, "weight": 1, "groups": ("a",)}}, "by is 5; write a column, or a list"),
        ("even", "'even' is no rule; write proportional, unimax"),
    ],
)
def test_rules_that_cannot_be_are_refused(weights, message):
    with pytest.raises(ValidationError, match=message):
        Mixture(weights=weights, tokens=1000)


# -- factors and axes --------------------------------------------------------------------------------------------------


def test_factors_multiply_what_there_is():
    # 60 and 40 windows, Portuguese twice: 60 : 80 of 70 windows.
    mixture = {"weights": {"web": 1}, "tokens": 700, "multiply": ({"by": "language", "factors": {"pt": 2}},)}
    result = planned(mixture, {"web/pt": 40, "web/rest": 60})
    assert drawn(result) == {"web/pt": 40, "web/rest": 30}
    assert {name: one["repeat"] for name, one in result["sources"].items()} == {"web/pt": 2, "web/rest": 1}
    assert result["sources"]["web/pt"]["cell"] == {"language": "pt"}


FACTORS = (
    {"by": "language", "factors": {"pt": 2, "*": 1}},
    {"by": "quality_bucket", "factors": {"best": {"of": "18-19", "factor": 3}, "17": 1, "*": 0}},
)
TWO_AXES = {
    "web/pt+best": 10,
    "web/pt+17": 20,
    "web/pt+rest": 500,
    "web/rest+best": 30,
    "web/rest+17": 50,
    "web/rest+rest": 900,
}


def test_two_axes_by_hand():
    # 10 x 6 + 20 x 2 + 30 x 3 + 50 x 1 = 60 + 40 + 90 + 50 = 240; the rest is left out
    result = planned(
        {
            "weights": {"web": 1, "books": 1},
            "tokens": 4800,
            "multiply": tuple({**one, "sources": ("web",)} for one in FACTORS),
        },
        {**TWO_AXES, "books": 240},
    )
    assert drawn(result) == {
        "books": 240, "web/pt+17": 40, "web/pt+best": 60, "web/pt+rest": 0,
        "web/rest+17": 50, "web/rest+best": 90, "web/rest+rest": 0,
    }  # fmt: skip
    assert result["by_axis"]["language"]["pt"]["windows_drawn"] == 100
    assert result["by_axis"]["quality_bucket"]["best"]["epochs"] == 150 / 40
    assert result["sources"]["web/pt+best"]["tokens_repeated"] == 500
    assert result["by_source"]["web"]["weight_realised"] == 0.5


def test_over_sources_repetitions_count_as_text():
    # web counts as 40 x 2 + 60 = 140, books as 70: two to one
    mixture = {
        "weights": "proportional",
        "tokens": 2100,
        "multiply": ({"by": "language", "factors": {"pt": 2}, "sources": ("web",)},),
    }
    assert drawn(planned(mixture, {"web/pt": 40, "web/rest": 60, "books": 70})) == {
        "books": 70,
        "web/pt": 80,
        "web/rest": 60,
    }


def test_weights_of_groups_on_several_axes_are_products():
    web = {
        "by": ("language", "quality_bucket"),
        "groups": {
            "language": {"en": {"weight": 3}, "pt": {"weight": 1}},
            "quality_bucket": {"best": {"of": "18-19", "weight": 0.7}, "rest": {"weight": 0.3}},
        },
    }  # fmt: skip
    windows = {f"web/{language}+{bucket}": 1000 for language in ("en", "pt", "rest") for bucket in ("best", "rest")}
    result = planned({"weights": {"web": web}, "tokens": 4000}, windows)
    assert list(drawn(result).values()) == [210, 90, 70, 30, 0, 0]
    assert ByLabel(**web).total() == 4


def test_a_factor_on_a_divided_source_names_its_groups():
    web = {"by": "topic", "weight": 1, "groups": {"law": {"of": ("law", "courts")}, "rest": {}}}
    mixture = {"weights": {"web": web}, "tokens": 1000, "multiply": ({"by": "topic", "factors": {"law": 4}},)}
    assert drawn(planned(mixture, {"web/law": 50, "web/rest": 200})) == {"web/law": 50, "web/rest": 50}


def test_the_sizes_of_clusters_leave_nothing_over():
    some = Multiply(by="cluster_size", factors={"1": 1, "2-4": 3, "5-": 5})
    assert list(some.axis().labels) == ["1", "2-4", "5-"]
    assert list(Multiply(by="cluster_size", factors={"2-4": 3}).axis().labels) == ["2-4", "rest"]
    assert list(Multiply(by="quality_bucket", factors={"1-": 1}).axis().labels) == ["1-", "rest"]


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({}, "factors is a mapping"),
        ({"pt": -1}, "the factor is -1"),
        ({"pt": True}, "the factor is True"),
        ({"*": 0, "pt": 0}, "0 for all labels"),
        ({"*": 1, "rest": 1}, "are the same here"),
        ({"1-3": 1, "3": 2}, "3 stands in two groups"),
        ({"law & order": 2}, "is no name of a group"),
    ],
)
def test_factors_that_cannot_be_are_refused(factors, message):
    with pytest.raises(ValidationError, match=message):
        Multiply(by="x", factors=factors)


# -- stages ------------------------------------------------------------------------------------------------------------


def test_stages_by_hand_with_draws_and_caps_that_go_on():
    mixture = {
        "weights": {"web": 3, "best": 1},
        "tokens": 2000,
        "max_epochs": {"best": 2},
        "stages": ({"until_tokens": 1200}, {"weights": {"best": 1, "web": 1}}),
    }
    # Stage 1, 120 windows: 90 and 30. Stage 2, 80 windows: 40 and 40; best may give 2 x 35 - 30 = 40 exactly.
    result = planned(mixture, {"web": 500, "best": 35})
    assert drawn(result, 0) == {"best": 30, "web": 90}
    assert drawn(result, 1) == {"best": 40, "web": 40}
    assert drawn(result) == {"best": 70, "web": 130}
    assert [(one["until_tokens"], one["num_slots"], one["order"]) for one in result["stages"]] == [
        (1200, 120, "shuffled"),
        (2000, 80, "shuffled"),
    ]
    assert result["sources"]["best"]["cap_hit"]
    assert result["sources"]["best"]["epochs"] == 2
    assert result["sources"]["best"]["weight_asked"] == result["sources"]["best"]["weight_normalised"] == 0.35
    assert (result["shortfall_tokens"], result["warnings"]) == (0, [])
    # One window less, and the cap takes one from the second stage.
    result = planned(mixture, {"web": 500, "best": 34})
    assert drawn(result, 1) == {"best": 38, "web": 42}
    assert result["shortfall_tokens"] == result["stages"][1]["shortfall_tokens"] == 20
    assert result["warnings"][0].startswith(
        "Stage 2: Source 'best' stops at its cap of 2 epochs: 380 tokens, 0.475 of stage 2 where 0.5"
    )


def test_an_anneal_by_factors_on_groups():
    mixture = {
        "weights": {"web": 1},
        "tokens": 1000,
        "multiply": ({"by": "quality_bucket", "factors": {"18-19": 1}},),
        "stages": ({"until_tokens": 800}, {"multiply": ({"by": "quality_bucket", "factors": {"18-19": 1, "*": 0}},)}),
    }
    result = planned(mixture, {"web/18-19": 40, "web/rest": 360})
    assert drawn(result, 0) == {"web/18-19": 8, "web/rest": 72}
    assert drawn(result, 1) == {"web/18-19": 20, "web/rest": 0}


def test_a_stage_may_weigh_streams():
    mixture = {
        "weights": {"web": {"by": "x", "groups": {"high": {"weight": 1}, "low": {"weight": 3}}}, "books": 0},
        "tokens": 1000,
        "stages": ({"until_tokens": 400}, {"weights": {"web/high": 2, "books": 1}}),
    }
    result = planned(mixture, {"web/high": 100, "web/low": 100, "web/rest": 9, "books": 50})
    assert drawn(result, 0) == {"books": 0, "web/high": 10, "web/low": 30, "web/rest": 0}
    assert drawn(result, 1) == {"books": 20, "web/high": 40, "web/low": 0, "web/rest": 0}


def test_a_shortfall_goes_first_where_nothing_was_shown_yet():
    # Stage 1 shows all 60 windows of a. Stage 2 asks 30 of a, b and c each; c has 5 and a cap of one epoch: of 25 that are
    # short, b gives 20 that were never shown; the last 5 are shared by a and b.
    mixture = {
        "weights": {"a": 1, "b": 1, "c": 1},
        "tokens": 1500,
        "max_epochs": {"c": 1},
        "stages": ({"until_tokens": 600, "weights": {"a": 1}}, {}),
    }
    result = planned(mixture, {"a": 60, "b": 50, "c": 5})
    assert drawn(result, 1) == {"a": 33, "b": 52, "c": 5}  # 32.5 and 52.5: equal remainders, the first name


def test_a_stage_that_caps_do_not_allow_names_the_most_it_can_have():
    mixture = {
        "weights": {"a": 1, "b": 1},
        "tokens": 2000,
        "max_epochs": 1,
        "stages": ({"until_tokens": 500}, {"weights": {"b": 1}}),
    }
    # b has 100 windows, of which stage 1 drew 25: stage 2 can have 75, so 125 in all.
    with pytest.raises(
        StageError, match=r"stage 2 of 2: .* need 150 windows, .* leave 75. The largest feasible budget is 1,250 tokens"
    ) as error:
        planned(mixture, {"a": 100, "b": 100})
    assert "Set mixture.tokens to 1250" in error.value.remedy
    assert planned({**mixture, "tokens": 1250}, {"a": 100, "b": 100})["num_slots"] == 125
    assert planned({**mixture, "tokens": {"up_to": 2000}}, {"a": 100, "b": 100})["num_slots"] == 125
    assert planned({**mixture, "tokens": "up_to"}, {"a": 100, "b": 100})["num_slots"] == 125
    with pytest.raises(StageError, match=r"stage 1 of 2: .*largest feasible end of stage 1 is 2,000 tokens") as error:
        planned({**mixture, "tokens": 3000, "stages": ({"until_tokens": 2500}, {})}, {"a": 100, "b": 100})
    assert "Set mixture.stages.0.until_tokens to 2000, or raise" in error.value.remedy
    with pytest.raises(StageError, match=r"stage 2 of 2: no source that it names has a whole window|leave 0"):
        planned(
            {**mixture, "stages": ({"until_tokens": 1000, "weights": {"b": 1}}, {"weights": {"b": 1}})},
            {"a": 100, "b": 100},
        )


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (({}, {}), "stage 1 of 2 has no until_tokens"),
        (({"until_tokens": 500}, {"until_tokens": 500}, {}), "stage 2 ends at 500 tokens, not after stage 1"),
        (({"until_tokens": 1000}, {}), "nothing is left for the next"),
        (({"until_tokens": 900},), "the last stage ends at 900 tokens, the budget is 1,000"),
        (({"until_tokens": 0}, {}), "no count"),
        (({"until_tokens": 10, "weights": {"a": 0}}, {}), "all weights are 0"),
        (({"until_tokens": 10, "weights": {"a": -1}}, {}), "at least 0"),
    ],
)
def test_stages_that_cannot_be_are_refused(stages, message):
    with pytest.raises(ValidationError, match=message):
        Mixture(weights={"a": 1}, tokens=1000, stages=stages)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.none() | st.floats(0.1, 5)), min_size=1, max_size=5),
    st.lists(
        st.tuples(st.integers(10, 3000), st.lists(st.integers(0, 5), min_size=5, max_size=5)), min_size=1, max_size=4
    ),
)
def test_whatever_stages_ask_they_add_up_and_nobody_below_his_cap_falls_short(sources, stages):
    names = [f"s{number}" for number in range(len(sources))]
    written, end = [], 0
    for length, weights in stages:
        end += length
        if not any(weights[: len(names)]):
            return
        written.append({"until_tokens": end, "weights": dict(zip(names, weights, strict=False))})
    caps = {name: cap for name, (_, cap) in zip(names, sources, strict=True) if cap is not None}
    windows = {name: count for name, (count, _) in zip(names, sources, strict=True)}
    mixture = {"weights": dict.fromkeys(names, 1), "tokens": end, "max_epochs": caps or None, "stages": tuple(written)}
    try:
        result = planned(mixture, windows)
    except StageError:
        return
    before, slots = dict.fromkeys(names, 0), 0
    for stage, (_, weights) in zip(result["stages"], stages, strict=True):
        assert stage["num_slots"] == sum(one["windows_drawn"] for one in stage["sources"].values())
        slots += stage["num_slots"]
        assert slots == stage["until_tokens"] // WINDOW
        for name, weight in zip(names, weights, strict=False):
            one = stage["sources"][name]["windows_drawn"]
            most = math.floor(Fraction(repr(caps[name])) * windows[name]) if name in caps else None
            assert most is None or before[name] + one <= most
            if windows[name] and (most is None or before[name] + one < most):
                assert one >= math.floor(stage["num_slots"] * weight / sum(weights[: len(names)]))
            before[name] += one
    assert before == drawn(result)


def test_many_warnings_of_a_kind_are_told_as_one():
    # 20 sources of one window each, asked for 50 each: all stop at their caps but the one without.
    names = [f"s{number:02}" for number in range(20)]
    mixture = {"weights": dict.fromkeys([*names, "big"], 1), "tokens": 10_500, "max_epochs": dict.fromkeys(names, 2)}
    warnings = planned(mixture, {**dict.fromkeys(names, 1), "big": 2000})["warnings"]
    assert [text.split(" stops")[0] for text in warnings[1:4]] == ["Source 's00'", "Source 's01'", "Source 's02'"]
    assert warnings[4] == "So stop at their caps 17 more; the numbers of each are in mixture.json."
    assert len(warnings) == 5


def test_as_water_fills_vessels():
    # 100 over weights 1, 2, 2 with limits 10, 30 and none: 20 each weight; 10 full, 90 by 2 : 2: 45, 30 full, 60 left
    weights = {"a": Fraction(1), "b": Fraction(2), "c": Fraction(2)}
    assert fill(Fraction(100), weights, {"a": Fraction(10), "b": Fraction(30), "c": None}) == {
        "a": 10,
        "b": 30,
        "c": 60,
    }
    assert fill(Fraction(100), weights, {"a": Fraction(10), "b": Fraction(30), "c": Fraction(40)}) == {
        "a": 10,
        "b": 30,
        "c": 40,
    }


def test_a_tokenizers_sample_follows_the_rule():
    sizes = {"a": 100, "b": 10_000}
    assert sample_weights(Mixture(weights="proportional", tokens=1000), sizes) == {"a": 100, "b": 10_000}
    assert sample_weights(Mixture(weights={"exponent": 0.5}, tokens=1000), sizes) == {"a": 10, "b": 100}
    staged = Mixture(weights={"a": 1, "b": 1}, tokens=1000, stages=({"until_tokens": 600}, {"weights": {"b": 1}}))
    assert sample_weights(staged, sizes) == {"a": 1200, "b": 2800}  # bytes, 4 a token: 600 / 2, and 600 / 2 + 400


# -- recipes and the command -------------------------------------------------------------------------------------------


def recipe(folder: Path, mixture: str) -> Path:
    for source, size in (("web", 4000), ("books", 1000)):
        machine.write_jsonl(folder / "in" / source / "0.jsonl", [{"text": "x" * (size - len('{"text": ""}\n'))}])
    path = folder / "recipe.yaml"
    path.write_text(
        f"""name: planned
seed: 4
sources:
  web:
    read: {{kind: jsonl, paths: in/web/*.jsonl}}
    steps: [{{language: {{min_score: off}}}}, {{gopher_quality: {{}}}}, {{quality_buckets: {{scores: num_words}}}}]
  books: {{read: {{kind: jsonl, paths: in/books/*.jsonl}}}}
tokenizer: {{train: {{kind: sentencepiece, vocab_size: 400}}}}
mixture: {{window: 10, {mixture}}}
"""
    )
    return path


DIVIDED = (
    "{by: [language, quality_bucket], weight: 1, groups: {language: [en, pt], quality_bucket: {best: {of: 18-19}}}}"
)


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        ("weights: unimax, tokens: 1k", "has no max_epochs"),
        ("weights: {temperature: 0.7}, tokens: 1k", "write {exponent: 0.7}"),
        ("weights: {temperature: 2, web: 1}, tokens: 1k", "is a rule, which stands alone"),
        ("weights: proportional, tokens: up_to", "no max_epochs for web, books"),
        ("weights: {web: 1}, tokens: 1k, order: inptu", "order"),
        (
            "weights: {web: 1}, tokens: 1k, multiply: [{by: quality_bucket, factors: {18-19: 2}}]",
            r"sources: \[web\]",
        ),
        ("weights: {web: 1}, tokens: 1k, multiply: [{by: lang, factors: {pt: 2}}]", "did you mean 'language'"),
        (
            "weights: {web: 1}, tokens: 1k, multiply: [{by: language, factors: {pt: 2}, sources: [wbe]}]",
            "did you mean 'web'",
        ),
        (
            "weights: {web: 1}, tokens: 1k, multiply: [{by: language, factors: {pt: 2}}, {by: language, factors: {en: 2}}]",
            "a second time",
        ),
        (
            f"weights: {{web: {DIVIDED}}}, tokens: 1k, multiply: [{{by: language, factors: {{de: 2}}}}]",
            "'de' is no group by language; its groups: en, pt, rest",
        ),
        (
            "weights: {web: 1}, tokens: 1k, stages: [{until_tokens: 500}, {weights: {wbe: 1}}]",
            "did you mean 'web'",
        ),
        (
            f"weights: {{web: {DIVIDED}}}, tokens: 1k, stages: [{{until_tokens: 500}}, {{weights: {{web/pt+bets: 1}}}}]",
            r"did you mean 'web/pt\+best'",
        ),
        (
            "weights: {web: 1}, tokens: 1k, stages: [{until_tokens: 500}, {multiply: [{by: topic, factors: {law: 1}}]}]",
            "no source is divided by 'topic'",
        ),
        ("weights: {web: {by: [language, language], groups: {}}}, tokens: 1k", "twice|at least 1"),
        (
            "weights: {web: {by: [language, quality_bucket], weight: 1, groups: {language: [en]}}}, tokens: 1k",
            "groups has the groups of each",
        ),
        (
            "weights: {web: {by: language, weight: 1, groups: {en: {weight: 1}}}}, tokens: 1k",
            "its groups have weights, too",
        ),
        ("weights: {web: {by: language, groups: [en, pt]}}, tokens: 1k", "a group has no weight"),
        ("weights: {web: 1}, tokens: 1k, max_epochs: {web/pt: 2}", "'web/pt' is no source"),
        (
            "weights: {web: {by: language, groups: {en: {weight: 1}, pt: {weight: 0}}}, books: 1}, tokens: 1k, "
            "stages: [{until_tokens: 500}, {multiply: [{by: language, factors: {en: 0}}]}]",
            "leave nothing of web to draw",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path, mixture, message):
    with pytest.raises(RecipeError, match=message) as error:
        load(recipe(tmp_path, mixture))
    assert {(problem.file, problem.line) for problem in error.value.problems} == {(str(tmp_path / "recipe.yaml"), 9)}


def test_too_many_cells_are_refused_with_their_number(tmp_path):
    labels = ", ".join(f"l{number}: 2" for number in range(63))
    text = (
        f"weights: {{web: 1}}, tokens: 1k, multiply: [{{by: language, factors: {{{labels}}}, sources: [web]}}, "
        "{by: quality_bucket, factors: {B}, sources: [web]}]"
    )
    assert (
        load(recipe(tmp_path, text.replace("{B}", "{1: 1, 2: 2, 3: 3}"))).mixture.num_cells("web")
        == 64 * 4
        == MOST_CELLS
    )
    with pytest.raises(
        RecipeError, match=r"divides web into 320 streams \(64 by language x 5 by quality_bucket\); at most 256"
    ):
        load(recipe(tmp_path, text.replace("{B}", "{1: 1, 2: 2, 3: 3, 4: 4}")))


def test_the_resolved_recipe_loads_back(tmp_path):
    written = load(
        recipe(
            tmp_path,
            f"weights: {{web: {DIVIDED}, books: 1}}, tokens: 1k, multiply: [{{by: language, factors: {{pt: 2, '*': 1}}, "
            "sources: [web]}], stages: [{until_tokens: 500}, {weights: {unimax: {max_epochs: 3}}}]",
        )
    )
    (tmp_path / "again.yaml").write_text(written.as_yaml())
    assert load(tmp_path / "again.yaml") == written


def test_the_command_plans_from_stated_tokens(tmp_path, capsys):
    path = recipe(tmp_path, "weights: {web: 3, books: 1}, tokens: 1k, max_epochs: 2")
    result = plan(path, budget="400", available="web=2k, books=21")
    assert (result["tokens"], result["available"]) == (400, "as stated")
    assert {name: one["windows_drawn"] for name, one in result["sources"].items()} == {"books": 4, "web": 36}
    for wrong, message in (
        ("web=1k", "says nothing of books"), ("web", "write source=tokens"), ("wbe=1k,books=1", "did you mean 'web'"),
        ("web=1k,web=2k,books=1", "stated twice"), ("web=lots,books=1", "no count"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            plan(path, available=wrong)
    with pytest.raises(UsageError, match="--budget"):
        plan(path, budget="lots")
    with pytest.raises(StageError, match="largest feasible"):
        plan(path, budget="1M", available="web=2k,books=1k")
    told = machine.command("mixture", "plan", str(path), "--budget", "400", "--available", "web=2k,books=21", "--json")
    assert (told.returncode, json.loads(told.stdout)) == (0, result)
    told = machine.command("mixture", "plan", str(path), "--budget", "1M", "--available", "web=2k,books=1k")
    assert told.returncode == 1
    assert "The largest feasible budget is 5,960 tokens" in told.stderr  # 2 x (199 + 99) windows of 10


def test_the_command_estimates_from_the_inputs_and_says_so(tmp_path):
    result = plan(recipe(tmp_path, "weights: {web: 3, books: 1}, tokens: 1k, max_epochs: 2"))
    assert {name: one["tokens_available"] for name, one in result["sources"].items()} == {"web": 1000, "books": 250}
    assert "estimated: bytes of the input files / 4" in result["available"]
    with pytest.raises(UsageError, match=r"into 6 streams, .*The inputs do not tell.*--available web/en\+best=1T"):
        plan(recipe(tmp_path, f"weights: {{web: {DIVIDED}}}, tokens: 1k"))


def test_ten_trillion_tokens_of_hundreds_of_cells_add_up():
    # That it takes no time is measured (benchmarks/bench_mixture.py); here it is only done, and adds up.
    draw = random.Random(1)
    factors = {f"l{number}": draw.randint(1, 9) / 4 for number in range(49)}
    mixture = Mixture(
        weights={f"s{number}": draw.random() for number in range(4)}, tokens="10T", max_epochs=40,
        multiply=({"by": "language", "factors": factors},),
        stages=({"until_tokens": "8T"}, {"weights": "unimax"}),
    )  # fmt: skip
    available = {name: draw.randint(10**9, 10**11) for name in mixture.streams([f"s{number}" for number in range(4)])}
    result = plan_mixture(mixture, available, window=4096, seed=1)
    assert len(result["sources"]) == 200
    assert result["num_slots"] == 10**13 // 4096 == sum(drawn(result).values())
    assert sum(drawn(result, 0).values()) == 8 * 10**12 // 4096
    for one in result["sources"].values():
        assert one["windows_drawn"] <= 40 * one["windows_available"]
    json.dumps(result, allow_nan=False)
