"""Debian's PostgreSQL and Redis with TLS (those from wheels have none), as an operator sets them up."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

import asyncpg

from lingxi.embedded import EmbeddedPostgres, EmbeddedValkey
from lingxi.embedded.supervise import free_port
from tests.support.certificates import Certificates, make_certificates
from tests.support.databases import migrate
from tests.support.least_rights import PASSWORD, grant_rights, redis_user
from tests.support.programs import cannot, need_program


@dataclass(frozen=True, slots=True)
class Secured:
    """Two servers whose certificates are for `localhost` alone; PostgreSQL refuses the application without TLS."""

    certificates: Certificates
    postgres: EmbeddedPostgres
    redis: EmbeddedValkey
    tls_port: int

    def database_url(self, *, host: str = "localhost", authority: Path | None = None) -> str:
        """The application's, with `sslmode=verify-full`."""
        query = urlencode(
            {"sslmode": "verify-full", "sslrootcert": authority or self.certificates.authority},
            quote_via=quote,
        )
        return f"postgresql://lingxi_app:{PASSWORD}@{host}:{self.postgres.port}/lingxi?{query}"

    def redis_url(self, *, host: str = "localhost", authority: Path | None = None) -> str:
        """The application's, by `rediss://`."""
        query = urlencode({"ssl_ca_certs": authority or self.certificates.authority}, quote_via=quote)
        return f"rediss://lingxi:{PASSWORD}@{host}:{self.tls_port}/0?{query}"


@contextmanager
def secured_servers(folder: Path) -> Iterator[Secured]:
    """Both servers, migrated, with the application's role and user."""
    made = make_certificates(folder / "tls")
    with _postgres(folder / "postgres", made) as postgres, _redis(folder / "redis", made) as (redis, port):
        yield Secured(made, postgres, redis, port)


@contextmanager
def _postgres(folder: Path, made: Certificates) -> Iterator[EmbeddedPostgres]:
    key = folder / "server.key"
    server = EmbeddedPostgres(folder, fast=True, binaries=newest_debian_postgres())
    with server:  # once without TLS: makes the cluster and the rights
        migrate(server.url)
        asyncio.run(_grant(server.url))
    shutil.copy(made.key, key)
    cluster = server.data.stat()
    key.chmod(0o600)
    os.chown(key, cluster.st_uid, cluster.st_gid)
    rules = server.data / "pg_hba.conf"
    rules.write_text("hostnossl all lingxi_app all reject\n" + rules.read_text())
    settings = {"ssl": "on", "ssl_cert_file": str(made.server), "ssl_key_file": str(key)}
    with EmbeddedPostgres(folder, fast=True, binaries=newest_debian_postgres(), settings=settings) as started:
        yield started


async def _grant(url: str) -> None:
    connection = await asyncpg.connect(url)
    await grant_rights(connection)
    await connection.close()


@contextmanager
def _redis(folder: Path, made: Certificates) -> Iterator[tuple[EmbeddedValkey, int]]:
    """The plain port stays for the administrator who looks at it."""
    program = Path(need_program("redis-server", "that speaks TLS"))
    port = free_port()
    settings = {
        "tls-port": str(port),
        "tls-cert-file": str(made.server),
        "tls-key-file": str(made.key),
        "tls-ca-cert-file": str(made.authority),
        "tls-auth-clients": "no",
        "user": redis_user(),
    }
    with EmbeddedValkey(folder, server=program, settings=settings) as started:
        yield started, port


def newest_debian_postgres() -> Path:
    """The `bin` folder of the distribution's newest PostgreSQL; the test cannot run without one."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("[0-9]*/bin/pg_dump"), key=lambda path: int(path.parts[4])
    )
    if not found:
        cannot("the distribution's PostgreSQL is needed: the package postgresql")
    return found[-1].parent
