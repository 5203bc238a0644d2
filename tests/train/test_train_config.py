from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from train.config import FREE_SETTINGS, PRESETS, ConfigError, Settings, load, settings_of
from train.model import Decoder
from train.tuning.config import DpoSettings, TuningConfig

GOOD = {"preset": "demo-1m", "seed": 3, "tokens": "../tokens", "mixture": "../mixture.json", "output": "."}


def write(tmp_path, **changes):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({k: v for k, v in (GOOD | changes).items() if v is not None}))
    return path


def problems(tmp_path, **changes):
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, **changes))
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_paths_are_relative_to_the_config(tmp_path):
    config = load(write(tmp_path, overrides={"lr": 1, "max_minutes": None, "compile": "off"}))
    assert (config.tokens, config.mixture) == (tmp_path / "../tokens", tmp_path / "../mixture.json")
    assert config.output == tmp_path
    assert (config.seed, config.settings.lr, config.settings.compile) == (3, 1, "off")
    assert config.settings.dim == PRESETS["demo-1m"].dim


def test_output_and_overrides_may_be_absent(tmp_path):
    config = load(write(tmp_path, output=None))
    assert config.output == tmp_path
    assert config.settings == PRESETS["demo-1m"]


def test_an_unknown_key_is_refused_with_the_nearest(tmp_path):
    assert "sed: unknown key. Nearest known: seed." in problems(tmp_path, sed=1)
    message = problems(tmp_path, overrides={"eval_evry": 5})
    assert "overrides.eval_evry: unknown key. Nearest known: eval_every." in message
    assert "demo-2m: unknown preset. Nearest known: demo-1m." in problems(tmp_path, preset="demo-2m")


def test_all_problems_are_told_at_once(tmp_path):
    message = problems(tmp_path, seed="0", tokens=None, overrides={"layers": 1.5, "tied": 1, "schedule": "linear"})
    assert "seed: must be a whole number" in message
    assert "tokens: is missing." in message
    assert "overrides.layers: must be a whole number, is 1.5." in message
    assert "overrides.tied: must be true or false, is 1." in message
    assert "overrides.schedule: must be one of wsd, wsd-s, cosine" in message
    ranges = {"eval_every": 0, "skip_sigma": -1, "beta1": 1, "clip": 0, "threads": 1025, "skip_window": 10**10}
    message = problems(tmp_path, sed=1, preset="demo-2m", overrides={**ranges, "tied": 1, "eval_evry": 5})
    assert len(message.splitlines()) == 4 + len(ranges)
    assert "overrides.skip_sigma: must be greater than 0, is -1." in message
    assert "overrides.threads: must be between 1 and 1024 (OpenMP crashes" in message
    message = problems(tmp_path, overrides={"heads": 3, "kv_heads": 2, "decay_points": [0.5]})
    assert [line.split(": ")[1] for line in message.splitlines()] == [
        "overrides.decay_points", "overrides.heads", "overrides.kv_heads"
    ]  # fmt: skip


def test_all_problems_of_tuning_are_told_at_once(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({"data": [], "overrides": {"beta": 0, "clip": 0, "threads": 0, "label_smoothing": 0.5, "x": 1}})
    )
    with pytest.raises(ConfigError) as caught:
        TuningConfig.load(path, DpoSettings)
    for name in ("checkpoint", "data", "beta", "clip", "threads", "label_smoothing", "x"):
        assert f"{name}: " in str(caught.value)
    assert len(str(caught.value).splitlines()) == 7  # and not the seed: it is 0


def test_a_size_of_recipes_is_written_out(tmp_path):
    assert 'max_tokens: must be a whole number or null, is "60k". Write 60000.' in problems(
        tmp_path, overrides={"max_tokens": "60k"}
    )
    assert 'lr: must be a number, is "0.5". Write 0.5.' in problems(tmp_path, overrides={"lr": "0.5"})
    assert problems(tmp_path, overrides={"max_tokens": "many"}).endswith('is "many".')


def test_the_seed_is_0_unless_given(tmp_path):
    assert load(write(tmp_path, seed=None)).seed == 0


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"layers": 0}, "overrides.layers: must be at least 1, is 0"),
        ({"threads": 0}, "overrides.threads: must be between 1 and 1024"),
        ({"skip_window": 3}, "overrides.skip_window: must be between 4 and 1,000,000"),
        ({"lr": 0}, "overrides.lr: must be greater than 0, is 0"),
        ({"heads": 3}, "overrides.heads: must be a divisor of dim = 128, is 3"),
        ({"kv_heads": 3}, "overrides.kv_heads: must be a divisor of heads = 4, is 3"),
        ({"beta2": 1.0}, "overrides.beta2: must be at least 0 and below 1, is 1.0"),
        ({"momentum": 1.0}, "overrides.momentum: must be at least 0 and below 1, is 1.0"),
        ({"optimizer": "sgd"}, 'overrides.optimizer: must be one of adamw, muon, is "sgd"'),
        ({"schedule": "wsd-s"}, "overrides.decay_points: must be a list of points, is None"),
        ({"decay_points": [0.5]}, "overrides.decay_points: must be null unless schedule is wsd-s, is [0.5]"),
        (
            {"schedule": "wsd-s", "decay_points": 0.5},
            "overrides.decay_points: must be a list, each item a number or null, is 0.5",
        ),
        ({"schedule": "wsd-s", "decay_points": [0.5, 0.5]}, "must be greater than 0 and rising, is [0.5, 0.5]"),
        ({"schedule": "wsd-s", "decay_points": [0]}, "must be greater than 0 and rising, is [0]"),
        ({"schedule": "wsd-s", "decay_points": [0.5, 4000]}, "must be all shares of the run (up to 1) or all tokens"),
        ({"decay_fraction": 1.01}, "overrides.decay_fraction: must be between 0 and 1, is 1.01"),
        ({"lr": True}, "overrides.lr: must be a number, is true"),
        ({"max_tokens": 0}, "overrides.max_tokens: must be at least 1, is 0"),
        ({"batch_windows": "4"}, "overrides.batch_windows: must be a whole number or null"),
        ({"dim": 12, "heads": 4}, "overrides.heads: must be such that dim / heads is even"),
    ],
)
def test_a_value_out_of_range_is_refused(tmp_path, overrides, message):
    assert message in problems(tmp_path, overrides=overrides)


@pytest.mark.parametrize(
    "overrides", [{"decay_fraction": 1.0}, {"beta2": 0.0}, {"min_lr_ratio": 0.0}, {"layers": 1}, {"threads": 1024}]
)
def test_the_ends_of_a_range_are_allowed(tmp_path, overrides):
    settings = load(write(tmp_path, overrides=overrides)).settings
    assert {name: getattr(settings, name) for name in overrides} == overrides


@pytest.mark.parametrize("seed", [-1, 2**63, True])
def test_a_seed_out_of_range_is_refused(tmp_path, seed):
    assert "seed: must be" in problems(tmp_path, seed=seed)


def test_a_file_that_is_no_config_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.json: cannot be read"):
        load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ConfigError, match=r"bad\.json: is not JSON"):
        load(tmp_path / "bad.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ConfigError, match="must be a JSON object, is a list"):
        load(tmp_path / "list.json")


def test_the_demo_has_the_parameters_counted_by_hand():
    demo = PRESETS["demo-1m"]
    # Block: q 128x128, k and v 128x64 each, out 128x128; gate, up, down 128x352 each; two norms of 128.
    block = 16_384 + 2 * 8_192 + 16_384 + 3 * 45_056 + 256
    assert block == 184_576
    assert demo.trunk_parameters == 4 * block + 128 == 738_432
    assert demo.parameters(4096) == 738_432 + 4096 * 128 == 1_262_720  # tied: one matrix
    assert dataclasses.replace(demo, tied=False).parameters(4096) == 738_432 + 2 * 4096 * 128
    assert dataclasses.replace(demo, qk_norm=True).trunk_parameters == 738_432 + 4 * 2 * 32


@pytest.mark.parametrize("name", PRESETS)
def test_the_count_is_that_of_the_model(name):
    settings = PRESETS[name]
    with torch.device("meta"):
        model = Decoder(settings, 4096)
    assert sum(p.numel() for p in model.parameters()) == settings.parameters(4096)


@pytest.mark.parametrize(
    ("name", "size"), [("15m", 15e6), ("30m", 30e6), ("60m", 60e6), ("150m", 150e6), ("400m", 400e6), ("1b", 1e9)]
)
def test_a_preset_has_the_size_of_its_name(name, size):
    assert PRESETS[name].trunk_parameters == pytest.approx(size, rel=0.08)


@pytest.mark.parametrize(
    ("name", "lr", "batch"),
    [
        # N = 14.16M: (N/108M)^(1/3) = 0.5081; lr = 0.00235 / 0.5081; 327,680 * 0.2581 = 84,588 -> 1 pass of 48 x 2048
        ("15m", 4.625e-3, 98_304),
        # N = 974.7M: (N/108M)^(1/3) = 2.0821; lr = 0.00235 / 2.0821; 327,680 * 4.3351 = 1,420,500 -> 43 x 32,768
        ("1b", 1.1287e-3, 1_409_024),
    ],
)
def test_the_ladder_gives_the_published_formula(name, lr, batch):
    settings = PRESETS[name]
    assert settings.lr == pytest.approx(lr, rel=5e-4)
    assert settings.batch_tokens == batch
    assert settings.warmup_tokens == settings.trunk_parameters
    assert settings.beta2 == (0.99 if batch < 524_288 else 0.95)


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PRESETS["15m"].lr = 1.0
    with pytest.raises(TypeError):
        PRESETS["new"] = PRESETS["15m"]
    assert all(isinstance(settings, Settings) for settings in PRESETS.values())


def test_settings_come_back_from_the_identity_of_a_checkpoint():
    identity = dataclasses.asdict(PRESETS["15m"]) | {"preset": "15m", "steps": 12}
    identity = {name: value for name, value in identity.items() if name not in FREE_SETTINGS}
    free = {name: getattr(PRESETS["15m"], name) for name in FREE_SETTINGS}
    assert dataclasses.replace(settings_of(identity), **free) == PRESETS["15m"]
