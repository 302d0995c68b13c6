"""A dump that was taken while it worked, restored on a fresh server by the page's commands.

Whatever Redis holds then, nothing is lost and nothing is done twice.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import redis

from lingxi.embedded import EmbeddedPostgres
from lingxi.embedded.supervise import free_port
from tests.deploying.conftest import new_token, running, settings
from tests.deploying.page import follow
from tests.support.least_rights import PASSWORD
from tests.support.processes import Processes, run_lingxi
from tests.support.programs import need_program
from tests.support.secured import newest_debian_postgres
from tests.support.servers import OwnServer, new_valkey
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(400)  # several processes start, one after another

EFFECT = {"effect": True}
LIVELY = {
    "LEASE_SECONDS": "3",
    "LEASE_RENEW_SECONDS": "1",
    "SWEEP_INTERVAL_SECONDS": "1",
    "OUTBOX_DISPATCH_INTERVAL_MS": "100",
    "LINGXI_CONCURRENCY": "demo:drill=4",
    "LINGXI_QUEUES": "demo",
}
TASKS: dict[str, list[dict[str, Any]]] = {
    "done": [EFFECT] * 20,
    "running": [{**EFFECT, "durationMs": 2500}] * 3,
    "retrying": [{**EFFECT, "fail": "transient", "failTimes": 1}] * 3,
    "waiting": [{**EFFECT, "durationMs": 20}] * 40,
}


@dataclass(frozen=True, slots=True)
class Server:
    """A PostgreSQL as the page sets it up. Addresses of its administrator, the schema's owner, the application."""

    admin: str
    owner: str
    app: str


@contextmanager
def fresh_server(folder: Path) -> Iterator[Server]:
    """The distribution's, with the two roles and the empty database that `roles` makes."""
    need_program("pg_restore", "to restore a dump")
    with EmbeddedPostgres(folder, fast=True, binaries=newest_debian_postgres()) as started:
        admin, place = started.url_of("postgres"), f"127.0.0.1:{started.port}/lingxi"
        passwords = [f"alter role {role} password '{PASSWORD}'" for role in ("lingxi_owner", "lingxi_app")]
        subprocess.run(["psql", "-qc", "drop database lingxi", admin], check=True)  # the launcher's own
        follow("roles", folder / "work", without="password", POSTGRES_ADMIN_URL=admin)
        subprocess.run(["psql", "-qc", "; ".join(passwords), admin], check=True)
        owner, app = (f"postgresql://lingxi_{role}:{PASSWORD}@{place}" for role in ("owner", "app"))
        yield Server(admin, owner, app)


@dataclass(frozen=True, slots=True)
class Backup:
    """What was there when the dump was taken, and the Redis of the deployment that went on after it."""

    dump: Path
    redis: OwnServer
    objects: str
    token: str
    tasks: dict[str, str]
    later: str


async def submit(client: httpx.AsyncClient, name: str, inputs: list[dict[str, Any]]) -> httpx.Response:
    body = {"type": "demo:drill", "metadata": {"name": name}, "items": [{"input": one} for one in inputs]}
    return await client.post(
        "/media-tasks", json=body, headers={"Idempotency-Key": f"the task {name}".replace(" ", "-")}
    )


async def until_ended(client: httpx.AsyncClient, tasks: list[str]) -> None:
    async def ended() -> bool:
        return [(await client.get(f"/media-tasks/{task}")).json()["status"] for task in tasks] == [
            "succeeded"
        ] * len(tasks)

    await wait_until(ended, 60)


def client_of(env: dict[str, str], token: str) -> httpx.AsyncClient:
    url = f"http://127.0.0.1:{env['LINGXI_PORT']}/api/v1"
    return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"})


def environment_of(server: Server, valkey: OwnServer, folder: Path) -> dict[str, str]:
    return settings(server.app, valkey.url, folder, LINGXI_PORT=str(free_port()), **LIVELY)


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backup]:
    """A deployment that is dumped in the middle of its work, finishes it, does more, and is stopped."""
    folder = tmp_path_factory.mktemp("backup")
    with new_valkey(folder / "valkey") as valkey, fresh_server(folder / "postgres") as server:
        yield asyncio.run(_back_up(folder, server, OwnServer(valkey)))


async def _back_up(folder: Path, server: Server, valkey: OwnServer) -> Backup:
    follow("schema", folder, DATABASE_OWNER_URL=server.owner)
    env = environment_of(server, valkey, folder)
    token, processes = new_token(env), Processes(folder)
    try:
        async with running(processes, env, "api", "worker"), client_of(env, token) as client:
            tasks = {}
            for name, inputs in TASKS.items():
                tasks[name] = str((await submit(client, name, inputs)).json()["id"])
                if name == "done":
                    await until_ended(client, [tasks[name]])
            connection = await asyncpg.connect(server.admin.rpartition("/")[0] + "/lingxi")

            async def in_the_middle() -> bool:
                states = await connection.fetch("select distinct state from media_task_items")
                return {row["state"] for row in states} >= {"queued", "running", "succeeded"}

            await wait_until(in_the_middle, 30)
            await connection.close()
            await asyncio.to_thread(follow, "backup", folder, DATABASE_OWNER_URL=server.owner)
            later = str((await submit(client, "later", [EFFECT])).json()["id"])
            await until_ended(client, [*tasks.values(), later])
    finally:
        processes.close()
    return Backup(folder / "lingxi.dump", valkey, env["STORAGE_URL"], token, tasks, later)


@pytest.fixture(params=["newer", pytest.param("empty", marks=pytest.mark.slow)])
async def restored(
    request: pytest.FixtureRequest, backup: Backup, tmp_path: Path
) -> AsyncIterator[tuple[Server, dict[str, str]]]:
    """The dump on a fresh server, beside the Redis that knows what came after, or beside one that knows nothing."""
    if request.param == "empty":
        with redis.Redis.from_url(backup.redis.url) as client:
            client.flushall()
    with fresh_server(tmp_path / "postgres") as server:
        env = environment_of(server, backup.redis, tmp_path) | {"STORAGE_URL": backup.objects}
        (tmp_path / "lingxi.dump").symlink_to(backup.dump)
        follow("restore", tmp_path, DATABASE_OWNER_URL=server.owner, **env)
        yield server, env


async def test_a_restored_deployment_ends_everything_once(
    backup: Backup, restored: tuple[Server, dict[str, str]], processes: Processes
) -> None:
    server, env = restored
    connection = await asyncpg.connect(server.owner)
    states = {row[0] for row in await connection.fetch("select distinct state from media_task_items")}
    assert states >= {"queued", "running", "succeeded"}  # else the dump was taken too early or too late
    finished = (
        "select task_id, position, attempt_id, finished_at from media_task_items where state = 'succeeded'"
    )
    before = {tuple(row) for row in await connection.fetch(finished)}
    async with running(processes, env, "api", "worker"), client_of(env, backup.token) as client:
        await until_ended(client, list(backup.tasks.values()))
        items = sum(map(len, TASKS.values()))
        assert await connection.fetchval("select count(*) from drill_effects") == items
        after = {tuple(row) for row in await connection.fetch(finished)}
        assert len(before) >= len(TASKS["done"]) and before < after and len(after) == items
        assert (await client.get(f"/media-tasks/{backup.later}")).status_code == 404
        again = await submit(client, "waiting", TASKS["waiting"])
        assert again.headers["Idempotent-Replayed"] == "true"
        assert again.json()["id"] == backup.tasks["waiting"]
        with redis.Redis.from_url(backup.redis.url) as queue:
            await wait_until(
                lambda: (
                    not queue.exists(
                        "bull:demo-drill:wait", "bull:demo-drill:active", "bull:demo-drill:prioritized"
                    )
                ),
                20,
            )
    await connection.close()
    held = run_lingxi("invariants", env=env)
    assert held.returncode == 0, held.stdout
