"""A real S3 server goes away while photos are made: attempts are charged, nobody gives up early, each is published once."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from lingxi.storage import open_storage
from tests.fault.conftest import StartWorker
from tests.support.photos import Photos
from tests.support.pictures import picture
from tests.support.proxy import CuttingProxy
from tests.support.s3 import S3Server, cut_now
from tests.support.waiting import wait_until
from tests.support.work import Work


@pytest.fixture
def between(s3_server: S3Server, proxy_to: Callable[[str], CuttingProxy]) -> CuttingProxy:
    """The way to the server, which can be cut."""
    return proxy_to(s3_server.url)


@pytest.fixture
async def photos(
    work: Work, tmp_path: Path, s3_server: S3Server, between: CuttingProxy
) -> AsyncIterator[Photos]:
    """An album whose files lie in a bucket."""
    access = replace(s3_server.access, endpoint=f"http://127.0.0.1:{between.port}", timeout_seconds=2.0)
    storage = open_storage(f"s3://media/t-{uuid.uuid4().hex[:12]}", access)
    async with Photos.open(work, tmp_path / "data", storage) as opened:
        yield opened


async def until_charged(photos: Photos, photo_id: UUID, attempts: int) -> None:
    async def there() -> bool:
        return bool((await photos.job(photo_id))["attempt"] >= attempts)

    await wait_until(cast(Any, there), 60, f"attempt {attempts} began")


async def test_photos_are_published_from_a_bucket(photos: Photos) -> None:
    ids = [await photos.new_photo(picture("jpeg", 600 + number, 400)) for number in range(3)]
    async with photos.worker():
        for photo_id in ids:
            await photos.until_job(photo_id, "done", 40)
    for photo_id in ids:
        await photos.assert_published_once(photo_id)
        for variant in await photos.variants(photo_id):
            read = [chunk async for chunk in await photos.storage.open(variant["storage_key"])]
            assert sum(map(len, read)) == variant["size_bytes"]


@pytest.mark.parametrize("trouble", ["refuse", pytest.param("stall", marks=pytest.mark.slow)])
async def test_a_server_that_comes_back_costs_attempts_and_no_photo(
    photos: Photos, between: CuttingProxy, trouble: str
) -> None:
    photo_id = await photos.new_photo()
    getattr(between, trouble)()
    async with photos.worker(photo_backoff_seconds=0.5):
        await until_charged(photos, photo_id, 2)
        assert (await photos.row(photo_id))["processing_state"] == "uploaded"
        between.forward()
        await photos.until_job(photo_id, "done", 40)
    await photos.assert_published_once(photo_id)


async def test_a_disk_that_is_not_mounted_costs_attempts_and_no_photo(work: Work, tmp_path: Path) -> None:
    """An empty folder lies where the photos were: they are not gone, and nothing is made there."""
    root, aside = tmp_path / "disk", tmp_path / "aside"
    async with Photos.open(work, tmp_path / "data", open_storage(root.as_uri())) as photos:
        photo_id = await photos.new_photo()
        root.rename(aside)
        root.mkdir()
        async with photos.worker(photo_backoff_seconds=0.5):
            await until_charged(photos, photo_id, 2)
            assert (await photos.row(photo_id))["processing_state"] == "uploaded"
            root.rmdir()
            aside.rename(root)
            await photos.until_job(photo_id, "done", 40)
        await photos.assert_published_once(photo_id)


async def test_a_server_that_stays_away_ends_after_the_last_attempt(
    photos: Photos, between: CuttingProxy
) -> None:
    photo_id = await photos.new_photo()
    between.refuse()
    async with photos.worker(photo_backoff_seconds=0.1):
        job = await photos.until_job(photo_id, "failed", 60)
    row = await photos.row(photo_id)
    assert (job["attempt"], row["processing_state"], row["visibility"], row["error_code"]) == (
        3,
        "processing_failed",
        "unpublished",
        "storage_unavailable",
    )
    between.forward()
    assert not (await photos.upload()).created  # the same bytes again: the same photo, processed anew
    async with photos.worker():
        await photos.until_job(photo_id, "done", 40)
    assert (await photos.row(photo_id))["visibility"] == "published"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_sixty_seconds_without_the_server(
    work: Work, tmp_path: Path, start_worker: StartWorker
) -> None:
    """The real numbers: three attempts, 25 s and then 50 s apart. The server is killed while photos are made."""
    with S3Server(tmp_path / "s3") as server:
        storage = open_storage("s3://media", server.access)
        async with Photos.open(work, tmp_path / "data", storage) as photos:
            ids = [await photos.new_photo(picture("jpeg", 2400 + number, 1600)) for number in range(12)]
            start_worker(QUEUE="photo", STORAGE_URL="s3://media", **server.environment())

            async def one_is_done() -> bool:
                return any([(await photos.job(photo_id))["state"] == "done" for photo_id in ids])

            await wait_until(cast(Any, one_is_done), 60)
            cut_now(server)
            ends_at = time.monotonic() + 60

            async def over_and_nobody_gave_up() -> bool:
                states = {(await photos.row(photo_id))["processing_state"] for photo_id in ids}
                assert states <= {"uploaded", "ready"}
                return time.monotonic() > ends_at

            await wait_until(cast(Any, over_and_nobody_gave_up), 90)
            server.start()
            for photo_id in ids:
                await photos.until_job(photo_id, "done", 120)
                await photos.assert_published_once(photo_id)
