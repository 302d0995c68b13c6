"""Workers that are killed at random points of their work, until so many attempts were lost."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from lingxi.services.put_object import put_object, receive_object
from lingxi.storage import Storage
from tests.support.processes import Process
from tests.support.processors import leftovers
from tests.support.waiting import wait_until
from tests.support.work import Work


async def lose_attempts(
    work: Work,
    worker: Process,
    submit: Callable[[int], Awaitable[UUID]],
    kills: int,
    longest_seconds: float,
) -> list[UUID]:
    """Kill the worker processes of a supervisor while an item runs, up to `longest_seconds` after it was seen, until `kills`
    attempts were lost in mid-work. `submit(number)` makes the next task whenever one has ended. Answers all tasks, which have
    all ended truthfully, each item as succeeded.
    """
    chance = random.Random(kills)
    tasks = [await submit(0)]
    shots = 0
    while (lost := await _lost(work)) < kills:
        assert shots < 10 * kills, f"of {shots} kills only {lost} hit an attempt"
        if await is_over(work, tasks[-1]):
            tasks.append(await submit(len(tasks)))
        victims = await at_work(work, worker.pid, tasks[-1])
        if victims is None:
            continue
        await asyncio.sleep(chance.uniform(0.0, longest_seconds))  # the random point
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        shots += 1
        await wait_until(partial(_all_gone, victims), 20)
    for task in tasks:
        await work.ended(task, 180)
        assert set(await work.states(task)) == {"succeeded"}
    return tasks


async def assert_stops_clean(worker: Process, data_folder: Path) -> None:
    """It ends in order, and no scratch is left of any attempt, also not of those that were killed."""
    worker.signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait, 60) == 0
    assert leftovers(data_folder / "scratch" / "attempts") == []


async def put_named(work: Work, storage: Storage, name: str, data: bytes) -> None:
    """An object of the workspace."""

    async def chunks() -> AsyncIterator[bytes]:
        yield data

    async with (
        receive_object(storage, chunks(), max_bytes=1 << 30) as received,
        work.pool.acquire() as connection,
        connection.transaction(),
    ):
        await put_object(connection, work.workspace_id, name, received)


async def is_over(work: Work, task_id: UUID) -> bool:
    return (await work.task(task_id))["finished_at"] is not None


async def at_work(work: Work, supervisor: int, task_id: UUID) -> list[int] | None:
    """The worker processes that have an item of the task, once there are some; None when all has ended."""

    async def fact() -> tuple[list[int] | None] | None:
        if await is_over(work, task_id):
            return (None,)
        busy = {item["worker"].split(":")[1] for item in await work.items(task_id) if item["worker"]}
        workers = [pid for pid in children_of(supervisor) if str(pid) in busy and not gone(pid)]
        return (workers,) if workers else None

    found: tuple[list[int] | None] = await wait_until(cast(Any, fact), 120)
    return found[0]


def children_of(pid: int) -> list[int]:
    """The worker processes of a supervisor."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid: int) -> bool:
    """Has the process ended?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter: it went between the opening and the reading
        return True


def _all_gone(pids: list[int]) -> bool:
    return all(gone(pid) for pid in pids)


async def _lost(work: Work) -> int:
    query = "select count(*) from media_task_attempts where outcome = 'lost'"
    return int(await work.pool.fetchval(query))
