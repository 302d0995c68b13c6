"""Canaries: a worker that beats and does not work is seen, one that works is not suspected, and nothing else notices them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import redis.asyncio

from lingxi.api.monitor import QueueMonitor
from lingxi.broker.client import api_client
from lingxi.names import QUEUES
from lingxi.observability import failpoints
from tests.support.soundness import violations
from tests.support.waiting import wait_until
from tests.support.work import Work, drills

QUEUE = "demo:drill"


@pytest.fixture
async def bird(pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str) -> AsyncIterator[Work]:
    """A workspace, and a dispatcher that sends a canary five times a second."""
    started = await Work.begin(pool, database_url, redis_url)
    async with started.dispatching(canary_interval_seconds=0.2):
        yield started
    assert await violations(database_url) == []


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Path]:
    """Workers that stop before they claim, until the file is made."""
    failpoints.arm("worker.before_claim=pause", tmp_path)
    yield tmp_path / "worker.before_claim.release"
    failpoints.disarm()


async def _row(work: Work) -> asyncpg.Record | None:
    return await work.pool.fetchrow("select * from canaries where queue = $1", QUEUE)


async def _until(work: Work, fact: Any) -> asyncpg.Record:
    """The canary's row once `fact(row)` holds."""

    async def now() -> Any:
        row = await _row(work)
        return row if row is not None and fact(row) else None

    found: asyncpg.Record = await wait_until(now, 30, "the canary's row says so")
    return found


async def _unanswered(work: Work) -> asyncpg.Record:
    """Once the same canary, and the one after it, found no answer."""

    async def now() -> Any:
        query = "select * from canaries where queue = $1 and sent_at > waiting_since"
        return await work.pool.fetchrow(query, QUEUE)

    found: asyncpg.Record = await wait_until(now, 30, "nobody answers")
    return found


async def _ages(work: Work) -> dict[str, float]:
    client = api_client(work.redis_url)
    try:
        view = await QueueMonitor(work.pool, client, QUEUES).database_view()
    finally:
        await client.aclose()
    return view.canary_seconds


async def test_a_worker_answers_and_nothing_else_notices(bird: Work) -> None:
    async with bird.worker():
        row = await _until(bird, lambda row: row["answered_at"] and row["number"] >= 3)
        assert row["answered_by"] and 0 < row["round_trip_seconds"] < 30
        await _until(bird, lambda row: row["waiting_since"] is None)
        assert set(await _ages(bird)) == {QUEUE}, "queues without a worker are not asked"
    assert (await bird.queue_lengths())["failed"] == 0
    for table in ("outbox_events", "audit_log", "media_tasks"):
        assert await bird.pool.fetchval(f"select count(*) from {table}") == 0
    async with redis.asyncio.from_url(bird.redis_url) as client:
        assert await client.keys("lingxi:finished:*") == []


async def test_a_worker_that_beats_and_does_not_work_is_seen(bird: Work, stuck: Path) -> None:
    async with bird.worker():
        task = await bird.submit({})
        first = await _unanswered(bird)
        later = await _until(bird, lambda row: row["number"] >= first["number"] + 2)
        assert later["waiting_since"] == first["waiting_since"]
        assert (await _ages(bird))[QUEUE] > 0.2
        lengths = await bird.queue_lengths()
        assert lengths["wait"] <= 1, "the one before is taken back when the next is sent"
        stuck.touch()
        await _until(bird, lambda row: row["waiting_since"] is None)
        assert (await bird.ended(task))["status"] == "succeeded"
    await bird.queue_empty()


async def test_a_worker_that_is_full_of_long_items_works(bird: Work) -> None:
    async with bird.worker(concurrency={QUEUE: 2}, grace_seconds=0.1) as worker:
        task = await bird.submit(*drills(6, durationMs=300_000))
        await bird.running(task, 2)
        before = await _until(bird, lambda row: True)
        await _until(bird, lambda row: row["number"] > before["number"] + 2 and row["waiting_since"] is None)
        assert (await bird.states(task)).count("running") == 2
        assert len(worker.consumers[0].ledger.attempts) == 2, "a canary makes no room for more work"


async def test_nobody_is_asked_where_nobody_works(bird: Work, stuck: Path) -> None:
    """A canary on its way is taken back when the last worker goes, so that it is no backlog."""
    async with bird.worker(concurrency={QUEUE: 1}):
        task = await bird.submit({})
        await _unanswered(bird)
        async with redis.asyncio.from_url(bird.redis_url) as client:
            await client.hset("bull:demo-drill:meta", "paused", "1")  # type: ignore[misc]
            await _until(bird, lambda row: row["waiting_since"] is None)
            await client.hdel("bull:demo-drill:meta", "paused")  # type: ignore[misc]
            await _unanswered(bird)
        stuck.touch()
        await bird.ended(task)
    async with redis.asyncio.from_url(bird.redis_url) as client:
        await client.delete("lingxi:worker:heartbeat:demo:drill")
    await _until(bird, lambda row: row["waiting_since"] is None)
    await bird.queue_empty()


async def test_a_worker_of_an_older_version_is_not_asked(bird: Work) -> None:
    async with redis.asyncio.from_url(bird.redis_url) as client:
        await client.set("lingxi:worker:heartbeat:demo:drill", '{"worker": "old", "atMs": 1}')
        async with bird.worker(queues=("media:verify",)):
            await wait_until(lambda: _answered(bird, "media:verify"), 30)
        assert await _row(bird) is None


async def _answered(work: Work, queue: str) -> bool:
    return bool(await work.pool.fetchval("select answered_at from canaries where queue = $1", queue))


async def test_a_canary_that_redis_lost_is_sent_again(bird: Work, stuck: Path) -> None:
    async with bird.worker():
        await bird.submit({})
        await _unanswered(bird)
        async with redis.asyncio.from_url(bird.redis_url) as client:
            await client.flushall()
        stuck.touch()
        await _until(bird, lambda row: row["waiting_since"] is None)


async def test_with_the_period_0_what_is_on_its_way_is_taken_back(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str, stuck: Path
) -> None:
    work = await Work.begin(pool, database_url, redis_url)
    async with work.worker():
        async with work.dispatching(canary_interval_seconds=0.2):
            task = await work.submit({})
            await _unanswered(work)
        async with work.dispatching():
            await _until(work, lambda row: row["waiting_since"] is None)
            assert not stuck.exists(), "nobody answered"
            stuck.touch()
            await work.ended(task)
