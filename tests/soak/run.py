"""A deployment under a light load for some minutes, looked at every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import redis.asyncio

from lingxi.client import Client
from tests.chaos.ground import own_ground
from tests.gameday.load import Load
from tests.gameday.stage import Stage, open_stage
from tests.soak.watch import MEGABYTE, Growth, Held, files_growth, growth, held_by, memory_growth

LOOK_SECONDS = 2.0
WARM_UP_PART = 0.3  # imports, pools and caches fill in the beginning


async def soak(folder: Path, minutes: float, say: Callable[[str], None]) -> dict[str, Any]:
    """The figures; `ok` when no condition of an alert was seen, nothing grew, and no request was refused."""
    folder.mkdir(parents=True)
    with own_ground() as ground:
        async with open_stage(ground, folder, canary_seconds=5, disk=False) as stage:
            load = Load(stage.url, stage.token)
            working = asyncio.create_task(load.run())
            try:
                await _heard(stage)
                return await _watch(stage, load, minutes, say)
            finally:
                working.cancel()
                await asyncio.wait([working])
                await load.client.aclose()


async def _heard(stage: Stage) -> None:
    """Until nothing would page any more: workers were heard."""
    async with Client(stage.url, None) as client, asyncio.timeout(120):
        while (await client.status()).hints():
            await asyncio.sleep(0.5)


async def _watch(stage: Stage, load: Load, minutes: float, say: Callable[[str], None]) -> dict[str, Any]:
    held: dict[str, list[Held]] = {unit: [] for unit in stage.running}
    postgres, valkey, alerts = [], [], set[str]()
    began, told = time.monotonic(), 0
    database = await asyncpg.connect(stage.database_url)
    async with (
        Client(stage.url, None) as client,
        redis.asyncio.from_url(stage.ground.servers.redis_url) as broker,
    ):
        while (passed := time.monotonic() - began) < minutes * 60:
            alerts |= {alert for alert, _ in (await client.status()).hints()}
            if passed > minutes * 60 * WARM_UP_PART:
                for unit, process in stage.running.items():
                    held[unit].append(held_by(process.pid))
                query = "select count(*) from pg_stat_activity where datname = current_database()"
                postgres.append(await database.fetchval(query))
                valkey.append((await broker.info("clients"))["connected_clients"])
            if passed // 60 > told:
                told = int(passed // 60)
                say(
                    f"{told} min: {load.submitted} items, would page: {', '.join(sorted(alerts)) or 'nothing'}"
                )
            await asyncio.sleep(LOOK_SECONDS)
    await database.close()
    memory, files = memory_growth(held), files_growth(held)
    connections = {"postgresql": growth(postgres, part=0, more=4), "redis": growth(valkey, part=0, more=4)}
    judged: list[Growth] = [*memory.values(), *files.values(), *connections.values()]
    return {
        "ok": not alerts and not load.refused and all(one.ok for one in judged),
        "minutes": minutes,
        "items": load.submitted,
        "refused": load.refused,
        "alerts": sorted(alerts),
        "memoryMB": {name: one.as_json(MEGABYTE) for name, one in memory.items()},
        "files": {name: one.as_json() for name, one in files.items()},
        "connections": {name: one.as_json() for name, one in connections.items()},
    }
