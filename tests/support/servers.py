"""Real PostgreSQL and Redis for the tests.

Each test process (each xdist worker) has servers of its own, started in the first data folder below `.lingxi/test`
that no other process uses; the folders are kept, so that the second run starts warm. Three kinds:

- by default the wheels' PostgreSQL and Valkey;
- `LINGXI_TEST_SERVERS=debian`: the PostgreSQL and the Redis that the system has, started the same way;
- `DATABASE_URL` and `REDIS_URL`: servers that somebody else runs; the role must be allowed to create databases and roles, and
  the logical Redis databases 0–15 are used (one a worker) and flushed.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lingxi.embedded import EmbeddedError, EmbeddedPostgres, EmbeddedValkey, FolderInUse
from tests.support.least_rights import has_redis_user, redis_user
from tests.support.waiting import wait_until_sync

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / ".lingxi" / "test"
_SLOTS = 32


@dataclass(frozen=True, slots=True)
class Servers:
    """`database_url` is a database to connect to for creating others; `private` servers are nobody else's."""

    database_url: str
    redis_url: str
    private: bool


@contextmanager
def open_servers(worker: str) -> Iterator[Servers]:
    """The servers of this test process; `worker` is xdist's name of it (`gw0`) or `main`."""
    database_url, redis_url = os.environ.get("DATABASE_URL"), os.environ.get("REDIS_URL")
    if database_url and redis_url:
        number = int(worker.removeprefix("gw")) if worker.startswith("gw") else 15
        yield Servers(database_url, urlsplit(redis_url)._replace(path=f"/{number % 16}").geturl(), False)
        return
    if database_url or redis_url:
        raise RuntimeError("set both DATABASE_URL and REDIS_URL for tests on other servers, or neither")
    with _first_free_slot() as servers:
        yield servers


@contextmanager
def _first_free_slot() -> Iterator[Servers]:
    for number in range(_SLOTS):
        folder = DATA / f"{flavour()}-{number}"
        postgres, valkey = new_postgres(folder / "postgres"), new_valkey(folder / "valkey")
        try:
            start_or_renew(postgres)
        except FolderInUse:
            continue
        try:
            start_or_renew(valkey)
            has_redis_user(valkey.password)
            yield Servers(postgres.url_of("postgres"), valkey.url, True)
        finally:
            valkey.stop()
            postgres.stop()
        return
    raise RuntimeError(f"all {_SLOTS} folders in {DATA} are in use")


def start_or_renew(server: EmbeddedPostgres | EmbeddedValkey) -> None:
    """Start; a kept folder that does not start any more (a crashed machine, another version) is made anew."""
    try:
        server.start()
    except FolderInUse:
        raise
    except EmbeddedError:
        shutil.rmtree(server.folder)
        server.start()


def flavour() -> str:
    """`wheels` or `debian`."""
    return os.environ.get("LINGXI_TEST_SERVERS", "wheels")


def new_postgres(folder: Path, **settings: str) -> EmbeddedPostgres:
    """A PostgreSQL of the flavour under test, not started."""
    settings = {"shared_buffers": "128MB", "autovacuum_naptime": "5s", **settings}
    return EmbeddedPostgres(folder, fast=True, binaries=_debian_postgres(), settings=settings)


def new_valkey(folder: Path, **settings: str) -> EmbeddedValkey:
    """A Valkey or Redis of the flavour under test, not started."""
    return EmbeddedValkey(folder, server=_debian_redis(), settings={"user": redis_user(), **settings})


def _debian_postgres() -> Path | None:
    if flavour() != "debian":
        return None
    versions = sorted(int(path.name) for path in Path("/usr/lib/postgresql").glob("[0-9]*"))
    if not versions:
        raise RuntimeError("LINGXI_TEST_SERVERS=debian needs the package postgresql")
    return Path(f"/usr/lib/postgresql/{versions[0]}/bin")


def _debian_redis() -> Path | None:
    if flavour() != "debian":
        return None
    if (found := shutil.which("redis-server")) is None:
        raise RuntimeError("LINGXI_TEST_SERVERS=debian needs the package redis-server")
    return Path(found)


class OwnServer:
    """A server of one test alone, which may be stopped, killed, frozen and started again on the same port and data."""

    def __init__(self, server: EmbeddedPostgres | EmbeddedValkey) -> None:
        self._server = server
        if isinstance(server, EmbeddedValkey):
            has_redis_user(server.password)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def pid(self) -> int:
        assert self._server.pid is not None, "the server does not run"
        return self._server.pid

    @property
    def folder(self) -> Path:
        """Its data folder."""
        return self._server.folder

    def start(self, **settings: str) -> None:
        """Start (again) and wait until it takes connections; `settings` hold for this start alone (`_` stands for `-`)."""
        own, kept = self._server._settings, dict(self._server._settings)
        own.update({name.replace("_", "-"): value for name, value in settings.items()})
        try:
            self._server.start()
        finally:
            own.clear()
            own.update(kept)

    def stop(self) -> None:
        """Shut down in order."""
        self._server.stop()

    def kill(self) -> None:
        """SIGKILL the server and all its processes."""
        for pid in self._family():
            os.kill(pid, signal.SIGKILL)
        wait_until_sync(lambda: self._server.pid is None)
        self._server.release()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, and nothing answers."""
        for pid in self._family():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT after `freeze`."""
        for pid in self._family():
            os.kill(pid, signal.SIGCONT)

    def _family(self) -> list[int]:
        """The server's own process first, then its children."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [self.pid, *map(int, children.read_text().split())]
