"""A worker that is stopped takes nothing new, lets what runs finish, and gives the rest back, uncharged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from lingxi.processors.contract import Context, Permanent, Processor, Transient
from lingxi.processors.demo_drill import Input
from lingxi.services.cancel_task import cancel_task
from lingxi.worker.process import WorkerProcess
from tests.support.proxy import CuttingProxy
from tests.support.waiting import wait_until
from tests.support.work import Work, drills


async def test_what_runs_may_finish_within_the_grace(work: Work) -> None:
    task_id = await work.submit({"durationMs": 600})
    async with work.worker():
        await work.running(task_id)
    item = (await work.items(task_id))[0]
    assert (item["state"], item["attempt"]) == ("succeeded", 1)
    await work.queue_empty()


async def test_what_does_not_finish_is_given_back_uncharged_and_runs_once(work: Work) -> None:
    task_id = await work.submit(*drills(6, durationMs=1500, effect=True))
    for _ in range(4):
        async with work.worker(grace_seconds=0.1, concurrency={"demo:drill": 3}):
            await work.running(task_id, 3)
        assert set(await work.states(task_id)) == {"queued"}
        assert {item["attempt"] for item in await work.items(task_id)} == {0}
        await work.assert_truthful(task_id)
    async with work.worker():
        task = await work.ended(task_id)
        await work.queue_empty()
    assert task["status"] == "succeeded"
    assert {item["attempt"] for item in await work.items(task_id)} == {1}
    assert await work.effects(task_id) == 6
    assert {row["outcome"] for row in await work.attempts(task_id)} <= {"released"}


async def test_jobs_that_were_not_started_go_back_to_redis(work: Work) -> None:
    """Three run, the others wait in Redis or were taken and not claimed: none is active afterwards."""
    task_id = await work.submit(*drills(20, durationMs=300))
    async with work.worker(concurrency={"demo:drill": 3}):
        await work.running(task_id, 3)
    states = await work.states(task_id)
    assert states.count("succeeded") >= 3
    assert set(states) == {"succeeded", "queued"}
    assert (await work.queue_lengths())["active"] == 0
    async with work.worker():
        assert (await work.ended(task_id))["status"] == "succeeded"
    assert {item["attempt"] for item in await work.items(task_id)} == {1}


async def test_jobs_that_were_taken_and_not_claimed_go_back_too(
    work: Work, proxy_to: Callable[[str], CuttingProxy]
) -> None:
    """PostgreSQL does not answer: the jobs that were taken wait for their claim when the stop comes."""
    proxy = proxy_to(work.database_url)
    proxy.stall()
    async with work.worker(database_url=proxy.url(work.database_url), concurrency={"demo:drill": 3}):
        task_id = await work.submit(*drills(5))

        async def taken() -> bool:
            return (await work.queue_lengths())["active"] == 3

        await wait_until(taken)
    lengths = await work.queue_lengths()
    assert (lengths["active"], lengths["wait"] + lengths["prioritized"]) == (0, 5)
    async with work.worker():
        assert (await work.ended(task_id))["status"] == "succeeded"
    assert {item["attempt"] for item in await work.items(task_id)} == {1}


async def test_an_error_during_the_stop_charges_nothing_unless_it_is_permanent(work: Work) -> None:
    async def run(context: Context, given: Input) -> dict[str, Any]:
        if context.item.index == 3 or context.attempt.id in resumed:
            return {}
        await context.stopping.wait()
        match context.item.index:
            case 0:
                raise Transient("drill_busy")
            case 1:
                raise asyncio.CancelledError
            case _:
                raise Permanent("drill_failed")

    resumed: set[int] = set()
    work.processors["demo:drill"] = Processor(name="demo:drill", input_model=Input, run=run)
    task_id = await work.submit(*drills(4))
    async with work.worker():
        await work.running(task_id, 3)
    assert await work.states(task_id) == ["queued", "queued", "failed", "succeeded"]
    assert [item["attempt"] for item in await work.items(task_id)] == [0, 0, 1, 1]
    await work.assert_truthful(task_id)


async def test_what_is_given_back_after_a_cancel_ends_as_cancelled(work: Work) -> None:
    task_id = await work.submit(*drills(2, durationMs=60_000))
    async with work.worker(grace_seconds=0.1, concurrency={"demo:drill": 1}):
        await work.running(task_id)
        async with work.pool.acquire() as connection, connection.transaction():
            await cancel_task(connection, work.workspace_id, task_id)
    assert (await work.ended(task_id))["status"] == "cancelled"
    assert set(await work.states(task_id)) == {"cancelled"}


async def test_a_processor_that_ignores_the_stop_is_given_back_too(work: Work) -> None:
    task_id = await work.submit({"hang": True, "swallowCancel": True})
    async with work.worker(grace_seconds=0.1) as worker:
        await work.running(task_id)
    assert worker.abandoned == 1
    assert await work.states(task_id) == ["queued"]
    for task in asyncio.all_tasks():  # this process goes on: end it here
        if "Executor._run" in repr(task):
            task.get_coro().close() if task.get_coro() is not None else None


async def test_a_processor_that_never_gives_the_loop_back_ends_with_its_process(work: Work) -> None:
    """After its deadline, and charged; what ran beside it is given back. Nobody but the thread can do that."""
    came_back, codes = threading.Event(), list[int]()

    async def block(context: Context, given: Input) -> None:
        came_back.wait(30)

    def end_process(code: int) -> None:
        codes.append(code)
        came_back.set()

    work.processors["demo:drill"] = Processor("demo:drill", Input, block, time_limit_seconds=0.3)
    config = work.config(queues=("demo:drill",), cancel_seconds=0.1, stuck_seconds=0.3)
    task_id = await work.submit({}, max_attempts=1)
    process = WorkerProcess(config, work.processors, end_process=end_process)
    serving = asyncio.create_task(process.run())
    await work.ended(task_id, 30)
    (item,) = await work.items(task_id)
    assert (item["state"], item["error_code"], codes) == ("failed", "deadline_exceeded", [0])
    process.ask_to_stop()
    assert await serving == 0
