"""Every way in which PostgreSQL can be unwell under a running system: it promises nothing meanwhile, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
import pytest_asyncio

from tests.chaos.ground import own_ground
from tests.fault.live import Live
from tests.support.proxy import CuttingProxy
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("postgres-faults")]
MAX_CONNECTIONS = 70
OF_LINGXI = "datname = current_database() and application_name like 'lingxi%'"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """One system for all of them: each leaves it well."""
    with (
        own_ground(max_connections=str(MAX_CONNECTIONS)) as ground,
        CuttingProxy.to(ground.servers.database_url) as proxy,
    ):
        async with Live.open(ground, tmp_path_factory.mktemp("postgres-faults"), proxy) as opened:
            yield opened


@asynccontextmanager
async def session(live: Live, **settings: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else's connection, past the proxy."""
    connection = await asyncpg.connect(live.system.database_url, server_settings=settings)
    try:
        yield connection
    finally:
        connection.terminate()


# ── the faults: each holds until its block ends ──────────────────────────────────────────────────────────
@asynccontextmanager
async def stopped(live: Live) -> AsyncIterator[None]:
    await asyncio.to_thread(live.postgres.stop)
    try:
        yield
    finally:
        await asyncio.to_thread(live.postgres.start)


@asynccontextmanager
async def read_only(live: Live) -> AsyncIterator[None]:
    """As a standby is, or a server whose operator has closed it for writing."""
    async with session(live, default_transaction_read_only="off") as ours:
        await ours.execute("alter system set default_transaction_read_only = on")
        await ours.execute("select pg_reload_conf()")
        try:
            yield
        finally:
            await ours.execute("alter system reset default_transaction_read_only")
            await ours.execute("select pg_reload_conf()")


@asynccontextmanager
async def exhausted(live: Live) -> AsyncIterator[None]:
    """Somebody else has every connection that there is."""
    async with session(live) as ours:
        held: list[asyncpg.Connection] = []
        try:
            while await ours.fetchval(f"select count(*) from pg_stat_activity where {OF_LINGXI}") or not held:
                await ours.execute(
                    f"select pg_terminate_backend(pid) from pg_stat_activity where {OF_LINGXI}"
                )
                with suppress(asyncpg.TooManyConnectionsError):
                    while True:
                        held.append(await asyncpg.connect(live.system.database_url))
            yield
        finally:
            for connection in held:
                connection.terminate()


FAULTS = {"stopped": (stopped, False), "read_only": (read_only, True), "exhausted": (exhausted, False)}
"""By name: how, and whether it can still be read."""


# ── meanwhile, and afterwards ────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("fault", FAULTS)
async def test_nothing_is_promised_meanwhile_and_results_wait(live: Live, fault: str) -> None:
    """503 with a code and no task; streams stay open; what runs goes on, and its result is stored afterwards."""
    breaks, readable = FAULTS[fault]
    at_work = await live.submit(20, durationMs=1_500, effect=False)
    waiting = await live.submit(50, durationMs=10)
    await live.has(at_work, "running", 20)
    key = f"while-{fault}"
    async with live.stream(at_work) as frames:
        async with breaks(live):
            await live.refuses(key)
            read = await live.eyes.get(f"media-tasks/{at_work}")
            ready = await live.eyes.get("health/ready")
            if readable:
                assert (read.status, ready.status) == (200, 200)
            else:
                assert (read.status, read.code, ready.status, ready.code) == (503, 50003, 503, 50003)
            assert (await live.eyes.get("health/live")).status == 200
            assert "gone" not in [event for event, _ in frames]
        await live.is_taken(key)
        await wait_until(lambda: frames[-1][0] == "end", 40, "the stream tells the end")
    assert frames[-1][1]["status"] == "succeeded"
    # at most one attempt more: of those whose own transaction met the outage
    await live.recovers(at_work, waiting, most_attempts=2)
    assert await attempts_of(live, at_work) == {1}


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.slow)])
async def test_every_connection_terminated(live: Live, times: int) -> None:
    """By an operator, a failover, a pooler: the next statement makes a new one, and a request meets it as a 503 at most."""
    task_id = await live.submit(200, durationMs=20 * times)
    await live.has(task_id, "succeeded", 5)
    async with session(live) as ours:
        for _ in range(times):
            await ours.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where {OF_LINGXI}")
            answer = await live.asked(f"terminated-{times}")
            assert (answer.status, answer.code) in ((202, 0), (503, 50003))
    await live.is_taken(f"terminated-{times}")
    await live.recovers(task_id, most_attempts=3)


async def test_a_commit_whose_answer_is_lost(live: Live) -> None:
    """The user sees a 503, asks again under the same key, and is given the task that was made the first time."""
    proxy = cast(CuttingProxy, live.to_postgres)
    key, swallowed = "lost-answer", proxy.swallowed
    while proxy.swallowed == swallowed:  # whoever commits first: until it was ours
        proxy.swallow_reply_to(b"COMMIT")
        answer = await live.asked(key)
        if answer.status == 202:
            key, swallowed = key + "'", proxy.swallowed
    assert (answer.status, answer.code) == (503, 50003)
    async with session(live) as ours:
        made = await ours.fetchval("select count(*) from idempotency_keys where key = $1", key)
    again = await live.is_taken(key)
    assert made == 1
    assert again.headers.get("idempotent-replayed") == "true"
    await live.recovers(again.body["id"])


async def test_a_deadlock_with_another_session(live: Live) -> None:
    """The attempt's transaction is the victim: rolled back whole, tried again, and its effect is there once."""
    async with session(live, deadlock_timeout="1min") as theirs:
        task_id = await live.submit(1, holdMs=1_500)

        async def inside() -> bool:
            return bool(await theirs.fetchval(_IN_ITS_TRANSACTION))

        await wait_until(cast(Any, inside), 20, "the attempt is in its transaction")
        async with theirs.transaction():
            await theirs.fetchval("select id from media_tasks where id = $1::uuid for update", task_id)
            await theirs.execute(
                "lock table chaos.effects in share mode"
            )  # waits for the attempt to give way
    history = await live.attempts(task_id)
    await live.recovers(task_id, most_attempts=2)
    assert {error["code"] for error in history} <= {"database_conflict"}
    assert [error["code"] for error in await live.attempts(task_id)] == ["database_conflict"]


async def test_transactions_that_do_not_serialize(live: Live) -> None:
    """The whole system under `repeatable read`, and another session that writes the same rows: what loses is done again."""
    worker = live.system.running["worker"]
    async with session(live) as ours, session(live) as theirs, everything_is_repeatable_read(ours):
        await live.is_taken("serializable")
        tasks = [await live.submit(100, durationMs=50, effect=False) for _ in range(2)]

        async def meddle() -> None:
            while True:
                await theirs.execute(
                    "update media_tasks set type = type where id = any($1::text[]::uuid[])", tasks
                )
                await asyncio.sleep(0.002)

        meddling = asyncio.create_task(meddle())
        try:
            await wait_until(lambda: worker.events("batch_conflicted"), 30, "a batch has lost")
        finally:
            meddling.cancel()
            await asyncio.gather(meddling, return_exceptions=True)
        cancelled = await live.submit(60, durationMs=2_000, effect=False)
        assert (await live.eyes.post(f"media-tasks/{cancelled}/cancel")).status == 200
        await live.has(tasks[0], "succeeded", 100, 60)
        await live.has(tasks[1], "succeeded", 100, 60)
        await live.has(await live.submit(1), "succeeded", 1, 60)  # with an effect, and nobody beside it
    await live.is_taken("serializable-again")
    await live.recovers(
        *tasks
    )  # several with effects: a processor's own transaction that loses costs an attempt


@asynccontextmanager
async def everything_is_repeatable_read(ours: asyncpg.Connection) -> AsyncIterator[None]:
    name = await ours.fetchval("select current_database()")
    try:
        await ours.execute(f"alter database {name} set default_transaction_isolation = 'repeatable read'")
        await begin_new_sessions(ours)
        yield
    finally:
        await ours.execute(f"alter database {name} reset default_transaction_isolation")
        await begin_new_sessions(ours)


async def begin_new_sessions(ours: asyncpg.Connection) -> None:
    """Each process of Lingxi connects anew; all that were there are gone."""
    pids = await ours.fetchval(f"select array_agg(pid) from pg_stat_activity where {OF_LINGXI}")
    await ours.execute("select pg_terminate_backend(pid) from unnest($1::int[]) as pid", pids)

    async def gone() -> bool:
        return not await ours.fetchval(
            "select count(*) from pg_stat_activity where pid = any($1::int[])", pids
        )

    await wait_until(cast(Any, gone), 30, "the old sessions have ended")


_IN_ITS_TRANSACTION = """
select exists (select from pg_locks where relation = 'chaos.effects'::regclass and mode = 'RowExclusiveLock')
"""


async def attempts_of(live: Live, task_id: str) -> set[int]:
    async with session(live) as ours:
        rows = await ours.fetch("select attempt from media_task_items where task_id = $1::uuid", task_id)
    return {row["attempt"] for row in rows}


# ── a full disk ──────────────────────────────────────────────────────────────────────────────────────────
DISK_BYTES = 64 << 20


@asynccontextmanager
async def small_disk(live_folder: Path, uid: int) -> AsyncIterator[Path | None]:
    """A file system of 64 MiB of its own, which only root may make; None: this machine does not allow it."""
    folder = live_folder / "small-disk"
    folder.mkdir(exist_ok=True)
    mounting = await asyncio.create_subprocess_exec(
        "mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},uid={uid},mode=700", "lingxi-test", folder,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    if await mounting.wait() != 0:
        yield None
        return
    try:
        yield folder
    finally:
        await (await asyncio.create_subprocess_exec("umount", "-l", folder)).wait()


@asynccontextmanager
async def full(live: Live, disk: Path | None) -> AsyncIterator[None]:
    """No block is left for the tables. Where no disk could be made, the tables answer as PostgreSQL does then."""
    async with session(live) as ours:
        if disk is None:
            await ours.execute(
                "create function full_disk() returns trigger language plpgsql as"
                " $$ begin raise exception 'No space left on device' using errcode = '53100'; end $$;"
                " create trigger full_disk before insert or update on media_tasks execute function full_disk()"
            )
            yield
            await ours.execute("drop function full_disk() cascade")
            return
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        try:
            yield
        finally:
            ballast.unlink()


async def test_the_disk_is_full(tmp_path: Path) -> None:
    """Submissions are refused whole; reading goes on; what runs waits with its result; then all is stored, each once."""
    with own_ground() as ground:
        assert ground.postgres is not None
        uid = os.stat(ground.postgres.folder / "pgdata").st_uid
        admin = await asyncpg.connect(ground.servers.database_url)
        async with small_disk(ground.postgres.folder, uid) as disk:
            async with Live.open(ground, tmp_path / "run", tablespace=disk) as live:
                at_work = await live.submit(20, durationMs=1_500)
                await live.has(at_work, "running", 20)
                async with full(live, disk):
                    await live.refuses("full", count=2_000)
                    assert (await live.eyes.get(f"media-tasks/{at_work}")).status == 200
                    assert (await live.eyes.get("health/ready")).status == 200
                await live.is_taken("full", count=2_000)
                await live.recovers(at_work, most_attempts=3)
            if disk is not None:
                await admin.execute("drop tablespace small_disk")
        await admin.close()
