"""Submit drills, run workers, and look at what became of them, without HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

import asyncpg
import redis.asyncio

from lingxi import names
from lingxi.broker.connection import connection_factory
from lingxi.broker.queue import BullQueue, Job
from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig
from lingxi.processors.contract import Processor
from lingxi.processors.demo_drill import DRILL
from lingxi.services.retry_failed import retry_failed
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.workspaces import create_workspace
from lingxi.worker.config import WorkerConfig, new_boot, worker_name
from lingxi.worker.process import WorkerProcess
from tests.support.least_rights import as_app
from tests.support.waiting import wait_until

FAST: dict[str, Any] = {
    "lease_seconds": 1.0,
    "lease_renew_seconds": 0.3,
    "heartbeat_seconds": 0.2,
    "grace_seconds": 5.0,
    "cancel_seconds": 0.3,
    "flush_seconds": 2.0,
}
"""Times of a worker that a test can wait for."""


@dataclass
class Work:
    """One workspace on one database and one Redis."""

    pool: asyncpg.Pool[asyncpg.Record]
    database_url: str
    redis_url: str
    workspace_id: UUID
    processors: dict[str, Processor[Any]] = field(default_factory=lambda: {"demo:drill": DRILL})

    @classmethod
    async def begin(cls, pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str) -> Work:
        """With a workspace of its own."""
        async with pool.acquire() as connection, connection.transaction():
            workspace = await create_workspace(connection, "work")
        assert workspace is not None
        return cls(pool, database_url, redis_url, workspace.id)

    # ── doing ────────────────────────────────────────────────────────────────────────────────────────────
    async def submit(
        self, *inputs: Mapping[str, Any], type: str = "demo:drill", max_attempts: int = 3
    ) -> UUID:
        """One task, one item for each input; nobody has been told yet."""
        encoded = [json.dumps(dict(one)) for one in inputs]
        new = NewTask(self.workspace_id, type, 1, [None] * len(inputs), encoded, max_attempts=max_attempts)
        async with self.pool.acquire() as connection, connection.transaction():
            return (await submit_task(connection, new)).id

    async def retry_failed(self, task_id: UUID) -> None:
        """As the endpoint does."""
        async with self.pool.acquire() as connection, connection.transaction():
            await retry_failed(connection, self.workspace_id, task_id)

    @asynccontextmanager
    async def dispatching(self, *more_queues: str, **changes: Any) -> AsyncIterator[Dispatcher]:
        """A dispatcher that looks often; for Lingxi's queues and `more_queues`."""
        queues = (*names.QUEUES, *more_queues)
        database_url, redis_url = as_app(self.database_url), as_app(self.redis_url)
        config = DispatcherConfig(database_url, redis_url, queues, interval_seconds=0.05)
        dispatcher = Dispatcher(replace(config, **changes))
        task = asyncio.create_task(dispatcher.run())
        try:
            yield dispatcher
        finally:
            dispatcher.stop()
            await task

    def config(self, **changes: Any) -> WorkerConfig:
        """Of a fast worker that serves demo:drill."""
        database_url, redis_url = as_app(self.database_url), as_app(self.redis_url)
        base = WorkerConfig(worker_name(new_boot()), database_url, redis_url, ("demo:drill",), **FAST)
        return replace(base, **changes)

    @asynccontextmanager
    async def worker(self, **changes: Any) -> AsyncIterator[WorkerProcess]:
        """A worker in this process and loop, stopped in order at the end."""
        process = WorkerProcess(self.config(**changes), self.processors, end_process=never)
        task = asyncio.create_task(process.run())
        try:
            yield process
        finally:
            process.ask_to_stop()
            assert await task == 0

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────
    async def task(self, task_id: UUID) -> asyncpg.Record:
        row = await self.pool.fetchrow("select * from media_tasks where id = $1", task_id)
        assert row is not None
        return row

    async def items(self, task_id: UUID) -> list[asyncpg.Record]:
        """In order of position."""
        return await self.pool.fetch(
            "select * from media_task_items where task_id = $1 order by position", task_id
        )

    async def attempts(self, task_id: UUID, position: int = 1) -> list[asyncpg.Record]:
        """The history of an item: attempts that ended and did not succeed."""
        return await self.pool.fetch(
            "select * from media_task_attempts where task_id = $1 and position = $2 order by started_at, id",
            task_id,
            position,
        )

    async def effects(self, task_id: UUID) -> int:
        """Rows that drills with an effect made."""
        count: int = await self.pool.fetchval(
            "select count(*) from drill_effects where task_id = $1", task_id
        )
        return count

    async def states(self, task_id: UUID) -> list[str]:
        return [item["state"] for item in await self.items(task_id)]

    async def ended(self, task_id: UUID, timeout_seconds: float = 20.0) -> asyncpg.Record:
        """The task once this round has ended; checks that it ended truthfully."""

        async def final() -> asyncpg.Record | None:
            row = await self.task(task_id)
            return row if row["finished_at"] is not None else None

        row: asyncpg.Record = await _until(final, timeout_seconds, f"task {task_id} ends")
        await self.assert_truthful(task_id)
        return row

    async def running(self, task_id: UUID, count: int = 1) -> None:
        """Until so many items of a task run."""

        async def enough() -> bool:
            return (await self.states(task_id)).count("running") >= count

        await _until(enough, message=f"{count} items run")

    async def assert_truthful(self, task_id: UUID) -> None:
        """Counters equal the items, and each round had one end."""
        task, states = await self.task(task_id), await self.states(task_id)
        for state in ("queued", "running", "retrying", "succeeded", "failed", "cancelled"):
            assert task[f"{state}_items"] == states.count(state), (state, dict(task), states)
        ends = await self.pool.fetch(
            "select round from outbox_events where task_id = $1 and type = 'task.ended' order by round",
            task_id,
        )
        assert [end["round"] for end in ends] == list(
            range(1, task["round"] + (task["finished_at"] is not None))
        )

    async def queue_lengths(self, queue: str = "demo:drill") -> dict[str, int]:
        """What Redis itself says: wait, prioritized, active, failed."""
        prefix = f"bull:{names.physical_queue(queue)}:"
        async with redis.asyncio.from_url(self.redis_url) as client:
            return {
                "wait": await client.llen(prefix + "wait"),
                "prioritized": await client.zcard(prefix + "prioritized"),
                "active": await client.llen(prefix + "active"),
                "failed": await client.zcard(prefix + "failed"),
            }

    async def queue_empty(self, queue: str = "demo:drill") -> None:
        """Until no job waits or is active."""

        async def nothing() -> bool:
            lengths = await self.queue_lengths(queue)
            return lengths["wait"] + lengths["prioritized"] + lengths["active"] == 0

        await _until(nothing, message="the queue is empty")

    async def add_job(self, job_id: str, data: Mapping[str, Any] | str, queue: str = "demo:drill") -> None:
        """Put a job into the queue as anybody could."""
        bull = BullQueue(queue, connection_factory(self.redis_url), token="test")
        text = data if isinstance(data, str) else json.dumps(dict(data))
        await bull.add_many([Job(job_id, text.encode())], priority=1, timestamp_ms=1)
        await bull.close()


def drills(count: int, **given: Any) -> Sequence[dict[str, Any]]:
    """The same input so many times."""
    return [dict(given) for _ in range(count)]


async def _until(fact: Callable[[], Awaitable[Any]], timeout_seconds: float = 15.0, message: str = "") -> Any:
    return await wait_until(cast(Any, fact), timeout_seconds, message)


def never(code: int) -> None:
    """A worker inside the tests' own process must not end it: that would look like a success."""
    print(f"a worker in this process stopped hard ({code})", file=sys.stderr, flush=True)
    os._exit(99)
