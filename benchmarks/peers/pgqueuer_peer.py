"""PgQueuer: one queue manager a process over asyncpg and uvloop, durable tables, finished jobs kept in its log.

`BENCH_BATCH` is the batch size: 10 is its default, 100 what it recommends for short jobs.
"""

import asyncio
import json
import logging
import signal

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.domain.models import Job
from pgqueuer.queries import Queries
from protocol import PAYLOAD, database_url, dispatch, ready, report, setting, wait_for_go

BATCH = setting("batch", 10)


async def connected() -> asyncpg.Connection:
    return await asyncpg.connect(database_url())


def prepare() -> None:
    async def run() -> None:
        queries = Queries.from_asyncpg_connection(await connected())
        await queries.install()

    uvloop.run(run())


def worker() -> None:
    async def run() -> None:
        queuer = PgQueuer.from_asyncpg_connection(await connected())

        @queuer.entrypoint("noop")
        async def noop(_job: Job) -> None:
            """Nothing: what is measured is the way there and back."""

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
        ready()
        await queuer.run(batch_size=BATCH)

    uvloop.run(run())


def submit(count: int, batch: int) -> None:
    payload = json.dumps(PAYLOAD).encode()

    async def run() -> None:
        queries = Queries.from_asyncpg_connection(await connected())
        started_at = wait_for_go()
        for first in range(0, count, batch):
            size = min(batch, count - first)
            await queries.enqueue(["noop"] * size, [payload] * size, [0] * size)
        report(started_at)

    uvloop.run(run())


if __name__ == "__main__":
    logging.disable(logging.INFO)
    dispatch(prepare, worker, submit)
