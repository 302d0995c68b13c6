"""Idle workers: never deaf, never asleep beside work."""

from __future__ import annotations

import asyncio
import time

import pytest

from lingxi.broker.client import RedisClient
from lingxi.broker.queue import Job
from tests.integration.broker.conftest import MakeQueue
from tests.support.waiting import wait_until


async def add(queue: object, job_id: str, priority: int = 0) -> None:
    await queue.add_many([Job(job_id, b"{}")], priority=priority, timestamp_ms=1)  # type: ignore[attr-defined]


@pytest.mark.parametrize("priority", [0, 1])
async def test_an_idle_worker_hears_a_job_at_once(make_queue: MakeQueue, priority: int) -> None:
    worker, producer = make_queue(), make_queue("producer")
    listening = asyncio.create_task(worker.wait_for_work(30))
    await wait_until(lambda: worker._waits.is_open)
    started = time.monotonic()
    await add(producer, "1-a", priority)
    await listening
    assert [d.job_id for d in await worker.take(1)] == ["1-a"]
    assert time.monotonic() - started < 5


async def test_a_worker_that_was_idle_for_longer_than_the_socket_time_out_hears_too(
    make_queue: MakeQueue,
) -> None:
    """The stock client times out at 5 s, just when BullMQ's block ends, and then sleeps."""
    worker, producer = make_queue(timeout_seconds=0.3), make_queue("producer")
    listening = asyncio.create_task(worker.wait_for_work(30))
    done, _ = await asyncio.wait([listening], timeout=6.2)
    assert not done, "the block is longer than any time-out of the socket"
    started = time.monotonic()
    await add(producer, "1-a")
    await listening
    assert [d.job_id for d in await worker.take(1)] == ["1-a"]
    assert time.monotonic() - started < 5


async def test_waiting_ends_by_itself(make_queue: MakeQueue) -> None:
    worker = make_queue()
    started = time.monotonic()
    await worker.wait_for_work(0.2)
    assert 0.15 < time.monotonic() - started < 10
    await worker.wait_for_work(0)  # never for ever


async def test_every_idle_worker_wakes_while_there_are_jobs(make_queue: MakeQueue) -> None:
    workers = [make_queue(f"worker-{n}") for n in range(3)]

    async def work(n: int) -> str:
        await workers[n].wait_for_work(30)
        (delivery,) = await workers[n].take(1)
        return delivery.job_id

    tasks = [asyncio.create_task(work(n)) for n in range(3)]
    await wait_until(lambda: all(worker._waits.is_open for worker in workers))
    producer = make_queue("producer")
    await producer.add_many([Job(f"1-{n}", b"{}") for n in range(3)], priority=1, timestamp_ms=1)
    async with asyncio.timeout(3):
        assert set(await asyncio.gather(*tasks)) == {"1-0", "1-1", "1-2"}


async def test_a_wait_that_is_cancelled_eats_no_bell(make_queue: MakeQueue, client: RedisClient) -> None:
    leaving, staying = make_queue("leaving"), make_queue("staying")
    listening = asyncio.create_task(leaving.wait_for_work(30))
    await wait_until(lambda: _blocked_clients(client, 1))
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    await wait_until(lambda: _blocked_clients(client, 0))
    await add(staying, "1-a")
    async with asyncio.timeout(2):
        await staying.wait_for_work(30)
    # and the one that was cancelled may wait again
    await add(staying, "1-b")
    async with asyncio.timeout(2):
        await leaving.wait_for_work(30)


async def _blocked_clients(client: RedisClient, count: int) -> bool:
    return bool((await client.info("clients"))["blocked_clients"] == count)


async def test_a_bell_that_rang_for_a_closing_worker_is_passed_on(make_queue: MakeQueue) -> None:
    closing, staying = make_queue("closing"), make_queue("staying")
    await add(staying, "1-a")
    await closing.wait_for_work(5)  # it heard, and leaves without taking
    listening = asyncio.create_task(staying.wait_for_work(30))
    await wait_until(lambda: staying._waits.is_open)
    await closing.close()
    async with asyncio.timeout(2):
        await listening


async def test_a_job_that_another_client_delayed_is_taken_when_it_is_due(
    make_queue: MakeQueue, client: RedisClient
) -> None:
    worker = make_queue()
    due = time.time() + 0.4
    await client.hset(
        "bull:demo-drill:x-1", mapping={"name": "n", "data": "{}", "opts": "{}", "timestamp": 1, "delay": 400}
    )
    await client.zadd("bull:demo-drill:delayed", {"x-1": int(due * 1000) * 0x1000})
    await client.zadd("bull:demo-drill:marker", {"1": int(due * 1000)})
    taken: list[str] = []
    async with asyncio.timeout(5):
        while not taken:
            await worker.wait_for_work(30)
            taken = [d.job_id for d in await worker.take(1)]
    assert 0 <= time.time() - due < 0.3
