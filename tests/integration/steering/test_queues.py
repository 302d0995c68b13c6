"""Queues that are paused, drained and resumed by hand: what runs goes on, nothing new begins, and no wipe of Redis forgets it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio

from lingxi.broker.client import api_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.pauses import paused_queues
from lingxi.broker.queue import BullQueue
from lingxi.domain.ids import item_id
from lingxi.maintenance.queue_holder import QueueHolder
from lingxi.services.claim_items import ItemKey, claim_items
from lingxi.services.photo_jobs import claim_photo_job, due_photo_jobs, look_at_photo_job
from lingxi.services.queue_holds import hold_queue, list_holds, resume_queue
from tests.integration.api.harness import batch
from tests.support.processes import run_lingxi
from tests.support.waiting import wait_until
from tests.support.work import Work, drills

QUEUE = "demo:drill"


@pytest.fixture
async def work(pool: Any, database_url: str, redis_url: str) -> Work:
    return await Work.begin(pool, database_url, redis_url)


@asynccontextmanager
async def holder(work: Work) -> AsyncIterator[QueueHolder]:
    """The loop of a worker process, to be told when to look."""
    client = api_client(work.redis_url)
    queue = BullQueue(QUEUE, connection_factory(work.redis_url), token="holder")
    yield QueueHolder(work.pool, client, {QUEUE: queue}, check_seconds=0.0)
    await queue.close()
    await client.aclose()


async def paused_in_redis(work: Work) -> bool:
    client = api_client(work.redis_url)
    try:
        return QUEUE in await paused_queues(client, [QUEUE])
    finally:
        await client.aclose()


async def test_a_paused_queue_finishes_what_runs_and_begins_nothing(work: Work) -> None:
    async with work.dispatching() as dispatcher, work.worker(concurrency={QUEUE: 2}), holder(work) as loop:
        task = await work.submit(*drills(2, durationMs=400), *drills(4))
        await work.running(task, 2)
        await hold_queue(work.pool, QUEUE, "paused", "a bad disk")
        later = await work.submit({})
        rounds = dispatcher.totals.rounds

        async def the_two_ended() -> bool:
            return (await work.states(task)).count("succeeded") == 2 and dispatcher.totals.rounds > rounds + 3

        await wait_until(the_two_ended)
        assert (await work.states(task)).count("queued") == 4, "jobs were there, and no claim succeeded"
        assert (await work.states(later)) == ["queued"]
        assert not await work.pool.fetchval(
            "select published_at from outbox_events where task_id = $1", later
        )
        assert (await loop.done_once())["paused"] == 1 and await paused_in_redis(work)
        assert await resume_queue(work.pool, QUEUE)
        assert (await loop.done_once())["resumed"] == 1 and not await paused_in_redis(work)
        assert (await work.ended(task))["status"] == (await work.ended(later))["status"] == "succeeded"


async def test_a_wipe_does_not_forget_a_pause(work: Work) -> None:
    async with work.dispatching(), holder(work) as loop:
        await hold_queue(work.pool, QUEUE, "paused")
        assert (await loop.done_once())["paused"] == 1
        assert (await loop.done_once())["paused"] == 0, "nothing to do"
        async with redis.asyncio.from_url(work.redis_url) as client:
            await client.flushall()
        task = await work.submit({})
        async with work.worker():
            key = ItemKey(task, 1)
            await work.add_job(f"9-{item_id(*key)}", {"v": 1, "itemId": str(item_id(*key))})
            assert (await loop.done_once())["paused"] == 1 and await paused_in_redis(work)
            assert await work.states(task) == ["queued"], "before BullMQ knew of it again, PostgreSQL did"
            await resume_queue(work.pool, QUEUE)
            await loop.done_once()
            assert (await work.ended(task))["status"] == "succeeded"


async def test_a_drained_queue_finishes_what_was_sent_and_is_paused_then(work: Work) -> None:
    async with work.dispatching(), holder(work) as loop:
        sent = await work.submit(*drills(3))
        await wait_until(lambda: _published(work, sent))
        await hold_queue(work.pool, QUEUE, "draining")
        kept = await work.submit({})
        await loop.done_once()
        assert [hold.state for hold in await list_holds(work.pool)] == ["draining"]
        async with work.worker():
            assert (await work.ended(sent))["status"] == "succeeded"

            async def drained() -> bool:
                return (await loop.done_once())["drained"] == 1

            await wait_until(drained)
            assert [hold.state for hold in await list_holds(work.pool)] == ["paused"]
            assert await paused_in_redis(work) and await work.states(kept) == ["queued"]
            await hold_queue(work.pool, QUEUE, "draining")
            assert [hold.state for hold in await list_holds(work.pool)] == ["paused"], (
                "it has nothing left to drain"
            )
            await resume_queue(work.pool, QUEUE)
            await loop.done_once()
            assert (await work.ended(kept))["status"] == "succeeded"


async def _published(work: Work, task: Any) -> bool:
    return bool(
        await work.pool.fetchval(
            "select published_at is not null from outbox_events where task_id = $1", task
        )
    )


async def test_claims_of_a_paused_queue_and_of_others(work: Work) -> None:
    """Whoever claims, a worker in another language too, asks the same statement."""
    task = await work.submit({}, {})
    await hold_queue(work.pool, QUEUE, "paused")
    await hold_queue(work.pool, "media:verify", "paused")

    async def claim(position: int) -> int:
        given: dict[str, Any] = {"worker": "w", "lease_seconds": 30.0, "time_limit_seconds": 30.0}
        return len(await claim_items(work.pool, QUEUE, [ItemKey(task, position)], **given))

    assert await claim(1) == 0
    assert await work.pool.fetchval("select last_seq from media_tasks") == 1, "nothing was touched"
    await resume_queue(work.pool, QUEUE)
    assert await claim(1) == 1, "another queue's pause does not hold it"
    await hold_queue(work.pool, QUEUE, "draining")
    assert await claim(2) == 1


async def test_photos_wait_while_their_queue_is_paused(work: Work) -> None:
    pool = work.pool
    album = await pool.fetchval(
        "insert into albums (id, workspace_id, name) values (gen_random_uuid(), $1, 'A') returning id",
        work.workspace_id,
    )
    photo = await pool.fetchval(
        "insert into photos (id, workspace_id, album_id, upload_number, file_name, storage_key, size_bytes, sha256, "
        "content_type, last_seq) values (gen_random_uuid(), $1, $2, 1, 'a.jpg', 'k', 1, '\\x00', 'image/jpeg', 1) returning id",
        work.workspace_id, album,
    )  # fmt: skip
    await pool.execute("insert into photo_jobs (photo_id) values ($1)", photo)
    await hold_queue(pool, "photo:process", "paused")
    assert await claim_photo_job(pool, photo, "w") is None
    seen = await look_at_photo_job(pool, photo)
    assert seen is not None and (seen.state, seen.due_in_seconds) == ("pending", 5.0)
    assert await due_photo_jobs(pool, after=None, limit=10) == [], "nor does the sweep ring for it"
    await resume_queue(pool, "photo:process")
    assert len(await due_photo_jobs(pool, after=None, limit=10)) == 1
    assert await claim_photo_job(pool, photo, "w") is not None


async def test_over_http_and_what_is_told_of_it(
    operator: httpx.AsyncClient, admin: httpx.AsyncClient, editor: httpx.AsyncClient, pool: Any
) -> None:
    task = (await editor.post("media-tasks", json=batch(1))).json()["id"]
    assert (await admin.post(f"queues/{QUEUE}/pause")).status_code == 403
    assert (await operator.post("queues/no:such/pause")).status_code == 404
    assert (await operator.post(f"queues/{QUEUE}/pause", json={"reason": "x" * 201})).status_code == 422
    first = await operator.post(f"queues/{QUEUE}/pause", json={"reason": "A bad disk."})
    again = await operator.post(f"queues/{QUEUE}/pause")
    assert (first.status_code, again.json()) == (200, first.json())
    assert (first.json()["state"], first.json()["reason"]) == ("paused", "A bad disk.")
    listed = {one["queue"]: one["state"] for one in (await operator.get("queues")).json()["queues"]}
    assert (listed[QUEUE], listed["media:verify"], len(listed)) == ("paused", "open", 9)
    why = (await editor.get(f"media-tasks/{task}/why")).json()
    assert why["reason"] == "paused"
    assert (
        "An operator paused the queue (20" in why["sentence"]
        and ": A bad disk. It goes on" in why["sentence"]
    )
    health = {one["queue"]: one["hold"] for one in (await operator.get("health/queues")).json()["queues"]}
    assert health[QUEUE]["reason"] == "A bad disk." and health["media:verify"] is None
    metrics = (await operator.get("metrics")).text
    assert f'lingxi_queue_held{{queue="{QUEUE}"}} 1' in metrics
    assert 'lingxi_queue_held{queue="media:verify"} 0' in metrics
    assert (await operator.post(f"queues/{QUEUE}/resume")).json()["state"] == "open"
    assert (await editor.get(f"media-tasks/{task}/why")).json()["reason"] != "paused"
    verbs = await pool.fetch(
        "select workspace_id, verb, target from audit_log where verb like 'queue.%' order by id"
    )
    paused, resumed = (None, "queue.pause", f"queue:{QUEUE}"), (None, "queue.resume", f"queue:{QUEUE}")
    assert [tuple(row) for row in verbs] == [paused, paused, resumed]


async def test_the_command_line(database_url: str, redis_url: str, pool: Any, tmp_path: Path) -> None:
    env = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "LINGXI_DATA_DIR": str(tmp_path)}
    held = run_lingxi("queue", "drain", QUEUE, "--reason", "an upgrade", env=env)
    assert (held.returncode, held.stdout) == (0, f"{QUEUE}: draining\n"), held.stderr
    listed = json.loads(run_lingxi("queue", "list", "--json", env=env).stdout.splitlines()[-1])["queues"]
    assert [(one["state"], one["reason"]) for one in listed if one["queue"] == QUEUE] == [
        ("draining", "an upgrade")
    ]
    assert run_lingxi("queue", "pause", "demo:dril", env=env).returncode == 4
    assert run_lingxi("queue", "resume", QUEUE, env=env).stdout == f"{QUEUE}: resumed\n"
    assert await pool.fetchval("select count(*) from audit_log where verb like 'queue.%'") == 2
