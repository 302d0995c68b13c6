"""The test support itself: what every other test stands on."""

import asyncio
import os
import signal
from collections.abc import Callable

import asyncpg
import pytest
import redis.asyncio
import redis.exceptions

from tests.support.processes import Processes
from tests.support.proxy import CuttingProxy
from tests.support.servers import OwnServer
from tests.support.waiting import FactNeverCame, wait_until


async def test_each_test_has_a_migrated_database_of_its_own(
    pool: asyncpg.Pool, empty_database_url: str
) -> None:
    assert await pool.fetchval("select count(*) from media_tasks") == 0
    empty = await asyncpg.connect(empty_database_url)
    try:
        assert await empty.fetchval("select to_regclass('media_tasks')") is None
    finally:
        await empty.close()


@pytest.mark.parametrize("run", [1, 2])
async def test_redis_is_empty_at_the_start_of_each_test(redis_url: str, run: int) -> None:
    async with redis.asyncio.from_url(redis_url) as client:
        assert await client.dbsize() == 0
        await client.set("left", "over")


async def test_own_redis_can_be_killed_frozen_and_started_again(own_valkey: OwnServer) -> None:
    async with redis.asyncio.from_url(own_valkey.url, socket_timeout=0.3, retry=None) as client:
        await client.set("kept", "1")
        own_valkey.freeze()
        with pytest.raises(redis.exceptions.TimeoutError):
            await client.get("kept")
        own_valkey.thaw()
        assert await client.get("kept") == b"1"
        own_valkey.stop()
        with pytest.raises(redis.exceptions.ConnectionError):
            await client.get("kept")
        own_valkey.start()
        assert await client.get("kept") == b"1"
    own_valkey.kill()
    own_valkey.start()
    async with redis.asyncio.from_url(own_valkey.url) as client:
        assert await client.ping()


async def test_own_postgres_survives_a_kill_with_its_rows(own_postgres: OwnServer) -> None:
    connection = await asyncpg.connect(own_postgres.url)
    await connection.execute("create table kept as select 1 as one")
    own_postgres.kill()
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
        await connection.fetchval("select one from kept")
    own_postgres.start()
    again = await asyncpg.connect(own_postgres.url)
    assert await again.fetchval("select one from kept") == 1
    await again.close()


async def test_proxy_refuses_stalls_and_cuts(redis_url: str, proxy_to: Callable[[str], CuttingProxy]) -> None:
    proxy = proxy_to(redis_url)
    async with redis.asyncio.from_url(proxy.url(redis_url), socket_timeout=0.3, retry=None) as client:
        await client.set("a", "x" * 1000)
        proxy.stall()
        with pytest.raises(redis.exceptions.TimeoutError):
            await client.get("a")
        proxy.forward()
        assert await client.get("a") == b"x" * 1000
        proxy.cut_after(100)
        proxy.cut()
        with pytest.raises(redis.exceptions.ConnectionError):
            for _ in range(3):
                await client.get("a")
        proxy.refuse()
        with pytest.raises(redis.exceptions.ConnectionError):
            await client.get("a")
        proxy.forward()
        assert await client.get("a") == b"x" * 1000


async def test_proxy_loses_the_answer_of_one_commit(
    database_url: str, pool: asyncpg.Pool, proxy_to: Callable[[str], CuttingProxy]
) -> None:
    await pool.execute("create table effects (n int)")
    proxy = proxy_to(database_url)
    connection = await asyncpg.connect(proxy.url(database_url))
    await connection.execute("begin; insert into effects values (1)")
    proxy.swallow_reply_to(b"commit")
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
        await connection.execute("commit")
    assert proxy.swallowed == 1
    assert await pool.fetchval("select count(*) from effects") == 1


async def test_waiting_gives_the_fact_or_says_what_it_saw() -> None:
    answers = iter([0, 0, 7])
    assert await wait_until(lambda: next(answers)) == 7
    with pytest.raises(FactNeverCame, match="last answer was 0"):
        await wait_until(lambda: 0, timeout_seconds=0.05)


async def test_a_traceback_in_a_log_is_found(processes: Processes) -> None:
    process = processes.start(["sh", "-c", "echo ready >&2; exec sleep 60"], env={}, name="sleeper")
    process.wait_for_log("ready")
    process.signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM
    broken = processes.start(["python3", "-c", "1/0"], env={}, name="broken")
    assert broken.wait() == 1
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        broken.assert_clean_log()
    broken.log_path.write_text("")
    with pytest.raises(AssertionError, match="ended"):
        broken.wait_for_log("never said")
    await asyncio.to_thread(os.stat, process.log_path)
