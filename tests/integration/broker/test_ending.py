"""A loop that survives outages may take its cancellation for one."""

from __future__ import annotations

import asyncio

from lingxi.broker.ending import end_tasks


async def test_a_task_that_lost_its_cancellation_ends_all_the_same() -> None:
    lost = 0

    async def loop() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if lost:
                    raise
                lost += 1  # as a client does that was closing its connection

    async def fails() -> None:
        raise ValueError

    task, failed = asyncio.create_task(loop()), asyncio.create_task(fails())
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await end_tasks(task, failed)
    assert lost == 1 and task.cancelled() and failed.done()
