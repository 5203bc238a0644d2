import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from curate.errors import StageError
from curate.mix.plan import plan_mixture
from curate.mix.settings import Mixture
from curate.tokens.order import BLOCK_SLOTS, Plan

WINDOW = 10


def stream(documents, tokens):
    """Return the tokens of a source: each document and its EOS."""
    return documents * (tokens + 1)


def plan(weights, available, *, tokens, window=WINDOW, seed=5, **options):
    return plan_mixture(Mixture(weights=weights, tokens=tokens, **options), available, window=window, seed=seed)


def column(mixture, name):
    return {source: entry[name] for source, entry in mixture["sources"].items()}


def test_weights_are_normalised_and_both_are_stated():  # case mix-001
    mixture = plan({"a": 2, "b": 1, "c": 1}, dict.fromkeys("abc", stream(5000, 100)), tokens=400_000)
    assert column(mixture, "weight_asked") == {"a": 2, "b": 1, "c": 1}
    assert column(mixture, "weight_normalised") == {"a": 0.5, "b": 0.25, "c": 0.25}
    assert column(mixture, "windows_drawn") == {"a": 20_000, "b": 10_000, "c": 10_000}
    assert column(mixture, "weight_realised") == {"a": 0.5, "b": 0.25, "c": 0.25}
    assert mixture["unit"] == "token"
    assert mixture["warnings"] == []


TINY = {"tiny": stream(10, 100), "big": stream(100_000, 100)}  # 1,010 tokens: 100 whole windows


def test_a_capped_source_stops_and_the_others_make_up_for_it():  # case mix-002
    mixture = plan({"tiny": 0.5, "big": 0.5}, TINY, tokens=1_000_000, max_epochs=4)
    tiny = mixture["sources"]["tiny"]
    assert (tiny["windows_available"], tiny["windows_drawn"], tiny["tokens_drawn"]) == (100, 400, 4000)
    assert (tiny["epochs"], tiny["cap_hit"]) == (4.0, True)
    assert mixture["sources"]["big"]["windows_drawn"] == 99_600
    assert mixture["sources"]["big"]["cap_hit"] is False
    assert mixture["shortfall_tokens"] == 500_000 - 4000
    taking_over, stopping = mixture["warnings"]
    assert "'tiny' stops at its cap of 4 epochs" in stopping
    assert "0.004 of the mixture where 0.5 was asked" in stopping
    assert taking_over == "Source 'big' gives 0.996 of the mixture where 0.5 was asked, as others fall short."


def test_without_a_cap_a_repeat_is_allowed_with_its_factor():  # case mix-002
    mixture = plan({"tiny": 0.5, "big": 0.5}, TINY, tokens=1_000_000)
    assert column(mixture, "windows_drawn") == {"big": 50_000, "tiny": 50_000}
    (warning,) = mixture["warnings"]
    assert "'tiny' is repeated: 500 epochs" in warning
    assert mixture["shortfall_tokens"] == 0


@pytest.mark.parametrize(
    ("cap", "drawn", "hit"),
    [(4.99, 499, True), (5, 500, True), (5.01, 500, False)],  # asked for exactly 500 windows, five epochs
)
def test_a_cap_on_both_sides_of_what_is_asked(cap, drawn, hit):
    mixture = plan({"tiny": 0.5, "big": 0.5}, TINY, tokens=10_000, max_epochs={"tiny": cap})
    assert mixture["sources"]["tiny"]["windows_drawn"] == drawn
    assert mixture["sources"]["tiny"]["cap_hit"] is hit
    assert mixture["num_slots"] == 1000


def test_a_source_that_reaches_its_cap_by_taking_over_says_so():
    available = {"a": 601, "b": 701, "gone": 0}  # caps of 120 and 140 windows: 260 in all
    mixture = plan({"a": 1, "b": 1, "gone": 1}, available, tokens=2600, max_epochs=2)  # asked 86.7 each
    assert column(mixture, "windows_drawn") == {"a": 120, "b": 140, "gone": 0}
    assert column(mixture, "cap_hit") == {"a": True, "b": True, "gone": False}
    assert mixture["shortfall_tokens"] == 867
    assert [warning for warning in mixture["warnings"] if "'a'" in warning] == [
        "Source 'a' gives 0.4615 of the mixture where 0.3333 was asked, as others fall short, and is at its cap of 2 epochs."
    ]


@pytest.mark.parametrize(("tiny", "warned"), [(49, True), (51, False)])
def test_taking_over_is_warned_about_above_one_hundredth_of_the_mixture(tiny, warned):
    # 10,000 windows, asked 150 of tiny, which gives 49 or 51 at one epoch: big gives 101 or 99 more, above or below 100.
    mixture = plan(
        {"tiny": 0.015, "big": 0.985}, {"tiny": tiny * 10 + 1, "big": 1_000_001}, tokens=100_000, max_epochs=1
    )
    assert any("'big' gives" in warning for warning in mixture["warnings"]) is warned


def test_a_source_of_weight_zero_is_never_drawn():  # case mix-003
    mixture = plan({"a": 1.0, "off": 0}, dict.fromkeys(("a", "off"), stream(100, 100)), tokens=8000)
    assert column(mixture, "weight_realised") == {"a": 1.0, "off": 0.0}
    loaded = Plan.load(mixture)
    sources, _ = loaded.slots(np.arange(loaded.num_slots))
    assert {loaded.names[index] for index in sources} == {"a"}
    assert mixture["warnings"] == []


@pytest.mark.parametrize(
    ("groups", "more", "forgotten"),
    [
        ({"py": {}}, {}, ["c"]),
        ({"py": {"weight": 1}}, {}, ["c"]),
        ({"py": {}, "c": {}}, {}, []),
        ({"py": {"weight": 1}, "c": {"weight": 0}}, {}, []),  # the recipe says so
        ({"py": {}}, {"multiply": ({"by": "lang", "factors": {"py": 1, "*": 0}},)}, []),
        ({"py": {}}, {"stages": ({"until_tokens": 500}, {"weights": {"code/py": 1}})}, ["c"]),
        ({"py": {}}, {"stages": ({"until_tokens": 500}, {"weights": {"code/py": 1, "code/rest": 1}})}, []),
        ({"py": {}, "c": {}}, {"stages": ({"weights": {"code/py": 1}},)}, ["c"]),
        ({"py": {}, "c": {}}, {"stages": ({"weights": {"code/py": 1, "code/rest": 0}},)}, []),
    ],
)  # fmt: skip
def test_groups_that_the_recipe_forgets_are_told(groups, more, forgotten):
    # Of the group `rest`, here called c, are 40 windows and a token behind them.
    groups = {("rest" if name == "c" else name): one for name, one in groups.items()}
    code = {"by": "lang", "groups": groups} | ({} if "weight" in groups["py"] else {"weight": 1})
    mixture = plan({"code": code}, {"code/py": 1001, "code/rest": 401}, tokens=1000, **more)
    told = "Group 'code/rest' has no weight and is never drawn: 401 tokens."
    assert [one for one in mixture["warnings"] if "never drawn" in one] == ([told] if forgotten else [])


def test_values_below_a_table_of_repetitions_are_told():
    code = {"by": "stars", "weight": 1, "repeat": {"5": 0, "10": 2}}
    mixture = plan({"code": code}, {"code/5-9": 501, "code/10-": 901, "code/rest": 31}, tokens=1000)
    assert [one for one in mixture["warnings"] if "never drawn" in one] == [
        "Group 'code/rest' has no weight and is never drawn: 31 tokens."
    ]


def test_weights_count_tokens_not_documents():  # case mix-004
    mixture = plan(
        {"long": 0.5, "short": 0.5}, {"long": stream(1000, 1000), "short": stream(100_000, 10)}, tokens=200_000
    )
    assert column(mixture, "tokens_drawn") == {"long": 100_000, "short": 100_000}


def test_an_empty_source_makes_nobody_repeat_while_there_is_fresh_text():  # case mix-005
    available = {"a": stream(3, 100), "b": stream(2, 100), "gone": 0}  # 30, 20 and no windows
    mixture = plan({"a": 0.5, "b": 0.25, "gone": 0.25}, available, tokens=500, seed=17)
    # Asked 25, 12.5, 12.5. Sharing in proportion to weight alone would give a 33 of its 30 windows, a repeat.
    assert column(mixture, "windows_drawn") == {"a": 30, "b": 20, "gone": 0}
    assert mixture["shortfall_tokens"] == 125
    taking_over_a, taking_over_b, empty = mixture["warnings"]
    assert "'gone' is empty" in empty
    assert "'a' gives 0.6 of the mixture where 0.5 was asked" in taking_over_a
    assert "'b' gives 0.4 of the mixture where 0.25 was asked" in taking_over_b
    loaded = Plan.load(mixture)
    shown = [loaded.slot(g) for g in range(loaded.num_slots)]
    assert len(set(shown)) == len(shown) == 50


def test_a_shortfall_beyond_fresh_text_is_shared_in_proportion_to_weight():
    # Asked 50, 25 and 25 (gone): a gets 50, b its 40 fresh windows at most; gone's 25 go first to b (15), then 2 : 1 to
    # both: 10 more, 6.67 and 3.33, rounded to 57 and 43.
    mixture = plan({"a": 2, "b": 1, "gone": 1}, {"a": 301, "b": 401, "gone": 5}, tokens=1000)
    assert column(mixture, "windows_drawn") == {"a": 57, "b": 43, "gone": 0}
    assert any("'gone' has no whole window of 10 tokens" in warning for warning in mixture["warnings"])


def test_the_same_seed_gives_the_same_order_and_another_another():  # case mix-006
    available = {"a": stream(500, 10), "b": stream(500, 10)}

    def order(seed):
        mixture = plan({"a": 0.7, "b": 0.3}, available, tokens=6000, seed=seed)
        loaded = Plan.load(json.loads(json.dumps(mixture)))
        return [loaded.slot(g) for g in range(loaded.num_slots)]

    assert order(5) == order(5)
    assert order(5) != order(6)


@pytest.mark.parametrize(
    ("weights", "mentions"),
    [
        ({"a": -1}, "-1"),
        ({"a": float("nan")}, "nan"),
        ({"a": float("inf")}, "inf"),
        ({"a": "0.5"}, "'0.5'"),
        ({"a": None}, "None"),
        ({"a": True}, "True"),
        ({"a": 0, "b": 0}, "a: 0.*b: 0"),
        ({}, "at least 1"),
    ],
)
def test_bad_weights_are_refused_with_source_and_value(weights, mentions):  # case mix-007
    with pytest.raises(ValidationError, match=mentions) as error:
        Mixture(weights=weights, tokens=1000)
    where = [part for part in error.value.errors()[0]["loc"] if not str(part).startswith("<")]  # tags of unions
    assert where[:2] == ["weights", "a"] or where == ["weights"]


@pytest.mark.parametrize("cap", [0, -1, float("nan"), "4", True, {"a": 0}])
def test_bad_caps_are_refused(cap):
    with pytest.raises(ValidationError, match="max_epochs"):
        Mixture(weights={"a": 1}, tokens=1000, max_epochs=cap)


@pytest.mark.parametrize(("written", "budget"), [("1M", 1_000_000), ("20k", 20_000), (1e6, 1_000_000), (7, 7)])
def test_a_budget_as_written(written, budget):
    assert Mixture(weights={"a": 1}, tokens=written).tokens == budget


@pytest.mark.parametrize("written", [0, "many", -1, {"up_to": 0}, {"at_most": 5}, None])
def test_a_budget_that_is_no_count_is_refused(written):
    with pytest.raises(ValidationError, match="tokens"):
        Mixture(weights={"a": 1}, tokens=written)


SMALL = {"a": 1001, "b": 501}  # 100 and 50 windows; at two epochs 200 and 100


def test_a_budget_over_all_caps_stops_and_names_the_largest_feasible():
    assert plan({"a": 1, "b": 1}, SMALL, tokens=3000, max_epochs=2)["num_slots"] == 300
    with pytest.raises(
        StageError, match="largest feasible budget is 3,000 tokens; with every weight as asked, 2,000"
    ) as error:
        plan({"a": 1, "b": 1}, SMALL, tokens=3010, max_epochs=2)
    assert "Set mixture.tokens to 3000" in error.value.remedy


@pytest.mark.parametrize(
    ("tokens", "slots"), [("up_to", 300), ({"up_to": 3010}, 300), ({"up_to": "3k"}, 300), ({"up_to": 2990}, 299)]
)
def test_a_budget_that_gives_way_takes_what_the_caps_allow(tokens, slots):
    assert plan({"a": 1, "b": 1}, SMALL, tokens=tokens, max_epochs=2)["num_slots"] == slots


def test_up_to_needs_a_cap_for_each_source_that_is_drawn():
    with pytest.raises(ValidationError, match="no max_epochs for b"):
        Mixture(weights={"a": 1, "b": 1}, tokens="up_to", max_epochs={"a": 2})
    mixture = plan({"a": 1, "b": 0}, SMALL, tokens="up_to", max_epochs={"a": 2})
    assert column(mixture, "windows_drawn") == {"a": 200, "b": 0}
    # With a number there is no need: the uncapped source takes the rest.
    mixture = plan({"a": 1, "b": 1}, SMALL, tokens={"up_to": 5000}, max_epochs={"a": 2})
    assert column(mixture, "windows_drawn") == {"a": 200, "b": 300}


@pytest.mark.parametrize(("tokens", "works"), [(9, False), (10, True)])
def test_a_budget_below_one_window_stops(tokens, works):
    if works:
        assert plan({"a": 1}, SMALL | {"b": 0}, tokens=tokens)["num_slots"] == 1
    else:
        with pytest.raises(StageError, match="less than one window of 10 tokens"):
            plan({"a": 1}, SMALL, tokens=tokens)


@pytest.mark.parametrize(
    ("tokens", "works"), [(10, False), (11, True)]
)  # the last target is the token behind the window
def test_without_a_whole_window_the_run_stops(tokens, works):
    if works:
        assert plan({"a": 1}, {"a": tokens}, tokens=20)["num_slots"] == 2
    else:
        with pytest.raises(StageError, match="no source has a whole window"):
            plan({"a": 1}, {"a": tokens}, tokens=20)


def test_shares_are_rounded_by_largest_remainders():
    # 10 windows of 0.6 : 0.25 : 0.15 are 6, 2.5, 1.5: two equal remainders, one window, the first name
    mixture = plan(
        {"web": 0.6, "code": 0.25, "books": 0.15}, dict.fromkeys(("web", "code", "books"), 10_001), tokens=109
    )
    assert column(mixture, "windows_drawn") == {"books": 2, "code": 2, "web": 6}
    assert (mixture["tokens_asked"], mixture["tokens"], mixture["num_slots"]) == (109, 100, 10)


def test_a_share_below_one_window_is_named():
    mixture = plan({"a": 1000, "b": 1}, SMALL, tokens=100)
    assert column(mixture, "windows_drawn") == {"a": 10, "b": 0}
    assert mixture["warnings"] == ["Source 'b' gives nothing: its share is less than one window of 10 tokens."]


def test_a_source_that_no_weight_names_is_named():
    assert plan({"a": 1}, SMALL, tokens=100)["warnings"] == ["Source 'b' has no weight and is never drawn."]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(0, 5000), st.none() | st.floats(0.1, 6)), min_size=1, max_size=6),
    st.integers(1, 60_000),
)
def test_whatever_is_asked_the_plan_adds_up_and_keeps_the_caps(sources, limit):
    weights = {f"s{number}": weight for number, (weight, _, _) in enumerate(sources)}
    available = {f"s{number}": tokens for number, (_, tokens, _) in enumerate(sources)}
    caps = {f"s{number}": cap for number, (_, _, cap) in enumerate(sources) if cap is not None}
    if not any(weights.values()):
        return
    try:
        mixture = plan(weights, available, tokens={"up_to": limit}, max_epochs=caps)
    except StageError:
        assert limit < WINDOW or all(
            not weights[name] or tokens <= WINDOW or (tokens - 1) // WINDOW * caps.get(name, 1e9) < 1
            for name, tokens in available.items()
        )
        return
    loaded = Plan.load(json.loads(json.dumps(mixture)))
    assert loaded.num_slots == mixture["num_slots"] == sum(column(mixture, "windows_drawn").values())
    assert loaded.block == BLOCK_SLOTS
    for name, entry in mixture["sources"].items():
        assert entry["windows_drawn"] <= caps.get(name, 1e9) * entry["windows_available"] + 1e-9
        if not weights[name]:
            assert entry["windows_drawn"] == 0
    # Nobody repeats because of another's shortfall while a source that may give more has fresh windows left.
    idle = [
        name
        for name, entry in mixture["sources"].items()
        if weights[name] and entry["windows_drawn"] < min(1, caps.get(name, 1)) * entry["windows_available"] - 1
    ]
    if idle:
        for entry in mixture["sources"].values():
            asked = entry["weight_normalised"] * mixture["num_slots"]
            assert entry["windows_drawn"] <= max(asked, entry["windows_available"]) + 1


def test_a_larger_weight_never_gives_less():
    drawn = [
        plan({"a": weight, "b": 1}, SMALL, tokens=1000)["sources"]["a"]["windows_drawn"]
        for weight in (0, 0.1, 0.5, 1, 2, 9)
    ]
    assert all(before <= after for before, after in pairwise(drawn))
    assert drawn[0] == 0


def test_settings_load_without_heavy_libraries():
    code = (
        "import sys, curate.mix.settings; print([m for m in ('numpy', 'pyarrow', 'sentencepiece') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
