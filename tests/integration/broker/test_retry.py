"""Jobs with attempts of their own: added with BullMQ's options, delayed by its script, promoted when they are due."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from lingxi import names
from lingxi.broker.client import RedisClient
from lingxi.broker.job import JobOptions, photo_job
from lingxi.broker.queue import BullQueue, Delivery, Job, QueueCounts
from tests.integration.broker.conftest import MakeQueue
from tests.integration.broker.node_peer import NodePeer
from tests.support.waiting import wait_until

THREE = JobOptions("photo", attempts=3, backoff_ms=700)


async def add(queue: BullQueue, job_id: str = "process-a", options: JobOptions = THREE) -> None:
    await queue.add_many([Job(job_id, b'{"v":1}', options)], priority=0, timestamp_ms=5)


async def next_job(queue: BullQueue) -> Delivery:
    """As an idle consumer does it."""
    async with asyncio.timeout(10):
        while not (taken := await queue.take(1)):
            await queue.wait_for_work(30)
    return taken[0]


async def test_options_of_each_job_are_its_own(queue: BullQueue, client: RedisClient) -> None:
    photo = photo_job(photo_id := uuid4(), album_id := uuid4())
    await queue.add_many([Job("1-a", b"{}"), photo, Job("1-b", b"{}")], priority=0, timestamp_ms=5)
    kept = {job: json.loads(await client.hget(f"bull:demo-drill:{job}", "opts")) for job in ("1-a", photo.id)}
    assert kept["1-a"]["attempts"] == 1 and "backoff" not in kept["1-a"]
    assert kept[photo.id]["attempts"] == names.PHOTO_ATTEMPTS == 3
    assert kept[photo.id]["backoff"] == {
        "type": "exponential",
        "delay": names.PHOTO_BACKOFF_SECONDS * 1000,
    }
    first, second, third = await queue.take(5)
    assert (first.name, second.name, third.name) == ("item", "photo", "item")
    assert second.job_id == f"process-{photo_id}"
    assert json.loads(second.data) == {"v": 1, "photoId": str(photo_id), "albumId": str(album_id)}
    assert second.attempts_made == 0


async def test_a_job_comes_back_when_it_is_due_with_one_attempt_more(
    make_queue: MakeQueue, client: RedisClient
) -> None:
    busy, idle = make_queue("busy"), make_queue("idle")
    await add(busy)
    (held,) = await busy.take(1)
    waiting = asyncio.create_task(next_job(idle))  # it sleeps already, and must not sleep past the time
    await wait_until(lambda: idle._waits.is_open)
    started = time.time()
    await busy.retry_later(held, 700, reason='storage_unavailable "ö"')
    assert await busy.counts() == QueueCounts(0, 0, 1, 0, 0)
    assert await client.exists("bull:demo-drill:process-a:lock") == 0
    again = await waiting
    assert 0.69 <= time.time() - started < 1.5
    assert (again.job_id, again.attempts_made, again.token) == ("process-a", 1, "idle")
    assert await client.hget("bull:demo-drill:process-a", "failedReason") == 'storage_unavailable "ö"'
    await idle.retry_later(again, 1)
    assert (await next_job(busy)).attempts_made == 2


async def test_what_is_not_charged_is_no_attempt(queue: BullQueue, client: RedisClient) -> None:
    await add(queue)
    (held,) = await queue.take(1)
    await queue.retry_later(held, 50, charged=False)
    assert (await next_job(queue)).attempts_made == 0
    assert await client.hget("bull:demo-drill:process-a", "failedReason") is None


async def test_the_id_of_a_delayed_job_is_taken_and_free_once_it_is_finished(queue: BullQueue) -> None:
    await add(queue)
    (held,) = await queue.take(1)
    await queue.retry_later(held, 60_000)
    await add(queue)
    assert await queue.counts() == QueueCounts(0, 0, 1, 0, 0)
    await add(queue, "process-b")
    (other,) = await queue.take(5)
    await queue.finish_many([other], fetch_next=False)
    await add(queue, "process-b")
    assert (await queue.take(5))[0].attempts_made == 0


async def test_what_is_no_longer_ours_is_left_alone(make_queue: MakeQueue, client: RedisClient) -> None:
    first, second = make_queue("first"), make_queue("second")
    await add(first)
    (held,) = await first.take(1)
    await client.set("bull:demo-drill:process-a:lock", "second")
    await first.retry_later(held, 10)
    assert await second.counts() == QueueCounts(0, 1, 0, 0, 0)
    await client.flushall()
    await first.retry_later(held, 10)
    assert await second.counts() == QueueCounts(0, 0, 0, 0, 0)


# ── what Node sees ───────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
async def node(redis_url: str) -> AsyncIterator[NodePeer]:
    peer = await NodePeer.start(redis_url, names.physical_queue("demo:drill"))
    yield peer
    await peer.close()


@pytest.mark.timeout(360)
async def test_node_sees_a_delayed_job_and_does_it_when_it_is_due(queue: BullQueue, node: NodePeer) -> None:
    await add(queue)
    (held,) = await queue.take(1)
    await queue.retry_later(held, 1500, reason="decoder_crashed")
    seen = await node("job", id="process-a")
    assert (seen["state"], seen["attemptsMade"], seen["failedReason"]) == ("delayed", 1, "decoder_crashed")
    assert seen["opts"]["attempts"] == 3 and seen["opts"]["backoff"]["type"] == "exponential"
    await node("work")
    (outcome,) = await node.outcomes(1)
    assert (outcome["id"], outcome["made"], outcome["result"]) == ("process-a", 2, {"done": "process-a"})
    assert await node("counts") == dict.fromkeys(
        ("wait", "prioritized", "active", "delayed", "completed", "failed"), 0
    )
