"""Servers that go away and come back while items run: nothing is charged for it, and nobody has to restart anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import redis.asyncio

from lingxi.processors.contract import Context, Processor
from lingxi.processors.demo_drill import Input
from tests.support.proxy import CuttingProxy
from tests.support.servers import OwnServer, new_valkey
from tests.support.waiting import wait_until
from tests.support.work import Work, drills

ProxyTo = Callable[[str], CuttingProxy]


@asynccontextmanager
async def own_work(database_url: str, redis_url: str) -> AsyncIterator[Work]:
    """Work on servers of this test alone."""
    async with asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool:
        work = await Work.begin(pool, database_url, redis_url)
        async with work.dispatching():
            yield work


async def test_postgres_restarted_in_mid_flight(
    own_postgres: OwnServer, redis_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with own_work(own_postgres.url, redis_url) as work:
        task_id = await work.submit(*drills(300, durationMs=20, effect=True))
        async with work.worker(lease_seconds=30, lease_renew_seconds=10, concurrency={"demo:drill": 20}):
            await work.running(task_id, 10)
            await asyncio.to_thread(own_postgres.kill)
            await asyncio.to_thread(own_postgres.start)
            task = await work.ended(task_id, 60)
            assert task["status"] == "succeeded"
            await work.queue_empty()
        items = await work.items(task_id)
        assert await work.effects(task_id) == 300
        assert {item["attempt"] for item in items} <= {
            1,
            2,
        }  # 2: its transaction met the outage, and was tried again
    said = "".join(capfd.readouterr())
    assert said.count("postgres_unavailable") >= 1
    assert "Traceback" not in said


async def test_results_wait_while_postgres_is_away(own_postgres: OwnServer, redis_url: str) -> None:
    """The work ends while the database is down: its result is kept, not the work done again."""
    runs = 0
    down = asyncio.Event()

    async def run(context: Context, given: Input) -> dict[str, Any]:
        nonlocal runs
        runs += 1
        await down.wait()
        return {"run": runs}

    async with own_work(own_postgres.url, redis_url) as work:
        work.processors["demo:drill"] = Processor(name="demo:drill", input_model=Input, run=run)
        task_id = await work.submit({})
        async with work.worker(lease_seconds=30, lease_renew_seconds=10) as worker:
            await work.running(task_id)
            own_postgres.kill()
            down.set()
            await wait_until(lambda: worker.away == ["postgres"])
            held = list(worker.consumers[0].ledger.attempts.values())
            assert [one.decision is not None for one in held] == [True]
            assert (await work.queue_lengths())["active"] == 1  # nothing is acknowledged before its commit
            await asyncio.to_thread(own_postgres.start)
            await work.ended(task_id, 40)
        item = (await work.items(task_id))[0]
    assert (runs, item["attempt"], json.loads(item["result"])) == (1, 1, {"run": 1})


async def test_a_result_is_dropped_at_the_deadline_if_postgres_stays_away(
    own_postgres: OwnServer, redis_url: str
) -> None:
    down = asyncio.Event()

    async def run(context: Context, given: Input) -> dict[str, Any]:
        await down.wait()
        return {}

    async with own_work(own_postgres.url, redis_url) as work:
        work.processors["demo:drill"] = Processor(
            name="demo:drill", input_model=Input, run=run, time_limit_seconds=2.0
        )
        task_id = await work.submit({})
        async with work.worker() as worker:
            await work.running(task_id)
            own_postgres.kill()
            down.set()
            await wait_until(lambda: worker.consumers[0].finisher.counts["dropped"] == 1)
            await asyncio.to_thread(own_postgres.start)
        assert await work.states(task_id) == ["running"]  # for the sweep


@pytest.mark.parametrize("how", ["stopped", "killed", "frozen"])
async def test_redis_goes_away_and_comes_back(
    tmp_path: Path, database_url: str, how: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once under load, and once while the worker only waits for work. It keeps its jobs: no sweep runs beside this worker."""
    with new_valkey(tmp_path / "valkey", appendonly="yes") as server:
        await _goes_away_and_comes_back(OwnServer(server), database_url, how)
    assert "Traceback" not in "".join(capfd.readouterr())


async def _goes_away_and_comes_back(own_valkey: OwnServer, database_url: str, how: str) -> None:
    async with own_work(database_url, own_valkey.url) as work:
        task_id = await work.submit(*drills(200, durationMs=10, effect=True))
        async with work.worker(
            lease_seconds=30, lease_renew_seconds=10, concurrency={"demo:drill": 10}
        ) as worker:
            await work.running(task_id, 5)
            async with away(own_valkey, how):
                later = await work.submit(*drills(50))  # accepted meanwhile
            assert (await work.ended(task_id, 60))["status"] == "succeeded"
            assert (await work.ended(later, 60))["status"] == "succeeded"
            await work.queue_empty()
            async with away(own_valkey, how):
                if how != "frozen":
                    await wait_until(lambda: worker.away == ["redis"])
            afterwards = await work.submit(*drills(5))
            assert (await work.ended(afterwards, 60))["status"] == "succeeded"
            assert worker.away == []
        assert await work.effects(task_id) == 200
        assert {item["attempt"] for item in await work.items(task_id)} == {1}
        dead = await work.pool.fetchval(
            "select count(*) from outbox_events where last_error = 'dead_lettered'"
        )
        assert dead == 0


@asynccontextmanager
async def away(server: OwnServer, how: str) -> AsyncIterator[None]:
    """The server is stopped, killed or frozen, and back at the end."""
    leave = {"stopped": server.stop, "killed": server.kill, "frozen": server.freeze}[how]
    await asyncio.to_thread(leave)
    yield
    await asyncio.to_thread(server.thaw if how == "frozen" else server.start)


async def test_a_wiped_redis_doubles_nothing(own_valkey: OwnServer, database_url: str) -> None:
    """FLUSHALL while items run: what runs is finished; what only waited is the sweep's business."""
    async with own_work(database_url, own_valkey.url) as work:
        task_id = await work.submit(*drills(10, durationMs=800, effect=True))
        async with work.worker(concurrency={"demo:drill": 10}):
            await work.running(task_id, 10)
            async with redis.asyncio.from_url(own_valkey.url) as client:
                await client.flushall()
            assert (await work.ended(task_id))["status"] == "succeeded"
            again = await work.submit(*drills(10))
            assert (await work.ended(again))["status"] == "succeeded"
        assert await work.effects(task_id) == 10


async def test_a_commit_whose_answer_was_cut_off_is_not_superseded(work: Work, proxy_to: ProxyTo) -> None:
    proxy = proxy_to(work.database_url)
    async with work.worker(database_url=proxy.url(work.database_url)) as worker:
        await work.ended(await work.submit({}))  # connections and statements are there
        task_id = await work.submit(*drills(5, resultText="cut here"))
        proxy.swallow_reply_to(b"cut here")
        task = await work.ended(task_id)
        finisher = worker.consumers[0].finisher
        await wait_until(lambda: finisher.counts["already"] + finisher.counts["accepted"] == 6)
        await work.queue_empty()
    assert proxy.swallowed == 1
    assert finisher.counts["already"] >= 1
    assert finisher.counts["superseded"] == 0
    assert (task["status"], task["last_seq"]) == ("succeeded", 1 + 2 * 5 + 1)


async def test_a_claim_whose_answer_was_cut_off_charges_nothing(work: Work, proxy_to: ProxyTo) -> None:
    proxy = proxy_to(work.database_url)
    config = work.config()
    async with work.worker(
        name=config.name, database_url=proxy.url(work.database_url), lease_seconds=60, lease_renew_seconds=20
    ) as worker:
        await work.ended(await work.submit({}))
        for _ in range(5):  # a heartbeat says the same name, and may come first
            proxy.swallow_reply_to(config.name.encode())
            task_id = await work.submit(*drills(5, effect=True))
            task = await work.ended(task_id)
            if await work.attempts(task_id):
                break
        assert worker.consumers[0].finisher.counts["superseded"] == 0
    assert proxy.swallowed >= 1
    assert task["status"] == "succeeded"
    assert {item["attempt"] for item in await work.items(task_id)} == {1}
    assert {row["outcome"] for row in await work.attempts(task_id)} == {"released"}
    assert await work.effects(task_id) == 5


async def test_a_worker_starts_while_both_servers_are_away(
    own_postgres: OwnServer, own_valkey: OwnServer
) -> None:
    async with asyncpg.create_pool(own_postgres.url, min_size=1, max_size=4) as pool:
        work = await Work.begin(pool, own_postgres.url, own_valkey.url)
        task_id = await work.submit(*drills(5))
        own_valkey.kill()
        own_postgres.kill()
        async with work.worker(), work.dispatching():
            await asyncio.to_thread(own_valkey.start)
            await asyncio.to_thread(own_postgres.start)
            assert (await work.ended(task_id, 60))["status"] == "succeeded"
