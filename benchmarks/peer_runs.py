"""The peers of `items`, and one measured run of each: prepare, start workers, say go, wait for the last job."""

import asyncio
import contextlib
import json
import pathlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import asyncpg

from benchmarks.machine import cpu_seconds
from benchmarks.processes import child
from benchmarks.servers import Servers, fresh_database
from benchmarks.stats import Run

PEERS = pathlib.Path(__file__).parent / "peers"
BATCH = 1_000
POLL_SECONDS = 0.02
LIMIT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Peer:
    """How a peer is run, and the SQL that tells the truth about its jobs.

    `finished_sql` is true once all $1 jobs are final (cheap: it is asked 50 times a second); `succeeded_sql` counts the
    jobs that succeeded and is asked once, after the clock has stopped.
    """

    name: str
    script: str
    items: int
    finished_sql: str
    succeeded_sql: str
    note: str
    workers: int = 2
    tuning: Mapping[str, str] = field(default_factory=dict)


CELERY_DONE = "(select count(*) from celery_taskmeta where status = 'SUCCESS')"
PGQUEUER_DONE = "(select count(*) from pgqueuer_log where status = 'successful')"
PROCRASTINATE_DONE = "(select count(*) from procrastinate_jobs where status = 'succeeded')"


def peers(items: int) -> list[Peer]:
    """The field. The two slow ones run 15 % of the items and are compared by their rate.

    That is to their advantage: their tables stay small.
    """
    few = max(items * 3 // 20, 1)
    return [
        Peer(
            name="procrastinate",
            script="procrastinate_peer.py",
            items=few,
            finished_sql=f"select {PROCRASTINATE_DONE} >= $1",
            succeeded_sql=f"select {PROCRASTINATE_DONE}",
            note="2 workers, concurrency 20, LISTEN/NOTIFY, jobs kept, deferred 1,000 at a time",
            tuning={"BENCH_CONCURRENCY": "20"},
        ),
        Peer(
            name="celery",
            script="celery_peer.py",
            items=few,
            finished_sql=f"select {CELERY_DONE} >= $1",
            succeeded_sql=f"select {CELERY_DONE}",
            note="prefork with 2 processes, prefetch 64, broker Valkey, results in PostgreSQL (SQLAlchemy, psycopg)",
            workers=1,
        ),
        *(
            Peer(
                name=f"pgqueuer-{batch}",
                script="pgqueuer_peer.py",
                items=items,
                finished_sql="select not exists (select from pgqueuer)",
                succeeded_sql=f"select {PGQUEUER_DONE}",
                note=f"2 workers, batch {batch}, asyncpg and uvloop, durable tables, its log kept",
                tuning={"BENCH_BATCH": str(batch)},
            )
            for batch in (10, 100)
        ),
    ]


async def run_peer(servers: Servers, python: str, peer: Peer) -> Run:
    """One run on a fresh database. RuntimeError when not every job succeeded exactly once."""
    async with fresh_database(servers, "bench_peer") as database_url, contextlib.AsyncExitStack() as stack:
        argv = [python, str(PEERS / peer.script)]
        env = {"BENCH_DATABASE_URL": database_url, "BENCH_REDIS_URL": servers.redis_url, **peer.tuning}
        log = servers.root / f"{peer.name}.log"
        async with child([*argv, "prepare"], env=env, log=log) as prepare:
            if await prepare.process.wait() != 0:
                raise RuntimeError(f"{peer.name} could not prepare: {log.read_text()[-2000:]}")
        workers = [
            await stack.enter_async_context(child([*argv, "worker"], env=env, log=log))
            for _ in range(peer.workers)
        ]
        for worker in workers:
            await worker.wait_ready()
        submitter = await stack.enter_async_context(
            child([*argv, "submit", str(peer.items), str(BATCH)], env=env, log=log)
        )
        await submitter.wait_ready()
        connection = await asyncpg.connect(database_url)
        stack.push_async_callback(connection.close)
        groups = {
            "workers": [worker.pid for worker in workers],
            "submitter": [submitter.pid],
            "postgres": [servers.postgres_pid],
            "valkey": [servers.valkey_pid],
        }
        before = {name: cpu_seconds(pids) for name, pids in groups.items()}
        submitter.say("go")
        submitted = json.loads(await submitter.line(LIMIT_SECONDS))
        await _until_finished(connection, peer)
        seconds = time.monotonic() - submitted["startedAt"]
        after = {name: cpu_seconds(pids) for name, pids in groups.items()}
        succeeded = await connection.fetchval(peer.succeeded_sql)
        if succeeded != peer.items:
            raise RuntimeError(f"{peer.name}: {succeeded} of {peer.items} jobs succeeded")
        return Run(
            items_per_second=peer.items / seconds,
            submit_seconds=submitted["submittedAt"] - submitted["startedAt"],
            cpu_microseconds={
                name: round((after[name] - before[name]) / peer.items * 1e6, 1) for name in groups
            },
        )


async def _until_finished(connection: asyncpg.Connection, peer: Peer) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    arguments = [peer.items] if "$1" in peer.finished_sql else []
    while not await connection.fetchval(peer.finished_sql, *arguments):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{peer.name} did not finish within {LIMIT_SECONDS:.0f} s")
        await asyncio.sleep(POLL_SECONDS)
