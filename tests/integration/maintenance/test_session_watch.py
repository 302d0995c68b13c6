"""A process that froze in the midst of a statement keeps its locks from nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import asyncpg
import pytest

from lingxi.db.query import sql
from lingxi.db.session import connect, is_unavailable
from lingxi.maintenance.session_watch import SessionWatch
from lingxi.maintenance.sweeper import SWEEP_LOCK
from tests.support.waiting import wait_until
from tests.support.work import Work

HELD_SECONDS = 0.3
LOCK_TASK = "select from media_tasks where id = $1 for update"


@pytest.fixture
async def work(pool, database_url, redis_url):  # type: ignore[no-untyped-def]
    return await Work.begin(pool, database_url, redis_url)


@pytest.fixture
def watch(work: Work) -> SessionWatch:
    return SessionWatch(work.pool, longest_seconds=HELD_SECONDS)


@asynccontextmanager
async def session(work: Work, name: str, *, hot: bool = False) -> AsyncIterator[asyncpg.Connection]:
    """In a transaction; `name` is what the server knows it by."""
    connection = await connect(work.database_url, name=name, hot=hot)
    try:
        await connection.execute("begin")
        yield connection
    finally:
        connection.terminate()


async def freeze(work: Work, connection: asyncpg.Connection, number: int = 1) -> Any:
    """As SIGSTOP does between the two messages of a statement: it is prepared, and no more is said. Keep the answer."""
    statement = await connection.prepare(f"select {number} + $1::int")
    query = "select (state, wait_event) = ('active', 'ClientRead') from pg_stat_activity where pid = $1"
    await wait_until(partial(work.pool.fetchval, query, connection.get_server_pid()))
    return statement


def ends(watch: SessionWatch) -> Callable[[], Any]:
    async def once() -> bool:
        return (await watch.done_once())["ended"] == 1

    return once


async def looked_for(watch: SessionWatch, seconds: float) -> int:
    """How many it ended in that time."""
    loop, ended = asyncio.get_running_loop(), 0
    until = loop.time() + seconds
    while loop.time() < until:
        ended += (await watch.done_once())["ended"]
        await asyncio.sleep(0.02)
    return ended


@pytest.mark.parametrize("name", ["lingxi worker 7", "lingxi-api"])
async def test_one_that_froze_in_the_midst_of_a_statement_is_ended(
    work: Work, watch: SessionWatch, name: str
) -> None:
    """Also where nobody waits: who only tries the sweep's lock, or skips locked events, goes without for ever."""
    async with session(work, name, hot=True) as frozen:
        assert await frozen.fetchval(sql("deployment/try_lock"), SWEEP_LOCK)
        await freeze(work, frozen)
        await wait_until(ends(watch))
        await wait_until(partial(work.pool.fetchval, sql("deployment/try_lock"), SWEEP_LOCK))
        with pytest.raises(Exception) as told:  # noqa: PT011
            await frozen.fetchval("select 1 + $1::int", 1)
        assert is_unavailable(told.value), told.value


async def test_one_that_reads_no_answer_is_ended(work: Work, watch: SessionWatch) -> None:
    async with session(work, "lingxi worker 7", hot=True) as frozen:
        frozen._transport.pause_reading()  # type: ignore[attr-defined]
        reading = asyncio.create_task(frozen.fetchval("select repeat('x', 50000000)"))
        await wait_until(ends(watch))
        frozen._transport.resume_reading()  # type: ignore[attr-defined]
        with pytest.raises(Exception) as told:  # noqa: PT011
            await reading
        assert is_unavailable(told.value), told.value


async def test_a_processors_is_ended_when_somebody_waits_for_it(work: Work, watch: SessionWatch) -> None:
    """It may prepare a statement and think for as long as it likes."""
    task = await work.submit({})
    async with session(work, "lingxi processor 7") as frozen:
        await frozen.execute(LOCK_TASK, task)
        await freeze(work, frozen)
        assert await looked_for(watch, 2 * HELD_SECONDS) == 0
        waiting = asyncio.create_task(work.pool.execute(LOCK_TASK, task))
        await wait_until(ends(watch))
        await waiting


async def test_the_living_are_left_alone(work: Work, watch: SessionWatch) -> None:
    """One that goes on between two looks, one that others started, one in mid-statement by itself, one between two statements."""
    async with (
        session(work, "lingxi worker 1", hot=True) as lively,
        session(work, "psql") as foreign,
        session(work, "lingxi worker 2", hot=True) as busy,
        session(work, "lingxi worker 3", hot=True) as idle,
    ):
        await freeze(work, foreign)
        await idle.execute("select 1")
        sleeping = asyncio.create_task(busy.execute("select pg_sleep(60)"))
        loop = asyncio.get_running_loop()
        until, kept = loop.time() + 5 * HELD_SECONDS, []
        while loop.time() < until:
            kept.append(await freeze(work, lively, len(kept)))
            assert (await watch.done_once())["ended"] == 0
            await asyncio.sleep(HELD_SECONDS / 10)
        sleeping.cancel()
        with suppress(asyncio.CancelledError):
            await sleeping
        assert await idle.fetchval("select 1") == await foreign.fetchval("select 1") == 1
