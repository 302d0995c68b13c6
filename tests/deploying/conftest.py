"""Deployments on servers of the tests: processes of the product, with the least rights, and a token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from lingxi.embedded.supervise import free_port
from tests.support.databases import create_database, drop_database
from tests.support.processes import Process, Processes, run_lingxi
from tests.support.servers import Servers

SECRET = "a secret of the tests that is long enough to sign with"
MAX_BODY_BYTES = 100_000  # a refused body of this size fits into sockets, so that its sender reads the answer


@dataclass(frozen=True, slots=True)
class Deployed:
    """An API that runs; `database_url` and `redis_url` are the administrators'."""

    api: Process
    processes: Processes
    database_url: str
    redis_url: str
    url: str
    token: str
    env: dict[str, str]


def new_token(env: dict[str, str], role: str = "admin") -> str:
    """Of the workspace `studio`, which is made if it is missing."""
    run_lingxi("workspace", "create", "studio", env=env)
    run = run_lingxi("token", "create", "--workspace", "studio", "--role", role, "--json", env=env)
    assert run.returncode == 0, run.stderr
    token: str = json.loads(run.stdout.splitlines()[-1])["token"]
    return token


def settings(database_url: str, redis_url: str, folder: Path, **more: str) -> dict[str, str]:
    """The environment of all processes of a deployment."""
    return {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "LINGXI_DATA_DIR": str(folder / "data"),
        "STORAGE_URL": f"file://{folder}/objects",
        "LINGXI_SECRET_KEY": SECRET,
        **more,
    }


@contextmanager
def fresh_database(servers: Servers, template: str, worker: str) -> Iterator[str]:
    """A migrated database whose rights are given."""
    url = asyncio.run(create_database(servers, worker, template))
    try:
        yield url
    finally:
        asyncio.run(drop_database(servers, url))


@pytest.fixture(scope="module")
def deployed(
    servers: Servers, template: str, worker_name: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    """An API without workers for the tests of a module. It believes proxies at 127.0.0.1 to 127.0.0.7."""
    folder = tmp_path_factory.mktemp("deployed")
    with redis.Redis.from_url(servers.redis_url) as client:
        client.flushdb()
    with fresh_database(servers, template, worker_name) as database_url:
        port = free_port()
        env = settings(
            database_url,
            servers.redis_url,
            folder,
            LINGXI_PORT=str(port),
            LINGXI_TRUSTED_PROXIES="127.0.0.0/29",
            SHARE_EXCHANGES_PER_MINUTE="3",
            MAX_BODY_BYTES=str(MAX_BODY_BYTES),
        )
        started = Processes(folder)
        try:
            api = started.lingxi("api", env=env)
            api.wait_for_log("api_started", 60)
            yield Deployed(
                api, started, database_url, servers.redis_url, f"http://127.0.0.1:{port}", new_token(env), env
            )
            assert api.stop() == 0
            started.assert_clean_logs()
        finally:
            started.close()


@asynccontextmanager
async def running(processes: Processes, env: dict[str, str], *commands: str) -> AsyncIterator[list[Process]]:
    """`lingxi api`, `lingxi worker` … until the block ends; stopped in order, they end well."""
    started = [processes.lingxi(command, env=env) for command in commands]
    for process, command in zip(started, commands, strict=True):
        await asyncio.to_thread(process.wait_for_log, f"{command}_started", 60)
    yield started
    for process in started:
        assert await asyncio.to_thread(process.stop) == 0
