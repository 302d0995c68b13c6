"""What arming a failpoint means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lingxi.observability import failpoints

POINT = "worker.after_commit"


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm()


def test_once_is_once_for_all_processes_that_share_the_folder(tmp_path: Path) -> None:
    failpoints.arm(f"{POINT}=error@once", tmp_path)
    with pytest.raises(failpoints.FailpointError):
        failpoints.reach_sync(POINT)
    failpoints.reach_sync(POINT)
    failpoints.disarm()
    failpoints.arm(f"{POINT}=error@once", tmp_path)  # as in the process that is started after it
    failpoints.reach_sync(POINT)
    assert (tmp_path / f"{POINT}.reached").exists()


def test_the_nth_time_only(tmp_path: Path) -> None:
    failpoints.arm(f"{POINT}=error@2", tmp_path)
    failpoints.reach_sync(POINT)
    with pytest.raises(failpoints.FailpointError):
        failpoints.reach_sync(POINT)
    failpoints.reach_sync(POINT)


@pytest.mark.parametrize(
    ("spec", "folder"),
    [
        ("no.such_point=kill", True),
        (f"{POINT}=explode", True),
        (f"{POINT}=kill@often", True),
        (f"{POINT}=kill@once", False),
    ],
)
def test_what_cannot_be_armed_is_refused(spec: str, folder: bool, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=spec.split("@")[0]):
        failpoints.arm(spec, tmp_path if folder else None)
