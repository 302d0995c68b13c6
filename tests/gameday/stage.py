"""A deployment to be harmed: an API, workers of two groups, PostgreSQL and Redis, each a service that `systemctl` knows."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import httpx
import redis.asyncio

from lingxi.services.tokens import create_token
from lingxi.services.workspaces import create_workspace
from tests.chaos.ground import Ground, free_port
from tests.support.databases import create_database, drop_database, make_template
from tests.support.processes import Process, environment
from tests.support.programs import cannot
from tests.support.servers import OwnServer

DISK_BYTES = 64 << 20
SETTINGS = {
    "LINGXI_QUEUES": "demo:drill,media:verify,media:probe",
    "LINGXI_TESTING": "1",
    "LINGXI_SECRET_KEY": "gameday-" * 8,
    "LINGXI_CONCURRENCY": "demo:drill=4",
    "HEARTBEAT_SECONDS": "1",
    "SWEEP_INTERVAL_SECONDS": "2",
    "GRACE_SECONDS": "2",
    "DATABASE_POOL_SIZE": "8",
}
_SYSTEMCTL = """#!{python}
import socket, sys
with socket.socket(socket.AF_UNIX) as door:
    door.connect({door!r})
    door.sendall(" ".join(sys.argv[1:3]).encode() + b"\\n")
    answer = door.makefile().read()
sys.exit(0 if answer == "done" else answer)
"""


@dataclass
class Stage:
    """`disk` is the mounted storage. `failpoints`: what a worker's group is started with."""

    folder: Path
    ground: Ground
    database_url: str
    token: str
    workspace_id: UUID
    album_id: UUID
    canary_seconds: float
    port: int = field(default_factory=free_port)
    running: dict[str, Process] = field(default_factory=dict)
    failpoints: dict[str, str] = field(default_factory=dict)
    started: list[Process] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    def environment(self, **more: str) -> dict[str, str]:
        """Of whoever types a command on this machine: `systemctl` and `lingxi` are in the PATH."""
        variables = {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.ground.servers.redis_url,
            "LINGXI_DATA_DIR": str(self.folder / "data"),
            "STORAGE_URL": self.disk.as_uri(),
            "STORAGE": str(self.disk),
            "LINGXI_PORT": str(self.port),
            "LINGXI_URL": self.url,
            "LINGXI_TOKEN": self.token,
            "URL": self.url,
            "CANARY_INTERVAL_SECONDS": str(self.canary_seconds),
            "LINGXI_FAILPOINTS_DIR": str(self.folder),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
        }
        return environment(**SETTINGS, **variables) | more

    # ── services ─────────────────────────────────────────────────────────────────────────────────────────
    def start(self, unit: str) -> None:
        """Start a service that does not run."""
        match unit:
            case "postgresql":
                _own(self.ground.postgres).start()
            case "valkey":
                _own(self.ground.valkey).start()
            case "lingxi-api":
                self._run(unit, "api")
            case _:
                group = unit.removeprefix("lingxi-worker@").partition("-")[0]
                points = {"LINGXI_FAILPOINTS": self.failpoints[unit]} if unit in self.failpoints else {}
                self._run(unit, "worker", QUEUE=group, **points)

    async def stop(self, unit: str) -> None:
        """Stop it in order, as far as it does."""
        match unit:
            case "postgresql":
                _own(self.ground.postgres).stop()
            case "valkey":
                _own(self.ground.valkey).stop()
            case _:
                process = self.running.pop(unit)
                await asyncio.to_thread(process.stop)

    def _run(self, unit: str, role: str, **settings: str) -> None:
        label = f"{len(self.started) + 1:02}-{unit.replace('@', '-')}"
        process = Process(
            [sys.executable, "-m", "lingxi", role], self.environment(**settings), self.folder, label
        )
        self.started.append(process)
        self.running[unit] = process

    async def obey(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What our `systemctl` asks for. Servers are started on this thread, since they end with the one that started them."""
        verb, _, unit = (await reader.readline()).decode().strip().partition(" ")
        try:
            if verb not in ("start", "stop", "restart"):
                raise ValueError(f"there is no {verb}")
            if verb == "stop" or (verb == "restart" and self._runs(unit)):
                await self.stop(unit)
            if verb != "stop":
                self.start(unit)
            writer.write(b"done")
        except Exception as error:
            writer.write(f"{verb} {unit}: {error!r}".encode())
        finally:
            writer.close()

    def _runs(self, unit: str) -> bool:
        match unit:
            case "postgresql" | "valkey":
                server = self.ground.postgres if unit == "postgresql" else self.ground.valkey
                return _own(server)._server.pid is not None
            case _:
                return unit in self.running

    def install(self, door: Path) -> None:
        """`systemctl` and `lingxi`, for whoever types."""
        bin_folder = self.folder / "bin"
        bin_folder.mkdir(exist_ok=True)
        programs = {
            "systemctl": _SYSTEMCTL.format(python=sys.executable, door=str(door)),
            "lingxi": f'#!/bin/sh\nexec {sys.executable} -m lingxi "$@"\n',
        }
        for name, text in programs.items():
            (bin_folder / name).write_text(text)
            (bin_folder / name).chmod(stat.S_IRWXU)

    async def up(self) -> None:
        """Until the API is ready."""
        async with httpx.AsyncClient(timeout=5) as client, asyncio.timeout(120):
            while True:
                try:
                    if (await client.get(f"{self.url}/api/v1/health/ready")).status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.1)


def _own(server: OwnServer | None) -> OwnServer:
    assert server is not None, "the game day needs servers of its own"
    return server


@contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """A small disk of its own at `folder`."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "lingxi-gameday", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        cannot(f"a disk of its own has to be mounted for the game day: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


@asynccontextmanager
async def open_stage(
    ground: Ground, folder: Path, *, canary_seconds: float, disk: bool = True
) -> AsyncIterator[Stage]:
    """All services up on a fresh database and an empty Redis; ended at the end. `disk`: the storage has one of its own."""
    url = await create_database(ground.servers, f"gameday{os.getpid()}", await make_template(ground.servers))
    try:
        async with redis.asyncio.from_url(ground.servers.redis_url) as client:
            await client.flushall()
        connection = await asyncpg.connect(url)
        workspace = await create_workspace(connection, "gameday")
        assert workspace is not None
        _, token = await create_token(connection, workspace_id=workspace.id, role="editor", name="gameday")
        album = uuid4()
        await connection.execute(
            "insert into albums (id, workspace_id, name) values ($1, $2, 'gameday')", album, workspace.id
        )
        await connection.close()
        with mounted(folder / "disk") if disk else nullcontext():
            stage = Stage(folder, ground, url, token, workspace.id, album, canary_seconds)
            door = folder / "door"
            server = await asyncio.start_unix_server(stage.obey, door)
            try:
                stage.install(door)
                for unit in ("lingxi-api", "lingxi-worker@demo", "lingxi-worker@media"):
                    stage.start(unit)
                await stage.up()
                yield stage
            finally:
                server.close()
                for process in stage.started:
                    process.kill_group()
    finally:
        await drop_database(ground.servers, url)
