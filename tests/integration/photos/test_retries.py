"""Attempts of a photo's job: what is charged, when it comes back, and how the last one ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
import redis.asyncio

from lingxi.broker.job import photo_job
from lingxi.broker.queue import BullQueue, Delivery
from lingxi.domain.errors import Transient
from lingxi.names import PHOTO_QUEUE
from lingxi.processors.publish import process_photo
from lingxi.services.photo_jobs import (
    claim_photo_job,
    fail_photo_job,
    finish_photo_job,
    put_back_photo_job,
    renew_photo_jobs,
)
from lingxi.services.steer_photo import hide_photo
from lingxi.storage.local_reader import LocalReader
from lingxi.worker.lease import LeaseKeeper
from lingxi.worker.ledger import Ledger
from tests.support.photos import Photos
from tests.support.pictures import picture
from tests.support.waiting import wait_until

Arm = Callable[[str], Path]


async def charged(photos: Photos, photo_id: UUID, attempt: int) -> None:
    """Until so many attempts have failed, and the next one is due."""

    async def there() -> bool:
        job = await photos.job(photo_id)
        return (job["state"], job["attempt"]) == ("pending", attempt)

    await wait_until(cast(Any, there), message=f"attempt {attempt} has failed")


async def test_storage_that_comes_back_costs_attempts_and_no_photo(photos: Photos) -> None:
    photo_id = await photos.new_photo()
    photos.storage.away = True
    async with photos.worker(photo_backoff_seconds=0.5):
        await charged(photos, photo_id, 2)
        assert (await photos.row(photo_id))["processing_state"] == "uploaded"
        photos.storage.away = False
        job = await photos.until_job(photo_id, "done")
        await photos.until_queue_empty()
    assert (job["attempt"], job["last_error"]) == (3, None)
    await photos.assert_published_once(photo_id)


async def test_the_last_attempt_marks_both_rows_and_leaves_visibility(photos: Photos) -> None:
    photo_id, hidden = await photos.new_photo(), (await photos.upload(b"\xff\xd8\xff another")).photo.id
    async with photos.work.pool.acquire() as connection, connection.transaction():
        await hide_photo(connection, photos.album_id, hidden)
    photos.storage.away = True
    async with photos.worker(photo_backoff_seconds=0.1) as worker:
        for one in (photo_id, hidden):
            job = await photos.until_job(one, "failed")
            assert (job["attempt"], job["last_error"]) == (3, "storage_unavailable")
            row = await photos.row(one)
            assert (row["processing_state"], row["error_code"]) == (
                "processing_failed", "storage_unavailable",
            )  # fmt: skip
            assert (row["entity_version"], await photos.events(one)) == (int(one == hidden), [])
        await photos.until_queue_empty()
        assert dict(worker.consumers[0].photos.counts) == {"retried": 4, "failed": 2}  # type: ignore[union-attr]
    assert (await photos.row(photo_id))["visibility"] == "unpublished"
    assert (await photos.row(hidden))["visibility"] == "hidden"
    assert photos.storage.opened == 6, "three attempts each"
    history = await photos.work.pool.fetch(
        "select number, outcome, error_code, log_lines, finished_at >= started_at as ended from photo_attempts "
        "where photo_id = $1 order by started_at, id", photo_id,
    )  # fmt: skip
    assert [(row["number"], row["outcome"], row["error_code"]) for row in history] == [
        (number, outcome, "storage_unavailable")
        for number, outcome in enumerate(("retrying", "retrying", "failed"), 1)
    ]
    assert all(row["ended"] and "photo_attempt_failed" in json.loads(row["log_lines"])[-1] for row in history)


async def test_the_next_attempt_comes_by_bullmqs_delay_when_it_is_due(photos: Photos) -> None:
    """Nobody sweeps here. The second wait is twice the first, and both are BullMQ's own delays."""
    photo_id = await photos.new_photo()
    photos.storage.away = True
    async with (
        photos.worker(photo_backoff_seconds=1.0),
        redis.asyncio.from_url(photos.work.redis_url, decode_responses=True) as client,
    ):
        delays = []
        for attempt in (1, 2):
            await charged(photos, photo_id, attempt)
            await wait_until(cast(Any, lambda: delayed(photos)), message="the job is delayed")
            delays.append(await client.hget(f"bull:photo-process:process-{photo_id}", "delay"))
        assert (await photos.until_job(photo_id, "failed"))["attempt"] == 3
    assert delays == ["1000", "2000"]


async def delayed(photos: Photos) -> bool:
    return (await photos.queue_counts())[2] == 1


async def test_redis_or_postgres_decides_which_attempt_is_the_last(photos: Photos) -> None:
    """BullMQ has counted two attempts and PostgreSQL none, and the other way round."""
    first, second = await photos.new_photo(), (await photos.upload(b"\xff\xd8\xff other")).photo.id
    await wait_until(cast(Any, lambda: both_wait(photos)))
    async with photos.queue() as queue:
        for _ in range(2):
            await queue.retry_later(await take_job(queue, f"process-{first}"), 1)
    await photos.work.pool.execute("update photo_jobs set attempt = 2 where photo_id = $1", second)
    photos.storage.away = True
    async with photos.worker(photo_backoff_seconds=60.0):
        assert (await photos.until_job(first, "failed"))["attempt"] == 1
        assert (await photos.until_job(second, "failed"))["attempt"] == 3
        await photos.until_queue_empty()


async def take_job(queue: BullQueue, job_id: str) -> Delivery:
    """The job with this id; others that come first wait a little, uncharged."""
    async with asyncio.timeout(30):
        while True:
            for delivery in await queue.take(1):
                if delivery.job_id == job_id:
                    return delivery
                await queue.retry_later(delivery, 1500, charged=False)
            await queue.wait_for_work(0.5)


async def both_wait(photos: Photos) -> bool:
    return (await photos.queue_counts())[0] == 2


async def test_a_job_that_rings_too_early_comes_back_when_its_row_is_due(photos: Photos) -> None:
    """Clocks of two machines differ: PostgreSQL's decides, and the bell is not lost."""
    photo_id = await photos.new_photo()
    started = time.monotonic()
    await photos.work.pool.execute(
        "update photo_jobs set next_retry_at = clock_timestamp() + interval '1.5 seconds'"
    )
    async with photos.worker():
        assert (await photos.until_job(photo_id, "done"))["attempt"] == 1
        assert time.monotonic() - started > 1.0
    await photos.assert_published_once(photo_id)


async def test_an_error_that_nobody_expected_is_tried_again(
    photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo_id = await photos.new_photo()
    real, tries = photos.deps.decoders.make_variants, 0

    async def broken(descriptor: int, folder: Path) -> Any:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ZeroDivisionError
        return await real(descriptor, folder)

    monkeypatch.setattr(photos.deps.decoders, "make_variants", broken)
    async with photos.worker(photo_backoff_seconds=0.05):
        assert (await photos.until_job(photo_id, "done"))["attempt"] == 3
    await photos.assert_published_once(photo_id)


@pytest.mark.parametrize("copied", [False, True], ids=["storage's own file", "a copy"])
async def test_other_bytes_than_were_put_are_not_published(
    photos: Photos, monkeypatch: pytest.MonkeyPatch, *, copied: bool
) -> None:
    if copied:
        monkeypatch.setattr(LocalReader, "whole_file", no_file)
    photo_id = await photos.new_photo()
    (original,) = (path for path in (photos.folder / "objects" / "objects").rglob("*") if path.is_file())
    right = original.read_bytes()
    original.write_bytes(picture("jpeg", 600, 401))
    with pytest.raises(Transient, match="storage_unavailable"):
        await process_photo(photo_id, photos.deps)
    assert (await photos.row(photo_id))["processing_state"] == "uploaded"
    original.write_bytes(right)
    assert await process_photo(photo_id, photos.deps) == "published"
    assert list((photos.folder / "scratch").iterdir()) == []


async def no_file(reader: LocalReader) -> None:
    return None


async def test_an_attempt_that_takes_too_long_is_ended_and_charged(photos: Photos, arm: Arm) -> None:
    photo_id = await photos.new_photo()
    arm("photo.after_fetch=pause")
    async with photos.worker(photo_time_limit_seconds=0.2, photo_backoff_seconds=0.05):
        job = await photos.until_job(photo_id, "failed")
    assert (job["attempt"], job["last_error"]) == (3, "deadline_exceeded")


async def test_a_stopped_worker_gives_a_photo_back_in_mid_decode_uncharged(
    photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo_id = await photos.new_photo()
    real, decoding = photos.deps.decoders.make_variants, asyncio.Event()

    async def slow(descriptor: int, folder: Path) -> Any:
        decoding.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(photos.deps.decoders, "make_variants", slow)
    async with photos.worker(grace_seconds=0.1):
        await decoding.wait()
    job = await photos.job(photo_id)
    assert (job["state"], job["attempt"], job["last_error"]) == ("pending", 0, None)
    assert await photos.queue_counts() == (1, 0, 0, 0)
    assert list((photos.folder / "scratch").iterdir()) == []
    monkeypatch.setattr(photos.deps.decoders, "make_variants", real)
    async with photos.worker():
        assert (await photos.until_job(photo_id, "done"))["attempt"] == 1
    await photos.assert_published_once(photo_id)


async def test_a_stopping_worker_finishes_a_photo_within_the_grace(photos: Photos, arm: Arm) -> None:
    photo_id = await photos.new_photo()
    folder = arm("photo.after_encode=pause")
    async with photos.worker(grace_seconds=10) as worker:
        await wait_until(lambda: (folder / "photo.after_encode.reached").exists())
        worker.ask_to_stop()
        (folder / "photo.after_encode.release").touch()
    await photos.assert_published_once(photo_id)
    assert await photos.queue_counts() == (0, 0, 0, 0)


async def test_a_lease_is_renewed_and_a_lost_one_ends_the_work(photos: Photos, arm: Arm) -> None:
    photo_id = await photos.new_photo()
    folder = arm("photo.after_fetch=pause@1")
    async with photos.worker() as worker:
        await wait_until(lambda: (folder / "photo.after_fetch.reached").exists())
        before = (await photos.job(photo_id))["lease_renewed_at"]

        async def renewed() -> bool:
            return bool((await photos.job(photo_id))["lease_renewed_at"] > before)

        await wait_until(cast(Any, renewed))
        await photos.work.pool.execute("update photo_jobs set attempt_id = 0, worker = 'somebody else'")
        counts = worker.consumers[0].photos.counts  # type: ignore[union-attr]
        await wait_until(lambda: counts["superseded"] == 1)
    assert (await photos.job(photo_id))["state"] == "active", "it is somebody else's"
    assert (await photos.row(photo_id))["processing_state"] == "uploaded"


async def test_a_photo_that_kills_its_workers_ends(photos: Photos) -> None:
    photo_id = await photos.new_photo()
    await photos.work.pool.execute("update photo_jobs set attempt = 3, last_error = 'worker_lost'")
    async with photos.worker():
        job = await photos.until_job(photo_id, "failed")
    assert job["last_error"] == "worker_lost"
    assert photos.storage.opened == 0, "it was not begun"


async def test_a_superseded_attempt_writes_nothing(album: Photos) -> None:
    photo_id = await album.new_photo()
    pool = album.work.pool
    async with pool.acquire() as connection:
        old = await claim_photo_job(connection, photo_id, "first")
        assert old is not None and old.attempt == 1
        assert await claim_photo_job(connection, photo_id, "second") is None
        assert await claim_photo_job(connection, photo_id, "first", again=True) == old, (
            "not answered, and found"
        )
        await album.age_leases()
        assert (await album.sweep()).put_back == 1
        new = await claim_photo_job(connection, photo_id, "second")
        assert new is not None and new.attempt == 2 and new.fence != old.fence
        before = dict(await album.job(photo_id)), dict(await album.row(photo_id))
        assert not await finish_photo_job(connection, old)
        assert not await fail_photo_job(connection, old, "corrupt_image")
        assert not await put_back_photo_job(connection, old, error="x", retry_after_seconds=0.0, charged=True)
        assert await renew_photo_jobs(connection, [old]) == set()
        assert (dict(await album.job(photo_id)), dict(await album.row(photo_id))) == before
        assert await fail_photo_job(connection, new, "corrupt_image")


async def test_postgres_away_for_a_moment_charges_nothing(
    photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo_id = await photos.new_photo()
    real, tries = photos.deps.decoders.make_variants, 0

    async def broken(descriptor: int, folder: Path) -> Any:
        nonlocal tries
        tries += 1
        made = await real(descriptor, folder)
        if tries == 1:  # every connection is cut while the photo is made, those of the wrapper too
            await photos.work.pool.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        return made

    monkeypatch.setattr(photos.deps.decoders, "make_variants", broken)
    async with photos.worker():
        job = await photos.until_job(photo_id, "done")
    assert job["attempt"] == 1
    await photos.assert_published_once(photo_id)


def test_a_jobs_data_is_ids_only() -> None:
    photo_id, album_id = UUID(int=1), UUID(int=2)
    job = photo_job(photo_id, album_id)
    assert json.loads(job.data) == {"v": 1, "photoId": str(photo_id), "albumId": str(album_id)}


async def test_a_hard_stop_gives_photos_back_too(album: Photos) -> None:
    """The event loop did not come back: the lease thread does it, and ends the process."""
    photo_id = await album.new_photo()
    async with album.work.pool.acquire() as connection:
        claim = await claim_photo_job(connection, photo_id, "w")
    assert claim is not None
    ledger = Ledger(PHOTO_QUEUE, 2)
    ledger.photos[claim.fence] = claim
    ended: list[int] = []
    keeper = LeaseKeeper(album.work.config(), [ledger], lambda of, fences: None, ended.append)
    keeper.expect_end_within(0.0)
    keeper.start()
    await wait_until(lambda: ended)
    keeper.stop()
    assert ended[0] == 0
    job = await album.job(photo_id)
    assert (job["state"], job["attempt"]) == ("pending", 0)
