"""Connections by way of a pooler in transaction mode (PgBouncer): a server's connection is ours for one transaction only.

So nothing may be kept between two transactions. No statement is prepared by name; each gets a transaction, so that its Parse and
its Bind, which are two messages, meet the same server whatever the driver sends between them; and what hot connections set for
their session is set with BEGIN. An address says so by `?pgbouncer=true`, as Prisma's and others' do.
"""

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

PARAMETER = "pgbouncer"


def split_dsn(dsn: str) -> tuple[str, bool]:
    """The address that asyncpg understands, and whether it leads to a pooler in transaction mode."""
    parts = urlsplit(dsn)
    query = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value) for name, value in query if name != PARAMETER]
    if len(kept) == len(query):
        return dsn, False
    through = any(name == PARAMETER and value.lower() in ("true", "1", "yes") for name, value in query)
    return parts._replace(query=urlencode(kept)).geturl(), through


class ThroughPooler(asyncpg.Connection):
    """A connection whose every statement is in a transaction; `connect` it with `statement_cache_size=0`."""

    begin_settings: ClassVar[str] = ""
    """`SET LOCAL …;` statements that go out with each BEGIN, without a round trip of their own."""

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        if not args:  # a simple query: one message, one implicit transaction
            opens = bool(self.begin_settings) and query.startswith("BEGIN")
            return await super().execute(
                f"{query} {self.begin_settings}" if opens else query, timeout=timeout
            )
        if self.is_in_transaction():
            return await super().execute(query, *args, timeout=timeout)
        async with self.transaction():
            return await super().execute(query, *args, timeout=timeout)

    async def executemany(self, command: str, args: Any, *, timeout: float | None = None) -> None:
        if self.is_in_transaction():
            return await super().executemany(command, args, timeout=timeout)
        async with self.transaction():
            return await super().executemany(command, args, timeout=timeout)

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        if self.is_in_transaction():
            return await super().fetch(query, *args, **options)
        async with self.transaction():
            return await super().fetch(query, *args, **options)

    async def fetchval(self, query: str, *args: Any, **options: Any) -> Any:
        if self.is_in_transaction():
            return await super().fetchval(query, *args, **options)
        async with self.transaction():
            return await super().fetchval(query, *args, **options)

    async def fetchrow(self, query: str, *args: Any, **options: Any) -> Any:
        if self.is_in_transaction():
            return await super().fetchrow(query, *args, **options)
        async with self.transaction():
            return await super().fetchrow(query, *args, **options)


def connection_class(settings: Mapping[str, str]) -> type[ThroughPooler]:
    """The class of connections that have `settings` in each transaction."""
    text = " ".join(f"set local {name} = '{value}';" for name, value in settings.items())
    return type("ThroughPooler", (ThroughPooler,), {"begin_settings": text}) if text else ThroughPooler
