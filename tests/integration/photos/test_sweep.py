"""The sweep of photo jobs: what is due, what went stale, and what a wiped Redis has lost."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import redis.asyncio

from lingxi.maintenance.photo_sweep import PhotoSweepCounts, PhotoSweeper
from lingxi.names import PHOTO_QUEUE
from lingxi.services.photo_jobs import (
    claim_photo_job,
    fail_photo_job,
    put_back_photo_job,
    put_back_stale_photo_jobs,
)
from lingxi.services.read_health import read_database_view
from tests.support.photos import Photos
from tests.support.waiting import wait_until


async def test_due_rows_are_enqueued_under_the_one_id_of_their_photo(album: Photos) -> None:
    photo_id = await album.new_photo()
    assert await album.sweep() == PhotoSweepCounts(put_back=0, enqueued=1)
    assert await album.sweep() == PhotoSweepCounts(put_back=0, enqueued=0)
    async with album.queue() as queue:
        (delivery,) = await queue.take(5)
        assert delivery.job_id == f"process-{photo_id}"
        assert (await album.sweep()).enqueued == 0, "it is active"
        await queue.give_back([delivery])
    async with album.worker():
        await album.until_job(photo_id, "done")
    await album.assert_published_once(photo_id)
    assert await album.sweep() == PhotoSweepCounts()


async def test_what_is_not_due_or_lives_is_left_alone(album: Photos) -> None:
    later, lives, failed = [(await album.upload(bytes([n]) * 9)).photo.id for n in range(3)]
    pool = album.work.pool
    await pool.execute(
        "update photo_jobs set next_retry_at = clock_timestamp() + interval '1 minute' where photo_id = $1",
        later,
    )
    async with pool.acquire() as connection:
        claim = await claim_photo_job(connection, lives, "w")
        other = await claim_photo_job(connection, failed, "w")
        assert other is not None
        await fail_photo_job(connection, other, "corrupt_image")
    await album.age_leases(4)
    assert await album.sweep() == PhotoSweepCounts()
    assert (await album.job(lives))["attempt_id"] == (claim.fence if claim else None)


async def test_stale_rows_are_pending_again_and_enqueued(album: Photos) -> None:
    photo_id = await album.new_photo()
    async with album.work.pool.acquire() as connection:
        await claim_photo_job(connection, photo_id, "dead")
    await album.age_leases()
    assert await album.sweep() == PhotoSweepCounts(put_back=1, enqueued=1)
    job = await album.job(photo_id)
    assert (job["state"], job["attempt"], job["last_error"]) == ("pending", 1, "worker_lost")


async def test_what_a_dead_process_had_is_put_back_at_once(album: Photos) -> None:
    dead, alive = [(await album.upload(bytes([n]) * 9)).photo.id for n in range(2)]
    async with album.work.pool.acquire() as connection:
        await claim_photo_job(connection, dead, "host:1:dead")
        await claim_photo_job(connection, alive, "host:2:alive")
        assert await put_back_stale_photo_jobs(connection, limit=10, worker="host:1:dead") == [dead]
    assert [(await album.job(one))["state"] for one in (dead, alive)] == ["pending", "active"]


async def test_no_more_wait_in_redis_than_there_is_room_for(album: Photos) -> None:
    for n in range(7):
        await album.upload(bytes([n]) * 9)
    async with album.queue() as queue:
        sweeper = PhotoSweeper(album.work.pool, queue, waiting_limit=5)
        assert (await sweeper.sweep_once()).enqueued == 5
        await queue.finish_many(await queue.take(2), fetch_next=False)
        assert (await sweeper.sweep_once()).enqueued == 2


async def test_a_wiped_redis_loses_no_photo(photos: Photos) -> None:
    """One waits, one waits for its second attempt; both jobs are gone, and the loop brings them back."""
    first, second = await photos.new_photo(), (await photos.upload(b"\xff\xd8\xff cut")).photo.id

    async def dispatched() -> bool:
        return (await photos.queue_counts())[0] == 2

    await wait_until(cast(Any, dispatched))
    await photos.work.pool.execute(
        "update photo_jobs set attempt = 1, next_retry_at = clock_timestamp() + interval '0.3 s' where photo_id = $1",
        second,
    )
    async with redis.asyncio.from_url(photos.work.redis_url) as client:
        await client.flushall()
    async with photos.queue("sweep") as queue, photos.worker():
        sweeper = PhotoSweeper(photos.work.pool, queue, interval_seconds=0.2)
        loop = asyncio.create_task(sweeper.run())
        await photos.until_job(first, "done")
        assert (await photos.until_job(second, "failed"))["attempt"] == 2
        sweeper.stop()
        await loop
    await photos.assert_published_once(first)


async def test_what_waits_longest_is_known_by_postgres_alone(album: Photos) -> None:
    """For health and alerts: pending and due; not what is delayed, runs or has ended."""

    async def oldest() -> float:
        async with album.work.pool.acquire() as connection:
            view = await read_database_view(connection, [PHOTO_QUEUE, "demo:drill"])
        assert view.retrying[PHOTO_QUEUE] == 0
        return view.oldest_seconds[PHOTO_QUEUE]

    assert await oldest() == 0
    photo_id = await album.new_photo()
    await album.work.pool.execute("update photo_jobs set created_at = created_at - interval '70 seconds'")
    assert 70 <= await oldest() < 90
    async with album.work.pool.acquire() as connection:
        claim = await claim_photo_job(connection, photo_id, "w")
        assert claim is not None and await oldest() == 0
        await put_back_photo_job(connection, claim, error="x", retry_after_seconds=9.0, charged=True)
    assert await oldest() == 0
    await album.work.pool.execute("update photo_jobs set next_retry_at = clock_timestamp() - interval '3 s'")
    assert 3 <= await oldest() < 20
