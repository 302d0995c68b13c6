"""Worker processes collect by themselves, and what they remove was trash."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from lingxi.services.steer_photo import recall_photo
from lingxi.storage import ObjectMissing
from tests.fault.conftest import StartWorker
from tests.support.photos import Photos, chunks
from tests.support.waiting import wait_until
from tests.support.work import Work


@pytest.fixture
async def photos(work: Work, tmp_path: Path) -> AsyncIterator[Photos]:
    async with Photos.open(work, tmp_path / "data") as made:
        yield made


async def test_workers_collect_orphans_and_recalled_photos(
    photos: Photos, start_worker: StartWorker, tmp_path: Path
) -> None:
    kept, recalled = await photos.upload(), await photos.upload(b"\xff\xd8\xff other bytes")
    orphan = (await photos.storage.put(chunks(b"orphan"), max_bytes=10)).key
    pool = photos.work.pool
    async with pool.acquire() as connection, connection.transaction():
        await recall_photo(connection, photos.album_id, recalled.photo.id)
    worker = start_worker(
        2,
        COLLECT_INTERVAL_SECONDS="0.2",
        ORPHAN_SCAN_SECONDS="0.2",
        ORPHAN_AFTER_SECONDS="0.1",
        ORPHAN_TRASH_SECONDS="600",
    )

    async def is_gone(key: str) -> bool:
        try:
            await photos.storage.stat(key)
        except ObjectMissing:
            return True
        return False

    await wait_until(lambda: is_gone(orphan), 60)
    assert not await is_gone(f"trash/{orphan}")
    await pool.execute("update object_trash set remove_at = now()")
    await wait_until(lambda: is_gone(f"trash/{orphan}"), 60)
    await wait_until(lambda: is_gone(recalled.photo.storage_key), 60)
    assert not await is_gone(kept.photo.storage_key)
    assert worker.stop() == 0
    done = worker.events("object_collection_done")
    assert sum(cast(int, one["orphans"]) for one in done) == 1
