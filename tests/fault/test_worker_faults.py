"""Workers that are unwell in ways that are no clean death: a wrong clock, no memory, stopped and woken, replaced all the time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from lingxi.db.session import connect
from tests.chaos.ground import own_ground
from tests.chaos.load import Load, light
from tests.fault.live import Live
from tests.support.processes import Process
from tests.support.programs import cannot
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("worker-faults")]
LEASE_SECONDS = 4.0  # of the chaos runs' settings


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """One system for all of them: each leaves it with one worker that is well."""
    with own_ground() as ground:
        async with Live.open(ground, tmp_path_factory.mktemp("worker-faults")) as opened:
            yield opened


@asynccontextmanager
async def other_worker(live: Live, *, processes: int = 1, **settings: str) -> AsyncIterator[Process]:
    """In place of the system's worker, which comes back at the end."""
    system = live.system
    assert await asyncio.to_thread(system.running["worker"].stop) == 0
    system.processes = processes
    worker = system.start("worker", **settings)
    try:
        yield worker
        assert await asyncio.to_thread(worker.stop) == 0
    finally:
        worker.kill_group()
        system.processes = 1
        system.start("worker")
        await wait_until(lambda: system.children(), 60, "a worker is there")


async def one_row(live: Live, statement: str, *arguments: Any) -> Any:
    connection = await asyncpg.connect(live.system.database_url)
    try:
        return await connection.fetchrow(statement, *arguments)
    finally:
        await connection.close()


# ── a clock that is wrong ────────────────────────────────────────────────────────────────────────────────
def faketime() -> str:
    """libfaketime, which tells a process another time of day and leaves what it measures by alone."""
    for folder in Path("/usr/lib").glob("*/faketime"):
        if (library := folder / "libfaketimeMT.so.1").exists():
            return str(library)
    return cannot("libfaketime is needed for a worker whose clock is wrong")


@pytest.mark.parametrize("offset", ["+120s", pytest.param("-120s", marks=pytest.mark.slow)])
async def test_a_clock_two_minutes_off(live: Live, offset: str) -> None:
    """Leases, retries, heartbeats and photos go by the servers' time: nothing comes early, late, or twice."""
    clock = {"LD_PRELOAD": faketime(), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    lease_seconds = 2 * LEASE_SECONDS  # so that a machine which stands still for a moment loses none
    async with other_worker(live, LEASE_SECONDS=f"{lease_seconds:g}", **clock) as worker:
        await wait_until(lambda: worker.events("supervisor_started"), 30)
        told = worker.events("supervisor_started")[0]["timestamp"]
        long = await live.submit(2, durationMs=int(lease_seconds * 1_500))
        load = Load(live.system.url, live.system.token)
        await load.make_album()
        await load.run(light(1 if offset.startswith("+") else 2))
        live.accepted.tasks |= load.accepted.tasks
        live.accepted.photos |= load.accepted.photos
        live.accepted.objects |= load.accepted.objects
        await load.close()
        assert (await live.eyes.ended(long))["status"] == "succeeded"
        age = await live.eyes.metric("lingxi_worker_heartbeat_age_seconds", queue="chaos:work")
        assert age is not None and 0 <= age < 30
        await live.sound(long)
        assert worker.events("lease_lost") == []
    row = await one_row(
        live,
        "select max(attempt) as attempts, extract(epoch from max(finished_at) - $2::text::timestamptz) as seconds"
        " from media_task_items where task_id = $1::text::uuid",
        long,
        told,
    )
    assert row["attempts"] == 1
    assert abs(row["seconds"]) > 60  # its clock was wrong indeed


# ── stopped and woken ────────────────────────────────────────────────────────────────────────────────────
async def test_stopped_past_the_lease_and_woken(live: Live) -> None:
    """Another does the item meanwhile; the one that wakes finds its attempt superseded, and its transaction changes nothing."""
    async with other_worker(live, processes=2):
        await wait_until(lambda: len(live.system.children()) == 2, 60)
        task_id = await live.submit(1, holdMs=1_500)
        await live.has(task_id, "running")
        row = await one_row(
            live, "select worker from media_task_items where task_id = $1::text::uuid", task_id
        )
        pid = int(row["worker"].split(":")[1])
        os.kill(pid, signal.SIGSTOP)
        try:
            # It may have been stopped in a transaction: others get at the task when that was ended, after 20 to 25 s.
            assert (await live.eyes.ended(task_id, 150))["status"] == "succeeded"
        finally:
            os.kill(pid, signal.SIGCONT)
        fenced = "select count(*) as n from media_task_attempts where task_id = $1::text::uuid and outcome = 'lost'"
        assert (await one_row(live, fenced, task_id))["n"] == 1
        await live.recovers(task_id, most_attempts=2)
        effects = await one_row(
            live, "select count(*) as n from chaos.effects where task_id = $1::text::uuid", task_id
        )
        assert effects["n"] == 1
        assert live.system.running["worker"].events("worker_died") == []


async def test_workers_end_a_session_that_froze_in_the_midst_of_a_statement(live: Live) -> None:
    """It has no time-out of its own, and is prepared to run a statement, as a process frozen between two messages is."""
    frozen = await connect(live.system.database_url, name="lingxi frozen")
    try:
        await frozen.execute("begin")
        statement = await frozen.prepare("select 1 + $1::int")
        await wait_until(frozen.is_closed, 150)  # after 20 to 25 s
        del statement  # forgotten before, it would be closed
    finally:
        frozen.terminate()


# ── out of memory ────────────────────────────────────────────────────────────────────────────────────────
@asynccontextmanager
async def little_memory(parent: int, size_bytes: int) -> AsyncIterator[None]:
    """Children of this process that grow over `size_bytes` are killed, as the kernel does when a machine has no more."""

    async def kill_what_grows() -> None:
        while True:
            for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
                with suppress(OSError, ValueError, IndexError):
                    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                    if pages * os.sysconf("SC_PAGE_SIZE") > size_bytes:
                        os.kill(int(pid), signal.SIGKILL)
            await asyncio.sleep(0.01)

    killing = asyncio.create_task(kill_what_grows())
    try:
        yield
    finally:
        killing.cancel()


async def test_an_item_that_takes_all_memory(live: Live) -> None:
    """It ends as `worker_lost` after its attempts; the others of its batch are done once; its worker comes back each time."""
    worker = live.system.running["worker"]
    before = len(worker.events("worker_died"))
    async with little_memory(worker.pid, 700 << 20):
        inputs = [{"effect": True, "durationMs": 100}] * 9
        task_id = await live.eyes.submitted({"hoardMb": 2_000}, *inputs)
        live.accepted.tasks[task_id] = 10
        task = await live.eyes.ended(task_id, 90)
    assert (task["status"], task["counts"]["succeeded"], task["counts"]["failed"]) == (
        "partially_failed",
        9,
        1,
    )
    failed = (await live.eyes.get(f"media-tasks/{task_id}/items?state=failed")).body["items"][0]
    assert (failed["error"]["code"], failed["attempt"], failed["index"]) == ("worker_lost", 3, 0)
    assert len(worker.events("worker_died")) - before == 3
    await live.recovers()


# ── replaced all the time ────────────────────────────────────────────────────────────────────────────────
async def test_a_deploy_every_few_seconds_charges_nothing(live: Live) -> None:
    """Some items take longer than a worker lives: they are given back, and start again until one of them has the time."""
    tasks = [await live.submit(300, durationMs=100)]
    system = live.system
    for _ in range(4):
        old = system.running["worker"]
        new = system.start("worker", GRACE_SECONDS="0.5")
        await wait_until(lambda: new.events("worker_started"), 60, "the new one works")  # noqa: B023
        tasks.append(await live.submit(4, durationMs=2_500))
        await live.has(tasks[-1], "running")
        assert await asyncio.to_thread(old.stop) == 0
    await live.recovers(*tasks)  # each by one attempt
    outcomes = await one_row(
        live,
        "select array_agg(distinct outcome::text) as all from media_task_attempts where task_id = any($1::text[]::uuid[])",
        tasks,
    )
    assert outcomes["all"] in (["released"], None)
