"""Migrations: Alembic keeps the order and the version table, the steps themselves are SQL files.

Any number of processes may start at once: an advisory lock lets one of them migrate, the rest then find nothing to do.
"""

import asyncio
from importlib import resources
from pathlib import Path
from typing import cast

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from lingxi.db.pooler import split_dsn
from lingxi.db.revision import head_revision

_LOCK = 0x11A671  # any number that only we take

HEAD = "head"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_folder()))
    config.set_main_option("path_separator", "os")
    return config


def _folder() -> Path:
    return cast(Path, resources.files("lingxi.db") / "migrations")


class NeedsDirectAddress(Exception):
    """The address leads to a pooler in transaction mode; the message says what to set."""


def _engine(dsn: str) -> AsyncEngine:
    address, through_pooler = split_dsn(dsn)
    if through_pooler:  # prepared statements of ours would stay behind in connections of others
        raise NeedsDirectAddress(
            "DATABASE_URL leads to a pooler (pgbouncer=true), which the schema cannot be looked at through: "
            "set DATABASE_DIRECT_URL to PostgreSQL's own address."
        )

    # The driver reads the URL, as everywhere: sslmode, sslrootcert …
    async def connect() -> asyncpg.Connection:
        return await asyncpg.connect(address)

    return create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)


async def migrate(dsn: str, revision: str = HEAD) -> tuple[str | None, str | None]:
    """Bring the database to `revision`; answers the revisions before and after. All in one transaction.

    A database that a later version has migrated is left as it is (see `revision.is_current`).
    """
    engine = _engine(dsn)
    try:
        async with engine.begin() as connection:
            await connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            return await connection.run_sync(_upgrade, revision)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection, revision: str) -> tuple[str | None, str | None]:
    config = _config()
    config.attributes["connection"] = connection
    before = MigrationContext.configure(connection).get_current_revision()
    if before is not None and before > head_revision():
        return before, before
    command.upgrade(config, revision)
    return before, MigrationContext.configure(connection).get_current_revision()


async def current_revision(dsn: str) -> str | None:
    """The revision of the database; None when it was never migrated."""
    engine = _engine(dsn)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(lambda c: MigrationContext.configure(c).get_current_revision())
    finally:
        await engine.dispose()


def migrate_sync(dsn: str, revision: str = HEAD) -> tuple[str | None, str | None]:
    """`migrate` for callers without an event loop."""
    return asyncio.run(migrate(dsn, revision))
