"""Worker processes: who is there, quiet (nothing new, what runs ends), resume, stop, as a row asks for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio

from lingxi import names
from lingxi.domain.errors import Conflict, NotFound
from lingxi.services.worker_processes import WorkerRow, ask_worker, list_workers
from lingxi.worker.presence import EXIT_STOPPED_BY_HAND
from lingxi.worker.process import WorkerProcess
from tests.fault.conftest import StartWorker, start_worker
from tests.support.processes import run_lingxi
from tests.support.waiting import wait_until
from tests.support.work import Work, drills, never

__all__ = ["start_worker"]
QUEUE = "demo:drill"
BEAT: dict[str, str] = {"HEARTBEAT_SECONDS": "0.2"}


@pytest.fixture
async def work(pool: Any, database_url: str, redis_url: str) -> Work:
    return await Work.begin(pool, database_url, redis_url)


async def told(work: Work, state: str, running: int | None = None) -> WorkerRow:
    """The only worker, once it told that it is so."""

    async def seen() -> WorkerRow | None:
        return next(
            (
                one
                for one in await list_workers(work.pool)
                if one.state == state and running in (None, one.running)
            ),
            None,
        )

    return await wait_until(seen)


async def beat(work: Work) -> str | None:
    async with redis.asyncio.from_url(work.redis_url, decode_responses=True) as client:
        found: str | None = await client.get(names.HEARTBEAT_KEY.format(queue=QUEUE))
        return found


async def test_a_quiet_worker_finishes_what_it_has_and_takes_nothing_until_it_is_resumed(work: Work) -> None:
    async with work.dispatching(), work.worker(concurrency={QUEUE: 2}) as process:
        task = await work.submit(*drills(2, durationMs=700), *drills(4))
        await work.running(task, 2)
        row = await told(work, "working", 2)
        assert (row.queues, row.name) == ([QUEUE], process._config.name)
        asked = await ask_worker(work.pool, row.boot, "quiet")
        assert asked.to_wire()["wanted"] == "quiet"
        await told(work, "quiet", 0)
        last = await beat(work)
        first = (await told(work, "quiet")).seen_at

        async def three_more() -> bool:
            return (await told(work, "quiet")).seen_at > first and (await work.queue_lengths())["active"] == 0

        await wait_until(three_more)
        assert (await work.states(task)).count("succeeded") == 2
        assert (await work.states(task)).count("queued") == 4, "nothing new was taken"
        assert await beat(work) == last, "it serves nobody, so it does not say that it does"
        await ask_worker(work.pool, row.name, None)
        assert (await work.ended(task))["status"] == "succeeded"
        assert await beat(work) != last
    assert await list_workers(work.pool) == [], "one that stopped in order leaves no row"


async def test_a_worker_that_is_to_stop_lets_what_runs_finish(work: Work) -> None:
    config = work.config()
    process = WorkerProcess(config, work.processors, end_process=never)
    serving = asyncio.create_task(process.run())
    async with work.dispatching():
        task = await work.submit({"durationMs": 600})
        await work.running(task)
        await ask_worker(work.pool, config.name, "stop")
        await told(work, "stopping")
        assert (await ask_worker(work.pool, config.name, "stop")).wanted == "stop", "again is the same"
        with pytest.raises(Conflict):
            await ask_worker(work.pool, config.name, None)
        assert await asyncio.wait_for(serving, 20) == EXIT_STOPPED_BY_HAND
        assert await work.states(task) == ["succeeded"]
    assert await list_workers(work.pool) == []
    with pytest.raises(NotFound):
        await ask_worker(work.pool, config.name, "stop")


async def test_processes_are_stopped_from_the_command_line_and_not_started_again(
    work: Work, start_worker: StartWorker, tmp_path: Path
) -> None:
    env = {"DATABASE_URL": work.database_url, "REDIS_URL": work.redis_url, "LINGXI_DATA_DIR": str(tmp_path)}
    parent = start_worker(**BEAT)
    row = await told(work, "working")
    listed = json.loads(run_lingxi("workers", "list", "--json", env=env).stdout.splitlines()[-1])["workers"]
    assert [(one["boot"], one["state"]) for one in listed] == [(row.boot, "working")]
    assert run_lingxi("workers", "quiet", env=env).returncode == 2, "nobody is named"
    assert run_lingxi("workers", "quiet", "00000000", env=env).returncode == 4
    assert row.boot in run_lingxi("workers", "quiet", "--queue", QUEUE, env=env).stdout
    await told(work, "quiet")
    stopped = run_lingxi("workers", "stop", "--all", env=env)
    assert (stopped.returncode, row.boot in stopped.stdout) == (0, True), stopped.stderr
    assert await asyncio.to_thread(parent.wait, 30) == 0
    assert parent.events("worker_stopped_by_hand") and not parent.events("worker_died")
    verbs = [row["verb"] for row in await work.pool.fetch("select verb from audit_log order by id")]
    assert verbs == ["worker.quiet", "worker.stop"]


async def test_the_row_of_a_killed_process_goes_with_its_leases(
    work: Work, start_worker: StartWorker
) -> None:
    parent = start_worker(**BEAT)
    row = await told(work, "working")
    os.kill(row.pid, signal.SIGKILL)

    async def another() -> bool:
        return row.boot not in {one.boot for one in await list_workers(work.pool)}

    await wait_until(another)
    assert parent.events("worker_died")


async def test_over_http(
    operator: httpx.AsyncClient, admin: httpx.AsyncClient, pool: Any, redis_url: str, database_url: str
) -> None:
    insert = (
        "insert into workers (boot, name, host, pid, version, queues, seen_at) values ($1, $2, 'h', 1, '0', '{demo:drill}', "
        "clock_timestamp() - make_interval(secs => $3))"
    )
    await pool.execute(insert, "0000000a", "h:1:0000000a", 3.0)
    await pool.execute(insert, "0000000b", "h:1:0000000b", 61.0)
    listed = (await operator.get("workers")).json()["workers"]
    assert [(one["boot"], one["state"], one["wanted"]) for one in listed] == [
        ("0000000a", "working", "work"),
        ("0000000b", "lost", "work"),
    ]
    assert (await admin.get("workers")).status_code == 403
    assert (await operator.post("workers/0000000c/quiet")).status_code == 404
    assert (await operator.post("workers/0000000a/quiet")).json()["wanted"] == "quiet"
    assert (await operator.post("workers/0000000a/resume")).json()["wanted"] == "work"
    assert (await operator.post("workers/0000000a/stop")).json()["wanted"] == "stop"
    assert (await operator.post("workers/0000000a/stop")).json()["wanted"] == "stop"
    assert (await operator.post("workers/0000000a/resume")).status_code == 409
    rows = await pool.fetch("select verb, target from audit_log where verb like 'worker.%' order by id")
    assert [tuple(row) for row in rows] == [
        (f"worker.{verb}", "worker:h:1:0000000a") for verb in ("quiet", "resume", "stop", "stop")
    ]
