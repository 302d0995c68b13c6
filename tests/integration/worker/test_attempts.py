"""Whatever a processor does, its attempt comes to an end, and the loop that runs the others goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lingxi.processors.contract import Context, Processor
from lingxi.processors.demo_drill import Input
from lingxi.services.sweep_leases import sweep_leases
from lingxi.worker.process import WorkerProcess
from tests.support.waiting import wait_until
from tests.support.work import Work, drills

BACKOFF = 0.05


def processor(run: Any, **limits: Any) -> dict[str, Processor[Any]]:
    return {
        "demo:drill": Processor(
            name="demo:drill", input_model=Input, run=run, backoff_seconds=BACKOFF, **limits
        )
    }


async def test_the_deadline_ends_an_attempt(work: Work) -> None:
    work.processors = processor(_sleep_for_ever, time_limit_seconds=0.3)
    task_id = await work.submit({}, max_attempts=2)
    async with work.worker():
        await work.ended(task_id)
    item = (await work.items(task_id))[0]
    assert (item["state"], item["attempt"], item["error_code"], item["error_retryable"]) == (
        "failed",
        2,
        "deadline_exceeded",
        True,
    )


@pytest.mark.parametrize("gives_in", [True, False])
async def test_a_processor_that_swallows_its_cancellation_ends_all_the_same(
    work: Work, gives_in: bool
) -> None:
    """Whether it then returns as if nothing were, or never."""
    released = asyncio.Event()

    async def run(context: Context, given: Input) -> dict[str, Any]:
        if context.item.index > 0:
            return {}
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                if gives_in:
                    break
        return {"late": True}

    work.processors = processor(run, time_limit_seconds=0.3, concurrency=2)
    task_id = await work.submit(*drills(5), max_attempts=1)
    async with work.worker() as worker:
        task = await work.ended(task_id)
        assert worker.abandoned == (0 if gives_in else 1)
        later = await work.submit(*drills(5)[1:])  # the loop goes on, with all of its places
        released.set()
        await work.ended(later)
        await wait_until(lambda: worker.abandoned == 0)
    assert (task["succeeded_items"], task["failed_items"]) == (4, 1)
    assert (await work.items(task_id))[0]["error_code"] == "deadline_exceeded"


async def test_a_process_full_of_abandoned_code_stops_itself(work: Work) -> None:
    """So that its supervisor starts a new one."""
    released = asyncio.Event()

    async def run(context: Context, given: Input) -> dict[str, Any]:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return {}

    work.processors = processor(run, time_limit_seconds=0.3, concurrency=25)
    task_id = await work.submit(*drills(25), max_attempts=1)
    worker = WorkerProcess(work.config(), work.processors)
    assert await asyncio.wait_for(worker.run(), 20) == 1
    assert worker.abandoned == 25
    assert (await work.ended(task_id))["failed_items"] == 25
    released.set()
    await wait_until(lambda: worker.abandoned == 0)


@pytest.mark.parametrize("crash", ["leak_cancel", "system_exit"])
async def test_what_would_end_a_loop_ends_an_attempt(work: Work, crash: str) -> None:
    task_id = await work.submit({"crash": crash, "crashTimes": 1}, *drills(5))
    async with work.worker():
        task = await work.ended(task_id)
    assert task["status"] == "succeeded"
    first = (await work.items(task_id))[0]
    assert (first["attempt"], (await work.attempts(task_id))[0]["error_code"]) == (2, "internal_error")


async def test_a_bug_is_logged_with_its_traceback_and_told_without_it(
    work: Work, capfd: pytest.CaptureFixture[str]
) -> None:
    task_id = await work.submit({"fail": "bug", "failMessage": "the secret path /etc/thing"}, max_attempts=1)
    async with work.worker():
        await work.ended(task_id)
    item = (await work.items(task_id))[0]
    assert item["error_code"] == "internal_error"
    assert "secret" not in item["error_message"]
    assert "processor_raised" in "".join(capfd.readouterr())


async def test_a_processor_that_blocks_the_loop_past_its_lease_loses_nothing(work: Work) -> None:
    """Lease 1 s, lock 2 s, blocked for 3 s: a sweep and another worker look all the while."""
    task_id = await work.submit({"blockMs": 3000, "effect": True})
    async with work.worker(queues=("demo:drill",)) as worker:
        sweeping = asyncio.create_task(asyncio.to_thread(_sweep_until_ended, work.database_url, str(task_id)))
        await work.ended(task_id)
        assert await sweeping == 0
        assert worker.consumers[0].finisher.counts["superseded"] == 0
    item = (await work.items(task_id))[0]
    assert (item["state"], item["attempt"], await work.effects(task_id)) == ("succeeded", 1, 1)
    await work.queue_empty()


async def test_no_lease_is_renewed_past_the_deadline(work: Work) -> None:
    """The loop is blocked for good, so nothing but the lease itself can end this attempt."""
    work.processors = processor(_block_for_2_seconds, time_limit_seconds=0.6)
    task_id = await work.submit({}, max_attempts=1)
    sweeping = asyncio.create_task(asyncio.to_thread(_sweep_until_ended, work.database_url, str(task_id)))
    async with work.worker() as worker:
        await work.ended(task_id)
        assert await sweeping == 1
        await wait_until(lambda: worker.consumers[0].finisher.counts["superseded"] == 1)
    assert (await work.items(task_id))[0]["error_code"] == "worker_lost"


async def test_a_processor_is_told_when_its_lease_was_lost(work: Work) -> None:
    told: list[str | None] = []

    async def run(context: Context, given: Input) -> dict[str, Any]:
        if context.attempt.number == 1:
            await context.stopping.wait()
            told.append(context.stop_reason)
        return {"attempt": context.attempt.number}

    work.processors = processor(run)
    task_id = await work.submit({})
    async with work.worker() as worker:
        await work.running(task_id)
        await work.pool.execute("update media_task_items set lease_expires_at = now() - interval '1 hour'")
        async with work.pool.acquire() as connection, connection.transaction():
            assert (await sweep_leases(connection)).lost == 1
        await work.ended(task_id)
        await wait_until(lambda: told == ["lease_lost"])
        await wait_until(lambda: worker.consumers[0].finisher.counts["superseded"] == 1)
    item = (await work.items(task_id))[0]
    assert (item["attempt"], json.loads(item["result"])) == (2, {"attempt": 2})


async def test_an_effect_of_a_superseded_attempt_is_rolled_back(work: Work) -> None:
    """The attempt loses its item inside of its own transaction, and commits while its successor runs."""
    inside, again, go_on, over = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(context: Context, given: Input) -> dict[str, Any]:
        if context.attempt.number == 2:
            again.set()
            await over.wait()
        try:
            async with context.transaction() as connection:
                await connection.execute(
                    "insert into drill_effects values ($1, 1, $2)", context.item.task_id, context.attempt.id
                )
                inside.set()
                await go_on.wait()
        finally:
            over.set()
        return {}

    work.processors = processor(run, concurrency=1)
    task_id = await work.submit({})
    async with work.worker(lease_renew_seconds=60):
        await inside.wait()
        await work.pool.execute("update media_task_items set lease_expires_at = now() - interval '1 hour'")
        async with work.pool.acquire() as connection, connection.transaction():
            await sweep_leases(connection)
        async with work.worker():  # the first one is busy
            await again.wait()
            go_on.set()
            await work.ended(task_id)
    made = await work.pool.fetch("select attempt_id from drill_effects where task_id = $1", task_id)
    (item,) = await work.items(task_id)
    assert ([row["attempt_id"] for row in made], item["attempt"]) == ([item["attempt_id"]], 2)


async def test_a_renewed_lease_ends_with_the_deadline(work: Work) -> None:
    go_on = asyncio.Event()

    async def run(context: Context, given: Input) -> dict[str, Any]:
        await go_on.wait()
        return {}

    work.processors = processor(run, time_limit_seconds=20)
    task_id = await work.submit({})
    async with work.worker(lease_seconds=3_600, lease_renew_seconds=0.1):
        await work.running(task_id)
        await work.pool.execute("update media_task_items set lease_expires_at = started_at + interval '10 s'")

        async def renewed() -> bool:
            return bool(
                await work.pool.fetchval(
                    "select lease_expires_at > started_at + interval '11 s' from media_task_items"
                )
            )

        await wait_until(renewed, message="a renewal")
        assert await work.pool.fetchval("select lease_expires_at = deadline_at from media_task_items")
        go_on.set()
        await work.ended(task_id)


async def test_progress_reaches_the_channel_and_is_bounded(work: Work) -> None:
    import redis.asyncio

    from lingxi import names

    async with redis.asyncio.from_url(work.redis_url) as client, client.pubsub() as listener:
        await listener.subscribe(names.PROGRESS_CHANNEL)
        task_id = await work.submit({"durationMs": 500, "steps": 500})
        async with work.worker():
            await work.ended(task_id)
        frames = []
        while (message := await listener.get_message(timeout=0.5)) is not None:
            if message["type"] == "message":
                frames.append(json.loads(message["data"]))
    assert 1 <= len(frames) <= 50  # at most five a second, of 500
    assert frames[-1]["done"] == frames[-1]["total"] == 500
    assert frames[-1]["taskId"] == str(task_id)


async def _sleep_for_ever(context: Context, given: Input) -> dict[str, Any]:
    await asyncio.sleep(3600)
    return {}


async def _block_for_2_seconds(context: Context, given: Input) -> dict[str, Any]:
    import time

    time.sleep(2)
    return {}


def _sweep_until_ended(database_url: str, task_id: str) -> int:
    """On a thread and loop of its own: sweep every 50 ms until the task has ended; how many attempts were lost."""
    import asyncpg

    async def sweep() -> int:
        connection = await asyncpg.connect(database_url)
        lost = 0
        try:
            while await connection.fetchval(
                "select finished_at is null from media_tasks where id = $1::uuid", task_id
            ):
                async with connection.transaction():
                    lost += (await sweep_leases(connection)).lost
                await asyncio.sleep(0.05)
        finally:
            await connection.close()
        return lost

    return asyncio.run(sweep())
