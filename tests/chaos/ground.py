"""Servers of one run, and systems on them: the API, a dispatcher and workers as processes, found and ended by their ids."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import asyncpg
import redis.asyncio

from lingxi.embedded import FolderInUse
from lingxi.names import DISPATCH_LOCK_KEY
from lingxi.services.tokens import create_token
from lingxi.services.workspaces import create_workspace
from tests.chaos.processors import LEDGER_VARIABLE
from tests.support.databases import create_database, drop_database, make_template
from tests.support.processes import Process, environment
from tests.support.servers import ROOT, OwnServer, Servers, new_postgres, new_valkey, start_or_renew

FOLDER = ROOT / ".lingxi" / "chaos"
START_SECONDS = 120.0
ROLES = ("dispatcher", "api", "worker")
_SLOTS = 8

SETTINGS = {
    "LINGXI_PROCESSORS": "tests.chaos.processors",
    "QUEUE": "chaos,photo",
    "LINGXI_TESTING": "1",
    "LINGXI_SECRET_KEY": "chaos-" * 8,
    "LINGXI_CONCURRENCY": "photo:process=2",
    "LEASE_SECONDS": "4",
    "LEASE_RENEW_SECONDS": "1",
    "HEARTBEAT_SECONDS": "1",
    "SWEEP_INTERVAL_SECONDS": "1",
    "GRACE_SECONDS": "5",
    "COLLECT_INTERVAL_SECONDS": "1",
    "CANARY_INTERVAL_SECONDS": "1",
    "ORPHAN_SCAN_SECONDS": "1",
    "OUTBOX_DISPATCH_INTERVAL_MS": "250",
    "STREAM_HEARTBEAT_SECONDS": "2",
    "LOG_LEVEL": "info",
}
"""Short times, so that what is lost is found while one waits. An orphan is one after the usual week."""

LEDGER = """
create schema chaos;
create table chaos.effects (
    task_id uuid not null, position int not null, attempt_id bigint not null, at timestamptz not null default now()
);
"""


@dataclass(frozen=True, slots=True)
class Ground:
    """One PostgreSQL and one Valkey for many systems, one after another; `postgres` and `valkey` may be harmed."""

    servers: Servers
    postgres: OwnServer | None = None
    valkey: OwnServer | None = None


@contextmanager
def own_ground(**settings: str) -> Iterator[Ground]:
    """Servers of this run alone, in the first folder that no other run uses; their data are kept for the next run.

    `settings` are PostgreSQL's.
    """
    for number in range(_SLOTS):
        folder = FOLDER / f"servers-{number}"
        postgres, valkey = new_postgres(folder / "postgres", **settings), new_valkey(folder / "valkey")
        try:
            start_or_renew(postgres)
        except FolderInUse:
            continue
        try:
            start_or_renew(valkey)
            servers = Servers(postgres.url_of("postgres"), valkey.url, True)
            yield Ground(servers, OwnServer(postgres), OwnServer(valkey))
        finally:
            valkey.stop()
            postgres.stop()
        return
    raise RuntimeError(f"all {_SLOTS} folders in {FOLDER} are in use")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class System:
    """The processes of one system by role. `database_url` and `redis_url` are how we reach the servers: past any proxy."""

    folder: Path
    database_url: str
    redis_url: str
    token: str
    workspace_id: UUID
    port: int = field(default_factory=free_port)
    settings: dict[str, str] = field(default_factory=dict)
    processes: int = 1
    running: dict[str, Process] = field(default_factory=dict)
    _started: list[Process] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def open(cls, ground: Ground, folder: Path, **settings: str) -> AsyncIterator[System]:
        """A fresh database with the ledger in it, and an empty Redis; all processes are ended at the end."""
        folder.mkdir(parents=True, exist_ok=True)
        template = await make_template(ground.servers)
        url = await create_database(ground.servers, f"chaos{os.getpid()}", template)
        try:
            async with redis.asyncio.from_url(ground.servers.redis_url) as client:
                await client.flushall() if ground.servers.private else await client.flushdb()
            connection = await asyncpg.connect(url)
            await connection.execute(LEDGER)
            workspace = await create_workspace(connection, "chaos")
            assert workspace is not None
            _, token = await create_token(connection, workspace_id=workspace.id, role="editor", name="chaos")
            await connection.close()
            system = cls(folder, url, ground.servers.redis_url, token, workspace.id, settings=settings)
            system.ledger.touch()
            try:
                yield system
            finally:
                system.end_all()
        finally:
            await drop_database(ground.servers, url)

    @property
    def ledger(self) -> Path:
        """The file that the processors write."""
        return self.folder / "ledger.txt"

    @property
    def objects(self) -> Path:
        """Where the storage lies."""
        return self.folder / "objects"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self, **more: str) -> dict[str, str]:
        variables = {
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "LINGXI_DATA_DIR": str(self.folder / "data"),
            "STORAGE_URL": self.objects.as_uri(),
            "LINGXI_PORT": str(self.port),
            "LINGXI_FAILPOINTS_DIR": str(self.folder),
            LEDGER_VARIABLE: str(self.ledger),
        }
        return environment(**variables, **SETTINGS) | self.settings | more

    def start(self, role: str, **settings: str) -> Process:
        """Start a process; one of this role that ran before has to have ended."""
        command = [sys.executable, "-m", "lingxi", role]
        if role == "worker":
            command += ["--processes", str(self.processes)]
        label = f"{len(self._started) + 1:02}-{role}"
        process = Process(command, self.environment(**settings), self.folder, label)
        self._started.append(process)
        self.running[role] = process
        return process

    async def is_led(self) -> bool:
        """Does somebody hold the lock of dispatch?"""
        async with redis.asyncio.from_url(self.redis_url) as client:
            return bool(await client.exists(DISPATCH_LOCK_KEY))

    def children(self) -> list[int]:
        """Worker processes that live, by their parent's own list."""
        parent = self.running["worker"]
        if parent.exit_code is not None:
            return []
        try:
            listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        except FileNotFoundError:
            return []
        return [int(pid) for pid in listed]

    async def guard(self) -> None:
        """Until cancelled; RuntimeError when a process ended by itself, and not by a SIGKILL: it refused to start or gave up."""
        while True:
            for role, process in self.running.items():
                if process.exit_code not in (None, -signal.SIGKILL):
                    raise RuntimeError(f"{role} ended by itself ({process.exit_code}): {process.tail(800)}")
            await asyncio.sleep(0.2)

    def end_all(self) -> None:
        """SIGKILL whatever still runs, by the groups that we started."""
        for process in self._started:
            process.kill_group()

    def tracebacks(self) -> list[str]:
        """Sentences about unexpected errors in any log."""
        found = []
        for process in self._started:
            try:
                process.assert_clean_log()
            except AssertionError as error:
                found.append(str(error)[:3000])
        return found
