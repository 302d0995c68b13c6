"""A minute of quiet running, and what counts as growth."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.soak.run import soak
from tests.soak.watch import Held, files_growth, growth, held_by, memory_growth


@pytest.mark.slow
async def test_a_minute_of_quiet_running(tmp_path: Path) -> None:
    found = await soak(tmp_path / "soak", 1.0, print)
    assert found["ok"], found


def test_what_grows_is_seen_and_what_only_scatters_is_not() -> None:
    assert growth([10, 12, 9, 11, 10, 12], part=0, more=4).ok
    assert not growth(list(range(100, 200)), part=0.1, more=4).ok
    leaking = [Held(200_000_000 + 5_000_000 * i, 40 + i) for i in range(30)]
    assert not memory_growth({"api": leaking})["api"].ok
    assert not files_growth({"api": leaking})["api"].ok


def test_a_process_holds_memory_and_files() -> None:
    held = held_by(os.getpid())
    assert held.memory_bytes > 10_000_000
    assert held.files >= 3
