"""The sweep finds what was lost and leaves alone what lives."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from lingxi.broker.client import api_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.hints import Hints
from lingxi.broker.marker import WipeMarker
from lingxi.broker.queue import BullQueue
from lingxi.db.query import sql
from lingxi.db.session import IDLE_SETTINGS, create_pool, is_unavailable, transaction
from lingxi.maintenance.sweeper import SWEEP_LOCK, SweepCounts, Sweeper
from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig
from lingxi.services.claim_items import Claim, ItemKey, claim_items
from lingxi.services.sweep_leases import FIRST_BATCH
from tests.support.waiting import wait_until
from tests.support.work import Work, drills

QUEUE = "demo:drill"


class Sweep:
    """A sweeper on a test's servers."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.client = api_client(work.redis_url)
        self.queue = BullQueue(QUEUE, connection_factory(work.redis_url), token="sweep")
        self.sweeper = Sweeper(
            work.pool, {QUEUE: self.queue}, WipeMarker(self.client), Hints(self.client), interval_seconds=0.0
        )

    async def once(self, interval_seconds: float = 0.0) -> SweepCounts:
        self.sweeper.interval_seconds = interval_seconds
        return await self.sweeper.run_once()

    async def close(self) -> None:
        await self.queue.close()
        await self.client.aclose()

    async def dispatch(self) -> None:
        """Send all that is due."""
        dispatcher = Dispatcher(DispatcherConfig(self.work.database_url, self.work.redis_url))
        await dispatcher.run_once()
        await dispatcher.close()

    async def claim(self, task: UUID, *positions: int, lease_seconds: float = 60.0) -> list[Claim]:
        async with self.work.pool.acquire() as connection, connection.transaction():
            return await claim_items(
                connection,
                QUEUE,
                [ItemKey(task, position) for position in positions],
                worker="dead:1:boot",
                lease_seconds=lease_seconds,
                time_limit_seconds=60.0,
            )

    async def waiting_jobs(self) -> int:
        return await self.queue.waiting()

    async def states(self, task: UUID) -> list[str]:
        rows = await self.work.pool.fetch(
            "select state from media_task_items where task_id = $1 order by position", task
        )
        return [row["state"] for row in rows]


@pytest.fixture
async def sweep(pool, database_url, redis_url):  # type: ignore[no-untyped-def]
    made = Sweep(await Work.begin(pool, database_url, redis_url))
    yield made
    await made.close()


async def test_an_expired_lease_is_lost_and_charged(sweep: Sweep) -> None:
    task = await sweep.work.submit({}, {}, {})
    await sweep.claim(task, 1, lease_seconds=0.01)
    await sweep.claim(task, 2)
    await wait_until(lambda: _expired(sweep, task))
    counts = await sweep.once()
    assert (counts.lost, counts.failed) == (1, 0)
    assert await sweep.states(task) == ["retrying", "running", "queued"]  # live work is left alone
    attempts = await sweep.work.pool.fetch("select outcome, error_code from media_task_attempts")
    assert [tuple(row) for row in attempts] == [("lost", "worker_lost")]


async def test_a_poison_item_ends(sweep: Sweep) -> None:
    task = await sweep.work.submit({}, max_attempts=2)
    for expected in ("retrying", "failed"):
        await sweep.claim(task, 1, lease_seconds=0.01)
        await wait_until(lambda: _expired(sweep, task))
        await sweep.once()
        assert await sweep.states(task) == [expected]
    assert await sweep.work.pool.fetchval("select error_code from media_task_items") == "worker_lost"
    assert await sweep.work.pool.fetchval("select status from media_tasks") == "failed"


async def test_a_wiped_redis_gets_its_jobs_back(sweep: Sweep) -> None:
    await sweep.once()
    task = await sweep.work.submit(*[{}] * 20)
    await sweep.dispatch()
    assert await sweep.waiting_jobs() == 20
    await sweep.claim(task, 1, 2)
    await sweep.client.flushall()
    counts = await sweep.once()
    assert (counts.wiped, counts.requeued) == (True, 18)
    await sweep.dispatch()
    assert await sweep.waiting_jobs() == 18
    again = await sweep.once()
    assert (again.wiped, again.requeued) == (False, 0)


async def test_a_wipe_is_noticed_long_before_the_next_sweep_is_due(sweep: Sweep) -> None:
    sweep.sweeper.interval_seconds = 600.0
    running = asyncio.create_task(sweep.sweeper.run())
    await wait_until(sweep.sweeper.marker.read)  # its first sweep has ended
    task = await sweep.work.submit(*drills(5))
    await sweep.dispatch()
    assert await sweep.waiting_jobs() == 5
    await sweep.client.flushall()
    await wait_until(lambda: sweep.sweeper.totals.requeued == 5)
    await sweep.dispatch()
    assert await sweep.waiting_jobs() == 5
    assert await sweep.states(task) == ["queued"] * 5
    sweep.sweeper.stop()
    await running


async def test_a_single_lost_job_is_found_without_a_wipe(sweep: Sweep) -> None:
    await sweep.once()
    await sweep.work.submit({}, {}, {})
    await sweep.dispatch()
    lost = await sweep.client.keys("bull:demo-drill:*-*")
    await sweep.client.delete(lost[0])
    assert (await sweep.once()).requeued == 1
    await sweep.dispatch()
    assert await sweep.waiting_jobs() == 4  # three bells, one of them for nothing, and the new one


async def test_what_is_on_its_way_is_not_sent_again(sweep: Sweep) -> None:
    """Items whose event was not published, is due later, or is a dead letter are not lost."""
    await sweep.once()
    task = await sweep.work.submit({}, {})
    assert (await sweep.once()).requeued == 0
    await sweep.work.pool.execute("update outbox_events set last_error = 'dead_lettered', attempts = 10")
    await sweep.client.flushall()
    counts = await sweep.once()
    assert (counts.wiped, counts.requeued) == (True, 0)
    assert await sweep.states(task) == ["queued", "queued"]


async def test_what_was_requeued_and_not_sent_yet_is_not_requeued_again(sweep: Sweep) -> None:
    """No dispatcher works, and Redis is wiped once more: one event is enough."""
    await sweep.once()
    await sweep.work.submit(*[{}] * 5)
    await sweep.dispatch()
    for expected in (5, 0):
        await sweep.client.flushall()
        counts = await sweep.once()
        assert (counts.wiped, counts.requeued) == (True, expected)
    await sweep.dispatch()
    assert await sweep.waiting_jobs() == 5


async def test_a_lease_that_is_renewed_before_the_sweep_has_the_lock_is_left_alone(sweep: Sweep) -> None:
    """The sweep saw it expired, and waited for the task's row; what holds then counts."""
    task = await sweep.work.submit({})
    await sweep.claim(task, 1, lease_seconds=0.01)
    await wait_until(lambda: _expired(sweep, task))
    async with sweep.work.pool.acquire() as connection:
        async with connection.transaction():
            await connection.execute("select from media_tasks where id = $1 for no key update", task)
            sweeping = asyncio.create_task(sweep.once())
            await wait_until(lambda: _waits_patiently(sweep), message="the sweep waits for the task")
            await connection.execute(
                "update media_task_items set lease_expires_at = clock_timestamp() + interval '1 hour'"
            )
        assert (await sweeping).lost == 0
    assert await sweep.states(task) == ["running"]


async def test_a_task_that_is_held_keeps_the_sweep_from_no_other(sweep: Sweep) -> None:
    """The sweep waits for it with nothing else locked, and then goes on."""
    tasks = [await sweep.work.submit(*drills(3)) for _ in range(4)]
    for task in tasks:
        await sweep.claim(task, 1, 2, 3, lease_seconds=0.01)
    for task in tasks:
        await wait_until(lambda task=task: _expired(sweep, task, 3))  # type: ignore[misc]
    held = max(tasks)  # locks are taken by id: every other one is before it
    async with sweep.work.pool.acquire() as connection, sweep.work.pool.acquire() as other:
        async with connection.transaction():
            await connection.execute("select from media_tasks where id = $1 for no key update", held)
            sweeping = asyncio.create_task(sweep.once())
            await wait_until(lambda: _waits_patiently(sweep), message="the sweep waits for the held task")
            free = await other.fetch("select id from media_tasks for no key update skip locked")
            assert {row["id"] for row in free} == set(tasks) - {held}
        assert (await sweeping).lost == 12


async def test_more_than_one_batch(sweep: Sweep) -> None:
    many = 3 * FIRST_BATCH
    task = await sweep.work.submit(*drills(many))
    await sweep.claim(task, *range(1, many + 1), lease_seconds=0.01)
    await wait_until(lambda: _expired(sweep, task, many))
    assert (await sweep.once()).lost == many
    assert await sweep.states(task) == ["retrying"] * many


async def test_a_restored_old_copy_is_recognised(sweep: Sweep) -> None:
    """Its marker is one that was right some sweeps ago: this Redis is not what we left."""
    seen = []
    for _ in range(4):
        assert (await sweep.once()).wiped == (not seen)
        seen.append(await sweep.client.get("lingxi:marker"))
    assert len(set(seen)) == 4
    await sweep.client.set("lingxi:marker", seen[1])
    assert (await sweep.once()).wiped
    assert not (await sweep.once()).wiped


async def test_a_marker_that_did_not_arrive_is_no_wipe(sweep: Sweep) -> None:
    """The sweep was killed, or Redis away, between the promise in PostgreSQL and the word in Redis."""
    await sweep.once()
    before = await sweep.client.get("lingxi:marker")
    for _ in range(3):
        await sweep.once()
        await sweep.client.set("lingxi:marker", before)
        counts = await sweep.once()
        assert not counts.wiped
        before = await sweep.client.get("lingxi:marker")


async def test_many_sweeps_beside_each_other_see_no_wipe(sweep: Sweep) -> None:
    await sweep.once()
    others = [Sweep(sweep.work) for _ in range(4)]
    for _ in range(25):
        counts = await asyncio.gather(*(other.once(interval_seconds=0.1) for other in others))
        assert [one.wiped for one in counts] == [False] * 4
    for other in others:
        await other.close()


async def test_two_sweeps_at_once(sweep: Sweep) -> None:
    task = await sweep.work.submit(*[{}] * 50)
    await sweep.claim(task, *range(1, 51), lease_seconds=0.01)
    await wait_until(lambda: _expired(sweep, task, 50))
    second = Sweep(sweep.work)
    counts = await asyncio.gather(sweep.once(), second.once())
    await second.close()
    assert sum(one.lost for one in counts) == 50
    assert await sweep.work.pool.fetchval("select count(*) from media_task_attempts") == 50


async def test_one_that_froze_in_its_transaction_keeps_nobody_from_sweeping(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is ended by the server, with the lock that it holds; when it wakes, it takes that for an outage."""
    monkeypatch.setitem(IDLE_SETTINGS, "idle_in_transaction_session_timeout", "1s")
    task = await sweep.work.submit({})
    await sweep.claim(task, 1, lease_seconds=0.01)
    pool = await create_pool(sweep.work.database_url, name="frozen", hot=True)
    with pytest.raises(Exception) as ended:  # noqa: PT011
        async with transaction(pool) as frozen:
            assert await frozen.fetchval(sql("deployment/try_lock"), SWEEP_LOCK)
            assert (await sweep.once()).skipped

            async def swept() -> bool:
                return (await sweep.once()).lost == 1

            await wait_until(cast(Any, swept))
    assert is_unavailable(ended.value), ended.value
    assert await sweep.states(task) == ["retrying"]
    await pool.close()


async def test_an_outage_only_delays_it(own_postgres, redis_url) -> None:  # type: ignore[no-untyped-def]
    own_postgres.stop()
    pool = await create_pool(own_postgres.url, name="sweep", min_size=0)
    client = api_client(redis_url)
    sweeper = Sweeper(pool, {}, WipeMarker(client), Hints(client), interval_seconds=0.05)
    running = asyncio.create_task(sweeper.run())
    await asyncio.sleep(0)
    own_postgres.start()
    await wait_until(lambda: _marker(client), timeout_seconds=30)
    sweeper.stop()
    await asyncio.wait_for(running, 10)
    await client.aclose()
    await pool.close()


async def _marker(client) -> bool:  # type: ignore[no-untyped-def]
    return await client.get("lingxi:marker") is not None


async def _waits_patiently(sweep: Sweep) -> bool:
    """For longer than anybody does who holds another task."""
    query = """
    select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
                      and query_start < clock_timestamp() - interval '300 ms')
    """
    return bool(await sweep.work.pool.fetchval(query))


async def _expired(sweep: Sweep, task: UUID, count: int = 1) -> bool:
    expired = await sweep.work.pool.fetchval(
        "select count(*) from media_task_items where task_id = $1 and state = 'running' and lease_expires_at < clock_timestamp()",
        task,
    )
    return bool(expired == count)
