"""Workers of photo:fingerprint are killed at random points: each item ends once, one row a photo, and no scratch is left."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from lingxi.names import FINGERPRINT_QUEUE
from lingxi.services.add_photo import NewPhoto, add_photo
from lingxi.services.albums import create_album
from lingxi.storage import open_storage
from tests.fault.conftest import StartWorker
from tests.integration.fingerprint.looks import subject
from tests.support.killing import assert_stops_clean, lose_attempts
from tests.support.photos import chunks
from tests.support.work import Work

PHOTOS = 4


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_killed_at_random_points(
    work: Work, start_worker: StartWorker, tmp_path: Path, kills: int
) -> None:
    photos = await _photos(work, tmp_path)

    async def submit(number: int) -> UUID:
        inputs = [{"photoId": photo} for photo in photos]
        return await work.submit(*inputs, type=FINGERPRINT_QUEUE, max_attempts=20 * kills)

    worker = start_worker(QUEUE=FINGERPRINT_QUEUE, LEASE_SECONDS="2")
    await lose_attempts(work, worker, submit, kills, 0.6)
    assert await work.pool.fetchval("select count(*) from photo_fingerprints") == PHOTOS
    pairs = PHOTOS * (PHOTOS - 1) // 2
    assert await work.pool.fetchval("select count(*) from photo_pairs where is_near") == pairs
    await assert_stops_clean(worker, tmp_path / "data")


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
