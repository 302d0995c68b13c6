"""Workers of photo:fingerprint are killed at random points: each item ends once, one row a photo, and no scratch is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lingxi.names import FINGERPRINT_QUEUE
from lingxi.services.add_photo import NewPhoto, add_photo
from lingxi.services.albums import create_album
from lingxi.storage import open_storage
from tests.fault.conftest import StartWorker
from tests.fault.test_video_kills import _over, _working
from tests.fault.test_worker_processes import ends, gone
from tests.integration.fingerprint.looks import subject
from tests.support.photos import chunks
from tests.support.processors import leftovers
from tests.support.waiting import wait_until
from tests.support.work import Work

PHOTOS = 4


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=[pytest.mark.slow, pytest.mark.timeout(400)])])
async def test_killed_at_random_points(
    work: Work, start_worker: StartWorker, tmp_path: Path, kills: int
) -> None:
    photos = await _photos(work, tmp_path)
    inputs = [{"photoId": photo} for photo in photos]
    task_id = await work.submit(*inputs, type=FINGERPRINT_QUEUE, max_attempts=2 * kills + 3)
    worker = start_worker(QUEUE=FINGERPRINT_QUEUE, LEASE_SECONDS="2")
    chance, killed = random.Random(kills), 0
    while killed < kills and not await _over(work, task_id):
        victims = await _working(work, worker.pid, task_id)
        if victims is None:
            break
        await asyncio.sleep(chance.uniform(0.0, 0.6))  # the random point
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
            killed += 1
        await wait_until(lambda pids=victims: all(gone(pid) for pid in pids), 10)
    assert killed, "not one was hit while it worked"
    await work.ended(task_id, 120)
    assert await work.states(task_id) == ["succeeded"] * PHOTOS
    assert await work.pool.fetchval("select count(*) from photo_fingerprints") == PHOTOS
    pairs = PHOTOS * (PHOTOS - 1) // 2
    assert await work.pool.fetchval("select count(*) from photo_pairs where is_near") == pairs
    worker.signal(signal.SIGTERM)
    assert await ends(worker) == 0
    assert leftovers(tmp_path / "data" / "scratch" / "attempts") == []


async def _photos(work: Work, folder: Path) -> list[str]:
    """Files of one picture, large enough to be hit while they are decoded."""
    storage = open_storage((folder / "data" / "objects").as_uri())
    data, made = bytes(subject("raccoon").resize(2.5).pngsave_buffer(compression=1)), []
    async with work.pool.acquire() as connection, connection.transaction():
        album = await create_album(connection, work.workspace_id, "alike")
    for number in range(PHOTOS):
        stored = await storage.put(chunks(data + b"%d" % number), max_bytes=1 << 30)  # PNG ends before it
        new = NewPhoto(
            f"{number}.png", stored.key, stored.size_bytes, stored.sha256, "image/png", datetime.now(UTC)
        )
        async with work.pool.acquire() as connection, connection.transaction():
            made.append(str((await add_photo(connection, work.workspace_id, album.id, new)).photo.id))
    await storage.close()
    return made
