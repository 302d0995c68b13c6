"""Fixtures of all tests: real servers, a fresh database a test, processes that are ended and read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio

from lingxi.observability.logging import configure
from tests.support.databases import create_database, drop_database, make_template, migrate
from tests.support.least_rights import refusals
from tests.support.processes import Processes
from tests.support.proxy import CuttingProxy
from tests.support.s3 import S3Server
from tests.support.servers import OwnServer, Servers, new_postgres, new_valkey, open_servers


@pytest.fixture(autouse=True)
def logging_as_served() -> None:
    """The product's own log lines, whatever an earlier test set; pytest's would write out the locals of each traceback."""
    configure("info")


@pytest.fixture(scope="session")
def worker_name() -> str:
    """xdist's name of this process, or `main`."""
    return os.environ.get("PYTEST_XDIST_WORKER", "main")


@pytest.fixture(scope="session")
def servers(worker_name: str) -> Iterator[Servers]:
    """PostgreSQL and Redis, started once a test process; see `tests/support/servers.py`."""
    with open_servers(worker_name) as started:
        yield started


@pytest.fixture(scope="session")
def s3_server_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server with the bucket `media`, started once a test process when a test first needs it."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3_server(s3_server_of_all: S3Server) -> Iterator[S3Server]:
    """The S3 server of this test process, awake while a test needs it."""
    with s3_server_of_all.awake() as server:
        yield server


@pytest.fixture(scope="session")
def template(servers: Servers) -> str:
    """The name of the migrated database that tests are cloned from."""
    return asyncio.run(make_template(servers))


@pytest.fixture
async def database_url(servers: Servers, template: str, worker_name: str) -> AsyncIterator[str]:
    """A fresh, migrated database of this test alone."""
    url = await create_database(servers, worker_name, template)
    yield url
    await drop_database(servers, url)


@pytest.fixture
async def empty_database_url(servers: Servers, worker_name: str) -> AsyncIterator[str]:
    """A fresh database without any table."""
    url = await create_database(servers, worker_name, "template0")
    yield url
    await drop_database(servers, url)


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool[asyncpg.Record]]:
    """A pool of plain asyncpg connections to `database_url`."""
    async with asyncpg.create_pool(database_url, min_size=1, max_size=10) as opened:
        yield opened


@pytest.fixture
async def redis_url(servers: Servers) -> AsyncIterator[str]:
    """A Redis that holds nothing, of this test process alone; at the end it must not have refused Lingxi anything."""
    async with redis.asyncio.from_url(servers.redis_url) as client:
        if servers.private:
            await client.flushall()
        else:
            await client.flushdb()
        yield servers.redis_url
        refused = await refusals(client)
    assert refused == []


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[OwnServer]:
    """A Redis of this test alone, to be stopped, killed, frozen and started again."""
    with new_valkey(tmp_path / "own-valkey") as server:
        yield OwnServer(server)


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[OwnServer]:
    """A migrated PostgreSQL of this test alone, to be stopped, killed, frozen and started again."""
    with new_postgres(tmp_path / "own-postgres") as server:
        migrate(server.url)
        yield OwnServer(server)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Starts `lingxi …` processes; at the end all are killed, and a traceback in any log fails the test."""
    folder = tmp_path / "processes"
    folder.mkdir()
    started = Processes(folder)
    yield started
    started.close()
    started.assert_clean_logs()


@pytest.fixture
def proxy_to() -> Iterator[Callable[[str], CuttingProxy]]:
    """`proxy_to(url)`: a running proxy in front of the server of that URL, closed after the test."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(CuttingProxy.to(url))
