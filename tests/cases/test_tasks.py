"""Cases of tasks and items that users met elsewhere, and that no other test tries as their words say (docs/cases.md)."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import httpx

from lingxi.broker.client import api_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.hints import Hints
from lingxi.broker.marker import WipeMarker
from lingxi.broker.queue import BullQueue
from lingxi.domain.decide import Decision
from lingxi.domain.ids import item_id
from lingxi.maintenance.sweeper import Sweeper
from lingxi.services.claim_items import Claim, ItemKey, claim_items
from lingxi.services.finish_items import Ending, finish_items
from tests.integration.api.harness import Api, World
from tests.support.waiting import wait_until
from tests.support.work import Work

TEXT = 'Größe "x" \\ 😀 {"a":1} مجلد\n\t%s <b>'
COUNTS = ("queued", "running", "retrying", "succeeded", "failed", "cancelled")


async def submit(client: httpx.AsyncClient, *inputs: dict[str, Any], **more: Any) -> str:
    """A task of drills; answers its id."""
    body = {"type": "demo:drill", "items": [{"input": given} for given in inputs], **more}
    answer = await client.post("media-tasks", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def task_of(client: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    answer = await client.get(f"media-tasks/{task_id}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def items_of(client: httpx.AsyncClient, task_id: str) -> list[dict[str, Any]]:
    """Of a task that fits on one page."""
    return list((await client.get(f"media-tasks/{task_id}/items?limit=100")).json()["items"])


async def ended(client: httpx.AsyncClient, task_id: str, timeout_seconds: float = 30) -> dict[str, Any]:
    async def once_final() -> dict[str, Any] | None:
        task = await task_of(client, task_id)
        return task if task["finishedAt"] else None

    task = await wait_until(once_final, timeout_seconds, f"task {task_id} ends")
    assert task is not None
    return task


async def test_the_sentence_of_an_error_is_told_as_it_was_raised(work: Work, api: Api, world: World) -> None:
    """C11. In the answer, in its history and in the stream; and what is large in a submission has its place."""
    async with api.client(world.ours.editor) as client, work.worker():
        given = {"fail": "permanent", "failMessage": TEXT}
        task_id = await submit(client, given, metadata={"name": "ä" * 4_000})
        task = await ended(client, task_id)
        (item,) = await items_of(client, task_id)
        assert item["input"]["failMessage"] == TEXT
        assert item["error"]["message"] == item["attempts"][0]["error"]["message"] == TEXT
        assert task["metadata"]["name"] == "ä" * 4_000
        stream = await client.get(f"media-tasks/{task_id}/events?lastEventId=0")
        assert stream.status_code == 200
        frames = [line for line in stream.text.splitlines() if line.startswith("data:")]
        assert any(httpx.Response(200, text=line[5:]).json().get("error") == item["error"] for line in frames)


async def test_a_lost_attempt_is_found_without_its_workers_row(
    work: Work, pool: asyncpg.Pool[asyncpg.Record]
) -> None:
    """C17. The row is pruned, or a new start under the old name beats on: the lease alone decides."""
    client = api_client(work.redis_url)
    queue = BullQueue("demo:drill", connection_factory(work.redis_url), token="sweep")
    sweeper = Sweeper(pool, {"demo:drill": queue}, WipeMarker(client), Hints(client), 0.0)
    for row in (None, "insert into workers (boot, name, host, pid, version, queues) "
                      "values ('0000000b', 'host:1:0000000b', 'host', 1, '1', '{demo:drill}')"):  # fmt: skip
        task_id = await work.submit({})
        await claim(pool, ItemKey(task_id, 1), worker="host:1:0000000a", lease_seconds=0.0)
        if row is not None:
            await pool.execute(row)
        assert (await sweeper.run_once()).lost == 1
        assert await work.states(task_id) == ["retrying"]
    async with work.worker():
        assert (await work.ended(task_id))["status"] == "succeeded"
    await queue.close()
    await client.aclose()


async def claim(
    pool: asyncpg.Pool[asyncpg.Record], *keys: ItemKey, worker: str = "w", lease_seconds: float = 60.0
) -> list[Claim]:
    async with pool.acquire() as connection, connection.transaction():
        return await claim_items(
            connection, "demo:drill", list(keys), worker=worker, lease_seconds=lease_seconds, time_limit_seconds=60.0
        )  # fmt: skip


async def test_whoever_commits_later_has_the_greater_number(
    pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str
) -> None:
    """C45. Two items finish together and the first transaction lingers: nobody sees a number before a smaller one."""
    work = await Work.begin(pool, database_url, redis_url)
    task_id = await work.submit({}, {})
    first, second = await claim(pool, ItemKey(task_id, 1), ItemKey(task_id, 2))
    seen: list[list[int]] = []

    async def look() -> None:
        rows = await pool.fetch(
            "select last_seq from media_task_items where task_id = $1 and state = 'succeeded'", task_id
        )
        seen.append(sorted(row["last_seq"] for row in rows))

    async def finish(one: Claim) -> None:
        async with pool.acquire() as connection, connection.transaction():
            await finish_items(connection, [Ending(one.key, one.fence, Decision("succeeded", "{}"))])

    async with pool.acquire() as connection, connection.transaction():
        await finish_items(connection, [Ending(first.key, first.fence, Decision("succeeded", "{}"))])
        other = asyncio.create_task(finish(second))
        done, _ = await asyncio.wait([other], timeout=0.5)
        assert not done, "it waits for the task's row, so its number comes after"
        await look()
    await other
    await look()
    rows = {row["position"]: row["last_seq"] for row in await work.items(task_id)}
    assert seen == [[], sorted(rows.values())]
    assert rows[1] < rows[2]


async def test_a_retry_runs_what_failed_in_that_task_alone(work: Work, api: Api, world: World) -> None:
    """C57, C59. Others' failures, the other task's, and what was cancelled stay; an old cancel shoots at nothing new."""
    failing = [{"fail": "permanent"}] * 3
    async with (
        api.client(world.ours.editor) as ours,
        api.client(world.theirs.editor) as theirs,
        work.worker(concurrency={"demo:drill": 1}),
    ):
        other, foreign = await submit(ours, *failing), await submit(theirs, *failing)
        for client, task_id in ((ours, other), (theirs, foreign)):
            assert (await ended(client, task_id))["status"] == "failed"
        task_id = await submit(ours, *failing, {"durationMs": 1500}, {"durationMs": 1500}, {})

        async def three_failed() -> bool:
            counts = (await task_of(ours, task_id))["counts"]
            return bool(counts["failed"] == 3 and counts["running"] == 1)

        assert await wait_until(three_failed)
        assert (await ours.post(f"media-tasks/{task_id}/cancel")).status_code == 200
        first = await ended(ours, task_id)
        assert (first["status"], first["counts"]["cancelled"]) == ("cancelled", 2)
        assert (await ours.post(f"media-tasks/{task_id}/cancel")).status_code == 200
        before = [await items_of(ours, other), await items_of(theirs, foreign)]
        assert (await ours.post(f"media-tasks/{task_id}/retry-failed")).status_code == 202
        second = await ended(ours, task_id)
        assert (second["round"], second["cancelRequested"]) == (2, False)
        assert second["counts"] == first["counts"]
        items = await items_of(ours, task_id)
        assert [[one["round"] for one in item["attempts"] if one["outcome"] == "failed"] for item in items] == [
            *[[1, 2]] * 3, [], [], [],
        ]  # fmt: skip
        assert [await items_of(ours, other), await items_of(theirs, foreign)] == before


async def test_at_every_look_the_counters_add_up(work: Work, api: Api, world: World) -> None:
    """C61. 300 items, some failing or tried again, each delivered twice, a cancel and a retry: looked at all along."""
    inputs = [
        {"fail": "permanent"} if n % 10 == 0 else {"fail": "transient", "failTimes": 1} if n % 17 == 0 else {}
        for n in range(300)
    ]
    looks = 0
    async with api.client(world.ours.editor) as client, work.worker(), work.worker():
        task_id = await submit(client, *inputs)

        async def look() -> None:
            nonlocal looks
            while True:
                counts = (await task_of(client, task_id))["counts"]
                assert sum(counts[state] for state in COUNTS) == counts["total"] == 300, counts
                assert min(counts.values()) >= 0
                looks += 1

        looking = asyncio.create_task(look())
        uuid = (await pool_task(work, task_id))["id"]
        for position in range(1, 301, 7):
            data = {"v": 1, "eventId": "1", "taskId": task_id, "itemId": str(item_id(uuid, position))}
            await work.add_job(f"again-{position}", data)
        first = await ended(client, task_id, 90)
        await client.post(f"media-tasks/{task_id}/retry-failed")
        await client.post(f"media-tasks/{task_id}/cancel")
        await ended(client, task_id, 60)
        looking.cancel()
        (looked,) = await asyncio.gather(looking, return_exceptions=True)
        assert isinstance(looked, asyncio.CancelledError), looked
    assert (first["counts"]["failed"], first["counts"]["succeeded"]) == (30, 270)
    assert looks > 5
    await work.assert_truthful(uuid)


async def pool_task(work: Work, task_id: str) -> asyncpg.Record:
    row = await work.pool.fetchrow("select * from media_tasks where id = $1", task_id)
    assert row is not None
    return row
