"""The PostgreSQL and Valkey that all sides of a benchmark share, with the settings that the product itself uses.

fsync and synchronous_commit are on, Valkey keeps its data in memory. One fresh database per side and
round, so that nobody runs on another's tables.
"""

import asyncio
import contextlib
import pathlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import asyncpg

from lingxi.embedded import EmbeddedPostgres, EmbeddedValkey

# On top of the launcher's own settings: no checkpoint in the middle of a round, and no statement statistics, which
# would cost those most who send the most statements. `sse` switches them on, since it counts.
POSTGRES_SETTINGS = {"max_wal_size": "4GB", "shared_preload_libraries": ""}


@dataclass(frozen=True, slots=True)
class Servers:
    """Addresses of the running pair and the folder that holds their data and all logs."""

    root: pathlib.Path
    postgres: EmbeddedPostgres
    valkey: EmbeddedValkey

    def database_url(self, name: str) -> str:
        return self.postgres.url_of(name)

    @property
    def redis_url(self) -> str:
        return self.valkey.url

    @property
    def postgres_pid(self) -> int:
        return self.postgres.pid or 0

    @property
    def valkey_pid(self) -> int:
        return self.valkey.pid or 0


@contextlib.contextmanager
def running_servers(*, settings: dict[str, str] | None = None) -> Iterator[Servers]:
    """Start both in a folder of their own, which is removed at the end. Call it from the main thread."""
    with tempfile.TemporaryDirectory(prefix="lingxi-bench-", ignore_cleanup_errors=True) as folder:
        root = pathlib.Path(folder)
        root.chmod(0o755)  # PostgreSQL runs as an unprivileged user below it when we are root
        with (
            EmbeddedPostgres(root / "postgres", settings=POSTGRES_SETTINGS | (settings or {})) as postgres,
            EmbeddedValkey(root / "valkey") as valkey,
        ):
            yield Servers(root, postgres, valkey)


@contextlib.asynccontextmanager
async def fresh_database(servers: Servers, name: str, *, template: str = "template1") -> AsyncIterator[str]:
    """A database like `template` and an empty Valkey; the database is dropped afterwards. Yields its address."""
    admin = await asyncpg.connect(servers.database_url("postgres"))
    try:
        await admin.execute(f'drop database if exists "{name}" with (force)')
        await admin.execute(f'create database "{name}" template "{template}" strategy file_copy')
        await redis_command(servers, "FLUSHALL")
        await admin.execute("checkpoint")
        yield servers.database_url(name)
        await admin.execute(f'drop database if exists "{name}" with (force)')
    finally:
        await admin.close()


async def redis_command(servers: Servers, *words: str) -> bytes:
    """One command over a raw connection; the reply's first line. Enough for FLUSHALL, LLEN and ZCARD."""
    reader, writer = await asyncio.open_connection("127.0.0.1", servers.valkey.port)
    try:
        for command in (("AUTH", servers.valkey.password), words):
            parts = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in command)
            writer.write(f"*{len(command)}\r\n{parts}".encode())
            reply = await reader.readline()
            if reply.startswith(b"-"):
                raise RuntimeError(reply.decode().strip())
        return reply.strip()
    finally:
        writer.close()
