"""Lingxi as it is run: `lingxi api` (with its dispatcher) and `lingxi worker` as processes with default settings."""

import asyncio
import contextlib
import pathlib
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import asyncpg

from benchmarks.http import HttpConnection
from benchmarks.processes import Child, child
from benchmarks.servers import Servers
from lingxi.db.migrate import migrate
from lingxi.services.tokens import create_token
from lingxi.services.workspaces import create_workspace

ROOT = pathlib.Path(__file__).parent.parent
TEMPLATE = "bench_template"
QUEUE = "demo:drill"
START_SECONDS = 120.0
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Stack:
    """The running processes and how to reach the API."""

    port: int
    token: str
    api: Child
    worker: Child | None
    env: Mapping[str, str]

    async def connect(self) -> HttpConnection:
        return await HttpConnection.open(self.port, self.token)


async def prepare_template(servers: Servers) -> str:
    """Make the migrated database that all runs are copied from; the secret of an editor's token in it."""
    admin = await asyncpg.connect(servers.database_url("postgres"))
    await admin.execute(f'create database "{TEMPLATE}"')
    await admin.close()
    url = servers.database_url(TEMPLATE)
    await migrate(url)
    connection = await asyncpg.connect(url)
    workspace = await create_workspace(connection, "bench")
    assert workspace is not None
    _, secret = await create_token(connection, workspace_id=workspace.id, role="editor", name="bench")
    await connection.execute("vacuum analyze")
    await connection.close()
    return secret


@contextlib.asynccontextmanager
async def running_stack(
    servers: Servers,
    database_url: str,
    token: str,
    *,
    processes: int,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Stack]:
    """The API and, with `processes` > 0, a worker of so many processes; both ready when the block begins."""
    port = _free_port()
    data = servers.root / "lingxi"
    data.mkdir(exist_ok=True)
    env = {
        "PYTHONPATH": str(ROOT / "src"),
        "DATABASE_URL": database_url,
        "REDIS_URL": servers.redis_url,
        "STORAGE_URL": f"file://{data / 'objects'}",
        "LINGXI_DATA_DIR": str(data),
        "LINGXI_SECRET_KEY": "benchmark-" * 4,
        "LINGXI_PORT": str(port),
        "QUEUE": "demo",
        **(settings or {}),
    }
    command = [sys.executable, "-m", "lingxi"]
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(
            child([*command, "api"], env=env, log=servers.root / "api.log", talks=False)
        )
        worker = None
        if processes:
            argv = [*command, "worker", "--processes", str(processes)]
            (servers.root / "worker.log").unlink(missing_ok=True)
            worker = await stack.enter_async_context(
                child(argv, env=env, log=servers.root / "worker.log", talks=False)
            )
        running = Stack(port, token, api, worker, env)
        await _until_ready(running, processes)
        yield running


async def _until_ready(stack: Stack, processes: int) -> None:
    """The API answers, and the queue has a heartbeat when there is to be a worker."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        for process in filter(None, (stack.api, stack.worker)):
            if process.process.returncode is not None:
                raise RuntimeError(f"Lingxi ended early: {process.log.read_text(errors='replace')[-2000:]}")
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if await _is_ready(stack, processes):
                return
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"Lingxi was not ready in time: {stack.api.log.read_text(errors='replace')[-2000:]}"
            )
        await asyncio.sleep(POLL_SECONDS)


async def _is_ready(stack: Stack, processes: int) -> bool:
    http = await HttpConnection.open(stack.port)
    try:
        if (await http.get("/api/v1/health/ready")).status != 200:
            return False
        if stack.worker is None:
            return True
        if stack.worker.log.read_bytes().count(b'"worker_started"') < processes:
            return False  # the queue's heartbeat would tell of the first of them only
        queues = (await http.get("/api/v1/health/queues")).json()["queues"]
        return any(one["queue"] == QUEUE and one["heartbeat"]["state"] == "fresh" for one in queues)
    finally:
        http.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
