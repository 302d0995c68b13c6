"""How many attempts the sweep ends at a time."""

from lingxi.services.sweep_leases import FIRST_BATCH, LARGEST_BATCH, LONG_SECONDS, SHORT_SECONDS, Pace


def test_a_quick_server_is_given_more_and_a_slow_one_less() -> None:
    pace = Pace()
    pace.took(SHORT_SECONDS / 2)
    assert pace.size == 2 * FIRST_BATCH
    pace.took((SHORT_SECONDS + LONG_SECONDS) / 2)
    assert pace.size == 2 * FIRST_BATCH
    pace.took(2 * LONG_SECONDS)
    pace.took(2 * LONG_SECONDS)
    assert pace.size == FIRST_BATCH // 2


def test_it_has_ends() -> None:
    pace = Pace()
    for _ in range(20):
        pace.took(0.0)
    assert pace.size == LARGEST_BATCH
    for _ in range(20):
        pace.less()
    assert pace.size == 1
