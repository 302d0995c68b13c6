"""Workers of demo:drill, media:verify and media:probe are killed at random points: each item ends once, no scratch is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from lingxi.storage import open_storage
from tests.fault.conftest import StartWorker
from tests.support.clips import Sound, clip
from tests.support.killing import assert_stops_clean, lose_attempts, put_named
from tests.support.pictures import picture
from tests.support.work import Work

SLOW = [pytest.mark.slow, pytest.mark.timeout(600)]
DRILL = {"durationMs": 400, "steps": 4, "effect": True}
PICTURE, FILM = {"object": "in.png"}, {"object": "in.mp4"}


@pytest.mark.parametrize(
    ("kind", "given", "kills"),
    [
        ("demo:drill", DRILL, 2),
        pytest.param("demo:drill", DRILL, 10, marks=SLOW),
        pytest.param("media:verify", PICTURE, 10, marks=SLOW),
        pytest.param("media:probe", PICTURE, 10, marks=SLOW),
        pytest.param("media:probe", FILM, 10, marks=SLOW, id="media:probe-film-10"),
    ],
)
async def test_killed_at_random_points(
    work: Work, start_worker: StartWorker, tmp_path: Path, kind: str, given: dict[str, Any], kills: int
) -> None:
    storage = open_storage((tmp_path / "data" / "objects").as_uri())
    # large enough to be hit while they are decoded
    await put_named(work, storage, "in.png", picture("png", 3000, 2000))
    await put_named(work, storage, "in.mp4", clip(seconds=2.0, size=(320, 240), sound=Sound()))
    await storage.close()

    async def submit(number: int) -> UUID:
        return await work.submit(*[given] * 4, type=kind, max_attempts=20 * kills)

    worker = start_worker(QUEUE=kind, LEASE_SECONDS="2")
    tasks = await lose_attempts(work, worker, submit, kills, 0.4)
    effects = [await work.effects(task) for task in tasks]
    assert effects == [4 if kind == "demo:drill" else 0] * len(tasks)
    await assert_stops_clean(worker, tmp_path / "data")
