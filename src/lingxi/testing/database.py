"""A fresh, migrated database for each bench, on a server that is started once a test process."""

import atexit
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from lingxi.db.migrate import migrate
from lingxi.db.session import connect
from lingxi.embedded import EmbeddedPostgres, FolderInUse
from lingxi.settings import load_settings

_SLOTS = 32
_started: list[EmbeddedPostgres] = []


def server_url() -> str:
    """`DATABASE_URL`, else a PostgreSQL from the wheels, in the first folder of `.lingxi/testing` that nobody else uses.

    It is started by the first who asks, from the main thread, and ends with the process; the folder is kept.
    """
    if url := load_settings().database_url:
        return url
    if not _started:
        _started.append(_start(load_settings().data_dir / "testing"))
    return _started[0].url_of("postgres")


def _start(folder: Path) -> EmbeddedPostgres:
    for number in range(_SLOTS):
        server = EmbeddedPostgres(
            folder / f"postgres-{number}", fast=True, settings={"shared_buffers": "64MB"}
        )
        try:
            server.start()
        except FolderInUse:
            continue
        atexit.register(server.stop)
        return server
    raise RuntimeError(f"all {_SLOTS} folders in {folder} are in use")


class FreshDatabase:
    """A database of its own on that server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._name = f"lingxi_bench_{uuid4().hex[:12]}"
        self.url = urlsplit(server)._replace(path=f"/{self._name}").geturl()

    async def create(self) -> None:
        """Make it, with all migrations."""
        await self._on_server(f'create database "{self._name}"')
        await migrate(self.url)

    async def drop(self) -> None:
        """Remove it, and end whoever is still connected."""
        await self._on_server(f'drop database if exists "{self._name}" with (force)')

    async def _on_server(self, statement: str) -> None:
        connection = await connect(self._server, name="lingxi bench")
        try:
            await connection.execute(statement)
        finally:
            await connection.close()
