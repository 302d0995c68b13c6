"""All of Lingxi on this machine: servers (embedded where none are set), migrations, access, API and workers.

`up` runs one for as long as the user likes, `demo` runs one in a folder of its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingxi.cli import running
from lingxi.cli.children import Child
from lingxi.cli.exits import not_possible
from lingxi.cli.interrupts import Interrupts

if TYPE_CHECKING:
    from lingxi.embedded import EmbeddedPostgres, EmbeddedValkey
    from lingxi.settings import Settings

READY_TIMEOUT_SECONDS = 60.0
STOP_MARGIN_SECONDS = 5.0
TEND_SECONDS = 1.0
WORKSPACE = "default"


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """One worker child: its name in messages, and the arguments after `lingxi worker`."""

    name: str
    arguments: tuple[str, ...] = ()


class Stack:
    """Start with `start`, end with `stop`, which may be called at any moment, also after a start that failed."""

    def __init__(
        self,
        settings: Settings,
        interrupts: Interrupts,
        *,
        workers: tuple[WorkerPlan, ...],
        say: Callable[[str], None],
        extra_environment: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._interrupts = interrupts
        self._workers = workers
        self._say = say
        self._extra_environment = dict(extra_environment or {})
        self._postgres: EmbeddedPostgres | None = None
        self._valkey: EmbeddedValkey | None = None
        self.children: dict[str, Child] = {}
        self.database_url = settings.database_url
        self.redis_url = settings.redis_url
        self.data_dir = settings.data_dir
        self.port = settings.lingxi_port
        self.token = ""
        self._told = False

    @property
    def url(self) -> str:
        """Where the API answers."""
        host = self._settings.lingxi_host
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
        return f"http://{shown}:{self.port}"

    async def start(self) -> None:
        """Everything, in order. Raises Interrupted when asked to end, CommandError when a part does not start.

        Embedded servers are started on this thread, blocking it: the kernel ends them when the thread that
        started them ends, so it must be the main one.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.port = _usable_port(self._settings.lingxi_host, self.port)
        try:
            self._start_servers()
        finally:
            self._interrupts.check()  # also when a start failed because Ctrl-C reached one of its tools
        await self._interrupts.unless_asked(self._prepare_database())
        await self._start_children()
        await self._interrupts.unless_asked(self._wait_until_ready())
        running.write(
            self.data_dir, running.Running(os.getpid(), self.url, self.database_url, self.redis_url)
        )
        self._told = True

    async def stop(self) -> None:
        """Ends the workers and the API, then the servers. Safe to call twice."""
        if self._told:  # another `up` on this folder keeps its own
            running.remove(self.data_dir)
            self._told = False
        grace_seconds = self._settings.grace_seconds + STOP_MARGIN_SECONDS
        await asyncio.gather(
            *(
                child.stop(grace_seconds=grace_seconds, hurry=lambda: self._interrupts.hurry)
                for child in self.children.values()
            )
        )
        self.children.clear()
        for server in (self._valkey, self._postgres):
            if server is not None:
                server.stop()
        self._valkey = self._postgres = None

    async def tend(self) -> None:
        """Keeps the embedded servers running until the end is asked for, on the ports and data that they have."""
        while not self._interrupts.asked:
            try:
                await asyncio.wait_for(self._interrupts.wait(), TEND_SECONDS)
            except TimeoutError:
                for server in (self._postgres, self._valkey):
                    if server is not None and server.pid is None:
                        self._say(f"{server.programs[0]} ended by itself; starting it again")
                        server.stop()
                        server.start()

    def check(self) -> None:
        """Raises CommandError once a child was given up on."""
        for child in self.children.values():
            child.check()

    def _start_servers(self) -> None:
        from lingxi.embedded import EmbeddedPostgres, EmbeddedValkey

        if not self.database_url:
            self._say("starting PostgreSQL")
            self._postgres = EmbeddedPostgres(self.data_dir / "postgres")
            self._postgres.start()
            self.database_url = self._postgres.url
        self._interrupts.check()
        if not self.redis_url:
            self._say("starting Valkey")
            self._valkey = EmbeddedValkey(self.data_dir / "valkey")
            self._valkey.start()
            self.redis_url = self._valkey.url

    async def _prepare_database(self) -> None:
        from lingxi.cli.access import ensure_default_token
        from lingxi.db.migrate import NeedsDirectAddress, migrate

        try:
            before, after = await migrate(self._settings.database_direct_url or self.database_url)
        except NeedsDirectAddress as error:
            raise not_possible(str(error)) from None
        if before != after:
            self._say(f"migrated the database to {after}")
        self.token = await ensure_default_token(self.database_url, WORKSPACE, self.data_dir / "token")

    async def _start_children(self) -> None:
        from lingxi.settings import child_environment

        environment = child_environment(
            database_url=self.database_url,
            redis_url=self.redis_url,
            lingxi_data_dir=str(self.data_dir),
            lingxi_host=self._settings.lingxi_host,
            lingxi_port=str(self.port),
            **self._extra_environment,
        )
        plans = [("api", ("api",)), *((plan.name, ("worker", *plan.arguments)) for plan in self._workers)]
        for name, arguments in plans:
            self._interrupts.check()
            child = Child(
                name,
                [sys.executable, "-m", "lingxi", *arguments],
                environment=environment,
                log_path=self.data_dir / "logs" / f"{name}.log",
                on_restart=self._tell_restart,
            )
            self.children[name] = child
            await child.start()

    async def _wait_until_ready(self) -> None:
        """The API answers /health/ready, and every queue that workers of ours serve has had a heartbeat."""
        import httpx

        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=2.0) as http:
            try:
                async with asyncio.timeout(READY_TIMEOUT_SECONDS):
                    while not await _is_ready(http, set(self._settings.served_queues)):
                        self.check()
                        await asyncio.sleep(0.05)
            except TimeoutError:
                words = "; ".join(f"{child.name}: {child.last_words()}" for child in self.children.values())
                raise not_possible(f"Not ready after {READY_TIMEOUT_SECONDS:.0f} s ({words})") from None
        for child in self.children.values():
            child.mark_ready()

    def _tell_restart(self, name: str, exit_code: int, pause_seconds: float) -> None:
        how = f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with status {exit_code}"
        self._say(f"{name} {how}; starting it again in {pause_seconds:g} s")


def _usable_port(host: str, port: int) -> int:
    """The port, or a free one for 0. CommandError when it is taken, before anything was started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise not_possible(
                f"{host}:{port} cannot be listened on ({error.strerror}); choose another with --port"
            ) from None
        return int(probe.getsockname()[1])


async def _is_ready(http: object, served: set[str]) -> bool:
    import httpx

    assert isinstance(http, httpx.AsyncClient)
    try:
        if (await http.get("/api/v1/health/ready")).status_code != 200:
            return False
        queues = await http.get("/api/v1/health/queues")
    except httpx.TransportError:
        return False
    if queues.status_code != 200:
        return False
    beating = {one["queue"] for one in queues.json()["queues"] if one["heartbeat"]["ageSeconds"] is not None}
    return served <= beating
