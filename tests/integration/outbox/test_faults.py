"""The dispatcher when a server is away, says no, or one event is bad: who is charged, and who is not."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis.asyncio

from lingxi import names
from lingxi.broker.client import api_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.queue import BullQueue
from lingxi.domain.ids import item_id
from lingxi.outbox.dispatcher import Dispatcher
from lingxi.outbox.jobs import jobs_of_event
from lingxi.outbox.sender import JobSender, Parcel
from tests.integration.outbox.conftest import MakeDispatcher, Pool, Submit, charged, drain, events, pending
from tests.support.processes import Process, Processes
from tests.support.proxy import CuttingProxy
from tests.support.servers import OwnServer
from tests.support.waiting import wait_until

Arm = Callable[[str], Path]
RUNNER = Path(__file__).with_name("run_dispatcher.py")


async def make_due(pool: Pool) -> None:
    await pool.execute(
        "update outbox_events set next_attempt_at = clock_timestamp() where published_at is null"
    )


# ── Redis cannot serve ───────────────────────────────────────────────────────────────────────────────────
async def test_a_stopped_redis_pauses_and_charges_nothing(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, own_valkey: OwnServer
) -> None:
    dispatcher = make_dispatcher(redis_url=own_valkey.url, interval_seconds=0.05)
    own_valkey.stop()
    for _ in range(3):
        await submit(2)
    running = asyncio.create_task(dispatcher.run())
    await wait_until(lambda: dispatcher.totals.pauses > names.MAX_EVENT_ATTEMPTS + 5)
    assert dispatcher.totals.paused is not None and dispatcher.totals.paused.startswith("Redis")
    assert await charged(pool) == 0 and await pending(pool) == 3
    started = time.monotonic()
    own_valkey.start()
    await wait_until(lambda: _nothing_pending(pool))
    assert time.monotonic() - started < 15
    assert dispatcher.totals.paused is None and dispatcher.totals.jobs == 6
    dispatcher.stop()
    await running


async def _nothing_pending(pool: Pool) -> bool:
    return await pending(pool) == 0


async def test_redis_dies_between_the_claim_and_the_sending(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, own_valkey: OwnServer, arm: Arm
) -> None:
    folder = arm("outbox.before_send=pause@1")
    dispatcher = make_dispatcher(redis_url=own_valkey.url)
    await submit(2)
    await submit(2, type="media:probe")
    round_task = asyncio.create_task(dispatcher.run_once())
    await wait_until((folder / "outbox.before_send.reached").exists)
    own_valkey.kill()
    (folder / "outbox.before_send.release").touch()
    done = await round_task
    assert done.paused is not None and done.paused.startswith("Redis")
    assert done.published == 0 and await charged(pool) == 0 and await pending(pool) == 2
    own_valkey.start()
    await wait_until(lambda: _publishes(dispatcher, pool))


async def _publishes(dispatcher: Dispatcher, pool: Pool) -> bool:
    await dispatcher.run_once()
    return await pending(pool) == 0


async def test_a_frozen_redis_pauses_within_the_bounds_of_a_round(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, own_valkey: OwnServer, arm: Arm
) -> None:
    dispatcher = make_dispatcher(redis_url=own_valkey.url)
    folder = arm("outbox.before_send=pause@1")
    await submit(2)
    round_task = asyncio.create_task(dispatcher.run_once())
    await wait_until((folder / "outbox.before_send.reached").exists)
    started = time.monotonic()
    own_valkey.freeze()
    try:
        (folder / "outbox.before_send.release").touch()
        done = await round_task
        assert time.monotonic() - started < names.DISPATCH_TIMEOUT_SECONDS * 3
        assert done.paused is not None
        assert (await dispatcher.run_once()).paused is not None
        assert await charged(pool) == 0 and await pending(pool) == 1
    finally:
        own_valkey.thaw()
    await wait_until(lambda: _publishes(dispatcher, pool))


@pytest.mark.parametrize(
    ("spoil", "mend"),
    [
        ("CONFIG SET maxmemory 1mb", "CONFIG SET maxmemory 0"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    ],
    ids=["OOM", "READONLY", "NOREPLICAS"],
)
async def test_words_of_a_server_that_cannot_serve_charge_nothing(
    make_dispatcher: MakeDispatcher, submit: Submit, pool: Pool, own_valkey: OwnServer, spoil: str, mend: str
) -> None:
    dispatcher = make_dispatcher(redis_url=own_valkey.url)
    await dispatcher.run_once()
    await submit(2)
    async with redis.asyncio.from_url(own_valkey.url) as client:
        await client.execute_command(*spoil.split())
        for _ in range(names.MAX_EVENT_ATTEMPTS + 2):
            done = await dispatcher.run_once()
            assert done.paused is not None and done.paused.startswith("Redis"), done
        assert await charged(pool) == 0 and await pending(pool) == 1
        await client.execute_command(*mend.split())
        assert await wait_until(lambda: _publishes(dispatcher, pool))
        # and if it says so only when the jobs are added, after the lock was got
        await submit(2)
        await client.execute_command(*spoil.split())
        dispatcher._lock.acquire = _always  # type: ignore[method-assign]
        done = await dispatcher.run_once()
        assert done.claimed == 1 and done.paused is not None and done.charged == 0
        assert await charged(pool) == 0
        await client.execute_command(*mend.split())
        assert (await dispatcher.run_once()).published == 1


async def _always() -> bool:
    return True


async def test_a_wiped_redis_forgets_scripts_and_the_lock_and_nothing_else(
    dispatcher: Dispatcher, submit: Submit, pool: Pool, queue: BullQueue, redis_url: str
) -> None:
    await submit(2)
    assert (await dispatcher.run_once()).jobs == 2
    async with redis.asyncio.from_url(redis_url) as client:
        await client.flushall()
        await client.script_flush()
    await submit(2)
    assert (await dispatcher.run_once()).jobs == 2
    assert await charged(pool) == 0


# ── PostgreSQL cannot serve ──────────────────────────────────────────────────────────────────────────────
async def test_postgres_away_pauses_and_comes_back(
    make_dispatcher: MakeDispatcher, own_postgres: OwnServer
) -> None:
    dispatcher = make_dispatcher(database_url=own_postgres.url)
    assert (await dispatcher.run_once()).paused is None
    own_postgres.stop()
    done = await dispatcher.run_once()
    assert done.paused is not None and done.paused.startswith("PostgreSQL")
    own_postgres.start()
    assert (await dispatcher.run_once()).paused is None


async def test_a_session_that_is_cut_in_mid_round_sends_again_under_the_same_ids(
    dispatcher: Dispatcher, submit: Submit, pool: Pool, queue: BullQueue, arm: Arm
) -> None:
    folder = arm("outbox.after_send=pause@1")
    await submit(3)
    round_task = asyncio.create_task(dispatcher.run_once())
    await wait_until((folder / "outbox.after_send.reached").exists)
    await pool.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'lingxi dispatcher' "
        "and datname = current_database()"
    )
    (folder / "outbox.after_send.release").touch()
    done = await round_task
    assert done.paused is not None and done.published == 0
    assert await pending(pool) == 1 and await queue.waiting() == 3
    assert (await dispatcher.run_once()).published == 1
    assert len(await drain(queue)) == 3


async def test_a_frozen_postgres_does_not_hold_a_round_for_ever(
    make_dispatcher: MakeDispatcher, own_postgres: OwnServer
) -> None:
    dispatcher = make_dispatcher(database_url=own_postgres.url)
    await dispatcher.run_once()
    own_postgres.freeze()
    try:
        started = time.monotonic()
        done = await dispatcher.run_once()
        assert time.monotonic() - started < names.DISPATCH_TIMEOUT_SECONDS * 3
        assert done.paused is not None
    finally:
        own_postgres.thaw()


# ── one bad event ────────────────────────────────────────────────────────────────────────────────────────
async def test_only_the_guilty_event_of_a_batch_is_charged(
    dispatcher: Dispatcher, submit: Submit, pool: Pool, queue: BullQueue, redis_url: str
) -> None:
    tasks = [await submit(2) for _ in range(5)]
    bad = (await events(pool))[2]
    async with redis.asyncio.from_url(redis_url) as client:
        # a key of another kind where the job's hash would be
        await client.set(f"bull:demo-drill:{bad['id']}-{item_id(tasks[2].id, 2)}", "x")
        done = await dispatcher.run_once()
        assert (done.published, done.charged, done.paused) == (4, 1, None)
        rows = {row["id"]: row for row in await events(pool)}
        assert [row["attempts"] for row in rows.values()] == [0, 0, 1, 0, 0]
        assert rows[bad["id"]]["last_error"] == "send_failed"
        assert "WRONGTYPE" in rows[bad["id"]]["error_detail"]
        assert (await dispatcher.run_once()).claimed == 0, "it waits before its next try"
        await client.delete(f"bull:demo-drill:{bad['id']}-{item_id(tasks[2].id, 2)}")
    await make_due(pool)
    assert (await dispatcher.run_once()).published == 1
    jobs = [job.job_id for job in await drain(queue)]
    assert len(jobs) == len(set(jobs)) == 10
    assert (await events(pool))[2]["last_error"] is None


async def test_after_ten_attempts_an_event_is_a_dead_letter(
    dispatcher: Dispatcher, submit: Submit, pool: Pool, queue: BullQueue
) -> None:
    await submit(1)
    await pool.execute("update outbox_events set queue = 'no such'")
    waits = []
    for attempt in range(1, 11):
        await submit(1)
        await make_due(pool)
        done = await dispatcher.run_once()
        assert (done.published, done.charged, done.dead_lettered) == (1, 1, attempt == 10)
        row = (await events(pool))[0]
        assert row["attempts"] == attempt
        waits.append(
            (row["next_attempt_at"] - await pool.fetchval("select clock_timestamp()")).total_seconds()
        )
    # half to all of 1, 2, 4 … 300 s, less what the machine took since
    assert all(min(2**n, 300) * 0.5 - 3 < wait <= min(2**n, 300) for n, wait in enumerate(waits)), waits
    assert row["last_error"] == "dead_lettered" and row["published_at"] is None
    assert row["error_detail"] == "there is no queue 'no such'"
    await make_due(pool)
    assert (await dispatcher.run_once()).claimed == 0, "nobody tries it again"
    assert len(await drain(queue)) == 10
    assert dispatcher.totals.dead_lettered == 1


async def test_a_redis_that_answers_but_not_to_these_jobs(
    make_dispatcher: MakeDispatcher,
    submit: Submit,
    pool: Pool,
    redis_url: str,
    proxy_to: Callable[[str], CuttingProxy],
    arm: Arm,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Too slow together: nobody is charged, one by one next. Too slow alone while a PING is answered: charged."""
    monkeypatch.setattr(names, "DISPATCH_TIMEOUT_SECONDS", 1.6)
    proxy = proxy_to(redis_url)
    dispatcher = make_dispatcher()
    dispatcher._sender = JobSender(
        names.QUEUES, redis_url, connection_factory(proxy.url(redis_url)), name="dispatcher"
    )
    await submit(1)
    await submit(1)

    async def round_with_a_stall() -> object:
        folder = arm("outbox.before_send=pause@1")
        for file in folder.iterdir():
            file.unlink()
        task = asyncio.create_task(dispatcher.run_once())
        await wait_until((folder / "outbox.before_send.reached").exists)
        proxy.stall()
        (folder / "outbox.before_send.release").touch()
        done = await task
        proxy.cut()
        proxy.forward()
        return done

    await round_with_a_stall()
    assert await charged(pool) == 0 and await pending(pool) == 2
    await round_with_a_stall()
    assert [row["attempts"] for row in await events(pool)] == [1, 0]
    assert "Redis answers" in (await events(pool))[0]["error_detail"]
    await wait_until(lambda: _one_published(dispatcher, pool))
    assert [row["attempts"] for row in await events(pool)] == [1, 0]


async def _one_published(dispatcher: Dispatcher, pool: Pool) -> bool:
    await dispatcher.run_once()
    return await pending(pool) == 1


async def test_the_sender_tells_slow_from_away(
    redis_url: str, proxy_to: Callable[[str], CuttingProxy]
) -> None:
    from lingxi.domain.ids import new_task_id

    proxy = proxy_to(redis_url)
    loop = asyncio.get_running_loop()
    parcels = [Parcel(n, "demo:drill", 1, jobs_of_event(n, new_task_id(), [1], [1]), 1) for n in (1, 2)]
    sender = JobSender(["demo:drill"], redis_url, connection_factory(proxy.url(redis_url)), name="x")
    await sender.lines()
    proxy.stall()
    delivered = await sender.send(parcels, deadline=loop.time() + 0.2)
    assert delivered.timed_out and not delivered.guilty and not delivered.sent
    delivered = await sender.send(parcels[:1], deadline=loop.time() + 0.2)
    assert list(delivered.guilty) == [1]
    await sender.close()
    sender = JobSender(
        ["demo:drill"], proxy.url(redis_url), connection_factory(proxy.url(redis_url)), name="x"
    )
    delivered = await sender.send(parcels[:1], deadline=loop.time() + 0.2)
    assert delivered.unavailable is not None and not delivered.guilty
    await sender.close()


# ── killed ───────────────────────────────────────────────────────────────────────────────────────────────
def start(
    processes: Processes, database_url: str, redis_url: str, spec: str = "", folder: Path | None = None
) -> Process:
    arguments = [sys.executable, str(RUNNER), database_url, redis_url, spec, str(folder or "")]
    return processes.start(arguments, env={}, name="dispatcher")


async def test_killed_after_sending_and_before_marking_sent(
    submit: Submit,
    pool: Pool,
    queue: BullQueue,
    dispatcher: Dispatcher,
    processes: Processes,
    database_url: str,
    redis_url: str,
    tmp_path: Path,
) -> None:
    """The next dispatcher sends again under the same ids: nothing is doubled, whether the jobs still wait or not."""
    await submit(6, per_event=3)
    killed = start(processes, database_url, redis_url, "outbox.after_send=kill", tmp_path)
    assert await asyncio.to_thread(killed.wait) == -9
    assert await pending(pool) == 2
    first = [job.job_id for job in await queue.take(2)]  # a worker took some of them already
    async with redis.asyncio.from_url(redis_url) as client:
        await client.delete(names.DISPATCH_LOCK_KEY)
    done = await dispatcher.run_once()
    assert (done.published, done.jobs) == (2, 6)
    rest = [job.job_id for job in await drain(queue)]
    assert len(first + rest) == len(set(first + rest)) == 6
    assert await charged(pool) == 0


async def test_another_publishes_soon_after_the_holder_of_the_lock_was_killed(
    submit: Submit,
    pool: Pool,
    make_dispatcher: MakeDispatcher,
    processes: Processes,
    database_url: str,
    redis_url: str,
) -> None:
    holder = start(processes, database_url, redis_url)
    client = api_client(redis_url)
    await wait_until(lambda: client.exists(names.DISPATCH_LOCK_KEY))
    heir = make_dispatcher()
    running = asyncio.create_task(heir.run())
    await wait_until(lambda: heir.totals.rounds > 0)
    holder.kill()
    await submit(1)
    started = time.monotonic()
    await wait_until(lambda: _nothing_pending(pool), 30)
    bound = names.DISPATCH_LOCK_TTL_MS / 1000 + heir.config.interval_seconds
    assert time.monotonic() - started < 3 * bound
    heir.stop()
    await running
    await client.aclose()


async def test_asked_to_stop_it_ends_in_order(
    processes: Processes, submit: Submit, pool: Pool, database_url: str, redis_url: str
) -> None:
    process = start(processes, database_url, redis_url)
    await submit(3)
    await wait_until(lambda: _nothing_pending(pool))
    assert await asyncio.to_thread(process.stop) == 0
    async with redis.asyncio.from_url(redis_url) as client:
        assert not await client.exists(names.DISPATCH_LOCK_KEY)
    left = await pool.fetchval(
        "select count(*) from pg_stat_activity where application_name = 'lingxi dispatcher' and datname = current_database()"
    )
    assert left == 0
