"""Every way in which Redis can be unwell under a running system: what a user sees meanwhile; and nothing is charged for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
import pytest_asyncio
import redis.asyncio
import redis.exceptions

from lingxi.names import MARKER_KEY
from tests.chaos.ground import own_ground
from tests.fault.live import Live
from tests.support.processes import run_lingxi
from tests.support.servers import OwnServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("redis-faults")]
slow = pytest.mark.slow


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """One system for all of them: each leaves it well."""
    with own_ground() as ground:
        async with Live.open(ground, tmp_path_factory.mktemp("redis-faults")) as opened:
            yield opened


def client_of(server: OwnServer) -> redis.asyncio.Redis:
    return redis.asyncio.from_url(server.url, decode_responses=True)


# ── the faults ───────────────────────────────────────────────────────────────────────────────────────────
@asynccontextmanager
async def stopped(server: OwnServer) -> AsyncIterator[None]:
    await asyncio.to_thread(server.stop)
    yield
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def killed(server: OwnServer) -> AsyncIterator[None]:
    await asyncio.to_thread(server.kill)
    yield
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def frozen(server: OwnServer) -> AsyncIterator[None]:
    server.freeze()
    yield
    server.thaw()


@asynccontextmanager
async def full(server: OwnServer) -> AsyncIterator[None]:
    """At its limit, and it evicts nothing."""
    async with client_of(server) as client:
        await client.config_set("maxmemory", "1mb")
        yield
        await client.config_set("maxmemory", "0")


@asynccontextmanager
async def read_only(server: OwnServer) -> AsyncIterator[None]:
    """A failover left us with the replica."""
    async with client_of(server) as client:
        await client.execute_command("REPLICAOF", "127.0.0.1", "1")
        yield
        await client.execute_command("REPLICAOF", "NO", "ONE")


@asynccontextmanager
async def busy(server: OwnServer) -> AsyncIterator[None]:
    """Somebody's script runs and runs: everybody else is answered BUSY."""
    async with client_of(server) as client, client_of(server) as other:
        await client.config_set("busy-reply-threshold", "50")
        endless = asyncio.ensure_future(other.eval("while true do end", 0))

        async def is_busy() -> bool:
            try:
                await client.ping()
            except redis.exceptions.ResponseError as error:
                return "BUSY" in str(error)
            return False

        await wait_until(cast(Any, is_busy))
        yield
        await client.script_kill()
        await asyncio.gather(endless, return_exceptions=True)
        await client.config_set("busy-reply-threshold", "5000")


@asynccontextmanager
async def loading(server: OwnServer) -> AsyncIterator[None]:
    """It has come back, and reads its file until the block ends."""
    async with client_of(server) as client:
        await client.mset({f"filling:{number}": os.urandom(1_024) for number in range(3_000)})
        await client.save()
    await asyncio.to_thread(server.kill)
    half_a_minute = {"key_load_delay": "10000", "loading_process_events_interval_bytes": "1024"}  # µs a key
    starting = asyncio.create_task(asyncio.to_thread(server.start, **half_a_minute))

    async def is_loading() -> bool:
        with suppress(redis.exceptions.ConnectionError):
            async with client_of(server) as client:
                try:
                    await client.ping()
                except redis.exceptions.BusyLoadingError:
                    return True
        return False

    await wait_until(cast(Any, is_loading))
    try:
        yield
    finally:
        async with client_of(server) as client:
            await client.config_set("key-load-delay", "0")
        await starting


FAULTS = {
    "stopped": (stopped, True),
    "killed": (killed, True),
    "frozen": (frozen, True),
    "busy": (busy, True),
    "loading": (loading, True),
    "full": (full, False),
    "read_only": (read_only, False),
}
"""By name: how, and whether it cannot be read either."""


# ── meanwhile, and afterwards ────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=[] if name in ("busy", "full") else slow) for name in FAULTS]
)
async def test_submissions_and_streams_go_on_and_health_tells(live: Live, fault: str) -> None:
    """Accepted, cancelled, watched as ever; what runs ends; health and metrics say who is unwell; then all is caught up."""
    breaks, unreadable = FAULTS[fault]
    eyes = live.eyes
    at_work = await live.submit(10, durationMs=1_500)
    queue = await live.submit(150, durationMs=20)
    await live.has(at_work, "running", 10)
    async with live.stream(at_work) as frames, breaks(live.valkey):
        meanwhile = await live.submit(20)
        cancelled = await live.submit(5)
        answer = await eyes.post(f"media-tasks/{cancelled}/cancel")
        assert (answer.status, answer.body["status"]) == (200, "cancelled")
        await wait_until(lambda: "end" in [event for event, _ in frames], 20, "the stream goes on")
        assert (await live.counts(meanwhile))["queued"] == 20
        ready = await eyes.get("health/ready")
        assert (ready.status, ready.body["postgresql"]) == (200, "up")
        if unreadable:
            await eyes.sees("health/queues", 503, 50002)
            assert ready.body["redis"] == "down"
            assert await eyes.metric("lingxi_queue_failure_ratio", queue="chaos:work") is None
        else:
            assert (await eyes.get("health/queues")).status == 200
        assert await eyes.metric("lingxi_outbox_pending_total") >= 1  # type: ignore[operator]
    assert [data["status"] for event, data in frames if event == "end"] == ["succeeded"]
    await live.recovers(at_work, queue, meanwhile)


@slow
async def test_frozen_for_forty_seconds(live: Live) -> None:
    """Longer than leases, heartbeats and the dispatcher's lock."""
    waiting = await live.submit(50, durationMs=50)
    async with frozen(live.valkey):
        meanwhile = await live.submit(20)
        await live.eyes.sees("health/queues", 503, 50002)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + 40

        async def over() -> bool:
            assert (await live.eyes.get("health/ready")).status == 200
            return loop.time() > ends_at

        await wait_until(cast(Any, over), 60)
    await live.recovers(waiting, meanwhile)


@pytest.mark.parametrize("kind", ["normal", "pubsub"])
async def test_connections_killed_by_the_server(live: Live, kind: str) -> None:
    task_id = await live.submit(100, durationMs=30)
    await live.has(task_id, "succeeded", 5)
    async with client_of(live.valkey) as client:
        await client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    await live.recovers(task_id)


async def test_wiped_in_mid_flight(live: Live) -> None:
    at_work = await live.submit(20, durationMs=1_000)
    waiting = await live.submit(200, durationMs=20)
    await live.has(at_work, "running", 20)
    async with client_of(live.valkey) as client:
        await client.flushall()
    await live.recovers(at_work, waiting)


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=[slow, pytest.mark.timeout(400)])])
async def test_many_that_wait_are_sent_again_after_a_wipe(live: Live, count: int) -> None:
    """Within thirty seconds all of them have a job again; each runs once."""
    task_id = await live.submit(count, durationMs=200, effect=False)
    async with client_of(live.valkey) as client:

        async def all_sent() -> bool:
            return await _jobs_in(client) >= (await live.counts(task_id))["queued"] > 0

        await wait_until(cast(Any, all_sent), 60, "all were sent")
        await client.flushall()
        since = time.monotonic()
        await wait_until(cast(Any, all_sent), 60, "all were sent again")
        seconds = time.monotonic() - since
    print(f"{count} items were sent again {seconds:.1f} s after the wipe")
    assert seconds < 30
    assert (await live.eyes.ended(task_id, 300))["status"] == "succeeded"
    await live.recovers(task_id)


async def _jobs_in(client: redis.asyncio.Redis) -> int:
    """Jobs that wait in Redis, in BullMQ's two places."""
    return int(await client.zcard("bull:chaos-work:prioritized")) + int(
        await cast(Any, client.llen("bull:chaos-work:wait"))
    )


@pytest.mark.parametrize("role", ["worker", pytest.param("dispatcher", marks=slow)])
async def test_a_server_that_would_lose_jobs_is_refused(live: Live, role: str) -> None:
    """The process does not start, and says which policy, why, and what to set."""
    async with client_of(live.valkey) as client:
        await client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            refused = await asyncio.to_thread(run_lingxi, role, env=live.system.environment())
        finally:
            await client.config_set("maxmemory-policy", "noeviction")
    assert refused.returncode == 6, refused
    assert "The eviction policy is allkeys-lru" in refused.stderr
    assert "Set maxmemory-policy to noeviction." in refused.stderr
    assert "Traceback" not in refused.stderr


async def test_restored_from_an_old_copy(live: Live, tmp_path: Path) -> None:
    """The copy holds jobs that are done by now, and lacks those that came later: each item runs once all the same."""
    done = await live.submit(80, durationMs=1_000)
    await live.has(done, "running", 5)
    async with client_of(live.valkey) as client:
        marker = await client.get(MARKER_KEY)
        revived = await client.keys(f"bull:chaos-work:*-{done[:-4]}*")
    await copied(live.valkey, to=tmp_path / "copy")
    await live.eyes.ended(done)
    later = await live.submit(60, durationMs=500)
    await live.has(later, "running", 5)
    await wait_until(cast(Any, lambda: _is_forgotten(live, marker)))
    recognised = _wipes_seen(live)
    await copied(tmp_path / "copy", to=live.valkey)
    assert len(revived) > 40
    await wait_until(lambda: _wipes_seen(live) > recognised, 20, "the sweep recognises the copy")
    await live.recovers(done, later)


async def copied(source: OwnServer | Path, *, to: OwnServer | Path) -> None:
    """What the server keeps on disk, while it is down."""
    server = source if isinstance(source, OwnServer) else to
    assert isinstance(server, OwnServer)
    await asyncio.to_thread(server.stop)
    there, here = (one.folder if isinstance(one, OwnServer) else one for one in (source, to))
    here.mkdir(exist_ok=True)
    shutil.copy(there / "dump.rdb", here / "dump.rdb")
    await asyncio.to_thread(server.start)


async def _is_forgotten(live: Live, marker: str) -> bool:
    """Is this marker none that Redis may bear?"""
    connection = await asyncpg.connect(live.system.database_url)
    known = await connection.fetchval("select value from deployment where key = 'redis_marker'")
    await connection.close()
    return marker not in known.split()


def _wipes_seen(live: Live) -> int:
    return sum(one.get("wiped", 0) for one in live.system.running["worker"].events("sweep_done"))
