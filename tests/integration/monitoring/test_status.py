"""`lingxi status`: how a deployment is, and what would page; and when a task will have ended."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, cast
from uuid import UUID

import httpx

from lingxi.cli.status import screen
from lingxi.client import Client
from lingxi.client.status import RULES, Status, read_metrics
from tests.integration.api.conftest import api, editor, world
from tests.integration.api.harness import Api, World, batch
from tests.support.processes import run_lingxi
from tests.support.waiting import wait_until
from tests.support.work import Work, drills

__all__ = ["api", "editor", "world"]
ALERTS = "".join(
    path.read_text("utf-8")
    for path in (Path(__file__).resolve().parents[3] / "infra/monitoring").glob("*-alerts.yml")
)


async def test_a_deployment_without_workers_says_what_would_page(api: Api, editor: httpx.AsyncClient) -> None:
    await editor.post("media-tasks", json=batch(3))

    async def looked() -> CompletedProcess[str] | None:
        """On a busy machine a server may be too slow for one look."""
        said = await asyncio.to_thread(run_lingxi, "status", "--once", "--url", api.url, env={})
        return None if "does not answer" in said.stdout else said

    said = cast(CompletedProcess[str], await wait_until(looked, 60, "both servers answer"))
    assert said.returncode == 1
    assert "demo:drill: no worker is heard  → runbook: LingxiWorkerHeartbeatMissing" in said.stdout
    assert "no dispatcher is at work" in said.stdout
    assert re.search(r"^demo:drill +missing +0 ", said.stdout, re.MULTILINE)
    assert "outbox: 1 pending, 0 dead letters" in said.stdout
    found = await asyncio.to_thread(run_lingxi, "status", "--json", "--url", api.url, env={})
    told = json.loads(found.stdout)
    assert told["ok"] is False and told["outbox"]["dispatcherHeld"] is False
    assert len(said.stdout.splitlines()) < 40, "one screen"


async def test_servers_that_are_away_are_a_part_of_the_answer(api: Api) -> None:
    await api.deps.redis.aclose()
    await api.deps.redis.connection_pool.disconnect()
    api.deps.redis.connection_pool.connection_kwargs["port"] = 1
    async with Client(api.url, None) as client:
        found = await client.status()
    assert ("LingxiRedisDown", "Redis does not answer") in found.hints()
    assert any("cannot be told" in line for line in screen(found))


def test_each_hint_is_an_alert_with_the_number_of_its_rule() -> None:
    text = 'lingxi_queue_oldest_waiting_seconds{queue="a"} %s\nlingxi_dispatcher_held 1\n'
    assert Status({}, read_metrics(text % 600)).hints() == []
    assert Status({}, read_metrics(text % 601)).hints() == [("LingxiQueueBacklog", "a: work waits too long")]
    for alert, _, _ in RULES:
        assert f"alert: {alert}\n" in ALERTS
    for number in (600, 0.05, 60, 180, 120, 0.1):
        assert re.search(rf"[<>] {re.escape(str(number))}\b", ALERTS), number


async def test_a_task_says_when_it_will_have_ended(
    api: Api, editor: httpx.AsyncClient, world: World, pool: Any, database_url: str, redis_url: str
) -> None:
    work = Work(pool, database_url, redis_url, world.ours.workspace_id)
    task = await work.submit(*drills(60, durationMs=150))
    path = f"media-tasks/{task}"
    assert "eta" not in (await editor.get(path)).json()
    assert (await editor.get(f"{path}?eta=true")).json()["eta"] is None, "nothing was measured yet"
    async with work.dispatching(), work.worker(concurrency={"demo:drill": 2}):

        async def told() -> Any:
            return (await editor.get(f"{path}?eta=true")).json()["eta"]

        eta = await wait_until(told, 20, "something was measured")
        assert 0 < eta["lowSeconds"] < eta["seconds"] < eta["highSeconds"]
        assert eta["seconds"] < 120
        await work.ended(UUID(str(task)), 40)
    assert (await editor.get(f"{path}?eta=true")).json()["eta"] is None


async def test_a_task_that_waits_is_told_by_its_queue(
    api: Api, editor: httpx.AsyncClient, world: World, pool: Any, redis_url: str
) -> None:
    first = (await editor.post("media-tasks", json=batch(30))).json()["id"]
    second = (await editor.post("media-tasks", json=batch(30))).json()["id"]
    seconds, _ = await api.deps.redis.time()
    for minute in (1, 2, 3):
        key = f"lingxi:finished:demo:drill:{seconds // 60 - minute}"
        await api.deps.redis.hset(key, mapping={"completed": "50", "failed": "10"})
    told = [(await editor.get(f"media-tasks/{one}?eta=true")).json()["eta"] for one in (first, second)]
    assert [one["itemsPerSecond"] for one in told] == [1.0, 1.0]
    assert [one["seconds"] for one in told] == [30.0, 60.0], "behind what came before"
