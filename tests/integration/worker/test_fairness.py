"""Whose items are taken first, and how many of one workspace may run: with a dispatcher, Redis and a worker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from lingxi.observability import failpoints
from lingxi.outbox import fairness
from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig
from lingxi.outbox.fairness import QUANTUM
from lingxi.services.claim_items import ItemKey, existing_items
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.workspace_caps import list_caps, set_cap
from lingxi.services.workspaces import create_workspace
from tests.support.waiting import wait_until
from tests.support.work import Work, drills

SLOTS = 4


@pytest.fixture
async def other(work: Work) -> Work:
    return await beside(work)


async def beside(work: Work) -> Work:
    """A second workspace on the same servers."""
    async with work.pool.acquire() as connection:
        workspace = await create_workspace(connection, "other")
    assert workspace is not None
    return replace(work, workspace_id=workspace.id)


async def submit_parts(
    work: Work, count: int, *, duration_ms: int, per_event: int, priority: int = 1
) -> UUID:
    """A task of so many drills, in events of `per_event`."""
    inputs = [json.dumps({"durationMs": duration_ms})] * count
    new = NewTask(work.workspace_id, "demo:drill", priority, [None] * count, inputs)
    async with work.pool.acquire() as connection, connection.transaction():
        return (await submit_task(connection, new, items_per_event=per_event)).id


async def overtakers(work: Work, big: UUID, small: UUID) -> int:
    """How many items of `big` were started after `small` was sent and before its last item was."""
    query = """select count(*) from media_task_items i where i.task_id = $1
                  and i.started_at > (select min(published_at) from outbox_events where task_id = $2)
                  and i.started_at < (select max(started_at) from media_task_items where task_id = $2)"""
    found: int = await work.pool.fetchval(query, big, small)
    return found


@pytest.mark.parametrize("many", [3_000, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_ten_items_beside_thousands_start_at_once(work: Work, other: Work, many: int) -> None:
    async with work.worker(concurrency={"demo:drill": SLOTS}):
        big = await submit_parts(work, many, duration_ms=20, per_event=500)
        await work.running(big, SLOTS)
        small = await other.submit(*drills(10, durationMs=20))
        await other.ended(small)
        assert await overtakers(work, big, small) <= 10 + 4 * QUANTUM + 2 * SLOTS
        assert not (await work.task(big))["finished_at"]
        async with work.pool.acquire() as connection:
            await connection.execute("select cancel_task($1, $2)", work.workspace_id, big)


async def begun(work: Work) -> str:
    """The first letter of each item's priority (live, normal, bulk), in the order in which they were claimed.

    By time: each connection of a worker takes fences from a stretch of its own.
    """
    rows = await work.pool.fetch(
        "select t.priority from media_task_items i join media_tasks t on t.id = i.task_id order by i.started_at"
    )
    return "".join("lnb"[row["priority"]] for row in rows)


async def test_live_goes_before_normal_before_bulk_on_one_worker(work: Work, other: Work) -> None:
    tasks = [
        await submit_parts(whose, 12, duration_ms=0, per_event=12, priority=priority)
        for whose, priority in ((work, 2), (work, 1), (other, 1), (other, 0))
    ]
    await wait_until(lambda: all_sent(work), message="all wait in Redis")
    async with work.worker(concurrency={"demo:drill": 1}):
        for task in tasks:
            await work.ended(task)
    assert await begun(work) == "l" * 12 + "n" * 24 + "b" * 12


async def all_sent(work: Work) -> bool:
    return not await work.pool.fetchval("select count(*) from outbox_events where published_at is null")


async def test_bulk_is_overtaken_for_a_bounded_time_only(
    work: Work, other: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule with smaller numbers: bulk lets 10 turns go first, and has a fourth of one's turns from then on."""
    monkeypatch.setattr(fairness, "LEADS", (0, 2, 10))
    bulk = await submit_parts(work, 8, duration_ms=0, per_event=8, priority=2)
    live = await submit_parts(other, 400, duration_ms=0, per_event=400, priority=0)
    await wait_until(lambda: all_sent(work), message="all wait in Redis")
    async with work.worker(concurrency={"demo:drill": 1}):
        await work.ended(bulk)
        await work.ended(live)
    order = await begun(work)
    assert 10 * QUANTUM <= order.index("b") <= 12 * QUANTUM
    assert order.rindex("b") <= order.index("b") + 8 * 5 + QUANTUM


async def test_a_full_queue_has_room_for_who_has_nothing_there(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str
) -> None:
    work = await Work.begin(pool, database_url, redis_url)
    other = await beside(work)
    dispatcher = Dispatcher(DispatcherConfig(database_url, redis_url, waiting_limit=100))
    big = await submit_parts(work, 400, duration_ms=0, per_event=20)
    while (await dispatcher.run_once()).published:
        pass
    assert (await work.queue_lengths())["prioritized"] == 80, (
        "a tenth of the room is kept, an event is sent whole"
    )
    small = await submit_parts(other, 10, duration_ms=0, per_event=10)
    assert (await dispatcher.run_once()).published == 1
    assert (await work.queue_lengths())["prioritized"] == 90
    await dispatcher.close()
    sent = await pool.fetch("select task_id from outbox_events where published_at is not null")
    assert [row["task_id"] for row in sent].count(small) == 1
    assert [row["task_id"] for row in sent].count(big) == 4


async def test_a_cap_bounds_what_runs_at_once(work: Work, other: Work) -> None:
    async with work.pool.acquire() as connection:
        await set_cap(connection, work.workspace_id, 2)
    async with work.worker(concurrency={"demo:drill": 10}), other.worker(concurrency={"demo:drill": 10}):
        capped = await work.submit(*drills(9, durationMs=60))
        free = await other.submit(*drills(20, durationMs=60))
        await other.ended(free)
        assert not (await work.task(capped))["finished_at"], "the others did not wait for it"
        await work.ended(capped, 60)
    assert await most_at_once(work, capped) <= 2
    assert await most_at_once(work, free) > 2
    assert [item["attempt"] for item in await work.items(capped)] == [1] * 9


async def test_a_cap_that_is_lifted_holds_nobody(work: Work) -> None:
    async with work.pool.acquire() as connection:
        await set_cap(connection, work.workspace_id, 1)
        await set_cap(connection, work.workspace_id, 3)
    async with work.worker(concurrency={"demo:drill": 20}):
        task_id = await work.submit(*drills(60, durationMs=1_500))  # half a minute of work for three
        await work.running(task_id, 3)
        async with work.pool.acquire() as connection:
            (cap,) = await list_caps(connection)
            assert (cap.name, cap.max_running, cap.running) == ("work", 3, 3)
            await set_cap(connection, work.workspace_id, None)
            assert await list_caps(connection) == []
        await wait_until(lambda: _runs_more(work, task_id), 30, "more than three run")
        await work.ended(task_id, 60)


async def test_a_cap_that_is_lifted_right_after_it_refused_a_claim_loses_no_job(
    work: Work, tmp_path: Path
) -> None:
    """Nobody sweeps here: a job that counted as done would never come again."""
    async with work.pool.acquire() as connection:
        await set_cap(connection, work.workspace_id, 1)
    async with work.worker():
        await work.running(await work.submit(*drills(1, durationMs=8_000)))
        failpoints.arm("worker.after_claim=pause@1", tmp_path)
        try:
            refused = await work.submit(*drills(1))
            await wait_until(
                lambda: (tmp_path / "worker.after_claim.reached").exists(), message="it was asked for"
            )
            assert await work.states(refused) == ["queued"]
            async with work.pool.acquire() as connection:
                await set_cap(connection, work.workspace_id, None)
        finally:
            (tmp_path / "worker.after_claim.release").touch()
            failpoints.disarm()
        await work.ended(refused, 30)


async def test_what_a_claim_left_waits_also_when_the_cap_was_lifted_right_after(work: Work) -> None:
    """Between the claim that was refused and the look at why: the job comes again, it is not taken for done."""
    task_id = await work.submit(*drills(2))
    keys = [ItemKey(task_id, 1), ItemKey(task_id, 2)]
    async with work.pool.acquire() as connection:
        assert await existing_items(connection, "demo:drill", keys) == dict.fromkeys(keys, "held")
        await set_cap(connection, work.workspace_id, 1)
        assert await existing_items(connection, "demo:drill", keys) == dict.fromkeys(keys, "held")
    async with work.worker():
        await work.ended(task_id)
    async with work.pool.acquire() as connection:
        assert await existing_items(connection, "demo:drill", keys) == dict.fromkeys(keys, "no")


async def _runs_more(work: Work, task_id: UUID) -> bool:
    return (await work.states(task_id)).count("running") > 3


async def most_at_once(work: Work, task_id: UUID) -> int:
    """The largest number of a task's items that ran at the same time, by the database's clock."""
    moments = []
    for item in await work.items(task_id):
        moments += [(item["started_at"], 1), (item["finished_at"], -1)]
    running = most = 0
    for _, change in sorted(moments, key=lambda moment: (moment[0], moment[1])):
        running += change
        most = max(most, running)
    return most
