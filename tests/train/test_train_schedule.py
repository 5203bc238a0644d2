from __future__ import annotations

import math

import pytest

from train.schedule import decay_ends, learning_rate, warmup_steps


def rates(schedule, *, num_steps=10, warmup=2, min_ratio=0.0, decay_fraction=0.2, ends=()):
    return [
        learning_rate(
            step, num_steps=num_steps, warmup_steps=warmup, peak=2.0, schedule=schedule, min_ratio=min_ratio,
            decay_fraction=decay_fraction, decay_ends=(*ends, num_steps),
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


def test_wsd_s_falls_before_each_end_and_goes_on_at_the_peak():
    # Ends 10, 30 and 40; a fall takes a fifth of 10, 20 and 10 steps: 2, 4 and 2. x = 0, 1/2 and 0, 1/4, 1/2, 3/4.
    low = 0.2
    values = rates("wsd-s", num_steps=40, min_ratio=0.1, ends=(10, 30))
    half = low + 1.8 * (1 - math.sqrt(0.5))
    assert values[:8] == [1, 2, 2, 2, 2, 2, 2, 2]
    assert values[8:12] == pytest.approx([2, half, 2, 2])  # x = 0 is the peak still; update 10 is behind the end
    assert values[12:26] == [2] * 14
    quarters = [low + 1.8 * (1 - math.sqrt(x)) for x in (0.25, 0.5, 0.75)]
    assert values[26:32] == pytest.approx([2, *quarters, 2, 2])
    assert values[32:38] == [2] * 6
    assert values[38:] == pytest.approx([2, half])


def test_wsd_is_wsd_s_with_one_end():
    assert rates("wsd", decay_fraction=0.5) == rates("wsd-s", decay_fraction=0.5)
    # The first period alone is a whole wsd run.
    assert rates("wsd-s", num_steps=30, decay_fraction=0.5, ends=(10,))[:10] == rates("wsd", decay_fraction=0.5)


def test_the_first_fall_waits_for_the_warm_up():
    values = rates("wsd-s", num_steps=20, warmup=4, decay_fraction=1.0, ends=(6,))
    assert values[:7] == pytest.approx([0.5, 1, 1.5, 2, 2, 2 * (1 - math.sqrt(0.5)), 2])
    # An end within the warm-up has no fall.
    assert rates("wsd-s", num_steps=20, warmup=4, ends=(3,))[:5] == [0.5, 1, 1.5, 2, 2]


@pytest.mark.parametrize(
    ("points", "ends"),
    [
        (None, (40,)),
        ([0.25, 0.5], (10, 20, 40)),
        ([0.25, 1], (10, 40)),  # 1 is a share: the end
        ([0.26, 0.27], (10, 11, 40)),  # 10.4 and 10.8
        ([1000, 2049], (10, 20, 40)),  # 20.49 steps of 100 tokens
        ([2051.0, 4000], (21, 40)),
    ],
)
def test_decays_end_on_the_nearest_step(points, ends):
    assert decay_ends(points, batch_tokens=100, num_steps=40) == ends


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([49], "49 is step 0 of a run of 40 steps"),
        ([0.01], "0.01 is step 0"),
        ([4051], r"4,051 is step 41 of a run of 40 steps \(4,000 tokens\)"),
        ([1000, 1040], "two of them fall on one step of 100 tokens: steps 10, 10"),
    ],
)
def test_decays_outside_of_the_run_or_on_one_step_are_refused(points, message):
    with pytest.raises(ValueError, match=message):
        decay_ends(points, batch_tokens=100, num_steps=40)


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
        learning_rate(
            step,
            num_steps=10,
            warmup_steps=0,
            peak=1,
            schedule="cosine",
            min_ratio=0,
            decay_fraction=0.1,
            decay_ends=(10,),
        )


@pytest.mark.parametrize(
    ("tokens", "expected"), [(0, 0), (1, 1), (100, 1), (101, 2), (1000, 10), (1001, 10), (10_000, 10)]
)
def test_the_warm_up_is_whole_steps_and_at_most_a_tenth(tokens, expected):
    assert warmup_steps(warmup_tokens=tokens, batch_tokens=100, num_steps=100) == expected
