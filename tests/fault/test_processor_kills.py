"""Workers of demo:drill and media:verify are killed at random points: each item ends once, and no scratch is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lingxi.services.put_object import put_object, receive_object
from lingxi.storage import open_storage
from tests.fault.conftest import StartWorker
from tests.fault.test_video_kills import _over, _working
from tests.fault.test_worker_processes import ends, gone
from tests.support.pictures import picture
from tests.support.processors import leftovers
from tests.support.waiting import wait_until
from tests.support.work import Work

SLOW = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize(
    ("kind", "given", "kills"),
    [
        ("demo:drill", {"durationMs": 400, "steps": 4, "effect": True}, 2),
        pytest.param("demo:drill", {"durationMs": 400, "steps": 4, "effect": True}, 10, marks=SLOW),
        pytest.param("media:verify", {"object": "in.png"}, 10, marks=SLOW),
    ],
)
async def test_killed_at_random_points(
    work: Work, start_worker: StartWorker, tmp_path: Path, kind: str, given: dict[str, Any], kills: int
) -> None:
    await _put_picture(work, tmp_path)
    task_id = await work.submit(*[given] * 4, type=kind, max_attempts=2 * kills + 3)
    worker = start_worker(QUEUE=kind, LEASE_SECONDS="2")
    chance, killed = random.Random(kills), 0
    while killed < kills and not await _over(work, task_id):
        victims = await _working(work, worker.pid, task_id)
        if victims is None:
            break
        await asyncio.sleep(chance.uniform(0.0, 0.4))  # the random point
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
            killed += 1
        await wait_until(lambda pids=victims: all(gone(pid) for pid in pids), 10)
    assert killed, "not one was hit while it worked"
    await work.ended(task_id, 120)
    assert await work.states(task_id) == ["succeeded"] * 4
    assert await work.effects(task_id) == (4 if kind == "demo:drill" else 0)
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0
    assert leftovers(tmp_path / "data" / "scratch" / "attempts") == []


async def _put_picture(work: Work, folder: Path) -> None:
    """Large enough to be hit while it is decoded."""
    storage = open_storage((folder / "data" / "objects").as_uri())
    data = picture("png", 3000, 2000)

    async def chunks() -> AsyncIterator[bytes]:
        yield data

    async with (
        receive_object(storage, chunks(), max_bytes=1 << 30) as received,
        work.pool.acquire() as connection,
        connection.transaction(),
    ):
        await put_object(connection, work.workspace_id, "in.png", received)
    await storage.close()
