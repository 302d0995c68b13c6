"""The game day as a test: some faults in the fast tests, all of them in the slow ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gameday.day import game_day
from tests.gameday.faults import FAULTS
from tests.gameday.monitoring import scaled_rules
from tests.gameday.runbook import command, commands
from tests.support.programs import need_program

QUICK = ("a payload that cannot be sent", "redis down")


async def _live_through(folder: Path, names: tuple[str, ...], scale: float) -> None:
    need_program("prometheus", "to watch")
    need_program("prometheus-alertmanager", "to page")
    faults = [fault for fault in FAULTS if fault.name in names]
    outcomes = await game_day(folder / "day", faults, scale=scale, say=print)
    assert [outcome.name for outcome in outcomes if not outcome.ok] == [], outcomes
    assert len(outcomes) == len(names)


async def test_the_right_alert_fires_and_the_runbook_ends_it(tmp_path: Path) -> None:
    await _live_through(tmp_path, QUICK, scale=20)


@pytest.mark.slow
async def test_each_fault_has_its_alert_and_the_runbook_ends_it(tmp_path: Path) -> None:
    await _live_through(tmp_path, tuple(fault.name for fault in FAULTS), scale=8)


def test_each_fault_is_of_another_alert_with_commands_in_the_runbook() -> None:
    assert len({fault.alert for fault in FAULTS}) == len(FAULTS) == 8
    for fault in FAULTS:
        assert commands(fault.alert), fault.alert


def test_a_command_is_taken_as_it_is_printed_and_what_is_known_is_put_in() -> None:
    assert command("LingxiQueueBacklog", "QUEUE=GROUP", GROUP="media") == "QUEUE=media lingxi worker"
    with pytest.raises(LookupError):
        command("LingxiQueueBacklog", "reboot")
    with pytest.raises(LookupError):
        commands("LingxiNothing")


def test_times_of_rules_are_scaled_and_numbers_are_not() -> None:
    text = "for: 5m\nexpr: a_seconds > 600 unless max(b) > 5000\nx: rate(c[1h]) > 0.05 offset 15m, h_seconds > 60"
    assert scaled_rules(text, 10) == (
        "for: 30s\nexpr: a_seconds > 60 unless max(b) > 5000\nx: rate(c[360s]) > 0.05 offset 90s, h_seconds > 60"
    )
