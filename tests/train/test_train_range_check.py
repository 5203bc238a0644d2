from __future__ import annotations

import json
import math

import numpy as np
import pytest

from train.__main__ import main
from train.config import ConfigError, load
from train.range_check import Regime, analyse, check, table

# 20 rates a decade, from 1e-6 to 1
RATES = [10 ** (-6 + step / 20) for step in range(121)]


def curve(*corners, rates=RATES):
    """Losses on straight lines between corners (index, loss)."""
    return np.interp(np.arange(len(rates)), *zip(*corners, strict=True)).tolist()


# Flat to 1e-4, falls from 8 to 4 until 1e-2, flat to 1e-1, then rises by 0.5 at each rate.
TYPICAL = curve((0, 8), (40, 8), (80, 4), (100, 4), (120, 14))


def bounds(finding):
    """Regimes by name, bounds as indices."""
    index = {rate: at for at, rate in enumerate(RATES)}
    return {one.name: (index[one.low], index[one.high]) for one in finding.regimes}


def near(found, expected):
    """Whether regimes end where they should, but for what smoothing blurs: 4 rates to both sides, a fifth of a decade."""
    return found.keys() == expected.keys() and all(
        abs(a - b) <= 4 for name in expected for a, b in zip(found[name], expected[name], strict=True)
    )


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_four_regimes_of_a_typical_curve(noise):
    losses = (np.array(TYPICAL) + np.random.default_rng(0).normal(0, noise, len(TYPICAL))).tolist()
    finding = analyse(RATES, losses)
    # The fall is 4, 5 % of it 0.2: below 7.8 from index 42, at 4.2 from 78; above 8.4, 5 % more than the start, from 109.
    assert near(bounds(finding), {"too low": (0, 41), "good": (42, 78), "too high": (79, 108), "diverged": (109, 120)})
    assert list(bounds(finding)) == ["too low", "good", "too high", "diverged"]
    assert RATES[97] <= finding.rises_at <= RATES[104]  # 0.2 above 4 at 100.4
    assert RATES[42] <= finding.suggested <= RATES[78]
    assert [finding.regime_of(rate) for rate in (1e-5, 1e-3, 5e-2, 0.9)] == ["too low", "good", "too high", "diverged"]
    assert finding.regime_of(1e-7) == finding.regime_of(2.0) == "not checked"


def test_the_suggestion_is_where_the_loss_falls_fastest():
    losses = curve((0, 8), (40, 8), (60, 7), (66, 4), (80, 3.8), (90, 3.8), (120, 20))
    assert RATES[60] <= analyse(RATES, losses).suggested <= RATES[66]


def test_the_suggestion_is_at_most_a_third_of_where_the_loss_rises():
    finding = analyse(RATES, curve((0, 8), (60, 7.5), (70, 3), (72, 3), (120, 40)))
    assert finding.suggested == finding.rises_at / 3


def test_a_loss_that_is_no_number_has_diverged():
    for last in (math.nan, math.inf):
        finding = analyse(RATES, [*TYPICAL[:95], last])
        # Until index 94 the loss is 4: it has fallen, and never rises to a number.
        assert near(bounds(finding), {"too low": (0, 41), "good": (42, 78), "too high": (79, 94), "diverged": (95, 95)})
        assert bounds(finding)["diverged"] == (95, 95)
        assert finding.rises_at == RATES[95]


def test_a_sweep_that_ends_while_the_loss_falls_suggests_nothing():
    for losses in (curve((0, 8), (40, 8), (120, 4)), curve((0, 8), (40, 8), (80, 4), (120, 4))):
        finding = analyse(RATES, losses)
        assert [one.name for one in finding.regimes] == ["too low", "good"]
        assert finding.suggested is None
        assert "raise --high" in finding.remedy()


def test_a_loss_that_never_falls():
    noise = np.random.default_rng(1).normal(0, 0.1, len(RATES))
    finding = analyse(RATES, (8 + noise).tolist())
    assert finding.regimes == (Regime("too low", RATES[0], RATES[-1]),)
    assert (finding.suggested, finding.rises_at) == (None, None)
    finding = analyse(RATES, [8.0, 9.0, 12.0, 30.0])
    assert finding.regimes[-1].name == "diverged"
    assert {one.name for one in finding.regimes} <= {"too high", "diverged"}
    assert "lower --low" in finding.remedy()
    assert analyse(RATES, [math.nan]).regimes == (Regime("diverged", RATES[0], RATES[0]),)


def test_the_table_shows_rate_loss_and_regime():
    finding = analyse(RATES, TYPICAL)
    lines = table(RATES, TYPICAL, finding).splitlines()[1:]
    assert len(lines) == 25
    # Every fifth rate; the bar of 40 characters is full at 1.25 times the first loss, 10.
    assert lines[0].split() == ["1.00e-06", "8.0000", "#" * 32, "too", "low"]
    assert lines[17].split() == ["1.78e-02", "4.0000", "#" * 16, "too", "high"]
    broken = [*TYPICAL[:95], math.nan]
    assert table(RATES, broken, analyse(RATES, broken)).splitlines()[-1].split()[1:3] == ["no", "number"]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_regimes_of_a_tiny_model_come_in_order(make_folder, capsys, optimizer):
    path = make_folder(steps=120).config("a", optimizer=optimizer)
    assert main(["lr-range", str(path), "--low", "1e-6", "--high", "100", "--steps", "120"]) == 0
    written = json.loads((path.parent / "lr_range.json").read_text())
    assert [one["name"] for one in written["regimes"]] == ["too low", "good", "too high", "diverged"]
    edges = [rate for one in written["regimes"] for rate in (one["low"], one["high"])]
    assert edges == sorted(edges)
    good = written["regimes"][1]
    assert good["low"] <= written["suggested"] <= good["high"]
    assert written["configured"] == {"rate": 0.01, "regime": "good"}
    assert written["losses"][0] == pytest.approx(4.16, abs=0.05)  # ln 64: knows nothing
    out = capsys.readouterr().out
    assert "the configured rate 1.00e-02 is good" in out
    assert f"suggested {written['suggested']:.2e}" in out
    assert sorted(file.name for file in path.parent.iterdir()) == ["config.json", "lr_range.json"]
    again = check(load(path), low=1e-6, high=100.0, steps=120)
    assert again.smoothed == tuple(written["smoothed"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 0.0}, "--low 0 --high 1: must be greater than 0"),
        ({"low": 1.0}, "--low 1 --high 1: must be"),
        ({"high": math.inf}, "--high inf"),
        ({"steps": 19}, "--steps 19: must be at least 20"),
        ({"steps": 26}, "--steps 26: the run has batches for 25"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(make_folder, options, message):
    config = load(make_folder(steps=25).config("a"))
    with pytest.raises(ConfigError, match=message):
        check(config, **{"low": 1e-6, "high": 1.0, "steps": 20} | options)
