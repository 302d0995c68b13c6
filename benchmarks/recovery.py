"""`recovery`: a machine with a worker is gone while it runs items. How long until they are known as lost, and run
again?"""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from benchmarks.machine import descendants
from benchmarks.options import Options
from benchmarks.processes import Child, child
from benchmarks.report import Report
from benchmarks.servers import Servers, fresh_database, running_servers
from benchmarks.stack import QUEUE, TEMPLATE, Stack, prepare_template, running_stack
from benchmarks.stats import Spread

ITEMS = 20
ITEM_MILLISECONDS = 600_000  # none ends by itself while it is watched
POLL_SECONDS = 0.05
SLACK_SECONDS = 2.0  # for the sweep's own work and this program's look
LOST = "select count(*) from media_task_attempts where task_id = $1 and error_code = 'worker_lost'"
# One is enough: what was lost with a worker runs alone in its process, as it may have been what killed it.
AGAIN = "select $2::int * least(1, count(*)) from media_task_items where task_id = $1 and state = 'running' and attempt = 2"


@dataclass(frozen=True, slots=True)
class Times:
    """The lease and the pause between sweeps, in seconds: the product's defaults, or shorter for a smoke test."""

    lease: float = 30.0
    sweep: float = 30.0

    @property
    def settings(self) -> dict[str, str]:
        return {
            "LEASE_SECONDS": str(self.lease),
            "LEASE_RENEW_SECONDS": str(self.lease / 3),
            "SWEEP_INTERVAL_SECONDS": str(self.sweep),
            "LINGXI_CONCURRENCY": f"{QUEUE}={ITEMS}",
        }


async def run(options: Options) -> Report:
    report = Report(
        "recovery", excludes=["a worker that is restarted by its supervisor: its leases end at once"]
    )
    times = Times(3.0, 1.0) if options.quick else Times()
    rounds = options.runs or (1 if options.quick else 5)
    chance = random.Random(7)
    lost: list[float] = []
    again: list[float] = []
    with running_servers() as servers:
        token = await prepare_template(servers)
        for number in range(1, rounds + 1):
            found = await _round(servers, token, times, chance.uniform(0, times.sweep))
            lost.append(found[0])
            again.append(found[1])
            report.say(
                f"round {number}: all known as lost after {lost[-1]:.1f} s, the first runs again after {again[-1]:.1f} s"
            )
    report.lingxi = {
        "items": ITEMS,
        "leaseSeconds": times.lease,
        "sweepSeconds": times.sweep,
        "lostAfterSeconds": Spread.of(lost).as_json(),
        "firstRunsAgainAfterSeconds": Spread.of(again).as_json(),
    }
    limit = times.lease + times.sweep + SLACK_SECONDS
    report.say(
        f"lost: {Spread.of(lost).text(1)} s; the first runs again, after the backoff: {Spread.of(again).text(1)} s"
    )
    report.claim(
        f"within lease + one sweep ({times.lease:g} + {times.sweep:g} s) all is known as lost",
        round(max(lost), 1),
        options.quick or max(lost) <= limit,
    )
    return report


async def _round(servers: Servers, token: str, times: Times, pause_seconds: float) -> tuple[float, float]:
    """Seconds from the kill until all items are lost, and until the first runs again on the worker that is left."""
    async with (
        fresh_database(servers, "bench_recovery", template=TEMPLATE) as database_url,
        running_stack(servers, database_url, token, processes=1, settings=times.settings) as stack,
        _connected(database_url) as connection,
    ):
        http = await stack.connect()
        given = [{"ref": str(number), "input": {"durationMs": ITEM_MILLISECONDS}} for number in range(ITEMS)]
        answer = await http.post("/api/v1/media-tasks", json.dumps({"type": QUEUE, "items": given}).encode())
        if answer.status != 202:
            raise RuntimeError(f"submit answered {answer.status}: {answer.body[:500]!r}")
        task_id = UUID(answer.json()["id"])
        running = "select count(*) from media_task_items where task_id = $1 and state = 'running'"
        await _until(lambda: connection.fetchval(running, task_id), 60, "the first worker has all items")
        async with _another_worker(servers, stack):
            await asyncio.sleep(pause_seconds)  # so that the kill meets sweeps at any moment
            assert stack.worker is not None
            killed_at = time.monotonic()
            for pid in descendants(stack.worker.pid):
                os.kill(pid, signal.SIGKILL)
            limit = 3 * (times.lease + times.sweep) + 60
            await _until(lambda: connection.fetchval(LOST, task_id), limit, "all items are known as lost")
            lost = time.monotonic() - killed_at
            await _until(lambda: connection.fetchval(AGAIN, task_id, ITEMS), limit, "one runs again")
            again = time.monotonic() - killed_at
        http.close()
        return lost, again


@contextlib.asynccontextmanager
async def _connected(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def _another_worker(servers: Servers, stack: Stack) -> AsyncIterator[Child]:
    log = servers.root / "another.log"
    log.unlink(missing_ok=True)
    env = {**stack.env, "GRACE_SECONDS": "0"}  # its items are long
    async with child([sys.executable, "-m", "lingxi", "worker"], env=env, log=log, talks=False) as worker:

        async def started() -> int:
            return ITEMS * (b'"worker_started"' in log.read_bytes())

        await _until(started, 60, "the second worker has started")
        yield worker


async def _until(count: Callable[[], Awaitable[int]], seconds: float, what: str) -> None:
    """Wait until `count` answers the number of items."""
    deadline = time.monotonic() + seconds
    while await count() < ITEMS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {seconds:.0f} s it does not hold that {what}")
        await asyncio.sleep(POLL_SECONDS)
