"""A fresh, migrated database for each test, cloned from a template in some ten milliseconds."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
from itertools import count
from urllib.parse import urlsplit

import asyncpg

from tests.support.least_rights import RIGHTS, ROLES, TEST_DATABASES, grant_rights
from tests.support.servers import ROOT, Servers

_EMPTY_PREFIX = "lingxi_empty_"
_TEMPLATE_PREFIX = "lingxi_template_"
_TEMPLATE_LOCK = 7_134_201_902
_number = count(1)


def url_of(server_url: str, database: str) -> str:
    """The same server, another database."""
    return urlsplit(server_url)._replace(path=f"/{database}").geturl()


def migrate(database_url: str) -> None:
    """Run the product's own migrations."""
    module = importlib.import_module("lingxi.db.migrate")
    done = module.migrate(database_url)
    if inspect.isawaitable(done):
        asyncio.run(_await(done))


async def _await(done: object) -> None:
    assert inspect.isawaitable(done)
    await done


async def make_template(servers: Servers) -> str:
    """The name of a database with all migrations of the code as it is now; made once per state of the code."""
    name = _TEMPLATE_PREFIX + _schema_digest()
    connection = await asyncpg.connect(servers.database_url)
    try:
        await connection.execute("select pg_advisory_lock($1)", _TEMPLATE_LOCK)
        if servers.private:
            await _drop_leftovers(connection, keep=name)
        if not await connection.fetchval("select datistemplate from pg_database where datname = $1", name):
            await connection.execute(f'drop database if exists "{name}" with (force)')
            await connection.execute(f'create database "{name}"')
            await asyncio.to_thread(migrate, url_of(servers.database_url, name))
            await _grant(url_of(servers.database_url, name))
            await connection.execute(f'alter database "{name}" is_template true')
    finally:
        await connection.close()
    return name


async def _grant(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await grant_rights(connection)
    finally:
        await connection.close()


async def create_database(servers: Servers, worker: str, template: str) -> str:
    """Clone `template`; returns the URL of the clone."""
    prefix = _EMPTY_PREFIX if template == "template0" else TEST_DATABASES
    name = f"{prefix}{worker}_{next(_number)}"
    connection = await asyncpg.connect(servers.database_url)
    try:
        await connection.execute(f'drop database if exists "{name}" with (force)')
        await connection.execute(f'create database "{name}" template "{template}"')
    finally:
        await connection.close()
    return url_of(servers.database_url, name)


async def drop_database(servers: Servers, database_url: str) -> None:
    """Drop it, and end whoever is still connected."""
    name = urlsplit(database_url).path.removeprefix("/")
    connection = await asyncpg.connect(servers.database_url)
    try:
        await connection.execute(f'drop database if exists "{name}" with (force)')
    finally:
        await connection.close()


async def _drop_leftovers(connection: asyncpg.Connection[asyncpg.Record], keep: str) -> None:
    """Templates of older code, and databases of a run that was killed."""
    query = "select datname from pg_database where datname ^@ any($1::text[]) and datname <> $2"
    for row in await connection.fetch(query, [_TEMPLATE_PREFIX, TEST_DATABASES, _EMPTY_PREFIX], keep):
        await connection.execute(f'alter database "{row[0]}" is_template false')
        await connection.execute(f'drop database "{row[0]}" with (force)')


def _schema_digest() -> str:
    digest = hashlib.sha256()
    digest.update(ROLES.read_bytes() + RIGHTS.read_bytes())
    package = ROOT / "src" / "lingxi" / "db"
    for path in sorted(p for p in package.rglob("*") if p.suffix in (".py", ".sql")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
