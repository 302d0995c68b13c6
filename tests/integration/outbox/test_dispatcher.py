"""Rounds of the dispatcher: what becomes a job, in which order, how much at once."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lingxi import names
from lingxi.broker.client import api_client
from lingxi.broker.hints import HintListener, Hints
from lingxi.broker.lock import DispatchLock
from lingxi.broker.queue import BullQueue
from lingxi.domain.ids import item_id
from lingxi.observability.failpoints import disarm
from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig
from lingxi.outbox.thread import DispatcherThread
from lingxi.services.cancel_task import cancel_task
from lingxi.services.submit_task import NewTask, submit_task
from tests.integration.outbox.conftest import (
    MakeDispatcher,
    Pool,
    Submit,
    charged,
    drain,
    events,
    pending,
    task_of,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.portable

Arm = Callable[[str], Path]


async def test_each_waiting_item_becomes_one_job(
    dispatcher: Dispatcher, submit: Submit, pool: Pool, queue: BullQueue
) -> None:
    task = await submit(3)
    done = await dispatcher.run_once()
    assert (done.leader, done.claimed, done.published, done.jobs, done.full) == (True, 1, 1, 3, False)
    (event,) = await events(pool)
    assert event["published_at"] is not None and event["attempts"] == 0 and event["last_error"] is None

    jobs = await drain(queue)
    items = [str(item_id(task.id, position)) for position in (1, 2, 3)]
    assert [job.job_id for job in jobs] == [f"{event['id']}-{item}" for item in items]
    assert [json.loads(job.data) for job in jobs] == [
        {"v": 1, "eventId": str(event["id"]), "taskId": str(task.id), "itemId": item} for item in items
    ]
    now_ms = await pool.fetchval("select extract(epoch from clock_timestamp()) * 1000")
    assert all(0 <= now_ms - job.timestamp_ms < 10_000 for job in jobs)
    assert max(len(job.data) for job in jobs) <= 2048

    again = await dispatcher.run_once()
    assert (again.leader, again.claimed, again.jobs) == (True, 0, 0)
    assert dispatcher.totals.published == 1 and dispatcher.totals.jobs == 3


async def test_twenty_events_a_round_and_at_once_again(
    dispatcher: Dispatcher, submit: Submit, pool: Pool, queue: BullQueue
) -> None:
    await submit(47, per_event=1)
    rounds = [await dispatcher.run_once() for _ in range(4)]
    assert [done.published for done in rounds] == [20, 20, 7, 0]
    assert [done.full for done in rounds] == [True, True, False, False]
    assert await queue.waiting() == 47


async def test_an_item_that_no_longer_waits_gets_no_job(
    dispatcher: Dispatcher, submit: Submit, pool: Pool, queue: BullQueue
) -> None:
    task = await submit(4, per_event=2)
    await pool.execute(
        "update media_task_items set state = 'cancelled', finished_at = now() where task_id = $1 and position <= 3",
        task.id,
    )
    done = await dispatcher.run_once()
    assert (done.published, done.jobs) == (2, 1)
    assert await pending(pool) == 0
    (job,) = await drain(queue)
    assert job.job_id.endswith(str(item_id(task.id, 4)))


async def test_what_is_due_later_waits(dispatcher: Dispatcher, submit: Submit, pool: Pool) -> None:
    await submit(1)
    await pool.execute("update outbox_events set next_attempt_at = clock_timestamp() + interval '1 hour'")
    assert (await dispatcher.run_once()).claimed == 0
    await pool.execute("update outbox_events set next_attempt_at = clock_timestamp()")
    assert (await dispatcher.run_once()).published == 1


async def test_jobs_of_every_queue(make_dispatcher: MakeDispatcher, submit: Submit, redis_url: str) -> None:
    for queue in names.QUEUES:
        await submit(2, type=queue)
    assert (await make_dispatcher().run_once()).jobs == 18
    client = api_client(redis_url)
    for queue in names.QUEUES:
        assert await client.zcard(f"bull:{queue.replace(':', '-')}:prioritized") == 2
    await client.aclose()


async def test_a_queue_that_this_deployment_does_not_have_waits_uncharged(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool
) -> None:
    await submit(1, type="media:probe")
    await submit(1, type="demo:drill")
    assert (await make_dispatcher(queues=("demo:drill",)).run_once()).published == 1
    assert await pending(pool) == 1 and await charged(pool) == 0


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────
async def test_by_priority_then_in_turn_by_workspace(
    make_dispatcher: MakeDispatcher, submit: Submit, queue: BullQueue
) -> None:
    """A small workspace behind a big one does not wait for all of it; live goes before everything."""
    big = await submit(60, workspace="big", per_event=1)
    small = await submit(2, workspace="small", per_event=1)
    bulk = await submit(1, workspace="small", priority="bulk")
    live = await submit(1, workspace="late", priority="live")
    dispatcher = make_dispatcher()
    await dispatcher.run_once()
    first = [task_of(job.job_id) for job in await drain(queue)]
    assert first[:5] == [live.id, big.id, small.id, big.id, small.id]
    assert first[5:] == [big.id] * 15
    for _ in range(4):
        await dispatcher.run_once()
    rest = [task_of(job.job_id) for job in await drain(queue)]
    assert rest == [big.id] * 43 + [bulk.id]


# ── the cap ──────────────────────────────────────────────────────────────────────────────────────────────
async def test_redis_holds_no_more_than_the_cap(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, queue: BullQueue
) -> None:
    dispatcher = make_dispatcher(waiting_limit=10)
    await submit(25, per_event=4)
    other = await submit(3, type="media:probe", priority="bulk")
    for _ in range(5):
        await dispatcher.run_once()
    assert await queue.waiting() == 8, "a third event of four would be one too many"
    assert await pool.fetchval(
        "select published_at is not null from outbox_events where task_id = $1", other.id
    ), "a full queue holds up no other"
    assert await charged(pool) == 0
    live = await submit(1, priority="live")
    await queue.finish_many(await queue.take(6), fetch_next=False)
    await dispatcher.run_once()
    assert await queue.waiting() <= 10
    assert task_of((await queue.take(1))[0].job_id) == live.id, "what waits in the outbox goes by priority"
    seen = 7
    while seen < 26:
        await dispatcher.run_once()
        waiting = await queue.waiting()
        assert waiting <= 10
        seen += len(await drain(queue))
    assert await pending(pool) == 0


async def test_an_event_larger_than_the_cap_goes_alone(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, queue: BullQueue
) -> None:
    dispatcher = make_dispatcher(waiting_limit=5)
    await submit(1)
    await submit(12)
    await submit(2)
    await dispatcher.run_once()
    assert await queue.waiting() == 1
    assert (await dispatcher.run_once()).published == 0, "the small one behind it does not pass for ever"
    await drain(queue)
    await dispatcher.run_once()
    assert len(await drain(queue)) == 12
    await dispatcher.run_once()
    assert len(await drain(queue)) == 2


async def test_a_full_queue_is_looked_at_often_while_it_empties(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, queue: BullQueue
) -> None:
    dispatcher = make_dispatcher(waiting_limit=11, interval_seconds=30.0)
    await submit(60, per_event=5)  # two at a time: a tenth of the room is for other workspaces
    running = asyncio.create_task(dispatcher.run())
    seen = 0

    async def work() -> int:
        nonlocal seen
        batch = await queue.take(1)
        await queue.finish_many(batch, fetch_next=False)
        seen += len(batch)
        if seen % 10 == 0 and batch:
            dispatcher.wake()
        return seen == 60

    await wait_until(work, 20)
    dispatcher.stop()
    await running


# ── versions and types ───────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("change", "understood"),
    [
        ("payload = '{\"v\": 2}'", False),
        ("payload = '{\"v\": 1e3}'", False),
        ("type = 'photo.melted', payload = '{\"v\": 1}'", False),
        ('payload = \'{"v": "x"}\'', True),
        ("payload = '{}'", True),
        ("payload = '[]'", True),
    ],
)
async def test_what_a_newer_version_wrote_is_left_for_it_uncharged(
    dispatcher: Dispatcher, submit: Submit, pool: Pool, change: str, understood: bool
) -> None:
    await submit(1)
    await pool.execute(f"update outbox_events set {change}")
    await submit(1)
    done = await dispatcher.run_once()
    assert done.published == 1 + understood
    assert await charged(pool) == 0 and await pending(pool) == 1 - understood


async def test_the_end_of_a_task_is_a_hint(
    dispatcher: Dispatcher, submit: Submit, pool: Pool, redis_url: str
) -> None:
    heard: list[tuple[str, bytes]] = []
    listener = HintListener(redis_url, [names.HINT_TASKS], lambda *message: heard.append(message))
    listener.start()
    await wait_until(lambda: listener.connected)
    task = await submit(2)
    async with pool.acquire() as connection, connection.transaction():
        await cancel_task(connection, task.workspace_id, task.id)
    done = await dispatcher.run_once()
    assert (done.published, done.jobs) == (2, 0)
    assert await pending(pool) == 0
    await wait_until(lambda: (names.HINT_TASKS, str(task.id).encode()) in heard)
    await listener.stop()


# ── the loop ─────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_hint_wakes_the_loop_and_full_rounds_follow_each_other(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, redis_url: str
) -> None:
    dispatcher = make_dispatcher(interval_seconds=60.0)
    running = asyncio.create_task(dispatcher.run())
    await wait_until(lambda: dispatcher.totals.rounds >= 2)  # the start, and the listener's connection
    client = api_client(redis_url)
    hints = Hints(client)
    await submit(50, per_event=1)
    assert await pending(pool) == 50
    started = time.monotonic()
    hints.publish_outbox()
    await wait_until(lambda: _nothing_pending(pool))
    assert time.monotonic() - started < 15
    dispatcher.stop()
    await running
    assert await client.get(names.DISPATCH_LOCK_KEY) is None, "the lock is let go at the end"
    await hints.close()
    await client.aclose()


async def _nothing_pending(pool: Pool) -> bool:
    return await pending(pool) == 0


async def test_without_hints_the_interval_is_the_floor(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool
) -> None:
    dispatcher = make_dispatcher(interval_seconds=0.2)
    running = asyncio.create_task(dispatcher.run())
    await wait_until(lambda: dispatcher.totals.rounds >= 3)
    await submit(1)
    await wait_until(lambda: _nothing_pending(pool), 3)
    dispatcher.stop()
    await running


async def test_an_error_in_a_round_does_not_end_the_loop(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, queue: BullQueue, arm: Arm
) -> None:
    folder = arm("outbox.before_commit=error@1")
    await submit(3)
    dispatcher = make_dispatcher(interval_seconds=0.05)
    running = asyncio.create_task(dispatcher.run())
    await wait_until(lambda: _nothing_pending(pool))
    dispatcher.stop()
    await running
    assert (folder / "outbox.before_commit.reached").exists()
    assert len(await drain(queue)) == 3 and await charged(pool) == 0


async def test_on_a_thread_of_its_own(config: DispatcherConfig, submit: Submit, pool: Pool) -> None:
    thread = DispatcherThread(config)
    thread.start()
    await submit(2)
    thread.wake()
    await wait_until(lambda: _nothing_pending(pool))
    assert thread.is_alive and thread.totals.jobs == 2
    assert await asyncio.to_thread(thread.stop)
    assert not thread.is_alive
    thread.wake()  # harmless after the end


# ── several dispatchers ──────────────────────────────────────────────────────────────────────────────────
async def test_one_of_two_dispatchers_leads(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool
) -> None:
    first, second = make_dispatcher(), make_dispatcher()
    assert (await first.run_once()).leader
    await submit(1)
    assert not (await second.run_once()).leader
    assert await pending(pool) == 1
    await first.close()
    assert (await second.run_once()).published == 1


async def test_two_that_both_believe_to_lead_share_the_events(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, queue: BullQueue, redis_url: str, arm: Arm
) -> None:
    """The lock saves work; that nothing is doubled without it is SKIP LOCKED's doing."""
    folder = arm("outbox.after_send=pause@1")
    await submit(30, per_event=1)
    slow, quick = make_dispatcher(), make_dispatcher()
    first: asyncio.Task[Any] = asyncio.create_task(slow.run_once())
    await wait_until((folder / "outbox.after_send.reached").exists)
    client = api_client(redis_url)
    await client.delete(names.DISPATCH_LOCK_KEY)
    done = await quick.run_once()
    assert (done.leader, done.published) == (True, 10)
    (folder / "outbox.after_send.release").touch()
    assert (await first).published == 20
    disarm()
    assert await pending(pool) == 0
    jobs = [job.job_id for job in await drain(queue)]
    assert len(jobs) == len(set(jobs)) == 30
    await client.aclose()


# ── commits out of order ─────────────────────────────────────────────────────────────────────────────────
async def test_a_row_whose_transaction_commits_late_is_not_skipped(
    dispatcher: Dispatcher, submit: Submit, pool: Pool, queue: BullQueue
) -> None:
    workspace = (await submit(1)).workspace_id
    late = await pool.acquire()
    transaction = late.transaction()
    await transaction.start()
    task = await submit_task(late, NewTask(workspace, "demo:drill", 1, [None], ["{}"]))
    newer = await submit(1)
    assert (await dispatcher.run_once()).published == 2
    assert (await dispatcher.run_once()).published == 0
    await transaction.commit()
    await pool.release(late)
    assert (await dispatcher.run_once()).published == 1
    order = [event["task_id"] for event in await events(pool)]
    assert order.index(task.id) < order.index(newer.id), "its id is the smaller one"
    assert task_of((await drain(queue))[-1].job_id) == task.id


async def test_random_commits_beside_two_running_dispatchers(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, queue: BullQueue
) -> None:
    workspace = (await submit(1)).workspace_id
    dispatchers = [make_dispatcher(interval_seconds=0.01) for _ in range(2)]
    dispatchers[1]._lock = DispatchLock(dispatchers[1]._client, key="lingxi:lock:another")
    running = [asyncio.create_task(dispatcher.run()) for dispatcher in dispatchers]
    chance = random.Random(7)

    async def one(delay: float) -> None:
        async with pool.acquire() as connection, connection.transaction():
            await submit_task(connection, NewTask(workspace, "demo:drill", 1, [None] * 2, ["{}"] * 2))
            await asyncio.sleep(delay)

    await asyncio.gather(*(one(chance.choice((0.0, 0.01, 0.2))) for _ in range(100)))
    await wait_until(lambda: _nothing_pending(pool))
    for dispatcher in dispatchers:
        dispatcher.stop()
    await asyncio.gather(*running)
    jobs = [job.job_id for job in await drain(queue)]
    assert len(jobs) == len(set(jobs)) == 201
    assert sum(dispatcher.totals.published for dispatcher in dispatchers) == 101
