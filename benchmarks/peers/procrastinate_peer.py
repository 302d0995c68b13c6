"""Procrastinate: one asynchronous worker a process, woken by LISTEN/NOTIFY, finished jobs kept (its defaults).

Tuned: jobs are submitted in batches (`batch_defer_async`), the pool fits the concurrency, its logger is quiet.
"""

import asyncio
import logging

import procrastinate
from protocol import PAYLOAD, database_url, dispatch, ready, report, setting, wait_for_go

CONCURRENCY = setting("concurrency", 20)

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(
        conninfo=database_url(), min_size=4, max_size=min(CONCURRENCY, 10) + 3
    )
)


@app.task(name="noop", queue="bench")
async def noop(**_input: object) -> None:
    """Nothing: what is measured is the way there and back."""


def prepare() -> None:
    async def run() -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    asyncio.run(run())


def worker() -> None:
    async def run() -> None:
        async with app.open_async():
            ready()
            await app.run_worker_async(queues=["bench"], concurrency=CONCURRENCY)

    asyncio.run(run())


def submit(count: int, batch: int) -> None:
    async def run() -> None:
        async with app.open_async():
            started_at = wait_for_go()
            for first in range(0, count, batch):
                size = min(batch, count - first)
                await noop.batch_defer_async(*[PAYLOAD] * size)
            report(started_at)

    asyncio.run(run())


if __name__ == "__main__":
    logging.disable(logging.INFO)
    dispatch(prepare, worker, submit)
