"""Tasks in a real database, dispatchers and the queue they fill."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from lingxi.broker.connection import connection_factory
from lingxi.broker.queue import BullQueue, Delivery
from lingxi.domain.wire import Task
from lingxi.names import PRIORITIES
from lingxi.observability import failpoints
from lingxi.outbox.dispatcher import Dispatcher, DispatcherConfig
from lingxi.services.submit_task import NewTask, submit_task
from lingxi.services.workspaces import create_workspace, find_workspace

Pool = asyncpg.Pool
MakeDispatcher = Callable[..., Dispatcher]
Submit = Callable[..., Awaitable[Task]]


@pytest.fixture
def config(database_url: str, redis_url: str) -> DispatcherConfig:
    return DispatcherConfig(database_url, redis_url)


@pytest.fixture(autouse=True)
def patient_with_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is run once here and judged: on a busy machine it may take Redis more than a second to let it in."""
    patient = partial(connection_factory, connect_timeout_seconds=15.0)
    monkeypatch.setattr("lingxi.outbox.dispatcher.connection_factory", patient)


@pytest.fixture
async def make_dispatcher(config: DispatcherConfig) -> AsyncIterator[MakeDispatcher]:
    """`make_dispatcher(**changes)`: a dispatcher of `config` with these changes, closed after the test."""
    made: list[Dispatcher] = []

    def make(**changes: Any) -> Dispatcher:
        made.append(Dispatcher(replace(config, **changes)))
        return made[-1]

    yield make
    for dispatcher in made:
        await dispatcher.close()


@pytest.fixture
async def dispatcher(make_dispatcher: MakeDispatcher) -> Dispatcher:
    return make_dispatcher()


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[BullQueue]:
    opened = BullQueue("demo:drill", connection_factory(redis_url), token="test")
    yield opened
    await opened.close()


@pytest.fixture
async def submit(pool: Pool) -> Submit:
    """`submit(items, workspace=, priority=, per_event=, type=)`: a committed task."""

    async def run(
        items: int = 1,
        *,
        workspace: str = "w",
        priority: str = "normal",
        per_event: int = 500,
        type: str = "demo:drill",
    ) -> Task:
        async with pool.acquire() as connection, connection.transaction():
            found = await find_workspace(connection, workspace) or await create_workspace(
                connection, workspace
            )
            assert found is not None
            new = NewTask(found.id, type, PRIORITIES[priority], [None] * items, ["{}"] * items)
            return await submit_task(connection, new, items_per_event=per_event)

    return run


@pytest.fixture
def arm(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """`arm(spec)` arms failpoints and gives their folder."""
    folder = tmp_path / "failpoints"
    folder.mkdir()

    def run(spec: str) -> Path:
        failpoints.disarm()
        failpoints.arm(spec, folder)
        return folder

    yield run
    failpoints.disarm()


async def events(pool: Pool) -> list[asyncpg.Record]:
    """All outbox events in order."""
    return await pool.fetch("select * from outbox_events order by id")


async def pending(pool: Pool) -> int:
    return int(await pool.fetchval("select count(*) from outbox_events where published_at is null"))


async def charged(pool: Pool) -> int:
    """How often any event was charged."""
    return int(await pool.fetchval("select coalesce(sum(attempts), 0) from outbox_events"))


async def drain(queue: BullQueue) -> list[Delivery]:
    """Take and finish all that waits, in order."""
    taken: list[Delivery] = []
    while batch := await queue.take(500):
        taken += batch
        await queue.finish_many(batch, fetch_next=False)
    return taken


def task_of(job_id: str) -> UUID:
    """The task whose item the job `<eventId>-<itemId>` is."""
    from lingxi.domain.ids import split_item_id

    return split_item_id(UUID(job_id.partition("-")[2]))[0]
