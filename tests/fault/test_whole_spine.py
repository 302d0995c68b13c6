"""The spine under load: a task of the largest size, and a minute without Redis."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.support.servers import OwnServer
from tests.support.work import Work, drills

MINUTE_SECONDS = 60.0


async def test_a_task_of_ten_thousand_items_ends_truthfully(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str
) -> None:
    work = await Work.begin(pool, database_url, redis_url)
    task_id = await work.submit(*drills(9_990), *drills(10, fail="permanent"))
    async with work.dispatching(), work.worker(lease_seconds=30, lease_renew_seconds=10):
        task = await work.ended(task_id, 100)
    assert (task["status"], task["succeeded_items"], task["failed_items"]) == ("partially_failed", 9_990, 10)
    # created, a claim and an end for each item, the end of the round: dense, each number once
    assert task["last_seq"] == 1 + 2 * 10_000 + 1
    numbers = await pool.fetchval(
        "select count(distinct last_seq) from media_task_items where task_id = $1", task_id
    )
    assert numbers == 10_000


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_minute_without_redis_under_load(
    own_valkey: OwnServer, pool: asyncpg.Pool[asyncpg.Record], database_url: str
) -> None:
    work = await Work.begin(pool, database_url, own_valkey.url)
    tasks = [await work.submit(*drills(300, durationMs=50, effect=True))]
    async with work.dispatching(), work.worker(lease_seconds=30, lease_renew_seconds=10):
        await work.running(tasks[0])
        await asyncio.to_thread(own_valkey.stop)
        for _ in range(int(MINUTE_SECONDS / 5)):
            tasks.append(await work.submit(*drills(50, effect=True)))
            await asyncio.sleep(5)
        charged = await pool.fetchval("select count(*) from outbox_events where attempts > 0")
        await asyncio.to_thread(own_valkey.start)
        for task_id in tasks:
            assert (await work.ended(task_id, 60))["status"] == "succeeded"
    assert charged == 0
    assert await pool.fetchval("select count(*) from outbox_events where last_error is not null") == 0
    for task_id in tasks:
        assert await work.effects(task_id) == (await work.task(task_id))["total_items"]
        assert {item["attempt"] for item in await work.items(task_id)} == {1}
