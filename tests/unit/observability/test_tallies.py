"""Counting in memory: what was taken is gone, what was given back is there again, and nothing is told twice."""

from lingxi.observability.tallies import BUCKETS_SECONDS, Tallies, counters, distributions


def test_what_is_taken_is_taken_once_and_what_is_given_back_is_told_later() -> None:
    tallies = Tallies()
    tallies.count("lingxi_item_attempts_total", "media:verify", "failed", by=2)
    taken = tallies.take()
    assert taken == {"lingxi_item_attempts_total|media:verify|failed": 2}
    assert tallies.take() == {}
    tallies.give_back(taken)
    tallies.count("lingxi_item_attempts_total", "media:verify", "failed")
    assert counters(tallies.take()) == {"lingxi_item_attempts_total": {("media:verify", "failed"): 3}}


def test_an_observation_is_in_the_bucket_whose_bound_it_does_not_pass() -> None:
    tallies = Tallies()
    for seconds in (-1.0, 0.01, 0.011, 1800.0, 5000.0):
        tallies.observe("lingxi_item_run_seconds", "demo:drill", seconds=seconds)
    found = distributions(tallies.take())["lingxi_item_run_seconds"][("demo:drill",)]
    assert len(found.buckets) == len(BUCKETS_SECONDS) + 1
    assert (found.buckets[0], found.buckets[1], found.buckets[-2], found.buckets[-1]) == (2, 1, 1, 1)
    assert round(found.sum_seconds, 3) == 6800.021


def test_a_count_that_is_followed_is_told_by_what_it_grew() -> None:
    tallies, counts = Tallies(), {"lost": 5}
    tallies.follow("lingxi_item_sweep_total", lambda: counts)
    assert tallies.take() == {}
    counts.update(lost=7, requeued=1)
    assert tallies.take() == {"lingxi_item_sweep_total|lost": 2, "lingxi_item_sweep_total|requeued": 1}
    assert tallies.take() == {}
