from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from train import ladder
from train.__main__ import main
from train.config import ConfigError, TrainError


def law_points(x, noise, seed, *, e=1.7, a=0.8, alpha=0.3):
    """Points of E + A (x / 1e18)^-alpha with noise in log L."""
    x = np.asarray(x, float)
    return (e + a * (x / 1e18) ** -alpha) * np.exp(np.random.default_rng(seed).normal(size=len(x)) * noise)


def test_a_known_law_is_found_again():
    x = np.geomspace(1e16, 1e20, 8)
    law = ladder.fit(x, law_points(x, 0.0, 0), draws=10)
    assert law.irreducible == pytest.approx(1.7, rel=1e-3)
    assert law.exponent == pytest.approx(0.3, rel=2e-3)
    assert law.scale * (1e18 / law.unit) ** -law.exponent == pytest.approx(0.8, rel=5e-3)
    noisy = ladder.fit(x, law_points(x, 0.003, 0), draws=100)
    for column, true in ((0, 1.7), (2, 0.3)):
        low, high = noisy.interval(column)
        assert low < true < high
    low, high = noisy.prediction(1e21)
    assert low < 1.7 + 0.8 * 1000**-0.3 < high


def test_a_line_has_students_interval():
    x, losses = np.array([1e16, 1e17, 1e18]), np.array([4.0, 3.3, 2.9])
    law = ladder.fit(x, losses, draws=40_000)
    line = stats.linregress(np.log(x), np.log(losses))
    half = stats.t.ppf(0.975, 1) * line.stderr
    assert (law.irreducible, law.free_irreducible) == (0.0, False)
    assert law.exponent == pytest.approx(-line.slope)
    assert law.at(1e17) == pytest.approx(np.exp(line.intercept + line.slope * np.log(1e17)))
    assert law.interval(2) == pytest.approx((-line.slope - half, -line.slope + half), rel=0.1)


def test_as_many_points_as_numbers_tell_no_interval():
    law = ladder.fit([1e16, 1e18], [4.0, 3.0], draws=10)
    assert (law.sigma, law.interval(2), law.prediction(1e20)) == (None, None, None)
    assert law.at(1e20) == pytest.approx(2.25)  # 4 -> 3 -> 9 / 4
    with pytest.raises(TrainError, match="two sizes"):
        ladder.fit([1e16, 1e16], [4.0, 3.0])


def covered(x, draws, *, e, count):
    """Shares of simulations whose intervals hold alpha and the loss of a new run a hundred times further."""
    hits = np.zeros(2)
    far = max(x) * 100
    for seed in range(count):
        law = ladder.fit(x, law_points(x, 0.01, seed, e=e), draws=draws, seed=seed)
        new = law_points([far], 0.01, 10_000 + seed, e=e)[0]
        for place, (value, interval) in enumerate(((0.3, law.interval(2)), (new, law.prediction(far)))):
            hits[place] += interval[0] <= value <= interval[1]
    return hits / count


def test_the_intervals_of_a_line_hold_the_truth_as_often_as_they_say():
    shares = covered([1e16, 1e16, 1e17, 1e17, 1e18, 1e18], 400, e=0.0, count=200)
    assert shares == pytest.approx([0.95, 0.95], abs=0.04)


@pytest.mark.slow
def test_the_intervals_of_a_curve_hold_the_truth_nearly_as_often_as_they_say():
    shares = covered(np.repeat(np.geomspace(1e16, 1e20, 6), 2), 60, e=1.7, count=60)
    assert shares == pytest.approx([0.95, 0.95], abs=0.08)  # three standard errors of 60 simulations


def write(folder, **changes):
    tiny = {"warmup_tokens": 64, "batch_windows": 4, "eval_every": 50, "save_every": 50, "log_every": 10, "threads": 1}
    path = folder.root / "ladder.json"
    content = {
        "sizes": [{"layers": 1, "dim": width, "heads": 2, "context": 8, "micro_batch": 4} for width in (8, 16)],
        "multiple": 0.02, "seeds": [0], "tokens": "tokens", "mixture": "mixture.json", "output": "out",
        "overrides": {**tiny, "ffn_dim": 16, "device": "cpu"},
    } | changes  # fmt: skip
    path.write_text(json.dumps(content))
    return path


def write_again(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def test_problems_of_a_config_are_told_at_once(make_folder):
    folder = make_folder(steps=3)
    with pytest.raises(ConfigError) as caught:
        ladder.load(write(folder, sizes=["2b", {"layers": 1}], multiple=0, overrides={"max_tokens": 5}))
    for text in (
        "unknown preset",
        'sizes: {"layers": 1}: is without dim, heads. A shape has layers, dim, heads; it may have kv_heads,',
        "multiple: must be greater than 0",
        "follows from",
    ):
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (
            {"ffn_dim": 16},
            "may not have ffn_dim. A shape has layers, dim, heads; it may have kv_heads, context, micro_batch.",
        ),
        ({"lr": 0.1, "ffn_dim": 16}, "may not have ffn_dim, lr. A shape has"),
        ({"context": "8"}, 'context must be a whole number of at least 1, is "8".'),
        ({"heads": 0, "dim": True}, "dim must be a whole number of at least 1, is true; heads must be"),
        ({"heads": 3}, "heads: must be a divisor of dim = 16, is 3."),
    ],
)
def test_a_wrong_shape_is_the_only_problem_that_is_told(make_folder, shape, said):
    right, wrong = {"layers": 1, "dim": 8, "heads": 2}, {"layers": 1, "dim": 16, "heads": 2} | shape
    path = write(make_folder(steps=3), sizes=[right, wrong])
    with pytest.raises(ConfigError) as caught:
        ladder.load(path)
    assert str(caught.value).startswith(f"{path}: sizes: {json.dumps(wrong)}: {said}")
    assert len(str(caught.value).splitlines()) == 1


def test_one_size_or_one_twice_is_refused(make_folder):
    right = {"layers": 1, "dim": 8, "heads": 2}
    folder = make_folder(steps=3)
    with pytest.raises(ConfigError, match=r"sizes: must be two or more, are 1\.$"):
        ladder.load(write(folder, sizes=["15m"]))
    with pytest.raises(ConfigError, match=r"sizes: 1x8 is there 2 times; they must differ\.$"):
        ladder.load(write(folder, sizes=[right, right, "15m"]))


def test_help_lists_the_keys_of_a_shape(capsys):
    with pytest.raises(SystemExit):
        main(["ladder", "--help"])
    said = capsys.readouterr().out
    assert all(f"`{key}`" in said for key in ladder._SHAPE)
    assert f"fewer than {ladder.FEWEST_STEPS}" in said


def test_sizes_below_fifty_steps_are_named():
    said = ladder._too_short({"a": 49, "b": 50, "c": 1})
    assert "a (49 steps), c (1 step), fewer than 50 steps" in said
    assert "b (" not in said
    assert ladder._too_short({"b": 50}) == ""


def test_a_mixture_that_is_too_short_is_refused_with_the_numbers(make_folder, capsys):
    # embedding and head of 64 rows, 16 wide: 2048; trunk: q, k, v, out 4 * 256, gate, up, down 3 * 16 * 16, norms 3 * 16 + 2 * 8
    path = write(make_folder(steps=3), multiple=1)
    assert main(["ladder", str(path)]) == 1
    told = capsys.readouterr().err
    assert main(["ladder", str(write_again(path, multiple=0.01))]) == 1
    assert "size 1x8, 17 tokens: " in capsys.readouterr().err  # 0.01 * 1696: no batch of 32
    assert "has 96 tokens; at 1 tokens a parameter (all)" in told
    assert f"1x16 needs {2048 + 1024 + 768 + 64:,}" in told


def test_a_ladder_trains_every_run_once_and_says_what_it_cannot_tell(make_folder, capfd):
    path = write(make_folder(steps=3))
    assert main(["ladder", str(path), "--predict", "15m"]) == 0
    out, err = capfd.readouterr()
    short = "too short to mean anything: 1x8 (1 step), 1x16 (2 steps), fewer than 50 steps"  # 33 and 78 tokens, batches of 32
    assert short in out
    assert short in err.partition("model ")[0]  # before the first run
    assert "model   1x8 (layers x dim, in place of the shape of 15m), seed 0: 1,696 parameters" in err
    assert "model   15m" not in err
    result = json.loads((path.parent / "out" / "ladder.json").read_text())
    assert [one["size"] for one in result["runs"]] == ["1x8", "1x16"]
    last = json.loads((path.parent / "out" / "1x16" / "0" / "summary.json").read_text())
    assert [one["steps"] for one in result["runs"]] == [1, 2]
    assert result["runs"][1]["tokens"] == last["tokens"] == 64  # 0.02 * 3904 = 78, in batches of 32
    assert result["runs"][1]["loss"] == pytest.approx(np.mean([v["loss"] for v in last["validation"].values()]))
    assert "cannot tell" in out
    assert "E is fixed at 0" in out
    assert main(["ladder", str(path)]) == 0
    assert "1 of 2" not in capfd.readouterr().err  # nothing is trained again
