from __future__ import annotations

import math

import pytest

from train.schedule import learning_rate, warmup_steps


def rates(schedule, *, num_steps=10, warmup=2, min_ratio=0.0, decay_fraction=0.2):
    return [
        learning_rate(
            step, num_steps=num_steps, warmup_steps=warmup, peak=2.0, schedule=schedule, min_ratio=min_ratio,
            decay_fraction=decay_fraction,
        )
        for step in range(num_steps)
    ]  # fmt: skip


def test_wsd_rises_holds_and_falls_by_one_minus_sqrt():
    # The fall takes 2 of 10 steps: x = 0 and 1/2.
    assert rates("wsd") == pytest.approx([1, 2, 2, 2, 2, 2, 2, 2, 2, 2 * (1 - math.sqrt(0.5))])


def test_wsd_falls_towards_the_smallest_rate():
    # Four steps of decay: x = 0, 1/4, 1/2, 3/4; rate = 0.2 + 1.8 (1 - sqrt x).
    expected = [2, 0.2 + 1.8 * 0.5, 0.2 + 1.8 * (1 - math.sqrt(0.5)), 0.2 + 1.8 * (1 - math.sqrt(0.75))]
    assert rates("wsd", min_ratio=0.1, decay_fraction=0.4)[6:] == pytest.approx(expected)


def test_wsd_without_decay_stays_at_the_peak():
    assert rates("wsd", decay_fraction=0.0)[2:] == [2.0] * 8


def test_wsd_that_only_decays_starts_after_the_warm_up():
    values = rates("wsd", decay_fraction=1.0)
    assert values[:3] == [1.0, 2.0, 2.0]
    assert values[4] == pytest.approx(2 * (1 - math.sqrt(2 / 8)))


def test_cosine_is_half_way_in_the_middle():
    values = rates("cosine")
    assert values[:3] == [1.0, 2.0, 2.0]
    assert values[6] == pytest.approx(1.0)  # progress 4/8
    assert values[4] == pytest.approx(1 + math.sqrt(0.5))  # progress 1/4: cos(pi/4)
    assert rates("cosine", min_ratio=0.1)[6] == pytest.approx(1.1)  # 0.2 + 1.8 / 2


def test_every_update_learns():
    for schedule in ("wsd", "cosine"):
        assert min(rates(schedule)) > 0
        assert min(rates(schedule, warmup=0)) > 0


@pytest.mark.parametrize("step", [-1, 10])
def test_a_step_outside_of_the_run_is_refused(step):
    with pytest.raises(ValueError, match=r"\[0, 10\)"):
        learning_rate(step, num_steps=10, warmup_steps=0, peak=1, schedule="cosine", min_ratio=0, decay_fraction=0.1)


@pytest.mark.parametrize(
    ("tokens", "expected"), [(0, 0), (1, 1), (100, 1), (101, 2), (1000, 10), (1001, 10), (10_000, 10)]
)
def test_the_warm_up_is_whole_steps_and_at_most_a_tenth(tokens, expected):
    assert warmup_steps(warmup_tokens=tokens, batch_tokens=100, num_steps=100) == expected
