"""A task's priority is changed while it waits: in the outbox, and in Redis."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import httpx
import pytest

from lingxi.domain.errors import Conflict, NotFound
from lingxi.services.set_priority import set_priority
from tests.integration.api.harness import Api, World, batch
from tests.support.processes import run_lingxi
from tests.support.waiting import wait_until
from tests.support.work import Work, drills

LIVE, NORMAL, BULK = 0, 1, 2


@pytest.fixture
async def work(pool: Any, database_url: str, redis_url: str) -> Work:
    return await Work.begin(pool, database_url, redis_url)


async def change(work: Work, task: UUID, priority: int) -> None:
    async with work.pool.acquire() as connection, connection.transaction():
        await set_priority(connection, work.workspace_id, task, priority)


async def first_begun(work: Work, tasks: list[UUID]) -> list[UUID]:
    """The tasks in the order in which the first item of each began."""
    rows = await work.pool.fetch(
        "select task_id from media_task_items where task_id = any($1) group by task_id order by min(attempt_id)",
        tasks,
    )
    return [row["task_id"] for row in rows]


async def all_sent(work: Work) -> bool:
    return not await work.pool.fetchval("select count(*) from outbox_events where published_at is null")


async def test_what_was_sent_already_is_overtaken_by_a_task_that_becomes_urgent(work: Work) -> None:
    first, second = await work.submit(*drills(30)), await work.submit(*drills(30))
    async with work.dispatching():
        await wait_until(lambda: all_sent(work))
        await change(work, second, LIVE)
        await wait_until(lambda: all_sent(work))
        async with work.worker(concurrency={"demo:drill": 1}):
            assert (await work.ended(second))["status"] == "succeeded"
            assert (await work.ended(first))["status"] == "succeeded"
            await work.queue_empty()
    assert await first_begun(work, [first, second]) == [second, first]
    assert {row["attempt"] for row in await work.items(second)} == {1}, "the second bell was dropped"
    await work.assert_truthful(second)


async def test_what_waits_in_the_outbox_changes_its_place_and_nothing_is_sent_twice(work: Work) -> None:
    first, second = await work.submit(*drills(3)), await work.submit(*drills(3))
    await change(work, first, BULK)
    events = await work.pool.fetch(
        "select task_id, priority, item_count from outbox_events order by priority"
    )
    assert [tuple(row) for row in events] == [(second, NORMAL, 3), (first, BULK, 3)]
    await change(work, first, LIVE)
    assert await work.pool.fetchval("select count(*) from outbox_events") == 2, "it was not sent yet"
    async with work.dispatching(), work.worker(concurrency={"demo:drill": 1}):
        await work.ended(second)
        await work.ended(first)
    assert await first_begun(work, [first, second]) == [first, second]
    with pytest.raises(Conflict):
        await change(work, first, NORMAL)
    with pytest.raises(NotFound):
        await change(work, UUID(int=5), NORMAL)


async def test_over_http_and_on_the_command_line(
    api: Api, world: World, editor: httpx.AsyncClient, pool: Any
) -> None:
    task = (await editor.post("media-tasks", json=batch(2))).json()["id"]
    answer = await editor.post(f"media-tasks/{task}/priority", json={"priority": "live"})
    assert (answer.status_code, answer.json()["priority"], answer.json()["cursor"]) == (200, "live", 1)
    assert (await editor.post(f"media-tasks/{task}/priority", json={"priority": "now"})).status_code == 422
    async with api.client(world.theirs.editor) as theirs:
        assert (
            await theirs.post(f"media-tasks/{task}/priority", json={"priority": "bulk"})
        ).status_code == 404
    async with api.client(world.ours.viewer) as viewer:
        assert (
            await viewer.post(f"media-tasks/{task}/priority", json={"priority": "bulk"})
        ).status_code == 403
    await editor.post(f"media-tasks/{task}/cancel")
    assert (await editor.post(f"media-tasks/{task}/priority", json={"priority": "bulk"})).status_code == 409
    rows = await pool.fetch("select verb, target from audit_log where verb = 'task.priority'")
    assert [tuple(row) for row in rows] == [("task.priority", f"task:{task}")]
    later = (await editor.post("media-tasks", json=batch(2))).json()["id"]
    asked = ("priority", later, "bulk", "--url", api.url, "--token", world.ours.editor, "--json")
    said = await asyncio.to_thread(run_lingxi, *asked, env={})
    assert said.returncode == 0 and '"bulk"' in said.stdout, said.stderr
