"""When a batch will have ended, from what was finished in equal slices of time."""

from __future__ import annotations

import random

import pytest

from lingxi.domain.eta import estimate


def test_an_even_rate_goes_on() -> None:
    eta = estimate([100] * 12, 5.0, 600)
    assert eta is not None
    assert eta.seconds == pytest.approx(30)
    assert eta.items_per_second == pytest.approx(20)
    assert 20 < eta.low_seconds < 28 < 32 < eta.high_seconds < 45


def test_what_scatters_has_a_wider_range_and_so_has_what_is_little_known() -> None:
    even, scattered = estimate([10] * 12, 1.0, 100), estimate([0, 20] * 6, 1.0, 100)
    short = estimate([10] * 2, 1.0, 100)
    assert even and scattered and short
    assert even.seconds == scattered.seconds == short.seconds
    assert even.high_seconds < short.high_seconds < scattered.high_seconds
    assert scattered.low_seconds < even.low_seconds


@pytest.mark.parametrize(("finished", "remaining"), [([], 5), ([0, 0], 5), ([3, 4], 0)])
def test_nothing_is_said_without_a_measure_or_without_work(finished: list[int], remaining: int) -> None:
    assert estimate(finished, 1.0, remaining) is None


def test_the_range_holds_about_as_often_as_it_says() -> None:
    chance, held, rounds = random.Random(4), 0, 300
    for _ in range(rounds):
        gaps = [chance.expovariate(10) for _ in range(400)]
        slices = [0] * 12
        at = 0.0
        for gap in gaps:
            at += gap
            if at >= 12:
                break
            slices[int(at)] += 1
        remaining = 400 - sum(slices)
        eta = estimate(slices, 1.0, remaining)
        assert eta is not None
        held += eta.low_seconds <= sum(gaps) - 12 <= eta.high_seconds
    assert held / rounds > 0.8
