"""What may be wrong with a PostgreSQL server for us, as facts; the sentences are the command line's."""

from dataclasses import dataclass
from datetime import datetime

from lingxi.db.query import sql
from lingxi.db.session import Connection

OLDEST_VERSION_NUMBER = 150_000


@dataclass(frozen=True, slots=True)
class PostgresReport:
    """`forbidden_tables` are those that the role may not read and write; `now` is the server's clock."""

    version: str
    version_number: int
    now: datetime
    is_replica: bool
    role: str
    database: str
    encoding: str
    max_connections: int
    may_create: bool
    forbidden_tables: tuple[str, ...]


async def postgres_report(connection: Connection) -> PostgresReport:
    """Look at the server that `connection` leads to."""
    row = await connection.fetchrow(sql("checks/server"))
    assert row is not None
    return PostgresReport(**{**row, "forbidden_tables": tuple(row["forbidden_tables"])})
