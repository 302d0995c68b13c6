"""examples/node-worker: a worker in Node, with npm's bullmq and the HTTP interface. Killed, overtaken, rung twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from lingxi.broker.client import api_client
from lingxi.broker.connection import connection_factory
from lingxi.broker.heartbeat import Heartbeats
from lingxi.broker.hints import Hints
from lingxi.broker.marker import WipeMarker
from lingxi.broker.queue import BullQueue
from lingxi.domain.ids import item_id
from lingxi.maintenance.sweeper import Sweeper
from lingxi.services.tokens import create_token
from tests.integration.api.harness import Api, open_api
from tests.integration.broker.node_peer import SOURCE
from tests.support.node_packages import node_modules
from tests.support.processes import Process, Processes
from tests.support.servers import ROOT
from tests.support.waiting import wait_until, wait_until_sync
from tests.support.work import Work

EXAMPLE = ROOT / "examples" / "node-worker" / "worker.js"
StartNode = Callable[..., Process]


@pytest.fixture
async def work(pool: asyncpg.Pool[asyncpg.Record], database_url: str, redis_url: str) -> AsyncIterator[Work]:
    """A dispatcher and a sweep; no worker of ours."""
    started = await Work.begin(pool, database_url, redis_url)
    client = api_client(redis_url)
    hints, queue = Hints(client), BullQueue("demo:drill", connection_factory(redis_url), token="sweep")
    sweeper = Sweeper(pool, {"demo:drill": queue}, WipeMarker(client), hints, 0.2)
    sweeping = asyncio.create_task(sweeper.run())
    async with started.dispatching():
        yield started
    sweeper.stop()
    await sweeping
    await queue.close()
    await hints.close()
    await client.aclose()


@pytest.fixture
async def api(work: Work, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(work.database_url, work.redis_url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def token(work: Work) -> str:
    async with work.pool.acquire() as connection:
        return (await create_token(connection, workspace_id=None, role="worker", name="node"))[1]


@pytest.fixture
def start_node(work: Work, api: Api, token: str, processes: Processes) -> StartNode:
    """`start_node()`: the example as a process; its leases are short."""
    modules = str(node_modules(SOURCE, "to run the example of a worker in Node"))

    def start() -> Process:
        env = {
            "NODE_PATH": modules,
            "REDIS_URL": work.redis_url,
            "LINGXI_URL": api.url,
            "LINGXI_TOKEN": token,
            "LINGXI_TYPE": "demo:drill",
            "LEASE_SECONDS": "1",
        }
        return processes.start(["node", str(EXAMPLE)], env=env, name="node")

    return start


def said(process: Process, words: str) -> Callable[[], bool]:
    return lambda: words in process.output()


async def outcomes(work: Work, task_id: UUID) -> list[tuple[str, str]]:
    """Of each ended attempt that did not succeed: what became of it, and who ran it."""
    return [(row["outcome"], row["worker"]) for row in await work.attempts(task_id)]


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 40


async def test_it_does_the_work(work: Work, start_node: StartNode) -> None:
    node = start_node()
    task_id = await work.submit(
        {}, {"fail": "permanent"}, {"fail": "transient"}, {"durationMs": 5}, max_attempts=2
    )
    task = await work.ended(task_id, 60)
    assert (task["status"], task["failed_items"]) == ("partially_failed", 2)
    items = await work.items(task_id)
    assert items[0]["result"] == f'{{"by": "node-{node.pid}", "attempt": 1}}'
    assert [item["attempt"] for item in items] == [1, 1, 2, 1]
    assert {item["error_code"] for item in items} == {None, "drill_failed"}
    client = api_client(work.redis_url)
    ages = await Heartbeats(client).ages(["demo:drill"])
    await client.aclose()
    assert ages["demo:drill"] is not None
    await work.queue_empty()


async def test_killed_in_mid_work_another_does_it(work: Work, start_node: StartNode) -> None:
    first = start_node()
    task_id = await work.submit({"durationMs": 1500})
    await work.running(task_id)
    first.kill()
    second = start_node()
    await work.ended(task_id, 60)
    (item,) = await work.items(task_id)
    assert (item["state"], item["worker"], item["attempt"]) == ("succeeded", f"node-{second.pid}", 2)
    assert await outcomes(work, task_id) == [("lost", f"node-{first.pid}")]


async def test_overtaken_it_changes_nothing(work: Work, start_node: StartNode) -> None:
    first = start_node()
    task_id = await work.submit({"durationMs": 1500})
    await work.running(task_id)
    first.signal(signal.SIGSTOP)
    second = start_node()
    await work.ended(task_id, 60)
    (before,) = await work.items(task_id)
    first.signal(signal.SIGCONT)
    await asyncio.to_thread(wait_until_sync, said(first, "superseded"), 30, "the first is told so")
    assert said(second, "accepted succeeded")()
    assert await work.items(task_id) == [before]
    assert (before["worker"], before["attempt"]) == (f"node-{second.pid}", 2)
    await work.assert_truthful(task_id)


async def test_rung_twice_it_works_once(work: Work, start_node: StartNode) -> None:
    node = start_node()
    task_id = await work.submit({"durationMs": 1000})
    await work.running(task_id)
    job: dict[str, Any] = {"v": 1, "eventId": "0", "taskId": str(task_id), "itemId": str(item_id(task_id, 1))}
    await work.add_job("0-again", job)  # while it runs …
    await work.ended(task_id, 60)
    await work.add_job("0-later", job)  # … and when it is final
    await work.queue_empty()
    await wait_until(lambda: _acknowledged(work), message="both are acknowledged")
    assert node.output().splitlines() == [f"accepted succeeded {item_id(task_id, 1)}"]
    assert (await work.items(task_id))[0]["attempt"] == 1


async def _acknowledged(work: Work) -> bool:
    return await work.queue_lengths() == {"wait": 0, "prioritized": 0, "active": 0, "failed": 0}
