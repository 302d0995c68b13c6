"""Storage that is slow, or whose answer is shorter than it said: the attempt waits or is charged, no photo is spoilt."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from lingxi.storage import open_storage
from tests.support.photos import Photos
from tests.support.pictures import picture
from tests.support.proxy import CuttingProxy
from tests.support.s3 import S3Server
from tests.support.waiting import wait_until
from tests.support.work import Work

ProxyTo = Callable[[str], CuttingProxy]


def in_a_bucket(server: S3Server, between: CuttingProxy, timeout_seconds: float) -> Any:
    """Storage in a folder of its own of the bucket, reached through the proxy."""
    access = replace(
        server.access, endpoint=f"http://127.0.0.1:{between.port}", timeout_seconds=timeout_seconds
    )
    return open_storage(f"s3://media/t-{uuid.uuid4().hex[:12]}", access)


async def was_charged(photos: Photos, photo_id: uuid.UUID, attempts: int = 1) -> None:
    """Until that attempt has failed and the photo waits for the next one."""

    async def waits() -> bool:
        job = await photos.job(photo_id)
        return bool(job["attempt"] >= attempts and job["last_error"] is not None)

    await wait_until(cast(Any, waits), 40, "an attempt failed")
    assert (await photos.row(photo_id))["processing_state"] == "uploaded"


async def test_an_answer_that_breaks_off(
    work: Work, tmp_path: Path, s3_server: S3Server, proxy_to: ProxyTo
) -> None:
    """Fewer bytes than its Content-Length said, each time anew: it is asked for the rest, and in the end given up for now."""
    between = proxy_to(s3_server.url)
    async with Photos.open(work, tmp_path / "data", in_a_bucket(s3_server, between, 2.0)) as photos:
        photo_id = await photos.new_photo(picture("jpeg", 2400, 1600))
        between.cut_after(4_000)
        async with photos.worker(photo_backoff_seconds=0.5):
            await was_charged(photos, photo_id)
            between.forward()
            await photos.until_job(photo_id, "done", 40)
        await photos.assert_published_once(photo_id)


async def test_an_object_that_is_shorter_than_what_was_stored(work: Work, tmp_path: Path) -> None:
    """Whole by its own account, and not by ours: storage is to blame, not the photographer's file."""
    async with Photos.open(work, tmp_path / "data") as photos:
        photo_id = await photos.new_photo(picture("jpeg", 1200, 800))
        (original,) = [path for path in (tmp_path / "data" / "objects").rglob("*") if path.is_file()]
        whole = original.read_bytes()
        os.truncate(original, len(whole) // 2)
        async with photos.worker(photo_backoff_seconds=0.5):
            await was_charged(photos, photo_id)
            assert "storage_unavailable" in (await photos.job(photo_id))["last_error"]
            original.write_bytes(whole)
            await photos.until_job(photo_id, "done", 40)
        await photos.assert_published_once(photo_id)


async def test_slow_storage(work: Work, tmp_path: Path, s3_server: S3Server, proxy_to: ProxyTo) -> None:
    """Some hundred kilobytes a second: no attempt is lost within the time that an answer may take."""
    between = proxy_to(s3_server.url)
    async with Photos.open(work, tmp_path / "data", in_a_bucket(s3_server, between, 20.0)) as photos:
        data = picture("jpeg", 2400, 1600)
        photo_id = await photos.new_photo(data)
        between.slow_down(bytes_per_second := len(data) // 3)
        began = time.monotonic()
        async with photos.worker():
            job = await photos.until_job(photo_id, "done", 60)
        assert time.monotonic() - began > 2.0, f"{bytes_per_second} bytes a second made it no slower"
        assert job["attempt"] == 1
        between.forward()
        await photos.assert_published_once(photo_id)
